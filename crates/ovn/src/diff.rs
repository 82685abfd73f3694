//! Desired against actual, for one slice: the smallest list of changes.
//!
//! Nothing here remembers anything and nothing is sent: a difference is a value that prints.

mod members;

pub(crate) use members::Covered;

use crate::declare::{Declarations, Identity, Phase, natural_path};
use crate::desired::{Edge, Plan, Planned, Planner, RowKey, covers};
use crate::path::root;
use crate::resolve::{Resolved, Rule, Table};
use causeway_ovsdb::{Atom, Datum, Mutation, Mutator, Replica, RowRef, Str, Uuid};
use members::Parents;
use rustc_hash::{FxHashMap, FxHashSet};

/// Something is wrong with a plan itself: a bug of ours, said with the row that shows it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Two rows of one plan have the same path.
    #[error("{table} {path} is planned twice")]
    Twice {
        /// Its name in the schema, such as `Logical_Switch`.
        table: &'static str,
        /// What the UUID of both rows is made from.
        path: Str,
    },
    /// A row outside the slice that was asked for, or outside everything that is ours.
    #[error("{table} {path} does not belong to the slice {slice}")]
    Outside {
        /// Its name in the schema, such as `Logical_Switch`.
        table: &'static str,
        /// Where the row would be.
        path: Str,
        /// The path of one row or, with a `:` at its end, the beginning of many.
        slice: Str,
    },
    /// A table, column or map key that is not declared as ours.
    #[error("{table} {path} sets {what}, which is not declared as ours")]
    Undeclared {
        /// Its name in the schema, such as `Logical_Switch`.
        table: &'static str,
        /// That of the row that sets it.
        path: Str,
        /// The column or key.
        what: String,
    },
}

/// What must change to make one slice as planned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SliceDiff {
    /// Rows that are missing.
    pub creates: Vec<Create>,
    /// Rows that differ.
    pub modifies: Vec<Modify>,
    /// Rows that should not be.
    pub deletes: Vec<Delete>,
    /// Members of sets and maps that are missing, differ, or should not be. Those that come with their row are in its
    /// columns.
    pub members: Vec<MemberChange>,
    /// Columns that the plan sets and the server does not have.
    pub lacking: Vec<String>,
}

impl SliceDiff {
    /// Whether everything is as planned.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many rows and members differ.
    pub fn len(&self) -> usize {
        self.creates.len() + self.modifies.len() + self.deletes.len() + self.members.len()
    }
}

/// A row that is missing.
#[derive(Clone, Debug, PartialEq)]
pub struct Create {
    /// The row.
    pub planned: Planned,
    /// When.
    pub phase: Phase,
}

/// A row that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Modify {
    /// The row as planned.
    pub planned: Planned,
    /// The row that is there; another UUID than the plan's only for adopted rows.
    pub uuid: Uuid,
    /// When.
    pub phase: Phase,
    /// The columns that differ: what they are, and what they shall be.
    pub columns: Vec<ColumnChange>,
    /// Memberships to gain.
    pub join: Vec<Edge>,
    /// Memberships to lose together with the gain: a row moves from parent to parent at once, and what it is not closed by
    /// any more lets it go before anything else does.
    pub leave_now: Vec<Edge>,
    /// Memberships to lose in the time of deletions.
    pub leave: Vec<Edge>,
}

/// One column that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnChange {
    /// Its name.
    pub column: &'static str,
    /// What the replica has.
    pub old: Datum,
    /// What it shall be, keys of other owners included.
    pub new: Datum,
    /// How it gets there.
    pub how: How,
}

/// How a column is brought to its value.
#[derive(Clone, Debug, PartialEq)]
pub enum How {
    /// By writing it whole.
    Set,
    /// By taking members or keys out, then putting members or pairs in.
    Mutate {
        /// Members or keys.
        out: Datum,
        /// Members or pairs.
        into: Datum,
    },
    /// The same, but what goes out goes in the time of deletions.
    Grow {
        /// Members.
        out: Datum,
        /// Members.
        into: Datum,
    },
}

/// A row that should not be.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// The table and the row.
    pub row: RowKey,
    /// The key in the replica's index by which its slice found it.
    pub path: Str,
    /// When.
    pub phase: Phase,
    /// Memberships in rows that are ours.
    pub edges: Vec<Edge>,
    /// Whether it stays until it is deleted by name; otherwise it goes with its last membership.
    pub is_root: bool,
    /// Whether it has our path but not the UUID that belongs to it.
    pub stray: bool,
    /// What shares a transaction with it.
    pub atom: Option<Str>,
    /// Whether it goes with what its atom brings, not in the time of deletions.
    pub now: bool,
    /// Values that no second row may have.
    pub(crate) unique: Vec<String>,
}

impl Delete {
    /// Whether there is anything to send: a row that is held by a column of another one goes when that changes.
    pub(crate) fn can_be_sent(&self) -> bool {
        self.is_root || !self.edges.is_empty()
    }
}

/// One member of a set or map that is missing, has another value, or should not be.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberChange {
    /// The row and the column.
    pub edge: Edge,
    /// The member's own path, below that of the row.
    pub path: Str,
    /// The UUID that follows from the path.
    pub uuid: Uuid,
    /// When.
    pub phase: Phase,
    /// What is there: the member, or the key with its value.
    pub old: Option<Datum>,
    /// What shall be there.
    pub new: Option<Datum>,
    /// Whether it goes in the time of deletions.
    pub late: bool,
    /// Rows without which it must not be there.
    pub guards: Vec<RowKey>,
    /// What shares a transaction with it.
    pub atom: Option<Str>,
}

/// Everything a diff looks at.
#[derive(Clone, Copy)]
pub(crate) struct Differ<'a> {
    pub(crate) replica: &'a Replica,
    pub(crate) resolved: &'a Resolved,
    pub(crate) planner: &'a dyn Planner,
}

/// Compares a slice of a replica with its plan; for looking only. A [`Plan::Hold`] or [`Plan::Keep`] differs in nothing.
pub fn diff_slice(
    declarations: &'static Declarations,
    replica: &Replica,
    planner: &dyn Planner,
    slice: &str,
) -> Result<SliceDiff, PlanError> {
    let resolved = Resolved::new(declarations, replica);
    let mut planned = match planner.plan(slice) {
        Plan::Rows(rows) => rows,
        Plan::Absent => Vec::new(),
        Plan::Hold(_) | Plan::Keep => return Ok(SliceDiff::default()),
    };
    // Whoever looks finds things where they were; the engine does not care.
    planned.sort_by(|a, b| (a.meta.name, &a.path).cmp(&(b.meta.name, &b.path)));
    Differ { replica, resolved: &resolved, planner }.slice(slice, planned)
}

impl<'a> Differ<'a> {
    /// Compares the range of a slice with its planned rows.
    pub(crate) fn slice(&self, slice: &str, mut planned: Vec<Planned>) -> Result<SliceDiff, PlanError> {
        let mut kept = FxHashSet::with_capacity_and_hasher(planned.len(), Default::default());
        // The UUID follows from table and path.
        if let Some(twice) = planned.iter().find(|p| !kept.insert(p.uuid)) {
            return Err(PlanError::Twice { table: twice.meta.name, path: twice.path.clone() });
        }
        let prefixes = planned.iter().filter_map(|p| p.atom.clone()).filter(|atom| atom.ends_with(':'));
        let prefixes: FxHashSet<Str> = prefixes.collect();
        let members: Vec<Planned> = planned.extract_if(.., |p| p.member_of.is_some()).collect();
        let mut diff = SliceDiff::default();
        let mut parents = Parents::default();
        for row in planned {
            let table = self.check(slice, &row, &mut diff)?;
            parents.note(table, &row);
            self.row(table, row, &mut kept, &mut diff);
        }
        self.superfluous(slice, &kept, &mut diff.deletes);
        for delete in &mut diff.deletes {
            delete.atom = prefixes.iter().find(|prefix| covers(prefix, &delete.path)).cloned();
        }
        self.members(slice, members, &parents, &mut diff)?;
        share_atom_phases(&mut diff);
        Ok(diff)
    }

    /// Compares one row.
    fn row(&self, table: &Table, row: Planned, kept: &mut FxHashSet<Uuid>, diff: &mut SliceDiff) {
        let actual = match table.decl.identity {
            Identity::Adopted => self.replica.rows(table.id).next(),
            _ => self.replica.row(table.id, row.uuid),
        };
        match actual {
            Some(actual) => {
                if actual.uuid != row.uuid {
                    kept.insert(actual.uuid);
                }
                diff.modifies.extend(self.modify(table, row, actual));
            }
            // An adopted row that is not there yet will come by itself and dirty its slice.
            None if table.decl.identity == Identity::Adopted => {}
            None => {
                // With the path in a column such a row is superfluous in its slice, and found as that.
                if table.decl.identity != Identity::Id {
                    self.find_in_the_way(table, &row, kept, &mut diff.deletes);
                }
                let phase = table.phase(Some(&row));
                diff.creates.push(Create { planned: row, phase });
            }
        }
    }

    /// A plan may set only what is declared, and only inside its slice. What the server lacks is left out.
    fn check(&self, slice: &str, row: &Planned, diff: &mut SliceDiff) -> Result<&'a Table, PlanError> {
        let table_name = row.meta.name;
        let undeclared =
            |what: String| PlanError::Undeclared { table: table_name, path: row.path.clone(), what };
        let table = self.resolved.by_meta(row.meta).ok_or_else(|| undeclared("a row".into()))?;
        self.check_place(slice, table, row)?;
        if let Identity::Key(key) = table.decl.identity {
            let path = natural_path(table_name, key, |column| row.column(column));
            if path.as_ref() != Some(&row.path) {
                return Err(undeclared(format!(
                    "a path other than that of its key, {}",
                    path.unwrap_or_default()
                )));
            }
        }
        for (meta, datum) in &row.columns {
            let name = row.meta.columns[usize::from(*meta)];
            let Some(column) = table.columns.iter().find(|c| c.meta == *meta) else {
                if table.decl.ignored.contains(&name) {
                    return Err(undeclared(name.into()));
                }
                diff.lacking.push(format!("{table_name}.{name}"));
                continue;
            };
            match column.rule {
                Rule::Edge => return Err(undeclared(format!("the edge column {name}"))),
                Rule::Watched => return Err(undeclared(format!("the watched column {name}"))),
                Rule::Keys(keys) => {
                    if let Some((key, _)) = datum.pairs().iter().find(|(k, _)| !keys.owns(k)) {
                        return Err(undeclared(format!("{name}:{key}")));
                    }
                }
                Rule::Whole | Rule::Grows | Rule::Members { .. } => {}
            }
        }
        Ok(table)
    }

    /// A plan says nothing of what lies outside its slice, or outside everything that is ours.
    fn check_place(&self, slice: &str, table: &Table, planned: &Planned) -> Result<(), PlanError> {
        let ours = table.decl.identity != Identity::Id || self.is_our_root(&planned.path);
        let is_held = || self.planner.holder(&planned.path).is_some_and(|holder| covers(slice, &holder));
        if ours && (covers(slice, &planned.path) || is_held()) {
            return Ok(());
        }
        let (table, path) = (planned.meta.name, planned.path.clone());
        Err(PlanError::Outside { table, path, slice: slice.into() })
    }

    fn is_our_root(&self, path: &str) -> bool {
        self.planner.roots().contains(&root(path))
    }

    fn modify(&self, table: &Table, planned: Planned, actual: RowRef<'_>) -> Option<Modify> {
        let mut columns = Vec::new();
        for (at, column) in table.columns.iter().enumerate() {
            let (want, have) = (table.planned(&planned, at), &actual.row[at]);
            // A column of many members that are planned elsewhere is not even looked at.
            let elsewhere = column.has_members() && !planned.states(column.meta);
            if elsewhere || want == have {
                continue;
            }
            columns.extend(match column.rule {
                Rule::Edge | Rule::Watched => None,
                Rule::Members { grows: false } if want.is_map() => {
                    owned_keys(column.name, want, have, |_| true)
                }
                Rule::Members { grows } => Some(members(column.name, want, have, grows)),
                Rule::Keys(keys) => owned_keys(column.name, want, have, |k| keys.owns(k)),
                Rule::Whole if want.is_map() => owned_keys(column.name, want, have, |_| true),
                Rule::Whole if column.ty.max > 1 && column.ty.min == 0 => {
                    Some(members(column.name, want, have, false))
                }
                Rule::Grows => Some(members(column.name, want, have, true)),
                Rule::Whole => Some(ColumnChange {
                    column: column.name,
                    old: have.clone(),
                    new: want.clone(),
                    how: How::Set,
                }),
            });
        }
        let (join, leave) = self.edges(&planned, actual.uuid);
        if columns.is_empty() && join.is_empty() && leave.is_empty() {
            return None;
        }
        let moves = join.iter().any(|e| self.resolved.is_strong(e));
        let at_once = |e: &Edge| (moves && self.resolved.is_strong(e)) || planned.closes.contains(e);
        let (leave_now, leave) = leave.into_iter().partition(at_once);
        let phase = table.phase(Some(&planned));
        Some(Modify { planned, uuid: actual.uuid, phase, columns, join, leave_now, leave })
    }

    /// Memberships to gain and to lose.
    fn edges(&self, planned: &Planned, uuid: Uuid) -> (Vec<Edge>, Vec<Edge>) {
        let actual: Vec<Edge> = self.actual_edges(uuid).collect();
        let join = planned.edges.iter().filter(|e| !actual.contains(e)).copied().collect();
        let surplus = actual.into_iter().filter(|e| !planned.edges.contains(e) && self.owns(e.parent));
        (join, surplus.collect())
    }

    fn actual_edges(&self, child: Uuid) -> impl Iterator<Item = Edge> + '_ {
        self.replica.parents(child).filter_map(|(table, column, uuid)| {
            let table = self.resolved.by_id(table)?;
            Some(Edge { parent: RowKey { meta: table.meta, uuid }, column: table.columns.get(column)?.name })
        })
    }

    /// Whether a row is ours, so that we may take members out of its sets.
    fn owns(&self, key: RowKey) -> bool {
        let Some(table) = self.resolved.by_meta(key.meta) else { return false };
        let Some(row) = self.replica.row(table.id, key.uuid) else { return false };
        match table.decl.identity {
            Identity::Adopted => true,
            Identity::Id => table
                .path_of(row)
                .is_some_and(|path| self.is_our_root(&path) && table.is_ours(&path, key.uuid)),
            Identity::Key(_) => table.path_of(row).is_some_and(|path| table.is_ours(&path, key.uuid)),
        }
    }

    /// Rows with the path of a row that is to be created, but another UUID.
    fn find_in_the_way(
        &self,
        table: &Table,
        row: &Planned,
        seen: &mut FxHashSet<Uuid>,
        deletes: &mut Vec<Delete>,
    ) {
        for (path, uuid) in self.replica.range(table.id, &row.path).take_while(|(path, _)| **path == row.path)
        {
            seen.insert(uuid);
            deletes.extend(self.delete(table, path, uuid, true));
        }
    }

    /// Rows of ours in the range that are not planned.
    fn superfluous(&self, slice: &str, seen: &FxHashSet<Uuid>, deletes: &mut Vec<Delete>) {
        for table in self.resolved.tables() {
            let range = self.replica.range(table.id, slice).filter(|(path, _)| covers(slice, path));
            for (path, uuid) in range.filter(|(_, uuid)| !seen.contains(uuid)) {
                if let Some(stray) = self.claim(table, path, uuid) {
                    deletes.extend(self.delete(table, path, uuid, stray));
                }
            }
        }
    }

    /// Whether a row is for us to delete, and if so, whether it is a stray. A row with a natural key that has not the
    /// UUID of that key is somebody else's.
    pub(crate) fn claim(&self, table: &Table, path: &str, uuid: Uuid) -> Option<bool> {
        let ours = table.is_ours(path, uuid);
        match table.decl.identity {
            Identity::Id => self.is_our_root(path).then_some(!ours),
            Identity::Key(_) => ours.then_some(false),
            Identity::Adopted => None,
        }
    }

    pub(crate) fn delete(&self, table: &Table, path: &Str, uuid: Uuid, stray: bool) -> Option<Delete> {
        let row = self.replica.row(table.id, uuid)?;
        let edges = self.actual_edges(uuid).filter(|e| stray || self.owns(e.parent)).collect();
        Some(Delete {
            row: RowKey { meta: table.meta, uuid },
            path: path.clone(),
            phase: table.decl.phase,
            edges,
            is_root: table.is_root,
            stray,
            atom: None,
            now: false,
            unique: table.unique_values(|at| &row.row[at]),
        })
    }
}

/// Rows and members of one atom come into being together, with the last of them, and what they replace goes then.
fn share_atom_phases(diff: &mut SliceDiff) {
    let mut last: FxHashMap<Str, Phase> = FxHashMap::default();
    for (atom, phase) in atoms(diff) {
        if let Some(atom) = atom {
            let last = last.entry(atom.clone()).or_insert(*phase);
            *last = (*phase).max(*last);
        }
    }
    if last.is_empty() {
        return;
    }
    for (atom, phase) in atoms(diff) {
        *phase = atom.as_ref().and_then(|atom| last.get(atom)).copied().unwrap_or(*phase);
    }
    for delete in &mut diff.deletes {
        if let Some(phase) = delete.atom.as_ref().and_then(|atom| last.get(atom)) {
            (delete.phase, delete.now) = (*phase, true);
        }
    }
}

/// The atom and the phase of everything that comes into being or changes.
fn atoms(diff: &mut SliceDiff) -> impl Iterator<Item = (&Option<Str>, &mut Phase)> {
    let creates = diff.creates.iter_mut().map(|c| (&c.planned.atom, &mut c.phase));
    let modifies = diff.modifies.iter_mut().map(|m| (&m.planned.atom, &mut m.phase));
    let members = diff.members.iter_mut().filter(|m| !m.late).map(|m| (&m.atom, &mut m.phase));
    creates.chain(modifies).chain(members)
}

fn members(column: &'static str, want: &Datum, have: &Datum, grows: bool) -> ColumnChange {
    let missing =
        |from: &Datum, of: &Datum| Datum::set(of.atoms().iter().filter(|a| !from.contains(a)).cloned());
    let (out, into) = (missing(want, have), missing(have, want));
    let how = if grows { How::Grow { out, into } } else { How::Mutate { out, into } };
    ColumnChange { column, old: have.clone(), new: want.clone(), how }
}

/// The change of those keys of a map that are ours; keys of other owners stay.
fn owned_keys(
    column: &'static str,
    want: &Datum,
    have: &Datum,
    owns: impl Fn(&str) -> bool,
) -> Option<ColumnChange> {
    if let (Datum::Map(_), _) | (_, Datum::Map(_)) = (want, have) {
        return Some(ColumnChange { column, old: have.clone(), new: want.clone(), how: How::Set });
    }
    let gone = have.pairs().iter().filter(|(k, v)| owns(k) && want.get(k) != Some(v));
    let out = Datum::set(gone.map(|(k, _)| Atom::String(k.clone())));
    let into = Datum::str_map(want.pairs().iter().filter(|(k, v)| have.get(k) != Some(v)).cloned());
    if out.is_empty() && into.is_empty() {
        return None;
    }
    let foreign = have.pairs().iter().filter(|(k, _)| !owns(k));
    let new = Datum::str_map(foreign.chain(want.pairs()).cloned());
    Some(ColumnChange { column, old: have.clone(), new, how: How::Mutate { out, into } })
}

impl ColumnChange {
    /// The mutations that take effect with the creations.
    pub(crate) fn mutations_now(&self) -> Vec<Mutation> {
        match &self.how {
            How::Set => Vec::new(),
            How::Mutate { out, into } => self.mutations(out, into),
            How::Grow { into, .. } => self.mutations(&Datum::empty(), into),
        }
    }

    /// The mutations that wait for the time of deletions.
    pub(crate) fn mutations_later(&self) -> Vec<Mutation> {
        match &self.how {
            How::Grow { out, .. } => self.mutations(out, &Datum::empty()),
            _ => Vec::new(),
        }
    }

    fn mutations(&self, out: &Datum, into: &Datum) -> Vec<Mutation> {
        let mutation = |mutator, value: &Datum| {
            (!value.is_empty()).then(|| Mutation {
                column: self.column.into(),
                mutator,
                value: value.clone(),
            })
        };
        [mutation(Mutator::Delete, out), mutation(Mutator::Insert, into)].into_iter().flatten().collect()
    }
}
