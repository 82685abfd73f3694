//! Which addresses pods of a namespace have, for endpoints that name no pod. Some thirty bytes each.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use causeway_record::ObjectKey;
use causeway_types::NamespaceName;

use super::Pods;
use super::state::{PodState, Served};
use crate::dirty::Dirty;
use crate::mirrors::Mirrors;

/// How many pods have an address: two while a pod follows another.
pub(super) type Addresses = HashMap<Served, HashMap<IpAddr, u32>>;

impl Pods {
    /// Counts a pod's addresses, or counts them no more, and gives them.
    pub(super) fn count(&mut self, key: &ObjectKey, add: bool) -> BTreeSet<IpAddr> {
        let Some((place, addresses)) = self.all.get(key).and_then(PodState::served) else {
            return BTreeSet::new();
        };
        let addresses = BTreeSet::from_iter(addresses);
        let counts = self.at.entry(place.clone()).or_default();
        for address in &addresses {
            let count = counts.entry(*address).or_default();
            *count = if add { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                counts.remove(address);
            }
        }
        if counts.is_empty() {
            self.at.remove(&place);
        }
        addresses
    }

    /// Whether a pod of a namespace has an address on its primary network, or on the default network if that is none.
    pub(crate) fn has_at(&self, namespace: &NamespaceName, nad: Option<&ObjectKey>, address: IpAddr) -> bool {
        let place = (namespace.clone(), nad.cloned());
        self.at.get(&place).is_some_and(|counts| counts.contains_key(&address))
    }
}

/// Endpoints that name a pod, or have its addresses and name nobody.
pub(super) fn look_at_endpoints(
    key: &ObjectKey,
    addresses: &BTreeSet<IpAddr>,
    mirrors: &Mirrors,
    dirty: &mut Dirty,
) {
    dirty.endpoint_slices(mirrors.of_pod(key));
    dirty.endpoint_slices(mirrors.at(&key.namespace, addresses));
}
