//! What zones say about connections, in their reports.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::crd::{FailureSubject, ZoneReportSpec};
use causeway_types::{ConnectName, NodeName};

/// The reports of all zones, by connection.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    rendered: BTreeMap<ConnectName, BTreeMap<NodeName, u128>>,
    failures: BTreeMap<ConnectName, BTreeMap<NodeName, String>>,
    /// Since when the reports are known to be complete; before that nobody is silent.
    pub(crate) listed_since: Option<i64>,
    /// Since when a node is there and heard of.
    live_since: BTreeMap<NodeName, i64>,
}

impl Zones {
    /// Takes a report, or the lack of one; the answer is which connections that concerns.
    pub(crate) fn set(&mut self, node: &NodeName, report: &ZoneReportSpec) -> BTreeSet<ConnectName> {
        let rendered = report.connects.iter().filter_map(|connect| {
            let hash = u128::from_str_radix(&connect.hash, 16).ok()?;
            Some((ConnectName::new(connect.name.clone()).ok()?, hash))
        });
        let mut failures: BTreeMap<ConnectName, String> = BTreeMap::new();
        for failure in &report.failures {
            if failure.subject == FailureSubject::ClusterNetworkConnect
                && let Ok(name) = ConnectName::new(failure.name.clone())
            {
                let text = failures.entry(name).or_default();
                let separator = if text.is_empty() { "" } else { "; " };
                *text = format!("{text}{separator}{}", failure.message);
            }
        }
        let mut touched = replace(&mut self.rendered, node, rendered.collect());
        touched.extend(replace(&mut self.failures, node, failures));
        touched
    }

    /// A node is there and heard of, or is not.
    pub(crate) fn set_live(&mut self, node: &NodeName, live: bool, now_ms: i64) {
        if live {
            self.live_since.entry(node.clone()).or_insert(now_ms);
        } else {
            self.live_since.remove(node);
        }
    }

    /// Since when a zone could have said something.
    pub(super) fn heard_since(&self, node: &NodeName) -> Option<i64> {
        Some((*self.live_since.get(node)?).max(self.listed_since?))
    }

    pub(super) fn rendered(&self, connect: &ConnectName, node: &NodeName) -> Option<u128> {
        self.rendered.get(connect)?.get(node).copied()
    }

    pub(super) fn failure(&self, connect: &ConnectName, node: &NodeName) -> Option<&String> {
        self.failures.get(connect)?.get(node)
    }
}

/// Replaces what a node has said about all connections.
fn replace<T: PartialEq>(
    all: &mut BTreeMap<ConnectName, BTreeMap<NodeName, T>>,
    node: &NodeName,
    said: BTreeMap<ConnectName, T>,
) -> BTreeSet<ConnectName> {
    let mut touched = BTreeSet::new();
    all.retain(|connect, nodes| {
        if !said.contains_key(connect) && nodes.remove(node).is_some() {
            touched.insert(connect.clone());
        }
        !nodes.is_empty()
    });
    for (connect, value) in said {
        let nodes = all.entry(connect.clone()).or_default();
        if nodes.get(node) != Some(&value) {
            nodes.insert(node.clone(), value);
            touched.insert(connect);
        }
    }
    touched
}
