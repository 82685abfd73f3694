//! A first image of 100 MB is streamed: it is never in memory as a whole. Alone in its process, whose peak it measures.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_ovsdb_client::Client;
use causeway_ovsdb_client::ovsdb::{Datum, Op};
use std::fs;
use support::*;

const ROWS: u128 = 2_000;
const TEXT: usize = 52_000;

/// Few texts, so that what stays in the replica is small and the peak shows what passes through.
fn text(n: u128) -> String {
    ["a", "b", "c", "d"][n as usize % 4].repeat(TEXT)
}

fn thing(n: u128) -> Op {
    insert(
        "Thing",
        n,
        [("name", n.to_string().as_str().into()), ("labels", Datum::str_map([("text", text(n).as_str())]))],
    )
}

/// A value of /proc/self/status in MB.
fn megabytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[tokio::test]
async fn a_dump_of_100_megabytes_loads_without_being_held() {
    let server = server();
    let mut empty = config(&server.remote());
    empty.session.tables.clear();
    let mut writer = start(empty).await;
    for first in (1..=ROWS).step_by(20) {
        done(&mut writer, (first..first + 20).map(thing).collect()).await;
    }
    // Resets the peak to what is there now.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = megabytes("VmRSS");
    let mut client = Client::new(config(&server.remote()));
    assert!(synced(&mut client).await.first);
    let growth = megabytes("VmHWM").saturating_sub(before);
    let replica = client.replica();
    let table = replica.table("Thing").unwrap();
    let mut dumped = 0;
    for row in replica.rows(table) {
        let value = row.get("labels").unwrap().get("text").unwrap();
        assert_eq!(*value, text(row.uuid.as_u128()));
        dumped += value.len();
    }
    assert_eq!((replica.len(table), dumped), (ROWS as usize, ROWS as usize * TEXT));
    assert!(growth < 25, "{growth} MB for a dump of {} MB", dumped >> 20);
}
