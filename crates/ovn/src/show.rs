//! A difference as text for people (`+`, `~`, `-`) and as JSON for programs.

use crate::desired::Edge;
use crate::diff::{ColumnChange, Create, Delete, MemberChange, Modify, SliceDiff};
use causeway_ovsdb::{Atom, Datum, encode_datum};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use std::fmt;

/// A datum as a person would write it: strings bare, sets in `[ ]`, maps as `key=value`.
struct Plain<'a>(&'a Datum);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Datum::One(atom) => write_atom(f, atom),
            Datum::Many(atoms) => {
                f.write_str("[")?;
                for (i, atom) in atoms.iter().enumerate() {
                    f.write_str(if i > 0 { ", " } else { "" })?;
                    write_atom(f, atom)?;
                }
                f.write_str("]")
            }
            Datum::StrMap(pairs) => {
                for (i, (key, value)) in pairs.iter().enumerate() {
                    write!(f, "{}{key}={value}", if i > 0 { ", " } else { "" })?;
                }
                Ok(())
            }
            Datum::Map(pairs) => {
                for (i, (key, value)) in pairs.iter().enumerate() {
                    f.write_str(if i > 0 { ", " } else { "" })?;
                    write_atom(f, key)?;
                    f.write_str("=")?;
                    write_atom(f, value)?;
                }
                Ok(())
            }
        }
    }
}

fn write_atom(f: &mut fmt::Formatter<'_>, atom: &Atom) -> fmt::Result {
    match atom {
        Atom::Integer(i) => write!(f, "{i}"),
        Atom::Real(r) => write!(f, "{r}"),
        Atom::Boolean(b) => write!(f, "{b}"),
        Atom::String(s) | Atom::Named(s) => f.write_str(s),
        Atom::Uuid(u) => write!(f, "{u}"),
    }
}

fn write_edge(f: &mut fmt::Formatter<'_>, sign: char, edge: &Edge) -> fmt::Result {
    writeln!(f, "    {sign} in {} {} {}", edge.parent.meta.name, edge.parent.uuid, edge.column)
}

impl fmt::Display for SliceDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for create in &self.creates {
            create.fmt(f)?;
        }
        for modify in &self.modifies {
            modify.fmt(f)?;
        }
        for delete in &self.deletes {
            delete.fmt(f)?;
        }
        self.members.iter().try_for_each(|member| member.fmt(f))
    }
}

/// `+ Address_Set addresses <path>` and the member behind it.
impl fmt::Display for MemberChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, column) = (self.edge.parent.meta.name, self.edge.column);
        let (sign, old, new) = match (&self.old, &self.new) {
            (Some(old), Some(new)) => ('~', Some(old), Some(new)),
            (None, new) => ('+', None, new.as_ref()),
            (old, None) => ('-', old.as_ref(), None),
        };
        write!(f, "{sign} {table} {}\n    {column:<14} ", self.path)?;
        old.iter().try_for_each(|old| write!(f, "{}", Plain(old)))?;
        f.write_str(if sign == '~' { " -> " } else { "" })?;
        new.iter().try_for_each(|new| write!(f, "{}", Plain(new)))?;
        f.write_str("\n")
    }
}

impl fmt::Display for Create {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = &self.planned;
        writeln!(f, "+ {} {}", row.meta.name, row.path)?;
        for (at, datum) in &row.columns {
            writeln!(f, "    {:<14} {}", row.meta.columns[usize::from(*at)], Plain(datum))?;
        }
        row.edges.iter().try_for_each(|edge| write_edge(f, '+', edge))
    }
}

impl fmt::Display for Modify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "~ {} {}", self.planned.meta.name, self.planned.path)?;
        for ColumnChange { column, old, new, .. } in &self.columns {
            writeln!(f, "    {column:<14} {} -> {}", Plain(old), Plain(new))?;
        }
        self.join.iter().try_for_each(|edge| write_edge(f, '+', edge))?;
        self.leave_now.iter().chain(&self.leave).try_for_each(|edge| write_edge(f, '-', edge))
    }
}

impl fmt::Display for Delete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stray = if self.stray { " (stray)" } else { "" };
        writeln!(f, "- {} {}{stray}", self.row.meta.name, self.path)
    }
}

/// The JSON form of a datum is that of the wire.
struct Wire<'a>(&'a Datum);

impl Serialize for Wire<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut json = Vec::new();
        encode_datum(&mut json, self.0);
        let text = String::from_utf8(json).map_err(serde::ser::Error::custom)?;
        serde_json::value::RawValue::from_string(text).map_err(serde::ser::Error::custom)?.serialize(s)
    }
}

impl Serialize for SliceDiff {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut seq = s.serialize_seq(Some(self.len()))?;
        self.creates.iter().try_for_each(|c| seq.serialize_element(c))?;
        self.modifies.iter().try_for_each(|m| seq.serialize_element(m))?;
        self.deletes.iter().try_for_each(|d| seq.serialize_element(d))?;
        self.members.iter().try_for_each(|m| seq.serialize_element(m))?;
        seq.end()
    }
}

/// An edge in JSON: `[table, uuid, column]`.
fn edge_parts(edges: &[Edge]) -> Vec<(&'static str, String, &'static str)> {
    edges.iter().map(|e| (e.parent.meta.name, e.parent.uuid.to_string(), e.column)).collect()
}

impl Serialize for Create {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let row = &self.planned;
        let columns = row.columns.iter().map(|(at, d)| (row.meta.columns[usize::from(*at)], Wire(d)));
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("op", "create")?;
        map.serialize_entry("table", row.meta.name)?;
        map.serialize_entry("path", row.path.as_str())?;
        map.serialize_entry("uuid", &row.uuid)?;
        map.serialize_entry("phase", &self.phase)?;
        map.serialize_entry("columns", &columns.collect::<std::collections::BTreeMap<_, _>>())?;
        map.serialize_entry("join", &edge_parts(&row.edges))?;
        map.end()
    }
}

impl Serialize for Modify {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Values<'a> {
            old: Wire<'a>,
            new: Wire<'a>,
        }
        let columns =
            self.columns.iter().map(|c| (c.column, Values { old: Wire(&c.old), new: Wire(&c.new) }));
        let leave: Vec<Edge> = self.leave_now.iter().chain(&self.leave).copied().collect();
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("op", "modify")?;
        map.serialize_entry("table", self.planned.meta.name)?;
        map.serialize_entry("path", self.planned.path.as_str())?;
        map.serialize_entry("uuid", &self.uuid)?;
        map.serialize_entry("phase", &self.phase)?;
        map.serialize_entry("columns", &columns.collect::<std::collections::BTreeMap<_, _>>())?;
        map.serialize_entry("join", &edge_parts(&self.join))?;
        map.serialize_entry("leave", &edge_parts(&leave))?;
        map.end()
    }
}

impl Serialize for Delete {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("op", "delete")?;
        map.serialize_entry("table", self.row.meta.name)?;
        map.serialize_entry("path", self.path.as_str())?;
        map.serialize_entry("uuid", &self.row.uuid)?;
        map.serialize_entry("phase", &self.phase)?;
        map.serialize_entry("stray", &self.stray)?;
        map.end()
    }
}

impl Serialize for MemberChange {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let op = match (&self.old, &self.new) {
            (None, _) => "create",
            (Some(_), Some(_)) => "modify",
            (Some(_), None) => "delete",
        };
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("op", op)?;
        map.serialize_entry("table", self.edge.parent.meta.name)?;
        map.serialize_entry("path", self.path.as_str())?;
        map.serialize_entry("uuid", &self.edge.parent.uuid)?;
        map.serialize_entry("phase", &self.phase)?;
        map.serialize_entry("column", self.edge.column)?;
        map.serialize_entry("old", &self.old.as_ref().map(Wire))?;
        map.serialize_entry("new", &self.new.as_ref().map(Wire))?;
        map.end()
    }
}
