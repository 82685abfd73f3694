//! Roads between every pair of kinds of networks, in both topologies: what is cut off is cut off at once, and whoever stays
//! connected loses no packet. A node that was away never joins whom a new road does not.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "slow_roads/away.rs"]
mod away;
#[path = "slow_roads/large.rs"]
mod large;

use causeway_sandbox::harness::{Probe, Sandbox};
use causeway_tests::ask::{Ask, asked_from_pods, url};
use causeway_tests::dial::Dialler;
use causeway_tests::{lost_of, namespace, road, shared, wait_roads};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const ISLANDS: &str = include_str!("manifests/pairs.yaml");
/// One pod of each island; neighbours in this list are on different nodes.
const PODS: [(&str, &str); 8] = [
    ("blue/a", "n1"),
    ("orange/b", "n2"),
    ("yellow/c", "n3"),
    ("violet/a", "n1"),
    ("red/b", "n2"),
    ("rose/c", "n3"),
    ("green/a", "n1"),
    ("lime/b", "n2"),
];
const NETWORKS: [&str; 8] = ["blue", "orange", "yellow", "violet", "red", "rose", "green", "lime"];

/// Who stays connected whatever happens, layer3 and layer2, by both families: he is asked all the time.
const STAY: [(&str, &str, usize); 4] =
    [("blue/a", "red/b", 0), ("blue/a", "red/b", 1), ("violet/a", "lime/b", 0), ("violet/a", "lime/b", 1)];
/// How long it may take from the API until somebody is cut off, beside what OVN takes on his node: as long as the annotations of a
/// connection may have to wait for their turn, and as long again for everybody else.
const CUT_OFF: Duration = Duration::from_secs(2);
/// Who was not answered for so long is cut off.
const SILENCE: Duration = Duration::from_secs(3);
/// Nobody waits longer for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every pair of these networks.
fn mesh<'a>(networks: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    let pairs = |at: usize| networks[at + 1..].iter().map(move |other| (networks[at], *other));
    (0..networks.len()).flat_map(pairs).collect()
}

/// All networks without these.
fn all_but(out: &[&str]) -> Vec<&'static str> {
    NETWORKS.into_iter().filter(|name| !out.contains(name)).collect()
}

fn wait(sandbox: &Sandbox, roads: &[(&str, &str)]) {
    wait_roads(sandbox, &PODS.map(|(pod, _)| pod), &Probe::ALL, roads);
}

fn topology(sandbox: &Sandbox, name: &str, wanted: &str) {
    let flag = vec![format!("--connect-topology={wanted}")];
    sandbox.set_flags(|flags| flags.cluster_manager = flag).unwrap();
    let moved = || {
        let object = sandbox.get(&["cnc", name])?;
        let is = object["metadata"]["annotations"]["k8s.ovn.org/connect-topology"].as_str() == Some(wanted);
        Ok((is && object["status"]["status"] == "Success").then_some(()))
    };
    sandbox.wait_for(&format!("{name} to be {wanted}"), moved).unwrap();
}

/// Does something while those that stay are asked all the time; they lose nothing.
fn nothing_lost(sandbox: &Sandbox, what: &str, act: impl FnOnce()) {
    let addresses = STAY.map(|(_, to, number)| sandbox.pod(to).addresses().unwrap().remove(number));
    let flows: Vec<(&str, &str)> =
        STAY.iter().zip(&addresses).map(|((from, ..), to)| (*from, to.as_str())).collect();
    let lost = lost_of(sandbox, &flows, act);
    assert_eq!(lost, [0; STAY.len()], "packets of {STAY:?} lost by {what}");
}

/// Does something that cuts some networks off, of which one pod asks another one that he loses.
fn cut_off(sandbox: &Sandbox, what: &str, words: &[&str], (from, to): (&str, &str), left: &[(&str, &str)]) {
    let own = namespace(sandbox, from);
    let targets = sandbox.pod(to).addresses().unwrap().into_iter();
    let diallers: Vec<Dialler> =
        targets.map(|to| Dialler::begin(&own, SocketAddr::new(to.parse().unwrap(), 8080))).collect();
    let answered = || Ok(diallers.iter().all(|one| one.answered() > 0).then_some(()));
    sandbox.wait_for(&format!("{from} to be answered by {to}"), answered).unwrap();
    nothing_lost(sandbox, what, || {
        sandbox.kubectl(words).unwrap();
        let written = Instant::now();
        let node = PODS.iter().find(|(pod, _)| *pod == from).unwrap().1;
        sandbox.exec(node, &["ovn-nbctl", "--wait=hv", "--timeout=60", "sync"]).unwrap();
        let raw = written.elapsed();
        let last = || diallers.iter().filter_map(Dialler::last).max().unwrap();
        let silent = || Ok((last().elapsed() > SILENCE).then_some(()));
        sandbox.wait_within(&format!("{from} to lose {to} by {what}"), PATIENCE, silent).unwrap();
        let took = last().saturating_duration_since(written);
        println!("{what}: {from} lost {to} after {took:.1?}, OVN on {node} took {raw:.1?}");
        assert!(took <= CUT_OFF + 2 * raw, "{what}: {took:?}, OVN {raw:?}");
        wait(sandbox, left);
    });
}

#[test]
fn every_pair_of_kinds() {
    let sandbox = shared();
    sandbox.apply(ISLANDS).unwrap();
    sandbox.start_pods(&PODS).unwrap();
    wait(sandbox, &[]);
    sandbox.apply(&road("all", "all", 168, "PodNetwork")).unwrap();
    wait(sandbox, &mesh(&NETWORKS));
    sources_are_kept(sandbox);
    networks_come_and_go(sandbox);
    for wanted in ["compact", "transit"] {
        nothing_lost(sandbox, &format!("the way to {wanted}"), || topology(sandbox, "all", wanted));
        wait(sandbox, &mesh(&NETWORKS));
        sources_are_kept(sandbox);
        if wanted == "compact" {
            networks_come_and_go(sandbox);
            away::a_node_that_was_away(sandbox, wanted);
            sandbox.apply(&road("all", "all", 168, "PodNetwork")).unwrap();
            wait(sandbox, &mesh(&NETWORKS));
        }
    }
    a_service_gains_a_port(sandbox);
    away::a_node_that_was_away(sandbox, "transit");
}

/// cnc-cases X13: a service that gains a port of UDP is reached by both protocols, by both families and from every node.
fn a_service_gains_a_port(sandbox: &Sandbox) {
    sandbox.apply(&road("all", "all", 168, "PodNetwork, ClusterIPServiceNetwork")).unwrap();
    let service = |ports: &str| {
        format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: both, namespace: lime}}, spec: {{ipFamilyPolicy: RequireDualStack, \
             selector: {{app: tools}}, ports: [{ports}]}}}}"
        )
    };
    let tcp = "{name: tcp, port: 80, targetPort: 8080}";
    sandbox.apply(&service(tcp)).unwrap();
    let object = sandbox.get(&["service", "--namespace", "lime", "both"]).unwrap();
    let addresses: Vec<String> = serde_json::from_value(object["spec"]["clusterIPs"].clone()).unwrap();
    let clients = ["blue/a", "red/b", "yellow/c", "lime/b"];
    let wait = |what: &str, asks: &[Ask]| {
        let served = || {
            let said = asked_from_pods(sandbox, &clients, asks)?;
            Ok(said.iter().all(|(_, said)| said.len() == asks.len()).then_some(()))
        };
        sandbox.wait_for(what, served).unwrap();
    };
    let by_tcp = addresses.iter().map(|address| Ask::http(&url(address, 80, "/hostname"), address));
    let by_tcp: Vec<Ask> = by_tcp.collect();
    wait("everybody to be served", &by_tcp);
    sandbox
        .apply(&service(&format!("{tcp}, {{name: udp, protocol: UDP, port: 81, targetPort: 8081}}")))
        .unwrap();
    let by_udp = addresses.iter().map(|address| {
        Ask::new(&format!("echo hostname | nc -u -w 2 {address} 81 | grep ."), &format!("{address} by UDP"))
    });
    let both: Vec<Ask> = by_udp.chain(by_tcp).collect();
    wait("everybody to be served by both protocols", &both);
    sandbox.kubectl(&["delete", "service", "--namespace", "lime", "both"]).unwrap();
}

fn sources_are_kept(sandbox: &Sandbox) {
    for (from, to) in [("blue/a", "red/b"), ("yellow/c", "green/a"), ("rose/c", "lime/b")] {
        let own = sandbox.pod(from).addresses().unwrap();
        for address in sandbox.pod(to).addresses().unwrap() {
            let url = url(&address, 8080, "/clientip");
            let seen = sandbox.pod(from).exec(&["curl", "-s", "--max-time", "5", &url]).unwrap();
            assert!(own.iter().any(|own| seen.contains(own.as_str())), "{from}: {seen} is none of {own:?}");
        }
    }
}

/// cnc-cases X02, X04: by the label of a namespace, by that of a ClusterUserDefinedNetwork, by a selector that goes, by a
/// connection that goes beside another.
fn networks_come_and_go(sandbox: &Sandbox) {
    cut_off(
        sandbox,
        "a namespace's label",
        &["label", "namespace", "green", "all-"],
        ("green/a", "red/b"),
        &mesh(&all_but(&["green"])),
    );
    cut_off(
        sandbox,
        "a network's label",
        &["label", "cudn", "yellow", "all-"],
        ("yellow/c", "red/b"),
        &mesh(&all_but(&["green", "yellow"])),
    );
    nothing_lost(sandbox, "what came back", || {
        sandbox.kubectl(&["label", "namespace", "green", "all=yes"]).unwrap();
        sandbox.kubectl(&["label", "cudn", "yellow", "all=yes"]).unwrap();
        wait(sandbox, &mesh(&NETWORKS));
    });
    the_first_of_two_goes(sandbox);
}

/// Another road of those that are asked, so that the first can lose its selector, and go.
fn the_first_of_two_goes(sandbox: &Sandbox) {
    const PAIR: [(&str, &str); 4] =
        [("cudn", "blue"), ("cudn", "violet"), ("namespace", "red"), ("namespace", "lime")];
    PAIR.iter().for_each(|(kind, name)| drop(sandbox.kubectl(&["label", kind, name, "pair=yes"]).unwrap()));
    sandbox.apply(&road("pair", "pair", 169, "PodNetwork")).unwrap();
    sandbox.kubectl(&["wait", "--for=condition=Ready", "cnc/pair", "--timeout=60s"]).unwrap();
    let pair = mesh(&["blue", "violet", "red", "lime"]);
    let own = all_but(&["blue", "orange", "yellow", "violet"]);
    let both: Vec<(&str, &str)> = mesh(&own).into_iter().chain(pair.iter().copied()).collect();
    let patch = r#"{"spec":{"networkSelectors":[{"networkSelectionType":"PrimaryUserDefinedNetworks","primaryUserDefinedNetworkSelector":{"namespaceSelector":{"matchLabels":{"all":"yes"}}}}]}}"#;
    let words = ["patch", "cnc", "all", "--type=merge", "--patch", patch];
    cut_off(sandbox, "a selector", &words, ("blue/a", "rose/c"), &both);
    let words = ["delete", "cnc", "all", "--wait=false"];
    cut_off(sandbox, "deletion", &words, ("rose/c", "green/a"), &pair);
    sandbox.kubectl(&["delete", "cnc", "all", "--ignore-not-found", "--timeout=60s"]).unwrap();
    nothing_lost(sandbox, "another road", || {
        sandbox.apply(&road("all", "all", 168, "PodNetwork")).unwrap();
        wait(sandbox, &mesh(&NETWORKS));
    });
    nothing_lost(sandbox, "the end of one of two", || {
        sandbox.kubectl(&["delete", "cnc", "pair", "--timeout=60s"]).unwrap();
        wait(sandbox, &mesh(&NETWORKS));
    });
    PAIR.iter().for_each(|(kind, name)| drop(sandbox.kubectl(&["label", kind, name, "pair-"]).unwrap()));
}
