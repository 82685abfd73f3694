//! Makes nodes answer ARP and NDP for addresses that none of their devices has.
//!
//! The kernel answers for an IPv4 address in somebody's place only if it would send packets for it on by another device. So
//! there is such a route, in a table that only what comes by the bridge asks: the node's own packets are not concerned.

use super::packet::announcement;
use crate::error::{Error, Result};
use crate::machine::run;
use crate::network::POOL;
use crate::plan::unit::Command;
use crate::plan::{Places, node_environment};
use crate::programs::Programs;
use causeway_host::{KernelOutput, bring, in_namespace, named_namespace};
use causeway_types::host::{HostPlan, Item, Owner, Route, Rule, Selector, Setting, Target};
use causeway_types::{Cidr, Family, Mac};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;

const BRIDGE: &str = "br-ex";
/// The table with the ways to the addresses, and when it is asked: before the main one.
const TABLE: u32 = 88;
const PRIORITY: u32 = 30_088;

/// What was announced where.
pub(super) struct Announcer {
    done: BTreeMap<String, BTreeSet<IpAddr>>,
}

impl Announcer {
    pub(super) fn new() -> Announcer {
        Announcer { done: BTreeMap::new() }
    }

    /// Each node answers for exactly these addresses. What fails is tried again at the next look.
    pub(super) async fn announce(&mut self, wanted: BTreeMap<String, BTreeSet<IpAddr>>) {
        self.done.retain(|node, _| wanted.contains_key(node));
        // Where something goes first, so that two never answer for one.
        let mut order: Vec<_> = wanted.into_iter().collect();
        order.sort_by_key(|(node, addresses)| {
            self.done.get(node).is_none_or(|done| done.is_subset(addresses))
        });
        for (node, addresses) in order {
            let before = self.done.remove(&node);
            let work = move || {
                let result = answer(&node, &addresses, before.as_ref());
                (node, addresses, result)
            };
            // Netlink and programs block.
            if let Ok((node, addresses, Ok(()))) = tokio::task::spawn_blocking(work).await {
                self.done.insert(node, addresses);
            }
        }
    }
}

/// One node; whoever was not there before, or is there anew, is announced.
fn answer(node: &str, addresses: &BTreeSet<IpAddr>, before: Option<&BTreeSet<IpAddr>>) -> Result<()> {
    let namespace = named_namespace(node);
    if !namespace.exists() {
        return Err(Error::Request(format!("{node} is not there yet")));
    }
    let plan = plan(addresses);
    let work = || Ok(bring(&mut KernelOutput::open(POOL)?, &plan));
    let applied = in_namespace(&namespace, work).map_err(Error::Host)?;
    if let Some(problem) = applied.problems.first() {
        return Err(Error::Network { place: node.to_owned(), problems: problem.to_string() });
    }
    if addresses.is_empty() || (applied.writes == 0 && before == Some(addresses)) {
        return Ok(());
    }
    announce_now(node, addresses)
}

fn plan(addresses: &BTreeSet<IpAddr>) -> HostPlan {
    let mut plan = HostPlan::default();
    let owner = Owner::new("sandbox");
    let mut add = |item| plan.add(&owner, item);
    for address in addresses {
        add(Item::Proxy { device: BRIDGE.into(), address: *address });
        if address.is_ipv4() {
            let target = Target::Forward { via: None, device: Some("lo".into()) };
            let dest = Cidr::masked(IpNet::from(*address));
            add(Item::Route(Route { table: TABLE, dest, metric: 0, target, source: None, mtu: None }));
        }
    }
    if addresses.iter().any(IpAddr::is_ipv4) {
        let selector = Selector { input: Some(BRIDGE.into()), ..Selector::default() };
        add(Item::Rule(Rule { family: Family::Ipv4, priority: PRIORITY, selector, table: TABLE }));
    }
    if addresses.iter().any(IpAddr::is_ipv6) {
        let path = format!("ipv6/conf/{BRIDGE}/proxy_ndp");
        add(Item::Setting(Setting { path, value: "1".into() }));
    }
    plan
}

/// Sends packets as if the node's own kernel had sent them by its bridge.
fn announce_now(node: &str, addresses: &BTreeSet<IpAddr>) -> Result<()> {
    let places = Places::inside(Programs::find(), PathBuf::new());
    let environment = node_environment(node, &places);
    let on_node = |words: &[&str]| {
        let command = Command::new(words.iter().copied()).within(node).environment(&environment);
        run(&command)
    };
    let text = on_node(&["ovs-vsctl", "--bare", "get", "interface", BRIDGE, "mac_in_use"])?;
    let text = text.trim_matches('"');
    let mac: Mac =
        text.parse().map_err(|_| Error::Request(format!("{BRIDGE} of {node} has no MAC address: {text}")))?;
    for address in addresses {
        let packet = format!("in_port=LOCAL packet={} actions=TABLE", announcement(mac, *address));
        on_node(&["ovs-ofctl", "--protocols=OpenFlow14", "packet-out", BRIDGE, &packet])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_answers_for_addresses_and_its_own_packets_go_as_before() {
        let addresses = ["172.30.0.200", "fd00:172:30::c8"].map(|address| address.parse().unwrap());
        assert_eq!(
            plan(&BTreeSet::from(addresses)).to_string(),
            "setting ipv6/conf/br-ex/proxy_ndp: 1 (sandbox)\n\
             route to 172.30.0.200/32 in table 88: by lo (sandbox)\n\
             IPv4 rule 30088 by br-ex: table 88 (sandbox)\n\
             proxy for 172.30.0.200 on br-ex (sandbox)\n\
             proxy for fd00:172:30::c8 on br-ex (sandbox)\n"
        );
        assert_eq!(plan(&BTreeSet::new()).to_string(), "");
    }
}
