//! What can go wrong in this crate.

/// An error of this crate.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    /// The custom resource definitions contradict themselves: a mistake in this crate.
    #[error("the custom resource definitions are inconsistent: {0}")]
    Schema(String),
}
