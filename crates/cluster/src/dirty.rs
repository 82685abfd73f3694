//! What must be looked at again.

use std::collections::{BTreeMap, BTreeSet};

use causeway_record::ObjectKey;
use causeway_types::{ConnectName, NamespaceName, NodeName};

use crate::OwnerKey;
use crate::connect::Reach;

/// What became dirty; each set is emptied before `step` returns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dirty {
    pub(crate) nodes: BTreeSet<NodeName>,
    /// Whether names or VRF names may clash now that did not before.
    pub(crate) clashes: bool,
    pub(crate) nads: BTreeSet<ObjectKey>,
    pub(crate) owners: BTreeMap<OwnerKey, Scope>,
    pub(crate) pods: BTreeSet<ObjectKey>,
    /// Slices whose mirror may have to change; it does not matter whether they are there.
    pub(crate) slices: BTreeSet<ObjectKey>,
    pub(crate) statuses: BTreeSet<OwnerKey>,
    /// What connections must be told again.
    pub(crate) reach: Reach,
    pub(crate) connects: BTreeSet<ConnectName>,
    pub(crate) connect_statuses: BTreeSet<ConnectName>,
}

/// How much of an owner must be looked at: a network may have thousands of namespaces.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Scope {
    /// All of it.
    All,
    /// What is in these namespaces.
    Namespaces(BTreeSet<NamespaceName>),
}

impl Scope {
    pub(crate) fn has(&self, namespace: &NamespaceName) -> bool {
        match self {
            Self::All => true,
            Self::Namespaces(namespaces) => namespaces.contains(namespace),
        }
    }
}

impl Dirty {
    /// All of these owners must be looked at.
    pub(crate) fn owners(&mut self, keys: impl IntoIterator<Item = OwnerKey>) {
        for key in keys {
            self.owners.insert(key, Scope::All);
        }
    }

    /// What these owners have in a namespace must be looked at.
    pub(crate) fn owners_in(&mut self, keys: impl IntoIterator<Item = OwnerKey>, namespace: &NamespaceName) {
        for key in keys {
            let scope = self.owners.entry(key).or_insert_with(|| Scope::Namespaces(BTreeSet::new()));
            if let Scope::Namespaces(namespaces) = scope {
                namespaces.insert(namespace.clone());
            }
        }
    }
}
