//! Networks: their switches and routers, the way out of the node, the ways to other nodes, the ports of pods, and their
//! groups of load balancers.
//!
//! Owns the paths `network:…`, and the groups and MAC bindings that the database knows by their own names.

mod core;
mod fabric;
mod gateway;
mod groups;
mod layer2;
mod layer3;
mod nodes;
mod pods;
mod scope;

use causeway_ovn::{Plan, Planned};
use causeway_types::NetworkName;
use causeway_zone::{Active, Rendering, Zone};

pub(crate) use self::core::CoreKey;
pub(crate) use groups::{GroupKey, GroupName};
pub(crate) use pods::port_name;
pub(crate) use scope::{Result, Scope};

use crate::room::Room;
use crate::room::house::plan_of;

/// Everything of networks.
pub(crate) static ROOM: Room<Zone> = Room {
    name: "networks",
    kinds: &[
        &self::core::Cores,
        &gateway::Gateways,
        &gateway::Bindings,
        &fabric::OntoFabric,
        &groups::Groups,
        &nodes::Nodes,
        &pods::Pods,
    ],
};

fn scope<'a>(zone: &'a Zone, net: &'a Active, stub: bool) -> Result<Scope<'a>> {
    let here = zone.here().map_err(|problem| problem.message)?;
    let gateway = zone.gateway().map_err(|error| format!("node {}: {error}", here.name))?;
    Ok(Scope { net, here, gateway, config: zone.config(), stub })
}

/// Plans something of a network, if the network is rendered as a whole.
pub(crate) fn of_network<'a>(
    zone: &'a Zone,
    name: &NetworkName,
    rows: impl FnOnce(&Scope<'a>) -> Result<Vec<Planned>>,
) -> Plan {
    match zone.rendering(name) {
        Some(Rendering::Stub(_)) => Plan::Absent,
        _ => of_present(zone, name, rows),
    }
}

/// Plans something of a network, if the network is rendered, as a whole or as a stub.
pub(crate) fn of_present<'a>(
    zone: &'a Zone,
    name: &NetworkName,
    rows: impl FnOnce(&Scope<'a>) -> Result<Vec<Planned>>,
) -> Plan {
    match scope_of_present(zone, name) {
        Ok(scope) => rows(&scope).map_or_else(Plan::Hold, plan_of),
        Err(plan) => plan,
    }
}

/// What is planned of a network that is rendered, as a whole or as a stub; of any other one, what becomes of all that is there.
pub(crate) fn scope_of_present<'a>(
    zone: &'a Zone,
    name: &NetworkName,
) -> std::result::Result<Scope<'a>, Plan> {
    match zone.rendering(name) {
        None | Some(Rendering::Unused) => Err(Plan::Absent),
        Some(Rendering::Idle) => Err(Plan::Keep),
        Some(Rendering::Unknown) => {
            Err(Plan::Hold(format!("network {name}: whether it is used here is not known yet")))
        }
        Some(Rendering::Broken(problem)) => Err(Plan::Hold(problem.message.clone())),
        Some(Rendering::Rendered(active)) => scope(zone, active, false).map_err(Plan::Hold),
        Some(Rendering::Stub(active)) => scope(zone, active, true).map_err(Plan::Hold),
    }
}

/// The networks that are rendered here, as a whole or as stubs: this one, or all.
fn present(zone: &Zone, only: Option<&NetworkName>) -> Vec<NetworkName> {
    let all = zone.networks().filter(|_| only.is_none()).chain(only);
    all.filter(|name| is_present(zone, name)).cloned().collect()
}

pub(crate) fn is_present(zone: &Zone, name: &NetworkName) -> bool {
    matches!(zone.rendering(name), Some(Rendering::Rendered(_) | Rendering::Stub(_)))
}

/// The networks that are rendered here as a whole: this one, or all. One that cannot be rendered says so once, in its core.
fn rendered(zone: &Zone, only: Option<&NetworkName>) -> Vec<NetworkName> {
    match only {
        Some(name) => is_rendered(zone, name).then(|| name.clone()).into_iter().collect(),
        None => zone.networks().filter(|name| is_rendered(zone, name)).cloned().collect(),
    }
}

pub(crate) fn is_rendered(zone: &Zone, name: &NetworkName) -> bool {
    matches!(zone.rendering(name), Some(Rendering::Rendered(_)))
}
