//! Attachments (NADs): which of them are networks, and whose.

mod admission;

use std::collections::{BTreeMap, BTreeSet};

use causeway_alloc::{Claim, Seniority};
use causeway_api::annotations::{TunnelKeys, keys};
use causeway_api::intent::Network;
use causeway_api::nad::Attachment;
use causeway_record::{Action, Kind, Nad, ObjectKey, Part, Priority, Regarding, Target};
use causeway_types::{NamespaceName, NetworkName, NetworkOrigin};
use serde_json::json;

pub(crate) use admission::{Admission, Answer, primary_exists};

use crate::OwnerKey;
use crate::desk::Desk;
use crate::namespaces::Namespaces;
use crate::networks::{NetworkState, Networks};
use crate::nodes::annotation_patch;
use crate::numbers::{IdClaims, KeyClaims, transit};
use crate::owners::Owners;
use crate::trouble::{INVALID_CONFIG, Trouble};
use crate::writes::Writes;

#[derive(Debug, Default)]
pub(crate) struct Attachments {
    all: BTreeMap<ObjectKey, State>,
    /// Attachments that no custom resource controls, by the network that they name.
    hand_written: BTreeMap<NetworkName, BTreeSet<ObjectKey>>,
    /// Attachments by who controls them.
    controlled: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// The accepted primary attachments of namespaces, and those that came second: a tenant may write many attachments, and
    /// none of them is searched through for another.
    primaries: BTreeMap<NamespaceName, Primaries>,
}

/// Attachments of a namespace that are its primary network, or want to be.
#[derive(Debug, Default)]
struct Primaries {
    accepted: BTreeSet<ObjectKey>,
    second: BTreeSet<ObjectKey>,
}

impl Primaries {
    /// What others see of them: the accepted ones, and those that messages name.
    fn shown(&self) -> (Vec<ObjectKey>, Vec<ObjectKey>) {
        (self.accepted.iter().cloned().collect(), self.second.iter().take(2).cloned().collect())
    }
}

/// An attachment, and what has become of it.
#[derive(Debug)]
struct State {
    record: Nad,
    verdict: Verdict,
    told: Option<String>,
}

/// What an attachment is in this cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// An attachment of this network.
    Accepted(NetworkName),
    /// It is ours, but cannot be a network.
    Refused(Trouble),
    /// It is a second primary network of its namespace.
    Second(Trouble),
    /// It was rendered from a custom resource that is not there or does not want it.
    Stale,
    /// None of our business, or not looked at yet.
    Foreign,
}

/// What an attachment is among the primary ones of its namespace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    Accepted,
    Second,
    None,
}

/// The UID of the custom resource of ours that controls an attachment.
fn controlled_by(nad: &Nad) -> Option<&str> {
    let ours = ["UserDefinedNetwork", "ClusterUserDefinedNetwork"];
    let controller = nad.controller.as_ref().filter(|owner| ours.contains(&owner.kind.as_str()))?;
    Some(&controller.uid)
}

/// The network that an attachment names, if it is ours.
fn named(nad: &Nad) -> Option<&Network> {
    match &nad.attachment {
        Attachment::Ours(network) => Some(network),
        _ => None,
    }
}

impl Attachments {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Nad> {
        self.all.get(key).map(|state| &state.record)
    }

    /// What has become of an attachment.
    pub(crate) fn verdict(&self, key: &ObjectKey) -> Option<&Verdict> {
        self.all.get(key).map(|state| &state.verdict)
    }

    /// The network that an attachment has been accepted as.
    pub(crate) fn network_of(&self, key: &ObjectKey) -> Option<&NetworkName> {
        match self.verdict(key)? {
            Verdict::Accepted(network) => Some(network),
            _ => None,
        }
    }

    /// Attachments that are ours and no network.
    pub(crate) fn refused(&self) -> impl Iterator<Item = ObjectKey> {
        let refused = self.all.iter().filter(|(_, nad)| matches!(nad.verdict, Verdict::Refused(_)));
        refused.map(|(key, _)| key.clone())
    }

    /// Whether the attachment is a second primary network of its namespace.
    pub(crate) fn is_second(&self, key: &ObjectKey) -> bool {
        matches!(self.verdict(key), Some(Verdict::Second(_)))
    }

    fn of(&self, namespace: &NamespaceName) -> impl Iterator<Item = &State> {
        let first = ObjectKey { namespace: namespace.clone(), name: String::new() };
        self.all.range(first..).map(|(_, nad)| nad).take_while(|nad| nad.record.key.namespace == *namespace)
    }

    /// All attachments of a namespace.
    pub(crate) fn keys_in(&self, namespace: &NamespaceName) -> impl Iterator<Item = ObjectKey> {
        self.of(namespace).map(|nad| nad.record.key.clone())
    }

    /// Attachments that no custom resource controls and that name a network.
    pub(crate) fn naming(&self, network: &NetworkName) -> impl Iterator<Item = &ObjectKey> {
        self.hand_written.get(network).into_iter().flatten()
    }

    /// All networks that such attachments name.
    pub(crate) fn named_networks(&self) -> impl Iterator<Item = &NetworkName> {
        self.hand_written.keys()
    }

    /// Attachments that say to be controlled by the custom resource with this UID.
    pub(crate) fn rendered_from(&self, uid: &str) -> Option<&BTreeSet<ObjectKey>> {
        self.controlled.get(uid)
    }

    /// Attachments written by hand that name a network of the namespace, and these networks.
    pub(crate) fn claiming(&self, namespace: &NamespaceName) -> (Vec<NetworkName>, Vec<ObjectKey>) {
        let of_namespace = |name: &NetworkName| matches!(name.origin(), NetworkOrigin::Namespaced(owner, _) if owner == *namespace);
        let claiming = || self.hand_written.iter().filter(|(name, _)| of_namespace(name));
        let nads = claiming().flat_map(|(_, nads)| nads.iter().cloned()).collect();
        (claiming().map(|(name, _)| name.clone()).collect(), nads)
    }

    /// What attachments that are written by hand say of a network, with their age: of several the oldest counts. Names that
    /// belong to custom resources are not theirs.
    pub(crate) fn written_by_hand(
        &self,
        name: &NetworkName,
        namespaces: &Namespaces,
    ) -> Option<(i64, &Network)> {
        let nads = self.naming(name).filter(|_| !namespaces.reserve(name)).filter_map(|key| self.get(key));
        let oldest = nads.min_by_key(|nad| (nad.created, &nad.key))?;
        Some((oldest.created, named(oldest)?))
    }

    /// The accepted primary attachments of a namespace, the one of the oldest network first.
    pub(crate) fn primaries_of(
        &self,
        namespace: &NamespaceName,
        networks: &Networks,
        owners: &Owners,
    ) -> Vec<(&ObjectKey, &NetworkName)> {
        let Some(Primaries { accepted, .. }) = self.primaries.get(namespace) else { return Vec::new() };
        let found = accepted.iter().filter_map(|nad| Some((nad, self.network_of(nad)?)));
        let mut found: Vec<_> = found.filter(|(_, network)| networks.is_primary(network)).collect();
        if found.len() > 1 {
            found.sort_by_key(|(nad, _)| {
                (self.owner(nad, owners).and_then(|owner| owners.created(owner)), *nad)
            });
        }
        found
    }

    /// Other attachments of the namespace that are, or want to be, its primary network.
    pub(crate) fn other_primaries(&self, key: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        let primaries = self.primaries.get(&key.namespace).into_iter();
        let all = primaries.flat_map(|Primaries { accepted, second }| accepted.iter().chain(second));
        all.filter(move |other| *other != key)
    }

    /// Other attachments of the namespace that are its primary network.
    fn accepted_beside(&self, key: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        let accepted =
            self.primaries.get(&key.namespace).into_iter().flat_map(|primaries| &primaries.accepted);
        accepted.filter(move |other| *other != key)
    }

    /// What has become of an attachment, and whether that is a primary network. The answer is whether the namespace may see
    /// its primary network differently.
    pub(crate) fn set_verdict(&mut self, key: &ObjectKey, verdict: Verdict, is_primary: bool) -> bool {
        let Some(nad) = self.all.get_mut(key) else { return false };
        let place = match &verdict {
            Verdict::Accepted(_) if is_primary => Place::Accepted,
            Verdict::Second(_) => Place::Second,
            Verdict::Refused(_) if nad.record.wants_primary() => Place::Second,
            _ => Place::None,
        };
        nad.verdict = verdict;
        self.place(key, place)
    }

    /// Puts an attachment among the primary ones of its namespace, or takes it out.
    fn place(&mut self, key: &ObjectKey, place: Place) -> bool {
        let primaries = self.primaries.entry(key.namespace.clone()).or_default();
        let before = primaries.shown();
        primaries.accepted.remove(key);
        primaries.second.remove(key);
        match place {
            Place::Accepted => drop(primaries.accepted.insert(key.clone())),
            Place::Second => drop(primaries.second.insert(key.clone())),
            Place::None => {}
        }
        let changed = primaries.shown() != before;
        if primaries.accepted.is_empty() && primaries.second.is_empty() {
            self.primaries.remove(&key.namespace);
        }
        changed
    }

    /// Attachments that came second in a namespace which has no primary network any more.
    pub(crate) fn next_primaries(&self, namespace: &NamespaceName) -> impl Iterator<Item = &ObjectKey> {
        let free = self.primaries.get(namespace).filter(|primaries| primaries.accepted.is_empty());
        free.into_iter().flat_map(|primaries| &primaries.second)
    }

    /// The custom resource that an attachment was rendered from.
    pub(crate) fn owner<'a>(&self, key: &ObjectKey, owners: &'a Owners) -> Option<&'a OwnerKey> {
        owners.with_uid(controlled_by(self.get(key)?)?)
    }

    /// Attachments that have numbers before those that have none, the older first: whoever is there stays.
    pub(crate) fn by_age(&self) -> Vec<ObjectKey> {
        let mut nads: Vec<&Nad> = self.all.values().map(|state| &state.record).collect();
        nads.sort_by_key(|nad| (!nad.is_numbered(), nad.created, nad.key.clone()));
        nads.into_iter().map(|nad| nad.key.clone()).collect()
    }

    /// The numbers that attachments carry, and the networks that they are of.
    pub(crate) fn numbers(&self, owners: &Owners, namespaces: &Namespaces) -> (IdClaims, KeyClaims) {
        let (mut ids, mut tunnels) = (Vec::new(), Vec::new());
        for nad in self.all.values().map(|state| &state.record) {
            let Some(network) = claimed_network(nad, owners, namespaces) else { continue };
            let seniority = Seniority { finished: false, created: nad.created };
            if let Ok(Some(number)) = nad.id {
                ids.push(Claim { seniority, owner: network.clone(), number });
            }
            if let Ok(Some(TunnelKeys(Some([_, number])))) = nad.tunnel_keys {
                tunnels.push(Claim { seniority, owner: transit(&network), number });
            }
        }
        (ids, tunnels)
    }

    /// Puts an attachment in; what was there before has become what it is now.
    fn insert(&mut self, record: Nad) -> Option<Nad> {
        let key = record.key.clone();
        self.index(&key, false);
        let (before, verdict, told) = match self.all.remove(&key) {
            Some(before) => (Some(before.record), before.verdict, before.told),
            None => (None, Verdict::Foreign, None),
        };
        self.all.insert(key.clone(), State { record, verdict, told });
        self.index(&key, true);
        before
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<State> {
        self.index(key, false);
        self.all.remove(key)
    }

    fn index(&mut self, key: &ObjectKey, add: bool) {
        let Some(nad) = self.all.get(key) else { return };
        match (controlled_by(&nad.record).map(str::to_owned), named(&nad.record)) {
            (Some(uid), _) => toggle(&mut self.controlled, uid, key, add),
            (None, Some(network)) => {
                let name = network.name.clone();
                toggle(&mut self.hand_written, name, key, add);
            }
            _ => {}
        }
    }

    /// Whether the attachment's trouble is news; it counts as told then.
    fn tell(&mut self, key: &ObjectKey, trouble: &Trouble) -> Option<Regarding> {
        let nad = self.all.get_mut(key).filter(|nad| nad.told.as_ref() != Some(&trouble.message))?;
        nad.told = Some(trouble.message.clone());
        Some(Regarding {
            api_version: "k8s.cni.cncf.io/v1".into(),
            kind: "NetworkAttachmentDefinition".into(),
            namespace: Some(key.namespace.to_string()),
            name: key.name.clone(),
            uid: nad.record.uid.clone(),
        })
    }
}

/// The network whose numbers an attachment carries.
fn claimed_network(nad: &Nad, owners: &Owners, namespaces: &Namespaces) -> Option<NetworkName> {
    match controlled_by(nad) {
        Some(uid) => owners.with_uid(uid).map(OwnerKey::network).or_else(|| nad.network.clone()),
        None => named(nad).map(|network| network.name.clone()).filter(|name| !namespaces.reserve(name)),
    }
}

fn toggle<K: Ord + Clone>(index: &mut BTreeMap<K, BTreeSet<ObjectKey>>, name: K, key: &ObjectKey, add: bool) {
    let members = index.entry(name.clone()).or_default();
    if add {
        members.insert(key.clone());
    } else {
        members.remove(key);
    }
    if members.is_empty() {
        index.remove(&name);
    }
}

/// An attachment that is gone, and what it was.
#[derive(Debug)]
pub(crate) struct Gone {
    /// The network that it was accepted as.
    pub(crate) network: Option<NetworkName>,
    /// The UID of the custom resource of ours that controlled it.
    pub(crate) controller: Option<String>,
    /// Whether its namespace may see its primary network differently.
    pub(crate) primary: bool,
}

impl Attachments {
    pub(crate) fn applied(&mut self, record: Nad, desk: &mut Desk) {
        let key = record.key.clone();
        desk.writes.seen(&nad_target(&key));
        let before = self.insert(record);
        let both = before.iter().chain(self.get(&key)).filter(|nad| controlled_by(nad).is_none());
        desk.dirty.clashes(both.filter_map(named).map(|network| network.name.clone()));
        desk.dirty.nads([key]);
    }

    pub(crate) fn deleted(&mut self, key: &ObjectKey, desk: &mut Desk) -> Option<Gone> {
        desk.writes.seen(&nad_target(key));
        let State { record, verdict, .. } = self.remove(key)?;
        let controller = controlled_by(&record).map(str::to_owned);
        if controller.is_none() {
            desk.dirty.clashes(named(&record).map(|network| network.name.clone()));
        }
        let network = if let Verdict::Accepted(network) = verdict { Some(network) } else { None };
        let primary = self.place(key, Place::None);
        Some(Gone { network, controller, primary })
    }

    /// The UID of the custom resource of ours that controls an attachment.
    pub(crate) fn controller(&self, key: &ObjectKey) -> Option<&str> {
        self.get(key).and_then(controlled_by)
    }

    /// Writes the network's numbers on an attachment that is written by hand.
    pub(crate) fn number(&self, key: &ObjectKey, network: &NetworkState, writes: &mut Writes) {
        let Some(nad) = self.get(key) else { return };
        if let Some(body) = annotation_patch(&nad.annotations, &network.annotations()) {
            let action = Action::Merge { subresource: None, body };
            writes.ask(nad_target(key), Part::Annotations, Priority::Network, action);
        }
    }

    /// Says what is wrong with an attachment, if that is news.
    pub(crate) fn warn(&mut self, key: &ObjectKey, trouble: &Trouble, writes: &mut Writes) {
        if let Some(regarding) = self.tell(key, trouble) {
            let message = format!("Failed to parse network config: {}", trouble.message);
            writes.warn(regarding, INVALID_CONFIG, message);
        }
    }

    /// Deletes an attachment; its finalizer goes only after the deletion is seen.
    pub(crate) fn take_away(&self, key: &ObjectKey, writes: &mut Writes) {
        let Some(nad) = self.get(key) else { return };
        let ours = |finalizer: &String| finalizer == keys::NETWORK_FINALIZER;
        let (part, action) = if !nad.deleting {
            (Part::Deletion, Action::Delete { uid: nad.uid.clone() })
        } else if nad.finalizers.iter().any(ours) {
            let others: Vec<&String> = nad.finalizers.iter().filter(|f| !ours(f)).collect();
            let body = json!({"metadata": {"uid": nad.uid, "finalizers": others}});
            (Part::Finalizer, Action::Merge { subresource: None, body })
        } else {
            return;
        };
        writes.ask(nad_target(key), part, Priority::Network, action);
    }
}

pub(crate) fn nad_target(key: &ObjectKey) -> Target {
    Target {
        kind: Kind::NetworkAttachmentDefinition,
        namespace: Some(key.namespace.to_string()),
        name: key.name.clone(),
    }
}
