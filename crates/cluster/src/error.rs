//! Why a manager cannot begin.

/// The one error of this crate.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum Error {
    #[error("--cluster-subnets cannot be split among nodes: {0}")]
    ClusterSubnets(causeway_alloc::Error),
}
