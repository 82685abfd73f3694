//! VTEPs, and networks that are carried over the fabric.

use causeway_cluster::Input;
use causeway_record::{Broken, Cause, Event, Kind};
use serde_json::{Value, json};

use crate::world::{World, ipv4};

fn vtep(world: &mut World, name: &str, cidrs: &[&str]) {
    world.put(
        json!({"kind": "VTEP", "metadata": {"name": name}, "spec": {"cidrs": cidrs, "mode": "Unmanaged"}}),
    );
}

fn has_addresses(world: &mut World, node: &str, addresses: &[&str]) {
    let text = serde_json::to_string(addresses).unwrap();
    world.change(Kind::Node, node, &json!({"metadata": {"annotations": {"k8s.ovn.org/host-cidrs": text}}}));
}

fn ends(world: &World, node: &str) -> Value {
    world.annotation(Kind::Node, node, "k8s.ovn.org/vteps")
}

fn end(address: &str) -> Value {
    json!({"fabric": {"ips": [address]}})
}

fn accepted(world: &World, name: &str) -> String {
    world.condition(Kind::Vtep, name, "Accepted")
}

/// A layer3 network for the namespace of its name.
fn blue(world: &mut World, name: &str, cidr: &str, vrf: Value) {
    world.tenant(name);
    world.label(name, json!({"name": name}));
    world.cudn(
        name,
        json!({"matchLabels": {"name": name}}),
        json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": [{"cidr": cidr, "hostSubnet": 24}]},
               "transport": "EVPN", "evpn": {"vtep": "fabric", "ipVRF": vrf}}),
    );
}

fn ready(world: &World, name: &str) -> String {
    world.cudn_condition(name, "NetworkReady")
}

fn world() -> World {
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    has_addresses(&mut world, "n1", &["172.18.0.2/16", "10.255.0.1/32"]);
    has_addresses(&mut world, "n2", &["172.18.0.3/16", "10.255.0.2/32"]);
    world
}

#[test]
fn each_node_has_its_own_address_of_a_vtep() {
    let mut world = world();
    assert_eq!(ends(&world, "n1"), Value::Null, "without VTEPs nothing is written");
    vtep(&mut world, "fabric", &["10.255.0.0/16"]);
    assert_eq!([ends(&world, "n1"), ends(&world, "n2")], [end("10.255.0.1"), end("10.255.0.2")]);
    assert_eq!(accepted(&world, "fabric"), "True/Allocated every node has an address");
    world.node("n3");
    assert_eq!(
        accepted(&world, "fabric"),
        "False/AllocationFailed nodes without an IPv4 address in its ranges: [n3]"
    );
    has_addresses(&mut world, "n3", &["10.255.0.3/32", "fd00::3/128"]);
    assert_eq!(
        (ends(&world, "n3"), accepted(&world, "fabric").starts_with("True")),
        (end("10.255.0.3"), true)
    );
    // Rule 7: a restart writes nothing.
    world.restart(|objects| objects.reverse());
    assert_eq!(world.writes, Vec::<String>::new());
}

/// An address that moves from node to node is nobody's end of tunnels while there is another one.
#[test]
fn what_a_node_is_known_by_stays() {
    let mut world = world();
    vtep(&mut world, "fabric", &["10.255.0.0/16"]);
    has_addresses(&mut world, "n1", &["10.255.0.0/32", "10.255.0.1/32"]);
    assert_eq!(ends(&world, "n1"), end("10.255.0.1"));
    assert!(accepted(&world, "fabric").starts_with("True"));
    world.node("n3");
    has_addresses(&mut world, "n3", &["10.255.0.3/32", "10.255.0.9/32"]);
    assert_eq!(
        accepted(&world, "fabric"),
        "False/AllocationFailed nodes with several, of which none is chosen: [n3 ([10.255.0.3 10.255.0.9])]"
    );
    assert_eq!(ends(&world, "n3"), Value::Null);
    has_addresses(&mut world, "n1", &["10.255.0.0/32"]);
    assert_eq!(ends(&world, "n1"), end("10.255.0.0"), "its own is gone for good");
}

#[test]
fn overlapping_and_managed_vteps_are_refused() {
    let mut world = world();
    vtep(&mut world, "fabric", &["10.255.0.0/16"]);
    vtep(&mut world, "other", &["10.0.0.0/24", "10.255.7.0/24"]);
    assert_eq!(
        [accepted(&world, "fabric"), accepted(&world, "other")],
        [
            "False/CIDROverlap its ranges overlap 10.255.7.0/24 of VTEP other: change one of them",
            "False/CIDROverlap its ranges overlap 10.255.0.0/16 of VTEP fabric: change one of them",
        ]
    );
    assert_eq!(ends(&world, "n1"), end("10.255.0.1"), "what was written stays");
    world.delete(Kind::Vtep, "other");
    assert!(accepted(&world, "fabric").starts_with("True/Allocated"));
    world.change(Kind::Vtep, "fabric", &json!({"spec": {"mode": "Managed"}}));
    assert!(accepted(&world, "fabric").starts_with("False/ModeNotSupported mode Managed is not supported"));
}

#[test]
fn a_network_waits_for_its_vtep() {
    let mut world = world();
    blue(&mut world, "blue", "10.20.0.0/16", json!({"vni": 1001}));
    assert_eq!(ready(&world, "blue"), "False/VTEPNotFound VTEP \"fabric\" is not there: create it");
    assert!(!world.has_nad("blue/blue"));
    vtep(&mut world, "fabric", &["10.255.0.0/16"]);
    assert!(
        world.has_nad("blue/blue") && ready(&world, "blue").starts_with("True/"),
        "{}",
        ready(&world, "blue")
    );
    let config: Value = serde_json::from_str(
        world.object(Kind::NetworkAttachmentDefinition, "blue/blue")["spec"]["config"].as_str().unwrap(),
    )
    .unwrap();
    assert_eq!((&config["transport"], &config["evpn"]["ipVRF"]["vni"]), (&json!("evpn"), &json!(1001)));
    assert_eq!(world.object(Kind::ClusterUserDefinedNetwork, "blue")["status"]["vrfName"], "blue");
    // What runs goes on running, and nodes keep their ends of its tunnels.
    world.delete(Kind::Vtep, "fabric");
    assert!(ready(&world, "blue").starts_with("False/VTEPNotFound") && world.has_nad("blue/blue"));
    assert_eq!(ends(&world, "n1"), end("10.255.0.1"));
    world.delete(Kind::ClusterUserDefinedNetwork, "blue");
    has_addresses(&mut world, "n1", &["172.18.0.2/16"]);
}

/// While nobody knows whether there are VTEPs, nothing is said of networks and nothing of nodes is changed.
#[test]
fn before_vteps_are_listed_nothing_is_concluded() {
    let mut before = world();
    vtep(&mut before, "fabric", &["10.255.0.0/16"]);
    blue(&mut before, "blue", "10.20.0.0/16", json!({"vni": 1001}));
    let told = ready(&before, "blue");
    let mut world = World::empty(ipv4());
    (world.objects, world.namespaces) = (before.objects.clone(), before.namespaces.clone());
    world.restart_without_vteps();
    assert_eq!((ready(&world, "blue"), ends(&world, "n1")), (told.clone(), end("10.255.0.1")));
    assert_eq!(world.writes, Vec::<String>::new());
    // An API server that has just begun says so of all kinds.
    let broken = Broken { cause: Cause::NotInstalled, message: "no such kind".into() };
    let outputs = world.step(Input::Vtep(Event::Unsynced(broken)));
    world.take(outputs);
    assert_eq!(ends(&world, "n1"), end("10.255.0.1"), "a kind that is not there takes nothing off nodes");
    assert!(world.has_nad("blue/blue"));
}

#[test]
fn places_on_the_fabric_have_one_network_each() {
    let mut world = world();
    vtep(&mut world, "fabric", &["10.255.0.0/16"]);
    blue(&mut world, "blue", "10.20.0.0/16", json!({"vni": 1001, "routeTarget": "65000:1"}));
    blue(&mut world, "red", "10.30.0.0/16", json!({"vni": 1001}));
    blue(&mut world, "green", "10.40.0.0/16", json!({"vni": 1003, "routeTarget": "65000:1"}));
    assert!(ready(&world, "blue").starts_with("True"));
    assert_eq!(
        ready(&world, "red"),
        "False/VNIConflict VNI 1001 belongs to network cluster_udn_blue: choose another one"
    );
    assert_eq!(
        ready(&world, "green"),
        "False/RouteTargetConflict route target 65000:1 belongs to network cluster_udn_blue: choose another one"
    );
    assert!(!world.has_nad("red/red"));
    world.delete(Kind::ClusterUserDefinedNetwork, "blue");
    assert!(ready(&world, "red").starts_with("True") && ready(&world, "green").starts_with("True"));
}

#[test]
fn a_mac_vrf_alone_is_refused() {
    let mut world = world();
    vtep(&mut world, "fabric", &["10.255.0.0/16"]);
    world.tenant("flat");
    let network = json!({"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.0.0.0/16"]},
                         "transport": "EVPN", "evpn": {"vtep": "fabric", "macVRF": {"vni": 7}}});
    world.label("flat", json!({"name": "flat"}));
    world.cudn("flat", json!({"matchLabels": {"name": "flat"}}), network);
    assert!(
        ready(&world, "flat").starts_with("False/TransportNotSupported macVRF alone"),
        "{}",
        ready(&world, "flat")
    );
}
