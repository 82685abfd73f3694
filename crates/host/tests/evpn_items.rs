//! What the EVPN agent plans beside what others plan: tunnels, addresses for show, ports of bridges; in namespaces that end with the test.
//! VRFs and dummies are in `crates/causeway/tests`, on a kernel that has them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod node;

use causeway_host::{Applied, BridgePorts, Kernel, KernelOutput, Mark, bring, follow_addresses};
use causeway_testing::{Switch, program};
use causeway_types::host::{Address, BridgePort, HostPlan, Item, Link, LinkKind, LinkState, Owner, Setting};
use node::{ip, on_own_node};

fn plan(items: impl IntoIterator<Item = Item>) -> HostPlan {
    let mut plan = HostPlan::default();
    items.into_iter().for_each(|item| plan.add(&Owner::new("evpn:1001"), item));
    plan
}

fn link(name: &str, kind: LinkKind, master: Option<&str>) -> Item {
    let master = master.map(str::to_owned);
    Item::Link(Link { name: name.into(), kind, mac: None, mtu: None, master })
}

fn clean(Applied { writes, problems }: Applied) -> usize {
    assert!(problems.is_empty(), "{problems:?}");
    writes
}

fn written(plan: &HostPlan) -> usize {
    clean(bring(&mut KernelOutput::open(Mark::EVPN).unwrap(), plan))
}

#[test]
fn tunnels_follow_the_plan() {
    on_own_node();
    ip("link add vxlan-9 type vxlan id 9 dstport 4789");
    let tunnels = |id: u32, local: &str| {
        let kind = LinkKind::Vxlan { id, port: 4789, local: local.parse().unwrap() };
        plan([link("br-1001", LinkKind::Bridge, None), link("vxlan-1001", kind, Some("br-1001"))])
    };
    let shown = || ip("-d -o link show vxlan-1001");
    assert_eq!(written(&tunnels(1001, "10.255.0.1")), 2);
    assert!(
        shown().contains("vxlan id 1001 local 10.255.0.1 ") && shown().contains(" nolearning "),
        "{}",
        shown()
    );
    assert!(shown().contains(" dstport 4789 ") && shown().contains(" master br-1001 "), "{}", shown());
    assert_eq!(written(&tunnels(1001, "10.255.0.1")), 0);
    for (id, local) in [(1002, "10.255.0.1"), (1002, "10.255.0.2"), (1002, "fd00::2")] {
        assert_eq!(written(&tunnels(id, local)), 1, "another one takes its place");
        assert!(shown().contains(&format!("vxlan id {id} local {local} ")), "{}", shown());
    }
    assert_eq!(written(&HostPlan::default()), 2);
    assert_eq!(ip("-o link show type bridge"), "");
    assert!(ip("-o link show type vxlan").contains("vxlan-9"), "somebody else's stays");
}

/// Defects 3 and 5: the address is there, and nothing leads to it; also after the device was switched off and on.
#[test]
fn addresses_for_show_are_delivered_to_nobody() {
    on_own_node();
    let shown = |delivered: bool| {
        let address =
            |net: &str| Item::Address(Address { delivered, ..Address::new("d0", net.parse().unwrap()) });
        plan([
            link("d0", LinkKind::Bridge, None),
            address("20.0.0.241/32"),
            address("2001:db8::f1/128"),
            Item::State(LinkState { device: "d0".into(), up: true }),
        ])
    };
    let routes = || {
        let both = ip("-4 route show table all") + &ip("-6 route show table all");
        both.lines().filter(|line| line.contains("20.0.0.241") || line.contains("2001:db8::f1")).count()
    };
    let addresses = || ip("-o address show dev d0 scope global").lines().count();
    // The kernel makes IPv6 routes a moment after the address.
    let settled = || {
        (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            written(&shown(false)) == 0
        })
    };
    assert!(written(&shown(false)) >= 4);
    assert!(settled());
    assert_eq!((addresses(), routes()), (2, 0));
    ip("link set d0 down");
    ip("link set d0 up");
    // The kernel forgets an IPv6 address with its link.
    assert!(routes() > 0, "they come back with the device");
    assert!(written(&shown(false)) > 0 && settled());
    assert_eq!((addresses(), routes()), (2, 0));
    // One that was there already, by a process that died in between.
    ip("route add local 20.0.0.241 dev d0 table local proto kernel scope host src 20.0.0.241");
    assert_eq!((written(&shown(false)), routes()), (1, 0));
}

#[test]
fn ports_of_bridges_follow_the_plan_and_others_stay() {
    on_own_node();
    ip("link set lo up");
    let switch = Switch::start();
    switch.add_bridge("br-ex");
    switch.add_bridge("br-vlan");
    ip("link add vo-1001 type veth peer name vv-1001");
    ip("link add theirs type veth peer name other");
    switch.vsctl(&["add-port", "br-ex", "theirs"]);
    let mut output = BridgePorts::new(program("ovs-vsctl"), switch.database.remote(), BridgePorts::EVPN);
    let port = |name: &str, bridge: &str, tag: Option<u16>| {
        let (name, bridge) = (name.to_owned(), bridge.to_owned());
        Item::BridgePort(BridgePort { name, bridge, internal: tag.is_some(), tag })
    };
    let both = plan([port("vo-1001", "br-ex", None), port("vlan-1002", "br-vlan", Some(100))]);
    assert_eq!(clean(bring(&mut output, &both)), 2);
    assert_eq!(clean(bring(&mut output, &both)), 0, "unchanged, nothing is written");
    assert_eq!(switch.vsctl(&["list-ports", "br-ex"]), "theirs\nvo-1001\n");
    assert_eq!(switch.vsctl(&["get", "Port", "vlan-1002", "tag"]), "100\n");
    assert_eq!(switch.vsctl(&["get", "Interface", "vlan-1002", "type"]), "internal\n");

    // Another bridge, another VLAN, and somebody else's hand.
    switch.vsctl(&["del-port", "vo-1001"]);
    let moved = plan([port("vo-1001", "br-vlan", None), port("vlan-1002", "br-vlan", Some(101))]);
    assert_eq!(clean(bring(&mut output, &moved)), 2);
    assert_eq!(switch.vsctl(&["get", "Port", "vlan-1002", "tag"]), "101\n");
    assert_eq!(switch.vsctl(&["list-ports", "br-vlan"]), "vlan-1002\nvo-1001\n");

    // What is somebody else's stays so, and a bridge that is missing holds its own ports alone.
    let bad = plan([
        port("theirs", "br-ex", None),
        port("vo-1001", "br-none", None),
        port("vlan-1002", "br-vlan", Some(101)),
    ]);
    let applied = bring(&mut output, &bad);
    assert_eq!(applied.problems.len(), 1, "{:?}", applied.problems);
    assert!(
        applied.problems.iter().any(|problem| problem.to_string().contains("br-none")),
        "{:?}",
        applied.problems
    );
    assert_eq!(switch.vsctl(&["get", "Port", "vlan-1002", "tag"]), "101\n");
    clean(bring(&mut output, &HostPlan::default()));
    assert_eq!(
        switch.vsctl(&["list-ports", "br-vlan"]) + &switch.vsctl(&["list-ports", "br-ex"]),
        "theirs\n"
    );
}

/// A node that becomes a router does not lose the way out that another router has told it of.
#[test]
fn a_node_that_forwards_goes_on_hearing_the_router_it_has() {
    on_own_node();
    let heard = |device: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{device}/accept_ra"));
        text.unwrap().trim().to_owned()
    };
    for device in ["told", "silent", "deaf"] {
        ip(&format!("link add {device} type bridge"));
        ip(&format!("link set {device} up"));
    }
    for (device, metric) in [("told", 1024), ("deaf", 1025)] {
        ip(&format!("-6 route add default via fe80::1 dev {device} proto ra metric {metric}"));
    }
    std::fs::write("/proc/sys/net/ipv6/conf/deaf/accept_ra", "0").unwrap();
    let setting = Setting { path: "ipv6/conf/all/forwarding".into(), value: "1".into() };
    assert_eq!(written(&plan([Item::Setting(setting)])), 1);
    assert_eq!(["told", "silent", "deaf"].map(heard), ["2", "1", "0"]);
}

#[test]
fn addresses_of_one_device_are_asked_for_and_heard_of() {
    on_own_node();
    ip("link add d0 type bridge");
    ip("link add d1 type bridge");
    let (told, heard) = std::sync::mpsc::channel();
    follow_addresses("d0", Mark::EVPN, move || told.send(()).is_ok(), drop).unwrap();
    let there = || -> Vec<String> {
        Kernel.addresses_of("d0").unwrap().iter().map(|address| address.net.to_string()).collect()
    };
    assert_eq!(there(), Vec::<String>::new());
    let own = Item::Address(Address::new("d1", "20.0.0.1/32".parse().unwrap()));
    assert_eq!(written(&plan([own])), 1);
    assert!(heard.try_recv().is_err(), "what the agent makes itself is no news");
    ip("address add 10.255.0.1/32 dev d0");
    heard.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
    assert_eq!(there(), ["10.255.0.1/32"]);
    assert!(Kernel.addresses_of("nobody").unwrap().is_empty());
}
