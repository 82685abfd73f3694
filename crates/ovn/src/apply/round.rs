//! One round: which slices, which rows, in which waves.

use super::pack::{Item, transaction};
use super::{CREATE_ROUNDS, DIFF_BATCH, Engine, Strays, Ticket};
use crate::declare::{Identity, Phase};
use crate::desired::{Plan, Planner, RowKey};
use crate::diff::{Delete, Differ, SliceDiff};
use crate::resolve::Resolved;
use causeway_ovsdb::{Replica, Str, Transaction, Uuid};
use rustc_hash::{FxHashMap, FxHashSet};
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
    pub(super) fn differ<'a>(&'a self, replica: &'a Replica, roots: &'a [&'a str]) -> Differ<'a> {
        Differ { replica, resolved: &self.resolved, roots }
    }

    /// Sends the next wave: everything in it that is not held back.
    pub(super) fn next_wave(&mut self, replica: &Replica) -> Vec<(Ticket, Transaction)> {
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
            sent.push((ticket, transaction(items, self.options.lock.as_ref())));
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
        let together: FxHashSet<Uuid> =
            group.items.iter().filter(|i| matches!(i, Item::Create(_))).map(Item::uuid).collect();
        let mut back_atoms: BTreeSet<Str> = BTreeSet::new();
        let mut back: FxHashSet<Uuid> = FxHashSet::default();
        // A row kept back may keep back others of its group, so this goes on until nothing changes.
        loop {
            let before = back.len();
            for item in &group.items {
                if back.contains(&item.uuid()) {
                    continue;
                }
                let missing = needs(item, &self.resolved).into_iter().find(|need| {
                    let here = together.contains(&need.uuid) && !back.contains(&need.uuid);
                    !here && !exists(&self.resolved, replica, *need)
                });
                let bound = item.atom().is_some_and(|a| back_atoms.contains(a));
                if missing.is_some() || bound {
                    back.insert(item.uuid());
                    back_atoms.extend(item.atom().cloned());
                }
                if let Some(need) = missing {
                    let reason = format!("waits for {} {}", need.meta.name, need.uuid);
                    self.waiting.insert(group.slice.clone(), reason);
                }
            }
            if back.len() == before {
                break;
            }
        }
        group.items.retain(|i| !back.contains(&i.uuid()));
        (!group.items.is_empty()).then_some(group)
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
        self.expand(replica, planner);
        if self.strays == Strays::Unknown {
            self.find_strays(replica, planner);
        }
        if self.strays == Strays::Going {
            if self.begin_removals(replica) {
                return true;
            }
            self.strays = Strays::Gone;
        }
        let deletions_due = self.create_rounds >= CREATE_ROUNDS || self.dirty.is_empty();
        if deletions_due && self.begin_removals(replica) {
            self.create_rounds = 0;
            return true;
        }
        self.begin_creations(replica, planner, now)
    }

    /// Splits dirty prefixes into slices: those of the plan, and those of rows that are there.
    fn expand(&mut self, replica: &Replica, planner: &dyn Planner) {
        for (prefix, audit) in std::mem::take(&mut self.prefixes) {
            for slice in planner.slices(&prefix) {
                self.dirty.insert(slice.clone(), planner.priority(&slice), audit);
            }
            for slice in self.actual_slices(replica, planner, &prefix) {
                let priority = planner.priority(&slice);
                self.dirty.insert(slice, priority, audit);
            }
        }
        for path in std::mem::take(&mut self.touched) {
            let slice = Str::from(&path[..planner.slice_len(&path)]);
            let priority = planner.priority(&slice);
            self.dirty.insert(slice, priority, false);
        }
    }

    fn actual_slices(&self, replica: &Replica, planner: &dyn Planner, prefix: &str) -> BTreeSet<Str> {
        let roots: Vec<&str> = self.roots.iter().map(String::as_str).collect();
        let differ = self.differ(replica, &roots);
        let mut slices = BTreeSet::new();
        for table in self.resolved.tables().iter().filter(|t| t.decl.identity != Identity::Adopted) {
            let mut from = Str::from(prefix);
            while let Some((path, uuid)) = replica.first_from(table.id, &from) {
                if !path.starts_with(prefix) {
                    break;
                }
                if differ.claim(table, path, uuid).is_none() {
                    from = path.clone();
                    from.push('\0');
                    continue;
                }
                let slice = Str::from(&path[..planner.slice_len(path)]);
                from = behind(&slice);
                slices.insert(slice);
            }
        }
        slices
    }

    /// Rows with our path and a wrong UUID, as after a restore from a backup: they go before anything is created,
    /// dependants before their guards over all slices.
    fn find_strays(&mut self, replica: &Replica, planner: &dyn Planner) {
        let roots: Vec<&str> = self.roots.iter().map(String::as_str).collect();
        let differ = self.differ(replica, &roots);
        let mut found: BTreeMap<Str, Vec<Item>> = BTreeMap::new();
        for table in self.resolved.tables().iter().filter(|t| t.decl.identity == Identity::Id) {
            for (path, uuid) in replica.range(table.id, "") {
                if differ.claim(table, path, uuid) == Some(true)
                    && let Some(delete) = differ.delete(table, path, uuid, true).filter(Delete::can_be_sent)
                {
                    let slice = Str::from(&path[..planner.slice_len(path)]);
                    found.entry(slice).or_default().push(Item::Delete(delete));
                }
            }
        }
        self.strays = if found.is_empty() { Strays::Gone } else { Strays::Going };
        self.removals = found;
    }

    fn begin_creations(&mut self, replica: &Replica, planner: &dyn Planner, now: u64) -> bool {
        let mut round = Round::default();
        let mut phases: BTreeMap<Phase, Vec<Group>> = BTreeMap::new();
        let (mut rows, mut compared) = (0, 0);
        while rows < self.options.round_rows && compared < DIFF_BATCH {
            let Some((slice, audit)) = self.dirty.pop() else { break };
            let Some((diff, planned)) = self.diff_slice(replica, planner, &slice, now) else { continue };
            compared += planned.max(1);
            if audit {
                self.stats.audit_findings +=
                    (diff.creates.len() + diff.modifies.len() + diff.deletes.len()) as u64;
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
        self.removals.remove(slice);
        self.waiting.remove(slice);
        let planned = match planner.plan(slice) {
            Plan::Rows(rows) => rows,
            Plan::Absent => Vec::new(),
            Plan::Hold(reason) => {
                self.held.insert(slice.clone(), reason);
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
        let roots: Vec<&str> = self.roots.iter().map(String::as_str).collect();
        match self.differ(replica, &roots).slice(slice, planned) {
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
        let deletable = diff.deletes.into_iter().filter(|d| d.can_be_sent());
        let mut removals: Vec<Item> = deletable.map(Item::Delete).collect();
        removals.extend(diff.modifies.iter().filter_map(|m| m.shrink()).map(Item::Shrink));
        if !removals.is_empty() {
            self.removals.insert(slice.clone(), removals);
        }
        let creates = diff.creates.into_iter().map(Item::Create);
        let modifies = diff.modifies.into_iter().filter(|m| m.has_now()).map(Item::Modify);
        let mut by_phase: BTreeMap<Phase, Vec<Item>> = BTreeMap::new();
        let mut rows = 0;
        for item in creates.chain(modifies) {
            by_phase.entry(item.phase()).or_default().push(item);
            rows += 1;
        }
        for (phase, items) in by_phase {
            phases.entry(phase).or_default().push(Group { slice: slice.clone(), items });
        }
        rows
    }

    /// Deletions that must come first, since they free a name that a row of this round needs.
    fn removals_in_the_way(&mut self, phases: &BTreeMap<Phase, Vec<Group>>) -> BTreeMap<Str, Vec<Delete>> {
        let mut first: BTreeMap<Str, Vec<Delete>> = BTreeMap::new();
        let dying =
            self.removals.values().flatten().any(|i| matches!(i, Item::Delete(d) if !d.unique.is_empty()));
        if !dying {
            return first;
        }
        let mut wanted: FxHashSet<(&'static str, String)> = FxHashSet::default();
        for item in phases.values().flatten().flat_map(|g| &g.items) {
            let planned = match item {
                Item::Create(c) => &c.planned,
                Item::Modify(m) => &m.planned,
                _ => continue,
            };
            if let Some(table) = self.resolved.by_meta(planned.meta) {
                let values = table.unique_values(|at| table.planned(planned, at));
                wanted.extend(values.into_iter().map(|v| (planned.meta.name, v)));
            }
        }
        for (slice, items) in &mut self.removals {
            items.retain(|item| {
                let Item::Delete(d) = item else { return true };
                let frees = d.unique.iter().any(|v| wanted.contains(&(d.row.meta.name, v.clone())));
                if frees {
                    first.entry(slice.clone()).or_default().push(d.clone());
                }
                !frees
            });
        }
        self.removals.retain(|_, items| !items.is_empty());
        first
    }

    /// A round of removals: the last phase that has any, over all slices.
    fn begin_removals(&mut self, replica: &Replica) -> bool {
        self.drop_what_is_gone(replica);
        let absorbed = self.absorbed();
        let strays_only = self.strays == Strays::Going;
        let due = |item: &Item| match item {
            Item::Delete(d) if absorbed.children.contains(&d.row.uuid) => None,
            Item::Delete(d) => Some(absorbed.phases.get(&d.row.uuid).copied().unwrap_or(d.phase)),
            other => (!strays_only).then(|| other.phase()),
        };
        let healthy = |slice: &Str, failed: &BTreeMap<Str, super::Failure>| !failed.contains_key(slice);
        let candidates = self.removals.iter().filter(|(slice, _)| healthy(slice, &self.failed));
        let Some(phase) = candidates.flat_map(|(_, items)| items.iter().filter_map(due)).max() else {
            return false;
        };
        let mut round = Round::default();
        let mut groups = Vec::new();
        let mut rows = 0;
        for (slice, items) in &mut self.removals {
            if rows >= self.options.round_rows || self.failed.contains_key(slice) {
                continue;
            }
            let (now, later): (Vec<Item>, Vec<Item>) =
                std::mem::take(items).into_iter().partition(|item| due(item) == Some(phase));
            *items = later;
            if !now.is_empty() {
                rows += now.len();
                round.slices.insert(slice.clone());
                groups.push(Group { slice: slice.clone(), items: now });
            }
        }
        self.removals.retain(|_, items| !items.is_empty());
        self.going = absorbed.children;
        round.waves.push_back(groups);
        self.stats.rounds += 1;
        self.round = Some(round);
        true
    }

    /// Rows that went with what held them need no deletion any more.
    fn drop_what_is_gone(&mut self, replica: &Replica) {
        let mut gone = 0;
        for items in self.removals.values_mut() {
            let before = items.len();
            items.retain(|item| match item {
                Item::Delete(d) => exists(&self.resolved, replica, d.row),
                Item::Shrink(s) => exists(&self.resolved, replica, s.row),
                _ => true,
            });
            gone += before - items.len();
        }
        self.stats.deleted += gone as u64;
        self.removals.retain(|_, items| !items.is_empty());
    }

    /// A row that is held only by rows that go too goes with them: deleting a router deletes its ports. The holder
    /// then goes when the last of these would have gone. A holder of guards goes with its guards, after everything
    /// that they guard, so other rows in it must go on their own before.
    fn absorbed(&self) -> Absorbed {
        let deletes: Vec<&Delete> = self
            .removals
            .iter()
            .filter(|(slice, _)| !self.failed.contains_key(*slice))
            .flat_map(|(_, items)| items)
            .filter_map(|item| if let Item::Delete(d) = item { Some(d) } else { None })
            .collect();
        let dying: FxHashSet<Uuid> = deletes.iter().map(|d| d.row.uuid).collect();
        let holders = |d: &Delete| -> Vec<Uuid> {
            d.edges.iter().filter(|e| self.resolved.is_strong(e)).map(|e| e.parent.uuid).collect()
        };
        let guards = deletes.iter().filter(|d| d.phase == Phase::Guard);
        let guard_holders: FxHashSet<Uuid> = guards.flat_map(|d| holders(d)).collect();
        let mut absorbed = Absorbed::default();
        for child in deletes.iter().filter(|d| !d.is_root) {
            let holders = holders(child);
            let held = !holders.is_empty() && holders.iter().all(|h| dying.contains(h));
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
    children: FxHashSet<Uuid>,
    phases: FxHashMap<Uuid, Phase>,
}

/// What must be there before a row: its guards, the rows whose sets it joins, the rows it refers to.
fn needs(item: &Item, resolved: &Resolved) -> Vec<RowKey> {
    let (planned, joins) = match item {
        Item::Create(c) => (&c.planned, &c.planned.edges),
        Item::Modify(m) => (&m.planned, &m.join),
        Item::Delete(_) | Item::Shrink(_) => return Vec::new(),
    };
    let mut needs = planned.guards.clone();
    needs.extend(joins.iter().map(|e| e.parent));
    needs.extend(resolved.references(planned));
    needs
}

fn exists(resolved: &Resolved, replica: &Replica, key: RowKey) -> bool {
    resolved.by_meta(key.meta).is_some_and(|t| replica.row(t.id, key.uuid).is_some())
}

/// The least path behind a slice.
fn behind(slice: &str) -> Str {
    match slice.strip_suffix(':') {
        // `;` is the character after `:`.
        Some(stem) => Str::from(format!("{stem};")),
        None => Str::from(format!("{slice}\0")),
    }
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
fn waves_of_removals(first: BTreeMap<Str, Vec<Delete>>) -> Vec<Vec<Group>> {
    let mut waves: BTreeMap<std::cmp::Reverse<Phase>, Vec<Group>> = BTreeMap::new();
    for (slice, deletes) in first {
        for delete in deletes {
            let wave = waves.entry(std::cmp::Reverse(delete.phase)).or_default();
            match wave.last_mut() {
                Some(group) if group.slice == slice => group.items.push(Item::Delete(delete)),
                _ => wave.push(Group { slice: slice.clone(), items: vec![Item::Delete(delete)] }),
            }
        }
    }
    waves.into_values().collect()
}
