//! Networks that exist: what they are, and which of them cannot live side by side.

mod clashes;

use std::collections::{BTreeMap, BTreeSet};

use causeway_alloc::HostSubnets;
use causeway_api::annotations::{Annotation, TunnelKeys, keys};
use causeway_api::crd::Topology;
use causeway_api::intent::{ClusterConfig, Network, PodSubnet, Problem};
use causeway_api::nad::{Attachment, CniConfig, read};
use causeway_record::{Nad, ObjectKey, Texts};
use causeway_types::{NetworkId, NetworkName, NodeName};

use crate::OwnerKey;
use crate::desk::Desk;
use crate::nodes::{Nodes, host_ranges};
use crate::numbers::{Numbers, Source};
use crate::trouble::Trouble;
use clashes::Clashes;

/// All networks but the default one.
#[derive(Debug, Default)]
pub(crate) struct Networks {
    all: BTreeMap<NetworkName, NetworkState>,
    by_id: BTreeMap<NetworkId, NetworkName>,
    /// Who waits for a number.
    starved: BTreeSet<OwnerKey>,
    clashes: Clashes,
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

    /// Makes a network exist, or grow. It gets its numbers when it is new. The answer is its number, if it was there and is another
    /// one now.
    pub(crate) fn register(
        &mut self,
        intent: Network,
        source: &Source,
        numbers: &mut Numbers,
        desk: &mut Desk,
    ) -> Result<Option<NetworkId>, Trouble> {
        let parts = parts(&intent)?;
        desk.dirty.reach_network(&intent.name);
        if self.all.contains_key(&intent.name) {
            return Ok(self.change(intent, parts));
        }
        let (id, keys) = numbers.give(&intent, source, desk.now_ms)?;
        let (owner, nads) = (source.owner().cloned(), BTreeSet::new());
        self.insert(NetworkState { intent, id, keys, parts, owner, nads, going: false });
        Ok(None)
    }

    /// Forgets a network that is gone; the answer is its number and its attachments. Its numbers are released or quarantined
    /// by whoever calls.
    pub(crate) fn unregister(&mut self, name: &NetworkName) -> Option<(NetworkId, BTreeSet<ObjectKey>)> {
        self.remove(name).map(|state| (state.id, state.nads))
    }

    /// Subnets that are new must not have addresses of nodes; what runs goes on running.
    pub(crate) fn check_underlay(&self, wanted: &Network, nodes: &Nodes) -> Result<(), Trouble> {
        let known = self.get(&wanted.name).map(|state| &state.intent.subnets);
        let is_new = |subnet: &&PodSubnet| known.is_none_or(|known| !known.contains(subnet));
        let fresh =
            Network { subnets: wanted.subnets.iter().filter(is_new).copied().collect(), ..wanted.clone() };
        fresh.underlay_overlap(nodes.own_addresses()).map_or(Ok(()), |problem| Err(problem.into()))
    }

    /// Why a network cannot live beside another one that is older.
    pub(crate) fn clash_of(&self, name: &NetworkName) -> Option<&Problem> {
        self.clashes.of(name)
    }

    /// What a network is meant to be, for whoever may clash with it.
    pub(crate) fn claim(&mut self, name: &NetworkName, wanted: Option<(i64, &Network)>) {
        self.clashes.set(name, wanted);
    }

    /// Finds out which networks cannot live side by side; the answer is for which that changed.
    pub(crate) fn find_clashes<'a>(
        &mut self,
        nodes: impl Iterator<Item = &'a NodeName>,
        nodes_changed: bool,
    ) -> BTreeSet<NetworkName> {
        if nodes_changed {
            self.clashes.nodes_changed();
        }
        self.clashes.settle(nodes)
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

fn parts(intent: &Network) -> Result<Option<HostSubnets>, Trouble> {
    if intent.topology != Topology::Layer3 {
        return Ok(None);
    }
    HostSubnets::new(host_ranges(&intent.subnets))
        .map(Some)
        .map_err(|error| Trouble::new("UnusableSubnet", format!("network {}: {error}", intent.name)))
}
