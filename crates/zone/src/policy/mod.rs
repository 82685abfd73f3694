//! Policies: whom they are about on this node, and whom their rules select anywhere.
//!
//! Owns the policies, the pods of the whole cluster as selectors see them, and the sets of addresses that rules name. A policy is
//! *here* on a network while it is about a pod of this node there; only then its selectors are looked at. Whatever changes is first
//! counted in and then out, so nothing is gone in between. Never knows what rows follow.

mod info;
mod people;
mod reach;
mod sets;
mod told;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use causeway_api::policy::PolicyId;
use causeway_api::selector::Labels;
use causeway_record::{Logging, Protocol};
use causeway_types::{NamespaceName, NetworkName, NodeName};

pub use info::{Action, Direction, Peers, PodSelector, PolicyInfo, PolicyKey, RuleInfo, SetSpec, Who};
pub use reach::Class;
pub use sets::{Number, SetMark, mark};
pub use told::{PeerSetHere, PolicyCounts};
pub use verdict::Meeting;

use self::people::{People, Person, PodSelectors};
use self::reach::Classes;
use self::sets::{Counted, PeerSet};
use crate::{Change, Changes};

/// Pods of this node on one network that a policy is about.
#[derive(Clone, Debug, Default)]
pub struct Subjects {
    pods: u32,
    ports: Counted<(Protocol, String, u16)>,
}

impl Subjects {
    /// The numbers that a port's name has at some of them.
    pub fn numbers(&self, protocol: Protocol, name: &str) -> impl Iterator<Item = u16> {
        let named = self.ports.keys().filter(move |(of, given, _)| *of == protocol && given == name);
        named.map(|(_, _, number)| *number)
    }
}

#[derive(Debug)]
struct Entry {
    info: Arc<PolicyInfo>,
    here: BTreeMap<NetworkName, Subjects>,
}

/// The networks that selectors of a network's policies reach.
type Reach<'a> = &'a dyn Fn(&NetworkName) -> BTreeSet<NetworkName>;

#[derive(Debug, Default)]
pub(crate) struct Policies {
    entries: BTreeMap<PolicyKey, Entry>,
    subjects: PodSelectors<PolicyKey>,
    /// The policies that are here, by network.
    here: BTreeMap<NetworkName, Counted<PolicyKey>>,
    /// Where pods are closed to what nobody allows: how many policies say so.
    isolated: Counted<(NetworkName, NamespaceName, Direction)>,
    namespaces: BTreeMap<NamespaceName, (Arc<Labels>, Logging)>,
    people: People,
    sets: BTreeMap<SetMark, PeerSet>,
    selectors: PodSelectors<SetMark>,
    /// Sets of nodes' addresses.
    of_nodes: BTreeSet<SetMark>,
    /// Nodes by their labels, with their addresses.
    nodes: BTreeMap<NodeName, (Labels, Box<[IpAddr]>)>,
    classes: Classes,
    /// Which spec of each cluster-scoped policy is carried out.
    versions: BTreeMap<PolicyId, String>,
}

impl Policies {
    fn labels_of(&self, namespace: &NamespaceName) -> Option<Arc<Labels>> {
        self.namespaces.get(namespace).map(|(labels, _)| labels.clone())
    }

    /// A policy is there, or has changed, or is gone.
    fn set_policy(
        &mut self,
        key: &PolicyKey,
        new: Option<PolicyInfo>,
        reach: Reach<'_>,
        changes: &mut Changes,
    ) {
        if self.entries.get(key).map(|entry| &*entry.info) == new.as_ref() {
            return;
        }
        let new = new.map(Arc::new);
        let here = new.as_ref().map(|info| self.subjects_of(info, changes)).unwrap_or_default();
        for network in here.keys() {
            new.iter().for_each(|info| self.begin(info, network, reach, changes));
        }
        if let Some(old) = self.entries.remove(key) {
            self.subjects.remove(key, &old.info.subject);
            self.subjects_of(&old.info, changes);
            old.here.keys().for_each(|network| self.end(&old.info, network, changes));
        }
        if let Some(info) = new {
            self.subjects.insert(key, &info.subject);
            self.entries.insert(key.clone(), Entry { info, here });
        }
    }

    /// The pods of this node that a policy is about. Their ports may have other places after it.
    fn subjects_of(&self, info: &PolicyInfo, changes: &mut Changes) -> BTreeMap<NetworkName, Subjects> {
        let mut all: BTreeMap<NetworkName, Subjects> = BTreeMap::new();
        let namespaces: Vec<&NamespaceName> = match &info.subject.namespaces {
            info::Scope::One(name) => vec![name],
            info::Scope::Matching(_) => self.people.namespaces_here().collect(),
        };
        for (key, person) in namespaces.into_iter().flat_map(|namespace| self.people.here_in(namespace)) {
            let Some(network) = person.network().filter(|_| self.is_about(info, person)) else { continue };
            all.entry(network.clone()).or_default().count(info, person, true);
            self.port_changed(key, network, changes);
        }
        all
    }

    fn is_about(&self, info: &PolicyInfo, person: &Person) -> bool {
        let of_namespace = self.labels_of(&person.namespace);
        person.here && info.subject.selects(&person.namespace, of_namespace.as_deref(), &person.labels)
    }

    fn port_changed(&self, key: &str, network: &NetworkName, changes: &mut Changes) {
        if let Some(pod) = crate::pods::object(key) {
            changes.add(Change::Pod { pod, network: network.clone() });
        }
    }

    /// A policy is here on a network from now on.
    fn begin(
        &mut self,
        info: &Arc<PolicyInfo>,
        network: &NetworkName,
        reach: Reach<'_>,
        changes: &mut Changes,
    ) {
        self.here.entry(network.clone()).or_default().count(info.key.clone(), true);
        if self.classes.of(network).is_none() {
            self.classes.set(network, Some(reach(network)));
        }
        self.count_isolation(info, network, true, changes);
        if let Some(class) = self.classes.of(network).cloned() {
            info.sets().iter().for_each(|spec| self.acquire(spec, &class, network, &info.key, changes));
        }
        changes.add(Change::Policy { policy: info.key.clone(), network: network.clone() });
    }

    fn end(&mut self, info: &Arc<PolicyInfo>, network: &NetworkName, changes: &mut Changes) {
        if let Some(class) = self.classes.of(network).cloned() {
            info.sets().iter().for_each(|spec| self.release(spec, &class, network, &info.key, changes));
        }
        self.count_isolation(info, network, false, changes);
        if let Some(policies) = self.here.get_mut(network) {
            policies.count(info.key.clone(), false);
            if policies.is_empty() {
                self.here.remove(network);
                self.classes.set(network, None);
            }
        }
        changes.add(Change::Policy { policy: info.key.clone(), network: network.clone() });
    }

    fn count_isolation(
        &mut self,
        info: &PolicyInfo,
        network: &NetworkName,
        into: bool,
        changes: &mut Changes,
    ) {
        let Some(namespace) = info.key.namespace() else { return };
        for direction in Direction::BOTH.into_iter().filter(|direction| info.isolates(*direction)) {
            if self.isolated.count((network.clone(), namespace.clone(), direction), into) {
                let (namespace, network) = (namespace.clone(), network.clone());
                changes.add(Change::Isolation { namespace, network });
            }
        }
    }

    fn acquire(
        &mut self,
        spec: &SetSpec,
        class: &Class,
        network: &NetworkName,
        policy: &PolicyKey,
        changes: &mut Changes,
    ) {
        let mark = sets::mark(&spec.to_string());
        if !self.sets.contains_key(&mark) {
            self.fill(&mark, spec);
        }
        let Some(set) = self.sets.get_mut(&mark) else { return };
        if set.count_user(&class.key, (network.clone(), policy.clone()), true) {
            changes.add(Change::PeerSet { set: mark, class: class.key.clone() });
        }
    }

    fn release(
        &mut self,
        spec: &SetSpec,
        class: &Class,
        network: &NetworkName,
        policy: &PolicyKey,
        changes: &mut Changes,
    ) {
        let mark = sets::mark(&spec.to_string());
        let Some(set) = self.sets.get_mut(&mark) else { return };
        if set.count_user(&class.key, (network.clone(), policy.clone()), false) {
            changes.add(Change::PeerSet { set: mark.clone(), class: class.key.clone() });
        }
        if set.is_unused() {
            match &spec.who {
                Who::Pods(selector) => self.selectors.remove(&mark, selector),
                Who::Nodes(_) => drop(self.of_nodes.remove(&mark)),
            }
            self.sets.remove(&mark);
        }
    }

    /// A set that somebody names for the first time: whoever is selected now.
    fn fill(&mut self, mark: &SetMark, spec: &SetSpec) {
        let mut set = PeerSet::new(spec.clone());
        let mut nobody_knows_it_yet = Changes::default();
        match &spec.who {
            Who::Pods(selector) => {
                for person in self.selected_by(selector) {
                    set.count(mark, person, true, &mut nobody_knows_it_yet);
                }
                self.selectors.insert(mark, selector);
            }
            Who::Nodes(selector) => {
                for (_, addresses) in self.nodes.values().filter(|(labels, _)| selector.selects(labels)) {
                    set.count_node(mark, addresses, true, &mut nobody_knows_it_yet);
                }
                self.of_nodes.insert(mark.clone());
            }
        }
        self.sets.insert(mark.clone(), set);
    }

    fn selected_by<'a>(&'a self, selector: &'a PodSelector) -> impl Iterator<Item = &'a Person> {
        let namespaces: Vec<&NamespaceName> = match &selector.namespaces {
            info::Scope::One(name) => vec![name],
            info::Scope::Matching(labels) => {
                let matching = self.namespaces.iter().filter(|(_, (of, _))| labels.selects(of));
                matching.map(|(name, _)| name).collect()
            }
        };
        let people = namespaces.into_iter().flat_map(|namespace| self.people.in_namespace(namespace));
        people.map(|(_, person)| person).filter(|person| selector.pods.selects(&person.labels))
    }

    /// A node is there, or has changed, or is gone.
    fn set_node(&mut self, name: &NodeName, new: Option<(Labels, Box<[IpAddr]>)>, changes: &mut Changes) {
        let old = self.nodes.get(name).cloned();
        if old == new {
            return;
        }
        for mark in &self.of_nodes {
            let Some(set) = self.sets.get_mut(mark) else { continue };
            let Who::Nodes(selector) = set.spec.who.clone() else { continue };
            for (node, into) in [(&new, true), (&old, false)] {
                if let Some((_, addresses)) = node.as_ref().filter(|(labels, _)| selector.selects(labels)) {
                    set.count_node(mark, addresses, into, changes);
                }
            }
        }
        if old.is_some() && !self.of_nodes.is_empty() {
            self.narrowed(Some(None), changes);
        }
        match new {
            Some(node) => drop(self.nodes.insert(name.clone(), node)),
            None => drop(self.nodes.remove(name)),
        }
    }

    /// Somebody on a network, or on a node, is selected by others than before, or not there any more: what runs may be allowed no more
    /// wherever policies reach him.
    fn narrowed(&self, known_on: Option<Option<&NetworkName>>, changes: &mut Changes) {
        let Some(place) = known_on else { return };
        let reaches = |network: &&NetworkName| {
            place.is_none_or(|place| {
                place == *network
                    || self.classes.of(network).is_some_and(|class| class.networks.contains(place))
            })
        };
        let reaching = self.here.keys().filter(reaches);
        reaching.for_each(|network| changes.add(Change::Narrowed(network.clone())));
    }

    /// A pod comes, changes or goes. Sets that are there are brought up to date first: one that is named for the first time after
    /// that is filled with everybody.
    fn set_person(&mut self, key: &str, person: Option<Person>, reach: Reach<'_>, changes: &mut Changes) {
        let old = self.people.get(key).cloned();
        if old == person {
            return;
        }
        let namespace = old.as_ref().or(person.as_ref()).map(|person| person.namespace.clone());
        let labels = namespace.and_then(|namespace| self.labels_of(&namespace));
        let both = [(&person, true), (&old, false)];
        let mut sets = BTreeSet::new();
        for (person, into) in both.iter().filter_map(|(person, into)| Some((person.as_ref()?, *into))) {
            let counted = self.count_in_sets(person, labels.as_deref(), into, changes);
            sets.extend(counted.into_iter().map(|set| (set, into)));
        }
        self.people.set(key, person.clone());
        self.person_narrowed(old.as_ref(), person.as_ref(), &sets, changes);
        for (person, into) in both.iter().filter_map(|(person, into)| Some((person.as_ref()?, *into))) {
            self.count_in_policies(key, person, labels.as_deref(), into, reach, changes);
        }
    }

    /// A pod has come, changed or gone, and was counted in sets or out of them. With other labels, or other names of ports, it is
    /// others whom policies mean. With its address somebody else may come, by connections that were begun with this one: what was
    /// allowed for its sake alone is over when it leaves, and what administrators forbid is over when somebody comes whom they mean.
    fn person_narrowed(
        &self,
        old: Option<&Person>,
        new: Option<&Person>,
        sets: &BTreeSet<(SetMark, bool)>,
        changes: &mut Changes,
    ) {
        let same = old.zip(new);
        let labelled = same.is_some_and(|(old, new)| (&old.labels, &old.ports) != (&new.labels, &new.ports));
        let moved =
            same.is_none_or(|(old, new)| (&old.place, &old.addresses) != (&new.place, &new.addresses));
        let may_forbid = |set: &SetMark| self.sets.get(set).is_some_and(PeerSet::is_administrators);
        let left = moved && sets.iter().any(|(_, into)| !into);
        let came = moved && sets.iter().any(|(set, into)| *into && may_forbid(set));
        for (person, _) in [(old, labelled || left), (new, labelled || came)].iter().filter(|(_, is)| *is) {
            person.iter().for_each(|person| self.narrowed(person.known_on(), changes));
        }
    }

    /// Takes a pod in or out of the sets that select it, while its namespace has these labels. Says which these are.
    fn count_in_sets(
        &mut self,
        person: &Person,
        of_namespace: Option<&Labels>,
        into: bool,
        changes: &mut Changes,
    ) -> Vec<SetMark> {
        let (namespace, labels) = (&person.namespace, &person.labels);
        let mut counted = Vec::new();
        for mark in self.selectors.candidates(namespace, of_namespace, labels) {
            let Some(set) = self.sets.get_mut(&mark) else { continue };
            let Who::Pods(selector) = &set.spec.who else { continue };
            if selector.selects(namespace, of_namespace, labels) {
                set.count(&mark, person, into, changes);
                counted.push(mark);
            }
        }
        counted
    }

    /// The same with the policies that are about it, if it is a pod of this node.
    fn count_in_policies(
        &mut self,
        key: &str,
        person: &Person,
        of_namespace: Option<&Labels>,
        into: bool,
        reach: Reach<'_>,
        changes: &mut Changes,
    ) {
        let Some(network) = person.network().filter(|_| person.here) else { return };
        let (namespace, labels) = (&person.namespace, &person.labels);
        self.port_changed(key, network, changes);
        for policy in self.subjects.candidates(namespace, of_namespace, labels) {
            let Some(entry) = self.entries.get(&policy) else { continue };
            if entry.info.subject.selects(namespace, of_namespace, labels) {
                self.count_subject(&policy, person, network, into, reach, changes);
            }
        }
    }

    fn count_subject(
        &mut self,
        policy: &PolicyKey,
        person: &Person,
        network: &NetworkName,
        into: bool,
        reach: Reach<'_>,
        changes: &mut Changes,
    ) {
        let Some(entry) = self.entries.get_mut(policy) else { return };
        let info = entry.info.clone();
        let subjects = entry.here.entry(network.clone()).or_default();
        let first = subjects.pods == 0;
        if subjects.count(&info, person, into) {
            changes.add(Change::Policy { policy: policy.clone(), network: network.clone() });
        }
        let last = subjects.pods == 0;
        if last {
            entry.here.remove(network);
        }
        match (first, last) {
            (true, false) => self.begin(&info, network, reach, changes),
            (false, true) => self.end(&info, network, changes),
            _ => {}
        }
    }

    /// A namespace is there, or has changed, or is gone.
    fn set_namespace(
        &mut self,
        name: &NamespaceName,
        new: Option<(&Labels, Logging)>,
        reach: Reach<'_>,
        changes: &mut Changes,
    ) {
        let old = self.namespaces.get(name).cloned();
        let (before, after) = (old.as_ref().map(|old| &*old.0), new.map(|new| new.0));
        if old.as_ref().map(|old| old.1) != new.map(|new| new.1) {
            self.logging_changed(name, changes);
        }
        let people: Vec<(Arc<str>, Person)> = match before == after {
            true => Vec::new(),
            false => {
                self.people.in_namespace(name).map(|(key, person)| (key.clone(), person.clone())).collect()
            }
        };
        for (labels, into) in [(after, true), (before, false)] {
            for (_, person) in &people {
                self.count_in_sets(person, labels, into, changes);
            }
        }
        people.iter().for_each(|(_, person)| self.narrowed(person.known_on(), changes));
        match new {
            Some((labels, logging)) => {
                self.namespaces.insert(name.clone(), (Arc::new(labels.clone()), logging));
            }
            None => drop(self.namespaces.remove(name)),
        }
        for (labels, into) in [(after, true), (before, false)] {
            for (key, person) in &people {
                self.count_in_policies(key, person, labels, into, reach, changes);
            }
        }
    }

    fn logging_changed(&self, namespace: &NamespaceName, changes: &mut Changes) {
        for (network, policies) in &self.here {
            for policy in policies.keys().filter(|policy| policy.namespace() == Some(namespace)) {
                changes.add(Change::Policy { policy: policy.clone(), network: network.clone() });
                let (namespace, network) = (namespace.clone(), network.clone());
                changes.add(Change::Isolation { namespace, network });
            }
        }
    }

    /// The networks that a network's selectors reach may be others now.
    fn set_reach(&mut self, network: &NetworkName, reach: Reach<'_>, changes: &mut Changes) {
        let Some(old) = self.classes.of(network).cloned() else { return };
        let networks = reach(network);
        if old.networks == networks {
            return;
        }
        let Some(new) = self.classes.set(network, Some(networks)) else { return };
        let policies: Vec<PolicyKey> =
            self.here.get(network).into_iter().flat_map(Counted::keys).cloned().collect();
        for policy in policies {
            let Some(info) = self.entries.get(&policy).map(|entry| entry.info.clone()) else { continue };
            let sets = info.sets();
            sets.iter().for_each(|spec| self.acquire(spec, &new, network, &policy, changes));
            sets.iter().for_each(|spec| self.release(spec, &old, network, &policy, changes));
            changes.add(Change::Policy { policy, network: network.clone() });
        }
    }
}

impl Subjects {
    /// Counts a pod in or out; says whether other numbers of ports are there after it.
    fn count(&mut self, info: &PolicyInfo, person: &Person, into: bool) -> bool {
        if into {
            self.pods += 1;
        } else {
            self.pods = self.pods.saturating_sub(1);
        }
        let names = info.names_at_subjects();
        let named = person.ports.iter().filter(|port| names.contains(&(port.protocol, port.name.as_str())));
        let mut changed = false;
        for port in named {
            changed |= self.ports.count((port.protocol, port.name.clone(), port.port), into);
        }
        changed
    }
}
