//! E: what users are told.

use causeway_record::{Kind, Part};
use serde_json::{Value, json};

use crate::world::{World, ipv4};

const UDN: Kind = Kind::UserDefinedNetwork;
const CUDN: Kind = Kind::ClusterUserDefinedNetwork;
const NAD: Kind = Kind::NetworkAttachmentDefinition;

fn layer3(host: u8) -> Value {
    json!({"topology": "Layer3", "layer3": {"role": "Secondary", "subnets": [{"cidr": "10.10.100.0/24", "hostSubnet": host}]}})
}

/// E001, E002, E019: the whole status of a network that is fine.
#[test]
fn e001_e002_e019_a_network_that_is_fine() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tick(5_000);
    world.tenant("demo");
    world.layer2("demo/db", &["10.0.0.0/24"]);
    let condition = |name: &str, reason: &str, message: &str| {
        json!({"type": name, "status": "True", "reason": reason, "message": message, "observedGeneration": 1,
               "lastTransitionTime": "1970-01-01T00:00:05Z"})
    };
    assert_eq!(
        world.object(UDN, "demo/db")["status"],
        json!({
            "conditions": [
                condition("NetworkCreated", "NetworkAttachmentDefinitionCreated", "NetworkAttachmentDefinition has been created"),
                condition("NetworkReady", "NetworkAttachmentDefinitionReady", "NetworkAttachmentDefinition has been created"),
                condition("NetworkAllocationSucceeded", "NetworkAllocationSucceeded", "Network allocation succeeded for all synced nodes."),
            ],
            "observedGeneration": 1,
            "topology": "Layer2", "role": "Primary", "subnets": "10.0.0.0/24",
            "addresses": "0/252", "networkID": 1, "activeNamespaces": ["demo"],
        })
    );
}

/// E004, E005: a cluster network whose attachment in one namespace goes.
#[test]
fn e004_e005_one_of_two_attachments() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("green");
    world.tenant("red");
    let network = json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": [{"cidr": "10.50.0.0/16", "hostSubnet": 24}]}});
    world.cudn("test", json!({}), network);
    assert_eq!(
        world.cudn_condition("test", "NetworkCreated"),
        "True/NetworkAttachmentDefinitionCreated NetworkAttachmentDefinition has been created in following namespaces: [green, red]"
    );
    world.paused = true;
    world.delete(NAD, "green/test");
    let status = world.held.iter().rev().find(|request| request.part == Part::Status).unwrap().clone();
    let text = format!("{:?}", status.action);
    assert!(text.contains("NetworkAttachmentDefinition are being deleted: [green/test]"), "{text}");
    world.resume();
    assert!(world.cudn_condition("test", "NetworkReady").starts_with("True/"), "it was made anew");
}

/// E007, E016: only a new status is a transition, and conditions of others stay.
#[test]
fn e007_e016_transitions_and_foreign_conditions() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tick(1_000);
    world.namespace("plain", json!({}));
    world.namespace("other", json!({}));
    let network = json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": [{"cidr": "10.50.0.0/16", "hostSubnet": 24}]}});
    world.cudn("x", json!({"matchLabels": {"kubernetes.io/metadata.name": "plain"}}), network);
    let foreign = json!({"type": "Foo", "status": "True", "reason": "Theirs", "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"});
    let mut conditions =
        world.object(CUDN, "x")["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.push(foreign.clone());
    world.change(CUDN, "x", &json!({"status": {"conditions": conditions}}));
    world.tick(9_000);
    world.change_namespace(
        "other",
        &json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "plain"}}}),
    );
    world.change_namespace(
        "plain",
        &json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "plain"}}}),
    );
    let conditions = world.object(CUDN, "x")["status"]["conditions"].as_array().unwrap().clone();
    assert!(conditions.contains(&foreign));
    let created = conditions.iter().find(|c| c["type"] == "NetworkCreated").unwrap();
    assert!(created["message"].as_str().unwrap().contains("\"other\""), "{created}");
    assert_eq!(created["lastTransitionTime"], "1970-01-01T00:00:09Z", "from True of no namespaces to False");
}

/// E008, E010, G011: a node without a part of the network is named, and no other while it lasts.
#[test]
fn e008_e010_nodes_without_a_subnet() {
    let mut world = World::new(ipv4(), &["n1", "n2", "n3"]);
    world.namespace("demo", json!({}));
    world.udn("demo/net", layer3(25));
    let condition = |world: &World| world.udn_condition("demo/net", "NetworkAllocationSucceeded");
    let named = |node: &str| {
        format!(
            "False/InternalError Network allocation failed for at least one node: {node}, check UDN events for more info."
        )
    };
    assert!(condition(&world).starts_with(&named("n3")), "{}", condition(&world));
    let failed = "UserDefinedNetwork demo/net NetworkAllocationFailed: error allocating network demo_net";
    assert!(world.said.iter().any(|said| said.starts_with(failed)), "{:?}", world.said);
    world.node("n4");
    assert!(condition(&world).starts_with(&named("n3")), "{}", condition(&world));
    world.delete(Kind::Node, "n3");
    assert!(condition(&world).starts_with(&named("n4")), "{}", condition(&world));
    world.delete(Kind::Node, "n4");
    assert!(condition(&world).starts_with("True/"), "{}", condition(&world));
}

/// E011: a stale condition does not survive a restart.
#[test]
fn e011_a_restart_says_what_is_true_now() {
    let mut world = World::new(ipv4(), &["n1", "n2", "n3"]);
    world.namespace("demo", json!({}));
    world.udn("demo/net", layer3(25));
    world.paused = true;
    world.delete(Kind::Node, "n3");
    world.held.clear();
    world.paused = false;
    world.restart(|_| {});
    assert!(world.udn_condition("demo/net", "NetworkAllocationSucceeded").starts_with("True/"));
}

/// E013: an object that goes while its status is written is no error.
#[test]
fn e013_gone_meanwhile() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.namespace("plain", json!({}));
    world.paused = true;
    world.layer2("plain/net", &["10.0.0.0/24"]);
    world.delete(UDN, "plain/net");
    world.resume();
    assert!(world.object(UDN, "plain/net").is_null());
    assert_eq!(world.said, Vec::<String>::new());
}

/// E014: many namespaces with long names fit; the list in the status is whole.
#[test]
fn e014_six_hundred_namespaces() {
    let mut world = World::new(ipv4(), &["n1"]);
    for number in 0..600 {
        world.tenant(&format!("{number:0>63}"));
    }
    let network = json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": [{"cidr": "10.50.0.0/16", "hostSubnet": 24}]}});
    world.cudn("big", json!({}), network);
    let status = world.object(CUDN, "big")["status"].clone();
    assert_eq!(status["activeNamespaces"].as_array().unwrap().len(), 600);
    let longest =
        status["conditions"].as_array().unwrap().iter().map(|c| c["message"].as_str().unwrap().len()).max();
    assert!(longest.unwrap() < 32_768, "{longest:?}");
    assert!(world.cudn_condition("big", "NetworkCreated").ends_with("and 580 more]"));
}

/// What a zone could not render shows on the network, and goes when the zone says so.
#[test]
fn a_zone_that_fails_shows() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.layer2("demo/db", &["10.0.0.0/24"]);
    let failure =
        json!({"subject": "Network", "name": "demo_db", "reason": "NoKey", "message": "the key is taken"});
    world.put(json!({"kind": "ZoneReport", "metadata": {"name": "n1"}, "spec": {"failures": [failure]}}));
    assert_eq!(
        world.udn_condition("demo/db", "NetworkReady"),
        "False/NetworkRenderingFailed [node n1: the key is taken]"
    );
    world.change(Kind::ZoneReport, "n1", &json!({"spec": {"failures": []}}));
    assert!(world.udn_condition("demo/db", "NetworkReady").starts_with("True/"));
}

/// What this version does not render is said once, by whoever reads the object, whatever zones say.
#[test]
fn a_network_that_is_not_rendered_is_not_ready() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.namespace("demo", json!({}));
    let layer2 = json!({"role": "Secondary", "subnets": ["10.0.0.0/24"]});
    world.udn("demo/db", json!({"topology": "Layer2", "layer2": layer2}));
    assert_eq!(
        world.udn_condition("demo/db", "NetworkReady"),
        "False/NetworkRenderingFailed network demo_db: secondary networks are not rendered by this version"
    );
}

/// A zone that names everybody whose failure it has no room to explain is believed; where it cannot even do that, nothing is known.
#[test]
fn what_a_report_has_no_room_for_is_not_fine() {
    let mut world = World::new(ipv4(), &["n1"]);
    for namespace in ["one", "two"] {
        world.tenant(namespace);
        world.layer2(&format!("{namespace}/db"), &["10.0.0.0/24"]);
    }
    world.report(
        "n1",
        json!({"furtherFailures": [{"subject": "Network", "name": "one_db"}], "failureCount": 1}),
    );
    let ready = |world: &World, path: &str| world.udn_condition(path, "NetworkReady");
    assert!(ready(&world, "one/db").starts_with("False/NetworkRenderingFailed [node n1: it fails, and "));
    assert!(ready(&world, "two/db").starts_with("True/"));
    world.report(
        "n1",
        json!({"furtherFailures": [{"subject": "Network", "name": "one_db"}], "failureCount": 2}),
    );
    assert!(ready(&world, "one/db").starts_with("False/NetworkRenderingFailed "));
    assert!(
        ready(&world, "two/db").starts_with("Unknown/NetworkRenderingUnknown "),
        "{}",
        ready(&world, "two/db")
    );
    world.report("n1", json!({}));
    assert!(ready(&world, "one/db").starts_with("True/") && ready(&world, "two/db").starts_with("True/"));
}

/// G022: a subnet that cannot be appended changes nothing but the status.
#[test]
fn g022_an_invalid_subnet_is_not_appended() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.layer3("demo/net", "10.50.0.0/16", 24);
    let before = world.object(NAD, "demo/net").clone();
    let both =
        json!([{"cidr": "10.50.0.0/16", "hostSubnet": 24}, {"cidr": "10.96.0.0/16", "hostSubnet": 24}]);
    world.change(UDN, "demo/net", &json!({"spec": {"layer3": {"subnets": both}}}));
    assert_eq!(*world.object(NAD, "demo/net"), before);
    assert!(world.udn_condition("demo/net", "NetworkReady").starts_with("False/OverlappingSubnets"));
    world.restart(|_| {});
    assert_eq!(world.writes, Vec::<String>::new());
    world.pod("demo/pod", "n1");
    assert_eq!(world.address("demo/pod", "demo/net"), "10.50.0.3/24", "the network runs as it was");
    let removed = json!([{"cidr": "10.60.0.0/16", "hostSubnet": 24}]);
    world.change(UDN, "demo/net", &json!({"spec": {"layer3": {"subnets": removed}}}));
    assert!(
        world
            .udn_condition("demo/net", "NetworkReady")
            .starts_with("False/Immutable Removing existing subnets"),
        "{}",
        world.udn_condition("demo/net", "NetworkReady")
    );
}

/// A selector that matches nothing is said, and no tool waits for a network that nobody can use.
#[test]
fn a_selector_that_matches_nothing() {
    let mut world = World::new(ipv4(), &["n1"]);
    let network = json!({"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.50.0.0/16"]}});
    world.cudn("lonely", json!({"matchLabels": {"team": "x"}}), network);
    let why = "its namespaceSelector matches no namespace, so no pod can use it: label a namespace, or change the selector";
    assert_eq!(world.cudn_condition("lonely", "NetworkReady"), format!("False/NoNamespaceSelected {why}"));
    assert_eq!(world.said, [format!("ClusterUserDefinedNetwork lonely NoNamespaceSelected: {why}")]);
    world.restart(|_| {});
    assert_eq!((world.writes.len(), world.said.len()), (0, 0), "it is said once");
    world.namespace("x", json!({"team": "x", "k8s.ovn.org/primary-user-defined-network": ""}));
    assert!(world.cudn_condition("lonely", "NetworkReady").starts_with("True/"));
}

/// A refusal is an event too.
#[test]
fn refusals_are_events() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.layer2("demo/bad", &["10.96.0.0/16"]);
    let condition = world.udn_condition("demo/bad", "NetworkReady");
    let said = condition.strip_prefix("False/OverlappingSubnets ").unwrap();
    assert_eq!(world.said, [format!("UserDefinedNetwork demo/bad OverlappingSubnets: {said}")]);
}

/// A conflict about one address is the pod's affair, not the network's; a full subnet is the network's.
#[test]
fn a_static_address_that_is_taken_is_no_exhaustion() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.config.features.preconfigured_addresses = true;
    world.restart(|_| {});
    world.tenant("demo");
    world.layer2("demo/db", &["10.0.0.0/29"]);
    let fixed = json!({"v1.multus-cni.io/default-network":
        r#"[{"name":"default","namespace":"causeway","ips":["10.0.0.3/29"]}]"#});
    world.pod_with("demo/first", "n1", fixed.clone());
    world.said.clear();
    world.pod_with("demo/second", "n1", fixed);
    assert!(world.said[0].contains("10.0.0.3"), "{:?}", world.said);
    let allocated = |world: &World| world.udn_condition("demo/db", "NetworkAllocationSucceeded");
    assert!(allocated(&world).starts_with("True/"), "{}", allocated(&world));
    for number in 0..9 {
        world.pod(&format!("demo/p{number}"), "n1");
    }
    assert!(allocated(&world).starts_with("False/SubnetExhausted "), "{}", allocated(&world));
    assert!(
        allocated(&world).contains("the first is demo/p"),
        "not the one with the address: {}",
        allocated(&world)
    );
}

/// One namespace goes: for the others nothing changes.
#[test]
fn a_namespace_that_goes_takes_nothing_from_others() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("green");
    world.tenant("red");
    let network = json!({"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.50.0.0/16"]}});
    world.cudn("test", json!({}), network);
    world.pod("green/pod", "n1");
    world.change_namespace(
        "green",
        &json!({"metadata": {"deletionTimestamp": "1970-01-02T00:00:00Z", "finalizers": ["kubernetes"]}}),
    );
    world.delete(NAD, "green/test");
    assert!(world.has_nad("green/test"), "its pod is still there");
    assert_eq!(
        world.cudn_condition("test", "NetworkCreated"),
        "True/NetworkAttachmentDefinitionCreated NetworkAttachmentDefinition has been created in following namespaces: [red]"
    );
    assert!(world.cudn_condition("test", "NetworkReady").starts_with("True/"));
    world.delete(Kind::Pod, "green/pod");
    assert!(!world.has_nad("green/test"));
}

/// Packets that no tunnel carries are said with the nodes, for networks that say an MTU and for those that do not.
#[test]
fn an_mtu_that_some_node_cannot_carry() {
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    let carry = |world: &mut World, node: &str, mtu: &str| {
        world.change(
            Kind::Node,
            node,
            &json!({"metadata": {"annotations": {"k8s.ovn.org/node-tunnel-mtu": mtu}}}),
        );
    };
    carry(&mut world, "n1", "8942");
    carry(&mut world, "n2", "1442");
    world.tenant("demo");
    world.udn(
        "demo/big",
        json!({"topology": "Layer2", "layer2": {"role": "Primary", "mtu": 9000, "subnets": ["10.0.0.0/24"]}}),
    );
    let ready = |world: &World| world.udn_condition("demo/big", "NetworkReady");
    assert_eq!(
        ready(&world),
        "False/MTUTooLarge mtu 9000 is more than the tunnels of these nodes carry: [n1 (8942), n2 (1442)]. Larger packets \
         between nodes are lost. Create the network with mtu 1442 or less, or raise the MTU of the nodes' own interfaces"
    );
    assert!(world.said.iter().any(|said| said.starts_with("UserDefinedNetwork demo/big MTUTooLarge: ")));
    carry(&mut world, "n1", "9000");
    assert!(ready(&world).contains("[n2 (1442)]"), "{}", ready(&world));
    world.delete(Kind::Node, "n2");
    assert!(ready(&world).starts_with("True/"), "{}", ready(&world));
    world.tenant("plain");
    world.layer2("plain/net", &["10.1.0.0/24"]);
    carry(&mut world, "n1", "1300");
    assert!(world.udn_condition("plain/net", "NetworkReady").starts_with("False/MTUTooLarge mtu 1400 "));
    carry(&mut world, "n1", "nonsense");
    assert!(ready(&world).starts_with("True/"), "what cannot be read says nothing");
}
