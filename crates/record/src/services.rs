//! What is kept of services and their endpoints.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::{Endpoint, EndpointPort, EndpointSlice, ObjectKey, Protocol, Service, ServicePort};
use causeway_api::annotations::keys;
use causeway_types::{Family, NetworkName, NodeName};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;

use crate::Watched;
use crate::kinds::object_key;

const SERVICE_LABEL: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// How long a client stays with its endpoint if the service does not say.
const AFFINITY_SECONDS: i32 = 10_800;

fn protocol(text: Option<&str>) -> Option<Protocol> {
    match text {
        None | Some("TCP") => Some(Protocol::Tcp),
        Some("UDP") => Some(Protocol::Udp),
        Some("SCTP") => Some(Protocol::Sctp),
        Some(_) => None,
    }
}

fn port(number: i32) -> Option<u16> {
    u16::try_from(number).ok().filter(|number| *number > 0)
}

impl Watched for Service {
    type Object = core::Service;
    type Key = ObjectKey;
    const KIND: &'static str = "services";

    fn kind() {}

    fn key(object: &Self::Object) -> Option<ObjectKey> {
        object_key(&object.metadata)
    }

    fn trim(object: Self::Object, key: ObjectKey) -> Self {
        let spec = object.spec.unwrap_or_default();
        let affinity = (spec.session_affinity.as_deref() == Some("ClientIP")).then(|| {
            let seconds = spec.session_affinity_config.and_then(|config| config.client_ip?.timeout_seconds);
            u32::try_from(seconds.unwrap_or(AFFINITY_SECONDS)).unwrap_or_default()
        });
        let ports = spec.ports.unwrap_or_default().into_iter().filter_map(|named| {
            let name = named.name.unwrap_or_default().into();
            Some(ServicePort {
                name,
                protocol: protocol(named.protocol.as_deref())?,
                port: port(named.port)?,
            })
        });
        Self {
            key,
            // `None` and the empty text of an alias are no addresses.
            cluster_ips: spec.cluster_ips.into_iter().flatten().filter_map(|ip| ip.parse().ok()).collect(),
            ports: ports.collect(),
            local: spec.internal_traffic_policy.as_deref() == Some("Local"),
            publish_not_ready: spec.publish_not_ready_addresses.unwrap_or(false),
            affinity,
        }
    }
}

impl Watched for EndpointSlice {
    type Object = discovery::EndpointSlice;
    type Key = ObjectKey;
    const KIND: &'static str = "endpointslices";

    fn kind() {}

    fn key(object: &Self::Object) -> Option<ObjectKey> {
        object_key(&object.metadata)
    }

    fn trim(object: Self::Object, key: ObjectKey) -> Self {
        let labels = object.metadata.labels.unwrap_or_default();
        let annotations = object.metadata.annotations.unwrap_or_default();
        let (service, mirror) = owner(&labels, &annotations);
        let family = if object.address_type == "IPv6" { Family::Ipv6 } else { Family::Ipv4 };
        let ports = object.ports.unwrap_or_default().into_iter().filter_map(|named| {
            let name = named.name.unwrap_or_default().into();
            let (protocol, port) = (protocol(named.protocol.as_deref())?, port(named.port?)?);
            Some(EndpointPort { name, protocol, port })
        });
        Self {
            key,
            // Names are not looked up: such a slice has no addresses.
            service,
            mirror,
            family,
            ports: ports.collect(),
            endpoints: object.endpoints.into_iter().map(|one| endpoint(one, family)).collect(),
        }
    }
}

/// Whose slice it is. Only the cluster manager may write mirrors, and nobody else's slice is taken for one.
fn owner(
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> (Option<String>, Option<NetworkName>) {
    if labels.get(MANAGED_BY).map(String::as_str) != Some(keys::SLICE_MIRRORS) {
        return (labels.get(SERVICE_LABEL).cloned(), None);
    }
    let network = annotations.get(keys::MIRROR_NETWORK).and_then(|name| NetworkName::new(name.as_str()).ok());
    // Without a network it would count as one of the default network's.
    let service = labels.get(keys::MIRRORED_SERVICE_LABEL).cloned().filter(|_| network.is_some());
    (service, network)
}

fn endpoint(object: discovery::Endpoint, family: Family) -> Endpoint {
    let conditions = object.conditions.unwrap_or_default();
    let ready = conditions.ready.unwrap_or(true);
    let addresses = object.addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok());
    Endpoint {
        addresses: addresses.filter(|address| Family::of(address) == family).collect(),
        ready,
        serving: conditions.serving.unwrap_or(ready),
        terminating: conditions.terminating.unwrap_or(false),
        node: object.node_name.and_then(|name| NodeName::new(name).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read<T: Watched>(value: serde_json::Value) -> T {
        let object: T::Object = serde_json::from_value(value).unwrap();
        let key = T::key(&object).unwrap();
        T::trim(object, key)
    }

    #[test]
    fn a_service_keeps_what_balancers_are_made_of() {
        let service: Service = read(json!({
            "metadata": {"name": "web", "namespace": "blue"},
            "spec": {
                "clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5", "fd00::5"], "selector": {"app": "web"},
                "ports": [{"name": "http", "port": 80, "targetPort": "http"}, {"port": 53, "protocol": "UDP"}],
                "internalTrafficPolicy": "Local", "sessionAffinity": "ClientIP",
            },
        }));
        let port = |name: &str, protocol, port| ServicePort { name: name.into(), protocol, port };
        assert_eq!(service.cluster_ips, ["10.96.0.5", "fd00::5"].map(|ip| ip.parse::<IpAddr>().unwrap()));
        assert_eq!(service.ports, [port("http", Protocol::Tcp, 80), port("", Protocol::Udp, 53)]);
        assert_eq!((service.local, service.publish_not_ready, service.affinity), (true, false, Some(10_800)));
        let headless: Service = read(json!({
            "metadata": {"name": "db", "namespace": "blue"}, "spec": {"clusterIPs": ["None"]},
        }));
        assert_eq!(headless.cluster_ips, [] as [IpAddr; 0]);
    }

    fn slice(labels: serde_json::Value) -> EndpointSlice {
        read(json!({
            "metadata": {
                "name": "web-x", "namespace": "blue", "labels": labels,
                "annotations": {"k8s.ovn.org/endpointslice-network": "cluster_udn_red"},
            },
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080}, {"name": "all"}],
            "endpoints": [
                {"addresses": ["10.0.0.1"], "nodeName": "n1"},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true}},
            ],
        }))
    }

    #[test]
    fn a_slice_keeps_its_endpoints() {
        let slice = slice(json!({"kubernetes.io/service-name": "web"}));
        let one = |last: u8, ready, terminating, node: Option<&str>| Endpoint {
            addresses: vec![IpAddr::from([10, 0, 0, last])],
            ready,
            serving: true,
            terminating,
            node: node.map(|name| NodeName::new(name).unwrap()),
        };
        assert_eq!(slice.endpoints, [one(1, true, false, Some("n1")), one(2, false, true, None)]);
        assert_eq!(slice.ports, [EndpointPort { name: "http".into(), protocol: Protocol::Tcp, port: 8080 }]);
    }

    /// A slice that a tenant wrote is never that of another network, whatever it says.
    #[test]
    fn only_mirrors_speak_for_networks() {
        let of = |labels| {
            let slice = slice(labels);
            (slice.service, slice.mirror.map(|name| name.to_string()))
        };
        let ours = "endpointslice-mirror-controller.k8s.ovn.org";
        assert_eq!(of(json!({"kubernetes.io/service-name": "web"})), (Some("web".into()), None));
        assert_eq!(of(json!({"k8s.ovn.org/service-name": "web"})), (None, None));
        let mirror =
            json!({"endpointslice.kubernetes.io/managed-by": ours, "k8s.ovn.org/service-name": "web"});
        assert_eq!(of(mirror), (Some("web".into()), Some("cluster_udn_red".into())));
    }
}
