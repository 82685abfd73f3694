//! How pods of the default network come to the load balancer of a service on another network: by their node, as they come to its own
//! addresses. Their gateway router would have to find out who has the load balancer's address, and nobody tells it where that is
//! their own node.

use std::net::IpAddr;

use causeway_ovn::Planned;
use causeway_ovn::generated::nb;
use causeway_types::{Family, NetworkName};

use super::Served;
use crate::row::{ids, router, set};

/// As for the node's own addresses.
const TO_NODE: i64 = 1004;

impl Served<'_> {
    /// A policy of the default network's router for each address.
    pub(super) fn led(&self) -> Vec<Planned> {
        let is_entry = || self.zone.entry_network(self.key) == Some(self.scope.name());
        if self.scope.net.is_default() || !self.has_doors() || !is_entry() {
            return Vec::new();
        }
        let addresses = Family::ALL.into_iter().flat_map(|family| self.balanced(family));
        addresses.filter_map(|address| self.led_to_node(address)).collect()
    }

    fn led_to_node(&self, address: IpAddr) -> Option<Planned> {
        let name = NetworkName::default_network();
        let default = self.zone.active(&name)?;
        let leg = default.legs.iter().find(|leg| leg.family == Family::of(&address))?;
        let word = if leg.family == Family::Ipv4 { "ip4" } else { "ip6" };
        let port = default.names.router_to_switch(self.scope.here.name);
        let row = nb::LogicalRouterPolicy {
            priority: TO_NODE,
            r#match: format!("inport == \"{port}\" && {word}.dst == {address}").into(),
            action: "reroute".into(),
            nexthops: set([leg.management.addr()]),
            external_ids: ids(default),
            ..Default::default()
        };
        let path = self.at(["led", &address.to_string()]);
        Some(Planned::new(path, row).within::<nb::LogicalRouter>(&router(&name), "policies"))
    }
}
