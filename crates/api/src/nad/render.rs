//! The NAD of a user-defined network in one namespace.

use std::collections::BTreeMap;

use causeway_types::NamespaceName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::config::CniConfig;
use crate::annotations::keys;
use crate::crd::{NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec};
use crate::intent::{ClusterConfig, Network};

/// What our annotations and everybody's annotations about us begin with.
const OWN_PREFIX: &str = "k8s.ovn.org";
/// Annotations that are copied to the NAD: what people write for people. Others may mean something to whoever reads NADs, and
/// whoever may write a network may not write NADs.
const COPIED: [&str; 2] = ["description", "kubernetes.io/description"];
/// A copy is for reading, not for storing.
const LONGEST_COPY: usize = 4096;

/// The kinds of objects that have networks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OwnerKind {
    /// It has one NAD, in its own namespace.
    UserDefinedNetwork,
    /// It has a NAD in every namespace that it selects.
    ClusterUserDefinedNetwork,
}

impl OwnerKind {
    /// The kind's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UserDefinedNetwork => "UserDefinedNetwork",
            Self::ClusterUserDefinedNetwork => "ClusterUserDefinedNetwork",
        }
    }
}

/// The object that a NAD is rendered from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Owner {
    /// Goes into the NAD's owner reference, with name and UID.
    pub kind: OwnerKind,
    /// Its name, which is the NAD's too.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its labels, which the NAD gets.
    pub labels: BTreeMap<String, String>,
    /// Its annotations, of which the NAD gets descriptions.
    pub annotations: BTreeMap<String, String>,
}

/// The NAD as it should be. Annotations of ours that `existing` has stay; they are the allocator's.
pub fn render(
    network: &Network,
    owner: &Owner,
    namespace: &NamespaceName,
    cluster: &ClusterConfig,
    existing: Option<&NetworkAttachmentDefinition>,
) -> NetworkAttachmentDefinition {
    let key = format!("{namespace}/{}", owner.name);
    let config = CniConfig::of(network, &key, cluster).text();
    NetworkAttachmentDefinition {
        metadata: ObjectMeta {
            name: Some(owner.name.clone()),
            namespace: Some(namespace.to_string()),
            labels: Some(labels(owner)),
            annotations: annotations(owner, existing),
            finalizers: Some(vec![keys::NETWORK_FINALIZER.into()]),
            owner_references: Some(vec![reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: NetworkAttachmentDefinitionSpec { config: Some(config) },
    }
}

fn labels(owner: &Owner) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([(keys::USER_DEFINED_NETWORK_LABEL.to_owned(), String::new())]);
    labels.extend(owner.labels.clone());
    labels
}

fn annotations(
    owner: &Owner,
    existing: Option<&NetworkAttachmentDefinition>,
) -> Option<BTreeMap<String, String>> {
    let is_ours = |key: &str| key.starts_with(OWN_PREFIX);
    let described =
        |(key, text): &(&String, &String)| COPIED.contains(&key.as_str()) && text.len() <= LONGEST_COPY;
    let copied = owner.annotations.iter().filter(described);
    let kept = existing.and_then(|nad| nad.metadata.annotations.as_ref());
    let kept = kept.into_iter().flatten().filter(|(key, _)| is_ours(key));
    let all: BTreeMap<String, String> = copied.chain(kept).map(|(k, v)| (k.clone(), v.clone())).collect();
    (!all.is_empty()).then_some(all)
}

fn reference(owner: &Owner) -> OwnerReference {
    OwnerReference {
        api_version: "k8s.ovn.org/v1".into(),
        kind: owner.kind.as_str().into(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// What an existing NAD is to the one that should be there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// As it should be.
    Current,
    /// Ours, but different.
    Outdated,
    /// Somebody else's: it is left alone and reported.
    Foreign,
}

/// Compares a NAD with what it should be. It is ours if the owner controls it, whatever it says.
pub fn standing(
    existing: &NetworkAttachmentDefinition,
    wanted: &NetworkAttachmentDefinition,
    owner: &Owner,
) -> Standing {
    let controlled =
        |reference: &OwnerReference| reference.controller == Some(true) && reference.uid == owner.uid;
    if !existing.metadata.owner_references.iter().flatten().any(controlled) {
        return Standing::Foreign;
    }
    let finalizer = |nad: &NetworkAttachmentDefinition| {
        nad.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == keys::NETWORK_FINALIZER)
    };
    let same = existing.spec == wanted.spec
        && existing.metadata.labels == wanted.metadata.labels
        && existing.metadata.annotations.clone().unwrap_or_default()
            == wanted.metadata.annotations.clone().unwrap_or_default()
        && finalizer(existing);
    if same { Standing::Current } else { Standing::Outdated }
}
