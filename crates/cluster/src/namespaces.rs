//! Namespaces, and which ClusterUserDefinedNetworks may select them.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::annotations::keys::{PRIMARY_NETWORK_LABEL, STATIC_PODS_LABEL};
use causeway_api::selector::{LabelMatch, SelectorIndex};
use causeway_record::Namespace;
use causeway_types::{NamespaceName, NetworkName, NetworkOrigin, ObjectName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    all: BTreeMap<NamespaceName, Namespace>,
    selectors: SelectorIndex<ObjectName>,
}

impl Namespaces {
    pub(crate) fn get(&self, name: &NamespaceName) -> Option<&Namespace> {
        self.all.get(name)
    }

    pub(crate) fn contains(&self, name: &NamespaceName) -> bool {
        self.all.contains_key(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Namespace> {
        self.all.values()
    }

    /// Puts a namespace in; the answer is what it was before.
    pub(crate) fn insert(&mut self, namespace: Namespace) -> Option<Namespace> {
        self.all.insert(namespace.name.clone(), namespace)
    }

    pub(crate) fn remove(&mut self, name: &NamespaceName) -> Option<Namespace> {
        self.all.remove(name)
    }

    /// The ClusterUserDefinedNetworks that may select a namespace, by what its labels were and are.
    pub(crate) fn selected_by<'a>(
        &self,
        labels: impl IntoIterator<Item = &'a Namespace>,
    ) -> BTreeSet<ObjectName> {
        labels.into_iter().flat_map(|namespace| self.selectors.candidates(&namespace.labels)).collect()
    }

    /// Whether the namespace's pods use a primary user-defined network.
    pub(crate) fn is_labelled(&self, name: &NamespaceName) -> bool {
        self.all.get(name).is_some_and(is_labelled)
    }

    /// Whether the administrator lets static pods of nodes onto the namespace's primary network.
    pub(crate) fn allows_static_pods(&self, name: &NamespaceName) -> bool {
        self.all.get(name).is_some_and(|namespace| namespace.labels.contains_key(STATIC_PODS_LABEL))
    }

    /// Whether nothing can be created in the namespace any more.
    pub(crate) fn is_going(&self, name: &NamespaceName) -> bool {
        self.all.get(name).is_some_and(|namespace| namespace.deleting)
    }

    /// Names of networks that belong to custom resources, whether they are there yet or not: whoever could create the
    /// object later must not find somebody in its network.
    pub(crate) fn reserve(&self, network: &NetworkName) -> bool {
        match network.origin() {
            NetworkOrigin::Cluster(_) => true,
            NetworkOrigin::Namespaced(namespace, _) => self.contains(&namespace),
            NetworkOrigin::Default | NetworkOrigin::Bare => false,
        }
    }

    /// A ClusterUserDefinedNetwork selects by this; `None` is one that is gone.
    pub(crate) fn select(
        &mut self,
        name: &ObjectName,
        before: Option<&LabelSelector>,
        now: Option<&LabelSelector>,
    ) {
        if let Some(before) = before {
            self.selectors.remove(name, needed(before));
        }
        if let Some(now) = now {
            self.selectors.insert(name, needed(now));
        }
    }
}

/// Whether the namespace's pods use a primary user-defined network.
pub(crate) fn is_labelled(namespace: &Namespace) -> bool {
    namespace.labels.contains_key(PRIMARY_NETWORK_LABEL)
}

/// Labels of which everything that the selector selects has one. One that cannot be read may select anything.
fn needed(selector: &LabelSelector) -> Vec<(String, String)> {
    LabelMatch::read(selector).map(|selector| selector.needed()).unwrap_or_default()
}
