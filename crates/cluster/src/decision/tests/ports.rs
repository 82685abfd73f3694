//! Ports of different connections that would have one name.

use std::collections::BTreeSet;

use causeway_api::intent::{Named, name_clashes};
use causeway_types::ConnectNames;
use proptest::prelude::*;

use super::*;

/// A connection of this name that selects namespaces with the label `of=<name>`, on subnets of its own.
fn of(text: &str, third: u8) -> Connect {
    let selector = Expression::Equal("of".to_owned(), text.to_owned()).into();
    let selections = vec![Selection::PrimaryUserDefinedNetworks(selector)];
    Connect { selections, ..on(cnc(text), &[(&format!("172.16.{third}.0/24"), 28)]) }
}

fn serving(connect: &str, network: &Network) -> Namespace {
    let NetworkOrigin::Namespaced(name, _) = &network.origin else { panic!("not of a namespace") };
    namespace(name.as_str(), &[("of", connect)], &[network])
}

/// Why the younger of two connections leaves out its only network, or nothing.
fn lost(networks: [Network; 2], connects: [&str; 2], nodes: &[NodeRecord]) -> Option<String> {
    let [older, younger] = connects;
    let namespaces = [serving(older, &networks[0]), serving(younger, &networks[1])];
    let connects = [of(older, 0), Connect { created: 1, ..of(younger, 1) }];
    let connections = start(&networks, &namespaces, nodes, &connects);
    assert_eq!(
        acceptance(&connections, older).0,
        Reason::InsufficientNetworks,
        "the older keeps its network"
    );
    let (reason, message) = acceptance(&connections, younger);
    let (first, _) = message.split_once("; Only 1 network selected")?;
    assert_eq!(reason, Reason::UnsupportedNetworkType);
    Some(first.to_owned())
}

#[test]
fn the_younger_connection_leaves_out_the_network() {
    let networks = [udn("b-to-c", "n", 1, &["10.1.0.0/16"]), udn("c", "n", 2, &["10.2.0.0/16"])];
    let message = "Network 'c/n' cannot be connected under its name: its port 'a-to-b-to-c_n-x' would have the name of a \
                   port of network 'b-to-c/n' in ClusterNetworkConnect 'a'. Rename the network or one \
                   ClusterNetworkConnect";
    assert_eq!(lost(networks.clone(), ["a", "a-to-b"], &[node("x", 2)]), Some(message.to_owned()));
    assert_eq!(lost(networks.clone(), ["a", "a-to-b"], &[]), None, "without nodes there are no ports");
    let flat = networks.map(flat);
    assert!(lost(flat, ["a", "a-to-b"], &[]).is_some_and(|message| message.contains("'a-to-b-to-c_n'")));
}

#[test]
fn all_ways_in_which_names_meet() {
    let l3 = |namespace, name, id: u32| udn(namespace, name, id, &[&format!("10.{id}.0.0/16")]);
    let l2 = |namespace, name, id| flat(l3(namespace, name, id));
    let table = [
        // The routers' own ports: `-to-` of namespaces, with a shared `-`, with the node's name taking part.
        ([l2("to-b", "n", 1), l2("b", "n", 2)], ["a", "a-to"], true),
        ([l3("b-to-c", "n-x", 1), l3("c", "n", 2)], ["a", "a-to-b"], true),
        ([l3("b-to-c", "n", 1), l2("c", "n", 2)], ["a", "a-to-b"], false),
        ([l3("b-to-c", "n", 1), l2("c", "n-x-y", 2)], ["a", "a-to-b"], true),
        ([l2("b-to-c", "n", 1), l2("c", "m", 2)], ["a", "a-to-b"], false),
        // The peer of one and the router's port of another.
        ([l2("ns", "n-to-b", 1), l2("a-to-ns", "n", 2)], ["a", "b"], true),
        ([l2("ns", "n-to-b", 1), l2("a-to-ns", "n", 2)], ["a", "c"], false),
    ];
    let nodes = [node("x-y", 2), node("y", 3)];
    for (networks, connects, meet) in table {
        assert_eq!(lost(networks.clone(), connects, &nodes).is_some(), meet, "{networks:?} {connects:?}");
    }
}

/// The peers: networks of one kind, and a connection whose name ends like another's.
fn peers() -> ([Network; 2], [Connect; 2]) {
    let networks = [flat(cudn("n-to-b", 1, &["10.1.0.0/16"])), flat(cudn("n", 2, &["10.2.0.0/16"]))];
    let older = on(selecting(cnc("c"), &["n-to-b"]), &[("172.16.0.0/24", 28)]);
    let younger = on(selecting(cnc("b-to-c"), &["n"]), &[("172.16.1.0/24", 28)]);
    (networks, [older, Connect { created: 1, ..younger }])
}

#[test]
fn who_waits_for_a_name_gets_it_when_it_is_free() {
    let (networks, connects) = peers();
    let mut connections = decide(&networks, &connects);
    assert_eq!((owners(&connections, "c"), owners(&connections, "b-to-c")), (vec![layer2(1)], vec![]));
    connections.delete_connect(&name("c"));
    assert_eq!(owners(&connections, "b-to-c"), [layer2(2)]);
    connections.apply_connect(connects[0].clone()).unwrap();
    assert_eq!(owners(&connections, "c"), [], "the incumbent stays, whoever is older");
    connections.delete_network(&networks[1].name);
    assert_eq!(owners(&connections, "c"), [layer2(1)]);
}

#[test]
fn one_connection_can_be_in_its_own_way() {
    let networks =
        [flat(udn("x", "n-to-c", 1, &["10.1.0.0/16"])), flat(udn("c-to-x", "n", 2, &["10.2.0.0/16"]))];
    let namespaces = [serving("c", &networks[0]), serving("c", &networks[1])];
    let connections = start(&networks, &namespaces, &[], &[of("c", 0)]);
    assert_eq!(owners(&connections, "c"), [layer2(1)]);
}

/// The same network in both connections; only a node's name makes the difference.
#[test]
fn a_node_can_bring_names_together() {
    let networks = [cudn("n", 1, &["10.1.0.0/16"]), cudn("m", 2, &["10.2.0.0/16"])];
    let connects = [
        on(selecting(cnc("prod"), &["n", "m"]), &[("172.16.0.0/24", 28)]),
        Connect { created: 1, ..on(selecting(cnc("dev-to-prod"), &["n", "m"]), &[("172.16.1.0/24", 28)]) },
    ];
    let mut connections = start(&networks, &[], &[node("x", 2)], &connects);
    assert_eq!(acceptance(&connections, "dev-to-prod").0, Reason::ValidationSucceeded);
    let dirty = connections.apply_node(node("x-to-dev", 3));
    assert_eq!(dirty, Dirty::from([name("prod"), name("dev-to-prod")]));
    assert_eq!(acceptance(&connections, "prod").0, Reason::ValidationSucceeded);
    assert_eq!(owners(&connections, "dev-to-prod"), []);
    connections.delete_node(&node("x-to-dev", 3).name);
    assert_eq!(acceptance(&connections, "dev-to-prod").0, Reason::ValidationSucceeded);
}

/// Few words, so that names meet often.
fn word() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop_oneof![Just("a"), Just("to"), Just("b")], 1..4)
        .prop_map(|parts| parts.join("-"))
}

fn any_topology() -> impl Strategy<Value = ConnectTopology> {
    prop_oneof![Just(ConnectTopology::Transit), Just(ConnectTopology::Both), Just(ConnectTopology::Compact)]
}

/// All ports of a network in a connection, by the book.
fn ports_of(connect: &Connect, network: &Network, nodes: &[NodeRecord]) -> Vec<String> {
    let names = ConnectNames::new(connect.name.clone());
    let has_nodes = network.topology == Topology::Layer3 && connect.topology.has_node_ports();
    let for_all = network.topology == Topology::Layer2 || connect.topology != ConnectTopology::Transit;
    let nodes = nodes.iter().filter(|_| has_nodes).map(|node| Some(&node.name));
    let both =
        |node| [names.router_to_network(&network.name, node), names.network_to_router(&network.name, node)];
    for_all.then_some(None).into_iter().chain(nodes).flat_map(both).collect()
}

/// Networks that `name_clashes` accepts, each with an id, a subnet and a namespace of its own.
fn apart(names: BTreeSet<(String, String, bool)>, nodes: &[NodeRecord]) -> Vec<Network> {
    let one = |(id, (namespace, name, is_flat)): (u32, (String, String, bool))| {
        let network = udn(&namespace, &name, id, &[&format!("10.{id}.0.0/16")]);
        if is_flat { flat(network) } else { network }
    };
    let all: Vec<Network> = (1..).zip(names).map(one).collect();
    let named = |network: &Network| Named {
        network: network.name.clone(),
        created: 0,
        node_ports: network.topology == Topology::Layer3,
    };
    let nodes = nodes.iter().map(|node| node.name.clone()).collect();
    let refused = name_clashes(&all.iter().map(named).collect::<Vec<_>>(), &nodes);
    all.into_iter().filter(|one| refused.iter().all(|clash| clash.younger != one.name)).collect()
}

proptest! {
    /// Ports that are there have names of their own, and a network is left out only where one of its names is taken.
    #[test]
    fn every_port_has_a_name_of_its_own(
        names in proptest::collection::btree_set((word(), word(), any::<bool>()), 1..6),
        connects in proptest::collection::btree_map(word(), any_topology(), 1..5),
        first in proptest::collection::btree_set(word(), 0..4),
        late in proptest::collection::btree_set(word(), 0..3),
    ) {
        let record = |(id, name): (u32, &String)| node(name, id);
        let nodes: Vec<NodeRecord> = (2..).zip(first.union(&late)).map(record).collect();
        let (known, late): (Vec<_>, Vec<_>) =
            nodes.iter().cloned().partition(|node| first.contains(node.name.as_str()));
        let networks = apart(names, &nodes);
        let mut served: BTreeMap<&str, Vec<&Network>> = BTreeMap::new();
        for network in &networks {
            served.entry(network.name.as_str().split_once('_').unwrap().0).or_default().push(network);
        }
        let namespaces: Vec<Namespace> =
            served.iter().map(|(name, networks)| namespace(name, &[], networks)).collect();
        let everything = || vec![Selection::PrimaryUserDefinedNetworks(Selector::default())];
        let connects: Vec<Connect> = (0..).zip(connects).map(|(third, (name, topology))| Connect {
            selections: everything(), topology, ..on(cnc(&name), &[(&format!("172.16.{third}.0/24"), 28)])
        }).collect();
        let mut connections = start(&networks, &namespaces, &known, &connects);
        late.into_iter().for_each(|node| drop(connections.apply_node(node)));

        let pairs = || connects.iter().flat_map(|connect| networks.iter().map(move |network| (connect, network)));
        let is_in = |(connect, network): &(&Connect, &Network)| {
            connections.connections_of(&network.name).any(|name| *name == connect.name)
        };
        let taken: Vec<String> =
            pairs().filter(is_in).flat_map(|(connect, network)| ports_of(connect, network, &nodes)).collect();
        let distinct: BTreeSet<&String> = taken.iter().collect();
        prop_assert_eq!(distinct.len(), taken.len(), "{:?}", taken);
        for (connect, network) in pairs().filter(|pair| !is_in(pair)) {
            let is_taken = ports_of(connect, network, &nodes).iter().any(|name| distinct.contains(name));
            prop_assert!(is_taken, "{} {}", connect.name, network.name);
        }
    }
}
