//! RFC 7047 and the extensions of ovsdb-server(7), without I/O.
//!
//! Bytes go in, bytes and events come out; sockets, clocks and reconnects are somebody else's. The crate knows
//! what an OVSDB schema is, and nothing of OVN.
//!
//! ```text
//!  bytes ─► frames ─► rows ──► decode ─► replica ─► changes
//!                 └─► frame ─► message ─► session ─► events      ops ─► txn ─► bytes
//! ```

mod backrefs;
mod datum;
mod decode;
mod encode;
mod error;
mod frames;
mod message;
mod outcome;
mod replica;
mod schema;
mod session;
mod terse;
mod txn;

pub use datum::{Atom, Datum, Str};
pub use decode::{Interner, RowUpdate, decode_datum, decode_row_update};
pub use encode::encode_datum;
pub use error::Error;
pub use frames::{DEFAULT_MAX_FRAME, Frames, Piece};
pub use outcome::{OpResult, TxnError};
pub use replica::{Change, ChangeKind, IndexFn, Layout, LayoutColumn, Replica, Row, RowRef, TableId};
pub use schema::{AtomicType, BaseType, ColumnSchema, ColumnType, DatabaseSchema, RefType, TableSchema};
pub use session::{
    Event, MonitorMethod, MonitorTable, NotReady, RequestId, Session, SessionConfig, SyncReport,
    TransactOutcome,
};
pub use txn::{Condition, EncodedTransaction, Function, Mutation, Mutator, Name, Op, Transaction, WaitUntil};
pub use uuid::Uuid;
