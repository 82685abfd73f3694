//! Networks that exist: their numbers, and which of them cannot live side by side.

use std::collections::{BTreeMap, BTreeSet};

use causeway_alloc::{HostSubnets, KeyOwner, NetworkIds, TunnelKeys};
use causeway_api::annotations::{self, Annotation, keys};
use causeway_api::crd::Topology;
use causeway_api::intent::{ClusterConfig, Named, Network, Problem, VrfClaim, name_clashes, vrf_clashes};
use causeway_api::nad::{Attachment, CniConfig, read};
use causeway_record::{ObjectKey, Texts};
use causeway_types::{DatapathKey, NetworkId, NetworkName, NodeName};

use crate::keys::{PoolKey, Wait};
use crate::nodes::host_ranges;
use crate::trouble::Trouble;
use crate::{Manager, OwnerKey};

/// All networks but the default one.
#[derive(Debug, Default)]
pub(crate) struct Networks {
    pub(crate) all: BTreeMap<NetworkName, NetworkState>,
    pub(crate) by_id: BTreeMap<NetworkId, NetworkName>,
    pub(crate) ids: NetworkIds,
    pub(crate) keys: TunnelKeys,
    /// Networks that are refused because of others.
    pub(crate) clashes: BTreeMap<NetworkName, Problem>,
    /// Who waits for a number.
    pub(crate) starved: BTreeSet<OwnerKey>,
    /// What zones could not do.
    pub(crate) failures: BTreeMap<NetworkName, BTreeMap<NodeName, String>>,
}

/// A network that exists.
#[derive(Debug)]
pub(crate) struct NetworkState {
    /// As its attachments say it.
    pub(crate) intent: Network,
    pub(crate) id: NetworkId,
    pub(crate) keys: annotations::TunnelKeys,
    /// Of a layer3 network, its parts.
    pub(crate) host_subnets: Option<HostSubnets>,
    pub(crate) owner: Option<OwnerKey>,
    pub(crate) nads: BTreeSet<ObjectKey>,
    /// Whether it is going: it takes no more pods.
    pub(crate) going: bool,
}

impl NetworkState {
    /// What its attachments carry.
    pub(crate) fn annotations(&self) -> Texts {
        Texts::from([
            (keys::NETWORK_NAME.to_owned(), self.intent.name.to_string()),
            (NetworkId::KEY.to_owned(), self.id.text()),
            (annotations::TunnelKeys::KEY.to_owned(), self.keys.text()),
        ])
    }
}

impl Networks {
    /// Says what a zone could not do; the answer is which networks that concerns.
    pub(crate) fn set_failures(
        &mut self,
        node: &NodeName,
        failures: BTreeMap<NetworkName, String>,
    ) -> BTreeSet<NetworkName> {
        let mut touched = BTreeSet::new();
        self.failures.retain(|network, nodes| {
            if nodes.remove(node).is_some() {
                touched.insert(network.clone());
            }
            !nodes.is_empty()
        });
        for (network, message) in failures {
            touched.insert(network.clone());
            self.failures.entry(network).or_default().insert(node.clone(), message);
        }
        touched
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
    pub(crate) fn register(&mut self, intent: Network, owner: Option<OwnerKey>) -> Result<(), Trouble> {
        let name = intent.name.clone();
        let host_subnets = host_subnets(&intent)?;
        self.dirty.reach.networks.insert(name.clone());
        if let Some(state) = self.networks.all.get_mut(&name) {
            if state.intent != intent {
                state.intent = intent;
                state.host_subnets = host_subnets;
                let id = state.id;
                self.wake_network(id);
            }
            return Ok(());
        }
        let starve = |error: causeway_alloc::Error| {
            Trouble::new("NetworkNumbersExhausted", format!("network {name} gets no number: {error}"))
        };
        let id = self.networks.ids.reserve(&name).map_err(starve)?;
        self.networks.ids.commit(&name);
        let keys = self.tunnel_keys(&intent, id).map_err(starve)?;
        let state =
            NetworkState { intent, id, keys, host_subnets, owner, nads: BTreeSet::new(), going: false };
        self.networks.by_id.insert(id, name.clone());
        self.networks.all.insert(name, state);
        Ok(())
    }

    /// Only a primary layer2 network has a router of its own that needs a key.
    fn tunnel_keys(
        &mut self,
        intent: &Network,
        id: NetworkId,
    ) -> Result<annotations::TunnelKeys, causeway_alloc::Error> {
        if intent.topology != Topology::Layer2 || !intent.is_primary() {
            return Ok(annotations::TunnelKeys(None));
        }
        let owner = KeyOwner::TransitRouter(intent.name.clone());
        let router = self.networks.keys.reserve(&owner)?;
        self.networks.keys.commit(&owner);
        Ok(annotations::TunnelKeys(Some([DatapathKey::of_network(id), router])))
    }

    /// Forgets a network that is gone. Its numbers are released or quarantined by whoever calls.
    pub(crate) fn unregister(&mut self, name: &NetworkName) {
        self.dirty.reach.networks.insert(name.clone());
        if let Some(state) = self.networks.all.remove(name) {
            self.networks.by_id.remove(&state.id);
            self.pods.pools.drop_network(state.id);
            state.nads.iter().for_each(|nad| self.forget_holds(nad));
            self.wake_network(state.id);
            self.dirty.nads.extend(state.nads);
        }
    }

    /// Pods that wait for an address of the network are tried again.
    pub(crate) fn wake_network(&mut self, id: NetworkId) {
        let first = Wait::Pool(PoolKey { network: id, node: None });
        let waits: Vec<Wait> = self
            .pods
            .waiting
            .range(first..)
            .map(|(wait, _)| wait.clone())
            .take_while(|wait| matches!(wait, Wait::Pool(key) if key.network == id))
            .collect();
        waits.iter().for_each(|wait| self.wake(wait));
    }

    /// Finds out which networks cannot live side by side, and has those looked at for which that changed.
    pub(crate) fn find_clashes(&mut self) {
        let networks = self.known_networks();
        let named: Vec<Named> = networks
            .iter()
            .map(|(created, network)| Named {
                network: network.name.clone(),
                created: *created,
                node_ports: network.topology == Topology::Layer3,
            })
            .collect();
        let nodes = self.nodes.all.keys().cloned().collect();
        let claims: Vec<VrfClaim> = networks.iter().filter_map(|(at, n)| self.vrf_claim(*at, n)).collect();
        let mut clashes: BTreeMap<NetworkName, Problem> =
            vrf_clashes(&claims).into_iter().map(|clash| (clash.younger, clash.problem)).collect();
        clashes.extend(name_clashes(&named, &nodes).into_iter().map(|clash| (clash.younger, clash.problem)));
        let before = std::mem::replace(&mut self.networks.clashes, clashes);
        let changed: Vec<NetworkName> = before
            .keys()
            .chain(self.networks.clashes.keys())
            .filter(|name| before.get(*name) != self.networks.clashes.get(*name))
            .cloned()
            .collect();
        for name in changed {
            self.look_at_network(&name);
        }
    }

    fn look_at_network(&mut self, name: &NetworkName) {
        let owner = self.owners.by_network.get(name);
        self.dirty.owners(owner.cloned());
        let nads = self.nads.hand_written.get(name).into_iter().flatten();
        self.dirty.nads.extend(nads.cloned());
    }

    /// The networks that users want, with their ages; of several attachments of one network the oldest counts.
    fn known_networks(&self) -> Vec<(i64, Network)> {
        let owned = self.owners.all.values().filter_map(|owner| {
            owner.intent.as_ref().ok().map(|intent| (owner.object.created, intent.clone()))
        });
        let own_name = |(name, _): &(&NetworkName, &BTreeSet<ObjectKey>)| !self.is_taken(name);
        let written = self.nads.hand_written.iter().filter(own_name).filter_map(|(_, nads)| {
            let oldest = nads.iter().filter_map(|key| self.nads.all.get(key));
            let oldest = oldest.min_by_key(|nad| (nad.record.created, &nad.record.key))?;
            match &oldest.record.attachment {
                Attachment::Ours(network) => Some((oldest.record.created, (**network).clone())),
                _ => None,
            }
        });
        owned.chain(written).collect()
    }

    /// A name made from an id is nobody else's, so only names that somebody chose are claimed.
    fn vrf_claim(&self, created: i64, network: &Network) -> Option<VrfClaim> {
        if !network.is_primary() {
            return None;
        }
        let vrf = network.vrf_name(NetworkId::FIRST).ok()?;
        let chosen = network.vrf_name(NetworkId::LAST).ok()? == vrf;
        chosen.then(|| VrfClaim { network: network.name.clone(), created, vrf })
    }
}

fn host_subnets(intent: &Network) -> Result<Option<HostSubnets>, Trouble> {
    if intent.topology != Topology::Layer3 {
        return Ok(None);
    }
    HostSubnets::new(host_ranges(&intent.subnets))
        .map(Some)
        .map_err(|error| Trouble::new("UnusableSubnet", format!("network {}: {error}", intent.name)))
}
