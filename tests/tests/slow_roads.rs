//! Roads between every pair of kinds of networks, in both topologies: what is cut off is cut off at once, and whoever stays
//! connected loses no packet. A node that was away never joins whom a new road does not.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use causeway_sandbox::harness::{Probe, Sandbox};
use causeway_tests::ask::{Ask, asked_from_pods, url};
use causeway_tests::{lost_during, road, shared, wait_roads};

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

/// Does something that cuts some networks off, while those that stay are asked all the time.
fn cut_off(sandbox: &Sandbox, what: &str, words: &[&str], left: &[(&str, &str)]) {
    let lost = lost_during(sandbox, "blue/a", "red/b", || {
        sandbox.kubectl(words).unwrap();
        wait(sandbox, left);
    });
    assert_eq!(lost, 0, "packets of blue and red lost by {what}");
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
        let lost = lost_during(sandbox, "blue/a", "red/b", || topology(sandbox, "all", wanted));
        assert_eq!(lost, 0, "packets lost on the way to {wanted}");
        wait(sandbox, &mesh(&NETWORKS));
        sources_are_kept(sandbox);
        if wanted == "compact" {
            networks_come_and_go(sandbox);
        }
    }
    a_service_gains_a_port(sandbox);
    a_node_that_was_away(sandbox);
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
        &mesh(&all_but(&["green"])),
    );
    cut_off(
        sandbox,
        "a network's label",
        &["label", "cudn", "yellow", "all-"],
        &mesh(&all_but(&["green", "yellow"])),
    );
    sandbox.kubectl(&["label", "namespace", "green", "all=yes"]).unwrap();
    cut_off(sandbox, "what came back", &["label", "cudn", "yellow", "all=yes"], &mesh(&NETWORKS));

    // Another road of the two that are asked, so that the first can lose its selector, and go.
    sandbox.kubectl(&["label", "cudn", "blue", "pair=yes"]).unwrap();
    sandbox.kubectl(&["label", "namespace", "red", "pair=yes"]).unwrap();
    sandbox.apply(&road("pair", "pair", 169, "PodNetwork")).unwrap();
    let ready = ["wait", "--for=condition=Ready", "cnc/pair", "--timeout=60s"];
    sandbox.kubectl(&ready).unwrap();
    let own = all_but(&["blue", "orange", "yellow", "violet"]);
    let both: Vec<(&str, &str)> = mesh(&own).into_iter().chain([("blue", "red")]).collect();
    let patch = r#"{"spec":{"networkSelectors":[{"networkSelectionType":"PrimaryUserDefinedNetworks","primaryUserDefinedNetworkSelector":{"namespaceSelector":{"matchLabels":{"all":"yes"}}}}]}}"#;
    cut_off(sandbox, "a selector", &["patch", "cnc", "all", "--type=merge", "--patch", patch], &both);
    cut_off(sandbox, "deletion", &["delete", "cnc", "all", "--timeout=60s"], &[("blue", "red")]);
    let again = road("all", "all", 168, "PodNetwork");
    let lost = lost_during(sandbox, "blue/a", "red/b", || {
        sandbox.apply(&again).unwrap();
        wait(sandbox, &mesh(&NETWORKS));
    });
    assert_eq!(lost, 0, "packets lost by another road");
    cut_off(sandbox, "deletion of one of two", &["delete", "cnc", "pair", "--timeout=60s"], &mesh(&NETWORKS));
    sandbox.kubectl(&["label", "cudn", "blue", "pair-"]).unwrap();
    sandbox.kubectl(&["label", "namespace", "red", "pair-"]).unwrap();
}

/// A node is cut off while one connection goes and another one comes, with the same links: nobody there ever reaches, or is
/// reached, by what it still has of the first.
fn a_node_that_was_away(sandbox: &Sandbox) {
    for (kind, name) in [("cudn", "yellow"), ("namespace", "rose"), ("namespace", "lime")] {
        sandbox.kubectl(&["label", kind, name, "late=yes"]).unwrap();
    }
    sandbox.partition("n3", true).unwrap();
    sandbox.kubectl(&["delete", "cnc", "all", "--timeout=60s"]).unwrap();
    sandbox.apply(&road("late", "late", 168, "PodNetwork")).unwrap();
    let pods = ["blue/a", "red/b", "lime/b", "green/a"];
    let alone = || {
        let matrix = sandbox.matrix_with(&pods, &[Probe::ALL[0]])?;
        Ok(matrix.wrong(|from, to| from == to).is_empty().then_some(()))
    };
    sandbox.wait_for("everybody on the other nodes to be alone", alone).unwrap();
    sandbox.partition("n3", false).unwrap();
    // From the first packet on.
    let joined = [("yellow", "rose"), ("yellow", "lime"), ("rose", "lime")];
    let strangers = || {
        let all = PODS.map(|(pod, _)| pod);
        let matrix = sandbox.matrix_with(&all, &[Probe::ALL[0]])?;
        let wrong = matrix.wrong(|from, to| {
            causeway_tests::joined(&joined, causeway_tests::network(from), causeway_tests::network(to))
        });
        for (one, other) in mesh(&NETWORKS).into_iter().filter(|pair| !joined.contains(pair)) {
            let pod =
                |network: &str| all.into_iter().find(|pod| causeway_tests::network(pod) == network).unwrap();
            let (one, other) = (pod(one), pod(other));
            assert!(!matrix.leaks(one, other) && !matrix.leaks(other, one), "{one} and {other}:\n{matrix}");
        }
        Ok(wrong.is_empty().then_some(()))
    };
    sandbox.wait_for("the new road and no other", strangers).unwrap();
    wait(sandbox, &joined);
    sandbox.kubectl(&["delete", "cnc", "late", "--timeout=60s"]).unwrap();
}
