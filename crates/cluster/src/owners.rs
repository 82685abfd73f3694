//! UserDefinedNetworks and ClusterUserDefinedNetworks: what they mean and which namespaces they are for.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::annotations::keys::PRIMARY_NETWORK_LABEL;
use causeway_api::crd::NetworkStatus;
use causeway_api::intent::{Network, Problem};
use causeway_record::{Cudn, Defined, Namespace, ObjectKey, Regarding, Udn};
use causeway_types::{NamespaceName, NetworkName, ObjectName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::{Selector, SelectorExt};

use crate::dirty::Scope;
use crate::keys::Wait;
use crate::trouble::Trouble;
use crate::{Manager, OwnerKey};

/// All objects that have networks.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    pub(crate) all: BTreeMap<OwnerKey, Owner>,
    pub(crate) by_uid: BTreeMap<String, OwnerKey>,
    pub(crate) by_network: BTreeMap<NetworkName, OwnerKey>,
    /// Who wants a namespace.
    pub(crate) by_namespace: BTreeMap<NamespaceName, BTreeSet<OwnerKey>>,
    /// Who is going.
    pub(crate) going: BTreeSet<OwnerKey>,
}

/// A UserDefinedNetwork or ClusterUserDefinedNetwork.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) object: Defined,
    /// What the object means, checked against the cluster.
    pub(crate) intent: Result<Network, Trouble>,
    pub(crate) selects: Selects,
    pub(crate) wanted: BTreeSet<NamespaceName>,
    /// The status that was asked for last, and whether it is written.
    pub(crate) sent: Option<(NetworkStatus, bool)>,
    /// The record that lists its numbers as freed.
    pub(crate) retired: Option<u64>,
    /// Namespaces in which its attachment could not be written, and why.
    pub(crate) failing: BTreeMap<NamespaceName, Trouble>,
    pub(crate) report: Report,
}

/// Which namespaces an owner is for.
#[derive(Clone, Debug)]
pub(crate) enum Selects {
    /// Its own.
    Own(NamespaceName),
    /// Those with these labels.
    Labels(Box<LabelSelector>, Option<Selector>),
}

impl Selects {
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
    pub(crate) early: bool,
    /// What is wrong with the network as a whole.
    pub(crate) network: Option<Trouble>,
    /// What is wrong in a namespace.
    pub(crate) namespaces: BTreeMap<NamespaceName, Trouble>,
    /// Namespaces whose attachment is being created.
    pub(crate) creating: BTreeSet<NamespaceName>,
    /// Attachments that are on their way out.
    pub(crate) leaving: BTreeSet<ObjectKey>,
    /// Pods that keep attachments from going.
    pub(crate) users: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
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
    pub(crate) fn again(mut self, scope: &Scope) -> Self {
        self.forget(scope);
        Self { early: false, network: None, ..self }
    }

    /// What is being created is seen in a moment; that it is missing until then is no news.
    pub(crate) fn is_early(&self) -> bool {
        self.early || (!self.creating.is_empty() && self.namespaces.is_empty() && self.network.is_none())
    }

    /// All pods that keep attachments from going.
    pub(crate) fn all_users(&self) -> BTreeSet<&ObjectKey> {
        self.users.values().flatten().collect()
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
            retired: None,
            failing: BTreeMap::new(),
            report: Report::default(),
        }
    }
}

impl Manager {
    pub(crate) fn udn_applied(&mut self, udn: Udn) {
        let ObjectKey { namespace, name } = udn.key;
        let Ok(name) = ObjectName::new(name) else { return };
        let intent = self.checked(&udn.defined.intent);
        let mut owner = Owner::new(udn.defined, intent, Selects::Own(namespace.clone()));
        owner.wanted = BTreeSet::from([namespace.clone()]);
        self.owner_applied(OwnerKey::Udn(namespace, name), owner);
    }

    pub(crate) fn udn_deleted(&mut self, key: &ObjectKey) {
        if let Ok(name) = ObjectName::new(key.name.clone()) {
            self.owner_deleted(&OwnerKey::Udn(key.namespace.clone(), name));
        }
    }

    pub(crate) fn cudn_applied(&mut self, cudn: Cudn) {
        let intent = self.checked(&cudn.defined.intent);
        // One that cannot be read selects nothing, and the intent says why.
        let selector = Selector::try_from(cudn.selector.clone()).ok();
        let selects = Selects::Labels(Box::new(cudn.selector), selector);
        let mut owner = Owner::new(cudn.defined, intent, selects);
        self.select_namespaces(&cudn.name, &mut owner);
        self.owner_applied(OwnerKey::Cudn(cudn.name), owner);
    }

    pub(crate) fn cudn_deleted(&mut self, name: &ObjectName) {
        let key = OwnerKey::Cudn(name.clone());
        if let Some(Selects::Labels(labels, _)) = self.owners.all.get(&key).map(|owner| owner.selects.clone())
        {
            self.namespaces.selectors.remove(name, &labels);
        }
        self.owner_deleted(&key);
    }

    /// All namespaces are compared only with a selector that is new.
    fn select_namespaces(&mut self, name: &ObjectName, owner: &mut Owner) {
        let Selects::Labels(labels, _) = &owner.selects else { return };
        let before = self.owners.all.get(&OwnerKey::Cudn(name.clone()));
        if let Some(before) = before {
            let Selects::Labels(old, _) = &before.selects else { return };
            if old == labels {
                owner.wanted.clone_from(&before.wanted);
                return;
            }
            self.namespaces.selectors.remove(name, old);
        }
        self.namespaces.selectors.insert(name, labels);
        let all = self.namespaces.all.values();
        owner.wanted = all.filter(|ns| owner.selects.matches(ns)).map(|ns| ns.name.clone()).collect();
    }

    /// What the spec means, checked against the cluster.
    fn checked(&self, intent: &Result<Network, Vec<Problem>>) -> Result<Network, Trouble> {
        let network = intent.as_ref().map_err(|problems| Trouble::from(&problems[..]))?;
        let problems = network.problems(&self.config.cluster);
        if problems.is_empty() { Ok(network.clone()) } else { Err(Trouble::from(&problems[..])) }
    }

    fn owner_applied(&mut self, key: OwnerKey, mut owner: Owner) {
        self.written_back(&key.target());
        let before = self.owners.all.remove(&key);
        let same = before.as_ref().is_some_and(|before| before.object.uid == owner.object.uid);
        if !same {
            self.dirty.clashes = true;
            self.owners.by_uid.insert(owner.object.uid.clone(), key.clone());
            self.owners.by_network.insert(key.network(), key.clone());
        }
        if let Some(before) = before {
            self.dirty.clashes |= before.intent != owner.intent;
            if same {
                owner.retired = before.retired;
                owner.failing = before.failing;
                owner.sent = before.sent.filter(|(sent, done)| !*done && *sent != owner.object.status);
            } else {
                self.owners.by_uid.remove(&before.object.uid);
            }
            self.unwant(&key, before.wanted.difference(&owner.wanted));
        }
        for namespace in &owner.wanted {
            self.owners.by_namespace.entry(namespace.clone()).or_default().insert(key.clone());
        }
        if owner.object.deleting {
            self.owners.going.insert(key.clone());
        }
        self.owners.all.insert(key.clone(), owner);
        self.dirty.reach.networks.insert(key.network());
        self.dirty.owners([key]);
    }

    fn unwant<'a>(&mut self, key: &OwnerKey, namespaces: impl Iterator<Item = &'a NamespaceName>) {
        for namespace in namespaces {
            if let Some(owners) = self.owners.by_namespace.get_mut(namespace) {
                owners.remove(key);
                if owners.is_empty() {
                    self.owners.by_namespace.remove(namespace);
                }
            }
        }
    }

    /// The object is gone, and with it its network: it went only after its attachments.
    fn owner_deleted(&mut self, key: &OwnerKey) {
        self.written_back(&key.target());
        let Some(owner) = self.owners.all.remove(key) else { return };
        self.owners.by_uid.remove(&owner.object.uid);
        self.owners.by_network.remove(&key.network());
        self.owners.going.remove(key);
        self.networks.starved.remove(key);
        self.unwant(key, owner.wanted.iter());
        let network = key.network();
        // Somebody has taken the finalizer away by force: the numbers rest all the same.
        if owner.retired.is_none() {
            self.quarantine(&network);
        }
        self.unregister(&network);
        self.release_numbers(&network);
        self.dirty.clashes = true;
        let others = owner.wanted.iter().filter_map(|namespace| self.owners.by_namespace.get(namespace));
        self.dirty.owners(others.flatten().cloned().collect::<Vec<_>>());
    }

    pub(crate) fn namespace_applied(&mut self, namespace: Namespace) {
        let name = namespace.name.clone();
        let before = self.namespaces.all.insert(name.clone(), namespace.clone());
        let now = &namespace;
        let mut candidates = self.namespaces.selectors.candidates(&now.labels);
        let labelled = |namespace: &Namespace| namespace.labels.contains_key(PRIMARY_NETWORK_LABEL);
        if before.as_ref().is_none_or(|before| labelled(before) != labelled(now)) {
            let own = self.nads.of(&name).map(|nad| nad.record.key.clone());
            self.dirty.nads.extend(own.collect::<Vec<_>>());
        }
        if let Some(before) = &before {
            candidates.extend(self.namespaces.selectors.candidates(&before.labels));
        } else {
            let suspects = self.nads.claiming(&name);
            self.dirty.clashes |= !suspects.is_empty();
            self.dirty.nads.extend(suspects);
        }
        for candidate in candidates {
            self.reselect(OwnerKey::Cudn(candidate), &name);
        }
        self.dirty.owners_in(self.owners.by_namespace.get(&name).into_iter().flatten().cloned(), &name);
        self.dirty.reach.namespaces.insert(name.clone());
        if before.as_ref() != self.namespaces.all.get(&name) {
            self.look_at_slices_in(&name);
        }
        self.wake(&Wait::Namespace(name));
    }

    pub(crate) fn namespace_deleted(&mut self, name: &NamespaceName) {
        self.dirty.reach.namespaces.insert(name.clone());
        if let Some(before) = self.namespaces.all.remove(name) {
            for candidate in self.namespaces.selectors.candidates(&before.labels) {
                self.reselect(OwnerKey::Cudn(candidate), name);
            }
        }
    }

    fn reselect(&mut self, key: OwnerKey, name: &NamespaceName) {
        let Some(owner) = self.owners.all.get_mut(&key) else { return };
        let wanted = self.namespaces.all.get(name).is_some_and(|namespace| owner.selects.matches(namespace));
        if wanted && owner.wanted.insert(name.clone()) {
            self.owners.by_namespace.entry(name.clone()).or_default().insert(key.clone());
            self.dirty.owners_in([key], name);
        } else if !wanted && owner.wanted.remove(name) {
            self.unwant(&key, [name].into_iter());
            self.dirty.owners_in([key], name);
        }
    }

    pub(crate) fn regarding_owner(&self, key: &OwnerKey) -> Option<Regarding> {
        let owner = self.owners.all.get(key)?;
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
