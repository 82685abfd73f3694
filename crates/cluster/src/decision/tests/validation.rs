//! What can be connected, who loses, and what is said about it.

use causeway_api::crd::Transport;

use super::*;

fn refused(networks: &[Network], connect: Connect) -> (Reason, String) {
    acceptance(&decide(networks, &[connect]), "c")
}

/// cnc-cases P01.
#[test]
fn p01_two_networks_are_accepted() {
    let networks = [cudn("a", 1, &["103.103.0.0/16"]), cudn("b", 2, &["104.104.0.0/16"])];
    let connections = decide(&networks, &[cnc("c")]);
    let expected = (Reason::ValidationSucceeded, "All validation checks passed successfully".to_owned());
    assert_eq!(acceptance(&connections, "c"), expected);
    let blocks = BTreeMap::from([
        (layer3(1), cidrs(&["192.168.0.0/24", "fd01::/96"])),
        (layer3(2), cidrs(&["192.168.1.0/24", "fd01::1:0:0/96"])),
    ]);
    assert_eq!(connections.blocks(&name("c")), Some(blocks));
    assert_eq!(connections.slots(&name("c")), Some(128));
}

/// cnc-cases P16: accepted upstream, InsufficientNetworks by the specification; the block stays.
#[test]
fn p16_fewer_than_two_networks() {
    let one = [cudn("a", 1, &["10.1.0.0/16"])];
    let connections = decide(&one, &[cnc("c")]);
    let message = "Only 1 network selected, minimum 2 networks required for connection".to_owned();
    assert_eq!(acceptance(&connections, "c"), (Reason::InsufficientNetworks, message));
    assert_eq!(owners(&connections, "c"), [layer3(1)]);
    assert_eq!(refused(&[], cnc("c")).0, Reason::InsufficientNetworks);
}

/// cnc-cases P10, N05 (ignored upstream, an error by the specification), B07 of the specification's texts.
#[test]
fn p10_n05_kinds_that_cannot_be_connected() {
    let base = cudn("a", 1, &["10.1.0.0/16"]);
    let table = [
        (
            Network { role: Role::Secondary, ..base.clone() },
            "Network 'a' has role 'Secondary'. Only 'Primary' role networks are supported",
        ),
        (
            Network { topology: Topology::Localnet, role: Role::Secondary, ..base.clone() },
            "Network 'a' has type 'localnet'. Localnet networks are not supported",
        ),
        (
            Network { transport: Some(Transport::NoOverlay), ..base },
            "Network 'a' has transport 'NoOverlay'. Network connect feature is not supported when overlay tunneling is \
             disabled",
        ),
    ];
    for (network, message) in table {
        let networks = [network, cudn("b", 2, &["10.2.0.0/16"]), cudn("c", 3, &["10.3.0.0/16"])];
        let connections = decide(&networks, &[cnc("c")]);
        assert_eq!(acceptance(&connections, "c"), (Reason::UnsupportedNetworkType, message.to_owned()));
        assert_eq!(owners(&connections, "c"), [layer3(2), layer3(3)], "the rest stays connected");
    }
}

/// Issue 16, part 4: a network on the fabric has tunnels inside of the cluster, so it can be connected (P10 of the catalogue refuses it).
#[test]
fn p10_networks_on_the_fabric_are_connected() {
    let on_fabric = Network { transport: Some(Transport::Evpn), ..cudn("a", 1, &["10.1.0.0/16"]) };
    let connections = decide(&[on_fabric, cudn("b", 2, &["10.2.0.0/16"])], &[cnc("c")]);
    assert_eq!(owners(&connections, "c"), [layer3(1), layer3(2)]);
}

/// cnc-cases P07, P11: the cluster's own subnets refuse the whole connection.
#[test]
fn p07_p11_conflicts_with_the_cluster() {
    let table = [
        ("10.96.0.0/15", "Connect subnet 10.96.0.0/15 conflicts with service CIDR 10.96.0.0/16"),
        ("169.254.0.0/16", "Connect subnet 169.254.0.0/16 conflicts with masquerade subnet 169.254.0.0/17"),
        ("fd69::/108", "Connect subnet fd69::/108 conflicts with masquerade subnet fd69::/112"),
    ];
    for (subnet, message) in table {
        let prefix = if subnet.contains(':') { 120 } else { 24 };
        let networks = [cudn("a", 1, &["10.1.0.0/16"]), cudn("b", 2, &["10.2.0.0/16"])];
        let connections = decide(&networks, &[on(cnc("c"), &[(subnet, prefix)])]);
        assert_eq!(acceptance(&connections, "c"), (Reason::ConnectSubnetConflict, message.to_owned()));
        assert_eq!(owners(&connections, "c"), []);
    }
}

/// cnc-cases P11: a network's own subnets leave out that network.
#[test]
fn p11_conflicts_with_a_network() {
    let join = Network { join_subnets: cidrs(&["192.168.7.0/24"]), ..cudn("a", 1, &["10.1.0.0/16"]) };
    let transit = Network { transit_subnets: cidrs(&["192.168.0.0/17"]), ..cudn("a", 1, &["10.1.0.0/16"]) };
    let table = [
        (cudn("a", 1, &["192.168.1.0/24"]), "pod subnet 192.168.1.0/24"),
        (join, "join subnet 192.168.7.0/24"),
        (transit, "transit subnet 192.168.0.0/17"),
    ];
    for (network, what) in table {
        let networks = [network, cudn("b", 2, &["10.2.0.0/16"]), cudn("c", 3, &["10.3.0.0/16"])];
        let connections = decide(&networks, &[cnc("c")]);
        let message = format!("Connect subnet 192.168.0.0/16 conflicts with {what} of network 'a'");
        assert_eq!(acceptance(&connections, "c"), (Reason::ConnectSubnetConflict, message));
        assert_eq!(owners(&connections, "c"), [layer3(2), layer3(3)]);
    }
}

/// cnc-cases W13, M04: of two equal networks the smaller id stays.
#[test]
fn w13_m04_overlapping_networks() {
    let networks = [
        cudn("green", 2, &["10.1.128.0/17", "fd00:2::/48"]),
        cudn("blue", 1, &["10.1.0.0/16", "fd00:1::/48"]),
        cudn("red", 3, &["10.3.0.0/16"]),
    ];
    let connections = decide(&networks, &[cnc("c")]);
    let message =
        "Cannot connect networks 'blue' and 'green': overlapping pod subnets 10.1.128.0/17 detected (selected networks have overlapping subnets)"
            .to_owned();
    assert_eq!(acceptance(&connections, "c"), (Reason::OverlappingNetworkSubnets, message));
    assert_eq!(owners(&connections, "c"), [layer3(1), layer3(3)]);
}

/// cnc-cases P04: also when the newcomer has the smaller id, and also after a restart.
#[test]
fn p04_incumbents_never_lose() {
    let (old, new) = (cudn("old", 9, &["10.1.0.0/16"]), cudn("new", 1, &["10.1.0.0/16"]));
    let mut connections = decide(std::slice::from_ref(&old), &[cnc("c")]);
    let before = connections.blocks(&name("c"));
    connections.apply_network(new.clone());
    assert_eq!(connections.blocks(&name("c")), before);
    assert_eq!(acceptance(&connections, "c").0, Reason::OverlappingNetworkSubnets);
    let restarted = decide(&[new, old], &[written(&connections, &cnc("c"))]);
    assert_eq!(restarted.blocks(&name("c")), before);
    assert_eq!(acceptance(&restarted, "c"), acceptance(&connections, "c"));
}

/// cnc-cases P08 and the specification: every pair shares a family that the links have.
#[test]
fn p08_ip_families() {
    let four = cudn("four", 1, &["10.1.0.0/16"]);
    let six = cudn("six", 2, &["fc00:104::/50"]);
    let dual = cudn("dual", 3, &["10.3.0.0/16", "fc00:3::/48"]);
    let connections = decide(&[four.clone(), six.clone(), dual.clone()], &[cnc("c")]);
    let message = "Cannot connect single-stack IPv6 network 'six' with single-stack IPv4 network 'four'. Networks must \
                   use the same IP family";
    assert_eq!(acceptance(&connections, "c"), (Reason::IPFamilyMismatch, message.to_owned()));
    assert_eq!(owners(&connections, "c"), [layer3(1), layer3(3)], "dual with single is valid");
    let links_four = on(cnc("c"), &[("192.168.0.0/16", 24)]);
    assert_eq!(
        refused(&[dual, six, four], links_four).1,
        "Cannot connect network 'six': connectSubnets have no subnet of its IP family. Networks must use the same IP \
         family"
    );
}

/// cnc-cases P05: the same networks and the same subnets; the older stays, by name if equally old.
#[test]
fn p05_connect_subnets_overlap() {
    let networks = [cudn("a", 1, &["10.1.0.0/16"]), cudn("b", 2, &["10.2.0.0/16"])];
    let older = Connect { created: 1, ..on(cnc("older"), &[("192.168.0.0/16", 24)]) };
    let newer = Connect { created: 2, ..on(cnc("c"), &[("192.168.128.0/17", 24)]) };
    let connections = decide(&networks, &[newer, older]);
    assert_eq!(acceptance(&connections, "older").0, Reason::ValidationSucceeded);
    let sentence = |network| {
        format!(
            "Connect subnet 192.168.128.0/17 overlaps with ClusterNetworkConnect 'older' which also selects network \
             '{network}'. Each ClusterNetworkConnect selecting the same network must use non-overlapping connect subnets"
        )
    };
    let message = format!(
        "{}; {}; Only 0 networks left, minimum 2 networks required for connection",
        sentence("a"),
        sentence("b")
    );
    assert_eq!(acceptance(&connections, "c"), (Reason::ConnectSubnetOverlap, message));
    assert_eq!(owners(&connections, "c"), []);
}

/// cnc-cases P13, W11.
#[test]
fn p13_w11_connections_that_do_not_meet() {
    let networks = [
        cudn("a", 1, &["10.1.0.0/16"]),
        cudn("b", 2, &["10.2.0.0/16"]),
        cudn("x", 3, &["10.3.0.0/16"]),
        cudn("y", 4, &["10.4.0.0/16"]),
    ];
    let shared_network = [
        selecting(cnc("one"), &["a", "b"]),
        on(selecting(cnc("two"), &["a", "x"]), &[("172.16.0.0/16", 24)]),
    ];
    let shared_subnets = [selecting(cnc("one"), &["a", "b"]), selecting(cnc("two"), &["x", "y"])];
    for connects in [shared_network, shared_subnets] {
        let connections = decide(&networks, &connects);
        assert_eq!(acceptance(&connections, "one").0, Reason::ValidationSucceeded);
        assert_eq!(acceptance(&connections, "two").0, Reason::ValidationSucceeded);
    }
}

/// cnc-cases P14: without another event.
#[test]
fn p14_the_loser_is_accepted_when_the_winner_goes() {
    let networks = [cudn("a", 1, &["10.1.0.0/16"]), cudn("b", 2, &["10.2.0.0/16"])];
    let mut connections = decide(&networks, &[cnc("first"), cnc("second")]);
    assert_eq!(acceptance(&connections, "second").0, Reason::ConnectSubnetOverlap);
    assert_eq!(connections.delete_connect(&name("first")), Dirty::from([name("second")]));
    assert_eq!(acceptance(&connections, "second").0, Reason::ValidationSucceeded);
}

/// The same when the winner lets go of the one network that both select, and stays.
#[test]
fn the_loser_is_accepted_when_the_winner_lets_go() {
    let red = udn("red", "net", 1, &["10.1.0.0/16"]);
    let by_namespace = |connect: Connect, selector| Connect {
        selections: vec![Selection::PrimaryUserDefinedNetworks(selector)],
        ..connect
    };
    let winner = by_namespace(cnc("a-winner"), connected());
    let loser = by_namespace(cnc("loser"), Selector::default());
    let namespaces = [namespace("red", &[("connected", "yes")], &[&red])];
    let mut connections = start(std::slice::from_ref(&red), &namespaces, &[], &[winner, loser]);
    assert_eq!(acceptance(&connections, "loser").0, Reason::ConnectSubnetOverlap);
    connections.apply_namespace(namespace("red", &[], &[&red]));
    assert_eq!(owners(&connections, "loser"), [layer3(1)]);
}

/// A network that two connections share must not reach the same addresses through both.
#[test]
fn overlap_through_another_connection() {
    let networks = [
        cudn("hub", 1, &["10.1.0.0/16"]),
        cudn("left", 2, &["10.2.0.0/16"]),
        cudn("right", 3, &["10.2.0.0/24"]),
        cudn("far", 4, &["10.4.0.0/16"]),
    ];
    let one = Connect { created: 1, ..selecting(cnc("one"), &["hub", "left"]) };
    let two = Connect {
        created: 2,
        ..on(selecting(cnc("two"), &["hub", "right", "far"]), &[("172.16.0.0/16", 24)])
    };
    let mut connections = decide(&networks, &[one.clone(), two.clone()]);
    assert_eq!(acceptance(&connections, "one").0, Reason::ValidationSucceeded);
    let message = "Cannot connect networks 'left' and 'right': overlapping pod subnets 10.2.0.0/24 detected (selected networks have overlapping subnets); \
                   ClusterNetworkConnect 'one' shares a network with this one, which would reach both";
    assert_eq!(acceptance(&connections, "two"), (Reason::OverlappingNetworkSubnets, message.to_owned()));
    assert_eq!(owners(&connections, "two"), [layer3(1), layer3(4)]);
    connections.delete_network(&networks[1].name);
    assert_eq!(acceptance(&connections, "two").0, Reason::ValidationSucceeded);
}

/// The same when the shared network is the last to come: it is the one that would make the way ambiguous.
#[test]
fn overlap_brought_about_by_the_shared_network() {
    let hub = cudn("hub", 9, &["10.1.0.0/16"]);
    let networks = [
        cudn("left", 2, &["10.2.0.0/16"]),
        cudn("right", 3, &["10.2.0.0/24"]),
        cudn("far", 4, &["10.4.0.0/16"]),
    ];
    let one = selecting(cnc("one"), &["hub", "left"]);
    let two = on(selecting(cnc("two"), &["hub", "right", "far"]), &[("172.16.0.0/16", 24)]);
    let mut connections = decide(&networks, &[one, two]);
    assert_eq!(acceptance(&connections, "two").0, Reason::ValidationSucceeded);
    connections.apply_network(hub);
    assert_eq!(acceptance(&connections, "one").0, Reason::ValidationSucceeded);
    let (reason, message) = acceptance(&connections, "two");
    assert_eq!(reason, Reason::OverlappingNetworkSubnets);
    assert!(message.contains("'left' and 'right'"), "{message}");
    assert_eq!(owners(&connections, "two"), [layer3(3), layer3(4)]);
}

/// cnc-cases P02, E13.
#[test]
fn p02_connect_subnet_exhausted_by_networks() {
    let networks =
        [cudn("a", 1, &["10.1.0.0/16"]), cudn("b", 2, &["10.2.0.0/16"]), cudn("x", 3, &["10.3.0.0/16"])];
    let connections = decide(&networks, &[on(cnc("c"), &[("192.168.0.0/30", 31)])]);
    let message = "Insufficient IP addresses in connect subnet 192.168.0.0/30. Network 'x' is left out: connect subnet \
                   192.168.0.0/30 has no block left of its 2";
    assert_eq!(acceptance(&connections, "c"), (Reason::ConnectSubnetExhausted, message.to_owned()));
    assert_eq!(owners(&connections, "c"), [layer3(1), layer3(2)]);
}

/// cnc-cases K07: network and node are named, and the answer follows the nodes.
#[test]
fn k07_connect_subnet_exhausted_by_nodes() {
    let networks = [cudn("a", 1, &["10.1.0.0/16"]), cudn("b", 2, &["10.2.0.0/16"])];
    let mut connections = start(&networks, &[], &[node("n2", 2), node("n127", 127)], &[cnc("c")]);
    assert_eq!(acceptance(&connections, "c").0, Reason::ValidationSucceeded);
    assert_eq!(connections.apply_node(node("n128", 128)), Dirty::from([name("c")]));
    let message = "Insufficient IP addresses in connect subnet 192.168.0.0/16. Node 'n128' is left out of network 'a' and \
                   all other layer3 networks: each network's block has 128 links, for node ids below 128, and the id of the node is 128. Create the ClusterNetworkConnect anew with networkPrefix 23 or less, or use the compact topology, which needs no link for each node";
    assert_eq!(acceptance(&connections, "c"), (Reason::ConnectSubnetExhausted, message.to_owned()));
    connections.delete_node(&node("n128", 128).name);
    assert_eq!(acceptance(&connections, "c").0, Reason::ValidationSucceeded);
    let compact = Connect { topology: ConnectTopology::Compact, ..cnc("c") };
    let connections = start(&networks, &[], &[node("n128", 128)], &[compact]);
    assert_eq!(acceptance(&connections, "c").0, Reason::ValidationSucceeded);
}

/// cnc-cases P19: one connection with every reason; the first counts, all are told.
#[test]
fn p19_every_reason_at_once() {
    let networks = [
        cudn("good", 1, &["10.1.0.0/16"]),
        Network { role: Role::Secondary, ..cudn("secondary", 2, &["10.2.0.0/16"]) },
        cudn("conflict", 3, &["192.168.0.0/31"]),
        cudn("six", 4, &["fd00:4::/48"]),
        cudn("overlap", 5, &["10.1.0.0/24"]),
        cudn("second", 6, &["10.6.0.0/16"]),
        cudn("third", 7, &["10.7.0.0/16"]),
        cudn("shared", 8, &["10.8.0.0/16"]),
    ];
    let other = Connect { created: -1, ..selecting(cnc("other"), &["shared"]) };
    let connect = on(cnc("c"), &[("192.168.0.0/30", 31), ("fd01::/64", 96)]);
    let connections = decide(&networks, &[other, connect]);
    let (reason, message) = acceptance(&connections, "c");
    assert_eq!(reason, Reason::UnsupportedNetworkType);
    let positions: Vec<usize> = [
        "'secondary' has role",
        "conflicts with pod subnet",
        "overlaps with ClusterNetworkConnect 'other'",
        "single-stack IPv6 network 'six'",
        "'good' and 'overlap'",
        "Network 'third' is left out",
    ]
    .iter()
    .map(|part| message.find(part).unwrap_or_else(|| panic!("{part} is missing in {message}")))
    .collect();
    assert!(positions.is_sorted(), "{message}");
    assert_eq!(owners(&connections, "c"), [layer3(1), layer3(6)]);
}

/// Deselection takes effect also while something else is invalid.
#[test]
fn deselection_always_takes_effect() {
    let networks =
        [cudn("a", 1, &["10.1.0.0/16"]), cudn("b", 2, &["10.2.0.0/16"]), cudn("bad", 3, &["10.1.0.0/24"])];
    let mut connections = decide(&networks, &[cnc("c")]);
    assert_eq!(acceptance(&connections, "c").0, Reason::OverlappingNetworkSubnets);
    connections.apply_network(Network { labels: labels(&[]), ..networks[1].clone() });
    assert_eq!(owners(&connections, "c"), [layer3(1)]);
}

/// A network that grows into another's addresses is left out; the other stays.
#[test]
fn a_network_that_grows_into_another_is_left_out() {
    let networks =
        [cudn("a", 1, &["10.1.0.0/16"]), cudn("b", 2, &["10.2.0.0/16"]), cudn("x", 3, &["10.3.0.0/16"])];
    let mut connections = decide(&networks, &[cnc("c")]);
    connections.apply_network(cudn("b", 2, &["10.2.0.0/16", "10.3.0.0/24"]));
    assert_eq!(owners(&connections, "c"), [layer3(1), layer3(3)]);
    let message =
        "Cannot connect networks 'x' and 'b': overlapping pod subnets 10.3.0.0/24 detected (selected networks have overlapping subnets)".to_owned();
    assert_eq!(acceptance(&connections, "c"), (Reason::OverlappingNetworkSubnets, message));
}

/// A connection that connects nothing yet keeps its subnets from younger ones; an older one takes them.
#[test]
fn who_connects_nothing_is_in_the_way_of_younger_ones_only() {
    let (a, b) = (cudn("a", 1, &["10.1.0.0/16"]), cudn("b", 2, &["10.2.0.0/16"]));
    let aged = |text: &str, created: i64, names: &[&str]| Connect { created, ..selecting(cnc(text), names) };
    for (idle_age, wins) in [(1, false), (9, true)] {
        let mut connections = decide(&[a.clone(), b.clone()], &[aged("idle", idle_age, &["a"])]);
        connections.apply_connect(aged("both", 5, &["a", "b"])).unwrap();
        let expected = if wins { vec![layer3(1), layer3(2)] } else { vec![layer3(2)] };
        assert_eq!(owners(&connections, "both"), expected, "the idle one is of {idle_age}");
        assert_eq!(owners(&connections, "idle").is_empty(), wins);
        let back: Vec<Connect> = [aged("idle", idle_age, &["a"]), aged("both", 5, &["a", "b"])]
            .map(|connect| written(&connections, &connect))
            .into();
        assert_eq!(owners(&decide(&[a.clone(), b.clone()], &back), "both"), expected, "after a restart");
    }
}

/// Networks that join one by one give the same.
#[test]
fn an_older_connection_takes_its_subnets_when_its_networks_come() {
    let (a, b) = (cudn("a", 1, &["10.1.0.0/16"]), cudn("b", 2, &["10.2.0.0/16"]));
    let aged = |text: &str, created: i64| Connect { created, ..cnc(text) };
    let connects =
        [aged("older", 1), Connect { selections: selecting(cnc("x"), &["a"]).selections, ..aged("idle", 2) }];
    let unlabelled = Network { labels: labels(&[]), ..a.clone() };
    let mut connections = decide(&[unlabelled], &connects);
    assert_eq!(owners(&connections, "idle"), [layer3(1)]);
    connections.apply_network(b);
    connections.apply_network(a);
    assert_eq!(
        (owners(&connections, "older"), owners(&connections, "idle")),
        (vec![layer3(1), layer3(2)], vec![])
    );
}
