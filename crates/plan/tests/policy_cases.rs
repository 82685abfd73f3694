//! Policies as rows: the catalogue's cases of rendering, life cycle and networks.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;

use causeway_ovn::{Plan, Planned, Planner as _, Str};
use causeway_plan::northbound;
use causeway_record::{Logging, NamedPort, Namespace, Pod, Protocol, Severity};
use causeway_zone::{Zone, ZoneConfig};
use serde_json::{Value, json};
use support::ledger::Ledger;
use support::*;

/// Pods `x/a`, `x/b` here and `y/a` there, on the default network; namespaces with their names as labels.
fn plain_zone(ip: Ip) -> Zone {
    let mut zone = cluster(ip, None);
    for name in ["x", "y", "z"] {
        zone.apply_namespace(&named(name));
    }
    zone.apply_pod(&on_default("x/a", "n1", 10, ip));
    zone.apply_pod(&on_default("x/b", "n1", 11, ip));
    zone.apply_pod(&on_default("y/a", "n2", 12, ip));
    zone
}

fn named(name: &str) -> Namespace {
    let labels = [("name".to_owned(), name.to_owned())].into();
    Namespace { name: name.parse().unwrap(), labels, deleting: false, logging: Logging::default() }
}

fn labelled(pod: Pod) -> Pod {
    let labels = [("pod".to_owned(), pod.key.name.clone())].into();
    Pod { labels, ..pod }
}

fn on_default(name: &str, node: &str, n: u32, ip: Ip) -> Pod {
    let (four, six) = (format!("10.244.0.{n}/24"), format!("fd00:10:244::{n}/64"));
    let own = ip.pick(four.as_str(), six.as_str());
    labelled(pod(name, node, &[("default", "primary", &own, None)]))
}

fn with_port(pod: Pod, name: &str, number: u16) -> Pod {
    let port = NamedPort { name: name.into(), protocol: Protocol::Tcp, port: number };
    Pod { named_ports: vec![port], ..pod }
}

fn deny(direction: &str) -> Value {
    json!({"podSelector": {}, "policyTypes": [direction]})
}

/// Allows pods of a namespace to come to pods with a label.
fn from_namespace(name: &str) -> Value {
    json!({"podSelector": {"matchLabels": {"pod": "a"}},
        "ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"name": name}}}]}]})
}

fn policies(zone: &Zone) -> Vec<Planned> {
    rows(&northbound(zone), "policy:")
}

/// All addresses in sets that rules name.
fn members(zone: &Zone) -> BTreeSet<String> {
    let planner = northbound(zone);
    let mut all = BTreeSet::new();
    for slice in planner.slices("policy:peers:") {
        let Plan::Rows(rows) = planner.plan(&slice) else { continue };
        let members = rows.iter().filter(|row| row.member_of.is_some());
        all.extend(members.filter_map(|row| Some(row.path.rsplit_once(':')?.1.replace("%3A", ":"))));
    }
    all
}

fn texts(rows: &[Planned], table: &str, column: &str) -> Vec<String> {
    let of_table = rows.iter().filter(|row| row.meta.name == table && row.member_of.is_none());
    of_table.map(|row| row.column(column).map(|value| format!("{value:?}")).unwrap_or_default()).collect()
}

fn count(zone: &Zone, table: &str) -> usize {
    texts(&policies(zone), table, "name").len()
}

/// The ports in a row's groups: how many groups of policies a pod's port is in.
fn groups_of(zone: &Zone, pod: &str) -> usize {
    let (namespace, name) = pod.split_once('/').unwrap();
    let network = if namespace == "ns1" { "cluster_udn_blue" } else { "default" };
    let rows = rows(&northbound(zone), &format!("network:{network}:pod:{namespace}:{name}:"));
    let port = rows.iter().find(|row| row.meta.name == "Logical_Switch_Port").unwrap();
    port.edges.iter().filter(|edge| edge.parent.meta.name == "Port_Group").count()
}

/// POL-034: a closed direction is one group with a drop; the other has none, and every switch tracks connections.
#[test]
fn a_closed_direction_is_a_group_with_a_drop() {
    let mut zone = plain_zone(Ip::V4);
    assert_eq!(policies(&zone), []);
    zone.apply_policy(&policy("x/deny", deny("Ingress")));
    let all = policies(&zone);
    assert_eq!(texts(&all, "Port_Group", "name").len(), 2, "the drop's and the policy's own");
    let acls: Vec<&Planned> = all.iter().filter(|row| row.meta.name == "ACL").collect();
    assert_eq!(acls.len(), 3, "the drop, neighbours, and the pod itself by a service: {acls:?}");
    assert!(acls.iter().all(|acl| acl.path.starts_with("policy:deny:default:x:Ingress:")), "{acls:?}");
    assert_eq!((groups_of(&zone, "x/a"), groups_of(&zone, "x/b")), (2, 2));
    let port = rows(&northbound(&zone), "network:default:pod:x:a:");
    assert!(port.iter().any(|row| !row.guards.is_empty()), "the port waits for the drop");
    let core = rows(&northbound(&zone), "network:default:core:acl:");
    assert!(
        core.iter().any(|row| format!("{:?}", row.column("action")).contains("allow-related")),
        "{core:?}"
    );
}

/// POL-043, POL-129, POL-132: without a pod of this node there are no rows, and with the last one they go.
#[test]
fn rows_are_where_subjects_are() {
    let mut zone = plain_zone(Ip::V4);
    zone.apply_policy(&policy("y/deny", from_namespace("x")));
    assert_eq!(policies(&zone), []);
    zone.apply_pod(&on_default("y/b", "n1", 13, Ip::V4));
    assert_eq!(policies(&zone), [], "it is about y/a alone");
    zone.apply_pod(&on_default("y/a", "n1", 12, Ip::V4));
    assert_eq!(members(&zone), ["10.244.0.10", "10.244.0.11"].map(String::from).into());
    zone.delete_pod(&key("y", "a"));
    assert_eq!(policies(&zone), []);
}

/// POL-036, POL-045
#[test]
fn what_leaves_is_looked_at_behind_load_balancers() {
    let mut zone = plain_zone(Ip::Dual);
    let spec = json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": [{"podSelector": {"matchLabels": {"pod": "b"}}}]}]});
    zone.apply_policy(&policy("x/out", spec));
    let all = policies(&zone);
    let rule =
        all.iter().find(|row| row.path.starts_with("policy:rules:") && row.meta.name == "ACL").unwrap();
    let matches = format!("{:?}", rule.column("match"));
    assert!(
        matches.contains("ip4.dst == $a")
            && matches.contains("ip6.dst == $a")
            && matches.contains("inport == @a"),
        "{matches}"
    );
    assert!(format!("{:?}", rule.column("options")).contains("apply-after-lb"));
    assert_eq!(rule.guards.len(), 2, "it comes after its sets");
    assert_eq!(texts(&all, "Address_Set", "name").len(), 2);
    assert_eq!(members(&zone), ["10.244.0.11", "fd00:10:244::11"].map(String::from).into());
}

/// POL-051, POL-052, POL-054, POL-055: labels, addresses and ends of pods move members one by one.
#[test]
fn a_member_comes_and_goes_alone() {
    let mut zone = plain_zone(Ip::V4);
    zone.apply_policy(&policy("x/in", from_namespace("y")));
    assert_eq!(members(&zone), ["10.244.0.12".to_owned()].into());
    let dirty = zone.apply_pod(&on_default("y/c", "n2", 14, Ip::V4)).on(&zone).northbound;
    let of_policies: Vec<&String> = dirty.iter().filter(|slice| slice.starts_with("policy:")).collect();
    assert_eq!(of_policies.len(), 1, "{dirty:?}");
    assert!(of_policies[0].ends_with(":set:addresses:10.244.0.14"), "{dirty:?}");
    // Another pod has the address before the old one is gone.
    zone.apply_pod(&on_default("y/d", "n2", 14, Ip::V4));
    zone.delete_pod(&key("y", "c"));
    assert!(members(&zone).contains("10.244.0.14"));
    zone.apply_pod(&Pod { finished: true, ..on_default("y/d", "n2", 14, Ip::V4) });
    assert!(!members(&zone).contains("10.244.0.14"));
    // The namespace is another one now.
    zone.apply_namespace(&Namespace { labels: [("name".into(), "other".into())].into(), ..named("y") });
    assert_eq!(members(&zone), BTreeSet::new());
    zone.apply_namespace(&named("y"));
    assert_eq!(members(&zone), ["10.244.0.12".to_owned()].into());
}

/// POL-013, POL-015, POL-016, POL-097: a name is what the destination's containers call so.
#[test]
fn names_of_ports_are_true() {
    let mut zone = plain_zone(Ip::V4);
    zone.apply_pod(&with_port(on_default("x/a", "n1", 10, Ip::V4), "http", 81));
    zone.apply_pod(&with_port(on_default("y/a", "n2", 12, Ip::V4), "http", 8080));
    let ports = json!([{"port": "http"}, {"port": "nobody-has-it"}]);
    let spec = json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": ports}], "egress": [{"ports": ports, "to": [{"namespaceSelector": {}}]}]});
    zone.apply_policy(&policy("x/named", spec.clone()));
    let rules: Vec<String> = texts(&rows(&northbound(&zone), "policy:rules:"), "ACL", "match");
    assert_eq!(rules.len(), 3, "{rules:?}");
    assert!(rules.iter().any(|rule| rule.contains("tcp.dst == 81") && rule.contains("outport")), "{rules:?}");
    // The port of x/b is in no group of that name.
    assert_eq!((groups_of(&zone, "x/a"), groups_of(&zone, "x/b")), (4, 3));
    zone.apply_pod(&with_port(on_default("x/b", "n1", 11, Ip::V4), "http", 82));
    let rules: Vec<String> = texts(&rows(&northbound(&zone), "policy:rules:"), "ACL", "match");
    assert_eq!(rules.len(), 5, "{rules:?}");
}

/// POL-039, POL-040, POL-141
#[test]
fn exceptions_are_subtracted() {
    let mut zone = plain_zone(Ip::V4);
    let block = |cidr: &str, except: Vec<String>| json!({"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": cidr, "except": except}}]}]});
    zone.apply_policy(&policy("x/few", block("10.0.0.0/8", vec!["10.1.0.0/16".into()])));
    let rules = texts(&rows(&northbound(&zone), "policy:rules:"), "ACL", "match");
    assert!(rules.len() == 1 && !rules[0].contains("!=") && rules[0].contains("10.2.0.0/15"), "{rules:?}");
    let many: Vec<String> = (0..20).map(|n| format!("10.{}.{n}.0/24", 7 * n)).collect();
    zone.apply_policy(&policy("x/few", block("10.0.0.0/8", many)));
    let all = rows(&northbound(&zone), "policy:rules:");
    assert_eq!((texts(&all, "ACL", "match").len(), texts(&all, "Address_Set", "name").len()), (1, 1));
    let peers: Vec<Value> = (0..500)
        .map(|n| json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": [format!("10.{}.{}.1/32", n / 250, n % 250)]}}))
        .collect();
    zone.apply_policy(&policy("x/few", json!({"podSelector": {}, "ingress": [{"from": peers}]})));
    assert_eq!(rows(&northbound(&zone), "policy:rules:"), []);
    assert!(zone.problems().values().any(|problem| problem.message.contains("more than 4096 subnets")));
}

/// POL-144: the name of an ACL says whose it is and which of his rules, however long names are.
#[test]
fn names_of_rules_keep_their_end() {
    let mut zone = plain_zone(Ip::V4);
    let rules =
        json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [{}, {}], "egress": [{}]});
    let names = |zone: &Zone| table(&northbound(zone), "policy:rules:", "ACL", &["name"]);
    zone.apply_policy(&policy("x/short", rules.clone()));
    assert_eq!(names(&zone), ["NP:x:short:Egress:0", "NP:x:short:Ingress:0", "NP:x:short:Ingress:1"]);
    zone.delete_policy(&key("x", "short"));
    let long = "a-name-of-which-somebody-was-proud-since-it-says-everything-there-is";
    zone.apply_policy(&policy(&format!("x/{long}"), rules));
    let found = names(&zone);
    for end in [":Egress:0", ":Ingress:0", ":Ingress:1"] {
        let name = found.iter().find(|name| name.ends_with(end)).unwrap_or_else(|| panic!("{found:?}"));
        assert!(name.starts_with("NP:x:a-name-of-which-somebody-") && name.len() == 63, "{name}");
    }
}

/// POL-114, POL-115: a selector looks at its policy's own network.
#[test]
fn selectors_stay_on_their_network() {
    let mut zone = plain_zone(Ip::V4);
    zone.apply_namespace(&named("ns1"));
    zone.apply_namespace(&named("ns2"));
    zone.apply_policy(&policy(
        "ns1/in",
        json!({"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {}}]}]}),
    ));
    assert_eq!(members(&zone), ["10.20.0.5".to_owned()].into(), "blue's addresses alone");
    assert_eq!(groups_of(&zone, "ns1/web-0"), 2);
}

/// POL-118, POL-120, POL-121, cnc-cases X17: a road for pods is in reach, one for services alone is not, and none is passed on.
#[test]
fn selectors_reach_across_roads() {
    for topology in ["transit", "compact"] {
        let mut zone = cluster(Ip::V4, None);
        ["ns1", "ns2", "ns4"].iter().for_each(|name| drop(zone.apply_namespace(&named(name))));
        zone.apply_nad(&layer3("orange", 2, Ip::V4));
        zone.apply_pod(&labelled(vm("vm", "n2", 9, Ip::V4)));
        let orange = [
            ("default", "infrastructure-locked", &["10.244.1.9/24"][..], None),
            ("ns4/orange", "primary", &["10.30.1.9/24"], None),
        ];
        zone.apply_pod(&labelled(pod("ns4/far", "n2", &orange)));
        zone.apply_policy(&policy(
            "ns1/in",
            json!({"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {}}]}]}),
        ));
        let own: BTreeSet<String> = ["10.20.0.5".to_owned()].into();
        assert_eq!(members(&zone), own);
        let road = connect("road", topology, Ip::V4, &["layer3_1", "layer2_5"]);
        let other = second(connect("other", topology, Ip::V4, &["layer3_2", "layer2_5"]));
        zone.apply_connect(&other);
        assert_eq!(members(&zone), own, "two roads away");
        let mut ledger = Ledger::default();
        ledger.look(&northbound(&zone), "");
        let dirty = zone.apply_connect(&road).on(&zone);
        let joined = members(&zone);
        assert!(joined.contains("203.203.0.9") && !joined.contains("10.30.1.9"), "{joined:?}");
        assert_eq!(count(&zone, "Address_Set"), 2, "one for each family: the old ones went");
        dirty.northbound.iter().for_each(|prefix| ledger.look(&northbound(&zone), prefix));
        let mut whole = Ledger::default();
        whole.look(&northbound(&zone), "");
        assert_eq!(Ledger::difference(&ledger.rows, &whole.rows), Vec::<String>::new());
        zone.apply_connect(&granting(road.clone(), false, true));
        assert_eq!(members(&zone), own, "services alone");
        zone.apply_connect(&road);
        assert_eq!(members(&zone), joined);
        // It selects others now, or cannot connect all that it selects any more.
        zone.apply_connect(&connect("road", topology, Ip::V4, &["layer3_1"]));
        assert_eq!(members(&zone), own, "green is dropped from the road");
        zone.apply_connect(&road);
        zone.delete_connect(&road.name);
        assert_eq!(members(&zone), own);
    }
}

/// POL-123: networks that reach the same share their sets.
#[test]
fn networks_of_one_road_share_sets() {
    let mut zone = connected(Ip::V4, "compact");
    let spec = json!({"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {}}]}]});
    for name in ["ns1", "ns2"] {
        zone.apply_namespace(&named(name));
        zone.apply_policy(&policy(&format!("{name}/in"), spec.clone()));
    }
    zone.apply_pod(&vm("vm", "n1", 9, Ip::V4));
    assert_eq!(count(&zone, "Address_Set"), 2, "one for each family");
}

/// Logs keep to the rate that is asked for.
#[test]
fn logs_keep_to_their_rate() {
    let zone = Zone::new(ZoneConfig { log_rate: 7, ..config(Ip::V4) });
    let band = |row: &&Planned| row.path.ends_with("acl-logging:band");
    let rows = rows(&northbound(&zone), "zone:common:");
    assert_eq!(rows.iter().find(band).map(|row| text(row, "rate")), Some("7".to_owned()));
}

/// While roads are not listed rules stay as they are, and pods are closed all the same.
#[test]
fn rules_wait_for_roads_and_drops_do_not() {
    let mut zone = plain_zone(Ip::V4);
    zone.await_connects();
    zone.apply_policy(&policy(
        "ns1/in",
        json!({"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]}),
    ));
    let mut ledger = Ledger::default();
    ledger.look(&northbound(&zone), "policy:");
    assert!(ledger.rows.keys().any(|(_, path)| path.starts_with("policy:deny:")));
    let waits = |path: &Str| path.starts_with("policy:rules:") || path.starts_with("policy:peers:");
    assert!(!ledger.rows.keys().any(|(_, path)| waits(path)), "{:?}", ledger.rows.keys());
    assert_eq!(groups_of(&zone, "ns1/web-0"), 2);
    assert!(zone.connects_listed().iter().count() > 0);
    assert_eq!(texts(&rows(&northbound(&zone), "policy:rules:"), "ACL", "match").len(), 1);
}

/// POL-142
#[test]
fn a_namespace_has_its_drops_logged() {
    let mut zone = plain_zone(Ip::V4);
    zone.apply_policy(&policy("x/in", from_namespace("y")));
    let logging = Logging { deny: Some(Severity::Info), ..Logging::default() };
    zone.apply_namespace(&Namespace { logging, ..named("x") });
    let all = policies(&zone);
    let logged: Vec<&Planned> = all.iter().filter(|row| row.column("log").is_some()).collect();
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert!(logged[0].path.ends_with(":drop"));
    assert!(format!("{:?}", logged[0].column("name")).contains("NP:x:Ingress"));
}

/// POL-138: work and rows follow from what is here, not from how many policies there are.
#[test]
fn policies_of_others_cost_no_rows() {
    let mut zone = plain_zone(Ip::V4);
    for n in 0..500 {
        let spec = json!({"podSelector": {"matchLabels": {"app": format!("app-{n}")}}, "ingress": [{"from": [{"namespaceSelector": {}}]}]});
        zone.apply_policy(&policy(&format!("x/p{n}"), spec));
    }
    assert_eq!(policies(&zone), []);
    let mut one = on_default("x/c", "n1", 20, Ip::V4);
    one.labels.insert("app".into(), "app-7".into());
    zone.apply_pod(&one);
    assert_eq!(groups_of(&zone, "x/c"), 2);
    assert_eq!(count(&zone, "Address_Set"), 2, "one for each family");
}

/// POL-033: twenty policies close a pod as one does, and it is closed as long as the last of them.
#[test]
fn the_last_of_many_policies_still_closes() {
    let mut zone = plain_zone(Ip::V4);
    let alone = {
        let mut zone = plain_zone(Ip::V4);
        zone.apply_policy(&policy("x/p00", from_namespace("y")));
        policies(&zone)
    };
    let named = |n: u32| format!("x/p{n:02}");
    (0..20).for_each(|n| drop(zone.apply_policy(&policy(&named(n), from_namespace("y")))));
    assert_eq!(groups_of(&zone, "x/a"), 21, "one drop for all, and each policy's own");
    (1..20).for_each(|n| drop(zone.delete_policy(&key("x", &format!("p{n:02}")))));
    assert_eq!(policies(&zone), alone);
    zone.delete_policy(&key("x", "p00"));
    assert_eq!((policies(&zone), groups_of(&zone, "x/a")), (Vec::new(), 0));
}

/// POL-057: a pod that comes again under its name, with another address, leaves nothing of its first life.
#[test]
fn a_pod_with_an_old_name_is_a_new_one() {
    let mut zone = plain_zone(Ip::V4);
    zone.apply_policy(&policy("x/in", from_namespace("x")));
    zone.delete_pod(&key("x", "a"));
    assert_eq!(policies(&zone), [], "it was the only one that the policy is about");
    zone.apply_pod(&on_default("x/a", "n1", 40, Ip::V4));
    assert_eq!(members(&zone), ["10.244.0.11", "10.244.0.40"].map(String::from).into());
    assert_eq!(groups_of(&zone, "x/a"), 2);
}

/// POL-136: one pod among a thousand policies and a set that selects everybody costs what concerns it.
#[test]
fn a_pod_costs_what_concerns_it() {
    let mut zone = plain_zone(Ip::V4);
    for n in 0..1000 {
        let spec = json!({"podSelector": {"matchLabels": {"app": format!("app-{}", n / 3)}},
            "ingress": [{"from": [{"namespaceSelector": {}}]}]});
        zone.apply_policy(&policy(&format!("x/p{n}"), spec));
    }
    let mut here = on_default("x/c", "n1", 20, Ip::V4);
    here.labels.insert("app".into(), "app-7".into());
    zone.apply_pod(&here);
    let mut again = on_default("x/d", "n1", 21, Ip::V4);
    again.labels.insert("app".into(), "app-7".into());
    let dirty = zone.apply_pod(&again).on(&zone).northbound;
    assert!(dirty.iter().all(|slice| slice != "policy:"), "{dirty:?}");
    let written: Vec<Planned> = dirty.iter().flat_map(|slice| rows(&northbound(&zone), slice)).collect();
    assert_eq!(groups_of(&zone, "x/d"), 4, "the drop's and those of three policies");
    assert!(written.len() <= 10, "{} rows: {dirty:?}", written.len());
}
