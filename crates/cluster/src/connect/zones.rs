//! What zones say about connections, in their reports.

use std::collections::{BTreeMap, BTreeSet};

use causeway_record::RenderedHash;
use causeway_types::{ConnectName, NodeName};

/// The reports of all zones, by connection.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    rendered: BTreeMap<ConnectName, BTreeMap<NodeName, RenderedHash>>,
    failures: BTreeMap<ConnectName, BTreeMap<NodeName, String>>,
    /// Since when the reports are known to be complete; before that nobody is silent.
    pub(crate) listed_since: Option<i64>,
    /// Since when a node is there and heard of.
    live_since: BTreeMap<NodeName, i64>,
}

impl Zones {
    /// Takes a report, or the lack of one; the answer is which connections that concerns.
    pub(crate) fn set(
        &mut self,
        node: &NodeName,
        rendered: BTreeMap<ConnectName, RenderedHash>,
        failures: BTreeMap<ConnectName, String>,
    ) -> BTreeSet<ConnectName> {
        let mut touched = replace(&mut self.rendered, node, rendered);
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

    pub(super) fn rendered(&self, connect: &ConnectName, node: &NodeName) -> Option<RenderedHash> {
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
