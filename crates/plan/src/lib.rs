//! Plans: from the model to OVN rows and host configuration.
//!
//! Pure functions of a [`Zone`](causeway_zone::Zone). One module for each feature; [`Northbound`] and
//! [`Southbound`] put them together as planners of the two databases. Nothing here looks at what a database has.

mod balancer;
mod common;
mod connect;
mod gateway;
pub mod host;
mod interconnect;
mod isolation;
mod layer2;
mod layer3;
mod northbound;
mod pods;
mod row;
mod scope;
mod services;
mod southbound;

pub use connect::{OwnPort, own_ports};
pub use northbound::Northbound;
pub use southbound::Southbound;
