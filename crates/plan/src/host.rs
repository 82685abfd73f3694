//! The plan of a node's kernel and of its Open vSwitch ports: links, addresses, routes, as values.
//!
//! Owns what shall be there; never looks at what is, and never says how to get there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_types::{Cidr, Mac, NetworkName, management_port_device};
use causeway_zone::{Change, Rendering, Zone};
use ipnet::IpNet;

/// The bridge that ovn-controller keeps.
pub const INTEGRATION_BRIDGE: &str = "br-int";

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

/// What shall be on the node of a zone.
///
/// # Errors
/// Why that is not known: what is there stays.
pub fn host(zone: &Zone) -> Result<HostPlan, String> {
    let here = zone.here().map_err(|problem| problem.message)?;
    let net = match zone.rendering(&NetworkName::default_network()) {
        Some(Rendering::Rendered(active)) => active,
        Some(Rendering::Broken(problem)) => return Err(problem.message.clone()),
        _ => return Err("the default network is not known".into()),
    };
    let device = management_port_device(net.id);
    let addresses: BTreeSet<IpNet> = net.legs.iter().map(|leg| leg.management).collect();
    let mac = Mac::from_interfaces(net.legs.iter().map(|leg| &leg.management))
        .ok_or("the default network has no subnets")?;
    let port = OvsPort {
        bridge: INTEGRATION_BRIDGE.into(),
        iface_id: net.names.management_port(here.name),
        external_ids: BTreeMap::new(),
    };
    let routes = net.legs.iter().flat_map(|leg| {
        let route = |dest: &Cidr| HostRoute { dest: *dest, via: leg.gateway.addr(), device: device.clone() };
        leg.subnets.iter().map(route).collect::<Vec<_>>()
    });
    let routes = routes.collect();
    let link = HostLink { mac, mtu: net.mtu, addresses, ovs: Some(port) };
    Ok(HostPlan { links: BTreeMap::from([(device, link)]), routes })
}

/// Whether the host's plan may differ after a change.
pub(crate) fn follows(change: &Change) -> bool {
    matches!(change, Change::Everything | Change::Network(_))
}
