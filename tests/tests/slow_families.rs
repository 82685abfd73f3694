//! Clusters of one address family: islands and the road between them, with IPv4 or IPv6 alone, in both topologies.
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

fn road(subnet: &str, prefix: u8) -> String {
    format!(
        r#"
apiVersion: k8s.ovn.org/v1
kind: ClusterNetworkConnect
metadata: {{name: road}}
spec:
  networkSelectors:
  - networkSelectionType: PrimaryUserDefinedNetworks
    primaryUserDefinedNetworkSelector: {{namespaceSelector: {{}}}}
  connectSubnets: [{{cidr: "{subnet}", networkPrefix: {prefix}}}]
  connectivityEnabled: [PodNetwork]
"#
    )
}

fn island(pod: &str) -> &str {
    pod.split_once('/').unwrap().0
}

/// Waits until exactly those reach each other who should.
fn wait_reach(sandbox: &Sandbox, what: &str, should: impl Fn(&str, &str) -> bool) {
    let pods = PODS.map(|(pod, _)| pod);
    let right = || {
        let matrix = sandbox.matrix_with(&pods, &Probe::ALL)?;
        println!("{matrix}");
        Ok(matrix.wrong(&should).is_empty().then_some(()))
    };
    sandbox.wait_for(what, right).unwrap();
}

fn islands_of(family: Family, layer3: &str, layer2: &str, road: &str) {
    let name = format!("family-{family:?}-{}", std::process::id()).to_lowercase();
    let sandbox = Sandbox::start(&name, 2, &[family]).unwrap();
    sandbox.apply(&manifests(layer3, layer2)).unwrap();
    sandbox.start_pods(&PODS).unwrap();
    wait_reach(&sandbox, "islands to be islands", |from, to| island(from) == island(to));

    let joined = |from: &str, to: &str| (island(from) == "plain") == (island(to) == "plain");
    sandbox.apply(road).unwrap();
    let success = ["wait", "cnc", "road", "--for=jsonpath={.status.status}=Success", "--timeout=120s"];
    sandbox.kubectl(&success).unwrap();
    wait_reach(&sandbox, "a road in transit", joined);
    sandbox.set_flags(|flags| flags.cluster_manager = vec!["--connect-topology=compact".into()]).unwrap();
    let moved = "--for=jsonpath={.metadata.annotations.k8s\\.ovn\\.org/connect-topology}=compact";
    sandbox.kubectl(&["wait", "cnc", "road", moved, "--timeout=120s"]).unwrap();
    wait_reach(&sandbox, "a compact road", joined);
}

#[test]
fn ipv4_alone() {
    islands_of(Family::Ipv4, "10.70.0.0/16", "10.80.0.0/16", &road("192.168.0.0/16", 24));
}

#[test]
fn ipv6_alone() {
    islands_of(Family::Ipv6, "fd70::/48", "fd80::/64", &road("fd01::/64", 96));
}
