//! Sets of addresses that rules name: whose they are, on which networks, and who names them.
//!
//! Addresses are kept for each network apart and counted: an address that one pod takes over from another is there as long as
//! one of them has it. Which networks go into a row of the database is the [class](super::reach)'s to say.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use causeway_record::Protocol;
use causeway_types::{Family, NetworkName};
use sha2::{Digest as _, Sha256};

use super::info::{PolicyKey, SetSpec, Who};
use super::people::Person;
use super::reach::Class;
use crate::{Change, Changes};

/// Stands for a set, by a hash of its text that nobody finds twice.
pub type SetMark = Arc<str>;

/// The number that a port of a set's name has; none in sets without such a name.
pub type Number = Option<(Protocol, u16)>;

/// Stands for a text, by a hash that nobody finds twice.
pub fn mark(text: &str) -> Arc<str> {
    let hash = Sha256::digest(text);
    hash[..12].iter().fold(String::with_capacity(24), |text, byte| format!("{text}{byte:02x}")).into()
}

/// How many times something was put in.
#[derive(Clone, Debug)]
pub(super) struct Counted<K>(BTreeMap<K, u32>);

impl<K> Default for Counted<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Counted<K> {
    /// Counts it in or out; says whether it came or went by that.
    pub(super) fn count(&mut self, key: K, into: bool) -> bool {
        let count = self.0.entry(key);
        match (count, into) {
            (std::collections::btree_map::Entry::Occupied(mut entry), true) => {
                *entry.get_mut() += 1;
                false
            }
            (std::collections::btree_map::Entry::Occupied(mut entry), false) => {
                *entry.get_mut() -= 1;
                *entry.get() == 0 && {
                    entry.remove();
                    true
                }
            }
            (std::collections::btree_map::Entry::Vacant(entry), true) => {
                entry.insert(1);
                true
            }
            (std::collections::btree_map::Entry::Vacant(_), false) => false,
        }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.keys()
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Who names a set: a policy on a network.
pub(super) type User = (NetworkName, PolicyKey);

/// Addresses by network; those of nodes count on every network and are under none.
type Addresses = BTreeMap<Option<NetworkName>, Counted<IpAddr>>;

#[derive(Debug)]
pub(super) struct PeerSet {
    pub(super) spec: SetSpec,
    members: BTreeMap<Number, Addresses>,
    /// By the class of their networks.
    users: BTreeMap<Arc<str>, Counted<User>>,
}

impl PeerSet {
    pub(super) fn new(spec: SetSpec) -> Self {
        Self { spec, members: BTreeMap::new(), users: BTreeMap::new() }
    }

    /// A user in a class comes or goes; says whether the class came or went by that.
    pub(super) fn count_user(&mut self, class: &Arc<str>, user: User, into: bool) -> bool {
        let users = self.users.entry(class.clone()).or_default();
        let was_empty = users.is_empty();
        users.count(user, into);
        let is_empty = users.is_empty();
        if is_empty {
            self.users.remove(class);
        }
        was_empty != is_empty
    }

    pub(super) fn is_unused(&self) -> bool {
        self.users.is_empty()
    }

    pub(super) fn classes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.users.keys()
    }

    /// Whether policies name it that may forbid something, not only allow.
    pub(super) fn is_administrators(&self) -> bool {
        self.users.values().flat_map(Counted::keys).any(|(_, policy)| policy.namespace().is_none())
    }

    pub(super) fn is_in(&self, class: &str) -> bool {
        self.users.contains_key(class)
    }

    /// Takes somebody in or out whom the selector selects.
    pub(super) fn count(&mut self, mark: &SetMark, person: &Person, into: bool, changes: &mut Changes) {
        let Who::Pods(selector) = &self.spec.who else { return };
        let Some(network) = person.known_on().filter(|_| selector.hosts || !person.is_host()) else { return };
        for number in numbers(&self.spec, person) {
            self.count_addresses(mark, number, network, &person.addresses, into, changes);
        }
    }

    /// Takes a node in or out whom the selector selects.
    pub(super) fn count_node(
        &mut self,
        mark: &SetMark,
        addresses: &[IpAddr],
        into: bool,
        changes: &mut Changes,
    ) {
        self.count_addresses(mark, None, None, addresses, into, changes);
    }

    fn count_addresses(
        &mut self,
        mark: &SetMark,
        number: Number,
        network: Option<&NetworkName>,
        addresses: &[IpAddr],
        into: bool,
        changes: &mut Changes,
    ) {
        let network = network.cloned();
        let of_number = self.members.entry(number).or_default();
        let on_network = of_number.entry(network.clone()).or_default();
        let was_empty = on_network.is_empty();
        for address in addresses {
            if on_network.count(*address, into) {
                let (set, network, address) = (mark.clone(), network.clone(), *address);
                changes.add(Change::Peer { set, number, network, address });
            }
        }
        let is_empty = on_network.is_empty();
        if is_empty {
            of_number.remove(&network);
        }
        if of_number.is_empty() {
            self.members.remove(&number);
        }
        if number.is_some() && was_empty != is_empty {
            self.numbers_changed(mark, changes);
        }
    }

    /// Rules name a set for each number that a port's name has, so they differ when there is another.
    fn numbers_changed(&self, mark: &SetMark, changes: &mut Changes) {
        for (class, users) in &self.users {
            changes.add(Change::PeerSet { set: mark.clone(), class: class.clone() });
            for (network, policy) in users.keys() {
                changes.add(Change::Policy { policy: policy.clone(), network: network.clone() });
            }
        }
    }

    /// The numbers that the port's name has on the networks of a class; without such a name the one set there is.
    pub(super) fn numbers(&self, class: &Class) -> Vec<Number> {
        if self.spec.port.is_none() {
            return vec![None];
        }
        let has = |addresses: &Addresses| class.places().any(|place| addresses.contains_key(&place));
        self.members.iter().filter(|(_, addresses)| has(addresses)).map(|(number, _)| *number).collect()
    }

    /// The addresses on the networks of a class.
    pub(super) fn addresses(&self, class: &Class, number: Number, family: Family) -> Vec<IpAddr> {
        let Some(addresses) = self.members.get(&number) else { return Vec::new() };
        let on = class.places().filter_map(|place| addresses.get(&place));
        let mut all: Vec<IpAddr> =
            on.flat_map(Counted::keys).filter(|address| Family::of(address) == family).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether an address is one of them.
    pub(super) fn has(&self, class: &Class, number: Number, address: IpAddr) -> bool {
        let Some(addresses) = self.members.get(&number) else { return false };
        class.places().any(|place| addresses.get(&place).is_some_and(|on| on.contains(&address)))
    }
}

/// Under which numbers somebody is in a set.
fn numbers(spec: &SetSpec, person: &Person) -> Vec<Number> {
    let Some((protocol, name)) = &spec.port else { return vec![None] };
    let bears = person.ports.iter().filter(|port| port.protocol == *protocol && port.name == *name);
    bears.map(|port| Some((port.protocol, port.port))).collect()
}
