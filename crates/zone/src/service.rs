//! A service and its endpoints as a zone keeps them: what load balancers are made of, and nothing else.

use std::net::IpAddr;

use causeway_types::{Cidr, Family, NetworkName, NodeName};

pub use causeway_record::{EndpointPort, Protocol, ServicePort};

use super::behind::{Mark, mark};
use causeway_record as record;

/// A service that has addresses of its own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServiceInfo {
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Its addresses, one of each family at most.
    pub addresses: Box<[IpAddr]>,
    /// From `spec.ports`, with the node ports.
    pub ports: Box<[ServicePort]>,
    /// Whether only endpoints on the client's own node serve.
    pub local: bool,
    /// Addresses outside of the cluster that its owner says to lead to it.
    pub external_ips: Box<[IpAddr]>,
    /// Addresses of its load balancer, which owners do not choose.
    pub ingress_ips: Box<[IpAddr]>,
    /// Who may come by an address of its load balancer; none is everybody.
    pub source_ranges: Option<Box<[Cidr]>>,
    /// Whether clients outside are served on the node that they came to, and by their own address.
    pub external_local: bool,
    /// Where each node says whether it has endpoints of its own.
    pub health_port: Option<u16>,
    /// Whether endpoints serve before they are ready.
    pub publish_not_ready: bool,
    /// For how many seconds a client stays with its endpoint, if it does.
    pub affinity: Option<u32>,
}

/// Some of the endpoints of a service, on one network and in one IP family.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SliceInfo {
    /// The ports of every endpoint in it.
    pub ports: Box<[EndpointPort]>,
    /// The endpoints, one for each address.
    pub endpoints: Box<[EndpointInfo]>,
    /// The network; none is the default network.
    pub(super) mirror: Option<NetworkName>,
}

/// An address of an endpoint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EndpointInfo {
    /// Of the family that its slice has.
    pub address: IpAddr,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it still serves although it is going.
    pub draining: bool,
    /// Whether it is on this zone's node.
    pub here: bool,
    /// The pod of the slice's own namespace that it says to be. Without one its address tells; mirrors need none.
    pub(super) pod: Option<Mark>,
}

/// Which endpoints a client is sent to: those of the first choice that has any.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Choice {
    /// Those that are ready, or need not be.
    Ready,
    /// Those that still serve although they are going.
    Draining,
}

impl Choice {
    /// The better one first.
    pub const ALL: [Self; 2] = [Self::Ready, Self::Draining];
}

impl ServiceInfo {
    /// Whether an endpoint is of a choice.
    pub fn chooses(&self, choice: Choice, one: &EndpointInfo) -> bool {
        match choice {
            Choice::Ready => one.ready || self.publish_not_ready,
            Choice::Draining => one.draining,
        }
    }

    /// Whether it has a port of this protocol.
    pub fn speaks(&self, protocol: Protocol) -> bool {
        self.ports.iter().any(|port| port.protocol == protocol)
    }

    /// Who of a family may come by an address of its load balancer; none is everybody. Ranges of the other family let nobody in.
    pub fn admitted(&self, family: Family) -> Option<Vec<Cidr>> {
        let ranges = self.source_ranges.as_ref()?.iter().filter(|range| range.family() == family);
        let ranges: Vec<Cidr> = ranges.copied().collect();
        ranges.iter().all(|range| range.prefix_len() > 0).then_some(ranges)
    }
}

impl SliceInfo {
    /// The network, if the cluster manager has looked up the addresses on it.
    pub(super) fn mirror(&self) -> Option<&NetworkName> {
        self.mirror.as_ref()
    }

    /// Whether these are addresses that count on a network. A mirror of one primary network of its namespace has the addresses on all
    /// of them, and counts on all.
    pub(super) fn is_on(&self, network: &NetworkName, primaries: &[&NetworkName]) -> bool {
        match &self.mirror {
            Some(mirror) => {
                mirror == network || (primaries.contains(&network) && primaries.contains(&mirror))
            }
            None => network.is_default(),
        }
    }
}

/// What is kept of a service; nothing of one without an address.
pub(super) fn read(service: &record::Service) -> Option<ServiceInfo> {
    (!service.cluster_ips.is_empty()).then(|| ServiceInfo {
        created: service.created,
        addresses: service.cluster_ips.clone().into(),
        ports: service.ports.clone().into(),
        local: service.local,
        external_ips: service.external_ips.clone().into(),
        ingress_ips: service.ingress_ips.clone().into(),
        source_ranges: service.source_ranges.clone().map(Into::into),
        external_local: service.external_local,
        health_port: service.health_port,
        publish_not_ready: service.publish_not_ready,
        affinity: service.affinity,
    })
}

/// What is kept of a slice on a node.
pub(super) fn read_slice(slice: &record::EndpointSlice, here: &NodeName) -> SliceInfo {
    let mirrored = slice.network().is_some();
    let pod_of = |endpoint: &record::Endpoint| Some(mark(&endpoint.pod(&slice.key.namespace)?.0));
    let endpoint = |endpoint: &record::Endpoint, address: IpAddr| EndpointInfo {
        address,
        ready: endpoint.is_ready(),
        draining: endpoint.is_serving() && endpoint.is_terminating(),
        here: endpoint.node().as_ref() == Some(here),
        pod: pod_of(endpoint).filter(|_| !mirrored),
    };
    let endpoints = slice.endpoints.iter().flat_map(|one| {
        let addresses = slice.family().into_iter().flat_map(|family| one.addresses(family));
        addresses.map(move |address| endpoint(one, address))
    });
    SliceInfo {
        ports: slice.numbered_ports().collect(),
        endpoints: endpoints.collect(),
        mirror: slice.network(),
    }
}
