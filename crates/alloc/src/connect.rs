//! The blocks and parcels of one `ClusterNetworkConnect`.
//!
//! Blocks are counted by *index*, the same in every family: block i of each connect subnet. A layer3
//! network has a block of its own, in which node n has link number n; layer2 networks share blocks and
//! have one link each. What a number means on the wire (addresses, port keys) is in `causeway-types`;
//! which networks ask, and who asks first, is decided in `causeway-model`.

use std::collections::{BTreeMap, BTreeSet};

use causeway_types::{Cidr, ConnectOwner, ConnectSubnet, ConnectTopology, NodeId, PortKey};
use serde::{Deserialize, Serialize};

use crate::{Cleared, Epoch, Error, IntervalSet, Result};

/// How much of an object's 256 KiB of annotations the blocks may fill.
pub const ANNOTATION_LIMIT: usize = 200 * 1024;

/// Why a network has no place in a connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusalReason {
    /// The connect subnet has no block left.
    #[error("connect subnet {subnet} has no block left of its {blocks}{}", waiting_text(.waiting))]
    Blocks {
        /// The smallest of the connect subnets.
        subnet: Cidr,
        /// How many blocks it has.
        blocks: u32,
        /// How many of them wait for nodes to confirm that they are gone.
        waiting: usize,
    },
    /// The connect router has no port keys left.
    #[error(
        "the connect router has port keys for {networks} layer3 networks of {slots} nodes{}; the compact topology needs none",
        waiting_text(.waiting)
    )]
    Keys {
        /// How many layer3 networks have keys.
        networks: u32,
        /// How many keys each takes.
        slots: u32,
        /// How many of them wait for nodes to confirm that they are gone.
        waiting: usize,
    },
    /// The annotation would be too large.
    #[error("the annotation of the connection would be larger than {ANNOTATION_LIMIT} bytes")]
    Annotation,
    /// An annotated subnet is not a block or parcel of the connection, or not the same one in each family.
    #[error("[{}] are not one block or parcel of the connect subnets", listed(.0))]
    NotOurs(Vec<Cidr>),
    /// Somebody else has the annotated block or parcel.
    #[error("{0} has the same block or parcel")]
    TakenBy(ConnectOwner),
}

fn listed(cidrs: &[Cidr]) -> String {
    cidrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn waiting_text(waiting: &usize) -> String {
    match waiting {
        0 => String::new(),
        n => format!(" ({n} wait for nodes to confirm that they are gone)"),
    }
}

/// A network without a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The network.
    pub owner: ConnectOwner,
    /// Why.
    pub reason: RefusalReason,
}

/// An annotated block or parcel that could not be kept.
pub type LostBlock = Refusal;

/// The answer to "what would fit?".
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Forecast {
    /// Networks that would have a place, in the order asked.
    pub fitting: Vec<ConnectOwner>,
    /// Networks that would not, in the order asked.
    pub refused: Vec<Refusal>,
    /// Nodes that have no link in any layer3 network's block, by id.
    pub nodes: Vec<NodeId>,
}

/// What the internal object keeps of a connection: freed places and the epoch that lists them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConnectRecord {
    /// Index, parcel if it was one, epoch.
    pub quarantined: Vec<(u32, Option<u32>, Epoch)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    index: u32,
    parcel: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    place: Place,
    pending: bool,
}

/// The blocks and parcels of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectPool {
    subnets: Vec<ConnectSubnet>,
    topology: ConnectTopology,
    max_nodes: u32,
    /// How many links of a block have keys; fixed with the first block.
    slots: Option<u32>,
    held: BTreeMap<ConnectOwner, Held>,
    owners: BTreeMap<Place, ConnectOwner>,
    quarantined: BTreeMap<Place, Epoch>,
    /// Who had a place that rests: it may come back to it, since no zone has it for anybody else.
    left: BTreeMap<ConnectOwner, Place>,
    /// Indexes that are in use, whole or in parcels.
    taken: IntervalSet,
    /// Blocks that are cut into parcels, and the parcels in use.
    shared: BTreeMap<u32, IntervalSet>,
    /// Those of them with a parcel to spare.
    roomy: BTreeSet<u32>,
    annotation: usize,
}

impl ConnectPool {
    /// An empty pool.
    pub fn new(subnets: &[ConnectSubnet], topology: ConnectTopology, max_nodes: u32) -> Result<Self> {
        let mut subnets = subnets.to_vec();
        subnets.sort_by_key(ConnectSubnet::family);
        let apart = subnets.windows(2).all(|pair| pair[0].family() != pair[1].family());
        if subnets.is_empty() || !apart {
            return Err(Error::ConnectSubnets);
        }
        Ok(Self {
            subnets,
            topology,
            max_nodes,
            slots: None,
            held: BTreeMap::new(),
            owners: BTreeMap::new(),
            quarantined: BTreeMap::new(),
            left: BTreeMap::new(),
            taken: IntervalSet::new(),
            shared: BTreeMap::new(),
            roomy: BTreeSet::new(),
            annotation: 2,
        })
    }

    /// Gives an empty pool the state that the annotations and the record describe. What is not ours,
    /// and the larger network id of two that hold the same, is named.
    pub fn restore<'a>(
        &mut self,
        slots: Option<u32>,
        entries: impl IntoIterator<Item = (ConnectOwner, &'a [Cidr])>,
        record: &ConnectRecord,
    ) -> Vec<LostBlock> {
        self.slots = slots.filter(|slots| *slots > 0);
        for (index, parcel, epoch) in &record.quarantined {
            let place = Place { index: *index, parcel: *parcel };
            self.quarantined.insert(place, *epoch);
            self.occupy(place);
        }
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_by_key(|(owner, _)| (owner.network(), *owner));
        let lost: Vec<LostBlock> =
            entries.into_iter().filter_map(|(owner, cidrs)| self.restore_one(owner, cidrs).err()).collect();
        if !self.held.is_empty() {
            self.slots = Some(self.slots());
        }
        lost
    }

    /// The owner's subnets, or new ones that wait for `commit` or `abort`; IPv4 first. A place without keys,
    /// from before the topology changed, is refused: no key beyond the limit may ever reach OVN.
    pub fn reserve(&mut self, owner: ConnectOwner) -> Result<Vec<Cidr>> {
        let (place, size) = self.probe(owner).map_err(|reason| Error::Connect { owner, reason })?;
        if !self.held.contains_key(&owner) {
            self.hold(owner, place, true, size);
            // Whoever comes back before his place has rested has it as if he had never left.
            if self.left.remove(&owner) == Some(place) {
                self.quarantined.remove(&place);
            }
        }
        Ok(self.subnets_at(place))
    }

    /// Why the owner would be refused, if it would be.
    pub fn refusal(&self, owner: ConnectOwner) -> Option<RefusalReason> {
        self.probe(owner).err()
    }

    /// The annotation is written: all reservations stand.
    pub fn commit(&mut self) {
        let owners: Vec<ConnectOwner> = self.owners().collect();
        self.commit_only(owners);
    }

    /// The annotation holds these owners: their reservations stand.
    pub fn commit_only(&mut self, owners: impl IntoIterator<Item = ConnectOwner>) {
        for owner in owners {
            if let Some(held) = self.held.get_mut(&owner) {
                held.pending = false;
                self.slots = Some(self.slots());
            }
        }
    }

    /// From now on the connection is rendered in this way.
    pub fn set_topology(&mut self, topology: ConnectTopology) {
        self.topology = topology;
        let shared: Vec<u32> = self.shared.keys().copied().collect();
        shared.into_iter().for_each(|index| self.note_room(index));
    }

    /// The annotation could not be written: reservations that were not committed are undone.
    pub fn abort(&mut self) {
        let pending = |(owner, held): (&ConnectOwner, &Held)| held.pending.then_some(*owner);
        let owners: Vec<ConnectOwner> = self.held.iter().filter_map(pending).collect();
        for owner in owners {
            self.release(owner);
        }
    }

    /// Lists the owner's place as freed in this epoch; the owner keeps it until it is released.
    pub fn quarantine(&mut self, owner: ConnectOwner, epoch: Epoch) {
        if let Some(held) = self.held.get(&owner) {
            self.quarantined.insert(held.place, epoch);
        }
    }

    /// What is held is not free, whatever was recorded: whoever has it never lost it, or got it when it was free again.
    pub fn reclaim(&mut self) {
        self.quarantined.retain(|place, _| !self.owners.contains_key(place));
    }

    /// The network is no longer connected. A block of parcels is given back with its last parcel.
    pub fn release(&mut self, owner: ConnectOwner) {
        if let Some(held) = self.held.remove(&owner) {
            self.owners.remove(&held.place);
            self.annotation -= entry_size(owner, &self.subnets_at(held.place));
            if self.quarantined.contains_key(&held.place) {
                self.left.insert(owner, held.place);
            }
            self.settle(held.place);
        }
    }

    /// All zones have cleared what these epochs list.
    pub fn expire(&mut self, cleared: &Cleared) {
        let gone = |(place, epoch): (&Place, &Epoch)| cleared.has(*epoch).then_some(*place);
        let places: Vec<Place> = self.quarantined.iter().filter_map(gone).collect();
        for place in places {
            self.quarantined.remove(&place);
            self.settle(place);
        }
        self.left.retain(|_, place| self.quarantined.contains_key(place));
    }

    /// The network is gone. Another one may get its number, and must not get the place where a zone may still have the old one.
    pub fn forget(&mut self, owner: ConnectOwner) {
        self.left.remove(&owner);
    }

    /// What of this would fit, asked in this order, and which nodes would have no link; nothing changes.
    pub fn forecast(&self, owners: &[ConnectOwner], nodes: &[NodeId]) -> Forecast {
        let mut trial = self.clone();
        let mut forecast = Forecast::default();
        for owner in owners {
            match trial.probe(*owner) {
                Ok((place, size)) => {
                    trial.hold(*owner, place, true, size);
                    forecast.fitting.push(*owner);
                }
                Err(reason) => forecast.refused.push(Refusal { owner: *owner, reason }),
            }
        }
        if trial.held.keys().any(|owner| matches!(owner, ConnectOwner::Layer3(_))) {
            forecast.nodes = self.nodes_without_link(nodes);
        }
        forecast
    }

    /// Nodes whose id is beyond the links of a layer3 block, by id. In the compact topology every node
    /// uses the same link.
    pub fn nodes_without_link(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        if !self.topology.has_node_ports() {
            return Vec::new();
        }
        let slots = self.slots().min(self.links());
        let mut without: Vec<NodeId> = nodes.iter().copied().filter(|node| node.get() >= slots).collect();
        without.sort();
        without
    }

    /// Networks that have a place, but none that this topology can use: ask before moving to it.
    pub fn misfits(&self, topology: ConnectTopology) -> Vec<Refusal> {
        let target = Self { topology, ..self.clone() };
        let misfit = |(owner, held): (&ConnectOwner, &Held)| {
            (!target.fits(held.place)).then(|| Refusal { owner: *owner, reason: target.keys_refusal() })
        };
        self.held.iter().filter_map(misfit).collect()
    }

    /// How many links of a block have keys.
    pub fn slots(&self) -> u32 {
        let fitting = || self.links().min(self.max_nodes.saturating_add(2)).min(PortKey::LAST);
        self.slots.unwrap_or_else(fitting)
    }

    /// The same, once it is settled: to be written beside the connect router's key.
    pub const fn fixed_slots(&self) -> Option<u32> {
        self.slots
    }

    /// The object says how many links have keys: that stays, also if nobody has a block any more.
    pub fn fix_slots(&mut self, slots: u32) {
        if self.slots.is_none() && slots > 0 {
            self.slots = Some(slots);
        }
    }

    /// How many layer3 networks there is room for, if there were nothing else.
    pub fn layer3_capacity(&self) -> u32 {
        let keyed = if self.topology.has_node_ports() { PortKey::LAST / self.slots() } else { u32::MAX };
        self.blocks().min(keyed)
    }

    /// The owner's subnets, IPv4 first.
    pub fn subnets_of(&self, owner: ConnectOwner) -> Option<Vec<Cidr>> {
        self.held.get(&owner).map(|held| self.subnets_at(held.place))
    }

    /// Who has a place, by owner.
    pub fn owners(&self) -> impl Iterator<Item = ConnectOwner> {
        self.held.keys().copied()
    }

    /// Whether a network has a place.
    pub fn holds(&self, owner: ConnectOwner) -> bool {
        self.held.contains_key(&owner)
    }

    /// The size of the annotation as it would be written now.
    pub const fn annotation_size(&self) -> usize {
        self.annotation
    }

    /// What to remember beyond the annotations.
    pub fn record(&self) -> ConnectRecord {
        let entry = |(place, epoch): (&Place, &Epoch)| (place.index, place.parcel, *epoch);
        ConnectRecord { quarantined: self.quarantined.iter().map(entry).collect() }
    }

    fn restore_one(&mut self, owner: ConnectOwner, cidrs: &[Cidr]) -> std::result::Result<(), LostBlock> {
        let lost = |reason| LostBlock { owner, reason };
        let place =
            self.place_of(owner, cidrs).ok_or_else(|| lost(RefusalReason::NotOurs(cidrs.to_vec())))?;
        if let Some(holder) = self.clashing(place) {
            return Err(lost(RefusalReason::TakenBy(holder)));
        }
        let size = entry_size(owner, &self.subnets_at(place));
        self.hold(owner, place, false, size);
        Ok(())
    }

    /// A block clashes with its own parcels too.
    fn clashing(&self, place: Place) -> Option<ConnectOwner> {
        let whole = Place { parcel: None, ..place };
        let exact = self.owners.get(&place).or_else(|| self.owners.get(&whole));
        let cut = || self.owners.range(whole..).next().filter(|(other, _)| other.index == place.index);
        let found =
            if place.parcel.is_none() { exact.or_else(|| cut().map(|(_, owner)| owner)) } else { exact };
        found.copied()
    }

    /// Where annotated subnets are: the same index, and the same parcel, in every family given.
    fn place_of(&self, owner: ConnectOwner, cidrs: &[Cidr]) -> Option<Place> {
        let mut found = None;
        for cidr in cidrs {
            let subnet = self.subnets.iter().find(|subnet| subnet.family() == cidr.family())?;
            let index = subnet.index_of(cidr).ok().filter(|index| *index < self.blocks())?;
            let place = match owner {
                ConnectOwner::Layer3(_) if cidr.prefix_len() == subnet.network_prefix() => {
                    Place { index, parcel: None }
                }
                ConnectOwner::Layer2(_) if cidr.prefix_len() == cidr.family().link_prefix() => {
                    let parcel = subnet.block(index).ok()?.number_of_subnet(cidr).ok()?;
                    let parcel = u32::try_from(parcel).ok().filter(|parcel| *parcel < self.slots())?;
                    Place { index, parcel: Some(parcel) }
                }
                _ => return None,
            };
            if *found.get_or_insert(place) != place {
                return None;
            }
        }
        found
    }

    /// The owner's place, or the one it would get, and the bytes of its entry in the annotation.
    fn probe(&self, owner: ConnectOwner) -> std::result::Result<(Place, usize), RefusalReason> {
        if let Some(held) = self.held.get(&owner) {
            return if self.fits(held.place) { Ok((held.place, 0)) } else { Err(self.keys_refusal()) };
        }
        let place = self.find(owner)?;
        let size = entry_size(owner, &self.subnets_at(place));
        if self.annotation + size > ANNOTATION_LIMIT {
            return Err(RefusalReason::Annotation);
        }
        Ok((place, size))
    }

    fn find(&self, owner: ConnectOwner) -> std::result::Result<Place, RefusalReason> {
        if let Some(own) = self.left.get(&owner).filter(|place| self.fits(**place)) {
            return Ok(*own);
        }
        match owner {
            ConnectOwner::Layer3(_) => {
                self.free_index(self.layer3_capacity()).map(|index| Place { index, parcel: None })
            }
            ConnectOwner::Layer2(_) => self.free_parcel(),
        }
    }

    fn free_index(&self, count: u32) -> std::result::Result<u32, RefusalReason> {
        let last = count.checked_sub(1).ok_or_else(|| self.keys_refusal())?;
        let free = self.taken.first_missing(0, last.into()).and_then(|index| u32::try_from(index).ok());
        free.ok_or_else(|| if count < self.blocks() { self.keys_refusal() } else { self.blocks_refusal() })
    }

    /// Parcels fill blocks that are cut already before another one is.
    fn free_parcel(&self) -> std::result::Result<Place, RefusalReason> {
        for index in &self.roomy {
            if let Some(parcel) = self.free_parcel_of(*index) {
                return Ok(Place { index: *index, parcel: Some(parcel) });
            }
        }
        let keyed =
            if self.topology.has_node_ports() { PortKey::LAST.div_ceil(self.slots()) } else { u32::MAX };
        let index = self.free_index(self.blocks().min(keyed))?;
        Ok(Place { index, parcel: Some(0) })
    }

    fn free_parcel_of(&self, index: u32) -> Option<u32> {
        let last = self.keyed_slots(index).checked_sub(1)?;
        let free = self.shared.get(&index)?.first_missing(0, last.into())?;
        u32::try_from(free).ok()
    }

    /// How many links of a block can be used: the last block may have fewer keys than links.
    fn keyed_slots(&self, index: u32) -> u32 {
        let slots = self.slots();
        let usable = slots.min(self.links());
        if !self.topology.has_node_ports() {
            return usable;
        }
        let left = u64::from(PortKey::LAST).saturating_sub(u64::from(index) * u64::from(slots));
        u32::try_from(left).map_or(usable, |left| left.min(usable))
    }

    /// How many links the smallest family's block has.
    fn links(&self) -> u32 {
        self.subnets.iter().map(ConnectSubnet::links_per_block).min().unwrap_or(1)
    }

    /// Whether the topology can use the place: a layer3 block needs keys for all of its links.
    fn fits(&self, place: Place) -> bool {
        let slots = self.keyed_slots(place.index);
        place.parcel.map_or(slots == self.slots().min(self.links()), |parcel| parcel < slots)
    }

    fn blocks(&self) -> u32 {
        self.subnets.iter().map(ConnectSubnet::blocks).min().unwrap_or(0)
    }

    fn subnets_at(&self, place: Place) -> Vec<Cidr> {
        let one = |subnet: &ConnectSubnet| {
            let block = subnet.block(place.index).ok()?;
            match place.parcel {
                Some(parcel) => block.subnet(subnet.family().link_prefix(), parcel.into()).ok(),
                None => Some(block),
            }
        };
        self.subnets.iter().filter_map(one).collect()
    }

    fn hold(&mut self, owner: ConnectOwner, place: Place, pending: bool, size: usize) {
        self.held.insert(owner, Held { place, pending });
        self.owners.insert(place, owner);
        self.annotation += size;
        self.occupy(place);
    }

    fn occupy(&mut self, place: Place) {
        self.taken.insert(place.index.into());
        if let Some(parcel) = place.parcel {
            self.shared.entry(place.index).or_default().insert(parcel.into());
            self.note_room(place.index);
        }
    }

    /// A place is free again once nobody holds it and no zone may still have it.
    fn settle(&mut self, place: Place) {
        if self.owners.contains_key(&place) || self.quarantined.contains_key(&place) {
            return;
        }
        let Some(parcel) = place.parcel else {
            self.taken.remove(place.index.into());
            return;
        };
        if let Some(parcels) = self.shared.get_mut(&place.index) {
            parcels.remove(parcel.into());
            if parcels.is_empty() {
                self.shared.remove(&place.index);
                self.taken.remove(place.index.into());
            }
        }
        self.note_room(place.index);
    }

    fn note_room(&mut self, index: u32) {
        if self.free_parcel_of(index).is_some() {
            self.roomy.insert(index);
        } else {
            self.roomy.remove(&index);
        }
    }

    fn waiting(&self) -> usize {
        self.quarantined.keys().filter(|place| !self.owners.contains_key(place)).count()
    }

    fn keys_refusal(&self) -> RefusalReason {
        RefusalReason::Keys { networks: self.layer3_capacity(), slots: self.slots(), waiting: self.waiting() }
    }

    fn blocks_refusal(&self) -> RefusalReason {
        let smallest = self.subnets.iter().min_by_key(|subnet| subnet.blocks());
        let subnet = smallest.unwrap_or(&self.subnets[0]).cidr();
        RefusalReason::Blocks { subnet, blocks: self.blocks(), waiting: self.waiting() }
    }
}

/// The bytes of `"layer3_7":{"ipv4":"192.168.0.0/24","ipv6":"fd01::/96"}` and a comma.
fn entry_size(owner: ConnectOwner, subnets: &[Cidr]) -> usize {
    let family = r#""ipv4":"","#.len();
    let subnets: usize = subnets.iter().map(|subnet| subnet.to_string().len() + family).sum();
    owner.to_string().len() + r#""":{},"#.len() + subnets.saturating_sub(1)
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
