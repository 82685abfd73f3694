//! The local gateway: what leaves a network goes by its management port through the node's own routing tables. Each network has
//! an external switch of its own.

use std::net::IpAddr;

use causeway_api::crd::Topology;
use causeway_ovn::Planned;
use causeway_ovn::generated::nb;
use causeway_types::{Family, Mac, MasqueradeRole, masquerade_address};
use causeway_zone::{Gateway, Leg};
use ipnet::IpNet;

use super::super::{Result, Scope};
use super::{at, localnet, outer_port, outer_sources, outward, route_out, snat, to_next_hops, to_node};
use crate::row::{ids, map, role_ids, router, set, with};

pub(super) fn rows(scope: &Scope<'_>, gateway: &Gateway) -> Result<Vec<Planned>> {
    let mut rows = external(scope, gateway);
    for leg in outward(scope, gateway) {
        rows.push(route_out(scope, leg.masquerade.to_string(), next_hop(scope, leg)?));
        rows.extend(to_next_hops(scope, gateway, leg));
        let outer = leg.pair.map(|pair| pair.gateway_router).or_else(|| gateway.address(leg.family));
        rows.extend(outer.into_iter().flat_map(|outer| outer_sources(scope, leg, outer)));
        rows.extend(management_nat(scope, leg));
        let pair = leg.pair.filter(|_| scope.net.topology == Topology::Layer3);
        let own = gateway.address(leg.family).into_iter().chain(pair.map(|pair| pair.gateway_router));
        rows.extend(to_node(scope, leg, own));
    }
    Ok(rows)
}

fn next_hop(scope: &Scope<'_>, leg: &Leg) -> Result<IpAddr> {
    masquerade_address(&leg.masquerade, MasqueradeRole::NextHop).map_err(|error| scope.fault(error))
}

/// Who answers for the node's masquerade addresses.
pub(super) fn neighbours(scope: &Scope<'_>, gateway: &Gateway) -> Result<Vec<(IpAddr, Mac)>> {
    let mut all = Vec::new();
    for leg in outward(scope, gateway) {
        for role in [MasqueradeRole::NextHop, MasqueradeRole::Host] {
            let address = masquerade_address(&leg.masquerade, role).map_err(|error| scope.fault(error))?;
            all.push((address, Mac::from_ip(address)));
        }
    }
    Ok(all)
}

/// The router's outer port, the external switch, and its port to the node's bridge.
fn external(scope: &Scope<'_>, gateway: &Gateway) -> Vec<Planned> {
    let (names, here, name) = (&scope.net.names, scope.here, scope.name());
    let switch = at(name, &["switch"]);
    let pairs =
        outward(scope, gateway).filter_map(|leg| leg.pair).map(|pair| IpNet::from(pair.gateway_router));
    let families = scope.net.families();
    let own = gateway.addresses.iter().copied().filter(|own| families.has(Family::of(&own.addr())));
    let row = nb::LogicalSwitch {
        copp: scope.copp(),
        name: names.external_switch(here.name).into(),
        external_ids: role_ids(scope.net),
        ..Default::default()
    };
    vec![
        outer_port(scope, gateway.mac, own.chain(pairs)),
        facing(scope, gateway).within::<nb::LogicalSwitch>(&switch, "ports"),
        localnet(scope, gateway, gateway.vlan).within::<nb::LogicalSwitch>(&switch, "ports"),
        Planned::new(switch, row),
    ]
}

/// The default network announces its addresses. Others have the same masquerade addresses on every node: announced
/// by all of them they would storm the node's LAN.
fn facing(scope: &Scope<'_>, gateway: &Gateway) -> Planned {
    let announce = [("nat-addresses", "router"), ("exclude-lb-vips-from-garp", "true")];
    let announce = announce.into_iter().filter(|_| scope.net.is_default());
    let outer = scope.net.names.gateway_to_external(scope.here.name);
    let row = nb::LogicalSwitchPort {
        name: scope.net.names.external_to_gateway(scope.here.name).into(),
        r#type: "router".into(),
        addresses: set([gateway.mac]),
        options: with(map([("router-port", outer)]), announce),
        external_ids: ids(scope.net),
        ..Default::default()
    };
    Planned::new(at(scope.name(), &["switch-to-router"]), row)
}

/// What leaves by the management port has that port's source.
fn management_nat(scope: &Scope<'_>, leg: &Leg) -> Option<Planned> {
    let (pair, mac) = (leg.pair?, scope.management_mac()?);
    let inside = leg.subnet.to_string();
    let path = at(scope.name(), &["management-nat", &inside]);
    let row = nb::Nat {
        logical_port: Some(scope.switch_port().into()),
        r#match: format!("eth.dst == {mac}").into(),
        ..snat(scope, inside, pair.management_port)
    };
    Some(Planned::new(path, row).within::<nb::LogicalRouter>(&router(scope.name()), "nat"))
}
