//! The locked default interface of a pod whose primary network is another one: the node's own probes get in, nothing
//! else does, and nothing gets out.
//!
//! Owns the port group and its ACLs. A pod's port joins the group in the transaction that makes it, and names the
//! drops as its guards; both are the pod's.

use std::collections::BTreeSet;
use std::net::IpAddr;

use causeway_api::annotations::{OpenPort, Protocol};
use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Str};
use causeway_types::{NetworkName, hashed_name};
use causeway_zone::{Active, Change, Subject, Zone};

use crate::common::{Acl, port_group};
use crate::network::of_network;
use crate::room::{Kind, Room, SliceKey as _, Slices};

/// The locked default interface.
pub(crate) static ROOM: Room<Zone> = Room { name: "isolation", kinds: &[&Isolation] };

crate::slice_key! {
    struct IsolationKey, IsolationKeys {} at ["zone", "isolation"]
}

struct Isolation;

impl Kind<Zone> for Isolation {
    type Key = IsolationKey;

    fn slices(&self, _zone: &Zone, _only: &IsolationKeys) -> Vec<IsolationKey> {
        vec![IsolationKey {}]
    }

    fn plan(&self, zone: &Zone, _key: &IsolationKey) -> Plan {
        of_network(zone, &NetworkName::default_network(), |scope| Ok(rows(scope.net)))
    }

    fn priority(&self) -> u8 {
        0
    }

    fn blame(&self, zone: &Zone, _key: &IsolationKey) -> Vec<Subject> {
        vec![Subject::Node(zone.config().node.clone())]
    }

    fn follows(&self, _zone: &Zone, change: &Change) -> Vec<Slices<IsolationKey>> {
        match change {
            Change::Network(name) if name.is_default() => vec![IsolationKey {}.into()],
            _ => Vec::new(),
        }
    }
}
const DENY: i64 = 1000;
const ALLOW: i64 = 1001;

fn at(rest: &[&str]) -> Str {
    IsolationKey {}.path(rest)
}

/// The group of locked ports.
pub(crate) fn group() -> Str {
    at(&["group"])
}

/// What keeps a locked port shut; it must be there before the port.
pub(crate) fn guards() -> [Str; 2] {
    [at(&["acl", "deny-in"]), at(&["acl", "deny-out"])]
}

fn group_name() -> String {
    hashed_name("default-network-controller:UDNIsolation:SecondaryPods")
}

/// The group and its ACLs. The node is known by the address of its management port.
fn rows(default: &Active) -> Vec<Planned> {
    let host: Vec<IpAddr> = default.legs.iter().map(|leg| leg.management.addr()).collect();
    let group_row = port_group("default-network-controller", "UDNIsolation", "SecondaryPods");
    let (out, into) = (format!("inport == @{}", group_name()), format!("outport == @{}", group_name()));
    let neighbours = |outgoing: bool| either(host.iter().map(|address| neighbour(*address, outgoing)));
    let from_host = either(host.iter().map(|address| match address {
        IpAddr::V4(v4) => format!("ip4.src == {v4}"),
        IpAddr::V6(v6) => format!("ip6.src == {v6}"),
    }));
    let acls = [
        Acl { name: "deny-out", outgoing: true, priority: DENY, action: "drop", matches: out.clone() },
        Acl {
            name: "allow-neighbours-out",
            outgoing: true,
            priority: ALLOW,
            action: "allow",
            matches: format!("{out} && ({})", neighbours(true)),
        },
        Acl { name: "deny-in", outgoing: false, priority: DENY, action: "drop", matches: into.clone() },
        Acl {
            name: "allow-neighbours-in",
            outgoing: false,
            priority: ALLOW,
            action: "allow",
            matches: format!("{into} && ({})", neighbours(false)),
        },
        Acl {
            name: "allow-node-in",
            outgoing: false,
            priority: ALLOW,
            action: "allow-related",
            matches: format!("{into} && ({from_host})"),
        },
    ];
    let mut rows = vec![Planned::new(group(), group_row)];
    rows.extend(acls.map(|acl| {
        let path = at(&["acl", acl.name]);
        Planned::new(path, acl.row()).within::<nb::PortGroup>(&group(), "acls")
    }));
    rows
}

/// Who has the node's address, asked or answered.
fn neighbour(host: IpAddr, outgoing: bool) -> String {
    match (host, outgoing) {
        (IpAddr::V4(v4), true) => format!("(arp && arp.tpa == {v4})"),
        (IpAddr::V4(v4), false) => format!("(arp && arp.spa == {v4})"),
        (IpAddr::V6(v6), true) => format!("(nd && (nd.target == {v6} || ip6.dst == {v6}))"),
        (IpAddr::V6(v6), false) => format!("(nd && (nd.target == {v6} || ip6.src == {v6}))"),
    }
}

fn either(conditions: impl IntoIterator<Item = String>) -> String {
    conditions.into_iter().collect::<Vec<_>>().join(" || ")
}

/// What opens some ports of a locked pod to the default network, since its owner wants so. Rows of the pod's slice.
pub(crate) fn open_ports(name: &str, ports: &[OpenPort], path_of: impl Fn(&str) -> Str) -> Vec<Planned> {
    if ports.is_empty() {
        return Vec::new();
    }
    let open = either(conditions(ports).into_iter().chain(["arp".into(), "nd".into()]));
    let acls = [
        Acl {
            name: "open-in",
            outgoing: false,
            priority: ALLOW,
            action: "allow-related",
            matches: format!("outport == \"{name}\" && ({open})"),
        },
        Acl {
            name: "open-out",
            outgoing: true,
            priority: ALLOW,
            action: "allow",
            matches: format!("inport == \"{name}\" && (arp || nd)"),
        },
    ];
    let planned = |acl: Acl<'_>| {
        let path = path_of(acl.name);
        Planned::new(path, acl.row()).within::<nb::PortGroup>(&group(), "acls")
    };
    acls.map(planned).into()
}

/// One condition for each protocol without ports, and for each range of ports that follow each other.
fn conditions(ports: &[OpenPort]) -> Vec<String> {
    let sorted: BTreeSet<&OpenPort> = ports.iter().collect();
    let mut ranges: Vec<(Protocol, Option<(u16, u16)>)> = Vec::new();
    for open in sorted {
        match (ranges.last_mut(), open.port) {
            (Some((protocol, Some((_, last)))), Some(port))
                if *protocol == open.protocol && last.checked_add(1) == Some(port) =>
            {
                *last = port;
            }
            (_, port) => ranges.push((open.protocol, port.map(|port| (port, port)))),
        }
    }
    ranges.into_iter().map(|(protocol, range)| condition(protocol, range)).collect()
}

fn condition(protocol: Protocol, range: Option<(u16, u16)>) -> String {
    let protocol = match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Sctp => "sctp",
        Protocol::Icmp => "icmp",
        Protocol::Icmpv6 => "icmp6",
    };
    match range {
        None => protocol.to_owned(),
        Some((first, last)) if first == last => format!("{protocol}.dst == {first}"),
        Some((first, last)) => format!("{first} <= {protocol}.dst <= {last}"),
    }
}
