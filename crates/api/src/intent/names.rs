//! Networks whose OVN objects would have the same names.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use causeway_types::{NetworkName, NodeName, OvnPrefix};

use super::problem::{Problem, Reason};

/// A network and its age. Networks are compared by age, then by name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Named {
    /// What the names of its OVN objects are made from.
    pub network: NetworkName,
    /// When its object was created, in seconds since 1970.
    pub created: i64,
    /// Whether it has ports of its own on each node, as a Layer3 network has.
    pub node_ports: bool,
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
/// connections are called by network and node with a `-` between, so network `a` on node `b-c` meets network `a-b` on
/// node `c`; and ports that serve all nodes by network alone, so network `a` on node `b` meets network `a-b`.
pub fn name_clashes(networks: &[Named], nodes: &BTreeSet<NodeName>) -> Vec<NameClash> {
    let mut by_age: Vec<&Named> = networks.iter().collect();
    by_age.sort_by(|a, b| (a.created, &a.network).cmp(&(b.created, &b.network)));
    let mut accepted = Accepted {
        prefixes: BTreeMap::new(),
        names: BTreeMap::new(),
        nodes: nodes.iter().map(NodeName::as_str).collect(),
    };
    let mut clashes = Vec::new();
    for named in by_age {
        match accepted.in_the_way(named) {
            Some((older, message)) => clashes.push(NameClash {
                younger: named.network.clone(),
                older,
                problem: Problem::new(Reason::NameConflict, message),
            }),
            None => accepted.accept(named),
        }
    }
    clashes
}

struct Accepted<'a> {
    prefixes: BTreeMap<String, &'a NetworkName>,
    /// Which networks, and whether they have ports on each node.
    names: BTreeMap<&'a str, bool>,
    nodes: BTreeSet<&'a str>,
}

impl<'a> Accepted<'a> {
    fn accept(&mut self, named: &'a Named) {
        self.prefixes.insert(OvnPrefix::of(&named.network).to_string(), &named.network);
        self.names.insert(named.network.as_str(), named.node_ports);
    }

    fn in_the_way(&self, named: &Named) -> Option<(NetworkName, String)> {
        let network = &named.network;
        let prefix = OvnPrefix::of(network).to_string();
        if let Some(older) = self.prefixes.get(&prefix) {
            let message = format!(
                "network {network} would have the OVN objects of network {older}, both begin with {prefix:?}: choose another name"
            );
            return Some(((*older).clone(), message));
        }
        let (older, node) = self.shorter(named).or_else(|| self.longer(named))?;
        let message = format!(
            "network {network} would have port names of network {older} on node {node}: choose another name"
        );
        NetworkName::new(older).ok().map(|older| (older, message))
    }

    /// An accepted `a` with ports on nodes for this `a-b`.
    fn shorter(&self, named: &Named) -> Option<(&'a str, &'a str)> {
        let name = named.network.as_str();
        name.match_indices('-').find_map(|(at, _)| {
            let (older, _) = self.names.get_key_value(&name[..at]).filter(|(_, node_ports)| **node_ports)?;
            self.node_with(&name[at + 1..], named.node_ports).map(|node| (*older, node))
        })
    }

    /// An accepted `a-b` for this `a` with ports on nodes.
    fn longer(&self, named: &Named) -> Option<(&'a str, &'a str)> {
        let start = format!("{}-", named.network);
        let from = (Bound::Included(start.as_str()), Bound::Unbounded);
        let longer = self.names.range::<str, _>(from).take_while(|(name, _)| name.starts_with(&start));
        let clash = |(older, node_ports): (&&'a str, &bool)| {
            self.node_with(&older[start.len()..], *node_ports).map(|node| (*older, node))
        };
        longer.filter(|_| named.node_ports).find_map(clash)
    }

    /// A node `<rest>`; or a node `<rest>-<other node>`, if the longer network has ports on nodes too.
    fn node_with(&self, rest: &str, node_ports: bool) -> Option<&'a str> {
        let whole = self.nodes.get(rest).copied();
        let start = format!("{rest}-");
        let from = (Bound::Included(start.as_str()), Bound::Unbounded);
        let longer = self.nodes.range::<str, _>(from).take_while(|node| node.starts_with(&start));
        let mut split = longer.filter(|node| node_ports && self.nodes.contains(&node[start.len()..]));
        whole.or_else(|| split.next().copied())
    }
}
