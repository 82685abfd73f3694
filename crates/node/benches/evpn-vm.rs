//! One machine more on a gateway node of 200 tenants with 50 machines each, and the whole node looked at again: the plan alone, and with the
//! kernel of a namespace, beside the same address by netlink alone.
//!
//! Prints one JSON object per step. `n` is the number of VNIs, `m` of machines in each. What the kernel of a machine may lack is left out: VRFs
//! and the routes in them; the devices with the addresses for show are bridges here.
#![allow(unreachable_pub, missing_docs, dead_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "diff/measure.rs"]
mod measure;

use std::collections::BTreeMap;

use causeway_evpn::{Agent, Node, Port, RawPort, Uuid};
use causeway_host::{KernelOutput, Mark, Op, Output as _, bring};
use causeway_types::host::{Address, HostPlan, Item, Link, LinkKind, LinkState, Owner, Planned};
use measure::{Meter, median};
use nix::sched::{CloneFlags, unshare};
use serde_json::Value;

const TENANTS: u128 = 200;
const MACHINES: u128 = 50;
const STEPS: u128 = 21;
/// The issue allows so much CPU for a node that is as planned.
const RESYNC_LIMIT: f64 = 2.0;
/// Where ports of machines live, and where gateways do.
const ELSEWHERE: Uuid = Uuid::from_u128(7);
const HERE: Uuid = Uuid::from_u128(8);

fn row(kind: &str, datapath: u128, mac: &str, options: &[(&str, &str)]) -> RawPort {
    let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    RawPort {
        kind: kind.into(),
        datapath: Uuid::from_u128(datapath),
        mac: vec![mac.to_owned()],
        options,
        ..RawPort::default()
    }
}

fn machine(tenant: u128, number: u128) -> RawPort {
    let mac = format!("fa:16:3e:{tenant:02x}:{number:02x}:01 20.0.0.{}", number + 10);
    RawPort { chassis: Some(ELSEWHERE), ..row("", 1000 + tenant, &mac, &[]) }
}

/// A tenant's router with a gateway here, its subnet and its machines.
fn tenant(n: u128) -> Vec<(String, RawPort)> {
    let vpn: BTreeMap<String, String> = [
        ("neutron_bgpvpn:vni".to_owned(), (1001 + n).to_string()),
        ("neutron_bgpvpn:as".to_owned(), "64999".to_owned()),
    ]
    .into();
    let router = 2000 + n;
    let gateway = format!("fa:16:3f:00:00:{n:02x} 172.24.4.{}/16", n + 10);
    let (ext, int) = (format!("ext{n}"), format!("int{n}"));
    let (lrp_ext, lrp_int) = (format!("lrp-ext{n}"), format!("lrp-int{n}"));
    let outer = row("patch", 1, "router", &[("peer", &lrp_ext)]);
    let inner = row("patch", 1000 + n, "router", &[("peer", &lrp_int)]);
    let redirect = row("chassisredirect", router, &gateway, &[("distributed-port", &lrp_ext)]);
    let mut rows = vec![
        (format!("cr-{lrp_ext}"), RawPort { chassis: Some(HERE), ..redirect }),
        (lrp_ext, row("patch", router, &gateway, &[("peer", &ext)])),
        (lrp_int, row("patch", router, "fa:16:3e:00:00:11 20.0.0.1/24", &[("peer", &int)])),
        (ext, RawPort { external_ids: vpn.clone(), ..outer }),
        (int, RawPort { external_ids: vpn, ..inner }),
    ];
    rows.extend((0..MACHINES).map(|number| (format!("vm{n}-{number}"), machine(n, number))));
    rows
}

fn agent() -> Agent {
    let mut agent = Agent::default();
    let mut node = Node::new("here", [10, 255, 0, 1].into());
    node.mappings = Node::read_mappings("public:br-ex");
    agent.set_node(Ok(node));
    agent.set_chassis(HERE, Some("here".into()));
    agent.set_chassis(ELSEWHERE, Some("elsewhere".into()));
    let way = ("way".to_owned(), row("localnet", 1, "unknown", &[("network_name", "public")]));
    for (name, raw) in (0..TENANTS).flat_map(tenant).chain([way]) {
        agent.set_port(&name, Port::read(&raw));
    }
    agent
}

/// The plan's part that every kernel has.
fn everywhere(item: &Item) -> Option<Item> {
    match item {
        Item::Link(Link { name, kind: LinkKind::Dummy, .. }) => {
            let (name, kind) = (name.clone(), LinkKind::Bridge);
            Some(Item::Link(Link { name, kind, mac: None, mtu: None, master: None }))
        }
        Item::State(LinkState { device, .. }) | Item::Address(Address { device, .. })
            if device.starts_with("lo-") =>
        {
            Some(item.clone())
        }
        _ => None,
    }
}

fn sized(mut row: Value, rows: usize) -> Value {
    (row["n"], row["m"], row["rows"]) = ((TENANTS as u64).into(), (MACHINES as u64).into(), rows.into());
    row
}

fn with_limit(mut row: Value, limit: f64, bound: Option<f64>) -> Value {
    let wall = row["wall_s"].as_f64().unwrap();
    (row["limit_wall_s"], row["ratio"]) = (limit.into(), (wall / limit).into());
    if let Some(bound) = bound {
        row["bound"] = bound.into();
    }
    row
}

fn main() {
    unshare(CloneFlags::CLONE_NEWNET).expect("a namespace of its own needs root");
    let own = std::process::id();
    let mut agent = agent();
    agent.follow();
    let mut plan = HostPlan::default();
    for planned in agent.plan().items().values() {
        everywhere(&planned.item).into_iter().for_each(|item| plan.add(&planned.owner, item));
    }
    let mut kernel = KernelOutput::open(Mark::EVPN).unwrap();
    let meter = Meter::start(own);
    let applied = bring(&mut kernel, &plan);
    assert!(applied.problems.is_empty(), "{:?}", applied.problems);
    println!("{}", sized(meter.row("evpn-first"), applied.writes));
    // The kernel forgets nothing, and whoever looks again finds nothing to do.
    while bring(&mut kernel, &plan).writes > 0 {}
    let again = || {
        let meter = Meter::start(own);
        let applied = bring(&mut KernelOutput::open(Mark::EVPN).unwrap(), &plan);
        assert_eq!((applied.writes, applied.problems.len()), (0, 0));
        meter.row("evpn-unchanged")
    };
    let unchanged = sized(median((0..STEPS).map(|_| again()).collect()), 0);
    println!("{}", with_limit(unchanged, RESYNC_LIMIT, Some(1.0)));
    let (mut plans, mut alone, mut looks, mut raw) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for step in 0..STEPS {
        let (from, name) = (step * 9, format!("more{step}"));
        let meter = Meter::start(own);
        agent.set_port(&name, Port::read(&machine(from, MACHINES)));
        let update = agent.follow();
        plans.push(meter.row("evpn-vm-plan"));
        assert_eq!(update.items.len(), 1, "one machine more is one address");
        for planned in update.items.values().flatten() {
            let Item::Address(address) = &planned.item else { panic!("{}", planned.item) };
            assert!(kernel.touch_address(address, true).unwrap());
        }
        plan.update(update);
        alone.push(meter.row("evpn-vm"));
        // What the kernel tells of it makes the agent look at everything, once for however many there were.
        let meter = Meter::start(own);
        let applied = bring(&mut kernel, &plan);
        assert_eq!((applied.writes, applied.problems.len()), (0, 0), "{:?}", applied.problems);
        looks.push(meter.row("evpn-vm-look"));
        raw.push(netlink_alone(&mut kernel, from, own));
    }
    let limit = median(raw)["wall_s"].as_f64().unwrap();
    println!("{}", sized(median(plans), 1));
    println!("{}", with_limit(sized(median(alone), 1), limit, Some(2.0)));
    println!("{}", sized(median(looks), 0));
}

/// The same kind of address, by netlink alone.
fn netlink_alone(kernel: &mut KernelOutput, tenant: u128, own: u32) -> Value {
    let address = Address::new(format!("lo-{}", 1001 + tenant), "20.9.9.9/32".parse().unwrap());
    let item = Item::Address(Address { delivered: false, ..address });
    let planned = Planned { owner: Owner::new("evpn:raw"), item: item.clone() };
    let meter = Meter::start(own);
    kernel.apply(&Op::Create(planned)).unwrap();
    let row = meter.row("raw");
    kernel.apply(&Op::Delete(item)).unwrap();
    row
}
