//! The way out of the node: from a network's gateway router to the node's bridge and back. Nothing of this is there while the
//! node has no gateway configuration.
//!
//! [`shared`] is the form in which OVN's gateway routers carry everything: all of them stand on one switch. [`local`] is the form
//! in which the node's own routing tables do; no node asks for it yet.

mod local;
mod shared;

use std::net::IpAddr;

use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Str};
use causeway_types::{Family, NetworkName, NetworkNames};
use causeway_zone::{Change, Gateway, Leg, Subject, Zone};
use ipnet::IpNet;

use super::{Result, Scope, of_network, rendered};
use crate::room::{Kind, SliceKey as _, Slices};
use crate::row::{gateway_router, ids, map, router, set};

/// The name by which the bridge is known to OVN on every node.
const PHYSICAL_NETWORK: &str = "physnet";
const TO_NODE: i64 = 1004;

crate::slice_key! {
    /// What leads from a network out of the node.
    pub(super) struct GatewayKey, GatewayKeys { network: NetworkName } at ["network", _, "gateway"]
}

crate::slice_key! {
    /// MAC bindings of a network's gateway router, which the database knows by port and address.
    pub(super) struct BindingsKey, BindingsKeys { port: String } at ["Static_MAC_Binding", _]
}

pub(super) struct Gateways;

impl Kind<Zone> for Gateways {
    type Key = GatewayKey;

    fn slices(&self, zone: &Zone, only: &GatewayKeys) -> Vec<GatewayKey> {
        rendered(zone, only.network.as_ref()).into_iter().map(|network| GatewayKey { network }).collect()
    }

    fn plan(&self, zone: &Zone, key: &GatewayKey) -> Plan {
        of_network(zone, &key.network, |scope| scope.gateway.map_or(Ok(Vec::new()), |g| rows(scope, g)))
    }

    fn priority(&self) -> u8 {
        40
    }

    fn blame(&self, _zone: &Zone, key: &GatewayKey) -> Vec<Subject> {
        vec![Subject::Network(key.network.clone())]
    }

    fn follows(&self, _zone: &Zone, change: &Change) -> Vec<Slices<GatewayKey>> {
        match change {
            Change::Network(name) => vec![GatewayKey { network: name.clone() }.into()],
            _ => Vec::new(),
        }
    }
}

pub(super) struct Bindings;

impl BindingsKey {
    fn of_network(zone: &Zone, network: &NetworkName) -> Self {
        Self { port: NetworkNames::new(network.clone()).gateway_to_external(&zone.config().node) }
    }

    /// The network of a port `rtoe-GR_<prefix><node>`.
    fn network<'a>(&self, zone: &'a Zone) -> Option<&'a NetworkName> {
        let prefix = self.port.strip_prefix("rtoe-GR_")?.strip_suffix(zone.config().node.as_str())?;
        zone.network_with_prefix(prefix)
    }
}

impl Kind<Zone> for Bindings {
    type Key = BindingsKey;

    fn slices(&self, zone: &Zone, only: &BindingsKeys) -> Vec<BindingsKey> {
        let all = rendered(zone, None);
        let keys = all.iter().map(|network| BindingsKey::of_network(zone, network));
        keys.filter(|key| only.port.as_ref().is_none_or(|port| *port == key.port)).collect()
    }

    fn plan(&self, zone: &Zone, key: &BindingsKey) -> Plan {
        match key.network(zone) {
            Some(name) => of_network(zone, name, |scope| {
                scope.gateway.map_or(Ok(Vec::new()), |gateway| bindings(scope, gateway))
            }),
            None => Plan::Absent,
        }
    }

    fn priority(&self) -> u8 {
        40
    }

    fn blame(&self, zone: &Zone, key: &BindingsKey) -> Vec<Subject> {
        key.network(zone).map(|network| Subject::Network(network.clone())).into_iter().collect()
    }

    fn follows(&self, zone: &Zone, change: &Change) -> Vec<Slices<BindingsKey>> {
        match change {
            Change::Network(name) => vec![BindingsKey::of_network(zone, name).into()],
            _ => Vec::new(),
        }
    }
}

fn at(network: &NetworkName, rest: &[&str]) -> Str {
    GatewayKey { network: network.clone() }.path(rest)
}

/// Everything that leads from the network out of the node.
fn rows(scope: &Scope<'_>, gateway: &Gateway) -> Result<Vec<Planned>> {
    if gateway.local { local::rows(scope, gateway) } else { shared::rows(scope, gateway) }
}

/// Neighbours whom nobody needs to ask for. The database knows these rows by port and address.
fn bindings(scope: &Scope<'_>, gateway: &Gateway) -> Result<Vec<Planned>> {
    let known =
        if gateway.local { local::neighbours(scope, gateway) } else { shared::neighbours(scope, gateway) };
    let port = scope.net.names.gateway_to_external(scope.here.name);
    let row = |(address, mac): (IpAddr, causeway_types::Mac)| {
        let row = nb::StaticMacBinding {
            logical_port: port.as_str().into(),
            ip: address.to_string().into(),
            mac: mac.to_string().into(),
            override_dynamic_mac: true,
        };
        Planned::new(BindingsKey { port: port.clone() }.path([address.to_string()]), row)
    };
    Ok(known?.into_iter().map(row).collect())
}

/// Families in which the node has an address: in the others there is no way out.
fn outward<'a>(scope: &Scope<'a>, gateway: &Gateway) -> impl Iterator<Item = &'a Leg> {
    let has = |family| gateway.address(family).is_some();
    let (four, six) = (has(Family::Ipv4), has(Family::Ipv6));
    scope.net.legs.iter().filter(move |leg| if leg.family == Family::Ipv4 { four } else { six })
}

/// The router's outer port.
fn outer_port(
    scope: &Scope<'_>,
    mac: causeway_types::Mac,
    networks: impl IntoIterator<Item = IpNet>,
) -> Planned {
    let row = nb::LogicalRouterPort {
        name: scope.net.names.gateway_to_external(scope.here.name).into(),
        mac: mac.to_string().into(),
        networks: set(networks),
        external_ids: ids(scope.net),
        ..Default::default()
    };
    Planned::new(at(scope.name(), &["port"]), row)
        .within::<nb::LogicalRouter>(&gateway_router(scope.name()), "ports")
}

/// The external switch's port to the node's bridge, and the VLAN in which packets pass it, if any.
fn localnet(scope: &Scope<'_>, gateway: &Gateway, vlan: Option<u16>) -> Planned {
    let row = nb::LogicalSwitchPort {
        name: scope.net.names.external_localnet_port(&gateway.bridge, scope.here.name).into(),
        r#type: "localnet".into(),
        addresses: set(["unknown"]),
        options: map([("network_name", PHYSICAL_NETWORK)]),
        tag_request: vlan.map(i64::from),
        external_ids: ids(scope.net),
        ..Default::default()
    };
    Planned::new(at(scope.name(), &["localnet"]), row)
}

/// A route of the gateway router, by its outer port.
fn route_out(scope: &Scope<'_>, prefix: String, next_hop: IpAddr) -> Planned {
    let path = at(scope.name(), &["route", &prefix, &next_hop.to_string()]);
    let port = scope.net.names.gateway_to_external(scope.here.name);
    scope.route(prefix, next_hop, &port).planned(path, &gateway_router(scope.name()))
}

/// All addresses of a family.
fn everywhere(family: Family) -> String {
    if family == Family::Ipv4 { "0.0.0.0/0".into() } else { "::/0".into() }
}

/// The default routes of whoever asks the node's own next hops.
fn to_next_hops(scope: &Scope<'_>, gateway: &Gateway, leg: &Leg) -> Vec<Planned> {
    let hops = gateway.next_hops.iter().filter(|hop| Family::of(hop) == leg.family);
    hops.map(|hop| route_out(scope, everywhere(leg.family), *hop)).collect()
}

/// What leaves by the gateway router has this source, and so has the router's own address in the join subnet.
fn outer_sources(scope: &Scope<'_>, leg: &Leg, outer: IpAddr) -> Vec<Planned> {
    let join = leg.join_of(scope.here.id).ok().map(|join| join.addr().to_string());
    let insides = join.into_iter().chain(leg.subnets.iter().map(ToString::to_string));
    insides.map(|inside| outer_nat(scope, snat(scope, inside, outer))).collect()
}

fn outer_nat(scope: &Scope<'_>, row: nb::Nat) -> Planned {
    let path = at(scope.name(), &["nat", row.logical_ip.as_str()]);
    Planned::new(path, row).within::<nb::LogicalRouter>(&gateway_router(scope.name()), "nat")
}

fn snat(scope: &Scope<'_>, inside: String, outer: IpAddr) -> nb::Nat {
    nb::Nat {
        r#type: "snat".into(),
        logical_ip: inside.into(),
        external_ip: outer.to_string().into(),
        options: map([("stateless", "false")]),
        external_ids: ids(scope.net),
        ..Default::default()
    }
}

/// What a pod sends to one of these addresses goes by the management port, where the node's own routes and rules see it.
fn to_node(scope: &Scope<'_>, leg: &Leg, addresses: impl IntoIterator<Item = IpAddr>) -> Vec<Planned> {
    let word = if leg.family == Family::Ipv4 { "ip4" } else { "ip6" };
    let (port, switch) = (scope.switch_port(), scope.switch_name());
    let policy = |address: IpAddr| {
        let row = nb::LogicalRouterPolicy {
            priority: TO_NODE,
            r#match: format!("inport == \"{port}\" && {word}.dst == {address} /* {switch} */").into(),
            action: "reroute".into(),
            nexthops: set([leg.management.addr()]),
            external_ids: ids(scope.net),
            ..Default::default()
        };
        Planned::new(at(scope.name(), &["policy", &address.to_string()]), row)
            .within::<nb::LogicalRouter>(&router(scope.name()), "policies")
    };
    addresses.into_iter().map(policy).collect()
}
