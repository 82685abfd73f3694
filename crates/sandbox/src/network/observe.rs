//! What holds now, as `ip -json` tells it.

use crate::error::{Error, Result};
use crate::machine::run;
use crate::plan::unit::Command;
use ipnet::IpNet;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What a namespace has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) links: BTreeMap<String, Link>,
    pub(crate) routes: BTreeSet<(IpNet, IpAddr)>,
}

/// What a link has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) bridge: Option<String>,
    pub(crate) up: bool,
    pub(crate) addresses: BTreeSet<IpNet>,
}

#[derive(Deserialize)]
struct RawLink {
    ifname: String,
    #[serde(default)]
    flags: Vec<String>,
    master: Option<String>,
    #[serde(default)]
    addr_info: Vec<RawAddress>,
}

#[derive(Deserialize)]
struct RawAddress {
    local: Option<IpAddr>,
    prefixlen: u8,
}

#[derive(Deserialize)]
struct RawRoute {
    dst: String,
    gateway: Option<IpAddr>,
}

/// Looks at namespaces; one that is not there is not in the answer.
pub(super) fn observe<'a>(namespaces: impl Iterator<Item = &'a str>) -> Result<BTreeMap<String, Seen>> {
    let there = names()?;
    let asked: BTreeSet<&str> = namespaces.collect();
    let asked = asked.into_iter().filter(|name| there.contains(*name));
    asked.map(|name| Ok((name.to_owned(), look(name)?))).collect()
}

/// The namespaces that exist.
pub(super) fn names() -> Result<BTreeSet<String>> {
    let text = run(&Command::new(["ip", "netns", "list"]))?;
    Ok(text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

fn look(namespace: &str) -> Result<Seen> {
    let links = parse_links(&run(&Command::new(["ip", "-n", namespace, "-json", "address"]))?)?;
    let mut routes = BTreeSet::new();
    for (family, all) in [("-4", "0.0.0.0/0"), ("-6", "::/0")] {
        let text = run(&Command::new(["ip", "-n", namespace, family, "-json", "route"]))?;
        routes.extend(parse_routes(&text, all)?);
    }
    Ok(Seen { links, routes })
}

fn unreadable(source: serde_json::Error) -> Error {
    Error::Command { command: "ip -json".into(), message: source.to_string() }
}

/// Reads `ip -json address`.
pub(crate) fn parse_links(text: &str) -> Result<BTreeMap<String, Link>> {
    let raw: Vec<RawLink> = serde_json::from_str(text).map_err(unreadable)?;
    Ok(raw.into_iter().map(|link| (link.ifname.clone(), read_link(link))).collect())
}

fn read_link(raw: RawLink) -> Link {
    let addresses = raw.addr_info.iter().filter_map(|a| IpNet::new(a.local?, a.prefixlen).ok());
    Link { bridge: raw.master, up: raw.flags.iter().any(|flag| flag == "UP"), addresses: addresses.collect() }
}

/// Reads `ip -json route`; a single address stands without a prefix length there.
fn parse_routes(text: &str, all: &str) -> Result<BTreeSet<(IpNet, IpAddr)>> {
    let raw: Vec<RawRoute> =
        if text.is_empty() { Vec::new() } else { serde_json::from_str(text).map_err(unreadable)? };
    let read = |route: RawRoute| {
        let to = if route.dst == "default" { all } else { &route.dst };
        let to = to.parse().ok().or_else(|| to.parse::<IpAddr>().ok().map(IpNet::from))?;
        Some((to, route.gateway?))
    };
    Ok(raw.into_iter().filter_map(read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read_in_all_their_forms() {
        let text = r#"[{"dst":"default","gateway":"172.30.0.2"},{"dst":"10.244.2.0/24","gateway":"172.30.0.12"},
            {"dst":"10.0.0.9","gateway":"172.30.0.12"},{"dst":"172.30.0.0/24"}]"#;
        let routes = parse_routes(text, "0.0.0.0/0").unwrap();
        let texts: Vec<String> = routes.iter().map(|(to, via)| format!("{to} {via}")).collect();
        assert_eq!(texts, ["0.0.0.0/0 172.30.0.2", "10.0.0.9/32 172.30.0.12", "10.244.2.0/24 172.30.0.12"]);
    }
}
