//! The one error of this crate.

/// Why a role cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum Error {
    #[error("the kubeconfig {path} cannot be used: {problem}")]
    Kubeconfig { path: String, problem: String },
    #[error("no kubeconfig was given, and this is not inside of a cluster: {0}; write --kubeconfig")]
    InCluster(String),
    #[error("the Kubernetes client cannot be made: {0}")]
    Client(String),
    #[error("the address {address} for metrics cannot be used: {problem}")]
    Listen { address: String, problem: std::io::Error },
    #[error("{} cannot be recorded to: {error}", path.display())]
    Recording { path: std::path::PathBuf, error: std::io::Error },
    #[error("{0}")]
    Flags(String),
    #[error("the task {task} has ended: {reason}")]
    Ended { task: String, reason: String },
}
