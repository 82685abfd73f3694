//! An engine and the tables that ACLs look at, as values: what a plan becomes, one transaction after the other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use causeway_ovn::apply::{Engine, Options, Ticket};
use causeway_ovn::declare::NORTHBOUND;
use causeway_ovn::{Plan, Planner, Str};
use causeway_ovsdb::{Event, MonitorMethod, RequestId, Session, SessionConfig};
use serde_json::{Map, Value, json};

/// What a column holds.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Number,
    Flag,
    MaybeText,
    Texts,
    Pairs,
    /// Rows of a table, which live as long as somebody refers to them.
    Strong(&'static str),
    /// Rows of a table, while they live.
    Weak(&'static str),
}
use Kind::{Flag, MaybeText, Number, Pairs, Strong, Text, Texts, Weak};

type Columns = &'static [(&'static str, Kind)];

/// A table, whether its rows stand alone, and its columns.
const TABLES: [(&str, bool, Columns); 5] = [
    (
        "Logical_Switch",
        true,
        &[
            ("name", Text),
            ("ports", Strong("Logical_Switch_Port")),
            ("acls", Strong("ACL")),
            ("external_ids", Pairs),
        ],
    ),
    (
        "Logical_Switch_Port",
        false,
        &[
            ("name", Text),
            ("type", Text),
            ("addresses", Texts),
            ("port_security", Texts),
            ("external_ids", Pairs),
        ],
    ),
    (
        "Port_Group",
        true,
        &[
            ("name", Text),
            ("ports", Weak("Logical_Switch_Port")),
            ("acls", Strong("ACL")),
            ("external_ids", Pairs),
        ],
    ),
    ("Address_Set", true, &[("name", Text), ("addresses", Texts), ("external_ids", Pairs)]),
    (
        "ACL",
        false,
        &[
            ("name", MaybeText),
            ("direction", Text),
            ("priority", Number),
            ("match", Text),
            ("action", Text),
            ("log", Flag),
            ("severity", MaybeText),
            ("meter", MaybeText),
            ("tier", Number),
            ("options", Pairs),
            ("external_ids", Pairs),
        ],
    ),
];

fn columns(table: &str) -> Columns {
    TABLES.iter().find(|(name, ..)| *name == table).unwrap().2
}

impl Kind {
    fn schema(self) -> Value {
        let many = |key: Value| json!({"type": {"key": key, "min": 0, "max": "unlimited"}});
        let rows = |table, how| many(json!({"type": "uuid", "refTable": table, "refType": how}));
        match self {
            Text => json!({"type": "string"}),
            Number => json!({"type": "integer"}),
            Flag => json!({"type": "boolean"}),
            MaybeText => json!({"type": {"key": "string", "min": 0, "max": 1}}),
            Texts => many(json!("string")),
            Pairs => json!({"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}}),
            Strong(table) => rows(table, "strong"),
            Weak(table) => rows(table, "weak"),
        }
    }

    fn refers_to(self) -> Option<&'static str> {
        match self {
            Strong(table) | Weak(table) => Some(table),
            _ => None,
        }
    }
}

fn schema() -> Value {
    let table = |(name, root, columns): &(&str, bool, Columns)| {
        let columns: Map<_, _> =
            columns.iter().map(|(name, kind)| ((*name).to_owned(), kind.schema())).collect();
        ((*name).to_owned(), json!({"isRoot": root, "columns": columns}))
    };
    let tables: Map<_, _> = TABLES.iter().map(table).collect();
    json!({"name": NORTHBOUND.database, "version": "7.11.0", "tables": tables})
}

/// A row: the texts of each column, with a value behind each of a map.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row(BTreeMap<&'static str, BTreeMap<String, String>>);

impl Row {
    fn of(table: &str) -> Self {
        let empty = |(name, kind): &(&'static str, Kind)| {
            let default = match kind {
                Text => Some(""),
                Number => Some("0"),
                Flag => Some("false"),
                _ => None,
            };
            (*name, default.map(|text| (text.to_owned(), String::new())).into_iter().collect())
        };
        Self(columns(table).iter().map(empty).collect())
    }

    /// The value of a column that has one.
    pub(crate) fn text(&self, column: &str) -> String {
        self.0[column].keys().next().cloned().unwrap_or_default()
    }

    /// All values of a column.
    pub(crate) fn all(&self, column: &str) -> BTreeSet<String> {
        self.0[column].keys().cloned().collect()
    }

    fn json(&self, table: &str) -> Value {
        let value = |(name, kind): &(&'static str, Kind)| {
            let all = &self.0[name];
            let one = || all.keys().next().unwrap();
            let value = match kind {
                Text => json!(one()),
                Number => json!(one().parse::<i64>().unwrap()),
                Flag => json!(one() == "true"),
                MaybeText | Texts => json!(["set", all.keys().collect::<Vec<_>>()]),
                Pairs => json!(["map", all.iter().collect::<Vec<_>>()]),
                Strong(_) | Weak(_) => {
                    json!(["set", all.keys().map(|uuid| json!(["uuid", uuid])).collect::<Vec<_>>()])
                }
            };
            ((*name).to_owned(), value)
        };
        columns(table).iter().map(value).collect::<Map<_, _>>().into()
    }

    fn mutate(&mut self, column: &str, mutator: &str, values: BTreeMap<String, String>) {
        let all = self.0.get_mut(column).unwrap();
        match mutator {
            "insert" => values.into_iter().for_each(|(key, value)| {
                all.entry(key).or_insert(value);
            }),
            "delete" => all.retain(|key, _| !values.contains_key(key)),
            other => panic!("{other}"),
        }
    }
}

/// The texts of a value, whatever kind it is of.
fn texts(value: &Value) -> BTreeMap<String, String> {
    let atom = |atom: &Value| match atom {
        Value::String(text) => text.clone(),
        Value::Array(uuid) => uuid[1].as_str().unwrap().to_owned(),
        other => other.to_string(),
    };
    let many = |of: &str| value.as_array().filter(|all| all[0] == of).and_then(|all| all[1].as_array());
    if let Some(pairs) = many("map") {
        return pairs.iter().map(|pair| (atom(&pair[0]), atom(&pair[1]))).collect();
    }
    match many("set") {
        Some(all) => all.iter().map(|one| (atom(one), String::new())).collect(),
        None => [(atom(value), String::new())].into(),
    }
}

/// Rows by table and identity.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Database(BTreeMap<(String, String), Row>);

impl Database {
    /// All rows of a table.
    pub(crate) fn rows<'a>(&'a self, table: &'a str) -> impl Iterator<Item = &'a Row> {
        self.0.iter().filter(move |((of, _), _)| of == table).map(|(_, row)| row)
    }

    /// A row that is there.
    pub(crate) fn row(&self, table: &str, uuid: &str) -> &Row {
        &self.0[&(table.to_owned(), uuid.to_owned())]
    }

    fn update_since(&self, before: &Self) -> Value {
        let mut tables = Map::new();
        let keys: BTreeSet<_> = before.0.keys().chain(self.0.keys()).collect();
        for key @ (table, uuid) in keys {
            let (old, new) = (before.0.get(key), self.0.get(key));
            if old != new {
                let rows = tables.entry(table).or_insert_with(|| json!({}));
                let of = |row: &Row| row.json(table);
                let (old, new) = (old.map(of), new.map(of));
                let sides = [("old", old), ("new", new)].into_iter();
                rows[uuid] = sides
                    .filter_map(|(side, row)| Some((side.to_owned(), row?)))
                    .collect::<Map<_, _>>()
                    .into();
            }
        }
        tables.into()
    }

    /// Executes operations all or none; says what the replies are.
    fn transact(&mut self, operations: &[Value]) -> Value {
        let before = self.clone();
        let mut results = Vec::new();
        for operation in operations {
            if !self.execute(operation) {
                *self = before;
                results.push(json!({"error": "timed out", "details": operation.to_string()}));
                results.resize(operations.len(), Value::Null);
                return results.into();
            }
            results.push(json!({"count": 1}));
        }
        self.collect();
        results.into()
    }

    fn execute(&mut self, operation: &Value) -> bool {
        let table = operation["table"].as_str().unwrap();
        let fill = |row: &mut Row| {
            for (column, value) in operation["row"].as_object().unwrap() {
                // Nothing here hangs on the others.
                if let Some(all) = row.0.get_mut(column.as_str()) {
                    *all = texts(value);
                }
            }
        };
        if operation["op"] == "insert" {
            let mut row = Row::of(table);
            fill(&mut row);
            let uuid = operation["uuid"].as_str().unwrap().to_owned();
            return self.0.insert((table.to_owned(), uuid), row).is_none();
        }
        let key = (table.to_owned(), operation["where"][0][2][1].as_str().unwrap().to_owned());
        let row = self.0.get_mut(&key);
        match (operation["op"].as_str().unwrap(), row) {
            ("wait", row) => return row.is_some(),
            ("delete", _) => drop(self.0.remove(&key)),
            ("update", Some(row)) => fill(row),
            ("mutate", Some(row)) => {
                for mutation in operation["mutations"].as_array().unwrap() {
                    let text = |at: usize| mutation[at].as_str().unwrap();
                    row.mutate(text(0), text(1), texts(&mutation[2]));
                }
            }
            (_, None) => {}
            (other, _) => panic!("{other}"),
        }
        true
    }

    /// Rows that nobody refers to go, and references to rows that are gone.
    fn collect(&mut self) {
        loop {
            let mut held = BTreeSet::new();
            for ((table, _), row) in &self.0 {
                for (name, kind) in columns(table) {
                    if let Strong(to) = kind {
                        held.extend(row.0[name].keys().map(|uuid| (to.to_string(), uuid.clone())));
                    }
                }
            }
            let stands = |table: &str| TABLES.iter().any(|(name, root, _)| *name == table && *root);
            let count = self.0.len();
            self.0.retain(|key, _| stands(&key.0) || held.contains(key));
            if self.0.len() == count {
                break;
            }
        }
        let there: BTreeSet<(String, String)> = self.0.keys().cloned().collect();
        for ((table, _), row) in &mut self.0 {
            for (name, kind) in columns(table) {
                if let Some(to) = kind.refers_to() {
                    let all = row.0.get_mut(name).unwrap();
                    all.retain(|uuid, _| there.contains(&(to.to_owned(), uuid.clone())));
                }
            }
        }
    }
}

/// A plan as far as these tables go.
struct Part<'a>(&'a dyn Planner);

impl Planner for Part<'_> {
    fn roots(&self) -> &[&str] {
        self.0.roots()
    }

    fn slices(&self, prefix: &str) -> Vec<Str> {
        self.0.slices(prefix)
    }

    fn slice_len(&self, path: &str) -> usize {
        self.0.slice_len(path)
    }

    fn holder(&self, path: &str) -> Option<Str> {
        self.0.holder(path)
    }

    fn priority(&self, slice: &str) -> u8 {
        self.0.priority(slice)
    }

    fn plan(&self, slice: &str) -> Plan {
        let is_here = |table: &str| TABLES.iter().any(|(name, ..)| *name == table);
        match self.0.plan(slice) {
            Plan::Rows(mut rows) => {
                rows.retain(|row| is_here(row.meta.name));
                rows.iter_mut().for_each(|row| row.guards.retain(|guard| is_here(guard.meta.name)));
                Plan::Rows(rows)
            }
            other => other,
        }
    }
}

/// An engine that is connected to a database.
pub(crate) struct Stage {
    pub(crate) engine: Engine,
    pub(crate) database: Database,
    session: Session,
    tickets: BTreeMap<RequestId, Ticket>,
}

impl Stage {
    /// An engine that has just read an empty database.
    pub(crate) fn start(options: Options) -> Self {
        let mut config = SessionConfig::new(NORTHBOUND.database);
        config.tables = NORTHBOUND.monitor_tables();
        config.method = MonitorMethod::Plain;
        let mut stage = Self {
            engine: Engine::new(&NORTHBOUND, options),
            database: Database::default(),
            session: Session::new(config),
            tickets: BTreeMap::new(),
        };
        stage.session.connected(0);
        let asked = stage.output();
        stage.say(&json!({"id": asked[0]["id"], "result": null, "error": "unknown database"}));
        stage.say(&json!({"id": asked[1]["id"], "result": schema(), "error": null}));
        let monitor = stage.output();
        stage.say(&json!({"id": monitor[0]["id"], "result": {}, "error": null}));
        stage
    }

    fn output(&mut self) -> Vec<Value> {
        let bytes = self.session.take_output().unwrap_or_default();
        serde_json::Deserializer::from_slice(&bytes).into_iter().collect::<Result<_, _>>().unwrap()
    }

    fn say(&mut self, message: &Value) {
        self.session.receive(message.to_string().as_bytes(), 0).unwrap();
        while let Some(event) = self.session.next_event() {
            match event {
                Event::Synced(_) => self.engine.synced(self.session.replica()),
                Event::Changed(changes) => self.engine.changed(self.session.replica(), &changes),
                Event::Transacted(id, outcome) => {
                    let ticket = self.tickets.remove(&id).unwrap();
                    self.engine.outcome(ticket, &outcome, 0);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Brings the database to a plan, and shows it after each transaction.
    pub(crate) fn bring(&mut self, planner: &dyn Planner, mut show: impl FnMut(&Database)) {
        let mut queue = VecDeque::new();
        for _ in 0..10_000 {
            let step = self.engine.poll(self.session.replica(), &Part(planner), 0);
            for (ticket, transaction) in step.transactions {
                let id = self.session.transact_encoded(transaction).unwrap();
                self.tickets.insert(id, ticket);
            }
            queue.extend(self.output());
            let Some(request) = queue.pop_front() else {
                if step.again {
                    continue;
                }
                let engine = &self.engine;
                assert!(engine.is_idle() && engine.failures().is_empty(), "{:?}", engine.failures());
                assert!(engine.waiting().is_empty(), "{:?}", engine.waiting());
                return;
            };
            let before = self.database.clone();
            let result = self.database.transact(&request["params"].as_array().unwrap()[1..]);
            let update = self.database.update_since(&before);
            if before != self.database {
                self.say(&json!({"method": "update", "params": ["replica", update], "id": null}));
                show(&self.database);
            }
            self.say(&json!({"id": request["id"], "result": result, "error": null}));
        }
        panic!("not settled");
    }
}
