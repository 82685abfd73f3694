//! What zones say of themselves, in their reports: which connections they have rendered, what they could not do, and up to
//! which epoch freed numbers are gone from them, and which of these are not.

use std::collections::{BTreeMap, BTreeSet};

use causeway_alloc::{Cleared, Epoch};
use causeway_api::policy::PolicyId;
use causeway_record::{RenderedHash, ZoneReport};
use causeway_types::{ConnectName, NetworkName, NodeName};

use crate::nodes::Nodes;

/// In a word: every zone has carried out what is asked for; some cannot; some have not yet.
pub(crate) const SUCCEEDED: &str = "OVNSetupSucceeded";
pub(crate) const FAILED: &str = "OVNSetupFailed";
pub(crate) const PENDING: &str = "OVNSetupPending";

/// The last report of each zone.
#[derive(Debug, Default)]
pub(crate) struct ZoneReports {
    reports: BTreeMap<NodeName, ZoneReport>,
    /// Zones that could not do something for a network: few, and asked for by network.
    failing: BTreeMap<NetworkName, BTreeSet<NodeName>>,
    /// Zones that could not do more than they name.
    cut: BTreeSet<NodeName>,
    /// Since when the reports are known to be complete; before that nobody is silent.
    listed_since: Option<i64>,
    /// Since when a node is there and heard of.
    live_since: BTreeMap<NodeName, i64>,
    /// How many entries of reports have been compared so far: the work that reports make.
    compared: usize,
}

/// Whom a new report concerns.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct News {
    pub(crate) connects: BTreeSet<ConnectName>,
    /// Connections that the zone had rendered, and does not say so any more.
    pub(crate) lost: BTreeSet<ConnectName>,
    pub(crate) networks: BTreeSet<NetworkName>,
    pub(crate) policies: BTreeSet<PolicyId>,
    pub(crate) cleared: bool,
    /// Whether it names everybody whom its failures concern, other than before.
    pub(crate) cut: bool,
}

impl ZoneReports {
    /// Takes a report, or the lack of one.
    pub(crate) fn set(&mut self, node: &NodeName, mut report: Option<ZoneReport>) -> News {
        if let Some(report) = &mut report {
            // So that one can be found among thousands.
            report.carried_out.sort();
            report.policies.sort();
        }
        let none = || ZoneReport::none(node.clone());
        let before = self.reports.remove(node);
        let cleared =
            before.as_ref().map(|before| &before.cleared) != report.as_ref().map(|report| &report.cleared);
        let (old, new) = (before.unwrap_or_else(none), report.clone().unwrap_or_else(none));
        let mut connects = self.differing(&old.rendered, &new.rendered);
        let lost = connects.iter().filter(|name| old.rendered.contains_key(*name)).cloned().collect();
        connects.extend(self.differing(&old.connects, &new.connects));
        let networks = self.differing(&old.networks, &new.networks);
        for network in &networks {
            let nodes = self.failing.entry(network.clone()).or_default();
            match new.networks.contains_key(network) {
                true => drop(nodes.insert(node.clone())),
                false => drop(nodes.remove(node)),
            }
            if nodes.is_empty() {
                self.failing.remove(network);
            }
        }
        let mut policies = self.news(&old.carried_out, &new.carried_out);
        policies.extend(self.news(&old.policies, &new.policies));
        let cut = old.cut != new.cut;
        match new.cut {
            true => drop(self.cut.insert(node.clone())),
            false => drop(self.cut.remove(node)),
        }
        self.reports.extend(report.map(|report| (node.clone(), report)));
        News { connects, lost, networks, policies, cleared, cut }
    }

    /// The policies of which two reports say different things.
    fn news(&mut self, old: &[(PolicyId, String)], new: &[(PolicyId, String)]) -> BTreeSet<PolicyId> {
        self.compared += old.len() + new.len();
        let (old, new): (BTreeSet<_>, BTreeSet<_>) = (old.iter().collect(), new.iter().collect());
        old.symmetric_difference(&new).map(|(id, _)| id.clone()).collect()
    }

    /// Which spec of a policy a zone has carried out.
    pub(crate) fn carried_out(&self, policy: &PolicyId, node: &NodeName) -> Option<&str> {
        said_of(policy, &self.reports.get(node)?.carried_out)
    }

    /// What a zone could not do for a policy.
    pub(crate) fn policy_failure(&self, policy: &PolicyId, node: &NodeName) -> Option<&str> {
        said_of(policy, &self.reports.get(node)?.policies)
    }

    /// The keys under which two maps differ. Only the two reports of one zone are looked at, however many connections there
    /// are.
    fn differing<K: Clone + Ord, V: PartialEq>(
        &mut self,
        old: &BTreeMap<K, V>,
        new: &BTreeMap<K, V>,
    ) -> BTreeSet<K> {
        self.compared += old.len() + new.len();
        let gone = old.keys().filter(|key| !new.contains_key(*key));
        let changed = new.iter().filter(|(key, value)| old.get(*key) != Some(*value)).map(|(key, _)| key);
        gone.chain(changed).cloned().collect()
    }

    /// A node is there and heard of, or is not.
    pub(crate) fn set_live(&mut self, node: &NodeName, live: bool, now_ms: i64) {
        if live {
            self.live_since.entry(node.clone()).or_insert(now_ms);
        } else {
            self.live_since.remove(node);
        }
    }

    /// All reports are known: from now on a zone that says nothing is silent. The answer is whether that is new.
    pub(crate) fn listed(&mut self, now_ms: i64) -> bool {
        let news = self.listed_since.is_none();
        self.listed_since.get_or_insert(now_ms);
        news
    }

    /// Whether the reports are known to be complete.
    pub(crate) fn are_listed(&self) -> bool {
        self.listed_since.is_some()
    }

    /// Since when a zone could have said something.
    pub(crate) fn heard_since(&self, node: &NodeName) -> Option<i64> {
        Some((*self.live_since.get(node)?).max(self.listed_since?))
    }

    /// What a zone has rendered of a connection.
    pub(crate) fn rendered(&self, connect: &ConnectName, node: &NodeName) -> Option<RenderedHash> {
        self.reports.get(node)?.rendered.get(connect).copied()
    }

    /// What a zone could not do for a connection.
    pub(crate) fn failure(&self, connect: &ConnectName, node: &NodeName) -> Option<&String> {
        self.reports.get(node)?.connects.get(connect)
    }

    /// What zones could not do for a network.
    pub(crate) fn failures(&self, network: &NetworkName) -> impl Iterator<Item = (&NodeName, &String)> {
        let nodes = self.failing.get(network).into_iter().flatten();
        nodes.filter_map(|node| Some((node, self.reports.get(node)?.networks.get(network)?)))
    }

    /// Zones that could not do more than they name: of networks that they do not name nobody knows.
    pub(crate) fn cut(&self) -> impl Iterator<Item = &NodeName> {
        self.cut.iter()
    }

    /// Which freed numbers are gone from a node's zone, by its own word.
    pub(crate) fn cleared_by(&self, node: &NodeName) -> Option<&Cleared> {
        Some(&self.reports.get(node)?.cleared)
    }

    /// Up to which epoch a node's zone has cleared all freed numbers.
    pub(crate) fn whole(&self, node: &NodeName) -> Epoch {
        self.cleared_by(node).map_or(Epoch(0), Cleared::whole)
    }

    /// What all of these nodes' zones have cleared; one that has not reported holds back everything. Nodes that are away count
    /// until all others have confirmed the epoch from which on they don't listen to them.
    pub(crate) fn cleared<'a>(
        &self,
        nodes: impl Iterator<Item = &'a NodeName>,
        away: &BTreeMap<NodeName, Epoch>,
    ) -> Cleared {
        let (gone, present): (Vec<&NodeName>, Vec<&NodeName>) =
            nodes.partition(|node| away.contains_key(*node));
        if present.is_empty() {
            return self.all_of(gone.into_iter());
        }
        let present = self.all_of(present.into_iter());
        let heard = away.iter().filter(|(_, fence)| !present.has(**fence)).map(|(node, _)| node);
        self.all_of(heard).and(&present)
    }

    fn all_of<'a>(&self, nodes: impl Iterator<Item = &'a NodeName>) -> Cleared {
        let nothing = Cleared::default();
        nodes.fold(Cleared::everything(), |all, node| {
            all.and(self.reports.get(node).map_or(&nothing, |report| &report.cleared))
        })
    }
}

fn said_of<'a>(policy: &PolicyId, all: &'a [(PolicyId, String)]) -> Option<&'a str> {
    let at = all.binary_search_by(|(id, _)| id.cmp(policy)).ok()?;
    Some(all.get(at)?.1.as_str())
}

/// The nodes, and what their zones have said.
#[derive(Clone, Copy)]
pub(crate) struct Zones<'a> {
    pub(crate) nodes: &'a Nodes,
    pub(crate) reports: &'a ZoneReports,
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_api::policy::PolicyKind;

    fn node(name: &str) -> NodeName {
        name.parse().unwrap()
    }

    fn report(zone: &str, connects: &[(&str, &str)]) -> ZoneReport {
        let rendered =
            connects.iter().map(|(name, hash)| (name.parse().unwrap(), RenderedHash::new(hash).unwrap()));
        ZoneReport { rendered: rendered.collect(), ..ZoneReport::none(node(zone)) }
    }

    #[test]
    fn only_what_differs_is_news() {
        let mut reports = ZoneReports::default();
        let names = |news: News| news.connects.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            names(reports.set(&node("n1"), Some(report("n1", &[("a", "1"), ("b", "1")])))),
            ["a", "b"]
        );
        assert_eq!(
            names(reports.set(&node("n1"), Some(report("n1", &[("a", "1"), ("b", "2"), ("c", "1")])))),
            ["b", "c"]
        );
        assert_eq!(names(reports.set(&node("n1"), None)), ["a", "b", "c"]);
    }

    /// What is said of a policy is found, in whatever order a report says it.
    #[test]
    fn a_policy_is_found_among_many() {
        let policy = |name: &str| PolicyId { kind: PolicyKind::Cluster, name: name.to_owned() };
        let said = ["wall", "a", "gate"].map(|name| (policy(name), format!("{name}/1")));
        let (carried_out, policies) = (said.to_vec(), said[..2].to_vec());
        let mut reports = ZoneReports::default();
        reports.set(&node("n1"), Some(ZoneReport { carried_out, policies, ..ZoneReport::none(node("n1")) }));
        assert_eq!(reports.carried_out(&policy("gate"), &node("n1")), Some("gate/1"));
        assert_eq!(reports.policy_failure(&policy("wall"), &node("n1")), Some("wall/1"));
        assert_eq!(reports.policy_failure(&policy("gate"), &node("n1")), None);
    }

    /// The report of a zone costs what it says, not what all zones have said.
    #[test]
    fn a_report_costs_what_it_says() {
        let mut reports = ZoneReports::default();
        let many: Vec<String> = (0..5000).map(|number| format!("c{number}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "1")).collect();
        reports.set(&node("n1"), Some(report("n1", &many)));
        let before = reports.compared;
        reports.set(&node("n2"), Some(report("n2", &[("c7", "1")])));
        reports.set(&node("n2"), Some(report("n2", &[("c7", "2")])));
        assert_eq!(reports.compared - before, 3);
    }
}
