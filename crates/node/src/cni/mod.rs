//! The CNI server: connects pods of this node to their networks, and disconnects them.
//!
//! ```text
//!   runtime ─► causeway-cni ─► socket ─► Server ─┬─► Pods     each pod's wiring, published by the zone's task
//!                                                ├─► Host     cables, addresses, routes
//!                                                └─► Ovs      ports; says when packets can flow
//! ```
//! It waits for what others do (addresses by the cluster manager, ports by the zone's task and ovn-controller) and says
//! whom it waited for in vain. It gives out nothing itself, writes nothing to Kubernetes, and keeps nothing that a
//! restart would lose: what it made is read back from the switch.

mod add;
mod attachment;
mod check;
mod metrics;
mod pods;
mod remove;
mod server;
mod wanted;

pub use attachment::{MAX_LINK_NAME, PRIMARY_INTERFACE, host_link_name};
pub use metrics::CniMetrics;
pub use pods::Pods;
pub use server::{CniConfig, CniServer};
