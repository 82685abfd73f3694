//! Policies on a zone: everything at once, one pod more, one rule changed; from the event to the last reply of the northbound database.
//!
//! One JSON object per measurement and size. There are as many policies as pods of this node, each in ten namespaces' worth of labels;
//! three policies are about a pod, and every policy lets in whoever is anywhere in the cluster, which is one set with all pods. The limit
//! is the same rows, prebuilt, raw on the same kind of database.
#![allow(unreachable_pub, missing_docs, dead_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "../../node/benches/diff/measure.rs"]
mod measure;
#[path = "../../node/benches/diff/raw.rs"]
mod raw;
#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;

use causeway_ovn::Planned;
use causeway_ovsdb::{Condition, Name, Op};
use causeway_plan::{Dirty, northbound};
use causeway_record::{Logging, Namespace, NetworkPolicy, Pod};
use causeway_zone::Zone;
use measure::{Meter, median};
use serde_json::{Value, json};
use std::os::unix::net::UnixStream;
use support::server::{Databases, run};
use support::{Ip, On as _, pod, policy, rows, two_nodes};

const SIZES: [u32; 3] = [10, 100, 1_000];
/// Pods and edits that follow, one after the other.
const STEPS: u32 = 21;
/// Pods of a namespace, and policies of it.
const IN_NAMESPACE: u32 = 10;

fn main() {
    for size in SIZES {
        eprintln!("{size} policies x {size} pods");
        for row in run(measure(size)) {
            println!("{row}");
        }
    }
}

fn namespace_of(n: u32) -> String {
    format!("ns{}", n / IN_NAMESPACE)
}

fn namespace(n: u32) -> Namespace {
    let name = namespace_of(n);
    let labels = [("name".to_owned(), name.clone())].into();
    Namespace { name: name.parse().unwrap(), labels, deleting: false, logging: Logging::default() }
}

/// Three of its namespace's policies are about each pod.
fn guest(n: u32) -> Pod {
    let address = format!("10.244.{}.{}/16", 16 + n / 250, 1 + n % 250);
    let one = pod(&format!("{}/p{n}", namespace_of(n)), "n1", &[("default", "primary", &[&address], None)]);
    let labels = (0..3).map(|k| (format!("in-{}", (n + k) % IN_NAMESPACE), "yes".to_owned()));
    Pod { labels: labels.collect(), ..one }
}

/// Lets in everybody, on a port.
fn rule(n: u32, port: u32) -> NetworkPolicy {
    let label = format!("in-{}", n % IN_NAMESPACE);
    policy(
        &format!("{}/q{n}", namespace_of(n)),
        json!({"podSelector": {"matchLabels": {label: "yes"}}, "ingress": [
            {"from": [{"namespaceSelector": {}}], "ports": [{"port": port}]},
            {"from": [{"podSelector": {}}]},
        ]}),
    )
}

fn zone_with(size: u32) -> Zone {
    let mut zone = two_nodes(Ip::V4, None);
    (0..size).step_by(IN_NAMESPACE as usize).for_each(|n| drop(zone.apply_namespace(&namespace(n))));
    (0..size).for_each(|n| drop(zone.apply_policy(&rule(n, 80))));
    (0..size).for_each(|n| drop(zone.apply_pod(&guest(n))));
    zone
}

/// What was done since, for each of so many steps.
struct Count {
    rows: u64,
    transactions: u64,
}

impl Count {
    fn of(databases: &Databases) -> Self {
        let stats = databases.north_writer.engine().stats();
        let rows = stats.created + stats.modified + stats.deleted + stats.joined + stats.left;
        Self { rows, transactions: stats.transactions }
    }

    fn put(&self, before: &Self, steps: u32, row: &mut Value) {
        row["rows"] = ((self.rows - before.rows) / u64::from(steps)).into();
        row["transactions"] = ((self.transactions - before.transactions) / u64::from(steps)).into();
    }
}

async fn measure(size: u32) -> Vec<Value> {
    let mut databases = Databases::start();
    let mut zone = zone_with(size);
    let meter = Meter::start(databases.north.pid());
    let before = Count::of(&databases);
    databases.apply(&zone, Dirty::everything()).await;
    let mut start = meter.row("policy-start");
    Count::of(&databases).put(&before, 1, &mut start);

    databases.restart_role();
    databases.apply(&zone, Dirty::everything()).await;
    assert_eq!(databases.writes(), 0, "a restart against an unchanged world writes nothing");

    let mut all = vec![start];
    for name in ["policy-pod-add", "policy-edit"] {
        let (before, mut times) = (Count::of(&databases), Vec::new());
        for step in 0..STEPS {
            let meter = Meter::start(databases.north.pid());
            let dirty = step_of(name, &mut zone, size, step);
            databases.apply(&zone, dirty).await;
            times.push(meter.row(name));
        }
        let mut row = median(times);
        Count::of(&databases).put(&before, STEPS, &mut row);
        all.push(row);
    }
    databases.assert_as_planned(&zone);
    let limits = limits(size);
    for (row, limit) in all.iter_mut().zip(limits) {
        (row["n"], row["m"]) = (size.into(), size.into());
        row["limit_wall_s"] = limit.into();
        row["ratio"] = (row["wall_s"].as_f64().unwrap() / limit).into();
    }
    all
}

/// One pod more in a namespace of many, or another port in a rule.
fn step_of(name: &str, zone: &mut Zone, size: u32, step: u32) -> Dirty {
    match name {
        "policy-pod-add" => {
            let labels = guest(step % IN_NAMESPACE).labels;
            let fresh = guest(size + 500 + step);
            let mut key = fresh.key.clone();
            key.namespace = namespace_of(0).parse().unwrap();
            zone.apply_pod(&Pod { key, labels, ..fresh }).on(zone)
        }
        _ => zone.apply_policy(&rule(step % size, 1000 + step)).on(zone),
    }
}

fn planned(zone: &Zone, prefixes: &[String]) -> Vec<Planned> {
    let plan = northbound(zone);
    prefixes.iter().flat_map(|prefix| rows(&plan, prefix)).collect()
}

/// The same rows raw: all at once in requests of five hundred; the rows that a pod adds; the ACL that an edit replaces.
fn limits(size: u32) -> [f64; 3] {
    let databases = Databases::start();
    let mut zone = zone_with(size);
    let mut all = planned(&zone, &[String::new()]);
    // What refers to others comes after them.
    all.sort_by_key(|row| (row.member_of.is_some(), !row.edges.is_empty()));
    let adopted = |row: &Planned| row.meta.name == "NB_Global";
    let all: Vec<Planned> = all.into_iter().filter(|row| !adopted(row)).collect();
    let stream = UnixStream::connect(databases.north.socket()).unwrap();
    raw::exchange(&stream, vec![raw::monitor().into_bytes()]);
    let requests = all.chunks(500).enumerate().map(|(n, some)| raw::request(n, some)).collect();
    let start = timed(&databases, &stream, requests);
    let mut limits = [start, 0.0, 0.0];
    for (at, name) in ["policy-pod-add", "policy-edit"].into_iter().enumerate() {
        let mut times = Vec::new();
        for step in 0..STEPS {
            let known: BTreeMap<_, _> =
                planned(&zone, &[String::new()]).into_iter().map(|row| (row.uuid, row.columns)).collect();
            let dirty = step_of(name, &mut zone, size, step);
            let mut fresh = planned(&zone, &dirty.northbound);
            fresh.retain(|row| known.get(&row.uuid) != Some(&row.columns));
            let request = match name {
                "policy-edit" => update(step as usize, &fresh),
                _ => raw::request(step as usize, &fresh),
            };
            times.push(timed(&databases, &stream, vec![request]));
        }
        times.sort_by(f64::total_cmp);
        limits[at + 1] = times[times.len() / 2];
    }
    limits
}

/// A request that gives rows that are there other columns.
fn update(id: usize, rows: &[Planned]) -> Vec<u8> {
    let update = |row: &Planned| {
        let name = |at: u8| Name::from(row.meta.columns[usize::from(at)]);
        Op::Update {
            table: row.meta.name.into(),
            conditions: vec![Condition::uuid(row.uuid)],
            row: row.columns.iter().map(|(at, datum)| (name(*at), datum.clone())).collect(),
        }
    };
    raw::transact(id, rows.iter().map(update).collect())
}

fn timed(databases: &Databases, stream: &UnixStream, requests: Vec<Vec<u8>>) -> f64 {
    let meter = Meter::start(databases.north.pid());
    let replies = raw::exchange(stream, requests);
    let row = meter.row("limit");
    raw::assert_done(&replies);
    row["wall_s"].as_f64().unwrap()
}
