//! The connections of a zone: who is in them, and which facts change with one of them or with one of their networks.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::crd::Topology;
use causeway_types::{Cidr, ConnectName, Families, NetworkId, NetworkName, NodeName};

use super::connect::{self, ConnectInfo, Place};
use super::problem::{Problem, Reason, Subject};
use super::usage::Use;
use super::uses::Used;
use super::{Active, Change, Changes, Zone};
use causeway_record as record;

const OVERLAP: &str = "its subnets overlap those of another network of the connection";

/// What a connection is in this zone.
#[derive(Clone, Copy, Debug)]
pub enum Connecting<'a> {
    /// Its layout is settled: plans follow it.
    Settled(&'a ConnectInfo),
    /// The cluster manager has not settled its layout: nothing is planned.
    Unsettled,
    /// It cannot be read: what is there stays.
    Broken(&'a Problem),
}

/// What a network is in a connection.
#[derive(Clone, Debug)]
pub enum Membership<'a> {
    /// It has a place.
    Member(&'a Place),
    /// It has none.
    Outside,
    /// That cannot be told: what is there stays.
    Uncertain(String),
}

/// What this zone's report says of a connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConnectReport {
    /// `metadata.name` of the `ClusterNetworkConnect`; connections of siblings are not reported.
    pub name: ConnectName,
    /// What stands for the spec and the annotations that the zone plans from; empty if they cannot be read.
    pub hash: String,
    /// What is not rendered of it, and why. Those with [`Reason::NodeNotReady`] are about other nodes: no id, no chassis, or
    /// no room in the block. They pass by themselves or are the cluster manager's to say, and everything else is rendered.
    pub problems: Vec<Problem>,
}

#[derive(Debug)]
pub(super) struct Entry {
    hash: String,
    state: Result<Option<ConnectInfo>, Problem>,
    shape: Shape,
    /// While it cannot be read: the networks that it was last known to be about.
    last_known: Option<BTreeSet<NetworkId>>,
}

/// What of a connection's networks all its parts follow from.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Shape {
    /// Whether a number stands for no network that is known here.
    unresolved: bool,
    /// The largest MTU, if the networks have different ones.
    largest_mtu: Option<u32>,
    /// Networks that claim addresses of each other. The cluster manager connects no such networks, but a network may
    /// grow before it has said so; nobody's traffic goes elsewhere in between.
    overlapping: BTreeSet<NetworkName>,
}

#[derive(Debug, Default)]
pub(super) struct Connects {
    entries: BTreeMap<ConnectName, Entry>,
    by_network: BTreeMap<NetworkId, BTreeSet<ConnectName>>,
    /// Those that cannot be read now, by the networks that they were about.
    pub(super) unreadable: BTreeMap<NetworkId, BTreeSet<ConnectName>>,
    /// How many could never be read: they may be about any network.
    pub(super) opaque: usize,
    /// Whether there may be some that were not listed yet.
    pub(super) awaited: bool,
}

impl Entry {
    fn info(&self) -> Option<&ConnectInfo> {
        self.state.as_ref().ok()?.as_ref()
    }

    /// The numbers of the networks that this connection renders something on.
    fn ids(&self) -> impl Iterator<Item = NetworkId> {
        let info = self.info().filter(|info| info.touches_networks());
        info.into_iter().flat_map(|info| info.places.keys().copied())
    }

    fn is_compact(&self) -> bool {
        self.info().is_some_and(ConnectInfo::has_stubs)
    }

    fn is_opaque(&self) -> bool {
        self.state.is_err() && self.last_known.is_none()
    }
}

type ByNetwork = BTreeMap<NetworkId, BTreeSet<ConnectName>>;

fn take_out(all: &mut ByNetwork, id: NetworkId, name: &ConnectName) {
    if let Some(names) = all.get_mut(&id) {
        names.remove(name);
        if names.is_empty() {
            all.remove(&id);
        }
    }
}

impl Connects {
    fn of(&self, id: NetworkId) -> impl Iterator<Item = &ConnectInfo> {
        let names = self.by_network.get(&id).into_iter().flatten();
        names.filter_map(|name| self.entries.get(name)?.info())
    }

    fn set(&mut self, name: &ConnectName, entry: Option<Entry>) -> Option<Entry> {
        let old = self.entries.remove(name);
        for id in old.iter().flat_map(Entry::ids) {
            take_out(&mut self.by_network, id, name);
        }
        for id in old.iter().filter_map(|old| old.last_known.as_ref()).flatten() {
            take_out(&mut self.unreadable, *id, name);
        }
        self.opaque -= usize::from(old.as_ref().is_some_and(Entry::is_opaque));
        if let Some(entry) = entry {
            for id in entry.ids() {
                self.by_network.entry(id).or_default().insert(name.clone());
            }
            for id in entry.last_known.iter().flatten() {
                self.unreadable.entry(*id).or_default().insert(name.clone());
            }
            self.opaque += usize::from(entry.is_opaque());
            self.entries.insert(name.clone(), entry);
        }
        old
    }
}

impl Zone {
    /// Connections are watched and not listed yet: until they are, rows of connections stay as they are.
    pub fn await_connects(&mut self) {
        self.connects.awaited = true;
    }

    /// All connections are known.
    pub fn connects_listed(&mut self) -> Changes {
        if !std::mem::take(&mut self.connects.awaited) {
            return Changes::default();
        }
        // Only now is it known which networks are used through a connection, and which groups have their load balancers.
        let mut changes = Changes::everything();
        self.reach_changed(&mut changes);
        changes
    }

    /// Whether all connections are known.
    pub fn knows_connects(&self) -> bool {
        !self.connects.awaited
    }

    /// A connection is there, or has changed. One with a deletion timestamp counts as gone; its finalizer is the cluster
    /// manager's business.
    pub fn apply_connect(&mut self, connect: &record::Connect) -> Changes {
        if connect.deleting {
            return self.delete_connect(&connect.name);
        }
        let state = connect::read(connect);
        let problem = match &state {
            Ok(info) => info.as_ref().and_then(ConnectInfo::problem),
            Err(problem) => Some(problem.clone()),
        };
        self.report(Subject::Connect(connect.name.clone()), problem);
        let hash = connect.spec.as_ref().map(|spec| spec.hash.clone()).unwrap_or_default();
        let shape = self.shape(state.as_ref().ok().and_then(Option::as_ref));
        let last_known = state.as_ref().err().and_then(|_| self.last_known(&connect.name));
        let mut changes = self.set_connect(&connect.name, Some(Entry { hash, state, shape, last_known }));
        self.reach_changed(&mut changes);
        changes
    }

    /// The networks that a connection is about, or was when it could still be read.
    fn last_known(&self, name: &ConnectName) -> Option<BTreeSet<NetworkId>> {
        let entry = self.connects.entries.get(name)?;
        match entry.state {
            Ok(_) => Some(entry.ids().collect()),
            Err(_) => entry.last_known.clone(),
        }
    }

    /// A connection is gone.
    pub fn delete_connect(&mut self, name: &ConnectName) -> Changes {
        self.report(Subject::Connect(name.clone()), None);
        let mut changes = self.set_connect(name, None);
        self.reach_changed(&mut changes);
        changes
    }

    /// All connections.
    pub fn connects(&self) -> impl Iterator<Item = &ConnectName> {
        self.connects.entries.keys()
    }

    /// What a connection is here; nothing if there is no such connection.
    pub fn connecting(&self, name: &ConnectName) -> Option<Connecting<'_>> {
        Some(match &self.connects.entries.get(name)?.state {
            Ok(Some(info)) => Connecting::Settled(info),
            Ok(None) => Connecting::Unsettled,
            Err(problem) => Connecting::Broken(problem),
        })
    }

    /// What a network is in a connection.
    pub fn membership<'a>(&'a self, connect: &'a ConnectInfo, network: &NetworkName) -> Membership<'a> {
        let Some(id) = self.networks.id(network) else {
            let entry = self.connects.entries.get(&connect.name);
            return match entry.is_some_and(|entry| entry.shape.unresolved) {
                true => Membership::Uncertain(format!("network {network} has no id here yet")),
                false => Membership::Outside,
            };
        };
        match connect.places.get(&id) {
            None => Membership::Outside,
            Some(Ok(_)) if self.overlaps(connect, network) => {
                Membership::Uncertain(format!("network {network}: {OVERLAP}"))
            }
            Some(Ok(place)) => Membership::Member(place),
            Some(Err(error)) => Membership::Uncertain(format!("network {network}: {error}")),
        }
    }

    fn overlaps(&self, connect: &ConnectInfo, network: &NetworkName) -> bool {
        let entry = self.connects.entries.get(&connect.name);
        entry.is_some_and(|entry| entry.shape.overlapping.contains(network))
    }

    /// Whether networks of a connection claim addresses of each other.
    pub fn has_overlaps(&self, connect: &ConnectInfo) -> bool {
        let entry = self.connects.entries.get(&connect.name);
        entry.is_some_and(|entry| !entry.shape.overlapping.is_empty())
    }

    /// The networks of a connection that are known here, rendered or not.
    pub fn members<'a>(&'a self, connect: &'a ConnectInfo) -> impl Iterator<Item = &'a NetworkName> + Clone {
        connect.places.keys().flat_map(|id| self.networks.with_id(*id))
    }

    /// Those of them whose places are of a topology.
    pub fn members_with<'a>(
        &'a self,
        connect: &'a ConnectInfo,
        topology: Topology,
    ) -> impl Iterator<Item = &'a NetworkName> {
        let has =
            move |place: &Result<Place, String>| place.as_ref().is_ok_and(|place| place.topology == topology);
        let ids = connect.places.iter().filter(move |(_, place)| has(place)).map(|(id, _)| *id);
        ids.flat_map(|id| self.networks.with_id(id))
    }

    /// A connection that is settled.
    pub fn settled(&self, name: &ConnectName) -> Option<&ConnectInfo> {
        self.connects.entries.get(name)?.info()
    }

    /// A network as it would be rendered here, whether somebody uses it here or not.
    pub fn active(&self, network: &NetworkName) -> Option<&Active> {
        self.networks.get(network)?.state.as_deref().ok()
    }

    /// The largest MTU of a connection's networks, if they have different ones.
    pub fn largest_mtu(&self, connect: &ConnectInfo) -> Option<u32> {
        self.connects.entries.get(&connect.name)?.shape.largest_mtu
    }

    /// What the zone's report says of each connection that is settled.
    pub fn connect_reports(&self) -> Vec<ConnectReport> {
        let report = |(name, entry): (&ConnectName, &Entry)| match &entry.state {
            Ok(None) => None,
            Ok(Some(info)) => Some(self.connect_report(info, &entry.hash)),
            Err(problem) => {
                let (name, hash) = (name.clone(), entry.hash.clone());
                Some(ConnectReport { name, hash, problems: vec![problem.clone()] })
            }
        };
        let objects = self.connects.entries.iter().filter(|(name, _)| !name.is_of_siblings());
        objects.filter_map(report).collect()
    }

    /// Networks that serve the same namespaces are connected by this, or no longer.
    pub(super) fn set_siblings(&mut self, name: &ConnectName, info: Option<ConnectInfo>) -> Changes {
        let entry = info.map(|info| {
            let shape = self.shape(Some(&info));
            Entry { hash: String::new(), state: Ok(Some(info)), shape, last_known: None }
        });
        self.set_connect(name, entry)
    }

    fn connect_report(&self, info: &ConnectInfo, hash: &str) -> ConnectReport {
        let mut problems: Vec<Problem> = info.problem().into_iter().collect();
        problems.extend(self.refused_here());
        if info.touches_networks() {
            problems.extend(info.places.iter().flat_map(|(id, place)| self.place_problems(info, *id, place)));
        }
        if let Some(last) = info.last_block().filter(|_| info.touches_networks()) {
            problems.extend(self.others().filter_map(|node| self.node_problem(info, last, &node.name)));
        }
        ConnectReport { name: info.name.clone(), hash: hash.to_owned(), problems }
    }

    /// Why a network's place is not rendered. One that nobody uses here needs not be.
    fn place_problems(
        &self,
        info: &ConnectInfo,
        id: NetworkId,
        place: &Result<Place, String>,
    ) -> Vec<Problem> {
        let Ok(place) = place else { return Vec::new() };
        let problem =
            |text: String| Problem::new(Reason::NetworkNotReady, format!("{}: {text}", info.text()));
        let names: Vec<&NetworkName> = self.networks.with_id(id).collect();
        if names.is_empty() {
            return vec![problem(format!("no network with id {id} is known here yet"))];
        }
        let why = |name: &&NetworkName| match self.networks.get(name).map(|entry| &entry.state) {
            Some(Err(broken)) => Some(problem(broken.message.clone())),
            Some(Ok(active)) => self.misfit(info, place, active),
            None => None,
        };
        let needed = |name: &&&NetworkName| self.use_here(name) == Use::Used || self.is_destination(name);
        names.iter().filter(needed).filter_map(why).collect()
    }

    /// Why an active network has no link in its place.
    fn misfit(&self, info: &ConnectInfo, place: &Place, active: &Active) -> Option<Problem> {
        let about = |text: String| {
            let message = format!("{}: network {}: {text}", info.text(), active.name());
            Problem::new(Reason::NoLink, message)
        };
        if self.overlaps(info, active.name()) {
            return Some(Problem { reason: Reason::Overlap, ..about(OVERLAP.into()) });
        }
        if place.topology != active.topology {
            return Some(about(format!("its place is that of another topology than {:?}", active.topology)));
        }
        let here = self.here().ok()?.id;
        let node = (place.topology == Topology::Layer3 && info.topology.has_node_ports()).then_some(here);
        let links = place.links(node, active.families()).and_then(|_| place.key(node));
        links.err().map(about)
    }

    /// Why another node is left out of the links that each node has. What fits the last block fits all of them.
    fn node_problem(&self, info: &ConnectInfo, last: &Place, node: &NodeName) -> Option<Problem> {
        let problem = |reason, text: String| Problem::new(reason, format!("{}: {text}", info.text()));
        match self.there(node) {
            // Of a node that others do not know, its own zone tells.
            Err(text) => Some(problem(Reason::NodeNotReady, text)),
            Ok(None) => {
                Some(problem(Reason::NodeNotReady, format!("node {node} has no id or no chassis yet")))
            }
            Ok(Some(there)) => {
                let links = last.links(Some(there.id), Families { ipv4: true, ipv6: true });
                let error = links.and_then(|_| last.key(Some(there.id))).err()?;
                Some(problem(Reason::NodeNotReady, format!("node {node}: {error}")))
            }
        }
    }

    fn shape(&self, info: Option<&ConnectInfo>) -> Shape {
        let Some(info) = info else { return Shape::default() };
        let unresolved = info.places.keys().any(|id| self.networks.with_id(*id).next().is_none());
        let mtus: BTreeSet<u32> =
            self.members(info).filter_map(|name| self.active(name)).map(|net| net.mtu).collect();
        let largest_mtu = mtus.last().copied().filter(|_| mtus.len() > 1);
        let overlapping = overlapping(self.members(info).filter_map(|name| self.active(name)));
        Shape { unresolved, largest_mtu, overlapping }
    }

    fn set_connect(&mut self, name: &ConnectName, entry: Option<Entry>) -> Changes {
        let opaque = self.connects.opaque;
        let uses = self.uses_of(name, entry.as_ref());
        let old = self.connects.set(name, entry);
        self.fade(name, old.as_ref());
        let new = self.connects.entries.get(name);
        let mut changes = Changes::default();
        if old.as_ref().map(|old| (&old.state, &old.shape)) == new.map(|new| (&new.state, &new.shape)) {
            return changes;
        }
        // While one was never read, nobody can say whose peers use a network, and whom its policies reach.
        if (opaque > 0) != (self.connects.opaque > 0) {
            return Changes::everything();
        }
        let (before, after) = (known_ids(old.as_ref()), known_ids(new));
        match moved(old.as_ref(), new) {
            Some(places) => {
                for (info, id) in places.into_iter().filter_map(|id| Some((new?.info()?, id))) {
                    self.place_changed(info, id, &mut changes);
                }
            }
            None => changes.add(Change::Connect(name.clone())),
        }
        self.grants_of_changed(old.as_ref().and_then(Entry::info), new.and_then(Entry::info), &mut changes);
        let concerned = before.union(&after).flat_map(|id| self.networks.with_id(*id));
        self.roads_moved(concerned, &mut changes);
        let readable = |entry: Option<&Entry>| entry.is_none_or(|entry| entry.state.is_ok());
        let stubs = |entry: Option<&Entry>| entry.and_then(Entry::info).map(ConnectInfo::has_stubs);
        let moved = stubs(old.as_ref()) != stubs(new);
        if before != after || moved || readable(old.as_ref()) != readable(new) {
            let names = before.union(&after).flat_map(|id| self.networks.with_id(*id));
            let info = new.and_then(Entry::info);
            // By compact connections alone, other nodes' use of a network is not concerned.
            let alone = [old.as_ref(), new].into_iter().flatten().all(Entry::is_compact);
            let differs = |name: &&NetworkName| !alone || uses.get(*name) != Some(&self.use_by(info, name));
            self.uses_changed(names.filter(differs).collect(), &mut changes);
        }
        if readable(old.as_ref()) != readable(new) {
            let names = before.union(&after).flat_map(|id| self.networks.with_id(*id));
            names.for_each(|network| changes.add(Change::Grants(network.clone())));
        }
        changes
    }

    /// How the networks of a connection are used here before it becomes another one.
    fn uses_of(&self, name: &ConnectName, next: Option<&Entry>) -> BTreeMap<NetworkName, Used> {
        let now = self.connects.entries.get(name);
        let ids: BTreeSet<NetworkId> = now.into_iter().chain(next).flat_map(Entry::ids).collect();
        let networks = ids.iter().filter(|_| self.usage.counts()).flat_map(|id| self.networks.with_id(*id));
        let info = now.and_then(Entry::info);
        networks.map(|network| (network.clone(), self.use_by(info, network))).collect()
    }

    /// Of networks that have lost their places, the links that other zones may still send to stay a while.
    fn fade(&mut self, name: &ConnectName, old: Option<&Entry>) {
        let new = self.connects.entries.get(name);
        let Some(old) = old else {
            // A connection goes twice: when it is to be deleted, and when it is.
            return if new.is_some() {
                self.fading.forget(name)
            };
        };
        // What cannot be read is held as it is.
        if self.config.linger_ms == 0 || new.is_some_and(|new| new.state.is_err()) {
            return;
        }
        let after: BTreeSet<NetworkId> = new.into_iter().flat_map(Entry::ids).collect();
        for network in after.iter().flat_map(|id| self.networks.with_id(*id)) {
            self.fading.end(name, network);
        }
        let before = old.info().filter(|info| info.touches_networks() && info.topology.has_node_ports());
        let left = before.into_iter().flat_map(|info| &info.places).filter(|(id, _)| !after.contains(id));
        let linked = left.filter(|(_, place)| place.as_ref().is_ok_and(|of| of.topology == Topology::Layer3));
        for network in linked.flat_map(|(id, _)| self.networks.with_id(*id)) {
            self.fading.begin(name, network);
        }
    }

    /// Whether it is certain which networks a network's pods reach.
    pub fn knows_reach(&self, network: &NetworkName) -> bool {
        let unreadable = |id| self.connects.unreadable.contains_key(&id);
        network.is_default() || (self.knows_all_reach() && !self.networks.id(network).is_some_and(unreadable))
    }

    /// The same for all networks, but for connections that could be read before.
    pub fn knows_all_reach(&self) -> bool {
        self.knows_connects() && self.connects.opaque == 0
    }

    /// Connections of a network see a change of it, or of its number.
    pub(super) fn connects_changed(
        &mut self,
        network: &NetworkName,
        before: Option<NetworkId>,
        changes: &mut Changes,
    ) {
        let after = self.networks.id(network);
        let ids: BTreeSet<NetworkId> = before.into_iter().chain(after).collect();
        let concerned = ids.iter().flat_map(|id| self.connects.of(*id));
        // While a network has no number it may be one that a connection does not know.
        let guessing = before.is_none() || after.is_none();
        let uncertain = self.connects.entries.values().filter(|entry| guessing && entry.shape.unresolved);
        let names: BTreeSet<ConnectName> =
            concerned.chain(uncertain.filter_map(Entry::info)).map(|info| info.name.clone()).collect();
        for name in names {
            let info = self.connects.entries.get(&name).and_then(Entry::info);
            let shape = self.shape(info);
            info.into_iter().for_each(|info| member_changed(info, network, changes));
            info.into_iter().for_each(|info| self.grants_changed(info, changes));
            self.roads_moved(info.into_iter().flat_map(|info| self.members(info)), changes);
            let Some(entry) = self.connects.entries.get_mut(&name) else { continue };
            if entry.shape != shape {
                entry.shape = shape;
                changes.add(Change::Connect(name.clone()));
            }
        }
        if before != after {
            let connects = ids.iter().flat_map(|id| self.connects.of(*id));
            self.uses_changed(connects.flat_map(|info| self.members(info)).collect(), changes);
        }
    }

    /// This zone's own node has changed, and with it all networks.
    pub(super) fn reshape(&mut self) {
        let shapes: Vec<Shape> =
            self.connects.entries.values().map(|entry| self.shape(entry.info())).collect();
        for (entry, shape) in self.connects.entries.values_mut().zip(shapes) {
            entry.shape = shape;
        }
    }

    fn place_changed(&self, info: &ConnectInfo, id: NetworkId, changes: &mut Changes) {
        let mut networks = self.networks.with_id(id).peekable();
        if networks.peek().is_none() {
            changes.add(Change::Place(info.name.clone()));
        }
        networks.for_each(|network| member_changed(info, network, changes));
    }

    /// The networks that a network is connected with, one by one; more than once if by several connections.
    pub(super) fn peers<'a>(&'a self, network: &'a NetworkName) -> impl Iterator<Item = &'a NetworkName> {
        let connects = self.networks.id(network).into_iter().flat_map(|id| self.connects.of(id));
        connects.flat_map(|info| self.members(info)).filter(move |peer| *peer != network)
    }

    /// Connections in which a network has a place.
    pub fn connects_of(&self, network: &NetworkName) -> impl Iterator<Item = &ConnectInfo> {
        self.networks.id(network).into_iter().flat_map(|id| self.connects.of(id))
    }
}

pub(super) fn member_changed(info: &ConnectInfo, network: &NetworkName, changes: &mut Changes) {
    changes.add(Change::Member { connect: info.name.clone(), network: network.clone() });
}

/// Networks whose subnets share addresses. Subnets are disjoint or one is in the other, so in their order those around one
/// are the last ones that have not ended.
fn overlapping<'a>(networks: impl Iterator<Item = &'a Active>) -> BTreeSet<NetworkName> {
    let all = networks.flat_map(|net| net.legs.iter().map(move |leg| (net.name(), leg)));
    let mut subnets: Vec<(Cidr, &NetworkName)> =
        all.flat_map(|(name, leg)| leg.subnets.iter().map(move |subnet| (*subnet, name))).collect();
    subnets.sort();
    let mut found = BTreeSet::new();
    let mut around: Vec<(Cidr, &NetworkName)> = Vec::new();
    for (subnet, name) in subnets {
        around.retain(|(wider, _)| wider.contains(&subnet));
        for (_, other) in around.iter().filter(|(_, other)| *other != name) {
            found.extend([(*other).clone(), name.clone()]);
        }
        around.push((subnet, name));
    }
    found
}

/// The networks of a connection, as far as it could ever be read.
fn known_ids(entry: Option<&Entry>) -> BTreeSet<NetworkId> {
    let unreadable = entry.and_then(|entry| entry.last_known.clone()).unwrap_or_default();
    entry.into_iter().flat_map(Entry::ids).chain(unreadable).collect()
}

/// The places that differ, if that is all that does and both have somebody to reach, or neither has.
fn moved(old: Option<&Entry>, new: Option<&Entry>) -> Option<Vec<NetworkId>> {
    let (old, new) = (old?, new?);
    let (before, after) = (old.info()?, new.info()?);
    let bare = |info: &ConnectInfo| ConnectInfo { places: BTreeMap::new(), ..info.clone() };
    if old.shape != new.shape || before.joins() != after.joins() || bare(before) != bare(after) {
        return None;
    }
    let ids: BTreeSet<NetworkId> = before.places.keys().chain(after.places.keys()).copied().collect();
    Some(ids.into_iter().filter(|id| before.places.get(id) != after.places.get(id)).collect())
}
