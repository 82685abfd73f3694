//! ZoneReport: what one node says about its own zone, in one small object.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most failures that a report carries.
pub const MAX_FAILURES: usize = 50;
/// The most failures beyond these that a report names.
pub const MAX_FURTHER_FAILURES: usize = 1024;
/// The most ClusterNetworkConnects that a report names.
pub const MAX_REPORTED_CONNECTS: usize = 4096;
/// The most cluster-scoped policies that a report names.
pub const MAX_REPORTED_POLICIES: usize = 4096;

/// Written by the node of the same name, read by the cluster manager. Nothing here is configuration.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1",
    kind = "ZoneReport",
    plural = "zonereports",
    derive = "PartialEq",
    doc = "What the node of the same name has rendered into its OVN zone. Internal: written by the node, read by the \
cluster manager, which folds it into the status of networks and connections.",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct ZoneReportSpec {
    /// The rising number up to which freed network ids and tunnel keys are gone from this zone.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub epoch: i64,
    /// Numbers up to `epoch` under which something is listed that is not gone from this zone; sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub held_epochs: Vec<i64>,
    /// What the zone has rendered, for each ClusterNetworkConnect, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4096))]
    pub connects: Vec<ConnectReport>,
    /// What the zone has carried out, for each cluster-scoped policy, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4096))]
    pub policies: Vec<PolicyReport>,
    /// What the zone could not do: 50 at most, sorted. The node itself, connections and policies come first, then networks of
    /// one namespace after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub failures: Vec<ZoneFailure>,
    /// Whom failures concern for which there is no room in `failures`, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    pub further_failures: Vec<FurtherFailure>,
    /// How many failures there are in all.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub failure_count: i64,
}

/// What the zone has rendered of one ClusterNetworkConnect.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
pub struct ConnectReport {
    /// Name of the ClusterNetworkConnect.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Hash of the spec and the managed annotations that the zone has rendered.
    #[schemars(length(min = 1, max = 64))]
    pub hash: String,
}

/// What the zone has carried out of one cluster-scoped policy.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
pub struct PolicyReport {
    /// Its kind.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The UID and generation that the zone has carried out.
    #[schemars(length(min = 1, max = 64))]
    pub version: String,
}

/// What a failure is about.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[schemars(transform = super::field_documents)]
pub enum FailureSubject {
    /// A network, by its network name.
    Network,
    /// A ClusterNetworkConnect.
    ClusterNetworkConnect,
    /// A ClusterNetworkPolicy.
    ClusterNetworkPolicy,
    /// An AdminNetworkPolicy.
    AdminNetworkPolicy,
    /// The BaselineAdminNetworkPolicy.
    BaselineAdminNetworkPolicy,
    /// The node itself.
    Node,
}

/// One thing that the zone could not do.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
pub struct ZoneFailure {
    /// What the failure is about.
    pub subject: FailureSubject,
    /// The name of the subject.
    #[schemars(length(min = 1, max = 317))]
    pub name: String,
    /// One word for the kind of failure.
    #[schemars(length(min = 1, max = 64))]
    pub reason: String,
    /// What is wrong and what to do.
    #[schemars(length(max = 1024))]
    pub message: String,
}

/// Whom a failure concerns, where there is no room for more.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
pub struct FurtherFailure {
    /// What the failure is about.
    pub subject: FailureSubject,
    /// The name of the subject.
    #[schemars(length(min = 1, max = 317))]
    pub name: String,
}
