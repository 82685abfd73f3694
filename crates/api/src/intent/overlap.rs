//! Subnets that must be apart, found in n log n.

use std::fmt;

use causeway_types::{Cidr, Family, SubnetIndex};

use super::cluster::ClusterConfig;
use super::network::Network;
use super::problem::{Problem, Reason};
use crate::crd::Topology;

/// What a subnet is used for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum SubnetUse {
    /// Join subnet of the default network.
    BuiltInJoin,
    /// Pod subnet of the default network.
    Cluster,
    /// Addresses of services.
    Service,
    /// Addresses that nodes use among their own devices.
    Masquerade,
    /// Addresses between nodes.
    Transit,
    /// Pod subnet of the network at hand.
    Pod,
    /// Join subnet of the network at hand.
    Join,
}

impl fmt::Display for SubnetUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BuiltInJoin => "built-in join subnet",
            Self::Cluster => "cluster subnet",
            Self::Service => "service subnet",
            Self::Masquerade => "masquerade subnet",
            Self::Transit => "transit switch subnet",
            Self::Pod => "user defined subnet",
            Self::Join => "user defined join subnet",
        })
    }
}

impl Network {
    /// The join subnets in effect: those that are written, and the cluster's for a family that has none.
    /// None for Secondary networks.
    pub fn effective_join_subnets(&self, cluster: &ClusterConfig) -> Vec<Cidr> {
        if !self.is_primary() {
            return Vec::new();
        }
        let of = |list: &[Cidr], family| list.iter().copied().find(|cidr| cidr.family() == family);
        let pick = |family| of(&self.join_subnets, family).or_else(|| of(&cluster.udn_join_subnets, family));
        Family::ALL.into_iter().filter_map(pick).collect()
    }

    /// The transit subnets in effect. A primary layer2 network has its own transit router, whose addresses its pods
    /// must not meet: where they would, the next free block of the same size is taken, ten times at most.
    pub fn effective_transit_subnets(&self, cluster: &ClusterConfig) -> Vec<Cidr> {
        if !self.transit_subnets.is_empty() || self.topology != Topology::Layer2 || !self.is_primary() {
            return self.transit_subnets.clone();
        }
        let taken: Vec<Cidr> = self.pod_cidrs().chain(self.effective_join_subnets(cluster)).collect();
        let families = self.families();
        let wanted = cluster.transit_subnets.iter().filter(|transit| families.has(transit.family()));
        wanted.map(|transit| free_block(*transit, &taken)).collect()
    }

    /// The overlap with another primary network of the same namespace, if there is one: pods of both reach each
    /// other, so an address must tell whose it is.
    pub fn sibling_overlap<'a>(&self, siblings: impl IntoIterator<Item = &'a Self>) -> Option<Problem> {
        let mut taken = SubnetIndex::new();
        for sibling in siblings {
            for cidr in sibling.pod_cidrs() {
                taken.insert(cidr, &sibling.name);
            }
        }
        self.pod_cidrs().find_map(|cidr| {
            let (other, network) = taken.overlapping(&cidr).next()?;
            let message = format!(
                "subnet \"{cidr}\" overlaps subnet \"{other}\" of network {network}, which serves the same namespace"
            );
            Some(Problem::new(Reason::OverlappingSubnets, message))
        })
    }

    /// The overlap that forbids the network, if there is one. A subnet of which nothing is given to pods counts too: its routers
    /// still claim all of it. Localnet networks are somebody else's.
    pub fn overlap(&self, cluster: &ClusterConfig) -> Option<Problem> {
        if self.topology == Topology::Localnet {
            return None;
        }
        let pods = self.pod_cidrs().map(|cidr| (SubnetUse::Pod, cidr));
        let join = self.effective_join_subnets(cluster).into_iter().map(|cidr| (SubnetUse::Join, cidr));
        let layer3 = self.topology == Topology::Layer3;
        let taken = taken(cluster).filter(|(use_, _)| layer3 || *use_ != SubnetUse::Transit);
        // Subnets of the cluster may overlap each other: that is for whoever configured the cluster.
        let mut seen = SubnetIndex::new();
        for (label, cidr) in taken {
            seen.insert(cidr, label);
        }
        for (label, cidr) in pods.chain(join) {
            if let Some((other, other_label)) = seen.overlapping(&cidr).next() {
                let message = format!("{label} \"{cidr}\" overlaps {other_label} \"{other}\"");
                return Some(Problem::new(Reason::OverlappingSubnets, message));
            }
            seen.insert(cidr, label);
        }
        None
    }
}

fn taken(cluster: &ClusterConfig) -> impl Iterator<Item = (SubnetUse, Cidr)> {
    let of = |label: SubnetUse, list: &[Cidr]| list.iter().map(|cidr| (label, *cidr)).collect::<Vec<_>>();
    of(SubnetUse::BuiltInJoin, &cluster.join_subnets)
        .into_iter()
        .chain(of(SubnetUse::Cluster, &cluster.cluster_subnets))
        .chain(of(SubnetUse::Service, &cluster.service_cidrs))
        .chain(of(SubnetUse::Masquerade, &cluster.masquerade_subnets))
        .chain(of(SubnetUse::Transit, &cluster.transit_subnets))
}

/// The block itself, or the first of its size behind whatever is in its way.
fn free_block(block: Cidr, taken: &[Cidr]) -> Cidr {
    let mut candidate = block;
    for _ in 0..10 {
        let Some(obstacle) = taken.iter().find(|cidr| cidr.overlaps(&candidate)) else { return candidate };
        let bigger = if obstacle.contains(&candidate) { *obstacle } else { candidate };
        match block_after(bigger, block.prefix_len()) {
            Some(next) => candidate = next,
            None => return candidate,
        }
    }
    candidate
}

fn block_after(cidr: Cidr, prefix: u8) -> Option<Cidr> {
    let whole = Cidr::around(cidr.base(), 0).ok()?;
    let number = whole.number_of(cidr.last()).ok()?.checked_add(1)?;
    Cidr::around(whole.address(number).ok()?, prefix).ok()
}
