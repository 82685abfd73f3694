//! Roads over many networks and nodes: one connection made, grown by a node and by a network, shrunk again, found by a restart,
//! and gone, from the event to the last reply of the northbound database.
//!
//! One JSON object per step: times, rows and transactions. The limit is the same rows, prebuilt, on the same database; what
//! only takes rows away has none.
#![allow(unreachable_pub, missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

#[allow(dead_code, reason = "each step happens once: there is no median")]
#[path = "../../node/benches/diff/measure.rs"]
mod measure;
#[path = "../../node/benches/diff/raw.rs"]
mod raw;
#[path = "../tests/support/mod.rs"]
mod support;

use causeway_ovn::Planned;
use causeway_plan::{Dirty, northbound};
use causeway_record::{Connect, Nad};
use causeway_zone::Zone;
use measure::Meter;
use serde_json::{Value, json};
use std::os::unix::net::UnixStream;
use support::server::{Databases, run};
use support::{Ip, On as _, connect, connect_name, nad, node, rows, two_nodes};

/// Networks and nodes.
const SIZES: [(u32, u32); 3] = [(10, 10), (50, 50), (100, 100)];
/// Rows in one raw transaction.
const CHUNK: usize = 1_000;

fn main() {
    for (networks, nodes) in SIZES {
        for layer in ["layer3", "layer2"] {
            for topology in ["transit", "compact"] {
                eprintln!("a {topology} road of {networks} {layer} networks x {nodes} nodes");
                run(measure(Size { networks, nodes, layer, topology }));
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Size {
    networks: u32,
    nodes: u32,
    layer: &'static str,
    topology: &'static str,
}

impl Size {
    /// A network with addresses of its own.
    fn network(&self, id: u32) -> Nad {
        let first = if self.layer == "layer3" { 11 } else { 21 };
        let host = if self.layer == "layer3" { "/24" } else { "" };
        let subnets = format!("{}.{}.0.0/16{host}", first + id / 200, id % 200);
        nad(
            &format!("t{id}/net"),
            &format!("t{id}_net"),
            id,
            json!({"topology": self.layer, "subnets": subnets}),
        )
    }

    /// The cluster without the road.
    fn zone(&self) -> Zone {
        let mut zone = two_nodes(Ip::V4, None);
        (3..=self.nodes).for_each(|n| drop(zone.apply_node(&node(&format!("n{n}"), n + 1))));
        (1..=self.networks + 1).for_each(|id| drop(zone.apply_nad(&self.network(id))));
        zone
    }

    fn road(&self, networks: u32) -> Connect {
        let owners: Vec<String> = (1..=networks).map(|id| format!("{}_{id}", self.layer)).collect();
        let owners: Vec<&str> = owners.iter().map(String::as_str).collect();
        connect("road", self.topology, Ip::V4, &owners)
    }

    fn say(&self, step: &str, mut row: Value) {
        row["name"] = format!("connect-{step}").into();
        row["topology"] = format!("{} {}", self.topology, self.layer).into();
        (row["n"], row["m"]) = (self.networks.into(), self.nodes.into());
        println!("{row}");
    }
}

/// Applies what an event made dirty; what it took, and the rows that came and went.
async fn step(databases: &mut Databases, zone: &Zone, dirty: Dirty, start: Meter) -> Value {
    let before = databases.north_writer.engine().stats();
    databases.apply(zone, dirty).await;
    let mut row = start.row("connect");
    let after = databases.north_writer.engine().stats();
    row["rows"] = (after.created - before.created + after.deleted - before.deleted).into();
    row["transactions"] = (after.transactions - before.transactions).into();
    row
}

fn planned(zone: &Zone) -> Vec<Planned> {
    rows(&northbound(zone), "cnc:")
}

/// The rows that the second has more, sent raw to a database that has what the first has.
async fn limited(mut row: Value, size: &Size, had: Option<u32>, more: &[Planned]) -> Value {
    let mut databases = Databases::start();
    let mut zone = size.zone();
    had.into_iter().for_each(|networks| drop(zone.apply_connect(&size.road(networks))));
    databases.apply(&zone, Dirty::everything()).await;
    databases.restart_role();
    let stream = UnixStream::connect(databases.north.socket()).unwrap();
    raw::exchange(&stream, vec![raw::monitor().into_bytes()]);
    // What holds others comes first.
    let mut more = more.to_vec();
    more.sort_by_key(|row| row.meta.name != "Logical_Router");
    let requests: Vec<Vec<u8>> =
        more.chunks(CHUNK).enumerate().map(|(id, rows)| raw::request(id + 1, rows)).collect();
    let meter = Meter::start(databases.north.pid());
    let replies = raw::exchange(&stream, requests);
    let limit = meter.row("limit")["wall_s"].as_f64().unwrap();
    raw::assert_done(&replies);
    row["limit_wall_s"] = limit.into();
    row["ratio"] = (row["wall_s"].as_f64().unwrap() / limit).into();
    row
}

fn new_rows(before: &[Planned], after: &[Planned]) -> Vec<Planned> {
    let known: std::collections::BTreeSet<&str> = before.iter().map(|row| &*row.path).collect();
    after.iter().filter(|row| !known.contains(&*row.path)).cloned().collect()
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
    size.say("create", limited(row, &size, None, &whole).await);

    let meter = Meter::start(pid);
    let dirty = zone.apply_connect(&size.road(size.networks + 1)).on(&zone);
    let row = step(&mut databases, &zone, dirty, meter).await;
    let more = new_rows(&whole, &planned(&zone));
    size.say("network-add", limited(row, &size, Some(size.networks), &more).await);

    let meter = Meter::start(pid);
    let dirty = zone.apply_connect(&size.road(size.networks)).on(&zone);
    size.say("network-remove", step(&mut databases, &zone, dirty, meter).await);

    // The node's rows of the networks themselves come first, and are not the road's.
    let joined = node(&format!("n{}", size.nodes + 1), size.nodes + 2);
    let mut dirty = zone.apply_node(&joined).on(&zone);
    let (roads, others): (Vec<String>, Vec<String>) =
        std::mem::take(&mut dirty.northbound).into_iter().partition(|prefix| prefix.starts_with("cnc:"));
    databases.apply(&zone, Dirty { northbound: others, ..dirty }).await;
    let meter = Meter::start(pid);
    let row = step(&mut databases, &zone, Dirty { northbound: roads, ..Dirty::default() }, meter).await;
    let more = new_rows(&whole, &planned(&zone));
    let row = if more.is_empty() { row } else { limited(row, &size, Some(size.networks), &more).await };
    size.say("node-add", row);

    databases.restart_role();
    let meter = Meter::start(pid);
    let row = step(&mut databases, &zone, Dirty::everything(), meter).await;
    assert_eq!(databases.writes(), 0, "a restart writes nothing");
    size.say("restart", row);

    let meter = Meter::start(pid);
    let dirty = zone.delete_connect(&connect_name("road")).on(&zone);
    let row = step(&mut databases, &zone, dirty, meter).await;
    assert_eq!(planned(&zone).len(), 0);
    size.say("delete", row);
}
