//! Namespaces, and which ClusterUserDefinedNetworks may select them.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::annotations::keys::PRIMARY_NETWORK_LABEL;
use causeway_record::{Namespace, Texts};
use causeway_types::{NamespaceName, ObjectName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// All namespaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Namespaces {
    pub(crate) all: BTreeMap<NamespaceName, Namespace>,
    pub(crate) selectors: SelectorIndex,
}

impl Namespaces {
    /// Whether the namespace's pods use a primary user-defined network.
    pub(crate) fn is_labelled(&self, name: &NamespaceName) -> bool {
        self.all.get(name).is_some_and(|namespace| namespace.labels.contains_key(PRIMARY_NETWORK_LABEL))
    }
}

/// Selectors by one label that each of them needs, so that a namespace is only compared with those that it may match.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelectorIndex {
    by_label: BTreeMap<(String, String), BTreeSet<ObjectName>>,
    /// Selectors that need no label with a certain value.
    broad: BTreeSet<ObjectName>,
}

impl SelectorIndex {
    pub(crate) fn insert(&mut self, name: &ObjectName, selector: &LabelSelector) {
        let needed = needed_labels(selector);
        if needed.is_empty() {
            self.broad.insert(name.clone());
        }
        for label in needed {
            self.by_label.entry(label).or_default().insert(name.clone());
        }
    }

    pub(crate) fn remove(&mut self, name: &ObjectName, selector: &LabelSelector) {
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
    pub(crate) fn candidates(&self, labels: &Texts) -> BTreeSet<ObjectName> {
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
