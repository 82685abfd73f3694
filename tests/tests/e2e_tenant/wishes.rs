//! What a pod may ask for by its annotations: networks, addresses, and lists of them.

use std::time::Instant;

use serde_json::{Value, json};

use super::packets::held;
use super::{Mallory, POD_NETWORKS, asks_for, nad, path, pod};

const DEFAULT_NETWORK: &str = "v1.multus-cni.io/default-network";

/// Networks and addresses that a pod may ask for, and does not get.
pub(crate) fn not_granted(mallory: &Mallory) {
    let neighbour = held(mallory.0, "mallory/m2", "mallory/own");
    let asks = |name: &str, mut wish: Value| {
        wish["name"] = "default".into();
        pod("mallory", name, "n1", &json!({DEFAULT_NETWORK: json!([wish]).to_string()}))
    };
    let elsewhere = json!({"k8s.ovn.org/requested-primary-udn": "victim2/lan"});
    let on_default = json!({DEFAULT_NETWORK: r#"[{"name":"default","ips":["10.244.0.77/24"]}]"#});
    mallory.pods_are_told(&[
        (
            asks_for("mallory", "into-layer2", "victim2/lan"),
            "networks of namespace victim2 are for its own pods",
        ),
        (
            asks_for("mallory-plain", "into-layer3", "victim/victim"),
            "networks of namespace victim are for its own pods",
        ),
        (
            asks_for("mallory-plain", "nowhere", "victim/none"),
            "networks of namespace victim are for its own pods",
        ),
        (pod("mallory", "elsewhere", "n2", &elsewhere), "which is no primary network of namespace mallory"),
        (asks("gateway", json!({"ips": ["10.72.0.1/16", "fd72::1/64"]})), "10.72.0.1"),
        (asks("management", json!({"ips": ["10.72.0.2/16", "fd72::2/64"]})), "10.72.0.2"),
        (asks("taken", json!({"ips": [format!("{}/16", neighbour.v4), "fd72::dead/64"]})), &neighbour.v4),
        (asks("outside", json!({"ips": ["10.71.0.3/16", "fd71::3/64"]})), "10.71.0.3"),
        (asks("gateway-mac", json!({"mac": "0a:58:0a:48:00:01"})), "0a:58:0a:48:00:01"),
        (asks("taken-mac", json!({"mac": neighbour.mac})), &neighbour.mac),
        (asks("multicast-mac", json!({"mac": "01:00:5e:00:00:01"})), "01:00:5e:00:00:01"),
        (pod("mallory-plain", "plain-address", "n1", &on_default), "gives out addresses itself"),
    ]);
}

/// An attachment that somebody has written by hand for pods of his own namespace: these get it, and his get nothing.
pub(crate) fn attachments_of_another_namespace(mallory: &Mallory) {
    let sandbox = mallory.0;
    let config = json!({"cniVersion": "1.1.0", "type": "ovn-k8s-cni-overlay", "name": "by-hand", "topology": "layer2",
                        "role": "secondary", "subnets": "10.93.0.0/24,fd93::/64", "netAttachDefName": "victim2/hand"});
    let mut hand = nad("hand", &config, json!({}));
    hand["metadata"]["namespace"] = "victim2".into();
    sandbox.apply(&hand.to_string()).unwrap();
    sandbox.apply(&asks_for("victim2", "own", "hand").to_string()).unwrap();
    sandbox.pod("victim2/own").wait_ready().unwrap();
    assert!(held(sandbox, "victim2/own", "victim2/hand").v4.starts_with("10.93.0."));
    let because = "networks of namespace victim2 are for its own pods";
    let long = r#"[{"name": "hand", "namespace": "victim2", "ips": ["10.93.0.9/24"]}]"#;
    mallory.pods_are_told(&[
        (asks_for("mallory", "into-hand", "victim2/hand"), because),
        (asks_for("mallory-plain", "into-hand", "victim2/hand@net1"), because),
        (asks_for("mallory-plain", "into-hand-long", long), because),
    ]);
    sandbox.kubectl(&["delete", "pod", "-n", "victim2", "own", "--now", "--timeout=120s"]).unwrap();
    sandbox.kubectl(&["delete", "net-attach-def", "-n", "victim2", "hand", "--timeout=120s"]).unwrap();
}

/// Lists of networks as long as the API server takes them cost nobody else his time: who is next gets his address as always.
pub(crate) fn lists_that_are_too_long(mallory: &Mallory) {
    let list = |item: fn(usize) -> String| (0..20_000).map(item).collect::<Vec<_>>().join(",");
    let short = list(|number| format!("n{number}"));
    let long = format!("[{}]", list(|_| r#"{"name":"a"}"#.to_owned()));
    let pods = [short, long].map(|networks| {
        assert!(networks.len() > 100_000 && networks.len() < 256 << 10, "{}", networks.len());
        asks_for("mallory-plain", &format!("many-{}", networks.len()), &networks)
    });
    for pod in &pods {
        mallory.creates(pod).unwrap();
    }
    let begun = Instant::now();
    mallory.0.start_pods(&[("victim2/next", "n1")]).unwrap();
    println!("the next pod is ready after {:?}", begun.elapsed());
    for pod in &pods {
        let meta = &pod["metadata"];
        println!(
            "{}: {}",
            meta["name"],
            mallory.wait_said(meta, "there are more than 32 networks: write fewer")
        );
        let there = mallory.0.pod(&path(meta)).object().unwrap();
        assert_eq!(there["metadata"]["annotations"][POD_NETWORKS], Value::Null);
        let name = meta["name"].as_str().unwrap();
        mallory.tries(&["delete", "pod", "-n", "mallory-plain", name, "--wait=false"], "").unwrap();
    }
    mallory.0.kubectl(&["delete", "pod", "-n", "victim2", "next", "--now", "--timeout=120s"]).unwrap();
}
