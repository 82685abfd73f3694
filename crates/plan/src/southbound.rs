//! The chassis of other nodes in this zone's southbound database: how ovn-controller knows where tunnels lead.

use causeway_ovn::generated::sb;
use causeway_ovn::{Plan, Planned, Planner, Str, path, reference};
use causeway_zone::{NodeInfo, Zone};

/// The plan of a zone's southbound database.
#[derive(Clone, Copy, Debug)]
pub struct Southbound<'a>(&'a Zone);

impl<'a> Southbound<'a> {
    /// The plan that follows from a zone.
    pub fn new(zone: &'a Zone) -> Self {
        Self(zone)
    }

    fn rows(&self) -> Result<Vec<Planned>, String> {
        let mut rows = Vec::new();
        for node in self.0.others() {
            let Some(chassis) = node.chassis.clone().map_err(|error| said_of(node, &error))? else {
                continue;
            };
            let Some(encaps) = node.encaps.clone().map_err(|error| said_of(node, &error))? else { continue };
            // A node that claims another's place is left out; the model says so.
            if self.0.there(&node.name).is_ok() {
                rows.extend(chassis_rows(node, &chassis, &encaps));
            }
        }
        Ok(rows)
    }
}

fn said_of(node: &NodeInfo, error: &str) -> String {
    format!("node {}: {error}", node.name)
}

/// A chassis and its encapsulations share a transaction, since they cannot be without each other.
fn chassis_rows(node: &NodeInfo, chassis: &str, encaps: &[std::net::IpAddr]) -> Vec<Planned> {
    let encap_path = |address: &std::net::IpAddr| path::join(["Encap", "geneve", &address.to_string()]);
    let row = sb::Chassis {
        name: chassis.into(),
        hostname: node.name.as_str().into(),
        other_config: [("is-remote".into(), "true".into())].into(),
        encaps: encaps.iter().map(|address| reference::<sb::Encap>(&encap_path(address))).collect(),
        ..Default::default()
    };
    let at = path::join(["chassis", node.name.as_str()]);
    let mut rows = vec![Planned::new(at, row).bound_to(node.name.as_str())];
    rows.extend(encaps.iter().map(|address| {
        let encap = sb::Encap {
            r#type: "geneve".into(),
            ip: address.to_string().into(),
            chassis_name: chassis.into(),
            options: [("csum".into(), "true".into())].into(),
        };
        Planned::new(encap_path(address), encap).bound_to(node.name.as_str())
    }));
    rows
}

/// Everything is one slice: a chassis and its encapsulations have different roots and must not be apart.
impl Planner for Southbound<'_> {
    fn roots(&self) -> &[&str] {
        &["chassis"]
    }

    fn slices(&self, _prefix: &str) -> Vec<Str> {
        vec![Str::new()]
    }

    fn slice_len(&self, _path: &str) -> usize {
        0
    }

    fn plan(&self, _slice: &str) -> Plan {
        match self.rows() {
            Ok(rows) => Plan::Rows(rows),
            Err(reason) => Plan::Hold(reason),
        }
    }
}
