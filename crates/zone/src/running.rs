//! Connections that run already: which of them could not begin any more.
//!
//! What began under other rules ends by itself where its packets are looked at again: OVN asks its ACLs about everything that the
//! side sends which began it. What only the other side sends is an answer, and answers pass. So somebody has to say which
//! connections are over.

use std::net::IpAddr;

use causeway_record::ObjectKey;
use causeway_types::{Cidr, MasqueradeRole, NetworkName, Protocol, Tracked, masquerade_address};

use crate::policy::{Direction, Meeting};
use crate::{Active, Change, Changes, Zone};

impl Changes {
    /// The networks on whose pods' connections these changes may have put an end; none is every network.
    pub fn narrowed(&self) -> impl Iterator<Item = Option<&NetworkName>> {
        self.iter().filter_map(|change| match change {
            Change::Everything => Some(None),
            Change::Narrowed(network)
            | Change::Grants(network)
            | Change::Member { network, .. }
            | Change::Policy { network, .. }
            | Change::Isolation { network, .. } => Some(Some(network)),
            _ => None,
        })
    }
}

impl Zone {
    /// Whether after these changes somebody may serve no more whom clients of UDP were led to.
    pub fn may_strand(&self, changes: &Changes) -> bool {
        let speaks = |key: &ObjectKey| self.service(key).is_none_or(|service| service.speaks(Protocol::Udp));
        changes.iter().any(|change| match change {
            Change::Everything | Change::HostPorts(_) => true,
            Change::Service(key) | Change::Endpoints { service: key, .. } => speaks(key),
            Change::Namespace(namespace) => self.services_in(namespace).any(|key| speaks(&key)),
            _ => false,
        })
    }

    /// Whether a connection through the port of a pod of this node, on its primary network, could not begin any more.
    pub fn is_over(&self, pod: &ObjectKey, running: &Tracked) -> bool {
        let Some(port) = self.primary(pod) else { return false };
        let Some(net) = self.network_of(port).and_then(|name| self.active(name)) else { return false };
        let own: Vec<IpAddr> = port.address.iter().flat_map(|a| a.ips()).map(|ip| ip.addr()).collect();
        let (from, to) = (running.from.ip(), running.to.ip());
        let (direction, peer) = match (own.contains(&from), own.contains(&to)) {
            (true, false) => (Direction::Egress, to),
            (false, true) => (Direction::Ingress, from),
            _ => return false,
        };
        if direction == Direction::Ingress && self.is_always_let_in(net, peer) {
            return false;
        }
        let (network, protocol, port) = (net.name(), Protocol::Udp, running.to.port());
        let meeting = Meeting { pod, network, direction, peer, protocol, port };
        // Who comes by a service looks, to its endpoint, like anybody else: only where he began it can that be told.
        let guarded = direction == Direction::Egress && running.is_direct() && self.is_guarded(network, to);
        guarded || !self.policies_allow(&meeting)
    }

    /// The pod's own node, where it has a leg in the network, and a pod that reaches itself by way of a service.
    fn is_always_let_in(&self, net: &Active, peer: IpAddr) -> bool {
        let has_leg = net.is_default() || self.gateway().is_ok_and(|it| it.is_some_and(|it| it.local));
        net.legs.iter().any(|leg| {
            let itself = masquerade_address(&leg.masquerade, MasqueradeRole::Hairpin);
            (has_leg && leg.management.addr() == peer) || itself == Ok(peer)
        })
    }

    /// Whether a connection for services alone keeps pods of a network from going to an address directly.
    fn is_guarded(&self, network: &NetworkName, to: IpAddr) -> bool {
        if has(self.config.cluster.service_cidrs.iter().copied(), to) {
            return false;
        }
        self.connects_of(network).filter(|info| info.needs_guards()).any(|info| {
            let members = self.members(info).flat_map(|member| self.pod_subnets(member));
            has(members.map(|(_, subnet)| subnet), to) && !has(self.granted(info, network), to)
        })
    }
}

fn has(subnets: impl IntoIterator<Item = Cidr>, address: IpAddr) -> bool {
    subnets.into_iter().any(|subnet| subnet.contains_address(address))
}
