//! What connections see of the cluster: networks, the namespaces they serve, nodes.

use std::collections::BTreeSet;

use crate::decision::{Absent, Cluster, Namespace, Network, NodeRecord};
use causeway_types::{ConnectName, ConnectOwner, NamespaceName, NetworkName, NetworkOrigin, NodeName};

use super::Connects;
use crate::Config;
use crate::attachments::Attachments;
use crate::dirty::{Dirty, Reach};
use crate::namespaces::Namespaces;
use crate::networks::Networks;
use crate::nodes::Nodes;
use crate::owners::Owners;

impl Connects {
    /// Tells connections what has changed around them; only those that it concerns become dirty.
    pub(crate) fn look_around(&mut self, reach: Reach, around: &Surroundings<'_>, news: &mut Dirty) {
        let Reach { networks, namespaces, nodes } = reach;
        let is_told = !(networks.is_empty() && namespaces.is_empty() && nodes.is_empty());
        let Some(model) = self.model.as_mut().filter(|_| is_told) else { return };
        self.tally.decided();
        let mut dirty = BTreeSet::new();
        for name in networks {
            dirty.extend(match around.network(&name) {
                Some(network) => model.apply_network(network),
                None => model.delete_network(&name),
            });
            dirty.extend(match around.absent(&name) {
                Some(absent) => model.apply_absent(absent),
                None => model.delete_absent(&name),
            });
        }
        for name in namespaces {
            dirty.extend(match around.namespace(&name) {
                Some(namespace) => model.apply_namespace(namespace),
                None => model.delete_namespace(&name),
            });
        }
        for name in nodes {
            dirty.extend(match around.node(&name) {
                Some(node) => model.apply_node(node),
                None => model.delete_node(&name),
            });
        }
        news.connects(dirty);
    }

    /// Whether connections have been decided with the network as it is now, and what they have taken from it is off their
    /// objects. Before that its attachments must not say what it has grown to: for a manager that takes over in between, the
    /// network would be one of those who were there first.
    pub(crate) fn follow(&self, name: &NetworkName, around: &Surroundings<'_>) -> bool {
        let network = around.network(name);
        let Some((model, network)) = self.model.as_ref().zip(network) else { return true };
        let taken = |connect: &ConnectName, owner: &ConnectOwner| {
            Some(owner.network()) == network.id && model.block(connect, *owner).is_none()
        };
        let written = self.written_blocks();
        let mut owners = written.flat_map(|(connect, blocks)| blocks.0.keys().map(move |one| (connect, one)));
        model.has_decided_with(&network) && !owners.any(|(connect, owner)| taken(connect, owner))
    }
}

/// The cluster as connections see it.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) config: &'a Config,
    pub(crate) networks: &'a Networks,
    pub(crate) owners: &'a Owners,
    pub(crate) namespaces: &'a Namespaces,
    pub(crate) attachments: &'a Attachments,
    pub(crate) nodes: &'a Nodes,
}

impl Surroundings<'_> {
    pub(super) fn cluster(&self) -> Cluster {
        Cluster { no_overlay: self.config.no_overlay, ..Cluster::from(&self.config.cluster) }
    }

    /// A network that exists.
    fn network(&self, name: &NetworkName) -> Option<Network> {
        let state = self.networks.get(name)?;
        let owner = state.owner();
        let origin = owner.map_or(NetworkOrigin::Bare, |_| name.origin());
        let labels = owner.and_then(|owner| self.owners.labels(owner)).cloned().unwrap_or_default();
        Some(Network::of(state.intent(), &self.config.cluster, origin, Some(state.id()), labels))
    }

    /// A ClusterUserDefinedNetwork that is no network.
    fn absent(&self, name: &NetworkName) -> Option<Absent> {
        if self.networks.get(name).is_some() { None } else { self.owners.absent(name) }
    }

    /// A namespace, and the networks that serve it.
    fn namespace(&self, name: &NamespaceName) -> Option<Namespace> {
        let namespace = self.namespaces.get(name)?;
        let primaries = self.attachments.primaries_of(name, self.networks, self.owners);
        Some(Namespace {
            name: name.clone(),
            labels: namespace.labels.clone(),
            primaries: primaries.into_iter().map(|(_, network)| network.clone()).collect(),
        })
    }

    /// A node that has an id.
    fn node(&self, name: &NodeName) -> Option<NodeRecord> {
        Some(NodeRecord { name: name.clone(), id: self.nodes.id_of(name)? })
    }

    pub(super) fn networks(&self) -> impl Iterator<Item = Network> {
        self.networks.names().filter_map(|name| self.network(name))
    }

    pub(super) fn all_absent(&self) -> impl Iterator<Item = Absent> {
        self.owners.keys().filter_map(|key| self.absent(&key.network()))
    }

    pub(super) fn namespaces(&self) -> impl Iterator<Item = Namespace> {
        self.namespaces.iter().filter_map(|namespace| self.namespace(&namespace.name))
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeRecord> {
        self.nodes.names().filter_map(|name| self.node(name))
    }
}
