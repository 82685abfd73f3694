//! Rows that go when nothing is left to create: dependants before their guards, over all slices.

use super::pack::Item;
use super::round::{Group, Round, exists};
use super::{Engine, Failure, Strays};
use crate::declare::Phase;
use crate::desired::covers;
use crate::diff::Delete;
use crate::resolve::Resolved;
use causeway_ovsdb::{Replica, Str, Uuid};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// What waits to be removed, by path: a path may stand in several tables.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    rows: BTreeMap<(Str, Uuid), Removal>,
}

#[derive(Debug)]
struct Removal {
    /// The slice that decided it, for reports and back-off.
    slice: Str,
    item: Item,
}

impl Removals {
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn insert(&mut self, slice: &Str, path: Str, item: Item) {
        self.rows.insert((path, item.uuid()), Removal { slice: slice.clone(), item });
    }

    /// A slice is looked at again: what was decided about it is void.
    pub(crate) fn forget(&mut self, slice: &str) {
        let from = (Str::from(slice), Uuid::nil());
        let paths = self.rows.range(from..).map(|(key, _)| key).take_while(|(path, _)| covers(slice, path));
        for key in paths.cloned().collect::<Vec<_>>() {
            self.rows.remove(&key);
        }
    }

    pub(crate) fn all_failed(&self, failed: &BTreeMap<Str, Failure>) -> bool {
        self.rows.values().all(|r| failed.contains_key(&r.slice))
    }

    fn deletes(&self) -> impl Iterator<Item = (&Str, &Delete)> {
        self.rows
            .values()
            .filter_map(|r| if let Item::Delete(d) = &r.item { Some((&r.slice, d)) } else { None })
    }

    /// Takes out the deletions that free a value that a row about to be written needs.
    pub(crate) fn take_freeing(&mut self, wanted: &FxHashSet<(&'static str, String)>) -> Vec<(Str, Delete)> {
        let mut freeing = Vec::new();
        self.rows.retain(|_, removal| {
            let Item::Delete(d) = &removal.item else { return true };
            let frees = d.unique.iter().any(|v| wanted.contains(&(d.row.meta.name, v.clone())));
            if frees {
                freeing.push((removal.slice.clone(), d.clone()));
            }
            !frees
        });
        freeing
    }

    pub(crate) fn frees_anything(&self) -> bool {
        self.deletes().any(|(_, d)| !d.unique.is_empty())
    }
}

impl Engine {
    /// A round of removals: the last phase that has any, over all slices.
    pub(super) fn begin_removals(&mut self, replica: &Replica) -> bool {
        self.drop_what_is_gone(replica);
        let absorbed = self.absorbed();
        let strays_only = self.strays == Strays::Going;
        let due = |item: &Item| match item {
            Item::Delete(d) if absorbed.children.contains(&d.row.uuid) => None,
            Item::Delete(d) => Some(absorbed.phases.get(&d.row.uuid).copied().unwrap_or(d.phase)),
            // It goes with its row.
            Item::Member(m) if absorbed.dying.contains(&m.edge.parent.uuid) => None,
            other => (!strays_only).then(|| other.phase()),
        };
        let healthy = |removal: &&Removal| !self.failed.contains_key(&removal.slice);
        let phases = self.removals.rows.values().filter(healthy).filter_map(|r| due(&r.item));
        let Some(phase) = phases.max() else { return false };
        let mut groups: BTreeMap<Str, Vec<Item>> = BTreeMap::new();
        let mut rows = 0;
        let taken = self.removals.rows.extract_if(.., |_, removal| {
            let take = rows < self.options.round_rows
                && !self.failed.contains_key(&removal.slice)
                && due(&removal.item) == Some(phase);
            rows += usize::from(take);
            take
        });
        for (_, removal) in taken {
            groups.entry(removal.slice).or_default().push(removal.item);
        }
        self.going = absorbed.children;
        self.stats.rounds += 1;
        self.round =
            Some(Round::of_one_wave(groups.into_iter().map(|(slice, items)| Group { slice, items })));
        true
    }

    /// Rows that went with what held them need no deletion any more.
    fn drop_what_is_gone(&mut self, replica: &Replica) {
        let resolved: &Resolved = &self.resolved;
        let mut deleted = 0;
        self.removals.rows.retain(|_, removal| {
            let row = match &removal.item {
                Item::Delete(d) => d.row,
                Item::Shrink(s) => s.row,
                Item::Member(m) => m.edge.parent,
                Item::Create(_) | Item::Modify(_) => return true,
            };
            let stays = exists(resolved, replica, row);
            deleted += u64::from(!stays && matches!(removal.item, Item::Delete(_)));
            stays
        });
        self.stats.deleted += deleted;
    }

    /// A row that is held only by rows that go too goes with them: deleting a router deletes its ports. The holder
    /// then goes when the last of these would have gone. A holder of guards goes with its guards, after everything
    /// that they guard, so other rows in it must go on their own before.
    fn absorbed(&self) -> Absorbed {
        let healthy = self.removals.deletes().filter(|(slice, _)| !self.failed.contains_key(*slice));
        let deletes: Vec<&Delete> = healthy.map(|(_, d)| d).collect();
        let dying: FxHashSet<Uuid> = deletes.iter().map(|d| d.row.uuid).collect();
        let holders = |d: &Delete| -> Vec<Uuid> {
            d.edges.iter().filter(|e| self.resolved.is_strong(e)).map(|e| e.parent.uuid).collect()
        };
        let guards = deletes.iter().filter(|d| d.phase == Phase::Guard);
        let guard_holders: FxHashSet<Uuid> = guards.flat_map(|d| holders(d)).collect();
        let mut absorbed = Absorbed { dying, ..Absorbed::default() };
        for child in deletes.iter().filter(|d| !d.is_root) {
            let holders = holders(child);
            let held = !holders.is_empty() && holders.iter().all(|h| absorbed.dying.contains(h));
            let outlives = child.phase > Phase::Guard && holders.iter().any(|h| guard_holders.contains(h));
            if held && !outlives {
                absorbed.children.insert(child.row.uuid);
                for holder in holders {
                    let phase = absorbed.phases.entry(holder).or_insert(Phase::Container);
                    *phase = child.phase.max(*phase);
                }
            }
        }
        for holder in deletes {
            if let Some(phase) = absorbed.phases.get_mut(&holder.row.uuid) {
                *phase = holder.phase.max(*phase);
            }
        }
        absorbed
    }
}

#[derive(Default)]
struct Absorbed {
    /// All rows that go.
    dying: FxHashSet<Uuid>,
    /// Those that go with their holders.
    children: FxHashSet<Uuid>,
    phases: FxHashMap<Uuid, Phase>,
}
