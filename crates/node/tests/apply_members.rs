//! Members of sets and maps, one by one, on a real northbound database.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_node::Applier;
use causeway_ovn::apply::{Options, Stats};
use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Planner, Str, path};
use causeway_testing::{OvsdbServer, program};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;
use support::{applier, northbound, run, small};

const SET: &str = "t:set";
const BALANCER: &str = "t:lb";

/// One address set and one load balancer; every member is a slice of its own.
#[derive(Clone, Default)]
struct Members {
    addresses: BTreeSet<Str>,
    vips: BTreeMap<Str, Str>,
}

impl Members {
    fn new(addresses: usize) -> Members {
        let addresses = (0..addresses).map(|n| Str::from(format!("10.0.{}.{}", n / 256, n % 256)));
        let vips = [("10.96.0.1:80", "10.0.0.1:80"), ("[fd00::1]:80", "[fd01::1]:80")];
        Members {
            addresses: addresses.collect(),
            vips: vips.map(|(vip, target)| (vip.into(), target.into())).into(),
        }
    }

    fn all(&self) -> Vec<Planned> {
        let set = nb::AddressSet {
            name: "set".into(),
            addresses: self.addresses.iter().cloned().collect(),
            ..Default::default()
        };
        let balancer = nb::LoadBalancer {
            name: "lb".into(),
            vips: self.vips.clone().into_iter().collect(),
            ..Default::default()
        };
        let mut all = Planned::new(SET, set).members_apart("addresses");
        all.extend(Planned::new(BALANCER, balancer).members_apart("vips"));
        all
    }
}

impl Planner for Members {
    fn roots(&self) -> &[&str] {
        &["t"]
    }

    fn slices(&self, prefix: &str) -> Vec<Str> {
        let all = [SET, BALANCER, "t:set:addresses:", "t:lb:vips:"];
        if all.iter().any(|slice| prefix.len() > slice.len() && prefix.starts_with(slice)) {
            return vec![prefix.into()];
        }
        all.into_iter().filter(|slice| slice.starts_with(prefix)).map(Str::from).collect()
    }

    fn slice_len(&self, path: &str) -> usize {
        path.len()
    }

    fn plan(&self, slice: &str) -> Plan {
        let covers = |row: &Planned| {
            if slice.ends_with(':') { row.path.starts_with(slice) } else { row.path == slice }
        };
        let rows: Vec<Planned> = self.all().into_iter().filter(covers).collect();
        if rows.is_empty() { Plan::Absent } else { Plan::Rows(rows) }
    }
}

fn nbctl(server: &OvsdbServer, args: &[&str]) -> String {
    let out = Command::new(program("ovn-nbctl"))
        .arg(format!("--db={}", server.remote()))
        .args(args)
        .output()
        .unwrap();
    assert!(out.status.success(), "ovn-nbctl {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

async fn settle(writer: &mut Applier, plan: &Members) {
    let settled = tokio::time::timeout(Duration::from_secs(30), writer.settle(plan)).await;
    assert!(settled.is_ok(), "not settled: {:?}", writer.engine().failures());
    assert!(writer.engine().failures().is_empty(), "{:?}", writer.engine().failures());
    let replica = writer.replica();
    for row in causeway_ovn::together(plan.all()) {
        let actual = replica.row(replica.table(row.meta.name).unwrap(), row.uuid).unwrap();
        for column in ["addresses", "vips"] {
            let want = row.column(column).filter(|_| actual.get(column).is_some());
            assert!(want.is_none_or(|want| actual.get(column) == Some(want)), "{} {column}", row.path);
        }
    }
}

/// What a step did.
fn since(before: Stats, after: Stats) -> (u64, u64, u64, u64) {
    let Stats { transactions, joined, left, bytes, .. } = after;
    (transactions - before.transactions, joined - before.joined, left - before.left, bytes - before.bytes)
}

#[test]
fn one_member_of_many_is_one_mutate_of_one_member() {
    run(async {
        let server = northbound();
        let mut plan = Members::new(2_000);
        let mut writer = applier(&server.remote(), Options::default());
        settle(&mut writer, &plan).await;
        let member = path::join(["t", "set", "addresses", "192.0.2.1"]);

        let before = writer.engine().stats();
        plan.addresses.insert("192.0.2.1".into());
        writer.dirty(&member);
        settle(&mut writer, &plan).await;
        let (transactions, joined, left, bytes) = since(before, writer.engine().stats());
        assert_eq!((transactions, joined, left), (1, 1, 0));
        assert!(bytes < 500, "{bytes} bytes for one member");

        let before = writer.engine().stats();
        plan.addresses.remove("192.0.2.1");
        writer.dirty(&member);
        settle(&mut writer, &plan).await;
        let (transactions, joined, left, bytes) = since(before, writer.engine().stats());
        assert_eq!((transactions, joined, left), (1, 0, 1));
        assert!(bytes < 500, "{bytes} bytes for one member");
        assert_eq!(
            writer.engine().stats().foreign_changes,
            0,
            "our own changes are known when they come back"
        );
    });
}

#[test]
fn a_pair_gets_another_value_at_once() {
    run(async {
        let server = northbound();
        let mut plan = Members::new(3);
        let mut writer = applier(&server.remote(), Options::default());
        settle(&mut writer, &plan).await;
        let before = writer.engine().stats();
        plan.vips.insert("[fd00::1]:80".into(), "[fd01::2]:80,[fd01::3]:80".into());
        writer.dirty(&path::join(["t", "lb", "vips", "[fd00::1]:80"]));
        settle(&mut writer, &plan).await;
        let (transactions, joined, left, _) = since(before, writer.engine().stats());
        assert_eq!((transactions, joined, left), (1, 1, 0));
        let vips = nbctl(&server, &["get", "load_balancer", "lb", "vips"]);
        assert!(vips.contains("[fd01::2]:80,[fd01::3]:80") && vips.contains("10.0.0.1:80"), "{vips}");
    });
}

#[test]
fn what_others_do_to_members_is_put_right_and_a_restart_writes_nothing() {
    run(async {
        let server = northbound();
        let plan = Members::new(300);
        let mut writer = applier(&server.remote(), small());
        settle(&mut writer, &plan).await;
        for args in [
            &["remove", "address_set", "set", "addresses", "10.0.0.7"][..],
            &["add", "address_set", "set", "addresses", "192.0.2.9"],
            &["clear", "address_set", "set", "addresses"],
            &["set", "load_balancer", "lb", "vips:\"10.96.0.1:80\"=\"192.0.2.9:1\""],
            &["set", "load_balancer", "lb", "vips:\"192.0.2.9:1\"=\"192.0.2.9:1\""],
            &["clear", "load_balancer", "lb", "vips"],
            &["remove", "address_set", "set", "external_ids", "k8s.ovn.org/id"],
            &["destroy", "address_set", "set"],
        ] {
            let before = writer.engine().stats().foreign_changes;
            nbctl(&server, args);
            let noticed = async {
                while writer.engine().stats().foreign_changes == before {
                    writer.turn(&plan).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(10), noticed).await.unwrap();
            settle(&mut writer, &plan).await;
        }
        let mut restarted = applier(&server.remote(), small());
        settle(&mut restarted, &plan).await;
        assert_eq!(restarted.engine().stats().transactions, 0);
    });
}
