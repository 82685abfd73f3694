//! Cases of the connection catalogue that say what rows there are. n1 with id 2 is this node, n2 with id 3 another one.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_ovn::declare::Phase;
use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planner, RowKey};
use causeway_plan::{OwnPort, northbound, own_ports};
use causeway_record::Connect;
use causeway_types::PortKey;
use causeway_zone::{Reason, Render, Subject, Zone};
use serde_json::json;
use support::*;

const ROAD: &str = "cnc:road:";
const PORT: [&str; 5] = ["name", "networks", "mac", "options", "peer"];

/// Two nodes and the layer3 networks `blue` and `orange`, not connected yet.
fn islands(ip: Ip) -> Zone {
    let mut zone = two_nodes(ip, None);
    zone.apply_nad(&layer3("blue", 1, ip));
    zone.apply_nad(&layer3("orange", 2, ip));
    zone
}

fn count(zone: &Zone, name: &str) -> usize {
    table(&northbound(zone), ROAD, name, &["name"]).len()
}

/// Routers, ports, routes, policies.
fn counts(zone: &Zone) -> [usize; 4] {
    ["Logical_Router", "Logical_Router_Port", "Logical_Router_Static_Route", "Logical_Router_Policy"]
        .map(|name| count(zone, name))
}

fn held(zone: &Zone, slice: &str) -> String {
    match northbound(zone).plan(slice) {
        Plan::Hold(reason) => reason,
        other => panic!("{slice} is not held: {other:?}"),
    }
}

fn is_absent(zone: &Zone, slice: &str) -> bool {
    northbound(zone).plan(slice) == Plan::Absent
}

/// What the report says of `road`: reasons and messages.
fn said(zone: &Zone) -> Vec<(Reason, String)> {
    let reports = zone.connect_reports();
    let road = reports.into_iter().find(|report| report.name.as_str() == "road").unwrap();
    road.problems.into_iter().map(|problem| (problem.reason, problem.message)).collect()
}

/// cnc-cases Q01, Q05, Q07: the router has its name, its key and its UUID; without a settled layout there is none.
#[test]
fn q01_q05_q07_the_router() {
    let mut zone = islands(Ip::V4);
    let blue = connect("blue", "transit", Ip::V4, &[]);
    zone.apply_connect(&blue);
    let router = row(&northbound(&zone), "Logical_Router", "connect-router-blue");
    assert_eq!(router.uuid.to_string(), "72c4a754-35f4-5265-9a62-cdfa5ae3e3f3");
    assert_eq!(text(&router, "options"), "requested-tnl-key=16715790");
    let keyless = with_annotation(blue.clone(), "connect-router-tunnel-key", None);
    zone.apply_connect(&keyless);
    assert!(held(&zone, "cnc:blue:router").contains("no tunnel key"), "what is there stays");
    zone.apply_connect(&with_annotation(blue.clone(), "connect-topology", None));
    assert!(is_absent(&zone, "cnc:blue:router"));
    zone.apply_connect(&Connect { deleting: true, ..blue });
    assert_eq!((zone.connects().count(), rows(&northbound(&zone), "cnc:").len()), (0, 0));
}

/// cnc-cases Q02, R01, R02, R04, R10, K02, K11: ports of this node have their other end here, ports of other nodes are
/// bound to their chassis; even addresses are the connect router's.
#[test]
fn q02_r01_r02_r04_r10_k02_k11_ports_of_layer3_networks() {
    let mut zone = islands(Ip::V4);
    zone.apply_node(&node("n3", 4));
    zone.apply_connect(&connect("road", "transit", Ip::V4, &["layer3_1", "layer3_2"]));
    let ports = table(&northbound(&zone), "cnc:road:link:cluster_udn_blue:", "Logical_Router_Port", &PORT);
    let expected = [
        "cluster_udn_blue-n1-to-road | 192.168.0.5/31 | 0a:58:c0:a8:00:05 |  | road-to-cluster_udn_blue-n1",
        "road-to-cluster_udn_blue-n1 | 192.168.0.4/31 | 0a:58:c0:a8:00:04 | requested-tnl-key=3 | cluster_udn_blue-n1-to-road",
        "road-to-cluster_udn_blue-n2 | 192.168.0.6/31 | 0a:58:c0:a8:00:06 | requested-chassis=c-2, requested-tnl-key=4 | ",
        "road-to-cluster_udn_blue-n3 | 192.168.0.8/31 | 0a:58:c0:a8:00:08 | requested-chassis=c-3, requested-tnl-key=5 | ",
    ];
    assert_eq!(ports, expected);
    let own = |name: &str, key| OwnPort { name: name.into(), key: Some(PortKey::new(key).unwrap()) };
    let expected = [own("road-to-cluster_udn_blue-n1", 3), own("road-to-cluster_udn_orange-n1", 131)];
    assert_eq!(own_ports(&zone, &connect_name("road")), expected);
}

/// cnc-cases K10, R07, Q14: a layer2 network has one link, its slice; counts follow the networks, and a network alone has
/// neither routes nor policies.
#[test]
fn k10_r07_q14_layer2_networks_come_and_go() {
    let mut zone = two_nodes(Ip::V4, None);
    zone.apply_nad(&layer2("green", 5, Ip::V4));
    zone.apply_nad(&layer2("lime", 6, Ip::V4));
    let steps: [(&[&str], _); 5] = [
        (&[], [1, 0, 0, 0]),
        (&["layer2_5"], [1, 2, 0, 0]),
        (&["layer2_5", "layer2_6"], [1, 4, 2, 2]),
        (&["layer2_5"], [1, 2, 0, 0]),
        (&[], [1, 0, 0, 0]),
    ];
    for (owners, expected) in steps {
        zone.apply_connect(&connect("road", "transit", Ip::V4, owners));
        assert_eq!(counts(&zone), expected, "{owners:?}");
    }
    let slice = r#"{"layer2_5":{"ipv4":"192.168.4.2/31"},"layer2_6":{"ipv4":"192.168.4.0/31"}}"#;
    zone.apply_connect(&with_annotation(
        connect("road", "transit", Ip::V4, &[]),
        "network-subnets",
        Some(slice),
    ));
    let ports =
        table(&northbound(&zone), "cnc:road:network:cluster_udn_green:", "Logical_Router_Port", &PORT);
    let expected = [
        "cluster_udn_green-to-road | 192.168.4.3/31 | 0a:58:c0:a8:04:03 |  | road-to-cluster_udn_green",
        "road-to-cluster_udn_green | 192.168.4.2/31 | 0a:58:c0:a8:04:02 | requested-tnl-key=514 | cluster_udn_green-to-road",
    ];
    assert_eq!(ports, expected, "cnc-cases L32");
}

/// cnc-cases Q08, Q10, Q11, S05, S07, in every family.
#[test]
fn q08_q10_q11_s05_s07_how_many_rows() {
    for (ip, families) in [(Ip::V4, 1), (Ip::V6, 1), (Ip::Dual, 2)] {
        let mut zone = islands(ip);
        let road = connect("road", "transit", ip, &["layer3_1", "layer3_2"]);
        zone.apply_connect(&with_annotation(road.clone(), "network-subnets", None));
        assert_eq!(counts(&zone), [1, 0, 0, 0], "no blocks, nothing but the router");
        zone.apply_connect(&road);
        assert_eq!(counts(&zone), [1, 6, 4 * families, 2 * families], "{ip:?}");
        zone.apply_nad(&layer2("green", 5, ip));
        zone.apply_connect(&connect("road", "transit", ip, &COLOURS));
        assert_eq!(counts(&zone), [1, 8, 5 * families, 6 * families], "{ip:?}");
        zone.apply_connect(&connect("road", "compact", ip, &COLOURS));
        assert_eq!(counts(&zone), [1, 6, 3 * families, 3 * families], "{ip:?}");
        zone.delete_connect(&connect_name("road"));
        assert_eq!(rows(&northbound(&zone), "cnc:").len(), 0);
    }
}

/// cnc-cases S01, S02, Q13: one policy for each pair and family, with all subnets of the target.
#[test]
fn s01_s02_q13_policies_follow_the_targets_subnets() {
    let mut zone = islands(Ip::Dual);
    zone.apply_connect(&connect("road", "transit", Ip::Dual, &["layer3_1", "layer3_2"]));
    let slice = "cnc:road:policy:cluster_udn_blue:cluster_udn_orange:";
    let columns = ["priority", "action", "match", "nexthops"];
    let policies = |zone: &Zone| table(&northbound(zone), slice, "Logical_Router_Policy", &columns);
    let expected = [
        "9001 | reroute | inport == \"rtos-cluster_udn_blue_n1\" && ip4.dst == 10.30.0.0/16 | 192.168.0.4",
        "9001 | reroute | inport == \"rtos-cluster_udn_blue_n1\" && ip6.dst == fd30::/48 | fd01::4",
    ];
    assert_eq!(policies(&zone), expected);
    let subnets = "10.30.0.0/16/24,fd30::/48/64,10.31.0.0/16/24";
    let orange =
        nad("ns4/orange", "cluster_udn_orange", 2, json!({"topology": "layer3", "subnets": subnets}));
    let dirty = zone.apply_nad(&orange).on(&zone);
    assert!(dirty.northbound.iter().any(|prefix| prefix == slice), "{dirty:?}");
    let both = "(ip4.dst == 10.30.0.0/16 || ip4.dst == 10.31.0.0/16)";
    assert!(policies(&zone)[0].contains(both), "{:?}", policies(&zone));
    let router = RowKey::of::<nb::LogicalRouter>("network:cluster_udn_blue:core:router");
    assert!(rows(&northbound(&zone), slice).iter().all(|row| row.edges[0].parent == router));
}

/// cnc-cases S04, S05: networks of different families meet in those that both have, and not at all without any.
#[test]
fn s04_s05_mixed_families() {
    let mut zone = two_nodes(Ip::Dual, None);
    zone.apply_nad(&layer3("blue", 1, Ip::V4));
    zone.apply_nad(&layer3("orange", 2, Ip::Dual));
    zone.apply_nad(&layer3("red", 3, Ip::V6));
    zone.apply_connect(&connect("road", "transit", Ip::Dual, &["layer3_1", "layer3_2", "layer3_3"]));
    let plan = northbound(&zone);
    let policies = table(&plan, ROAD, "Logical_Router_Policy", &["match"]);
    let between = |from: &str, field: &str| {
        policies.iter().filter(|text| text.contains(from) && text.contains(field)).count()
    };
    assert_eq!(policies.len(), 4);
    assert_eq!([between("blue_n1", "ip4"), between("red_n1", "ip6")], [1, 1]);
    assert_eq!([between("orange_n1", "ip4"), between("orange_n1", "ip6")], [1, 1]);
    let ports = table(&plan, "cnc:road:link:cluster_udn_red:n1:", "Logical_Router_Port", &["networks"]);
    assert_eq!(ports, ["fd01::2:0:4/127", "fd01::2:0:5/127"]);
}

/// cnc-cases S08, S10, R08, S11: rows that lead to a node are there while it uses the network, or one connected with it.
#[test]
fn r08_s10_s11_only_where_networks_are_used() {
    let mut config = config(Ip::V4);
    config.render = Render::Used { grace_ms: 10 };
    let mut zone = Zone::new(config);
    zone.apply_node(&node("n1", 2));
    zone.apply_node(&node("n2", 3));
    zone.apply_nad(&layer3("blue", 1, Ip::V4));
    zone.apply_nad(&layer3("orange", 2, Ip::V4));
    zone.apply_connect(&connect("road", "transit", Ip::V4, &["layer3_1", "layer3_2"]));
    for now in [0, 100] {
        zone.tick(now);
    }
    assert_eq!(counts(&zone), [1, 0, 0, 0], "nobody uses anything");
    let own = |name: &str, on: &str| {
        pod(&format!("ns3/{name}"), on, &[("ns3/blue", "primary", &["10.20.0.5/24"], None)])
    };
    zone.apply_pod(&own("here", "n1"));
    assert_eq!(counts(&zone), [1, 4, 2, 1], "a use of one is a use of the other, who sends nothing");
    let dirty = zone.apply_pod(&own("there", "n2")).on(&zone);
    assert!(dirty.northbound.contains(&"cnc:road:link:cluster_udn_orange:n2:".to_owned()), "{dirty:?}");
    assert_eq!(counts(&zone), [1, 6, 4, 1]);
    zone.delete_pod(&key("ns3", "there"));
    for now in [200, 300] {
        zone.tick(now);
    }
    assert_eq!(counts(&zone), [1, 4, 2, 1]);
    let guest = pod("ns4/guest", "n1", &[("ns4/orange", "primary", &["10.30.0.6/24"], None)]);
    let dirty = zone.apply_pod(&guest).on(&zone);
    let back = "cnc:road:policy:cluster_udn_orange";
    assert!(dirty.northbound.iter().any(|prefix| prefix.starts_with(back)), "{dirty:?}");
    assert_eq!(counts(&zone), [1, 4, 2, 2], "with its first pod it sends");
}

/// Who hears first that a road is gone must not swallow what others still send: what sends goes at once, links of layer3
/// networks in the transit layout a while later, and their router with the last of them.
#[test]
fn links_outlive_what_sends_by_them() {
    let mut config = config(Ip::V4);
    config.linger_ms = 5_000;
    let mut zone = Zone::new(config);
    [node("n1", 2), node("n2", 3)].iter().for_each(|node| drop(zone.apply_node(node)));
    [layer3("blue", 1, Ip::V4), layer3("orange", 2, Ip::V4), green(Ip::V4)]
        .iter()
        .for_each(|nad| drop(zone.apply_nad(nad)));
    let links = ["n1", "n2"].map(|node| format!("cnc:road:link:cluster_udn_blue:{node}:"));
    let plan = |zone: &Zone, slice: &str| northbound(zone).plan(slice);
    let stay = |zone: &Zone| links.iter().all(|slice| plan(zone, slice) == Plan::Keep);
    let go = |zone: &Zone| links.iter().all(|slice| is_absent(zone, slice));
    let road = connect("road", "transit", Ip::V4, &COLOURS);
    zone.apply_connect(&road);
    assert!(!zone.keeps_time());

    // One network of three leaves.
    zone.apply_connect(&connect("road", "transit", Ip::V4, &COLOURS[1..]));
    let policies = ["blue:cluster_udn_orange", "orange:cluster_udn_blue"];
    let policies = policies.map(|pair| format!("cnc:road:policy:cluster_udn_{pair}:"));
    assert!(policies.iter().all(|slice| is_absent(&zone, slice)), "what sends goes at once");
    assert!(stay(&zone) && zone.deadline() == Some(0));
    assert!(zone.tick(1_000).is_empty() && stay(&zone));
    assert_eq!(zone.deadline(), Some(6_000));
    let dirty = zone.tick(6_000).on(&zone);
    assert!(dirty.northbound.contains(&"cnc:road:link:cluster_udn_blue:".to_owned()), "{dirty:?}");
    assert!(go(&zone) && !zone.keeps_time());

    // One that is back is as it was.
    zone.apply_connect(&road);
    zone.apply_connect(&connect("road", "transit", Ip::V4, &COLOURS[1..]));
    zone.apply_connect(&road);
    assert!(matches!(plan(&zone, &links[0]), Plan::Rows(_)) && !zone.keeps_time());

    // All of it: it is to be deleted, and then it is.
    zone.apply_connect(&Connect { deleting: true, ..road.clone() });
    zone.delete_connect(&connect_name("road"));
    assert!(stay(&zone) && plan(&zone, "cnc:road:router") == Plan::Keep);
    assert!(
        is_absent(&zone, "cnc:road:network:cluster_udn_green:"),
        "a layer2 network's link is this zone's alone"
    );
    assert_eq!(zone.lingering().map(|name| name.as_str()).collect::<Vec<_>>(), ["road"; 2]);
    zone.tick(10_000);
    let dirty = zone.tick(15_000).on(&zone);
    assert!(dirty.northbound.contains(&"cnc:road:router".to_owned()), "{dirty:?}");
    assert!(go(&zone) && is_absent(&zone, "cnc:road:router"));

    // A namesake may give the same numbers to others: nothing of the first one stays.
    zone.apply_connect(&road);
    zone.delete_connect(&connect_name("road"));
    zone.apply_connect(&connect("road", "transit", Ip::V4, &COLOURS[1..]));
    assert!(go(&zone) && !zone.keeps_time());
    // Where links are this zone's alone, nobody else sends to them.
    zone.apply_connect(&connect("road", "compact", Ip::V4, &COLOURS));
    zone.delete_connect(&connect_name("road"));
    assert!(!zone.keeps_time() && is_absent(&zone, "cnc:road:router"));
}

/// Paths of what is there of a network, without the network's own part.
fn present_of(zone: &Zone, network: &str) -> Vec<String> {
    let prefix = format!("network:cluster_udn_{network}:");
    let paths = rows(&northbound(zone), &prefix).into_iter().map(|row| row.path[prefix.len()..].to_owned());
    let mut paths: Vec<String> =
        paths.filter(|path| !path.contains("limit") && !path.contains("copp")).collect();
    paths.sort();
    paths
}

/// A compact road to a network without pods here costs its link and the way to other nodes: no switch of a node, no way out.
#[test]
fn destinations_are_stubs() {
    let zone = destinations(Ip::V4, "compact");
    let orange = [
        "core:router",
        "core:router-to-transit",
        "core:transit-switch",
        "core:transit-to-router",
        "node:n2:port",
        "node:n2:route:10.30.1.0/24",
    ];
    assert_eq!(present_of(&zone, "orange"), orange);
    let green = [
        "core:router",
        "core:router-to-switch",
        "core:router-to-switch:chassis",
        "core:switch",
        "core:switch-to-router",
        "pod:ns2:there:ns2/green",
    ];
    assert_eq!(present_of(&zone, "green"), green);
    assert!(present_of(&zone, "blue").len() > 3 * orange.len());
    let whole = destinations(Ip::V4, "transit");
    assert!(present_of(&whole, "orange").len() > 3 * orange.len(), "in transit they are there as a whole");
    // Nobody is steered from a stub, and all three have their links.
    assert_eq!(counts(&zone), [1, 6, 3, 1]);
    assert_eq!(said(&zone), []);
}

/// A stub becomes the whole with its first pod, and a stub again without; it goes with the road, or with who reaches it.
#[test]
fn stubs_come_and_go() {
    let mut zone = destinations(Ip::V4, "compact");
    let (stub, whole) = (present_of(&zone, "orange"), present_of(&destinations(Ip::V4, "transit"), "orange"));
    let own = pod("ns4/here", "n1", &[("ns4/orange", "primary", &["10.30.0.6/24"], None)]);
    let dirty = zone.apply_pod(&own).on(&zone);
    assert!(dirty.northbound.contains(&"network:cluster_udn_orange:core:".to_owned()), "{dirty:?}");
    let pods = |paths: Vec<String>| -> Vec<String> {
        paths.into_iter().filter(|path| !path.starts_with("pod:")).collect()
    };
    assert_eq!(pods(present_of(&zone, "orange")), pods(whole));
    assert_eq!(counts(&zone), [1, 6, 3, 2]);
    zone.delete_pod(&own.key);
    for now in [200, 300] {
        zone.tick(now);
    }
    assert_eq!(present_of(&zone, "orange"), stub, "after the grace period");
    zone.apply_connect(&connect("road", "both", Ip::V4, &COLOURS));
    assert!(present_of(&zone, "orange").len() > stub.len(), "while a connection moves it has both");
    zone.apply_connect(&connect("road", "compact", Ip::V4, &COLOURS));
    assert_eq!(present_of(&zone, "orange"), stub);
    zone.delete_pod(&web(Ip::V4).key);
    for now in [400, 500] {
        zone.tick(now);
    }
    for network in ["blue", "orange", "green"] {
        assert_eq!(present_of(&zone, network), Vec::<String>::new(), "{network}");
    }
    assert_eq!(counts(&zone), [1, 0, 0, 0]);
}

/// cnc-cases R11, R13, B9: a node without chassis or id is left out and said so; others are not.
#[test]
fn r11_r13_nodes_that_are_not_ready() {
    let mut zone = islands(Ip::V4);
    zone.apply_connect(&connect("road", "transit", Ip::V4, &["layer3_1", "layer3_2"]));
    for lacking in ["node-chassis-record", "node-id"] {
        zone.apply_node(&without(node("n3", 4), lacking));
        assert_eq!(counts(&zone), [1, 6, 4, 2]);
        let problem = "ClusterNetworkConnect road: node n3 has no id or no chassis yet".to_owned();
        assert_eq!(said(&zone), [(Reason::NodeNotReady, problem)]);
    }
    let dirty = zone.apply_node(&node("n3", 4)).on(&zone);
    let links: Vec<&String> = dirty.northbound.iter().filter(|prefix| prefix.starts_with("cnc:")).collect();
    assert_eq!(links, ["cnc:road:link:cluster_udn_blue:n3:", "cnc:road:link:cluster_udn_orange:n3:"]);
    assert_eq!((counts(&zone), said(&zone)), ([1, 8, 6, 2], vec![]));
}

/// cnc-cases K07, B10: a node beyond the block is left out and named, others are not affected, and this zone has done its
/// part.
#[test]
fn k07_a_node_beyond_the_block() {
    let mut zone = islands(Ip::V4);
    zone.apply_node(&node("n127", 127));
    zone.apply_node(&node("n128", 128));
    zone.apply_connect(&connect("road", "transit", Ip::V4, &["layer3_1", "layer3_2"]));
    let last = table(
        &northbound(&zone),
        "cnc:road:link:cluster_udn_blue:n127:",
        "Logical_Router_Port",
        &["networks"],
    );
    assert_eq!(last, ["192.168.0.254/31"]);
    assert!(is_absent(&zone, "cnc:road:link:cluster_udn_blue:n128:"));
    let [(reason, message)] = &said(&zone)[..] else { panic!("{:?}", said(&zone)) };
    assert!(*reason == Reason::NodeNotReady && message.contains("n128"), "{message}");
    assert_eq!(counts(&zone), [1, 8, 6, 2]);
}

/// cnc-cases B10: this node beyond the block keeps what it has, and says so for each network.
#[test]
fn b10_this_node_beyond_the_block() {
    let mut zone = islands(Ip::V4);
    zone.apply_connect(&connect("road", "transit", Ip::V4, &["layer3_1", "layer3_2"]));
    zone.apply_node(&node("n1", 130));
    let reason = held(&zone, "cnc:road:link:cluster_udn_blue:n1:");
    assert!(
        reason.contains("road") && reason.contains("n1") && reason.contains("192.168.0.0/24"),
        "{reason}"
    );
    let reasons: Vec<Reason> = said(&zone).into_iter().map(|(reason, _)| reason).collect();
    assert_eq!(reasons, [Reason::NoLink; 2]);
}

/// cnc-cases B9, N23: a network that is not known here yet keeps what it has, and stops nobody.
#[test]
fn networks_that_are_not_ready() {
    let mut zone = islands(Ip::V4);
    zone.apply_connect(&connect("road", "transit", Ip::V4, &["layer3_1", "layer3_2", "layer3_3"]));
    assert_eq!(counts(&zone), [1, 6, 4, 2]);
    let unknown = "ClusterNetworkConnect road: no network with id 3 is known here yet".to_owned();
    assert_eq!(said(&zone), [(Reason::NetworkNotReady, unknown)]);
    for slice in ["cnc:road:link:cluster_udn_red:n1:", "cnc:road:policy:cluster_udn_blue:cluster_udn_red:"] {
        let reason = held(&zone, slice);
        assert!(reason.contains("cluster_udn_red has no id here yet"), "{reason}");
    }
    let mut tampered = layer3("orange", 2, Ip::V4);
    tampered.configure("{");
    zone.apply_nad(&layer3("red", 3, Ip::V4));
    zone.apply_nad(&tampered);
    assert!(held(&zone, "cnc:road:link:cluster_udn_orange:n1:").contains("cluster_udn_orange"));
    assert!(
        held(&zone, "cnc:road:policy:cluster_udn_blue:cluster_udn_orange:").contains("cluster_udn_orange")
    );
    let others = ["cnc:road:link:cluster_udn_red:n1:", "cnc:road:policy:cluster_udn_blue:cluster_udn_red:"];
    assert!(others.iter().all(|slice| matches!(northbound(&zone).plan(slice), Plan::Rows(_))));
}

/// cnc-cases B8, V10: what is not in the annotation goes, whatever else is wrong.
#[test]
fn b8_v10_deselection_always_takes_effect() {
    let mut zone = islands(Ip::V4);
    zone.apply_nad(&layer3("red", 3, Ip::V4));
    zone.apply_connect(&connect("road", "transit", Ip::V4, &["layer3_1", "layer3_2", "layer3_3"]));
    let mut tampered = layer3("red", 3, Ip::V4);
    tampered.annotate("k8s.ovn.org/network-id", Some("2"));
    zone.apply_nad(&tampered);
    let left = with_annotation(
        connect("road", "transit", Ip::V4, &[]),
        "network-subnets",
        Some(r#"{"layer3_2":{"ipv4":"192.168.1.0/24"},"layer3_9":{"ipv4":"192.168.3.0/24"}}"#),
    );
    zone.apply_connect(&left);
    assert!(held(&zone, "cnc:road:link:cluster_udn_orange:n1:").contains("both have the id 2"));
    for slice in [
        "link:cluster_udn_blue:n1:",
        "link:cluster_udn_blue:n2:",
        "policy:cluster_udn_blue:cluster_udn_orange:",
    ] {
        assert!(is_absent(&zone, &format!("cnc:road:{slice}")), "{slice}");
    }
}

/// cnc-cases P04, as a tenant would use the time until the cluster manager has seen it: a network that grows into others'
/// addresses gets nothing of their traffic, and what is connected stays so.
#[test]
fn p04_a_network_that_claims_addresses_of_others() {
    for (topology, slices) in [
        (
            "transit",
            ["policy:cluster_udn_blue:cluster_udn_orange:", "policy:cluster_udn_orange:cluster_udn_blue:"],
        ),
        ("compact", ["set:", "steer:cluster_udn_orange:"]),
    ] {
        let mut zone = islands(Ip::V4);
        zone.apply_nad(&layer3("red", 3, Ip::V4));
        zone.apply_connect(&connect("road", topology, Ip::V4, &["layer3_1", "layer3_2", "layer3_3"]));
        let grown = json!({"topology": "layer3", "subnets": "10.20.0.0/16/24,10.30.128.0/17/24"});
        let dirty = zone.apply_nad(&nad("ns3/blue", "cluster_udn_blue", 1, grown)).on(&zone);
        assert!(dirty.northbound.contains(&format!("{ROAD}router")), "{dirty:?}");
        for slice in slices {
            held(&zone, &format!("{ROAD}{slice}"));
        }
        let reasons: Vec<Reason> = said(&zone).into_iter().map(|(reason, _)| reason).collect();
        assert_eq!(reasons, [Reason::Overlap; 2]);
        zone.apply_nad(&layer3("blue", 1, Ip::V4));
        assert_eq!(said(&zone), []);
    }
}

/// cnc-cases V11: two in one place would have one address and one key.
#[test]
fn v11_two_networks_in_one_place() {
    let mut zone = islands(Ip::V4);
    zone.apply_nad(&layer2("green", 5, Ip::V4));
    let places = r#"{"layer3_1":{"ipv4":"192.168.0.0/24"},"layer3_2":{"ipv4":"192.168.1.0/24"},
        "layer2_5":{"ipv4":"192.168.1.2/31"}}"#;
    zone.apply_connect(&with_annotation(
        connect("road", "transit", Ip::V4, &[]),
        "network-subnets",
        Some(places),
    ));
    assert!(matches!(northbound(&zone).plan("cnc:road:link:cluster_udn_blue:n1:"), Plan::Rows(_)));
    for slice in ["cnc:road:link:cluster_udn_orange:n1:", "cnc:road:network:cluster_udn_green:"] {
        assert!(held(&zone, slice).contains("another network has the same block or parcel"));
    }
    let problem = &zone.problems()[&Subject::Connect(connect_name("road"))];
    assert_eq!(problem.reason, Reason::Malformed);
}

/// cnc-cases B19, M08: what cannot be read changes nothing, and is said.
#[test]
fn annotations_that_cannot_be_read() {
    let mut zone = islands(Ip::V4);
    let road = connect("road", "transit", Ip::V4, &["layer3_1", "layer3_2"]);
    let broken = [
        ("network-subnets", "{"),
        ("network-subnets", r#"{"unknown_1":{"ipv4":"192.168.0.0/24"}}"#),
        ("connect-router-tunnel-key", "50000"),
        ("connect-router-slots", "0"),
        ("connect-topology", "star"),
    ];
    for (key, text) in broken {
        zone.apply_connect(&with_annotation(road.clone(), key, Some(text)));
        assert!(held(&zone, "cnc:road:router").contains(key), "{key}");
        assert!(held(&zone, "cnc:road:link:cluster_udn_blue:n1:").contains(key), "{key}");
        assert_eq!(said(&zone)[0].0, Reason::Malformed);
    }
    let foreign = r#"{"layer3_1":{"ipv4":"10.0.0.0/24"},"layer3_2":{"ipv4":"192.168.1.0/25"}}"#;
    zone.apply_connect(&with_annotation(road, "network-subnets", Some(foreign)));
    assert!(held(&zone, "cnc:road:link:cluster_udn_blue:n1:").contains("10.0.0.0/24"));
    assert!(held(&zone, "cnc:road:link:cluster_udn_orange:n1:").contains("192.168.1.0/25"));
}

/// The layout between two layouts has the ports of both; what the compact one has stays the same after it.
#[test]
fn both_is_transit_and_compact_at_once() {
    let rows_of = |topology: &str| {
        let zone = connected(Ip::Dual, topology);
        rows(&northbound(&zone), ROAD)
    };
    let [transit, both, compact] = ["transit", "both", "compact"].map(rows_of);
    let in_both = |path: &str| both.iter().find(|row| row.path == path);
    for row in
        transit.iter().filter(|row| !row.path.contains(":policy:") && !row.path.contains("_green:port"))
    {
        assert_eq!(in_both(&row.path), Some(row));
    }
    for row in compact.iter().filter(|row| !row.path.ends_with(":port") && !row.path.ends_with(":router")) {
        assert_eq!(in_both(&row.path), Some(row));
    }
    let key = |row: &str, rows: &[causeway_ovn::Planned]| {
        text(rows.iter().find(|planned| planned.path == row).unwrap(), "options")
    };
    let green = in_both("cnc:road:network:cluster_udn_green:port").unwrap();
    assert_eq!(green.phase, Some(Phase::Route), "it turns to the compact routes when they are there");
    let ports = ["cnc:road:network:cluster_udn_orange:port", "cnc:road:network:cluster_udn_green:port"];
    assert_eq!(
        ports.map(|port| key(port, &both)),
        ["requested-tnl-key=129, route_table=compact", "requested-tnl-key=257, route_table=compact"]
    );
    assert_eq!(ports.map(|port| key(port, &compact)), ["route_table=compact"; 2]);
    assert_eq!(both.iter().filter(|row| row.path.contains(":policy:")).count(), 0, "compact carries");
}

/// Where MTUs differ the connect router says what is too large: the network behind it could not.
#[test]
fn networks_with_different_mtus() {
    let mut zone = islands(Ip::V4);
    zone.apply_connect(&connect("road", "compact", Ip::V4, &["layer3_1", "layer3_2"]));
    let options = |zone: &Zone| {
        let ports = ["road-to-cluster_udn_blue", "road-to-cluster_udn_orange"];
        ports.map(|name| text(&row(&northbound(zone), "Logical_Router_Port", name), "options"))
    };
    assert_eq!(options(&zone), ["route_table=compact"; 2]);
    let small = json!({"topology": "layer3", "subnets": "10.30.0.0/16/24", "mtu": 1300});
    let dirty = zone.apply_nad(&nad("ns4/orange", "cluster_udn_orange", 2, small)).on(&zone);
    assert!(dirty.northbound.contains(&format!("{ROAD}router")), "{dirty:?}");
    assert_eq!(options(&zone), ["route_table=compact", "gateway_mtu=1300, route_table=compact"]);
    zone.apply_node(&annotate(node("n1", 2), "gateway-mtu-support", "false"));
    assert_eq!(options(&zone), ["route_table=compact"; 2]);
}

/// cnc-cases V07, V08, X16: an event touches what follows from it, and nothing else.
#[test]
fn v07_v08_x16_what_events_make_dirty() {
    let about = |dirty: causeway_plan::Dirty| -> Vec<String> {
        dirty.northbound.into_iter().filter(|prefix| prefix.starts_with("cnc:")).collect()
    };
    for (topology, links) in [("transit", 2), ("both", 2), ("compact", 0)] {
        let mut zone = connected(Ip::V4, topology);
        zone.apply_nad(&layer2("lime", 6, Ip::V4));
        zone.apply_connect(&connect("second", topology, Ip::V4, &["layer2_6"]));
        assert_eq!(about(zone.apply_nad(&layer3("red", 3, Ip::V4)).on(&zone)), Vec::<String>::new());
        assert_eq!(about(zone.apply_node(&node("n3", 4)).on(&zone)).len(), links, "{topology}");
        assert_eq!(about(zone.apply_node(&node("n3", 4)).on(&zone)), Vec::<String>::new());
        assert_eq!(about(zone.apply_pod(&web(Ip::V4)).on(&zone)), Vec::<String>::new());
        let same = zone.apply_connect(&connect("road", topology, Ip::V4, &COLOURS));
        assert!(same.is_empty(), "{same:?}");
        let more = [COLOURS.as_slice(), &["layer3_3"]].concat();
        let prefixes = about(zone.apply_connect(&connect("road", topology, Ip::V4, &more)).on(&zone));
        assert!(
            prefixes.iter().all(|prefix| prefix.contains(":cluster_udn_red:") || prefix.ends_with(":set:")),
            "{prefixes:?}"
        );
    }
}

/// A node that claims another's place is the one to blame for what would lead to it: the connection is all there without.
#[test]
fn a_clash_of_nodes_is_that_nodes_fault() {
    let mut zone = connected(Ip::V4, "transit");
    let thief = annotate(node("n3", 4), "node-chassis-id", "c-2");
    zone.apply_node(&settled(thief));
    let slice = |node: &str| format!("cnc:road:link:cluster_udn_blue:{node}:");
    assert!(held(&zone, &slice("n3")).contains("chassis c-2 of node n2"));
    let blame = |node: &str| northbound(&zone).blame(&slice(node));
    assert_eq!(blame("n3"), [Subject::Node("n3".parse().unwrap())]);
    assert_eq!(blame("n2"), [Subject::Connect("road".parse().unwrap())]);
    let not_of_others = |(reason, _): &(Reason, String)| *reason != Reason::NodeNotReady;
    assert_eq!(said(&zone).into_iter().filter(not_of_others).collect::<Vec<_>>(), []);
}

/// cnc-cases Q04, Q16: two connections of disjoint pairs know nothing of each other; one that goes leaves the other, and one that
/// was never there is no trouble.
#[test]
fn q04_q16_connections_are_independent() {
    for topology in ["transit", "compact"] {
        let mut zone = islands(Ip::Dual);
        zone.apply_nad(&layer2("green", 5, Ip::Dual));
        zone.apply_nad(&layer2("lime", 6, Ip::Dual));
        zone.apply_connect(&connect("road", topology, Ip::Dual, &["layer3_1", "layer3_2"]));
        let alone = rows(&northbound(&zone), ROAD);
        zone.apply_connect(&second(connect("lane", topology, Ip::Dual, &["layer2_5", "layer2_6"])));
        assert_eq!(rows(&northbound(&zone), ROAD), alone);
        let lane = rows(&northbound(&zone), "cnc:lane:");
        assert!(!lane.is_empty());
        assert!(zone.delete_connect(&connect_name("nobody")).on(&zone).northbound.is_empty());
        let dirty = zone.delete_connect(&connect_name("road")).on(&zone);
        assert!(!dirty.northbound.iter().any(|prefix| prefix.starts_with("cnc:lane:")), "{dirty:?}");
        assert_eq!((rows(&northbound(&zone), ROAD).len(), rows(&northbound(&zone), "cnc:lane:")), (0, lane));
        zone.delete_connect(&connect_name("lane"));
        assert_eq!(rows(&northbound(&zone), "cnc:").len(), 0);
    }
}

/// cnc-cases R05: a place without an address, and a connection without subnets, have no link, and are said.
#[test]
fn r05_no_addresses() {
    let mut zone = islands(Ip::V4);
    let road = connect("road", "transit", Ip::V4, &["layer3_1", "layer3_2"]);
    let empty = r#"{"layer3_1":{},"layer3_2":{"ipv4":"192.168.1.0/24"}}"#;
    zone.apply_connect(&with_annotation(road.clone(), "network-subnets", Some(empty)));
    let reason = held(&zone, "cnc:road:link:cluster_udn_blue:n1:");
    assert!(reason.contains("road"), "{reason}");
    assert_eq!(said(&zone).len(), 1, "{:?}", said(&zone));
    let mut without = road;
    without.spec.as_mut().unwrap().subnets.clear();
    zone.apply_connect(&without);
    for network in ["blue", "orange"] {
        held(&zone, &format!("cnc:road:link:cluster_udn_{network}:n1:"));
    }
    assert!(!said(&zone).is_empty());
}

/// cnc-cases R14: a zone is a node. What others have written about zones on it changes nothing.
#[test]
fn r14_the_old_zone_annotation_says_nothing() {
    let mut zone = connected(Ip::V4, "transit");
    let before = rows(&northbound(&zone), ROAD);
    for text in ["n2", "global", ""] {
        let changes = zone.apply_node(&annotate(node("n1", 2), "zone-name", text));
        assert!(changes.on(&zone).northbound.iter().all(|prefix| !prefix.starts_with("cnc:")));
        assert_eq!(rows(&northbound(&zone), ROAD), before, "{text}");
    }
}
