//! What the node's own firewall translates: processes of the node, and pods that come to it by its management port, reach services by
//! the node's addresses and by those of load balancers. Packets from the wire come here only for endpoints of the node itself.

use std::net::IpAddr;

use causeway_types::Family;
use causeway_types::host::{Item, NftElement, NftFamily, NftTable};
use causeway_zone::Protocol;

use super::bridge::Bridge;
use super::sources::guards;
use crate::host::nft::{kind, listed, suffix, word};

/// The table of all services.
const SERVICES: &str = "causeway-services";
/// Where destinations are translated.
pub(super) const BEFORE: &str = "-100";

/// An address and a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Translated {
    pub(super) address: IpAddr,
    pub(super) protocol: Protocol,
    pub(super) port: u16,
}

/// Where packets to an address and port go instead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Translation {
    pub(super) what: Translated,
    pub(super) to: (IpAddr, u16),
    /// For packets from the wire alone, or for all others.
    pub(super) from_wire: bool,
}

impl Translation {
    /// As an element of the table of all services.
    pub(super) fn item(&self) -> Item {
        let set = if self.from_wire { "wire" } else { "services" };
        element(set, &self.what, String::new(), Some(format!("{} . {}", self.to.0, self.to.1)))
    }
}

/// An element of the table of all services, about an address and port.
pub(super) fn element(set: &str, what: &Translated, more: String, value: Option<String>) -> Item {
    let Translated { address, protocol, port } = what;
    let protocol = protocol.to_string().to_lowercase();
    Item::Element(NftElement {
        family: NftFamily::Inet,
        table: SERVICES.into(),
        set: format!("{set}{}", suffix(Family::of(address))),
        element: format!("{address} . {protocol} . {port}{more}"),
        value,
    })
}

/// The table of all services, whose elements come with them.
pub(super) fn table(bridge: &Bridge) -> Item {
    let mut body = String::new();
    let (mut wire, mut inside) = (Vec::new(), Vec::new());
    for side in &bridge.sides {
        for (set, rules) in [("wire", &mut wire), ("services", &mut inside)] {
            let name = format!("{set}{}", suffix(side.family));
            body += &declared(&name, side.family, &NftTable::place_of(&name));
            let word = word(side.family);
            rules.push(format!("dnat {word} to {word} daddr . meta l4proto . th dport map @{name}"));
        }
    }
    let wire: Vec<String> =
        wire.into_iter().map(|rule| format!("iifname \"{}\" {rule}", bridge.name())).collect();
    let others: Vec<String> =
        inside.iter().map(|rule| format!("iifname != \"{}\" {rule}", bridge.name())).collect();
    body += &chain("arriving", "prerouting", BEFORE, &[wire, others].concat());
    body += &chain("sent", "output", BEFORE, &inside);
    body += &guards(bridge);
    Item::Table(NftTable { family: NftFamily::Inet, name: SERVICES.into(), body })
}

/// A chain that translates.
pub(super) fn chain(name: &str, hook: &str, priority: &str, rules: &[String]) -> String {
    let rules: String =
        rules.iter().map(|rule| format!("\t\tmeta l4proto {{ tcp, udp, sctp }} {rule}\n")).collect();
    format!("\tchain {name} {{\n\t\ttype nat hook {hook} priority {priority}; policy accept;\n{rules}\t}}\n")
}

/// A map of addresses and ports to others.
pub(super) fn map<'a>(name: &str, family: Family, all: impl Iterator<Item = &'a Translation>) -> String {
    let texts: Vec<String> = all
        .map(|one| {
            let Translated { address, protocol, port } = one.what;
            let protocol = protocol.to_string().to_lowercase();
            format!("{address} . {protocol} . {port} : {} . {}", one.to.0, one.to.1)
        })
        .collect();
    declared(name, family, &listed(&texts))
}

fn declared(name: &str, family: Family, elements: &str) -> String {
    let kind = kind(family);
    format!(
        "\tmap {name} {{\n\t\ttype {kind} . inet_proto . inet_service : {kind} . inet_service\n{elements}\t}}\n"
    )
}
