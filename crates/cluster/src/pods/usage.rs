//! How many addresses are in use, for metrics.

use std::collections::BTreeMap;

use causeway_types::NetworkId;

use super::Pods;
use crate::Manager;
use crate::keys::PoolKey;

/// How many pods a network has room for. A pod counts once, however many addresses it has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AddressUse {
    /// The network's name.
    pub network: String,
    /// Pods that have an address.
    pub used: u64,
    /// Pods that could have one: of a network with a part for each node, on the nodes that there are.
    pub total: u64,
}

/// One pool, or all pools of a network.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    used: u64,
    /// Of the largest pool.
    total: u64,
    /// Whether each node has a part.
    parted: bool,
}

impl Pods {
    fn rooms(&self) -> BTreeMap<NetworkId, Room> {
        let mut used: BTreeMap<PoolKey, u64> = BTreeMap::new();
        for key in self.all.values().flat_map(|pod| pod.holds.values()) {
            *used.entry(*key).or_default() += 1;
        }
        let mut rooms: BTreeMap<NetworkId, Room> = BTreeMap::new();
        for (key, free) in self.pools.free() {
            let used = used.get(&key).copied().unwrap_or_default();
            let room = rooms.entry(key.network).or_default();
            room.used += used;
            room.total = room.total.max(used.saturating_add(free));
            room.parted = key.node.is_some();
        }
        rooms
    }
}

impl Manager {
    /// How many addresses are in use, of the networks that a pod has ever drawn from. It looks at every pod.
    pub fn addresses(&self) -> Vec<AddressUse> {
        let nodes = u64::try_from(self.nodes.len()).unwrap_or(u64::MAX);
        let line = |(id, room): (NetworkId, Room)| AddressUse {
            network: self
                .networks
                .with_id(id)
                .map_or_else(|| "default".to_owned(), |state| state.intent().name.to_string()),
            used: room.used,
            total: if room.parted { room.total.saturating_mul(nodes) } else { room.total },
        };
        self.pods.rooms().into_iter().map(line).collect()
    }
}
