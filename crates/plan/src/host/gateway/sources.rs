//! Who may come to a service by an address of its load balancer (`spec.loadBalancerSourceRanges`): what the bridge and the node's
//! own firewall let through.
//!
//! The bridge sees clients outside by their own addresses. Pods of user-defined networks other than the service's come as anybody
//! outside would see them: by the address of their node. Processes of the node, and pods of the default network, which come by its
//! management port, are seen by the firewall. Pods of the service's own network are looked at on their switch (`crate::services`).

use causeway_types::host::{Item, NftTable};
use causeway_types::{Cidr, Family, NetworkName};
use causeway_zone::{Claimed, ServiceInfo, Zone};

use super::bridge::{Bridge, EXPOSED, FROM_WIRE, SHARED_ZONE, Side};
use super::exposed::{Door, Exposed};
use super::translate::{Translated, element};
use crate::host::nft::{chain, kind, suffix, word};

/// What the firewall asks before it translates.
const BEFORE_TRANSLATION: &str = "-150";

/// Who may come by a door; none is everybody. Doors that are no load balancer's are everybody's.
pub(super) fn admitted(service: &ServiceInfo, door: &Door) -> Option<Vec<Cidr>> {
    service.admitted(Family::of(&door.address)).filter(|_| door.claimed == Some(Claimed::Given))
}

/// Whether pods of other user-defined networks on this node may: outside they have its address.
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
    let asked = door.asked(side);
    let Some(ranges) = admitted(one.service, door) else {
        return vec![bridge.flow(EXPOSED, 100, asked, then)];
    };
    let may =
        ranges.iter().map(|range| bridge.flow(EXPOSED, 100, format!("{asked},{}", side.source(range)), then));
    may.chain([bridge.flow(EXPOSED, 90, asked.clone(), "drop")]).collect()
}

/// From the wire by a door that leaves clients their addresses: nobody comes with an address of those pods whom policies on the network
/// may mean. Pods of the default network are told from the wire for all doors at once.
pub(super) fn unforged(
    zone: &Zone,
    bridge: &Bridge,
    side: &Side,
    network: &NetworkName,
    asked: &str,
) -> Vec<Item> {
    if network.is_default() {
        return Vec::new();
    }
    let subnets = zone.subnets_in_reach(network);
    let forged = subnets.iter().filter(|subnet| subnet.family() == side.family);
    forged
        .map(|subnet| bridge.flow(EXPOSED, 110, format!("{asked},{}", side.source(subnet)), "drop"))
        .collect()
}

/// On, to the node itself.
pub(super) fn to_node() -> String {
    format!("ct(zone={SHARED_ZONE},nat,table={FROM_WIRE})")
}

/// What the firewall's sets have of a service.
pub(super) fn guarded(one: &Exposed<'_>) -> Vec<Item> {
    let closed = one.doors.iter().filter_map(|door| Some((door, admitted(one.service, door)?)));
    let elements = |(door, ranges): (&Door, Vec<Cidr>)| {
        let what = Translated { address: door.address, protocol: door.protocol, port: door.port };
        let may =
            ranges.into_iter().map(move |range| element("admitted", &what, format!(" . {range}"), None));
        [element("guarded", &what, String::new(), None)].into_iter().chain(may)
    };
    closed.flat_map(elements).collect()
}

/// Sets and chains of the firewall that ask who comes, before anything is translated.
pub(super) fn guards(bridge: &Bridge) -> String {
    let (mut sets, mut rules) = (String::new(), Vec::new());
    for side in &bridge.sides {
        let (kind, word, end) = (kind(side.family), word(side.family), suffix(side.family));
        let set = |name: &str, more: &str| {
            let name = format!("{name}{end}");
            let place = NftTable::place_of(&name);
            format!("\tset {name} {{\n\t\ttype {kind} . inet_proto . inet_service{more}\n{place}\t}}\n")
        };
        sets += &set("guarded", "");
        sets += &set("admitted", &format!(" . {kind}\n\t\tflags interval"));
        let asked = format!("{word} daddr . meta l4proto . th dport");
        rules.push(format!(
            "meta l4proto {{ tcp, udp, sctp }} {asked} @guarded{end} {asked} . {word} saddr != @admitted{end} drop"
        ));
    }
    // What comes from the wire was looked at by the bridge.
    let arriving: Vec<String> =
        rules.iter().map(|rule| format!("iifname != \"{}\" {rule}", bridge.name())).collect();
    let arriving = chain("arriving-by", "prerouting", BEFORE_TRANSLATION, &arriving);
    sets + &arriving + &chain("sent-by", "output", BEFORE_TRANSLATION, &rules)
}
