//! As many networks as the specification's sample and the other subnets of the guide have room for, on real databases with ovn-northd: every
//! key that is asked for is given, and packets go from the first network to the last, to the last node that a block has a link for.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_plan::Dirty;
use causeway_record::{Connect, Nad};
use causeway_types::Cidr;
use causeway_zone::Zone;
use serde_json::{Value, json};
use support::northd::*;
use support::server::{Databases, run};
use support::*;

/// Subnets of a connection, and how far they reach.
struct Room {
    ip: Ip,
    cidr: &'static str,
    prefix: u8,
    networks: u32,
    /// Links of a block that have keys.
    slots: u32,
}

/// What docs/connect.md says.
const ROOMS: [Room; 3] = [
    Room { ip: Ip::V4, cidr: "192.168.0.0/16", prefix: 24, networks: 255, slots: 128 },
    Room { ip: Ip::V4, cidr: "10.0.0.0/8", prefix: 23, networks: 127, slots: 256 },
    Room { ip: Ip::V6, cidr: "fd01::/64", prefix: 96, networks: 32, slots: 1002 },
];

impl Room {
    fn block(&self, at: u32) -> String {
        let whole: Cidr = self.cidr.parse().unwrap();
        whole.subnet(self.prefix, u128::from(at)).unwrap().to_string()
    }

    fn network(&self, id: u32) -> Nad {
        let four = format!("{}.{}.0.0/16/24", 20 + id / 200, id % 200);
        let six = format!("fd20:{id:x}::/48/64");
        let subnets = self.ip.pick(four, six).remove(0);
        nad(
            &format!("t{id}/net"),
            &format!("t{id}_net"),
            id,
            json!({"topology": "layer3", "subnets": subnets}),
        )
    }

    /// An address of a network on the node with a number.
    fn address(&self, id: u32, node: u32, host: u32) -> String {
        let part = node - 2;
        let four = format!("{}.{}.{part}.{host}", 20 + id / 200, id % 200);
        let six = format!("fd20:{id:x}:0:{part:x}::{host:x}");
        self.ip.pick(four, six).remove(0)
    }

    fn road(&self) -> Connect {
        let family = if self.ip == Ip::V4 { "ipv4" } else { "ipv6" };
        let place = |id: u32| (format!("layer3_{id}"), json!({family: self.block(id - 1)}));
        let blocks: serde_json::Map<String, Value> = (1..=self.networks).map(place).collect();
        let object = json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect",
            "metadata": {"name": "road", "annotations": {
                "k8s.ovn.org/network-subnets": Value::Object(blocks).to_string(),
                "k8s.ovn.org/connect-router-tunnel-key": "16715790",
                "k8s.ovn.org/connect-router-slots": self.slots.to_string(),
                "k8s.ovn.org/connect-topology": "transit",
            }},
            "spec": {"networkSelectors": [], "connectSubnets": [{"cidr": self.cidr, "networkPrefix": self.prefix}],
                     "connectivityEnabled": ["PodNetwork"]},
        });
        Connect::of(connect_name("road"), serde_json::from_value(object).unwrap())
    }

    /// This node, and the last one that has a link.
    fn zone(&self) -> Zone {
        let mut zone = Zone::new(config(self.ip));
        [node("n1", 2), node("edge", self.slots - 1)].iter().for_each(|node| drop(zone.apply_node(node)));
        (1..=self.networks).for_each(|id| drop(zone.apply_nad(&self.network(id))));
        let length = if self.ip == Ip::V4 { 24 } else { 64 };
        for id in [1, self.networks] {
            let own = format!("{}/{length}", self.address(id, 2, 9));
            zone.apply_pod(&pod(
                &format!("t{id}/p"),
                "n1",
                &[(&format!("t{id}/net"), "primary", &[&own], None)],
            ));
        }
        zone.apply_connect(&self.road());
        zone
    }

    /// A packet from a pod here to an address of another network.
    fn packet(&self, from: u32, target: &str) -> (String, String) {
        let (own, router) = (self.address(from, 2, 9), self.address(from, 2, 1));
        (format!("t{from}_net_n1"), across(&format!("t{from}.net_t{from}_p"), &own, &router, target))
    }
}

fn assert_keys(room: &Room, databases: &Databases) {
    let ports = keys(southbound(databases, "port_binding", "logical_port,tunnel_key"));
    for id in 1..=room.networks {
        for (node, slot) in [("n1", 2), ("edge", room.slots - 1)] {
            let key = (id - 1) * room.slots + slot + 1;
            assert!(key <= 32_767);
            let name = format!("road-to-t{id}_net-{node}");
            assert_eq!(ports.get(&name), Some(&key.to_string()), "{name}");
        }
    }
}

/// The largest take minutes: `make e2e` asks for them by `CAUSEWAY_LARGE`.
fn rooms() -> impl Iterator<Item = Room> {
    let all = std::env::var_os("CAUSEWAY_LARGE").is_some();
    ROOMS.into_iter().filter(move |room| all || room.networks < 100)
}

#[test]
fn as_many_networks_as_there_is_room_for() {
    for room in rooms() {
        run(async {
            let zone = room.zone();
            let mut databases = Databases::start();
            databases.sbctl(&["init"]);
            databases.sbctl(&["chassis-add", "c-1", "geneve", "172.18.0.2"]);
            databases.apply(&zone, Dirty::everything()).await;
            assert!(databases.north_writer.engine().failures().is_empty());
            let _northd = Northd::start(&databases);
            databases.nbctl(&["--timeout=600", "--wait=sb", "sync"]);
            assert_keys(&room, &databases);
            let last = room.networks;
            let (datapath, packet) = room.packet(1, &room.address(last, room.slots - 1, 9));
            let end = format!("road-to-t{last}_net-edge");
            assert_eq!(ends(&databases, &datapath, &packet), [end], "{}: {packet}", room.cidr);
            let (datapath, packet) = room.packet(last, &room.address(1, 2, 9));
            assert_eq!(ends(&databases, &datapath, &packet), ["t1.net_t1_p"], "{}: {packet}", room.cidr);
            assert_eq!(complaints(&databases), Vec::<String>::new(), "{}", room.cidr);
        });
    }
}
