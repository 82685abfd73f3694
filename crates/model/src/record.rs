//! Kubernetes objects as they come in: trimmed to what somebody reads, and serialisable.
//!
//! Annotations stay texts here, and only those that have a key in [`causeway_api::annotations::keys`] are kept:
//! whoever needs one parses it, and a text that cannot be read is a problem of one object, never of the stream.

use std::collections::BTreeMap;
use std::fmt;

use causeway_api::annotations::Annotation;
use causeway_types::{NamespaceName, NodeName};
use serde::{Deserialize, Serialize};

/// Texts by key.
pub type Texts = BTreeMap<String, String>;

/// `namespace/name` of an object in a namespace.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct ObjectKey {
    /// The namespace.
    pub namespace: NamespaceName,
    /// The name.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A node.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Node {
    /// Its name.
    pub name: NodeName,
    /// Its UID.
    pub uid: String,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Annotations that Causeway reads.
    pub annotations: Texts,
    /// Whether its kubelet is heard of: the condition `Ready` is not `Unknown`.
    pub live: bool,
}

/// A namespace.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Namespace {
    /// Its name.
    pub name: NamespaceName,
    /// All its labels: selectors look at any of them.
    pub labels: Texts,
    /// Whether it is going.
    pub deleting: bool,
}

/// A pod.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Pod {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: String,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Where it was scheduled to.
    pub node: Option<NodeName>,
    /// Whether it uses the node's own network.
    pub host_network: bool,
    /// Whether it has ended for good: `Succeeded` or `Failed`.
    pub finished: bool,
    /// Whether it is going.
    pub deleting: bool,
    /// Annotations that Causeway reads.
    pub annotations: Texts,
}

/// A network attachment definition.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Nad {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: String,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Whether it is going.
    pub deleting: bool,
    /// Its labels.
    pub labels: Texts,
    /// All its annotations: those of a network are copied from the network's object.
    pub annotations: Texts,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// Who controls it, if anybody.
    pub controller: Option<Controller>,
    /// `spec.config`, as it is written.
    pub config: String,
}

/// The controlling owner of an object.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Controller {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// The value of an annotation, if it is there.
///
/// # Errors
/// What is wrong with its text.
pub fn annotation<A: Annotation>(texts: &Texts) -> Result<Option<A>, causeway_api::Error> {
    texts.get(A::KEY).map(|text| A::parse(text)).transpose()
}
