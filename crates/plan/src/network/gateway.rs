//! The way out of the node: the gateway router's port to the node's bridge, NAT, and what sends traffic for the node
//! itself to its management port. Nothing of this is there while the node has no gateway configuration.

use std::net::IpAddr;

use causeway_api::crd::Topology;
use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Str};
use causeway_types::{Family, Mac, MasqueradeRole, NetworkName, NetworkNames, masquerade_address};
use causeway_zone::{Change, Gateway, Leg, Subject, Zone};
use ipnet::IpNet;

use super::{Result, Scope, of_network, rendered};
use crate::room::{Kind, SliceKey as _, Slices};
use crate::row::{Route, gateway_router, ids, map, role_ids, router, set, with};

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
                scope.gateway.map_or(Ok(Vec::new()), |gateway| mac_bindings(scope, gateway))
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
    let mut rows = external(scope, gateway);
    for leg in outward(scope, gateway) {
        rows.extend(routes_out(scope, gateway, leg)?);
        rows.extend(nat(scope, gateway, leg));
        rows.extend(to_node(scope, gateway, leg));
        rows.extend(default_services(scope, gateway, leg));
    }
    Ok(rows)
}

/// Families in which the node has an address: in the others there is no way out.
fn outward<'a>(scope: &Scope<'a>, gateway: &Gateway) -> impl Iterator<Item = &'a Leg> {
    let has = |family| gateway.addresses.iter().any(|address| Family::of(&address.addr()) == family);
    let (four, six) = (has(Family::Ipv4), has(Family::Ipv6));
    scope.net.legs.iter().filter(move |leg| if leg.family == Family::Ipv4 { four } else { six })
}

fn own_address(gateway: &Gateway, family: Family) -> Option<IpAddr> {
    gateway.addresses.iter().map(IpNet::addr).find(|address| Family::of(address) == family)
}

/// The router's outer port, the external switch, and its port to the node's bridge.
fn external(scope: &Scope<'_>, gateway: &Gateway) -> Vec<Planned> {
    let (names, here, name) = (&scope.net.names, scope.here, scope.name());
    let outer = names.gateway_to_external(here.name);
    let switch = at(name, &["switch"]);
    let pairs =
        outward(scope, gateway).filter_map(|leg| leg.pair).map(|pair| IpNet::from(pair.gateway_router));
    let families = scope.net.families();
    let own = gateway.addresses.iter().copied().filter(|own| families.has(Family::of(&own.addr())));
    let port = nb::LogicalRouterPort {
        name: outer.as_str().into(),
        mac: gateway.mac.to_string().into(),
        networks: set(own.chain(pairs)),
        external_ids: ids(scope.net),
        ..Default::default()
    };
    let row = nb::LogicalSwitch {
        copp: scope.copp(),
        name: names.external_switch(here.name).into(),
        external_ids: role_ids(scope.net),
        ..Default::default()
    };
    vec![
        Planned::new(at(name, &["port"]), port).within::<nb::LogicalRouter>(&gateway_router(name), "ports"),
        facing(scope, gateway, outer).within::<nb::LogicalSwitch>(&switch, "ports"),
        localnet(scope, gateway).within::<nb::LogicalSwitch>(&switch, "ports"),
        Planned::new(switch, row),
    ]
}

/// The default network announces its addresses. Others have the same masquerade addresses on every node: announced
/// by all of them they would storm the node's LAN.
fn facing(scope: &Scope<'_>, gateway: &Gateway, outer: String) -> Planned {
    let announce = [("nat-addresses", "router"), ("exclude-lb-vips-from-garp", "true")];
    let announce = announce.into_iter().filter(|_| scope.net.is_default());
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

fn localnet(scope: &Scope<'_>, gateway: &Gateway) -> Planned {
    let row = nb::LogicalSwitchPort {
        name: scope.net.names.external_localnet_port(&gateway.bridge, scope.here.name).into(),
        r#type: "localnet".into(),
        addresses: set(["unknown"]),
        options: map([("network_name", PHYSICAL_NETWORK)]),
        tag_request: gateway.vlan.map(i64::from),
        external_ids: ids(scope.net),
        ..Default::default()
    };
    Planned::new(at(scope.name(), &["localnet"]), row)
}

/// Routes of the gateway router to the node's masquerade addresses and to everywhere.
fn routes_out(scope: &Scope<'_>, gateway: &Gateway, leg: &Leg) -> Result<Vec<Planned>> {
    let name = scope.name();
    let masked = masquerade_address(&leg.masquerade, MasqueradeRole::NextHop).map_err(|e| scope.fault(e))?;
    let everywhere = if leg.family == Family::Ipv4 { "0.0.0.0/0" } else { "::/0" };
    let hops = gateway.next_hops.iter().filter(|hop| Family::of(hop) == leg.family);
    let out = hops.map(|hop| (everywhere.to_owned(), *hop));
    let all = [(leg.masquerade.to_string(), masked)].into_iter().chain(out);
    Ok(all
        .map(|(prefix, next_hop)| {
            let path = at(name, &["route", &prefix, &next_hop.to_string()]);
            let port = scope.net.names.gateway_to_external(scope.here.name);
            scope.route(prefix, next_hop, &port).planned(path, &gateway_router(name))
        })
        .collect())
}

/// Sources: what leaves by the gateway router has its address, what leaves by the management port has that port's.
fn nat(scope: &Scope<'_>, gateway: &Gateway, leg: &Leg) -> Vec<Planned> {
    let outer = leg.pair.map(|pair| pair.gateway_router).or_else(|| own_address(gateway, leg.family));
    let join = leg.join_of(scope.here.id).ok().map(|join| join.addr().to_string());
    let insides = join.into_iter().chain(leg.subnets.iter().map(ToString::to_string));
    let mut rows: Vec<Planned> = outer
        .into_iter()
        .flat_map(|outer| insides.clone().map(move |inside| (inside, outer)))
        .map(|(inside, outer)| {
            let path = at(scope.name(), &["nat", &inside]);
            let row = snat(scope, inside, outer);
            Planned::new(path, row).within::<nb::LogicalRouter>(&gateway_router(scope.name()), "nat")
        })
        .collect();
    rows.extend(management_nat(scope, leg));
    rows
}

fn management_nat(scope: &Scope<'_>, leg: &Leg) -> Option<Planned> {
    let (pair, mac) = (leg.pair?, scope.management_mac()?);
    let inside = leg.subnet.to_string();
    let path = at(scope.name(), &["management-nat", &inside]);
    let row = nb::Nat {
        logical_port: Some(switch_port(scope).into()),
        r#match: format!("eth.dst == {mac}").into(),
        ..snat(scope, inside, pair.management_port)
    };
    Some(Planned::new(path, row).within::<nb::LogicalRouter>(&router(scope.name()), "nat"))
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

/// The router's port to the switch of the pods.
fn switch_port(scope: &Scope<'_>) -> String {
    match scope.net.topology {
        Topology::Layer2 => scope.net.names.transit_router_to_switch(),
        _ => scope.net.names.router_to_switch(scope.here.name),
    }
}

/// What a pod sends to its own node goes by the management port, where the node's own routes and rules see it.
fn to_node(scope: &Scope<'_>, gateway: &Gateway, leg: &Leg) -> Vec<Planned> {
    let own = own_address(gateway, leg.family);
    let pair = leg.pair.filter(|_| scope.net.topology == Topology::Layer3).map(|pair| pair.gateway_router);
    let word = if leg.family == Family::Ipv4 { "ip4" } else { "ip6" };
    let port = switch_port(scope);
    let switch = match scope.net.topology {
        Topology::Layer2 => scope.net.names.layer2_switch(),
        _ => scope.net.names.node_switch(scope.here.name),
    };
    own.into_iter()
        .chain(pair)
        .map(|address| {
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
        })
        .collect()
}

/// Services of the default network that every pod reaches: by the management port to the node, which has them.
fn default_services(scope: &Scope<'_>, gateway: &Gateway, leg: &Leg) -> Vec<Planned> {
    if gateway.local || scope.net.is_default() {
        return Vec::new();
    }
    let services = scope.config.default_services.iter();
    services
        .filter(|service| Family::of(&service.address) == leg.family)
        .map(|service| {
            let prefix = service.address.to_string();
            let path = at(scope.name(), &["service", &prefix]);
            let key = ("k8s.ovn.org/udn-enabled-default-service", service.key.to_string());
            let route = scope.route(prefix, leg.management.addr(), &switch_port(scope));
            let external_ids = with(ids(scope.net), [key]);
            Route { external_ids, ..route }.planned(path, &router(scope.name()))
        })
        .collect()
}

/// Who answers for the node's masquerade addresses. The database knows these rows by port and address.
fn mac_bindings(scope: &Scope<'_>, gateway: &Gateway) -> Result<Vec<Planned>> {
    let port = scope.net.names.gateway_to_external(scope.here.name);
    let mut rows = Vec::new();
    for leg in outward(scope, gateway) {
        for role in [MasqueradeRole::NextHop, MasqueradeRole::Host] {
            let address = masquerade_address(&leg.masquerade, role).map_err(|error| scope.fault(error))?;
            let row = nb::StaticMacBinding {
                logical_port: port.as_str().into(),
                ip: address.to_string().into(),
                mac: Mac::from_ip(address).to_string().into(),
                override_dynamic_mac: true,
            };
            rows.push(Planned::new(binding(&port, address), row));
        }
    }
    Ok(rows)
}

fn binding(port: &str, address: IpAddr) -> Str {
    BindingsKey { port: port.to_owned() }.path([address.to_string()])
}
