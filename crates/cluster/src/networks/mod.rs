//! Networks that exist: what they are, their numbers, and which of them cannot live side by side.

mod budget;
mod clashes;
mod numbers;

use std::collections::{BTreeMap, BTreeSet};

use causeway_alloc::HostSubnets;
use causeway_api::annotations::{Annotation, TunnelKeys, keys};
use causeway_api::crd::Topology;
use causeway_api::intent::{ClusterConfig, Network};
use causeway_api::nad::{Attachment, CniConfig, read};
use causeway_record::{Nad, ObjectKey, Texts};
use causeway_types::{DatapathKey, NetworkId, NetworkName};

pub(crate) use budget::{Budgets, Source};
pub(crate) use clashes::Clashes;
pub(crate) use numbers::{IdClaims, KeyClaims, Numbers, router, transit};

use crate::nodes::host_ranges;
use crate::trouble::Trouble;
use crate::{Manager, OwnerKey};

/// There is no number left for anybody.
pub(crate) const NUMBERS_EXHAUSTED: &str = "NetworkNumbersExhausted";

/// All networks but the default one.
#[derive(Debug, Default)]
pub(crate) struct Networks {
    all: BTreeMap<NetworkName, NetworkState>,
    by_id: BTreeMap<NetworkId, NetworkName>,
    /// Who waits for a number.
    starved: BTreeSet<OwnerKey>,
}

/// A network that exists.
#[derive(Debug)]
pub(crate) struct NetworkState {
    /// As its attachments say it.
    intent: Network,
    id: NetworkId,
    keys: TunnelKeys,
    /// Of a layer3 network, its parts.
    parts: Option<HostSubnets>,
    owner: Option<OwnerKey>,
    nads: BTreeSet<ObjectKey>,
    /// Whether it is going: it takes no more pods.
    going: bool,
}

impl NetworkState {
    /// The network as its attachments say it.
    pub(crate) fn intent(&self) -> &Network {
        &self.intent
    }

    pub(crate) fn id(&self) -> NetworkId {
        self.id
    }

    /// The parts that nodes have of a layer3 network.
    pub(crate) fn parts(&self) -> Option<&HostSubnets> {
        self.parts.as_ref()
    }

    /// The custom resource that it comes from.
    pub(crate) fn owner(&self) -> Option<&OwnerKey> {
        self.owner.as_ref()
    }

    /// The attachments that have been accepted as this network.
    pub(crate) fn nads(&self) -> &BTreeSet<ObjectKey> {
        &self.nads
    }

    /// Whether it is going: it takes no more pods.
    pub(crate) fn is_going(&self) -> bool {
        self.going
    }

    /// What its attachments carry.
    pub(crate) fn annotations(&self) -> Texts {
        Texts::from([
            (keys::NETWORK_NAME.to_owned(), self.intent.name.to_string()),
            (NetworkId::KEY.to_owned(), self.id.text()),
            (TunnelKeys::KEY.to_owned(), self.keys.text()),
        ])
    }
}

impl Networks {
    /// Whether the network has other subnets than its attachment says.
    pub(crate) fn has_grown(&self, nad: &Nad) -> bool {
        let Attachment::Ours(written) = &nad.attachment else { return false };
        self.get(&written.name).is_some_and(|state| state.intent().subnets != written.subnets)
    }

    /// How people are told of a network.
    pub(crate) fn text(&self, id: NetworkId) -> String {
        match self.with_id(id) {
            Some(network) => format!("network {}", network.intent().name),
            None => "the default network".to_owned(),
        }
    }

    pub(crate) fn get(&self, name: &NetworkName) -> Option<&NetworkState> {
        self.all.get(name)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &NetworkName> {
        self.all.keys()
    }

    /// The network with a number; the default one is not among them.
    pub(crate) fn with_id(&self, id: NetworkId) -> Option<&NetworkState> {
        self.by_id.get(&id).and_then(|name| self.all.get(name))
    }

    /// Whether the network is primary for pods.
    pub(crate) fn is_primary(&self, name: &NetworkName) -> bool {
        self.all.get(name).is_some_and(|state| state.intent.is_primary())
    }

    /// The owners of networks that nodes have parts of.
    pub(crate) fn owners_of_parted(&self) -> impl Iterator<Item = OwnerKey> {
        let parted = self.all.values().filter(|network| network.parts.is_some());
        parted.filter_map(|network| network.owner.clone())
    }

    /// An attachment has been accepted as the network.
    pub(crate) fn attach(&mut self, name: &NetworkName, nad: &ObjectKey) {
        if let Some(state) = self.all.get_mut(name) {
            state.nads.insert(nad.clone());
        }
    }

    /// An attachment is the network's no longer. The answer is whether the network goes with it: it was the last, and no
    /// custom resource has the network.
    pub(crate) fn detach(&mut self, name: &NetworkName, nad: &ObjectKey) -> bool {
        let Some(state) = self.all.get_mut(name) else { return false };
        state.nads.remove(nad);
        state.nads.is_empty() && state.owner.is_none()
    }

    /// The network takes no more pods. The answer is its number, if that is new.
    pub(crate) fn set_going(&mut self, name: &NetworkName) -> Option<NetworkId> {
        let state = self.all.get_mut(name).filter(|state| !state.going)?;
        state.going = true;
        Some(state.id)
    }

    /// An owner waits for a number.
    pub(crate) fn starve(&mut self, owner: &OwnerKey) {
        self.starved.insert(owner.clone());
    }

    /// An owner waits no longer.
    pub(crate) fn feed(&mut self, owner: &OwnerKey) {
        self.starved.remove(owner);
    }

    /// Everybody who waits for a number, once.
    pub(crate) fn take_starved(&mut self) -> BTreeSet<OwnerKey> {
        std::mem::take(&mut self.starved)
    }

    /// The network is another one than before, with the same numbers. The answer is its number, if something is new.
    fn change(&mut self, intent: Network, parts: Option<HostSubnets>) -> Option<NetworkId> {
        let state = self.all.get_mut(&intent.name).filter(|state| state.intent != intent)?;
        (state.intent, state.parts) = (intent, parts);
        Some(state.id)
    }

    fn insert(&mut self, state: NetworkState) {
        self.by_id.insert(state.id, state.intent.name.clone());
        self.all.insert(state.intent.name.clone(), state);
    }

    fn remove(&mut self, name: &NetworkName) -> Option<NetworkState> {
        let state = self.all.remove(name)?;
        self.by_id.remove(&state.id);
        Some(state)
    }
}

/// The network as its attachments say it, with everything written out. So what a custom resource means and what an
/// attachment says can be compared.
pub(crate) fn canonical(network: &Network, cluster: &ClusterConfig) -> Result<Network, Trouble> {
    let nad = "any/any";
    match read(nad, Some(&CniConfig::of(network, nad, cluster).text())) {
        Attachment::Ours(network) => Ok(*network),
        Attachment::Malformed(problem) => Err(problem.into()),
        Attachment::Foreign | Attachment::Unreadable(_) => {
            Err(Trouble::new("InvalidSpec", format!("network {} cannot be rendered", network.name)))
        }
    }
}

impl Manager {
    /// Makes a network exist, or grow. It gets its numbers when it is new.
    pub(crate) fn register(&mut self, intent: Network, source: &Source) -> Result<(), Trouble> {
        let name = intent.name.clone();
        let parts = parts(&intent)?;
        self.dirty.reach_network(&name);
        if self.networks.get(&name).is_some() {
            if let Some(id) = self.networks.change(intent, parts) {
                self.dirty.pods(self.pods.waiting_for_network(id));
                self.dirty.endpoint_slices(self.mirrors.by_address());
            }
            return Ok(());
        }
        let starve = |error: causeway_alloc::Error| {
            Trouble::new(NUMBERS_EXHAUSTED, format!("network {name} gets no number: {error}"))
        };
        self.ask_budget(source, &name)?;
        let id = self.numbers.give_id(&name).map_err(starve)?;
        self.budgets.hold(source, &name);
        let keys = tunnel_keys(&mut self.numbers, &intent, id).map_err(starve)?;
        self.networks.insert(NetworkState {
            intent,
            id,
            keys,
            parts,
            owner: source.owner().cloned(),
            nads: BTreeSet::new(),
            going: false,
        });
        Ok(())
    }

    /// Forgets a network that is gone. Its numbers are released or quarantined by whoever calls.
    pub(crate) fn unregister(&mut self, name: &NetworkName) {
        self.dirty.reach_network(name);
        if let Some(state) = self.networks.remove(name) {
            self.pods.forget_network(state.id, &state.nads);
            self.dirty.pods(self.pods.waiting_for_network(state.id));
            self.dirty.nads(state.nads);
        }
    }

    /// Finds out which networks cannot live side by side, and has those looked at for which that changed.
    pub(crate) fn find_clashes(&mut self, networks: &BTreeSet<NetworkName>, nodes: bool) {
        if nodes {
            self.clashes.nodes_changed();
        }
        for name in networks {
            let owned = self.owners.meant(name);
            let wanted = owned.or_else(|| self.attachments.written_by_hand(name, &self.namespaces));
            self.clashes.set(name, wanted);
        }
        for name in self.clashes.settle(self.nodes.names()) {
            self.dirty.owners(self.owners.of_network(&name).cloned());
            self.dirty.nads(self.attachments.naming(&name).cloned());
        }
    }
}

/// Only a primary layer2 network has a router of its own that needs a key.
fn tunnel_keys(
    numbers: &mut Numbers,
    intent: &Network,
    id: NetworkId,
) -> Result<TunnelKeys, causeway_alloc::Error> {
    if intent.topology != Topology::Layer2 || !intent.is_primary() {
        return Ok(TunnelKeys(None));
    }
    let router = numbers.give_router_key(&intent.name)?;
    Ok(TunnelKeys(Some([DatapathKey::of_network(id), router])))
}

fn parts(intent: &Network) -> Result<Option<HostSubnets>, Trouble> {
    if intent.topology != Topology::Layer3 {
        return Ok(None);
    }
    HostSubnets::new(host_ranges(&intent.subnets))
        .map(Some)
        .map_err(|error| Trouble::new("UnusableSubnet", format!("network {}: {error}", intent.name)))
}
