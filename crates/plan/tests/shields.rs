//! The shield around tunnels, with real packets: the planned table in the kernel of a throw-away node, and beside it somebody on
//! the underlay, who is a recorded node or nobody, and somebody behind the node, as a pod is. The switch of userspace takes
//! Geneve before nftables sees it, so a whole cluster of ours cannot show this. The same for the table of host ports.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::process::{self, Command};
use std::time::Duration;

use causeway_host::{Nft, bring, in_namespace, new_namespace};
use causeway_plan::host::host;
use causeway_record::{HostPort, Pod, Protocol};
use causeway_testing::program;
use causeway_types::host::{HostPlan, Item, Key, NftFamily, Owner};
use causeway_zone::{BridgePorts, Processes};
use nix::sched::{CloneFlags, unshare};
use serde_json::json;
use support::{Ip, annotate, cluster, nad, node, plain, settled, two_nodes};

const PATIENCE: Duration = Duration::from_secs(60);
/// Cables deliver at once; a busy kernel may take a moment.
const SOON: Duration = Duration::from_millis(300);
const GENEVE: u16 = 6081;
/// Nobody's business.
const OTHER: u16 = 6082;
/// What the node turns into Geneve, as a rule of somebody else might.
const TRANSLATED: u16 = 7000;
/// By record n2 and n3.
const KNOWN: [&str; 2] = ["172.18.0.3", "fc00::4"];
const UNKNOWN: [&str; 2] = ["172.18.0.66", "fc00::66"];
const NODE: [&str; 2] = ["172.18.0.2", "fc00::2"];
const BEHIND: [&str; 2] = ["10.0.0.2", "fd10::2"];

fn run(words: &str) {
    let mut words = words.split(' ');
    let name = words.next().unwrap();
    let path = if name == "nft" { program("nft") } else { name.into() };
    let out = Command::new(path).args(words).output().unwrap();
    assert!(out.status.success(), "{name}: {}", String::from_utf8_lossy(&out.stderr));
}

/// A network namespace beside the node's.
struct Beside(File);

impl Beside {
    fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", process::id(), self.0.as_raw_fd()).into()
    }

    /// With a cable to the node: addresses of both ends, and the way to everything else through the node.
    fn new(device: &str, node: [&str; 2], own: &[&str]) -> Beside {
        let beside = Beside(new_namespace().unwrap());
        let end = format!("{device}-end");
        run(&format!("ip link add {device} type veth peer name {end} netns {}", beside.path().display()));
        for address in node {
            run(&format!("ip address add {} dev {device}{}", with_length(address), nodad(address)));
        }
        run(&format!("ip link set {device} up"));
        beside.does(|| {
            for address in own {
                run(&format!("ip address add {} dev {end}{}", with_length(address), nodad(address)));
            }
            run(&format!("ip link set {end} up"));
            run(&format!("ip route add default via {}", node[0]));
            run(&format!("ip -6 route add default via {}", node[1]));
        });
        beside
    }

    fn does<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        in_namespace(&self.path(), || Ok(work())).unwrap()
    }

    fn listens(&self, port: u16) -> UdpSocket {
        self.does(|| listen(port))
    }

    fn sends(&self, from: &str, to: &str, port: u16, text: &str) {
        self.does(|| send(from, to, port, text)).unwrap();
    }
}

fn with_length(address: &str) -> String {
    if address.contains(':') { format!("{address}/64") } else { format!("{address}/24") }
}

fn nodad(address: &str) -> &'static str {
    if address.contains(':') { " nodad" } else { "" }
}

/// For both families.
fn listen(port: u16) -> UdpSocket {
    let socket = UdpSocket::bind(("::", port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn send(from: &str, to: &str, port: u16, text: &str) -> io::Result<usize> {
    UdpSocket::bind((from, 0))?.send_to(text.as_bytes(), (to, port))
}

/// So many texts, sorted, and whatever comes soon after.
fn heard(socket: &UdpSocket, count: usize) -> Vec<String> {
    let (mut all, mut buffer) = (Vec::new(), [0; 100]);
    let text = |length: usize, buffer: &[u8]| String::from_utf8_lossy(&buffer[..length]).into_owned();
    while all.len() < count {
        let length =
            socket.recv(&mut buffer).unwrap_or_else(|e| panic!("{count} texts should come: {e}; {all:?}"));
        all.push(text(length, &buffer));
    }
    socket.set_read_timeout(Some(SOON)).unwrap();
    while let Ok(length) = socket.recv(&mut buffer) {
        all.push(text(length, &buffer));
    }
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    all.sort();
    all
}

/// The node with the planned tables, its listener for Geneve, and those beside it.
struct Place {
    underlay: Beside,
    behind: Beside,
    geneve: UdpSocket,
}

fn place() -> Place {
    unshare(CloneFlags::CLONE_NEWNET).expect("tests of the kernel need root");
    run("ip link set lo up");
    let underlay = Beside::new("eth0", NODE, &[KNOWN, UNKNOWN].concat());
    let behind = Beside::new("pod0", ["10.0.0.1", "fd10::1"], &BEHIND);
    for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        std::fs::write(format!("/proc/sys/net/{setting}"), "1").unwrap();
    }
    for family in ["ip", "ip6"] {
        run(&format!("nft add table {family} theirs"));
        run(&format!("nft add chain {family} theirs in {{ type nat hook prerouting priority dstnat; }}"));
        run(&format!("nft add rule {family} theirs in udp dport {TRANSLATED} redirect to :{GENEVE}"));
    }
    Place { underlay, behind, geneve: listen(GENEVE) }
}

fn shield() {
    shield_of("openvswitch");
}

/// The planned table, where devices of this kind stand for the switch's.
fn shield_of(kind: &str) {
    let mut zone = two_nodes(Ip::Dual, None);
    zone.apply_node(&settled(annotate(node("n3", 4), "node-encap-ips", r#"["172.18.0.4","fc00::4"]"#)));
    let key = Key::Table { family: NftFamily::Inet, name: "causeway-tunnels".into() };
    let mut plan = HostPlan::default();
    let mut table = host(&zone).get(&key).unwrap().clone();
    let Item::Table(planned) = &mut table else { panic!("{table:?}") };
    planned.body = planned.body.replace("openvswitch", kind);
    plan.add(&Owner::node("tunnels"), table);
    let applied = bring(&mut Nft::new(program("nft"), Nft::NODE), &plan);
    assert!(applied.problems.is_empty(), "{:?}", applied.problems);
}

impl Place {
    /// Everybody sends to the node itself, to its port for Geneve and to the one that is turned into it. The answer is what the
    /// node hears: so much at least.
    fn everybody_sends(&self, heard_at_least: usize) -> Vec<String> {
        for (family, to) in NODE.iter().enumerate() {
            for port in [GENEVE, TRANSLATED] {
                self.underlay.sends(UNKNOWN[family], to, port, &format!("unknown {family} {port}"));
                self.behind.sends(BEHIND[family], to, port, &format!("pod {family} {port}"));
                self.underlay.sends(KNOWN[family], to, port, &format!("known {family} {port}"));
            }
        }
        heard(&self.geneve, heard_at_least)
    }

    /// A recorded node and nobody send to somebody behind the node; what comes there.
    fn through_the_node(&self, port: u16, heard_at_least: usize) -> Vec<String> {
        let there = self.behind.listens(port);
        for (family, to) in BEHIND.iter().enumerate() {
            for from in [KNOWN[family], UNKNOWN[family]] {
                self.underlay.sends(from, to, port, from);
            }
        }
        heard(&there, heard_at_least)
    }

    /// Somebody behind the node sends to a recorded node; what comes there.
    fn sent_from_behind(&self, port: u16, heard_at_least: usize) -> Vec<String> {
        let there = self.underlay.listens(port);
        for (from, to) in BEHIND.iter().zip(KNOWN) {
            self.behind.sends(from, to, port, from);
        }
        heard(&there, heard_at_least)
    }
}

/// With the shield Geneve is heard of recorded nodes alone, also where somebody's rule turns other packets into it, nobody's is
/// forwarded, in neither direction, and nobody on the node sends any. Without it all of that passes: the packets are good.
#[test]
fn geneve_is_heard_of_recorded_nodes_and_never_passed_on() {
    let place = place();
    assert_eq!(place.everybody_sends(12).len(), 12);
    assert_eq!(place.through_the_node(GENEVE, 4).len(), 4);
    assert_eq!(place.sent_from_behind(GENEVE, 2).len(), 2);
    send(NODE[0], KNOWN[0], GENEVE, "own").unwrap();

    shield();
    let known = ["known 0 6081", "known 0 7000", "known 1 6081", "known 1 7000"];
    assert_eq!(place.everybody_sends(4), known);
    assert_eq!(place.through_the_node(OTHER, 4), [KNOWN[0], UNKNOWN[0], KNOWN[1], UNKNOWN[1]]);
    assert_eq!(place.through_the_node(GENEVE, 0), [""; 0]);
    assert_eq!(place.sent_from_behind(OTHER, 2), BEHIND);
    assert_eq!(place.sent_from_behind(GENEVE, 0), [""; 0]);
    for (from, to) in NODE.iter().zip(KNOWN) {
        let refused = send(from, to, GENEVE, "own").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{refused}");
        send(from, to, OTHER, "own").unwrap();
    }
}

/// Who comes to a pod of the default network by a port of its node: a process of the node has the address that policies let in for the
/// node's sake, a pod of another network and a client by another card have the one that nodes know each other by.
#[test]
fn host_ports_tell_the_node_from_its_guests() {
    unshare(CloneFlags::CLONE_NEWNET).expect("tests of the kernel need root");
    run("ip link set lo up");
    let node = ["172.18.0.2", "fc00:f853:ccd:e793::2"];
    let inner = ["10.244.0.2", "fd00:10:244::2"];
    let guest = ["169.254.0.11", "fd69::b"];
    let guests =
        Beside::new("breth0", node, &[&guest[..], &["172.18.0.9", "fc00:f853:ccd:e793::9"]].concat());
    let pod = Beside::new("ovn-k8s-mp0", inner, &["10.244.0.3", "fd00:10:244::3"]);
    let other = Beside::new("eth9", ["10.0.0.1", "fd10::1"], &BEHIND);
    for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        std::fs::write(format!("/proc/sys/net/{setting}"), "1").unwrap();
    }
    guest.iter().for_each(|guest| run(&format!("ip route add {guest} dev breth0")));
    open_port();
    let server = pod.listens(53);
    for (family, to) in node.into_iter().enumerate() {
        send(to, to, 8080, "node").unwrap();
        guests.sends(guest[family], to, 8080, "guest");
        other.sends(BEHIND[family], to, 8080, "other card");
        let mut sources = BTreeMap::new();
        let mut buffer = [0; 100];
        while sources.len() < 3 {
            let (length, from) = server.recv_from(&mut buffer).unwrap();
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            sources.insert(text, from.ip().to_canonical().to_string());
        }
        let wanted = [("guest", to), ("node", inner[family]), ("other card", to)];
        let wanted = wanted.map(|(who, source)| (who.to_owned(), source.to_owned()));
        assert_eq!(sources, BTreeMap::from(wanted));
    }
}

/// The planned table of host ports, with port 8080 for port 53 of a pod.
fn open_port() {
    let mut zone = cluster(Ip::Dual, Some("shared"));
    zone.set_bridge(Some(BridgePorts { bridge: "breth0".into(), patch: Some(3), uplink: Some(1) }));
    zone.set_processes(Processes::default());
    let port = HostPort { address: None, protocol: Protocol::Udp, port: 8080, target: 53 };
    zone.apply_pod(&Pod { host_ports: Ok(vec![port]), ..plain(Ip::Dual) });
    let key = Key::Table { family: NftFamily::Inet, name: "causeway-host-ports".into() };
    let mut plan = HostPlan::default();
    plan.add(&Owner::node("host-ports"), host(&zone).get(&key).unwrap().clone());
    let applied = bring(&mut Nft::new(program("nft"), Nft::NODE), &plan);
    assert!(applied.problems.is_empty(), "{:?}", applied.problems);
}

const SITE: [&str; 2] = ["10.9.0.9", "fd09::9"];
const POD: [&str; 2] = ["10.20.0.5", "fd20::5"];
/// Addresses as pods of this node have them, in the hands of somebody at another site.
const FORGED: [&str; 2] = ["10.20.0.99", "fd20::99"];

/// The table of a network on the fabric, as it is planned.
fn walls() {
    let mut zone = two_nodes(Ip::Dual, None);
    zone.apply_node(&annotate(node("n1", 2), "vteps", r#"{"fabric":{"ips":["10.255.0.1"]}}"#));
    let config = json!({"topology": "layer3", "subnets": "10.20.0.0/16/24,fd20::/48/64", "transport": "evpn",
                        "evpn": {"vtep": "fabric", "ipVRF": {"vni": 1001}}});
    zone.apply_nad(&nad("ns1/blue", "cluster_udn_blue", 1, config));
    let key = Key::Table { family: NftFamily::Inet, name: "causeway-fabric-1".into() };
    let mut plan = HostPlan::default();
    plan.add(&Owner::new("network:cluster_udn_blue"), host(&zone).get(&key).unwrap().clone());
    let applied = bring(&mut Nft::new(program("nft"), Nft::NODE), &plan);
    assert!(applied.problems.is_empty(), "{:?}", applied.problems);
}

/// Two cables stand for the VRF and for the node's leg in the network. With the walls the node hears nobody who comes by them, whoever is
/// beyond reaches pods, and nobody does with addresses of pods. Without them all of that passes: the packets are good.
#[test]
fn nobody_on_the_fabric_is_a_neighbour_of_the_node() {
    unshare(CloneFlags::CLONE_NEWNET).expect("tests of the kernel need root");
    run("ip link set lo up");
    let (site_end, pod_end) = (["10.9.0.1", "fd09::1"], ["10.20.0.2", "fd20::2"]);
    let (site, pods) = (Beside::new("blue", site_end, &SITE), Beside::new("ovn-k8s-mp1", pod_end, &POD));
    site.does(|| {
        run("ip address add 10.20.0.99/32 dev blue-end");
        run("ip address add fd20::99/128 dev blue-end nodad");
    });
    let settings = [("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")];
    for (setting, value) in
        settings.iter().chain(&[("ipv4/conf/all/rp_filter", "0"), ("ipv4/conf/blue/rp_filter", "0")])
    {
        std::fs::write(format!("/proc/sys/net/{setting}"), value).unwrap();
    }
    let (own, there) = (listen(OTHER), pods.listens(OTHER));
    let to_node = || {
        for family in 0..2 {
            site.sends(SITE[family], site_end[family], OTHER, SITE[family]);
            pods.sends(POD[family], pod_end[family], OTHER, POD[family]);
        }
    };
    let to_pods = || {
        for family in 0..2 {
            site.sends(SITE[family], POD[family], OTHER, SITE[family]);
            site.sends(FORGED[family], POD[family], OTHER, FORGED[family]);
        }
    };
    to_node();
    assert_eq!(heard(&own, 4), [POD[0], SITE[0], SITE[1], POD[1]]);
    to_pods();
    assert_eq!(heard(&there, 4), [FORGED[0], SITE[0], SITE[1], FORGED[1]]);

    walls();
    to_node();
    assert_eq!(heard(&own, 0), [""; 0]);
    to_pods();
    assert_eq!(heard(&there, 2), SITE);
}

/// What a process of the node sends into a tunnel of the kernel's datapath still belongs to its socket when it is wrapped. A VXLAN device at
/// Geneve's port wraps packets likewise, and stands for the switch's own device. Nobody sends to that port himself, neither by the
/// card nor by that device.
#[test]
fn what_the_kernels_datapath_wraps_leaves_the_node() {
    let Place { underlay, geneve, behind: _behind } = place();
    drop(geneve);
    let tunnel = |peer: &str, device: &str, own: &str| {
        run(&format!("ip link add over type vxlan id 5 remote {peer} dstport {GENEVE} dev {device}"));
        run(&format!("ip address add {own}/24 dev over"));
        run("ip link set over up");
    };
    tunnel(KNOWN[0], "eth0", "10.77.0.1");
    underlay.does(|| tunnel(NODE[0], "eth0-end", "10.77.0.2"));
    let there = underlay.listens(OTHER);
    for shielded in [false, true] {
        if shielded {
            shield_of("vxlan");
        }
        send("10.77.0.1", "10.77.0.2", OTHER, "wrapped").unwrap();
        assert_eq!(heard(&there, 1), ["wrapped"], "shielded: {shielded}");
    }
    for (from, to) in [(NODE[0], KNOWN[0]), ("10.77.0.1", "10.77.0.2")] {
        let refused = send(from, to, GENEVE, "own").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{refused}");
    }
}
