//! Ports of the node that lead to its pods: rows, flows and the firewall, and who has a port that several ask for.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_plan::host::host;
use causeway_plan::northbound;
use causeway_record::{HostPort, Pod, Protocol};
use causeway_types::host::{HostPlan, Item, Key};
use causeway_zone::{BridgePorts, Processes, Zone};
use support::check::{assert_golden, feed, show};
use support::{Ip, On as _, cluster, key, plain, pod, service, table, vm, web};

/// n1 with a gateway whose ports are known.
fn zone(ip: Ip) -> Zone {
    let mut zone = cluster(ip, Some("shared"));
    zone.set_bridge(Some(BridgePorts { bridge: "breth0".into(), patch: Some(3), uplink: Some(1) }));
    zone.set_processes(Processes::default());
    zone
}

fn port(port: u16, target: u16) -> HostPort {
    HostPort { address: None, protocol: Protocol::Tcp, port, target }
}

fn at(address: &str, port: HostPort) -> HostPort {
    HostPort { address: Some(address.parse().unwrap()), ..port }
}

fn udp(port: HostPort) -> HostPort {
    HostPort { protocol: Protocol::Udp, ..port }
}

fn asking(pod: Pod, ports: &[HostPort]) -> Pod {
    Pod { host_ports: Ok(ports.to_vec()), ..pod }
}

fn of(plan: &HostPlan, owner: &str) -> String {
    let owned = plan.items().values().filter(|planned| planned.owner.as_str().starts_with(owner));
    owned.map(|planned| format!("{}\n", planned.item)).collect()
}

fn firewall(plan: &HostPlan) -> Option<String> {
    plan.items().values().find_map(|planned| match &planned.item {
        Item::Table(table) if table.name == "causeway-host-ports" => Some(table.body.clone()),
        _ => None,
    })
}

/// The node's ports with the pods that have them, by the load balancers of the gateway routers.
fn doors(zone: &Zone) -> Vec<String> {
    let all = table(&northbound(zone), "host-port:", "Load_Balancer", &["name", "vips"]);
    all.into_iter().filter(|row| row.contains("_router_")).collect()
}

#[test]
fn host_ports_of_every_network() {
    for ip in Ip::ALL {
        let mut zone = zone(ip);
        let own = ip.pick("172.18.0.2", "fc00:f853:ccd:e793::2");
        zone.apply_pod(&asking(plain(ip), &[port(8080, 80), udp(at(own[0], port(8080, 53)))]));
        zone.apply_pod(&asking(web(ip), &[port(8081, 80)]));
        zone.apply_pod(&asking(vm("vm", "n1", 8, ip), &[port(8082, 80)]));
        // Somebody else's node is not ours to serve.
        zone.apply_pod(&asking(vm("far", "n2", 9, ip), &[port(8083, 80)]));
        let plan = host(&zone);
        let text = of(&plan, "host-port:") + &of(&plan, "node:host-ports") + &firewall(&plan).unwrap();
        assert_golden(&format!("host-ports-{}", ip.name()), &text);
        assert_golden(
            &format!("host-ports-rows-{}", ip.name()),
            &show(&northbound(&zone), &["host-port:ns0:plain:", "host-port:ns1:web-0:", "host-port:ns2:vm:"]),
        );
        assert!(!text.contains("8083"), "{text}");
    }
}

/// A pod of another network, or a client by another card of the node, is no process of the node: it comes with the address that nodes
/// have among each other, and policies do not let it in for the node's sake.
#[test]
fn only_the_node_itself_comes_with_its_inner_address() {
    for ip in Ip::ALL {
        let mut zone = zone(ip);
        zone.apply_pod(&asking(plain(ip), &[port(8080, 80)]));
        let rules = firewall(&host(&zone)).unwrap();
        let inner: Vec<&str> =
            rules.lines().filter(|line| line.contains("oifname \"ovn-k8s-mp0\"")).collect();
        let sources = ip.pick(["10.244.0.2", "172.18.0.2"], ["fd00:10:244::2", "fc00:f853:ccd:e793::2"]);
        assert_eq!(inner.len(), 2 * sources.len(), "{rules}");
        for (pair, [own, node]) in inner.chunks(2).zip(sources) {
            assert!(pair[0].contains("fib saddr type local snat") && pair[0].ends_with(own), "{}", pair[0]);
            assert!(
                pair[1].contains("fib saddr type != local snat") && pair[1].ends_with(node),
                "{}",
                pair[1]
            );
        }
    }
}

/// What the programs of the real switch and firewall think of it.
#[test]
fn the_switch_and_the_firewall_can_read_it() {
    for ip in Ip::ALL {
        let mut zone = zone(ip);
        zone.apply_pod(&asking(plain(ip), &[port(8080, 80), udp(port(8080, 53))]));
        zone.apply_pod(&asking(web(ip), &[port(8081, 80)]));
        let plan = host(&zone);
        let line = |item: &Item| match item {
            Item::Flow(flow) => Some(format!(
                "table={},priority={},{} actions={}\n",
                flow.table, flow.priority, flow.matches, flow.actions
            )),
            _ => None,
        };
        let flows: String = plan.items().values().filter_map(|planned| line(&planned.item)).collect();
        feed(&["ovs-ofctl", "-OOpenFlow15", "--no-names", "parse-flows", "-"], &flows);
        let text = format!("table inet causeway-host-ports {{\n{}}}\n", firewall(&plan).unwrap());
        feed(&["nft", "--check", "-f", "-"], &text);
    }
}

/// One port, three pods: of one address, of another, and by another protocol. None is in another's way.
#[test]
fn addresses_and_protocols_are_told_apart() {
    let mut zone = zone(Ip::V4);
    let named = |n: u8, ports: &[HostPort]| {
        let address = format!("10.244.0.{n}/24");
        asking(pod(&format!("ns0/p{n}"), "n1", &[("default", "primary", &[&address], None)]), ports)
    };
    zone.apply_pod(&named(11, &[at("127.0.0.1", port(54323, 8080))]));
    zone.apply_pod(&named(12, &[at("172.18.0.2", port(54323, 8080))]));
    zone.apply_pod(&named(13, &[udp(at("172.18.0.2", port(54323, 8081)))]));
    let rules = firewall(&host(&zone)).unwrap();
    for rule in [
        "127.0.0.1 . tcp . 54323 : 10.244.0.11 . 8080",
        "172.18.0.2 . tcp . 54323 : 10.244.0.12 . 8080",
        "172.18.0.2 . udp . 54323 : 10.244.0.13 . 8081",
    ] {
        assert!(rules.contains(rule), "{rules}");
    }
    assert_eq!(
        doors(&zone),
        [
            "HostPort_ns0/p12_TCP_router_n1 | 172.18.0.2:54323=10.244.0.12:8080",
            "HostPort_ns0/p13_UDP_router_n1 | 172.18.0.2:54323=10.244.0.13:8081",
        ]
    );
}

/// In a user-defined network the node reaches pods by one address of their router: one pod has a port there, and no row names two.
#[test]
fn one_pod_of_a_network_has_the_inner_way() {
    let mut zone = zone(Ip::V4);
    let other = pod(
        "ns1/other",
        "n1",
        &[
            ("default", "infrastructure-locked", &["10.244.0.14/24"], None),
            ("ns1/blue", "primary", &["10.20.0.15/24"], None),
        ],
    );
    zone.apply_pod(&asking(web(Ip::V4), &[at("127.0.0.1", port(8080, 80))]));
    assert_eq!(
        doors(&zone),
        ["cluster_udn_blue_HostPort_ns1/web-0_TCP_router_n1 | 169.254.0.11:8080=10.20.0.5:80"]
    );
    zone.apply_pod(&asking(other, &[at("172.18.0.2", port(8080, 81))]));
    let vips = "169.254.0.11:8080=10.20.0.15:81, 172.18.0.2:8080=10.20.0.15:81";
    assert_eq!(doors(&zone), [format!("cluster_udn_blue_HostPort_ns1/other_TCP_router_n1 | {vips}")]);
    let rules = firewall(&host(&zone)).unwrap();
    assert!(
        rules.contains("172.18.0.2 . tcp . 8080 : 169.254.0.11 . 8080") && !rules.contains("127.0.0.1 ."),
        "{rules}"
    );
}

/// A port that one has stays his until he goes; a service's node port was never a pod's to take.
#[test]
fn nobody_takes_a_port_that_somebody_has() {
    let mut zone = zone(Ip::V4);
    let first = Pod { created: 5, ..asking(plain(Ip::V4), &[port(30080, 80)]) };
    let second = Pod { created: 7, ..asking(web(Ip::V4), &[port(30080, 80)]) };
    let dirty = |zone: &mut Zone, pod: &Pod| zone.apply_pod(pod).on(zone);
    assert!(dirty(&mut zone, &second).host.any());
    assert_eq!(doors(&zone).len(), 1);
    assert!(doors(&zone)[0].contains("HostPort_ns1/web-0_"), "{:?}", doors(&zone));
    // The older one has it, whichever is heard of first.
    let heard = dirty(&mut zone, &first);
    assert!(heard.northbound.iter().any(|slice| slice.starts_with("host-port:ns1:web-0")), "{heard:?}");
    assert_eq!(doors(&zone), ["HostPort_ns0/plain_TCP_router_n1 | 172.18.0.2:30080=10.244.0.3:80"]);
    let mut web = service("ns3/web", &["10.96.0.66"]);
    web.ports[0].node_port = Some(30080);
    let heard = zone.apply_service(&web).on(&zone);
    assert!(
        heard.host.any() && heard.northbound.iter().any(|slice| slice.starts_with("host-port:ns0:plain"))
    );
    assert_eq!(doors(&zone), [""; 0]);
    assert_eq!(firewall(&host(&zone)), None);
    // Nor is the port where load balancers outside ask for its endpoints.
    (web.ports[0].node_port, web.health_port) = (None, Some(30080));
    zone.apply_service(&web);
    assert_eq!(doors(&zone), [""; 0]);
    zone.delete_service(&key("ns3", "web"));
    assert_eq!(doors(&zone).len(), 1);
    // It is free as soon as its pod has ended.
    zone.apply_pod(&Pod { finished: true, ..first });
    assert!(doors(&zone)[0].contains("HostPort_ns1/web-0_"), "{:?}", doors(&zone));
    zone.delete_pod(&key("ns1", "web-0"));
    assert_eq!(doors(&zone), [""; 0]);
    let plan = host(&zone);
    assert_eq!(of(&plan, "host-port:"), "");
    let shut = |device: &str| Key::Setting(format!("ipv4/conf/{device}/route_localnet"));
    for device in ["ovn-k8s-mp0", "breth0"] {
        assert_eq!(of_setting(&plan, &shut(device)), "0", "{device}");
    }
}

fn of_setting(plan: &HostPlan, key: &Key) -> String {
    match plan.get(key) {
        Some(Item::Setting(setting)) => setting.value.clone(),
        other => panic!("{other:?}"),
    }
}

/// What cannot be read opens nothing, and is said of the pod.
#[test]
fn a_pod_that_asks_for_too_much_is_told() {
    let mut zone = zone(Ip::V4);
    let bad = Pod { host_ports: Err("the pod asks for more than 256 host ports".into()), ..plain(Ip::V4) };
    zone.apply_pod(&bad);
    assert_eq!(doors(&zone), [""; 0]);
    let told = zone.problems().values().any(|problem| problem.message.contains("more than 256 host ports"));
    assert!(told, "{:?}", zone.problems());
}
