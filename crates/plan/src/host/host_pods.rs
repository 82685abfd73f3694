//! Pods in the node's own network whose namespace has a primary network: they reach services of that network and of the default
//! one, and pods by services alone.
//!
//! A table of its own: it names cgroups that come and go, and one that cannot be loaded must not hold up what guards locked pods.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_types::host::Owner;
use causeway_types::{Cidr, Family, NamespaceName, NetworkName};
use causeway_zone::{Cgroup, Change, Confined, Zone};

use super::isolation::{comment, member};
use super::nft::{addresses, chain, plain_chain, suffix, table, word};
use super::{HostRoom, Touched};

/// After connections are tracked, and before addresses are translated: what is asked for counts, not where it leads. So what is
/// open to everybody outside is open to them too.
const AS_ASKED: &str = "-150";

pub(super) static HOST_PODS: HostRoom = HostRoom {
    name: "host-network pods",
    items: |zone, _here, _touched| {
        let body = body(zone).map(|body| body.map(|body| table("host-pods", body)));
        vec![(Owner::node("host-pods"), body.map(|table| table.into_iter().collect()))]
    },
    follows: |zone, change| {
        Touched::all_if(match change {
            Change::Processes | Change::HostPod(_) => true,
            Change::Namespace(_) | Change::Sibling { .. } => zone.has_host_pods(),
            Change::Service(_) => zone.confined().next().is_some(),
            _ => false,
        })
    },
};

type Networks<'a> = BTreeSet<&'a NetworkName>;

/// Nothing where no confined pod is known by its cgroup.
///
/// # Errors
/// Of which pod nobody has looked for the cgroup yet: what is there stays.
fn body(zone: &Zone) -> Result<Option<String>, String> {
    let mut by_networks: BTreeMap<Networks<'_>, Vec<&Cgroup>> = BTreeMap::new();
    for Confined { pod, uid, networks } in zone.confined() {
        match zone.processes().and_then(|known| known.pods.get(uid)) {
            Some(Some(cgroup)) => by_networks.entry(networks).or_default().push(cgroup),
            Some(None) => {}
            None => return Err(format!("nobody has looked for the processes of pod {pod} yet")),
        }
    }
    if by_networks.is_empty() {
        return Ok(None);
    }
    let default = NetworkName::default_network();
    let mut body = sets("default", &services(zone, &BTreeSet::from([&default])));
    let mut jumps = Vec::new();
    for (place, (networks, cgroups)) in by_networks.iter().enumerate() {
        let own = format!("own{place}_");
        body += &sets(&own, &services(zone, networks));
        body += &plain_chain(&format!("confined{place}"), &confined(zone, &own));
        let jump = |cgroup: &&Cgroup| format!("{} jump confined{place} {}", member(cgroup), comment(cgroup));
        jumps.extend(cgroups.iter().map(jump));
    }
    Ok(Some(body + &chain("sent", "output", AS_ASKED, &jumps)))
}

fn sets(name: &str, all: &BTreeSet<IpAddr>) -> String {
    Family::ALL.into_iter().map(|family| addresses(name, family, all)).collect()
}

/// Answers go anywhere; of what is begun, whatever is the cluster's own must be allowed.
fn confined(zone: &Zone, own: &str) -> Vec<String> {
    let mut rules = vec!["ct direction reply accept".to_owned(), "oifname \"lo\" accept".to_owned()];
    let cluster = &zone.config().cluster;
    for family in Family::ALL {
        let (word, number) = (word(family), suffix(family));
        rules.extend(["default", own].map(|name| format!("{word} daddr @{name}{number} accept")));
        let inner = cluster.service_cidrs.iter().chain(&cluster.cluster_subnets);
        let inner = inner.filter(|cidr: &&Cidr| cidr.family() == family);
        rules.extend(inner.map(|cidr| format!("{word} daddr {cidr} drop")));
    }
    rules
}

/// The addresses of services on any of some networks.
fn services(zone: &Zone, networks: &Networks<'_>) -> BTreeSet<IpAddr> {
    let mut on: BTreeMap<NamespaceName, bool> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for key in zone.services() {
        let serves =
            |namespace: &NamespaceName| networks.iter().any(|network| zone.serves(namespace, network));
        let namespace = &key.namespace;
        if *on.entry(namespace.clone()).or_insert_with(|| serves(namespace)) {
            found.extend(zone.service(&key).into_iter().flat_map(|service| &service.addresses));
        }
    }
    found
}
