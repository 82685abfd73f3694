//! Freed numbers: which ones nobody may have yet, and what is recorded about them.

use std::collections::BTreeMap;

use causeway_alloc::{ConnectRecord, Epoch, KeyOwner, Reuse};
use causeway_record::{Action, Kind, Outcome, Part, Priority, Request, Target, ZoneReport};
use causeway_types::{ConnectName, NetworkName, NodeName};
use serde_json::json;

use crate::{Manager, OwnerKey};

/// Name of the ConfigMap with freed numbers.
pub(crate) const CONFIG_MAP: &str = causeway_api::install::FREED_NUMBERS;
/// Its only key.
pub(crate) const KEY: &str = causeway_api::install::FREED_NUMBERS_KEY;
const MANAGER: &str = "causeway-cluster-manager";

/// What is recorded, and up to where that is written.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// What was recorded when the manager started.
    pub(crate) remembered: Reuse,
    pub(crate) epoch: Epoch,
    /// Blocks and slices of connections that are gone, or are not looked at yet.
    pub(crate) gone: BTreeMap<ConnectName, ConnectRecord>,
    /// Up to where all zones were last known to have cleared freed numbers.
    pub(crate) cleared: Option<Epoch>,
    /// The last record that is known to be written.
    written: u64,
}

impl Manager {
    /// Lists the numbers of a network as freed, and records that. The answer is the record's token.
    pub(crate) fn quarantine(&mut self, network: &NetworkName) -> Option<u64> {
        let key = KeyOwner::TransitRouter(network.clone());
        if self.networks.ids.id_of(network).is_none() && self.networks.keys.id_of(&key).is_none() {
            return None;
        }
        let epoch = self.next_epoch();
        self.networks.ids.quarantine(network, epoch);
        self.networks.keys.quarantine(&key, epoch);
        Some(self.remember())
    }

    /// The epoch of the next record. What connections let go of from now on belongs to the one after it.
    pub(crate) fn next_epoch(&mut self) -> Epoch {
        self.memory.epoch = self.memory.epoch.next();
        if let Some(model) = &mut self.connects.model {
            model.set_epoch(self.memory.epoch.next());
        }
        self.memory.epoch
    }

    /// The numbers of a network belong to nobody any more.
    pub(crate) fn release_numbers(&mut self, network: &NetworkName) {
        self.networks.ids.release(network);
        self.networks.keys.release(&KeyOwner::TransitRouter(network.clone()));
    }

    /// Writes the record; the answer is its token.
    pub(crate) fn remember(&mut self) -> u64 {
        let reuse = Reuse {
            epoch: self.memory.epoch,
            network_ids: self.networks.ids.record(),
            tunnel_keys: self.networks.keys.record(),
            connects: self.freed_blocks(),
        };
        let text = serde_json::to_string(&reuse).unwrap_or_default();
        let namespace = self.config.namespace.clone();
        let body = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": namespace},
            "data": {KEY: text},
        });
        self.write(Request {
            target: memory_target(namespace),
            part: Part::Data,
            priority: Priority::Network,
            action: Action::Apply { subresource: None, manager: MANAGER, body },
            token: 0,
        })
    }

    fn freed_blocks(&self) -> BTreeMap<ConnectName, ConnectRecord> {
        let model = self.connects.model.as_ref();
        let record = |name: &ConnectName| Some((name.clone(), model?.record(name)?));
        let freed = self.connects.all.keys().filter_map(record);
        let mut all = self.memory.gone.clone();
        all.extend(freed.filter(|(_, record)| !record.quarantined.is_empty()));
        all
    }

    /// Whether the record with this token, or a later one, is written.
    pub(crate) fn is_remembered(&self, token: u64) -> bool {
        self.memory.written >= token
    }

    /// A write is done. What follows from it shows in events of the object, but for the record, which nobody watches.
    pub(crate) fn done(&mut self, outcome: &Outcome) {
        match outcome.target.kind {
            Kind::ConfigMap => {
                self.memory.written = self.memory.written.max(outcome.token);
                self.dirty.owners(self.owners.going.iter().cloned());
                self.recorded();
            }
            Kind::UserDefinedNetwork | Kind::ClusterUserDefinedNetwork if outcome.part == Part::Status => {
                self.status_done(&outcome.target);
            }
            Kind::ClusterNetworkConnect if outcome.part == Part::Status => {
                self.connect_status_done(&outcome.target.name);
            }
            _ => {}
        }
    }

    /// Numbers that all zones have cleared can be used again. The record must not list them any more: a zone that meets one
    /// of them in use would take it for one that is not gone.
    pub(crate) fn expire_numbers(&mut self) {
        let report = |name: &NodeName| self.nodes.epochs.get(name).copied().map(Epoch);
        let cleared = Epoch::cleared(self.nodes.all.keys().map(report));
        self.dirty.owners(std::mem::take(&mut self.networks.starved));
        self.starved_connects();
        // Without nodes there is no hurry, and nobody to ask.
        if self.nodes.all.is_empty() {
            return;
        }
        if self.memory.cleared.replace(cleared) == Some(cleared) {
            return;
        }
        let before = self.listed();
        self.networks.ids.expire(cleared);
        self.networks.keys.expire(cleared);
        self.memory.gone.retain(|_, record| {
            record.quarantined.retain(|(_, _, epoch)| *epoch > cleared);
            !record.quarantined.is_empty()
        });
        if let Some(model) = &mut self.connects.model {
            self.dirty.connects.extend(model.expire(cleared));
        }
        if self.listed() != before {
            self.remember();
        }
    }

    /// How many numbers are listed as freed.
    fn listed(&self) -> usize {
        let blocks: usize = self.freed_blocks().values().map(|record| record.quarantined.len()).sum();
        let ids = self.networks.ids.record().quarantined.len();
        ids + self.networks.keys.record().quarantined.len() + blocks
    }

    pub(crate) fn report_applied(&mut self, report: ZoneReport) {
        let changed = self.nodes.epochs.insert(report.node.clone(), report.epoch) != Some(report.epoch);
        self.dirty.connect_statuses.extend(self.zones.set(&report.node, report.rendered, report.connects));
        self.set_failures(&report.node, report.networks);
        if changed {
            self.expire_numbers();
        }
    }

    pub(crate) fn report_deleted(&mut self, node: &NodeName) {
        self.nodes.epochs.remove(node);
        self.dirty.connect_statuses.extend(self.zones.set(node, BTreeMap::new(), BTreeMap::new()));
        self.set_failures(node, BTreeMap::new());
    }

    fn set_failures(&mut self, node: &NodeName, failures: BTreeMap<NetworkName, String>) {
        let touched = self.networks.set_failures(node, failures);
        let owners = touched.iter().filter_map(|name| self.networks.all.get(name)?.owner.clone());
        let owners: Vec<OwnerKey> = owners.collect();
        self.dirty.statuses.extend(owners);
    }
}

fn memory_target(namespace: String) -> Target {
    Target { kind: Kind::ConfigMap, namespace: Some(namespace), name: CONFIG_MAP.into() }
}
