//! A connection as it is meant.

use std::collections::BTreeMap;

use causeway_types::{Cidr, ConnectName, ConnectSubnet, Family};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::Selector;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::addresses::{check_families, read_cidr};
use super::problem::{Problem, Problems, Reason};
use crate::annotations::keys;
use crate::crd::{
    ClusterNetworkConnectSpec, Connectivity, ConnectivityEnabled, NetworkSelectionType, NetworkSelector,
};
use crate::schema::messages as say;

/// Nobody chooses what is hashed to find a collision; accidents need no more.
const HASH_BYTES: usize = 16;

/// A ClusterNetworkConnect, from either spelling.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Connect {
    /// `metadata.name` of the object.
    pub name: ConnectName,
    /// What it selects.
    pub selections: Vec<Selection>,
    /// Where its links get addresses from.
    pub subnets: Vec<ConnectSubnet>,
    /// Whether pods reach pods.
    pub pods: bool,
    /// Whether pods reach services.
    pub services: bool,
}

/// One way of selecting networks.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Selection {
    /// ClusterUserDefinedNetworks, by their labels and their name.
    ClusterUserDefinedNetworks(Selector),
    /// The primary networks of namespaces, by the namespaces' labels.
    PrimaryUserDefinedNetworks(Selector),
}

impl Connect {
    /// The connection that a spec means.
    ///
    /// # Errors
    /// Everything that speaks against the spec, in a fixed order.
    pub fn of(name: &ConnectName, spec: &ClusterNetworkConnectSpec) -> Result<Self, Vec<Problem>> {
        let mut problems = Problems::default();
        let (pods, services) = read_connectivity(spec, &mut problems);
        let selections = read_selectors(&spec.network_selectors, &mut problems);
        let subnets = read_subnets(spec, &mut problems);
        problems.into_result(Some(Self { name: name.clone(), selections, subnets, pods, services }))
    }

    /// What speaks against turning this connection into another.
    pub fn changes(&self, new: &Self) -> Vec<Problem> {
        if self.subnets == new.subnets {
            return Vec::new();
        }
        vec![Problem::new(Reason::Immutable, say::CONNECT_IMMUTABLE)]
    }

    /// What a zone names in its report once it has rendered this connection with these annotations, and what the cluster
    /// manager waits for. Into it goes what a zone renders from: connectSubnets in any order, whether pods and whether
    /// services are reachable, in either spelling, and the texts of the annotations in [`keys::OF_CONNECT`]. Selectors
    /// stay out: what they select is in the annotations. So do generation, other annotations and the state of nodes and
    /// networks.
    pub fn report_hash(&self, annotations: &BTreeMap<String, String>) -> String {
        let mut subnets: Vec<String> =
            self.subnets.iter().map(|s| format!("{}+{}", s.cidr(), s.network_prefix())).collect();
        subnets.sort();
        let written = keys::OF_CONNECT.map(|key| annotations.get(key));
        let text = serde_json::json!([subnets, self.pods, self.services, written]).to_string();
        Sha256::digest(text).iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }
}

fn read_connectivity(spec: &ClusterNetworkConnectSpec, problems: &mut Problems) -> (bool, bool) {
    fn distinct<T: PartialEq>(values: &[T]) -> bool {
        values.iter().enumerate().all(|(index, value)| !values[..index].contains(value))
    }
    let one = spec.connectivity_enabled.is_some() != spec.connectivity.is_some();
    problems.rule(one, say::CONNECT_ONE_SPELLING);
    let enabled = spec.connectivity_enabled.as_deref().unwrap_or_default();
    let shipped = spec.connectivity.as_deref().unwrap_or_default();
    problems.rule(distinct(enabled), say::CONNECT_DISTINCT_ENABLED);
    problems.rule(distinct(shipped), say::CONNECT_DISTINCT);
    (
        enabled.contains(&ConnectivityEnabled::PodNetwork) || shipped.contains(&Connectivity::PodNetwork),
        enabled.contains(&ConnectivityEnabled::ClusterIpServiceNetwork)
            || shipped.contains(&Connectivity::ServiceNetwork),
    )
}

fn read_selectors(selectors: &[NetworkSelector], problems: &mut Problems) -> Vec<Selection> {
    let selectable = |kind: NetworkSelectionType| {
        matches!(
            kind,
            NetworkSelectionType::ClusterUserDefinedNetworks
                | NetworkSelectionType::PrimaryUserDefinedNetworks
        )
    };
    let all = selectors.iter().all(|selector| selectable(selector.network_selection_type));
    problems.rule(all, say::CONNECT_SELECTABLE);
    selectors.iter().filter_map(|selector| read_selector(selector, problems)).collect()
}

fn read_selector(selector: &NetworkSelector, problems: &mut Problems) -> Option<Selection> {
    use NetworkSelectionType as Kind;
    let kind = selector.network_selection_type;
    let cluster = selector.cluster_user_defined_network_selector.as_ref();
    let primary = selector.primary_user_defined_network_selector.as_ref();
    let pairs = [
        (Kind::ClusterUserDefinedNetworks, "clusterUserDefinedNetworkSelector", cluster.is_some()),
        (Kind::PrimaryUserDefinedNetworks, "primaryUserDefinedNetworkSelector", primary.is_some()),
        (
            Kind::SecondaryUserDefinedNetworks,
            "secondaryUserDefinedNetworkSelector",
            selector.secondary_user_defined_network_selector.is_some(),
        ),
        (
            Kind::NetworkAttachmentDefinitions,
            "networkAttachmentDefinitionSelector",
            selector.network_attachment_definition_selector.is_some(),
        ),
    ];
    for (wanted, field, written) in pairs {
        let message = say::inconsistent_selector(&format!("{wanted:?}"), field);
        problems.rule((kind == wanted) == written, &message);
    }
    match kind {
        Kind::ClusterUserDefinedNetworks => {
            labels(&cluster?.network_selector, problems).map(Selection::ClusterUserDefinedNetworks)
        }
        Kind::PrimaryUserDefinedNetworks => {
            labels(&primary?.namespace_selector, problems).map(Selection::PrimaryUserDefinedNetworks)
        }
        _ => None,
    }
}

/// The API server does not look inside a selector, so an unknown operator arrives here.
fn labels(selector: &LabelSelector, problems: &mut Problems) -> Option<Selector> {
    match Selector::try_from(selector.clone()) {
        Ok(selector) => Some(selector),
        Err(error) => {
            problems.add(Reason::InvalidSpec, format!("the label selector cannot be read: {error}"));
            None
        }
    }
}

fn read_subnets(spec: &ClusterNetworkConnectSpec, problems: &mut Problems) -> Vec<ConnectSubnet> {
    let mut subnets = Vec::new();
    let mut families = Vec::new();
    for subnet in &spec.connect_subnets {
        let cidr = read_cidr(&subnet.cidr).and_then(|net| Cidr::new(net).ok());
        let Some(cidr) = cidr else {
            problems.add(Reason::InvalidAddress, format!("{}: {:?}", say::CONNECT_CIDR, subnet.cidr));
            continue;
        };
        families.push(cidr.family());
        let prefix = subnet.network_prefix;
        problems.rule(prefix > cidr.prefix_len(), say::CONNECT_PREFIX_LONGER);
        problems.rule(cidr.family() != Family::Ipv4 || prefix < 32, say::CONNECT_PREFIX_V4);
        subnets.extend(ConnectSubnet::new(cidr, prefix).ok());
    }
    problems.rule(!spec.connect_subnets.is_empty(), "connectSubnets is required");
    check_families(&families, problems);
    subnets
}
