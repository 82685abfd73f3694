//! The cables between nodes, the control plane and the host outside.
//!
//! ```text
//!   control   outside    n1          n2
//!    eth0      eth0     eth0─br-ex  eth0─br-ex     addresses on eth0, of nodes on br-ex
//!      └─────────┴────────┴───────────┴─── br0 in `underlay`
//!
//!   outside ──1280── narrows ──1500── far
//! ```

use super::{CONTROL, FAR, NARROWS, OUTSIDE};
use crate::address::{self, node_host, underlay};
use crate::network::{self, Network};
use crate::wanted::{Node, Plugin, Wanted};
use causeway_types::Cidr;
use causeway_types::host::{Address, Item, Link, LinkKind, LinkState, MAIN_TABLE, Route, Setting, Target};
use ipnet::IpNet;

const UNDERLAY: &str = "underlay";
const BRIDGE: &str = "br0";
/// Of the cable behind `outside`: less than either end has, so that somebody on the way must tell them.
const NARROW_MTU: u32 = 1280;

fn state(link: &str, up: bool) -> Item {
    Item::State(LinkState { device: link.into(), up })
}

fn setting(path: &str, value: &str) -> Item {
    Item::Setting(Setting { path: path.into(), value: value.into() })
}

fn address(link: &str, net: IpNet) -> Item {
    Item::Address(Address::new(link, net))
}

fn route(to: IpNet, via: IpNet) -> Item {
    let target = Target::Forward { via: Some(via.addr()), device: None };
    Item::Route(Route {
        table: MAIN_TABLE,
        dest: Cidr::masked(to),
        metric: 0,
        target,
        source: None,
        mtu: None,
    })
}

fn link(name: &str, kind: LinkKind, master: Option<&str>) -> Item {
    let master = master.map(str::to_owned);
    Item::Link(Link { name: name.into(), kind, mac: None, mtu: None, master })
}

/// All that is there before any process runs.
pub(super) fn network(wanted: &Wanted) -> Network {
    let mut network = Network::new(network::UNDERLAY);
    network.add(UNDERLAY, [link(BRIDGE, LinkKind::Bridge, None), state(BRIDGE, true)]);
    for (name, host) in [(CONTROL, address::CONTROL), (OUTSIDE, address::OUTSIDE)] {
        cable(&mut network, name, false);
        network.add(name, [ipv6("eth0")]);
        let addresses = wanted.families.iter().map(|family| address("eth0", underlay(*family, host)));
        network.add(name, addresses);
    }
    far(&mut network, wanted);
    for (name, node) in wanted.running() {
        cable(&mut network, name, node.partitioned);
        network.add(name, forwarding());
        network.add(name, silent_uplink());
        // Ways to the pods, for whoever stands outside of the cluster. Causeway has no such ways: pods live in overlays.
        let bridged = wanted.families.iter().filter(|_| wanted.plugin == Plugin::Bridge);
        for (family, place) in bridged.flat_map(|f| [(f, CONTROL), (f, OUTSIDE)]) {
            let via = underlay(*family, node_host(node.index));
            network.add(place, [route(address::pods(*family, node.index), via)]);
        }
    }
    network
}

fn forwarding() -> [Item; 2] {
    ["ipv4/ip_forward", "ipv6/conf/all/forwarding"].map(|path| setting(path, "1"))
}

/// The kernel hears what comes by a port of the switch too, and would answer ARP for the bridge's addresses with the MAC
/// address of the port: packets would come by a way that passes the bridge by.
fn silent_uplink() -> [Item; 2] {
    [("ipv4/conf/eth0/arp_ignore", "1"), ("ipv6/conf/eth0/disable_ipv6", "1")].map(|(p, v)| setting(p, v))
}

/// A host behind two routers, with little room between them: `outside` and `narrows`.
fn far(network: &mut Network, wanted: &Wanted) {
    road(network, OUTSIDE, NARROWS, Some(NARROW_MTU));
    road(network, NARROWS, FAR, None);
    for place in [OUTSIDE, NARROWS] {
        network.add(place, forwarding());
    }
    for family in &wanted.families {
        let (router, behind) = (address::ROUTER, address::BEHIND);
        let narrows = [router, behind].map(|host| address::narrows(*family, host));
        let far = [router, behind].map(|host| address::far(*family, host));
        let out = |via: IpNet| route(address::anywhere(*family), via);
        network.add(OUTSIDE, [address(NARROWS, narrows[0]), route(far[0], narrows[1])]);
        network.add(CONTROL, [route(far[0], underlay(*family, address::OUTSIDE))]);
        network.add(NARROWS, [address("eth0", narrows[1]), address(FAR, far[0]), out(narrows[0])]);
        network.add(FAR, [address("eth0", far[1]), out(far[0])]);
    }
}

/// A cable between two namespaces: it has the name of the far one here, and is its `eth0`.
fn road(network: &mut Network, here: &str, there: &str, mtu: Option<u32>) {
    let kind = LinkKind::Cable { peer: "eth0".into(), namespace: Some(there.into()) };
    let near = Link { name: there.into(), kind, mac: None, mtu, master: None };
    network.add(here, [Item::Link(near), ipv6(there), state(there, true)]);
    let end = Link { name: "eth0".into(), kind: LinkKind::Given, mac: None, mtu, master: None };
    network.add(there, [Item::Link(end), ipv6("eth0")]);
    switch_on(network, there);
}

/// A namespace with its cable to the underlay. A partition cuts it at the far end, so the node sees a dead link.
fn cable(network: &mut Network, namespace: &str, cut: bool) {
    let kind = LinkKind::Cable { peer: "eth0".into(), namespace: Some(namespace.into()) };
    network.add(UNDERLAY, [link(namespace, kind, Some(BRIDGE)), state(namespace, !cut)]);
    switch_on(network, namespace);
}

/// Not for `all`: that would switch it on at the host's ends of pods' cables too.
fn ipv6(link: &str) -> Item {
    setting(&format!("ipv6/conf/{link}/disable_ipv6"), "0")
}

fn switch_on(network: &mut Network, namespace: &str) {
    network.add(namespace, ["default", "lo"].map(ipv6));
    network.add(namespace, [state("lo", true), state("eth0", true)]);
}

/// What holds once a node's bridge is there: its addresses, its way out, and with the bridge plugin ways to the pods of
/// all other nodes.
pub(super) fn on_bridge(name: &str, node: &Node, wanted: &Wanted) -> Network {
    let mut network = Network::new(network::ON_BRIDGE);
    network.add(name, [state("br-ex", true)]);
    for family in &wanted.families {
        let own = underlay(*family, node_host(node.index));
        let out = route(address::anywhere(*family), underlay(*family, address::OUTSIDE));
        network.add(name, [address("br-ex", own), out]);
        let others = wanted.nodes.values().filter(|other| other.index != node.index);
        let others = others.filter(|_| wanted.plugin == Plugin::Bridge);
        let way = |other: &Node| {
            route(address::pods(*family, other.index), underlay(*family, node_host(other.index)))
        };
        network.add(name, others.map(way));
    }
    network
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Family;
    use crate::machine::run;
    use crate::network::apply;
    use crate::plan::unit::Command;
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};

    #[test]
    fn a_partition_switches_the_far_end_off() {
        let mut wanted = Wanted::new("test", 1, vec![Family::Ipv4], 1).unwrap();
        wanted.node_mut("n1").unwrap().partitioned = true;
        let text = network(&wanted).text(UNDERLAY);
        assert!(text.contains("link n1: cable to eth0 in n1, port of br0"), "{text}");
        assert!(text.contains("state of n1: off") && text.contains("state of control: on"), "{text}");
    }

    #[test]
    fn a_node_has_its_address_and_its_way_out_on_the_bridge() {
        let wanted = Wanted::new("test", 2, vec![Family::Ipv4], 1).unwrap();
        let (name, node) = wanted.running().next().unwrap();
        assert_eq!(
            on_bridge(name, node, &wanted).text(name),
            "address 172.30.0.11/24 of br-ex (sandbox)\n\
             state of br-ex: on (sandbox)\n\
             route to 0.0.0.0/0 in table 254: via 172.30.0.2 (sandbox)\n"
        );
    }

    /// A machine of the test's own: its thread sees no named namespaces but those that it makes.
    fn on_own_machine() {
        unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).expect("tests of the network need root");
        let nothing = None::<&str>;
        mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing).unwrap();
        mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), nothing).unwrap();
    }

    fn ip(words: &str) -> String {
        run(&Command::new(std::iter::once("ip").chain(words.split(' ')))).unwrap()
    }

    #[test]
    fn cables_are_laid_once_cut_and_mended() {
        on_own_machine();
        let mut wanted = Wanted::new("test", 1, vec![Family::Ipv4, Family::Ipv6], 1).unwrap();
        apply(&network(&wanted)).unwrap();
        let cable = || ip("-n underlay -o link show n1");
        let first = cable();
        apply(&network(&wanted)).unwrap();
        assert_eq!(cable(), first);
        assert!(ip("-n n1 link show eth0").contains("LOWER_UP"));
        assert!(ip("-n control address show eth0").contains("172.30.0.1/24"));
        assert!(ip("-n outside -6 address show eth0").contains("fd00:172:30::2/64"));
        assert!(ip("-n outside link show narrows").contains("mtu 1280"));
        assert!(ip("-n narrows link show eth0").contains("mtu 1280"));
        assert!(ip("-n far link show eth0").contains("mtu 1500"));
        assert!(ip("-n far -6 route show default").contains("via fd00:172:31:1::1"));
        assert_eq!(ip("-n n1 -6 address show eth0"), "", "the uplink has no address of its own");

        wanted.node_mut("n1").unwrap().partitioned = true;
        apply(&network(&wanted)).unwrap();
        assert!(ip("-n n1 link show eth0").contains("NO-CARRIER"));
        wanted.node_mut("n1").unwrap().partitioned = false;
        apply(&network(&wanted)).unwrap();
        assert!(ip("-n n1 link show eth0").contains("LOWER_UP"));

        wanted.nodes.clear();
        apply(&network(&wanted)).unwrap();
        assert_eq!(
            ip("-n underlay -o link show type veth").lines().count(),
            2,
            "its cable goes with the node"
        );
    }
}
