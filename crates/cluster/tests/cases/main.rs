//! The cases of the catalogue for the cluster manager, by their ids: what users do, and what they then find in the
//! cluster.

#![allow(clippy::unwrap_used, reason = "a helper of a test may stop it")]

mod attachments;
mod claims;
mod connect_history;
mod connect_numbers;
mod connect_status;
mod connects;
mod connects_off;
mod corners;
mod fabric;
mod hostile;
mod lifecycle;
mod mirror_history;
mod mirrors;
mod numbers;
mod pods;
mod policies;
mod replay;
mod restart;
mod room;
mod siblings;
mod status;
mod tenants;
mod world;
