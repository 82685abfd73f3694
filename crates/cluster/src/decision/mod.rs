//! `ClusterNetworkConnect`, decided: which networks each one selects, which of them can be connected, and
//! where each has its block or parcel.
//!
//! Networks are taken one after the other: first those that have a place already, then by age of the
//! connection, then by network id. Each is checked against what was taken before it, so an incumbent
//! never loses to a newcomer, and equal annotations give equal answers whatever the order of events.
//! What is left out is named with one of the eight reasons; the rest stays connected.

mod absent;
mod answer;
mod check;
mod engine;
mod input;
mod manifest;
mod ports;
mod reason;
mod select;
mod settle;
#[cfg(test)]
mod tests;

pub use absent::Absent;
pub use answer::Answer;
pub use engine::{Connections, Dirty};
pub use input::{Cluster, Connect, Namespace, Network, NodeRecord};
pub use reason::{Acceptance, LeftOut, Reason};
