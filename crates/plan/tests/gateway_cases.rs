//! The node's bridge: its flows, its routes, and what services add, as files to read and as rules that hold.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;

use causeway_plan::host::{HostDirty, HostKeeper, host};
use causeway_plan::northbound;
use causeway_record::Protocol;
use causeway_types::host::{HostPlan, Item, Key, NftElement};
use causeway_zone::{BridgePorts, Processes, Zone};
use serde_json::json;
use support::check::{assert_golden, feed};
use support::{
    Ip, On as _, annotate, cluster, key, nad, node, node_name, serve, service, service_port, slice, table,
    two_nodes, with_gateway,
};

fn ports() -> BridgePorts {
    BridgePorts { bridge: "breth0".into(), patch: Some(3), uplink: Some(1) }
}

/// n1 with a gateway whose ports are known.
fn zone(ip: Ip) -> Zone {
    let mut zone = cluster(ip, Some("shared"));
    zone.set_bridge(Some(ports()));
    zone.set_processes(Processes::default());
    zone
}

fn open_services(zone: &mut Zone, ip: Ip) {
    zone.apply_service(&service("default/kubernetes", &ip.pick("10.96.0.1", "fd00:10:96::1")));
    zone.apply_service(&service("kube-system/kube-dns", &ip.pick("10.96.0.10", "fd00:10:96::a")));
}

/// Items of these owners, a line each.
fn of(plan: &HostPlan, owner: &str) -> String {
    let owned = plan.items().values().filter(|planned| planned.owner.as_str().starts_with(owner));
    owned.map(|planned| format!("{}\n", planned.item)).collect()
}

fn flows(plan: &HostPlan) -> Vec<String> {
    let line = |item: &Item| match item {
        Item::Flow(flow) => Some(format!(
            "table={},priority={},{} actions={}",
            flow.table, flow.priority, flow.matches, flow.actions
        )),
        _ => None,
    };
    plan.items().values().filter_map(|planned| line(&planned.item)).collect()
}

/// udn-ovn-cases F02, F11, F14, G02, G13: in the form of ADR 0016.

#[test]
fn the_bridge() {
    for ip in Ip::ALL {
        let mut zone = zone(ip);
        open_services(&mut zone, ip);
        assert_golden(&format!("bridge-{}", ip.name()), &of(&host(&zone), "node:gateway"));
    }
}

/// A web service of a network with every way in.
fn exposed(zone: &mut Zone, ip: Ip) {
    serve(zone, ip);
    for (namespace, number, address) in [("ns0", 30080, 1), ("ns1", 30081, 2)] {
        let n = address - 1;
        let (four, six) = (format!("10.96.{n}.50"), format!("fd00:10:96::{n}:50"));
        let mut web = service(&format!("{namespace}/web"), &ip.pick(four.as_str(), six.as_str()));
        web.ports[0].node_port = Some(number);
        let (four, six) = (format!("192.0.2.{address}"), format!("2001:db8::{address}"));
        web.ingress_ips = ip.pick(four, six).into_iter().map(|ip| ip.parse().unwrap()).collect();
        let (four, six) = (format!("198.51.100.{address}"), format!("2001:db8:1::{address}"));
        web.external_ips = ip.pick(four, six).into_iter().map(|ip| ip.parse().unwrap()).collect();
        zone.apply_service(&web);
    }
}

/// Elements of sets and maps that are planned on their own.
fn elements(plan: &HostPlan) -> impl Iterator<Item = &NftElement> {
    plan.items().values().filter_map(|planned| match &planned.item {
        Item::Element(element) => Some(element),
        _ => None,
    })
}

/// The firewall's table of services, as it is loaded.
fn translations(plan: &HostPlan) -> String {
    let name = "causeway-services".into();
    match plan.get(&Key::Table { family: causeway_types::host::NftFamily::Inet, name }) {
        Some(Item::Table(table)) => table.filled(elements(plan)).body,
        other => panic!("{other:?}"),
    }
}

/// The same services, and only some may come by the addresses of their load balancers.
fn closed(zone: &mut Zone, ip: Ip) {
    exposed(zone, ip);
    for (namespace, number) in [("ns0", 1), ("ns1", 2)] {
        let n = number - 1;
        let (four, six) = (format!("10.96.{n}.50"), format!("fd00:10:96::{n}:50"));
        let mut web = service(&format!("{namespace}/web"), &ip.pick(four.as_str(), six.as_str()));
        let (four, six) = (format!("192.0.2.{number}"), format!("2001:db8::{number}"));
        web.ingress_ips = ip.pick(four, six).into_iter().map(|ip| ip.parse().unwrap()).collect();
        web.ports = vec![service_port("http", Protocol::Tcp, 80), service_port("dns", Protocol::Udp, 53)];
        web.external_local = namespace == "ns1";
        let ranges = ["203.0.113.0/24", "172.18.0.0/16", "2001:db8:7::/48"];
        let ranges = ranges.iter().take(if namespace == "ns0" { 3 } else { 1 });
        web.source_ranges = Some(ranges.map(|range| range.parse().unwrap()).collect());
        zone.apply_service(&web);
    }
}

#[test]
fn only_some_may_come_by_a_load_balancer() {
    for ip in Ip::ALL {
        let mut zone = zone(ip);
        closed(&mut zone, ip);
        let plan = host(&zone);
        assert_golden(
            &format!("sources-{}", ip.name()),
            &format!("{}{}", of(&plan, "service:"), translations(&plan)),
        );
        let rows = support::check::show(
            &northbound(&zone),
            &["service:ns0:web:default:sources", "service:ns1:web:"],
        );
        assert_golden(&format!("sources-rows-{}", ip.name()), &rows);
    }
}

/// Node ports and what an owner says himself are no load balancer's addresses; a range of everything, or none, leaves all as it was.
#[test]
fn ranges_are_about_load_balancers_alone() {
    let mut zone = zone(Ip::V4);
    exposed(&mut zone, Ip::V4);
    let (open, rows) = (host(&zone), support::check::show(&northbound(&zone), &["service:ns0:web:"]));
    let mut web = service("ns0/web", &["10.96.0.50"]);
    web.ports[0].node_port = Some(30080);
    (web.ingress_ips, web.external_ips) =
        (vec!["192.0.2.1".parse().unwrap()], vec!["198.51.100.1".parse().unwrap()]);
    let mut with = |ranges: &[&str]| {
        web.source_ranges = Some(ranges.iter().map(|range| range.parse().unwrap()).collect());
        zone.apply_service(&web);
        (host(&zone), support::check::show(&northbound(&zone), &["service:ns0:web:"]))
    };
    assert_eq!(with(&["0.0.0.0/0"]), (open.clone(), rows.clone()));
    let (some, _) = with(&["203.0.113.0/24"]);
    let changed: BTreeSet<String> =
        flows(&open).into_iter().filter(|flow| !flows(&some).contains(flow)).collect();
    assert!(
        changed.iter().all(|flow| flow.contains("nw_dst=192.0.2.1")) && changed.len() == 2,
        "{changed:?}"
    );
    // Ranges of the other family let nobody in.
    let (none, rows) = with(&["2001:db8::/32"]);
    let to_it = flows(&none).into_iter().filter(|flow| flow.contains("nw_dst=192.0.2.1"));
    assert!(to_it.clone().all(|flow| flow.ends_with("actions=drop")) && to_it.count() == 2);
    assert!(rows.contains("drop") && !rows.contains("pass"), "{rows}");
}

/// udn-ovn-cases I08.

#[test]
fn services_from_outside() {
    for ip in Ip::ALL {
        let mut zone = zone(ip);
        exposed(&mut zone, ip);
        let plan = host(&zone);
        let table = translations(&plan);
        assert_golden(&format!("exposed-{}", ip.name()), &format!("{}{table}", of(&plan, "service:")));
        let rows = support::check::show(&northbound(&zone), &["service:ns0:web:", "service:ns1:web:"]);
        assert_golden(&format!("exposed-rows-{}", ip.name()), &rows);
    }
}

/// A service that changes is planned alone, with those who say to have the same address, however many others there are.
#[test]
fn a_service_is_planned_alone() {
    let mut zone = zone(Ip::V4);
    let web = |n: u16, address: &str| {
        let mut web = service(&format!("ns0/web{n}"), &[&format!("10.96.7.{n}")]);
        web.ports[0].node_port = Some(30_000 + n);
        web.external_ips = vec![address.parse().unwrap()];
        web.created = n.into();
        web
    };
    for n in 1..=100 {
        zone.apply_service(&web(n, &format!("192.0.2.{n}")));
    }
    let (mut keeper, mut plan) = (HostKeeper::default(), HostPlan::default());
    plan.update(keeper.follow(&zone, &HostDirty::everything()));
    let mut parts = |zone: &mut Zone, service: &causeway_record::Service| {
        let (dirty, before) = (zone.apply_service(service).on(zone), keeper.planned());
        plan.update(keeper.follow(zone, &dirty.host));
        assert_eq!(plan, host(zone));
        keeper.planned() - before
    };
    assert_eq!(parts(&mut zone, &service("ns0/web1", &["10.96.7.1"])), 1);
    assert_eq!(parts(&mut zone, &web(1, "192.0.2.1")), 1);
    assert_eq!(parts(&mut zone, &web(1, "192.0.2.2")), 2, "it has what another one had");
    assert_eq!(parts(&mut zone, &web(1, "192.0.2.1")), 2, "which has it again");
}

/// What the programs of the real switch and firewall think of it.
#[test]
fn the_switch_and_the_firewall_can_read_all_of_it() {
    for ip in Ip::ALL {
        let mut zone = zone(ip);
        open_services(&mut zone, ip);
        exposed(&mut zone, ip);
        readable(&host(&zone));
        closed(&mut zone, ip);
        readable(&host(&zone));
    }
}

fn readable(plan: &HostPlan) {
    let text: String = flows(plan).into_iter().map(|flow| flow + "\n").collect();
    feed(&["ovs-ofctl", "-OOpenFlow15", "--no-names", "parse-flows", "-"], &text);
    for planned in plan.items().values() {
        if let Item::Table(table) = &planned.item {
            let text = format!("table inet {} {{\n{}}}\n", table.name, table.filled(elements(plan)).body);
            feed(&["nft", "--check", "-f", "-"], &text);
        }
    }
}

/// A network adds nothing to the bridge: no flow, no route, no neighbour.
/// udn-ovn-cases F01, F07, F08, G11: there is nothing of a network on the bridge.
#[test]
fn networks_cost_the_bridge_nothing() {
    let before = host(&zone(Ip::Dual));
    let mut zone = zone(Ip::Dual);
    for n in 10..60 {
        let config = json!({"topology": "layer3", "subnets": "10.20.0.0/16/24,fd20::/48"});
        zone.apply_nad(&nad(&format!("ns{n}/net"), &format!("cluster_udn_net{n}"), n, config));
    }
    assert_eq!(flows(&host(&zone)), flows(&before));
    let kinds = |plan: &HostPlan| plan.items().keys().filter(|key| !matches!(key, Key::Port(_))).count();
    assert_eq!(kinds(&host(&zone)), kinds(&before));
}

#[test]
fn what_is_not_known_is_held_and_a_node_without_a_gateway_has_nothing() {
    let mut zone = zone(Ip::V4);
    exposed(&mut zone, Ip::V4);
    assert!(!flows(&host(&zone)).is_empty());
    let dirty = zone.set_bridge(Some(BridgePorts { patch: None, ..ports() })).on(&zone);
    assert!(dirty.host.any() && dirty.northbound.is_empty());
    let held = host(&zone);
    let owners: BTreeSet<&str> = held.holds().keys().map(|owner| owner.as_str()).collect();
    assert!(owners.contains("node:gateway") && owners.contains("service:ns1/web"), "{owners:?}");
    assert!(held.holds().values().all(|reason| reason.contains("patch port")));
    zone.apply_node(&node("n1", 2));
    let none = host(&zone);
    assert!(flows(&none).is_empty() && none.holds().is_empty(), "{none}");
    assert!(!none.to_string().contains("causeway-services"));
}

/// Followed by events: the service may come, move and go after the network.
/// udn-ovn-cases F05.
#[test]
fn services_that_everybody_reaches_are_followed() {
    let mut zone = zone(Ip::V4);
    let open = |zone: &Zone| -> Vec<String> {
        flows(&host(zone)).into_iter().filter(|flow| flow.contains("priority=250,")).collect()
    };
    assert_eq!(open(&zone), [""; 0]);
    assert!(zone.apply_service(&service("kube-system/kube-dns", &["10.96.0.10"])).on(&zone).host.any());
    assert!(open(&zone)[0].contains("nw_dst=10.96.0.10"));
    zone.apply_service(&service("kube-system/kube-dns", &["10.96.0.53"]));
    assert!(open(&zone).len() == 1 && open(&zone)[0].contains("nw_dst=10.96.0.53"));
    zone.delete_service(&key("kube-system", "kube-dns"));
    assert_eq!(open(&zone), [""; 0]);
    assert!(zone.apply_service(&service("ns0/other", &["10.96.0.99"])).on(&zone).host.any());
    assert_eq!(open(&zone), [""; 0]);
}

/// Who writes addresses into his own service gets none that the cluster or a node uses, and none that somebody else was given.
#[test]
fn nobody_takes_an_address_that_is_not_his() {
    let mut zone = zone(Ip::V4);
    let arrives = |zone: &Zone| -> Vec<String> {
        let at_door = flows(&host(zone)).into_iter().filter(|flow| flow.starts_with("table=5,priority=100,"));
        at_door
            .map(|flow| flow.split(" actions").next().unwrap().replace("table=5,priority=100,", ""))
            .collect()
    };
    let mut thief = service("ns1/web", &["10.96.0.66"]);
    let taken =
        ["172.18.0.2", "172.18.0.3", "10.96.0.1", "10.244.0.9", "169.254.0.2", "100.64.0.2", "127.0.0.1"];
    thief.external_ips = taken.iter().map(|ip| ip.parse().unwrap()).collect();
    zone.apply_node(&support::at_addresses(node("n2", 3), &["172.18.0.3"]));
    let here = support::at_addresses(node("n1", 2), &["172.18.0.2"]);
    zone.apply_node(&with_gateway(here, Ip::V4, "shared"));
    zone.apply_service(&thief);
    assert_eq!(arrives(&zone), [""; 0]);
    // An address of the bridge that no record has.
    zone.apply_node(&with_gateway(node("n1", 2), Ip::V4, "shared"));
    assert_eq!(arrives(&zone), [""; 0]);
    thief.external_ips = vec!["192.0.2.7".parse().unwrap()];
    thief.created = 5;
    zone.apply_service(&thief);
    assert_eq!(arrives(&zone), ["tcp,nw_dst=192.0.2.7,tp_dst=80"]);
    // A node that comes later with that address has it, too.
    assert!(zone.apply_node(&support::at_addresses(node("n3", 4), &["192.0.2.7"])).on(&zone).host.any());
    assert_eq!(arrives(&zone), [""; 0]);
    zone.delete_node(&node_name("n3"));
    let owner = |zone: &Zone| -> Vec<String> {
        let plan = host(zone);
        let door = |planned: &&causeway_types::host::Planned| matches!(&planned.item, Item::Flow(flow) if flow.table == 5 && flow.priority == 100);
        plan.items().values().filter(door).map(|planned| planned.owner.to_string()).collect()
    };
    assert_eq!(owner(&zone), ["service:ns1/web"]);
    let mut given = service("ns0/web", &["10.96.0.67"]);
    (given.ingress_ips, given.created) = (vec!["192.0.2.7".parse().unwrap()], 9);
    zone.apply_service(&given);
    assert_eq!(owner(&zone), ["service:ns0/web"], "whoever was given an address has it");
    let mut older = service("ns2/web", &["10.96.0.68"]);
    (older.external_ips, older.created) = (thief.external_ips.clone(), 4);
    zone.delete_service(&key("ns0", "web"));
    zone.apply_service(&older);
    assert_eq!(owner(&zone), ["service:ns2/web"], "then the older service");
}

/// What a tenant writes himself changes no way of the node's, nor of other networks.
#[test]
fn an_owners_own_word_counts_on_the_wire_alone() {
    let mut zone = zone(Ip::V4);
    let mut web = service("ns1/web", &["10.96.0.66"]);
    web.external_ips = vec!["192.0.2.7".parse().unwrap()];
    zone.apply_service(&web);
    let plan = host(&zone);
    let naming: Vec<String> = flows(&plan).into_iter().filter(|flow| flow.contains("192.0.2.7")).collect();
    assert_eq!(naming.len(), 1, "{naming:?}");
    assert!(!plan.to_string().contains("192.0.2.7 . tcp"));
}

/// What all networks send outside passes by the default network's router: an owner's own word is none of its load balancers'. Clients
/// from the wire are led to an address of the service's own.
#[test]
fn an_owners_own_word_is_not_on_everybodys_way_out() {
    let mut zone = zone(Ip::V4);
    let mut web = service("ns0/web", &["10.96.0.66"]);
    (web.external_ips, web.ports[0].node_port) = (vec!["192.0.2.7".parse().unwrap()], Some(30080));
    let mut seen = |web: &causeway_record::Service| {
        zone.apply_service(web);
        let all = flows(&host(&zone)).into_iter().filter(|flow| flow.contains("192.0.2.7"));
        let rows = table(&northbound(&zone), "service:ns0:web:", "Load_Balancer", &["name", "vips"]);
        let named: Vec<String> = rows
            .iter()
            .filter(|row| row.contains("192.0.2.7:80="))
            .map(|row| row.split(" | ").next().unwrap().to_owned())
            .collect();
        (all.collect::<Vec<_>>(), named)
    };
    let (arriving, named) = seen(&web);
    assert_eq!(named, ["Service_ns0/web_TCP_node_ports_switch_n1"]);
    let [one] = arriving.as_slice() else { panic!("{arriving:?}") };
    assert!(
        one.starts_with("table=5,priority=100,tcp,nw_dst=192.0.2.7,tp_dst=80 actions=ct(commit,"),
        "{one}"
    );
    assert!(one.contains("nat(dst=10.96.0.66:80)"), "{one}");
    // Where clients keep their addresses, its node port serves so; without one nothing does.
    web.external_local = true;
    let (arriving, named) = seen(&web);
    assert_eq!(named, ["Service_ns0/web_TCP_node_ports_switch_n1"]);
    assert!(arriving.len() == 1 && arriving[0].contains("nat(dst=172.18.0.2:30080)"), "{arriving:?}");
    web.ports[0].node_port = None;
    assert_eq!(seen(&web), (vec![], named));
}

/// Nor does it count for pods of its network, where somebody else was given the address, or has said so before.
#[test]
fn of_two_in_one_network_one_has_an_address() {
    let mut zone = zone(Ip::V4);
    let who = |zone: &Zone| -> Vec<String> {
        let rows = table(&northbound(zone), "service:", "Load_Balancer", &["name", "vips"]);
        rows.into_iter().filter(|row| row.contains("192.0.2.7:80=") && row.contains("_switch_")).collect()
    };
    let mut thief = service("ns0/thief", &["10.96.0.66"]);
    (thief.external_ips, thief.created) = (vec!["192.0.2.7".parse().unwrap()], 5);
    zone.apply_service(&thief);
    assert!(who(&zone)[0].starts_with("Service_ns0/thief"));
    let mut given = service("other/web", &["10.96.0.67"]);
    (given.ingress_ips, given.created) = (vec!["192.0.2.7".parse().unwrap()], 9);
    assert!(zone.apply_service(&given).on(&zone).northbound.iter().any(|slice| slice.contains("thief")));
    let now = who(&zone);
    assert!(now.len() == 1 && now[0].starts_with("Service_other/web"), "{now:?}");
    // On another network it is nobody's but the thief's.
    let dirty = zone.apply_namespace(&support::namespace("other", true)).on(&zone);
    assert!(dirty.northbound.iter().any(|slice| slice.contains("thief")), "{dirty:?}");
    assert!(who(&zone).len() == 1 && who(&zone)[0].starts_with("Service_ns0/thief"));
}

/// Pods and machines that have the node forward their packets get nowhere that they do not get by themselves.
#[test]
fn a_node_forwards_to_nobodys_services() {
    let mut free = support::config(Ip::Dual);
    free.all_services = [("ns0").parse().unwrap()].into();
    let mut zone = Zone::new(free);
    zone.apply_node(&with_gateway(node("n1", 2), Ip::Dual, "shared"));
    zone.set_bridge(Some(ports()));
    zone.apply_nad(&support::blue(Ip::Dual));
    let body = |zone: &Zone| {
        let name = "causeway-forwarded".into();
        match host(zone).get(&Key::Table { family: causeway_types::host::NftFamily::Inet, name }) {
            Some(Item::Table(table)) => table.body.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert!(!body(&zone).contains("elements"));
    assert!(zone.apply_pod(&support::plain(Ip::Dual)).on(&zone).host.any());
    assert_golden("forwarded", &body(&zone));
    let text = format!("table inet causeway-forwarded {{\n{}}}\n", body(&zone));
    feed(&["nft", "--check", "-f", "-"], &text);
    let sent = flows(&host(&zone));
    for inside in ["10.244.0.0/16", "10.96.0.0/16", "100.64.0.0/16", "169.254.0.0/17"] {
        let flow = format!("table=0,priority=105,in_port=LOCAL,ip,nw_src={inside} actions=drop");
        assert!(sent.contains(&flow), "{flow}");
    }
    zone.apply_node(&node("n1", 2));
    assert!(!host(&zone).to_string().contains("causeway-forwarded"), "there are no such ways");
}

/// `externalTrafficPolicy: Local`: this node's endpoints, and the client's own address.
/// udn-ovn-cases I10.
#[test]
fn clients_keep_their_address_where_the_service_is_local() {
    let mut zone = two_nodes(Ip::V4, Some("shared"));
    zone.set_bridge(Some(ports()));
    let mut web = service("ns0/web", &["10.96.0.66"]);
    (web.ports[0].node_port, web.external_local) = (Some(30080), true);
    zone.apply_service(&web);
    support::behind(&mut zone, "ns0", &["10.244.0.3@n1", "10.244.1.3@n2"]);
    zone.apply_endpoint_slice(&slice("ns0/web-4", "web", None, &["10.244.0.3@n1", "10.244.1.3@n2"]));
    let columns = ["name", "vips", "options"];
    let rows = table(&northbound(&zone), "service:ns0:web:", "Load_Balancer", &columns);
    let of = |name: &str| rows.iter().find(|row| row.contains(name)).unwrap().clone();
    let local = of("node_ports_local_n1");
    assert!(
        local.contains("172.18.0.2:30080=10.244.0.3:8080 |") && local.contains("skip_snat=true"),
        "{local}"
    );
    let pods = of("node_ports_switch_n1");
    assert!(pods.contains("172.18.0.2:30080=10.244.0.3:8080,10.244.1.3:8080 |"), "{pods}");
    assert!(pods.contains("skip_snat=false"), "{pods}");
    // An endpoint that is the node itself has its clients from the host, which knows them.
    let dirty = zone.apply_endpoint_slice(&slice("ns0/web-4", "web", None, &["172.18.0.2@n1"])).on(&zone);
    assert!(dirty.host.any());
    zone.apply_node(&with_gateway(support::at_addresses(node("n1", 2), &["172.18.0.2"]), Ip::V4, "shared"));
    zone.apply_pod(&support::host_pod("ns0/p-172-18-0-2", "n1"));
    let plan = host(&zone);
    assert!(!flows(&plan).iter().any(|flow| flow.starts_with("table=5,priority=100,")));
    let all = translations(&plan);
    assert!(all.contains("172.18.0.2 . tcp . 30080 : 172.18.0.2 . 8080"), "{all}");
}

/// The default network's router cannot send to the node's own address, since that is its own.
#[test]
fn an_endpoint_of_the_node_itself_is_reached_by_its_masquerade_address() {
    let mut zone = two_nodes(Ip::V4, Some("shared"));
    zone.set_bridge(Some(ports()));
    zone.apply_node(&with_gateway(support::at_addresses(node("n1", 2), &["172.18.0.2"]), Ip::V4, "shared"));
    zone.apply_service(&service("default/kubernetes", &["10.96.0.1"]));
    zone.apply_endpoint_slice(&slice("default/kubernetes", "kubernetes", None, &["172.18.0.2@n1"]));
    let rows = table(
        &northbound(&zone),
        "service:default:kubernetes:",
        "Load_Balancer",
        &["name", "vips", "selection_fields"],
    );
    assert_eq!(
        rows,
        [
            "Service_default/kubernetes_TCP_node_router_n1 | 10.96.0.1:80=169.254.0.2:8080 | ip_src",
            "Service_default/kubernetes_TCP_node_switch_n1 | 10.96.0.1:80=172.18.0.2:8080 | ",
        ]
    );
}

/// Nobody behind the patch port speaks for the node's tunnels, and nobody on the wire reaches what is inside.
#[test]
fn the_bridge_keeps_apart() {
    let all = flows(&host(&zone(Ip::Dual)));
    let has = |text: &str| assert!(all.iter().any(|flow| flow == text), "{text}\n{}", all.join("\n"));
    has("table=0,priority=320,in_port=3,udp,tp_dst=6081 actions=drop");
    has("table=0,priority=320,in_port=3,udp6,tp_dst=6081 actions=drop");
    let from_wire = "in_port=1,dl_dst=02:42:ac:12:00:02,ip";
    for inside in
        ["10.244.0.0/16", "10.96.0.0/16", "100.64.0.0/16", "100.65.0.0/16", "100.88.0.0/16", "169.254.0.0/17"]
    {
        has(&format!("table=0,priority=145,{from_wire},nw_dst={inside} actions=drop"));
        has(&format!("table=0,priority=146,{from_wire},nw_src={inside} actions=drop"));
    }
    for ip in ["ip", "ipv6"] {
        let parts = "nw_frag=yes,ct_state=-trk actions=ct(zone=64004,table=0)";
        has(&format!("table=0,priority=340,in_port=3,{ip},{parts}"));
        has(&format!("table=0,priority=340,in_port=1,dl_dst=02:42:ac:12:00:02,{ip},{parts}"));
        let part = format!("table=0,priority=320,in_port=3,{ip}");
        has(&format!("{part},nw_frag=yes,ct_state=+trk-inv,ct_nw_proto=17,ct_tp_dst=6081 actions=drop"));
        has(&format!("{part},nw_frag=later,ct_state=+trk+inv actions=drop"));
    }
    has("table=0,priority=245,in_port=3,dl_dst=0a:58:a9:fe:00:06,ip,nw_dst=10.244.0.0/16 actions=drop");
    has("table=0,priority=20,in_port=3 actions=drop");
    has("table=0,priority=1, actions=drop");
}

/// Nobody's pods reach the databases of a node, theirs or another one, whatever else is at these ports.
#[test]
fn databases_are_no_pods_business() {
    let mut zone = zone(Ip::Dual);
    let others = ["172.18.0.3", "192.0.2.3", "fc00:f853:ccd:e793::3"];
    zone.apply_node(&support::at_addresses(node("n2", 3), &others));
    let plan = host(&zone);
    let all = flows(&plan);
    let has = |text: &str| assert!(all.iter().any(|flow| flow == text), "{text}\n{}", all.join("\n"));
    for other in others {
        let to = if other.contains(':') { "tcp6,ipv6_dst" } else { "tcp,nw_dst" };
        has(&format!("table=0,priority=262,in_port=3,{to}={other},tp_dst=6640/0xfff8 actions=drop"));
    }
    has("table=5,priority=2,reg0=1,tcp,nw_dst=172.18.0.2,tp_dst=6640/0xfff8 actions=drop");
    has("table=5,priority=2,reg0=1,tcp6,ipv6_dst=fc00:f853:ccd:e793::2,tp_dst=6640/0xfff8 actions=drop");
    let name = "causeway-databases".into();
    match plan.get(&Key::Table { family: causeway_types::host::NftFamily::Inet, name }) {
        Some(Item::Table(table)) => {
            let rule = "iifname \"ovn-k8s-mp0\" tcp dport 6640-6647 drop";
            assert!(table.body.contains(rule), "{}", table.body);
            let text = format!("table inet causeway-databases {{\n{}}}\n", table.body);
            feed(&["nft", "--check", "-f", "-"], &text);
        }
        other => panic!("{other:?}"),
    }
    let text: String = all.iter().map(|flow| format!("{flow}\n")).collect();
    feed(&["ovs-ofctl", "-OOpenFlow15", "--no-names", "parse-flows", "-"], &text);
}

/// Clients keep their addresses where a service is local: nobody outside comes with one that its policies might mean, neither one of
/// its own network nor one of a network that it is joined with.
#[test]
fn nobody_outside_comes_with_a_pods_address() {
    let mut zone = zone(Ip::V4);
    let mut web = service("ns1/web", &["10.96.0.66"]);
    (web.ports[0].node_port, web.external_local) = (Some(30080), true);
    zone.apply_service(&web);
    let dropped = |zone: &Zone| -> Vec<String> {
        let door = "table=5,priority=110,tcp,nw_dst=172.18.0.2,tp_dst=30080,nw_src=";
        let all = flows(&host(zone)).into_iter();
        all.filter_map(|flow| Some(flow.strip_prefix(door)?.strip_suffix(" actions=drop")?.to_owned()))
            .collect()
    };
    assert_eq!(dropped(&zone), ["10.20.0.0/16"]);
    let changes = zone.apply_connect(&support::connect("road", "compact", Ip::V4, &["layer3_1", "layer2_5"]));
    assert!(changes.on(&zone).host.any());
    assert_eq!(dropped(&zone), ["10.20.0.0/16", "203.203.0.0/16"]);
    (web.external_local, web.ports[0].node_port) = (false, Some(30080));
    zone.apply_service(&web);
    assert_eq!(dropped(&zone), [""; 0], "clients come with the router's address");
}

/// Whoever plans a device has all addresses on it, and the node needs its own.
#[test]
fn the_bridges_device_is_the_nodes() {
    let plan = host(&zone(Ip::Dual));
    assert_eq!(plan.get(&Key::Link("breth0".into())), None);
    assert!(plan.items().keys().any(|key| key.device() == Some("breth0")), "what is on it is planned");
}

/// The uplink's VLAN is put on and taken off by the flows.
#[test]
fn a_tagged_uplink() {
    let mut zone = zone(Ip::V4);
    let config = with_gateway(node("n1", 2), Ip::V4, "shared").published["k8s.ovn.org/l3-gateway-config"]
        .replace(r#""vlan-id":"0""#, r#""vlan-id":"7""#);
    zone.apply_node(&annotate(node("n1", 2), "l3-gateway-config", &config));
    let all = flows(&host(&zone));
    for flow in all.iter().filter(|flow| flow.contains("in_port=1,")) {
        assert!(
            // What is put together comes back with its tag.
            flow.contains("dl_vlan=7")
                && (["strip_vlan", "table=0)"].iter().any(|text| flow.contains(text))
                    || flow.ends_with("drop")),
            "{flow}"
        );
    }
    assert!(
        all.iter()
            .filter(|flow| flow.contains("output:1"))
            .all(|flow| flow.contains("mod_vlan_vid:7,output:1"))
    );
    let ports = table(&northbound(&zone), "network:", "Logical_Switch_Port", &["type", "tag_request"]);
    assert!(ports.contains(&"localnet | ".to_owned()), "behind the bridge there are no tags: {ports:?}");
}

/// Processes of a node with two addresses keep the one that they use: whoever asked at one is answered from it.
#[test]
fn a_node_answers_with_the_address_that_it_was_asked_at() {
    let mut zone = zone(Ip::V4);
    let config = json!({"default": {
        "mode": "shared", "bridge-id": "breth0", "interface-id": "breth0_n1", "mac-address": "02:42:ac:12:00:02",
        "ip-addresses": ["172.18.0.9/16", "172.18.0.2/16"], "next-hops": ["172.18.0.1"], "node-port-enable": "true",
    }});
    zone.apply_node(&annotate(node("n1", 2), "l3-gateway-config", &config.to_string()));
    let flows = flows(&host(&zone));
    for own in ["172.18.0.9", "172.18.0.2"] {
        let sent = flows.iter().find(|flow| flow.contains(&format!("nw_src={own} "))).unwrap();
        assert!(sent.contains(&format!("nat(src={own})")), "{sent}");
    }
    let mut to_node = table(&northbound(&zone), "network:default:", "Logical_Router_Policy", &["match"]);
    to_node.retain(|policy| policy.contains("ip4.dst == 172.18.0."));
    assert_eq!(to_node.len(), 2, "pods come to the node at both: {to_node:?}");
}
