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

use crate::datum::Str;
use crate::decode::{Interner, RowUpdate};
use crate::encode::{encode_json, encode_str, separated};
use crate::error::Error;
use crate::frames::{DEFAULT_MAX_FRAME, Frames};
use crate::message;
use crate::replica::{Change, IndexFn, Layout, LayoutColumn, Replica, TableId, TableSpec};
use crate::schema::DatabaseSchema;
use crate::txn::{Condition, OpResult, Sent, Transaction, TxnError, encode_conditions};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use uuid::Uuid;

/// The name under which the server knows our monitor.
const MONITOR: &str = "replica";
/// The same for the server's own database.
const SERVER_MONITOR: &str = "server";

/// What a session is for.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// The database.
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
    /// Its name.
    pub name: Str,
    /// Its columns; all that the server has if empty.
    pub columns: Vec<Str>,
    /// Rows that meet one of these; all rows if empty.
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
    /// Changed conditions are in force; what they changed was reported before.
    ConditionsInForce,
}

/// How the replica became complete.
#[derive(Debug, Default, PartialEq)]
pub struct SyncReport {
    /// Whether the replica was empty before; then there are no changes to tell one by one.
    pub first: bool,
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
    /// The connection ended first: it took effect or not.
    Lost,
}

#[derive(Debug)]
enum Pending {
    ServerMonitor,
    Schema,
    Monitor(MonitorMethod),
    Lock(Str),
    Conditions,
    Transact(Sent),
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
    /// Rows of the message that is arriving.
    stash: Vec<(Which, TableId, Uuid, RowUpdate)>,
    /// What the image that is arriving changed so far; kept when it is cut off.
    image_changes: Vec<Change>,
    loaded_once: bool,
    missing: Vec<String>,
    last_txn: Option<String>,
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
        if self.phase == Phase::Loading {
            // Part of a difference may be in the replica: only a whole image can be trusted next time.
            self.last_txn = None;
        }
        self.phase = Phase::Offline;
        self.out.clear();
        self.stash.clear();
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
        self.online()?;
        let database = self.config.database.clone();
        Ok(self.request("transact", Pending::Transact(Sent::of(transaction)), |out| {
            transaction.encode(out, &database);
        }))
    }

    /// Sends any other request with its parameters in JSON: `list_dbs`, `get_server_id`, `cancel`, …
    pub fn call(&mut self, method: &str, params: &str) -> Result<RequestId, NotReady> {
        self.online()?;
        Ok(self.request(method, Pending::Call, |out| out.extend_from_slice(params.as_bytes())))
    }

    /// Wants a lock from now on, over reconnects too; `steal` takes it from whoever has it.
    pub fn want_lock(&mut self, name: impl Into<Str>, steal: bool) {
        let name = name.into();
        self.wanted_locks.insert(name.clone(), steal);
        if self.phase != Phase::Offline {
            self.request_lock(name, steal);
        }
    }

    /// Gives a lock up, or stops waiting for it.
    pub fn release_lock(&mut self, name: &str) {
        if self.wanted_locks.remove(name).is_some() && self.phase != Phase::Offline {
            self.request("unlock", Pending::Call, |out| encode_json(out, &[name]));
        }
        if self.held_locks.remove(name) {
            self.events.push_back(Event::LockLost(name.into()));
        }
    }

    /// Whether a lock is ours.
    pub fn holds_lock(&self, name: &str) -> bool {
        self.held_locks.contains(name)
    }

    /// Changes which rows of a table are held, now and after reconnects.
    pub fn set_conditions(&mut self, table: &str, conditions: Vec<Condition>) {
        for t in self.config.tables.iter_mut().filter(|t| t.name == table) {
            t.conditions.clone_from(&conditions);
        }
        // Differences that a server remembers were made under the old conditions.
        self.last_txn = None;
        if self.phase == Phase::Synced || self.phase == Phase::Loading {
            self.request("monitor_cond_change", Pending::Conditions, |out| {
                out.push(b'[');
                separated(out, &[MONITOR, MONITOR], |out, name| encode_str(out, name));
                out.extend_from_slice(b",{");
                encode_str(out, table);
                out.extend_from_slice(b":[{\"where\":");
                encode_where(out, &conditions);
                out.extend_from_slice(b"}]}]");
            });
        }
    }

    fn online(&self) -> Result<(), NotReady> {
        if self.phase == Phase::Offline { Err(NotReady) } else { Ok(()) }
    }

    fn request(&mut self, method: &str, pending: Pending, params: impl FnOnce(&mut Vec<u8>)) -> RequestId {
        let id = self.next_id;
        self.next_id += 1;
        self.pending.insert(id, pending);
        message::begin(&mut self.out, id, method);
        params(&mut self.out);
        message::finish(&mut self.out);
        RequestId(id)
    }

    fn request_lock(&mut self, name: Str, steal: bool) {
        let method = if steal { "steal" } else { "lock" };
        let params = name.clone();
        self.request(method, Pending::Lock(name), |out| encode_json(out, &[params.as_str()]));
    }

    fn request_monitor(&mut self, method: MonitorMethod) {
        let mut params = Vec::new();
        params.push(b'[');
        separated(&mut params, &[self.config.database.as_str(), MONITOR], |out, name| encode_str(out, name));
        params.extend_from_slice(b",{");
        let replica = &self.replica;
        let held =
            self.config.tables.iter().filter_map(|t| Some((t, replica.layout(replica.table(&t.name)?))));
        for (i, (table, layout)) in held.enumerate() {
            if i > 0 {
                params.push(b',');
            }
            encode_monitor(&mut params, table, layout, method);
        }
        params.push(b'}');
        if method == MonitorMethod::Since {
            let nil = Uuid::nil().to_string();
            params.push(b',');
            encode_str(&mut params, self.last_txn.as_deref().unwrap_or(&nil));
        }
        params.push(b']');
        self.request(method.name(), Pending::Monitor(method), |out| out.extend_from_slice(&params));
    }

    /// What of the configured tables the schema has, and what it lacks.
    fn specs(&self, schema: &DatabaseSchema) -> (Vec<TableSpec>, Vec<String>) {
        let (mut specs, mut missing) = (Vec::new(), Vec::new());
        for wanted in &self.config.tables {
            let Some(table) = schema.tables.get(&wanted.name) else {
                missing.push(wanted.name.to_string());
                continue;
            };
            let all: Vec<Str> = table.columns.keys().cloned().collect();
            let names = if wanted.columns.is_empty() { &all } else { &wanted.columns };
            let mut columns = Vec::new();
            for name in names {
                match table.columns.get(name) {
                    Some(column) => columns.push(LayoutColumn { name: name.clone(), ty: column.ty.clone() }),
                    None => missing.push(format!("{}.{name}", wanted.name)),
                }
            }
            let layout = Layout::new(wanted.name.clone(), columns);
            let backrefs = wanted.backrefs.iter().filter_map(|c| layout.position(c)).collect();
            specs.push(TableSpec { layout, index: wanted.index, backrefs });
        }
        (specs, missing)
    }
}

#[derive(serde::Serialize)]
struct Columns {
    columns: &'static [&'static str],
}

fn encode_monitor(out: &mut Vec<u8>, table: &MonitorTable, layout: &Layout, method: MonitorMethod) {
    encode_str(out, &table.name);
    out.extend_from_slice(b":[{\"columns\":[");
    separated(out, layout.columns(), |out, c| encode_str(out, &c.name));
    out.push(b']');
    if method != MonitorMethod::Plain && !table.conditions.is_empty() {
        out.extend_from_slice(b",\"where\":");
        encode_where(out, &table.conditions);
    }
    out.extend_from_slice(b"}]");
}

/// In a monitor several conditions are alternatives; none at all means every row.
fn encode_where(out: &mut Vec<u8>, conditions: &[Condition]) {
    if conditions.is_empty() {
        out.extend_from_slice(b"[true]");
    } else {
        encode_conditions(out, conditions);
    }
}
