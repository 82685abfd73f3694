//! A small reading of ACLs: what they do with the packet that begins a connection.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_ovn::{Plan, Planned, Planner as _};
use causeway_ovsdb::{Atom, Datum};
use causeway_plan::northbound;
use causeway_record::Pod;
use causeway_zone::Zone;
use ipnet::IpNet;

use super::stage::Database;

/// A packet that begins a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    pub(crate) from: &'a Pod,
    pub(crate) to: &'a Pod,
    pub(crate) source: IpAddr,
    pub(crate) target: IpAddr,
    pub(crate) protocol: &'static str,
    pub(crate) port: u16,
}

impl Packet<'_> {
    /// As it comes in: a pod that comes to itself by a service has the address for that as its source.
    fn behind_the_service(&self) -> Self {
        let itself = if self.source.is_ipv4() { "169.254.0.5" } else { "fd69::5" };
        let source = if self.from.key == self.to.key { itself.parse().unwrap() } else { self.source };
        Self { source, ..*self }
    }
}

/// The rows of a zone, as far as ACLs look at them.
#[derive(Default)]
pub(crate) struct Rows {
    acls: Vec<Acl>,
    groups: BTreeMap<String, BTreeSet<String>>,
    sets: BTreeMap<String, BTreeSet<String>>,
}

struct Acl {
    ingress: bool,
    tier: i64,
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
    /// Those that a zone plans.
    pub(crate) fn of(zone: &Zone) -> Self {
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
        let mut rows = Self::default();
        for row in &planned {
            match (row.meta.name, row.member_of) {
                ("ACL", _) => rows.acls.push(Acl {
                    ingress: column(row, "direction") == "to-lport",
                    tier: column(row, "tier").parse().unwrap_or_default(),
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

    /// Those that a database has.
    pub(crate) fn there(database: &Database) -> Self {
        let mut rows = Self::default();
        for acl in database.rows("ACL") {
            rows.acls.push(Acl {
                ingress: acl.text("direction") == "to-lport",
                tier: acl.text("tier").parse().unwrap(),
                priority: acl.text("priority").parse().unwrap(),
                action: acl.text("action"),
                matches: acl.text("match"),
            });
        }
        rows.sets =
            database.rows("Address_Set").map(|set| (set.text("name"), set.all("addresses"))).collect();
        for group in database.rows("Port_Group") {
            let ports = group.all("ports");
            let name = |port: &String| database.row("Logical_Switch_Port", port).text("name");
            rows.groups.insert(group.text("name"), ports.iter().map(name).collect());
        }
        rows
    }

    /// Whether a packet passes at both ends.
    pub(crate) fn passes(&self, packet: &Packet<'_>) -> bool {
        [false, true].into_iter().all(|ingress| {
            let may = self.may_pass(packet, ingress);
            assert_eq!(may.len(), 1, "it is not certain what happens to {packet:?}");
            may.contains(&true)
        })
    }

    /// Whether a packet passes at one end. It is both if that hangs on which of equal ACLs wins.
    pub(crate) fn may_pass(&self, packet: &Packet<'_>, ingress: bool) -> BTreeSet<bool> {
        let packet = &if ingress { packet.behind_the_service() } else { *packet };
        let hits: Vec<&Acl> = self
            .acls
            .iter()
            .filter(|acl| acl.ingress == ingress && self.concerns(acl, packet))
            .filter(|acl| Reading { rows: self, packet, text: &acl.matches }.holds())
            .collect();
        let mut may = BTreeSet::new();
        for tier in 0..=3 {
            let of_tier = || hits.iter().filter(|acl| acl.tier == tier);
            let Some(best) = of_tier().map(|acl| acl.priority).max() else { continue };
            let actions: BTreeSet<&str> =
                of_tier().filter(|acl| acl.priority == best).map(|acl| acl.action.as_str()).collect();
            let verdicts = actions.iter().filter(|action| **action != "pass").map(|action| *action != "drop");
            may.extend(verdicts);
            if !actions.contains("pass") {
                return may;
            }
        }
        may.insert(true);
        may
    }

    /// Whether the pod that an ACL's group is about is in that group; most are not, and their matches need not be read.
    fn concerns(&self, acl: &Acl, packet: &Packet<'_>) -> bool {
        let pod = if acl.ingress { packet.to } else { packet.from };
        let Some((_, rest)) = acl.matches.split_once("port == @") else { return true };
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.groups.get(&rest[..end]).is_none_or(|ports| ports.iter().any(|port| is_primary(port, pod)))
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

/// The network that a pod's namespace has.
pub(crate) fn network(pod: &Pod) -> &'static str {
    match pod.key.namespace.as_str() {
        "ns1" => "blue",
        "ns2" => "green",
        _ => "default",
    }
}
