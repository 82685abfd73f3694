//! Servers that die and come back: what was in flight is lost and says so, and the replica reports the difference.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_ovsdb_client::ovsdb::{
    ChangeKind, Datum, Event, MonitorMethod, Op, TransactOutcome, Transaction,
};
use causeway_ovsdb_client::{Client, ClientEvent};
use causeway_testing::{OvsdbServer, program};
use std::collections::BTreeSet;
use std::process::Command;
use support::*;

fn thing(n: u128) -> Op {
    insert("Thing", n, [("name", n.to_string().as_str().into()), ("labels", Datum::str_map([("k", "v")]))])
}

/// Changes the database file while no server has it.
fn behind_the_back(server: &OvsdbServer, ops: &[Op]) {
    let mut json = Vec::new();
    Transaction::new(ops.to_vec()).encode(&mut json, "Lab");
    let out = Command::new(program("ovsdb-tool"))
        .arg("transact")
        .arg(server.database())
        .arg(String::from_utf8(json).unwrap())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[tokio::test]
async fn after_a_restart_the_difference_is_told_and_nothing_else() {
    for method in [MonitorMethod::Plain, MonitorMethod::Cond, MonitorMethod::Since] {
        let mut server = server();
        let mut config = config(&server.remote());
        config.session.method = method;
        let mut client = start(config).await;
        done(&mut client, (1..=50).map(thing).collect()).await;
        // The same identity in another table must not keep a row of this one alive.
        done(&mut client, vec![insert("Database", 7, [])]).await;
        let before = image(client.replica());
        server.kill();
        disconnected(&mut client).await;
        assert_eq!(image(client.replica()), before, "nothing is flushed");
        let ops = [
            delete("Thing", 7),
            delete("Thing", 8),
            thing(60),
            update(9, [("labels", Datum::str_map([("k", "w"), ("l", "v")])), ("note", "new".into())]),
        ];
        behind_the_back(&server, &ops);
        server.serve();
        let report = synced(&mut client).await;
        let after = database(&mut client).await;
        assert_eq!(image(client.replica()), after);
        assert!(!report.first && !report.resumed && report.missing.is_empty());
        let told = by_row(report.changes, client.replica());
        assert_eq!(told.len(), 4);
        assert_eq!(told, difference(&before, &after, client.replica()), "{method:?}");
    }
}

#[tokio::test]
async fn a_restart_without_changes_tells_none() {
    let mut server = server();
    let mut client = client(&server).await;
    done(&mut client, (1..=20).map(thing).collect()).await;
    for _ in 0..3 {
        server.kill();
        disconnected(&mut client).await;
        server.serve();
        assert_eq!(synced(&mut client).await.changes, []);
    }
    assert_eq!(image(client.replica()), database(&mut client).await);
}

/// Sends transactions until the connection ends; says which were sent and which were acknowledged.
async fn write_until_lost(
    client: &mut Client,
    server: &mut OvsdbServer,
    first: u128,
) -> (u128, BTreeSet<u128>) {
    let ids: Vec<_> = (first..first + 200)
        .map(|n| (client.session().transact(&Transaction::new(vec![thing(n)])).unwrap(), n))
        .collect();
    let (mut acknowledged, mut lost) = (BTreeSet::new(), 0);
    while acknowledged.len() + lost < ids.len() {
        let (id, outcome) = until(client, |event| match event {
            ClientEvent::Session(Event::Transacted(id, outcome)) => Some((id, outcome)),
            _ => None,
        })
        .await;
        match outcome {
            TransactOutcome::Done(_) => {
                acknowledged.insert(ids.iter().find(|i| i.0 == id).unwrap().1);
                if acknowledged.len() == 20 {
                    server.kill();
                }
            }
            TransactOutcome::Lost => lost += 1,
            TransactOutcome::Failed(error) => panic!("{error}"),
        }
    }
    (first + 200, acknowledged)
}

#[tokio::test]
async fn a_server_killed_among_transactions_keeps_what_it_acknowledged() {
    let mut server = server();
    let mut client = client(&server).await;
    let (mut next, mut acknowledged) = (1, BTreeSet::new());
    for _ in 0..3 {
        let before = image(client.replica());
        let (after, more) = write_until_lost(&mut client, &mut server, next).await;
        next = after;
        acknowledged.extend(more);
        let seen = image(client.replica());
        assert!(seen.len() >= before.len() + 20);
        server.serve();
        let report = synced(&mut client).await;
        let rows = database(&mut client).await;
        assert_eq!(image(client.replica()), rows);
        assert_eq!(by_row(report.changes, client.replica()), difference(&seen, &rows, client.replica()));
        for n in &acknowledged {
            assert!(rows.contains_key(&("Thing".to_owned(), id(*n))), "acknowledged {n} is gone");
        }
    }
}

#[tokio::test]
async fn the_events_of_a_broken_connection_come_in_order() {
    let mut server = server();
    let mut client = client(&server).await;
    client.session().want_lock("l", false);
    event(&mut client, Event::Locked("l".into())).await;
    done(&mut client, vec![thing(1)]).await;
    server.signal("STOP");
    let lost = client.session().transact(&Transaction::new(vec![thing(2)])).unwrap();
    let call = client.session().call("list_dbs", "[]").unwrap();
    server.kill();
    let mut events = Vec::new();
    until(&mut client, |event| {
        let last = matches!(&event, ClientEvent::Session(Event::Replied(..)));
        events.push(event);
        last.then_some(())
    })
    .await;
    let mut events = events.into_iter();
    let changed = events.next();
    assert!(matches!(changed, Some(ClientEvent::Session(Event::Changed(_)))), "{changed:?}");
    assert!(matches!(events.next(), Some(ClientEvent::Disconnected { .. })));
    let rest: Vec<Event> =
        events.filter_map(|e| if let ClientEvent::Session(e) = e { Some(e) } else { None }).collect();
    assert_eq!(
        rest,
        [
            Event::LockLost("l".into()),
            Event::Transacted(lost, TransactOutcome::Lost),
            Event::Replied(call, Err("the connection was lost".into())),
        ]
    );
    assert!(!client.session().holds_lock("l"));
    assert!(client.session().transact(&Transaction::new(vec![thing(3)])).is_err(), "not ready");
    server.serve();
    event(&mut client, Event::Locked("l".into())).await;
}

#[tokio::test]
async fn dropping_a_future_loses_no_event_and_no_write() {
    let server = server();
    let mut client = client(&server).await;
    for n in 1..=20 {
        let transaction = Transaction::new(vec![thing(n)]);
        tokio::select! {
            biased;
            _ = client.transact(&transaction) => {}
            () = std::future::ready(()) => {}
        }
    }
    let mut inserted = BTreeSet::new();
    until(&mut client, |event| {
        if let ClientEvent::Session(Event::Changed(changes)) = event {
            inserted
                .extend(changes.iter().filter(|c| c.kind == ChangeKind::Insert).map(|c| c.uuid.as_u128()));
        }
        (inserted.len() == 20).then_some(())
    })
    .await;
    assert_eq!(inserted, (1..=20).collect());
}

#[tokio::test]
async fn two_writers_of_the_same_rows_end_with_the_same_picture() {
    let server = server();
    let (mut one, mut two) = (client(&server).await, client(&server).await);
    done(&mut one, (1..=5).map(thing).collect()).await;
    for round in 0..40 {
        for (client, mark) in [(&mut one, "one"), (&mut two, "two")] {
            let row =
                update(1 + round % 5, [("note", mark.into()), ("labels", Datum::str_map([(mark, "x")]))]);
            client.session().transact(&Transaction::new(vec![row])).unwrap();
        }
    }
    // Both insert the same row: exactly one succeeds.
    let outcomes = [transact(&mut one, vec![thing(9)]).await, transact(&mut two, vec![thing(9)]).await];
    assert_eq!(outcomes.iter().filter(|o| matches!(o, TransactOutcome::Done(_))).count(), 1, "{outcomes:?}");
    let want = database(&mut one).await;
    assert_eq!(database(&mut two).await, want);
    one.call("list_dbs", "[]").await.unwrap();
    assert_eq!((image(one.replica()), image(two.replica())), (want.clone(), want));
}
