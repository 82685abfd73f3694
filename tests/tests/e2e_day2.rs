//! Day 2: networks, namespaces and nodes come and go, and every part is started anew while packets run.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use causeway_sandbox::harness::{IMAGE, Sandbox};
use causeway_tests::{
    condition, inventory, kill_and_wait, lost_during, shared, transactions, wait_reach, zone,
};
use std::collections::BTreeSet;

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const MANIFESTS: &str = include_str!("manifests/day2.yaml");

/// udn-cases D016, D022, D023, D025: what should go is gone, by listing; what is in use stays, and says by whom.
#[test]
fn what_should_go_is_gone() {
    let sandbox = shared();
    wait_calm(sandbox);
    let before = inventory(sandbox, &NODES);
    sandbox.apply(MANIFESTS).unwrap();
    sandbox.start_pods(&[("late-one/a", "n1"), ("own/a", "n1"), ("own/b", "n2")]).unwrap();
    wait_reach(sandbox, "own/a", "own/b");

    // A namespace that is labelled later gets the network, and its pods start by themselves.
    sandbox.kubectl(&["label", "namespace", "late-two", "team=late"]).unwrap();
    sandbox.start_pods(&[("late-two/b", "n2")]).unwrap();
    wait_reach(sandbox, "late-one/a", "late-two/b");

    // A selector that lets go of a namespace whose pods use the network waits for them, and says so.
    sandbox.kubectl(&["label", "namespace", "late-two", "team-"]).unwrap();
    let told = || {
        Ok(Some(condition(sandbox, &["cudn", "late"], "NetworkCreated").1)
            .filter(|m| m.contains("late-two/b")))
    };
    sandbox.wait_for("the network to name its users", told).unwrap();
    assert!(sandbox.can_reach("late-one/a", "late-two/b").unwrap());
    nobody_new_comes(sandbox, "late-two");
    sandbox.kubectl(&["delete", "pod", "-n", "late-two", "b", "--timeout=60s"]).unwrap();
    let gone =
        || Ok(sandbox.kubectl(&["get", "net-attach-def", "-n", "late-two", "late"]).is_err().then_some(()));
    sandbox.wait_for("the attachment to go", gone).unwrap();

    // A network in use is not deleted; after its pods are gone, it is, without anybody's doing.
    sandbox.kubectl(&["delete", "udn", "-n", "own", "lan", "--wait=false"]).unwrap();
    let told = || {
        let (status, message) = condition(sandbox, &["udn", "-n", "own", "lan"], "NetworkCreated");
        Ok((status == "False" && message.contains("own/a") && message.contains("own/b")).then_some(()))
    };
    sandbox.wait_for("the network to name its users", told).unwrap();
    assert!(sandbox.can_reach("own/a", "own/b").unwrap());
    sandbox.kubectl(&["delete", "pods", "-n", "own", "--all", "--timeout=60s"]).unwrap();
    let gone = || Ok(sandbox.kubectl(&["get", "udn", "-n", "own", "lan"]).is_err().then_some(()));
    sandbox.wait_for("the network to go", gone).unwrap();

    sandbox.kubectl(&["delete", "pods", "-n", "late-one", "--all", "--timeout=60s"]).unwrap();
    sandbox.kubectl(&["delete", "cudn", "late", "--timeout=60s"]).unwrap();
    sandbox.kubectl(&["delete", "namespace", "late-one", "late-two", "own", "--timeout=120s"]).unwrap();
    let same = || {
        let left: Vec<String> = inventory(sandbox, &NODES).symmetric_difference(&before).cloned().collect();
        if left.is_empty() { Ok(Some(())) } else { Err(causeway_sandbox::Error::Request(left.join("\n"))) }
    };
    sandbox.wait_for("everything to be as before", same).unwrap();
}

/// Waits until nodes are ready and pods of the cluster itself have moved from where a node was cut off: another test may just have ended.
fn wait_calm(sandbox: &Sandbox) {
    let calm = || {
        let nodes = sandbox.get(&["nodes"])?;
        let tainted =
            nodes["items"].as_array().into_iter().flatten().any(|node| !node["spec"]["taints"].is_null());
        let pods = sandbox.get(&["pods", "--namespace=kube-system"])?;
        let mut pods = pods["items"].as_array().into_iter().flatten();
        let going = pods.any(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
        Ok((!tainted && !going).then_some(()))
    };
    sandbox.wait_for("the cluster to be calm", calm).unwrap();
    let rolled = ["rollout", "status", "deployment/coredns", "--namespace=kube-system", "--timeout=120s"];
    sandbox.kubectl(&rolled).unwrap();
}

/// A network that does not select the namespace any more takes no more pods there, which the pod is told.
fn nobody_new_comes(sandbox: &Sandbox, namespace: &str) {
    let image = format!("--image={IMAGE}");
    sandbox.kubectl(&["run", "newcomer", "--namespace", namespace, &image]).unwrap();
    let selector = "--field-selector=involvedObject.name=newcomer";
    let told = || {
        let events = sandbox.get(&["events", "--namespace", namespace, selector])?.to_string();
        Ok(events.contains("any more: it takes no more pods").then_some(()))
    };
    sandbox.wait_for("the newcomer to be told", told).unwrap();
    sandbox.kubectl(&["delete", "pod", "newcomer", "--namespace", namespace, "--timeout=60s"]).unwrap();
}

/// A node that joins carries pods of every network; of one that leaves nothing stays anywhere.
#[test]
fn nodes_come_and_go() {
    let sandbox = shared();
    sandbox.apply(&MANIFESTS.replace("late", "join").replace("own", "stay")).unwrap();
    sandbox.start_pods(&[("join-one/a", "n1"), ("stay/a", "n1")]).unwrap();
    let before: BTreeSet<String> = zone(sandbox, "n1");
    let node = sandbox.add_node().unwrap();
    sandbox.start_pods(&[("join-one/b", &node), ("stay/b", &node)]).unwrap();
    wait_reach(sandbox, "join-one/a", "join-one/b");
    wait_reach(sandbox, "stay/a", "stay/b");
    assert!(zone(sandbox, "n1").iter().any(|row| row.contains(&node)));
    sandbox.kubectl(&["delete", "pod", "-n", "join-one", "b", "--force"]).unwrap();
    sandbox.kubectl(&["delete", "pod", "-n", "stay", "b", "--force"]).unwrap();
    sandbox.remove_node(&node).unwrap();
    let same = || {
        let left: Vec<String> = zone(sandbox, "n1").symmetric_difference(&before).cloned().collect();
        if left.is_empty() { Ok(Some(())) } else { Err(causeway_sandbox::Error::Request(left.join("\n"))) }
    };
    sandbox.wait_for("nothing to be left of the node", same).unwrap();
    for namespace in ["join-one", "stay"] {
        sandbox.kubectl(&["delete", "pods", "-n", namespace, "--all", "--timeout=60s"]).unwrap();
    }
    sandbox.kubectl(&["delete", "namespace", "join-one", "join-two", "stay", "--timeout=120s"]).unwrap();
    sandbox.kubectl(&["delete", "cudn", "join", "--timeout=60s"]).unwrap();
}

/// Versions of all that Causeway writes in Kubernetes.
fn versions(sandbox: &Sandbox) -> Vec<String> {
    let path = "-o=jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}";
    let kinds = ["net-attach-def", "udn", "cudn", "zonereports"];
    kinds.iter().map(|kind| sandbox.kubectl(&["get", kind, "-A", path]).unwrap()).collect()
}

/// An unchanged restart writes nothing, in no database and not in Kubernetes, and no packet is lost. Restarts of the
/// datapath itself heal.
#[test]
fn restarts_write_nothing_and_lose_nothing() {
    let sandbox = shared();
    sandbox.apply(&MANIFESTS.replace("late", "run").replace("own", "lan")).unwrap();
    sandbox
        .start_pods(&[("run-one/a", "n1"), ("run-one/b", "n2"), ("lan/a", "n1"), ("lan/b", "n2")])
        .unwrap();
    wait_reach(sandbox, "run-one/a", "run-one/b");
    wait_reach(sandbox, "lan/a", "lan/b");
    let rows = NODES.map(|node| zone(sandbox, node));
    for unit in [
        "cluster-manager",
        "n1/causeway",
        "n2/causeway",
        "n1/ovn-northd",
        "n1/nb-db",
        "n1/sb-db",
        "n2/ovs-db",
    ] {
        let (logs, objects) = (NODES.map(|node| transactions(sandbox, node)), versions(sandbox));
        let mut layer2 = 0;
        let layer3 = lost_during(sandbox, "run-one/a", "run-one/b", || {
            layer2 = lost_during(sandbox, "lan/a", "lan/b", || {
                kill_and_wait(sandbox, unit);
                // Long enough for whatever would be written late.
                std::thread::sleep(std::time::Duration::from_secs(3));
            });
        });
        println!("{unit}: {layer3} packets lost on layer3, {layer2} on layer2");
        assert_eq!((layer3, layer2), (0, 0), "{unit}: packets lost on layer3 and layer2");
        assert_eq!(
            NODES.map(|node| transactions(sandbox, node)),
            logs,
            "{unit}: transactions in the northbound logs"
        );
        assert_eq!(versions(sandbox), objects, "{unit}: versions in Kubernetes");
    }
    // Flows outlive ovn-controller; the datapath itself is away until it has started and got its flows again.
    for (unit, bound) in [("n1/ovn-controller", 10), ("n1/ovs-vswitchd", 300)] {
        let lost = lost_during(sandbox, "lan/a", "lan/b", || {
            kill_and_wait(sandbox, unit);
            wait_reach(sandbox, "lan/a", "lan/b");
        });
        println!("{unit}: {lost} packets of 10 a second lost");
        assert!(lost <= bound, "{unit}: {lost} packets of 10 a second lost");
        wait_reach(sandbox, "run-one/a", "run-one/b");
    }
    // Cut off from the API server, a node role that starts anew deletes nothing.
    sandbox.partition("n3", true).unwrap();
    let node_role =
        || Ok(sandbox.status()?.units.into_iter().find(|u| u.id == "n3/causeway").and_then(|u| u.pid));
    let before = node_role().unwrap();
    sandbox.kill("n3/causeway").unwrap();
    sandbox
        .wait_for("the node role to be back", || Ok(node_role()?.filter(|now| Some(*now) != before)))
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(10));
    assert_eq!(zone(sandbox, "n3"), rows[2]);
    sandbox.partition("n3", false).unwrap();
    assert_eq!(NODES.map(|node| zone(sandbox, node)), rows);
    for namespace in ["run-one", "lan"] {
        sandbox.kubectl(&["delete", "pods", "-n", namespace, "--all", "--timeout=60s"]).unwrap();
    }
    sandbox.kubectl(&["delete", "namespace", "run-one", "run-two", "lan", "--timeout=120s"]).unwrap();
    sandbox.kubectl(&["delete", "cudn", "run", "--timeout=60s"]).unwrap();
}
