//! Taking networks away: never under a pod that uses them, and never with numbers that could meet somebody else.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::annotations::keys;
use causeway_record::ObjectKey;

use super::Report;
use crate::dirty::Scope;
use crate::{Manager, OwnerKey};

impl Manager {
    /// Attachments in namespaces that are not wanted any more go when no pod uses them.
    pub(super) fn withdraw(&mut self, key: &OwnerKey, scope: &Scope, report: &mut Report) {
        if self.owners.is_held(key) {
            return;
        }
        let Some(owner) = self.owners.all.get(key) else { return };
        let Some(mine) = self.attachments.rendered_from(&owner.object.uid) else { return };
        let unwanted =
            |nad: &&ObjectKey| !owner.wanted.contains(&nad.namespace) || nad.name != key.name().as_str();
        let looked_at: Vec<ObjectKey> = match scope {
            Scope::All => mine.iter().filter(unwanted).cloned().collect(),
            Scope::Namespaces(namespaces) => {
                let here = namespaces.iter().flat_map(|namespace| self.attachments.keys_in(namespace));
                here.filter(|nad| mine.contains(nad) && unwanted(&nad)).collect()
            }
        };
        for nad in looked_at {
            match self.pods.users(&nad) {
                Some(users) => {
                    report.users.insert(nad, users.clone());
                }
                None => self.remove_nad(&nad),
            }
        }
    }

    /// The object is to go: first its pods, then the record of its numbers, then its attachments, then itself.
    pub(super) fn take_away(&mut self, key: &OwnerKey) -> Report {
        self.keep_running(key);
        if let Some(id) = self.networks.set_going(&key.network()) {
            // Who waits for an address here waits for another network now.
            self.dirty.pods(self.pods.waiting_for_network(id));
            self.name_another_in_mirrors(&key.network());
        }
        let Some(owner) = self.owners.all.get(key) else { return Report::default() };
        let finalizers = owner.object.finalizers.clone();
        let mine: BTreeSet<ObjectKey> =
            self.attachments.rendered_from(&owner.object.uid).cloned().unwrap_or_default();
        let used = mine.iter().filter_map(|nad| Some((nad.clone(), self.pods.users(nad)?.clone())));
        let users: BTreeMap<ObjectKey, BTreeSet<ObjectKey>> = used.collect();
        let protected = finalizers.iter().any(|finalizer| finalizer == keys::NETWORK_FINALIZER);
        if users.is_empty() && protected && self.retire(key) {
            mine.iter().for_each(|nad| self.remove_nad(nad));
            if mine.is_empty() {
                let others = finalizers.into_iter().filter(|finalizer| finalizer != keys::NETWORK_FINALIZER);
                self.write_finalizers(key, others.collect());
            }
        }
        Report { leaving: mine, users, ..Report::default() }
    }

    /// Whether the record that lists the network's numbers as freed is written.
    fn retire(&mut self, key: &OwnerKey) -> bool {
        let known = self.owners.all.get(key).and_then(|owner| owner.retired);
        let Some(token) = known.or_else(|| self.quarantine(&key.network())) else { return true };
        if let Some(owner) = self.owners.all.get_mut(key) {
            owner.retired = Some(token);
        }
        self.freed.is_written(token)
    }
}
