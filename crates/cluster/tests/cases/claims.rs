//! Chassis ids and tunnel addresses: what a node says of itself is a claim, and nobody takes another's place.

use causeway_record::Kind;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{World, dual, ipv4};

const RECORD: &str = "k8s.ovn.org/node-chassis-record";

/// The annotations of a claim.
fn claim(chassis: &str, addresses: &[&str]) -> Value {
    json!({"metadata": {"annotations": {
        "k8s.ovn.org/node-chassis-id": chassis,
        "k8s.ovn.org/node-encap-ips": json!(addresses).to_string(),
    }}})
}

fn joins(world: &mut World, node: &str, chassis: &str, addresses: &[&str]) {
    world.node(node);
    world.change(Kind::Node, node, &claim(chassis, addresses));
}

/// Nodes `n1`… with the chassis `c1`… and the addresses `172.18.0.1`…
fn cluster(nodes: &[u8]) -> World {
    let mut world = World::new(ipv4(), &[]);
    for n in nodes {
        joins(&mut world, &format!("n{n}"), &format!("c{n}"), &[&format!("172.18.0.{n}")]);
    }
    world
}

/// The record of a node without its UID, which is checked.
fn record(world: &World, node: &str) -> Value {
    let mut record = world.annotation(Kind::Node, node, RECORD);
    if let Some(fields) = record.as_object_mut() {
        let uid = fields.remove("uid");
        assert_eq!(uid.as_ref(), Some(&world.object(Kind::Node, node)["metadata"]["uid"]));
    }
    record
}

fn place(chassis: &str, addresses: &[&str]) -> Value {
    json!({"chassis-id": chassis, "encap-ips": addresses})
}

fn without_refusals(mut record: Value) -> Value {
    if let Some(fields) = record.as_object_mut() {
        fields.remove("refused");
    }
    record
}

fn refusals(world: &World, node: &str) -> Vec<String> {
    let begin = format!("Node {node} ChassisClaimRefused: ");
    world.said.iter().filter_map(|line| line.strip_prefix(&begin)).map(str::to_owned).collect()
}

#[test]
fn a_claim_that_nobody_disputes_is_recorded() {
    let mut world = World::new(dual(), &[]);
    joins(&mut world, "n1", "c1", &["172.18.0.1", "fc00::1"]);
    assert_eq!(record(&world, "n1"), place("c1", &["172.18.0.1", "fc00::1"]));
    // A node may get another address, and another chassis when it was installed again.
    world.change(Kind::Node, "n1", &claim("c9", &["172.18.0.9"]));
    assert_eq!(record(&world, "n1"), place("c9", &["172.18.0.9"]));
    world.restart(|_| {});
    assert_eq!((world.writes.len(), refusals(&world, "n1").len()), (0, 0), "{:?}", world.writes);
}

/// The attack: each node claims each other's chassis, addresses or both, whatever the order of names and ids.
#[test]
fn nobody_takes_another_nodes_place() {
    for joined in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
        let mut world = cluster(&joined);
        let names = ["n1", "n2", "n3"];
        let before = names.map(|name| record(&world, name));
        for (liar, victim) in [(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)] {
            let (name, its, lie) =
                (format!("n{liar}"), format!("172.18.0.{liar}"), format!("172.18.0.{victim}"));
            let (own, stolen) = (format!("c{liar}"), format!("c{victim}"));
            for (chassis, addresses, kept) in [
                (&stolen, vec![its.as_str()], vec![its.as_str()]),
                (&own, vec![lie.as_str()], vec![its.as_str()]),
                (&stolen, vec![lie.as_str()], vec![its.as_str()]),
                (&own, vec![its.as_str(), lie.as_str()], vec![its.as_str()]),
            ] {
                world.change(Kind::Node, &name, &claim(chassis, &addresses));
                assert_eq!(without_refusals(record(&world, &name)), place(&own, &kept));
                let refused = record(&world, &name)["refused"].clone();
                assert!(refused.to_string().contains(&format!("belongs to node n{victim}")), "{refused}");
                let all = names.map(|name| without_refusals(record(&world, name)));
                assert_eq!(all, before);
                // It is said in an event once: the next manager is silent.
                world.restart(|objects| objects.reverse());
                assert_eq!((world.writes.len(), refusals(&world, &name).len()), (0, 0));
            }
            world.change(Kind::Node, &name, &claim(&own, &[its.as_str()]));
            assert_eq!(names.map(|name| record(&world, name)), before);
        }
    }
}

/// A node that was installed again under a new name waits for the old Node to go; the message says so.
#[test]
fn a_reinstalled_node_gets_its_place_when_the_old_node_is_gone() {
    let mut world = cluster(&[1, 2]);
    joins(&mut world, "new", "c-new", &["172.18.0.2"]);
    assert_eq!(without_refusals(record(&world, "new")), json!({"chassis-id": "c-new"}));
    let said = refusals(&world, "new").join("\n");
    assert!(said.contains("if n2 was installed again as new, delete the Node n2"), "{said}");
    world.delete(Kind::Node, "n2");
    assert_eq!(record(&world, "new"), place("c-new", &["172.18.0.2"]));
}

/// The same name is not the same Node.
#[test]
fn another_node_of_the_same_name_has_nothing_of_the_former() {
    let mut world = cluster(&[1, 2]);
    joins(&mut world, "n3", "c3", &["172.18.0.2"]);
    assert_eq!(without_refusals(record(&world, "n3")), json!({"chassis-id": "c3"}));
    // It was deleted and made anew while nobody watched: there is only the new one, which waits behind n3.
    world.put(json!({"kind": "Node", "metadata": {"name": "n2", "uid": "again"}, "spec": {}}));
    assert_eq!(record(&world, "n3"), place("c3", &["172.18.0.2"]));
    world.change(Kind::Node, "n2", &claim("c2", &["172.18.0.2"]));
    assert_eq!(without_refusals(record(&world, "n2")), json!({"chassis-id": "c2"}));
}

/// Two nodes exchange their addresses, one after the other.
#[test]
fn what_a_node_names_no_longer_is_free() {
    let mut world = cluster(&[1, 2]);
    world.change(Kind::Node, "n1", &claim("c1", &["172.18.0.2"]));
    assert_eq!(without_refusals(record(&world, "n1")), place("c1", &["172.18.0.1"]));
    world.change(Kind::Node, "n2", &claim("c2", &["172.18.0.1"]));
    assert_eq!(record(&world, "n1"), place("c1", &["172.18.0.2"]));
    assert_eq!(record(&world, "n2"), place("c2", &["172.18.0.1"]));
}

/// Zones never see one thing in two records: who gives it up is written before who gets it.
#[test]
fn a_thing_moves_only_after_its_former_record_is_written() {
    let mut world = cluster(&[1, 2]);
    world.paused = true;
    world.change(Kind::Node, "n2", &claim("c2", &["172.18.0.9"]));
    world.change(Kind::Node, "n1", &claim("c1", &["172.18.0.2"]));
    assert!(world.held.iter().all(|request| request.target.name == "n2"), "{:?}", world.held);
    world.paused = false;
    world.resume();
    assert_eq!(record(&world, "n1"), place("c1", &["172.18.0.2"]));
    assert_eq!(record(&world, "n2"), place("c2", &["172.18.0.9"]));
    assert_eq!(refusals(&world, "n1"), [""; 0]);
}

/// Where nothing was ever recorded, the older Node has it, whatever the names; where something was, that counts alone.
#[test]
fn at_the_first_look_the_older_node_wins() {
    for (older, younger) in [("a", "z"), ("z", "a")] {
        let mut world = World::empty(ipv4());
        for (name, second) in [(older, 1), (younger, 2)] {
            let mut node = claim("c", &["172.18.0.1"]);
            node["kind"] = "Node".into();
            node["spec"] = json!({});
            node["metadata"]["name"] = name.into();
            node["metadata"]["creationTimestamp"] = format!("1970-01-01T00:00:0{second}Z").into();
            world.put(node);
        }
        world.restart(|objects| objects.reverse());
        assert_eq!(record(&world, older), place("c", &["172.18.0.1"]));
        assert_eq!(refusals(&world, younger).len(), 2, "{:?}", world.said);
        assert_eq!(refusals(&world, older).len(), 0, "{:?}", world.said);
        // The holder is made older than the incumbent: nothing changes.
        let before = [older, younger].map(|name| record(&world, name));
        world.objects.values_mut().filter(|object| object["metadata"]["name"] == younger).for_each(
            |object| {
                object["metadata"]["creationTimestamp"] = "1970-01-01T00:00:00Z".into();
            },
        );
        world.restart(|_| {});
        assert_eq!([older, younger].map(|name| record(&world, name)), before);
    }
}

/// What cannot be a tunnel's end, what is somebody's InternalIP, and what is too much.
#[test]
fn claims_must_be_plausible() {
    let mut world = cluster(&[1]);
    world.node("n2");
    let address = json!({"status": {"addresses": [
        {"type": "InternalIP", "address": "172.18.0.2"}, {"type": "Hostname", "address": "n2"}]}});
    world.change(Kind::Node, "n2", &address);
    let many: Vec<String> = (0..9).map(|n| format!("172.19.0.{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (addresses, because) in [
        (&["127.0.0.1"][..], "cannot be an address of a tunnel"),
        (&["ff02::1"], "cannot be an address of a tunnel"),
        (&["10.244.3.4"], "is in 10.244.0.0/16"),
        (&["172.18.0.2"], "is an address of node n2"),
        (&many, "9 tunnel addresses are too many"),
    ] {
        world.said.clear();
        world.change(Kind::Node, "n1", &claim("c1", addresses));
        assert_eq!(without_refusals(record(&world, "n1")), place("c1", &["172.18.0.1"]), "{addresses:?}");
        let said = refusals(&world, "n1").join("\n");
        assert!(said.contains(because), "{addresses:?}: {said}");
    }
    world.change(
        Kind::Node,
        "n1",
        &json!({"metadata": {"annotations": {"k8s.ovn.org/node-encap-ips": "{"}}}),
    );
    assert_eq!(without_refusals(record(&world, "n1")), place("c1", &["172.18.0.1"]));
    // A kubelet's word takes nothing away from anybody.
    world.change(Kind::Node, "n1", &claim("c1", &["172.18.0.1"]));
    let lie = json!({"status": {"addresses": [{"type": "InternalIP", "address": "172.18.0.1"}]}});
    world.change(Kind::Node, "n2", &lie);
    world.restart(|_| {});
    assert_eq!(record(&world, "n1"), place("c1", &["172.18.0.1"]));
}

fn named(address: &str) -> Value {
    json!({"status": {"addresses": [{"type": "InternalIP", "address": address}]}})
}

/// A race for a new node's address: the liar's kubelet names it too, and his claim comes first. Nobody gets it while both name it.
#[test]
fn a_kubelet_cannot_confirm_its_own_nodes_lie() {
    for liar in ["n1", "n9"] {
        let mut world = World::new(ipv4(), &[]);
        joins(&mut world, liar, "c-liar", &["172.18.0.7"]);
        world.node("n2");
        world.change(Kind::Node, "n2", &named("172.18.0.2"));
        world.change(Kind::Node, liar, &named("172.18.0.2"));
        world.change(Kind::Node, liar, &claim("c-liar", &["172.18.0.2"]));
        assert_eq!(without_refusals(record(&world, liar))["encap-ips"], json!(["172.18.0.7"]));
        let said = refusals(&world, liar).join("\n");
        assert!(said.contains("172.18.0.2 is an address of node n2, too"), "{said}");
        world.change(Kind::Node, "n2", &claim("c2", &["172.18.0.2"]));
        assert_eq!(record(&world, "n2")["encap-ips"], Value::Null, "both name it");
        world.delete(Kind::Node, liar);
        assert_eq!(record(&world, "n2")["encap-ips"], json!(["172.18.0.2"]));
    }
}

/// A node that was installed again under a new name has the old one's address by both kubelets' account, until the old Node is deleted;
/// two that exchange their addresses have both for a moment.
#[test]
fn a_reinstalled_node_whose_kubelet_names_its_address_heals() {
    let mut world = cluster(&[1]);
    world.change(Kind::Node, "n1", &named("172.18.0.1"));
    world.node("new");
    world.change(Kind::Node, "new", &named("172.18.0.1"));
    world.change(Kind::Node, "new", &claim("c-new", &["172.18.0.1"]));
    assert_eq!(record(&world, "new")["encap-ips"], Value::Null);
    assert!(refusals(&world, "new").join("\n").contains("delete the Node n1"));
    world.delete(Kind::Node, "n1");
    assert_eq!(record(&world, "new")["encap-ips"], json!(["172.18.0.1"]));
    joins(&mut world, "n2", "c2", &["172.18.0.2"]);
    world.change(Kind::Node, "n2", &named("172.18.0.1"));
    world.change(Kind::Node, "n2", &claim("c2", &["172.18.0.1"]));
    world.change(Kind::Node, "new", &named("172.18.0.2"));
    world.change(Kind::Node, "new", &claim("c-new", &["172.18.0.2"]));
    assert_eq!(record(&world, "n2")["encap-ips"], json!(["172.18.0.1"]));
    assert_eq!(record(&world, "new")["encap-ips"], json!(["172.18.0.2"]));
}

#[derive(Clone, Debug)]
enum Move {
    Claim(usize, usize, Vec<usize>),
    Recreate(usize),
    Restart,
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        6 => (0..4usize, 0..4usize, prop::collection::vec(0..4usize, 0..3))
            .prop_map(|(node, chassis, addresses)| Move::Claim(node, chassis, addresses)),
        1 => (0..4usize).prop_map(Move::Recreate),
        1 => Just(Move::Restart),
    ]
}

proptest! {
    /// After any history: nothing is in two records; who has something and still claims it keeps it; what somebody claims
    /// and nobody else has, he has.
    #[test]
    fn everything_belongs_to_one_node(history in prop::collection::vec(moves(), 1..30)) {
        let mut world = cluster(&[]);
        let names = ["n0", "n1", "n2", "n3"];
        names.iter().for_each(|name| world.node(name));
        for step in history {
            let before: Vec<(usize, String)> = held(&world, &names);
            let kept = match step {
                Move::Claim(node, chassis, addresses) => {
                    let addresses: Vec<String> = addresses.iter().map(|n| format!("172.18.0.{n}")).collect();
                    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
                    world.change(Kind::Node, names[node], &claim(&format!("c{chassis}"), &addresses));
                    usize::MAX
                }
                Move::Recreate(node) => {
                    world.delete(Kind::Node, names[node]);
                    world.node(names[node]);
                    node
                }
                Move::Restart => {
                    world.restart(|objects| objects.reverse());
                    assert_eq!(world.writes.len(), 0, "{:?}", world.writes);
                    usize::MAX
                }
            };
            let (after, claimed) = (held(&world, &names), claimed(&world, &names));
            let mut things: Vec<&String> = after.iter().map(|(_, thing)| thing).collect();
            things.sort();
            let all = things.len();
            things.dedup();
            prop_assert_eq!(things.len(), all, "twice: {:?}", after);
            for pair in before.iter().filter(|pair| claimed.contains(pair) && pair.0 != kept) {
                prop_assert!(after.contains(pair), "{:?} lost {:?}", pair, after);
            }
            for (node, thing) in &claimed {
                prop_assert!(things.contains(&thing), "nobody has {} of n{}: {:?}", thing, node, after);
            }
        }
    }
}

fn things(place: &Value) -> Vec<String> {
    let addresses = place["encap-ips"].as_array().cloned().unwrap_or_default();
    let all = addresses.into_iter().chain([place["chassis-id"].clone()]);
    all.filter_map(|thing| thing.as_str().map(str::to_owned)).collect()
}

fn held(world: &World, names: &[&str]) -> Vec<(usize, String)> {
    let of =
        |(n, name): (usize, &&str)| things(&record(world, name)).into_iter().map(move |thing| (n, thing));
    names.iter().enumerate().flat_map(of).collect()
}

fn claimed(world: &World, names: &[&str]) -> Vec<(usize, String)> {
    let of = |(n, name): (usize, &&str)| {
        let says = |key: &str| world.annotation(Kind::Node, name, key);
        let (chassis, addresses) = (says("k8s.ovn.org/node-chassis-id"), says("k8s.ovn.org/node-encap-ips"));
        let place = json!({"chassis-id": chassis, "encap-ips": addresses});
        things(&place).into_iter().map(move |thing| (n, thing))
    };
    names.iter().enumerate().flat_map(of).collect()
}
