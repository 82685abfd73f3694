//! Connections against a real API server: with admission policies, rights and columns as they are in production.

#![allow(clippy::unwrap_used, reason = "a helper of a test may stop it")]

mod real_support;

use std::collections::BTreeMap;
use std::path::Path;

use causeway_api::annotations::keys;
use causeway_api::intent::Connect;
use causeway_types::ConnectName;
use real_support::{Cluster, Running, a_restart_writes_nothing};
use serde_json::{Value, json};

const EXAMPLE: &str = "orange-purple";

/// One server for everything: starting one costs seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_from_a_manifest_to_success_and_back() {
    let cluster = Cluster::start();
    cluster.nodes(&["n1", "n2"]);
    let manager = Running::start(&cluster);
    the_example_is_accepted(&cluster);
    nobody_else_writes_annotations(&cluster);
    zones_report_and_columns_are_filled(&cluster);
    both_spellings_apply(&cluster);
    connections_are_counted(&cluster, &manager);
    let manager = a_restart_writes_nothing(&cluster, "cnc,configmaps,net-attach-def", manager).await;
    a_connection_goes(&cluster);
    manager.stop().await;
}

/// W02, W04: a layer3 and a layer2 network, as in the guide.
fn the_example_is_accepted(cluster: &Cluster) {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/connect");
    cluster.eventually("namespaces take pods", || {
        cluster
            .server
            .kubectl(&["apply", "--server-side", "-f", &example.display().to_string()])
            .ok
            .then_some(())
    });
    // Places are written once a second at most, so the second network's may come after the status.
    let connect = cluster.eventually("two networks are connected, each with its place", || {
        let connect = cluster.get("cnc", "", EXAMPLE);
        let accepted = condition(&connect, "Accepted")["status"] == "True";
        (accepted && kinds_with_places(&connect) == ["layer2_", "layer3_"]).then_some(connect)
    });
    let annotations = &connect["metadata"]["annotations"];
    assert_eq!(annotations[keys::NETWORK_CONNECT_SUBNET], annotations[keys::NETWORK_SUBNETS]);
    assert_eq!(annotations[keys::CONNECT_ROUTER_SLOTS], "128");
    assert_eq!(annotations[keys::CONNECT_TOPOLOGY], "transit");
    assert!(annotations[keys::CONNECT_ROUTER_TUNNEL_KEY].as_str().unwrap().starts_with("167157"));
    assert_eq!(connect["metadata"]["finalizers"], json!([keys::CONNECT_FINALIZER]));
    assert_eq!(connect["status"]["status"], "Progressing", "zones have said nothing");
    assert_eq!(connect["status"]["connectedNetworks"], "2/2");
    assert_eq!(condition(&connect, "Ready")["reason"], "OVNSetupPending");
}

/// The kinds of networks that have a place in a connection.
fn kinds_with_places(connect: &Value) -> Vec<String> {
    let text = connect["metadata"]["annotations"][keys::NETWORK_SUBNETS].as_str().unwrap_or("{}");
    let places: BTreeMap<String, Value> = serde_json::from_str(text).unwrap();
    places.keys().map(|owner| owner[..7].to_owned()).collect()
}

fn condition(connect: &Value, kind: &str) -> Value {
    let conditions = connect["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

/// C04, C05, C08: an administrator changes the spec and his own annotations, and no other.
fn nobody_else_writes_annotations(cluster: &Cluster) {
    for key in keys::OF_CONNECT {
        for value in [json!("16715999"), Value::Null] {
            let patch = json!({"metadata": {"annotations": {key: value}}}).to_string();
            let answer = cluster.server.kubectl(&["patch", "cnc", EXAMPLE, "--type=merge", "-p", &patch]);
            assert!(!answer.ok, "{key} {value}");
            assert!(answer.err.contains("denied"), "{}", answer.err);
        }
    }
    let own = json!({"metadata": {"annotations": {"theirs": "x"}}}).to_string();
    cluster.kubectl(&["patch", "cnc", EXAMPLE, "--type=merge", "-p", &own]);
}

fn hash(connect: &Value) -> String {
    let name = ConnectName::new(connect["metadata"]["name"].as_str().unwrap()).unwrap();
    let annotations: BTreeMap<String, String> =
        serde_json::from_value(connect["metadata"]["annotations"].clone()).unwrap();
    let spec = serde_json::from_value(connect["spec"].clone()).unwrap();
    Connect::of(&name, &spec).unwrap().report_hash(&annotations)
}

fn report(cluster: &Cluster, node: &str, spec: &Value) {
    let user = format!("--as=causeway-node:{node}");
    let groups = "--as-group=causeway:nodes";
    let object = json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ZoneReport", "metadata": {"name": node}, "spec": spec});
    let arguments = [&user, groups, "apply", "--server-side", "-f", "-"];
    let answer = cluster.server.kubectl_with(&arguments, &object.to_string());
    assert!(answer.ok, "{}", answer.err);
}

fn zones_report_and_columns_are_filled(cluster: &Cluster) {
    let rendered = json!([{"name": EXAMPLE, "hash": hash(&cluster.get("cnc", "", EXAMPLE))}]);
    let failure = json!({"subject": "ClusterNetworkConnect", "name": EXAMPLE, "reason": "OVNSetupFailed", "message": "no port"});
    report(cluster, "n1", &json!({"connects": rendered}));
    report(cluster, "n2", &json!({"failures": [failure], "failureCount": 1}));
    let said = cluster.eventually("a zone has failed", || {
        let connect = cluster.get("cnc", "", EXAMPLE);
        (connect["status"]["status"] == "Failure")
            .then(|| condition(&connect, "Ready-In-Zone-n2")["message"].clone())
    });
    assert_eq!(said, "no port");
    people_are_told(cluster, "connect-failing", &[]);
    report(cluster, "n2", &json!({"connects": rendered}));
    let row = cluster.eventually("all zones have followed", || {
        let table = cluster.kubectl(&["get", "cnc"]);
        table.lines().find(|row| row.starts_with(EXAMPLE) && row.contains("Success")).map(str::to_owned)
    });
    assert!(row.split_whitespace().count() >= 3, "name, status and age: {row}");
    let connect = cluster.get("cnc", "", EXAMPLE);
    assert_eq!(connect["status"]["observedGeneration"], connect["metadata"]["generation"]);
    for node in ["n1", "n2"] {
        assert_eq!(condition(&connect, &format!("Ready-In-Zone-{node}"))["reason"], "OVNSetupSucceeded");
    }
    people_are_told(cluster, "connect", &["wait", "--for=condition=Ready", "--timeout=30s"]);
}

/// What `kubectl` says of the connection as it is, as a file to read. `CAUSEWAY_RECORD=1` writes it anew.
fn people_are_told(cluster: &Cluster, file: &str, also: &[&str]) {
    let name = format!("cnc/{EXAMPLE}");
    let also: Vec<&str> = also.iter().copied().chain([name.as_str()]).collect();
    let commands: [&[&str]; 3] = [&["get", &name], &also, &["describe", &name]];
    let text: String = commands
        .iter()
        .filter(|words| words.len() > 1)
        .map(|words| {
            format!("$ kubectl {}\n{}\n", words.join(" "), steady(&cluster.kubectl(words)).trim_end())
        })
        .collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{file}.txt"));
    if std::env::var_os("CAUSEWAY_RECORD").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&file).unwrap(), "{}", file.display());
}

/// Without what differs from run to run: times, versions, numbers in annotations. Events have their own tests.
fn steady(text: &str) -> String {
    let (text, _) = text.split_once("Events:").unwrap_or((text, ""));
    let changing = ["Creation Timestamp:", "Resource Version:", "UID:", "Last Transition Time:"];
    let mut annotations = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        annotations = line.starts_with("Annotations:") || (annotations && line.starts_with(' '));
        let key = changing.iter().find(|key| line.trim_start().starts_with(**key));
        lines.push(match key {
            Some(key) => format!("{}{key} …", &line[..line.len() - line.trim_start().len()]),
            None if annotations && line.contains('{') => "                …".to_owned(),
            None if annotations && line.contains("tunnel-key") => {
                line.trim_end_matches(char::is_numeric).to_owned() + "…"
            }
            None if line.starts_with(EXAMPLE) || line.starts_with("NAME") => row(line),
            None => line.trim_end().to_owned(),
        });
    }
    lines.join("\n")
}

/// A line of a table, whose second column is how old the object is.
fn row(line: &str) -> String {
    let age = |word: &str| word.ends_with('s') && word.starts_with(|c: char| c.is_ascii_digit());
    let words = line.split_whitespace().map(|word| if age(word) { "…" } else { word });
    words.collect::<Vec<_>>().join("  ")
}

/// The same connection in the other words; it is refused where it must be, with an event.
fn both_spellings_apply(cluster: &Cluster) {
    let mut connect = cluster.get("cnc", "", EXAMPLE);
    let mut spec = connect["spec"].take();
    spec.as_object_mut().unwrap().remove("connectivityEnabled");
    spec["connectivity"] = json!(["PodNetwork", "ServiceNetwork"]);
    cluster.create(&json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect", "metadata": {"name": "again"}, "spec": spec}));
    cluster.eventually("the younger connection is refused", || {
        (condition(&cluster.get("cnc", "", "again"), "Accepted")["reason"] == "ConnectSubnetOverlap")
            .then_some(())
    });
    let said = cluster.event("default", "again");
    assert!(said.contains("overlaps with ClusterNetworkConnect 'orange-purple'"), "{said}");
}

fn connections_are_counted(cluster: &Cluster, manager: &Running) {
    let counted = |labels: &str| format!("causeway_clustermanager_connects{{{labels}}} 1");
    let wanted = [r#"accepted="true",status="Success""#, r#"accepted="false",status="Failure""#].map(counted);
    cluster.eventually("both are counted", || {
        let page = manager.page("/metrics")?;
        wanted.iter().all(|line| page.contains(line.as_str())).then_some(())
    });
}

/// W11, P14: a connection goes with its numbers recorded, and who waited for its addresses is accepted.
fn a_connection_goes(cluster: &Cluster) {
    let key =
        cluster.get("cnc", "", EXAMPLE)["metadata"]["annotations"][keys::CONNECT_ROUTER_TUNNEL_KEY].clone();
    cluster.kubectl(&["delete", "cnc", EXAMPLE, "--timeout=30s"]);
    let record = cluster.get("configmap", "causeway", "causeway-freed-numbers");
    let reuse: Value = serde_json::from_str(record["data"]["reuse"].as_str().unwrap()).unwrap();
    assert!(reuse["tunnelKeys"]["quarantined"][key.as_str().unwrap()].is_u64(), "{reuse}");
    assert_eq!(reuse["connects"][EXAMPLE].as_array().unwrap().len(), 2, "{reuse}");
    cluster.eventually("the other one is accepted", || {
        (condition(&cluster.get("cnc", "", "again"), "Accepted")["status"] == "True").then_some(())
    });
}

/// Without the definition of connections networks work all the same; with it connections are looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_definition_of_connections_comes_later() {
    let cluster = Cluster::start();
    cluster.kubectl(&["delete", "crd", "clusternetworkconnects.k8s.ovn.org"]);
    cluster.nodes(&["n1"]);
    let manager = Running::start(&cluster);
    manager.wait_until_ready(&cluster);
    cluster.install("crds/causeway.yaml");
    cluster.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]);
    cluster.create(&json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect", "metadata": {"name": "c"}, "spec": {
        "networkSelectors": [{"networkSelectionType": "ClusterUserDefinedNetworks",
                              "clusterUserDefinedNetworkSelector": {"networkSelector": {}}}],
        "connectSubnets": [{"cidr": "192.168.0.0/16", "networkPrefix": 24}], "connectivity": ["PodNetwork"]}}));
    cluster.eventually("the connection is looked at", || {
        (condition(&cluster.get("cnc", "", "c"), "Accepted")["reason"] == "InsufficientNetworks")
            .then_some(())
    });
    manager.stop().await;
}

/// A layer3 network of the cluster with the label that connections below select.
fn network(cluster: &Cluster, name: &str, role: &str, subnet: &str, host: u8) {
    let spec = json!({"role": role, "subnets": [{"cidr": subnet, "hostSubnet": host}]});
    cluster.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels":
        {"tenant": name, "k8s.ovn.org/primary-user-defined-network": ""}}}));
    cluster.create(&json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork",
        "metadata": {"name": name, "labels": {"road": "yes"}},
        "spec": {"namespaceSelector": {"matchLabels": {"tenant": name}}, "network": {"topology": "Layer3", "layer3": spec}}}));
}

fn connection(cluster: &Cluster, name: &str, subnet: &str, prefix: u8) {
    cluster.create(&json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect", "metadata": {"name": name}, "spec": {
        "networkSelectors": [{"networkSelectionType": "ClusterUserDefinedNetworks", "clusterUserDefinedNetworkSelector":
            {"networkSelector": {"matchLabels": {"road": "yes"}}}}],
        "connectSubnets": [{"cidr": subnet, "networkPrefix": prefix}], "connectivityEnabled": ["PodNetwork"]}}));
}

fn wait_accepted(cluster: &Cluster, name: &str, reason: &str) {
    let said = cluster.eventually(&format!("{name} is {reason}"), || {
        let said = condition(&cluster.get("cnc", "", name), "Accepted");
        (said["reason"] == reason).then_some(said)
    });
    let status = if reason == "ValidationSucceeded" { "True" } else { "False" };
    assert_eq!(said["status"], status, "{said}");
}

/// What was said of connections is taken back while they are switched off, and what was given stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_switched_off_and_on() {
    let cluster = Cluster::start();
    cluster.nodes(&["n1"]);
    let manager = Running::start(&cluster);
    network(&cluster, "one", "Primary", "10.1.0.0/16", 24);
    network(&cluster, "two", "Primary", "10.2.0.0/16", 24);
    connection(&cluster, "c", "192.168.0.0/16", 24);
    wait_accepted(&cluster, "c", "ValidationSucceeded");
    let given = || cluster.get("cnc", "", "c")["metadata"]["annotations"].clone();
    let before = given();
    manager.stop().await;
    let manager = Running::without_connections(&cluster);
    cluster.eventually("nothing is said of the connection", || {
        let status = cluster.get("cnc", "", "c")["status"].clone();
        let silent = |field: &str| status[field].is_null() || status[field] == json!([]);
        ["status", "conditions", "networks", "connectedNetworks"]
            .iter()
            .all(|field| silent(field))
            .then_some(())
    });
    assert_eq!(given(), before);
    manager.stop().await;
    let manager = Running::start(&cluster);
    wait_accepted(&cluster, "c", "ValidationSucceeded");
    assert_eq!(given(), before);
    manager.stop().await;
}

/// Every reason of the specification is provoked, and cured again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_reason_comes_and_goes() {
    let cluster = Cluster::start();
    cluster.nodes(&["n1"]);
    let manager = Running::start(&cluster);
    network(&cluster, "one", "Primary", "10.1.0.0/16", 24);
    connection(&cluster, "c", "192.168.0.0/16", 24);
    wait_accepted(&cluster, "c", "InsufficientNetworks");
    network(&cluster, "two", "Primary", "10.2.0.0/16", 24);
    wait_accepted(&cluster, "c", "ValidationSucceeded");
    let provoked = [
        ("secondary", "Secondary", "10.3.0.0/16", 24, "UnsupportedNetworkType"),
        ("links", "Primary", "192.168.8.0/22", 26, "ConnectSubnetConflict"),
        ("same", "Primary", "10.1.128.0/17", 24, "OverlappingNetworkSubnets"),
        ("six", "Primary", "fd00:6::/48", 64, "IPFamilyMismatch"),
    ];
    for (name, role, subnet, host, reason) in provoked {
        network(&cluster, name, role, subnet, host);
        wait_accepted(&cluster, "c", reason);
        cluster.kubectl(&["label", "cudn", name, "road-"]);
        wait_accepted(&cluster, "c", "ValidationSucceeded");
    }
    // Two blocks for three networks.
    connection(&cluster, "small", "192.170.0.0/26", 27);
    wait_accepted(&cluster, "small", "ValidationSucceeded");
    network(&cluster, "three", "Primary", "10.4.0.0/16", 24);
    wait_accepted(&cluster, "small", "ConnectSubnetExhausted");
    wait_accepted(&cluster, "c", "ValidationSucceeded");
    cluster.kubectl(&["label", "cudn", "three", "road-"]);
    wait_accepted(&cluster, "small", "ValidationSucceeded");
    connection(&cluster, "twin", "192.168.0.0/17", 24);
    wait_accepted(&cluster, "twin", "ConnectSubnetOverlap");
    wait_accepted(&cluster, "c", "ValidationSucceeded");
    cluster.kubectl(&["delete", "cnc", "c", "--timeout=30s"]);
    wait_accepted(&cluster, "twin", "ValidationSucceeded");
    manager.stop().await;
}

/// The networks that a connection selects, and whether each is connected.
fn connected(cluster: &Cluster, connect: &str) -> BTreeMap<String, bool> {
    let networks =
        cluster.get("cnc", "", connect)["status"]["networks"].as_array().cloned().unwrap_or_default();
    let line = |network: &Value| {
        (network["name"].as_str().unwrap().to_owned(), network["connected"].as_bool().unwrap())
    };
    networks.iter().map(line).collect()
}

/// The number of a network, once it has one.
fn network_id(cluster: &Cluster, name: &str) -> u32 {
    cluster.eventually(&format!("network {name} has its id"), || {
        let nad = cluster.get("net-attach-def", name, name);
        nad["metadata"]["annotations"][keys::NETWORK_ID].as_str()?.parse().ok()
    })
}

/// While no manager runs, a network grows into the addresses of another one on the same road. After its start the grower is left out,
/// whether its id is lower or higher than the other's, and whoever was there keeps his place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_grows_unseen_is_left_out() {
    const ALL: [(&str, &str); 4] =
        [("one", "10.1.0.0/16"), ("two", "10.2.0.0/16"), ("three", "10.3.0.0/16"), ("four", "10.4.0.0/16")];
    let cluster = Cluster::start();
    cluster.nodes(&["n1"]);
    let manager = Running::start(&cluster);
    let ids = ALL.map(|(name, subnet)| {
        network(&cluster, name, "Primary", subnet, 24);
        network_id(&cluster, name)
    });
    assert!(ids.is_sorted(), "{ids:?}");
    connection(&cluster, "c", "192.168.0.0/16", 24);
    let of = |out: &[&str]| -> BTreeMap<String, bool> {
        ALL.iter().map(|(name, _)| ((*name).to_owned(), !out.contains(name))).collect()
    };
    cluster.eventually("all are connected", || (connected(&cluster, "c") == of(&[])).then_some(()));
    let blocks = || -> BTreeMap<String, Value> {
        let connect = cluster.get("cnc", "", "c");
        let text = connect["metadata"]["annotations"][keys::NETWORK_SUBNETS].as_str().unwrap_or("{}");
        serde_json::from_str(text).unwrap()
    };
    let before = cluster.eventually("all have a place", || Some(blocks()).filter(|blocks| blocks.len() == 4));
    manager.stop().await;

    for (grower, others) in [("one", "10.2.0.0/16"), ("four", "10.3.0.0/16")] {
        let added = json!([{"op": "add", "path": "/spec/network/layer3/subnets/-", "value": {"cidr": others, "hostSubnet": 24}}]);
        cluster.kubectl(&["patch", "cudn", grower, "--type=json", "-p", &added.to_string()]);
    }
    let mut kept = before.clone();
    kept.retain(|owner, _| [ids[1], ids[2]].iter().any(|id| *owner == format!("layer3_{id}")));
    assert_eq!(kept.len(), 2, "{before:?}");
    // Also for a manager that finds what the first one has made of it.
    for start in 1..=2 {
        let manager = Running::start(&cluster);
        manager.wait_until_ready(&cluster);
        wait_accepted(&cluster, "c", "OverlappingNetworkSubnets");
        let settled = || (connected(&cluster, "c") == of(&["one", "four"]) && blocks() == kept).then_some(());
        cluster.eventually(&format!("the growers are left out after start {start}"), settled);
        assert_eq!(ALL.map(|(name, _)| network_id(&cluster, name)), ids);
        manager.stop().await;
    }
}
