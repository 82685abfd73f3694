//! The EVPN agent: one task that follows a southbound database and the node's switch, and brings what follows from them to the kernel,
//! the switch and FRR. What is to be there is decided in `causeway-evpn`.
//!
//! ```text
//!   southbound database ─► rows ─┐
//!   Open vSwitch ─► switch ──────┼─► Agent ─► HostUpdate ─► host ─► ports, kernel, flows, FRR
//!   addresses of the node ───────┘                          ▲
//!   events of the kernel, ends of switch and FRR ───────────┘
//! ```
//! Nothing is written before both databases were read whole. A database that is out of reach keeps what is known: old is better than half.

mod flags;
mod host;
mod metrics;
mod once;
mod outputs;
mod rows;
mod run;
mod switch;
mod vtep;

pub use flags::EvpnFlags;
pub use once::{Fabric, Report, dry_run, status, withdraw};
pub use run::run;
