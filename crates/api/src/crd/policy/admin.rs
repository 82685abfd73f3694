//! AdminNetworkPolicy and BaselineAdminNetworkPolicy, which ClusterNetworkPolicy replaces.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{IngressPeer, NamespacedPod, PolicySubject};

/// Whom the policy is about, when it is asked, and its rules.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "policy.networking.k8s.io",
    version = "v1alpha1",
    kind = "AdminNetworkPolicy",
    plural = "adminnetworkpolicies",
    shortname = "anp",
    status = "super::PolicyStatus",
    derive = "PartialEq",
    doc = "Rules of the cluster's administrator that are asked before all NetworkPolicies. New policies are better written as \
ClusterNetworkPolicy with tier Admin.",
    crates(kube_core = "::kube_core")
)]
pub struct AdminNetworkPolicySpec {
    /// From 0 to 1000; the lower number is asked first, among ClusterNetworkPolicies of tier Admin too. From 100 on a direction
    /// has at most 25 rules.
    #[schemars(range(min = 0, max = 1000))]
    pub priority: i32,
    /// The pods that the rules are about.
    pub subject: PolicySubject,
    /// What may come to the subject, in this order: the first rule that matches decides. Without a rule nothing changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub ingress: Vec<AdminIngressRule<AdminAction>>,
    /// What the subject may send, in this order: the first rule that matches decides. Without a rule nothing changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub egress: Vec<AdminEgressRule<AdminAction, AdminEgressPeer>>,
}

/// Whom the policy is about, and its rules.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "policy.networking.k8s.io",
    version = "v1alpha1",
    kind = "BaselineAdminNetworkPolicy",
    plural = "baselineadminnetworkpolicies",
    shortname = "banp",
    status = "super::PolicyStatus",
    derive = "PartialEq",
    doc = "Rules of the cluster's administrator for pods that no NetworkPolicy selects, asked after all ClusterNetworkPolicies. \
The only one is called `default`. New policies are better written as ClusterNetworkPolicy with tier Baseline.",
    crates(kube_core = "::kube_core")
)]
pub struct BaselineAdminNetworkPolicySpec {
    /// The pods that the rules are about.
    pub subject: PolicySubject,
    /// What may come to the subject, in this order: the first rule that matches decides. Without a rule nothing changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub ingress: Vec<AdminIngressRule<BaselineAction>>,
    /// What the subject may send, in this order: the first rule that matches decides. Without a rule nothing changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub egress: Vec<AdminEgressRule<BaselineAction, BaselineEgressPeer>>,
}

/// What a rule does with what it matches.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[schemars(transform = crate::crd::field_documents)]
pub enum AdminAction {
    /// Lets it through; nobody else is asked.
    Allow,
    /// Drops it; nobody else is asked.
    Deny,
    /// Leaves it to NetworkPolicies.
    Pass,
}

/// What a rule does with what it matches.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[schemars(transform = crate::crd::field_documents)]
pub enum BaselineAction {
    /// Lets it through.
    Allow,
    /// Drops it.
    Deny,
}

/// A rule about what comes in, with the actions of its kind.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct AdminIngressRule<A> {
    /// A word for people; it means nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub name: Option<String>,
    /// Allow and Deny decide; Pass, which a baseline has not, leaves it to NetworkPolicies.
    pub action: A,
    /// Who sends: any of these.
    #[schemars(length(min = 1, max = 100))]
    pub from: Vec<IngressPeer>,
    /// Which ports: any of these. Without the field everything, ICMP too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub ports: Option<Vec<AdminPort>>,
}

/// A rule about what goes out, with the actions and the peers of its kind.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct AdminEgressRule<A, P> {
    /// A word for people; it means nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub name: Option<String>,
    /// Allow and Deny decide; Pass, which a baseline has not, leaves it to NetworkPolicies.
    pub action: A,
    /// Who is spoken to: any of these.
    #[schemars(length(min = 1, max = 100))]
    pub to: Vec<P>,
    /// Which ports: any of these. Without the field everything, ICMP too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub ports: Option<Vec<AdminPort>>,
}

/// Whom the subject speaks to. Exactly one field.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdminEgressPeer {
    /// All pods of the namespaces with these labels; `{}` is every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<LabelSelector>,
    /// The pods with these labels in the namespaces with those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<NamespacedPod>,
    /// All addresses of the nodes with these labels; `{}` is every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<LabelSelector>,
    /// Addresses, in the cluster or outside of it: `0.0.0.0/0` is all pods too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 25), inner(length(max = 43)))]
    pub networks: Option<Vec<String>>,
    /// Names of hosts outside, for Allow alone. Causeway does not resolve them: such a rule allows nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 25), inner(length(max = 255)))]
    pub domain_names: Option<Vec<String>>,
}

/// Whom the subject speaks to. Exactly one field.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct BaselineEgressPeer {
    /// All pods of the namespaces with these labels; `{}` is every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<LabelSelector>,
    /// The pods with these labels in the namespaces with those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<NamespacedPod>,
    /// All addresses of the nodes with these labels; `{}` is every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<LabelSelector>,
    /// Addresses, in the cluster or outside of it: `0.0.0.0/0` is all pods too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 25), inner(length(max = 43)))]
    pub networks: Option<Vec<String>>,
}

/// A port. Exactly one field.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdminPort {
    /// One port of a protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_number: Option<AdminPortNumber>,
    /// The port that the destination's containers call so, with its protocol. Not for networks, nodes and domainNames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named_port: Option<String>,
    /// All ports of a protocol from the one to the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_range: Option<AdminPortRange>,
}

/// One port of a protocol.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct AdminPortNumber {
    /// TCP (the default), UDP or SCTP.
    #[serde(default = "tcp")]
    #[schemars(length(max = 10))]
    pub protocol: String,
    /// The port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

/// All ports of a protocol from the one to the other, both included.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct AdminPortRange {
    /// TCP (the default), UDP or SCTP.
    #[serde(default = "tcp")]
    #[schemars(length(max = 10))]
    pub protocol: String,
    /// The first port.
    #[schemars(range(min = 1, max = 65535))]
    pub start: i32,
    /// The last port.
    #[schemars(range(min = 1, max = 65535))]
    pub end: i32,
}

fn tcp() -> String {
    "TCP".into()
}
