//! Who may come to a service by an address of its load balancer (`spec.loadBalancerSourceRanges`), where pods of its own network
//! ask: ACLs on the network's switch of the node, which look before the switch balances.
//!
//! Packets from outside, from processes of the node and from pods of other networks are looked at on the node's bridge and by its
//! firewall (`crate::host::gateway::sources`). What is allowed goes on to policies: `pass`, not `allow`. Two rows instead of one with
//! `!=`: OVN takes that apart bit by bit, for all ranges at once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_ovn::generated::nb;
use causeway_ovn::{Planned, Str};
use causeway_types::{Cidr, Family};
use causeway_zone::{Claimed, Protocol};

use super::Served;
use crate::common::ACL_METER;
use crate::row::{role_ids, switch, with};

/// The same tier as the guards of connections, and below those: nothing there allows what is refused here.
const TIER: i64 = 0;
const ADMIT: i64 = 2001;
const REFUSE: i64 = 2000;

impl Served<'_> {
    /// The ACLs, two for each family that has ranges.
    pub(super) fn sources(&self) -> Vec<Planned> {
        self.guarded().into_iter().flat_map(|family| self.sources_of(family)).collect()
    }

    /// What refuses, in front of a load balancer that only some may use.
    pub(super) fn refusals(&self) -> Vec<Str> {
        self.guarded().into_iter().map(|family| self.source_path("refuse", family)).collect()
    }

    /// Families in which not everybody may come, and there is something to come to.
    fn guarded(&self) -> Vec<Family> {
        let is =
            |family: &Family| self.service.admitted(*family).is_some() && !self.balanced(*family).is_empty();
        if self.has_doors() { Family::ALL.into_iter().filter(is).collect() } else { Vec::new() }
    }

    /// Addresses of its load balancer.
    pub(super) fn balanced(&self, family: Family) -> BTreeSet<IpAddr> {
        let all = self.zone.outer_addresses(self.service);
        let given = all.filter(|(claimed, address)| {
            *claimed == Claimed::Given && Family::of(address) == family && self.families().has(family)
        });
        given.map(|(_, address)| address).collect()
    }

    fn sources_of(&self, family: Family) -> Vec<Planned> {
        let ip = if family == Family::Ipv4 { "ip4" } else { "ip6" };
        let to = format!("{ip}.dst == {} && {}", any_of(self.balanced(family)), self.asked_ports());
        let mut rows = vec![self.source_acl("refuse", family, ("drop", REFUSE), to.clone())];
        let ranges: Vec<Cidr> = self.service.admitted(family).unwrap_or_default();
        if !ranges.is_empty() {
            let from = format!("{to} && {ip}.src == {}", any_of(ranges));
            rows.push(self.source_acl("admit", family, ("pass", ADMIT), from));
        }
        rows
    }

    /// Its ports, by protocol.
    fn asked_ports(&self) -> String {
        let mut ports: BTreeMap<Protocol, BTreeSet<u16>> = BTreeMap::new();
        for port in &self.service.ports {
            ports.entry(port.protocol).or_default().insert(port.port);
        }
        let of = |(protocol, ports): (Protocol, BTreeSet<u16>)| {
            format!("{}.dst == {}", protocol.to_string().to_lowercase(), any_of(ports))
        };
        let all: Vec<String> = ports.into_iter().map(of).collect();
        if all.len() > 1 { format!("({})", all.join(" || ")) } else { all.concat() }
    }

    fn source_path(&self, word: &str, family: Family) -> Str {
        self.at(["sources", word, &family.to_string()])
    }

    fn source_acl(
        &self,
        word: &str,
        family: Family,
        (action, priority): (&str, i64),
        matches: String,
    ) -> Planned {
        let row = nb::Acl {
            action: action.into(),
            direction: "from-lport".into(),
            priority,
            r#match: matches.into(),
            meter: Some(ACL_METER.into()),
            tier: TIER,
            external_ids: with(
                role_ids(self.scope.net),
                [("k8s.ovn.org/kind", "Service".to_owned()), ("k8s.ovn.org/owner", self.key.to_string())],
            ),
            ..Default::default()
        };
        Planned::new(self.source_path(word, family), row)
            .within::<nb::LogicalSwitch>(&switch(self.scope.name()), "acls")
    }
}

/// One of these, as matches of OVN say it.
fn any_of<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = all.into_iter().map(|one| one.to_string()).collect();
    match all.as_slice() {
        [one] => one.clone(),
        many => format!("{{{}}}", many.join(", ")),
    }
}
