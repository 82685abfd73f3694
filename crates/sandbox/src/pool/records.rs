//! What the pool keeps of objects.

use crate::address::Family;
use causeway_record::{ObjectKey, Watched};
use causeway_types::NamespaceName;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, Object};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Which service a slice belongs to.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// Nodes with this label answer for nobody.
const EXCLUDED_LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) key: ObjectKey,
    pub(super) uid: String,
    /// In seconds since 1970.
    pub(super) created: i64,
    pub(super) wish: Wish,
    /// The addresses in its status.
    pub(super) given: Vec<IpAddr>,
}

/// What a service asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Addresses of these families.
    Addresses {
        families: Vec<Family>,
        /// A certain one, in the user's words.
        certain: Option<String>,
        /// Whether only nodes with an endpoint of its own take its packets.
        local: bool,
    },
    /// No addresses: those that it has from here go.
    Nothing,
    /// Somebody else's business.
    Foreign,
}

/// The nodes with ready endpoints of a service, as far as one slice knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Backends {
    pub(super) key: ObjectKey,
    pub(super) service: Option<ObjectKey>,
    pub(super) nodes: BTreeSet<String>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) name: String,
    /// Whether it may answer for addresses.
    pub(super) fit: bool,
}

fn key(meta: &ObjectMeta) -> Option<ObjectKey> {
    let namespace = NamespaceName::new(meta.namespace.clone()?).ok()?;
    Some(ObjectKey { namespace, name: meta.name.clone()? })
}

fn wish(spec: &core::ServiceSpec, deleting: bool) -> Wish {
    if spec.type_.as_deref() != Some("LoadBalancer") {
        return Wish::Nothing;
    }
    if spec.load_balancer_class.is_some() || deleting {
        return Wish::Foreign;
    }
    let family = |name: &String| match name.as_str() {
        "IPv4" => Some(Family::Ipv4),
        "IPv6" => Some(Family::Ipv6),
        _ => None,
    };
    Wish::Addresses {
        families: spec.ip_families.iter().flatten().filter_map(family).collect(),
        certain: spec.load_balancer_ip.clone().filter(|text| !text.is_empty()),
        local: spec.external_traffic_policy.as_deref() == Some("Local"),
    }
}

/// What is read of a service's status; anybody may have written the rest.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ServiceStatus {
    load_balancer: Option<core::LoadBalancerStatus>,
}

impl Watched for Service {
    type Object = Object<Option<core::ServiceSpec>, ServiceStatus>;
    type Key = ObjectKey;
    const KIND: &'static str = "services";

    fn kind() -> ApiResource {
        ApiResource::erase::<core::Service>(&())
    }

    fn key(object: &Self::Object) -> Option<ObjectKey> {
        key(&object.metadata)
    }

    fn trim(object: Self::Object, key: ObjectKey) -> Service {
        let meta = object.metadata;
        let status = object.status.and_then(|status| status.load_balancer?.ingress);
        Service {
            key,
            uid: meta.uid.unwrap_or_default(),
            created: meta.creation_timestamp.map_or(0, |time| time.0.as_second()),
            wish: wish(&object.spec.unwrap_or_default(), meta.deletion_timestamp.is_some()),
            given: status.into_iter().flatten().filter_map(|one| one.ip?.parse().ok()).collect(),
        }
    }
}

impl Watched for Backends {
    type Object = discovery::EndpointSlice;
    type Key = ObjectKey;
    const KIND: &'static str = "endpointslices";

    fn kind() {}

    fn key(object: &discovery::EndpointSlice) -> Option<ObjectKey> {
        key(&object.metadata)
    }

    fn trim(object: discovery::EndpointSlice, key: ObjectKey) -> Backends {
        let labels = object.metadata.labels.unwrap_or_default();
        let service = labels.get(SERVICE_LABEL).cloned();
        let service = service.map(|name| ObjectKey { namespace: key.namespace.clone(), name });
        // Nothing said means ready.
        let ready = |endpoint: &discovery::Endpoint| {
            endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
        };
        let nodes = object.endpoints.into_iter().filter(ready).filter_map(|end| end.node_name);
        Backends { key, service, nodes: nodes.collect() }
    }
}

impl Watched for Host {
    type Object = core::Node;
    type Key = String;
    const KIND: &'static str = "nodes";

    fn kind() {}

    fn key(object: &core::Node) -> Option<String> {
        object.metadata.name.clone()
    }

    fn trim(object: core::Node, name: String) -> Host {
        let conditions = object.status.and_then(|status| status.conditions).unwrap_or_default();
        let ready = conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True");
        let excluded = object.metadata.labels.is_some_and(|labels| labels.contains_key(EXCLUDED_LABEL));
        Host { name, fit: ready && !excluded }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn service(spec: serde_json::Value) -> Service {
        let object = json!({
            "metadata": {"name": "web", "namespace": "blue", "creationTimestamp": "1970-01-01T00:01:00Z"},
            "spec": spec,
            "status": {
                "loadBalancer": {"ingress": [{"ip": "172.30.0.200"}, {"hostname": "x"}]},
                "conditions": [{"type": "Odd", "lastTransitionTime": null}],
            },
        });
        let object: <Service as Watched>::Object = serde_json::from_value(object).unwrap();
        let key = Service::key(&object).unwrap();
        Service::trim(object, key)
    }

    #[test]
    fn a_service_says_what_it_wishes() {
        let web = service(json!({
            "type": "LoadBalancer", "ipFamilies": ["IPv6", "IPv4"], "externalTrafficPolicy": "Local",
            "loadBalancerIP": "172.30.0.210",
        }));
        assert_eq!((web.created, web.given), (60, vec!["172.30.0.200".parse().unwrap()]));
        let families = vec![Family::Ipv6, Family::Ipv4];
        assert_eq!(web.wish, Wish::Addresses { families, certain: Some("172.30.0.210".into()), local: true });
        assert_eq!(service(json!({"type": "ClusterIP"})).wish, Wish::Nothing);
        let class = json!({"type": "LoadBalancer", "loadBalancerClass": "example.com/other"});
        assert_eq!(service(class).wish, Wish::Foreign);
    }

    #[test]
    fn only_ready_endpoints_count() {
        let slice = json!({
            "metadata": {"name": "web-1", "namespace": "blue", "labels": {SERVICE_LABEL: "web"}},
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": ["10.0.0.1"], "nodeName": "n1"},
                {"addresses": ["10.0.0.2"], "nodeName": "n2", "conditions": {"ready": false}},
            ],
        });
        let slice: discovery::EndpointSlice = serde_json::from_value(slice).unwrap();
        let key = Backends::key(&slice).unwrap();
        let backends = Backends::trim(slice, key);
        assert_eq!(backends.service.map(|key| key.to_string()), Some("blue/web".into()));
        assert_eq!(backends.nodes, BTreeSet::from(["n1".to_owned()]));
    }

    #[test]
    fn a_node_that_is_not_ready_or_excluded_answers_for_nobody() {
        let node = |ready: &str, labels: serde_json::Value| {
            let node = json!({
                "metadata": {"name": "n1", "labels": labels},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            });
            Host::trim(serde_json::from_value(node).unwrap(), "n1".into()).fit
        };
        assert!(node("True", json!({})));
        assert!(!node("Unknown", json!({})) && !node("True", json!({EXCLUDED_LABEL: ""})));
    }
}
