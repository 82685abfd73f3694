//! Everybody whom a selector may select: pods of the whole cluster, by what selectors look at.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use causeway_api::selector::{Labels, SelectorIndex};
use causeway_record::NamedPort;
use causeway_types::{NadKey, NamespaceName, NetworkName, NodeName};

use super::info::{PodSelector, Scope};

/// A pod as selectors see it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::policy) struct Person {
    pub(in crate::policy) namespace: Arc<NamespaceName>,
    pub(in crate::policy) labels: Arc<Labels>,
    pub(in crate::policy) ports: Box<[NamedPort]>,
    pub(in crate::policy) place: Place,
    pub(in crate::policy) addresses: Box<[IpAddr]>,
    /// Whether it runs on this node.
    pub(in crate::policy) here: bool,
}

/// Where a pod's addresses are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::policy) enum Place {
    /// On its primary network, by this attachment; none is the default network's.
    Attached { attachment: Option<Arc<NadKey>>, network: Option<Arc<NetworkName>> },
    /// On its node's own network.
    Host(NodeName),
}

impl Person {
    /// The network whose policies are about it.
    pub(in crate::policy) fn network(&self) -> Option<&NetworkName> {
        match &self.place {
            Place::Attached { network, .. } => network.as_deref(),
            Place::Host(_) => None,
        }
    }

    /// The network that its addresses are known on; `Some(None)` is every network.
    pub(in crate::policy) fn known_on(&self) -> Option<Option<&NetworkName>> {
        match &self.place {
            Place::Attached { network, .. } => network.as_deref().map(Some),
            Place::Host(_) => Some(None),
        }
    }

    pub(in crate::policy) fn is_host(&self) -> bool {
        matches!(self.place, Place::Host(_))
    }
}

/// All pods, found by name and namespace.
#[derive(Debug, Default)]
pub(in crate::policy) struct People {
    /// Boxed, since a table is half empty when it has just grown.
    all: HashMap<Arc<str>, Box<Person>>,
    by_namespace: BTreeMap<Arc<NamespaceName>, BTreeSet<Arc<str>>>,
    on_hosts: BTreeMap<NodeName, BTreeSet<Arc<str>>>,
    /// Those of this node, by namespace.
    here: BTreeMap<Arc<NamespaceName>, BTreeSet<Arc<str>>>,
    /// Each set of labels once: most pods have the labels of many others.
    labels: HashSet<Arc<Labels>>,
    /// Each name of a network once.
    networks: HashSet<Arc<NetworkName>>,
}

impl People {
    pub(in crate::policy) fn get(&self, key: &str) -> Option<&Person> {
        self.all.get(key).map(|person| &**person)
    }

    pub(in crate::policy) fn labels(&mut self, labels: &Labels) -> Arc<Labels> {
        one_copy(&mut self.labels, labels)
    }

    pub(in crate::policy) fn network(&mut self, network: &NetworkName) -> Arc<NetworkName> {
        one_copy(&mut self.networks, network)
    }

    /// The one copy of a namespace's name that all its pods share.
    pub(in crate::policy) fn namespace(&self, name: &NamespaceName) -> Arc<NamespaceName> {
        let known = self.by_namespace.get_key_value(name).map(|(name, _)| name.clone());
        known.unwrap_or_else(|| Arc::new(name.clone()))
    }

    pub(in crate::policy) fn set(&mut self, key: &str, person: Option<Person>) -> Option<Person> {
        let old = self.all.remove(key).map(|person| *person);
        if let Some(old) = &old {
            leave(&mut self.by_namespace, &old.namespace, key);
            leave(&mut self.here, &old.namespace, key);
            if let Place::Host(node) = &old.place {
                leave(&mut self.on_hosts, node, key);
            }
        }
        if let Some(person) = person {
            let key: Arc<str> = key.into();
            self.by_namespace.entry(person.namespace.clone()).or_default().insert(key.clone());
            if person.here {
                self.here.entry(person.namespace.clone()).or_default().insert(key.clone());
            }
            if let Place::Host(node) = &person.place {
                self.on_hosts.entry(node.clone()).or_default().insert(key.clone());
            }
            self.all.insert(key, Box::new(person));
        }
        if let Some(old) = &old {
            forget(&mut self.labels, &old.labels);
            if let Place::Attached { network: Some(network), .. } = &old.place {
                forget(&mut self.networks, network);
            }
        }
        old
    }

    pub(in crate::policy) fn keys_in(&self, namespace: &NamespaceName) -> impl Iterator<Item = &Arc<str>> {
        self.by_namespace.get(namespace).into_iter().flatten()
    }

    pub(in crate::policy) fn keys_on_host(&self, node: &NodeName) -> impl Iterator<Item = &Arc<str>> {
        self.on_hosts.get(node).into_iter().flatten()
    }

    /// Pods of this node in a namespace.
    pub(in crate::policy) fn here_in(
        &self,
        namespace: &NamespaceName,
    ) -> impl Iterator<Item = (&Arc<str>, &Person)> {
        let keys = self.here.get(namespace).into_iter().flatten();
        keys.filter_map(|key| Some((key, &**self.all.get(key)?)))
    }

    /// Namespaces with pods on this node.
    pub(in crate::policy) fn namespaces_here(&self) -> impl Iterator<Item = &NamespaceName> {
        self.here.keys().map(|name| &**name)
    }

    pub(in crate::policy) fn in_namespace(
        &self,
        namespace: &NamespaceName,
    ) -> impl Iterator<Item = (&Arc<str>, &Person)> {
        self.keys_in(namespace).filter_map(|key| Some((key, &**self.all.get(key)?)))
    }
}

/// The one copy of a value that all who have it share.
fn one_copy<T: Clone + Eq + Hash>(known: &mut HashSet<Arc<T>>, value: &T) -> Arc<T> {
    if let Some(known) = known.get(value) {
        return known.clone();
    }
    let value = Arc::new(value.clone());
    known.insert(value.clone());
    value
}

/// Gives a copy up that nobody else has: there are the index's own and this one.
fn forget<T: Eq + Hash>(known: &mut HashSet<Arc<T>>, value: &Arc<T>) {
    if Arc::strong_count(value) == 2 {
        known.remove(value);
    }
}

fn leave<K: Ord>(index: &mut BTreeMap<K, BTreeSet<Arc<str>>>, at: &K, key: &str) {
    if let Some(keys) = index.get_mut(at) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(at);
        }
    }
}

/// Selectors of pods, found by what they need, so that a pod is compared with those alone that may select it.
#[derive(Clone, Debug)]
pub(in crate::policy) struct PodSelectors<K> {
    in_one: BTreeMap<NamespaceName, SelectorIndex<K>>,
    /// Those that need a label of the pod.
    by_pod: SelectorIndex<K>,
    /// The others, by labels of the namespace.
    by_namespace: SelectorIndex<K>,
}

impl<K: Clone + Ord> Default for PodSelectors<K> {
    fn default() -> Self {
        Self {
            in_one: BTreeMap::new(),
            by_pod: SelectorIndex::default(),
            by_namespace: SelectorIndex::default(),
        }
    }
}

impl<K: Clone + Ord> PodSelectors<K> {
    pub(in crate::policy) fn insert(&mut self, key: &K, selector: &PodSelector) {
        let needed = selector.pods.needed();
        match &selector.namespaces {
            Scope::One(name) => self.in_one.entry(name.clone()).or_default().insert(key, needed),
            Scope::Matching(_) if !needed.is_empty() => self.by_pod.insert(key, needed),
            Scope::Matching(namespaces) => self.by_namespace.insert(key, namespaces.needed()),
        }
    }

    pub(in crate::policy) fn remove(&mut self, key: &K, selector: &PodSelector) {
        let needed = selector.pods.needed();
        match &selector.namespaces {
            Scope::One(name) => {
                let Some(index) = self.in_one.get_mut(name) else { return };
                index.remove(key, needed);
                if index.is_empty() {
                    self.in_one.remove(name);
                }
            }
            Scope::Matching(_) if !needed.is_empty() => self.by_pod.remove(key, needed),
            Scope::Matching(namespaces) => self.by_namespace.remove(key, namespaces.needed()),
        }
    }

    /// Those that may select a pod with these labels in a namespace with these.
    pub(in crate::policy) fn candidates(
        &self,
        namespace: &NamespaceName,
        of_namespace: Option<&Labels>,
        labels: &Labels,
    ) -> BTreeSet<K> {
        let mut all = self.in_one.get(namespace).map(|index| index.candidates(labels)).unwrap_or_default();
        if let Some(of_namespace) = of_namespace {
            all.extend(self.by_pod.candidates(labels));
            all.extend(self.by_namespace.candidates(of_namespace));
        }
        all
    }
}
