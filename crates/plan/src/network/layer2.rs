//! A layer2 network in this zone: one switch for all pods of all nodes, and a transit router whose port to it has the same
//! address and MAC on every node.
//!
//! ```text
//!   pods ── ovn_layer2_switch ──trtos── transit_router ──trtor─rtotr── GR_<node>
//!                                              └──trtor── other nodes' gateway routers
//! ```

use causeway_ovn::Planned;
use causeway_ovn::generated::nb;
use causeway_types::{Family, PortKey, TransitPeers};
use causeway_zone::Leg;
use ipnet::IpNet;

use super::layer3::subnet_config;
use super::nodes::spanning;
use super::{Result, Scope};
use crate::row::{Map, Route, core, gateway_router, map, role_ids, router, router_facing, switch, with};

/// What others here need of the network to reach its pods on other nodes: its router, and the switch with their ports.
pub(crate) fn stub(scope: &Scope<'_>) -> Result<Vec<Planned>> {
    let mut rows = vec![layer2_switch(scope), transit_router(scope)?];
    rows.extend(scope.limits());
    rows.extend(switch_ports(scope));
    Ok(rows)
}

fn transit_router(scope: &Scope<'_>) -> Result<Planned> {
    let key = scope.net.router_key.ok_or_else(|| scope.fault("it has no tunnel keys"))?;
    let options = map([("requested-tnl-key", key.to_string())]);
    Ok(scope.router(scope.net.names.transit_router(), options))
}

/// Everything of the network in this zone but for the way out.
pub(crate) fn rows(scope: &Scope<'_>) -> Result<Vec<Planned>> {
    let join: Vec<String> =
        scope.join_of(scope.here.id)?.iter().map(|address| address.addr().to_string()).collect();
    let mut rows = vec![
        layer2_switch(scope),
        transit_router(scope)?,
        // The port has several networks; OVN would choose among them by sorting.
        scope.gateway_router(join.join(" ")),
        scope.management_port(),
    ];
    rows.extend(scope.port_groups());
    rows.extend(scope.limits());
    rows.push(scope.tracking());
    rows.extend(scope.all_tiers_are_asked());
    rows.extend(switch_ports(scope));
    rows.extend(gateway_link(scope)?);
    rows.extend(routes(scope)?);
    Ok(rows)
}

fn layer2_switch(scope: &Scope<'_>) -> Planned {
    let name = scope.net.names.layer2_switch();
    let spanning = spanning(&name, scope.net.switch_key().get());
    let row = nb::LogicalSwitch {
        copp: scope.copp(),
        name: name.into(),
        other_config: with(subnet_config(&scope.net.legs), spanning),
        external_ids: role_ids(scope.net),
        ..Default::default()
    };
    Planned::new(switch(scope.name()), row)
}

/// The two ends between the transit router and the switch.
fn switch_ports(scope: &Scope<'_>) -> Vec<Planned> {
    let names = &scope.net.names;
    let name = names.transit_router_to_switch();
    let path = core(scope.name(), &["router-to-switch"]);
    let key = PortKey::TRANSIT_ROUTER_SWITCH.get().to_string();
    let port = nb::LogicalRouterPort {
        options: with(map([("requested-tnl-key", key)]), scope.mtu_option()),
        ipv6_ra_configs: router_advertisements(scope),
        ..scope.router_port(name.clone(), &scope.gateway_addresses())
    };
    let facing = core(scope.name(), &["switch-to-router"]);
    vec![
        scope.pinned(&name, &path),
        Planned::new(path, port).within::<nb::LogicalRouter>(&router(scope.name()), "ports"),
        router_facing(scope.net, facing, names.switch_to_transit_router(), name, &switch(scope.name())),
    ]
}

/// Every node's router advertises the same link-local address, so a pod has one default route. Preference is low so
/// that a gateway of the user's own wins.
fn router_advertisements(scope: &Scope<'_>) -> Map {
    if !scope.net.families().has(Family::Ipv6) {
        return Map::new();
    }
    let mtu = scope.net.mtu.to_string();
    map([
        ("address_mode", "dhcpv6_stateful"),
        ("send_periodic", "true"),
        ("max_interval", "900"),
        ("min_interval", "300"),
        ("router_preference", "LOW"),
        ("mtu", mtu.as_str()),
    ])
}

fn peers_here(scope: &Scope<'_>) -> Result<Vec<TransitPeers>> {
    let peers = |leg: &Leg| leg.peers_of(scope.here.id).map_err(|error| scope.fault(error));
    scope.net.legs.iter().map(peers).collect()
}

/// Transit router and gateway router are each other's peers; no switch is between them.
fn gateway_link(scope: &Scope<'_>) -> Result<[Planned; 2]> {
    let (names, here) = (&scope.net.names, scope.here);
    let (out, back) =
        (names.transit_router_to_gateway(here.name), names.gateway_to_transit_router(here.name));
    let peers = peers_here(scope)?;
    let own: Vec<IpNet> = peers.iter().map(|peers| peers.router).collect();
    let key = PortKey::on_transit_router(here.id).get().to_string();
    let router_side = nb::LogicalRouterPort {
        options: map([("requested-tnl-key", key)]),
        peer: Some(back.as_str().into()),
        ..scope.router_port(out.clone(), &own)
    };
    let join = scope.join_of(here.id)?;
    let all: Vec<IpNet> = join.iter().copied().chain(peers.iter().map(|peers| peers.gateway)).collect();
    let gateway_side = nb::LogicalRouterPort {
        options: map(scope.mtu_option()),
        peer: Some(out.into()),
        ..scope.router_port(back, &all)
    };
    Ok([
        Planned::new(core(scope.name(), &["router-to-gateway"]), router_side)
            .within::<nb::LogicalRouter>(&router(scope.name()), "ports"),
        Planned::new(core(scope.name(), &["gateway-to-router"]), gateway_side)
            .within::<nb::LogicalRouter>(&gateway_router(scope.name()), "ports"),
    ])
}

/// From the gateway router to the pods and from the pods to the gateway router.
fn routes(scope: &Scope<'_>) -> Result<Vec<Planned>> {
    let (names, here, name) = (&scope.net.names, scope.here, scope.name());
    let (to_gateway, to_switch) =
        (names.transit_router_to_gateway(here.name), names.transit_router_to_switch());
    let mut rows = Vec::new();
    for (leg, peers) in scope.net.legs.iter().zip(peers_here(scope)?) {
        let own = leg.join_of(here.id).map_err(|error| scope.fault(error))?.addr();
        for subnet in &leg.subnets {
            let text = subnet.to_string();
            let back = scope.route(&text, peers.router.addr(), &names.gateway_to_transit_router(here.name));
            rows.push(back.planned(core(name, &["gateway-route", &text]), &gateway_router(name)));
            let out = match scope.is_local_gateway() {
                true => scope.route(&text, leg.management.addr(), &to_switch),
                false => scope.route(&text, peers.gateway.addr(), &to_gateway),
            };
            let out = Route { by_source: true, ..out };
            rows.push(out.planned(core(name, &["source-route", &text]), &router(name)));
        }
        let path = core(name, &["route", &own.to_string()]);
        rows.push(scope.route(own, peers.gateway.addr(), &to_gateway).planned(path, &router(name)));
    }
    Ok(rows)
}
