//! A node's brain: the index of what of the cluster this node renders, and which facts an event changes.
//!
//! Owns trimmed facts of nodes, attachment definitions, connections, services and pods, never whole objects: of other nodes' pods only those of
//! layer2 networks, which have a port in every zone. Never reads the world and never writes to it; what rows follow is
//! `causeway-plan`'s. Work of an event grows with what it touches, not with how many networks or pods there are.

mod behind;
mod change;
mod connect;
mod connects;
mod events;
mod fading;
mod grants;
mod host_ports;
mod knowledge;
mod nad;
mod network;
mod networks;
mod node;
mod nodes;
mod pod;
mod pods;
mod policy;
mod problem;
mod processes;
mod running;
mod service;
mod services;
mod siblings;
mod usage;
mod uses;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use causeway_api::annotations::Layer2TopologyVersion;
use causeway_api::intent::{ClusterConfig, Network, PodSubnet};
use causeway_types::{NadKey, NamespaceName, NetworkName, NodeId, NodeName, OvnPrefix};
use serde::{Deserialize, Serialize};

pub use change::{Change, Changes};
pub use connect::{ConnectInfo, Place};
pub use connects::{ConnectReport, Connecting, Membership};
pub use host_ports::HostDoor;
pub use knowledge::{Effect, Input, Knowledge};
pub use network::{Active, Leg, OnFabric};
pub use node::{BridgePorts, Fact, Gateway, NodeInfo, Recorded};
pub use pod::{Local, LocalPod, PodAddress, PodInfo, PodPort};
pub use policy::{
    Action, Class, Direction, Meeting, Number, PeerSetHere, Peers, PodSelector, PolicyCounts, PolicyInfo,
    PolicyKey, RuleInfo, SetMark, SetSpec, Subjects, Who, mark,
};
pub use problem::{Problem, Reason, Subject};
pub use processes::{Cgroup, Confined, Kubelet, Processes};
pub use service::{Choice, EndpointInfo, EndpointPort, Protocol, ServiceInfo, ServicePort, SliceInfo};
pub use services::{Claimed, Serving};
pub use usage::{Render, Use};

use self::behind::Behind;
use self::connects::Connects;
use self::fading::Fading;
use self::host_ports::HostPorts;
use self::nad::Nads;
use self::network::Spec;
use self::networks::Networks;
use self::nodes::Nodes;
use self::pods::Pods;
use self::policy::Policies;
use self::services::Services;
use self::siblings::Siblings;
use self::usage::Usage;
use causeway_record::ObjectKey;

/// What a zone must know beforehand.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ZoneConfig {
    /// The node whose zone this is.
    pub node: NodeName,
    /// What all networks have in common.
    pub cluster: ClusterConfig,
    /// Pod subnets of the default network, with the length of a node's part.
    pub pod_subnets: Vec<PodSubnet>,
    /// What is rendered.
    pub render: Render,
    /// Services of the default network that pods of every network reach, such as the API server's and the name
    /// server's.
    pub default_services: Vec<ObjectKey>,
    /// Whether ClusterNetworkConnects are watched.
    pub connects: bool,
    /// Whether tunnels to other nodes are encrypted.
    #[serde(default)]
    pub ipsec: bool,
    /// Namespaces whose pods in a node's own network reach services of every network.
    #[serde(default)]
    pub all_services: BTreeSet<NamespaceName>,
    /// Whether authors of NetworkPolicies may have connections untracked.
    #[serde(default)]
    pub stateless_policies: bool,
    /// Whether isolated pods get and send ICMP all the same.
    #[serde(default)]
    pub icmp_through_policies: bool,
    /// Lines a second that each ACL with a log may write.
    #[serde(default = "usual_log_rate")]
    pub log_rate: u32,
    /// The AS number of networks on the fabric.
    #[serde(default = "usual_asn")]
    pub evpn_asn: u32,
    /// How long links outlive the road that they were of, in milliseconds: other zones may not have heard yet that it is gone.
    #[serde(default)]
    pub linger_ms: u64,
}

/// The AS number that EVPN agents have always taken.
const USUAL_ASN: u32 = 64_999;

/// Lines a second of an ACL's log.
const USUAL_LOG_RATE: u32 = 20;

const fn usual_log_rate() -> u32 {
    USUAL_LOG_RATE
}

const fn usual_asn() -> u32 {
    USUAL_ASN
}

impl ZoneConfig {
    /// Everything rendered, node subnets of the usual length, no services.
    pub fn new(node: NodeName, cluster: ClusterConfig) -> Self {
        let usual = |cidr: &_| PodSubnet { cidr: *cidr, host_prefix: None };
        let pod_subnets = cluster.cluster_subnets.iter().map(usual).collect();
        Self {
            node,
            cluster,
            pod_subnets,
            render: Render::All,
            default_services: Vec::new(),
            connects: false,
            ipsec: false,
            all_services: BTreeSet::new(),
            stateless_policies: false,
            icmp_through_policies: false,
            log_rate: USUAL_LOG_RATE,
            evpn_asn: USUAL_ASN,
            linger_ms: 0,
        }
    }
}

/// This zone's own node, ready for plans.
#[derive(Clone, Copy, Debug)]
pub struct Here<'a> {
    /// What the Kubernetes Node and the zone are called.
    pub name: &'a NodeName,
    /// Its number.
    pub id: NodeId,
    /// The name of its row in Chassis, as the node claims it.
    pub chassis: &'a str,
    /// Whether its OVN checks packets against the gateway's MTU.
    pub gateway_mtu: bool,
}

/// Another node, ready for plans.
#[derive(Clone, Copy, Debug)]
pub struct There<'a> {
    /// Part of the names of its OVN objects.
    pub name: &'a NodeName,
    /// Its number.
    pub id: NodeId,
    /// The name of its row in Chassis, as the cluster manager has recorded it.
    pub chassis: &'a str,
    /// Whether its layer2 networks have transit routers, as all ours have; a node that does not say so is ours.
    pub has_transit_routers: bool,
}

/// What a network is in this zone.
#[derive(Clone, Copy, Debug)]
pub enum Rendering<'a> {
    /// Plans have all of it.
    Rendered(&'a Active),
    /// None of its pods is here, but others here reach it by compact connections: it is rendered as far as these need it.
    Stub(&'a Active),
    /// It is not, since nobody uses it here.
    Unused,
    /// Nobody uses it here; whether somebody did a moment ago is not known. What is there stays.
    Idle,
    /// Whether somebody uses it is not certain yet: what is there stays.
    Unknown,
    /// It cannot be rendered: what is there stays.
    Broken(&'a Problem),
}

/// The index.
#[derive(Debug)]
pub struct Zone {
    config: ZoneConfig,
    default: NetworkName,
    nodes: Nodes,
    node_addresses: causeway_record::NodeAddresses,
    bridge: Option<BridgePorts>,
    processes: Option<Processes>,
    /// Nodes that nobody listens to until they have cleared freed numbers.
    away: BTreeSet<NodeName>,
    /// Namespaces whose pods must have a primary network of their own.
    demanding: BTreeSet<NamespaceName>,
    nads: Nads,
    networks: Networks,
    pods: Pods,
    behind: Behind,
    /// The pods of this node, whether they have addresses or not.
    locals: BTreeMap<ObjectKey, Local>,
    /// The UIDs of pods of this node that use its own network.
    host_pods: BTreeMap<ObjectKey, String>,
    host_ports: HostPorts,
    usage: Usage,
    connects: Connects,
    fading: Fading,
    services: Services,
    siblings: Siblings,
    policies: Policies,
    problems: BTreeMap<Subject, Problem>,
}

impl Zone {
    /// A zone that knows nothing but the default network.
    pub fn new(config: ZoneConfig) -> Self {
        let mut networks = Networks::default();
        networks.insert_default(Spec::of_default(&config.pod_subnets, &config.cluster));
        let (nodes, usage) = (Nodes::new(config.node.clone()), Usage::new(config.render));
        let mut zone = Self {
            config,
            default: NetworkName::default_network(),
            nodes,
            node_addresses: causeway_record::NodeAddresses::default(),
            bridge: None,
            processes: None,
            away: BTreeSet::new(),
            demanding: BTreeSet::new(),
            nads: Nads::default(),
            networks,
            pods: Pods::default(),
            behind: Behind::default(),
            locals: BTreeMap::new(),
            host_pods: BTreeMap::new(),
            host_ports: HostPorts::default(),
            usage,
            connects: Connects::default(),
            fading: Fading::default(),
            services: Services::default(),
            siblings: Siblings::default(),
            policies: Policies::default(),
            problems: BTreeMap::new(),
        };
        zone.settle(&NetworkName::default_network());
        zone
    }

    /// What the zone was made with.
    pub fn config(&self) -> &ZoneConfig {
        &self.config
    }

    /// This zone's own node.
    ///
    /// # Errors
    /// What it still lacks.
    pub fn here(&self) -> Result<Here<'_>, Problem> {
        let name = &self.config.node;
        let lacks = |what: &str| Problem::new(Reason::NodeNotReady, format!("node {name} {what}"));
        let node = self.nodes.get(name).ok_or_else(|| lacks("is not known yet"))?;
        let malformed = |error: &String| Problem::new(Reason::Malformed, format!("node {name}: {error}"));
        let id = node.id.as_ref().map_err(malformed)?.ok_or_else(|| lacks("has no id yet"))?;
        let chassis = node.chassis.as_ref().map_err(malformed)?.as_deref();
        let chassis = chassis.ok_or_else(|| lacks("has no chassis yet"))?;
        Ok(Here { name, id, chassis, gateway_mtu: node.gateway_mtu })
    }

    /// Whether other nodes know where this one is.
    ///
    /// # Errors
    /// Why they do not.
    pub fn known_to_others(&self) -> Result<(), Problem> {
        let name = &self.config.node;
        match self.nodes.get(name).map(|node| &node.recorded) {
            Some(Recorded::Yes) => Ok(()),
            Some(Recorded::Refused(reasons)) => {
                Err(Problem::new(Reason::ClaimRefused, format!("node {name}: {}", reasons.join("; "))))
            }
            Some(Recorded::NotYet) | None => {
                let text = format!("the cluster manager has not recorded the chassis of node {name} yet");
                Err(Problem::new(Reason::NodeNotReady, text))
            }
        }
    }

    /// Why others know this node by another place than its own, or by none.
    fn refused_here(&self) -> Option<Problem> {
        self.known_to_others().err().filter(|problem| problem.reason == Reason::ClaimRefused)
    }

    /// Whether somebody else has the place of another node.
    pub fn is_crowded_out(&self, name: &NodeName) -> bool {
        self.nodes.clash(name).is_some()
    }

    /// How traffic leaves this zone's node; nothing if it does not.
    ///
    /// # Errors
    /// Why that cannot be read.
    pub fn gateway(&self) -> Result<Option<&Gateway>, String> {
        match self.nodes.get(&self.config.node) {
            Some(node) => node.gateway.as_ref().map(Option::as_ref).map_err(Clone::clone),
            None => Ok(None),
        }
    }

    /// This zone's node's end of the tunnels of a VTEP.
    ///
    /// # Errors
    /// Why there is none.
    pub fn vtep(&self, vtep: &str) -> Result<Ipv4Addr, String> {
        let node = &self.config.node;
        let known = self.nodes.get(node).map_or(Ok(None), |info| info.vteps.as_ref().map(Option::as_ref));
        let found = known.map_err(Clone::clone)?.and_then(|ends| ends.of(vtep));
        found.ok_or_else(|| {
            format!("node {node} has no address of VTEP {vtep}: look at the VTEP's conditions")
        })
    }

    /// The ports of the bridge to the outside, as far as there is one.
    pub fn bridge(&self) -> Option<&BridgePorts> {
        self.bridge.as_ref()
    }

    /// Another node; nothing while it has no id or no chassis, or is this one.
    ///
    /// # Errors
    /// What of it cannot be read, or who has the same id.
    pub fn there(&self, name: &NodeName) -> Result<Option<There<'_>>, String> {
        let Some(node) = self.nodes.get(name).filter(|node| node.name != self.config.node) else {
            return Ok(None);
        };
        if let Some(problem) = self.nodes.clash(name) {
            return Err(problem.message);
        }
        let (id, chassis) = (node.id.clone()?, node.chassis.as_ref().map_err(Clone::clone)?);
        // What a node writes itself never holds up what others do; that it cannot be read is said of it.
        let version = node.layer2.as_ref().ok().copied().flatten();
        let has_transit_routers =
            version.is_none_or(|version| version >= Layer2TopologyVersion::TRANSIT_ROUTER);
        let ready = id.zip(chassis.as_deref());
        Ok(ready.map(|(id, chassis)| There { name: &node.name, id, chassis, has_transit_routers }))
    }

    /// All nodes but this one.
    pub fn others(&self) -> impl Iterator<Item = &NodeInfo> {
        self.nodes.iter().filter(|node| node.name != self.config.node)
    }

    /// This node and the others, whether they are ready or not.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeInfo> {
        self.nodes.iter()
    }

    /// What is known of a node, this one or another.
    pub fn node(&self, name: &NodeName) -> Option<&NodeInfo> {
        self.nodes.get(name)
    }

    /// The other node that has a tunnel address.
    pub fn node_at(&self, address: IpAddr) -> Option<&NodeName> {
        self.nodes.with_encap(address).filter(|name| **name != self.config.node)
    }

    /// Whether nobody listens to another node: it has been away, and may still use numbers that others have now.
    pub fn is_away(&self, node: &NodeName) -> bool {
        self.away.contains(node) && *node != self.config.node
    }

    /// All addresses of other nodes, by which pods of this one might try to reach what runs there.
    pub fn addresses_of_others(&self) -> BTreeSet<IpAddr> {
        let own = self.others().flat_map(|node| node.addresses.iter().copied());
        own.chain(self.tunnel_addresses()).collect()
    }

    /// The tunnel addresses of all other nodes.
    pub fn tunnel_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let others = self.others().filter(|node| !self.is_crowded_out(&node.name));
        others.flat_map(|node| node.encaps.iter().flatten().flatten().copied())
    }

    /// What a network is here; nothing if there is no such network.
    pub fn rendering(&self, network: &NetworkName) -> Option<Rendering<'_>> {
        let entry = self.networks.get(network)?;
        let used = self.use_here(network);
        let stub = used != Use::Used && self.is_destination(network);
        Some(match (&entry.state, used) {
            (Err(problem), _) if stub => Rendering::Broken(problem),
            // More may be needed of it than a stub.
            (Ok(active), Use::Unknown) if stub => Rendering::Rendered(active),
            (Ok(active), _) if stub => Rendering::Stub(active),
            (_, Use::Unused) => Rendering::Unused,
            (Err(problem), _) => Rendering::Broken(problem),
            (Ok(_), Use::Idle) => Rendering::Idle,
            (Ok(_), Use::Unknown) => Rendering::Unknown,
            (Ok(active), Use::Used) => Rendering::Rendered(active),
        })
    }

    /// The network whose objects have names with this prefix.
    pub fn network_with_prefix(&self, prefix: &str) -> Option<&NetworkName> {
        match prefix.strip_suffix('_') {
            None => prefix.is_empty().then_some(&self.default),
            // A prefix without its last character is a name that has this very prefix.
            Some(name) => self.networks.with_prefix(&OvnPrefix::of(&NetworkName::new(name).ok()?)),
        }
    }

    /// Whether a network is used as a whole on another node, by its own pods or by those of a network that it is connected with.
    pub fn used_on(&self, network: &NetworkName, node: &NodeName) -> Use {
        self.use_of(network, node)
    }

    /// All networks, the default one included, whether they are rendered or not.
    pub fn networks(&self) -> impl Iterator<Item = &NetworkName> {
        self.networks.iter().map(|(name, _)| name)
    }

    /// Networks that are rendered here, as a whole or as stubs.
    pub fn rendered(&self) -> impl Iterator<Item = &Active> {
        self.networks().filter_map(|name| match self.rendering(name) {
            Some(Rendering::Rendered(active) | Rendering::Stub(active)) => Some(active),
            _ => None,
        })
    }

    /// Whether the pods of a namespace must have a primary network of their own.
    pub fn demands_primary(&self, namespace: &NamespaceName) -> bool {
        self.demanding.contains(namespace)
    }

    /// Primary networks of a namespace by their attachment definitions, the oldest definition first.
    pub fn primaries(&self, namespace: &NamespaceName) -> Vec<(&NadKey, &NetworkName)> {
        self.nads.primaries(namespace)
    }

    /// A pod: any of this node, and those of other nodes that have a port here.
    pub fn pod(&self, key: &ObjectKey) -> Option<&PodInfo> {
        self.pods.get(key)
    }

    /// A pod of this node, with addresses or still without.
    pub fn local(&self, key: &ObjectKey) -> Option<&Local> {
        self.locals.get(key)
    }

    /// All pods of this node.
    pub fn locals(&self) -> impl Iterator<Item = &ObjectKey> {
        self.locals.keys()
    }

    /// What an attachment definition says, if it counts.
    pub fn definition(&self, nad: &NadKey) -> Option<&Network> {
        let definition = pod::nad_of(&Arc::new(nad.clone()));
        Some(&self.nads.get(&definition)?.spec.as_ref().ok()?.network)
    }

    /// The port of a pod's primary network, by the pod's own annotation alone.
    pub fn primary(&self, pod: &ObjectKey) -> Option<&PodPort> {
        self.pod(pod)?.primary()
    }

    /// The address of a pod on a network.
    pub fn address(&self, pod: &ObjectKey, network: &NetworkName) -> Option<&PodAddress> {
        let on_network = |port: &&PodPort| self.network_of(port) == Some(network);
        self.pod(pod)?.ports.iter().find(on_network)?.address.as_ref()
    }

    /// The network of a pod's port, as far as it is known.
    pub fn network_of(&self, port: &PodPort) -> Option<&NetworkName> {
        match &port.attachment {
            None => Some(&self.default),
            Some(attachment) => self.nads.network(&pod::nad_of(attachment)),
        }
    }

    /// Why a port's attachment definition does not count, if it does not.
    pub fn nad_problem(&self, port: &PodPort) -> Option<&Problem> {
        let attachment = port.attachment.as_ref()?;
        self.nads.get(&pod::nad_of(attachment))?.spec.as_ref().err()
    }

    /// The pods with a port on a network that this zone knows of.
    pub fn pods_of(&self, network: &NetworkName) -> BTreeSet<ObjectKey> {
        if network.is_default() {
            return self.pods.local().collect();
        }
        let nads = self.networks.get(network).into_iter().flat_map(|entry| entry.nads());
        nads.flat_map(|nad| self.pods.of_nad(nad)).collect()
    }

    /// The pods of a node that the zone keeps.
    pub fn pods_on<'a>(&'a self, node: &'a NodeName) -> impl Iterator<Item = ObjectKey> + 'a {
        self.pods.of_node(node)
    }

    /// How many pods the zone keeps.
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// Everything that is not as it was asked for.
    pub fn problems(&self) -> &BTreeMap<Subject, Problem> {
        &self.problems
    }

    /// Whether [`Zone::tick`] ever has something to do.
    pub fn keeps_time(&self) -> bool {
        self.usage.counts() || !self.fading.is_empty()
    }

    /// When [`Zone::tick`] has something to do.
    pub fn deadline(&self) -> Option<u64> {
        self.usage.deadline().into_iter().chain(self.fading.deadline()).min()
    }
}

#[cfg(test)]
mod tests;
