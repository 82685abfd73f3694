//! Which chassis id and which tunnel addresses belong to which node.
//!
//! What a node says of itself is a claim; here claims are settled, and the record of it is what zones believe. Who has a thing keeps it
//! until its Node goes or names it no longer, whatever others claim. What nobody has goes to who claims it first; at the
//! first look at a cluster without records that is the older Node. Never a question of ids or of the order of names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use causeway_api::annotations::{ChassisId, ChassisRecord};
use causeway_record::Node;
use causeway_types::{Cidr, NodeName};

/// The most tunnel addresses that a node can have.
const MAX_ADDRESSES: usize = 8;

/// Something that only one node can have.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Thing {
    Chassis(ChassisId),
    Address(IpAddr),
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chassis(id) => write!(f, "chassis id {}", id.as_str()),
            Self::Address(address) => write!(f, "tunnel address {address}"),
        }
    }
}

/// A chassis with its tunnel addresses: claimed, settled or written.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Place {
    chassis: Option<ChassisId>,
    addresses: Vec<IpAddr>,
}

impl Place {
    fn of(record: &ChassisRecord) -> Self {
        Self { chassis: record.chassis_id.clone(), addresses: record.encap_ips.clone() }
    }

    fn things(&self) -> impl Iterator<Item = Thing> {
        let chassis = self.chassis.clone().map(Thing::Chassis);
        chassis.into_iter().chain(self.addresses.iter().copied().map(Thing::Address))
    }

    fn has(&self, thing: &Thing) -> bool {
        match thing {
            Thing::Chassis(id) => self.chassis.as_ref() == Some(id),
            Thing::Address(address) => self.addresses.contains(address),
        }
    }
}

#[derive(Debug)]
struct Entry {
    uid: String,
    created: i64,
    /// Addresses by its kubelet's account.
    own: Vec<IpAddr>,
    /// What it says; or why that cannot be read, and then it keeps what it has.
    claim: Result<Place, String>,
    /// What it has.
    granted: Place,
    /// What its record says, which zones go by until a newer one is written.
    written: Place,
    /// Its own addresses as they were when its record was first written, those of them that are in the record.
    first: Option<Vec<IpAddr>>,
    refused: Vec<String>,
}

impl Entry {
    fn of(node: &Node) -> Self {
        let record = node.settled();
        let written = record.map(Place::of).unwrap_or_default();
        Self {
            uid: node.uid.clone(),
            created: node.created,
            own: node.addresses.clone(),
            claim: claim(node),
            granted: written.clone(),
            written,
            first: record.and_then(|record| record.node_ips.clone()),
            refused: record.map(|record| record.refused.clone()).unwrap_or_default(),
        }
    }

    fn has(&self, thing: &Thing) -> bool {
        self.granted.has(thing) || self.written.has(thing)
    }

    /// Whether it still says that the thing is its own.
    fn claims(&self, thing: &Thing) -> bool {
        self.claim.as_ref().map_or_else(|_| self.has(thing), |claim| claim.has(thing))
    }

    fn seniority<'a>(&self, name: &'a NodeName) -> (i64, &'a NodeName) {
        (self.created, name)
    }
}

fn claim(node: &Node) -> Result<Place, String> {
    let addresses = node.encaps.clone()?.map(|ips| ips.0).unwrap_or_default();
    if addresses.len() > MAX_ADDRESSES {
        let many = addresses.len();
        return Err(format!("{many} tunnel addresses are too many: a node has at most {MAX_ADDRESSES}"));
    }
    let mut once = Vec::new();
    addresses.into_iter().for_each(|address| {
        if !once.contains(&address) {
            once.push(address)
        }
    });
    Ok(Place { chassis: node.chassis.clone()?, addresses: once })
}

/// By a thing, the nodes that it is about.
type Index = BTreeMap<Thing, BTreeSet<NodeName>>;

/// All claims, and what is settled of them.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    nodes: BTreeMap<NodeName, Entry>,
    holders: Index,
    claimants: Index,
    /// Whose kubelet names an address.
    owners: Index,
    /// Ranges that the cluster uses inside of its networks.
    inner: Vec<Cidr>,
}

/// What is settled of a node's claim.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Settled {
    /// The record to write; none while there is nothing to say.
    pub(crate) record: Option<ChassisRecord>,
    /// Refusals that nobody was told of yet.
    pub(crate) news: Vec<String>,
    /// Who claims what the node has no longer.
    pub(crate) concerned: BTreeSet<NodeName>,
}

impl Claims {
    pub(crate) fn new(inner: Vec<Cidr>) -> Self {
        Self { inner, ..Self::default() }
    }

    /// A node is there, or says something else. The answer is whose claims must be settled again.
    pub(crate) fn apply(&mut self, node: &Node) -> BTreeSet<NodeName> {
        let name = &node.name;
        let mut entry = Entry::of(node);
        let before = self.nodes.remove(name);
        let mut concerned = BTreeSet::from([name.clone()]);
        if let Some(before) = before {
            self.index(name, &before, false, &mut concerned);
            // Another Node of this name has nothing of what the former had.
            if before.uid == entry.uid {
                (entry.granted, entry.refused) = (before.granted, before.refused);
            }
        }
        self.index(name, &entry, true, &mut concerned);
        self.nodes.insert(name.clone(), entry);
        concerned
    }

    /// A node is gone, and what it had is free. The answer is whose claims must be settled again.
    pub(crate) fn remove(&mut self, name: &NodeName) -> BTreeSet<NodeName> {
        let mut concerned = BTreeSet::new();
        if let Some(entry) = self.nodes.remove(name) {
            self.index(name, &entry, false, &mut concerned);
        }
        concerned.remove(name);
        concerned
    }

    /// Settles all claims for the first time: what is recorded stays, the rest goes by age.
    pub(crate) fn start(&mut self) {
        let mut by_age: Vec<(i64, NodeName)> =
            self.nodes.iter().map(|(name, entry)| (entry.created, name.clone())).collect();
        by_age.sort();
        for (_, name) in by_age {
            // What is refused now is said when the node is settled with the others.
            let said = self.nodes.get(&name).map(|entry| entry.refused.clone()).unwrap_or_default();
            self.settle(&name);
            self.nodes.entry(name).and_modify(|entry| entry.refused = said);
        }
    }

    /// Settles the claim of a node against what others have.
    pub(crate) fn settle(&mut self, name: &NodeName) -> Settled {
        let Some(entry) = self.nodes.get(name) else { return Settled::default() };
        let mut refused = Vec::new();
        let granted = match &entry.claim {
            Err(problem) => {
                refused.push(problem.clone());
                entry.granted.clone()
            }
            Ok(claim) => self.grant(name, entry, claim, &mut refused),
        };
        let news = refused.iter().filter(|text| !entry.refused.contains(text)).cloned().collect();
        let nothing = granted == Place::default() && refused.is_empty() && entry.written == granted;
        let record = ChassisRecord {
            uid: entry.uid.clone(),
            chassis_id: granted.chassis.clone(),
            encap_ips: granted.addresses.clone(),
            node_ips: self.node_ips(name, entry),
            refused: refused.clone(),
        };
        let concerned = self.give(name, granted, refused);
        Settled { record: (!nothing).then_some(record), news, concerned }
    }

    /// The node's own addresses, for services. A kubelet's word is taken once, when the record is made: later it can give an address up,
    /// and cannot take one from somebody who is outside of the cluster.
    fn node_ips(&self, name: &NodeName, entry: &Entry) -> Option<Vec<IpAddr>> {
        if let Some(first) = &entry.first {
            return Some(first.iter().copied().filter(|address| entry.own.contains(address)).collect());
        }
        let nobody_elses = |address: &IpAddr| {
            let thing = Thing::Address(*address);
            let mut others = others(&self.owners, &thing, name).chain(others(&self.holders, &thing, name));
            others.next().is_none() && self.impossible(*address).is_none()
        };
        let own: Vec<IpAddr> = entry.own.iter().copied().filter(nobody_elses).collect();
        (!own.is_empty()).then_some(own)
    }

    /// The node has this from now on. The answer is who claims what it had before.
    fn give(&mut self, name: &NodeName, granted: Place, refused: Vec<String>) -> BTreeSet<NodeName> {
        let mut concerned = BTreeSet::new();
        let Some(mut entry) = self.nodes.remove(name) else { return concerned };
        self.index(name, &entry, false, &mut BTreeSet::new());
        let before = std::mem::replace(&mut entry.granted, granted);
        entry.refused = refused;
        for lost in before.things().filter(|thing| !entry.has(thing)) {
            concerned.extend(others(&self.claimants, &lost, name).cloned());
        }
        self.index(name, &entry, true, &mut BTreeSet::new());
        self.nodes.insert(name.clone(), entry);
        concerned
    }

    /// What of a claim a node gets. Where it gets nothing it keeps what it had, as long as nobody else wants that.
    fn grant(&self, name: &NodeName, entry: &Entry, claim: &Place, refused: &mut Vec<String>) -> Place {
        let mut free = |thing: &Thing| match self.obstacle(name, entry, thing) {
            None => true,
            Some(reason) => {
                refused.extend(reason);
                false
            }
        };
        let wanted = |thing: &Thing| others(&self.claimants, thing, name).next().is_some();
        let claimed = claim.chassis.clone().filter(|id| free(&Thing::Chassis(id.clone())));
        let kept = entry.granted.chassis.clone().filter(|id| !wanted(&Thing::Chassis(id.clone())));
        let mut addresses = claim.addresses.clone();
        addresses.retain(|address| free(&Thing::Address(*address)));
        if addresses.is_empty() {
            addresses.clone_from(&entry.granted.addresses);
            addresses.retain(|address| !wanted(&Thing::Address(*address)));
        }
        Place { chassis: claimed.or(kept), addresses }
    }

    /// Why a node does not get what it claims; without words where it only has to wait.
    fn obstacle(&self, name: &NodeName, entry: &Entry, thing: &Thing) -> Option<Option<String>> {
        let has = entry.has(thing);
        if let Thing::Address(address) = thing
            && !has
            && let Some(reason) = self.implausible(name, *address)
        {
            return Some(Some(reason));
        }
        let holder = others(&self.holders, thing, name).find_map(|other| {
            let holder = self.nodes.get(other)?;
            // Two records with one thing: only of hands other than ours.
            (!has || holder.seniority(other) < entry.seniority(name)).then_some((other, holder))
        });
        let (other, holder) = holder?;
        Some(holder.claims(thing).then(|| {
            format!(
                "{thing} belongs to node {other}: it is given to {name} when the Node {other} is deleted or names \
                 it no longer; if {other} was installed again as {name}, delete the Node {other}"
            )
        }))
    }

    /// Why no node can have an address.
    fn impossible(&self, address: IpAddr) -> Option<String> {
        let is_link_local = match address {
            IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        if address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_link_local {
            return Some(format!("tunnel address {address} cannot be an address of a tunnel between nodes"));
        }
        let range = self.inner.iter().find(|range| range.contains_address(address))?;
        Some(format!("tunnel address {address} is in {range}, which the cluster's networks use"))
    }

    fn implausible(&self, name: &NodeName, address: IpAddr) -> Option<String> {
        if let Some(reason) = self.impossible(address) {
            return Some(reason);
        }
        // Also where its own kubelet names it, which says as much as it does itself.
        let other = others(&self.owners, &Thing::Address(address), name).next()?;
        Some(format!(
            "tunnel address {address} is an address of node {other}, too: it is given to {name} when the Node {other} is deleted or its \
             kubelet names it no longer; if {other} was installed again as {name}, delete the Node {other}"
        ))
    }

    /// Puts a node into the indexes or takes it out, and adds whom that concerns: who has what it claims, and who claims
    /// what it has.
    fn index(&mut self, name: &NodeName, entry: &Entry, add: bool, concerned: &mut BTreeSet<NodeName>) {
        let claim = entry.claim.iter().flat_map(Place::things);
        for thing in claim {
            concerned.extend(others(&self.holders, &thing, name).cloned());
            put(&mut self.claimants, thing, name, add);
        }
        for thing in entry.granted.things().chain(entry.written.things()) {
            concerned.extend(others(&self.claimants, &thing, name).cloned());
            put(&mut self.holders, thing, name, add);
        }
        for thing in entry.own.iter().copied().map(Thing::Address) {
            concerned.extend(others(&self.claimants, &thing, name).cloned());
            put(&mut self.owners, thing, name, add);
        }
    }
}

fn others<'a>(
    index: &'a Index,
    thing: &Thing,
    name: &'a NodeName,
) -> impl Iterator<Item = &'a NodeName> + use<'a> {
    index.get(thing).into_iter().flatten().filter(move |other| *other != name)
}

fn put(index: &mut Index, thing: Thing, name: &NodeName, add: bool) {
    if add {
        index.entry(thing).or_default().insert(name.clone());
    } else if let Some(names) = index.get_mut(&thing) {
        names.remove(name);
        if names.is_empty() {
            index.remove(&thing);
        }
    }
}
