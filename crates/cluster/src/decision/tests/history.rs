//! Writes, restarts, and histories of events.

use std::collections::BTreeSet;

use causeway_alloc::{Cleared, Epoch};
use causeway_types::ConnectNames;
use proptest::prelude::*;

use super::*;

/// cnc-cases P20: a block that nobody is known to have written rests all the same, for a write that failed may have
/// happened; then it is free.
#[test]
fn p20_a_failed_write_leaks_nothing() {
    let (a, b) = (cudn("a", 1, &["10.1.0.0/16"]), cudn("b", 2, &["10.2.0.0/16"]));
    let mut connections = decide(&[a], &[cnc("c")]);
    let back = written(&connections, &cnc("c"));
    assert_eq!(connections.apply_connect(back), Ok(Dirty::new()), "our own write comes back");
    connections.apply_network(b.clone());
    let block = connections.block(&name("c"), layer3(2));
    connections.set_epoch(Epoch(1));
    connections.delete_network(&b.name);
    assert_eq!(owners(&connections, "c"), [layer3(1)]);
    connections.expire(&Cleared::new(Epoch(1), []));
    connections.apply_network(cudn("new", 3, &["10.3.0.0/16"]));
    assert_eq!(connections.block(&name("c"), layer3(3)), block);
}

/// cnc-cases F01, V11: the freed block waits until every zone has cleared it.
#[test]
fn f01_v11_a_freed_block_waits_for_all_zones() {
    let networks = [cudn("a", 1, &["10.1.0.0/16"]), cudn("b", 2, &["10.2.0.0/16"])];
    let mut connections = decide(&networks, &[on(cnc("c"), &[("192.168.0.0/30", 31)])]);
    connections.set_epoch(Epoch(7));
    connections.delete_network(&networks[0].name);
    connections.apply_network(cudn("new", 3, &["10.3.0.0/16"]));
    assert_eq!(owners(&connections, "c"), [layer3(2)]);
    assert_eq!(acceptance(&connections, "c").0, Reason::ConnectSubnetExhausted);
    assert_eq!(connections.expire(&Cleared::new(Epoch(6), [])), Dirty::from([name("c")]));
    assert_eq!(owners(&connections, "c"), [layer3(2)]);
    connections.expire(&Cleared::new(Epoch(7), []));
    assert_eq!(connections.block(&name("c"), layer3(3)), Some(cidrs(&["192.168.0.0/31"])));
}

/// cnc-cases I10: two connections come back as they were.
#[test]
fn i10_a_restart_changes_nothing() {
    let networks: Vec<Network> =
        (1..=4).map(|id| cudn(&format!("n{id}"), id, &[&format!("10.{id}.0.0/16")])).collect();
    let connects = [cnc("one"), on(selecting(cnc("two"), &["n1", "n3"]), &[("10.100.0.0/16", 24)])];
    let mut before = decide(&networks, &connects);
    before.delete_network(&networks[1].name);
    let back = [written(&before, &connects[0]), written(&before, &connects[1])];
    let mut after = decide(&[networks[0].clone(), networks[2].clone(), networks[3].clone()], &back);
    for connect in ["one", "two"] {
        assert_eq!(after.blocks(&name(connect)), before.blocks(&name(connect)));
        assert_eq!(after.record(&name(connect)), before.record(&name(connect)));
    }
    after.apply_network(cudn("n5", 5, &["10.5.0.0/16"]));
    assert_eq!(
        after.block(&name("one"), layer3(5)).unwrap()[0].to_string(),
        "192.168.4.0/24",
        "1.0 may be somewhere"
    );
}

/// A connection that was deleted and made anew, with nobody having seen the deletion, starts anew.
#[test]
fn another_connection_of_the_same_name() {
    let networks = [cudn("a", 1, &["10.1.0.0/16"]), cudn("b", 2, &["10.2.0.0/16"])];
    let mut connections = decide(&networks, &[cnc("c")]);
    connections.apply_connect(Connect { created: 5, ..on(cnc("c"), &[("172.16.0.0/16", 24)]) }).unwrap();
    assert_eq!(connections.block(&name("c"), layer3(1)), Some(cidrs(&["172.16.0.0/24"])));
}

/// Deselection and reselection, where nobody waits, touch nobody else; the answers are those of a restart.
#[test]
fn coming_and_going_where_nobody_waits() {
    let networks: Vec<Network> =
        (1..=4).map(|id| cudn(&format!("n{id}"), id, &[&format!("10.{id}.0.0/16")])).collect();
    let connects = [
        selecting(cnc("one"), &["n1", "n2", "n3"]),
        on(selecting(cnc("two"), &["n1", "n4"]), &[("10.100.0.0/16", 24)]),
    ];
    let mut connections = decide(&networks, &connects);
    let dirty = connections.delete_network(&networks[0].name);
    assert_eq!(dirty, Dirty::from([name("one"), name("two")]));
    // n1 was what the two had in common: now they may connect the same addresses.
    connections.apply_network(cudn("n4", 4, &["10.3.0.0/16"]));
    assert_eq!(acceptance(&connections, "one").0, Reason::ValidationSucceeded);
    assert_eq!(owners(&connections, "two"), [layer3(4)]);
    connections.apply_network(networks[0].clone());
    assert_eq!(acceptance(&connections, "one").0, Reason::ValidationSucceeded);
    assert_eq!(acceptance(&connections, "two").0, Reason::OverlappingNetworkSubnets);
}

/// Moving between topologies keeps every place.
#[test]
fn moving_to_compact_keeps_all_places() {
    let networks = [cudn("a", 1, &["10.1.0.0/16"]), flat(cudn("b", 2, &["10.2.0.0/16"]))];
    let mut connections = decide(&networks, &[cnc("c")]);
    let before = connections.blocks(&name("c"));
    for topology in [ConnectTopology::Both, ConnectTopology::Compact] {
        let next = Connect { topology, ..written(&connections, &cnc("c")) };
        assert_eq!(connections.apply_connect(next), Ok(Dirty::from([name("c")])));
        assert_eq!(connections.blocks(&name("c")), before);
    }
}

#[derive(Debug, Clone)]
enum Event {
    Network(usize, u8),
    NoNetwork(usize),
    Namespace(usize, bool, Vec<usize>),
    NoNamespace(usize),
    Connect(usize, Vec<usize>),
    NoConnect(usize),
    Written(usize),
    Expire,
}

const NETWORKS: usize = 8;
/// With the flat shape, the second network in the first connection and the first in the second have a port of one name.
const NAMES: [&str; NETWORKS] = ["n", "n-to-b", "n2", "n3", "n4", "n5", "n6", "n7"];
const CONNECTIONS: [&str; 3] = ["c", "b-to-c", "other"];

/// Each network has four shapes; some are in the way of other networks, two differ in labels alone.
fn shape(network: usize, shape: u8) -> Network {
    let id = u32::try_from(network).unwrap() + 1;
    let own = format!("10.{id}.0.0/16");
    let next = format!("10.{}.3.0/24", id + 1);
    let one = cudn(NAMES[network], id, &[&own]);
    match shape {
        0 => one,
        3 => Network { labels: labels(&[("team", "a")]), ..one },
        1 => flat(cudn(NAMES[network], id, &[&own])),
        _ => cudn(NAMES[network], id, &[&own, &next]),
    }
}

fn connection(number: usize, networks: &[usize]) -> Connect {
    let names: Vec<&str> = networks.iter().map(|network| NAMES[*network]).collect();
    let base = [("192.168.0.0/29", 30), ("172.16.0.0/28", 30), ("192.168.0.4/30", 31)][number];
    let mut connect = on(selecting(cnc(CONNECTIONS[number]), &names), &[base]);
    if number > 0 {
        connect.selections.push(Selection::PrimaryUserDefinedNetworks(connected()));
    }
    Connect { created: i64::try_from(number % 2).unwrap(), ..connect }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..NETWORKS, 0..4u8).prop_map(|(network, shape)| Event::Network(network, shape)),
        2 => (0..NETWORKS).prop_map(Event::NoNetwork),
        3 => (0..3usize, any::<bool>(), proptest::collection::vec(0..NETWORKS, 0..3))
            .prop_map(|(namespace, selected, networks)| Event::Namespace(namespace, selected, networks)),
        1 => (0..3usize).prop_map(Event::NoNamespace),
        4 => (0..3usize, proptest::collection::vec(0..NETWORKS, 0..6)).prop_map(|(n, networks)| Event::Connect(n, networks)),
        1 => (0..3usize).prop_map(Event::NoConnect),
        2 => (0..3usize).prop_map(Event::Written),
        1 => Just(Event::Expire),
    ]
}

/// What the API server would hold after the events so far.
#[derive(Debug, Default)]
struct World {
    networks: BTreeMap<usize, Network>,
    namespaces: BTreeMap<usize, Namespace>,
    connects: BTreeMap<usize, Connect>,
}

fn serving(number: usize, selected: bool, networks: &[usize]) -> Namespace {
    let networks: Vec<Network> = networks.iter().map(|network| shape(*network, 0)).collect();
    let labels: &[(&str, &str)] = if selected { &[("connected", "yes")] } else { &[] };
    namespace(&format!("ns{number}"), labels, &networks.iter().collect::<Vec<_>>())
}

fn apply(world: &mut World, connections: &mut Connections, event: Event) {
    match event {
        Event::Network(number, kind) => {
            let network = shape(number, kind);
            connections.apply_network(network.clone());
            world.networks.insert(number, network);
        }
        Event::NoNetwork(number) => {
            connections.delete_network(&shape(number, 0).name);
            world.networks.remove(&number);
        }
        Event::Namespace(number, selected, networks) => {
            let namespace = serving(number, selected, &networks);
            connections.apply_namespace(namespace.clone());
            world.namespaces.insert(number, namespace);
        }
        Event::NoNamespace(number) => {
            connections.delete_namespace(&serving(number, false, &[]).name);
            world.namespaces.remove(&number);
        }
        Event::Connect(number, networks) => {
            let connect = match world.connects.get(&number) {
                Some(old) => Connect { selections: connection(number, &networks).selections, ..old.clone() },
                None => connection(number, &networks),
            };
            connections.apply_connect(connect.clone()).unwrap();
            world.connects.insert(number, connect);
        }
        Event::NoConnect(number) => {
            connections.delete_connect(&connection(number, &[]).name);
            world.connects.remove(&number);
        }
        Event::Written(number) => {
            if let Some(connect) = world.connects.get_mut(&number) {
                *connect = written(connections, connect);
                connections.apply_connect(connect.clone()).unwrap();
            }
        }
        Event::Expire => drop(connections.expire(&Cleared::new(Epoch(1), []))),
    }
}

type Answer = (Option<Acceptance>, Option<BTreeMap<ConnectOwner, Vec<Cidr>>>);

fn answers(connections: &Connections) -> Vec<Answer> {
    let answer = |number| {
        let name = connection(number, &[]).name;
        (connections.acceptance(&name), connections.blocks(&name))
    };
    (0..3).map(answer).collect()
}

fn assert_apart(connections: &Connections, world: &World) -> std::result::Result<(), TestCaseError> {
    for network in world.networks.values() {
        let of: Vec<&ConnectName> = connections.connections_of(&network.name).collect();
        let mut peers: Vec<&Network> = world
            .networks
            .values()
            .filter(|peer| connections.connections_of(&peer.name).any(|connect| of.contains(&connect)))
            .collect();
        peers.sort_by_key(|peer| &peer.name);
        let all: Vec<&Cidr> = peers.iter().flat_map(|peer| &peer.subnets).collect();
        for (position, one) in all.iter().enumerate() {
            prop_assert!(all[position + 1..].iter().all(|other| !one.overlaps(other)), "{of:?} {all:?}");
        }
        let mut links: Vec<Cidr> = Vec::new();
        for connect in of {
            links.extend(
                world
                    .connects
                    .values()
                    .filter(|c| c.name == *connect)
                    .flat_map(|c| &c.subnets)
                    .map(ConnectSubnet::cidr),
            );
        }
        for (position, one) in links.iter().enumerate() {
            prop_assert!(links[position + 1..].iter().all(|other| !one.overlaps(other)));
        }
    }
    Ok(())
}

fn assert_one_port_of_a_name(
    connections: &Connections,
    world: &World,
) -> std::result::Result<(), TestCaseError> {
    let mut ports = Vec::new();
    for network in world.networks.values().filter(|network| network.topology == Topology::Layer2) {
        for connect in connections.connections_of(&network.name) {
            let names = ConnectNames::new(connect.clone());
            ports.push(names.router_to_network(&network.name, None));
            ports.push(names.network_to_router(&network.name, None));
        }
    }
    let distinct: BTreeSet<&String> = ports.iter().collect();
    prop_assert_eq!(distinct.len(), ports.len(), "{:?}", ports);
    Ok(())
}

proptest! {
    /// After any history, the answers are those of a restart that reads the annotations.
    #[test]
    fn a_history_and_a_restart_give_the_same_answers(events in proptest::collection::vec(event(), 0..40)) {
        let (mut world, mut connections) = (World::default(), decide(&[], &[]));
        for event in events {
            apply(&mut world, &mut connections, event);
            assert_apart(&connections, &world)?;
            assert_one_port_of_a_name(&connections, &world)?;
        }
        for number in 0..3 {
            apply(&mut world, &mut connections, Event::Written(number));
        }
        let networks: Vec<Network> = world.networks.values().rev().cloned().collect();
        let connects: Vec<Connect> = world.connects.values().rev().cloned().collect();
        let namespaces: Vec<Namespace> = world.namespaces.into_values().collect();
        let restarted = start(&networks, &namespaces, &[], &connects);
        prop_assert_eq!(answers(&restarted), answers(&connections));
    }

    /// Whoever has a place keeps it while it is selected and its networks do not change.
    #[test]
    fn newcomers_never_push_anybody_out(
        first in proptest::collection::vec(0..NETWORKS, 0..6),
        second in proptest::collection::vec(0..NETWORKS, 0..6),
        newcomers in proptest::collection::vec((0..NETWORKS, 0..3u8), 0..8),
        known in proptest::collection::btree_map(0..NETWORKS, 0..3u8, 0..6),
    ) {
        let networks: Vec<Network> = known.iter().map(|(network, kind)| shape(*network, *kind)).collect();
        let mut connections = decide(&networks, &[connection(0, &first), connection(1, &second)]);
        let before: Vec<_> = answers(&connections).into_iter().map(|(_, blocks)| blocks.unwrap_or_default()).collect();
        for (network, kind) in newcomers.into_iter().filter(|(network, _)| !known.contains_key(network)) {
            connections.apply_network(shape(network, kind));
            connections.delete_network(&shape(network, kind).name);
            connections.apply_network(shape(network, kind));
        }
        // Who connects nothing may have to make room for an older one; the first is the oldest.
        let kept = before.into_iter().zip(answers(&connections)).enumerate();
        for (_, (old, (_, new))) in kept.filter(|(number, (old, _))| *number == 0 || old.len() > 1) {
            for (owner, cidrs) in old {
                prop_assert_eq!(new.as_ref().and_then(|new| new.get(&owner)), Some(&cidrs));
            }
        }
    }
}
