//! What the node's own devices say of the network around it: addresses, and the way out.

use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::messages::{SeenAddress, SeenLink, named, plain, seen_address, seen_link};
use crate::netlink::{Netlink, is_missing};
use crate::rtnetlink::Mark;
use causeway_types::Family;
use causeway_types::around::{DefaultRoute, OwnAddress, OwnLink, Surroundings};
use netlink_packet_route::address::{AddressFlags, AddressMessage};
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::route::{RouteAttribute, RouteHeader, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::collections::BTreeMap;
use std::net::IpAddr;

impl Kernel {
    /// What the node's own devices say.
    ///
    /// # Errors
    /// If the kernel refuses to list its devices.
    pub fn surroundings(&self) -> Result<Surroundings> {
        let mut netlink = Netlink::open()?;
        let mut dump = |what: &str, message| {
            let answers = netlink.dump(message);
            answers.map_err(|source| Error::Refused { doing: format!("listing {what}"), source })
        };
        let links = dump("links", RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
        let addresses = dump("addresses", RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            message.header.table = RouteHeader::RT_TABLE_MAIN;
            routes.extend(dump("routes", RouteNetlinkMessage::GetRoute(message))?);
        }
        let foreign = links.iter().filter_map(seen_link).filter(|link| !Mark::NODE.is_on(&link.alias));
        let links: BTreeMap<u32, SeenLink> = foreign.map(|link| (link.index, link)).collect();
        // Cables of pods come and go.
        let own = links.values().filter(|link| !link.is_cable());
        Ok(Surroundings {
            links: own.map(|link| OwnLink { name: link.name.clone(), mac: link.mac }).collect(),
            addresses: addresses.iter().filter_map(|address| own_address(address, &links)).collect(),
            defaults: routes.iter().flat_map(|route| default_routes(route, &links)).collect(),
        })
    }

    /// The node's own IPv4 addresses on a device, in the kernel's order; none if there is no such device.
    ///
    /// # Errors
    /// If the kernel refuses to list them.
    pub fn addresses_of(&self, device: &str) -> Result<Vec<OwnAddress>> {
        let mut netlink = Netlink::open()?;
        let refused = |source| Error::Refused { doing: format!("listing addresses of {device}"), source };
        let links = match netlink.get(RouteNetlinkMessage::GetLink(named(device))) {
            Err(error) if is_missing(&error) => return Ok(Vec::new()),
            answers => answers.map_err(refused)?,
        };
        let links: BTreeMap<u32, SeenLink> =
            links.iter().filter_map(seen_link).map(|link| (link.index, link)).collect();
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.index = links.keys().next().copied().unwrap_or_default();
        let addresses = netlink.dump(RouteNetlinkMessage::GetAddress(message)).map_err(refused)?;
        Ok(addresses.iter().filter_map(|address| own_address(address, &links)).collect())
    }
}

fn own_address(message: &RouteNetlinkMessage, links: &BTreeMap<u32, SeenLink>) -> Option<OwnAddress> {
    let seen = seen_address(message)?;
    let inside = seen.local || seen.net.addr().is_loopback() || seen.protocol == Mark::NODE.protocol;
    let link = links.get(&seen.index).filter(|_| !inside)?;
    let (device, mtu) = (link.name.clone(), link.mtu);
    Some(OwnAddress { net: seen.net, device, mtu, fleeting: is_fleeting(&seen) })
}

/// The flag of temporary IPv6 addresses is that of secondary IPv4 addresses, which are as good as others.
fn is_fleeting(seen: &SeenAddress) -> bool {
    let fleeting = AddressFlags::Secondary | AddressFlags::Deprecated | AddressFlags::Dadfailed;
    seen.net.addr().is_ipv6() && seen.flags.intersects(fleeting)
}

/// A route that goes several ways at once is several routes here.
fn default_routes(message: &RouteNetlinkMessage, links: &BTreeMap<u32, SeenLink>) -> Vec<DefaultRoute> {
    let RouteNetlinkMessage::NewRoute(seen) = message else { return Vec::new() };
    let header = &seen.header;
    let leads_out = header.destination_prefix_length == 0 && header.kind == RouteType::Unicast;
    if !leads_out || header.table != RouteHeader::RT_TABLE_MAIN {
        return Vec::new();
    }
    let family = if header.address_family == AddressFamily::Inet { Family::Ipv4 } else { Family::Ipv6 };
    let metric = seen.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Priority(metric) => Some(*metric),
        _ => None,
    });
    let mut ways = vec![way(None, &seen.attributes)];
    for attribute in &seen.attributes {
        if let RouteAttribute::MultiPath(hops) = attribute {
            ways.extend(hops.iter().map(|hop| way(Some(hop.interface_index), &hop.attributes)));
        }
    }
    let route = |(device, via): (Option<u32>, Option<IpAddr>)| {
        let device = links.get(&device?)?.name.clone();
        Some(DefaultRoute { family, device, via, metric: metric.unwrap_or_default() })
    };
    ways.into_iter().filter_map(route).collect()
}

/// Device and next hop.
fn way(device: Option<u32>, attributes: &[RouteAttribute]) -> (Option<u32>, Option<IpAddr>) {
    let oif = attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    });
    let via = attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(address) => plain(address),
        _ => None,
    });
    (oif.or(device), via)
}
