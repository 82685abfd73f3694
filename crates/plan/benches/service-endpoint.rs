//! One endpoint of one service changes, among many services of many connected networks: from the event to the last reply of the northbound
//! database. What it costs follows neither the services nor the networks. The limit is the same change, prebuilt, on the same database.
#![allow(unreachable_pub, missing_docs, dead_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "../../node/benches/diff/measure.rs"]
mod measure;
#[path = "../../node/benches/diff/raw.rs"]
mod raw;
#[path = "road/size.rs"]
mod size;
#[path = "../tests/support/mod.rs"]
mod support;

use causeway_ovn::Planned;
use causeway_ovsdb_client::ovsdb::{Condition, Name, Op};
use causeway_plan::{Dirty, northbound};
use causeway_record::EndpointSlice;
use causeway_zone::Zone;
use measure::{Meter, median};
use serde_json::Value;
use size::Size;
use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use support::server::{Databases, run};
use support::{On as _, granting, service, slice};

/// Connected networks, and services of all of them together.
const SIZES: [(u32, u32); 4] = [(5, 10), (5, 1_000), (50, 100), (50, 1_000)];
/// Endpoints of a service.
const ENDPOINTS: u32 = 3;
/// Changes one after the other.
const STEPS: u32 = 21;
/// How many times the limit one change may take.
const BOUND: f64 = 3.0;

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
    let limit = limit(&mut databases, &mut zone, &size);
    (row["ratio"], row["bound"]) = ((row["wall_s"].as_f64().unwrap() / limit).into(), BOUND.into());
    row["limit_wall_s"] = limit.into();
    row
}

/// What the same changes take raw, one after the other.
fn limit(databases: &mut Databases, zone: &mut Zone, size: &Size) -> f64 {
    databases.restart_role();
    let stream = UnixStream::connect(databases.north.socket()).unwrap();
    raw::exchange(&stream, vec![raw::monitor().into_bytes()]);
    let mut times = Vec::new();
    for step in 0..STEPS {
        let before = planned(zone);
        zone.apply_endpoint_slice(&endpoints(0, size.networks, ENDPOINTS + STEPS + step));
        let request = raw::transact(step as usize + 1, difference(&before, &planned(zone)));
        let meter = Meter::start(databases.north.pid());
        let replies = raw::exchange(&stream, vec![request]);
        times.push(meter.row("limit"));
        raw::assert_done(&replies);
    }
    median(times)["wall_s"].as_f64().unwrap()
}

fn planned(zone: &Zone) -> Vec<Planned> {
    support::rows(&northbound(zone), "service:t1:s0:")
}

/// What makes of some rows the same rows with other columns.
fn difference(before: &[Planned], after: &[Planned]) -> Vec<Op> {
    let one = |(old, new): (&Planned, &Planned)| {
        let columns = new.columns.iter().filter(|column| !old.columns.iter().any(|known| known == *column));
        let named =
            |(at, datum): &(u8, _)| (Name::from(new.meta.columns[usize::from(*at)]), Clone::clone(datum));
        let row: Vec<_> = columns.map(named).collect();
        let (table, conditions) = (new.meta.name.into(), vec![Condition::uuid(new.uuid)]);
        (!row.is_empty()).then_some(Op::Update { table, conditions, row })
    };
    let ops: Vec<Op> = before.iter().zip(after).filter_map(one).collect();
    assert!(!ops.is_empty(), "an endpoint changes something");
    ops
}
