//! The manager as a value: messages in, things to do out. It routes each message to the area that it is about, has everything settled
//! that became dirty, and joins areas where one's news is another's work. What an area knows is its own: it is told and asked by name, and
//! sees of the others what it is shown.

mod networks;
mod nodes;
mod owners;
mod start;
mod views;

use std::collections::BTreeMap;

use causeway_record::{Cause, Connect, Ended, Event, Kind, Outcome, Part};
use causeway_types::{ConnectName, NetworkId, NodeName};

use crate::attachments::Attachments;
use crate::connections::{self, Connects};
use crate::desk::Desk;
use crate::dirty::NetworkWork;
use crate::gate::Gate;
use crate::mirrors::{self, Mirrors};
use crate::namespaces::Namespaces;
use crate::networks::Networks;
use crate::nodes::Nodes;
use crate::numbers::Numbers;
use crate::owners::{self as owner, Owners};
use crate::pods::{AddressUse, Pods};
use crate::policies::Policies;
use crate::vteps::Vteps;
use crate::zone_reports::{ZoneReports, Zones};
use crate::{Config, Input, Output, OwnerKey, Result};

/// The cluster manager's state.
#[derive(Debug)]
pub struct Manager {
    config: Config,
    gate: Gate,
    started: bool,
    desk: Desk,
    nodes: Nodes,
    namespaces: Namespaces,
    owners: Owners,
    attachments: Attachments,
    networks: Networks,
    numbers: Numbers,
    pods: Pods,
    connects: Connects,
    zone_reports: ZoneReports,
    mirrors: Mirrors,
    policies: Policies,
    vteps: Vteps,
}

/// How much of everything there is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Networks besides the default one.
    pub networks: usize,
    /// Pods that are known.
    pub pods: usize,
    /// Pods without addresses that wait for something.
    pub waiting: usize,
    /// Connections, by whether they are accepted and by their status; texts are empty before there is one.
    pub connects: BTreeMap<(&'static str, &'static str), usize>,
}

/// Kinds that everything waits for.
const NEEDED: [&str; 8] = [
    "nodes",
    "namespaces",
    "pods",
    "network-attachment-definitions",
    "userdefinednetworks",
    "clusteruserdefinednetworks",
    "freed numbers",
    connections::KIND,
];

impl Manager {
    /// A manager that has seen nothing yet.
    ///
    /// # Errors
    /// [`crate::Error::ClusterSubnets`] when the default network's subnets cannot be split.
    pub fn new(config: Config) -> Result<Self> {
        Ok(Self {
            nodes: Nodes::new(config.max_nodes, &config.default_subnets, &config.cluster)?,
            connects: Connects::new(&config),
            numbers: Numbers::new(&config),
            mirrors: Mirrors::new(&config),
            config,
            gate: Gate::new(NEEDED),
            started: false,
            desk: Desk::default(),
            namespaces: Namespaces::default(),
            owners: Owners::default(),
            attachments: Attachments::default(),
            networks: Networks::default(),
            pods: Pods::default(),
            zone_reports: ZoneReports::default(),
            policies: Policies::default(),
            vteps: Vteps::default(),
        })
    }

    /// Takes one message and says what is to be done.
    pub fn step(&mut self, input: Input) -> Vec<Output> {
        self.absorb(input);
        if !self.started && self.gate.is_open() {
            self.started = true;
            self.start();
        }
        if self.started {
            self.settle();
        }
        self.desk.writes.take()
    }

    /// How much of everything there is, for metrics.
    pub fn counts(&self) -> Counts {
        Counts {
            networks: self.networks.len(),
            pods: self.pods.len(),
            waiting: self.pods.waiting(),
            connects: self.connects.counts(),
        }
    }

    /// Whether everything needed has been seen, and if not, what is missing.
    ///
    /// # Errors
    /// What is missing, for people.
    pub fn ready(&self) -> std::result::Result<(), String> {
        let late = self.mirrors.are_late().then_some(mirrors::KIND);
        self.gate.missing(late).map_or(Ok(()), Err)
    }

    /// How many addresses are in use, of the networks whose pools may have changed since this was asked last; nothing of those that no
    /// pod draws from any more.
    pub fn moved_addresses(&mut self) -> BTreeMap<NetworkId, Option<AddressUse>> {
        self.pods.moved_addresses(self.nodes.len(), &self.networks)
    }

    /// For how many milliseconds freed numbers have been waiting for nodes' zones.
    pub fn numbers_wait(&self) -> impl Iterator<Item = (&NodeName, i64)> {
        self.numbers.waiting(self.desk.now_ms)
    }

    fn absorb(&mut self, input: Input) {
        match input {
            Input::Node(event) => self.take("nodes", event, Self::node_applied, Self::node_deleted),
            Input::Namespace(event) => {
                self.take("namespaces", event, Self::namespace_applied, Self::namespace_deleted);
            }
            Input::Pod(event) => self.take("pods", event, Self::pod_applied, Self::pod_deleted),
            Input::Nad(event) => {
                let applied = |it: &mut Self, nad| it.attachments.applied(nad, &mut it.desk);
                self.take("network-attachment-definitions", event, applied, Self::nad_deleted);
            }
            Input::UserDefinedNetwork(event) => {
                let deleted = |it: &mut Self, key: &_| {
                    owner::udn_key(key).into_iter().for_each(|key| it.owner_deleted(&key));
                };
                self.take("userdefinednetworks", event, Self::udn_applied, deleted);
            }
            Input::ClusterUserDefinedNetwork(event) => {
                let deleted = |it: &mut Self, name: &_| it.owner_deleted(&OwnerKey::Cudn(Clone::clone(name)));
                self.take("clusteruserdefinednetworks", event, Self::cudn_applied, deleted);
            }
            Input::FreedNumbers(recorded) => {
                self.numbers.remember(*recorded);
                self.gate.listed("freed numbers");
            }
            Input::Written(outcome) => self.written(&outcome),
            Input::Tick(now_ms) => self.tick(now_ms),
            of_followers => self.absorb_of_followers(of_followers),
        }
    }

    /// What others have to follow, and nobody's numbers or addresses come from.
    fn absorb_of_followers(&mut self, input: Input) {
        match input {
            Input::ClusterNetworkConnect(event) => {
                self.listen_to_connects(&event);
                let applied =
                    |it: &mut Self, object| it.connects.applied(object, &mut it.numbers, &mut it.desk);
                let deleted =
                    |it: &mut Self, name: &_| it.connects.deleted(name, &mut it.numbers, &mut it.desk);
                self.take(connections::KIND, event, applied, deleted);
            }
            Input::ZoneReport(event) => {
                if matches!(event, Event::Synced) && self.zone_reports.listed(self.desk.now_ms) {
                    self.all_statuses();
                }
                self.take("zonereports", event, Self::report_applied, Self::report_deleted);
            }
            Input::EndpointSlice(event) => {
                if matches!(event, Event::Synced) {
                    self.mirrors.listed(&mut self.desk.dirty);
                }
                let applied = |it: &mut Self, slice| it.mirrors.applied(slice, &mut it.desk);
                let deleted = |it: &mut Self, key: &_| it.mirrors.deleted(key, &mut it.desk);
                self.take(mirrors::KIND, event, applied, deleted);
            }
            Input::Vtep(event) => self.vteps.take(event, &self.nodes, &self.owners, &mut self.desk),
            Input::NetworkPolicy(event) => self.policies.take_of_tenant(event, &mut self.desk.writes),
            Input::Policy(kind, event) => self.policies.take(kind, event, &mut self.desk),
            _ => {}
        }
    }

    /// Time passes: what had to wait for it is done.
    fn tick(&mut self, now_ms: i64) {
        self.desk.now_ms = now_ms;
        self.desk.dirty.late_statuses_are_due();
        self.connects.tick(&mut self.desk);
        self.policies.tick(&mut self.desk.dirty);
        if self.started {
            let Self { nodes, zone_reports: reports, numbers, connects, desk, .. } = self;
            numbers.fence_absent_nodes(Zones { nodes, reports }, connects, desk);
            numbers.wake_by_budget(now_ms, &mut desk.dirty);
        }
    }

    fn take<T, K>(
        &mut self,
        kind: &'static str,
        event: Event<T, K>,
        applied: impl FnOnce(&mut Self, T),
        deleted: impl FnOnce(&mut Self, &K),
    ) {
        match event {
            Event::Applied(object) => applied(self, object),
            Event::Deleted(key) => deleted(self, &key),
            Event::Synced => self.gate.listed(kind),
            Event::Unsynced(broken) => self.gate.problem(kind, broken.message),
        }
    }

    /// A kind that is not installed has no objects that hold numbers, so everything else can go on; connections are looked
    /// at once they have been listed.
    fn listen_to_connects(&mut self, event: &Event<Connect, ConnectName>) {
        match event {
            Event::Unsynced(broken) if broken.cause == Cause::NotInstalled => {
                self.gate.listed(connections::KIND);
            }
            Event::Synced if self.connects.listed() && self.started => self.start_connects(),
            _ => {}
        }
    }

    /// Nodes and networks come before the pods that need them; what one step dirties, a later one finds settled.
    fn settle(&mut self) {
        loop {
            self.settle_networks();
            self.connects_look_around();
            if let Some(pod) = self.desk.dirty.next_pod() {
                let (pods, around, desk) = self.pods();
                pods.settle(&pod, around, desk);
            } else if let Some(slice) = self.mirrors.next(&mut self.desk.dirty) {
                let (mirrors, around, desk) = self.mirrors();
                mirrors.settle(&slice, around, &mut desk.writes);
            } else if let Some(owner) = self.desk.dirty.next_status() {
                let (owners, observed, desk) = self.statuses();
                owners.settle_status(&owner, &observed, desk);
            } else if !self.settle_followers() && !self.wake_grown() {
                return;
            }
        }
    }

    /// What follows from all networks and pods; the answer is whether there was anything.
    fn settle_followers(&mut self) -> bool {
        let Self { namespaces, nodes, zone_reports: reports, numbers, connects, desk, .. } = self;
        let zones = Zones { nodes, reports };
        if let Some(dirty) = desk.dirty.take_connects() {
            connects.settle(dirty, numbers, desk);
            // Who is connected decides which addresses are somebody's.
            desk.dirty.endpoint_slices(self.mirrors.by_address());
        } else if let Some(connect) = desk.dirty.next_connect_status() {
            connects.settle_status(&connect, zones, numbers, desk);
        } else if let Some(policy) = desk.dirty.next_policy() {
            self.policies.settle(&policy, namespaces, zones, desk);
        } else if let Some(vtep) = desk.dirty.next_vtep() {
            self.vteps.settle(&vtep, nodes, desk);
        } else {
            return false;
        }
        true
    }

    /// Everything but pods and what is said.
    fn settle_networks(&mut self) {
        while let Some(work) = self.desk.dirty.next_network_work() {
            match work {
                NetworkWork::Node(node) => self.settle_node(&node),
                NetworkWork::Clashes(networks, nodes) => self.find_clashes(&networks, nodes),
                NetworkWork::Nad(nad) => self.settle_nad(&nad),
                NetworkWork::Owner(owner, scope) => self.settle_owner(&owner, scope),
            }
        }
    }

    fn written(&mut self, outcome: &Outcome) {
        match &outcome.result {
            Ended::Done => self.done(outcome),
            Ended::NotFound | Ended::Conflict(_) => self.desk.writes.refused(outcome),
            // The queue tries again by itself.
            Ended::Failed(problem) => {
                tracing::warn!(target = %outcome.target, part = %outcome.part, %problem, "a write failed");
                self.owners.write_failed(&outcome.target, problem, &mut self.desk.dirty);
            }
        }
    }

    /// A write is done. What follows from it shows in events of the object, but for what nobody watches.
    fn done(&mut self, outcome: &Outcome) {
        self.desk.writes.done(outcome);
        match outcome.target.kind {
            Kind::ConfigMap => {
                self.numbers.written(outcome.token);
                self.desk.dirty.owners(self.owners.going().cloned());
                self.desk.dirty.connects(self.connects.waiting_for_record());
            }
            Kind::UserDefinedNetwork | Kind::ClusterUserDefinedNetwork if outcome.part == Part::Status => {
                self.owners.status_done(&outcome.target);
            }
            Kind::ClusterNetworkConnect if outcome.part == Part::Status => {
                self.connects.status_done(&outcome.target.name);
            }
            Kind::Vtep => self.vteps.status_done(&outcome.target),
            Kind::ClusterNetworkPolicy | Kind::AdminNetworkPolicy | Kind::BaselineAdminNetworkPolicy => {
                self.policies.status_done(&outcome.target);
            }
            _ => {}
        }
    }
}
