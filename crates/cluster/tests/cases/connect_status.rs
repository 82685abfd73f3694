//! What users are told about connections: acceptance, zones, the outcome in one word.

use causeway_cluster::{Input, Manager, Output};
use causeway_record::Kind;
use serde_json::{Value, json};

use crate::world::{World, cudns, event, hash, ipv4, synced};

const CNC: Kind = Kind::ClusterNetworkConnect;

fn connected(nodes: &[&str]) -> World {
    let mut world = World::new(ipv4(), nodes);
    world.island("red", "10.1.0.0/16", json!({"connected": "yes"}));
    world.island("blue", "10.2.0.0/16", json!({"connected": "yes"}));
    world.tick(1_000);
    world.connect("c", &[("172.16.0.0/12", 20)], json!([cudns(json!({"connected": "yes"}))]));
    world
}

fn status(world: &World) -> Value {
    world.object(CNC, "c")["status"]["status"].clone()
}

fn zone(world: &World, node: &str) -> String {
    world.condition(CNC, "c", &format!("Ready-In-Zone-{node}"))
}

const DONE: &str = "True/OVNSetupSucceeded Connect router and all ports created successfully";

/// The whole status, from the first word to the last.
#[test]
fn a_connection_that_is_fine() {
    let mut world = connected(&["n1"]);
    assert_eq!(status(&world), json!("Progressing"));
    assert_eq!(world.condition(CNC, "c", "Ready"), "False/OVNSetupPending 0/1 zones");
    world.tick(3_000);
    world.zones_follow();
    let condition = |name: &str, reason: &str, message: &str, at: &str| {
        json!({"type": name, "status": "True", "reason": reason, "message": message, "observedGeneration": 1,
               "lastTransitionTime": format!("1970-01-01T00:00:{at}Z")})
    };
    assert_eq!(
        world.object(CNC, "c")["status"],
        json!({
            "status": "Success",
            "conditions": [
                condition("Accepted", "ValidationSucceeded", "All validation checks passed successfully", "01"),
                condition("Ready", "OVNSetupSucceeded", "1/1 zones", "03"),
                condition("Ready-In-Zone-n1", "OVNSetupSucceeded", "Connect router and all ports created successfully", "03"),
            ],
            "observedGeneration": 1,
            "networks": [
                {"name": "blue", "kind": "ClusterUserDefinedNetwork", "topology": "Layer3", "connected": true},
                {"name": "red", "kind": "ClusterUserDefinedNetwork", "topology": "Layer3", "connected": true},
            ],
            "connectedNetworks": "2/2",
        })
    );
}

/// Failures are told at once where a second has passed, and go when the zone has recovered.
#[test]
fn a_zone_that_fails_and_recovers() {
    let mut world = connected(&["n1", "n2"]);
    world.tick(3_000);
    world.zones_follow();
    world.tick(4_000);
    let failure = |message: &str| json!({"subject": "ClusterNetworkConnect", "name": "c", "reason": "OVNSetupFailed", "message": message});
    let about_network = json!({"subject": "Network", "name": "c", "reason": "x", "message": "x"});
    world.tick(5_000);
    world.report("n2", json!({"epoch": 0, "connects": [], "failures": [about_network, failure("no port"), failure("no route")], "failureCount": 3}));
    assert_eq!([zone(&world, "n1"), zone(&world, "n2")], [DONE, "False/OVNSetupFailed no port; no route"]);
    assert_eq!(status(&world), "Failure");
    world.restart(|_| {});
    assert_eq!(world.writes, Vec::<String>::new());
    world.zones_follow();
    assert_eq!((zone(&world, "n2").as_str(), status(&world)), (DONE, json!("Success")));
}

/// A zone that says nothing for a minute has failed; a change starts the minute anew; a deleted node is forgotten.
#[test]
fn silent_zones() {
    let mut world = connected(&["n1", "n2"]);
    world.tick(3_000);
    world.zone_follows("n1");
    world.tick(60_000);
    assert_eq!((zone(&world, "n2").as_str(), status(&world)), ("", json!("Progressing")));
    world.tick(61_000);
    assert_eq!(
        zone(&world, "n2"),
        "False/OVNSetupFailed The zone has not reported this configuration for 60 s; look at the log of Causeway on node n2"
    );
    assert_eq!(status(&world), "Failure");
    world.restart(|_| {});
    assert_eq!(world.writes, Vec::<String>::new(), "the minute begins anew, what was said stays");
    world.delete(Kind::Node, "n2");
    assert_eq!((zone(&world, "n2").as_str(), status(&world)), ("", json!("Success")));
    world.tick(99_002_000);
    world.island("green", "10.3.0.0/16", json!({"connected": "yes"}));
    world.tick(99_003_000);
    assert_eq!(
        (zone(&world, "n1").as_str(), status(&world)),
        (DONE, json!("Progressing")),
        "it has a minute"
    );
    world.tick(99_063_000);
    assert!(zone(&world, "n1").starts_with("False/"));
}

/// A zone that has rendered a connection and says so no longer has its minute too: it may only have begun anew.
#[test]
fn a_zone_that_begins_anew_has_its_minute() {
    let mut world = connected(&["n1", "n2"]);
    world.tick(3_000);
    world.zones_follow();
    world.tick(900_000);
    assert_eq!(status(&world), "Success");
    world.report("n2", json!({"epoch": 0, "connects": []}));
    world.tick(901_000);
    assert_eq!((zone(&world, "n2").as_str(), status(&world)), (DONE, json!("Progressing")));
    world.tick(959_000);
    assert_eq!((zone(&world, "n2").as_str(), status(&world)), (DONE, json!("Progressing")));
    world.tick(960_000);
    assert!(zone(&world, "n2").contains("for 60 s"), "{}", zone(&world, "n2"));
    assert_eq!(status(&world), "Failure");
    world.zones_follow();
    world.tick(1_000_000);
    world.delete(Kind::ZoneReport, "n2");
    world.tick(1_059_000);
    assert_eq!(status(&world), json!("Progressing"));
    world.zones_follow();
    world.tick(1_061_000);
    assert_eq!(status(&world), "Success");
}

/// Zones that are cut off are not waited for.
#[test]
fn nodes_that_are_not_heard_of() {
    let mut world = connected(&["n1", "n2"]);
    let ready = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    world.change(Kind::Node, "n2", &ready("Unknown"));
    world.tick(3_000);
    world.zone_follows("n1");
    world.tick(4_000);
    let unheard = "Unknown/NodeNotHeardOf Kubernetes does not hear of node n2: what it has built is not known, and packets to it may be lost";
    assert_eq!((zone(&world, "n2").as_str(), status(&world)), (unheard, json!("Success")));
    assert_eq!(world.condition(CNC, "c", "Ready"), "True/OVNSetupSucceeded 1/1 zones; not heard of: [n2]");
    world.tick(100_000);
    assert_eq!(status(&world), "Success");
    world.change(Kind::Node, "n2", &ready("True"));
    assert_eq!(status(&world), json!("Progressing"));
    world.tick(159_000);
    assert_eq!(zone(&world, "n2"), "");
    world.tick(160_000);
    assert_eq!(status(&world), "Failure");
}

/// What is left out makes a failure, however well the rest is rendered.
#[test]
fn not_accepted_is_a_failure() {
    let mut world = connected(&["n1"]);
    world.island("twin", "10.1.0.0/16", json!({"connected": "yes"}));
    world.tick(3_000);
    world.zones_follow();
    world.tick(4_000);
    let partly =
        "True/OVNSetupSucceeded The node has built what can be connected; Accepted says what is left out";
    assert_eq!((zone(&world, "n1").as_str(), status(&world)), (partly, json!("Failure")));
    assert_eq!(
        world.condition(CNC, "c", "Ready"),
        "False/OverlappingNetworkSubnets 2/3 selected networks connected, see Accepted; 1/1 zones"
    );
    let networks = world.object(CNC, "c")["status"]["networks"].clone();
    let twin = networks.as_array().unwrap().iter().find(|network| network["name"] == "twin").unwrap();
    assert_eq!(
        *twin,
        json!({"name": "twin", "kind": "ClusterUserDefinedNetwork", "topology": "Layer3", "connected": false,
               "reason": "OverlappingNetworkSubnets",
               "message": "Cannot connect networks 'red' and 'twin': overlapping pod subnets 10.1.0.0/16 detected (selected networks have overlapping subnets)"})
    );
}

/// Networks that are selected and have no namespace are named; when one gets its namespace, it is connected.
#[test]
fn networks_without_namespaces_are_named() {
    let mut world = World::new(ipv4(), &["n1"]);
    let network = |cidr: &str| json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": [{"cidr": cidr, "hostSubnet": 24}]}});
    for (name, cidr) in [("a", "10.1.0.0/16"), ("b", "10.2.0.0/16")] {
        world.cudn(name, json!({"matchLabels": {"team": name}}), network(cidr));
    }
    world.tick(1_000);
    world.connect("c", &[("172.16.0.0/12", 20)], json!([cudns(json!({}))]));
    let why = "its namespaceSelector matches no namespace, so no pod can use it: label a namespace, or change the selector";
    let few = "minimum 2 networks required for connection";
    assert_eq!(
        world.accepted("c"),
        format!(
            "False/InsufficientNetworks Only 0 networks to be connected, {few}. Network 'a' is selected too: {why}. Network 'b' is selected too: {why}"
        )
    );
    let line = |name: &str| {
        json!({"name": name, "kind": "ClusterUserDefinedNetwork", "topology": "Layer3", "connected": false,
               "reason": "NoNamespaceSelected", "message": why})
    };
    assert_eq!(world.object(CNC, "c")["status"]["networks"], json!([line("a"), line("b")]));
    assert_eq!(world.object(CNC, "c")["status"]["connectedNetworks"], "0/2");
    world.restart(|_| {});
    assert_eq!(world.writes, Vec::<String>::new());
    world.namespace("a", json!({"team": "a", "k8s.ovn.org/primary-user-defined-network": ""}));
    world.tick(99_002_000);
    assert!(
        world.accepted("c").starts_with("False/InsufficientNetworks Only 1 network to be connected"),
        "{}",
        world.accepted("c")
    );
    world.namespace("b", json!({"team": "b", "k8s.ovn.org/primary-user-defined-network": ""}));
    world.tick(99_004_000);
    assert_eq!(world.accepted("c"), "True/ValidationSucceeded All validation checks passed successfully");
    assert_eq!(world.object(CNC, "c")["status"]["connectedNetworks"], "2/2");
    // One that is refused is named with its reason, and costs the others nothing.
    world.cudn("bad", json!({}), network("10.96.0.0/16"));
    world.tick(99_006_000);
    assert!(world.accepted("c").starts_with("True/"), "{}", world.accepted("c"));
    let status = world.object(CNC, "c")["status"].clone();
    assert_eq!(
        (&status["connectedNetworks"], &status["networks"][2]["reason"]),
        (&json!("2/3"), &json!("OverlappingSubnets"))
    );
    world.delete(Kind::ClusterUserDefinedNetwork, "bad");
    world.tick(99_008_000);
    assert_eq!(world.object(CNC, "c")["status"]["connectedNetworks"], "2/2");
}

/// With many zones only the failing ones are listed, and all are summed up.
#[test]
fn more_zones_than_can_be_listed() {
    let nodes: Vec<String> = (0..101).map(|number| format!("n{number:03}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let mut world = connected(&nodes[..100]);
    world.tick(3_000);
    world.zones_follow();
    world.tick(5_000);
    let count = |world: &World| world.object(CNC, "c")["status"]["conditions"].as_array().unwrap().len();
    assert_eq!((count(&world), status(&world)), (102, json!("Success")));
    world.node(nodes[100]);
    world.tick(7_000);
    assert_eq!(
        (count(&world), world.condition(CNC, "c", "Ready")),
        (2, "False/OVNSetupPending 100/101 zones".to_owned())
    );
    let failure =
        json!({"subject": "ClusterNetworkConnect", "name": "c", "reason": "x", "message": "no port"});
    world.report(nodes[7], json!({"failures": [failure], "failureCount": 1}));
    world.tick(9_000);
    assert_eq!(world.condition(CNC, "c", "Ready"), "False/OVNSetupFailed 99/101 zones; failing: [n007]");
    assert_eq!((zone(&world, nodes[7]).as_str(), count(&world)), ("False/OVNSetupFailed no port", 3));
    world.zones_follow();
    world.tick(11_000);
    assert_eq!(
        (count(&world), world.condition(CNC, "c", "Ready"), status(&world)),
        (2, "True/OVNSetupSucceeded 101/101 zones".to_owned(), json!("Success"))
    );
}

/// A manager that takes over before it knows what zones report says nothing about them.
#[test]
fn reports_come_last() {
    for count in [3, 101] {
        let nodes: Vec<String> = (0..count).map(|number| format!("n{number:03}")).collect();
        let mut world = connected(&nodes.iter().map(String::as_str).collect::<Vec<_>>());
        world.tick(2_000);
        world.zones_follow();
        let cut_off = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
        world.change(Kind::Node, "n001", &cut_off);
        world.tick(4_000);
        assert_eq!(status(&world), "Success");
        let (reports, others): (Vec<Value>, Vec<Value>) =
            world.everything().cloned().partition(|object| object["kind"] == "ZoneReport");
        let (listed, first): (Vec<Input>, Vec<Input>) =
            synced(world.reuse()).into_iter().partition(|input| matches!(input, Input::ZoneReport(_)));
        let mut manager = Manager::new(ipv4()).unwrap();
        let inputs = others.iter().filter_map(|object| event(object, false)).chain(first);
        let inputs = inputs.chain(reports.iter().filter_map(|object| event(object, false))).chain(listed);
        let outputs: Vec<Output> = inputs.flat_map(|input| manager.step(input)).collect();
        assert_eq!(outputs, [], "with {count} nodes");
    }
}

/// However much zones report, a connection's status is written once a second.
#[test]
fn one_status_a_second() {
    let nodes: Vec<String> = (0..50).map(|number| format!("n{number}")).collect();
    let mut world = connected(&nodes.iter().map(String::as_str).collect::<Vec<_>>());
    world.tick(2_000);
    world.writes.clear();
    for node in &nodes {
        world.zone_follows(node);
    }
    assert_eq!(world.writes.len(), 1);
    world.tick(3_000);
    assert_eq!((world.writes.len(), status(&world)), (2, json!("Success")));
    world.tick(9_000);
    assert_eq!(world.writes.len(), 2, "nothing more to say");
}

/// A spec that changes what zones do is waited for; one that only selects the same in other words is not.
#[test]
fn what_zones_must_do_again() {
    let mut world = connected(&["n1"]);
    world.tick(3_000);
    world.zones_follow();
    let before = hash(world.object(CNC, "c"));
    world.tick(5_000);
    let selectors = json!([cudns(json!({}))]);
    world.change(CNC, "c", &json!({"metadata": {"generation": 2}, "spec": {"networkSelectors": selectors}}));
    assert_eq!((hash(world.object(CNC, "c")), status(&world)), (before, json!("Success")));
    assert_eq!(world.object(CNC, "c")["status"]["observedGeneration"], 2);
    world.tick(7_000);
    world.change(
        CNC,
        "c",
        &json!({"metadata": {"generation": 3}, "spec": {"connectivity": ["PodNetwork", "ServiceNetwork"]}}),
    );
    assert_eq!(status(&world), json!("Progressing"));
    world.zones_follow();
    world.tick(9_000);
    assert_eq!(status(&world), "Success");
}
