//! One endpoint of one service changes, among many services of many connected networks: from the event to the last reply of the northbound
//! database. What it costs follows neither the services nor the networks.
#![allow(unreachable_pub, missing_docs, dead_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "../../node/benches/diff/measure.rs"]
mod measure;
#[path = "road/size.rs"]
mod size;
#[path = "../tests/support/mod.rs"]
mod support;

use causeway_plan::Dirty;
use causeway_record::EndpointSlice;
use causeway_zone::Zone;
use measure::{Meter, median};
use serde_json::Value;
use size::Size;
use std::collections::BTreeSet;
use support::server::{Databases, run};
use support::{On as _, granting, service, slice};

/// Connected networks, and services of all of them together.
const SIZES: [(u32, u32); 4] = [(5, 10), (5, 1_000), (50, 100), (50, 1_000)];
/// Endpoints of a service.
const ENDPOINTS: u32 = 3;
/// Changes one after the other.
const STEPS: u32 = 21;

fn main() {
    let mut counts = BTreeSet::new();
    for (networks, services) in SIZES {
        for topology in ["transit", "compact"] {
            eprintln!("one endpoint of {services} services in {networks} networks on a {topology} road");
            let size = Size { networks, nodes: 3, layer: "layer3", topology, stubs: false };
            let row = run(measure(size, services));
            counts.insert(row["rows"].to_string() + " in " + &row["transactions"].to_string());
            size.say("service-endpoint", row);
        }
    }
    assert_eq!(
        counts.len(),
        1,
        "rows in transactions, the same among many services and networks: {counts:?}"
    );
}

/// The endpoints of a service, of which one has this number.
fn endpoints(n: u32, networks: u32, last: u32) -> EndpointSlice {
    let id = 1 + n % networks;
    let address = |host: u32| format!("11.{id}.{}.{}@n{}", host % 3, 10 + host, 1 + host % 3);
    let hosts = (0..ENDPOINTS - 1).chain([last]).map(address);
    let hosts: Vec<String> = hosts.collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    slice(&format!("t{id}/s{n}"), &format!("s{n}"), Some(&format!("t{id}_net")), &hosts)
}

fn zone_with(size: &Size, services: u32) -> Zone {
    let mut zone = size.zone();
    zone.apply_connect(&granting(size.road(size.networks), true, true));
    for n in 0..services {
        let vip = format!("10.96.{}.{}", n / 250, 1 + n % 250);
        zone.apply_service(&service(&format!("t{}/s{n}", 1 + n % size.networks), &[&vip]));
        zone.apply_endpoint_slice(&endpoints(n, size.networks, ENDPOINTS - 1));
    }
    zone
}

async fn measure(size: Size, services: u32) -> Value {
    let mut databases = Databases::start();
    let mut zone = zone_with(&size, services);
    databases.apply(&zone, Dirty::everything()).await;
    databases.assert_as_planned(&zone);
    let stats = |databases: &Databases| databases.north_writer.engine().stats();
    let changes = |databases: &Databases| {
        let all = stats(databases);
        all.created + all.modified + all.deleted + all.joined + all.left
    };
    let (before, written) = (changes(&databases), stats(&databases).transactions);
    let mut times = Vec::new();
    for step in 0..STEPS {
        let meter = Meter::start(databases.north.pid());
        let dirty = zone.apply_endpoint_slice(&endpoints(0, size.networks, ENDPOINTS + step)).on(&zone);
        databases.apply(&zone, dirty).await;
        times.push(meter.row("service-endpoint"));
    }
    let mut row = median(times);
    row["rows"] = ((changes(&databases) - before) / u64::from(STEPS)).into();
    row["transactions"] = ((stats(&databases).transactions - written) / u64::from(STEPS)).into();
    row["services"] = services.into();
    row
}
