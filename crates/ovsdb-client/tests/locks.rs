//! Locks on a real server: queueing, release, theft, and what a transaction may do without one.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_ovsdb_client::Client;
use causeway_ovsdb_client::ovsdb::{Event, Op, Str};
use support::*;

fn lock() -> Str {
    "zone".into()
}

fn assert_lock() -> Vec<Op> {
    vec![Op::Assert { lock: lock() }, Op::Comment("guarded".into())]
}

/// Everything that the client asked for is through.
async fn settle(client: &mut Client) {
    client.call("list_dbs", "[]").await.unwrap();
}

#[tokio::test]
async fn a_lock_is_queued_for_and_handed_on() {
    let server = server();
    let (mut one, mut two) = (client(&server).await, client(&server).await);
    one.session().want_lock(lock(), false);
    event(&mut one, Event::Locked(lock())).await;
    two.session().want_lock(lock(), false);
    settle(&mut two).await;
    assert!(one.session().holds_lock("zone") && !two.session().holds_lock("zone"));
    done(&mut one, assert_lock()).await;
    let error = failed(&mut two, assert_lock()).await;
    assert_eq!((error.op, error.error.as_str()), (Some(0), "not owner"));
    one.session().release_lock("zone");
    event(&mut one, Event::LockLost(lock())).await;
    event(&mut two, Event::Locked(lock())).await;
    done(&mut two, assert_lock()).await;
    failed(&mut one, assert_lock()).await;
}

#[tokio::test]
async fn who_stops_waiting_does_not_get_it() {
    let server = server();
    let (mut one, mut two) = (client(&server).await, client(&server).await);
    one.session().want_lock(lock(), false);
    event(&mut one, Event::Locked(lock())).await;
    two.session().want_lock(lock(), false);
    two.session().release_lock("zone");
    two.session().release_lock("never wanted");
    settle(&mut two).await;
    one.session().release_lock("zone");
    settle(&mut one).await;
    failed(&mut two, assert_lock()).await;
    one.session().want_lock(lock(), false);
    event(&mut one, Event::Locked(lock())).await;
}

#[tokio::test]
async fn a_thief_takes_it_and_the_owner_gets_it_back_afterwards() {
    let server = server();
    let (mut owner, mut thief) = (client(&server).await, client(&server).await);
    owner.session().want_lock(lock(), false);
    event(&mut owner, Event::Locked(lock())).await;
    thief.session().want_lock(lock(), true);
    event(&mut thief, Event::Locked(lock())).await;
    event(&mut owner, Event::LockLost(lock())).await;
    failed(&mut owner, assert_lock()).await;
    done(&mut thief, assert_lock()).await;
    thief.session().release_lock("zone");
    settle(&mut thief).await;
    event(&mut owner, Event::Locked(lock())).await;
    done(&mut owner, assert_lock()).await;
}

#[tokio::test]
async fn asking_again_is_harmless_and_patience_can_turn_into_theft() {
    let server = server();
    let (mut one, mut two) = (client(&server).await, client(&server).await);
    for _ in 0..2 {
        one.session().want_lock(lock(), false);
    }
    event(&mut one, Event::Locked(lock())).await;
    two.session().want_lock(lock(), false);
    two.session().want_lock(lock(), false);
    settle(&mut two).await;
    two.session().want_lock(lock(), true);
    event(&mut two, Event::Locked(lock())).await;
    event(&mut one, Event::LockLost(lock())).await;
    one.session().want_lock(lock(), true);
    event(&mut one, Event::Locked(lock())).await;
    event(&mut two, Event::LockLost(lock())).await;
    two.session().want_lock(lock(), true);
    event(&mut two, Event::Locked(lock())).await;
    done(&mut two, assert_lock()).await;
}

#[tokio::test]
async fn a_lock_wanted_before_the_connection_comes_with_it_and_goes_with_it() {
    let mut server = server();
    let mut one = Client::new(config(&server.remote()));
    one.session().want_lock(lock(), false);
    // Asked for again in the middle of the handshake.
    until(&mut one, |e| matches!(e, causeway_ovsdb_client::ClientEvent::Connected(_)).then_some(())).await;
    one.session().want_lock(lock(), false);
    event(&mut one, Event::Locked(lock())).await;
    synced(&mut one).await;
    let mut two = client(&server).await;
    two.session().want_lock(lock(), false);
    settle(&mut two).await;
    server.kill();
    event(&mut one, Event::LockLost(lock())).await;
    server.serve();
    // Either may be first now; the one that is not gets it when the other gives it up.
    synced(&mut one).await;
    synced(&mut two).await;
    settle(&mut one).await;
    settle(&mut two).await;
    assert!(one.session().holds_lock("zone") != two.session().holds_lock("zone"));
    let (first, mut second) = if one.session().holds_lock("zone") { (one, two) } else { (two, one) };
    drop(first);
    event(&mut second, Event::Locked(lock())).await;
    done(&mut second, assert_lock()).await;
}
