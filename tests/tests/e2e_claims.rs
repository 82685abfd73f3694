//! What is somebody's stays his: a node's place, also when it changes its address or its name; numbers, also when a node was
//! away; addresses and networks, also when somebody else asks for them. On a whole cluster, with packets.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "e2e_claims/corners.rs"]
mod corners;
#[path = "e2e_claims/places.rs"]
mod places;

use causeway_sandbox::harness::{IMAGE, Sandbox};
use causeway_tests::{shared, wait_reach};
use serde_json::{Value, json};

const MANIFESTS: &str = include_str!("manifests/claims.yaml");
const POD_NETWORKS: &str = "k8s.ovn.org/pod-networks";

/// One story, since a node that is away takes its time, and the rest happens meanwhile.
#[test]
fn what_is_somebodys_stays_his() {
    let sandbox = shared();
    sandbox.set_flags(|all| all.cluster_manager = vec!["--fence-node-after=30".to_owned()]).unwrap();
    sandbox.apply(MANIFESTS).unwrap();
    sandbox.start_pods(&[("lan/a", "n1"), ("lan/b", "n2"), ("lan/c", "n3")]).unwrap();
    wait_reach(sandbox, "lan/a", "lan/b");
    wait_reach(sandbox, "lan/a", "lan/c");

    places::a_node_gets_another_address(sandbox);
    places::a_machine_gets_another_name(sandbox);
    let away = places::Away::begin(sandbox, "n3");
    corners::static_pods_need_the_administrators_word(sandbox);
    corners::who_waits_is_in_nobodys_way(sandbox);
    corners::a_network_by_hand_stays_under_its_pods(sandbox);
    corners::a_typo_is_refused_at_once(sandbox);
    corners::a_namespace_of_the_same_name_is_another_one(sandbox);
    corners::guards_follow_subnets(sandbox);
    corners::no_way_for_a_family_without_links(sandbox);
    away.end();
}

/// The tool image with annotations.
fn pod(path: &str, node: &str, annotations: &Value) -> Value {
    let (namespace, name) = path.split_once('/').unwrap();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "annotations": annotations, "labels": {"app": "tools"}},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "tools", "image": IMAGE,
                "readinessProbe": {"httpGet": {"path": "/hostname", "port": 8080}, "periodSeconds": 1},
            }],
        },
    })
}

/// Waits for an event about an object that says this; what else it says.
fn wait_said(sandbox: &Sandbox, namespace: &str, name: &str, text: &str) -> String {
    let selector = format!("--field-selector=involvedObject.name={name}");
    let said = || {
        let events = sandbox.get(&["events", "--namespace", namespace, &selector])?;
        let events = events["items"].as_array().cloned().unwrap_or_default();
        let mut messages = events.iter().filter_map(|event| event["message"].as_str());
        Ok(messages.find(|message| message.contains(text)).map(str::to_owned))
    };
    let said = sandbox.wait_for(&format!("{namespace}/{name} to be told {text:?}"), said).unwrap();
    println!("{namespace}/{name}: {said}");
    said
}

/// What a pod was given, if it was.
fn given(sandbox: &Sandbox, pod: &str) -> Option<String> {
    let object = sandbox.pod(pod).object().unwrap();
    object["metadata"]["annotations"][POD_NETWORKS].as_str().map(str::to_owned)
}

fn delete(sandbox: &Sandbox, words: &[&str]) {
    sandbox.kubectl(&[&["delete", "--timeout=120s"], words].concat()).unwrap();
}
