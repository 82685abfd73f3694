//! The node role: makes the databases of its zone what the plan says.

mod applier;
pub mod cni;
pub mod evpn;
mod held;
mod kernel_events;
pub mod ovs;
pub mod role;

pub use applier::{Applier, ApplierConfig};
