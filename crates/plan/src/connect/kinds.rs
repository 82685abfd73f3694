//! The slices of a connection: their keys, which of them there are, and which follow from a change.

use std::borrow::Cow;

use causeway_api::crd::Topology;
use causeway_ovn::Plan;
use causeway_types::{ConnectName, ConnectNames, NetworkName, NodeName};
use causeway_zone::{Change, ConnectInfo, Connecting, Subject, Use, Zone};

use super::{Road, balancers, guard, link, of_links, of_node, refusal, road, settled, steering};
use crate::room::{Component, Kind, Slices};

/// The name of the group of a connection's load balancers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct GroupOfConnect(pub(crate) ConnectName);

impl Component for GroupOfConnect {
    fn text(&self) -> Cow<'_, str> {
        Cow::Owned(ConnectNames::new(self.0.clone()).service_lb_group())
    }

    fn read(text: &str) -> Option<Self> {
        ConnectName::new(text.strip_prefix("cnc_svc_")?).ok().map(Self)
    }
}

crate::slice_key! {
    pub(crate) struct RouterKey, RouterKeys { connect: ConnectName } is ["cnc", _, "router"]
}
crate::slice_key! {
    /// The addresses of all networks, for what steers.
    pub(crate) struct SetKey, SetKeys { connect: ConnectName } at ["cnc", _, "set"]
}
crate::slice_key! {
    /// The addresses that guards keep direct traffic from.
    pub(crate) struct GuardedSetKey, GuardedSetKeys { connect: ConnectName } at ["cnc", _, "guarded"]
}
crate::slice_key! {
    /// What keeps direct traffic of a network from the others.
    pub(crate) struct GuardsKey, GuardsKeys { connect: ConnectName, network: NetworkName } at ["cnc", _, "guard", _]
}
crate::slice_key! {
    /// What refuses a network's pods services in families that the connection has not.
    pub(crate) struct RefusalsKey, RefusalsKeys { connect: ConnectName, network: NetworkName } at ["cnc", _, "refuse", _]
}
crate::slice_key! {
    /// A network's link of one node.
    pub(crate) struct LinkKey, LinkKeys { connect: ConnectName, network: NetworkName, node: NodeName } at ["cnc", _, "link", _, _]
}
crate::slice_key! {
    /// A network's link that is the same on every node.
    pub(crate) struct NetworkKey, NetworkKeys { connect: ConnectName, network: NetworkName } at ["cnc", _, "network", _]
}
crate::slice_key! {
    /// What sends from one network to another.
    pub(crate) struct PolicyKey, PolicyKeys { connect: ConnectName, from: NetworkName, to: NetworkName } at ["cnc", _, "policy", _, _]
}
crate::slice_key! {
    /// What sends from a network to all others at once.
    pub(crate) struct SteeringKey, SteeringKeys { connect: ConnectName, network: NetworkName } at ["cnc", _, "steer", _]
}
crate::slice_key! {
    /// The group of load balancers of all services that the connection makes reachable.
    pub(crate) struct ConnectGroupKey, ConnectGroupKeys { group: GroupOfConnect } is ["Load_Balancer_Group", _]
}

/// The connections that a partial key leaves: the one it names, or all.
fn connects<'a>(zone: &'a Zone, only: Option<&'a ConnectName>) -> impl Iterator<Item = &'a ConnectName> {
    let all = zone.connects().filter(move |_| only.is_none());
    all.chain(only)
}

/// Those of them that have something on networks.
fn touching<'a>(zone: &'a Zone, only: Option<&'a ConnectName>) -> impl Iterator<Item = &'a ConnectInfo> {
    let infos = connects(zone, only).filter_map(|name| zone.settled(name));
    infos.filter(|info| info.touches_networks())
}

/// The roads of a connection that a partial key leaves; a network whose road is held has none.
fn roads<'a>(
    zone: &'a Zone,
    connect: Option<&'a ConnectName>,
    network: Option<&'a NetworkName>,
) -> impl Iterator<Item = Road<'a>> {
    touching(zone, connect).flat_map(move |info| {
        let members = zone.members(info).filter(move |member| network.is_none_or(|name| *member == name));
        members.filter_map(move |member| Road::of(zone, info, member).ok())
    })
}

/// Of the road between siblings its networks tell: there is no object that could.
fn blamed(zone: &Zone, connect: &ConnectName) -> Vec<Subject> {
    if !connect.is_of_siblings() {
        return vec![Subject::Connect(connect.clone())];
    }
    let members = zone.settled(connect).into_iter().flat_map(|info| zone.members(info));
    members.map(|network| Subject::Network(network.clone())).collect()
}

/// The slice of a connection's network that a change of the network in it concerns.
fn of_member(change: &Change) -> Option<(&ConnectName, &NetworkName)> {
    match change {
        Change::Member { connect, network } => Some((connect, network)),
        _ => None,
    }
}

pub(super) struct Routers;

impl Kind<Zone> for Routers {
    type Key = RouterKey;

    /// A connection that cannot be read says so once, here.
    fn slices(&self, zone: &Zone, only: &RouterKeys) -> Vec<RouterKey> {
        let there = |name: &&ConnectName| {
            matches!(zone.connecting(name), Some(Connecting::Settled(_) | Connecting::Broken(_)))
        };
        let all = connects(zone, only.connect.as_ref()).filter(there);
        all.map(|connect| RouterKey { connect: connect.clone() }).collect()
    }

    fn plan(&self, zone: &Zone, key: &RouterKey) -> Plan {
        match settled(zone, &key.connect) {
            Ok(info) => Plan::Rows(vec![link::router(info)]),
            Err(Plan::Absent) if zone.lingering().any(|connect| *connect == key.connect) => Plan::Keep,
            Err(plan) => plan,
        }
    }

    fn priority(&self) -> u8 {
        10
    }

    fn blame(&self, zone: &Zone, key: &RouterKey) -> Vec<Subject> {
        blamed(zone, &key.connect)
    }

    fn follows(&self, _zone: &Zone, change: &Change) -> Vec<Slices<RouterKey>> {
        match change {
            Change::Connect(connect) => vec![RouterKey { connect: connect.clone() }.into()],
            _ => Vec::new(),
        }
    }
}

/// The connection whose sets follow from a change, if any does.
fn with_other_addresses(change: &Change) -> Option<&ConnectName> {
    match change {
        Change::Connect(connect) | Change::Place(connect) | Change::Member { connect, .. } => Some(connect),
        _ => None,
    }
}

pub(super) struct Sets;

impl Kind<Zone> for Sets {
    type Key = SetKey;

    fn slices(&self, zone: &Zone, only: &SetKeys) -> Vec<SetKey> {
        let all = touching(zone, only.connect.as_ref());
        all.map(|info| SetKey { connect: info.name.clone() }).collect()
    }

    fn plan(&self, zone: &Zone, key: &SetKey) -> Plan {
        settled(zone, &key.connect).map_or_else(|plan| plan, |info| steering::sets(zone, info))
    }

    fn priority(&self) -> u8 {
        60
    }

    fn blame(&self, zone: &Zone, key: &SetKey) -> Vec<Subject> {
        blamed(zone, &key.connect)
    }

    fn follows(&self, zone: &Zone, change: &Change) -> Vec<Slices<SetKey>> {
        let whole = matches!(change, Change::Connect(_));
        let has_sets = |name: &&ConnectName| whole || zone.settled(name).is_some_and(ConnectInfo::is_compact);
        let connect = with_other_addresses(change).filter(has_sets);
        connect.map(|connect| SetKey { connect: connect.clone() }.into()).into_iter().collect()
    }
}

pub(super) struct GuardedSets;

impl Kind<Zone> for GuardedSets {
    type Key = GuardedSetKey;

    fn slices(&self, zone: &Zone, only: &GuardedSetKeys) -> Vec<GuardedSetKey> {
        let guarded = touching(zone, only.connect.as_ref()).filter(|info| info.needs_guards());
        guarded.map(|info| GuardedSetKey { connect: info.name.clone() }).collect()
    }

    fn plan(&self, zone: &Zone, key: &GuardedSetKey) -> Plan {
        settled(zone, &key.connect).map_or_else(|plan| plan, |info| guard::sets(zone, info))
    }

    fn priority(&self) -> u8 {
        52
    }

    fn blame(&self, zone: &Zone, key: &GuardedSetKey) -> Vec<Subject> {
        blamed(zone, &key.connect)
    }

    fn follows(&self, zone: &Zone, change: &Change) -> Vec<Slices<GuardedSetKey>> {
        let whole = matches!(change, Change::Connect(_));
        let guarded =
            |name: &&ConnectName| whole || zone.settled(name).is_some_and(ConnectInfo::needs_guards);
        let connect = with_other_addresses(change).filter(guarded);
        connect.map(|connect| GuardedSetKey { connect: connect.clone() }.into()).into_iter().collect()
    }
}

pub(super) struct Guards;

impl Kind<Zone> for Guards {
    type Key = GuardsKey;

    fn slices(&self, zone: &Zone, only: &GuardsKeys) -> Vec<GuardsKey> {
        let roads = roads(zone, only.connect.as_ref(), only.network.as_ref());
        let guarded = roads.filter(|road| road.info.needs_guards());
        guarded
            .map(|road| GuardsKey { connect: road.info.name.clone(), network: road.name().clone() })
            .collect()
    }

    fn plan(&self, zone: &Zone, key: &GuardsKey) -> Plan {
        road(zone, &key.connect, &key.network).map_or_else(|plan| plan, |road| guard::rows(&road))
    }

    fn priority(&self) -> u8 {
        55
    }

    fn blame(&self, zone: &Zone, key: &GuardsKey) -> Vec<Subject> {
        blamed(zone, &key.connect)
    }

    fn follows(&self, zone: &Zone, change: &Change) -> Vec<Slices<GuardsKey>> {
        let of = |connect: &ConnectName, network: &NetworkName| {
            GuardsKey { connect: connect.clone(), network: network.clone() }.into()
        };
        match change {
            Change::Connect(connect) => {
                vec![Slices::under(&GuardsKeys { connect: Some(connect.clone()), network: None })]
            }
            Change::Member { connect, network } => {
                let guarded = zone.settled(connect).is_some_and(ConnectInfo::needs_guards);
                guarded.then(|| of(connect, network)).into_iter().collect()
            }
            Change::Grants(network) => {
                let guarded = zone.connects_of(network).filter(|info| info.needs_guards());
                guarded.map(|info| of(&info.name, network)).collect()
            }
            _ => Vec::new(),
        }
    }
}

pub(super) struct Refusals;

impl Kind<Zone> for Refusals {
    type Key = RefusalsKey;

    fn slices(&self, zone: &Zone, only: &RefusalsKeys) -> Vec<RefusalsKey> {
        let roads = roads(zone, only.connect.as_ref(), only.network.as_ref());
        let refusing = roads.filter(|road| road.info.services);
        refusing
            .map(|road| RefusalsKey { connect: road.info.name.clone(), network: road.name().clone() })
            .collect()
    }

    fn plan(&self, zone: &Zone, key: &RefusalsKey) -> Plan {
        road(zone, &key.connect, &key.network).map_or_else(|plan| plan, |road| refusal::rows(&road))
    }

    fn priority(&self) -> u8 {
        55
    }

    fn blame(&self, zone: &Zone, key: &RefusalsKey) -> Vec<Subject> {
        blamed(zone, &key.connect)
    }

    fn follows(&self, zone: &Zone, change: &Change) -> Vec<Slices<RefusalsKey>> {
        let under = |connect: &ConnectName| {
            Slices::under(&RefusalsKeys { connect: Some(connect.clone()), network: None })
        };
        let of = |connect: &ConnectName, network: &NetworkName| {
            RefusalsKey { connect: connect.clone(), network: network.clone() }.into()
        };
        match change {
            Change::Connect(connect) => vec![under(connect)],
            Change::Member { connect, network } => vec![of(connect, network)],
            // What is offered follows the families of a connection.
            Change::Offers(network) => {
                zone.connects_of(network).map(|info| of(&info.name, network)).collect()
            }
            Change::Service(key) if zone.config().default_services.contains(key) => {
                touching(zone, None).map(|info| under(&info.name)).collect()
            }
            Change::Namespace(name)
                if zone.config().default_services.iter().any(|key| key.namespace == *name) =>
            {
                touching(zone, None).map(|info| under(&info.name)).collect()
            }
            _ => Vec::new(),
        }
    }
}

pub(super) struct Links;

impl Kind<Zone> for Links {
    type Key = LinkKey;

    fn slices(&self, zone: &Zone, only: &LinkKeys) -> Vec<LinkKey> {
        let roads = roads(zone, only.connect.as_ref(), only.network.as_ref());
        let of = |road: Road<'_>| -> Vec<LinkKey> {
            let key = |node: &NodeName| LinkKey {
                connect: road.info.name.clone(),
                network: road.name().clone(),
                node: node.clone(),
            };
            zone.nodes().map(|node| key(&node.name)).collect()
        };
        roads.filter(Road::has_node_links).flat_map(of).collect()
    }

    fn plan(&self, zone: &Zone, key: &LinkKey) -> Plan {
        match road(zone, &key.connect, &key.network) {
            Ok(road) => of_node(&road, &key.node),
            // Other zones may not have heard yet that nobody sends here any more.
            Err(Plan::Absent) if zone.lingers(&key.connect, &key.network) => Plan::Keep,
            Err(plan) => plan,
        }
    }

    fn priority(&self) -> u8 {
        65
    }

    /// What leads to a node whose place is not known is that node's fault: the connection is all here without it.
    fn blame(&self, zone: &Zone, key: &LinkKey) -> Vec<Subject> {
        match zone.there(&key.node) {
            Ok(_) => blamed(zone, &key.connect),
            Err(_) => vec![Subject::Node(key.node.clone())],
        }
    }

    fn follows(&self, zone: &Zone, change: &Change) -> Vec<Slices<LinkKey>> {
        match change {
            Change::Connect(connect) => {
                vec![Slices::under(&LinkKeys { connect: Some(connect.clone()), ..LinkKeys::default() })]
            }
            Change::Member { connect, network } => vec![Slices::under(&LinkKeys {
                connect: Some(connect.clone()),
                network: Some(network.clone()),
                node: None,
            })],
            Change::Node(node) => links_to(zone, node),
            Change::Use { network, node } => {
                let infos = zone.connects_of(network).filter(|info| info.topology.has_node_ports());
                infos.map(|info| link_key(info, network, node).into()).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn link_key(info: &ConnectInfo, network: &NetworkName, node: &NodeName) -> LinkKey {
    LinkKey { connect: info.name.clone(), network: network.clone(), node: node.clone() }
}

/// The links that lead to a node.
fn links_to(zone: &Zone, node: &NodeName) -> Vec<Slices<LinkKey>> {
    let infos = touching(zone, None).filter(|info| info.topology.has_node_ports());
    let of =
        |info| zone.members_with(info, Topology::Layer3).map(move |network| link_key(info, network, node));
    infos.flat_map(of).map(Slices::from).collect()
}

pub(super) struct NetworkLinks;

impl Kind<Zone> for NetworkLinks {
    type Key = NetworkKey;

    /// A network whose road is held says so once, here.
    fn slices(&self, zone: &Zone, only: &NetworkKeys) -> Vec<NetworkKey> {
        let there = |info: &ConnectInfo, network: &NetworkName| match Road::of(zone, info, network) {
            Ok(road) => road.has_network_link(),
            Err(plan) => matches!(plan, Plan::Hold(_)),
        };
        let of = |info| {
            let members =
                zone.members(info).filter(|name| only.network.as_ref().is_none_or(|only| only == *name));
            let members = members.filter(move |name| there(info, name));
            members
                .map(|network| NetworkKey { connect: info.name.clone(), network: network.clone() })
                .collect::<Vec<_>>()
        };
        touching(zone, only.connect.as_ref()).flat_map(of).collect()
    }

    fn plan(&self, zone: &Zone, key: &NetworkKey) -> Plan {
        road(zone, &key.connect, &key.network).map_or_else(|plan| plan, |road| of_links(&road))
    }

    fn priority(&self) -> u8 {
        60
    }

    fn blame(&self, zone: &Zone, key: &NetworkKey) -> Vec<Subject> {
        blamed(zone, &key.connect)
    }

    fn follows(&self, _zone: &Zone, change: &Change) -> Vec<Slices<NetworkKey>> {
        if let Change::Connect(connect) = change {
            return vec![Slices::under(&NetworkKeys { connect: Some(connect.clone()), network: None })];
        }
        let key = |(connect, network): (&ConnectName, &NetworkName)| NetworkKey {
            connect: connect.clone(),
            network: network.clone(),
        };
        of_member(change).map(|member| key(member).into()).into_iter().collect()
    }
}

pub(super) struct Policies;

impl Kind<Zone> for Policies {
    type Key = PolicyKey;

    fn slices(&self, zone: &Zone, only: &PolicyKeys) -> Vec<PolicyKey> {
        let of = |road: Road<'_>| -> Vec<PolicyKey> {
            let others = zone.members(road.info).filter(|other| *other != road.name());
            let key = |to: &NetworkName| PolicyKey {
                connect: road.info.name.clone(),
                from: road.name().clone(),
                to: to.clone(),
            };
            others.map(key).collect()
        };
        let roads = roads(zone, only.connect.as_ref(), only.from.as_ref());
        let sends = |road: &Road<'_>| zone.use_by_own_pods(road.name()) != Use::Unused;
        roads.filter(|road| !road.info.is_compact()).filter(sends).flat_map(of).collect()
    }

    fn plan(&self, zone: &Zone, key: &PolicyKey) -> Plan {
        let planned = settled(zone, &key.connect).and_then(|info| {
            // Nobody can be kept from addresses that are not known, so nothing leads there.
            if info.needs_guards() && zone.active(&key.to).is_none() {
                return Err(Plan::Absent);
            }
            let road = Road::of(zone, info, &key.from)?;
            // A network that is here for others to reach has nobody here to send.
            Ok(match zone.use_by_own_pods(&key.from) {
                Use::Used => steering::policy(&road, &key.to),
                Use::Unused => Plan::Absent,
                Use::Idle | Use::Unknown => Plan::Keep,
            })
        });
        planned.unwrap_or_else(|plan| plan)
    }

    fn priority(&self) -> u8 {
        70
    }

    fn blame(&self, zone: &Zone, key: &PolicyKey) -> Vec<Subject> {
        blamed(zone, &key.connect)
    }

    fn follows(&self, zone: &Zone, change: &Change) -> Vec<Slices<PolicyKey>> {
        if let Change::Connect(connect) = change {
            return vec![Slices::under(&PolicyKeys {
                connect: Some(connect.clone()),
                ..PolicyKeys::default()
            })];
        }
        let Some((connect, network)) = of_member(change) else { return Vec::new() };
        let from = PolicyKeys { connect: Some(connect.clone()), from: Some(network.clone()), to: None };
        let info = zone.settled(connect).filter(|info| !info.is_compact());
        let others = info.into_iter().flat_map(|info| zone.members(info)).filter(|other| *other != network);
        let to = |from: &NetworkName| PolicyKey {
            connect: connect.clone(),
            from: from.clone(),
            to: network.clone(),
        };
        [Slices::under(&from)].into_iter().chain(others.map(|other| to(other).into())).collect()
    }
}

pub(super) struct Steering;

impl Kind<Zone> for Steering {
    type Key = SteeringKey;

    fn slices(&self, zone: &Zone, only: &SteeringKeys) -> Vec<SteeringKey> {
        let roads = roads(zone, only.connect.as_ref(), only.network.as_ref());
        let compact = roads.filter(|road| road.info.is_compact());
        compact
            .map(|road| SteeringKey { connect: road.info.name.clone(), network: road.name().clone() })
            .collect()
    }

    fn plan(&self, zone: &Zone, key: &SteeringKey) -> Plan {
        road(zone, &key.connect, &key.network).map_or_else(|plan| plan, |road| steering::to_all(&road))
    }

    fn priority(&self) -> u8 {
        70
    }

    fn blame(&self, zone: &Zone, key: &SteeringKey) -> Vec<Subject> {
        blamed(zone, &key.connect)
    }

    fn follows(&self, _zone: &Zone, change: &Change) -> Vec<Slices<SteeringKey>> {
        if let Change::Connect(connect) = change {
            return vec![Slices::under(&SteeringKeys { connect: Some(connect.clone()), network: None })];
        }
        let key = |(connect, network): (&ConnectName, &NetworkName)| SteeringKey {
            connect: connect.clone(),
            network: network.clone(),
        };
        of_member(change).map(|member| key(member).into()).into_iter().collect()
    }
}

pub(super) struct ConnectGroups;

impl Kind<Zone> for ConnectGroups {
    type Key = ConnectGroupKey;

    fn slices(&self, zone: &Zone, only: &ConnectGroupKeys) -> Vec<ConnectGroupKey> {
        let with_services =
            touching(zone, only.group.as_ref().map(|group| &group.0)).filter(|info| info.services);
        with_services.map(|info| ConnectGroupKey { group: GroupOfConnect(info.name.clone()) }).collect()
    }

    fn plan(&self, zone: &Zone, key: &ConnectGroupKey) -> Plan {
        balancers(zone, key)
    }

    fn priority(&self) -> u8 {
        30
    }

    fn blame(&self, zone: &Zone, key: &ConnectGroupKey) -> Vec<Subject> {
        blamed(zone, &key.group.0)
    }

    fn follows(&self, zone: &Zone, change: &Change) -> Vec<Slices<ConnectGroupKey>> {
        let of = |connect: &ConnectName| ConnectGroupKey { group: GroupOfConnect(connect.clone()) }.into();
        match change {
            Change::Connect(connect) => vec![of(connect)],
            Change::Member { connect, .. } => {
                let serves = zone.settled(connect).is_some_and(|info| info.services);
                serves.then(|| of(connect)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }
}
