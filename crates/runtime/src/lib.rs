//! What every role needs of Kubernetes: a client, watches, a queue of writes, a lease, events, metrics, the flags that
//! describe the cluster, and a parent for everything that runs beside the role.
//!
//! Owns the sockets and the clock. Never decides anything: what comes in leaves as messages, what is to be
//! written comes as messages, and whoever decides stays a pure function between the two.

mod client;
mod error;
mod events;
#[cfg(test)]
mod fake;
mod flags;
mod health;
mod lease;
mod metrics;
pub mod pages;
mod permit;
mod process;
mod recording;
mod room;
mod tasks;
pub mod watch;
pub mod write;

pub use client::client;
pub use error::Error;
pub use events::Recorder;
pub use flags::{ClusterFlags, read_time};
pub use health::Health;
pub use lease::{Lease, Times};
pub use metrics::serve;
pub use permit::Permit;
pub use process::describe;
pub use recording::Recording;
pub use tasks::Tasks;
