//! EndpointSlices: whose endpoints they are, and what mirrors of them are made of.
//!
//! Zones read services, ports and addresses; the cluster manager copies everything else into mirrors as it is written,
//! so endpoints stay in the words of the API, and are read by methods.

use std::net::IpAddr;

use causeway_api::annotations::keys;
use causeway_types::{Family, NamespaceName, NetworkName, NodeName};
use k8s_openapi::api::discovery::v1::{self as discovery, EndpointConditions, EndpointHints};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_core::Resource;
use serde::{Deserialize, Serialize};

use crate::meta::{object_key, only, uid};
use crate::service::{port, protocol};
use crate::{ObjectKey, Protocol, Texts, Watched};

/// The labels that tell whose slice it is.
const LABELS: [&str; 3] = [keys::SLICE_MANAGED_BY_LABEL, keys::MIRRORED_SERVICE_LABEL, keys::SERVICE_LABEL];

/// Some of the endpoints of a service.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct EndpointSlice {
    /// What it is called.
    pub key: ObjectKey,
    /// Tells it from another one of the same name.
    pub uid: String,
    /// Changes with every change of the object.
    pub version: String,
    /// Whether it is going.
    pub deleting: bool,
    /// The labels that tell whose slice it is.
    pub labels: Texts,
    /// The annotations that mirrors have.
    pub annotations: Texts,
    /// Who it belongs to: mirrors belong to the same.
    pub owners: Vec<OwnerReference>,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: String,
    /// The ports of every endpoint in it; none at all stands for all ports.
    pub ports: Option<Vec<discovery::EndpointPort>>,
    /// As the object has them, those that are not ready included.
    pub endpoints: Vec<Endpoint>,
}

/// An endpoint, in the words of the API.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    addresses: Vec<String>,
    /// Whether it is ready, serving, terminating.
    pub conditions: EndpointConditions,
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
pub struct Reference {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<Box<str>>,
}

/// One numbered port of all endpoints in a slice.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct EndpointPort {
    /// The name of the service's port.
    pub name: Box<str>,
    /// What is spoken there.
    pub protocol: Protocol,
    /// From 1.
    pub port: u16,
}

impl EndpointSlice {
    /// Whether it says to be a mirror. Only the cluster manager may write mirrors, and nobody else's slice is taken for one.
    pub fn is_mirror(&self) -> bool {
        self.label(keys::SLICE_MANAGED_BY_LABEL) == Some(keys::SLICE_MIRRORS)
    }

    /// The network whose addresses these are, of a mirror; others have addresses of the default network.
    pub fn network(&self) -> Option<NetworkName> {
        let name = self.annotations.get(keys::MIRROR_NETWORK).filter(|_| self.is_mirror())?;
        NetworkName::new(name.as_str()).ok()
    }

    /// The service in the same namespace: label `kubernetes.io/service-name`, of a mirror `k8s.ovn.org/service-name`. A slice
    /// without it serves nobody, and so does a mirror without a network: it would count as one of the default network's.
    pub fn service(&self) -> Option<&str> {
        match self.is_mirror() {
            true => self.label(keys::MIRRORED_SERVICE_LABEL).filter(|_| self.network().is_some()),
            false => self.label(keys::SERVICE_LABEL),
        }
    }

    /// The family of the addresses. A slice of names has none: names are not looked up.
    pub fn family(&self) -> Option<Family> {
        Family::ALL.into_iter().find(|family| family.to_string() == self.address_type)
    }

    /// The ports that have a number.
    pub fn numbered_ports(&self) -> impl Iterator<Item = EndpointPort> {
        self.ports.iter().flatten().filter_map(|named| {
            Some(EndpointPort {
                name: named.name.as_deref().unwrap_or_default().into(),
                protocol: protocol(named.protocol.as_deref())?,
                port: port(named.port?)?,
            })
        })
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }
}

impl Endpoint {
    /// Its addresses of a family, usually one.
    pub fn addresses(&self, family: Family) -> impl Iterator<Item = IpAddr> {
        let all = self.addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok());
        all.filter(move |address| Family::of(address) == family)
    }

    /// Whether it is ready; one that does not say is.
    pub fn is_ready(&self) -> bool {
        self.conditions.ready.unwrap_or(true)
    }

    /// Whether it serves, terminating or not; one that does not say does if it is ready.
    pub fn is_serving(&self) -> bool {
        self.conditions.serving.unwrap_or_else(|| self.is_ready())
    }

    /// Whether it is going.
    pub fn is_terminating(&self) -> bool {
        self.conditions.terminating.unwrap_or(false)
    }

    /// Where it runs.
    pub fn node(&self) -> Option<NodeName> {
        self.node_name.as_deref().and_then(|name| NodeName::new(name).ok())
    }

    /// The same endpoint at another address.
    #[must_use]
    pub fn at(&self, address: &IpAddr) -> Self {
        Self { addresses: vec![address.to_string()], ..self.clone() }
    }

    /// The pod behind the endpoint. One of another namespace is not looked up: whoever writes a slice must not learn from its
    /// mirror what others have.
    pub fn pod(&self, namespace: &NamespaceName) -> Option<(ObjectKey, &Reference)> {
        let target = self.target_ref.as_deref()?;
        let here = target.namespace.as_deref().is_none_or(|other| other == namespace.as_str());
        if target.kind.as_deref() != Some("Pod") || !here {
            return None;
        }
        Some((ObjectKey { namespace: namespace.clone(), name: target.name.as_deref()?.to_owned() }, target))
    }
}

impl Reference {
    /// Whether an object with this UID is meant; a reference without a UID means whichever has the name.
    pub fn means(&self, uid: &str) -> bool {
        self.uid.as_deref().is_none_or(|own| own == uid)
    }
}

/// An EndpointSlice as it is decoded: what nobody reads is not kept even for a moment.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decoded {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    address_type: String,
    ports: Option<Vec<discovery::EndpointPort>>,
    endpoints: Option<Vec<Endpoint>>,
}

impl Resource for Decoded {
    type DynamicType = ();
    type Scope = <discovery::EndpointSlice as Resource>::Scope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        discovery::EndpointSlice::kind(&())
    }

    fn group((): &()) -> std::borrow::Cow<'_, str> {
        discovery::EndpointSlice::group(&())
    }

    fn version((): &()) -> std::borrow::Cow<'_, str> {
        discovery::EndpointSlice::version(&())
    }

    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        discovery::EndpointSlice::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Watched for EndpointSlice {
    type Object = Decoded;
    type Key = ObjectKey;
    const KIND: &'static str = "endpointslices";

    fn kind() {}

    fn key(object: &Decoded) -> Option<ObjectKey> {
        object_key(&object.metadata)
    }

    fn trim(object: Decoded, key: ObjectKey) -> Self {
        let meta = object.metadata;
        Self {
            key,
            uid: uid(&meta),
            version: meta.resource_version.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            labels: only(meta.labels, &LABELS),
            annotations: only(meta.annotations, &keys::OF_MIRROR),
            owners: meta.owner_references.unwrap_or_default(),
            address_type: object.address_type,
            ports: object.ports,
            endpoints: object.endpoints.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::{replayed, trimmed};
    use serde_json::json;

    fn slice(labels: serde_json::Value) -> EndpointSlice {
        trimmed(json!({
            "metadata": {
                "name": "web-x", "namespace": "blue", "labels": labels,
                "annotations": {"k8s.ovn.org/endpointslice-network": "cluster_udn_red"},
            },
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080}, {"name": "all"}],
            "endpoints": [
                {"addresses": ["10.0.0.1", "fd00::1"], "nodeName": "n1"},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true}},
            ],
        }))
    }

    #[test]
    fn a_slice_keeps_its_endpoints() {
        let slice = slice(json!({"kubernetes.io/service-name": "web"}));
        let read = |endpoint: &Endpoint| {
            let addresses: Vec<IpAddr> = endpoint.addresses(slice.family().unwrap()).collect();
            let node = endpoint.node().map(|node| node.to_string());
            (addresses, [endpoint.is_ready(), endpoint.is_serving(), endpoint.is_terminating()], node)
        };
        let address = |last: u8| vec![IpAddr::from([10, 0, 0, last])];
        let expected = [
            (address(1), [true, true, false], Some("n1".to_owned())),
            (address(2), [false, true, true], None),
        ];
        assert_eq!(slice.endpoints.iter().map(read).collect::<Vec<_>>(), expected);
        let port = EndpointPort { name: "http".into(), protocol: Protocol::Tcp, port: 8080 };
        assert_eq!(slice.numbered_ports().collect::<Vec<_>>(), [port]);
        assert_eq!(replayed(&slice), slice);
    }

    /// A slice that a tenant wrote is never that of another network, whatever it says.
    #[test]
    fn only_mirrors_speak_for_networks() {
        let of = |labels| {
            let slice = slice(labels);
            (slice.service().map(str::to_owned), slice.network().map(|name| name.to_string()))
        };
        let ours = "endpointslice-mirror-controller.k8s.ovn.org";
        assert_eq!(of(json!({"kubernetes.io/service-name": "web"})), (Some("web".into()), None));
        assert_eq!(of(json!({"k8s.ovn.org/service-name": "web"})), (None, None));
        let mirror =
            json!({"endpointslice.kubernetes.io/managed-by": ours, "k8s.ovn.org/service-name": "web"});
        assert_eq!(of(mirror), (Some("web".into()), Some("cluster_udn_red".into())));
    }
}
