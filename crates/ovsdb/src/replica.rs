//! A copy of the monitored part of a database, kept current by updates; says what each update changed.
//!
//! One ordered index per table (by a key computed from the row) and one index of references from child to parent
//! serve the consumer; both are kept by the replica itself. It never asks for anything and never waits.

use crate::backrefs::{BackRefs, Parent};
use crate::datum::{Datum, Str};
use crate::decode::RowUpdate;
use crate::error::Error;
use crate::schema::{ColumnType, DatabaseSchema};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use uuid::Uuid;

/// One row: its datums in the order of the table's layout.
pub type Row = Box<[Datum]>;

/// A table of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub(crate) u16);

impl TableId {
    /// Its number: tables count from 0 in the order in which they were asked for.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Computes the key under which a row is found in its table's ordered index; `None` leaves it out.
pub type IndexFn = fn(RowRef<'_>) -> Option<Str>;

/// The monitored columns of a table, in the order in which rows hold them.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    table: Str,
    columns: Vec<LayoutColumn>,
    defaults: Row,
}

/// A monitored column.
#[derive(Clone, Debug, PartialEq)]
pub struct LayoutColumn {
    /// As the schema has it, such as `external_ids`.
    pub name: Str,
    /// Its type.
    pub ty: ColumnType,
}

impl Layout {
    /// A layout of these columns.
    pub fn new(table: Str, columns: Vec<LayoutColumn>) -> Layout {
        let defaults = columns.iter().map(|c| c.ty.default_datum()).collect();
        Layout { table, columns, defaults }
    }

    /// The table's name.
    pub fn table(&self) -> &Str {
        &self.table
    }

    /// The columns in order.
    pub fn columns(&self) -> &[LayoutColumn] {
        &self.columns
    }

    /// Where a column stands.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }

    /// A row of nothing but defaults.
    pub fn default_row(&self) -> Row {
        self.defaults.clone()
    }
}

/// A row with its table and identity.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    /// What the datums are.
    pub layout: &'a Layout,
    /// The row's identity.
    pub uuid: Uuid,
    /// The datums.
    pub row: &'a Row,
}

impl<'a> RowRef<'a> {
    /// The value of a column, if it is monitored.
    pub fn get(&self, column: &str) -> Option<&'a Datum> {
        self.layout.position(column).map(|at| &self.row[at])
    }
}

/// What an update did to one row. The replica may be further along when a change is looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Its number in this replica; [`Replica::layout`] knows its name.
    pub table: TableId,
    /// The row.
    pub uuid: Uuid,
    /// What happened.
    pub kind: ChangeKind,
}

/// How a row changed.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeKind {
    /// It is new.
    Insert,
    /// Columns changed: for sets and maps the difference, for scalars the old value.
    Modify(Vec<(usize, Datum)>),
    /// It is gone; this is what it was.
    Delete(Row),
}

/// What the replica is asked to hold of one table.
#[derive(Clone, Debug)]
pub(crate) struct TableSpec {
    pub(crate) layout: Layout,
    pub(crate) index: Option<IndexFn>,
    /// Positions of the columns whose references are indexed from child to parent.
    pub(crate) backrefs: Vec<usize>,
}

#[derive(Debug)]
struct Table {
    spec: TableSpec,
    rows: FxHashMap<Uuid, Row>,
    index: BTreeSet<(Str, Uuid)>,
}

/// The copy.
#[derive(Debug, Default)]
pub struct Replica {
    schema: Option<DatabaseSchema>,
    tables: Vec<Table>,
    names: BTreeMap<Str, TableId>,
    backrefs: BackRefs,
    /// While a new image arrives: what of it has been seen.
    seen: Option<FxHashSet<(TableId, Uuid)>>,
}

impl Replica {
    /// The server's schema, once it is known.
    pub fn schema(&self) -> Option<&DatabaseSchema> {
        self.schema.as_ref()
    }

    /// The monitored table of this name.
    pub fn table(&self, name: &str) -> Option<TableId> {
        self.names.get(name).copied()
    }

    /// All tables that were asked for. One that the server does not have keeps its number, without columns and
    /// rows; [`Replica::table`] does not find it.
    pub fn tables(&self) -> impl Iterator<Item = TableId> + use<> {
        (0..self.tables.len() as u16).map(TableId)
    }

    /// The layout of a table's rows.
    pub fn layout(&self, table: TableId) -> &Layout {
        &self.tables[table.index()].spec.layout
    }

    /// Looks a row up by its UUID.
    pub fn row(&self, table: TableId, uuid: Uuid) -> Option<RowRef<'_>> {
        let t = &self.tables[table.index()];
        t.rows.get(&uuid).map(|row| RowRef { layout: &t.spec.layout, uuid, row })
    }

    /// All rows of a table, in no particular order.
    pub fn rows(&self, table: TableId) -> impl Iterator<Item = RowRef<'_>> {
        let t = &self.tables[table.index()];
        t.rows.iter().map(|(uuid, row)| RowRef { layout: &t.spec.layout, uuid: *uuid, row })
    }

    /// How many rows a table has.
    pub fn len(&self, table: TableId) -> usize {
        self.tables[table.index()].rows.len()
    }

    /// Whether there is no row at all.
    pub fn is_empty(&self) -> bool {
        self.tables.iter().all(|t| t.rows.is_empty())
    }

    /// The rows whose index key begins with `prefix`, in the order of their keys.
    pub fn range<'a>(&'a self, table: TableId, prefix: &'a str) -> impl Iterator<Item = (&'a Str, Uuid)> {
        let from = (Str::from(prefix), Uuid::nil());
        self.tables[table.index()]
            .index
            .range((Bound::Included(from), Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(prefix))
            .map(|(key, uuid)| (key, *uuid))
    }

    /// The rows at or behind `key` in the order of keys.
    pub fn range_from(&self, table: TableId, key: &str) -> impl Iterator<Item = (&Str, Uuid)> {
        let from = (Str::from(key), Uuid::nil());
        self.tables[table.index()].index.range(from..).map(|(key, uuid)| (key, *uuid))
    }

    /// The key of a row in its table's index.
    pub fn index_key(&self, table: TableId, uuid: Uuid) -> Option<Str> {
        let row = self.row(table, uuid)?;
        self.tables[table.index()].spec.index.and_then(|f| f(row))
    }

    /// The rows that refer to `child` through a column whose references are indexed.
    pub fn parents(&self, child: Uuid) -> impl Iterator<Item = (TableId, usize, Uuid)> + '_ {
        self.backrefs.parents(child).map(|p| (p.table, p.column as usize, p.row))
    }

    /// Takes over a schema and the tables to hold. Rows that are there stay as far as the new layout has room for
    /// them; rows of tables that the server dropped are reported as deleted. The tables are always the same ones.
    pub(crate) fn lay_out(&mut self, schema: DatabaseSchema, specs: Vec<TableSpec>) -> Vec<Change> {
        let old_tables = std::mem::take(&mut self.tables);
        self.names.clear();
        self.backrefs = BackRefs::default();
        for (id, spec) in specs.into_iter().enumerate() {
            if schema.tables.contains_key(&spec.layout.table) {
                self.names.insert(spec.layout.table.clone(), TableId(id as u16));
            }
            self.tables.push(Table { spec, rows: FxHashMap::default(), index: BTreeSet::new() });
        }
        self.schema = Some(schema);
        let mut changes = Vec::new();
        for (id, old) in old_tables.into_iter().enumerate() {
            let table = TableId(id as u16);
            let stays = self.names.contains_key(&old.spec.layout.table);
            for (uuid, mut row) in old.rows {
                if stays {
                    let moved = self.convert(&old.spec.layout, table, &mut row);
                    self.put(table, uuid, moved);
                } else {
                    changes.push(Change { table, uuid, kind: ChangeKind::Delete(row) });
                }
            }
        }
        changes
    }

    fn convert(&self, old: &Layout, table: TableId, row: &mut [Datum]) -> Row {
        let layout = self.layout(table);
        let mut new = layout.default_row();
        for (slot, column) in new.iter_mut().zip(&layout.columns) {
            if let Some(from) = old.columns.iter().position(|c| c == column) {
                std::mem::swap(slot, &mut row[from]);
            }
        }
        new
    }

    /// From here on rows of a complete new image arrive.
    pub(crate) fn begin_image(&mut self) {
        // A first load has nothing to sweep afterwards.
        self.seen = (!self.is_empty()).then(FxHashSet::default);
    }

    /// The new image is complete: what it did not have is gone, unless it held only what we had missed.
    pub(crate) fn end_image(&mut self, only_missed: bool) -> Vec<Change> {
        let Some(seen) = self.seen.take().filter(|_| !only_missed) else { return Vec::new() };
        let mut changes = Vec::new();
        for table in self.tables() {
            let rows = &self.tables[table.index()].rows;
            let gone: Vec<Uuid> = rows.keys().copied().filter(|u| !seen.contains(&(table, *u))).collect();
            changes.extend(gone.into_iter().filter_map(|uuid| self.delete(table, uuid)));
        }
        changes
    }

    /// Applies one row update and says what it changed, if anything.
    pub(crate) fn apply(
        &mut self,
        table: TableId,
        uuid: Uuid,
        update: RowUpdate,
    ) -> Result<Option<Change>, Error> {
        match update {
            RowUpdate::Whole(row) | RowUpdate::Replace(row) => {
                if let Some(seen) = &mut self.seen {
                    seen.insert((table, uuid));
                }
                Ok(self.replace(table, uuid, row))
            }
            RowUpdate::Modify(columns) => {
                let nothing = columns.is_empty();
                Ok(Some(self.modify(table, uuid, columns)?).filter(|_| !nothing))
            }
            RowUpdate::Delete => Ok(self.delete(table, uuid)),
        }
    }

    fn replace(&mut self, table: TableId, uuid: Uuid, row: Row) -> Option<Change> {
        let Some(old) = self.take(table, uuid) else {
            self.put(table, uuid, row);
            return Some(Change { table, uuid, kind: ChangeKind::Insert });
        };
        let mut columns = Vec::new();
        for (at, (was, is)) in old.iter().zip(&row).enumerate() {
            if was != is {
                let composite = self.layout(table).columns[at].ty.is_composite();
                columns.push((at, if composite { was.difference(is) } else { was.clone() }));
            }
        }
        self.put(table, uuid, row);
        if columns.is_empty() {
            None
        } else {
            Some(Change { table, uuid, kind: ChangeKind::Modify(columns) })
        }
    }

    fn modify(
        &mut self,
        table: TableId,
        uuid: Uuid,
        mut columns: Vec<(usize, Datum)>,
    ) -> Result<Change, Error> {
        let t = &mut self.tables[table.index()];
        let Some(row) = t.rows.get_mut(&uuid) else {
            return Err(Error::Protocol(format!("modify of unknown row {uuid} in {}", t.spec.layout.table)));
        };
        let key_before = t.spec.index.and_then(|f| f(RowRef { layout: &t.spec.layout, uuid, row }));
        for (at, datum) in &mut columns {
            let tracked = t.spec.backrefs.contains(at);
            if t.spec.layout.columns[*at].ty.is_composite() {
                if tracked {
                    toggle_parents(&mut self.backrefs, Parent::new(table, *at, uuid), &row[*at], datum);
                }
                row[*at].toggle(datum);
            } else {
                if tracked {
                    self.backrefs.remove_all(Parent::new(table, *at, uuid), row[*at].atoms());
                    self.backrefs.add_all(Parent::new(table, *at, uuid), datum.atoms());
                }
                // The old value is what the change reports.
                std::mem::swap(&mut row[*at], datum);
            }
        }
        let key_after = t.spec.index.and_then(|f| f(RowRef { layout: &t.spec.layout, uuid, row }));
        if key_before != key_after {
            key_before.map(|key| t.index.remove(&(key, uuid)));
            key_after.map(|key| t.index.insert((key, uuid)));
        }
        Ok(Change { table, uuid, kind: ChangeKind::Modify(columns) })
    }

    fn delete(&mut self, table: TableId, uuid: Uuid) -> Option<Change> {
        self.take(table, uuid).map(|row| Change { table, uuid, kind: ChangeKind::Delete(row) })
    }

    fn put(&mut self, table: TableId, uuid: Uuid, row: Row) {
        let t = &mut self.tables[table.index()];
        for at in &t.spec.backrefs {
            self.backrefs.add_all(Parent::new(table, *at, uuid), row[*at].atoms());
        }
        if let Some(key) = t.spec.index.and_then(|f| f(RowRef { layout: &t.spec.layout, uuid, row: &row })) {
            t.index.insert((key, uuid));
        }
        t.rows.insert(uuid, row);
    }

    fn take(&mut self, table: TableId, uuid: Uuid) -> Option<Row> {
        let t = &mut self.tables[table.index()];
        let row = t.rows.remove(&uuid)?;
        for at in &t.spec.backrefs {
            self.backrefs.remove_all(Parent::new(table, *at, uuid), row[*at].atoms());
        }
        if let Some(key) = t.spec.index.and_then(|f| f(RowRef { layout: &t.spec.layout, uuid, row: &row })) {
            t.index.remove(&(key, uuid));
        }
        Some(row)
    }
}

fn toggle_parents(backrefs: &mut BackRefs, parent: Parent, old: &Datum, difference: &Datum) {
    for atom in difference.atoms() {
        let atom = std::slice::from_ref(atom);
        if old.contains(&atom[0]) {
            backrefs.remove_all(parent, atom);
        } else {
            backrefs.add_all(parent, atom);
        }
    }
}
