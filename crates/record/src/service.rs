//! Services: what load balancers are made of.

use std::collections::BTreeSet;
use std::net::IpAddr;

use causeway_api::service::{MOST_EXTERNAL_IPS, MOST_SOURCE_RANGES};
use causeway_types::Cidr;
use ipnet::IpNet;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::{ApiResource, Object};
use serde::{Deserialize, Serialize};

use crate::meta::{created, object_key};
use crate::{ObjectKey, Protocol, Watched};

/// How long a client stays with its endpoint if the service does not say.
const AFFINITY_SECONDS: i32 = 10_800;

/// Labels of services that whoever serves them by default leaves alone, whatever their values.
const LEFT_TO_OTHERS: [&str; 2] =
    ["service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless"];

/// What load balancers are made of: some fields of a Kubernetes Service.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Service {
    /// What it is called.
    pub key: ObjectKey,
    /// When it was created, in seconds since 1970.
    #[serde(default)]
    pub created: i64,
    /// `spec.clusterIPs`; a headless service and an alias have none.
    pub cluster_ips: Vec<IpAddr>,
    /// `spec.ports`, without those of protocols that are not known.
    pub ports: Vec<ServicePort>,
    /// Whether only endpoints on the client's own node serve: `internalTrafficPolicy: Local`.
    pub local: bool,
    /// Addresses outside of the cluster that its owner says to lead to it: `spec.externalIPs`.
    #[serde(default)]
    pub external_ips: Vec<IpAddr>,
    /// Addresses of its load balancer, in the words of whoever gives them out: `status.loadBalancer.ingress`.
    #[serde(default)]
    pub ingress_ips: Vec<IpAddr>,
    /// Who may come by an address of its load balancer: `spec.loadBalancerSourceRanges`, merged. None is everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_ranges: Option<Vec<Cidr>>,
    /// Whether clients outside are served by endpoints on the node that they came to, and by their own address:
    /// `externalTrafficPolicy: Local`.
    #[serde(default)]
    pub external_local: bool,
    /// Where each node says whether it has endpoints of its own: `spec.healthCheckNodePort`.
    #[serde(default)]
    pub health_port: Option<u16>,
    /// Whether endpoints serve before they are ready.
    pub publish_not_ready: bool,
    /// For how many seconds a client stays with its endpoint, if `sessionAffinity` is `ClientIP`.
    pub affinity: Option<u32>,
}

/// An element of a Service's `spec.ports`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ServicePort {
    /// Its name, by which endpoints know it; empty if it has none.
    pub name: Box<str>,
    /// What is spoken there.
    pub protocol: Protocol,
    /// From 1.
    pub port: u16,
    /// The port of every node that leads to it, if it has one.
    #[serde(default)]
    pub node_port: Option<u16>,
}

pub(crate) fn protocol(text: Option<&str>) -> Option<Protocol> {
    text.map_or(Some(Protocol::Tcp), Protocol::named)
}

pub(crate) fn port(number: i32) -> Option<u16> {
    u16::try_from(number).ok().filter(|number| *number > 0)
}

/// What is read of a service's status. Conditions are not: anybody may have written them, and one that the client library
/// does not understand would end the watch of all services.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceStatus {
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
        object_key(&object.metadata)
    }

    fn trim(object: Self::Object, key: ObjectKey) -> Self {
        let created = created(&object.metadata);
        let ours = !is_left_to_others(&object.metadata);
        let balanced = balanced_ips(object.status.filter(|_| ours).unwrap_or_default());
        let spec = object.spec.filter(|_| ours).unwrap_or_default();
        let external = spec.external_ips.into_iter().flatten().filter_map(|ip| ip.parse().ok());
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
                node_port: named.node_port.and_then(port),
            })
        });
        Self {
            key,
            created,
            // `None` and the empty text of an alias are no addresses.
            cluster_ips: spec.cluster_ips.into_iter().flatten().filter_map(|ip| ip.parse().ok()).collect(),
            ports: ports.collect(),
            local: spec.internal_traffic_policy.as_deref() == Some("Local"),
            external_ips: distinct(external),
            ingress_ips: distinct(balanced),
            source_ranges: source_ranges(spec.load_balancer_source_ranges.unwrap_or_default()),
            external_local: spec.external_traffic_policy.as_deref() == Some("Local"),
            health_port: spec.health_check_node_port.and_then(port),
            publish_not_ready: spec.publish_not_ready_addresses.unwrap_or(false),
            affinity,
        }
    }
}

/// Whether a service has another proxy, or none: of such a one nothing is served.
fn is_left_to_others(metadata: &ObjectMeta) -> bool {
    let labels = metadata.labels.as_ref();
    labels.is_some_and(|labels| LEFT_TO_OTHERS.iter().any(|label| labels.contains_key(*label)))
}

/// Addresses of a load balancer that hands packets on as they are. One that is a proxy itself comes to a node's port.
fn balanced_ips(status: ServiceStatus) -> impl Iterator<Item = IpAddr> {
    let ingress = status.load_balancer.and_then(|balancer| balancer.ingress).unwrap_or_default();
    let whole = ingress.into_iter().filter(|one| one.ip_mode.as_deref() != Some("Proxy"));
    whole.filter_map(|one| one.ip?.parse().ok())
}

/// Who may come, where somebody says so. A range that cannot be read lets nobody in, and neither does a list of such ranges alone, or
/// one that is too long: whom a part of it would let in is not what was meant.
fn source_ranges(said: Vec<String>) -> Option<Vec<Cidr>> {
    let read = |text: &String| Some(Cidr::masked(text.trim().parse::<IpNet>().ok()?));
    let merged = (!said.is_empty()).then(|| Cidr::merged(said.iter().filter_map(read)))?;
    Some(if merged.len() > MOST_SOURCE_RANGES { Vec::new() } else { merged })
}

/// The first ones, however many there are.
fn distinct(addresses: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let all: BTreeSet<IpAddr> = addresses.take(MOST_EXTERNAL_IPS).collect();
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::trimmed;
    use serde_json::json;

    #[test]
    fn conditions_that_nobody_understands_do_no_harm() {
        let service: Service = trimmed(json!({
            "metadata": {"name": "web", "namespace": "blue"},
            "spec": {"clusterIPs": ["10.96.0.5"]},
            "status": {
                "conditions": [{"type": "Odd", "status": "True", "lastTransitionTime": null, "reason": "E2E", "message": ""}],
                "loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]},
            },
        }));
        assert_eq!(service.ingress_ips, ["192.0.2.7".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn a_service_keeps_what_balancers_are_made_of() {
        let service: Service = trimmed(json!({
            "metadata": {"name": "web", "namespace": "blue"},
            "spec": {
                "clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5", "fd00::5"], "selector": {"app": "web"},
                "ports": [{"name": "http", "port": 80, "targetPort": "http"}, {"port": 53, "protocol": "UDP"}],
                "internalTrafficPolicy": "Local", "sessionAffinity": "ClientIP",
            },
        }));
        let port =
            |name: &str, protocol, port| ServicePort { name: name.into(), protocol, port, node_port: None };
        assert_eq!(service.cluster_ips, ["10.96.0.5", "fd00::5"].map(|ip| ip.parse::<IpAddr>().unwrap()));
        assert_eq!(service.ports, [port("http", Protocol::Tcp, 80), port("", Protocol::Udp, 53)]);
        assert_eq!((service.local, service.publish_not_ready, service.affinity), (true, false, Some(10_800)));
        assert_eq!(
            (service.external_ips.len(), service.external_local, service.health_port),
            (0, false, None)
        );
        let headless: Service = trimmed(json!({
            "metadata": {"name": "db", "namespace": "blue"}, "spec": {"clusterIPs": ["None"]},
        }));
        assert_eq!(headless.cluster_ips, [] as [IpAddr; 0]);
    }

    #[test]
    fn a_service_of_another_proxy_leads_nowhere() {
        let labelled = |labels: serde_json::Value| {
            trimmed::<Service>(json!({
                "metadata": {"name": "web", "namespace": "blue", "labels": labels},
                "spec": {"clusterIPs": ["10.96.0.5"], "externalIPs": ["192.0.2.9"], "ports": [{"port": 80, "nodePort": 30080}]},
                "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
            }))
        };
        for label in LEFT_TO_OTHERS {
            let service = labelled(json!({label: ""}));
            assert_eq!((service.cluster_ips, service.ports), (vec![], vec![]), "{label}");
            assert_eq!((service.external_ips, service.ingress_ips), (vec![], vec![]), "{label}");
        }
        assert_eq!(labelled(json!({"app": "web"})).cluster_ips.len(), 1);
    }

    #[test]
    fn a_service_keeps_who_may_come_by_its_load_balancer() {
        let ranges = |said: serde_json::Value| {
            let spec = json!({"clusterIPs": ["10.96.0.5"], "type": "LoadBalancer", "loadBalancerSourceRanges": said});
            trimmed::<Service>(json!({"metadata": {"name": "web", "namespace": "blue"}, "spec": spec}))
                .source_ranges
        };
        let some = |all: &[&str]| Some(all.iter().map(|one| one.parse().unwrap()).collect::<Vec<Cidr>>());
        assert_eq!((ranges(json!(null)), ranges(json!([]))), (None, None));
        let said = json!([" 192.0.2.7/24 ", "192.0.2.128/25", "2001:db8::/32", "nonsense"]);
        assert_eq!(ranges(said), some(&["192.0.2.0/24", "2001:db8::/32"]));
        assert_eq!(ranges(json!(["nonsense"])), some(&[]), "what cannot be read lets nobody in");
        let apart = |count: usize| {
            ranges((0..count).map(|n| format!("10.{}.{}.0/24", n / 100, n % 100 * 2)).collect())
        };
        assert_eq!(
            (apart(256).unwrap().len(), apart(257)),
            (256, some(&[])),
            "a list that is too long lets nobody in"
        );
        let side_by_side = ranges((0..512).map(|n| format!("10.0.{}.{}/25", n / 2, n % 2 * 128)).collect());
        assert_eq!(side_by_side, some(&["10.0.0.0/16"]), "it is counted when it is merged");
    }

    #[test]
    fn a_service_keeps_by_which_addresses_it_is_reached_from_outside() {
        let service: Service = trimmed(json!({
            "metadata": {"name": "web", "namespace": "blue"},
            "spec": {
                "clusterIPs": ["10.96.0.5"], "type": "LoadBalancer", "externalIPs": ["192.0.2.9", "nonsense", "192.0.2.9"],
                "ports": [{"port": 80, "nodePort": 30080}],
                "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000,
            },
            "status": {"loadBalancer": {"ingress": [
                {"ip": "192.0.2.1", "ipMode": "VIP"}, {"ip": "192.0.2.2", "ipMode": "Proxy"}, {"ip": "192.0.2.3"}, {"hostname": "x"},
            ]}},
        }));
        let ips = |all: &[&str]| all.iter().map(|ip| ip.parse().unwrap()).collect::<Vec<IpAddr>>();
        assert_eq!(service.external_ips, ips(&["192.0.2.9"]));
        assert_eq!(service.ingress_ips, ips(&["192.0.2.1", "192.0.2.3"]));
        assert_eq!(service.ports[0].node_port, Some(30080));
        assert_eq!((service.external_local, service.health_port), (true, Some(31000)));
    }
}
