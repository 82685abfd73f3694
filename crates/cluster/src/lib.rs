//! The cluster manager's brain: network ids, node ids, tunnel keys, pod addresses, attachments of user-defined networks,
//! connections between them, mirrors of EndpointSlices, and the status of networks and connections.
//!
//! [`Manager`] is a value: [`Manager::step`] takes one message and answers with what is to be written. It never waits,
//! never reads a clock and never forgets a number that somebody may still use. Sockets are `causeway-cluster-manager`'s.

mod attachments;
mod beside;
mod claims;
mod config;
mod connections;
pub mod decision;
mod desk;
mod dirty;
mod error;
mod gate;
mod input;
mod keys;
mod manager;
mod mirrors;
mod namespaces;
mod networks;
mod nodes;
mod numbers;
mod owners;
mod pods;
mod policies;
mod replay;
mod trouble;
mod vteps;
mod writes;
mod zone_reports;

pub use config::{Config, Features};
pub use error::{Error, Result};
pub use input::{Input, Output};
pub use keys::OwnerKey;
pub use manager::{Counts, Manager};
pub use pods::AddressUse;
pub use replay::{Answer, ROLE, replay};
