//! The three generations of monitors on a real server: differences, defaults, conditions, and replica = database
//! after any history.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_ovsdb_client::ovsdb::{
    Atom, Change, ChangeKind, Condition, Datum, Event, Function, MonitorMethod, MonitorTable, Mutation,
    Mutator, Op, RowRef, Str,
};
use causeway_ovsdb_client::{Client, ClientConfig, ClientEvent};
use causeway_testing::OvsdbServer;
use support::*;

const METHODS: [MonitorMethod; 3] = [MonitorMethod::Plain, MonitorMethod::Cond, MonitorMethod::Since];

fn with_method(server: &OvsdbServer, method: MonitorMethod) -> ClientConfig {
    let mut config = config(&server.remote());
    config.session.method = method;
    config
}

async fn changes(client: &mut Client) -> Vec<Change> {
    until(client, |event| match event {
        ClientEvent::Session(Event::Changed(changes)) => Some(changes),
        _ => None,
    })
    .await
}

fn full_row() -> Op {
    insert(
        "Thing",
        1,
        [
            ("name", "one".into()),
            ("ratio", Atom::Real(0.25).into()),
            ("flag", Atom::Boolean(true).into()),
            ("note", "hello".into()),
            ("numbers", integers([1, 2, 3])),
            ("ratios", Datum::set([Atom::Real(1.0), Atom::Real(2.5)])),
            ("flags", Atom::Boolean(false).into()),
            ("labels", Datum::str_map([("a", "1"), ("b", "2")])),
            ("counts", Datum::map([("x".into(), 1.into())])),
            ("places", Datum::map([(1.into(), "x".into()), (2.into(), "y".into())])),
            ("single", Datum::str_map([("k", "v")])),
            ("parts", uuids([11, 12])),
            ("best", uuids([11])),
            ("liked", uuids([11, 12])),
            ("slots", Datum::map([("s".into(), Atom::Uuid(id(12)))])),
        ],
    )
}

/// A new value of every column, with what the change must say: the difference or the old value.
fn new_values() -> Vec<(&'static str, Datum, Datum)> {
    let real = |r| Atom::Real(r);
    vec![
        ("name", "uno".into(), "one".into()),
        ("number", integer(-7), integer(0)),
        ("ratio", real(-1e-3).into(), real(0.25).into()),
        ("flag", Atom::Boolean(false).into(), Atom::Boolean(true).into()),
        ("note", Datum::empty(), "hello".into()),
        ("level", integer(3), Datum::empty()),
        ("numbers", integers([2, 3, 4]), integers([1, 4])),
        ("ratios", Datum::set([real(1.0), real(2.5), real(1e100)]), real(1e100).into()),
        ("flags", Datum::set([true.into(), false.into()]), Atom::Boolean(true).into()),
        ("words", Datum::set(["a".into(), "b".into()]), Datum::set(["a".into(), "b".into()])),
        (
            "labels",
            Datum::str_map([("a", "1"), ("b", "3"), ("c", "4")]),
            Datum::str_map([("b", "3"), ("c", "4")]),
        ),
        (
            "counts",
            Datum::map([("y".into(), 2.into())]),
            Datum::map([("x".into(), 1.into()), ("y".into(), 2.into())]),
        ),
        ("places", Datum::map([(1.into(), "x".into())]), Datum::map([(2.into(), "y".into())])),
        ("single", Datum::str_map([("k", "w")]), Datum::str_map([("k", "v")])),
        ("parts", uuids([12]), uuids([11])),
        ("best", uuids([12]), uuids([11])),
        ("liked", uuids([12]), uuids([11])),
    ]
}

#[tokio::test]
async fn a_change_tells_the_difference_of_sets_and_maps_and_the_old_value_of_scalars() {
    for method in METHODS {
        let server = server();
        let mut client = start(with_method(&server, method)).await;
        let parts = [11, 12].map(|n| insert("Part", n, []));
        done(&mut client, [parts.to_vec(), vec![full_row()]].concat()).await;
        assert_eq!(changes(&mut client).await.len(), 3);
        let values = new_values();
        let row = values.iter().map(|(name, value, _)| ((*name).into(), value.clone())).collect();
        let change = Op::Update { table: "Thing".into(), conditions: vec![Condition::uuid(id(1))], row };
        done(&mut client, vec![change]).await;
        let got = by_row(changes(&mut client).await, client.replica());
        let ChangeKind::Modify(columns) = &got[&("Thing".to_owned(), id(1))] else { panic!("{got:?}") };
        let layout = client.replica().layout(client.replica().table("Thing").unwrap());
        let mut told: Vec<(&str, Datum)> =
            columns.iter().map(|(at, d)| (layout.columns()[*at].name.as_str(), d.clone())).collect();
        let mut want: Vec<(&str, Datum)> = values.iter().map(|(name, _, d)| (*name, d.clone())).collect();
        told.sort_by_key(|c| c.0);
        want.sort_by_key(|c| c.0);
        assert_eq!(told, want, "{method:?}");
        // The part that nothing holds any more is collected, and its going is told.
        assert_eq!(got.len(), 2);
        assert!(matches!(got[&("Part".to_owned(), id(11))], ChangeKind::Delete(_)));
        assert_eq!(image(client.replica()), database(&mut client).await, "{method:?}");
    }
}

#[tokio::test]
async fn columns_that_hold_their_defaults_are_there() {
    let server = server();
    let mut clients = Vec::new();
    for method in METHODS {
        clients.push(start(with_method(&server, method)).await);
    }
    done(&mut clients[0], vec![insert("Thing", 1, [])]).await;
    for method in METHODS {
        clients.push(start(with_method(&server, method)).await);
    }
    let want = database(&mut clients[0]).await;
    assert_eq!(want[&("Thing".to_owned(), id(1))]["note"], Datum::empty());
    for client in &mut clients {
        // The answer to a later request comes behind the update.
        client.call("list_dbs", "[]").await.unwrap();
        assert_eq!(image(client.replica()), want);
    }
}

/// One random transaction; may fail, as transactions do.
fn random_ops(dice: &mut Dice) -> Vec<Op> {
    (0..1 + dice.below(4)).map(|_| random_op(dice)).collect()
}

fn random_op(dice: &mut Dice) -> Op {
    let thing = 1 + u128::from(dice.below(6));
    let conditions = vec![Condition::uuid(id(thing))];
    let few = |dice: &mut Dice| (0..dice.below(4)).map(|_| dice.below(5) as i64).collect::<Vec<_>>();
    let values = few(dice);
    let strings = values.iter().map(|n| Str::from(n.to_string()));
    let value: (&'static str, Datum) = match dice.below(10) {
        0 => ("numbers", integers(values)),
        1 => ("words", Datum::set(strings.map(Atom::String))),
        2 => ("labels", Datum::str_map(strings.map(|s| (s, Str::from("v"))))),
        3 => ("counts", Datum::map(strings.map(|s| (Atom::String(s), Atom::Integer(thing as i64))))),
        4 => ("level", integers(values.into_iter().take(1))),
        5 => ("ratio", Atom::Real(values.len() as f64 / 4.0).into()),
        6 => ("places", Datum::map(values.into_iter().map(|n| (n.into(), "p".into())))),
        7 => ("note", Datum::set(strings.take(1).map(Atom::String))),
        8 => ("single", Datum::str_map(strings.take(1).map(|s| (s.clone(), s)))),
        _ => ("flag", Atom::Boolean(values.len() > 1).into()),
    };
    let is_set = matches!(value.0, "numbers" | "words");
    match dice.below(8) {
        0 | 1 => insert("Thing", thing, [("name", thing.to_string().as_str().into()), value]),
        2 => delete("Thing", thing),
        3 => insert("Part", 100 + thing, []),
        4 => {
            let column = if dice.below(2) == 0 { "parts" } else { "liked" };
            let mutator = if dice.below(3) == 0 { Mutator::Delete } else { Mutator::Insert };
            let value = uuids([101 + u128::from(dice.below(6))]);
            let mutations = vec![Mutation { column: column.into(), mutator, value }];
            Op::Mutate { table: "Thing".into(), conditions, mutations }
        }
        5 if is_set => {
            let mutator = if dice.below(2) == 0 { Mutator::Delete } else { Mutator::Insert };
            let mutations = vec![Mutation { column: value.0.into(), mutator, value: value.1 }];
            Op::Mutate { table: "Thing".into(), conditions, mutations }
        }
        _ => Op::Update { table: "Thing".into(), conditions, row: columns([value]) },
    }
}

#[tokio::test]
async fn after_any_history_each_replica_equals_the_database_and_the_changes_tell_how() {
    let server = server();
    let mut clients = Vec::new();
    for method in METHODS {
        clients.push(start(with_method(&server, method)).await);
    }
    let mut before = image(clients[0].replica());
    let mut dice = Dice::new(7);
    let mut changed = 0;
    for step in 0..250 {
        transact(&mut clients[step % 3], random_ops(&mut dice)).await;
        let want = database(&mut clients[step % 3]).await;
        for client in &mut clients {
            client.call("list_dbs", "[]").await.unwrap();
            assert_eq!(image(client.replica()), want, "step {step}");
            let mut told = Vec::new();
            while let Some(event) = client.poll_event() {
                if let ClientEvent::Session(Event::Changed(changes)) = event {
                    told.extend(changes);
                }
            }
            let told = by_row(told, client.replica());
            assert_eq!(told, difference(&before, &want, client.replica()), "step {step}");
            changed += told.len();
        }
        before = want;
    }
    assert!(changed > 300, "the history was dull: {changed} changes");
}

fn numbers_above(n: i64) -> Vec<Condition> {
    vec![Condition { column: "number".into(), function: Function::Greater, value: integer(n) }]
}

fn numbered(n: u128) -> Op {
    insert("Thing", n, [("name", n.to_string().as_str().into()), ("number", integer(n as i64))])
}

fn held(client: &Client) -> Vec<u128> {
    let replica = client.replica();
    let mut held: Vec<u128> =
        replica.rows(replica.table("Thing").unwrap()).map(|r| r.uuid.as_u128()).collect();
    held.sort_unstable();
    held
}

async fn in_force(client: &mut Client) -> Vec<Change> {
    let mut changes = Vec::new();
    until(client, |event| match event {
        ClientEvent::Session(Event::Changed(c)) => {
            changes.extend(c);
            None
        }
        ClientEvent::Session(Event::ConditionsInForce) => Some(()),
        _ => None,
    })
    .await;
    changes
}

#[tokio::test]
async fn rows_come_and_go_with_the_conditions_while_connected_and_after_reconnects() {
    for method in [MonitorMethod::Cond, MonitorMethod::Since] {
        let mut server = server();
        let mut writer = client(&server).await;
        done(&mut writer, (1..=6).map(numbered).collect()).await;
        let mut config = with_method(&server, method);
        config.session.tables[0].conditions = numbers_above(4);
        let mut client = start(config).await;
        assert_eq!(held(&client), [5, 6]);
        client.session().set_conditions("Thing", numbers_above(2));
        let entered = by_row(in_force(&mut client).await, client.replica());
        assert_eq!(held(&client), [3, 4, 5, 6]);
        assert!(entered.len() == 2 && entered.values().all(|k| *k == ChangeKind::Insert), "{entered:?}");
        client.session().set_conditions(
            "Thing",
            vec![Condition::equal("number", Atom::Integer(1)), Condition::equal("number", Atom::Integer(6))],
        );
        let left = by_row(in_force(&mut client).await, client.replica());
        assert_eq!(held(&client), [1, 6]);
        assert_eq!(left.values().filter(|k| matches!(k, ChangeKind::Delete(_))).count(), 3, "{left:?}");
        // A row that stops to meet the conditions leaves, one that begins to enters.
        done(&mut writer, vec![update(6, [("number", integer(9))]), update(2, [("number", integer(1))])])
            .await;
        client.call("list_dbs", "[]").await.unwrap();
        assert_eq!(held(&client), [1, 2]);
        server.kill();
        disconnected(&mut client).await;
        client.session().set_conditions("Thing", numbers_above(3));
        server.serve();
        let report = synced(&mut client).await;
        assert_eq!(held(&client), [4, 5, 6]);
        assert_eq!(report.changes.len(), 5);
        client.session().set_conditions("Thing", Vec::new());
        in_force(&mut client).await;
        assert_eq!(image(client.replica()), database(&mut client).await);
    }
}

#[tokio::test]
async fn conditions_that_can_have_no_effect_end_at_once() {
    let server = server();
    let mut plain = start(with_method(&server, MonitorMethod::Plain)).await;
    done(&mut plain, vec![numbered(1)]).await;
    plain.session().set_conditions("Thing", numbers_above(3));
    in_force(&mut plain).await;
    assert_eq!(held(&plain), [1], "the oldest monitor has no conditions");
    let mut client = client(&server).await;
    client.session().set_conditions("Nothing", numbers_above(3));
    in_force(&mut client).await;
}

#[tokio::test]
async fn a_condition_the_server_refuses_is_reported_in_its_words() {
    let server = server();
    let mut client = client(&server).await;
    client.session().set_conditions("Thing", vec![Condition::equal("nope", "x")]);
    let reason = disconnected(&mut client).await;
    assert!(reason.contains("refused monitor_cond_change") && reason.contains("nope"), "{reason}");
}

fn name_of(row: RowRef<'_>) -> Option<Str> {
    row.get("name")?.as_str().filter(|name| !name.is_empty()).cloned()
}

#[tokio::test]
async fn the_index_and_the_parents_follow_the_rows() {
    for method in METHODS {
        let server = server();
        let mut config = with_method(&server, method);
        let table = &mut config.session.tables[0];
        table.index = Some(name_of);
        table.backrefs = vec!["parts".into(), "best".into()];
        let mut client = start(config).await;
        let thing = client.replica().table("Thing").unwrap();
        let named =
            |n: u128, name: &str, parts: Datum| insert("Thing", n, [("name", name.into()), ("parts", parts)]);
        let ops = vec![
            insert("Part", 11, []),
            insert("Part", 12, []),
            named(1, "net:a:1", uuids([11, 12])),
            named(2, "net:b:1", uuids([12])),
            named(3, "net:a:2", Datum::empty()),
        ];
        done(&mut client, ops).await;
        let range = |client: &Client, prefix: &str| -> Vec<u128> {
            client.replica().range(thing, prefix).map(|(_, uuid)| uuid.as_u128()).collect()
        };
        let parents = |client: &Client, part: u128| -> Vec<u128> {
            let mut rows: Vec<u128> = client.replica().parents(id(part)).map(|p| p.2.as_u128()).collect();
            rows.sort_unstable();
            rows
        };
        assert_eq!(range(&client, "net:a:"), [1, 3]);
        assert_eq!(client.replica().index_key(thing, id(3)).unwrap(), "net:a:2");
        assert_eq!(parents(&client, 12), [1, 2]);
        let ops = vec![
            update(3, [("name", "net:b:0".into())]),
            update(1, [("parts", uuids([11])), ("best", uuids([11]))]),
        ];
        done(&mut client, ops).await;
        assert_eq!((range(&client, "net:a:"), range(&client, "net:b:")), (vec![1], vec![3, 2]));
        assert_eq!((parents(&client, 11), parents(&client, 12)), (vec![1, 1], vec![2]));
        done(&mut client, vec![delete("Thing", 1)]).await;
        assert_eq!((range(&client, ""), parents(&client, 11)), (vec![3, 2], vec![]));
    }
}

#[tokio::test]
async fn some_columns_or_none_at_all_can_be_held() {
    for method in METHODS {
        let server = server();
        let mut config = with_method(&server, method);
        let mut some = MonitorTable::whole("Thing");
        some.columns = vec!["labels".into(), "name".into()];
        let mut none = MonitorTable::whole("Part");
        none.columns = vec!["not_there".into()];
        config.session.tables = vec![some, none];
        let mut client = Client::new(config);
        assert_eq!(synced(&mut client).await.missing, ["Part.not_there"]);
        let ops = vec![insert("Part", 11, []), insert("Thing", 1, [("parts", uuids([11]))])];
        done(&mut client, ops).await;
        assert_eq!(changes(&mut client).await.len(), 2, "{method:?}");
        done(&mut client, vec![update(1, [("number", integer(3))]), update(1, [("name", "x".into())])]).await;
        let got = by_row(changes(&mut client).await, client.replica());
        let want = ChangeKind::Modify(vec![(1, "".into())]);
        assert_eq!(got, [(("Thing".to_owned(), id(1)), want)].into(), "{method:?}");
    }
}
