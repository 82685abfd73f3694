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
    /// In how many namespaces two networks come one after the other by name. All of a namespace are side by side by this, and there
    /// are no more of it than networks.
    beside: BTreeMap<NetworkName, BTreeMap<NetworkName, u32>>,
    /// The connection that a network is in.
    joined: BTreeMap<NetworkName, ConnectName>,
    roads: BTreeMap<ConnectName, Road>,
    /// The connections whose networks have a set in common: only one of them can have its name.
    of_set: BTreeMap<NetworkSet, BTreeSet<ConnectName>>,
}

/// What is on a connection, and the set whose name that has, or would have.
#[derive(Clone, Debug)]
struct Road {
    members: BTreeSet<NetworkName>,
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

/// Two networks of a namespace that come one after the other.
type Pair<'a> = (&'a NetworkName, &'a NetworkName);

fn pairs(networks: &BTreeSet<NetworkName>) -> BTreeSet<Pair<'_>> {
    networks.iter().zip(networks.iter().skip(1)).collect()
}

impl Siblings {
    /// Counts that a namespace has other networks now, and gives those that are side by side with somebody else than before.
    fn count(
        &mut self,
        before: &BTreeSet<NetworkName>,
        after: &BTreeSet<NetworkName>,
    ) -> BTreeSet<NetworkName> {
        let (before, after) = (pairs(before), pairs(after));
        let gone = before.difference(&after).map(|pair| (*pair, false));
        let come = after.difference(&before).map(|pair| (*pair, true));
        let mut moved = BTreeSet::new();
        for ((one, other), add) in gone.chain(come) {
            self.count_one(one, other, add);
            if self.count_one(other, one, add) {
                moved.extend([one.clone(), other.clone()]);
            }
        }
        moved
    }

    /// Whether they are side by side in a first namespace now, or were in the last one.
    fn count_one(&mut self, one: &NetworkName, other: &NetworkName, add: bool) -> bool {
        let beside = self.beside.entry(one.clone()).or_default();
        let count = beside.entry(other.clone()).or_default();
        *count = if add { *count + 1 } else { count.saturating_sub(1) };
        let count = *count;
        if count == 0 {
            beside.remove(other);
        }
        if beside.is_empty() {
            self.beside.remove(one);
        }
        count == u32::from(add)
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
        let names: BTreeSet<&ConnectName> = networks.iter().filter_map(|one| self.joined.get(one)).collect();
        let with_them = names.into_iter().filter_map(|name| self.roads.get(name));
        let mut all: BTreeSet<NetworkName> = with_them.flat_map(|road| &road.members).cloned().collect();
        let mut around = BTreeSet::new();
        for network in networks.iter().filter(|one| self.beside.contains_key(*one)) {
            // Who is around one of them is around each.
            if !around.contains(network) {
                around.append(&mut self.around(network));
            }
        }
        all.append(&mut around);
        all.extend(networks);
        all
    }

    /// The networks on connections that have the name of one of these sets, or would have it.
    fn of_sets(&self, sets: &BTreeSet<NetworkSet>) -> impl Iterator<Item = &NetworkName> {
        let names = sets.iter().filter_map(|set| self.of_set.get(set)).flatten();
        names.filter_map(|name| self.roads.get(name)).flat_map(|road| &road.members)
    }

    fn set(&self, network: &NetworkName) -> Option<NetworkSet> {
        self.roads.get(self.joined.get(network)?)?.set
    }

    fn join(&mut self, name: &ConnectName, road: Road) {
        for member in &road.members {
            self.joined.insert(member.clone(), name.clone());
        }
        if let Some(set) = road.set {
            self.of_set.entry(set).or_default().insert(name.clone());
        }
        self.roads.insert(name.clone(), road);
    }

    /// A network is in no connection any more, and gives the one that it was in. A connection is left by all of its networks.
    fn leave(&mut self, network: &NetworkName) -> Option<ConnectName> {
        let name = self.joined.remove(network)?;
        if let Some(set) = self.roads.remove(&name).and_then(|road| road.set)
            && let Some(names) = self.of_set.get_mut(&set)
        {
            names.remove(&name);
            if names.is_empty() {
                self.of_set.remove(&set);
            }
        }
        Some(name)
    }
}

impl Zone {
    /// The primary networks of a namespace.
    fn primary_set(&self, namespace: &NamespaceName) -> BTreeSet<NetworkName> {
        self.primaries(namespace).into_iter().map(|(_, network)| network.clone()).collect()
    }

    /// Definitions of a namespace have changed; before that, these were its primary networks. Of some networks something else is said now.
    /// Where the namespace only does what others do already, nobody is looked at.
    pub(super) fn siblings_changed(
        &mut self,
        namespace: &NamespaceName,
        before: &BTreeSet<NetworkName>,
        said: BTreeSet<NetworkName>,
        changes: &mut Changes,
    ) {
        let after = self.primary_set(namespace);
        let moved = self.siblings.count(before, &after);
        let changed = changes.iter().filter_map(|change| match change {
            Change::Network(network) => Some(network.clone()),
            _ => None,
        });
        let seeds: BTreeSet<NetworkName> = changed.chain(moved).chain(said).collect();
        let mut concerned = self.siblings.concerned(seeds);
        let others = self.of_their_sets(&concerned);
        concerned.extend(others);
        let old: BTreeSet<ConnectName> =
            concerned.iter().filter_map(|one| self.siblings.leave(one)).collect();
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
        let before = networks.iter().filter_map(|one| self.siblings.set(one));
        self.siblings.of_sets(&now.chain(before).collect()).cloned().collect()
    }

    /// The connections that these networks are in.
    fn sibling_connections(&mut self, networks: BTreeSet<NetworkName>) -> BTreeMap<ConnectName, ConnectInfo> {
        let (mut taken, mut found) = (BTreeSet::new(), BTreeMap::new());
        for Group { first, members, set, places } in self.sibling_groups(networks) {
            let name = name_of(first, set.filter(|set| taken.insert(*set)));
            self.siblings.join(&name, Road { members, set });
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
