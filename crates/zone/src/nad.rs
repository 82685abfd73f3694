//! Attachment definitions as a zone sees them: which network each is of, and what it says of it.
//!
//! A definition counts only when the cluster manager has numbered it: what a tenant writes by hand stays without effect
//! until then, whatever network it names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_api::intent::Network;
use causeway_api::nad::Attachment;
use causeway_types::{NadKey, NamespaceName, NetworkName, ObjectName};

use super::network::Spec;
use super::problem::{Problem, Reason};
use causeway_record as record;

/// An attachment definition of ours.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NadInfo {
    /// Its network, as far as that is known.
    pub(super) network: Option<NetworkName>,
    /// What it says of the network, or why that does not count.
    pub(super) spec: Result<Arc<Spec>, Problem>,
    /// When its network was created.
    pub(super) created: i64,
}

impl NadInfo {
    /// What it says of a primary network, and when that was created.
    fn primary(&self) -> Option<(i64, Arc<Spec>)> {
        let spec = self.spec.as_ref().ok().filter(|spec| spec.network.is_primary());
        spec.map(|spec| (self.created, spec.clone()))
    }
}

/// The attachment definitions that are ours.
#[derive(Debug, Default)]
pub(super) struct Nads {
    entries: BTreeMap<Arc<NadKey>, NadInfo>,
    by_namespace: BTreeMap<NamespaceName, BTreeSet<Arc<NadKey>>>,
    /// Those of primary networks that count, the oldest network first: a tenant may write many others.
    primary: BTreeMap<NamespaceName, BTreeMap<Age, Arc<Spec>>>,
}

/// When the network of a definition was created, and the definition.
type Age = (i64, Arc<NadKey>);

impl Nads {
    pub(super) fn get(&self, key: &NadKey) -> Option<&NadInfo> {
        self.entries.get(key)
    }

    /// The network of an attachment definition.
    pub(super) fn network(&self, key: &NadKey) -> Option<&NetworkName> {
        self.get(key)?.network.as_ref()
    }

    /// Puts, replaces or removes an entry and gives the old one.
    pub(super) fn set(
        &mut self,
        namespace: &NamespaceName,
        key: &Arc<NadKey>,
        info: Option<NadInfo>,
    ) -> Option<NadInfo> {
        toggle(&mut self.by_namespace, namespace, key, info.is_some());
        let primary = self.primary.entry(namespace.clone()).or_default();
        if let Some(old) = self.entries.get(key) {
            primary.remove(&(old.created, key.clone()));
        }
        if let Some((created, spec)) = info.as_ref().and_then(NadInfo::primary) {
            primary.insert((created, key.clone()), spec);
        }
        if primary.is_empty() {
            self.primary.remove(namespace);
        }
        match info {
            Some(info) => self.entries.insert(key.clone(), info),
            None => self.entries.remove(key),
        }
    }

    fn in_namespace(&self, namespace: &NamespaceName) -> impl Iterator<Item = &NadInfo> {
        let keys = self.by_namespace.get(namespace).into_iter().flatten();
        keys.filter_map(|key| self.entries.get(key))
    }

    /// The networks of a namespace's definitions, whether what these say counts or not.
    pub(super) fn networks_in(&self, namespace: &NamespaceName) -> impl Iterator<Item = &NetworkName> {
        self.in_namespace(namespace).filter_map(|info| info.network.as_ref())
    }

    /// Why a namespace's definition of a network does not count, if there is one that does not.
    pub(super) fn problem(&self, namespace: &NamespaceName, network: &NetworkName) -> Option<&Problem> {
        let mut of_network =
            self.in_namespace(namespace).filter(|info| info.network.as_ref() == Some(network));
        of_network.find_map(|info| info.spec.as_ref().err())
    }

    /// Primary networks of a namespace, the oldest first. Namespaces may be younger than their networks, and definitions made
    /// anew, so what is asked is the age of the networks: the cluster manager has the same order.
    pub(super) fn primaries(&self, namespace: &NamespaceName) -> Vec<(&NadKey, &NetworkName)> {
        let primaries = self.primary.get(namespace).into_iter().flatten();
        primaries.map(|((_, key), spec)| (key.as_ref(), &spec.network.name)).collect()
    }
}

fn toggle(
    all: &mut BTreeMap<NamespaceName, BTreeSet<Arc<NadKey>>>,
    namespace: &NamespaceName,
    key: &Arc<NadKey>,
    add: bool,
) {
    let keys = all.entry(namespace.clone()).or_default();
    let _known = if add { keys.insert(key.clone()) } else { keys.remove(key) };
    if keys.is_empty() {
        all.remove(namespace);
    }
}

/// The key of a definition, if its name is one.
pub(super) fn key_of(key: &record::ObjectKey) -> Option<Arc<NadKey>> {
    let name = ObjectName::new(key.name.as_str()).ok()?;
    Some(Arc::new(NadKey::of(&key.namespace, &name, 0)))
}

/// Reads a definition; none is somebody else's.
pub(super) fn read(nad: &record::Nad) -> Option<NadInfo> {
    let created = nad.network_created.unwrap_or(nad.created);
    let info = |network: Option<NetworkName>, spec: Result<Arc<Spec>, Problem>| {
        Some(NadInfo { network, spec, created })
    };
    let malformed = |message: String| Err(Problem::new(Reason::Malformed, message));
    match (nad.attachment.clone(), nad.network.clone()) {
        (Attachment::Foreign | Attachment::Unreadable(_), None) => None,
        (Attachment::Foreign, given) => info(
            given,
            malformed(format!("NAD {} is not of our plugin any more: restore its configuration", nad.key)),
        ),
        (Attachment::Unreadable(message), given) => info(given, malformed(message)),
        (Attachment::Malformed(problem), given) => info(given, malformed(problem.message)),
        (Attachment::Ours(network), Some(given)) if given != network.name => {
            let message = format!("NAD {} was given network {given} but names {}", nad.key, network.name);
            info(Some(given), Err(Problem::new(Reason::ForeignNetwork, message)))
        }
        (Attachment::Ours(network), _) => {
            let name = network.name.clone();
            info(Some(name), spec(nad, *network).map(Arc::new))
        }
    }
}

fn spec(nad: &record::Nad, network: Network) -> Result<Spec, Problem> {
    let malformed = |error| Problem::new(Reason::Malformed, format!("NAD {}: {error}", nad.key));
    let id = nad.id.clone().map_err(malformed)?;
    // Name and id come in one patch. An id without a name says nothing of whose it is.
    let id = id.filter(|id| nad.is_named() && !id.is_default()).ok_or_else(|| {
        Problem::new(Reason::NoId, format!("network {} of NAD {} has no id yet", network.name, nad.key))
    })?;
    let keys = nad
        .tunnel_keys
        .clone()
        .map_err(|error| Problem::new(Reason::TunnelKeys, format!("NAD {}: {error}", nad.key)))?;
    let router_key = Spec::checked_key(&network, id, keys)?;
    // It is a name and nothing else: a network without one is named otherwise.
    let set = nad.set.as_ref().ok().copied().flatten();
    Ok(Spec { network, id, set, router_key })
}
