//! JSON to column-typed values, in one pass and with no tree in between.

use crate::datum::{Atom, Datum, Str, sort_pairs};
use crate::error::Error;
use crate::replica::{Layout, Row};
use crate::schema::{AtomicType, ColumnType};
use crate::terse;
use rustc_hash::FxHasher;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use std::borrow::Cow;
use std::cell::{RefCell, RefMut};
use std::fmt;
use std::hash::Hasher;
use uuid::Uuid;

/// A string borrowed from the input where it has no escapes; serde's own `Cow` would copy every one.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(v)))
            }
            fn visit_str<E>(self, v: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(v.to_owned())))
            }
        }
        d.deserialize_str(TextVisitor)
    }
}

/// One row's part of an `update`, `update2` or `update3`.
#[derive(Clone, Debug, PartialEq)]
pub enum RowUpdate {
    /// The row as it is now, complete (`initial`, `insert`, or `new` without `old`).
    Whole(Row),
    /// Changed columns of `update2`: new values of scalars, differences of sets and maps.
    Modify(Vec<(usize, Datum)>),
    /// `new` next to `old`: the row as it is now, complete.
    Replace(Row),
    /// The row is gone.
    Delete,
}

/// Shares equal strings among rows: names of networks and nodes, owners, map keys. A cache of fixed size, so that
/// strings that never repeat cost nothing.
#[derive(Debug)]
pub struct Interner {
    slots: RefCell<Box<[Str]>>,
    /// Where the pairs of a map are collected, so that the map itself is allocated once and in its size.
    pairs: RefCell<Vec<(Str, Str)>>,
    /// Where a text with escapes is put together.
    text: RefCell<String>,
}

const INTERNER_SLOTS: usize = 4096;
/// Shorter strings live inside [`Str`] itself.
const INLINE: usize = 15;

impl Default for Interner {
    fn default() -> Self {
        let slots = vec![Str::new(); INTERNER_SLOTS].into_boxed_slice();
        Interner { slots: RefCell::new(slots), pairs: RefCell::default(), text: RefCell::default() }
    }
}

impl Interner {
    /// A map of texts, in its order, of the pairs that `collect` finds.
    pub(crate) fn str_map(&self, collect: impl FnOnce(&mut Vec<(Str, Str)>) -> Option<()>) -> Option<Datum> {
        let mut pairs = self.pairs.borrow_mut();
        pairs.clear();
        collect(&mut pairs)?;
        sort_pairs(&mut pairs);
        Some(Datum::StrMap(pairs.drain(..).collect()))
    }

    /// An empty text to work with.
    pub(crate) fn scratch(&self) -> RefMut<'_, String> {
        let mut text = self.text.borrow_mut();
        text.clear();
        text
    }

    pub(crate) fn share(&self, s: &str) -> Str {
        if s.len() <= INLINE {
            return Str::inline(s);
        }
        let mut hasher = FxHasher::default();
        hasher.write(s.as_bytes());
        let slot = &mut self.slots.borrow_mut()[hasher.finish() as usize % INTERNER_SLOTS];
        if slot.as_str() != s {
            *slot = s.into();
        }
        slot.clone()
    }
}

/// Reads the wire form of a datum of the given type.
pub fn decode_datum(json: &[u8], ty: &ColumnType) -> Result<Datum, Error> {
    let interner = Interner::default();
    let mut de = serde_json::Deserializer::from_slice(json);
    let datum = DatumSeed { ty, interner: &interner }.deserialize(&mut de).map_err(Error::json("value"))?;
    de.end().map_err(Error::json("value"))?;
    Ok(datum)
}

/// Reads one row update of a table with this layout.
pub fn decode_row_update(json: &[u8], layout: &Layout, interner: &Interner) -> Result<RowUpdate, Error> {
    // One check of the whole row is cheaper than one for each of its strings.
    let text = std::str::from_utf8(json).map_err(|e| Error::Frame(format!("a row is not UTF-8: {e}")))?;
    terse::read(text, layout, interner).map_or_else(|| decode_generally(text, layout, interner), Ok)
}

/// Reads a row update however it is written.
pub(crate) fn decode_generally(text: &str, layout: &Layout, interner: &Interner) -> Result<RowUpdate, Error> {
    let mut de = serde_json::Deserializer::from_str(text);
    let update =
        de.deserialize_map(RowUpdateVisitor { layout, interner }).map_err(Error::json("row update"))?;
    de.end().map_err(Error::json("row update"))?;
    Ok(update)
}

struct RowUpdateVisitor<'a> {
    layout: &'a Layout,
    interner: &'a Interner,
}

impl<'de> Visitor<'de> for RowUpdateVisitor<'_> {
    type Value = RowUpdate;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row update")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RowUpdate, A::Error> {
        let RowUpdateVisitor { layout, interner } = self;
        let (mut new, mut old, mut modify, mut delete) = (None, false, None, false);
        while let Some(kind) = map.next_key::<Text<'de>>()? {
            match &*kind.0 {
                "initial" | "insert" | "new" => {
                    new = Some(map.next_value_seed(RowSeed { layout, interner })?)
                }
                "modify" => {
                    let mut columns = Vec::new();
                    let put = |column, datum| columns.push((column, datum));
                    map.next_value_seed(ColumnsSeed { layout, interner, put })?;
                    modify = Some(columns);
                }
                "old" => {
                    map.next_value::<IgnoredAny>()?;
                    old = true;
                }
                "delete" => {
                    map.next_value::<IgnoredAny>()?;
                    delete = true;
                }
                other => return Err(A::Error::custom(format!("unknown kind of row update {other:?}"))),
            }
        }
        match (new, old, modify, delete) {
            (Some(row), false, None, false) => Ok(RowUpdate::Whole(row)),
            (Some(row), true, None, false) => Ok(RowUpdate::Replace(row)),
            (None, false, Some(columns), false) => Ok(RowUpdate::Modify(columns)),
            (None, true, None, false) | (None, false, None, true) => Ok(RowUpdate::Delete),
            _ => Err(A::Error::custom("want exactly one of initial, insert, modify, delete, or old and new")),
        }
    }
}

struct RowSeed<'a> {
    layout: &'a Layout,
    interner: &'a Interner,
}

impl<'de> DeserializeSeed<'de> for RowSeed<'_> {
    type Value = Row;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Row, D::Error> {
        // A column that is not named holds its default.
        let mut row = self.layout.default_row();
        let put = |column: usize, datum| row[column] = datum;
        ColumnsSeed { layout: self.layout, interner: self.interner, put }.deserialize(d)?;
        Ok(row)
    }
}

/// Reads an object of columns, handing each to `put`.
struct ColumnsSeed<'a, F> {
    layout: &'a Layout,
    interner: &'a Interner,
    put: F,
}

impl<'de, F: FnMut(usize, Datum)> DeserializeSeed<'de> for ColumnsSeed<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_map(self)
    }
}

impl<'de, F: FnMut(usize, Datum)> Visitor<'de> for ColumnsSeed<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of columns")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(name)) = map.next_key::<Text<'de>>()? {
            match self.layout.position(&name) {
                Some(at) => {
                    let ty = &self.layout.columns()[at].ty;
                    let datum = map
                        .next_value_seed(DatumSeed { ty, interner: self.interner })
                        .map_err(|e| A::Error::custom(format!("column {name}: {e}")))?;
                    (self.put)(at, datum);
                }
                // `_uuid` and `_version`, or a column nobody asked for.
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

pub(crate) struct DatumSeed<'a> {
    pub(crate) ty: &'a ColumnType,
    pub(crate) interner: &'a Interner,
}

impl<'de> DeserializeSeed<'de> for DatumSeed<'_> {
    type Value = Datum;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Datum, D::Error> {
        d.deserialize_any(self)
    }
}

impl DatumSeed<'_> {
    fn atom_seed(&self) -> AtomSeed<'_> {
        // Names and matches, the strings of sets and scalars, are unique anyway.
        AtomSeed { ty: self.ty.key.ty, interner: None }
    }

    fn one<E: serde::de::Error>(self, atom: Result<Atom, E>) -> Result<Datum, E> {
        if self.ty.is_map() {
            return Err(E::custom("a single value where a map belongs"));
        }
        atom.map(Datum::One)
    }

    fn map<'de, A: SeqAccess<'de>>(&self, seq: &mut A) -> Result<Datum, A::Error> {
        let Some(value) = &self.ty.value else { return Err(A::Error::custom("a map where a set belongs")) };
        let missing = || A::Error::custom("\"map\" without its pairs");
        if self.ty.is_str_map() {
            return seq.next_element_seed(StrPairs { interner: self.interner })?.ok_or_else(missing);
        }
        let pair = PairSeed { key: self.ty.key.ty, value: value.ty, interner: self.interner };
        let pairs = seq.next_element_seed(ListOf(pair))?.ok_or_else(missing)?;
        let mut pairs: Vec<(Atom, Atom)> = pairs;
        sort_pairs(&mut pairs);
        Ok(Datum::Map(pairs.into_boxed_slice()))
    }

    fn tagged<'de, A: SeqAccess<'de>>(&self, tag: &str, seq: &mut A) -> Result<Datum, A::Error> {
        match tag {
            "set" if self.ty.is_map() => Err(A::Error::custom("a set where a map belongs")),
            "set" => {
                let atoms = seq.next_element_seed(ListOf(self.atom_seed()))?;
                Ok(Datum::from_atoms(atoms.ok_or_else(|| A::Error::custom("\"set\" without its elements"))?))
            }
            "map" => self.map(seq),
            _ if self.ty.is_map() => Err(A::Error::custom("a single value where a map belongs")),
            _ => self.atom_seed().tagged(tag, seq).map(Datum::One),
        }
    }
}

impl<'de> Visitor<'de> for DatumSeed<'_> {
    type Value = Datum;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an OVSDB value")
    }

    fn visit_bool<E: serde::de::Error>(self, v: bool) -> Result<Datum, E> {
        let atom = self.atom_seed().visit_bool(v);
        self.one(atom)
    }

    fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<Datum, E> {
        let atom = self.atom_seed().visit_i64(v);
        self.one(atom)
    }

    fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<Datum, E> {
        let atom = self.atom_seed().visit_u64(v);
        self.one(atom)
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Datum, E> {
        let atom = self.atom_seed().visit_f64(v);
        self.one(atom)
    }

    fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<Datum, E> {
        let atom = self.atom_seed().visit_str(v);
        self.one(atom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Datum, A::Error> {
        let tag = seq.next_element::<Text<'de>>()?.ok_or_else(|| A::Error::custom("an empty array"))?;
        let datum = self.tagged(&tag.0, &mut seq)?;
        match seq.next_element::<IgnoredAny>()? {
            None => Ok(datum),
            Some(_) => Err(A::Error::custom("more than two elements in a tagged value")),
        }
    }
}

/// Reads one atom of a known type.
#[derive(Clone, Copy)]
struct AtomSeed<'a> {
    ty: AtomicType,
    /// Where equal strings are shared, if at all.
    interner: Option<&'a Interner>,
}

impl AtomSeed<'_> {
    fn wrong<E: serde::de::Error>(&self, got: &str) -> E {
        E::custom(format!("{got} where {:?} belongs", self.ty))
    }

    fn tagged<'de, A: SeqAccess<'de>>(&self, tag: &str, seq: &mut A) -> Result<Atom, A::Error> {
        let wrong = || self.wrong(&format!("{tag:?} value"));
        if self.ty != AtomicType::Uuid || !matches!(tag, "uuid" | "named-uuid") {
            return Err(wrong());
        }
        let Text(text) = seq.next_element::<Text<'de>>()?.ok_or_else(wrong)?;
        if tag == "named-uuid" {
            return Ok(Atom::Named(text.as_ref().into()));
        }
        let uuid = Uuid::try_parse(&text);
        uuid.map(Atom::Uuid).map_err(|e| A::Error::custom(format!("bad UUID {text:?}: {e}")))
    }
}

impl<'de> DeserializeSeed<'de> for AtomSeed<'_> {
    type Value = Atom;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Atom, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AtomSeed<'_> {
    type Value = Atom;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an atom of type {:?}", self.ty)
    }

    fn visit_bool<E: serde::de::Error>(self, v: bool) -> Result<Atom, E> {
        if self.ty == AtomicType::Boolean { Ok(Atom::Boolean(v)) } else { Err(self.wrong("a Boolean")) }
    }

    fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<Atom, E> {
        match self.ty {
            AtomicType::Integer => Ok(Atom::Integer(v)),
            AtomicType::Real => Ok(Atom::Real(v as f64)),
            _ => Err(self.wrong("a number")),
        }
    }

    fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<Atom, E> {
        match self.ty {
            AtomicType::Integer => {
                i64::try_from(v).map(Atom::Integer).map_err(|_| self.wrong("a number beyond 2^63"))
            }
            AtomicType::Real => Ok(Atom::Real(v as f64)),
            _ => Err(self.wrong("a number")),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Atom, E> {
        if self.ty == AtomicType::Real { Ok(Atom::Real(v)) } else { Err(self.wrong("a fraction")) }
    }

    fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<Atom, E> {
        if self.ty != AtomicType::String {
            return Err(self.wrong("a string"));
        }
        Ok(Atom::String(self.interner.map_or_else(|| v.into(), |i| i.share(v))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Atom, A::Error> {
        let tag = seq.next_element::<Text<'de>>()?.ok_or_else(|| A::Error::custom("an empty array"))?;
        self.tagged(&tag.0, &mut seq)
    }
}

/// An array of things read by one seed.
struct ListOf<S>(S);

impl<'de, S: DeserializeSeed<'de> + Copy> DeserializeSeed<'de> for ListOf<S> {
    type Value = Vec<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_seq(self)
    }
}

impl<'de, S: DeserializeSeed<'de> + Copy> Visitor<'de> for ListOf<S> {
    type Value = Vec<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self.0)? {
            items.push(item);
        }
        Ok(items)
    }
}

#[derive(Clone, Copy)]
struct PairSeed<'a> {
    key: AtomicType,
    value: AtomicType,
    interner: &'a Interner,
}

impl<'de> DeserializeSeed<'de> for PairSeed<'_> {
    type Value = (Atom, Atom);

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_tuple(2, self)
    }
}

impl<'de> Visitor<'de> for PairSeed<'_> {
    type Value = (Atom, Atom);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pair")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let interner = Some(self.interner);
        let short = || A::Error::custom("a pair with fewer than two elements");
        let key = seq.next_element_seed(AtomSeed { ty: self.key, interner })?.ok_or_else(short)?;
        let value = seq.next_element_seed(AtomSeed { ty: self.value, interner })?.ok_or_else(short)?;
        Ok((key, value))
    }
}

#[derive(Clone, Copy)]
struct StrPairs<'a> {
    interner: &'a Interner,
}

impl<'de> DeserializeSeed<'de> for StrPairs<'_> {
    type Value = Datum;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for StrPairs<'_> {
    type Value = Datum;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of pairs of strings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some((k, v)) = seq.next_element::<(Text<'de>, Text<'de>)>()? {
            pairs.push((self.interner.share(&k.0), self.interner.share(&v.0)));
        }
        Ok(Datum::from_str_pairs(pairs))
    }
}
