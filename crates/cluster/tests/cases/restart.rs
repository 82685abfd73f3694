//! K: restarts, failures, and that the order of events does not matter.

use std::time::Instant;

use causeway_cluster::{Input, Manager, Output};
use causeway_record::Kind;
use causeway_record::{Broken, Cause, Event};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{World, dual, event, ipv4, synced};

/// Nothing is done before everything has been listed, whatever is missing.
#[test]
fn nothing_before_everything_is_listed() {
    let mut world = World::empty(ipv4());
    world.node("n1");
    world.tenant("demo");
    world.layer2("demo/db", &["10.0.0.0/24"]);
    world.pod("demo/a", "n1");
    for (index, input) in synced(causeway_alloc::Reuse::default()).into_iter().enumerate() {
        // The reports of zones are not waited for: without them numbers only rest longer.
        let optional = index == 8;
        let before = world.writes.len();
        assert_eq!(before, 0, "message {index}");
        if optional {
            continue;
        }
        let outputs = world.step(input);
        world.take(outputs);
    }
    assert_eq!(world.address("demo/a", "demo/db"), "10.0.0.3/24");
    assert_eq!(world.manager.ready(), Ok(()));
}

/// A kind that cannot be listed is named, and stops everything.
#[test]
fn a_kind_that_cannot_be_listed_is_named() {
    let mut manager = Manager::new(ipv4()).unwrap();
    for input in synced(causeway_alloc::Reuse::default()) {
        let unlisted = matches!(input, Input::UserDefinedNetwork(_));
        let broken = Broken { cause: Cause::Forbidden, message: "no rights".into() };
        let input = if unlisted { Input::UserDefinedNetwork(Event::Unsynced(broken)) } else { input };
        assert_eq!(manager.step(input), Vec::<Output>::new());
    }
    assert_eq!(manager.ready(), Err("no rights".to_owned()));
}

/// K001, K007: one broken network among many; and a node does not grow with networks.
#[test]
fn k001_k007_many_networks() {
    let mut world = World::new(ipv4(), &["n1"]);
    for number in 0..500 {
        let namespace = format!("t{number}");
        world.tenant(&namespace);
        let subnet = if number == 250 { "10.96.0.0/24" } else { "10.0.0.0/24" };
        world.layer2(&format!("{namespace}/net"), &[subnet]);
    }
    let ready =
        |number: usize| world.udn_condition(&format!("t{number}/net"), "NetworkReady").starts_with("True/");
    assert_eq!((0..500).filter(|number| ready(*number)).count(), 499);
    let annotations = world.object(Kind::Node, "n1")["metadata"]["annotations"].to_string();
    assert!(annotations.len() < 1024, "{annotations}");
    world.restart(|objects| objects.reverse());
    assert_eq!(world.writes, Vec::<String>::new());
}

/// K004, K005: writes that fail or are lost leak nothing; who takes over gives out what is free and nothing else.
#[test]
fn k004_k005_lost_writes_leak_nothing() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.layer2("demo/db", &["10.0.0.0/28"]);
    world.paused = true;
    for number in 0..12 {
        world.pod(&format!("demo/p{number}"), "n1");
    }
    // Half of the writes happen, the rest is lost with the leader.
    world.held.truncate(6);
    world.resume();
    world.restart(|_| {});
    let mut addresses: Vec<String> =
        (0..12).map(|number| world.address(&format!("demo/p{number}"), "demo/db").to_string()).collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 12, "one address each, and the pool is exactly full");
    let pods = world.writes.iter().filter(|write| write.starts_with("pods ")).count();
    assert_eq!(pods, 6, "{:?}", world.writes);
}

/// K008: a pod event costs the same with many networks as with few.
#[test]
fn k008_work_for_a_pod_does_not_grow_with_networks() {
    let cost = |networks: usize| {
        let mut world = World::new(ipv4(), &["n1"]);
        for number in 0..networks {
            let namespace = format!("t{number}");
            world.tenant(&namespace);
            world.layer2(&format!("{namespace}/net"), &["10.0.0.0/16"]);
        }
        let pods: Vec<Value> = (0..500)
            .map(|number| {
                json!({"kind": "Pod", "metadata": {"namespace": "t0", "name": format!("p{number}"), "uid": format!("u{number}")},
                       "spec": {"nodeName": "n1"}})
            })
            .collect();
        let inputs: Vec<Input> = pods.iter().map(|pod| event(pod, false).unwrap()).collect();
        let start = Instant::now();
        inputs.into_iter().for_each(|input| assert_eq!(world.step(input).len(), 1));
        start.elapsed()
    };
    let (few, many) = (cost(1).min(cost(1)), cost(300).min(cost(300)));
    assert!(many < few * 5, "{few:?} with 1 network, {many:?} with 300");
}

/// K010: objects of one age are told apart by name, the same way after every restart.
#[test]
fn k010_equal_ages() {
    let build = |reverse: bool| {
        let mut world = World::empty(ipv4());
        world.tenant("demo");
        for name in ["b", "a"] {
            world.put(json!({"kind": "UserDefinedNetwork",
                "metadata": {"namespace": "demo", "name": name, "creationTimestamp": "1970-01-01T00:00:00Z"},
                "spec": {"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.0.0.0/24"]}}}));
        }
        world.restart(|objects| {
            if reverse {
                objects.reverse()
            }
        });
        (world.has_nad("demo/a"), world.has_nad("demo/b"))
    };
    assert_eq!(build(false), (true, false));
    assert_eq!(build(true), (true, false));
}

/// One thing that happens in a cluster.
#[derive(Clone, Debug)]
enum Happens {
    Pod {
        namespace: u8,
        name: u8,
        node: u8,
    },
    Finishes {
        namespace: u8,
        name: u8,
    },
    Goes {
        namespace: u8,
        name: u8,
    },
    Network {
        namespace: u8,
    },
    NetworkGoes {
        namespace: u8,
    },
    /// A primary network written by hand comes, or goes.
    ByHand {
        namespace: u8,
    },
    Selected {
        namespace: u8,
        yes: bool,
    },
    Node {
        node: u8,
    },
}

fn happens() -> impl Strategy<Value = Happens> {
    let (namespace, name, node) = (0..4_u8, 0..6_u8, 0..3_u8);
    prop_oneof![
        6 => (namespace.clone(), name.clone(), node.clone()).prop_map(|(namespace, name, node)| Happens::Pod { namespace, name, node }),
        1 => (namespace.clone(), name.clone()).prop_map(|(namespace, name)| Happens::Finishes { namespace, name }),
        2 => (namespace.clone(), name).prop_map(|(namespace, name)| Happens::Goes { namespace, name }),
        2 => namespace.clone().prop_map(|namespace| Happens::Network { namespace }),
        1 => namespace.clone().prop_map(|namespace| Happens::NetworkGoes { namespace }),
        1 => namespace.clone().prop_map(|namespace| Happens::ByHand { namespace }),
        1 => (namespace, any::<bool>()).prop_map(|(namespace, yes)| Happens::Selected { namespace, yes }),
        1 => node.prop_map(|node| Happens::Node { node }),
    ]
}

fn play(world: &mut World, happens: &Happens) {
    match happens {
        Happens::Pod { namespace, name, node } => {
            let path = format!("t{namespace}/p{name}");
            if world.object(Kind::Pod, &path).is_null() {
                world.pod(&path, &format!("n{node}"));
            }
        }
        Happens::Finishes { namespace, name } => {
            let path = format!("t{namespace}/p{name}");
            if !world.object(Kind::Pod, &path).is_null() {
                world.change(Kind::Pod, &path, &json!({"status": {"phase": "Succeeded"}}));
            }
        }
        Happens::Goes { namespace, name } => world.delete(Kind::Pod, &format!("t{namespace}/p{name}")),
        Happens::Network { namespace } => {
            let path = format!("t{namespace}/net");
            if world.object(Kind::UserDefinedNetwork, &path).is_null() {
                match namespace {
                    0 | 1 => world.layer2(&path, &["10.0.0.0/29", "2001:db8::/64"]),
                    _ => world.layer3(&path, "10.50.0.0/24", 28),
                }
            }
        }
        Happens::NetworkGoes { namespace } => {
            world.delete(Kind::UserDefinedNetwork, &format!("t{namespace}/net"))
        }
        Happens::ByHand { namespace } => {
            let path = format!("t{namespace}/hand");
            let name = format!("hand{namespace}");
            let config = json!({"type": "ovn-k8s-cni-overlay", "name": name, "topology": "layer2", "role": "primary", "subnets": "10.9.0.0/29"});
            if world.has_nad(&path) {
                world.delete(Kind::NetworkAttachmentDefinition, &path);
            } else {
                world.nad(&path, &config.to_string());
            }
        }
        Happens::Selected { namespace, yes } => {
            let team = if *yes { json!("x") } else { Value::Null };
            world
                .change_namespace(&format!("t{namespace}"), &json!({"metadata": {"labels": {"team": team}}}));
        }
        Happens::Node { node } => {
            let name = format!("n{node}");
            if world.object(Kind::Node, &name).is_null() {
                world.node(&name);
            } else {
                world.delete(Kind::Node, &name);
            }
        }
    }
}

/// No two pods that run have one address on one network, and none has half of what it should.
fn check(world: &World) {
    let mut seen = std::collections::BTreeMap::new();
    for (target, pod) in &world.objects {
        let running = target.kind == Kind::Pod && pod["status"]["phase"] != "Succeeded";
        let Some(text) =
            pod["metadata"]["annotations"]["k8s.ovn.org/pod-networks"].as_str().filter(|_| running)
        else {
            continue;
        };
        let networks: Value = serde_json::from_str(text).unwrap();
        for (attachment, entry) in networks.as_object().unwrap() {
            for address in entry["ip_addresses"].as_array().unwrap() {
                let earlier = seen.insert((attachment.clone(), address.to_string()), target.clone());
                assert_eq!(earlier, None, "{attachment} {address} is held twice");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// After any history, another manager finds everything as it should be, whatever order it sees things in: it writes
    /// nothing, and goes on giving out what nobody has.
    #[test]
    fn a_restart_writes_nothing(history in proptest::collection::vec(happens(), 0..60), seed in any::<u64>()) {
        let mut world = World::new(dual(), &["n0", "n1"]);
        for namespace in 0..4 {
            world.tenant(&format!("t{namespace}"));
        }
        let secondary = json!({"topology": "Layer2", "layer2": {"role": "Secondary", "subnets": ["10.7.0.0/24"]}});
        world.cudn("team", json!({"matchLabels": {"team": "x"}}), secondary);
        for step in &history {
            play(&mut world, step);
            check(&world);
        }
        world.second();
        let before = world.objects.clone();
        world.restart(|objects| {
            let count = objects.len().max(1);
            objects.rotate_left(usize::try_from(seed).unwrap_or(0) % count);
            if seed % 2 == 1 {
                objects.reverse();
            }
        });
        prop_assert_eq!(&world.writes, &Vec::<String>::new());
        prop_assert_eq!(&world.objects, &before);
        for name in 0..6 {
            play(&mut world, &Happens::Pod { namespace: 0, name, node: 1 });
        }
        check(&world);
    }
}
