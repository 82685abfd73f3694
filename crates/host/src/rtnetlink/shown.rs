//! Addresses that are only for show: the node has them, so that somebody tells others of them, and takes nothing that is sent there.
//!
//! The kernel makes routes for an address: `local`, and for IPv6 one to the device beside it. They come back with the address's device.

use super::messages::family_of;
use super::{KernelOutput, Links};
use crate::error::{Error, Result};
use crate::messages::{family, indexed, plain, seen_link};
use crate::output::Wanted;
use causeway_types::Family;
use causeway_types::host::{Address, Item, MAIN_TABLE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType};
use nix::errno::Errno;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The tables of addresses that are not in a VRF: their own, and for IPv6 the one that is asked without a rule.
const OUTSIDE: [u32; 2] = [255, MAIN_TABLE];
/// More routes to one address the kernel never makes.
const MOST_ROUTES: usize = 3;

/// The number of a device, and an address.
type Place = (u32, IpAddr);

impl KernelOutput {
    /// The wanted addresses for show that no route of the kernel leads to.
    pub(super) fn shown(&mut self, wanted: &Wanted, links: &Links) -> Result<BTreeSet<Place>> {
        let mut places = BTreeSet::new();
        for planned in wanted.values() {
            if let Item::Address(Address { device, net, delivered: false, .. }) = &planned.item
                && let Some(link) = links.by_name.get(device)
            {
                places.insert((link.index, net.addr()));
            }
        }
        if !places.is_empty() {
            for route in self.kernel_routes()? {
                places.retain(|place| place_of(&route) != Some(*place));
            }
        }
        Ok(places)
    }

    /// Takes the kernel's own routes to an address away: they are in the table of the device's VRF.
    pub(super) fn stop_delivery(&mut self, device: &str, item: &Item, address: IpAddr) -> Result<()> {
        let failed = |source| Error::Refused { doing: format!("making {item}"), source };
        let is = self.link(device)?.ok_or_else(|| Error::NoLink(device.to_owned()))?;
        let master = match is.master {
            Some(index) => self.netlink.get(RouteNetlinkMessage::GetLink(indexed(index))).map_err(failed)?,
            None => Vec::new(),
        };
        let table = master.iter().filter_map(seen_link).find_map(|link| link.table);
        for table in table.map_or(OUTSIDE.to_vec(), |table| vec![table]) {
            let message = kernel_route(address, is.index, table);
            for _ in 0..MOST_ROUTES {
                match self.netlink.change(RouteNetlinkMessage::DelRoute(message.clone()), 0) {
                    Err(error) if error.raw_os_error() == Some(Errno::ESRCH as i32) => break,
                    other => other.map_err(failed)?,
                }
            }
        }
        Ok(())
    }

    /// The routes that the kernel has made by itself, in all tables.
    fn kernel_routes(&mut self) -> Result<Vec<RouteMessage>> {
        let mut routes = Vec::new();
        for family in Family::ALL {
            let mut message = RouteMessage::default();
            message.header.address_family = family_of(family);
            message.header.protocol = RouteProtocol::Kernel;
            let answers = self.dump("routes", RouteNetlinkMessage::GetRoute(message))?;
            routes.extend(answers.into_iter().filter_map(|answer| match answer {
                RouteNetlinkMessage::NewRoute(route) => Some(route),
                _ => None,
            }));
        }
        Ok(routes)
    }
}

/// A route of the kernel's own to one address. IPv6 looks at no kind: the one to the device goes by the same message.
fn kernel_route(address: IpAddr, device: u32, table: u32) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family(address);
    message.header.destination_prefix_length = if address.is_ipv4() { 32 } else { 128 };
    message.header.table = u8::try_from(table).unwrap_or(0);
    message.header.protocol = RouteProtocol::Kernel;
    message.header.kind = RouteType::Local;
    message.header.scope = if address.is_ipv4() { RouteScope::Host } else { RouteScope::Universe };
    message.attributes = vec![
        RouteAttribute::Table(table),
        RouteAttribute::Destination(address.into()),
        RouteAttribute::Oif(device),
    ];
    message
}

/// The device and the one address that a route leads to.
fn place_of(route: &RouteMessage) -> Option<Place> {
    if route.header.protocol != RouteProtocol::Kernel {
        return None;
    }
    let device = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    });
    let address = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(address) => plain(address),
        _ => None,
    })?;
    let whole = if address.is_ipv4() { 32 } else { 128 };
    (route.header.destination_prefix_length == whole).then_some((device?, address))
}
