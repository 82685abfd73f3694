//! Nodes: their ids and what follows from them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use causeway_alloc::{Claim, HostRange, HostSubnets, IdRecord, NodeIds, Seniority};
use causeway_api::annotations::{Annotation, NodeSubnets, PerFamily, TransitPeerPorts, TransitSwitchPort};
use causeway_api::intent::{ClusterConfig, PodSubnet};
use causeway_record::{Action, Kind, Part, Priority, Request, Target};
use causeway_record::{EventNote, Regarding};
use causeway_record::{Node, Texts};
use causeway_types::{Cidr, Families, Family, NetworkName, NodeId, NodeName, TransitPeers, transit_address};
use serde_json::{Value, json};

use crate::keys::Wait;
use crate::trouble::NETWORK_ALLOCATION_FAILED;
use crate::{Error, Manager, Output};

/// All nodes.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    pub(crate) all: BTreeMap<NodeName, Node>,
    pub(crate) ids: NodeIds,
    /// The default network's parts.
    pub(crate) default_subnets: HostSubnets,
    /// Up to which epoch each node's zone has cleared freed numbers.
    pub(crate) epochs: BTreeMap<NodeName, u64>,
}

impl Nodes {
    pub(crate) fn new(max_nodes: u32, subnets: &[PodSubnet]) -> Result<Self, Error> {
        Ok(Self {
            all: BTreeMap::new(),
            ids: NodeIds::new(max_nodes),
            default_subnets: HostSubnets::new(host_ranges(subnets)).map_err(Error::ClusterSubnets)?,
            epochs: BTreeMap::new(),
        })
    }

    /// The id of a node that exists.
    pub(crate) fn id_of(&self, name: &NodeName) -> Option<NodeId> {
        self.all.get(name).and_then(|_| self.ids.id_of(name))
    }

    /// Takes up what annotations say. Of two nodes with one id, the older keeps it.
    pub(crate) fn restore(&mut self) {
        let claim = |node: &Node| {
            let id = node.id.clone().ok().flatten()?;
            let seniority = Seniority { finished: false, created: node.created };
            Some(Claim { seniority, owner: node.name.clone(), number: id })
        };
        let claims = self.all.values().filter_map(claim).collect();
        for lost in self.ids.restore(claims, &IdRecord::default()) {
            tracing::warn!(node = %lost.owner, id = %lost.id, error = %lost.error, "a node needs another id");
        }
    }
}

pub(crate) fn host_ranges(subnets: &[PodSubnet]) -> Vec<HostRange> {
    let range =
        |subnet: &PodSubnet| HostRange { cidr: subnet.cidr, host_prefix: subnet.effective_host_prefix() };
    subnets.iter().map(range).collect()
}

/// The id of the node whose part an address is in.
pub(crate) fn node_of_address(ranges: &[HostRange], address: IpAddr) -> Option<NodeId> {
    let mut before: u128 = 0;
    for range in ranges.iter().filter(|range| range.cidr.family() == Family::of(&address)) {
        if range.cidr.contains_address(address) {
            let part = Cidr::around(address, range.host_prefix).ok()?;
            let number = before + range.cidr.number_of_subnet(&part).ok()?;
            return NodeId::new(u32::try_from(number).ok()?.checked_add(NodeId::FIRST.get())?).ok();
        }
        before += range.cidr.last_subnet(range.host_prefix).ok()? + 1;
    }
    None
}

impl Manager {
    pub(crate) fn node_applied(&mut self, node: Node) {
        let name = node.name.clone();
        if self.nodes.all.get(&name) == Some(&node) {
            return;
        }
        self.written_back(&node_target(&name));
        self.zones.set_live(&name, node.live, self.now_ms);
        let live = node.live;
        let before = self.nodes.all.insert(name.clone(), node);
        if before.is_none() {
            self.dirty.clashes = true;
        }
        if before.is_none_or(|before| before.live != live) {
            self.all_connect_statuses();
        }
        self.dirty.nodes.insert(name);
    }

    pub(crate) fn node_deleted(&mut self, name: &NodeName) {
        self.written_back(&node_target(name));
        self.nodes.all.remove(name);
        self.nodes.ids.release(name);
        self.zones.set_live(name, false, self.now_ms);
        self.dirty.reach.nodes.insert(name.clone());
        self.all_connect_statuses();
        self.dirty.clashes = true;
        // The lowest id is given out first, so a node that had none may have one now.
        let without = self.nodes.all.keys().filter(|name| self.nodes.ids.id_of(name).is_none());
        self.dirty.nodes.extend(without.cloned().collect::<Vec<_>>());
        self.wake_pods_of(name);
        self.expire_numbers();
        self.short_networks();
    }

    /// Gives the node an id and writes what follows from it.
    pub(crate) fn settle_node(&mut self, name: &NodeName) {
        let Some(node) = self.nodes.all.get(name) else { return };
        let known = self.nodes.ids.id_of(name);
        let id = match self.nodes.ids.reserve(name) {
            Ok(id) => id,
            Err(error) => {
                let message = format!("node {name} gets no id: {error}; raise --max-nodes");
                let regarding = regarding_node(node);
                return self.say(regarding, NETWORK_ALLOCATION_FAILED, message);
            }
        };
        self.nodes.ids.commit(name);
        let subnets = self.nodes.default_subnets.of(id);
        if let Err(error) = &subnets {
            let message = format!("node {name} gets no part of the cluster's pod subnets: {error}");
            let regarding = regarding_node(node);
            self.say(regarding, NETWORK_ALLOCATION_FAILED, message);
        }
        let wanted = node_annotations(&self.config.cluster, id, subnets.unwrap_or_default());
        let patch = self.nodes.all.get(name).and_then(|node| annotation_patch(&node.published, &wanted));
        if let Some(patch) = patch {
            self.write(Request {
                target: node_target(name),
                part: Part::Annotations,
                priority: Priority::Network,
                action: Action::Merge { subresource: Some("status"), body: patch },
                token: 0,
            });
        }
        if known.is_none() {
            self.dirty.reach.nodes.insert(name.clone());
            self.expire_numbers();
            self.short_networks();
            self.wake(&Wait::Node(name.clone()));
        }
    }

    /// Networks that have no subnet for some node say so.
    fn short_networks(&mut self) {
        let layer3 = self.networks.all.values().filter(|network| network.host_subnets.is_some());
        self.dirty.statuses.extend(layer3.filter_map(|network| network.owner.clone()));
    }
}

fn node_target(name: &NodeName) -> Target {
    Target { kind: Kind::Node, namespace: None, name: name.to_string() }
}

fn regarding_node(node: &Node) -> Regarding {
    Regarding {
        api_version: "v1".into(),
        kind: "Node".into(),
        namespace: None,
        name: node.name.to_string(),
        uid: node.uid.clone(),
    }
}

impl Manager {
    /// Warns about an object, in an event.
    pub(crate) fn say(&mut self, regarding: Regarding, reason: &str, message: String) {
        let note = EventNote { regarding, warning: true, reason: reason.into(), message };
        self.out.push(Output::Event(note));
    }
}

/// What the manager writes on a node, for the families that the cluster has.
fn node_annotations(cluster: &ClusterConfig, id: NodeId, subnets: Vec<Cidr>) -> Texts {
    let families = Families::of(&cluster.cluster_subnets);
    let transit = || cluster.transit_subnets.iter().filter(|subnet| families.has(subnet.family()));
    let switch = PerFamily::collect(transit().filter_map(|subnet| transit_address(subnet, id).ok()));
    let peers = PerFamily::collect(
        transit().filter_map(|subnet| TransitPeers::of(subnet, id).ok()).map(|peers| peers.subnet),
    );
    let mut texts = Texts::from([
        (NodeId::KEY.to_owned(), id.text()),
        (TransitSwitchPort::KEY.to_owned(), TransitSwitchPort(switch).text()),
        (TransitPeerPorts::KEY.to_owned(), TransitPeerPorts(peers).text()),
    ]);
    if !subnets.is_empty() {
        let subnets = NodeSubnets(BTreeMap::from([(NetworkName::default_network(), subnets)]));
        texts.insert(NodeSubnets::KEY.to_owned(), subnets.text());
    }
    texts
}

/// What has to be merged into an object so that it has these annotations; nothing if it has them.
pub(crate) fn annotation_patch(there: &Texts, wanted: &Texts) -> Option<Value> {
    let differs = |(key, value): &(&String, &String)| there.get(*key) != Some(*value);
    let missing: BTreeMap<&String, &String> = wanted.iter().filter(differs).collect();
    (!missing.is_empty()).then(|| json!({"metadata": {"annotations": missing}}))
}
