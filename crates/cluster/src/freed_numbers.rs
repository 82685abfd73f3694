//! Freed numbers: which ones nobody may have yet, and what is recorded about them.

use std::collections::{BTreeMap, BTreeSet};

use causeway_alloc::{Cleared, ConnectRecord, Epoch, Reuse};
use causeway_api::install::{FREED_NUMBERS, FREED_NUMBERS_KEY};
use causeway_record::{Action, Kind, Part, Priority, Target};
use causeway_types::{ConnectName, NetworkName, NodeName};
use serde_json::json;

use crate::Manager;
use crate::trouble::FREED_NUMBERS_WAIT;
use crate::writes::FIELD_MANAGER;

/// What is recorded, and up to where that is written.
#[derive(Debug, Default)]
pub(crate) struct FreedNumbers {
    /// What was recorded when the manager started.
    recorded: Reuse,
    epoch: Epoch,
    /// Blocks and slices of connections that are gone, or are not looked at yet.
    gone: BTreeMap<ConnectName, ConnectRecord>,
    /// Nodes that freed numbers no longer wait for, and the epoch from which on no zone may listen to them.
    away: BTreeMap<NodeName, Epoch>,
    /// What all zones were last known to have cleared.
    cleared: Option<Cleared>,
    /// Nodes that numbers wait for, as of the last look.
    waiting: BTreeMap<NodeName, Waiting>,
    /// What the last record lists of connections.
    listed: BTreeMap<ConnectName, ConnectRecord>,
    /// The last record that is known to be written.
    written: u64,
}

impl FreedNumbers {
    /// What was recorded before the manager started.
    pub(crate) fn remember(&mut self, recorded: Reuse) {
        self.recorded = recorded;
    }

    /// Goes on from what was recorded.
    pub(crate) fn start(&mut self) -> Reuse {
        let recorded = std::mem::take(&mut self.recorded);
        self.epoch = recorded.epoch;
        self.gone.clone_from(&recorded.connects);
        self.listed.clone_from(&recorded.connects);
        self.away.clone_from(&recorded.away);
        recorded
    }

    /// The epoch under which what is freed now will be recorded.
    pub(crate) fn coming(&self) -> Epoch {
        self.epoch.next()
    }

    /// What is listed of a connection that was gone and is looked at now.
    pub(crate) fn take_gone(&mut self, name: &ConnectName) -> ConnectRecord {
        self.gone.remove(name).unwrap_or_default()
    }

    /// A connection is gone; its blocks and slices still rest.
    pub(crate) fn keep_gone(&mut self, name: &ConnectName, record: ConnectRecord) {
        if !record.quarantined.is_empty() {
            self.gone.insert(name.clone(), record);
        }
    }

    /// Whether the record lists a place of the connection that is not free any more.
    pub(crate) fn lists_more(&self, name: &ConnectName, now: Option<&ConnectRecord>) -> bool {
        let free = |place: &_| now.is_some_and(|now| now.quarantined.contains(place));
        self.listed.get(name).is_some_and(|listed| !listed.quarantined.iter().all(free))
    }

    /// Whether the record with this token, or a later one, is written.
    pub(crate) fn is_written(&self, token: u64) -> bool {
        self.written >= token
    }

    /// What all zones have cleared is looked at again.
    pub(crate) fn look_again(&mut self) {
        self.cleared = None;
    }

    fn expire(&mut self, cleared: &Cleared) {
        self.gone.retain(|_, record| {
            record.quarantined.retain(|(_, _, epoch)| !cleared.has(*epoch));
            !record.quarantined.is_empty()
        });
    }
}

impl Manager {
    /// Lists the numbers of a network as freed, and records that. The answer is the record's token.
    pub(crate) fn quarantine(&mut self, network: &NetworkName) -> Option<u64> {
        if !self.numbers.has_any(network) {
            return None;
        }
        let epoch = self.next_epoch();
        self.budgets.rest(network, self.numbers.id_of(network));
        self.numbers.quarantine(network, epoch);
        Some(self.record_freed_numbers())
    }

    /// The epoch of the next record. What connections let go of from now on belongs to the one after it.
    pub(crate) fn next_epoch(&mut self) -> Epoch {
        self.freed.epoch = self.freed.epoch.next();
        self.connects.set_epoch(self.freed.epoch.next());
        self.freed.epoch
    }

    /// Writes the record; the answer is its token.
    pub(crate) fn record_freed_numbers(&mut self) -> u64 {
        let numbers = self.freed_numbers();
        let text = serde_json::to_string(&numbers).unwrap_or_default();
        self.freed.listed = numbers.connects;
        let namespace = self.config.namespace.clone();
        let body = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": FREED_NUMBERS, "namespace": namespace},
            "data": {FREED_NUMBERS_KEY: text},
        });
        let target = Target { kind: Kind::ConfigMap, namespace: Some(namespace), name: FREED_NUMBERS.into() };
        let action = Action::Apply { subresource: None, manager: FIELD_MANAGER, body };
        self.writes.ask(target, Part::Data, Priority::Network, action)
    }

    fn freed_numbers(&self) -> Reuse {
        let (network_ids, tunnel_keys) = self.numbers.freed();
        let mut connects = self.freed.gone.clone();
        connects.extend(self.connects.freed());
        let (away, payers) = (self.freed.away.clone(), self.budgets.resting());
        Reuse { epoch: self.freed.epoch, network_ids, tunnel_keys, connects, away, payers }
    }

    /// The record is written. What follows from other writes shows in events of their objects, but nobody watches this one.
    pub(crate) fn freed_numbers_written(&mut self, token: u64) {
        self.freed.written = self.freed.written.max(token);
        self.dirty.owners(self.owners.going().cloned());
        self.dirty.connects(self.connects.waiting_for_record());
    }

    /// Numbers that all zones have cleared can be used again. The record must not list them any more: a zone that meets one
    /// of them in use would take it for one that is not gone.
    pub(crate) fn expire_numbers(&mut self) {
        let cleared = self.zone_reports.cleared(self.nodes.names(), &self.freed.away);
        self.dirty.owners(self.networks.take_starved());
        self.dirty.connects(self.connects.without_key());
        // Without nodes there is no hurry, and nobody to ask.
        if self.nodes.len() == 0 || self.freed.cleared.as_ref() == Some(&cleared) {
            return;
        }
        let before = listed(&self.freed_numbers());
        self.numbers.expire(&cleared);
        self.budgets.expire(&self.numbers.freed().0.quarantined);
        self.freed.expire(&cleared);
        self.dirty.connects(self.connects.expire(&cleared));
        self.freed.cleared = Some(cleared);
        if listed(&self.freed_numbers()) != before {
            self.record_freed_numbers();
        }
    }
}

/// Freed numbers that wait for a node.
#[derive(Clone, Copy, Debug)]
struct Waiting {
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

impl Manager {
    /// Nodes that have not been well for long, or for longer are to blame, and that freed numbers wait for, are fenced: all others
    /// stop listening to them, and then nobody waits for them any more. One whose report is up to date holds nothing up.
    pub(crate) fn fence_absent_nodes(&mut self) {
        self.note_waiting();
        let (now, limit) = (self.now_ms, self.config.fence_after_ms);
        let absent: BTreeSet<&NodeName> = self.nodes.absent_since(now.saturating_sub(limit)).collect();
        let mute = now.saturating_sub(limit.saturating_mul(PATIENCE_WITH_READY));
        let late = |(node, waiting): &(&NodeName, &Waiting)| {
            absent.contains(node) || waiting.to_blame.is_some_and(|since| since <= mute)
        };
        let fenced: Vec<NodeName> =
            self.freed.waiting.iter().filter(late).map(|(node, _)| node.clone()).collect();
        if !fenced.is_empty() {
            self.fence(fenced);
        }
    }

    /// For how many milliseconds freed numbers have been waiting for nodes' zones.
    pub fn numbers_wait(&self) -> impl Iterator<Item = (&NodeName, i64)> {
        let now = self.now_ms;
        self.freed.waiting.iter().map(move |(node, waiting)| (node, now.saturating_sub(waiting.since)))
    }

    /// Notes whom numbers wait for, and tells a node's people after a while.
    fn note_waiting(&mut self) {
        let mut before = std::mem::take(&mut self.freed.waiting);
        // Most of the time all have cleared everything, and nobody needs to be asked.
        let all_cleared =
            self.freed.cleared.as_ref().is_some_and(|cleared| cleared.whole() >= self.freed.epoch);
        if all_cleared || listed(&self.freed_numbers()) == 0 {
            return;
        }
        let now = self.now_ms;
        for (node, keeps) in self.keepers() {
            let known = before.remove(&node);
            let mut waiting = known.unwrap_or(Waiting { since: now, told: false, to_blame: None });
            let to_blame = (keeps != Keeps::WithOthers).then_some(now);
            waiting.to_blame = to_blame.map(|now| waiting.to_blame.unwrap_or(now));
            if !waiting.told && now.saturating_sub(waiting.since) >= TELL_AFTER_MS {
                waiting.told = true;
                self.tell_waiting(&node, keeps);
            }
            self.freed.waiting.insert(node, waiting);
        }
    }

    /// Nodes that are listened to and have not cleared everything.
    fn keepers(&self) -> Vec<(NodeName, Keeps)> {
        let nothing = Cleared::default();
        let listened_to = self.nodes.names().filter(|node| !self.freed.away.contains_key(*node));
        let said = |node| (node, self.zone_reports.cleared_by(node).unwrap_or(&nothing));
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

    fn tell_waiting(&mut self, node: &NodeName, keeps: Keeps) {
        let limit = self.config.fence_after_ms.saturating_mul(PATIENCE_WITH_READY) / 1000;
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
        if let Some(regarding) = self.nodes.regarding(node) {
            self.writes.warn(regarding, FREED_NUMBERS_WAIT, message);
        }
    }

    /// A Node that is deleted may still run. Numbers wait until nobody listens to it any more.
    pub(crate) fn fence_deleted_node(&mut self, node: &NodeName) {
        if self.started && self.nodes.len() > 0 && self.holds_numbers_up(node) {
            self.fence(vec![node.clone()]);
        } else if self.freed.away.remove(node).is_some() {
            self.record_freed_numbers();
        }
    }

    fn holds_numbers_up(&self, node: &NodeName) -> bool {
        listed(&self.freed_numbers()) > 0 && self.zone_reports.whole(node) < self.freed.epoch
    }

    fn fence(&mut self, nodes: Vec<NodeName>) {
        let epoch = self.next_epoch();
        for node in nodes {
            tracing::warn!(%node, "the node is away: freed numbers no longer wait for it, and others do not listen to it until it has cleared them");
            self.freed.away.insert(node, epoch);
        }
        self.record_freed_numbers();
    }

    /// Others listen again to a node that has cleared what was freed while it was away. One that is deleted is forgotten when
    /// nobody listens to it any more: also not one who has just come back.
    pub(crate) fn lift_fences(&mut self) {
        let (nodes, reports) = (&self.nodes, &self.zone_reports);
        let before = self.freed.away.len();
        self.freed.away.retain(|node, epoch| !nodes.exists(node) || reports.whole(node) < *epoch);
        let others = nodes.names().filter(|node| !self.freed.away.contains_key(*node));
        let others = reports.cleared(others, &BTreeMap::new());
        self.freed.away.retain(|node, epoch| nodes.exists(node) || !others.has(*epoch));
        if self.freed.away.len() != before {
            self.record_freed_numbers();
        }
    }
}

/// How many numbers are listed as freed.
fn listed(record: &Reuse) -> usize {
    let blocks: usize = record.connects.values().map(|record| record.quarantined.len()).sum();
    record.network_ids.quarantined.len() + record.tunnel_keys.quarantined.len() + blocks
}
