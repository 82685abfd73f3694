//! What is kept of each kind.

use crate::{Connect, Controller, Nad, Namespace, Node, ObjectKey, Pod, Texts};
use causeway_api::annotations::keys;
use causeway_api::crd::{
    ClusterNetworkConnect, ClusterUserDefinedNetwork, IpamClaim, NetworkAttachmentDefinition,
    UserDefinedNetwork, ZoneReport,
};
use causeway_types::{ConnectName, NamespaceName, NodeName, ObjectName};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Object;
use kube_core::{ApiResource, Resource};
use serde::Deserialize;

use crate::Watched;

/// Nothing is read of this part of the object.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Unread {}

/// What is read of a pod's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    node_name: Option<String>,
    host_network: Option<bool>,
}

/// What is read of a pod's status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodStatus {
    phase: Option<String>,
}

/// What is read of a node's status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    conditions: Vec<NodeCondition>,
}

#[derive(Clone, Debug, Deserialize)]
struct NodeCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// The annotations of a pod that somebody reads. `network-status` is written by nodes and read by nobody here.
const OF_PODS: [&str; 6] = [
    keys::POD_NETWORKS,
    keys::NETWORKS,
    keys::DEFAULT_NETWORK,
    keys::REQUESTED_PRIMARY,
    keys::OPEN_DEFAULT_PORTS,
    keys::STATIC_POD,
];

fn annotations_of(meta: ObjectMeta, read: impl Fn(&str) -> bool) -> Texts {
    meta.annotations.unwrap_or_default().into_iter().filter(|(key, _)| read(key)).collect()
}

fn created(meta: &ObjectMeta) -> i64 {
    meta.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second())
}

fn uid(meta: &ObjectMeta) -> String {
    meta.uid.clone().unwrap_or_default()
}

pub(super) fn object_key(meta: &ObjectMeta) -> Option<ObjectKey> {
    let namespace = NamespaceName::new(meta.namespace.clone()?).ok()?;
    Some(ObjectKey { namespace, name: meta.name.clone()? })
}

impl Watched for Node {
    type Object = Object<Unread, NodeStatus>;
    type Key = NodeName;
    const KIND: &'static str = "nodes";

    fn kind() -> ApiResource {
        ApiResource::erase::<core::Node>(&())
    }

    fn key(object: &Self::Object) -> Option<NodeName> {
        NodeName::new(object.metadata.name.clone()?).ok()
    }

    fn trim(object: Self::Object, name: NodeName) -> Self {
        let unknown = |condition: &NodeCondition| condition.kind == "Ready" && condition.status == "Unknown";
        let live = !object.status.unwrap_or_default().conditions.iter().any(unknown);
        let (uid, created) = (uid(&object.metadata), created(&object.metadata));
        let read = |key: &str| keys::BY_NODE.contains(&key) || keys::BY_CLUSTER_MANAGER.contains(&key);
        Self { name, uid, created, annotations: annotations_of(object.metadata, read), live }
    }
}

impl Watched for Namespace {
    type Object = Object<Option<Unread>, Unread>;
    type Key = NamespaceName;
    const KIND: &'static str = "namespaces";

    fn kind() -> ApiResource {
        ApiResource::erase::<core::Namespace>(&())
    }

    fn key(object: &Self::Object) -> Option<NamespaceName> {
        NamespaceName::new(object.metadata.name.clone()?).ok()
    }

    fn trim(object: Self::Object, name: NamespaceName) -> Self {
        let deleting = object.metadata.deletion_timestamp.is_some();
        Self { name, labels: object.metadata.labels.unwrap_or_default(), deleting }
    }
}

impl Watched for Pod {
    type Object = Object<PodSpec, PodStatus>;
    type Key = ObjectKey;
    const KIND: &'static str = "pods";

    fn kind() -> ApiResource {
        ApiResource::erase::<core::Pod>(&())
    }

    fn key(object: &Self::Object) -> Option<ObjectKey> {
        object_key(&object.metadata)
    }

    fn trim(object: Self::Object, key: ObjectKey) -> Self {
        let phase = object.status.unwrap_or_default().phase.unwrap_or_default();
        Self {
            key,
            uid: uid(&object.metadata),
            created: created(&object.metadata),
            node: object.spec.node_name.and_then(|name| NodeName::new(name).ok()),
            host_network: object.spec.host_network.unwrap_or(false),
            finished: matches!(phase.as_str(), "Succeeded" | "Failed"),
            deleting: object.metadata.deletion_timestamp.is_some(),
            annotations: annotations_of(object.metadata, |key| OF_PODS.contains(&key)),
        }
    }
}

impl Watched for Connect {
    type Object = ClusterNetworkConnect;
    type Key = ConnectName;
    const KIND: &'static str = "clusternetworkconnects";

    fn kind() {}

    fn key(object: &Self::Object) -> Option<ConnectName> {
        ConnectName::new(object.metadata.name.clone()?).ok()
    }

    fn trim(object: Self::Object, name: ConnectName) -> Self {
        Self::of(name, object)
    }
}

impl Watched for Nad {
    type Object = NetworkAttachmentDefinition;
    type Key = ObjectKey;
    const KIND: &'static str = "network-attachment-definitions";

    fn kind() {}

    fn key(object: &Self::Object) -> Option<ObjectKey> {
        object_key(&object.metadata)
    }

    fn trim(object: Self::Object, key: ObjectKey) -> Self {
        let meta = object.metadata;
        let controllers = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let controller = controllers.map(|owner| Controller {
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        });
        Self {
            key,
            uid: uid(&meta),
            created: created(&meta),
            deleting: meta.deletion_timestamp.is_some(),
            controller,
            labels: meta.labels.unwrap_or_default(),
            annotations: meta.annotations.unwrap_or_default(),
            finalizers: meta.finalizers.unwrap_or_default(),
            config: object.spec.config.unwrap_or_default(),
        }
    }
}

/// Custom resources stay whole but for what only the API server reads.
macro_rules! whole {
    ($($type:ty, $key:ty, $kind:literal, $of:expr;)*) => {$(
        impl Watched for $type {
            type Object = Self;
            type Key = $key;
            const KIND: &'static str = $kind;

            fn kind() {}

            fn key(object: &Self) -> Option<$key> {
                $of(object.meta())
            }

            fn trim(mut object: Self, _key: $key) -> Self {
                object.metadata.managed_fields = None;
                object
            }
        }
    )*};
}

whole! {
    UserDefinedNetwork, ObjectKey, "userdefinednetworks", object_key;
    ClusterUserDefinedNetwork, ObjectName, "clusteruserdefinednetworks", |meta: &ObjectMeta| ObjectName::new(meta.name.clone()?).ok();
    ClusterNetworkConnect, ConnectName, "clusternetworkconnects", |meta: &ObjectMeta| ConnectName::new(meta.name.clone()?).ok();
    ZoneReport, NodeName, "zonereports", |meta: &ObjectMeta| NodeName::new(meta.name.clone()?).ok();
    IpamClaim, ObjectKey, "ipamclaims", object_key;
    core::ConfigMap, ObjectKey, "configmaps", object_key;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn read<T: Watched>(value: serde_json::Value) -> T {
        let object: T::Object = serde_json::from_value(value).unwrap();
        let key = T::key(&object).unwrap();
        T::trim(object, key)
    }

    fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_pod_keeps_what_is_read() {
        let pod: Pod = read(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web-0", "namespace": "blue", "uid": "u1", "creationTimestamp": "1970-01-01T00:00:07Z",
                "annotations": {"k8s.ovn.org/pod-networks": "{}", "checksum/config": "long"},
                "managedFields": [{"manager": "kubelet"}],
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Succeeded", "podIP": "10.0.0.1"},
        }));
        let expected = Pod {
            key: ObjectKey { namespace: NamespaceName::new("blue").unwrap(), name: "web-0".into() },
            uid: "u1".into(),
            created: 7,
            node: Some(NodeName::new("n1").unwrap()),
            host_network: false,
            finished: true,
            deleting: false,
            annotations: texts(&[(keys::POD_NETWORKS, "{}")]),
        };
        assert_eq!(pod, expected);
    }

    #[test]
    fn a_node_that_is_not_heard_of_is_not_live() {
        let node = |status: &str| -> Node {
            read(json!({"metadata": {"name": "n1", "annotations": {"k8s.ovn.org/node-id": "2", "a": "b"}},
                        "spec": {}, "status": {"conditions": [{"type": "Ready", "status": status}]}}))
        };
        assert_eq!([node("True").live, node("False").live, node("Unknown").live], [true, true, false]);
        assert_eq!(node("True").annotations, texts(&[(keys::NODE_ID, "2")]));
    }

    #[test]
    fn a_nad_names_only_its_controller() {
        let nad: Nad = read(json!({
            "metadata": {"name": "db", "namespace": "demo", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "1"},
                {"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "name": "db", "uid": "2", "controller": true},
            ]},
            "spec": {"config": "{}"},
        }));
        let controller = Controller { kind: "UserDefinedNetwork".into(), name: "db".into(), uid: "2".into() };
        assert_eq!((nad.controller, nad.config.as_str()), (Some(controller), "{}"));
    }
}
