//! What the cluster manager and the node itself write on a Node.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use causeway_types::{Cidr, Family, Mac, NetworkName};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{Annotation, PerFamily, from_json, keys, malformed, to_json};
use crate::Error;

/// An annotation whose text is the JSON of its only field.
macro_rules! json_annotation {
    ($type:ident, $key:expr) => {
        impl Annotation for $type {
            const KEY: &'static str = $key;

            fn parse(text: &str) -> Result<Self, Error> {
                from_json::<Self, _>(text).map(Self)
            }

            fn text(&self) -> String {
                to_json(&self.0)
            }
        }
    };
}

/// The node's subnets, for each network.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NodeSubnets(pub BTreeMap<NetworkName, Vec<Cidr>>);

/// Old writers put one subnet as a bare text.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Annotation for NodeSubnets {
    const KEY: &'static str = keys::NODE_SUBNETS;

    fn parse(text: &str) -> Result<Self, Error> {
        let map: BTreeMap<NetworkName, OneOrMany> = from_json::<Self, _>(text)?;
        let subnets = |entry: OneOrMany| match entry {
            OneOrMany::One(text) => text.parse().map(|cidr| vec![cidr]),
            OneOrMany::Many(texts) => texts.iter().map(|text| text.parse()).collect(),
        };
        map.into_iter()
            .map(|(network, entry)| match subnets(entry) {
                Ok(subnets) => Ok((network, subnets)),
                Err(error) => Err(malformed::<Self>(format!("network {network}: {error}"))),
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    fn text(&self) -> String {
        to_json(&self.0)
    }
}

/// The node's addresses on the transit switches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TransitSwitchPort(pub PerFamily<IpNet>);
json_annotation!(TransitSwitchPort, keys::NODE_TRANSIT_SWITCH_PORT);

/// Subnets of the pair between a layer2 transit router and the node's gateway router.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TransitPeerPorts(pub PerFamily<Cidr>);
json_annotation!(TransitPeerPorts, keys::NODE_TRANSIT_PEER_PORTS);

/// Masquerade subnets in use on the node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MasqueradeSubnets(pub PerFamily<Cidr>);
json_annotation!(MasqueradeSubnets, keys::NODE_MASQUERADE_SUBNET);

/// The node's own addresses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PrimaryAddresses(pub PerFamily<IpNet>);
json_annotation!(PrimaryAddresses, keys::NODE_PRIMARY_IFADDR);

/// MAC addresses of the node's management ports, for each network.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ManagementMacs(pub BTreeMap<NetworkName, Mac>);
json_annotation!(ManagementMacs, keys::NODE_MANAGEMENT_MACS);

/// Addresses of the node's tunnel end points.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EncapIps(pub Vec<IpAddr>);
json_annotation!(EncapIps, keys::NODE_ENCAP_IPS);

/// All addresses of the node.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HostCidrs(pub Vec<IpNet>);
json_annotation!(HostCidrs, keys::HOST_CIDRS);

/// The node's end of the tunnels of each VTEP.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Vteps(pub BTreeMap<String, VtepIps>);
json_annotation!(Vteps, keys::NODE_VTEPS);

/// The node's addresses in a VTEP's ranges; only the first counts.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct VtepIps {
    /// The addresses.
    pub ips: Vec<IpAddr>,
}

impl Vteps {
    /// The node's end of the tunnels of a VTEP.
    pub fn of(&self, vtep: &str) -> Option<Ipv4Addr> {
        let ips = self.0.get(vtep).map(|found| found.ips.as_slice()).unwrap_or_default();
        ips.iter().find_map(|ip| match ip {
            IpAddr::V4(v4) => Some(*v4),
            IpAddr::V6(_) => None,
        })
    }
}

/// The name of the node's OVN chassis.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct ChassisId(String);

impl TryFrom<String> for ChassisId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        Self::parse(&text)
    }
}

impl From<ChassisId> for String {
    fn from(id: ChassisId) -> Self {
        id.0
    }
}

impl ChassisId {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Annotation for ChassisId {
    const KEY: &'static str = keys::NODE_CHASSIS_ID;

    fn parse(text: &str) -> Result<Self, Error> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if text.is_empty() || text.len() > 253 || !text.chars().all(allowed) {
            return Err(malformed::<Self>(format!("{text:?} is not the name of a chassis")));
        }
        Ok(Self(text.to_owned()))
    }

    fn text(&self) -> String {
        self.0.clone()
    }
}

/// What of a node's claims is settled: others build their tunnels by this alone.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ChassisRecord {
    /// The Node that it was written for. On another one of the same name it says nothing.
    pub uid: String,
    /// The name of its chassis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chassis_id: Option<ChassisId>,
    /// Addresses of its tunnel end points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub encap_ips: Vec<IpAddr>,
    /// The node's own addresses, as its kubelet named them when the record was first written; without those that it names no
    /// longer. Empty, but there, if it names none of them any more.
    #[serde(default, rename = "node-ips", skip_serializing_if = "Option::is_none")]
    pub node_ips: Option<Vec<IpAddr>>,
    /// What the node claims and does not get, with the reasons, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

impl Annotation for ChassisRecord {
    const KEY: &'static str = keys::NODE_CHASSIS_RECORD;

    fn parse(text: &str) -> Result<Self, Error> {
        from_json::<Self, _>(text)
    }

    fn text(&self) -> String {
        to_json(self)
    }
}

/// Whether the node's OVN checks packets against the gateway's MTU. No annotation means yes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GatewayMtuSupport(pub bool);

impl Annotation for GatewayMtuSupport {
    const KEY: &'static str = keys::GATEWAY_MTU_SUPPORT;

    fn parse(text: &str) -> Result<Self, Error> {
        text.parse().map(Self).map_err(|_| malformed::<Self>(format!("{text:?} is neither true nor false")))
    }

    fn text(&self) -> String {
        self.0.to_string()
    }
}

/// The largest packet of a pod that the node's tunnels carry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TunnelMtu(pub u32);

impl TunnelMtu {
    /// What Geneve with OVN's option puts around a packet of a pod: Ethernet 14, Geneve 8, the option 8, UDP 8, and the
    /// header of the underlay's IP.
    const fn overhead(underlay: Family) -> u32 {
        match underlay {
            Family::Ipv4 => 58,
            Family::Ipv6 => 78,
        }
    }

    /// What is left of the underlay's MTU.
    pub const fn of_underlay(mtu: u32, family: Family) -> Self {
        Self(mtu.saturating_sub(Self::overhead(family)))
    }
}

impl Annotation for TunnelMtu {
    const KEY: &'static str = keys::NODE_TUNNEL_MTU;

    fn parse(text: &str) -> Result<Self, Error> {
        let number = text.parse().ok().filter(|mtu: &u32| mtu.to_string() == text);
        number.map(Self).ok_or_else(|| malformed::<Self>(format!("{text:?} is not a number of bytes")))
    }

    fn text(&self) -> String {
        self.0.to_string()
    }
}

/// Which layer2 topology the node has. From 2.0 on it has transit routers.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Layer2TopologyVersion {
    /// Raised when nodes of different versions cannot share a network.
    pub major: u16,
    /// Raised for everything else.
    pub minor: u16,
}

impl Layer2TopologyVersion {
    /// The version with transit routers, which we have.
    pub const TRANSIT_ROUTER: Self = Self { major: 2, minor: 0 };
}

impl fmt::Display for Layer2TopologyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Annotation for Layer2TopologyVersion {
    const KEY: &'static str = keys::LAYER2_TOPOLOGY_VERSION;

    fn parse(text: &str) -> Result<Self, Error> {
        let version = text
            .split_once('.')
            .and_then(|(major, minor)| Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? }));
        // "+2.0" and "02.0" parse too, but would not come back as they were.
        version
            .filter(|version| version.to_string() == text)
            .ok_or_else(|| malformed::<Self>(format!("{text:?} is not a version such as 2.0")))
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

/// How traffic leaves the node.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GatewayMode {
    /// Through OVN's own gateway router.
    Shared,
    /// Through the node's routing tables.
    Local,
    /// Not at all.
    #[serde(rename = "")]
    Disabled,
}

/// The node's gateway on the default network.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", into = "GatewayText")]
pub struct GatewayConfig {
    /// How traffic leaves the node.
    pub mode: GatewayMode,
    /// The bridge that holds the uplink.
    #[serde(default)]
    pub bridge_id: String,
    /// The localnet port of the bridge.
    #[serde(default)]
    pub interface_id: String,
    /// The bridge's MAC address.
    #[serde(default)]
    pub mac_address: Option<Mac>,
    /// The bridge's addresses.
    #[serde(default)]
    pub ip_addresses: Vec<IpNet>,
    /// Next hops of the default routes.
    #[serde(default)]
    pub next_hops: Vec<IpAddr>,
    /// Whether node ports are served.
    #[serde(default, deserialize_with = "quoted")]
    pub node_port_enable: bool,
    /// VLAN of the uplink; 0 is untagged.
    #[serde(default, deserialize_with = "quoted")]
    pub vlan_id: u16,
}

/// The same as the annotation has it: switches and numbers are texts.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct GatewayText {
    mode: GatewayMode,
    #[serde(skip_serializing_if = "String::is_empty")]
    bridge_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    interface_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mac_address: Option<Mac>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ip_addresses: Vec<IpNet>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    next_hops: Vec<IpAddr>,
    node_port_enable: String,
    vlan_id: String,
}

impl From<GatewayConfig> for GatewayText {
    fn from(config: GatewayConfig) -> Self {
        Self {
            mode: config.mode,
            bridge_id: config.bridge_id,
            interface_id: config.interface_id,
            mac_address: config.mac_address,
            ip_addresses: config.ip_addresses,
            next_hops: config.next_hops,
            node_port_enable: config.node_port_enable.to_string(),
            vlan_id: config.vlan_id.to_string(),
        }
    }
}

fn quoted<'de, D, T>(input: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: std::str::FromStr,
    T::Err: fmt::Display,
{
    String::deserialize(input)?.parse().map_err(serde::de::Error::custom)
}

impl Annotation for GatewayConfig {
    const KEY: &'static str = keys::L3_GATEWAY_CONFIG;

    fn parse(text: &str) -> Result<Self, Error> {
        let mut networks: BTreeMap<String, Self> = from_json::<Self, _>(text)?;
        networks.remove("default").ok_or_else(|| malformed::<Self>("the default network is not in it"))
    }

    fn text(&self) -> String {
        to_json(&BTreeMap::from([("default", self)]))
    }
}
