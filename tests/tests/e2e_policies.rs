//! Policies: who may talk to whom inside a network of every kind, and across roads. What outside judges ask is in `make conformance`;
//! here is what they cannot ask: roads, restarts, first moments, edits under traffic, and what is left.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "e2e_policies/attackers.rs"]
mod attackers;
#[path = "e2e_policies/chance.rs"]
mod chance;
#[path = "e2e_policies/moments.rs"]
mod moments;
#[path = "e2e_policies/services.rs"]
mod services;

use causeway_sandbox::harness::{Probe, Sandbox};
use causeway_tests::{
    inventory, joined, kill_and_wait, lost_during, network, nothing_wrong, road, shared, start_labelled,
    transactions,
};
use serde_json::{Value, json};
use std::net::IpAddr;

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const ISLANDS: &str = include_str!("manifests/connect.yaml");
/// Two pods of each island; `a` pods are labelled `pod: a` and so on.
const PODS: [(&str, &str); 11] = [
    ("blue/a", "n1"),
    ("blue/b", "n2"),
    ("green/a", "n1"),
    ("green/c", "n3"),
    ("red/b", "n2"),
    ("red/c", "n3"),
    ("yellow/a", "n1"),
    ("yellow/b", "n2"),
    ("plain/a", "n1"),
    ("plain/b", "n2"),
    ("plain/c", "n3"),
];
const MAIN: (&str, &str) = ("blue", "green");
const SIDE: (&str, &str) = ("green", "red");

fn policy(key: &str, spec: Value) -> String {
    let (namespace, name) = key.split_once('/').unwrap();
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"namespace": namespace, "name": name}, "spec": spec,
    })
    .to_string()
}

/// Everything is closed on the way in.
fn deny_in() -> Value {
    json!({"podSelector": {}, "policyTypes": ["Ingress"]})
}

/// Whoever is in a namespace may come in.
fn from_namespace(name: &str) -> Value {
    let namespace = json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
    json!({"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": namespace}]}]})
}

/// Waits until exactly those reach each other who are joined and whom `open` lets.
fn wait(sandbox: &Sandbox, what: &str, roads: &[(&str, &str)], open: impl Fn(&str, &str) -> bool) {
    let pods = PODS.map(|(pod, _)| pod);
    let as_wanted = || {
        let matrix = sandbox.matrix_with(&pods, &[Probe::Http])?;
        let wrong = matrix.wrong(|from, to| joined(roads, network(from), network(to)) && open(from, to));
        nothing_wrong(&wrong, &matrix.to_string())
    };
    sandbox.wait_for(what, as_wanted).unwrap();
    println!("as wanted: {what}");
}

fn name_of(pod: &str) -> &str {
    pod.split_once('/').unwrap().1
}

fn delete_policies(sandbox: &Sandbox) {
    sandbox.kubectl(&["delete", "networkpolicies", "--all", "--all-namespaces", "--now"]).unwrap();
}

/// POL-001, POL-003, POL-006, POL-117 on every kind of network, with their ends.
#[test]
fn policies_hold_on_networks_of_every_kind() {
    let sandbox = prepared();
    let before = inventory(sandbox, &NODES);
    wait(sandbox, "islands", &[], |_, _| true);
    for namespace in ["blue", "green", "red", "yellow", "plain"] {
        sandbox.apply(&policy(&format!("{namespace}/deny"), deny_in())).unwrap();
    }
    wait(sandbox, "everything closed", &[], |_, _| false);
    let from_a = json!({"podSelector": {"matchLabels": {"pod": "b"}},
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"pod": "a"}}}], "ports": [{"port": 8080}]}]});
    for namespace in ["blue", "yellow", "plain"] {
        sandbox.apply(&policy(&format!("{namespace}/from-a"), from_a.clone())).unwrap();
    }
    wait(sandbox, "a comes to b", &[], |from, to| name_of(from) == "a" && name_of(to) == "b");
    // The port is another one now, and the client is closed on his way out.
    let other = json!({"podSelector": {"matchLabels": {"pod": "b"}},
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"pod": "a"}}}], "ports": [{"port": 8081}]}]});
    sandbox.apply(&policy("plain/from-a", other)).unwrap();
    sandbox.apply(&policy("blue/out", json!({"podSelector": {}, "policyTypes": ["Egress"]}))).unwrap();
    wait(sandbox, "yellow alone", &[], |from, to| from == "yellow/a" && to == "yellow/b");
    delete_policies(sandbox);
    wait(sandbox, "islands again", &[], |_, _| true);
    assert_same(&before, sandbox);
}

/// POL-118, POL-120, POL-121: a peer of another network is let in while the road is there, by pods, in both topologies.
#[test]
fn policies_reach_across_roads() {
    let sandbox = prepared();
    let before = inventory(sandbox, &NODES);
    sandbox.apply(&policy("blue/deny", deny_in())).unwrap();
    for name in ["green", "red"] {
        sandbox.apply(&policy(&format!("blue/from-{name}"), from_namespace(name))).unwrap();
    }
    let open = |from: &str, to: &str| network(to) != "blue" || network(from) == "green";
    wait(sandbox, "blue is closed, also to itself", &[], open);
    sandbox.apply(&road("main", "main", 168, "PodNetwork")).unwrap();
    sandbox.apply(&road("side", "side", 169, "PodNetwork")).unwrap();
    wait(sandbox, "green comes in by its road, red is two roads away", &[MAIN, SIDE], open);
    the_same_after_a_restart(sandbox);
    sandbox.set_flags(|flags| flags.cluster_manager.push("--connect-topology=compact".into())).unwrap();
    sandbox.wait_settled().unwrap();
    wait(sandbox, "the same in the other topology", &[MAIN, SIDE], open);

    // Its only way in is the policy for green: whoever loses the label, the road or the grant is out.
    sandbox.kubectl(&["label", "namespace", "green", "main-"]).unwrap();
    wait(sandbox, "green lost its road to blue", &[SIDE], open);
    sandbox.kubectl(&["label", "namespace", "green", "main=yes"]).unwrap();
    wait(sandbox, "and has it again", &[MAIN, SIDE], open);
    sandbox.apply(&road("main", "nobody", 168, "PodNetwork")).unwrap();
    wait(sandbox, "the road selects others", &[SIDE], open);
    sandbox.apply(&road("main", "main", 168, "PodNetwork")).unwrap();
    wait(sandbox, "and these again", &[MAIN, SIDE], open);
    sandbox.apply(&road("main", "main", 168, "ClusterIPServiceNetwork")).unwrap();
    wait(sandbox, "services alone", &[SIDE], open);
    sandbox.kubectl(&["delete", "cnc", "--all", "--timeout=60s"]).unwrap();
    wait(sandbox, "no roads", &[], open);
    delete_policies(sandbox);
    sandbox.set_flags(|flags| flags.cluster_manager.clear()).unwrap();
    sandbox.wait_settled().unwrap();
    wait(sandbox, "islands again", &[], |_, _| true);
    assert_same(&before, sandbox);
}

/// A pod's addresses on its primary network.
fn addresses(sandbox: &Sandbox, pod: &str) -> Vec<IpAddr> {
    sandbox.pod(pod).addresses().unwrap().iter().map(|address| address.parse().unwrap()).collect()
}

/// The first of them.
fn address(sandbox: &Sandbox, pod: &str) -> IpAddr {
    addresses(sandbox, pod).remove(0)
}

/// POL-031, POL-049, POL-144: what the flags and the annotation of logging change, seen on the wire and in the log.
#[test]
fn flags_and_logs_do_what_they_say() {
    let sandbox = prepared();
    let log =
        || NODES.map(|node| std::fs::read_to_string(sandbox.folder().log(&format!("{node}/ovn-controller"))));
    let logged =
        || log().into_iter().flatten().flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let verbosity = "k8s.ovn.org/acl-logging={\"deny\": \"warning\"}";
    sandbox.kubectl(&["annotate", "namespace", "plain", "--overwrite", verbosity]).unwrap();
    sandbox.apply(&policy("plain/deny", deny_in())).unwrap();
    let closed = |_: &str, to: &str| network(to) != "plain";
    wait(sandbox, "plain is closed", &[], closed);
    let told = || {
        let line = logged().find(|line| line.contains("name=\"NP:plain:Ingress\""));
        Ok(line.filter(|line| line.contains("verdict=drop") && line.contains("severity=warning")))
    };
    println!("{}", sandbox.wait_for("a line in the log", told).unwrap());
    sandbox.kubectl(&["annotate", "namespace", "plain", "k8s.ovn.org/acl-logging-"]).unwrap();

    let target = address(sandbox, "plain/b").to_string();
    let ping = || sandbox.pod("plain/a").exec(&["ping", "-c", "1", "-W", "1", &target]);
    assert!(ping().is_err(), "ICMP is closed as everything else is");
    let flags = ["--allow-icmp-network-policy", "--enable-stateless-netpol"].map(str::to_owned);
    sandbox.set_flags(|all| all.node = flags.to_vec()).unwrap();
    sandbox.wait_settled().unwrap();
    sandbox.wait_for("ICMP to pass", || Ok(ping().ok())).unwrap();
    wait(sandbox, "and nothing else", &[], closed);

    // Without connections an answer needs a rule of its own.
    let from_a = json!({"podSelector": {"matchLabels": {"pod": "b"}}, "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"pod": "a"}}}]}]});
    let untracked = |spec: &Value| {
        let text = policy("plain/untracked", spec.clone());
        let mut object: Value = serde_json::from_str(&text).unwrap();
        object["metadata"]["annotations"] = json!({"k8s.ovn.org/acl-stateless": "true"});
        sandbox.apply(&object.to_string()).unwrap();
    };
    untracked(&from_a);
    wait(sandbox, "the question alone is not enough", &[], closed);
    let mut both = from_a.clone();
    both["egress"] = json!([{"to": [{"podSelector": {"matchLabels": {"pod": "a"}}}]}]);
    untracked(&both);
    wait(sandbox, "both ways are written down", &[], |from, to| {
        network(to) != "plain" || (name_of(from), name_of(to)) == ("a", "b")
    });
    delete_policies(sandbox);
    sandbox.set_flags(|all| all.node.clear()).unwrap();
    sandbox.wait_settled().unwrap();
    wait(sandbox, "islands again", &[], |_, _| true);
}

/// Policies of the cluster's administrator stand before and behind those of tenants.
#[test]
fn administrators_stand_before_and_behind() {
    let sandbox = prepared();
    let of = |name: &str, tier: &str, action: &str| {
        let namespaces = json!({"matchLabels": {"kubernetes.io/metadata.name": "plain"}});
        json!({
            "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy", "metadata": {"name": name},
            "spec": {"tier": tier, "priority": 7, "subject": {"namespaces": namespaces},
                "ingress": [{"action": action, "from": [{"namespaces": {}}]}]},
        })
        .to_string()
    };
    let plain_closed = |_: &str, to: &str| network(to) != "plain";
    sandbox.apply(&of("behind", "Baseline", "Deny")).unwrap();
    wait(sandbox, "closed by the baseline", &[], plain_closed);
    let from_all = json!({"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]});
    sandbox.apply(&policy("plain/open", from_all)).unwrap();
    wait(sandbox, "opened by the tenant", &[], |_, _| true);
    sandbox.apply(&of("before", "Admin", "Deny")).unwrap();
    wait(sandbox, "closed by the administrator", &[], plain_closed);
    sandbox.apply(&of("before", "Admin", "Pass")).unwrap();
    wait(sandbox, "left to the tenant", &[], |_, _| true);
    sandbox.kubectl(&["delete", "cnp", "--all"]).unwrap();
    delete_policies(sandbox);
    wait(sandbox, "islands again", &[], |_, _| true);
}

/// The example of two tenants: a road, and one door in it by the name of a port.
#[test]
fn the_example_of_two_tenants_opens_one_door() {
    let sandbox = shared();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/policies/two-tenants.yaml");
    sandbox
        .wait_for("the example to be taken", || sandbox.kubectl(&["apply", "-f", file]).map(Some))
        .unwrap();
    let pods = ["lemon/shop", "lime/client", "lime/stranger"];
    pods.iter().for_each(|pod| sandbox.pod(pod).wait_ready().unwrap());
    let one_door = || {
        let matrix = sandbox.matrix_with(&pods, &[Probe::Http])?;
        let wrong = matrix.wrong(|from, to| from == "lime/client" && to == "lemon/shop");
        nothing_wrong(&wrong, &matrix.to_string())
    };
    sandbox.wait_for("the client alone to reach the shop", one_door).unwrap();
    sandbox.kubectl(&["delete", "-f", file, "--timeout=120s"]).unwrap();
}

/// The islands and their pods, whichever test is the first.
fn prepared() -> &'static Sandbox {
    let sandbox = shared();
    sandbox.apply(ISLANDS).unwrap();
    start_labelled(sandbox, &PODS);
    sandbox
}

/// Restarts of everything of ours write nothing and lose nothing.
fn the_same_after_a_restart(sandbox: &Sandbox) {
    let writes = || NODES.map(|node| transactions(sandbox, node));
    let before = writes();
    let lost = lost_during(sandbox, "green/a", "blue/a", || {
        for unit in ["n1/causeway", "n2/causeway", "cluster-manager"] {
            kill_and_wait(sandbox, unit);
        }
    });
    assert_eq!((lost, writes()), (0, before));
}

fn assert_same(before: &std::collections::BTreeSet<String>, sandbox: &Sandbox) {
    let same = || {
        let now = inventory(sandbox, &NODES);
        let left: Vec<String> = now.symmetric_difference(before).cloned().collect();
        nothing_wrong(&left, "is left, or gone")
    };
    sandbox.wait_for("nothing to be left", same).unwrap();
}
