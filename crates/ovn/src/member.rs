//! Members of sets of texts and of maps from texts to texts: their paths, and one member as a value.
//!
//! One member is a [`Datum`] that has nothing else in it, so a member of a set and a pair of a map are handled alike.

use crate::desired::Planned;
use crate::path::{escape, unescape};
use causeway_ovsdb::{Atom, Datum, Str};
use std::collections::BTreeMap;

/// `<row>:<column>:<member>`; of a map the member is its key.
pub(crate) fn member_path(row: &str, column: &str, key: &str) -> Str {
    let mut path = Str::with_capacity(row.len() + column.len() + key.len() + 2);
    for part in [row, ":", column, ":"] {
        path.push_str(part);
    }
    escape(&mut path, key);
    path
}

/// The prefix of all members of a column.
pub(crate) fn column_prefix(row: &str, column: &str) -> Str {
    member_path(row, column, "")
}

/// The row, the column and the member of a member's path; any path of three components looks like one.
pub(crate) fn split_member(path: &str) -> Option<(&str, &str, Str)> {
    let (rest, key) = path.rsplit_once(':')?;
    let (row, column) = rest.rsplit_once(':')?;
    Some((row, column, unescape(key).into()))
}

/// The members of a set or the keys of a map, in order.
pub(crate) fn keys(datum: &Datum) -> impl Iterator<Item = &Str> {
    datum.atoms().iter().filter_map(Atom::as_str).chain(datum.pairs().iter().map(|(key, _)| key))
}

/// Each member on its own.
pub(crate) fn singles(datum: &Datum) -> impl Iterator<Item = Datum> + '_ {
    (0..datum.len()).filter_map(|at| single_at(datum, at))
}

/// The member at a position, on its own.
pub(crate) fn single_at(datum: &Datum, at: usize) -> Option<Datum> {
    match datum {
        Datum::StrMap(pairs) => pairs.get(at).map(|pair| Datum::StrMap(Box::new([pair.clone()]))),
        set => set.atoms().get(at).cloned().map(Datum::One),
    }
}

/// The text of the member at a position.
pub(crate) fn key_at(datum: &Datum, at: usize) -> Option<&Str> {
    match datum {
        Datum::StrMap(pairs) => pairs.get(at).map(|(key, _)| key),
        set => set.atoms().get(at).and_then(Atom::as_str),
    }
}

/// The member with this text, on its own, if it is there.
pub(crate) fn single(datum: &Datum, key: &Str) -> Option<Datum> {
    match datum {
        Datum::StrMap(_) => datum.get(key).map(|value| Datum::str_map([(key.clone(), value.clone())])),
        set => {
            let atom = Atom::String(key.clone());
            set.contains(&atom).then_some(Datum::One(atom))
        }
    }
}

/// Whether the member at a position is exactly this one.
pub(crate) fn is_at(datum: &Datum, at: usize, one: &Datum) -> bool {
    match (datum, one) {
        (Datum::StrMap(pairs), Datum::StrMap(one)) => pairs.get(at) == one.first(),
        (set, one) => set.atoms().get(at) == one.one(),
    }
}

/// The value that has exactly these members.
pub(crate) fn of_singles<'a>(ones: impl Iterator<Item = &'a Datum> + Clone) -> Datum {
    match ones.clone().next() {
        Some(Datum::StrMap(_)) => Datum::str_map(ones.flat_map(Datum::pairs).cloned()),
        _ => Datum::set(ones.flat_map(Datum::atoms).cloned()),
    }
}

/// The rows of a plan as the database will have them, with planned members in the values of their rows. Members whose row
/// is not among them are left out.
pub fn together(planned: Vec<Planned>) -> Vec<Planned> {
    let (members, mut rows): (Vec<_>, Vec<_>) = planned.into_iter().partition(|p| p.member_of.is_some());
    let mut values: BTreeMap<_, Vec<&Datum>> = BTreeMap::new();
    for member in &members {
        if let (Some(edge), Some((at, one))) = (member.member_of, member.columns.first()) {
            values.entry((edge.parent.uuid, *at)).or_default().push(one);
        }
    }
    for row in &mut rows {
        for (at, _) in row.meta.columns.iter().enumerate() {
            if let Some(ones) = values.get(&(row.uuid, at as u8)) {
                row.put(at as u8, of_singles(ones.iter().copied()));
            }
        }
    }
    rows
}

impl Planned {
    /// Whether it says what a column shall be, even if that is the default.
    pub(crate) fn states(&self, at: u8) -> bool {
        self.columns.binary_search_by_key(&at, |(c, _)| *c).is_ok()
    }

    /// Gives a column a value.
    pub(crate) fn put(&mut self, at: u8, value: Datum) {
        match self.columns.binary_search_by_key(&at, |(c, _)| *c) {
            Ok(found) => self.columns[found].1 = value,
            Err(place) => self.columns.insert(place, (at, value)),
        }
    }
}
