//! One client of one database, as a state machine: bytes and time in, bytes and events out.
//!
//! ```text
//!   offline ── connected() ──► greeting ── schema, server fit ──► loading ── image ──► synced
//!      ▲                                                                                 │
//!      └───────────────── disconnected(), or an error from receive()/tick() ─────────────┘
//! ```
//! The replica outlives connections: after a reconnect the difference is reported, never a flush. A transaction
//! whose reply did not come is reported as lost; whether it took effect is for the consumer to see in the replica.

mod incoming;
mod outgoing;

use crate::datum::Str;
use crate::decode::{Interner, RowUpdate};
use crate::encode::encode_json;
use crate::error::Error;
use crate::frames::{DEFAULT_MAX_FRAME, Frames};
use crate::outcome::{OpResult, Sent, TxnError};
use crate::replica::{Change, IndexFn, Replica, TableId};
use crate::schema::DatabaseSchema;
use crate::txn::{Condition, EncodedTransaction, Transaction, encode_params};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use uuid::Uuid;

/// The name under which the server knows our monitor.
const MONITOR: &str = "replica";
/// The same for the server's own database.
const SERVER_MONITOR: &str = "server";

/// Which database a session follows, and how it talks to the server.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Its name in the schema, such as `OVN_Northbound`.
    pub database: Str,
    /// What to hold of it.
    pub tables: Vec<MonitorTable>,
    /// Of a clustered database, talk to the leader only.
    pub leader_only: bool,
    /// Ask for a sign of life after this many milliseconds of silence; `None` never does.
    pub probe_interval: Option<u64>,
    /// Limit of one message or row in bytes.
    pub max_frame: usize,
    /// The best monitor method to try; older servers make the session fall back.
    pub method: MonitorMethod,
}

impl SessionConfig {
    /// A session that holds nothing yet.
    pub fn new(database: impl Into<Str>) -> SessionConfig {
        SessionConfig {
            database: database.into(),
            tables: Vec::new(),
            leader_only: false,
            probe_interval: None,
            max_frame: DEFAULT_MAX_FRAME,
            method: MonitorMethod::Since,
        }
    }
}

/// What to hold of one table.
#[derive(Clone, Debug)]
pub struct MonitorTable {
    /// As the schema has it; a table that the server lacks stays empty.
    pub name: Str,
    /// Its columns; all that the server has if empty.
    pub columns: Vec<Str>,
    /// Rows that meet one of these; all rows if empty. Without effect where the server only knows
    /// [`MonitorMethod::Plain`].
    pub conditions: Vec<Condition>,
    /// The key of the ordered index.
    pub index: Option<IndexFn>,
    /// Columns whose references are indexed from child to parent.
    pub backrefs: Vec<Str>,
}

impl MonitorTable {
    /// All rows and columns of a table.
    pub fn whole(name: impl Into<Str>) -> MonitorTable {
        MonitorTable {
            name: name.into(),
            columns: Vec::new(),
            conditions: Vec::new(),
            index: None,
            backrefs: Vec::new(),
        }
    }
}

/// The three generations of monitors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorMethod {
    /// `monitor`, RFC 7047.
    Plain,
    /// `monitor_cond`: conditions, and differences instead of whole rows.
    Cond,
    /// `monitor_cond_since`: after a reconnect only what was missed, where the server remembers.
    Since,
}

impl MonitorMethod {
    fn name(self) -> &'static str {
        match self {
            MonitorMethod::Plain => "monitor",
            MonitorMethod::Cond => "monitor_cond",
            MonitorMethod::Since => "monitor_cond_since",
        }
    }

    fn older(self) -> Option<MonitorMethod> {
        match self {
            MonitorMethod::Since => Some(MonitorMethod::Cond),
            MonitorMethod::Cond => Some(MonitorMethod::Plain),
            MonitorMethod::Plain => None,
        }
    }
}

/// A request that will be answered by an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

/// The session has no connection, or its handshake is not through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not connected to the database")]
pub struct NotReady;

/// What a session tells.
#[derive(Debug, PartialEq)]
pub enum Event {
    /// The replica is complete and current.
    Synced(SyncReport),
    /// One update took effect in the replica.
    Changed(Vec<Change>),
    /// A transaction ended.
    Transacted(RequestId, TransactOutcome),
    /// Another request ended: its result in JSON, or the error's words.
    Replied(RequestId, Result<String, String>),
    /// A lock is ours.
    Locked(Str),
    /// A lock is not ours any more.
    LockLost(Str),
    /// Changed conditions of a table are in force; what they changed was reported before.
    ConditionsInForce,
}

/// How the replica became complete.
#[derive(Debug, Default, PartialEq)]
pub struct SyncReport {
    /// Whether the replica was never complete before; then there are no changes to tell one by one.
    pub first: bool,
    /// Whether the server sent only what was missed, not a whole image.
    pub resumed: bool,
    /// What is different from before the connection was lost.
    pub changes: Vec<Change>,
    /// Tables (`T`) and columns (`T.c`) that were asked for and that the server does not have.
    pub missing: Vec<String>,
}

/// How a transaction ended.
#[derive(Debug, PartialEq)]
pub enum TransactOutcome {
    /// It took effect.
    Done(Vec<OpResult>),
    /// It did not.
    Failed(TxnError),
    /// The connection ended first, or it was cancelled: it took effect or not.
    Lost,
}

#[derive(Debug)]
enum Pending {
    ServerMonitor,
    Schema,
    Monitor(MonitorMethod),
    Lock(Str),
    Unlock,
    Conditions,
    Transact(Sent),
    /// Follows a cancel: when its answer is there, no other answer to the cancelled request will come.
    Cancelled(u64),
    Call,
    Probe,
}

#[derive(Debug, PartialEq)]
enum Phase {
    Offline,
    Greeting,
    Loading,
    Synced,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Which {
    Main,
    Server,
}

/// A row of the message that is arriving.
#[derive(Debug)]
enum Stashed {
    Row(Which, TableId, Uuid, RowUpdate),
    /// Both databases have a table of this name; the end of the message tells which one is meant.
    Unclear(Str, Uuid, Vec<u8>),
}

#[derive(serde::Serialize)]
struct Columns {
    columns: &'static [&'static str],
}

/// The state machine.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    phase: Phase,
    frames: Frames,
    interner: Interner,
    next_id: u64,
    pending: BTreeMap<u64, Pending>,
    out: Vec<u8>,
    events: VecDeque<Event>,
    replica: Replica,
    server: Replica,
    server_fits: bool,
    schema: Option<DatabaseSchema>,
    stash: Vec<Stashed>,
    /// Rows of the message that is arriving went into the replica at once.
    applied_directly: bool,
    /// What the image that is arriving changed so far; kept when it is cut off.
    image_changes: Vec<Change>,
    loaded_once: bool,
    missing: Vec<String>,
    /// The last transaction that the replica has, where the server counts them.
    last_txn: Option<String>,
    method_in_use: MonitorMethod,
    /// Locks we want, and whether to take them from their holder.
    wanted_locks: BTreeMap<Str, bool>,
    held_locks: BTreeSet<Str>,
    heard_at: u64,
    probed_at: Option<u64>,
}

impl Session {
    /// A session without a connection.
    pub fn new(config: SessionConfig) -> Session {
        Session {
            phase: Phase::Offline,
            frames: Frames::new(config.max_frame),
            method_in_use: config.method,
            config,
            interner: Interner::default(),
            next_id: 1,
            pending: BTreeMap::new(),
            out: Vec::new(),
            events: VecDeque::new(),
            replica: Replica::default(),
            server: incoming::server_replica(),
            server_fits: false,
            schema: None,
            stash: Vec::new(),
            applied_directly: false,
            image_changes: Vec::new(),
            loaded_once: false,
            missing: Vec::new(),
            last_txn: None,
            wanted_locks: BTreeMap::new(),
            held_locks: BTreeSet::new(),
            heard_at: 0,
            probed_at: None,
        }
    }

    /// The copy of the database. Complete and current only while [`Session::is_synced`].
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// Whether the replica is complete and current.
    pub fn is_synced(&self) -> bool {
        self.phase == Phase::Synced
    }

    /// Asks for a sign of life after this many milliseconds of silence from now on; `None` never does.
    pub fn set_probe_interval(&mut self, interval: Option<u64>) {
        self.config.probe_interval = interval;
    }

    /// A connection is there. `now` is any clock in milliseconds.
    pub fn connected(&mut self, now: u64) {
        self.phase = Phase::Greeting;
        self.frames = Frames::new(self.config.max_frame);
        self.server = incoming::server_replica();
        self.server_fits = false;
        self.schema = None;
        self.heard_at = now;
        self.probed_at = None;
        let columns = incoming::SERVER_COLUMNS;
        self.request("monitor", Pending::ServerMonitor, |out| {
            encode_json(
                out,
                &("_Server", SERVER_MONITOR, BTreeMap::from([("Database", (Columns { columns },))])),
            );
        });
        let database = self.config.database.clone();
        self.request("get_schema", Pending::Schema, |out| encode_json(out, &[database.as_str()]));
    }

    /// The connection is gone; everything that waits for an answer ends.
    pub fn disconnected(&mut self) {
        let conditions_open = self.pending.values().any(|p| matches!(p, Pending::Conditions));
        if self.phase == Phase::Loading || conditions_open {
            // Part of a difference may be in the replica: only a whole image can be trusted next time.
            self.last_txn = None;
        }
        self.phase = Phase::Offline;
        self.out.clear();
        self.stash.clear();
        self.applied_directly = false;
        for name in std::mem::take(&mut self.held_locks) {
            self.events.push_back(Event::LockLost(name));
        }
        for (id, pending) in std::mem::take(&mut self.pending) {
            match pending {
                Pending::Transact(_) => {
                    self.events.push_back(Event::Transacted(RequestId(id), TransactOutcome::Lost));
                }
                Pending::Call => {
                    let words = "the connection was lost".to_owned();
                    self.events.push_back(Event::Replied(RequestId(id), Err(words)));
                }
                _ => {}
            }
        }
    }

    /// Bytes from the server. After an error the connection must be dropped.
    pub fn receive(&mut self, bytes: &[u8], now: u64) -> Result<(), Error> {
        self.heard_at = now;
        self.probed_at = None;
        let mut frames = std::mem::take(&mut self.frames);
        let result = frames.push(bytes, &mut |piece| self.piece(piece));
        self.frames = frames;
        if let Err(error) = &result
            && !matches!(error, Error::Unusable(_))
        {
            // Whoever sends nonsense may have sent it before: only a whole image can be trusted next time.
            self.last_txn = None;
        }
        result
    }

    /// Time passes: asks for a sign of life when it is due, fails when none came.
    pub fn tick(&mut self, now: u64) -> Result<(), Error> {
        let Some(interval) = self.config.probe_interval else { return Ok(()) };
        if self.phase == Phase::Offline || now < self.heard_at.saturating_add(interval) {
            return Ok(());
        }
        match self.probed_at {
            Some(at) if now >= at.saturating_add(interval) => Err(Error::Inactive(now - at)),
            Some(_) => Ok(()),
            None => {
                self.probed_at = Some(now);
                self.request("echo", Pending::Probe, |out| out.extend_from_slice(b"[]"));
                Ok(())
            }
        }
    }

    /// When [`Session::tick`] has something to do.
    pub fn deadline(&self) -> Option<u64> {
        let interval = self.config.probe_interval.filter(|_| self.phase != Phase::Offline)?;
        Some(self.probed_at.unwrap_or(self.heard_at).saturating_add(interval))
    }

    /// Bytes for the server, if there are any.
    pub fn take_output(&mut self) -> Option<Vec<u8>> {
        if self.out.is_empty() { None } else { Some(std::mem::take(&mut self.out)) }
    }

    /// The next event, if there is one.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Sends a transaction. Many may be in flight; the server executes them in order.
    pub fn transact(&mut self, transaction: &Transaction) -> Result<RequestId, NotReady> {
        self.transact_encoded(transaction.into())
    }

    /// The same for a transaction that is JSON already.
    pub fn transact_encoded(&mut self, transaction: EncodedTransaction) -> Result<RequestId, NotReady> {
        self.ready()?;
        if let Some(error) = transaction.refusal() {
            let id = RequestId(self.next_id);
            self.next_id += 1;
            self.events.push_back(Event::Transacted(id, TransactOutcome::Failed(error)));
            return Ok(id);
        }
        let database = self.config.database.clone();
        let (sent, json) = transaction.into_parts();
        Ok(self.request("transact", Pending::Transact(sent), |out| encode_params(out, &database, &json)))
    }

    /// Asks the server to forget a transaction that waits. It ends as [`TransactOutcome::Lost`], unless its own
    /// answer was faster.
    pub fn cancel(&mut self, request: RequestId) {
        if matches!(self.pending.get(&request.0), Some(Pending::Transact(_))) {
            self.notify("cancel", |out| encode_json(out, &[request.0]));
            self.request("echo", Pending::Cancelled(request.0), |out| out.extend_from_slice(b"[]"));
        }
    }

    /// Sends any other request with its parameters in JSON: `list_dbs`, `get_server_id`, …
    pub fn call(&mut self, method: &str, params: &str) -> Result<RequestId, NotReady> {
        self.ready()?;
        Ok(self.request(method, Pending::Call, |out| out.extend_from_slice(params.as_bytes())))
    }

    /// Wants a lock from now on, over reconnects too; `steal` takes it from whoever has it.
    pub fn want_lock(&mut self, name: impl Into<Str>, steal: bool) {
        let name = name.into();
        let before = self.wanted_locks.insert(name.clone(), steal);
        if self.ready().is_err() || self.held_locks.contains(&name) || (before.is_some() && !steal) {
            return;
        }
        if before == Some(steal) && self.pending.values().any(|p| matches!(p, Pending::Lock(n) if *n == name))
        {
            return;
        }
        if before.is_some() {
            // Who stands in the queue can't ask again.
            self.request_unlock(&name);
        }
        self.request_lock(name, steal);
    }

    /// Gives a lock up, or stops waiting for it.
    pub fn release_lock(&mut self, name: &str) {
        if self.wanted_locks.remove(name).is_some() && self.ready().is_ok() {
            self.request_unlock(name);
        }
        if self.held_locks.remove(name) {
            self.events.push_back(Event::LockLost(name.into()));
        }
    }

    /// Whether a lock is ours.
    pub fn holds_lock(&self, name: &str) -> bool {
        self.held_locks.contains(name)
    }

    /// Changes which rows of a table are held, now and after reconnects. [`Event::ConditionsInForce`] follows while
    /// there is a connection; otherwise the next [`Event::Synced`] has them in force.
    pub fn set_conditions(&mut self, table: &str, conditions: Vec<Condition>) {
        for t in self.config.tables.iter_mut().filter(|t| t.name == table) {
            t.conditions.clone_from(&conditions);
        }
        if self.ready().is_err() {
            // Differences that a server remembers were made under the old conditions.
            self.last_txn = None;
        } else if self.replica.table(table).is_none() || self.method_in_use == MonitorMethod::Plain {
            self.events.push_back(Event::ConditionsInForce);
        } else {
            self.request_conditions(table, &conditions);
        }
    }

    /// The handshake is through. What is sent before could reach a server that doesn't fit.
    fn ready(&self) -> Result<(), NotReady> {
        match self.phase {
            Phase::Offline | Phase::Greeting => Err(NotReady),
            Phase::Loading | Phase::Synced => Ok(()),
        }
    }
}
