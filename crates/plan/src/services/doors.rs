//! The ways into a service from outside of its network: node ports, addresses of load balancers, and what its owner says himself.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use causeway_record::ObjectKey;
use causeway_types::{Family, NamespaceName};
use causeway_zone::{Change, Claimed, ServicePort, Serving, Zone};

use super::{From, Reach, Result, Served, ServiceKeys, Vips};
use crate::room::Slices;

/// Who says to have an address and port, and since when: the smallest has it.
type Claim<'a> = (Claimed, i64, &'a ObjectKey);

/// Services that have an address on a network if others there have not: where a namespace has other networks, these may have it now.
pub(super) fn follows(zone: &Zone, change: &Change) -> Vec<Slices<super::ServiceKey>> {
    let namespace: &NamespaceName = match change {
        Change::Namespace(namespace) | Change::Sibling { namespace, .. } => namespace,
        _ => return Vec::new(),
    };
    let rivals: BTreeSet<ObjectKey> =
        zone.services_in(namespace).flat_map(|service| zone.rivals(&service)).collect();
    let whole = |key: ObjectKey| {
        Slices::under(&ServiceKeys { namespace: Some(key.namespace), service: Some(key.name), network: None })
    };
    rivals.into_iter().map(whole).collect()
}

impl Served<'_> {
    /// Whether it is reached from outside of the network at all.
    pub(super) fn has_doors(&self) -> bool {
        self.scope.gateway.is_some_and(|gateway| !gateway.local && gateway.node_ports)
    }

    /// The load balancers of the ways in: for the network's pods on this node's switch, for clients outside on its gateway router.
    pub(super) fn doors(&self, port: &ServicePort) -> Result<Vec<(Reach, Vips)>> {
        let Some(gateway) = self.scope.gateway.filter(|_| self.has_doors()) else {
            return Ok(Vec::new());
        };
        let nodes = port
            .node_port
            .into_iter()
            .flat_map(|number| gateway.addresses.iter().map(move |own| SocketAddr::new(own.addr(), number)));
        let (own, given): (Vec<_>, Vec<_>) =
            self.outer(port).into_iter().partition(|(claimed, _)| *claimed == Claimed::Own);
        let at_port = |(_, address): (Claimed, IpAddr)| SocketAddr::new(address, port.port);
        let known = |socket: &SocketAddr| self.families().has(Family::of(&socket.ip()));
        let mut asked: BTreeSet<SocketAddr> =
            nodes.chain(given.into_iter().map(at_port)).filter(known).collect();
        let mut on_switch = asked.clone();
        on_switch.extend(own.into_iter().map(at_port).filter(known));
        // The default network's gateway router is on everybody's way out: what an owner says himself would count for all networks
        // there. The bridge leads clients outside to the service by another address (`crate::host::gateway::exposed`).
        if !self.scope.net.is_default() {
            asked.clone_from(&on_switch);
        }
        let router = if self.service.external_local {
            // Endpoints of the node itself have their clients from the host, with their addresses.
            let mut local = self.vips(port, From::ThisNode, asked.into_iter());
            let own = |target: &SocketAddr| gateway.addresses.iter().any(|own| own.addr() == target.ip());
            local.values_mut().for_each(|targets| targets.retain(|target| !own(target)));
            (Reach::DoorLocal, self.without_siblings(&local))
        } else {
            (Reach::DoorRouter, self.by_router(&self.vips(port, From::Everywhere, asked.into_iter())))
        };
        let switch = (Reach::DoorSwitch, self.vips(port, From::Everywhere, on_switch.into_iter()));
        Ok([switch, router].into_iter().filter(|(_, vips)| !vips.is_empty()).collect())
    }

    /// Addresses outside of the cluster that lead to one of its ports, where nobody else on the network has a stronger word.
    fn outer(&self, port: &ServicePort) -> Vec<(Claimed, IpAddr)> {
        let on_network =
            |key: &ObjectKey| self.zone.serving(&key.namespace, self.scope.name()) == Serving::Yes;
        let rivals: Vec<ObjectKey> = self.zone.rivals(self.key).into_iter().filter(on_network).collect();
        let own = |claimed| -> Claim<'_> { (claimed, self.service.created, self.key) };
        let is_taken = |claimed, address| {
            rivals.iter().filter_map(|key| self.rival(key, port, address)).any(|rival| rival < own(claimed))
        };
        let all = self.zone.outer_addresses(self.service);
        all.filter(|(claimed, address)| !is_taken(*claimed, *address)).collect()
    }

    /// The word of another service for an address and port.
    fn rival<'a>(&self, key: &'a ObjectKey, port: &ServicePort, address: IpAddr) -> Option<Claim<'a>> {
        let service = self.zone.service(key)?;
        let same = service.ports.iter().any(|of| of.protocol == port.protocol && of.port == port.port);
        let (claimed, _) = self.zone.outer_addresses(service).find(|(_, at)| *at == address && same)?;
        Some((claimed, service.created, key))
    }
}
