//! Members of sets and maps: planned against actual, one by one.
//!
//! A slice that covers a whole column compares it in one ordered pass. A slice that is a single member looks up that
//! member, so its cost does not grow with the set.

use super::{Create, Differ, MemberChange, PlanError, SliceDiff};
use crate::declare::{Identity, Phase};
use crate::desired::{Edge, Plan, Planned, RowKey};
use crate::member;
use crate::path::row_uuid;
use crate::resolve::{Column, Rule, Table};
use causeway_ovsdb::{Datum, RowRef, Str, Uuid};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// Planned members by row and column.
type Wanted = BTreeMap<(Uuid, &'static str), (Edge, Vec<Planned>)>;

/// The slice's rows that have such columns, and what they say of them.
#[derive(Default)]
pub(super) struct Parents<'a> {
    rows: Vec<(&'a Table, Uuid, Str)>,
    /// Columns that a row has whole.
    stated: FxHashSet<(Uuid, &'static str)>,
    phases: FxHashMap<Uuid, Phase>,
}

impl<'a> Parents<'a> {
    pub(super) fn note(&mut self, table: &'a Table, row: &Planned) {
        if table.decl.members.is_empty() {
            return;
        }
        self.rows.push((table, row.uuid, row.path.clone()));
        self.phases.insert(row.uuid, table.phase(Some(row)));
        let stated = table.member_columns().filter(|(_, column)| row.states(column.meta));
        self.stated.extend(stated.map(|(_, column)| (row.uuid, column.name)));
    }
}

/// A column of a row of ours whose members a slice covers.
pub(crate) struct Covered<'a> {
    pub(crate) path: Str,
    pub(crate) column: &'a Column,
    pub(crate) members: &'a Datum,
    /// The slice is this member alone.
    pub(crate) only: Option<Str>,
    table: &'a Table,
    uuid: Uuid,
}

impl<'a> Covered<'a> {
    fn new(table: &'a Table, (at, column): (usize, &'a Column), row: RowRef<'a>, path: &str) -> Covered<'a> {
        Covered { path: path.into(), column, members: &row.row[at], only: None, table, uuid: row.uuid }
    }

    fn edge(&self) -> Edge {
        Edge { parent: RowKey { meta: self.table.meta, uuid: self.uuid }, column: self.column.name }
    }
}

impl<'a> Differ<'a> {
    /// Compares the members that a slice covers with the planned ones.
    pub(super) fn members(
        &self,
        slice: &str,
        planned: Vec<Planned>,
        parents: &Parents<'a>,
        diff: &mut SliceDiff,
    ) -> Result<(), PlanError> {
        let mut wanted = Wanted::new();
        for member in planned {
            if let Some(edge) = self.check_member(slice, &member, parents, diff)? {
                let set = wanted.entry((edge.parent.uuid, edge.column)).or_insert((edge, Vec::new()));
                set.1.push(member);
            }
        }
        for covered in self.covered(slice, parents) {
            let key = (covered.uuid, covered.column.name);
            let want = wanted.remove(&key).map(|(_, members)| members).unwrap_or_default();
            // What a row has whole was compared with it.
            if !parents.stated.contains(&key) {
                self.compare(&covered, want, parents, &mut diff.members);
            }
        }
        self.without_parent(wanted, parents, diff);
        Ok(())
    }

    /// The column of a planned member; `None` if the server does not have it.
    fn check_member(
        &self,
        slice: &str,
        planned: &Planned,
        parents: &Parents<'_>,
        diff: &mut SliceDiff,
    ) -> Result<Option<Edge>, PlanError> {
        let (table, path) = (planned.meta.name, &planned.path);
        let undeclared = |what: String| PlanError::Undeclared { table, path: path.clone(), what };
        let found = self.resolved.by_meta(planned.meta).zip(planned.member_of);
        let (found, edge) = found.ok_or_else(|| undeclared("a member".into()))?;
        self.check_place(slice, found, planned)?;
        if !found.decl.members.contains(&edge.column) {
            return Err(undeclared(format!("a member of {}", edge.column)));
        }
        if parents.stated.contains(&(edge.parent.uuid, edge.column)) {
            return Err(PlanError::Twice { table, path: path.clone() });
        }
        if !found.member_columns().any(|(_, c)| c.name == edge.column) {
            diff.lacking.push(format!("{table}.{}", edge.column));
            return Ok(None);
        }
        Ok(Some(edge))
    }

    /// Columns of rows that are there whose members lie in a slice, or that hold the one member that it is. A row in the
    /// slice that is not planned goes with its members.
    fn covered(&self, slice: &str, parents: &Parents<'a>) -> Vec<Covered<'a>> {
        let mut all = Vec::new();
        let inside = slice.is_empty() || slice.ends_with(':');
        for (table, uuid, path) in parents.rows.iter().filter(|_| inside) {
            if let Some(row) = self.replica.row(table.id, *uuid) {
                all.extend(table.member_columns().map(|at| Covered::new(table, at, row, path)));
            }
        }
        for table in self.resolved.tables().iter().filter(|t| !t.decl.members.is_empty()) {
            all.extend(self.covered_above(table, slice));
        }
        all
    }

    /// The same for a row whose path ends before the slice does.
    pub(crate) fn covered_above(&self, table: &'a Table, slice: &str) -> Vec<Covered<'a>> {
        let path = slice.strip_suffix(':');
        let mut all = path.map(|path| self.columns_of(table, path)).unwrap_or_default();
        if let Some((path, name, key)) = member::split_member(slice)
            && table.decl.members.contains(&name)
            && let Some(at) = table.member_columns().find(|(_, c)| c.name == name)
            && let Some(row) = self.parent(table, path)
        {
            let only = (!slice.ends_with(':')).then_some(key);
            all.push(Covered { only, ..Covered::new(table, at, row, path) });
        }
        all
    }

    /// All such columns of the row with this path.
    pub(crate) fn columns_of(&self, table: &'a Table, path: &str) -> Vec<Covered<'a>> {
        let columns =
            |row| table.member_columns().map(move |at| Covered::new(table, at, row, path)).collect();
        if table.decl.members.is_empty() {
            Vec::new()
        } else {
            self.parent(table, path).map(columns).unwrap_or_default()
        }
    }

    /// The row of ours with this path. It has the UUID of its path, so it is ours also if somebody took the path away.
    fn parent(&self, table: &Table, path: &str) -> Option<RowRef<'a>> {
        let ours = table.decl.identity != Identity::Id || self.is_our_root(path);
        if ours { self.replica.row(table.id, row_uuid(table.meta, path)) } else { None }
    }

    fn compare(
        &self,
        covered: &Covered<'_>,
        mut want: Vec<Planned>,
        parents: &Parents<'_>,
        changes: &mut Vec<MemberChange>,
    ) {
        let mut found = Vec::new();
        match &covered.only {
            Some(key) => {
                let have = member::single(covered.members, key);
                let same = want.first().and_then(one).is_some_and(|one| Some(one) == have.as_ref());
                if !same && (have.is_some() || !want.is_empty()) {
                    found.push((want.pop(), have));
                }
            }
            None => merge(covered.members, want, &mut found),
        }
        if found.is_empty() {
            return;
        }
        let edge = covered.edge();
        let phase = self.parent_phase(covered.table, edge, &covered.path, parents);
        changes.extend(found.into_iter().map(|(want, have)| match want {
            Some(want) => join(edge, want, have, phase),
            None => leave(covered, have, phase),
        }));
    }

    /// A member's phase is that of its row. If the row is in another slice, its plan is asked; a row that is not planned
    /// has the phase of its table.
    fn parent_phase(&self, table: &Table, edge: Edge, path: &str, parents: &Parents<'_>) -> Phase {
        if let Some(phase) = parents.phases.get(&edge.parent.uuid) {
            return *phase;
        }
        let is_parent = |row: &&Planned| row.uuid == edge.parent.uuid;
        match self.planner.plan(path) {
            Plan::Rows(rows) => table.phase(rows.iter().find(is_parent)),
            Plan::Absent | Plan::Hold(_) | Plan::Keep => table.decl.phase,
        }
    }

    /// Members whose row is not there: they come with it if it comes now, or wait for it.
    fn without_parent(&self, wanted: Wanted, parents: &Parents<'_>, diff: &mut SliceDiff) {
        if wanted.is_empty() {
            return;
        }
        let mut creates: FxHashMap<Uuid, &mut Create> =
            diff.creates.iter_mut().map(|create| (create.planned.uuid, create)).collect();
        for (edge, members) in wanted.into_values() {
            let create = creates.get_mut(&edge.parent.uuid);
            let with = |member: &Planned| create.as_ref().is_some_and(|create| comes_with(member, create));
            let (inside, alone): (Vec<_>, Vec<_>) = members.into_iter().partition(with);
            if let (Some(create), Some((at, _))) = (create, inside.first().and_then(|m| m.columns.first())) {
                create.planned.put(*at, member::of_singles(inside.iter().filter_map(one)));
            }
            let Some(first) = alone.first() else { continue };
            let phase = self.phase_without_parent(first, edge, parents);
            diff.members.extend(alone.into_iter().map(|member| join(edge, member, None, phase)));
        }
    }

    fn phase_without_parent(&self, member: &Planned, edge: Edge, parents: &Parents<'_>) -> Phase {
        let path = member::split_member(&member.path).map(|(path, _, _)| path).unwrap_or_default();
        let table = self.resolved.by_meta(member.meta);
        table.map_or(Phase::Container, |table| self.parent_phase(table, edge, path, parents))
    }
}

/// Whether a member can be in the row's own insert.
fn comes_with(member: &Planned, create: &Create) -> bool {
    let row = &create.planned;
    member.phase.is_none_or(|phase| phase == create.phase)
        && (member.atom.is_none() || member.atom == row.atom)
        && member.guards.iter().all(|guard| row.guards.contains(guard))
}

fn one(planned: &Planned) -> Option<&Datum> {
    planned.columns.first().map(|(_, one)| one)
}

fn key(planned: &Planned) -> Option<&Str> {
    one(planned).and_then(|one| member::key_at(one, 0))
}

/// One pass over both, in order: planned members that are missing or differ, and actual ones that are not planned.
fn merge(have: &Datum, mut want: Vec<Planned>, found: &mut Vec<(Option<Planned>, Option<Datum>)>) {
    want.sort_by(|a, b| key(a).cmp(&key(b)));
    let mut at = 0;
    for planned in want {
        while at < have.len() && member::key_at(have, at) < key(&planned) {
            found.push((None, member::single_at(have, at)));
            at += 1;
        }
        if at < have.len() && member::key_at(have, at) == key(&planned) {
            if !one(&planned).is_some_and(|one| member::is_at(have, at, one)) {
                found.push((Some(planned), member::single_at(have, at)));
            }
            at += 1;
        } else {
            found.push((Some(planned), None));
        }
    }
    found.extend((at..have.len()).map(|at| (None, member::single_at(have, at))));
}

fn join(edge: Edge, planned: Planned, old: Option<Datum>, phase: Phase) -> MemberChange {
    MemberChange {
        edge,
        path: planned.path,
        uuid: planned.uuid,
        phase: planned.phase.unwrap_or(phase),
        old,
        new: planned.columns.into_iter().next().map(|(_, one)| one),
        late: false,
        guards: planned.guards,
        atom: planned.atom,
    }
}

fn leave(covered: &Covered<'_>, old: Option<Datum>, phase: Phase) -> MemberChange {
    let key = old.as_ref().and_then(|old| member::key_at(old, 0)).cloned().unwrap_or_default();
    let path = member::member_path(&covered.path, covered.column.name, &key);
    MemberChange {
        edge: covered.edge(),
        uuid: row_uuid(covered.table.meta, &path),
        path,
        phase,
        old,
        new: None,
        late: covered.column.rule == Rule::Members { grows: true },
        guards: Vec::new(),
        atom: None,
    }
}
