//! What the rows of policies mean, against what the specification says: a small reading of OVN's matches on one side, a small reading of
//! the policies' own manifests (`causeway_testing::policy`) on the other, and random policies, pods and packets between them.
#![allow(clippy::unwrap_used)]

#[path = "policy_meaning/edits.rs"]
mod edits;
#[path = "policy_meaning/reading.rs"]
mod reading;
#[path = "policy_meaning/stage.rs"]
mod stage;
mod support;

use std::net::IpAddr;

use causeway_record::{Logging, NamedPort, Namespace, Pod, Protocol};
use causeway_testing::policy::{self as policy_spec, Choices, Person, Written};
use causeway_zone::{Direction, Meeting, Zone};
use ipnet::IpNet;
use proptest::prelude::*;
use reading::{Packet, Rows, network};
use serde_json::{Value, json};
use support::*;

// --------------------------------------------------------------------------------------------------- what is tried

const NAMESPACES: [&str; 4] = ["x", "y", "ns1", "ns2"];

fn choices() -> Choices {
    Choices {
        namespaces: NAMESPACES.to_vec(),
        pods: Choices::selectors_of_pods(),
        selectors: vec![
            json!({}),
            json!({"matchLabels": {"name": "x"}}),
            json!({"matchLabels": {"name": "ns2"}}),
            json!({"matchLabels": {"team": "a"}}),
            json!({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}),
        ],
        blocks: vec![
            json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.244.0.10/32", "10.20.0.0/24"]}}),
            json!({"ipBlock": {"cidr": "203.203.0.0/16"}}),
            json!({"ipBlock": {"cidr": "::/0", "except": ["fd00:10:244::/64"]}}),
            // These are so many subnets that they get a set of their own.
            json!({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.244.0.20/32", "198.51.100.1/32"]}}),
            json!({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.244.0.10/32", "198.51.100.1/32"]}}),
        ],
        ports: vec![
            json!({"port": 80}),
            json!({"protocol": "UDP", "port": 80}),
            json!({"port": 79, "endPort": 81}),
            json!({"protocol": "UDP"}),
            json!({"port": "http"}),
            json!({"protocol": "UDP", "port": "dns"}),
            json!({"port": "nobody-has-it"}),
        ],
        protocols: vec![
            Value::Null,
            json!([{"tcp": {"destinationPort": {"number": 80}}}]),
            json!([{"destinationNamedPort": "http"}]),
            json!([{"udp": {"destinationPort": {"number": 80}}}, {"destinationNamedPort": "dns"}]),
        ],
    }
}

/// The pod, as the specification sees it.
fn person(pod: &Pod) -> Person {
    let port =
        |named: &NamedPort| (named.name.to_string(), named.protocol.to_string().to_lowercase(), named.port);
    Person {
        namespace: pod.key.namespace.to_string(),
        name: pod.key.name.to_string(),
        labels: pod.labels.clone(),
        ports: pod.named_ports.iter().map(port).collect(),
    }
}

/// Whether the specification lets a packet pass.
fn passes(written: &Written, packet: &Packet<'_>) -> bool {
    let Packet { source, target, protocol, port, .. } = *packet;
    let (from, to) = (&person(packet.from), &person(packet.to));
    written.passes(&policy_spec::Packet { from, to, source, target, protocol, port })
}

fn people() -> Vec<Pod> {
    let mut all = Vec::new();
    for (n, namespace) in NAMESPACES.into_iter().enumerate() {
        for (m, name) in ["a", "b", "c"].into_iter().enumerate() {
            let at = 10 + 10 * n + m;
            let (four, six) = (format!("10.244.0.{at}/24"), format!("fd00:10:244::{at}/64"));
            let locked = [four.as_str(), six.as_str()];
            let own = |four: &str, six: &str| (format!("{four}{at}/24"), format!("{six}{at}/64"));
            let key = format!("{namespace}/{name}");
            let pod = match namespace {
                "ns1" | "ns2" => {
                    let (four, six) = if namespace == "ns1" {
                        own("10.20.0.", "fd20::")
                    } else {
                        own("203.203.0.", "2010:100:200::")
                    };
                    let (nad, tunnel) =
                        if namespace == "ns1" { ("ns1/blue", None) } else { ("ns2/green", Some(at as u32)) };
                    let own = [four.as_str(), six.as_str()];
                    pod(
                        &key,
                        "n1",
                        &[
                            ("default", "infrastructure-locked", &locked, None),
                            (nad, "primary", &own, tunnel),
                        ],
                    )
                }
                _ => pod(&key, "n1", &[("default", "primary", &locked, None)]),
            };
            let named = |name: &str, protocol, port| NamedPort { name: name.into(), protocol, port };
            // The same name is another number elsewhere, and some have none.
            let ports = match m {
                0 => vec![named("dns", Protocol::Udp, 80), named("http", Protocol::Tcp, 80)],
                1 => vec![named("http", Protocol::Tcp, 81)],
                _ => Vec::new(),
            };
            all.push(Pod { labels: [("pod".to_owned(), name.to_owned())].into(), named_ports: ports, ..pod });
        }
    }
    all
}

fn address(pod: &Pod, six: bool) -> IpAddr {
    let networks = pod.networks.clone().unwrap().unwrap().0;
    let primary = networks
        .values()
        .find(|network| network.role == Some(causeway_api::annotations::PodRole::Primary))
        .unwrap();
    primary.ip_addresses.iter().map(IpNet::addr).find(|ip| ip.is_ipv6() == six).unwrap()
}

/// What the zone says of the connection, once it runs; nothing of what has no ports.
fn said(zone: &Zone, packet: &Packet<'_>) -> Option<bool> {
    let protocol = Protocol::named(&packet.protocol.to_uppercase())?;
    let ends =
        [(packet.from, Direction::Egress, packet.target), (packet.to, Direction::Ingress, packet.source)];
    let allows = |(pod, direction, peer): (&Pod, Direction, IpAddr)| {
        let network = zone.network_of(zone.primary(&pod.key).unwrap()).unwrap();
        let port = packet.port;
        zone.policies_allow(&Meeting { pod: &pod.key, network, direction, peer, protocol, port })
    };
    Some(ends.into_iter().all(allows))
}

/// Namespaces and policies as they are written, on two nodes.
fn told(written: &Written) -> Zone {
    let mut zone = cluster(Ip::Dual, None);
    for (name, labels) in &written.namespaces {
        let namespace = Namespace {
            name: name.parse().unwrap(),
            labels: labels.clone(),
            deleting: false,
            logging: Logging::default(),
        };
        zone.apply_namespace(&namespace);
    }
    for (key, spec) in &written.policies {
        zone.apply_policy(&policy(key, spec.clone()));
    }
    for (name, spec) in &written.cluster {
        zone.apply_cluster_policy(&cluster_policy(name, spec.clone()));
    }
    zone
}

fn check(written: &Written, road: bool) -> Result<(), TestCaseError> {
    let mut zone = told(written);
    let people = people();
    people.iter().for_each(|pod| drop(zone.apply_pod(pod)));
    if road {
        zone.apply_connect(&connect("road", "compact", Ip::Dual, &["layer3_1", "layer2_5"]));
    }
    let rows = Rows::of(&zone);
    let joined = |one: &Pod, other: &Pod| {
        let (one, other) = (network(one), network(other));
        one == other || (road && one != "default" && other != "default")
    };
    for from in &people {
        for to in people.iter().filter(|to| joined(from, to)) {
            for (six, protocol, port) in
                [(false, "tcp", 80), (false, "udp", 80), (true, "tcp", 81), (true, "icmp6", 0)]
            {
                let packet =
                    Packet { from, to, source: address(from, six), target: address(to, six), protocol, port };
                let passes = passes(written, &packet);
                prop_assert_eq!(rows.passes(&packet), passes, "{:?}", packet);
                // What comes to itself and runs already is left alone.
                if let Some(said) = said(&zone, &packet).filter(|_| from.key != to.key) {
                    prop_assert_eq!(said, passes, "of a connection that runs: {:?}", packet);
                }
            }
        }
    }
    Ok(())
}

/// A rule that fails closed closes a pod to everybody but its own node, whose probes would end it else.
#[test]
fn its_node_reaches_a_pod_whatever_fails_closed() {
    let rule = json!({"action": "Deny", "from": [{"strangers": {}}]});
    let spec = json!({"tier": "Admin", "priority": 0, "subject": {"namespaces": {}}, "ingress": [rule]});
    let namespaces = NAMESPACES.into_iter().map(|name| (name.to_owned(), Default::default())).collect();
    let mut zone = told(&Written { namespaces, cluster: [("c".into(), spec)].into(), ..Written::default() });
    let people = people();
    people.iter().for_each(|pod| drop(zone.apply_pod(pod)));
    let rows = Rows::of(&zone);
    let (from, to) = (&people[1], &people[0]);
    for (source, passes) in [(address(from, false), false), ("10.244.0.2".parse().unwrap(), true)] {
        let packet = Packet { from, to, source, target: address(to, false), protocol: "tcp", port: 80 };
        assert_eq!(rows.may_pass(&packet, true), [passes].into(), "from {source}");
    }
}

fn written() -> impl Strategy<Value = Written> {
    let policies = prop::collection::btree_map(any::<u8>(), choices().policies(), 0..6);
    let cluster = prop::collection::btree_map(any::<u8>(), choices().cluster_policies(), 0..4);
    let teams = prop::collection::vec(any::<bool>(), NAMESPACES.len());
    (policies, cluster, teams).prop_map(|(policies, cluster, teams)| {
        let labels = |(name, team): (&str, bool)| {
            let team = team.then(|| ("team".to_owned(), "a".to_owned()));
            (name.to_owned(), [("name".to_owned(), name.to_owned())].into_iter().chain(team).collect())
        };
        Written {
            namespaces: NAMESPACES.into_iter().zip(teams).map(labels).collect(),
            policies: policies.into_values().collect(),
            cluster: cluster.into_values().collect(),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_mean_what_the_specification_says(written in written(), road in any::<bool>()) {
        check(&written, road)?;
    }
}
