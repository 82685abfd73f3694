//! The Kubernetes side of Causeway, without Kubernetes: custom resources, annotations, conditions and intent.

pub mod annotations;
pub mod conditions;
pub mod crd;
mod error;
pub mod install;
pub mod intent;
pub mod nad;
pub mod policy;
pub mod print;
pub mod schema;
pub mod selector;
pub mod service;

pub use error::Error;
