//! Mirrors after any history: what events have made of them is what a manager makes that sees the cluster for the first time.

use std::collections::BTreeMap;

use causeway_record::Kind;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::mirrors::{SLICE, endpoint, slice};
use crate::world::{World, dual};

const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MIRRORS: &str = "endpointslice-mirror-controller.k8s.ovn.org";

/// One thing that happens in a cluster.
#[derive(Clone, Debug)]
enum Happens {
    /// A pod comes or goes.
    Pod(u8, u8),
    /// A pod finishes.
    Finishes(u8, u8),
    /// A network comes, or is to go.
    Network(u8),
    /// A network written by hand comes or goes.
    ByHand(u8),
    /// A slice comes, or has other endpoints: pods and an address.
    Slice(u8, u8, Vec<u8>, bool),
    SliceGoes(u8, u8),
    /// A namespace's label is set or taken away.
    Label(u8, bool),
    /// Somebody deletes the n-th mirror.
    MirrorGoes(u8),
    /// Somebody changes the n-th mirror.
    Tampers(u8, u8),
    /// Somebody writes a mirror of a slice.
    Forges(u8, u8),
    /// Another manager takes over after so many of the writes of the next event.
    Lost(Box<Happens>, usize),
}

fn happens() -> impl Strategy<Value = Happens> {
    let (namespace, name) = (0..3_u8, 0..4_u8);
    let both = || (0..3_u8, 0..4_u8);
    let plain = prop_oneof![
        6 => both().prop_map(|(namespace, name)| Happens::Pod(namespace, name)),
        1 => both().prop_map(|(namespace, name)| Happens::Finishes(namespace, name)),
        3 => namespace.clone().prop_map(Happens::Network),
        1 => namespace.clone().prop_map(Happens::ByHand),
        6 => (namespace.clone(), 0..3_u8, proptest::collection::vec(name, 0..4), any::<bool>())
            .prop_map(|(namespace, slice, pods, address)| Happens::Slice(namespace, slice, pods, address)),
        1 => (namespace.clone(), 0..3_u8).prop_map(|(namespace, slice)| Happens::SliceGoes(namespace, slice)),
        1 => (namespace.clone(), any::<bool>()).prop_map(|(namespace, yes)| Happens::Label(namespace, yes)),
        1 => (0..4_u8).prop_map(Happens::MirrorGoes),
        2 => (0..4_u8, 0..4_u8).prop_map(|(mirror, how)| Happens::Tampers(mirror, how)),
        1 => (namespace, 0..3_u8).prop_map(|(namespace, slice)| Happens::Forges(namespace, slice)),
    ]
    .boxed();
    let lost = (plain.clone(), 0..4_usize).prop_map(|(event, kept)| Happens::Lost(Box::new(event), kept));
    prop_oneof![8 => plain, 1 => lost]
}

fn play(world: &mut World, happens: &Happens) {
    match happens {
        Happens::Pod(namespace, name) => {
            let path = format!("t{namespace}/p{name}");
            if world.object(Kind::Pod, &path).is_null() {
                world.pod(&path, "n0");
            } else {
                world.delete(Kind::Pod, &path);
            }
        }
        Happens::Finishes(namespace, name) => {
            let path = format!("t{namespace}/p{name}");
            if !world.object(Kind::Pod, &path).is_null() {
                world.change(Kind::Pod, &path, &json!({"status": {"phase": "Succeeded"}}));
            }
        }
        Happens::Network(namespace) => network(world, &format!("t{namespace}/net")),
        Happens::ByHand(namespace) => by_hand(world, *namespace),
        Happens::Slice(namespace, number, pods, address) => serve(world, *namespace, *number, pods, *address),
        Happens::SliceGoes(namespace, number) => world.delete(SLICE, &format!("t{namespace}/web-{number}")),
        Happens::Label(namespace, yes) => {
            let label = if *yes { json!("") } else { Value::Null };
            let patch = json!({"metadata": {"labels": {"k8s.ovn.org/primary-user-defined-network": label}}});
            world.change_namespace(&format!("t{namespace}"), &patch);
        }
        Happens::MirrorGoes(number) => {
            if let Some(path) = nth_mirror(world, *number) {
                world.delete(SLICE, &path);
            }
        }
        Happens::Tampers(number, how) => tamper(world, *number, *how),
        Happens::Forges(namespace, number) => forge(world, *namespace, *number),
        Happens::Lost(event, kept) => lose(world, event, *kept),
    }
}

fn network(world: &mut World, path: &str) {
    if world.object(Kind::UserDefinedNetwork, path).is_null() {
        world.layer2(path, &["10.0.0.0/24", "2001:db8::/64"]);
    } else {
        world.delete(Kind::UserDefinedNetwork, path);
    }
}

fn by_hand(world: &mut World, namespace: u8) {
    let path = format!("t{namespace}/hand");
    let config = json!({"type": "ovn-k8s-cni-overlay", "name": format!("hand{namespace}"), "topology": "layer2",
                        "role": "primary", "subnets": "10.9.0.0/24"});
    if world.has_nad(&path) {
        world.delete(Kind::NetworkAttachmentDefinition, &path);
    } else {
        world.nad(&path, &config.to_string());
    }
}

fn serve(world: &mut World, namespace: u8, number: u8, pods: &[u8], address: bool) {
    let path = format!("t{namespace}/web-{number}");
    let mut endpoints: Vec<Value> =
        pods.iter().map(|pod| endpoint(world, &format!("t{namespace}/p{pod}"))).collect();
    endpoints.extend(address.then(|| json!({"addresses": ["192.0.2.1"]})));
    if world.object(SLICE, &path).is_null() {
        let family = if number == 1 { "IPv6" } else { "IPv4" };
        world.put(slice(&path, family, endpoints.into()));
    } else {
        world.change(SLICE, &path, &json!({"endpoints": endpoints}));
    }
}

fn is_mirror(object: &Value) -> bool {
    object["metadata"]["labels"][MANAGED_BY] == MIRRORS
}

fn nth_mirror(world: &World, number: u8) -> Option<String> {
    let mirrors = world.objects.iter().filter(|(target, object)| target.kind == SLICE && is_mirror(object));
    let mut paths =
        mirrors.map(|(target, _)| format!("{}/{}", target.namespace.as_deref().unwrap(), target.name));
    paths.nth(number.into())
}

fn tamper(world: &mut World, number: u8, how: u8) {
    let Some(path) = nth_mirror(world, number) else { return };
    let patch = match how {
        0 => json!({"endpoints": [{"addresses": ["192.0.2.66"]}]}),
        1 => json!({"metadata": {"annotations": {"k8s.ovn.org/source-endpointslice": "web-0"}}}),
        2 => json!({"metadata": {"annotations": null, "labels": {"kubernetes.io/service-name": "web"}}}),
        _ => json!({"metadata": {"ownerReferences": null}, "ports": null}),
    };
    world.change(SLICE, &path, &patch);
}

fn forge(world: &mut World, namespace: u8, number: u8) {
    let path = format!("t{namespace}/forged-{number}");
    let mut forged = slice(&path, "IPv4", json!([{"addresses": ["192.0.2.66"]}]));
    forged["metadata"]["labels"] = json!({MANAGED_BY: MIRRORS, "k8s.ovn.org/service-name": "web"});
    forged["metadata"]["annotations"] = json!({"k8s.ovn.org/source-endpointslice": format!("web-{number}")});
    world.put(forged);
}

fn lose(world: &mut World, event: &Happens, kept: usize) {
    world.paused = true;
    play(world, event);
    world.held.truncate(kept);
    world.paused = false;
    while let Some(request) = world.held.pop_front() {
        world.perform_only(&request);
    }
    world.restart(|objects| {
        let count = objects.len().max(1);
        objects.rotate_left(kept % count);
    });
}

/// The mirrors of a world as their content, but for those without endpoints: a manager that sees everything for the first
/// time makes none of these.
fn mirrors(world: &World) -> BTreeMap<String, Value> {
    let all = world.objects.iter().filter(|(target, object)| target.kind == SLICE && is_mirror(object));
    all.map(|(target, object)| {
        let mut object = object.clone();
        for key in ["uid", "creationTimestamp", "generation", "resourceVersion"] {
            object["metadata"].as_object_mut().unwrap().remove(key);
        }
        (target.to_string(), object)
    })
    .filter(|(_, object)| object["endpoints"].as_array().is_some_and(|endpoints| !endpoints.is_empty()))
    .collect()
}

fn from_scratch(world: &World) -> BTreeMap<String, Value> {
    let mut fresh = World::empty(world.config.clone());
    (fresh.objects, fresh.namespaces) = (world.objects.clone(), world.namespaces.clone());
    fresh.objects.retain(|_, object| !is_mirror(object));
    fresh.restart(|_| {});
    mirrors(&fresh)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happened, mirrors are what they would be if nothing but the end had been seen, and another manager finds
    /// nothing to write.
    #[test]
    fn mirrors_follow_from_what_is(history in proptest::collection::vec(happens(), 0..50), turn in 0..50_usize) {
        let mut world = World::new(dual(), &["n0"]);
        for namespace in 0..3 {
            world.tenant(&format!("t{namespace}"));
        }
        for event in &history {
            play(&mut world, event);
        }
        prop_assert_eq!(mirrors(&world), from_scratch(&world));
        world.second();
        let before = world.objects.clone();
        world.restart(|objects| {
            let count = objects.len().max(1);
            objects.rotate_left(turn % count);
        });
        prop_assert_eq!(&world.writes, &Vec::<String>::new());
        prop_assert_eq!(&world.objects, &before);
    }
}
