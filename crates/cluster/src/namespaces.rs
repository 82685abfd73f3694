//! Namespaces, and which ClusterUserDefinedNetworks may select them.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::annotations::keys::{PRIMARY_NETWORK_LABEL, STATIC_PODS_LABEL};
use causeway_record::{Namespace, Texts};
use causeway_types::{NamespaceName, NetworkName, NetworkOrigin, ObjectName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::keys::Wait;
use crate::{Manager, OwnerKey};

/// All namespaces.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    all: BTreeMap<NamespaceName, Namespace>,
    selectors: SelectorIndex,
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
            self.selectors.remove(name, before);
        }
        if let Some(now) = now {
            self.selectors.insert(name, now);
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
            for candidate in self.namespaces.selectors.candidates(&before.labels) {
                self.reselect(&OwnerKey::Cudn(candidate), name);
            }
        }
        for (target, part) in self.writes.of_namespace(name.as_str()) {
            self.writes.withdraw(&target, part);
        }
    }

    /// Nothing can be created in a namespace that is going: what waits would be refused again and again.
    fn withdraw_creations(&mut self, name: &NamespaceName) {
        for (target, part) in self.writes.of_namespace(name.as_str()) {
            if self.writes.is_creating(&target, part) {
                self.writes.withdraw(&target, part);
            }
        }
    }

    fn reselect(&mut self, key: &OwnerKey, name: &NamespaceName) {
        if self.owners.reselect(key, name, self.namespaces.get(name)) {
            self.dirty.owners_in([key.clone()], name);
        }
    }
}

/// Selectors by one label that each of them needs, so that a namespace is only compared with those that it may match.
#[derive(Clone, Debug, Default)]
struct SelectorIndex {
    by_label: BTreeMap<(String, String), BTreeSet<ObjectName>>,
    /// Selectors that need no label with a certain value.
    broad: BTreeSet<ObjectName>,
}

impl SelectorIndex {
    fn insert(&mut self, name: &ObjectName, selector: &LabelSelector) {
        let needed = needed_labels(selector);
        if needed.is_empty() {
            self.broad.insert(name.clone());
        }
        for label in needed {
            self.by_label.entry(label).or_default().insert(name.clone());
        }
    }

    fn remove(&mut self, name: &ObjectName, selector: &LabelSelector) {
        self.broad.remove(name);
        for label in needed_labels(selector) {
            if let Some(names) = self.by_label.get_mut(&label) {
                names.remove(name);
                if names.is_empty() {
                    self.by_label.remove(&label);
                }
            }
        }
    }

    /// The selectors that may match a namespace with these labels.
    fn candidates(&self, labels: &Texts) -> BTreeSet<ObjectName> {
        let matching = labels.iter().filter_map(|(k, v)| self.by_label.get(&(k.clone(), v.clone())));
        matching.flatten().chain(&self.broad).cloned().collect()
    }
}

/// One requirement of the selector, as the labels of which a matching object has one.
fn needed_labels(selector: &LabelSelector) -> Vec<(String, String)> {
    if let Some((key, value)) = selector.match_labels.iter().flatten().next() {
        return vec![(key.clone(), value.clone())];
    }
    let expressions = selector.match_expressions.iter().flatten();
    let needed = expressions.filter(|expression| expression.operator == "In").map(|expression| {
        let values = expression.values.iter().flatten();
        values.map(|value| (expression.key.clone(), value.clone())).collect::<Vec<_>>()
    });
    needed.min_by_key(Vec::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selector(value: serde_json::Value) -> LabelSelector {
        serde_json::from_value(value).unwrap()
    }

    fn name(text: &str) -> ObjectName {
        ObjectName::new(text).unwrap()
    }

    #[test]
    fn a_namespace_is_compared_only_with_what_may_select_it() {
        let mut index = SelectorIndex::default();
        let exact = selector(json!({"matchLabels": {"team": "a", "zone": "x"}}));
        let several =
            selector(json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]}));
        let all = selector(json!({}));
        let not =
            selector(json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}));
        for (text, selector) in [("exact", &exact), ("several", &several), ("all", &all), ("not", &not)] {
            index.insert(&name(text), selector);
        }
        let candidates = |index: &SelectorIndex, team: &str| -> Vec<String> {
            let labels = Texts::from([("team".to_owned(), team.to_owned())]);
            index.candidates(&labels).iter().map(ToString::to_string).collect()
        };
        assert_eq!(candidates(&index, "a"), ["all", "exact", "not", "several"]);
        assert_eq!(candidates(&index, "b"), ["all", "not", "several"]);
        assert_eq!(candidates(&index, "c"), ["all", "not"]);
        index.remove(&name("all"), &all);
        index.remove(&name("several"), &several);
        assert_eq!(candidates(&index, "b"), ["not"]);
    }
}
