//! The host's plan, kept up to date: what a change does not touch is not planned again.
//!
//! A part of the plan is what a room plans for one owner. Whatever the order of events, the plan is the one that all of it at once
//! would make: of several who ask for one key with different items the first room has it, then the first owner.

use std::collections::{BTreeMap, BTreeSet};

use causeway_types::host::{HostUpdate, Item, Key, Owner, Planned};
use causeway_zone::{Change, Zone};

use super::HOST;

/// Which owners of a room something is about.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Touched {
    /// None of them.
    #[default]
    Nobody,
    /// These, whether there is anything of them or not.
    Some(BTreeSet<Owner>),
    /// All of them.
    Everybody,
}

impl Touched {
    /// Everybody, or nobody.
    pub fn all_if(all: bool) -> Self {
        if all { Self::Everybody } else { Self::Nobody }
    }

    /// Whether an owner is among them.
    pub fn has(&self, owner: &Owner) -> bool {
        match self {
            Self::Nobody => false,
            Self::Some(owners) => owners.contains(owner),
            Self::Everybody => true,
        }
    }

    fn merge(&mut self, other: Self) {
        match (self, other) {
            (_, Self::Nobody) | (Self::Everybody, _) => {}
            (Self::Some(owners), Self::Some(more)) => owners.extend(more),
            (this, other) => *this = other,
        }
    }
}

/// What is to be planned again, room by room.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HostDirty(BTreeMap<usize, Touched>);

impl HostDirty {
    /// All owners in all rooms are planned again.
    pub fn everything() -> Self {
        Self((0..HOST.len()).map(|room| (room, Touched::Everybody)).collect())
    }

    /// What follows from a change. The zone is as it is after the change.
    pub(crate) fn after(zone: &Zone, change: &Change) -> Self {
        if *change == Change::Everything {
            return Self::everything();
        }
        let rooms = HOST.iter().enumerate().map(|(place, room)| (place, (room.follows)(zone, change)));
        Self(rooms.filter(|(_, touched)| *touched != Touched::Nobody).collect())
    }

    /// Whether there is anything.
    pub fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Adds what follows from other changes.
    pub fn merge(&mut self, other: Self) {
        for (room, touched) in other.0 {
            self.0.entry(room).or_default().merge(touched);
        }
    }
}

/// A room, by its place in the list, and an owner.
type Part = (usize, Owner);

/// What one part asks for, sorted by key; of one key the first counts.
type Asked = Result<Vec<(Key, Item)>, String>;

/// What stands under a key, and who asks for it in vain.
type Standing = (Option<Planned>, BTreeSet<Owner>);

/// All parts of the plan.
#[derive(Debug, Default)]
pub struct HostKeeper {
    parts: BTreeMap<Part, Asked>,
    askers: BTreeMap<Key, BTreeSet<Part>>,
    /// Why everybody is held; before the first look nothing is known.
    held: Option<Option<String>>,
    planned: u64,
}

/// How things were before the parts that are looked at.
#[derive(Default)]
struct Before {
    keys: BTreeMap<Key, Standing>,
    holds: BTreeMap<Owner, Option<String>>,
}

impl HostKeeper {
    /// Plans again what is dirty, and says what differs.
    pub fn follow(&mut self, zone: &Zone, dirty: &HostDirty) -> HostUpdate {
        let here = zone.here().map_err(|problem| problem.message);
        let held = here.as_ref().err().cloned();
        let whole = self.held.as_ref().is_none_or(|before| before.is_some() != held.is_some());
        let hold_all = (self.held.as_ref() != Some(&held)).then(|| held.clone());
        self.held = Some(held);
        let mut before = Before::default();
        match here {
            Err(_) => {
                let parts: Vec<Part> = self.parts.keys().cloned().collect();
                parts.into_iter().for_each(|part| self.set(&mut before, part, None));
            }
            Ok(here) => {
                let everything = HostDirty::everything();
                for (room, touched) in &if whole { &everything } else { dirty }.0 {
                    let Some(plan) = HOST.get(*room) else { continue };
                    let mut found: BTreeMap<Owner, Option<Asked>> = self.known(*room, touched);
                    for (owner, items) in (plan.items)(zone, here, touched) {
                        if touched.has(&owner) {
                            add(found.entry(owner).or_default(), items);
                        }
                    }
                    self.planned += found.len() as u64;
                    found.into_iter().for_each(|(owner, asked)| self.set(&mut before, (*room, owner), asked));
                }
            }
        }
        HostUpdate { hold_all, ..self.since(before) }
    }

    /// How many parts were planned so far.
    pub fn planned(&self) -> u64 {
        self.planned
    }

    /// Owners who had something of a room and are to be looked at.
    fn known(&self, room: usize, touched: &Touched) -> BTreeMap<Owner, Option<Asked>> {
        let had = |owner: &&Owner| self.parts.contains_key(&(room, (*owner).clone()));
        match touched {
            Touched::Nobody => BTreeMap::new(),
            Touched::Some(owners) => owners.iter().filter(had).map(|owner| (owner.clone(), None)).collect(),
            Touched::Everybody => {
                let of_room =
                    self.parts.range((room, Owner::new(""))..).take_while(|((of, _), _)| *of == room);
                of_room.map(|((_, owner), _)| (owner.clone(), None)).collect()
            }
        }
    }

    fn set(&mut self, before: &mut Before, part: Part, asked: Option<Asked>) {
        before.holds.entry(part.1.clone()).or_insert_with(|| self.hold_of(&part.1));
        let old = self.parts.get(&part);
        if old == asked.as_ref() {
            return;
        }
        let keys = |asked: Option<&Asked>| -> BTreeSet<Key> {
            let items = asked.into_iter().flatten().flatten();
            items.map(|(key, _)| key.clone()).collect()
        };
        let (gone, come) = (keys(old), keys(asked.as_ref()));
        for key in gone.union(&come) {
            before.keys.entry(key.clone()).or_insert_with(|| self.standing(key));
        }
        for key in gone.difference(&come) {
            if let Some(askers) = self.askers.get_mut(key) {
                askers.remove(&part);
                if askers.is_empty() {
                    self.askers.remove(key);
                }
            }
        }
        for key in come {
            self.askers.entry(key).or_default().insert(part.clone());
        }
        match asked {
            Some(asked) => drop(self.parts.insert(part, asked)),
            None => drop(self.parts.remove(&part)),
        }
    }

    fn standing(&self, key: &Key) -> Standing {
        let mut standing = Standing::default();
        for part in self.askers.get(key).into_iter().flatten() {
            let Some(Ok(items)) = self.parts.get(part) else { continue };
            let from = items.partition_point(|(of, _)| of < key);
            for (_, item) in items.iter().skip(from).take_while(|(of, _)| of == key) {
                match &standing.0 {
                    None => standing.0 = Some(Planned { owner: part.1.clone(), item: item.clone() }),
                    Some(first) if first.item == *item => {}
                    Some(_) => drop(standing.1.insert(part.1.clone())),
                }
            }
        }
        standing
    }

    fn hold_of(&self, owner: &Owner) -> Option<String> {
        let of = |room: usize| self.parts.get(&(room, owner.clone()))?.as_ref().err().cloned();
        (0..HOST.len()).rev().find_map(of)
    }

    fn since(&self, before: Before) -> HostUpdate {
        let mut update = HostUpdate::default();
        for (key, (item, clashes)) in before.keys {
            let now = self.standing(&key);
            if now.1 != clashes {
                update.clashes.insert(key.clone(), now.1);
            }
            if now.0 != item {
                update.items.insert(key, now.0);
            }
        }
        for (owner, reason) in before.holds {
            let now = self.hold_of(&owner);
            if now != reason {
                update.holds.insert(owner, now);
            }
        }
        update
    }
}

/// A room may say several things of one owner.
fn add(part: &mut Option<Asked>, items: Result<Vec<Item>, String>) {
    let items = items.map(|items| items.into_iter().map(|item| (item.key(), item)).collect::<Vec<_>>());
    match (part.as_mut(), items) {
        (Some(Ok(known)), Ok(items)) => known.extend(items),
        (_, items) => *part = Some(items),
    }
    if let Some(Ok(known)) = part {
        known.sort_by(|(one, _), (other, _)| one.cmp(other));
    }
}
