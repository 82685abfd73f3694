//! Networks of Causeway's own, and customers at another site.
//!
//! Two layer3 networks have equal addresses, a layer2 network has others; two of the three are connected for a while.

use causeway_record::Connect;
use causeway_testing::Frr;
use serde_json::{Value, json};

use super::guest::{sh, wait, within};
use super::nodes::{answer, customer, fabric, gateway_fabric, inside, node, who};
use super::site::{Island, Site, addresses, meet};

const LAYER3: [&str; 2] = ["10.20.0.0/16/24", "fd20::/48/64"];
const BLUE: Island = Island {
    name: "blue",
    place: "blue",
    id: 1,
    vni: 1001,
    topology: "layer3",
    subnets: LAYER3,
    gateways: ["10.20.0.1", "fd20::1"],
    pod: ["10.20.0.5/24", "fd20::5/64"],
};
const TWIN: Island = Island { name: "twin", place: "twin", id: 2, vni: 1002, ..BLUE };
const GREEN: Island = Island {
    name: "green",
    place: "green",
    id: 5,
    vni: 1003,
    topology: "layer2",
    subnets: ["203.203.0.0/16", "fd30::/64"],
    gateways: ["203.203.0.1", "fd30::1"],
    pod: ["203.203.0.8/16", "fd30::8/64"],
};
const ISLANDS: [Island; 3] = [BLUE, TWIN, GREEN];

/// Everything that runs.
struct World {
    site: Site,
    edge: Frr,
}

pub(crate) fn run() {
    let mut world = World::build();
    world.reached();
    world.closed();
    world.connected();
    world.again_writes_nothing();
    world.frr_forgets();
    world.gone();
}

impl World {
    fn build() -> World {
        sh("ip link add underlay type bridge && ip link set underlay up");
        for (name, number) in [("n1", 1), ("n3", 3)] {
            node(name, number);
        }
        within("n3", "ip address add 192.0.2.3/24 dev eth0");
        let edge = inside("n3", || Frr::start_at(179));
        fabric(&edge, 3, &[1], false);
        ISLANDS.iter().for_each(|island| customer(&edge, island.vni));
        World { site: Site::start("n1", 1, &ISLANDS, gateway_fabric), edge }
    }

    fn reaches(&self, island: &Island) -> bool {
        meet(island, &format!("customer{}", island.vni), ["10.9.0.9", "fd09::9"])
    }

    fn reached(&mut self) {
        assert_eq!(who("customer1001", "10.20.0.5", 9999), None, "nobody is on the fabric yet");
        self.site.bring("the node is as planned");
        for island in &ISLANDS {
            wait(&format!("{} is reached over the fabric, and reaches", island.name), || {
                self.reaches(island)
            });
        }
        let told = self.site.frr.vtysh(&["-c", "show bgp l2vpn evpn route type prefix"]);
        assert!(told.contains("10.255.0.1:1001") && told.contains("[5]:[0]:[24]:[10.20.0.0]"), "{told}");
        assert!(
            told.contains("[5]:[0]:[16]:[203.203.0.0]"),
            "a layer2 network is told of as a whole: {told}"
        );
    }

    /// Neither the node nor another network is behind the fabric.
    fn closed(&self) {
        answer("n1", 9998);
        assert_eq!(who("n1", "10.255.0.1", 9998).as_deref(), Some("n1"), "somebody listens on the node");
        for from in ["blue", "green"] {
            for address in ["10.255.0.1", "192.0.2.1"] {
                assert_eq!(who(from, address, 9998), None, "{from} reaches the node by {address}");
            }
        }
        for (from, address) in
            [("customer1001", "10.20.0.2"), ("customer1001", "fd20::2"), ("customer1003", "203.203.0.2")]
        {
            assert_eq!(who(from, address, 9998), None, "{from} reaches the node by {address}");
        }
        assert!(self.apart("blue") && self.apart("twin"));
    }

    /// Whether a network has no way to the layer2 one, nor that one to the networks with these addresses.
    fn apart(&self, name: &str) -> bool {
        addresses(&GREEN).iter().all(|address| who(name, address, 9999).is_none())
            && addresses(&BLUE).iter().all(|address| who("green", address, 9999).is_none())
    }

    /// Connected networks meet by the connection, though both are on the fabric; who is not connected stays apart, and what the fabric carries
    /// goes on by the fabric.
    fn connected(&mut self) {
        let before = self.told();
        self.site.zone.apply_connect(&road());
        self.site.write_rows();
        wait("connected networks meet", || meet(&GREEN, "blue", addresses(&BLUE)));
        assert_eq!(who("twin", addresses(&GREEN)[0], 9999), None, "who is not connected stays apart");
        assert!(ISLANDS.iter().all(|island| self.reaches(island)), "the fabric is where it was");
        assert_eq!(self.told(), before, "nobody on the fabric hears of connections");
        self.site.zone.delete_connect(&road().name);
        self.site.write_rows();
        wait("what was connected is apart again", || self.apart("blue"));
        assert!(ISLANDS.iter().all(|island| self.reaches(island)));
    }

    /// What the other site has heard of.
    fn told(&self) -> Vec<String> {
        let all = self.edge.vtysh(&["-c", "show bgp l2vpn evpn route type prefix"]);
        let mut routes: Vec<String> =
            all.split_whitespace().filter(|word| word.starts_with("[5]")).map(str::to_owned).collect();
        routes.sort();
        routes
    }

    fn again_writes_nothing(&mut self) {
        let applied = self.site.apply();
        assert_eq!((applied.writes, applied.problems.len()), (0, 0), "{:?}", applied.problems);
    }

    fn frr_forgets(&mut self) {
        self.site.frr.kill_daemon("bgpd");
        let frr = &mut self.site.frr;
        inside("n1", || frr.start_daemon("bgpd"));
        gateway_fabric(&self.site.frr);
        self.site.bring("FRR was told again");
        for island in &ISLANDS {
            wait(&format!("{} is back", island.name), || self.reaches(island));
        }
    }

    /// One network goes, and the others do not notice; then all go, and nothing is left.
    fn gone(&mut self) {
        self.site.leave(&BLUE);
        self.site.bring("one network is gone");
        assert_eq!(self.site.left("blue", 1001), Vec::<String>::new());
        assert!(self.reaches(&TWIN) && self.reaches(&GREEN));
        ISLANDS[1..].iter().for_each(|island| self.site.leave(island));
        self.site.bring("all networks are gone");
        for island in &ISLANDS {
            assert_eq!(self.site.left(island.name, island.vni), Vec::<String>::new());
        }
    }
}

/// A connection between `blue` and `green`, with what the cluster manager writes on it.
fn road() -> Connect {
    let blocks = json!({
        "layer3_1": {"ipv4": "192.168.0.0/24", "ipv6": "fd01::/96"},
        "layer2_5": {"ipv4": "192.168.1.0/31", "ipv6": "fd01::1:0:0/127"},
    });
    let object: Value = json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect",
        "metadata": {"name": "road", "uid": "road", "annotations": {
            "k8s.ovn.org/network-subnets": blocks.to_string(),
            "k8s.ovn.org/connect-router-tunnel-key": "16715790",
            "k8s.ovn.org/connect-router-slots": "128",
            "k8s.ovn.org/connect-topology": "transit",
        }},
        "spec": {
            "networkSelectors": [],
            "connectSubnets": [
                {"cidr": "192.168.0.0/16", "networkPrefix": 24},
                {"cidr": "fd01::/64", "networkPrefix": 96},
            ],
            "connectivityEnabled": ["PodNetwork"],
        },
    });
    Connect::of("road".parse().unwrap(), serde_json::from_value(object).unwrap())
}
