//! One network more at 10, 100 and 1,000 that are there: from the event to the last reply of the northbound database.
//!
//! One JSON object per size: the median of each time, the rows of the network and the transactions that they took. The
//! limit is the same rows, prebuilt, in one transaction on the same database.
#![allow(unreachable_pub, missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "../../node/benches/diff/measure.rs"]
mod measure;
#[path = "../../node/benches/diff/raw.rs"]
mod raw;
#[path = "../tests/support/mod.rs"]
mod support;

use causeway_plan::{Dirty, northbound};
use causeway_zone::Zone;
use measure::{Meter, median};
use serde_json::{Value, json};
use std::os::unix::net::UnixStream;
use support::server::{Databases, run};
use support::{Ip, On as _, node, numbered, rows, two_nodes};

const SIZES: [u32; 3] = [10, 100, 1_000];
/// Nodes of the cluster.
const NODES: u32 = 10;
/// How many networks are added, one after the other.
const ADDED: u32 = 21;

fn main() {
    for size in SIZES {
        for topology in ["layer3", "layer2"] {
            eprintln!("one {topology} network more at {size} networks x {NODES} nodes");
            println!("{}", run(measure(size, topology)));
        }
    }
}

fn zone_with(networks: u32) -> Zone {
    let mut zone = two_nodes(Ip::V4, None);
    for n in 3..=NODES {
        zone.apply_node(&node(&format!("n{n}"), n + 1));
    }
    for id in 1..=networks {
        zone.apply_nad(&numbered(id, if id % 2 == 0 { "layer2" } else { "layer3" }));
    }
    zone
}

async fn measure(networks: u32, topology: &str) -> Value {
    let mut databases = Databases::start();
    let mut zone = zone_with(networks);
    databases.apply(&zone, Dirty::everything()).await;
    let before = databases.north_writer.engine().stats();
    let mut times = Vec::new();
    for id in networks + 1..=networks + ADDED {
        let nad = numbered(id, topology);
        let meter = Meter::start(databases.north.pid());
        let dirty = zone.apply_nad(&nad).on(&zone);
        databases.apply(&zone, dirty).await;
        times.push(meter.row("network-add"));
    }
    databases.assert_as_planned(&zone);
    let after = databases.north_writer.engine().stats();
    let mut row = median(times);
    let added = u64::from(ADDED);
    row["name"] = format!("network-add-{topology}").into();
    row["n"] = networks.into();
    row["m"] = NODES.into();
    row["rows"] = ((after.created - before.created) / added).into();
    row["transactions"] = ((after.transactions - before.transactions) / added).into();
    row["resident_mb"] = json!(measure::memory("VmRSS"));
    let limit = limit(networks, topology, &mut databases).await;
    row["limit_wall_s"] = limit.into();
    row["ratio"] = (row["wall_s"].as_f64().unwrap() / limit).into();
    row
}

/// Takes the added networks away again and sends the same rows raw.
async fn limit(networks: u32, topology: &str, databases: &mut Databases) -> f64 {
    databases.apply(&zone_with(networks), Dirty::everything()).await;
    let mut zone = zone_with(networks);
    let mut requests = Vec::new();
    for id in networks + 1..=networks + ADDED {
        let before = zone.networks().count();
        let dirty = zone.apply_nad(&numbered(id, topology)).on(&zone);
        assert_eq!(zone.networks().count(), before + 1);
        let plan = northbound(&zone);
        let planned: Vec<_> = dirty.northbound.iter().flat_map(|prefix| rows(&plan, prefix)).collect();
        requests.push(raw::request(id as usize, &planned));
    }
    databases.restart_role();
    let stream = UnixStream::connect(databases.north.socket()).unwrap();
    raw::exchange(&stream, vec![raw::monitor().into_bytes()]);
    let mut times = Vec::new();
    for request in requests {
        let meter = Meter::start(databases.north.pid());
        let replies = raw::exchange(&stream, vec![request]);
        times.push(meter.row("limit"));
        raw::assert_done(&replies);
    }
    median(times)["wall_s"].as_f64().unwrap()
}
