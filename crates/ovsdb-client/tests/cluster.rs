//! Three real servers of one database: who leads, what happens when the leader dies, and resuming where another
//! server left off.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_ovsdb_client::ovsdb::{Atom, Condition, Datum, Event, Function, Op, TransactOutcome};
use causeway_ovsdb_client::{Client, ClientConfig, ClientEvent};
use causeway_testing::{Cluster, OvsdbServer};
use support::*;

fn thing(n: u128) -> Op {
    insert("Thing", n, [("name", n.to_string().as_str().into()), ("number", integer(n as i64))])
}

fn leader_only(cluster: &Cluster) -> ClientConfig {
    let mut config = config(&cluster.remotes());
    config.session.leader_only = true;
    config
}

/// The remote with which the client became complete, and the reasons why others were not good enough.
async fn where_synced(client: &mut Client) -> (String, Vec<String>) {
    let (mut at, mut reasons) = (String::new(), Vec::new());
    until(client, |event| match event {
        ClientEvent::Connected(remote) => {
            at = remote.to_string();
            None
        }
        ClientEvent::Disconnected { reason, .. } => {
            reasons.push(reason);
            None
        }
        ClientEvent::Session(Event::Synced(_)) => Some(()),
        ClientEvent::Session(_) => None,
    })
    .await;
    (at, reasons)
}

/// Writes a row through whatever happens.
async fn write(client: &mut Client, n: u128) {
    loop {
        match transact(client, vec![thing(n)]).await {
            TransactOutcome::Done(_) => {
                let there = image(client.replica()).contains_key(&("Thing".to_owned(), id(n)));
                return assert!(there, "the update comes before the reply");
            }
            TransactOutcome::Failed(error) if error.error == "duplicate uuid" => return,
            // Refused by a server that has just stopped to lead, or gone with it.
            TransactOutcome::Failed(_) | TransactOutcome::Lost => {
                if !client.session().is_synced() {
                    synced(client).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_client_of_the_leader_follows_it_and_no_acknowledged_write_is_lost() {
    let mut cluster = Cluster::start(&lab(), 3);
    let mut client = Client::new(leader_only(&cluster));
    let (at, reasons) = where_synced(&mut client).await;
    let leader = cluster.leader();
    assert_eq!(at, cluster.servers[leader].remote());
    assert!(reasons.iter().all(|r| r.contains("not the leader of Lab")), "{reasons:?}");
    for n in 1..=30 {
        write(&mut client, n).await;
        if n == 15 {
            cluster.servers[leader].kill();
        }
    }
    let (new_leader, follower) = (cluster.leader(), (0..3).find(|i| *i != leader && *i != cluster.leader()));
    assert_ne!(new_leader, leader);
    let rows = database(&mut client).await;
    assert_eq!(rows.len(), 30);
    assert_eq!(image(client.replica()), rows);
    // The follower and the old leader, once it is back, have them too.
    cluster.servers[leader].serve();
    for i in [follower.unwrap(), leader] {
        let mut reader = start(config(&cluster.servers[i].remote())).await;
        catch_up(&mut reader, rows.len()).await;
        assert_eq!(image(reader.replica()), rows);
    }
}

/// A server may be behind when a client comes.
async fn catch_up(client: &mut Client, rows: usize) {
    while image(client.replica()).len() < rows {
        until(client, |event| matches!(event, ClientEvent::Session(Event::Changed(_))).then_some(())).await;
    }
}

#[tokio::test]
async fn the_leader_that_steps_down_is_left() {
    let cluster = Cluster::start(&lab(), 3);
    let mut client = Client::new(leader_only(&cluster));
    where_synced(&mut client).await;
    let old = cluster.leader();
    // As it happens before a snapshot.
    let words = cluster.servers[old].control(&["cluster/failure-test", "transfer-leadership"]);
    assert!(words.contains("engaged"), "{words}");
    let reason = disconnected(&mut client).await;
    assert!(reason.contains("not the leader of Lab") || reason.contains("cut off"), "{reason}");
    synced(&mut client).await;
    write(&mut client, 1).await;
    assert_eq!(image(client.replica()), database(&mut client).await);
}

/// A client of the server at `first` that goes on with the others when that dies.
async fn client_of(cluster: &Cluster, first: usize) -> Client {
    let others = cluster.servers.iter().enumerate().filter(|(i, _)| *i != first);
    let mut remotes = vec![cluster.servers[first].remote()];
    remotes.extend(others.map(|(_, s)| s.remote()));
    start(config(&remotes.join(","))).await
}

async fn settle(server: &OvsdbServer, rows: usize) {
    catch_up(&mut start(config(&server.remote())).await, rows).await;
}

#[tokio::test]
async fn another_server_sends_only_what_was_missed() {
    let mut cluster = Cluster::start(&lab(), 3);
    let leader = cluster.leader();
    let victim = (leader + 1) % 3;
    let mut client = client_of(&cluster, victim).await;
    // Through a follower too.
    write(&mut client, 1).await;
    let mut writer = client_of(&cluster, leader).await;
    done(&mut writer, (2..=60).map(thing).collect()).await;
    catch_up(&mut client, 60).await;
    // Conditions that are in force do not stand in the way of resuming.
    let above = Condition { column: "number".into(), function: Function::Greater, value: integer(10) };
    client.session().set_conditions("Thing", vec![above]);
    event(&mut client, Event::ConditionsInForce).await;
    done(&mut writer, vec![update(30, [("note", "seen".into())])]).await;
    let seen = Datum::from("seen");
    while image(client.replica())[&("Thing".to_owned(), id(30))]["note"] != seen {
        until(&mut client, |event| matches!(event, ClientEvent::Session(Event::Changed(_))).then_some(()))
            .await;
    }
    let before = image(client.replica());
    assert_eq!(before.len(), 50);
    cluster.servers[victim].kill();
    let missed = vec![
        thing(70),
        delete("Thing", 20),
        update(21, [("numbers", integers([1, 2])), ("flag", Atom::Boolean(true).into())]),
        update(22, [("number", integer(3))]),
        update(2, [("number", integer(99))]),
        delete("Thing", 5),
    ];
    done(&mut writer, missed).await;
    for other in [leader, (leader + 2) % 3] {
        settle(&cluster.servers[other], 59).await;
    }
    let report = synced(&mut client).await;
    assert!(report.resumed && !report.first);
    let mut after = database(&mut writer).await;
    after.retain(|_, row| row["number"].one() > Some(&Atom::Integer(10)));
    assert_eq!(image(client.replica()), after);
    let told = by_row(report.changes, client.replica());
    assert_eq!(told.len(), 5);
    assert_eq!(told, difference(&before, &after, client.replica()));
}

#[tokio::test]
async fn a_server_cut_off_from_its_cluster_is_not_used() {
    let mut cluster = Cluster::start(&lab(), 3);
    let survivor = cluster.leader();
    for other in (0..3).filter(|i| *i != survivor) {
        cluster.servers[other].kill();
    }
    let mut client = Client::new(config(&cluster.servers[survivor].remote()));
    let reason = until(&mut client, |event| match event {
        ClientEvent::Disconnected { reason, .. } if reason.contains("cut off") => Some(reason),
        _ => None,
    });
    assert!(reason.await.contains("of Lab"));
    for other in (0..3).filter(|i| *i != survivor) {
        cluster.servers[other].serve();
    }
    synced(&mut client).await;
    write(&mut client, 1).await;
}

#[tokio::test]
async fn a_relay_is_used_once_it_has_its_source() {
    let mut source = server();
    source.kill();
    let relay = source.relay("Lab");
    let mut client = Client::new(config(&relay.remote()));
    let reason = disconnected(&mut client).await;
    assert!(reason.contains("cut off from the other servers of Lab"), "{reason}");
    source.serve();
    synced(&mut client).await;
    done(&mut client, vec![thing(1)]).await;
    assert_eq!(database(&mut start(config(&source.remote())).await).await, image(client.replica()));
}
