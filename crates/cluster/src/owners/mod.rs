//! UserDefinedNetworks and ClusterUserDefinedNetworks: what they mean, which namespaces they are for, the attachments that are
//! rendered from them, and what their users are told.

mod removal;
mod rendering;
mod siblings;
mod status;

use std::collections::{BTreeMap, BTreeSet};

use causeway_alloc::{Claim, Seniority};
use causeway_api::crd::NetworkStatus;
use causeway_api::intent::{ClusterConfig, Network, Problem};
use causeway_record::{Cudn, Defined, Namespace, ObjectKey, Regarding, Texts, Udn};
use causeway_types::{NamespaceName, NetworkId, NetworkName, ObjectName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::{Selector, SelectorExt};

use crate::OwnerKey;
use crate::decision::Absent;
use crate::desk::Desk;
use crate::dirty::{Dirty, Scope};
use crate::namespaces::Namespaces;
use crate::trouble::{Trouble, no_namespace};
use crate::writes::Writes;

pub(crate) use rendering::Ground;
pub(crate) use siblings::Standing;
pub(crate) use status::Observed;

/// All objects that have networks.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    all: BTreeMap<OwnerKey, Owner>,
    by_uid: BTreeMap<String, OwnerKey>,
    by_network: BTreeMap<NetworkName, OwnerKey>,
    /// Who wants a namespace.
    by_namespace: BTreeMap<NamespaceName, BTreeSet<OwnerKey>>,
    siblings: siblings::Siblings,
    /// Who is going.
    going: BTreeSet<OwnerKey>,
    /// Who has grown, and whose attachments do not say so before connections have followed.
    growing: BTreeSet<OwnerKey>,
}

/// A UserDefinedNetwork or ClusterUserDefinedNetwork.
#[derive(Debug)]
struct Owner {
    object: Defined,
    /// What the object means, checked against the cluster.
    intent: Result<Network, Trouble>,
    selects: Selects,
    wanted: BTreeSet<NamespaceName>,
    /// The status that was asked for last, and whether it is written.
    sent: Option<(NetworkStatus, bool)>,
    /// When a status was last asked for.
    said_at: Option<i64>,
    /// The record that lists its numbers as freed.
    retired: Option<u64>,
    /// Namespaces in which its attachment could not be written, and why.
    failing: BTreeMap<NamespaceName, Trouble>,
    report: Report,
    /// Whose network it cannot be beside.
    blocked_by: Option<OwnerKey>,
}

/// Which namespaces an owner is for.
#[derive(Clone, Debug)]
enum Selects {
    Own(NamespaceName),
    /// Those with these labels.
    Labels(Box<LabelSelector>, Option<Selector>),
}

impl Selects {
    fn labels(&self) -> Option<&LabelSelector> {
        match self {
            Self::Own(_) => None,
            Self::Labels(labels, _) => Some(labels),
        }
    }

    fn matches(&self, namespace: &Namespace) -> bool {
        match self {
            Self::Own(own) => *own == namespace.name,
            Self::Labels(_, selector) => {
                !namespace.deleting && selector.as_ref().is_some_and(|all| all.matches(&namespace.labels))
            }
        }
    }
}

/// What was found when an owner was looked at.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Nothing is to be said yet: the finalizer must be seen first.
    early: bool,
    /// What is wrong with the network as a whole.
    network: Option<Trouble>,
    /// What is wrong in a namespace.
    namespaces: BTreeMap<NamespaceName, Trouble>,
    /// Namespaces whose attachment is being created.
    creating: BTreeSet<NamespaceName>,
    /// Attachments that are on their way out.
    leaving: BTreeSet<ObjectKey>,
    /// Pods that keep attachments from going.
    users: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
}

impl Report {
    /// Forgets what is looked at again.
    fn forget(&mut self, scope: &Scope) {
        self.namespaces.retain(|namespace, _| !scope.has(namespace));
        self.creating.retain(|namespace| !scope.has(namespace));
        self.leaving.retain(|nad| !scope.has(&nad.namespace));
        self.users.retain(|nad, _| !scope.has(&nad.namespace));
    }

    /// The report to go on from.
    fn again(mut self, scope: &Scope) -> Self {
        self.forget(scope);
        Self { early: false, network: None, ..self }
    }

    /// Nothing is to be said of the object yet, so what was found before stays.
    pub(crate) fn unchanged(self) -> Self {
        Self { early: true, ..self }
    }

    /// An attachment goes as soon as no pod uses it.
    fn let_go(&mut self, nad: &ObjectKey, ground: Ground<'_>, writes: &mut Writes) {
        match ground.pods.users(nad) {
            Some(users) => {
                self.users.insert(nad.clone(), users.clone());
            }
            None => ground.attachments.take_away(nad, writes),
        }
    }

    /// What is being created is seen in a moment; that it is missing until then is no news.
    fn is_early(&self) -> bool {
        self.early || (!self.creating.is_empty() && self.namespaces.is_empty() && self.network.is_none())
    }
}

impl Owner {
    fn new(object: Defined, intent: Result<Network, Trouble>, selects: Selects) -> Self {
        Self {
            object,
            intent,
            selects,
            wanted: BTreeSet::new(),
            sent: None,
            said_at: None,
            retired: None,
            failing: BTreeMap::new(),
            report: Report::default(),
            blocked_by: None,
        }
    }
}

impl Owners {
    pub(crate) fn keys(&self) -> impl Iterator<Item = &OwnerKey> {
        self.all.keys()
    }

    /// The object with a UID.
    pub(crate) fn with_uid(&self, uid: &str) -> Option<&OwnerKey> {
        self.by_uid.get(uid)
    }

    /// The object that a network comes from.
    pub(crate) fn of_network(&self, network: &NetworkName) -> Option<&OwnerKey> {
        self.by_network.get(network)
    }

    /// The objects that want a namespace.
    pub(crate) fn wanting(&self, namespace: &NamespaceName) -> impl Iterator<Item = &OwnerKey> {
        self.by_namespace.get(namespace).into_iter().flatten()
    }

    /// Those who may see an attachment differently: who controls it, and who wants its namespace, if that sees another primary network or
    /// the attachment is called like theirs.
    pub(crate) fn concerned_by(
        &self,
        nad: &ObjectKey,
        controller: Option<&str>,
        primary: bool,
    ) -> impl Iterator<Item = OwnerKey> {
        let owner = controller.and_then(|uid| self.with_uid(uid));
        let called_alike = move |other: &&OwnerKey| primary || other.name().as_str() == nad.name;
        owner.into_iter().chain(self.wanting(&nad.namespace).filter(called_alike)).cloned()
    }

    /// The objects whose network is not to be had.
    pub(crate) fn refused(&self) -> impl Iterator<Item = OwnerKey> {
        self.all.iter().filter(|(_, owner)| owner.report.network.is_some()).map(|(key, _)| key.clone())
    }

    /// The objects whose networks are on the fabric, or shall be.
    pub(crate) fn on_fabric(&self) -> impl Iterator<Item = OwnerKey> {
        self.all.keys().filter(|key| self.is_on_fabric(key)).cloned()
    }

    /// Whether the object's network is on the fabric, or shall be.
    pub(crate) fn is_on_fabric(&self, key: &OwnerKey) -> bool {
        let intent = self.all.get(key).and_then(|owner| owner.intent.as_ref().ok());
        intent.is_some_and(|intent| intent.evpn().is_some())
    }

    /// Whether a network names the VTEP.
    pub(crate) fn uses_vtep(&self, vtep: &str) -> bool {
        let names = |owner: &Owner| Some(owner.intent.as_ref().ok()?.evpn()?.vtep == vtep);
        self.all.values().any(|owner| names(owner) == Some(true))
    }

    /// Whether the object's selector cannot be read: what it has stays, whichever namespace it is in.
    pub(crate) fn is_held(&self, key: &OwnerKey) -> bool {
        self.all.get(key).is_some_and(|owner| matches!(owner.selects, Selects::Labels(_, None)))
    }

    /// Whether the object is to go.
    pub(crate) fn is_going(&self, key: &OwnerKey) -> bool {
        self.all.get(key).is_some_and(|owner| owner.object.deleting)
    }

    /// What the object means, checked against the cluster, and whether a namespace wants it.
    pub(crate) fn intent(&self, key: &OwnerKey) -> Option<(Result<&Network, &Trouble>, bool)> {
        self.all.get(key).map(|owner| (owner.intent.as_ref(), !owner.wanted.is_empty()))
    }

    /// Whether a namespace's pods may use the object's network from now on.
    pub(crate) fn admits(&self, key: &OwnerKey, namespace: &NamespaceName) -> bool {
        let owner = self.all.get(key).filter(|owner| !owner.object.deleting);
        owner.is_some_and(|owner| owner.wanted.contains(namespace)) || self.is_held(key)
    }

    /// The UID of an object.
    fn uid(&self, key: &OwnerKey) -> Option<&str> {
        self.all.get(key).map(|owner| owner.object.uid.as_str())
    }

    /// The objects that are going.
    pub(crate) fn going(&self) -> impl Iterator<Item = &OwnerKey> {
        self.going.iter()
    }

    /// Whether the object is there and wants an attachment of its name in the namespace.
    pub(crate) fn wants(&self, key: &OwnerKey, nad: &ObjectKey) -> bool {
        let owner = self.all.get(key);
        owner.is_some_and(|owner| owner.wanted.contains(&nad.namespace)) && nad.name == key.name().as_str()
    }

    /// Whether somebody waits for the last user of an attachment to go: the object is going, or does not want the namespace.
    pub(crate) fn lets_go_of(&self, key: &OwnerKey, namespace: &NamespaceName) -> bool {
        self.all.get(key).is_some_and(|owner| owner.object.deleting || !owner.wanted.contains(namespace))
    }

    /// The labels of the object that a network comes from.
    pub(crate) fn labels(&self, key: &OwnerKey) -> Option<&Texts> {
        self.all.get(key).map(|owner| &owner.object.labels)
    }

    /// What a network is meant to be, with the age of its object.
    pub(crate) fn meant(&self, network: &NetworkName) -> Option<(i64, &Network)> {
        let owner = self.all.get(self.by_network.get(network)?)?;
        Some((owner.object.created, owner.intent.as_ref().ok()?))
    }

    /// Why a ClusterUserDefinedNetwork is no network. Nothing is said of one that is going.
    pub(crate) fn absent(&self, network: &NetworkName) -> Option<Absent> {
        let key = self.by_network.get(network)?;
        let OwnerKey::Cudn(name) = key else { return None };
        let owner = self.all.get(key).filter(|owner| !owner.object.deleting)?;
        let trouble = owner.intent.as_ref().err().or(owner.report.network.as_ref());
        let none = owner.wanted.is_empty().then(no_namespace);
        let coming = || Trouble::new("NetworkNotReady", "it is being created");
        let Trouble { reason, message } = trouble.cloned().or(none).unwrap_or_else(coming);
        Some(Absent {
            name: name.clone(),
            labels: owner.object.labels.clone(),
            topology: owner.intent.as_ref().ok().map(|intent| intent.topology),
            reason: reason.to_owned(),
            message,
        })
    }

    /// Other networks whose attachment in the namespace is being created: two that come at once must not both be the
    /// namespace's, unless they may.
    fn coming_primaries<'a>(
        &'a self,
        key: &'a OwnerKey,
        namespace: &'a NamespaceName,
    ) -> impl Iterator<Item = &'a OwnerKey> {
        let coming = |other: &&OwnerKey| {
            self.all.get(*other).is_some_and(|owner| {
                owner.is_primary() && !owner.object.deleting && owner.report.creating.contains(namespace)
            })
        };
        self.wanting(namespace).filter(move |other| *other != key).filter(coming)
    }

    /// The last attachment may be gone for a moment while its object is there; the status remembers the number.
    pub(crate) fn ids_in_statuses(&self) -> impl Iterator<Item = Claim<NetworkName, NetworkId>> {
        self.all.iter().filter_map(|(key, owner)| {
            let number = NetworkId::new(owner.object.status.network_id?.into()).ok()?;
            let seniority = Seniority { finished: true, created: owner.object.created };
            Some(Claim { seniority, owner: key.network(), number })
        })
    }

    /// A namespace came, changed or went: the owner may want it now and did not, or the other way round.
    pub(crate) fn reselect(
        &mut self,
        key: &OwnerKey,
        name: &NamespaceName,
        now: Option<&Namespace>,
        dirty: &mut Dirty,
    ) {
        let Some(owner) = self.all.get_mut(key) else { return };
        let wanted = now.is_some_and(|namespace| owner.selects.matches(namespace));
        let news = if wanted { owner.wanted.insert(name.clone()) } else { owner.wanted.remove(name) };
        if news {
            self.note_wish(key, name, wanted);
            dirty.owners_in([key.clone()], name);
        }
    }

    /// Which namespaces a ClusterUserDefinedNetwork wants. All are compared only with a selector that is new.
    fn select(&self, name: &ObjectName, owner: &mut Owner, namespaces: &mut Namespaces) {
        let Selects::Labels(labels, _) = &owner.selects else { return };
        let before = self.all.get(&OwnerKey::Cudn(name.clone()));
        let old = before.and_then(|before| before.selects.labels());
        if let Some(before) = before.filter(|_| old == Some(&**labels)) {
            owner.wanted.clone_from(&before.wanted);
            return;
        }
        namespaces.select(name, old, Some(labels));
        let matching = namespaces.iter().filter(|namespace| owner.selects.matches(namespace));
        owner.wanted = matching.map(|namespace| namespace.name.clone()).collect();
    }

    /// Puts an object in. The answer is whether what it means may be new.
    fn insert(&mut self, key: &OwnerKey, mut owner: Owner) -> bool {
        let before = self.all.remove(key);
        let same = before.as_ref().is_some_and(|before| before.object.uid == owner.object.uid);
        let mut news = !same;
        if !same {
            self.by_uid.insert(owner.object.uid.clone(), key.clone());
            self.by_network.insert(key.network(), key.clone());
        }
        if let Some(before) = before {
            news |= before.intent != owner.intent;
            if same {
                owner.retired = before.retired;
                owner.said_at = before.said_at;
                owner.failing = before.failing;
                owner.blocked_by.clone_from(&before.blocked_by);
                owner.sent = before.sent.filter(|(sent, done)| !*done && *sent != owner.object.status);
            } else {
                self.by_uid.remove(&before.object.uid);
            }
            before.wanted.difference(&owner.wanted).for_each(|left| self.note_wish(key, left, false));
        }
        owner.wanted.iter().for_each(|namespace| self.note_wish(key, namespace, true));
        if owner.object.deleting {
            self.going.insert(key.clone());
        }
        self.stand(key, true);
        self.all.insert(key.clone(), owner);
        news
    }

    fn remove(&mut self, key: &OwnerKey) -> Option<Owner> {
        let owner = self.all.remove(key)?;
        self.by_uid.remove(&owner.object.uid);
        self.by_network.remove(&key.network());
        self.going.remove(key);
        self.stand(key, false);
        self.unblock(key, owner.blocked_by.clone());
        owner.wanted.iter().for_each(|namespace| self.note_wish(key, namespace, false));
        Some(owner)
    }
}

impl Owners {
    fn regarding(&self, key: &OwnerKey) -> Option<Regarding> {
        let owner = self.all.get(key)?;
        let target = key.target();
        let (api_version, kind) = target.kind.api_version_and_kind();
        Some(Regarding {
            api_version,
            kind,
            namespace: target.namespace,
            name: target.name,
            uid: owner.object.uid.clone(),
        })
    }
}

/// What an object means, checked against the cluster.
fn checked(intent: &Result<Network, Vec<Problem>>, cluster: &ClusterConfig) -> Result<Network, Trouble> {
    let network = intent.as_ref().map_err(|problems| Trouble::from(&problems[..]))?;
    let problems = network.problems(cluster);
    if problems.is_empty() { Ok(network.clone()) } else { Err(Trouble::from(&problems[..])) }
}

/// An object that is gone, and what others must know of it.
#[derive(Debug)]
pub(crate) struct Gone {
    /// Whether the record lists its numbers as freed, or is about to.
    pub(crate) retired: bool,
    /// Others that want one of its namespaces.
    pub(crate) others: Vec<OwnerKey>,
}

impl Owners {
    pub(crate) fn udn_applied(&mut self, key: OwnerKey, udn: Udn, cluster: &ClusterConfig, desk: &mut Desk) {
        let (intent, namespace) = (checked(&udn.defined.intent, cluster), udn.key.namespace);
        let mut owner = Owner::new(udn.defined, intent, Selects::Own(namespace.clone()));
        owner.wanted = BTreeSet::from([namespace]);
        self.applied(key, owner, desk);
    }

    pub(crate) fn cudn_applied(
        &mut self,
        cudn: Cudn,
        cluster: &ClusterConfig,
        namespaces: &mut Namespaces,
        desk: &mut Desk,
    ) {
        let intent = checked(&cudn.defined.intent, cluster);
        // One that cannot be read selects nothing new and lets nothing go, and the intent says why.
        let selector = Selector::try_from(cudn.selector.clone()).ok();
        let selects = Selects::Labels(Box::new(cudn.selector), selector);
        let mut owner = Owner::new(cudn.defined, intent, selects);
        self.select(&cudn.name, &mut owner, namespaces);
        self.applied(OwnerKey::Cudn(cudn.name), owner, desk);
    }

    fn applied(&mut self, key: OwnerKey, owner: Owner, desk: &mut Desk) {
        desk.writes.seen(&key.target());
        let selects = |owners: &Self| owners.all.get(&key).map(|owner| owner.selects.labels().cloned());
        let before = (selects(self), self.beside(&key));
        let news = self.insert(&key, owner);
        if news {
            desk.dirty.clashes([key.network()]);
        }
        // Who is new concerns nobody who is there; who changes may.
        if before.0.is_some() && (news || before.0 != selects(self)) {
            let others = before.1.into_iter().chain(self.beside(&key));
            desk.dirty.owners(others.chain(self.blocked_by(&key)).collect::<Vec<_>>());
        }
        desk.dirty.reach_network(&key.network());
        desk.dirty.owners([key]);
    }

    /// Whether this is not the object that was known by its name: it was deleted and created anew while nobody watched.
    pub(crate) fn is_another(&self, key: &OwnerKey, uid: &str) -> bool {
        self.uid(key).is_some_and(|before| before != uid)
    }

    /// The object is gone.
    pub(crate) fn deleted(
        &mut self,
        key: &OwnerKey,
        namespaces: &mut Namespaces,
        writes: &mut Writes,
    ) -> Option<Gone> {
        if let OwnerKey::Cudn(name) = key {
            let labels = self.all.get(key).and_then(|owner| owner.selects.labels());
            namespaces.select(name, labels, None);
        }
        writes.seen(&key.target());
        let owner = self.remove(key)?;
        let others = owner.wanted.iter().flat_map(|namespace| self.wanting(namespace)).cloned().collect();
        Some(Gone { retired: owner.retired.is_some(), others })
    }
}

/// What a UserDefinedNetwork is known by; nothing if no network can be called like it.
pub(crate) fn udn_key(key: &ObjectKey) -> Option<OwnerKey> {
    let name = ObjectName::new(key.name.clone()).ok()?;
    Some(OwnerKey::Udn(key.namespace.clone(), name))
}
