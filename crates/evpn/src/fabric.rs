//! A VRF's place on the fabric: devices, what FRR is told, and the end of all ways. The agent and the node's own networks share it.

use std::net::{IpAddr, Ipv4Addr};

use causeway_types::host::{FrrSection, Item, Link, LinkKind, LinkState, Route, Setting, Target};
use causeway_types::{Cidr, Families, Family, Mac};
use ipnet::IpNet;

use crate::annotation::{RouteTarget, Vni};
use crate::names::Names;

/// A default route that every other one wins against: what has no way must not fall through to the node's own.
const LAST_METRIC: u32 = 4_278_198_272;

/// A VRF with its tunnels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fabric {
    /// The VRF.
    pub vrf: String,
    /// Its routing table.
    pub table: u32,
    /// Its number on the fabric, by which bridge and tunnels are called.
    pub vni: Vni,
    /// The node's end of all tunnels.
    pub vtep: Ipv4Addr,
    /// The UDP port of the tunnels.
    pub port: u16,
    /// The AS number of its BGP instance.
    pub asn: u32,
    /// What tells this node's routes apart.
    pub rd: String,
    /// Whose routes are taken.
    pub import: Vec<RouteTarget>,
    /// What its own routes are marked with.
    pub export: Vec<RouteTarget>,
    /// The families that others are told of.
    pub families: Families,
}

impl Fabric {
    /// Everything that the VRF needs but for the way into the tenant's network. What is connected with it is what others are told of.
    pub fn items(&self) -> Vec<Item> {
        let mut items = self.devices();
        items.extend(self.unreachable());
        items.extend(self.sections());
        items
    }

    fn devices(&self) -> Vec<Item> {
        let (names, local) = (Names::of(self.vni), self.vtep.into());
        let tunnels = LinkKind::Vxlan { id: self.vni.number(), port: self.port, local };
        // One MAC address for all tenants' routers of this node: others keep one for each node.
        let router = Mac::from_ip(local);
        let mut items = link(&self.vrf, LinkKind::Vrf { table: self.table }, None, None);
        items.extend(link(&names.bridge, LinkKind::Bridge, Some(router), Some(&self.vrf)));
        items.extend(link(&names.vxlan, tunnels, None, Some(&names.bridge)));
        let forwards =
            [&self.vrf, &names.bridge].map(|name| setting(&format!("ipv4/conf/{name}/forwarding"), "1"));
        items.into_iter().chain(forwards).collect()
    }

    fn unreachable(&self) -> impl Iterator<Item = Item> {
        let table = self.table;
        [IpAddr::from([0; 4]), IpAddr::from([0_u16; 8])].into_iter().map(move |everything| {
            let dest = Cidr::masked(IpNet::new_assert(everything, 0));
            Item::Route(Route {
                table,
                dest,
                metric: LAST_METRIC,
                target: Target::Unreachable,
                source: None,
                mtu: None,
            })
        })
    }

    fn sections(&self) -> [Item; 2] {
        let section = |first: String, lines: String| Item::Section(FrrSection { first, lines });
        let words: Vec<&str> = self.families.iter().map(word).collect();
        let family = |name: &str, lines: &str| format!("address-family {name}\n{lines}exit-address-family\n");
        let mut lines = format!("bgp router-id {}\n", self.vtep);
        for word in &words {
            lines.push_str(&family(&format!("{word} unicast"), " redistribute connected\n"));
        }
        let mut evpn: String = words.iter().map(|word| format!(" advertise {word} unicast\n")).collect();
        evpn.push_str(&format!(" rd {}\n", self.rd));
        let usual = RouteTarget::usual(self.asn, self.vni);
        evpn.push_str(&lines_of_targets("import", &self.import, &usual));
        evpn.push_str(&lines_of_targets("export", &self.export, &usual));
        lines.push_str(&family("l2vpn evpn", &evpn));
        [
            section(format!("vrf {}", self.vrf), format!("vni {}\n", self.vni)),
            section(format!("router bgp {} vrf {}", self.asn, self.vrf), lines),
        ]
    }
}

fn word(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ipv4",
        Family::Ipv6 => "ipv6",
    }
}

/// FRR takes the usual target by itself, and refuses to hear of it while it has no other: then it is not said, or said last.
fn lines_of_targets(word: &str, targets: &[RouteTarget], usual: &RouteTarget) -> String {
    if targets == std::slice::from_ref(usual) {
        return String::new();
    }
    let others = targets.iter().filter(|target| *target != usual);
    let all = others.chain(targets.iter().filter(|target| *target == usual));
    all.map(|target| format!(" route-target {word} {}\n", target.as_str())).collect()
}

pub(crate) fn link(name: &str, kind: LinkKind, mac: Option<Mac>, master: Option<&str>) -> Vec<Item> {
    let master = master.map(str::to_owned);
    let link = Link { name: name.to_owned(), kind, mac, mtu: None, master };
    [Item::Link(link)].into_iter().chain(up(name)).collect()
}

/// Switched on, and silent: none of these devices has a life of its own on IPv6.
pub(crate) fn up(name: &str) -> [Item; 2] {
    let quiet = setting(&format!("ipv6/conf/{name}/addr_gen_mode"), "1");
    [quiet, Item::State(LinkState { device: name.to_owned(), up: true })]
}

pub(crate) fn setting(path: &str, value: &str) -> Item {
    Item::Setting(Setting { path: path.to_owned(), value: value.to_owned() })
}
