//! What every role needs of Kubernetes: a client, watches, a queue of writes, a lease, events, metrics, and the
//! flags that describe the cluster.
//!
//! Owns the sockets and the clock. Never decides anything: what comes in leaves as messages, what is to be
//! written comes as messages, and whoever decides stays a pure function between the two.

mod client;
mod error;
mod events;
mod flags;
mod lease;
mod metrics;
pub mod watch;
pub mod write;

pub use client::client;
pub use error::Error;
pub use events::Recorder;
pub use flags::ClusterFlags;
pub use lease::{Lease, LeaseSpec, Verdict, evaluate};
pub use metrics::{Health, serve};
