//! The rules of a network that came as a NAD, which no API server has checked.

use causeway_types::{Cidr, Family, SubnetIndex};

use super::network::{Network, PodSubnet};
use super::problem::{Problem, Problems, Reason};
use crate::crd::{Role, Topology};
use crate::schema::messages as say;

const LARGEST_MTU: u32 = 65_535;

/// What speaks against the network as it is written, in a fixed order.
pub(crate) fn check_written(network: &Network) -> Vec<Problem> {
    let mut problems = Problems::default();
    check_topology(network, &mut problems);
    check_families(network, &mut problems);
    check_largest(network.mtu, &mut problems);
    let ipv6 = network.families().has(Family::Ipv6);
    if ipv6 && network.mtu.is_some_and(|mtu| mtu < 1280) {
        problems.add(Reason::InvalidMtu, say::MTU);
    }
    check_host_lengths(&network.subnets, &mut problems);
    check_apart(&network.subnets, &mut problems);
    problems.0
}

/// No packet is longer than its header can say.
pub(super) fn check_largest(mtu: Option<u32>, problems: &mut Problems) {
    if let Some(mtu) = mtu.filter(|mtu| *mtu > LARGEST_MTU) {
        problems.add(Reason::InvalidMtu, format!("mtu {mtu} should be less than or equal to {LARGEST_MTU}"));
    }
}

fn check_topology(network: &Network, problems: &mut Problems) {
    let (primary, layer2) = (network.is_primary(), network.topology == Topology::Layer2);
    let no_subnets = network.subnets.is_empty();
    match network.topology {
        Topology::Layer3 => {
            problems.rule(!no_subnets, say::LAYER3_SUBNETS);
            problems.rule(!network.persistent_ips, say::LIFECYCLE_TOPOLOGY);
        }
        Topology::Layer2 => problems.rule(!primary || !no_subnets, say::SUBNETS_REQUIRED),
        Topology::Localnet => {
            problems.rule(!primary, say::LOCALNET_SECONDARY);
            problems.rule(network.join_subnets.is_empty(), say::JOIN_PRIMARY);
        }
    }
    problems.rule(layer2 || network.reserved_subnets.is_empty(), &say::carved_primary("reservedSubnets"));
    problems.rule(
        layer2 || network.infrastructure_subnets.is_empty(),
        &say::carved_primary("infrastructureSubnets"),
    );
    problems.rule(layer2 || network.default_gateways.is_empty(), say::GATEWAY_PRIMARY);
    problems.rule(network.exclude_subnets.is_empty() || !no_subnets, say::EXCLUDE_NEEDS_SUBNETS);
    problems.rule(primary || network.transport == super::Transport::Overlay, say::EVPN_PRIMARY);
}

/// A primary layer3 network may have several subnets of a family, all others one.
fn check_families(network: &Network, problems: &mut Problems) {
    let twice = |cidrs: &[Cidr]| {
        Family::ALL.iter().any(|family| cidrs.iter().filter(|cidr| cidr.family() == *family).count() > 1)
    };
    let pods: Vec<Cidr> = network.pod_cidrs().collect();
    let many = network.topology == Topology::Layer3 && network.role == Role::Primary;
    problems.rule(many || !twice(&pods), say::FAMILIES);
    problems.rule(!twice(&network.join_subnets), say::FAMILIES);
    problems.rule(!twice(&network.transit_subnets), say::FAMILIES);
}

/// Each length must fit its subnet, and a family has one length.
pub(super) fn check_host_lengths(subnets: &[PodSubnet], problems: &mut Problems) {
    for subnet in subnets {
        let (cidr, Some(host)) = (subnet.cidr, subnet.host_prefix) else { continue };
        let v4 = cidr.family() == Family::Ipv4;
        let mut fail = |wrong: bool, message: &str| {
            if wrong {
                problems.add(Reason::InvalidSpec, format!("{message}: {cidr} with {host}"));
            }
        };
        fail(host <= cidr.prefix_len(), say::HOST_SUBNET_LONGER);
        fail(v4 && host >= 32, say::HOST_SUBNET_V4);
        fail(!v4 && host != 64, say::HOST_SUBNET_V6);
    }
    for family in Family::ALL {
        let of_family = subnets.iter().filter(|subnet| subnet.cidr.family() == family);
        let mut lengths = of_family.map(|subnet| subnet.host_prefix);
        let first = lengths.next();
        problems.rule(lengths.all(|length| Some(length) == first), say::SAME_HOST);
    }
}

/// In n log n, also for lists that are too long for the API server to compare all pairs.
pub(super) fn check_apart(subnets: &[PodSubnet], problems: &mut Problems) {
    let mut seen = SubnetIndex::new();
    for cidr in subnets.iter().map(|subnet| subnet.cidr) {
        if seen.get(&cidr).is_some() {
            let message = format!("{}: {cidr}; {}", say::SAME_CIDR, say::OVERLAP);
            problems.add(Reason::OverlappingSubnets, message);
        } else if let Some((other, ())) = seen.overlapping(&cidr).next() {
            problems.add(Reason::OverlappingSubnets, format!("{}: {other} and {cidr}", say::OVERLAP));
        }
        seen.insert(cidr, ());
    }
}
