//! Ports of the node's Open vSwitch: those of pods on the integration bridge, and internal ones of the node itself.
//!
//! One task owns the connection to the database, with the columns that it needs and no others. It is asked by messages
//! and waits by the database's own events, never by looking again. It makes and removes ports that carry our marks; it
//! never makes or removes a bridge, and never touches a port that is not marked.

mod error;
mod look;
mod ops;
mod task;

pub use error::Error;
pub use look::PodPortSeen;
pub use ops::{InternalPort, PodPort};
pub use task::{Ovs, OvsConfig};

use causeway_plan::host::HostPlan;
use std::collections::BTreeMap;

/// The internal ports that a plan of the host asks for, by device name.
pub fn internal_ports(plan: &HostPlan) -> BTreeMap<String, InternalPort> {
    let port = |(name, link): (&String, &causeway_plan::host::HostLink)| {
        let ovs = link.ovs.clone()?;
        Some((name.clone(), InternalPort { mac: link.mac, mtu: link.mtu, ovs }))
    };
    plan.links.iter().filter_map(port).collect()
}
