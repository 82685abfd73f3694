//! Which endpoints are served. Whoever may write EndpointSlices must not aim his service at others: their pods, routers or
//! nodes. An endpoint counts if it is a pod of the slice's own namespace, by reference and address or, without a reference, by its
//! address alone; or a pod on a node itself that really runs there. Any other address counts only if nobody in the cluster has it that the network reaches. The default
//! network's services are served by zones, which judge alike; here their users are told.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;

use causeway_record::{Endpoint, ObjectKey, Pod, Regarding};
use causeway_types::{Cidr, Family, NamespaceName, NetworkName};

use super::kept::{Content, Kept, Source};
use super::settle::{Around, Scene, Served};
use super::{Mirrors, slice_target};
use crate::networks::NetworkState;
use crate::pods::{PodAddresses, Pods};
use crate::trouble::LISTED;
use crate::writes::Writes;

/// Events about slices with endpoints that are not served.
const ENDPOINT_NOT_SERVED: &str = "EndpointNotServed";

/// What an endpoint is.
pub(super) enum Serving<'a> {
    Served(Cow<'a, Endpoint>),
    /// It waits for a pod that has no address yet, or is gone: a matter of moments.
    Absent,
    /// It is not served, and somebody should know: its address.
    Skipped(IpAddr),
}

impl Scene<'_> {
    /// An endpoint on a user-defined network, where its pod has another address.
    pub(super) fn serving_of<'a>(
        &self,
        namespace: &NamespaceName,
        networks: &[Served<'_>],
        family: Family,
        endpoint: &'a Endpoint,
        reached: &[Cidr],
    ) -> Serving<'a> {
        let Some((pod, reference)) = endpoint.pod(namespace) else {
            let has = |nad, address| self.around.pods.has_at(namespace, Some(nad), address);
            let own = |address| networks.iter().any(|(nad, _)| has(*nad, address));
            return by_address(family, endpoint, |address| self.is_taken(reached, address) && !own(address));
        };
        let Some(found) = self.around.pods.addresses(&pod) else { return Serving::Absent };
        // Another pod may have the name by now, and what a finished pod had may be somebody else's.
        if !reference.means(&found.pod.uid) || found.pod.finished {
            return Serving::Absent;
        }
        if found.pod.host_network {
            return by_address(family, endpoint, |address| !self.is_at_host(found.pod, reached, address));
        }
        let served = |nad: &ObjectKey| {
            self.around.attachments.network_of(nad).is_some_and(|own| is_one_of(networks, own))
        };
        let own = found.primary.filter(|(nad, _)| served(nad));
        let address =
            own.and_then(|(_, addresses)| addresses.iter().find(|address| Family::of(address) == family));
        address.map_or(Serving::Absent, |address| Serving::Served(Cow::Owned(endpoint.at(address))))
    }

    /// An endpoint on the default network.
    fn serving_by_default<'a>(
        &self,
        key: &ObjectKey,
        source: &Source,
        endpoint: &'a Endpoint,
    ) -> Serving<'a> {
        let own = |address: IpAddr| match endpoint.pod(&key.namespace) {
            Some((pod, _)) => {
                self.around.pods.addresses(&pod).is_some_and(|found| self.is_of_pod(&found, address))
            }
            None => self.around.pods.has_at(&key.namespace, None, address),
        };
        let api = key.namespace.as_str() == "default" && source.service == "kubernetes";
        by_address(source.family, endpoint, |address| {
            let at_node = self.around.nodes.addresses().is_settled(address) && !api;
            (self.around.cluster.is_internal(address) || at_node) && !own(address)
        })
    }

    fn is_of_pod(&self, found: &PodAddresses<'_>, address: IpAddr) -> bool {
        match found.pod.host_network {
            true => self.is_at_host(found.pod, &[], address),
            false => found.has_by_default(address),
        }
    }

    /// Whether an address is one of the node's on which a pod runs. A kubelet that names what is a network's makes it no node's.
    fn is_at_host(&self, pod: &Pod, reached: &[Cidr], address: IpAddr) -> bool {
        let of_networks = self.around.cluster.is_internal(address)
            || reached.iter().any(|cidr| cidr.contains_address(address));
        let its = |node| self.around.nodes.addresses().is_of(node, address);
        !of_networks && pod.node.as_ref().is_some_and(its)
    }

    /// Whether an address is somebody's whom pods of the network reach: the cluster's own, a node's, or in one of these subnets.
    fn is_taken(&self, reached: &[Cidr], address: IpAddr) -> bool {
        self.around.cluster.is_internal(address)
            || self.around.nodes.addresses().is_settled(address)
            || reached.iter().any(|cidr| cidr.contains_address(address))
    }

    /// The subnets of networks, of those that they are connected with, and of the links between them. Networks that they are not
    /// connected with may have the addresses of whatever is outside.
    pub(super) fn reached(&self, networks: &[Served<'_>]) -> Vec<Cidr> {
        let (mut ids, mut links) = (BTreeSet::new(), Vec::new());
        for (_, network) in networks {
            let (across, between) = self.around.connects.across(network);
            ids.extend(across);
            links.extend(between);
        }
        let own = networks.iter().filter_map(|(_, network)| self.around.networks.get(network));
        let connected = ids.iter().filter_map(|id| self.around.networks.with_id(*id)).chain(own);
        let subnets = connected.map(NetworkState::intent).flat_map(|intent| {
            let join = intent.effective_join_subnets(self.around.cluster);
            let transit = intent.effective_transit_subnets(self.around.cluster);
            intent.pod_cidrs().chain(join).chain(transit).collect::<Vec<_>>()
        });
        subnets.chain(links).collect()
    }

    /// What is to be said of a slice's endpoints that are not served.
    fn skipped(&self, key: &ObjectKey) -> Option<(Regarding, String)> {
        let Kept { uid, content: Content::Source(source), deleting: false, .. } =
            self.mirrors.all.get(key)?
        else {
            return None;
        };
        let networks = self.served_networks(key);
        let reached = self.reached(&networks);
        let skipped = source.endpoints.iter().filter_map(|endpoint| {
            let serving = match networks.as_slice() {
                [_, ..] => self.serving_of(&key.namespace, &networks, source.family, endpoint, &reached),
                [] if self.around.namespaces.is_labelled(&key.namespace) => return None,
                [] => self.serving_by_default(key, source, endpoint),
            };
            if let Serving::Skipped(address) = serving { Some(address.to_string()) } else { None }
        });
        let skipped: Vec<String> = skipped.take(LISTED).collect();
        let (api_version, kind) = slice_target(key).kind.api_version_and_kind();
        let (namespace, name, uid) = (Some(key.namespace.to_string()), key.name.clone(), uid.clone());
        let message = format!(
            "endpoints are not served: {}. They are addresses inside of the cluster, and not those of the pod that targetRef names \
             or, without it, of any pod of namespace {}",
            skipped.join(", "),
            key.namespace
        );
        (!skipped.is_empty()).then_some((Regarding { api_version, kind, namespace, name, uid }, message))
    }
}

fn is_one_of(networks: &[Served<'_>], own: &NetworkName) -> bool {
    networks.iter().any(|(_, network)| *network == own)
}

/// Judges an endpoint by its addresses: one that is refused refuses all.
fn by_address(family: Family, endpoint: &Endpoint, refused: impl Fn(IpAddr) -> bool) -> Serving<'_> {
    match endpoint.addresses(family).find(|address| refused(*address)) {
        Some(address) => Serving::Skipped(address),
        None => Serving::Served(Cow::Borrowed(endpoint)),
    }
}

impl Mirrors {
    /// Says of a slice which of its endpoints are not served, if that is news.
    pub(super) fn tell_skipped(&mut self, key: &ObjectKey, around: Around<'_>, writes: &mut Writes) {
        let skipped = self.seen_in(around).skipped(key);
        let said = self.skipped.remove(key);
        let Some((regarding, message)) = skipped else { return };
        self.skipped.insert(key.clone(), message.clone());
        if said.as_ref() != Some(&message) {
            writes.warn(regarding, ENDPOINT_NOT_SERVED, message);
        }
    }

    /// Notes whether a slice has endpoints that are judged by their address.
    pub(super) fn note_by_address(&mut self, key: &ObjectKey, pods: &Pods) {
        let source = match self.all.get(key) {
            Some(Kept { content: Content::Source(source), .. }) => Some(source),
            _ => None,
        };
        let by_address = |endpoint: &Endpoint| match endpoint.pod(&key.namespace) {
            None => true,
            Some((pod, _)) => pods.addresses(&pod).is_some_and(|found| found.pod.host_network),
        };
        match source.is_some_and(|source| source.endpoints.iter().any(by_address)) {
            true => drop(self.by_address.insert(key.clone())),
            false => drop(self.by_address.remove(key)),
        }
    }
}
