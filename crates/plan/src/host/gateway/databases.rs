//! Databases of Open vSwitch and OVN are no pod's business, on this node or on any other: whoever writes there owns the node.
//!
//! What pods send to other nodes has this node's address when it arrives, which may be that of whoever belongs there. So it is
//! stopped here, where it is known to come from pods.

use causeway_types::host::{Item, Owner};
use causeway_types::{Family, NetworkName, management_port_device};
use causeway_zone::{Change, Protocol, Zone};

use super::bridge::{ARRIVED, Bridge, EXPOSED, Side};
use super::{HostRoom, Touched};
use crate::host::nft::{EARLY, chain, table};

/// Their usual ports, with those by which members of a cluster of databases talk.
const FIRST: u16 = 6640;
const LAST: u16 = 6647;
/// The same, as flows have it.
const PORTS: &str = "tp_dst=6640/0xfff8";

pub(in crate::host) static DATABASES: HostRoom = HostRoom {
    name: "databases",
    items: |zone, _here, _touched| {
        let flows = Bridge::of(zone).map(|bridge| bridge.map_or(Vec::new(), |bridge| flows(zone, &bridge)));
        vec![(Owner::node("databases-bridge"), flows), (Owner::node("databases"), Ok(firewall(zone)))]
    },
    follows: |_zone, change| {
        Touched::all_if(match change {
            Change::Bridge | Change::Node(_) => true,
            Change::Network(name) => name.is_default(),
            _ => false,
        })
    },
};

fn flows(zone: &Zone, bridge: &Bridge) -> Vec<Item> {
    let asked = |side: &Side, to| format!("{},{},{PORTS}", side.protocol(Protocol::Tcp), side.to(to));
    let mut flows = Vec::new();
    for side in &bridge.sides {
        let others = zone.addresses_of_others();
        let others = others.into_iter().filter(|other| Family::of(other) == side.family);
        flows.extend(others.map(|other| {
            bridge.flow(ARRIVED, 262, format!("{},{}", bridge.sent_by_ovn(), asked(side, other)), "drop")
        }));
        // Below whatever leads to pods.
        flows.extend(
            side.own
                .iter()
                .map(|own| bridge.flow(EXPOSED, 2, format!("reg0=1,{}", asked(side, *own)), "drop")),
        );
    }
    flows
}

/// What pods send there by the node's leg in their network.
pub(super) fn listening(device: &str) -> String {
    format!("iifname \"{device}\" tcp dport {FIRST}-{LAST} drop")
}

/// Pods of the default network come to their own node by its management port.
fn firewall(zone: &Zone) -> Vec<Item> {
    let network = zone.active(&NetworkName::default_network());
    let rule = network.map(|network| listening(&management_port_device(network.id)));
    rule.map(|rule| table("databases", chain("heard", "input", EARLY, &[rule]))).into_iter().collect()
}
