//! An engine, a session and a small database as values: no process, no socket, no time but a number.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod database;

use causeway_ovn::Planner;
use causeway_ovn::apply::{Engine, Options, Ticket};
use causeway_ovn::declare::NORTHBOUND;
use causeway_ovsdb::{Event, MonitorMethod, RequestId, Session, SessionConfig};
use database::Database;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// An engine that is connected to a database; requests wait until the test lets them be served.
pub struct Stage {
    pub engine: Engine,
    pub database: Database,
    /// Requests that the database has not seen yet.
    pub queue: VecDeque<Value>,
    /// Operations of all transactions so far, in order.
    pub sent: Vec<Value>,
    session: Session,
    tickets: BTreeMap<RequestId, Ticket>,
    now: u64,
}

impl Stage {
    /// An engine that has just read the whole database.
    pub fn start(database: Database, options: Options) -> Stage {
        let mut config = SessionConfig::new(NORTHBOUND.database);
        config.tables = NORTHBOUND.monitor_tables();
        config.method = MonitorMethod::Plain;
        let mut stage = Stage {
            engine: Engine::new(&NORTHBOUND, options),
            database,
            queue: VecDeque::new(),
            sent: Vec::new(),
            session: Session::new(config),
            tickets: BTreeMap::new(),
            now: 0,
        };
        stage.session.connected(0);
        let asked = stage.output();
        stage.say(&json!({"id": asked[0]["id"], "result": null, "error": "unknown database"}));
        stage.say(&json!({"id": asked[1]["id"], "result": database::schema(), "error": null}));
        let monitor = stage.output();
        let rows = stage.database.image();
        stage.say(&json!({"id": monitor[0]["id"], "result": rows, "error": null}));
        stage
    }

    fn output(&mut self) -> Vec<Value> {
        let bytes = self.session.take_output().unwrap_or_default();
        serde_json::Deserializer::from_slice(&bytes).into_iter().collect::<Result<_, _>>().unwrap()
    }

    /// The session hears a message, and the engine what follows from it.
    fn say(&mut self, message: &Value) {
        self.session.receive(message.to_string().as_bytes(), self.now).unwrap();
        while let Some(event) = self.session.next_event() {
            match event {
                Event::Synced(_) => self.engine.synced(self.session.replica()),
                Event::Changed(changes) => self.engine.changed(self.session.replica(), &changes),
                Event::Transacted(id, outcome) => {
                    let ticket = self.tickets.remove(&id).unwrap();
                    self.engine.outcome(ticket, &outcome, self.now);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// The engine does what is due; says whether there is more to do at once.
    pub fn work(&mut self, planner: &dyn Planner) -> bool {
        let step = self.engine.poll(self.session.replica(), planner, self.now);
        for (ticket, transaction) in step.transactions {
            let id = self.session.transact_encoded(transaction).unwrap();
            self.tickets.insert(id, ticket);
        }
        for request in self.output() {
            self.sent.extend(request["params"].as_array().unwrap()[1..].iter().cloned());
            self.queue.push_back(request);
        }
        step.again
    }

    /// The database serves one request, if there is any.
    pub fn serve(&mut self) -> bool {
        let Some(request) = self.queue.pop_front() else { return false };
        let (update, result) = self.database.transact(&request["params"].as_array().unwrap()[1..]);
        self.hear(&update);
        self.say(&json!({"id": request["id"], "result": result, "error": null}));
        true
    }

    /// Somebody else changes the database.
    pub fn foreign(&mut self, change: impl FnOnce(&mut Database)) {
        let before = self.database.clone();
        change(&mut self.database);
        let update = self.database.update_since(&before);
        self.hear(&update);
    }

    fn hear(&mut self, update: &Value) {
        if !update.as_object().unwrap().is_empty() {
            self.say(&json!({"method": "update", "params": ["replica", update], "id": null}));
        }
    }

    /// Works until nothing is left to do.
    pub fn settle(&mut self, planner: &dyn Planner) {
        for _ in 0..10_000 {
            let again = self.work(planner);
            if self.serve() || again {
                continue;
            }
            // What failed once and waits now is tried again when what it waits for is there.
            if self.engine.failures().keys().all(|slice| self.engine.waiting().contains_key(slice)) {
                assert!(self.engine.is_idle());
                return;
            }
            self.now = self.engine.deadline().unwrap();
        }
        panic!("not settled: {:?}, {:?}", self.engine.failures(), self.engine.waiting());
    }
}
