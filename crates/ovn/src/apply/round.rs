//! One round: which slices, which rows, in which waves.

use super::pack::{Item, transaction};
use super::{CREATE_ROUNDS, Engine, Strays, Ticket};
use crate::declare::{Identity, Phase};
use crate::desired::{Edge, Plan, Planner, RowKey};
use crate::diff::{Delete, Differ, Modify, SliceDiff};
use crate::path::root;
use crate::resolve::Resolved;
use causeway_ovsdb::{EncodedTransaction, Replica, Str, Uuid};
use rustc_hash::FxHashSet;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Rows of one slice that are due together.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) slice: Str,
    pub(crate) items: Vec<Item>,
}

/// A round under way.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Each is sent when the replies of the one before are in.
    waves: VecDeque<Vec<Group>>,
    outstanding: BTreeMap<Ticket, Vec<Group>>,
    /// Parts of failed transactions, to be sent slice by slice.
    pub(crate) resend: VecDeque<Vec<Group>>,
    slices: BTreeSet<Str>,
    pub(crate) failed: BTreeSet<Str>,
    pub(crate) progressed: bool,
}

impl Round {
    pub(crate) fn of_one_wave(groups: impl Iterator<Item = Group>) -> Round {
        let wave: Vec<Group> = groups.collect();
        let slices = wave.iter().map(|g| g.slice.clone()).collect();
        Round { waves: VecDeque::from([wave]), slices, ..Round::default() }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.outstanding.is_empty()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.waves.is_empty() && self.resend.is_empty() && self.outstanding.is_empty()
    }

    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Vec<Group>> {
        self.outstanding.remove(&ticket)
    }

    pub(crate) fn item(&self, ticket: Ticket, group: usize, item: usize) -> Option<&Item> {
        self.outstanding.get(&ticket)?.get(group)?.items.get(item)
    }
}

impl Engine {
    pub(super) fn differ<'a>(&'a self, replica: &'a Replica, planner: &'a dyn Planner) -> Differ<'a> {
        Differ { replica, resolved: &self.resolved, planner }
    }

    /// Sends the next wave: everything in it that is not held back.
    pub(super) fn next_wave(&mut self, replica: &Replica) -> Vec<(Ticket, EncodedTransaction)> {
        let Some(mut round) = self.round.take() else { return Vec::new() };
        let batches = if round.resend.is_empty() {
            let wave = round.waves.pop_front().unwrap_or_default();
            let groups = wave.into_iter().filter(|g| !round.failed.contains(&g.slice));
            let ready: Vec<Group> = groups.filter_map(|g| self.release(g, replica)).collect();
            batch(ready, self.options.txn_rows)
        } else {
            round.resend.drain(..).collect()
        };
        let mut sent = Vec::new();
        for groups in batches {
            let ticket = Ticket(self.next_ticket);
            self.next_ticket += 1;
            self.stats.transactions += 1;
            let items = groups.iter().flat_map(|g| &g.items);
            let counted = groups.iter().any(|g| self.options.counted.contains(&root(&g.slice)));
            let counter = self.declarations.counter().filter(|_| counted);
            let transaction = transaction(items, self.options.lock.as_ref(), counter);
            self.stats.bytes += transaction.size() as u64;
            sent.push((ticket, transaction));
            for (g, group) in groups.iter().enumerate() {
                for (i, item) in group.items.iter().enumerate() {
                    self.in_flight.insert(item.uuid(), (ticket, g, i));
                }
            }
            round.outstanding.insert(ticket, groups);
        }
        self.round = Some(round);
        sent
    }

    /// Keeps back rows whose guards, parents or references are not there; they are tried again after progress.
    fn release(&mut self, mut group: Group, replica: &Replica) -> Option<Group> {
        let creates = group.items.iter().filter(|i| matches!(i, Item::Create(_)));
        let mut back = Back { created: creates.map(Item::uuid).collect(), ..Back::default() };
        // A row kept back may keep back others of its group, so this goes on until nothing changes.
        while let Some(reason) = self.find_missing(&group, replica, &mut back) {
            self.waiting.insert(group.slice.clone(), reason);
        }
        if !back.rows.is_empty() {
            group.items.retain(|i| !back.rows.contains(&i.uuid()));
        }
        (!group.items.is_empty()).then_some(group)
    }

    /// One pass over a group; says what one of the rows that it keeps back waits for.
    fn find_missing(&self, group: &Group, replica: &Replica, back: &mut Back) -> Option<String> {
        let mut reason = None;
        for item in &group.items {
            if back.rows.contains(&item.uuid()) {
                continue;
            }
            let there = |need: &RowKey| exists(&self.resolved, replica, *need);
            let together =
                |need: &RowKey| back.created.contains(&need.uuid) && !back.rows.contains(&need.uuid);
            let missing = needs(item, &self.resolved).find(|need| !there(need) && !together(need));
            let bound = item.atom().is_some_and(|a| back.atoms.contains(a));
            if missing.is_some() || bound {
                back.rows.insert(item.uuid());
                back.atoms.extend(item.atom().cloned());
                let waits = |need: RowKey| format!("waits for {} {}", need.meta.name, need.uuid);
                reason = Some(missing.map_or_else(|| "waits for a row of its atom".to_owned(), waits));
            }
        }
        reason
    }

    /// After a round: slices that failed stay failed, the others are well; what waited may go on.
    pub(super) fn end_round(&mut self) {
        let Some(round) = self.round.take() else { return };
        for slice in round.slices.difference(&round.failed) {
            if !self.waiting.contains_key(slice) {
                self.failed.remove(slice);
            }
        }
        if round.progressed {
            self.prefixes.extend(std::mem::take(&mut self.waiting).into_keys().map(|slice| (slice, false)));
        }
    }

    /// Begins a round if there is anything to do.
    pub(super) fn begin_round(&mut self, replica: &Replica, planner: &dyn Planner, now: u64) -> bool {
        if !self.expand(replica, planner) || !self.find_strays(replica, planner) {
            return false;
        }
        if self.strays == Strays::Going {
            if self.begin_removals(replica) {
                return true;
            }
            self.strays = Strays::Gone;
        }
        if self.create_rounds >= CREATE_ROUNDS || self.dirty.is_empty() {
            if self.begin_removals(replica) {
                return true;
            }
            // Not after the first of them: what goes early would go before the rest for ever.
            self.create_rounds = 0;
        }
        if self.begin_creations(replica, planner, now) {
            return true;
        }
        // Nothing to create: what this look found superfluous can go at once.
        self.dirty.is_empty() && self.begin_removals(replica)
    }

    fn begin_creations(&mut self, replica: &Replica, planner: &dyn Planner, now: u64) -> bool {
        let mut round = Round::default();
        let mut phases: BTreeMap<Phase, Vec<Group>> = BTreeMap::new();
        let (mut rows, mut compared) = (0, 0);
        while rows < self.options.round_rows && compared < self.options.batch {
            let Some((slice, audit)) = self.dirty.pop() else { break };
            let Some((diff, planned)) = self.diff_slice(replica, planner, &slice, now) else { continue };
            compared += planned.max(1);
            if audit {
                self.stats.audit_findings += diff.len() as u64;
            }
            round.slices.insert(slice.clone());
            rows += self.take_diff(slice, diff, &mut phases);
        }
        let first = self.removals_in_the_way(&phases);
        round.waves.extend(waves_of_removals(first));
        round.waves.extend(phases.into_values());
        let begun = !round.waves.is_empty();
        if begun {
            self.stats.rounds += 1;
            self.create_rounds += 1;
        }
        self.round = Some(round);
        if !begun {
            self.end_round();
        }
        begun
    }

    /// Plans and compares one slice; `None` when there is nothing to do with it now.
    fn diff_slice(
        &mut self,
        replica: &Replica,
        planner: &dyn Planner,
        slice: &Str,
        now: u64,
    ) -> Option<(SliceDiff, usize)> {
        self.removals.forget(slice);
        self.waiting.remove(slice);
        let planned = match planner.plan(slice) {
            Plan::Rows(rows) => rows,
            Plan::Absent => Vec::new(),
            // Nothing is to be written there now, so an attempt that failed before says nothing any more.
            Plan::Hold(reason) => {
                self.failed.remove(slice);
                self.held.insert(slice.clone(), reason);
                return None;
            }
            Plan::Keep => {
                self.failed.remove(slice);
                self.held.remove(slice);
                return None;
            }
        };
        self.held.remove(slice);
        for row in &planned {
            if self.resolved.by_meta(row.meta).is_some_and(|t| t.decl.identity == Identity::Adopted) {
                self.adopted.insert(row.meta.name, row.path.clone());
            }
        }
        let count = planned.len();
        match self.differ(replica, planner).slice(slice, planned) {
            Ok(diff) => Some((diff, count)),
            Err(error) => {
                self.fail(slice.clone(), error.to_string(), now);
                None
            }
        }
    }

    /// Puts a difference where it belongs: creations into this round, removals aside. Says how many rows that was.
    fn take_diff(&mut self, slice: Str, diff: SliceDiff, phases: &mut BTreeMap<Phase, Vec<Group>>) -> usize {
        self.lacking.extend(diff.lacking);
        let deletes = diff.deletes.into_iter().filter(Delete::can_be_sent);
        let (replaced, deletes): (Vec<_>, Vec<_>) = deletes.partition(|delete| delete.now);
        for delete in deletes {
            self.removals.insert(&slice, delete.path.clone(), Item::Delete(delete));
        }
        for modify in &diff.modifies {
            if let Some(shrink) = modify.shrink() {
                self.removals.insert(&slice, modify.planned.path.clone(), Item::Shrink(shrink));
            }
        }
        let (late, members): (Vec<_>, Vec<_>) = diff.members.into_iter().partition(|m| m.late);
        for member in late {
            self.removals.insert(&slice, member.path.clone(), Item::Member(member));
        }
        let creates = diff.creates.into_iter().map(Item::Create);
        let in_two = |mut modify: Modify| {
            let closing = modify.take_closing();
            std::iter::once(modify).chain(closing)
        };
        let modifies = diff.modifies.into_iter().flat_map(in_two).filter(Modify::has_now).map(Item::Modify);
        let replaced = replaced.into_iter().map(Item::Delete);
        let mut by_phase: BTreeMap<Phase, Vec<Item>> = BTreeMap::new();
        let mut rows = 0;
        let members = members.into_iter().map(Item::Member);
        for item in creates.chain(modifies).chain(replaced).chain(members) {
            by_phase.entry(item.phase()).or_default().push(item);
            rows += 1;
        }
        for (phase, items) in by_phase {
            phases.entry(phase).or_default().push(Group { slice: slice.clone(), items });
        }
        rows
    }

    /// Deletions that must come first, since they free a name that a row of this round needs.
    fn removals_in_the_way(&mut self, phases: &BTreeMap<Phase, Vec<Group>>) -> Vec<(Str, Delete)> {
        if !self.removals.frees_anything() {
            return Vec::new();
        }
        let mut wanted: FxHashSet<(&'static str, String)> = FxHashSet::default();
        for item in phases.values().flatten().flat_map(|g| &g.items) {
            let planned = match item {
                Item::Create(c) => &c.planned,
                Item::Modify(m) => &m.planned,
                Item::Delete(_) | Item::Shrink(_) | Item::Member(_) => continue,
            };
            if let Some(table) = self.resolved.by_meta(planned.meta) {
                let values = table.unique_values(|at| table.planned(planned, at));
                wanted.extend(values.into_iter().map(|v| (planned.meta.name, v)));
            }
        }
        self.removals.take_freeing(&wanted)
    }
}

/// Rows of a group that are kept back.
#[derive(Default)]
struct Back {
    /// What the group creates.
    created: FxHashSet<Uuid>,
    rows: FxHashSet<Uuid>,
    atoms: BTreeSet<Str>,
}

/// What must be there before a row or member: its guards, the rows whose sets it joins, the rows it refers to. A row that is there and
/// stays what and where it is only joins sets that do not hold it: it waits for no guard, which may be about to come for these very
/// members.
fn needs<'a>(item: &'a Item, resolved: &Resolved) -> impl Iterator<Item = RowKey> + 'a {
    let (guards, joins, references): (&[RowKey], &[Edge], Vec<RowKey>) = match item {
        Item::Create(c) => (&c.planned.guards, &c.planned.edges, resolved.references(&c.planned)),
        Item::Modify(m) if m.columns.is_empty() && !m.join.iter().any(|edge| resolved.is_strong(edge)) => {
            (&[], &m.join, Vec::new())
        }
        Item::Modify(m) => (&m.planned.guards, &m.join, resolved.references(&m.planned)),
        Item::Member(m) if m.new.is_some() => (&m.guards, std::slice::from_ref(&m.edge), Vec::new()),
        Item::Member(_) | Item::Delete(_) | Item::Shrink(_) => (&[], &[], Vec::new()),
    };
    guards.iter().copied().chain(joins.iter().map(|e| e.parent)).chain(references)
}

pub(super) fn exists(resolved: &Resolved, replica: &Replica, key: RowKey) -> bool {
    resolved.by_meta(key.meta).is_some_and(|t| replica.row(t.id, key.uuid).is_some())
}

/// Fills transactions up to a size. A slice stays whole unless it is larger than two of them; an atom always does.
fn batch(groups: Vec<Group>, size: usize) -> Vec<Vec<Group>> {
    let mut batches: Vec<Vec<Group>> = Vec::new();
    let mut current: Vec<Group> = Vec::new();
    let mut rows = 0;
    for group in groups.into_iter().flat_map(|g| split(g, size)) {
        if rows > 0 && rows + group.items.len() > size {
            batches.push(std::mem::take(&mut current));
            rows = 0;
        }
        rows += group.items.len();
        current.push(group);
    }
    if !current.is_empty() {
        batches.push(current);
    }
    batches
}

fn split(mut group: Group, size: usize) -> Vec<Group> {
    if group.items.len() <= size * 2 {
        return vec![group];
    }
    group.items.sort_by(|a, b| a.atom().cmp(&b.atom()));
    let mut parts: Vec<Group> = Vec::new();
    for item in group.items {
        let bound =
            |part: &Group| item.atom().is_some() && part.items.last().and_then(Item::atom) == item.atom();
        match parts.last_mut() {
            Some(part) if part.items.len() < size || bound(part) => part.items.push(item),
            _ => parts.push(Group { slice: group.slice.clone(), items: vec![item] }),
        }
    }
    parts
}

/// Early deletions, dependants first.
fn waves_of_removals(first: Vec<(Str, Delete)>) -> Vec<Vec<Group>> {
    let mut waves: BTreeMap<Reverse<Phase>, Vec<Group>> = BTreeMap::new();
    for (slice, delete) in first {
        let wave = waves.entry(Reverse(delete.phase)).or_default();
        match wave.last_mut() {
            Some(group) if group.slice == slice => group.items.push(Item::Delete(delete)),
            _ => wave.push(Group { slice, items: vec![Item::Delete(delete)] }),
        }
    }
    waves.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::Planned;
    use crate::diff::Create;
    use crate::generated::nb::LogicalSwitch;

    fn group(slice: &str, atoms: &[Option<&str>]) -> Group {
        let item = |(i, atom): (usize, &Option<&str>)| {
            let row = Planned::new(format!("{slice}{i}"), LogicalSwitch::default());
            let planned = match atom {
                Some(atom) => row.bound_to(*atom),
                None => row,
            };
            Item::Create(Create { planned, phase: Phase::Container })
        };
        Group { slice: slice.into(), items: atoms.iter().enumerate().map(item).collect() }
    }

    fn shape(batches: &[Vec<Group>]) -> Vec<Vec<(&str, usize)>> {
        batches.iter().map(|b| b.iter().map(|g| (g.slice.as_str(), g.items.len())).collect()).collect()
    }

    #[test]
    fn small_slices_share_a_transaction_and_stay_whole() {
        let groups = vec![group("a:", &[None; 3]), group("b:", &[None; 3]), group("c:", &[None; 2])];
        assert_eq!(shape(&batch(groups, 5)), [vec![("a:", 3)], vec![("b:", 3), ("c:", 2)]]);
    }

    #[test]
    fn a_large_slice_is_split_but_no_atom_is() {
        let mut atoms = vec![None; 6];
        atoms.extend([Some("x"); 7]);
        assert_eq!(shape(&batch(vec![group("a:", &atoms)], 4)), [vec![("a:", 4)], vec![("a:", 9)]]);
    }
}
