//! What connections see of the cluster: networks, the namespaces they serve, nodes.

use crate::decision::{Namespace, Network, NodeRecord};
use causeway_types::{NamespaceName, NetworkName, NetworkOrigin, NodeName};

use crate::Manager;
use crate::dirty::Reach;

impl Manager {
    /// Tells connections what has changed around them; only those that it concerns become dirty.
    pub(crate) fn settle_reach(&mut self) {
        let Reach { networks, namespaces, nodes } = self.dirty.take_reach();
        let Some(mut model) = self.connects.model.take() else { return };
        for name in networks {
            self.dirty.connects(match self.reachable_network(&name) {
                Some(network) => model.apply_network(network),
                None => model.delete_network(&name),
            });
        }
        for name in namespaces {
            self.dirty.connects(match self.served_namespace(&name) {
                Some(namespace) => model.apply_namespace(namespace),
                None => model.delete_namespace(&name),
            });
        }
        for name in nodes {
            self.dirty.connects(match self.numbered_node(&name) {
                Some(node) => model.apply_node(node),
                None => model.delete_node(&name),
            });
        }
        self.connects.model = Some(model);
    }

    /// A network that exists, as connections see it.
    pub(super) fn reachable_network(&self, name: &NetworkName) -> Option<Network> {
        let state = self.networks.get(name)?;
        let owner = state.owner();
        let origin = owner.map_or(NetworkOrigin::Bare, |_| name.origin());
        let labels = owner.and_then(|owner| self.owners.labels(owner)).cloned();
        let cluster = &self.config.cluster;
        Some(Network::of(state.intent(), cluster, origin, Some(state.id()), labels.unwrap_or_default()))
    }

    pub(super) fn served_namespace(&self, name: &NamespaceName) -> Option<Namespace> {
        let namespace = self.namespaces.get(name)?;
        Some(Namespace {
            name: name.clone(),
            labels: namespace.labels.clone(),
            primaries: self.primary_of(name).map(|(_, network)| network.clone()).into_iter().collect(),
        })
    }

    pub(super) fn numbered_node(&self, name: &NodeName) -> Option<NodeRecord> {
        Some(NodeRecord { name: name.clone(), id: self.nodes.id_of(name)? })
    }
}
