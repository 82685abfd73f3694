//! Policies: who may talk to whom inside a network of every kind, and across roads. What outside judges ask is in `make conformance`;
//! here is what they cannot ask: roads, restarts, first moments, edits under traffic, and what is left.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use causeway_sandbox::harness::{IMAGE, Probe, Sandbox};
use causeway_tests::{
    inventory, joined, kill_and_wait, lost_during, network, nothing_wrong, road, shared, transactions,
};
use serde_json::{Value, json};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const ISLANDS: &str = include_str!("manifests/connect.yaml");
/// Two pods of each island; `a` pods are labelled `pod: a` and so on.
const PODS: [(&str, &str); 10] = [
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

/// POL-064, the way out, by IPv4: whoever starts under a closed direction never gets out of it, from the first moment on.
#[test]
fn nobody_runs_unprotected() {
    let sandbox = prepared();
    sandbox.kubectl(&["create", "namespace", "shut"]).unwrap();
    sandbox
        .apply(&policy("shut/deny", json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})))
        .unwrap();
    let target = sandbox.pod("plain/a").addresses().unwrap().remove(0);
    // It asks as fast as it can from its first moment on, and says how often somebody answered.
    let script = format!(
        "n=0; ok=0; while [ $n -lt 200 ]; do n=$((n+1)); \
         if timeout 0.2 bash -c 'exec 3<>/dev/tcp/{target}/8080' 2>/dev/null; then ok=$((ok+1)); fi; done; \
         echo answered $ok of $n; exec sleep infinity"
    );
    let pods: Vec<String> = (0..4)
        .map(|n| {
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shut", "name": format!("p{n}")},
                "spec": {"nodeName": NODES[n % 3], "containers": [{
                    "name": "c", "image": IMAGE, "command": ["bash", "-c", script]}]},
            })
            .to_string()
        })
        .collect();
    sandbox.wait_for("pods to be accepted", || sandbox.apply(&pods.join("\n---\n")).map(Some)).unwrap();
    for n in 0..4 {
        let name = format!("p{n}");
        let said = || {
            let log = sandbox.kubectl(&["logs", "--namespace=shut", &name])?;
            Ok(log.lines().find(|line| line.starts_with("answered")).map(str::to_owned))
        };
        let said = sandbox.wait_for(&format!("{name} to have asked"), said).unwrap();
        assert_eq!(said, "answered 0 of 200", "{name}");
    }
    // The test can fail: without the policy somebody answers.
    sandbox.kubectl(&["delete", "networkpolicy", "--namespace=shut", "deny"]).unwrap();
    let open = format!("timeout 2 bash -c 'exec 3<>/dev/tcp/{target}/8080'");
    sandbox
        .wait_for("p0 to be let out", || sandbox.pod("shut/p0").exec(&["bash", "-c", &open]).map(Some))
        .unwrap();
    sandbox.kubectl(&["delete", "namespace", "shut", "--timeout=60s"]).unwrap();
}

/// A policy that is edited many times never loses what all its versions allow. Whether it opens what none does is not looked at here.
#[test]
fn edits_lose_nothing() {
    let sandbox = prepared();
    let rule = |also: &str| {
        json!({"podSelector": {"matchLabels": {"pod": "b"}}, "ingress": [
            {"from": [{"podSelector": {"matchLabels": {"pod": also}}}]},
            {"from": [{"podSelector": {"matchLabels": {"pod": "a"}}}]},
        ]})
    };
    for namespace in ["blue", "yellow", "plain"] {
        sandbox.apply(&policy(&format!("{namespace}/edited"), rule("x"))).unwrap();
    }
    let open = |from: &str, to: &str| name_of(to) != "b" || name_of(from) == "a" || network(from) == "red";
    wait(sandbox, "a comes to b", &[], open);
    for (from, to) in [("blue/a", "blue/b"), ("yellow/a", "yellow/b"), ("plain/a", "plain/b")] {
        let namespace = network(from);
        let lost = lost_during(sandbox, from, to, || {
            for edit in 0..10 {
                let also = format!("other-{edit}");
                sandbox.apply(&policy(&format!("{namespace}/edited"), rule(&also))).unwrap();
            }
        });
        assert_eq!(lost, 0, "{from} to {to}");
    }
    delete_policies(sandbox);
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
    sandbox.start_pods(&PODS).unwrap();
    for (pod, _) in PODS {
        let (namespace, name) = pod.split_once('/').unwrap();
        let label = format!("pod={name}");
        sandbox.kubectl(&["label", "pod", "--overwrite", "--namespace", namespace, name, &label]).unwrap();
    }
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
