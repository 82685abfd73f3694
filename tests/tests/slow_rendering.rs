//! Networks only where they are used: `--render=used`.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used)]

use causeway_sandbox::harness::Sandbox;
use causeway_tests::{shared, wait_reach, zone};
use std::collections::BTreeSet;

const MANIFESTS: &str = include_str!("manifests/day2.yaml");

fn wait_zone(sandbox: &Sandbox, node: &str, wanted: &BTreeSet<String>) {
    let same = || {
        let left: Vec<String> = zone(sandbox, node).symmetric_difference(wanted).cloned().collect();
        if left.is_empty() { Ok(Some(())) } else { Err(causeway_sandbox::Error::Request(left.join("\n"))) }
    };
    sandbox.wait_for(&format!("{node} to render what it did before"), same).unwrap();
}

/// A node renders a network with its first pod, keeps it over a restart, and forgets it after the grace period.
#[test]
fn a_network_is_rendered_where_its_pods_are() {
    let sandbox = shared();
    let flags = ["--render=used", "--udn-deletion-grace-period=5"];
    sandbox.set_flags(|all| all.node = flags.map(str::to_owned).to_vec()).unwrap();
    sandbox.apply(MANIFESTS).unwrap();
    sandbox.start_pods(&[("late-one/a", "n1"), ("own/a", "n1")]).unwrap();
    let without = zone(sandbox, "n2");
    assert!(!without.iter().any(|row| row.contains("own_lan") || row.contains("late")), "{without:?}");
    assert!(zone(sandbox, "n1").iter().any(|row| row.contains("own_lan")));

    sandbox.start_pods(&[("late-one/b", "n2"), ("own/b", "n2")]).unwrap();
    wait_reach(sandbox, "late-one/a", "late-one/b");
    wait_reach(sandbox, "own/a", "own/b");
    let with = zone(sandbox, "n2");
    sandbox.kill("n2/causeway").unwrap();
    sandbox.wait_settled().unwrap();
    wait_reach(sandbox, "own/a", "own/b");
    assert_eq!(zone(sandbox, "n2"), with);

    for namespace in ["late-one", "own"] {
        sandbox.kubectl(&["delete", "pod", "-n", namespace, "b", "--timeout=60s"]).unwrap();
    }
    wait_zone(sandbox, "n2", &without);
}
