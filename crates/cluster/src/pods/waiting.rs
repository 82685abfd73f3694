//! Pods without addresses, and what they wait for.

use std::collections::BTreeSet;

use causeway_record::ObjectKey;
use causeway_types::{NetworkId, NodeName};

use super::Pods;
use super::state::PodState;
use crate::dirty::Dirty;
use crate::keys::{PoolKey, Wait};
use crate::networks::{NetworkState, Networks};

impl Pods {
    /// How many pods wait for something.
    pub(crate) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// Pods of a node that wait for anything.
    pub(crate) fn waiting_on(&self, node: &NodeName) -> impl Iterator<Item = ObjectKey> {
        let waiting = self.waiting.values().flatten().map(|(_, pod)| pod);
        let here = |pod: &&ObjectKey| {
            self.all.get(*pod).is_some_and(|state| state.record.node.as_ref() == Some(node))
        };
        waiting.filter(here).cloned()
    }

    fn waiting_in_pools(&self, network: NetworkId) -> impl Iterator<Item = &ObjectKey> {
        let first = Wait::Pool(PoolKey { network, node: None });
        let mine = move |wait: &Wait| matches!(wait, Wait::Pool(key) if key.network == network);
        let waits = self.waiting.range(first..).take_while(move |(wait, _)| mine(wait));
        waits.flat_map(|(_, pods)| pods.iter().map(|(_, pod)| pod))
    }

    /// Pods that wait for an address of a network.
    pub(crate) fn waiting_for_network(&self, network: NetworkId) -> impl Iterator<Item = ObjectKey> {
        self.waiting_in_pools(network).cloned()
    }

    /// How many pods wait for an address of a network that has none left, and one of them.
    pub(crate) fn without_address(&self, network: NetworkId) -> Option<(usize, &ObjectKey)> {
        let starves = |pod: &&ObjectKey| self.all.get(*pod).is_some_and(|state| state.starves);
        let mut pods = self.waiting_in_pools(network).filter(starves);
        let first = pods.next()?;
        Some((pods.count() + 1, first))
    }

    /// The pod waits for any of these.
    pub(super) fn wait(&mut self, key: &ObjectKey, waits: Vec<Wait>) {
        let Some(state) = self.all.get_mut(key) else { return };
        let place = (state.record.created, key.clone());
        if !waits.is_empty() {
            self.waiters.insert(key.clone());
        }
        for wait in waits {
            self.waiting.entry(wait.clone()).or_default().insert(place.clone());
            state.waits.insert(wait);
        }
    }

    /// The pod waits no longer; the answer is what it has waited for.
    fn wait_no_more(&mut self, key: &ObjectKey) -> BTreeSet<Wait> {
        let Some(state) = self.all.get_mut(key) else { return BTreeSet::new() };
        let place = (state.record.created, key.clone());
        let waits = std::mem::take(&mut state.waits);
        self.waiters.remove(key);
        for wait in &waits {
            if let Some(pods) = self.waiting.get_mut(wait) {
                pods.remove(&place);
                if pods.is_empty() {
                    self.waiting.remove(wait);
                }
            }
        }
        waits
    }

    /// As many as there are places, for many may wait. Who waits for an address that is still somebody else's takes nobody's
    /// place.
    pub(super) fn next_for(&mut self, key: PoolKey) -> Vec<ObjectKey> {
        let Some(pool) = self.pools.get(key) else { return Vec::new() };
        let asks = |pod: &ObjectKey| self.all.get(pod).map(PodState::asked_addresses).unwrap_or_default();
        let waiting = self.waiting.get(&Wait::Pool(key)).into_iter().flatten().map(|(_, pod)| pod);
        waiting.filter(|pod| pool.may_serve(&asks(pod))).take(pool.free()).cloned().collect()
    }
}

impl Pods {
    pub(super) fn stop_waiting(&mut self, key: &ObjectKey, networks: &Networks, dirty: &mut Dirty) {
        for wait in self.wait_no_more(key) {
            pool_waits(&wait, networks, dirty);
        }
    }

    /// A place was taken or given back; that shows where few are left.
    pub(super) fn place_moved(&self, key: PoolKey, networks: &Networks, dirty: &mut Dirty) {
        let Some(pool) = self.pools.get(key) else { return };
        let owner = networks.with_id(key.network).and_then(NetworkState::owner);
        if let Some(owner) = owner {
            dirty.status_later(owner);
        }
        // One more or one less may be the one that counts.
        if pool.is_nearly_full_with(pool.free().saturating_sub(1)) {
            pool_waits(&Wait::Pool(key), networks, dirty);
        }
    }

    /// Everybody who waits for this is tried again.
    pub(crate) fn wake(&self, wait: &Wait, dirty: &mut Dirty) {
        let pods = self.waiting.get(wait).into_iter().flatten();
        dirty.pods(pods.map(|(_, pod)| pod.clone()));
    }
}

/// Who waits for an address shows in the network's status.
pub(super) fn pool_waits(wait: &Wait, networks: &Networks, dirty: &mut Dirty) {
    let Wait::Pool(key) = wait else { return };
    let network = networks.with_id(key.network);
    dirty.statuses(network.and_then(NetworkState::owner).cloned());
}
