//! Subnets that are valid and still of no use.

use causeway_types::{Cidr, Family, NetworkId, join_address};

use super::cluster::ClusterConfig;
use super::network::{Network, PodSubnet};
use super::problem::{Problem, Problems, Reason};
use crate::crd::Topology;
use crate::schema::messages as say;

impl Network {
    /// Everything that speaks against the network in this cluster, in a fixed order.
    pub fn problems(&self, cluster: &ClusterConfig) -> Vec<Problem> {
        let mut problems = Problems::default();
        self.check_room(&mut problems);
        self.check_excluded(&mut problems);
        problems.0.extend(self.overlap(cluster));
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
