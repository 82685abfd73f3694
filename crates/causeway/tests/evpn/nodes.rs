//! The nodes: a gateway with the agent, a compute node, and another provider's edge with customers behind it; machines and customers.

use causeway_host::{in_namespace, named_namespace};
use causeway_testing::{Datapath, Frr, Switch, program};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::asking::echo;
use super::central::{MACHINE, MACHINE6, PUBLIC, TAGGED, VLAN};
use super::guest::{sh, wait, within};
use super::kernel::own_kernel;

/// Does something inside a namespace.
pub(crate) fn inside<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
    in_namespace(&named_namespace(name), || Ok(work())).unwrap()
}

/// A namespace with a leg on the underlay; forwarding, and an end of tunnels.
pub(crate) fn node(name: &str, number: u8) {
    sh(&format!("ip netns add {name}"));
    sh(&format!("ip link add ul-{name} type veth peer name eth0 netns {name}"));
    sh(&format!("ip link set ul-{name} master underlay up"));
    within(name, "ip link set lo up");
    within(name, &format!("ip address add 10.255.0.{number}/32 dev lo"));
    within(name, "ip link set eth0 up");
    within(name, "sysctl -qw net.ipv4.conf.all.forwarding=1");
    within(name, "sysctl -qw net.ipv6.conf.all.forwarding=1");
}

/// Who carries packets: a kernel of our own can, Debian's lacks what OVN asks for.
pub(crate) fn datapath() -> Datapath {
    if own_kernel() { Datapath::Kernel } else { Datapath::Userspace }
}

/// A chassis of OVN.
pub(crate) struct Chassis {
    pub(crate) switch: Switch,
    controller: Child,
}

impl Chassis {
    pub(crate) fn start(name: &str, number: u8, southbound: &str) -> Chassis {
        let settings = [
            format!("external_ids:system-id={name}"),
            format!("external_ids:ovn-remote=\"{southbound}\""),
            format!("external_ids:ovn-encap-ip=192.0.2.{number}"),
            "external_ids:ovn-encap-type=geneve".into(),
            format!("external_ids:ovn-bridge-datapath-type={}", datapath().name()),
            "external_ids:ovn-bridge-mappings=public:br-ex".into(),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let switch = inside(name, || Switch::start_on(datapath(), &settings));
        let bridge = |bridge: &str| {
            let kind = format!("datapath_type={}", datapath().name());
            switch.vsctl(&["add-br", bridge, "--", "set", "bridge", bridge, &kind]);
        };
        bridge("br-ex");
        // Tunnels of the userspace end on a bridge.
        let leg = match datapath() {
            Datapath::Kernel => "eth0",
            Datapath::Userspace => {
                bridge("br-phys");
                switch.vsctl(&["add-port", "br-phys", "eth0"]);
                "br-phys"
            }
        };
        within(name, &format!("ip address add 192.0.2.{number}/24 dev {leg}"));
        within(name, &format!("ip link set {leg} up"));
        let folder = switch.database.folder().to_owned();
        let controller = inside(name, || controller(&switch.database.remote(), &folder));
        Chassis { switch, controller }
    }
}

/// The provider's own routers, which OVN's routers ask for: one of the network without a VLAN, one of that with it.
pub(crate) fn provider(name: &str, chassis: &Chassis) {
    let tag = format!("tag={VLAN}");
    chassis.switch.vsctl(&[
        "add-port",
        "br-ex",
        "p-tagged",
        &tag,
        "--",
        "set",
        "Interface",
        "p-tagged",
        "type=internal",
    ]);
    for (device, [v4, v6]) in [("br-ex", PUBLIC), ("p-tagged", TAGGED)] {
        for words in [
            format!("link set {device} up"),
            format!("address add {v4}/24 dev {device}"),
            format!("address add {v6}/64 dev {device} nodad"),
        ] {
            within(name, &format!("ip {words}"));
        }
    }
}

fn controller(switch: &str, folder: &Path) -> Child {
    Command::new(program("ovn-controller"))
        .args([switch, "-vconsole:off", &format!("--unixctl={}", folder.join("controller.ctl").display())])
        .arg(format!("--log-file={}", folder.join("controller.log").display()))
        .envs(["OVS_RUNDIR", "OVN_RUNDIR"].map(|name| (name, folder)))
        .stdin(Stdio::null())
        .spawn()
        .expect("ovn-controller starts")
}

impl Drop for Chassis {
    fn drop(&mut self) {
        let _gone = self.controller.kill();
        let _ended = self.controller.wait();
    }
}

/// Somebody with an address who tells everybody his name.
pub(crate) fn answer(namespace: &str, port: u16) {
    let name = namespace.to_owned();
    let listener = inside(namespace, || TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _closed = stream.write_all(name.as_bytes());
        }
    });
}

/// Who answers there, seen from a namespace.
pub(crate) fn who(from: &str, address: &str, port: u16) -> Option<String> {
    let address = SocketAddr::new(address.parse::<IpAddr>().unwrap(), port);
    inside(from, || {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(3)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(3))).ok()?;
        let mut name = String::new();
        stream.read_to_string(&mut name).ok()?;
        Some(name)
    })
}

/// Whoever sends through switches in userspace counts his own checksums: nobody there does it for him.
pub(crate) fn count_checksums(namespace: &str) {
    let folder = std::env::var("CAUSEWAY_UML").unwrap();
    within(namespace, &format!("{folder}/bin/ethtool -K eth0 tx off"));
}

/// A tenant's machine on a compute node.
pub(crate) fn machine(node: &str, chassis: &Chassis, vni: u32) {
    let name = format!("vm{vni}");
    sh(&format!("ip netns add {name}"));
    within(node, &format!("ip link add tap{vni} type veth peer name eth0 netns {name}"));
    for words in [
        "link set lo up",
        "link set eth0 address fa:16:3e:00:00:f1 mtu 1300 up",
        &format!("address add {MACHINE}/24 dev eth0"),
        &format!("address add {MACHINE6}/64 dev eth0 nodad"),
        "route add default via 20.0.0.1",
        "route add default via fd20::1",
    ] {
        within(&name, &format!("ip {words}"));
    }
    count_checksums(&name);
    plug(node, chassis, vni);
    answer(&name, 9999);
    echo(&name);
}

/// A machine's cable, on whichever node it is.
pub(crate) fn plug(node: &str, chassis: &Chassis, vni: u32) {
    let (tap, id) = (format!("tap{vni}"), format!("external_ids:iface-id=vm{vni}"));
    within(node, &format!("ip link set {tap} up"));
    chassis.switch.vsctl(&["add-port", "br-int", &tap, "--", "set", "Interface", &tap, &id]);
}

/// What the operator of the gateway says to FRR, as the example has it, and impatience.
pub(crate) fn gateway_fabric(frr: &Frr) {
    configure(frr, include_str!("../../../../examples/evpn/frr.conf"));
    configure(frr, "router bgp 64999\n timers bgp 3 9\n neighbor 192.0.2.3 timers connect 1\nexit\n");
}

/// BGP on the underlay: who are the others, and whether it tells each of them what the others have said.
pub(crate) fn fabric(frr: &Frr, own: u8, others: &[u8], reflects: bool) {
    let peers = |line: &str| -> Vec<String> {
        others.iter().map(|other| line.replace("PEER", &format!("neighbor 192.0.2.{other}"))).collect()
    };
    let families = |head: &str, last: &str| {
        let mut lines = vec![format!(" address-family {head}")];
        lines.extend(peers("  PEER activate"));
        if reflects {
            lines.extend(peers("  PEER route-reflector-client"));
        }
        lines.extend([format!("  {last}"), " exit-address-family".into()]);
        lines
    };
    let mut lines = vec!["router bgp 64999".to_owned(), format!(" bgp router-id 10.255.0.{own}")];
    lines.extend([" no bgp default ipv4-unicast".into(), " timers bgp 3 9".into()]);
    lines.extend(peers(" PEER remote-as internal"));
    lines.extend(peers(" PEER timers connect 1"));
    lines.extend(families("ipv4 unicast", &format!("network 10.255.0.{own}/32")));
    lines.extend(families("l2vpn evpn", "advertise-all-vni"));
    configure(frr, &(lines.join("\n") + "\nexit\n"));
}

/// A tenant's place on the other provider's edge, by hand: devices, FRR, and a customer with an address.
pub(crate) fn customer(frr: &Frr, vni: u32) {
    let customer = format!("customer{vni}");
    sh(&format!("ip netns add {customer}"));
    for words in [
        format!("link add vrf-{vni} type vrf table {vni}"),
        format!("link set vrf-{vni} up"),
        format!("link add br-{vni} type bridge"),
        format!("link set br-{vni} master vrf-{vni} addrgenmode none up"),
        format!("link add vxlan-{vni} type vxlan id {vni} dstport 4789 local 10.255.0.3 nolearning"),
        format!("link set vxlan-{vni} master br-{vni} addrgenmode none up"),
        format!("link add c{vni} type veth peer name eth0 netns {customer}"),
        format!("link set c{vni} master vrf-{vni} up"),
        format!("address add 10.9.0.1/24 dev c{vni}"),
        format!("address add fd09::1/64 dev c{vni} nodad"),
    ] {
        within("n3", &format!("ip {words}"));
    }
    for words in [
        "link set lo up",
        "link set eth0 mtu 1300 up",
        "address add 10.9.0.9/24 dev eth0",
        "address add fd09::9/64 dev eth0 nodad",
        "route add default via 10.9.0.1",
        "route add default via fd09::1",
    ] {
        within(&customer, &format!("ip {words}"));
    }
    count_checksums(&customer);
    let connected = "  redistribute connected\n exit-address-family";
    configure(
        frr,
        &format!(
            "vrf vrf-{vni}\n vni {vni}\nexit-vrf\nrouter bgp 64999 vrf vrf-{vni}\n bgp router-id 10.255.0.3\n \
             address-family ipv4 unicast\n{connected}\n address-family ipv6 unicast\n{connected}\n \
             address-family l2vpn evpn\n  rd 10.255.0.3:{vni}\n  advertise ipv4 unicast\n  advertise ipv6 unicast\n \
             exit-address-family\nexit\n"
        ),
    );
    answer(&customer, 9999);
    echo(&customer);
}

fn configure(frr: &Frr, text: &str) {
    let file = frr.folder().join("told.conf");
    File::create(&file).unwrap().write_all(text.as_bytes()).unwrap();
    let said = || frr.vtysh(&["-f", &file.display().to_string()]);
    // One hand at a time: the agent may be writing, too.
    wait("FRR was told", || {
        let said = said();
        assert!(said.contains("locked by another session") || !said.contains("% "), "{said}");
        !said.contains("% ")
    });
}
