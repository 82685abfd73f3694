//! From what shall be there and what is, to the operations that are missing. No operation where nothing is missing.

use super::error::Error;
use super::look::{BRIDGE, IFACE_ID, INTERFACE, PORT, SANDBOX, SeenPort, Switch};
use causeway_ovsdb_client::ovsdb::{
    Atom, Condition, Datum, Mutation, Mutator, Name, Op, Str, Transaction, Uuid, WaitUntil,
};
use causeway_types::Mac;
use std::collections::BTreeMap;

/// How much of a sandbox's name every name of its links begins with.
pub(super) const SANDBOX_PREFIX: usize = 11;

/// What the controller writes beside our ids: it starts anew when a port becomes another.
const BY_CONTROLLER: [&str; 3] = ["ovn-installed", "ovn-installed-ts", "ovn-egress-iface"];

/// One interface of a pod, as its rows in `Port` and `Interface` shall be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodPort {
    /// The name of the host's link.
    pub name: String,
    /// The logical port.
    pub iface_id: String,
    /// The pod's UID.
    pub uid: String,
    /// The pod's sandbox.
    pub sandbox: String,
    /// The name of the pod's interface.
    pub interface: String,
    /// The MAC address of the pod's interface.
    pub mac: Mac,
    /// The addresses of the pod's interface, with prefix lengths.
    pub addresses: Vec<String>,
    /// The network's name and the NAD; `None` for the default network.
    pub network: Option<(String, String)>,
}

impl PodPort {
    fn ids(&self) -> BTreeMap<&'static str, String> {
        let mut ids = BTreeMap::from([
            ("attached_mac", self.mac.to_string()),
            (IFACE_ID, self.iface_id.clone()),
            ("iface-id-ver", self.uid.clone()),
            (SANDBOX, self.sandbox.clone()),
            ("pod-if-name", self.interface.clone()),
            ("ip_addresses", self.addresses.join(",")),
        ]);
        if let Some((network, nad)) = &self.network {
            ids.insert("k8s.ovn.org/network", network.clone());
            ids.insert("k8s.ovn.org/nad", nad.clone());
        }
        ids
    }
}

/// Makes ports of pods. Whoever else says to be the same logical port goes in the same transaction: it is an earlier
/// sandbox of the pod, and two would fight for the port.
pub(super) fn ensure_pods(switch: Switch<'_>, bridge: &str, ports: &[PodPort]) -> Result<Transaction, Error> {
    let bridge = switch.bridge(bridge)?;
    let mut change = Change::default();
    for port in ports {
        for stray in switch.with_iface_id(&port.iface_id).filter(|stray| stray.name() != port.name.as_str()) {
            change.remove(&stray);
        }
        let ids = port.ids();
        match switch.port(&port.name) {
            None => change.insert(bridge, &port.name, Vec::new(), &ids, true),
            Some(seen) if seen.id(SANDBOX).is_some_and(|s| s == port.sandbox.as_str()) => {
                change.set_ids(&seen, &ids)
            }
            Some(_) => return Err(Error::Foreign(port.name.clone())),
        }
    }
    Ok(change.transaction())
}

/// Removes the ports of a sandbox.
pub(super) fn remove_sandbox(switch: Switch<'_>, sandbox: &str) -> (Transaction, Vec<String>) {
    let mut change = Change::default();
    let mut names = Vec::new();
    for port in switch.of_sandbox(sandbox) {
        change.remove(&port);
        names.push(port.name().to_string());
    }
    (change.transaction(), names)
}

/// What changes, gathered so that each bridge's set of ports changes once.
#[derive(Default)]
pub(super) struct Change {
    ops: Vec<Op>,
    /// By bridge: ports that go, ports that come.
    sets: BTreeMap<Uuid, (Vec<Atom>, Vec<Atom>)>,
}

impl Change {
    pub(super) fn insert(
        &mut self,
        bridge: Uuid,
        name: &str,
        mut columns: Vec<(Name, Datum)>,
        ids: &BTreeMap<&str, String>,
        transient: bool,
    ) {
        let symbol = |kind: &str, number: usize| Str::from(format!("{kind}{number}"));
        let (interface, port) = (symbol("interface", self.ops.len()), symbol("port", self.ops.len()));
        columns.push(("name".into(), name.into()));
        columns.push(("external_ids".into(), Datum::str_map(pairs(ids))));
        self.ops.push(Op::Insert {
            table: INTERFACE.into(),
            uuid: None,
            name: Some(interface.clone()),
            row: columns,
        });
        let mut row: Vec<(Name, Datum)> =
            vec![("name".into(), name.into()), ("interfaces".into(), Atom::Named(interface).into())];
        if transient {
            // A reboot takes the pod away, and its port with it.
            row.push(("other_config".into(), Datum::str_map([("transient", "true")])));
        }
        self.ops.push(Op::Insert { table: PORT.into(), uuid: None, name: Some(port.clone()), row });
        self.sets.entry(bridge).or_default().1.push(Atom::Named(port));
    }

    /// A port that no bridge has is collected by the database itself.
    pub(super) fn remove(&mut self, port: &SeenPort<'_>) {
        if let Some(bridge) = port.bridge {
            self.sets.entry(bridge).or_default().0.push(port.uuid.into());
        }
    }

    pub(super) fn set_ids(&mut self, port: &SeenPort<'_>, ids: &BTreeMap<&str, String>) {
        if ids.iter().all(|(key, value)| port.id(key).is_some_and(|is| is == value.as_str())) {
            return;
        }
        let gone = ids.keys().copied().chain(BY_CONTROLLER).map(Atom::from);
        let mutation = |mutator, value| Mutation { column: "external_ids".into(), mutator, value };
        self.ops.push(Op::Mutate {
            table: INTERFACE.into(),
            conditions: vec![Condition::uuid(port.interface.uuid)],
            mutations: vec![
                mutation(Mutator::Delete, Datum::set(gone)),
                mutation(Mutator::Insert, Datum::str_map(pairs(ids))),
            ],
        });
    }

    pub(super) fn set_columns(&mut self, port: &SeenPort<'_>, columns: Vec<(Name, Datum)>) {
        let differs = |(name, value): &(Name, Datum)| port.interface.get(name) != Some(value);
        let row: Vec<(Name, Datum)> = columns.into_iter().filter(differs).collect();
        if !row.is_empty() {
            let conditions = vec![Condition::uuid(port.interface.uuid)];
            self.ops.push(Op::Update { table: INTERFACE.into(), conditions, row });
        }
    }

    pub(super) fn transaction(self) -> Transaction {
        // Without it a port for a bridge that has just gone would be lost with success.
        let waits = self.sets.keys().map(|bridge| Op::Wait {
            table: BRIDGE.into(),
            conditions: vec![Condition::uuid(*bridge)],
            columns: vec!["_uuid".into()],
            until: WaitUntil::Equal,
            rows: vec![vec![("_uuid".into(), Datum::One((*bridge).into()))]],
            timeout: Some(0),
        });
        let mut ops: Vec<Op> = waits.collect();
        ops.extend(self.ops);
        for (bridge, (gone, new)) in self.sets {
            let sets = [(Mutator::Delete, gone), (Mutator::Insert, new)];
            let mutations =
                sets.into_iter().filter(|(_, ports)| !ports.is_empty()).map(|(mutator, ports)| Mutation {
                    column: "ports".into(),
                    mutator,
                    value: Datum::set(ports),
                });
            let conditions = vec![Condition::uuid(bridge)];
            ops.push(Op::Mutate { table: BRIDGE.into(), conditions, mutations: mutations.collect() });
        }
        Transaction::new(ops)
    }
}

fn pairs(ids: &BTreeMap<&str, String>) -> impl Iterator<Item = (Str, Str)> {
    ids.iter().map(|(key, value)| (Str::from(*key), Str::from(value.as_str())))
}
