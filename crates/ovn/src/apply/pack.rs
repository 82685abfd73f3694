//! From differences to transactions: what is sent together, and in which order inside.

use crate::declare::Phase;
use crate::desired::{Edge, RowKey};
use crate::diff::{Create, Delete, How, Modify};
use causeway_ovsdb::{Atom, Condition, Datum, Mutation, Mutator, Name, Op, Str, Transaction, Uuid};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// Something to be done to one row.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Create(Create),
    Modify(Modify),
    Delete(Delete),
    /// What a modified row loses in the time of deletions.
    Shrink(Shrink),
}

/// Memberships and set members that go.
#[derive(Clone, Debug)]
pub(crate) struct Shrink {
    pub(crate) row: RowKey,
    pub(crate) phase: Phase,
    pub(crate) leave: Vec<Edge>,
    pub(crate) mutations: Vec<Mutation>,
}

impl Item {
    pub(crate) fn uuid(&self) -> Uuid {
        match self {
            Item::Create(c) => c.planned.uuid,
            Item::Modify(m) => m.uuid,
            Item::Delete(d) => d.row.uuid,
            Item::Shrink(s) => s.row.uuid,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self {
            Item::Create(c) => c.phase,
            Item::Modify(m) => m.phase,
            Item::Delete(d) => d.phase,
            Item::Shrink(s) => s.phase,
        }
    }

    pub(crate) fn atom(&self) -> Option<&Str> {
        match self {
            Item::Create(c) => c.planned.atom.as_ref(),
            Item::Modify(m) => m.planned.atom.as_ref(),
            Item::Delete(_) | Item::Shrink(_) => None,
        }
    }
}

impl Modify {
    /// The part that waits for the time of deletions, if there is one.
    pub(crate) fn shrink(&self) -> Option<Shrink> {
        let mutations: Vec<Mutation> = self.columns.iter().flat_map(|c| c.mutations_later()).collect();
        (!self.leave.is_empty() || !mutations.is_empty()).then(|| Shrink {
            row: RowKey { meta: self.planned.meta, uuid: self.uuid },
            phase: self.phase,
            leave: self.leave.clone(),
            mutations,
        })
    }

    /// Whether anything is left to do before the time of deletions.
    pub(crate) fn has_now(&self) -> bool {
        !self.join.is_empty()
            || !self.leave_now.is_empty()
            || self.columns.iter().any(|c| c.how == How::Set || !c.mutations_now().is_empty())
    }
}

/// Sets of references that gain and lose members, by table, row and column.
type Sets = BTreeMap<(&'static str, Uuid, &'static str), (Vec<Atom>, Vec<Atom>)>;

/// Builds one transaction. Waits come first, then rows, then memberships (one mutate for each set), then deletions.
#[derive(Default)]
struct Builder {
    waits: Vec<Op>,
    rows: Vec<Op>,
    sets: Sets,
    deletes: Vec<Op>,
    inserted: FxHashSet<Uuid>,
}

/// The transaction of these items. With a lock it fails unless we hold it.
pub(crate) fn transaction<'a>(
    items: impl Iterator<Item = &'a Item> + Clone,
    lock: Option<&Str>,
) -> Transaction {
    let mut builder = Builder::default();
    builder.inserted.extend(items.clone().filter_map(|item| match item {
        Item::Create(c) => Some(c.planned.uuid),
        _ => None,
    }));
    for item in items {
        builder.add(item);
    }
    builder.finish(lock)
}

impl Builder {
    fn add(&mut self, item: &Item) {
        match item {
            Item::Create(c) => {
                self.create(c);
                self.join(c.planned.uuid, &c.planned.edges);
            }
            Item::Modify(m) => {
                self.modify(m);
                self.join(m.uuid, &m.join);
                self.leave(m.uuid, &m.leave_now);
            }
            Item::Delete(d) => {
                self.leave(d.row.uuid, &d.edges);
                if d.is_root {
                    let conditions = vec![Condition::uuid(d.row.uuid)];
                    self.deletes.push(Op::Delete { table: d.row.meta.name.into(), conditions });
                }
            }
            Item::Shrink(s) => {
                self.leave(s.row.uuid, &s.leave);
                self.mutate(s.row, s.mutations.clone());
            }
        }
    }

    fn create(&mut self, create: &Create) {
        let planned = &create.planned;
        let name = |at: u8| Name::from(planned.meta.columns[usize::from(at)]);
        self.rows.push(Op::Insert {
            table: planned.meta.name.into(),
            uuid: Some(planned.uuid),
            name: None,
            row: planned.columns.iter().map(|(at, datum)| (name(*at), datum.clone())).collect(),
        });
    }

    fn modify(&mut self, modify: &Modify) {
        let row = RowKey { meta: modify.planned.meta, uuid: modify.uuid };
        let whole: Vec<(Name, Datum)> = modify
            .columns
            .iter()
            .filter(|c| c.how == How::Set)
            .map(|c| (Name::from(c.column), c.new.clone()))
            .collect();
        if !whole.is_empty() {
            let conditions = vec![Condition::uuid(row.uuid)];
            self.rows.push(Op::Update { table: row.meta.name.into(), conditions, row: whole });
        }
        self.mutate(row, modify.columns.iter().flat_map(|c| c.mutations_now()).collect());
    }

    fn mutate(&mut self, row: RowKey, mutations: Vec<Mutation>) {
        if !mutations.is_empty() {
            let conditions = vec![Condition::uuid(row.uuid)];
            self.rows.push(Op::Mutate { table: row.meta.name.into(), conditions, mutations });
        }
    }

    fn join(&mut self, child: Uuid, edges: &[Edge]) {
        for edge in edges {
            self.set(edge).0.push(Atom::Uuid(child));
        }
    }

    fn leave(&mut self, child: Uuid, edges: &[Edge]) {
        for edge in edges {
            self.set(edge).1.push(Atom::Uuid(child));
        }
    }

    fn set(&mut self, edge: &Edge) -> &mut (Vec<Atom>, Vec<Atom>) {
        self.sets.entry((edge.parent.meta.name, edge.parent.uuid, edge.column)).or_default()
    }

    fn finish(mut self, lock: Option<&Str>) -> Transaction {
        let mut members = Vec::new();
        let mut waited = FxHashSet::default();
        for ((table, parent, column), (join, leave)) in std::mem::take(&mut self.sets) {
            // A mutate that meets no row succeeds, and the child would be collected or unguarded.
            if !join.is_empty() && !self.inserted.contains(&parent) && waited.insert(parent) {
                self.waits.push(Op::wait_for_row(table, parent));
            }
            let mutation = |mutator, atoms: Vec<Atom>| {
                let value = Datum::set(atoms);
                (!value.is_empty()).then(|| Mutation { column: column.into(), mutator, value })
            };
            let mutations = [mutation(Mutator::Delete, leave), mutation(Mutator::Insert, join)];
            members.push(Op::Mutate {
                table: table.into(),
                conditions: vec![Condition::uuid(parent)],
                mutations: mutations.into_iter().flatten().collect(),
            });
        }
        let lock = lock.map(|lock| Op::Assert { lock: lock.clone() });
        let parts = [self.waits, self.rows, members, self.deletes];
        Transaction::new(lock.into_iter().chain(parts.into_iter().flatten()).collect())
    }
}
