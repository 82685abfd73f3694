//! Names of ports that can be read in two ways.
//!
//! A connect router's port is `<connection>-to-<network>[-<node>]`, its peer `<network>[-<node>]-to-<connection>`. A
//! network's name holds a `_` and a connection's none, so a name with a single `-to-` says whose it is. With a second one
//! it may be the port of two connections: `a-to-b-to-c_n` is that of `a` to `b-to-c_n` and that of `a-to-b` to `c_n`.
//! Only such names are looked at here. Networks that differ in nothing but where the node begins are kept apart before
//! they get an id.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::crd::Topology;
use causeway_types::{ConnectName, ConnectNames, ConnectTopology, NetworkName, NodeName};

use super::input::{Network, NodeRecord};

const SEPARATOR: &str = "-to-";

/// The nodes, and those whose name may bring a second `-to-` into a port's.
#[derive(Debug, Clone, Default)]
pub(super) struct Nodes {
    pub(super) all: BTreeMap<NodeName, NodeRecord>,
    doubtful: BTreeSet<NodeName>,
}

impl Nodes {
    /// Whether the node was not known by name.
    pub(super) fn insert(&mut self, node: NodeRecord) -> bool {
        if is_doubtful(node.name.as_str()) {
            self.doubtful.insert(node.name.clone());
        }
        self.all.insert(node.name.clone(), node).is_none()
    }

    pub(super) fn remove(&mut self, name: &NodeName) {
        self.doubtful.remove(name);
        self.all.remove(name);
    }
}

/// Whether a `-to-` may come from this part of a name, or from it and the `-` beside it.
pub(super) fn is_doubtful(part: &str) -> bool {
    part == "to" || part.starts_with("to-") || part.ends_with("-to") || part.contains(SEPARATOR)
}

/// All names with more than one reading that the ports of a network in a connection have.
pub(super) fn doubtful_names(
    connect: &ConnectName,
    topology: ConnectTopology,
    network: &Network,
    nodes: &Nodes,
) -> Vec<String> {
    let mut on: Vec<Option<&NodeName>> = Vec::new();
    let doubtful = is_doubtful(connect.as_str()) || is_doubtful(network.name.as_str());
    if doubtful && has_port(topology, network, false) {
        on.push(None);
    }
    if has_port(topology, network, true) {
        match doubtful {
            true => on.extend(nodes.all.keys().map(Some)),
            false => on.extend(nodes.doubtful.iter().map(Some)),
        }
    }
    let names = ConnectNames::new(connect.clone());
    let both =
        |node| [names.router_to_network(&network.name, node), names.network_to_router(&network.name, node)];
    on.into_iter().flat_map(both).filter(|name| separators(name).count() > 1).collect()
}

/// Whether a network in a connection has ports for each node, or one for all of them.
fn has_port(topology: ConnectTopology, network: &Network, of_a_node: bool) -> bool {
    match (network.topology, of_a_node) {
        (Topology::Layer3, true) => topology.has_node_ports(),
        (Topology::Layer3, false) => topology != ConnectTopology::Transit,
        (_, of_a_node) => !of_a_node,
    }
}

/// Each way to read the name as a connection and the rest.
pub(super) fn readings(name: &str) -> impl Iterator<Item = (ConnectName, &str)> {
    let sides = |at: usize| {
        let (left, right) = (&name[..at], &name[at + SEPARATOR.len()..]);
        [(left, right), (right, left)]
    };
    separators(name)
        .flat_map(sides)
        .filter_map(|(connect, rest)| ConnectName::new(connect).ok().map(|connect| (connect, rest)))
}

/// The network of a connection whose port this is, when the rest of the name is network and node.
pub(super) fn network_of<'a>(
    rest: &str,
    topology: ConnectTopology,
    networks: &'a BTreeMap<NetworkName, Network>,
    nodes: &Nodes,
) -> impl Iterator<Item = &'a Network> {
    let known = |name: &str| networks.get(&NetworkName::new(name).ok()?);
    let whole = known(rest).filter(|network| has_port(topology, network, false));
    let split = rest.match_indices('-').filter_map(move |(at, _)| {
        let node = NodeName::new(&rest[at + 1..]).ok()?;
        let network = known(&rest[..at]).filter(|network| has_port(topology, network, true))?;
        nodes.all.contains_key(&node).then_some(network)
    });
    whole.into_iter().chain(split.collect::<Vec<_>>())
}

/// Where a `-to-` begins; two may share a `-`.
fn separators(name: &str) -> impl Iterator<Item = usize> {
    (0..name.len()).filter(move |at| name[*at..].starts_with(SEPARATOR))
}
