//! By what the node's firewall knows processes of the node: the kubelet, and pods that use the node's own network.
//!
//! A pod like that is *confined* if its namespace has a primary network: it reaches services of that network and of the default
//! one, and pods of neither. Whom administrators trust with all services is not.

use std::collections::{BTreeMap, BTreeSet};

use causeway_record::{self as record, ObjectKey};
use causeway_types::{NamespaceName, NetworkName};
use serde::{Deserialize, Serialize};

use super::{Change, Changes, Serving, Zone};

/// A cgroup of version 2.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Cgroup {
    /// Below the mount, without a slash in front.
    pub path: String,
    /// Tells it from an earlier one at the same path.
    pub id: u64,
}

/// By what the kubelet is known.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Kubelet {
    /// By the cgroup of version 2 that it runs in.
    Cgroup(Cgroup),
    /// By the user that it runs as, and so is everybody else of that user.
    User(u32),
    /// It was known by its cgroup, and does not run now.
    #[default]
    Away,
}

/// By what processes of the node are known.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Processes {
    /// Of the node's processes it alone reaches locked addresses of pods.
    pub kubelet: Kubelet,
    /// Pods that were looked for, by UID; none is one that has no cgroup of version 2.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pods: BTreeMap<String, Option<Cgroup>>,
}

/// A pod in the node's own network that does not reach everything.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Confined<'a> {
    /// One of this node's, with `hostNetwork`.
    pub pod: &'a ObjectKey,
    /// Its UID.
    pub uid: &'a str,
    /// The primary networks of its namespace; none while it only must have one.
    pub networks: BTreeSet<&'a NetworkName>,
}

impl Zone {
    /// By what processes of the node are known, once somebody has looked.
    pub fn processes(&self) -> Option<&Processes> {
        self.processes.as_ref()
    }

    /// Processes of the node are known by this.
    pub fn set_processes(&mut self, processes: Processes) -> Changes {
        if self.processes.as_ref() == Some(&processes) {
            return Changes::default();
        }
        self.processes = Some(processes);
        Change::Processes.into()
    }

    /// Confined pods of this node.
    pub fn confined(&self) -> impl Iterator<Item = Confined<'_>> {
        self.host_pods.iter().filter_map(|(pod, uid)| {
            let networks = self.confining(&pod.namespace)?;
            Some(Confined { pod, uid, networks })
        })
    }

    /// The networks that confine pods of a namespace in the node's own network; nothing if they are free.
    fn confining(&self, namespace: &NamespaceName) -> Option<BTreeSet<&NetworkName>> {
        let networks: BTreeSet<&NetworkName> =
            self.primaries(namespace).into_iter().map(|(_, network)| network).collect();
        let confines = !networks.is_empty() || self.demands_primary(namespace);
        (confines && !self.config.all_services.contains(namespace)).then_some(networks)
    }

    /// Whether a pod of this node uses the node's own network.
    pub fn has_host_pods(&self) -> bool {
        !self.host_pods.is_empty()
    }

    /// Whether services of a namespace are on a network for certain.
    pub fn serves(&self, namespace: &NamespaceName, network: &NetworkName) -> bool {
        self.serving(namespace, network) == Serving::Yes
    }

    /// A pod is there, or has changed, or is gone.
    pub(super) fn set_host_pod(&mut self, key: &ObjectKey, pod: Option<&record::Pod>) -> Changes {
        let is_here = |pod: &&record::Pod| {
            pod.host_network && !pod.finished && pod.node.as_ref() == Some(&self.config.node)
        };
        let uid = pod.filter(is_here).map(|pod| pod.uid.clone());
        if self.host_pods.get(key) == uid.as_ref() {
            return Changes::default();
        }
        match uid {
            Some(uid) => drop(self.host_pods.insert(key.clone(), uid)),
            None => drop(self.host_pods.remove(key)),
        }
        Change::HostPod(key.clone()).into()
    }
}
