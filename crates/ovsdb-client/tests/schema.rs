//! Schemas that differ from what was asked for, or change under a connected client.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_ovsdb_client::Client;
use causeway_ovsdb_client::ovsdb::{Change, ChangeKind, Datum, MonitorTable, SessionConfig};
use std::path::PathBuf;
use support::*;

#[tokio::test]
async fn what_the_server_lacks_is_reported_by_name_and_the_rest_works() {
    let server = server();
    let mut config = config(&server.remote());
    let mut thing = MonitorTable::whole("Thing");
    thing.columns = ["name", "gone", "number", "lost"].map(Into::into).to_vec();
    config.session.tables = vec![MonitorTable::whole("Nowhere"), thing, MonitorTable::whole("Part")];
    let mut client = Client::new(config);
    assert_eq!(synced(&mut client).await.missing, ["Nowhere", "Thing.gone", "Thing.lost"]);
    done(&mut client, vec![insert("Thing", 1, [("name", "a".into()), ("note", "unasked".into())])]).await;
    let replica = client.replica();
    let table = replica.table("Thing").unwrap();
    assert_eq!((replica.table("Nowhere"), table.index()), (None, 1));
    let names: Vec<_> = replica.layout(table).columns().iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["name", "number"]);
    let row = replica.row(table, id(1)).unwrap();
    assert_eq!((row.get("name"), row.get("note")), (Some(&"a".into()), None));
}

/// The laboratory after an upgrade: `Thing` lost its references and its ratio and has a colour, `Part` is gone,
/// `Box` is new.
fn upgraded() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/lab-upgraded.ovsschema")
}

#[tokio::test]
async fn a_schema_that_changes_under_us_is_taken_over() {
    let server = server();
    let mut config = config(&server.remote());
    config.session.tables.push(MonitorTable::whole("Box"));
    let mut client = Client::new(config);
    assert_eq!(synced(&mut client).await.missing, ["Box"]);
    let labels = Datum::str_map([("k", "v")]);
    let ops = vec![
        insert("Part", 11, [("size", integer(3))]),
        insert("Thing", 1, [("name", "a".into()), ("parts", uuids([11])), ("labels", labels.clone())]),
        insert("Thing", 2, [("name", "b".into())]),
    ];
    done(&mut client, ops).await;
    let part = client.replica().table("Part").unwrap();
    server.convert(&upgraded());
    disconnected(&mut client).await;
    let report = synced(&mut client).await;
    assert!(!report.first);
    assert_eq!(report.missing, ["Part"]);
    let gone = vec!["".into(), integer(3)].into();
    assert_eq!(report.changes, [Change { table: part, uuid: id(11), kind: ChangeKind::Delete(gone) }]);
    let replica = client.replica();
    assert_eq!((replica.table("Part"), replica.table("Box").unwrap().index()), (None, 3));
    assert_eq!(replica.schema().unwrap().version, "2.0.0");
    done(
        &mut client,
        vec![update(1, [("colour", "red".into())]), insert("Box", 5, [("volume", integer(8))])],
    )
    .await;
    let image = image(client.replica());
    let row = &image[&("Thing".to_owned(), id(1))];
    assert_eq!((&row["colour"], &row["labels"], row.get("ratio")), (&"red".into(), &labels, None));
    assert_eq!(image[&("Box".to_owned(), id(5))]["volume"], integer(8));
}

#[tokio::test]
async fn the_servers_own_database_can_be_held_too() {
    let server = server();
    let mut config = config(&server.remote());
    config.session = SessionConfig::new("_Server");
    config.session.tables = vec![MonitorTable::whole("Database")];
    let client = start(config).await;
    let replica = client.replica();
    let rows = replica.rows(replica.table("Database").unwrap());
    let mut names: Vec<_> = rows.map(|row| row.get("name").unwrap().as_str().unwrap().clone()).collect();
    names.sort();
    assert_eq!(names, ["Lab", "_Server"]);
}
