//! The flags that say what the cluster is. Every role takes the same ones, so that all of them mean the same cluster.

use std::path::PathBuf;

use causeway_api::intent::{ClusterConfig, DEFAULT_HOST_PREFIX_V4, DEFAULT_HOST_PREFIX_V6, PodSubnet};
use causeway_types::{Cidr, Family, NodeId};

/// Flags that describe the cluster
#[derive(Clone, Debug, clap::Args)]
pub struct ClusterFlags {
    /// Kubeconfig to use; without it, the service account of this pod
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Pod subnets of the default network, with the prefix length of each node's part: 10.244.0.0/16/24,fd00:10:244::/48/64
    #[arg(
        long,
        env = "CAUSEWAY_CLUSTER_SUBNETS",
        value_name = "CIDR[/HOST],…",
        value_delimiter = ',',
        value_parser = read_subnet,
        default_value = "10.244.0.0/16/24"
    )]
    pub cluster_subnets: Vec<PodSubnet>,
    /// Addresses of services
    #[arg(
        long,
        env = "CAUSEWAY_SERVICE_CIDRS",
        value_name = "CIDR,…",
        value_delimiter = ',',
        default_value = "10.96.0.0/16"
    )]
    pub service_cidrs: Vec<Cidr>,
    /// The most nodes that the cluster will have
    #[arg(long, env = "CAUSEWAY_MAX_NODES", value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=32_755))]
    pub max_nodes: u32,
    /// MTU of the default network, and of networks that say none
    #[arg(long, env = "CAUSEWAY_MTU", value_name = "BYTES", default_value_t = 1400, value_parser = clap::value_parser!(u32).range(576..=65_535))]
    pub mtu: u32,
    /// Namespace that Causeway runs in
    #[arg(long, env = "CAUSEWAY_NAMESPACE", value_name = "NAME", default_value = "causeway")]
    pub namespace: String,
    /// Let a network keep addresses for workloads whose pods come and go
    #[arg(long, env = "CAUSEWAY_ENABLE_PERSISTENT_IPS", value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_persistent_ips: bool,
}

impl ClusterFlags {
    /// What all networks of the cluster have in common.
    pub fn config(&self) -> ClusterConfig {
        let cluster = self.cluster_subnets.iter().map(|subnet| subnet.cidr).collect();
        // Ids start at 2; the parser has checked that the last one exists.
        let highest = NodeId::new(self.max_nodes + 1).unwrap_or(NodeId::LAST);
        ClusterConfig {
            mtu: self.mtu,
            persistent_ips: self.enable_persistent_ips,
            ..ClusterConfig::new(cluster, self.service_cidrs.clone(), highest)
        }
    }
}

/// `10.244.0.0/16/24`, or `10.244.0.0/16` with the usual prefix length of a node's part.
fn read_subnet(text: &str) -> Result<PodSubnet, String> {
    let (cidr, host) = match text.match_indices('/').nth(1) {
        Some((at, _)) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let cidr: Cidr = cidr.parse().map_err(|error| format!("{error}"))?;
    let usual = match cidr.family() {
        Family::Ipv4 => DEFAULT_HOST_PREFIX_V4,
        Family::Ipv6 => DEFAULT_HOST_PREFIX_V6,
    };
    let host = match host {
        Some(host) => host.parse().map_err(|_| format!("{host:?} is not a prefix length"))?,
        None => usual,
    };
    let bits = cidr.family().bits();
    if host < cidr.prefix_len() || host + 2 > bits {
        return Err(format!(
            "a node's part of {cidr} cannot be /{host}: write a length from {} to {}",
            cidr.prefix_len(),
            bits - 2
        ));
    }
    Ok(PodSubnet { cidr, host_prefix: Some(host) })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        cluster: ClusterFlags,
    }

    fn flags(arguments: &[&str]) -> Result<ClusterFlags, String> {
        let all = ["test"].iter().chain(arguments);
        Command::try_parse_from(all).map(|command| command.cluster).map_err(|error| error.to_string())
    }

    #[test]
    fn subnets_have_a_host_length() {
        let flags = flags(&["--cluster-subnets=10.244.0.0/16/26,fd00:10:244::/48"]).unwrap();
        let texts: Vec<String> = flags.cluster_subnets.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["10.244.0.0/16/26", "fd00:10:244::/48/64"]);
        assert_eq!(flags.config().highest_node, NodeId::new(1001).unwrap());
    }

    #[test]
    fn what_cannot_be_a_subnet_is_refused() {
        for (text, wanted) in
            [("10.244.0.0/16/8", "cannot be /8"), ("10.0.0.0/24/31", "cannot be /31"), ("abc", "abc")]
        {
            let error = flags(&[&format!("--cluster-subnets={text}")]).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
