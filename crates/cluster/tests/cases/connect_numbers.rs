//! cnc-cases I, J, P20: numbers of connections that are freed rest until no zone has them.

use causeway_alloc::{ConnectRecord, Epoch};
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
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    world.island("red", "10.1.0.0/16", json!({"connected": "yes"}));
    world.island("blue", "10.2.0.0/16", json!({"connected": "yes"}));
    world.connect("c", LINKS, selected());
    world
}

fn label(world: &mut World, name: &str, value: Value) {
    world.change(CUDN, name, &json!({"metadata": {"labels": {"connected": value}}}));
}

fn freed(world: &World) -> Vec<(u32, Option<u32>, Epoch)> {
    world.reuse().connects.into_values().flat_map(|record: ConnectRecord| record.quarantined).collect()
}

/// A block that is freed is recorded before the annotation lets go of it, and rests until every zone has cleared it.
#[test]
fn blocks_rest_until_every_zone_has_cleared_them() {
    let mut world = connected();
    world.failing = Some("configmaps".into());
    label(&mut world, "red", Value::Null);
    assert_eq!(world.blocks("c")["layer3_1"]["ipv4"], "192.168.0.0/24", "not before the record is written");
    world.failing = None;
    world.restart(|_| {});
    assert_eq!(world.blocks("c"), json!({"layer3_2": {"ipv4": "192.168.1.0/24"}}));
    assert_eq!(freed(&world), [(0, None, Epoch(1))]);
    world.tick(99_002_000);
    world.restart(|objects| objects.reverse());
    assert_eq!(world.writes, Vec::<String>::new());
    world.zone_follows("n1");
    world.island("green", "10.3.0.0/16", json!({"connected": "yes"}));
    assert_eq!(world.blocks("c")["layer3_3"]["ipv4"], "192.168.2.0/24", "not while n2 may have it");
    world.zone_follows("n2");
    world.island("white", "10.4.0.0/16", json!({"connected": "yes"}));
    assert_eq!(world.blocks("c")["layer3_4"]["ipv4"], "192.168.0.0/24");
}

/// Who is deselected and selected again before the annotation could be written has what it had.
#[test]
fn a_record_without_its_annotation() {
    let mut world = connected();
    world.paused = true;
    label(&mut world, "red", Value::Null);
    // The record is written, then the manager is gone.
    world.held.retain(|request| request.target.kind == Kind::ConfigMap);
    let record = world.held.pop_front().unwrap();
    world.held.clear();
    let causeway_record::Action::Apply { body, .. } = record.action else { panic!("{record:?}") };
    world.objects.insert(record.target, {
        let mut object = body;
        object["kind"] = "ConfigMap".into();
        object
    });
    world.paused = false;
    world.objects.get_mut(&crate::world::target(CUDN, "red")).unwrap()["metadata"]["labels"]["connected"] =
        json!("yes");
    world.take_over(|_| {});
    // Zones must not wait for what is in use.
    assert_eq!(world.writes, ["configmaps causeway/causeway-freed-numbers data"]);
    assert_eq!(freed(&world), []);
    assert_eq!(world.blocks("c")["layer3_1"]["ipv4"], "192.168.0.0/24");
}

/// Deletion: the record, then the finalizer; the key and the blocks rest, also for a connection of the same name.
#[test]
fn a_connection_goes_after_its_numbers_are_recorded() {
    let mut world = connected();
    world.failing = Some("configmaps".into());
    world.delete(CNC, "c");
    assert!(!world.object(CNC, "c").is_null());
    world.failing = None;
    world.restart(|_| {});
    assert!(world.object(CNC, "c").is_null());
    let reuse = world.reuse();
    assert_eq!(reuse.tunnel_keys.quarantined.into_iter().collect::<Vec<_>>(), [(16_715_779, Epoch(1))]);
    assert_eq!(freed(&world), [(0, None, Epoch(1)), (1, None, Epoch(1))]);
    world.connect("c", LINKS, selected());
    assert_eq!(world.annotation(CNC, "c", keys::CONNECT_ROUTER_TUNNEL_KEY), 16_715_780);
    assert_eq!(
        world.blocks("c"),
        json!({"layer3_1": {"ipv4": "192.168.2.0/24"}, "layer3_2": {"ipv4": "192.168.3.0/24"}})
    );
    world.restart(|_| {});
    assert_eq!(world.writes, Vec::<String>::new());
    world.zones_follow();
    world.connect("d", &[("192.169.0.0/16", 24)], selected());
    assert_eq!(world.blocks("d")["layer3_1"]["ipv4"], "192.169.0.0/24");
    world.delete(CNC, "d");
    assert_eq!(freed(&world).len(), 2, "what all have cleared is not listed any more");
}

/// A connection that others hold keeps nobody connected, and its finalizer is not put back.
#[test]
fn a_connection_that_others_hold() {
    let mut world = connected();
    world.change(CNC, "c", &json!({"metadata": {"finalizers": [keys::CONNECT_FINALIZER, "theirs/f"]}}));
    world.delete(CNC, "c");
    assert_eq!(world.object(CNC, "c")["metadata"]["finalizers"], json!(["theirs/f"]));
    assert_eq!(world.blocks("c"), json!({}));
    world.restart(|_| {});
    assert_eq!(world.writes, Vec::<String>::new());
    world.change(CNC, "c", &json!({"metadata": {"finalizers": []}}));
    assert!(world.object(CNC, "c").is_null());
    world.connect("d", LINKS, selected());
    assert_eq!(world.annotation(CNC, "d", keys::CONNECT_ROUTER_TUNNEL_KEY), 16_715_780, "the old key rests");
}

/// Whoever takes the finalizer away by force does not free numbers.
#[test]
fn a_connection_that_goes_by_force() {
    let mut world = connected();
    world.paused = true;
    world.change(CNC, "c", &json!({"metadata": {"finalizers": []}}));
    world.delete(CNC, "c");
    world.resume();
    assert_eq!(freed(&world), [(0, None, Epoch(1)), (1, None, Epoch(1))]);
    world.connect("d", LINKS, selected());
    assert_eq!(world.annotation(CNC, "d", keys::CONNECT_ROUTER_TUNNEL_KEY), 16_715_780);
}

/// P20: a write fails, and the network is deselected before it is tried again. The write may have happened all the same,
/// so the block rests; then it is there again.
#[test]
fn p20_a_failed_write_leaks_nothing() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.island("red", "10.1.0.0/16", json!({"connected": "yes"}));
    world.failing = Some("clusternetworkconnects c annotations".into());
    world.connect("c", LINKS, selected());
    assert_eq!(world.blocks("c"), Value::Null);
    label(&mut world, "red", Value::Null);
    world.failing = None;
    world.island("blue", "10.2.0.0/16", json!({"connected": "yes"}));
    assert_eq!(world.blocks("c"), json!({"layer3_2": {"ipv4": "192.168.1.0/24"}}));
    world.zones_follow();
    label(&mut world, "red", json!("yes"));
    assert_eq!(world.blocks("c")["layer3_1"]["ipv4"], "192.168.0.0/24");
}

/// I10, J07: two connections, four networks; a restart changes nothing, and the next network gets the next block.
#[test]
fn i10_j07_restart() {
    let mut world = connected();
    world.island("green", "10.3.0.0/16", json!({"connected": "yes"}));
    world.island("white", "10.4.0.0/16", json!({"connected": "yes"}));
    world.connect("second", &[("10.100.0.0/16", 24)], selected());
    world.tick(2_000);
    world.zones_follow();
    world.tick(4_000);
    let before = world.objects.clone();
    world.restart(|objects| objects.reverse());
    assert_eq!((&world.writes, &world.objects), (&Vec::<String>::new(), &before));
    world.island("fifth", "10.5.0.0/16", json!({"connected": "yes"}));
    assert_eq!(world.blocks("c")["layer3_5"]["ipv4"], "192.168.4.0/24");
}

/// Of two connections with one key only one has it; the other is told to be made anew.
#[test]
fn two_connections_with_one_key() {
    let mut world = connected();
    let mut copy = world.object(CNC, "c").clone();
    copy["metadata"]["name"] = "copy".into();
    copy["metadata"]["uid"] = "copy".into();
    copy["metadata"]["creationTimestamp"] = Value::Null;
    copy["spec"]["connectSubnets"][0]["cidr"] = "192.169.0.0/16".into();
    world.put(copy);
    world.tick(2_000);
    assert!(
        world
            .accepted("copy")
            .starts_with("False/TunnelKeyConflict the connect router cannot keep its tunnel key: "),
        "{}",
        world.accepted("copy")
    );
    let before = world.object(CNC, "c").clone();
    world.restart(|_| {});
    assert_eq!(world.object(CNC, "c"), &before);
}

/// A label that flaps gets its own place back while that still rests: no zone has it for anybody else. Nobody waits for it any
/// more, and a thousand turns use up nothing.
#[test]
fn a_label_that_flaps_gets_its_own_place_back() {
    let mut world = connected();
    let before = world.blocks("c");
    for _ in 0..1000 {
        label(&mut world, "red", Value::Null);
        assert_eq!(freed(&world).len(), 1);
        label(&mut world, "red", json!("yes"));
    }
    assert_eq!(world.blocks("c"), before);
    assert_eq!(freed(&world), []);
    world.restart(|_| {});
    assert_eq!((world.writes.len(), world.blocks("c")), (0, before));
}

/// The number of a network that is gone may come back, but never to the place where a zone may still have the old one.
#[test]
fn another_network_does_not_get_the_place_of_one_that_has_gone() {
    let mut world = connected();
    world.delete(CUDN, "red");
    world.delete_namespace("red");
    world.island("green", "10.3.0.0/16", json!({"connected": "yes"}));
    let blocks = world.blocks("c");
    assert!(blocks.as_object().unwrap().values().all(|block| block["ipv4"] != "192.168.0.0/24"), "{blocks}");
}
