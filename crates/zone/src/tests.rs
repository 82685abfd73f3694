use std::collections::BTreeMap;

use causeway_api::annotations::{Annotation as _, ChassisRecord};
use causeway_types::{Cidr, NodeId};

use super::*;
use causeway_record::{Connect, Nad, Namespace, Node, Pod};

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| (format!("k8s.ovn.org/{key}"), (*value).to_owned())).collect()
}

fn key(text: &str) -> ObjectKey {
    let (namespace, name) = text.split_once('/').unwrap();
    ObjectKey { namespace: namespace.parse().unwrap(), name: name.into() }
}

fn network(name: &str) -> NetworkName {
    name.parse().unwrap()
}

fn node(name: &str, id: u32) -> Node {
    let (id, chassis, encap) = (id.to_string(), format!("c-{id}"), format!("[\"172.18.0.{id}\"]"));
    let pairs = [("node-id", id.as_str()), ("node-chassis-id", &chassis), ("node-encap-ips", &encap)];
    let mut node = Node { uid: format!("uid-{name}"), ..Node::new(name.parse().unwrap()) };
    texts(&pairs).iter().for_each(|(key, text)| node.annotate(key, Some(text)));
    settled(node)
}

/// The node with a record of what it claims.
fn settled(mut node: Node) -> Node {
    let (chassis_id, encaps) = (node.chassis.clone().unwrap(), node.encaps.clone().unwrap());
    let record = ChassisRecord {
        uid: node.uid.clone(),
        chassis_id,
        encap_ips: encaps.map(|ips| ips.0).unwrap_or_default(),
        node_ips: (!node.addresses.is_empty()).then(|| node.addresses.clone()),
        refused: Vec::new(),
    };
    node.annotate(ChassisRecord::KEY, Some(&record.text()));
    node
}

fn nad(nad: &str, network: &str, topology: &str, annotations: &[(&str, &str)]) -> Nad {
    let subnets = if topology == "layer3" { "10.20.0.0/16/24" } else { "203.203.0.0/16" };
    let config = serde_json::json!({
        "cniVersion": "1.1.0", "type": "ovn-k8s-cni-overlay", "role": "primary",
        "name": network, "topology": topology, "subnets": subnets,
    });
    let mut annotations = texts(annotations);
    annotations.insert("k8s.ovn.org/network-name".into(), network.into());
    let mut nad = Nad::new(key(nad));
    annotations.iter().for_each(|(key, text)| nad.annotate(key, Some(text)));
    nad.configure(config.to_string());
    nad
}

fn blue(at: &str) -> Nad {
    nad(at, "cluster_udn_blue", "layer3", &[("network-id", "1")])
}

fn green() -> Nad {
    let keys = ("tunnel-keys", "[16711688,16715780]");
    nad("ns2/green", "cluster_udn_green", "layer2", &[("network-id", "5"), keys])
}

fn pod(name: &str, on: &str, networks: &str) -> Pod {
    let mut pod = Pod { node: Some(on.parse().unwrap()), ..Pod::new(key(name), "u") };
    pod.annotate("k8s.ovn.org/pod-networks", Some(networks));
    pod
}

const ON_BLUE: &str = r#"{"default":{"ip_addresses":["10.244.0.4/24"],"mac_address":"0a:58:0a:f4:00:04","role":"infrastructure-locked"},
    "ns1/blue":{"ip_addresses":["10.20.0.5/24"],"mac_address":"0a:58:0a:14:00:05","role":"primary"}}"#;
const ON_GREEN: &str = r#"{"default":{"ip_addresses":["10.244.1.4/24"],"mac_address":"0a:58:0a:f4:01:04","role":"infrastructure-locked"},
    "ns2/green":{"ip_addresses":["203.203.0.9/16"],"mac_address":"0a:58:cb:cb:00:09","role":"primary","tunnel_id":9}}"#;

fn zone() -> Zone {
    let cidr = |text: &str| text.parse::<Cidr>().unwrap();
    let highest = NodeId::new(1001).unwrap();
    let cluster = ClusterConfig::new(vec![cidr("10.244.0.0/16")], vec![cidr("10.96.0.0/16")], highest);
    let mut zone = Zone::new(ZoneConfig::new("n1".parse().unwrap(), cluster));
    zone.apply_node(&node("n1", 2));
    zone
}

fn reason(zone: &Zone, name: &str) -> Option<Reason> {
    zone.problems().get(&Subject::Network(network(name))).map(|problem| problem.reason)
}

fn is_rendered(zone: &Zone, name: &str) -> bool {
    matches!(zone.rendering(&network(name)), Some(Rendering::Rendered(_)))
}

#[test]
fn two_definitions_are_one_network() {
    let mut zone = zone();
    let of_blue = Change::Network(network("cluster_udn_blue"));
    assert!(zone.apply_nad(&blue("ns1/blue")).iter().any(|change| *change == of_blue));
    let second = zone.apply_nad(&blue("ns3/blue"));
    assert_eq!(second, Change::Namespace("ns3".parse().unwrap()).into(), "nothing is new about the network");
    assert_eq!(zone.networks().count(), 2);
    assert_eq!(zone.delete_nad(&key("ns1/blue")), Change::Namespace("ns1".parse().unwrap()).into());
    assert!(is_rendered(&zone, "cluster_udn_blue"));
    assert!(zone.delete_nad(&key("ns3/blue")).iter().any(|change| *change == of_blue));
    assert_eq!(zone.networks().count(), 1);
}

/// One that a tenant has tampered with moves neither the network nor the pods of other namespaces.
#[test]
fn definitions_that_disagree() {
    let mut zone = zone();
    zone.apply_nad(&blue("ns2/blue"));
    zone.apply_nad(&blue("ns3/blue"));
    let before = format!("{:?}", zone.rendering(&network("cluster_udn_blue")));
    let mut other = blue("ns1/blue");
    other.configure(other.config().replace("10.20.0.0/16/24", "10.99.0.0/16/24"));
    zone.apply_nad(&other);
    other.configure("{");
    zone.apply_nad(&other);
    let mut thief = nad("ns1/mine", "cluster_udn_blue", "layer3", &[("network-id", "9")]);
    thief.annotate("k8s.ovn.org/network-name", Some("ns1_mine"));
    zone.apply_nad(&thief);
    assert_eq!(format!("{:?}", zone.rendering(&network("cluster_udn_blue"))), before);
    let about_nads = |(subject, problem): (&Subject, &Problem)| match subject {
        Subject::Nad(key) => Some((key.to_string(), problem.reason)),
        _ => None,
    };
    let problems: Vec<_> = zone.problems().iter().filter_map(about_nads).collect();
    assert_eq!(
        problems,
        [("ns1/blue".to_owned(), Reason::Malformed), ("ns1/mine".to_owned(), Reason::ForeignNetwork)]
    );
    assert_eq!(zone.primaries(&"ns1".parse().unwrap()), []);
}

#[test]
fn why_a_network_is_not_rendered() {
    let id = |text| [("network-id", text)];
    let table = [
        (nad("ns1/x", "ns1_x", "layer3", &[]), Reason::NoId),
        (nad("ns1/x", "ns1_x", "layer3", &id("0")), Reason::NoId),
        (nad("ns1/x", "ns1_x", "layer3", &id("many")), Reason::Malformed),
        (nad("ns1/x", "ns1_x", "layer2", &id("1")), Reason::TunnelKeys),
        (nad("ns1/x", "ns1_x", "localnet", &id("1")), Reason::Malformed),
    ];
    let mut unnamed = nad("ns1/x", "ns1_x", "layer3", &id("1"));
    unnamed.annotate("k8s.ovn.org/network-name", None);
    for (nad, expected) in table.into_iter().chain([(unnamed, Reason::NoId)]) {
        let mut zone = zone();
        zone.apply_nad(&nad);
        assert_eq!(reason(&zone, "ns1_x"), Some(expected), "{}", nad.config());
        assert!(is_rendered(&zone, "default"));
        zone.apply_nad(&super::tests::nad("ns1/x", "ns1_x", "layer3", &id("1")));
        assert_eq!(reason(&zone, "ns1_x"), None);
    }
}

/// udn-cases K002: the others are up.
#[test]
fn a_node_beyond_the_last_subnet() {
    let mut zone = zone();
    let mut small = blue("ns1/blue");
    small.configure(small.config().replace("10.20.0.0/16/24", "10.20.0.0/24/25"));
    zone.apply_nad(&small);
    assert!(is_rendered(&zone, "cluster_udn_blue"));
    zone.apply_node(&node("n1", 4));
    assert_eq!(reason(&zone, "cluster_udn_blue"), Some(Reason::NoHostSubnet));
    assert!(is_rendered(&zone, "default"));
}

/// Networks `a-b` and `a.b` would share their objects' names. Nobody has a name or a number that two claim; what is there
/// stays.
#[test]
fn networks_that_claim_the_same() {
    let mut zone = zone();
    let of = |name: &str, id: &str| {
        nad(&format!("ns{id}/x"), &format!("cluster_udn_{name}"), "layer3", &[("network-id", id)])
    };
    zone.apply_nad(&of("a.b", "4"));
    assert_eq!(reason(&zone, "cluster_udn_a.b"), None);
    assert_eq!(zone.network_with_prefix("cluster_udn_a.b_"), Some(&network("cluster_udn_a.b")));
    let changes = zone.apply_nad(&of("a-b", "3"));
    let other = Change::Network(network("cluster_udn_a.b"));
    assert!(changes.iter().any(|change| *change == other), "{changes:?}");
    let both = |zone: &Zone, one: &str, other: &str| (reason(zone, one), reason(zone, other));
    let clash = Some(Reason::PrefixClash);
    assert_eq!(both(&zone, "cluster_udn_a.b", "cluster_udn_a-b"), (clash, clash));
    zone.delete_nad(&of("a-b", "3").key);
    assert_eq!(reason(&zone, "cluster_udn_a.b"), None);

    let mut twin = of("c", "5");
    twin.annotate("k8s.ovn.org/network-id", Some("4"));
    zone.apply_nad(&twin);
    let clash = Some(Reason::NumberClash);
    assert_eq!(both(&zone, "cluster_udn_a.b", "cluster_udn_c"), (clash, clash));
    zone.delete_nad(&twin.key);
    assert_eq!(both(&zone, "cluster_udn_a.b", "cluster_udn_c"), (None, None));
}

#[test]
fn primary_networks_of_a_namespace_and_of_a_pod() {
    let mut zone = zone();
    let mut older = nad("ns1/z", "ns1_z", "layer3", &[("network-id", "7")]);
    older.created = -1;
    zone.apply_nad(&blue("ns1/blue"));
    zone.apply_nad(&older);
    let namespace = "ns1".parse().unwrap();
    let names: Vec<&str> = zone.primaries(&namespace).iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["ns1_z", "cluster_udn_blue"]);

    zone.apply_pod(&pod("ns1/web", "n1", ON_BLUE));
    let primary = zone.primary(&key("ns1/web")).unwrap();
    assert_eq!(zone.network_of(primary), Some(&network("cluster_udn_blue")));
    let address = zone.address(&key("ns1/web"), &network("cluster_udn_blue")).unwrap();
    assert_eq!(address.text(), "0a:58:0a:14:00:05 10.20.0.5");
    assert!(zone.address(&key("ns1/web"), &network("ns1_z")).is_none());

    let mut labelled = Namespace {
        name: namespace.clone(),
        labels: BTreeMap::new(),
        deleting: false,
        logging: Default::default(),
    };
    zone.apply_namespace(&labelled);
    assert!(!zone.demands_primary(&namespace));
    labelled.labels = texts(&[("primary-user-defined-network", "")]);
    zone.apply_namespace(&labelled);
    assert!(zone.demands_primary(&namespace));
}

/// Of other nodes' pods only those of layer2 networks are kept, whichever event comes first.
#[test]
fn pods_of_other_nodes() {
    let mut zone = zone();
    zone.apply_pod(&pod("ns1/far", "n2", ON_BLUE));
    zone.apply_pod(&pod("ns2/far", "n2", ON_GREEN));
    assert_eq!(zone.pod_count(), 2, "their networks are not known yet");
    zone.apply_nad(&blue("ns1/blue"));
    let far = Change::Pod { pod: key("ns2/far"), network: network("cluster_udn_green") };
    let changes = zone.apply_nad(&green());
    assert!(changes.iter().any(|change| *change == far), "{changes:?}");
    assert_eq!(zone.pod_count(), 1);
    assert!(zone.apply_pod(&pod("ns1/far", "n2", ON_BLUE)).is_empty());
    assert_eq!(zone.pod_count(), 1);
    let kept = zone.pod(&key("ns2/far")).unwrap();
    assert_eq!(kept.ports.len(), 1, "the port on the default network is its own node's");
    assert_eq!(zone.apply_node(&node("n2", 3)), Change::Node("n2".parse().unwrap()).into());
    assert_eq!(zone.pods_on(&"n2".parse().unwrap()).collect::<Vec<_>>(), [key("ns2/far")]);
}

#[test]
fn pods_without_ports() {
    let mut zone = zone();
    let with_ports = pod("ns0/a", "n1", ON_BLUE);
    let waiting = Pod { networks: Ok(None), ..with_ports.clone() };
    let unscheduled = Pod { node: None, ..with_ports.clone() };
    let on_host = Pod { host_network: true, ..with_ports.clone() };
    let finished = Pod { finished: true, ..with_ports.clone() };
    for none in [waiting, unscheduled, on_host, finished] {
        zone.apply_pod(&with_ports);
        let gone = Change::Pod { pod: key("ns0/a"), network: NetworkName::default_network() };
        assert!(zone.apply_pod(&none).iter().any(|change| *change == gone));
        assert_eq!(zone.pod_count(), 0);
    }
    let odd = Pod { key: ObjectKey { name: "a:b".into(), ..key("ns0/a") }, ..with_ports };
    assert!(zone.apply_pod(&odd).is_empty(), "such a name is none");
}

/// A text that cannot be read is a problem of its object: what it said before still counts.
#[test]
fn texts_that_cannot_be_read() {
    let mut zone = zone();
    zone.apply_nad(&blue("ns1/blue"));
    zone.apply_pod(&pod("ns1/web", "n1", ON_BLUE));
    zone.apply_pod(&pod("ns1/web", "n1", "{"));
    let kept = zone.pod(&key("ns1/web")).unwrap();
    assert_eq!(kept.ports.len(), 2);
    assert!(kept.local.as_ref().unwrap().unreadable.is_some());

    let mut broken = node("n1", 2);
    broken.annotate("k8s.ovn.org/node-id", Some("two"));
    assert!(zone.apply_node(&broken).is_empty());
    assert_eq!(zone.here().unwrap().id, NodeId::new(2).unwrap());
    let subjects: Vec<String> = zone.problems().keys().map(ToString::to_string).collect();
    assert_eq!(subjects, ["node n1", "pod ns1/web"]);
    zone.apply_node(&node("n1", 2));
    zone.apply_pod(&pod("ns1/web", "n1", ON_BLUE));
    assert!(zone.problems().is_empty());
}

/// The same event again is no event.
#[test]
fn nothing_new_makes_nothing_dirty() {
    let mut zone = zone();
    zone.apply_node(&node("n2", 3));
    zone.apply_nad(&green());
    zone.apply_pod(&pod("ns2/far", "n2", ON_GREEN));
    assert!(zone.apply_node(&node("n1", 2)).is_empty());
    assert!(zone.apply_node(&node("n2", 3)).is_empty());
    assert!(zone.apply_nad(&green()).is_empty());
    assert!(zone.apply_pod(&pod("ns2/far", "n2", ON_GREEN)).is_empty());
}

/// Names hold neither `:` nor `%`, so prefixes need no escape.
#[test]
fn no_name_needs_an_escape() {
    for bad in ["a:b", "a%b"] {
        assert!(NetworkName::new(bad).is_err());
        assert!(NodeName::new(bad).is_err());
        assert!(NamespaceName::new(bad).is_err());
        assert!(NadKey::new(format!("ns/{bad}")).is_err());
    }
}

fn connect(name: &str, spec: &serde_json::Value, annotations: &[(&str, &str)]) -> Connect {
    let object = serde_json::json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect",
        "metadata": {"name": name, "creationTimestamp": "1970-01-01T00:00:07Z", "annotations": texts(annotations)},
        "spec": spec,
    });
    Connect::of(name.parse().unwrap(), serde_json::from_value(object).unwrap())
}

fn pods_of(cidr: &str) -> serde_json::Value {
    serde_json::json!({"networkSelectors": [{"networkSelectionType": "DefaultNetwork"}], "connectivity": ["PodNetwork"],
        "connectSubnets": [{"cidr": cidr, "networkPrefix": 24}]})
}

const PLACES: [(&str, &str); 4] = [
    ("network-subnets", r#"{"layer3_1":{"ipv4":"192.168.0.0/24"},"layer2_5":{"ipv4":"192.168.1.4/31"}}"#),
    ("connect-router-tunnel-key", "16715790"),
    ("connect-router-slots", "128"),
    ("connect-topology", "transit"),
];

/// Selectors are not looked at: what they select is in the annotations, and their faults are the cluster manager's to say.
#[test]
fn what_is_kept_of_a_connection() {
    let kept = connect("road", &pods_of("192.168.0.0/16"), &[&PLACES[..], &[("node-id", "7")]].concat());
    let text = serde_json::to_string(&kept).unwrap();
    assert_eq!(serde_json::from_str::<Connect>(&text).unwrap(), kept);
    assert_eq!((kept.created, kept.deleting, kept.published.len()), (7, false, 4));
    let spec = kept.spec.unwrap();
    assert_eq!((spec.pods, spec.services, spec.subnets.len(), spec.hash.len()), (true, false, 1, 32));
    let broken = connect("road", &pods_of("192.168.0.1/16"), &PLACES);
    assert!(broken.spec.unwrap_err().contains("192.168.0.1/16"));
}

#[test]
fn places_in_a_connection() {
    let mut zone = zone();
    zone.apply_nad(&blue("ns1/blue"));
    zone.apply_nad(&green());
    zone.apply_connect(&connect("road", &pods_of("192.168.0.0/16"), &PLACES));
    let road = "road".parse().unwrap();
    let Some(Connecting::Settled(info)) = zone.connecting(&road) else { panic!("it is settled") };
    assert_eq!(zone.members(info).count(), 2);
    let four = causeway_types::Families { ipv4: true, ipv6: false };
    let place = |name: &str| match zone.membership(info, &network(name)) {
        Membership::Member(place) => place,
        other => panic!("{other:?}"),
    };
    let node = NodeId::new(9).ok();
    let link = &place("cluster_udn_blue").links(node, four).unwrap()[0];
    assert_eq!(
        [link.connect_router, link.network_router].map(|n| n.to_string()),
        ["192.168.0.18/31", "192.168.0.19/31"]
    );
    assert_eq!(place("cluster_udn_blue").key(node).unwrap().unwrap().get(), 10);
    let link = &place("cluster_udn_green").links(None, four).unwrap()[0];
    assert_eq!(link.connect_router.to_string(), "192.168.1.4/31");
    assert_eq!(place("cluster_udn_green").key(None).unwrap().unwrap().get(), 128 + 2 + 1);
    assert!(
        place("cluster_udn_green").links(None, causeway_types::Families { ipv4: false, ipv6: true }).is_err()
    );
    assert!(matches!(zone.membership(info, &network("ns1_other")), Membership::Outside));
    let report = &zone.connect_reports()[0];
    assert_eq!((report.name.as_str(), report.problems.len(), report.hash.len()), ("road", 0, 32));
}

/// A network that nobody uses here is rendered for the sake of the networks that it is connected with.
#[test]
fn a_use_of_one_is_a_use_of_all_that_are_connected() {
    let mut config = zone().config().clone();
    config.render = Render::Used { grace_ms: 10 };
    let mut zone = Zone::new(config);
    zone.apply_node(&node("n1", 2));
    zone.apply_nad(&blue("ns1/blue"));
    zone.apply_nad(&green());
    for now in [0, 20] {
        zone.tick(now);
    }
    zone.apply_pod(&pod("ns1/web", "n1", ON_BLUE));
    assert_eq!(zone.use_here(&network("cluster_udn_green")), Use::Unused);
    let road = connect("road", &pods_of("192.168.0.0/16"), &PLACES);
    let changes = zone.apply_connect(&road);
    let of_green = Change::Network(network("cluster_udn_green"));
    assert!(changes.iter().any(|change| *change == of_green), "{changes:?}");
    assert_eq!(zone.use_here(&network("cluster_udn_green")), Use::Used);
    // Who is in a connection that cannot be read is not known: none of those that were is unused for certain.
    let mut broken = road;
    broken.annotate("k8s.ovn.org/network-subnets", Some("{"));
    let changes = zone.apply_connect(&broken);
    assert!(changes.iter().any(|change| *change == of_green), "{changes:?}");
    assert_eq!(zone.use_here(&network("cluster_udn_green")), Use::Unknown);
    zone.apply_nad(&nad("ns5/red", "cluster_udn_red", "layer3", &[("network-id", "9")]));
    assert_eq!(zone.use_here(&network("cluster_udn_red")), Use::Unused, "it never was in it");
    zone.delete_connect(&"road".parse().unwrap());
    // One that nobody has ever read may be about any network.
    assert_eq!(zone.apply_connect(&broken), Changes::everything());
    assert_eq!(zone.use_here(&network("cluster_udn_red")), Use::Unknown);
    zone.delete_connect(&"road".parse().unwrap());
    assert_eq!(zone.use_here(&network("cluster_udn_green")), Use::Unused);
}

#[test]
fn the_ports_of_the_bridge() {
    let mut zone = zone();
    let ports = |patch| Some(BridgePorts { bridge: "br-ex".into(), patch, uplink: Some(1) });
    assert_eq!(zone.set_bridge(ports(None)), Change::Bridge.into());
    assert_eq!(zone.set_bridge(ports(Some(2))), Change::Bridge.into());
    assert!(zone.set_bridge(ports(Some(2))).is_empty());
    assert_eq!(zone.bridge(), ports(Some(2)).as_ref());
    assert_eq!(zone.set_bridge(None), Change::Bridge.into());
    assert!(!Change::Bridge.concerns_connections());
}

#[test]
fn pods_in_the_nodes_own_network() {
    let mut zone = zone();
    let mut pod = Pod::new(key("blue/agent"), "uid-1");
    pod.host_network = true;
    pod.node = Some("n2".parse().unwrap());
    assert!(zone.apply_pod(&pod).is_empty(), "another node's");
    pod.node = Some("n1".parse().unwrap());
    let changed: Changes = Change::HostPod(pod.key.clone()).into();
    assert_eq!(zone.apply_pod(&pod), changed);
    assert!(zone.apply_pod(&pod).is_empty() && zone.has_host_pods());
    pod.uid = "uid-2".into();
    assert_eq!(zone.apply_pod(&pod), changed, "another pod of the same name");
    assert_eq!(zone.delete_pod(&pod.key), changed);
    assert!(!zone.has_host_pods());
}
