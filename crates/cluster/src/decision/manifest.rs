//! From objects and intent to the records that decisions are made from.

use std::collections::BTreeMap;

use causeway_alloc::ConnectRecord;
use causeway_api::annotations::{Annotation, ConnectBlocks, ConnectSlots};
use causeway_api::crd::{ClusterNetworkConnect, Topology, Transport};
use causeway_api::intent::{self, ClusterConfig};
use causeway_types::{ConnectName, ConnectTopology, NetworkId, NetworkOrigin};

use super::error::{Error, Result};
use super::input::{Cluster, Connect, Network};

impl From<&ClusterConfig> for Cluster {
    fn from(config: &ClusterConfig) -> Self {
        Self {
            service_cidrs: config.service_cidrs.clone(),
            masquerade_subnets: config.masquerade_subnets.clone(),
            // Node ids start at 2.
            max_nodes: config.highest_node.get() - 1,
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
    pub fn of(
        object: &ClusterNetworkConnect,
        topology: ConnectTopology,
        record: ConnectRecord,
    ) -> Result<Self> {
        let name = ConnectName::new(object.metadata.name.clone().unwrap_or_default())?;
        let intent = intent::Connect::of(&name, &object.spec).map_err(Error::Spec)?;
        let created = object.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
        let written = object.metadata.annotations.as_ref();
        let blocks = read::<ConnectBlocks>(written)?.unwrap_or_default();
        Ok(Self {
            name,
            created,
            selections: intent.selections,
            subnets: intent.subnets,
            topology: read(written)?.unwrap_or(topology),
            slots: read::<ConnectSlots>(written)?.map(ConnectSlots::get),
            blocks: blocks
                .0
                .into_iter()
                .map(|(owner, both)| (owner, both.ipv4.into_iter().chain(both.ipv6).collect()))
                .collect(),
            record,
        })
    }
}

fn read<A: Annotation>(written: Option<&BTreeMap<String, String>>) -> Result<Option<A>> {
    let text = written.and_then(|annotations| annotations.get(A::KEY));
    Ok(text.map(|text| A::parse(text)).transpose()?)
}
