//! What is installed beside the custom resource definitions: admission policies, roles and settings.
//!
//! Owns who may do what. Never installs anything: it prints.

mod policies;
mod roles;
mod settings;

pub use policies::policies;
pub use roles::roles;
pub use settings::settings;

/// The names that an installation goes by.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Installation {
    /// The namespace of the cluster manager and the nodes.
    pub namespace: String,
    /// Users besides the nodes that report a pod's network status: another plugin that delegates to us.
    pub status_writers: Vec<String>,
}

impl Default for Installation {
    fn default() -> Self {
        Self {
            namespace: "causeway".into(),
            status_writers: vec!["system:serviceaccount:kube-system:multus".into()],
        }
    }
}

/// Service account of the cluster manager.
pub const CLUSTER_MANAGER: &str = "cluster-manager";
/// Service account of the nodes.
pub const NODE: &str = "node";
/// Group of the users `causeway-node:<node>`, for nodes that have certificates.
pub const NODE_GROUP: &str = "causeway:nodes";
/// What the user of a node with a certificate begins with.
pub const NODE_USER_PREFIX: &str = "causeway-node:";

/// ConfigMap with settings of both roles.
pub const SETTINGS: &str = "causeway";
/// ConfigMap in which the cluster manager records freed numbers, and nodes read which ones must be gone.
pub const FREED_NUMBERS: &str = "causeway-freed-numbers";
/// The ConfigMap's only key.
pub const FREED_NUMBERS_KEY: &str = "reuse";

impl Installation {
    /// What the API server calls the cluster manager: `system:serviceaccount:causeway:cluster-manager`, say.
    pub fn cluster_manager_user(&self) -> String {
        format!("system:serviceaccount:{}:{CLUSTER_MANAGER}", self.namespace)
    }

    /// The user that a node with a service account token is.
    pub fn node_user(&self) -> String {
        format!("system:serviceaccount:{}:{NODE}", self.namespace)
    }
}
