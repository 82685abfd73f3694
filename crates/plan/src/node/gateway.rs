//! The node's way out: what its devices, its switch and its flags say, or why that is not enough. Pure: facts in, answer
//! out.

use std::fmt;
use std::net::IpAddr;

use crate::host::INTEGRATION_BRIDGE;
use causeway_api::annotations::{GatewayConfig, GatewayMode};
use causeway_types::around::{BridgeSeen, Bridges, OwnAddress, PortKind, Surroundings};
use causeway_types::{Cidr, Family, NodeName};
use causeway_zone::BridgePorts;
use ipnet::IpNet;

use super::underlay::is_outside;

/// What flags say of the way out; the rest is found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Told {
    /// The bridge, or the card below it.
    pub interface: Option<String>,
    /// The bridge's port of the card.
    pub uplink: Option<String>,
    /// Next hops; families that none is told of are found.
    pub next_hops: Vec<IpAddr>,
    /// The VLAN of the uplink; 0 is untagged.
    pub vlan: u16,
}

/// What the node's devices and its switch say.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Its name in Kubernetes.
    pub node: &'a NodeName,
    /// Devices, addresses and default routes.
    pub around: &'a Surroundings,
    /// All of the switch but the integration bridge.
    pub bridges: &'a Bridges,
    /// By which others know the node, the most important first: ends of tunnels, then what its kubelet says.
    pub known_as: &'a [IpAddr],
    /// Addresses that are the same on every node.
    pub masquerade: &'a [Cidr],
}

/// Why there is no way out. What it is in words says `Display`.
#[derive(Clone, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "each is explained in the words that users read")]
pub enum Missing {
    DefaultRoute,
    Bridge { device: String, told: bool },
    Device { bridge: String },
    Address { bridge: String },
    Uplink { bridge: String },
    OneUplink { bridge: String, ports: Vec<String> },
    Port { bridge: String, port: String },
    PlainUplink { bridge: String, port: String },
}

impl Missing {
    /// In a word, for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::DefaultRoute => "no_default_route",
            Self::Bridge { .. } => "no_bridge",
            Self::Device { .. } => "no_device",
            Self::Address { .. } => "no_address",
            Self::Uplink { .. } => "no_uplink",
            Self::OneUplink { .. } => "several_uplinks",
            Self::Port { .. } => "no_such_port",
            Self::PlainUplink { .. } => "bonded_uplink",
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let choose =
            "say which one is the card with --gateway-uplink or external_ids:bridge-uplink of the bridge";
        match self {
            Self::DefaultRoute => f.write_str(
                "there is no default route, and no Open vSwitch bridge has the address of the node's tunnels: say with \
                 --gateway-interface which bridge leads outside",
            ),
            Self::Bridge { device, told: true } => {
                write!(f, "--gateway-interface names {device}, and Open vSwitch has no bridge and no port of that name")
            }
            Self::Bridge { device, told: false } => write!(
                f,
                "the default route leaves by {device}, which is no Open vSwitch bridge: put the card under a bridge as \
                 docs/gateway.md shows, or start the role with --gateway-mode=disabled",
            ),
            Self::Device { bridge } => write!(f, "the kernel has no device {bridge} yet"),
            Self::Address { bridge } => {
                write!(f, "bridge {bridge} has no address: move those of the card to it, as docs/gateway.md shows")
            }
            Self::Uplink { bridge } => write!(f, "bridge {bridge} has no card as a port; {choose}"),
            Self::OneUplink { bridge, ports } => {
                write!(f, "bridge {bridge} has several ports that can be the card, {}; {choose}", ports.join(", "))
            }
            Self::Port { bridge, port } => write!(f, "bridge {bridge} has no port {port}; {choose}"),
            Self::PlainUplink { bridge, port } => write!(
                f,
                "port {port} of bridge {bridge} is a bond of Open vSwitch, which flows cannot name: use a bond of the kernel",
            ),
        }
    }
}

/// The way out.
///
/// # Errors
/// What is missing.
pub fn detect(told: &Told, facts: &Facts<'_>) -> Result<GatewayConfig, Missing> {
    let bridge = bridge(told, facts)?;
    let seen = facts.bridges.get(&bridge).cloned().unwrap_or_default();
    uplink(told, &bridge, &seen)?;
    let device = facts.around.links.iter().find(|link| link.name == bridge);
    let mac = device.and_then(|device| device.mac).ok_or(Missing::Device { bridge: bridge.clone() })?;
    let addresses = addresses(&bridge, facts);
    if addresses.is_empty() {
        return Err(Missing::Address { bridge });
    }
    Ok(GatewayConfig {
        mode: GatewayMode::Shared,
        interface_id: interface_id(&bridge, facts.node),
        mac_address: Some(mac),
        next_hops: next_hops(told, &bridge, &addresses, facts.around),
        ip_addresses: addresses,
        node_port_enable: true,
        vlan_id: told.vlan,
        bridge_id: bridge,
    })
}

/// The ports of a bridge, as far as the switch has opened them; none if there is no such bridge.
pub fn ports(told: &Told, bridge: &str, node: &NodeName, bridges: &Bridges) -> Option<BridgePorts> {
    let seen = bridges.get(bridge)?;
    let number = |name: &str| seen.ports.get(name).and_then(|port| port.number);
    // ovn-controller makes it, and calls it so.
    let patch = format!("patch-{}-to-{INTEGRATION_BRIDGE}", interface_id(bridge, node));
    Some(BridgePorts {
        bridge: bridge.to_owned(),
        patch: number(&patch),
        uplink: uplink(told, bridge, seen).ok().and_then(number),
    })
}

fn interface_id(bridge: &str, node: &NodeName) -> String {
    format!("{bridge}_{node}")
}

/// The bridge: told, or that of the preferred default route, or without any the one that tunnels end on.
fn bridge(told: &Told, facts: &Facts<'_>) -> Result<String, Missing> {
    let (device, is_told) = match &told.interface {
        Some(device) => (device.as_str(), true),
        None => {
            let out = leaves_by(facts.around).or_else(|| tunnels_end_on(facts));
            (out.ok_or(Missing::DefaultRoute)?, false)
        }
    };
    if facts.bridges.contains_key(device) {
        return Ok(device.to_owned());
    }
    let is_port = |seen: &BridgeSeen| seen.ports.contains_key(device);
    let above = facts.bridges.iter().find(|(_, seen)| is_port(seen)).map(|(bridge, _)| bridge.clone());
    above.ok_or_else(|| Missing::Bridge { device: device.to_owned(), told: is_told })
}

/// The device of the default route with the lowest metric; IPv4 decides where there is any.
fn leaves_by(around: &Surroundings) -> Option<&str> {
    let best = |family| {
        let routes = around.defaults.iter().filter(|route| route.family == family);
        routes.min_by_key(|route| route.metric).map(|route| route.device.as_str())
    };
    best(Family::Ipv4).or_else(|| best(Family::Ipv6))
}

fn tunnels_end_on<'a>(facts: &Facts<'a>) -> Option<&'a str> {
    let mut known = facts.known_as.iter();
    let device = known.find_map(|ip| facts.around.addresses.iter().find(|own| own.net.addr() == *ip))?;
    facts.bridges.contains_key(&device.device).then_some(device.device.as_str())
}

/// The bridge's port of the card: told, or written on the bridge, or the only one that can be.
fn uplink<'a>(told: &'a Told, bridge: &str, seen: &'a BridgeSeen) -> Result<&'a str, Missing> {
    let bridge = || bridge.to_owned();
    let is_card = |kind| matches!(kind, PortKind::Card | PortKind::Bond);
    let cards = seen.ports.iter().filter(|(_, port)| is_card(port.kind)).map(|(name, _)| name.as_str());
    let cards: Vec<&str> = cards.collect();
    let name = match (told.uplink.as_deref().or(seen.uplink.as_deref()), cards.as_slice()) {
        (Some(name), _) => name,
        (None, [name]) => name,
        (None, []) => return Err(Missing::Uplink { bridge: bridge() }),
        (None, several) => {
            let ports = several.iter().map(ToString::to_string).collect();
            return Err(Missing::OneUplink { bridge: bridge(), ports });
        }
    };
    match seen.ports.get(name).map(|port| port.kind) {
        None => Err(Missing::Port { bridge: bridge(), port: name.to_owned() }),
        Some(PortKind::Bond) => Err(Missing::PlainUplink { bridge: bridge(), port: name.to_owned() }),
        Some(_) => Ok(name),
    }
}

/// The node's own addresses on the bridge: IPv4 first, and of each family those by which others know the node.
fn addresses(bridge: &str, facts: &Facts<'_>) -> Vec<IpNet> {
    let rank = |own: &OwnAddress| facts.known_as.iter().position(|ip| *ip == own.net.addr());
    let counts = |own: &&OwnAddress| {
        own.device == bridge
            && is_outside(own.net.addr(), facts.masquerade)
            && (!own.fleeting || rank(own).is_some())
    };
    let mut own: Vec<&OwnAddress> = facts.around.addresses.iter().filter(counts).collect();
    own.sort_by_key(|own| (own.net.addr().is_ipv6(), rank(own).unwrap_or(usize::MAX)));
    own.into_iter().map(|own| own.net).collect()
}

/// One next hop for each family that the bridge has an address of; a family may have none.
fn next_hops(told: &Told, bridge: &str, addresses: &[IpNet], around: &Surroundings) -> Vec<IpAddr> {
    let mut all = Vec::new();
    for family in Family::ALL {
        if !addresses.iter().any(|net| Family::of(&net.addr()) == family) {
            continue;
        }
        let told: Vec<IpAddr> =
            told.next_hops.iter().copied().filter(|hop| Family::of(hop) == family).collect();
        let routes = around.defaults.iter().filter(|route| route.device == bridge && route.family == family);
        let found = routes.filter(|route| route.via.is_some()).min_by_key(|route| route.metric);
        match told.is_empty() {
            true => all.extend(found.and_then(|route| route.via)),
            false => all.extend(told),
        }
    }
    all
}

#[cfg(test)]
mod tests;
