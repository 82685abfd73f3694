//! Addresses that are nobody's pods: what the protocols keep for themselves.

use std::net::IpAddr;

use causeway_types::Cidr;
use ipnet::IpNet;

use super::cluster::ClusterConfig;

/// Ranges with a meaning of their own, and what they are.
const SPECIAL: [(&str, &str); 9] = [
    ("0.0.0.0/8", "addresses of this host"),
    ("127.0.0.0/8", "loopback addresses"),
    ("169.254.0.0/16", "link-local addresses"),
    ("224.0.0.0/4", "multicast addresses"),
    ("240.0.0.0/4", "reserved addresses"),
    ("::/128", "the unspecified address"),
    ("::1/128", "the loopback address"),
    ("fe80::/10", "link-local addresses"),
    ("ff00::/8", "multicast addresses"),
];

fn special() -> impl Iterator<Item = (Cidr, &'static str)> {
    SPECIAL.iter().filter_map(|(text, what)| Some((Cidr::masked(text.parse::<IpNet>().ok()?), *what)))
}

/// The special range that a subnet shares addresses with, and what it is.
pub(super) fn special_overlap(cidr: &Cidr) -> Option<(Cidr, &'static str)> {
    special().find(|(range, _)| range.overlaps(cidr))
}

impl ClusterConfig {
    /// Whether an address is the cluster's own: of the default network's pods, of services, of what joins routers and nodes, or one
    /// with a meaning of its own. An endpoint there is a pod's, or nobody's.
    pub fn is_internal(&self, address: IpAddr) -> bool {
        let own = [
            &self.cluster_subnets,
            &self.service_cidrs,
            &self.join_subnets,
            &self.udn_join_subnets,
            &self.transit_subnets,
            &self.masquerade_subnets,
        ];
        own.into_iter().flatten().any(|cidr| cidr.contains_address(address))
            || special().any(|(range, _)| range.contains_address(address))
    }
}
