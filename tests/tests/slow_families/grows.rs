//! A network of one family that has no address left: what comes then is on a second one, and a third one comes and goes unnoticed.

use causeway_sandbox::address::Family;
use causeway_sandbox::harness::{IMAGE, Probe, Sandbox};
use causeway_tests::siblings::{
    lost_between, networked, node_of, pods_on, wait_replicas, wait_served_by_both,
};
use causeway_tests::{condition, nothing_wrong};

/// More than the first network has room for.
const REPLICAS: u64 = 16;
/// A pod of another network.
const STRANGER: &str = "lake/c";

/// A network of the tenant; of two subnets the one of the family.
fn udn(family: Family, name: &str, topology: &str, subnets: [&str; 2]) -> String {
    let subnet = subnets[usize::from(family == Family::Ipv6)];
    let (layer, subnets) = match topology {
        "Layer2" => ("layer2", format!("[\"{subnet}\"]")),
        _ => ("layer3", format!("[{{cidr: \"{subnet}\"}}]")),
    };
    format!(
        "---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {{name: {name}, namespace: grow}}
spec: {{topology: {topology}, {layer}: {{role: Primary, subnets: {subnets}}}}}
"
    )
}

fn web(replicas: u64) -> String {
    format!(
        "---
apiVersion: v1
kind: Namespace
metadata: {{name: grow, labels: {{k8s.ovn.org/primary-user-defined-network: \"\"}}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: grow}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: \"{IMAGE}\"
        readinessProbe: {{httpGet: {{path: /hostname, port: 8080}}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: grow}}
spec:
  selector: {{app: web}}
  ports: [{{port: 80, targetPort: 8080}}]
"
    )
}

fn wait_full(sandbox: &Sandbox) -> usize {
    let full = || {
        let network = sandbox.get(&["udn", "--namespace", "grow", "small"])?;
        let addresses = network["status"]["addresses"].as_str().unwrap_or_default().to_owned();
        let there = pods_on(sandbox, "grow/small").len();
        let waiting = format!("{} pod(s) get no address", REPLICAS.saturating_sub(there as u64));
        let (status, message) =
            condition(sandbox, &["udn", "--namespace", "grow", "small"], "NetworkAllocationSucceeded");
        let is_full =
            addresses == format!("{there}/{there}") && status == "False" && message.contains(&waiting);
        Ok(is_full.then_some(there))
    };
    sandbox.wait_for("the small network to be full", full).unwrap()
}

/// In the cluster with one family that other tests have left.
pub(crate) fn over_its_end(sandbox: &Sandbox, family: Family) {
    sandbox.apply(&web(8)).unwrap();
    sandbox.apply(&udn(family, "small", "Layer2", ["10.90.0.0/28", "fd90::/124"])).unwrap();
    wait_replicas(sandbox, "grow", 8);
    let before = networked(sandbox, "grow");
    let replicas = format!("--replicas={REPLICAS}");
    sandbox.kubectl(&["scale", "--namespace", "grow", "deployment/web", &replicas]).unwrap();
    let room = wait_full(sandbox);
    sandbox.apply(&udn(family, "wide", "Layer3", ["10.91.0.0/16", "fd91::/48"])).unwrap();
    wait_replicas(sandbox, "grow", REPLICAS);
    let after = networked(sandbox, "grow");
    assert!(before.iter().all(|(name, own)| after.get(name) == Some(own)), "no pod is another one now");
    let (old, new) = (pods_on(sandbox, "grow/small"), pods_on(sandbox, "grow/wide"));
    assert_eq!((old.len(), new.len() as u64), (room, REPLICAS - room as u64));
    println!("{family:?}: {room} pods on the first network, {} on the second one", new.len());

    let all: Vec<&str> = old[..2].iter().chain(&new[..2]).map(String::as_str).chain([STRANGER]).collect();
    let apart = || {
        let matrix = sandbox.matrix_with(&all, &Probe::ALL)?;
        let wrong = matrix.wrong(|from, to| (from == STRANGER) == (to == STRANGER));
        nothing_wrong(&wrong, &matrix.to_string())
    };
    sandbox.wait_for("both networks to be one tenant's alone", apart).unwrap();
    wait_served_by_both(sandbox, "grow", [&old, &new]);
    a_third_one_comes_and_goes(sandbox, family, &old, &new);
    sandbox.kubectl(&["delete", "namespace", "grow", "--timeout=120s"]).unwrap();
}

/// Between two nodes, for all that is made and taken away anew is there.
fn a_third_one_comes_and_goes(sandbox: &Sandbox, family: Family, old: &[String], new: &[String]) {
    let mut pairs = old.iter().flat_map(|from| new.iter().map(move |to| (from, to)));
    let (from, to) = pairs.find(|(from, to)| node_of(sandbox, from) != node_of(sandbox, to)).unwrap();
    for third in [
        udn(family, "third", "Layer2", ["10.92.0.0/24", "fd92::/64"]),
        udn(family, "third", "Layer3", ["10.93.0.0/16", "fd93::/48"]),
    ] {
        let lost = lost_between(sandbox, from, to, || {
            sandbox.apply(&third).unwrap();
            let words = ["udn", "--namespace", "grow", "third"];
            let ready = || Ok((condition(sandbox, &words, "NetworkReady").0 == "True").then_some(()));
            sandbox.wait_for("the third network", ready).unwrap();
            sandbox.kubectl(&[&["delete"], &words[..], &["--timeout=60s"]].concat()).unwrap();
            let gone = || {
                let words = ["ovn-nbctl", "--bare", "--columns=name", "list", "Logical_Switch"];
                Ok((!sandbox.exec("n1", &words)?.contains("grow_third")).then_some(()))
            };
            sandbox.wait_for("nothing to be left of the third network", gone).unwrap();
        });
        println!("{family:?}: {lost:?} packets lost from {from} to {to}");
        assert_eq!(lost, [0], "packets lost from {from} to {to} while a sibling came and went:\n{third}");
    }
}
