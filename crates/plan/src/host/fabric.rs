//! Networks on the fabric: the VRF of each, its tunnels, what FRR is told, and the node's leg in the network, by which packets come
//! and go between the VRF and OVN.
//!
//! ```text
//!   other sites ══ VXLAN ══► vxlan-VNI, br-VNI ── VRF ── ovn-k8s-mp<id> ── switch of the pods
//! ```
//! What is connected with the VRF is what FRR tells others of: the subnet that the leg has an address in. A layer3 network's is this node's
//! own part, a layer2 network's all of it, from every node.
//!
//! Whoever is in the VRF is no neighbour of the node: its own services never hear of him, whatever the kernel's settings for sockets
//! and VRFs are. And nobody beyond speaks with the addresses of pods here.

use causeway_evpn::{Fabric, RouteTarget, Vni, distinguisher};
use causeway_types::host::{Address, Item, Owner, Setting};
use causeway_types::{Family, NodeName, management_port_device, routing_table};
use causeway_zone::{Active, Change, OnFabric, Rendering, Zone};

use super::nft::{EARLY, chain, table, word};
use super::{HostRoom, Owned, Touched, leg};

/// The usual UDP port of VXLAN.
const VXLAN_PORT: u16 = 4789;

pub(super) static FABRIC: HostRoom = HostRoom {
    name: "networks on the fabric",
    items: |zone, here, touched| {
        let all = zone.networks().filter(|name| touched.has(&Owner::network(name)));
        all.filter_map(|name| match zone.rendering(name)? {
            Rendering::Rendered(network) => owned(zone, network, here.name),
            _ => None,
        })
        .collect()
    },
    follows: |_zone, change| match change {
        Change::Network(name) if !name.is_default() => Touched::Some([Owner::network(name)].into()),
        _ => Touched::Nobody,
    },
};

fn owned(zone: &Zone, network: &Active, node: &NodeName) -> Option<Owned> {
    let fabric = network.fabric.as_ref()?;
    Some((Owner::network(network.name()), items(zone, network, fabric, node)))
}

fn items(zone: &Zone, network: &Active, place: &OnFabric, node: &NodeName) -> Result<Vec<Item>, String> {
    let vtep = zone.vtep(&place.vtep)?;
    let (vni, asn) = (Vni::apart_from_tables(place.vni)?, zone.config().evpn_asn);
    let (import, export) = RouteTarget::both_ways(place.route_target.as_deref(), asn, vni)?;
    let fabric = Fabric {
        vrf: place.vrf.to_string(),
        table: routing_table(network.id).map_err(|error| error.to_string())?,
        vni,
        vtep,
        port: VXLAN_PORT,
        asn,
        rd: distinguisher(vtep, vni),
        import: vec![import],
        export: vec![export],
        families: network.families(),
    };
    let device = management_port_device(network.id);
    let setting = |path: String| Item::Setting(Setting { path, value: "1".into() });
    let mut items = fabric.items();
    items.extend(leg(network, node, Some(&fabric.vrf))?);
    items.extend(network.legs.iter().map(|leg| Item::Address(Address::new(device.clone(), leg.management))));
    items.push(setting(format!("ipv4/conf/{device}/forwarding")));
    // For IPv6 there is no such setting of a device.
    items.extend(network.families().has(Family::Ipv6).then(|| setting("ipv6/conf/all/forwarding".into())));
    items.push(table(&format!("fabric-{}", network.id), walls(network, &fabric.vrf, &device)));
    Ok(items)
}

/// What comes from the VRF ends in the VRF, and what goes into the network does not come from it.
fn walls(network: &Active, vrf: &str, device: &str) -> String {
    let from = format!("iifname {{ \"{vrf}\", \"{device}\" }}");
    let heard = [
        format!("{from} icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept"),
        format!("{from} drop"),
    ];
    let forged = network
        .legs
        .iter()
        .map(|leg| format!("oifname \"{device}\" {} saddr {} drop", word(leg.family), leg.subnet));
    chain("heard", "input", EARLY, &heard)
        + &chain("forwarded", "forward", EARLY, &forged.collect::<Vec<_>>())
}
