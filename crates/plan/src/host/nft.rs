//! Words of nftables that several rooms use.

use std::net::IpAddr;

use causeway_types::Family;
use causeway_types::host::{Item, NftFamily, NftTable};

/// Before the rules of others, which may accept.
pub(in crate::host) const EARLY: &str = "-10";

/// A table of ours for both families.
pub(in crate::host) fn table(name: &str, body: String) -> Item {
    Item::Table(NftTable { family: NftFamily::Inet, name: format!("causeway-{name}"), body })
}

/// A chain that the kernel asks.
pub(in crate::host) fn chain(name: &str, hook: &str, priority: &str, rules: &[String]) -> String {
    let first = format!("type filter hook {hook} priority {priority}; policy accept;");
    plain_chain(name, &[&[first], rules].concat())
}

/// A chain that other chains ask. It comes before them.
pub(in crate::host) fn plain_chain(name: &str, rules: &[String]) -> String {
    let rules: String = rules.iter().map(|rule| format!("\t\t{rule}\n")).collect();
    format!("\tchain {name} {{\n{rules}\t}}\n")
}

/// A set of these elements.
pub(in crate::host) fn set(name: &str, kind: &str, elements: &[String]) -> String {
    format!("\tset {name} {{\n\t\ttype {kind}\n{}\t}}\n", listed(elements))
}

/// The line with the elements of a set or a map; an empty one has none.
pub(in crate::host) fn listed(elements: &[String]) -> String {
    if elements.is_empty() {
        String::new()
    } else {
        format!("\t\telements = {{ {} }}\n", elements.join(", "))
    }
}

/// A set of the addresses of one family.
pub(in crate::host) fn addresses<'a>(
    name: &str,
    family: Family,
    all: impl IntoIterator<Item = &'a IpAddr>,
) -> String {
    let ours = all.into_iter().filter(|address| Family::of(address) == family);
    set(
        &format!("{name}{}", suffix(family)),
        kind(family),
        &ours.map(ToString::to_string).collect::<Vec<_>>(),
    )
}

/// What a set of addresses is made of.
pub(in crate::host) fn kind(family: Family) -> &'static str {
    if family == Family::Ipv4 { "ipv4_addr" } else { "ipv6_addr" }
}

/// Ends the names of what is of one family.
pub(in crate::host) fn suffix(family: Family) -> &'static str {
    if family == Family::Ipv4 { "4" } else { "6" }
}

/// The header of a packet.
pub(in crate::host) fn word(family: Family) -> &'static str {
    if family == Family::Ipv4 { "ip" } else { "ip6" }
}
