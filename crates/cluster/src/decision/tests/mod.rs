//! A small cluster to decide about, built from short text.

mod history;
mod manifests;
mod ports;
mod selection;
mod validation;

use std::collections::BTreeMap;

use causeway_alloc::{ConnectRecord, Epoch};
use causeway_api::crd::{Role, Topology};
use causeway_api::intent::Selection;
use causeway_types::{
    Cidr, ConnectName, ConnectOwner, ConnectSubnet, ConnectTopology, NamespaceName, NetworkId, NetworkName,
    NetworkOrigin, NodeId, NodeName, ObjectName,
};
use kube_core::{Expression, Selector};

use super::*;

fn cidrs(texts: &[&str]) -> Vec<Cidr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn name(text: &str) -> ConnectName {
    ConnectName::new(text).unwrap()
}

fn layer3(id: u32) -> ConnectOwner {
    ConnectOwner::Layer3(NetworkId::new(id).unwrap())
}

fn layer2(id: u32) -> ConnectOwner {
    ConnectOwner::Layer2(NetworkId::new(id).unwrap())
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn node(text: &str, id: u32) -> NodeRecord {
    NodeRecord { name: NodeName::new(text).unwrap(), id: NodeId::new(id).unwrap() }
}

/// A primary layer3 CUDN with the label `connected=yes`.
fn cudn(text: &str, id: u32, subnets: &[&str]) -> Network {
    let object = ObjectName::new(text).unwrap();
    Network {
        name: NetworkName::of_cluster_udn(&object),
        origin: NetworkOrigin::Cluster(object),
        id: Some(NetworkId::new(id).unwrap()),
        topology: Topology::Layer3,
        role: Role::Primary,
        transport: None,
        labels: labels(&[("connected", "yes")]),
        subnets: cidrs(subnets),
        join_subnets: cidrs(&["100.65.0.0/16", "fd99::/64"]),
        transit_subnets: cidrs(&["100.88.0.0/16", "fd97::/64"]),
    }
}

fn udn(namespace: &str, text: &str, id: u32, subnets: &[&str]) -> Network {
    let (namespace, object) = (NamespaceName::new(namespace).unwrap(), ObjectName::new(text).unwrap());
    let name = NetworkName::of_udn(&namespace, &object);
    Network {
        name,
        origin: NetworkOrigin::Namespaced(namespace, object),
        labels: BTreeMap::new(),
        ..cudn("x", id, subnets)
    }
}

fn flat(network: Network) -> Network {
    Network { topology: Topology::Layer2, ..network }
}

fn namespace(text: &str, pairs: &[(&str, &str)], primaries: &[&Network]) -> Namespace {
    Namespace {
        name: NamespaceName::new(text).unwrap(),
        labels: labels(pairs),
        primaries: primaries.iter().map(|network| network.name.clone()).collect(),
    }
}

fn connected() -> Selector {
    Selector::from_iter([("connected", "yes")])
}

fn called(names: &[&str]) -> Selector {
    let values = names.iter().map(|name| (*name).to_owned()).collect();
    Expression::In("kubernetes.io/metadata.name".to_owned(), values).into()
}

/// Selects CUDNs with `connected=yes` on the specification's subnets.
fn cnc(text: &str) -> Connect {
    Connect {
        name: name(text),
        created: 0,
        selections: vec![Selection::ClusterUserDefinedNetworks(connected())],
        subnets: subnets(&[("192.168.0.0/16", 24), ("fd01::/64", 96)]),
        topology: ConnectTopology::Transit,
        slots: None,
        blocks: BTreeMap::new(),
        record: ConnectRecord::default(),
    }
}

fn selecting(connect: Connect, names: &[&str]) -> Connect {
    Connect { selections: vec![Selection::ClusterUserDefinedNetworks(called(names))], ..connect }
}

fn on(connect: Connect, pairs: &[(&str, u8)]) -> Connect {
    Connect { subnets: subnets(pairs), ..connect }
}

fn subnets(pairs: &[(&str, u8)]) -> Vec<ConnectSubnet> {
    pairs.iter().map(|(cidr, prefix)| ConnectSubnet::new(cidr.parse().unwrap(), *prefix).unwrap()).collect()
}

fn cluster() -> Cluster {
    Cluster {
        service_cidrs: cidrs(&["10.96.0.0/16", "fd00:10:96::/112"]),
        masquerade_subnets: cidrs(&["169.254.0.0/17", "fd69::/112"]),
        no_overlay: false,
        max_nodes: 1000,
    }
}

fn start(
    networks: &[Network],
    namespaces: &[Namespace],
    nodes: &[NodeRecord],
    connects: &[Connect],
) -> Connections {
    Connections::start(
        cluster(),
        Epoch(1),
        networks.to_vec(),
        namespaces.to_vec(),
        nodes.to_vec(),
        connects.to_vec(),
    )
    .unwrap()
}

fn decide(networks: &[Network], connects: &[Connect]) -> Connections {
    start(networks, &[], &[], connects)
}

fn owners(connections: &Connections, connect: &str) -> Vec<ConnectOwner> {
    connections.blocks(&name(connect)).unwrap().into_keys().collect()
}

fn acceptance(connections: &Connections, connect: &str) -> (Reason, String) {
    let acceptance = connections.acceptance(&name(connect)).unwrap();
    assert_eq!(acceptance.accepted, acceptance.reason == Reason::ValidationSucceeded);
    (acceptance.reason, acceptance.message)
}

/// The connection as it comes back with the annotations that were decided.
fn written(connections: &Connections, connect: &Connect) -> Connect {
    Connect {
        slots: connections.slots(&connect.name),
        blocks: connections.blocks(&connect.name).unwrap(),
        record: connections.record(&connect.name).unwrap(),
        ..connect.clone()
    }
}
