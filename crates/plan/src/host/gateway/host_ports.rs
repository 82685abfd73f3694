//! Ports of the node that lead to one of its pods: their flows on the bridge, and what the node's own firewall translates.
//!
//! ```text
//!   wire ── bridge ── the gateway router of the pod's network ── pod
//!   processes of the node, and pods of other networks on it, which come by the bridge or by the management port:
//!      pod of the default network ── translated to the pod, by the management port
//!      pod of another network ────── translated to its gateway router's masquerade address, by the bridge
//! ```

use std::collections::BTreeSet;
use std::net::IpAddr;

use causeway_record::ObjectKey;
use causeway_types::host::{Item, NftFamily, NftTable, Owner, Setting};
use causeway_types::{Family, MasqueradeRole, NetworkName, management_port_device};
use causeway_zone::{Active, Change, HostDoor, Rendering, Zone};

use super::bridge::{ARRIVED, Bridge, EXPOSED, Side};
use super::exposed::{answer, to_router};
use super::sources::unforged;
use super::translate::{BEFORE, Translated, Translation, chain, map};
use super::{HostRoom, Owned, held};
use crate::host::Touched;
use crate::host::nft::{suffix, word};
use crate::host_ports::{LOCALHOST, doorways, inner_address};

const HOST_PORT: &str = "host-port:";
/// Where sources are translated.
const BEHIND: &str = "100";
/// Before connections are tracked: answers have the node's address still.
const FIRST: &str = "-310";

pub(in crate::host) static HOST_PORTS: HostRoom = HostRoom {
    name: "host ports",
    items: |zone, _here, _touched| items(zone),
    follows: |zone, change| {
        Touched::all_if(match change {
            Change::Bridge | Change::HostPorts(_) => true,
            Change::Pod { pod, .. } => zone.has_host_ports(pod),
            Change::Service(_) => zone.pods_with_host_ports().next().is_some(),
            Change::Network(name) => name.is_default() || is_on_any(zone, &[name.clone()].into()),
            Change::Grants(name) | Change::Member { network: name, .. } => is_on_any(zone, &zone.reach(name)),
            _ => false,
        })
    },
};

/// Whether a pod with host ports is on one of these networks.
fn is_on_any(zone: &Zone, networks: &BTreeSet<NetworkName>) -> bool {
    let mut on = zone.pods_with_host_ports().filter_map(|pod| zone.host_ports_network(pod));
    on.any(|network| networks.contains(network))
}

/// A pod with its doors, and the network that it is on.
struct Opened<'a> {
    pod: &'a ObjectKey,
    network: &'a Active,
    doors: Vec<HostDoor>,
}

fn items(zone: &Zone) -> Vec<Owned> {
    let table_owner = Owner::node("host-ports");
    let (bridge, gateway) = match (Bridge::of(zone), zone.gateway()) {
        (Ok(Some(bridge)), Ok(Some(gateway))) => (bridge, gateway),
        (Ok(_), Ok(_)) => return vec![(table_owner, Ok(localhost(&management(zone), false)))],
        (Err(reason), _) | (_, Err(reason)) => {
            return held(zone.pods_with_host_ports().map(owner).chain([table_owner]), &reason);
        }
    };
    let own = doorways(gateway);
    let all: Vec<Opened<'_>> =
        zone.pods_with_host_ports().filter_map(|pod| opened(zone, pod, &own)).collect();
    let flows = all.iter().map(|one| (owner(one.pod), Ok(flows(zone, &bridge, one))));
    let node = (table_owner, Ok(translations(zone, &bridge, &all)));
    flows.chain([node]).collect()
}

fn owner(pod: &ObjectKey) -> Owner {
    Owner::new(format!("{HOST_PORT}{pod}"))
}

/// The pod, if the owner is one.
pub(super) fn pod_of(owner: &Owner) -> Option<ObjectKey> {
    owner.as_str().strip_prefix(HOST_PORT)?.parse().ok()
}

fn opened<'a>(zone: &'a Zone, pod: &'a ObjectKey, own: &[IpAddr]) -> Option<Opened<'a>> {
    let network = zone.host_ports_network(pod)?;
    let Some(Rendering::Rendered(network)) = zone.rendering(network) else { return None };
    let doors = zone.host_doors(pod, own);
    (!doors.is_empty()).then_some(Opened { pod, network, doors })
}

fn flows(zone: &Zone, bridge: &Bridge, one: &Opened<'_>) -> Vec<Item> {
    let Some(router) = bridge.router_of(one.network) else { return Vec::new() };
    let mut flows = Vec::new();
    for door in one.doors.iter().filter(|door| door.address != LOCALHOST) {
        let Some(side) = bridge.side(Family::of(&door.address)) else { continue };
        let (proto, port) = (side.protocol(door.protocol), door.port);
        let asked = format!("{proto},{},tp_dst={port}", side.to(door.address));
        flows.extend(unforged(zone, bridge, side, one.network.name(), &asked));
        flows.push(bridge.flow(EXPOSED, 100, asked, to_router(bridge, router)));
        if one.network.is_default() {
            flows.push(answer(bridge, side, (proto, door.address, port)));
        }
        // Pods of other networks go by the node, which parts a chain of translations that would be too long for the datapath.
        let asked = format!("{},{proto},{},tp_dst={port}", bridge.sent_by_users(), side.to(door.address));
        flows.push(bridge.flow(ARRIVED, 261, asked, format!("{},LOCAL", bridge.towards_default())));
    }
    flows
}

/// The table of the firewall, and what `localhost` needs of the devices.
fn translations(zone: &Zone, bridge: &Bridge, all: &[Opened<'_>]) -> Vec<Item> {
    let translated: Vec<Translation> = all.iter().flat_map(translated).collect();
    let mut devices = management(zone);
    devices.push(bridge.name().to_owned());
    let mut items = localhost(&devices, translated.iter().any(|one| one.what.address == LOCALHOST));
    if !translated.is_empty() {
        items.push(table(bridge, zone.active(&NetworkName::default_network()), &translated));
    }
    items
}

/// The node's own leg in the default network.
fn management(zone: &Zone) -> Vec<String> {
    let network = zone.active(&NetworkName::default_network());
    network.map(|network| management_port_device(network.id)).into_iter().collect()
}

/// Whether packets from `localhost` may leave by these devices. It is said without host ports, too: what was open for one is shut.
fn localhost(devices: &[String], open: bool) -> Vec<Item> {
    let setting = |device: &String| Setting {
        path: format!("ipv4/conf/{device}/route_localnet"),
        value: if open { "1" } else { "0" }.into(),
    };
    devices.iter().map(|device| Item::Setting(setting(device))).collect()
}

fn translated(one: &Opened<'_>) -> Vec<Translation> {
    let to = |door: &HostDoor| match inner_address(one.network, door) {
        Some(router) => Some((router, door.port)),
        None => one.network.is_default().then_some(door.target),
    };
    let translation = |door: &HostDoor| {
        let what = Translated { address: door.address, protocol: door.protocol, port: door.port };
        Some(Translation { what, to: to(door)?, from_wire: false })
    };
    one.doors.iter().filter_map(translation).collect()
}

fn table(bridge: &Bridge, default: Option<&Active>, all: &[Translation]) -> Item {
    let (mut body, mut asked, mut guests, mut sources) = (String::new(), Vec::new(), Vec::new(), Vec::new());
    for family in Family::ALL {
        let name = format!("ports{}", suffix(family));
        body += &map(&name, family, all.iter().filter(|one| Family::of(&one.what.address) == family));
        let word = word(family);
        let rule = format!("dnat {word} to {word} daddr . meta l4proto . th dport map @{name}");
        let from =
            |side: &Side| format!("iifname \"{}\" {word} saddr {} {rule}", bridge.name(), side.masquerade);
        guests.extend(bridge.side(family).map(from));
        asked.push(rule);
        sources.extend(source(bridge, default, family, all));
    }
    // Packets from the wire have been led to routers by the bridge.
    let device = bridge.name();
    let mut arriving: Vec<String> =
        asked.iter().map(|rule| format!("iifname != \"{device}\" {rule}")).collect();
    arriving.extend(guests);
    body += &chain("arriving", "prerouting", BEFORE, &arriving);
    body += &chain("sent", "output", BEFORE, &asked);
    body += &chain("leaving", "postrouting", BEHIND, &sources);
    // With `route_localnet` somebody beside the device could else speak to what listens on `localhost`.
    body += &format!(
        "\tchain guard {{\n\t\ttype filter hook prerouting priority {FIRST}; policy accept;\n\
         \t\tiifname != \"lo\" ip daddr 127.0.0.0/8 drop\n\t\tiifname != \"lo\" ip saddr 127.0.0.0/8 drop\n\t}}\n"
    );
    Item::Table(NftTable { family: NftFamily::Inet, name: "causeway-host-ports".into(), body })
}

/// Pods answer to an address of the node by which they are reached.
fn source(bridge: &Bridge, default: Option<&Active>, family: Family, all: &[Translation]) -> Vec<String> {
    let word = word(family);
    let mut rules = Vec::new();
    if let Some(side) = bridge.side(family) {
        let host = side.role(MasqueradeRole::Host);
        let (device, masked) = (bridge.name(), side.masquerade);
        rules
            .push(format!("oifname \"{device}\" {word} daddr {masked} ct status dnat snat {word} to {host}"));
    }
    let targets: BTreeSet<IpAddr> =
        all.iter().map(|one| one.to.0).filter(|to| Family::of(to) == family).collect();
    if let Some(network) = default {
        let device = management_port_device(network.id);
        let inside = |to: &&IpAddr| {
            network.legs.iter().flat_map(|leg| &leg.subnets).any(|net| net.contains_address(**to))
        };
        let targets: Vec<String> = targets.iter().filter(inside).map(ToString::to_string).collect();
        let legs = network.legs.iter().filter(|leg| leg.family == family && !targets.is_empty());
        let targets = targets.join(", ");
        for (who, own) in legs.flat_map(|leg| inner_sources(leg.management.addr(), bridge.side(family))) {
            rules.push(format!(
                "oifname \"{device}\" {word} daddr {{ {targets} }} ct status dnat fib saddr type {who}local snat {word} to {own}"
            ));
        }
    }
    rules
}

/// With which source somebody comes to a pod of the default network: the node's own processes with the address that policies always let
/// in, and nobody else, whoever he is and by whatever device he came. Others have the address by which nodes know each other, as if
/// they had asked from another node; its answers come by the management port, too.
fn inner_sources(management: IpAddr, side: Option<&Side>) -> Vec<(&'static str, IpAddr)> {
    let node = side.and_then(|side| side.own.first()).copied();
    [("", management)].into_iter().chain(node.map(|node| ("!= ", node))).collect()
}
