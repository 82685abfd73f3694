//! Why something cannot be done, in one word for conditions and one sentence for people.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Kinds of problems, as conditions name them.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Reason {
    /// The spec breaks a rule of its custom resource definition.
    InvalidSpec,
    /// A CIDR or an address cannot be read.
    InvalidAddress,
    /// Subnets overlap that must be apart.
    OverlappingSubnets,
    /// The MTU is too small for IPv6.
    InvalidMtu,
    /// A subnet has no address left for a pod.
    UnusableSubnet,
    /// A join subnet has no address for some node.
    JoinSubnetTooSmall,
    /// The VRF's name cannot be a device's name, or belongs to somebody else.
    InvalidVrfName,
    /// Another network has the VRF's name.
    VrfNameConflict,
    /// Another network has the VNI.
    VniConflict,
    /// Another network has the route target.
    RouteTargetConflict,
    /// Another network would have OVN objects of the same name.
    NameConflict,
    /// Persistent addresses are switched off in this cluster.
    PersistentIpsDisabled,
    /// Something changed that cannot change.
    Immutable,
    /// The NAD cannot be read as a network.
    InvalidAttachment,
    /// The NAD claims a network that is not its own.
    ForeignNetwork,
}

impl Reason {
    /// The word that conditions carry.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidSpec => "InvalidSpec",
            Self::InvalidAddress => "InvalidAddress",
            Self::OverlappingSubnets => "OverlappingSubnets",
            Self::InvalidMtu => "InvalidMTU",
            Self::UnusableSubnet => "UnusableSubnet",
            Self::JoinSubnetTooSmall => "JoinSubnetTooSmall",
            Self::InvalidVrfName => "InvalidVRFName",
            Self::VrfNameConflict => "VRFNameConflict",
            Self::VniConflict => "VNIConflict",
            Self::RouteTargetConflict => "RouteTargetConflict",
            Self::NameConflict => "NameConflict",
            Self::PersistentIpsDisabled => "PersistentIPsDisabled",
            Self::Immutable => "Immutable",
            Self::InvalidAttachment => "InvalidAttachment",
            Self::ForeignNetwork => "ForeignNetwork",
        }
    }
}

/// Something that is wrong with an object, ready for its conditions.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
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

/// Collects problems in the order in which they are looked for.
#[derive(Default)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

impl Problems {
    pub(crate) fn add(&mut self, reason: Reason, message: impl Into<String>) {
        self.0.push(Problem::new(reason, message));
    }

    /// A rule of the spec that must hold.
    pub(crate) fn rule(&mut self, holds: bool, message: &str) {
        if !holds {
            self.add(Reason::InvalidSpec, message);
        }
    }

    pub(crate) fn into_result<T>(self, value: Option<T>) -> Result<T, Vec<Problem>> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => Err(self.0),
        }
    }
}

/// All problems in one sentence, for a message.
pub fn sentences(problems: &[Problem]) -> String {
    let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    messages.join("; ")
}
