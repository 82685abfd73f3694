//! The flags of the node role.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use causeway_ovsdb_client::Remote;
use causeway_runtime::ClusterFlags;
use causeway_types::NodeName;
use causeway_zone::Render;

/// Flags of the node role
#[derive(Clone, Debug, clap::Args)]
pub struct NodeFlags {
    #[command(flatten)]
    pub(super) cluster: ClusterFlags,
    /// The node that this is
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    pub(super) node_name: NodeName,
    /// The zone's northbound database
    #[arg(
        long,
        env = "CAUSEWAY_NORTHBOUND",
        value_name = "REMOTE",
        default_value = "unix:/var/run/ovn/ovnnb_db.sock"
    )]
    pub(super) northbound: Remote,
    /// The zone's southbound database
    #[arg(
        long,
        env = "CAUSEWAY_SOUTHBOUND",
        value_name = "REMOTE",
        default_value = "unix:/var/run/ovn/ovnsb_db.sock"
    )]
    pub(super) southbound: Remote,
    /// The node's Open vSwitch database
    #[arg(
        long,
        env = "CAUSEWAY_VSWITCH",
        value_name = "REMOTE",
        default_value = "unix:/var/run/openvswitch/db.sock"
    )]
    pub(super) vswitch: Remote,
    /// Where the CNI plugin finds this role
    #[arg(
        long,
        env = "CAUSEWAY_CNI_SOCKET",
        value_name = "FILE",
        default_value = "/var/run/ovn-kubernetes/cni/ovn-cni-server.sock"
    )]
    pub(super) cni_socket: PathBuf,
    /// Where the container runtime looks for CNI configurations; ours appears there when the node is ready
    #[arg(long, env = "CAUSEWAY_CNI_CONF_DIR", value_name = "FOLDER", default_value = "/etc/cni/net.d")]
    pub(super) cni_conf_dir: PathBuf,
    /// Where metrics and health are served
    #[arg(long, env = "CAUSEWAY_METRICS_ADDRESS", value_name = "ADDRESS", default_value = "127.0.0.1:9410")]
    pub(super) metrics_address: SocketAddr,
    /// Record everything that comes in, for causeway replay, in this file; its first lines are the whole cluster as it is
    #[arg(long, env = "CAUSEWAY_RECORD", value_name = "FILE")]
    pub(super) record: Option<PathBuf>,
    /// Which networks are rendered on this node: all, or those that a pod here uses
    #[arg(long, env = "CAUSEWAY_RENDER", value_enum, default_value = "all")]
    pub(super) render: RenderFlag,
    /// Render networks only where they are used: the same as --render=used
    #[arg(long, env = "CAUSEWAY_ENABLE_DYNAMIC_UDN_ALLOCATION")]
    pub(super) enable_dynamic_udn_allocation: bool,
    /// Render ClusterNetworkConnects
    #[arg(
        long,
        env = "CAUSEWAY_ENABLE_NETWORK_CONNECT",
        value_name = "BOOL",
        default_value_t = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    pub(super) enable_network_connect: bool,
    /// Encrypt tunnels between nodes with IPsec; docs/security.md says what it needs on each node
    #[arg(long, env = "CAUSEWAY_ENABLE_IPSEC")]
    pub(super) enable_ipsec: bool,
    /// How long a network stays rendered after its last pod went, with --render=used, in seconds
    #[arg(long, env = "CAUSEWAY_UDN_DELETION_GRACE_PERIOD", value_name = "SECONDS", default_value_t = 120)]
    pub(super) udn_deletion_grace_period: u64,
}

/// Which networks are rendered.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(super) enum RenderFlag {
    /// All of them
    All,
    /// Those that a pod of this node uses
    Used,
}

impl NodeFlags {
    pub(super) fn rendering(&self) -> Render {
        let grace = Duration::from_secs(self.udn_deletion_grace_period);
        if self.enable_dynamic_udn_allocation || self.render == RenderFlag::Used {
            Render::Used { grace_ms: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX) }
        } else {
            Render::All
        }
    }
}
