//! How many addresses are in use: for metrics, and for a network's status.

use std::collections::BTreeMap;
use std::fmt;

use causeway_types::{NetworkId, NodeId};

use super::Pods;
use super::pools::Pool;
use crate::keys::PoolKey;
use crate::networks::{NetworkState, Networks};

/// More than so many addresses are as good as no limit, as an IPv6 subnet has them.
const MANY: u64 = 10_000_000;

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
pub(crate) struct Room {
    used: u64,
    /// Of the largest pool, then of all.
    total: u64,
    /// Whether each node has a part.
    parted: bool,
}

/// How near the end of its addresses a network is, on some node at least.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Fullness {
    /// There is room.
    Roomy,
    /// Nine of ten are given out.
    Nearly,
    Full,
}

impl Room {
    fn add(mut self, key: PoolKey, pool: &Pool) -> Self {
        let used = count(pool.used());
        self.used += used;
        self.total = self.total.max(used.saturating_add(count(pool.free())));
        self.parted = key.node.is_some();
        self
    }

    /// The same with the parts of so many nodes, also those that no pod has drawn from.
    fn on(self, nodes: usize) -> Self {
        let parts = if self.parted { count(nodes) } else { 1 };
        Self { total: self.total.saturating_mul(parts).max(self.used), ..self }
    }
}

/// For people.
impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.total {
            MANY.. => write!(f, "{}/many", self.used),
            total => write!(f, "{}/{total}", self.used),
        }
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

impl Pods {
    /// What all pools of a network have; nothing if no pod has drawn from it.
    fn drawn(&self, network: NetworkId) -> Option<Room> {
        let mut pools = self.pools.of(network).peekable();
        pools.peek()?;
        Some(pools.fold(Room::default(), |room, (key, pool)| room.add(*key, pool)))
    }

    /// How many pods have an address of a network, and how many could, with as many nodes as there may be: a node that comes or goes
    /// writes nothing on networks.
    pub(crate) fn room(&self, network: &NetworkState, most_nodes: u32) -> Option<Room> {
        let room = match self.drawn(network.id()) {
            Some(room) => room,
            None => empty(network)?,
        };
        let most = u128::from(most_nodes);
        let parts = network.parts().map_or(1, |parts| parts.capacity().min(most));
        Some(room.on(usize::try_from(parts).unwrap_or(usize::MAX)))
    }

    /// How near the end of its addresses a network is.
    pub(crate) fn fullness(&self, network: NetworkId) -> Fullness {
        let of = |pool: &Pool| match (pool.free(), pool.is_nearly_full()) {
            (0, true) => Fullness::Full,
            (_, true) => Fullness::Nearly,
            (_, false) => Fullness::Roomy,
        };
        self.pools.of(network).map(|(_, pool)| of(pool)).max().unwrap_or(Fullness::Roomy)
    }
}

/// The room of a network that no pod has drawn from yet: any node's part is like the others.
fn empty(network: &NetworkState) -> Option<Room> {
    let node = network.parts().map(|_| NodeId::FIRST);
    let pool = match network.parts() {
        Some(parts) => Pool::of_node(&parts.of(NodeId::FIRST).ok()?),
        None => Pool::of_network(network.intent()),
    };
    Some(Room::default().add(PoolKey { network: network.id(), node }, &pool.ok()?))
}

impl Pods {
    /// How many addresses are in use, of the networks whose pools may have changed since this was asked last; nothing of those that no
    /// pod draws from any more.
    pub(crate) fn moved_addresses(
        &mut self,
        nodes: usize,
        networks: &Networks,
    ) -> BTreeMap<NetworkId, Option<AddressUse>> {
        let all = std::mem::replace(&mut self.counted_nodes, nodes) != nodes;
        let moved = self.pools.take_moved(all);
        let line = |id: NetworkId| {
            let Room { used, total, .. } = self.drawn(id)?.on(nodes);
            let network = networks.with_id(id);
            let network =
                network.map_or_else(|| "default".to_owned(), |state| state.intent().name.to_string());
            Some(AddressUse { network, used, total })
        };
        moved.into_iter().map(|id| (id, line(id))).collect()
    }
}
