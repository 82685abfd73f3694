//! What an event has changed, as facts. Which rows follow from a fact is the plan's to know.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use causeway_record::ObjectKey;
use causeway_types::{ConnectName, NamespaceName, NetworkName, NodeName};

use super::policy::{Number, PolicyKey, SetMark};

/// One change of fact.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Change {
    /// This zone's own node, or whether the picture is whole: anything may differ.
    Everything,
    /// The ports of the bridge to the outside, or whether there is one.
    Bridge,
    /// By what processes of the node are known.
    Processes,
    /// A pod of this node that uses the node's own network came or went.
    HostPod(ObjectKey),
    /// The ports of this node that a pod asks for.
    HostPorts(ObjectKey),
    /// Another node: its number, chassis or addresses, or whether somebody else has them.
    Node(NodeName),
    /// The networks that services of a namespace are on.
    Namespace(NamespaceName),
    /// A namespace has one more primary network than those that it had, younger than them all.
    Sibling {
        /// Its services are on one more network.
        namespace: NamespaceName,
        /// The youngest of the namespace's primary networks.
        network: NetworkName,
    },
    /// What a network is here: its definition, its number, or whether it is rendered.
    Network(NetworkName),
    /// Whether another node uses a network.
    Use {
        /// A network that a pod there uses or used, or one that is connected with it.
        network: NetworkName,
        /// The other node.
        node: NodeName,
    },
    /// What a pod has on a network.
    Pod {
        /// On whichever node; it may be gone.
        pod: ObjectKey,
        /// A network that it is on, or was on.
        network: NetworkName,
    },
    /// What the container runtime must know of a pod of this node.
    Local(ObjectKey),
    /// A service, apart from its endpoints.
    Service(ObjectKey),
    /// The endpoints of a service on a network.
    Endpoints {
        /// Of its rows those on this network alone are concerned.
        service: ObjectKey,
        /// Where the addresses of its slices count.
        network: NetworkName,
    },
    /// Which connections make the services of a network reachable from others.
    Offers(NetworkName),
    /// The subnets that pods of a network may reach directly.
    Grants(NetworkName),
    /// A connection as a whole.
    Connect(ConnectName),
    /// What a network is in a connection.
    Member {
        /// The connection.
        connect: ConnectName,
        /// The network, which has a place in it or had one.
        network: NetworkName,
    },
    /// A connection has a place for a network that is not known here: its families may differ.
    Place(ConnectName),
    /// The rules of a policy on a network, or whether it is about a pod of this node there.
    Policy {
        /// A NetworkPolicy or a cluster-scoped policy.
        policy: PolicyKey,
        /// Where it is about pods of this node, or was.
        network: NetworkName,
    },
    /// Whether pods of a namespace on a network are closed to what nobody allows.
    Isolation {
        /// Whose pods are closed, or open again.
        namespace: NamespaceName,
        /// Pods that are on other networks are not concerned.
        network: NetworkName,
    },
    /// Whom policies on a network select among those who were there already.
    Narrowed(NetworkName),
    /// Which specs of cluster-scoped policies are carried out.
    Versions,
    /// Whether rules name a set for a class of networks, or under which numbers of ports.
    PeerSet {
        /// By the hash of what it selects.
        set: SetMark,
        /// The key of a [`Class`](super::Class): a network's name, or a mark of several.
        class: Arc<str>,
    },
    /// Whether an address is in a set.
    Peer {
        /// By the hash of what it selects.
        set: SetMark,
        /// The number of the port that the set's name has there.
        number: Number,
        /// The network of the address; none is a node's.
        network: Option<NetworkName>,
        /// A pod's, or a node's where there is no network.
        address: IpAddr,
    },
}

impl Change {
    /// Whether connections may be rendered otherwise after it, or by others.
    pub fn concerns_connections(&self) -> bool {
        match self {
            Self::Everything
            | Self::Node(_)
            | Self::Network(_)
            | Self::Use { .. }
            | Self::Offers(_)
            | Self::Grants(_)
            | Self::Connect(_)
            | Self::Member { .. }
            | Self::Place(_) => true,
            Self::Bridge
            | Self::Processes
            | Self::HostPod(_)
            | Self::HostPorts(_)
            | Self::Namespace(_)
            | Self::Sibling { .. }
            | Self::Pod { .. }
            | Self::Local(_)
            | Self::Service(_)
            | Self::Endpoints { .. }
            | Self::Policy { .. }
            | Self::Isolation { .. }
            | Self::Narrowed(_)
            | Self::Versions
            | Self::PeerSet { .. }
            | Self::Peer { .. } => false,
        }
    }
}

/// All changes of an event, each once.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Changes(BTreeSet<Change>);

impl Changes {
    /// Anything may differ.
    pub fn everything() -> Self {
        Self(BTreeSet::from([Change::Everything]))
    }

    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the changes of another event.
    pub fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The changes, one by one.
    pub fn iter(&self) -> impl Iterator<Item = &Change> {
        self.0.iter()
    }

    pub(crate) fn add(&mut self, change: Change) {
        self.0.insert(change);
    }
}

impl<'a> IntoIterator for &'a Changes {
    type Item = &'a Change;
    type IntoIter = std::collections::btree_set::Iter<'a, Change>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl From<Change> for Changes {
    fn from(change: Change) -> Self {
        Self(BTreeSet::from([change]))
    }
}
