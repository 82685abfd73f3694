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
use super::settle::{Around, Served};
use super::slice_target;
use crate::Manager;
use crate::networks::NetworkState;
use crate::pods::PodAddresses;
use crate::trouble::LISTED;

/// Events about slices with endpoints that are not served.
const ENDPOINT_NOT_SERVED: &str = "EndpointNotServed";

/// What an endpoint is.
pub(super) enum Judged<'a> {
    Served(Cow<'a, Endpoint>),
    /// It waits for a pod that has no address yet, or is gone: a matter of moments.
    Absent,
    /// It is not served, and somebody should know: its address.
    Skipped(IpAddr),
}

impl Around<'_> {
    /// An endpoint on a user-defined network, where its pod has another address.
    pub(super) fn judge<'a>(
        &self,
        namespace: &NamespaceName,
        networks: &[Served<'_>],
        family: Family,
        endpoint: &'a Endpoint,
        reached: &[Cidr],
    ) -> Judged<'a> {
        let Some((pod, reference)) = endpoint.pod(namespace) else {
            let has = |nad, address| self.pods.has_at(namespace, Some(nad), address);
            let own = |address| networks.iter().any(|(nad, _)| has(*nad, address));
            return by_address(family, endpoint, |address| self.is_taken(reached, address) && !own(address));
        };
        let Some(found) = self.pods.addresses(&pod) else { return Judged::Absent };
        // Another pod may have the name by now, and what a finished pod had may be somebody else's.
        if !reference.means(&found.pod.uid) || found.pod.finished {
            return Judged::Absent;
        }
        if found.pod.host_network {
            return by_address(family, endpoint, |address| !self.is_at_host(found.pod, reached, address));
        }
        let served =
            |nad: &ObjectKey| self.attachments.network_of(nad).is_some_and(|own| is_one_of(networks, own));
        let own = found.primary.filter(|(nad, _)| served(nad));
        let address =
            own.and_then(|(_, addresses)| addresses.iter().find(|address| Family::of(address) == family));
        address.map_or(Judged::Absent, |address| Judged::Served(Cow::Owned(endpoint.at(address))))
    }

    /// An endpoint on the default network.
    fn judge_by_default<'a>(&self, key: &ObjectKey, source: &Source, endpoint: &'a Endpoint) -> Judged<'a> {
        let own = |address: IpAddr| match endpoint.pod(&key.namespace) {
            Some((pod, _)) => self.pods.addresses(&pod).is_some_and(|found| self.is_of_pod(&found, address)),
            None => self.pods.has_at(&key.namespace, None, address),
        };
        let api = key.namespace.as_str() == "default" && source.service == "kubernetes";
        by_address(source.family, endpoint, |address| {
            let at_node = self.nodes.addresses().is_settled(address) && !api;
            (self.cluster.is_internal(address) || at_node) && !own(address)
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
        let of_networks =
            self.cluster.is_internal(address) || reached.iter().any(|cidr| cidr.contains_address(address));
        let its = |node| self.nodes.addresses().is_of(node, address);
        !of_networks && pod.node.as_ref().is_some_and(its)
    }

    /// Whether an address is somebody's whom pods of the network reach: the cluster's own, a node's, or in one of these subnets.
    fn is_taken(&self, reached: &[Cidr], address: IpAddr) -> bool {
        self.cluster.is_internal(address)
            || self.nodes.addresses().is_settled(address)
            || reached.iter().any(|cidr| cidr.contains_address(address))
    }

    /// The subnets of networks, of those that they are connected with, and of the links between them. Networks that they are not
    /// connected with may have the addresses of whatever is outside.
    pub(super) fn reached(&self, networks: &[Served<'_>]) -> Vec<Cidr> {
        let (mut ids, mut links) = (BTreeSet::new(), Vec::new());
        for (_, network) in networks {
            let (across, between) = self.connects.across(network);
            ids.extend(across);
            links.extend(between);
        }
        let own = networks.iter().filter_map(|(_, network)| self.networks.get(network));
        let connected = ids.iter().filter_map(|id| self.networks.with_id(*id)).chain(own);
        let subnets = connected.map(NetworkState::intent).flat_map(|intent| {
            let join = intent.effective_join_subnets(self.cluster);
            let transit = intent.effective_transit_subnets(self.cluster);
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
            let judged = match networks.as_slice() {
                [_, ..] => self.judge(&key.namespace, &networks, source.family, endpoint, &reached),
                [] if self.namespaces.is_labelled(&key.namespace) => return None,
                [] => self.judge_by_default(key, source, endpoint),
            };
            if let Judged::Skipped(address) = judged { Some(address.to_string()) } else { None }
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
fn by_address(family: Family, endpoint: &Endpoint, refused: impl Fn(IpAddr) -> bool) -> Judged<'_> {
    match endpoint.addresses(family).find(|address| refused(*address)) {
        Some(address) => Judged::Skipped(address),
        None => Judged::Served(Cow::Borrowed(endpoint)),
    }
}

impl Manager {
    /// Says of a slice which of its endpoints are not served, if that is news.
    pub(super) fn tell_skipped(&mut self, key: &ObjectKey) {
        let skipped = self.around_mirrors().skipped(key);
        let said = self.mirrors.skipped.remove(key);
        let Some((regarding, message)) = skipped else { return };
        self.mirrors.skipped.insert(key.clone(), message.clone());
        if said.as_ref() != Some(&message) {
            self.writes.warn(regarding, ENDPOINT_NOT_SERVED, message);
        }
    }

    /// Notes whether a slice has endpoints that are judged by their address.
    pub(super) fn note_by_address(&mut self, key: &ObjectKey) {
        let source = match self.mirrors.all.get(key) {
            Some(Kept { content: Content::Source(source), .. }) => Some(source),
            _ => None,
        };
        let by_address = |endpoint: &Endpoint| match endpoint.pod(&key.namespace) {
            None => true,
            Some((pod, _)) => self.pods.addresses(&pod).is_some_and(|found| found.pod.host_network),
        };
        match source.is_some_and(|source| source.endpoints.iter().any(by_address)) {
            true => drop(self.mirrors.by_address.insert(key.clone())),
            false => drop(self.mirrors.by_address.remove(key)),
        }
    }
}
