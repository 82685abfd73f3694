//! A node as a zone sees it: the facts of its annotations, each there, absent or unreadable.
//!
//! Of other nodes only the record of their chassis counts, which the cluster manager writes. What a node says of itself is
//! believed by its own zone alone, which has that chassis whatever others think of it.

use std::net::IpAddr;

use causeway_api::annotations::{
    Annotation, ChassisId, GatewayConfig, GatewayMode, Layer2TopologyVersion, Vteps,
};
use causeway_types::{Family, Mac, NodeId, NodeName};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use causeway_record as record;

/// Something that an annotation says: nothing, a value, or a text that cannot be read.
pub type Fact<T> = record::Read<T>;

/// What a zone knows of a node, its own or another.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NodeInfo {
    /// `metadata.name` of the Node object.
    pub name: NodeName,
    /// Its number.
    pub id: Fact<NodeId>,
    /// The name of its chassis.
    pub chassis: Fact<String>,
    /// Addresses of its tunnel end points.
    pub encaps: Fact<Vec<IpAddr>>,
    /// Whether other nodes know it by these; asked of this zone's own node only.
    pub recorded: Recorded,
    /// Its own addresses, inside and outside of the cluster.
    pub addresses: Vec<IpAddr>,
    /// Which layer2 topology it has.
    pub layer2: Fact<Layer2TopologyVersion>,
    /// How traffic leaves it; known of this zone's own node only.
    pub gateway: Fact<Gateway>,
    /// Its ends of tunnels on the fabric; known of this zone's own node only.
    pub vteps: Fact<Vteps>,
    /// Whether its OVN checks packets against the gateway's MTU.
    pub gateway_mtu: bool,
}

/// Whether other nodes know a node by what it says of itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Recorded {
    /// They do.
    Yes,
    /// The cluster manager has not written it yet.
    NotYet,
    /// They do not, for these reasons.
    Refused(Vec<String>),
}

/// How traffic leaves a node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Gateway {
    /// Whether through the node's own routing tables instead of OVN's gateway router.
    pub local: bool,
    /// The bridge that holds the uplink.
    pub bridge: String,
    /// The bridge's MAC address.
    pub mac: Mac,
    /// The bridge's addresses.
    pub addresses: Vec<IpNet>,
    /// Next hops of the default routes.
    pub next_hops: Vec<IpAddr>,
    /// Whether node ports are served.
    pub node_ports: bool,
    /// VLAN of the uplink, if it is tagged.
    pub vlan: Option<u16>,
}

impl Gateway {
    /// The node's own address of a family: what leaves the node has it as its source.
    pub fn address(&self, family: Family) -> Option<IpAddr> {
        self.addresses.iter().map(IpNet::addr).find(|address| Family::of(address) == family)
    }
}

/// The ports of the bridge to the outside, by the numbers that flows know them by.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct BridgePorts {
    /// Its name in Open vSwitch, such as `br-ex`.
    pub bridge: String,
    /// The port towards OVN, once it is there.
    pub patch: Option<u32>,
    /// The port of the card, if the bridge has one.
    pub uplink: Option<u32>,
}

impl NodeInfo {
    pub(super) fn read(node: &record::Node, is_here: bool) -> Self {
        let (chassis, encaps) = if is_here { claimed(node) } else { settled(node) };
        Self {
            name: node.name.clone(),
            id: node.id.clone(),
            chassis: chassis.map(|id| id.map(|id| id.as_str().to_owned())),
            encaps: encaps.map(|ips| ips.filter(|ips| !ips.is_empty())),
            recorded: if is_here { recorded(node) } else { Recorded::Yes },
            addresses: node.addresses.clone(),
            layer2: node.layer2.clone(),
            gateway: if is_here { gateway(&node.gateway) } else { Ok(None) },
            vteps: if is_here { node.vteps.clone() } else { Ok(None) },
            gateway_mtu: node
                .gateway_mtu
                .as_ref()
                .ok()
                .and_then(Option::as_ref)
                .is_none_or(|support| support.0),
        }
    }

    /// What cannot be read, in one sentence.
    pub(super) fn unreadable(&self) -> Option<String> {
        let facts = [
            self.id.as_ref().err(),
            self.chassis.as_ref().err(),
            self.encaps.as_ref().err(),
            self.layer2.as_ref().err(),
            self.gateway.as_ref().err(),
            self.vteps.as_ref().err(),
        ];
        let texts: Vec<&str> = facts.into_iter().flatten().map(String::as_str).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    /// Takes from an earlier reading what cannot be read now: a text that was broken breaks nothing that stands.
    pub(super) fn keep_from(mut self, earlier: Option<&Self>) -> Self {
        let Some(earlier) = earlier else { return self };
        keep(&mut self.id, &earlier.id);
        keep(&mut self.chassis, &earlier.chassis);
        keep(&mut self.encaps, &earlier.encaps);
        keep(&mut self.layer2, &earlier.layer2);
        keep(&mut self.gateway, &earlier.gateway);
        keep(&mut self.vteps, &earlier.vteps);
        self
    }
}

type Place = (Fact<ChassisId>, Fact<Vec<IpAddr>>);

fn claimed(node: &record::Node) -> Place {
    (node.chassis.clone(), node.encaps.clone().map(|ips| ips.map(|ips| ips.0)))
}

fn settled(node: &record::Node) -> Place {
    if let Err(error) = &node.record {
        return (Err(error.clone()), Err(error.clone()));
    }
    let record = node.settled();
    (
        Ok(record.and_then(|record| record.chassis_id.clone())),
        Ok(record.map(|record| record.encap_ips.clone())),
    )
}

fn recorded(node: &record::Node) -> Recorded {
    let Some(record) = node.settled() else { return Recorded::NotYet };
    if !record.refused.is_empty() {
        return Recorded::Refused(record.refused.clone());
    }
    match claimed(node) {
        (Ok(chassis), Ok(encaps)) => {
            let same = chassis == record.chassis_id && encaps.unwrap_or_default() == record.encap_ips;
            if same { Recorded::Yes } else { Recorded::NotYet }
        }
        _ => Recorded::NotYet,
    }
}

fn keep<T: Clone>(now: &mut Fact<T>, earlier: &Fact<T>) {
    if now.is_err() && earlier.is_ok() {
        now.clone_from(earlier);
    }
}

fn gateway(config: &Fact<GatewayConfig>) -> Fact<Gateway> {
    let Some(config) = config.clone()?.filter(|config| config.mode != GatewayMode::Disabled) else {
        return Ok(None);
    };
    let lacks = |what: &str| format!("{} has no {what}", GatewayConfig::KEY);
    if config.bridge_id.is_empty() {
        return Err(lacks("bridge-id"));
    }
    if config.ip_addresses.is_empty() {
        return Err(lacks("ip-addresses"));
    }
    Ok(Some(Gateway {
        local: config.mode == GatewayMode::Local,
        bridge: config.bridge_id,
        mac: config.mac_address.ok_or_else(|| lacks("mac-address"))?,
        addresses: config.ip_addresses,
        next_hops: config.next_hops,
        node_ports: config.node_port_enable,
        vlan: (config.vlan_id != 0).then_some(config.vlan_id),
    }))
}
