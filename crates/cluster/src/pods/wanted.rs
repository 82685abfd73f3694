//! Which networks a pod is to be attached to, and what it asks for there.

use std::collections::BTreeMap;

use causeway_api::annotations::{
    Attachment, DefaultNetworkRequest, NetworkSelection, PodNetworks, PodRole, RequestedIp, keys,
};
use causeway_api::crd::Topology;
use causeway_api::nad;
use causeway_record::{ObjectKey, Pod};
use causeway_types::{NadKey, NamespaceName, NetworkName, ObjectName};
use ipnet::IpNet;

use super::pools::Asked;
use crate::Config;
use crate::attachments::{Attachments, Verdict};
use crate::keys::Wait;
use crate::namespaces::Namespaces;
use crate::networks::{NetworkState, Networks};
use crate::owners::Owners;
use crate::trouble::Trouble;
use crate::zone_reports::ZoneReports;

/// One attachment that a pod is to have.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) attachment: Attachment,
    /// The network; the default one has no name here.
    pub(super) network: Option<NetworkName>,
    pub(super) role: PodRole,
    pub(super) asked: Asked,
}

/// Why a pod gets nothing now.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    /// What the pod is told; nothing where it is only a matter of moments.
    pub(super) trouble: Option<Trouble>,
    /// What it waits for, if waiting helps: any of these.
    pub(super) waits: Vec<Wait>,
}

impl Refusal {
    pub(super) fn told(trouble: Trouble, wait: Option<Wait>) -> Self {
        Self { trouble: Some(trouble), waits: wait.into_iter().collect() }
    }

    pub(super) fn silent(wait: Wait) -> Self {
        Self { trouble: None, waits: vec![wait] }
    }

    pub(super) fn text(message: impl Into<String>) -> Self {
        Self::told(Trouble::new("InvalidRequest", message), None)
    }
}

/// One attachment that a pod is to have: on the first of these networks that has room.
pub(super) type Choice = Vec<Wanted>;

/// What pods can be attached to.
pub(super) struct Offer<'a> {
    pub(super) config: &'a Config,
    pub(super) namespaces: &'a Namespaces,
    pub(super) attachments: &'a Attachments,
    pub(super) networks: &'a Networks,
    pub(super) owners: &'a Owners,
    pub(super) zone_reports: &'a ZoneReports,
}

impl Offer<'_> {
    /// The attachments of a pod, the default network first.
    pub(super) fn wanted_of(&self, pod: &Pod, current: &PodNetworks) -> Result<Vec<Choice>, Refusal> {
        let namespace = &pod.key.namespace;
        if !self.namespaces.contains(namespace) {
            return Err(Refusal::silent(Wait::Namespace(namespace.clone())));
        }
        let request = pod.default_network.clone().map_err(Refusal::text)?;
        let mut wanted = if self.namespaces.is_labelled(namespace) {
            self.segmented(pod, current, request)?
        } else {
            vec![vec![default_network(PodRole::Primary, self.asked_of_default(request)?)]]
        };
        wanted.extend(self.secondary(pod)?.into_iter().map(|one| vec![one]));
        Ok(wanted)
    }

    /// A primary network of a labelled namespace, and the default network for the platform's use.
    fn segmented(
        &self,
        pod: &Pod,
        current: &PodNetworks,
        request: Option<DefaultNetworkRequest>,
    ) -> Result<Vec<Choice>, Refusal> {
        let namespace = &pod.key.namespace;
        let wait = || Some(Wait::Namespace(namespace.clone()));
        if let Some(flag) = self.config.features.without_networks() {
            let message =
                format!("the namespace asks for a user-defined network, and they are switched off ({flag})");
            return Err(Refusal::told(Trouble::new("FeatureDisabled", message), wait()));
        }
        // A pod never moves: whatever its primary network is, and whether it is still there, it gets no other.
        if current.0.values().any(|entry| entry.role == Some(PodRole::Primary)) {
            return Ok(Vec::new());
        }
        // Any kubelet can make a mirror pod in any namespace: a node in wrong hands would be in every network.
        if pod.static_pod.is_some() && !self.namespaces.allows_static_pods(namespace) {
            let message = format!(
                "static pods get no address on the primary network of namespace {namespace}: run the pod by a controller, or \
                 have an administrator label the namespace {}",
                keys::STATIC_PODS_LABEL
            );
            return Err(Refusal::told(Trouble::new("StaticPodRefused", message), wait()));
        }
        let primary = self.primary_choice(pod, request)?;
        Ok(vec![vec![default_network(PodRole::InfrastructureLocked, Asked::default())], primary])
    }

    fn asked_of_default(&self, request: Option<DefaultNetworkRequest>) -> Result<Asked, Refusal> {
        let Some(asked) = self.preconfigured(request)? else { return Ok(Asked::default()) };
        if !asked.addresses.is_empty() {
            return Err(Refusal::text(
                "the cluster's default network gives out addresses itself: remove ips from v1.multus-cni.io/default-network",
            ));
        }
        Ok(asked)
    }

    pub(super) fn asked_of_primary(
        &self,
        network: &NetworkName,
        topology: Topology,
        request: Option<DefaultNetworkRequest>,
    ) -> Result<Asked, Refusal> {
        let Some(asked) = self.preconfigured(request)? else { return Ok(Asked::default()) };
        if !asked.addresses.is_empty() && topology != Topology::Layer2 {
            return Err(Refusal::text(format!(
                "static addresses need a primary Layer2 network, and network {network} is {topology:?}: remove ips from \
                 v1.multus-cni.io/default-network"
            )));
        }
        Ok(asked)
    }

    fn preconfigured(&self, request: Option<DefaultNetworkRequest>) -> Result<Option<Asked>, Refusal> {
        let Some(DefaultNetworkRequest(selection)) = request else { return Ok(None) };
        if !self.config.features.preconfigured_addresses {
            return Err(Refusal::text(
                "static addresses are switched off in this cluster (--enable-preconfigured-udn-addresses=false): remove \
                 v1.multus-cni.io/default-network",
            ));
        }
        if let Some(claim) = &selection.ipam_claim_reference {
            return Err(Refusal::text(format!(
                "IPAMClaim {claim}: claims are not supported yet; remove ipam-claim-reference"
            )));
        }
        Ok(Some(asked(&selection)))
    }

    /// Why an attachment takes no more pods, if it is on its way out: its network, itself, or its namespace's part in it.
    pub(super) fn leaving(&self, nad: &ObjectKey, network: &NetworkName) -> Option<Trouble> {
        let going = self.networks.get(network).is_none_or(NetworkState::is_going);
        let deleted = self.attachments.get(nad).is_none_or(|record| record.deleting);
        let owner = self.attachments.owner(nad, self.owners);
        let deselected = owner.is_some_and(|owner| !self.owners.admits(owner, &nad.namespace));
        let why = match (going, deleted, deselected) {
            (true, ..) => "is being deleted".to_owned(),
            (_, true, _) => format!("leaves namespace {}: its attachment is being deleted", nad.namespace),
            (.., true) => format!("does not select namespace {} any more", nad.namespace),
            _ => return None,
        };
        Some(Trouble::new("NetworkDeleting", format!("network {network} {why}: it takes no more pods")))
    }

    /// The networks that the pod itself asks for. Those of other plugins are theirs.
    fn secondary(&self, pod: &Pod) -> Result<Vec<Wanted>, Refusal> {
        let requested = pod.requested.clone().map_err(Refusal::text)?.unwrap_or_default();
        let mut repeats: BTreeMap<ObjectKey, u32> = BTreeMap::new();
        let mut wanted = Vec::new();
        for selection in requested.0 {
            let namespace = selection.namespace.clone().unwrap_or_else(|| pod.key.namespace.clone());
            let nad = ObjectKey { namespace, name: selection.name.to_string() };
            let Some(network) = self.selected(pod, &nad)? else { continue };
            let repeat = repeats.entry(nad.clone()).or_default();
            let key = nad_key(&nad, *repeat)
                .ok_or_else(|| Refusal::text(format!("NAD {nad} has no usable name")))?;
            *repeat += 1;
            let asked = self.asked_of_secondary(&network, &selection)?;
            let (attachment, role) = (Attachment::Nad(key), PodRole::Secondary);
            wanted.push(Wanted { attachment, network: Some(network), role, asked });
        }
        Ok(wanted)
    }

    /// The network of an attachment that a pod asks for, if it is one of ours and the pod may have it.
    fn selected(&self, pod: &Pod, nad: &ObjectKey) -> Result<Option<NetworkName>, Refusal> {
        let wait = || Some(Wait::Nad(nad.clone()));
        // Whatever is in another namespace: whether it is there, and what it is, is not this pod's to learn.
        let is_ours = |nad: &causeway_record::Nad| {
            !matches!(nad.attachment, nad::Attachment::Foreign | nad::Attachment::Unreadable(_))
        };
        if nad.namespace != pod.key.namespace && self.attachments.get(nad).is_none_or(is_ours) {
            let message = format!(
                "networks of namespace {} are for its own pods: pod {} cannot attach to {nad}",
                nad.namespace, pod.key
            );
            return Err(Refusal::told(Trouble::new("InvalidRequest", message), wait()));
        }
        let Some((record, verdict)) = self.attachments.get(nad).zip(self.attachments.verdict(nad)) else {
            let message = format!("NetworkAttachmentDefinition {nad} is not there");
            return Err(Refusal::told(Trouble::new("NotFound", message), wait()));
        };
        let network = match (verdict, &record.attachment) {
            (Verdict::Accepted(network), _) => network.clone(),
            (Verdict::Foreign, nad::Attachment::Foreign | nad::Attachment::Unreadable(_)) => return Ok(None),
            (Verdict::Refused(trouble) | Verdict::Second(trouble), _) => {
                return Err(Refusal::told(trouble.clone(), wait()));
            }
            _ => return Err(Refusal::silent(Wait::Nad(nad.clone()))),
        };
        if self.networks.is_primary(&network) {
            return Err(Refusal::text(format!(
                "unexpected primary network {network} specified with a NetworkSelectionElement: remove {nad} from \
                 k8s.v1.cni.cncf.io/networks"
            )));
        }
        if let Some(trouble) = self.leaving(nad, &network) {
            return Err(Refusal::told(trouble, wait()));
        }
        Ok(Some(network))
    }

    fn asked_of_secondary(
        &self,
        network: &NetworkName,
        selection: &NetworkSelection,
    ) -> Result<Asked, Refusal> {
        let asked = asked(selection);
        let managed = self.networks.get(network).is_some_and(|state| state.intent().ipam);
        if managed && !asked.addresses.is_empty() {
            return Err(Refusal::text(format!(
                "secondary network {network} gives out addresses itself: remove ips from k8s.v1.cni.cncf.io/networks"
            )));
        }
        Ok(asked)
    }
}

fn default_network(role: PodRole, asked: Asked) -> Wanted {
    Wanted { attachment: Attachment::Default, network: None, role, asked }
}

fn asked(selection: &NetworkSelection) -> Asked {
    let net = |ip: &RequestedIp| match ip {
        RequestedIp::Net(net) => *net,
        RequestedIp::Address(address) => IpNet::from(*address),
    };
    Asked { addresses: selection.ips.iter().map(net).collect(), mac: selection.mac }
}

pub(super) fn nad_key(nad: &ObjectKey, repeat: u32) -> Option<NadKey> {
    Some(NadKey::of(&nad.namespace, &ObjectName::new(nad.name.clone()).ok()?, repeat))
}

/// The attachment that an entry of a pod's annotation is about; none for the default network.
pub(super) fn nad_of(attachment: &Attachment) -> Option<ObjectKey> {
    let Attachment::Nad(key) = attachment else { return None };
    let namespace = NamespaceName::new(key.namespace()).ok()?;
    Some(ObjectKey { namespace, name: key.nad().to_owned() })
}
