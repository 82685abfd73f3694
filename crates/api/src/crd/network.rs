//! The parts that UserDefinedNetwork and ClusterUserDefinedNetwork share.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the network is laid out over the nodes.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[schemars(transform = super::field_documents)]
pub enum Topology {
    /// One subnet for the whole cluster: every workload is on the same switch.
    Layer2,
    /// One subnet for each node, routed between nodes.
    Layer3,
    /// A network that already exists outside of the cluster, reached through a bridge of each node.
    Localnet,
}

/// What the network is for a pod.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[schemars(transform = super::field_documents)]
pub enum Role {
    /// The pod's default route and its services use this network.
    Primary,
    /// An additional interface, asked for by the pod.
    Secondary,
}

/// Who gives out addresses.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[schemars(transform = super::field_documents)]
pub enum IpamMode {
    /// The cluster gives each pod an address of the subnets.
    Enabled,
    /// Pods get a MAC address only and bring their own addresses.
    Disabled,
}

/// How long an address belongs to its workload.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[schemars(transform = super::field_documents)]
pub enum IpamLifecycle {
    /// Addresses are kept in an IPAMClaim and survive the pod.
    Persistent,
}

/// How addresses of the network are managed.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ipam {
    /// Enabled (the default): pods get addresses from the subnets. Disabled: pods get a MAC address only and
    /// bring their own addresses; network policies and services by pod address then do not work. Disabled is
    /// for Secondary networks of topology Layer2 or Localnet, and subnets must then be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<IpamMode>,
    /// Persistent: a workload keeps its addresses when it stops, starts or migrates; they are kept in an
    /// `ipamclaims.k8s.cni.cncf.io` object. For topologies Layer2 and Localnet, with mode Enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<IpamLifecycle>,
}

/// A pod subnet of a Layer3 network and how it is split over the nodes.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Layer3Subnet {
    /// The subnet, which is split into one smaller subnet for each node. Example: `10.128.0.0/16`.
    #[schemars(length(max = 43))]
    pub cidr: String,
    /// Prefix length of each node's subnet. IPv4: 24 when left out. IPv6: 64, the only length there is.
    /// All subnets of one IP family have the same value. It limits how many nodes the subnet serves: a /16
    /// split into /24 serves 256 nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 127))]
    pub host_subnet: Option<u8>,
}

/// A network with one subnet for each node.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Layer3 {
    /// Primary: the pod's default route and services. Secondary: an additional interface. Immutable.
    pub role: Role,
    /// Maximum transmission unit; the cluster's own when left out. At least 1280 with an IPv6 subnet. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 576, max = 65535))]
    pub mtu: Option<u32>,
    /// The pod subnets. A Primary network may be given more of them later, at the end of the list; existing
    /// entries stay as they are and where they are, because nodes derive their subnet from the position.
    /// A Secondary network has one, or one of each IP family, for good. Each is rows of every node's zone, so there
    /// are 16 at most; use larger ones.
    #[schemars(length(min = 1, max = 16))]
    pub subnets: Vec<Layer3Subnet>,
    /// Subnets that the network's routers use among themselves, at most one of each IP family. Must be
    /// free of everything a pod of this network talks to. Default: 100.65.0.0/16 and fd99::/64. Primary only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2), inner(length(max = 43)))]
    pub join_subnets: Option<Vec<String>>,
}

/// A network with one subnet for the whole cluster.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Layer2 {
    /// Primary: the pod's default route and services. Secondary: an additional interface.
    pub role: Role,
    /// Maximum transmission unit; the cluster's own when left out. At least 1280 with an IPv6 subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 576, max = 65535))]
    pub mtu: Option<u32>,
    /// The pod subnets, at most one of each IP family. Required unless ipam.mode is Disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2), inner(length(max = 43)))]
    pub subnets: Option<Vec<String>>,
    /// Parts of the subnets that are never given to a pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 25), inner(length(max = 43)))]
    pub exclude_subnets: Option<Vec<String>>,
    /// Parts of the subnets that are given only to a pod that asks for one of their addresses. Primary only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 25), inner(length(max = 43)))]
    pub reserved_subnets: Option<Vec<String>>,
    /// Parts of the subnets for the network's own gateway and management addresses. Primary only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4), inner(length(max = 43)))]
    pub infrastructure_subnets: Option<Vec<String>>,
    /// The gateway address of each subnet, instead of its first address. Primary only.
    #[serde(default, rename = "defaultGatewayIPs", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2), inner(length(max = 39)))]
    pub default_gateway_ips: Option<Vec<String>>,
    /// Subnets that the network's routers use among themselves, at most one of each IP family.
    /// Default: 100.65.0.0/16 and fd99::/64. Primary only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2), inner(length(max = 43)))]
    pub join_subnets: Option<Vec<String>>,
    /// How addresses are managed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipam: Option<Ipam>,
}

/// A network written flat: every setting beside `topology`, whatever the topology is.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FlatNetwork {
    /// Flat form. Primary: the pod's default route and services. Secondary: an additional interface.
    /// Required in the flat form; topology Localnet is always Secondary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Flat form. Maximum transmission unit; the cluster's own when left out. At least 1280 with an IPv6 subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 576, max = 65535))]
    pub mtu: Option<u32>,
    /// Flat form. The pod subnets, at most one of each IP family. With topology Layer3 a second length says
    /// how the subnet is split over the nodes: `10.128.0.0/16/24` gives each node a /24.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2), inner(length(max = 47)))]
    pub subnets: Option<Vec<String>>,
    /// Flat form. Parts of the subnets that are never given to a pod. Host bits are ignored: `10.0.0.100/26`
    /// means `10.0.0.64/26`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 25), inner(length(max = 43)))]
    pub exclude_subnets: Option<Vec<String>>,
    /// Flat form. Subnets that the network's routers use among themselves, one or two of different IP families.
    /// Default: 100.65.0.0/16 and fd99::/64. Ignored for Secondary networks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), inner(length(max = 43)))]
    pub join_subnets: Option<Vec<String>>,
    /// Flat form. How addresses are managed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipam: Option<Ipam>,
    /// Flat form. The same as ipam.lifecycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipam_lifecycle: Option<IpamLifecycle>,
}

/// What became of the network.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkStatus {
    /// NetworkReady: every namespace has its network. NetworkCreated: the NetworkAttachmentDefinitions exist.
    /// NetworkAllocationSucceeded: every node has what it needs. A condition's message says what to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The topology in effect, whichever form the spec has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// The role in effect, whichever form the spec has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The pod subnets in effect, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnets: Option<String>,
    /// How many pods have an address of the network, and for how many it has room: `12/13`. Of a Layer3 network that is the
    /// room of all nodes that its subnets reach for, whether they are there or not; a node's own part may be full before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<String>,
    /// The number of the network in this cluster, 1 to 4095.
    #[serde(default, rename = "networkID", skip_serializing_if = "Option::is_none")]
    pub network_id: Option<u16>,
    /// Name of the VRF device that serves the network on each node. Left out while nodes have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vrf_name: Option<String>,
    /// The namespaces in which the network is available, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub active_namespaces: Vec<String>,
}
