//! What runs already when less is allowed than before: connections in which only the server speaks end all the same, and those that
//! stay allowed go on.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use causeway_host::in_namespace;
use causeway_sandbox::harness::{IMAGE, Sandbox};
use causeway_tests::forged::{self, Watcher};
use causeway_tests::stream::{Carrier, Stream};
use causeway_tests::{kill_and_wait, namespace, road, shared, start_labelled};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ISLANDS: &str = include_str!("manifests/connect.yaml");
const PODS: [(&str, &str); 8] = [
    ("blue/a", "n1"),
    ("blue/b", "n2"),
    ("blue/c", "n1"),
    ("green/c", "n3"),
    ("yellow/a", "n1"),
    ("yellow/b", "n2"),
    ("plain/a", "n1"),
    ("plain/b", "n2"),
];
/// What stays allowed.
const KEPT: u16 = 9001;
/// What does not.
const LOST: u16 = 9002;

fn prepared() -> &'static Sandbox {
    let sandbox = shared();
    sandbox.apply(ISLANDS).unwrap();
    start_labelled(sandbox, &PODS);
    sandbox
}

fn addresses(sandbox: &Sandbox, pod: &str) -> Vec<IpAddr> {
    sandbox.pod(pod).addresses().unwrap().iter().map(|text| text.parse().unwrap()).collect()
}

/// Streams from a pod to another one, directly, by every carrier and family, on these ports.
fn streams(sandbox: &Sandbox, client: &str, server: &str, ports: &[u16]) -> Vec<(u16, Stream)> {
    let (from, to) = (namespace(sandbox, client), namespace(sandbox, server));
    let mut all = Vec::new();
    for address in addresses(sandbox, server) {
        for carrier in [Carrier::Udp, Carrier::Tcp] {
            for port in ports {
                // Families share a port where a socket takes both.
                let own = if address.is_ipv4() { *port } else { port + 10 };
                all.push((*port, Stream::begin(carrier, &from, (address, own).into(), (&to, own))));
            }
        }
    }
    all
}

/// Waits until what is lost has ended, and nothing else has.
fn wait_ended(sandbox: &Sandbox, what: &str, streams: &[(u16, Stream)]) {
    let began = Instant::now();
    let is_of = |port: u16, one: &Stream| {
        streams.iter().any(|(of, stream)| *of == port && stream.name() == one.name())
    };
    let ended = || {
        let alive = Stream::alive(streams.iter().map(|(_, stream)| stream));
        let lost: Vec<&str> = alive.iter().filter(|one| is_of(LOST, one)).map(|one| one.name()).collect();
        match lost.is_empty() {
            true => Ok(Some(alive.len())),
            false => Err(causeway_sandbox::Error::Request(lost.join(", "))),
        }
    };
    let what = format!("{what}: what is not allowed any more to end");
    let alive = sandbox.wait_for(&what, ended).unwrap();
    println!("{what}: seen so after {:.1} s", began.elapsed().as_secs_f64());
    let kept = streams.iter().filter(|(port, _)| *port == KEPT).count();
    assert_eq!(alive, kept, "{what}: something has ended that is allowed");
}

/// `kind` of pods called `of` is open on the ports that stay, and on nothing else.
fn only_kept(namespace: &str, kind: &str, of: &str) -> String {
    let port = |protocol: &str, port: u16| json!({"protocol": protocol, "port": port});
    let ports: Vec<Value> =
        ["UDP", "TCP"].iter().flat_map(|word| [port(word, KEPT), port(word, KEPT + 10)]).collect();
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"namespace": namespace, "name": "narrow"},
        "spec": {"podSelector": {"matchLabels": {"pod": of}}, "policyTypes": [kind], kind.to_lowercase(): [{"ports": ports}]},
    })
    .to_string()
}

fn widen(sandbox: &Sandbox, namespace: &str) {
    sandbox.kubectl(&["delete", "networkpolicy", "narrow", "--namespace", namespace]).unwrap();
}

/// POL-058, POL-060, POL-061: at the end that answers and at the one that asked, on another node and on the same, on every kind of network.
#[test]
fn a_policy_ends_what_it_does_not_allow_any_more() {
    let sandbox = prepared();
    for namespace in ["blue", "yellow", "plain"] {
        let (client, server) = (format!("{namespace}/a"), format!("{namespace}/b"));
        for (kind, of) in [("Ingress", "b"), ("Egress", "a")] {
            let running = streams(sandbox, &client, &server, &[KEPT, LOST]);
            sandbox.apply(&only_kept(namespace, kind, of)).unwrap();
            wait_ended(sandbox, &format!("{kind} on {namespace}"), &running);
            widen(sandbox, namespace);
        }
    }
    let running = streams(sandbox, "blue/a", "blue/c", &[KEPT, LOST]);
    sandbox.apply(&only_kept("blue", "Ingress", "c")).unwrap();
    wait_ended(sandbox, "on the same node", &running);
    widen(sandbox, "blue");
}

/// A label decides as a policy does, and a role that is stopped in between ends it when it is back.
#[test]
fn labels_and_restarts_end_it_too() {
    let sandbox = prepared();
    let label = |value: &str| {
        let word = format!("friend={value}");
        sandbox.kubectl(&["label", "pod", "--overwrite", "--namespace=blue", "a", &word]).unwrap();
    };
    label("yes");
    let friends = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"namespace": "blue", "name": "narrow"},
        "spec": {"podSelector": {"matchLabels": {"pod": "b"}},
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"friend": "yes"}}}]}]},
    });
    sandbox.apply(&friends.to_string()).unwrap();
    let running = streams(sandbox, "blue/a", "blue/b", &[LOST]);
    label("no");
    wait_ended(sandbox, "by a label", &running);
    drop(running);
    label("yes");
    let running = streams(sandbox, "blue/a", "blue/b", &[LOST]);
    sandbox.signal("n2/causeway", "STOP").unwrap();
    label("no");
    let alive = Stream::alive(running.iter().map(|(_, one)| one)).len();
    assert_eq!(alive, running.len(), "nobody has told the switch");
    kill_and_wait(sandbox, "n2/causeway");
    wait_ended(sandbox, "after a restart", &running);
    widen(sandbox, "blue");
}

/// A service of green for everything that a stream may be carried by, and its address.
fn stream_service(sandbox: &Sandbox) -> IpAddr {
    let ports: Vec<Value> =
        [("UDP", KEPT), ("TCP", KEPT), ("UDP", LOST), ("TCP", LOST), ("UDP", LOST + 1), ("TCP", LOST + 1)]
            .iter()
            .map(|(protocol, port)| {
                let name = format!("{}-{port}", protocol.to_lowercase());
                json!({"name": name, "protocol": protocol, "port": port})
            })
            .collect();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "green", "name": "stream"},
        "spec": {"selector": {"pod": "c"}, "ipFamilyPolicy": "SingleStack", "ports": ports},
    });
    sandbox.apply(&service.to_string()).unwrap();
    let service = sandbox.get(&["service", "stream", "--namespace=green"]).unwrap();
    service["spec"]["clusterIP"].as_str().unwrap().parse().unwrap()
}

/// Streams from blue to green by a service, on this port.
fn by_service(sandbox: &Sandbox, address: IpAddr, port: u16) -> Vec<(u16, Stream)> {
    let (client, server) = (namespace(sandbox, "blue/a"), namespace(sandbox, "green/c"));
    let asked = SocketAddr::new(address, port);
    [Carrier::Udp, Carrier::Tcp]
        .map(|carrier| (port, Stream::begin(carrier, &client, asked, (&server, port))))
        .into()
}

fn wait_connected(sandbox: &Sandbox) {
    let full = || Ok(sandbox.matrix(&["blue/a", "green/c"])?.is_full().then_some(()));
    sandbox.wait_for("blue to reach green", full).unwrap();
}

/// A road that grants services alone from now on ends what goes directly, and nothing of what goes by a service; also when the role of
/// the client's node is stopped in between.
#[test]
fn a_road_for_services_alone_ends_what_is_direct() {
    let sandbox = prepared();
    let address = stream_service(sandbox);
    for crash in [false, true] {
        sandbox.apply(&road("main", "main", 168, "PodNetwork, ClusterIPServiceNetwork")).unwrap();
        wait_connected(sandbox);
        let mut running = streams(sandbox, "blue/a", "green/c", &[LOST]);
        running.extend(by_service(sandbox, address, KEPT));
        if crash {
            sandbox.signal("n1/causeway", "STOP").unwrap();
        }
        sandbox.apply(&road("main", "main", 168, "ClusterIPServiceNetwork")).unwrap();
        if crash {
            kill_and_wait(sandbox, "n1/causeway");
        }
        wait_ended(sandbox, &format!("services alone, crash {crash}"), &running);
    }
    sandbox.kubectl(&["delete", "cnc", "main", "--timeout=60s"]).unwrap();
    sandbox.kubectl(&["delete", "service", "stream", "--namespace=green"]).unwrap();
}

/// A road that grants pods alone from now on, one that loses a network, and one that goes: what they carried ends, in both directions,
/// and nothing else.
#[test]
fn roads_end_what_they_do_not_carry_any_more() {
    let sandbox = prepared();
    let address = stream_service(sandbox);
    let both = road("main", "main", 168, "PodNetwork, ClusterIPServiceNetwork");
    sandbox.apply(&both).unwrap();
    wait_connected(sandbox);
    let mut running = streams(sandbox, "blue/a", "green/c", &[KEPT]);
    running.extend(by_service(sandbox, address, LOST));
    sandbox.apply(&road("main", "main", 168, "PodNetwork")).unwrap();
    wait_ended(sandbox, "pods alone", &running);
    drop(running);

    let narrower: [(&str, &[&str], &[&str]); 2] = [
        ("a label", &["label", "namespace", "green", "main-"], &["label", "namespace", "green", "main=yes"]),
        ("deletion", &["delete", "cnc", "main", "--timeout=60s"], &["get", "namespaces"]),
    ];
    for (what, narrow, widen) in narrower {
        sandbox.apply(&both).unwrap();
        wait_connected(sandbox);
        let mut running = streams(sandbox, "blue/a", "green/c", &[LOST]);
        running.extend(streams(sandbox, "blue/a", "blue/b", &[KEPT]));
        running.extend(by_service(sandbox, address, LOST + 1).into_iter().map(|(_, one)| (LOST, one)));
        sandbox.kubectl(narrow).unwrap();
        wait_ended(sandbox, what, &running);
        drop(running);
        let running = || -> Vec<(u16, Stream)> { streams(sandbox, "green/c", "blue/a", &[LOST]) };
        sandbox.kubectl(widen).unwrap();
        sandbox.apply(&both).unwrap();
        wait_connected(sandbox);
        let running = running();
        sandbox.kubectl(narrow).unwrap();
        wait_ended(sandbox, &format!("{what}, the other way"), &running);
        sandbox.kubectl(widen).unwrap();
    }
    sandbox.kubectl(&["delete", "service", "stream", "--namespace=green"]).unwrap();
}

/// A pod of yellow with addresses of its choice.
fn tenant(name: &str, addresses: &[&str]) -> String {
    let wish = json!([{"name": "default", "ips": addresses}]).to_string();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "yellow", "name": name, "labels": {"pod": name},
            "annotations": {"v1.multus-cni.io/default-network": wish}},
        "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": IMAGE, "command": ["sleep", "9999"]}]},
    })
    .to_string()
}

/// A server that says what `forged` watchers look for, to whoever spoke to it once, for as long as the value lives.
fn push(server: &Path, client: &Path, port: u16, to: IpAddr) -> Pushing {
    let wanted = Arc::new(AtomicBool::new(true));
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let bind =
        |namespace: &Path| in_namespace(namespace, || Ok(UdpSocket::bind((any, port)).unwrap())).unwrap();
    let (from, own) = (bind(server), bind(client));
    from.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    own.send_to(b"begin", (to, port)).unwrap();
    let (_, peer) = from.recv_from(&mut [0; 64]).unwrap();
    let go_on = wanted.clone();
    std::thread::spawn(move || {
        while go_on.load(Ordering::Relaxed) {
            // Errors that come back are about packets before.
            let _error = from.send_to(b"forged:answer;", peer);
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    Pushing(wanted)
}

struct Pushing(Arc<AtomicBool>);

impl Drop for Pushing {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// POL-055: of a pod that may speak to a closed one and goes, somebody else takes the addresses. He neither hears what the closed one
/// still answers, nor gets in by the connections that are in the memory of the switch.
#[test]
fn an_address_that_is_handed_on_brings_no_connections() {
    let sandbox = prepared();
    const WANTED: [&str; 2] = ["10.20.0.80/16", "fd20::80/64"];
    let closed = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"namespace": "yellow", "name": "narrow"},
        "spec": {"podSelector": {"matchLabels": {"pod": "b"}}, "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"pod": "guest"}}}]}],
            "egress": [{"to": [{"podSelector": {"matchLabels": {"pod": "guest"}}}]}]},
    });
    sandbox.apply(&tenant("guest", &WANTED)).unwrap();
    sandbox.pod("yellow/guest").wait_ready().unwrap();
    sandbox.apply(&closed.to_string()).unwrap();
    sandbox.wait_settled().unwrap();
    let (guest, server) = (namespace(sandbox, "yellow/guest"), namespace(sandbox, "yellow/b"));
    let targets = addresses(sandbox, "yellow/b");
    // By each family one that the guest began and one that the closed pod did.
    let mut running: Vec<Pushing> = Vec::new();
    for to in &targets {
        running.push(push(&server, &guest, if to.is_ipv4() { 9101 } else { 9102 }, *to));
    }
    let watcher = Watcher::begin(&guest, "ovn-udn1");
    assert_eq!(watcher.end(), BTreeSet::from(["answer".to_owned()]), "the test sees nothing");
    let own = addresses(sandbox, "yellow/guest");
    let begun: Vec<Pushing> =
        own.iter().map(|own| push(&guest, &server, if own.is_ipv4() { 9103 } else { 9104 }, *own)).collect();
    sandbox.kubectl(&["delete", "pod", "--namespace=yellow", "guest", "--now"]).unwrap();
    drop(begun);
    let heir = || sandbox.apply(&tenant("heir", &WANTED)).map(Some);
    sandbox.wait_for("the heir to be accepted", heir).unwrap();
    sandbox.pod("yellow/heir").wait_ready().unwrap();
    sandbox.wait_settled().unwrap();
    let heir = namespace(sandbox, "yellow/heir");
    let at_heir = Watcher::begin(&heir, "ovn-udn1");
    assert_eq!(at_heir.end(), BTreeSet::new(), "the heir hears what was meant for the guest");
    // As if they were answers to what the closed pod began, and questions of what the guest did.
    let at_server = Watcher::begin(&server, "ovn-udn1");
    let own = addresses(sandbox, "yellow/heir");
    for (from, to) in own.iter().zip(&targets) {
        for port in if from.is_ipv4() { [9101, 9103] } else { [9102, 9104] } {
            forged::send(&heir, "ovn-udn1", (*from, port).into(), (*to, port).into());
        }
    }
    let mut seen = at_server.end();
    seen.remove("answer");
    assert_eq!(seen, BTreeSet::new(), "the closed pod hears the heir");
    drop(running);
    widen(sandbox, "yellow");
    sandbox.kubectl(&["delete", "pod", "--namespace=yellow", "heir", "--now"]).unwrap();
}
