//! Rooms put together: the planner of one database.

use std::collections::BTreeSet;

use causeway_ovn::{Plan, Planned, Planner, Str};

use super::{AnyKind, Room, World};

/// The planner of one database: a world, and the rooms that plan from it.
pub struct House<'a, W: World + 'static> {
    world: &'a W,
    rooms: &'a [&'a Room<W>],
    roots: Vec<&'static str>,
}

impl<'a, W: World> House<'a, W> {
    /// The plan of these rooms that follows from a world.
    pub fn new(world: &'a W, rooms: &'a [&'a Room<W>]) -> Self {
        let kinds = rooms.iter().flat_map(|room| room.kinds);
        let roots: BTreeSet<&'static str> = kinds.map(|kind| kind.root()).collect();
        Self { world, rooms, roots: roots.into_iter().collect() }
    }

    fn kinds(&self) -> impl Iterator<Item = &'static dyn AnyKind<W>> {
        self.rooms.iter().flat_map(|room| room.kinds).copied()
    }

    /// The kind of the slice that a path or prefix lies in, with the length of the slice.
    fn kind_of(&self, path: &str) -> Option<(&'static dyn AnyKind<W>, usize)> {
        self.kinds().find_map(|kind| Some((kind, kind.slice_len(path)?)))
    }

    /// The prefixes to be looked at after some changes.
    pub fn dirty<'c>(&self, changes: impl IntoIterator<Item = &'c W::Change>) -> BTreeSet<String>
    where
        W::Change: 'c,
    {
        let mut dirty = BTreeSet::new();
        for change in changes {
            if W::is_everything(change) {
                return BTreeSet::from([String::new()]);
            }
            dirty.extend(self.kinds().flat_map(|kind| kind.dirty(self.world, change)));
        }
        dirty
    }

    /// Who is not as it was asked for when this slice fails, waits or is held.
    pub fn blame(&self, slice: &str) -> Vec<W::Subject> {
        self.kind_of(slice).map(|(kind, _)| kind.to_blame(self.world, slice)).unwrap_or_default()
    }

    /// A prefix wider than a slice: all of them, and nothing while one of them stays as it is.
    fn wide(&self, prefix: &str) -> Plan {
        let mut all = Vec::new();
        for slice in self.slices(prefix) {
            match self.plan(&slice) {
                Plan::Rows(rows) => all.extend(rows),
                Plan::Absent => {}
                stays @ (Plan::Hold(_) | Plan::Keep) => return stays,
            }
        }
        plan_of(all)
    }
}

impl<W: World> std::fmt::Debug for House<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.rooms.iter().map(|room| room.name)).finish()
    }
}

/// A plan of these rows; none at all is nothing to have.
pub(crate) fn plan_of(rows: Vec<Planned>) -> Plan {
    if rows.is_empty() { Plan::Absent } else { Plan::Rows(rows) }
}

impl<W: World> Planner for House<'_, W> {
    fn roots(&self) -> &[&str] {
        &self.roots
    }

    fn slices(&self, prefix: &str) -> Vec<Str> {
        // Inside one slice, or exactly one.
        if self.kind_of(prefix).is_some() {
            return vec![prefix.into()];
        }
        self.kinds().flat_map(|kind| kind.below(self.world, prefix)).map(Str::from).collect()
    }

    /// A kind is a part.
    fn slices_in_part(&self, prefix: &str, part: usize) -> Option<Vec<Str>> {
        if self.kind_of(prefix).is_some() {
            return (part == 0).then(|| vec![prefix.into()]);
        }
        let kind = self.kinds().nth(part)?;
        Some(kind.below(self.world, prefix).into_iter().map(Str::from).collect())
    }

    fn slice_len(&self, path: &str) -> usize {
        self.kind_of(path).map_or(path.len(), |(_, length)| length)
    }

    fn holder(&self, path: &str) -> Option<Str> {
        self.kinds().find_map(|kind| kind.holder(self.world, path)).map(Str::from)
    }

    fn plan(&self, slice: &str) -> Plan {
        let Some((kind, length)) = self.kind_of(slice) else { return self.wide(slice) };
        if length < slice.len()
            && let Some(plan) = kind.part_at(self.world, slice)
        {
            return plan;
        }
        let covers = |row: &Planned| {
            if slice.ends_with(':') { row.path.starts_with(slice) } else { row.path == slice }
        };
        match kind.plan_at(self.world, slice) {
            Plan::Rows(rows) if length < slice.len() => plan_of(rows.into_iter().filter(covers).collect()),
            other => other,
        }
    }

    fn priority(&self, slice: &str) -> u8 {
        self.kind_of(slice).map_or(100, |(kind, _)| kind.urgency())
    }
}
