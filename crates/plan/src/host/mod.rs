//! The plan of a node's kernel and of its Open vSwitch ports, network by network.
//!
//! Owns what shall be there; never looks at what is, and never says how to get there. A network of which something is
//! not known is held, and no other one with it.

mod fabric;
mod gateway;
mod host_pods;
mod isolation;
mod keeper;
mod nft;
mod shields;

use std::collections::BTreeMap;

use causeway_types::host::{
    Address, HostPlan, InternalPort, Item, Link, LinkKind, LinkState, MAIN_TABLE, Owner, Route, Setting,
    Target,
};
use causeway_types::{Mac, NetworkName, NodeName, management_port_device};
use causeway_zone::{Active, Change, Here, Rendering, Subject, Zone};

pub use keeper::{HostDirty, HostKeeper, Touched};

/// The bridge that ovn-controller keeps.
pub const INTEGRATION_BRIDGE: &str = "br-int";

/// An owner and what it shall have, or why that is not known.
pub type Owned = (Owner, Result<Vec<Item>, String>);

/// A feature of the host's plan.
pub struct HostRoom {
    /// What people call it.
    pub name: &'static str,
    /// What shall be there for the owners who are touched. Of others nobody listens. An owner of whom something is not known says why:
    /// what is there of it stays.
    pub items: fn(&Zone, Here<'_>, &Touched) -> Vec<Owned>,
    /// Whose things may differ after a change. The zone is as it is after the change.
    pub follows: fn(&Zone, &Change) -> Touched,
}

/// The rooms of the host's plan. A new feature is one more line.
pub static HOST: &[&HostRoom] = &[
    &MANAGEMENT,
    &fabric::FABRIC,
    &shields::TUNNELS,
    &shields::CABLES,
    &isolation::LOCKED,
    &host_pods::HOST_PODS,
    &gateway::GATEWAY,
    &gateway::EXPOSED,
    &gateway::HOST_PORTS,
    &gateway::DATABASES,
    &gateway::FORWARDED,
];

/// What shall be on the node of a zone, all of it at once.
pub fn host(zone: &Zone) -> HostPlan {
    let mut plan = HostPlan::default();
    plan.update(HostKeeper::default().follow(zone, &HostDirty::everything()));
    plan
}

/// Whom to tell when what an owner asks for cannot be. What is the node's own concerns the node, whose readiness says so.
pub fn blame(owner: &Owner) -> Option<Subject> {
    owner.as_network().map(Subject::Network).or_else(|| gateway::blame(owner))
}

/// The default network's management port. Other networks have one where they are on the fabric.
static MANAGEMENT: HostRoom = HostRoom {
    name: "management ports",
    items: |zone, here, _touched| {
        let name = NetworkName::default_network();
        let items = match zone.rendering(&name) {
            Some(Rendering::Rendered(network)) => management(network, here.name),
            Some(Rendering::Broken(problem)) => Err(problem.message.clone()),
            _ => Err(format!("the network {name} is not known")),
        };
        vec![(Owner::network(&name), items)]
    },
    follows: |_zone, change| Touched::all_if(matches!(change, Change::Network(name) if name.is_default())),
};

/// The default network's management port, with the ways to its pods on all nodes.
fn management(network: &Active, node: &NodeName) -> Result<Vec<Item>, String> {
    let device = management_port_device(network.id);
    let mut items = leg(network, node, None)?;
    for leg in &network.legs {
        items.push(Item::Address(Address::new(device.clone(), leg.management)));
        let target = Target::Forward { via: Some(leg.gateway.addr()), device: Some(device.clone()) };
        let route = |dest| Route {
            table: MAIN_TABLE,
            dest,
            metric: 0,
            target: target.clone(),
            source: None,
            mtu: None,
        };
        items.extend(leg.subnets.iter().map(|dest| Item::Route(route(*dest))));
    }
    Ok(items)
}

/// A network's management port, the node's own leg in the network: the port and its device, in a VRF or in none.
fn leg(network: &Active, node: &NodeName, vrf: Option<&str>) -> Result<Vec<Item>, String> {
    let device = management_port_device(network.id);
    let mac = Mac::from_interfaces(network.legs.iter().map(|leg| &leg.management))
        .ok_or("the network has no subnets")?;
    let port = InternalPort {
        name: device.clone(),
        bridge: INTEGRATION_BRIDGE.into(),
        iface_id: network.names.management_port(node),
        external_ids: BTreeMap::new(),
        mac,
        mtu: network.mtu,
    };
    // The switch sets MAC and MTU of its own ports, from its database.
    let link = Link {
        name: device.clone(),
        kind: LinkKind::Given,
        mac: None,
        mtu: None,
        master: vrf.map(str::to_owned),
    };
    let mut items = vec![Item::Port(port), Item::Link(link)];
    let ipv6 = network.legs.iter().any(|leg| leg.management.addr().is_ipv6());
    items.extend(settings(&device, ipv6));
    items.push(Item::State(LinkState { device, up: true }));
    Ok(items)
}

/// Replies may come by the device to requests that left elsewhere; its IPv6 addresses count at once, and nobody's
/// advertisements do.
fn settings(device: &str, ipv6: bool) -> Vec<Item> {
    let setting = |family: &str, name: &str, value: &str| {
        Item::Setting(Setting { path: format!("{family}/conf/{device}/{name}"), value: value.into() })
    };
    let mut settings = vec![setting("ipv4", "rp_filter", "2")];
    let more = [("disable_ipv6", "0"), ("accept_dad", "0"), ("accept_ra", "0")];
    settings.extend(more.into_iter().filter(|_| ipv6).map(|(name, value)| setting("ipv6", name, value)));
    settings
}
