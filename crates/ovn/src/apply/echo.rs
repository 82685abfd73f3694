//! Changes in the database: our own come back and mean nothing; others dirty the slice they touch.

use super::Engine;
use super::pack::Item;
use crate::declare::Identity;
use crate::member::{self, column_prefix, member_path};
use crate::path::{root, row_uuid};
use crate::resolve::{Column, Rule, Table};
use causeway_ovsdb::{Atom, Change, ChangeKind, Datum, Replica, RowRef, Str, Uuid};

impl Engine {
    /// The replica changed. Call it with what an update changed, before the outcomes that follow it.
    pub fn changed(&mut self, replica: &Replica, changes: &[Change]) {
        let (mut touched, mut prefixes) = (Vec::new(), Vec::new());
        for change in changes {
            let Some(table) = self.resolved.by_id(change.table) else { continue };
            self.touched_rows(replica, table, change, &mut touched);
            self.touched_members(replica, table, change, &mut touched);
            if self.is_echo(replica, table, change) {
                continue;
            }
            let paths = self.paths(replica, table, change);
            prefixes.extend(members_with_row(table, change, &paths));
            touched.extend(paths);
        }
        self.prefixes.extend(prefixes.into_iter().map(|prefix| (prefix, false)));
        self.stats.foreign_changes += touched.len() as u64;
        let appeared = changes.iter().any(|c| c.kind == ChangeKind::Insert);
        if appeared && self.round.is_none() {
            // What somebody waits for may be there now.
            self.prefixes.extend(std::mem::take(&mut self.waiting).into_keys().map(|slice| (slice, false)));
        }
        self.touched.extend(touched);
    }

    fn expected(&self, uuid: Uuid) -> Option<&Item> {
        let (ticket, group, item) = self.in_flight.get(&uuid)?;
        self.round.as_ref()?.item(*ticket, *group, *item)
    }

    fn is_echo(&self, replica: &Replica, table: &Table, change: &Change) -> bool {
        let expected = self.expected(change.uuid);
        match (&change.kind, expected) {
            // Membership alone is looked at from the member's side; what is only watched concerns no plan.
            (ChangeKind::Modify(columns), _) if columns.iter().all(|(at, _)| is_elsewhere(table, *at)) => {
                true
            }
            (ChangeKind::Delete(_), Some(Item::Delete(_))) => true,
            // A row that only lived in the sets of a row that we delete.
            (ChangeKind::Delete(_), None) if !table.is_root => self.going.contains(&change.uuid),
            (ChangeKind::Insert | ChangeKind::Modify(_), Some(Item::Create(_) | Item::Modify(_))) => {
                let planned = match expected {
                    Some(Item::Create(c)) => &c.planned,
                    Some(Item::Modify(m)) if m.shrink().is_none() => &m.planned,
                    // Only half of it is due now: the other half comes with the deletions, which look again.
                    _ => return true,
                };
                replica.row(change.table, change.uuid).is_some_and(|row| table.matches(planned, row.row))
            }
            (ChangeKind::Modify(_), Some(Item::Shrink(_))) => true,
            _ => false,
        }
    }

    /// Paths of ours that a change concerns: the row's path now, and the one it had.
    fn paths(&self, replica: &Replica, table: &Table, change: &Change) -> Vec<Str> {
        if table.decl.identity == Identity::Adopted {
            return self.adopted.get(table.meta.name).cloned().into_iter().collect();
        }
        let layout = replica.layout(change.table);
        let now = replica.row(change.table, change.uuid).and_then(|row| table.path_of(row));
        let before = match &change.kind {
            ChangeKind::Insert => None,
            ChangeKind::Delete(row) => table.path_of(RowRef { layout, uuid: change.uuid, row }),
            ChangeKind::Modify(columns) => replica.row(change.table, change.uuid).and_then(|row| {
                let mut old = row.row.clone();
                for (at, delta) in columns {
                    if table.columns.get(*at).is_some_and(|c| c.ty.is_composite()) {
                        old[*at].toggle(delta);
                    } else {
                        old[*at] = delta.clone();
                    }
                }
                table.path_of(RowRef { layout, uuid: change.uuid, row: &old })
            }),
        };
        let mut paths: Vec<Str> =
            now.into_iter().chain(before).filter(|path| self.is_our_path(table, path, change.uuid)).collect();
        paths.dedup();
        paths
    }

    fn is_our_path(&self, table: &Table, path: &str, uuid: Uuid) -> bool {
        match table.decl.identity {
            Identity::Id => self.roots.iter().any(|r| r == root(path)),
            // Somebody else's row with the key of one of ours is noticed too.
            Identity::Key(_) => table.is_ours(path, uuid) || self.roots.iter().any(|r| r == root(path)),
            Identity::Adopted => false,
        }
    }

    /// Members of sets and maps of ours that somebody else put in, took out or gave another value.
    fn touched_members(&self, replica: &Replica, table: &Table, change: &Change, touched: &mut Vec<Str>) {
        let ChangeKind::Modify(columns) = &change.kind else { return };
        let members =
            columns.iter().filter(|(at, _)| table.columns.get(*at).is_some_and(Column::has_members));
        let Some(row) = replica.row(change.table, change.uuid) else { return };
        let path = || table.path_of(row).filter(|path| self.is_our_path(table, path, change.uuid));
        for (at, delta) in members {
            let (Some(path), Some(column)) = (path(), table.columns.get(*at)) else { continue };
            for key in member::keys(delta) {
                let member = member_path(&path, column.name, key);
                let now = member::single(&row.row[*at], key);
                let ours = self.expected(row_uuid(table.meta, &member));
                if !ours.is_some_and(|item| makes(item, column, key, &now))
                    && !self.expected(row.uuid).is_some_and(|item| makes(item, column, key, &now))
                {
                    touched.push(member);
                }
            }
        }
    }

    /// Rows of ours whose membership somebody else changed.
    fn touched_rows(&self, replica: &Replica, table: &Table, change: &Change, touched: &mut Vec<Str>) {
        let ChangeKind::Modify(columns) = &change.kind else { return };
        for (at, delta) in columns {
            let Some(column) = table.columns.get(*at).filter(|c| c.rule == Rule::Edge) else { continue };
            let Some((child_table, _)) = &column.ty.key.refers_to else { continue };
            let Some(child) = replica.table(child_table).and_then(|id| self.resolved.by_id(id)) else {
                continue;
            };
            for uuid in references(delta).filter(|uuid| self.expected(*uuid).is_none()) {
                let path = replica.row(child.id, uuid).and_then(|row| child.path_of(row));
                touched.extend(path.filter(|path| self.is_our_path(child, path, uuid)));
            }
        }
    }
}

/// Whether a column says nothing of its row: others plan it, or nobody.
fn is_elsewhere(table: &Table, at: usize) -> bool {
    let elsewhere = |c: &Column| c.has_members() || matches!(c.rule, Rule::Edge | Rule::Watched);
    table.columns.get(at).is_some_and(elsewhere)
}

/// A row that comes, goes or becomes another one does so with all its members.
fn members_with_row(table: &Table, change: &Change, paths: &[Str]) -> Vec<Str> {
    let is_id = |at: usize| table.columns.get(at).is_some_and(|c| c.name == "external_ids");
    let whole = match &change.kind {
        ChangeKind::Insert | ChangeKind::Delete(_) => true,
        ChangeKind::Modify(columns) => columns.iter().any(|(at, _)| is_id(*at)),
    };
    if !whole {
        return Vec::new();
    }
    let of =
        |path: &Str| table.member_columns().map(|(_, c)| column_prefix(path, c.name)).collect::<Vec<_>>();
    paths.iter().flat_map(of).collect()
}

/// Whether what is in flight makes a member as it is now: the member itself, or a row that has the column whole.
fn makes(item: &Item, column: &Column, key: &Str, now: &Option<Datum>) -> bool {
    match item {
        Item::Member(change) => change.new == *now,
        Item::Shrink(_) => true,
        // Only half of it is due now: the other half comes with the deletions.
        Item::Modify(m) if m.shrink().is_some() => true,
        Item::Modify(m) => m.planned.column(column.name).is_some_and(|all| member::single(all, key) == *now),
        Item::Create(_) | Item::Delete(_) => false,
    }
}

fn references(delta: &Datum) -> impl Iterator<Item = Uuid> + '_ {
    delta.atoms().iter().filter_map(Atom::as_uuid)
}
