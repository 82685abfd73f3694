//! Corners in which somebody was wronged: by an edit, by a clash that came late, by a restart, by a neighbour.

use causeway_record::Kind;
use serde_json::{Value, json};

use crate::world::{World, cudns, ipv4};

const NAD: Kind = Kind::NetworkAttachmentDefinition;
const UDN: Kind = Kind::UserDefinedNetwork;
const CUDN: Kind = Kind::ClusterUserDefinedNetwork;

fn by_hand(name: &str, role: &str, subnets: &str) -> String {
    json!({"type": "ovn-k8s-cni-overlay", "name": name, "topology": "layer2", "role": role, "subnets": subnets}).to_string()
}

fn told(world: &World, text: &str) -> bool {
    world.said.iter().any(|said| said.contains(text))
}

/// Who has grown into another's addresses is left out of the connection, whatever the ids are: while a manager watched, and
/// while none did.
#[test]
fn who_grows_into_others_is_the_newcomer() {
    for watched in [true, false] {
        for (grower, innocent) in [("a", "b"), ("b", "a")] {
            let mut world = World::new(ipv4(), &["n1"]);
            world.island("a", "10.1.0.0/16", json!({"road": "x"}));
            world.island("b", "10.2.0.0/16", json!({"road": "x"}));
            world.island("c", "10.3.0.0/16", json!({"road": "x"}));
            world.connect("main", &[("192.168.0.0/16", 24)], json!([cudns(json!({"road": "x"}))]));
            assert_eq!(world.blocks("main").as_object().unwrap().len(), 3);
            let cidr = |name: &str| if name == "a" { "10.1.0.0/16" } else { "10.2.0.0/16" };
            let grown: Vec<Value> =
                [cidr(grower), cidr(innocent)].map(|cidr| json!({"cidr": cidr, "hostSubnet": 24})).into();
            let grown = json!({"spec": {"network": {"layer3": {"subnets": grown}}}});
            world.paused = !watched;
            world.change(CUDN, grower, &grown);
            world.held.clear();
            world.paused = false;
            world.restart(|_| {});
            let id = |world: &World, name: &str| {
                world.annotation(NAD, &format!("{name}/{name}"), "k8s.ovn.org/network-id")
            };
            let blocks = world.blocks("main");
            let has = |name: &str| blocks[format!("layer3_{}", id(&world, name))].is_object();
            assert_eq!(
                [has(grower), has(innocent), has("c")],
                [false, true, true],
                "{grower} has grown, {watched}: {blocks}"
            );
        }
    }
}

/// The same when a manager ends between two writes, whichever of them is done: connections are written before the network
/// says what it has grown to.
#[test]
fn who_grows_is_the_newcomer_also_after_a_crash() {
    for unwritten in ["configmaps", "clusternetworkconnects", "network-attachment-definitions"] {
        for (grower, innocent, cidrs) in
            [("a", "b", ["10.1.0.0/16", "10.2.0.0/16"]), ("b", "a", ["10.2.0.0/16", "10.1.0.0/16"])]
        {
            let mut world = World::new(ipv4(), &["n1"]);
            world.island("a", "10.1.0.0/16", json!({"road": "x"}));
            world.island("b", "10.2.0.0/16", json!({"road": "x"}));
            world.island("c", "10.3.0.0/16", json!({"road": "x"}));
            world.connect("main", &[("192.168.0.0/16", 24)], json!([cudns(json!({"road": "x"}))]));
            let grown = cidrs.map(|cidr| json!({"cidr": cidr, "hostSubnet": 24}));
            world.failing = Some(unwritten.into());
            world.change(CUDN, grower, &json!({"spec": {"network": {"layer3": {"subnets": grown}}}}));
            let nad = format!("{grower}/{grower}");
            let says =
                |world: &World| world.object(NAD, &nad)["spec"]["config"].to_string().contains(cidrs[1]);
            assert!(!says(&world), "{unwritten} fail: it is not said yet");
            world.failing = None;
            world.restart(|_| {});
            let blocks = world.blocks("main");
            let has = |name: &str| {
                let id = world.annotation(NAD, &format!("{name}/{name}"), "k8s.ovn.org/network-id");
                blocks[format!("layer3_{id}")].is_object()
            };
            assert_eq!(
                [has(grower), has(innocent), has("c"), says(&world)],
                [false, true, true, true],
                "{grower} has grown, {unwritten} failed: {blocks}"
            );
        }
    }
}

/// An old pod that waits for a taken address keeps no place from a younger one that takes any.
#[test]
fn who_waits_for_a_taken_address_is_in_nobodys_way() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.layer2("demo/db", &["10.0.0.0/29"]);
    for name in ["a", "b", "c", "d"] {
        world.pod(&format!("demo/{name}"), "n1");
    }
    let taken = json!({"v1.multus-cni.io/default-network": r#"[{"name":"default","ips":["10.0.0.3/29"]}]"#});
    world.pod_with("demo/old", "n1", taken);
    world.pod("demo/young", "n1");
    world.delete(Kind::Pod, "demo/b");
    assert_eq!(world.address("demo/young", "demo/db"), "10.0.0.4/29");
    assert_eq!(world.networks("demo/old"), Value::Null);
    world.delete(Kind::Pod, "demo/a");
    assert_eq!(world.address("demo/old", "demo/db"), "10.0.0.3/29");
}

/// One address that a pod cannot keep leaves the others its own: nobody gets them.
#[test]
fn a_conflict_about_one_address_leaves_the_others() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.layer2("demo/db", &["10.0.0.0/24"]);
    world.pod("demo/a", "n1");
    world.pod("demo/b", "n1");
    // By hand: the default address of the first pod, and its own.
    let mut networks = world.networks("demo/b");
    networks["default"] = world.networks("demo/a")["default"].clone();
    world.paused = true;
    let annotations = json!({"k8s.ovn.org/pod-networks": networks.to_string()});
    world.change(Kind::Pod, "demo/b", &json!({"metadata": {"annotations": annotations}}));
    world.held.clear();
    world.paused = false;
    world.restart(|_| {});
    assert!(told(&world, "pod demo/b cannot keep its address on the default network"), "{:?}", world.said);
    let asks = json!({"v1.multus-cni.io/default-network": r#"[{"name":"default","ips":["10.0.0.4/24"]}]"#});
    world.pod_with("demo/c", "n1", asks);
    assert_eq!(world.networks("demo/c"), Value::Null, "10.0.0.4 is demo/b's");
}

/// A network that is written by hand stays under its pods: an edit and a clash that comes later are said, and count when the
/// pods are gone.
#[test]
fn a_network_by_hand_stays_under_its_pods() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.namespace("plain", json!({}));
    world.nad("plain/own", &by_hand("own", "secondary", "10.9.0.0/24"));
    world.pod_with("plain/a", "n1", json!({"k8s.v1.cni.cncf.io/networks": "own"}));
    let id = |world: &World| world.annotation(NAD, "plain/own", "k8s.ovn.org/network-id");
    assert_eq!((id(&world), world.address("plain/a", "plain/own")), (json!(1), json!("10.9.0.1/24")));
    let edit = |config: String| json!({"spec": {"config": config}});
    world.change(NAD, "plain/own", &edit(by_hand("other", "secondary", "10.9.0.0/24")));
    assert!(told(
        &world,
        "NAD plain/own has pods on network own: delete them before it names another network"
    ));
    world.change(NAD, "plain/own", &edit(by_hand("own", "secondary", "10.8.0.0/24")));
    assert!(told(&world, "NAD plain/own CNI config does not match that of network own"), "{:?}", world.said);
    assert_eq!((id(&world), world.reuse().network_ids.quarantined.len()), (json!(1), 0), "nothing was freed");
    world.delete(Kind::Pod, "plain/a");
    world.pod_with("plain/b", "n1", json!({"k8s.v1.cni.cncf.io/networks": "own"}));
    assert_eq!(world.address("plain/b", "plain/own"), "10.8.0.1/24", "judged again when its pods are gone");
}

/// A selector that cannot be read lets nothing go, before and after a restart, and selects nothing new.
#[test]
fn a_typo_in_a_selector_lets_nothing_go() {
    let mut world = World::new(ipv4(), &["n1"]);
    let layer3 = json!({"role": "Primary", "subnets": [{"cidr": "10.50.0.0/16", "hostSubnet": 24}]});
    let team = |name: &str| json!({"k8s.ovn.org/primary-user-defined-network": "", "team": name});
    world.namespace("a", team("x"));
    world.cudn("net", json!({"matchLabels": {"team": "x"}}), json!({"topology": "Layer3", "layer3": layer3}));
    assert!(world.has_nad("a/net"));
    let typo = json!({"matchLabels": null, "matchExpressions": [{"key": "team", "operator": "Inn", "values": ["x"]}]});
    world.change(CUDN, "net", &json!({"spec": {"namespaceSelector": typo}}));
    world.namespace("b", team("x"));
    assert_eq!([world.has_nad("a/net"), world.has_nad("b/net")], [true, false]);
    world.restart(|_| {});
    assert!(world.has_nad("a/net"));
    world.pod("a/pod", "n1");
    assert_eq!(world.address("a/pod", "a/net"), "10.50.0.3/24", "what is there goes on");
}

/// A namespace that is deselected, or whose attachment is going, keeps its pods on the network and gets no new ones.
#[test]
fn who_is_deselected_gets_no_new_pods() {
    let layer3 = json!({"role": "Primary", "subnets": [{"cidr": "10.50.0.0/16", "hostSubnet": 24}]});
    for deselected in [true, false] {
        let mut world = World::new(ipv4(), &["n1"]);
        world.namespace("a", json!({"k8s.ovn.org/primary-user-defined-network": "", "team": "x"}));
        let by_team = json!({"matchLabels": {"team": "x"}});
        world.cudn("net", by_team, json!({"topology": "Layer3", "layer3": layer3}));
        world.pod("a/first", "n1");
        if deselected {
            world.change_namespace("a", &json!({"metadata": {"labels": {"team": null}}}));
        } else {
            world.delete(NAD, "a/net");
        }
        world.pod("a/second", "n1");
        assert_eq!(world.address("a/first", "a/net"), "10.50.0.3/24");
        assert_eq!(world.networks("a/second"), Value::Null);
        let why = if deselected {
            "does not select namespace a any more"
        } else {
            "its attachment is being deleted"
        };
        assert!(told(&world, why), "{:?}", world.said);
    }
}

/// A network that was deleted and created anew while nobody watched is another one: other numbers, other attachments.
#[test]
fn a_network_created_anew_in_a_gap_is_a_new_one() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.layer2("demo/net", &["10.0.0.0/24"]);
    let id = |world: &World| world.annotation(NAD, "demo/net", "k8s.ovn.org/network-id");
    assert_eq!(id(&world), 1);
    let uid = |world: &World| world.object(UDN, "demo/net")["metadata"]["uid"].clone();
    let before = uid(&world);
    let target = crate::world::target(UDN, "demo/net");
    world.objects.remove(&target);
    world.layer2("demo/net", &["10.7.0.0/24"]);
    assert_ne!(uid(&world), before);
    let nad = world.object(NAD, "demo/net");
    assert_eq!(nad["metadata"]["ownerReferences"][0]["uid"], uid(&world));
    assert!(nad["spec"]["config"].as_str().unwrap().contains("10.7.0.0/24"), "{nad}");
    assert_ne!(id(&world), 1, "the old number rests");
    assert!(world.udn_condition("demo/net", "NetworkReady").starts_with("True/"));
}

/// After a namespace is gone nothing is written for it any more, and one of the same name later is another one.
#[test]
fn a_namespace_that_is_gone_is_not_written_to() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.paused = true;
    world.layer2("demo/net", &["10.0.0.0/24"]);
    world.change(
        UDN,
        "demo/net",
        &json!({"metadata": {"finalizers": ["k8s.ovn.org/user-defined-network-protection"]}}),
    );
    assert!(world.held.iter().any(|request| request.target.kind == NAD), "{:?}", world.held);
    world.objects.remove(&crate::world::target(UDN, "demo/net"));
    world.delete_namespace("demo");
    assert_eq!(world.held, [], "nothing waits any more");
}

/// A network that is going when its namespace goes, by force, is let go all the same: what waits for that is asked for anew.
#[test]
fn what_is_going_goes_also_without_its_namespace() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.layer2("demo/net", &["10.0.0.0/24"]);
    let finalizer = "userdefinednetworks demo/net finalizer";
    world.failing = Some(finalizer.into());
    world.delete(UDN, "demo/net");
    assert!(!world.has_nad("demo/net"));
    assert!(!world.object(UDN, "demo/net").is_null(), "its finalizer could not be taken off");
    world.failing = None;
    world.delete_namespace("demo");
    assert_eq!(world.withdrawn, [finalizer]);
    assert!(world.object(UDN, "demo/net").is_null());
    world.tenant("demo");
    world.restart(|_| {});
    assert!(!world.has_nad("demo/net"), "the next namespace of that name is another one");
}

/// A NAD of our plugin that cannot be read but wants to be primary is in the way of a UserDefinedNetwork, which says so.
#[test]
fn a_malformed_primary_attachment_is_in_the_way() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    let config = json!({"type": "ovn-k8s-cni-overlay", "name": "hand", "topology": "layer2", "role": "primary",
                        "subnets": "10.9.0.0/24", "netAttachDefName": "elsewhere/other"});
    world.nad("demo/hand", &config.to_string());
    world.layer2("demo/net", &["10.0.0.0/24"]);
    let condition = |world: &World, name: &str| world.udn_condition("demo/net", name);
    let conflict = "primary network already exist in namespace \"demo\": \"hand\"";
    assert!(condition(&world, "NetworkReady").contains(conflict), "{}", condition(&world, "NetworkReady"));
    assert!(condition(&world, "NetworkAllocationSucceeded").starts_with("False/PrimaryNetworkConflict"));
    assert!(!world.has_nad("demo/net"));
    world.delete(NAD, "demo/hand");
    assert!(condition(&world, "NetworkReady").starts_with("True/"), "{}", condition(&world, "NetworkReady"));
    assert!(condition(&world, "NetworkAllocationSucceeded").starts_with("True/"));
}

/// A subnet with the address of a node itself is refused, until that node is gone; a network that runs stays.
#[test]
fn addresses_of_nodes_are_no_pod_subnets() {
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    let at = |address: &str| json!({"status": {"addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": "n"}]}});
    world.change(Kind::Node, "n1", &at("172.18.0.2"));
    world.tenant("a");
    world.tenant("b");
    world.layer2("a/net", &["172.18.0.0/16"]);
    let ready = |world: &World, path: &str| world.udn_condition(path, "NetworkReady");
    assert_eq!(
        ready(&world, "a/net"),
        "False/OverlappingSubnets subnet 172.18.0.0/16 has the address 172.18.0.2 of node n1 itself: use another subnet"
    );
    world.layer2("b/net", &["172.19.0.0/16"]);
    world.change(Kind::Node, "n2", &at("172.19.0.2"));
    world.restart(|_| {});
    assert!(ready(&world, "b/net").starts_with("True/"), "{}", ready(&world, "b/net"));
    world.delete(Kind::Node, "n1");
    assert!(ready(&world, "a/net").starts_with("True/"), "{}", ready(&world, "a/net"));
}

/// The end of a node's tunnels is an address of the node itself, also where its kubelet names another one: a subnet with it
/// is refused, until the node's record says something else.
#[test]
fn ends_of_tunnels_are_no_pod_subnets() {
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    let tunnel = |address: &str| {
        json!({"metadata": {"annotations": {
            "k8s.ovn.org/node-chassis-id": "c1",
            "k8s.ovn.org/node-encap-ips": json!([address]).to_string(),
        }}})
    };
    let kubelet = json!({"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}});
    world.change(Kind::Node, "n1", &kubelet);
    world.change(Kind::Node, "n1", &tunnel("172.18.0.2"));
    world.tenant("a");
    world.tenant("b");
    world.namespace("c", json!({}));
    world.layer2("a/net", &["172.18.0.0/16"]);
    world.layer2("b/net", &["172.19.0.0/16"]);
    let hand = json!({"type": "ovn-k8s-cni-overlay", "name": "hand", "topology": "layer2", "role": "secondary",
                      "subnets": "172.18.0.0/24", "netAttachDefName": "c/hand"});
    world.nad("c/hand", &hand.to_string());
    world.pod_with("c/early", "n2", json!({"k8s.v1.cni.cncf.io/networks": "hand"}));
    let ready = |world: &World, path: &str| world.udn_condition(path, "NetworkReady");
    let refused = "False/OverlappingSubnets subnet 172.18.0.0/16 has the address 172.18.0.2 of node n1 itself: use another subnet";
    assert_eq!(ready(&world, "a/net"), refused);
    assert!(!world.has_nad("a/net"));
    assert_eq!(world.networks("c/early"), Value::Null, "what is written by hand is judged alike");
    assert!(ready(&world, "b/net").starts_with("True/"), "{}", ready(&world, "b/net"));
    // The end moves into a network that runs, which stays, and out of what was refused.
    world.change(Kind::Node, "n1", &tunnel("172.19.0.2"));
    assert!(ready(&world, "a/net").starts_with("True/"), "{}", ready(&world, "a/net"));
    assert_ne!(world.networks("c/early"), Value::Null, "{:?}", world.said);
    world.restart(|_| {});
    assert!(ready(&world, "b/net").starts_with("True/"), "{}", ready(&world, "b/net"));
}

/// A NAD of another namespace gives a pod nothing, by hand or rendered, and the answer does not say whether it is there.
#[test]
fn a_nad_of_another_namespace_gives_nothing() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.namespace("victim", json!({}));
    world.namespace("mallory", json!({}));
    world.nad("victim/hand", &by_hand("hand", "secondary", "10.9.0.0/24"));
    for name in ["hand", "none"] {
        let pod = format!("mallory/{name}");
        world.pod_with(&pod, "n1", json!({"k8s.v1.cni.cncf.io/networks": format!("victim/{name}")}));
        assert_eq!(world.networks(&pod), Value::Null);
        let text = format!(
            "networks of namespace victim are for its own pods: pod {pod} cannot attach to victim/{name}"
        );
        assert!(told(&world, &text), "{:?}", world.said);
    }
}

/// Links of a connection must not have addresses of pods that their networks reach through another connection.
#[test]
fn links_are_apart_from_pods_beyond() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.island("a", "10.1.0.0/16", json!({"one": "x"}));
    world.island("b", "10.2.0.0/16", json!({"one": "x", "two": "x"}));
    world.island("c", "192.168.0.0/16", json!({"two": "x"}));
    world.connect("one", &[("192.168.0.0/16", 24)], json!([cudns(json!({"one": "x"}))]));
    assert!(world.accepted("one").starts_with("True/"), "{}", world.accepted("one"));
    world.connect("two", &[("192.169.0.0/16", 24)], json!([cudns(json!({"two": "x"}))]));
    let accepted = world.accepted("two");
    assert!(
        accepted.starts_with("False/ConnectSubnetConflict Connect subnet 192.168.0.0/16 conflicts with pod subnet 192.168.0.0/16"),
        "{accepted}"
    );
    assert!(world.accepted("one").starts_with("True/"), "who was there stays");
}
