//! Database schemas, as `get_schema` and `.ovsschema` files write them (RFC 7047 §3.2).

use crate::datum::{Atom, Datum, Str};
use crate::error::Error;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use uuid::Uuid;

/// A whole database.
#[derive(Clone, Debug, PartialEq)]
pub struct DatabaseSchema {
    /// Its name, such as `OVN_Northbound`.
    pub name: Str,
    /// `x.y.z`.
    pub version: String,
    /// The tables by name.
    pub tables: BTreeMap<Str, TableSchema>,
}

/// A `<table-schema>` of RFC 7047.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSchema {
    /// The columns by name, without `_uuid` and `_version`.
    pub columns: BTreeMap<Str, ColumnSchema>,
    /// Whether a row stays when nothing refers to it.
    pub is_root: bool,
    /// Sets of columns whose values are unique together.
    pub indexes: Vec<Vec<Str>>,
    /// Limit of rows, if any.
    pub max_rows: Option<u64>,
}

/// A `<column-schema>` of RFC 7047.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnSchema {
    /// What it holds.
    pub ty: ColumnType,
    /// Whether it can change after the insert.
    pub mutable: bool,
    /// Whether it is lost when the server restarts.
    pub ephemeral: bool,
}

/// The type of a column: a set of `key`, or a map from `key` to `value`.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnType {
    /// Element of a set, or key of a map.
    pub key: BaseType,
    /// Value of a map.
    pub value: Option<BaseType>,
    /// 0 or 1.
    pub min: u32,
    /// `u32::MAX` for "unlimited".
    pub max: u32,
}

/// An atomic type with what restricts it.
#[derive(Clone, Debug, PartialEq)]
pub struct BaseType {
    /// The atomic type.
    pub ty: AtomicType,
    /// The allowed values, if they are enumerated.
    pub allowed: Vec<Atom>,
    /// For a UUID: the table it refers to, and how.
    pub refers_to: Option<(Str, RefType)>,
}

/// The five atomic types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AtomicType {
    /// 64 bits, signed.
    Integer,
    /// Double.
    Real,
    /// True or false.
    Boolean,
    /// UTF-8.
    String,
    /// Row reference.
    Uuid,
}

/// What happens to a reference when its row goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RefType {
    /// The row can't go.
    Strong,
    /// The reference goes too.
    Weak,
}

impl ColumnType {
    /// Whether `modify` carries a difference: sets of more than one element, and maps.
    pub fn is_composite(&self) -> bool {
        self.max > 1
    }

    /// Whether this is a map.
    pub fn is_map(&self) -> bool {
        self.value.is_some()
    }

    /// Whether this is a map that [`Datum::StrMap`] holds.
    pub fn is_str_map(&self) -> bool {
        self.key.ty == AtomicType::String && self.value.as_ref().is_some_and(|v| v.ty == AtomicType::String)
    }

    /// What a column holds when an insert doesn't name it.
    pub fn default_datum(&self) -> Datum {
        match () {
            () if self.is_str_map() => Datum::StrMap(Box::new([])),
            () if self.is_map() => Datum::Map(Box::new([])),
            () if self.min == 0 => Datum::empty(),
            () => Datum::One(self.key.default_atom()),
        }
    }
}

impl BaseType {
    fn default_atom(&self) -> Atom {
        match self.ty {
            AtomicType::Integer => Atom::Integer(0),
            AtomicType::Real => Atom::Real(0.0),
            AtomicType::Boolean => Atom::Boolean(false),
            AtomicType::String => Atom::String(Str::new()),
            AtomicType::Uuid => Atom::Uuid(Uuid::nil()),
        }
    }
}

#[derive(Deserialize)]
struct RawDatabase {
    name: Str,
    version: String,
    tables: BTreeMap<Str, RawTable>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTable {
    columns: BTreeMap<Str, RawColumn>,
    max_rows: Option<u64>,
    is_root: Option<bool>,
    #[serde(default)]
    indexes: Vec<Vec<Str>>,
}

#[derive(Deserialize)]
struct RawColumn {
    #[serde(rename = "type")]
    ty: RawType,
    #[serde(default)]
    ephemeral: bool,
    #[serde(default = "yes")]
    mutable: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawType {
    Atomic(AtomicType),
    Full { key: RawBase, value: Option<RawBase>, min: Option<u32>, max: Option<RawMax> },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawMax {
    Number(u32),
    Word(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawBase {
    Atomic(AtomicType),
    Full(Box<RawFullBase>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawFullBase {
    #[serde(rename = "type")]
    ty: AtomicType,
    #[serde(rename = "enum")]
    allowed: Option<Value>,
    ref_table: Option<Str>,
    ref_type: Option<RefType>,
}

impl DatabaseSchema {
    /// Reads a schema from its JSON text.
    pub fn parse(json: &[u8]) -> Result<DatabaseSchema, Error> {
        let raw: RawDatabase = serde_json::from_slice(json).map_err(Error::json("database schema"))?;
        // RFC 7047 §3.2: a schema in which no table is marked as root is from before root sets existed.
        let any_root = raw.tables.values().any(|t| t.is_root == Some(true));
        let mut tables = BTreeMap::new();
        for (name, table) in raw.tables {
            let table = TableSchema::from_raw(&name, table, any_root)?;
            tables.insert(name, table);
        }
        Ok(DatabaseSchema { name: raw.name, version: raw.version, tables })
    }
}

impl TableSchema {
    fn from_raw(name: &str, raw: RawTable, any_root: bool) -> Result<TableSchema, Error> {
        let mut columns = BTreeMap::new();
        for (column, c) in raw.columns {
            let ty =
                ColumnType::from_raw(c.ty).map_err(|why| Error::Schema(format!("{name}.{column}: {why}")))?;
            columns.insert(column, ColumnSchema { ty, mutable: c.mutable, ephemeral: c.ephemeral });
        }
        let is_root = raw.is_root.unwrap_or(false) || !any_root;
        Ok(TableSchema { columns, is_root, indexes: raw.indexes, max_rows: raw.max_rows })
    }
}

impl ColumnType {
    fn from_raw(raw: RawType) -> Result<ColumnType, String> {
        let (key, value, min, max) = match raw {
            RawType::Atomic(ty) => {
                return Ok(ColumnType { key: BaseType::plain(ty), value: None, min: 1, max: 1 });
            }
            RawType::Full { key, value, min, max } => (key, value, min.unwrap_or(1), max),
        };
        let max = match max {
            None => 1,
            Some(RawMax::Number(n)) => n,
            Some(RawMax::Word(w)) if w == "unlimited" => u32::MAX,
            Some(RawMax::Word(w)) => return Err(format!("max is {w:?}, want a number or \"unlimited\"")),
        };
        if min > 1 || max < 1 || min > max {
            return Err(format!("min {min} and max {max} make no sense"));
        }
        let value = value.map(BaseType::from_raw).transpose()?;
        Ok(ColumnType { key: BaseType::from_raw(key)?, value, min, max })
    }
}

impl BaseType {
    fn plain(ty: AtomicType) -> BaseType {
        BaseType { ty, allowed: Vec::new(), refers_to: None }
    }

    fn from_raw(raw: RawBase) -> Result<BaseType, String> {
        let full = match raw {
            RawBase::Atomic(ty) => return Ok(BaseType::plain(ty)),
            RawBase::Full(full) => *full,
        };
        let allowed = match &full.allowed {
            None => Vec::new(),
            Some(Value::Array(parts)) => match parts.as_slice() {
                [Value::String(tag), Value::Array(values)] if tag == "set" => {
                    values.iter().map(enum_atom).collect::<Result<_, _>>()?
                }
                _ => return Err("enum is not a set".into()),
            },
            Some(single) => vec![enum_atom(single)?],
        };
        let refers_to = full.ref_table.map(|t| (t, full.ref_type.unwrap_or(RefType::Strong)));
        Ok(BaseType { ty: full.ty, allowed, refers_to })
    }
}

fn enum_atom(value: &Value) -> Result<Atom, String> {
    match value {
        Value::String(s) => Ok(Atom::String(s.as_str().into())),
        Value::Number(n) => n
            .as_i64()
            .map(Atom::Integer)
            .or(n.as_f64().map(Atom::Real))
            .ok_or_else(|| format!("bad number {n}")),
        other => Err(format!("enum value {other} is neither a string nor a number")),
    }
}
