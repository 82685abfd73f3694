//! Writes as values: which object, which part of it, what is done, and how that ended.

use std::fmt;

use kube_core::ApiResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Which writes go first.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Priority {
    /// Pods wait for these.
    Pod,
    /// Pods wait for these in the end: numbers, nodes, attachments.
    Network,
    /// Only people wait for these.
    Status,
}

/// The object that a write is about.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Target {
    /// Gives the API group and the plural, by [`Kind::resource`].
    pub kind: Kind,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// `metadata.name` of the object.
    pub name: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = self.kind.resource().plural;
        match &self.namespace {
            Some(namespace) => write!(f, "{plural} {namespace}/{}", self.name),
            None => write!(f, "{plural} {}", self.name),
        }
    }
}

/// The kinds that are written.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[allow(missing_docs, reason = "they are called like their kinds")]
pub enum Kind {
    Pod,
    Node,
    NetworkAttachmentDefinition,
    UserDefinedNetwork,
    ClusterUserDefinedNetwork,
    ClusterNetworkConnect,
    ZoneReport,
    Vtep,
    ConfigMap,
    EndpointSlice,
    ClusterNetworkPolicy,
    AdminNetworkPolicy,
    BaselineAdminNetworkPolicy,
}

impl Kind {
    /// The group, version and plural of the kind.
    pub fn resource(self) -> ApiResource {
        use causeway_api::crd;
        use k8s_openapi::api::core::v1;
        use k8s_openapi::api::discovery::v1 as discovery;
        match self {
            Self::Pod => ApiResource::erase::<v1::Pod>(&()),
            Self::Node => ApiResource::erase::<v1::Node>(&()),
            Self::ConfigMap => ApiResource::erase::<v1::ConfigMap>(&()),
            Self::EndpointSlice => ApiResource::erase::<discovery::EndpointSlice>(&()),
            Self::NetworkAttachmentDefinition => ApiResource::erase::<crd::NetworkAttachmentDefinition>(&()),
            Self::UserDefinedNetwork => ApiResource::erase::<crd::UserDefinedNetwork>(&()),
            Self::ClusterUserDefinedNetwork => ApiResource::erase::<crd::ClusterUserDefinedNetwork>(&()),
            Self::ClusterNetworkConnect => ApiResource::erase::<crd::ClusterNetworkConnect>(&()),
            Self::ZoneReport => ApiResource::erase::<crd::ZoneReport>(&()),
            Self::Vtep => ApiResource::erase::<crd::VTEP>(&()),
            Self::ClusterNetworkPolicy => ApiResource::erase::<crd::policy::ClusterNetworkPolicy>(&()),
            Self::AdminNetworkPolicy => ApiResource::erase::<crd::policy::AdminNetworkPolicy>(&()),
            Self::BaselineAdminNetworkPolicy => {
                ApiResource::erase::<crd::policy::BaselineAdminNetworkPolicy>(&())
            }
        }
    }

    /// `apiVersion` and `kind`, as manifests have them.
    pub fn api_version_and_kind(self) -> (String, String) {
        let resource = self.resource();
        (resource.api_version, resource.kind)
    }
}

/// Which part of an object a write is about. A later write of the same part replaces one that waits.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The annotations that a role manages.
    Annotations,
    /// The data of a ConfigMap.
    Data,
    /// Whether the object is there at all.
    Deletion,
    /// Our finalizer.
    Finalizer,
    /// The networks of a pod.
    Networks,
    /// The object as a whole: it is made, repaired or deleted.
    Object,
    /// The report of a zone.
    Report,
    /// Fields of its subresource `status`.
    Status,
}

impl Part {
    /// The first in order, for looking through all parts of an object.
    pub const FIRST: Self = Self::Annotations;
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Annotations => "annotations",
            Self::Data => "data",
            Self::Deletion => "deletion",
            Self::Finalizer => "finalizer",
            Self::Networks => "networks",
            Self::Object => "object",
            Self::Report => "report",
            Self::Status => "status",
        })
    }
}

/// What is done to the object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Action {
    /// Merge this into the object, or into one of its subresources.
    Merge {
        /// `status`, or none for the object itself.
        subresource: Option<&'static str>,
        /// What is merged. With `metadata.uid` only into that very object.
        body: Value,
    },
    /// Apply this, with all fields that it names becoming ours.
    Apply {
        /// `status`, or none for the object itself.
        subresource: Option<&'static str>,
        /// Who applies.
        manager: &'static str,
        /// What is applied, with `apiVersion`, `kind` and `metadata.name`.
        body: Value,
    },
    /// Create the object.
    Create(Value),
    /// Delete the object, if it is this very one.
    Delete {
        /// Its UID.
        uid: String,
    },
}

/// One write.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Request {
    /// The object.
    pub target: Target,
    /// Which part of the object it writes.
    pub part: Part,
    /// When it goes.
    pub priority: Priority,
    /// What it does.
    pub action: Action,
    /// Returned with the outcome.
    pub token: u64,
}

/// How one attempt of a write ended.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Outcome {
    /// The object.
    pub target: Target,
    /// Which part of it.
    pub part: Part,
    /// The token of the request.
    pub token: u64,
    /// How it ended.
    pub result: Ended,
}

/// How one attempt of a write ended.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Ended {
    /// It is written.
    Done,
    /// There is no such object. It is not tried again.
    NotFound,
    /// Somebody was faster, or the object is another one of the same name. It is not tried again.
    Conflict(String),
    /// Something else is wrong. It is tried again, later and later.
    Failed(String),
}
