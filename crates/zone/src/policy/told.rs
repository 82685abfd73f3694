//! What the zone tells its policies, and what it answers about them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use causeway_api::policy::{PolicyId, Refusal};
use causeway_record::{self as record, Logging, ObjectKey};
use causeway_types::{Family, NadKey, NamespaceName, NetworkName, NodeName};

use super::info::{Direction, PolicyInfo, PolicyKey, SetSpec};
use super::people::{Person, Place};
use super::reach::Class;
use super::sets::{self, Counted, Number, SetMark};
use super::{Policies, Reach, Subjects};
use crate::pod::{self, PodPort};
use crate::{Change, Changes, Membership, Problem, Reason, Subject, Zone};

impl Zone {
    /// A NetworkPolicy is there, or has changed.
    pub fn apply_policy(&mut self, policy: &record::NetworkPolicy) -> Changes {
        let info = PolicyInfo::of(policy);
        self.set_policy(&info.key.clone(), Some(info))
    }

    /// A NetworkPolicy is gone.
    pub fn delete_policy(&mut self, key: &ObjectKey) -> Changes {
        self.set_policy(&PolicyKey::Network(key.clone()), None)
    }

    /// A cluster-scoped policy is there, or has changed. One that cannot be carried out has no effect; one that cannot be read keeps
    /// the effect that it had.
    pub fn apply_cluster_policy(&mut self, policy: &record::ClusterPolicy) -> Changes {
        let key = PolicyKey::Cluster(policy.id.clone());
        let (changes, refusal) = match &policy.meant {
            Ok(meant) => {
                let changes = self.set_policy(&key, Some(PolicyInfo::of_cluster(meant, policy.logging)));
                return self.set_version(&policy.id, Some(policy.version()), changes);
            }
            Err(refusal @ Refusal::Unreadable(_)) => (Changes::default(), refusal),
            Err(refusal) => (self.set_policy(&key, None), refusal),
        };
        let changes = self.set_version(&policy.id, None, changes);
        let problem = Problem::new(Reason::Malformed, format!("{key}: {refusal}"));
        self.report(Subject::Policy(key), Some(problem));
        changes
    }

    /// A cluster-scoped policy is gone.
    pub fn delete_cluster_policy(&mut self, id: &PolicyId) -> Changes {
        let changes = self.set_policy(&PolicyKey::Cluster(id.clone()), None);
        self.set_version(id, None, changes)
    }

    /// Which spec of a cluster-scoped policy is carried out from now on.
    fn set_version(&mut self, id: &PolicyId, version: Option<String>, mut changes: Changes) -> Changes {
        let versions = &mut self.policies.versions;
        if versions.get(id) != version.as_ref() {
            changes.add(Change::Versions);
        }
        match version {
            Some(version) => drop(versions.insert(id.clone(), version)),
            None => drop(versions.remove(id)),
        }
        changes
    }

    fn set_policy(&mut self, key: &PolicyKey, info: Option<PolicyInfo>) -> Changes {
        let unreadable = info.as_ref().map(|info| info.unreadable.join("; ")).filter(|text| !text.is_empty());
        let problem = unreadable.map(|text| Problem::new(Reason::Malformed, format!("{key}: {text}")));
        self.report(Subject::Policy(key.clone()), problem);
        let mut changes = Changes::default();
        self.with_policies(|policies, reach| policies.set_policy(key, info, reach, &mut changes));
        changes
    }

    /// Policies ask who reaches whom, which is no policy's to know.
    fn with_policies(&mut self, tell: impl FnOnce(&mut Policies, Reach<'_>)) {
        let mut policies = std::mem::take(&mut self.policies);
        tell(&mut policies, &|network| self.reach(network));
        self.policies = policies;
    }

    /// The networks whose pods a network's pods reach directly, its own included.
    pub fn reach(&self, network: &NetworkName) -> BTreeSet<NetworkName> {
        let is_in = |info, name: &NetworkName| matches!(self.membership(info, name), Membership::Member(_));
        let roads = self.pod_connects(network).filter(|info| is_in(info, network));
        let peers = roads.flat_map(|info| self.members(info).filter(move |peer| is_in(info, peer)));
        peers.chain([network]).cloned().collect()
    }

    /// What reaches what may have changed: looks at the networks that these changes are about.
    pub(crate) fn reach_changed(&mut self, changes: &mut Changes) {
        let mut networks: BTreeSet<NetworkName> = BTreeSet::new();
        for change in changes.iter() {
            match change {
                Change::Everything => networks.extend(self.policies.here.keys().cloned()),
                Change::Network(network) | Change::Grants(network) | Change::Member { network, .. } => {
                    networks.insert(network.clone());
                }
                Change::Connect(name) => {
                    networks
                        .extend(self.settled(name).into_iter().flat_map(|info| self.members(info)).cloned());
                }
                _ => {}
            }
        }
        // Where it is not certain, what was known stays.
        networks.retain(|network| self.policies.here.contains_key(network) && self.knows_reach(network));
        self.with_policies(|policies, reach| {
            networks.iter().for_each(|network| policies.set_reach(network, reach, changes));
        });
    }

    pub(crate) fn labels_changed(
        &mut self,
        name: &NamespaceName,
        namespace: Option<&record::Namespace>,
        changes: &mut Changes,
    ) {
        let new = namespace.map(|namespace| (&namespace.labels, namespace.logging));
        self.with_policies(|policies, reach| policies.set_namespace(name, new, reach, changes));
    }

    pub(crate) fn person_changed(&mut self, pod: &record::Pod, changes: &mut Changes) {
        let person = self.person(pod);
        self.set_person(&pod.key.to_string(), person, changes);
    }

    pub(crate) fn person_gone(&mut self, key: &ObjectKey, changes: &mut Changes) {
        self.set_person(&key.to_string(), None, changes);
    }

    fn set_person(&mut self, key: &str, person: Option<Person>, changes: &mut Changes) {
        self.with_policies(|policies, reach| policies.set_person(key, person, reach, changes));
    }

    /// A pod as selectors see it; one that has ended is nobody, and its addresses may be somebody else's already.
    fn person(&mut self, pod: &record::Pod) -> Option<Person> {
        let node = pod.node.as_ref().filter(|_| !pod.finished)?;
        let (place, addresses) = if pod.host_network {
            (Place::Host(node.clone()), self.addresses_of(node))
        } else {
            self.place_of(pod)?
        };
        Some(Person {
            namespace: self.policies.people.namespace(&pod.key.namespace),
            labels: self.policies.people.labels(&pod.labels),
            ports: pod.named_ports.as_slice().into(),
            place,
            addresses,
            here: *node == self.config.node,
        })
    }

    /// Where a pod is; one whose annotation cannot be read stays where it was.
    fn place_of(&mut self, pod: &record::Pod) -> Option<(Place, Box<[IpAddr]>)> {
        let Ok(ports) = pod::read_ports(pod) else {
            let known = self.policies.people.get(&pod.key.to_string())?;
            return Some((known.place.clone(), known.addresses.clone()));
        };
        let ports = ports?;
        let primary = pod::primary(&ports)?;
        let addresses =
            primary.address.iter().flat_map(|address| address.ips()).map(|ip| ip.addr()).collect();
        Some((self.attached(primary), addresses))
    }

    fn attached(&self, port: &PodPort) -> Place {
        let attachment = port.attachment.as_ref().map(|attachment| self.pods.nad(attachment));
        Place::Attached {
            attachment,
            network: self.network_of(port).map(|network| Arc::new(network.clone())),
        }
    }

    fn addresses_of(&self, node: &NodeName) -> Box<[IpAddr]> {
        self.nodes.get(node).map(|node| node.addresses.as_slice().into()).unwrap_or_default()
    }

    /// A definition says that another network is its own: its pods are there now.
    pub(crate) fn people_moved(
        &mut self,
        namespace: &NamespaceName,
        nad: &Arc<NadKey>,
        changes: &mut Changes,
    ) {
        let keys: Vec<Arc<str>> = self.policies.people.keys_in(namespace).cloned().collect();
        for key in keys {
            let Some(mut person) = self.policies.people.get(&key).cloned() else { continue };
            if let Place::Attached { attachment: Some(attachment), network } = &mut person.place
                && pod::nad_of(attachment) == *nad
            {
                *network = self.nads.network(nad).map(|network| self.policies.people.network(network));
                self.set_person(&key, Some(person), changes);
            }
        }
    }

    /// A node has other labels or addresses.
    pub(crate) fn node_labels_changed(
        &mut self,
        name: &NodeName,
        node: Option<&record::Node>,
        changes: &mut Changes,
    ) {
        let new = node.map(|node| (node.labels.clone(), node.own_addresses().into_iter().collect()));
        self.with_policies(|policies, _| policies.set_node(name, new, changes));
    }

    /// A node has other addresses, and so have the pods that use its own network.
    pub(crate) fn hosts_moved(&mut self, node: &NodeName, changes: &mut Changes) {
        let addresses = self.addresses_of(node);
        let keys: Vec<Arc<str>> = self.policies.people.keys_on_host(node).cloned().collect();
        for key in keys {
            let Some(person) = self.policies.people.get(&key).cloned() else { continue };
            self.set_person(&key, Some(Person { addresses: addresses.clone(), ..person }), changes);
        }
    }
}

/// What plans ask.
impl Zone {
    /// What is known of a policy, whether it is about pods of this node or not.
    pub fn policy(&self, key: &PolicyKey) -> Option<&PolicyInfo> {
        self.policies.entries.get(key).map(|entry| &*entry.info)
    }

    /// Which spec of each cluster-scoped policy is carried out: its UID and generation.
    pub fn policy_versions(&self) -> &BTreeMap<PolicyId, String> {
        &self.policies.versions
    }

    /// How many policies there are, and what is here of them.
    pub fn policy_counts(&self) -> PolicyCounts {
        let policies = &self.policies;
        let here: BTreeSet<&PolicyKey> = policies.here.values().flat_map(Counted::keys).collect();
        let rules = |info: &PolicyInfo| -> usize {
            Direction::BOTH.into_iter().filter_map(|direction| info.rules(direction)).map(<[_]>::len).sum()
        };
        PolicyCounts {
            known: policies.entries.len(),
            here: here.len(),
            rules: here.into_iter().filter_map(|key| self.policy(key)).map(rules).sum(),
            sets: policies.sets.len(),
        }
    }

    /// The networks on which policies are about pods of this node.
    pub fn networks_with_policies(&self) -> impl Iterator<Item = &NetworkName> {
        self.policies.here.keys()
    }

    /// The policies that are about pods of this node on a network.
    pub fn policies_on(&self, network: &NetworkName) -> impl Iterator<Item = &PolicyKey> {
        self.policies.here.get(network).into_iter().flat_map(|policies| policies.keys())
    }

    /// A policy with the pods of this node on a network that it is about, if there are any.
    pub fn policy_here(&self, key: &PolicyKey, network: &NetworkName) -> Option<(&PolicyInfo, &Subjects)> {
        let entry = self.policies.entries.get(key)?;
        Some((&entry.info, entry.here.get(network)?))
    }

    /// The policies that are about a pod of this node.
    pub fn policies_of(&self, pod: &ObjectKey) -> Vec<&PolicyInfo> {
        let Some(person) = self.policies.people.get(&pod.to_string()).filter(|person| person.here) else {
            return Vec::new();
        };
        let of_namespace = self.policies.labels_of(&person.namespace);
        let candidates =
            self.policies.subjects.candidates(&person.namespace, of_namespace.as_deref(), &person.labels);
        let infos = candidates.iter().filter_map(|key| self.policy(key));
        infos.filter(|info| self.policies.is_about(info, person)).collect()
    }

    /// The ports that a pod's containers have named.
    pub fn named_ports(&self, pod: &ObjectKey) -> &[record::NamedPort] {
        self.policies.people.get(&pod.to_string()).map(|person| &*person.ports).unwrap_or_default()
    }

    /// Whether some pods of a namespace on a network are closed to what nobody allows.
    pub fn is_isolated(
        &self,
        network: &NetworkName,
        namespace: &NamespaceName,
        direction: Direction,
    ) -> bool {
        self.policies.isolated.contains(&(network.clone(), namespace.clone(), direction))
    }

    /// Everywhere where that is so.
    pub fn isolations(&self) -> impl Iterator<Item = &(NetworkName, NamespaceName, Direction)> {
        self.policies.isolated.keys()
    }

    /// What is logged of a namespace's policies.
    pub fn logging(&self, namespace: &NamespaceName) -> Logging {
        self.policies.namespaces.get(namespace).map(|(_, logging)| *logging).unwrap_or_default()
    }

    /// The networks that selectors of a network's policies reach, while there are policies on it.
    pub fn class_of(&self, network: &NetworkName) -> Option<&Class> {
        self.policies.classes.of(network).map(|class| &**class)
    }

    /// The classes with a network that has policies; none is a node's own.
    pub fn classes_with(&self, network: Option<&NetworkName>) -> Vec<Arc<str>> {
        self.policies.classes.with(network)
    }

    /// What stands for a set.
    pub fn set_mark(&self, spec: &SetSpec) -> SetMark {
        sets::mark(&spec.to_string())
    }

    /// All sets that rules name, each with a class of networks.
    pub fn peer_sets(&self) -> impl Iterator<Item = (&SetMark, &Arc<str>)> {
        self.policies.sets.iter().flat_map(|(mark, set)| set.classes().map(move |class| (mark, class)))
    }

    /// What a set is for a class of networks, if rules name it for that class.
    pub fn peer_set(&self, mark: &str, class: &str) -> Option<PeerSetHere<'_>> {
        let set = self.policies.sets.get(mark).filter(|set| set.is_in(class))?;
        Some(PeerSetHere { set, class: self.policies.classes.get(class)? })
    }
}

/// How many policies a zone has to do with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PolicyCounts {
    /// All there are.
    pub known: usize,
    /// Those that are about pods of this node.
    pub here: usize,
    /// Rules of these.
    pub rules: usize,
    /// Sets of addresses that their rules name.
    pub sets: usize,
}

/// A set for one class of networks.
#[derive(Clone, Copy, Debug)]
pub struct PeerSetHere<'a> {
    set: &'a super::PeerSet,
    /// Its addresses are those on these networks, and those of nodes.
    pub class: &'a Class,
}

impl PeerSetHere<'_> {
    /// Whose addresses are in it.
    pub fn spec(&self) -> &SetSpec {
        &self.set.spec
    }

    /// The numbers that the port's name has; without such a name the one set there is.
    pub fn numbers(&self) -> Vec<Number> {
        self.set.numbers(self.class)
    }

    /// Its addresses of a family.
    pub fn addresses(&self, number: Number, family: Family) -> Vec<IpAddr> {
        self.set.addresses(self.class, number, family)
    }

    /// Whether it has an address.
    pub fn has(&self, number: Number, address: IpAddr) -> bool {
        self.set.has(self.class, number, address)
    }
}
