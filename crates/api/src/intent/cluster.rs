//! What all networks of a cluster have in common.

use causeway_types::{Cidr, NodeId};

/// The subnets that the cluster has taken, and what it can do.
#[derive(Clone, Debug, Eq, PartialEq)]
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

impl ClusterConfig {
    /// The subnets that every installation starts from; cluster and service subnets are the installation's own.
    ///
    /// # Errors
    /// Never: the texts are constants that a test reads.
    pub fn new(
        cluster_subnets: Vec<Cidr>,
        service_cidrs: Vec<Cidr>,
        highest_node: NodeId,
    ) -> Result<Self, causeway_types::Error> {
        let pair = |v4: &str, v6: &str| Ok::<_, causeway_types::Error>(vec![v4.parse()?, v6.parse()?]);
        Ok(Self {
            cluster_subnets,
            service_cidrs,
            join_subnets: pair("100.64.0.0/16", "fd98::/64")?,
            udn_join_subnets: pair("100.65.0.0/16", "fd99::/64")?,
            transit_subnets: pair("100.88.0.0/16", "fd97::/64")?,
            masquerade_subnets: pair("169.254.0.0/17", "fd69::/112")?,
            highest_node,
            mtu: 1400,
            persistent_ips: true,
        })
    }
}
