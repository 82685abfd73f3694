//! From dirty prefixes to slices: those of the plan, and those of what is there.
//!
//! A start-up looks at everything that is there, so this goes on in parts of [`Options::batch`](super::Options) paths, and
//! the caller gets a turn between them.

use super::dirty::wider;
use super::pack::Item;
use super::{Engine, Strays};
use crate::declare::Identity;
use crate::desired::{Planner, covers};
use crate::diff::{Covered, Delete, Differ};
use crate::member::{self, column_prefix, member_path};
use crate::resolve::Table;
use causeway_ovsdb::{Replica, Str, Uuid};
use std::collections::BTreeSet;

/// How far a walk over the paths of all tables has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cursor {
    table: usize,
    /// The least path that it has not seen in this table.
    from: Str,
}

impl Cursor {
    fn next_table(&mut self, prefix: &str) {
        self.table += 1;
        self.from = prefix.into();
    }
}

/// A dirty prefix on its way to slices.
#[derive(Debug)]
pub(crate) struct Expansion {
    prefix: Str,
    /// Whether only the audit asked for it.
    audit: bool,
    slices: BTreeSet<Str>,
    /// The part of the plan whose slices are asked for next.
    part: Option<usize>,
    walk: Option<Cursor>,
}

impl Expansion {
    fn new(prefix: Str, audit: bool) -> Expansion {
        let walk = Some(Cursor { table: 0, from: prefix.clone() });
        Expansion { prefix, audit, slices: BTreeSet::new(), part: Some(0), walk }
    }

    /// Asks the plan for its slices, as far as the budget reaches. What comes or goes between two parts is dirty by itself.
    fn ask(&mut self, planner: &dyn Planner, budget: &mut usize) {
        while let Some(part) = self.part.filter(|_| *budget > 0) {
            let slices = planner.slices_in_part(&self.prefix, part);
            self.part = slices.is_some().then_some(part + 1);
            // A part costs a look even if it has nothing.
            *budget = budget.saturating_sub(slices.as_ref().map_or(0, Vec::len) + 1);
            self.slices.extend(slices.into_iter().flatten());
        }
    }

    /// Slices of members that are there, unless a slice around all of them is known.
    fn add_members(&mut self, planner: &dyn Planner, columns: Vec<Covered<'_>>, budget: &mut usize) {
        for Covered { path, column, members, only, .. } in columns {
            if let Some(key) = only {
                let there = member::single(members, &key).is_some();
                self.slices.extend(there.then(|| self.prefix.clone()));
                continue;
            }
            let all = column_prefix(&path, column.name);
            if wider(&all).any(|slice| self.slices.contains(slice)) {
                continue;
            }
            for key in member::keys(members) {
                *budget = budget.saturating_sub(1);
                let member = member_path(&path, column.name, key);
                let length = planner.slice_len(&member).max(self.prefix.len());
                self.slices.insert(Str::from(&member[..length]));
                if length <= all.len() {
                    break;
                }
            }
        }
    }
}

impl Engine {
    /// Splits dirty prefixes into slices; says whether that is done.
    pub(super) fn expand(&mut self, replica: &Replica, planner: &dyn Planner) -> bool {
        let mut budget = self.options.batch.max(1);
        while budget > 0 {
            let next = || self.prefixes.pop_front().map(|(prefix, audit)| Expansion::new(prefix, audit));
            let Some(mut expansion) = self.expanding.take().or_else(next) else {
                self.look_at_touched(planner);
                return true;
            };
            if self.advance(replica, planner, &mut expansion, &mut budget) {
                continue;
            }
            self.expanding = Some(expansion);
        }
        false
    }

    /// Goes on with one prefix; says whether all its slices are dirty now.
    fn advance(
        &mut self,
        replica: &Replica,
        planner: &dyn Planner,
        expansion: &mut Expansion,
        budget: &mut usize,
    ) -> bool {
        expansion.ask(planner, budget);
        if expansion.part.is_none() && expansion.walk.is_some() {
            self.walk(replica, planner, expansion, budget);
            if expansion.walk.is_none() {
                self.forget_reports(&expansion.prefix, &expansion.slices);
            }
        }
        while expansion.walk.is_none() && *budget > 0 {
            let Some(slice) = expansion.slices.pop_first() else { return true };
            *budget -= 1;
            let priority = planner.priority(&slice);
            self.dirty.insert(slice, priority, expansion.audit);
        }
        false
    }

    fn look_at_touched(&mut self, planner: &dyn Planner) {
        for path in std::mem::take(&mut self.touched) {
            let slice = slice_of(planner, &path);
            let priority = planner.priority(&slice);
            self.dirty.insert(slice, priority, false);
        }
    }

    /// A slice that is neither planned nor there any more has nothing to report.
    fn forget_reports(&mut self, prefix: &str, slices: &BTreeSet<Str>) {
        let current = |slice: &Str| !covers(prefix, slice) || slices.contains(slice);
        self.failed.retain(|slice, _| current(slice));
        self.held.retain(|slice, _| current(slice));
        self.waiting.retain(|slice, _| current(slice));
    }

    /// Finds the slices of what is there under a prefix, as far as the budget reaches.
    fn walk(&self, replica: &Replica, planner: &dyn Planner, expansion: &mut Expansion, budget: &mut usize) {
        let differ = self.differ(replica, planner);
        let Some(mut cursor) = expansion.walk.take() else { return };
        while let Some(table) = self.resolved.tables().get(cursor.table) {
            if *budget == 0 {
                expansion.walk = Some(cursor);
                return;
            }
            // A table costs a look even if it has nothing.
            *budget -= 1;
            let prefix = expansion.prefix.clone();
            if cursor.from == prefix {
                expansion.add_members(planner, differ.covered_above(table, &prefix), budget);
            }
            let next = replica.range_from(table.id, &cursor.from).next();
            let Some((path, uuid)) = next.filter(|(path, _)| path.starts_with(prefix.as_str())) else {
                cursor.next_table(&prefix);
                continue;
            };
            cursor.from = behind(path);
            if let Some(holder) = planner.holder(path) {
                expansion.slices.insert(holder);
            } else if differ.claim(table, path, uuid).is_some() {
                // A dirty prefix inside a slice stays as narrow as it is.
                let slice = Str::from(&path[..planner.slice_len(path).max(prefix.len())]);
                if slice == *path {
                    expansion.add_members(planner, differ.columns_of(table, path), budget);
                }
                cursor.from = behind(&slice).max(cursor.from);
                expansion.slices.insert(slice);
            }
        }
    }

    /// Rows with our path and a wrong UUID, as after a restore from a backup: they go before anything is created,
    /// dependants before their guards over all slices. Says whether all have been found.
    pub(super) fn find_strays(&mut self, replica: &Replica, planner: &dyn Planner) -> bool {
        let Strays::Unknown(cursor) = &self.strays else { return true };
        let mut cursor = cursor.clone();
        let (mut found, mut budget) = (Vec::new(), self.options.batch.max(1));
        let differ = self.differ(replica, planner);
        while let Some(table) = self.resolved.tables().get(cursor.table).filter(|_| budget > 0) {
            let paths = replica.range_from(table.id, &cursor.from);
            let rest = differ.strays(table, paths, &mut budget, &mut found);
            match rest {
                Some(path) => cursor.from = path,
                None => cursor.next_table(""),
            }
        }
        let done = cursor.table == self.resolved.tables().len();
        for delete in found.into_iter().filter(Delete::can_be_sent) {
            let slice = Str::from(&delete.path[..planner.slice_len(&delete.path)]);
            self.removals.insert(&slice, delete.path.clone(), Item::Delete(delete));
        }
        self.strays = match done {
            false => Strays::Unknown(cursor),
            true if self.removals.is_empty() => Strays::Gone,
            true => Strays::Going,
        };
        done
    }
}

impl Differ<'_> {
    /// Strays among the rows at these paths, as far as the budget reaches; then says which path is next.
    fn strays<'p>(
        &self,
        table: &Table,
        paths: impl Iterator<Item = (&'p Str, Uuid)>,
        budget: &mut usize,
        found: &mut Vec<Delete>,
    ) -> Option<Str> {
        if table.decl.identity != Identity::Id {
            return None;
        }
        let mut last = None;
        for (path, uuid) in paths {
            // Several rows may have one path: none of them is left for the next part.
            if *budget == 0 && last != Some(path) {
                return Some(path.clone());
            }
            *budget = budget.saturating_sub(1);
            last = Some(path);
            if self.claim(table, path, uuid) == Some(true) {
                found.extend(self.delete(table, path, uuid, true));
            }
        }
        None
    }
}

/// The slice that a path belongs to.
fn slice_of(planner: &dyn Planner, path: &str) -> Str {
    planner.holder(path).unwrap_or_else(|| path[..planner.slice_len(path)].into())
}

/// The least path behind a slice.
fn behind(slice: &str) -> Str {
    match slice.strip_suffix(':') {
        // `;` is the character after `:`.
        Some(stem) => Str::from(format!("{stem};")),
        None => Str::from(format!("{slice}\0")),
    }
}
