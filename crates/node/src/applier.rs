//! One database and the engine that keeps it as planned: the only place where rows are written.
//!
//! Owned by one task. It has no opinion about what is planned and never decides anything: the engine does.

use causeway_ovn::Planner;
use causeway_ovn::apply::{Engine, Options, Ticket};
use causeway_ovn::declare::Declarations;
use causeway_ovsdb_client::ovsdb::{Event, Replica, RequestId, SessionConfig, TableId, TransactOutcome};
use causeway_ovsdb_client::{Client, ClientConfig, ClientEvent, Remote, TlsFiles};
use rustc_hash::FxHashMap;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

/// What an applier needs to know.
#[derive(Clone, Debug)]
pub struct ApplierConfig {
    /// What is ours of the database.
    pub declarations: &'static Declarations,
    /// Its servers.
    pub remotes: Vec<Remote>,
    /// For `ssl:` remotes.
    pub tls: Option<TlsFiles>,
    /// Limits and times; a lock named there is taken.
    pub options: Options,
}

/// A database that is kept as planned.
pub struct Applier {
    declarations: &'static Declarations,
    client: Client,
    engine: Engine,
    tickets: FxHashMap<RequestId, Ticket>,
    /// Everything that the server has not answered yet, with when it was asked.
    unanswered: FxHashMap<RequestId, Instant>,
    /// Since when the database is out of reach or not read.
    away: Option<Instant>,
    /// How often rows of each table have changed, and how often everything was read anew.
    changes: FxHashMap<TableId, u64>,
    loads: u64,
    born: Instant,
}

impl Applier {
    /// An applier that connects when it gets its first turn.
    pub fn new(config: ApplierConfig) -> Applier {
        let mut session = SessionConfig::new(config.declarations.database);
        session.tables = config.declarations.monitor_tables();
        session.leader_only = true;
        let mut client = ClientConfig::new(session, config.remotes);
        client.tls = config.tls;
        let mut client = Client::new(client);
        if let Some(lock) = &config.options.lock {
            client.session().want_lock(lock.clone(), false);
        }
        Applier {
            declarations: config.declarations,
            client,
            engine: Engine::new(config.declarations, config.options),
            tickets: FxHashMap::default(),
            unanswered: FxHashMap::default(),
            away: Some(Instant::now()),
            changes: FxHashMap::default(),
            loads: 0,
            born: Instant::now(),
        }
    }

    /// Says that the plan of everything under a prefix may have changed.
    pub fn dirty(&mut self, prefix: &str) {
        self.engine.dirty(prefix);
    }

    /// What the engine did and what it could not do.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// How many changes are counted; see [`Engine::counted`].
    pub fn counted(&self) -> Option<i64> {
        self.engine.counted(self.client.replica())
    }

    /// Asks northd and ovn-controller for a sign of life, by a change that is only counted.
    pub fn count(&mut self) {
        let Some(transaction) = self.engine.question() else { return };
        if let Ok(id) = self.client.session().transact_encoded(transaction) {
            self.unanswered.insert(id, Instant::now());
            self.client.flush();
        }
    }

    /// Asks the server for a sign of life, unless it owes an answer already.
    pub fn ask_alive(&mut self) {
        if self.unanswered.is_empty()
            && let Ok(id) = self.client.session().call("echo", "[]")
        {
            self.unanswered.insert(id, Instant::now());
            self.client.flush();
        }
    }

    /// Since when the server owes an answer, or is out of reach.
    pub fn owes_since(&self) -> Option<Instant> {
        self.away.into_iter().chain(self.unanswered.values().copied()).min()
    }

    /// Reads exactly the rows with these names, of a table whose rows are asked for; see [`Declarations::asked`].
    pub fn ask<'a>(&mut self, table: &str, names: impl IntoIterator<Item = &'a str>) {
        if let Some(conditions) = self.declarations.asked(table, names) {
            self.client.session().set_conditions(table, conditions);
            self.client.flush();
        }
    }

    /// The copy of the database.
    pub fn replica(&self) -> &Replica {
        self.client.replica()
    }

    /// A number that rises whenever a row of this table changes.
    pub fn changes_of(&self, table: &str) -> u64 {
        let table = self.replica().table(table);
        self.loads + table.and_then(|table| self.changes.get(&table)).copied().unwrap_or_default()
    }

    /// Whether the database is known and as planned, as far as it can be.
    pub fn is_settled(&mut self) -> bool {
        self.client.session().is_synced() && self.tickets.is_empty() && self.engine.is_idle()
    }

    /// Works until the database is as planned, as far as it can be.
    pub async fn settle(&mut self, planner: &dyn Planner) {
        loop {
            let again = self.work(planner);
            if self.is_settled() {
                return;
            }
            self.pass(again).await;
        }
    }

    /// Does what is due, then waits for the next thing to happen and reacts. Dropping the future loses nothing.
    pub async fn turn(&mut self, planner: &dyn Planner) {
        let again = self.work(planner);
        self.pass(again).await;
        self.work(planner);
    }

    /// Lets time pass until the next event or deadline; not at all if there is more to do at once.
    async fn pass(&mut self, again: bool) {
        if again {
            tokio::task::yield_now().await;
        } else {
            self.wait().await;
        }
        while let Some(event) = self.client.poll_event() {
            self.on_event(event);
        }
    }

    async fn wait(&mut self) {
        let deadline = self.engine.deadline().map(|ms| self.born + Duration::from_millis(ms));
        let wake = async {
            match deadline {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = self.client.next() => self.on_event(event),
            () = wake => {}
        }
    }

    fn now(&self) -> u64 {
        self.born.elapsed().as_millis() as u64
    }

    /// Sends what is due; says whether there is more to do at once.
    fn work(&mut self, planner: &dyn Planner) -> bool {
        let now = self.now();
        let step = self.engine.poll(self.client.replica(), planner, now);
        for (ticket, transaction) in step.transactions {
            match self.client.session().transact_encoded(transaction) {
                Ok(id) => {
                    self.tickets.insert(id, ticket);
                    self.unanswered.insert(id, Instant::now());
                }
                Err(_) => self.engine.outcome(ticket, &TransactOutcome::Lost, now),
            }
        }
        self.client.flush();
        step.again
    }

    fn on_event(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Connected(remote) => debug!(%remote, "connected"),
            ClientEvent::Disconnected { remote, reason } => {
                warn!(%remote, reason, "database out of reach; nothing is changed until it is back");
                self.tickets.clear();
                self.unanswered.clear();
                self.away.get_or_insert_with(Instant::now);
                self.engine.disconnected();
            }
            ClientEvent::Session(event) => self.on_session(event),
        }
    }

    fn on_session(&mut self, event: Event) {
        match event {
            Event::Synced(report) => {
                if !report.missing.is_empty() {
                    warn!(missing = ?report.missing, "the server's schema lacks what this version can use");
                }
                self.away = None;
                self.loads += 1;
                self.engine.synced(self.client.replica());
            }
            Event::Changed(changes) => {
                for change in &changes {
                    *self.changes.entry(change.table).or_default() += 1;
                }
                self.engine.changed(self.client.replica(), &changes);
            }
            Event::Transacted(id, outcome) => {
                self.unanswered.remove(&id);
                if let Some(ticket) = self.tickets.remove(&id) {
                    let now = self.now();
                    self.engine.outcome(ticket, &outcome, now);
                }
            }
            Event::Locked(_) => self.engine.lock(true),
            Event::LockLost(name) => {
                warn!(%name, "another process has the lock of this zone");
                self.engine.lock(false);
            }
            Event::Replied(id, _) => drop(self.unanswered.remove(&id)),
            Event::ConditionsInForce => {}
        }
    }
}
