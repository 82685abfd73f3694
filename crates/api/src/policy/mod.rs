//! Cluster-scoped network policies in the one form that zones render, whatever kind they were written as.
//!
//! Owns what the kinds mean in common: who is selected, what a rule does, in which order rules are asked. Never says how that
//! is rendered, and never reads pods. What a kind says beyond this form is decided here, closed rather than open: see
//! [`Remark`].

mod convert;
mod order;

use std::fmt;
use std::str::FromStr;

use causeway_types::Protocol;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub use crate::selector::LabelMatch;
pub use order::{Order, Refusal};

/// A cluster-scoped policy.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ClusterPolicy {
    /// Its kind and name.
    pub id: PolicyId,
    /// When its rules are asked.
    pub order: Order,
    /// Whom it is about.
    pub subject: Pods,
    /// What may come in, the first rule first.
    pub ingress: Vec<ClusterRule>,
    /// What may go out, the first rule first.
    pub egress: Vec<ClusterRule>,
    /// What of it is not carried out as it is written.
    pub remarks: Vec<Remark>,
}

/// The kinds of cluster-scoped policies.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum PolicyKind {
    /// ClusterNetworkPolicy.
    #[serde(rename = "ClusterNetworkPolicy")]
    Cluster,
    /// AdminNetworkPolicy.
    #[serde(rename = "AdminNetworkPolicy")]
    Admin,
    /// BaselineAdminNetworkPolicy.
    #[serde(rename = "BaselineAdminNetworkPolicy")]
    Baseline,
}

impl PolicyKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Cluster, Self::Admin, Self::Baseline];

    /// The short name that kubectl takes, in capital letters: what names of rows begin with.
    pub fn short(self) -> &'static str {
        match self {
            Self::Cluster => "CNP",
            Self::Admin => "ANP",
            Self::Baseline => "BANP",
        }
    }
}

impl PolicyKind {
    /// The kind that Kubernetes calls so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.to_string() == name)
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cluster => "ClusterNetworkPolicy",
            Self::Admin => "AdminNetworkPolicy",
            Self::Baseline => "BaselineAdminNetworkPolicy",
        })
    }
}

/// Which policy is meant.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct PolicyId {
    /// Policies of different kinds may have the same name.
    pub kind: PolicyKind,
    /// What it is called.
    pub name: String,
}

impl FromStr for PolicyId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = text.split_once(' ').and_then(|(kind, name)| {
            let kind = PolicyKind::ALL.into_iter().find(|one| one.to_string() == kind)?;
            Some(Self { kind, name: name.to_owned() })
        });
        found.ok_or_else(|| format!("{text:?} is no kind and name of a policy"))
    }
}

impl fmt::Display for PolicyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// When a policy is asked.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Tier {
    /// Before NetworkPolicies.
    Admin,
    /// After NetworkPolicies, for what they do not decide.
    Baseline,
}

impl Tier {
    /// The tier of the ACLs.
    pub fn acl_tier(self) -> u8 {
        match self {
            Self::Admin => 1,
            Self::Baseline => 3,
        }
    }
}

/// The way of what a rule is about, as seen by the subject.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Direction {
    /// What comes in.
    Ingress,
    /// What goes out.
    Egress,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        })
    }
}

/// A rule: the first that matches decides.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ClusterRule {
    /// A word for people.
    pub name: Option<String>,
    /// What is done with what it matches.
    pub action: Action,
    /// Who is on the other side: any of these. Without one the rule matches nothing.
    pub peers: Vec<Peer>,
    /// Which ports of the destination: any of these. Nothing: everything, ICMP too.
    pub ports: Option<Vec<PortMatch>>,
}

/// What a rule does with what it matches.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Action {
    /// Lets it through; nobody else is asked.
    Accept,
    /// Drops it; nobody else is asked.
    Deny,
    /// Leaves the tier.
    Pass,
}

/// Who is on the other side.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Peer {
    /// Pods, but for those on the host's network.
    Pods(Pods),
    /// Addresses.
    Networks(Vec<IpNet>),
    /// The addresses of nodes with these labels.
    Nodes(LabelMatch),
    /// Everybody. Nobody can write that: it is what a rule that must fail closed denies.
    Anyone,
}

/// Pods by labels, but for those on the host's network.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Pods {
    /// The labels of their namespaces.
    pub namespaces: LabelMatch,
    /// Their own labels.
    pub pods: LabelMatch,
}

/// Ports of the destination.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum PortMatch {
    /// All ports from the first to the last.
    Port {
        /// TCP, UDP or SCTP.
        protocol: Protocol,
        /// From 1.
        first: u16,
        /// Not before the first.
        last: u16,
    },
    /// The port that the destination's containers call so, with the protocol that they give it.
    Named(String),
}

/// What of a rule is not carried out as it is written, and why. The rule fails closed: what it would accept it does not, and
/// what it would deny or pass is denied, all of it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Remark {
    /// Where, such as `egress[0].to[1]`.
    pub at: String,
    /// Why, in words.
    pub why: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.why)
    }
}
