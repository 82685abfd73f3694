//! What of a node is no pod's business: its databases, and the port of its tunnels.

use super::islands;
use causeway_host::in_namespace;
use causeway_tests::ask::node_addresses;
use causeway_tests::forged::{self, Watcher};
use causeway_tests::namespace;
use causeway_tests::outside::{OUTSIDE, OUTSIDE_DEVICE};
use causeway_tests::talk::{answers, namespace_of_host, serve};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

const ATTACKERS: [(&str, &str); 4] =
    [("blue/a", "ovn-udn1"), ("green/b", "ovn-udn1"), ("plain/a", "eth0"), ("plain/b", "eth0")];
const DATABASES: [u16; 3] = [6640, 6641, 6642];
const GENEVE: u16 = 6081;
/// How tricks begin that are no UDP.
const PORTLESS: [&str; 4] = ["tcp", "echo", "icmp", "unknown"];
/// Nobody's business.
const OTHER: u16 = 6639;

fn addresses(node: &str) -> [IpAddr; 2] {
    node_addresses(node).map(|text| text.parse().unwrap())
}

/// Whatever listens there, on the pod's node and on another one; processes of nodes get through.
#[test]
fn d1_pods_do_not_reach_databases_of_nodes() {
    let sandbox = islands();
    let nodes = ["n1", "n2"];
    for node in nodes {
        let inside = namespace_of_host(sandbox, node);
        DATABASES.iter().chain([&OTHER]).for_each(|port| serve(&inside, *port));
    }
    let reached = |who: &std::path::Path| -> BTreeSet<SocketAddr> {
        let all = nodes.iter().flat_map(|node| addresses(node));
        let doors =
            all.flat_map(|address| DATABASES.into_iter().chain([OTHER]).map(move |port| (address, port)));
        std::thread::scope(|scope| {
            let dials: Vec<_> = doors
                .map(SocketAddr::from)
                .map(|door| (door, scope.spawn(move || answers(who, 0, door))))
                .collect();
            dials.into_iter().filter_map(|(door, dial)| dial.join().unwrap().then_some(door)).collect()
        })
    };
    let everything = reached(&namespace_of_host(sandbox, "n1"));
    assert_eq!(everything.len(), 16, "the test sees no servers: {everything:?}");
    for (pod, _) in ATTACKERS {
        let seen = reached(&namespace(sandbox, pod));
        let (databases, others): (Vec<SocketAddr>, Vec<SocketAddr>) =
            seen.into_iter().partition(|door| door.port() != OTHER);
        assert!(databases.is_empty(), "{pod} reaches {databases:?}");
        assert_eq!(others.len(), 4, "{pod}: the test sees no servers: {others:?}");
    }
}

/// Nothing to the tunnels' port leaves a node, whole or in parts, nor reaches the pod's own node.
#[test]
fn d2_pods_do_not_speak_for_nodes() {
    let sandbox = islands();
    let outside = namespace_of_host(sandbox, "outside");
    for (pod, device) in ATTACKERS {
        let inside = namespace(sandbox, pod);
        let own: Vec<IpAddr> =
            sandbox.pod(pod).addresses().unwrap().iter().map(|text| text.parse().unwrap()).collect();
        for to in OUTSIDE.map(|text| text.parse::<IpAddr>().unwrap()) {
            let from = own.iter().copied().find(|own| own.is_ipv4() == to.is_ipv4()).unwrap();
            let through = |own: u16, port: u16| {
                let watcher = Watcher::begin(&outside, OUTSIDE_DEVICE);
                forged::send(&inside, device, (from, own).into(), (to, port).into());
                watcher.end()
            };
            // Parts that come while a neighbour is looked for are lost.
            let heard = || {
                let open = through(4001, OTHER);
                println!("{pod} to {to}: {open:?}");
                Ok((open.contains("udp") && open.contains("parts")).then_some(()))
            };
            sandbox.wait_for(&format!("{to} to hear {pod}"), heard).unwrap();
            let seen = through(4002, GENEVE);
            let has_port = |trick: &String| PORTLESS.iter().all(|word| !trick.starts_with(word));
            let seen: Vec<String> = seen.into_iter().filter(has_port).collect();
            assert!(seen.is_empty(), "{pod} sends Geneve to {to}: {seen:?}");
        }
    }
}

/// The pod's own node hears nothing at that port, by none of its addresses.
#[test]
fn d3_pods_are_not_heard_as_tunnels() {
    let sandbox = islands();
    let node = namespace_of_host(sandbox, "n1");
    for (pod, heard) in [("plain/a", OTHER), ("blue/a", OTHER), ("plain/a", GENEVE), ("blue/a", GENEVE)] {
        let inside = namespace(sandbox, pod);
        for to in addresses("n1") {
            let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
            let listens = in_namespace(&node, || {
                let socket = UdpSocket::bind((any, heard)).unwrap();
                socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
                Ok(socket)
            });
            let socket = listens.unwrap();
            let sends = in_namespace(&inside, || {
                let own = UdpSocket::bind((any, 0)).unwrap();
                (0..5).for_each(|_| drop(own.send_to(b"hello", (to, heard))));
                Ok(())
            });
            sends.unwrap();
            assert_eq!(socket.recv(&mut [0; 64]).is_ok(), heard == OTHER, "{pod} to {to} at {heard}");
        }
    }
}
