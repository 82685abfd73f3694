//! What an installation has decided.

use causeway_api::intent::{ClusterConfig, PodSubnet};
use causeway_types::ConnectTopology;
use serde::{Deserialize, Serialize};

/// What the manager needs to know before it sees the cluster.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Config {
    /// The subnets that the cluster has taken, and what it can do.
    pub cluster: ClusterConfig,
    /// Pod subnets of the default network, with the length of each node's part.
    pub default_subnets: Vec<PodSubnet>,
    /// The most nodes that get an id.
    pub max_nodes: u32,
    /// The namespace of the manager's own objects.
    pub namespace: String,
    /// After how long without a sign of life freed numbers no longer wait for a node, in milliseconds.
    #[serde(default = "ten_minutes")]
    pub fence_after_ms: i64,
    /// How connections are to be laid out; those that are laid out differently move.
    pub connect_topology: ConnectTopology,
    /// Whether overlay tunnels are turned off in the whole cluster: then nothing can be connected.
    #[serde(default)]
    pub no_overlay: bool,
    /// What is switched on.
    pub features: Features,
}

const fn ten_minutes() -> i64 {
    600_000
}

/// What is switched on.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Features {
    /// Networks besides the default one.
    pub multi_network: bool,
    /// User-defined networks; needs `multi_network`.
    pub network_segmentation: bool,
    /// Pods that ask for an address or a MAC on their primary network.
    pub preconfigured_addresses: bool,
    /// ClusterNetworkConnects; needs user-defined networks. Where they are off, what those that exist were given stays
    /// theirs: their tunnel keys come from the same range as those of networks.
    pub network_connect: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self {
            multi_network: true,
            network_segmentation: true,
            preconfigured_addresses: true,
            network_connect: false,
        }
    }
}

impl Features {
    /// Whether everything that is switched on has what it builds on.
    ///
    /// # Errors
    /// Which flags do not go together.
    pub fn check(self) -> std::result::Result<(), String> {
        match self.without_networks().filter(|_| self.network_connect) {
            Some(flag) => Err(format!(
                "--enable-network-connect connects user-defined networks, which {flag} switches off: leave out one of the two"
            )),
            None => Ok(()),
        }
    }

    /// The flag that has switched user-defined networks off, if one has.
    pub const fn without_networks(self) -> Option<&'static str> {
        if !self.multi_network {
            Some("--enable-multi-network=false")
        } else if !self.network_segmentation {
            Some("--enable-network-segmentation=false")
        } else {
            None
        }
    }
}
