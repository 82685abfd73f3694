//! The node's internal ports as an output: planned items by key, read from the replica, compared like all others.

use super::error::Error;
use super::look::{IFACE_ID, OWNER, OWNER_VALUE, SeenPort, Switch, text};
use super::ops::Change;
use causeway_host::{Actual, Op, Seen, Wanted, Whose, diff};
use causeway_ovsdb_client::ovsdb::{Atom, Datum, Name, Transaction};
use causeway_types::host::{HostPlan, InternalPort, Item, Key, Owner};
use causeway_types::{Mac, NetworkName};
use std::collections::BTreeMap;

/// Says for which network a port is; without it for the default one.
const NETWORK: &str = "k8s.ovn.org/network";

/// A port that could not be made as planned, and for whom it is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PortProblem {
    /// Which item of the plan.
    pub key: Key,
    /// Who planned it, where somebody did.
    pub owner: Option<Owner>,
    /// Why.
    pub error: Error,
}

/// The ports of a plan, by key.
pub(super) fn wanted(plan: &HostPlan) -> Wanted {
    let is_port = |key: &Key| matches!(key, Key::Port(_));
    plan.items().iter().filter(|(key, _)| is_port(key)).map(|(k, p)| (k.clone(), p.clone())).collect()
}

/// What brings the node's internal ports to the plan, and what cannot be done. One that cannot be made stops no other.
pub(super) fn ensure_internal(switch: Switch<'_>, plan: &HostPlan) -> (Transaction, Vec<PortProblem>) {
    let wanted = wanted(plan);
    let difference = diff(plan, &wanted, &read(switch, &wanted));
    let owner = |key: &Key| wanted.get(key).map(|planned| planned.owner.clone());
    let taken = difference.taken.into_iter().map(|key| {
        let error = Error::Foreign(name_of(&key).to_owned());
        PortProblem { owner: owner(&key), key, error }
    });
    let mut problems: Vec<PortProblem> = taken.collect();
    let mut change = Change::default();
    for op in difference.ops {
        if let Err(error) = add(&mut change, switch, &op) {
            problems.push(PortProblem { key: op.key(), owner: op.owner().cloned(), error });
        }
    }
    (change.transaction(), problems)
}

fn name_of(key: &Key) -> &str {
    match key {
        Key::Port(name) => name,
        _ => "",
    }
}

fn add(change: &mut Change, switch: Switch<'_>, op: &Op) -> Result<(), Error> {
    let seen = switch.port(name_of(&op.key()));
    let wanted = match op {
        Op::Create(planned) | Op::Change { to: planned, .. } => &planned.item,
        Op::Delete(_) => {
            seen.iter().for_each(|seen| change.remove(seen));
            return Ok(());
        }
    };
    let Item::Port(port) = wanted else { return Ok(()) };
    let bridge = switch.bridge(&port.bridge)?;
    match seen {
        Some(seen) if seen.bridge == Some(bridge) => {
            change.set_ids(&seen, &ids(port));
            change.set_columns(&seen, columns(port));
        }
        // Nothing, or on another bridge.
        seen => {
            seen.iter().for_each(|seen| change.remove(seen));
            change.insert(bridge, &port.name, columns(port), &ids(port), false);
        }
    }
    Ok(())
}

fn ids(port: &InternalPort) -> BTreeMap<&str, String> {
    let mut ids: BTreeMap<&str, String> =
        port.external_ids.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    ids.insert(IFACE_ID, port.iface_id.clone());
    ids.insert(OWNER, OWNER_VALUE.to_owned());
    ids
}

fn columns(port: &InternalPort) -> Vec<(Name, Datum)> {
    vec![
        ("type".into(), "internal".into()),
        ("mac".into(), port.mac.to_string().as_str().into()),
        ("mtu_request".into(), Datum::One(i64::from(port.mtu).into())),
    ]
}

/// Our ports, and those that stand under a wanted name.
fn read(switch: Switch<'_>, wanted: &Wanted) -> Actual {
    let mut actual = Actual::new();
    for port in switch.all() {
        let key = Key::Port(port.name().to_string());
        let ours = port.id(OWNER).is_some_and(|owner| owner == OWNER_VALUE);
        let planned = wanted.get(&key).map(|planned| &planned.item);
        if ours || planned.is_some() {
            let whose = if ours { Whose::Owner(owner_of(&port)) } else { Whose::Foreign };
            actual.insert(key, Seen { item: Item::Port(item(switch, &port, planned)), whose });
        }
    }
    actual
}

fn owner_of(port: &SeenPort<'_>) -> Owner {
    let name = port.id(NETWORK).and_then(|name| NetworkName::new(name.as_str()).ok());
    Owner::network(&name.unwrap_or_else(NetworkName::default_network))
}

/// A port as far as the plan speaks of it. What it lacks is seen as zero, which nobody plans.
fn item(switch: Switch<'_>, port: &SeenPort<'_>, planned: Option<&Item>) -> InternalPort {
    let internal = text(port.interface, "type").is_some_and(|kind| kind == "internal");
    let mac = text(port.interface, "mac").filter(|_| internal).and_then(|mac| mac.parse().ok());
    let mtu = port.interface.get("mtu_request").and_then(Datum::one).and_then(Atom::as_integer);
    let asked = match planned {
        Some(Item::Port(planned)) => planned.external_ids.keys().collect(),
        _ => Vec::new(),
    };
    let known = |key: &String| Some((key.clone(), port.id(key)?.to_string()));
    InternalPort {
        name: port.name().to_string(),
        bridge: port.bridge.and_then(|bridge| switch.name_of_bridge(bridge)).unwrap_or_default(),
        iface_id: port.id(IFACE_ID).unwrap_or_default().to_string(),
        external_ids: asked.into_iter().filter_map(known).collect(),
        mac: mac.unwrap_or(Mac::new([0; 6])),
        mtu: mtu.and_then(|mtu| u32::try_from(mtu).ok()).unwrap_or_default(),
    }
}
