//! Why something is not as it was asked for, said where somebody looks.

use std::fmt;

use causeway_types::{ConnectName, NetworkName, NodeName};

use causeway_record::ObjectKey;

use super::policy::PolicyKey;

/// What a problem is about.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Subject {
    /// A network: it is not rendered here.
    Network(NetworkName),
    /// An attachment definition: what it says does not count.
    Nad(ObjectKey),
    /// A node: something of it cannot be read.
    Node(NodeName),
    /// A pod: something of it cannot be read.
    Pod(ObjectKey),
    /// A ClusterNetworkConnect: it is not rendered here, or not as a whole.
    Connect(ConnectName),
    /// A service: it is not as its endpoints say.
    Service(ObjectKey),
    /// A policy: something of it cannot be read, or is not rendered here.
    Policy(PolicyKey),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(name) => write!(f, "network {name}"),
            Self::Nad(key) => write!(f, "NAD {key}"),
            Self::Node(name) => write!(f, "node {name}"),
            Self::Pod(key) => write!(f, "pod {key}"),
            Self::Connect(name) => write!(f, "ClusterNetworkConnect {name}"),
            Self::Service(key) => write!(f, "service {key}"),
            Self::Policy(key) => write!(f, "{key}"),
        }
    }
}

/// Kinds of problems.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Reason {
    /// This node has no id or no chassis yet; of a connection: another node has none, or no room in the block.
    NodeNotReady,
    /// The network has no id yet.
    NoId,
    /// The tunnel keys are missing or not those of the network.
    TunnelKeys,
    /// Something cannot be read.
    Malformed,
    /// The NAD names another network than the one it was given.
    ForeignNetwork,
    /// This version does not render such networks or connections.
    Unsupported,
    /// The network's subnets have none for this node.
    NoHostSubnet,
    /// A join or transit subnet has no address for this node.
    NoLinkAddress,
    /// The masquerade subnet has no addresses for the network.
    Masquerade,
    /// Another network's objects have the same names.
    PrefixClash,
    /// This node claims a chassis or an address that is not its own.
    ClaimRefused,
    /// Another network or node has the same number.
    NumberClash,
    /// A network of a connection is not known here yet, or cannot be rendered here.
    NetworkNotReady,
    /// A connection's block has no link for this node.
    NoLink,
    /// This node has no end of the tunnels that carry a network on the fabric.
    NoVtep,
    /// Networks of a connection claim the same addresses.
    Overlap,
}

/// Why something is not as it was asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The kind of problem.
    pub reason: Reason,
    /// What is wrong and what to do, for people.
    pub message: String,
}

impl Problem {
    /// A problem.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
