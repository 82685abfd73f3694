//! Some of Kubernetes' own tests of networks, those that carry packets and are short. `make conformance` runs all of them.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use causeway_tests::judge::{Judge, Network, any_of};
use causeway_tests::shared;

/// Each must run, and pass.
const SPECS: [&str; 10] = [
    "DNS should provide DNS for the cluster [Conformance]",
    "DNS should provide DNS for services [Conformance]",
    "HostPort validates that there is no conflict between pods with same hostPort but different hostIP and protocol [LinuxOnly] [Conformance]",
    "Networking Granular Checks: Pods should function for intra-pod communication: http [NodeConformance] [Conformance]",
    "Networking Granular Checks: Pods should function for intra-pod communication: udp [NodeConformance] [Conformance]",
    "Networking Granular Checks: Pods should function for node-pod communication: udp [LinuxOnly] [NodeConformance] [Conformance]",
    "Services should be able to change the type from ExternalName to NodePort [Conformance]",
    "Services should be able to create a functioning NodePort service [Conformance]",
    "Services should serve a basic endpoint from pods [Conformance]",
    "Proxy version v1 should proxy through a service and a pod [Conformance]",
];

#[test]
fn specs_of_kubernetes_pass() {
    let focus = any_of(SPECS.into_iter());
    let outcomes = Judge::E2e.run(shared(), Network::Default, Some(&focus)).unwrap();
    for spec in &outcomes {
        println!("{} {:.1} s: {} {}", spec.state, spec.seconds, spec.name, spec.message);
    }
    let passed = |spec: &str| outcomes.iter().any(|one| one.passed() && one.name.ends_with(spec));
    let missing: Vec<&str> = SPECS.into_iter().filter(|spec| !passed(spec)).collect();
    assert!(missing.is_empty(), "these did not pass: {missing:#?}; see target/conformance");
}
