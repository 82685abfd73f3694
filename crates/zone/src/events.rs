//! What each event changes in the index, and which facts are others after it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_api::annotations::{OpenPort, keys};
use causeway_api::crd::Topology;
use causeway_types::{NadKey, NamespaceName, NetworkName, NodeName, ObjectName};

use super::nad::{self, NadInfo};
use super::network::Spec;
use super::node::{BridgePorts, NodeInfo};
use super::pod::{self, Local, LocalPod, PodInfo, PodPort};
use super::problem::{Problem, Reason, Subject};
use super::{Active, Change, Changes, Zone};
use causeway_record::{self as record, ObjectKey};

impl Zone {
    /// A node is there, or has changed.
    pub fn apply_node(&mut self, node: &record::Node) -> Changes {
        let is_here = node.name == self.config.node;
        let read = NodeInfo::read(node, is_here);
        let unreadable = read.unreadable().map(|text| Problem::new(Reason::Malformed, text));
        let old = self.nodes.get(&node.name);
        let info = read.keep_from(old);
        let mut changes =
            if old == Some(&info) { Changes::default() } else { self.set_node(&node.name, Some(info)) };
        self.node_addresses_changed(&node.name, Some(node), &mut changes);
        let problem = unreadable
            .or_else(|| self.nodes.clash(&node.name))
            .or_else(|| self.refused_here().filter(|_| is_here));
        self.report(Subject::Node(node.name.clone()), problem);
        self.node_labels_changed(&node.name, Some(node), &mut changes);
        changes
    }

    /// A node is gone.
    pub fn delete_node(&mut self, name: &NodeName) -> Changes {
        let mut changes =
            if self.nodes.get(name).is_some() { self.set_node(name, None) } else { Changes::default() };
        self.node_addresses_changed(name, None, &mut changes);
        self.report(Subject::Node(name.clone()), None);
        self.node_labels_changed(name, None, &mut changes);
        changes
    }

    /// The bridge to the outside has these ports, or there is none.
    pub fn set_bridge(&mut self, bridge: Option<BridgePorts>) -> Changes {
        if self.bridge == bridge {
            return Changes::default();
        }
        self.bridge = bridge;
        Change::Bridge.into()
    }

    /// These nodes are away, and no others.
    pub fn set_away(&mut self, away: BTreeSet<NodeName>) -> Changes {
        let mut changes = Changes::default();
        let before = std::mem::replace(&mut self.away, away);
        for node in before.symmetric_difference(&self.away).filter(|node| **node != self.config.node) {
            changes.add(Change::Node(node.clone()));
        }
        changes
    }

    /// A namespace is there, or has changed.
    pub fn apply_namespace(&mut self, namespace: &record::Namespace) -> Changes {
        let changed = match namespace.labels.contains_key(keys::PRIMARY_NETWORK_LABEL) {
            true => self.demanding.insert(namespace.name.clone()),
            false => self.demanding.remove(&namespace.name),
        };
        let mut changes = Changes::default();
        if changed {
            self.namespace_changed(&namespace.name, &mut changes);
        }
        self.labels_changed(&namespace.name, Some(namespace), &mut changes);
        changes
    }

    /// A namespace is gone.
    pub fn delete_namespace(&mut self, name: &NamespaceName) -> Changes {
        let mut changes = Changes::default();
        if self.demanding.remove(name) {
            self.namespace_changed(name, &mut changes);
        }
        self.labels_changed(name, None, &mut changes);
        changes
    }

    /// An attachment definition is there, or has changed.
    pub fn apply_nad(&mut self, nad: &record::Nad) -> Changes {
        self.set_nad(&nad.key, nad::read(nad))
    }

    /// An attachment definition is gone.
    pub fn delete_nad(&mut self, key: &ObjectKey) -> Changes {
        self.set_nad(key, None)
    }

    /// A pod is there, or has changed.
    pub fn apply_pod(&mut self, pod: &record::Pod) -> Changes {
        let mut changes = self.set_behind(&pod.key, Some(pod));
        changes.merge(self.set_host_pod(&pod.key, Some(pod)));
        changes.merge(self.set_host_ports(&pod.key, Some(pod)));
        changes.merge(self.apply_ports(pod));
        self.person_changed(pod, &mut changes);
        changes
    }

    fn apply_ports(&mut self, pod: &record::Pod) -> Changes {
        let Some(node) = pod.node.as_ref().filter(|_| pod::has_ports(pod)) else {
            return self.delete_ports(&pod.key);
        };
        // Names become parts of paths; what Kubernetes would refuse as a name is refused here too.
        if ObjectName::new(pod.key.name.as_str()).is_err() {
            return Changes::default();
        }
        let is_here = *node == self.config.node;
        let mut problem = None;
        let info = match pod::read_ports(pod) {
            Ok(Some(ports)) if is_here => {
                let open_ports = pod::read_open_ports(pod).unwrap_or_else(|error| {
                    problem = Some(error);
                    self.open_ports_before(pod)
                });
                let local = LocalPod { uid: pod.uid.clone(), open_ports, unreadable: None };
                Some(self.local_pod(node, ports, local))
            }
            Ok(Some(ports)) => self.remote_pod(node, ports),
            Ok(None) => None,
            Err(error) => {
                problem = Some(error.clone());
                Some(self.unreadable_pod(pod, node, error))
            }
        };
        let problem = problem.or_else(|| pod.host_ports.clone().err().filter(|_| is_here));
        let problem = problem.map(|text| Problem::new(Reason::Malformed, text));
        self.report(Subject::Pod(pod.key.clone()), problem);
        let mut changes = self.set_pod(&pod.key, info, is_here);
        self.set_local(&pod.key, is_here.then(|| Local::of(pod)), &mut changes);
        changes
    }

    /// A text that cannot be read opens nothing new and shuts nothing.
    fn open_ports_before(&self, pod: &record::Pod) -> Vec<OpenPort> {
        let known = self.pods.get(&pod.key).and_then(|known| known.local.as_ref());
        known.filter(|known| known.uid == pod.uid).map(|known| known.open_ports.clone()).unwrap_or_default()
    }

    fn set_local(&mut self, key: &ObjectKey, local: Option<Local>, changes: &mut Changes) {
        if self.locals.get(key) == local.as_ref() {
            return;
        }
        match local {
            Some(local) => drop(self.locals.insert(key.clone(), local)),
            None => drop(self.locals.remove(key)),
        }
        changes.add(Change::Local(key.clone()));
    }

    /// A pod is gone.
    pub fn delete_pod(&mut self, key: &ObjectKey) -> Changes {
        let mut changes = self.set_behind(key, None);
        changes.merge(self.set_host_pod(key, None));
        changes.merge(self.set_host_ports(key, None));
        changes.merge(self.delete_ports(key));
        self.person_gone(key, &mut changes);
        changes
    }

    fn delete_ports(&mut self, key: &ObjectKey) -> Changes {
        self.report(Subject::Pod(key.clone()), None);
        let mut changes = self.set_pod(key, None, false);
        self.set_local(key, None, &mut changes);
        changes
    }

    /// Time has passed.
    pub fn tick(&mut self, now_ms: u64) -> Changes {
        let passed = self.usage.tick(now_ms);
        let mut changes = Changes::default();
        if passed.started {
            changes.add(Change::Everything);
        }
        for (network, node) in passed.unused {
            self.use_changed(&network, &node, &mut changes);
        }
        for (connect, network) in self.fading.tick(now_ms, self.config.linger_ms) {
            changes.add(match self.settled(&connect) {
                Some(_) => Change::Member { connect, network },
                None => Change::Connect(connect),
            });
        }
        changes
    }

    pub(super) fn report(&mut self, subject: Subject, problem: Option<Problem>) {
        match problem {
            Some(problem) => drop(self.problems.insert(subject, problem)),
            None => drop(self.problems.remove(&subject)),
        }
    }

    fn set_node(&mut self, name: &NodeName, info: Option<NodeInfo>) -> Changes {
        let addresses =
            |zone: &Self| zone.nodes.get(name).map(|node| node.addresses.clone()).unwrap_or_default();
        let before = addresses(self);
        let mut concerned = self.nodes.set(name, info);
        let mut changes = Changes::default();
        let after = addresses(self);
        if before != after {
            self.hosts_moved(name, &mut changes);
        }
        // Another node that claims this node's id, chassis or address changes nothing for this node.
        concerned.remove(&self.config.node);
        for node in &concerned {
            self.report_clash(node);
            changes.add(Change::Node(node.clone()));
        }
        if *name == self.config.node { self.everything() } else { changes }
    }

    /// Whose an address is may be something else now: by a kubelet's account, or by a record.
    fn node_addresses_changed(
        &mut self,
        name: &NodeName,
        node: Option<&record::Node>,
        changes: &mut Changes,
    ) {
        let moved = self.node_addresses.set(name, node);
        self.nodes_moved(&moved, changes);
    }

    fn report_clash(&mut self, node: &NodeName) {
        let subject = Subject::Node(node.clone());
        match self.nodes.clash(node) {
            None if self.problems.get(&subject).is_none_or(|known| known.reason != Reason::NumberClash) => {}
            clash => self.report(subject, clash),
        }
    }

    /// This zone's own node has changed: all that is planned follows from it.
    fn everything(&mut self) -> Changes {
        for name in self.networks.names() {
            self.evaluate(&name);
        }
        self.reshape();
        let mut changes = Changes::everything();
        self.reach_changed(&mut changes);
        changes
    }

    /// What a pod has on each of the networks that it is on now.
    fn pod_changed(&self, key: &ObjectKey, changes: &mut Changes) {
        let ports = self.pods.get(key).into_iter().flat_map(|pod| &pod.ports);
        for network in ports.filter_map(|port| self.network_of(port)) {
            changes.add(Change::Pod { pod: key.clone(), network: network.clone() });
        }
    }

    /// A network is used on a node from now on, or no longer, and so are those that it is connected with.
    fn use_changed(&self, network: &NetworkName, node: &NodeName, changes: &mut Changes) {
        let all: BTreeSet<&NetworkName> = self.peers(network).chain([network]).collect();
        for network in all {
            if *node == self.config.node {
                self.rendering_changed(network, changes);
            } else {
                changes.add(Change::Use { network: network.clone(), node: node.clone() });
            }
        }
    }

    fn set_nad(&mut self, object: &ObjectKey, info: Option<NadInfo>) -> Changes {
        let Some(key) = nad::key_of(object).map(|key| self.pods.nad(&key)) else { return Changes::default() };
        if self.nads.get(&key) == info.as_ref() {
            return Changes::default();
        }
        let problem = info.as_ref().and_then(|info| info.spec.as_ref().err().cloned());
        self.report(Subject::Nad(object.clone()), problem);
        let mut changes = Changes::default();
        let primaries: Vec<NetworkName> =
            self.primary_names(&object.namespace).into_iter().cloned().collect();
        let before = self.nads.network(&key).cloned();
        let after = info.as_ref().and_then(|info| info.network.clone());
        let said: BTreeMap<NetworkName, Option<Arc<Spec>>> = before
            .iter()
            .chain(&after)
            .map(|network| (network.clone(), self.networks.said(network).cloned()))
            .collect();
        let pods: Vec<ObjectKey> = self.pods.of_nad(&key).collect();
        pods.iter().for_each(|pod| self.pod_changed(pod, &mut changes));
        self.count(&pods, &key, before.as_ref(), false, &mut changes);
        if let Some(network) = &before {
            self.networks.leave(network, &key);
        }
        if let (Some(network), Some(info)) = (&after, &info) {
            self.networks.join(network, &key, info);
        }
        self.nads.set(&object.namespace, &key, info);
        self.count(&pods, &key, after.as_ref(), true, &mut changes);
        for network in before.iter().chain(after.as_ref().filter(|_| before != after)) {
            changes.merge(self.settle(network));
        }
        for pod in &pods {
            self.trim_pod(pod);
            self.pod_changed(pod, &mut changes);
        }
        self.primaries_changed(&object.namespace, &primaries, &mut changes);
        let otherwise =
            |(network, old): &(NetworkName, Option<Arc<Spec>>)| self.networks.said(network) != old.as_ref();
        let said = said.into_iter().filter(otherwise).map(|(network, _)| network).collect();
        self.siblings_changed(&object.namespace, &primaries.into_iter().collect(), said, &mut changes);
        self.people_moved(&object.namespace, &key, &mut changes);
        self.reach_changed(&mut changes);
        changes
    }

    /// Counts the ports that pods have by one definition, in or out.
    fn count(
        &mut self,
        pods: &[ObjectKey],
        nad: &NadKey,
        network: Option<&NetworkName>,
        counts_in: bool,
        changes: &mut Changes,
    ) {
        let Some(network) = network.filter(|_| self.usage.counts()) else { return };
        for key in pods {
            let Some(pod) = self.pods.get(key) else { continue };
            let by_nad = |port: &&PodPort| port.attachment.as_ref().is_some_and(|a| *pod::nad_of(a) == *nad);
            let (node, ports) = (pod.node.clone(), pod.ports.iter().filter(by_nad).count());
            for _ in 0..ports {
                self.count_one(network, &node, counts_in, changes);
            }
        }
    }

    fn count_one(&mut self, network: &NetworkName, node: &NodeName, counts_in: bool, changes: &mut Changes) {
        if !counts_in {
            self.usage.remove(network, node);
        } else if self.usage.add(network, node) {
            self.use_changed(network, node, changes);
        }
    }

    /// Brings a network and those that its claims concern up to date.
    pub(super) fn settle(&mut self, network: &NetworkName) -> Changes {
        let mut changes = Changes::default();
        let before = self.networks.id(network);
        for concerned in self.networks.settle(network) {
            let before = if concerned == *network { before } else { self.networks.id(&concerned) };
            let renumbered = before != self.networks.id(&concerned);
            let was_there = self.active(&concerned).is_some();
            if self.evaluate(&concerned) || renumbered {
                changes.add(Change::Network(concerned.clone()));
                // Its addresses may be nobody's now, and services of siblings may have had them.
                for namespace in self.namespaces_of(&concerned).iter().filter(|_| was_there) {
                    self.namespace_changed(namespace, &mut changes);
                }
                self.connects_changed(&concerned, before, &mut changes);
            }
        }
        changes
    }

    /// Computes what a network is here; says whether that has changed.
    fn evaluate(&mut self, name: &NetworkName) -> bool {
        let Some(spec) = self.networks.spec(name) else {
            self.report(Subject::Network(name.clone()), None);
            return true;
        };
        let node = self.here().map(|here| here.id);
        let state = spec.and_then(|spec| spec.on(node?, &self.config.cluster).map(Box::new));
        let problem =
            state.as_ref().map_or_else(|problem| Some(problem.clone()), |active| self.off_fabric(active));
        self.report(Subject::Network(name.clone()), problem);
        let Some(entry) = self.networks.get_mut(name) else { return true };
        let changed = entry.state != state;
        entry.state = state;
        changed
    }

    /// Why a network that belongs on the fabric is not there.
    fn off_fabric(&self, active: &Active) -> Option<Problem> {
        let reason = self.vtep(&active.fabric.as_ref()?.vtep).err()?;
        Some(Problem::new(Reason::NoVtep, format!("network {}: {reason}", active.name())))
    }

    fn set_pod(&mut self, key: &ObjectKey, info: Option<PodInfo>, is_here: bool) -> Changes {
        if self.pods.get(key) == info.as_ref() {
            return Changes::default();
        }
        let mut changes = Changes::default();
        self.pod_changed(key, &mut changes);
        // First in, then out: a network is not idle in between.
        if let Some(info) = &info {
            self.count_pod(info, true, &mut changes);
        }
        if let Some(old) = self.pods.remove(key) {
            self.count_pod(&old, false, &mut changes);
        }
        if let Some(info) = info {
            self.pods.insert(key, info, is_here);
        }
        self.pod_changed(key, &mut changes);
        changes
    }

    fn count_pod(&mut self, pod: &PodInfo, counts_in: bool, changes: &mut Changes) {
        let networks: Vec<NetworkName> =
            pod.ports.iter().filter_map(|port| self.network_of(port)).cloned().collect();
        for network in networks {
            self.count_one(&network, &pod.node, counts_in, changes);
        }
    }

    fn local_pod(&self, node: &NodeName, ports: Vec<PodPort>, local: LocalPod) -> PodInfo {
        PodInfo { node: self.pods.node(node), ports: ports.into(), local: Some(Box::new(local)) }
    }

    /// What is kept of another node's pod; nothing if it has no port here and is not counted.
    fn remote_pod(&self, node: &NodeName, ports: Vec<PodPort>) -> Option<PodInfo> {
        let ports: Vec<PodPort> = ports.into_iter().filter_map(|port| self.remote_port(port)).collect();
        let node = || self.pods.node(node);
        (!ports.is_empty()).then(|| PodInfo { node: node(), ports: ports.into(), local: None })
    }

    /// Layer2 networks have a port of every pod in every zone; of others a pod is counted at most. While the network
    /// is not known the port is kept whole.
    fn remote_port(&self, port: PodPort) -> Option<PodPort> {
        let attachment = self.pods.nad(port.attachment.as_ref()?);
        let spec = self.nads.get(&pod::nad_of(&attachment)).and_then(|info| info.spec.as_ref().ok());
        let is_layer2 = spec.is_none_or(|spec| spec.network.topology == Topology::Layer2);
        let address = port.address.filter(|_| is_layer2);
        (is_layer2 || self.usage.counts()).then_some(PodPort {
            attachment: Some(attachment),
            address,
            ..port
        })
    }

    /// Drops what of another node's pod is not needed, now that its networks are known.
    fn trim_pod(&mut self, key: &ObjectKey) {
        let Some(pod) = self.pods.get(key).filter(|pod| *pod.node != self.config.node && pod.local.is_none())
        else {
            return;
        };
        let (node, ports) = (pod.node.clone(), pod.ports.to_vec());
        let trimmed = self.remote_pod(&node, ports);
        if self.pods.get(key) != trimmed.as_ref() {
            self.pods.remove(key);
            if let Some(pod) = trimmed {
                self.pods.insert(key, pod, false);
            }
        }
    }

    /// A pod whose networks cannot be read keeps the ports it has.
    fn unreadable_pod(&self, pod: &record::Pod, node: &NodeName, error: String) -> PodInfo {
        let local = LocalPod { uid: pod.uid.clone(), unreadable: Some(error), ..LocalPod::default() };
        match self.pods.get(&pod.key) {
            Some(known) => PodInfo { local: Some(Box::new(local)), ..known.clone() },
            None => self.local_pod(node, Vec::new(), local),
        }
    }
}
