//! What decisions are made from: trimmed records, never whole objects.

use std::collections::BTreeMap;
use std::fmt;

use causeway_alloc::ConnectRecord;
use causeway_api::crd::{Role, Topology, Transport};
use causeway_api::intent::Selection;
use causeway_types::{
    Cidr, ConnectName, ConnectOwner, ConnectSubnet, ConnectTopology, NamespaceName, NetworkId, NetworkName,
    NetworkOrigin, NodeId, NodeName, ObjectName,
};

/// The label by which an object is selected by its name. Nobody can set it to something else.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// What all connections of a cluster have in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cluster {
    /// Addresses of services.
    pub service_cidrs: Vec<Cidr>,
    /// Addresses that nodes use among their own devices.
    pub masquerade_subnets: Vec<Cidr>,
    /// How many nodes the cluster is planned for.
    pub max_nodes: u32,
    /// Whether packets travel between nodes without tunnels.
    pub no_overlay: bool,
}

/// A network, as far as connections care.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// As its NADs carry it, such as `cluster_udn_blue`.
    pub name: NetworkName,
    /// Who made it.
    pub origin: NetworkOrigin,
    /// Its id, once it has one.
    pub id: Option<NetworkId>,
    /// How it is laid out.
    pub topology: Topology,
    /// What it is for a pod.
    pub role: Role,
    /// How packets travel between nodes, unless through tunnels.
    pub transport: Option<Transport>,
    /// The labels of the `ClusterUserDefinedNetwork`.
    pub labels: BTreeMap<String, String>,
    /// Addresses of pods.
    pub subnets: Vec<Cidr>,
    /// Addresses between its routers.
    pub join_subnets: Vec<Cidr>,
    /// Addresses between nodes.
    pub transit_subnets: Vec<Cidr>,
}

impl Network {
    /// Adds the label that stands for the name of a `ClusterUserDefinedNetwork`.
    pub(super) fn with_name_label(mut self) -> Self {
        if let NetworkOrigin::Cluster(name) = &self.origin {
            named(&mut self.labels, name);
        }
        self
    }

    /// Whether the other differs in nothing that decides whether it can be connected.
    pub(super) fn differs_only_in_labels(&self, other: &Self) -> bool {
        let relabelled = Self { labels: other.labels.clone(), ..self.clone() };
        relabelled == *other
    }

    /// The name of the object that the user has written.
    pub(super) fn object(&self) -> String {
        match &self.origin {
            NetworkOrigin::Cluster(name) => name.to_string(),
            NetworkOrigin::Namespaced(namespace, name) => format!("{namespace}/{name}"),
            NetworkOrigin::Default | NetworkOrigin::Bare => self.name.to_string(),
        }
    }

    /// Who would have a block or parcel for it.
    pub(super) fn owner(&self) -> Option<ConnectOwner> {
        match self.topology {
            Topology::Layer3 => self.id.map(ConnectOwner::Layer3),
            Topology::Layer2 => self.id.map(ConnectOwner::Layer2),
            Topology::Localnet => None,
        }
    }
}

/// Adds the label that stands for the name.
pub(super) fn named(labels: &mut BTreeMap<String, String>, name: &ObjectName) {
    labels.insert(NAME_LABEL.to_owned(), name.to_string());
}

/// The name by which the user knows the network.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.object())
    }
}

/// A namespace and the networks that serve it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// `metadata.name`; selectors see it as the label `kubernetes.io/metadata.name`.
    pub name: NamespaceName,
    /// Selectors of primary networks look at them.
    pub labels: BTreeMap<String, String>,
    /// The primary networks of its pods; none when they use the default network.
    pub primaries: Vec<NetworkName>,
}

/// A node that has an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// Part of the names of its ports on connect routers.
    pub name: NodeName,
    /// Also the number of its link in the block of a layer3 network.
    pub id: NodeId,
}

/// A `ClusterNetworkConnect` and what its annotations hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connect {
    /// `metadata.name` of the object.
    pub name: ConnectName,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// What it selects.
    pub selections: Vec<Selection>,
    /// Where its links get addresses from.
    pub subnets: Vec<ConnectSubnet>,
    /// How it is rendered.
    pub topology: ConnectTopology,
    /// How many links of a block have keys, once that is settled.
    pub slots: Option<u32>,
    /// Who has which block or parcel.
    pub blocks: BTreeMap<ConnectOwner, Vec<Cidr>>,
    /// Blocks and parcels that were freed and may still be somewhere.
    pub record: ConnectRecord,
}
