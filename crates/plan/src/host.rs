//! The plan of a node's kernel and of its Open vSwitch ports: links, addresses, routes, as values.
//!
//! Owns what shall be there; never looks at what is, and never says how to get there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_types::{Cidr, Mac};
use ipnet::IpNet;

/// What shall be on the node.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HostPlan {
    /// Links by device name.
    pub links: BTreeMap<String, HostLink>,
    /// Routes in the main table.
    pub routes: BTreeSet<HostRoute>,
}

/// One link.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostLink {
    /// Its MAC address.
    pub mac: Mac,
    /// Its MTU.
    pub mtu: u32,
    /// Its addresses, with the prefix lengths of their subnets.
    pub addresses: BTreeSet<IpNet>,
    /// The internal port of Open vSwitch that makes the link, if one does.
    pub ovs: Option<OvsPort>,
}

/// An internal port of Open vSwitch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OvsPort {
    /// The bridge.
    pub bridge: String,
    /// The logical port that it is.
    pub iface_id: String,
    /// Further `external_ids` of the interface.
    pub external_ids: BTreeMap<String, String>,
}

/// One route.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct HostRoute {
    /// Where to.
    pub dest: Cidr,
    /// Through whom.
    pub via: IpAddr,
    /// Through which device.
    pub device: String,
}
