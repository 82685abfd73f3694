//! Some of the tests that others wrote, those that carry packets and are short. `make conformance` runs all of them.
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

/// Kubernetes' own specs of policies: a name of a port, a block with an exception, labels that change, UDP.
const NETPOL: [&str; 4] = [
    "should allow egress access on one named port [Feature:NetworkPolicy]",
    "should enforce except clause while egress access to server in CIDR block [Feature:NetworkPolicy]",
    "should allow ingress access from updated namespace [Feature:NetworkPolicy]",
    "NetworkPolicy between server and client using UDP should enforce policy based on Ports [Feature:NetworkPolicy]",
];

/// A truth table of cyclonus, with the tag that it alone has.
const CYCLONUS: (&str, [&str; 1]) = ("update-policy", ["Create/update policy"]);

/// Of the policy API's tests, one of each kind.
const CNP: (&str, [&str; 2]) = (
    "CNP(AdminTierIngressNamedPort|BaselineTierEgressNodePeers)$",
    [
        "CNPAdminTierIngressNamedPort/Should_support_an_'allow-ingress'_policy_for_named_port",
        "CNPBaselineTierEgressNodePeers/Should_support_an_'allow-egress'_rule_policy_for_egress-node-peer",
    ],
);
const ANP: (&str, [&str; 2]) = (
    "(AdminNetworkPolicyEgressNamedPort|BaselineAdminNetworkPolicyIngressNamedPort)$",
    [
        "AdminNetworkPolicyEgressNamedPort/Should_support_an_'allow-egress'_policy_for_named_port",
        "BaselineAdminNetworkPolicyIngressNamedPort/Should_support_an_'allow-ingress'_policy_for_named_port",
    ],
);

#[test]
fn specs_of_kubernetes_pass() {
    all_pass(Judge::E2e, Network::Default, &any_of(SPECS.into_iter()), &SPECS);
}

/// On three networks that a connection joins, where more can go wrong than on one.
#[test]
fn judges_of_policies_are_content() {
    all_pass(Judge::Netpol, Network::Three, &any_of(NETPOL.into_iter()), &NETPOL);
    all_pass(Judge::Cyclonus, Network::Three, CYCLONUS.0, &CYCLONUS.1);
    all_pass(Judge::Cnp, Network::Three, CNP.0, &CNP.1);
    all_pass(Judge::Anp, Network::Three, ANP.0, &ANP.1);
}

/// Each of these, by the end of its name, must run and pass.
fn all_pass(judge: Judge, network: Network, focus: &str, names: &[&str]) {
    let outcomes = judge.run(shared(), network, Some(focus)).unwrap();
    for one in &outcomes {
        println!("{} {:.1} s: {} {}", one.state, one.seconds, one.name, one.message);
    }
    let passed = |name: &str| outcomes.iter().any(|one| one.passed() && one.name.ends_with(name));
    let missing: Vec<&&str> = names.iter().filter(|name| !passed(name)).collect();
    assert!(missing.is_empty(), "{}: these did not pass: {missing:#?}; see target/conformance", judge.name());
}
