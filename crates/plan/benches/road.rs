//! Roads over many networks and nodes: one connection made, grown by a node and by a network, shrunk again, found by a restart,
//! and gone, from the event to the last reply of the northbound database.
//!
//! One JSON object per step: times, rows and transactions. The limit is the same rows, prebuilt, on the same database: put in,
//! or taken away. The bound is how many times that a step may take. What goes goes as it does on a node, in two rounds where links
//! outlive what sends by them; the five seconds in between are not counted.
#![allow(unreachable_pub, missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

#[allow(dead_code, reason = "each step happens once: there is no median")]
#[path = "../../node/benches/diff/measure.rs"]
mod measure;
#[path = "../../node/benches/diff/raw.rs"]
mod raw;
#[path = "road/rows.rs"]
mod rows;
#[path = "road/size.rs"]
mod size;
#[path = "../tests/support/mod.rs"]
mod support;

use causeway_ovn::Planned;
use causeway_ovn::apply::Stats;
use causeway_plan::{Dirty, northbound};
use causeway_zone::Zone;
use measure::Meter;
use rows::new_rows;
use serde_json::Value;
use size::Size;
use std::os::unix::net::UnixStream;
use support::server::{Databases, run, settle};
use support::{On as _, pod};

/// Networks, nodes, and how the networks are laid out.
const SIZES: [(u32, u32, &str); 7] = [
    (10, 10, "layer3"),
    (10, 10, "layer2"),
    (50, 50, "layer3"),
    (50, 50, "layer2"),
    (100, 100, "layer3"),
    (100, 100, "layer2"),
    (250, 120, "layer3"),
];
/// Rows in one raw transaction.
const CHUNK: usize = 1_000;
/// How many times the limit a whole road may take, coming or going.
const WHOLE: f64 = 1.5;
/// How many times the limit of its own rows one network or node may take.
const ONE: f64 = 3.0;
/// From so many networks on a pod comes while the road is made.
const WITH_A_POD: u32 = 250;

fn main() {
    // `50x50` as an argument leaves the others out.
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| word.contains('x')).collect();
    for (networks, nodes, layer) in SIZES {
        if !asked.is_empty() && !asked.contains(&format!("{networks}x{nodes}")) {
            continue;
        }
        for topology in ["transit", "compact"] {
            eprintln!("a {topology} road of {networks} {layer} networks x {nodes} nodes");
            let size = Size { networks, nodes, layer, topology, stubs: false };
            run(measure(size));
            if networks >= WITH_A_POD {
                run(a_pod_meanwhile(size));
            }
        }
    }
}

/// Applies what an event made dirty; what it took, and the rows that came and went.
async fn step(databases: &mut Databases, zone: &Zone, dirty: Dirty, start: Meter) -> Value {
    let before = databases.north_writer.engine().stats();
    databases.apply(zone, dirty).await;
    said(databases, before, start)
}

/// What has happened since.
fn said(databases: &Databases, before: Stats, start: Meter) -> Value {
    let mut row = start.row("connect");
    let after = databases.north_writer.engine().stats();
    row["rows"] = (after.created - before.created + after.deleted - before.deleted).into();
    row["transactions"] = (after.transactions - before.transactions).into();
    row
}

/// The same when links may outlive what has gone.
async fn step_and_links(databases: &mut Databases, zone: &mut Zone, dirty: Dirty, start: Meter) -> Value {
    let before = databases.north_writer.engine().stats();
    databases.apply(zone, dirty).await;
    for now in [0, size::LINGER_MS] {
        let dirty = zone.tick(now).on(zone);
        databases.apply(zone, dirty).await;
    }
    said(databases, before, start)
}

fn planned(zone: &Zone) -> Vec<Planned> {
    support::rows(&northbound(zone), "cnc:")
}

/// What a step is compared with: rows that come or go, in a database with this road.
struct Raw<'a> {
    size: &'a Size,
    /// The networks of the road that is there before.
    had: Option<u32>,
    change: Change<'a>,
    /// How many times the limit a step may take.
    bound: f64,
}

enum Change<'a> {
    Added(&'a [Planned]),
    Removed(&'a [Planned]),
}

impl Change<'_> {
    /// Requests with so many rows each; what holds others comes first.
    fn requests(&self) -> Vec<Vec<u8>> {
        let (Self::Added(rows) | Self::Removed(rows)) = self;
        let mut sorted = rows.to_vec();
        sorted.sort_by_key(|row| row.meta.name != "Logical_Router");
        let chunks = sorted.chunks(CHUNK).enumerate();
        chunks
            .map(|(at, chunk)| match self {
                Self::Added(_) => raw::request(at + 1, chunk),
                Self::Removed(gone) => raw::removal(at + 1, gone, chunk),
            })
            .collect()
    }
}

/// The same change, sent raw to a database of its own.
async fn limited(mut row: Value, raw: Raw<'_>) -> Value {
    let mut databases = Databases::start();
    let mut zone = raw.size.zone();
    raw.had.into_iter().for_each(|networks| drop(zone.apply_connect(&raw.size.road(networks))));
    databases.apply(&zone, Dirty::everything()).await;
    databases.restart_role();
    let stream = UnixStream::connect(databases.north.socket()).unwrap();
    raw::exchange(&stream, vec![raw::monitor().into_bytes()]);
    let requests = raw.change.requests();
    let meter = Meter::start(databases.north.pid());
    let replies = raw::exchange(&stream, requests);
    let limit = meter.row("limit")["wall_s"].as_f64().unwrap();
    raw::assert_done(&replies);
    row["limit_wall_s"] = limit.into();
    row["ratio"] = (row["wall_s"].as_f64().unwrap() / limit).into();
    row["bound"] = raw.bound.into();
    row
}

/// How long a pod waits for its port while a road is written of which a quarter is there; the rows are those that still come.
async fn a_pod_meanwhile(size: Size) {
    let mut databases = Databases::start();
    let mut zone = size.zone();
    databases.apply(&zone, Dirty::everything()).await;
    let created = |databases: &Databases| databases.north_writer.engine().stats().created;
    let road = zone.apply_connect(&size.road(size.networks)).on(&zone);
    let (whole, before) = (planned(&zone).len() as u64, created(&databases));
    road.northbound.iter().for_each(|prefix| databases.north_writer.dirty(prefix));
    while created(&databases) - before < whole / 4 {
        databases.north_writer.turn(&northbound(&zone)).await;
    }
    let left = (before + whole).saturating_sub(created(&databases));
    let meter = Meter::start(databases.north.pid());
    let guest = pod("t1/late", "n1", &[("t1/net", "primary", &["11.1.0.99/24"], None)]);
    let dirty = zone.apply_pod(&guest).on(&zone);
    dirty.northbound.iter().for_each(|prefix| databases.north_writer.dirty(prefix));
    let planner = northbound(&zone);
    while !has_port(&databases) {
        databases.north_writer.turn(&planner).await;
    }
    let mut row = meter.row("pod");
    settle(&mut databases.north_writer, &planner).await;
    row["rows"] = left.into();
    // A second, whatever the database is busy with.
    (row["limit_wall_s"], row["ratio"], row["bound"]) = (1.0.into(), row["wall_s"].clone(), 1.0.into());
    size.say("connect-pod-meanwhile", row);
}

fn has_port(databases: &Databases) -> bool {
    let replica = databases.north_writer.replica();
    let table = replica.table("Logical_Switch_Port");
    table.is_some_and(|table| replica.range(table, "network:t1_net:pod:t1:late:").next().is_some())
}

async fn measure(size: Size) {
    let mut databases = Databases::start();
    let mut zone = size.zone();
    databases.apply(&zone, Dirty::everything()).await;
    let pid = databases.north.pid();

    let meter = Meter::start(pid);
    let dirty = zone.apply_connect(&size.road(size.networks)).on(&zone);
    let row = step(&mut databases, &zone, dirty, meter).await;
    databases.assert_as_planned(&zone);
    let whole = planned(&zone);
    let raw = Raw { size: &size, had: None, change: Change::Added(&whole), bound: WHOLE };
    size.say("connect-create", limited(row, raw).await);

    network_comes_and_goes(&size, &mut databases, &mut zone, &whole).await;
    node_comes(&size, &mut databases, &mut zone, &whole).await;

    databases.restart_role();
    let meter = Meter::start(pid);
    let row = step(&mut databases, &zone, Dirty::everything(), meter).await;
    assert_eq!(databases.writes(), 0, "a restart writes nothing");
    size.say("connect-restart", row);

    let (grown, whole) = (Size { nodes: size.nodes + 1, ..size }, planned(&zone));
    let meter = Meter::start(pid);
    let dirty = zone.delete_connect(&size::name()).on(&zone);
    let row = step_and_links(&mut databases, &mut zone, dirty, meter).await;
    assert_eq!(planned(&zone).len(), 0);
    let raw = Raw { size: &grown, had: Some(size.networks), change: Change::Removed(&whole), bound: WHOLE };
    size.say("connect-delete", limited(row, raw).await);
}

async fn network_comes_and_goes(size: &Size, databases: &mut Databases, zone: &mut Zone, whole: &[Planned]) {
    let pid = databases.north.pid();
    let meter = Meter::start(pid);
    let dirty = zone.apply_connect(&size.road(size.networks + 1)).on(zone);
    let row = step(databases, zone, dirty, meter).await;
    let one = new_rows(whole, &planned(zone));
    let raw = Raw { size, had: Some(size.networks), change: Change::Added(&one), bound: ONE };
    size.say("connect-network-add", limited(row, raw).await);

    let meter = Meter::start(pid);
    let dirty = zone.apply_connect(&size.road(size.networks)).on(zone);
    let row = step_and_links(databases, zone, dirty, meter).await;
    let raw = Raw { size, had: Some(size.networks + 1), change: Change::Removed(&one), bound: ONE };
    size.say("connect-network-remove", limited(row, raw).await);
}

/// The node's rows of the networks themselves come first, and are not the road's.
async fn node_comes(size: &Size, databases: &mut Databases, zone: &mut Zone, whole: &[Planned]) {
    let mut dirty = zone.apply_node(&size.node(size.nodes + 1)).on(zone);
    let (roads, others): (Vec<String>, Vec<String>) =
        std::mem::take(&mut dirty.northbound).into_iter().partition(|prefix| prefix.starts_with("cnc:"));
    databases.apply(zone, Dirty { northbound: others, ..dirty }).await;
    let meter = Meter::start(databases.north.pid());
    let row = step(databases, zone, Dirty { northbound: roads, ..Dirty::default() }, meter).await;
    let more = new_rows(whole, &planned(zone));
    if more.is_empty() {
        return size.say("connect-node-add", row);
    }
    let raw = Raw { size, had: Some(size.networks), change: Change::Added(&more), bound: ONE };
    size.say("connect-node-add", limited(row, raw).await);
}
