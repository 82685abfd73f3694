//! The Kubernetes side of Causeway, without Kubernetes: custom resources, annotations, conditions and intent.

pub mod crd;
mod error;
pub mod schema;

pub use error::Error;
