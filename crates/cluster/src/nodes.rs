//! Nodes: their ids and what follows from them, and the records of their chassis.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_alloc::{Claim, HostRange, HostSubnets, IdRecord, NodeIds, Seniority};
use causeway_api::annotations::{
    Annotation, ChassisRecord, HostCidrs, NodeSubnets, PerFamily, TransitPeerPorts, TransitSwitchPort,
    Vteps as Ends,
};
use causeway_api::intent::{ClusterConfig, PodSubnet};
use causeway_record::{Action, Kind, Node, NodeAddresses, Part, Priority, Read, Regarding, Target, Texts};
use causeway_types::{Cidr, Families, Family, NetworkName, NodeId, NodeName, TransitPeers, transit_address};
use serde_json::{Value, json};

use crate::claims::Claims;
use crate::desk::Desk;
use crate::owners::Owners;
use crate::trouble::{CHASSIS_CLAIM_REFUSED, NETWORK_ALLOCATION_FAILED};
use crate::vteps::Vteps;
use crate::writes::Writes;
use crate::{Error, Result};

#[derive(Debug)]
pub(crate) struct Nodes {
    all: BTreeMap<NodeName, Node>,
    ids: NodeIds,
    /// The default network's parts.
    parts: HostSubnets,
    /// Who has which chassis and tunnel addresses.
    claims: Claims,
    /// Whose an address is.
    addresses: NodeAddresses,
    /// Since when a node is not well, or nothing is heard of it, as far as this manager has seen.
    silent_since: BTreeMap<NodeName, i64>,
}

/// What is new about a node.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) fresh: bool,
    pub(crate) live: bool,
    /// Whether its tunnels carry more or less than before.
    pub(crate) mtu: bool,
    /// Whose claims must be settled.
    pub(crate) claims: BTreeSet<NodeName>,
    /// Whether its own addresses are others than before.
    pub(crate) addresses: bool,
    /// Whether its devices have other addresses, or other ends of tunnels are written on it.
    pub(crate) ends: bool,
}

impl Nodes {
    pub(crate) fn new(max_nodes: u32, subnets: &[PodSubnet], cluster: &ClusterConfig) -> Result<Self> {
        let inner = [
            &cluster.cluster_subnets,
            &cluster.service_cidrs,
            &cluster.join_subnets,
            &cluster.udn_join_subnets,
            &cluster.transit_subnets,
            &cluster.masquerade_subnets,
        ];
        Ok(Self {
            claims: Claims::new(inner.into_iter().flatten().copied().collect()),
            all: BTreeMap::new(),
            ids: NodeIds::new(max_nodes),
            parts: HostSubnets::new(host_ranges(subnets)).map_err(Error::ClusterSubnets)?,
            addresses: NodeAddresses::default(),
            silent_since: BTreeMap::new(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &NodeName> {
        self.all.keys()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Node> {
        self.all.values()
    }

    /// All nodes, and whether each is heard of.
    pub(crate) fn live(&self) -> impl Iterator<Item = (&NodeName, bool)> {
        self.all.iter().map(|(name, node)| (name, node.live))
    }

    pub(crate) fn exists(&self, name: &NodeName) -> bool {
        self.all.contains_key(name)
    }

    /// The addresses of nodes themselves, by their kubelets' account and by their records, which have the ends of tunnels, too.
    pub(crate) fn own_addresses(&self) -> impl Iterator<Item = (IpAddr, &NodeName)> {
        let recorded = |record: &ChassisRecord| {
            let own = record.node_ips.iter().flatten();
            own.chain(&record.encap_ips).copied().collect::<Vec<_>>()
        };
        let of = move |node: &Node| {
            node.addresses.clone().into_iter().chain(node.settled().map(recorded).unwrap_or_default())
        };
        self.all.iter().flat_map(move |(name, node)| of(node).map(move |address| (address, name)))
    }

    /// Whose an address is.
    pub(crate) fn addresses(&self) -> &NodeAddresses {
        &self.addresses
    }

    /// What an event about a node regards.
    pub(crate) fn regarding(&self, name: &NodeName) -> Option<Regarding> {
        self.all.get(name).map(regarding_node)
    }

    /// Nodes that are not well since then, or for longer.
    pub(crate) fn absent_since(&self, limit_ms: i64) -> impl Iterator<Item = &NodeName> {
        self.silent_since.iter().filter(move |(_, since)| **since <= limit_ms).map(|(name, _)| name)
    }

    /// The id of a node that exists.
    pub(crate) fn id_of(&self, name: &NodeName) -> Option<NodeId> {
        self.all.get(name).and_then(|_| self.ids.id_of(name))
    }

    /// The parts of the default network.
    pub(crate) fn parts(&self) -> &HostSubnets {
        &self.parts
    }

    /// The first node, by id, that a network has no part for.
    pub(crate) fn first_without(&self, parts: &HostSubnets) -> Option<&NodeName> {
        let ids = self.all.keys().filter_map(|name| self.ids.id_of(name));
        self.ids.holder(parts.first_without(ids)?)
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
        self.claims.start();
    }

    /// What is new about the node; nothing if nothing is.
    pub(crate) fn apply(&mut self, node: Node, now_ms: i64) -> Option<Change> {
        let (live, mtu) = (node.live, node.tunnel_mtu.clone());
        if node.ready {
            self.silent_since.remove(&node.name);
        } else {
            self.silent_since.entry(node.name.clone()).or_insert(now_ms);
        }
        if self.all.get(&node.name) == Some(&node) {
            return None;
        }
        let claims = self.claims.apply(&node);
        let name = node.name.clone();
        let addresses = !self.addresses.set(&name, Some(&node)).is_empty();
        let before = self.all.insert(name.clone(), node);
        let live = before.as_ref().is_none_or(|before| before.live != live);
        let fresh = before.is_none();
        let ends = self.all.get(&name).map(ends_of) != before.as_ref().map(ends_of);
        let mtu = before.map_or(Ok(None), |before| before.tunnel_mtu) != mtu;
        Some(Change { fresh, live, mtu, claims, addresses, ends })
    }

    /// The nodes whose tunnels carry less than this, with what they carry.
    pub(crate) fn narrower_than(&self, mtu: u32) -> impl Iterator<Item = (&NodeName, u32)> {
        let carried = |node: &Node| node.tunnel_mtu.as_ref().ok().copied().flatten();
        let all = self.all.iter().filter_map(move |(name, node)| Some((name, carried(node)?.0)));
        all.filter(move |(_, carried)| *carried < mtu)
    }

    /// The node is gone, and what it had is free. The answer is which nodes have no id, the lowest being given out first,
    /// and which claim what is free now.
    pub(crate) fn remove(&mut self, name: &NodeName) -> BTreeSet<NodeName> {
        self.all.remove(name);
        self.silent_since.remove(name);
        self.addresses.set(name, None);
        self.ids.release(name);
        let without_id = self.all.keys().filter(|name| self.ids.id_of(name).is_none()).cloned();
        without_id.chain(self.claims.remove(name)).collect()
    }

    /// The node's id, and whether it is new.
    fn give_id(&mut self, name: &NodeName) -> std::result::Result<(NodeId, bool), causeway_alloc::Error> {
        let fresh = self.ids.id_of(name).is_none();
        let id = self.ids.reserve(name)?;
        self.ids.commit(name);
        Ok((id, fresh))
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

impl Nodes {
    /// Whether the node is there and gets an id with its parts; if not, its people are told why. The answer is the node, its id, and
    /// whether that is new.
    fn number(&mut self, name: &NodeName, writes: &mut Writes) -> Option<(Node, NodeId, bool)> {
        let node = self.all.get(name).cloned()?;
        match self.give_id(name) {
            Ok((id, fresh)) => Some((node, id, fresh)),
            Err(error) => {
                let message = format!("node {name} gets no id: {error}; raise --max-nodes");
                writes.warn(regarding_node(&node), NETWORK_ALLOCATION_FAILED, message);
                None
            }
        }
    }

    /// Gives the node an id and writes what follows from it. The answer is whether the id is new.
    pub(crate) fn settle(
        &mut self,
        name: &NodeName,
        cluster: &ClusterConfig,
        (vteps, owners): (&Vteps, &Owners),
        desk: &mut Desk,
    ) -> bool {
        let Some((node, id, fresh)) = self.number(name, &mut desk.writes) else { return false };
        let subnets = self.parts.of(id);
        if let Err(error) = &subnets {
            let message = format!("node {name} gets no part of the cluster's pod subnets: {error}");
            desk.writes.warn(regarding_node(&node), NETWORK_ALLOCATION_FAILED, message);
        }
        let mut wanted = node_annotations(cluster, id, subnets.unwrap_or_default());
        wanted.extend(self.settle_claim(&node, desk));
        wanted.extend(vteps.ends_of(&node, owners));
        if let Some(body) = annotation_patch(&node.published, &wanted) {
            let action = Action::Merge { subresource: Some("status"), body };
            desk.writes.ask(node_target(name), Part::Annotations, Priority::Network, action);
        }
        fresh
    }

    /// The record of the node's chassis. What is refused is told once.
    fn settle_claim(&mut self, node: &Node, desk: &mut Desk) -> Option<(String, String)> {
        let settled = self.claims.settle(&node.name);
        desk.dirty.nodes(settled.concerned);
        for refused in settled.news {
            desk.writes.warn(regarding_node(node), CHASSIS_CLAIM_REFUSED, refused);
        }
        settled.record.map(|record| (ChassisRecord::KEY.to_owned(), record.text()))
    }
}

/// What ends of tunnels on the fabric follow from.
fn ends_of(node: &Node) -> (&Read<HostCidrs>, &Read<Ends>) {
    (&node.hosts, &node.vteps)
}

pub(crate) fn node_target(name: &NodeName) -> Target {
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
