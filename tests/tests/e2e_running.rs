//! What runs already when less is allowed than before: connections in which only the server speaks end all the same, and those that
//! stay allowed go on.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "e2e_running/roads.rs"]
mod roads;

use causeway_host::in_namespace;
use causeway_sandbox::harness::{IMAGE, Sandbox};
use causeway_tests::dial::Dialler;
use causeway_tests::forged::{self, Watcher};
use causeway_tests::stream::{Carrier, Stream};
use causeway_tests::{kill_and_wait, namespace, shared, start_labelled, talk};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
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
/// Where connections begin anew all the time, as long as that is allowed.
const FRESH: u16 = 9300;
/// How much later than what is new everything has to end that is not allowed any more.
const ENDS: Duration = Duration::from_secs(1);
/// Who serves where connections begin anew.
const FRESHLY_ASKED: [&str; 6] = ["blue/a", "blue/b", "blue/c", "green/c", "plain/b", "yellow/b"];

fn prepared() -> &'static Sandbox {
    static SERVED: Once = Once::new();
    let sandbox = shared();
    sandbox.apply(ISLANDS).unwrap();
    start_labelled(sandbox, &PODS);
    SERVED.call_once(|| {
        FRESHLY_ASKED.iter().for_each(|pod| talk::serve(&namespace(sandbox, pod), FRESH));
    });
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

/// Allows less, and looks when what runs ends: at most a second after nobody can begin anew. A machine that takes longer than a second for
/// that, from the request on, may take as long again.
fn narrow(
    sandbox: &Sandbox,
    what: &str,
    streams: &[(u16, Stream)],
    (client, asked): (&str, IpAddr),
    act: impl FnOnce(),
) {
    let fresh = Dialler::begin(&namespace(sandbox, client), SocketAddr::new(asked, FRESH));
    let begun = || Ok((fresh.answered() > 0).then_some(()));
    sandbox.wait_for(&format!("{what}: connections to begin"), begun).unwrap();
    let began = Instant::now();
    act();
    wait_ended(sandbox, what, streams);
    let after = |last: Option<Instant>| last.unwrap().saturating_duration_since(began);
    let new = after(fresh.last());
    let lost = streams.iter().filter(|(port, _)| *port == LOST);
    let (late, name) = lost.map(|(_, stream)| (after(stream.last()), stream.name())).max().unwrap();
    println!("{what}: nothing begins after {new:.1?}, nothing runs after {late:.1?} ({name})");
    assert!(late <= new + ENDS.max(new), "{what}: {name} ran for {late:.1?}, others began for {new:.1?}");
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
            let asked = (client.as_str(), addresses(sandbox, &server)[0]);
            narrow(sandbox, &format!("{kind} on {namespace}"), &running, asked, || {
                sandbox.apply(&only_kept(namespace, kind, of)).unwrap();
            });
            widen(sandbox, namespace);
        }
    }
    let running = streams(sandbox, "blue/a", "blue/c", &[KEPT, LOST]);
    narrow(sandbox, "on the same node", &running, ("blue/a", addresses(sandbox, "blue/c")[0]), || {
        sandbox.apply(&only_kept("blue", "Ingress", "c")).unwrap();
    });
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
    let asked = ("blue/a", addresses(sandbox, "blue/b")[0]);
    narrow(sandbox, "by a label", &running, asked, || label("no"));
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
