//! Connections that are switched off, and on again: what was given stays reserved, what was said is taken back.

use causeway_api::annotations::keys;
use causeway_record::Kind;
use serde_json::{Value, json};

use crate::world::{World, cudns, ipv4};

const CNC: Kind = Kind::ClusterNetworkConnect;
const CUDN: Kind = Kind::ClusterUserDefinedNetwork;
const LINKS: &[(&str, u8)] = &[("192.168.0.0/16", 24)];

fn selected() -> Value {
    json!([cudns(json!({"connected": "yes"}))])
}

fn connected() -> World {
    let mut world = World::new(ipv4(), &["n1"]);
    world.island("red", "10.1.0.0/16", json!({"connected": "yes"}));
    world.island("blue", "10.2.0.0/16", json!({"connected": "yes"}));
    world.connect("c", LINKS, selected());
    world.zones_follow();
    world
}

fn switch(world: &mut World, on: bool) {
    world.config.features.network_connect = on;
    world.restart(|_| {});
}

fn annotations(world: &World) -> Value {
    world.object(CNC, "c")["metadata"]["annotations"].clone()
}

/// Blocks, key and finalizer stay; conditions, networks and outcome go, but those of others. Switched on, everything is as
/// it was.
#[test]
fn what_was_given_stays_and_what_was_said_goes() {
    let mut world = connected();
    world.change(
        CNC,
        "c",
        &json!({"status": {"conditions": [{"type": "Theirs", "status": "True", "reason": "r",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}),
    );
    world.tick(98_000_000);
    let (given, said) = (annotations(&world), world.object(CNC, "c")["status"].clone());
    assert_eq!(said["connectedNetworks"], "2/2");
    switch(&mut world, false);
    assert_eq!(world.writes, ["clusternetworkconnects c status"]);
    let status = &world.object(CNC, "c")["status"];
    let kinds: Vec<&Value> =
        status["conditions"].as_array().unwrap().iter().map(|one| &one["type"]).collect();
    assert_eq!(kinds, ["Theirs"]);
    for field in ["status", "networks", "connectedNetworks", "observedGeneration"] {
        assert!(status[field].is_null() || status[field] == json!([]), "{field}: {status}");
    }
    assert_eq!(annotations(&world), given);
    switch(&mut world, false);
    assert_eq!(world.writes, Vec::<String>::new(), "said once");
    switch(&mut world, true);
    assert_eq!(annotations(&world), given);
    assert_eq!(world.accepted("c"), "True/ValidationSucceeded All validation checks passed successfully");
}

/// Nobody gets anything new while they are off: neither a network that is selected, nor a connection that is made. The key of
/// one that is there is nobody else's.
#[test]
fn nothing_is_given_while_they_are_off() {
    let mut world = connected();
    switch(&mut world, false);
    let given = annotations(&world);
    world.island("green", "10.3.0.0/16", json!({"connected": "yes"}));
    world.connect("d", &[("192.169.0.0/16", 24)], json!([cudns(json!({}))]));
    assert_eq!(annotations(&world), given);
    let new = world.object(CNC, "d");
    assert!(new["metadata"]["annotations"].is_null() && new["metadata"]["finalizers"].is_null(), "{new}");
    let key = &given[keys::CONNECT_ROUTER_TUNNEL_KEY];
    world.tenant("yellow");
    world.layer2("yellow/net", &["10.4.0.0/16"]);
    assert!(
        !world
            .everything()
            .any(|one| one["metadata"]["name"] != "c" && one.to_string().contains(key.as_str().unwrap()))
    );
    switch(&mut world, true);
    assert_eq!(world.blocks("c")["layer3_1"]["ipv4"], "192.168.0.0/24");
    assert_eq!(world.blocks("c")["layer3_3"]["ipv4"], "192.168.2.0/24");
}

/// A network that goes takes its block with it, also then: another network may have its number by the time they are on.
#[test]
fn a_network_that_goes_is_let_go_of() {
    let mut world = connected();
    switch(&mut world, false);
    world.change(CUDN, "red", &json!({"metadata": {"labels": {"connected": null}}}));
    assert_eq!(world.blocks("c"), json!({"layer3_2": {"ipv4": "192.168.1.0/24"}}));
    assert!(!world.reuse().connects.is_empty(), "it rests until no zone has it");
}

/// A connection can go while they are off, and its numbers rest.
#[test]
fn a_connection_can_go() {
    let mut world = connected();
    switch(&mut world, false);
    world.delete(CNC, "c");
    assert!(!world.everything().any(|object| object["kind"] == "ClusterNetworkConnect"), "it is gone");
    assert!(world.reuse().connects.values().any(|record| record.quarantined.len() == 2));
}
