//! The receiving half of a session: rows into the replica, replies to where they belong.

use super::{
    Event, MONITOR, MonitorMethod, Pending, Phase, RequestId, SERVER_MONITOR, Session, Stashed, SyncReport,
    TransactOutcome, Which,
};
use crate::datum::{Atom, Datum, Str};
use crate::decode::{RowUpdate, decode_row_update};
use crate::error::Error;
use crate::frames::Piece;
use crate::message::{self, Envelope, error_words};
use crate::replica::{Change, Layout, LayoutColumn, Replica, TableId, TableSpec};
use crate::schema::DatabaseSchema;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use uuid::Uuid;

/// What we watch of the server's own database: whether it can serve ours.
pub(super) const SERVER_COLUMNS: &[&str] = &["name", "model", "connected", "leader"];

const SERVER_SCHEMA: &[u8] = br#"{"name":"_Server","version":"1.0.0","tables":{"Database":{"columns":{
    "name":{"type":"string"},"model":{"type":"string"},
    "connected":{"type":"boolean"},"leader":{"type":"boolean"}}}}}"#;

pub(super) fn server_replica() -> Replica {
    let schema = DatabaseSchema::parse(SERVER_SCHEMA).expect("invariant: our own schema parses");
    let columns = schema.tables["Database"].columns.iter();
    let columns = columns.map(|(name, c)| LayoutColumn { name: name.clone(), ty: c.ty.clone() }).collect();
    let spec =
        TableSpec { layout: Layout::new("Database".into(), columns), index: None, backrefs: Vec::new() };
    let mut replica = Replica::default();
    replica.lay_out(schema, vec![spec]);
    replica
}

impl Session {
    pub(super) fn piece(&mut self, piece: Piece<'_>) -> Result<(), Error> {
        let (table, uuid, json) = match piece {
            Piece::Frame(frame) => return self.frame(frame),
            Piece::Row { table, uuid, json } => (table, uuid, json),
        };
        // Before its own monitor is asked for, no row of the database can come.
        let main = self.replica.table(table).filter(|_| self.phase != Phase::Greeting);
        match (main, self.server.table(table)) {
            (Some(id), None) => {
                let update = decode_row_update(json, self.replica.layout(id), &self.interner)?;
                self.row(id, uuid, update)?;
            }
            (None, Some(id)) => {
                let update = decode_row_update(json, self.server.layout(id), &self.interner)?;
                self.stash.push(Stashed::Row(Which::Server, id, uuid, update));
            }
            (Some(_), Some(_)) => self.stash.push(Stashed::Unclear(table.into(), uuid, json.to_vec())),
            (None, None) => return Err(nobody_monitors(table)),
        }
        Ok(())
    }

    fn row(&mut self, table: TableId, uuid: Uuid, update: RowUpdate) -> Result<(), Error> {
        if self.phase != Phase::Loading {
            self.stash.push(Stashed::Row(Which::Main, table, uuid, update));
            return Ok(());
        }
        // Nobody sees the replica before it is complete, so an image needs no second copy.
        self.applied_directly = true;
        let change = self.replica.apply(table, uuid, update)?;
        if self.loaded_once {
            self.image_changes.extend(change);
        }
        Ok(())
    }

    fn frame(&mut self, frame: &[u8]) -> Result<(), Error> {
        let envelope = Envelope::parse(frame)?;
        self.commit_stash(&envelope)?;
        match &envelope.method {
            Some(method) => self.notification(method, &envelope),
            None => self.reply(&envelope),
        }
    }

    /// The monitor that a message belongs to, if it belongs to one of ours.
    fn source(&self, envelope: &Envelope<'_>) -> Result<Option<Which>, Error> {
        let Some(method) = &envelope.method else {
            let id = envelope.id.and_then(|id| id.get().parse::<u64>().ok());
            return Ok(match id.and_then(|id| self.pending.get(&id)) {
                Some(Pending::Monitor(_)) => Some(Which::Main),
                Some(Pending::ServerMonitor) => Some(Which::Server),
                _ => None,
            });
        };
        if !matches!(method.as_str(), "update" | "update2" | "update3") {
            return Ok(None);
        }
        let params: Vec<&RawValue> = read(envelope.params, "update")?;
        let monitor: String = read(params.first().copied(), "name of a monitor")?;
        Ok(match monitor.as_str() {
            MONITOR => Some(Which::Main),
            SERVER_MONITOR => Some(Which::Server),
            _ => None,
        })
    }

    /// The message is complete: its rows take effect together.
    fn commit_stash(&mut self, envelope: &Envelope<'_>) -> Result<(), Error> {
        let applied_directly = std::mem::take(&mut self.applied_directly);
        if self.stash.is_empty() && !applied_directly {
            return Ok(());
        }
        let source = self.source(envelope)?;
        if applied_directly && (source != Some(Which::Main) || envelope.method.is_some()) {
            return Err(Error::Protocol("rows outside of the monitor that is being loaded".into()));
        }
        let mut changes = Vec::new();
        let result = self.apply_stash(source, &mut changes);
        if result.is_err() || (self.phase == Phase::Loading && self.loaded_once) {
            // The next complete image reports them.
            self.image_changes.append(&mut changes);
        } else if !changes.is_empty() && self.phase == Phase::Synced {
            self.events.push_back(Event::Changed(changes));
        }
        if result? && self.server_fits { self.check_server() } else { Ok(()) }
    }

    /// Applies the rows and says whether the server's own state changed.
    fn apply_stash(&mut self, source: Option<Which>, changes: &mut Vec<Change>) -> Result<bool, Error> {
        let mut server_changed = false;
        for stashed in std::mem::take(&mut self.stash) {
            let (which, table, uuid, update) = match stashed {
                Stashed::Row(which, table, uuid, update) => (which, table, uuid, update),
                Stashed::Unclear(table, uuid, json) => self.clear_up(source, &table, uuid, &json)?,
            };
            if source != Some(which) {
                return Err(Error::Protocol(format!("an update of row {uuid} that belongs to no monitor")));
            }
            match which {
                Which::Main => changes.extend(self.replica.apply(table, uuid, update)?),
                Which::Server => server_changed |= self.server.apply(table, uuid, update)?.is_some(),
            }
        }
        Ok(server_changed)
    }

    fn clear_up(
        &self,
        source: Option<Which>,
        table: &str,
        uuid: Uuid,
        json: &[u8],
    ) -> Result<(Which, TableId, Uuid, RowUpdate), Error> {
        let which = source.ok_or_else(|| nobody_monitors(table))?;
        let replica = if which == Which::Main { &self.replica } else { &self.server };
        let id = replica.table(table).ok_or_else(|| nobody_monitors(table))?;
        Ok((which, id, uuid, decode_row_update(json, replica.layout(id), &self.interner)?))
    }

    fn notification(&mut self, method: &str, envelope: &Envelope<'_>) -> Result<(), Error> {
        match method {
            "echo" => {
                if let Some(id) = envelope.id {
                    message::echo_reply(&mut self.out, id, envelope.params);
                }
            }
            "update3" => {
                let (monitor, txn, _): (String, String, IgnoredAny) = read(envelope.params, "update3")?;
                if monitor == MONITOR {
                    self.last_txn = Some(txn);
                }
            }
            "locked" => {
                let (name,): (Str,) = read(envelope.params, "locked")?;
                self.gained(name);
            }
            "stolen" => {
                let (name,): (Str,) = read(envelope.params, "stolen")?;
                if self.held_locks.remove(&name) {
                    self.events.push_back(Event::LockLost(name));
                }
            }
            "monitor_canceled" => {
                return Err(Error::Unusable(
                    "the server cancelled the monitor: the database was changed".into(),
                ));
            }
            // `update` and `update2` have done their work as rows; what we don't know doesn't concern us.
            _ => {}
        }
        Ok(())
    }

    fn gained(&mut self, name: Str) {
        if self.wanted_locks.contains_key(&name) && self.held_locks.insert(name.clone()) {
            self.events.push_back(Event::Locked(name));
        }
    }

    fn reply(&mut self, envelope: &Envelope<'_>) -> Result<(), Error> {
        let id = envelope.id.and_then(|id| id.get().parse::<u64>().ok());
        let Some((id, pending)) = id.and_then(|id| Some((RequestId(id), self.pending.remove(&id)?))) else {
            return Err(Error::Protocol("a reply to nothing that was asked".into()));
        };
        match pending {
            Pending::ServerMonitor => self.on_server_monitor(envelope),
            Pending::Schema => self.on_schema(envelope),
            Pending::Monitor(method) => self.on_monitor(method, envelope),
            Pending::Transact(sent) => {
                let outcome = match (envelope.error, envelope.result) {
                    (None, Some(result)) => {
                        match sent.read(result.get(), self.replica.schema(), &self.interner)? {
                            Ok(results) => TransactOutcome::Done(results),
                            Err(error) => TransactOutcome::Failed(error),
                        }
                    }
                    (error, _) => TransactOutcome::Failed(whole_error(error)),
                };
                self.events.push_back(Event::Transacted(id, outcome));
                Ok(())
            }
            Pending::Call => {
                let result = match envelope.error {
                    Some(error) => Err(words(error)),
                    None => Ok(envelope.result.map_or("null", RawValue::get).to_owned()),
                };
                self.events.push_back(Event::Replied(id, result));
                Ok(())
            }
            Pending::Lock(name) => self.on_lock(name, envelope),
            Pending::Conditions => match envelope.error {
                Some(error) => Err(refused("monitor_cond_change", error)),
                None => {
                    self.events.push_back(Event::ConditionsInForce);
                    Ok(())
                }
            },
            Pending::Cancelled(cancelled) => {
                if let Some(Pending::Transact(_)) = self.pending.remove(&cancelled) {
                    self.events.push_back(Event::Transacted(RequestId(cancelled), TransactOutcome::Lost));
                }
                Ok(())
            }
            Pending::Unlock | Pending::Probe => Ok(()),
        }
    }

    fn on_lock(&mut self, name: Str, envelope: &Envelope<'_>) -> Result<(), Error> {
        #[derive(Deserialize)]
        struct Answer {
            locked: bool,
        }
        if let Some(error) = envelope.error {
            return Err(refused(&format!("lock {name}"), error));
        }
        let answer: Answer = read(envelope.result, "lock")?;
        if answer.locked {
            self.gained(name);
        }
        Ok(())
    }

    fn on_server_monitor(&mut self, envelope: &Envelope<'_>) -> Result<(), Error> {
        // A server from before OVS 2.9 has no such database, and no clusters either.
        if envelope.error.is_none() {
            self.check_server()?;
        }
        self.server_fits = true;
        self.begin_load();
        Ok(())
    }

    fn check_server(&self) -> Result<(), Error> {
        let database = &self.config.database;
        let table = self.server.table("Database").expect("invariant: our own schema has it");
        let is = |row: &crate::replica::RowRef<'_>, column: &str, value: Atom| {
            row.get(column).is_some_and(|d| *d == Datum::One(value))
        };
        let found = self.server.rows(table).find(|row| is(row, "name", Atom::String(database.clone())));
        let Some(row) = found else {
            return Err(Error::Unusable(format!("the server has no database {database}")));
        };
        if is(&row, "connected", false.into()) {
            return Err(Error::Unusable(format!(
                "the server is cut off from the other servers of {database}"
            )));
        }
        let follows = is(&row, "model", "clustered".into()) && is(&row, "leader", false.into());
        if self.config.leader_only && follows {
            return Err(Error::Unusable(format!("the server is not the leader of {database}")));
        }
        Ok(())
    }

    fn on_schema(&mut self, envelope: &Envelope<'_>) -> Result<(), Error> {
        if let Some(error) = envelope.error {
            return Err(refused(&format!("the schema of {}", self.config.database), error));
        }
        let json = envelope.result.ok_or_else(|| Error::Protocol("an empty schema".into()))?;
        self.schema = Some(DatabaseSchema::parse(json.get().as_bytes())?);
        self.begin_load();
        Ok(())
    }

    /// Both halves of the greeting are needed; whichever comes last goes on.
    fn begin_load(&mut self) {
        if !self.server_fits || self.phase != Phase::Greeting {
            return;
        }
        let Some(schema) = self.schema.take() else { return };
        for (name, steal) in self.wanted_locks.clone() {
            self.request_lock(name, steal);
        }
        if self.replica.schema() != Some(&schema) {
            let (specs, missing) = self.specs(&schema);
            let changes = self.replica.lay_out(schema, specs);
            self.image_changes.extend(changes);
            self.missing = missing;
            self.last_txn = None;
        }
        self.phase = Phase::Loading;
        self.replica.begin_image();
        self.request_monitor(self.config.method);
    }

    fn on_monitor(&mut self, method: MonitorMethod, envelope: &Envelope<'_>) -> Result<(), Error> {
        if let Some(error) = envelope.error {
            return match method.older() {
                Some(older) if error_words(error).0 == "unknown method" => {
                    self.request_monitor(older);
                    Ok(())
                }
                _ => Err(refused(method.name(), error)),
            };
        }
        let mut found = false;
        self.last_txn = None;
        if method == MonitorMethod::Since {
            let (only_missed, txn, _): (bool, String, IgnoredAny) = read(envelope.result, method.name())?;
            found = only_missed;
            self.last_txn = Some(txn);
        }
        let swept = self.replica.end_image(found);
        self.image_changes.extend(swept);
        self.phase = Phase::Synced;
        let first = !std::mem::replace(&mut self.loaded_once, true);
        let mut changes = std::mem::take(&mut self.image_changes);
        if first {
            // What an earlier image left behind when it was cut off was never told to anybody.
            changes.clear();
        }
        let missing = self.missing.clone();
        self.events.push_back(Event::Synced(SyncReport { first, resumed: found, changes, missing }));
        Ok(())
    }
}

fn read<'a, T: Deserialize<'a>>(part: Option<&'a RawValue>, what: &'static str) -> Result<T, Error> {
    serde_json::from_str(part.map_or("null", RawValue::get)).map_err(Error::json(what))
}

fn nobody_monitors(table: &str) -> Error {
    Error::Protocol(format!("an update of table {table}, which nobody monitors"))
}

fn words(error: &RawValue) -> String {
    let (error, details) = error_words(error);
    if details.is_empty() { error } else { format!("{error}: {details}") }
}

fn refused(request: &str, error: &RawValue) -> Error {
    Error::Refused { request: request.into(), message: words(error) }
}

/// The server refused the request as such, not one of its operations.
fn whole_error(error: Option<&RawValue>) -> crate::outcome::TxnError {
    let (error, details) = error.map_or_else(|| ("no result".into(), String::new()), error_words);
    crate::outcome::TxnError { op: None, what: "the request".into(), error, details }
}

#[cfg(test)]
#[test]
fn our_own_schema_has_the_columns_that_we_ask_for() {
    let replica = server_replica();
    let columns = &replica.schema().unwrap().tables["Database"].columns;
    assert!(SERVER_COLUMNS.iter().all(|c| columns.contains_key(*c)));
}
