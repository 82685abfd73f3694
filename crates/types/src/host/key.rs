//! Keys: by what two items are told apart.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{Cidr, Family};

/// What tells an item apart from all others. The kinds stand in the order in which they can be made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Key {
    /// A network namespace, by the name that `ip netns` shows.
    Namespace(String),
    /// A port of Open vSwitch, by the name of its device.
    Port(String),
    /// A port of a bridge of Open vSwitch to the outside, by the name of its device.
    BridgePort(String),
    /// A link, by name.
    Link(String),
    /// A setting, by its path below `/proc/sys/net`, with slashes.
    Setting(String),
    /// An address of a device.
    Address {
        /// The device that has it.
        device: String,
        /// With the prefix length of its subnet.
        net: IpNet,
    },
    /// Whether a device is switched on.
    State(String),
    /// A route. The kernel holds one for each destination and metric of a table.
    Route {
        /// The number of the routing table.
        table: u32,
        /// Where to.
        dest: Cidr,
        /// The lower is preferred.
        metric: u32,
    },
    /// A rule of the policy routing.
    Rule {
        /// IPv4 and IPv6 have separate lists.
        family: Family,
        /// The lower is asked first.
        priority: u32,
        /// Which packets it is for.
        selector: Selector,
    },
    /// A neighbour whose MAC address need not be asked for.
    Neighbour {
        /// On which device.
        device: String,
        /// Whose MAC address it is.
        address: IpAddr,
    },
    /// An address for which the node answers in somebody's place (ARP, NDP).
    Proxy {
        /// On which device.
        device: String,
        /// For whom.
        address: IpAddr,
    },
    /// A table of nftables.
    Table {
        /// Each family has tables of its own.
        family: NftFamily,
        /// With the mark of whoever keeps it in front.
        name: String,
    },
    /// An element of a set or map, which is a part of its table.
    Element {
        /// The family of the table.
        family: NftFamily,
        /// The name of the table.
        table: String,
        /// The name of the set or map.
        set: String,
        /// In the words of `nft`, without what it is mapped to.
        element: String,
    },
    /// A flow of a bridge.
    Flow {
        /// The bridge of Open vSwitch.
        bridge: String,
        /// The number of the OpenFlow table.
        table: u8,
        /// The higher is asked first.
        priority: u16,
        /// In the words of `ovs-ofctl`; empty matches everything.
        matches: String,
    },
    /// A section of FRR's configuration, by its first line.
    Section(String),
}

/// Which packets a rule of the policy routing is for. What is not said matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Selector {
    /// The source is in here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Cidr>,
    /// The destination is in here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Cidr>,
    /// The packet came by this device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The packet's mark, and which bits of it count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<(u32, u32)>,
}

/// The families of nftables that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NftFamily {
    /// IPv4 and IPv6 in one table.
    Inet,
    /// IPv4 alone.
    Ip,
    /// IPv6 alone.
    Ip6,
}

impl NftFamily {
    /// The word that `nft` has for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Inet => "inet",
            Self::Ip => "ip",
            Self::Ip6 => "ip6",
        }
    }

    /// The family of a word of `nft`.
    pub fn of(word: &str) -> Option<Self> {
        [Self::Inet, Self::Ip, Self::Ip6].into_iter().find(|family| family.word() == word)
    }
}

impl Key {
    /// The device without which the item cannot be.
    pub fn device(&self) -> Option<&str> {
        match self {
            Self::Address { device, .. }
            | Self::Neighbour { device, .. }
            | Self::Proxy { device, .. }
            | Self::State(device) => Some(device),
            Self::Setting(path) => match path.split('/').collect::<Vec<_>>().as_slice() {
                [_, "conf" | "neigh", "all" | "default", _] => None,
                [_, "conf" | "neigh", device, _] => Some(device),
                _ => None,
            },
            _ => None,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(name) => write!(f, "namespace {name}"),
            Self::Port(name) | Self::BridgePort(name) => write!(f, "Open vSwitch port {name}"),
            Self::Link(name) => write!(f, "link {name}"),
            Self::Setting(path) => write!(f, "setting {path}"),
            Self::Address { device, net } => write!(f, "address {net} of {device}"),
            Self::State(device) => write!(f, "state of {device}"),
            Self::Route { table, dest, metric } => {
                write!(f, "route to {dest} in table {table}")?;
                if *metric == 0 { Ok(()) } else { write!(f, " with metric {metric}") }
            }
            Self::Rule { family, priority, selector } => {
                write!(f, "{family} rule {priority}{selector}")
            }
            Self::Neighbour { device, address } => write!(f, "neighbour {address} on {device}"),
            Self::Proxy { device, address } => write!(f, "proxy for {address} on {device}"),
            Self::Table { family, name } => write!(f, "nftables table {} {name}", family.word()),
            Self::Element { family, table, set, element } => {
                write!(f, "element {element} of {set} in {} {table}", family.word())
            }
            Self::Flow { bridge, table, priority, matches } => {
                write!(f, "flow of {bridge} table={table},priority={priority}")?;
                if matches.is_empty() { Ok(()) } else { write!(f, ",{matches}") }
            }
            Self::Section(first) => write!(f, "FRR section {first:?}"),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(from) = &self.from {
            write!(f, " from {from}")?;
        }
        if let Some(to) = &self.to {
            write!(f, " to {to}")?;
        }
        if let Some(input) = &self.input {
            write!(f, " by {input}")?;
        }
        self.mark.map_or(Ok(()), |(mark, mask)| write!(f, " with mark {mark:#x}/{mask:#x}"))
    }
}
