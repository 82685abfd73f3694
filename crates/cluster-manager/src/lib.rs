//! The cluster manager with sockets: lease, watches, queue of writes, events, metrics. What it decides is
//! `causeway-cluster`'s.

mod error;
mod flags;
mod metrics;
mod run;

pub use causeway_cluster::Config;
pub use error::Error;
pub use flags::Flags;
pub use run::{Options, run};
