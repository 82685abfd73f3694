//! What a user-defined network needs in each of its namespaces: an attachment.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::annotations::{Annotation, NetworkCreated, keys};
use causeway_api::crd::{NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec};
use causeway_api::intent::{Network, PodSubnet, changes};
use causeway_api::nad::{self, Attachment, Standing};
use causeway_record::{Action, Nad, ObjectKey, Part, Priority, Texts};
use causeway_types::{NamespaceName, NetworkSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use super::{Owner, Owners, Report};
use crate::attachments::{nad_target, primary_exists};
use crate::dirty::Scope;
use crate::networks::{NUMBERS_EXHAUSTED, Source, canonical};
use crate::trouble::{Lacks, Trouble, invalid_primary_network};
use crate::{Manager, OwnerKey};

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

impl Manager {
    /// Looks at an owner: provides what it wants, or takes away what it leaves behind.
    pub(crate) fn settle_owner(&mut self, key: &OwnerKey, scope: Scope) {
        let stood = self.standing(key);
        let Some(owner) = self.owners.all.get_mut(key) else { return };
        let before = std::mem::take(&mut owner.report);
        let report =
            if owner.object.deleting { self.take_away(key) } else { self.provide(key, scope, before) };
        if let Some(owner) = self.owners.all.get_mut(key) {
            owner.report = report;
        }
        self.note_standing(key, stood);
        if self.networks.get(&key.network()).is_none() {
            // Connections say why it is not there.
            self.dirty.reach_network(&key.network());
        }
        self.dirty.statuses([key.clone()]);
    }

    /// Attachments are made only after the finalizer is seen: the object must not go before them. What is not wanted any
    /// more goes even if the network is invalid meanwhile.
    fn provide(&mut self, key: &OwnerKey, scope: Scope, before: Report) -> Report {
        if !self.vteps.are_known() && self.owners.is_on_fabric(key) {
            // Whether it can be on the fabric is not known yet, so nothing is said and nothing goes.
            self.keep_running(key);
            return Report { early: true, ..before };
        }
        let usable = self.usable(key);
        // Namespaces have not been looked at while the network as a whole was not to be had.
        let scope = if before.early || before.network.is_some() { Scope::All } else { scope };
        let mut report = before.again(&scope);
        match usable {
            Ok(network) => {
                if !self.protect(key) {
                    report.early = true;
                    return report;
                }
                for namespace in self.owners.wanted_in(key, &scope) {
                    if let Err(trouble) = self.provide_in(key, &namespace, &network, &mut report) {
                        report.namespaces.insert(namespace, trouble);
                    }
                }
            }
            Err(trouble) => {
                self.keep_running(key);
                report.network = Some(trouble);
            }
        }
        self.withdraw(key, &scope, &mut report);
        report
    }

    /// The network as it can be rendered, registered with its numbers.
    fn usable(&mut self, key: &OwnerKey) -> Result<Network, Trouble> {
        if let Some(flag) = self.config.features.without_networks() {
            let message = format!("user-defined networks are switched off in this cluster ({flag})");
            return Err(Trouble::new("FeatureDisabled", message));
        }
        let Some(owner) = self.owners.all.get(key) else {
            return Err(Trouble::new("NotFound", format!("{key} is not there")));
        };
        let (network, is_wanted) = (owner.intent.clone()?, !owner.wanted.is_empty());
        if let Some(clash) = self.clashes.of(&network.name) {
            return Err(clash.clone().into());
        }
        let wanted = canonical(&network, &self.config.cluster)?;
        self.keep_running(key);
        self.check_fabric(&network)?;
        self.check_underlay(&wanted)?;
        self.check_siblings(key, &wanted)?;
        if let Some(state) = self.networks.get(&network.name) {
            let problems = changes(state.intent(), &wanted);
            if !problems.is_empty() {
                return Err(Trouble::from(&problems[..]));
            }
        }
        // A network has its numbers from its first namespace on, until it goes.
        let numbered = self.numbers.has_id(&network.name);
        if numbered || is_wanted {
            self.register_owned(wanted, key)?;
        }
        Ok(network)
    }

    /// Subnets that are new must not have addresses of nodes; what runs goes on running.
    pub(crate) fn check_underlay(&self, wanted: &Network) -> Result<(), Trouble> {
        let known = self.networks.get(&wanted.name).map(|state| &state.intent().subnets);
        let is_new = |subnet: &&PodSubnet| known.is_none_or(|known| !known.contains(subnet));
        let fresh =
            Network { subnets: wanted.subnets.iter().filter(is_new).copied().collect(), ..wanted.clone() };
        fresh.underlay_overlap(self.nodes.named_addresses()).map_or(Ok(()), |problem| Err(problem.into()))
    }

    fn register_owned(&mut self, intent: Network, key: &OwnerKey) -> Result<(), Trouble> {
        let fresh = self.networks.get(&intent.name).is_none();
        let registered = self.register(intent, &Source::Owner(key.clone()));
        match &registered {
            Ok(()) if fresh => self.judge_again(key),
            Ok(()) => {}
            Err(trouble) if trouble.reason == NUMBERS_EXHAUSTED => self.networks.starve(key),
            // Who waits for the namespace's budget is woken by it; everything else shows in an event.
            Err(_) => {}
        }
        registered
    }

    fn judge_again(&mut self, key: &OwnerKey) {
        let nads = self.rendered_from(key);
        self.dirty.nads(nads);
    }

    /// The attachments that say to come from the owner.
    fn rendered_from(&self, key: &OwnerKey) -> Vec<ObjectKey> {
        let Some(owner) = self.owners.all.get(key) else { return Vec::new() };
        self.attachments.rendered_from(&owner.object.uid).into_iter().flatten().cloned().collect()
    }

    /// A network that has been rendered exists as its attachments say, also while its object says something else.
    pub(crate) fn keep_running(&mut self, key: &OwnerKey) {
        let network = key.network();
        if self.networks.get(&network).is_some() {
            return;
        }
        let nads = self.rendered_from(key);
        let found = |nad: &Nad| match &nad.attachment {
            Attachment::Ours(found) if nad.is_numbered() && found.name == network => Some((**found).clone()),
            _ => None,
        };
        let rendered = nads.iter().filter_map(|key| self.attachments.get(key)).find_map(found);
        if let Some(rendered) = rendered {
            // Its numbers have been restored; where they are not to be had, the object's own trouble is said.
            let _said_elsewhere = self.register_owned(rendered, key);
        }
    }

    /// Whether the finalizer is there; it is asked for if not.
    fn protect(&mut self, key: &OwnerKey) -> bool {
        let Some(Owner { object, .. }) = self.owners.all.get(key) else { return false };
        if object.finalizers.iter().any(|finalizer| finalizer == keys::NETWORK_FINALIZER) {
            return true;
        }
        let mut finalizers = object.finalizers.clone();
        finalizers.push(keys::NETWORK_FINALIZER.to_owned());
        self.write_finalizers(key, finalizers);
        false
    }

    /// The list is written as a whole, so only over the version that was seen.
    pub(super) fn write_finalizers(&mut self, key: &OwnerKey, finalizers: Vec<String>) {
        let Some(Owner { object, .. }) = self.owners.all.get(key) else { return };
        let body = json!({"metadata": {
            "uid": object.uid,
            "resourceVersion": object.version,
            "finalizers": finalizers,
        }});
        let action = Action::Merge { subresource: None, body };
        self.writes.ask(key.target(), Part::Finalizer, Priority::Network, action);
    }

    fn provide_in(
        &mut self,
        key: &OwnerKey,
        namespace: &NamespaceName,
        network: &Network,
        report: &mut Report,
    ) -> Result<(), Trouble> {
        if !self.namespaces.contains(namespace) {
            return Err(Trouble::new("NamespaceNotFound", format!("namespace {namespace} is not there")));
        }
        let nad = ObjectKey { namespace: namespace.clone(), name: key.name().to_string() };
        if network.is_primary() && !self.namespaces.is_labelled(namespace) {
            return Err(invalid_primary_network(namespace.as_str(), Lacks::Label));
        }
        let conflict = self.primary_in_the_way(key, &nad).filter(|_| network.is_primary());
        match self.attachments.get(&nad) {
            None if conflict.is_none() && !self.namespaces.is_going(namespace) => {
                report.creating.insert(namespace.clone());
                self.create_nad(key, &nad, network);
                if let Some(trouble) = self.owners.all.get(key).and_then(|owner| owner.failing.get(namespace))
                {
                    return Err(trouble.clone());
                }
            }
            None => {}
            Some(record) if record.deleting => {
                report.leaving.insert(nad.clone());
                match self.pods.users(&nad) {
                    Some(users) => {
                        report.users.insert(nad.clone(), users.clone());
                    }
                    None => self.remove_nad(&nad),
                }
            }
            Some(_) => {
                self.update_nad(key, &nad, network)?;
                self.owners.all.get_mut(key).map(|owner| owner.failing.remove(namespace));
            }
        }
        conflict.map_or(Ok(()), Err)
    }

    /// Another network that is, or is about to be, a primary one of the namespace, and cannot be beside this one.
    fn primary_in_the_way(&self, key: &OwnerKey, nad: &ObjectKey) -> Option<Trouble> {
        let mut there =
            self.attachments.other_primaries(nad).filter(|other| !self.are_beside(nad, Some(key), other));
        let is_sibling = |other: &OwnerKey| self.owners.are_siblings(key, other);
        let mut coming = self.owners.coming_primaries(key, &nad.namespace).filter(|other| !is_sibling(other));
        let other = there.next().map(|other| other.name.as_str());
        let other = other.or_else(|| coming.next().map(|other| other.name().as_str()))?;
        Some(primary_exists(&nad.namespace, other))
    }

    fn create_nad(&mut self, key: &OwnerKey, nad: &ObjectKey, network: &Network) {
        let Some(wanted) = self.wanted_nad(key, nad, network, None) else { return };
        let mut body = serde_json::to_value(wanted).unwrap_or_default();
        body["apiVersion"] = "k8s.cni.cncf.io/v1".into();
        body["kind"] = "NetworkAttachmentDefinition".into();
        self.writes.ask(nad_target(nad), Part::Object, Priority::Network, Action::Create(body));
    }

    fn update_nad(&mut self, key: &OwnerKey, nad: &ObjectKey, network: &Network) -> Result<(), Trouble> {
        let Some(record) = self.attachments.get(nad) else { return Ok(()) };
        let existing = as_object(record);
        let Some(wanted) = self.wanted_nad(key, nad, network, Some(&existing)) else { return Ok(()) };
        let Some(owner) = self.owners.of_nads(key) else { return Ok(()) };
        match nad::standing(&existing, &wanted, &owner) {
            Standing::Foreign => Err(Trouble::new(
                "ForeignNetworkAttachmentDefinition",
                format!("foreign NetworkAttachmentDefinition with the desired name already exist [{nad}]"),
            )),
            Standing::Current => Ok(()),
            Standing::Outdated
                if self.networks.has_grown(record) && !self.connections_follow(&network.name) =>
            {
                self.owners.growing.insert(key.clone());
                Ok(())
            }
            Standing::Outdated => {
                let body = difference(record, &wanted);
                let action = Action::Merge { subresource: None, body };
                self.writes.ask(nad_target(nad), Part::Object, Priority::Network, action);
                Ok(())
            }
        }
    }

    /// Has those looked at that have waited for connections to follow.
    pub(crate) fn wake_grown(&mut self) -> bool {
        let follow = |key: &&OwnerKey| self.connections_follow(&key.network());
        let awake: BTreeSet<OwnerKey> = self.owners.growing.iter().filter(follow).cloned().collect();
        self.owners.growing.retain(|key| !awake.contains(key));
        let any = !awake.is_empty();
        self.dirty.owners(awake);
        any
    }

    /// The attachment as it should be, numbers included.
    fn wanted_nad(
        &self,
        key: &OwnerKey,
        nad: &ObjectKey,
        network: &Network,
        existing: Option<&NetworkAttachmentDefinition>,
    ) -> Option<NetworkAttachmentDefinition> {
        let owner = self.owners.of_nads(key)?;
        let mut wanted = nad::render(network, &owner, &nad.namespace, &self.config.cluster, existing);
        let state = self.networks.get(&network.name)?;
        // A second primary network gets no numbers: it is not a network.
        if !self.attachments.is_second(nad) {
            let annotations = wanted.metadata.annotations.get_or_insert_default();
            annotations.extend(state.annotations());
            annotations.extend(self.owners.set_of(key).map(|set| (NetworkSet::KEY.to_owned(), set.text())));
            let created = self.owners.created(key).map(NetworkCreated).filter(|_| network.is_primary());
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
