//! The flags that say what the cluster is. Every role takes the same ones, so that all of them mean the same cluster.

use std::path::PathBuf;
use std::time::Duration;

use causeway_api::intent::{ClusterConfig, DEFAULT_HOST_PREFIX_V4, DEFAULT_HOST_PREFIX_V6, PodSubnet};
use causeway_types::{Cidr, Family, NodeId};

use crate::{Error, room};

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
    /// Subnets between the routers of the default network, at most one of each family
    #[arg(
        long,
        env = "CAUSEWAY_JOIN_SUBNETS",
        value_name = "CIDR,…",
        value_delimiter = ',',
        default_value = "100.64.0.0/16,fd98::/64"
    )]
    pub join_subnets: Vec<Cidr>,
    /// Subnets between the routers of user-defined networks that say none
    #[arg(
        long,
        env = "CAUSEWAY_UDN_JOIN_SUBNETS",
        value_name = "CIDR,…",
        value_delimiter = ',',
        default_value = "100.65.0.0/16,fd99::/64"
    )]
    pub udn_join_subnets: Vec<Cidr>,
    /// Subnets between nodes, in every network
    #[arg(
        long,
        env = "CAUSEWAY_TRANSIT_SUBNETS",
        value_name = "CIDR,…",
        value_delimiter = ',',
        default_value = "100.88.0.0/16,fd97::/64"
    )]
    pub transit_subnets: Vec<Cidr>,
    /// Subnets that each node uses among its own devices
    #[arg(
        long,
        env = "CAUSEWAY_MASQUERADE_SUBNETS",
        value_name = "CIDR,…",
        value_delimiter = ',',
        default_value = "169.254.0.0/17,fd69::/112"
    )]
    pub masquerade_subnets: Vec<Cidr>,
    /// Namespace that Causeway runs in
    #[arg(long, env = "CAUSEWAY_NAMESPACE", value_name = "NAME", default_value = "causeway")]
    pub namespace: String,
    /// Accept networks that keep addresses for workloads whose pods come and go; the claims themselves are not built yet
    #[arg(long, env = "CAUSEWAY_ENABLE_PERSISTENT_IPS", value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_persistent_ips: bool,
}

impl ClusterFlags {
    /// Checks what flags mean together, before anything is started. What is only good to know is logged.
    ///
    /// # Errors
    /// What cannot be, and what to write instead.
    pub fn check(&self) -> Result<(), Error> {
        let notes = room::check(&self.config()).map_err(Error::Flags)?;
        notes.iter().for_each(|note| tracing::warn!("{note}"));
        Ok(())
    }

    /// What all networks of the cluster have in common.
    pub fn config(&self) -> ClusterConfig {
        let cluster = self.cluster_subnets.iter().map(|subnet| subnet.cidr).collect();
        // Ids start at 2; the parser has checked that the last one exists.
        let highest = NodeId::new(self.max_nodes + 1).unwrap_or(NodeId::LAST);
        ClusterConfig {
            mtu: self.mtu,
            persistent_ips: self.enable_persistent_ips,
            join_subnets: self.join_subnets.clone(),
            udn_join_subnets: self.udn_join_subnets.clone(),
            transit_subnets: self.transit_subnets.clone(),
            masquerade_subnets: self.masquerade_subnets.clone(),
            ..ClusterConfig::new(cluster, self.service_cidrs.clone(), highest)
        }
    }
}

/// `120s`, `2m`, `1m30s`, `500ms`, or a number of seconds.
///
/// # Errors
/// What is no time, with an example of one.
pub fn read_time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time: write 120s, 2m or a number of seconds");
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let (mut rest, mut time) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            "h" => Duration::from_secs(3600),
            _ => return Err(wrong()),
        };
        rest = &rest[end..];
        let part =
            u32::try_from(number).ok().and_then(|number| unit.checked_mul(number)).ok_or_else(wrong)?;
        time = time.checked_add(part).ok_or_else(wrong)?;
    }
    if text.is_empty() { Err(wrong()) } else { Ok(time) }
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

    #[test]
    fn subnets_that_are_too_small_are_refused_at_the_start() {
        assert!(flags(&[]).unwrap().check().is_ok());
        let small = flags(&["--join-subnets=100.70.0.0/24", "--max-nodes=300"]).unwrap().check().unwrap_err();
        assert!(small.to_string().starts_with("--join-subnets 100.70.0.0/24 has room for 253"), "{small}");
        assert!(flags(&["--join-subnets=100.70.0.0/24", "--max-nodes=253"]).unwrap().check().is_ok());
    }

    #[test]
    fn times_are_read_in_several_spellings() {
        let seconds = |text: &str| read_time(text).map(|time| time.as_secs());
        for (text, expected) in [("0", 0), ("90", 90), ("120s", 120), ("2m", 120), ("1h1m1s", 3661)] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in ["", "s", "1x", "-1", "1.5s", "99999999999h", "5m3"] {
            assert!(seconds(text).is_err_and(|error| error.contains("write 120s")), "{text}");
        }
    }

    #[test]
    fn the_cluster_keeps_its_usual_subnets_unless_it_is_told_others() {
        let config = |words: &[&str]| flags(words).unwrap().config();
        let usual = config(&[]);
        let known = ClusterConfig::new(
            usual.cluster_subnets.clone(),
            usual.service_cidrs.clone(),
            usual.highest_node,
        );
        assert_eq!(usual, ClusterConfig { persistent_ips: false, ..known });
        let other = config(&[
            "--join-subnets=100.70.0.0/16",
            "--udn-join-subnets=100.71.0.0/16",
            "--transit-subnets=100.72.0.0/16",
            "--masquerade-subnets=169.254.128.0/17",
        ]);
        let texts =
            [other.join_subnets, other.udn_join_subnets, other.transit_subnets, other.masquerade_subnets]
                .map(|subnets| subnets[0].to_string());
        assert_eq!(texts, ["100.70.0.0/16", "100.71.0.0/16", "100.72.0.0/16", "169.254.128.0/17"]);
    }
}
