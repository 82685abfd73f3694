//! Netlink messages from values, and values from netlink messages.

use crate::host::{PodInterface, Route};
use causeway_types::host::CABLE_GROUP;
use causeway_types::{Cidr, Mac};
use ipnet::IpNet;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, InfoVrf, InfoVxlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::RawFd;

/// A cable whose far end appears in another namespace, with its name and MAC from the first moment.
pub(crate) fn cable(interface: &PodInterface, namespace: RawFd) -> LinkMessage {
    let mut peer = LinkMessage::default();
    peer.attributes = vec![
        LinkAttribute::IfName(interface.name.clone()),
        LinkAttribute::Address(interface.mac.bytes().to_vec()),
        LinkAttribute::Mtu(interface.mtu),
        LinkAttribute::NetNsFd(namespace),
    ];
    peer.attributes.extend(interface.cut.then_some(LinkAttribute::GsoMaxSegs(1)));
    let mut message = named(&interface.host_name);
    message.attributes.extend([
        LinkAttribute::Mtu(interface.mtu),
        LinkAttribute::Group(CABLE_GROUP),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]),
    ]);
    message
}

/// The link of a name, for requests that find it so.
pub(crate) fn named(name: &str) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(name.to_owned()));
    message
}

/// The link of an index.
pub(crate) fn indexed(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

pub(crate) fn with_flags(mut message: LinkMessage, flags: LinkFlags) -> LinkMessage {
    message.header.flags = flags;
    message.header.change_mask = flags;
    message
}

/// An address of a link; without duplicate address detection, since no other port may have it.
pub(crate) fn address(index: u32, address: &IpNet) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family(address.addr());
    message.header.prefix_len = address.prefix_len();
    message.header.index = index;
    message.attributes =
        vec![AddressAttribute::Address(address.addr()), AddressAttribute::Local(address.addr())];
    if address.addr().is_ipv6() {
        message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
    }
    message
}

/// A route in the main table.
pub(crate) fn route(index: u32, route: &Route, protocol: RouteProtocol) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family(route.dest.base());
    message.header.destination_prefix_length = route.dest.prefix_len();
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = protocol;
    message.header.kind = RouteType::Unicast;
    message.header.scope = if route.via.is_some() { RouteScope::Universe } else { RouteScope::Link };
    if route.dest.prefix_len() > 0 {
        message.attributes.push(RouteAttribute::Destination(route.dest.base().into()));
    }
    message.attributes.push(RouteAttribute::Oif(index));
    if let Some(via) = route.via {
        message.attributes.push(RouteAttribute::Gateway(via.into()));
    }
    message
}

pub(crate) fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// A link as far as anybody here looks at it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenLink {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) up: bool,
    pub(crate) mac: Option<Mac>,
    pub(crate) mtu: u32,
    /// The index of the bridge or VRF that has it as a port.
    pub(crate) master: Option<u32>,
    pub(crate) alias: String,
    pub(crate) kind: Option<InfoKind>,
    /// The routing table of a VRF.
    pub(crate) table: Option<u32>,
    /// Number, port and own end of a VXLAN; none of one that learns.
    pub(crate) vxlan: Option<(u32, u16, IpAddr)>,
}

impl SeenLink {
    pub(crate) fn is_cable(&self) -> bool {
        self.kind == Some(InfoKind::Veth)
    }
}

pub(crate) fn seen_link(message: &RouteNetlinkMessage) -> Option<SeenLink> {
    let (RouteNetlinkMessage::NewLink(link) | RouteNetlinkMessage::DelLink(link)) = message else {
        return None;
    };
    let up = link.header.flags.contains(LinkFlags::Up);
    let mut seen = SeenLink { index: link.header.index, up, ..SeenLink::default() };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => seen.name.clone_from(name),
            LinkAttribute::Address(bytes) => seen.mac = bytes.as_slice().try_into().ok().map(Mac::new),
            LinkAttribute::Mtu(mtu) => seen.mtu = *mtu,
            LinkAttribute::Controller(index) => seen.master = Some(*index),
            LinkAttribute::IfAlias(alias) => seen.alias.clone_from(alias),
            LinkAttribute::LinkInfo(infos) => infos.iter().for_each(|info| seen.note(info)),
            _ => {}
        }
    }
    Some(seen)
}

impl SeenLink {
    fn note(&mut self, info: &LinkInfo) {
        match info {
            LinkInfo::Kind(kind) => self.kind = Some(kind.clone()),
            LinkInfo::Data(InfoData::Vrf(facts)) => {
                self.table = facts.iter().find_map(|fact| match fact {
                    InfoVrf::TableId(table) => Some(*table),
                    _ => None,
                });
            }
            LinkInfo::Data(InfoData::Vxlan(facts)) => self.vxlan = seen_vxlan(facts),
            _ => {}
        }
    }
}

fn seen_vxlan(facts: &[InfoVxlan]) -> Option<(u32, u16, IpAddr)> {
    let (mut id, mut port, mut local, mut learns) = (None, None, None, true);
    for fact in facts {
        match fact {
            InfoVxlan::Id(is) => id = Some(*is),
            InfoVxlan::Port(is) => port = Some(*is),
            InfoVxlan::Local(v4) => local = Some(IpAddr::V4(*v4)),
            InfoVxlan::Local6(v6) => local = Some(IpAddr::V6(*v6)),
            InfoVxlan::Learning(is) => learns = *is,
            _ => {}
        }
    }
    Some((id?, port?, local?)).filter(|_| !learns)
}

/// An address of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenAddress {
    pub(crate) index: u32,
    pub(crate) net: IpNet,
    /// Whether it is good on that link alone: the kernel makes such IPv6 addresses itself.
    pub(crate) local: bool,
    /// Who made it, as far as that is written on it; 0 if it is not.
    pub(crate) protocol: u8,
    pub(crate) flags: AddressFlags,
}

pub(crate) fn seen_address(message: &RouteNetlinkMessage) -> Option<SeenAddress> {
    let RouteNetlinkMessage::NewAddress(seen) = message else { return None };
    let local = seen.header.scope == AddressScope::Link && seen.header.family == AddressFamily::Inet6;
    let pick = |local: bool| {
        seen.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(address) if local => Some(*address),
            AddressAttribute::Address(address) if !local => Some(*address),
            _ => None,
        })
    };
    let address = pick(true).or_else(|| pick(false))?;
    let protocol = seen.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Protocol(protocol) => Some(u8::from(*protocol)),
        _ => None,
    });
    let wide = seen.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Flags(flags) => Some(*flags),
        _ => None,
    });
    let narrow = AddressFlags::from_bits_retain(u32::from(seen.header.flags.bits()));
    Some(SeenAddress {
        index: seen.header.index,
        net: IpNet::new(address, seen.header.prefix_len).ok()?,
        local,
        protocol: protocol.unwrap_or_default(),
        flags: wide.unwrap_or(narrow),
    })
}

/// The link, who made the route, and the route, if it is an ordinary one of the main table.
pub(crate) fn seen_route(message: &RouteNetlinkMessage) -> Option<(u32, RouteProtocol, Route)> {
    let RouteNetlinkMessage::NewRoute(seen) = message else { return None };
    if seen.header.table != RouteHeader::RT_TABLE_MAIN || seen.header.kind != RouteType::Unicast {
        return None;
    }
    let mut index = None;
    let mut via = None;
    let mut dest = if seen.header.address_family == AddressFamily::Inet {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    };
    for attribute in &seen.attributes {
        match attribute {
            RouteAttribute::Oif(oif) => index = Some(*oif),
            RouteAttribute::Gateway(address) => via = plain(address),
            RouteAttribute::Destination(address) => dest = plain(address)?,
            _ => {}
        }
    }
    let dest = Cidr::around(dest, seen.header.destination_prefix_length).ok()?;
    Some((index?, seen.header.protocol, Route { dest, via }))
}

pub(crate) fn plain(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(v4) => Some((*v4).into()),
        RouteAddress::Inet6(v6) => Some((*v6).into()),
        _ => None,
    }
}
