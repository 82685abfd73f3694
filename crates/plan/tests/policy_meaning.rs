//! What the rows of policies mean, against what the specification says: a small reading of OVN's matches on one side, a small reading of
//! the policies' own manifests (`causeway_testing::policy`) on the other, and random policies, pods and packets between them.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_ovn::{Plan, Planned, Planner as _};
use causeway_ovsdb::{Atom, Datum};
use causeway_plan::northbound;
use causeway_record::{Logging, NamedPort, Namespace, Pod, Protocol};
use causeway_testing::policy::{self as policy_spec, Choices, Person, Written};
use causeway_zone::{Direction, Meeting, Zone};
use ipnet::IpNet;
use proptest::prelude::*;
use serde_json::{Value, json};
use support::*;

/// A packet that begins a connection.
#[derive(Clone, Copy, Debug)]
struct Packet<'a> {
    from: &'a Pod,
    to: &'a Pod,
    source: IpAddr,
    target: IpAddr,
    protocol: &'static str,
    port: u16,
}

impl Packet<'_> {
    /// As it comes in: a pod that comes to itself by a service has the address for that as its source.
    fn behind_the_service(&self) -> Self {
        let itself = if self.source.is_ipv4() { "169.254.0.5" } else { "fd69::5" };
        let source = if self.from.key == self.to.key { itself.parse().unwrap() } else { self.source };
        Self { source, ..*self }
    }
}

// ------------------------------------------------------------------------------------------------------- the rows

/// The rows of a zone, as far as ACLs look at them.
struct Rows {
    acls: Vec<Acl>,
    groups: BTreeMap<String, BTreeSet<String>>,
    sets: BTreeMap<String, BTreeSet<String>>,
}

struct Acl {
    ingress: bool,
    tier: String,
    priority: i64,
    action: String,
    matches: String,
}

/// The value of a column with one value; nothing where it is the default.
fn column(row: &Planned, name: &str) -> String {
    match row.column(name).and_then(Datum::one) {
        Some(Atom::String(text)) => text.to_string(),
        Some(Atom::Integer(number)) => number.to_string(),
        _ => String::new(),
    }
}

impl Rows {
    fn of(zone: &Zone) -> Self {
        let planner = northbound(zone);
        let mut planned = Vec::new();
        for slice in planner.slices("") {
            if let Plan::Rows(rows) = planner.plan(&slice) {
                planned.extend(rows);
            }
        }
        let names: BTreeMap<_, String> = planned
            .iter()
            .filter(|row| row.member_of.is_none())
            .map(|row| (row.uuid, column(row, "name")))
            .collect();
        let mut rows = Self { acls: Vec::new(), groups: BTreeMap::new(), sets: BTreeMap::new() };
        for row in &planned {
            match (row.meta.name, row.member_of) {
                ("ACL", _) => rows.acls.push(Acl {
                    ingress: column(row, "direction") == "to-lport",
                    tier: column(row, "tier"),
                    priority: column(row, "priority").parse().unwrap_or_default(),
                    action: column(row, "action"),
                    matches: column(row, "match"),
                }),
                ("Address_Set", Some(edge)) => {
                    let member = column(row, "addresses");
                    rows.sets.entry(names[&edge.parent.uuid].clone()).or_default().insert(member);
                }
                ("Address_Set", None) => drop(rows.sets.entry(column(row, "name")).or_default()),
                ("Port_Group", _) => drop(rows.groups.entry(column(row, "name")).or_default()),
                _ => {}
            }
            if row.meta.name == "Logical_Switch_Port" {
                for edge in row.edges.iter().filter(|edge| edge.parent.meta.name == "Port_Group") {
                    let group = names
                        .get(&edge.parent.uuid)
                        .unwrap_or_else(|| panic!("{} is in a group that is not", row.path));
                    rows.groups.entry(group.clone()).or_default().insert(column(row, "name"));
                }
            }
        }
        rows
    }

    fn passes(&self, packet: &Packet<'_>) -> bool {
        [false, true].into_iter().all(|ingress| {
            let packet = &if ingress { packet.behind_the_service() } else { *packet };
            for tier in ["", "1", "2", "3"] {
                let mut hits: Vec<&Acl> =
                    self.acls.iter().filter(|acl| acl.ingress == ingress && acl.tier == tier).collect();
                hits.retain(|acl| Reading { rows: self, packet, text: &acl.matches }.holds());
                let Some(best) = hits.iter().map(|acl| acl.priority).max() else { continue };
                let actions: BTreeSet<&str> =
                    hits.iter().filter(|acl| acl.priority == best).map(|acl| acl.action.as_str()).collect();
                assert_eq!(actions.len(), 1, "it is not certain what happens to {packet:?}");
                match *actions.first().unwrap() {
                    "drop" => return false,
                    "pass" => {}
                    _ => return true,
                }
            }
            true
        })
    }
}

/// A match, read as far as it is written by plans.
struct Reading<'a> {
    rows: &'a Rows,
    packet: &'a Packet<'a>,
    text: &'a str,
}

impl Reading<'_> {
    fn holds(mut self) -> bool {
        let holds = self.any();
        assert!(self.text.trim().is_empty(), "cannot read {:?}", self.text);
        holds
    }

    fn take(&mut self, word: &str) -> bool {
        let rest = self.text.trim_start();
        let found = rest.strip_prefix(word);
        self.text = found.unwrap_or(rest);
        found.is_some()
    }

    fn any(&mut self) -> bool {
        let mut holds = self.all();
        while self.take("||") {
            holds |= self.all();
        }
        holds
    }

    fn all(&mut self) -> bool {
        let mut holds = self.one();
        while self.take("&&") {
            holds &= self.one();
        }
        holds
    }

    fn one(&mut self) -> bool {
        if self.take("(") {
            let holds = self.any();
            assert!(self.take(")"), "{:?}", self.text);
            return holds;
        }
        let first = self.word();
        if let Some(first) = first.parse::<u16>().ok().filter(|_| self.take("<=")) {
            let field = self.word();
            assert!(self.take("<="));
            let last: u16 = self.word().parse().unwrap();
            return self.port(&field).is_some_and(|port| (first..=last).contains(&port));
        }
        if !self.take("==") {
            return match first.as_str() {
                "0" => false,
                "ip" => true,
                "ip4" => self.packet.source.is_ipv4(),
                "ip6" => self.packet.source.is_ipv6(),
                "arp" | "nd" => false,
                protocol => self.packet.protocol == protocol,
            };
        }
        let items = self.items();
        items.iter().any(|item| self.is(&first, item))
    }

    fn items(&mut self) -> Vec<String> {
        if !self.take("{") {
            return vec![self.word()];
        }
        let mut items = vec![self.word()];
        while self.take(",") {
            items.push(self.word());
        }
        assert!(self.take("}"));
        items
    }

    fn word(&mut self) -> String {
        let rest = self.text.trim_start();
        let end = rest.find(|c: char| c.is_whitespace() || "(){},".contains(c)).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.text = rest;
        word.to_owned()
    }

    fn port(&self, field: &str) -> Option<u16> {
        let protocol = field.strip_suffix(".dst")?;
        (protocol == self.packet.protocol).then_some(self.packet.port)
    }

    fn is(&self, field: &str, item: &str) -> bool {
        let in_group = |pod: &Pod| {
            let group = item.strip_prefix('@').unwrap();
            let ports = self.rows.groups.get(group).unwrap_or_else(|| panic!("no group {group}"));
            ports.iter().any(|port| is_primary(port, pod))
        };
        match field {
            "inport" if item.starts_with('@') => in_group(self.packet.from),
            "outport" if item.starts_with('@') => in_group(self.packet.to),
            "inport" | "outport" => false,
            "ip4.src" | "ip6.src" => self.is_address(self.packet.source, field, item),
            "ip4.dst" | "ip6.dst" => self.is_address(self.packet.target, field, item),
            _ => self.port(field) == item.parse().ok(),
        }
    }

    fn is_address(&self, address: IpAddr, field: &str, item: &str) -> bool {
        if address.is_ipv4() != field.starts_with("ip4") {
            return false;
        }
        let within = |text: &str| match text.parse::<IpNet>() {
            Ok(net) => net.contains(&address),
            Err(_) => text.parse() == Ok(address),
        };
        match item.strip_prefix('$') {
            Some(set) => self
                .rows
                .sets
                .get(set)
                .unwrap_or_else(|| panic!("no set {set}"))
                .iter()
                .any(|text| within(text)),
            None => within(item),
        }
    }
}

/// Whether a port is a pod's on its primary network. Beside it a pod of a network of its own has a locked one on the default network.
fn is_primary(port: &str, pod: &Pod) -> bool {
    let plain = format!("{}_{}", pod.key.namespace, pod.key.name);
    match network(pod) {
        "default" => port == plain,
        _ => port != plain && port.ends_with(&plain),
    }
}

// --------------------------------------------------------------------------------------------------- what is tried

const NAMESPACES: [&str; 4] = ["x", "y", "ns1", "ns2"];

fn choices() -> Choices {
    Choices {
        namespaces: NAMESPACES.to_vec(),
        pods: Choices::selectors_of_pods(),
        selectors: vec![
            json!({}),
            json!({"matchLabels": {"name": "x"}}),
            json!({"matchLabels": {"name": "ns2"}}),
            json!({"matchLabels": {"team": "a"}}),
            json!({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}),
        ],
        blocks: vec![
            json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.244.0.10/32", "10.20.0.0/24"]}}),
            json!({"ipBlock": {"cidr": "203.203.0.0/16"}}),
            json!({"ipBlock": {"cidr": "::/0", "except": ["fd00:10:244::/64"]}}),
        ],
        ports: vec![
            json!({"port": 80}),
            json!({"protocol": "UDP", "port": 80}),
            json!({"port": 79, "endPort": 81}),
            json!({"protocol": "UDP"}),
            json!({"port": "http"}),
            json!({"protocol": "UDP", "port": "dns"}),
            json!({"port": "nobody-has-it"}),
        ],
        protocols: vec![
            Value::Null,
            json!([{"tcp": {"destinationPort": {"number": 80}}}]),
            json!([{"destinationNamedPort": "http"}]),
            json!([{"udp": {"destinationPort": {"number": 80}}}, {"destinationNamedPort": "dns"}]),
        ],
    }
}

/// The pod, as the specification sees it.
fn person(pod: &Pod) -> Person {
    let port =
        |named: &NamedPort| (named.name.to_string(), named.protocol.to_string().to_lowercase(), named.port);
    Person {
        namespace: pod.key.namespace.to_string(),
        name: pod.key.name.to_string(),
        labels: pod.labels.clone(),
        ports: pod.named_ports.iter().map(port).collect(),
    }
}

/// Whether the specification lets a packet pass.
fn passes(written: &Written, packet: &Packet<'_>) -> bool {
    let Packet { source, target, protocol, port, .. } = *packet;
    let (from, to) = (&person(packet.from), &person(packet.to));
    written.passes(&policy_spec::Packet { from, to, source, target, protocol, port })
}

fn people() -> Vec<Pod> {
    let mut all = Vec::new();
    for (n, namespace) in NAMESPACES.into_iter().enumerate() {
        for (m, name) in ["a", "b", "c"].into_iter().enumerate() {
            let at = 10 + 10 * n + m;
            let (four, six) = (format!("10.244.0.{at}/24"), format!("fd00:10:244::{at}/64"));
            let locked = [four.as_str(), six.as_str()];
            let own = |four: &str, six: &str| (format!("{four}{at}/24"), format!("{six}{at}/64"));
            let key = format!("{namespace}/{name}");
            let pod = match namespace {
                "ns1" | "ns2" => {
                    let (four, six) = if namespace == "ns1" {
                        own("10.20.0.", "fd20::")
                    } else {
                        own("203.203.0.", "2010:100:200::")
                    };
                    let (nad, tunnel) =
                        if namespace == "ns1" { ("ns1/blue", None) } else { ("ns2/green", Some(at as u32)) };
                    let own = [four.as_str(), six.as_str()];
                    pod(
                        &key,
                        "n1",
                        &[
                            ("default", "infrastructure-locked", &locked, None),
                            (nad, "primary", &own, tunnel),
                        ],
                    )
                }
                _ => pod(&key, "n1", &[("default", "primary", &locked, None)]),
            };
            let named = |name: &str, protocol, port| NamedPort { name: name.into(), protocol, port };
            // The same name is another number elsewhere, and some have none.
            let ports = match m {
                0 => vec![named("dns", Protocol::Udp, 80), named("http", Protocol::Tcp, 80)],
                1 => vec![named("http", Protocol::Tcp, 81)],
                _ => Vec::new(),
            };
            all.push(Pod { labels: [("pod".to_owned(), name.to_owned())].into(), named_ports: ports, ..pod });
        }
    }
    all
}

fn address(pod: &Pod, six: bool) -> IpAddr {
    let networks = pod.networks.clone().unwrap().unwrap().0;
    let primary = networks
        .values()
        .find(|network| network.role == Some(causeway_api::annotations::PodRole::Primary))
        .unwrap();
    primary.ip_addresses.iter().map(IpNet::addr).find(|ip| ip.is_ipv6() == six).unwrap()
}

fn network(pod: &Pod) -> &'static str {
    match pod.key.namespace.as_str() {
        "ns1" => "blue",
        "ns2" => "green",
        _ => "default",
    }
}

/// What the zone says of the connection, once it runs; nothing of what has no ports.
fn said(zone: &Zone, packet: &Packet<'_>) -> Option<bool> {
    let protocol = Protocol::named(&packet.protocol.to_uppercase())?;
    let ends =
        [(packet.from, Direction::Egress, packet.target), (packet.to, Direction::Ingress, packet.source)];
    let allows = |(pod, direction, peer): (&Pod, Direction, IpAddr)| {
        let network = zone.network_of(zone.primary(&pod.key).unwrap()).unwrap();
        let port = packet.port;
        zone.policies_allow(&Meeting { pod: &pod.key, network, direction, peer, protocol, port })
    };
    Some(ends.into_iter().all(allows))
}

fn check(written: &Written, road: bool) -> Result<(), TestCaseError> {
    let mut zone = cluster(Ip::Dual, None);
    for (name, labels) in &written.namespaces {
        let namespace = Namespace {
            name: name.parse().unwrap(),
            labels: labels.clone(),
            deleting: false,
            logging: Logging::default(),
        };
        zone.apply_namespace(&namespace);
    }
    for (key, spec) in &written.policies {
        zone.apply_policy(&policy(key, spec.clone()));
    }
    for (name, spec) in &written.cluster {
        zone.apply_cluster_policy(&cluster_policy(name, spec.clone()));
    }
    let people = people();
    people.iter().for_each(|pod| drop(zone.apply_pod(pod)));
    if road {
        zone.apply_connect(&connect("road", "compact", Ip::Dual, &["layer3_1", "layer2_5"]));
    }
    let rows = Rows::of(&zone);
    let joined = |one: &Pod, other: &Pod| {
        let (one, other) = (network(one), network(other));
        one == other || (road && one != "default" && other != "default")
    };
    for from in &people {
        for to in people.iter().filter(|to| joined(from, to)) {
            for (six, protocol, port) in
                [(false, "tcp", 80), (false, "udp", 80), (true, "tcp", 81), (true, "icmp6", 0)]
            {
                let packet =
                    Packet { from, to, source: address(from, six), target: address(to, six), protocol, port };
                let passes = passes(written, &packet);
                prop_assert_eq!(rows.passes(&packet), passes, "{:?}", packet);
                // What comes to itself and runs already is left alone.
                if let Some(said) = said(&zone, &packet).filter(|_| from.key != to.key) {
                    prop_assert_eq!(said, passes, "of a connection that runs: {:?}", packet);
                }
            }
        }
    }
    Ok(())
}

fn written() -> impl Strategy<Value = Written> {
    let policies = prop::collection::btree_map(any::<u8>(), choices().policies(), 0..6);
    let cluster = prop::collection::btree_map(any::<u8>(), choices().cluster_policies(), 0..4);
    let teams = prop::collection::vec(any::<bool>(), NAMESPACES.len());
    (policies, cluster, teams).prop_map(|(policies, cluster, teams)| {
        let labels = |(name, team): (&str, bool)| {
            let team = team.then(|| ("team".to_owned(), "a".to_owned()));
            (name.to_owned(), [("name".to_owned(), name.to_owned())].into_iter().chain(team).collect())
        };
        Written {
            namespaces: NAMESPACES.into_iter().zip(teams).map(labels).collect(),
            policies: policies.into_values().collect(),
            cluster: cluster.into_values().collect(),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_mean_what_the_specification_says(written in written(), road in any::<bool>()) {
        check(&written, road)?;
    }
}
