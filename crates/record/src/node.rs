//! Nodes: the facts of their annotations, and the texts that roles compare with what they would write.

use std::collections::BTreeSet;
use std::net::IpAddr;

use causeway_api::annotations::{
    Annotation, ChassisId, ChassisRecord, EncapIps, GatewayConfig, GatewayMtuSupport, HostCidrs,
    Layer2TopologyVersion, TunnelMtu, Vteps, keys,
};
use causeway_types::{NodeId, NodeName};
use k8s_openapi::api::core::v1 as core;
use kube_core::{ApiResource, Object};
use serde::{Deserialize, Serialize};

use crate::meta::{Unread, created, uid};
use crate::read::read;
use crate::{Read, Texts, Watched};

/// What roles look at of a Kubernetes Node.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(from = "Plain")]
pub struct Node {
    /// What it is called.
    pub name: NodeName,
    /// Tells it from another node of the same name.
    pub uid: String,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Whether its kubelet is heard of: the condition `Ready` is not `Unknown`.
    pub live: bool,
    /// Whether its kubelet says no less than that it is well: the condition `Ready` is `True`, or not there yet.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub ready: bool,
    /// Its own addresses by its kubelet's account, inside and outside of the cluster.
    pub addresses: Vec<IpAddr>,
    /// Its labels: policies select nodes by them.
    #[serde(default, skip_serializing_if = "Texts::is_empty")]
    pub labels: Texts,
    /// The texts of annotations that a role writes on nodes, for comparing.
    pub published: Texts,
    /// The node's number.
    #[serde(skip_serializing)]
    pub id: Read<NodeId>,
    /// The name of its chassis, as it claims itself.
    #[serde(skip_serializing)]
    pub chassis: Read<ChassisId>,
    /// Addresses of its tunnel end points, as it claims itself.
    #[serde(skip_serializing)]
    pub encaps: Read<EncapIps>,
    /// What of these claims is settled.
    #[serde(skip_serializing)]
    pub record: Read<ChassisRecord>,
    /// Which layer2 topology it has.
    #[serde(skip_serializing)]
    pub layer2: Read<Layer2TopologyVersion>,
    /// How traffic leaves it.
    #[serde(skip_serializing)]
    pub gateway: Read<GatewayConfig>,
    /// Whether its OVN checks packets against the gateway's MTU.
    #[serde(skip_serializing)]
    pub gateway_mtu: Read<GatewayMtuSupport>,
    /// The largest packet of a pod that its tunnels carry.
    #[serde(skip_serializing)]
    pub tunnel_mtu: Read<TunnelMtu>,
    /// All its addresses, as it claims itself.
    #[serde(skip_serializing)]
    pub hosts: Read<HostCidrs>,
    /// Its ends of the tunnels on the fabric.
    #[serde(skip_serializing)]
    pub vteps: Read<Vteps>,
}

/// A node as it is written down: the rest follows from the texts.
#[derive(Deserialize)]
struct Plain {
    name: NodeName,
    uid: String,
    created: i64,
    live: bool,
    #[serde(default = "yes")]
    ready: bool,
    #[serde(default)]
    addresses: Vec<IpAddr>,
    #[serde(default)]
    labels: Texts,
    published: Texts,
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_true(value: &bool) -> bool {
    *value
}

impl From<Plain> for Node {
    fn from(plain: Plain) -> Self {
        let Plain { name, uid, created, live, ready, published, addresses, labels } = plain;
        let mut node = Self { uid, created, live, ready, addresses, labels, ..Self::new(name) };
        published.iter().for_each(|(key, text)| node.annotate(key, Some(text)));
        node
    }
}

impl Node {
    /// A node that is heard of and says nothing.
    pub fn new(name: NodeName) -> Self {
        Self {
            name,
            uid: String::new(),
            created: 0,
            live: true,
            ready: true,
            addresses: Vec::new(),
            labels: Texts::new(),
            published: Texts::new(),
            id: Ok(None),
            chassis: Ok(None),
            encaps: Ok(None),
            record: Ok(None),
            layer2: Ok(None),
            gateway: Ok(None),
            gateway_mtu: Ok(None),
            tunnel_mtu: Ok(None),
            hosts: Ok(None),
            vteps: Ok(None),
        }
    }

    /// What is settled of its claims. What was written for another Node of its name does not count.
    pub fn settled(&self) -> Option<&ChassisRecord> {
        self.record.as_ref().ok()?.as_ref().filter(|record| record.uid == self.uid)
    }

    /// All that is its own: what its kubelet names, and what is settled, tunnels included.
    pub fn own_addresses(&self) -> BTreeSet<IpAddr> {
        let record = self.settled().into_iter();
        let settled = record.flat_map(|record| record.node_ips.iter().flatten().chain(&record.encap_ips));
        self.addresses.iter().chain(settled).copied().collect()
    }

    /// Takes an annotation in, or out. Those that nobody reads leave no trace.
    pub fn annotate(&mut self, key: &str, text: Option<&str>) {
        if !keys::BY_NODE.contains(&key) && !keys::BY_CLUSTER_MANAGER.contains(&key) {
            return;
        }
        match text {
            Some(text) => drop(self.published.insert(key.to_owned(), text.to_owned())),
            None => drop(self.published.remove(key)),
        }
        match key {
            NodeId::KEY => self.id = read(text),
            ChassisId::KEY => self.chassis = read(text),
            EncapIps::KEY => self.encaps = read(text),
            ChassisRecord::KEY => self.record = read(text),
            Layer2TopologyVersion::KEY => self.layer2 = read(text),
            GatewayConfig::KEY => self.gateway = read(text),
            GatewayMtuSupport::KEY => self.gateway_mtu = read(text),
            TunnelMtu::KEY => self.tunnel_mtu = read(text),
            HostCidrs::KEY => self.hosts = read(text),
            Vteps::KEY => self.vteps = read(text),
            _ => {}
        }
    }
}

/// What is read of a node's status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    conditions: Vec<NodeCondition>,
    addresses: Vec<NodeAddress>,
}

#[derive(Clone, Debug, Deserialize)]
struct NodeAddress {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

/// A kubelet that says more than this is not believed further.
const MAX_ADDRESSES: usize = 16;

impl NodeStatus {
    fn numeric(&self) -> Vec<IpAddr> {
        let numeric = self.addresses.iter().filter(|address| address.kind.ends_with("IP"));
        numeric.filter_map(|address| address.address.parse().ok()).take(MAX_ADDRESSES).collect()
    }
}

#[derive(Clone, Debug, Deserialize)]
struct NodeCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
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
        let meta = object.metadata;
        let status = object.status.unwrap_or_default();
        let ready = status.conditions.iter().find(|condition| condition.kind == "Ready");
        let ready = ready.map_or("True", |condition| &condition.status);
        let (live, ready, addresses) = (ready != "Unknown", ready == "True", status.numeric());
        let (uid, created) = (uid(&meta), created(&meta));
        let mut node = Self { uid, created, live, ready, addresses, ..Self::new(name) };
        let annotations = meta.annotations.unwrap_or_default();
        annotations.iter().for_each(|(key, text)| node.annotate(key, Some(text)));
        Self { labels: meta.labels.unwrap_or_default(), ..node }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::meta::{replayed, trimmed};

    #[test]
    fn a_node_that_is_not_heard_of_is_not_live() {
        let node = |status: &str| -> Node {
            trimmed(json!({"metadata": {"name": "n1", "annotations": {"k8s.ovn.org/node-id": "2", "a": "b"}},
                           "spec": {}, "status": {"conditions": [{"type": "Ready", "status": status}]}}))
        };
        assert_eq!([node("True").ready, node("False").ready, node("Unknown").ready], [true, false, false]);
        assert_eq!(replayed(&node("False")), node("False"));
        assert_eq!([node("True").live, node("False").live, node("Unknown").live], [true, true, false]);
        let expected = Texts::from([(keys::NODE_ID.to_owned(), "2".to_owned())]);
        assert_eq!((node("True").published, node("True").id), (expected, Ok(NodeId::new(2).ok())));
    }

    #[test]
    fn what_a_node_says_of_itself_is_not_its_own_before_it_is_settled() {
        let record =
            |uid: &str| json!({"uid": uid, "node-ips": ["10.0.0.9"], "encap-ips": ["192.0.2.1"]}).to_string();
        let own = |uid: &str| {
            let node: Node = trimmed(json!({
                "metadata": {"name": "n1", "uid": "u", "annotations": {
                    keys::NODE_CHASSIS_RECORD: record(uid), keys::HOST_CIDRS: r#"["203.0.113.1/24"]"#}},
                "spec": {}, "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}}));
            node.own_addresses().iter().map(IpAddr::to_string).collect::<Vec<_>>()
        };
        assert_eq!(own("u"), ["10.0.0.1", "10.0.0.9", "192.0.2.1"]);
        assert_eq!(own("of an older one"), ["10.0.0.1"]);
    }

    /// What cannot be read is a value, and survives a recording.
    #[test]
    fn a_text_that_cannot_be_read_says_so() {
        let node: Node = trimmed(json!({"spec": {}, "metadata": {"name": "n1", "uid": "u", "annotations": {
            "k8s.ovn.org/node-id": "two", "k8s.ovn.org/node-chassis-id": "c-1"}}}));
        assert!(node.id.as_ref().is_err_and(|problem| problem.contains("k8s.ovn.org/node-id")), "{node:?}");
        assert_eq!(node.chassis, ChassisId::parse("c-1").map(Some).map_err(|error| error.to_string()));
        assert_eq!(replayed(&node), node);
    }
}
