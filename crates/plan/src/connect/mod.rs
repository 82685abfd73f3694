//! Connections between networks: a router for each ClusterNetworkConnect, links from it to the networks' routers, and what
//! sends traffic that way.
//!
//! ```text
//!   transit: one router in all zones                      compact: a router in each zone
//!
//!   blue's router ── link of this node ─┐                  blue's router ── link ─┐
//!                     links of others ──┤ connect-router                          ├─ connect-router
//!   green's router ─────────── link ────┘                  green's router ─ link ─┘
//! ```
//! Owns the paths `cnc:…`. Each connection is planned for itself: what two of them grant to the same networks is there
//! twice, and stays when one of them goes. Nothing is passed on: a policy sends only what enters a network's router from
//! its own pods. Where services alone are granted, guards on the networks' switches keep everything else off the roads.

mod guard;
mod link;
mod steering;

use causeway_api::crd::Topology;
use causeway_ovn::declare::Phase;
use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Str, path};
use causeway_types::{ConnectName, NetworkName, NodeName, PortKey};
use causeway_zone::{Active, ConnectInfo, Connecting, Here, Membership, Place, Rendering, Use, Zone, paths};

use crate::row::{Map, map, switch};
use crate::scope::Result;

/// A slice of a connection.
pub(crate) enum Part {
    Router(ConnectName),
    Set(ConnectName),
    GuardedSet(ConnectName),
    Guards(ConnectName, NetworkName),
    Link(ConnectName, NetworkName, NodeName),
    Network(ConnectName, NetworkName),
    Policy(ConnectName, NetworkName, NetworkName),
    Steering(ConnectName, NetworkName),
}

/// A port of a connect router that is this zone's own, as the southbound database must have it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnPort {
    /// Its name.
    pub name: String,
    /// The key that was asked for, if any was.
    pub key: Option<PortKey>,
}

impl Part {
    /// Reads the components of a prefix that lies in one slice.
    pub(crate) fn of(parts: &[&str]) -> Option<Self> {
        let ["cnc", connect, rest @ ..] = parts else { return None };
        let connect = ConnectName::new(*connect).ok()?;
        let network = |name: &str| NetworkName::new(name).ok();
        Some(match rest {
            ["router"] => Self::Router(connect),
            ["set", _, ..] => Self::Set(connect),
            ["guarded", _, ..] => Self::GuardedSet(connect),
            ["guard", name, _, ..] => Self::Guards(connect, network(name)?),
            ["link", name, node, _, ..] => Self::Link(connect, network(name)?, NodeName::new(*node).ok()?),
            ["network", name, _, ..] => Self::Network(connect, network(name)?),
            ["policy", from, to, _, ..] => Self::Policy(connect, network(from)?, network(to)?),
            ["steer", name, _, ..] => Self::Steering(connect, network(name)?),
            _ => return None,
        })
    }

    /// The router first, then guards, policies last.
    pub(crate) fn priority(&self) -> u8 {
        match self {
            Self::Router(_) => 10,
            Self::GuardedSet(_) => 52,
            Self::Guards(..) => 55,
            Self::Network(..) | Self::Set(_) => 60,
            Self::Link(..) => 65,
            Self::Policy(..) | Self::Steering(..) => 70,
        }
    }
}

/// How many components of a path name its slice, by the third of them; a router is a slice of its own.
pub(crate) fn depth(kind: Option<&str>) -> Option<usize> {
    match kind {
        Some("link" | "policy") => Some(5),
        Some("network" | "steer" | "guard") => Some(4),
        Some("set" | "guarded") => Some(3),
        _ => None,
    }
}

/// A network in a connection, rendered here.
#[derive(Clone, Copy)]
struct Road<'a> {
    zone: &'a Zone,
    info: &'a ConnectInfo,
    place: &'a Place,
    net: &'a Active,
    here: Here<'a>,
}

impl<'a> Road<'a> {
    /// The road of a network, or the plan of everything that it would have.
    fn of(zone: &'a Zone, info: &'a ConnectInfo, network: &NetworkName) -> std::result::Result<Self, Plan> {
        let place = match zone.membership(info, network) {
            Membership::Member(place) if info.touches_networks() => place,
            Membership::Uncertain(reason) if info.touches_networks() => {
                return Err(Plan::Hold(format!("ClusterNetworkConnect {}: {reason}", info.name)));
            }
            _ => return Err(Plan::Absent),
        };
        let net = match zone.rendering(network) {
            None | Some(Rendering::Unused) => return Err(Plan::Absent),
            Some(Rendering::Unknown) => {
                let reason = format!("network {network}: whether it is used here is not known yet");
                return Err(Plan::Hold(reason));
            }
            Some(Rendering::Broken(problem)) => return Err(Plan::Hold(problem.message.clone())),
            Some(Rendering::Rendered(active)) => active,
        };
        let here = zone.here().map_err(|problem| Plan::Hold(problem.message))?;
        let road = Self { zone, info, place, net, here };
        match place.topology == net.topology {
            true => Ok(road),
            false => Err(Plan::Hold(road.fault("its place is that of another topology"))),
        }
    }

    fn name(&self) -> &'a NetworkName {
        self.net.name()
    }

    fn is_layer2(&self) -> bool {
        self.net.topology == Topology::Layer2
    }

    /// Whether each node has a link of its own.
    fn has_node_links(&self) -> bool {
        !self.is_layer2() && self.info.topology.has_node_ports()
    }

    /// Whether there is a link that is the same on every node.
    fn has_network_link(&self) -> bool {
        self.is_layer2() || self.info.is_compact()
    }

    fn fault(&self, error: impl std::fmt::Display) -> String {
        format!("ClusterNetworkConnect {}: network {}: {error}", self.info.name, self.name())
    }

    fn ids(&self) -> Map {
        let mut ids = owner(self.info);
        ids.insert("k8s.ovn.org/network".into(), self.name().as_str().into());
        ids
    }
}

/// Keys that say whose a row is.
fn owner(info: &ConnectInfo) -> Map {
    map([
        ("k8s.ovn.org/owner-controller", CONTROLLER),
        ("k8s.ovn.org/owner-type", "ClusterNetworkConnect"),
        ("k8s.ovn.org/name", info.name.as_str()),
    ])
}

const CONTROLLER: &str = "ovnkube-network-connect-controller";

fn at<'a>(info: &'a ConnectInfo, rest: impl IntoIterator<Item = &'a str, IntoIter: Clone>) -> Str {
    path::join(["cnc", info.name.as_str()].into_iter().chain(rest))
}

/// The connection, or the plan of everything that it would have.
fn settled<'a>(zone: &'a Zone, connect: &ConnectName) -> std::result::Result<&'a ConnectInfo, Plan> {
    if !zone.knows_connects() {
        return Err(Plan::Hold("not all ClusterNetworkConnects are known yet".into()));
    }
    match zone.connecting(connect) {
        None | Some(Connecting::Unsettled) => Err(Plan::Absent),
        Some(Connecting::Broken(problem)) => Err(Plan::Hold(problem.message.clone())),
        Some(Connecting::Settled(info)) => Ok(info),
    }
}

/// The plan of a slice.
pub(crate) fn plan(zone: &Zone, part: &Part) -> Plan {
    let planned = match part {
        Part::Router(connect) => settled(zone, connect).map(|info| Plan::Rows(vec![link::router(info)])),
        Part::Set(connect) => settled(zone, connect).map(|info| steering::sets(zone, info)),
        Part::GuardedSet(connect) => settled(zone, connect).map(|info| guard::sets(zone, info)),
        Part::Guards(connect, network) => road(zone, connect, network).map(|road| guard::rows(&road)),
        Part::Link(connect, network, node) => road(zone, connect, network).map(|road| of_node(&road, node)),
        Part::Network(connect, network) => road(zone, connect, network).map(|road| {
            if road.has_network_link() { plan_of(link::of_network(&road)) } else { Plan::Absent }
        }),
        Part::Policy(connect, from, to) => settled(zone, connect).and_then(|info| {
            // Nobody can be kept from addresses that are not known, so nothing leads there.
            if info.needs_guards() && zone.active(to).is_none() {
                return Err(Plan::Absent);
            }
            Road::of(zone, info, from).map(|road| steering::policy(&road, to))
        }),
        Part::Steering(connect, network) => road(zone, connect, network).map(|road| steering::to_all(&road)),
    };
    planned.unwrap_or_else(|plan| plan)
}

fn road<'a>(
    zone: &'a Zone,
    connect: &ConnectName,
    network: &NetworkName,
) -> std::result::Result<Road<'a>, Plan> {
    Road::of(zone, settled(zone, connect)?, network)
}

fn plan_of(rows: Result<Vec<Planned>>) -> Plan {
    match rows {
        Ok(rows) if rows.is_empty() => Plan::Absent,
        Ok(rows) => Plan::Rows(rows),
        Err(reason) => Plan::Hold(reason),
    }
}

/// The group of load balancers of all services that a connection makes reachable, on the switch of each of its networks.
/// A switch that is not there, since its network cannot be rendered, keeps the group from nobody else.
pub(crate) fn group(zone: &Zone, connect: &ConnectName) -> Plan {
    let info = match settled(zone, connect) {
        Ok(info) if info.services => info,
        Ok(_) => return Plan::Absent,
        Err(plan) => return plan,
    };
    let row = nb::LoadBalancerGroup { name: info.names.service_lb_group().into(), ..Default::default() };
    let mut planned = Planned::new(paths::connect_group(&info.name), row).in_phase(Phase::Port);
    for network in zone.members(info) {
        match zone.rendering(network) {
            Some(Rendering::Rendered(_)) => {
                planned = planned.within::<nb::LogicalSwitch>(&switch(network), "load_balancer_group");
            }
            Some(Rendering::Unknown) => {
                return Plan::Hold(format!("network {network}: whether it is used here is not known yet"));
            }
            None | Some(Rendering::Unused | Rendering::Broken(_)) => {}
        }
    }
    Plan::Rows(vec![planned])
}

/// A layer3 network's link of one node, this one or another.
fn of_node(road: &Road<'_>, node: &NodeName) -> Plan {
    if !road.has_node_links() {
        return Plan::Absent;
    }
    if node == road.here.name {
        return plan_of(link::of_here(road));
    }
    let there = match road.zone.there(node) {
        Ok(Some(there)) => there,
        Ok(None) => return Plan::Absent,
        Err(reason) => return Plan::Hold(reason),
    };
    match road.zone.used_on(road.name(), node) {
        Use::Used => plan_of(Ok(link::of_there(road, &there))),
        Use::Unused => Plan::Absent,
        Use::Unknown => {
            Plan::Hold(format!("whether node {node} uses network {} is not known yet", road.name()))
        }
    }
}

/// The slices under a prefix that is wider than one of them.
pub(crate) fn slices(zone: &Zone, prefix: &str) -> Vec<String> {
    let parts: Vec<&str> = prefix.split(':').collect();
    let name = |at: usize| parts.get(at).filter(|part| !part.is_empty() && at + 1 < parts.len());
    match (name(1).map(|connect| ConnectName::new(*connect)), name(3).map(|net| NetworkName::new(*net))) {
        (None, _) => zone.connects().flat_map(|connect| slices_of(zone, connect, None)).collect(),
        (Some(Ok(connect)), None) => slices_of(zone, &connect, None),
        (Some(Ok(connect)), Some(Ok(network))) => slices_of(zone, &connect, Some(&network)),
        _ => Vec::new(),
    }
}

fn slices_of(zone: &Zone, connect: &ConnectName, only: Option<&NetworkName>) -> Vec<String> {
    let router = paths::connect_router(connect);
    let info = match zone.connecting(connect) {
        None | Some(Connecting::Unsettled) => return Vec::new(),
        // What cannot be read says so once.
        Some(Connecting::Broken(_)) => return vec![router],
        Some(Connecting::Settled(info)) => info,
    };
    let mut slices = vec![router];
    if info.touches_networks() {
        slices.push(paths::connect_set(connect));
        slices.extend(info.services.then(|| paths::connect_group(&info.name)));
        slices.extend(info.needs_guards().then(|| paths::guarded_set(connect)));
        match only {
            Some(network) => slices.extend(slices_of_network(zone, info, network)),
            None => {
                slices.extend(zone.members(info).flat_map(|network| slices_of_network(zone, info, network)))
            }
        }
    }
    slices
}

fn slices_of_network(zone: &Zone, info: &ConnectInfo, network: &NetworkName) -> Vec<String> {
    let connect = &info.name;
    let road = match Road::of(zone, info, network) {
        Ok(road) => road,
        Err(Plan::Hold(_)) => return vec![paths::network_link(connect, network)],
        Err(_) => return Vec::new(),
    };
    let mut slices = Vec::new();
    slices.extend(info.needs_guards().then(|| paths::guards(connect, network)));
    if road.has_network_link() {
        slices.push(paths::network_link(connect, network));
    }
    if road.has_node_links() {
        slices.extend(zone.nodes().map(|node| paths::link(connect, network, &node.name)));
    }
    if info.is_compact() {
        slices.push(paths::steering(connect, network));
    } else {
        let others = zone.members(info).filter(|other| *other != network);
        slices.extend(others.map(|other| paths::policy(connect, network, other)));
    }
    slices
}

/// The ports of a connect router that are this zone's own. Those of other nodes are theirs to report.
pub fn own_ports(zone: &Zone, connect: &ConnectName) -> Vec<OwnPort> {
    let Ok(info) = settled(zone, connect) else { return Vec::new() };
    let roads = zone.members(info).filter_map(|network| Road::of(zone, info, network).ok());
    roads.flat_map(|road| link::own_ports(&road)).collect()
}
