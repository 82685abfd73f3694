//! The shared gateway: one external switch and one patch port for all networks of the node.
//!
//! ```text
//!   default  ── GR_<node> ──────rtoe──┐  node's MAC, node's addresses: it knows the neighbours of everybody
//!   blue     ── GR_blue_<node> ─rtoe──┤  masquerade addresses alone, a MAC that follows from them
//!   green    ── GR_green_<node> rtoe──┤
//!                              ext_<node> ── localnet ── patch ── the node's bridge, its flows, the wire
//! ```
//!
//! A user-defined network's router sends everything to one next hop that no machine has; flows of the bridge take it from there
//! (`crate::host::gateway`). So a network adds no flow, no port and no mark to the bridge. Routers never talk to each other: an
//! ACL lets them send to that next hop only. Nothing on this switch tracks connections, since each step that does takes one of
//! the few turns that a packet has in the datapath.

use std::net::IpAddr;

use causeway_ovn::generated::nb;
use causeway_ovn::{Planned, Str};
use causeway_types::{Family, Mac, MasqueradeMacs, MasqueradeRole, NetworkName, masquerade_address};
use causeway_zone::{Gateway, Leg};
use ipnet::IpNet;

use super::super::{Result, Scope};
use super::{
    at, everywhere, localnet, outer_nat, outer_port, outer_sources, outward, route_out, snat, to_next_hops,
    to_node,
};
use crate::common::ACL_METER;
use crate::row::{ids, map, role_ids, set, with};

const FROM_BRIDGE: i64 = 1001;
const BETWEEN_ROUTERS: i64 = 1000;

pub(super) fn rows(scope: &Scope<'_>, gateway: &Gateway) -> Result<Vec<Planned>> {
    if scope.net.is_default() { default_network(scope, gateway) } else { user_network(scope, gateway) }
}

/// Addresses that are nobody's, and the MACs that stand for them.
pub(super) fn neighbours(scope: &Scope<'_>, gateway: &Gateway) -> Result<Vec<(IpAddr, Mac)>> {
    let roles: &[MasqueradeRole] = match scope.net.is_default() {
        true => &[MasqueradeRole::NextHop, MasqueradeRole::Host],
        false => &[MasqueradeRole::Exit],
    };
    let macs = macs(scope);
    let mut all = Vec::new();
    for leg in outward(scope, gateway) {
        for role in roles {
            all.push((masked(scope, leg, *role)?, macs.of_role(*role)));
        }
    }
    Ok(all)
}

fn macs(scope: &Scope<'_>) -> MasqueradeMacs {
    MasqueradeMacs::of(&scope.config.cluster.masquerade_subnets)
}

fn masked(scope: &Scope<'_>, leg: &Leg, role: MasqueradeRole) -> Result<IpAddr> {
    masquerade_address(&leg.masquerade, role).map_err(|error| scope.fault(error))
}

/// The switch that all gateway routers of the node are on.
fn switch() -> Str {
    at(&NetworkName::default_network(), &["switch"])
}

/// What keeps routers on the switch apart.
fn wall() -> Str {
    at(&NetworkName::default_network(), &["acl", "between-routers"])
}

fn default_network(scope: &Scope<'_>, gateway: &Gateway) -> Result<Vec<Planned>> {
    let families = scope.net.families();
    let own = gateway.addresses.iter().copied().filter(|own| families.has(Family::of(&own.addr())));
    let mut rows = vec![
        external_switch(scope),
        // The bridge takes tags off and puts them on: whoever is behind it never sees one.
        localnet(scope, gateway, None).within::<nb::LogicalSwitch>(&switch(), "ports"),
        outer_port(scope, gateway.mac, own),
        // It announces its addresses; those of other networks are the same on every node.
        facing(scope, gateway.mac, &[("nat-addresses", "router"), ("exclude-lb-vips-from-garp", "true")]),
    ];
    rows.extend(walls(scope, gateway));
    for leg in outward(scope, gateway) {
        rows.push(route_out(scope, leg.masquerade.to_string(), masked(scope, leg, MasqueradeRole::NextHop)?));
        rows.extend(to_next_hops(scope, gateway, leg));
        // Its own source is told from the node's by the bridge, which gives both of them ports of their own.
        rows.extend(outer_sources(scope, leg, masked(scope, leg, MasqueradeRole::DefaultNetwork)?));
        rows.push(guests(scope, leg)?);
        let own = gateway.addresses.iter().map(IpNet::addr);
        rows.extend(to_node(scope, leg, own.filter(|own| Family::of(own) == leg.family)));
    }
    Ok(rows)
}

fn user_network(scope: &Scope<'_>, gateway: &Gateway) -> Result<Vec<Planned>> {
    let pairs = outward(scope, gateway).filter_map(|leg| Some((leg, leg.pair?.gateway_router)));
    let pairs: Vec<(&Leg, IpAddr)> = pairs.collect();
    let Some((leg, address)) = pairs.first() else { return Ok(Vec::new()) };
    let mac = macs(scope).at(&leg.masquerade, *address).map_err(|error| scope.fault(error))?;
    let own = pairs.iter().map(|(_, address)| IpNet::from(*address));
    let mut rows = vec![outer_port(scope, mac, own), facing(scope, mac, &[]).guarded_by::<nb::Acl>(&wall())];
    for (leg, address) in pairs {
        rows.push(route_out(scope, everywhere(leg.family), masked(scope, leg, MasqueradeRole::Exit)?));
        rows.extend(outer_sources(scope, leg, address));
    }
    Ok(rows)
}

/// Pods of other networks have the router's own source towards pods of the default network, which answer for services that everybody
/// reaches. Load balancers give it to a connection's first packet alone: one that follows before the answer (two questions of a
/// resolver at once) would keep the masquerade address, and its answer be lost.
fn guests(scope: &Scope<'_>, leg: &Leg) -> Result<Planned> {
    let own = leg.join_of(scope.here.id).map_err(|error| scope.fault(error))?.addr();
    let row = snat(scope, leg.masquerade.to_string(), own);
    let inward = format!("outport == \"{}\"", scope.net.names.gateway_to_join(scope.here.name));
    Ok(outer_nat(scope, nb::Nat { r#match: inward.into(), ..row }))
}

fn external_switch(scope: &Scope<'_>) -> Planned {
    let row = nb::LogicalSwitch {
        copp: scope.copp(),
        name: scope.net.names.external_switch(scope.here.name).into(),
        // The bridge has told already who is asked for; routers of other networks have no neighbours here.
        other_config: map([("broadcast-arps-to-all-routers", "false")]),
        external_ids: role_ids(scope.net),
        ..Default::default()
    };
    Planned::new(switch(), row)
}

/// The switch's port to the gateway router.
fn facing(scope: &Scope<'_>, mac: Mac, options: &[(&'static str, &'static str)]) -> Planned {
    let router_port = scope.net.names.gateway_to_external(scope.here.name);
    let row = nb::LogicalSwitchPort {
        name: scope.net.names.external_to_gateway(scope.here.name).into(),
        r#type: "router".into(),
        addresses: set([mac]),
        options: with(map([("router-port", router_port)]), options.iter().copied()),
        external_ids: ids(scope.net),
        ..Default::default()
    };
    Planned::new(at(scope.name(), &["switch-to-router"]), row).within::<nb::LogicalSwitch>(&switch(), "ports")
}

/// A router of a user-defined network sends to the bridge alone, whatever its neighbours are made to be. `inport` cannot be compared
/// with `!=`, so who may is said first.
fn walls(scope: &Scope<'_>, gateway: &Gateway) -> [Planned; 2] {
    let (macs, exit) = (macs(scope), macs(scope).of_role(MasqueradeRole::Exit));
    let port = scope.net.names.external_localnet_port(&gateway.bridge, scope.here.name);
    let between = format!("eth.src == {}/{} && eth.dst != {exit}", MasqueradeMacs::BASE, macs.mask());
    [
        wall_row("from-bridge", FROM_BRIDGE, "allow", format!("inport == \"{port}\"")),
        wall_row("between-routers", BETWEEN_ROUTERS, "drop", between),
    ]
}

fn wall_row(name: &str, priority: i64, action: &str, matches: String) -> Planned {
    let row = nb::Acl {
        action: action.into(),
        direction: "from-lport".into(),
        priority,
        r#match: matches.into(),
        meter: Some(ACL_METER.into()),
        external_ids: map([
            ("k8s.ovn.org/owner-controller", "default-network-controller"),
            ("k8s.ovn.org/owner-type", "SharedGateway"),
            ("k8s.ovn.org/name", name),
            ("direction", "Egress"),
        ]),
        ..Default::default()
    };
    Planned::new(at(&NetworkName::default_network(), &["acl", name]), row)
        .within::<nb::LogicalSwitch>(&switch(), "acls")
}
