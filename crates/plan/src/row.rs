//! What planned rows have in common: their paths, their `external_ids`, and short ways to write ports and routes.

use std::net::IpAddr;

use causeway_api::crd::Topology;
use causeway_ovn::generated::nb;
use causeway_ovn::{Members, Pairs, Planned, Str};
use causeway_types::{Mac, NetworkName};
use causeway_zone::Active;
use ipnet::IpNet;

use crate::network::CoreKey;
use crate::room::SliceKey as _;

/// Texts by key, as OVN has them.
pub(crate) type Map = Pairs;

/// A map of these pairs.
pub(crate) fn map<K: Into<Str>, V: Into<Str>>(pairs: impl IntoIterator<Item = (K, V)>) -> Map {
    pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

/// A set of these texts.
pub(crate) fn set<T: ToString>(items: impl IntoIterator<Item = T>) -> Members<Str> {
    items.into_iter().map(|item| item.to_string().into()).collect()
}

/// The path of one of a network's own objects in this zone.
pub(crate) fn core(network: &NetworkName, rest: &[&str]) -> Str {
    CoreKey { network: network.clone() }.path(rest)
}

/// The switch of a network's pods here.
pub(crate) fn switch(network: &NetworkName) -> Str {
    core(network, &["switch"])
}

/// The router of a network: the cluster router or the transit router.
pub(crate) fn router(network: &NetworkName) -> Str {
    core(network, &["router"])
}

/// The gateway router of a network on this node.
pub(crate) fn gateway_router(network: &NetworkName) -> Str {
    core(network, &["gateway-router"])
}

/// Keys that say whose a row is.
pub(crate) fn ids(network: &Active) -> Map {
    map([
        ("k8s.ovn.org/network", network.name().as_str()),
        ("k8s.ovn.org/topology", topology(network.topology)),
    ])
}

/// The same for switches and routers.
pub(crate) fn role_ids(network: &Active) -> Map {
    with(ids(network), [("k8s.ovn.org/role", "primary")])
}

/// A map with more pairs.
pub(crate) fn with<K: Into<Str>, V: Into<Str>>(
    mut base: Map,
    pairs: impl IntoIterator<Item = (K, V)>,
) -> Map {
    base.extend(map(pairs));
    base
}

pub(crate) fn topology(topology: Topology) -> &'static str {
    match topology {
        Topology::Layer2 => "layer2",
        Topology::Layer3 => "layer3",
        Topology::Localnet => "localnet",
    }
}

/// The MAC address of a port with these addresses, as text.
pub(crate) fn mac_of<'a>(interfaces: impl IntoIterator<Item = &'a IpNet>) -> Str {
    Mac::from_interfaces(interfaces).map(|mac| mac.to_string().into()).unwrap_or_default()
}

/// A MAC address and IP addresses, as a switch port has them.
pub(crate) fn addresses<'a>(interfaces: impl IntoIterator<Item = &'a IpNet> + Clone) -> Str {
    let mut text = mac_of(interfaces.clone());
    for interface in interfaces {
        text.push(' ');
        text.push_str(&interface.addr().to_string());
    }
    text
}

/// A switch's port that is the other end of a router's port.
pub(crate) fn router_facing(
    network: &Active,
    path: Str,
    name: String,
    router_port: String,
    switch: &str,
) -> Planned {
    let port = nb::LogicalSwitchPort {
        name: name.into(),
        r#type: "router".into(),
        addresses: set(["router"]),
        options: map([("router-port", router_port)]),
        external_ids: ids(network),
        ..Default::default()
    };
    Planned::new(path, port).within::<nb::LogicalSwitch>(switch, "ports")
}

/// A static route, before it gets its place.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) prefix: String,
    pub(crate) next_hop: IpAddr,
    /// Named wherever the port is this zone's: without it northd looks at every port for every route.
    pub(crate) port: String,
    pub(crate) by_source: bool,
    /// The table it is in; the main one has no name.
    pub(crate) table: &'static str,
    pub(crate) external_ids: Map,
}

impl Route {
    /// The row, in a router. The path ends in what the route matches.
    pub(crate) fn planned(self, path: Str, router: &str) -> Planned {
        let row = nb::LogicalRouterStaticRoute {
            ip_prefix: self.prefix.into(),
            nexthop: self.next_hop.to_string().into(),
            output_port: Some(self.port.into()),
            policy: self.by_source.then(|| "src-ip".into()),
            route_table: self.table.into(),
            external_ids: self.external_ids,
            ..Default::default()
        };
        Planned::new(path, row).within::<nb::LogicalRouter>(router, "static_routes")
    }
}
