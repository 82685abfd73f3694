//! What ovn-northd makes of the plans: it takes all of them, and gives the keys that were asked for.

mod support;

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use causeway_model::zone::Dirty;
use causeway_testing::program;
use support::server::{Databases, run};
use support::*;

/// A running ovn-northd; it ends with the value.
struct Northd(Child);

impl Northd {
    fn start(databases: &Databases) -> Self {
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
fn complaints(databases: &Databases) -> Vec<String> {
    let log = std::fs::read_to_string(databases.north.folder().join("northd.log")).unwrap();
    let routine = ["|INFO|", "Unreasonably long", "context switches", "faults:", "disk:"];
    let known =
        ["trtos-cluster_udn_green_ovn_layer2_switch requests same tunnel key 1", "as SNAT for load balancer"];
    let routine: Vec<&str> = routine.into_iter().chain(known).collect();
    log.lines().filter(|line| !routine.iter().any(|word| line.contains(word))).map(str::to_owned).collect()
}

/// A table of the southbound database as texts.
fn southbound(databases: &Databases, table: &str, columns: &str) -> Vec<Vec<String>> {
    let columns = format!("--columns={columns}");
    let text = databases.sbctl(&["--format=csv", "--data=bare", "--no-headings", &columns, "list", table]);
    text.lines().map(|line| line.split(',').map(|cell| cell.trim_matches('"').to_owned()).collect()).collect()
}

fn keys(rows: Vec<Vec<String>>) -> BTreeMap<String, String> {
    rows.into_iter().map(|row| (row[0].clone(), row[1].clone())).collect()
}

/// udn-ovn-cases A11, C05, D01, D02, D05, D13 as the southbound database has them.
#[test]
fn a11_c05_d01_d02_d05_d13_northd_takes_everything() {
    run(async {
        for (ip, gateway) in [(Ip::Dual, Some("shared")), (Ip::Dual, None), (Ip::V6, Some("local"))] {
            let mut databases = Databases::start();
            let northd = Northd::start(&databases);
            // As ovn-controller on this node would.
            databases.sbctl(&["chassis-add", "c-1", "geneve", "172.18.0.2"]);
            let zone = cluster(ip, gateway);
            databases.nbctl(&["--wait=sb", "sync"]);
            databases.apply(&zone, Dirty::everything()).await;
            databases.nbctl(&["--wait=sb", "sync"]);
            let writes = databases.writes();
            databases.apply(&zone, Dirty::everything()).await;
            databases.assert_as_planned(&zone);
            assert_eq!(databases.writes(), writes, "northd writes nothing that is ours");
            assert_eq!(complaints(&databases), Vec::<String>::new());

            let mut datapaths = BTreeMap::new();
            for row in southbound(&databases, "datapath_binding", "external_ids,tunnel_key") {
                let name = row[0].split(' ').find_map(|pair| pair.strip_prefix("name=")).unwrap().to_owned();
                datapaths.insert(name, row[1].clone());
            }
            let expected = [
                ("transit_switch", "16711683"),
                ("cluster_udn_blue_transit_switch", "16711684"),
                ("cluster_udn_green_ovn_layer2_switch", "16711688"),
                ("cluster_udn_green_transit_router", "16715780"),
            ];
            for (name, key) in expected {
                assert_eq!(datapaths[name], key, "{name}");
            }
            // Keys stay when northd starts again.
            drop(northd);
            let _northd = Northd::start(&databases);
            databases.nbctl(&["--wait=sb", "sync"]);
            let ports = keys(southbound(&databases, "port_binding", "logical_port,tunnel_key"));
            let expected = [
                ("tstor-n1", "2"),
                ("tstor-n2", "3"),
                ("cluster_udn_blue_tstor-n2", "3"),
                ("trtos-cluster_udn_green_ovn_layer2_switch", "1"),
                ("trtor-GR_cluster_udn_green_n1", "12"),
                ("trtor-GR_cluster_udn_green_n2", "13"),
                ("ns2.green_ns2_vm", "8"),
                ("ns2.green_ns2_far", "9"),
            ];
            for (name, key) in expected {
                assert_eq!(ports[name], key, "{name}");
            }
            let bound =
                databases.sbctl(&["--bare", "--columns=logical_port", "find", "port_binding", "chassis!=[]"]);
            let mut bound: Vec<&str> = bound.split_whitespace().collect();
            bound.sort_unstable();
            let remote = [
                "cluster_udn_blue_tstor-n2",
                "ns2.green_ns2_far",
                "trtor-GR_cluster_udn_green_n2",
                "tstor-n2",
            ];
            assert_eq!(bound, remote, "what is elsewhere is bound to its chassis");
        }
    });
}
