//! D: what comes and goes, and who is first.

use causeway_record::Kind;
use serde_json::{Value, json};

use crate::world::{World, ipv4};

const NAD: Kind = Kind::NetworkAttachmentDefinition;
const UDN: Kind = Kind::UserDefinedNetwork;
const CUDN: Kind = Kind::ClusterUserDefinedNetwork;

fn layer3(role: &str) -> Value {
    json!({"topology": "Layer3", "layer3": {"role": role, "subnets": [{"cidr": "10.50.0.0/16", "hostSubnet": 24}]}})
}

fn lacks_label(namespace: &str) -> String {
    format!(
        "namespace {namespace} lacks the label k8s.ovn.org/primary-user-defined-network, which only a new namespace can get: create \
         the namespace anew with it, or use role Secondary ({})",
        invalid(namespace)
    )
}

fn lacks_network(namespace: &str) -> String {
    format!(
        "namespace {namespace} has the label k8s.ovn.org/primary-user-defined-network and no primary network that is ready: create a \
         UserDefinedNetwork with role Primary in it, or a ClusterUserDefinedNetwork that selects it ({})",
        invalid(namespace)
    )
}

/// What tools look for.
fn invalid(namespace: &str) -> String {
    format!(
        "invalid primary network state for namespace \"{namespace}\": a valid primary user defined network or network attachment \
         definition custom resource, and required namespace label \"k8s.ovn.org/primary-user-defined-network\" must both be present"
    )
}

/// D001, D002: a primary network needs the namespace's label, a secondary one does not.
#[test]
fn d001_d002_the_label() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.namespace("plain", json!({}));
    world.layer2("plain/first", &["10.0.0.0/24"]);
    world.udn("plain/second", layer3("Secondary"));
    assert_eq!(
        world.udn_condition("plain/first", "NetworkCreated"),
        format!("False/SyncError {}", lacks_label("plain"))
    );
    assert!(!world.has_nad("plain/first") && world.has_nad("plain/second"));
    world.pod("plain/pod", "n1");
    assert_eq!(world.networks("plain/pod")["default"]["role"], "primary");
}

/// D004: a pod of a labelled namespace waits for the network, is told so, and starts by itself.
#[test]
fn d004_a_pod_waits_for_its_network() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.pod("demo/a", "n1");
    assert_eq!(world.networks("demo/a"), Value::Null);
    assert_eq!(world.said, [format!("Pod demo/a ErrorAllocatingPod: {}", lacks_network("demo"))]);
    world.layer2("demo/db", &["10.0.0.0/24"]);
    assert_eq!(world.address("demo/a", "demo/db"), "10.0.0.3/24");
}

const PRIMARY: &str = r#"{"type":"ovn-k8s-cni-overlay","name":"n1net","topology":"layer2","role":"primary","subnets":"10.9.0.0/24"}"#;

/// D008, D011, D031: of two primary networks the first one stays, and the other one says so; also after the fact.
#[test]
fn d008_d011_d031_two_primary_networks() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("ns");
    world.nad("ns/n1", PRIMARY);
    world.layer2("ns/u1", &["10.0.0.0/24"]);
    let message = "primary network already exist in namespace \"ns\": \"n1\"";
    assert_eq!(world.udn_condition("ns/u1", "NetworkCreated"), format!("False/SyncError {message}"));
    assert!(!world.has_nad("ns/u1"));

    world.tenant("late");
    world.layer2("late/u1", &["10.0.0.0/24"]);
    world.pod("late/before", "n1");
    world.nad("late/n1", &PRIMARY.replace("n1net", "other"));
    world.pod("late/after", "n1");
    let message = "primary network already exist in namespace \"late\": \"n1\"";
    assert_eq!(world.udn_condition("late/u1", "NetworkCreated"), format!("False/SyncError {message}"));
    let refused = "primary network already exist in namespace \"late\": \"u1\"";
    assert!(world.said.iter().any(|said| said.ends_with(refused)), "{:?}", world.said);
    for pod in ["late/before", "late/after"] {
        assert_eq!(world.networks(pod)["late/u1"]["role"], "primary", "{pod} is on the first network");
    }
    world.delete(NAD, "late/n1");
    assert!(world.udn_condition("late/u1", "NetworkCreated").starts_with("True/"));
    world.delete(NAD, "ns/n1");
    assert!(world.has_nad("ns/u1"), "the way is free");
}

/// D010, J007: of two cluster networks that meet in one namespace and select by different labels, the second one serves nobody.
#[test]
fn d010_j007_cluster_networks_that_meet() {
    let mut world = World::new(ipv4(), &["n1"]);
    for name in ["a", "b", "c", "d", "e"] {
        world.tenant(name);
        world.change_namespace(name, &json!({"metadata": {"labels": {"name": name}}}));
    }
    let among =
        |names: &[&str]| json!({"matchExpressions": [{"key": "name", "operator": "In", "values": names}]});
    world.cudn("net1", among(&["a", "b", "c"]), layer3("Primary"));
    world.cudn("net2", among(&["c", "d", "e"]), layer3("Primary"));
    let there: Vec<bool> = ["c", "d", "e"].map(|name| world.has_nad(&format!("{name}/net2"))).into();
    assert_eq!(there, [false, false, false]);
    assert_eq!(
        world.cudn_condition("net2", "NetworkReady"),
        "False/PrimaryNetworkConflict ClusterUserDefinedNetwork net1 selects namespace c too, by another namespaceSelector: \
         primary networks of one namespace need equal selectors; write that of net1, or one that selects none of its namespaces"
    );
    assert!(world.cudn_condition("net1", "NetworkReady").starts_with("True/"));
    world.label("c", json!({"name": "z"}));
    assert!(world.cudn_condition("net2", "NetworkReady").starts_with("True/"), "they do not meet any more");
    assert_eq!(world.object(CUDN, "net2")["status"]["activeNamespaces"], json!(["d", "e"]));
}

/// D016, D017, D019: pods keep a network, those that have finished do not, those of other namespaces do.
#[test]
fn d016_d017_d019_a_network_in_use() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("ns");
    world.layer2("ns/net", &["10.0.0.0/24"]);
    world.pod("ns/pod-0", "n1");
    world.pod("ns/pod-1", "n1");
    world.delete(UDN, "ns/net");
    assert_eq!(
        world.udn_condition("ns/net", "NetworkCreated"),
        "False/SyncError failed to delete NetworkAttachmentDefinition [ns/net]: network in use by the following pods: [ns/pod-0 ns/pod-1]; delete them"
    );
    assert!(world.has_nad("ns/net"));
    world.pod("ns/late", "n1");
    assert_eq!(world.networks("ns/late"), Value::Null, "a network that goes takes no more pods");
    world.delete(Kind::Pod, "ns/late");
    world.delete(Kind::Pod, "ns/pod-0");
    world.change(Kind::Pod, "ns/pod-1", &json!({"status": {"phase": "Succeeded"}}));
    assert!(!world.has_nad("ns/net") && world.object(UDN, "ns/net").is_null());

    world.namespace("a", json!({}));
    world.namespace("b", json!({}));
    world.udn("a/net", layer3("Secondary"));
    let entry = json!({"a/net": {"ip_addresses": ["10.50.0.9/24"], "mac_address": "0a:58:0a:32:00:09", "role": "secondary"}});
    world.pod_with("b/user", "n1", json!({"k8s.ovn.org/pod-networks": entry.to_string()}));
    world.delete(UDN, "a/net");
    assert!(
        world.udn_condition("a/net", "NetworkCreated").contains("[b/user]"),
        "{}",
        world.udn_condition("a/net", "NetworkCreated")
    );
    world.delete(Kind::Pod, "b/user");
    assert!(world.object(UDN, "a/net").is_null());
}

/// D020: an attachment of somebody else is not touched.
#[test]
fn d020_foreign_attachments_stay() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.namespace("ns", json!({}));
    world.nad("ns/net", r#"{"type":"macvlan"}"#);
    world.udn("ns/net", layer3("Secondary"));
    assert!(world.udn_condition("ns/net", "NetworkCreated").contains("foreign NetworkAttachmentDefinition"));
    world.delete(UDN, "ns/net");
    assert!(world.object(UDN, "ns/net").is_null() && world.has_nad("ns/net"));
}

/// D022, D023, D025, D028: attachments follow the selector and the namespaces' labels, but not under a pod's feet.
#[test]
fn d022_d023_d025_d028_selection_changes() {
    let mut world = World::new(ipv4(), &["n1"]);
    let label = json!({"k8s.ovn.org/primary-user-defined-network": "", "env": "prod"});
    world.namespace("a", label.clone());
    world.namespace("b", label.clone());
    world.tenant("c");
    world.cudn("x", json!({"matchLabels": {"env": "prod"}}), layer3("Primary"));
    world.pod("b/pod", "n1");
    world.change_namespace("c", &json!({"metadata": {"labels": {"env": "prod"}}}));
    assert!(world.has_nad("c/x"));
    world.change_namespace("c", &json!({"metadata": {"labels": {"env": null}}}));
    assert!(!world.has_nad("c/x"));
    let only_a = json!({"matchLabels": {"only": "a"}});
    world.change_namespace("a", &json!({"metadata": {"labels": {"only": "a"}}}));
    world.change(CUDN, "x", &json!({"spec": {"namespaceSelector": {"matchLabels": null}}}));
    world.change(CUDN, "x", &json!({"spec": {"namespaceSelector": only_a}}));
    assert!(world.has_nad("a/x") && world.has_nad("b/x"), "a pod uses b/x");
    assert_eq!(
        world.cudn_condition("x", "NetworkCreated"),
        "False/NetworkAttachmentDefinitionSyncError failed to delete NetworkAttachmentDefinition [b/x]: network in use by the following pods: [b/pod]; delete them"
    );
    world.paused = true;
    world.delete(Kind::Pod, "b/pod");
    world.held.clear();
    world.paused = false;
    world.restart(|_| {});
    assert!(world.has_nad("a/x") && !world.has_nad("b/x"), "a restart finds what was left behind");
    assert_eq!(world.object(CUDN, "x")["status"]["activeNamespaces"], json!(["a"]));
}

/// D026: a namespace without the label is named, the others are served.
#[test]
fn d026_one_namespace_lacks_the_label() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("a");
    world.namespace("c", json!({}));
    world.cudn("x", json!({}), layer3("Primary"));
    assert!(world.has_nad("a/x") && !world.has_nad("c/x"));
    assert_eq!(
        world.cudn_condition("x", "NetworkReady"),
        format!("False/NetworkAttachmentDefinitionNotExist {}", lacks_label("c"))
    );
}

/// D029: an API error in one namespace is named and does not stop another.
#[test]
fn d029_an_error_in_one_namespace() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("a");
    world.tenant("b");
    world.failing = Some("network-attachment-definitions a/".into());
    world.cudn("x", json!({}), layer3("Primary"));
    assert!(world.has_nad("b/x") && !world.has_nad("a/x"));
    assert_eq!(
        world.cudn_condition("x", "NetworkReady"),
        "False/NetworkAttachmentDefinitionNotExist NetworkAttachmentDefinition a/x: the server is sad"
    );
}

/// D032: a network that is created anew under its old name gets a number of its own.
#[test]
fn d032_created_anew() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("ns");
    world.layer2("ns/net", &["10.0.0.0/24"]);
    world.delete(UDN, "ns/net");
    world.layer2("ns/net", &["10.0.0.0/24"]);
    assert_eq!(world.annotation(NAD, "ns/net", "k8s.ovn.org/network-id"), 2);
    assert!(world.udn_condition("ns/net", "NetworkReady").starts_with("True/"));
}

/// D035: a primary network cannot be asked for as a further one.
#[test]
fn d035_a_primary_network_is_not_asked_for() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("ns");
    world.layer2("ns/net", &["10.0.0.0/24"]);
    world.pod_with("ns/pod", "n1", json!({"k8s.v1.cni.cncf.io/networks": "net"}));
    assert_eq!(world.networks("ns/pod"), Value::Null);
    assert!(
        world.said[0].contains("unexpected primary network ns_net specified with a NetworkSelectionElement"),
        "{:?}",
        world.said
    );
}

/// A namespace that goes takes its attachment along, once its pods are gone.
#[test]
fn a_namespace_that_goes() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("a");
    world.tenant("b");
    world.cudn("x", json!({}), layer3("Primary"));
    world.pod("b/pod", "n1");
    world.change_namespace(
        "b",
        &json!({"metadata": {"deletionTimestamp": "1970-01-02T00:00:00Z", "finalizers": ["kubernetes"]}}),
    );
    world.delete(NAD, "b/x");
    assert!(world.has_nad("b/x"));
    world.delete(Kind::Pod, "b/pod");
    assert!(!world.has_nad("b/x") && world.has_nad("a/x"));
}

/// A managed attachment that a user deletes comes back, with the same number.
#[test]
fn a_deleted_attachment_comes_back() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("ns");
    world.layer2("ns/net", &["10.0.0.0/24"]);
    let before = world.object(NAD, "ns/net")["metadata"].clone();
    world.delete(NAD, "ns/net");
    let after = world.object(NAD, "ns/net")["metadata"].clone();
    assert_ne!(before["uid"], after["uid"]);
    assert_eq!(before["annotations"], after["annotations"]);
    assert!(world.udn_condition("ns/net", "NetworkReady").starts_with("True/"));
}

/// A feature that is switched off is said where users look.
#[test]
fn a_switched_off_feature_is_said() {
    let mut config = ipv4();
    config.features.network_segmentation = false;
    let mut world = World::new(config, &["n1"]);
    world.tenant("ns");
    world.layer2("ns/net", &["10.0.0.0/24"]);
    world.pod("ns/pod", "n1");
    assert_eq!(
        world.udn_condition("ns/net", "NetworkReady"),
        "False/FeatureDisabled user-defined networks are switched off in this cluster (--enable-network-segmentation=false)"
    );
    assert!(!world.has_nad("ns/net"));
    assert_eq!(
        world.networks("ns/pod"),
        Value::Null,
        "a pod that asks for isolation is not wired without it"
    );
}

/// A pod that waits for an address of a network that goes is served by the next one.
#[test]
fn who_waits_is_served_by_the_next_network() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("ns");
    world.nad("ns/n1", &PRIMARY.replace("/24", "/29"));
    for name in ["a", "b", "c", "d", "waits"] {
        world.pod(&format!("ns/{name}"), "n1");
    }
    assert_eq!(world.networks("ns/waits"), Value::Null);
    world.delete(NAD, "ns/n1");
    world.layer2("ns/u1", &["10.0.0.0/24"]);
    assert_eq!(world.address("ns/waits", "ns/u1"), "10.0.0.3/24");
}

/// A pod never moves: the network that it was wired to is gone, and it gets no other one beside it.
#[test]
fn a_pod_never_moves() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("ns");
    world.nad("ns/n1", PRIMARY);
    world.pod("ns/pod", "n1");
    let before = world.networks("ns/pod");
    world.delete(NAD, "ns/n1");
    world.layer2("ns/u1", &["10.0.0.0/24"]);
    assert_eq!(world.networks("ns/pod"), before);
}

/// An attachment that comes back finds its pods with the addresses that they have, before anybody else gets them.
#[test]
fn an_attachment_that_comes_back_finds_its_pods() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("ns");
    world.nad("ns/n1", PRIMARY);
    world.pod("ns/old", "n1");
    world.delete(NAD, "ns/n1");
    world.pod("ns/a-new", "n1");
    world.nad("ns/n1", PRIMARY);
    assert_eq!(world.address("ns/old", "ns/n1"), "10.9.0.3/24");
    assert_eq!(world.address("ns/a-new", "ns/n1"), "10.9.0.4/24");
}
