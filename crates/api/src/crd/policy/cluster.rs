//! ClusterNetworkPolicy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{IngressPeer, NamespacedPod, PolicySubject};

/// Whom the policy is about, when it is asked, and its rules.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "policy.networking.k8s.io",
    version = "v1alpha2",
    kind = "ClusterNetworkPolicy",
    plural = "clusternetworkpolicies",
    shortname = "cnp",
    status = "super::PolicyStatus",
    derive = "PartialEq",
    doc = "Rules of the cluster's administrator about who may talk to whom: before all NetworkPolicies (tier Admin), or for \
pods that no NetworkPolicy selects (tier Baseline).",
    crates(kube_core = "::kube_core")
)]
pub struct ClusterNetworkPolicySpec {
    /// Admin: asked before NetworkPolicies, which cannot overrule it. Baseline: asked for pods that no NetworkPolicy selects in
    /// that direction. What no tier decides is allowed.
    pub tier: ClusterTier,
    /// From 0 to 1000 within the tier; the lower number is asked first. Of two policies with one number either may be first.
    #[schemars(range(min = 0, max = 1000))]
    pub priority: i32,
    /// The pods that the rules are about.
    pub subject: PolicySubject,
    /// What may come to the subject, in this order: the first rule that matches decides. Without a rule nothing changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 25))]
    pub ingress: Vec<ClusterIngressRule>,
    /// What the subject may send, in this order: the first rule that matches decides. Without a rule nothing changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 25))]
    pub egress: Vec<ClusterEgressRule>,
}

/// When a policy is asked.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[schemars(transform = crate::crd::field_documents)]
pub enum ClusterTier {
    /// Before NetworkPolicies.
    Admin,
    /// After NetworkPolicies.
    Baseline,
}

/// What a rule does with what it matches.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[schemars(transform = crate::crd::field_documents)]
pub enum ClusterAction {
    /// Lets it through; nobody else is asked.
    Accept,
    /// Drops it; nobody else is asked.
    Deny,
    /// Leaves the tier: the next one is asked.
    Pass,
}

/// A rule about what comes in.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ClusterIngressRule {
    /// A word for people; it means nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub name: Option<String>,
    /// Accept and Deny decide; Pass leaves it to the next tier.
    pub action: ClusterAction,
    /// Who sends: any of these.
    #[schemars(length(min = 1, max = 25))]
    pub from: Vec<IngressPeer>,
    /// Which protocols and ports: any of these. Without the field everything, ICMP too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 25))]
    pub protocols: Option<Vec<ProtocolMatch>>,
}

/// A rule about what goes out.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ClusterEgressRule {
    /// A word for people; it means nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub name: Option<String>,
    /// Accept and Deny decide; Pass leaves it to the next tier.
    pub action: ClusterAction,
    /// Who is spoken to: any of these.
    #[schemars(length(min = 1, max = 25))]
    pub to: Vec<ClusterEgressPeer>,
    /// Which protocols and ports: any of these. Without the field everything, ICMP too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 25))]
    pub protocols: Option<Vec<ProtocolMatch>>,
}

/// Whom the subject speaks to. Exactly one field.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterEgressPeer {
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
    /// Names of hosts outside, for Accept alone. Causeway does not resolve them: such a rule accepts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 25), inner(length(max = 255)))]
    pub domain_names: Option<Vec<String>>,
}

/// A protocol with its ports, or a named port. Exactly one field.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProtocolMatch {
    /// TCP to these ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<DestinationPorts>,
    /// UDP to these ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<DestinationPorts>,
    /// SCTP to these ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sctp: Option<DestinationPorts>,
    /// The port that the destination's containers call so, with its protocol. Not for networks, nodes and domainNames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_named_port: Option<String>,
}

/// What of a protocol is meant.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DestinationPorts {
    /// The port, or the range of ports, that is spoken to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<DestinationPort>,
}

/// One port or a range. Exactly one field.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DestinationPort {
    /// One port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub number: Option<i32>,
    /// All ports from the one to the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<PortSpan>,
}

/// All ports from the one to the other, both included.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PortSpan {
    /// The first port.
    #[schemars(range(min = 1, max = 65535))]
    pub start: i32,
    /// The last port, after the first.
    #[schemars(range(min = 1, max = 65535))]
    pub end: i32,
}
