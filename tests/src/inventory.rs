//! What is there, by listing: in Kubernetes, in OVN, in Open vSwitch and in the kernel.

use causeway_sandbox::harness::Sandbox;
use std::collections::BTreeSet;

/// Tables of the northbound database with the column that tells a row.
const NORTHBOUND: [(&str, &str); 16] = [
    ("Logical_Switch", "name"),
    ("Logical_Switch_Port", "name"),
    ("Logical_Router", "name"),
    ("Logical_Router_Port", "name"),
    ("Logical_Router_Static_Route", "external_ids"),
    ("Logical_Router_Policy", "external_ids"),
    ("NAT", "external_ids"),
    ("ACL", "external_ids"),
    ("Port_Group", "external_ids"),
    ("Address_Set", "external_ids"),
    ("Load_Balancer", "name"),
    ("Load_Balancer_Group", "name"),
    ("Gateway_Chassis", "name"),
    ("Static_MAC_Binding", "logical_port"),
    ("Copp", "name"),
    ("Meter", "name"),
];

/// How the logical ports of pods of the cluster itself begin.
const SYSTEM: &str = "kube-system_";

/// Everything that a network could leave behind, one line each. Pods of the cluster itself are left out: they move when a node
/// was silent, whatever a test is about.
///
/// # Panics
/// When something cannot be listed.
pub fn inventory(sandbox: &Sandbox, nodes: &[&str]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for kind in ["network-attachment-definitions", "userdefinednetworks", "clusteruserdefinednetworks"] {
        let found = listed(sandbox.kubectl(&["get", kind, "-A", "-o", "name"]));
        all.extend(found.map(|line| format!("kubernetes {line}")));
    }
    for node in nodes {
        all.extend(zone(sandbox, node).into_iter().filter(|row| !row.contains(SYSTEM)));
        let system = system_ports(sandbox, node);
        let ports = listed(sandbox.exec(node, &["ovs-vsctl", "list-ports", "br-int"]));
        all.extend(ports.filter(|port| !system.contains(port)).map(|port| format!("{node} port {port}")));
        let links = listed(sandbox.exec(node, &["ls", "/sys/class/net"]));
        all.extend(links.filter(|link| !system.contains(link)).map(|link| format!("{node} link {link}")));
        for family in ["-4", "-6"] {
            let routes =
                listed(sandbox.exec(node, &["ip", family, "route", "show", "table", "all", "proto", "85"]));
            all.extend(routes.map(|route| format!("{node} route {route}")));
        }
    }
    all
}

/// Ports of pods of the cluster itself, whose links have the same names.
fn system_ports(sandbox: &Sandbox, node: &str) -> BTreeSet<String> {
    let columns = "--columns=name,external_ids";
    let rows =
        listed(sandbox.exec(
            node,
            &["ovs-vsctl", "--bare", "--format=csv", "--no-headings", columns, "list", "Interface"],
        ));
    let system = rows.filter(|row| row.contains(&format!("iface-id={SYSTEM}")));
    system.filter_map(|row| Some(row.split(',').next()?.trim_matches('"').to_owned())).collect()
}

/// What a node's way out is made of: flows of its bridge, rules and elements of its firewall, neighbours, addresses, settings.
///
/// # Panics
/// When something cannot be listed.
pub fn way_out(sandbox: &Sandbox, node: &str) -> BTreeSet<String> {
    let lists: [(&str, &[&str]); 4] = [
        ("flow", &["ovs-ofctl", "-OOpenFlow15", "--no-stats", "--no-names", "dump-flows", "br-ex"]),
        ("firewall", &["nft", "list", "ruleset"]),
        ("neighbour", &["ip", "neighbour", "show", "nud", "permanent"]),
        ("address", &["ip", "-brief", "address"]),
    ];
    let mut all = BTreeSet::new();
    for (what, words) in lists {
        all.extend(listed(sandbox.exec(node, words)).map(|line| format!("{node} {what} {}", line.trim())));
    }
    for device in ["br-ex", "ovn-k8s-mp0"] {
        let file = format!("/proc/sys/net/ipv4/conf/{device}/route_localnet");
        all.extend(listed(sandbox.exec(node, &["cat", &file])).map(|value| format!("{node} {file} {value}")));
    }
    all
}

/// The rows of a node's northbound database and the chassis that its zone knows.
///
/// # Panics
/// When they cannot be listed.
pub fn zone(sandbox: &Sandbox, node: &str) -> BTreeSet<String> {
    let rows = |program: &str, table: &str, column: &str| -> Vec<String> {
        let columns = format!("--columns={column}");
        let words = [program, "--no-leader-only", "--bare", "--no-headings", &columns, "list", table];
        listed(sandbox.exec(node, &words)).map(|row| format!("{node} {table} {row}")).collect()
    };
    let northbound = NORTHBOUND.iter().flat_map(|(table, column)| rows("ovn-nbctl", table, column));
    let chassis = rows("ovn-sbctl", "Chassis", "name");
    northbound.chain(chassis).collect()
}

fn listed(text: causeway_sandbox::Result<String>) -> impl Iterator<Item = String> {
    let text = text.unwrap_or_else(|error| panic!("{error}"));
    let lines: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    lines.into_iter()
}

/// How many transactions a node's northbound database has in its log, without those that only count: the role asks now and
/// then whether northd and ovn-controller answer.
///
/// # Panics
/// When the log cannot be read.
pub fn transactions(sandbox: &Sandbox, node: &str) -> usize {
    let file = format!("/run/causeway/nodes/{node}/ovn/ovnnb_db.db");
    let log = sandbox
        .exec(node, &["ovsdb-tool", "-m", "show-log", &file])
        .unwrap_or_else(|error| panic!("{error}"));
    let tables =
        |record: &&str| record.lines().any(|line| is_row(line) && !line.contains("table NB_Global "));
    log.split("\nrecord ").filter(tables).count()
}

fn is_row(line: &str) -> bool {
    line.trim_start().starts_with("table ")
}
