//! The index: what exists, what is selected, what became dirty.
//!
//! The model is a value that watch events change. It answers what follows from them; it never reads the
//! world and never writes to it. Annotations come in with the events and go out as answers.

pub mod connect;
mod error;
pub mod record;
pub mod zone;

pub use error::{Error, Result};
