//! Intent: what a manifest means, whichever form it has, and what speaks against it.
//!
//! Owns the one normalised [`Network`] and [`Connect`], and every check that needs no I/O. The rules of the API server
//! are checked here again: NADs and old custom resource definitions get past them. Never decides between
//! networks of different owners beyond naming who clashes; what is done about it is the cluster manager's.

mod addresses;
mod change;
mod cluster;
mod connect;
mod draft;
mod fabric;
mod manifest;
mod names;
mod network;
mod normalise;
mod overlap;
mod problem;
mod special;
mod usable;
mod vrf;
mod written;

pub(crate) use addresses::{read_cidr, read_ip};
pub use change::changes;
pub use cluster::ClusterConfig;
pub use connect::{Connect, Selection};
pub use fabric::{FabricClaim, fabric_clashes, target_number};
pub use manifest::Manifest;
pub use names::{NameClash, Named, name_clashes};
pub use network::{
    DEFAULT_HOST_PREFIX_V4, DEFAULT_HOST_PREFIX_V6, Evpn, EvpnInstance, MOST_SUBNETS, Network, PodSubnet,
    Transport,
};
pub use overlap::SubnetUse;
pub use problem::{Problem, Reason, sentences};
pub use vrf::{VrfClaim, VrfClash, vrf_clashes};
pub(crate) use written::check_written;
