//! ClusterNetworkConnect: the road between networks.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Topology;

/// Which networks are connected, for what, and with which addresses between them. What is connected is written
/// as `connectivityEnabled` or as `connectivity`. Exactly one of the two.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1",
    kind = "ClusterNetworkConnect",
    plural = "clusternetworkconnects",
    shortname = "cnc",
    status = "ClusterNetworkConnectStatus",
    derive = "PartialEq",
    doc = "Connects primary networks of user-defined networks with each other: their pods, their services, or both. \
Connections go both ways and are not passed on: a network connected to two others does not connect those two.",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetworkConnectSpec {
    /// Which networks are connected with each other. One entry for each kind of selection; a network that
    /// is selected twice counts once.
    #[schemars(length(min = 1, max = 5))]
    pub network_selectors: Vec<NetworkSelector>,
    /// Addresses for the links between the networks, at most one subnet of each IP family. They must be free
    /// of the pod, transit and join subnets of the selected networks, of the service and masquerade subnets
    /// of the cluster, of the nodes' own subnets, and of the connectSubnets of other ClusterNetworkConnects that select one of
    /// the same networks. There is no default. Immutable.
    #[schemars(length(min = 1, max = 2))]
    pub connect_subnets: Vec<ConnectSubnet>,
    /// What is connected. PodNetwork: every pod reaches every pod. ClusterIPServiceNetwork: every pod
    /// reaches every ClusterIP service; alone, services are reachable and pods are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2))]
    pub connectivity_enabled: Option<Vec<ConnectivityEnabled>>,
    /// Another spelling of connectivityEnabled, in which ClusterIPServiceNetwork is called ServiceNetwork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2))]
    pub connectivity: Option<Vec<Connectivity>>,
}

/// Kinds of network selection.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[schemars(transform = super::field_documents)]
pub enum NetworkSelectionType {
    /// The cluster's default network; cannot be connected.
    DefaultNetwork,
    /// ClusterUserDefinedNetworks, by their labels.
    ClusterUserDefinedNetworks,
    /// The primary networks of namespaces, by the labels of the namespaces.
    PrimaryUserDefinedNetworks,
    /// Secondary networks; cannot be connected.
    SecondaryUserDefinedNetworks,
    /// NetworkAttachmentDefinitions; cannot be connected.
    NetworkAttachmentDefinitions,
}

/// One kind of selection and its selector.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkSelector {
    /// Which of the selectors below is meant. ClusterUserDefinedNetworks and PrimaryUserDefinedNetworks can be connected.
    pub network_selection_type: NetworkSelectionType,
    /// With type ClusterUserDefinedNetworks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_user_defined_network_selector: Option<ClusterUdnSelector>,
    /// With type PrimaryUserDefinedNetworks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_user_defined_network_selector: Option<PrimaryUdnSelector>,
    /// With type SecondaryUserDefinedNetworks, which cannot be connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secondary_user_defined_network_selector: Option<NamespaceAndNetworkSelector>,
    /// With type NetworkAttachmentDefinitions, which cannot be connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_attachment_definition_selector: Option<NamespaceAndNetworkSelector>,
}

/// Selects ClusterUserDefinedNetworks.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterUdnSelector {
    /// Matched against the labels of the ClusterUserDefinedNetworks. `kubernetes.io/metadata.name` stands for
    /// the name, as if every one of them carried it as a label. `{}` selects all.
    pub network_selector: LabelSelector,
}

/// Selects the primary networks of namespaces.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PrimaryUdnSelector {
    /// Matched against the labels of namespaces: the primary network that serves a namespace is selected.
    pub namespace_selector: LabelSelector,
}

/// Selects networks of namespaces.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceAndNetworkSelector {
    /// Matched against the labels of namespaces.
    pub namespace_selector: LabelSelector,
    /// Matched against the labels of the networks in those namespaces.
    pub network_selector: LabelSelector,
}

/// A subnet for links and how it is split over the connected networks.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectSubnet {
    /// The subnet, which is split into a block for each layer3 network; layer2 networks share blocks.
    /// It holds 2 × (layer3 networks × nodes + layer2 networks) addresses. Example: `192.168.0.0/16` with
    /// networkPrefix 24 connects 255 layer3 networks of up to 126 nodes.
    #[schemars(length(max = 43))]
    pub cidr: String,
    /// Prefix length of each network's block. A block holds two addresses for each node, so it limits how many
    /// nodes the cluster can have: plan for four times as many addresses as nodes, /26 for 10 nodes, /23 for
    /// 100, /20 for 1000 (IPv6: /122, /119, /116).
    #[schemars(range(min = 1, max = 127))]
    pub network_prefix: u8,
}

/// What is connected, in the words of connectivityEnabled.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[schemars(transform = super::field_documents)]
pub enum ConnectivityEnabled {
    /// Pods reach pods.
    PodNetwork,
    /// Pods reach ClusterIP services.
    #[serde(rename = "ClusterIPServiceNetwork")]
    ClusterIpServiceNetwork,
}

/// What is connected, in the words of connectivity.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[schemars(transform = super::field_documents)]
pub enum Connectivity {
    /// Pods reach pods.
    PodNetwork,
    /// Pods reach services.
    ServiceNetwork,
}

/// The outcome in one word.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[schemars(transform = super::field_documents)]
pub enum StatusType {
    /// Everything selected is connected on every node.
    Success,
    /// Something is not; the conditions say what.
    Failure,
    /// Nothing is wrong, and not every node has done it yet.
    Progressing,
}

/// What a selected network comes from.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[schemars(transform = super::field_documents)]
pub enum SelectedKind {
    /// A UserDefinedNetwork.
    UserDefinedNetwork,
    /// A ClusterUserDefinedNetwork.
    ClusterUserDefinedNetwork,
}

/// A network that the connection selects.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectedNetwork {
    /// Its name; of a UserDefinedNetwork `<namespace>/<name>`.
    pub name: String,
    /// What it comes from.
    pub kind: SelectedKind,
    /// How it is laid out; left out while its spec cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// Whether it has a place in the connection. Whether nodes have built it is said by the conditions.
    pub connected: bool,
    /// Why it is not connected, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it is not connected, and what to do. Of a connected network, which siblings of it are not: pods on them are not on this road.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What became of the connection.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetworkConnectStatus {
    /// Success: everything selected is connected on every node. Failure: something is not; the conditions say what.
    /// Progressing: nothing is wrong, and not every node has done it yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusType>,
    /// Ready: whether everything selected is connected on every node. Accepted: whether the selected networks can be
    /// connected. `Ready-In-Zone-<node>`: whether that node has done it; beyond 100 nodes only failing nodes are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The selected networks by name, connected or not. At most 500 are listed, those that are not connected first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 500))]
    pub networks: Vec<SelectedNetwork>,
    /// How many of the selected networks are connected, as `2/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected_networks: Option<String>,
}
