//! Why a manager cannot begin, or an object cannot be part of a decision.

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The one error of this crate.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    /// The default network has no part for each node.
    #[error("--cluster-subnets cannot be split among nodes: {0}")]
    ClusterSubnets(causeway_alloc::Error),
    /// The object's name is not one.
    #[error(transparent)]
    Name(#[from] causeway_types::Error),
    /// A managed annotation cannot be read; nothing is decided before it can.
    #[error("{0}")]
    Annotation(String),
    /// A recording cannot be played.
    #[error(transparent)]
    Recording(causeway_record::Error),
    /// Something cannot be handed out.
    #[error(transparent)]
    Allocation(#[from] causeway_alloc::Error),
}
