//! Whom freed numbers wait for: nodes' people are told, and who is away for long is fenced, so that nobody waits for him.

use std::collections::{BTreeMap, BTreeSet};

use causeway_alloc::{Cleared, Epoch};
use causeway_types::NodeName;

use super::Numbers;
use crate::connections::Connects;
use crate::desk::Desk;
use crate::nodes::Nodes;
use crate::trouble::FREED_NUMBERS_WAIT;
use crate::writes::Writes;
use crate::zone_reports::Zones;

/// Freed numbers that wait for a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    since: i64,
    told: bool,
    /// Since when it is to blame for that: it is silent, or has by its word what nobody else has any more.
    to_blame: Option<i64>,
}

/// How a zone keeps numbers waiting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Keeps {
    /// It has not said anything of what was freed last.
    Silent,
    /// It says that it still has numbers that are gone everywhere else.
    Alone,
    /// It says that it still has numbers, and so do others: whatever that is, it is no fault of one node.
    WithOthers,
}

/// For how long a zone may be busy before its node's people are told.
const TELL_AFTER_MS: i64 = 60_000;
/// A node that is well may have a zone that is not. It is waited for so many times longer, for its pods are cut off by a fence.
const PATIENCE_WITH_READY: i64 = 6;

impl Numbers {
    /// Nodes that have not been well for long, or for longer are to blame, and that freed numbers wait for, are fenced: all others
    /// stop listening to them, and then nobody waits for them any more. One whose report is up to date holds nothing up.
    pub(crate) fn fence_absent_nodes(&mut self, zones: Zones<'_>, connects: &mut Connects, desk: &mut Desk) {
        self.note_waiting(zones, connects, desk);
        let (now, limit) = (desk.now_ms, self.fence_after_ms);
        let absent: BTreeSet<&NodeName> = zones.nodes.absent_since(now.saturating_sub(limit)).collect();
        let mute = now.saturating_sub(limit.saturating_mul(PATIENCE_WITH_READY));
        let late = |(node, waiting): &(&NodeName, &Waiting)| {
            absent.contains(node) || waiting.to_blame.is_some_and(|since| since <= mute)
        };
        let fenced: Vec<NodeName> = self.waiting.iter().filter(late).map(|(node, _)| node.clone()).collect();
        if !fenced.is_empty() {
            self.fence(fenced, connects, &mut desk.writes);
        }
    }

    /// For how many milliseconds freed numbers have been waiting for nodes' zones.
    pub(crate) fn waiting(&self, now: i64) -> impl Iterator<Item = (&NodeName, i64)> {
        self.waiting.iter().map(move |(node, waiting)| (node, now.saturating_sub(waiting.since)))
    }

    /// Notes whom numbers wait for, and tells a node's people after a while.
    fn note_waiting(&mut self, zones: Zones<'_>, connects: &mut Connects, desk: &mut Desk) {
        let mut before = std::mem::take(&mut self.waiting);
        // Most of the time all have cleared everything, and nobody needs to be asked.
        let all_cleared =
            self.freed.cleared.as_ref().is_some_and(|cleared| cleared.whole() >= self.freed.epoch);
        if all_cleared || !self.any_rests(connects) {
            return;
        }
        let now = desk.now_ms;
        for (node, keeps) in self.keepers(zones) {
            let known = before.remove(&node);
            let mut waiting = known.unwrap_or(Waiting { since: now, told: false, to_blame: None });
            let to_blame = (keeps != Keeps::WithOthers).then_some(now);
            waiting.to_blame = to_blame.map(|now| waiting.to_blame.unwrap_or(now));
            if !waiting.told && now.saturating_sub(waiting.since) >= TELL_AFTER_MS {
                waiting.told = true;
                self.tell_waiting(&node, keeps, zones.nodes, &mut desk.writes);
            }
            self.waiting.insert(node, waiting);
        }
    }

    /// Nodes that are listened to and have not cleared everything.
    fn keepers(&self, Zones { nodes, reports }: Zones<'_>) -> Vec<(NodeName, Keeps)> {
        let nothing = Cleared::default();
        let listened_to = nodes.names().filter(|node| !self.freed.away.contains_key(*node));
        let said = |node| (node, reports.cleared_by(node).unwrap_or(&nothing));
        let zones: Vec<(&NodeName, &Cleared)> = listened_to.map(said).collect();
        let everybody = zones.iter().map(|(_, cleared)| cleared.upto()).min().unwrap_or_default();
        let mut holders: BTreeMap<Epoch, usize> = BTreeMap::new();
        for epoch in zones.iter().flat_map(|(_, cleared)| cleared.held()) {
            *holders.entry(epoch).or_default() += 1;
        }
        let alone = |epoch: Epoch| zones.len() > 1 && epoch <= everybody && holders.get(&epoch) == Some(&1);
        let keeps = |cleared: &Cleared| {
            if cleared.upto() < self.freed.epoch && !cleared.is_full() {
                Keeps::Silent
            } else if cleared.held().any(alone) {
                Keeps::Alone
            } else {
                Keeps::WithOthers
            }
        };
        let behind = zones.iter().filter(|(_, cleared)| cleared.whole() < self.freed.epoch);
        behind.map(|(node, cleared)| ((*node).clone(), keeps(cleared))).collect()
    }

    fn tell_waiting(&self, node: &NodeName, keeps: Keeps, nodes: &Nodes, writes: &mut Writes) {
        let limit = self.fence_after_ms.saturating_mul(PATIENCE_WITH_READY) / 1000;
        let patience = TELL_AFTER_MS / 1000;
        let message = match keeps {
            Keeps::Silent => format!(
                "numbers of networks that are gone cannot be used again before the zone of node {node} has said that it has nothing of \
                 them, and it has not for {patience} s: look at the log of causeway on {node} and at the ZoneReport {node}. After \
                 {limit} s the other nodes stop listening to it, sooner if the node is not Ready"
            ),
            Keeps::Alone => format!(
                "the zone of node {node} says for {patience} s that it still has numbers of networks that are gone everywhere else, so nobody \
                 can use these again: its ZoneReport names them under heldEpochs, and what else it names there must be mended. After \
                 {limit} s the other nodes stop listening to it, sooner if the node is not Ready"
            ),
            Keeps::WithOthers => format!(
                "the zone of node {node} says for {patience} s that it still has numbers of networks that are gone, as others do, so nobody \
                 can use these again: its ZoneReport names them under heldEpochs, and what else it names there must be mended"
            ),
        };
        if let Some(regarding) = nodes.regarding(node) {
            writes.warn(regarding, FREED_NUMBERS_WAIT, message);
        }
    }

    /// A Node that is deleted may still run. Numbers wait until nobody listens to it any more.
    pub(crate) fn fence_deleted_node(
        &mut self,
        node: &NodeName,
        zones: Zones<'_>,
        connects: &mut Connects,
        writes: &mut Writes,
    ) {
        if self.started && zones.nodes.len() > 0 && self.wait_for(node, zones.reports, connects) {
            self.fence(vec![node.clone()], connects, writes);
        } else if self.freed.away.remove(node).is_some() {
            self.record(connects, writes);
        }
    }

    fn fence(&mut self, nodes: Vec<NodeName>, connects: &mut Connects, writes: &mut Writes) {
        let epoch = self.next_epoch(connects);
        for node in nodes {
            tracing::warn!(%node, "the node is away: freed numbers no longer wait for it, and others do not listen to it until it has cleared them");
            self.freed.away.insert(node, epoch);
        }
        self.record(connects, writes);
    }

    /// Others listen again to a node that has cleared what was freed while it was away. One that is deleted is forgotten when
    /// nobody listens to it any more: also not one who has just come back.
    pub(crate) fn lift_fences(&mut self, zones: Zones<'_>, connects: &Connects, writes: &mut Writes) {
        let Zones { nodes, reports } = zones;
        let before = self.freed.away.len();
        self.freed.away.retain(|node, epoch| !nodes.exists(node) || reports.whole(node) < *epoch);
        let others = nodes.names().filter(|node| !self.freed.away.contains_key(*node));
        let others = reports.cleared(others, &BTreeMap::new());
        self.freed.away.retain(|node, epoch| nodes.exists(node) || !others.has(*epoch));
        if self.freed.away.len() != before {
            self.record(connects, writes);
        }
    }
}
