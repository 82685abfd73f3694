//! Services that are reached by addresses of nodes, or by addresses outside of the cluster: their flows on the bridge, and what
//! the node's own firewall translates for processes of the node.
//!
//! What an owner writes himself (`externalIPs`) is believed on the wire and in his own network alone: neither the node nor another
//! tenant's pods follow it. What islands send outside passes by the default network's gateway router, so that one knows no such address:
//! clients from the wire are led to a service of the default network by an address that is the service's own.

use std::collections::BTreeSet;
use std::net::IpAddr;

use causeway_record::ObjectKey;
use causeway_types::host::{Item, Owner};
use causeway_types::{Family, Mac, NamespaceName, NetworkName};
use causeway_zone::{Claimed, Protocol, Rendering, ServiceInfo, ServicePort, Zone};

use super::bridge::{ANSWERED, ARRIVED, Bridge, SERVICE_ZONE, Side, TO_SERVICE};
use super::sources::{admits_node, admitted, arriving, guarded, to_node, unforged};
use super::translate::{Translated, Translation, table};
use super::{Owned, held};
use crate::host::Touched;

/// How owners that are services begin.
const SERVICE: &str = "service:";

/// One way into a service: an address, a port, and who says so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Door {
    pub(super) address: IpAddr,
    pub(super) protocol: Protocol,
    pub(super) port: u16,
    /// The service's own address and port.
    pub(super) cluster: (IpAddr, u16),
    /// An address of the node, or who says that the address is the service's.
    pub(super) claimed: Option<Claimed>,
}

/// A service with its doors on this node.
pub(super) struct Exposed<'a> {
    pub(super) key: ObjectKey,
    pub(super) service: &'a ServiceInfo,
    network: &'a NetworkName,
    /// The MAC of the network's gateway router.
    router: Mac,
    pub(super) doors: Vec<Door>,
}

/// Flows and translations of each service, and one table of the firewall for all.
pub(super) fn items(zone: &Zone, touched: &Touched) -> Vec<Owned> {
    let services: Vec<ObjectKey> = match touched {
        Touched::Nobody => Vec::new(),
        // One that is gone has nothing that could be held.
        Touched::Some(owners) => {
            owners.iter().filter_map(service_of).filter(|key| zone.service(key).is_some()).collect()
        }
        Touched::Everybody => zone.services().collect(),
    };
    let bridge = match Bridge::of(zone) {
        Ok(Some(bridge)) => bridge,
        Ok(None) => return Vec::new(),
        Err(reason) => return held(services.iter().map(owner).chain([translations()]), &reason),
    };
    let planned = |key| {
        let one = exposed(zone, &bridge, key)?;
        let mut items = flows(zone, &bridge, &one);
        items.extend(translations_of(zone, &bridge, &one).iter().map(Translation::item));
        items.extend(guarded(&one));
        Some((owner(&one.key), Ok(items)))
    };
    let services = services.into_iter().filter_map(planned);
    services.chain([(translations(), Ok(vec![table(&bridge)]))]).collect()
}

/// These services, as owners.
pub(super) fn owners(services: impl IntoIterator<Item = ObjectKey>) -> Touched {
    Touched::Some(services.into_iter().map(|key| owner(&key)).collect())
}

/// Whether a network has services that are reached from outside, or by the node.
pub(super) fn is_exposed(zone: &Zone, network: &NetworkName) -> bool {
    zone.namespaces_of(network).iter().any(|namespace| zone.services_in(namespace).next().is_some())
}

/// Services by which clients come to a network, or to one that reaches it, with their own addresses.
pub(super) fn in_reach(zone: &Zone, network: &NetworkName) -> Touched {
    let mut services = zone.sourced_services().peekable();
    if services.peek().is_none() {
        return owners([]);
    }
    let networks = zone.reach(network);
    let namespaces: BTreeSet<NamespaceName> =
        networks.iter().flat_map(|network| zone.namespaces_of(network)).collect();
    owners(services.filter(|key| namespaces.contains(&key.namespace)))
}

/// Whether the ways into a service depend on its endpoints: where the node itself may serve, and where one of several networks does.
pub(super) fn follow_endpoints(zone: &Zone, key: &ObjectKey) -> bool {
    let local = zone.service(key).is_some_and(|service| service.external_local);
    local || zone.primaries(&key.namespace).len() > 1
}

fn owner(key: &ObjectKey) -> Owner {
    Owner::new(format!("{SERVICE}{key}"))
}

/// The service, if the owner is one.
pub(super) fn service_of(owner: &Owner) -> Option<ObjectKey> {
    owner.as_str().strip_prefix(SERVICE)?.parse().ok()
}

fn translations() -> Owner {
    Owner::node("services")
}

/// Who says to have an address and port, and since when: the smallest has it.
type Claim<'a> = (Option<Claimed>, i64, &'a ObjectKey);

impl Door {
    /// Matches what is sent to it.
    pub(super) fn asked(&self, side: &Side) -> String {
        format!("{},{},tp_dst={}", side.protocol(self.protocol), side.to(self.address), self.port)
    }
}

impl Exposed<'_> {
    fn claim(&self, door: &Door) -> Claim<'_> {
        (door.claimed, self.service.created, &self.key)
    }
}

/// A service that somebody outside of its network reaches, with the doors that are its own: of several that say to have one address
/// and port, the one with the stronger word has it, then the older one.
fn exposed<'a>(zone: &'a Zone, bridge: &Bridge, key: ObjectKey) -> Option<Exposed<'a>> {
    let mut one = read(zone, bridge, key)?;
    let rivals: Vec<Exposed<'_>> =
        zone.rivals(&one.key).into_iter().filter_map(|key| read(zone, bridge, key)).collect();
    let doors = std::mem::take(&mut one.doors);
    let is_taken = |door: &Door| {
        let same = |other: &&Door| {
            (other.address, other.protocol, other.port) == (door.address, door.protocol, door.port)
        };
        rivals
            .iter()
            .any(|rival| rival.doors.iter().filter(same).any(|other| rival.claim(other) < one.claim(door)))
    };
    let own = doors.into_iter().filter(|door| !is_taken(door)).collect();
    one.doors = own;
    Some(one)
}

fn read<'a>(zone: &'a Zone, bridge: &Bridge, key: ObjectKey) -> Option<Exposed<'a>> {
    let service = zone.service(&key)?;
    let network = zone.entry_network(&key)?;
    let Some(Rendering::Rendered(active)) = zone.rendering(network) else { return None };
    let router = bridge.router_of(active)?;
    let doors = service.ports.iter().flat_map(|port| doors(zone, bridge, service, port)).collect();
    Some(Exposed { key, service, network, router, doors })
}

fn doors(zone: &Zone, bridge: &Bridge, service: &ServiceInfo, port: &ServicePort) -> Vec<Door> {
    let cluster = |family| service.addresses.iter().copied().find(|address| Family::of(address) == family);
    let door = |address: IpAddr, number: u16, claimed| {
        let cluster = (cluster(Family::of(&address))?, port.port);
        bridge.side(Family::of(&address))?;
        Some(Door { address, protocol: port.protocol, port: number, cluster, claimed })
    };
    let nodes = port.node_port.into_iter().flat_map(|number| {
        let own = bridge.sides.iter().flat_map(|side| side.own.iter().copied());
        own.filter_map(move |address| door(address, number, None))
    });
    let outer = zone.outer_addresses(service);
    let outer = outer.filter_map(|(claimed, address)| door(address, port.port, Some(claimed)));
    nodes.chain(outer).collect()
}

fn flows(zone: &Zone, bridge: &Bridge, one: &Exposed<'_>) -> Vec<Item> {
    let mut flows = Vec::new();
    for door in &one.doors {
        let Some(side) = bridge.side(Family::of(&door.address)) else { continue };
        flows.extend(arrive(zone, bridge, side, one, door));
        flows.extend(around(bridge, side, one, door));
    }
    if !one.network.is_default() {
        for address in one.service.addresses.iter() {
            let Some(side) = bridge.side(Family::of(address)) else { continue };
            let to_router = format!("set_field:{}->eth_dst,{}", one.router, bridge.to_ovn());
            flows.push(bridge.flow(
                TO_SERVICE,
                100,
                format!("{},{}", side.ip(), side.to(address)),
                to_router,
            ));
        }
    }
    flows
}

/// To a gateway router.
pub(super) fn to_router(bridge: &Bridge, router: Mac) -> String {
    let (keeping, forget, ovn) = (keeping(router), bridge.forget_port(), bridge.to_ovn());
    format!("ct(commit,zone={SERVICE_ZONE},{keeping}),set_field:{router}->eth_dst,{forget},{ovn}")
}

/// A connection keeps the client's MAC, where the answer goes, and the router's, where errors about the answer go.
fn keeping(router: Mac) -> String {
    let number = router.bytes().iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    format!("exec(move:NXM_OF_ETH_SRC[]->NXM_NX_CT_LABEL[0..47],load:{number:#x}->NXM_NX_CT_LABEL[48..95])")
}

/// What happens to a client outside who may come.
fn inward(bridge: &Bridge, side: &Side, one: &Exposed<'_>, door: &Door) -> Option<String> {
    if !one.network.is_default() || door.claimed != Some(Claimed::Own) {
        return Some(to_router(bridge, one.router));
    }
    let (address, port) = known_as(side, one, door)?;
    let (socket, keeping) = (side.socket(address, port), keeping(one.router));
    // What was translated has to be looked at anew, or it would go on as what it was.
    Some(format!("ct(commit,zone={SERVICE_ZONE},nat(dst={socket}),{keeping},table={TO_SERVICE})"))
}

/// By what the default network's router knows a service whose owner says himself that it has an address: by its own address, or by its
/// node port, where only this node's endpoints serve. Without a node port there is nothing of that kind.
fn known_as(side: &Side, one: &Exposed<'_>, door: &Door) -> Option<(IpAddr, u16)> {
    if !one.service.external_local {
        return Some(door.cluster);
    }
    let same = |port: &&ServicePort| port.port == door.port && port.protocol == door.protocol;
    let node_port = one.service.ports.iter().find(same)?.node_port?;
    Some((*side.own.first()?, node_port))
}

/// From the wire to the gateway router of the service's network. Where the node itself serves, only who may not come needs a flow.
fn arrive(zone: &Zone, bridge: &Bridge, side: &Side, one: &Exposed<'_>, door: &Door) -> Vec<Item> {
    match (own_target(zone, one, door), admitted(one.service, door)) {
        (None, _) => {
            let Some(then) = inward(bridge, side, one, door) else { return Vec::new() };
            let mut flows = arriving(bridge, side, one, door, &then);
            if one.service.external_local {
                flows.extend(unforged(zone, bridge, side, one.network, &door.asked(side)));
            }
            flows
        }
        (Some(_), Some(_)) => arriving(bridge, side, one, door, &to_node()),
        (Some(_), None) => Vec::new(),
    }
}

/// From the node's own gateway routers: by the service's own address and the node's routes, which parts a chain of translations that
/// would be too long for the datapath.
fn around(bridge: &Bridge, side: &Side, one: &Exposed<'_>, door: &Door) -> Vec<Item> {
    let Door { address, protocol, port, cluster, claimed } = door;
    let proto = side.protocol(*protocol);
    let turn = match admits_node(one.service, side, door) {
        true => format!(
            "ct(commit,zone={SERVICE_ZONE},nat(dst={})),{}",
            side.socket(cluster.0, cluster.1),
            bridge.to_host()
        ),
        false => "drop".to_owned(),
    };
    let asked = |who: String| format!("{who},{proto},{},tp_dst={port}", side.to(address));
    let mut flows = Vec::new();
    if *claimed != Some(Claimed::Own) {
        flows.push(bridge.flow(ARRIVED, 261, asked(bridge.sent_by_users()), turn));
    }
    if *claimed != Some(Claimed::Own) && one.network.is_default() {
        flows.push(answer(bridge, side, (proto, *address, *port)));
    }
    flows
}

/// What the default network's router answers at an address by which clients outside came. What leaves has the node's address otherwise,
/// in a connection that the node seems to have begun; an answer goes back in the client's own.
pub(super) fn answer(bridge: &Bridge, side: &Side, (proto, address, port): (&str, IpAddr, u16)) -> Item {
    let answer = format!("{},{proto},{},tp_src={port}", bridge.sent_by_default(), side.source(address));
    bridge.flow(ARRIVED, 212, answer, format!("ct(zone={SERVICE_ZONE},nat,table={ANSWERED})"))
}

/// The node's own endpoint of a service that is served on the node itself: the host takes what comes from the wire, and the
/// client's address stays.
fn own_target(zone: &Zone, one: &Exposed<'_>, door: &Door) -> Option<(IpAddr, u16)> {
    if !one.service.external_local {
        return None;
    }
    let family = Family::of(&door.address);
    let named = |port: &&ServicePort| (port.port == door.cluster.1) && port.protocol == door.protocol;
    let port = one.service.ports.iter().find(named)?;
    let own = zone.gateway().ok()??.addresses.iter().map(|net| net.addr()).collect::<Vec<_>>();
    zone.endpoints(&one.key, one.network).find_map(|slice| {
        let number = slice.ports.iter().find(|of| of.name == port.name && of.protocol == port.protocol)?.port;
        let mut here =
            slice.endpoints.iter().filter(|end| end.here && end.ready && Family::of(&end.address) == family);
        let end =
            here.find(|end| own.contains(&end.address) && zone.is_served(&one.key, one.network, slice, end))?;
        Some((end.address, number))
    })
}

fn translations_of(zone: &Zone, bridge: &Bridge, one: &Exposed<'_>) -> Vec<Translation> {
    let known = one.doors.iter().filter(|door| bridge.side(Family::of(&door.address)).is_some());
    let mut all = Vec::new();
    for door in known {
        let translation = |to, from_wire| Translation {
            what: Translated { address: door.address, protocol: door.protocol, port: door.port },
            to,
            from_wire,
        };
        if let Some(own) = own_target(zone, one, door) {
            all.push(translation(own, true));
        }
        if door.claimed != Some(Claimed::Own) {
            all.push(translation(door.cluster, false));
        }
    }
    all
}
