//! The plan of one VNI: devices, routes, neighbours, flows, FRR's sections, and the addresses of the machines.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_types::host::{
    Address, BridgePort, Flow, Item, Key, LinkKind, LinkState, Neighbour, Route, Target,
};
use causeway_types::{Cidr, Family, Mac};
use ipnet::IpNet;
use uuid::Uuid;

use crate::annotation::{Vni, Vpn};
use crate::fabric::{self, Fabric};
use crate::holders::Holders;
use crate::names::{Names, distinguisher, leg_mac, or_usual};
use crate::node::Node;
use crate::southbound::{Gateway, Southbound, Subnet};
use crate::status::{GatewayStatus, Refused, SubnetStatus, VniStatus};

/// Before the rule of a provider's bridge for everybody.
const FLOW_PRIORITY: u16 = 1000;

/// What is planned for a VNI, and what is not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) items: BTreeMap<Key, Item>,
    pub(crate) status: Option<VniStatus>,
    pub(crate) refused: Vec<Refused>,
    pub(crate) holders: Holders,
}

/// How a VRF is connected with a provider's bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leg {
    bridge: String,
    /// The bridge's end of OVN's patch.
    patch: String,
    tag: Option<u16>,
}

/// A way that a gateway wants to be.
struct Way<'a> {
    /// The annotated port.
    port: &'a str,
    range: Cidr,
    /// The gateway's address and the switch behind it; nothing for the gateway itself.
    behind: Option<(IpAddr, Uuid)>,
}

/// Plans a VNI. Without a gateway here there is nothing.
pub(crate) fn plan(southbound: &Southbound, node: &Node, vni: Vni, before: &Holders) -> Part {
    let mut part = Part::default();
    let mut fit = Vec::new();
    for gateway in gateways_here(southbound, node, vni) {
        match leg_of(southbound, node, &gateway) {
            Ok(leg) => fit.push((gateway, leg)),
            Err(reason) => part.refused.push(Refused { port: gateway.port.to_owned(), reason }),
        }
    }
    fit.sort_by_key(|(gateway, leg)| before.rank(gateway, leg));
    let Some((first, leg)) = fit.first() else { return part };
    let (vpn, leg) = (first.vpn, leg.clone());
    // From here on by name, so that the same picture is always told in the same words.
    fit.sort_by_key(|(gateway, _)| gateway.port);
    let (taken, others): (Vec<_>, Vec<_>) =
        fit.into_iter().partition(|(gateway, there)| gateway.vpn == vpn && *there == leg);
    let first = taken.first().map_or("", |(gateway, _)| gateway.port);
    for (gateway, _) in others {
        let what = if gateway.vpn == vpn {
            "on another provider's network"
        } else {
            "with another AS number or other route targets"
        };
        let reason = format!("{first} has the same VNI {what}");
        part.refused.push(Refused { port: gateway.port.to_owned(), reason });
    }
    let taken: Vec<Gateway<'_>> = taken.into_iter().map(|(gateway, _)| gateway).collect();
    let mut draft = Draft::new(node, vpn, leg);
    draft.gateways(southbound, &taken, before);
    draft.finish(part)
}

/// The gateways of a VNI that live on this node.
pub(crate) fn gateways_here<'a>(
    southbound: &'a Southbound,
    node: &'a Node,
    vni: Vni,
) -> impl Iterator<Item = Gateway<'a>> {
    southbound.gateways(vni).filter(|gateway| gateway.chassis == Some(node.chassis.as_str()))
}

fn leg_of(southbound: &Southbound, node: &Node, gateway: &Gateway<'_>) -> Result<Leg, String> {
    if gateway.mac.is_none() || gateway.addresses.is_empty() {
        return Err("its gateway has no MAC address or no IP address".into());
    }
    let mut unmapped = BTreeSet::new();
    for (localnet, network, tag) in southbound.localnets(gateway.provider) {
        match node.mappings.get(network) {
            Some(bridge) => return Ok(Leg { bridge: bridge.clone(), patch: node.patch(localnet), tag }),
            None => drop(unmapped.insert(network)),
        }
    }
    let names = unmapped.into_iter().collect::<Vec<_>>().join(", ");
    Err(match names.is_empty() {
        true => "its switch has no localnet port".into(),
        false => format!("this node has no bridge for {names}; add it to ovn-bridge-mappings"),
    })
}

struct Draft<'a> {
    node: &'a Node,
    vpn: &'a Vpn,
    leg: Leg,
    names: Names,
    items: BTreeMap<Key, Item>,
    status: VniStatus,
    refused: Vec<Refused>,
    holders: Holders,
}

impl<'a> Draft<'a> {
    fn new(node: &'a Node, vpn: &'a Vpn, leg: Leg) -> Self {
        let (vni, names) = (vpn.vni, Names::of(vpn.vni));
        let rd = vpn.rd.as_ref().map_or_else(|| distinguisher(node.vtep, vni), |rd| rd.as_str().to_owned());
        let status = VniStatus {
            vni,
            asn: vpn.asn,
            vrf: names.vrf.clone(),
            rd,
            import: or_usual(&vpn.import, vpn.asn, vni),
            export: or_usual(&vpn.export, vpn.asn, vni),
            bridge: leg.bridge.clone(),
            tag: leg.tag,
            gateways: Vec::new(),
            subnets: Vec::new(),
            waits: Vec::new(),
        };
        let (items, refused, holders) = (BTreeMap::new(), Vec::new(), Holders::default());
        let mut draft = Self { node, vpn, leg, names, items, status, refused, holders };
        draft.fabric();
        draft.leg();
        draft
    }

    /// The first one has a key.
    fn add(&mut self, item: Item) {
        self.items.entry(item.key()).or_insert(item);
    }

    fn link(&mut self, name: &str, kind: LinkKind, mac: Option<Mac>, master: Option<&str>) {
        self.add_all(fabric::link(name, kind, mac, master));
    }

    fn add_all(&mut self, items: impl IntoIterator<Item = Item>) {
        for item in items {
            self.add(item);
        }
    }

    fn setting(&mut self, path: &str, value: &str) {
        self.add(fabric::setting(path, value));
    }

    /// VRF, bridge, tunnels, and the device with the addresses for show.
    fn fabric(&mut self) {
        let fabric = Fabric {
            vrf: self.names.vrf.clone(),
            table: self.vpn.vni.number(),
            vni: self.vpn.vni,
            vtep: self.node.vtep,
            port: self.node.vxlan_port,
            asn: self.vpn.asn,
            rd: self.status.rd.clone(),
            import: self.status.import.clone(),
            export: self.status.export.clone(),
            families: Family::ALL.into_iter().collect(),
        };
        self.add_all(fabric.items());
        let names = self.names.clone();
        self.link(&names.dummy, LinkKind::Dummy, None, Some(&names.vrf));
    }

    /// The VRF's own device on the provider's bridge.
    fn leg(&mut self) {
        let (names, bridge, tag) = (self.names.clone(), self.leg.bridge.clone(), self.leg.tag);
        let mac = Some(leg_mac(self.node.vtep, self.vpn.vni));
        let port = self.port_name();
        self.add(Item::BridgePort(BridgePort { name: port.clone(), bridge, internal: tag.is_some(), tag }));
        if tag.is_none() {
            let kind = LinkKind::Cable { peer: names.cable_end.clone(), namespace: None };
            self.link(&names.cable, kind, mac, Some(&names.vrf));
            self.setting(&format!("ipv6/conf/{}/disable_ipv6", names.cable_end), "1");
            self.add(Item::State(LinkState { device: names.cable_end, up: true }));
        } else {
            self.link(&port, LinkKind::Given, mac, Some(&names.vrf));
        }
        self.setting(&format!("ipv4/conf/{}/forwarding", self.device()), "1");
    }

    /// The device by which the VRF reaches the provider's bridge.
    fn device(&self) -> String {
        if self.leg.tag.is_some() { self.names.vlan.clone() } else { self.names.cable.clone() }
    }

    /// The port of the bridge at the other end.
    fn port_name(&self) -> String {
        if self.leg.tag.is_some() { self.names.vlan.clone() } else { self.names.cable_end.clone() }
    }

    fn route(&mut self, dest: Cidr, target: Target) {
        let table = self.vpn.vni.number();
        self.add(Item::Route(Route { table, dest, metric: 0, target, source: None, mtu: None }));
    }

    /// The gateways with their ways, as far as nobody else has them.
    fn gateways(&mut self, southbound: &Southbound, gateways: &[Gateway<'_>], before: &Holders) {
        let all: Vec<(&Gateway<'_>, Way<'_>)> = gateways
            .iter()
            .flat_map(|one| self.ways(southbound, one).into_iter().map(move |way| (one, way)))
            .collect();
        let settled = before.settle(all.iter().map(|(gateway, way)| (way.range, gateway.port)));
        for gateway in gateways {
            let (port, addresses) = (gateway.port.to_owned(), gateway.addresses.to_vec());
            self.status.gateways.extend(gateway.mac.map(|mac| GatewayStatus { port, mac, addresses }));
        }
        for (gateway, way) in all {
            if settled.get(&way.range).is_some_and(|holder| holder == gateway.port) {
                gateway.mac.into_iter().for_each(|mac| self.way(southbound, mac, &way));
            } else {
                let reason =
                    format!("{} is behind another gateway of VNI {} already", way.range, self.vpn.vni);
                self.refused.push(Refused { port: way.port.to_owned(), reason });
            }
        }
        let names = gateways.iter().map(|gateway| gateway.port.to_owned());
        self.holders = Holders::new(names, (self.vpn.clone(), self.leg.clone()), settled);
    }

    /// What a gateway wants to be the way to: itself, and the subnets behind it.
    fn ways<'s>(&mut self, southbound: &'s Southbound, gateway: &Gateway<'s>) -> Vec<Way<'s>> {
        let host = |address: &IpAddr| Way { port: gateway.port, range: Cidr::host(*address), behind: None };
        let mut ways: Vec<Way<'s>> = gateway.addresses.iter().map(host).collect();
        for subnet in southbound.subnets(gateway.router) {
            if let Err(reason) = self.fits(southbound, gateway, &subnet) {
                self.refused.push(Refused { port: subnet.port.to_owned(), reason });
                continue;
            }
            let mut reasons = Vec::new();
            for range in subnet.cidrs {
                let of_family = |address: &&IpAddr| Cidr::host(**address).family() == range.family();
                match gateway.addresses.iter().find(of_family) {
                    Some(via) => {
                        ways.push(Way { port: subnet.port, range, behind: Some((*via, subnet.switch)) })
                    }
                    None => {
                        let family = range.family();
                        reasons
                            .push(format!("{} has no {family} address, so {range} has no way", gateway.port));
                    }
                }
            }
            if !reasons.is_empty() {
                self.refused.push(Refused { port: subnet.port.to_owned(), reason: reasons.join("; ") });
            }
        }
        ways
    }

    /// Whether a subnet belongs to the same VPN as its router's gateway.
    fn fits(
        &self,
        southbound: &Southbound,
        gateway: &Gateway<'_>,
        subnet: &Subnet<'_>,
    ) -> Result<(), String> {
        let (theirs, ours) = (subnet.vpn, self.vpn);
        if (theirs.vni, theirs.asn) != (ours.vni, ours.asn) {
            return Err(format!(
                "it has VNI {} and AS {}, its router's gateway {} has VNI {} and AS {}",
                theirs.vni, theirs.asn, gateway.port, ours.vni, ours.asn
            ));
        }
        match southbound.localnets(subnet.switch).next() {
            Some(_) => Err("it is on a provider's network".into()),
            None => Ok(()),
        }
    }

    /// The way to a gateway, or to a range behind it with its machines, and back.
    fn way(&mut self, southbound: &Southbound, mac: Mac, way: &Way<'_>) {
        let device = self.device();
        let Some((via, switch)) = way.behind else {
            let address = way.range.base();
            self.route(way.range, Target::Forward { via: None, device: Some(device.clone()) });
            self.add(Item::Neighbour(Neighbour { device, address, mac }));
            if self.node.expose_gateways {
                self.show(address);
                self.flow(mac, way.range);
            }
            return;
        };
        self.route(way.range, Target::Forward { via: Some(via), device: Some(device) });
        self.flow(mac, way.range);
        let machines: BTreeSet<IpAddr> =
            southbound.machines(switch).filter(|machine| way.range.contains_address(*machine)).collect();
        machines.iter().for_each(|machine| self.show(*machine));
        let (port, machines) = (way.port.to_owned(), machines.into_iter().collect());
        self.status.subnets.push(SubnetStatus { port, cidr: way.range, machines });
    }

    fn show(&mut self, address: IpAddr) {
        let net = IpNet::from(address);
        self.add(Item::Address(Address { delivered: false, ..Address::new(self.names.dummy.clone(), net) }));
    }

    /// What comes out of OVN from there goes into the VRF. The switch gives a port its number when it has opened it.
    fn flow(&mut self, mac: Mac, from: Cidr) {
        let (bridge, port) = (self.leg.bridge.clone(), self.port_name());
        let number = |name: &str| self.node.number(&bridge, name).ok_or_else(|| name.to_owned());
        let (input, output) = match (number(&self.leg.patch), number(&port)) {
            (Ok(input), Ok(output)) => (input, output),
            (Err(name), _) | (_, Err(name)) => {
                let wait = format!("{bridge} has not opened its port {name} yet");
                if !self.status.waits.contains(&wait) {
                    self.status.waits.push(wait);
                }
                return;
            }
        };
        let (kind, source) = match from.family() {
            Family::Ipv4 => ("ip", "nw_src"),
            Family::Ipv6 => ("ipv6", "ipv6_src"),
        };
        // The switch takes off no tag that the match does not ask for.
        let (tagged, untag) = match self.leg.tag {
            Some(tag) => (format!("dl_vlan={tag},"), "strip_vlan,"),
            None => (String::new(), ""),
        };
        let source = format!("{kind},in_port={input},{tagged}dl_src={mac},{source}={from}");
        let to = leg_mac(self.node.vtep, self.vpn.vni);
        let actions = format!("{untag}mod_dl_dst:{to},output:{output}");
        self.add(Item::Flow(Flow { bridge, table: 0, priority: FLOW_PRIORITY, matches: source, actions }));
    }

    fn finish(self, mut part: Part) -> Part {
        part.refused.extend(self.refused);
        Part { items: self.items, status: Some(self.status), refused: part.refused, holders: self.holders }
    }
}
