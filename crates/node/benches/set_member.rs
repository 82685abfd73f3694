//! One member joins and leaves a set of many, on a real ovsdb-server: what the client does must not grow with the set.
//!
//! Prints one JSON object per size and direction. `n` is the size of the set.
#![allow(unreachable_pub, missing_docs, dead_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "diff/measure.rs"]
mod measure;

use causeway_node::{Applier, ApplierConfig};
use causeway_ovn::apply::Options;
use causeway_ovn::declare::NORTHBOUND;
use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Planner, Str, path};
use causeway_testing::{OvsdbServer, schema_file};
use measure::{Meter, median};
use serde_json::Value;
use std::net::Ipv4Addr;

const SIZES: [u32; 4] = [10, 1_000, 10_000, 50_000];
const STEPS: u32 = 51;
const ROW: &str = "set:big";
const MEMBERS: &str = "set:big:addresses:";

/// A set of as many addresses; each is a slice of its own.
struct Set {
    size: u32,
    /// One address more, in the middle.
    guest: Option<u32>,
}

fn address(n: u32) -> Str {
    Ipv4Addr::from(0x0a00_0000 + n).to_string().into()
}

impl Set {
    fn number(member: &str) -> Option<u32> {
        let ip: Ipv4Addr = member.strip_prefix(MEMBERS)?.parse().ok()?;
        u32::from(ip).checked_sub(0x0a00_0000)
    }

    fn member(n: u32) -> Planned {
        Planned::member::<nb::AddressSet>(ROW, "addresses", address(n))
    }

    /// Members have even numbers, so that there is room between any two.
    fn has(&self, n: u32) -> bool {
        (n.is_multiple_of(2) && n / 2 < self.size) || self.guest == Some(n)
    }
}

impl Planner for Set {
    fn roots(&self) -> &[&str] {
        &["set"]
    }

    fn slices(&self, prefix: &str) -> Vec<Str> {
        if Set::number(prefix).is_some() {
            return vec![prefix.into()];
        }
        [ROW, MEMBERS].into_iter().filter(|slice| slice.starts_with(prefix)).map(Str::from).collect()
    }

    fn slice_len(&self, path: &str) -> usize {
        path.len()
    }

    fn plan(&self, slice: &str) -> Plan {
        match slice {
            ROW => {
                let row = nb::AddressSet { name: "big".into(), ..Default::default() };
                Plan::Rows(vec![Planned::new(ROW, row)])
            }
            MEMBERS => {
                let all = (0..self.size).map(|n| 2 * n).chain(self.guest);
                Plan::Rows(all.map(Set::member).collect())
            }
            member => match Set::number(member).filter(|n| self.has(*n)) {
                Some(n) => Plan::Rows(vec![Set::member(n)]),
                None => Plan::Absent,
            },
        }
    }
}

fn main() {
    for size in SIZES {
        eprintln!("one member of a set of {size}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(measure_size(size)).iter().for_each(|row| println!("{row}"));
    }
}

async fn measure_size(size: u32) -> Vec<Value> {
    let server = OvsdbServer::start(&schema_file("ovn-nb"));
    let mut set = Set { size, guest: None };
    let mut applier = Applier::new(ApplierConfig {
        declarations: &NORTHBOUND,
        remotes: vec![server.remote().parse().unwrap()],
        tls: None,
        options: Options::default(),
    });
    applier.settle(&set).await;
    let (mut joins, mut leaves) = (Vec::new(), Vec::new());
    for step in 0..STEPS {
        let guest = (size * 2 / STEPS * step) | 1;
        set.guest = Some(guest);
        joins.push(one(&mut applier, &set, &server, guest, "set-member-join").await);
        set.guest = None;
        leaves.push(one(&mut applier, &set, &server, guest, "set-member-leave").await);
    }
    let stats = applier.engine().stats();
    assert_eq!((stats.joined, stats.left), (u64::from(size + STEPS), u64::from(STEPS)), "one by one");
    assert!(applier.engine().failures().is_empty(), "{:?}", applier.engine().failures());
    [joins, leaves]
        .map(|rows| {
            let mut row = median(rows);
            row["n"] = size.into();
            row["rows"] = 1.into();
            row["peak_rss_mb"] = Value::Null;
            row
        })
        .to_vec()
}

async fn one(applier: &mut Applier, set: &Set, server: &OvsdbServer, member: u32, name: &str) -> Value {
    let before = applier.engine().stats();
    let meter = Meter::start(server.pid());
    applier.dirty(&path::join(["set", "big", "addresses", &address(member)]));
    applier.settle(set).await;
    let mut row = meter.row(name);
    let after = applier.engine().stats();
    row["transactions"] = (after.transactions - before.transactions).into();
    row["bytes"] = (after.bytes - before.bytes).into();
    row
}
