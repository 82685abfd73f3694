//! Kubernetes objects as they come in: trimmed to what somebody reads, and serialisable.
//!
//! Annotations stay texts here, and only those that have a key in [`causeway_api::annotations::keys`] are kept:
//! whoever needs one parses it, and a text that cannot be read is a problem of one object, never of the stream.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use causeway_api::annotations::{Annotation, keys};
use causeway_api::crd::{ClusterNetworkConnect, ClusterNetworkConnectSpec};
use causeway_api::intent;
use causeway_types::{ConnectName, ConnectSubnet, Family, NamespaceName, NetworkName, NodeName};
use serde::{Deserialize, Serialize};

/// Texts by key.
pub type Texts = BTreeMap<String, String>;

/// `namespace/name` of an object in a namespace.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct ObjectKey {
    /// The namespace.
    pub namespace: NamespaceName,
    /// The name.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for ObjectKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, name) =
            text.split_once('/').ok_or_else(|| format!("{text:?} is not namespace/name"))?;
        let namespace = NamespaceName::new(namespace).map_err(|error| error.to_string())?;
        Ok(Self { namespace, name: name.to_owned() })
    }
}

/// A node.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Node {
    /// Its name.
    pub name: NodeName,
    /// Its UID.
    pub uid: String,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Annotations that Causeway reads.
    pub annotations: Texts,
    /// Whether its kubelet is heard of: the condition `Ready` is not `Unknown`.
    pub live: bool,
}

/// A namespace.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Namespace {
    /// Its name.
    pub name: NamespaceName,
    /// All its labels: selectors look at any of them.
    pub labels: Texts,
    /// Whether it is going.
    pub deleting: bool,
}

/// A pod.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Pod {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Its UID.
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
    /// Annotations that Causeway reads.
    pub annotations: Texts,
}

/// A network attachment definition.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Nad {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: String,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Whether it is going.
    pub deleting: bool,
    /// Its labels.
    pub labels: Texts,
    /// All its annotations: those of a network are copied from the network's object.
    pub annotations: Texts,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// Who controls it, if anybody.
    pub controller: Option<Controller>,
    /// `spec.config`, as it is written.
    pub config: String,
}

/// The controlling owner of an object.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Controller {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// A ClusterNetworkConnect as zones read it: not what it selects, which is in its annotations.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Connect {
    /// Its name.
    pub name: ConnectName,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Whether it is going.
    pub deleting: bool,
    /// What its spec says, or why that cannot be read.
    pub spec: Result<ConnectSpec, String>,
    /// Annotations that the cluster manager has written.
    pub annotations: Texts,
}

/// What a zone reads of the spec of a ClusterNetworkConnect.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ConnectSpec {
    /// Where its links get addresses from.
    pub subnets: Vec<ConnectSubnet>,
    /// Whether pods reach pods.
    pub pods: bool,
    /// Whether pods reach services.
    pub services: bool,
    /// What the zone's report names once all this and the annotations are rendered.
    pub hash: String,
}

impl Connect {
    /// What is kept of an object. Selectors are the cluster manager's to read and to complain of.
    pub fn of(name: ConnectName, object: ClusterNetworkConnect) -> Self {
        let (meta, spec) = (object.metadata, object.spec);
        let annotations: Texts = meta.annotations.unwrap_or_default();
        let annotations: Texts =
            annotations.into_iter().filter(|(key, _)| keys::OF_CONNECT.contains(&key.as_str())).collect();
        let unselective = ClusterNetworkConnectSpec { network_selectors: Vec::new(), ..spec };
        let spec = match intent::Connect::of(&name, &unselective) {
            Ok(connect) => Ok(ConnectSpec {
                hash: connect.report_hash(&annotations),
                subnets: connect.subnets,
                pods: connect.pods,
                services: connect.services,
            }),
            Err(problems) => Err(format!("the spec is not valid: {}", intent::sentences(&problems))),
        };
        Self {
            name,
            created: meta.creation_timestamp.map_or(0, |time| time.0.as_second()),
            deleting: meta.deletion_timestamp.is_some(),
            spec,
            annotations,
        }
    }
}

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
    /// Its namespace and name.
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
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number.
    pub port: u16,
}

/// Some of the endpoints of a service, in one IP family.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct EndpointSlice {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// The service in the same namespace: label `kubernetes.io/service-name`, of a mirror `k8s.ovn.org/service-name`. A
    /// slice without it serves nobody.
    pub service: Option<String>,
    /// The network whose addresses these are, by the annotation `k8s.ovn.org/endpointslice-network`; those of the default
    /// network have none.
    pub mirror: Option<NetworkName>,
    /// The family of the addresses; slices of names are of nobody's interest.
    pub family: Family,
    /// The ports of every endpoint in it; one without a number is left out.
    pub ports: Vec<EndpointPort>,
    /// The endpoints.
    pub endpoints: Vec<Endpoint>,
}

/// A port of endpoints.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct EndpointPort {
    /// The name of the service's port.
    pub name: Box<str>,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number.
    pub port: u16,
}

/// An endpoint.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Endpoint {
    /// Its addresses, usually one.
    pub addresses: Vec<IpAddr>,
    /// Whether it is ready; one that does not say is.
    pub ready: bool,
    /// Whether it serves, terminating or not; one that does not say does if it is ready.
    pub serving: bool,
    /// Whether it is going.
    pub terminating: bool,
    /// Where it runs.
    pub node: Option<NodeName>,
}

/// The value of an annotation, if it is there.
///
/// # Errors
/// What is wrong with its text.
pub fn annotation<A: Annotation>(texts: &Texts) -> Result<Option<A>, causeway_api::Error> {
    texts.get(A::KEY).map(|text| A::parse(text)).transpose()
}
