//! The numbers that networks and connections have: network ids, and tunnel keys of routers, which both draw from one range.

use causeway_alloc::{
    Claim, Cleared, Epoch, Error, IdRecord, KeyOwner, LostId, NetworkIds, Reuse, TunnelKeys,
};
use causeway_types::{ConnectName, DatapathKey, NetworkId, NetworkName};

/// Networks that say to have an id.
pub(crate) type IdClaims = Vec<Claim<NetworkName, NetworkId>>;
/// Routers that say to have a tunnel key.
pub(crate) type KeyClaims = Vec<Claim<KeyOwner, DatapathKey>>;

/// Who has which number.
#[derive(Debug, Default)]
pub(super) struct Given {
    ids: NetworkIds,
    keys: TunnelKeys,
}

impl Given {
    /// Takes up the numbers that are in use; freed ones are not given out.
    pub(super) fn restore(&mut self, ids: IdClaims, keys: KeyClaims, freed: &Reuse) {
        report(&self.ids.restore(ids, &freed.network_ids));
        report(&self.keys.restore(keys, &freed.tunnel_keys));
    }

    /// Freed numbers: network ids and tunnel keys.
    pub(super) fn freed(&self) -> (IdRecord, IdRecord) {
        (self.ids.record(), self.keys.record())
    }

    /// All zones have cleared what these epochs list.
    pub(super) fn expire(&mut self, cleared: &Cleared) {
        self.ids.expire(cleared);
        self.keys.expire(cleared);
    }

    /// Whether any number is freed that somebody may still use.
    pub(super) fn any_rests(&self) -> bool {
        self.ids.any_rests() || self.keys.any_rests()
    }

    /// A network's id.
    pub(super) fn id_of(&self, network: &NetworkName) -> Option<NetworkId> {
        self.ids.id_of(network)
    }

    /// Whether a network has an id.
    pub(super) fn has_id(&self, network: &NetworkName) -> bool {
        self.ids.id_of(network).is_some()
    }

    pub(super) fn give_id(&mut self, network: &NetworkName) -> Result<NetworkId, Error> {
        let id = self.ids.reserve(network)?;
        self.ids.commit(network);
        Ok(id)
    }

    /// The tunnel key of a network's transit router.
    pub(super) fn give_router_key(&mut self, network: &NetworkName) -> Result<DatapathKey, Error> {
        self.give_key(&transit(network))
    }

    fn give_key(&mut self, owner: &KeyOwner) -> Result<DatapathKey, Error> {
        let key = self.keys.reserve(owner)?;
        self.keys.commit(owner);
        Ok(key)
    }

    /// Lists the numbers of a network as freed.
    pub(super) fn quarantine(&mut self, network: &NetworkName, epoch: Epoch) {
        self.ids.quarantine(network, epoch);
        self.keys.quarantine(&transit(network), epoch);
    }

    /// Whether a network has any number.
    pub(super) fn has_any(&self, network: &NetworkName) -> bool {
        self.has_id(network) || self.keys.id_of(&transit(network)).is_some()
    }

    /// The numbers of a network belong to nobody any more.
    pub(super) fn release(&mut self, network: &NetworkName) {
        self.ids.release(network);
        self.keys.release(&transit(network));
    }

    /// The tunnel key of a connection's router.
    pub(super) fn connect_key(&self, connect: &ConnectName) -> Option<DatapathKey> {
        self.keys.id_of(&router(connect))
    }

    /// Gives a connection's router the key that it carries.
    pub(super) fn keep_connect_key(&mut self, connect: &ConnectName, key: DatapathKey) -> Result<(), Error> {
        self.keys.request(&router(connect), key)?;
        self.keys.commit(&router(connect));
        Ok(())
    }

    /// Gives a connection's router a new key.
    pub(super) fn give_connect_key(&mut self, connect: &ConnectName) -> Result<DatapathKey, Error> {
        self.give_key(&router(connect))
    }

    /// Lists the key of a connection's router as freed.
    pub(super) fn quarantine_connect(&mut self, connect: &ConnectName, epoch: Epoch) {
        self.keys.quarantine(&router(connect), epoch);
    }

    /// The key of a connection's router belongs to nobody any more.
    pub(super) fn release_connect(&mut self, connect: &ConnectName) {
        self.keys.release(&router(connect));
    }
}

/// Who has the key of a network's transit router.
pub(crate) fn transit(network: &NetworkName) -> KeyOwner {
    KeyOwner::TransitRouter(network.clone())
}

/// Who has the key of a connection's router.
pub(crate) fn router(connect: &ConnectName) -> KeyOwner {
    KeyOwner::ConnectRouter(connect.clone())
}

fn report<O: std::fmt::Display, N: std::fmt::Display>(lost: &[LostId<O, N>]) {
    for lost in lost {
        tracing::warn!(owner = %lost.owner, number = %lost.id, error = %lost.error, "a number cannot be kept");
    }
}
