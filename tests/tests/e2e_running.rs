//! What runs already when less is allowed than before: connections in which only the server speaks end all the same, and those that
//! stay allowed go on.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use causeway_sandbox::harness::Sandbox;
use causeway_tests::stream::{Carrier, Stream};
use causeway_tests::{kill_and_wait, namespace, road, shared, start_labelled};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

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

/// A road that grants services alone from now on ends what goes directly, and nothing of what goes by a service.
#[test]
fn a_road_for_services_alone_ends_what_is_direct() {
    let sandbox = prepared();
    let both = "PodNetwork, ClusterIPServiceNetwork";
    sandbox.apply(&road("main", "main", 168, both)).unwrap();
    let ports: Vec<Value> = [("UDP", KEPT), ("TCP", KEPT)]
        .iter()
        .map(|(protocol, port)| json!({"name": protocol.to_lowercase(), "protocol": protocol, "port": port}))
        .collect();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "green", "name": "stream"},
        "spec": {"selector": {"pod": "c"}, "ipFamilyPolicy": "SingleStack", "ports": ports},
    });
    sandbox.apply(&service.to_string()).unwrap();
    let service = sandbox.get(&["service", "stream", "--namespace=green"]).unwrap();
    let address: IpAddr = service["spec"]["clusterIP"].as_str().unwrap().parse().unwrap();
    let (client, server) = (namespace(sandbox, "blue/a"), namespace(sandbox, "green/c"));
    sandbox
        .wait_for("blue to reach green", || {
            Ok(sandbox.matrix(&["blue/a", "green/c"])?.is_full().then_some(()))
        })
        .unwrap();
    let asked = SocketAddr::new(address, KEPT);
    let by_service = [Carrier::Udp, Carrier::Tcp]
        .map(|carrier| (KEPT, Stream::begin(carrier, &client, asked, (&server, KEPT))));
    let mut running = streams(sandbox, "blue/a", "green/c", &[LOST]);
    running.extend(by_service);
    sandbox.apply(&road("main", "main", 168, "ClusterIPServiceNetwork")).unwrap();
    wait_ended(sandbox, "services alone", &running);
    sandbox.kubectl(&["delete", "cnc", "main", "--timeout=60s"]).unwrap();
    sandbox.kubectl(&["delete", "service", "stream", "--namespace=green"]).unwrap();
}
