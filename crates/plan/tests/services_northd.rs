//! What ovn-northd makes of services, on their own networks and across: where packets to a service end, and that services
//! alone are all that crosses where nothing else is granted.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_zone::Zone;
use support::northd::*;
use support::server::run;
use support::*;

const BLUE: &str = "ns1.blue_ns1_web-0";
const GREEN: &str = "ns2.green_ns2_vm";
const ORANGE: &str = "ns4.orange_ns4_api";

/// All networks with their services, and a connection of these grants.
fn served(topology: &str, pods: bool, services: bool) -> Zone {
    let mut zone = with_red(Ip::Dual, topology);
    serve(&mut zone, Ip::Dual);
    zone.apply_connect(&granting(connect("road", topology, Ip::Dual, &COLOURS), pods, services));
    zone
}

/// Packets to the services of a network whose only target for this node is here.
fn to_services() -> [(Packet, &'static str); 4] {
    [
        (from_blue("10.96.2.60"), GREEN),
        (from_blue("fd00:10:96::3:60"), ORANGE),
        (from_green("10.96.1.60"), BLUE),
        (from_orange("10.96.2.60"), GREEN),
    ]
}

/// Packets from pod to pod of another network.
fn direct() -> [(Packet, &'static str); 4] {
    [
        (from_blue("203.203.0.8"), GREEN),
        (from_blue("fd30::6"), ORANGE),
        (from_green("10.20.0.5"), BLUE),
        (from_orange("203.203.0.8"), GREEN),
    ]
}

/// udn-ovn-cases I16 as far as the logical network goes: a pod reaches the services of its own network, here and on the
/// other node, and no others.
#[test]
fn i16_services_of_ones_own_network() {
    run(async {
        let mut zone = with_red(Ip::Dual, "transit");
        serve(&mut zone, Ip::Dual);
        zone.delete_connect(&connect_name("road"));
        let (databases, _northd) = connected_databases(&zone).await;
        databases.assert_as_planned(&zone);
        assert_ends(&databases, &from_blue("10.96.1.60"), &[BLUE]);
        assert_ends(&databases, &from_green("10.96.2.60"), &[GREEN]);
        let both = ends(&databases, from_blue("10.96.1.50").0, &from_blue("10.96.1.50").1);
        assert!([[BLUE], ["cluster_udn_blue_tstor-n2"]].iter().any(|end| both == *end), "{both:?}");
        for (packet, _) in to_services().into_iter().chain(direct()) {
            assert_ends(&databases, &packet, &[]);
        }
        assert_ends(&databases, &from_red("10.96.1.60"), &[]);
        assert_eq!(complaints(&databases), Vec::<String>::new());
    });
}

/// cnc-cases T04, T11, T14, X08, X10 as far as the logical network goes: services cross with a connection that grants them,
/// those with targets of their node only included, and no longer without it.
#[test]
fn t04_t11_t14_x08_x10_services_cross() {
    run(async {
        for topology in ["transit", "compact"] {
            let mut zone = served(topology, true, true);
            let (mut databases, _northd) = connected_databases(&zone).await;
            databases.assert_as_planned(&zone);
            for (packet, end) in to_services().into_iter().chain(direct()) {
                assert_ends(&databases, &packet, &[end]);
            }
            assert_ends(&databases, &from_red("10.96.1.60"), &[]);
            let dirty = zone.delete_service(&key("ns2", "agent")).on(&zone);
            databases.apply(&zone, dirty).await;
            assert_ends(&databases, &to_services()[0].0, &[]);
            let road = connect("road", topology, Ip::Dual, &COLOURS);
            let dirty = zone.apply_connect(&granting(road, true, false)).on(&zone);
            databases.apply(&zone, dirty).await;
            databases.assert_as_planned(&zone);
            assert_ends(&databases, &to_services()[2].0, &[]);
            assert_ends(&databases, &direct()[0].0, &[GREEN]);
            assert_eq!(complaints(&databases), Vec::<String>::new());
        }
    });
}

/// cnc-cases U07, X08 as far as the logical network goes: with services alone nothing crosses from pod to pod, in either
/// layout and with no service at all; grants change both ways; what is known of a connection decides.
#[test]
fn u07_services_alone() {
    run(async {
        for topology in ["transit", "both", "compact"] {
            let mut zone = served(topology, false, true);
            let (mut databases, _northd) = connected_databases(&zone).await;
            databases.assert_as_planned(&zone);
            for (packet, end) in to_services() {
                assert_ends(&databases, &packet, &[end]);
            }
            for (packet, end) in direct() {
                assert_ends(&databases, &packet, &[]);
                let answer = ends_tracked(&databases, packet.0, &packet.1, &["est,rpl"; 4]);
                assert_eq!(answer, [end], "an answer to what a service has brought: {packet:?}");
                let running = ends_tracked(&databases, packet.0, &packet.1, &["est"; 4]);
                assert_eq!(running, Vec::<String>::new(), "what was begun before ends: {packet:?}");
                for known in ["est,dnat", "new,dnat"] {
                    let later = ends_tracked(&databases, packet.0, &packet.1, &[known, "new", "new", "new"]);
                    assert_eq!(later, [end], "a later packet to a service: {packet:?}");
                }
                let odd = ends_tracked(&databases, packet.0, &packet.1, &["inv"; 4]);
                assert_eq!(odd, Vec::<String>::new(), "{packet:?}");
            }
            assert_ends(&databases, &from_blue("10.20.1.9"), &["cluster_udn_blue_tstor-n2"]);

            let road = connect("road", topology, Ip::Dual, &COLOURS);
            let dirty = zone.apply_connect(&granting(road.clone(), true, true)).on(&zone);
            databases.apply(&zone, dirty).await;
            assert_ends(&databases, &direct()[0].0, &[GREEN]);
            let mut dirty = zone.apply_connect(&granting(road, false, true)).on(&zone);
            for service in zone.services().collect::<Vec<_>>() {
                dirty.merge(zone.delete_service(&service).on(&zone));
            }
            databases.apply(&zone, dirty).await;
            databases.assert_as_planned(&zone);
            for (packet, _) in to_services().into_iter().chain(direct()) {
                assert_ends(&databases, &packet, &[]);
            }
            assert_ends(&databases, &from_blue("10.20.1.9"), &["cluster_udn_blue_tstor-n2"]);
            assert_eq!(complaints(&databases), Vec::<String>::new());
        }
    });
}

/// A road of IPv4 alone between networks of both families: addresses of services in the other family are refused at once, those that
/// everybody reaches and those of one's own network are not.
#[test]
fn families_that_a_road_has_not_are_refused() {
    run(async {
        for topology in ["transit", "compact"] {
            let mut zone = with_red(Ip::Dual, topology);
            serve(&mut zone, Ip::Dual);
            for (own, vip, target) in
                [("ns1", "fd00:10:96::160", "fd20::5@n1"), ("ns2", "fd00:10:96::260", "2010:100:200::8@n1")]
            {
                let network = if own == "ns1" { "cluster_udn_blue" } else { "cluster_udn_green" };
                zone.apply_service(&service(&format!("{own}/six"), &[vip]));
                zone.apply_endpoint_slice(&slice(&format!("{own}/six"), "six", Some(network), &[target]));
            }
            zone.apply_connect(&granting(connect("road", topology, Ip::V4, &COLOURS), true, true));
            let (mut databases, _northd) = connected_databases(&zone).await;
            databases.assert_as_planned(&zone);
            assert_ends(&databases, &from_blue("10.96.2.60"), &[GREEN]);
            assert_ends(&databases, &from_blue("fd00:10:96::160"), &[BLUE]);
            let (datapath, packet) = from_blue("fd00:10:96::260");
            assert!(refused(&databases, datapath, &packet));
            let (datapath, packet) = from_blue("fd00:10:96::160");
            assert!(!refused(&databases, datapath, &packet));

            let road = granting(connect("road", topology, Ip::Dual, &COLOURS), true, true);
            let dirty = zone.apply_connect(&road).on(&zone);
            databases.apply(&zone, dirty).await;
            databases.assert_as_planned(&zone);
            assert_ends(&databases, &from_blue("fd00:10:96::260"), &[GREEN]);
            assert_eq!(databases.nbctl(&["--bare", "--columns=match", "find", "acl", "priority=4900"]), "");
            assert_eq!(complaints(&databases), Vec::<String>::new());
        }
    });
}

/// What a pair may do is the union of what connections grant it, in whatever order they come and go.
#[test]
fn two_connections_one_for_pods_one_for_services() {
    run(async {
        for topology in ["transit", "compact"] {
            let mut zone = served(topology, false, true);
            let (mut databases, _northd) = connected_databases(&zone).await;
            let pods = second(connect("second", topology, Ip::Dual, &["layer3_1", "layer3_2"]));
            let dirty = zone.apply_connect(&pods).on(&zone);
            databases.apply(&zone, dirty).await;
            databases.assert_as_planned(&zone);
            assert_ends(&databases, &from_blue("10.30.0.6"), &[ORANGE]);
            assert_ends(&databases, &from_orange("10.20.0.5"), &[BLUE]);
            assert_ends(&databases, &from_blue("203.203.0.8"), &[]);
            assert_ends(&databases, &from_green("10.30.0.6"), &[]);
            assert_ends(&databases, &from_blue("10.96.2.60"), &[GREEN]);

            let dirty = zone.delete_connect(&connect_name("second")).on(&zone);
            databases.apply(&zone, dirty).await;
            assert_ends(&databases, &from_blue("10.30.0.6"), &[]);
            assert_ends(&databases, &from_blue("10.96.3.60"), &[ORANGE]);

            let mut dirty = zone.apply_connect(&pods).on(&zone);
            dirty.merge(zone.delete_connect(&connect_name("road")).on(&zone));
            databases.apply(&zone, dirty).await;
            databases.assert_as_planned(&zone);
            assert_ends(&databases, &from_blue("10.30.0.6"), &[ORANGE]);
            assert_ends(&databases, &from_blue("10.96.3.60"), &[]);
            assert_eq!(complaints(&databases), Vec::<String>::new());
        }
    });
}
