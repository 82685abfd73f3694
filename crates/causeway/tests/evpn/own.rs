//! Networks of Causeway's own: what is planned for a node, on real OVN, Open vSwitch, kernel and FRR, and customers at another site.
//!
//! Two layer3 networks have equal addresses, a layer2 network has others. Nothing here is written by hand but the ports of pods, which the
//! container runtime asks for elsewhere.

use causeway_api::annotations::{Annotation as _, ChassisRecord};
use causeway_api::intent::ClusterConfig;
use causeway_host::{Applied, Frr as Sections, Host as _, Kernel, bring};
use causeway_node::{Applier, ApplierConfig};
use causeway_ovn::apply::Options;
use causeway_ovn::declare::NORTHBOUND;
use causeway_plan::host::host;
use causeway_plan::northbound;
use causeway_record::{Nad, Node, ObjectKey, Pod};
use causeway_testing::{Frr, program};
use causeway_types::host::{HostPlan, InternalPort, Item};
use causeway_types::{Mac, NodeId};
use causeway_zone::{Zone, ZoneConfig};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;
use tokio::runtime::Runtime;

use super::central::Central;
use super::guest::{sh, wait, within};
use super::nodes::{Chassis, answer, count_checksums, customer, fabric, gateway_fabric, inside, node, who};

/// A network with a pod: its name, its number in the cluster and on the fabric, topology and subnets, and the pod's addresses.
struct Island {
    name: &'static str,
    id: u32,
    vni: u32,
    topology: &'static str,
    subnets: [&'static str; 2],
    gateways: [&'static str; 2],
    pod: [&'static str; 2],
}

const LAYER3: [&str; 2] = ["10.20.0.0/16/24", "fd20::/48/64"];
const ISLANDS: [Island; 3] = [
    Island {
        name: "blue",
        id: 1,
        vni: 1001,
        topology: "layer3",
        subnets: LAYER3,
        gateways: ["10.20.0.1", "fd20::1"],
        pod: ["10.20.0.5/24", "fd20::5/64"],
    },
    Island {
        name: "twin",
        id: 2,
        vni: 1002,
        topology: "layer3",
        subnets: LAYER3,
        gateways: ["10.20.0.1", "fd20::1"],
        pod: ["10.20.0.5/24", "fd20::5/64"],
    },
    Island {
        name: "green",
        id: 5,
        vni: 1003,
        topology: "layer2",
        subnets: ["203.203.0.0/16", "fd30::/64"],
        gateways: ["203.203.0.1", "fd30::1"],
        pod: ["203.203.0.8/16", "fd30::8/64"],
    },
];

/// Everything that runs.
struct World {
    zone: Zone,
    central: Central,
    writer: Applier,
    runtime: Runtime,
    chassis: Chassis,
    sections: Sections,
    frr: Frr,
    _edge: Frr,
}

pub(crate) fn run() {
    let mut world = World::build();
    world.reached();
    world.closed();
    world.again_writes_nothing();
    world.frr_forgets();
    world.gone();
}

impl World {
    fn build() -> World {
        sh("ip link add underlay type bridge && ip link set underlay up");
        let central = Central::start();
        for (name, number) in [("n1", 1), ("n3", 3)] {
            node(name, number);
        }
        within("n3", "ip address add 192.0.2.3/24 dev eth0");
        let chassis = Chassis::start("n1", 1, &central.southbound.remote());
        let frr = inside("n1", Frr::start);
        let edge = inside("n3", || Frr::start_at(179));
        gateway_fabric(&frr);
        fabric(&edge, 3, 1);
        ISLANDS.iter().for_each(|island| customer(&edge, island.vni));
        let remotes = vec![central.north().parse().unwrap()];
        let options = Options::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let writer = Applier::new(ApplierConfig { declarations: &NORTHBOUND, remotes, tls: None, options });
        let sections = Sections::new("vtysh", Sections::NODE).at(frr.folder());
        let mut world = World { zone: zone(), central, writer, runtime, chassis, sections, frr, _edge: edge };
        world.write_rows();
        ISLANDS.iter().for_each(|island| world.pod(island));
        world
    }

    /// The northbound database as planned.
    fn write_rows(&mut self) {
        let World { zone, writer, runtime, .. } = self;
        writer.dirty("");
        let planner = northbound(zone);
        let settled = runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(120), writer.settle(&planner)).await
        });
        assert!(settled.is_ok() && writer.engine().failures().is_empty(), "{:?}", writer.engine().failures());
    }

    /// What the networks need of the node; the rest of its plan is tested elsewhere, and so are tables of nftables, which the test kernel
    /// has none of.
    fn plan(&self) -> HostPlan {
        let mut plan = HostPlan::default();
        for planned in host(&self.zone).items().values() {
            let is_theirs = planned.owner.as_str().starts_with("network:cluster_udn_");
            if is_theirs && !matches!(planned.item, Item::Table(_)) {
                plan.add(&planned.owner, planned.item.clone());
            }
        }
        plan
    }

    /// Brings the node to what is planned; how much there was to do, and what could not be done.
    fn apply(&mut self) -> Applied {
        let plan = self.plan();
        for planned in plan.items().values() {
            if let Item::Port(port) = &planned.item {
                self.internal_port(port);
            }
        }
        let sections = &mut self.sections;
        inside("n1", || {
            let mut applied = Kernel.apply_host(&plan);
            let more = bring(sections, &plan);
            applied.writes += more.writes;
            applied.problems.extend(more.problems);
            applied
        })
    }

    fn bring(&mut self, what: &str) {
        let mut last = Applied::default();
        wait(what, || {
            last = self.apply();
            last.problems.iter().for_each(|problem| println!("{problem}"));
            last.problems.is_empty()
        });
    }

    fn internal_port(&self, port: &InternalPort) {
        let (mac, mtu) = (format!("mac=\"{}\"", port.mac), format!("mtu_request={}", port.mtu));
        let id = format!("external_ids:iface-id={}", port.iface_id);
        let words =
            ["--may-exist", "add-port", &port.bridge, &port.name, "--", "set", "Interface", &port.name];
        let settings = ["type=internal", &mac, &mtu, &id];
        self.chassis.switch.vsctl(&words.into_iter().chain(settings).collect::<Vec<_>>());
    }

    /// A pod of a network with its cable, and whoever listens in it.
    fn pod(&self, island: &Island) {
        let name = island.name;
        sh(&format!("ip netns add {name}"));
        within("n1", &format!("ip link add p-{name} type veth peer name eth0 netns {name}"));
        within("n1", &format!("ip link set p-{name} up"));
        let mac = mac_of(island);
        within(name, "ip link set lo up");
        within(name, &format!("ip link set eth0 address {mac} mtu 1300 up"));
        for (address, gateway) in island.pod.iter().zip(island.gateways) {
            let nodad = if address.contains(':') { "nodad" } else { "" };
            within(name, &format!("ip address add {address} dev eth0 {nodad}"));
            within(name, &format!("ip route add default via {gateway}"));
        }
        count_checksums(name);
        let port = self.port_of(island);
        let (id, uid) =
            (format!("external_ids:iface-id={port}"), format!("external_ids:iface-id-ver=uid-{name}"));
        let device = format!("p-{name}");
        let words = ["add-port", "br-int", &device, "--", "set", "Interface", &device, &id, &uid];
        self.chassis.switch.vsctl(&words);
        answer(name, 9999);
    }

    /// The logical port of the island's pod.
    fn port_of(&self, island: &Island) -> String {
        let nad = format!("external_ids:k8s.ovn.org/nad=ns-{0}/{0}", island.name);
        let out = Command::new(program("ovn-nbctl"))
            .args([&format!("--db={}", self.central.north()), "--bare", "--columns=name"])
            .args(["find", "logical_switch_port", &nad])
            .output()
            .unwrap();
        let name = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        assert!(
            !name.is_empty() && !name.contains('\n'),
            "{name:?}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        name
    }

    /// Both directions, both families: whoever answers is the right one, though addresses are equal.
    fn reaches(&self, island: &Island) -> bool {
        let site = format!("customer{}", island.vni);
        addresses(island).iter().all(|address| asked(&site, address, island.name))
            && ["10.9.0.9", "fd09::9"].iter().all(|address| asked(island.name, address, &site))
    }

    fn reached(&mut self) {
        assert_eq!(who("customer1001", "10.20.0.5", 9999), None, "nobody is on the fabric yet");
        self.bring("the node is as planned");
        for island in &ISLANDS {
            wait(&format!("{} is reached over the fabric, and reaches", island.name), || {
                self.reaches(island)
            });
        }
        let told = self.frr.vtysh(&["-c", "show bgp l2vpn evpn route type prefix"]);
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
        assert_eq!((who("blue", "203.203.0.8", 9999), who("green", "10.20.0.5", 9999)), (None, None));
    }

    fn again_writes_nothing(&mut self) {
        let applied = self.apply();
        assert_eq!((applied.writes, applied.problems.len()), (0, 0), "{:?}", applied.problems);
    }

    fn frr_forgets(&mut self) {
        self.frr.kill_daemon("bgpd");
        let frr = &mut self.frr;
        inside("n1", || frr.start_daemon("bgpd"));
        gateway_fabric(&self.frr);
        self.bring("FRR was told again");
        for island in &ISLANDS {
            wait(&format!("{} is back", island.name), || self.reaches(island));
        }
    }

    /// One network goes, and the others do not notice; then all go, and nothing is left.
    fn gone(&mut self) {
        self.leave(&ISLANDS[0]);
        self.bring("one network is gone");
        assert!(self.left("blue", 1001).is_empty(), "{:?}", self.left("blue", 1001));
        assert!(self.reaches(&ISLANDS[1]) && self.reaches(&ISLANDS[2]));
        ISLANDS[1..].iter().for_each(|island| self.leave(island));
        self.bring("all networks are gone");
        for island in &ISLANDS {
            assert!(
                self.left(island.name, island.vni).is_empty(),
                "{:?}",
                self.left(island.name, island.vni)
            );
        }
    }

    fn leave(&mut self, island: &Island) {
        self.zone.delete_nad(&key(island, island.name));
    }

    fn left(&self, name: &str, vni: u32) -> Vec<String> {
        let all = [within("n1", "ip -o link"), self.frr.running()];
        let of_it = |line: &&str| {
            line.contains(&format!("-{vni}:"))
                || line.contains(&format!(" {name}:"))
                || line.contains(&format!("vrf {name}"))
        };
        all.iter().flat_map(|text| text.lines()).filter(of_it).map(str::to_owned).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.plan());
            for (node, command) in [
                ("n1", "ip route show table 16777217"),
                ("n1", "ip -d link"),
                ("n1", "nft list ruleset"),
                ("n3", "ip route show table 1001"),
            ] {
                let out = Command::new("sh")
                    .args(["-c", &format!("ip netns exec {node} {command}")])
                    .output()
                    .unwrap();
                println!("-- {node}: {command}\n{}", String::from_utf8_lossy(&out.stdout));
            }
            println!("{}\n{}", self.frr.running(), self.frr.vtysh(&["-c", "show bgp l2vpn evpn"]));
        }
    }
}

fn asked(from: &str, address: &str, name: &str) -> bool {
    let answer = who(from, address, 9999);
    assert!(
        answer.as_deref().is_none_or(|answer| answer == name),
        "{address} asked by {from}: {answer:?} answers"
    );
    answer.is_some()
}

fn addresses(island: &Island) -> [&'static str; 2] {
    island.pod.map(|net| net.split('/').next().unwrap())
}

fn mac_of(island: &Island) -> Mac {
    let first: IpAddr = addresses(island)[0].parse().unwrap();
    Mac::from_ip(first)
}

fn key(island: &Island, name: &str) -> ObjectKey {
    ObjectKey { namespace: format!("ns-{}", island.name).parse().unwrap(), name: name.into() }
}

/// The node's zone with everything in it, as the API server and the cluster manager would say it.
fn zone() -> Zone {
    let cidrs = |texts: [&str; 2]| texts.iter().map(|text| text.parse().unwrap()).collect();
    let cluster = ClusterConfig::new(
        cidrs(["10.244.0.0/16", "fd00:10:244::/48"]),
        cidrs(["10.96.0.0/16", "fd00:10:96::/112"]),
        NodeId::new(1001).unwrap(),
    );
    let mut zone = Zone::new(ZoneConfig::new("n1".parse().unwrap(), cluster));
    zone.apply_node(&own_node());
    for island in &ISLANDS {
        zone.apply_nad(&nad(island));
        zone.apply_pod(&pod(island));
    }
    zone
}

fn own_node() -> Node {
    let mut node = Node { uid: "node-n1".into(), ..Node::new("n1".parse().unwrap()) };
    for (name, text) in [
        ("node-id", "2"),
        ("node-chassis-id", "n1"),
        ("node-encap-ips", r#"["192.0.2.1"]"#),
        ("vteps", r#"{"fabric":{"ips":["10.255.0.1"]}}"#),
    ] {
        node.annotate(&format!("k8s.ovn.org/{name}"), Some(text));
    }
    let record = ChassisRecord {
        uid: node.uid.clone(),
        chassis_id: node.chassis.clone().unwrap(),
        encap_ips: vec!["192.0.2.1".parse().unwrap()],
        node_ips: None,
        refused: Vec::new(),
    };
    node.annotate(ChassisRecord::KEY, Some(&record.text()));
    node
}

fn nad(island: &Island) -> Nad {
    let Island { name, id, vni, topology, subnets, .. } = island;
    let mut evpn = json!({"vtep": "fabric", "ipVRF": {"vni": vni}});
    if *topology == "layer2" {
        evpn["macVRF"] = json!({"vni": 77});
    }
    let config = json!({
        "cniVersion": "1.1.0", "type": "ovn-k8s-cni-overlay", "role": "primary", "topology": topology,
        "name": format!("cluster_udn_{name}"), "netAttachDefName": key(island, name).to_string(),
        "subnets": subnets.join(","), "transport": "evpn", "evpn": evpn,
    });
    let mut nad = Nad::new(key(island, name));
    (nad.uid, nad.created) = (format!("nad-{name}"), i64::from(*id));
    let keys = format!("[{},{}]", 16_711_683 + id, 16_720_000 + id);
    let network = format!("cluster_udn_{name}");
    for (annotation, text) in
        [("network-name", network.as_str()), ("network-id", &id.to_string()), ("tunnel-keys", &keys)]
    {
        if annotation != "tunnel-keys" || *topology == "layer2" {
            nad.annotate(&format!("k8s.ovn.org/{annotation}"), Some(text));
        }
    }
    nad.configure(config.to_string());
    nad
}

fn pod(island: &Island) -> Pod {
    let name = island.name;
    let locked = [format!("10.244.0.{}/24", island.id + 9), format!("fd00:10:244::{}/64", island.id + 9)];
    let mut own =
        json!({"ip_addresses": island.pod, "role": "primary", "mac_address": mac_of(island).to_string()});
    if island.topology == "layer2" {
        own["tunnel_id"] = 8.into();
    }
    let first: IpAddr = locked[0].split('/').next().unwrap().parse().unwrap();
    let default = json!({"ip_addresses": locked, "role": "infrastructure-locked", "mac_address": Mac::from_ip(first).to_string()});
    let mut networks = serde_json::Map::new();
    networks.insert("default".into(), default);
    networks.insert(format!("ns-{name}/{name}"), own);
    let mut pod =
        Pod { node: Some("n1".parse().unwrap()), ..Pod::new(key(island, "pod"), format!("uid-{name}")) };
    pod.annotate("k8s.ovn.org/pod-networks", Some(&Value::Object(networks).to_string()));
    pod
}
