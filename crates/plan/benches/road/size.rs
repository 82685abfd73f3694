//! Roads of many networks over many nodes.

use super::support::{Ip, config, nad, node, pod};
use causeway_record::{Connect, Nad};
use causeway_types::ConnectName;
use causeway_zone::{Render, Zone};
use serde_json::{Value, json};

/// For how long links outlive what sends by them, as on a node.
pub const LINGER_MS: u64 = 5_000;

/// What is connected, and how.
#[derive(Clone, Copy)]
pub struct Size {
    pub networks: u32,
    pub nodes: u32,
    pub layer: &'static str,
    pub topology: &'static str,
    /// Whether one network has pods here, and the others have theirs elsewhere.
    pub stubs: bool,
}

impl Size {
    /// A network with addresses of its own.
    fn network(&self, id: u32) -> Nad {
        let first = if self.layer == "layer3" { 11 } else { 21 };
        // So many nodes need smaller parts.
        let host = match (self.layer, self.stubs) {
            ("layer3", true) => "/26",
            ("layer3", false) => "/24",
            _ => "",
        };
        let subnets = format!("{}.{}.0.0/16{host}", first + id / 200, id % 200);
        nad(
            &format!("t{id}/net"),
            &format!("t{id}_net"),
            id,
            json!({"topology": self.layer, "subnets": subnets}),
        )
    }

    /// The cluster without the road, and with one network more than it has.
    pub fn zone(&self) -> Zone {
        let mut config = config(Ip::V4);
        config.linger_ms = LINGER_MS;
        if self.stubs {
            config.render = Render::Used { grace_ms: 10 };
        }
        let mut zone = Zone::new(config);
        (1..=self.nodes).for_each(|n| drop(zone.apply_node(&self.node(n))));
        (1..=self.networks + 1).for_each(|id| drop(zone.apply_nad(&self.network(id))));
        if self.stubs {
            (1..=self.networks + 1).for_each(|id| self.one_pod(id, &mut zone));
            [0, 100].iter().for_each(|now| drop(zone.tick(*now)));
        }
        zone
    }

    pub fn node(&self, n: u32) -> causeway_record::Node {
        node(&format!("n{n}"), n + 1)
    }

    /// The first network's pod is here, the others' are each on another node.
    fn one_pod(&self, id: u32, zone: &mut Zone) {
        let n = if id == 1 { 1 } else { 2 + id % (self.nodes - 1) };
        let host = 64 * (n - 1) + 9;
        let address = format!("{}.{}.{}.{}/26", 11 + id / 200, id % 200, host / 256, host % 256);
        let attachment = format!("t{id}/net");
        let own: [&str; 1] = [&address];
        zone.apply_pod(&pod(&format!("t{id}/p"), &format!("n{n}"), &[(&attachment, "primary", &own, None)]));
    }

    /// The road of the first so many networks.
    pub fn road(&self, networks: u32) -> Connect {
        let place = |id: u32| {
            let at = id - 1;
            let (first, second) = (16 + at / 256, at % 256);
            let length = if self.layer == "layer3" { 24 } else { 31 };
            (format!("{}_{id}", self.layer), json!({"ipv4": format!("172.{first}.{second}.0/{length}")}))
        };
        let blocks: serde_json::Map<String, Value> = (1..=networks).map(place).collect();
        let object = json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect",
            "metadata": {"name": "road", "annotations": {
                "k8s.ovn.org/network-subnets": Value::Object(blocks).to_string(),
                "k8s.ovn.org/connect-router-tunnel-key": "16715790",
                "k8s.ovn.org/connect-router-slots": "128",
                "k8s.ovn.org/connect-topology": self.topology,
            }},
            "spec": {"networkSelectors": [], "connectSubnets": [{"cidr": "172.16.0.0/12", "networkPrefix": 24}],
                     "connectivityEnabled": ["PodNetwork"]},
        });
        Connect::of(name(), serde_json::from_value(object).unwrap())
    }

    /// A measurement as a line for the table.
    pub fn say(&self, step: &str, mut row: Value) {
        row["name"] = step.into();
        let kind = if self.stubs { "stubs" } else { self.layer };
        row["topology"] = format!("{} {kind}", self.topology).into();
        (row["n"], row["m"]) = (self.networks.into(), self.nodes.into());
        println!("{row}");
    }
}

pub fn name() -> ConnectName {
    ConnectName::new("road").unwrap()
}
