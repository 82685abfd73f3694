//! The node role: one task that owns the zone's model and brings what follows from it to the databases and the host.
//!
//! ```text
//!   watches ─► Zone ─┬─► Northbound ─► applier ─► northbound database
//!                    ├─► Southbound ─► applier ─► southbound database
//!                    ├─► HostPlan   ─► host task ─► kernel, Open vSwitch ports
//!                    ├─► CNI server: pods, networks
//!                    ├─► (connections that run already) ─► the switch's memory
//!   kernel, switch ─►├─► own Node's annotations, ZoneReport
//!                    ├─► (ports of the bridge to the outside) ─► Zone
//!   /proc, cgroups ─►└─► (the kubelet, pods in the node's own network) ─► Zone
//! ```
//! Nothing is written anywhere before every watched kind has listed once. A watch that breaks later keeps what is
//! known: old is better than half.

mod cgroups;
mod endings;
mod flags;
mod gateway_flags;
mod host;
mod isolation_flags;
mod local_endpoints;
mod messages;
mod metrics;
#[cfg(test)]
mod on_a_switch;
mod outside;
mod processes;
mod run;
mod status;
mod wiring;

pub use flags::NodeFlags;
pub use run::run;
