//! What ovn-northd makes of connections: it takes all of them, gives the keys that were asked for, and packets end where
//! they should.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_plan::Dirty;
use causeway_plan::own_ports;
use causeway_record::Connect;
use causeway_zone::{Zone, ZoneConfig};
use support::northd::*;
use support::server::{Databases, run};
use support::*;

const TOPOLOGIES: [&str; 3] = ["transit", "both", "compact"];

/// cnc-cases K01, K02, K10, L31, L32, R10: northd takes every layout, and gives the keys that were asked for.
#[test]
fn k01_k02_k10_r10_northd_takes_connections() {
    run(async {
        for (topology, ip) in
            [("transit", Ip::Dual), ("both", Ip::Dual), ("compact", Ip::Dual), ("both", Ip::V6)]
        {
            let zone = with_red(ip, topology);
            let (mut databases, northd) = connected_databases(&zone).await;
            let writes = databases.writes();
            databases.apply(&zone, Dirty::everything()).await;
            databases.assert_as_planned(&zone);
            assert_eq!(databases.writes(), writes, "northd writes nothing that is ours");
            assert_eq!(complaints(&databases), Vec::<String>::new(), "{topology}");

            drop(northd);
            let _northd = Northd::start(&databases);
            databases.nbctl(&["--wait=sb", "sync"]);
            let ports = keys(southbound(&databases, "port_binding", "logical_port,tunnel_key"));
            let own = own_ports(&zone, &connect_name("road"));
            assert_eq!(own.len(), if topology == "both" { 5 } else { 3 });
            for port in &own {
                let asked = port.key.map(|key| key.get().to_string());
                assert!(ports.contains_key(&port.name), "{}", port.name);
                assert!(asked.is_none_or(|key| ports[&port.name] == key), "{port:?}");
            }
            if topology == "compact" {
                continue;
            }
            let expected = [
                ("road-to-cluster_udn_blue-n1", "3"),
                ("road-to-cluster_udn_blue-n2", "4"),
                ("road-to-cluster_udn_orange-n2", "132"),
                ("road-to-cluster_udn_green", "257"),
            ];
            for (name, key) in expected {
                assert_eq!(ports[name], key, "{topology} {name}");
            }
            let row = ["--bare", "--columns=type,chassis", "find", "port_binding"];
            let remote = databases.sbctl(&[&row[..], &["logical_port=road-to-cluster_udn_blue-n2"]].concat());
            assert!(remote.starts_with("remote") && remote.lines().count() > 1, "{remote}");
        }
    });
}

/// What crosses from network to network, and where it ends.
fn crossing(topology: &str) -> Vec<(Packet, &'static str)> {
    let far =
        if topology == "transit" { "road-to-cluster_udn_orange-n2" } else { "cluster_udn_orange_tstor-n2" };
    vec![
        (from_blue("10.30.0.6"), "ns4.orange_ns4_api"),
        (from_blue("fd30::6"), "ns4.orange_ns4_api"),
        (from_blue("203.203.0.8"), "ns2.green_ns2_vm"),
        (from_blue("203.203.0.9"), "ns2.green_ns2_far"),
        (from_blue("10.30.1.9"), far),
        (from_blue("fd30:0:0:1::9"), far),
        (from_green("10.20.0.5"), "ns1.blue_ns1_web-0"),
        (from_green("10.30.1.9"), far),
        (from_orange("203.203.0.9"), "ns2.green_ns2_far"),
    ]
}

/// cnc-cases X01, X05 as far as the logical network goes: connected networks reach each other, here and on the other
/// node; the island neither reaches nor is reached; without the connection everybody is alone.
#[test]
fn x01_x05_where_packets_between_networks_end() {
    run(async {
        for topology in TOPOLOGIES {
            let mut zone = with_red(Ip::Dual, topology);
            let (mut databases, _northd) = connected_databases(&zone).await;
            for (packet, expected) in crossing(topology) {
                assert_ends(&databases, &packet, &[expected]);
            }
            let out = [
                from_blue("10.40.0.7"),
                from_blue("fd40::7"),
                from_red("10.20.0.5"),
                from_red("203.203.0.8"),
            ];
            for packet in &out {
                assert_ends(&databases, packet, &[]);
            }
            let inside = [
                (from_blue("10.20.1.9"), "cluster_udn_blue_tstor-n2"),
                (from_red("10.40.1.9"), "cluster_udn_red_tstor-n2"),
            ];
            for (packet, expected) in &inside {
                assert_ends(&databases, packet, &[expected]);
            }
            let dirty = zone.delete_connect(&connect_name("road")).on(&zone);
            databases.apply(&zone, dirty).await;
            databases.assert_as_planned(&zone);
            for (packet, _) in crossing(topology) {
                assert_ends(&databases, &packet, &[]);
            }
            assert_ends(&databases, &inside[0].0, &[inside[0].1]);
        }
    });
}

/// The specification's picture of the way in transit: the pod's switch, its network's router, the connect router, and there the link
/// of the other node. In compact the other network's own router and transit switch are between. From a layer2 network it is the same
/// way.
#[test]
fn the_way_of_a_packet_hop_by_hop() {
    run(async {
        let blue = ["cluster_udn_blue_n1", "cluster_udn_blue_ovn_cluster_router"];
        let green = ["cluster_udn_green_ovn_layer2_switch", "cluster_udn_green_transit_router"];
        let orange = ["cluster_udn_orange_ovn_cluster_router", "cluster_udn_orange_transit_switch"];
        let lime = ["cluster_udn_lime_ovn_layer2_switch", "cluster_udn_lime_transit_router"];
        let back = |way: [&'static str; 2]| [way[1], way[0]];
        for (topology, to_orange) in [("transit", &[][..]), ("compact", &orange)] {
            let mut zone = with_red(Ip::Dual, topology);
            zone.apply_nad(&layer2("lime", 6, Ip::Dual));
            let own = Ip::Dual.pick("203.6.0.9/16", "2010:6::9/60");
            zone.apply_pod(&pod("ns6/far", "n2", &[("ns6/lime", "primary", &own, Some(9))]));
            let all = [&COLOURS[..], &["layer2_6"]].concat();
            zone.apply_connect(&connect("road", topology, Ip::Dual, &all));
            let (databases, _northd) = connected_databases(&zone).await;
            let ways = [
                (blue, from_blue("10.30.1.9"), to_orange),
                (blue, from_blue("fd30:0:0:1::9"), to_orange),
                (blue, from_blue("203.203.0.9"), &back(green)),
                (green, from_green("10.30.1.9"), to_orange),
                (green, from_green("10.20.0.5"), &back(blue)),
                (green, from_green("203.6.0.9"), &back(lime)),
            ];
            for (begins, (datapath, packet), ends) in ways {
                let way = [&begins, &["connect-router-road"][..], ends].concat();
                assert_eq!(datapaths(&databases, datapath, &packet), way, "{topology}, {packet}");
            }
        }
    });
}

/// Who takes a road away first still lets in what others send by it, and sends nothing himself; then the links go as well.
#[test]
fn links_linger_and_lead_nobody() {
    run(async {
        let ip = Ip::Dual;
        let mut zone = Zone::new(ZoneConfig { linger_ms: 5_000, ..config(ip) });
        [node("n1", 2), node("n2", 3)].iter().for_each(|node| drop(zone.apply_node(node)));
        [blue(ip), layer3("orange", 2, ip), green(ip)].iter().for_each(|nad| drop(zone.apply_nad(nad)));
        let api = ip.pick("10.30.0.6/24", "fd30::6/64");
        let api = pod("ns4/api", "n1", &[("ns4/orange", "primary", &api, None)]);
        [web(ip), vm("vm", "n1", 8, ip), vm("far", "n2", 9, ip), api]
            .iter()
            .for_each(|pod| drop(zone.apply_pod(pod)));
        zone.apply_connect(&connect("road", "transit", ip, &COLOURS));
        let (mut databases, _northd) = connected_databases(&zone).await;
        let links = |databases: &Databases| {
            let ports = databases.nbctl(&["lrp-list", "connect-router-road"]);
            ports.lines().filter(|line| line.contains("-n1)") || line.contains("-n2)")).count()
        };
        assert_eq!(links(&databases), 4);
        let dirty = zone.delete_connect(&connect_name("road")).on(&zone);
        databases.apply(&zone, dirty).await;
        assert_eq!(links(&databases), 4);
        for (packet, _) in crossing("transit") {
            assert_ends(&databases, &packet, &[]);
        }
        // What another zone sends is still let in by this zone's own link.
        let from_n2 = "inport == \"road-to-cluster_udn_orange-n2\" && eth.dst == 0a:58:c0:a8:01:06 && eth.src == 0a:58:c0:a8:01:07 \
                       && ip4.src == 10.30.1.9 && ip4.dst == 10.20.0.5 && ip.ttl == 62";
        assert_ends(&databases, &("connect-router-road", from_n2.to_owned()), &["ns1.blue_ns1_web-0"]);
        zone.tick(0);
        let dirty = zone.tick(5_000).on(&zone);
        databases.apply(&zone, dirty).await;
        databases.assert_as_planned(&zone);
        assert!(!databases.nbctl(&["lr-list"]).contains("connect-router"));
        assert_eq!(complaints(&databases), Vec::<String>::new());
    });
}

/// A stub is enough to reach the pods of its network on other nodes, of both topologies and families; back it leads nobody.
#[test]
fn stubs_lead_to_other_nodes() {
    run(async {
        let zone = destinations(Ip::Dual, "compact");
        let (databases, _northd) = connected_databases(&zone).await;
        let ways = [
            ("10.30.1.9", "cluster_udn_orange_tstor-n2"),
            ("fd30:0:0:1::9", "cluster_udn_orange_tstor-n2"),
            ("203.203.0.9", "ns2.green_ns2_there"),
            ("2010:100:200::9", "ns2.green_ns2_there"),
        ];
        for (target, end) in ways {
            assert_ends(&databases, &from_blue(target), &[end]);
        }
        // The node's own part of the network is not here, and nobody else has it.
        assert_ends(&databases, &from_blue("10.30.0.6"), &[]);
        assert_eq!(complaints(&databases), Vec::<String>::new());
    });
}

fn another(topology: &str, owners: &[&str]) -> Connect {
    second(connect("second", topology, Ip::Dual, owners))
}

/// cnc-cases S13, X07: two connections of one pair are two roads, and one stays when the other goes; two connections with
/// one network in common connect nobody else.
#[test]
fn s13_x07_two_connections() {
    run(async {
        for topology in TOPOLOGIES {
            let mut zone = with_red(Ip::Dual, topology);
            zone.apply_connect(&another(topology, &["layer3_1", "layer3_2"]));
            let (mut databases, _northd) = connected_databases(&zone).await;
            assert_ends(&databases, &from_blue("10.30.0.6"), &["ns4.orange_ns4_api"]);
            assert_ends(&databases, &from_blue("203.203.0.8"), &["ns2.green_ns2_vm"]);
            let dirty = zone.delete_connect(&connect_name("road")).on(&zone);
            databases.apply(&zone, dirty).await;
            assert_ends(&databases, &from_blue("10.30.0.6"), &["ns4.orange_ns4_api"]);
            assert_ends(&databases, &from_blue("203.203.0.8"), &[]);

            let mut dirty =
                zone.apply_connect(&connect("road", topology, Ip::Dual, &["layer3_1", "layer2_5"])).on(&zone);
            dirty.merge(zone.apply_connect(&another(topology, &["layer3_1", "layer3_3"])).on(&zone));
            databases.apply(&zone, dirty).await;
            databases.assert_as_planned(&zone);
            assert_ends(&databases, &from_blue("10.40.0.7"), &["ns5.red_ns5_spy"]);
            assert_ends(&databases, &from_blue("203.203.0.8"), &["ns2.green_ns2_vm"]);
            assert_ends(&databases, &from_green("10.40.0.7"), &[]);
            assert_ends(&databases, &from_red("203.203.0.8"), &[]);
            assert_ends(&databases, &from_blue("10.30.0.6"), &[]);
            assert_eq!(complaints(&databases), Vec::<String>::new());
        }
    });
}
