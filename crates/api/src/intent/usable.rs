//! Subnets that are valid and still of no use.

use std::net::IpAddr;

use causeway_types::{Cidr, Family, NetworkId, join_address};

use super::cluster::ClusterConfig;
use super::network::{MOST_SUBNETS, Network, PodSubnet};
use super::problem::{Problem, Problems, Reason};
use super::special::special_overlap;
use crate::crd::Topology;
use crate::schema::messages as say;

impl Network {
    /// Everything that speaks against the network in this cluster, in a fixed order.
    pub fn problems(&self, cluster: &ClusterConfig) -> Vec<Problem> {
        let mut problems = Problems::default();
        self.check_count(&mut problems);
        self.check_room(&mut problems);
        self.check_excluded(&mut problems);
        match self.overlap(cluster) {
            Some(overlap) => problems.0.push(overlap),
            None => self.check_special(&mut problems),
        }
        self.check_join(cluster, &mut problems);
        // The CRD sees only an MTU that is written; otherwise the cluster's counts.
        if self.mtu.is_none() && cluster.mtu < 1280 && self.families().has(Family::Ipv6) {
            let message = format!("{}: the cluster's MTU is {}; write a larger mtu", say::MTU, cluster.mtu);
            problems.add(Reason::InvalidMtu, message);
        }
        // Which id it will be makes no difference to whether there is a name.
        problems.0.extend(self.vrf_name(NetworkId::FIRST).err().filter(|_| self.is_primary()));
        if self.persistent_ips && !cluster.persistent_ips {
            let message = "allowPersistentIPs is set but persistentIPs is Disabled";
            problems.add(Reason::PersistentIpsDisabled, message);
        }
        problems.0
    }

    fn check_count(&self, problems: &mut Problems) {
        if self.subnets.len() > MOST_SUBNETS {
            let message = format!(
                "network {} has {} subnets, and every zone would have rows for each: {MOST_SUBNETS} at most; use larger ones",
                self.name,
                self.subnets.len()
            );
            problems.add(Reason::InvalidSpec, message);
        }
    }

    /// Addresses with a meaning of their own are no pod's.
    fn check_special(&self, problems: &mut Problems) {
        for cidr in self.pod_cidrs() {
            if let Some((range, what)) = special_overlap(&cidr) {
                let message =
                    format!("subnet {cidr} has {what} ({range}): pods cannot have them, use another subnet");
                problems.add(Reason::UnusableSubnet, message);
            }
        }
    }

    /// The subnet that has an address of a node itself, with that address and the node's name.
    pub fn underlay_overlap<'a, N>(&self, nodes: impl Iterator<Item = (IpAddr, &'a N)>) -> Option<Problem>
    where
        N: std::fmt::Display + 'a,
    {
        let inside = |address: IpAddr| self.pod_cidrs().find(|cidr| cidr.contains_address(address));
        let (cidr, address, node) =
            nodes.into_iter().find_map(|(address, node)| Some((inside(address)?, address, node)))?;
        let message =
            format!("subnet {cidr} has the address {address} of node {node} itself: use another subnet");
        Some(Problem::new(Reason::OverlappingSubnets, message))
    }

    /// Every subnet, or every node's part of it, must have an address for a pod.
    fn check_room(&self, problems: &mut Problems) {
        for subnet in &self.subnets {
            match self.topology {
                Topology::Layer3 => check_host_subnet(subnet, problems),
                Topology::Layer2 | Topology::Localnet => {
                    if pod_addresses(subnet.cidr, self.is_primary()) == 0 {
                        let message =
                            format!("subnet {} has no address for a pod: use a larger one", subnet.cidr);
                        problems.add(Reason::UnusableSubnet, message);
                    }
                }
            }
        }
    }

    fn check_excluded(&self, problems: &mut Problems) {
        let outside = |exclude: &&Cidr| !self.pod_cidrs().any(|cidr| cidr.contains(exclude));
        for exclude in self.exclude_subnets.iter().filter(outside) {
            let message = format!("the provided network subnets do not contain excluded subnets {exclude}");
            problems.add(Reason::InvalidSpec, message);
        }
    }

    /// A gateway router has address number `node id` of each join subnet.
    fn check_join(&self, cluster: &ClusterConfig, problems: &mut Problems) {
        for join in self.effective_join_subnets(cluster) {
            if join_address(&join, cluster.highest_node).is_err() {
                let message = format!(
                    "join subnet too small for node ids: {join} has no address for node id {}; use a larger joinSubnets entry",
                    cluster.highest_node
                );
                problems.add(Reason::JoinSubnetTooSmall, message);
            }
        }
    }
}

/// Of each node's subnet the first address is the gateway's and the second the management port's.
fn check_host_subnet(subnet: &PodSubnet, problems: &mut Problems) {
    let host = subnet.effective_host_prefix();
    if host <= subnet.cidr.prefix_len() {
        let message = format!(
            "cannot use a host subnet length mask shorter than or equal to the cluster subnet mask: {} is split into /{host}; \
             write a longer hostSubnet",
            subnet.cidr
        );
        problems.add(Reason::UnusableSubnet, message);
        return;
    }
    let unusable = subnet.cidr.subnet(host, 0).map_or(true, |part| pod_addresses(part, true) == 0);
    if unusable {
        let message =
            format!("host subnets of {} have no address for a pod: /{host} is too small", subnet.cidr);
        problems.add(Reason::UnusableSubnet, message);
    }
}

/// How many pods fit: not the subnet's own address, not IPv4's broadcast address, and on a network with a router
/// neither gateway nor management port.
fn pod_addresses(cidr: Cidr, routed: bool) -> u128 {
    let broadcast = u128::from(cidr.family() == Family::Ipv4);
    let taken = if routed { 2 } else { 0 };
    cidr.last_number().saturating_sub(broadcast).saturating_sub(taken)
}
