//! What the node's own firewall keeps apart, one table of nftables for each concern.
//!
//! *Tunnels*: Geneve carries packets of all tenants and proves nothing about who sent it. Only the datapath may send it, only nodes
//! whose address is recorded may be heard, and nobody's packets are forwarded there. *Cables*: the host's end of a pod's cable is a port of
//! the switch; the kernel beside the switch neither hears nor sends anything there, whatever its settings say.

use std::net::IpAddr;

use causeway_types::Family;
use causeway_types::host::{CABLE_GROUP, GENEVE_PORT, INTO_SWITCH_MARK, Owner};
use causeway_zone::{Change, Zone};

use super::nft::{EARLY, addresses, chain, table};
use super::{HostRoom, Touched};

/// Before connections are tracked.
const FIRST: &str = "-310";

pub(super) static TUNNELS: HostRoom = HostRoom {
    name: "tunnels",
    items: |zone, _here, _touched| vec![(Owner::node("tunnels"), Ok(vec![table("tunnels", tunnels(zone))]))],
    follows: |_zone, change| Touched::all_if(matches!(change, Change::Node(_))),
};

pub(super) static CABLES: HostRoom = HostRoom {
    name: "cables",
    items: |_zone, _here, _touched| vec![(Owner::node("cables"), Ok(vec![table("cables", cables())]))],
    follows: |_zone, _change| Touched::Nobody,
};

/// Nobody who has a socket may send Geneve. The kernel's datapath has none, and that of userspace sends by the card itself; but what a
/// process of the node sends to a pod elsewhere still belongs to its socket when the kernel's datapath has wrapped it. Such a packet has been
/// here before, on its way into the switch, and is known by a mark: without rights nobody can set one.
fn tunnels(zone: &Zone) -> String {
    let geneve = format!("udp dport {GENEVE_PORT}");
    let peers: Vec<IpAddr> = zone.tunnel_addresses().collect();
    let sets: String = Family::ALL.into_iter().map(|family| addresses("peers", family, &peers)).collect();
    let heard = ["ip saddr != @peers4", "ip6 saddr != @peers6"].map(|whom| format!("{geneve} {whom} drop"));
    let chains = [
        chain("heard", "input", EARLY, &heard),
        chain("forwarded", "forward", EARLY, &[format!("{geneve} drop")]),
        chain("sent", "output", EARLY, &sent(&geneve)),
    ];
    sets + &chains.concat()
}

/// The mark is looked at first: what is Geneve before it comes into the switch gets none.
fn sent(geneve: &str) -> [String; 3] {
    let mark = format!("{INTO_SWITCH_MARK:#010x}");
    [
        format!("{geneve} meta mark & {mark} != 0x00000000 accept"),
        format!("{geneve} meta skuid 0-4294967295 drop"),
        format!("meta oifkind \"openvswitch\" meta mark set meta mark | {mark}"),
    ]
}

fn cables() -> String {
    let heard = chain("heard", "prerouting", FIRST, &[format!("iifgroup {CABLE_GROUP} drop")]);
    heard + &chain("sent", "postrouting", FIRST, &[format!("oifgroup {CABLE_GROUP} drop")])
}
