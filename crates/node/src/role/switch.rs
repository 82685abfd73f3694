//! What the node's Open vSwitch says of itself: the chassis' name and where its tunnels end. Only read, never written:
//! whoever installs the node sets it.

use std::net::IpAddr;

use causeway_ovn::generated::vswitch::DATABASE;
use causeway_ovsdb_client::ovsdb::{Datum, MonitorTable, Replica, SessionConfig};
use causeway_ovsdb_client::{Client, ClientConfig, Remote};
use causeway_runtime::Tasks;
use tokio::sync::watch;

use super::annotations::Switch;

const TABLE: &str = "Open_vSwitch";

/// Follows the database until nobody listens any more.
pub(super) fn follow(tasks: &mut Tasks, remote: Remote) -> watch::Receiver<Switch> {
    let (sender, receiver) = watch::channel(Switch::default());
    let mut session = SessionConfig::new(DATABASE);
    session.tables =
        vec![MonitorTable { columns: vec!["external_ids".into()], ..MonitorTable::whole(TABLE) }];
    let mut client = Client::new(ClientConfig::new(session, vec![remote]));
    tasks.start("chassis", async move {
        while !sender.is_closed() {
            client.next().await;
            // A database that is out of reach says nothing new.
            if client.session().is_synced() {
                let now = read(client.replica());
                sender.send_if_modified(|known| std::mem::replace(known, now.clone()) != now);
            }
        }
        "nobody listens any more".into()
    });
    receiver
}

fn read(replica: &Replica) -> Switch {
    let Some(table) = replica.table(TABLE) else { return Switch::default() };
    let Some(row) = replica.rows(table).next() else { return Switch::default() };
    let Some(Datum::StrMap(ids)) = row.get("external_ids") else { return Switch::default() };
    let text = |key: &str| ids.iter().find(|(k, _)| k.as_str() == key).map(|(_, value)| value.as_str());
    let addresses = text("ovn-encap-ip").unwrap_or_default().split(',');
    Switch {
        chassis: text("system-id").map(str::to_owned),
        encap_ips: addresses.filter_map(|address| address.trim().parse::<IpAddr>().ok()).collect(),
    }
}
