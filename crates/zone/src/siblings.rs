//! Siblings: networks that are primary in the same namespaces. Their pods reach each other by a connection that no object asks for.
//!
//! Which networks are side by side follows from attachment definitions alone, and the links from the networks' numbers, so every zone
//! finds the same. That they may be is the cluster manager's decision: it numbers no definition of a network that may not. A connection
//! has its name from what all of its networks have in common, so none of them takes it away when it goes.

use std::collections::{BTreeMap, BTreeSet};

use causeway_types::{
    Cidr, ConnectName, NamespaceName, NetworkId, NetworkName, NetworkOrigin, NetworkSet, sibling_link,
};

use super::connect::{ConnectInfo, Place};
use super::{Change, Changes, Zone};

/// Who is beside whom.
#[derive(Debug, Default)]
pub(super) struct Siblings {
    /// In how many namespaces two networks are side by side.
    beside: BTreeMap<NetworkName, BTreeMap<NetworkName, u32>>,
    /// The connection that a network is in.
    joined: BTreeMap<NetworkName, Joined>,
}

/// A network's connection, and the set whose name that has, or would have.
#[derive(Clone, Debug)]
struct Joined {
    name: ConnectName,
    set: Option<NetworkSet>,
}

/// Networks that are side by side, directly or by others.
struct Group {
    /// The first of them.
    first: (NetworkId, NetworkName),
    members: BTreeSet<NetworkName>,
    set: Option<NetworkSet>,
    places: BTreeMap<NetworkId, Result<Place, String>>,
}

impl Siblings {
    /// Counts that some of a namespace's networks are side by side with all of them, or no longer. The others are what they were.
    fn count(&mut self, some: &BTreeSet<NetworkName>, all: &BTreeSet<NetworkName>, add: bool) {
        for one in some {
            for other in all.iter().filter(|other| *other != one) {
                self.count_one(one, other, add);
                if !some.contains(other) {
                    self.count_one(other, one, add);
                }
            }
        }
    }

    fn count_one(&mut self, one: &NetworkName, other: &NetworkName, add: bool) {
        let beside = self.beside.entry(one.clone()).or_default();
        let count = beside.entry(other.clone()).or_default();
        *count = if add { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            beside.remove(other);
        }
        if beside.is_empty() {
            self.beside.remove(one);
        }
    }

    /// The network and all that are side by side with it, or with one that is.
    fn around(&self, network: &NetworkName) -> BTreeSet<NetworkName> {
        let mut found = BTreeSet::from([network.clone()]);
        let mut next = vec![network];
        while let Some(one) = next.pop() {
            for other in self.beside.get(one).into_iter().flat_map(BTreeMap::keys) {
                // Most are known already, and names are long.
                if !found.contains(other) {
                    found.insert(other.clone());
                    next.push(other);
                }
            }
        }
        found
    }

    /// Everybody whose connection may be another one after a change of these.
    fn concerned(&self, networks: BTreeSet<NetworkName>) -> BTreeSet<NetworkName> {
        let joined = networks.iter().filter_map(|one| self.joined.get(one));
        let names: BTreeSet<&ConnectName> = joined.map(|joined| &joined.name).collect();
        let with_them =
            self.joined.iter().filter(|(_, joined)| names.contains(&joined.name)).map(|(one, _)| one.clone());
        let mut all: BTreeSet<NetworkName> = with_them.collect();
        let mut around = BTreeSet::new();
        for network in networks.into_iter().filter(|one| self.beside.contains_key(one)) {
            // Who is around one of them is around each.
            if !around.contains(&network) {
                around.append(&mut self.around(&network));
            }
        }
        all.append(&mut around);
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
        self.siblings.count(&before.difference(&after).cloned().collect(), &before, false);
        self.siblings.count(&after.difference(&before).cloned().collect(), &after, true);
        let changed = changes.iter().filter_map(|change| match change {
            Change::Network(network) => Some(network.clone()),
            _ => None,
        });
        let mut concerned = self.siblings.concerned(changed.chain(before).chain(after).collect());
        concerned.append(&mut self.of_their_sets(&concerned));
        let old: BTreeSet<ConnectName> =
            concerned.iter().filter_map(|one| self.siblings.joined.remove(one)).map(|one| one.name).collect();
        let new = self.sibling_connections(concerned);
        for name in old.iter().filter(|name| !new.contains_key(*name)) {
            changes.merge(self.set_siblings(name, None));
        }
        for (name, info) in new {
            changes.merge(self.set_siblings(&name, Some(info)));
        }
    }

    /// Networks of the sets that any of these are of, or were: while definitions are being written, those of one set may not be side by
    /// side yet, and only some of them can have its name.
    fn of_their_sets(&self, networks: &BTreeSet<NetworkName>) -> BTreeSet<NetworkName> {
        let now = networks.iter().filter_map(|one| self.networks.said(one)?.set);
        let before = networks.iter().filter_map(|one| self.siblings.joined.get(one)?.set);
        let sets: BTreeSet<NetworkSet> = now.chain(before).collect();
        let is_of_them = |one: &&NetworkName| {
            self.networks.said(one).and_then(|spec| spec.set).is_some_and(|set| sets.contains(&set))
        };
        let all = self.siblings.beside.keys().filter(|_| !sets.is_empty());
        all.filter(is_of_them).cloned().collect()
    }

    /// The connections that these networks are in.
    fn sibling_connections(&mut self, networks: BTreeSet<NetworkName>) -> BTreeMap<ConnectName, ConnectInfo> {
        let (mut taken, mut found) = (BTreeSet::new(), BTreeMap::new());
        for Group { first, members, set, places } in self.sibling_groups(networks) {
            let name = name_of(first, set.filter(|set| taken.insert(*set)));
            for member in members {
                self.siblings.joined.insert(member, Joined { name: name.clone(), set });
            }
            found.insert(name.clone(), ConnectInfo::of_siblings(name, places));
        }
        found
    }

    /// Those of these networks that have siblings, with them; the group of the first network first.
    fn sibling_groups(&self, mut networks: BTreeSet<NetworkName>) -> Vec<Group> {
        let mut groups = Vec::new();
        while let Some(network) = networks.pop_first() {
            let members = self.siblings.around(&network);
            networks.retain(|other| !members.contains(other));
            let said: BTreeMap<(NetworkId, &NetworkName), Option<NetworkSet>> = members
                .iter()
                .filter_map(|name| self.networks.said(name).map(|spec| ((spec.id, name), spec.set)))
                .collect();
            let places: BTreeMap<_, _> =
                said.keys().filter_map(|(id, name)| Some((*id, self.place_of_sibling(name)?))).collect();
            let first = said.keys().next().map(|(id, name)| (*id, (*name).clone()));
            let set = said.into_values().flatten().next();
            if let Some(first) = first.filter(|_| places.len() > 1) {
                groups.push(Group { first, members, set, places });
            }
        }
        groups.sort_by(|one, other| one.first.cmp(&other.first));
        groups
    }

    fn place_of_sibling(&self, network: &NetworkName) -> Option<Result<Place, String>> {
        let spec = self.networks.said(network)?;
        let links = self.config.cluster.masquerade_subnets.iter().map(|subnet| sibling_link(subnet, spec.id));
        let links: Result<Vec<Cidr>, _> = links.collect();
        let place = |links| Place::of_sibling(spec.network.topology, links, spec.id);
        Some(links.map(place).map_err(|error| error.to_string()))
    }
}

/// UserDefinedNetworks are of their namespace, and ClusterUserDefinedNetworks of what they select, whichever of them come and go. Where the
/// name is another connection's, or definitions do not say it, the first network gives one.
fn name_of((id, network): (NetworkId, NetworkName), set: Option<NetworkSet>) -> ConnectName {
    match (network.origin(), set) {
        (NetworkOrigin::Namespaced(namespace, _), _) => ConnectName::of_siblings_in(&namespace),
        (_, Some(set)) => ConnectName::of_set(set),
        (_, None) => ConnectName::of_siblings(id),
    }
}
