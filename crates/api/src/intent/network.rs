//! A network as it is meant.

use std::net::IpAddr;

use causeway_types::{Cidr, Families, Family, NetworkName};
use serde::{Deserialize, Serialize};

use crate::crd::{NoOverlayRouting, OutboundSnat, Role, Topology};

/// Prefix length of a node's IPv4 subnet when none is written.
pub const DEFAULT_HOST_PREFIX_V4: u8 = 24;
/// Prefix length of a node's IPv6 subnet, the only one there is.
pub const DEFAULT_HOST_PREFIX_V6: u8 = 64;

/// The most pod subnets of a network: each is a row of every zone.
pub const MOST_SUBNETS: usize = 16;

/// A network, from whichever manifest.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Network {
    /// The network's name.
    pub name: NetworkName,
    /// How it is laid out.
    pub topology: Topology,
    /// What it is for a pod.
    pub role: Role,
    /// The MTU, where one is written.
    pub mtu: Option<u32>,
    /// The pod subnets, in their order.
    pub subnets: Vec<PodSubnet>,
    /// What is never given to a pod.
    pub exclude_subnets: Vec<Cidr>,
    /// What is given only to a pod that asks for it.
    pub reserved_subnets: Vec<Cidr>,
    /// What the network itself takes its addresses from.
    pub infrastructure_subnets: Vec<Cidr>,
    /// Gateway addresses instead of the first ones.
    pub default_gateways: Vec<IpAddr>,
    /// Join subnets, where some are written.
    pub join_subnets: Vec<Cidr>,
    /// Transit subnets, where some are written.
    pub transit_subnets: Vec<Cidr>,
    /// Whether pods get addresses.
    pub ipam: bool,
    /// Whether addresses outlive pods.
    pub persistent_ips: bool,
    /// The physical network of a localnet network.
    pub physical_network: Option<String>,
    /// The VLAN of a localnet network.
    pub vlan: Option<u16>,
    /// The VRF's name, where one is written.
    pub vrf: Option<String>,
    /// How packets travel between nodes.
    pub transport: Transport,
    /// The uplink through which the network leaves the node.
    pub uplink: Option<String>,
}

/// A range of a network's pod addresses; a layer3 network cuts each node's part from it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct PodSubnet {
    /// The subnet.
    pub cidr: Cidr,
    /// Prefix length of each node's part, where one is written. Layer3 only.
    pub host_prefix: Option<u8>,
}

impl PodSubnet {
    /// Prefix length of each node's part.
    pub fn effective_host_prefix(&self) -> u8 {
        self.host_prefix.unwrap_or(match self.cidr.family() {
            Family::Ipv4 => DEFAULT_HOST_PREFIX_V4,
            Family::Ipv6 => DEFAULT_HOST_PREFIX_V6,
        })
    }
}

/// As NADs and the flat form write it: `10.128.0.0/16/24`.
impl std::fmt::Display for PodSubnet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host_prefix {
            Some(host) => write!(f, "{}/{host}", self.cidr),
            None => self.cidr.fmt(f),
        }
    }
}

/// How packets travel between nodes.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Transport {
    /// Through tunnels.
    #[default]
    Overlay,
    /// By the fabric's own routes.
    NoOverlay {
        /// Whether pods leave with the node's address.
        outbound_snat: OutboundSnat,
        /// Who configures the routes; NADs do not say.
        routing: Option<NoOverlayRouting>,
    },
    /// By EVPN.
    Evpn(Evpn),
}

/// An EVPN transport.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Evpn {
    /// The tunnel end points.
    pub vtep: String,
    /// The layer-2 instance.
    pub mac_vrf: Option<EvpnInstance>,
    /// The layer-3 instance.
    pub ip_vrf: Option<EvpnInstance>,
}

/// One EVPN instance.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct EvpnInstance {
    /// The VXLAN network identifier.
    pub vni: u32,
    /// The route target, where one is written.
    pub route_target: Option<String>,
}

impl Network {
    /// Whether the network is primary.
    pub fn is_primary(&self) -> bool {
        self.role == Role::Primary
    }

    /// Why this version renders nothing of it, if so: secondary and localnet networks, and other transports than tunnels.
    pub fn unsupported(&self) -> Option<String> {
        let what = match (self.role, self.topology, &self.transport) {
            (Role::Secondary, ..) => "secondary networks",
            (_, Topology::Localnet, _) => "localnet networks",
            (_, _, Transport::NoOverlay { .. }) => "networks without tunnels",
            (_, _, Transport::Evpn(Evpn { ip_vrf: None, .. })) => "networks with a macVRF alone",
            _ if self.subnets.is_empty() => "primary networks without subnets",
            _ => return None,
        };
        Some(format!("network {}: {what} are not rendered by this version", self.name))
    }

    /// The pod subnets without host lengths.
    pub fn pod_cidrs(&self) -> impl Iterator<Item = Cidr> {
        self.subnets.iter().map(|subnet| subnet.cidr)
    }

    /// The families of the pod subnets.
    pub fn families(&self) -> Families {
        self.subnets.iter().map(|subnet| subnet.cidr.family()).collect()
    }

    /// The physical network of a localnet network: the one that is written, else one called like the network.
    pub fn effective_physical_network(&self) -> Option<&str> {
        let own = (self.topology == Topology::Localnet).then_some(self.name.as_str());
        self.physical_network.as_deref().or(own)
    }

    /// The pod subnets as one text, for the status and for NADs.
    pub fn subnets_text(&self) -> String {
        let texts: Vec<String> = self.subnets.iter().map(ToString::to_string).collect();
        texts.join(",")
    }
}
