//! The events of a history, drawn by chance: few names, so that they meet.

use std::collections::BTreeSet;

use causeway_api::policy::{PolicyId, Refusal};
use causeway_record::{
    ClusterPolicy, Connect, EndpointSlice, HostPort, Nad, NamedPort, Namespace, NetworkPolicy, Node,
    ObjectKey, Pod, Protocol, Service,
};
use causeway_types::{ConnectName, NamespaceName, NetworkSet, NodeName};
use causeway_zone::{BridgePorts, Cgroup, Kubelet, Processes};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::*;

/// Networks meet in them.
pub(crate) const NAMESPACES: [&str; 3] = ["ns1", "ns2", "ns3"];

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Node(Node),
    NoNode(NodeName),
    Nad(Nad),
    NoNad(ObjectKey),
    Pod(Pod),
    NoPod(ObjectKey),
    Connect(Connect),
    NoConnect(ConnectName),
    Namespace(Namespace),
    NoNamespace(NamespaceName),
    Service(Service),
    NoService(ObjectKey),
    Slice(EndpointSlice),
    NoSlice(ObjectKey),
    Policy(NetworkPolicy),
    NoPolicy(ObjectKey),
    ClusterPolicy(ClusterPolicy),
    NoClusterPolicy(PolicyId),
    Away(BTreeSet<NodeName>),
    Bridge(Option<BridgePorts>),
    Processes(Processes),
    Tick,
}

fn nodes() -> impl Strategy<Value = Event> {
    // Ids repeat: two nodes may claim one, for a while.
    (1..=4u32, 2..=5u32, 0..10u8).prop_map(|(n, id, kind)| {
        let name = format!("n{n}");
        let node = node(&name, if kind < 6 { n + 1 } else { id });
        let node = at_addresses(node, &[&format!("172.18.0.{}", n + 1)]);
        match kind {
            0 => Event::NoNode(node.name),
            1 => Event::Node(settled(without(node, "node-chassis-id"))),
            2 => Event::Node(without(node, "node-id")),
            3 if n == 1 => Event::Node(with_gateway(node, Ip::V4, "shared")),
            4 if n == 1 => Event::Node(with_gateway(node, Ip::V4, "local")),
            8 if n == 1 => Event::Node(annotate(node, "vteps", r#"{"fabric":{"ips":["10.255.0.1"]}}"#)),
            5 => Event::Node(settled(annotate(node, "node-chassis-id", "c-new"))),
            // What nobody can read. Without its own node a zone plans nothing, and says so once.
            6 if n != 1 => Event::Node(annotate(node, "node-chassis-record", "[\"nowhere\"]")),
            7 if n != 1 => Event::Node(annotate(node, "node-id", "none")),
            _ => Event::Node(node),
        }
    })
}

/// Networks 1 and 2 are layer3 and would have objects of one name, 3 and 4 are layer2, of which the last may grow into the addresses
/// of the third; 5 is layer3 and in nobody's way.
pub(crate) fn network(id: u32, namespace: &str, grown: bool) -> Nad {
    let (name, topology, subnets) = match id {
        1 => ("cluster_udn_a-b", "layer3", "10.20.0.0/16/24"),
        2 => ("cluster_udn_a.b", "layer3", "10.20.0.0/16/24"),
        3 => ("cluster_udn_c", "layer2", "203.203.0.0/16"),
        5 => ("cluster_udn_e", "layer3", "10.50.0.0/16/24"),
        _ if grown => ("cluster_udn_d", "layer2", "203.0.0.0/8"),
        _ => ("cluster_udn_d", "layer2", "203.204.0.0/16"),
    };
    let config = serde_json::json!({"topology": topology, "subnets": subnets});
    nad(&format!("{namespace}/x{id}"), name, id, config)
}

/// The same on the fabric.
fn on_fabric(id: u32, namespace: &str) -> Nad {
    let plain = network(id, namespace, false);
    let mut fields: Value = serde_json::from_str(plain.config()).unwrap();
    fields["transport"] = "evpn".into();
    fields["evpn"] = json!({"vtep": "fabric", "ipVRF": {"vni": 1000 + id}});
    if fields["topology"] == "layer2" {
        fields["evpn"]["macVRF"] = json!({"vni": 2000 + id});
    }
    let mut nad = plain;
    nad.configure(fields.to_string());
    nad
}

/// Definitions of one network may say different sets, or none, and those of two sets may be in one namespace.
fn nads() -> impl Strategy<Value = Event> {
    let sets = prop::sample::select(vec![None, Some("a"), Some("b")]);
    let place = (1..=5u32, prop::sample::select(NAMESPACES.to_vec()));
    (place, 0..12u8, 0..3u8, sets).prop_map(|((id, namespace), kind, age, set)| {
        let mut nad = network(id, namespace, kind == 4);
        nad.annotate("k8s.ovn.org/primary-network-created", Some(&age.to_string()));
        match kind {
            0 | 1 => return Event::NoNad(nad.key),
            2 => nad.annotate("k8s.ovn.org/network-id", None),
            3 => nad.annotate("k8s.ovn.org/network-id", Some("7")),
            5 => nad.annotate("k8s.ovn.org/network-id", Some("many")),
            6 => nad.configure("{"),
            7 => nad = on_fabric(id, namespace),
            _ => {}
        }
        let set = set.map(|selector| NetworkSet::of(selector).to_string());
        nad.annotate("k8s.ovn.org/primary-network-set", set.as_deref());
        Event::Nad(nad)
    })
}

fn pods() -> impl Strategy<Value = Event> {
    let namespace = prop::sample::select(NAMESPACES.to_vec());
    (0..3u32, namespace, 1..=4u32, 0..=5u32, 0..11u8).prop_map(|(n, namespace, on, network, kind)| {
        let (name, on) = (format!("{namespace}/p{n}"), format!("n{on}"));
        let (locked, own) = (format!("10.244.0.{}/24", n + 3), format!("203.203.0.{}/16", n + 3));
        let attachment = format!("{namespace}/x{network}");
        let mut pod = match network {
            0 => pod(&name, &on, &[("default", "primary", &[locked.as_str()], None)]),
            _ => pod(
                &name,
                &on,
                &[
                    ("default", "infrastructure-locked", &[locked.as_str()], None),
                    (attachment.as_str(), "primary", &[own.as_str()], Some(n + 3)),
                ],
            ),
        };
        let app = if kind == 8 { "db" } else { "web" };
        pod.labels = [("app".to_owned(), app.to_owned())].into();
        pod.named_ports =
            vec![NamedPort { name: "http".into(), protocol: Protocol::Tcp, port: 80 + u16::from(kind % 2) }];
        match kind {
            0 | 1 => return Event::NoPod(pod.key),
            2 => pod.networks = Ok(None),
            3 => pod.finished = true,
            4 => pod.annotate("k8s.ovn.org/pod-networks", Some("{\"default\":")),
            5 => pod.annotate("k8s.ovn.org/open-default-ports", Some(r#"[{"protocol":"tcp","port":80}]"#)),
            6 => pod = Pod { labels: pod.labels, ..host_pod(&name, &on) },
            // Two pods of one node may ask for the same, and for a node port of a service.
            7 => pod.host_ports = Ok(vec![host_port(8080), host_port(30080)]),
            8 => pod.host_ports = Err("too many".into()),
            _ => {}
        }
        Event::Pod(pod)
    })
}

fn host_port(port: u16) -> HostPort {
    HostPort { address: None, protocol: Protocol::Tcp, port, target: 80 }
}

/// Two connections of any of the networks, of one that is known by another number at times, and of one that never is.
fn connects() -> impl Strategy<Value = Event> {
    const OWNERS: [&str; 8] =
        ["layer3_1", "layer3_2", "layer2_3", "layer2_4", "layer3_5", "layer3_7", "layer2_7", "layer3_9"];
    let owners = prop::sample::subsequence(OWNERS.to_vec(), 0..5);
    let topology = prop::sample::select(vec!["transit", "both", "compact"]);
    let grants = prop::sample::select(vec![(true, false), (true, true), (false, true)]);
    (1..=2u8, topology, owners, grants, 0..10u8).prop_map(|(n, topology, owners, (pods, services), kind)| {
        let connect = connect(&format!("c{n}"), topology, Ip::V4, &owners);
        let mut connect = granting(connect, pods, services);
        match kind {
            0 => return Event::NoConnect(connect.name),
            1 => connect = with_annotation(connect, "connect-topology", None),
            2 => connect = with_annotation(connect, "connect-router-tunnel-key", None),
            3 => connect = with_annotation(connect, "network-subnets", Some("{")),
            4 => connect = granting(connect, false, false),
            5 => connect.deleting = true,
            _ => {}
        }
        Event::Connect(connect)
    })
}

fn namespaces() -> impl Strategy<Value = Event> {
    (prop::sample::select(NAMESPACES.to_vec()), 0..5u8).prop_map(|(name, kind)| {
        let mut namespace = namespace(name, kind == 1);
        match kind {
            0 => return Event::NoNamespace(namespace.name),
            2 => drop(namespace.labels.insert("team".into(), "a".into())),
            3 => namespace.logging.deny = Some(causeway_record::Severity::Info),
            _ => {}
        }
        Event::Namespace(namespace)
    })
}

/// Policies of two namespaces, with peers of every kind, named ports, and what cannot be read.
fn policies() -> impl Strategy<Value = Event> {
    let names = vec!["ns1/p", "ns1/q", "ns2/p"];
    let subjects =
        vec![json!({}), json!({"matchLabels": {"app": "web"}}), json!({"matchLabels": {"app": "db"}})];
    let peers = vec![
        json!({"podSelector": {}}),
        json!({"podSelector": {"matchLabels": {"app": "web"}}, "namespaceSelector": {}}),
        json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}),
        json!({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}),
        json!({"ipBlock": {"cidr": "203.0.0.0/8", "except": ["203.203.0.0/24"]}}),
        json!({}),
    ];
    let ports = vec![json!({"port": "http"}), json!({"port": 80, "endPort": 90}), json!({"protocol": "UDP"})];
    let rule = (prop::sample::subsequence(peers, 0..4), prop::sample::subsequence(ports, 0..3));
    let rules = prop::collection::vec(rule, 0..3);
    let both = (rules.clone(), rules, 0..5u8);
    (prop::sample::select(names), prop::sample::select(subjects), both).prop_map(
        |(name, pods, (into, out, kind))| {
            let rule =
                |peers: &str, (given, ports): (Vec<Value>, Vec<Value>)| json!({peers: given, "ports": ports});
            let ingress: Vec<Value> = into.into_iter().map(|given| rule("from", given)).collect();
            let egress: Vec<Value> = out.into_iter().map(|given| rule("to", given)).collect();
            let types = [json!(["Ingress"]), json!(["Egress"]), json!(["Ingress", "Egress"])]
                [usize::from(kind % 3)]
            .clone();
            let spec =
                json!({"podSelector": pods, "policyTypes": types, "ingress": ingress, "egress": egress});
            let policy = policy(name, spec);
            if kind == 4 { Event::NoPolicy(policy.key) } else { Event::Policy(policy) }
        },
    )
}

/// Cluster-scoped policies of all tiers, of which some cannot be carried out and some cannot be read.
fn cluster_policies() -> impl Strategy<Value = Event> {
    let peers = vec![
        json!({"namespaces": {}}),
        json!({"namespaces": {"matchLabels": {"team": "a"}}}),
        json!({"pods": {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "db"}}}}),
    ];
    let subjects = vec![
        json!({"namespaces": {}}),
        json!({"namespaces": {"matchLabels": {"team": "a"}}}),
        json!({"pods": {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "web"}}}}),
    ];
    let action = prop::sample::select(vec!["Accept", "Deny", "Pass"]);
    let protocols = prop::sample::select(vec![
        Value::Null,
        json!([{"tcp": {"destinationPort": {"number": 80}}}]),
        json!([{"destinationNamedPort": "http"}]),
    ]);
    let rules = || {
        prop::collection::vec((action.clone(), prop::sample::select(peers.clone()), protocols.clone()), 0..3)
    };
    let said = (prop::sample::select(vec!["Admin", "Baseline"]), prop::sample::select(vec![1, 7]));
    let name = prop::sample::select(vec!["first", "other"]);
    (name, said, prop::sample::select(subjects), (rules(), rules()), 0..8u8).prop_map(
        |(name, (tier, priority), subject, (into, out), kind)| {
            let rule = |peers: &str, (action, peer, protocols): (&str, Value, Value)| {
                let mut rule = json!({"action": action, peers: [peer]});
                if !protocols.is_null() {
                    rule["protocols"] = protocols;
                }
                rule
            };
            let ingress: Vec<Value> = into.into_iter().map(|given| rule("from", given)).collect();
            let egress: Vec<Value> = out.into_iter().map(|given| rule("to", given)).collect();
            let spec = json!({"tier": tier, "priority": priority, "subject": subject, "ingress": ingress, "egress": egress});
            let mut policy = cluster_policy(name, spec);
            policy.generation = Some(i64::from(kind));
            match kind {
                0 => return Event::NoClusterPolicy(policy.id),
                1 => policy.meant = Err(Refusal::Unreadable("torn".into())),
                2 => policy.meant = Err(Refusal::Priority(-1)),
                3 => policy.logging.deny = Some(causeway_record::Severity::Info),
                _ => {}
            }
            Event::ClusterPolicy(policy)
        },
    )
}

/// Nodes from which nothing has been heard, this one among them, and one that is unknown.
fn away() -> impl Strategy<Value = Event> {
    let nodes = prop::sample::subsequence(vec!["n1", "n2", "n3", "n4", "n9"], 0..=3);
    nodes.prop_map(|nodes| Event::Away(nodes.into_iter().map(node_name).collect()))
}

fn services() -> impl Strategy<Value = Event> {
    let names = vec!["ns1/a", "ns1/b", "ns2/a", "default/kubernetes"];
    (prop::sample::select(names), 0..10u8).prop_map(|(name, kind)| {
        let mut service = service(name, if kind == 1 { &[] } else { &["10.96.0.50"] });
        match kind {
            0 => return Event::NoService(service.key),
            2 => service.local = true,
            // From outside, also by addresses that two of them say to have, or that are a node's.
            3 | 4 => {
                service.ports[0].node_port = Some(if name == "ns1/a" { 30080 } else { 30081 });
                service.external_local = kind == 4;
            }
            5 => service.external_ips = vec!["192.0.2.1".parse().unwrap(), "172.18.0.3".parse().unwrap()],
            6 | 7 => {
                service.ingress_ips = vec!["192.0.2.1".parse().unwrap()];
                service.source_ranges = (kind == 7).then(|| vec!["198.51.100.0/24".parse().unwrap()]);
            }
            _ => {}
        }
        Event::Service(service)
    })
}

/// Slices of any of the networks, with addresses inside and outside of them. A slice may change its service.
fn slices() -> impl Strategy<Value = Event> {
    const NETWORKS: [Option<&str>; 5] =
        [None, Some("cluster_udn_a-b"), Some("cluster_udn_c"), Some("cluster_udn_d"), Some("cluster_udn_e")];
    let endpoints =
        prop::sample::select(vec!["10.20.0.5@n1", "203.203.0.7@n2", "203.204.0.7@n1", "10.50.0.5@n1"]);
    let names = (prop::sample::select(NAMESPACES.to_vec()), prop::sample::select(vec!["a", "b"]), 1..=3u8);
    (names, prop::sample::select(NETWORKS.to_vec()), endpoints, 0..5u8).prop_map(
        |((namespace, service, n), network, endpoint, kind)| {
            let mut slice = slice(&format!("{namespace}/s{n}"), service, network, &[endpoint]);
            match kind {
                0 => return Event::NoSlice(slice.key),
                1 => slice.endpoints[0].conditions.ready = Some(false),
                2 => slice.labels.clear(),
                _ => {}
            }
            Event::Slice(slice)
        },
    )
}

fn bridges() -> impl Strategy<Value = Event> {
    (0..4u8).prop_map(|kind| {
        let ports = BridgePorts { bridge: "breth0".into(), patch: (kind != 1).then_some(3), uplink: Some(1) };
        Event::Bridge((kind != 0).then_some(ports))
    })
}

/// The kubelet, and pods in the node's own network, which are looked for and found or not.
fn processes() -> impl Strategy<Value = Event> {
    let pods = prop::sample::subsequence(vec!["uid-p0", "uid-p1", "uid-p2"], 0..=3);
    (pods, any::<bool>(), 0..3u32).prop_map(|(pods, found, user)| {
        let cgroup = |uid: &str| Cgroup { path: format!("kubepods/pod{uid}"), id: 1 };
        let pods = pods.into_iter().map(|uid| (uid.to_owned(), found.then(|| cgroup(uid)))).collect();
        Event::Processes(Processes { kubelet: Kubelet::User(user), pods })
    })
}

/// Of everything; or mostly of networks, or of policies, so that these meet more often. Two nodes are there first as a rule: without its
/// own a zone plans nothing.
pub(crate) fn histories() -> impl Strategy<Value = Vec<Event>> {
    let all = prop_oneof![
        3 => nodes(), 4 => nads(), 6 => pods(), 4 => connects(), 1 => Just(Event::Tick),
        1 => namespaces(), 3 => services(), 4 => slices(), 2 => bridges(), 2 => processes(), 5 => policies(),
        3 => cluster_policies(), 1 => away(),
    ];
    let networks = prop_oneof![
        12 => nads(), 1 => nodes(), 4 => pods(), 2 => connects(), 1 => namespaces(), 1 => services(), 2 => slices(),
    ];
    let policed = prop_oneof![
        3 => nads(), 1 => nodes(), 6 => pods(), 1 => connects(), 3 => namespaces(), 6 => policies(), 4 => cluster_policies(),
    ];
    let events = prop_oneof![
        2 => prop::collection::vec(all, 1..80),
        1 => prop::collection::vec(networks, 1..60),
        1 => prop::collection::vec(policed, 1..60),
    ];
    (prop::bool::weighted(0.8), events).prop_map(|(two, events)| {
        let nodes = [("n1", 2), ("n2", 3)].map(|(name, id)| Event::Node(node(name, id)));
        let first = nodes.into_iter().filter(|_| two);
        first.chain(events).collect()
    })
}

/// Everything that may have been unreadable becomes readable or goes.
pub(crate) fn mended() -> Vec<Event> {
    let nodes = (2..=4u32).map(|n| Event::Node(node(&format!("n{n}"), n + 1)));
    let pods = NAMESPACES.into_iter().flat_map(|namespace| (0..3).map(move |n| (namespace, format!("p{n}"))));
    let pods = pods.map(|(namespace, name)| Event::NoPod(key(namespace, &name)));
    let policies = ["first", "other"].map(|name| {
        let nobody = json!({"tier": "Admin", "priority": 1, "subject": {"namespaces": {}}});
        Event::NoClusterPolicy(cluster_policy(name, nobody).id)
    });
    nodes.chain(pods).chain(policies).collect()
}
