//! How networks get their places.
//!
//! Connections that share a network, directly or through others, are settled together: all their networks take
//! their turns, incumbents first, and each is checked against those before it.

use std::collections::BTreeSet;

use causeway_alloc::{ConnectPool, Epoch, RefusalReason};
use causeway_types::{Cidr, ConnectName, ConnectOwner, ConnectSubnet, NetworkId, NetworkName};

use super::check::{Clashes, Names};
use super::engine::{Change, Connections, Dirty, Entry};
use super::input::{Connect, Network, NodeRecord};
use super::reason::LeftOut;

/// Who has a place, and who has one but has changed since, comes before who has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Incumbent,
    Changed,
    Newcomer,
}

/// Who asks for a place first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    standing: Standing,
    created: i64,
    connect: ConnectName,
    /// Of one connection's networks, the one that it holds comes first, also while it connects nothing.
    fresh: bool,
    network: NetworkId,
}

impl Connections {
    /// All connections that share a selected network with these, directly or through others.
    pub(super) fn component(&mut self, from: Dirty) -> Dirty {
        if self.entries.len() <= 1 {
            return from;
        }
        let (mut reached, mut followed) = (Dirty::new(), BTreeSet::new());
        let mut open: Vec<&ConnectName> = from.iter().collect();
        while let Some(name) = open.pop() {
            if reached.insert(name.clone()) {
                let networks = self.entries.get(name).into_iter().flat_map(|entry| &entry.selected);
                let fresh = networks.filter(|network| followed.insert(*network));
                open.extend(fresh.flat_map(|network| self.selecting.of(network)));
            }
        }
        self.selecting.followed += followed.len();
        reached
    }

    pub(super) fn settle(&mut self, dirty: Dirty) -> Dirty {
        self.settle_after(dirty, None)
    }

    /// Decides about these connections, and all that share a network with them, from what they select and hold.
    /// A network that has changed must not push out another by growing into its addresses. Who waits for the name
    /// of a port asks again: anybody may have let go of it.
    pub(super) fn settle_after(&mut self, dirty: Dirty, changed: Option<&NetworkName>) -> Dirty {
        let dirty: Dirty = self.waiting_for_names.iter().cloned().chain(dirty).collect();
        if dirty.is_empty() {
            return dirty;
        }
        let component = self.component(dirty);
        // Whoever connects nothing afterwards may have to make room for an older one.
        for _ in &component {
            let before = self.idle(&component);
            self.settle_once(&component, changed);
            if self.idle(&component).is_subset(&before) {
                break;
            }
        }
        component
    }

    fn settle_once(&mut self, component: &Dirty, changed: Option<&NetworkName>) {
        self.web.forget(component);
        self.clashes.clear();
        let mut turns = Vec::new();
        for name in component {
            self.let_go(name);
            turns.extend(self.turns(name, changed));
        }
        turns.sort();
        for turn in turns {
            self.admit(&turn.connect, turn.network);
        }
    }

    /// Those that connect nothing: they hold one place.
    fn idle(&self, connects: &Dirty) -> Dirty {
        let entries = connects.iter().filter_map(|name| self.entries.get(name));
        let idle = entries.filter(|entry| !entry.connects() && entry.pool.owners().next().is_some());
        idle.map(|entry| entry.connect.name.clone()).collect()
    }

    /// Gives back the places of networks that are no longer selected, or of all if the connection is refused.
    fn let_go(&mut self, name: &ConnectName) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        entry.left_out.clear();
        self.waiting_for_names.remove(name);
        let selected = entry.selected.iter().filter_map(|name| self.networks.get(name));
        let wanted: BTreeSet<ConnectOwner> = match entry.refused {
            Some(_) => BTreeSet::new(),
            None => selected.filter_map(Network::owner).collect(),
        };
        let gone: Vec<ConnectOwner> = entry.pool.owners().filter(|owner| !wanted.contains(owner)).collect();
        for owner in gone {
            release(&mut entry.pool, owner, self.epoch);
        }
    }

    /// When each selected network of a connection has its turn: those with a place first.
    fn turns(&self, name: &ConnectName, changed: Option<&NetworkName>) -> Vec<Turn> {
        let Some(entry) = self.entries.get(name).filter(|entry| entry.refused.is_none()) else {
            return Vec::new();
        };
        let turn = |network: &Network| match self.turn(entry, network)? {
            turn if turn.standing == Standing::Incumbent && changed == Some(&network.name) => {
                Some(Turn { standing: Standing::Changed, ..turn })
            }
            turn => Some(turn),
        };
        let selected = entry.selected.iter().filter_map(|name| self.networks.get(name));
        selected.filter_map(turn).collect()
    }

    /// Connections begin or cease to select networks. A newcomer cannot help anybody who was left out, and who
    /// leaves cannot if nobody is; otherwise everybody gets another chance.
    pub(super) fn update(&mut self, change: Change) -> Dirty {
        let dirty = change.connects();
        let waiting =
            !change.added.is_empty() || self.entries.values().any(|entry| !entry.left_out.is_empty());
        if (waiting && !change.removed.is_empty()) || self.meets_idle(&change.added) {
            return self.settle(&dirty | &self.selecting(&change.removed));
        }
        for (connect, network) in &change.removed {
            self.leave(connect, network);
        }
        self.take_in(&change.added);
        dirty
    }

    /// Whether somebody who connects nothing shares a network with one of these that is older.
    fn meets_idle(&mut self, added: &[(ConnectName, NetworkName)]) -> bool {
        let age = |entry: &Entry| (entry.connect.created, entry.connect.name.clone());
        let adding: Dirty = added.iter().map(|(connect, _)| connect.clone()).collect();
        let Some(oldest) = adding.iter().filter_map(|name| self.entries.get(name)).map(age).min() else {
            return false;
        };
        let all: Dirty = self.entries.keys().cloned().collect();
        let younger: Dirty = self
            .idle(&all)
            .into_iter()
            .filter(|name| self.entries.get(name).is_some_and(|entry| age(entry) > oldest))
            .collect();
        !younger.is_empty() && !self.component(adding).is_disjoint(&younger)
    }

    /// Who else selects these networks: it may have been the one that left who was in their way.
    fn selecting(&self, removed: &[(ConnectName, NetworkName)]) -> Dirty {
        removed.iter().flat_map(|(_, network)| self.selecting.of(network)).cloned().collect()
    }

    fn leave(&mut self, connect: &ConnectName, network: &NetworkName) {
        let Some(network) = self.networks.get(network) else { return };
        if let Some(id) = network.id {
            self.web.leave(connect, network, id);
        }
        if let Some((entry, owner)) = self.entries.get_mut(connect).zip(network.owner()) {
            release(&mut entry.pool, owner, self.epoch);
        }
    }

    fn take_in(&mut self, added: &[(ConnectName, NetworkName)]) {
        let turn = |(connect, network): &(ConnectName, NetworkName)| {
            let entry = self.entries.get(connect).filter(|entry| entry.refused.is_none())?;
            self.turn(entry, self.networks.get(network)?)
        };
        let mut turns: Vec<Turn> = added.iter().filter_map(turn).collect();
        turns.sort();
        for turn in turns {
            self.admit(&turn.connect, turn.network);
        }
    }

    fn turn(&self, entry: &Entry, network: &Network) -> Option<Turn> {
        let held = network.owner().is_some_and(|owner| entry.pool.holds(owner));
        // Who connects nothing yet is in the way of younger ones only.
        let standing = if held && entry.connects() { Standing::Incumbent } else { Standing::Newcomer };
        Some(Turn {
            standing,
            created: entry.connect.created,
            connect: entry.connect.name.clone(),
            fresh: !held,
            network: network.id?,
        })
    }

    fn admit(&mut self, name: &ConnectName, id: NetworkId) {
        let Some(network) = self.ids.get(&id).and_then(|name| self.networks.get(name)) else { return };
        let Some(entry) = self.entries.get_mut(name) else { return };
        let names = Names { networks: &self.networks, ids: &self.ids };
        let checked = self.web.check(&entry.connect, network, id, &names, &mut self.clashes).and_then(|()| {
            let named = self.web.port_names(&entry.connect, network, &names, &self.nodes);
            if named.is_err() {
                self.waiting_for_names.insert(name.clone());
            }
            named
        });
        match checked.and_then(|()| place(entry, network)) {
            Ok(()) => self.web.join(&entry.connect, network, id),
            Err(left_out) => {
                if let Some(owner) = network.owner() {
                    release(&mut entry.pool, owner, self.epoch);
                }
                entry.left_out.insert(network.name.clone(), left_out);
            }
        }
    }

    /// Why a network is left out now. When it was decided, another reason may have come first; but what is said
    /// must follow from what is, not from the order in which it came about.
    pub(super) fn explain(
        &self,
        entry: &Entry,
        network: &NetworkName,
        at_the_time: &LeftOut,
        clashes: &mut Clashes,
    ) -> LeftOut {
        let names = Names { networks: &self.networks, ids: &self.ids };
        let mut now = || {
            let network = self.networks.get(network)?;
            let checked = self.web.check(&entry.connect, network, network.id?, &names, clashes);
            let named = || self.web.port_names(&entry.connect, network, &names, &self.nodes);
            checked.and_then(|()| named()).and_then(|()| room(entry, network)).err()
        };
        now().unwrap_or_else(|| at_the_time.clone())
    }

    pub(super) fn nodes_left_out(&self, entry: &Entry) -> Vec<LeftOut> {
        let first = entry.pool.owners().find(|owner| matches!(owner, ConnectOwner::Layer3(_)));
        let network = first.and_then(|owner| self.networks.get(self.ids.get(&owner.network())?));
        let Some(network) = network else {
            return Vec::new();
        };
        let slots = entry.pool.slots();
        let Some(subnet) = fewest_links(&entry.connect) else { return Vec::new() };
        let beyond = |node: &&NodeRecord| !entry.pool.nodes_without_link(&[node.id]).is_empty();
        let without = self.nodes.all.values().filter(beyond);
        without.map(|node| LeftOut::node_exhausted(subnet, network, node, slots)).collect()
    }
}

fn place(entry: &mut Entry, network: &Network) -> Result<(), LeftOut> {
    room(entry, network)?;
    if let Some(owner) = network.owner() {
        // `room` has asked the same question, so this cannot be refused.
        entry.pool.reserve(owner).ok();
    }
    Ok(())
}

/// Whether there is a block or parcel for the network.
fn room(entry: &Entry, network: &Network) -> Result<(), LeftOut> {
    let refusal = network.owner().and_then(|owner| entry.pool.refusal(owner));
    let left_out =
        |why: RefusalReason| LeftOut::network_exhausted(smallest(&entry.connect), network, &why.to_string());
    refusal.map_or(Ok(()), |why| Err(left_out(why)))
}

/// The subnet whose blocks have the fewest links: the one to enlarge.
fn fewest_links(connect: &Connect) -> Option<&ConnectSubnet> {
    connect.subnets.iter().min_by_key(|subnet| (subnet.links_per_block(), subnet.blocks()))
}

pub(super) fn smallest(connect: &Connect) -> Cidr {
    fewest_links(connect).unwrap_or(&connect.subnets[0]).cidr()
}

fn release(pool: &mut ConnectPool, owner: ConnectOwner, epoch: Epoch) {
    pool.quarantine(owner, epoch);
    pool.release(owner);
}
