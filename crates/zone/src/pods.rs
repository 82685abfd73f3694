//! The pods that a zone keeps, found by name, by attachment definition and by node.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use causeway_types::{NadKey, NamespaceName, NodeName};

use super::pod::{PodInfo, nad_of};
use causeway_record::ObjectKey;

/// `namespace/name`: one text takes half of what two names take, and there may be many pods.
type PodSet = BTreeSet<Arc<str>>;

#[derive(Debug, Default)]
pub(super) struct Pods {
    entries: HashMap<Arc<str>, PodInfo>,
    by_nad: BTreeMap<Arc<NadKey>, PodSet>,
    /// Those of other nodes only.
    by_node: BTreeMap<Arc<NodeName>, PodSet>,
    /// Those of this node.
    local: PodSet,
}

impl Pods {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&PodInfo> {
        self.entries.get(key.to_string().as_str())
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn local(&self) -> impl Iterator<Item = ObjectKey> {
        self.local.iter().filter_map(|text| object(text))
    }

    pub(super) fn of_nad(&self, nad: &NadKey) -> impl Iterator<Item = ObjectKey> {
        self.by_nad.get(nad).into_iter().flatten().filter_map(|text| object(text))
    }

    pub(super) fn of_node(&self, node: &NodeName) -> impl Iterator<Item = ObjectKey> {
        self.by_node.get(node).into_iter().flatten().filter_map(|text| object(text))
    }

    /// The one copy of a node's name that all its pods share.
    pub(super) fn node(&self, node: &NodeName) -> Arc<NodeName> {
        let known = self.by_node.get_key_value(node).map(|(name, _)| name.clone());
        known.unwrap_or_else(|| Arc::new(node.clone()))
    }

    /// The one copy of a definition's key that all its pods share.
    pub(super) fn nad(&self, nad: &Arc<NadKey>) -> Arc<NadKey> {
        self.by_nad.get_key_value(nad).map_or_else(|| nad.clone(), |(key, _)| key.clone())
    }

    pub(super) fn insert(&mut self, key: &ObjectKey, pod: PodInfo, is_local: bool) {
        let key: Arc<str> = key.to_string().into();
        for attachment in pod.ports.iter().filter_map(|port| port.attachment.as_ref()) {
            self.by_nad.entry(nad_of(attachment)).or_default().insert(key.clone());
        }
        if is_local {
            self.local.insert(key.clone());
        } else {
            self.by_node.entry(pod.node.clone()).or_default().insert(key.clone());
        }
        self.entries.insert(key, pod);
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<PodInfo> {
        let key = key.to_string();
        let pod = self.entries.remove(key.as_str())?;
        for attachment in pod.ports.iter().filter_map(|port| port.attachment.as_ref()) {
            leave(&mut self.by_nad, &nad_of(attachment), &key);
        }
        leave(&mut self.by_node, &pod.node, &key);
        self.local.remove(key.as_str());
        Some(pod)
    }
}

fn leave<K: Ord>(index: &mut BTreeMap<Arc<K>, PodSet>, at: &Arc<K>, key: &str) {
    if let Some(set) = index.get_mut(at) {
        set.remove(key);
        if set.is_empty() {
            index.remove(at);
        }
    }
}

/// The names in a key; they were names when it was made.
pub(super) fn object(text: &str) -> Option<ObjectKey> {
    let (namespace, name) = text.split_once('/')?;
    Some(ObjectKey { namespace: NamespaceName::new(namespace).ok()?, name: name.to_owned() })
}
