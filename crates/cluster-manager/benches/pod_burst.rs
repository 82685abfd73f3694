//! `pod-burst`: a thousand pods wait for their network; it is created, and all of them get their addresses. A real API
//! server, no kubelets. Beside it the same server with plain patches of the same texts, as many at once: what it can do.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

#[path = "../tests/real_support/mod.rs"]
mod real_support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, watcher};
use kube::{Api, ResourceExt};
use real_support::{Cluster, Running, pod};
use serde_json::json;

const PODS: usize = 1000;
const NODES: usize = 10;
/// As many as the manager's queue has in flight.
const AT_ONCE: usize = 32;
const ANNOTATION: &str = "k8s.ovn.org/pod-networks";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let cluster = Cluster::start();
    let nodes: Vec<String> = (0..NODES).map(|number| format!("n{number}")).collect();
    cluster.nodes(&nodes.iter().map(String::as_str).collect::<Vec<_>>());
    for namespace in ["limit", "burst"] {
        cluster.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": namespace, "labels": {"k8s.ovn.org/primary-user-defined-network": ""}}}));
        create_pods(&cluster, namespace).await;
    }
    let limit = plain_patches(&cluster).await;
    let manager = Running::start(&cluster);
    manager.wait_until_ready(&cluster);
    let burst = burst(&cluster).await;
    manager.stop().await;
    let (wall, limit) = (burst.as_secs_f64(), limit.as_secs_f64());
    println!(
        "{}",
        json!({"name": "pod-burst", "n": PODS, "m": NODES, "rows": PODS, "wall_s": wall, "limit_wall_s": limit,
               "ratio": wall / limit, "pods_per_s": (PODS as f64 / wall).round()})
    );
}

async fn create_pods(cluster: &Cluster, namespace: &str) {
    let api: Api<Pod> = Api::namespaced(cluster.admin(), namespace);
    let create = |number: usize| {
        let api = api.clone();
        let object = pod(namespace, &format!("p{number}"), &format!("n{}", number % NODES));
        async move { api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await }
    };
    let created = futures::stream::iter((0..PODS).map(create)).buffer_unordered(AT_ONCE);
    created.try_for_each(|_| async { Ok(()) }).await.unwrap();
}

/// Patches of about the size that the manager writes, with its rights and through the same policies.
async fn plain_patches(cluster: &Cluster) -> Duration {
    let api: Api<Pod> = Api::namespaced(cluster.client(), "limit");
    let entry = |address: &str| {
        json!({"ip_addresses": [address], "mac_address": "0a:58:0a:f4:00:03", "gateway_ips": ["10.0.0.1"],
               "routes": [{"dest": "10.96.0.0/16", "nextHop": "10.0.0.1"}, {"dest": "100.65.0.0/16", "nextHop": "10.0.0.1"}],
               "ip_address": address, "role": "primary", "tunnel_id": 10})
    };
    let text = json!({"default": entry("10.244.0.3/24"), "limit/net": entry("10.0.0.3/16")}).to_string();
    let body = json!({"metadata": {"annotations": {ANNOTATION: text}}});
    let seen = tokio::spawn(annotated(cluster.admin(), "limit"));
    let start = Instant::now();
    let patch = |number: usize| {
        let (api, body) = (api.clone(), body.clone());
        async move {
            let name = format!("p{number}");
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&body)).await
        }
    };
    let patched = futures::stream::iter((0..PODS).map(patch)).buffer_unordered(AT_ONCE);
    patched.try_for_each(|_| async { Ok(()) }).await.unwrap();
    seen.await.unwrap();
    start.elapsed()
}

async fn burst(cluster: &Cluster) -> Duration {
    let seen = tokio::spawn(annotated(cluster.admin(), "burst"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let start = Instant::now();
    cluster.create(&json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork",
        "metadata": {"namespace": "burst", "name": "net"},
        "spec": {"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.100.0.0/16"]}},
    }));
    seen.await.unwrap();
    start.elapsed()
}

/// Waits until all pods of the namespace are annotated.
async fn annotated(client: kube::Client, namespace: &'static str) {
    let api: Api<Pod> = Api::namespaced(client, namespace);
    let mut done = BTreeSet::new();
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
    while done.len() < PODS {
        let Some(Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod))) = events.next().await
        else {
            continue;
        };
        if pod.annotations().contains_key(ANNOTATION) {
            done.insert(pod.name_any());
        }
    }
}
