//! Freed numbers: which ones nobody may have yet, and what is recorded about them.

use std::collections::BTreeMap;

use causeway_alloc::{Cleared, ConnectRecord, Epoch, Reuse};
use causeway_api::install::{FREED_NUMBERS, FREED_NUMBERS_KEY};
use causeway_record::{Action, Kind, Part, Priority, Target};
use causeway_types::{ConnectName, NetworkName, NodeName};
use serde_json::json;

use super::Numbers;
use crate::connections::Connects;
use crate::desk::Desk;
use crate::writes::{FIELD_MANAGER, Writes};
use crate::zone_reports::{ZoneReports, Zones};

/// What is recorded, and up to where that is written.
#[derive(Debug, Default)]
pub(super) struct Freed {
    /// What was recorded when the manager started.
    recorded: Reuse,
    pub(super) epoch: Epoch,
    /// Blocks and parcels of connections that are gone, or are not looked at yet.
    gone: BTreeMap<ConnectName, ConnectRecord>,
    /// Nodes that freed numbers no longer wait for, and the epoch from which on no zone may listen to them.
    pub(super) away: BTreeMap<NodeName, Epoch>,
    /// What all zones were last known to have cleared.
    pub(super) cleared: Option<Cleared>,
    /// What the last record lists of connections.
    listed: BTreeMap<ConnectName, ConnectRecord>,
    /// The last record that is known to be written.
    written: u64,
}

impl Freed {
    /// Goes on from what was recorded.
    pub(super) fn start(&mut self) -> Reuse {
        let recorded = std::mem::take(&mut self.recorded);
        self.epoch = recorded.epoch;
        self.gone.clone_from(&recorded.connects);
        self.listed.clone_from(&recorded.connects);
        self.away.clone_from(&recorded.away);
        recorded
    }

    fn expire(&mut self, cleared: &Cleared) {
        self.gone.retain(|_, record| {
            record.quarantined.retain(|(_, _, epoch)| !cleared.has(*epoch));
            !record.quarantined.is_empty()
        });
    }
}

/// Going on from one record to the next.
impl Numbers {
    /// What was recorded before the manager started.
    pub(crate) fn remember(&mut self, recorded: Reuse) {
        self.freed.recorded = recorded;
    }

    /// Lists the numbers of a network as freed, and records that. The answer is the record's token.
    pub(crate) fn quarantine(
        &mut self,
        network: &NetworkName,
        connects: &mut Connects,
        writes: &mut Writes,
    ) -> Option<u64> {
        if !self.given.has_any(network) {
            return None;
        }
        let epoch = self.next_epoch(connects);
        self.budgets.rest(network, self.given.id_of(network));
        self.given.quarantine(network, epoch);
        Some(self.record(connects, writes))
    }

    /// The epoch of the next record. What connections let go of from now on belongs to the one after it.
    pub(crate) fn next_epoch(&mut self, connects: &mut Connects) -> Epoch {
        self.freed.epoch = self.freed.epoch.next();
        connects.set_epoch(self.freed.epoch.next());
        self.freed.epoch
    }

    /// The epoch under which what is freed now will be recorded.
    pub(crate) fn coming_epoch(&self) -> Epoch {
        self.freed.epoch.next()
    }

    /// Writes the record; the answer is its token.
    pub(crate) fn record(&mut self, connects: &Connects, writes: &mut Writes) -> u64 {
        let numbers = self.freed_numbers(connects);
        let text = serde_json::to_string(&numbers).unwrap_or_default();
        self.freed.listed = numbers.connects;
        let namespace = self.namespace.clone();
        let body = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": FREED_NUMBERS, "namespace": namespace},
            "data": {FREED_NUMBERS_KEY: text},
        });
        let target = Target { kind: Kind::ConfigMap, namespace: Some(namespace), name: FREED_NUMBERS.into() };
        let action = Action::Apply { subresource: None, manager: FIELD_MANAGER, body };
        writes.ask(target, Part::Data, Priority::Network, action)
    }

    fn freed_numbers(&self, connects: &Connects) -> Reuse {
        let (network_ids, tunnel_keys) = self.given.freed();
        let mut of_connects = self.freed.gone.clone();
        of_connects.extend(connects.freed());
        let (away, payers) = (self.freed.away.clone(), self.budgets.resting());
        Reuse { epoch: self.freed.epoch, network_ids, tunnel_keys, connects: of_connects, away, payers }
    }

    /// Whether any number is freed that somebody may still use. Asked with the clock, so nothing is gone through for it.
    pub(super) fn any_rests(&self, connects: &mut Connects) -> bool {
        let of_gone = || self.freed.gone.values().any(|record| !record.quarantined.is_empty());
        self.given.any_rests() || of_gone() || connects.any_rests()
    }

    /// The record with this token is written.
    pub(crate) fn written(&mut self, token: u64) {
        self.freed.written = self.freed.written.max(token);
    }

    /// Whether the record with this token, or a later one, is written.
    pub(crate) fn is_written(&self, token: u64) -> bool {
        self.freed.written >= token
    }

    /// What all zones have cleared is looked at again.
    pub(crate) fn look_again(&mut self) {
        self.freed.cleared = None;
    }

    /// What is listed of a connection that was gone and is looked at now.
    pub(crate) fn take_gone(&mut self, name: &ConnectName) -> ConnectRecord {
        self.freed.gone.remove(name).unwrap_or_default()
    }

    /// A connection is gone; its blocks and parcels still rest.
    pub(crate) fn keep_gone(&mut self, name: &ConnectName, record: ConnectRecord) {
        if !record.quarantined.is_empty() {
            self.freed.gone.insert(name.clone(), record);
        }
    }

    /// Whether the record lists a place of the connection that is not free any more.
    pub(crate) fn lists_more(&self, name: &ConnectName, now: Option<&ConnectRecord>) -> bool {
        let free = |place: &_| now.is_some_and(|now| now.quarantined.contains(place));
        self.freed.listed.get(name).is_some_and(|listed| !listed.quarantined.iter().all(free))
    }

    /// Numbers that all zones have cleared can be used again. The record must not list them any more: a zone that meets one
    /// of them in use would take it for one that is not gone.
    pub(crate) fn expire(
        &mut self,
        Zones { nodes, reports }: Zones<'_>,
        connects: &mut Connects,
        desk: &mut Desk,
    ) {
        let cleared = reports.cleared(nodes.names(), &self.freed.away);
        // Without nodes there is no hurry, and nobody to ask.
        if nodes.len() == 0 || self.freed.cleared.as_ref() == Some(&cleared) {
            return;
        }
        let before = listed(&self.freed_numbers(connects));
        self.given.expire(&cleared);
        self.budgets.expire(&self.given.freed().0.quarantined);
        self.freed.expire(&cleared);
        desk.dirty.connects(connects.expire(&cleared));
        self.freed.cleared = Some(cleared);
        if listed(&self.freed_numbers(connects)) != before {
            self.record(connects, &mut desk.writes);
        }
    }

    /// Whether numbers wait for a node's zone to clear them.
    pub(super) fn wait_for(&self, node: &NodeName, reports: &ZoneReports, connects: &Connects) -> bool {
        listed(&self.freed_numbers(connects)) > 0 && reports.whole(node) < self.freed.epoch
    }
}

/// How many numbers are listed as freed.
fn listed(record: &Reuse) -> usize {
    let blocks: usize = record.connects.values().map(|record| record.quarantined.len()).sum();
    record.network_ids.quarantined.len() + record.tunnel_keys.quarantined.len() + blocks
}
