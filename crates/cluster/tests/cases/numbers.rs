//! F, G: ids, keys, and what follows from them.

use causeway_alloc::Epoch;
use causeway_record::Kind;
use serde_json::{Value, json};

use crate::world::{World, config, dual, ipv4};

const NAD: Kind = Kind::NetworkAttachmentDefinition;
const UDN: Kind = Kind::UserDefinedNetwork;

fn id(world: &World, path: &str) -> Value {
    world.annotation(NAD, path, "k8s.ovn.org/network-id")
}

fn networks(world: &mut World, count: usize) {
    for number in 0..count {
        let namespace = format!("t{number}");
        world.tenant(&namespace);
        world.layer2(&format!("{namespace}/net"), &["10.0.0.0/24"]);
    }
}

/// F001, F002: numbers in turn; one that was freed rests.
#[test]
fn f001_f002_ids_in_turn() {
    let mut world = World::new(ipv4(), &["n1"]);
    networks(&mut world, 3);
    assert_eq!([id(&world, "t0/net"), id(&world, "t1/net"), id(&world, "t2/net")], [1, 2, 3]);
    world.delete(UDN, "t1/net");
    world.tenant("t3");
    world.layer2("t3/net", &["10.0.0.0/24"]);
    assert_eq!(id(&world, "t3/net"), 4);
}

/// F004, F005, F007, F013: ids and keys survive a restart; of two networks with one id, the older keeps it; an id that
/// cannot be read is replaced.
#[test]
fn f004_f005_f007_f013_restart() {
    let mut world = World::new(ipv4(), &["n1"]);
    networks(&mut world, 4);
    let annotate = |world: &mut World, path: &str, id: &str| {
        world.paused = true;
        world.change(NAD, path, &json!({"metadata": {"annotations": {"k8s.ovn.org/network-id": id}}}));
        world.held.clear();
        world.paused = false;
    };
    annotate(&mut world, "t0/net", "5");
    annotate(&mut world, "t1/net", "9");
    annotate(&mut world, "t2/net", "5");
    annotate(&mut world, "t3/net", "abc");
    world.put(json!({"kind": "ClusterNetworkConnect", "metadata": {"name": "c", "annotations": {"k8s.ovn.org/connect-router-tunnel-key": "16715783"}},
        "spec": {"networkSelectors": [], "connectSubnets": [], "connectivityEnabled": []}}));
    let key = |world: &World| world.annotation(NAD, "t0/net", "k8s.ovn.org/tunnel-keys")[1].clone();
    let before = key(&world);
    world.restart(|_| {});
    assert_eq!([id(&world, "t0/net"), id(&world, "t1/net")], [5, 9]);
    let replaced = [id(&world, "t2/net"), id(&world, "t3/net")];
    assert!(replaced.iter().all(|id| id.is_u64() && *id != 5 && *id != 9), "{replaced:?}");
    assert_eq!(key(&world), before);
    world.tenant("new");
    world.layer2("new/net", &["10.0.0.0/24"]);
    let keys = world.annotation(NAD, "new/net", "k8s.ovn.org/tunnel-keys");
    assert_eq!(keys[1], 16_715_784_u32, "not the connection's");
}

/// F008: the last number is gone, which is said, and comes back when all zones have cleared it.
#[test]
fn f008_ids_run_out() {
    let mut world = World::new(ipv4(), &["n1"]);
    let reuse = (2..=4095).map(|id| (id, Epoch(7))).collect();
    let mut memory = causeway_alloc::Reuse { epoch: Epoch(7), ..Default::default() };
    memory.network_ids.quarantined = reuse;
    world.put(
        json!({"kind": "ConfigMap", "metadata": {"namespace": "causeway", "name": "causeway-freed-numbers"},
                     "data": {"reuse": serde_json::to_string(&memory).unwrap()}}),
    );
    world.restart(|_| {});
    networks(&mut world, 2);
    assert_eq!(id(&world, "t0/net"), 1);
    assert_eq!(
        world.udn_condition("t1/net", "NetworkReady"),
        "False/NetworkNumbersExhausted network t1_net gets no number: network ids exhausted: 1 in use and 4094 waiting for nodes to \
         confirm that they are gone; delete what is not needed"
    );
    world.put(json!({"kind": "ZoneReport", "metadata": {"name": "n1"}, "spec": {"epoch": 6}}));
    assert!(!world.has_nad("t1/net"), "not these");
    world.change(Kind::ZoneReport, "n1", &json!({"spec": {"epoch": 7}}));
    assert_eq!(id(&world, "t1/net"), 2);
}

/// F010: the keys of a primary layer2 network.
#[test]
fn f010_tunnel_keys() {
    let mut world = World::new(ipv4(), &["n1"]);
    networks(&mut world, 54);
    assert_eq!(world.annotation(NAD, "t53/net", "k8s.ovn.org/tunnel-keys"), json!([16_711_737, 16_715_832]));
}

/// F014, F017, F019, F022, F023, F016: nodes.
#[test]
fn f014_f016_f017_f019_f022_f023_nodes() {
    let mut world = World::new(dual(), &["n1", "n2", "n3"]);
    let annotations =
        |world: &World, node: &str| world.object(Kind::Node, node)["metadata"]["annotations"].clone();
    assert_eq!(
        annotations(&world, "n3"),
        json!({
            "k8s.ovn.org/node-id": "4",
            "k8s.ovn.org/node-subnets": r#"{"default":["10.244.2.0/24","fd00:10:244:2::/64"]}"#,
            "k8s.ovn.org/node-transit-switch-port-ifaddr": r#"{"ipv4":"100.88.0.4/16","ipv6":"fd97::4/64"}"#,
            "k8s.ovn.org/node-transit-peer-ports-subnet": r#"{"ipv4":"100.88.0.12/30","ipv6":"fd97::8/127"}"#,
        })
    );
    let peers = |node: &str| annotations(&world, node)["k8s.ovn.org/node-transit-peer-ports-subnet"].clone();
    assert_eq!(peers("n1"), r#"{"ipv4":"100.88.0.4/30","ipv6":"fd97::4/127"}"#);
    assert_eq!(peers("n2"), r#"{"ipv4":"100.88.0.8/30","ipv6":"fd97::6/127"}"#);
    let before = annotations(&world, "n2");
    world.change(Kind::Node, "n2", &json!({"metadata": {"annotations": null}}));
    assert_eq!(annotations(&world, "n2"), before, "what was deleted by hand is written again");
    world.delete(Kind::Node, "n1");
    world.node("n4");
    assert_eq!(annotations(&world, "n4")["k8s.ovn.org/node-id"], "2", "the lowest free id");
    let single = World::new(ipv4(), &["n1"]);
    assert_eq!(
        single.annotation(Kind::Node, "n1", "k8s.ovn.org/node-transit-switch-port-ifaddr"),
        json!({"ipv4": "100.88.0.2/16"})
    );
}

/// F028: a join subnet without an address for every node is refused when it is written.
#[test]
fn f028_a_join_subnet_that_is_too_small() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    let layer2 = json!({"role": "Primary", "subnets": ["10.0.0.0/24"], "joinSubnets": ["100.70.0.0/24"]});
    world.udn("demo/net", json!({"topology": "Layer2", "layer2": layer2}));
    assert!(world.udn_condition("demo/net", "NetworkReady").starts_with("False/JoinSubnetTooSmall"));
}

/// G001, G011, G013: parts are counted by node id; two nodes with one id are told apart by age.
#[test]
fn g001_g011_g013_host_subnets() {
    let mut world = World::new(ipv4(), &["n1", "n2", "n3"]);
    world.tenant("demo");
    let two = json!([{"cidr": "10.1.0.0/24", "hostSubnet": 25}, {"cidr": "10.2.0.0/24", "hostSubnet": 25}]);
    world.udn("demo/net", json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": two}}));
    for node in ["n1", "n2", "n3"] {
        world.pod(&format!("demo/{node}"), node);
    }
    let addresses: Vec<Value> =
        ["n1", "n2", "n3"].map(|node| world.address(&format!("demo/{node}"), "demo/net")).into();
    assert_eq!(addresses, ["10.1.0.3/25", "10.1.0.131/25", "10.2.0.3/25"]);
    world.paused = true;
    world.change(Kind::Node, "n3", &json!({"metadata": {"annotations": {"k8s.ovn.org/node-id": "3"}}}));
    world.held.clear();
    world.paused = false;
    world.restart(|_| {});
    let node_id = |node: &str| world.annotation(Kind::Node, node, "k8s.ovn.org/node-id");
    assert_eq!([node_id("n2"), node_id("n3")], [3, 4]);
}

/// G001, G008: one node too many gets nothing of any family.
#[test]
fn g008_all_families_or_none() {
    let mut world = World::new(
        config(&[("10.244.0.0/16", 24), ("fd00:10:244::/63", 64)], &["10.96.0.0/16"]),
        &["n1", "n2", "n3"],
    );
    assert_eq!(world.annotation(Kind::Node, "n3", "k8s.ovn.org/node-subnets"), Value::Null);
    assert!(world.said[0].contains("no IPv6 host subnet is left for node id 4"), "{:?}", world.said);
    world.namespace("plain", json!({}));
    world.pod("plain/pod", "n3");
    assert_eq!(world.networks("plain/pod"), Value::Null);
}

/// Numbers of a network are recorded as freed before its attachment goes, and rest until every node has cleared them.
#[test]
fn numbers_rest_until_every_node_has_cleared_them() {
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    networks(&mut world, 1);
    world.failing = Some("configmaps".into());
    world.delete(UDN, "t0/net");
    assert!(world.has_nad("t0/net"), "nothing goes before the record is written");
    world.failing = None;
    world.restart(|_| {});
    assert!(!world.has_nad("t0/net"));
    let reuse = world.reuse();
    assert_eq!(reuse.epoch, Epoch(1));
    assert_eq!(reuse.network_ids.quarantined.into_iter().collect::<Vec<_>>(), [(1, Epoch(1))]);
    assert_eq!(reuse.tunnel_keys.quarantined.into_iter().collect::<Vec<_>>(), [(16_715_779, Epoch(1))]);
    for node in ["n1", "n2"] {
        world.put(json!({"kind": "ZoneReport", "metadata": {"name": node}, "spec": {"epoch": 1}}));
    }
    world.restart(|_| {});
    networks(&mut world, 1);
    assert_eq!(id(&world, "t0/net"), 2, "in turn all the same");
}

/// What one zone cannot let go of holds back itself, and nothing that was freed later.
#[test]
fn a_number_that_is_still_in_use_holds_back_itself_alone() {
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    networks(&mut world, 3);
    for path in ["t0/net", "t1/net", "t2/net"] {
        world.delete(UDN, path);
    }
    epochs(&mut world, "n1", 3);
    world.report("n2", json!({"epoch": 3, "heldEpochs": [1]}));
    assert_eq!(rests(&world), (vec![1], vec![]));
    world.restart(|_| {});
    assert_eq!(rests(&world), (vec![1], vec![]));
    world.report("n1", json!({"epoch": 3, "heldEpochs": [3]}));
    assert_eq!(rests(&world), (vec![1], vec![]), "what has gone everywhere was said to be gone");
    epochs(&mut world, "n2", 3);
    assert_eq!(rests(&world), (vec![], vec![]));
}

/// A node that comes back and still has something of what was freed is not listened to, whatever it has cleared since.
#[test]
fn a_node_that_was_away_is_listened_to_when_it_has_cleared_everything() {
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    networks(&mut world, 2);
    world.delete(UDN, "t0/net");
    unheard(&mut world, "n2", "Unknown");
    epochs(&mut world, "n1", 1);
    world.tick(0);
    world.tick(600_000);
    assert_eq!((rests(&world), world.reuse().epoch), ((vec![1], vec!["n2".into()]), Epoch(2)));
    world.report("n2", json!({"epoch": 2, "heldEpochs": [1]}));
    assert_eq!(rests(&world), (vec![1], vec!["n2".into()]));
    world.report("n1", json!({"epoch": 2, "heldEpochs": [2]}));
    assert_eq!(rests(&world), (vec![1], vec!["n2".into()]), "n1 still listens to it");
    epochs(&mut world, "n1", 2);
    assert_eq!(rests(&world), (vec![], vec!["n2".into()]));
    epochs(&mut world, "n2", 2);
    assert_eq!(rests(&world), (vec![], vec![]));
}

fn unheard(world: &mut World, node: &str, status: &str) {
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    world.change(Kind::Node, node, &ready);
}

fn epochs(world: &mut World, node: &str, epoch: u64) {
    world.report(node, json!({"epoch": epoch}));
}

/// What rests, and who is away.
fn rests(world: &World) -> (Vec<u32>, Vec<String>) {
    let record = world.reuse();
    let away = record.away.keys().map(ToString::to_string).collect();
    (record.network_ids.quarantined.into_keys().collect(), away)
}

/// A node that is away for long is fenced: when all others have stopped listening to it, numbers no longer wait for it. It is
/// listened to again when it has cleared what was freed meanwhile. Another manager in between changes nothing.
#[test]
fn a_node_that_is_away_freezes_nothing_for_ever() {
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    networks(&mut world, 2);
    unheard(&mut world, "n2", "Unknown");
    world.delete(UDN, "t0/net");
    epochs(&mut world, "n1", 1);
    world.tick(599_000);
    assert_eq!(rests(&world), (vec![1], vec![]), "it may come back");
    world.tick(600_000);
    assert_eq!((rests(&world), world.reuse().epoch), ((vec![1], vec!["n2".into()]), Epoch(2)));
    world.restart(|_| {});
    assert_eq!(rests(&world), (vec![1], vec!["n2".into()]), "n1 may still listen to it");
    epochs(&mut world, "n1", 2);
    assert_eq!(rests(&world), (vec![], vec!["n2".into()]));
    unheard(&mut world, "n2", "True");
    assert_eq!(rests(&world), (vec![], vec!["n2".into()]), "being there is not enough");
    epochs(&mut world, "n2", 1);
    assert_eq!(rests(&world), (vec![], vec!["n2".into()]));
    epochs(&mut world, "n2", 2);
    assert_eq!(rests(&world), (vec![], vec![]));
    world.tick(99_999_000_000);
    assert_eq!(rests(&world), (vec![], vec![]), "a node that has cleared everything is in nobody's way");
}

/// A node whose kubelet lives and whose zone does not, or that keeps its report as it is, freezes nothing for ever either. It is said
/// after a minute, once; a node that is not Ready is fenced as one that is not heard of, one that is Ready later.
#[test]
fn a_node_that_lives_and_says_nothing_freezes_nothing_for_ever() {
    for (status, fenced_at) in [("False", 600_000), ("True", 3_600_000)] {
        let mut world = World::new(ipv4(), &["n1", "n2"]);
        networks(&mut world, 2);
        unheard(&mut world, "n2", status);
        world.delete(UDN, "t0/net");
        epochs(&mut world, "n1", 1);
        world.tick(0);
        let told = |world: &World| {
            world.said.iter().filter(|said| said.starts_with("Node n2 FreedNumbersWait: ")).count()
        };
        world.tick(59_000);
        assert_eq!(told(&world), 0, "{:?}", world.said);
        world.tick(60_000);
        world.tick(61_000);
        assert_eq!(told(&world), 1, "{:?}", world.said);
        assert!(world.said.iter().all(|said| !said.starts_with("Node n1 ")), "{:?}", world.said);
        world.tick(fenced_at - 1_000);
        assert_eq!(rests(&world), (vec![1], vec![]), "{status}");
        world.tick(fenced_at);
        assert_eq!(rests(&world), (vec![1], vec!["n2".into()]), "{status}");
        epochs(&mut world, "n1", 2);
        assert_eq!(rests(&world), (vec![], vec!["n2".into()]), "{status}");
        epochs(&mut world, "n2", 2);
        assert_eq!(rests(&world), (vec![], vec![]), "{status}");
    }
}

/// What zones say that they hold waits with them; nobody is cut off for what others hold, too. Who alone holds something is, after an
/// hour of that.
#[test]
fn only_who_holds_something_alone_is_fenced_for_it() {
    let mut world = World::new(ipv4(), &["n1", "n2", "n3"]);
    networks(&mut world, 3);
    world.delete(UDN, "t0/net");
    world.delete(UDN, "t1/net");
    let holds = |world: &mut World, node: &str, held: &[u64]| {
        world.report(node, json!({"epoch": 2, "heldEpochs": held}));
    };
    let told = |world: &World, node: &str, words: &str| {
        let words = format!(
            "Node {node} FreedNumbersWait: the zone of node {node} says for 60 s that it still has numbers of \
                             networks that are gone{words}"
        );
        world.said.iter().filter(|said| said.starts_with(&words)).count()
    };
    epochs(&mut world, "n3", 2);
    for node in ["n1", "n2"] {
        holds(&mut world, node, &[2]);
    }
    world.tick(0);
    world.tick(60_000);
    assert_eq!(
        [told(&world, "n1", ", as others do"), told(&world, "n2", ", as others do")],
        [1, 1],
        "{:?}",
        world.said
    );
    world.tick(9_000_000);
    assert_eq!(rests(&world), (vec![2], vec![]), "one failing road cuts nobody off");
    epochs(&mut world, "n2", 2);
    world.tick(9_000_000);
    world.tick(12_599_000);
    assert_eq!(rests(&world), (vec![2], vec![]), "n1 is the last one only since then");
    world.tick(12_600_000);
    assert_eq!(rests(&world), (vec![2], vec!["n1".into()]));

    // An old epoch is held as a new one is; and whoever says now this and now nothing gains nothing.
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    networks(&mut world, 3);
    world.delete(UDN, "t0/net");
    world.delete(UDN, "t1/net");
    epochs(&mut world, "n1", 2);
    holds(&mut world, "n2", &[1]);
    world.tick(0);
    world.tick(60_000);
    assert_eq!(told(&world, "n2", " everywhere else"), 1, "{:?}", world.said);
    epochs(&mut world, "n2", 0);
    world.tick(1_800_000);
    holds(&mut world, "n2", &[1]);
    world.tick(3_599_000);
    assert_eq!(rests(&world).1, [""; 0]);
    world.tick(3_600_000);
    assert_eq!(rests(&world).1, ["n2"]);
}

/// A Node that is deleted may still run: numbers wait until nobody listens to it any more, and for nothing else.
#[test]
fn a_deleted_node_is_waited_for_until_nobody_listens_to_it() {
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    networks(&mut world, 1);
    world.delete(UDN, "t0/net");
    epochs(&mut world, "n1", 1);
    world.delete(Kind::Node, "n2");
    assert_eq!(rests(&world), (vec![1], vec!["n2".into()]));
    epochs(&mut world, "n1", 2);
    assert_eq!(rests(&world), (vec![], vec![]));
}

fn second(world: &mut World, path: &str) {
    world.udn(
        path,
        json!({"topology": "Layer2", "layer2": {"role": "Secondary", "ipam": {"mode": "Disabled"}}}),
    );
}

/// Twenty networks a minute: the next one waits and is told why, and nobody else waits with it.
#[test]
fn new_networks_of_a_namespace_come_one_after_the_other() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tick(1000);
    ["mallory", "other"].iter().for_each(|name| world.namespace(name, json!({})));
    (0..22).for_each(|number| second(&mut world, &format!("mallory/n{number:02}")));
    assert_eq!(id(&world, "mallory/n19"), 20);
    assert_eq!(
        world.udn_condition("mallory/n20", "NetworkReady"),
        "False/TooManyNewNetworks namespace mallory has got 20 new networks within a minute: the next one follows in a few seconds"
    );
    let hand =
        json!({"type": "ovn-k8s-cni-overlay", "name": "hand", "topology": "layer2", "role": "secondary"});
    world.nad("mallory/hand", &hand.to_string());
    assert_eq!(id(&world, "mallory/hand"), Value::Null);
    second(&mut world, "other/net");
    assert_eq!(id(&world, "other/net"), 21);
    world.tick(4000);
    assert_eq!([id(&world, "mallory/n20"), id(&world, "mallory/n21")], [json!(22), Value::Null]);
    world.tick(10_000);
    assert_eq!([id(&world, "mallory/hand"), id(&world, "mallory/n21")], [23, 24]);
}

/// Numbers that rest count for the namespace that has freed them, also after a restart: churn cannot use up everybody's.
#[test]
fn churn_uses_up_what_the_namespace_may_have() {
    let mut world = World::new(ipv4(), &["n1"]);
    ["mallory", "other"].iter().for_each(|name| world.namespace(name, json!({})));
    for number in 0..256_i64 {
        world.tick(number * 3_000);
        second(&mut world, "mallory/net");
        assert_eq!(id(&world, "mallory/net"), number + 1);
        world.delete(UDN, "mallory/net");
    }
    world.restart(|_| {});
    second(&mut world, "mallory/net");
    assert_eq!(
        world.udn_condition("mallory/net", "NetworkReady"),
        "False/TooManyNetworks namespace mallory has 0 networks, and 256 more are deleted but not yet gone from every node: 256 at \
         most; delete what is not needed"
    );
    second(&mut world, "other/net");
    assert_eq!(id(&world, "other/net"), 257);
    epochs(&mut world, "n1", 256);
    world.tick(99_000_001);
    assert_eq!(id(&world, "mallory/net"), 258);
}
