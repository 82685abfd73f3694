//! ClusterUserDefinedNetworks that a connection selects and that are no networks yet. They have no place and are in nobody's way;
//! they are named, so that nobody has to guess why nothing is connected.

use std::collections::BTreeMap;

use causeway_api::crd::{SelectedKind, SelectedNetwork, Topology};
use causeway_types::{NetworkName, ObjectName};

use super::engine::{Connections, Dirty};
use super::input::{Connect, named};
use super::select::selects_cluster_network;

/// A ClusterUserDefinedNetwork that is no network yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// What it is called.
    pub name: ObjectName,
    /// Those of the object; `kubernetes.io/metadata.name` is added when this is applied.
    pub labels: BTreeMap<String, String>,
    /// How it is to be laid out, if that can be read.
    pub topology: Option<Topology>,
    /// Why it is not there, in one word.
    pub reason: String,
    /// Why it is not there, and what to do.
    pub message: String,
}

impl Absent {
    fn is_selected(&self, connect: &Connect) -> bool {
        selects_cluster_network(connect, &self.labels)
    }

    pub(super) fn line(&self) -> SelectedNetwork {
        SelectedNetwork {
            name: self.name.to_string(),
            kind: SelectedKind::ClusterUserDefinedNetwork,
            topology: self.topology,
            connected: false,
            reason: Some(self.reason.clone()),
            message: Some(self.message.clone()),
        }
    }
}

impl Connections {
    /// A ClusterUserDefinedNetwork is no network, for this reason.
    pub fn apply_absent(&mut self, mut absent: Absent) -> Dirty {
        named(&mut absent.labels, &absent.name);
        let network = NetworkName::of_cluster_udn(&absent.name);
        if self.absent.get(&network) == Some(&absent) {
            return Dirty::new();
        }
        let before = self.delete_absent(&network);
        let now = self.naming(&absent);
        self.absent.insert(network, absent);
        &before | &now
    }

    /// It is a network now, or gone.
    pub fn delete_absent(&mut self, network: &NetworkName) -> Dirty {
        self.absent.remove(network).map(|absent| self.naming(&absent)).unwrap_or_default()
    }

    fn naming(&self, absent: &Absent) -> Dirty {
        let connects = self.entries.values().map(|entry| &entry.connect);
        connects.filter(|connect| absent.is_selected(connect)).map(|connect| connect.name.clone()).collect()
    }

    /// Those that a connection selects.
    pub(super) fn absent_of<'a>(&'a self, connect: &'a Connect) -> impl Iterator<Item = &'a Absent> {
        self.absent.values().filter(|absent| absent.is_selected(connect))
    }
}
