//! Selection: how often a network is selected. A network counts once however often; but only when the last
//! selector, or the last namespace, lets go of it is it deselected.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::intent::Selection;
use causeway_types::{ConnectName, NetworkName, NetworkOrigin};
use kube_core::{Selector, SelectorExt};

use super::input::{Connect, Namespace, Network};

/// The networks that namespaces bring in, with how many of them do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ByNamespace {
    counts: BTreeMap<NetworkName, usize>,
}

impl ByNamespace {
    /// Counts all namespaces.
    pub(super) fn of<'a>(connect: &Connect, namespaces: impl IntoIterator<Item = &'a Namespace>) -> Self {
        let mut all = Self::default();
        for namespace in namespaces {
            all.add(connect, namespace);
        }
        all
    }

    /// A namespace came, or came back changed.
    pub(super) fn add(&mut self, connect: &Connect, namespace: &Namespace) {
        if selects_namespace(connect, namespace) {
            for network in &namespace.primaries {
                *self.counts.entry(network.clone()).or_default() += 1;
            }
        }
    }

    /// A namespace goes, or is about to come back changed.
    pub(super) fn remove(&mut self, connect: &Connect, namespace: &Namespace) {
        if !selects_namespace(connect, namespace) {
            return;
        }
        for network in &namespace.primaries {
            if let Some(count) = self.counts.get_mut(network) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(network);
                }
            }
        }
    }

    fn has(&self, network: &NetworkName) -> bool {
        self.counts.contains_key(network)
    }
}

/// The connections that select a network. It is kept as networks and connections come and go, never made anew.
#[derive(Debug, Clone, Default)]
pub(super) struct Selecting {
    by_network: BTreeMap<NetworkName, BTreeSet<ConnectName>>,
    /// How many networks have been followed so far: the work that decisions make.
    pub(super) followed: usize,
}

impl Selecting {
    pub(super) fn of(&self, network: &NetworkName) -> impl Iterator<Item = &ConnectName> {
        self.by_network.get(network).into_iter().flatten()
    }

    pub(super) fn add(&mut self, network: &NetworkName, connect: &ConnectName) {
        self.by_network.entry(network.clone()).or_default().insert(connect.clone());
    }

    pub(super) fn remove(&mut self, network: &NetworkName, connect: &ConnectName) {
        if let Some(connects) = self.by_network.get_mut(network) {
            connects.remove(connect);
            if connects.is_empty() {
                self.by_network.remove(network);
            }
        }
    }

    /// Nobody selects the network any more; the answer is who did.
    pub(super) fn take(&mut self, network: &NetworkName) -> BTreeSet<ConnectName> {
        self.by_network.remove(network).unwrap_or_default()
    }
}

/// Whether the connection selects the network, directly or by a namespace it serves. A hand-written NAD is
/// never selected.
pub(super) fn selects(connect: &Connect, by_namespace: &ByNamespace, network: &Network) -> bool {
    match network.origin {
        NetworkOrigin::Cluster(_) => {
            selects_cluster_network(connect, &network.labels) || by_namespace.has(&network.name)
        }
        NetworkOrigin::Namespaced(..) => by_namespace.has(&network.name),
        NetworkOrigin::Default | NetworkOrigin::Bare => false,
    }
}

/// Whether the connection selects ClusterUserDefinedNetworks with these labels.
pub(super) fn selects_cluster_network(connect: &Connect, labels: &BTreeMap<String, String>) -> bool {
    connect.selections.iter().any(|selector| match selector {
        Selection::ClusterUserDefinedNetworks(selector) => selector.matches(labels),
        Selection::PrimaryUserDefinedNetworks(_) => false,
    })
}

fn selects_namespace(connect: &Connect, namespace: &Namespace) -> bool {
    let matches = |selector: &Selector| selector.matches(&namespace.labels);
    connect.selections.iter().any(|selector| match selector {
        Selection::PrimaryUserDefinedNetworks(selector) => matches(selector),
        Selection::ClusterUserDefinedNetworks(_) => false,
    })
}
