//! The node role: makes the databases of its zone what the plan says.

mod applier;

pub use applier::{Applier, ApplierConfig};
