//! Several primary networks for one namespace on a real API server: what is refused, in which words, and what cures it.

#![allow(clippy::unwrap_used, reason = "a helper of a test may stop it")]

mod real_support;

use real_support::{Cluster, Running, a_restart_writes_nothing};
use serde_json::{Value, json};

/// A namespace whose pods use a primary network, for a team.
fn tenant(name: &str, team: &str) -> Value {
    let labels = json!({"k8s.ovn.org/primary-user-defined-network": "", "team": team});
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

fn udn(namespace: &str, name: &str, subnet: &str) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"topology": "Layer2", "layer2": {"role": "Primary", "subnets": [subnet]}},
    })
}

fn cudn(name: &str, teams: &[&str], cidr: &str) -> Value {
    let selector = json!({"matchExpressions": [{"key": "team", "operator": "In", "values": teams}]});
    json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "metadata": {"name": name},
        "spec": {"namespaceSelector": selector, "network": {"topology": "Layer3", "layer3": {
            "role": "Primary", "subnets": [{"cidr": cidr, "hostSubnet": 24}]}}},
    })
}

/// Waits until a network says this: nothing is that it is ready.
#[track_caller]
fn says(cluster: &Cluster, kind: &str, namespace: &str, name: &str, words: Option<&str>) {
    cluster.eventually(&format!("{kind} {namespace}/{name} says {words:?}"), || {
        let object = cluster.get(kind, namespace, name);
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.into_iter().find(|condition| condition["type"] == "NetworkReady")?;
        match words {
            None => (ready["status"] == "True").then_some(()),
            Some(words) => {
                let told = ready["message"].as_str().is_some_and(|message| message.contains(words));
                (ready["status"] == "False" && told).then_some(())
            }
        }
    });
}

/// The second of creation decides who is younger.
fn a_second_later() {
    std::thread::sleep(std::time::Duration::from_millis(1100));
}

/// Every combination that the seed forbids: the younger object says what is wrong and with whom, and is well when that is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_stand_side_by_side() {
    let cluster = Cluster::start();
    cluster.nodes(&["n1", "n2"]);
    let manager = Running::start(&cluster);
    selectors(&cluster);
    subnets(&cluster);
    kinds(&cluster);
    requests(&cluster);
    growth(&cluster);
    labels(&cluster);
    deletion(&cluster);
    let manager =
        a_restart_writes_nothing(&cluster, "nodes,pods,net-attach-def,udn,cudn,configmaps", manager).await;
    manager.stop().await;
}

/// J005, J007, J010: equal selectors stand side by side, others that meet do not, from the beginning or later.
fn selectors(cluster: &Cluster) {
    cluster.create(&tenant("a", "a"));
    cluster.create(&tenant("b", "b"));
    cluster.create(&cudn("a1", &["a"], "10.1.0.0/16"));
    says(cluster, "cudn", "", "a1", None);
    a_second_later();
    cluster.create(&cudn("a2", &["a", "b"], "10.2.0.0/16"));
    says(
        cluster,
        "cudn",
        "",
        "a2",
        Some("ClusterUserDefinedNetwork a1 selects namespace a too, by another namespaceSelector"),
    );
    assert_eq!(cluster.get("net-attach-def", "b", "a2"), Value::Null, "not even where it would be alone");
    let selector =
        r#"{"spec": {"namespaceSelector": {"matchExpressions": null, "matchLabels": {"team": "a"}}}}"#;
    cluster.kubectl(&["patch", "cudn", "a2", "--type=merge", "-p", selector]);
    says(cluster, "cudn", "", "a2", None);
    says(cluster, "cudn", "", "a1", None);
    let teams = |teams: &str| {
        let one = format!(r#"{{"key": "team", "operator": "In", "values": [{teams}]}}"#);
        let patch = format!(r#"{{"spec": {{"namespaceSelector": {{"matchExpressions": [{one}]}}}}}}"#);
        cluster.kubectl(&["patch", "cudn", "a1", "--type=merge", "-p", &patch]);
    };
    teams(r#""a", "b""#);
    says(cluster, "cudn", "", "a2", Some("ClusterUserDefinedNetwork a1 selects namespace a too"));
    assert_ne!(cluster.get("net-attach-def", "a", "a2"), Value::Null, "what runs goes on running");
    teams(r#""a""#);
    says(cluster, "cudn", "", "a2", None);
    says(cluster, "cudn", "", "a1", None);
}

/// J002: subnets that overlap, of the administrator's networks and of a tenant's.
fn subnets(cluster: &Cluster) {
    a_second_later();
    cluster.create(&cudn("a3", &["a"], "10.2.128.0/17"));
    says(cluster, "cudn", "", "a3", Some("overlaps subnet \"10.2.0.0/16\" of network cluster_udn_a2"));
    cluster.kubectl(&["delete", "cudn", "a2", "--timeout=60s"]);
    says(cluster, "cudn", "", "a3", None);
    cluster.create(&udn("b", "b1", "10.5.0.0/24"));
    says(cluster, "udn", "b", "b1", None);
    a_second_later();
    cluster.create(&udn("b", "b2", "10.5.0.128/25"));
    says(
        cluster,
        "udn",
        "b",
        "b2",
        Some("overlaps subnet \"10.5.0.0/24\" of network b_b1, which serves the same namespace"),
    );
    cluster.kubectl(&["delete", "udn", "-n", "b", "b1", "--timeout=60s"]);
    says(cluster, "udn", "b", "b2", None);
}

/// J004: networks of a tenant and of the administrator are not mixed.
fn kinds(cluster: &Cluster) {
    a_second_later();
    cluster.create(&udn("a", "own", "10.6.0.0/24"));
    says(cluster, "udn", "a", "own", Some("primary network already exist in namespace \"a\": \"a1\""));
    cluster.kubectl(&["delete", "udn", "-n", "a", "own", "--timeout=60s"]);
    cluster.create(&cudn("c1", &["b"], "10.7.0.0/16"));
    says(cluster, "cudn", "", "c1", Some("primary network already exist in namespace \"b\": \"b2\""));
    says(cluster, "udn", "b", "b2", None);
    cluster.kubectl(&["delete", "udn", "-n", "b", "b2", "--timeout=60s"]);
    says(cluster, "cudn", "", "c1", None);
    cluster.create(&udn("b", "own", "10.8.0.0/24"));
    says(cluster, "udn", "b", "own", Some("primary network already exist in namespace \"b\": \"c1\""));
    cluster.kubectl(&["delete", "cudn", "c1", "--timeout=60s"]);
    says(cluster, "udn", "b", "own", None);
}

/// J013, J016, J017, J019: a pod gets the oldest network, or the one that it asks for; one that is not there, or full, is said, and the pod is
/// served when that has changed. On the default network nothing is asked for, and what is written later changes nothing.
fn requests(cluster: &Cluster) {
    cluster.pod("a", "any", "n1");
    assert!(cluster.address("a", "any", "a/a1").starts_with("10.1."));
    cluster.create(&asking("third", "a3"));
    assert!(cluster.address("a", "third", "a/a3").starts_with("10.2."));
    cluster.create(&asking("lost", "nowhere"));
    let told = cluster.event("a", "lost");
    assert!(
        told.contains("asks for nowhere, which is no primary network of namespace a: it has [a1, a3]"),
        "{told}"
    );
    a_second_later();
    cluster.create(&cudn("nowhere", &["a"], "10.9.0.0/16"));
    // Selectors are compared by meaning: this one is written otherwise than that of a2 was.
    assert!(cluster.address("a", "lost", "a/nowhere").starts_with("10.9."));

    cluster.kubectl(&["annotate", "pod", "-n", "a", "any", "k8s.ovn.org/requested-primary-udn=a3"]);
    cluster.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plain"}}));
    cluster.create(&asking_in("plain", "any", "a3"));
    assert!(cluster.address("plain", "any", "default").starts_with("10.244."));
    assert!(cluster.address("a", "any", "a/a1").starts_with("10.1."), "it is decided");
    a_full_network(cluster);
}

fn asking(name: &str, network: &str) -> Value {
    asking_in("a", name, network)
}

fn asking_in(namespace: &str, name: &str, network: &str) -> Value {
    let mut pod = real_support::pod(namespace, name, "n1");
    pod["metadata"]["annotations"] = json!({"k8s.ovn.org/requested-primary-udn": network});
    pod
}

/// Who asks for it waits until somebody goes; how full it is shows, and where to read what to do.
fn a_full_network(cluster: &Cluster) {
    cluster.create(&tenant("full", "full"));
    cluster.create(&udn("full", "small", "10.10.0.0/29"));
    says(cluster, "udn", "full", "small", None);
    cluster.create(&udn("full", "wide", "10.11.0.0/24"));
    says(cluster, "udn", "full", "wide", None);
    let pods: Vec<String> = (0..4).map(|number| format!("p{number}")).collect();
    let pinned = |name: &str| cluster.create(&asking_in("full", name, "small"));
    pods.iter().for_each(|pod| pinned(pod));
    pods.iter().for_each(|pod| assert!(cluster.address("full", pod, "full/small").starts_with("10.10.")));
    pinned("late");
    let told = cluster.event("full", "late");
    assert!(told.contains("network full_small: ") && !told.contains("wide"), "{told}");
    cluster.kubectl(&["delete", "pod", "-n", "full", "p0", "--grace-period=0", "--force"]);
    assert!(cluster.address("full", "late", "full/small").starts_with("10.10."));
    cluster.eventually("the column says how full the network is", || {
        let columns = cluster.kubectl(&["get", "udn", "-n", "full"]);
        columns.lines().any(|line| line.starts_with("small") && line.contains(" 4/4 ")).then_some(())
    });
    let warnings = [
        "get",
        "events",
        "-n",
        "full",
        "--field-selector",
        "involvedObject.name=small",
        "-o",
        "jsonpath={.items[*].message}",
    ];
    cluster.eventually("that it was full is an event", || {
        let heard = cluster.kubectl(&warnings);
        let said = heard.contains("full, on some node at least") && heard.contains("\"My network is full\"");
        said.then_some(())
    });
}

/// J026: a network that grows into its sibling, until it takes that back.
fn growth(cluster: &Cluster) {
    cluster.create(&tenant("grow", "grow"));
    let layer3 = |name: &str, cidr: &str| {
        json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork",
            "metadata": {"namespace": "grow", "name": name},
            "spec": {"topology": "Layer3", "layer3": {"role": "Primary", "subnets": [{"cidr": cidr, "hostSubnet": 24}]}},
        })
    };
    for (name, cidr) in [("g1", "10.20.0.0/16"), ("g2", "10.21.0.0/16")] {
        cluster.create(&layer3(name, cidr));
        says(cluster, "udn", "grow", name, None);
    }
    let more = r#"[{"op": "add", "path": "/spec/layer3/subnets/-", "value": {"cidr": "10.21.128.0/17", "hostSubnet": 24}}]"#;
    cluster.kubectl(&["patch", "udn", "-n", "grow", "g1", "--type=json", "-p", more]);
    says(cluster, "udn", "grow", "g1", Some("overlaps subnet \"10.21.0.0/16\" of network grow_g2"));
    says(cluster, "udn", "grow", "g2", None);
    assert_ne!(cluster.get("net-attach-def", "grow", "g1"), Value::Null, "what runs goes on running");
    cluster.kubectl(&["delete", "udn", "-n", "grow", "g2", "--timeout=60s"]);
    says(cluster, "udn", "grow", "g1", None);
}

/// Without the namespace's label there is no primary network, whichever kind; in a namespace that was created with it there is.
fn labels(cluster: &Cluster) {
    let bare = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bare", "labels": {"team": "bare"}}});
    cluster.create(&bare);
    cluster.create(&udn("bare", "u", "10.30.0.0/24"));
    says(cluster, "udn", "bare", "u", Some("lacks the label"));
    cluster.create(&cudn("bare", &["bare"], "10.31.0.0/16"));
    says(cluster, "cudn", "", "bare", Some("lacks the label"));
    cluster.kubectl(&["label", "namespace", "bare", "team-"]);
    cluster.create(&tenant("dressed", "bare"));
    says(cluster, "cudn", "", "bare", None);
}

/// J025: a network with pods stays until they are gone, the first one as well as any other.
fn deletion(cluster: &Cluster) {
    cluster.kubectl(&["delete", "cudn", "a1", "--wait=false"]);
    says(cluster, "cudn", "", "a1", Some("network in use by the following pods: [a/any]"));
    let used = cluster.get("cudn", "", "a1")["status"]["conditions"].to_string();
    assert!(!used.contains("a/third"), "only its own pods: {used}");
    cluster.pod("a", "next", "n1");
    assert!(cluster.address("a", "next", "a/a3").starts_with("10.2."), "it takes no more pods");
    cluster.kubectl(&["delete", "pod", "-n", "a", "any", "--grace-period=0", "--force"]);
    cluster.eventually("the network is gone", || cluster.get("cudn", "", "a1").is_null().then_some(()));
    says(cluster, "cudn", "", "a3", None);
}
