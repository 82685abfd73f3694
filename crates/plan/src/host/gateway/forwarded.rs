//! What the node forwards for others. It knows the ways to services and routers of every network, and whoever had it forward his packets
//! would have them too: a pod of the default network that sends to the node's leg there, a machine that routes by another card.
//!
//! What was translated is let through: node ports and addresses of load balancers are everybody's. By the bridge come pods of
//! user-defined networks and clients outside, of whom its flows have chosen already.

use causeway_types::host::{Item, Owner};
use causeway_types::{Cidr, Family, NetworkName, management_port_device};
use causeway_zone::{Change, Zone};

use super::databases::listening;
use super::{HostRoom, Touched};
use crate::all_services::{concerns_trusted, trusted};
use crate::host::nft::{EARLY, addresses, chain, suffix, table, word};

pub(in crate::host) static FORWARDED: HostRoom = HostRoom {
    name: "what the node forwards",
    items: |zone, _here, _touched| {
        let bridge = zone.gateway().map(|gateway| gateway.filter(|gateway| !gateway.local));
        let items = bridge.map(|gateway| gateway.map(|gateway| items(zone, &gateway.bridge)));
        vec![(Owner::node("forwarded"), items.map(|item| item.into_iter().collect()))]
    },
    follows: |zone, change| {
        let is_default = matches!(change, Change::Network(name) if name.is_default());
        Touched::all_if(is_default || concerns_trusted(zone, change))
    },
};

fn items(zone: &Zone, bridge: &str) -> Item {
    let trusted = trusted(zone);
    let sets: String = Family::ALL.into_iter().map(|family| addresses("trusted", family, &trusted)).collect();
    let cluster = &zone.config().cluster;
    let device = zone.active(&NetworkName::default_network()).map(|net| management_port_device(net.id));
    let mut rules = vec![format!("iifname \"{bridge}\" accept"), "ct status dnat accept".to_owned()];
    for family in Family::ALL {
        let (word, number) = (word(family), suffix(family));
        let of =
            |all: &[Cidr]| all.iter().filter(|cidr| cidr.family() == family).copied().collect::<Vec<_>>();
        let (services, masquerade) = (of(&cluster.service_cidrs), of(&cluster.masquerade_subnets));
        for service in &services {
            let who =
                device.as_ref().map(|device| format!("iifname \"{device}\" {word} saddr @trusted{number}"));
            rules.extend(who.map(|who| format!("{who} {word} daddr {service} accept")));
        }
        rules.extend(services.iter().chain(&masquerade).map(|cidr| format!("{word} daddr {cidr} drop")));
    }
    rules.extend(device.map(|device| listening(&device)));
    table("forwarded", sets + &chain("forwarded", "forward", EARLY, &rules))
}
