//! EndpointSlices as the manager keeps them. Of a slice that is mirrored everything is kept that its mirror needs; of a mirror,
//! which has the same endpoints once more, only a digest.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use causeway_api::annotations::keys;
use causeway_record::ObjectKey;
use causeway_record::Watched;
use causeway_types::{Family, NamespaceName};
use k8s_openapi::api::discovery::v1::{self as discovery, EndpointConditions, EndpointHints, EndpointPort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_core::Resource;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// An EndpointSlice.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct EndpointSlice {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: String,
    /// Whether it is going.
    pub deleting: bool,
    /// What it is.
    pub content: Content,
}

/// What a slice is.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub enum Content {
    /// Addresses of a service, by whoever writes it.
    Source(Box<Source>),
    /// A mirror, or what is made to look like one.
    Mirror(Mirror),
    /// A slice of names, or of no service: nothing is mirrored.
    Other,
}

/// What is mirrored.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Source {
    pub(super) service: String,
    pub(super) version: String,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) family: Family,
    pub(super) ports: Option<Vec<EndpointPort>>,
    pub(super) endpoints: Vec<Endpoint>,
}

/// A mirror.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Mirror {
    /// The name of the slice that it says to mirror; empty if it says nothing.
    pub(super) source: String,
    pub(super) address_type: String,
    pub(super) digest: Digest,
}

/// Stands for all that the manager writes of a mirror.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Digest([u8; 16]);

/// An endpoint, in the words of the API.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    addresses: Vec<String>,
    conditions: EndpointConditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    hints: Option<Box<EndpointHints>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_name: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_ref: Option<Box<Reference>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<Box<str>>,
}

/// What is behind an endpoint.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct Reference {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uid: Option<Box<str>>,
}

impl Endpoint {
    /// The same endpoint at another address.
    pub(super) fn at(&self, address: &IpAddr) -> Self {
        Self { addresses: vec![address.to_string()], ..self.clone() }
    }

    /// The pod behind the endpoint. One of another namespace is not looked up: whoever writes a slice must not learn from its
    /// mirror what others have.
    pub(super) fn pod(&self, namespace: &NamespaceName) -> Option<(ObjectKey, &Reference)> {
        let target = self.target_ref.as_deref()?;
        let here = target.namespace.as_deref().is_none_or(|other| other == namespace.as_str());
        if target.kind.as_deref() != Some("Pod") || !here {
            return None;
        }
        Some((ObjectKey { namespace: namespace.clone(), name: target.name.as_deref()?.to_owned() }, target))
    }
}

impl Source {
    /// The pods behind its endpoints.
    pub(super) fn pods<'a>(&'a self, namespace: &'a NamespaceName) -> impl Iterator<Item = ObjectKey> + 'a {
        self.endpoints.iter().filter_map(|endpoint| Some(endpoint.pod(namespace)?.0))
    }
}

/// All that the manager writes of a mirror, as it should be or as it is.
#[derive(Debug, Serialize)]
pub(super) struct Shape<'a> {
    pub(super) labels: BTreeMap<&'static str, Option<&'a str>>,
    pub(super) annotations: BTreeMap<&'static str, Option<&'a str>>,
    pub(super) owners: &'a [OwnerReference],
    pub(super) address_type: Cow<'a, str>,
    pub(super) ports: Option<&'a [EndpointPort]>,
    pub(super) endpoints: Vec<Cow<'a, Endpoint>>,
}

impl Shape<'_> {
    pub(super) fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        // Nothing here is anything that JSON could not write, and a hash takes all.
        let _written = serde_json::to_writer(&mut hash, self);
        let bytes: [u8; 32] = hash.finalize().into();
        let mut digest = [0; 16];
        digest.copy_from_slice(&bytes[..16]);
        Digest(digest)
    }
}

/// The labels that a mirror has, or must not have.
pub(super) const LABELS: [&str; 3] =
    [keys::SLICE_MANAGED_BY_LABEL, keys::MIRRORED_SERVICE_LABEL, keys::SERVICE_LABEL];

/// An EndpointSlice as it is decoded: what nobody reads is not kept even for a moment.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Object {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    address_type: String,
    ports: Option<Vec<EndpointPort>>,
    endpoints: Option<Vec<Endpoint>>,
}

impl Resource for Object {
    type DynamicType = ();
    type Scope = <discovery::EndpointSlice as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        discovery::EndpointSlice::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        discovery::EndpointSlice::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        discovery::EndpointSlice::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        discovery::EndpointSlice::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Object {
    fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    fn mirror(&self) -> Mirror {
        let shape = Shape {
            labels: LABELS.map(|key| (key, self.label(key))).into(),
            annotations: keys::OF_MIRROR.map(|key| (key, self.annotation(key))).into(),
            owners: self.metadata.owner_references.as_deref().unwrap_or_default(),
            address_type: Cow::Borrowed(&self.address_type),
            ports: self.ports.as_deref(),
            endpoints: self.endpoints.iter().flatten().map(Cow::Borrowed).collect(),
        };
        Mirror {
            digest: shape.digest(),
            source: self.annotation(keys::MIRROR_SOURCE).unwrap_or_default().to_owned(),
            address_type: self.address_type.clone(),
        }
    }

    fn source(self) -> Option<Source> {
        let service = self.label(keys::SERVICE_LABEL).filter(|name| !name.is_empty())?.to_owned();
        let family = Family::ALL.into_iter().find(|family| family.to_string() == self.address_type)?;
        Some(Source {
            service,
            version: self.metadata.resource_version.unwrap_or_default(),
            owners: self.metadata.owner_references.unwrap_or_default(),
            family,
            ports: self.ports,
            endpoints: self.endpoints.unwrap_or_default(),
        })
    }
}

impl Watched for EndpointSlice {
    type Object = Object;
    type Key = ObjectKey;
    const KIND: &'static str = "endpointslices";

    fn kind() {}

    fn key(object: &Object) -> Option<ObjectKey> {
        let namespace = NamespaceName::new(object.metadata.namespace.clone()?).ok()?;
        Some(ObjectKey { namespace, name: object.metadata.name.clone()? })
    }

    fn trim(object: Object, key: ObjectKey) -> Self {
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let deleting = object.metadata.deletion_timestamp.is_some();
        let content = if object.label(keys::SLICE_MANAGED_BY_LABEL) == Some(keys::SLICE_MIRRORS) {
            Content::Mirror(object.mirror())
        } else {
            object.source().map_or(Content::Other, |source| Content::Source(Box::new(source)))
        };
        Self { key, uid, deleting, content }
    }
}
