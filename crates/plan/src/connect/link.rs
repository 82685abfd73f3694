//! The router of a connection, its ports to the networks' routers, their other ends, and the routes between them.

use std::net::IpAddr;

use causeway_ovn::declare::Phase;
use causeway_ovn::generated::nb;
use causeway_ovn::{Planned, Str, reference};
use causeway_types::{ConnectTopology, Family, Link, NodeId, NodeName};
use causeway_zone::{ConnectInfo, There};
use ipnet::IpNet;

use super::kinds::{LinkKey, NetworkKey, RouterKey};
use super::{OwnPort, Road, guard, owner};
use crate::common::copp;
use crate::network::Result;
use crate::room::SliceKey as _;
use crate::row::{Map, Route, mac_of, map, router as router_of, set, with};

/// What enters by the links of the compact layout keeps to that layout's routes: transit's are longer and would win.
const COMPACT: &str = "compact";

/// The connect router. It is there whatever is connected.
pub(super) fn router(info: &ConnectInfo) -> Planned {
    let row = nb::LogicalRouter {
        name: info.names.router().into(),
        copp: Some(reference::<nb::Copp>(&copp())),
        options: map(info.router_key.map(|key| ("requested-tnl-key", key.to_string()))),
        external_ids: owner(info),
        ..Default::default()
    };
    Planned::new(path_of_router(info), row)
}

fn path_of_router(info: &ConnectInfo) -> Str {
    RouterKey { connect: info.name.clone() }.slice().into()
}

/// A link before it is rows.
struct Ends<'a> {
    road: &'a Road<'a>,
    /// Whose it is; nobody's if it is the same on every node.
    node: Option<&'a NodeName>,
    links: Vec<Link>,
    options: Map,
    table: &'static str,
}

impl<'a> Ends<'a> {
    fn new(road: &'a Road<'a>, node: Option<(&'a NodeName, NodeId)>) -> Result<Self> {
        let fault = |error| match node {
            Some((name, _)) => road.fault(format!("node {name}: {error}")),
            None => road.fault(error),
        };
        let id = node.map(|(_, id)| id);
        let links = road.place.links(id, road.net.families()).map_err(fault)?;
        let key = road.place.key(id).map_err(fault)?;
        let options = map(key.map(|key| ("requested-tnl-key", key.to_string())));
        // What is too large for the network behind this port is said here: an answer of that network's own router
        // would not find the way back.
        let largest = road.zone.largest_mtu(road.info).filter(|_| road.here.gateway_mtu);
        let mtu = largest.filter(|largest| *largest > road.net.mtu).map(|_| road.net.mtu);
        let options = with(options, mtu.map(|mtu| ("gateway_mtu", mtu.to_string())));
        Ok(Self { road, node: node.map(|(name, _)| name), links, options, table: "" })
    }

    fn at(&self, rest: &[&str]) -> Str {
        let (connect, network) = (self.road.info.name.clone(), self.road.name().clone());
        match self.node {
            Some(node) => LinkKey { connect, network, node: node.clone() }.path(rest),
            None => NetworkKey { connect, network }.path(rest),
        }
    }

    fn name(&self) -> String {
        self.road.info.names.router_to_network(self.road.name(), self.node)
    }

    fn name_of_peer(&self) -> String {
        self.road.info.names.network_to_router(self.road.name(), self.node)
    }

    /// The connect router's port.
    fn port(&self, peer: Option<String>) -> Planned {
        let own: Vec<IpNet> = self.links.iter().map(|link| link.connect_router).collect();
        let table = Some(self.table).filter(|table| !table.is_empty()).map(|table| ("route_table", table));
        let row = nb::LogicalRouterPort {
            name: self.name().into(),
            mac: mac_of(&own),
            networks: set(&own),
            options: with(self.options.clone(), table),
            peer: peer.map(Str::from),
            external_ids: self.road.ids(),
            ..Default::default()
        };
        let router = path_of_router(self.road.info);
        Planned::new(self.at(&["port"]), row).within::<nb::LogicalRouter>(&router, "ports")
    }

    /// The port of the network's router.
    fn peer(&self) -> Planned {
        let own: Vec<IpNet> = self.links.iter().map(|link| link.network_router).collect();
        let row = nb::LogicalRouterPort {
            name: self.name_of_peer().into(),
            mac: mac_of(&own),
            networks: set(&own),
            peer: Some(self.name().into()),
            external_ids: self.road.ids(),
            ..Default::default()
        };
        let router = router_of(self.road.name());
        let peer = Planned::new(self.at(&["peer"]), row).within::<nb::LogicalRouter>(&router, "ports");
        guard::guarded(self.road, peer)
    }

    /// The connect router's routes to these subnets. With nobody to come from there are none.
    fn routes(&self, word: &str, table: &'static str, subnets: &[(Family, String)]) -> Vec<Planned> {
        let next_hop = |family: Family| {
            let hops = self.links.iter().map(|link| link.network_router.addr());
            hops.into_iter().find(|hop: &IpAddr| Family::of(hop) == family)
        };
        let subnets = subnets.iter().filter(|_| self.road.info.joins());
        let hops = subnets.filter_map(|(family, subnet)| next_hop(*family).map(|hop| (subnet, hop)));
        hops.map(|(subnet, next_hop)| {
            let route = Route {
                prefix: subnet.clone(),
                next_hop,
                port: self.name(),
                by_source: false,
                table,
                external_ids: self.road.ids(),
            };
            route.planned(self.at(&[word, subnet]), &path_of_router(self.road.info))
        })
        .collect()
    }
}

/// A layer3 network's subnets of one node.
fn subnets_of(road: &Road<'_>, node: NodeId) -> Result<Vec<(Family, String)>> {
    let subnets = road.net.subnets_of(node).map_err(|error| road.fault(error))?;
    Ok(subnets.iter().map(|subnet| (subnet.family(), subnet.to_string())).collect())
}

fn whole_subnets(road: &Road<'_>) -> Vec<(Family, String)> {
    let legs = road.net.legs.iter();
    legs.flat_map(|leg| leg.subnets.iter().map(|subnet| (leg.family, subnet.to_string()))).collect()
}

/// A layer3 network's link of this node, with both ends.
pub(super) fn of_here(road: &Road<'_>) -> Result<Vec<Planned>> {
    let ends = Ends::new(road, Some((road.here.name, road.here.id)))?;
    let mut rows = vec![ends.port(Some(ends.name_of_peer())), ends.peer()];
    rows.extend(ends.routes("route", "", &subnets_of(road, road.here.id)?));
    Ok(rows)
}

/// A layer3 network's link of another node: the other end is in that node's zone. A node that is beyond the network's
/// subnets or beyond the block has none, and the cluster manager says so.
pub(super) fn of_there(road: &Road<'_>, there: &There<'_>) -> Vec<Planned> {
    let (Ok(mut ends), Ok(subnets)) =
        (Ends::new(road, Some((there.name, there.id))), subnets_of(road, there.id))
    else {
        return Vec::new();
    };
    ends.options.insert("requested-chassis".into(), there.chassis.into());
    let mut rows = vec![ends.port(None)];
    rows.extend(ends.routes("route", "", &subnets));
    rows
}

/// The link that is the same on every node: a layer2 network's, and in the compact layout a layer3 network's too.
pub(super) fn of_network(road: &Road<'_>) -> Result<Vec<Planned>> {
    let mut ends = Ends::new(road, None)?;
    let subnets = whole_subnets(road);
    let mut rows = vec![ends.peer()];
    if road.info.is_compact() {
        ends.table = COMPACT;
        rows.extend(ends.routes("compact-route", COMPACT, &subnets));
    }
    if road.is_layer2() && road.info.topology != ConnectTopology::Compact {
        rows.extend(ends.routes("route", "", &subnets));
    }
    let port = ends.port(Some(ends.name_of_peer()));
    // A port that changes to the other layout's routes must not do so before they are there.
    let moves = road.is_layer2() && road.info.topology == ConnectTopology::Both;
    rows.push(if moves { port.in_phase(Phase::Route) } else { port });
    Ok(rows)
}

/// The connect router's ports to a network that have both ends here.
pub(super) fn own_ports(road: &Road<'_>) -> Vec<OwnPort> {
    let here = (road.here.name, road.here.id);
    let nodes = [road.has_node_links().then_some(Some(here)), road.has_network_link().then_some(None)];
    let port = |node: Option<(&NodeName, NodeId)>| {
        let ends = Ends::new(road, node).ok()?;
        Some(OwnPort { name: ends.name(), key: road.place.key(node.map(|(_, id)| id)).ok()? })
    };
    nodes.into_iter().flatten().filter_map(port).collect()
}

/// The address of the connect router that a network's own traffic is sent to, in one family.
pub(super) fn next_hop(road: &Road<'_>, family: Family) -> Result<Option<IpAddr>> {
    let carries = !road.is_layer2() && !road.info.is_compact();
    let node = carries.then_some((road.here.name, road.here.id));
    let links = Ends::new(road, node)?.links;
    let hops = links.iter().map(|link| link.connect_router.addr());
    Ok(hops.into_iter().find(|hop| Family::of(hop) == family))
}
