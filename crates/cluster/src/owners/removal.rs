//! Taking networks away: never under a pod that uses them, and never with numbers that could meet somebody else.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::annotations::keys;
use causeway_record::ObjectKey;

use super::{Ground, Owners, Report};
use crate::OwnerKey;
use crate::attachments::Attachments;
use crate::connections::Connects;
use crate::dirty::Scope;
use crate::numbers::Numbers;
use crate::pods::Pods;
use crate::writes::Writes;

impl Owners {
    /// Attachments in namespaces that are not wanted any more go when no pod uses them.
    pub(crate) fn withdraw(
        &self,
        key: &OwnerKey,
        scope: &Scope,
        report: &mut Report,
        ground: Ground<'_>,
        writes: &mut Writes,
    ) {
        if self.is_held(key) {
            return;
        }
        let Some(owner) = self.all.get(key) else { return };
        let Some(mine) = ground.attachments.rendered_from(&owner.object.uid) else { return };
        let unwanted =
            |nad: &&ObjectKey| !owner.wanted.contains(&nad.namespace) || nad.name != key.name().as_str();
        let looked_at: Vec<ObjectKey> = match scope {
            Scope::All => mine.iter().filter(unwanted).cloned().collect(),
            Scope::Namespaces(namespaces) => {
                let here = namespaces.iter().flat_map(|namespace| ground.attachments.keys_in(namespace));
                here.filter(|nad| mine.contains(nad) && unwanted(&nad)).collect()
            }
        };
        for nad in looked_at {
            report.let_go(&nad, ground, writes);
        }
    }

    /// The object is to go: first its pods, then the record of its numbers, then its attachments, then itself.
    pub(crate) fn take_away(
        &mut self,
        key: &OwnerKey,
        (attachments, pods): (&Attachments, &Pods),
        numbers: &mut Numbers,
        connects: &mut Connects,
        writes: &mut Writes,
    ) -> Report {
        let Some(owner) = self.all.get_mut(key) else { return Report::default() };
        let finalizers = owner.object.finalizers.clone();
        let mine: BTreeSet<ObjectKey> =
            attachments.rendered_from(&owner.object.uid).cloned().unwrap_or_default();
        let used = mine.iter().filter_map(|nad| Some((nad.clone(), pods.users(nad)?.clone())));
        let users: BTreeMap<ObjectKey, BTreeSet<ObjectKey>> = used.collect();
        let protected = finalizers.iter().any(|finalizer| finalizer == keys::NETWORK_FINALIZER);
        if users.is_empty() && protected {
            owner.retired = owner.retired.or_else(|| numbers.quarantine(&key.network(), connects, writes));
            // Nothing has to be written of numbers that it does not have.
            if owner.retired.is_none_or(|record| numbers.is_written(record)) {
                mine.iter().for_each(|nad| attachments.take_away(nad, writes));
                if mine.is_empty() {
                    let others = finalizers.into_iter().filter(|one| one != keys::NETWORK_FINALIZER);
                    self.write_finalizers(key, others.collect(), writes);
                }
            }
        }
        Report { leaving: mine, users, ..Report::default() }
    }
}
