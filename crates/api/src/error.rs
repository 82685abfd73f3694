//! What can go wrong in this crate.

/// An error of this crate.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    /// The custom resource definitions contradict themselves: a mistake in this crate.
    #[error("the custom resource definitions are inconsistent: {0}")]
    Schema(String),
    /// An annotation does not say what it should.
    #[error("annotation {key} is malformed: {problem}")]
    Annotation {
        /// The annotation's key.
        key: &'static str,
        /// What is wrong with its text.
        problem: String,
    },
    /// A manifest is not an object that we know.
    #[error("the manifest cannot be read: {0}")]
    Manifest(String),
}
