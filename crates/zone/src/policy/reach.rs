//! Classes of networks: those whose pods a policy's selectors reach.
//!
//! The reach of a network is itself and whatever a connection grants it for pods. Networks with the same reach share sets of
//! addresses. A class is known here while a policy is about a pod of this node on a network of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_types::NetworkName;

use super::sets::mark;

/// The networks that selectors of one network's policies reach.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Class {
    /// The network's name where it is alone, else a mark of all of them.
    pub key: Arc<str>,
    /// All that the selectors reach, the policies' own network included.
    pub networks: BTreeSet<NetworkName>,
}

impl Class {
    fn new(networks: BTreeSet<NetworkName>) -> Self {
        let mut names = networks.iter();
        let key = match (names.next(), names.next()) {
            (Some(only), None) => only.as_str().into(),
            // No network has such a name.
            _ => {
                format!("+{}", mark(&networks.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ")))
                    .into()
            }
        };
        Self { key, networks }
    }

    /// Where addresses of the class are known: on its networks, and on nodes.
    pub(super) fn places(&self) -> impl Iterator<Item = Option<NetworkName>> {
        self.networks.iter().cloned().map(Some).chain([None])
    }
}

/// The classes of networks that have policies here.
#[derive(Debug, Default)]
pub(super) struct Classes {
    of: BTreeMap<NetworkName, Arc<Class>>,
    by_key: BTreeMap<Arc<str>, (Arc<Class>, u32)>,
    containing: BTreeMap<NetworkName, BTreeSet<Arc<str>>>,
}

impl Classes {
    pub(super) fn of(&self, network: &NetworkName) -> Option<&Arc<Class>> {
        self.of.get(network)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Class> {
        self.by_key.get(key).map(|(class, _)| &**class)
    }

    /// The classes with a network, or all of them for nodes, which are on none.
    pub(super) fn with(&self, network: Option<&NetworkName>) -> Vec<Arc<str>> {
        match network {
            Some(network) => self.containing.get(network).into_iter().flatten().cloned().collect(),
            None => self.by_key.keys().cloned().collect(),
        }
    }

    /// Gives a network its class, or takes it away.
    pub(super) fn set(
        &mut self,
        network: &NetworkName,
        reach: Option<BTreeSet<NetworkName>>,
    ) -> Option<Arc<Class>> {
        let new = reach.map(Class::new);
        if let Some(class) = &new {
            self.enter(network, class);
        }
        let old = match &new {
            Some(_) => None,
            None => self.of.remove(network),
        };
        if let Some(old) = &old {
            self.leave(old);
        }
        self.of.get(network).cloned()
    }

    fn enter(&mut self, network: &NetworkName, class: &Class) {
        let known = self.by_key.entry(class.key.clone()).or_insert_with(|| (Arc::new(class.clone()), 0));
        known.1 += 1;
        let class = known.0.clone();
        for member in &class.networks {
            self.containing.entry(member.clone()).or_default().insert(class.key.clone());
        }
        if let Some(old) = self.of.insert(network.clone(), class) {
            self.leave(&old);
        }
    }

    fn leave(&mut self, class: &Class) {
        let Some((_, count)) = self.by_key.get_mut(&class.key) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        self.by_key.remove(&class.key);
        for member in &class.networks {
            if let Some(keys) = self.containing.get_mut(member) {
                keys.remove(&class.key);
                if keys.is_empty() {
                    self.containing.remove(member);
                }
            }
        }
    }
}
