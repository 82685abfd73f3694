//! Networks only where they are used: `--render=used`.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used)]

use causeway_sandbox::harness::{Probe, Sandbox};
use causeway_tests::siblings::start_asking;
use causeway_tests::{road, shared, wait_reach, wait_roads, zone};
use std::collections::BTreeSet;

const MANIFESTS: &str = include_str!("manifests/day2.yaml");
const ISLANDS: &str = include_str!("manifests/connect.yaml");
/// Each island has pods on one node alone: everywhere else it is a destination.
const SCATTERED: [(&str, &str); 4] =
    [("blue/a", "n1"), ("green/b", "n2"), ("red/c", "n3"), ("yellow/a", "n1")];

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

    destinations_are_stubs(sandbox);
    siblings_are_stubs(sandbox);
}

/// By a compact road pods reach networks that have none of theirs on the node: what these have there is the way to other nodes.
/// Services lead there, too; a network's own first pod makes it whole.
fn destinations_are_stubs(sandbox: &Sandbox) {
    sandbox.set_flags(|all| all.cluster_manager = vec!["--connect-topology=compact".to_owned()]).unwrap();
    sandbox.apply(ISLANDS).unwrap();
    sandbox.start_pods(&SCATTERED).unwrap();
    let islands = zone(sandbox, "n1");
    sandbox.kubectl(&["label", "namespace", "red", "main=yes"]).unwrap();
    sandbox.apply(&road("stubs", "main", 180, "PodNetwork, ClusterIPServiceNetwork")).unwrap();
    let pods = SCATTERED.map(|(pod, _)| pod);
    let roads = [("blue", "green"), ("blue", "red"), ("green", "red")];
    wait_roads(sandbox, &pods, &Probe::ALL, &roads);

    let switches = |node: &str| {
        sandbox.exec(node, &["ovn-nbctl", "--bare", "--columns=name", "list", "Logical_Switch"]).unwrap()
    };
    let (n1, n3) = (switches("n1"), switches("n3"));
    assert!(n3.contains("red_net_n3") && !n1.contains("red_net_n1"), "red is a stub on n1:\n{n1}");
    assert!(n1.contains("red_net_transit_switch"), "{n1}");
    let routers =
        sandbox.exec("n1", &["ovn-nbctl", "--bare", "--columns=name", "list", "Logical_Router"]).unwrap();
    assert!(!routers.contains("GR_red_net") && !routers.contains("GR_green_lan"), "{routers}");

    let service = "{apiVersion: v1, kind: Service, metadata: {name: c, namespace: red}, spec: {selector: {app: tools}, ports: [{port: 80, targetPort: 8080}]}}";
    sandbox.apply(service).unwrap();
    let address = sandbox.get(&["service", "-n", "red", "c"]).unwrap()["spec"]["clusterIP"]
        .as_str()
        .unwrap()
        .to_owned();
    for pod in ["blue/a", "green/b"] {
        let url = format!("http://{address}/hostname");
        let served = || Ok(sandbox.pod(pod).exec(&["curl", "-sf", "--max-time", "3", &url]).ok());
        sandbox.wait_for(&format!("{pod} to be served by red"), served).unwrap();
    }

    sandbox.start_pods(&[("red/a", "n1")]).unwrap();
    let all: Vec<&str> = pods.into_iter().chain(["red/a"]).collect();
    wait_roads(sandbox, &all, &Probe::ALL, &roads);
    assert!(switches("n1").contains("red_net_n1"));
    sandbox.kubectl(&["delete", "pod", "-n", "red", "a", "--timeout=60s"]).unwrap();
    sandbox.kubectl(&["delete", "cnc", "stubs", "--timeout=60s"]).unwrap();
    sandbox.kubectl(&["delete", "service", "-n", "red", "c"]).unwrap();
    wait_roads(sandbox, &pods, &Probe::ALL, &[]);
    wait_zone(sandbox, "n1", &islands);
}

/// Two networks of one namespace, of either topology.
const PAIR: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: pair, labels: {k8s.ovn.org/primary-user-defined-network: \"\"}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: wide, namespace: pair}
spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.51.0.0/16}, {cidr: \"fd51::/48\"}]}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: flat, namespace: pair}
spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.52.0.0/24, \"fd52::/64\"]}}
";

/// Siblings with one pod each, on different nodes: where its sibling's pod is, each network is a stub, and elsewhere there is neither.
fn siblings_are_stubs(sandbox: &Sandbox) {
    let nodes = ["n1", "n2", "n3"];
    let before = nodes.map(|node| zone(sandbox, node));
    sandbox.apply(PAIR).unwrap();
    start_asking(sandbox, &[("pair/a", "n1", "wide"), ("pair/b", "n2", "flat")]);
    wait_roads(sandbox, &["pair/a", "pair/b", "blue/a", "green/b"], &Probe::ALL, &[]);
    let [n1, n2, n3] = nodes.map(|node| zone(sandbox, node));
    let has = |rows: &BTreeSet<String>, name: &str| rows.iter().any(|row| row.ends_with(name));
    assert!(has(&n1, "GR_pair_wide_n1") && !has(&n1, "GR_pair_flat_n1"), "flat is a stub on n1: {n1:?}");
    assert!(has(&n2, "GR_pair_flat_n2") && !has(&n2, "GR_pair_wide_n2"), "wide is a stub on n2: {n2:?}");
    let of_pair = n3.iter().find(|row| row.contains("pair_wide") || row.contains("pair_flat"));
    assert_eq!(of_pair, None, "nobody is on n3");
    sandbox.kubectl(&["delete", "namespace", "pair", "--timeout=120s"]).unwrap();
    for (node, before) in nodes.iter().zip(&before) {
        wait_zone(sandbox, node, before);
    }
}
