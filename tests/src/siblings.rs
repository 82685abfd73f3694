//! Pods of namespaces with several primary networks: which of them they ask for, which they are on, and who answers for a service.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::{BTreeMap, BTreeSet};

use causeway_sandbox::harness::{IMAGE, Sandbox};

use crate::lost_of;

const POD_NETWORKS: &str = "k8s.ovn.org/pod-networks";

/// The manifest of a pod that asks for a network of its namespace.
pub fn asking(pod: &str, node: &str, network: &str) -> String {
    let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}, labels: {{app: tools}}, annotations: {{k8s.ovn.org/requested-primary-udn: {network}}}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 0
  containers:
  - {{name: tools, image: \"{IMAGE}\", readinessProbe: {{httpGet: {{path: /hostname, port: 8080}}, periodSeconds: 1}}}}
"
    )
}

/// Starts pods on their nodes, each on the network that it asks for.
///
/// # Panics
/// When they do not start, or are on another one.
pub fn start_asking(sandbox: &Sandbox, pods: &[(&str, &str, &str)]) {
    let all: String = pods.iter().map(|(pod, node, network)| asking(pod, node, network)).collect();
    sandbox.wait_for("pods to be accepted", || sandbox.apply(&all).map(Some)).unwrap();
    for (pod, _, network) in pods {
        sandbox.pod(pod).wait_ready().unwrap();
        let (namespace, name) = pod.split_once('/').unwrap();
        assert_eq!(networked(sandbox, namespace)[name].0, format!("{namespace}/{network}"));
    }
}

/// Pods of a namespace by name, with the attachment of their primary network and what tells them from others.
///
/// # Panics
/// When they cannot be read.
pub fn networked(sandbox: &Sandbox, namespace: &str) -> BTreeMap<String, (String, String)> {
    let list = sandbox.get(&["pods", "--namespace", namespace]).unwrap();
    let found = list["items"].as_array().unwrap().iter().filter_map(|pod| {
        let text = pod["metadata"]["annotations"][POD_NETWORKS].as_str()?;
        let networks: serde_json::Value = serde_json::from_str(text).unwrap();
        let (nad, _) = networks.as_object()?.iter().find(|(_, entry)| entry["role"] == "primary")?;
        let restarts = &pod["status"]["containerStatuses"][0]["restartCount"];
        let own = format!("{} {restarts}", pod["metadata"]["uid"]);
        Some((pod["metadata"]["name"].as_str()?.to_owned(), (nad.clone(), own)))
    });
    found.collect()
}

/// The pods on a network, by its attachment.
///
/// # Panics
/// When they cannot be read.
pub fn pods_on(sandbox: &Sandbox, nad: &str) -> Vec<String> {
    let namespace = nad.split('/').next().unwrap();
    let here = networked(sandbox, namespace).into_iter().filter(|(_, (network, _))| network == nad);
    here.map(|(name, _)| format!("{namespace}/{name}")).collect()
}

/// The node of a pod.
///
/// # Panics
/// When it has none.
pub fn node_of(sandbox: &Sandbox, pod: &str) -> String {
    let object = sandbox.pod(pod).object().unwrap();
    object["spec"]["nodeName"].as_str().unwrap().to_owned()
}

/// Waits until so many pods of the Deployment `web` are ready.
///
/// # Panics
/// When they never are.
pub fn wait_replicas(sandbox: &Sandbox, namespace: &str, count: u64) {
    let ready = || {
        let deployment = sandbox.get(&["deployment", "--namespace", namespace, "web"])?;
        Ok((deployment["status"]["readyReplicas"].as_u64() == Some(count)).then_some(()))
    };
    sandbox.wait_for(&format!("{count} replicas"), ready).unwrap();
}

/// Waits until pods of both networks answer for the service `web` at each of its addresses, whoever of these two asks, and nobody else does.
///
/// # Panics
/// When they never do, or somebody else does.
pub fn wait_served_by_both(sandbox: &Sandbox, namespace: &str, [old, new]: [&[String]; 2]) {
    let service = sandbox.get(&["service", "--namespace", namespace, "web"]).unwrap();
    for address in service["spec"]["clusterIPs"].as_array().unwrap() {
        let url = crate::ask::url(address.as_str().unwrap(), 80, "/hostname");
        for client in [&old[0], &new[0]] {
            let served = || {
                let seen = answers(sandbox, client, &url);
                let both = [old, new].iter().all(|pods| pods.iter().any(|pod| seen.contains(pod)));
                let foreign = seen.iter().find(|name| !old.contains(name) && !new.contains(name));
                assert_eq!(foreign, None);
                Ok(both.then_some(seen.len()))
            };
            let count = sandbox.wait_for(&format!("{client} to be served at {url}"), served).unwrap();
            println!("{client} is served at {url} by {count} of {} pods", old.len() + new.len());
        }
    }
}

/// The pods that answer, as seen by a pod of their namespace.
fn answers(sandbox: &Sandbox, pod: &str, url: &str) -> BTreeSet<String> {
    let (namespace, _) = pod.split_once('/').unwrap();
    let script = format!("for i in $(seq 60); do curl -s --max-time 3 {url}; echo; done | sort -u");
    let said = sandbox.pod(pod).exec(&["sh", "-c", &script]).unwrap();
    said.lines().filter(|line| !line.is_empty()).map(|name| format!("{namespace}/{name}")).collect()
}

/// The packets lost from one pod to each address of another one while something happens.
///
/// # Panics
/// When no packet to one of them ever came back.
pub fn lost_between(sandbox: &Sandbox, from: &str, to: &str, what: impl FnOnce()) -> Vec<u32> {
    let addresses = sandbox.pod(to).addresses().unwrap();
    let pings: Vec<(&str, &str)> = addresses.iter().map(|address| (from, address.as_str())).collect();
    lost_of(sandbox, &pings, what)
}
