//! Which of this node's ports say how many endpoints of a service the node has itself: load balancers outside send clients of
//! `externalTrafficPolicy: Local` only to nodes that have some. Values only: whoever listens there is elsewhere.

use std::collections::BTreeMap;

use causeway_record::ObjectKey;
use causeway_types::NetworkName;
use causeway_zone::{Choice, ServiceInfo, Serving, Zone};

/// What one of the node's ports says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LocalEndpoints {
    /// Whose `spec.healthCheckNodePort` the port is.
    pub service: ObjectKey,
    /// How many endpoints of it this node has.
    pub count: usize,
}

/// All of them, by port. The API server gives each port to one service.
pub fn local_endpoints(zone: &Zone) -> BTreeMap<u16, LocalEndpoints> {
    let of = |key: ObjectKey| {
        let service = zone.service(&key).filter(|service| service.external_local)?;
        let port = service.health_port?;
        let count = count(zone, &key, service);
        Some((port, LocalEndpoints { service: key, count }))
    };
    zone.checked_services().filter_map(of).collect()
}

fn count(zone: &Zone, key: &ObjectKey, service: &ServiceInfo) -> usize {
    let networks = zone.service_networks(&key.namespace).into_iter();
    let on = networks.filter(|network| zone.serving(&key.namespace, network) == Serving::Yes);
    on.map(|network| ready_here(zone, key, service, network)).max().unwrap_or_default()
}

/// Endpoints have an address for each family; each counts once.
fn ready_here(zone: &Zone, key: &ObjectKey, service: &ServiceInfo, network: &NetworkName) -> usize {
    let mut families = BTreeMap::new();
    for slice in zone.endpoints(key, network) {
        let counts = |one: &&causeway_zone::EndpointInfo| {
            one.here && service.chooses(Choice::Ready, one) && zone.is_served(key, network, slice, one)
        };
        for one in slice.endpoints.iter().filter(counts) {
            *families.entry(one.address.is_ipv4()).or_insert(0) += 1;
        }
    }
    families.into_values().max().unwrap_or_default()
}
