//! The whole cluster manager against a real API server: with the rights it has in production, with admission policies in
//! place, and with tenants who try.

#![allow(clippy::unwrap_used, reason = "a helper of a test may stop it")]

mod real_support;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use causeway_cluster::{Answer, Output, replay};
use causeway_record::Part;
use causeway_record::recording::Header;
use real_support::{Cluster, Running, a_restart_writes_nothing};
use serde_json::{Value, json};

const LABEL: &str = "k8s.ovn.org/primary-user-defined-network";

fn namespace(name: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

fn udn(namespace: &str, name: &str, subnet: &str) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"topology": "Layer2", "layer2": {"role": "Primary", "subnets": [subnet]}},
    })
}

fn cudn(name: &str, selector: Value, cidr: &str) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "metadata": {"name": name},
        "spec": {"namespaceSelector": selector, "network": {"topology": "Layer3", "layer3": {
            "role": "Primary", "subnets": [{"cidr": cidr, "hostSubnet": 24}]}}},
    })
}

fn nad(namespace: &str, name: &str, config: &Value) -> Value {
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"namespace": namespace, "name": name}, "spec": {"config": config.to_string()},
    })
}

/// Everything that the manager writes.
const WRITTEN: &str = "nodes,pods,net-attach-def,udn,cudn,configmaps";

/// One server for everything that needs the policies: starting one costs seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_a_manifest_to_addresses_and_back() {
    let cluster = Cluster::start();
    cluster.nodes(&["n1", "n2"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording");
    let manager = Running::recorded(&cluster, &file);
    networks_get_numbers_and_pods_addresses(&cluster);
    columns_tell_what_there_is(&cluster);
    tenants_stay_in_their_networks(&cluster);
    let manager = a_restart_writes_nothing(&cluster, WRITTEN, manager).await;
    what_was_recorded_is_played_again(&file);
    a_network_in_use_stays(&cluster);
    manager.stop().await;
}

/// The first manager has recorded everything until it ended: the same messages give the same writes.
fn what_was_recorded_is_played_again(file: &Path) {
    let recording = std::fs::read_to_string(file).unwrap();
    let mut lines = recording.lines();
    let header = Header::read(lines.next().unwrap()).unwrap();
    let answers: Vec<Answer> = replay(&header, lines).unwrap().map(Result::unwrap).collect();
    let written = answers.iter().filter_map(|answer| match &answer.output {
        Output::Write(request) if request.part == Part::Networks => Some(request.target.to_string()),
        _ => None,
    });
    let written: BTreeSet<String> = written.collect();
    for pod in ["pods blue/a", "pods red/a", "pods default/a"] {
        assert!(written.contains(pod), "{pod} is not in {written:?}");
    }
}

fn networks_get_numbers_and_pods_addresses(cluster: &Cluster) {
    cluster.create(&namespace("blue", json!({LABEL: ""})));
    cluster.create(&namespace("red", json!({LABEL: "", "team": "red"})));
    cluster.create(&udn("blue", "net", "10.100.0.0/16"));
    cluster.create(&cudn("shared", json!({"matchLabels": {"team": "red"}}), "203.203.0.0/16"));
    cluster.pod("blue", "a", "n1");
    cluster.pod("red", "a", "n2");
    cluster.pod("default", "a", "n2");
    let node = cluster.eventually("the node has an id", || {
        let node = cluster.get("node", "", "n2");
        node["metadata"]["annotations"]["k8s.ovn.org/node-id"].is_string().then_some(node)
    });
    let annotations = &node["metadata"]["annotations"];
    assert_eq!(annotations["k8s.ovn.org/node-id"], "3");
    assert_eq!(annotations["k8s.ovn.org/node-subnets"], r#"{"default":["10.244.1.0/24"]}"#);
    assert_eq!(annotations["k8s.ovn.org/node-transit-peer-ports-subnet"], r#"{"ipv4":"100.88.0.8/30"}"#);
    assert_eq!(cluster.address("blue", "a", "blue/net"), "10.100.0.3/16");
    assert_eq!(cluster.address("red", "a", "red/shared"), "203.203.1.3/24");
    assert!(cluster.address("default", "a", "default").starts_with("10.244.1."));
    let rendered = cluster.get("net-attach-def", "red", "shared");
    assert_eq!(rendered["metadata"]["annotations"]["k8s.ovn.org/network-name"], "cluster_udn_shared");
    assert_eq!(rendered["metadata"]["ownerReferences"][0]["kind"], "ClusterUserDefinedNetwork");
}

/// A064.
fn columns_tell_what_there_is(cluster: &Cluster) {
    let table = cluster.eventually("both networks are ready", || {
        let table = cluster.kubectl(&["get", "udn,cudn", "-A"]);
        (table.matches(" True ").count() >= 2).then_some(table)
    });
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    let row =
        |name: &str| rows.iter().find(|row| row.iter().any(|cell| cell.ends_with(name))).unwrap().clone();
    for wanted in ["Layer2", "Primary", "10.100.0.0/16", "True"] {
        assert!(row("/net").contains(&wanted), "{wanted} is not in {table}");
    }
    for wanted in ["Layer3", "Primary", "203.203.0.0/16/24", "True"] {
        assert!(row("/shared").contains(&wanted), "{wanted} is not in {table}");
    }
}

/// A tenant who may edit his namespace, and write NADs there, tries to get into the networks of others.
fn tenants_stay_in_their_networks(cluster: &Cluster) {
    cluster.create(&namespace("mallory", json!({LABEL: ""})));
    cluster.create(&udn("mallory", "own", "10.200.0.0/24"));
    cluster.let_edit("mallory", "mallory");
    let tenant = ["--as=mallory", "--as-group=system:authenticated"];
    let config = |name: &str| {
        json!({"cniVersion": "1.1.0", "type": "ovn-k8s-cni-overlay", "name": name, "topology": "layer2",
                                      "role": "secondary", "subnets": "10.9.0.0/24"})
    };
    // A NAD of his own that names the networks of others.
    for (name, network) in [("tap-udn", "blue_net"), ("tap-cudn", "cluster_udn_shared")] {
        cluster.create_as(&tenant, &nad("mallory", name, &config(network))).unwrap();
        let said = cluster.event("mallory", name);
        assert!(said.contains("belongs to a user-defined network: choose another name"), "{said}");
        let seen = cluster.get("net-attach-def", "mallory", name);
        assert_eq!(seen["metadata"]["annotations"], Value::Null, "it gets no number");
    }
    // A NAD that claims to be rendered from somebody's network is taken away.
    let owner = cluster.get("cudn", "", "shared")["metadata"]["uid"].clone();
    let mut forged = nad("mallory", "shared", &config("cluster_udn_shared"));
    forged["metadata"]["ownerReferences"] = json!([{"apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork",
                                                     "name": "shared", "uid": owner, "controller": true}]);
    cluster.create_as(&tenant, &forged).unwrap();
    cluster.eventually("the forged attachment is gone", || {
        cluster.get("net-attach-def", "mallory", "shared").is_null().then_some(())
    });
    // Numbers and addresses are written by the manager alone, and the label of a namespace by nobody.
    let numbered = json!({"k8s.ovn.org/network-name": "blue_net", "k8s.ovn.org/network-id": "1"});
    let mut with_number = nad("mallory", "numbered", &config("mine"));
    with_number["metadata"]["annotations"] = numbered;
    let refused = cluster.create_as(&tenant, &with_number).unwrap_err();
    assert!(
        refused.contains("only the cluster manager of Causeway writes k8s.ovn.org/network-name"),
        "{refused}"
    );
    let entry = json!({"blue/net": {"ip_addresses": ["10.100.0.3/16"], "mac_address": "0a:58:0a:64:00:03", "role": "primary"}});
    let mut pod = real_support::pod("mallory", "forged", "n1");
    pod["metadata"]["annotations"] = json!({"k8s.ovn.org/pod-networks": entry.to_string()});
    let refused = cluster.create_as(&tenant, &pod).unwrap_err();
    assert!(
        refused.contains("only the cluster manager of Causeway writes k8s.ovn.org/pod-networks"),
        "{refused}"
    );
    // An address of another network, and a network of another namespace.
    let ask = |name: &str, annotations: Value| {
        let mut pod = real_support::pod("mallory", name, "n1");
        pod["metadata"]["annotations"] = annotations;
        cluster.create_as(&tenant, &pod).unwrap();
        cluster.event("mallory", name)
    };
    let address = json!([{"name": "default", "ips": ["10.100.0.9/16"]}]).to_string();
    let said = ask("outside", json!({"v1.multus-cni.io/default-network": address}));
    assert!(said.contains("address 10.100.0.9 is not in any subnet of the network"), "{said}");
    let said = ask("stranger", json!({"k8s.v1.cni.cncf.io/networks": "blue/net"}));
    assert!(said.contains("networks of namespace blue are for its own pods"), "{said}");
    for name in ["outside", "stranger"] {
        let seen = cluster.get("pod", "mallory", name);
        assert_eq!(
            seen["metadata"]["annotations"]["k8s.ovn.org/pod-networks"],
            Value::Null,
            "{name} is not wired"
        );
    }
}

/// D016, D017: a network goes only after its pods, and then all of it goes.
fn a_network_in_use_stays(cluster: &Cluster) {
    cluster.kubectl(&["delete", "udn", "net", "-n", "blue", "--wait=false"]);
    let message = cluster.eventually("the network says who uses it", || {
        let udn = cluster.get("udn", "blue", "net");
        let conditions = udn["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let created =
            conditions.into_iter().find(|c| c["type"] == "NetworkCreated" && c["status"] == "False")?;
        created["message"].as_str().map(str::to_owned)
    });
    assert_eq!(
        message,
        "failed to delete NetworkAttachmentDefinition [blue/net]: network in use by the following pods: [blue/a]; delete them"
    );
    assert!(!cluster.get("net-attach-def", "blue", "net").is_null());
    cluster.kubectl(&["delete", "pod", "a", "-n", "blue", "--force", "--grace-period=0"]);
    cluster.eventually("network and attachment are gone", || {
        let gone = cluster.get("udn", "blue", "net").is_null()
            && cluster.get("net-attach-def", "blue", "net").is_null();
        gone.then_some(())
    });
    let record = cluster.get("configmap", "causeway", "causeway-freed-numbers");
    let reuse: Value = serde_json::from_str(record["data"]["reuse"].as_str().unwrap()).unwrap();
    assert_eq!(reuse["epoch"], 1);
    assert!(reuse["networkIds"]["quarantined"].is_object(), "{reuse}");
}

/// A definition that is missing means that nothing is known, never that nothing is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_definition_deletes_nothing() {
    let cluster = Cluster::start();
    cluster.nodes(&["n1"]);
    cluster.create(&namespace("blue", json!({LABEL: ""})));
    let left_behind = json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"namespace": "blue", "name": "net", "ownerReferences": [
            {"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "name": "net", "uid": "gone", "controller": true}]},
        "spec": {"config": "{}"},
    });
    cluster.create(&left_behind);
    cluster.kubectl(&["delete", "crd", "userdefinednetworks.k8s.ovn.org"]);
    let manager = Running::start(&cluster);
    let reason = cluster.eventually("the manager says what is missing", || {
        manager.not_ready().filter(|reason| reason.contains("are not installed"))
    });
    assert!(reason.starts_with("userdefinednetworks are not installed in this cluster"), "{reason}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(
        !cluster.get("net-attach-def", "blue", "net").is_null(),
        "nothing is deleted on half the picture"
    );
    assert_eq!(cluster.get("node", "", "n1")["metadata"]["annotations"]["k8s.ovn.org/node-id"], Value::Null);
    // With the definition back, the attachment is known to be left behind.
    cluster.install("crds/causeway.yaml");
    cluster.eventually("the manager goes on", || {
        cluster.get("net-attach-def", "blue", "net").is_null().then_some(())
    });
    manager.stop().await;
}

/// Two managers: one works, the other takes over when it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_managers_works() {
    let cluster = Cluster::start();
    let first = Running::elected(&cluster, "first");
    cluster.eventually("the first one has the lease", || (cluster.holder() == "first").then_some(()));
    let second = Running::elected(&cluster, "second");
    cluster.nodes(&["n1"]);
    cluster.eventually("the node has an id", || {
        let node = cluster.get("node", "", "n1");
        node["metadata"]["annotations"]["k8s.ovn.org/node-id"].is_string().then_some(())
    });
    assert_eq!(cluster.holder(), "first");
    first.stop().await;
    cluster.eventually("the second one has the lease", || (cluster.holder() == "second").then_some(()));
    cluster.nodes(&["n2"]);
    cluster.eventually("the next node has an id", || {
        let node = cluster.get("node", "", "n2");
        (node["metadata"]["annotations"]["k8s.ovn.org/node-id"] == "3").then_some(())
    });
    second.stop().await;
}
