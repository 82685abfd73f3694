//! Cases of the catalogue that say what one row, or one group of rows, looks like. Host subnets are derived here: n1 has
//! the first of every network, n2 the second.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_ovn::{Plan, Planner, RowKey, generated::nb};
use causeway_plan::host::host;
use causeway_plan::{northbound, southbound};
use causeway_record::Node;
use causeway_types::host::{Item, Key, NftFamily};
use causeway_zone::{Render, Zone, ZoneConfig};
use serde_json::json;
use support::*;

const BLUE: &str = "network:cluster_udn_blue:";
const GREEN: &str = "network:cluster_udn_green:";

fn blue_zone(gateway: Option<&str>) -> Zone {
    let mut zone = two_nodes(Ip::V4, gateway);
    zone.apply_nad(&blue(Ip::V4));
    zone
}

fn green_zone(gateway: Option<&str>) -> Zone {
    let mut zone = two_nodes(Ip::V4, gateway);
    zone.apply_nad(&green(Ip::V4));
    zone
}

fn held(zone: &Zone, slice: &str) -> String {
    match northbound(zone).plan(slice) {
        Plan::Hold(reason) => reason,
        other => panic!("{slice} is not held: {other:?}"),
    }
}

/// udn-ovn-cases A08: no address for the network, so nothing is planned and the reason is said.
#[test]
fn a08_a_masquerade_subnet_that_is_too_small() {
    let mut config = config(Ip::V4);
    config.cluster.masquerade_subnets = vec!["169.254.169.0/29".parse().unwrap()];
    let mut zone = Zone::new(config);
    zone.apply_node(&node("n1", 2));
    zone.apply_nad(&blue(Ip::V4));
    let reason = held(&zone, "network:cluster_udn_blue:core:");
    assert!(
        reason.starts_with("network cluster_udn_blue: ") && reason.contains("169.254.169.0/29"),
        "{reason}"
    );
    assert!(matches!(northbound(&zone).plan("network:default:core:"), Plan::Rows(_)));
}

/// udn-ovn-cases A25.
#[test]
fn a25_a_join_subnet_that_is_too_small() {
    let mut zone = Zone::new(config(Ip::V4));
    zone.apply_node(&node("n1", 9));
    let config = json!({"topology": "layer3", "subnets": "10.20.0.0/16/24", "joinSubnet": "100.70.0.0/29"});
    zone.apply_nad(&nad("ns1/blue", "cluster_udn_blue", 1, config));
    let reason = held(&zone, "network:cluster_udn_blue:core:");
    assert!(
        reason.contains("cluster_udn_blue") && reason.contains("100.70.0.0/29") && reason.contains('9'),
        "{reason}"
    );
}

/// udn-ovn-cases A05: a second attachment to the same NAD is a port of its own.
#[test]
fn a05_a_second_attachment_has_its_own_port() {
    let mut zone = blue_zone(None);
    let twice: &[(&str, &str, &[&str], Option<u32>)] = &[
        ("ns1/blue", "primary", &["10.20.0.5/24"], None),
        ("ns1/blue/1", "secondary", &["10.20.0.6/24"], None),
    ];
    zone.apply_pod(&pod("ns1/web-0", "n1", twice));
    let ports = table(&northbound(&zone), "network:cluster_udn_blue:pod:", "Logical_Switch_Port", &["name"]);
    assert_eq!(ports, ["ns1.blue.1_ns1_web-0", "ns1.blue_ns1_web-0"]);
}

/// udn-ovn-cases B01: the catalogue's rows, less the external switch, its patch port, and the ways by the management port: the shared
/// gateway needs none of them (ADR 0016). Six rows for each family lead out.
#[test]
fn b01_the_rows_of_a_layer3_network() {
    let zone = blue_zone(Some("shared"));
    let plan = northbound(&zone);
    let own: Vec<_> = rows(&plan, "")
        .into_iter()
        .filter(|row| row.path.contains("cluster_udn_blue") && !row.path.contains(":node:"))
        .collect();
    let count = |table: &str| own.iter().filter(|row| row.meta.name == table).count();
    let expected = [
        ("Logical_Switch", 3),
        ("Logical_Router", 2),
        ("Logical_Router_Port", 5),
        ("Logical_Switch_Port", 6),
        ("Logical_Router_Static_Route", 4),
        ("NAT", 2),
        ("Logical_Router_Policy", 0),
        ("Static_MAC_Binding", 1),
        ("Load_Balancer_Group", 3),
        ("Port_Group", 2),
        ("Gateway_Chassis", 1),
        ("Copp", 1),
        ("Meter", 2),
        ("Meter_Band", 2),
        ("ACL", 9),
    ];
    for (table, rows) in expected {
        assert_eq!(count(table), rows, "{table}");
    }
    assert_eq!(own.len(), 43);
    assert_eq!(rows(&plan, "network:cluster_udn_blue:node:n2:").len(), 3, "for each other node");
}

/// udn-ovn-cases B02, B04, B05, B07, B08.
#[test]
fn b02_b04_b05_b07_b08_objects_of_a_layer3_network() {
    let zone = blue_zone(Some("shared"));
    let plan = northbound(&zone);
    let get = |table: &str, name: &str, column: &str| text(&row(&plan, table, name), column);
    assert_eq!(
        get("Logical_Switch", "cluster_udn_blue_n1", "other_config"),
        "exclude_ips=10.20.0.2, subnet=10.20.0.0/24"
    );
    let management = row(&plan, "Logical_Switch_Port", "k8s-cluster_udn_blue_n1");
    assert_eq!(text(&management, "addresses"), "0a:58:0a:14:00:02 10.20.0.2");
    assert_eq!(text(&management, "port_security"), "");
    let group = row(&plan, "Port_Group", "a11995131262919241784");
    assert!(management.edges.iter().any(|edge| edge.parent.uuid == group.uuid));
    let options = get("Logical_Router", "GR_cluster_udn_blue_n1", "options");
    assert!(options.contains("chassis=c-1") && options.contains("lb_force_snat_ip=router_ip"), "{options}");
    assert!(options.contains("disable_garp_rarp=true") && !options.contains("snat-ct-zone"), "{options}");
    assert_eq!(
        get("Logical_Switch_Port", "etor-GR_cluster_udn_blue_n1", "options"),
        "router-port=rtoe-GR_cluster_udn_blue_n1"
    );
    assert_eq!(get("Logical_Router_Port", "rtoe-GR_cluster_udn_blue_n1", "mac"), "0a:58:a9:fe:00:0b");
    let outer = row(&plan, "Logical_Switch_Port", "breth0_n1");
    let columns = ["type", "options", "addresses"].map(|column| text(&outer, column));
    assert_eq!(columns, ["localnet", "network_name=physnet", "unknown"]);
    let on_switch = row(&plan, "Logical_Switch_Port", "etor-GR_cluster_udn_blue_n1").edges;
    assert_eq!(on_switch, outer.edges, "all gateway routers of a node are on one switch");
}

/// udn-ovn-cases B10, B11, C04.
#[test]
fn b10_b11_c04_routes_of_the_cluster_router() {
    let zone = blue_zone(Some("shared"));
    let columns = ["ip_prefix", "policy", "nexthop", "output_port"];
    let all = rows(&northbound(&zone), BLUE);
    let router = RowKey::of::<nb::LogicalRouter>("network:cluster_udn_blue:core:router");
    let of_router = |row: &&causeway_ovn::Planned| {
        row.meta.name == "Logical_Router_Static_Route" && row.edges.iter().any(|edge| edge.parent == router)
    };
    let mut routes: Vec<String> =
        all.iter().filter(of_router).map(|row| columns.map(|column| text(row, column)).join(" | ")).collect();
    routes.sort();
    assert_eq!(
        routes,
        [
            "10.20.0.0/24 | src-ip | 100.65.0.2 | rtoj-cluster_udn_blue_ovn_cluster_router",
            "10.20.1.0/24 |  | 100.88.0.3 | cluster_udn_blue_rtots-n1",
            "100.65.0.2 |  | 100.65.0.2 | rtoj-cluster_udn_blue_ovn_cluster_router",
            "100.65.0.3/32 |  | 100.88.0.3 | cluster_udn_blue_rtots-n1",
        ]
    );
    let remote = table(
        &northbound(&zone),
        "network:cluster_udn_blue:node:n2:",
        "Logical_Router_Static_Route",
        &["external_ids"],
    );
    assert!(remote.iter().all(|ids| ids.contains("ic-node=n2")), "{remote:?}");
}

/// udn-ovn-cases B13, B14.
#[test]
fn b13_b14_nat_and_policies() {
    let zone = blue_zone(Some("shared"));
    let plan = northbound(&zone);
    assert_eq!(
        table(&plan, BLUE, "NAT", &["logical_ip", "external_ip", "logical_port", "match"]),
        ["10.20.0.0/16 | 169.254.0.11 |  | ", "100.65.0.2 | 169.254.0.11 |  | ",]
    );
    let columns = ["priority", "match", "nexthops"];
    assert_eq!(
        table(&plan, BLUE, "Logical_Router_Policy", &columns),
        [""; 0],
        "to the node by the gateway too"
    );
    let default = table(&plan, "network:default:", "Logical_Router_Policy", &columns);
    assert_eq!(default, ["1004 | inport == \"rtos-n1\" && ip4.dst == 172.18.0.2 /* n1 */ | 10.244.0.2"]);
}

/// The catalogue's classic rows are those of the local form.
#[test]
fn b13_b14_nat_and_policies_of_the_local_gateway() {
    let zone = blue_zone(Some("local"));
    let plan = northbound(&zone);
    assert_eq!(
        table(&plan, BLUE, "NAT", &["logical_ip", "external_ip", "logical_port", "match"]),
        [
            "10.20.0.0/16 | 169.254.0.11 |  | ",
            "10.20.0.0/24 | 169.254.0.12 | rtos-cluster_udn_blue_n1 | eth.dst == 0a:58:0a:14:00:02",
            "100.65.0.2 | 169.254.0.11 |  | ",
        ]
    );
    let policies = table(&plan, BLUE, "Logical_Router_Policy", &["priority", "match", "nexthops"]);
    let of = |ip| {
        format!(
            "1004 | inport == \"rtos-cluster_udn_blue_n1\" && ip4.dst == {ip} /* cluster_udn_blue_n1 */ | 10.20.0.2"
        )
    };
    assert_eq!(policies, [of("169.254.0.11"), of("172.18.0.2")]);
}

/// udn-ovn-cases B17: the node gets another address: of a user-defined network only its list of addresses follows, since its
/// router has masquerade addresses alone; the default network's port and policy do.
#[test]
fn b17_another_address_of_the_node() {
    let before = blue_zone(Some("shared"));
    let mut after = blue_zone(Some("shared"));
    let moved = with_gateway(node("n1", 2), Ip::V4, "shared").published["k8s.ovn.org/l3-gateway-config"]
        .replace("172.18.0.2/16", "172.18.0.9/16");
    let dirty = after.apply_node(&annotate(node("n1", 2), "l3-gateway-config", &moved)).on(&after);
    assert_eq!(dirty.northbound, [""]);
    let (old, new) = (rows(&northbound(&before), BLUE), rows(&northbound(&after), BLUE));
    let changed: Vec<&str> =
        new.iter().filter(|row| !old.contains(row)).map(|row| row.path.as_str()).collect();
    assert_eq!(changed, ["network:cluster_udn_blue:core:gateway-router"]);
    let of = |zone: &Zone| rows(&northbound(zone), "network:default:");
    let (old, new) = (of(&before), of(&after));
    let changed: Vec<&str> =
        new.iter().filter(|row| !old.contains(row)).map(|row| row.path.as_str()).collect();
    assert_eq!(
        changed,
        [
            "network:default:core:gateway-router",
            "network:default:gateway:port",
            "network:default:gateway:policy:172.18.0.9",
        ]
    );
}

/// udn-ovn-cases B19, B20: without an id or a chassis nothing is planned; the annotation is the event.
#[test]
fn b19_b20_a_node_that_is_not_ready() {
    for lacking in ["node-id", "node-chassis-id"] {
        let mut zone = Zone::new(config(Ip::V4));
        zone.apply_node(&without(node("n1", 2), lacking));
        zone.apply_nad(&blue(Ip::V4));
        zone.apply_pod(&web(Ip::V4));
        assert!(held(&zone, "network:cluster_udn_blue:core:").contains("n1"));
        assert!(held(&zone, "network:cluster_udn_blue:pod:ns1:web-0:").contains("n1"));
        assert!(host(&zone).hold_all().unwrap().contains("n1"));
        let dirty = zone.apply_node(&node("n1", 2)).on(&zone);
        assert!(dirty.host.any() && dirty.northbound == [""], "{dirty:?}");
        assert!(!rows(&northbound(&zone), BLUE).is_empty());
    }
}

/// udn-ovn-cases B22: with two families everything is there twice, and MACs come from IPv4.
#[test]
fn b22_dual_stack() {
    let dual = cluster(Ip::Dual, Some("shared"));
    let (four, six) = (cluster(Ip::V4, Some("shared")), cluster(Ip::V6, Some("shared")));
    let count = |zone: &Zone, kind: &str| {
        rows(&northbound(zone), BLUE).iter().filter(|row| row.meta.name == kind).count()
    };
    for kind in ["Logical_Router_Static_Route", "NAT", "Logical_Router_Policy"] {
        assert_eq!(count(&dual, kind), count(&four, kind) + count(&six, kind), "{kind}");
    }
    let ports = |zone: &Zone| table(&northbound(zone), BLUE, "Logical_Router_Port", &["name", "mac"]);
    assert_eq!(ports(&dual), ports(&four));
}

/// udn-ovn-cases B25, B26: what leaves goes by the management port.
#[test]
fn b25_b26_local_gateway() {
    let local = blue_zone(Some("local"));
    let all = rows(&northbound(&local), "network:cluster_udn_blue:core:source-route:");
    assert_eq!(text(&all[0], "nexthop"), "10.20.0.2");
    let router = row(&northbound(&local), "Logical_Router", "cluster_udn_blue_ovn_cluster_router");
    assert!(text(&router, "options").contains("ct-commit-all=true"));
}

/// A node that is away has no tunnel until it is taken off the list; this node itself is never away.
#[test]
fn nobody_listens_to_a_node_that_is_away() {
    let mut zone = two_nodes(Ip::V4, None);
    let chassis = |zone: &Zone| table(&southbound(zone), "", "Chassis", &["name"]);
    let away = |names: &[&str]| names.iter().map(|name| node_name(name)).collect();
    assert_eq!(zone.set_away(away(&["n1", "n2"])).on(&zone).southbound, ["chassis:n2"]);
    assert_eq!(chassis(&zone), [""; 0]);
    assert!(zone.here().is_ok());
    assert!(zone.set_away(away(&["n1", "n2"])).is_empty());
    assert_eq!(zone.set_away(away(&[])).on(&zone).southbound, ["chassis:n2"]);
    assert_eq!(chassis(&zone), ["c-2"]);
}

/// udn-ovn-cases C01, C08: another node's chassis, and its new one after it was installed again.
#[test]
fn c01_c08_chassis_of_other_nodes() {
    let mut zone = two_nodes(Ip::V4, None);
    let chassis =
        |zone: &Zone| table(&southbound(zone), "", "Chassis", &["name", "hostname", "other_config"]);
    let encaps =
        |zone: &Zone| table(&southbound(zone), "", "Encap", &["chassis_name", "type", "ip", "options"]);
    assert_eq!(chassis(&zone), ["c-2 | n2 | is-remote=true"]);
    assert_eq!(encaps(&zone), ["c-2 | geneve | 172.18.0.3 | csum=true"]);
    let dirty = zone.apply_node(&settled(annotate(node("n2", 3), "node-chassis-id", "c-new"))).on(&zone);
    assert_eq!(dirty.southbound, ["chassis:n2"]);
    assert_eq!(dirty.northbound, ["network:default:node:n2:"]);
    assert_eq!(chassis(&zone), ["c-new | n2 | is-remote=true"]);
    zone.apply_node(&settled(annotate(node("n2", 3), "node-encap-ips", "[\"172.18.0.3\",\"172.19.0.3\"]")));
    assert_eq!(encaps(&zone).len(), 2);
    zone.delete_node(&node_name("n2"));
    assert!(chassis(&zone).is_empty());
}

/// What a node claims changes nothing for others, whatever the order of ids and names: only records count.
#[test]
fn claims_of_others_change_nothing() {
    let names = ["a", "n2", "z"];
    for ids in [[3, 4, 5], [3, 5, 4], [4, 3, 5], [4, 5, 3], [5, 3, 4], [5, 4, 3]] {
        let mut zone = Zone::new(config(Ip::V4));
        zone.apply_node(&node("n1", 2));
        let nodes: Vec<Node> = names.iter().zip(ids).map(|(name, id)| node(name, id)).collect();
        nodes.iter().for_each(|node| drop(zone.apply_node(node)));
        let before = rows(&southbound(&zone), "");
        for (liar, victim) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            let text = |key: &str| nodes[victim].published[&format!("k8s.ovn.org/{key}")].clone();
            let lie = annotate(nodes[liar].clone(), "node-chassis-id", &text("node-chassis-id"));
            let lie = annotate(lie, "node-encap-ips", &text("node-encap-ips"));
            assert!(zone.apply_node(&lie).is_empty());
            // A zone that starts while the lie stands sees the same.
            let mut fresh = Zone::new(config(Ip::V4));
            let all = nodes.iter().filter(|node| node.name != lie.name).chain([&lie]);
            all.chain([&node("n1", 2)]).for_each(|node| drop(fresh.apply_node(node)));
            assert_eq!(rows(&southbound(&fresh), ""), before);
            zone.apply_node(&nodes[liar]);
        }
        assert_eq!(rows(&southbound(&zone), ""), before);
    }
}

/// A record that was written for another Node of the same name, or none at all, is no place.
#[test]
fn a_node_without_a_record_of_its_own_is_left_out() {
    let mut zone = two_nodes(Ip::V4, None);
    for left_out in
        [without(node("n2", 3), "node-chassis-record"), Node { uid: "another".into(), ..node("n2", 3) }]
    {
        zone.apply_node(&left_out);
        assert!(rows(&southbound(&zone), "").is_empty(), "{left_out:?}");
        zone.apply_node(&node("n2", 3));
        assert_eq!(rows(&southbound(&zone), "").len(), 2);
    }
}

/// What a node writes itself and nobody can read costs that node alone, also where a zone starts with nothing.
#[test]
fn a_malformed_annotation_costs_its_own_node_at_most() {
    for key in ["node-chassis-id", "node-encap-ips", "layer2-topology-version", "node-chassis-record"] {
        let mut zone = Zone::new(config(Ip::V4));
        zone.apply_node(&node("n1", 2));
        zone.apply_node(&annotate(node("n2", 3), key, "{"));
        zone.apply_node(&node("n3", 4));
        let chassis = |node: &str| southbound(&zone).plan(&format!("chassis:{node}"));
        assert!(matches!(chassis("n3"), Plan::Rows(rows) if rows.len() == 2), "{key}");
        // Its record is not its own to write; what is there of one that cannot be read stays.
        let held = matches!(chassis("n2"), Plan::Hold(_));
        assert_eq!(held, key == "node-chassis-record", "{key}: {:?}", chassis("n2"));
        assert!(zone.here().is_ok());
    }
}

/// A node knows that others do not know it, and says so; its own zone goes on with the chassis that it has.
#[test]
fn a_refused_claim_is_told_by_its_own_zone() {
    let mut zone = two_nodes(Ip::V4, None);
    assert_eq!(zone.known_to_others(), Ok(()));
    let lie = annotate(node("n1", 2), "node-chassis-id", "c-9");
    zone.apply_node(&lie);
    let said = |zone: &Zone| zone.known_to_others().unwrap_err().message;
    assert_eq!(said(&zone), "the cluster manager has not recorded the chassis of node n1 yet");
    let record = r#"{"uid":"node-n1","chassis-id":"c-1","encap-ips":["172.18.0.2"],"refused":["no"]}"#;
    zone.apply_node(&annotate(lie, "node-chassis-record", record));
    assert_eq!(said(&zone), "node n1: no");
    assert_eq!((zone.here().unwrap().chassis, zone.problems().len()), ("c-9", 1));
    zone.apply_node(&node("n1", 2));
    assert_eq!((zone.known_to_others(), zone.problems().len()), (Ok(()), 0));
}

/// Were two records to name the same, one is left out; this zone's own node is always right.
#[test]
fn nobody_takes_another_nodes_place() {
    let mut zone = two_nodes(Ip::V4, None);
    zone.apply_node(&settled(annotate(node("a", 4), "node-chassis-id", "c-1")));
    zone.apply_node(&settled(annotate(node("b", 5), "node-encap-ips", "[\"172.18.0.3\"]")));
    zone.apply_node(&node("z", 3));
    assert_eq!(table(&southbound(&zone), "", "Chassis", &["hostname"]), ["n2"]);
    assert_eq!(zone.here().unwrap().chassis, "c-1");
    for node in ["a", "b", "z"] {
        assert!(held(&zone, &format!("network:default:node:{node}:")).contains(" of node n"));
    }
    assert_eq!(zone.problems().len(), 3);
    zone.delete_node(&node_name("n2"));
    assert_eq!(table(&southbound(&zone), "", "Chassis", &["hostname"]), ["z"], "b has an address of z now");
}

/// udn-ovn-cases C05.
#[test]
fn c05_this_nodes_place_on_the_transit_switch() {
    let zone = blue_zone(None);
    let plan = northbound(&zone);
    let port = row(&plan, "Logical_Switch_Port", "cluster_udn_blue_tstor-n1");
    assert_eq!(text(&port, "type"), "router");
    assert_eq!(text(&port, "options"), "requested-tnl-key=2, router-port=cluster_udn_blue_rtots-n1");
    let router = row(&plan, "Logical_Router_Port", "cluster_udn_blue_rtots-n1");
    assert_eq!([text(&router, "networks"), text(&router, "options")], ["100.88.0.2/16", "mcast_flood=true"]);
}

/// udn-ovn-cases D01, D02, D04, D05; the pairs are /30 here: base + 4·(id − 1).
#[test]
fn d01_d02_d04_d05_objects_of_a_layer2_network() {
    let zone = green_zone(None);
    let plan = northbound(&zone);
    let switch = text(&row(&plan, "Logical_Switch", "cluster_udn_green_ovn_layer2_switch"), "other_config");
    assert!(switch.contains("interconn-ts=cluster_udn_green_ovn_layer2_switch"), "{switch}");
    assert!(switch.contains("requested-tnl-key=16711688"), "{switch}");
    let router = row(&plan, "Logical_Router", "cluster_udn_green_transit_router");
    assert_eq!(text(&router, "options"), "requested-tnl-key=16715780");
    let columns = ["networks", "mac", "options", "peer"];
    let port = |name: &str| columns.map(|column| text(&row(&plan, "Logical_Router_Port", name), column));
    assert_eq!(
        port("trtos-cluster_udn_green_ovn_layer2_switch"),
        ["203.203.0.1/16", "0a:58:cb:cb:00:01", "gateway_mtu=1400, requested-tnl-key=1", ""]
    );
    assert_eq!(
        port("rtotr-GR_cluster_udn_green_n1"),
        [
            "100.65.0.2/16, 100.88.0.6/30",
            "0a:58:64:41:00:02",
            "gateway_mtu=1400",
            "trtor-GR_cluster_udn_green_n1"
        ]
    );
    assert_eq!(
        port("trtor-GR_cluster_udn_green_n2"),
        ["100.88.0.9/30", "0a:58:64:58:00:09", "requested-chassis=c-2, requested-tnl-key=13", ""]
    );
    let pinned = row(&plan, "Gateway_Chassis", "trtos-cluster_udn_green_ovn_layer2_switch-c-1");
    assert_eq!(text(&pinned, "chassis_name"), "c-1");
}

/// A node from before transit routers has no port on ours; a version that cannot be read changes nothing.
#[test]
fn layer2_networks_take_each_nodes_topology() {
    let mut zone = green_zone(None);
    let slice = "network:cluster_udn_green:node:n2:";
    assert_eq!(rows(&northbound(&zone), slice).len(), 2);
    zone.apply_node(&annotate(node("n2", 3), "layer2-topology-version", "2"));
    assert_eq!(rows(&northbound(&zone), slice).len(), 2, "what it said before counts");
    zone.apply_node(&annotate(node("n2", 3), "layer2-topology-version", "1.0"));
    assert!(rows(&northbound(&zone), slice).is_empty());
    zone.apply_node(&annotate(node("n2", 3), "layer2-topology-version", "2.0"));
    assert_eq!(rows(&northbound(&zone), slice).len(), 2);
}

/// udn-ovn-cases D07, D08, D10.
#[test]
fn d07_d08_d10_routes_nat_and_policies_of_a_layer2_network() {
    let zone = green_zone(Some("shared"));
    let plan = northbound(&zone);
    let gateway = RowKey::of::<nb::LogicalRouter>("network:cluster_udn_green:core:gateway-router");
    let mut routes: Vec<String> = rows(&plan, GREEN)
        .iter()
        .filter(|row| row.meta.name == "Logical_Router_Static_Route" && row.edges[0].parent == gateway)
        .map(|row| ["ip_prefix", "nexthop", "output_port"].map(|column| text(row, column)).join(" | "))
        .collect();
    routes.sort();
    assert_eq!(
        routes,
        [
            "0.0.0.0/0 | 169.254.0.6 | rtoe-GR_cluster_udn_green_n1",
            "203.203.0.0/16 | 100.88.0.5 | rtotr-GR_cluster_udn_green_n1",
        ]
    );
    assert_eq!(
        table(&plan, GREEN, "NAT", &["logical_ip", "external_ip", "logical_port", "match"]),
        ["100.65.0.2 | 169.254.0.19 |  | ", "203.203.0.0/16 | 169.254.0.19 |  | "]
    );
    assert_eq!(table(&plan, GREEN, "Logical_Router_Policy", &["match"]), [""; 0]);
}

/// udn-ovn-cases D11: not rendered, said, and rendered once the annotation is right.
#[test]
fn d11_tunnel_keys_that_cannot_be() {
    for keys in ["[16711688]", "[]", "[16711689,16715780]", "[16711688,5]", "none"] {
        let mut zone = two_nodes(Ip::V4, None);
        let mut broken = green(Ip::V4);
        broken.annotate("k8s.ovn.org/tunnel-keys", Some(keys));
        zone.apply_nad(&broken);
        assert!(held(&zone, "network:cluster_udn_green:core:").contains("unnel"), "{keys}");
        let dirty = zone.apply_nad(&green(Ip::V4)).on(&zone);
        assert!(dirty.northbound.contains(&format!("{GREEN}core:")));
        assert!(!rows(&northbound(&zone), GREEN).is_empty());
    }
}

/// udn-ovn-cases D13, D14, D16.
#[test]
fn d13_d14_d16_pods_of_a_layer2_network() {
    let mut zone = green_zone(None);
    let columns = ["name", "type", "options", "addresses", "port_security"];
    let ports = |zone: &Zone| {
        table(&northbound(zone), "network:cluster_udn_green:pod:", "Logical_Switch_Port", &columns)
    };
    assert!(zone.apply_pod(&bare_pod("ns2/far", "n2")).is_empty(), "before its annotation");
    assert!(ports(&zone).is_empty());
    let dirty = zone.apply_pod(&vm("far", "n2", 9, Ip::V4)).on(&zone);
    assert_eq!(dirty.northbound, ["network:cluster_udn_green:pod:ns2:far:"]);
    zone.apply_pod(&vm("vm", "n1", 8, Ip::V4));
    let (far, near) = ("0a:58:cb:cb:00:09 203.203.0.9", "0a:58:cb:cb:00:08 203.203.0.8");
    assert_eq!(
        ports(&zone),
        [
            format!(
                "ns2.green_ns2_far | remote | requested-chassis=c-2, requested-tnl-key=9 | {far} | {far}"
            ),
            format!(
                "ns2.green_ns2_vm |  | iface-id-ver=uid-vm, requested-chassis=c-1, requested-tnl-key=8 | {near} | {near}"
            ),
        ]
    );
}

/// udn-ovn-cases D20.
#[test]
fn d20_a_gateway_of_the_users_choice() {
    let mut zone = two_nodes(Ip::V4, None);
    let config = json!({
        "topology": "layer2", "subnets": "203.203.0.0/16",
        "defaultGatewayIPs": "203.203.0.254", "infrastructureSubnets": "203.203.0.248/29",
    });
    zone.apply_nad(&nad("ns2/green", "cluster_udn_green", 5, config));
    let plan = northbound(&zone);
    let port = row(&plan, "Logical_Router_Port", "trtos-cluster_udn_green_ovn_layer2_switch");
    assert_eq!([text(&port, "networks"), text(&port, "mac")], ["203.203.0.254/16", "0a:58:cb:cb:00:fe"]);
    let management = row(&plan, "Logical_Switch_Port", "k8s-cluster_udn_green_n1");
    assert_eq!(text(&management, "addresses"), "0a:58:cb:cb:00:f8 203.203.0.248");
}

/// udn-ovn-cases E01, E02: the locked port joins the group in its own row and is never there without the drops.
#[test]
fn e01_e02_locked_ports() {
    let zone = cluster(Ip::V4, None);
    let plan = northbound(&zone);
    let acls = table(&plan, "zone:isolation:", "ACL", &["tier", "priority", "direction", "action", "match"]);
    let pg = "a8747502060113802905";
    assert_eq!(
        acls,
        [
            format!(" | 1000 | from-lport | drop | inport == @{pg}"),
            format!(" | 1000 | to-lport | drop | outport == @{pg}"),
            format!(" | 1001 | from-lport | allow | inport == @{pg} && ((arp && arp.tpa == 10.244.0.2))"),
            format!(" | 1001 | to-lport | allow | outport == @{pg} && ((arp && arp.spa == 10.244.0.2))"),
            format!(" | 1001 | to-lport | allow-related | outport == @{pg} && (ip4.src == 10.244.0.2)"),
        ]
    );
    let group = row(&plan, "Port_Group", pg).uuid;
    let drops: Vec<_> = ["deny-in", "deny-out"]
        .map(|name| RowKey::of::<nb::Acl>(&format!("zone:isolation:acl:{name}")))
        .into();
    let locked = row(&plan, "Logical_Switch_Port", "ns1_web-0");
    assert!(locked.edges.iter().any(|edge| edge.parent.uuid == group));
    assert_eq!(locked.guards, drops);
    let open = row(&plan, "Logical_Switch_Port", "ns0_plain");
    assert!(open.edges.iter().all(|edge| edge.parent.uuid != group) && open.guards.is_empty());
}

/// udn-ovn-cases E04, E05: ports that the owner opens, as ranges; a text that cannot be read changes nothing and is reported.
#[test]
fn e04_e05_open_ports() {
    let mut zone = cluster(Ip::V4, None);
    let slice = "network:default:pod:ns1:web-0:";
    let acls = |zone: &Zone| table(&northbound(zone), slice, "ACL", &["action", "match"]);
    let mut pod = web(Ip::V4);
    let open = |pod: &mut causeway_record::Pod, text: &str| {
        pod.annotate("k8s.ovn.org/open-default-ports", Some(text));
    };
    open(&mut pod, "- {protocol: icmp, port: 5}");
    zone.apply_pod(&pod);
    assert!(acls(&zone).is_empty(), "nothing was open before");
    open(
        &mut pod,
        "[{protocol: tcp, port: 82}, {protocol: udp, port: 83}, {protocol: tcp, port: 80}, {protocol: tcp, port: 81}]",
    );
    zone.apply_pod(&pod);
    let range = "outport == \"ns1_web-0\" && (80 <= tcp.dst <= 82 || udp.dst == 83 || arp || nd)";
    assert!(acls(&zone).iter().any(|acl| acl.ends_with(range)), "{:?}", acls(&zone));
    open(&mut pod, "- protocol: tcp\n  port: 80\n- protocol: icmp\n");
    assert!(zone.apply_pod(&pod).on(&zone).northbound.contains(&slice.to_owned()));
    assert_eq!(
        acls(&zone),
        [
            "allow | inport == \"ns1_web-0\" && (arp || nd)",
            "allow-related | outport == \"ns1_web-0\" && (tcp.dst == 80 || icmp || arp || nd)",
        ]
    );
    open(&mut pod, "- protocol: icmp\n  port: 5\n");
    zone.apply_pod(&pod);
    assert_eq!(acls(&zone).len(), 2, "what was open stays open");
    assert_eq!(zone.problems().len(), 1, "it is reported");
    let port = row(&northbound(&zone), "Logical_Switch_Port", "ns1_web-0");
    assert_eq!(port.guards.len(), 2, "the pod has its port, locked as before");
    zone.apply_pod(&web(Ip::V4));
    assert!(zone.problems().is_empty() && acls(&zone).is_empty());
}

/// udn-ovn-cases L02: what an event makes dirty is the same beside one network and beside a thousand.
#[test]
fn l02_events_among_a_thousand_networks() {
    let mut zone = two_nodes(Ip::V4, None);
    zone.apply_nad(&blue(Ip::V4));
    let mut crowded = two_nodes(Ip::V4, None);
    for id in 1..=1000 {
        crowded.apply_nad(&numbered(id + 1, "layer3"));
    }
    crowded.apply_nad(&blue(Ip::V4));
    let alone = zone.apply_pod(&web(Ip::V4)).on(&zone);
    assert_eq!(
        alone.northbound,
        ["network:cluster_udn_blue:pod:ns1:web-0:", "network:default:pod:ns1:web-0:"]
    );
    assert_eq!(crowded.apply_pod(&web(Ip::V4)).on(&crowded), alone);
    let plan = northbound(&crowded);
    for prefix in &alone.northbound {
        assert_eq!(plan.slices(prefix), [prefix.as_str()]);
    }
    assert_eq!(
        crowded.delete_nad(&blue(Ip::V4).key).on(&crowded).northbound.len(),
        14,
        "core, gateway, fabric, nodes, pods, bindings, three groups, policies' drops, groups and rules, and the pod on two networks"
    );
}

/// udn-ovn-cases L10: rendered where it is used, and for a while after.
#[test]
fn l10_networks_only_where_they_are_used() {
    let mut config = config(Ip::V4);
    config.render = Render::Used { grace_ms: 120_000 };
    let mut zone = Zone::new(config);
    zone.apply_node(&node("n1", 2));
    zone.apply_node(&node("n2", 3));
    zone.apply_nad(&blue(Ip::V4));
    let core = "network:cluster_udn_blue:core:";
    assert_eq!(
        northbound(&zone).plan(core),
        Plan::Keep,
        "what an earlier run has made stays for the grace period"
    );
    zone.tick(0);
    assert_eq!(zone.tick(120_000).on(&zone).northbound, [""]);
    assert_eq!(northbound(&zone).plan(core), Plan::Absent);

    let used = zone.apply_pod(&web(Ip::V4)).on(&zone).northbound;
    assert!(used.contains(&core.to_owned()), "{used:?}");
    assert!(!rows(&northbound(&zone), core).is_empty());
    let there = "network:cluster_udn_blue:node:n2:";
    assert_eq!(northbound(&zone).plan(there), Plan::Absent, "n2 has no pod of it");
    let far = pod("ns1/far", "n2", &[("ns1/blue", "primary", &["10.20.1.5/24"], None)]);
    assert_eq!(zone.apply_pod(&far).on(&zone).northbound, [there, "network:cluster_udn_blue:pod:ns1:far:"]);
    assert_eq!(rows(&northbound(&zone), there).len(), 3);

    zone.delete_pod(&web(Ip::V4).key);
    assert!(zone.tick(130_000).is_empty());
    assert!(!rows(&northbound(&zone), core).is_empty(), "the grace period runs");
    zone.apply_pod(&web(Ip::V4));
    assert!(zone.tick(260_000).is_empty(), "a new pod has ended it");
    zone.delete_pod(&web(Ip::V4).key);
    zone.tick(260_000);
    assert_eq!(zone.deadline(), Some(380_000));
    assert!(zone.tick(380_000).on(&zone).northbound.contains(&core.to_owned()));
    assert_eq!(northbound(&zone).plan(core), Plan::Absent);
}

#[test]
fn the_host_has_the_management_port() {
    let zone = two_nodes(Ip::Dual, None);
    let plan = host(&zone).to_string();
    let of_network: Vec<&str> = plan.lines().filter(|line| line.ends_with("(network:default)")).collect();
    assert_eq!(
        of_network.join("\n") + "\n",
        "Open vSwitch port ovn-k8s-mp0: k8s-n1 on br-int, MAC 0a:58:0a:f4:00:02, MTU 1400 (network:default)\n\
         link ovn-k8s-mp0: made elsewhere (network:default)\n\
         setting ipv4/conf/ovn-k8s-mp0/rp_filter: 2 (network:default)\n\
         setting ipv6/conf/ovn-k8s-mp0/accept_dad: 0 (network:default)\n\
         setting ipv6/conf/ovn-k8s-mp0/accept_ra: 0 (network:default)\n\
         setting ipv6/conf/ovn-k8s-mp0/disable_ipv6: 0 (network:default)\n\
         address 10.244.0.2/24 of ovn-k8s-mp0 (network:default)\n\
         address fd00:10:244::2/64 of ovn-k8s-mp0 (network:default)\n\
         state of ovn-k8s-mp0: on (network:default)\n\
         route to 10.244.0.0/16 in table 254: via 10.244.0.1 by ovn-k8s-mp0 (network:default)\n\
         route to fd00:10:244::/48 in table 254 with metric 1024: via fd00:10:244::1 by ovn-k8s-mp0 (network:default)\n"
    );
}

/// Geneve is heard of recorded addresses alone, of both families, and sent by nobody who has a socket.
#[test]
fn the_host_has_a_shield_around_tunnels() {
    let body = |zone: &Zone| {
        let key = Key::Table { family: NftFamily::Inet, name: "causeway-tunnels".into() };
        match host(zone).get(&key) {
            Some(Item::Table(table)) => table.body.clone(),
            other => panic!("{other:?}"),
        }
    };
    let mut zone = two_nodes(Ip::Dual, None);
    let alone = annotate(node("n3", 4), "node-encap-ips", "[\"172.18.0.4\",\"fc00::4\"]");
    // A claim is not enough.
    zone.apply_node(&alone);
    assert!(
        body(&zone).contains("elements = { 172.18.0.3, 172.18.0.4 }") && !body(&zone).contains("fc00::4")
    );
    let changes = zone.apply_node(&settled(alone));
    assert!(changes.on(&zone).host.any());
    let text = body(&zone);
    assert!(text.contains("type ipv6_addr\n\t\telements = { fc00::4 }"), "{text}");
    for rule in [
        "hook input priority -10; policy accept;\n\t\tudp dport 6081 ip saddr != @peers4 drop\n\t\tudp dport 6081 ip6 saddr != @peers6 drop",
        "hook forward priority -10; policy accept;\n\t\tudp dport 6081 drop",
        "hook output priority -10; policy accept;\n\t\tudp dport 6081 meta mark & 0x40000000 != 0x00000000 accept\n\t\t\
         udp dport 6081 meta skuid 0-4294967295 drop\n\t\t\
         meta oifkind \"openvswitch\" meta mark set meta mark | 0x40000000",
    ] {
        assert!(text.contains(rule), "{text}");
    }
    zone.delete_node(&node_name("n2"));
    zone.delete_node(&node_name("n3"));
    assert!(!body(&zone).contains("elements"));
}

#[test]
fn tunnels_are_encrypted_where_that_is_asked_for() {
    for ipsec in [false, true] {
        let mut zone = Zone::new(ZoneConfig { ipsec, ..config(Ip::V4) });
        zone.apply_node(&node("n1", 2));
        let global = row(&northbound(&zone), "NB_Global", "n1");
        // What is the default is not said, and put back where somebody has changed it.
        assert_eq!(text(&global, "ipsec"), if ipsec { "true" } else { "" });
    }
}

/// A namespace called like the bridge, and in it a pod called like the node: it does not get the node's own way out.
#[test]
fn a_pod_cannot_take_the_name_of_the_nodes_way_out() {
    let mut zone = two_nodes(Ip::V4, Some("shared"));
    zone.apply_pod(&pod("breth0/n1", "n1", &[("default", "primary", &["10.244.0.9/24"], None)]));
    assert!(held(&zone, "network:default:pod:breth0:n1:").contains("breth0_n1"));
    let out = table(
        &northbound(&zone),
        "network:default:gateway:localnet",
        "Logical_Switch_Port",
        &["name", "type"],
    );
    assert_eq!(out, ["breth0_n1 | localnet"]);
}
