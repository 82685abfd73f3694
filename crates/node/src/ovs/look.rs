//! What the replica of the switch's database says.

use super::error::Error;
use causeway_ovsdb_client::ovsdb::{Atom, Datum, MonitorTable, Replica, RowRef, Str, TableId, Uuid};
use causeway_types::around::SwitchFacts;
use std::collections::BTreeMap;

pub(super) const BRIDGE: &str = "Bridge";
pub(super) const PORT: &str = "Port";
pub(super) const INTERFACE: &str = "Interface";
pub(super) const IFACE_ID: &str = "iface-id";
pub(super) const SANDBOX: &str = "sandbox";
/// Marks the node's own internal ports.
pub(super) const OWNER: &str = "k8s.ovn.org/owner-controller";
pub(super) const OWNER_VALUE: &str = "causeway-host";
/// The controller says so when packets can flow.
const INSTALLED: &str = "ovn-installed";
/// On its bridge the controller writes in which zone connections of a logical port are remembered.
const ZONE_OF: &str = "ct-zone-";

pub(super) const SWITCH: &str = "Open_vSwitch";
/// The type of a bridge whose packets are carried by the switch itself.
const USERSPACE: &str = "netdev";

/// The tables and columns that are held.
pub(super) fn monitored() -> Vec<MonitorTable> {
    let columns = |names: &[&str]| names.iter().map(|name| Str::from(*name)).collect();
    vec![
        MonitorTable { columns: columns(&["external_ids"]), ..MonitorTable::whole(SWITCH) },
        MonitorTable {
            columns: columns(&["name", "ports", "external_ids", "datapath_type"]),
            backrefs: columns(&["ports"]),
            ..MonitorTable::whole(BRIDGE)
        },
        MonitorTable {
            columns: columns(&["name", "interfaces"]),
            backrefs: columns(&["interfaces"]),
            index: Some(|row| text(row, "name")),
            ..MonitorTable::whole(PORT)
        },
        MonitorTable {
            columns: columns(&["name", "type", "external_ids", "ofport", "error", "mac", "mtu_request"]),
            index: Some(|row| id(row, IFACE_ID)),
            ..MonitorTable::whole(INTERFACE)
        },
    ]
}

pub(super) fn text(row: RowRef<'_>, column: &str) -> Option<Str> {
    row.get(column).and_then(Datum::as_str).cloned()
}

fn id(row: RowRef<'_>, key: &str) -> Option<Str> {
    row.get("external_ids").and_then(|ids| ids.get(key)).cloned()
}

/// A port of a pod, as the database has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodPortSeen {
    /// The name of the port, which is that of the host's link.
    pub name: String,
    /// The pod's sandbox.
    pub sandbox: String,
    /// The pod's UID.
    pub uid: String,
    /// The logical port.
    pub iface_id: String,
    /// The MAC address of the pod's end.
    pub mac: String,
    /// Whether packets can flow.
    pub installed: bool,
}

/// The switch as the replica has it.
#[derive(Clone, Copy)]
pub(super) struct Switch<'a> {
    replica: &'a Replica,
    bridges: TableId,
    ports: TableId,
    interfaces: TableId,
}

/// A port with its only interface.
#[derive(Clone, Copy)]
pub(super) struct SeenPort<'a> {
    pub(super) uuid: Uuid,
    pub(super) bridge: Option<Uuid>,
    pub(super) interface: RowRef<'a>,
}

impl SeenPort<'_> {
    pub(super) fn id(&self, key: &str) -> Option<Str> {
        id(self.interface, key)
    }

    pub(super) fn name(&self) -> Str {
        text(self.interface, "name").unwrap_or_default()
    }
}

/// What somebody waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Milestone {
    /// The switch has opened the device.
    Opened,
    /// Packets can flow.
    Installed,
}

impl<'a> Switch<'a> {
    /// `None` while the schema is not known.
    pub(super) fn of(replica: &'a Replica) -> Option<Switch<'a>> {
        let table = |name| replica.table(name);
        let (bridges, ports, interfaces) = (table(BRIDGE)?, table(PORT)?, table(INTERFACE)?);
        Some(Switch { replica, bridges, ports, interfaces })
    }

    pub(super) fn is_interfaces(&self, table: TableId) -> bool {
        table == self.interfaces
    }

    pub(super) fn bridge(&self, name: &str) -> Result<Uuid, Error> {
        let found = self.replica.rows(self.bridges).find(|row| text(*row, "name").is_some_and(|n| n == name));
        found.map(|row| row.uuid).ok_or_else(|| Error::NoBridge(name.to_owned()))
    }

    pub(super) fn name_of_bridge(&self, bridge: Uuid) -> Option<String> {
        self.replica.row(self.bridges, bridge).and_then(|row| text(row, "name")).map(|name| name.to_string())
    }

    pub(super) fn bridge_rows(&self) -> impl Iterator<Item = RowRef<'a>> + use<'a> {
        self.replica.rows(self.bridges)
    }

    /// A row of a table by its name.
    pub(super) fn row(&self, table: &str, uuid: Uuid) -> Option<RowRef<'a>> {
        self.replica.row(self.replica.table(table)?, uuid)
    }

    /// The row of the switch itself.
    pub(super) fn own(&self) -> Option<RowRef<'a>> {
        self.replica.table(SWITCH).and_then(|table| self.replica.rows(table).next())
    }

    /// What the switch says of itself.
    pub(super) fn facts(&self) -> SwitchFacts {
        let row = self.own();
        let said = |key: &str| row.and_then(|row| id(row, key));
        let addresses = said("ovn-encap-ip").unwrap_or_default();
        let mut types = self.bridge_rows().filter_map(|bridge| text(bridge, "datapath_type"));
        SwitchFacts {
            userspace: types.any(|kind| kind == USERSPACE),
            chassis: said("system-id").map(|name| name.to_string()),
            encap_ips: addresses.split(',').filter_map(|address| address.trim().parse().ok()).collect(),
        }
    }

    pub(super) fn port(&self, name: &str) -> Option<SeenPort<'a>> {
        self.replica
            .range(self.ports, name)
            .find(|(key, _)| key.as_str() == name)
            .and_then(|(_, uuid)| self.seen(uuid))
    }

    fn seen(&self, port: Uuid) -> Option<SeenPort<'a>> {
        let row = self.replica.row(self.ports, port)?;
        // Bonds have several; none of them is ours.
        let interface = row.get("interfaces").and_then(Datum::one).and_then(Atom::as_uuid)?;
        let interface = self.replica.row(self.interfaces, interface)?;
        let bridge = self.replica.parents(port).find(|(table, _, _)| *table == self.bridges);
        Some(SeenPort { uuid: port, bridge: bridge.map(|(_, _, uuid)| uuid), interface })
    }

    /// Ports that say they are this logical port.
    pub(super) fn with_iface_id(&self, iface_id: &'a str) -> impl Iterator<Item = SeenPort<'a>> + use<'a> {
        let (this, interfaces) = (*self, self.replica.range(self.interfaces, iface_id));
        let exact = interfaces.filter(move |(key, _)| key.as_str() == iface_id);
        exact.filter_map(move |(_, interface)| {
            let parents = this.replica.parents(interface);
            let mut ports = parents.filter(|(table, _, _)| *table == this.ports);
            ports.next().and_then(|(_, _, port)| this.seen(port))
        })
    }

    /// Ports of a sandbox. Their names begin with the sandbox's, as far as a link's name goes.
    pub(super) fn of_sandbox(&self, sandbox: &'a str) -> impl Iterator<Item = SeenPort<'a>> + use<'a> {
        let this = *self;
        let prefix = sandbox.get(..super::ops::SANDBOX_PREFIX).unwrap_or(sandbox);
        let near = self.replica.range(self.ports, prefix).filter_map(move |(_, uuid)| this.seen(uuid));
        near.filter(move |port| port.id(SANDBOX).is_some_and(|id| id == sandbox))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = SeenPort<'a>> + use<'a> {
        let this = *self;
        self.replica.rows(self.ports).filter_map(move |row| this.seen(row.uuid))
    }

    /// In which zone of the switch's memory the connections of a logical port are.
    pub(super) fn zones(&self, bridge: &str) -> BTreeMap<String, u16> {
        let bridge = self.bridge(bridge).ok().and_then(|uuid| self.replica.row(self.bridges, uuid));
        let ids = bridge.and_then(|row| row.get("external_ids")).map(Datum::pairs);
        let zone =
            |(key, value): &(Str, Str)| Some((key.strip_prefix(ZONE_OF)?.to_owned(), value.parse().ok()?));
        ids.into_iter().flatten().filter_map(zone).collect()
    }

    /// All ports of pods.
    pub(super) fn pods(&self) -> Vec<PodPortSeen> {
        let text = |id: Option<Str>| id.unwrap_or_default().to_string();
        let seen = |port: SeenPort<'_>| {
            Some(PodPortSeen {
                name: port.name().to_string(),
                sandbox: port.id(SANDBOX)?.to_string(),
                uid: text(port.id("iface-id-ver")),
                iface_id: text(port.id(IFACE_ID)),
                mac: text(port.id("attached_mac")),
                installed: is_installed(&port),
            })
        };
        self.all().filter_map(seen).collect()
    }

    /// How a port stands to a milestone; `None` while it is not there yet.
    pub(super) fn reached(
        &self,
        name: &str,
        iface_id: &str,
        milestone: Milestone,
    ) -> Option<Result<(), Error>> {
        let Some(port) = self.port(name) else { return Some(Err(Error::Gone(name.to_owned()))) };
        let is = port.id(IFACE_ID).unwrap_or_default();
        if is != iface_id {
            return Some(Err(Error::Replaced(name.to_owned(), is.to_string())));
        }
        if let Some(error) = text(port.interface, "error").filter(|error| !error.is_empty()) {
            return Some(Err(Error::Device(name.to_owned(), error.to_string())));
        }
        let there = match milestone {
            Milestone::Installed => is_installed(&port),
            Milestone::Opened => {
                let number = port.interface.get("ofport").and_then(Datum::one).and_then(Atom::as_integer);
                number.is_some_and(|number| number > 0)
            }
        };
        there.then_some(Ok(()))
    }
}

fn is_installed(port: &SeenPort<'_>) -> bool {
    port.id(INSTALLED).is_some_and(|word| word == "true")
}
