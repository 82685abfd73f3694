//! Tenants who try to get into the networks of others.

use causeway_record::Kind;
use serde_json::{Value, json};

use crate::world::{World, ipv4};

const NAD: Kind = Kind::NetworkAttachmentDefinition;

fn config(name: &str, role: &str) -> String {
    json!({"type": "ovn-k8s-cni-overlay", "name": name, "topology": "layer2", "role": role, "subnets": "10.9.0.0/24"}).to_string()
}

fn victim() -> World {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("victim");
    world.layer2("victim/net", &["10.0.0.0/24"]);
    world.namespace("mallory", json!({"k8s.ovn.org/primary-user-defined-network": "", "team": "mallory"}));
    world
}

/// Naming somebody's network is refused, whether the object is there yet or not.
#[test]
fn a_name_belongs_to_its_object() {
    let mut world = victim();
    for (name, network) in [("a", "victim_net"), ("b", "victim_later"), ("c", "cluster_udn_any")] {
        world.nad(&format!("mallory/{name}"), &config(network, "secondary"));
        world.pod_with(&format!("mallory/{name}"), "n1", json!({"k8s.v1.cni.cncf.io/networks": name}));
        assert_eq!(world.object(NAD, &format!("mallory/{name}"))["metadata"]["annotations"], Value::Null);
        assert_eq!(world.networks(&format!("mallory/{name}")), Value::Null);
    }
    assert_eq!(world.said.iter().filter(|text| text.starts_with("NetworkAttachmentDefinition")).count(), 3);
}

/// The answer to a guess at somebody's network is the same whether the guess is right or wrong.
#[test]
fn a_refusal_tells_nothing_of_the_network() {
    let mut world = victim();
    let there = world.object(NAD, "victim/net")["spec"]["config"].as_str().unwrap().to_owned();
    world.nad("mallory/guess", &there.replace("victim/net", "mallory/guess"));
    world.nad(
        "mallory/wrong",
        &there.replace("victim/net", "mallory/wrong").replace("10.0.0.0/24", "10.9.0.0/24"),
    );
    let told = |name: &str| {
        format!(
            "NetworkAttachmentDefinition mallory/{name} InvalidConfig: Failed to parse network config: NAD mallory/{name} names \
             network victim_net, which belongs to a user-defined network: choose another name"
        )
    };
    assert_eq!(world.said, [told("guess"), told("wrong")]);
}

/// A name that waits for a namespace to come is lost when the namespace comes, and so is its number.
#[test]
fn a_name_cannot_be_taken_in_advance() {
    let mut world = victim();
    world.nad("mallory/trap", &config("future_net", "secondary"));
    assert_eq!(world.annotation(NAD, "mallory/trap", "k8s.ovn.org/network-id"), 2);
    world.tenant("future");
    world.layer2("future/net", &["10.9.0.0/24"]);
    assert!(
        world.said.iter().any(|text| text.contains("NAD mallory/trap names network future_net")),
        "{:?}",
        world.said
    );
    assert_eq!(world.annotation(NAD, "future/net", "k8s.ovn.org/network-id"), 3, "another number");
    world.pod_with("mallory/pod", "n1", json!({"k8s.v1.cni.cncf.io/networks": "trap"}));
    assert_eq!(world.networks("mallory/pod"), Value::Null);
}

/// A forged owner makes an attachment no network.
#[test]
fn a_forged_owner_is_no_owner() {
    let mut world = victim();
    let uid = world.object(Kind::UserDefinedNetwork, "victim/net")["metadata"]["uid"].clone();
    for (name, uid) in [("net", uid), ("nobody", json!("no-such-uid"))] {
        let owner = json!([{"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "name": "net", "uid": uid, "controller": true}]);
        world.put(json!({"kind": "NetworkAttachmentDefinition",
            "metadata": {"namespace": "mallory", "name": name, "ownerReferences": owner},
            "spec": {"config": config("victim_net", "primary")}}));
        assert!(!world.has_nad(&format!("mallory/{name}")), "taken away: {name}");
    }
    world.pod("mallory/pod", "n1");
    assert_eq!(world.networks("mallory/pod"), Value::Null);
    assert!(world.has_nad("victim/net"));
}

/// A secondary network of another namespace cannot be asked for.
#[test]
fn networks_are_for_their_namespaces() {
    let mut world = victim();
    let secondary =
        json!({"topology": "Layer2", "layer2": {"role": "Secondary", "subnets": ["10.1.0.0/24"]}});
    world.udn("victim/second", secondary);
    world.layer2("mallory/own", &["10.2.0.0/24"]);
    world.pod_with("mallory/pod", "n1", json!({"k8s.v1.cni.cncf.io/networks": "victim/second"}));
    assert_eq!(world.networks("mallory/pod"), Value::Null);
    let pods: Vec<&String> = world.said.iter().filter(|text| text.starts_with("Pod ")).collect();
    assert_eq!(
        pods,
        [
            "Pod mallory/pod ErrorAllocatingPod: networks of namespace victim are for its own pods: pod mallory/pod cannot attach to victim/second"
        ]
    );
}

/// Labels that a tenant may write do not bring a network that selects other labels.
#[test]
fn a_network_goes_where_its_selector_says() {
    let mut world = victim();
    let layer3 = json!({"role": "Primary", "subnets": [{"cidr": "10.50.0.0/16", "hostSubnet": 24}]});
    let by_name = json!({"matchLabels": {"kubernetes.io/metadata.name": "victim2"}});
    world.cudn("secret", by_name, json!({"topology": "Layer3", "layer3": layer3}));
    world.change_namespace("mallory", &json!({"metadata": {"labels": {"name": "victim2"}}}));
    assert!(!world.has_nad("mallory/secret"));
}

/// Numbers that a tenant has managed to write count for nothing while his attachment is refused.
#[test]
fn numbers_of_refused_attachments_count_for_nothing() {
    let mut world = victim();
    world.put(json!({"kind": "NetworkAttachmentDefinition",
        "metadata": {"namespace": "mallory", "name": "a", "creationTimestamp": "1960-01-01T00:00:00Z",
                     "annotations": {"k8s.ovn.org/network-id": "1", "k8s.ovn.org/network-name": "victim_net"}},
        "spec": {"config": config("victim_net", "secondary")}}));
    world.restart(|_| {});
    assert_eq!(world.annotation(NAD, "victim/net", "k8s.ovn.org/network-id"), 1);
    assert_eq!(world.writes, Vec::<String>::new());
}
