//! One more primary network for 50 namespaces that have 2, 8 or 15 already: from its attachments to the last reply of the northbound
//! database. Each namespace has a service with an endpoint, which the new network gets too.
//!
//! One JSON object per size and topology. Rows are the same however many siblings there are: none for a pair of them. The limit is the
//! same rows, prebuilt, in one transaction on the same database.
#![allow(unreachable_pub, missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "../../node/benches/diff/measure.rs"]
mod measure;
#[path = "../../node/benches/diff/raw.rs"]
mod raw;
#[path = "road/rows.rs"]
mod rows;
#[path = "../tests/support/mod.rs"]
mod support;

use causeway_plan::{Dirty, northbound};
use causeway_record::Nad;
use causeway_types::NetworkSet;
use causeway_zone::Zone;
use measure::{Meter, median};
use rows::new_rows;
use serde_json::{Value, json};
use std::os::unix::net::UnixStream;
use support::server::{Databases, run};
use support::{Ip, On as _, nad, namespace, node, service, slice, two_nodes};

/// Siblings that are there.
const SIZES: [u32; 3] = [2, 8, 15];
const NAMESPACES: u32 = 50;
const NODES: u32 = 10;
/// How many are added, one after the other.
const ADDED: u32 = 5;

fn main() {
    for siblings in SIZES {
        for topology in ["layer3", "layer2"] {
            eprintln!("one {topology} sibling more at {siblings} siblings x {NAMESPACES} namespaces");
            println!("{}", run(measure(siblings, topology)));
        }
    }
}

/// The attachment of a namespace to one of the siblings.
fn attachment(number: u32, id: u32, topology: &str) -> Nad {
    let subnets = if topology == "layer3" { format!("10.{id}.0.0/16/24") } else { format!("20.{id}.0.0/16") };
    let config = json!({"topology": topology, "subnets": subnets});
    let mut nad = nad(&format!("ns{number}/s{id}"), &format!("cluster_udn_s{id}"), id, config);
    nad.annotate("k8s.ovn.org/primary-network-created", Some(&id.to_string()));
    nad.annotate("k8s.ovn.org/primary-network-set", Some(&NetworkSet::of("team").to_string()));
    nad
}

/// Attaches all namespaces to one more network.
fn grow(zone: &mut Zone, id: u32, topology: &str) -> Dirty {
    let mut all = Dirty::default();
    for number in 0..NAMESPACES {
        let dirty = zone.apply_nad(&attachment(number, id, topology)).on(zone);
        all.northbound.extend(dirty.northbound);
        all.southbound.extend(dirty.southbound);
    }
    all
}

fn zone_with(siblings: u32) -> Zone {
    let mut zone = two_nodes(Ip::V4, None);
    for n in 3..=NODES {
        zone.apply_node(&node(&format!("n{n}"), n + 1));
    }
    (0..NAMESPACES).for_each(|number| drop(zone.apply_namespace(&namespace(&format!("ns{number}"), true))));
    for id in 1..=siblings {
        grow(&mut zone, id, if id % 2 == 0 { "layer2" } else { "layer3" });
    }
    for number in 0..NAMESPACES {
        zone.apply_service(&service(&format!("ns{number}/web"), &[&format!("10.96.1.{number}")]));
        let endpoint = format!("10.1.0.{}@n1", 10 + number);
        let mirror = slice(&format!("ns{number}/web-1"), "web", Some("cluster_udn_s1"), &[&endpoint]);
        zone.apply_endpoint_slice(&mirror);
    }
    zone
}

async fn measure(siblings: u32, topology: &str) -> Value {
    let mut databases = Databases::start();
    let mut zone = zone_with(siblings);
    databases.apply(&zone, Dirty::everything()).await;
    let before = databases.north_writer.engine().stats();
    let mut times = Vec::new();
    for id in siblings + 1..=siblings + ADDED {
        let meter = Meter::start(databases.north.pid());
        let dirty = grow(&mut zone, id, topology);
        databases.apply(&zone, dirty).await;
        times.push(meter.row("sibling-add"));
    }
    databases.assert_as_planned(&zone);
    let after = databases.north_writer.engine().stats();
    let mut row = median(times);
    let added = u64::from(ADDED);
    row["topology"] = topology.into();
    (row["n"], row["m"]) = (siblings.into(), NAMESPACES.into());
    row["rows"] = ((after.created - before.created) / added).into();
    row["transactions"] = ((after.transactions - before.transactions) / added).into();
    let limit = limit(siblings, topology, &mut databases).await;
    row["limit_wall_s"] = limit.into();
    row["ratio"] = (row["wall_s"].as_f64().unwrap() / limit).into();
    row
}

/// Takes the added networks away again and sends the same rows raw.
async fn limit(siblings: u32, topology: &str, databases: &mut Databases) -> f64 {
    let mut zone = zone_with(siblings);
    databases.apply(&zone, Dirty::everything()).await;
    let all = |zone: &Zone| support::rows(&northbound(zone), "");
    let mut requests = Vec::new();
    for id in siblings + 1..=siblings + ADDED {
        let before = all(&zone);
        grow(&mut zone, id, topology);
        requests.push(raw::request(id as usize, &new_rows(&before, &all(&zone))));
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
