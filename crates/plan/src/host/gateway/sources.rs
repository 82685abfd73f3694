//! Who may come to a service by an address of its load balancer (`spec.loadBalancerSourceRanges`): what the bridge and the node's
//! own firewall let through.
//!
//! The bridge sees clients outside by their own addresses. Pods of other networks come as anybody outside would see them: by the
//! address of their node. Processes of the node, and pods that come by its management port, are seen by the firewall. Pods of the
//! service's own network are looked at on their switch (`crate::services`).

use std::collections::BTreeSet;

use causeway_types::{Cidr, Family};
use causeway_zone::{Claimed, ServiceInfo};

use super::bridge::{Bridge, EXPOSED, FROM_WIRE, SHARED_ZONE, Side};
use super::exposed::{Door, Exposed};
use crate::host::nft::{chain, kind, listed, suffix, word};
use causeway_types::host::Item;

/// What the firewall asks before it translates.
const BEFORE_TRANSLATION: &str = "-150";

/// Who may come by a door; none is everybody. Doors that are no load balancer's are everybody's.
pub(super) fn admitted(service: &ServiceInfo, door: &Door) -> Option<Vec<Cidr>> {
    service.admitted(Family::of(&door.address)).filter(|_| door.claimed == Some(Claimed::Given))
}

/// Whether pods of other networks of this node may: outside they have its address.
pub(super) fn admits_node(service: &ServiceInfo, side: &Side, door: &Door) -> bool {
    let inside = |ranges: Vec<Cidr>| {
        side.own.first().is_some_and(|own| ranges.iter().any(|range| range.contains_address(*own)))
    };
    admitted(service, door).is_none_or(inside)
}

/// From the wire by a door, with what happens to whoever may.
pub(super) fn arriving(
    bridge: &Bridge,
    side: &Side,
    one: &Exposed<'_>,
    door: &Door,
    then: &str,
) -> Vec<Item> {
    let asked = format!("{},{},tp_dst={}", side.protocol(door.protocol), side.to(door.address), door.port);
    let Some(ranges) = admitted(one.service, door) else {
        return vec![bridge.flow(EXPOSED, 100, asked, then)];
    };
    let may =
        ranges.iter().map(|range| bridge.flow(EXPOSED, 100, format!("{asked},{}", side.source(range)), then));
    may.chain([bridge.flow(EXPOSED, 90, asked.clone(), "drop")]).collect()
}

/// On, to the node itself.
pub(super) fn to_node() -> String {
    format!("ct(zone={SHARED_ZONE},nat,table={FROM_WIRE})")
}

/// Sets and chains of the firewall: nothing where everybody may come to everything.
pub(super) fn guards(bridge: &Bridge, all: &[Exposed<'_>]) -> String {
    let (mut sets, mut rules) = (String::new(), Vec::new());
    for side in &bridge.sides {
        let doors = all.iter().flat_map(|one| one.doors.iter().map(move |door| (one, door)));
        let guarded = doors.filter_map(|(one, door)| Some((door, admitted(one.service, door)?)));
        let guarded: Vec<(&Door, Vec<Cidr>)> =
            guarded.filter(|(door, _)| Family::of(&door.address) == side.family).collect();
        if guarded.is_empty() {
            continue;
        }
        let word = word(side.family);
        let asked = format!("{word} daddr . meta l4proto . th dport");
        sets += &sets_of(side.family, &guarded);
        rules.push(format!(
            "meta l4proto {{ tcp, udp, sctp }} {asked} @guarded{0} {asked} . {word} saddr != @admitted{0} drop",
            suffix(side.family)
        ));
    }
    if rules.is_empty() {
        return String::new();
    }
    // What comes from the wire was looked at by the bridge.
    let arriving: Vec<String> =
        rules.iter().map(|rule| format!("iifname != \"{}\" {rule}", bridge.name())).collect();
    sets + &chain("arriving-by", "prerouting", BEFORE_TRANSLATION, &arriving)
        + &chain("sent-by", "output", BEFORE_TRANSLATION, &rules)
}

/// The doors, and the doors with who may come.
fn sets_of(family: Family, guarded: &[(&Door, Vec<Cidr>)]) -> String {
    let kind = kind(family);
    let text = |door: &Door| {
        let protocol = door.protocol.to_string().to_lowercase();
        format!("{} . {protocol} . {}", door.address, door.port)
    };
    let doors: BTreeSet<String> = guarded.iter().map(|(door, _)| text(door)).collect();
    let admitted: BTreeSet<String> = guarded
        .iter()
        .flat_map(|(door, ranges)| ranges.iter().map(|range| format!("{} . {range}", text(door))))
        .collect();
    let named = |name: &str, more: &str, elements: BTreeSet<String>| {
        let elements: Vec<String> = elements.into_iter().collect();
        format!(
            "\tset {name}{} {{\n\t\ttype {kind} . inet_proto . inet_service{more}\n{}\t}}\n",
            suffix(family),
            listed(&elements)
        )
    };
    named("guarded", "", doors) + &named("admitted", &format!(" . {kind}\n\t\tflags interval"), admitted)
}
