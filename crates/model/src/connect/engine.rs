//! The state of all connections, changed by events.
//!
//! A new network is taken in by itself. Everything else settles anew all connections that share a network,
//! directly or through others: whoever was left out gets another chance.

use std::collections::{BTreeMap, BTreeSet};

use causeway_alloc::{ConnectPool, ConnectRecord, Epoch, RefusalReason};
use causeway_api::annotations::{ConnectBlocks, PerFamily};
use causeway_types::{
    Cidr, ConnectName, ConnectOwner, Family, NamespaceName, NetworkId, NetworkName, NodeName,
};

use crate::Result;

use super::check::{Clashes, Names, Web, cluster_conflict};
use super::input::{Cluster, Connect, Namespace, Network, NodeRecord};
use super::reason::{Acceptance, LeftOut, Reason};
use super::select::{ByNamespace, selects};

/// The connections whose answer may have changed.
pub type Dirty = BTreeSet<ConnectName>;

#[derive(Debug, Clone)]
struct Entry {
    connect: Connect,
    pool: ConnectPool,
    by_namespace: ByNamespace,
    /// Selected networks that have an id.
    selected: BTreeSet<NetworkName>,
    left_out: BTreeMap<NetworkName, LeftOut>,
    refused: Option<LeftOut>,
}

impl Entry {
    fn standing(&self, network: &Network) -> Standing {
        match network.owner() {
            Some(owner) if self.pool.holds(owner) => Standing::Incumbent,
            _ => Standing::Newcomer,
        }
    }

    fn confirm(&mut self, connect: Connect) {
        self.connect = connect;
        self.commit();
    }

    /// What the annotation holds is written.
    fn commit(&mut self) {
        let written = self
            .connect
            .blocks
            .iter()
            .filter(|(owner, cidrs)| self.pool.subnets_of(**owner).as_ref() == Some(cidrs));
        let written: Vec<ConnectOwner> = written.map(|(owner, _)| *owner).collect();
        self.pool.commit_only(written);
    }
}

/// Whether it is the same object, and not another one of the same name.
fn is_same(old: &Connect, new: &Connect) -> bool {
    old.created == new.created && old.subnets == new.subnets
}

/// Whether nothing that is decided here has changed.
fn is_echo(old: &Connect, new: &Connect) -> bool {
    is_same(old, new) && old.selections == new.selections && old.topology == new.topology
}

/// All connections of the cluster.
#[derive(Debug, Clone)]
pub struct Connections {
    cluster: Cluster,
    epoch: Epoch,
    networks: BTreeMap<NetworkName, Network>,
    ids: BTreeMap<NetworkId, NetworkName>,
    namespaces: BTreeMap<NamespaceName, Namespace>,
    nodes: BTreeMap<NodeName, NodeRecord>,
    entries: BTreeMap<ConnectName, Entry>,
    web: Web,
    clashes: Clashes,
}

/// Who has a place, and who has one but has changed since, comes before who has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Incumbent,
    Changed,
    Newcomer,
}

/// Who asks for a place first.
type Turn = (Standing, i64, ConnectName, NetworkId);

impl Connections {
    /// The state that a complete picture gives. Half a picture would deselect what was not listed yet.
    /// What is freed from now on is listed under `epoch`.
    pub fn start(
        cluster: Cluster,
        epoch: Epoch,
        networks: impl IntoIterator<Item = Network>,
        namespaces: impl IntoIterator<Item = Namespace>,
        nodes: impl IntoIterator<Item = NodeRecord>,
        connects: impl IntoIterator<Item = Connect>,
    ) -> Result<Self> {
        let mut all = Self {
            cluster,
            epoch,
            networks: BTreeMap::new(),
            ids: BTreeMap::new(),
            namespaces: namespaces.into_iter().map(|one| (one.name.clone(), one)).collect(),
            nodes: nodes.into_iter().map(|one| (one.name.clone(), one)).collect(),
            entries: BTreeMap::new(),
            web: Web::default(),
            clashes: Clashes::new(),
        };
        for network in networks {
            all.store(network);
        }
        for connect in connects {
            let entry = all.entry(connect)?;
            all.entries.insert(entry.connect.name.clone(), entry);
        }
        let everything = all.entries.keys().cloned().collect();
        all.settle(everything);
        Ok(all)
    }

    /// What is freed from now on is listed under this epoch.
    pub fn set_epoch(&mut self, epoch: Epoch) {
        self.epoch = epoch;
    }

    /// All zones have cleared what was freed up to this epoch.
    pub fn expire(&mut self, cleared: Epoch) -> Dirty {
        let mut short = Dirty::new();
        for (name, entry) in &mut self.entries {
            entry.pool.expire(cleared);
            if entry.left_out.values().any(|left| left.reason == Reason::ConnectSubnetExhausted) {
                short.insert(name.clone());
            }
        }
        self.settle(short)
    }

    /// A network came or changed.
    pub fn apply_network(&mut self, network: Network) -> Dirty {
        let network = network.with_name_label();
        let old = self.networks.get(&network.name);
        if old == Some(&network) {
            return Dirty::new();
        }
        let name = network.name.clone();
        let known = self.forget_network(&name);
        self.store(network);
        let selecting = self.reselect(&name);
        if known.is_empty() {
            return self.take_in(&name, selecting);
        }
        self.settle_after(&known | &selecting, Some(&name))
    }

    /// A network is gone.
    pub fn delete_network(&mut self, name: &NetworkName) -> Dirty {
        let known = self.forget_network(name);
        self.settle(known)
    }

    /// A namespace came or changed, or other networks serve it.
    pub fn apply_namespace(&mut self, namespace: Namespace) -> Dirty {
        let old = self.namespaces.insert(namespace.name.clone(), namespace.clone());
        if old.as_ref() == Some(&namespace) {
            return Dirty::new();
        }
        self.renumber(old, Some(&namespace))
    }

    /// A namespace is gone.
    pub fn delete_namespace(&mut self, name: &NamespaceName) -> Dirty {
        let old = self.namespaces.remove(name);
        self.renumber(old, None)
    }

    /// A node has an id. Connections hear of it by their answer alone: no place depends on a node.
    pub fn apply_node(&mut self, node: NodeRecord) -> Dirty {
        self.nodes.insert(node.name.clone(), node);
        self.with_node_ports()
    }

    /// A node is gone.
    pub fn delete_node(&mut self, name: &NodeName) -> Dirty {
        self.nodes.remove(name);
        self.with_node_ports()
    }

    /// A connection came or changed. Only its first annotations count: later ones are our own, on their way back.
    pub fn apply_connect(&mut self, connect: Connect) -> Result<Dirty> {
        let name = connect.name.clone();
        let dirty = match self.entries.get_mut(&name) {
            Some(old) if is_echo(&old.connect, &connect) => {
                old.confirm(connect);
                return Ok(Dirty::new());
            }
            Some(_) => self.component(Dirty::from([name.clone()])),
            None => Dirty::from([name.clone()]),
        };
        let mut entry = self.entry(connect)?;
        if let Some(old) = self.entries.remove(&name).filter(|old| is_same(&old.connect, &entry.connect)) {
            entry.pool = old.pool;
            entry.pool.set_topology(entry.connect.topology);
            entry.commit();
        }
        self.entries.insert(name, entry);
        Ok(self.settle(dirty))
    }

    /// A connection is gone.
    pub fn delete_connect(&mut self, name: &ConnectName) -> Dirty {
        let mut rest = self.component(Dirty::from([name.clone()]));
        self.entries.remove(name);
        self.web.forget(&Dirty::from([name.clone()]));
        rest.remove(name);
        self.settle(rest)
    }

    /// The annotations could not be written: what they would have held is given back.
    pub fn write_failed(&mut self, name: &ConnectName) -> Dirty {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.pool.abort();
        }
        self.settle(Dirty::from([name.clone()]))
    }

    /// Whether the connection is accepted, and what is left out.
    pub fn acceptance(&self, name: &ConnectName) -> Option<Acceptance> {
        let entry = self.entries.get(name)?;
        if let Some(refused) = &entry.refused {
            return Some(Acceptance::of(vec![refused.clone()]));
        }
        let mut clashes = Clashes::new();
        let explain = |(network, at_the_time)| self.explain(entry, network, at_the_time, &mut clashes);
        let mut left_out: Vec<LeftOut> = entry.left_out.iter().map(explain).collect();
        left_out.extend(self.nodes_left_out(entry));
        let connected = entry.selected.len() - entry.left_out.len();
        if connected < 2 {
            left_out.push(LeftOut::insufficient(entry.selected.len(), connected));
        }
        Some(Acceptance::of(left_out))
    }

    /// Who has which block or slice: what the annotation is to hold.
    pub fn blocks(&self, name: &ConnectName) -> Option<BTreeMap<ConnectOwner, Vec<Cidr>>> {
        self.entries.get(name).map(|entry| blocks(&entry.pool))
    }

    /// The same as the annotation's value.
    pub fn annotation(&self, name: &ConnectName) -> Option<ConnectBlocks> {
        let of = |cidrs: &[Cidr], family| cidrs.iter().copied().find(|cidr| cidr.family() == family);
        let both =
            |cidrs: Vec<Cidr>| PerFamily { ipv4: of(&cidrs, Family::Ipv4), ipv6: of(&cidrs, Family::Ipv6) };
        let blocks = self.blocks(name)?;
        Some(ConnectBlocks(blocks.into_iter().map(|(owner, cidrs)| (owner, both(cidrs))).collect()))
    }

    /// The block or slice of one network.
    pub fn block(&self, name: &ConnectName, owner: ConnectOwner) -> Option<Vec<Cidr>> {
        self.entries.get(name)?.pool.subnets_of(owner)
    }

    /// How many links of a block have keys, once a block is given.
    pub fn slots(&self, name: &ConnectName) -> Option<u32> {
        let pool = &self.entries.get(name)?.pool;
        let given = pool.fixed_slots().is_some() || pool.owners().next().is_some();
        given.then(|| pool.slots())
    }

    /// What of the connection was freed and may still be somewhere.
    pub fn record(&self, name: &ConnectName) -> Option<ConnectRecord> {
        self.entries.get(name).map(|entry| entry.pool.record())
    }

    /// The connections that a network is part of.
    pub fn connections_of(&self, network: &NetworkName) -> impl Iterator<Item = &ConnectName> {
        let id = self.networks.get(network).and_then(|network| network.id);
        id.into_iter().flat_map(|id| self.web.memberships(id))
    }

    fn entry(&self, connect: Connect) -> Result<Entry> {
        let mut pool = ConnectPool::new(&connect.subnets, connect.topology, self.cluster.max_nodes)?;
        // What is lost here asks again for a place when the connection is settled.
        pool.restore(
            connect.slots,
            connect.blocks.iter().map(|(owner, cidrs)| (*owner, &cidrs[..])),
            &connect.record,
        );
        let by_namespace = ByNamespace::of(&connect, self.namespaces.values());
        let mut entry = Entry {
            refused: cluster_conflict(&self.cluster, &connect).err(),
            connect,
            pool,
            by_namespace,
            selected: BTreeSet::new(),
            left_out: BTreeMap::new(),
        };
        entry.selected = self.selection(&entry);
        Ok(entry)
    }

    fn selection(&self, entry: &Entry) -> BTreeSet<NetworkName> {
        let eligible = |network: &&Network| {
            self.is_eligible(network) && selects(&entry.connect, &entry.by_namespace, network)
        };
        self.networks.values().filter(eligible).map(|network| network.name.clone()).collect()
    }

    /// A network without an id is not there yet; nor is one whose id is another's.
    fn is_eligible(&self, network: &Network) -> bool {
        network.id.is_some_and(|id| self.ids.get(&id) == Some(&network.name))
    }

    fn store(&mut self, network: Network) {
        let network = network.with_name_label();
        if let Some(id) = network.id {
            self.ids.entry(id).or_insert_with(|| network.name.clone());
        }
        self.networks.insert(network.name.clone(), network);
    }

    /// Takes a network out of the index; answers who had selected it.
    fn forget_network(&mut self, name: &NetworkName) -> Dirty {
        let id = self.networks.remove(name).and_then(|network| network.id);
        if let Some(id) = id.filter(|id| self.ids.get(id) == Some(name)) {
            self.ids.remove(&id);
        }
        let had = |(connect, entry): (&ConnectName, &mut Entry)| {
            entry.left_out.remove(name);
            entry.selected.remove(name).then(|| connect.clone())
        };
        self.entries.iter_mut().filter_map(had).collect()
    }

    /// Asks all connections about one network; answers who selects it.
    fn reselect(&mut self, name: &NetworkName) -> Dirty {
        let Some(network) = self.networks.get(name).filter(|network| self.is_eligible(network)) else {
            return Dirty::new();
        };
        let mut selecting = Dirty::new();
        for (connect, entry) in &mut self.entries {
            if selects(&entry.connect, &entry.by_namespace, network) {
                entry.selected.insert(name.clone());
                selecting.insert(connect.clone());
            }
        }
        selecting
    }

    /// Moves a namespace's vote from its old to its new state.
    fn renumber(&mut self, old: Option<Namespace>, new: Option<&Namespace>) -> Dirty {
        let touched = old.iter().chain(new).flat_map(|namespace| &namespace.primaries);
        let touched: BTreeSet<NetworkName> = touched.cloned().collect();
        let mut dirty = Dirty::new();
        for (name, entry) in &mut self.entries {
            if let Some(old) = &old {
                entry.by_namespace.remove(&entry.connect, old);
            }
            if let Some(new) = new {
                entry.by_namespace.add(&entry.connect, new);
            }
            for network in touched.iter().filter_map(|network| self.networks.get(network)) {
                let mine = network.id.is_some_and(|id| self.ids.get(&id) == Some(&network.name));
                let now = mine && selects(&entry.connect, &entry.by_namespace, network);
                let changed = if now {
                    entry.selected.insert(network.name.clone())
                } else {
                    entry.selected.remove(&network.name)
                };
                if changed {
                    dirty.insert(name.clone());
                }
            }
        }
        self.settle(dirty)
    }

    fn with_node_ports(&self) -> Dirty {
        let ports = |entry: &&Entry| entry.connect.topology.has_node_ports();
        self.entries.values().filter(ports).map(|entry| entry.connect.name.clone()).collect()
    }

    /// All connections that share a selected network with these, directly or through others.
    fn component(&self, from: Dirty) -> Dirty {
        if self.entries.len() <= 1 {
            return from;
        }
        let mut by_network: BTreeMap<&NetworkName, Vec<&ConnectName>> = BTreeMap::new();
        for (name, entry) in &self.entries {
            for network in &entry.selected {
                by_network.entry(network).or_default().push(name);
            }
        }
        let mut reached = Dirty::new();
        let mut open: Vec<&ConnectName> = from.iter().collect();
        while let Some(name) = open.pop() {
            if reached.insert(name.clone()) {
                let networks = self.entries.get(name).into_iter().flat_map(|entry| &entry.selected);
                open.extend(networks.filter_map(|network| by_network.get(network)).flatten());
            }
        }
        reached
    }

    fn settle(&mut self, dirty: Dirty) -> Dirty {
        self.settle_after(dirty, None)
    }

    /// Decides about these connections, and all that share a network with them, from what they select and hold.
    /// A network that has changed must not push out another by growing into its addresses.
    fn settle_after(&mut self, dirty: Dirty, changed: Option<&NetworkName>) -> Dirty {
        if dirty.is_empty() {
            return dirty;
        }
        let component = self.component(dirty);
        self.web.forget(&component);
        self.clashes.clear();
        let mut turns = Vec::new();
        for name in &component {
            self.let_go(name);
            turns.extend(self.turns(name, changed));
        }
        turns.sort();
        for turn in turns {
            self.admit(&turn.2, turn.3);
        }
        component
    }

    /// Gives back the places of networks that are no longer selected, or of all if the connection is refused.
    fn let_go(&mut self, name: &ConnectName) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        entry.left_out.clear();
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
        let turn = |network: &Network| {
            let standing = match entry.standing(network) {
                Standing::Incumbent if changed == Some(&network.name) => Standing::Changed,
                standing => standing,
            };
            Some((standing, entry.connect.created, name.clone(), network.id?))
        };
        let selected = entry.selected.iter().filter_map(|name| self.networks.get(name));
        selected.filter_map(turn).collect()
    }

    /// A network that nobody knew is taken in by those who select it, without asking anybody else again.
    fn take_in(&mut self, network: &NetworkName, selecting: Dirty) -> Dirty {
        let Some(network) = self.networks.get(network) else {
            return selecting;
        };
        let Some(id) = network.id else {
            return selecting;
        };
        let turn = |name: &ConnectName| {
            let entry = self.entries.get(name).filter(|entry| entry.refused.is_none())?;
            Some((entry.standing(network), entry.connect.created, name.clone(), id))
        };
        let mut turns: Vec<Turn> = selecting.iter().filter_map(turn).collect();
        turns.sort();
        for turn in turns {
            self.admit(&turn.2, turn.3);
        }
        selecting
    }

    fn admit(&mut self, name: &ConnectName, id: NetworkId) {
        let Some(network) = self.ids.get(&id).and_then(|name| self.networks.get(name)) else { return };
        let Some(entry) = self.entries.get_mut(name) else { return };
        let names = Names { networks: &self.networks, ids: &self.ids };
        let checked = self.web.check(&entry.connect, network, id, &names, &mut self.clashes);
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
    fn explain(
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
            checked.and_then(|()| room(entry, network)).err()
        };
        now().unwrap_or_else(|| at_the_time.clone())
    }

    fn nodes_left_out(&self, entry: &Entry) -> Vec<LeftOut> {
        let first = entry.pool.owners().find(|owner| matches!(owner, ConnectOwner::Layer3(_)));
        let network = first.and_then(|owner| self.networks.get(self.ids.get(&owner.network())?));
        let Some(network) = network else {
            return Vec::new();
        };
        let slots = entry.pool.slots();
        let subnet = smallest(&entry.connect);
        let beyond = |node: &&NodeRecord| !entry.pool.nodes_without_link(&[node.id]).is_empty();
        let without = self.nodes.values().filter(beyond);
        without.map(|node| LeftOut::node_exhausted(subnet, network, node, slots)).collect()
    }
}

fn place(entry: &mut Entry, network: &Network) -> std::result::Result<(), LeftOut> {
    room(entry, network)?;
    if let Some(owner) = network.owner() {
        // `room` has asked the same question, so this cannot be refused.
        entry.pool.reserve(owner).ok();
    }
    Ok(())
}

/// Whether there is a block or slice for the network.
fn room(entry: &Entry, network: &Network) -> std::result::Result<(), LeftOut> {
    let refusal = network.owner().and_then(|owner| entry.pool.refusal(owner));
    let left_out =
        |why: RefusalReason| LeftOut::network_exhausted(smallest(&entry.connect), network, &why.to_string());
    refusal.map_or(Ok(()), |why| Err(left_out(why)))
}

/// The subnet whose blocks have the fewest links: the one to enlarge.
fn smallest(connect: &Connect) -> Cidr {
    let by_size = connect.subnets.iter().min_by_key(|subnet| (subnet.links_per_block(), subnet.blocks()));
    by_size.unwrap_or(&connect.subnets[0]).cidr()
}

fn release(pool: &mut ConnectPool, owner: ConnectOwner, epoch: Epoch) {
    pool.quarantine(owner, epoch);
    pool.release(owner);
}

fn blocks(pool: &ConnectPool) -> BTreeMap<ConnectOwner, Vec<Cidr>> {
    pool.owners().filter_map(|owner| Some((owner, pool.subnets_of(owner)?))).collect()
}
