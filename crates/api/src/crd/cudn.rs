//! ClusterUserDefinedNetwork: an administrator's network, shared by the namespaces it selects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FlatNetwork, Ipam, Layer2, Layer3, NetworkStatus, Topology};

/// The network and the namespaces that share it. The network is written either as `network` (topology and the
/// block of that topology) or as `template` (the flat form of UserDefinedNetwork). Exactly one of the two.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1",
    kind = "ClusterUserDefinedNetwork",
    plural = "clusteruserdefinednetworks",
    shortname = "cudn",
    status = "NetworkStatus",
    derive = "PartialEq",
    doc = "A network shared by the pods of all selected namespaces, isolated from all other networks.",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterUserDefinedNetworkSpec {
    /// Which namespaces the network is for. `{}` selects every namespace. A namespace that is selected for a
    /// Primary network must have been created with the label `k8s.ovn.org/primary-user-defined-network`.
    /// `kubernetes.io/metadata.name` selects namespaces by name and cannot be forged.
    pub namespace_selector: LabelSelector,
    /// The network, written as topology and the block of that topology. Only layer3.subnets can change later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<ClusterNetwork>,
    /// The network, written flat, either directly or below `spec`. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<NetworkTemplate>,
    /// Name of the VRF device that serves the network on each node, shorter than 16 characters and unique in
    /// the cluster. Default: the name of this object if it is short enough, otherwise `udn-<network id>-vrf`.
    /// Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 15))]
    pub vrf: Option<String>,
    /// The uplink through which the network leaves the node. For Primary Layer2 and Layer3 networks. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 1),
        inner(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))
    )]
    pub uplinks: Option<Vec<String>>,
}

/// A network written as its topology and the block of that topology.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetwork {
    /// Layer3: one subnet for each node, routed. Layer2: one subnet for the whole cluster. Localnet: a network
    /// outside of the cluster. Immutable.
    pub topology: Topology,
    /// Settings of topology Layer3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer3: Option<Layer3>,
    /// Settings of topology Layer2. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer2: Option<Layer2>,
    /// Settings of topology Localnet. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub localnet: Option<Localnet>,
    /// How packets travel between nodes: through tunnels when left out, by the fabric's own routes with
    /// NoOverlay, by EVPN with EVPN. Primary networks only. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// Settings of transport NoOverlay. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_overlay: Option<NoOverlay>,
    /// Settings of transport EVPN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evpn: Option<Evpn>,
}

/// The flat form of a network, directly or below `spec`.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkTemplate {
    /// Layer3: one subnet for each node, routed. Layer2: one subnet for the whole cluster. Localnet: a network
    /// outside of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// The flat form's settings.
    #[serde(flatten)]
    pub flat: FlatNetwork,
    /// The same settings one level deeper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<TemplateSpec>,
}

/// The flat form of a network.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateSpec {
    /// Layer3: one subnet for each node, routed. Layer2: one subnet for the whole cluster. Localnet: a network
    /// outside of the cluster.
    pub topology: Topology,
    /// The flat form's settings.
    #[serde(flatten)]
    pub flat: FlatNetwork,
}

/// A localnet network is never Primary.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[schemars(transform = super::field_documents)]
pub enum LocalnetRole {
    /// An additional interface, asked for by the pod.
    Secondary,
}

/// A network that already exists outside of the cluster.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Localnet {
    /// Always Secondary: a localnet network is an additional interface.
    pub role: LocalnetRole,
    /// The name that the nodes' bridge mappings give to the physical network.
    #[schemars(length(min = 1, max = 253))]
    pub physical_network_name: String,
    /// The pod subnets, at most one of each IP family. Required unless ipam.mode is Disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2), inner(length(max = 43)))]
    pub subnets: Option<Vec<String>>,
    /// Parts of the subnets that are never given to a pod, such as the addresses of routers outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 25), inner(length(max = 43)))]
    pub exclude_subnets: Option<Vec<String>>,
    /// How addresses are managed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipam: Option<Ipam>,
    /// Maximum transmission unit; 1500 when left out. At least 1280 with an IPv6 subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 576, max = 65535))]
    pub mtu: Option<u32>,
    /// The VLAN of the physical network; untagged when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<Vlan>,
}

/// How frames are tagged.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[schemars(transform = super::field_documents)]
pub enum VlanMode {
    /// All frames of the network carry one tag on the wire.
    Access,
}

/// The VLAN of a localnet network.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Vlan {
    /// Access: all frames of the network carry one tag on the wire.
    pub mode: VlanMode,
    /// Settings of mode Access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<VlanAccess>,
}

/// The VLAN tag.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct VlanAccess {
    /// The tag, 1 to 4094.
    #[schemars(range(min = 1, max = 4094))]
    pub id: u16,
}

/// How packets travel between nodes.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[schemars(transform = super::field_documents)]
pub enum Transport {
    /// The fabric routes pod addresses itself; no tunnels.
    NoOverlay,
    /// EVPN carries the network over the fabric.
    #[serde(rename = "EVPN")]
    Evpn,
}

/// Whether pods leave with their own or with the node's address.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[schemars(transform = super::field_documents)]
pub enum OutboundSnat {
    /// Traffic that leaves the network gets the node's address.
    Enabled,
    /// Traffic leaves with the pod's own address.
    Disabled,
}

/// Who configures the routes of the fabric.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[schemars(transform = super::field_documents)]
pub enum NoOverlayRouting {
    /// The cluster configures the routing daemons.
    Managed,
    /// The administrator does.
    Unmanaged,
}

/// Settings of transport NoOverlay.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct NoOverlay {
    /// Enabled: traffic that leaves the network gets the node's address. Disabled: the pod's own.
    #[serde(rename = "outboundSNAT")]
    pub outbound_snat: OutboundSnat,
    /// Managed: the cluster configures the routing daemons. Unmanaged: the administrator does.
    pub routing: NoOverlayRouting,
}

/// Settings of transport EVPN.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Evpn {
    /// Name of the tunnel end points that carry the network.
    #[schemars(length(min = 1, max = 253))]
    pub vtep: String,
    /// The layer-2 instance, for topology Layer2.
    #[serde(default, rename = "macVRF", skip_serializing_if = "Option::is_none")]
    pub mac_vrf: Option<EvpnVrf>,
    /// The layer-3 instance: required for topology Layer3, possible for Layer2.
    #[serde(default, rename = "ipVRF", skip_serializing_if = "Option::is_none")]
    pub ip_vrf: Option<EvpnVrf>,
}

/// One EVPN instance.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvpnVrf {
    /// The VXLAN network identifier, unique in the fabric.
    #[schemars(range(min = 1, max = 16_777_215))]
    pub vni: u32,
    /// The route target, `<AS number>:<number>` or `<IPv4 address>:<number>`; `*` stands for any AS number.
    /// Default: derived from the AS number and the VNI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 21))]
    pub route_target: Option<String>,
}
