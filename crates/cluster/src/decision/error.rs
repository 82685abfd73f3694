//! Why an object cannot be part of the decision.

use causeway_api::intent::{Problem, sentences};

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an object was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The object's name is not one.
    #[error(transparent)]
    Name(#[from] causeway_types::Error),
    /// The spec breaks rules that the API server should have checked.
    #[error("the spec is not valid: {}", sentences(.0))]
    Spec(Vec<Problem>),
    /// A managed annotation cannot be read; nothing is decided before it can.
    #[error(transparent)]
    Annotation(#[from] causeway_api::Error),
    /// Something cannot be handed out.
    #[error(transparent)]
    Allocation(#[from] causeway_alloc::Error),
}
