//! The kernel as an output, in namespaces that end with the test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod node;

use causeway_host::{Applied, Error, Host as _, Kernel, Mark, follow_kernel};
use causeway_types::Family;
use causeway_types::host::{
    Address, HostPlan, Item, Key, Link, LinkKind, LinkState, MAIN_TABLE, Neighbour, Owner, Route, Rule,
    Selector, Setting, Target,
};
use node::{ip, on_own_node};
use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::time::Duration;

fn red() -> Owner {
    Owner::new("network:red")
}

fn blue() -> Owner {
    Owner::new("network:blue")
}

fn link(name: &str, kind: LinkKind) -> Link {
    Link { name: name.into(), kind, mac: None, mtu: None, master: None }
}

fn address(device: &str, net: &str) -> Item {
    Item::Address(Address::new(device, net.parse().unwrap()))
}

fn up(device: &str) -> Item {
    Item::State(LinkState { device: device.into(), up: true })
}

fn via(table: u32, dest: &str, via: &str, device: &str) -> Item {
    let target = Target::Forward { via: Some(via.parse().unwrap()), device: Some(device.into()) };
    Item::Route(Route { table, dest: dest.parse().unwrap(), metric: 0, target, source: None, mtu: None })
}

fn plan(items: impl IntoIterator<Item = Item>) -> HostPlan {
    let mut plan = HostPlan::default();
    items.into_iter().for_each(|item| plan.add(&red(), item));
    plan
}

/// Applies, and says how much was written; there are no problems.
fn written(plan: &HostPlan) -> usize {
    let applied = Kernel.apply_host(plan);
    assert!(applied.problems.is_empty(), "{}", problems(&applied).join("\n"));
    applied.writes
}

fn problems(applied: &Applied) -> Vec<String> {
    applied.problems.iter().map(ToString::to_string).collect()
}

/// A network's port on the node: the device is made by others.
fn management(device: &str, number: u8) -> Vec<Item> {
    vec![
        Item::Link(link(device, LinkKind::Given)),
        Item::Setting(Setting { path: format!("ipv4/conf/{device}/rp_filter"), value: "2".into() }),
        Item::Setting(Setting { path: format!("ipv6/conf/{device}/accept_dad"), value: "0".into() }),
        address(device, &format!("10.244.{number}.2/24")),
        address(device, &format!("fd00:10:244:{number}::2/64")),
        up(device),
        via(MAIN_TABLE, &format!("10.{number}.0.0/16"), &format!("10.244.{number}.1"), device),
        via(MAIN_TABLE, &format!("fd00:10:{number}::/48"), &format!("fd00:10:244:{number}::1"), device),
    ]
}

fn ours(table: &str) -> BTreeSet<String> {
    let both = ip(&format!("-4 route show proto 85 table {table}"))
        + &ip(&format!("-6 route show proto 85 table {table}"));
    both.lines().map(|line| line.split(" dev").next().unwrap_or_default().trim().to_owned()).collect()
}

fn addresses(device: &str) -> Vec<String> {
    let shown = ip(&format!("-o address show dev {device} scope global"));
    shown.lines().filter_map(|line| line.split_whitespace().nth(3).map(str::to_owned)).collect()
}

fn texts<const N: usize>(words: [&str; N]) -> BTreeSet<String> {
    words.map(str::to_owned).into()
}

#[test]
fn the_node_becomes_as_planned_and_then_nothing_is_written() {
    on_own_node();
    ip("tuntap add mp0 mode tap");
    ip("address add 192.0.2.9/24 dev mp0");
    assert_eq!(written(&plan(management("mp0", 1))), 9, "eight items, and the address that nobody plans");
    assert_eq!(addresses("mp0"), ["10.244.1.2/24", "fd00:10:244:1::2/64"]);
    assert_eq!(ours("main"), texts(["10.1.0.0/16 via 10.244.1.1", "fd00:10:1::/48 via fd00:10:244:1::1"]));
    assert!(ip("link show mp0").contains("alias causeway:given:network:red"));
    assert_eq!(written(&plan(management("mp0", 1))), 0);

    ip("route add 198.51.100.0/24 dev mp0");
    written(&plan(management("mp0", 2)));
    assert_eq!(addresses("mp0"), ["10.244.2.2/24", "fd00:10:244:2::2/64"]);
    assert_eq!(ours("main"), texts(["10.2.0.0/16 via 10.244.2.1", "fd00:10:2::/48 via fd00:10:244:2::1"]));
    assert!(ip("route show 198.51.100.0/24").contains("mp0"), "a foreign route stays");
    assert_eq!(written(&plan(management("mp0", 2))), 0);
}

/// A new address in the subnet of the old one is a secondary address, and goes with the old one: it is put back.
#[test]
fn an_address_changes_within_its_subnet() {
    on_own_node();
    ip("tuntap add mp0 mode tap");
    let first = [Item::Link(link("mp0", LinkKind::Given)), address("mp0", "10.244.1.2/24"), up("mp0")];
    let second = [Item::Link(link("mp0", LinkKind::Given)), address("mp0", "10.244.1.3/24"), up("mp0")];
    written(&plan(first));
    written(&plan(second));
    assert_eq!(addresses("mp0"), ["10.244.1.3/24"]);
}

#[test]
fn what_somebody_took_away_comes_back() {
    on_own_node();
    ip("tuntap add mp0 mode tap");
    let plan = plan(management("mp0", 1));
    written(&plan);
    for words in [
        "route del 10.1.0.0/16",
        "-6 route del fd00:10:1::/48",
        "address del fd00:10:244:1::2/64 dev mp0",
        "link set mp0 down",
        "link set mp0 alias none-of-yours",
        "address add 192.0.2.9/24 dev mp0",
    ] {
        ip(words);
        assert!(written(&plan) > 0, "{words}");
        assert_eq!(written(&plan), 0, "{words}");
        assert_eq!(ours("main").len(), 2, "{words}");
        assert_eq!(addresses("mp0").len(), 2, "{words}");
    }
}

#[test]
fn one_network_that_is_held_or_broken_stops_no_other() {
    on_own_node();
    ip("tuntap add mp1 mode tap");
    ip("tuntap add mp2 mode tap");
    let mut both = plan(management("mp1", 1));
    management("mp2", 2).into_iter().for_each(|item| both.add(&blue(), item));
    written(&both);

    let mut held = HostPlan::default();
    held.hold(red(), "its subnets are not known");
    assert!(written(&held) > 0);
    assert_eq!((addresses("mp1").len(), addresses("mp2").len()), (2, 0));
    assert_eq!(ours("main").len(), 2, "the routes of the network that is held");
    assert!(ip("link show mp2").contains("mp2"), "a device that others made is theirs to remove");

    ip("link del mp1");
    let applied = Kernel.apply_host(&both);
    assert!(
        matches!(applied.problems.as_slice(), [p] if matches!(&p.error, Error::NoLink(name) if name == "mp1")
            && p.owner == Some(red()) && p.key == Some(Key::Link("mp1".into()))),
        "{:?}",
        problems(&applied)
    );
    assert_eq!((addresses("mp2").len(), ours("main").len()), (2, 2));
    assert_eq!(written(&HostPlan::held("nothing is listed")), 0);
}

/// The kernel here has neither dummies nor VRFs: bridges and cables stand for all that we make.
#[test]
fn links_that_we_make_are_ours_to_change_and_to_remove() {
    on_own_node();
    let port = Link {
        mac: Some("0a:58:0a:00:00:01".parse().unwrap()),
        mtu: Some(1400),
        master: Some("br9".into()),
        ..link("a0", LinkKind::Cable { peer: "a1".into(), namespace: None })
    };
    let bridge = link("br9", LinkKind::Bridge);
    let first = plan([Item::Link(port.clone()), Item::Link(bridge.clone()), up("a0"), up("br9")]);
    assert_eq!(written(&first), 4);
    assert_eq!(written(&first), 0);
    let shown = ip("link show a0");
    for words in
        ["mtu 1400", "master br9", "link/ether 0a:58:0a:00:00:01", "alias causeway:made:network:red", ",UP"]
    {
        assert!(shown.contains(words), "{words} in {shown}");
    }

    ip("link set a0 mtu 1300");
    ip("link set a0 nomaster");
    assert_eq!(written(&first), 1);
    assert!(ip("link show a0").contains("mtu 1400"));

    ip("link add theirs type bridge");
    let other = link("a0", LinkKind::Bridge);
    assert_eq!(written(&plan([Item::Link(other), Item::Link(bridge.clone())])), 1, "another kind");
    let taken = Kernel.apply_host(&plan([
        Item::Link(link("theirs", LinkKind::Cable { peer: "x".into(), namespace: None })),
        Item::Link(bridge),
    ]));
    assert!(matches!(taken.problems.as_slice(), [p] if matches!(p.error, Error::Taken(_))));
    assert_eq!(written(&HostPlan::default()), 1);
    let links = ip("-o link show type bridge");
    assert_eq!(links.lines().count(), 1, "{links}");
}

/// A way into table 1007 with rules, and neighbours that need not be asked.
fn policy(table: u32, mac: &str) -> Vec<Item> {
    let blackhole = |dest: &str| {
        let dest = dest.parse().unwrap();
        Item::Route(Route {
            table: 1007,
            dest,
            metric: 4_000_000,
            target: Target::Blackhole,
            source: None,
            mtu: None,
        })
    };
    let rule = |family, from: &str| {
        let selector = Selector { from: Some(from.parse().unwrap()), ..Selector::default() };
        Item::Rule(Rule { family, priority: 200, selector, table })
    };
    let marked = |family| {
        let (mark, input) = (Some((0x1007, 0xffff)), Some("v0".into()));
        let selector = Selector { mark, input, ..Selector::default() };
        Item::Rule(Rule { family, priority: 300, selector, table })
    };
    let neighbour = |address: &str| {
        let (address, mac) = (address.parse().unwrap(), mac.parse().unwrap());
        Item::Neighbour(Neighbour { device: "v0".into(), address, mac })
    };
    let proxy = |address: &str| Item::Proxy { device: "v0".into(), address: address.parse().unwrap() };
    vec![
        via(1007, "10.7.0.0/16", "10.0.0.1", "v0"),
        via(1007, "fd00:7::/48", "fd00::1", "v0"),
        via(7, "0.0.0.0/0", "10.0.0.1", "v0"),
        blackhole("0.0.0.0/0"),
        blackhole("::/0"),
        rule(Family::Ipv4, "10.7.0.0/16"),
        rule(Family::Ipv6, "fd00:7::/48"),
        marked(Family::Ipv4),
        marked(Family::Ipv6),
        neighbour("10.0.0.1"),
        neighbour("fd00::1"),
        proxy("10.0.0.77"),
        proxy("fd00::77"),
    ]
}

#[test]
fn routes_rules_and_neighbours_stand_in_any_table() {
    on_own_node();
    ip("link add v0 type veth peer name v1");
    for words in ["link set v0 up", "link set v1 up", "address add 10.0.0.2/24 dev v0"] {
        ip(words);
    }
    ip("-6 address add fd00::2/64 dev v0 nodad");
    ip("neighbour add 10.0.0.8 lladdr 0a:58:0a:00:00:08 dev v0");
    ip("rule add pref 200 from 10.9.0.0/16 table 77");
    let first = plan(policy(1007, "0a:58:0a:00:00:01"));
    assert_eq!(written(&first), 13);
    assert_eq!(written(&first), 0);
    assert_eq!(
        ours("1007"),
        texts([
            "10.7.0.0/16 via 10.0.0.1",
            "fd00:7::/48 via fd00::1",
            "blackhole default metric 4000000",
            "blackhole default"
        ])
    );
    assert_eq!(written(&plan(policy(1008, "0a:58:0a:00:00:02"))), 6, "four rules, two neighbours");
    assert!(ip("rule show").contains("from 10.7.0.0/16 lookup 1008"));
    assert!(ip("-6 neighbour show").contains("0a:58:0a:00:00:02"));

    ip("rule del pref 300");
    ip("neighbour del 10.0.0.1 dev v0");
    assert_eq!(written(&plan(policy(1008, "0a:58:0a:00:00:02"))), 2);

    assert_eq!(written(&HostPlan::default()), 13);
    assert_eq!(ours("all"), BTreeSet::new());
    assert!(ip("rule show").contains("from 10.9.0.0/16 lookup 77"), "a foreign rule stays");
    assert!(ip("neighbour show").contains("10.0.0.8"), "a foreign neighbour stays");
    assert_eq!(ip("rule show").lines().count(), 4);
}

#[test]
fn a_route_that_somebody_else_has_is_said_and_stays() {
    on_own_node();
    ip("link add v0 type veth peer name v1");
    ip("link set v0 up");
    ip("address add 10.0.0.2/24 dev v0");
    ip("route add 10.7.0.0/16 via 10.0.0.9");
    let applied = Kernel.apply_host(&plan([
        via(MAIN_TABLE, "10.7.0.0/16", "10.0.0.1", "v0"),
        via(MAIN_TABLE, "10.8.0.0/16", "10.0.0.1", "v0"),
        via(MAIN_TABLE, "10.9.0.0/16", "192.0.2.1", "v0"),
    ]));
    let bad: Vec<String> = applied.problems.iter().map(|p| p.key.as_ref().unwrap().to_string()).collect();
    assert_eq!(bad, ["route to 10.7.0.0/16 in table 254", "route to 10.9.0.0/16 in table 254"]);
    assert!(matches!(applied.problems[0].error, Error::Taken(_)));
    assert!(ip("route show 10.7.0.0/16").contains("via 10.0.0.9"));
    assert_eq!(ours("main"), texts(["10.8.0.0/16 via 10.0.0.1"]));
}

#[test]
fn the_kernel_tells_when_somebody_takes_something_away() {
    on_own_node();
    ip("tuntap add mp0 mode tap");
    let plan = plan(management("mp0", 1));
    written(&plan);
    for words in
        ["route del 10.1.0.0/16", "address del 10.244.1.2/24 dev mp0", "link set mp0 down", "link del mp0"]
    {
        let (told, hears) = channel();
        follow_kernel(Mark::NODE, move || told.send(()).is_ok(), drop).unwrap();
        ip(words);
        hears.recv_timeout(Duration::from_secs(10)).unwrap_or_else(|_| panic!("nothing was told of {words}"));
    }
}

/// On a device that somebody else keeps, only what carries our mark goes.
#[test]
fn our_addresses_on_a_foreign_device_go_when_nobody_plans_them() {
    on_own_node();
    ip("tuntap add br-ex mode tap");
    ip("address add 192.0.2.9/24 dev br-ex");
    let masquerade = [address("br-ex", "169.254.0.2/17"), address("br-ex", "fd69::2/112"), up("br-ex")];
    let wanted = plan(masquerade.into_iter().chain([address("br-ex", "192.0.2.9/24")]));
    assert_eq!(written(&wanted), 3);
    assert_eq!(addresses("br-ex"), ["192.0.2.9/24", "169.254.0.2/17", "fd69::2/112"]);
    assert_eq!(written(&wanted), 0);
    assert_eq!(written(&HostPlan::default()), 2, "those that somebody else has set stay, planned or not");
    assert_eq!(addresses("br-ex"), ["192.0.2.9/24"]);
}

#[test]
fn a_route_has_a_source_and_an_mtu() {
    on_own_node();
    ip("tuntap add br-ex mode tap");
    let route = |dest: &str, next_hop: &str, from: Option<&str>, mtu: Option<u32>| {
        let Item::Route(plain) = via(MAIN_TABLE, dest, next_hop, "br-ex") else { unreachable!() };
        Item::Route(Route { source: from.map(|from| from.parse().unwrap()), mtu, ..plain })
    };
    let planned = |from: bool, mtu: Option<u32>| {
        plan([
            address("br-ex", "169.254.0.2/17"),
            address("br-ex", "fd69::2/112"),
            up("br-ex"),
            route("10.96.0.0/16", "169.254.0.4", from.then_some("169.254.0.2"), mtu),
            route("fd00:96::/112", "fd69::4", from.then_some("fd69::2"), mtu),
        ])
    };
    for (from, mtu) in
        [(true, Some(1400)), (true, Some(1300)), (false, Some(1300)), (false, None), (true, None)]
    {
        assert!(written(&planned(from, mtu)) >= 2, "{from} {mtu:?}");
        assert_eq!(written(&planned(from, mtu)), 0, "{from} {mtu:?}");
        let shown = ip("-4 route show 10.96.0.0/16") + &ip("-6 route show fd00:96::/112");
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert_eq!(
            shown.matches(" src 169.254.0.2").count() + shown.matches(" src fd69::2").count(),
            if from { 2 } else { 0 }
        );
        assert_eq!(shown.matches("mtu ").count(), if mtu.is_some() { 2 } else { 0 }, "{shown}");
        assert!(mtu.is_none_or(|mtu| shown.matches(&format!("mtu {mtu}")).count() == 2), "{shown}");
    }
}

/// An address that stands for the node in one place only must not become the source of everything else.
#[test]
fn an_address_that_is_not_preferred_is_never_chosen() {
    on_own_node();
    ip("link add d0 type veth peer name d1");
    ip("link set d0 up");
    ip("link set d1 up");
    let masquerade = |preferred| {
        let net = "fd69::2/128".parse().unwrap();
        plan([
            address("d0", "2001:db8::1/64"),
            Item::Address(Address { preferred, ..Address::new("d0", net) }),
        ])
    };
    let is_deprecated = || ip("-6 -o address show dev d0 to fd69::2").contains("deprecated");
    assert_eq!(written(&masquerade(false)), 2);
    assert!(is_deprecated());
    assert_eq!(written(&masquerade(false)), 0);
    ip("-6 route add fd69::/112 dev d0");
    let source = ip("-6 route get fd69::4");
    assert!(source.contains("src 2001:db8::1"), "the nearest address would be fd69::2: {source}");
    // Somebody else's hand, and another plan.
    ip("address change fd69::2/128 dev d0 preferred_lft forever");
    assert_eq!((is_deprecated(), written(&masquerade(false)), is_deprecated()), (false, 1, true));
    assert_eq!((written(&masquerade(true)), is_deprecated()), (1, false));
    let source = ip("-6 route get fd69::4");
    assert!(source.contains("src fd69::2"), "{source}");
}
