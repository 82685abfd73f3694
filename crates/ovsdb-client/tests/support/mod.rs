//! What the tests against real servers share: a database with every kind of column, clients of it, and images of
//! replica and database that can be compared.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use causeway_ovsdb_client::ovsdb::{
    Atom, Change, ChangeKind, Condition, Datum, Event, MonitorTable, Name, Op, OpResult, Replica,
    SessionConfig, Str, SyncReport, TransactOutcome, Transaction, TxnError, Uuid,
};
use causeway_ovsdb_client::{Client, ClientConfig, ClientEvent, Remote};
use causeway_testing::OvsdbServer;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Only how long a test may hang before it fails; nothing is measured.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const TABLES: [&str; 3] = ["Thing", "Part", "Database"];

pub fn lab() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/lab.ovsschema")
}

pub fn server() -> OvsdbServer {
    OvsdbServer::start(&lab())
}

pub fn session() -> SessionConfig {
    let mut session = SessionConfig::new("Lab");
    session.tables = TABLES.map(MonitorTable::whole).to_vec();
    session
}

pub fn config(remotes: &str) -> ClientConfig {
    let mut config = ClientConfig::new(session(), Remote::list(remotes).unwrap());
    config.retry_min = Duration::from_millis(5);
    config.retry_max = Duration::from_millis(100);
    config
}

/// A client of everything, complete.
pub async fn client(server: &OvsdbServer) -> Client {
    start(config(&server.remote())).await
}

pub async fn start(config: ClientConfig) -> Client {
    let mut client = Client::new(config);
    synced(&mut client).await;
    client
}

/// Tries again until there is an answer: a server opens its remotes one by one.
pub async fn eventually<T>(mut answer: impl FnMut() -> Option<T>) -> T {
    let found = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Some(found) = answer() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    found.await.expect("an answer")
}

/// The next event for which `wanted` has an answer; others are passed over.
pub async fn until<T>(client: &mut Client, mut wanted: impl FnMut(ClientEvent) -> Option<T>) -> T {
    let mut passed = Vec::new();
    let found = tokio::time::timeout(PATIENCE, async {
        loop {
            let event = client.next().await;
            let text = format!("{event:.200?}");
            if let Some(found) = wanted(event) {
                return found;
            }
            passed.push(text);
        }
    });
    let found = found.await.ok();
    found.unwrap_or_else(|| panic!("it did not come; these did: {passed:#?}"))
}

pub async fn synced(client: &mut Client) -> SyncReport {
    until(client, |event| match event {
        ClientEvent::Session(Event::Synced(report)) => Some(report),
        _ => None,
    })
    .await
}

/// The reason of the next disconnect.
pub async fn disconnected(client: &mut Client) -> String {
    until(client, |event| match event {
        ClientEvent::Disconnected { reason, .. } => Some(reason),
        _ => None,
    })
    .await
}

pub async fn event(client: &mut Client, wanted: Event) {
    until(client, |event| matches!(event, ClientEvent::Session(e) if e == wanted).then_some(())).await;
}

pub async fn transact(client: &mut Client, ops: Vec<Op>) -> TransactOutcome {
    tokio::time::timeout(PATIENCE, client.transact(&Transaction::new(ops))).await.expect("an answer")
}

pub async fn done(client: &mut Client, ops: Vec<Op>) -> Vec<OpResult> {
    match transact(client, ops).await {
        TransactOutcome::Done(results) => results,
        other => panic!("{other:?}"),
    }
}

pub async fn failed(client: &mut Client, ops: Vec<Op>) -> TxnError {
    match transact(client, ops).await {
        TransactOutcome::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

pub type Columns = Vec<(Name, Datum)>;

pub fn columns<const N: usize>(pairs: [(&'static str, Datum); N]) -> Columns {
    pairs.into_iter().map(|(name, datum)| (name.into(), datum)).collect()
}

pub fn insert<const N: usize>(table: &'static str, uuid: u128, pairs: [(&'static str, Datum); N]) -> Op {
    Op::Insert { table: table.into(), uuid: Some(id(uuid)), name: None, row: columns(pairs) }
}

pub fn update<const N: usize>(uuid: u128, pairs: [(&'static str, Datum); N]) -> Op {
    Op::Update { table: "Thing".into(), conditions: vec![Condition::uuid(id(uuid))], row: columns(pairs) }
}

pub fn delete(table: &'static str, uuid: u128) -> Op {
    Op::Delete { table: table.into(), conditions: vec![Condition::uuid(id(uuid))] }
}

pub fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

pub fn integer(n: i64) -> Datum {
    Atom::Integer(n).into()
}

pub fn integers(values: impl IntoIterator<Item = i64>) -> Datum {
    Datum::set(values.into_iter().map(Atom::Integer))
}

pub fn uuids(values: impl IntoIterator<Item = u128>) -> Datum {
    Datum::set(values.into_iter().map(|n| Atom::Uuid(id(n))))
}

/// Everything that a replica or a database holds.
pub type Image = BTreeMap<(String, Uuid), BTreeMap<Str, Datum>>;

pub fn image(replica: &Replica) -> Image {
    let mut image = Image::new();
    for table in replica.tables() {
        let layout = replica.layout(table);
        for row in replica.rows(table) {
            let columns = layout.columns().iter().map(|c| c.name.clone()).zip(row.row.iter().cloned());
            image.insert((layout.table().to_string(), row.uuid), columns.collect());
        }
    }
    image
}

/// The same as the server tells it in answer to a select.
pub async fn database(client: &mut Client) -> Image {
    let select = |table: &&'static str| Op::Select {
        table: (*table).into(),
        conditions: Vec::new(),
        columns: Vec::new(),
    };
    let results = done(client, TABLES.iter().map(select).collect()).await;
    let mut image = Image::new();
    for (table, result) in TABLES.iter().zip(results) {
        for mut row in result.rows.expect("a select has rows") {
            row.remove("_version");
            let uuid = row.remove("_uuid").and_then(|d| d.one().and_then(Atom::as_uuid)).unwrap();
            image.insert(((*table).to_owned(), uuid), row);
        }
    }
    image
}

/// What changes must say to lead from one image to another.
pub fn difference(before: &Image, after: &Image, replica: &Replica) -> BTreeMap<(String, Uuid), ChangeKind> {
    let mut expected = BTreeMap::new();
    for (key, row) in after {
        match before.get(key) {
            None => drop(expected.insert(key.clone(), ChangeKind::Insert)),
            Some(old) if old == row => {}
            Some(old) => {
                let layout = replica.layout(replica.table(&key.0).unwrap());
                let changed =
                    layout.columns().iter().enumerate().filter(|(_, c)| old[&c.name] != row[&c.name]);
                let changed = changed.map(|(at, c)| {
                    let (was, is) = (&old[&c.name], &row[&c.name]);
                    (at, if c.ty.max > 1 { was.difference(is) } else { was.clone() })
                });
                expected.insert(key.clone(), ChangeKind::Modify(changed.collect()));
            }
        }
    }
    for (key, row) in before {
        if !after.contains_key(key) {
            let layout = replica.layout(replica.table(&key.0).unwrap());
            let row = layout.columns().iter().map(|c| row[&c.name].clone()).collect();
            expected.insert(key.clone(), ChangeKind::Delete(row));
        }
    }
    expected
}

/// Changes by row; a row must not have two.
pub fn by_row(changes: Vec<Change>, replica: &Replica) -> BTreeMap<(String, Uuid), ChangeKind> {
    let mut rows = BTreeMap::new();
    for mut change in changes {
        if let ChangeKind::Modify(columns) = &mut change.kind {
            columns.sort_by_key(|c| c.0);
        }
        let key = (replica.layout(change.table).table().to_string(), change.uuid);
        assert!(rows.insert(key, change.kind).is_none(), "two changes of {}", change.uuid);
    }
    rows
}

/// A small deterministic generator, so that a history can be repeated by its seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}
