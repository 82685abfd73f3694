//! The EVPN agent's brain: which tenant networks of an OVN are exposed on this node, and what the node needs for that.
//!
//! ```text
//!   Port_Binding, Chassis ─► Port, chassis ─► Southbound ─┐
//!   Open_vSwitch, bridges ─► Node ────────────────────────┴─► Agent ─► a part for each VNI ─► HostUpdate
//! ```
//! Rows are read once, at the edge, into [`Port`]. [`Agent`] keeps them, plans again the VNIs that a change concerns, and says what
//! differs. What is malformed costs only itself: it is in the status, with the reason. Nothing here looks at the world.

mod agent;
mod annotation;
mod fabric;
mod holders;
mod names;
mod node;
mod part;
mod port;
mod southbound;
mod status;

pub use agent::Agent;
pub use annotation::{Annotation, RouteTarget, Vni, Vpn};
pub use fabric::Fabric;
pub use names::{Names, distinguisher};
pub use node::Node;
pub use port::{Port, PortKind, RawPort};
pub use status::{GatewayStatus, Refused, Status, SubnetStatus, VniStatus};
pub use uuid::Uuid;
