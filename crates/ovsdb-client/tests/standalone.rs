//! The client against a real standalone server.

#![allow(clippy::unwrap_used)]

use causeway_ovsdb_client::ovsdb::{
    Datum, MonitorTable, Op, SessionConfig, TransactOutcome, Transaction, Uuid,
};
use causeway_ovsdb_client::{Client, ClientConfig};
use causeway_testing::{OvsdbServer, schema_file};
use std::time::Duration;

fn client(server: &OvsdbServer) -> Client {
    let mut session = SessionConfig::new("OVN_Northbound");
    session.tables = vec![MonitorTable::whole("Logical_Switch"), MonitorTable::whole("Logical_Switch_Port")];
    Client::new(ClientConfig::new(session, vec![server.remote().parse().unwrap()]))
}

#[tokio::test]
async fn an_insert_with_our_uuid_arrives_in_the_replica_before_its_reply() {
    let server = OvsdbServer::start(&schema_file("ovn-nb"));
    let mut client = client(&server);
    client.synced(Duration::from_secs(10)).await.unwrap();
    let uuid = Uuid::from_u128(42);
    let insert = Op::Insert {
        table: "Logical_Switch".into(),
        uuid: Some(uuid),
        name: None,
        row: vec![("name".into(), Datum::from("blue"))],
    };
    let outcome = client.transact(&Transaction::new(vec![insert.clone()])).await;
    assert!(matches!(outcome, TransactOutcome::Done(_)), "{outcome:?}");
    let replica = client.replica();
    let row = replica.row(replica.table("Logical_Switch").unwrap(), uuid).unwrap();
    assert_eq!(row.get("name"), Some(&Datum::from("blue")));
    let TransactOutcome::Failed(error) = client.transact(&Transaction::new(vec![insert])).await else {
        panic!("a repeated insert went through")
    };
    assert_eq!((error.op, error.error.as_str()), (Some(0), "duplicate uuid"));
}
