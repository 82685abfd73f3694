//! The southbound database: its rows become records here, once.

use std::collections::BTreeMap;

use causeway_evpn::{Agent, Port, RawPort, Uuid};
use causeway_ovn::generated::sb::DATABASE;
use causeway_ovsdb_client::ovsdb::{
    Atom, Change, ChangeKind, Datum, MonitorTable, Replica, RowRef, SessionConfig, Str,
};
use causeway_ovsdb_client::{Client, ClientConfig, Remote, TlsFiles};

const PORTS: &str = "Port_Binding";
const CHASSIS: &str = "Chassis";
const NAME: &str = "logical_port";

/// A client that holds what the agent asks for.
pub(super) fn client(remotes: Vec<Remote>, tls: Option<TlsFiles>) -> Client {
    let columns = |names: &[&str]| names.iter().map(|name| Str::from(*name)).collect();
    let mut session = SessionConfig::new(DATABASE);
    session.tables = vec![
        MonitorTable {
            columns: columns(&[NAME, "type", "datapath", "chassis", "mac", "tag", "options", "external_ids"]),
            index: Some(|row| row.get(NAME).and_then(Datum::as_str).cloned()),
            ..MonitorTable::whole(PORTS)
        },
        MonitorTable { columns: columns(&["name"]), ..MonitorTable::whole(CHASSIS) },
    ];
    Client::new(ClientConfig { tls, ..ClientConfig::new(session, remotes) })
}

/// Tells the agent everything that the replica has.
pub(super) fn tell_all(replica: &Replica, agent: &mut Agent) {
    let rows = |table: &str| replica.table(table).into_iter().flat_map(|table| replica.rows(table));
    let ports: BTreeMap<String, Port> =
        rows(PORTS).filter_map(|row| Some((text(row, NAME)?, Port::read(&raw(row))?))).collect();
    let chassis = rows(CHASSIS).filter_map(|row| Some((row.uuid, text(row, "name")?))).collect();
    agent.replace(ports, chassis);
}

/// Tells the agent what has changed. A row is looked up by its name: one that was made again is there although one has gone.
pub(super) fn tell(replica: &Replica, changes: &[Change], agent: &mut Agent) {
    for change in changes {
        let row = replica.row(change.table, change.uuid);
        if replica.table(CHASSIS) == Some(change.table) {
            agent.set_chassis(change.uuid, row.and_then(|row| text(row, "name")));
        } else if let Some(name) = name_of(replica, change) {
            agent.set_port(&name, lookup(replica, &name));
        }
    }
}

fn name_of(replica: &Replica, change: &Change) -> Option<String> {
    let layout = replica.layout(change.table);
    let row = match &change.kind {
        ChangeKind::Delete(row) => RowRef { layout, uuid: change.uuid, row },
        _ => replica.row(change.table, change.uuid)?,
    };
    text(row, NAME)
}

fn lookup(replica: &Replica, name: &str) -> Option<Port> {
    let table = replica.table(PORTS)?;
    let (_, uuid) = replica.range(table, name).find(|(key, _)| key.as_str() == name)?;
    Port::read(&raw(replica.row(table, uuid)?))
}

fn text(row: RowRef<'_>, column: &str) -> Option<String> {
    row.get(column).and_then(Datum::as_str).map(ToString::to_string)
}

fn raw(row: RowRef<'_>) -> RawPort {
    let uuid = |column: &str| row.get(column).and_then(Datum::one).and_then(Atom::as_uuid);
    let map = |column: &str| -> BTreeMap<String, String> {
        let pairs = row.get(column).map(Datum::pairs).unwrap_or_default();
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    };
    let macs = row.get("mac").map(Datum::atoms).unwrap_or_default();
    RawPort {
        kind: text(row, "type").unwrap_or_default(),
        datapath: uuid("datapath").unwrap_or(Uuid::nil()),
        chassis: uuid("chassis"),
        mac: macs.iter().filter_map(Atom::as_str).map(ToString::to_string).collect(),
        tag: row
            .get("tag")
            .and_then(Datum::one)
            .and_then(Atom::as_integer)
            .and_then(|tag| tag.try_into().ok()),
        options: map("options"),
        external_ids: map("external_ids"),
    }
}
