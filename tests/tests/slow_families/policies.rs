//! Policies where there is one family alone: by labels across the road, and by block.

use causeway_sandbox::address::Family;
use causeway_sandbox::harness::Sandbox;
use serde_json::{Value, json};

use super::{island, wait_reach};

/// Closes all islands but for those whom rules let in, and opens them again.
pub(crate) fn hold(sandbox: &Sandbox, family: Family, joined: impl Fn(&str, &str) -> bool) {
    let everywhere = if family == Family::Ipv4 { "0.0.0.0/0" } else { "::/0" };
    let from_hill = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "hill"}}});
    let policy = |namespace: &str, from: Option<Value>| {
        let rules: Vec<Value> = from.into_iter().map(|peer| json!({"from": [peer]})).collect();
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"namespace": namespace, "name": "some"},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": rules},
        })
        .to_string()
    };
    let all = [
        policy("hill", None),
        policy("lake", Some(from_hill)),
        policy("plain", Some(json!({"ipBlock": {"cidr": everywhere}}))),
    ];
    sandbox.apply(&all.join("\n---\n")).unwrap();
    wait_reach(sandbox, "whom policies let in", |from, to| {
        let let_in = match island(to) {
            "hill" => false,
            "lake" => island(from) == "hill",
            _ => true,
        };
        joined(from, to) && let_in
    });
    sandbox.kubectl(&["delete", "networkpolicies", "--all", "--all-namespaces", "--now"]).unwrap();
    wait_reach(sandbox, "no policies", joined);
}
