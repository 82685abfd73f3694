//! What a node says of itself on its own Node, and its way out: devices, switch and flags in, annotations or what is missing out.

pub mod annotations;
pub mod gateway;
mod underlay;

pub use underlay::Underlay;
