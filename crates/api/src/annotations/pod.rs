//! Addresses of a pod on each of its networks.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use causeway_types::{Cidr, Family, Mac, NadKey, PortKey};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{Annotation, from_json, keys, malformed, to_json};
use crate::Error;

/// The networks of a pod, by attachment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PodNetworks(pub BTreeMap<Attachment, PodNetwork>);

/// One attachment of a pod.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum Attachment {
    /// To the cluster's default network.
    Default,
    /// To the network of a NAD.
    Nad(NadKey),
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Nad(key) => key.fmt(f),
        }
    }
}

impl TryFrom<String> for Attachment {
    type Error = causeway_types::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text == "default" { Ok(Self::Default) } else { NadKey::new(text).map(Self::Nad) }
    }
}

impl From<Attachment> for String {
    fn from(attachment: Attachment) -> Self {
        attachment.to_string()
    }
}

/// What a network is for the pod.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PodRole {
    /// The pod's default route and services.
    Primary,
    /// An additional interface.
    Secondary,
    /// The default network of a pod whose primary network is another: for the platform only.
    #[serde(alias = "default")]
    InfrastructureLocked,
}

/// A route inside the pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PodRoute {
    /// Where to.
    pub dest: Cidr,
    /// Through whom; nobody means on the link itself.
    pub next_hop: Option<IpAddr>,
}

/// A pod's addresses on one network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodNetwork {
    /// Addresses with the prefix lengths of their subnets.
    pub ip_addresses: Vec<IpNet>,
    /// The MAC address.
    pub mac_address: Mac,
    /// Gateways of the default routes.
    pub gateway_ips: Vec<IpAddr>,
    /// Further routes.
    pub routes: Vec<PodRoute>,
    /// The link-local address of the IPv6 gateway.
    pub ipv6_lla_gateway_ip: Option<Ipv6Addr>,
    /// The key of the pod's port on a layer2 network's switch.
    pub tunnel_id: Option<PortKey>,
    /// What the network is for the pod.
    pub role: Option<PodRole>,
}

impl Annotation for PodNetworks {
    const KEY: &'static str = keys::POD_NETWORKS;

    fn parse(text: &str) -> Result<Self, Error> {
        let entries: BTreeMap<Attachment, Entry> = from_json::<Self, _>(text)?;
        entries
            .into_iter()
            .map(|(attachment, entry)| match checked(entry) {
                Ok(network) => Ok((attachment, network)),
                Err(problem) => Err(malformed::<Self>(format!("{attachment}: {problem}"))),
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    fn text(&self) -> String {
        let entries: BTreeMap<&Attachment, Entry> =
            self.0.iter().map(|(key, n)| (key, Entry::from(n))).collect();
        to_json(&entries)
    }
}

/// The entry as the annotation has it. The fields are in the order in which everybody writes them.
#[derive(Deserialize, Serialize)]
struct Entry {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ip_addresses: Vec<IpNet>,
    mac_address: Mac,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gateway_ips: Vec<IpAddr>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    routes: Vec<RouteEntry>,
    /// Repeats the only address, for readers from before there were several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ip_address: Option<IpNet>,
    /// Repeats the only gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gateway_ip: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ipv6_lla_gateway_ip: Option<Ipv6Addr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tunnel_id: Option<u32>,
    #[serde(default, alias = "type", skip_serializing_if = "Option::is_none")]
    role: Option<PodRole>,
}

#[derive(Deserialize, Serialize)]
struct RouteEntry {
    dest: Cidr,
    #[serde(default, rename = "nextHop")]
    next_hop: String,
}

impl From<&PodNetwork> for Entry {
    fn from(network: &PodNetwork) -> Self {
        let only = |length: usize| length == 1;
        let route = |route: &PodRoute| RouteEntry {
            dest: route.dest,
            next_hop: route.next_hop.map(|address| address.to_string()).unwrap_or_default(),
        };
        Self {
            ip_addresses: network.ip_addresses.clone(),
            mac_address: network.mac_address,
            gateway_ips: network.gateway_ips.clone(),
            routes: network.routes.iter().map(route).collect(),
            ip_address: network.ip_addresses.first().copied().filter(|_| only(network.ip_addresses.len())),
            gateway_ip: network.gateway_ips.first().copied().filter(|_| only(network.gateway_ips.len())),
            ipv6_lla_gateway_ip: network.ipv6_lla_gateway_ip,
            tunnel_id: network.tunnel_id.map(PortKey::get),
            role: network.role,
        }
    }
}

fn checked(entry: Entry) -> Result<PodNetwork, String> {
    Ok(PodNetwork {
        ip_addresses: merged("ip_address", entry.ip_addresses, entry.ip_address)?,
        mac_address: entry.mac_address,
        gateway_ips: merged("gateway_ip", entry.gateway_ips, entry.gateway_ip)?,
        routes: entry.routes.into_iter().map(checked_route).collect::<Result<_, _>>()?,
        ipv6_lla_gateway_ip: entry.ipv6_lla_gateway_ip,
        tunnel_id: entry.tunnel_id.map(PortKey::new).transpose().map_err(|e| e.to_string())?,
        role: entry.role,
    })
}

/// The old single field says the same as the list, or stands alone.
fn merged<T: Copy + PartialEq>(field: &str, list: Vec<T>, single: Option<T>) -> Result<Vec<T>, String> {
    match (list.is_empty(), single) {
        (_, None) => Ok(list),
        (true, Some(single)) => Ok(vec![single]),
        (false, Some(single)) if list == [single] => Ok(list),
        _ => Err(format!("{field} and its list disagree")),
    }
}

fn checked_route(route: RouteEntry) -> Result<PodRoute, String> {
    if route.dest.prefix_len() == 0 {
        return Err(format!("a route to {} belongs into gateway_ips", route.dest));
    }
    if route.next_hop.is_empty() {
        return Ok(PodRoute { dest: route.dest, next_hop: None });
    }
    let next_hop: IpAddr =
        route.next_hop.parse().map_err(|_| format!("next hop {:?} is not an address", route.next_hop))?;
    if Family::of(&next_hop) != route.dest.family() {
        return Err(format!("the route to {} has next hop {next_hop} of the other IP family", route.dest));
    }
    Ok(PodRoute { dest: route.dest, next_hop: Some(next_hop) })
}

/// What a pod's interfaces are, by the standard of the network plumbing working group: where people and tools look.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct NetworkStatus(pub Vec<InterfaceStatus>);

/// One interface of a pod.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct InterfaceStatus {
    /// The network: `<namespace>/<name>` of its NAD, or the name of the default network.
    pub name: String,
    /// The interface inside the pod.
    pub interface: String,
    /// Its addresses.
    pub ips: Vec<IpAddr>,
    /// Its MAC address.
    pub mac: Mac,
    /// Whether the pod's default route goes through it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
    /// What the network says of name servers: nothing, but tools want to see it.
    #[serde(default)]
    pub dns: Dns,
}

/// What a network says of name servers.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Dns {}

impl Annotation for NetworkStatus {
    const KEY: &'static str = keys::NETWORK_STATUS;

    fn parse(text: &str) -> Result<Self, Error> {
        from_json::<Self, _>(text)
    }

    fn text(&self) -> String {
        to_json(self)
    }
}
