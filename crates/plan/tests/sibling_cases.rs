//! J and M: several primary networks for one namespace, as rows. n1 is this node.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_plan::{Dirty, northbound};
use causeway_record::{Nad, ObjectKey};
use causeway_types::NetworkSet;
use causeway_zone::{Change, Zone};
use serde_json::json;
use support::check::{assert_golden, show};
use support::*;

/// What networks with the selector of a team have in common.
fn set(team: &str) -> NetworkSet {
    NetworkSet::of(team)
}

/// The router of their road.
fn router(team: &str) -> String {
    format!("connect-router-_cudn.{}", set(team))
}

/// A primary network of a namespace: layer3 with an odd number, layer2 with an even one.
fn sibling(namespace: &str, name: &str, id: u32) -> Nad {
    sibling_of(namespace, name, id, "team")
}

/// The same, with another selector.
fn sibling_of(namespace: &str, name: &str, id: u32, team: &str) -> Nad {
    let network = format!("cluster_udn_{name}");
    let (topology, subnets) = match id % 2 {
        1 => ("layer3", format!("10.{id}.0.0/16/24")),
        _ => ("layer2", format!("203.{id}.0.0/16")),
    };
    let mut nad =
        nad(&format!("{namespace}/{name}"), &network, id, json!({"topology": topology, "subnets": subnets}));
    nad.created = i64::from(id);
    nad.annotate("k8s.ovn.org/primary-network-set", Some(&set(team).to_string()));
    nad
}

/// Two nodes, and these networks in `ns1`.
fn zone(gateway: Option<&str>, ids: &[u32]) -> Zone {
    let mut zone = two_nodes(Ip::V4, gateway);
    zone.apply_namespace(&namespace("ns1", true));
    for id in ids {
        zone.apply_nad(&sibling("ns1", &format!("s{id}"), *id));
    }
    zone
}

fn rows(zone: &Zone, prefix: &str, kind: &str, columns: &[&str]) -> Vec<String> {
    table(&northbound(zone), prefix, kind, columns)
}

/// Everything that is planned for roads.
fn roads(zone: &Zone) -> String {
    show(&northbound(zone), &["cnc:"])
}

/// Every row of a road between two networks, as a file to read.
#[test]
fn the_road_between_two_networks() {
    assert_golden("siblings-ipv4", &roads(&zone(None, &[3, 4])));
}

/// J037: a network alone has no road, and one that goes leaves nothing of it.
#[test]
fn j037_one_that_goes_leaves_nothing() {
    let mut two = zone(None, &[3, 4]);
    assert_eq!(roads(&zone(None, &[3])), "");
    two.delete_nad(&key("ns1", "s4"));
    assert_eq!(roads(&two), "");
    let mut three = zone(None, &[3, 4, 5]);
    three.delete_nad(&key("ns1", "s5"));
    assert_eq!(roads(&three), roads(&zone(None, &[3, 4])));
}

/// J040: no router has two ports in one subnet, whichever connections it is in.
#[test]
fn j040_links_are_apart() {
    let mut zone = zone(None, &[3, 4, 5]);
    zone.apply_connect(&connect("c", "compact", Ip::V4, &["layer3_3", "layer2_4"]));
    let mut links = rows(&zone, "", "Logical_Router_Port", &["networks"]);
    links.retain(|networks| networks.contains("/31"));
    let all = links.len();
    links.sort();
    links.dedup();
    assert_eq!((links.len(), all), (10, 10), "{links:?}");
}

/// Roads are named by what all networks on them have in common: whichever of these goes, nothing of the others is another one.
#[test]
fn names_of_roads() {
    let routers = |zone: &Zone| rows(zone, "cnc:", "Logical_Router", &["name"]);
    let mut cluster = zone(None, &[3, 4, 5]);
    assert_eq!(routers(&cluster), [router("team")]);
    let others = |zone: &Zone| {
        let planner = northbound(zone);
        ["s4", "s5"]
            .map(|name| show(&planner, &[&format!("cnc:_cudn.{}:network:cluster_udn_{name}:", set("team"))]))
    };
    let before = others(&cluster);
    assert!(before.iter().all(|rows| rows.contains("Logical_Router_Port")), "{before:?}");
    cluster.delete_nad(&key("ns1", "s3"));
    assert_eq!((routers(&cluster), others(&cluster)), (vec![router("team")], before));
    assert_eq!(roads(&cluster), roads(&zone(None, &[4, 5])));

    let mut own = two_nodes(Ip::V4, None);
    for id in [3, 5, 7] {
        let config = json!({"topology": "layer3", "subnets": format!("10.{id}.0.0/16/24")});
        own.apply_nad(&nad(&format!("ns1/u{id}"), &format!("ns1_u{id}"), id, config));
    }
    assert_eq!(routers(&own), ["connect-router-_udn.ns1"]);
    own.delete_nad(&key("ns1", "u3"));
    assert_eq!(routers(&own), ["connect-router-_udn.ns1"]);
}

/// Two roads never have one name, whatever definitions say and in whichever order they come: while those of one set are being written, the
/// networks may be side by side in parts. A network whose definitions do not say its set has a road all the same.
#[test]
fn roads_that_would_have_one_name() {
    let routers = |zone: &Zone| {
        let mut names = rows(zone, "cnc:", "Logical_Router", &["name"]);
        names.sort();
        names
    };
    let parts = |order: &[(&str, u32)]| {
        let mut zone = two_nodes(Ip::V4, None);
        for (namespace, id) in order {
            zone.apply_nad(&sibling(namespace, &format!("s{id}"), *id));
        }
        zone
    };
    let mut both = parts(&[("ns1", 3), ("ns1", 4), ("ns2", 5), ("ns2", 6)]);
    let expected = ["connect-router-_cudn.5".to_owned(), router("team")];
    assert_eq!(routers(&both), expected);
    let turned = parts(&[("ns2", 6), ("ns2", 5), ("ns1", 4), ("ns1", 3)]);
    assert_eq!((routers(&turned), roads(&turned)), (expected.into(), roads(&both)));
    // The first pair goes, and the other one has the name alone.
    let mut left = parts(&[("ns1", 3), ("ns1", 4), ("ns2", 5), ("ns2", 6)]);
    left.delete_nad(&key("ns1", "s3"));
    assert_eq!(routers(&left), [router("team")]);
    assert_eq!(roads(&left), roads(&parts(&[("ns2", 5), ("ns2", 6)])));
    // They meet.
    both.apply_nad(&sibling("ns1", "s5", 5));
    assert_eq!(routers(&both), [router("team")]);
    assert_eq!(roads(&both), roads(&parts(&[("ns1", 3), ("ns1", 4), ("ns1", 5), ("ns1", 6)])));

    let mut silent = zone(None, &[3]);
    let mut nad = sibling("ns1", "s4", 4);
    nad.annotate("k8s.ovn.org/primary-network-set", None);
    silent.apply_nad(&nad);
    assert_eq!(routers(&silent), [router("team")]);
    let mut first = sibling("ns1", "s3", 3);
    first.annotate("k8s.ovn.org/primary-network-set", None);
    silent.apply_nad(&first);
    assert_eq!(routers(&silent), ["connect-router-_cudn.3"]);
}

/// Selectors of networks that run can only be changed one by one. In between the road is that of the first of them.
#[test]
fn a_road_whose_networks_select_otherwise() {
    let routers = |zone: &Zone| rows(zone, "cnc:", "Logical_Router", &["name"]);
    let mut zone = zone(None, &[3, 4]);
    zone.apply_nad(&sibling_of("ns1", "s4", 4, "wider"));
    assert_eq!(routers(&zone), [router("team")]);
    zone.apply_nad(&sibling_of("ns1", "s3", 3, "wider"));
    assert_eq!(routers(&zone), [router("wider")]);
}

/// A road has the families that its networks have: a link, a route and a policy of each, and nothing of another one.
#[test]
fn roads_of_every_family() {
    let road = |ip: Ip| {
        let mut zone = two_nodes(ip, None);
        for (id, topology, four, six) in
            [(3, "layer3", "10.3.0.0/16/24", "fd10:3::/48/64"), (4, "layer2", "203.4.0.0/16", "fd20:4::/64")]
        {
            let config = json!({"topology": topology, "subnets": ip.pick(four, six).join(",")});
            zone.apply_nad(&nad(&format!("ns1/u{id}"), &format!("ns1_u{id}"), id, config));
        }
        let rows = |kind: &str, column: &str| rows(&zone, "cnc:", kind, &[column]).join(" ");
        let all = roads(&zone);
        let four = ["169.254.64.", "ip4.dst", "10.3.0.0/16", "203.4.0.0/16"].map(|text| all.contains(text));
        let six = ["fd69::40", "ip6.dst", "fd10:3::/48", "fd20:4::/64"].map(|text| all.contains(text));
        let policies = rows("Logical_Router_Policy", "match").matches("inport ==").count();
        let routes = rows("Logical_Router_Static_Route", "ip_prefix").split(' ').count();
        (four, six, policies, routes)
    };
    assert_eq!(road(Ip::V4), ([true; 4], [false; 4], 2, 2));
    assert_eq!(road(Ip::V6), ([false; 4], [true; 4], 2, 2));
    assert_eq!(road(Ip::Dual), ([true; 4], [true; 4], 4, 4));
}

/// Another namespace of the same networks changes nothing of the road, and a network that joins concerns nobody's links but its own.
#[test]
fn a_set_grows_by_its_own_rows_alone() {
    let mut zone = zone(None, &[3, 4]);
    let before = roads(&zone);
    for id in [3, 4] {
        zone.apply_nad(&sibling("ns2", &format!("s{id}"), id));
    }
    assert_eq!(roads(&zone), before);
    let changes = zone.apply_nad(&sibling("ns1", "s5", 5));
    assert!(!changes.iter().any(|change| matches!(change, Change::Connect(_))), "{changes:?}");
    let slices = Dirty::after(&zone, &changes).northbound;
    let others = slices.iter().filter(|slice| {
        slice.starts_with(&format!("cnc:_cudn.{}:network:", set("team"))) && !slice.contains("s5")
    });
    assert_eq!(others.count(), 0, "{slices:?}");
}

/// 20 networks for 50 namespaces: what each costs does not grow with how many there are.
#[test]
fn rows_of_a_sibling_are_few_however_many_there_are() {
    let count = |networks: u32| {
        let mut zone = two_nodes(Ip::V4, None);
        for number in 0..50 {
            for id in 3..3 + networks {
                zone.apply_nad(&sibling(&format!("ns{number}"), &format!("s{id}"), id));
            }
        }
        let kinds =
            ["Logical_Router", "Logical_Router_Port", "Logical_Router_Static_Route", "Logical_Router_Policy"];
        kinds.iter().map(|kind| rows(&zone, "cnc:", kind, &["external_ids"]).len()).sum::<usize>()
    };
    let (two, ten, twenty) = (count(2), count(10), count(20));
    assert_eq!((ten - two, twenty - ten), (8 * 4, 10 * 4), "two ports, a route and a policy for each");
}

/// A service of `ns1` with an endpoint on each of networks 3 and 4.
fn served(gateway: Option<&str>) -> Zone {
    let mut zone = zone(gateway, &[3, 4]);
    zone.apply_service(&service("ns1/web", &["10.96.0.50"]));
    let mirror = slice("ns1/web-1", "web", Some("cluster_udn_s3"), &["10.3.0.5@n1", "203.4.0.7@n2"]);
    zone.apply_endpoint_slice(&mirror);
    zone
}

const WEB: &str = "service:ns1:web:";

/// J031: the load balancer is on the switches of both, with all endpoints; by a gateway router only its own are reached.
#[test]
fn j031_services_are_on_both() {
    let both = "10.96.0.50:80=10.3.0.5:8080,203.4.0.7:8080";
    assert_eq!(
        rows(&served(None), WEB, "Load_Balancer", &["name", "vips"]),
        ["s3", "s4"].map(|name| format!("cluster_udn_{name}_Service_ns1/web_TCP_node_switch_n1 | {both}"))
    );
    let with_gateway = rows(&served(Some("shared")), WEB, "Load_Balancer", &["name", "vips"]);
    let on_router: Vec<&String> = with_gateway.iter().filter(|row| row.contains("node_router")).collect();
    assert_eq!(
        on_router,
        [
            "cluster_udn_s3_Service_ns1/web_TCP_node_router_n1 | 10.96.0.50:80=10.3.0.5:8080",
            "cluster_udn_s4_Service_ns1/web_TCP_node_router_n1 | 10.96.0.50:80=203.4.0.7:8080",
        ]
    );
}

/// What joins others concerns services there, and those that know it; what is older than they, or goes, concerns all.
#[test]
fn a_sibling_that_comes_looks_at_its_own_services() {
    let looked_at = |zone: &Zone, changes: &causeway_zone::Changes| {
        let slices = Dirty::after(zone, changes).northbound.into_iter();
        let mut found: Vec<String> = slices.filter(|slice| slice.starts_with("service:")).collect();
        found.sort();
        found
    };
    let mut zone = served(Some("shared"));
    zone.apply_service(&service("ns1/other", &["10.96.0.51"]));
    zone.apply_endpoint_slice(&slice("ns1/other-1", "other", Some("cluster_udn_s3"), &["10.3.0.6@n1"]));
    let changes = zone.apply_nad(&sibling("ns1", "s5", 5));
    assert_eq!(
        looked_at(&zone, &changes),
        ["service:ns1:other:cluster_udn_s5:", "service:ns1:web:cluster_udn_s5:"]
    );
    zone.apply_endpoint_slice(&slice("ns1/other-1", "other", Some("cluster_udn_s3"), &["10.7.0.5@n1"]));
    let changes = zone.apply_nad(&sibling("ns1", "s7", 7));
    assert_eq!(
        looked_at(&zone, &changes),
        ["service:ns1:other:", "service:ns1:other:cluster_udn_s7:", "service:ns1:web:cluster_udn_s7:"]
    );
    let mut old = sibling("ns1", "s9", 9);
    old.annotate("k8s.ovn.org/primary-network-created", Some("1"));
    let changes = zone.apply_nad(&old);
    assert!(looked_at(&zone, &changes).contains(&"service:ns1:".to_owned()), "{changes:?}");
    let changes = zone.delete_nad(&key("ns1", "s7"));
    assert!(looked_at(&zone, &changes).contains(&"service:ns1:".to_owned()), "{changes:?}");
}

/// Siblings are older and younger by their objects, which a namespace's definitions say: those may have come at once, or anew.
#[test]
fn the_age_of_a_network_is_that_of_its_object() {
    let of = |created: [Option<&str>; 2]| {
        let mut zone = two_nodes(Ip::V4, None);
        for (id, created) in [3, 4].into_iter().zip(created) {
            let mut nad = sibling("ns1", &format!("s{id}"), id);
            nad.created = 100;
            nad.annotate("k8s.ovn.org/primary-network-created", created);
            zone.apply_nad(&nad);
        }
        let namespace = "ns1".parse().unwrap();
        zone.primaries(&namespace).into_iter().map(|(_, name)| name.to_string()).collect::<Vec<_>>()
    };
    let (three, four) = ("cluster_udn_s3", "cluster_udn_s4");
    assert_eq!(of([Some("20"), Some("10")]), [four, three]);
    assert_eq!(of([Some("10"), Some("20")]), [three, four]);
    assert_eq!(of([None, None]), [three, four], "by name, when nothing else tells");
    assert_eq!(of([None, Some("10")]), [four, three], "what does not say so is as old as its definition");
}

/// The way in from outside is the oldest network with an endpoint, and follows the endpoints.
#[test]
fn the_entry_is_the_oldest_with_an_endpoint() {
    let web: ObjectKey = key("ns1", "web");
    let mut zone = served(Some("shared"));
    let entry = |zone: &Zone| zone.entry_network(&web).unwrap().to_string();
    assert_eq!(entry(&zone), "cluster_udn_s3");
    zone.apply_endpoint_slice(&slice("ns1/web-1", "web", Some("cluster_udn_s3"), &["203.4.0.7@n2"]));
    assert_eq!(entry(&zone), "cluster_udn_s4");
    zone.apply_endpoint_slice(&slice("ns1/web-1", "web", Some("cluster_udn_s3"), &[]));
    assert_eq!(entry(&zone), "cluster_udn_s3");
}

/// Its endpoints are chosen as targets are: ready ones, then those that serve while they go; on the node itself if only these serve.
#[test]
fn the_entry_has_the_targets() {
    let web: ObjectKey = key("ns1", "web");
    let mut zone = served(Some("shared"));
    // The endpoints of networks 3 and 4, each with whether it is ready, and whether it goes.
    let entry = |zone: &mut Zone, three: (bool, bool), four: (bool, bool)| {
        let mut mirror = slice("ns1/web-1", "web", Some("cluster_udn_s3"), &["10.3.0.5@n1", "203.4.0.7@n2"]);
        for (endpoint, (ready, going)) in mirror.endpoints.iter_mut().zip([three, four]) {
            endpoint.conditions.ready = Some(ready);
            endpoint.conditions.serving = Some(ready || going);
            endpoint.conditions.terminating = Some(going);
        }
        zone.apply_endpoint_slice(&mirror);
        let router = rows(zone, WEB, "Load_Balancer", &["name", "vips"]);
        let network = zone.entry_network(&web).unwrap();
        // Where all targets are its own, the load balancer is the same on all routers and switches.
        let names =
            ["node_router_n1", "cluster"].map(|word| format!("{network}_Service_ns1/web_TCP_{word} | "));
        let own = router.iter().find(|row| names.iter().any(|name| row.starts_with(name))).unwrap();
        own.split_once("10.96.0.50:80=").map_or(String::new(), |(_, targets)| targets.to_owned())
    };
    let (three, four) = ("10.3.0.5:8080", "203.4.0.7:8080");
    let (ready, draining, neither) = ((true, false), (false, true), (false, false));
    assert_eq!(entry(&mut zone, ready, ready), three);
    assert_eq!(
        entry(&mut zone, draining, ready),
        four,
        "who goes takes no new clients while another is ready"
    );
    assert_eq!(entry(&mut zone, neither, draining), four);
    assert_eq!(entry(&mut zone, draining, draining), three);
    assert_eq!(entry(&mut zone, neither, neither), "");

    let early = |local: bool| {
        let mut service = service("ns1/web", &["10.96.0.50"]);
        (service.publish_not_ready, service.external_local) = (true, local);
        service
    };
    zone.apply_service(&early(false));
    assert_eq!(entry(&mut zone, neither, ready), three, "it need not be ready");
    let mut mine = early(true);
    mine.publish_not_ready = false;
    zone.apply_service(&mine);
    // Clients of the service's own address are sent anywhere.
    assert_eq!(entry(&mut zone, draining, ready), "");
    assert_eq!(zone.entry_network(&web).unwrap().as_str(), "cluster_udn_s3", "it has the one on the node");
    assert_eq!(entry(&mut zone, neither, ready), four);
}

/// A connection gets a service once, by the oldest of its networks that is connected, without targets that it does not reach.
#[test]
fn connections_get_a_service_once() {
    let offered = |owners: &[&str]| {
        let mut zone = served(None);
        zone.apply_nad(&sibling("red", "red", 9));
        zone.apply_connect(&granting(connect("c", "compact", Ip::V4, owners), true, true));
        let planner = northbound(&zone);
        let group = causeway_ovn::RowKey::of::<causeway_ovn::generated::nb::LoadBalancerGroup>(
            "Load_Balancer_Group:cnc_svc_c",
        );
        let names = rows(&zone, WEB, "Load_Balancer", &["name", "vips"]);
        let offered = names.into_iter().filter(|row| {
            let name = row.split(" | ").next().unwrap();
            let found = support::row(&planner, "Load_Balancer", name);
            found.edges.iter().any(|edge| edge.parent == group)
        });
        offered.collect::<Vec<String>>()
    };
    assert_eq!(
        offered(&["layer3_3", "layer2_4", "layer3_9"]),
        ["cluster_udn_s3_Service_ns1/web_TCP_node_switch_n1 | 10.96.0.50:80=10.3.0.5:8080,203.4.0.7:8080"]
    );
    assert_eq!(
        offered(&["layer2_4", "layer3_9"]),
        ["cluster_udn_s4_Service_ns1/web_TCP_node_switch_n1_c | 10.96.0.50:80=203.4.0.7:8080"]
    );
}

/// Policies of one network reach pods of the others.
#[test]
fn policies_reach_siblings() {
    let zone = zone(None, &[3, 4]);
    let reach = zone.reach(&"cluster_udn_s3".parse().unwrap());
    assert_eq!(
        reach.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["cluster_udn_s3", "cluster_udn_s4"]
    );
}
