//! Events of Kubernetes as values: what is said about which object.

use serde::{Deserialize, Serialize};

/// The object that an event is about.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Regarding {
    /// Group and version, such as `k8s.ovn.org/v1`.
    pub api_version: String,
    /// As manifests write it, such as `ClusterUserDefinedNetwork`.
    pub kind: String,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// `metadata.name` of the object.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// What an event says.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct EventNote {
    /// About what.
    pub regarding: Regarding,
    /// Whether somebody should look.
    pub warning: bool,
    /// In one word.
    pub reason: String,
    /// In a sentence.
    pub message: String,
}
