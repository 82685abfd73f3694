//! The end of a transaction: results and errors, back to the operation they belong to (RFC 7047 §4.1.3, §5.2).

use crate::datum::{Datum, Str};
use crate::decode::{DatumSeed, Interner};
use crate::error::Error;
use crate::schema::{AtomicType, BaseType, ColumnType, DatabaseSchema};
use crate::txn::Name;
use memchr::memmem;
use serde::Deserialize;
use serde::de::DeserializeSeed;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use uuid::Uuid;

/// Enough of an operation to name it.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    /// Where its JSON begins.
    pub(crate) start: usize,
    pub(crate) kind: &'static str,
    pub(crate) table: Name,
}

/// What one operation that succeeded says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpResult {
    /// Rows that an update, mutate or delete met.
    pub count: Option<u64>,
    /// The identity of an inserted row.
    pub uuid: Option<Uuid>,
    /// Rows of a select.
    pub rows: Option<Vec<BTreeMap<Str, Datum>>>,
}

/// Why a transaction did not take effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct TxnError {
    /// The operation that failed; `None` when all succeeded and the commit failed (a broken reference, a duplicate
    /// in an index), or when the server refused the request as such.
    pub op: Option<usize>,
    /// What failed in a few words; empty for the commit.
    pub what: String,
    /// The server's error word, such as `constraint violation`.
    pub error: String,
    /// The server's explanation.
    pub details: String,
}

impl fmt::Display for TxnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.op {
            Some(op) => write!(f, "operation {op} ({}) failed: {}", self.what, self.error)?,
            None if self.what.is_empty() => write!(f, "commit failed: {}", self.error)?,
            None => write!(f, "{} was refused: {}", self.what, self.error)?,
        }
        if self.details.is_empty() { Ok(()) } else { write!(f, ": {}", self.details) }
    }
}

#[derive(Deserialize)]
struct RawResult<'a> {
    count: Option<u64>,
    #[serde(default)]
    uuid: Option<(String, Uuid)>,
    #[serde(borrow, default)]
    rows: Option<Vec<BTreeMap<Str, &'a RawValue>>>,
    error: Option<String>,
    details: Option<String>,
}

/// What is kept of a transaction until its reply: enough to name the operation that failed.
#[derive(Debug)]
pub(crate) struct Sent {
    ops: Vec<Summary>,
    /// Whether somebody wants to know more than that all succeeded.
    wants_results: bool,
}

impl Sent {
    pub(crate) fn new(ops: Vec<Summary>, wants_results: bool) -> Sent {
        Sent { ops, wants_results }
    }

    /// Reads the `result` array of a reply.
    pub(crate) fn read(
        &self,
        json: &str,
        schema: Option<&DatabaseSchema>,
        interner: &Interner,
    ) -> Result<Result<Vec<OpResult>, TxnError>, Error> {
        // Counts and UUIDs have no such word in them; selected rows may, and then they are read.
        if !self.wants_results && memmem::find(json.as_bytes(), b"\"error\"").is_none() {
            return Ok(Ok(Vec::new()));
        }
        let raw: Vec<Option<RawResult<'_>>> =
            serde_json::from_str(json).map_err(Error::json("transaction result"))?;
        let mut results = Vec::with_capacity(raw.len());
        for (at, result) in raw.into_iter().enumerate() {
            // Operations behind a failed one are null.
            let Some(result) = result else { continue };
            if let Some(error) = result.error {
                let details = result.details.unwrap_or_default();
                return Ok(Err(failure(&self.ops, at, error, details)));
            }
            let table = self.ops.get(at).map(|op| op.table.as_ref()).unwrap_or_default();
            let rows = result.rows.map(|rows| select_rows(rows, schema, table, interner)).transpose()?;
            results.push(OpResult { count: result.count, uuid: result.uuid.map(|u| u.1), rows });
        }
        if results.len() != self.ops.len() {
            let (got, want) = (results.len(), self.ops.len());
            return Err(Error::Protocol(format!("{got} results for a transaction of {want} operations")));
        }
        Ok(Ok(results))
    }
}

pub(crate) fn failure(ops: &[Summary], at: usize, error: String, details: String) -> TxnError {
    match ops.get(at) {
        Some(op) => {
            let what = format!("{} {}", op.kind, op.table).trim_end().to_owned();
            TxnError { op: Some(at), what, error, details }
        }
        None => TxnError { op: None, what: String::new(), error, details },
    }
}

fn select_rows(
    rows: Vec<BTreeMap<Str, &RawValue>>,
    schema: Option<&DatabaseSchema>,
    table: &str,
    interner: &Interner,
) -> Result<Vec<BTreeMap<Str, Datum>>, Error> {
    let columns = schema.and_then(|s| s.tables.get(table)).map(|t| &t.columns);
    let uuid = ColumnType {
        key: BaseType { ty: AtomicType::Uuid, allowed: Vec::new(), refers_to: None },
        value: None,
        min: 1,
        max: 1,
    };
    let mut out = Vec::with_capacity(rows.len());
    for row in rows {
        let mut decoded = BTreeMap::new();
        for (name, json) in row {
            let known = columns.and_then(|c| c.get(&name)).map(|c| &c.ty);
            let ty = match name.as_str() {
                "_uuid" | "_version" => &uuid,
                _ => known.ok_or_else(|| {
                    Error::Protocol(format!("select answered unknown column {table}.{name}"))
                })?,
            };
            let mut de = serde_json::Deserializer::from_str(json.get());
            let seed = DatumSeed { ty, interner };
            decoded.insert(name, seed.deserialize(&mut de).map_err(Error::json("selected value"))?);
        }
        out.push(decoded);
    }
    Ok(out)
}
