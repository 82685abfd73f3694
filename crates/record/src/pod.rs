//! Pods: where they run, what they have and what they ask for.

use std::collections::BTreeMap;

use causeway_api::annotations::{
    Annotation, DefaultNetworkRequest, OpenPorts, PodNetworks, RequestedNetworks, RequestedPrimary, keys,
};
use causeway_types::NodeName;
use k8s_openapi::api::core::v1 as core;
use kube_core::{ApiResource, Object};
use serde::{Deserialize, Serialize};

use crate::host_port::{self, Container};
use crate::meta::{created, object_key, uid};
use crate::read::{self, read};
use crate::service::{port, protocol};
use crate::{HostPorts, ObjectKey, Protocol, Read, Texts, Watched};

/// What roles look at of a Kubernetes Pod.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Pod {
    /// What it is called.
    pub key: ObjectKey,
    /// Tells it from another pod of the same name.
    pub uid: String,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Where it was scheduled to.
    pub node: Option<NodeName>,
    /// Whether it uses the node's own network.
    pub host_network: bool,
    /// Whether it has ended for good: `Succeeded` or `Failed`.
    pub finished: bool,
    /// Whether it is going.
    pub deleting: bool,
    /// All its labels: selectors of policies look at any of them.
    #[serde(default, skip_serializing_if = "Texts::is_empty")]
    pub labels: Texts,
    /// Ports that its containers have named, each name and protocol once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named_ports: Vec<NamedPort>,
    /// The addresses that the cluster manager has given it.
    #[serde(with = "read")]
    pub networks: Read<PodNetworks>,
    /// The secondary networks that it asks for.
    #[serde(with = "read")]
    pub requested: Read<RequestedNetworks>,
    /// Addresses that it asks for on its primary network.
    #[serde(with = "read")]
    pub default_network: Read<DefaultNetworkRequest>,
    /// The primary network that it asks for.
    #[serde(with = "read")]
    pub requested_primary: Read<RequestedPrimary>,
    /// Ports that stay reachable from the default network although another network is primary.
    #[serde(with = "read")]
    pub open_ports: Read<OpenPorts>,
    /// Ports of its node that lead to it.
    #[serde(default = "host_port::none", skip_serializing_if = "host_port::is_none")]
    pub host_ports: HostPorts,
    /// The hash of the file that a static pod was read from, which is its UID for the kubelet.
    pub static_pod: Option<String>,
    /// Whether its network status has been written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_status: bool,
}

/// A port that a container has a name for.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct NamedPort {
    /// What services and policies call the port, such as `http`.
    pub name: String,
    /// What is spoken there.
    pub protocol: Protocol,
    /// The number.
    pub port: u16,
}

impl Pod {
    /// A pod that is not scheduled yet, has nothing and asks for nothing.
    pub fn new(key: ObjectKey, uid: impl Into<String>) -> Self {
        Self {
            key,
            uid: uid.into(),
            created: 0,
            node: None,
            host_network: false,
            finished: false,
            deleting: false,
            labels: Texts::new(),
            named_ports: Vec::new(),
            networks: Ok(None),
            requested: Ok(None),
            default_network: Ok(None),
            requested_primary: Ok(None),
            open_ports: Ok(None),
            host_ports: host_port::none(),
            static_pod: None,
            has_status: false,
        }
    }

    /// Takes an annotation in, or out. Those that nobody reads leave no trace.
    pub fn annotate(&mut self, key: &str, text: Option<&str>) {
        match key {
            PodNetworks::KEY => self.networks = read(text),
            RequestedNetworks::KEY => self.requested = read(text),
            DefaultNetworkRequest::KEY => self.default_network = read(text),
            RequestedPrimary::KEY => self.requested_primary = read(text),
            OpenPorts::KEY => self.open_ports = read(text),
            keys::STATIC_POD => self.static_pod = text.map(str::to_owned),
            keys::NETWORK_STATUS => self.has_status = text.is_some(),
            _ => {}
        }
    }
}

/// What is read of a pod's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    node_name: Option<String>,
    host_network: Option<bool>,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
}

impl PodSpec {
    /// The containers whose ports are the pod's.
    fn lasting(&self) -> impl Iterator<Item = &Container> {
        self.containers.iter().chain(self.init_containers.iter().filter(|container| container.stays()))
    }
}

/// At most so many named ports of a pod count.
const MOST_NAMED_PORTS: usize = 256;

/// The ports that containers have named. Of equal names the first counts, as for services.
fn named_ports(spec: &PodSpec) -> Vec<NamedPort> {
    let ports = spec.lasting().flat_map(|container| &container.ports);
    let mut named: BTreeMap<(String, Protocol), u16> = BTreeMap::new();
    for given in ports.take(MOST_NAMED_PORTS) {
        let Some(name) = given.name.clone().filter(|name| !name.is_empty()) else { continue };
        if let (Some(protocol), Some(number)) =
            (protocol(given.protocol.as_deref()), port(given.container_port))
        {
            named.entry((name, protocol)).or_insert(number);
        }
    }
    named.into_iter().map(|((name, protocol), port)| NamedPort { name, protocol, port }).collect()
}

/// What is read of a pod's status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodStatus {
    phase: Option<String>,
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
        let meta = object.metadata;
        let phase = object.status.unwrap_or_default().phase.unwrap_or_default();
        let mut pod = Self {
            created: created(&meta),
            host_ports: host_port::read(object.spec.lasting()),
            node: object.spec.node_name.as_ref().and_then(|name| NodeName::new(name.as_str()).ok()),
            host_network: object.spec.host_network.unwrap_or(false),
            named_ports: named_ports(&object.spec),
            finished: matches!(phase.as_str(), "Succeeded" | "Failed"),
            deleting: meta.deletion_timestamp.is_some(),
            ..Self::new(key, uid(&meta))
        };
        let annotations = meta.annotations.unwrap_or_default();
        annotations.iter().for_each(|(key, text)| pod.annotate(key, Some(text)));
        Self { labels: meta.labels.unwrap_or_default(), ..pod }
    }
}

#[cfg(test)]
mod tests {
    use causeway_types::NamespaceName;
    use serde_json::json;

    use super::*;
    use crate::meta::{replayed, trimmed};
    use crate::{HostPort, Protocol};

    /// POL-018: a container that stays beside the others has ports as they have.
    #[test]
    fn a_pod_keeps_what_is_read() {
        let pod: Pod = trimmed(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web-0", "namespace": "blue", "uid": "u1", "creationTimestamp": "1970-01-01T00:00:07Z",
                "labels": {"app": "web"},
                "annotations": {"k8s.ovn.org/pod-networks": "{}", "checksum/config": "long"},
                "managedFields": [{"manager": "kubelet"}],
            },
            "spec": {
                "nodeName": "n1",
                "initContainers": [
                    {"name": "once", "ports": [{"name": "setup", "containerPort": 1, "hostPort": 1}]},
                    {"name": "stays", "restartPolicy": "Always", "ports": [
                        {"name": "dns", "protocol": "UDP", "containerPort": 53}, {"containerPort": 2, "hostPort": 2}]},
                ],
                "containers": [{"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 80}]}],
            },
            "status": {"phase": "Succeeded", "podIP": "10.0.0.1"},
        }));
        let key = ObjectKey { namespace: NamespaceName::new("blue").unwrap(), name: "web-0".into() };
        let expected = Pod {
            created: 7,
            node: Some(NodeName::new("n1").unwrap()),
            finished: true,
            host_ports: Ok(vec![HostPort { address: None, protocol: Protocol::Tcp, port: 2, target: 2 }]),
            labels: Texts::from([("app".to_owned(), "web".to_owned())]),
            named_ports: vec![
                NamedPort { name: "dns".into(), protocol: Protocol::Udp, port: 53 },
                NamedPort { name: "http".into(), protocol: Protocol::Tcp, port: 80 },
            ],
            networks: Ok(Some(PodNetworks::default())),
            ..Pod::new(key, "u1")
        };
        assert_eq!(pod, expected);
    }

    /// A recording gives the same pod again, whether what it says can be read or not.
    #[test]
    fn a_pod_is_written_down_and_read_again() {
        let entry = r#"{"default":{"ip_addresses":["10.244.0.4/24"],"mac_address":"0a:58:0a:f4:00:04","role":"primary",
            "routes":[{"dest":"10.96.0.0/16","nextHop":"10.244.0.1"}],"gateway_ips":["10.244.0.1"],"tunnel_id":9}}"#;
        let pod: Pod = trimmed(json!({
            "metadata": {"name": "web-0", "namespace": "blue", "annotations": {
                "k8s.ovn.org/pod-networks": entry,
                "k8s.v1.cni.cncf.io/networks": "other/red@eth1,blue",
                "v1.multus-cni.io/default-network": r#"[{"name":"default","ips":["10.0.0.9/24"],"mac":"0a:58:0a:00:00:09"}]"#,
                "k8s.ovn.org/requested-primary-udn": "blue/net",
                "k8s.ovn.org/open-default-ports": "{",
                "kubernetes.io/config.mirror": "hash",
            }},
            "spec": {"containers": [{"ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "::1"}]}]},
        }));
        assert!(pod.networks.as_ref().is_ok_and(Option::is_some), "{pod:?}");
        assert!(
            pod.open_ports.as_ref().is_err_and(|problem| problem.contains("open-default-ports")),
            "{pod:?}"
        );
        assert_eq!(replayed(&pod), pod);
    }
}
