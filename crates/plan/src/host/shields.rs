//! What the node's own firewall keeps apart, one table of nftables for each concern.
//!
//! *Tunnels*: Geneve carries packets of all tenants and proves nothing about who sent it. Only the datapath may send it, only nodes
//! whose address is recorded may be heard, and nobody's packets are forwarded there. *Cables*: the host's end of a pod's cable is a port of
//! the switch; the kernel beside the switch neither hears nor sends anything there, whatever its settings say.

use std::net::IpAddr;

use causeway_types::Family;
use causeway_types::host::{CABLE_GROUP, GENEVE_PORT, Item, NftFamily, NftTable, Owner};
use causeway_zone::{Change, Zone};

use super::HostRoom;

/// Before the rules of others, which may accept.
const EARLY: &str = "-10";
/// Before connections are tracked.
const FIRST: &str = "-310";

pub(super) static TUNNELS: HostRoom = HostRoom {
    name: "tunnels",
    items: |zone, _here| vec![(Owner::node("tunnels"), Ok(vec![table("tunnels", tunnels(zone))]))],
    follows: |_zone, change| matches!(change, Change::Node(_)),
};

pub(super) static CABLES: HostRoom = HostRoom {
    name: "cables",
    items: |_zone, _here| vec![(Owner::node("cables"), Ok(vec![table("cables", cables())]))],
    follows: |_zone, _change| false,
};

fn table(name: &str, body: String) -> Item {
    Item::Table(NftTable { family: NftFamily::Inet, name: format!("causeway-{name}"), body })
}

fn chain(name: &str, hook: &str, priority: &str, rules: &[String]) -> String {
    let rules: String = rules.iter().map(|rule| format!("\t\t{rule}\n")).collect();
    format!(
        "\tchain {name} {{\n\t\ttype filter hook {hook} priority {priority}; policy accept;\n{rules}\t}}\n"
    )
}

/// A packet of the datapath belongs to no socket, in the kernel's datapath as in that of userspace, which sends by the card itself:
/// whoever has a socket is somebody else.
fn tunnels(zone: &Zone) -> String {
    let geneve = format!("udp dport {GENEVE_PORT}");
    let peers: Vec<IpAddr> = zone.tunnel_addresses().collect();
    let sets = [set("peers4", Family::Ipv4, &peers), set("peers6", Family::Ipv6, &peers)].concat();
    let heard = ["ip saddr != @peers4", "ip6 saddr != @peers6"].map(|whom| format!("{geneve} {whom} drop"));
    let chains = [
        chain("heard", "input", EARLY, &heard),
        chain("forwarded", "forward", EARLY, &[format!("{geneve} drop")]),
        chain("sent", "output", EARLY, &[format!("{geneve} meta skuid 0-4294967295 drop")]),
    ];
    sets + &chains.concat()
}

fn set(name: &str, family: Family, all: &[IpAddr]) -> String {
    let (kind, ours) = match family {
        Family::Ipv4 => ("ipv4_addr", all.iter().filter(|address| address.is_ipv4()).collect::<Vec<_>>()),
        Family::Ipv6 => ("ipv6_addr", all.iter().filter(|address| address.is_ipv6()).collect()),
    };
    let texts: Vec<String> = ours.into_iter().map(ToString::to_string).collect();
    let elements =
        if texts.is_empty() { String::new() } else { format!("\t\telements = {{ {} }}\n", texts.join(", ")) };
    format!("\tset {name} {{\n\t\ttype {kind}\n{elements}\t}}\n")
}

fn cables() -> String {
    let heard = chain("heard", "prerouting", FIRST, &[format!("iifgroup {CABLE_GROUP} drop")]);
    heard + &chain("sent", "postrouting", FIRST, &[format!("oifgroup {CABLE_GROUP} drop")])
}
