//! The first look at the whole cluster: what annotations hold is taken up before anything is given out, so a restart
//! gives the same answers whatever the order of events was.

use std::collections::BTreeSet;

use causeway_types::NetworkName;

use super::Manager;
use crate::OwnerKey;
use crate::dirty::Dirty;

impl Manager {
    /// Everything needed has been listed.
    pub(super) fn start(&mut self) {
        self.desk.dirty = Dirty::default();
        self.nodes.restore();
        self.restore_numbers();
        self.desk.dirty.nodes(self.nodes.names().cloned());
        self.settle_networks();
        let owners: Vec<OwnerKey> = self.owners.keys().cloned().collect();
        let named = self.attachments.named_networks().cloned();
        let networks: BTreeSet<NetworkName> = owners.iter().map(OwnerKey::network).chain(named).collect();
        self.find_clashes(&networks, true);
        owners.iter().for_each(|owner| self.keep_running(owner));
        self.attachments.by_age().iter().for_each(|nad| self.settle_nad(nad));
        self.expire_numbers();
        // Networks as they were written last come before what their objects say now: who has grown while nobody watched is the
        // newcomer, and connections leave him out, not those whose addresses he has grown into.
        let (running, others): (Vec<OwnerKey>, Vec<OwnerKey>) =
            owners.into_iter().partition(|owner| self.networks.get(&owner.network()).is_some());
        self.desk.dirty.hold_owners(running);
        self.desk.dirty.owners(others);
        self.settle_networks();
        if self.connects.are_listed() {
            self.start_connects();
        }
        self.desk.dirty.let_go_of_owners();
        self.settle_networks();
        let (pods, around, desk) = self.pods();
        pods.start(around, desk);
        self.desk.dirty.endpoint_slices(self.mirrors.all());
        self.desk.dirty.policies(self.policies.all());
        self.desk.dirty.vteps(self.vteps.names().cloned());
    }

    fn restore_numbers(&mut self) {
        let (mut ids, mut tunnels) = self.attachments.numbers(&self.owners, &self.namespaces);
        ids.extend(self.owners.ids_in_statuses());
        tunnels.extend(self.connects.written_keys());
        self.numbers.start(ids, tunnels);
    }

    /// Connections are decided about for the first time.
    pub(super) fn start_connects(&mut self) {
        drop(self.desk.dirty.take_reach());
        let (connects, around, numbers, desk) = self.connects();
        connects.start(&around, numbers, desk);
        // What zones have cleared of their blocks.
        self.numbers.look_again();
        self.expire_numbers();
    }
}
