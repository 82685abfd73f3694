//! Row types of the three databases.

pub mod nb;
pub mod sb;
pub mod vswitch;
