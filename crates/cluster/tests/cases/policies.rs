//! What authors of policies are told.

use causeway_api::policy::PolicyKind;
use causeway_cluster::{Input, Output};
use causeway_record::{Broken, Cause, Event, Kind, NetworkPolicy, Watched as _};
use serde_json::{Value, json};

use crate::world::{World, ipv4};

const CNP: Kind = Kind::ClusterNetworkPolicy;
const ANP: Kind = Kind::AdminNetworkPolicy;
const FINE: &str = "True/Accepted The policy is carried out as it is written";

fn spec(tier: &str, priority: i32, team: &str) -> Value {
    json!({"tier": tier, "priority": priority, "subject": {"namespaces": {"matchLabels": {"team": team}}},
           "ingress": [{"action": "Deny", "from": [{"namespaces": {}}]}]})
}

fn policy(world: &mut World, name: &str, spec: Value) {
    world.put(json!({"kind": "ClusterNetworkPolicy", "metadata": {"name": name}, "spec": spec}));
}

fn accepted(world: &World, name: &str) -> String {
    world.condition(CNP, name, "Accepted")
}

fn world() -> World {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tick(1_000);
    world.writes.clear();
    world
}

#[test]
fn a_policy_that_is_fine_is_told_once() {
    let mut world = world();
    policy(&mut world, "a", spec("Admin", 1, "red"));
    assert_eq!(
        world.object(CNP, "a")["status"],
        json!({"conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "observedGeneration": 1,
            "message": "The policy is carried out as it is written", "lastTransitionTime": "1970-01-01T00:00:01Z"},
            {"type": "Ready", "status": "False", "reason": "OVNSetupPending", "observedGeneration": 1,
            "message": "0/1 zones; waiting for: [n1]", "lastTransitionTime": "1970-01-01T00:00:01Z"}]})
    );
    world.tick(5_000);
    assert_eq!(world.writes, ["clusternetworkpolicies a status"]);
    assert_eq!(world.said, Vec::<String>::new());
    // Rule 7: a restart writes nothing.
    world.restart(|_| {});
    assert!(!world.writes.iter().any(|write| write.contains("policies")), "{:?}", world.writes);
}

/// What a zone says of policies: which spec it has carried out, and what it could not do.
fn report(world: &mut World, second: i64, node: &str, version: Option<&str>, failure: Option<&str>) {
    let done: Vec<Value> = version
        .into_iter()
        .map(|version| json!({"kind": "ClusterNetworkPolicy", "name": "a", "version": version}))
        .collect();
    let failures: Vec<Value> = failure
        .into_iter()
        .map(|text| json!({"subject": "ClusterNetworkPolicy", "name": "a", "reason": "R", "message": text}))
        .collect();
    world.report(node, json!({"epoch": 0, "policies": done, "failures": failures}));
    world.tick(second * 1_000);
}

/// Ready means that every zone that is heard of has carried out this very spec.
#[test]
fn ready_when_every_zone_has_carried_it_out() {
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    world.tick(1_000);
    policy(&mut world, "a", spec("Admin", 1, "red"));
    let ready = |world: &World| world.condition(CNP, "a", "Ready");
    let uid = world.object(CNP, "a")["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    report(&mut world, 6, "n1", Some(&format!("{uid}/1")), None);
    assert_eq!(ready(&world), "False/OVNSetupPending 1/2 zones; waiting for: [n2]");
    report(&mut world, 9, "n2", Some("another/1"), None);
    assert_eq!(
        ready(&world),
        "False/OVNSetupPending 1/2 zones; waiting for: [n2]",
        "one of that name that is gone"
    );
    report(&mut world, 12, "n2", None, Some("ovn-controller on n2 has not answered"));
    assert_eq!(ready(&world), "False/OVNSetupFailed 1/2 zones; [n2: ovn-controller on n2 has not answered]");
    report(&mut world, 15, "n2", Some(&format!("{uid}/1")), None);
    assert_eq!(ready(&world), "True/OVNSetupSucceeded 2/2 zones");
    world.writes.clear();
    world.restart(|_| {});
    assert!(!world.writes.iter().any(|write| write.contains("policies")), "{:?}", world.writes);
    // What nobody can carry out is never ready.
    policy(&mut world, "a", json!({"tier": "Admin", "priority": 2000, "subject": {"namespaces": {}}}));
    world.tick(60_000);
    assert!(
        ready(&world).starts_with("False/InvalidPriority Nothing of it is carried out"),
        "{}",
        ready(&world)
    );
}

/// POL-100, across kinds: the younger one names the other, and is alone again when that one goes or changes.
#[test]
fn equal_priorities_are_named_to_the_younger_one() {
    let mut world = world();
    policy(&mut world, "old", spec("Admin", 7, "red"));
    policy(&mut world, "elsewhere", spec("Baseline", 7, "red"));
    let older = json!({"priority": 7, "subject": {"namespaces": {}}});
    world.put(json!({"kind": "AdminNetworkPolicy", "metadata": {"name": "young"}, "spec": older}));
    assert_eq!(
        world.condition(ANP, "young", "Accepted"),
        "True/EqualPriority The policy is carried out as it is written. It has the tier and priority of \
         ClusterNetworkPolicy old: which of them is asked first is not defined, give it a priority of its own"
    );
    assert_eq!([accepted(&world, "old"), accepted(&world, "elsewhere")], [FINE, FINE]);
    world.tick(3_000);
    world.change(CNP, "old", &json!({"spec": {"priority": 8}}));
    assert_eq!(world.condition(ANP, "young", "Accepted"), FINE);
    world.tick(5_000);
    world.change(CNP, "old", &json!({"spec": {"priority": 7}}));
    assert!(world.condition(ANP, "young", "Accepted").starts_with("True/EqualPriority"));
    world.tick(7_000);
    world.delete(CNP, "old");
    assert_eq!(world.condition(ANP, "young", "Accepted"), FINE);
}

/// Each of several hears of the one before it, so one that comes or goes concerns its neighbour alone.
#[test]
fn each_of_several_equals_names_the_one_before_it() {
    let mut world = world();
    ["a", "b", "c"].iter().for_each(|name| policy(&mut world, name, spec("Admin", 7, "red")));
    let names = |world: &World, name: &str, other: &str| {
        accepted(world, name).contains(&format!("the tier and priority of ClusterNetworkPolicy {other}:"))
    };
    assert_eq!(accepted(&world, "a"), FINE);
    assert!(names(&world, "b", "a") && names(&world, "c", "b"));
    world.tick(3_000);
    world.delete(CNP, "b");
    assert!(names(&world, "c", "a"), "{}", accepted(&world, "c"));
    world.tick(5_000);
    world.delete(CNP, "a");
    assert_eq!(accepted(&world, "c"), FINE);
}

/// POL-093: what cannot be rendered says why, in the condition and in an event.
#[test]
fn what_cannot_be_carried_out_says_why() {
    let mut world = world();
    let rule = json!({"action": "Allow", "from": [{"namespaces": {}}]});
    let many = json!({"priority": 50, "subject": {"namespaces": {}}, "ingress": vec![rule; 26]});
    world.put(json!({"kind": "AdminNetworkPolicy", "metadata": {"name": "many"}, "spec": many}));
    assert_eq!(world.condition(ANP, "many", "Accepted"), FINE);
    world.tick(3_000);
    world.change(ANP, "many", &json!({"spec": {"priority": 150}}));
    let why = "26 ingress rules are more than the 25 that there is room for with priority 150; priorities below 100 have room \
        for 100";
    assert_eq!(world.condition(ANP, "many", "Accepted"), format!("False/TooManyRules {why}"));
    assert_eq!(world.said, [format!("AdminNetworkPolicy many TooManyRules: {why}")]);
    let mut closed = spec("Admin", 3, "red");
    closed["egress"] = json!([{"action": "Accept", "to": [{"domainNames": ["example.com"]}]}]);
    policy(&mut world, "closed", closed);
    assert_eq!(
        accepted(&world, "closed"),
        "False/RuleFailsClosed Rules fail closed: [egress[0].to[0]: domain names are not resolved here]"
    );
    policy(&mut world, "newer", spec("Middle", 3, "red"));
    assert!(accepted(&world, "newer").starts_with("False/UnreadableSpec the spec cannot be read"));
}

/// POL-099.
#[test]
fn a_subject_with_system_namespaces_is_warned_about() {
    let mut world = world();
    policy(&mut world, "a", spec("Admin", 1, "red"));
    world.namespace("kube-system", json!({"team": "blue"}));
    world.namespace("mine", json!({"team": "red"}));
    world.tick(3_000);
    assert_eq!(accepted(&world, "a"), FINE);
    world.label("kube-system", json!({"team": "red"}));
    assert_eq!(
        accepted(&world, "a"),
        format!("{FINE}. Warning: the subject includes 1 system namespaces: [kube-system]")
    );
}

#[test]
fn at_most_one_status_in_a_second() {
    let mut world = world();
    policy(&mut world, "a", spec("Admin", 1, "red"));
    for priority in 2..30 {
        world.change(
            CNP,
            "a",
            &json!({"spec": {"priority": -priority}, "metadata": {"generation": priority}}),
        );
    }
    assert_eq!(world.writes.len(), 1);
    world.tick(2_500);
    assert_eq!(world.writes.len(), 2);
    assert_eq!(accepted(&world, "a"), "False/InvalidPriority priority -29 is not between 0 and 1000");
}

/// POL-102: kinds that are not installed hold nothing up, and those that go leave nothing behind.
#[test]
fn kinds_that_are_absent_are_no_trouble() {
    let mut world = world();
    let broken = |cause| Event::Unsynced(Broken { cause, message: "gone".into() });
    for kind in PolicyKind::ALL {
        let outputs = world.step(Input::Policy(kind, broken(Cause::NotInstalled)));
        assert!(outputs.is_empty());
    }
    world.namespace("ns", json!({}));
    world.pod("ns/a", "n1");
    assert!(!world.networks("ns/a").is_null());
    policy(&mut world, "old", spec("Admin", 7, "red"));
    let admin = json!({"priority": 7, "subject": {"namespaces": {}}});
    world.put(json!({"kind": "AdminNetworkPolicy", "metadata": {"name": "young"}, "spec": admin}));
    world.tick(3_000);
    let outputs = world.step(Input::Policy(PolicyKind::Cluster, broken(Cause::NotInstalled)));
    world.take(outputs);
    assert_eq!(world.condition(ANP, "young", "Accepted"), FINE);
}

/// A tenant's policy has no status: what of it cannot be carried out as it is written is said in an event, once for each text.
#[test]
fn tenants_are_told_in_events() {
    let mut world = world();
    let mut said_of = |peer: Value| {
        let object = json!({"metadata": {"namespace": "x", "name": "p", "uid": "u1"},
            "spec": {"podSelector": {}, "ingress": [{"from": [peer]}]}});
        let object = serde_json::from_value(object).unwrap();
        let key = NetworkPolicy::key(&object).unwrap();
        world.step(Input::NetworkPolicy(Event::Applied(NetworkPolicy::trim(object, key))))
    };
    assert_eq!(said_of(json!({"podSelector": {}})), []);
    let bad = json!({"ipBlock": {"cidr": "10.0.0.0/33"}});
    let said = said_of(bad.clone());
    let [Output::Event(note)] = said.as_slice() else { panic!("no event, but {said:?}") };
    assert_eq!((note.reason.as_str(), note.regarding.kind.as_str()), ("RuleFailsClosed", "NetworkPolicy"));
    let text = "Parts of the policy allow nobody: [\"10.0.0.0/33\" is no subnet: the peer is nobody]";
    assert_eq!(note.message, text);
    assert_eq!(said_of(bad.clone()), [], "once");
    assert_eq!(said_of(json!({"podSelector": {}})), []);
    assert_eq!(said_of(bad).len(), 1, "again, when it is there again");
}

/// POL-141: what nodes do not carry out because it is too much, its author hears, too.
#[test]
fn tenants_are_told_of_too_many_subnets() {
    let mut world = world();
    let block = |n: u32| json!({"ipBlock": {"cidr": format!("10.{}.{}.0/24", n / 256, n % 256)}});
    let object = json!({"metadata": {"namespace": "x", "name": "p", "uid": "u1"},
        "spec": {"podSelector": {}, "ingress": [{"from": (0..5000).map(block).collect::<Vec<_>>()}]}});
    let object = serde_json::from_value(object).unwrap();
    let key = NetworkPolicy::key(&object).unwrap();
    let said = world.step(Input::NetworkPolicy(Event::Applied(NetworkPolicy::trim(object, key))));
    let [Output::Event(note)] = said.as_slice() else { panic!("no event, but {said:?}") };
    assert!(note.message.contains("it has more than 4096 subnets"), "{}", note.message);
}
