//! What `kubectl get` shows.

use serde_json::{Value, json};

fn column(name: &str, kind: &str, path: &str, description: &str) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path, "description": description})
}

/// Shown by `-o wide` only.
fn wide(mut column: Value) -> Value {
    column["priority"] = 1.into();
    column
}

fn age() -> Value {
    column("Age", "date", ".metadata.creationTimestamp", "Time since creation.")
}

/// One path for each column: the status says what is in effect, whichever form the spec has.
pub(super) fn network(cluster: bool) -> Vec<Value> {
    let ready = r#".status.conditions[?(@.type=="NetworkReady")]"#;
    let allocated = r#".status.conditions[?(@.type=="NetworkAllocationSucceeded")]"#;
    let mut columns = vec![
        column("Topology", "string", ".status.topology", "The topology in effect."),
        column("Role", "string", ".status.role", "The role in effect."),
        column("Subnets", "string", ".status.subnets", "The pod subnets in effect."),
        column("Addresses", "string", ".status.addresses", "Pods that have an address, of those that could."),
        column("ID", "integer", ".status.networkID", "The number of the network."),
        column("Ready", "string", &format!("{ready}.status"), "Whether the network is ready."),
        column(
            "Allocated",
            "string",
            &format!("{allocated}.status"),
            "Whether every node and every pod got its addresses.",
        ),
        wide(column("Reason", "string", &format!("{ready}.reason"), "Why the network is ready or not.")),
        wide(column(
            "Allocation",
            "string",
            &format!("{allocated}.reason"),
            "Why addresses were got or not.",
        )),
        wide(column("VRF", "string", ".status.vrfName", "The VRF device on each node.")),
    ];
    if cluster {
        let namespaces = ".status.activeNamespaces";
        columns.push(wide(column("Namespaces", "string", namespaces, "Where the network is available.")));
    }
    columns.push(age());
    columns
}

pub(super) fn connect() -> Vec<Value> {
    let accepted = r#".status.conditions[?(@.type=="Accepted")]"#;
    let ready = r#".status.conditions[?(@.type=="Ready")]"#;
    vec![
        age(),
        column("Status", "string", ".status.status", "Success, Failure or Progressing."),
        column(
            "Networks",
            "string",
            ".status.connectedNetworks",
            "How many of the selected networks are connected.",
        ),
        column(
            "Ready",
            "string",
            &format!("{ready}.status"),
            "Whether all of them are connected on every node.",
        ),
        column("Accepted", "string", &format!("{accepted}.status"), "Whether the networks can be connected."),
        wide(column("Reason", "string", &format!("{accepted}.reason"), "Why they can be connected or not.")),
    ]
}

/// Columns for these fields of the spec, then what became of the policy.
pub(super) fn policy(fields: &[&str]) -> Vec<Value> {
    let field = |name: &&str| {
        let path = format!(".spec.{}", name.to_lowercase());
        column(name, "string", &path, "As the spec says.")
    };
    let status = |name: &str, description: &str| {
        let path = format!(r#".status.conditions[?(@.type=="{name}")].status"#);
        column(name, "string", &path, description)
    };
    let mut columns: Vec<Value> = fields.iter().map(field).collect();
    columns.push(status("Accepted", "Whether it can be carried out as it is written."));
    columns.push(wide(status("Ready", "Whether every node does so.")));
    columns.push(age());
    columns
}

pub(super) fn vtep() -> Vec<Value> {
    let accepted = r#".status.conditions[?(@.type=="Accepted")]"#;
    vec![
        column("CIDRs", "string", ".spec.cidrs", "Ranges that have the nodes' addresses."),
        column("Mode", "string", ".spec.mode", "Who gives nodes their addresses."),
        column(
            "Accepted",
            "string",
            &format!("{accepted}.status"),
            "Whether networks can use it on every node.",
        ),
        wide(column("Reason", "string", &format!("{accepted}.reason"), "Why they can or not.")),
        age(),
    ]
}

pub(super) fn zone_report() -> Vec<Value> {
    vec![
        column("Epoch", "integer", ".spec.epoch", "Up to which freed numbers are gone from the zone."),
        column("Failures", "integer", ".spec.failureCount", "How many things the zone could not do."),
        age(),
    ]
}
