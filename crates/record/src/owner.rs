//! UserDefinedNetworks and ClusterUserDefinedNetworks: the networks that they mean, computed once.

use causeway_api::crd::{ClusterUserDefinedNetwork, NetworkStatus, UserDefinedNetwork};
use causeway_api::intent::{Network, Problem, Reason};
use causeway_types::ObjectName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube_core::Selector;
use serde::{Deserialize, Serialize};

use crate::meta::{created, object_key, uid};
use crate::{ObjectKey, Texts, Watched};

/// An object that defines a network.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Defined {
    /// Tells it from another one of the same name.
    pub uid: String,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Counts the changes of its spec.
    pub generation: Option<i64>,
    /// Changes with every change of the object.
    pub version: Option<String>,
    /// Whether it is going.
    pub deleting: bool,
    /// Who wants to be asked before it goes.
    pub finalizers: Vec<String>,
    /// Its labels, which its attachments have too.
    pub labels: Texts,
    /// Its annotations, which its attachments have too.
    pub annotations: Texts,
    /// The network that its spec means, or everything that is wrong with the spec.
    pub intent: Result<Network, Vec<Problem>>,
    /// The status that it has.
    pub status: NetworkStatus,
}

impl Defined {
    fn of(meta: ObjectMeta, intent: Result<Network, Vec<Problem>>, status: Option<NetworkStatus>) -> Self {
        Self {
            uid: uid(&meta),
            created: created(&meta),
            generation: meta.generation,
            version: meta.resource_version,
            deleting: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.unwrap_or_default(),
            labels: meta.labels.unwrap_or_default(),
            annotations: meta.annotations.unwrap_or_default(),
            intent,
            status: status.unwrap_or_default(),
        }
    }
}

/// A UserDefinedNetwork.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Udn {
    /// What it is called.
    pub key: ObjectKey,
    /// What it defines.
    pub defined: Defined,
}

impl Watched for Udn {
    type Object = UserDefinedNetwork;
    type Key = ObjectKey;
    const KIND: &'static str = "userdefinednetworks";

    fn kind() {}

    fn key(object: &Self::Object) -> Option<ObjectKey> {
        object_key(&object.metadata).filter(|key| ObjectName::new(key.name.as_str()).is_ok())
    }

    fn trim(object: Self::Object, key: ObjectKey) -> Self {
        let intent = match ObjectName::new(key.name.as_str()) {
            Ok(name) => Network::of_udn(&key.namespace, &name, &object.spec),
            Err(error) => Err(vec![Problem::new(Reason::InvalidSpec, error.to_string())]),
        };
        Self { key, defined: Defined::of(object.metadata, intent, object.status) }
    }
}

/// A ClusterUserDefinedNetwork.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Cudn {
    /// What it is called.
    pub name: ObjectName,
    /// Which namespaces it is for. If that cannot be read, the network that is meant is an error.
    pub selector: LabelSelector,
    /// What it defines.
    pub defined: Defined,
}

impl Watched for Cudn {
    type Object = ClusterUserDefinedNetwork;
    type Key = ObjectName;
    const KIND: &'static str = "clusteruserdefinednetworks";

    fn kind() {}

    fn key(object: &Self::Object) -> Option<ObjectName> {
        ObjectName::new(object.metadata.name.clone()?).ok()
    }

    fn trim(object: Self::Object, name: ObjectName) -> Self {
        let selector = object.spec.namespace_selector.clone();
        let intent = match Selector::try_from(selector.clone()) {
            Ok(_) => Network::of_cluster_udn(&name, &object.spec),
            Err(error) => {
                let message = format!("namespaceSelector cannot be read: {error}");
                Err(vec![Problem::new(Reason::InvalidSpec, message)])
            }
        };
        Self { name, selector, defined: Defined::of(object.metadata, intent, object.status) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::meta::{replayed, trimmed};

    #[test]
    fn what_a_spec_means_is_computed_once_and_recorded() {
        let layer2 =
            |subnet: &str| json!({"topology": "Layer2", "layer2": {"role": "Primary", "subnets": [subnet]}});
        let udn: Udn = trimmed(json!({"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork",
            "metadata": {"name": "db", "namespace": "demo", "resourceVersion": "7"}, "spec": layer2("10.0.0.0/16")}));
        assert!(
            udn.defined.intent.as_ref().is_ok_and(|network| network.name.as_str() == "demo_db"),
            "{udn:?}"
        );
        assert_eq!(replayed(&udn), udn);
        let cudn = |operator: &str| -> Cudn {
            trimmed(
                json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "metadata": {"name": "red"},
                "spec": {"network": layer2("10.0.0.0/16"), "namespaceSelector":
                    {"matchExpressions": [{"key": "team", "operator": operator, "values": ["a"]}]}}}),
            )
        };
        assert!(cudn("In").defined.intent.is_ok());
        let problems = cudn("Like").defined.intent.unwrap_err();
        assert!(problems[0].message.starts_with("namespaceSelector cannot be read"), "{problems:?}");
        assert_eq!(replayed(&cudn("In")), cudn("In"));
    }
}
