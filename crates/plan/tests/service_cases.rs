//! Cases of the service catalogue, and those of the connection catalogue that are about services. n1 is this node.
#![allow(clippy::unwrap_used)]

mod support;

use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Planner, RowKey};
use causeway_plan::{Dirty, northbound};
use causeway_record::Protocol;
use causeway_types::hashed_name;
use causeway_zone::Zone;
use serde_json::{Value, json};
use support::*;

const BLUE: Option<&str> = Some("cluster_udn_blue");
const WEB: &str = "service:ns1:web:";
const COLUMNS: [&str; 3] = ["name", "protocol", "vips"];

/// Two nodes and the layer3 network `blue` of namespace `ns1`.
fn blue_zone() -> Zone {
    let mut zone = two_nodes(Ip::V4, None);
    zone.apply_namespace(&namespace("ns1", true));
    zone.apply_nad(&blue(Ip::V4));
    zone
}

fn web_service() -> causeway_record::Service {
    service("ns1/web", &["10.96.0.50"])
}

/// `blue_zone` with `ns1/web` and these endpoints of it.
fn web_zone(endpoints: &[&str]) -> Zone {
    let mut zone = blue_zone();
    zone.apply_service(&web_service());
    zone.apply_endpoint_slice(&slice("ns1/web-1", "web", BLUE, endpoints));
    zone
}

fn balancers(zone: &Zone, prefix: &str) -> Vec<String> {
    table(&northbound(zone), prefix, "Load_Balancer", &COLUMNS)
}

fn vips(zone: &Zone) -> Vec<String> {
    table(&northbound(zone), WEB, "Load_Balancer", &["vips"])
}

fn held(zone: &Zone, slice: &str) -> String {
    match northbound(zone).plan(slice) {
        Plan::Hold(reason) => reason,
        other => panic!("{slice} is not held: {other:?}"),
    }
}

/// The names of the groups that a row is in, of these.
fn groups(row: &Planned, names: &[&str]) -> Vec<String> {
    let is_in = |name: &&&str| {
        let group = RowKey::of::<nb::LoadBalancerGroup>(&format!("Load_Balancer_Group:{name}"));
        row.edges.iter().any(|edge| edge.parent == group && edge.column == "load_balancer")
    };
    names.iter().filter(is_in).map(|name| (*name).to_owned()).collect()
}

#[test]
fn i01_a_service_on_its_network() {
    let zone = web_zone(&["10.20.2.7@n2", "10.20.1.5@n1"]);
    let name = "cluster_udn_blue_Service_ns1/web_TCP_cluster";
    let row = row(&northbound(&zone), "Load_Balancer", name);
    assert_eq!(text(&row, "vips"), "10.96.0.50:80=10.20.1.5:8080,10.20.2.7:8080");
    assert_eq!(text(&row, "protocol"), "tcp");
    let options = "event=false, hairpin_snat_ip=169.254.0.5 fd69::5, neighbor_responder=none, reject=true, skip_snat=false";
    assert_eq!(text(&row, "options"), options);
    let ids = "k8s.ovn.org/id=service:ns1:web:cluster_udn_blue:TCP:cluster, k8s.ovn.org/kind=Service, \
               k8s.ovn.org/network=cluster_udn_blue, k8s.ovn.org/owner=ns1/web, k8s.ovn.org/role=primary, \
               k8s.ovn.org/topology=layer3";
    assert_eq!(text(&row, "external_ids"), ids);
    let all = ["clusterLBGroup", "cluster_udn_blue_clusterLBGroup", "cluster_udn_blue_clusterSwitchLBGroup"];
    assert_eq!(groups(&row, &all), ["cluster_udn_blue_clusterLBGroup"]);
}

/// A slice of the default network, or of another network, is none of blue's.
#[test]
fn i02_only_the_default_slice_exists() {
    let mut zone = blue_zone();
    zone.apply_service(&web_service());
    assert!(zone.apply_endpoint_slice(&slice("ns1/web-0", "web", None, &["10.244.0.4@n1"])).is_empty());
    let others = slice("ns1/web-9", "web", Some("cluster_udn_green"), &["203.203.0.8@n1"]);
    assert!(zone.apply_endpoint_slice(&others).is_empty());
    assert_eq!(
        balancers(&zone, WEB),
        ["cluster_udn_blue_Service_ns1/web_TCP_cluster | tcp | 10.96.0.50:80="]
    );
}

#[test]
fn i04_a_namespace_that_waits_for_its_network() {
    let mut zone = two_nodes(Ip::V4, None);
    zone.apply_namespace(&namespace("ns1", true));
    zone.apply_service(&web_service());
    zone.apply_endpoint_slice(&slice("ns1/web-1", "web", BLUE, &["10.20.1.5@n1"]));
    assert_eq!(balancers(&zone, WEB), Vec::<String>::new());
    let mut unnumbered = blue(Ip::V4);
    unnumbered.annotate("k8s.ovn.org/network-id", None);
    zone.apply_nad(&unnumbered);
    assert!(held(&zone, "service:ns1:web:cluster_udn_blue:").contains("has no id yet"));
    let dirty = zone.apply_nad(&blue(Ip::V4)).on(&zone);
    assert!(dirty.northbound.contains(&"service:ns1:".to_owned()), "{dirty:?}");
    assert_eq!(vips(&zone), ["10.96.0.50:80=10.20.1.5:8080"]);
}

#[test]
fn i05_rows_move_with_the_namespace() {
    let mut zone = two_nodes(Ip::V4, None);
    let targets = [(None, "web-0", "10.244.0.4@n1"), (BLUE, "web-1", "10.20.1.5@n1")];
    for (name, namespace) in [("web", "ns1"), ("web", "ns2")] {
        zone.apply_service(&service(&format!("{namespace}/{name}"), &["10.96.0.50"]));
        behind(&mut zone, namespace, &[targets[0].2]);
        for (network, at, endpoint) in targets {
            zone.apply_endpoint_slice(&slice(&format!("{namespace}/{at}"), name, network, &[endpoint]));
        }
    }
    let on_default = "Service_ns1/web_TCP_cluster | tcp | 10.96.0.50:80=10.244.0.4:8080";
    let on_blue = "cluster_udn_blue_Service_ns1/web_TCP_cluster | tcp | 10.96.0.50:80=10.20.1.5:8080";
    assert_eq!(balancers(&zone, WEB), [on_default]);
    let of_services = |dirty: Dirty| -> Vec<String> {
        dirty.northbound.into_iter().filter(|prefix| prefix.starts_with("service:")).collect()
    };
    assert_eq!(
        of_services(zone.apply_nad(&blue(Ip::V4)).on(&zone)),
        ["service:ns1:"],
        "and no other namespace's"
    );
    assert_eq!(balancers(&zone, WEB), [on_blue]);
    assert_eq!(northbound(&zone).plan("service:ns1:web:default:"), Plan::Absent);
    assert_eq!(of_services(zone.delete_nad(&blue(Ip::V4).key).on(&zone)), ["service:ns1:"]);
    assert_eq!(balancers(&zone, WEB), [on_default]);
    assert_eq!(of_services(zone.apply_namespace(&namespace("ns1", true)).on(&zone)), ["service:ns1:"]);
    assert_eq!(balancers(&zone, WEB), Vec::<String>::new());
}

#[test]
fn i07_which_endpoints_serve() {
    let mut zone = web_zone(&[]);
    let mut endpoints = slice("ns1/web-1", "web", BLUE, &["10.20.1.5@n1", "10.20.1.6@n1", "10.20.1.7@n1"]);
    endpoints.endpoints[1].conditions.ready = Some(false);
    endpoints.endpoints[2].conditions.ready = Some(false);
    endpoints.endpoints[2].conditions.terminating = Some(true);
    let mut step = |ready: bool, publish: bool| {
        endpoints.endpoints[0].conditions.ready = Some(ready);
        endpoints.endpoints[0].conditions.serving = Some(ready);
        zone.apply_endpoint_slice(&endpoints);
        let mut web = web_service();
        web.publish_not_ready = publish;
        zone.apply_service(&web);
        vips(&zone)
    };
    assert_eq!(step(true, false), ["10.96.0.50:80=10.20.1.5:8080"]);
    assert_eq!(step(false, false), ["10.96.0.50:80=10.20.1.7:8080"], "the last ones to go");
    assert_eq!(step(false, true), ["10.96.0.50:80=10.20.1.5:8080,10.20.1.6:8080,10.20.1.7:8080"]);
}

/// Internal traffic policy Local: this node's endpoints, or none.
#[test]
fn i11_only_endpoints_of_this_node() {
    let mut zone = web_zone(&["10.20.1.5@n1", "10.20.2.7@n2"]);
    let mut local = web_service();
    local.local = true;
    zone.apply_service(&local);
    let row = row(&northbound(&zone), "Load_Balancer", "cluster_udn_blue_Service_ns1/web_TCP_node_switch_n1");
    assert_eq!(text(&row, "vips"), "10.96.0.50:80=10.20.1.5:8080");
    let all = ["cluster_udn_blue_clusterLBGroup", "cluster_udn_blue_clusterSwitchLBGroup"];
    assert_eq!(groups(&row, &all), ["cluster_udn_blue_clusterSwitchLBGroup"]);
    zone.apply_endpoint_slice(&slice("ns1/web-1", "web", BLUE, &["10.20.2.7@n2"]));
    assert_eq!(
        balancers(&zone, WEB),
        ["cluster_udn_blue_Service_ns1/web_TCP_node_switch_n1 | tcp | 10.96.0.50:80="]
    );
}

/// An endpoint outside of the network's subnets is a node's own address.
#[test]
fn endpoints_on_the_nodes_own_network() {
    let zone = web_zone(&["10.20.1.5@n1", "172.18.0.3@n2"]);
    let expected = "cluster_udn_blue_Service_ns1/web_TCP_node_switch_n1 | tcp | 10.96.0.50:80=10.20.1.5:8080,172.18.0.3:8080";
    assert_eq!(balancers(&zone, WEB), [expected]);
}

/// One row for each protocol; ports of endpoints are found by name.
#[test]
fn i13_tcp_and_udp_and_named_ports() {
    let mut zone = web_zone(&[]);
    let mut web = web_service();
    web.ports = vec![
        service_port("http", Protocol::Tcp, 80),
        service_port("metrics", Protocol::Tcp, 9000),
        service_port("dns", Protocol::Udp, 53),
        service_port("dns-tcp", Protocol::Tcp, 53),
    ];
    zone.apply_service(&web);
    let port =
        |name: &str, protocol: Protocol, port: u16| json!({"name": name, "protocol": protocol, "port": port});
    let ports = |ports: &[Value]| serde_json::from_value(json!(ports)).unwrap();
    let mut endpoints = slice("ns1/web-1", "web", BLUE, &["10.20.1.5@n1"]);
    endpoints.ports = ports(&[
        port("http", Protocol::Tcp, 8080),
        port("dns", Protocol::Udp, 5353),
        port("dns-tcp", Protocol::Tcp, 5353),
    ]);
    zone.apply_endpoint_slice(&endpoints);
    let mut canary = slice("ns1/web-2", "web", BLUE, &["10.20.1.6@n1"]);
    canary.ports = ports(&[port("http", Protocol::Tcp, 8081), port("dns", Protocol::Tcp, 1)]);
    zone.apply_endpoint_slice(&canary);
    let tcp = "10.96.0.50:53=10.20.1.5:5353, 10.96.0.50:80=10.20.1.5:8080,10.20.1.6:8081, 10.96.0.50:9000=";
    assert_eq!(vips(&zone), ["10.96.0.50:53=10.20.1.5:5353".to_owned(), tcp.to_owned()]);
}

#[test]
fn dual_stack_targets_keep_to_their_family() {
    let mut zone = two_nodes(Ip::Dual, None);
    zone.apply_nad(&blue(Ip::Dual));
    zone.apply_service(&service("ns1/web", &["10.96.0.50", "fd00:10:96::50"]));
    zone.apply_endpoint_slice(&slice("ns1/web-4", "web", BLUE, &["10.20.1.5@n1"]));
    zone.apply_endpoint_slice(&slice("ns1/web-6", "web", BLUE, &["fd20::5@n1", "fd20:0:0:1::7@n2"]));
    let expected = "10.96.0.50:80=10.20.1.5:8080, [fd00:10:96::50]:80=[fd20::5]:8080,[fd20:0:0:1::7]:8080";
    assert_eq!(vips(&zone), [expected]);
}

/// A large service has many slices, and for a moment an endpoint may be in two.
#[test]
fn endpoints_of_several_slices() {
    let mut zone = web_zone(&["10.20.1.5@n1", "10.20.1.6@n1"]);
    let more = slice("ns1/web-2", "web", BLUE, &["10.20.1.6@n1", "10.20.1.7@n1"]);
    let dirty = zone.apply_endpoint_slice(&more).on(&zone);
    assert_eq!(dirty.northbound, ["service:ns1:web:cluster_udn_blue:"]);
    assert!(zone.apply_endpoint_slice(&more).is_empty(), "nothing is new");
    assert_eq!(vips(&zone), ["10.96.0.50:80=10.20.1.5:8080,10.20.1.6:8080,10.20.1.7:8080"]);
    let mut moved = more.clone();
    moved.labels.insert("k8s.ovn.org/service-name".into(), "other".into());
    assert_eq!(zone.apply_endpoint_slice(&moved).on(&zone).northbound, ["service:ns1:web:cluster_udn_blue:"]);
    zone.delete_endpoint_slice(&key("ns1", "web-1"));
    assert_eq!(vips(&zone), ["10.96.0.50:80="]);
}

#[test]
fn session_affinity() {
    let mut zone = web_zone(&["10.20.1.5@n1"]);
    let mut step = |seconds| {
        let mut web = web_service();
        web.affinity = Some(seconds);
        zone.apply_service(&web);
        let row = &rows(&northbound(&zone), WEB)[0];
        (text(row, "options").contains("affinity_timeout=10800"), text(row, "selection_fields"))
    };
    assert_eq!(step(10_800), (true, String::new()));
    assert_eq!(step(86_400), (false, "ip_dst, ip_src".to_owned()));
}

/// cnc-cases T10; what Kubernetes would refuse as a name is refused here too.
#[test]
fn t10_services_without_an_address() {
    let mut zone = blue_zone();
    assert!(zone.apply_service(&service("ns1/headless", &[])).is_empty());
    assert!(zone.apply_service(&service("ns1/a:b", &["10.96.0.51"])).is_empty());
    assert_eq!(zone.services().count(), 0);
    zone.apply_service(&web_service());
    assert_eq!(zone.apply_service(&service("ns1/web", &[])).on(&zone).northbound, [WEB]);
    assert_eq!(rows(&northbound(&zone), "service:").len(), 0);
}

/// Nothing changes while connections are not known; the default network's services need not know of them.
#[test]
fn services_while_connections_are_not_listed() {
    let mut zone = web_zone(&["10.20.1.5@n1"]);
    zone.apply_service(&service("ns0/web", &["10.96.0.60"]));
    let slices = ["service:ns1:web:cluster_udn_blue:", "service:ns0:web:default:"];
    zone.await_connects();
    assert!(held(&zone, slices[0]).contains("ClusterNetworkConnects"));
    assert!(matches!(northbound(&zone).plan(slices[1]), Plan::Rows(_)));
    assert_eq!(zone.connects_listed().on(&zone).northbound, [""]);
}

/// cnc-cases T13: an event touches what follows from it, and nothing else.
#[test]
fn t13_what_events_make_dirty() {
    let mut zone = connected(Ip::V4, "transit");
    serve(&mut zone, Ip::V4);
    let road = connect("road", "transit", Ip::V4, &COLOURS);
    let dirty = zone.apply_connect(&granting(road, true, true)).on(&zone).northbound;
    assert!(dirty.contains(&"Load_Balancer_Group:cnc_svc_road".to_owned()), "{dirty:?}");
    // Those with a target outside are named once more.
    let of_services =
        dirty.iter().filter(|prefix| prefix.starts_with("service:") && !prefix.contains(":api:"));
    let services: Vec<&String> = of_services.collect();
    assert_eq!(
        services,
        ["service:ns1:", "service:ns2:", "service:ns4:"],
        "not ns0, which is on the default network"
    );
    let dirty = zone.apply_service(&service("ns1/new", &["10.96.9.9"])).on(&zone);
    assert_eq!(dirty.northbound, ["service:ns1:new:"]);
    let dirty = zone.apply_endpoint_slice(&slice("ns1/new-1", "new", BLUE, &["10.20.0.5@n1"])).on(&zone);
    assert_eq!(dirty.northbound, ["service:ns1:new:cluster_udn_blue:"]);
    assert!(zone.apply_pod(&web(Ip::V4)).is_empty());
    let road = connect("road", "transit", Ip::V4, &COLOURS[..2]);
    let dirty = zone.apply_connect(&granting(road, true, true)).on(&zone).northbound;
    let services: Vec<&String> =
        dirty.iter().filter(|prefix| prefix.starts_with("service:") && !prefix.contains(":api:")).collect();
    assert_eq!(services, ["service:ns2:"], "only those of the network that has left");
}

/// cnc-cases T01, T02, T04, T05, T07, T08, T14: one group, on the switches of all networks rendered here, with the load
/// balancers of all services, those that differ between nodes included.
#[test]
fn t01_t02_t04_t05_t07_t08_t14_the_group_of_a_connection() {
    let mut zone = connected(Ip::V4, "transit");
    let grant = |owners: &[&str]| granting(connect("road", "transit", Ip::V4, owners), true, true);
    zone.apply_connect(&grant(&COLOURS));
    let switches = |zone: &Zone| {
        let group = &rows(&northbound(zone), "Load_Balancer_Group:cnc_svc_road")[0];
        let of = |network: &&str| {
            let switch = format!("network:cluster_udn_{network}:core:switch");
            group.edges.iter().any(|edge| edge.parent == RowKey::of::<nb::LogicalSwitch>(&switch))
        };
        ["blue", "green", "orange"].into_iter().filter(of).collect::<Vec<_>>()
    };
    assert_eq!(switches(&zone), ["blue", "green", "orange"], "also with nothing in it");
    serve(&mut zone, Ip::V4);
    let members = |zone: &Zone| {
        let all = rows(&northbound(zone), "service:");
        let inside = all.iter().filter(|row| !groups(row, &["cnc_svc_road"]).is_empty());
        inside.map(|row| row.path.to_string()).collect::<Vec<_>>()
    };
    let of = |network: &str, namespace: &str| {
        let path = |part: &str| format!("service:{namespace}:{part}");
        let parts = [("agent", "node-switch"), ("api", "node-switch"), ("web", "cluster")];
        parts.map(|(name, reach)| path(&format!("{name}:cluster_udn_{network}:TCP:{reach}")))
    };
    assert_eq!(members(&zone), [of("blue", "ns1"), of("green", "ns2"), of("orange", "ns4")].concat());
    zone.apply_connect(&grant(&COLOURS[..2]));
    assert_eq!(switches(&zone), ["blue", "orange"]);
    assert_eq!(members(&zone), [of("blue", "ns1"), of("orange", "ns4")].concat());
    let mut tampered = layer3("orange", 2, Ip::V4);
    tampered.configure("{");
    zone.apply_nad(&tampered);
    assert_eq!(switches(&zone), ["blue"], "a network that cannot be rendered keeps nobody else waiting");
    zone.delete_connect(&connect_name("road"));
    assert_eq!(members(&zone), Vec::<String>::new());
    assert_eq!(northbound(&zone).plan("Load_Balancer_Group:cnc_svc_road"), Plan::Absent);
}

const ACL: [&str; 5] = ["tier", "priority", "action", "direction", "match"];

fn set_name(family: &str) -> String {
    hashed_name(&format!("ovnkube-network-connect-controller:ClusterNetworkConnect:road:guarded:{family}"))
}

fn guards(zone: &Zone, network: &str) -> Vec<String> {
    table(&northbound(zone), &format!("cnc:road:guard:cluster_udn_{network}:"), "ACL", &ACL)
}

/// A connection of services alone over the coloured networks.
fn alone(ip: Ip, topology: &str) -> Zone {
    let mut zone = connected(ip, topology);
    zone.apply_connect(&granting(connect("road", topology, ip, &COLOURS), false, true));
    zone
}

/// cnc-cases U01, U02, in every family.
#[test]
fn u01_u02_the_guards() {
    let pass = |priority, matches: &str| format!(" | {priority} | pass | from-lport | {matches}");
    let drop = |matches: &str| format!(" | 4950 | drop | from-lport | {matches} && !ct.rpl && !ct.dnat");
    let track = "3 |  | allow-related | from-lport | ip".to_owned();
    let (four, six) = (format!("ip4.dst == ${}", set_name("v4")), format!("ip6.dst == ${}", set_name("v6")));
    let (services4, services6) = ("ip4.dst == 10.96.0.0/16", "ip6.dst == fd00:10:96::/112");
    let (own4, own6) = ("ip4.dst == 10.20.0.0/16", "ip6.dst == fd20::/48");
    let of = |own: &str, services: &str, set: &str| {
        vec![drop(set), pass(4975, own), pass(5000, services), track.clone()]
    };
    let both = |four: &str, six: &str| format!("{four} || {six}");
    for topology in ["transit", "both", "compact"] {
        assert_eq!(guards(&alone(Ip::V4, topology), "blue"), of(own4, services4, &four));
        assert_eq!(guards(&alone(Ip::V6, topology), "blue"), of(own6, services6, &six));
        let zone = alone(Ip::Dual, topology);
        let set = format!("({})", both(&four, &six));
        assert_eq!(guards(&zone, "blue"), of(&both(own4, own6), &both(services4, services6), &set));
        let sets = table(&northbound(&zone), "cnc:road:guarded:", "Address_Set", &["addresses"]);
        let expected =
            ["10.20.0.0/16, 10.30.0.0/16, 203.203.0.0/16", "2010:100:200::/60, fd20::/48, fd30::/48"];
        assert_eq!(sets, expected);
    }
}

/// cnc-cases U08: every policy, and every link's end at a network, names the guards of its network, and these their sets.
#[test]
fn u08_nothing_leads_anywhere_without_guards() {
    for topology in ["transit", "both", "compact"] {
        let zone = alone(Ip::Dual, topology);
        let all = rows(&northbound(&zone), "cnc:");
        let needs = |row: &Planned, network: &str, guards: &[&str]| {
            guards.iter().all(|guard| {
                let guard = format!("cnc:road:guard:cluster_udn_{network}:{guard}");
                row.guards.contains(&RowKey::of::<nb::Acl>(&guard))
            })
        };
        let mut guarded = 0;
        for row in &all {
            let parts: Vec<&str> = row.path.split(':').collect();
            if ["policy", "steer"].contains(&parts[2]) || parts.last() == Some(&"peer") {
                let network = parts[3].strip_prefix("cluster_udn_").unwrap();
                assert!(needs(row, network, &["drop", "track"]), "{}", row.path);
                guarded += 1;
            }
            if parts[2] == "guard" && parts[4] == "drop" {
                let sets =
                    ["v4", "v6"].map(|f| RowKey::of::<nb::AddressSet>(&format!("cnc:road:guarded:{f}")));
                assert_eq!(row.guards, sets);
            }
        }
        assert_eq!(
            guarded,
            match topology {
                "transit" => 15,
                "both" => 11,
                _ => 9,
            },
            "{topology}"
        );
        let open = connected(Ip::Dual, topology);
        assert!(rows(&northbound(&open), "cnc:").iter().all(|row| row.guards.is_empty()));
    }
}

/// cnc-cases U04, U05, U07: guards follow the networks and the grants, and go with the connection.
#[test]
fn u04_u05_u07_guards_come_and_go() {
    let count = |zone: &Zone| {
        let all = rows(&northbound(zone), "cnc:");
        ["ACL", "Address_Set", "Logical_Router_Policy"]
            .map(|table| all.iter().filter(|row| row.meta.name == table).count())
    };
    let mut zone = alone(Ip::V4, "transit");
    assert_eq!(count(&zone), [12, 1, 6]);
    let grant = |owners: &[&str], pods, services| {
        granting(connect("road", "transit", Ip::V4, owners), pods, services)
    };
    let dirty = zone.apply_connect(&grant(&COLOURS[..2], false, true)).on(&zone);
    assert!(dirty.northbound.contains(&"cnc:road:guard:cluster_udn_green:".to_owned()), "{dirty:?}");
    assert_eq!((count(&zone), guards(&zone, "green").len()), ([8, 1, 2], 0));
    zone.apply_connect(&grant(&COLOURS[..1], false, true));
    assert_eq!(count(&zone), [0, 0, 0], "alone nobody is reached");
    zone.apply_connect(&grant(&COLOURS, true, false));
    assert_eq!(count(&zone), [0, 0, 6]);
    zone.apply_connect(&grant(&COLOURS, false, true));
    zone.delete_connect(&connect_name("road"));
    assert_eq!(count(&zone), [0, 0, 0]);
}

/// What another connection grants passes, as long as it is granted.
#[test]
fn guards_let_pass_what_another_connection_grants() {
    let mut zone = alone(Ip::V4, "transit");
    zone.apply_nad(&layer3("red", 3, Ip::V4));
    let passes =
        |zone: &Zone, network: &str| guards(zone, network)[1].rsplit(" | ").next().unwrap().to_owned();
    let pods = second(connect("second", "transit", Ip::V4, &["layer3_1", "layer3_2", "layer3_3"]));
    let dirty = zone.apply_connect(&pods).on(&zone);
    for network in ["blue", "orange"] {
        assert!(dirty.northbound.contains(&format!("cnc:road:guard:cluster_udn_{network}:")), "{dirty:?}");
        assert_eq!(passes(&zone, network), "ip4.dst == {10.20.0.0/16, 10.30.0.0/16, 10.40.0.0/16}");
    }
    assert_eq!(passes(&zone, "green"), "ip4.dst == 203.203.0.0/16");

    // Who is granted and grows into somebody's addresses opens no way to these.
    let grown = json!({"topology": "layer3", "subnets": "10.40.0.0/16/24,203.203.128.0/17/24"});
    let dirty = zone.apply_nad(&nad("ns5/red", "cluster_udn_red", 3, grown)).on(&zone);
    assert!(dirty.northbound.contains(&"cnc:road:guard:cluster_udn_blue:".to_owned()), "{dirty:?}");
    assert_eq!(passes(&zone, "blue"), "ip4.dst == {10.20.0.0/16, 10.30.0.0/16, 10.40.0.0/16}");

    zone.apply_connect(&granting(pods, false, true));
    assert_eq!(passes(&zone, "blue"), "ip4.dst == 10.20.0.0/16");
}

/// A network whose addresses are not known cannot be kept from others, so nothing leads there; what keeps others stays.
#[test]
fn services_alone_and_a_network_that_cannot_be_read() {
    let mut zone = alone(Ip::V4, "transit");
    let mut tampered = layer3("orange", 2, Ip::V4);
    tampered.configure("{");
    zone.apply_nad(&tampered);
    let plan = |slice: &str| northbound(&zone).plan(&format!("cnc:road:{slice}"));
    assert_eq!(plan("policy:cluster_udn_blue:cluster_udn_orange:"), Plan::Absent);
    assert!(matches!(plan("policy:cluster_udn_blue:cluster_udn_green:"), Plan::Rows(_)));
    for slice in ["guard:cluster_udn_orange:", "policy:cluster_udn_orange:cluster_udn_blue:"] {
        assert!(matches!(plan(slice), Plan::Hold(_)), "{slice}");
    }
    let sets = table(&northbound(&zone), "cnc:road:guarded:", "Address_Set", &["addresses"]);
    assert_eq!(sets, ["10.20.0.0/16, 203.203.0.0/16"]);
}

/// The targets of `plain/web`, a service of the default network.
fn targets(zone: &Zone) -> Vec<String> {
    table(&northbound(zone), "service:plain:web:default:", "Load_Balancer", &["vips"])
}

/// A slice of `plain/web` with an endpoint that says to be a pod, or nobody.
fn aimed(address: &str, pod: Option<&str>) -> causeway_record::EndpointSlice {
    let reference = pod.map(|name| json!({"kind": "Pod", "namespace": "plain", "name": name}));
    let object = json!({
        "metadata": {"namespace": "plain", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": if address.contains(':') { "IPv6" } else { "IPv4" },
        "ports": [{"name": "", "protocol": "TCP", "port": 8080}],
        "endpoints": [{"addresses": [address], "targetRef": reference}],
    });
    use causeway_record::Watched as _;
    causeway_record::EndpointSlice::trim(serde_json::from_value(object).unwrap(), key("plain", "web-1"))
}

/// On the default network only the pod that an endpoint names is served, at the address that it has, wherever it runs; an own pod
/// by its address alone; pods on nodes where they run; and what is outside of the cluster. In both families.
#[test]
fn endpoints_of_the_default_network_are_who_they_say() {
    let mut zone = two_nodes(Ip::Dual, None);
    let at = |name: &str, id: u32, address: &str| at_addresses(node(name, id), &[address]);
    zone.apply_node(&at("n1", 2, "172.18.9.2"));
    zone.apply_node(&at("n2", 3, "172.18.9.3"));
    zone.apply_namespace(&namespace("plain", false));
    zone.apply_service(&service("plain/web", &["10.96.0.50", "fd00:10:96::50"]));
    let own = ["10.244.1.7/24", "fd00:10:244:1::7/64"];
    zone.apply_pod(&pod("plain/a", "n2", &[("default", "primary", &own, None)]));
    zone.apply_pod(&pod("victim/b", "n2", &[("default", "primary", &["10.244.1.8/24"], None)]));
    let locked = [("default", "infrastructure-locked", &["10.244.1.6/24"][..], None)];
    zone.apply_pod(&pod("plain/locked", "n2", &locked));
    zone.apply_pod(&causeway_record::Pod { host_network: true, ..bare_pod("plain/host", "n2") });
    let served = |zone: &mut Zone, address: &str, pod: Option<&str>| {
        zone.apply_endpoint_slice(&aimed(address, pod));
        let port = std::net::SocketAddr::new(address.parse().unwrap(), 8080).to_string();
        targets(zone).iter().any(|text| text.contains(&port))
    };
    for (address, pod) in [
        ("10.244.1.7", Some("a")),
        ("fd00:10:244:1::7", Some("a")),
        ("10.244.1.7", None),
        ("fd00:10:244:1::7", None),
        ("172.18.9.3", Some("host")),
        ("192.0.2.7", None),
        ("2001:db8::7", Some("gone")),
    ] {
        assert!(served(&mut zone, address, pod), "{address} of {pod:?}");
    }
    for (address, pod) in [
        ("10.244.1.7", Some("gone")),
        ("10.244.1.8", Some("a")),
        ("10.244.1.8", Some("b")),
        ("10.244.1.8", None),
        ("10.244.1.6", None),
        ("10.244.1.6", Some("locked")),
        ("172.18.9.3", None),
        ("10.244.1.9", Some("gone")),
        ("fd00:10:244:1::8", Some("a")),
        ("172.18.9.2", Some("host")),
        ("172.18.9.2", None),
        ("10.96.0.1", None),
        ("100.64.0.2", None),
        ("100.88.0.2", None),
        ("169.254.0.2", None),
        ("fe80::1", None),
        ("fd98::2", None),
    ] {
        assert!(!served(&mut zone, address, pod), "{address} of {pod:?}");
    }
}

/// A pod that comes, moves or goes after its endpoint changes what is served: an address never waits for its next owner.
#[test]
fn endpoints_follow_the_pods_that_they_name() {
    let mut zone = two_nodes(Ip::V4, None);
    zone.apply_namespace(&namespace("plain", false));
    zone.apply_service(&service("plain/web", &["10.96.0.50"]));
    zone.apply_endpoint_slice(&aimed("10.244.1.7", Some("a")));
    let slice = "service:plain:web:default:".to_owned();
    assert_eq!(targets(&zone), ["10.96.0.50:80="]);
    let with = |address: &str| pod("plain/a", "n2", &[("default", "primary", &[address], None)]);
    assert_eq!(zone.apply_pod(&with("10.244.1.7/24")).on(&zone).northbound, std::slice::from_ref(&slice));
    assert_eq!(targets(&zone), ["10.96.0.50:80=10.244.1.7:8080"]);
    assert!(zone.apply_pod(&with("10.244.1.7/24")).is_empty());
    assert_eq!(zone.delete_pod(&key("plain", "a")).on(&zone).northbound, [slice]);
    zone.apply_pod(&pod("victim/b", "n2", &[("default", "primary", &["10.244.1.7/24"], None)]));
    assert_eq!(targets(&zone), ["10.96.0.50:80="], "it is somebody else's now");
}

/// An endpoint that names nobody follows whichever pod of its namespace has the address, and nobody else's.
#[test]
fn endpoints_follow_the_pods_at_their_address() {
    let mut zone = two_nodes(Ip::V4, None);
    zone.apply_namespace(&namespace("plain", false));
    zone.apply_service(&service("plain/web", &["10.96.0.50"]));
    zone.apply_endpoint_slice(&aimed("10.244.1.7", None));
    let slice = ["service:plain:web:default:".to_owned()];
    let (none, one) = (["10.96.0.50:80="], ["10.96.0.50:80=10.244.1.7:8080"]);
    let with = |name: &str, address: &str| {
        pod(name, "n2", &[("default", "primary", &[&format!("{address}/24")], None)])
    };
    assert_eq!(targets(&zone), none);
    assert!(zone.apply_pod(&with("victim/b", "10.244.1.7")).on(&zone).northbound.is_empty());
    assert_eq!(targets(&zone), none, "it is somebody else's");
    zone.delete_pod(&key("victim", "b"));
    assert_eq!(zone.apply_pod(&with("plain/a", "10.244.1.7")).on(&zone).northbound, slice);
    assert_eq!(targets(&zone), one);
    // The next one may be seen before the last one is gone.
    zone.apply_pod(&with("plain/b", "10.244.1.7"));
    zone.delete_pod(&key("plain", "a"));
    assert_eq!(targets(&zone), one);
    assert_eq!(zone.apply_pod(&with("plain/b", "10.244.1.8")).on(&zone).northbound, slice);
    assert_eq!(targets(&zone), none);
    assert_eq!(zone.apply_pod(&with("plain/b", "10.244.1.7")).on(&zone).northbound, slice);
    let finished = causeway_record::Pod { finished: true, ..with("plain/b", "10.244.1.7") };
    assert_eq!(zone.apply_pod(&finished).on(&zone).northbound, slice);
    assert_eq!(targets(&zone), none);
}

/// A kubelet that names another node's address, or one outside of the cluster, takes no endpoint and no service's address from anybody,
/// whichever node has the first name. The cluster manager asks the same.
#[test]
fn a_kubelets_word_takes_no_endpoint_from_anybody() {
    for (liar, victim) in [("n1", "n2"), ("n2", "n1")] {
        let id = |name: &str| if name == "n1" { 2 } else { 3 };
        let mut zone = two_nodes(Ip::V4, None);
        zone.apply_namespace(&namespace("plain", false));
        zone.apply_service(&service("plain/web", &["10.96.0.50"]));
        zone.apply_pod(&host_pod("plain/host", victim));
        zone.apply_pod(&host_pod("plain/accomplice", liar));
        zone.apply_node(&at_addresses(node(victim, id(victim)), &["172.18.9.3"]));
        zone.apply_node(&at_addresses(node(liar, id(liar)), &["172.18.9.2"]));
        let lie = named(
            at_addresses(node(liar, id(liar)), &["172.18.9.2"]),
            &["172.18.9.3", "192.0.2.7", "10.244.9.9"],
        );
        zone.apply_node(&lie);
        let cases = [
            ("172.18.9.3", Some("host"), true),
            ("192.0.2.7", None, true),
            ("172.18.9.3", Some("accomplice"), false),
            ("10.244.9.9", Some("accomplice"), false),
            ("172.18.9.3", None, false),
        ];
        for (address, pod, served) in cases {
            zone.apply_endpoint_slice(&aimed(address, pod));
            let is = targets(&zone).iter().any(|text| text.contains(&format!("={address}:8080")));
            assert_eq!(is, served, "{address} of {pod:?}, {liar} lies");
        }
    }
}

/// What is behind a road is not served by one's own slice, from the moment the road is there, whatever the mirror still says.
#[test]
fn nothing_behind_a_road_is_an_endpoint() {
    for topology in ["transit", "compact"] {
        let mut zone = connected(Ip::V4, topology);
        zone.delete_connect(&connect_name("road"));
        zone.apply_namespace(&namespace("ns1", true));
        zone.apply_service(&web_service());
        let aims = ["10.30.1.9@n1", "10.20.1.5@n1", "192.0.2.7@n1"];
        zone.apply_endpoint_slice(&slice("ns1/web-1", "web", BLUE, &aims));
        let all = "10.96.0.50:80=10.20.1.5:8080,10.30.1.9:8080,192.0.2.7:8080";
        assert_eq!(vips(&zone), [all], "unconnected, this is an address outside");
        let road = granting(connect("road", topology, Ip::V4, &COLOURS), false, true);
        let dirty = zone.apply_connect(&road).on(&zone);
        assert!(
            dirty.northbound.iter().any(|slice| WEB.starts_with(slice) || slice.starts_with(WEB)),
            "{dirty:?}"
        );
        assert_eq!(vips(&zone), ["10.96.0.50:80=10.20.1.5:8080,192.0.2.7:8080"]);
        zone.apply_endpoint_slice(&slice("ns1/web-1", "web", BLUE, &["192.168.1.4@n1", "192.0.2.7@n1"]));
        assert_eq!(vips(&zone), ["10.96.0.50:80=192.0.2.7:8080"], "nor is a link");
    }
}

/// Guards look at the subnets of all members: who grows changes those of the others.
#[test]
fn guards_follow_every_members_subnets() {
    let mut zone = alone(Ip::V4, "transit");
    let grown = json!({"topology": "layer3", "subnets": "10.30.0.0/16/24,10.31.0.0/16/24"});
    let dirty = zone.apply_nad(&nad("ns4/orange", "cluster_udn_orange", 2, grown)).on(&zone);
    for network in ["blue", "green", "orange"] {
        assert!(
            dirty.northbound.contains(&format!("cnc:road:guard:cluster_udn_{network}:")),
            "{network}: {dirty:?}"
        );
    }
}

/// A connection of one family gets the addresses of that family alone.
#[test]
fn a_connection_of_one_family_has_services_of_that_family() {
    let mut zone = connected(Ip::Dual, "transit");
    zone.apply_connect(&granting(connect("road", "transit", Ip::V4, &COLOURS), true, true));
    zone.apply_namespace(&namespace("ns1", true));
    zone.apply_service(&service("ns1/web", &["10.96.0.50", "fd00:10:96::50"]));
    zone.apply_endpoint_slice(&slice("ns1/web-4", "web", BLUE, &["10.20.1.5@n1"]));
    zone.apply_endpoint_slice(&slice("ns1/web-6", "web", BLUE, &["fd20:0:0:1::7@n1"]));
    let (own, peers) = ("cluster_udn_blue_clusterLBGroup", "cnc_svc_road");
    let of = |name: &str| {
        let row =
            row(&northbound(&zone), "Load_Balancer", &format!("cluster_udn_blue_Service_ns1/web_TCP_{name}"));
        groups(&row, &[own, peers])
    };
    assert_eq!(of("cluster_IPv4"), [peers]);
    assert!(!of("cluster").contains(&peers.to_owned()), "its IPv6 address would lead nowhere");
    assert_eq!(
        vips(&zone),
        [
            "10.96.0.50:80=10.20.1.5:8080",
            "10.96.0.50:80=10.20.1.5:8080, [fd00:10:96::50]:80=[fd20:0:0:1::7]:8080"
        ]
    );
}
