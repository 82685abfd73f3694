//! ovn-northd on a zone's databases, and what it and ovn-trace make of them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, Stdio};

use causeway_plan::Dirty;
use causeway_testing::program;
use causeway_zone::Zone;

use super::server::Databases;
use super::{Ip, connected, layer3, pod};

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

    pub fn pid(&self) -> u32 {
        self.0.id()
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

fn traced(databases: &Databases, words: &[&str]) -> String {
    let out = Command::new(program("ovn-trace"))
        .arg(format!("--db={}", databases.south.remote()))
        .arg("--no-leader-only")
        .args(words)
        .output()
        .unwrap();
    assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// Where ovn-trace sees a packet of a new connection end: the ports it leaves by, or nothing.
pub fn ends(databases: &Databases, datapath: &str, packet: &str) -> Vec<String> {
    ends_tracked(databases, datapath, packet, &["new"; 4])
}

/// The same for what each step of the way knows of the connection.
pub fn ends_tracked(databases: &Databases, datapath: &str, packet: &str, states: &[&str]) -> Vec<String> {
    let states: Vec<String> = states.iter().map(|state| format!("--ct={state}")).collect();
    let states = states.iter().map(String::as_str);
    let text = traced(
        databases,
        &["--minimal"].into_iter().chain(states).chain([datapath, packet]).collect::<Vec<_>>(),
    );
    let output = |line: &str| line.trim().strip_prefix("output(\"")?.strip_suffix("\");").map(str::to_owned);
    // The next hop's MAC is asked for by the same way.
    let ports: BTreeSet<String> = text.lines().filter_map(output).collect();
    ports.into_iter().collect()
}

/// The switches and routers that ovn-trace sees a packet of a new connection pass, in their order.
pub fn datapaths(databases: &Databases, datapath: &str, packet: &str) -> Vec<String> {
    let text = traced(databases, &["--detailed", "--ct=new", "--ct=new", "--ct=new", datapath, packet]);
    let begins = |line: &str| {
        let (_, rest) = line.split_once("ingress(dp=\"")?;
        rest.split_once('"').map(|(name, _)| name.to_owned())
    };
    text.lines().filter_map(begins).collect()
}

/// Whether ovn-trace sees a packet of a new connection refused.
pub fn refused(databases: &Databases, datapath: &str, packet: &str) -> bool {
    databases.nbctl(&["--wait=sb", "sync"]);
    let text = traced(databases, &["--detailed", "--ct=new", "--ct=new", "--ct=new", datapath, packet]);
    text.contains("reject {") || text.contains("tcp_reset")
}

/// The connected networks and an island, `red`, with a pod of each here, as northd has them.
pub async fn connected_databases(zone: &Zone) -> (Databases, Northd) {
    let mut databases = Databases::start();
    let northd = Northd::start(&databases);
    databases.nbctl(&["--wait=sb", "sync"]);
    databases.sbctl(&["chassis-add", "c-1", "geneve", "172.18.0.2"]);
    databases.apply(zone, Dirty::everything()).await;
    databases.nbctl(&["--wait=sb", "sync"]);
    (databases, northd)
}

pub fn with_red(ip: Ip, topology: &str) -> Zone {
    let mut zone = connected(ip, topology);
    zone.apply_nad(&layer3("red", 3, ip));
    let own = ip.pick("10.30.0.6/24", "fd30::6/64");
    zone.apply_pod(&pod("ns4/api", "n1", &[("ns4/orange", "primary", &own, None)]));
    let own = ip.pick("10.40.0.7/24", "fd40::7/64");
    zone.apply_pod(&pod("ns5/spy", "n1", &[("ns5/red", "primary", &own, None)]));
    zone
}

/// A packet of either family from a pod to its router.
pub fn across(port: &str, source: &str, router: &str, target: &str) -> String {
    let word = if source.contains(':') { "ip6" } else { "ip4" };
    let source: std::net::IpAddr = source.parse().unwrap();
    let router = causeway_types::Mac::from_ip(router.parse().unwrap());
    let own = match port.starts_with("ns1.") {
        true => "0a:58:0a:14:00:05".to_owned(),
        false => causeway_types::Mac::from_ip(source).to_string(),
    };
    format!(
        "inport == \"{port}\" && eth.src == {own} && eth.dst == {router} && {word}.src == {source} && \
         {word}.dst == {target} && ip.ttl == 64 && tcp.dst == 80"
    )
}

/// A packet ends in these ports, once northd has seen everything.
pub fn assert_ends(databases: &Databases, (datapath, packet): &(&str, String), expected: &[&str]) {
    databases.nbctl(&["--wait=sb", "sync"]);
    assert_eq!(ends(databases, datapath, packet), expected, "{packet}");
}

pub type Packet = (&'static str, String);

pub fn from_blue(target: &str) -> Packet {
    let source = if target.contains(':') { "fd20::5" } else { "10.20.0.5" };
    ("cluster_udn_blue_n1", across("ns1.blue_ns1_web-0", source, "10.20.0.1", target))
}

pub fn from_orange(target: &str) -> Packet {
    ("cluster_udn_orange_n1", across("ns4.orange_ns4_api", "10.30.0.6", "10.30.0.1", target))
}

pub fn from_green(target: &str) -> Packet {
    ("cluster_udn_green_ovn_layer2_switch", across("ns2.green_ns2_vm", "203.203.0.8", "203.203.0.1", target))
}

pub fn from_red(target: &str) -> Packet {
    ("cluster_udn_red_n1", across("ns5.red_ns5_spy", "10.40.0.7", "10.40.0.1", target))
}
