//! What a pod's annotation says about one network: addresses, gateways and routes.

use std::net::IpAddr;

use causeway_api::annotations::{PodNetwork, PodRole, PodRoute};
use causeway_api::crd::Topology;
use causeway_api::intent::{ClusterConfig, Network};
use causeway_types::{Cidr, Family, Mac, MasqueradeRole, masquerade_address};

use super::pools::Given;

/// The entry of the default network. A pod whose primary network is another has no gateway here, and reaches only
/// what the platform needs.
pub(super) fn default_entry(cluster: &ClusterConfig, given: Given, role: PodRole) -> PodNetwork {
    let primary = role == PodRole::Primary;
    let mut destinations = cluster.cluster_subnets.clone();
    if primary {
        destinations.extend(&cluster.service_cidrs);
        let hairpin = |subnet| masquerade_address(subnet, MasqueradeRole::Hairpin).ok();
        destinations.extend(cluster.masquerade_subnets.iter().filter_map(hairpin).map(Cidr::host));
    }
    destinations.extend(&cluster.join_subnets);
    let routes = routes(&given.gateways, &destinations);
    entry(given, role, primary, routes)
}

/// The entry of a user-defined network.
pub(super) fn network_entry(cluster: &ClusterConfig, network: &Network, given: Given) -> PodNetwork {
    let role = if network.is_primary() { PodRole::Primary } else { PodRole::Secondary };
    let mut destinations: Vec<Cidr> = Vec::new();
    if network.topology == Topology::Layer3 {
        destinations.extend(network.pod_cidrs());
    }
    if network.is_primary() {
        destinations.extend(&cluster.service_cidrs);
        destinations.extend(network.effective_join_subnets(cluster));
    }
    let routes = routes(&given.gateways, &destinations);
    // Router advertisements come from the port's link-local address, which follows from its MAC.
    let advertises = network.topology == Topology::Layer2
        && network.is_primary()
        && given.gateways.iter().any(IpAddr::is_ipv6);
    let link_local =
        Mac::from_ips(given.gateways.iter().copied()).filter(|_| advertises).map(Mac::link_local);
    PodNetwork { ipv6_lla_gateway_ip: link_local, ..entry(given, role, network.is_primary(), routes) }
}

fn entry(given: Given, role: PodRole, gateways: bool, routes: Vec<PodRoute>) -> PodNetwork {
    PodNetwork {
        ip_addresses: given.addresses,
        mac_address: given.mac,
        gateway_ips: if gateways { given.gateways } else { Vec::new() },
        routes,
        ipv6_lla_gateway_ip: None,
        tunnel_id: given.tunnel,
        role: Some(role),
    }
}

/// Each destination through the gateway of its family, one family after the other.
fn routes(gateways: &[IpAddr], destinations: &[Cidr]) -> Vec<PodRoute> {
    let through = |gateway: &IpAddr| {
        let next_hop = *gateway;
        let family = Family::of(gateway);
        let same = destinations.iter().filter(move |dest| dest.family() == family);
        same.map(move |dest| PodRoute { dest: *dest, next_hop: Some(next_hop) }).collect::<Vec<_>>()
    };
    gateways.iter().flat_map(through).collect()
}
