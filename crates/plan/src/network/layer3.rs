//! A layer3 network in this zone, the cluster's default network included: the node's switch, the cluster router, and by
//! the join switch the node's gateway router.
//!
//! ```text
//!   pods ── <node> ──rtos── ovn_cluster_router ──rtoj── join ──rtoj── GR_<node>
//!                                  └──rtots── transit_switch ── other nodes
//! ```

use causeway_ovn::generated::nb;
use causeway_ovn::{Planned, Str};
use causeway_types::Family;
use causeway_zone::Leg;
use ipnet::IpNet;

use super::nodes;
use super::{Result, Scope};
use crate::row::{Map, Route, core, gateway_router, ids, map, role_ids, router, router_facing, switch, with};

/// What others here need of the network to reach its pods on other nodes: its router, and from there the transit switch.
pub(crate) fn stub(scope: &Scope<'_>) -> Result<Vec<Planned>> {
    let mut rows = vec![cluster_router(scope)];
    rows.extend(scope.limits());
    rows.extend(nodes::transit_switch(scope)?);
    Ok(rows)
}

fn cluster_router(scope: &Scope<'_>) -> Planned {
    let local = scope.is_local_gateway().then_some(("ct-commit-all", "true"));
    let options = with(map([("always_learn_from_arp_request", "false")]), local);
    scope.router(scope.net.names.cluster_router(), options)
}

/// Everything of the network in this zone but for the way out.
pub(crate) fn rows(scope: &Scope<'_>) -> Result<Vec<Planned>> {
    let mut rows = vec![
        cluster_router(scope),
        node_switch(scope),
        scope.gateway_router("router_ip".into()),
        scope.management_port(),
    ];
    rows.extend(scope.port_groups());
    rows.extend(scope.limits());
    rows.push(scope.tracking());
    rows.extend(scope.all_tiers_are_asked());
    rows.extend(node_ports(scope));
    rows.extend(join(scope)?);
    rows.extend(nodes::transit_switch(scope)?);
    rows.extend(routes(scope)?);
    Ok(rows)
}

fn node_switch(scope: &Scope<'_>) -> Planned {
    let management =
        scope.net.legs.iter().find(|leg| leg.family == Family::Ipv4).map(|leg| leg.management.addr());
    let exclude = management.map(|address| ("exclude_ips", address.to_string()));
    let row = nb::LogicalSwitch {
        copp: scope.copp(),
        name: scope.net.names.node_switch(scope.here.name).into(),
        other_config: with(subnet_config(&scope.net.legs), exclude),
        external_ids: role_ids(scope.net),
        ..Default::default()
    };
    Planned::new(switch(scope.name()), row)
}

/// How a switch is told its subnets.
pub(crate) fn subnet_config(legs: &[Leg]) -> Map {
    map(legs.iter().map(|leg| match leg.family {
        Family::Ipv4 => ("subnet", leg.subnet.to_string()),
        Family::Ipv6 => ("ipv6_prefix", leg.subnet.base().to_string()),
    }))
}

/// The two ends between the cluster router and the node's switch.
fn node_ports(scope: &Scope<'_>) -> Vec<Planned> {
    let names = &scope.net.names;
    let name = names.router_to_switch(scope.here.name);
    let path = core(scope.name(), &["router-to-switch"]);
    let port = nb::LogicalRouterPort {
        options: map(scope.mtu_option()),
        ..scope.router_port(name.clone(), &scope.gateway_addresses())
    };
    let facing = core(scope.name(), &["switch-to-router"]);
    let facing_name = names.switch_to_router(scope.here.name);
    vec![
        scope.pinned(&name, &path),
        Planned::new(path, port).within::<nb::LogicalRouter>(&router(scope.name()), "ports"),
        router_facing(scope.net, facing, facing_name, name, &switch(scope.name())),
    ]
}

/// The join switch, with the cluster router and the gateway router on it.
fn join(scope: &Scope<'_>) -> Result<Vec<Planned>> {
    let (names, here) = (&scope.net.names, scope.here);
    let joined = core(scope.name(), &["join"]);
    let row = nb::LogicalSwitch {
        copp: scope.copp(),
        name: names.join_switch().into(),
        external_ids: ids(scope.net),
        ..Default::default()
    };
    let first: std::result::Result<Vec<IpNet>, _> = scope.net.legs.iter().map(Leg::join_router).collect();
    let first = first.map_err(|error| scope.fault(error))?;
    let cluster = scope.router_port(names.cluster_router_to_join(), &first);
    let own = nb::LogicalRouterPort {
        options: map(scope.mtu_option()),
        ..scope.router_port(names.gateway_to_join(here.name), &scope.join_of(here.id)?)
    };
    let port = |part: &str, row, parent: Str| {
        Planned::new(core(scope.name(), &[part]), row).within::<nb::LogicalRouter>(&parent, "ports")
    };
    let facing =
        |part: &str, name, peer| router_facing(scope.net, core(scope.name(), &[part]), name, peer, &joined);
    Ok(vec![
        port("router-to-join", cluster, router(scope.name())),
        port("gateway-to-join", own, gateway_router(scope.name())),
        facing("join-to-router", names.join_to_cluster_router(), names.cluster_router_to_join()),
        facing("join-to-gateway", names.join_to_gateway(here.name), names.gateway_to_join(here.name)),
        Planned::new(joined, row),
    ])
}

/// From the gateway router to the pods and from the pods to the gateway router. A route must match before any policy
/// is looked at, so the one by source is there also while nothing leads out of the node.
fn routes(scope: &Scope<'_>) -> Result<Vec<Planned>> {
    let (names, here, name) = (&scope.net.names, scope.here, scope.name());
    let (to_join, to_switch) = (names.cluster_router_to_join(), names.router_to_switch(here.name));
    let (cluster, gateway) = (router(name), gateway_router(name));
    let mut rows = Vec::new();
    for leg in &scope.net.legs {
        let own = leg.join_of(here.id).map_err(|error| scope.fault(error))?.addr();
        let first = leg.join_router().map_err(|error| scope.fault(error))?.addr();
        for subnet in &leg.subnets {
            let path = core(name, &["gateway-route", &subnet.to_string()]);
            let back = scope.route(subnet, first, &names.gateway_to_join(here.name));
            rows.push(back.planned(path, &gateway));
        }
        let path = core(name, &["route", &own.to_string()]);
        rows.push(scope.route(own, own, &to_join).planned(path, &cluster));
        let path = core(name, &["source-route", &leg.subnet.to_string()]);
        let out = match scope.is_local_gateway() {
            true => scope.route(leg.subnet, leg.management.addr(), &to_switch),
            false => scope.route(leg.subnet, own, &to_join),
        };
        rows.push(Route { by_source: true, ..out }.planned(path, &cluster));
    }
    Ok(rows)
}
