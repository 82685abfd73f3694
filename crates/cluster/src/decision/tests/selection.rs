//! Which networks a connection selects.

use super::*;

fn by_namespace(connect: Connect) -> Connect {
    Connect { selections: vec![Selection::PrimaryUserDefinedNetworks(connected())], ..connect }
}

/// cnc-cases N01, W01.
#[test]
fn n01_w01_nothing_is_selected() {
    let connections = decide(&[], &[cnc("c")]);
    assert_eq!(owners(&connections, "c"), []);
    assert_eq!(connections.slots(&name("c")), None);
}

/// cnc-cases N02, N07.
#[test]
fn n02_n07_cluster_networks_by_their_labels() {
    let other = Network { labels: labels(&[]), ..cudn("other", 3, &["10.3.0.0/16"]) };
    let networks = [cudn("red", 1, &["10.1.0.0/16"]), flat(cudn("blue", 2, &["10.2.0.0/16"])), other];
    let connections = decide(&networks, &[cnc("c")]);
    assert_eq!(owners(&connections, "c"), [layer3(1), layer2(2)]);
    assert_eq!(connections.connections_of(&networks[0].name).collect::<Vec<_>>(), [&name("c")]);
    assert_eq!(connections.connections_of(&networks[2].name).count(), 0);
}

/// cnc-cases A07 and the specification's own sample: by name, which no label can forge.
#[test]
fn a07_cluster_networks_by_their_name() {
    let forged = Network {
        labels: labels(&[("kubernetes.io/metadata.name", "red")]),
        ..cudn("forged", 3, &["10.3.0.0/16"])
    };
    let networks = [cudn("red", 1, &["10.1.0.0/16"]), cudn("blue", 2, &["10.2.0.0/16"]), forged];
    let connections = decide(&networks, &[selecting(cnc("c"), &["red", "blue"])]);
    assert_eq!(owners(&connections, "c"), [layer3(1), layer3(2)]);
    let all = Connect {
        selections: vec![Selection::ClusterUserDefinedNetworks(Selector::default())],
        ..cnc("all")
    };
    assert_eq!(owners(&decide(&networks, &[all]), "all"), [layer3(1), layer3(2), layer3(3)]);
}

/// cnc-cases N04, N22: a hand-written NAD is not selected, whichever way.
#[test]
fn n04_n22_never_a_bare_nad() {
    let bare = Network { origin: NetworkOrigin::Bare, ..cudn("red", 1, &["10.1.0.0/16"]) };
    let both = Connect {
        selections: vec![
            Selection::ClusterUserDefinedNetworks(Selector::default()),
            Selection::PrimaryUserDefinedNetworks(Selector::default()),
        ],
        ..cnc("c")
    };
    let connections = start(std::slice::from_ref(&bare), &[namespace("ns", &[], &[&bare])], &[], &[both]);
    assert_eq!(owners(&connections, "c"), []);
}

/// cnc-cases N08, N11: the primary networks of namespaces; a namespace without one is passed over.
#[test]
fn n08_n11_networks_of_namespaces() {
    let (red, blue) = (udn("red", "net", 1, &["10.1.0.0/16"]), flat(udn("blue", "net", 2, &["10.2.0.0/16"])));
    let namespaces = [
        namespace("red", &[("connected", "yes")], &[&red]),
        namespace("blue", &[("connected", "yes")], &[&blue]),
        namespace("empty", &[("connected", "yes")], &[]),
        namespace("other", &[], &[]),
    ];
    let connections = start(&[red, blue], &namespaces, &[], &[by_namespace(cnc("c"))]);
    assert_eq!(owners(&connections, "c"), [layer3(1), layer2(2)]);
}

/// cnc-cases N10, N20: selected by both kinds and by three namespaces, a network counts once, and stays
/// until the last of them lets go.
#[test]
fn n10_n20_a_network_selected_twice_counts_once() {
    let (shared, own) = (cudn("shared", 1, &["10.1.0.0/16"]), udn("a", "own", 2, &["10.2.0.0/16"]));
    let yes: &[(&str, &str)] = &[("connected", "yes")];
    let namespaces = [
        namespace("a", yes, &[&shared, &own]),
        namespace("b", yes, &[&shared]),
        namespace("c", yes, &[&shared]),
    ];
    let union = Connect {
        selections: vec![
            Selection::ClusterUserDefinedNetworks(called(&["shared"])),
            Selection::PrimaryUserDefinedNetworks(connected()),
        ],
        ..cnc("c")
    };
    let mut connections = start(&[shared.clone(), own], &namespaces, &[], &[union]);
    assert_eq!(owners(&connections, "c"), [layer3(1), layer3(2)]);
    connections.delete_namespace(&namespaces[1].name);
    connections.apply_namespace(namespace("c", &[], &[&shared]));
    assert_eq!(owners(&connections, "c"), [layer3(1), layer3(2)]);
    connections.delete_namespace(&namespaces[0].name);
    assert_eq!(owners(&connections, "c"), [layer3(1)]);
}

/// cnc-cases N16, W10: a label comes and goes.
#[test]
fn n16_w10_labels_of_a_network_change() {
    let (red, blue) = (cudn("red", 1, &["10.1.0.0/16"]), cudn("blue", 2, &["10.2.0.0/16"]));
    let mut connections = decide(&[red.clone(), blue], &[cnc("c")]);
    let unlabelled = Network { labels: labels(&[]), ..red.clone() };
    assert_eq!(connections.apply_network(unlabelled), Dirty::from([name("c")]));
    assert_eq!(owners(&connections, "c"), [layer3(2)]);
    connections.apply_network(red.clone());
    assert_eq!(owners(&connections, "c"), [layer3(1), layer3(2)]);
    assert_eq!(connections.apply_network(red), Dirty::new(), "nothing changed");
}

/// cnc-cases N17, O05: a namespace's label comes and goes; what does not change the selection is nobody's business.
#[test]
fn n17_o05_labels_of_a_namespace_change() {
    let red = udn("red", "net", 1, &["10.1.0.0/16"]);
    let mut connections =
        start(std::slice::from_ref(&red), &[namespace("red", &[], &[&red])], &[], &[by_namespace(cnc("c"))]);
    assert_eq!(owners(&connections, "c"), []);
    let dirty = connections.apply_namespace(namespace("red", &[("connected", "yes")], &[&red]));
    assert_eq!((dirty, owners(&connections, "c")), (Dirty::from([name("c")]), vec![layer3(1)]));
    let dirty =
        connections.apply_namespace(namespace("red", &[("connected", "yes"), ("team", "a")], &[&red]));
    assert_eq!(dirty, Dirty::new());
    connections.apply_namespace(namespace("red", &[], &[&red]));
    assert_eq!(owners(&connections, "c"), []);
}

/// cnc-cases N19, W08: the selector itself changes.
#[test]
fn n19_w08_the_selector_changes() {
    let networks = [cudn("red", 1, &["10.1.0.0/16"]), cudn("blue", 2, &["10.2.0.0/16"])];
    let connect = selecting(cnc("c"), &["red"]);
    let mut connections = decide(&networks, std::slice::from_ref(&connect));
    assert_eq!(owners(&connections, "c"), [layer3(1)]);
    connections.apply_connect(selecting(written(&connections, &connect), &["red", "blue"])).unwrap();
    assert_eq!(owners(&connections, "c"), [layer3(1), layer3(2)]);
    connections.apply_connect(selecting(written(&connections, &connect), &["blue"])).unwrap();
    assert_eq!(owners(&connections, "c"), [layer3(2)]);
}

/// cnc-cases N23: a network without an id waits.
#[test]
fn n23_a_network_without_an_id_waits() {
    let red = cudn("red", 1, &["10.1.0.0/16"]);
    let mut connections = decide(&[Network { id: None, ..red.clone() }], &[cnc("c")]);
    assert_eq!(owners(&connections, "c"), []);
    connections.apply_network(red);
    assert_eq!(owners(&connections, "c"), [layer3(1)]);
}

/// cnc-cases W07: networks are deleted.
#[test]
fn w07_networks_are_deleted() {
    let networks = [cudn("red", 1, &["10.1.0.0/16"]), flat(cudn("blue", 2, &["10.2.0.0/16"]))];
    let mut connections = decide(&networks, &[cnc("c")]);
    connections.delete_network(&networks[1].name);
    assert_eq!(owners(&connections, "c"), [layer3(1)]);
    connections.delete_network(&networks[0].name);
    assert_eq!(owners(&connections, "c"), []);
    assert_eq!(connections.slots(&name("c")), None, "nothing was ever written");
}

/// cnc-cases O01, O02, O07: who hears of an event.
#[test]
fn o01_o02_o07_who_hears_of_an_event() {
    let (red, blue) = (udn("red", "net", 1, &["10.1.0.0/16"]), cudn("blue", 2, &["10.2.0.0/16"]));
    let connects = [by_namespace(cnc("by-namespace")), on(cnc("by-label"), &[("172.16.0.0/16", 24)])];
    let plain = namespace("red", &[], &[&red]);
    let mut connections = start(&[red.clone(), blue], std::slice::from_ref(&plain), &[], &connects);
    let nobody = Dirty::new();
    assert_eq!(connections.apply_connect(connects[0].clone()), Ok(nobody.clone()), "unchanged");
    assert_eq!(
        connections.apply_network(cudn("other", 3, &["10.3.0.0/16"])),
        Dirty::from([name("by-label")])
    );
    let unlabelled = Network { labels: labels(&[]), ..cudn("more", 4, &["10.4.0.0/16"]) };
    assert_eq!(connections.apply_network(unlabelled), nobody, "never matched");
    let labelled = namespace("red", &[("connected", "yes")], &[&red]);
    assert_eq!(connections.apply_namespace(labelled), Dirty::from([name("by-namespace")]));
    assert_eq!(connections.apply_namespace(namespace("default", &[("connected", "yes")], &[])), nobody);
    assert_eq!(connections.delete_namespace(&plain.name), Dirty::from([name("by-namespace")]));
    assert_eq!(connections.delete_namespace(&plain.name), nobody);
    assert_eq!(connections.delete_connect(&name("gone")), nobody);
}

/// A decision follows the networks of the connections that it touches, however many others there are.
#[test]
fn a_decision_costs_what_it_touches() {
    let networks: Vec<Network> =
        (1..=200).map(|id| cudn(&format!("n{id}"), id, &[&format!("10.{id}.0.0/16")])).collect();
    let connects: Vec<Connect> = (0..100)
        .map(|number| {
            let names = [format!("n{}", 2 * number + 1), format!("n{}", 2 * number + 2)];
            selecting(cnc(&format!("c{number}")), &names.each_ref().map(String::as_str))
        })
        .collect();
    let mut connections = decide(&networks, &connects);
    let before = connections.selecting.followed;
    connections.apply_connect(selecting(cnc("c0"), &["n1"])).unwrap();
    connections.delete_network(&networks[199].name);
    let followed = connections.selecting.followed - before;
    assert!(followed <= 8, "{followed} networks were followed");
}
