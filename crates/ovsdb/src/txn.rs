//! Transactions: operations to JSON (RFC 7047 §4.1.3, §5.2).

use crate::datum::{Atom, Datum, Str};
use crate::encode::{encode_atom, encode_datum, encode_json, encode_str, encode_uuid, separated};
use crate::outcome::{Sent, Summary, TxnError, failure};
use memchr::memmem;
use std::borrow::Cow;
use uuid::Uuid;

/// A name that is usually a constant.
pub type Name = Cow<'static, str>;

/// Operations that take effect together or not at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transaction {
    /// In the order in which the server executes them.
    pub ops: Vec<Op>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A new row.
    Insert {
        /// Where.
        table: Name,
        /// The identity that the row shall have; the server's choice without it. Refused if it exists.
        uuid: Option<Uuid>,
        /// A name by which other operations of the transaction refer to it as [`Atom::Named`].
        name: Option<Str>,
        /// Columns other than the defaults.
        row: Vec<(Name, Datum)>,
    },
    /// New values for columns of rows.
    Update {
        /// Where.
        table: Name,
        /// Which rows.
        conditions: Vec<Condition>,
        /// The columns.
        row: Vec<(Name, Datum)>,
    },
    /// Elements in and out of sets and maps, or arithmetic.
    Mutate {
        /// Where.
        table: Name,
        /// Which rows.
        conditions: Vec<Condition>,
        /// What is done to the columns of each of these rows.
        mutations: Vec<Mutation>,
    },
    /// Rows go.
    Delete {
        /// Where.
        table: Name,
        /// Which rows.
        conditions: Vec<Condition>,
    },
    /// Reads rows.
    Select {
        /// Where.
        table: Name,
        /// Which rows.
        conditions: Vec<Condition>,
        /// Which columns; all of them if empty.
        columns: Vec<Name>,
    },
    /// Lets the transaction fail unless rows are, or are not, as stated.
    Wait {
        /// Where.
        table: Name,
        /// Which rows.
        conditions: Vec<Condition>,
        /// Which columns are compared.
        columns: Vec<Name>,
        /// Equal or not.
        until: WaitUntil,
        /// The rows to compare with.
        rows: Vec<Vec<(Name, Datum)>>,
        /// How long to wait, in milliseconds; `None` waits for ever.
        timeout: Option<u64>,
    },
    /// Asks for the commit to be on disk before the reply.
    Commit {
        /// As said.
        durable: bool,
    },
    /// Undoes the transaction.
    Abort,
    /// A word for the log.
    Comment(String),
    /// Lets the transaction fail unless this client holds the lock.
    Assert {
        /// The lock's name.
        lock: Str,
    },
}

/// One condition on a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// By its name; `_uuid` is the row's identity.
    pub column: Name,
    /// The comparison.
    pub function: Function,
    /// What the column is compared with: the right-hand side.
    pub value: Datum,
}

impl Condition {
    /// The row of this identity.
    pub fn uuid(uuid: Uuid) -> Condition {
        Condition { column: "_uuid".into(), function: Function::Equal, value: Datum::One(Atom::Uuid(uuid)) }
    }

    /// Rows whose column equals a value.
    pub fn equal(column: impl Into<Name>, value: impl Into<Datum>) -> Condition {
        Condition { column: column.into(), function: Function::Equal, value: value.into() }
    }
}

/// Comparisons of RFC 7047 §5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>=`
    GreaterOrEqual,
    /// `>`
    Greater,
    /// `includes`: the column has at least these elements or pairs.
    Includes,
    /// `excludes`: the column has none of these elements or pairs.
    Excludes,
}

impl Function {
    fn as_str(self) -> &'static str {
        match self {
            Function::Less => "<",
            Function::LessOrEqual => "<=",
            Function::Equal => "==",
            Function::NotEqual => "!=",
            Function::GreaterOrEqual => ">=",
            Function::Greater => ">",
            Function::Includes => "includes",
            Function::Excludes => "excludes",
        }
    }
}

/// One mutation of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    /// One that the schema lets change after the insert.
    pub column: Name,
    /// The operator.
    pub mutator: Mutator,
    /// Its argument. To delete keys of a map whatever their value: a set of keys.
    pub value: Datum,
}

/// Operators of RFC 7047 §5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutator {
    /// `+=`
    Add,
    /// `-=`
    Subtract,
    /// `*=`
    Multiply,
    /// `/=`
    Divide,
    /// `%=`
    Modulo,
    /// `insert`; does not change the value of a map key that exists.
    Insert,
    /// `delete`; what is not there is no error.
    Delete,
}

impl Mutator {
    fn as_str(self) -> &'static str {
        match self {
            Mutator::Add => "+=",
            Mutator::Subtract => "-=",
            Mutator::Multiply => "*=",
            Mutator::Divide => "/=",
            Mutator::Modulo => "%=",
            Mutator::Insert => "insert",
            Mutator::Delete => "delete",
        }
    }
}

/// How a `wait` compares the rows that it finds with those that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitUntil {
    /// The rows are exactly the given ones.
    Equal,
    /// They are not.
    NotEqual,
}

impl Op {
    /// Fails the transaction at once unless this row exists.
    pub fn wait_for_row(table: impl Into<Name>, uuid: Uuid) -> Op {
        Op::Wait {
            table: table.into(),
            conditions: vec![Condition::uuid(uuid)],
            columns: vec!["_uuid".into()],
            until: WaitUntil::Equal,
            rows: vec![vec![("_uuid".into(), Datum::One(Atom::Uuid(uuid)))]],
            timeout: Some(0),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Op::Insert { table, uuid, name, row } => encode_insert(out, table, *uuid, name.as_ref(), row),
            Op::Update { table, conditions, row } => {
                open(out, "update", table, conditions);
                out.extend_from_slice(b",\"row\":");
                encode_row(out, row);
            }
            Op::Mutate { table, conditions, mutations } => {
                open(out, "mutate", table, conditions);
                out.extend_from_slice(b",\"mutations\":[");
                separated(out, mutations, |out, m| triple(out, &m.column, m.mutator.as_str(), &m.value));
                out.push(b']');
            }
            Op::Delete { table, conditions } => open(out, "delete", table, conditions),
            Op::Select { table, conditions, columns } => {
                open(out, "select", table, conditions);
                if !columns.is_empty() {
                    encode_columns(out, columns);
                }
            }
            Op::Wait { table, conditions, columns, until, rows, timeout } => {
                open(out, "wait", table, conditions);
                encode_columns(out, columns);
                encode_wait(out, *until, rows, *timeout);
            }
            Op::Commit { durable } => {
                out.extend_from_slice(b"{\"op\":\"commit\",\"durable\":");
                encode_json(out, durable);
            }
            Op::Abort => out.extend_from_slice(b"{\"op\":\"abort\""),
            Op::Comment(text) => {
                out.extend_from_slice(b"{\"op\":\"comment\",\"comment\":");
                encode_str(out, text);
            }
            Op::Assert { lock } => {
                out.extend_from_slice(b"{\"op\":\"assert\",\"lock\":");
                encode_str(out, lock);
            }
        }
        out.push(b'}');
    }
}

fn encode_insert(
    out: &mut Vec<u8>,
    table: &str,
    uuid: Option<Uuid>,
    name: Option<&Str>,
    row: &[(Name, Datum)],
) {
    out.extend_from_slice(b"{\"op\":\"insert\",\"table\":");
    encode_str(out, table);
    if let Some(uuid) = uuid {
        out.extend_from_slice(b",\"uuid\":\"");
        out.extend_from_slice(uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()).as_bytes());
        out.push(b'"');
    }
    if let Some(name) = name {
        out.extend_from_slice(b",\"uuid-name\":");
        encode_str(out, name);
    }
    out.extend_from_slice(b",\"row\":");
    encode_row(out, row);
}

fn encode_wait(out: &mut Vec<u8>, until: WaitUntil, rows: &[Vec<(Name, Datum)>], timeout: Option<u64>) {
    let until = if until == WaitUntil::Equal { "==" } else { "!=" };
    out.extend_from_slice(b",\"until\":");
    encode_str(out, until);
    if let Some(ms) = timeout {
        out.extend_from_slice(b",\"timeout\":");
        encode_json(out, &ms);
    }
    out.extend_from_slice(b",\"rows\":[");
    separated(out, rows, |out, row| encode_row(out, row));
    out.push(b']');
}

fn open(out: &mut Vec<u8>, op: &str, table: &str, conditions: &[Condition]) {
    out.extend_from_slice(b"{\"op\":");
    encode_str(out, op);
    out.extend_from_slice(b",\"table\":");
    encode_str(out, table);
    out.extend_from_slice(b",\"where\":");
    encode_conditions(out, conditions);
}

pub(crate) fn encode_conditions(out: &mut Vec<u8>, conditions: &[Condition]) {
    out.push(b'[');
    separated(out, conditions, |out, c| triple(out, &c.column, c.function.as_str(), &c.value));
    out.push(b']');
}

fn triple(out: &mut Vec<u8>, column: &str, operator: &str, value: &Datum) {
    out.push(b'[');
    encode_str(out, column);
    out.push(b',');
    encode_str(out, operator);
    out.push(b',');
    match value {
        Datum::One(Atom::Uuid(uuid)) => encode_uuid(out, *uuid),
        Datum::One(atom) => encode_atom(out, atom),
        many => encode_datum(out, many),
    }
    out.push(b']');
}

fn encode_columns(out: &mut Vec<u8>, columns: &[Name]) {
    out.extend_from_slice(b",\"columns\":[");
    separated(out, columns, |out, c| encode_str(out, c));
    out.push(b']');
}

fn encode_row(out: &mut Vec<u8>, row: &[(Name, Datum)]) {
    out.push(b'{');
    separated(out, row, |out, (column, datum)| {
        encode_str(out, column);
        out.push(b':');
        encode_datum(out, datum);
    });
    out.push(b'}');
}

impl Transaction {
    /// A transaction of these operations.
    pub fn new(ops: Vec<Op>) -> Transaction {
        Transaction { ops }
    }

    /// Appends the `params` of a `transact` request.
    pub fn encode(&self, out: &mut Vec<u8>, database: &str) {
        encode_params(out, database, &EncodedTransaction::from(self).json);
    }
}

/// A transaction that is built straight as JSON: for many rows, none of which need to be copied first.
#[derive(Clone, Debug, Default)]
pub struct EncodedTransaction {
    json: Vec<u8>,
    ops: Vec<Summary>,
    without_results: bool,
}

impl From<&Transaction> for EncodedTransaction {
    fn from(transaction: &Transaction) -> Self {
        let mut encoded = EncodedTransaction::default();
        transaction.ops.iter().for_each(|op| encoded.push(op));
        encoded
    }
}

impl EncodedTransaction {
    /// A transaction of which nobody wants to know more than whether it took effect: its reply is hardly read, and
    /// the results of its operations stay unknown. There is room for so many bytes.
    pub fn without_results(bytes: usize) -> EncodedTransaction {
        EncodedTransaction { json: Vec::with_capacity(bytes), ops: Vec::new(), without_results: true }
    }

    /// Appends an operation.
    pub fn push(&mut self, op: &Op) {
        let (kind, table) = kind_and_table(op);
        self.ops.push(Summary { start: self.json.len(), kind, table });
        self.json.push(b',');
        op.encode(&mut self.json);
    }

    /// Appends an insert of a row with this identity.
    pub fn insert<'a>(
        &mut self,
        table: &'static str,
        uuid: Uuid,
        columns: impl Iterator<Item = (&'static str, &'a Datum)>,
    ) {
        self.ops.push(Summary { start: self.json.len(), kind: "insert into", table: Name::from(table) });
        let out = &mut self.json;
        out.extend_from_slice(b",{\"op\":\"insert\",\"table\":\"");
        out.extend_from_slice(table.as_bytes());
        out.extend_from_slice(b"\",\"uuid\":\"");
        out.extend_from_slice(uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()).as_bytes());
        out.extend_from_slice(b"\",\"row\":{");
        for (i, (column, datum)) in columns.enumerate() {
            out.extend_from_slice(if i > 0 { b",\"" } else { b"\"" });
            // Names of tables and columns are identifiers: there is nothing to escape.
            out.extend_from_slice(column.as_bytes());
            out.extend_from_slice(b"\":");
            encode_datum(out, datum);
        }
        out.extend_from_slice(b"}}");
    }

    /// How many bytes its operations take.
    pub fn size(&self) -> usize {
        self.json.len()
    }

    /// What is kept until the reply, and the operations' JSON, each behind a comma.
    pub(crate) fn into_parts(self) -> (Sent, Vec<u8>) {
        (Sent::new(self.ops, !self.without_results), self.json)
    }

    /// Servers close the connection on a NUL character, and with it end every other transaction.
    pub(crate) fn refusal(&self) -> Option<TxnError> {
        if !has_nul(&self.json) {
            return None;
        }
        let ends = self.ops.iter().skip(1).map(|op| op.start).chain([self.json.len()]);
        let at = self.ops.iter().zip(ends).position(|(op, end)| has_nul(&self.json[op.start..end]));
        let details = "a string has a NUL character, which servers don't accept; remove it".to_owned();
        Some(failure(&self.ops, at.unwrap_or(usize::MAX), "syntax error".to_owned(), details))
    }
}

/// Appends the `params` of a `transact` request.
pub(crate) fn encode_params(out: &mut Vec<u8>, database: &str, ops: &[u8]) {
    out.push(b'[');
    encode_str(out, database);
    out.extend_from_slice(ops);
    out.push(b']');
}

/// Whether JSON text has an escaped NUL character in a string.
fn has_nul(json: &[u8]) -> bool {
    memmem::find_iter(json, b"\\u0000").any(|at| {
        // After an odd number of backslashes this one is itself escaped.
        json[..at].iter().rev().take_while(|b| **b == b'\\').count() % 2 == 0
    })
}

fn kind_and_table(op: &Op) -> (&'static str, Name) {
    match op {
        Op::Insert { table, .. } => ("insert into", table.clone()),
        Op::Update { table, .. } => ("update of", table.clone()),
        Op::Mutate { table, .. } => ("mutate of", table.clone()),
        Op::Delete { table, .. } => ("delete from", table.clone()),
        Op::Select { table, .. } => ("select from", table.clone()),
        Op::Wait { table, .. } => ("wait on", table.clone()),
        Op::Commit { .. } => ("commit", Name::default()),
        Op::Abort => ("abort", Name::default()),
        Op::Comment(_) => ("comment", Name::default()),
        Op::Assert { lock } => ("assert of lock", lock.to_string().into()),
    }
}
