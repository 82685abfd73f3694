//! Connections that run already: through which ports, which of them are over, and which lead to somebody who serves no more.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use causeway_record::ObjectKey;
use causeway_types::{NetworkName, Tracked};
use causeway_zone::{Protocol, Zone};

use crate::network::port_name;
use crate::{host_ports, services};

/// The logical ports of this node's pods on their primary networks; of these networks alone, where some are given.
pub fn ports(zone: &Zone, on: Option<&BTreeSet<NetworkName>>) -> BTreeMap<String, ObjectKey> {
    let named = |pod: &ObjectKey| {
        let port = zone.primary(pod)?;
        let network = zone.network_of(port)?;
        let name = port_name(pod, port).ok().filter(|_| on.is_none_or(|on| on.contains(network)))?;
        Some((name, pod.clone()))
    };
    zone.locals().filter_map(named).collect()
}

/// Those of these pods' connections that could not begin any more.
pub fn over<'a>(zone: &'a Zone, running: impl IntoIterator<Item = (&'a ObjectKey, Tracked)>) -> Vec<Tracked> {
    let over = running.into_iter().filter(|(pod, tracked)| zone.is_over(pod, tracked));
    over.map(|(_, tracked)| tracked).collect()
}

/// Whether any client of UDP is led at all.
pub fn leads_anybody(zone: &Zone) -> bool {
    let speaks = |key: &ObjectKey| zone.service(key).is_some_and(|service| service.speaks(Protocol::Udp));
    zone.services().any(|key| speaks(&key)) || zone.pods_with_host_ports().next().is_some()
}

/// Those UDP connections that OVN has led to somebody who serves no more where they asked. Connections that nobody has led are not looked
/// at, and of what cannot be told now nothing is said.
pub fn stranded(zone: &Zone, running: impl IntoIterator<Item = Tracked>) -> Vec<Tracked> {
    let mut led = running.into_iter().filter(|one| !one.is_direct()).peekable();
    if led.peek().is_none() {
        return Vec::new();
    }
    let leads = Leads::of(zone, Protocol::Udp);
    let in_services =
        |asked: IpAddr| zone.config().cluster.service_cidrs.iter().any(|cidr| cidr.contains_address(asked));
    led.filter(|one| leads.strands(one, in_services(one.asked.ip()))).collect()
}

/// Where a zone's load balancers lead.
#[derive(Debug, Default)]
pub(crate) struct Leads {
    targets: BTreeMap<SocketAddr, BTreeSet<SocketAddr>>,
    /// Addresses of services whose rows stay as they are for now.
    held: BTreeSet<IpAddr>,
}

impl Leads {
    fn of(zone: &Zone, protocol: Protocol) -> Self {
        let mut leads = Self::default();
        services::add_leads(zone, protocol, &mut leads);
        host_ports::add_leads(zone, protocol, &mut leads);
        leads
    }

    /// Several load balancers may have one address, for different clients: what any of them does is done.
    pub(crate) fn add(&mut self, asked: SocketAddr, targets: BTreeSet<SocketAddr>) {
        self.targets.entry(asked).or_default().extend(targets);
    }

    pub(crate) fn hold(&mut self, addresses: impl IntoIterator<Item = IpAddr>) {
        self.held.extend(addresses);
    }

    /// An address of services that leads nowhere has led somewhere once. Of other addresses nobody can tell who translated them.
    fn strands(&self, one: &Tracked, is_service: bool) -> bool {
        match self.targets.get(&one.asked) {
            _ if self.held.contains(&one.asked.ip()) => false,
            Some(targets) => !targets.contains(&one.to),
            None => is_service,
        }
    }
}
