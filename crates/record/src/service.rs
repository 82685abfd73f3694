//! Services: what load balancers are made of.

use std::fmt;
use std::net::IpAddr;

use k8s_openapi::api::core::v1 as core;
use serde::{Deserialize, Serialize};

use crate::meta::object_key;
use crate::{ObjectKey, Watched};

/// How long a client stays with its endpoint if the service does not say.
const AFFINITY_SECONDS: i32 = 10_800;

/// A protocol of services.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// TCP, also where an object names none.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        })
    }
}

/// A service.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Service {
    /// What it is called.
    pub key: ObjectKey,
    /// `spec.clusterIPs`; a headless service and an alias have none.
    pub cluster_ips: Vec<IpAddr>,
    /// Its ports.
    pub ports: Vec<ServicePort>,
    /// Whether only endpoints on the client's own node serve: `internalTrafficPolicy: Local`.
    pub local: bool,
    /// Whether endpoints serve before they are ready.
    pub publish_not_ready: bool,
    /// For how many seconds a client stays with its endpoint, if `sessionAffinity` is `ClientIP`.
    pub affinity: Option<u32>,
}

/// A port of a service.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ServicePort {
    /// Its name, by which endpoints know it; empty if it has none.
    pub name: Box<str>,
    /// What is spoken there.
    pub protocol: Protocol,
    /// From 1.
    pub port: u16,
}

pub(crate) fn protocol(text: Option<&str>) -> Option<Protocol> {
    match text {
        None | Some("TCP") => Some(Protocol::Tcp),
        Some("UDP") => Some(Protocol::Udp),
        Some("SCTP") => Some(Protocol::Sctp),
        Some(_) => None,
    }
}

pub(crate) fn port(number: i32) -> Option<u16> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::trimmed;
    use serde_json::json;

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
        let port = |name: &str, protocol, port| ServicePort { name: name.into(), protocol, port };
        assert_eq!(service.cluster_ips, ["10.96.0.5", "fd00::5"].map(|ip| ip.parse::<IpAddr>().unwrap()));
        assert_eq!(service.ports, [port("http", Protocol::Tcp, 80), port("", Protocol::Udp, 53)]);
        assert_eq!((service.local, service.publish_not_ready, service.affinity), (true, false, Some(10_800)));
        let headless: Service = trimmed(json!({
            "metadata": {"name": "db", "namespace": "blue"}, "spec": {"clusterIPs": ["None"]},
        }));
        assert_eq!(headless.cluster_ips, [] as [IpAddr; 0]);
    }
}
