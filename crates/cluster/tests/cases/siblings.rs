//! J: several primary networks for the pods of one namespace.

use causeway_alloc::Reuse;
use causeway_cluster::Config;
use causeway_record::Kind;
use serde_json::{Value, json};

use crate::mirrors::{SLICE, endpoint, mirror_of, slice};
use crate::world::{World, cudns, dual, ipv4};

pub(crate) const UDN: Kind = Kind::UserDefinedNetwork;
pub(crate) const CUDN: Kind = Kind::ClusterUserDefinedNetwork;
pub(crate) const REQUEST: &str = "k8s.ovn.org/requested-primary-udn";

fn ready(world: &World, path: &str) -> String {
    match path.contains('/') {
        true => world.udn_condition(path, "NetworkReady"),
        false => world.cudn_condition(path, "NetworkReady"),
    }
}

fn is_ready(world: &World, path: &str) -> bool {
    ready(world, path).starts_with("True/")
}

fn layer2(cidrs: &[&str]) -> Value {
    json!({"topology": "Layer2", "layer2": {"role": "Primary", "subnets": cidrs}})
}

fn layer3(cidr: &str) -> Value {
    let subnets = json!([{"cidr": cidr, "hostSubnet": 24}]);
    json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": subnets}})
}

fn team(name: &str) -> Value {
    json!({"matchLabels": {"team": name}})
}

/// The attachment on which a pod has its primary network.
fn network_of(world: &World, pod: &str) -> Option<String> {
    let networks = world.networks(pod);
    let mut primary = networks.as_object()?.iter().filter(|(_, entry)| entry["role"] == "primary");
    let found = primary.next().map(|(nad, _)| nad.clone());
    assert_eq!(primary.next(), None, "one primary network for a pod");
    found
}

/// Namespace `demo` with `u1`, which has room for five pods, and `u2`.
fn demo() -> World {
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    world.tenant("demo");
    world.layer2("demo/u1", &["10.0.0.0/29"]);
    world.layer3("demo/u2", "11.0.0.0/16", 24);
    world
}

pub(crate) fn fill(world: &mut World, start: usize, count: usize) {
    (start..start + count).for_each(|number| world.pod(&format!("demo/p{number}"), "n1"));
}

/// J001: a second network in a namespace, of another topology.
#[test]
fn j001_two_networks_of_a_namespace() {
    let world = demo();
    for path in ["demo/u1", "demo/u2"] {
        assert!(is_ready(&world, path), "{}", ready(&world, path));
        assert!(world.has_nad(path));
    }
}

/// J002: subnets that overlap are the younger network's fault, until the older one is gone.
#[test]
fn j002_overlapping_siblings() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.layer2("demo/u1", &["10.0.0.0/24"]);
    world.layer2("demo/u2", &["10.0.0.128/25"]);
    assert_eq!(
        ready(&world, "demo/u2"),
        "False/OverlappingSubnets subnet \"10.0.0.128/25\" overlaps subnet \"10.0.0.0/24\" of network demo_u1, which serves the \
         same namespace"
    );
    assert!(!world.has_nad("demo/u2") && is_ready(&world, "demo/u1"));
    world.restart(|_| {});
    assert!(!world.has_nad("demo/u2") && is_ready(&world, "demo/u1"));
    world.delete(UDN, "demo/u1");
    assert!(is_ready(&world, "demo/u2"), "{}", ready(&world, "demo/u2"));
}

/// Siblings must have the same IP families: their pods could not all reach each other.
#[test]
fn siblings_of_other_families() {
    let mut world = World::new(dual(), &["n1"]);
    world.tenant("demo");
    world.layer2("demo/u1", &["10.0.0.0/24", "fd10::/64"]);
    world.layer2("demo/u2", &["10.1.0.0/24"]);
    assert_eq!(
        ready(&world, "demo/u2"),
        "False/PrimaryNetworkConflict UserDefinedNetwork demo/u1 serves the same namespace and has other IP families \
         (10.0.0.0/24,fd10::/64): their pods would not all reach each other; use subnets of the same families"
    );
    world.layer2("demo/u3", &["10.1.0.0/24", "fd11::/64"]);
    assert!(is_ready(&world, "demo/u3"), "{}", ready(&world, "demo/u3"));
}

/// Siblings are connected by tunnels, so each must have them.
#[test]
fn siblings_without_tunnels() {
    let bare = |cidr: &str| {
        let mut network = layer3(cidr);
        network["transport"] = "NoOverlay".into();
        network["noOverlay"] = json!({"outboundSNAT": "Enabled", "routing": "Managed"});
        network
    };
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.label("demo", json!({"team": "x"}));
    world.cudn("c1", team("x"), layer2(&["10.0.0.0/24"]));
    world.cudn("c2", team("x"), bare("11.0.0.0/16"));
    assert_eq!(
        ready(&world, "c2"),
        "False/PrimaryNetworkConflict ClusterUserDefinedNetwork c1 serves the same namespace, and network cluster_udn_c2 has transport \
         'NoOverlay': siblings are connected by tunnels, so their pods would not all reach each other"
    );
    assert!(!world.has_nad("demo/c2"));
    world.delete(CUDN, "c1");
    assert!(world.has_nad("demo/c2"), "{}", ready(&world, "c2"));
    world.cudn("c3", team("x"), layer2(&["10.0.0.0/24"]));
    assert!(ready(&world, "c3").contains("network cluster_udn_c2 has transport"), "{}", ready(&world, "c3"));

    let mut world = World::new(Config { no_overlay: true, ..ipv4() }, &["n1"]);
    world.tenant("demo");
    world.layer2("demo/u1", &["10.0.0.0/24"]);
    world.layer3("demo/u2", "11.0.0.0/16", 24);
    assert!(ready(&world, "demo/u2").contains("no tunnels (--no-overlay)"), "{}", ready(&world, "demo/u2"));
    assert!(is_ready(&world, "demo/u1"), "one alone needs no road");
}

/// J004: networks of a tenant and of the administrator are never mixed, whoever comes first.
#[test]
fn j004_kinds_are_not_mixed() {
    let mut world = World::new(ipv4(), &["n1"]);
    for name in ["a", "b"] {
        world.tenant(name);
    }
    world.label("a", json!({"team": "x"}));
    world.cudn("c1", team("x"), layer2(&["10.0.0.0/24"]));
    world.layer2("a/u1", &["10.1.0.0/24"]);
    let conflict =
        |namespace, other| format!("primary network already exist in namespace \"{namespace}\": \"{other}\"");
    assert!(ready(&world, "a/u1").contains(&conflict("a", "c1")), "{}", ready(&world, "a/u1"));
    assert!(is_ready(&world, "c1") && !world.has_nad("a/u1"));

    world.layer2("b/u1", &["10.1.0.0/24"]);
    world.label("b", json!({"team": "x"}));
    assert!(ready(&world, "c1").contains(&conflict("b", "u1")), "{}", ready(&world, "c1"));
    assert!(is_ready(&world, "b/u1") && !world.has_nad("b/c1") && world.has_nad("a/c1"));
    world.delete(UDN, "b/u1");
    assert!(is_ready(&world, "c1"), "{}", ready(&world, "c1"));
    world.delete(CUDN, "c1");
    assert!(is_ready(&world, "a/u1"), "{}", ready(&world, "a/u1"));
}

/// J005, J008, J011: cluster networks with one selector, however it is written; others that never meet; a namespace that comes later.
#[test]
fn j005_j008_j011_cluster_networks() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("a");
    world.label("a", json!({"team": "x"}));
    world.cudn("c1", team("x"), layer2(&["10.0.0.0/24"]));
    let same = json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["x"]}]});
    world.cudn("c2", same, layer3("10.1.0.0/16"));
    world.cudn("c3", team("y"), layer3("10.1.0.0/16"));
    world.tenant("b");
    world.label("b", json!({"team": "x"}));
    world.tenant("c");
    world.label("c", json!({"team": "y"}));
    for name in ["c1", "c2", "c3"] {
        assert!(is_ready(&world, name), "{}", ready(&world, name));
    }
    for nad in ["a/c1", "a/c2", "b/c1", "b/c2", "c/c3"] {
        assert!(world.has_nad(nad), "{nad}");
    }
    world.cudn("c4", team("x"), layer3("10.1.128.0/17"));
    assert!(ready(&world, "c4").starts_with("False/OverlappingSubnets"), "{}", ready(&world, "c4"));
    assert!(!world.has_nad("a/c4") && !world.has_nad("b/c4"));
    world.delete(CUDN, "c2");
    assert!(is_ready(&world, "c4"), "{}", ready(&world, "c4"));
}

/// J010: a selector that is edited makes the younger network say so. Nothing that runs is taken away, and the edit's undoing cures it.
#[test]
fn j010_a_selector_that_leaves_the_line() {
    let mut world = World::new(ipv4(), &["n1"]);
    for (name, team) in [("a", "x"), ("b", "y")] {
        world.tenant(name);
        world.label(name, json!({"team": team}));
    }
    world.cudn("c1", team("x"), layer2(&["10.0.0.0/24"]));
    world.cudn("c2", team("x"), layer2(&["10.1.0.0/24"]));
    world.pod_with("a/one", "n1", json!({REQUEST: "c1"}));
    world.pod_with("a/two", "n1", json!({REQUEST: "c2"}));
    let both = json!({"matchLabels": null, "matchExpressions": [{"key": "team", "operator": "In", "values": ["x", "y"]}]});
    world.change(CUDN, "c1", &json!({"spec": {"namespaceSelector": both}}));
    assert!(ready(&world, "c2").contains("by another namespaceSelector"), "{}", ready(&world, "c2"));
    assert!(is_ready(&world, "c1") && world.has_nad("b/c1") && !world.has_nad("b/c2"));
    assert!(world.has_nad("a/c1") && world.has_nad("a/c2"));
    world.restart(|_| {});
    assert_eq!(world.writes, [] as [&str; 0]);
    world.pod("a/three", "n1");
    assert_eq!(network_of(&world, "a/three").as_deref(), Some("a/c1"));
    let first = json!({"matchLabels": {"team": "x"}, "matchExpressions": null});
    world.change(CUDN, "c1", &json!({"spec": {"namespaceSelector": first}}));
    assert!(is_ready(&world, "c1") && is_ready(&world, "c2"), "{}", ready(&world, "c2"));
    assert_eq!(network_of(&world, "a/two").as_deref(), Some("a/c2"));
}

/// A network that moves to namespaces where another one has its subnets: whoever serves them already stays.
#[test]
fn a_selector_that_meets_others_with_the_same_subnets() {
    let mut world = World::new(ipv4(), &["n1"]);
    for (name, team) in [("a", "x"), ("b", "y")] {
        world.tenant(name);
        world.label(name, json!({"team": team}));
    }
    world.cudn("c1", team("x"), layer2(&["10.0.0.0/24"]));
    world.cudn("c2", team("y"), layer2(&["10.0.0.0/24"]));
    world.change(CUDN, "c2", &json!({"spec": {"namespaceSelector": team("x")}}));
    assert!(ready(&world, "c2").starts_with("False/OverlappingSubnets"), "{}", ready(&world, "c2"));
    assert!(!world.has_nad("a/c2") && is_ready(&world, "c1"));
    world.change(CUDN, "c2", &json!({"spec": {"namespaceSelector": team("y")}}));
    assert!(is_ready(&world, "c2") && world.has_nad("b/c2"), "{}", ready(&world, "c2"));
}

/// J013, J014: the oldest network that has room; when all are full the pod is told of each, and any of them helps, also a new one.
#[test]
fn j013_j014_the_oldest_with_room() {
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    world.tenant("demo");
    world.layer2("demo/u1", &["10.0.0.0/29"]);
    world.layer2("demo/u2", &["10.0.1.0/29"]);
    fill(&mut world, 0, 10);
    let on = |world: &World, nad: &str| {
        (0..12).filter(|number| network_of(world, &format!("demo/p{number}")).as_deref() == Some(nad)).count()
    };
    let (first, second) = (on(&world, "demo/u1"), on(&world, "demo/u2"));
    assert_eq!(
        (first, first + second),
        (second, 8),
        "four pods in each /29, behind the router and the management port"
    );
    let told: Vec<&String> = world.said.iter().filter(|said| said.starts_with("Pod demo/p8 ")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("network demo_u1: ") && told[0].contains("; network demo_u2: "), "{told:?}");
    let full = "NetworkAllocationSucceeded";
    assert!(world.udn_condition("demo/u1", full).starts_with("False/SubnetExhausted"));
    world.delete(Kind::Pod, "demo/p0");
    assert_eq!(network_of(&world, "demo/p8").as_deref(), Some("demo/u1"));
    world.layer3("demo/u3", "11.0.0.0/16", 24);
    assert_eq!(network_of(&world, "demo/p9").as_deref(), Some("demo/u3"), "{:?}", world.said);
    assert!(world.udn_condition("demo/u1", full).starts_with("True/"), "nobody waits any more");
    world.restart(|_| {});
    assert_eq!(world.writes, [] as [&str; 0]);
}

/// J016, J019: a pod that asks for a network gets that one, or none.
#[test]
fn j016_j019_a_network_that_is_asked_for() {
    let mut world = demo();
    world.tenant("other");
    world.layer2("other/u9", &["10.9.0.0/24"]);
    world.udn(
        "demo/extra",
        json!({"topology": "Layer2", "layer2": {"role": "Secondary", "subnets": ["10.8.0.0/24"]}}),
    );
    world.pod_with("demo/a", "n1", json!({REQUEST: "u2"}));
    world.pod_with("demo/b", "n1", json!({REQUEST: "demo/u2"}));
    for pod in ["demo/a", "demo/b"] {
        assert_eq!(network_of(&world, pod).as_deref(), Some("demo/u2"));
    }
    for (pod, asked) in
        [("demo/c", "u9"), ("demo/d", "other/u9"), ("demo/e", "extra"), ("demo/f", "other/u2")]
    {
        world.pod_with(pod, "n1", json!({REQUEST: asked}));
        assert_eq!(world.networks(pod), Value::Null, "{asked}");
        let message = format!(
            "Pod {pod} ErrorAllocatingPod: {REQUEST} asks for {asked}, which is no primary network of namespace demo: it has [u1, u2]"
        );
        assert!(world.said.contains(&message), "{:?}", world.said);
    }
    world.layer2("demo/u9", &["10.7.0.0/24"]);
    assert_eq!(network_of(&world, "demo/c").as_deref(), Some("demo/u9"), "it is there now");
    fill(&mut world, 0, 4);
    world.pod_with("demo/full", "n1", json!({REQUEST: "u1"}));
    assert_eq!(world.networks("demo/full"), Value::Null);
    world.change(Kind::Pod, "demo/a", &json!({"metadata": {"annotations": {REQUEST: "u1"}}}));
    assert_eq!(network_of(&world, "demo/a").as_deref(), Some("demo/u2"), "it is decided");
}

/// J017: where the default network serves, nothing is asked for.
#[test]
fn j017_no_request_on_the_default_network() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.namespace("plain", json!({}));
    for (pod, asked) in [("plain/a", "u9"), ("plain/b", "/ /")] {
        world.pod_with(pod, "n1", json!({REQUEST: asked}));
        assert_eq!(world.networks(pod)["default"]["role"], "primary", "{asked}");
    }
}

/// J020: a network that has no part for the pod's node is passed over, and is no answer to a pod that asks for it.
#[test]
fn j020_a_network_without_a_part_for_the_node() {
    let mut world = World::new(ipv4(), &["n1", "n2", "n3"]);
    world.tenant("demo");
    world.layer3("demo/u1", "11.0.0.0/23", 24);
    world.layer2("demo/u2", &["10.0.0.0/24"]);
    world.pod("demo/a", "n1");
    world.pod("demo/b", "n3");
    world.pod_with("demo/c", "n3", json!({REQUEST: "u1"}));
    assert_eq!(network_of(&world, "demo/a").as_deref(), Some("demo/u1"));
    assert_eq!(network_of(&world, "demo/b").as_deref(), Some("demo/u2"));
    assert_eq!(world.networks("demo/c"), Value::Null);
}

/// A network with which something is wrong on the pod's node is the last one there, and elsewhere what it was. It is still one: a report
/// may be about one other pod, and an address that is wired as soon as it can be is better than none.
#[test]
fn a_network_in_trouble_on_a_node_comes_last_there() {
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    world.tenant("demo");
    world.layer2("demo/u1", &["10.0.0.0/24"]);
    world.layer2("demo/u2", &["10.0.1.0/29"]);
    let failure = |network: &str| json!({"subject": "Network", "name": network, "reason": "DatabaseRefused", "message": "no"});
    world.report("n1", json!({"failures": [failure("demo_u1")]}));
    (0..6).for_each(|number| world.pod(&format!("demo/p{number}"), "n1"));
    world.pod("demo/far", "n2");
    world.pod_with("demo/asks", "n1", json!({REQUEST: "u1"}));
    let on = |world: &World, nad: &str| {
        (0..6).filter(|number| network_of(world, &format!("demo/p{number}")).as_deref() == Some(nad)).count()
    };
    assert_eq!((on(&world, "demo/u2"), on(&world, "demo/u1")), (4, 2), "only when the other one is full");
    assert_eq!(network_of(&world, "demo/far").as_deref(), Some("demo/u1"));
    assert_eq!(network_of(&world, "demo/asks").as_deref(), Some("demo/u1"));
    world.delete(Kind::Pod, "demo/p0");
    world.report("n1", json!({"failures": [failure("demo_u1"), failure("demo_u2")]}));
    world.pod("demo/both", "n1");
    assert_eq!(
        network_of(&world, "demo/both").as_deref(),
        Some("demo/u1"),
        "the oldest of those that are alike"
    );
    world.report("n1", json!({"failures": []}));
    world.pod("demo/cured", "n1");
    assert_eq!(network_of(&world, "demo/cured").as_deref(), Some("demo/u1"));
}

/// J023: a pod that asks for an address gets the network that has it.
#[test]
fn j023_an_address_that_is_asked_for() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.layer2("demo/u1", &["10.0.0.0/24"]);
    world.layer2("demo/u2", &["10.0.1.0/24"]);
    let asks = json!([{"name": "default", "namespace": "causeway", "ips": ["10.0.1.77/24"]}]).to_string();
    world.pod_with("demo/a", "n1", json!({"v1.multus-cni.io/default-network": asks}));
    assert_eq!(world.address("demo/a", "demo/u2"), "10.0.1.77/24");
}

/// J025: a network goes when its own pods are gone, whoever else is in the namespace; also the first one.
#[test]
fn j025_the_first_network_may_go() {
    let mut world = demo();
    world.pod("demo/a", "n1");
    world.pod_with("demo/b", "n1", json!({REQUEST: "u2"}));
    world.delete(UDN, "demo/u1");
    let text = world.udn_condition("demo/u1", "NetworkCreated");
    assert!(text.contains("[demo/a]") && !text.contains("demo/b"), "{text}");
    world.pod("demo/c", "n1");
    assert_eq!(network_of(&world, "demo/c").as_deref(), Some("demo/u2"), "one that goes takes no more pods");
    world.delete(Kind::Pod, "demo/a");
    assert!(world.object(UDN, "demo/u1").is_null() && !world.has_nad("demo/u1"));
    assert!(is_ready(&world, "demo/u2"));
}

/// J026: a network that grows into its sibling is the newcomer there, however old it is.
#[test]
fn j026_a_network_that_grows_into_its_sibling() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.layer3("demo/u1", "11.0.0.0/16", 24);
    world.layer3("demo/u2", "12.0.0.0/16", 24);
    let grown = |cidr: &str| json!({"spec": {"layer3": {"subnets": [{"cidr": "11.0.0.0/16", "hostSubnet": 24}, {"cidr": cidr, "hostSubnet": 24}]}}});
    world.change(UDN, "demo/u1", &grown("12.0.128.0/17"));
    assert!(ready(&world, "demo/u1").starts_with("False/OverlappingSubnets"), "{}", ready(&world, "demo/u1"));
    assert!(is_ready(&world, "demo/u2"));
    assert!(world.has_nad("demo/u1"), "what runs goes on running");
    world.change(UDN, "demo/u1", &grown("13.0.0.0/16"));
    assert!(is_ready(&world, "demo/u1"), "{}", ready(&world, "demo/u1"));
}

/// J032: one mirror for a slice, with each pod's address on its own network.
#[test]
fn j032_a_mirror_over_siblings() {
    let mut world = demo();
    world.pod("demo/a", "n1");
    world.pod_with("demo/b", "n1", json!({REQUEST: "u2"}));
    let endpoints = json!([endpoint(&world, "demo/a"), endpoint(&world, "demo/b")]);
    world.put(slice("demo/web-1", "IPv4", endpoints));
    let mirror = world.object(SLICE, &mirror_of(&world, "demo/web-1").unwrap());
    let own = |pod, nad| world.address(pod, nad).as_str().unwrap().split_once('/').unwrap().0.to_owned();
    assert_eq!(mirror["endpoints"][0]["addresses"][0], own("demo/a", "demo/u1"));
    assert_eq!(mirror["endpoints"][1]["addresses"][0], own("demo/b", "demo/u2"));
    let network = |world: &World| {
        let mirror = mirror_of(world, "demo/web-1").unwrap();
        world.object(SLICE, &mirror)["metadata"]["annotations"]["k8s.ovn.org/endpointslice-network"].clone()
    };
    assert_eq!(network(&world), "demo_u1");
    world.delete(UDN, "demo/u1");
    assert_eq!(network(&world), "demo_u2", "before the network is gone");
    assert!(world.has_nad("demo/u1"));
}

/// J038: what was decided is the same after a restart, whichever networks have room by then.
#[test]
fn j038_a_restart_decides_nothing_anew() {
    let mut world = demo();
    fill(&mut world, 0, 6);
    let before: Vec<_> = (0..6).map(|number| network_of(&world, &format!("demo/p{number}"))).collect();
    world.delete(Kind::Pod, "demo/p0");
    world.restart(|_| {});
    assert_eq!(world.writes, [] as [&str; 0]);
    let after: Vec<_> = (0..6).map(|number| network_of(&world, &format!("demo/p{number}"))).collect();
    assert_eq!(before[1..], after[1..]);
}

/// J041: there is an end to it. Ours is at 32, not at 8.
#[test]
fn j041_the_most_siblings() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.label("demo", json!({"team": "x"}));
    for number in 0..33 {
        world.cudn(&format!("c{number:02}"), team("x"), layer2(&[&format!("10.{number}.0.0/24")]));
    }
    assert!(is_ready(&world, "c31"), "{}", ready(&world, "c31"));
    assert_eq!(
        ready(&world, "c32"),
        "False/TooManyPrimaryNetworks its namespaces have 32 primary networks already: that is the most"
    );
    world.delete(CUDN, "c00");
    assert!(is_ready(&world, "c32"), "{}", ready(&world, "c32"));
}

/// What came while nobody watched is decided by age, whatever it is called.
#[test]
fn age_decides_among_those_that_came_at_once() {
    let mut world = World::empty(ipv4());
    world.tenant("demo");
    world.layer2("demo/z-older", &["10.0.0.0/24"]);
    world.layer2("demo/a-younger", &["10.0.0.0/25"]);
    world.listed(Reuse::default());
    assert!(is_ready(&world, "demo/z-older"), "{}", ready(&world, "demo/z-older"));
    assert!(ready(&world, "demo/a-younger").starts_with("False/OverlappingSubnets"));
    assert!(!world.has_nad("demo/a-younger"));
}

/// What siblings have in common is on their attachments, the same for all of them and for as long as they select the same; it names their
/// road, so nothing of it is written when one of them comes or goes.
#[test]
fn siblings_have_one_name() {
    const SET: &str = "k8s.ovn.org/primary-network-set";
    const NAD: Kind = Kind::NetworkAttachmentDefinition;
    let mut world = World::new(ipv4(), &["n1"]);
    for (name, team) in [("a", "x"), ("b", "y"), ("own", "z")] {
        world.tenant(name);
        world.label(name, json!({"team": team}));
    }
    world.cudn("c1", team("x"), layer2(&["10.0.0.0/24"]));
    let same = json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["x"]}]});
    world.cudn("c2", same, layer3("10.1.0.0/16"));
    world.cudn("c3", team("y"), layer3("10.1.0.0/16"));
    world.layer2("own/u1", &["10.0.0.0/24"]);
    let set = |world: &World, nad: &str| world.annotation(NAD, nad, SET);
    let first = set(&world, "a/c1");
    assert!(first.as_str().is_some_and(|text| text.len() == 16), "{first}");
    assert_eq!(set(&world, "a/c2"), first, "however the selector is written");
    assert_ne!(set(&world, "b/c3"), first);
    assert_eq!(set(&world, "own/u1"), Value::Null, "a tenant's are named by their namespace");
    world.writes.clear();
    world.delete(CUDN, "c1");
    assert_eq!(set(&world, "a/c2"), first);
    assert!(!world.writes.iter().any(|write| write.contains("a/c2")), "{:?}", world.writes);
    let wider = json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["x", "q"]}]});
    world.change(CUDN, "c2", &json!({"spec": {"namespaceSelector": wider}}));
    assert_ne!(set(&world, "a/c2"), first);
    world.restart(|_| {});
    assert_eq!(world.writes, [] as [&str; 0]);
}

/// A connection that selects one sibling joins that one, and says whom it leaves apart.
#[test]
fn a_connection_of_one_sibling_says_so() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.island("red", "10.9.0.0/16", json!({"joined": "yes"}));
    world.tenant("a");
    world.label("a", json!({"team": "x"}));
    let cudn = |world: &mut World, name: &str, cidr: &str, labels: Value| {
        world.put(json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork",
            "metadata": {"name": name, "labels": labels}, "spec": {"namespaceSelector": team("x"), "network": layer3(cidr)}}));
    };
    cudn(&mut world, "c1", "10.1.0.0/16", json!({"joined": "yes"}));
    world.connect("c", &[("172.16.0.0/12", 20)], json!([cudns(json!({"joined": "yes"}))]));
    let line = |world: &World| {
        let networks = world.object(Kind::ClusterNetworkConnect, "c")["status"]["networks"].clone();
        let c1 = networks.as_array().unwrap().iter().find(|one| one["name"] == "c1").unwrap().clone();
        (c1["connected"].clone(), c1["message"].clone())
    };
    assert_eq!(line(&world), (json!(true), Value::Null));
    cudn(&mut world, "c2", "10.2.0.0/16", json!({}));
    cudn(&mut world, "c3", "10.3.0.0/16", json!({}));
    world.second();
    let message = "Connected. Pods of its namespaces that are on 'c2', 'c3' are not on this road: select these networks, too, if they \
                   are to be";
    assert_eq!(line(&world), (json!(true), json!(message)));
    assert!(world.accepted("c").starts_with("True/"), "{}", world.accepted("c"));
    assert_eq!(world.blocks("c").as_object().unwrap().len(), 2, "nobody is joined who was not selected");
    world.change(CUDN, "c2", &json!({"metadata": {"labels": {"joined": "yes"}}}));
    world.second();
    assert_eq!(line(&world).1, json!(message.replace("'c2', 'c3'", "'c3'")));
    world.delete(CUDN, "c3");
    world.second();
    assert_eq!(line(&world), (json!(true), Value::Null));
    world.restart(|_| {});
    assert_eq!(world.writes, [] as [&str; 0]);
}
