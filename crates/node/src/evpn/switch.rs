//! What the node's switch says: which chassis this is, where the southbound database is, which bridges there are, and the numbers of
//! their ports.

use std::collections::BTreeMap;

use causeway_evpn::Node;
use causeway_ovn::generated::vswitch::DATABASE;
use causeway_ovsdb_client::ovsdb::{Atom, Datum, MonitorTable, Replica, RowRef, SessionConfig, Str, Uuid};
use causeway_ovsdb_client::{Client, ClientConfig, Remote, TlsFiles};

const SWITCH: &str = "Open_vSwitch";
const BRIDGE: &str = "Bridge";
const PORT: &str = "Port";
const INTERFACE: &str = "Interface";

/// What the switch says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SwitchSeen {
    /// `system-id`.
    pub(super) chassis: Option<String>,
    /// `ovn-remote`.
    pub(super) southbound: Option<String>,
    /// `ovn-bridge`.
    pub(super) integration: String,
    /// `ovn-bridge-mappings`.
    pub(super) mappings: BTreeMap<String, String>,
    /// Ports with their numbers, of all bridges but OVN's own.
    pub(super) numbers: BTreeMap<String, BTreeMap<String, u32>>,
}

/// A client that holds what the agent asks for.
pub(super) fn client(remote: Remote, tls: Option<TlsFiles>) -> Client {
    let table = |name: &str, columns: &[&str]| MonitorTable {
        columns: columns.iter().map(|name| Str::from(*name)).collect(),
        ..MonitorTable::whole(name)
    };
    let mut session = SessionConfig::new(DATABASE);
    session.tables = vec![
        table(SWITCH, &["external_ids"]),
        table(BRIDGE, &["name", "ports"]),
        table(PORT, &["name", "interfaces"]),
        table(INTERFACE, &["name", "ofport"]),
    ];
    Client::new(ClientConfig { tls, ..ClientConfig::new(session, vec![remote]) })
}

/// What a complete replica says.
pub(super) fn look(replica: &Replica) -> SwitchSeen {
    let own = replica.table(SWITCH).and_then(|table| replica.rows(table).next());
    let said = |key: &str| {
        let ids = own.and_then(|row| row.get("external_ids"));
        ids.and_then(|ids| ids.get(key)).map(ToString::to_string).filter(|text| !text.is_empty())
    };
    let integration = said("ovn-bridge").unwrap_or_else(|| "br-int".into());
    let bridges = replica.table(BRIDGE).into_iter().flat_map(|table| replica.rows(table));
    // OVN's own has a port for every machine, and nobody asks for these.
    let bridges = bridges.filter_map(|row| Some((text(row, "name")?, row)));
    let bridges = bridges.filter(|(name, _)| *name != integration);
    let numbers = bridges.map(|(name, row)| (name, ports(replica, row))).collect();
    SwitchSeen {
        chassis: said("system-id"),
        southbound: said("ovn-remote"),
        mappings: Node::read_mappings(&said("ovn-bridge-mappings").unwrap_or_default()),
        numbers,
        integration,
    }
}

/// The ports of a bridge that the switch has opened.
fn ports(replica: &Replica, bridge: RowRef<'_>) -> BTreeMap<String, u32> {
    let members = |row: RowRef<'_>, column: &str| -> Vec<Uuid> {
        let atoms = row.get(column).map(Datum::atoms).unwrap_or_default();
        atoms.iter().filter_map(Atom::as_uuid).collect()
    };
    let row = |table: &str, uuid: Uuid| replica.table(table).and_then(|table| replica.row(table, uuid));
    let mut found = BTreeMap::new();
    for port in members(bridge, "ports").into_iter().filter_map(|uuid| row(PORT, uuid)) {
        for interface in members(port, "interfaces").into_iter().filter_map(|uuid| row(INTERFACE, uuid)) {
            let number = interface.get("ofport").and_then(Datum::one).and_then(Atom::as_integer);
            let number = number.and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
            found.extend(text(interface, "name").zip(number));
        }
    }
    found
}

fn text(row: RowRef<'_>, column: &str) -> Option<String> {
    row.get(column).and_then(Datum::as_str).map(ToString::to_string)
}
