//! What a node's own devices and its switch say of it and of the network around it, as values. Nothing here looks at the world: whoever
//! does fills these in, and whoever decides reads them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::{Family, Mac};

/// What the node's own devices say.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Surroundings {
    /// Devices that the role has not made, but no cables.
    pub links: Vec<OwnLink>,
    /// The node's own addresses: neither those that are good on one link or inside the node alone, nor those that its role
    /// has put there.
    pub addresses: Vec<OwnAddress>,
    /// The ways to everywhere, in the main table.
    pub defaults: Vec<DefaultRoute>,
}

/// A device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnLink {
    /// As the kernel lists it, such as `eth0`.
    pub name: String,
    /// Its MAC address.
    pub mac: Option<Mac>,
}

/// An address of the node itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnAddress {
    /// With the prefix length of its subnet.
    pub net: IpNet,
    /// The device that has it.
    pub device: String,
    /// The device's MTU.
    pub mtu: u32,
    /// Whether it is one that others should not rely on: an IPv6 address that is temporary, about to go, or somebody
    /// else's too.
    pub fleeting: bool,
}

/// A way to everywhere.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DefaultRoute {
    /// IPv4 or IPv6.
    pub family: Family,
    /// By which device.
    pub device: String,
    /// Through whom; nobody means that everything is on the link itself.
    pub via: Option<IpAddr>,
    /// The lower is preferred.
    pub metric: u32,
}

/// Bridges by name; the integration bridge is not among them.
pub type Bridges = BTreeMap<String, BridgeSeen>;

/// A row of `Bridge` in the switch's database, with its ports.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct BridgeSeen {
    /// Another one for a bridge that was made again.
    pub id: String,
    /// Which port is the card, where somebody has written it down.
    pub uplink: Option<String>,
    /// Its ports by name.
    pub ports: BTreeMap<String, BridgePort>,
}

/// A row of `Port`, and what its interface says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BridgePort {
    /// From the `type` of its interface; several interfaces make a bond.
    pub kind: PortKind,
    /// The number by which flows know it; none while the switch has not opened it.
    pub number: Option<u32>,
}

/// Kinds of ports, as far as they tell which one is the card to the outside.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PortKind {
    /// A device that is there without the switch: a card, a bond of the kernel, a VLAN, a cable.
    Card,
    /// A bond of the switch itself, which has a number for each of its cards and none of its own.
    Bond,
    /// A device of the node that the switch has made.
    Internal,
    /// A patch to another bridge.
    Patch,
    /// Tunnels and the like.
    Other,
}

/// What the node's Open vSwitch says of itself. Only read: whoever installs the node sets it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SwitchFacts {
    /// `external_ids:system-id`.
    pub chassis: Option<String>,
    /// `external_ids:ovn-encap-ip`.
    pub encap_ips: Vec<IpAddr>,
    /// Whether packets are carried by the switch itself, not by the kernel.
    pub userspace: bool,
}
