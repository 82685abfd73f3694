//! Rows as Rust structs. The structs are generated; what they have in common is here.

use crate::collections::{Members, Pairs};
use crate::path;
use causeway_ovsdb::{Atom, Datum, RowRef, Str, Uuid};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// What is known of a table when the program is built: its names. Types and rules come from the server's schema.
#[derive(Debug)]
pub struct TableMeta {
    /// The database, such as `OVN_Northbound`.
    pub database: &'static str,
    /// The table, such as `Logical_Switch`.
    pub name: &'static str,
    /// The columns in alphabetical order.
    pub columns: &'static [&'static str],
    /// The UUID namespace of its rows, once it is known.
    #[doc(hidden)]
    pub namespace: OnceLock<Uuid>,
}

impl TableMeta {
    /// The UUID namespace of the table's rows; computed once, since every row needs it.
    pub(crate) fn namespace(&self) -> &Uuid {
        self.namespace.get_or_init(|| path::table_namespace(self.database, self.name))
    }

    /// Where a column stands.
    pub fn position(&self, column: &str) -> Option<usize> {
        self.columns.binary_search(&column).ok()
    }
}

/// There is one value for each table, so identity is equality.
impl PartialEq for TableMeta {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for TableMeta {}

/// The columns of a planned row: positions in [`TableMeta::columns`], ascending, without those left at default.
pub type Columns = Vec<(u8, Datum)>;

/// A generated row type.
pub trait TypedRow: Default {
    /// The table.
    fn meta() -> &'static TableMeta;

    /// The columns that differ from their defaults.
    fn into_columns(self) -> Columns;

    /// Reads a row of a replica; a column that is not monitored reads as its default.
    fn from_row(row: RowRef<'_>) -> Self;
}

/// A field that converts to and from a datum.
pub(crate) trait Field: Default + PartialEq {
    fn into_datum(self) -> Datum;
    fn from_datum(datum: &Datum) -> Option<Self>;
}

/// An element of a set or map.
pub(crate) trait Element: Sized + Ord {
    fn into_atom(self) -> Atom;
    fn from_atom(atom: &Atom) -> Option<Self>;
}

macro_rules! element {
    ($ty:ty, $variant:ident) => {
        impl Element for $ty {
            fn into_atom(self) -> Atom {
                Atom::$variant(self)
            }
            fn from_atom(atom: &Atom) -> Option<Self> {
                if let Atom::$variant(value) = atom { Some(value.clone()) } else { None }
            }
        }
        scalar!($ty, $variant);
    };
}

macro_rules! scalar {
    ($ty:ty, $variant:ident) => {
        impl Field for $ty {
            fn into_datum(self) -> Datum {
                Datum::One(Atom::$variant(self))
            }
            fn from_datum(datum: &Datum) -> Option<Self> {
                if let Some(Atom::$variant(value)) = datum.one() { Some(value.clone()) } else { None }
            }
        }
    };
}

element!(i64, Integer);
element!(bool, Boolean);
element!(Str, String);
element!(Uuid, Uuid);
scalar!(f64, Real);

impl<T: Element> Field for Option<T> {
    fn into_datum(self) -> Datum {
        self.map_or_else(Datum::empty, |v| Datum::One(v.into_atom()))
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        if datum.is_empty() { Some(None) } else { T::from_atom(datum.one()?).map(Some) }
    }
}

impl<T: Element> Field for Members<T> {
    fn into_datum(self) -> Datum {
        let mut members = self.into_members();
        match members.pop() {
            Some(one) if members.is_empty() => Datum::One(one.into_atom()),
            last => Datum::set(members.into_iter().chain(last).map(Element::into_atom)),
        }
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        datum.atoms().iter().map(T::from_atom).collect()
    }
}

/// Nearly all maps; they need no atoms in between.
impl Field for Pairs {
    fn into_datum(self) -> Datum {
        Datum::StrMap(self.into_pairs().into_boxed_slice())
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        if let Datum::StrMap(pairs) = datum { Some(pairs.iter().cloned().collect()) } else { None }
    }
}

macro_rules! map {
    ($key:ty, $value:ty) => {
        impl Field for BTreeMap<$key, $value> {
            fn into_datum(self) -> Datum {
                Datum::Map(self.into_iter().map(|(k, v)| (k.into_atom(), v.into_atom())).collect())
            }

            fn from_datum(datum: &Datum) -> Option<Self> {
                let Datum::Map(pairs) = datum else { return None };
                pairs.iter().map(|(k, v)| Some((Element::from_atom(k)?, Element::from_atom(v)?))).collect()
            }
        }
    };
}

map!(Str, i64);
map!(Str, Uuid);
map!(i64, Str);
map!(i64, Uuid);
map!(i64, i64);

pub(crate) fn put<F: Field>(columns: &mut Columns, at: u8, field: F) {
    if field != F::default() {
        columns.push((at, field.into_datum()));
    }
}

pub(crate) fn get<F: Field>(row: RowRef<'_>, column: &str) -> F {
    row.get(column).and_then(F::from_datum).unwrap_or_default()
}

/// Declares a row type: `Name = "Table" in "Database" { field: Type = "column", … }`, columns in alphabetical order.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident = $table:literal in $database:literal {
        $($field:ident : $ty:ty = $column:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $(#[doc = concat!("`", $column, "`")] pub $field: $ty,)*
        }

        impl $crate::typed::TypedRow for $name {
            fn meta() -> &'static $crate::typed::TableMeta {
                static META: $crate::typed::TableMeta = $crate::typed::TableMeta {
                    database: $database,
                    name: $table,
                    columns: &[$($column),*],
                    namespace: std::sync::OnceLock::new(),
                };
                &META
            }

            fn into_columns(self) -> $crate::typed::Columns {
                let mut columns = $crate::typed::Columns::with_capacity(8);
                let mut at = 0;
                $(
                    $crate::typed::put(&mut columns, at, self.$field);
                    at += 1;
                )*
                let _ = at;
                columns
            }

            fn from_row(row: causeway_ovsdb::RowRef<'_>) -> Self {
                Self { $($field: $crate::typed::get(row, $column),)* }
            }
        }
    };
}

pub(crate) use table;
