//! Ports of the node's Open vSwitch: those of pods on the integration bridge, and internal ones of the node itself.
//!
//! One task owns the only connection to the database, with the columns that anybody needs and no others. It is asked by messages
//! and waits by the database's own events, never by looking again. It makes and removes ports that carry our marks; it
//! never makes or removes a bridge, and never touches a port that is not marked. What the switch says of itself it publishes and never writes, but for which
//! bridge leads outside.

mod bridges;
mod error;
mod internal;
mod look;
mod ops;
mod task;

pub use bridges::Mapping;
pub use causeway_types::around::{BridgePort, BridgeSeen, Bridges, PortKind, SwitchFacts};
pub use error::Error;
pub use internal::PortProblem;
pub use look::PodPortSeen;
pub use ops::PodPort;
pub use task::{InternalPorts, Ovs, OvsConfig};
