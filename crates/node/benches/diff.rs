//! Differ and apply loop against the raw limit: what ovsdb-server needs for the same rows, prebuilt.
//!
//! Without arguments it runs every size and prints one JSON object per measurement. Each measurement is a process of
//! its own, so that its peak memory is its own: `diff ROLE N M SOCKET PID`.
#![allow(unreachable_pub, missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "diff/limit.rs"]
mod limit;
#[path = "diff/measure.rs"]
mod measure;
#[path = "diff/raw.rs"]
mod raw;
#[path = "diff/shape.rs"]
mod shape;

use causeway_node::{Applier, ApplierConfig};
use causeway_ovn::apply::Options;
use causeway_ovn::declare::NORTHBOUND;
use causeway_testing::{OvsdbServer, schema_file};
use measure::{Meter, median};
use serde_json::{Value, json};
use shape::Connect;
use std::process::Command;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    match args.first().map(String::as_str) {
        Some(role @ ("limit" | "create" | "dump" | "cold")) => {
            let connect = Connect::new(args[1].parse().unwrap(), args[2].parse().unwrap());
            let server = Server { socket: args[3].clone(), pid: args[4].parse().unwrap() };
            let rows = match role {
                "limit" => vec![limit::create(&connect, &server)],
                "dump" => vec![limit::dump(&server)],
                "create" => run(create(connect, &server)),
                _ => run(cold(&connect, &server)),
            };
            rows.iter().for_each(|row| println!("{row}"));
        }
        Some(sizes) => sizes.split(',').for_each(size),
        None => ["10x10", "50x50", "100x100", "250x250"].into_iter().for_each(size),
    }
}

/// A server that the parent process started.
pub struct Server {
    pub socket: String,
    pub pid: u32,
}

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// All measurements of one size.
fn size(text: &str) {
    let (n, m) = text.split_once('x').expect("a size is NxM");
    let (n, m): (usize, usize) = (n.parse().unwrap(), m.parse().unwrap());
    eprintln!("differ and apply loop, {n} networks x {m} nodes, {} rows", Connect::new(n, m).rows());
    let raw = OvsdbServer::start(&schema_file("ovn-nb"));
    let limit = child("limit", n, m, &raw);
    drop(raw);
    let server = OvsdbServer::start(&schema_file("ovn-nb"));
    let ours = child("create", n, m, &server);
    let dump = child("dump", n, m, &server);
    let cold = child("cold", n, m, &server);
    let limits = [
        ("diff-create", limit[0]["wall_s"].as_f64().unwrap()),
        ("diff-cold-start", dump[0]["wall_s"].as_f64().unwrap()),
    ];
    for mut row in ours.into_iter().chain(cold) {
        let limit = limits.iter().find(|(name, _)| row["name"] == *name).map(|(_, wall)| *wall);
        row["n"] = n.into();
        row["m"] = m.into();
        row["rows"] = Connect::new(n, m).rows().into();
        row["limit_wall_s"] = limit.map_or(Value::Null, Value::from);
        row["ratio"] = limit.map_or(Value::Null, |l| Value::from(row["wall_s"].as_f64().unwrap() / l));
        println!("{row}");
    }
}

fn child(role: &str, n: usize, m: usize, server: &OvsdbServer) -> Vec<Value> {
    let out = Command::new(std::env::current_exe().unwrap())
        .args([role, &n.to_string(), &m.to_string()])
        .arg(server.socket())
        .arg(server.pid().to_string())
        .stderr(std::process::Stdio::inherit())
        .output()
        .unwrap();
    assert!(out.status.success(), "{role} {n}x{m} failed");
    String::from_utf8(out.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn applier(server: &Server) -> Applier {
    Applier::new(ApplierConfig {
        declarations: &NORTHBOUND,
        remotes: vec![format!("unix:{}", server.socket).parse().unwrap()],
        tls: None,
        options: Options::default(),
    })
}

/// Creates everything, changes one row, looks again.
async fn create(mut connect: Connect, server: &Server) -> Vec<Value> {
    let mut applier = applier(server);
    connect.connected = false;
    applier.settle(&connect).await;
    connect.connected = true;
    let meter = Meter::start(server.pid);
    applier.dirty("cnc:");
    applier.settle(&connect).await;
    let created = meter.row("diff-create");
    assert_eq!(applier.engine().stats().created as usize, connect.rows() + connect.networks, "rows");
    assert!(applier.engine().failures().is_empty(), "{:?}", applier.engine().failures());

    let mut ones = Vec::new();
    for step in 1..=51 {
        connect.hop = step;
        let meter = Meter::start(server.pid);
        applier.dirty(&connect.changed_route());
        applier.settle(&connect).await;
        ones.push(meter.row("diff-one-row"));
    }
    assert_eq!(applier.engine().stats().modified, 51);

    let sent = applier.engine().stats().transactions;
    let meter = Meter::start(server.pid);
    applier.dirty("");
    applier.settle(&connect).await;
    let unchanged = meter.row("diff-unchanged");
    assert_eq!(applier.engine().stats().transactions, sent, "an unchanged pass sends nothing");
    vec![created, median(ones), unchanged]
}

/// Connects, loads, compares everything, finds nothing to do.
async fn cold(connect: &Connect, server: &Server) -> Vec<Value> {
    let mut connect = connect.clone();
    connect.hop = 51;
    let meter = Meter::start(server.pid);
    let mut applier = applier(server);
    applier.settle(&connect).await;
    assert_eq!(applier.engine().stats().transactions, 0, "nothing to do");
    let mut row = meter.row("diff-cold-start");
    row["resident_mb"] = json!(measure::memory("VmRSS"));
    vec![row]
}
