//! What the plan of one network looks at, and the rows that both topologies have.

use std::net::IpAddr;

use causeway_api::crd::Topology;
use causeway_ovn::generated::nb;
use causeway_ovn::{Planned, Str, Uuid, reference};
use causeway_types::{Mac, MasqueradeRole, NetworkName, NodeId, masquerade_address};
use causeway_zone::{Active, Direction, Gateway, Here, ZoneConfig};
use ipnet::IpNet;

use crate::common::{copp, limits, port_group};
use crate::policy;
use crate::row::{
    Map, Route, addresses, core, gateway_router, ids, map, role_ids, router, set, switch, with,
};

/// Matches no packet.
const NOBODY: &str = "0";
/// Before whatever administrators say.
const FIRST_OF_ALL: (i64, i64) = (1, 32767);
/// The tier of what administrators say last.
const LAST_TIER: i64 = 3;

/// One network on this node.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) net: &'a Active,
    pub(crate) here: Here<'a>,
    pub(crate) gateway: Option<&'a Gateway>,
    pub(crate) config: &'a ZoneConfig,
    /// Whether nothing of it is here but the way to its pods on other nodes.
    pub(crate) stub: bool,
}

/// An address could not be computed: said of the network, and the slice stays as it is.
pub(crate) type Result<T> = std::result::Result<T, String>;

impl<'a> Scope<'a> {
    pub(crate) fn name(&self) -> &'a NetworkName {
        self.net.name()
    }

    /// Whether traffic leaves through the node's own routing tables.
    pub(crate) fn is_local_gateway(&self) -> bool {
        self.gateway.is_some_and(|gateway| gateway.local)
    }

    /// Whether traffic leaves through OVN's gateway routers.
    pub(crate) fn is_shared_gateway(&self) -> bool {
        self.gateway.is_some_and(|gateway| !gateway.local)
    }

    /// The router's port to the switch of the pods.
    pub(crate) fn switch_port(&self) -> String {
        match self.net.topology {
            Topology::Layer2 => self.net.names.transit_router_to_switch(),
            _ => self.net.names.router_to_switch(self.here.name),
        }
    }

    /// The switch of the pods.
    pub(crate) fn switch_name(&self) -> String {
        match self.net.topology {
            Topology::Layer2 => self.net.names.layer2_switch(),
            _ => self.net.names.node_switch(self.here.name),
        }
    }

    /// The addresses of a node's gateway router in the join subnets.
    pub(crate) fn join_of(&self, node: NodeId) -> Result<Vec<IpNet>> {
        self.net.legs.iter().map(|leg| leg.join_of(node).map_err(|error| self.fault(error))).collect()
    }

    /// Says an error with the network that it is about.
    pub(crate) fn fault(&self, error: impl std::fmt::Display) -> String {
        format!("network {}: {error}", self.name())
    }

    pub(crate) fn management_addresses(&self) -> Vec<IpNet> {
        self.net.legs.iter().map(|leg| leg.management).collect()
    }

    pub(crate) fn management_mac(&self) -> Option<Mac> {
        Mac::from_interfaces(&self.management_addresses())
    }

    pub(crate) fn gateway_addresses(&self) -> Vec<IpNet> {
        self.net.legs.iter().map(|leg| leg.gateway).collect()
    }

    /// The MTU towards the router, where the node's OVN keeps to it.
    pub(crate) fn mtu_option(&self) -> Option<(&'static str, String)> {
        self.here.gateway_mtu.then(|| ("gateway_mtu", self.net.mtu.to_string()))
    }

    /// The port of the node itself on the switch of its pods.
    pub(crate) fn management_port(&self) -> Planned {
        let port = nb::LogicalSwitchPort {
            name: self.net.names.management_port(self.here.name).into(),
            addresses: set([addresses(&self.management_addresses())]),
            external_ids: ids(self.net),
            ..Default::default()
        };
        Planned::new(core(self.name(), &["management-port"]), port)
            .within::<nb::LogicalSwitch>(&switch(self.name()), "ports")
            .within::<nb::PortGroup>(&core(self.name(), &["group", "cluster"]), "ports")
    }

    /// Groups for rules that concern every pod, or every router port, of the network.
    pub(crate) fn port_groups(&self) -> [Planned; 2] {
        let controller = self.net.names.controller();
        [("cluster", "clusterPortGroup"), ("router", "clusterRtrPortGroup")].map(|(part, name)| {
            let group = port_group(&controller, "Cluster", name);
            let external_ids = with(group.external_ids, ids(self.net));
            Planned::new(core(self.name(), &["group", part]), nb::PortGroup { external_ids, ..group })
        })
    }

    /// The ACL that every switch of pods has from its creation on. With it the switch tracks connections, so isolating a pod later
    /// breaks none that it has begun. The pod's own node gets in whatever policies say, where it has a leg in the network; elsewhere
    /// that address is nobody's, and whoever came with it would be a liar. No rule that administrators can write means the node: peers of
    /// ingress are pods. Only one that cannot be read closes a pod to everybody, and the node is asked before it.
    pub(crate) fn tracking(&self) -> Planned {
        let node = self.net.legs.iter().map(|leg| policy::from(leg.management.addr()));
        let matches = match self.net.is_default() || self.is_local_gateway() {
            true => node.collect::<Vec<_>>().join(" || "),
            false => NOBODY.to_owned(),
        };
        let row = policy::acl(Direction::Ingress, FIRST_OF_ALL, "allow-related", matches);
        self.switch_acl(&["acl", "own-node"], row)
    }

    /// A connection that is blocked is looked at again with each packet of the side that began it. OVN lets such a packet through, and
    /// takes the block away, at the end of the first tier that says nothing of it, and asks no later one. So each tier has a last word,
    /// which is to ask the next; and the last tier, where nobody is left to ask, is there on every switch.
    pub(crate) fn all_tiers_are_asked(&self) -> Vec<Planned> {
        let mut rows = Vec::new();
        for direction in Direction::BOTH {
            for tier in 0..LAST_TIER {
                let row = policy::acl(direction, (tier, 0), "pass", "ip".into());
                rows.push(self.switch_acl(&["acl", "next-tier", direction.as_str(), &tier.to_string()], row));
            }
            let row = policy::acl(direction, (LAST_TIER, 0), "allow-related", NOBODY.into());
            rows.push(self.switch_acl(&["acl", "last-tier", direction.as_str()], row));
        }
        rows
    }

    fn switch_acl(&self, path: &[&str], row: nb::Acl) -> Planned {
        Planned::new(core(self.name(), path), nb::Acl { external_ids: ids(self.net), ..row })
            .within::<nb::LogicalSwitch>(&switch(self.name()), "acls")
    }

    /// The source with which a pod comes to itself by a service, in each family.
    pub(crate) fn itself(&self) -> Result<Vec<IpAddr>> {
        let sources =
            self.net.legs.iter().map(|leg| masquerade_address(&leg.masquerade, MasqueradeRole::Hairpin));
        sources.map(|source| source.map_err(|error| self.fault(error))).collect()
    }

    /// What limits the packets that this network's switches and routers hand to ovn-controller.
    pub(crate) fn copp(&self) -> Option<Uuid> {
        let path = if self.net.is_default() { copp() } else { core(self.name(), &["limits"]) };
        Some(reference::<nb::Copp>(&path))
    }

    /// The rows of that limit, where they are the network's own.
    pub(crate) fn limits(&self) -> Vec<Planned> {
        if self.net.is_default() { Vec::new() } else { limits(self.name()) }
    }

    /// The network's router, with options of its topology.
    pub(crate) fn router(&self, name: String, options: Map) -> Planned {
        let row = nb::LogicalRouter {
            name: name.into(),
            copp: self.copp(),
            options,
            external_ids: with(ids(self.net), [("k8s-cluster-router", "yes")]),
            ..Default::default()
        };
        Planned::new(router(self.name()), row)
    }

    /// The gateway router of this node, with the source of what its load balancers send.
    pub(crate) fn gateway_router(&self, balanced_from: String) -> Planned {
        let mut options = map([
            ("chassis", self.here.chassis),
            ("always_learn_from_arp_request", "false"),
            // On the shared switch each router would else get flows for each other one.
            ("dynamic_neigh_routers", if self.is_shared_gateway() { "true" } else { "false" }),
            ("mac_binding_age_threshold", "300"),
        ]);
        options.insert("lb_force_snat_ip".into(), balanced_from.into());
        // The default network's gateway is the node's own address: it answers for it, and shares its connection table.
        let own = if self.net.is_default() { ("snat-ct-zone", "0") } else { ("disable_garp_rarp", "true") };
        let row = nb::LogicalRouter {
            name: self.net.names.gateway_router(self.here.name).into(),
            copp: self.copp(),
            options: with(options, [own]),
            external_ids: with(role_ids(self.net), self.physical_addresses()),
            ..Default::default()
        };
        Planned::new(gateway_router(self.name()), row)
    }

    fn physical_addresses(&self) -> Vec<(&'static str, String)> {
        let Some(gateway) = self.gateway else { return Vec::new() };
        let own = gateway.addresses.iter().map(|address| address.addr());
        let masquerade = self.net.legs.iter().filter_map(|leg| leg.pair).map(|pair| pair.gateway_router);
        let all: Vec<String> = own.chain(masquerade).map(|address| address.to_string()).collect();
        let first = all.first().cloned().unwrap_or_default();
        vec![("physical_ip", first), ("physical_ips", all.join(","))]
    }

    /// Pins the switch behind a router's port to this node: without it every chassis would have a part in it.
    pub(crate) fn pinned(&self, port: &str, path: &Str) -> Planned {
        let row = nb::GatewayChassis {
            name: format!("{port}-{}", self.here.chassis).into(),
            chassis_name: self.here.chassis.into(),
            priority: 1,
            ..Default::default()
        };
        Planned::new(format!("{path}:chassis"), row).within::<nb::LogicalRouterPort>(path, "gateway_chassis")
    }

    /// A static route by destination.
    pub(crate) fn route(&self, prefix: impl ToString, next_hop: IpAddr, port: &str) -> Route {
        Route {
            prefix: prefix.to_string(),
            next_hop,
            port: port.to_owned(),
            by_source: false,
            table: "",
            external_ids: ids(self.net),
        }
    }

    /// A port of a router, before its options.
    pub(crate) fn router_port(&self, name: String, interfaces: &[IpNet]) -> nb::LogicalRouterPort {
        nb::LogicalRouterPort {
            name: name.into(),
            mac: crate::row::mac_of(interfaces),
            networks: set(interfaces),
            external_ids: ids(self.net),
            ..Default::default()
        }
    }
}
