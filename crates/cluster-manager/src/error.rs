//! The one error of this crate.

/// Why a cluster manager does not run.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum Error {
    #[error(transparent)]
    Cluster(#[from] causeway_cluster::Error),
    #[error(transparent)]
    Runtime(#[from] causeway_runtime::Error),
    #[error("{0}")]
    Flags(String),
    #[error("leadership is lost: {0}")]
    LeadershipLost(String),
    #[error("the step has failed, which is a bug: {0}")]
    Step(String),
    #[error(
        "the ConfigMap {name} cannot be read: {problem}; repair it, numbers that it lists must not be given out"
    )]
    FreedNumbers { name: String, problem: String },
}
