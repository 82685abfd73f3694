//! Mirrors of EndpointSlices against a real API server. Nobody writes slices there by himself: the test does, as the
//! controllers of Kubernetes do.

#![allow(clippy::unwrap_used, reason = "a helper of a test may stop it")]

mod real_support;

use causeway_api::annotations::keys;
use real_support::{Cluster, Running, a_restart_writes_nothing};
use serde_json::{Value, json};

const NS: &str = "blue";
const CONTROLLER: &str = "endpointslice-controller.k8s.io";

/// One server for everything: starting one costs seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slices_and_their_mirrors() {
    let cluster = Cluster::start();
    cluster.nodes(&["n1"]);
    let manager = Running::start(&cluster);
    a_service_is_mirrored(&cluster);
    endpoints_come_and_go(&cluster);
    slices_of_users_are_mirrored(&cluster);
    large_slices_are_mirrored(&cluster);
    mirrors_are_the_managers_alone(&cluster);
    let manager = a_restart_writes_nothing(&cluster, "endpointslices", manager).await;
    mirrors_go(&cluster);
    manager.stop().await;
}

fn slice(cluster: &Cluster, name: &str, managed_by: &str, rest: Value) -> Value {
    let service = cluster.get("service", NS, "web");
    let owner = json!({"apiVersion": "v1", "kind": "Service", "name": "web", "uid": service["metadata"]["uid"],
                       "controller": true, "blockOwnerDeletion": true});
    let mut slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": name, "namespace": NS, "generateName": "web-",
            "labels": {keys::SERVICE_LABEL: "web", keys::SLICE_MANAGED_BY_LABEL: managed_by},
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"},
            "ownerReferences": [owner],
        },
    });
    slice.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    slice
}

fn endpoint(cluster: &Cluster, pod: &str) -> Value {
    let uid = cluster.get("pod", NS, pod)["metadata"]["uid"].clone();
    json!({
        "addresses": ["10.244.9.9"],
        "conditions": {"ready": true, "serving": true, "terminating": false},
        "hostname": pod,
        "nodeName": "n1",
        "zone": "a",
        "hints": {"forZones": [{"name": "a"}]},
        "targetRef": {"kind": "Pod", "namespace": NS, "name": pod, "uid": uid},
    })
}

fn at(endpoint: &Value, address: &str) -> Value {
    let mut endpoint = endpoint.clone();
    endpoint["addresses"] = json!([address]);
    endpoint
}

/// The mirrors of a slice.
fn mirrors(cluster: &Cluster, source: &str) -> Vec<Value> {
    let selector = format!("{}={}", keys::SLICE_MANAGED_BY_LABEL, keys::SLICE_MIRRORS);
    let text = cluster.kubectl(&["get", "endpointslices", "-n", NS, "-l", &selector, "-o", "json"]);
    let list: Value = serde_json::from_str(&text).unwrap();
    let all = list["items"].as_array().unwrap().iter();
    all.filter(|slice| slice["metadata"]["annotations"][keys::MIRROR_SOURCE] == source).cloned().collect()
}

/// The one mirror of a slice, once it is as it should be.
fn mirror(cluster: &Cluster, source: &str, right: impl Fn(&Value) -> bool) -> Value {
    cluster.eventually(&format!("{source} is mirrored"), || match &mirrors(cluster, source)[..] {
        [only] if right(only) => Some(only.clone()),
        _ => None,
    })
}

fn addresses(mirror: &Value) -> Vec<&str> {
    let endpoints = mirror["endpoints"].as_array().into_iter().flatten();
    endpoints.map(|endpoint| endpoint["addresses"][0].as_str().unwrap()).collect()
}

fn patch(cluster: &Cluster, name: &str, patch: &Value) {
    cluster.kubectl(&["patch", "endpointslice", name, "-n", NS, "--type=merge", "-p", &patch.to_string()]);
}

/// I001, I002, I016: what the server keeps of a mirror is what its source says.
fn a_service_is_mirrored(cluster: &Cluster) {
    let labels = json!({keys::PRIMARY_NETWORK_LABEL: ""});
    cluster.create(
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS, "labels": labels}}),
    );
    cluster
        .create(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": NS},
                           "spec": {"ports": [{"port": 80}]}}));
    cluster.create(&json!({"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "metadata": {"name": "net", "namespace": NS},
                           "spec": {"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.100.0.0/16"]}}}));
    cluster.pod(NS, "a", "n1");
    assert_eq!(cluster.address(NS, "a", "blue/net"), "10.100.0.3/16");
    let ports = json!([{"name": "http", "port": 8080, "protocol": "TCP", "appProtocol": "http"}, {"name": "", "port": 9, "protocol": "UDP"}]);
    let known = endpoint(cluster, "a");
    cluster.create(&slice(
        cluster,
        "web-abcde",
        CONTROLLER,
        json!({"addressType": "IPv4", "ports": ports, "endpoints": [known]}),
    ));
    let mirror = mirror(cluster, "web-abcde", |_| true);
    let source = cluster.get("endpointslice", NS, "web-abcde");
    let (meta, of_source) = (&mirror["metadata"], &source["metadata"]);
    assert!(meta["name"].as_str().unwrap().starts_with("web-abcde-"), "{meta}");
    assert_eq!(
        meta["labels"],
        json!({keys::SLICE_MANAGED_BY_LABEL: keys::SLICE_MIRRORS, keys::MIRRORED_SERVICE_LABEL: "web"})
    );
    let annotations = json!({keys::MIRROR_SOURCE: "web-abcde", keys::MIRROR_NETWORK: "blue_net",
                             keys::MIRROR_SOURCE_VERSION: of_source["resourceVersion"]});
    assert_eq!(meta["annotations"], annotations);
    assert_eq!(meta["ownerReferences"], of_source["ownerReferences"]);
    assert_eq!(mirror["addressType"], "IPv4");
    assert_eq!(mirror["ports"], source["ports"]);
    assert_eq!(mirror["endpoints"], json!([at(&known, "10.100.0.3")]));
}

/// I010, I011, I013.
fn endpoints_come_and_go(cluster: &Cluster) {
    let (known, mut late) = (endpoint(cluster, "a"), endpoint(cluster, "late"));
    late["targetRef"].as_object_mut().unwrap().remove("uid");
    let mut changed = known.clone();
    changed["conditions"] = json!({"ready": false, "serving": true, "terminating": true});
    patch(cluster, "web-abcde", &json!({"endpoints": [late, changed]}));
    let flagged =
        mirror(cluster, "web-abcde", |mirror| mirror["endpoints"][0]["conditions"]["ready"] == false);
    assert_eq!(flagged["endpoints"], json!([at(&changed, "10.100.0.3")]));
    cluster.pod(NS, "late", "n1");
    mirror(cluster, "web-abcde", |mirror| addresses(mirror) == ["10.100.0.4", "10.100.0.3"]);
    patch(cluster, "web-abcde", &json!({"endpoints": []}));
    mirror(cluster, "web-abcde", |mirror| addresses(mirror).is_empty());
    patch(cluster, "web-abcde", &json!({"endpoints": [known]}));
    mirror(cluster, "web-abcde", |mirror| addresses(mirror) == ["10.100.0.3"]);
}

/// I014, and slices without ports, without endpoints and of names.
fn slices_of_users_are_mirrored(cluster: &Cluster) {
    let plain = |family: &str, endpoints: Value| json!({"addressType": family, "ports": null, "endpoints": endpoints});
    let six = plain("IPv6", json!([{"addresses": ["2001:db8::10", "2001:db8::11"]}]));
    let mut by_hand = slice(cluster, "by-hand", "team", six);
    by_hand["metadata"]["ownerReferences"] = json!([]);
    cluster.create(&by_hand);
    let mirrored = mirror(cluster, "by-hand", |_| true);
    assert_eq!(mirrored["endpoints"][0]["addresses"], json!(["2001:db8::10", "2001:db8::11"]));
    assert_eq!((&mirrored["ports"], &mirrored["addressType"]), (&Value::Null, &json!("IPv6")));
    let mirroring = "endpointslicemirroring-controller.k8s.io";
    cluster.create(&slice(
        cluster,
        "mirrored",
        mirroring,
        plain("IPv4", json!([{"addresses": ["192.0.2.10"]}])),
    ));
    cluster.create(&slice(cluster, "empty", CONTROLLER, plain("IPv4", json!([]))));
    cluster.create(&slice(cluster, "names", "team", plain("FQDN", json!([{"addresses": ["example.org"]}]))));
    mirror(cluster, "mirrored", |mirror| addresses(mirror) == ["192.0.2.10"]);
    assert_eq!((mirrors(cluster, "empty"), mirrors(cluster, "names")), (vec![], vec![]));
}

/// As many endpoints as a slice takes.
fn large_slices_are_mirrored(cluster: &Cluster) {
    let endpoints: Vec<Value> = (0..1000)
        .map(|n| json!({"addresses": [format!("192.0.{}.{}", n / 250, n % 250 + 1)], "nodeName": "n1"}))
        .collect();
    cluster.create(&slice(
        cluster,
        "large",
        CONTROLLER,
        json!({"addressType": "IPv4", "ports": [], "endpoints": endpoints}),
    ));
    mirror(cluster, "large", |mirror| addresses(mirror).len() == 1000);
}

/// I008: whoever deletes a mirror finds it again; whoever may write slices in the namespace cannot write one that names
/// somebody else's network.
fn mirrors_are_the_managers_alone(cluster: &Cluster) {
    let before = mirror(cluster, "web-abcde", |_| true);
    let name = before["metadata"]["name"].as_str().unwrap();
    cluster.let_edit(NS, "tenant");
    let bind =
        ["create", "role", "slices", "--verb=*", "--resource=endpointslices.discovery.k8s.io", "-n", NS];
    cluster.kubectl(&bind);
    cluster.kubectl(&["create", "rolebinding", "slices", "--role=slices", "--user=tenant", "-n", NS]);
    let tenant = ["--as=tenant", "--as-group=system:authenticated"];
    let mut forged = before.clone();
    forged["metadata"] = json!({"name": "forged", "namespace": NS, "labels": {keys::MIRRORED_SERVICE_LABEL: "web"},
                                "annotations": {keys::MIRROR_NETWORK: "red_net"}});
    let refused = cluster.create_as(&tenant, &forged).unwrap_err();
    assert!(
        refused.contains("only the cluster manager of Causeway writes EndpointSlices that mirror others"),
        "{refused}"
    );
    let change = json!({"endpoints": [{"addresses": ["192.0.2.66"]}]}).to_string();
    let patch =
        [&tenant[..], &["patch", "endpointslice", name, "-n", NS, "--type=merge", "-p", &change]].concat();
    assert!(!cluster.server.kubectl(&patch).ok);
    let deleted =
        cluster.server.kubectl(&[&tenant[..], &["delete", "endpointslice", name, "-n", NS]].concat());
    assert!(deleted.ok, "{}", deleted.err);
    let after = mirror(cluster, "web-abcde", |mirror| mirror["metadata"]["uid"] != before["metadata"]["uid"]);
    assert_eq!(
        (&after["metadata"]["name"], &after["endpoints"]),
        (&before["metadata"]["name"], &before["endpoints"])
    );
}

/// I007, I017.
fn mirrors_go(cluster: &Cluster) {
    cluster.kubectl(&["delete", "endpointslice", "web-abcde", "-n", NS]);
    cluster.eventually("the mirror goes with its source", || {
        mirrors(cluster, "web-abcde").is_empty().then_some(())
    });
    assert_eq!(mirrors(cluster, "large").len(), 1);
    cluster.kubectl(&["delete", "pods", "--all", "-n", NS, "--force", "--grace-period=0"]);
    cluster.kubectl(&["delete", "udn", "net", "-n", NS, "--timeout=30s"]);
    cluster.eventually("mirrors go with the network", || mirrors(cluster, "large").is_empty().then_some(()));
    assert_eq!(mirrors(cluster, "by-hand"), Vec::<Value>::new());
    assert!(!cluster.get("endpointslice", NS, "by-hand").is_null());
}
