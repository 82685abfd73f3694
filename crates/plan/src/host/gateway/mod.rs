//! The node's side of the way out and in: the flows of its bridge, its routes to services and masquerade addresses, and what its
//! own firewall translates.
//!
//! ```text
//!   wire ── uplink ─┐
//!   host ── LOCAL ──┤ bridge ── patch ── ext_<node> ── gateway routers of all networks
//! ```
//!
//! Nothing here grows with the number of networks; a service that is reached from outside has a few flows of its own.

mod bridge;
mod databases;
mod exposed;
mod flows;
mod forwarded;
mod host_ports;
mod sources;
mod translate;

use std::net::IpAddr;

use causeway_types::host::{Address, Item, MAIN_TABLE, Neighbour, Owner, Route, Setting, Target};
use causeway_types::{Cidr, MasqueradeRole, NetworkName};
use causeway_zone::{Change, Subject, Zone};
use ipnet::IpNet;

use super::{HostRoom, Owned, Touched};
use bridge::{Bridge, Side};
pub(super) use databases::DATABASES;
pub(super) use forwarded::FORWARDED;
pub(super) use host_ports::HOST_PORTS;

/// What is there whatever services there are.
/// The service or pod whose ways these are.
pub(super) fn blame(owner: &Owner) -> Option<Subject> {
    let service = exposed::service_of(owner).map(Subject::Service);
    service.or_else(|| host_ports::pod_of(owner).map(Subject::Pod))
}

pub(super) static GATEWAY: HostRoom = HostRoom {
    name: "gateway",
    items: |zone, _here, _touched| {
        let items = Bridge::of(zone).map(|bridge| bridge.map_or(Vec::new(), |bridge| gateway(zone, &bridge)));
        vec![(Owner::node("gateway"), items)]
    },
    follows: |zone, change| {
        let open = &zone.config().default_services;
        Touched::all_if(match change {
            Change::Bridge => true,
            Change::Network(name) => name.is_default(),
            Change::Service(key) => open.contains(key),
            Change::Namespace(namespace) => open.iter().any(|key| key.namespace == *namespace),
            _ => false,
        })
    },
};

/// What services that are reached from outside add.
pub(super) static EXPOSED: HostRoom = HostRoom {
    name: "services from outside",
    items: |zone, _here, touched| exposed::items(zone, touched),
    follows: |zone, change| match change {
        Change::Bridge => Touched::Everybody,
        Change::Service(key) => exposed::owners([key.clone()]),
        // A service that another one keeps from an address has it where that one is not served.
        Change::Namespace(namespace) | Change::Sibling { namespace, .. } => {
            exposed::owners(zone.services_in(namespace).flat_map(|key| zone.with_rivals(key)))
        }
        Change::Endpoints { service, .. } if exposed::follow_endpoints(zone, service) => {
            exposed::owners([service.clone()])
        }
        Change::Network(name) => Touched::all_if(name.is_default() || exposed::is_exposed(zone, name)),
        Change::Grants(name) | Change::Member { network: name, .. } => exposed::in_reach(zone, name),
        _ => Touched::Nobody,
    },
};

fn gateway(zone: &Zone, bridge: &Bridge) -> Vec<Item> {
    let open: Vec<IpAddr> = zone.default_service_addresses().into_iter().collect();
    let mtu = zone.active(&NetworkName::default_network()).map(|network| network.mtu);
    let mut items = device(bridge);
    items.extend(bridge.sides.iter().flat_map(|side| routes(bridge, side, mtu)));
    items.extend(flows::flows(bridge, &open));
    items
}

/// The bridge as a device of the node. Packets that came by it may leave by it again, so the kernel must neither take that for a
/// mistake nor tell the sender of a shorter way. The device itself is nobody's plan: whoever plans one has all addresses on it,
/// and this one has the node's own.
fn device(bridge: &Bridge) -> Vec<Item> {
    let name = bridge.name();
    let setting = |device: &str, name: &str, value: &str| {
        Item::Setting(Setting { path: format!("ipv4/conf/{device}/{name}"), value: value.into() })
    };
    vec![
        setting(name, "rp_filter", "2"),
        setting(name, "send_redirects", "0"),
        setting("all", "send_redirects", "0"),
    ]
}

/// Services and masquerade addresses are behind one neighbour that no machine has: the bridge's flows know where they go.
fn routes(bridge: &Bridge, side: &Side, mtu: Option<u32>) -> Vec<Item> {
    let device = bridge.name().to_owned();
    let (host, hop) = (side.role(MasqueradeRole::Host), side.role(MasqueradeRole::NextHop));
    let route = |dest: Cidr, via: Option<IpAddr>, source: Option<IpAddr>, mtu: Option<u32>| {
        let target = Target::Forward { via, device: Some(device.clone()) };
        Item::Route(Route { table: MAIN_TABLE, dest, metric: 0, target, source, mtu })
    };
    let mut items = vec![
        // Only the routes below choose it: whatever else the node sends leaves by an address that others know.
        Item::Address(Address {
            preferred: host.is_ipv4(),
            ..Address::new(device.clone(), IpNet::from(host))
        }),
        route(Cidr::host(hop), None, None, None),
        route(side.masquerade, Some(hop), None, None),
        Item::Neighbour(Neighbour { device: device.clone(), address: hop, mac: bridge.next_hop() }),
    ];
    items.extend(side.services.iter().map(|service| route(*service, Some(hop), Some(host), mtu)));
    items
}

/// The same reason for everybody.
fn held(owners: impl IntoIterator<Item = Owner>, reason: &str) -> Vec<Owned> {
    owners.into_iter().map(|owner| (owner, Err(reason.to_owned()))).collect()
}
