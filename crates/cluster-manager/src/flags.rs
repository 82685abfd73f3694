//! The flags of the cluster manager.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use causeway_runtime::{ClusterFlags, read_time};
use causeway_types::ConnectTopology;

use causeway_cluster::{Config, Features};

/// Flags of the cluster manager
#[derive(Clone, Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
    /// Allow networks besides the default one
    #[arg(long, env = "CAUSEWAY_ENABLE_MULTI_NETWORK", value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    enable_multi_network: bool,
    /// Allow user-defined networks; needs --enable-multi-network
    #[arg(long, env = "CAUSEWAY_ENABLE_NETWORK_SEGMENTATION", value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    enable_network_segmentation: bool,
    /// Allow pods to ask for addresses on their primary network
    #[arg(long, env = "CAUSEWAY_ENABLE_PRECONFIGURED_UDN_ADDRESSES", value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    enable_preconfigured_udn_addresses: bool,
    /// Connect networks by ClusterNetworkConnects; needs --enable-multi-network and --enable-network-segmentation
    #[arg(long, env = "CAUSEWAY_ENABLE_NETWORK_CONNECT", value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    enable_network_connect: bool,
    /// How connections between networks are laid out: one router across all nodes (transit), or one on each node
    /// (compact); existing connections move without losing traffic
    #[arg(long, env = "CAUSEWAY_CONNECT_TOPOLOGY", value_name = "TOPOLOGY", default_value = "transit", value_parser = connect_topology)]
    connect_topology: ConnectTopology,
    /// Overlay tunnels between nodes are turned off in this cluster: ClusterNetworkConnects are refused
    #[arg(long, env = "CAUSEWAY_NO_OVERLAY", value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    no_overlay: bool,
    /// After so many seconds without a sign of life of a node, freed numbers are used again without its consent; others listen
    /// to it again when it has cleared them
    #[arg(long, env = "CAUSEWAY_FENCE_NODE_AFTER", value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(30..))]
    fence_node_after: u32,
    /// Accepted for compatibility: host subnets are derived, and nodes decide what they render
    #[arg(long, env = "CAUSEWAY_ENABLE_DYNAMIC_UDN_ALLOCATION", value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    enable_dynamic_udn_allocation: bool,
    /// Accepted for compatibility: nodes keep a network for so long after its last pod, such as 120s
    #[arg(long, env = "CAUSEWAY_UDN_DELETION_GRACE_PERIOD", value_name = "TIME", default_value = "120s", value_parser = read_time)]
    udn_deletion_grace_period: Duration,
    /// Address to serve /metrics, /healthz and /readyz on
    #[arg(
        long,
        env = "CAUSEWAY_METRICS_ADDRESS",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:9411"
    )]
    pub(crate) metrics_address: SocketAddr,
    /// Record everything that comes in, from the lists at the start on, to this file, for `causeway replay`; only its owner may
    /// read it, and it grows without a bound
    #[arg(long, env = "CAUSEWAY_RECORD", value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Work only while holding the lease; switch off only where a single manager is certain
    #[arg(long, env = "CAUSEWAY_LEADER_ELECT", value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) leader_elect: bool,
}

impl Flags {
    /// What the flags decide.
    pub fn config(&self) -> Config {
        Config {
            cluster: self.cluster.config(),
            default_subnets: self.cluster.cluster_subnets.clone(),
            max_nodes: self.cluster.max_nodes,
            namespace: self.cluster.namespace.clone(),
            fence_after_ms: i64::from(self.fence_node_after) * 1000,
            connect_topology: self.connect_topology,
            no_overlay: self.no_overlay,
            features: Features {
                multi_network: self.enable_multi_network,
                network_segmentation: self.enable_network_segmentation,
                preconfigured_addresses: self.enable_preconfigured_udn_addresses,
                network_connect: self.enable_network_connect,
            },
        }
    }

    /// Flags that are there so that command lines of other distributions work, and that change nothing here.
    pub(crate) fn without_effect(&self) -> Option<String> {
        let dynamic = self.enable_dynamic_udn_allocation;
        let grace = self.udn_deletion_grace_period != Duration::from_secs(120);
        (dynamic || grace).then(|| {
            "--enable-dynamic-udn-allocation and --udn-deletion-grace-period change nothing here: give --render=used to the nodes"
                .to_owned()
        })
    }
}

/// `both` is a step on the way, and nothing to stay in.
fn connect_topology(text: &str) -> Result<ConnectTopology, String> {
    match text.parse() {
        Ok(topology @ (ConnectTopology::Transit | ConnectTopology::Compact)) => Ok(topology),
        _ => Err("give transit or compact".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        flags: Flags,
    }

    fn parse(arguments: &[&str]) -> Flags {
        Command::try_parse_from(["test"].iter().chain(arguments)).unwrap().flags
    }

    #[test]
    fn connections_are_off_unless_asked_for() {
        assert!(!parse(&[]).config().features.network_connect);
        for on in ["--enable-network-connect", "--enable-network-connect=true"] {
            let features = parse(&[on]).config().features;
            assert_eq!((features.network_connect, features.check()), (true, Ok(())));
        }
    }

    #[tokio::test]
    async fn connections_without_networks_are_refused_before_anything_is_asked() {
        for without in ["--enable-multi-network=false", "--enable-network-segmentation=false"] {
            let error = parse(&["--enable-network-connect", without]).run().await.unwrap_err().to_string();
            assert!(error.contains("--enable-network-connect") && error.contains(without), "{error}");
            assert_eq!(parse(&[without]).config().features.check(), Ok(()));
        }
    }

    #[test]
    fn everything_needed_is_on() {
        let config = parse(&[]).config();
        assert_eq!(config.features, Features::default());
        assert_eq!(config.features.without_networks(), None);
        assert!(!config.cluster.persistent_ips, "claims are not built yet");
        assert!(parse(&[]).leader_elect);
    }

    #[test]
    fn a_connection_is_laid_out_in_one_of_two_ways() {
        assert_eq!(parse(&[]).config().connect_topology, ConnectTopology::Transit);
        let compact = parse(&["--connect-topology=compact"]);
        assert_eq!(compact.config().connect_topology, ConnectTopology::Compact);
        let both = Command::try_parse_from(["test", "--connect-topology=both"]);
        assert!(both.is_err_and(|error| error.to_string().contains("give transit or compact")));
    }

    #[test]
    fn flags_switch_on_and_off_with_and_without_a_value() {
        let off = parse(&["--enable-network-segmentation=false", "--enable-multi-network"]);
        assert_eq!(off.config().features.without_networks(), Some("--enable-network-segmentation=false"));
        let quiet = ["--enable-dynamic-udn-allocation=false", "--udn-deletion-grace-period=2m"];
        assert_eq!(parse(&quiet).without_effect(), None);
        assert!(parse(&["--enable-dynamic-udn-allocation"]).without_effect().is_some());
    }

    #[tokio::test]
    async fn subnets_without_room_are_refused_before_anything_is_asked() {
        let error = parse(&["--join-subnets=100.70.0.0/24"]).run().await.unwrap_err().to_string();
        assert!(error.starts_with("--join-subnets 100.70.0.0/24 has room for 253 nodes"), "{error}");
    }
}
