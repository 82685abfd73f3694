//! What rules match, in OVN's words.
//!
//! Subnets without their exceptions are listed as what is left, since OVN would multiply inequalities into flows. Ports of a rule are
//! one condition for each protocol.

use std::collections::{BTreeMap, BTreeSet};

use causeway_ovn::Str;
use causeway_record::{PolicyPort, Protocol};
use causeway_types::{Families, Family};
use causeway_zone::Direction;

/// A condition about addresses, with the sets that it names: without them it would match nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Condition {
    pub(super) text: String,
    pub(super) sets: Vec<Str>,
}

/// The other end of a packet.
pub(super) fn field(direction: Direction, family: Family) -> &'static str {
    match (direction, family) {
        (Direction::Ingress, Family::Ipv4) => "ip4.src",
        (Direction::Ingress, Family::Ipv6) => "ip6.src",
        (Direction::Egress, Family::Ipv4) => "ip4.dst",
        (Direction::Egress, Family::Ipv6) => "ip6.dst",
    }
}

/// The port of whoever the policy is about.
pub(super) fn port_in(direction: Direction, group: &str) -> String {
    match direction {
        Direction::Ingress => format!("outport == @{group}"),
        Direction::Egress => format!("inport == @{group}"),
    }
}

/// Anybody, in the families that a network has.
pub(super) fn anybody(families: Families) -> Condition {
    let words = families.iter().map(|family| match family {
        Family::Ipv4 => "ip4".to_owned(),
        Family::Ipv6 => "ip6".to_owned(),
    });
    Condition { text: either(words), sets: Vec::new() }
}

/// One of these texts in a field of each family: addresses, subnets and names of sets. A family without any matches nothing.
pub(super) fn one_of(direction: Direction, items: &[(Family, Vec<String>)]) -> Option<String> {
    let texts = items.iter().filter(|(_, items)| !items.is_empty());
    let texts: Vec<String> = texts
        .map(|(family, items)| match items.as_slice() {
            [one] => format!("{} == {one}", field(direction, *family)),
            many => format!("{} == {{{}}}", field(direction, *family), many.join(", ")),
        })
        .collect();
    (!texts.is_empty()).then(|| either(texts))
}

/// One of these conditions.
pub(super) fn either(conditions: impl IntoIterator<Item = String>) -> String {
    let all: Vec<String> = conditions.into_iter().collect();
    if all.len() > 1 { format!("({})", all.join(" || ")) } else { all.concat() }
}

pub(super) fn word(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Sctp => "sctp",
    }
}

/// Ports by number, as one condition for each protocol; nothing but the empty one where no ports are given.
pub(super) fn ports(given: Option<&BTreeSet<PolicyPort>>) -> Vec<(&'static str, String)> {
    let Some(given) = given else { return vec![("any", String::new())] };
    let mut ranges: BTreeMap<Protocol, Vec<(u16, u16)>> = BTreeMap::new();
    for port in given {
        if let PolicyPort::Numbers(protocol, first, last) = port {
            ranges.entry(*protocol).or_default().push((*first, *last));
        }
    }
    ranges
        .into_iter()
        .map(|(protocol, ranges)| (word(protocol), condition(protocol, &merged(ranges))))
        .collect()
}

/// Ranges that overlap or follow each other are one.
fn merged(mut ranges: Vec<(u16, u16)>) -> Vec<(u16, u16)> {
    ranges.sort_unstable();
    let mut all: Vec<(u16, u16)> = Vec::new();
    for (first, last) in ranges {
        match all.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => all.push((first, last)),
        }
    }
    all
}

fn condition(protocol: Protocol, ranges: &[(u16, u16)]) -> String {
    let protocol = word(protocol);
    let is_all = |(first, last): &(u16, u16)| *first <= 1 && *last == u16::MAX;
    if ranges.iter().any(is_all) {
        return protocol.to_owned();
    }
    let single: Vec<String> =
        ranges.iter().filter(|(first, last)| first == last).map(|(port, _)| port.to_string()).collect();
    let single = match single.as_slice() {
        [] => None,
        [one] => Some(format!("{protocol}.dst == {one}")),
        many => Some(format!("{protocol}.dst == {{{}}}", many.join(", "))),
    };
    let wide = ranges.iter().filter(|(first, last)| first != last);
    let wide = wide.map(|(first, last)| format!("{first} <= {protocol}.dst <= {last}"));
    format!("{protocol} && {}", either(single.into_iter().chain(wide)))
}

/// A port by number.
pub(super) fn port(protocol: Protocol, number: u16) -> String {
    condition(protocol, &[(number, number)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(first: u16, last: u16) -> PolicyPort {
        PolicyPort::Numbers(Protocol::Tcp, first, last)
    }

    fn text(given: &[PolicyPort]) -> Vec<(&'static str, String)> {
        ports(Some(&given.iter().cloned().collect()))
    }

    /// POL-019, POL-037
    #[test]
    fn ports_of_a_protocol_are_one_condition() {
        assert_eq!(ports(None), [("any", String::new())]);
        assert_eq!(text(&[tcp(80, 80)]), [("tcp", "tcp && tcp.dst == 80".to_owned())]);
        assert_eq!(text(&[tcp(80, 80), tcp(443, 443)]), [("tcp", "tcp && tcp.dst == {80, 443}".to_owned())]);
        assert_eq!(text(&[tcp(80, 80), PolicyPort::all(Protocol::Tcp)]), [("tcp", "tcp".to_owned())]);
        assert_eq!(
            text(&[tcp(80, 80), tcp(81, 90), tcp(85, 99)]),
            [("tcp", "tcp && 80 <= tcp.dst <= 99".to_owned())]
        );
        let mixed = [tcp(80, 80), tcp(100, 200), tcp(300, 400), PolicyPort::Numbers(Protocol::Udp, 53, 53)];
        let condition = "tcp && (tcp.dst == 80 || 100 <= tcp.dst <= 200 || 300 <= tcp.dst <= 400)";
        assert_eq!(text(&mixed), [("tcp", condition.to_owned()), ("udp", "udp && udp.dst == 53".to_owned())]);
        assert_eq!(text(&[PolicyPort::Named(Protocol::Tcp, "http".into())]), []);
        assert_eq!(text(&[]), []);
    }

    #[test]
    fn a_family_without_addresses_matches_nothing() {
        let items = |v4: &[&str], v6: &[&str]| {
            let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
            [(Family::Ipv4, texts(v4)), (Family::Ipv6, texts(v6))]
        };
        assert_eq!(one_of(Direction::Ingress, &items(&[], &[])), None);
        assert_eq!(one_of(Direction::Ingress, &items(&["$a"], &[])).unwrap(), "ip4.src == $a");
        let both = one_of(Direction::Egress, &items(&["$a", "10.0.0.0/8"], &["$b"])).unwrap();
        assert_eq!(both, "(ip4.dst == {$a, 10.0.0.0/8} || ip6.dst == $b)");
    }
}
