//! Items: a key, and what shall be there under it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::key::{Key, NftFamily, Selector};
use crate::{Cidr, Family, Mac};

/// The routing table that is asked where no rule says otherwise.
pub const MAIN_TABLE: u32 = 254;
/// The group of links that the host's ends of pods' cables are in.
pub const CABLE_GROUP: u32 = 85;
/// The port of Geneve, by which nodes send each other the packets of all networks.
pub const GENEVE_PORT: u16 = 6081;
/// The bit of a packet's mark that says: the node itself has sent this into the switch, and it was no Geneve then.
pub const INTO_SWITCH_MARK: u32 = 0x4000_0000;
/// What the kernel makes of an IPv6 route without a metric.
const IPV6_METRIC: u32 = 1024;

/// One thing that shall be on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Item {
    /// A network namespace.
    Namespace(String),
    /// An internal port of Open vSwitch.
    Port(InternalPort),
    /// A port of a bridge to the outside.
    BridgePort(BridgePort),
    /// A network device of the kernel.
    Link(Link),
    /// A setting of the kernel.
    Setting(Setting),
    /// An address of a device.
    Address(Address),
    /// Whether a device is switched on.
    State(LinkState),
    /// A route in any table.
    Route(Route),
    /// A rule of the policy routing.
    Rule(Rule),
    /// A neighbour with its MAC address.
    Neighbour(Neighbour),
    /// An address for which the node answers.
    Proxy {
        /// On which device.
        device: String,
        /// For whom.
        address: IpAddr,
    },
    /// A table of nftables.
    Table(NftTable),
    /// An element of a set or map of such a table.
    Element(NftElement),
    /// A flow of a bridge.
    Flow(Flow),
    /// A section of FRR's configuration.
    Section(FrrSection),
}

/// An internal port of Open vSwitch: a device of the node on a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InternalPort {
    /// The name of port and device.
    pub name: String,
    /// The bridge that has the port.
    pub bridge: String,
    /// The logical port that it is.
    pub iface_id: String,
    /// Further `external_ids` of the interface.
    pub external_ids: BTreeMap<String, String>,
    /// The MAC address of the device, which the switch sets.
    pub mac: Mac,
    /// The MTU of the device, which the switch sets.
    pub mtu: u32,
}

/// A port of a bridge of Open vSwitch that no logical port stands behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgePort {
    /// The name of port and device.
    pub name: String,
    /// The bridge that has the port.
    pub bridge: String,
    /// Whether the switch makes the device; it is there already otherwise, or comes.
    pub internal: bool,
    /// The VLAN whose packets it takes, without their tag; none is a port like any other.
    pub tag: Option<u16>,
}

/// A network device of the kernel; what is not said of it stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The name of the device.
    pub name: String,
    /// Who makes it, and what it is.
    pub kind: LinkKind,
    /// The MAC address; nobody's business here if not said.
    pub mac: Option<Mac>,
    /// The MTU; nobody's business here if not said.
    pub mtu: Option<u32>,
    /// The bridge or VRF that has the link as a port; nobody's business here if not said.
    pub master: Option<String>,
}

/// Who makes a link, and what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkKind {
    /// Somebody else makes and removes it: an internal port of the switch, the far end of a cable. What is on it is ours.
    Given,
    /// A cable of two ends (veth).
    Cable {
        /// The name of the far end.
        peer: String,
        /// The named namespace of the far end, if it is another one.
        namespace: Option<String>,
    },
    /// A bridge of the kernel.
    Bridge,
    /// A device that swallows what it gets, for addresses that belong to no card.
    Dummy,
    /// A VRF.
    Vrf {
        /// The routing table of its ports.
        table: u32,
    },
    /// A tunnel of VXLAN that learns nothing by itself: who is behind whom is told.
    Vxlan {
        /// The number of the network (VNI).
        id: u32,
        /// The UDP port.
        port: u16,
        /// The node's own end of all tunnels.
        local: IpAddr,
    },
}

/// A setting of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The path below `/proc/sys/net`, with slashes.
    pub path: String,
    /// As the kernel prints it.
    pub value: String,
}

/// An address of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The device that has it.
    pub device: String,
    /// With the prefix length of its subnet.
    pub net: IpNet,
    /// Whether the kernel may choose it as the source of packets that name none. Counts for IPv6 alone.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub preferred: bool,
    /// Whether the node itself takes what is sent there. If not, the address is only for show: the routes that the kernel makes for it go,
    /// and packets take the way of the other routes.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub delivered: bool,
}

impl Address {
    /// An address like any other.
    pub fn new(device: impl Into<String>, net: IpNet) -> Self {
        Self { device: device.into(), net, preferred: true, delivered: true }
    }
}

fn yes() -> bool {
    true
}

/// Whether a device is switched on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkState {
    /// By its name, such as `ovn-k8s-mp0`.
    pub device: String,
    /// On, or off.
    pub up: bool,
}

/// A route of the kernel, known by its table, destination and metric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The number of the routing table.
    pub table: u32,
    /// Where to.
    pub dest: Cidr,
    /// The lower is preferred; 0 is the kernel's own choice.
    pub metric: u32,
    /// What becomes of the packets.
    pub target: Target,
    /// The address that the node's own packets get on this way; the kernel chooses if none is said.
    pub source: Option<IpAddr>,
    /// The largest packet on this way; that of the device if none is said.
    pub mtu: Option<u32>,
}

/// What becomes of the packets of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// They go on.
    Forward {
        /// Through whom; nobody means that the destination is on the link itself.
        via: Option<IpAddr>,
        /// By which device; the kernel finds it by the next hop if none is said.
        device: Option<String>,
    },
    /// They vanish.
    Blackhole,
    /// They are refused.
    Unreachable,
}

/// A rule of the policy routing: which packets ask which table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// IPv4 and IPv6 have separate lists.
    pub family: Family,
    /// The lower is asked first.
    pub priority: u32,
    /// Which packets it is for.
    pub selector: Selector,
    /// The number of the table that they ask.
    pub table: u32,
}

/// A neighbour with its MAC address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// On which device.
    pub device: String,
    /// The neighbour's address.
    pub address: IpAddr,
    /// The neighbour's MAC address.
    pub mac: Mac,
}

/// A table of nftables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NftTable {
    /// Each family has tables of its own.
    pub family: NftFamily,
    /// With the mark of whoever keeps it in front.
    pub name: String,
    /// Chains, sets and rules in the words of `nft`, without the braces of the table. Devices by name (`iifname`), never
    /// by number.
    pub body: String,
}

/// A flow of a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The bridge of Open vSwitch.
    pub bridge: String,
    /// The number of the OpenFlow table.
    pub table: u8,
    /// The higher is asked first.
    pub priority: u16,
    /// In the words of `ovs-ofctl`, ports by number; empty matches everything.
    pub matches: String,
    /// In the words of `ovs-ofctl`, ports by number.
    pub actions: String,
}

/// An element of a set or map of nftables. It is planned on its own, so that one more costs no more where there are many; it is
/// read and written with its table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NftElement {
    /// The family of the table.
    pub family: NftFamily,
    /// The name of the table.
    pub table: String,
    /// The name of the set or map.
    pub set: String,
    /// In the words of `nft`.
    pub element: String,
    /// What a map has for it.
    pub value: Option<String>,
}

impl NftTable {
    /// The line of a table's text where the elements of a set or map come that are planned on their own.
    pub fn place_of(set: &str) -> String {
        format!("\t\t# elements of {set}\n")
    }

    /// The table with those of these elements that are its own.
    pub fn filled<'a>(&self, elements: impl IntoIterator<Item = &'a NftElement>) -> Self {
        let mut sets: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let ours = |one: &&NftElement| one.family == self.family && one.table == self.name;
        for one in elements.into_iter().filter(ours) {
            let value = one.value.iter().map(|value| format!(" : {value}"));
            sets.entry(&one.set).or_default().push([one.element.clone()].into_iter().chain(value).collect());
        }
        let fill = |body: String, (set, elements): (&str, Vec<String>)| {
            let list = format!("\t\telements = {{ {} }}\n", elements.join(", "));
            body.replace(&Self::place_of(set), &list)
        };
        Self { body: sets.into_iter().fold(self.body.clone(), fill), ..self.clone() }
    }
}

/// A section of FRR's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrrSection {
    /// Its first line, such as `router bgp 64512 vrf blue`.
    pub first: String,
    /// The lines below, in the words in which FRR shows them: a default that it does not show does not stay. A line that stands under
    /// another one has a wider margin.
    pub lines: String,
}

impl Route {
    /// The metric under which the kernel keeps the route.
    pub fn kept_metric(&self) -> u32 {
        match (self.dest.family(), self.metric) {
            (Family::Ipv6, 0) => IPV6_METRIC,
            (_, metric) => metric,
        }
    }
}

impl Item {
    /// What tells the item apart from all others.
    pub fn key(&self) -> Key {
        match self {
            Self::Namespace(name) => Key::Namespace(name.clone()),
            Self::Port(port) => Key::Port(port.name.clone()),
            Self::BridgePort(port) => Key::BridgePort(port.name.clone()),
            Self::Link(link) => Key::Link(link.name.clone()),
            Self::Setting(setting) => Key::Setting(setting.path.clone()),
            Self::Address(Address { device, net, .. }) => Key::Address { device: device.clone(), net: *net },
            Self::State(state) => Key::State(state.device.clone()),
            Self::Route(route) => {
                Key::Route { table: route.table, dest: route.dest, metric: route.kept_metric() }
            }
            Self::Rule(rule) => {
                Key::Rule { family: rule.family, priority: rule.priority, selector: rule.selector.clone() }
            }
            Self::Neighbour(Neighbour { device, address, .. }) => {
                Key::Neighbour { device: device.clone(), address: *address }
            }
            Self::Proxy { device, address } => Key::Proxy { device: device.clone(), address: *address },
            Self::Table(table) => Key::Table { family: table.family, name: table.name.clone() },
            Self::Element(NftElement { family, table, set, element, .. }) => Key::Element {
                family: *family,
                table: table.clone(),
                set: set.clone(),
                element: element.clone(),
            },
            Self::Flow(Flow { bridge, table, priority, matches, .. }) => Key::Flow {
                bridge: bridge.clone(),
                table: *table,
                priority: *priority,
                matches: matches.clone(),
            },
            Self::Section(section) => Key::Section(section.first.clone()),
        }
    }

    /// When the item can be made: the lower comes first. A port of a bridge comes after the bridge, a route through a
    /// neighbour after the routes that lead to neighbours.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Namespace(_) => 0,
            Self::Port(_) | Self::BridgePort(_) => 1,
            Self::Link(link) if link.master.is_none() => 2,
            Self::Link(_) => 3,
            Self::Setting(_) => 4,
            Self::Address(_) => 5,
            Self::State(_) => 6,
            Self::Route(Route { target: Target::Forward { via: Some(_), .. }, .. }) => 8,
            Self::Route(_) => 7,
            Self::Rule(_) => 9,
            Self::Neighbour(_) | Self::Proxy { .. } => 10,
            Self::Table(_) => 11,
            Self::Element(_) => 12,
            Self::Flow(_) => 13,
            Self::Section(_) => 14,
        }
    }

    /// The items without which this one cannot be.
    pub fn needs(&self) -> Vec<Key> {
        let link = |device: &str| vec![Key::Link(device.to_owned())];
        match self {
            Self::Link(link) => link.master.iter().cloned().map(Key::Link).collect(),
            Self::Route(Route { target: Target::Forward { device: Some(device), .. }, .. }) => link(device),
            other => other.key().device().map(link).unwrap_or_default(),
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.key())?;
        match self {
            Self::Namespace(_) | Self::Proxy { .. } => Ok(()),
            Self::Address(address) => {
                f.write_str(if address.preferred { "" } else { ": never chosen as a source" })?;
                f.write_str(if address.delivered { "" } else { ": for show" })
            }
            Self::BridgePort(port) => {
                let kind = if port.internal { "internal" } else { "device" };
                write!(f, ": {kind} on {}", port.bridge)?;
                port.tag.map_or(Ok(()), |tag| write!(f, ", VLAN {tag}"))
            }
            Self::Port(port) => write!(
                f,
                ": {} on {}, MAC {}, MTU {}{}",
                port.iface_id,
                port.bridge,
                port.mac,
                port.mtu,
                port.external_ids.iter().map(|(key, value)| format!(", {key}={value}")).collect::<String>()
            ),
            Self::Link(link) => write!(f, ": {link}"),
            Self::Setting(setting) => write!(f, ": {}", setting.value),
            Self::State(state) => f.write_str(if state.up { ": on" } else { ": off" }),
            Self::Route(route) => write!(f, ": {route}"),
            Self::Rule(rule) => write!(f, ": table {}", rule.table),
            Self::Neighbour(neighbour) => write!(f, ": {}", neighbour.mac),
            Self::Table(table) => write!(f, ": {} lines", table.body.lines().count()),
            Self::Element(element) => match &element.value {
                Some(value) => write!(f, ": {value}"),
                None => Ok(()),
            },
            Self::Flow(flow) => write!(f, ": {}", flow.actions),
            Self::Section(section) => write!(f, ": {} lines", section.lines.lines().count()),
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            LinkKind::Given => f.write_str("made elsewhere")?,
            LinkKind::Cable { peer, namespace: None } => write!(f, "cable to {peer}")?,
            LinkKind::Cable { peer, namespace: Some(there) } => write!(f, "cable to {peer} in {there}")?,
            LinkKind::Bridge => f.write_str("bridge")?,
            LinkKind::Dummy => f.write_str("dummy")?,
            LinkKind::Vrf { table } => write!(f, "VRF of table {table}")?,
            LinkKind::Vxlan { id, port, local } => write!(f, "VXLAN {id} from {local} port {port}")?,
        }
        let words = [
            self.mac.map(|mac| format!(", MAC {mac}")),
            self.mtu.map(|mtu| format!(", MTU {mtu}")),
            self.master.as_ref().map(|master| format!(", port of {master}")),
        ];
        words.into_iter().flatten().try_for_each(|word| f.write_str(&word))
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            self.source.map(|source| format!(", from {source}")),
            self.mtu.map(|mtu| format!(", MTU {mtu}")),
        ];
        write!(f, "{}", self.target)?;
        words.into_iter().flatten().try_for_each(|word| f.write_str(&word))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forward { via, device } => {
                let via = via.map(|via| format!("via {via}"));
                let device = device.as_ref().map(|device| format!("by {device}"));
                f.write_str(&via.into_iter().chain(device).collect::<Vec<_>>().join(" "))
            }
            Self::Blackhole => f.write_str("blackhole"),
            Self::Unreachable => f.write_str("unreachable"),
        }
    }
}
