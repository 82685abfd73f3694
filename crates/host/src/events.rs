//! What the kernel tells of changes, so that what somebody else did is seen at once.

use crate::error::{Error, Result};
use crate::messages::seen_link;
use crate::rtnetlink::Mark;
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::AddressAttribute;
use netlink_packet_route::route::{RouteHeader, RouteProtocol};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::io;
use std::thread;

/// Links, IPv4 addresses, routes and rules, and the same of IPv6. Neighbours change all the time by themselves.
const GROUPS: [u32; 7] = [1, 5, 7, 8, 9, 11, 19];
/// Links and IPv4 addresses.
const ADDRESS_GROUPS: [u32; 2] = [1, 5];
const BUFFER: usize = 64 << 10;
/// The table of the node's own addresses.
const LOCAL_TABLE: u8 = 255;

/// Calls back whenever something may have changed that a plan of the node speaks of, in the namespace of the calling
/// thread. Ends when the callback says false; if it ends for another reason it tells `ended`, or drops it if it panics. Events can be
/// lost where there are very many: a slow look beside this stays necessary.
///
/// # Errors
/// If the kernel does not tell.
pub fn follow_kernel(
    mark: Mark,
    changed: impl FnMut() -> bool + Send + 'static,
    ended: impl FnOnce(Error) + Send + 'static,
) -> Result<()> {
    follow(&GROUPS, move |message| can_be_ours(message, mark), changed, ended)
}

/// The same for the IPv4 addresses of a device: those that the mark's owner has made are nothing new.
///
/// # Errors
/// If the kernel does not tell.
pub fn follow_addresses(
    device: &str,
    mark: Mark,
    changed: impl FnMut() -> bool + Send + 'static,
    ended: impl FnOnce(Error) + Send + 'static,
) -> Result<()> {
    let device = device.to_owned();
    follow(&ADDRESS_GROUPS, move |message| can_be_an_address_of(message, &device, mark), changed, ended)
}

fn follow(
    groups: &[u32],
    matters: impl Fn(&RouteNetlinkMessage) -> bool + Send + 'static,
    mut changed: impl FnMut() -> bool + Send + 'static,
    ended: impl FnOnce(Error) + Send + 'static,
) -> Result<()> {
    let failed = |source| Error::Refused { doing: "listening to the kernel".into(), source };
    let socket = open(groups).map_err(failed)?;
    let listen = move || {
        let mut buffer: Vec<u8> = Vec::with_capacity(BUFFER);
        loop {
            buffer.clear();
            let matters = match socket.recv(&mut buffer, 0) {
                Ok(_) => any(&buffer, &matters),
                Err(error) if is_overrun(&error) => true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
                Err(error) => return ended(failed(error)),
            };
            if matters && !changed() {
                return;
            }
        }
    };
    thread::Builder::new().name("kernel-events".into()).spawn(listen).map(drop).map_err(failed)
}

fn open(groups: &[u32]) -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind(&SocketAddr::new(0, 0))?;
    groups.iter().try_for_each(|group| socket.add_membership(*group))?;
    Ok(socket)
}

/// More was told than fits: anything may have changed.
fn is_overrun(error: &io::Error) -> bool {
    error.raw_os_error() == Some(nix::errno::Errno::ENOBUFS as i32)
}

/// Whether a datagram tells of something that matters. What cannot be read may.
fn any(mut rest: &[u8], matters: impl Fn(&RouteNetlinkMessage) -> bool) -> bool {
    while !rest.is_empty() {
        let Ok(packet) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest) else { return true };
        let length = (packet.header.length as usize).next_multiple_of(4).clamp(4, rest.len());
        rest = rest.get(length..).unwrap_or_default();
        if let NetlinkPayload::InnerMessage(message) = &packet.payload
            && matters(message)
        {
            return true;
        }
    }
    false
}

fn can_be_ours(message: &RouteNetlinkMessage, mark: Mark) -> bool {
    match message {
        // Cables of pods come and go, and are nobody's plan.
        RouteNetlinkMessage::NewLink(_) | RouteNetlinkMessage::DelLink(_) => {
            seen_link(message).is_none_or(|link| !link.is_cable() || mark.is_on(&link.alias))
        }
        RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route) => {
            // The way out of the node is somebody else's, and much follows from it.
            let leads_out = route.header.destination_prefix_length == 0;
            // Those that the kernel makes for an address in a VRF come after the address, and may be unwanted.
            let table = route.header.table;
            let of_a_vrf = table != RouteHeader::RT_TABLE_MAIN && table != LOCAL_TABLE;
            let kernels = route.header.protocol == RouteProtocol::Kernel && of_a_vrf;
            leads_out || kernels || route.header.protocol == RouteProtocol::from(mark.protocol)
        }
        _ => true,
    }
}

/// A device may get its name late; other events of links say nothing of addresses.
fn can_be_an_address_of(message: &RouteNetlinkMessage, device: &str, mark: Mark) -> bool {
    match message {
        RouteNetlinkMessage::NewLink(_) | RouteNetlinkMessage::DelLink(_) => {
            seen_link(message).is_none_or(|link| link.name == device)
        }
        RouteNetlinkMessage::NewAddress(address) | RouteNetlinkMessage::DelAddress(address) => {
            let ours = |attribute: &AddressAttribute| matches!(attribute, AddressAttribute::Protocol(protocol) if u8::from(*protocol) == mark.protocol);
            !address.attributes.iter().any(ours)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::named;
    use netlink_packet_route::address::{AddressMessage, AddressProtocol};

    #[test]
    fn addresses_of_ours_and_links_of_others_wake_nobody() {
        let address = |protocol: u8| {
            let mut message = AddressMessage::default();
            message.attributes.push(AddressAttribute::Protocol(AddressProtocol::from(protocol)));
            RouteNetlinkMessage::NewAddress(message)
        };
        let link = |name: &str| RouteNetlinkMessage::NewLink(named(name));
        let matters = |message: &RouteNetlinkMessage| can_be_an_address_of(message, "lo", Mark::EVPN);
        assert!(matters(&address(0)) && matters(&address(Mark::NODE.protocol)) && matters(&link("lo")));
        assert!(!matters(&address(Mark::EVPN.protocol)) && !matters(&link("lo-1001")));
    }
}
