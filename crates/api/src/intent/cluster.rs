//! What all networks of a cluster have in common.

use std::net::{Ipv4Addr, Ipv6Addr};

use causeway_types::{Cidr, NodeId};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

/// The subnets that the cluster has taken, and what it can do.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ClusterConfig {
    /// Pod subnets of the default network.
    pub cluster_subnets: Vec<Cidr>,
    /// Addresses of services.
    pub service_cidrs: Vec<Cidr>,
    /// Join subnets of the default network.
    pub join_subnets: Vec<Cidr>,
    /// Join subnets of user-defined networks that say none.
    pub udn_join_subnets: Vec<Cidr>,
    /// Transit subnets of all networks.
    pub transit_subnets: Vec<Cidr>,
    /// Addresses that nodes use among their own devices.
    pub masquerade_subnets: Vec<Cidr>,
    /// The highest node id that networks must have addresses for.
    pub highest_node: NodeId,
    /// The MTU of the default network.
    pub mtu: u32,
    /// Whether addresses may outlive pods.
    pub persistent_ips: bool,
}

fn v4(first: u8, second: u8, prefix: u8) -> Cidr {
    Cidr::masked(IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(first, second, 0, 0), prefix)))
}

fn v6(first: u16, prefix: u8) -> Cidr {
    Cidr::masked(IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0), prefix)))
}

impl ClusterConfig {
    /// The subnets that every installation starts from; cluster and service subnets are the installation's own.
    pub fn new(cluster_subnets: Vec<Cidr>, service_cidrs: Vec<Cidr>, highest_node: NodeId) -> Self {
        Self {
            cluster_subnets,
            service_cidrs,
            join_subnets: vec![v4(100, 64, 16), v6(0xfd98, 64)],
            udn_join_subnets: vec![v4(100, 65, 16), v6(0xfd99, 64)],
            transit_subnets: vec![v4(100, 88, 16), v6(0xfd97, 64)],
            masquerade_subnets: vec![v4(169, 254, 17), v6(0xfd69, 112)],
            highest_node,
            mtu: 1400,
            persistent_ips: true,
        }
    }
}
