//! Namespaces, and which ClusterUserDefinedNetworks may select them.

use std::collections::BTreeMap;

use causeway_api::annotations::keys::{PRIMARY_NETWORK_LABEL, STATIC_PODS_LABEL};
use causeway_api::selector::{LabelMatch, SelectorIndex};
use causeway_record::Namespace;
use causeway_types::{NamespaceName, NetworkName, NetworkOrigin, ObjectName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::keys::Wait;
use crate::{Manager, OwnerKey};

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

fn is_labelled(namespace: &Namespace) -> bool {
    namespace.labels.contains_key(PRIMARY_NETWORK_LABEL)
}

impl Manager {
    pub(crate) fn namespace_applied(&mut self, namespace: Namespace) {
        let name = namespace.name.clone();
        let before = self.namespaces.all.insert(name.clone(), namespace.clone());
        self.policies_see_namespace(before.as_ref(), Some(&namespace));
        let mut candidates = self.namespaces.selectors.candidates(&namespace.labels);
        if before.as_ref().is_none_or(|before| is_labelled(before) != is_labelled(&namespace)) {
            self.dirty.nads(self.attachments.keys_in(&name));
        }
        if let Some(before) = &before {
            candidates.extend(self.namespaces.selectors.candidates(&before.labels));
        } else {
            let (networks, nads) = self.attachments.claiming(&name);
            self.dirty.clashes(networks);
            self.dirty.nads(nads);
        }
        for candidate in candidates {
            self.reselect(&OwnerKey::Cudn(candidate), &name);
        }
        self.dirty.owners_in(self.owners.wanting(&name).cloned(), &name);
        self.dirty.reach_namespace(&name);
        if before.as_ref() != Some(&namespace) {
            self.dirty.endpoint_slices(self.mirrors.in_namespace(&name));
        }
        if namespace.deleting {
            self.withdraw_creations(&name);
        }
        self.wake(&Wait::Namespace(name));
    }

    pub(crate) fn namespace_deleted(&mut self, name: &NamespaceName) {
        self.dirty.reach_namespace(name);
        if let Some(before) = self.namespaces.all.remove(name) {
            self.policies_see_namespace(Some(&before), None);
            for candidate in self.namespaces.selectors.candidates(&before.labels) {
                self.reselect(&OwnerKey::Cudn(candidate), name);
            }
        }
        for (target, part) in self.writes.of_namespace(name.as_str(), false) {
            self.writes.withdraw(&target, part);
        }
        // What is on its way out and still there, since somebody let the namespace go by force, has to be let go all the same.
        let here = |key: &&OwnerKey| matches!(key, OwnerKey::Udn(namespace, _) if namespace == name);
        self.dirty.owners(self.owners.going().filter(here).cloned());
    }

    /// Nothing can be created in a namespace that is going: what waits would be refused again and again.
    fn withdraw_creations(&mut self, name: &NamespaceName) {
        for (target, part) in self.writes.of_namespace(name.as_str(), true) {
            self.writes.withdraw(&target, part);
        }
    }

    fn reselect(&mut self, key: &OwnerKey, name: &NamespaceName) {
        if self.owners.reselect(key, name, self.namespaces.get(name)) {
            self.dirty.owners_in([key.clone()], name);
        }
    }
}

/// Labels of which everything that the selector selects has one. One that cannot be read may select anything.
fn needed(selector: &LabelSelector) -> Vec<(String, String)> {
    LabelMatch::read(selector).map(|selector| selector.needed()).unwrap_or_default()
}
