//! How much room networks have, as their status says it.

use causeway_record::Kind;
use serde_json::{Value, json};

use crate::siblings::{CUDN, REQUEST, UDN, fill};
use crate::world::{World, dual, ipv4};

fn addresses(world: &World, path: &str) -> Value {
    let kind = if path.contains('/') { UDN } else { CUDN };
    world.object(kind, path)["status"]["addresses"].clone()
}

/// How many addresses are in use is written at most once in a second, however many pods come, and is true then.
#[test]
fn networks_say_how_much_room_they_have() {
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    world.tenant("demo");
    world.layer2("demo/flat", &["10.0.0.0/24"]);
    world.layer3("demo/wide", "10.1.0.0/22", 24);
    assert_eq!(
        (addresses(&world, "demo/flat"), addresses(&world, "demo/wide")),
        (json!("0/252"), json!("0/1008"))
    );
    world.second();
    world.writes.clear();
    fill(&mut world, 0, 20);
    world.pod_with("demo/other", "n2", json!({REQUEST: "wide"}));
    let statuses = |world: &World| world.writes.iter().filter(|write| write.contains(" status")).count();
    assert_eq!(statuses(&world), 0, "{:?}", world.writes);
    world.second();
    assert_eq!(statuses(&world), 2, "{:?}", world.writes);
    assert_eq!(
        (addresses(&world, "demo/flat"), addresses(&world, "demo/wide")),
        (json!("20/252"), json!("1/1008"))
    );
    world.delete(Kind::Pod, "demo/p3");
    world.second();
    assert_eq!(addresses(&world, "demo/flat"), "19/252");
    world.writes.clear();
    world.second();
    world.node("n3");
    world.second();
    assert!(!world.writes.iter().any(|write| write.contains("userdefined")), "{:?}", world.writes);
    world.restart(|_| {});
    assert_eq!(world.writes, [] as [&str; 0]);
}

/// Where addresses never end, there is no number of them.
#[test]
fn room_without_end_has_no_number() {
    let mut world = World::new(dual(), &["n1"]);
    for (name, subnets) in
        [("v4", &["10.0.0.0/28"][..]), ("both", &["10.0.0.0/28", "fd10::/64"]), ("v6", &["fd10::/64"])]
    {
        world.tenant(name);
        world.layer2(&format!("{name}/net"), subnets);
    }
    world.tenant("wide");
    world.layer3("wide/net", "fd11::/48", 64);
    let all = ["v4/net", "both/net", "v6/net", "wide/net"].map(|path| addresses(&world, path));
    assert_eq!(all, ["0/12", "0/12", "0/32758", "0/many"], "a layer2 network has no more numbers for ports");
}

/// Nearly full, full, and nobody's address: each is an event once, and a condition that says what to do.
#[test]
fn a_network_that_fills_up_is_heard_of() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.layer2("demo/u1", &["10.0.0.0/28"]);
    let heard = |world: &World, word: &str| {
        let all = world.said.iter().filter(|said| said.starts_with("UserDefinedNetwork demo/u1 "));
        all.filter(|said| said.contains(word)).count()
    };
    let counts =
        |world: &World| ["NetworkNearlyFull", "NetworkFull", "get no address"].map(|word| heard(world, word));
    fill(&mut world, 0, 10);
    assert_eq!(counts(&world), [0, 0, 0], "{:?}", world.said);
    fill(&mut world, 10, 1);
    assert_eq!(counts(&world), [1, 0, 0], "{:?}", world.said);
    fill(&mut world, 11, 1);
    assert_eq!(counts(&world), [1, 1, 0], "{:?}", world.said);
    let condition = |world: &World| world.udn_condition("demo/u1", "NetworkAllocationSucceeded");
    let said = condition(&world);
    assert!(said.starts_with("True/NetworkFull ") && said.contains("\"My network is full\""), "{said}");
    fill(&mut world, 12, 1);
    assert_eq!(counts(&world), [1, 1, 1], "{:?}", world.said);
    world.delete(Kind::Pod, "demo/p12");
    world.delete(Kind::Pod, "demo/p0");
    assert!(condition(&world).starts_with("True/NetworkNearlyFull "), "{}", condition(&world));
    assert_eq!(counts(&world), [1, 1, 1], "it has become better: {:?}", world.said);
    world.restart(|_| {});
    assert_eq!((world.writes.len(), counts(&world)), (0, [0, 0, 0]));
}

/// A network that is nearly full says so, and what to do, before the first pod waits; once, however many come.
#[test]
fn a_network_that_is_nearly_full_says_so() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.layer2("demo/u1", &["10.0.0.0/26"]);
    let said = |world: &World| world.udn_condition("demo/u1", "NetworkAllocationSucceeded");
    fill(&mut world, 0, 53);
    assert!(said(&world).starts_with("True/NetworkAllocationSucceeded "), "{}", said(&world));
    fill(&mut world, 53, 1);
    let nearly = said(&world);
    assert!(
        nearly.starts_with("True/NetworkNearlyFull ") && nearly.contains("My network is full"),
        "{nearly}"
    );
    world.second();
    world.writes.clear();
    fill(&mut world, 54, 4);
    let statuses = world.writes.iter().filter(|write| !write.starts_with("pods ")).count();
    assert!(statuses <= 1, "{:?}", world.writes);
    world.restart(|_| {});
    assert_eq!((said(&world), world.writes.len()), (nearly, 0));
    (1..6).for_each(|number| world.delete(Kind::Pod, &format!("demo/p{number}")));
    assert!(said(&world).starts_with("True/NetworkAllocationSucceeded "), "{}", said(&world));
}
