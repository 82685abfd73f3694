//! Plans: from the model to OVN rows and host configuration.

pub mod host;
