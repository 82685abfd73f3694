//! Which of its namespace's primary networks a pod gets: the oldest that has room for it, or the one that it asks for.
//!
//! It is decided once. What the pod's annotation says afterwards is not asked about again.

use std::net::IpAddr;

use causeway_api::annotations::{Attachment, DefaultNetworkRequest, PodRole, RequestedPrimary, keys};
use causeway_record::{ObjectKey, Pod};
use causeway_types::NetworkName;
use ipnet::IpNet;

use super::wanted::{Choice, Offer, Refusal, Wanted, nad_key};
use crate::keys::Wait;
use crate::trouble::{Lacks, SUBNET_EXHAUSTED, Trouble, invalid_primary_network, listed};

/// A primary network of a namespace, by its attachment.
type Primary<'a> = (&'a ObjectKey, &'a NetworkName);

impl Offer<'_> {
    /// The networks that the pod may get, in the order in which they are tried.
    pub(super) fn primary_choice(
        &self,
        pod: &Pod,
        request: Option<DefaultNetworkRequest>,
    ) -> Result<Choice, Refusal> {
        let namespace = &pod.key.namespace;
        let wait = || Wait::Namespace(namespace.clone());
        let all = self.attachments.primaries_of(namespace, self.networks, self.owners);
        if all.is_empty() {
            let trouble = invalid_primary_network(namespace.as_str(), Lacks::Network);
            return Err(Refusal::told(trouble, Some(wait())));
        }
        let mut candidates = match pod.requested_primary.clone().map_err(Refusal::text)? {
            Some(request) => vec![requested(pod, &request, &all)?],
            None => all,
        };
        candidates.sort_by_key(|(nad, network)| self.is_unfit(pod, nad, network));
        let (mut choice, mut refusals) = (Choice::new(), Vec::new());
        for (nad, network) in candidates {
            match self.primary(nad, network, request.clone()) {
                Ok(wanted) => choice.push(wanted),
                Err(refusal) => refusals.push(refusal),
            }
        }
        self.keep_those_asked_for(&mut choice);
        if choice.is_empty() { Err(all_of(refusals)) } else { Ok(choice) }
    }

    /// Whether something is wrong with the network, for the pod or at all: others are tried before it.
    fn is_unfit(&self, pod: &Pod, nad: &ObjectKey, network: &NetworkName) -> bool {
        let refused = self.attachments.owner(nad, self.owners).is_some_and(|one| self.owners.is_refused(one));
        let unsupported = self.networks.get(network).is_some_and(|one| one.intent().unsupported().is_some());
        refused
            || unsupported
            || self.zone_reports.failures(network).any(|(node, _)| Some(node) == pod.node.as_ref())
    }

    fn primary(
        &self,
        nad: &ObjectKey,
        network: &NetworkName,
        request: Option<DefaultNetworkRequest>,
    ) -> Result<Wanted, Refusal> {
        let state = self.networks.get(network).ok_or_else(|| Refusal::silent(Wait::Nad(nad.clone())))?;
        if let Some(trouble) = self.leaving(nad, network) {
            return Err(Refusal::told(trouble, Some(Wait::Namespace(nad.namespace.clone()))));
        }
        let key = nad_key(nad, 0).ok_or_else(|| Refusal::text(format!("NAD {nad} has no usable name")))?;
        let asked = self.asked_of_primary(network, state.intent().topology, request)?;
        let (attachment, role) = (Attachment::Nad(key), PodRole::Primary);
        Ok(Wanted { attachment, network: Some(network.clone()), role, asked })
    }

    /// A pod that asks for addresses means the network that has them.
    fn keep_those_asked_for(&self, choice: &mut Choice) {
        let has = |wanted: &Wanted| {
            let state = wanted.network.as_ref().and_then(|network| self.networks.get(network));
            let cidrs: Vec<_> = state.into_iter().flat_map(|state| state.intent().pod_cidrs()).collect();
            let inside = |address: IpAddr| cidrs.iter().any(|cidr| cidr.contains_address(address));
            wanted.asked.addresses.iter().map(IpNet::addr).all(inside)
        };
        if choice.iter().any(has) {
            choice.retain(has);
        }
    }
}

/// The network that the pod asks for by name. No other one will do.
fn requested<'a>(pod: &Pod, request: &RequestedPrimary, all: &[Primary<'a>]) -> Result<Primary<'a>, Refusal> {
    let namespace = &pod.key.namespace;
    let here = request.namespace.as_ref().is_none_or(|asked| asked == namespace);
    let found = all.iter().find(|(nad, _)| here && nad.name == request.name.as_str());
    found.copied().ok_or_else(|| {
        let message = format!(
            "{} asks for {request}, which is no primary network of namespace {namespace}: it has {}",
            keys::REQUESTED_PRIMARY,
            listed(all.iter().map(|(nad, _)| &nad.name), ", ")
        );
        let trouble = Trouble::new("InvalidRequest", message);
        Refusal::told(trouble, Some(Wait::Namespace(namespace.clone())))
    })
}

/// What is said when no network will do: each of them with its reason. Any of them helps.
pub(super) fn all_of(refusals: Vec<Refusal>) -> Refusal {
    let mut waits = Vec::new();
    let mut troubles = Vec::new();
    for refusal in refusals {
        waits.extend(refusal.waits);
        troubles.extend(refusal.trouble);
    }
    let full = troubles.iter().find(|trouble| trouble.reason == SUBNET_EXHAUSTED);
    let reason = full.or(troubles.first()).map(|trouble| trouble.reason);
    let messages: Vec<&str> = troubles.iter().map(|trouble| trouble.message.as_str()).collect();
    Refusal { trouble: reason.map(|reason| Trouble::new(reason, messages.join("; "))), waits }
}
