//! What leads from a network to other nodes: a layer3 network's transit switch, remote ports and routes, and a layer2
//! network's remote ports on its transit router.

use causeway_api::crd::Topology;
use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Str};
use causeway_types::{NetworkName, NodeName, PortKey};
use causeway_zone::{Change, Rendering, Subject, There, Use, Zone};
use ipnet::IpNet;

use super::{Result, Scope, of_present, present};
use crate::room::{Kind, SliceKey as _, Slices};
use crate::row::{Map, Route, addresses, core, ids, map, router, set, with};

/// The configuration of a switch that spans zones.
pub(crate) fn spanning(name: &str, key: u32) -> Map {
    map([
        ("interconn-ts", name.to_owned()),
        ("requested-tnl-key", key.to_string()),
        ("mcast_snoop", "true".into()),
        ("mcast_querier", "false".into()),
        ("mcast_flood_unregistered", "true".into()),
    ])
}

/// The transit switch and this node's place on it.
pub(crate) fn transit_switch(scope: &Scope<'_>) -> Result<Vec<Planned>> {
    let (names, here) = (&scope.net.names, scope.here);
    let transit = core(scope.name(), &["transit-switch"]);
    let name = names.transit_switch();
    let row = nb::LogicalSwitch {
        copp: scope.copp(),
        other_config: spanning(&name, scope.net.switch_key().get()),
        name: name.into(),
        external_ids: ids(scope.net),
        ..Default::default()
    };
    let port_name = names.router_to_transit_switch(here.name);
    let port = nb::LogicalRouterPort {
        options: map([("mcast_flood", "true")]),
        ..scope.router_port(port_name.clone(), &transit_of(scope, here.id)?)
    };
    let facing = nb::LogicalSwitchPort {
        name: names.transit_switch_to_router(here.name).into(),
        r#type: "router".into(),
        addresses: set(["router"]),
        options: map([("router-port", port_name), ("requested-tnl-key", key_of(here.id).to_string())]),
        external_ids: with(ids(scope.net), [("node", here.name.as_str())]),
        ..Default::default()
    };
    Ok(vec![
        Planned::new(core(scope.name(), &["router-to-transit"]), port)
            .within::<nb::LogicalRouter>(&router(scope.name()), "ports"),
        Planned::new(core(scope.name(), &["transit-to-router"]), facing)
            .within::<nb::LogicalSwitch>(&transit, "ports"),
        Planned::new(transit, row),
    ])
}

fn key_of(node: causeway_types::NodeId) -> u32 {
    PortKey::on_transit_switch(node).get()
}

fn transit_of(scope: &Scope<'_>, node: causeway_types::NodeId) -> Result<Vec<IpNet>> {
    scope.net.legs.iter().map(|leg| leg.transit_of(node).map_err(|error| scope.fault(error))).collect()
}

crate::slice_key! {
    /// What leads from a network to another node.
    pub(super) struct NodeKey, NodeKeys { network: NetworkName, node: NodeName } at ["network", _, "node", _]
}

pub(super) struct Nodes;

impl Kind<Zone> for Nodes {
    type Key = NodeKey;

    fn slices(&self, zone: &Zone, only: &NodeKeys) -> Vec<NodeKey> {
        let others: Vec<&NodeName> = zone.others().map(|node| &node.name).collect();
        let of = |network: &NetworkName| -> Vec<NodeKey> {
            others.iter().map(|node| NodeKey { network: network.clone(), node: (*node).clone() }).collect()
        };
        present(zone, only.network.as_ref()).iter().flat_map(of).collect()
    }

    fn plan(&self, zone: &Zone, key: &NodeKey) -> Plan {
        let (network, node) = (&key.network, &key.node);
        if matches!(zone.rendering(network), None | Some(Rendering::Unused)) {
            return Plan::Absent;
        }
        let there = match zone.there(node) {
            Ok(there) => there,
            Err(error) => return Plan::Hold(error),
        };
        match (there, zone.used_on(network, node)) {
            (None, _) | (_, Use::Unused) => Plan::Absent,
            (_, Use::Idle) => Plan::Keep,
            (_, Use::Unknown) => {
                Plan::Hold(format!("whether node {node} uses network {network} is not known yet"))
            }
            (Some(there), Use::Used) => of_present(zone, network, |scope| rows(scope, &there)),
        }
    }

    fn priority(&self) -> u8 {
        50
    }

    fn blame(&self, _zone: &Zone, key: &NodeKey) -> Vec<Subject> {
        vec![Subject::Network(key.network.clone())]
    }

    fn follows(&self, zone: &Zone, change: &Change) -> Vec<Slices<NodeKey>> {
        let one = |network: &NetworkName, node: &NodeName| {
            Slices::from(NodeKey { network: network.clone(), node: node.clone() })
        };
        match change {
            Change::Node(node) => zone.networks().map(|network| one(network, node)).collect(),
            Change::Use { network, node } => vec![one(network, node)],
            Change::Network(name) => {
                vec![Slices::under(&NodeKeys { network: Some(name.clone()), node: None })]
            }
            _ => Vec::new(),
        }
    }
}

fn at(network: &NetworkName, node: &NodeName, rest: &[&str]) -> Str {
    NodeKey { network: network.clone(), node: node.clone() }.path(rest)
}

/// Everything of the network that leads to one other node.
fn rows(scope: &Scope<'_>, there: &There<'_>) -> Result<Vec<Planned>> {
    match scope.net.topology {
        // A gateway router on the switch itself, as it was before transit routers, has no port to lead to.
        Topology::Layer2 if !there.has_transit_routers => Ok(Vec::new()),
        // A stub leads to pods, and those of a layer2 network are on its switch.
        Topology::Layer2 if scope.stub => Ok(Vec::new()),
        Topology::Layer2 => layer2(scope, there),
        _ => layer3(scope, there),
    }
}

fn layer3(scope: &Scope<'_>, there: &There<'_>) -> Result<Vec<Planned>> {
    let (names, name) = (&scope.net.names, scope.name());
    let at = |rest: &[&str]| at(name, there.name, rest);
    let interfaces = transit_of(scope, there.id)?;
    let port = nb::LogicalSwitchPort {
        name: names.transit_switch_to_router(there.name).into(),
        r#type: "remote".into(),
        addresses: set([addresses(&interfaces)]),
        options: map([
            ("requested-tnl-key", key_of(there.id).to_string()),
            ("requested-chassis", there.chassis.to_owned()),
        ]),
        external_ids: with(ids(scope.net), [("node", there.name.as_str())]),
        ..Default::default()
    };
    let transit = core(name, &["transit-switch"]);
    let mut rows = vec![Planned::new(at(&["port"]), port).within::<nb::LogicalSwitch>(&transit, "ports")];
    let subnets = scope.net.subnets_of(there.id).map_err(|error| scope.fault(error))?;
    for ((leg, subnet), via) in scope.net.legs.iter().zip(subnets).zip(interfaces) {
        let join = IpNet::from(leg.join_of(there.id).map_err(|error| scope.fault(error))?.addr());
        // Gateway routers answer whom they have let in, and nobody comes in where there are no pods.
        let gateway = Some(join.to_string()).filter(|_| !scope.stub);
        for prefix in [Some(subnet.to_string()), gateway].into_iter().flatten() {
            let path = at(&["route", &prefix]);
            let route = scope.route(prefix, via.addr(), &names.router_to_transit_switch(scope.here.name));
            let external_ids = with(ids(scope.net), [("ic-node", there.name.as_str())]);
            rows.push(Route { external_ids, ..route }.planned(path, &router(name)));
        }
    }
    Ok(rows)
}

/// The transit router's port towards another node's gateway router. Bound to that node's chassis it is what makes the
/// router span zones.
fn layer2(scope: &Scope<'_>, there: &There<'_>) -> Result<Vec<Planned>> {
    let (names, name) = (&scope.net.names, scope.name());
    let at = |rest: &[&str]| at(name, there.name, rest);
    let port_name = names.transit_router_to_gateway(there.name);
    let peers: std::result::Result<Vec<_>, _> =
        scope.net.legs.iter().map(|leg| leg.peers_of(there.id)).collect();
    let peers = peers.map_err(|error| scope.fault(error))?;
    let own: Vec<IpNet> = peers.iter().map(|peers| peers.router).collect();
    let external_ids = with(ids(scope.net), [("k8s.ovn.org/node", there.name.as_str())]);
    let port = nb::LogicalRouterPort {
        options: map([
            ("requested-tnl-key", PortKey::on_transit_router(there.id).get().to_string()),
            ("requested-chassis", there.chassis.to_owned()),
        ]),
        external_ids: external_ids.clone(),
        ..scope.router_port(port_name.clone(), &own)
    };
    let mut rows =
        vec![Planned::new(at(&["port"]), port).within::<nb::LogicalRouter>(&router(name), "ports")];
    for (join, peers) in scope.join_of(there.id)?.into_iter().zip(&peers) {
        let prefix = join.addr().to_string();
        let path = at(&["route", &prefix]);
        let route = scope.route(prefix, peers.gateway.addr(), &port_name);
        let external_ids = external_ids.clone();
        rows.push(Route { external_ids, ..route }.planned(path, &router(name)));
    }
    Ok(rows)
}
