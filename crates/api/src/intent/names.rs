//! Networks whose OVN objects would have the same names.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use causeway_types::{NetworkName, NodeName, OvnPrefix};

use super::problem::{Problem, Reason};

/// A network and its age. Networks are compared by age, then by name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Named {
    /// The network.
    pub network: NetworkName,
    /// When its object was created, in seconds since 1970.
    pub created: i64,
}

/// Two networks that cannot exist side by side.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NameClash {
    /// The network that is refused.
    pub younger: NetworkName,
    /// The network that stays.
    pub older: NetworkName,
    /// What the younger one is told.
    pub problem: Problem,
}

/// The networks that are refused, each with the oldest one that is in its way.
///
/// OVN names begin with the network's prefix, in which `-` and `/` become `.`, so `a-b` and `a.b` meet there. Ports of
/// connections are called by network and node with a `-` between, so network `a` on node `b-c` meets network `a-b` on node `c`.
pub fn name_clashes(networks: &[Named], nodes: &BTreeSet<NodeName>) -> Vec<NameClash> {
    let mut by_age: Vec<&Named> = networks.iter().collect();
    by_age.sort_by(|a, b| (a.created, &a.network).cmp(&(b.created, &b.network)));
    let mut accepted = Accepted {
        prefixes: BTreeMap::new(),
        names: BTreeSet::new(),
        nodes: nodes.iter().map(NodeName::as_str).collect(),
    };
    let mut clashes = Vec::new();
    for named in by_age {
        match accepted.in_the_way(&named.network) {
            Some((older, message)) => clashes.push(NameClash {
                younger: named.network.clone(),
                older,
                problem: Problem::new(Reason::NameConflict, message),
            }),
            None => accepted.accept(&named.network),
        }
    }
    clashes
}

struct Accepted<'a> {
    prefixes: BTreeMap<String, &'a NetworkName>,
    names: BTreeSet<&'a str>,
    nodes: BTreeSet<&'a str>,
}

impl<'a> Accepted<'a> {
    fn accept(&mut self, network: &'a NetworkName) {
        self.prefixes.insert(OvnPrefix::of(network).to_string(), network);
        self.names.insert(network.as_str());
    }

    fn in_the_way(&self, network: &NetworkName) -> Option<(NetworkName, String)> {
        let prefix = OvnPrefix::of(network).to_string();
        if let Some(older) = self.prefixes.get(&prefix) {
            let message = format!(
                "network {network} would have the OVN objects of network {older}, both begin with {prefix:?}: choose another name"
            );
            return Some(((*older).clone(), message));
        }
        let (older, node) = self.shorter(network).or_else(|| self.longer(network))?;
        let message = format!(
            "network {network} would have port names of network {older} on node {node}: choose another name"
        );
        NetworkName::new(older).ok().map(|older| (older, message))
    }

    /// An accepted `a` for this `a-b`.
    fn shorter(&self, network: &NetworkName) -> Option<(&'a str, &'a str)> {
        let name = network.as_str();
        name.match_indices('-').find_map(|(at, _)| {
            let older = self.names.get(&name[..at])?;
            self.node_with(&name[at + 1..]).map(|node| (*older, node))
        })
    }

    /// An accepted `a-b` for this `a`.
    fn longer(&self, network: &NetworkName) -> Option<(&'a str, &'a str)> {
        let start = format!("{network}-");
        starting_with(&self.names, &start)
            .find_map(|older| self.node_with(&older[start.len()..]).map(|node| (older, node)))
    }

    /// A node `<rest>-<other node>`.
    fn node_with(&self, rest: &str) -> Option<&'a str> {
        let start = format!("{rest}-");
        starting_with(&self.nodes, &start).find(|node| self.nodes.contains(&node[start.len()..]))
    }
}

fn starting_with<'a>(names: &BTreeSet<&'a str>, start: &str) -> impl Iterator<Item = &'a str> {
    let from = (Bound::Included(start), Bound::Unbounded);
    names.range::<str, _>(from).copied().take_while(move |name| name.starts_with(start))
}
