//! Networks on the fabric: rows and what the node needs, as files to read and as rules that hold.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_plan::host::host;
use causeway_plan::northbound;
use causeway_record::{Nad, Node};
use causeway_types::host::{HostPlan, Item, Key, LinkKind, Owner, Target};
use causeway_zone::{Subject, Zone};
use serde_json::{Value, json};
use support::check::{assert_golden, feed, show};
use support::{COLOURS, Ip, annotate, config, connect, layer3, nad, node, table, without};

const VTEPS: &str = r#"{"fabric":{"ips":["10.255.0.1"]}}"#;

fn here() -> Node {
    annotate(node("n1", 2), "vteps", VTEPS)
}

/// A network of either topology with an ipVRF.
fn on_fabric(topology: &str, ip: Ip, vrf: &Value) -> Nad {
    let (name, id, subnets) = match topology {
        "layer3" => ("blue", 1, ip.pick("10.20.0.0/16/24", "fd20::/48/64")),
        _ => ("green", 5, ip.pick("203.203.0.0/16", "2010:100:200::/60")),
    };
    let mut evpn = json!({"vtep": "fabric", "ipVRF": vrf});
    if topology == "layer2" {
        evpn["macVRF"] = json!({"vni": 77});
    }
    let fields =
        json!({"topology": topology, "subnets": subnets.join(","), "transport": "evpn", "evpn": evpn});
    let mut nad = nad(&format!("ns{id}/{name}"), &format!("cluster_udn_{name}"), id, fields);
    if topology == "layer2" {
        nad.annotate("k8s.ovn.org/tunnel-keys", Some("[16711688,16715780]"));
    }
    nad
}

fn zone(ip: Ip, node: &Node, nads: &[Nad]) -> Zone {
    let mut zone = Zone::new(config(ip));
    zone.apply_node(node);
    zone.apply_node(&support::node("n2", 3));
    nads.iter().for_each(|nad| drop(zone.apply_nad(nad)));
    zone
}

fn plain() -> Value {
    json!({"vni": 1001})
}

/// What a network needs on the node, FRR's sections in full.
fn needs(plan: &HostPlan, network: &str) -> String {
    let owner = Owner::network(&network.parse().unwrap());
    let owned = plan.items().values().filter(|planned| planned.owner == owner);
    let text = |item: &Item| match item {
        Item::Section(section) => format!("{item}\n{}", section.lines),
        Item::Table(table) => format!("{item}\n{}", table.body),
        _ => format!("{item}\n"),
    };
    owned.map(|planned| text(&planned.item)).collect()
}

fn section(plan: &HostPlan, first: &str) -> String {
    match plan.get(&Key::Section(first.into())) {
        Some(Item::Section(section)) => section.lines.clone(),
        other => panic!("{first}: {other:?}"),
    }
}

#[test]
fn what_the_node_has_for_a_network() {
    for (topology, name) in [("layer3", "cluster_udn_blue"), ("layer2", "cluster_udn_green")] {
        for ip in Ip::ALL {
            let zone = zone(ip, &here(), &[on_fabric(topology, ip, &plain())]);
            let rows = show(&northbound(&zone), &[&format!("network:{name}:fabric")]);
            let text = format!("{rows}\n{}", needs(&host(&zone), name));
            assert_golden(&format!("fabric-{topology}-{}", ip.name()), &text);
        }
    }
}

/// Defect 8 of the agents in the field: no two VRFs have one table, and none has a VNI's.
#[test]
fn tables_are_clear_of_vnis() {
    let other = json!({"vni": 16_777_215});
    let nads = [on_fabric("layer3", Ip::V4, &plain()), on_fabric("layer2", Ip::V4, &other)];
    let plan = host(&zone(Ip::V4, &here(), &nads));
    let table = |item: &Item| match item {
        Item::Link(link) => match link.kind {
            LinkKind::Vrf { table } => Some((link.name.clone(), table)),
            _ => None,
        },
        _ => None,
    };
    let tables: Vec<(String, u32)> =
        plan.items().values().filter_map(|planned| table(&planned.item)).collect();
    assert_eq!(tables, [("blue".into(), (1 << 24) + 1), ("green".into(), (1 << 24) + 5)]);
    assert!(plan.clashes().is_empty());
}

#[test]
fn targets_are_said_where_they_are_not_the_usual_one() {
    let targets = |target: Value| -> Vec<String> {
        let vrf = json!({"vni": 1001, "routeTarget": target});
        let plan = host(&zone(Ip::V4, &here(), &[on_fabric("layer3", Ip::V4, &vrf)]));
        let lines = section(&plan, "router bgp 64999 vrf blue");
        lines
            .lines()
            .filter(|line| line.contains("route-target"))
            .map(|line| line.trim().to_owned())
            .collect()
    };
    assert_eq!(targets(json!("65000:7")), ["route-target import 65000:7", "route-target export 65000:7"]);
    assert_eq!(targets(json!("*:7")), ["route-target import *:7", "route-target export 64999:7"]);
    assert_eq!(targets(json!("64999:1001")), [] as [&str; 0]);
}

/// Two networks with equal addresses: each has its own table, and neither has a way into the other.
#[test]
fn networks_with_equal_addresses_stay_apart() {
    let mut twin = nad(
        "ns9/twin",
        "cluster_udn_twin",
        9,
        json!({"topology": "layer3", "subnets": "10.20.0.0/16/24", "transport": "evpn",
               "evpn": {"vtep": "fabric", "ipVRF": {"vni": 1002}}}),
    );
    twin.annotate("k8s.ovn.org/network-id", Some("9"));
    let plan = host(&zone(Ip::V4, &here(), &[on_fabric("layer3", Ip::V4, &plain()), twin]));
    assert!(plan.clashes().is_empty(), "{:?}", plan.clashes());
    let forwards = plan.items().values().filter(|planned| match &planned.item {
        Item::Route(route) => {
            route.target != Target::Unreachable && planned.owner.as_str().starts_with("network:cluster")
        }
        _ => false,
    });
    assert_eq!(forwards.count(), 0, "what is on a device is the only way");
    for vrf in ["blue", "twin"] {
        assert!(plan.get(&Key::Section(format!("vrf {vrf}"))).is_some());
    }
}

/// Without an end of the tunnels what is there stays, it is said, and a tenant's packets do not leave by the node's own routes instead.
#[test]
fn a_node_without_an_end_of_tunnels() {
    let nads = [on_fabric("layer3", Ip::V4, &plain())];
    let mut zone = zone(Ip::V4, &without(here(), "vteps"), &nads);
    let network = "cluster_udn_blue".parse().unwrap();
    let said =
        |zone: &Zone| zone.problems().get(&Subject::Network("cluster_udn_blue".parse().unwrap())).cloned();
    let reason = "node n1 has no address of VTEP fabric: look at the VTEP's conditions";
    assert_eq!(host(&zone).hold_of(&Owner::network(&network)), Some(reason));
    assert!(said(&zone).unwrap().message.ends_with(reason));
    let policies =
        table(&northbound(&zone), "", "Logical_Router_Policy", &["priority", "action", "nexthops"]);
    assert!(policies.contains(&"1003 | reroute | 10.20.0.2".to_owned()), "{policies:?}");
    zone.apply_node(&here());
    assert_eq!((host(&zone).hold_of(&Owner::network(&network)), said(&zone)), (None, None));
    // A text that cannot be read breaks nothing that stands.
    zone.apply_node(&annotate(here(), "vteps", "nonsense"));
    assert_eq!(host(&zone).hold_of(&Owner::network(&network)), None);
}

/// What a network is connected with is reached by the connection; everything else that is not its own leaves by the fabric.
#[test]
fn connected_networks_meet_before_the_fabric() {
    for topology in ["transit", "compact"] {
        let nads = [
            on_fabric("layer3", Ip::V4, &plain()),
            layer3("orange", 2, Ip::V4),
            on_fabric("layer2", Ip::V4, &json!({"vni": 5})),
        ];
        let mut zone = zone(Ip::V4, &here(), &nads);
        zone.apply_connect(&connect("road", topology, Ip::V4, &COLOURS[..2]));
        let policies = table(&northbound(&zone), "", "Logical_Router_Policy", &["priority", "match"]);
        let of = |start: &str| policies.iter().filter(|policy| policy.starts_with(start)).count();
        assert_eq!(of("1003 | inport == \"rtos-cluster_udn_blue_n1\""), 1, "{policies:?}");
        let meets = |to: &str| {
            let of_blue = |policy: &&String| {
                policy.contains("rtos-cluster_udn_blue_n1") && !policy.starts_with("1003 ")
            };
            policies
                .iter()
                .filter(of_blue)
                .any(|policy| policy.starts_with("9001 ") && names(&zone, policy, to))
        };
        assert!(meets("10.30."), "{topology}: {policies:?}");
        assert!(!meets("203.203."), "{topology}: unconnected networks stay apart: {policies:?}");
    }
}

/// Whether a match names a subnet, itself or by a set of addresses.
fn names(zone: &Zone, policy: &str, to: &str) -> bool {
    let sets = table(&northbound(zone), "", "Address_Set", &["name", "addresses"]);
    let by_set = |set: &String| {
        set.split_once(" | ")
            .is_some_and(|(name, addresses)| policy.contains(&format!("${name} ")) && addresses.contains(to))
    };
    policy.contains(&format!("dst == {to}")) || sets.iter().any(by_set)
}

/// The firewall takes what is planned for it.
#[test]
fn the_firewall_loads() {
    let plan = host(&zone(Ip::Dual, &here(), &[on_fabric("layer3", Ip::Dual, &plain())]));
    for planned in plan.items().values() {
        if let Item::Table(table) = &planned.item
            && table.name.starts_with("causeway-fabric")
        {
            feed(
                &["nft", "--check", "--file", "-"],
                &format!("table inet {} {{\n{}}}\n", table.name, table.body),
            );
            return;
        }
    }
    panic!("there is no table");
}
