//! What things are told apart by.

use std::fmt;

use causeway_api::nad::OwnerKind;
use causeway_record::ObjectKey;
use causeway_record::{Kind, Target};
use causeway_types::{NamespaceName, NetworkId, NetworkName, NodeId, NodeName, ObjectName};

/// The object that a user-defined network comes from.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum OwnerKey {
    /// A UserDefinedNetwork.
    Udn(NamespaceName, ObjectName),
    /// A ClusterUserDefinedNetwork.
    Cudn(ObjectName),
}

impl OwnerKey {
    /// The object's name.
    pub fn name(&self) -> &ObjectName {
        match self {
            Self::Udn(_, name) | Self::Cudn(name) => name,
        }
    }

    /// The name of its network.
    pub fn network(&self) -> NetworkName {
        match self {
            Self::Udn(namespace, name) => NetworkName::of_udn(namespace, name),
            Self::Cudn(name) => NetworkName::of_cluster_udn(name),
        }
    }

    pub(crate) fn kind(&self) -> OwnerKind {
        match self {
            Self::Udn(..) => OwnerKind::UserDefinedNetwork,
            Self::Cudn(_) => OwnerKind::ClusterUserDefinedNetwork,
        }
    }

    /// The owner that a write is about.
    pub(crate) fn of(target: &Target) -> Option<Self> {
        let name = ObjectName::new(target.name.clone()).ok()?;
        match (target.kind, &target.namespace) {
            (Kind::UserDefinedNetwork, Some(namespace)) => {
                Some(Self::Udn(NamespaceName::new(namespace.clone()).ok()?, name))
            }
            (Kind::ClusterUserDefinedNetwork, _) => Some(Self::Cudn(name)),
            _ => None,
        }
    }

    pub(crate) fn target(&self) -> Target {
        match self {
            Self::Udn(namespace, name) => Target {
                kind: Kind::UserDefinedNetwork,
                namespace: Some(namespace.to_string()),
                name: name.to_string(),
            },
            Self::Cudn(name) => {
                Target { kind: Kind::ClusterUserDefinedNetwork, namespace: None, name: name.to_string() }
            }
        }
    }
}

impl fmt::Display for OwnerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udn(namespace, name) => write!(f, "UserDefinedNetwork {namespace}/{name}"),
            Self::Cudn(name) => write!(f, "ClusterUserDefinedNetwork {name}"),
        }
    }
}

/// What pods draw addresses from: a network as a whole, or one node's part of it. By number, because the part
/// belongs to the number: when a node goes and another gets its id, addresses still in use stay in use.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct PoolKey {
    pub(crate) network: NetworkId,
    pub(crate) node: Option<NodeId>,
}

/// What a pod without addresses waits for.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Wait {
    /// Its namespace, or a primary network in it.
    Namespace(NamespaceName),
    /// Its node, or the node's id.
    Node(NodeName),
    /// An attachment that it asks for.
    Nad(ObjectKey),
    /// A free address.
    Pool(PoolKey),
}
