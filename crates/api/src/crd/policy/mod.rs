//! Cluster-scoped network policies, as the network policy API of Kubernetes publishes them: ClusterNetworkPolicy, and
//! AdminNetworkPolicy with BaselineAdminNetworkPolicy, which came before it.
//!
//! Field names and bounds are the published ones, so that manifests which people own work. A field that a newer definition
//! has and these types have not is not kept: whoever reads a peer without any field refuses to guess ([`crate::policy`]).

mod admin;
mod cluster;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use admin::{
    AdminAction, AdminEgressPeer, AdminEgressRule, AdminIngressRule, AdminNetworkPolicy,
    AdminNetworkPolicySpec, AdminPort, AdminPortNumber, AdminPortRange, BaselineAction,
    BaselineAdminNetworkPolicy, BaselineAdminNetworkPolicySpec, BaselineEgressPeer,
};
pub use cluster::{
    ClusterAction, ClusterEgressPeer, ClusterEgressRule, ClusterIngressRule, ClusterNetworkPolicy,
    ClusterNetworkPolicySpec, ClusterTier, DestinationPort, DestinationPorts, PortSpan, ProtocolMatch,
};

/// The API group of cluster-scoped network policies.
pub const POLICY_GROUP: &str = "policy.networking.k8s.io";

/// What every kind of them reports.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PolicyStatus {
    /// Accepted: whether the policy can be carried out as it is written, or why not. Ready: whether every node does it.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// Whom a policy is about. Exactly one field. Pods on the host's network are never meant.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PolicySubject {
    /// All pods of the namespaces with these labels; `{}` is every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<LabelSelector>,
    /// The pods with these labels in the namespaces with those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<NamespacedPod>,
}

/// Who speaks to the subject. Exactly one field. Pods on the host's network are never meant.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct IngressPeer {
    /// All pods of the namespaces with these labels; `{}` is every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<LabelSelector>,
    /// The pods with these labels in the namespaces with those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<NamespacedPod>,
}

/// Pods by their own labels and by those of their namespace.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespacedPod {
    /// The labels of the namespaces; `{}`, or nothing, is every namespace.
    #[serde(default)]
    pub namespace_selector: LabelSelector,
    /// The labels of the pods; `{}` is every pod.
    pub pod_selector: LabelSelector,
}
