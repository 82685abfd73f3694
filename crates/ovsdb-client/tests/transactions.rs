//! Every operation, condition and mutator of RFC 7047 §5 on a real server, and errors mapped to what failed.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_ovsdb_client::ovsdb::{
    Atom, Condition, Datum, EncodedTransaction, Event, Function, Mutation, Mutator, Name, Op,
    TransactOutcome, Transaction, WaitUntil,
};
use causeway_ovsdb_client::{Client, ClientEvent};
use support::*;

fn thing(n: u128, name: &str) -> Op {
    insert("Thing", n, [("name", name.into()), ("number", integer(n as i64))])
}

fn select(conditions: Vec<Condition>, column: &'static str) -> Op {
    Op::Select { table: "Thing".into(), conditions, columns: vec![column.into()] }
}

async fn column_of(client: &mut Client, n: u128, column: &'static str) -> Datum {
    let results = done(client, vec![select(vec![Condition::uuid(id(n))], column)]).await;
    results[0].rows.as_ref().unwrap()[0][column].clone()
}

#[tokio::test]
async fn an_insert_with_our_uuid_arrives_in_the_replica_before_its_reply() {
    let server = server();
    let mut client = client(&server).await;
    let results = done(&mut client, vec![thing(42, "blue")]).await;
    assert_eq!(results[0].uuid, Some(id(42)));
    let replica = client.replica();
    let row = replica.row(replica.table("Thing").unwrap(), id(42)).unwrap();
    assert_eq!(row.get("name"), Some(&Datum::from("blue")));
    let error = failed(&mut client, vec![thing(42, "blue")]).await;
    assert_eq!((error.op, error.error.as_str()), (Some(0), "duplicate uuid"));
}

#[tokio::test]
async fn named_uuids_tie_operations_together() {
    let server = server();
    let mut client = client(&server).await;
    let named = |name: &str| Datum::One(Atom::Named(name.into()));
    let part = |name: &str| Op::Insert {
        table: "Part".into(),
        uuid: None,
        name: Some(name.into()),
        row: columns([("name", name.into())]),
    };
    let whole = Op::Insert {
        table: "Thing".into(),
        uuid: None,
        name: Some("whole".into()),
        row: columns([("parts", named("left")), ("best", named("left"))]),
    };
    let add = Op::Mutate {
        table: "Thing".into(),
        conditions: vec![Condition::equal("_uuid", Atom::Named("whole".into()))],
        mutations: vec![Mutation { column: "parts".into(), mutator: Mutator::Insert, value: named("right") }],
    };
    let results = done(&mut client, vec![whole, part("left"), part("right"), add]).await;
    let (left, right) = (results[1].uuid.unwrap(), results[2].uuid.unwrap());
    assert_eq!(results[3].count, Some(1));
    let image = database(&mut client).await;
    let row = &image[&("Thing".to_owned(), results[0].uuid.unwrap())];
    assert_eq!(row["parts"], Datum::set([Atom::Uuid(left), Atom::Uuid(right)]));
    assert_eq!(row["best"], Datum::One(Atom::Uuid(left)));
    assert_eq!(image, support::image(client.replica()));
}

/// A mutation: column, what it was, mutator, argument, what it is then.
type Case = (&'static str, Datum, Mutator, Datum, Datum);

fn mutations() -> Vec<Case> {
    let real = |r: f64| Datum::One(Atom::Real(r));
    let words = |w: &[&str]| Datum::set(w.iter().map(|s| Atom::from(*s)));
    let counts = |p: &[(&str, i64)]| Datum::map(p.iter().map(|(k, v)| ((*k).into(), (*v).into())));
    vec![
        ("number", integer(7), Mutator::Add, integer(3), integer(10)),
        ("number", integer(7), Mutator::Subtract, integer(10), integer(-3)),
        ("number", integer(7), Mutator::Multiply, integer(6), integer(42)),
        ("number", integer(7), Mutator::Divide, integer(2), integer(3)),
        ("number", integer(7), Mutator::Modulo, integer(4), integer(3)),
        ("ratio", real(1.5), Mutator::Multiply, real(0.5), real(0.75)),
        ("ratio", real(1.5), Mutator::Divide, real(0.5), real(3.0)),
        ("numbers", integers([1, 2, 3]), Mutator::Add, integer(10), integers([11, 12, 13])),
        ("words", words(&["a", "b"]), Mutator::Insert, words(&["b", "c"]), words(&["a", "b", "c"])),
        ("words", words(&["a", "b", "c"]), Mutator::Delete, words(&["a", "c", "x"]), words(&["b"])),
        (
            "labels",
            Datum::str_map([("k", "1")]),
            Mutator::Insert,
            Datum::str_map([("k", "2"), ("l", "3")]),
            Datum::str_map([("k", "1"), ("l", "3")]),
        ),
        (
            "labels",
            Datum::str_map([("k", "1"), ("l", "3")]),
            Mutator::Delete,
            Datum::str_map([("k", "other"), ("l", "3")]),
            Datum::str_map([("k", "1")]),
        ),
        (
            "labels",
            Datum::str_map([("k", "1"), ("l", "3")]),
            Mutator::Delete,
            words(&["k", "x"]),
            Datum::str_map([("l", "3")]),
        ),
        ("counts", counts(&[("a", 1)]), Mutator::Insert, counts(&[("b", 2)]), counts(&[("a", 1), ("b", 2)])),
        ("counts", counts(&[("a", 1), ("b", 2)]), Mutator::Delete, words(&["a"]), counts(&[("b", 2)])),
    ]
}

#[tokio::test]
async fn every_mutator_does_what_it_says() {
    let server = server();
    let mut client = client(&server).await;
    done(&mut client, vec![thing(1, "a")]).await;
    for (column, was, mutator, value, is) in mutations() {
        let mutation = Mutation { column: column.into(), mutator, value };
        let ops = vec![
            update(1, [(column, was)]),
            Op::Mutate {
                table: "Thing".into(),
                conditions: vec![Condition::uuid(id(1))],
                mutations: vec![mutation.clone()],
            },
        ];
        let results = done(&mut client, ops).await;
        assert_eq!((results[0].count, results[1].count), (Some(1), Some(1)));
        assert_eq!(column_of(&mut client, 1, column).await, is, "{mutation:?}");
        assert_eq!(image(client.replica()), database(&mut client).await, "{mutation:?}");
    }
}

#[tokio::test]
async fn every_function_selects_what_it_says() {
    use Function::*;
    let server = server();
    let mut client = client(&server).await;
    let rows = [(1, "a", [1, 2]), (2, "b", [2, 3]), (3, "c", [3, 4])];
    let rows = rows.map(|(n, name, set)| {
        insert("Thing", n, [("name", name.into()), ("number", integer(n as i64)), ("numbers", integers(set))])
    });
    done(&mut client, rows.to_vec()).await;
    let cases: [(&'static str, Function, Datum, &[&str]); 11] = [
        ("number", Less, integer(2), &["a"]),
        ("number", LessOrEqual, integer(2), &["a", "b"]),
        ("number", Equal, integer(2), &["b"]),
        ("number", NotEqual, integer(2), &["a", "c"]),
        ("number", GreaterOrEqual, integer(2), &["b", "c"]),
        ("number", Greater, integer(2), &["c"]),
        ("numbers", Includes, integer(3), &["b", "c"]),
        ("numbers", Includes, integers([3, 4]), &["c"]),
        ("numbers", Excludes, integer(3), &["a"]),
        ("numbers", Equal, integers([2, 3]), &["b"]),
        ("name", NotEqual, "b".into(), &["a", "c"]),
    ];
    for (column, function, value, names) in cases {
        let condition = Condition { column: column.into(), function, value };
        let results = done(&mut client, vec![select(vec![condition.clone()], "name")]).await;
        let mut got: Vec<_> = results[0].rows.as_ref().unwrap().iter().map(|r| r["name"].clone()).collect();
        got.sort_by_key(|d| d.as_str().cloned());
        let want: Vec<Datum> = names.iter().map(|n| (*n).into()).collect();
        assert_eq!(got, want, "{condition:?}");
    }
}

#[tokio::test]
async fn update_and_delete_count_the_rows_they_meet() {
    let server = server();
    let mut client = client(&server).await;
    let above = |n| {
        let function = Function::Greater;
        vec![Condition { column: "number".into(), function, value: integer(n) }]
    };
    let ops = vec![
        thing(1, "a"),
        thing(2, "b"),
        thing(3, "c"),
        Op::Update {
            table: "Thing".into(),
            conditions: above(1),
            row: columns([("flag", Atom::from(true).into())]),
        },
        Op::Comment("for the log".into()),
        Op::Commit { durable: true },
        Op::Delete { table: "Thing".into(), conditions: above(2) },
    ];
    let counts: Vec<Option<u64>> = done(&mut client, ops).await.iter().map(|r| r.count).collect();
    assert_eq!(counts, [None, None, None, Some(2), None, None, Some(1)]);
    assert_eq!(column_of(&mut client, 2, "flag").await, Atom::from(true).into());
    let log = server.transactions().transactions;
    assert_eq!(log.last().unwrap()["_comment"], "for the log");
    done(&mut client, vec![Op::Delete { table: "Thing".into(), conditions: Vec::new() }]).await;
    assert!(client.replica().is_empty());
}

fn wait(until: WaitUntil, name: &str, timeout: Option<u64>) -> Op {
    Op::Wait {
        table: "Thing".into(),
        conditions: vec![Condition::uuid(id(1))],
        columns: vec!["name".into()],
        until,
        rows: vec![columns([("name", name.into())])],
        timeout,
    }
}

#[tokio::test]
async fn a_wait_of_no_time_checks_and_a_wait_for_ever_waits() {
    let server = server();
    let (mut waiter, mut writer) = (client(&server).await, client(&server).await);
    done(&mut writer, vec![thing(1, "a")]).await;
    done(&mut writer, vec![wait(WaitUntil::Equal, "a", Some(0)), wait(WaitUntil::NotEqual, "b", Some(0))])
        .await;
    done(&mut writer, vec![Op::wait_for_row("Thing", id(1))]).await;
    let error = failed(&mut writer, vec![Op::wait_for_row("Thing", id(2)), thing(5, "e")]).await;
    assert_eq!((error.op, error.error.as_str()), (Some(0), "timed out"));
    let waiting = Transaction::new(vec![wait(WaitUntil::Equal, "b", None), thing(2, "c")]);
    let waiting = waiter.session().transact(&waiting).unwrap();
    // The server has the request before the write: its answer to a later one shows that.
    waiter.call("list_dbs", "[]").await.unwrap();
    done(&mut writer, vec![update(1, [("name", "b".into())])]).await;
    let outcome = outcome_of(&mut waiter, waiting).await;
    assert!(matches!(outcome, TransactOutcome::Done(_)), "{outcome:?}");
}

async fn outcome_of(client: &mut Client, id: causeway_ovsdb_client::ovsdb::RequestId) -> TransactOutcome {
    until(client, |event| match event {
        ClientEvent::Session(Event::Transacted(done, outcome)) if done == id => Some(outcome),
        _ => None,
    })
    .await
}

#[tokio::test]
async fn a_cancelled_wait_ends_and_never_takes_effect() {
    let server = server();
    let (mut waiter, mut writer) = (client(&server).await, client(&server).await);
    done(&mut writer, vec![thing(1, "a")]).await;
    let waiting = Transaction::new(vec![wait(WaitUntil::Equal, "b", None), thing(2, "c")]);
    let waiting = waiter.session().transact(&waiting).unwrap();
    waiter.session().cancel(waiting);
    let outcome = outcome_of(&mut waiter, waiting).await;
    assert_eq!(outcome, TransactOutcome::Lost);
    done(&mut writer, vec![update(1, [("name", "b".into())])]).await;
    assert_eq!(database(&mut writer).await.len(), 1);
    // What is over can't be cancelled, and the connection lives.
    waiter.session().cancel(waiting);
    assert_eq!(database(&mut waiter).await.len(), 1);
}

/// Operations that must fail, with the operation that fails, its words, and the server's.
fn failures() -> Vec<(Vec<Op>, Option<usize>, &'static str, &'static str)> {
    let part = |n| insert("Part", n, [("name", "p".into())]);
    let into = |table: &'static str, column: &'static str, value: Datum| insert(table, 9, [(column, value)]);
    let dangling = insert("Thing", 3, [("name", "z".into()), ("parts", uuids([77]))]);
    let immutable = update(1, [("born", "later".into())]);
    vec![
        (vec![part(8), Op::Abort], Some(1), "abort", "aborted"),
        (vec![part(8), into("Nope", "x", "y".into())], Some(1), "insert into Nope", "syntax error"),
        (vec![into("Thing", "nope", "y".into())], Some(0), "insert into Thing", "unknown column"),
        (
            vec![thing(2, "b"), into("Thing", "number", "y".into())],
            Some(1),
            "insert into Thing",
            "syntax error",
        ),
        (vec![into("Thing", "kind", "oval".into())], Some(0), "insert into Thing", "constraint violation"),
        (vec![into("Thing", "percent", integer(101))], Some(0), "insert into Thing", "constraint violation"),
        (vec![Op::Comment("c".into()), immutable], Some(1), "update of Thing", "constraint violation"),
        (vec![dangling], None, "", "referential integrity violation"),
        (vec![thing(2, "a")], None, "", "constraint violation"),
        (vec![Op::Assert { lock: "l".into() }], Some(0), "assert of lock l", "not owner"),
        (vec![insert("Database", 8, []), insert("Database", 9, [])], None, "", "constraint violation"),
    ]
}

#[tokio::test]
async fn an_error_names_the_operation_that_failed_or_the_commit() {
    let server = server();
    let mut client = client(&server).await;
    done(&mut client, vec![thing(1, "a")]).await;
    let before = database(&mut client).await;
    for (ops, op, what, error) in failures() {
        let got = failed(&mut client, ops).await;
        assert_eq!((got.op, got.what.as_str(), got.error.as_str()), (op, what, error), "{got}");
        assert_eq!(got.to_string().starts_with("commit failed"), op.is_none(), "{got}");
        assert!(!got.details.is_empty(), "{got:?}");
    }
    assert_eq!(database(&mut client).await, before);
}

#[tokio::test]
async fn a_nul_character_is_refused_before_it_costs_the_connection() {
    let server = server();
    let mut client = client(&server).await;
    let other = client.session().transact(&Transaction::new(vec![thing(1, "fine")])).unwrap();
    let ops = vec![Op::Comment("\\u0000 and \\\\u0000 are harmless".into()), thing(2, "bad\0name")];
    let error = failed(&mut client, ops).await;
    assert_eq!((error.op, error.what.as_str()), (Some(1), "insert into Thing"));
    assert!(error.details.contains("NUL"), "{error}");
    assert!(matches!(outcome_of(&mut client, other).await, TransactOutcome::Done(_)));
    done(&mut client, vec![Op::Comment("\\u0000 and \\\\u0000 are harmless".into()), thing(3, "\\u0000")])
        .await;
    assert_eq!(column_of(&mut client, 3, "name").await, "\\u0000".into());
}

#[tokio::test]
async fn a_transaction_written_straight_as_json_does_the_same() {
    let server = server();
    let mut client = client(&server).await;
    let ops = [thing(1, "a"), update(1, [("note", "\"x\"".into())]), Op::Comment("c".into())];
    let mut encoded = EncodedTransaction::default();
    let row = [("name", Datum::from("b")), ("labels", Datum::str_map([("\"k\"", "v")]))];
    encoded.insert("Thing", id(2), row.iter().map(|(name, datum)| (*name, datum)));
    encoded.insert("Thing", id(3), std::iter::empty());
    ops.iter().for_each(|op| encoded.push(op));
    let sent = client.session().transact_encoded(encoded.clone()).unwrap();
    let outcome = outcome_of(&mut client, sent).await;
    let TransactOutcome::Done(results) = outcome else { panic!("{outcome:?}") };
    let uuids: Vec<_> = results.iter().map(|r| r.uuid).collect();
    assert_eq!(uuids, [Some(id(2)), Some(id(3)), Some(id(1)), None, None]);
    assert_eq!(column_of(&mut client, 2, "labels").await, Datum::str_map([("\"k\"", "v")]));
    assert_eq!(column_of(&mut client, 1, "note").await, "\"x\"".into());
    // Errors name operations in the same way; a NUL character in the middle one is found.
    let again = client.session().transact_encoded(encoded).unwrap();
    let outcome = outcome_of(&mut client, again).await;
    let TransactOutcome::Failed(error) = outcome else { panic!("{outcome:?}") };
    assert_eq!((error.op, error.what.as_str()), (Some(0), "insert into Thing"));
    let nul = Transaction::new(vec![thing(4, "d"), update(1, [("note", "\0".into())]), thing(5, "e")]);
    let sent = client.session().transact_encoded((&nul).into()).unwrap();
    let outcome = outcome_of(&mut client, sent).await;
    let TransactOutcome::Failed(error) = outcome else { panic!("{outcome:?}") };
    assert_eq!((error.op, error.what.as_str()), (Some(1), "update of Thing"));
}

#[tokio::test]
async fn strings_of_every_kind_survive() {
    let server = server();
    let mut client = client(&server).await;
    let texts = [
        "",
        "\"\\/\u{8}\u{c}\n\r\t",
        "\u{1}\u{1f}\u{7f}",
        "grüße 你好 🦀",
        "{[\"set\",[]]}",
        "\u{2028}\u{fffd}",
    ];
    let ops = texts.iter().enumerate().map(|(i, text)| {
        let row = [
            ("name", integer_name(i)),
            ("note", (*text).into()),
            ("labels", Datum::str_map([(*text, *text)])),
        ];
        insert("Thing", i as u128 + 1, row)
    });
    done(&mut client, ops.collect()).await;
    for (i, text) in texts.iter().enumerate() {
        assert_eq!(column_of(&mut client, i as u128 + 1, "note").await, (*text).into());
    }
    assert_eq!(image(client.replica()), database(&mut client).await);
}

fn integer_name(i: usize) -> Datum {
    i.to_string().as_str().into()
}

#[tokio::test]
async fn other_requests_are_answered() {
    let server = server();
    let mut client = client(&server).await;
    assert_eq!(client.call("list_dbs", "[]").await.unwrap(), r#"["Lab","_Server"]"#);
    let server_id = client.call("get_server_id", "[]").await.unwrap();
    assert_eq!(server_id.len(), 38, "{server_id}");
    assert_eq!(client.call("echo", r#"["there?"]"#).await.unwrap(), r#"["there?"]"#);
    assert!(client.call("get_schema", r#"["Nope"]"#).await.unwrap_err().contains("unknown database"));
    assert_eq!(client.call("no_such_thing", "[]").await.unwrap_err(), "unknown method");
    let name: Name = "Thing".into();
    done(&mut client, vec![Op::Select { table: name, conditions: Vec::new(), columns: Vec::new() }]).await;
}

#[tokio::test]
async fn an_unknown_database_is_named() {
    let server = server();
    let mut config = config(&server.remote());
    config.session.database = "Labor".into();
    let reason = disconnected(&mut Client::new(config)).await;
    assert!(reason.contains("no database Labor"), "{reason}");
}
