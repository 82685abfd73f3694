//! A server stops reading while its output is unread, so a client that only writes would hang.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_ovsdb_client::ClientEvent;
use causeway_ovsdb_client::ovsdb::{Datum, Event, TransactOutcome, Transaction};
use support::*;

#[tokio::test]
async fn megabytes_are_written_while_as_many_come_back() {
    let server = server();
    let mut client = client(&server).await;
    let text = "x".repeat(100_000);
    for n in 1..=200 {
        let row =
            [("name", n.to_string().as_str().into()), ("labels", Datum::str_map([("text", text.as_str())]))];
        client.session().transact(&Transaction::new(vec![insert("Thing", n, row)])).unwrap();
    }
    let mut answers = 0;
    until(&mut client, |event| {
        if let ClientEvent::Session(Event::Transacted(_, outcome)) = event {
            assert!(matches!(outcome, TransactOutcome::Done(_)), "{outcome:?}");
            answers += 1;
        }
        (answers == 200).then_some(())
    })
    .await;
    let replica = client.replica();
    let table = replica.table("Thing").unwrap();
    assert_eq!(replica.len(table), 200);
    assert!(replica.rows(table).all(|row| row.get("labels").unwrap().get("text").unwrap() == &text));
}

#[tokio::test]
async fn a_row_beyond_the_limit_is_refused_and_a_smaller_one_is_not() {
    let server = server();
    let mut config = config(&server.remote());
    config.session.max_frame = 10_000;
    let mut limited = start(config).await;
    let labelled = |n: u128, size: usize| {
        let labels = Datum::str_map([("text", "x".repeat(size))]);
        insert("Thing", n, [("name", n.to_string().as_str().into()), ("labels", labels)])
    };
    done(&mut limited, vec![labelled(1, 8_000), labelled(2, 8_000)]).await;
    limited.session().transact(&Transaction::new(vec![labelled(3, 12_000)])).unwrap();
    assert_eq!(disconnected(&mut limited).await, "a message from the peer exceeds 10000 bytes");
}
