//! Policies by chance, with packets: who reaches whom is what the specification says, on the default network, on islands and across
//! a road.

use std::collections::BTreeMap;
use std::net::IpAddr;

use causeway_sandbox::harness::{Probe, Sandbox};
use causeway_testing::policy::{Choices, Packet, Person, Written};
use causeway_tests::{at_length, joined, network, nothing_wrong, road};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::{MAIN, PODS, delete_policies, name_of, policy, prepared};

const NAMESPACES: [&str; 5] = ["blue", "green", "plain", "red", "yellow"];
/// How many sets of policies are tried, and how many where there is time. They are the same in every run, so that a failure can be looked at.
const ROUNDS: [usize; 2] = [2, 6];
const PORT: u16 = 8080;

fn choices() -> Choices {
    let named = |name: &str| json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
    let protocols = |port: u16| json!([{"tcp": {"destinationPort": {"number": port}}}, {"udp": {"destinationPort": {"number": 53}}}]);
    Choices {
        namespaces: NAMESPACES.to_vec(),
        pods: Choices::selectors_of_pods(),
        selectors: vec![
            json!({}),
            named("blue"),
            named("green"),
            named("plain"),
            json!({"matchLabels": {"main": "yes"}}),
        ],
        // The ones are of one family, so that the two families of a pair do not always agree.
        blocks: vec![json!({"ipBlock": {"cidr": "0.0.0.0/0"}}), json!({"ipBlock": {"cidr": "fd03::/16"}})],
        ports: vec![
            json!({"port": PORT}),
            json!({"port": PORT - 1, "endPort": PORT + 1}),
            json!({"port": PORT + 1}),
            json!({"protocol": "UDP", "port": PORT}),
        ],
        protocols: vec![Value::Null, protocols(PORT), protocols(PORT + 1)],
    }
}

/// Policies of one round, on top of what namespaces are called.
fn round(runner: &mut TestRunner, namespaces: &BTreeMap<String, BTreeMap<String, String>>) -> Written {
    let of = |count, each| proptest::collection::vec(each, count);
    let policies = of(3..7_usize, choices().policies().boxed()).new_tree(runner).unwrap().current();
    let cluster = of(0..3_usize, choices().cluster_policies().boxed()).new_tree(runner).unwrap().current();
    Written {
        namespaces: namespaces.clone(),
        policies: policies.into_iter().collect(),
        cluster: cluster.into_iter().collect(),
    }
}

/// The labels of namespaces, as the API server has them.
fn labels(sandbox: &Sandbox) -> BTreeMap<String, BTreeMap<String, String>> {
    let labels = |name: &str| {
        let object = sandbox.get(&["namespace", name]).unwrap();
        serde_json::from_value(object["metadata"]["labels"].clone()).unwrap()
    };
    NAMESPACES.iter().map(|name| ((*name).to_owned(), labels(name))).collect()
}

fn people() -> BTreeMap<&'static str, Person> {
    let person = |pod: &'static str| Person {
        namespace: network(pod).to_owned(),
        name: name_of(pod).to_owned(),
        labels: [("pod".to_owned(), name_of(pod).to_owned())].into(),
        ports: Vec::new(),
    };
    PODS.iter().map(|(pod, _)| (*pod, person(pod))).collect()
}

fn write(sandbox: &Sandbox, written: &Written) {
    for (key, spec) in &written.policies {
        sandbox.apply(&policy(key, spec.clone())).unwrap();
    }
    for (name, spec) in &written.cluster {
        let object = json!({
            "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy",
            "metadata": {"name": name}, "spec": spec,
        });
        sandbox.apply(&object.to_string()).unwrap();
    }
}

/// Waits until exactly those pass whom the specification lets, each family by itself.
fn as_the_specification_says(sandbox: &Sandbox, written: &Written, addresses: &BTreeMap<&str, Vec<IpAddr>>) {
    let (people, pods) = (people(), PODS.map(|(pod, _)| pod));
    let passes = |from: &str, to: &str, six: bool| {
        let at = |pod: &str| *addresses[pod].iter().find(|ip| ip.is_ipv6() == six).unwrap();
        let (source, target) = (at(from), at(to));
        let packet =
            Packet { from: &people[from], to: &people[to], source, target, protocol: "tcp", port: PORT };
        joined(&[MAIN], network(from), network(to)) && written.passes(&packet)
    };
    let checked = || {
        let matrix = sandbox.matrix_with(&pods, &[Probe::Http])?;
        let families =
            |from: &str, to: &str| [false, true].into_iter().filter(|six| passes(from, to, *six)).count();
        let wrong = matrix.miscounted(families);
        nothing_wrong(&wrong, &format!("{written:#?}\n{matrix}"))
    };
    sandbox.wait_for("what the specification says", checked).unwrap();
}

/// The same reading of the specification that rows are compared with, with real packets.
#[test]
fn policies_by_chance_mean_what_the_specification_says() {
    let sandbox = prepared();
    sandbox.apply(&road("main", "main", 168, "PodNetwork")).unwrap();
    let of =
        |pod: &str| sandbox.pod(pod).addresses().unwrap().iter().map(|text| text.parse().unwrap()).collect();
    let addresses = PODS.iter().map(|(pod, _)| (*pod, of(pod))).collect();
    let (mut runner, namespaces) = (TestRunner::deterministic(), labels(sandbox));
    for number in 0..ROUNDS[usize::from(at_length())] {
        let written = round(&mut runner, &namespaces);
        write(sandbox, &written);
        as_the_specification_says(sandbox, &written, &addresses);
        println!("round {number}: {} and {} policies", written.policies.len(), written.cluster.len());
        delete_policies(sandbox);
        sandbox.kubectl(&["delete", "clusternetworkpolicies", "--all"]).unwrap();
    }
    sandbox.kubectl(&["delete", "cnc", "main", "--timeout=60s"]).unwrap();
}
