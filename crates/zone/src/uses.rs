//! What networks are used for on this node and on others: by pods of their own, or by those of networks that they are connected with.

use std::collections::BTreeSet;

use causeway_types::{NetworkName, NodeName};

use super::connect::ConnectInfo;
use super::connects::member_changed;
use super::usage::Use;
use super::{Change, Changes, Zone};

/// What a connection makes of a network here: its use as a whole, whether it is a destination, and whether it is one by this connection.
pub(super) type Used = (Use, bool, bool);

impl Zone {
    /// How a network is used here, with or without a connection.
    pub(super) fn use_by(&self, connect: Option<&ConnectInfo>, network: &NetworkName) -> Used {
        let reached = connect.is_some_and(|info| self.is_reached(info, network));
        (self.use_here(network), self.is_destination(network), reached)
    }

    /// Whether a network is used as a whole on a node: by its own pods, or by those of a network that it is connected with. By
    /// compact connections these need no more of it than a stub.
    pub(super) fn use_of(&self, network: &NetworkName, node: &NodeName) -> Use {
        let own = self.usage.of(network, node);
        let mut whole = self.connects_of(network).filter(|info| !info.has_stubs());
        if own == Use::Used || whole.any(|info| self.is_reached_from(info, network, node)) {
            return Use::Used;
        }
        let unreadable =
            self.networks.id(network).is_some_and(|id| self.connects.unreadable.contains_key(&id));
        if unreadable || self.connects.opaque > 0 || self.connects.awaited { Use::Unknown } else { own }
    }

    pub(super) fn use_here(&self, network: &NetworkName) -> Use {
        self.use_of(network, &self.config.node)
    }

    /// Whether pods of a network are on this node; those of others may need it here as well.
    pub fn use_by_own_pods(&self, network: &NetworkName) -> Use {
        self.usage.of(network, &self.config.node)
    }

    /// Whether pods of this node reach a network by compact connections: what is needed of it is the way to other nodes.
    pub(super) fn is_destination(&self, network: &NetworkName) -> bool {
        let mut compact = self.connects_of(network).filter(|info| info.has_stubs());
        compact.any(|info| self.is_reached_from(info, network, &self.config.node))
    }

    /// Whether pods of this node reach a network by a connection.
    pub fn is_reached(&self, connect: &ConnectInfo, network: &NetworkName) -> bool {
        self.is_reached_from(connect, network, &self.config.node)
    }

    fn is_reached_from(&self, connect: &ConnectInfo, network: &NetworkName, node: &NodeName) -> bool {
        let mut others = self.members(connect).filter(|peer| *peer != network);
        others.any(|peer| self.usage.of(peer, node) == Use::Used)
    }

    /// Networks that are connected, or no longer: pods of one of them may be a use of the others.
    pub(super) fn uses_changed(&self, networks: BTreeSet<&NetworkName>, changes: &mut Changes) {
        for network in networks.into_iter().filter(|_| self.usage.counts()) {
            self.rendering_changed(network, changes);
        }
    }

    /// Whether a network is rendered here may have changed, and with it all that it has in connections.
    pub(super) fn rendering_changed(&self, network: &NetworkName, changes: &mut Changes) {
        changes.add(Change::Network(network.clone()));
        self.connects_of(network).for_each(|info| member_changed(info, network, changes));
    }
}
