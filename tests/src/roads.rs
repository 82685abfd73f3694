//! Roads between islands: how they are asked for, and who reaches whom by them.

use causeway_sandbox::harness::{Probe, Sandbox};

/// A ClusterNetworkConnect of what has a label, networks of the cluster and networks of namespaces, with links in
/// `192.<subnet>.0.0/16` and `fd01:<subnet>::/64`.
pub fn road(name: &str, label: &str, subnet: u8, connectivity: &str) -> String {
    format!(
        "apiVersion: k8s.ovn.org/v1
kind: ClusterNetworkConnect
metadata: {{name: {name}}}
spec:
  networkSelectors:
  - networkSelectionType: ClusterUserDefinedNetworks
    clusterUserDefinedNetworkSelector: {{networkSelector: {{matchLabels: {{{label}: \"yes\"}}}}}}
  - networkSelectionType: PrimaryUserDefinedNetworks
    primaryUserDefinedNetworkSelector: {{namespaceSelector: {{matchLabels: {{{label}: \"yes\"}}}}}}
  connectSubnets:
  - {{cidr: 192.{subnet}.0.0/16, networkPrefix: 24}}
  - {{cidr: \"fd01:{subnet}::/64\", networkPrefix: 96}}
  connectivityEnabled: [{connectivity}]
"
    )
}

/// The network of a pod is called as its namespace.
pub fn network(pod: &str) -> &str {
    pod.split('/').next().unwrap_or(pod)
}

/// Whether two networks are one, or have a road between them.
pub fn joined(roads: &[(&str, &str)], one: &str, other: &str) -> bool {
    one == other || roads.contains(&(one, other)) || roads.contains(&(other, one))
}

/// Starts pods on their nodes, each with its name as the label `pod`.
///
/// # Panics
/// When they do not start.
#[allow(clippy::unwrap_used)]
pub fn start_labelled(sandbox: &Sandbox, pods: &[(&str, &str)]) {
    sandbox.start_pods(pods).unwrap();
    for (pod, _) in pods {
        let (namespace, name) = pod.split_once('/').unwrap();
        let label = format!("pod={name}");
        sandbox.kubectl(&["label", "pod", "--overwrite", "--namespace", namespace, name, &label]).unwrap();
    }
}

/// Waits until pods of exactly these networks reach each other.
///
/// # Panics
/// When they never do.
#[allow(clippy::unwrap_used)]
pub fn wait_roads(sandbox: &Sandbox, pods: &[&str], probes: &[Probe], roads: &[(&str, &str)]) {
    let as_wanted = || {
        let matrix = sandbox.matrix_with(pods, probes)?;
        let wrong = matrix.wrong(|from, to| joined(roads, network(from), network(to)));
        nothing_wrong(&wrong, &matrix.to_string())
    };
    sandbox.wait_for(&format!("roads {roads:?} and no others"), as_wanted).unwrap();
}

/// Done if nothing is wrong; otherwise what is, for whoever waits in vain.
///
/// # Errors
/// What is wrong.
pub fn nothing_wrong(wrong: &[String], state: &str) -> causeway_sandbox::Result<Option<()>> {
    match wrong {
        [] => Ok(Some(())),
        _ => Err(causeway_sandbox::Error::Request(format!("{}\n{state}", wrong.join("\n")))),
    }
}
