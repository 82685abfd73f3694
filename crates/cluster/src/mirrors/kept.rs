//! EndpointSlices as the manager keeps them. Of one that is mirrored everything is kept that its mirror needs; of a mirror,
//! which has the same endpoints once more, only a digest.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use causeway_api::annotations::keys;
use causeway_record::{Endpoint, EndpointSlice, ObjectKey};
use causeway_types::{Family, NamespaceName};
use k8s_openapi::api::discovery::v1::EndpointPort;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// An EndpointSlice.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) key: ObjectKey,
    pub(super) uid: String,
    pub(super) deleting: bool,
    pub(super) content: Content,
}

/// What an EndpointSlice is.
#[derive(Debug)]
pub(super) enum Content {
    /// Addresses of a service, by whoever writes it.
    Source(Box<Source>),
    /// A mirror, or what is made to look like one.
    Mirror(Mirror),
    /// A slice of names, or of no service: nothing is mirrored.
    Other,
}

/// What is mirrored.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) service: String,
    pub(super) version: String,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) family: Family,
    pub(super) ports: Option<Vec<EndpointPort>>,
    pub(super) endpoints: Vec<Endpoint>,
}

#[derive(Debug)]
pub(super) struct Mirror {
    /// The name of the slice that it says to mirror; empty if it says nothing.
    pub(super) source: String,
    pub(super) address_type: String,
    pub(super) digest: Digest,
}

/// Stands for all that the manager writes of a mirror.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Digest([u8; 16]);

impl From<EndpointSlice> for Kept {
    fn from(slice: EndpointSlice) -> Self {
        let (key, uid, deleting) = (slice.key.clone(), slice.uid.clone(), slice.deleting);
        let content = if slice.is_mirror() {
            Content::Mirror(mirror(&slice))
        } else {
            source(slice).map_or(Content::Other, |source| Content::Source(Box::new(source)))
        };
        Self { key, uid, deleting, content }
    }
}

fn source(slice: EndpointSlice) -> Option<Source> {
    Some(Source {
        service: slice.service().filter(|name| !name.is_empty())?.to_owned(),
        family: slice.family()?,
        version: slice.version,
        owners: slice.owners,
        ports: slice.ports,
        endpoints: slice.endpoints,
    })
}

fn mirror(slice: &EndpointSlice) -> Mirror {
    let label = |key: &str| slice.labels.get(key).map(String::as_str);
    let annotation = |key: &str| slice.annotations.get(key).map(String::as_str);
    let shape = Shape {
        labels: LABELS.map(|key| (key, label(key))).into(),
        annotations: keys::OF_MIRROR.map(|key| (key, annotation(key))).into(),
        owners: &slice.owners,
        address_type: Cow::Borrowed(&slice.address_type),
        ports: slice.ports.as_deref(),
        endpoints: slice.endpoints.iter().map(Cow::Borrowed).collect(),
    };
    Mirror {
        digest: shape.digest(),
        source: annotation(keys::MIRROR_SOURCE).unwrap_or_default().to_owned(),
        address_type: slice.address_type.clone(),
    }
}

impl Source {
    /// The pods behind its endpoints.
    pub(super) fn pods<'a>(&'a self, namespace: &'a NamespaceName) -> impl Iterator<Item = ObjectKey> + 'a {
        self.endpoints.iter().filter_map(|endpoint| Some(endpoint.pod(namespace)?.0))
    }

    /// The addresses of endpoints that name no pod.
    pub(super) fn unnamed<'a>(&'a self, namespace: &'a NamespaceName) -> impl Iterator<Item = IpAddr> + 'a {
        let unnamed = self.endpoints.iter().filter(|endpoint| endpoint.pod(namespace).is_none());
        unnamed.flat_map(|endpoint| endpoint.addresses(self.family))
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
