//! Attachments (NADs): which of them are networks, and whose.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::annotations::keys;
use causeway_api::nad::Attachment;
use causeway_record::Regarding;
use causeway_record::{Action, Kind, Part, Priority, Request, Target};
use causeway_record::{Nad, ObjectKey};
use causeway_types::{NamespaceName, NetworkName, NetworkOrigin};
use serde_json::json;

use crate::keys::Wait;
use crate::nodes::annotation_patch;
use crate::trouble::{INVALID_CONFIG, Trouble};
use crate::{Manager, OwnerKey};

/// All attachments.
#[derive(Debug, Default)]
pub(crate) struct Nads {
    pub(crate) all: BTreeMap<ObjectKey, NadState>,
    /// Attachments that no custom resource controls, by the network that they name.
    pub(crate) hand_written: BTreeMap<NetworkName, BTreeSet<ObjectKey>>,
    /// Attachments by who controls them.
    pub(crate) controlled: BTreeMap<String, BTreeSet<ObjectKey>>,
}

/// An attachment, and what has become of it.
#[derive(Debug)]
pub(crate) struct NadState {
    pub(crate) record: Nad,
    pub(crate) verdict: Verdict,
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

impl NadState {
    /// Whether a custom resource of ours is said to control it.
    pub(crate) fn is_controlled(&self) -> bool {
        controlled_by(&self.record).is_some()
    }

    /// Whether it would be a primary network if nothing were in the way.
    pub(crate) fn is_primary(&self) -> bool {
        matches!(&self.record.attachment, Attachment::Ours(network) if network.is_primary())
    }
}

/// The UID of the custom resource of ours that controls an attachment.
pub(crate) fn controlled_by(nad: &Nad) -> Option<&str> {
    let ours = ["UserDefinedNetwork", "ClusterUserDefinedNetwork"];
    let controller = nad.controller.as_ref().filter(|owner| ours.contains(&owner.kind.as_str()))?;
    Some(&controller.uid)
}

impl Nads {
    /// All attachments of a namespace.
    pub(crate) fn of(&self, namespace: &NamespaceName) -> impl Iterator<Item = &NadState> {
        let first = ObjectKey { namespace: namespace.clone(), name: String::new() };
        self.all.range(first..).map(|(_, nad)| nad).take_while(|nad| nad.record.key.namespace == *namespace)
    }

    /// Attachments written by hand that name a network of the namespace.
    pub(crate) fn claiming(&self, namespace: &NamespaceName) -> Vec<ObjectKey> {
        let of_namespace = |name: &NetworkName| matches!(name.origin(), NetworkOrigin::Namespaced(owner, _) if owner == *namespace);
        let claiming = self.hand_written.iter().filter(|(name, _)| of_namespace(name));
        claiming.flat_map(|(_, nads)| nads.iter().cloned()).collect()
    }

    fn index(&mut self, key: &ObjectKey, add: bool) {
        let Some(nad) = self.all.get(key) else { return };
        match (controlled_by(&nad.record).map(str::to_owned), &nad.record.attachment) {
            (Some(uid), _) => toggle(&mut self.controlled, uid, key, add),
            (None, Attachment::Ours(network)) => {
                let name = network.name.clone();
                toggle(&mut self.hand_written, name, key, add);
            }
            _ => {}
        }
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

impl Manager {
    pub(crate) fn nad_applied(&mut self, record: Nad) {
        let key = record.key.clone();
        self.written_back(&nad_target(&key));
        self.nads.index(&key, false);
        let before = self.nads.all.remove(&key);
        let renamed = before.as_ref().is_none_or(|before| before.record.attachment != record.attachment);
        self.dirty.clashes |= renamed && controlled_by(&record).is_none();
        let (verdict, told) = before.map_or((Verdict::Foreign, None), |before| (before.verdict, before.told));
        self.nads.all.insert(key.clone(), NadState { record, verdict, told });
        self.nads.index(&key, true);
        self.dirty.nads.insert(key);
    }

    pub(crate) fn nad_deleted(&mut self, key: &ObjectKey) {
        self.written_back(&nad_target(key));
        self.nads.index(key, false);
        let Some(nad) = self.nads.all.remove(key) else { return };
        if let Verdict::Accepted(network) = &nad.verdict {
            self.detach(key, network);
        }
        self.dirty.clashes |= !nad.is_controlled();
        self.look_around(key, controlled_by(&nad.record));
    }

    /// Everything that may see the attachment differently now.
    fn look_around(&mut self, key: &ObjectKey, controller: Option<&str>) {
        let owner = controller.and_then(|uid| self.owners.by_uid.get(uid));
        let here = self.owners.by_namespace.get(&key.namespace).into_iter().flatten();
        self.dirty.owners_in(owner.into_iter().chain(here).cloned(), &key.namespace);
        let refused = self.nads.of(&key.namespace).filter(|nad| matches!(nad.verdict, Verdict::Second(_)));
        self.dirty.nads.extend(refused.map(|nad| nad.record.key.clone()).collect::<Vec<_>>());
        self.dirty.reach.namespaces.insert(key.namespace.clone());
        self.look_at_slices_in(&key.namespace);
        self.wake(&Wait::Namespace(key.namespace.clone()));
        self.wake(&Wait::Nad(key.clone()));
    }

    /// Looks at an attachment, and at everybody whom a new verdict concerns.
    pub(crate) fn settle_nad(&mut self, key: &ObjectKey) {
        let Some(nad) = self.nads.all.get(key) else { return };
        let before = nad.verdict.clone();
        let controller = controlled_by(&nad.record).map(str::to_owned);
        let verdict = self.judge(key);
        if verdict != before {
            if let Verdict::Accepted(network) = &before {
                self.detach(key, network);
            }
            if let Some(nad) = self.nads.all.get_mut(key) {
                nad.verdict = verdict.clone();
            }
            if let Verdict::Accepted(network) = &verdict {
                self.attach(key, network);
            }
            self.look_around(key, controller.as_deref());
        }
        let owner = controller.and_then(|uid| self.owners.by_uid.get(&uid).cloned());
        self.dirty.owners_in(owner.clone(), &key.namespace);
        match &verdict {
            Verdict::Accepted(network) if owner.is_none() => self.number_nad(key, network),
            Verdict::Refused(trouble) | Verdict::Second(trouble) => self.tell_nad(key, trouble),
            Verdict::Stale if owner.is_none() => self.remove_stale(key),
            _ => {}
        }
    }

    fn attach(&mut self, key: &ObjectKey, network: &NetworkName) {
        if let Some(state) = self.networks.all.get_mut(network) {
            state.nads.insert(key.clone());
        }
        self.adopt_users(key);
    }

    /// A network that no custom resource has goes with its last attachment.
    fn detach(&mut self, key: &ObjectKey, network: &NetworkName) {
        let Some(state) = self.networks.all.get_mut(network) else { return };
        state.nads.remove(key);
        if state.nads.is_empty() && state.owner.is_none() {
            self.quarantine(network);
            self.unregister(network);
            self.release_numbers(network);
            self.forget_holds(key);
        }
    }

    /// Writes the network's numbers on an attachment that is written by hand.
    fn number_nad(&mut self, key: &ObjectKey, network: &NetworkName) {
        let (Some(state), Some(nad)) = (self.networks.all.get(network), self.nads.all.get(key)) else {
            return;
        };
        if let Some(body) = annotation_patch(&nad.record.annotations, &state.annotations()) {
            self.write(Request {
                target: nad_target(key),
                part: Part::Annotations,
                priority: Priority::Network,
                action: Action::Merge { subresource: None, body },
                token: 0,
            });
        }
    }

    fn tell_nad(&mut self, key: &ObjectKey, trouble: &Trouble) {
        let Some(nad) = self.nads.all.get_mut(key) else { return };
        if nad.told.as_deref() == Some(&trouble.message) {
            return;
        }
        nad.told = Some(trouble.message.clone());
        let regarding = Regarding {
            api_version: "k8s.cni.cncf.io/v1".into(),
            kind: "NetworkAttachmentDefinition".into(),
            namespace: Some(key.namespace.to_string()),
            name: key.name.clone(),
            uid: nad.record.uid.clone(),
        };
        self.say(regarding, INVALID_CONFIG, format!("Failed to parse network config: {}", trouble.message));
    }

    /// The attachment was left behind by a custom resource that is gone, or claims to be rendered from one.
    fn remove_stale(&mut self, key: &ObjectKey) {
        if self.pods.users.contains_key(key) {
            return;
        }
        self.remove_nad(key);
    }

    /// Deletes an attachment; its finalizer goes only after the deletion is seen.
    pub(crate) fn remove_nad(&mut self, key: &ObjectKey) {
        let Some(nad) = self.nads.all.get(key) else { return };
        let ours = |finalizer: &String| finalizer == keys::NETWORK_FINALIZER;
        let (part, action) = if !nad.record.deleting {
            (Part::Deletion, Action::Delete { uid: nad.record.uid.clone() })
        } else if nad.record.finalizers.iter().any(ours) {
            let others: Vec<&String> = nad.record.finalizers.iter().filter(|f| !ours(f)).collect();
            let body = json!({"metadata": {"uid": nad.record.uid, "finalizers": others}});
            (Part::Finalizer, Action::Merge { subresource: None, body })
        } else {
            return;
        };
        self.write(Request { target: nad_target(key), part, priority: Priority::Network, action, token: 0 });
    }

    /// The accepted primary attachment of a namespace.
    pub(crate) fn primary_of(&self, namespace: &NamespaceName) -> Option<(&ObjectKey, &NetworkName)> {
        self.nads.of(namespace).find_map(|nad| match &nad.verdict {
            Verdict::Accepted(network) => {
                let primary = self.networks.all.get(network).is_some_and(|state| state.intent.is_primary());
                primary.then_some((&nad.record.key, network))
            }
            _ => None,
        })
    }

    pub(crate) fn owner_of_nad(&self, key: &ObjectKey) -> Option<&OwnerKey> {
        let nad = self.nads.all.get(key)?;
        self.owners.by_uid.get(controlled_by(&nad.record)?)
    }
}

pub(crate) fn nad_target(key: &ObjectKey) -> Target {
    Target {
        kind: Kind::NetworkAttachmentDefinition,
        namespace: Some(key.namespace.to_string()),
        name: key.name.clone(),
    }
}
