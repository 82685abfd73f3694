//! ovn-northd on a zone's databases, and what it and ovn-trace make of them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, Stdio};

use causeway_testing::program;

use super::server::Databases;

/// A running ovn-northd; it ends with the value.
pub struct Northd(Child);

impl Northd {
    pub fn start(databases: &Databases) -> Self {
        let folder = databases.north.folder();
        let child = Command::new(program("ovn-northd"))
            .arg("-vconsole:off")
            .arg("-vfile:info")
            .arg(format!("--ovnnb-db={}", databases.north.remote()))
            .arg(format!("--ovnsb-db={}", databases.south.remote()))
            .arg(format!("--unixctl={}", folder.join("northd.ctl").display()))
            .arg(format!("--log-file={}", folder.join("northd.log").display()))
            .env("OVN_RUNDIR", folder)
            .env("OVS_RUNDIR", folder)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Northd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lines of the log that are not routine. Two warnings are known: a router port that is bound to a chassis has a twin in
/// OVN which asks for the same key, and gets another; and of the outer port's addresses load balancers use the first.
pub fn complaints(databases: &Databases) -> Vec<String> {
    let log = std::fs::read_to_string(databases.north.folder().join("northd.log")).unwrap();
    let routine = ["|INFO|", "Unreasonably long", "context switches", "faults:", "disk:"];
    let known =
        ["trtos-cluster_udn_green_ovn_layer2_switch requests same tunnel key 1", "as SNAT for load balancer"];
    let routine: Vec<&str> = routine.into_iter().chain(known).collect();
    log.lines().filter(|line| !routine.iter().any(|word| line.contains(word))).map(str::to_owned).collect()
}

/// A table of the southbound database as texts.
pub fn southbound(databases: &Databases, table: &str, columns: &str) -> Vec<Vec<String>> {
    let columns = format!("--columns={columns}");
    let text = databases.sbctl(&["--format=csv", "--data=bare", "--no-headings", &columns, "list", table]);
    text.lines().map(|line| line.split(',').map(|cell| cell.trim_matches('"').to_owned()).collect()).collect()
}

pub fn keys(rows: Vec<Vec<String>>) -> BTreeMap<String, String> {
    rows.into_iter().map(|row| (row[0].clone(), row[1].clone())).collect()
}

/// Where ovn-trace sees a packet end: the ports it leaves by, or nothing.
pub fn ends(databases: &Databases, datapath: &str, packet: &str) -> Vec<String> {
    let out = Command::new(program("ovn-trace"))
        .arg(format!("--db={}", databases.south.remote()))
        .args(["--no-leader-only", "--minimal", "--ct=new", "--ct=new", datapath, packet])
        .output()
        .unwrap();
    assert!(out.status.success(), "{packet}: {}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let output = |line: &str| line.trim().strip_prefix("output(\"")?.strip_suffix("\");").map(str::to_owned);
    // The next hop's MAC is asked for by the same way.
    let ports: BTreeSet<String> = text.lines().filter_map(output).collect();
    ports.into_iter().collect()
}
