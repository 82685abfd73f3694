//! Who is behind an endpoint. Whoever may write EndpointSlices must not aim his service at others: their pods, routers or nodes.
//!
//! Mirrors are the cluster manager's word, and it has judged their addresses; here only roads are looked at, which may be newer
//! than a mirror. On the default network an endpoint counts if it has the address of the pod that it names, in the slice's own
//! namespace; if it names none, and a pod of that namespace has the address; or if nobody in the cluster has it. So of every pod of
//! the default network its address is kept, under a mark that stands for its name, and a mark of its namespace with the address:
//! less than a hundred bytes each.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use causeway_api::annotations::{Attachment, PodRole};
use causeway_record::{self as record, ObjectKey};
use causeway_types::{Cidr, NamespaceName, NetworkName, NodeName};
use sha2::{Digest as _, Sha256};

use super::service::{EndpointInfo, SliceInfo};
use super::{Change, Changes, Zone};

/// Stands for a pod's name, or for an address in a namespace. So long that nobody finds a name with the mark of somebody else's.
pub(super) type Mark = [u8; 12];

pub(super) fn mark(pod: &ObjectKey) -> Mark {
    mark_of(&pod.to_string())
}

/// No namespace has a space in its name.
fn mark_at(namespace: &NamespaceName, address: IpAddr) -> Mark {
    mark_of(&format!("{namespace} {address}"))
}

fn mark_of(text: &str) -> Mark {
    let hash = Sha256::digest(text);
    let mut mark = Mark::default();
    mark.copy_from_slice(&hash[..12]);
    mark
}

/// What a pod has, for services of the default network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Own {
    /// Addresses on the default network.
    Addresses(Option<Ipv4Addr>, Option<Ipv6Addr>),
    /// Those of its node.
    Host(Arc<NodeName>),
}

impl Own {
    fn of(pod: &record::Pod) -> Option<Self> {
        let node = pod.node.as_ref().filter(|_| !pod.finished)?;
        if pod.host_network {
            return Some(Self::Host(Arc::new(node.clone())));
        }
        let networks = pod.networks.as_ref().ok()?.as_ref()?;
        let entry = networks.0.get(&Attachment::Default)?;
        if entry.role == Some(PodRole::InfrastructureLocked) {
            return None;
        }
        let (mut v4, mut v6) = (None, None);
        for net in &entry.ip_addresses {
            match net.addr() {
                IpAddr::V4(address) => v4 = Some(address),
                IpAddr::V6(address) => v6 = Some(address),
            }
        }
        Some(Self::Addresses(v4, v6))
    }

    /// Addresses that are this pod's alone; those of its node are others' too.
    fn addresses(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let (v4, v6) = match self {
            Self::Addresses(v4, v6) => (*v4, *v6),
            Self::Host(_) => (None, None),
        };
        v4.map(IpAddr::V4).into_iter().chain(v6.map(IpAddr::V6))
    }
}

/// Pods that endpoints of the default network may be.
#[derive(Debug, Default)]
pub(super) struct Behind {
    pods: HashMap<Mark, Own>,
    /// How many pods of a namespace have an address: two while a pod follows another.
    addresses: HashMap<Mark, u32>,
}

impl Behind {
    fn count(&mut self, namespace: &NamespaceName, address: IpAddr) {
        *self.addresses.entry(mark_at(namespace, address)).or_default() += 1;
    }

    fn discount(&mut self, namespace: &NamespaceName, address: IpAddr) {
        let mark = mark_at(namespace, address);
        if let Some(count) = self.addresses.get_mut(&mark) {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&mark);
            }
        }
    }

    /// Puts what a pod has in place of what it had, and gives all addresses of both.
    fn set(&mut self, key: &ObjectKey, mark: Mark, own: Option<Own>) -> Vec<IpAddr> {
        let new: Vec<IpAddr> = own.iter().flat_map(Own::addresses).collect();
        let old = match own {
            Some(own) => self.pods.insert(mark, own),
            None => self.pods.remove(&mark),
        };
        let old: Vec<IpAddr> = old.iter().flat_map(Own::addresses).collect();
        new.iter().for_each(|address| self.count(&key.namespace, *address));
        old.iter().for_each(|address| self.discount(&key.namespace, *address));
        old.into_iter().chain(new).collect()
    }
}

impl Zone {
    /// Takes in what a pod has, or that it is gone. Endpoints that name it or have its address are judged anew, those of its own
    /// namespace: nobody else's can be this pod.
    pub(super) fn set_behind(&mut self, key: &ObjectKey, pod: Option<&record::Pod>) -> Changes {
        let (mark, own) = (mark(key), pod.and_then(Own::of));
        let mut changes = Changes::default();
        if self.behind.pods.get(&mark) == own.as_ref() {
            return changes;
        }
        let addresses = self.behind.set(key, mark, own);
        let is_it = |one: &EndpointInfo| match one.pod {
            Some(pod) => pod == mark,
            None => addresses.contains(&one.address),
        };
        for service in self.services.naming(&key.namespace, is_it) {
            changes.add(Change::Endpoints { service, network: self.default.clone() });
        }
        changes
    }

    /// Addresses of nodes have changed: endpoints that have them are judged anew, and services that say to be reached there.
    pub(super) fn nodes_moved(&self, addresses: &BTreeSet<IpAddr>, changes: &mut Changes) {
        if addresses.is_empty() {
            return;
        }
        for service in self.services.having(|one| addresses.contains(&one.address)) {
            changes.add(Change::Endpoints { service, network: self.default.clone() });
        }
        for service in self.services.claiming(addresses) {
            changes.add(Change::Service(service));
        }
    }

    /// Roads of some networks have changed: endpoints outside of them are judged anew, but for those in other primary networks of the
    /// namespace, which are served whatever roads there are. Networks may share their namespaces: each of these is looked at once.
    pub(super) fn roads_moved<'a>(
        &'a self,
        networks: impl Iterator<Item = &'a NetworkName> + Clone,
        changes: &mut Changes,
    ) {
        let entries = networks.clone().filter_map(|network| self.networks.get(network));
        let texts: BTreeSet<&str> =
            entries.flat_map(|entry| entry.nads()).map(|nad| nad.namespace()).collect();
        for namespace in texts.into_iter().filter_map(|text| NamespaceName::new(text).ok()) {
            let primaries = self.primary_names(&namespace);
            let outside = |one: &EndpointInfo| !primaries.iter().any(|own| self.is_in(own, one.address));
            let own: BTreeSet<&NetworkName> = self.nads.networks_in(&namespace).collect();
            let here: Vec<&NetworkName> = networks.clone().filter(|network| own.contains(network)).collect();
            for service in self.services.naming(&namespace, outside) {
                for network in here.iter().copied().cloned() {
                    changes.add(Change::Endpoints { service: service.clone(), network });
                }
            }
        }
    }

    /// Whether an endpoint of a service on a network is sent to.
    pub fn is_served(
        &self,
        service: &ObjectKey,
        network: &NetworkName,
        slice: &SliceInfo,
        one: &EndpointInfo,
    ) -> bool {
        let address = one.address;
        if slice.mirror().is_some() {
            let own =
                self.is_in(network, address) || self.is_at_sibling(&service.namespace, network, address);
            return own || !self.is_across(network, address);
        }
        // The API server says itself where it is, and that may be a node.
        let api = service.namespace.as_str() == "default" && service.name == "kubernetes";
        let outside =
            !self.config.cluster.is_internal(address) && (api || !self.node_addresses.is_settled(address));
        outside
            || match one.pod {
                Some(pod) => self.is_behind(pod, address),
                None => self.behind.addresses.contains_key(&mark_at(&service.namespace, address)),
            }
    }

    fn is_behind(&self, pod: Mark, address: IpAddr) -> bool {
        match (self.behind.pods.get(&pod), address) {
            (Some(Own::Addresses(v4, _)), IpAddr::V4(address)) => *v4 == Some(address),
            (Some(Own::Addresses(_, v6)), IpAddr::V6(address)) => *v6 == Some(address),
            // A kubelet that names what is the cluster's own makes it no node's.
            (Some(Own::Host(node)), address) => {
                !self.config.cluster.is_internal(address) && self.node_addresses.is_of(node, address)
            }
            (None, _) => false,
        }
    }

    /// Whether an address is in a network's pod subnets.
    pub(super) fn is_in(&self, network: &NetworkName, address: IpAddr) -> bool {
        let legs = self.active(network).into_iter().flat_map(|net| &net.legs);
        legs.flat_map(|leg| &leg.subnets).any(|subnet| subnet.contains_address(address))
    }

    /// Whether an address is in the pod subnets of another primary network of a namespace.
    pub fn is_at_sibling(&self, namespace: &NamespaceName, network: &NetworkName, address: IpAddr) -> bool {
        let primaries = self.primaries(namespace);
        let mut others = primaries.iter().filter(|(_, other)| *other != network);
        others.any(|(_, other)| self.is_in(other, address))
    }

    /// Whether an address is behind one of a network's roads: a pod's, or a link's.
    fn is_across(&self, network: &NetworkName, address: IpAddr) -> bool {
        let links = self.connects_of(network).flat_map(|info| info.places.values().flatten());
        self.peers(network).any(|peer| self.is_in(peer, address))
            || links.flat_map(|place| place.blocks()).any(|block: Cidr| block.contains_address(address))
    }
}
