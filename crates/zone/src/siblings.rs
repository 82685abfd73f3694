//! Siblings: networks that are primary in the same namespaces. Their pods reach each other by a connection that no object asks for.
//!
//! Which networks are side by side follows from attachment definitions alone, and the links from the networks' numbers, so every zone
//! finds the same. That they may be is the cluster manager's decision: it numbers no definition of a network that may not.

use std::collections::{BTreeMap, BTreeSet};

use causeway_types::{Cidr, ConnectName, NamespaceName, NetworkId, NetworkName, NetworkOrigin, sibling_link};

use super::connect::{ConnectInfo, Place};
use super::{Change, Changes, Zone};

/// Who is beside whom.
#[derive(Debug, Default)]
pub(super) struct Siblings {
    /// In how many namespaces two networks are side by side.
    beside: BTreeMap<NetworkName, BTreeMap<NetworkName, u32>>,
    /// The connection that a network is in.
    sets: BTreeMap<NetworkName, ConnectName>,
}

impl Siblings {
    /// Counts that all of these are side by side in one more namespace, or in one less.
    fn count(&mut self, networks: &BTreeSet<NetworkName>, add: bool) {
        for one in networks {
            for other in networks.iter().filter(|other| *other != one) {
                let beside = self.beside.entry(one.clone()).or_default();
                let count = beside.entry(other.clone()).or_default();
                *count = if add { *count + 1 } else { count.saturating_sub(1) };
                if *count == 0 {
                    beside.remove(other);
                }
            }
            if self.beside.get(one).is_some_and(BTreeMap::is_empty) {
                self.beside.remove(one);
            }
        }
    }

    /// The network and all that are side by side with it, or with one that is.
    fn around(&self, network: &NetworkName) -> BTreeSet<NetworkName> {
        let mut found = BTreeSet::from([network.clone()]);
        let mut next = vec![network];
        while let Some(one) = next.pop() {
            for other in self.beside.get(one).into_iter().flat_map(BTreeMap::keys) {
                if found.insert(other.clone()) {
                    next.push(other);
                }
            }
        }
        found
    }

    /// Everybody whose connection may be another one after a change of these.
    fn concerned(&self, networks: BTreeSet<NetworkName>) -> BTreeSet<NetworkName> {
        let names: BTreeSet<&ConnectName> = networks.iter().filter_map(|one| self.sets.get(one)).collect();
        let with_them = self.sets.iter().filter(|(_, name)| names.contains(name)).map(|(one, _)| one.clone());
        let mut all: BTreeSet<NetworkName> = with_them.collect();
        for network in networks.into_iter().filter(|one| self.beside.contains_key(one)) {
            all.extend(self.around(&network));
        }
        all
    }
}

impl Zone {
    /// The primary networks of a namespace.
    pub(super) fn primary_set(&self, namespace: &NamespaceName) -> BTreeSet<NetworkName> {
        self.primaries(namespace).into_iter().map(|(_, network)| network.clone()).collect()
    }

    /// Definitions of a namespace have changed; before that, these were its primary networks.
    pub(super) fn siblings_changed(
        &mut self,
        namespace: &NamespaceName,
        before: BTreeSet<NetworkName>,
        changes: &mut Changes,
    ) {
        let after = self.primary_set(namespace);
        if before != after {
            self.siblings.count(&before, false);
            self.siblings.count(&after, true);
        }
        let changed = changes.iter().filter_map(|change| match change {
            Change::Network(network) => Some(network.clone()),
            _ => None,
        });
        let concerned = self.siblings.concerned(changed.chain(before).chain(after).collect());
        let old: BTreeSet<ConnectName> =
            concerned.iter().filter_map(|one| self.siblings.sets.remove(one)).collect();
        let new = self.sibling_sets(concerned);
        for name in old.iter().filter(|name| !new.contains_key(*name)) {
            changes.merge(self.set_siblings(name, None));
        }
        for (name, info) in new {
            changes.merge(self.set_siblings(&name, Some(info)));
        }
    }

    /// The connections that these networks are in.
    fn sibling_sets(&mut self, mut networks: BTreeSet<NetworkName>) -> BTreeMap<ConnectName, ConnectInfo> {
        let mut sets = BTreeMap::new();
        while let Some(network) = networks.pop_first() {
            let members = self.siblings.around(&network);
            networks.retain(|other| !members.contains(other));
            let mut places = BTreeMap::new();
            let ids: BTreeSet<(NetworkId, &NetworkName)> =
                members.iter().filter_map(|name| Some((self.networks.said(name)?.id, name))).collect();
            for (id, name) in &ids {
                places.extend(self.place_of_sibling(name).map(|place| (*id, place)));
            }
            let Some(name) = ids.first().filter(|_| places.len() > 1).map(|first| name_of(*first)) else {
                continue;
            };
            for member in members {
                self.siblings.sets.insert(member, name.clone());
            }
            sets.insert(name.clone(), ConnectInfo::of_siblings(name, places));
        }
        sets
    }

    fn place_of_sibling(&self, network: &NetworkName) -> Option<Result<Place, String>> {
        let spec = self.networks.said(network)?;
        let links = self.config.cluster.masquerade_subnets.iter().map(|subnet| sibling_link(subnet, spec.id));
        let links: Result<Vec<Cidr>, _> = links.collect();
        let place = |links| Place::of_sibling(spec.network.topology, links, spec.id);
        Some(links.map(place).map_err(|error| error.to_string()))
    }
}

/// UserDefinedNetworks are of their namespace, whichever of them comes or goes. Others are called like the first of them: should that
/// go, its successor's road is there before the old one is taken down.
fn name_of((id, network): (NetworkId, &NetworkName)) -> ConnectName {
    match network.origin() {
        NetworkOrigin::Namespaced(namespace, _) => ConnectName::of_siblings_in(&namespace),
        _ => ConnectName::of_siblings(id),
    }
}
