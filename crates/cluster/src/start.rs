//! The first look at the whole cluster: what annotations hold is taken up before anything is given out, so a restart
//! gives the same answers whatever the order of events was.

use causeway_alloc::{Claim, KeyOwner, LostId, Seniority};
use causeway_api::annotations::TunnelKeys;
use causeway_api::nad::Attachment;
use causeway_record::ObjectKey;
use causeway_types::{NetworkId, NetworkName};

use crate::dirty::Dirty;
use crate::nads::{NadState, controlled_by};
use crate::{Manager, OwnerKey};

impl Manager {
    /// Everything needed has been listed.
    pub(crate) fn start(&mut self) {
        self.dirty = Dirty::default();
        self.nodes.restore();
        self.restore_numbers();
        self.dirty.nodes.extend(self.nodes.all.keys().cloned());
        self.settle_networks();
        self.find_clashes();
        let owners: Vec<OwnerKey> = self.owners.all.keys().cloned().collect();
        owners.iter().for_each(|owner| self.keep_running(owner));
        self.nads_by_age().iter().for_each(|nad| self.settle_nad(nad));
        self.dirty.owners(owners);
        self.expire_numbers();
        self.settle_networks();
        if self.connects.listed {
            self.start_connects();
        }
        self.start_pods();
        self.start_mirrors();
    }

    /// All addresses in use are taken up before the first new one is given out, the oldest pods first.
    fn start_pods(&mut self) {
        let mut pods: Vec<(i64, ObjectKey)> =
            self.pods.all.iter().map(|(key, pod)| (pod.record.created, key.clone())).collect();
        pods.sort();
        for (_, pod) in &pods {
            if self.pods.all.get(pod).is_some_and(|state| !state.record.finished) {
                // Whoever cannot keep an address is told when it is settled.
                let _told_later = self.adopt(pod);
            }
        }
        pods.iter().for_each(|(_, pod)| self.settle_pod(pod));
    }

    /// Attachments that have numbers before those that have none, the older first: whoever is there stays.
    fn nads_by_age(&self) -> Vec<ObjectKey> {
        let mut nads: Vec<&NadState> = self.nads.all.values().collect();
        nads.sort_by_key(|nad| (!nad.record.is_numbered(), nad.record.created, nad.record.key.clone()));
        nads.into_iter().map(|nad| nad.record.key.clone()).collect()
    }

    fn restore_numbers(&mut self) {
        let remembered = self.memory.remembered.clone();
        self.memory.epoch = remembered.epoch;
        self.memory.gone = remembered.connects;
        let (mut ids, mut tunnels) = (Vec::new(), Vec::new());
        for nad in self.nads.all.values() {
            let Some(network) = self.claimed_network(nad) else { continue };
            let seniority = Seniority { finished: false, created: nad.record.created };
            if let Ok(Some(number)) = nad.record.id {
                ids.push(Claim { seniority, owner: network.clone(), number });
            }
            if let Ok(Some(TunnelKeys(Some([_, number])))) = nad.record.tunnel_keys {
                tunnels.push(Claim { seniority, owner: KeyOwner::TransitRouter(network), number });
            }
        }
        ids.extend(self.ids_in_statuses());
        let oldest = Seniority { finished: false, created: i64::MIN };
        tunnels.extend(self.connects.all.iter().filter_map(|(name, connect)| {
            let owner = KeyOwner::ConnectRouter(name.clone());
            Some(Claim { seniority: oldest, owner, number: connect.key()? })
        }));
        report(&self.networks.ids.restore(ids, &remembered.network_ids));
        report(&self.networks.keys.restore(tunnels, &remembered.tunnel_keys));
    }

    /// The network whose numbers an attachment carries.
    fn claimed_network(&self, nad: &NadState) -> Option<NetworkName> {
        match controlled_by(&nad.record) {
            Some(uid) => match self.owners.by_uid.get(uid) {
                Some(owner) => Some(owner.network()),
                None => nad.record.network.clone(),
            },
            None => match &nad.record.attachment {
                Attachment::Ours(network) => Some(network.name.clone()).filter(|name| !self.is_taken(name)),
                _ => None,
            },
        }
    }

    /// The last attachment may be gone for a moment while its object is there; the status remembers the number.
    fn ids_in_statuses(&self) -> Vec<Claim<NetworkName, NetworkId>> {
        let claim = |(key, owner): (&OwnerKey, &crate::owners::Owner)| {
            let number = NetworkId::new(owner.object.status.network_id?.into()).ok()?;
            let seniority = Seniority { finished: true, created: owner.object.created };
            Some(Claim { seniority, owner: key.network(), number })
        };
        self.owners.all.iter().filter_map(claim).collect()
    }
}

fn report<O: std::fmt::Display, N: std::fmt::Display>(lost: &[LostId<O, N>]) {
    for lost in lost {
        tracing::warn!(owner = %lost.owner, number = %lost.id, error = %lost.error, "a number cannot be kept");
    }
}
