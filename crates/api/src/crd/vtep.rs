//! VTEP: the ends of the tunnels by which networks meet others on the fabric.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where each node has its end of the tunnels.
#[derive(Clone, CustomResource, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1",
    kind = "VTEP",
    plural = "vteps",
    status = "VtepStatus",
    derive = "PartialEq",
    doc = "The ends of VXLAN tunnels on the nodes. Networks with transport EVPN name one.",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct VtepSpec {
    /// Ranges that have the nodes' addresses. Unmanaged: each node has exactly one IPv4 address in them, on whichever device. Ranges of
    /// different VTEPs must not overlap.
    #[schemars(length(min = 1, max = 20), inner(length(max = 43)))]
    pub cidrs: Vec<String>,
    /// Who gives nodes their addresses. Unmanaged: the administrator; the cluster finds them. Managed, which is also meant when nothing is
    /// written: the cluster, which this version does not do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<VtepMode>,
}

/// Who gives nodes their addresses.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[schemars(transform = super::field_documents)]
pub enum VtepMode {
    /// The cluster.
    Managed,
    /// The administrator.
    Unmanaged,
}

/// What became of it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct VtepStatus {
    /// Accepted: whether networks can use it, and every node has an address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
}
