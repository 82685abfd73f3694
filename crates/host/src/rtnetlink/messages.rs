//! Netlink messages of planned items, and what messages say of items that are there.

use crate::messages::{family, named, plain};
use causeway_types::host::{LinkKind, Neighbour, Route, Rule, Selector, Target};
use causeway_types::{Cidr, Family, Mac};
use netlink_packet_route::address::{AddressAttribute, AddressMessage, AddressProtocol, CacheInfo};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, InfoVrf, InfoVxlan, LinkAttribute, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAttribute, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::RawFd;

pub(super) fn family_of(family: Family) -> AddressFamily {
    match family {
        Family::Ipv4 => AddressFamily::Inet,
        Family::Ipv6 => AddressFamily::Inet6,
    }
}

/// A new link; `None` for one that others make. The namespace is that of the far end of a cable.
pub(super) fn new_link(name: &str, kind: &LinkKind, namespace: Option<RawFd>) -> Option<LinkMessage> {
    let infos = match kind {
        LinkKind::Given => return None,
        LinkKind::Bridge => vec![LinkInfo::Kind(InfoKind::Bridge)],
        LinkKind::Dummy => vec![LinkInfo::Kind(InfoKind::Dummy)],
        LinkKind::Vrf { table } => {
            vec![LinkInfo::Kind(InfoKind::Vrf), LinkInfo::Data(InfoData::Vrf(vec![InfoVrf::TableId(*table)]))]
        }
        LinkKind::Vxlan { id, port, local } => {
            let local = match local {
                IpAddr::V4(v4) => InfoVxlan::Local(*v4),
                IpAddr::V6(v6) => InfoVxlan::Local6(*v6),
            };
            let facts = vec![InfoVxlan::Id(*id), local, InfoVxlan::Port(*port), InfoVxlan::Learning(false)];
            vec![LinkInfo::Kind(InfoKind::Vxlan), LinkInfo::Data(InfoData::Vxlan(facts))]
        }
        LinkKind::Cable { peer, .. } => {
            let mut far = named(peer);
            far.attributes.extend(namespace.map(LinkAttribute::NetNsFd));
            vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(far)))]
        }
    };
    let mut message = named(name);
    message.attributes.push(LinkAttribute::LinkInfo(infos));
    Some(message)
}

/// The number of a table fits into the header or not; the attribute has room for all.
fn small(table: u32) -> u8 {
    u8::try_from(table).unwrap_or(0)
}

/// The protocol says whose an address is. Kernels before 5.18 ignore it.
pub(super) fn with_protocol(mut message: AddressMessage, protocol: u8) -> AddressMessage {
    message.attributes.push(AddressAttribute::Protocol(AddressProtocol::from(protocol)));
    message
}

/// An address stays for ever; for how long it is preferred says whether the kernel chooses it by itself.
pub(super) fn with_lifetime(mut message: AddressMessage, preferred: bool) -> AddressMessage {
    let mut times = CacheInfo::default();
    times.ifa_valid = u32::MAX;
    times.ifa_preferred = if preferred { u32::MAX } else { 0 };
    message.attributes.push(AddressAttribute::CacheInfo(times));
    message
}

pub(super) fn route(route: &Route, device: Option<u32>, protocol: u8) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family_of(route.dest.family());
    message.header.destination_prefix_length = route.dest.prefix_len();
    message.header.table = small(route.table);
    message.header.protocol = RouteProtocol::from(protocol);
    let (kind, via) = match &route.target {
        Target::Forward { via, .. } => (RouteType::Unicast, *via),
        Target::Blackhole => (RouteType::BlackHole, None),
        Target::Unreachable => (RouteType::Unreachable, None),
    };
    let direct = kind == RouteType::Unicast && via.is_none();
    message.header.scope = if direct { RouteScope::Link } else { RouteScope::Universe };
    message.header.kind = kind;
    message.attributes.push(RouteAttribute::Table(route.table));
    if route.dest.prefix_len() > 0 {
        message.attributes.push(RouteAttribute::Destination(route.dest.base().into()));
    }
    if route.kept_metric() > 0 {
        message.attributes.push(RouteAttribute::Priority(route.kept_metric()));
    }
    message.attributes.extend(device.map(RouteAttribute::Oif));
    message.attributes.extend(via.map(|via| RouteAttribute::Gateway(via.into())));
    message.attributes.extend(route.source.map(|source| RouteAttribute::PrefSource(source.into())));
    message.attributes.extend(route.mtu.map(|mtu| RouteAttribute::Metrics(vec![RouteMetric::Mtu(mtu)])));
    message
}

fn mtu_of(metrics: &[RouteMetric]) -> Option<u32> {
    metrics.iter().find_map(|metric| match metric {
        RouteMetric::Mtu(mtu) => Some(*mtu),
        _ => None,
    })
}

/// A route with the number of its device.
pub(super) struct SeenRoute {
    pub(super) route: Route,
    pub(super) device: Option<u32>,
}

/// A route of this protocol. What goes several ways at once is seen as a way to nowhere: nobody plans that.
pub(super) fn seen_route(message: &RouteNetlinkMessage, protocol: u8) -> Option<SeenRoute> {
    let RouteNetlinkMessage::NewRoute(seen) = message else { return None };
    if seen.header.protocol != RouteProtocol::from(protocol) {
        return None;
    }
    let (mut table, mut metric, mut via, mut device) = (u32::from(seen.header.table), 0, None, None);
    let (mut source, mut mtu) = (None, None);
    let mut dest: IpAddr = match seen.header.address_family {
        AddressFamily::Inet => Ipv4Addr::UNSPECIFIED.into(),
        _ => Ipv6Addr::UNSPECIFIED.into(),
    };
    for attribute in &seen.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(number) => metric = *number,
            RouteAttribute::Oif(index) => device = Some(*index),
            RouteAttribute::Gateway(address) => via = plain(address),
            RouteAttribute::Destination(address) => dest = plain(address)?,
            RouteAttribute::PrefSource(address) => source = plain(address),
            RouteAttribute::Metrics(metrics) => mtu = mtu_of(metrics),
            _ => {}
        }
    }
    let target = match seen.header.kind {
        RouteType::Unicast => Target::Forward { via, device: None },
        RouteType::BlackHole => Target::Blackhole,
        RouteType::Unreachable => Target::Unreachable,
        _ => return None,
    };
    let dest = Cidr::around(dest, seen.header.destination_prefix_length).ok()?;
    Some(SeenRoute { route: Route { table, dest, metric, target, source, mtu }, device })
}

pub(super) fn rule(rule: &Rule, protocol: u8) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = family_of(rule.family);
    message.header.table = small(rule.table);
    message.header.action = RuleAction::ToTable;
    message.attributes = vec![
        RuleAttribute::Priority(rule.priority),
        RuleAttribute::Table(rule.table),
        RuleAttribute::Protocol(RouteProtocol::from(protocol)),
    ];
    if let Some(from) = rule.selector.from {
        message.header.src_len = from.prefix_len();
        message.attributes.push(RuleAttribute::Source(from.base()));
    }
    if let Some(to) = rule.selector.to {
        message.header.dst_len = to.prefix_len();
        message.attributes.push(RuleAttribute::Destination(to.base()));
    }
    message.attributes.extend(rule.selector.input.clone().map(RuleAttribute::Iifname));
    if let Some((mark, mask)) = rule.selector.mark {
        message.attributes.extend([RuleAttribute::FwMark(mark), RuleAttribute::FwMask(mask)]);
    }
    message
}

/// A rule of this protocol.
pub(super) fn seen_rule(message: &RouteNetlinkMessage, protocol: u8) -> Option<Rule> {
    let RouteNetlinkMessage::NewRule(seen) = message else { return None };
    let ours = RuleAttribute::Protocol(RouteProtocol::from(protocol));
    if !seen.attributes.contains(&ours) {
        return None;
    }
    let family = if seen.header.family == AddressFamily::Inet { Family::Ipv4 } else { Family::Ipv6 };
    let mut rule = Rule { family, priority: 0, selector: Selector::default(), table: 0 };
    rule.table = u32::from(seen.header.table);
    let (mut mark, mut mask) = (None, u32::MAX);
    for attribute in &seen.attributes {
        match attribute {
            RuleAttribute::Priority(priority) => rule.priority = *priority,
            RuleAttribute::Table(table) => rule.table = *table,
            RuleAttribute::Source(from) => {
                rule.selector.from = Cidr::around(*from, seen.header.src_len).ok();
            }
            RuleAttribute::Destination(to) => {
                rule.selector.to = Cidr::around(*to, seen.header.dst_len).ok();
            }
            RuleAttribute::Iifname(name) => rule.selector.input = Some(name.clone()),
            RuleAttribute::FwMark(number) => mark = Some(*number),
            RuleAttribute::FwMask(number) => mask = *number,
            _ => {}
        }
    }
    rule.selector.mark = mark.map(|mark| (mark, mask));
    Some(rule)
}

pub(super) fn neighbour(address: IpAddr, device: u32, protocol: u8) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = family(address);
    message.header.ifindex = device;
    let destination = match address {
        IpAddr::V4(v4) => NeighbourAddress::Inet(v4),
        IpAddr::V6(v6) => NeighbourAddress::Inet6(v6),
    };
    message.attributes = vec![
        NeighbourAttribute::Destination(destination),
        NeighbourAttribute::Protocol(RouteProtocol::from(protocol)),
    ];
    message
}

pub(super) fn with_mac(mut message: NeighbourMessage, neighbour: &Neighbour) -> NeighbourMessage {
    message.header.state = NeighbourState::Permanent;
    message.attributes.push(NeighbourAttribute::LinkLayerAddress(neighbour.mac.bytes().to_vec()));
    message
}

pub(super) fn as_proxy(mut message: NeighbourMessage) -> NeighbourMessage {
    message.header.flags = NeighbourFlags::Proxy;
    message
}

/// A neighbour, or an address for which the node answers (then without a MAC).
pub(super) struct SeenNeighbour {
    pub(super) device: u32,
    pub(super) address: IpAddr,
    pub(super) mac: Option<Mac>,
    pub(super) is_proxy: bool,
    pub(super) is_ours: bool,
}

/// One that somebody has set; those that the kernel has learnt come and go.
pub(super) fn seen_neighbour(message: &RouteNetlinkMessage, protocol: u8) -> Option<SeenNeighbour> {
    let RouteNetlinkMessage::NewNeighbour(seen) = message else { return None };
    let is_proxy = seen.header.flags.contains(NeighbourFlags::Proxy);
    if !is_proxy && seen.header.state != NeighbourState::Permanent {
        return None;
    }
    let (mut address, mut mac, mut is_ours) = (None, None, false);
    for attribute in &seen.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => address = Some(IpAddr::V4(*v4)),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => address = Some(IpAddr::V6(*v6)),
            NeighbourAttribute::LinkLayerAddress(bytes) => {
                mac = bytes.as_slice().try_into().ok().map(Mac::new);
            }
            NeighbourAttribute::Protocol(is) => is_ours = *is == RouteProtocol::from(protocol),
            _ => {}
        }
    }
    Some(SeenNeighbour { device: seen.header.ifindex, address: address?, mac, is_proxy, is_ours })
}
