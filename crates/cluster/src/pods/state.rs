//! A pod: what is known of it, what it has, and what others may know.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_alloc::AddressOwner;
use causeway_api::annotations::{Attachment, PodRole, RequestedIp};
use causeway_record::{ObjectKey, Pod, Regarding};
use causeway_types::{NamespaceName, ObjectName};
use ipnet::IpNet;

use super::wanted::nad_of;
use crate::keys::{PoolKey, Wait};

/// A pod, and what it has.
#[derive(Debug)]
pub(super) struct PodState {
    pub(super) record: Pod,
    pub(super) name: ObjectName,
    pub(super) holds: BTreeMap<Attachment, PoolKey>,
    pub(super) uses: BTreeSet<ObjectKey>,
    pub(super) waits: BTreeSet<Wait>,
    pub(super) told: Option<String>,
    /// Whether it waits because there is nothing left to give; a conflict about what it asks for is its own affair.
    pub(super) starves: bool,
    pub(super) told_of_ports: Option<String>,
    pub(super) primary: Option<Primary>,
}

/// What a pod has on its primary network, by its annotation alone.
#[derive(Debug)]
pub(super) struct Primary {
    pub(super) nad: ObjectKey,
    pub(super) addresses: Vec<IpAddr>,
}

impl Primary {
    pub(super) fn of(record: &Pod) -> Option<Self> {
        let networks = record.networks.as_ref().ok()?.as_ref()?;
        let (attachment, entry) =
            networks.0.iter().find(|(_, entry)| entry.role == Some(PodRole::Primary))?;
        let addresses = entry.ip_addresses.iter().map(IpNet::addr).collect();
        Some(Self { nad: nad_of(attachment)?, addresses })
    }
}

impl PodState {
    pub(super) fn new(record: Pod, name: ObjectName) -> Self {
        let primary = Primary::of(&record);
        Self {
            record,
            name,
            holds: BTreeMap::new(),
            uses: BTreeSet::new(),
            waits: BTreeSet::new(),
            told: None,
            told_of_ports: None,
            starves: false,
            primary,
        }
    }

    /// The attachments that the pod's annotation names, or that it was given.
    pub(super) fn attachments(&self) -> BTreeSet<ObjectKey> {
        let networks = self.record.networks.iter().flatten();
        let named = networks.flat_map(|networks| networks.0.keys());
        named.chain(self.holds.keys()).filter(|_| !self.record.finished).filter_map(nad_of).collect()
    }

    /// The addresses that the pod asks for, wherever.
    pub(super) fn asked_addresses(&self) -> Vec<IpAddr> {
        let primary = self.record.default_network.iter().flatten().map(|request| &request.0);
        let others = self.record.requested.iter().flatten().flat_map(|requested| &requested.0);
        primary.chain(others).flat_map(|selection| &selection.ips).map(RequestedIp::address).collect()
    }

    pub(super) fn regarding(&self) -> Regarding {
        let key = &self.record.key;
        Regarding {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: Some(key.namespace.to_string()),
            name: key.name.clone(),
            uid: self.record.uid.clone(),
        }
    }

    /// Who holds what the pod has on one of its attachments.
    pub(super) fn address_owner(&self, attachment: &Attachment) -> AddressOwner {
        let (namespace, name) = (self.record.key.namespace.clone(), self.name.clone());
        match attachment {
            Attachment::Default => AddressOwner::DefaultPod(namespace, name),
            Attachment::Nad(nad) => AddressOwner::Pod(namespace, name, nad.clone()),
        }
    }
}

/// The networks that services of a namespace may be on: where pods have the addresses by which endpoints without a reference
/// name them. Nothing is the default network.
pub(super) type Served = (NamespaceName, Option<ObjectKey>);

impl PodState {
    /// Where services can have the pod behind them, and at which addresses. A locked address serves nobody, and those of a node are
    /// not the pod's alone.
    pub(super) fn served(&self) -> Option<(Served, Vec<IpAddr>)> {
        let Self { record, primary, .. } = self;
        if record.finished || record.host_network || record.node.is_none() {
            return None;
        }
        let namespace = record.key.namespace.clone();
        if let Some(primary) = primary {
            return Some(((namespace, Some(primary.nad.clone())), primary.addresses.clone()));
        }
        let entry = record.networks.as_ref().ok()?.as_ref()?.0.get(&Attachment::Default)?;
        let addresses = entry.ip_addresses.iter().map(IpNet::addr).collect();
        (entry.role != Some(PodRole::InfrastructureLocked)).then_some(((namespace, None), addresses))
    }
}

/// What others may know of a pod.
#[derive(Debug)]
pub(crate) struct PodAddresses<'a> {
    /// The pod itself.
    pub(crate) pod: &'a Pod,
    /// Its attachment to its primary network, and its addresses there.
    pub(crate) primary: Option<(&'a ObjectKey, &'a [IpAddr])>,
}

impl PodAddresses<'_> {
    /// Whether the pod has an address on the default network.
    pub(crate) fn has_by_default(&self, address: IpAddr) -> bool {
        let networks = self.pod.networks.iter().flatten();
        let entry = networks.filter_map(|networks| networks.0.get(&Attachment::Default)).next();
        entry.is_some_and(|entry| entry.ip_addresses.iter().any(|net| net.addr() == address))
    }
}
