//! Numbers: who has which network id and tunnel key, how many a namespace may have, and which ones nobody may have yet.

mod budget;
mod fences;
mod freed;
mod given;

use std::collections::BTreeMap;

use causeway_alloc::{Epoch, Error};
use causeway_api::annotations::TunnelKeys;
use causeway_api::crd::Topology;
use causeway_api::intent::Network;
use causeway_types::{ConnectName, DatapathKey, NetworkId, NetworkName, NodeName};

pub(crate) use budget::Source;
pub(crate) use given::{IdClaims, KeyClaims, router, transit};

use crate::Config;
use crate::dirty::Dirty;
use crate::trouble::Trouble;
use budget::Budgets;
use fences::Waiting;
use freed::Freed;
use given::Given;

/// There is no number left for anybody.
pub(crate) const NUMBERS_EXHAUSTED: &str = "NetworkNumbersExhausted";

/// All numbers, and what is recorded of them.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// Where freed numbers are recorded.
    namespace: String,
    /// After how long nobody waits for a node any more.
    fence_after_ms: i64,
    /// Whether everything that holds a number is known.
    started: bool,
    given: Given,
    budgets: Budgets,
    freed: Freed,
    /// Nodes that freed numbers wait for, as of the last look.
    waiting: BTreeMap<NodeName, Waiting>,
}

impl Numbers {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            namespace: config.namespace.clone(),
            fence_after_ms: config.fence_after_ms,
            started: false,
            given: Given::default(),
            budgets: Budgets::default(),
            freed: Freed::default(),
            waiting: BTreeMap::new(),
        }
    }

    /// Takes up what objects carry and what was recorded before.
    pub(crate) fn start(&mut self, ids: IdClaims, keys: KeyClaims) {
        let recorded = self.freed.start();
        self.given.restore(ids, keys, &recorded);
        self.budgets.restore(&recorded.payers);
        self.started = true;
    }

    /// Whether a network has an id.
    pub(crate) fn has_id(&self, network: &NetworkName) -> bool {
        self.given.has_id(network)
    }

    /// The numbers of a new network, which are the same ones if it has some already.
    pub(crate) fn give(
        &mut self,
        intent: &Network,
        source: &Source,
        now_ms: i64,
    ) -> Result<(NetworkId, TunnelKeys), Trouble> {
        let name = &intent.name;
        let starve =
            |error: Error| Trouble::new(NUMBERS_EXHAUSTED, format!("network {name} gets no number: {error}"));
        if !self.given.has_id(name) {
            self.budgets.ask(source, now_ms)?;
        }
        let id = self.given.give_id(name).map_err(starve)?;
        self.budgets.hold(source, name);
        // Only a primary layer2 network has a router of its own that needs a key.
        if intent.topology != Topology::Layer2 || !intent.is_primary() {
            return Ok((id, TunnelKeys(None)));
        }
        let router = self.given.give_router_key(name).map_err(starve)?;
        Ok((id, TunnelKeys(Some([DatapathKey::of_network(id), router]))))
    }

    /// The numbers of a network belong to nobody any more.
    pub(crate) fn release(&mut self, network: &NetworkName) {
        self.given.release(network);
        self.budgets.leave(network);
    }

    /// Whoever has waited for his namespace's budget is looked at again.
    pub(crate) fn wake_by_budget(&mut self, now_ms: i64, dirty: &mut Dirty) {
        for source in self.budgets.next(now_ms) {
            match source {
                Source::Owner(owner) => dirty.owners([owner]),
                Source::Nad(nad) => dirty.nads([nad]),
            }
        }
    }

    /// The tunnel key of a connection's router.
    pub(crate) fn connect_key(&self, connect: &ConnectName) -> Option<DatapathKey> {
        self.given.connect_key(connect)
    }

    /// Gives a connection's router the key that it carries.
    pub(crate) fn keep_connect_key(&mut self, connect: &ConnectName, key: DatapathKey) -> Result<(), Error> {
        self.given.keep_connect_key(connect, key)
    }

    /// Gives a connection's router a new key.
    pub(crate) fn give_connect_key(&mut self, connect: &ConnectName) -> Result<DatapathKey, Error> {
        self.given.give_connect_key(connect)
    }

    /// Lists the key of a connection's router as freed.
    pub(crate) fn quarantine_connect(&mut self, connect: &ConnectName, epoch: Epoch) {
        self.given.quarantine_connect(connect, epoch);
    }

    /// The key of a connection's router belongs to nobody any more.
    pub(crate) fn release_connect(&mut self, connect: &ConnectName) {
        self.given.release_connect(connect);
    }
}
