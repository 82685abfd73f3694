//! A node of Causeway's own with networks on the fabric: what is planned for it, on real OVN, Open vSwitch, kernel and FRR. Nothing here is
//! written by hand but the ports of pods, which the container runtime asks for elsewhere.

use causeway_api::annotations::{Annotation as _, ChassisRecord};
use causeway_api::intent::ClusterConfig;
use causeway_host::{Applied, Frr as Sections, Host as _, Kernel, Nft, bring};
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

use super::asking::echo;
use super::central::Central;
use super::guest::{sh, wait, within};
use super::kernel::own_kernel;
use super::nodes::{Chassis, answer, count_checksums, inside};
use super::scenario::asked;

/// A network with a pod: its name, the pod's namespace, its number in the cluster and on the fabric, topology and subnets, and the pod's
/// addresses.
pub(crate) struct Island {
    pub(crate) name: &'static str,
    pub(crate) place: &'static str,
    pub(crate) id: u32,
    pub(crate) vni: u32,
    pub(crate) topology: &'static str,
    pub(crate) subnets: [&'static str; 2],
    pub(crate) gateways: [&'static str; 2],
    pub(crate) pod: [&'static str; 2],
}

/// A cluster of one node.
pub(crate) struct Site {
    node: &'static str,
    pub(crate) zone: Zone,
    central: Central,
    writer: Applier,
    runtime: Runtime,
    chassis: Chassis,
    sections: Sections,
    pub(crate) frr: Frr,
}

impl Site {
    /// Rows and pods are there, the node is not as planned yet.
    pub(crate) fn start(node: &'static str, number: u8, islands: &[Island], told: impl Fn(&Frr)) -> Site {
        let central = Central::start();
        let chassis = Chassis::start(node, number, &central.southbound.remote());
        let frr = inside(node, Frr::start);
        told(&frr);
        let remotes = vec![central.north().parse().unwrap()];
        let options = Options::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let writer = Applier::new(ApplierConfig { declarations: &NORTHBOUND, remotes, tls: None, options });
        let sections = Sections::new("vtysh", Sections::NODE).at(frr.folder());
        let zone = zone(node, number, islands);
        let mut site = Site { node, zone, central, writer, runtime, chassis, sections, frr };
        site.write_rows();
        islands.iter().for_each(|island| site.pod(island));
        site
    }

    /// The northbound database as planned.
    pub(crate) fn write_rows(&mut self) {
        let Site { zone, writer, runtime, .. } = self;
        writer.dirty("");
        let planner = northbound(zone);
        let settled = runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(120), writer.settle(&planner)).await
        });
        assert!(settled.is_ok() && writer.engine().failures().is_empty(), "{:?}", writer.engine().failures());
    }

    /// What the networks need of the node; the rest of its plan is tested elsewhere. Debian's test kernel has no tables of nftables.
    fn plan(&self) -> HostPlan {
        let mut plan = HostPlan::default();
        for planned in host(&self.zone).items().values() {
            let is_theirs = planned.owner.as_str().starts_with("network:cluster_udn_");
            if is_theirs && (own_kernel() || !matches!(planned.item, Item::Table(_))) {
                plan.add(&planned.owner, planned.item.clone());
            }
        }
        plan
    }

    /// Brings the node to what is planned; how much there was to do, and what could not be done.
    pub(crate) fn apply(&mut self) -> Applied {
        let plan = self.plan();
        for planned in plan.items().values() {
            if let Item::Port(port) = &planned.item {
                self.internal_port(port);
            }
        }
        let sections = &mut self.sections;
        inside(self.node, || {
            // As the role does: FRR hears of VRFs that go before their devices do.
            sections.let_go_once(&plan);
            let mut applied = Kernel.apply_host(&plan);
            let more = bring(sections, &plan);
            applied.writes += more.writes;
            applied.problems.extend(more.problems);
            if own_kernel() {
                let more = bring(&mut Nft::new(program("nft"), Nft::NODE), &plan);
                applied.writes += more.writes;
                applied.problems.extend(more.problems);
            }
            applied
        })
    }

    pub(crate) fn bring(&mut self, what: &str) {
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
        let name = island.place;
        sh(&format!("ip netns add {name}"));
        within(self.node, &format!("ip link add p-{name} type veth peer name eth0 netns {name}"));
        within(self.node, &format!("ip link set p-{name} up"));
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
        echo(name);
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

    /// A network goes.
    pub(crate) fn leave(&mut self, island: &Island) {
        self.zone.delete_nad(&key(island, island.name));
    }

    /// What the node still has of a network.
    pub(crate) fn left(&self, name: &str, vni: u32) -> Vec<String> {
        let all = [within(self.node, "ip -o link"), self.frr.running()];
        let of_it = |line: &&str| {
            line.contains(&format!("-{vni}:"))
                || line.contains(&format!(" {name}:"))
                || line.contains(&format!("vrf {name}"))
        };
        all.iter().flat_map(|text| text.lines()).filter(of_it).map(str::to_owned).collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("== {}\n{}", self.node, self.plan());
            for command in ["ip route show table 16777217", "ip -d link"] {
                println!("-- {command}\n{}", within(self.node, command));
            }
            println!("{}\n{}", self.frr.running(), self.frr.vtysh(&["-c", "show bgp l2vpn evpn"]));
        }
    }
}

/// Both directions, both families, between a pod and somebody with these addresses: whoever answers is the right one.
pub(crate) fn meet(island: &Island, other: &str, there: [&str; 2]) -> bool {
    addresses(island).iter().all(|address| asked(other, address, island.place))
        && there.iter().all(|address| asked(island.place, address, other))
}

pub(crate) fn addresses(island: &Island) -> [&'static str; 2] {
    island.pod.map(|net| net.split('/').next().unwrap())
}

fn mac_of(island: &Island) -> Mac {
    let first: IpAddr = addresses(island)[0].parse().unwrap();
    Mac::from_ip(first)
}

pub(crate) fn key(island: &Island, name: &str) -> ObjectKey {
    ObjectKey { namespace: format!("ns-{}", island.name).parse().unwrap(), name: name.into() }
}

/// The node's zone with everything in it, as the API server and the cluster manager would say it.
fn zone(name: &str, number: u8, islands: &[Island]) -> Zone {
    let cidrs = |texts: [&str; 2]| texts.iter().map(|text| text.parse().unwrap()).collect();
    let cluster = ClusterConfig::new(
        cidrs(["10.244.0.0/16", "fd00:10:244::/48"]),
        cidrs(["10.96.0.0/16", "fd00:10:96::/112"]),
        NodeId::new(1001).unwrap(),
    );
    let mut zone = Zone::new(ZoneConfig::new(name.parse().unwrap(), cluster));
    zone.apply_node(&own_node(name, number));
    for island in islands {
        zone.apply_nad(&nad(island));
        zone.apply_pod(&pod(name, island));
    }
    zone
}

fn own_node(name: &str, number: u8) -> Node {
    let mut node = Node { uid: format!("node-{name}"), ..Node::new(name.parse().unwrap()) };
    let underlay = format!("192.0.2.{number}");
    for (key, text) in [
        ("node-id", "2".to_owned()),
        ("node-chassis-id", name.to_owned()),
        ("node-encap-ips", json!([underlay]).to_string()),
        ("vteps", json!({"fabric": {"ips": [format!("10.255.0.{number}")]}}).to_string()),
    ] {
        node.annotate(&format!("k8s.ovn.org/{key}"), Some(&text));
    }
    let record = ChassisRecord {
        uid: node.uid.clone(),
        chassis_id: node.chassis.clone().unwrap(),
        encap_ips: vec![underlay.parse().unwrap()],
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

fn pod(node: &str, island: &Island) -> Pod {
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
    let mut pod = Pod {
        node: Some(node.parse().unwrap()),
        ..Pod::new(key(island, "pod"), format!("uid-{}", island.place))
    };
    pod.annotate("k8s.ovn.org/pod-networks", Some(&Value::Object(networks).to_string()));
    pod
}
