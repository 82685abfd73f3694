//! Networks and the attachments that they come from: who has to know when one begins, grows or ends.

use std::collections::BTreeSet;

use causeway_api::intent::Network;
use causeway_record::ObjectKey;
use causeway_types::NetworkName;

use super::Manager;
use crate::attachments::{Answer, Verdict};
use crate::keys::Wait;
use crate::numbers::Source;
use crate::trouble::Trouble;
use crate::zone_reports::Zones;

impl Manager {
    /// Makes a network exist, or grow.
    pub(super) fn register(&mut self, intent: Network, source: &Source) -> Result<(), Trouble> {
        let grown = self.networks.register(intent, source, &mut self.numbers, &mut self.desk)?;
        if let Some(id) = grown {
            self.desk.dirty.pods(self.pods.waiting_for_network(id));
            self.desk.dirty.endpoint_slices(self.mirrors.by_address());
        }
        Ok(())
    }

    /// A network is gone. Its numbers are free; those that zones may still have have been quarantined before.
    pub(super) fn end_network(&mut self, name: &NetworkName) {
        self.desk.dirty.reach_network(name);
        if let Some((id, nads)) = self.networks.unregister(name) {
            self.pods.forget_network(id, &nads);
            self.desk.dirty.pods(self.pods.waiting_for_network(id));
            self.desk.dirty.nads(nads);
        }
        self.numbers.release(name);
    }

    /// Finds out which networks cannot live side by side, and has those looked at for which that changed.
    pub(super) fn find_clashes(&mut self, networks: &BTreeSet<NetworkName>, nodes: bool) {
        for name in networks {
            let owned = self.owners.meant(name);
            let wanted = owned.or_else(|| self.attachments.written_by_hand(name, &self.namespaces));
            self.networks.claim(name, wanted);
        }
        for name in self.networks.find_clashes(self.nodes.names(), nodes) {
            self.desk.dirty.owners(self.owners.of_network(&name).cloned());
            self.desk.dirty.nads(self.attachments.naming(&name).cloned());
        }
    }

    /// Numbers that all zones have cleared can be used again, by those who have waited for one.
    pub(super) fn expire_numbers(&mut self) {
        self.desk.dirty.owners(self.networks.take_starved());
        self.desk.dirty.connects(self.connects.without_key());
        let zones = Zones { nodes: &self.nodes, reports: &self.zone_reports };
        self.numbers.expire(zones, &mut self.connects, &mut self.desk);
    }

    /// Tells connections what has changed around them.
    pub(super) fn connects_look_around(&mut self) {
        let reach = self.desk.dirty.take_reach();
        let (connects, around, _, desk) = self.connects();
        connects.look_around(reach, &around, &mut desk.dirty);
    }

    pub(super) fn nad_deleted(&mut self, key: &ObjectKey) {
        let Some(gone) = self.attachments.deleted(key, &mut self.desk) else { return };
        if let Some(network) = &gone.network {
            self.detach(key, network);
        }
        self.attachment_changed(key, gone.controller.as_deref(), gone.primary);
    }

    /// Everything that may see the attachment differently now. Only a primary network concerns more than the attachment's own.
    fn attachment_changed(&mut self, key: &ObjectKey, controller: Option<&str>, primary: bool) {
        let dirty = &mut self.desk.dirty;
        dirty.owners_in(self.owners.concerned_by(key, controller, primary), &key.namespace);
        self.pods.wake(&Wait::Nad(key.clone()), dirty);
        if primary {
            dirty.nads(self.attachments.next_primaries(&key.namespace).cloned());
            dirty.reach_namespace(&key.namespace);
            dirty.endpoint_slices(self.mirrors.in_namespace(&key.namespace));
            self.pods.wake(&Wait::Namespace(key.namespace.clone()), dirty);
        }
    }

    /// Looks at an attachment, and at everybody whom a new verdict concerns.
    pub(super) fn settle_nad(&mut self, key: &ObjectKey) {
        let Some(before) = self.attachments.verdict(key).cloned() else { return };
        let controller = self.attachments.controller(key).map(str::to_owned);
        let verdict = self.admit(key);
        if verdict != before {
            if let Verdict::Accepted(network) = &before {
                self.detach(key, network);
            }
            let primary = self.accept(key, &verdict);
            self.attachment_changed(key, controller.as_deref(), primary);
        }
        let owner = controller.and_then(|uid| self.owners.with_uid(&uid).cloned());
        self.desk.dirty.owners_in(owner.clone(), &key.namespace);
        let writes = &mut self.desk.writes;
        match &verdict {
            Verdict::Accepted(network) if owner.is_none() => {
                let state = self.networks.get(network);
                state.into_iter().for_each(|state| self.attachments.number(key, state, writes));
            }
            Verdict::Refused(trouble) | Verdict::Second(trouble) => {
                self.attachments.warn(key, trouble, writes);
            }
            // It was left behind by a custom resource that is gone, or claims to be rendered from one.
            Verdict::Stale if owner.is_none() && self.pods.users(key).is_none() => {
                self.attachments.take_away(key, writes);
            }
            _ => {}
        }
    }

    /// What the attachment is. A network that is written by hand and new gets its numbers here.
    fn admit(&mut self, key: &ObjectKey) -> Verdict {
        match self.admission().answer(key) {
            Answer::Known(verdict) => verdict,
            Answer::Runs(verdict, trouble) => {
                self.attachments.warn(key, &trouble, &mut self.desk.writes);
                verdict
            }
            Answer::Asks(network) => {
                let name = network.name.clone();
                match self.register(*network, &Source::Nad(key.clone())) {
                    Ok(()) => Verdict::Accepted(name),
                    Err(trouble) => Verdict::Refused(trouble),
                }
            }
        }
    }

    /// The attachment is this from now on. The answer is whether its namespace may see its primary network differently.
    fn accept(&mut self, key: &ObjectKey, verdict: &Verdict) -> bool {
        let network = if let Verdict::Accepted(network) = verdict { Some(network) } else { None };
        let is_primary = network.is_some_and(|network| self.networks.is_primary(network));
        let primary = self.attachments.set_verdict(key, verdict.clone(), is_primary);
        if let Some(network) = network {
            self.networks.attach(network, key);
            let (pods, around, desk) = self.pods();
            pods.adopt_users(key, around, &mut desk.dirty);
        }
        primary
    }

    /// A network that no custom resource has goes with its last attachment.
    fn detach(&mut self, key: &ObjectKey, network: &NetworkName) {
        if self.networks.detach(network, key) {
            self.numbers.quarantine(network, &mut self.connects, &mut self.desk.writes);
            self.end_network(network);
            self.pods.forget_holds(key);
            // Whoever was refused because of the network as it was is looked at again.
            self.desk.dirty.nads(self.attachments.naming(network).cloned());
        }
    }
}
