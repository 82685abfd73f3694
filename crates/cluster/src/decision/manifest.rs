//! From objects and intent to the records that decisions are made from.

use std::collections::BTreeMap;

use causeway_alloc::ConnectRecord;
use causeway_api::annotations::ConnectSlots;
use causeway_api::crd::{Topology, Transport};
use causeway_api::intent::{self, ClusterConfig};
use causeway_record as record;
use causeway_types::{ConnectTopology, NetworkId, NetworkOrigin};

use super::input::{Cluster, Connect, Network};
use crate::error::{Error, Result};

impl From<&ClusterConfig> for Cluster {
    fn from(config: &ClusterConfig) -> Self {
        Self {
            service_cidrs: config.service_cidrs.clone(),
            masquerade_subnets: config.masquerade_subnets.clone(),
            // Node ids start at 2.
            max_nodes: config.highest_node.get() - 1,
            no_overlay: false,
        }
    }
}

impl Network {
    /// What connections need of a network: `labels` are those of its `ClusterUserDefinedNetwork`.
    pub fn of(
        network: &intent::Network,
        cluster: &ClusterConfig,
        origin: NetworkOrigin,
        id: Option<NetworkId>,
        labels: BTreeMap<String, String>,
    ) -> Self {
        let transit_subnets = match network.topology {
            Topology::Layer3 => cluster.transit_subnets.clone(),
            Topology::Layer2 | Topology::Localnet => network.effective_transit_subnets(cluster),
        };
        Self {
            name: network.name.clone(),
            origin,
            id,
            topology: network.topology,
            role: network.role,
            transport: match network.transport {
                intent::Transport::Overlay => None,
                intent::Transport::NoOverlay { .. } => Some(Transport::NoOverlay),
                intent::Transport::Evpn(_) => Some(Transport::Evpn),
            },
            labels,
            subnets: network.pod_cidrs().collect(),
            join_subnets: network.effective_join_subnets(cluster),
            transit_subnets,
        }
    }
}

impl Connect {
    /// What an object means and what its annotations hold; `topology` is for one that has none written yet,
    /// `record` is what was freed of it.
    ///
    /// # Errors
    /// An annotation that cannot be read: nothing is decided before it can.
    pub fn of(
        object: &record::Connect,
        meant: &intent::Connect,
        topology: ConnectTopology,
        record: ConnectRecord,
    ) -> Result<Self> {
        let blocks = written(&object.blocks)?.cloned().unwrap_or_default();
        Ok(Self {
            name: object.name.clone(),
            created: object.created,
            selections: meant.selections.clone(),
            subnets: meant.subnets.clone(),
            topology: written(&object.topology)?.copied().unwrap_or(topology),
            slots: written(&object.slots)?.copied().map(ConnectSlots::get),
            blocks: blocks
                .0
                .into_iter()
                .map(|(owner, both)| (owner, both.ipv4.into_iter().chain(both.ipv6).collect()))
                .collect(),
            record,
        })
    }
}

fn written<T>(read: &record::Read<T>) -> Result<Option<&T>> {
    read.as_ref().map(Option::as_ref).map_err(|problem| Error::Annotation(problem.clone()))
}
