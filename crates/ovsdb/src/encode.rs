//! Datums and transactions to JSON, straight into a byte buffer.

use crate::datum::{Atom, Datum};
use uuid::Uuid;

/// Appends the wire form of a datum.
pub fn encode_datum(out: &mut Vec<u8>, datum: &Datum) {
    match datum {
        Datum::One(atom) => encode_atom(out, atom),
        Datum::Many(atoms) => {
            out.extend_from_slice(b"[\"set\",[");
            separated(out, atoms, encode_atom);
            out.extend_from_slice(b"]]");
        }
        Datum::StrMap(pairs) => {
            out.extend_from_slice(b"[\"map\",[");
            separated(out, pairs, |out, (k, v)| pair(out, |o| encode_str(o, k), |o| encode_str(o, v)));
            out.extend_from_slice(b"]]");
        }
        Datum::Map(pairs) => {
            out.extend_from_slice(b"[\"map\",[");
            separated(out, pairs, |out, (k, v)| pair(out, |o| encode_atom(o, k), |o| encode_atom(o, v)));
            out.extend_from_slice(b"]]");
        }
    }
}

fn pair(out: &mut Vec<u8>, key: impl FnOnce(&mut Vec<u8>), value: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'[');
    key(out);
    out.push(b',');
    value(out);
    out.push(b']');
}

pub(crate) fn separated<'a, T: 'a>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = &'a T>,
    mut one: impl FnMut(&mut Vec<u8>, &'a T),
) {
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        one(out, item);
    }
}

pub(crate) fn encode_atom(out: &mut Vec<u8>, atom: &Atom) {
    match atom {
        Atom::Integer(i) => encode_json(out, i),
        Atom::Real(r) => encode_json(out, r),
        Atom::Boolean(b) => encode_json(out, b),
        Atom::String(s) => encode_str(out, s),
        Atom::Uuid(u) => encode_uuid(out, *u),
        Atom::Named(n) => {
            out.extend_from_slice(b"[\"named-uuid\",");
            encode_str(out, n);
            out.push(b']');
        }
    }
}

pub(crate) fn encode_uuid(out: &mut Vec<u8>, uuid: Uuid) {
    out.extend_from_slice(b"[\"uuid\",\"");
    out.extend_from_slice(uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()).as_bytes());
    out.extend_from_slice(b"\"]");
}

pub(crate) fn encode_str(out: &mut Vec<u8>, s: &str) {
    // Names, addresses and matches rarely have anything to escape.
    // Looking at every byte without stopping early lets the compiler look at many at once.
    let special = s.bytes().fold(false, |found, b| found | (b < 0x20) | (b == b'"') | (b == b'\\'));
    if special {
        return encode_json(out, s);
    }
    out.push(b'"');
    out.extend_from_slice(s.as_bytes());
    out.push(b'"');
}

pub(crate) fn encode_json<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(&mut *out, value).expect("invariant: writing plain values to memory can't fail");
}
