//! The plan of one VNI: devices, routes, neighbours, flows, FRR's sections, and the addresses of the machines.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_types::host::{
    Address, BridgePort, Flow, Item, Key, LinkKind, LinkState, Neighbour, Route, Target,
};
use causeway_types::{Cidr, Family, Mac};
use ipnet::IpNet;

use crate::annotation::{Vni, Vpn};
use crate::fabric::{self, Fabric};
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
}

/// How a VRF is connected with a provider's bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Leg {
    bridge: String,
    /// The bridge's end of OVN's patch.
    patch: String,
    tag: Option<u16>,
}

/// Plans a VNI. Without a gateway here there is nothing.
pub(crate) fn plan(southbound: &Southbound, node: &Node, vni: Vni) -> Part {
    let mut part = Part::default();
    let here = |gateway: &Gateway<'_>| gateway.chassis == Some(node.chassis.as_str());
    let mut draft: Option<Draft<'_>> = None;
    for gateway in southbound.gateways(vni).filter(here) {
        let fits = leg_of(southbound, node, &gateway).and_then(|leg| match &draft {
            Some(first) => first.takes(&gateway, &leg).map(|()| leg),
            None => Ok(leg),
        });
        match fits {
            Ok(leg) => {
                let draft = draft.get_or_insert_with(|| Draft::new(node, gateway.vpn, leg));
                draft.gateway(southbound, &gateway);
            }
            Err(reason) => part.refused.push(Refused { port: gateway.port.to_owned(), reason }),
        }
    }
    if let Some(draft) = draft {
        let (items, status, refused) = draft.finish();
        part.items = items;
        part.status = Some(status);
        part.refused.extend(refused);
    }
    part
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
        let mut draft = Self { node, vpn, leg, names, items: BTreeMap::new(), status, refused: Vec::new() };
        draft.fabric();
        draft.leg();
        draft
    }

    /// Whether another gateway fits into the same VRF.
    fn takes(&self, gateway: &Gateway<'_>, leg: &Leg) -> Result<(), String> {
        let first = self.status.gateways.first().map_or("", |first| first.port.as_str());
        if gateway.vpn != self.vpn {
            return Err(format!("{first} has the same VNI with another AS number or other route targets"));
        }
        if *leg != self.leg {
            return Err(format!("{first} has the same VNI on another provider's network"));
        }
        Ok(())
    }

    /// The first one has a key.
    fn add(&mut self, item: Item) -> bool {
        let key = item.key();
        match self.items.get(&key) {
            Some(there) => *there == item,
            None => self.items.insert(key, item).is_none(),
        }
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

    fn route(&mut self, dest: Cidr, metric: u32, target: Target) -> bool {
        let table = self.vpn.vni.number();
        self.add(Item::Route(Route { table, dest, metric, target, source: None, mtu: None }))
    }

    fn gateway(&mut self, southbound: &Southbound, gateway: &Gateway<'_>) {
        let Some(mac) = gateway.mac else { return };
        for address in gateway.addresses {
            let target = Target::Forward { via: None, device: Some(self.device()) };
            self.route(Cidr::host(*address), 0, target);
            let device = self.device();
            self.add(Item::Neighbour(Neighbour { device, address: *address, mac }));
            if self.node.expose_gateways {
                self.show(*address);
                self.flow(mac, Cidr::host(*address));
            }
        }
        for subnet in southbound.subnets(gateway.router) {
            if let Err(reason) = self.subnet(southbound, gateway, mac, &subnet) {
                self.refused.push(Refused { port: subnet.port.to_owned(), reason });
            }
        }
        let (port, addresses) = (gateway.port.to_owned(), gateway.addresses.to_vec());
        self.status.gateways.push(GatewayStatus { port, mac, addresses });
    }

    fn subnet(
        &mut self,
        southbound: &Southbound,
        gateway: &Gateway<'_>,
        mac: Mac,
        subnet: &Subnet<'_>,
    ) -> Result<(), String> {
        if (subnet.vpn.vni, subnet.vpn.asn) != (self.vpn.vni, self.vpn.asn) {
            let (theirs, ours) = (subnet.vpn, self.vpn);
            return Err(format!(
                "it has VNI {} and AS {}, its router's gateway {} has VNI {} and AS {}",
                theirs.vni, theirs.asn, gateway.port, ours.vni, ours.asn
            ));
        }
        if southbound.localnets(subnet.switch).next().is_some() {
            return Err("it is on a provider's network".into());
        }
        let machines: BTreeSet<IpAddr> = southbound.machines(subnet.switch).collect();
        let mut reasons = Vec::new();
        for cidr in &subnet.cidrs {
            match self.range(gateway, mac, *cidr) {
                Err(reason) => reasons.push(reason),
                Ok(()) => {
                    let inside = machines.iter().copied().filter(|machine| cidr.contains_address(*machine));
                    let machines: Vec<IpAddr> = inside.collect();
                    machines.iter().for_each(|machine| self.show(*machine));
                    let (port, cidr) = (subnet.port.to_owned(), *cidr);
                    self.status.subnets.push(SubnetStatus { port, cidr, machines });
                }
            }
        }
        if reasons.is_empty() { Ok(()) } else { Err(reasons.join("; ")) }
    }

    /// The way to a range, and back.
    fn range(&mut self, gateway: &Gateway<'_>, mac: Mac, cidr: Cidr) -> Result<(), String> {
        let of_family = |address: &&IpAddr| Cidr::host(**address).family() == cidr.family();
        let via = gateway.addresses.iter().find(of_family).copied();
        let via = via.ok_or_else(|| {
            format!("{} has no {} address, so {cidr} has no way", gateway.port, cidr.family())
        })?;
        let target = Target::Forward { via: Some(via), device: Some(self.device()) };
        if !self.route(cidr, 0, target) {
            return Err(format!("{cidr} is behind another gateway of VNI {} already", self.vpn.vni));
        }
        self.flow(mac, cidr);
        Ok(())
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
        let source = match from.family() {
            Family::Ipv4 => format!("ip,in_port={input},dl_src={mac},nw_src={from}"),
            Family::Ipv6 => format!("ipv6,in_port={input},dl_src={mac},ipv6_src={from}"),
        };
        let untag = if self.leg.tag.is_some() { "strip_vlan," } else { "" };
        let to = leg_mac(self.node.vtep, self.vpn.vni);
        let actions = format!("{untag}mod_dl_dst:{to},output:{output}");
        self.add(Item::Flow(Flow { bridge, table: 0, priority: FLOW_PRIORITY, matches: source, actions }));
    }

    fn finish(self) -> (BTreeMap<Key, Item>, VniStatus, Vec<Refused>) {
        (self.items, self.status, self.refused)
    }
}
