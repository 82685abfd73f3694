//! NetworkAttachmentDefinitions: how a network is written for the network plugin, and read back.
//!
//! Owns the CNI configuration and the NAD around it. Never decides which of two networks stays; it says what a NAD is
//! and whose.

mod config;
mod read;
mod render;

pub use config::{CNI_TYPE, CniConfig};
pub use read::{Attachment, claims_primary, impersonation, read, same_network};
pub use render::{Owner, OwnerKind, Standing, render, standing};
