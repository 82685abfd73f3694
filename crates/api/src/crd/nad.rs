//! NetworkAttachmentDefinition and IPAMClaim, which other network plugins use too.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The configuration that the network plugin is given.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "k8s.cni.cncf.io",
    version = "v1",
    kind = "NetworkAttachmentDefinition",
    plural = "network-attachment-definitions",
    singular = "network-attachment-definition",
    shortname = "net-attach-def",
    namespaced,
    derive = "PartialEq",
    derive = "Default",
    doc = "A network that pods of the namespace can be attached to.",
    crates(kube_core = "::kube_core")
)]
pub struct NetworkAttachmentDefinitionSpec {
    /// The CNI configuration, as JSON: one plugin, or a list of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}

/// What the addresses are claimed for.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "k8s.cni.cncf.io",
    version = "v1alpha1",
    kind = "IPAMClaim",
    root = "IpamClaim",
    plural = "ipamclaims",
    namespaced,
    status = "IpamClaimStatus",
    derive = "PartialEq",
    doc = "Addresses that a workload keeps while its pods come and go.",
    crates(kube_core = "::kube_core")
)]
pub struct IpamClaimSpec {
    /// The network name that the addresses belong to.
    pub network: String,
    /// The pod interface that has the addresses.
    pub interface: String,
}

/// The claimed addresses.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct IpamClaimStatus {
    /// The addresses with their prefix lengths, at most one of each IP family.
    #[serde(default)]
    pub ips: Vec<String>,
    /// The pod that uses the addresses now.
    #[serde(default, rename = "ownerPod", skip_serializing_if = "Option::is_none")]
    pub owner_pod: Option<OwnerPod>,
    /// Whether addresses could be claimed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A pod by name.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct OwnerPod {
    /// Name of the pod, in the claim's own namespace.
    pub name: String,
}
