//! The real kernel, in namespaces that end with the test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod node;

use causeway_host::{
    Error, Host, Kernel, LinkState, PodInterface, Route, Surroundings, in_namespace, new_namespace,
};
use causeway_types::host::{Address, HostPlan, Item, Owner};
use node::{ip, on_own_node};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;

/// A pod's namespace: it is there while the file is open.
struct Pod {
    _file: File,
    path: PathBuf,
}

fn pod() -> Pod {
    let file = new_namespace().expect("tests of the kernel need root");
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into();
    Pod { _file: file, path }
}

fn route(dest: &str, via: Option<&str>) -> Route {
    Route { dest: dest.parse().unwrap(), via: via.map(|via| via.parse().unwrap()) }
}

fn eth0() -> PodInterface {
    PodInterface {
        host_name: "abcdef012345678".into(),
        name: "eth0".into(),
        mac: "0a:58:0a:f4:00:05".parse().unwrap(),
        mtu: 1400,
        addresses: vec!["10.244.0.5/24".parse().unwrap(), "fd00:10:244::5/64".parse().unwrap()],
        routes: BTreeSet::from([
            route("10.244.0.0/16", Some("10.244.0.1")),
            route("0.0.0.0/0", Some("10.244.0.1")),
            route("169.254.0.5/32", None),
            route("::/0", Some("fe80::858:aff:fef4:1")),
            route("fd00:10:96::/112", Some("fd00:10:244::1")),
        ]),
        router: Some("fe80::858:aff:fef4:1".parse().unwrap()),
        cut: true,
    }
}

fn udn() -> PodInterface {
    PodInterface {
        host_name: "abcdef0123456_1".into(),
        name: "ovn-udn1".into(),
        mac: "0a:58:0a:14:01:05".parse().unwrap(),
        mtu: 1300,
        addresses: vec!["10.20.1.5/24".parse().unwrap()],
        routes: BTreeSet::new(),
        router: None,
        cut: false,
    }
}

fn state_of(interface: &PodInterface) -> LinkState {
    LinkState {
        mac: interface.mac,
        mtu: interface.mtu,
        up: true,
        addresses: interface.addresses.iter().copied().collect(),
        routes: interface.routes.clone(),
    }
}

#[test]
fn a_pod_gets_its_interfaces_and_loses_them() {
    on_own_node();
    let (pod, host) = (pod(), Kernel);
    host.attach(&pod.path, &[eth0(), udn()]).unwrap();

    assert_eq!(host.inspect(&pod.path, "eth0").unwrap(), Some(state_of(&eth0())));
    assert_eq!(host.inspect(&pod.path, "ovn-udn1").unwrap(), Some(state_of(&udn())));
    let names = [eth0().host_name, udn().host_name, "other".to_owned()];
    assert_eq!(host.present(&names).unwrap(), BTreeSet::from([eth0().host_name, udn().host_name]));

    host.detach(&names).unwrap();
    assert_eq!(host.inspect(&pod.path, "eth0").unwrap(), None);
    assert_eq!(host.present(&names).unwrap(), BTreeSet::new());
    host.detach(&names).unwrap();
}

/// Beside a switch in userspace the pod's own kernel cuts what it sends; elsewhere cards may do it.
#[test]
fn packets_are_cut_where_the_switch_wants_them_so() {
    on_own_node();
    let (pod, host) = (pod(), Kernel);
    host.attach(&pod.path, &[eth0(), udn()]).unwrap();
    let shown = |name: &str| in_namespace(&pod.path, || Ok(ip(&format!("-d link show dev {name}")))).unwrap();
    assert!(shown("eth0").contains("gso_max_segs 1 "), "{}", shown("eth0"));
    assert!(!shown("ovn-udn1").contains("gso_max_segs 1 "), "{}", shown("ovn-udn1"));
}

#[test]
fn addresses_count_at_once_and_advertisements_never() {
    on_own_node();
    let (pod, host) = (pod(), Kernel);
    host.attach(&pod.path, &[eth0()]).unwrap();
    let seen = in_namespace(&pod.path, || {
        let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv6/conf/eth0/{name}")).unwrap();
        let settings = ["accept_dad", "dad_transmits", "addr_gen_mode", "accept_ra", "disable_ipv6"];
        // The kernel's own address becomes usable by a task of the kernel's, which may be late; ours are at once.
        let doubtful = ip("-6 address show dev eth0 scope global tentative");
        Ok((settings.map(|name| read(name).trim().to_owned()), doubtful))
    });
    assert_eq!(seen.unwrap(), (["0"; 5].map(str::to_owned), String::new()));
}

/// Somebody who switches IPv6 on for all links gives the host's end no address; and the link is in the group that the
/// node's firewall knows.
#[test]
fn the_hosts_end_has_no_address_whatever_all_links_have() {
    on_own_node();
    let (pod, host) = (pod(), Kernel);
    host.attach(&pod.path, &[eth0()]).unwrap();
    fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "0").unwrap();
    assert_eq!(ip("-o address show dev abcdef012345678"), "");
    let shown = ip("-details -o link show abcdef012345678");
    assert!(shown.contains(" group 85 "), "{shown}");
}

/// With the userspace datapath the kernel sees the pod's frames as well: a pod must not reach the node by them, neither
/// by asking, nor with a MAC address that it guessed, nor by shouting.
#[test]
fn the_hosts_end_answers_nobody() {
    on_own_node();
    ip("tuntap add node0 mode tap");
    ip("address add 172.18.0.3/16 dev node0");
    ip("link set node0 up");
    let (pod, host) = (pod(), Kernel);
    let mut interface = eth0();
    interface.routes.insert(route("172.18.0.3/32", None));
    host.attach(&pod.path, &[interface]).unwrap();
    let shown = ip("-o link show abcdef012345678");
    let guessed = shown.split(' ').skip_while(|word| *word != "link/ether").nth(1).unwrap();

    let node = UdpSocket::bind("172.18.0.3:0").unwrap();
    node.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let knock = |mac: Option<&str>| {
        let sent = in_namespace(&pod.path, || {
            let permanent = |mac| ip(&format!("neighbour replace 172.18.0.3 lladdr {mac} dev eth0"));
            mac.map(permanent);
            let socket = UdpSocket::bind("10.244.0.5:0").unwrap();
            Ok(socket.send_to(b"knock", node.local_addr().unwrap()).is_ok())
        });
        assert!(sent.unwrap());
        node.recv(&mut [0; 16]).is_ok()
    };
    assert!(!knock(None), "the node answers who asks for its MAC");
    assert!(!knock(Some(guessed)), "the node takes frames for its MAC");
    assert!(!knock(Some("ff:ff:ff:ff:ff:ff")), "the node takes broadcasts");

    // The same frame arrives where the end is an ordinary one.
    fs::write("/proc/sys/net/ipv4/conf/abcdef012345678/rp_filter", "0").unwrap();
    fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "0").unwrap();
    assert!(knock(Some(guessed)), "this test would not see a hole");
}

#[test]
fn attaching_again_changes_nothing_and_repairs_what_is_broken() {
    on_own_node();
    let (pod, host) = (pod(), Kernel);
    // The host's end has a MAC of its own, drawn when the cable is laid.
    let cable = || ip("-o link show abcdef012345678");
    host.attach(&pod.path, &[eth0()]).unwrap();
    let first = cable();
    host.attach(&pod.path, &[eth0()]).unwrap();
    assert_eq!(cable(), first);

    in_namespace(&pod.path, || Ok(ip("address flush dev eth0"))).unwrap();
    host.attach(&pod.path, &[eth0()]).unwrap();
    assert_eq!(host.inspect(&pod.path, "eth0").unwrap(), Some(state_of(&eth0())));
    assert_ne!(cable(), first);
}

#[test]
fn somebody_elses_links_are_left_alone() {
    on_own_node();
    let (pod, host) = (pod(), Kernel);
    in_namespace(&pod.path, || Ok(ip("tuntap add eth0 mode tap"))).unwrap();
    assert!(matches!(host.attach(&pod.path, &[eth0()]), Err(Error::Foreign { name }) if name == "eth0"));
    ip("tuntap add abcdef012345678 mode tap");
    assert!(matches!(host.detach(&[eth0().host_name]), Err(Error::Foreign { .. })));
    assert_eq!(host.present(&[eth0().host_name]).unwrap().len(), 1);
}

#[test]
fn a_namespace_that_is_gone_is_said() {
    on_own_node();
    let error = Kernel.attach(&PathBuf::from("/run/netns/no-such"), &[eth0()]).unwrap_err();
    assert!(error.namespace_is_gone(), "{error}");
}

/// Of each address the MTU of the device that has it.
#[test]
fn the_nodes_own_addresses() {
    node::on_own_node();
    for words in [
        "link add u0 type veth peer name v0",
        "link set u0 mtu 9000 up",
        "address add 192.0.2.1/24 dev u0",
        "address add 2001:db8::1/64 dev u0 nodad",
        "link add u1 type veth peer name v1",
        "link set u1 mtu 1450 up",
        "address add 198.51.100.1/24 dev u1",
    ] {
        node::ip(words);
    }
    node::ip("tuntap add br-ex mode tap");
    node::ip("link set br-ex address 02:00:00:00:00:07 up");
    node::ip("address add 203.0.113.1/24 dev br-ex");
    let masquerade = Address::new("br-ex", "169.254.0.2/17".parse().unwrap());
    let mut plan = HostPlan::default();
    plan.add(&Owner::node("gateway"), Item::Address(masquerade));
    assert_eq!(Kernel.apply_host(&plan).writes, 1);
    // What the role itself has put there is not the node's, nor what is good on one link alone.
    node::ip("link add u2 type veth peer name v2");
    node::ip("link set u2 alias causeway:given:network:default up");
    node::ip("address add 10.244.0.2/24 dev u2");
    for words in
        ["default via 192.0.2.254 metric 50", "default via 203.0.113.254", "198.51.100.8/32 via 192.0.2.9"]
    {
        node::ip(&format!("route add {words}"));
    }
    node::ip("-6 route add default via fe80::1 dev u0");
    node::ip("-6 route add default metric 7 nexthop via fe80::2 dev u0 nexthop via fe80::3 dev br-ex");
    let Surroundings { links, addresses: mut own, defaults } = Kernel.surroundings().unwrap();
    let bridge = links.iter().find(|link| link.name == "br-ex").unwrap();
    assert_eq!(bridge.mac, Some("02:00:00:00:00:07".parse().unwrap()));
    assert!(links.iter().all(|link| link.name != "u0"), "cables are many, and nobody asks for them");
    let mut ways: Vec<String> =
        defaults.iter().map(|way| format!("{} {} {}", way.via.unwrap(), way.device, way.metric)).collect();
    ways.sort();
    let expected =
        ["192.0.2.254 u0 50", "203.0.113.254 br-ex 0", "fe80::1 u0 1024", "fe80::2 u0 7", "fe80::3 br-ex 7"];
    assert_eq!(ways, expected);
    own.sort_by_key(|own| own.net);
    let own: Vec<(String, String, u32)> =
        own.into_iter().map(|own| (own.net.to_string(), own.device, own.mtu)).collect();
    let expected = [
        ("192.0.2.1/24", "u0", 9000),
        ("198.51.100.1/24", "u1", 1450),
        ("203.0.113.1/24", "br-ex", 1500),
        ("2001:db8::1/64", "u0", 9000),
    ];
    assert_eq!(own, expected.map(|(net, device, mtu)| (net.to_owned(), device.to_owned(), mtu)));
}
