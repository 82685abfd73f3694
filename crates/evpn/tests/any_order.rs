//! Whatever happens in whatever order: what was said bit by bit makes the plan of what is known at the end.
#![allow(clippy::unwrap_used)]

mod common;

use causeway_evpn::{Node, Port, RawPort};
use causeway_types::host::HostPlan;
use common::{World, annotation, id, numbers, row};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

#[derive(Clone, Debug)]
enum Event {
    Put(String, RawPort),
    Delete(String),
    Chassis(u128, Option<&'static str>),
    Node(Result<Node, String>),
    Follow,
}

/// Three switches and two routers, whose ports are often tied together and sometimes not.
fn port() -> impl Strategy<Value = (String, RawPort)> {
    let side = (0_u8..4, 0_u128..5, select(&["1001", "1002", "nonsense", ""][..]), any::<bool>());
    let patch = side.prop_map(|(number, datapath, vni, router)| {
        let (own, peer) = (format!("p{number}"), format!("lrp-p{number}"));
        let mac = format!("fa:16:3e:00:00:0{number} 10.{}.0.1/24 fd00:{number}::1/64", number / 2);
        let mut raw = row("patch", datapath, if router { &mac } else { "router" }, &[]);
        let (name, other) = if router { (peer, own) } else { (own, peer) };
        raw.options.insert("peer".into(), other);
        if !vni.is_empty() {
            raw.external_ids = annotation(vni, "64999");
        }
        (name, raw)
    });
    let redirect = (0_u8..4, 0_u128..5, select(&[None, Some(11), Some(12)][..])).prop_map(
        |(number, datapath, chassis)| {
            let of = format!("lrp-p{number}");
            let mac = format!("fa:16:3e:00:00:0{number} 10.{number}.0.1/24 fd00:{number}::1/64");
            let mut raw = row("chassisredirect", datapath, &mac, &[("distributed-port", &of)]);
            raw.chassis = chassis.map(id);
            (format!("cr-{of}"), raw)
        },
    );
    let machine = (0_u8..6, 0_u128..5, any::<bool>()).prop_map(|(number, datapath, runs)| {
        let mac = format!("fa:16:3e:00:01:0{number} 10.{}.0.{} fd00:{number}::9", number / 2, 10 + number);
        let mut raw = row("", datapath, &mac, &[]);
        raw.chassis = runs.then(|| id(13));
        (format!("vm{number}"), raw)
    });
    let localnet = (0_u128..5, select(&["public", "other"][..]), select(&[None, Some(100)][..])).prop_map(
        |(datapath, network, tag)| {
            let mut raw = row("localnet", datapath, "unknown", &[("network_name", network)]);
            raw.tag = tag;
            (format!("provnet{datapath}"), raw)
        },
    );
    prop_oneof![4 => patch, 2 => redirect, 2 => machine, 1 => localnet]
}

fn node() -> impl Strategy<Value = Result<Node, String>> {
    (select(&["gw1", "gw2"][..]), any::<bool>(), 0_u8..8).prop_map(|(chassis, gateways, kind)| {
        if kind == 0 {
            return Err("unknown".into());
        }
        let mut node = Node::new(chassis, [10, 255, 0, 1].into());
        node.expose_gateways = gateways;
        node.mappings = Node::read_mappings(if kind < 3 { "other:br-o" } else { "public:br-ex" });
        node.numbers = numbers("br-ex", &[("patch-provnet1-to-br-int", 1), ("vo-1001", 2)]);
        Ok(node)
    })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        10 => port().prop_map(|(name, row)| Event::Put(name, row)),
        3 => port().prop_map(|(name, _)| Event::Delete(name)),
        1 => (11_u128..14, select(&[None, Some("gw1"), Some("gw2")][..])).prop_map(|(id, name)| Event::Chassis(id, name)),
        1 => node().prop_map(Event::Node),
        4 => Just(Event::Follow),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn bit_by_bit_is_all_at_once(events in vec(event(), 1..80)) {
        let mut world = World::exposed();
        let mut said = HostPlan::default();
        for event in events {
            match event {
                Event::Put(name, row) => world.agent.set_port(&name, Port::read(&row)),
                Event::Delete(name) => world.agent.set_port(&name, None),
                Event::Chassis(number, name) => world.agent.set_chassis(id(number), name.map(str::to_owned)),
                Event::Node(node) => world.agent.set_node(node),
                Event::Follow => said.update(world.agent.follow()),
            }
        }
        world.tell();
        said.update(world.agent.follow());
        prop_assert_eq!(said.to_string(), world.agent.plan().to_string());
        prop_assert!(world.agent.follow().is_empty());
    }
}
