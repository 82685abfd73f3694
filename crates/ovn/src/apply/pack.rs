//! From differences to transactions: what is sent together, and in which order inside.

use crate::declare::{COUNTER, Phase};
use crate::desired::{Edge, RowKey};
use crate::diff::{Create, Delete, How, MemberChange, Modify};
use crate::member;
use causeway_ovsdb::{Atom, Condition, Datum, EncodedTransaction, Mutation, Mutator, Name, Op, Str, Uuid};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// About what a row takes in a transaction: enough that the text is seldom moved while it grows.
const ROW_BYTES: usize = 640;

/// Something to be done to one row, or to one member of a set or map.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Create(Create),
    Modify(Modify),
    Delete(Delete),
    Member(MemberChange),
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
            Item::Member(m) => m.uuid,
            Item::Shrink(s) => s.row.uuid,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self {
            Item::Create(c) => c.phase,
            Item::Modify(m) => m.phase,
            Item::Delete(d) => d.phase,
            Item::Member(m) => m.phase,
            Item::Shrink(s) => s.phase,
        }
    }

    pub(crate) fn atom(&self) -> Option<&Str> {
        match self {
            Item::Create(c) => c.planned.atom.as_ref(),
            Item::Modify(m) => m.planned.atom.as_ref(),
            Item::Member(m) => m.atom.as_ref(),
            Item::Delete(d) => d.atom.as_ref(),
            Item::Shrink(_) => None,
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

    /// Takes out the part that closes a row which stays what it is. One that becomes another is closed with that: nobody knows
    /// what it was allowed.
    pub(crate) fn take_closing(&mut self) -> Option<Modify> {
        let is_last = |edge: &mut Edge| self.columns.is_empty() && self.planned.closes.contains(edge);
        let last: Vec<Edge> = self.join.extract_if(.., is_last).collect();
        (!last.is_empty()).then(|| Modify {
            planned: self.planned.clone(),
            uuid: self.uuid,
            phase: Phase::Closing,
            columns: Vec::new(),
            join: last,
            leave_now: Vec::new(),
            leave: Vec::new(),
        })
    }

    /// Whether anything is left to do before the time of deletions.
    pub(crate) fn has_now(&self) -> bool {
        !self.join.is_empty()
            || !self.leave_now.is_empty()
            || self.columns.iter().any(|c| c.how == How::Set || !c.mutations_now().is_empty())
    }
}

/// Sets and maps that gain and lose members, by row and column.
type Sets = BTreeMap<(Uuid, &'static str), Gains>;

#[derive(Default)]
struct Gains {
    table: &'static str,
    join: Vec<Atom>,
    /// What a map gains.
    pairs: Vec<(Str, Str)>,
    leave: Vec<Atom>,
}

impl Gains {
    fn member(&mut self, change: &MemberChange) {
        let keys = |one: &Datum| member::keys(one).cloned().map(Atom::String).collect::<Vec<_>>();
        self.leave.extend(change.old.iter().flat_map(keys));
        if let Some(new) = &change.new {
            self.join.extend_from_slice(new.atoms());
            self.pairs.extend_from_slice(new.pairs());
        }
    }

    fn grows(&self) -> bool {
        !self.join.is_empty() || !self.pairs.is_empty()
    }
}

/// The transaction of these items; with a lock it fails unless we hold it. Waits come first, then rows, then
/// memberships and members (one mutate for each set or map), then deletions, and the count goes up by one in the table that counts.
pub(crate) fn transaction<'a>(
    items: impl Iterator<Item = &'a Item> + Clone,
    lock: Option<&Str>,
    counter: Option<&'static str>,
) -> EncodedTransaction {
    let mut out = EncodedTransaction::without_results(items.clone().count() * ROW_BYTES);
    if let Some(lock) = lock {
        out.push(&Op::Assert { lock: lock.clone() });
    }
    let sets = memberships(items.clone());
    write_waits(&mut out, items.clone(), &sets);
    for item in items.clone() {
        match item {
            Item::Create(c) => write_create(&mut out, c),
            Item::Modify(m) => write_modify(&mut out, m),
            Item::Shrink(s) => write_mutate(&mut out, s.row, s.mutations.clone()),
            Item::Delete(_) | Item::Member(_) => {}
        }
    }
    write_memberships(&mut out, sets);
    for item in items {
        if let Item::Delete(d) = item
            && d.is_root
        {
            let conditions = vec![Condition::uuid(d.row.uuid)];
            out.push(&Op::Delete { table: d.row.meta.name.into(), conditions });
        }
    }
    if let Some(table) = counter {
        out.push(&count(table));
    }
    out
}

fn count(table: &'static str) -> Op {
    let one = Mutation { column: COUNTER.into(), mutator: Mutator::Add, value: Atom::Integer(1).into() };
    Op::Mutate { table: table.into(), conditions: Vec::new(), mutations: vec![one] }
}

fn memberships<'a>(items: impl Iterator<Item = &'a Item>) -> Sets {
    let mut sets = Sets::new();
    for item in items {
        let (join, leave): (&[Edge], &[Edge]) = match item {
            Item::Create(c) => (&c.planned.edges, &[]),
            Item::Modify(m) => (&m.join, &m.leave_now),
            Item::Delete(d) => (&[], &d.edges),
            Item::Shrink(s) => (&[], &s.leave),
            Item::Member(m) => {
                gains(&mut sets, &m.edge).member(m);
                continue;
            }
        };
        let row = || Atom::Uuid(item.uuid());
        join.iter().for_each(|edge| gains(&mut sets, edge).join.push(row()));
        leave.iter().for_each(|edge| gains(&mut sets, edge).leave.push(row()));
    }
    sets
}

fn gains<'a>(sets: &'a mut Sets, edge: &Edge) -> &'a mut Gains {
    let new = || Gains { table: edge.parent.meta.name, ..Gains::default() };
    sets.entry((edge.parent.uuid, edge.column)).or_insert_with(new)
}

/// A mutate that meets no row succeeds, and the child would be collected or unguarded: so we insist on the parent.
fn write_waits<'a>(out: &mut EncodedTransaction, items: impl Iterator<Item = &'a Item>, sets: &Sets) {
    let creates = items.filter(|i| matches!(i, Item::Create(_)));
    let mut known: FxHashSet<Uuid> = creates.map(Item::uuid).collect();
    for ((parent, _), gains) in sets {
        if gains.grows() && known.insert(*parent) {
            out.push(&Op::wait_for_row(gains.table, *parent));
        }
    }
}

fn write_create(out: &mut EncodedTransaction, create: &Create) {
    let planned = &create.planned;
    let columns = planned.columns.iter().map(|(at, datum)| (planned.meta.columns[usize::from(*at)], datum));
    out.insert(planned.meta.name, planned.uuid, columns);
}

fn write_modify(out: &mut EncodedTransaction, modify: &Modify) {
    let row = RowKey { meta: modify.planned.meta, uuid: modify.uuid };
    let whole = modify.columns.iter().filter(|c| c.how == How::Set);
    let whole: Vec<(Name, Datum)> = whole.map(|c| (Name::from(c.column), c.new.clone())).collect();
    if !whole.is_empty() {
        let conditions = vec![Condition::uuid(row.uuid)];
        out.push(&Op::Update { table: row.meta.name.into(), conditions, row: whole });
    }
    write_mutate(out, row, modify.columns.iter().flat_map(|c| c.mutations_now()).collect());
}

fn write_mutate(out: &mut EncodedTransaction, row: RowKey, mutations: Vec<Mutation>) {
    if !mutations.is_empty() {
        let conditions = vec![Condition::uuid(row.uuid)];
        out.push(&Op::Mutate { table: row.meta.name.into(), conditions, mutations });
    }
}

fn write_memberships(out: &mut EncodedTransaction, sets: Sets) {
    for ((parent, column), Gains { table, join, pairs, leave }) in sets {
        let mutation = |mutator, value: Datum| {
            (!value.is_empty()).then(|| Mutation { column: column.into(), mutator, value })
        };
        let joining = if pairs.is_empty() { Datum::set(join) } else { Datum::str_map(pairs) };
        let leaving = mutation(Mutator::Delete, Datum::set(leave));
        let mutations = [leaving, mutation(Mutator::Insert, joining)];
        out.push(&Op::Mutate {
            table: table.into(),
            conditions: vec![Condition::uuid(parent)],
            mutations: mutations.into_iter().flatten().collect(),
        });
    }
}
