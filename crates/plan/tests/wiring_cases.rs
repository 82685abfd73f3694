//! What a pod is connected with, as the CNI server hears it.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_plan::wiring::{Missing, Verdict, follows, wiring};
use causeway_record::{ObjectKey, Pod};
use causeway_types::NetworkName;
use causeway_zone::{Change, Zone};
use serde_json::json;
use support::*;

type Entry<'a> = (&'a str, &'a str, &'a [&'a str], Option<u32>);

/// The networks that pods below are on: two primary ones in two namespaces, two secondary ones.
fn zone() -> Zone {
    let mut zone = two_nodes(Ip::V4, None);
    let networks = [
        ("ns1/blue", "ns1_blue", 1, "10.20.0.0/16", "primary"),
        ("ns1/more", "ns1_more", 2, "10.30.0.0/16", "secondary"),
        ("ns1/wide", "ns1_wide", 3, "10.0.0.0/8", "secondary"),
        ("ns2/red", "ns2_red", 4, "10.40.0.0/16", "primary"),
    ];
    for (key, name, id, subnet, role) in networks {
        let config = json!({"topology": "layer3", "role": role, "subnets": format!("{subnet}/24")});
        zone.apply_nad(&nad(key, name, id, config));
    }
    zone
}

fn web(entries: &[Entry<'_>]) -> Pod {
    let default: Entry<'_> = ("default", "primary", &["10.244.0.5/24"], None);
    pod("ns1/web", "n1", &[&[default], entries].concat())
}

/// The networks that the pod is connected with, or why it is not.
fn verdict(zone: &mut Zone, pod: &Pod) -> Result<Vec<String>, String> {
    zone.apply_pod(pod);
    match wiring(zone, &pod.key).map(|wiring| wiring.verdict) {
        None => Err("unknown".into()),
        Some(Verdict::Connect(attached)) => Ok(attached.iter().map(|one| one.network.to_string()).collect()),
        Some(Verdict::Wait(missing)) => Err(format!("{missing:?}")),
        Some(Verdict::Refuse(refusal)) => Err(refusal.message),
    }
}

#[test]
fn networks_follow_from_the_annotation() {
    let blue: Entry<'_> = ("ns1/blue", "primary", &["10.20.1.5/24"], None);
    let more: Entry<'_> = ("ns1/more", "secondary", &["10.30.1.5/24"], None);
    let table: [(&[Entry<'_>], &[&str]); 4] = [
        (&[], &["default"]),
        (&[blue], &["default", "ns1_blue"]),
        (&[more], &["default"]),
        (&[blue, more], &["default", "ns1_blue"]),
    ];
    for (entries, networks) in table {
        let expected: Vec<String> = networks.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(verdict(&mut zone(), &web(entries)), Ok(expected));
    }
}

#[test]
fn nobody_gets_into_a_network_by_the_annotation_alone() {
    let table = [
        ("ns2/red", "pod ns1/web names ns2/red as its primary network, which is in another namespace"),
        ("ns1/more", "pod ns1/web names ns1/more as its primary network, which is not a primary network"),
    ];
    for (nad, words) in table {
        let pod = web(&[(nad, "primary", &["10.99.1.5/24"], None)]);
        assert_eq!(verdict(&mut zone(), &pod), Err(words.to_owned()));
    }
}

#[test]
fn overlaps_count_between_any_two_networks_of_a_pod() {
    let pod = web(&[
        ("ns1/blue", "primary", &["10.20.1.5/24"], None),
        ("ns1/wide", "secondary", &["10.99.1.5/24"], None),
    ]);
    let words = "pod ns1/web cannot be on networks default and ns1_wide: their subnets 10.244.0.0/16 and \
                 10.0.0.0/8 overlap";
    assert_eq!(verdict(&mut zone(), &pod), Err(words.to_owned()));
}

#[test]
fn what_is_missing_is_named() {
    let mut zone = zone();
    let unknown = web(&[("ns1/new", "primary", &["10.50.1.5/24"], None)]);
    assert_eq!(verdict(&mut zone, &unknown), Err("Network(Nad(\"ns1/new\"), None)".to_owned()));
    let mut bare = web(&[]);
    bare.annotate("k8s.ovn.org/pod-networks", None);
    assert_eq!(verdict(&mut zone, &bare), Err(format!("{:?}", Missing::Addresses)));
    zone.apply_namespace(&namespace("ns1", true));
    assert_eq!(verdict(&mut zone, &web(&[])), Err(format!("{:?}", Missing::PrimaryAddresses)));
    zone.delete_nad(&key("ns1", "blue"));
    assert_eq!(verdict(&mut zone, &web(&[])), Err(format!("{:?}", Missing::PrimaryNetwork)));
    assert_eq!(verdict(&mut zone, &pod("ns1/web", "n2", &[])), Err("unknown".into()));
}

/// A network that two definitions claim, or that is broken, wires nobody: the server has no weaker rules than the zone.
#[test]
fn a_network_that_is_not_rendered_wires_nobody() {
    let mut zone = zone();
    let pod = web(&[("ns1/blue", "primary", &["10.20.1.5/24"], None)]);
    let clashing = nad("ns3/x", "ns3_x", 1, json!({"topology": "layer3", "subnets": "10.60.0.0/16/24"}));
    zone.apply_nad(&clashing);
    let said = verdict(&mut zone, &pod).unwrap_err();
    assert!(said.contains("networks ns1_blue and ns3_x both have the id 1"), "{said}");
    let changes = zone.delete_nad(&clashing.key);
    let woken: Vec<ObjectKey> = changes.iter().flat_map(|change| follows(&zone, change)).collect();
    assert!(woken.contains(&pod.key), "{changes:?}");
    assert_eq!(verdict(&mut zone, &pod), Ok(vec!["default".into(), "ns1_blue".into()]));
}

#[test]
fn who_is_woken_by_what() {
    let mut zone = zone();
    let (one, far) = (web(&[("ns1/blue", "primary", &["10.20.1.5/24"], None)]), pod("ns1/far", "n2", &[]));
    let woken = |zone: &Zone, change: Change| follows(zone, &change);
    let changes = zone.apply_pod(&one);
    assert!(changes.iter().any(|change| *change == Change::Local(one.key.clone())));
    assert!(zone.apply_pod(&far).is_empty(), "it is another node's");
    let own = vec![one.key.clone()];
    assert_eq!(woken(&zone, Change::Everything), own);
    assert_eq!(woken(&zone, Change::Network(NetworkName::new("ns1_blue").unwrap())), own);
    assert_eq!(woken(&zone, Change::Network(NetworkName::new("ns2_red").unwrap())), []);
    assert_eq!(woken(&zone, Change::Namespace("ns1".parse().unwrap())), own);
    assert!(zone.apply_pod(&one).is_empty(), "nothing is new");
}
