//! What the mirror of a slice is to be, and the writes that make it so.

use std::borrow::Cow;
use std::collections::BTreeMap;

use causeway_api::annotations::keys;
use causeway_api::intent::ClusterConfig;
use causeway_record::{Action, ObjectKey, Part, Priority, Regarding};
use causeway_types::NetworkName;
use serde_json::{Value, json};

use super::endpoints::Serving;
use super::kept::{Content, Kept, LABELS, Shape, Source};
use super::{Mirrors, mirror_key, slice_target};
use crate::attachments::Attachments;
use crate::connections::Connects;
use crate::dirty::Dirty;
use crate::namespaces::Namespaces;
use crate::networks::Networks;
use crate::nodes::Nodes;
use crate::owners::Owners;
use crate::pods::Pods;
use crate::writes::Writes;

/// The one part of a mirror that is written: all of it.
const PART: Part = Part::Object;
/// Events about slices that have no mirror because somebody has its name.
const MIRROR_NAME_TAKEN: &str = "MirrorNameTaken";

/// What is to be beside a slice.
enum Wanted<'a> {
    /// Too little is known; what is there stays.
    Hold,
    /// No mirror.
    Absent,
    Mirror(Shape<'a>),
}

impl Mirrors {
    /// The next EndpointSlice to look at, once all have been listed.
    pub(crate) fn next(&self, dirty: &mut Dirty) -> Option<ObjectKey> {
        if self.listed { dirty.next_endpoint_slice() } else { None }
    }

    /// Makes the mirror of a slice what it should be. The slice itself may be gone.
    pub(crate) fn settle(&mut self, source: &ObjectKey, around: Around<'_>, writes: &mut Writes) {
        self.tell_taken(source, around, writes);
        self.note_by_address(source, around.pods);
        self.tell_skipped(source, around, writes);
        for (mirror, action) in self.seen_in(around).writes(source, writes) {
            let target = slice_target(&mirror);
            match action {
                Some(action) => drop(writes.ask(target, PART, Priority::Network, action)),
                None => writes.withdraw(&target, PART),
            }
        }
    }

    pub(super) fn seen_in<'a>(&'a self, around: Around<'a>) -> Scene<'a> {
        Scene { mirrors: self, around }
    }

    /// Says once that a slice has no mirror because another slice has its name.
    fn tell_taken(&mut self, key: &ObjectKey, around: Around<'_>, writes: &mut Writes) {
        let taken = self.seen_in(around).taken(key);
        if taken.is_none() {
            self.told.remove(key);
        }
        let Some((regarding, message)) = taken.filter(|_| self.told.insert(key.clone())) else {
            return;
        };
        writes.warn(regarding, MIRROR_NAME_TAKEN, message);
    }
}

/// A network that services of a namespace are on, by its attachment there.
pub(super) type Served<'a> = (&'a ObjectKey, &'a NetworkName);

/// What mirrors are made of besides slices.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) cluster: &'a ClusterConfig,
    pub(crate) namespaces: &'a Namespaces,
    pub(crate) owners: &'a Owners,
    pub(crate) attachments: &'a Attachments,
    pub(crate) networks: &'a Networks,
    pub(crate) pods: &'a Pods,
    pub(crate) nodes: &'a Nodes,
    pub(crate) connects: &'a Connects,
}

/// Slices, and what is around them.
pub(super) struct Scene<'a> {
    pub(super) mirrors: &'a Mirrors,
    pub(super) around: Around<'a>,
}

impl Scene<'_> {
    /// What must be written for a slice; nothing is a creation that must not happen any more. Further mirrors of the slice go
    /// once the right one is there, so that there is always one.
    fn writes(&self, source: &ObjectKey, writes: &Writes) -> Vec<(ObjectKey, Option<Action>)> {
        let mirror = mirror_key(source);
        let there = self.mirrors.all.get(&mirror);
        let shape = match self.wanted_mirror(source) {
            Wanted::Hold => return Vec::new(),
            Wanted::Absent => None,
            Wanted::Mirror(shape) => Some(shape),
        };
        let first = match (shape, there.map(|slice| (slice, &slice.content))) {
            (Some(shape), None)
                if !shape.endpoints.is_empty() && !self.around.namespaces.is_going(&source.namespace) =>
            {
                return vec![(mirror.clone(), Some(Action::Create(body(&mirror, &shape))))];
            }
            (_, None) => Some(None).filter(|_| writes.is_creating(&slice_target(&mirror), PART)),
            (_, Some((slice, _))) if slice.deleting => None,
            (Some(shape), Some((slice, Content::Mirror(current)))) => {
                if current.address_type != shape.address_type {
                    return vec![(mirror, Some(delete(slice)))];
                }
                (current.digest != shape.digest()).then(|| {
                    let body = patch(slice, &shape);
                    Some(Action::Merge { subresource: None, body })
                })
            }
            (None, Some((slice, Content::Mirror(_)))) => Some(Some(delete(slice))),
            // Somebody has the name: that slice is not ours to touch.
            (_, Some((_, Content::Source(_) | Content::Other))) => None,
        };
        let first = first.map(|action| (mirror.clone(), action));
        first.into_iter().chain(self.further_mirrors(source, &mirror)).collect()
    }

    /// Mirrors that name a slice, and that no slice has.
    fn further_mirrors(&self, source: &ObjectKey, mirror: &ObjectKey) -> Vec<(ObjectKey, Option<Action>)> {
        let naming = self.mirrors.naming.get(source).into_iter().flatten();
        let strays = naming.filter(|key| *key != mirror && !self.mirrors.expected.contains_key(*key));
        let there = strays.filter_map(|key| self.mirrors.all.get(key)).filter(|slice| !slice.deleting);
        there.map(|slice| (slice.key.clone(), Some(delete(slice)))).collect()
    }

    fn wanted_mirror(&self, key: &ObjectKey) -> Wanted<'_> {
        if !self.around.namespaces.contains(&key.namespace) {
            return Wanted::Hold;
        }
        let networks = self.served_networks(key);
        // A slice that is going serves nobody any more; and if its owner is gone, a mirror would be collected again and again.
        let slice = self.mirrors.all.get(key).filter(|slice| !slice.deleting);
        match slice {
            Some(Kept { key, content: Content::Source(source), .. }) if !networks.is_empty() => {
                Wanted::Mirror(self.shape(key, source, &networks))
            }
            _ => Wanted::Absent,
        }
    }

    /// The networks that services of a slice's namespace are on, if these are not the default one; the oldest first.
    pub(super) fn served_networks(&self, key: &ObjectKey) -> Vec<Served<'_>> {
        if !self.around.namespaces.is_labelled(&key.namespace) {
            return Vec::new();
        }
        self.around.attachments.primaries_of(&key.namespace, self.around.networks, self.around.owners)
    }

    /// One mirror for all of them: each endpoint has its address on the pod's own network, which all of them reach.
    fn shape<'a>(&self, key: &'a ObjectKey, source: &'a Source, networks: &[Served<'a>]) -> Shape<'a> {
        let reached = self.reached(networks);
        let address =
            |endpoint| match self.serving_of(&key.namespace, networks, source.family, endpoint, &reached) {
                Serving::Served(endpoint) => Some(endpoint),
                Serving::Absent | Serving::Skipped(_) => None,
            };
        // A network that goes is not named any more before it is gone: zones know nothing of a mirror of it then.
        let stays =
            |(_, network): &&Served<'_>| self.around.networks.get(network).is_some_and(|one| !one.is_going());
        let first = networks.iter().find(stays).or(networks.first()).map(|(_, network)| network.as_str());
        let labels = [Some(keys::SLICE_MIRRORS), Some(source.service.as_str()), None];
        let annotations = [Some(key.name.as_str()), Some(source.version.as_str()), first];
        Shape {
            labels: LABELS.into_iter().zip(labels).collect(),
            annotations: keys::OF_MIRROR.into_iter().zip(annotations).collect(),
            owners: &source.owners,
            address_type: Cow::Owned(source.family.to_string()),
            ports: source.ports.as_deref(),
            endpoints: source.endpoints.iter().filter_map(address).collect(),
        }
    }

    fn taken(&self, key: &ObjectKey) -> Option<(Regarding, String)> {
        let other = self.mirrors.all.get(&mirror_key(key))?;
        if matches!(other.content, Content::Mirror(_)) {
            return None;
        }
        let Wanted::Mirror(_) = self.wanted_mirror(key) else { return None };
        let slice = self.mirrors.all.get(key)?;
        let (api_version, kind) = slice_target(key).kind.api_version_and_kind();
        let (namespace, name) = (Some(key.namespace.to_string()), key.name.clone());
        let regarding = Regarding { api_version, kind, namespace, name, uid: slice.uid.clone() };
        let message = format!(
            "EndpointSlice {} is no mirror and has the name that the mirror of {key} needs: pods of the namespace's network do \
             not reach these endpoints; delete it or create it under another name",
            other.key
        );
        Some((regarding, message))
    }
}

fn delete(slice: &Kept) -> Action {
    Action::Delete { uid: slice.uid.clone() }
}

/// What a mirror has besides its name. In a merge, what is null goes and lists are replaced whole.
fn content(shape: &Shape) -> Value {
    json!({
        "metadata": {
            "labels": shape.labels,
            "annotations": shape.annotations,
            "ownerReferences": shape.owners,
        },
        "ports": shape.ports,
        "endpoints": shape.endpoints,
    })
}

fn patch(slice: &Kept, shape: &Shape) -> Value {
    let mut body = content(shape);
    body["metadata"]["uid"] = slice.uid.clone().into();
    body
}

fn body(key: &ObjectKey, shape: &Shape) -> Value {
    let target = slice_target(key);
    let (api_version, kind) = target.kind.api_version_and_kind();
    let mut body = content(shape);
    body["apiVersion"] = api_version.into();
    body["kind"] = kind.into();
    body["addressType"] = shape.address_type.as_ref().into();
    body["metadata"]["name"] = target.name.into();
    body["metadata"]["namespace"] = target.namespace.into();
    // A new object has no label that must go.
    let labels: BTreeMap<&str, &str> =
        shape.labels.iter().filter_map(|(key, text)| Some((*key, (*text)?))).collect();
    body["metadata"]["labels"] = json!(labels);
    body
}
