//! Clusters of one address family: the same islands, with IPv4 or IPv6 alone.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use causeway_sandbox::address::Family;
use causeway_sandbox::harness::{Probe, Sandbox};

/// Pods with their nodes; the namespace is the island.
const PODS: [(&str, &str); 6] = [
    ("hill/a", "n1"),
    ("hill/b", "n2"),
    ("lake/c", "n1"),
    ("lake/d", "n2"),
    ("plain/e", "n1"),
    ("plain/f", "n2"),
];

fn manifests(layer3: &str, layer2: &str) -> String {
    format!(
        r#"
{{apiVersion: v1, kind: Namespace, metadata: {{name: hill, labels: {{k8s.ovn.org/primary-user-defined-network: ""}}}}}}
---
{{apiVersion: v1, kind: Namespace, metadata: {{name: lake, labels: {{k8s.ovn.org/primary-user-defined-network: ""}}}}}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {{name: net, namespace: hill}}
spec: {{topology: Layer3, layer3: {{role: Primary, subnets: [{{cidr: "{layer3}"}}]}}}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {{name: net, namespace: lake}}
spec: {{topology: Layer2, layer2: {{role: Primary, subnets: ["{layer2}"]}}}}
"#
    )
}

fn island(pod: &str) -> &str {
    pod.split_once('/').unwrap().0
}

fn islands_of(family: Family, layer3: &str, layer2: &str) {
    let name = format!("family-{family:?}-{}", std::process::id()).to_lowercase();
    let sandbox = Sandbox::start(&name, 2, &[family]).unwrap();
    sandbox.apply(&manifests(layer3, layer2)).unwrap();
    sandbox.start_pods(&PODS).unwrap();
    let pods = PODS.map(|(pod, _)| pod);
    let right = || {
        let matrix = sandbox.matrix_with(&pods, &Probe::ALL)?;
        println!("{matrix}");
        Ok(matrix.wrong(|from, to| island(from) == island(to)).is_empty().then_some(()))
    };
    sandbox.wait_for("islands to be islands", right).unwrap();
}

#[test]
fn ipv4_alone() {
    islands_of(Family::Ipv4, "10.70.0.0/16", "10.80.0.0/16");
}

#[test]
fn ipv6_alone() {
    islands_of(Family::Ipv6, "fd70::/48", "fd80::/64");
}
