//! UserDefinedNetwork: a tenant's own network, for one namespace.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FlatNetwork, Layer2, Layer3, NetworkStatus, Topology};

/// The network that the namespace asks for, in one of two forms. With blocks: `topology` and the block of that
/// topology (`layer2` or `layer3`). Flat: `topology`, `role` and the other settings side by side.
/// The form cannot be changed later, nor can anything written flat.
#[derive(Clone, CustomResource, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1",
    kind = "UserDefinedNetwork",
    plural = "userdefinednetworks",
    shortname = "udn",
    namespaced,
    status = "NetworkStatus",
    derive = "PartialEq",
    doc = "A network of its own for the pods of one namespace, isolated from all other networks.",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct UserDefinedNetworkSpec {
    /// Layer3: one subnet for each node, routed. Layer2: one subnet for the whole cluster. Localnet (flat
    /// form only, always Secondary): a network outside of the cluster. Immutable.
    pub topology: Topology,
    /// Settings of topology Layer3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer3: Option<Layer3>,
    /// Settings of topology Layer2. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer2: Option<Layer2>,
    /// The flat form's settings.
    #[serde(flatten)]
    pub flat: FlatNetwork,
}
