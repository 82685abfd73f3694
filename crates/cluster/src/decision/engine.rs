//! The state of all connections, changed by events.
//!
//! Owns what was said by events and what is answered; how networks get their places is in `settle`.

use std::collections::{BTreeMap, BTreeSet};

use causeway_alloc::{Cleared, ConnectPool, ConnectRecord, Epoch, LostBlock};
use causeway_api::annotations::{ConnectBlocks, PerFamily};
use causeway_types::{
    Cidr, ConnectName, ConnectOwner, ConnectTopology, Family, NamespaceName, NetworkId, NetworkName, NodeName,
};

use crate::beside::Beside;
use crate::error::Result;

use super::absent::Absent;
use super::check::{Clashes, Web, cluster_conflict};
use super::input::{Cluster, Connect, Namespace, Network, NodeRecord};
use super::ports::{Nodes, is_doubtful};
use super::reason::{LeftOut, Reason};
use super::select::{ByNamespace, Selecting, selects};
use super::settle::smallest;

/// The connections whose answer may have changed.
pub type Dirty = BTreeSet<ConnectName>;

/// One connection.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) connect: Connect,
    pub(super) pool: ConnectPool,
    by_namespace: ByNamespace,
    /// Selected networks that have an id.
    pub(super) selected: BTreeSet<NetworkName>,
    /// Those of them that are not connected, and why that was when it was decided.
    pub(super) left_out: BTreeMap<NetworkName, LeftOut>,
    /// Why none of them is.
    pub(super) refused: Option<LeftOut>,
    /// Places that the object came with, and that could not be kept.
    pub(super) lost: Vec<LostBlock>,
}

impl Entry {
    /// Whether it connects anything: two networks have a place.
    pub(super) fn connects(&self) -> bool {
        self.pool.owners().nth(1).is_some()
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
        if let Some(slots) = self.connect.slots {
            self.pool.fix_slots(slots);
        }
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
    pub(super) epoch: Epoch,
    pub(super) networks: BTreeMap<NetworkName, Network>,
    /// What is selected and is no network yet.
    pub(super) absent: BTreeMap<NetworkName, Absent>,
    pub(super) ids: BTreeMap<NetworkId, NetworkName>,
    namespaces: BTreeMap<NamespaceName, Namespace>,
    /// Networks that serve the same namespaces.
    pub(super) beside: Beside<NetworkName>,
    pub(super) nodes: Nodes,
    pub(super) entries: BTreeMap<ConnectName, Entry>,
    /// Which connections select a network: those that are decided together.
    pub(super) selecting: Selecting,
    /// Connections with a network that waits for the name of a port, which any other connection may have.
    pub(super) waiting_for_names: Dirty,
    pub(super) web: Web,
    pub(super) clashes: Clashes,
}

/// Which connections begin or cease to select which networks.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) added: Vec<(ConnectName, NetworkName)>,
    pub(super) removed: Vec<(ConnectName, NetworkName)>,
}

impl Change {
    pub(super) fn connects(&self) -> Dirty {
        self.added.iter().chain(&self.removed).map(|(connect, _)| connect.clone()).collect()
    }
}

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
            absent: BTreeMap::new(),
            ids: BTreeMap::new(),
            namespaces: namespaces.into_iter().map(|one| (one.name.clone(), one)).collect(),
            beside: Beside::default(),
            nodes: Nodes::default(),
            entries: BTreeMap::new(),
            selecting: Selecting::default(),
            waiting_for_names: Dirty::new(),
            web: Web::default(),
            clashes: Clashes::new(),
        };
        for namespace in all.namespaces.values() {
            count_siblings(&mut all.beside, namespace, true);
        }
        for node in nodes {
            all.nodes.insert(node);
        }
        for network in networks {
            all.store(network);
        }
        for connect in connects {
            let entry = all.entry(connect)?;
            all.put(entry);
        }
        let everything = all.entries.keys().cloned().collect();
        all.settle(everything);
        Ok(all)
    }

    /// What is freed from now on is listed under this epoch.
    pub fn set_epoch(&mut self, epoch: Epoch) {
        self.epoch = epoch;
    }

    /// All zones have cleared what these epochs list.
    pub fn expire(&mut self, cleared: &Cleared) -> Dirty {
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
        let name = network.name.clone();
        let known = match self.networks.get_mut(&name) {
            Some(old) if *old == network => return Dirty::new(),
            Some(old) if old.differs_only_in_labels(&network) => {
                old.labels = network.labels;
                Dirty::new()
            }
            _ => {
                let known = self.forget_network(&name);
                self.store(network);
                known
            }
        };
        let change = self.reselect(&BTreeSet::from([name.clone()]));
        if known.is_empty() {
            return self.update(change);
        }
        self.settle_after(&known | &change.connects(), Some(&name))
    }

    /// A network is gone.
    pub fn delete_network(&mut self, name: &NetworkName) -> Dirty {
        let selecting = self.deselect(name);
        let removed = selecting.into_iter().map(|connect| (connect, name.clone())).collect();
        let dirty = self.update(Change { added: Vec::new(), removed });
        self.forget_network(name);
        dirty
    }

    /// A namespace came or changed, or other networks serve it.
    pub fn apply_namespace(&mut self, namespace: Namespace) -> Dirty {
        let old = self.namespaces.insert(namespace.name.clone(), namespace.clone());
        if old.as_ref() == Some(&namespace) {
            return Dirty::new();
        }
        self.recount(old.as_ref(), Some(&namespace))
    }

    /// A namespace is gone.
    pub fn delete_namespace(&mut self, name: &NamespaceName) -> Dirty {
        let old = self.namespaces.remove(name);
        self.recount(old.as_ref(), None)
    }

    /// A node has an id. Connections hear of it by their answer alone: no place depends on a node, unless the
    /// node's ports have names that can be read in two ways.
    pub fn apply_node(&mut self, node: NodeRecord) -> Dirty {
        let by_node = is_doubtful(node.name.as_str());
        let doubtful = match self.nodes.insert(node) {
            true => self.doubtful(by_node),
            false => Dirty::new(),
        };
        &self.with_node_ports() | &self.settle(doubtful)
    }

    /// A node is gone.
    pub fn delete_node(&mut self, name: &NodeName) -> Dirty {
        self.nodes.remove(name);
        &self.with_node_ports() | &self.settle(Dirty::new())
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
        if let Some(old) = self.take_out(&name).filter(|old| is_same(&old.connect, &entry.connect)) {
            (entry.pool, entry.lost) = (old.pool, old.lost);
            entry.pool.set_topology(entry.connect.topology);
            entry.commit();
        }
        self.put(entry);
        Ok(self.settle(dirty))
    }

    /// A connection is gone.
    pub fn delete_connect(&mut self, name: &ConnectName) -> Dirty {
        let mut rest = self.component(Dirty::from([name.clone()]));
        self.take_out(name);
        self.web.forget(&Dirty::from([name.clone()]));
        rest.remove(name);
        self.settle(rest)
    }

    /// Who has which block or parcel: what the annotation is to hold.
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

    /// Whether the network has the subnets with which connections were decided.
    pub fn has_decided_with(&self, network: &Network) -> bool {
        self.networks.get(&network.name).is_none_or(|known| known.subnets == network.subnets)
    }

    /// The block or parcel of one network.
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

    /// What could not stay connected in another topology: networks without keys, nodes without a link.
    pub fn misfits(&self, name: &ConnectName, topology: ConnectTopology) -> Vec<String> {
        let Some(entry) = self.entries.get(name) else { return Vec::new() };
        let network = |owner: ConnectOwner| self.networks.get(self.ids.get(&owner.network())?);
        let keyless = entry.pool.misfits(topology).into_iter().filter_map(|refusal| {
            Some(LeftOut::network_exhausted(
                smallest(&entry.connect),
                network(refusal.owner)?,
                &refusal.reason.to_string(),
            ))
        });
        let mut moved = entry.clone();
        moved.pool.set_topology(topology);
        keyless.chain(self.nodes_left_out(&moved)).map(|left_out| left_out.message).collect()
    }

    /// The connections that a network is part of.
    pub fn connections_of(&self, network: &NetworkName) -> impl Iterator<Item = &ConnectName> {
        let id = self.networks.get(network).and_then(|network| network.id);
        id.into_iter().flat_map(|id| self.web.memberships(id))
    }

    fn entry(&self, connect: Connect) -> Result<Entry> {
        let mut pool = ConnectPool::new(&connect.subnets, connect.topology, self.cluster.max_nodes)?;
        // What is lost here asks again for a place when the connection is settled.
        let lost = pool.restore(
            connect.slots,
            connect.blocks.iter().map(|(owner, cidrs)| (*owner, &cidrs[..])),
            &connect.record,
        );
        pool.reclaim();
        let by_namespace = ByNamespace::of(&connect, self.namespaces.values());
        let mut entry = Entry {
            refused: cluster_conflict(&self.cluster, &connect).err(),
            connect,
            pool,
            by_namespace,
            selected: BTreeSet::new(),
            left_out: BTreeMap::new(),
            lost,
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
            for entry in self.entries.values_mut() {
                let both = [ConnectOwner::Layer3(id), ConnectOwner::Layer2(id)];
                both.into_iter().for_each(|owner| entry.pool.forget(owner));
            }
        }
        self.deselect(name)
    }

    fn put(&mut self, entry: Entry) {
        let name = &entry.connect.name;
        entry.selected.iter().for_each(|network| self.selecting.add(network, name));
        self.entries.insert(name.clone(), entry);
    }

    fn take_out(&mut self, name: &ConnectName) -> Option<Entry> {
        let entry = self.entries.remove(name)?;
        entry.selected.iter().for_each(|network| self.selecting.remove(network, name));
        self.waiting_for_names.remove(name);
        Some(entry)
    }

    /// Nobody selects the network any more; the answer is who did.
    fn deselect(&mut self, network: &NetworkName) -> Dirty {
        let connects = self.selecting.take(network);
        for connect in &connects {
            if let Some(entry) = self.entries.get_mut(connect) {
                entry.left_out.remove(network);
                entry.selected.remove(network);
            }
        }
        connects
    }

    /// Moves a namespace's vote from its old to its new state.
    fn recount(&mut self, old: Option<&Namespace>, new: Option<&Namespace>) -> Dirty {
        for entry in self.entries.values_mut() {
            if let Some(old) = old {
                entry.by_namespace.remove(&entry.connect, old);
            }
            if let Some(new) = new {
                entry.by_namespace.add(&entry.connect, new);
            }
        }
        let served = old.into_iter().chain(new).flat_map(|namespace| &namespace.primaries);
        let change = self.reselect(&served.cloned().collect());
        &self.update(change) | &self.meet(old, new)
    }

    /// Networks have begun or ceased to serve a namespace side by side. Connections with any of them say who is not on their roads.
    fn meet(&mut self, old: Option<&Namespace>, new: Option<&Namespace>) -> Dirty {
        if old.map(|old| &old.primaries) == new.map(|new| &new.primaries) {
            return Dirty::new();
        }
        let both = old.map(|old| (old, false)).into_iter().chain(new.map(|new| (new, true)));
        let moved: BTreeSet<NetworkName> =
            both.flat_map(|(namespace, add)| count_siblings(&mut self.beside, namespace, add)).collect();
        moved.iter().flat_map(|network| self.selecting.of(network)).cloned().collect()
    }

    /// Asks all connections again whether they select these networks.
    fn reselect(&mut self, networks: &BTreeSet<NetworkName>) -> Change {
        let mut change = Change::default();
        let known = networks.iter().filter_map(|name| self.networks.get(name));
        for network in known {
            let eligible = self.is_eligible(network);
            for (connect, entry) in &mut self.entries {
                let pair = || (connect.clone(), network.name.clone());
                if eligible && selects(&entry.connect, &entry.by_namespace, network) {
                    if entry.selected.insert(network.name.clone()) {
                        self.selecting.add(&network.name, connect);
                        change.added.push(pair());
                    }
                } else if entry.selected.remove(&network.name) {
                    self.selecting.remove(&network.name, connect);
                    change.removed.push(pair());
                }
            }
        }
        change
    }

    /// The connections that have names of ports with more than one reading; all that have ports of nodes, if it
    /// is a node that makes it so.
    fn doubtful(&self, by_node: bool) -> Dirty {
        let by_name = |entry: &Entry| {
            let mut networks = entry.selected.iter().map(NetworkName::as_str);
            is_doubtful(entry.connect.name.as_str()) || networks.any(is_doubtful)
        };
        let mut all = self.with_node_ports();
        all.retain(|name| by_node || self.entries.get(name).is_some_and(by_name));
        all
    }

    fn with_node_ports(&self) -> Dirty {
        let ports = |entry: &&Entry| entry.connect.topology.has_node_ports();
        self.entries.values().filter(ports).map(|entry| entry.connect.name.clone()).collect()
    }
}

/// Counts the networks of a namespace as siblings; answers who has other siblings than before.
fn count_siblings(
    beside: &mut Beside<NetworkName>,
    namespace: &Namespace,
    add: bool,
) -> BTreeSet<NetworkName> {
    let all = &namespace.primaries;
    let pairs =
        all.iter().enumerate().flat_map(|(at, one)| all[at + 1..].iter().map(move |other| (one, other)));
    let moved = pairs.filter(|(one, other)| beside.change(one, other, add));
    moved.flat_map(|(one, other)| [one.clone(), other.clone()]).collect()
}

fn blocks(pool: &ConnectPool) -> BTreeMap<ConnectOwner, Vec<Cidr>> {
    pool.owners().filter_map(|owner| Some((owner, pool.subnets_of(owner)?))).collect()
}
