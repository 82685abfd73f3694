//! What ovn-northd makes of the plans: it takes all of them, and gives the keys that were asked for.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;

use causeway_plan::Dirty;
use support::northd::{Northd, complaints, ends, keys, southbound};
use support::server::{Databases, run};
use support::*;

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

/// What logical flows do when they hand a packet to ovn-controller.
const HANDED_OVER: [&str; 18] = [
    "arp {",
    "bfd",
    "dhcp_relay",
    "dns_lookup(",
    "handle_svc_check(",
    "icmp4 {",
    "icmp4_error {",
    "icmp6 {",
    "icmp6_error {",
    "igmp;",
    "nd_na",
    "nd_ns {",
    "put_arp(",
    "put_dhcp",
    "put_nd",
    "reject {",
    "tcp_reset {",
    "trigger_event(",
];

/// Whatever goes to ovn-controller is metered, on switches as on routers, and every user-defined network has meters of its own.
#[test]
fn what_goes_to_the_controller_is_metered() {
    run(async {
        let mut databases = Databases::start();
        let _northd = Northd::start(&databases);
        databases.nbctl(&["--wait=sb", "sync"]);
        databases.sbctl(&["chassis-add", "c-1", "geneve", "172.18.0.2"]);
        let mut zone = cluster(Ip::Dual, Some("shared"));
        serve(&mut zone, Ip::Dual);
        for (name, address) in [("ns0/idle", "10.96.0.99"), ("ns1/idle", "10.96.1.99")] {
            zone.apply_service(&service(name, &[address]));
        }
        databases.apply(&zone, Dirty::everything()).await;
        databases.nbctl(&["--wait=sb", "sync"]);
        let flows = |which: &str| -> Vec<String> {
            let all = databases.sbctl(&["--bare", "--columns=actions", "find", "logical_flow", which]);
            let handed = |line: &&str| HANDED_OVER.iter().any(|action| line.contains(action));
            all.lines().filter(handed).map(str::to_owned).collect()
        };
        assert_eq!(flows("controller_meter=[]"), [""; 0]);
        for (meter, action) in [
            ("reject-rate-limiter", "reject {"),
            ("nd-na-rate-limiter", "nd_na {"),
            ("cluster_udn_blue-notices", "reject {"),
            ("cluster_udn_blue-answers", "nd_na {"),
            ("cluster_udn_green-notices", "igmp;"),
            ("cluster_udn_green-answers", "put_nd_ra_opts("),
        ] {
            let metered = flows(&format!("controller_meter={meter}"));
            assert!(metered.iter().any(|flow| flow.contains(action)), "{meter} {action}: {metered:#?}");
        }
        let meters = databases.sbctl(&["--bare", "--columns=name", "list", "meter"]);
        for meter in ["reject-rate-limiter", "cluster_udn_blue-answers", "cluster_udn_green-notices"] {
            assert!(meters.lines().any(|line| line == meter), "{meter}: {meters}");
        }
    });
}

/// A packet from a port of the node's switch, from one of the pods below.
fn from(port: &str, source: &str, to_mac: &str, target: &str) -> String {
    let mac = causeway_types::Mac::from_ip(source.parse().unwrap());
    format!(
        "inport == \"{port}\" && eth.src == {mac} && eth.dst == {to_mac} && ip4.src == {source} && \
         ip4.dst == {target} && ip.ttl == 64 && tcp.dst == 80"
    )
}

/// udn-ovn-cases E01, E02, E11, E14 and D17 as far as the logical network goes: what is inside a network arrives, by
/// the transit switch or directly; a locked port takes the node's probes and nothing else.
#[test]
fn e11_e14_d17_where_packets_end() {
    run(async {
        let mut databases = Databases::start();
        let _northd = Northd::start(&databases);
        databases.nbctl(&["--wait=sb", "sync"]);
        databases.sbctl(&["chassis-add", "c-1", "geneve", "172.18.0.2"]);
        let zone = cluster(Ip::V4, None);
        databases.apply(&zone, Dirty::everything()).await;
        databases.nbctl(&["--wait=sb", "sync"]);
        let (plain, locked, node) = ("0a:58:0a:f4:00:03", "0a:58:0a:f4:00:04", "0a:58:0a:f4:00:02");
        let router = "0a:58:0a:14:00:01";
        let far = "0a:58:cb:cb:00:09";
        let cases = [
            ("n1", from("k8s-n1", "10.244.0.2", plain, "10.244.0.3"), vec!["ns0_plain"]),
            ("n1", from("k8s-n1", "10.244.0.2", locked, "10.244.0.4"), vec!["ns1_web-0"]),
            ("n1", from("ns0_plain", "10.244.0.3", locked, "10.244.0.4"), vec![]),
            ("n1", from("ns1_web-0", "10.244.0.4", plain, "10.244.0.3"), vec![]),
            ("n1", from("ns1_web-0", "10.244.0.4", node, "10.244.0.2"), vec![]),
            ("n1", from("ns0_plain", "10.244.0.3", "0a:58:0a:f4:00:01", "10.244.1.7"), vec!["tstor-n2"]),
            (
                "cluster_udn_blue_n1",
                from("ns1.blue_ns1_web-0", "10.20.0.5", router, "10.20.1.7"),
                vec!["cluster_udn_blue_tstor-n2"],
            ),
            (
                "cluster_udn_blue_n1",
                from("ns1.blue_ns1_web-0", "10.20.0.5", router, "100.65.0.3"),
                vec!["cluster_udn_blue_tstor-n2"],
            ),
            ("cluster_udn_blue_n1", from("ns1.blue_ns1_web-0", "10.20.0.6", router, "10.20.1.7"), vec![]),
            (
                "cluster_udn_green_ovn_layer2_switch",
                from("ns2.green_ns2_vm", "203.203.0.8", far, "203.203.0.9"),
                vec!["ns2.green_ns2_far"],
            ),
            (
                "cluster_udn_green_ovn_layer2_switch",
                from("ns2.green_ns2_vm", "203.203.0.8", "0a:58:cb:cb:00:01", "100.65.0.3"),
                vec!["trtor-GR_cluster_udn_green_n2"],
            ),
        ];
        for (datapath, packet, expected) in cases {
            assert_eq!(ends(&databases, datapath, &packet), expected, "{packet}");
        }
    });
}
