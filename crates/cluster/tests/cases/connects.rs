//! cnc-cases J, M to P, W: which networks a connection has, and what is written on it.

use causeway_api::annotations::keys;
use causeway_cluster::Input;
use causeway_record::Kind;
use causeway_record::{Broken, Cause, Event};
use causeway_types::ConnectTopology;
use serde_json::{Value, json};

use crate::world::{World, cudns, dual, ipv4, namespaces, synced};

const CNC: Kind = Kind::ClusterNetworkConnect;
const CUDN: Kind = Kind::ClusterUserDefinedNetwork;
const LINKS: &[(&str, u8)] = &[("192.168.0.0/16", 24)];

fn selected() -> Value {
    json!([cudns(json!({"connected": "yes"}))])
}

/// Two islands, red (network 1) and blue (network 2), that are selected.
fn two_islands() -> World {
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    world.island("red", "10.1.0.0/16", json!({"connected": "yes"}));
    world.island("blue", "10.2.0.0/16", json!({"connected": "yes"}));
    world.writes.clear();
    world
}

fn owners(world: &World, name: &str) -> Vec<String> {
    world.blocks(name).as_object().map(|blocks| blocks.keys().cloned().collect()).unwrap_or_default()
}

/// N02, N07, N08, N10, P01, M07: everything in one patch, beside what others have written.
#[test]
fn n02_n07_n08_n10_p01_m07_a_layer3_and_a_layer2_network() {
    let mut world = World::new(dual(), &["n1"]);
    world.island("red", "10.1.0.0/16", json!({"connected": "yes"}));
    world.tenant("green");
    world.change_namespace("green", &json!({"metadata": {"labels": {"connected": "yes"}}}));
    world.layer2("green/net", &["10.3.0.0/16"]);
    world.writes.clear();
    let selectors = json!([cudns(json!({"connected": "yes"})), namespaces(json!({"connected": "yes"}))]);
    world.put(json!({"kind": "ClusterNetworkConnect", "metadata": {"name": "c", "annotations": {"theirs": "x"}, "finalizers": ["theirs/f"]},
        "spec": {"networkSelectors": selectors, "connectivityEnabled": ["PodNetwork"], "connectSubnets": [
            {"cidr": "192.168.0.0/16", "networkPrefix": 24}, {"cidr": "fd01::/64", "networkPrefix": 96}]}}));
    assert_eq!(world.writes, ["clusternetworkconnects c annotations", "clusternetworkconnects c status"]);
    let object = world.object(CNC, "c");
    assert_eq!(
        object["metadata"]["annotations"],
        json!({
            "theirs": "x",
            "k8s.ovn.org/network-subnets": r#"{"layer3_1":{"ipv4":"192.168.0.0/24","ipv6":"fd01::/96"},"layer2_2":{"ipv4":"192.168.1.0/31","ipv6":"fd01::1:0:0/127"}}"#,
            "k8s.ovn.org/network-connect-subnet": r#"{"layer3_1":{"ipv4":"192.168.0.0/24","ipv6":"fd01::/96"},"layer2_2":{"ipv4":"192.168.1.0/31","ipv6":"fd01::1:0:0/127"}}"#,
            "k8s.ovn.org/connect-router-tunnel-key": "16715780",
            "k8s.ovn.org/connect-router-slots": "128",
            "k8s.ovn.org/connect-topology": "transit",
        })
    );
    assert_eq!(object["metadata"]["finalizers"], json!(["theirs/f", keys::CONNECT_FINALIZER]));
    assert_eq!(world.accepted("c"), "True/ValidationSucceeded All validation checks passed successfully");
}

/// N01, W01, P16: nothing selected gives a key and a reason.
#[test]
fn n01_w01_p16_nothing_selected() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.connect("c", LINKS, selected());
    assert_eq!(
        world.object(CNC, "c")["metadata"]["annotations"],
        json!({"k8s.ovn.org/connect-router-tunnel-key": "16715779", "k8s.ovn.org/connect-topology": "transit"})
    );
    assert_eq!(
        world.accepted("c"),
        "False/InsufficientNetworks Only 0 networks selected, minimum 2 networks required for connection"
    );
}

/// N16, W10, W05, O02: labels of networks; a connection that is not concerned is not touched.
#[test]
fn n16_w05_w10_o02_labels_of_networks() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.connect("c", LINKS, selected());
    world.connect("other", &[("192.169.0.0/16", 24)], json!([cudns(json!({"x": "y"}))]));
    let before = world.object(CNC, "other").clone();
    let label = |world: &mut World, name: &str, value: Value| {
        world.change(CUDN, name, &json!({"metadata": {"labels": {"connected": value}}}));
    };
    world.island("red", "10.1.0.0/16", json!({"connected": "yes"}));
    assert_eq!(owners(&world, "c"), ["layer3_1"]);
    world.island("blue", "10.2.0.0/16", json!({}));
    assert_eq!(owners(&world, "c"), ["layer3_1"]);
    label(&mut world, "blue", json!("yes"));
    assert_eq!(owners(&world, "c"), ["layer3_1", "layer3_2"]);
    label(&mut world, "red", Value::Null);
    label(&mut world, "blue", Value::Null);
    assert_eq!(world.blocks("c"), json!({}));
    assert_eq!(world.object(CNC, "other"), &before);
}

/// N17, W08, N19: labels of namespaces, and selectors that grow and shrink.
#[test]
fn n17_n19_w08_labels_of_namespaces_and_selectors() {
    let mut world = two_islands();
    world.connect("c", LINKS, json!([namespaces(json!({"name": "red"}))]));
    assert_eq!(owners(&world, "c"), ["layer3_1"]);
    world.change_namespace("blue", &json!({"metadata": {"labels": {"name": "blue", "extra": "yes"}}}));
    world.change(CNC, "c", &json!({"spec": {"networkSelectors": [namespaces(json!({"extra": "yes"}))]}}));
    assert_eq!(owners(&world, "c"), ["layer3_2"]);
    world.change(CNC, "c", &json!({"spec": {"networkSelectors": [namespaces(json!({}))]}}));
    assert_eq!(owners(&world, "c"), ["layer3_1", "layer3_2"]);
    world.change(CNC, "c", &json!({"spec": {"networkSelectors": [namespaces(json!({"extra": "yes"}))]}}));
    world.change_namespace("blue", &json!({"metadata": {"labels": {"extra": null}}}));
    assert_eq!(world.blocks("c"), json!({}));
}

/// N04, N05, N14, N20, N22: attachments that are broken, written by hand or secondary are no network to connect; a
/// network in three namespaces is one.
#[test]
fn n04_n05_n14_n20_n22_what_is_no_network_to_connect() {
    let mut world = two_islands();
    for name in ["a", "b", "hand"] {
        world.tenant(name);
    }
    world.change(
        CUDN,
        "red",
        &json!({"spec": {"namespaceSelector": {"matchLabels": {"name": null}, "matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["red", "a", "b"]}]}}}),
    );
    for name in ["red", "a", "b"] {
        world.change_namespace(name, &json!({"metadata": {"labels": {"kubernetes.io/metadata.name": name}}}));
    }
    world.nad("hand/broken", r#"{"type": "ovn-k8s-cni-overlay", "name": "broken", "topology": "layer9"}"#);
    world.nad("hand/own", r#"{"type": "ovn-k8s-cni-overlay", "name": "own", "topology": "layer2", "role": "primary", "subnets": "10.9.0.0/24"}"#);
    world.connect("c", LINKS, json!([cudns(json!({})), namespaces(json!({}))]));
    assert_eq!(owners(&world, "c"), ["layer3_1", "layer3_2"]);
    world.delete_namespace("a");
    assert_eq!(owners(&world, "c"), ["layer3_1", "layer3_2"]);
    let secondary =
        json!({"topology": "Layer2", "layer2": {"role": "Secondary", "subnets": ["10.7.0.0/24"]}});
    world.cudn("second", json!({}), secondary);
    world.tick(2_000);
    assert_eq!(owners(&world, "c"), ["layer3_1", "layer3_2"]);
    assert_eq!(
        world.accepted("c"),
        "False/UnsupportedNetworkType Network 'second' has role 'Secondary'. Only 'Primary' role networks are supported"
    );
}

/// O01, O04: what does not concern connections writes nothing on them.
#[test]
fn o01_o04_events_that_do_not_matter() {
    let mut world = two_islands();
    world.connect("c", LINKS, selected());
    world.writes.clear();
    world.namespace("plain", json!({"a": "b"}));
    world.change_namespace("plain", &json!({"metadata": {"labels": {"a": "c"}}}));
    world.pod("red/p", "n1");
    world.change(CUDN, "red", &json!({"metadata": {"labels": {"more": "labels"}}}));
    world.change(CNC, "c", &json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!(
        world.writes.iter().filter(|write| write.contains("connect")).count(),
        0,
        "{:?}",
        world.writes
    );
}

/// J07, J08: a connection called like a network has a key of its own, and keeps it.
#[test]
fn j07_j08_keys_of_networks_and_connections() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("same");
    world.layer2("same/same", &["10.0.0.0/24"]);
    world.connect("same", LINKS, selected());
    let key = |world: &World, name: &str| world.annotation(CNC, name, keys::CONNECT_ROUTER_TUNNEL_KEY);
    let tunnels = world.annotation(Kind::NetworkAttachmentDefinition, "same/same", keys::TUNNEL_KEYS);
    assert_eq!((tunnels[1].clone(), key(&world, "same")), (json!(16_715_779), json!(16_715_780)));
    world.restart(|objects| objects.reverse());
    world.connect("second", LINKS, selected());
    assert_eq!([key(&world, "same"), key(&world, "second")], [16_715_780, 16_715_781]);
}

/// P02: three networks and two blocks.
#[test]
fn p02_exhausted() {
    let mut world = two_islands();
    world.island("green", "10.3.0.0/16", json!({"connected": "yes"}));
    world.connect("c", &[("192.168.0.0/24", 25)], selected());
    assert_eq!(owners(&world, "c"), ["layer3_1", "layer3_2"]);
    let accepted = world.accepted("c");
    assert!(accepted.starts_with("False/ConnectSubnetExhausted Insufficient IP addresses in connect subnet 192.168.0.0/24. Network 'green' is left out"), "{accepted}");
}

/// K07: a node without a link is named; the others are connected, and it is forgotten when it goes.
#[test]
fn k07_a_node_without_a_link() {
    let mut world = two_islands();
    // Four links in a block: node ids 0 to 3.
    world.connect("c", &[("192.168.0.0/16", 29)], selected());
    assert!(world.accepted("c").starts_with("True/"));
    world.node("n3");
    world.tick(2_000);
    assert_eq!(
        world.accepted("c"),
        "False/ConnectSubnetExhausted Insufficient IP addresses in connect subnet 192.168.0.0/16. Node 'n3' is left out of \
         network 'red' and all other layer3 networks: each network's block has 4 links, for node ids below 4, and the id of the node is 4. Create the \
         ClusterNetworkConnect anew with networkPrefix 28 or less, or use the compact topology, which needs no link for each node"
    );
    assert_eq!(owners(&world, "c").len(), 2);
    world.delete(Kind::Node, "n3");
    world.tick(4_000);
    assert!(world.accepted("c").starts_with("True/"));
}

/// W07: networks that go leave the connection, one after the other.
#[test]
fn w07_networks_go() {
    let mut world = two_islands();
    world.connect("c", LINKS, selected());
    world.delete(CUDN, "red");
    assert_eq!(owners(&world, "c"), ["layer3_2"]);
    world.delete(CUDN, "blue");
    assert_eq!(world.blocks("c"), json!({}));
    world.island("red", "10.1.0.0/16", json!({"connected": "yes"}));
    assert_eq!(owners(&world, "c"), ["layer3_3"], "under another number");
}

/// P04, and that who leaves is let go even while somebody else is invalid.
#[test]
fn p04_deselection_takes_effect_while_something_is_invalid() {
    let mut world = two_islands();
    world.connect("c", LINKS, selected());
    let before = world.blocks("c");
    world.island("twin", "10.1.0.0/16", json!({"connected": "yes"}));
    world.tick(2_000);
    assert_eq!(world.blocks("c"), before);
    assert_eq!(
        world.accepted("c"),
        "False/OverlappingNetworkSubnets Cannot connect networks 'red' and 'twin': overlapping pod subnets 10.1.0.0/16 detected (selected \
         networks have overlapping subnets)"
    );
    world.restart(|objects| objects.reverse());
    assert_eq!(world.blocks("c"), before, "also after a restart");
    world.change(CUDN, "blue", &json!({"metadata": {"labels": {"connected": null}}}));
    assert_eq!(owners(&world, "c"), ["layer3_1"]);
}

/// P05, P14, W11: two connections over the same subnets; the younger is told, and heals when the older goes.
#[test]
fn p05_p14_w11_two_connections() {
    let mut world = two_islands();
    world.connect("one", LINKS, selected());
    world.connect("two", LINKS, selected());
    world.connect("three", &[("192.169.0.0/16", 24)], selected());
    assert_eq!(
        [owners(&world, "one").len(), owners(&world, "two").len(), owners(&world, "three").len()],
        [2, 0, 2]
    );
    assert!(world.accepted("two").starts_with(
        "False/ConnectSubnetOverlap Connect subnet 192.168.0.0/16 overlaps with ClusterNetworkConnect 'one'"
    ));
    world.tick(2_000);
    world.delete(CNC, "one");
    assert_eq!(owners(&world, "two").len(), 2);
    assert!(world.accepted("two").starts_with("True/"));
}

/// P07, P08, P10, P11: what the cluster and the networks do not allow.
#[test]
fn p07_p08_p11_conflicts() {
    let mut world = two_islands();
    let cases = [
        (
            "service",
            "10.96.0.0/16",
            "ConnectSubnetConflict Connect subnet 10.96.0.0/16 conflicts with service CIDR 10.96.0.0/16",
        ),
        (
            "masquerade",
            "169.254.0.0/16",
            "ConnectSubnetConflict Connect subnet 169.254.0.0/16 conflicts with masquerade subnet",
        ),
        (
            "transit",
            "100.88.0.0/16",
            "ConnectSubnetConflict Connect subnet 100.88.0.0/16 conflicts with transit subnet",
        ),
        (
            "join",
            "100.65.0.0/16",
            "ConnectSubnetConflict Connect subnet 100.65.0.0/16 conflicts with join subnet",
        ),
        (
            "pods",
            "10.1.0.0/16",
            "ConnectSubnetConflict Connect subnet 10.1.0.0/16 conflicts with pod subnet 10.1.0.0/16 of network 'red'",
        ),
        ("family", "fd01::/64", "IPFamilyMismatch Cannot connect network 'blue'"),
    ];
    for (name, cidr, expected) in cases {
        world.connect(name, &[(cidr, if name == "family" { 96 } else { 24 })], selected());
        let accepted = world.accepted(name);
        assert!(accepted.starts_with(&format!("False/{expected}")), "{name}: {accepted}");
    }
    world.connect("good", LINKS, selected());
    assert!(world.accepted("good").starts_with("True/"), "the others do not stop it");
}

/// P10: a network that has no tunnels.
#[test]
fn p10_transports() {
    let mut world = two_islands();
    world.tenant("plain");
    world.change_namespace("plain", &json!({"metadata": {"labels": {"name": "plain"}}}));
    let network = json!({"topology": "Layer3", "transport": "NoOverlay", "noOverlay": {"outboundSNAT": "Disabled", "routing": "Managed"},
        "layer3": {"role": "Primary", "subnets": [{"cidr": "10.4.0.0/16", "hostSubnet": 24}]}});
    world.cudn("plain", json!({"matchLabels": {"name": "plain"}}), network);
    world.connect("c", LINKS, json!([cudns(json!({}))]));
    assert_eq!(owners(&world, "c"), ["layer3_1", "layer3_2"]);
    let accepted = world.accepted("c");
    assert!(
        accepted.starts_with("False/UnsupportedNetworkType Network 'plain' has transport 'NoOverlay'"),
        "{accepted}"
    );
}

/// P17, P19: each new word is one event; only a new status is a transition.
#[test]
fn p17_p19_events_and_transitions() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tick(1_000);
    world.connect("c", LINKS, selected());
    world.tick(5_000);
    world.island("red", "10.1.0.0/16", json!({"connected": "yes"}));
    world.tick(9_000);
    world.island("blue", "10.2.0.0/16", json!({"connected": "yes"}));
    world.tick(13_000);
    let about: Vec<&String> =
        world.said.iter().filter(|text| text.contains("ClusterNetworkConnect c")).collect();
    assert_eq!(
        about,
        [
            "ClusterNetworkConnect c InsufficientNetworks: Only 0 networks selected, minimum 2 networks required for connection",
            "ClusterNetworkConnect c ValidationSucceeded: All validation checks passed successfully",
        ]
    );
    world.change(CUDN, "blue", &json!({"metadata": {"labels": {"connected": null}}}));
    world.change(CUDN, "red", &json!({"metadata": {"labels": {"connected": null}}}));
    world.tick(17_000);
    let accepted = world.object(CNC, "c")["status"]["conditions"][0].clone();
    assert_eq!(
        (accepted["message"].clone(), accepted["lastTransitionTime"].clone()),
        (
            json!("Only 0 networks selected, minimum 2 networks required for connection"),
            json!("1970-01-01T00:00:13Z")
        )
    );
}

/// A spec that breaks the rules is said; what is connected stays as it is, and others go on.
#[test]
fn a_spec_that_cannot_be_read() {
    let mut world = two_islands();
    world.connect("c", LINKS, selected());
    let before = world.object(CNC, "c")["metadata"]["annotations"].clone();
    let near = json!([{"networkSelectionType": "ClusterUserDefinedNetworks", "clusterUserDefinedNetworkSelector":
        {"networkSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}}]);
    world.tick(2_000);
    world.change(CNC, "c", &json!({"spec": {"networkSelectors": near}}));
    assert!(world.accepted("c").starts_with("False/InvalidSpec the label selector cannot be read"));
    world.tick(4_000);
    world.change(CNC, "c", &json!({"spec": {"networkSelectors": selected(), "connectSubnets": [{"cidr": "192.170.0.0/16", "networkPrefix": 24}]}}));
    assert!(
        world.accepted("c").starts_with("False/Immutable connectSubnets is immutable"),
        "{}",
        world.accepted("c")
    );
    assert_eq!(world.object(CNC, "c")["metadata"]["annotations"], before);
    world.connect("other", &[("192.169.0.0/16", 24)], selected());
    assert!(world.accepted("other").starts_with("True/"));
    world.tick(6_000);
    world.change(
        CNC,
        "c",
        &json!({"spec": {"connectSubnets": [{"cidr": "192.168.0.0/16", "networkPrefix": 24}]}}),
    );
    assert!(world.accepted("c").starts_with("True/"));
    assert_eq!(world.object(CNC, "c")["metadata"]["annotations"], before);
}

/// Who leaves is let go also while the spec cannot be read, and so is everybody when such a connection goes.
#[test]
fn a_spec_that_cannot_be_read_holds_nobody() {
    let mut world = two_islands();
    world.connect("c", LINKS, selected());
    world.change(
        CNC,
        "c",
        &json!({"spec": {"connectSubnets": [{"cidr": "192.170.0.0/16", "networkPrefix": 24}]}}),
    );
    world.change(CUDN, "red", &json!({"metadata": {"labels": {"connected": null}}}));
    assert_eq!(owners(&world, "c"), ["layer3_2"]);
    world.delete(CNC, "c");
    assert!(world.object(CNC, "c").is_null());
    let reuse = world.reuse();
    assert_eq!(reuse.tunnel_keys.quarantined.len(), 1);
    assert_eq!(reuse.connects.values().map(|record| record.quarantined.len()).sum::<usize>(), 2);
}

/// An annotation that cannot be read holds the connection; one that somebody changes is written again.
#[test]
fn annotations_of_others() {
    let mut world = two_islands();
    world.put(json!({"kind": "ClusterNetworkConnect", "metadata": {"name": "odd", "annotations": {"k8s.ovn.org/network-subnets": "[]"}},
        "spec": {"networkSelectors": selected(), "connectSubnets": [{"cidr": "192.169.0.0/16", "networkPrefix": 24}], "connectivity": ["PodNetwork"]}}));
    assert_eq!(world.blocks("odd"), json!([]));
    assert!(world.accepted("odd").starts_with("False/InvalidAnnotation "), "{}", world.accepted("odd"));
    world.connect("c", LINKS, selected());
    let before = world.object(CNC, "c")["metadata"]["annotations"].clone();
    for text in ["{}", "nonsense", r#"{"layer3_1":{"ipv4":"192.168.7.0/24"}}"#] {
        world.change(CNC, "c", &json!({"metadata": {"annotations": {"k8s.ovn.org/network-subnets": text}}}));
        assert_eq!(world.object(CNC, "c")["metadata"]["annotations"], before, "{text}");
    }
}

/// A key that cannot be read is said, and left: nobody may change it, so another one would be refused for ever. Others go on.
#[test]
fn a_key_that_cannot_be_read() {
    let mut world = two_islands();
    world.put(json!({"kind": "ClusterNetworkConnect", "metadata": {"name": "odd", "annotations": {keys::CONNECT_ROUTER_TUNNEL_KEY: "many"}},
        "spec": {"networkSelectors": selected(), "connectSubnets": [{"cidr": "192.169.0.0/16", "networkPrefix": 24}], "connectivity": ["PodNetwork"]}}));
    let accepted = world.accepted("odd");
    assert!(
        accepted.starts_with("False/InvalidAnnotation the connect router has no tunnel key: "),
        "{accepted}"
    );
    assert!(
        accepted.contains("many") && accepted.ends_with("delete the object and create it anew"),
        "{accepted}"
    );
    assert_eq!(
        world.object(CNC, "odd")["metadata"]["annotations"],
        json!({keys::CONNECT_ROUTER_TUNNEL_KEY: "many"})
    );
    world.connect("c", LINKS, selected());
    assert!(world.accepted("c").starts_with("True/"), "{}", world.accepted("c"));
}

/// Places that an object comes with, and that are not its own, or another's: the networks get others, and it is said.
#[test]
fn places_that_cannot_be_kept_are_said() {
    let mut world = two_islands();
    let blocks = r#"{"layer3_1":{"ipv4":"192.168.3.0/24"},"layer3_2":{"ipv4":"192.168.3.0/24"},"layer3_9":{"ipv4":"10.9.0.0/24"}}"#;
    world.put(json!({"kind": "ClusterNetworkConnect", "metadata": {"name": "c", "annotations": {keys::NETWORK_SUBNETS: blocks}},
        "spec": {"networkSelectors": selected(), "connectSubnets": [{"cidr": "192.168.0.0/16", "networkPrefix": 24}], "connectivity": ["PodNetwork"]}}));
    assert_eq!(
        world.blocks("c"),
        json!({"layer3_1": {"ipv4": "192.168.3.0/24"}, "layer3_2": {"ipv4": "192.168.0.0/24"}})
    );
    assert_eq!(
        world.accepted("c"),
        "True/ValidationSucceeded All validation checks passed successfully; The annotated place of network 'blue' was not kept: \
         layer3_1 has the same block or parcel; The annotated place of layer3_9 was not kept: [10.9.0.0/24] are not one block or \
         parcel of the connect subnets"
    );
}

/// A cluster without tunnels connects nothing, and says so on every connection.
#[test]
fn a_cluster_without_tunnels_connects_nothing() {
    let mut world = two_islands();
    world.connect("c", LINKS, selected());
    world.config.no_overlay = true;
    world.restart(|_| {});
    assert_eq!(world.blocks("c"), json!({}));
    assert_eq!(
        world.accepted("c"),
        "False/UnsupportedNetworkType Network connect feature is not supported when overlay tunneling is disabled"
    );
}

/// A kind that is not installed stops nothing else; connections are looked at when it is.
#[test]
fn connections_are_not_installed() {
    let mut world = World::empty(ipv4());
    for input in synced(causeway_alloc::Reuse::default()) {
        let missing = Broken { cause: Cause::NotInstalled, message: "they are not installed".into() };
        let input = match input {
            Input::ClusterNetworkConnect(_) => Input::ClusterNetworkConnect(Event::Unsynced(missing)),
            input => input,
        };
        let outputs = world.step(input);
        world.take(outputs);
    }
    world.node("n1");
    world.island("red", "10.1.0.0/16", json!({"connected": "yes"}));
    world.island("blue", "10.2.0.0/16", json!({"connected": "yes"}));
    assert!(world.cudn_condition("red", "NetworkReady").starts_with("True/"));
    world.writes.clear();
    world.connect("c", LINKS, selected());
    assert_eq!(world.writes, Vec::<String>::new(), "nothing on half the picture");
    let outputs = world.step(Input::ClusterNetworkConnect(Event::Synced));
    world.take(outputs);
    assert_eq!(owners(&world, "c"), ["layer3_1", "layer3_2"]);
    assert!(world.accepted("c").starts_with("True/"));
}

fn topology(world: &World, name: &str) -> Value {
    world.annotation(CNC, name, keys::CONNECT_TOPOLOGY)
}

/// Moving to the other topology: through both, and only when all zones that are heard of have followed.
#[test]
fn topologies_change_step_by_step() {
    let mut world = two_islands();
    world.connect("c", LINKS, selected());
    let blocks = world.blocks("c");
    world.config.connect_topology = ConnectTopology::Compact;
    world.restart(|_| {});
    world.connect("new", &[("192.169.0.0/16", 24)], selected());
    assert_eq!([topology(&world, "c"), topology(&world, "new")], ["transit", "compact"]);
    for (second, expected) in [(99_002_000, "both"), (99_004_000, "compact"), (99_006_000, "compact")] {
        world.zone_follows("n1");
        world.tick(second);
        assert_ne!(topology(&world, "c"), if expected == "both" { "both" } else { "never" });
        world.zone_follows("n2");
        world.tick(second + 1_000);
        assert_eq!(topology(&world, "c"), expected);
    }
    assert_eq!(world.blocks("c"), blocks, "no address moves");
    world.writes.clear();
    world.restart(|_| {});
    assert_eq!(world.writes, Vec::<String>::new());
}

/// A step that would disconnect a node is not taken, and that is said.
#[test]
fn a_topology_without_room_is_not_moved_to() {
    let mut world = two_islands();
    world.config.connect_topology = ConnectTopology::Compact;
    world.restart(|_| {});
    // Four links in a block: node ids 0 to 3.
    world.connect("c", &[("192.168.0.0/16", 29)], selected());
    world.node("n3");
    world.tick(99_002_000);
    assert!(world.accepted("c").starts_with("True/"), "{}", world.accepted("c"));
    world.config.connect_topology = ConnectTopology::Transit;
    world.restart(|_| {});
    world.zones_follow();
    world.tick(99_004_000);
    assert_eq!(topology(&world, "c"), "compact");
    let said = world.said.iter().filter(|text| text.contains("TopologyNotChanged")).count();
    assert_eq!(said, 1, "{:?}", world.said);
}

/// cnc-cases N13: a kind of selection that nobody knows is refused, and what was connected stays so until it is mended.
#[test]
fn n13_a_selection_of_an_unknown_kind() {
    let mut world = two_islands();
    world.connect("c", LINKS, selected());
    let before = world.blocks("c");
    let odd = json!([{"networkSelectionType": "DefaultNetwork"}]);
    world.tick(2_000);
    world.change(CNC, "c", &json!({"spec": {"networkSelectors": odd}}));
    let accepted = world.accepted("c");
    let refused =
        "False/InvalidSpec Only ClusterUserDefinedNetworks or PrimaryUserDefinedNetworks can be selected";
    assert_eq!(accepted, refused);
    assert_eq!(world.blocks("c"), before);
    world.tick(4_000);
    world.change(CNC, "c", &json!({"spec": {"networkSelectors": selected()}}));
    assert!(world.accepted("c").starts_with("True/"), "{}", world.accepted("c"));
    assert_eq!(world.blocks("c"), before);
}
