//! The chassis of other nodes in this zone's southbound database: how ovn-controller knows where tunnels lead.
//!
//! Owns the paths `chassis:…` and, with each, the encapsulations that the database knows by type and address.

use std::net::IpAddr;

use causeway_ovn::generated::sb;
use causeway_ovn::{Plan, Planned, path, reference};
use causeway_types::NodeName;
use causeway_zone::{Change, NodeInfo, Subject, Zone};

use crate::room::{Kind, Room, SliceKey as _, Slices};

/// The chassis of other nodes.
pub(crate) static ROOM: Room<Zone> = Room { name: "chassis", kinds: &[&ChassisOfNodes] };

crate::slice_key! {
    /// Another node's chassis.
    struct ChassisKey, ChassisKeys { node: NodeName } is ["chassis", _]
}

/// The table of encapsulations, whose rows have paths of their own.
const ENCAP: &str = "Encap";
/// The only kind of tunnels.
const GENEVE: &str = "geneve";

/// Where another node's chassis is.
pub fn slice_of(node: &NodeName) -> String {
    ChassisKey { node: node.clone() }.slice()
}

struct ChassisOfNodes;

impl Kind<Zone> for ChassisOfNodes {
    type Key = ChassisKey;

    fn slices(&self, zone: &Zone, _only: &ChassisKeys) -> Vec<ChassisKey> {
        zone.others().map(|node| ChassisKey { node: node.name.clone() }).collect()
    }

    /// Only what is recorded counts. A node whose record has another's place is left out; the index says so. Without a chassis
    /// there is no tunnel, so nothing comes from a node that is away, and nothing goes there.
    fn plan(&self, zone: &Zone, key: &ChassisKey) -> Plan {
        let Some(node) = zone.node(&key.node).filter(|node| node.name != zone.config().node) else {
            return Plan::Absent;
        };
        if zone.is_away(&node.name) {
            return Plan::Absent;
        }
        let unreadable = |error: &String| Plan::Hold(format!("node {}: {error}", node.name));
        match (&node.chassis, &node.encaps) {
            (Err(error), _) | (_, Err(error)) => unreadable(error),
            (Ok(Some(chassis)), Ok(Some(encaps))) if !zone.is_crowded_out(&node.name) => {
                Plan::Rows(rows(node, chassis, encaps))
            }
            _ => Plan::Absent,
        }
    }

    fn priority(&self) -> u8 {
        10
    }

    fn blame(&self, _zone: &Zone, key: &ChassisKey) -> Vec<Subject> {
        vec![Subject::Node(key.node.clone())]
    }

    fn holds(&self, zone: &Zone, path: &str) -> Option<ChassisKey> {
        let [table, kind, address] = path::split(path).try_into().ok()?;
        if table != ENCAP || kind != GENEVE {
            return None;
        }
        let node = zone.node_at(address.parse().ok()?)?;
        Some(ChassisKey { node: node.clone() })
    }

    fn follows(&self, _zone: &Zone, change: &Change) -> Vec<Slices<ChassisKey>> {
        match change {
            Change::Node(node) => vec![ChassisKey { node: node.clone() }.into()],
            _ => Vec::new(),
        }
    }
}

/// A chassis and its encapsulations share a transaction, since they cannot be without each other.
fn rows(node: &NodeInfo, chassis: &str, encaps: &[IpAddr]) -> Vec<Planned> {
    let encap_path = |address: &IpAddr| path::join([ENCAP, GENEVE, &address.to_string()]);
    let row = sb::Chassis {
        name: chassis.into(),
        hostname: node.name.as_str().into(),
        other_config: [("is-remote".into(), "true".into())].into(),
        encaps: encaps.iter().map(|address| reference::<sb::Encap>(&encap_path(address))).collect(),
        ..Default::default()
    };
    let at = ChassisKey { node: node.name.clone() }.slice();
    let mut rows = vec![Planned::new(at, row).bound_to(node.name.as_str())];
    rows.extend(encaps.iter().map(|address| {
        let encap = sb::Encap {
            r#type: GENEVE.into(),
            ip: address.to_string().into(),
            chassis_name: chassis.into(),
            options: [("csum".into(), "true".into())].into(),
        };
        Planned::new(encap_path(address), encap).bound_to(node.name.as_str())
    }));
    rows
}
