//! Connections that run already, and which of them are over when less is allowed than before.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_plan::running;
use causeway_record::{HostPort, Logging, Namespace, Pod, Protocol, ServicePort};
use causeway_types::Tracked;
use causeway_zone::{Changes, Zone};
use serde_json::json;
use support::*;

fn labelled(pod: Pod, value: &str) -> Pod {
    Pod { labels: [("pod".to_owned(), value.to_owned())].into(), ..pod }
}

/// `x/a` and `x/b` on the default network of this node.
fn plain_zone() -> Zone {
    let mut zone = cluster(Ip::Dual, None);
    let labels = [("name".to_owned(), "x".to_owned())].into();
    let name = "x".parse().unwrap();
    zone.apply_namespace(&Namespace { name, labels, deleting: false, logging: Logging::default() });
    zone.apply_pod(&on_default("a", 10));
    zone.apply_pod(&on_default("b", 11));
    zone
}

fn on_default(name: &str, n: u32) -> Pod {
    let own = [format!("10.244.0.{n}/24"), format!("fd00:10:244::{n}/64")];
    let own = own.each_ref().map(String::as_str);
    labelled(pod(&format!("x/{name}"), "n1", &[("default", "primary", &own, None)]), name)
}

fn tracked(from: &str, asked: &str, to: &str) -> Tracked {
    Tracked { zone: 1, from: from.parse().unwrap(), asked: asked.parse().unwrap(), to: to.parse().unwrap() }
}

fn direct(from: &str, to: &str) -> Tracked {
    tracked(from, to, to)
}

fn is_over(zone: &Zone, pod: &str, one: Tracked) -> bool {
    let (namespace, name) = pod.split_once('/').unwrap();
    running::over(zone, [(&key(namespace, name), one)]) == [one]
}

fn networks(changes: &Changes) -> Vec<Option<&str>> {
    let mut all: Vec<_> = changes.narrowed().map(|network| network.map(|name| name.as_str())).collect();
    all.dedup();
    all
}

/// POL-060: at the end that the policy is about, and there alone; never by a pod and itself, or its node.
#[test]
fn what_a_policy_does_not_allow_any_more_is_over() {
    let mut zone = plain_zone();
    let (to_b, six) = (
        direct("10.244.0.10:4000", "10.244.0.11:80"),
        direct("[fd00:10:244::10]:4000", "[fd00:10:244::11]:81"),
    );
    assert!(!is_over(&zone, "x/b", to_b));
    let from_c = json!({"podSelector": {"matchLabels": {"pod": "b"}},
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"pod": "c"}}}]}, {"ports": [{"protocol": "UDP", "port": 81}]}]});
    let changes = zone.apply_policy(&policy("x/p", from_c));
    assert_eq!(networks(&changes), [Some("default")]);
    assert!(is_over(&zone, "x/b", to_b), "a is not c, and 80 is not 81");
    assert!(!is_over(&zone, "x/b", six), "81 is open to everybody");
    assert!(!is_over(&zone, "x/a", to_b), "nobody has said anything about a");
    assert!(!is_over(&zone, "x/b", direct("10.244.0.11:4000", "10.244.0.11:80")), "b itself");
    assert!(!is_over(&zone, "x/b", direct("10.244.0.2:4000", "10.244.0.11:80")), "its node");
    assert!(!is_over(&zone, "x/b", direct("10.244.0.7:4000", "10.244.0.8:80")), "nobody knows whose that is");

    let changes = zone.apply_pod(&labelled(on_default("a", 10), "c"));
    assert!(networks(&changes).contains(&Some("default")), "{changes:?}");
    assert!(!is_over(&zone, "x/b", to_b), "a is c now");
}

/// An egress rule is about the pod behind a service, whoever was asked.
#[test]
fn services_are_looked_at_behind_them() {
    let mut zone = plain_zone();
    let to_b = json!({"podSelector": {"matchLabels": {"pod": "a"}}, "policyTypes": ["Egress"],
        "egress": [{"to": [{"podSelector": {"matchLabels": {"pod": "b"}}}]}]});
    zone.apply_policy(&policy("x/p", to_b));
    assert!(!is_over(&zone, "x/a", tracked("10.244.0.10:4000", "10.96.0.7:53", "10.244.0.11:53")));
    assert!(is_over(&zone, "x/a", tracked("10.244.0.10:4000", "10.96.0.7:53", "10.244.0.12:53")));
}

/// POL-055: whoever goes leaves his address to somebody else, so what was allowed for his sake is over; and whoever comes is a reason to
/// look where an administrator may forbid something to him. Others who come and go are none.
#[test]
fn an_address_that_is_handed_on_brings_no_connections() {
    let mut zone = plain_zone();
    let from_far = json!({"podSelector": {"matchLabels": {"pod": "b"}},
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"pod": "far"}}}]}]});
    zone.apply_policy(&policy("x/p", from_far));
    let far = Pod { node: Some(node_name("n2")), ..on_default("far", 12) };
    let other = Pod { node: Some(node_name("n2")), ..on_default("other", 12) };
    let nobody_looks = Vec::<Option<&str>>::new();
    let looked_at = [Some("default")];
    let running = direct("10.244.0.12:4000", "10.244.0.11:80");

    assert_eq!(networks(&zone.apply_pod(&far)), nobody_looks);
    assert!(!is_over(&zone, "x/b", running));
    assert_eq!(networks(&zone.delete_pod(&far.key)), looked_at, "it is gone");
    assert!(is_over(&zone, "x/b", running), "nobody has the address");
    assert_eq!(networks(&zone.apply_pod(&other)), nobody_looks);
    assert!(is_over(&zone, "x/b", running), "somebody else has it");
    assert_eq!(networks(&zone.delete_pod(&other.key)), nobody_looks, "nothing was allowed for its sake");

    zone.apply_pod(&far);
    let finished = Pod { finished: true, ..far.clone() };
    assert_eq!(networks(&zone.apply_pod(&finished)), looked_at, "it has ended, and its address is free");
    zone.apply_pod(&far);
    let elsewhere = Pod { node: Some(node_name("n2")), ..labelled(on_default("far", 13), "far") };
    assert_eq!(networks(&zone.apply_pod(&elsewhere)), looked_at, "it has another address");
    assert_eq!(networks(&zone.apply_pod(&elsewhere)), nobody_looks);
    let changes = zone.apply_pod(&labelled(elsewhere.clone(), "other"));
    assert_eq!(networks(&changes), looked_at, "it has another label");

    let no_other = json!({"tier": "Admin", "priority": 7,
        "subject": {"namespaces": {"matchLabels": {"name": "x"}}},
        "ingress": [{"action": "Deny", "from": [
            {"pods": {"namespaceSelector": {}, "podSelector": {"matchLabels": {"pod": "other"}}}}]}]});
    zone.apply_cluster_policy(&cluster_policy("no-other", no_other));
    assert_eq!(networks(&zone.apply_pod(&other)), looked_at, "an administrator means it");
    assert_eq!(networks(&zone.apply_pod(&on_default("c", 14))), nobody_looks);
}

/// Of a network, or of all of them.
#[test]
fn ports_of_those_whose_connections_are_looked_at() {
    let zone = plain_zone();
    let ports = |on: Option<&str>| -> Vec<String> {
        let on = on.map(|name| [name.parse().unwrap()].into());
        running::ports(&zone, on.as_ref()).into_keys().filter(|name| name.starts_with("x_")).collect()
    };
    assert_eq!(
        (ports(None).as_slice(), ports(Some("default"))),
        (["x_a", "x_b"].map(String::from).as_slice(), ports(None))
    );
    assert_eq!(ports(Some("cluster_udn_blue")), Vec::<String>::new());
}

/// A road for services alone: what goes directly is over, what goes by a service is not; seen from whoever began it.
#[test]
fn what_goes_directly_over_a_road_for_services_is_over() {
    for topology in ["transit", "compact"] {
        let mut zone = cluster(Ip::V4, None);
        zone.apply_pod(&web(Ip::V4));
        let own = running::ports(&zone, None).into_values().find(|pod| *pod == web(Ip::V4).key).unwrap();
        let from = zone.primary(&own).unwrap().address.as_ref().unwrap().ips().next().unwrap().addr();
        let over = |zone: &Zone, asked: &str, to: &str| {
            let one = tracked(&format!("{from}:4000"), asked, to);
            running::over(zone, [(&own, one)]) == [one]
        };
        let far = "203.203.0.9:80";
        let both = granting(connect("road", topology, Ip::V4, &["layer3_1", "layer2_5"]), true, true);
        zone.apply_connect(&both);
        assert!(!over(&zone, far, far), "pods may");
        let changes = zone.apply_connect(&granting(both.clone(), false, true));
        assert!(networks(&changes).iter().flatten().any(|name| name.contains("blue")), "{changes:?}");
        assert!(over(&zone, far, far), "services alone");
        assert!(!over(&zone, "10.96.0.7:80", far), "by a service");
        assert!(!over(&zone, "8.8.8.8:80", "8.8.8.8:80"), "not by this road");
        let other = second(connect("other", topology, Ip::V4, &["layer3_1", "layer2_5"]));
        zone.apply_connect(&granting(other, true, false));
        assert!(!over(&zone, far, far), "another road grants it");
    }
}

/// `ns1/dns` on blue, by UDP and by TCP, with these endpoints of it.
fn asked_by_udp(zone: &mut Zone, endpoints: &[&str]) -> Changes {
    let mut dns = service("ns1/dns", &["10.96.0.53"]);
    dns.ports = vec![service_port("", Protocol::Udp, 53), service_port("web", Protocol::Tcp, 80)];
    let mut targets = slice("ns1/dns-1", "dns", Some("cluster_udn_blue"), endpoints);
    targets.ports.as_mut().unwrap()[0].protocol = Some("UDP".into());
    zone.apply_service(&dns);
    zone.apply_endpoint_slice(&targets)
}

fn stranded(zone: &Zone, to: &str, asked: &str) -> bool {
    let one = tracked("10.20.1.7:4000", asked, to);
    running::stranded(zone, [one]) == [one]
}

/// Who was led to a target that has left its service is led to nobody; neither who is led to one that stays, nor who asks directly.
#[test]
fn a_target_that_has_left_strands_its_clients() {
    let mut zone = cluster(Ip::V4, None);
    zone.apply_namespace(&namespace("ns1", true));
    asked_by_udp(&mut zone, &["10.20.1.5@n1", "10.20.2.7@n2"]);
    let (dns, first, second) = ("10.96.0.53:53", "10.20.1.5:8080", "10.20.2.7:8080");
    assert!(!stranded(&zone, first, dns) && !stranded(&zone, second, dns));
    let changes = asked_by_udp(&mut zone, &["10.20.1.5@n1"]);
    assert!(zone.may_strand(&changes), "{changes:?}");
    assert!(!stranded(&zone, first, dns), "it stays");
    assert!(stranded(&zone, second, dns), "it has left");
    assert!(!stranded(&zone, second, second), "nobody has led this one");
    assert!(stranded(&zone, first, "10.96.0.53:54"), "a port that the service has no more");
    assert!(!stranded(&zone, first, "172.18.0.2:53"), "nobody can tell whose that was");

    let changes = zone.delete_service(&key("ns1", "dns"));
    assert!(zone.may_strand(&changes), "{changes:?}");
    assert!(stranded(&zone, first, dns), "the service is gone");
}

/// By whatever address a service is reached: ports of the node, and with its own endpoints alone.
#[test]
fn nodes_and_balancers_addresses_lead_as_well() {
    let mut zone = cluster(Ip::V4, Some("shared"));
    zone.apply_namespace(&namespace("ns1", true));
    asked_by_udp(&mut zone, &["10.20.1.5@n1", "10.20.2.7@n2"]);
    let mut dns = service("ns1/dns", &["10.96.0.53"]);
    dns.ports = vec![ServicePort { node_port: Some(30053), ..service_port("", Protocol::Udp, 53) }];
    dns.ingress_ips = vec!["192.0.2.7".parse().unwrap()];
    for (local, far_strands) in [(false, false), (true, true)] {
        dns.local = local;
        zone.apply_service(&dns);
        assert_eq!(stranded(&zone, "10.20.2.7:8080", "10.96.0.53:53"), far_strands, "local: {local}");
        for asked in ["172.18.0.2:30053", "192.0.2.7:53"] {
            assert!(!stranded(&zone, "10.20.2.7:8080", asked), "{asked}");
            assert!(stranded(&zone, "10.20.2.8:8080", asked), "{asked}");
        }
    }
}

/// While it is not certain where a service leads, nobody is taken from anybody.
#[test]
fn what_is_held_strands_nobody() {
    let mut zone = cluster(Ip::V4, None);
    zone.apply_namespace(&namespace("ns1", true));
    asked_by_udp(&mut zone, &["10.20.1.5@n1"]);
    assert!(stranded(&zone, "10.20.2.7:8080", "10.96.0.53:53"));
    let mut unnumbered = blue(Ip::V4);
    unnumbered.annotate("k8s.ovn.org/network-id", None);
    zone.apply_nad(&unnumbered);
    assert!(!stranded(&zone, "10.20.2.7:8080", "10.96.0.53:53"));
}

/// A service without UDP is no reason to read the switch's memory.
#[test]
fn services_of_tcp_alone_strand_nobody() {
    let mut zone = cluster(Ip::V4, None);
    zone.apply_namespace(&namespace("ns1", true));
    let changes = zone.apply_service(&service("ns1/web", &["10.96.0.50"]));
    assert!(!changes.is_empty() && !zone.may_strand(&changes));
    assert!(!running::leads_anybody(&zone));
    let changes =
        zone.apply_endpoint_slice(&slice("ns1/web-1", "web", Some("cluster_udn_blue"), &["10.20.1.5@n1"]));
    assert!(!changes.is_empty() && !zone.may_strand(&changes));
    asked_by_udp(&mut zone, &["10.20.1.5@n1"]);
    assert!(running::leads_anybody(&zone));
}

/// A pod's port of the node.
#[test]
fn host_ports_lead_to_the_pod_that_has_them() {
    let mut zone = cluster(Ip::V4, Some("shared"));
    let host_ports = Ok(vec![HostPort { address: None, protocol: Protocol::Udp, port: 5353, target: 53 }]);
    let pod = Pod { host_ports, ..web(Ip::V4) };
    let changes = zone.apply_pod(&pod);
    assert!(zone.may_strand(&changes), "{changes:?}");
    let own = zone.primary(&pod.key).unwrap().address.as_ref().unwrap().ips().next().unwrap().addr();
    assert!(!stranded(&zone, &format!("{own}:53"), "172.18.0.2:5353"));
    assert!(stranded(&zone, "10.20.1.99:53", "172.18.0.2:5353"), "another pod had it before");
}
