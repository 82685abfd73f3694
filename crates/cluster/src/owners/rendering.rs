//! What a user-defined network needs in each of its namespaces: an attachment.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::annotations::{Annotation, NetworkCreated, keys};
use causeway_api::crd::{NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec};
use causeway_api::intent::Network;
use causeway_api::nad::{self, Attachment, Standing};
use causeway_record::{Action, Nad, ObjectKey, Part, Priority, Texts};
use causeway_types::{NamespaceName, NetworkName, NetworkSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use super::{Owner, Owners, Report, Standing as Stood};
use crate::attachments::{Attachments, nad_target, primary_exists};
use crate::connections::{Connects, Surroundings};
use crate::dirty::{Dirty, Scope};
use crate::namespaces::Namespaces;
use crate::networks::Networks;
use crate::nodes::Nodes;
use crate::pods::Pods;
use crate::trouble::{Lacks, Trouble, invalid_primary_network};
use crate::writes::Writes;
use crate::{Config, OwnerKey};

impl Owners {
    /// The namespaces that an object wants, of those that are looked at.
    fn wanted_in(&self, key: &OwnerKey, scope: &Scope) -> Vec<NamespaceName> {
        let Some(Owner { wanted, .. }) = self.all.get(key) else { return Vec::new() };
        match scope {
            Scope::All => wanted.iter().cloned().collect(),
            Scope::Namespaces(namespaces) => namespaces.intersection(wanted).cloned().collect(),
        }
    }

    /// The object as its attachments name it.
    fn of_nads(&self, key: &OwnerKey) -> Option<nad::Owner> {
        let Owner { object, .. } = self.all.get(key)?;
        Some(nad::Owner {
            kind: key.kind(),
            name: key.name().to_string(),
            uid: object.uid.clone(),
            labels: object.labels.clone(),
            annotations: object.annotations.clone(),
        })
    }
}

/// What attachments are made of, and what stands in their way.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub(crate) config: &'a Config,
    pub(crate) nodes: &'a Nodes,
    pub(crate) namespaces: &'a Namespaces,
    pub(crate) attachments: &'a Attachments,
    pub(crate) networks: &'a Networks,
    pub(crate) pods: &'a Pods,
    pub(crate) connects: &'a Connects,
}

impl Ground<'_> {
    /// Whether connections have been decided with the network as it is now.
    fn follows(&self, network: &NetworkName, owners: &Owners) -> bool {
        let Ground { config, nodes, namespaces, attachments, networks, connects, .. } = *self;
        let around = Surroundings { config, networks, owners, namespaces, attachments, nodes };
        connects.follow(network, &around)
    }
}

impl Owners {
    /// Begins to look at an owner; the answer is what was found the last time, and how it stood.
    pub(crate) fn look(&mut self, key: &OwnerKey, networks: &Networks) -> Option<(Report, Stood)> {
        let stood = self.standing(key, networks);
        let owner = self.all.get_mut(key)?;
        Some((std::mem::take(&mut owner.report), stood))
    }

    /// An owner has been looked at.
    pub(crate) fn looked(
        &mut self,
        key: &OwnerKey,
        report: Report,
        stood: Stood,
        networks: &Networks,
        dirty: &mut Dirty,
    ) {
        if let Some(owner) = self.all.get_mut(key) {
            owner.report = report;
        }
        self.note_standing(key, stood, networks, dirty);
    }

    /// Attachments are made only after the finalizer is seen: the object must not go before them. What is not wanted any
    /// more goes even if the network is invalid meanwhile.
    pub(crate) fn provide(
        &mut self,
        key: &OwnerKey,
        scope: Scope,
        (usable, before): (Result<Network, Trouble>, Report),
        ground: Ground<'_>,
        writes: &mut Writes,
    ) -> Report {
        // Namespaces have not been looked at while the network as a whole was not to be had.
        let scope = if before.early || before.network.is_some() { Scope::All } else { scope };
        let mut report = before.again(&scope);
        match usable {
            Ok(network) => {
                if !self.protect(key, writes) {
                    report.early = true;
                    return report;
                }
                for namespace in self.wanted_in(key, &scope) {
                    let provided = self.provide_in(key, &namespace, &network, &mut report, ground, writes);
                    if let Err(trouble) = provided {
                        report.namespaces.insert(namespace, trouble);
                    }
                }
            }
            Err(trouble) => report.network = Some(trouble),
        }
        self.withdraw(key, &scope, &mut report, ground, writes);
        report
    }

    /// The attachments that say to come from the owner.
    pub(crate) fn rendered_from(&self, key: &OwnerKey, attachments: &Attachments) -> Vec<ObjectKey> {
        let Some(owner) = self.all.get(key) else { return Vec::new() };
        attachments.rendered_from(&owner.object.uid).into_iter().flatten().cloned().collect()
    }

    /// The network as the attachments that are rendered from an owner say it.
    pub(crate) fn rendered(&self, key: &OwnerKey, attachments: &Attachments) -> Option<Network> {
        let network = key.network();
        let found = |nad: &Nad| match &nad.attachment {
            Attachment::Ours(found) if nad.is_numbered() && found.name == network => Some((**found).clone()),
            _ => None,
        };
        let nads = self.rendered_from(key, attachments);
        nads.iter().filter_map(|key| attachments.get(key)).find_map(found)
    }

    /// Whether the finalizer is there; it is asked for if not.
    fn protect(&self, key: &OwnerKey, writes: &mut Writes) -> bool {
        let Some(Owner { object, .. }) = self.all.get(key) else { return false };
        if object.finalizers.iter().any(|finalizer| finalizer == keys::NETWORK_FINALIZER) {
            return true;
        }
        let mut finalizers = object.finalizers.clone();
        finalizers.push(keys::NETWORK_FINALIZER.to_owned());
        self.write_finalizers(key, finalizers, writes);
        false
    }

    /// The list is written as a whole, so only over the version that was seen.
    pub(super) fn write_finalizers(&self, key: &OwnerKey, finalizers: Vec<String>, writes: &mut Writes) {
        let Some(Owner { object, .. }) = self.all.get(key) else { return };
        let body = json!({"metadata": {
            "uid": object.uid,
            "resourceVersion": object.version,
            "finalizers": finalizers,
        }});
        let action = Action::Merge { subresource: None, body };
        writes.ask(key.target(), Part::Finalizer, Priority::Network, action);
    }

    fn provide_in(
        &mut self,
        key: &OwnerKey,
        namespace: &NamespaceName,
        network: &Network,
        report: &mut Report,
        ground: Ground<'_>,
        writes: &mut Writes,
    ) -> Result<(), Trouble> {
        if !ground.namespaces.contains(namespace) {
            return Err(Trouble::new("NamespaceNotFound", format!("namespace {namespace} is not there")));
        }
        let nad = ObjectKey { namespace: namespace.clone(), name: key.name().to_string() };
        if network.is_primary() && !ground.namespaces.is_labelled(namespace) {
            return Err(invalid_primary_network(namespace.as_str(), Lacks::Label));
        }
        let conflict =
            self.primary_in_the_way(key, &nad, ground.attachments).filter(|_| network.is_primary());
        match ground.attachments.get(&nad) {
            None if conflict.is_none() && !ground.namespaces.is_going(namespace) => {
                report.creating.insert(namespace.clone());
                self.create_nad(key, &nad, network, ground, writes);
                if let Some(trouble) = self.all.get(key).and_then(|owner| owner.failing.get(namespace)) {
                    return Err(trouble.clone());
                }
            }
            None => {}
            Some(record) if record.deleting => {
                report.leaving.insert(nad.clone());
                report.let_go(&nad, ground, writes);
            }
            Some(_) => {
                self.update_nad(key, &nad, network, ground, writes)?;
                self.all.get_mut(key).map(|owner| owner.failing.remove(namespace));
            }
        }
        conflict.map_or(Ok(()), Err)
    }

    /// Another network that is, or is about to be, a primary one of the namespace, and cannot be beside this one.
    fn primary_in_the_way(
        &self,
        key: &OwnerKey,
        nad: &ObjectKey,
        attachments: &Attachments,
    ) -> Option<Trouble> {
        let mut there = attachments
            .other_primaries(nad)
            .filter(|other| !attachments.are_beside(nad, Some(key), other, self));
        let is_sibling = |other: &OwnerKey| self.are_siblings(key, other);
        let mut coming = self.coming_primaries(key, &nad.namespace).filter(|other| !is_sibling(other));
        let other = there.next().map(|other| other.name.as_str());
        let other = other.or_else(|| coming.next().map(|other| other.name().as_str()))?;
        Some(primary_exists(&nad.namespace, other))
    }

    fn create_nad(
        &self,
        key: &OwnerKey,
        nad: &ObjectKey,
        network: &Network,
        ground: Ground<'_>,
        writes: &mut Writes,
    ) {
        let Some(wanted) = self.wanted_nad(key, nad, network, None, ground) else { return };
        let mut body = serde_json::to_value(wanted).unwrap_or_default();
        body["apiVersion"] = "k8s.cni.cncf.io/v1".into();
        body["kind"] = "NetworkAttachmentDefinition".into();
        writes.ask(nad_target(nad), Part::Object, Priority::Network, Action::Create(body));
    }

    fn update_nad(
        &mut self,
        key: &OwnerKey,
        nad: &ObjectKey,
        network: &Network,
        ground: Ground<'_>,
        writes: &mut Writes,
    ) -> Result<(), Trouble> {
        let Some(record) = ground.attachments.get(nad) else { return Ok(()) };
        let existing = as_object(record);
        let Some(wanted) = self.wanted_nad(key, nad, network, Some(&existing), ground) else { return Ok(()) };
        let Some(owner) = self.of_nads(key) else { return Ok(()) };
        match nad::standing(&existing, &wanted, &owner) {
            Standing::Foreign => Err(Trouble::new(
                "ForeignNetworkAttachmentDefinition",
                format!("foreign NetworkAttachmentDefinition with the desired name already exist [{nad}]"),
            )),
            Standing::Current => Ok(()),
            Standing::Outdated
                if ground.networks.has_grown(record) && !ground.follows(&network.name, self) =>
            {
                self.growing.insert(key.clone());
                Ok(())
            }
            Standing::Outdated => {
                let body = difference(record, &wanted);
                let action = Action::Merge { subresource: None, body };
                writes.ask(nad_target(nad), Part::Object, Priority::Network, action);
                Ok(())
            }
        }
    }

    /// Has those looked at that have waited for connections to follow.
    pub(crate) fn wake_grown(&mut self, ground: Ground<'_>, dirty: &mut Dirty) -> bool {
        let follow = |key: &&OwnerKey| ground.follows(&key.network(), self);
        let awake: BTreeSet<OwnerKey> = self.growing.iter().filter(follow).cloned().collect();
        self.growing.retain(|key| !awake.contains(key));
        let any = !awake.is_empty();
        dirty.owners(awake);
        any
    }

    /// The attachment as it should be, numbers included.
    fn wanted_nad(
        &self,
        key: &OwnerKey,
        nad: &ObjectKey,
        network: &Network,
        existing: Option<&NetworkAttachmentDefinition>,
        ground: Ground<'_>,
    ) -> Option<NetworkAttachmentDefinition> {
        let owner = self.of_nads(key)?;
        let mut wanted = nad::render(network, &owner, &nad.namespace, &ground.config.cluster, existing);
        let state = ground.networks.get(&network.name)?;
        // A second primary network gets no numbers: it is not a network.
        if !ground.attachments.is_second(nad) {
            let annotations = wanted.metadata.annotations.get_or_insert_default();
            annotations.extend(state.annotations());
            annotations.extend(self.set_of(key).map(|set| (NetworkSet::KEY.to_owned(), set.text())));
            let created = self.created(key).map(NetworkCreated).filter(|_| network.is_primary());
            annotations.extend(created.map(|created| (NetworkCreated::KEY.to_owned(), created.text())));
        }
        Some(wanted)
    }
}

/// The object as far as it is kept.
fn as_object(nad: &Nad) -> NetworkAttachmentDefinition {
    let controller = nad.controller.as_ref().map(|owner| OwnerReference {
        api_version: "k8s.ovn.org/v1".into(),
        kind: owner.kind.clone(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    });
    NetworkAttachmentDefinition {
        metadata: ObjectMeta {
            labels: Some(nad.labels.clone()),
            annotations: Some(nad.annotations.clone()),
            finalizers: Some(nad.finalizers.clone()),
            owner_references: controller.map(|controller| vec![controller]),
            ..ObjectMeta::default()
        },
        spec: NetworkAttachmentDefinitionSpec { config: Some(nad.config().to_owned()) },
    }
}

/// What has to be merged into the attachment so that it is as it should be.
fn difference(there: &Nad, wanted: &NetworkAttachmentDefinition) -> Value {
    let meta = &wanted.metadata;
    let mut finalizers = there.finalizers.clone();
    if !finalizers.iter().any(|finalizer| finalizer == keys::NETWORK_FINALIZER) {
        finalizers.push(keys::NETWORK_FINALIZER.to_owned());
    }
    json!({
        "metadata": {
            "uid": there.uid,
            "labels": merged(&there.labels, meta.labels.as_ref()),
            "annotations": merged(&there.annotations, meta.annotations.as_ref()),
            "finalizers": finalizers,
        },
        "spec": {"config": wanted.spec.config},
    })
}

/// What is wanted, and `null` for what is there and is not wanted.
fn merged(there: &Texts, wanted: Option<&Texts>) -> BTreeMap<String, Value> {
    let gone = there.keys().map(|key| (key.clone(), Value::Null));
    let kept = wanted.into_iter().flatten().map(|(key, value)| (key.clone(), Value::from(value.clone())));
    gone.chain(kept).collect()
}
