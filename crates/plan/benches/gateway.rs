//! What networks and services cost where the node has a way out: one network more at 10, 100 and 1,000, and one service's change.
//!
//! One JSON object per size. Beside times it has what must not grow: the flows of the node's bridge, the ports between bridge and
//! OVN, and the rows that a network has because of the gateway. For services: how many parts of the host's plan one change plans
//! again, the items that it changes, and what of the time the host's plan takes.
#![allow(unreachable_pub, missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "../../node/benches/diff/measure.rs"]
mod measure;
#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::time::Instant;

use causeway_plan::host::{HostDirty, HostKeeper, host};
use causeway_plan::{Dirty, northbound};
use causeway_record::{Nad, Service};
use causeway_types::host::{HostPlan, Item};
use causeway_zone::{BridgePorts, Processes, Zone};
use measure::{Meter, median};
use serde_json::{Value, json};
use support::server::{Databases, run};
use support::{Ip, On as _, nad, rows, service, two_nodes};

const SIZES: [u32; 3] = [10, 100, 1_000];
/// How many networks are added, or services changed, one after the other.
const TIMES: u32 = 21;

fn main() {
    for size in SIZES {
        for topology in ["layer3", "layer2"] {
            eprintln!("one {topology} network more at {size} networks, with a gateway");
            println!("{}", run(network_add(size, topology)));
        }
    }
    for size in SIZES {
        eprintln!("one service of {size} is reached from outside, and no longer");
        println!("{}", run(service_change(size)));
    }
}

/// n1 alone with n2, in both families.
fn zone_with(networks: u32, gateway: Option<&str>) -> Zone {
    let mut zone = two_nodes(Ip::Dual, gateway);
    zone.set_bridge(Some(BridgePorts { bridge: "breth0".into(), patch: Some(3), uplink: Some(1) }));
    zone.set_processes(Processes::default());
    for id in 1..=networks {
        zone.apply_nad(&network(id, if id % 2 == 0 { "layer2" } else { "layer3" }));
    }
    zone
}

fn network(id: u32, topology: &str) -> Nad {
    let subnets =
        if topology == "layer3" { "10.20.0.0/16/24,fd20::/48/64" } else { "203.203.0.0/16,2010::/60" };
    let (key, name) = (format!("t{id}/net"), format!("t{id}_net"));
    nad(&key, &name, id, json!({"topology": topology, "subnets": subnets}))
}

fn flows(zone: &Zone) -> BTreeSet<String> {
    let plan = host(zone);
    let all = plan.items().values().filter(|planned| matches!(planned.item, Item::Flow(_)));
    all.map(|planned| planned.item.to_string()).collect()
}

/// Ports of the external switches that ovn-controller makes patch ports for.
fn patch_ports(zone: &Zone) -> usize {
    let all = rows(&northbound(zone), "");
    let localnet = |row: &&causeway_ovn::Planned| {
        row.meta.name == "Logical_Switch_Port" && support::text(row, "type") == "localnet"
    };
    all.iter().filter(localnet).count()
}

async fn network_add(networks: u32, topology: &str) -> Value {
    let mut databases = Databases::start();
    let mut zone = zone_with(networks, Some("shared"));
    databases.apply(&zone, Dirty::everything()).await;
    let before = databases.north_writer.engine().stats();
    let mut times = Vec::new();
    for id in networks + 1..=networks + TIMES {
        let nad = network(id, topology);
        let meter = Meter::start(databases.north.pid());
        let dirty = zone.apply_nad(&nad).on(&zone);
        databases.apply(&zone, dirty).await;
        times.push(meter.row("gateway-network-add"));
    }
    databases.assert_as_planned(&zone);
    let after = databases.north_writer.engine().stats();
    let with = (after.created - before.created) / u64::from(TIMES);
    let mut row = median(times);
    row["name"] = format!("gateway-net-{topology}").into();
    row["n"] = networks.into();
    row["rows"] = with.into();
    row["gateway_rows"] = (with - rows_without(topology)).into();
    row["transactions"] = ((after.transactions - before.transactions) / u64::from(TIMES)).into();
    row["bridge_flows"] = flows(&zone).len().into();
    row["patch_ports"] = patch_ports(&zone).into();
    row
}

/// The rows of a network on a node without a way out.
fn rows_without(topology: &str) -> u64 {
    let count = |zone: &Zone| rows(&northbound(zone), "").len() as u64;
    let mut zone = zone_with(0, None);
    let before = count(&zone);
    zone.apply_nad(&network(1, topology));
    count(&zone) - before
}

/// A service of the default network with a node port, or without.
fn exposed(n: u32, reached: bool) -> Service {
    let address = format!("10.96.{}.{}", 1 + n / 200, 1 + n % 200);
    let mut service = service(&format!("ns0/s{n}"), &[&address]);
    service.ports[0].node_port = reached.then(|| 30_000 + u16::try_from(n).unwrap());
    service
}

async fn service_change(services: u32) -> Value {
    let mut databases = Databases::start();
    let mut zone = zone_with(0, Some("shared"));
    for n in 1..=services {
        zone.apply_service(&exposed(n, true));
    }
    databases.apply(&zone, Dirty::everything()).await;
    let before = databases.north_writer.engine().stats();
    let (mut keeper, mut plan) = (HostKeeper::default(), HostPlan::default());
    plan.update(keeper.follow(&zone, &HostDirty::everything()));
    let (parts, mut changed, mut times, mut planning) = (keeper.planned(), 0, Vec::new(), Vec::new());
    for time in 0..TIMES {
        let meter = Meter::start(databases.north.pid());
        let dirty = zone.apply_service(&exposed(1, time % 2 == 1)).on(&zone);
        assert!(dirty.host.any());
        let began = Instant::now();
        let update = keeper.follow(&zone, &dirty.host);
        changed += update.items.len();
        plan.update(update);
        planning.push(began.elapsed());
        databases.apply(&zone, dirty).await;
        times.push(meter.row("gateway-service"));
    }
    assert!(plan == host(&zone), "the plan that was kept is the plan");
    let after = databases.north_writer.engine().stats();
    planning.sort();
    let mut row = median(times);
    row["name"] = "gateway-service".into();
    row["n"] = services.into();
    row["transactions"] = ((after.transactions - before.transactions) / u64::from(TIMES)).into();
    row["bridge_flows"] = flows(&zone).len().into();
    row["changed_items"] = (changed / TIMES as usize).into();
    row["planned_parts"] = ((keeper.planned() - parts) / u64::from(TIMES)).into();
    row["planning_us"] = u64::try_from(planning[planning.len() / 2].as_micros()).unwrap_or(u64::MAX).into();
    row
}
