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
mod kinds;
mod link;
mod refusal;
mod steering;

use causeway_api::crd::Topology;
use causeway_ovn::declare::Phase;
use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned};
use causeway_types::{ConnectName, NetworkName, NodeName, PortKey};
use causeway_zone::{Active, ConnectInfo, Connecting, Here, Membership, Place, Rendering, Use, Zone};

use self::kinds::ConnectGroupKey;
use crate::network::Result;
use crate::room::{Room, SliceKey as _};
use crate::row::{Map, map, switch};

pub(crate) use self::kinds::{ConnectGroupKey as GroupKey, GroupOfConnect};

/// Everything of connections.
pub(crate) static ROOM: Room<Zone> = Room {
    name: "connections",
    kinds: &[
        &kinds::Routers,
        &kinds::Sets,
        &kinds::GuardedSets,
        &kinds::Guards,
        &kinds::Refusals,
        &kinds::Links,
        &kinds::NetworkLinks,
        &kinds::Policies,
        &kinds::Steering,
        &kinds::ConnectGroups,
    ],
};

/// A port of a connect router that is this zone's own, as the southbound database must have it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnPort {
    /// `logical_port` of its Port_Binding; its name in the northbound database too.
    pub name: String,
    /// The key that was asked for, if any was.
    pub key: Option<PortKey>,
}

/// A network in a connection, rendered here.
#[derive(Clone, Copy)]
struct Road<'a> {
    zone: &'a Zone,
    info: &'a ConnectInfo,
    place: &'a Place,
    net: &'a Active,
    here: Here<'a>,
    /// Whether the network is here for others to reach it alone.
    stub: bool,
}

impl<'a> Road<'a> {
    /// The road of a network, or the plan of everything that it would have.
    fn of(zone: &'a Zone, info: &'a ConnectInfo, network: &NetworkName) -> std::result::Result<Self, Plan> {
        let place = match zone.membership(info, network) {
            Membership::Member(place) if info.touches_networks() => place,
            Membership::Uncertain(reason) if info.touches_networks() => {
                return Err(Plan::Hold(format!("{}: {reason}", info.text())));
            }
            _ => return Err(Plan::Absent),
        };
        let (net, stub) = match zone.rendering(network) {
            None | Some(Rendering::Unused) => return Err(Plan::Absent),
            Some(Rendering::Stub(active)) if info.has_stubs() && zone.is_reached(info, network) => {
                (active, true)
            }
            Some(Rendering::Stub(_)) => return Err(Plan::Absent),
            Some(Rendering::Idle) => return Err(Plan::Keep),
            Some(Rendering::Unknown) => {
                let reason = format!("network {network}: whether it is used here is not known yet");
                return Err(Plan::Hold(reason));
            }
            Some(Rendering::Broken(problem)) => return Err(Plan::Hold(problem.message.clone())),
            Some(Rendering::Rendered(active)) => (active, false),
        };
        let here = zone.here().map_err(|problem| Plan::Hold(problem.message))?;
        let road = Self { zone, info, place, net, here, stub };
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
        format!("{}: network {}: {error}", self.info.text(), self.name())
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
        (
            "k8s.ovn.org/owner-type",
            if info.name.is_of_siblings() { "PrimaryNetworks" } else { "ClusterNetworkConnect" },
        ),
        ("k8s.ovn.org/name", info.name.as_str()),
    ])
}

const CONTROLLER: &str = "ovnkube-network-connect-controller";

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
fn balancers(zone: &Zone, key: &ConnectGroupKey) -> Plan {
    let info = match settled(zone, &key.group.0) {
        Ok(info) if info.services => info,
        Ok(_) => return Plan::Absent,
        Err(plan) => return plan,
    };
    let row = nb::LoadBalancerGroup { name: info.names.service_lb_group().into(), ..Default::default() };
    let mut planned = Planned::new(key.slice(), row).in_phase(Phase::Port);
    for network in zone.members(info) {
        match zone.rendering(network) {
            Some(Rendering::Rendered(_)) => {
                planned = planned.within::<nb::LogicalSwitch>(&switch(network), "load_balancer_group");
            }
            // Nobody uses a network of this connection here, else this one were used as well.
            Some(Rendering::Idle) => return Plan::Keep,
            Some(Rendering::Unknown) => {
                return Plan::Hold(format!("network {network}: whether it is used here is not known yet"));
            }
            // Nobody of a stub's network is here to ask.
            None | Some(Rendering::Unused | Rendering::Broken(_) | Rendering::Stub(_)) => {}
        }
    }
    Plan::Rows(vec![planned])
}

/// A network's link that is the same on every node.
fn of_links(road: &Road<'_>) -> Plan {
    if road.has_network_link() { plan_of(link::of_network(road)) } else { Plan::Absent }
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
        Use::Idle => Plan::Keep,
        Use::Unknown => {
            Plan::Hold(format!("whether node {node} uses network {} is not known yet", road.name()))
        }
    }
}

/// The ports of a connect router that are this zone's own. Those of other nodes are theirs to report.
pub fn own_ports(zone: &Zone, connect: &ConnectName) -> Vec<OwnPort> {
    let Ok(info) = settled(zone, connect) else { return Vec::new() };
    let roads = zone.members(info).filter_map(|network| Road::of(zone, info, network).ok());
    roads.flat_map(|road| link::own_ports(&road)).collect()
}
