//! The manager as a value: messages in, things to do out. It routes each message to the area that it is about, and then has
//! everything settled that became dirty. What areas know is theirs alone; others ask them.

use std::collections::BTreeMap;

use causeway_record::{Ended, Event, Kind, Outcome, Part};

use crate::attachments::Attachments;
use crate::connections::{self, Connects};
use crate::dirty::{Dirty, NetworkWork};
use crate::freed_numbers::FreedNumbers;
use crate::gate::Gate;
use crate::mirrors::{self, Mirrors};
use crate::namespaces::Namespaces;
use crate::networks::{Budgets, Clashes, Networks, Numbers};
use crate::nodes::Nodes;
use crate::owners::Owners;
use crate::pods::Pods;
use crate::policies::Policies;
use crate::vteps::Vteps;
use crate::writes::Writes;
use crate::zone_reports::ZoneReports;
use crate::{Config, Input, Output, Result};

/// The cluster manager's state.
#[derive(Debug)]
pub struct Manager {
    pub(crate) config: Config,
    pub(crate) now_ms: i64,
    pub(crate) gate: Gate,
    pub(crate) started: bool,
    pub(crate) nodes: Nodes,
    pub(crate) namespaces: Namespaces,
    pub(crate) owners: Owners,
    pub(crate) attachments: Attachments,
    pub(crate) networks: Networks,
    pub(crate) numbers: Numbers,
    pub(crate) budgets: Budgets,
    pub(crate) clashes: Clashes,
    pub(crate) pods: Pods,
    pub(crate) connects: Connects,
    pub(crate) zone_reports: ZoneReports,
    pub(crate) mirrors: Mirrors,
    pub(crate) policies: Policies,
    pub(crate) vteps: Vteps,
    pub(crate) freed: FreedNumbers,
    pub(crate) dirty: Dirty,
    pub(crate) writes: Writes,
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
            connects: Connects::new(config.features.network_connect),
            config,
            now_ms: 0,
            gate: Gate::new(NEEDED),
            started: false,
            namespaces: Namespaces::default(),
            owners: Owners::default(),
            attachments: Attachments::default(),
            networks: Networks::default(),
            numbers: Numbers::default(),
            budgets: Budgets::default(),
            clashes: Clashes::default(),
            pods: Pods::default(),
            zone_reports: ZoneReports::default(),
            mirrors: Mirrors::default(),
            policies: Policies::default(),
            vteps: Vteps::default(),
            freed: FreedNumbers::default(),
            dirty: Dirty::default(),
            writes: Writes::default(),
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
        self.writes.take()
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
        let late = (self.mirrors_wanted() && !self.mirrors.are_listed()).then_some(mirrors::KIND);
        self.gate.missing(late).map_or(Ok(()), Err)
    }

    fn absorb(&mut self, input: Input) {
        match input {
            Input::Node(event) => self.take("nodes", event, Self::node_applied, Self::node_deleted),
            Input::Namespace(event) => {
                self.take("namespaces", event, Self::namespace_applied, Self::namespace_deleted);
            }
            Input::Pod(event) => self.take("pods", event, Self::pod_applied, Self::pod_deleted),
            Input::Nad(event) => {
                self.take("network-attachment-definitions", event, Self::nad_applied, Self::nad_deleted);
            }
            Input::UserDefinedNetwork(event) => {
                self.take("userdefinednetworks", event, Self::udn_applied, Self::udn_deleted);
            }
            Input::ClusterUserDefinedNetwork(event) => {
                self.take("clusteruserdefinednetworks", event, Self::cudn_applied, Self::cudn_deleted);
            }
            Input::ClusterNetworkConnect(event) => {
                self.listen_to_connects(&event);
                self.take(connections::KIND, event, Self::connect_applied, Self::connect_deleted);
            }
            Input::ZoneReport(event) => {
                self.listen_to_reports(&event);
                self.take("zonereports", event, Self::report_applied, Self::report_deleted);
            }
            Input::EndpointSlice(event) => {
                self.listen_to_endpoint_slices(&event);
                self.take(mirrors::KIND, event, Self::endpoint_slice_applied, Self::endpoint_slice_deleted);
            }
            Input::Vtep(event) => self.vtep_event(event),
            Input::NetworkPolicy(event) => self.network_policy_event(event),
            Input::Policy(kind, event) => self.policy_event(kind, event),
            Input::FreedNumbers(recorded) => {
                self.freed.remember(*recorded);
                self.gate.listed("freed numbers");
            }
            Input::Written(outcome) => self.written(&outcome),
            Input::Tick(now_ms) => self.tick(now_ms),
        }
    }

    /// Time passes: what had to wait for it is done.
    fn tick(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.owners_tick();
        self.connects_tick();
        self.policies_tick();
        if self.started {
            self.fence_absent_nodes();
            self.wake_by_budget();
        }
    }

    fn take<T, K>(
        &mut self,
        kind: &'static str,
        event: Event<T, K>,
        applied: fn(&mut Self, T),
        deleted: fn(&mut Self, &K),
    ) {
        match event {
            Event::Applied(object) => applied(self, object),
            Event::Deleted(key) => deleted(self, &key),
            Event::Synced => self.gate.listed(kind),
            Event::Unsynced(broken) => self.gate.problem(kind, broken.message),
        }
    }

    /// Nodes and networks come before the pods that need them; what one step dirties, a later one finds settled.
    fn settle(&mut self) {
        loop {
            self.settle_networks();
            self.settle_reach();
            if let Some(pod) = self.dirty.next_pod() {
                self.settle_pod(&pod);
            } else if let Some(slice) = self.next_endpoint_slice() {
                self.settle_mirror(&slice);
            } else if let Some(owner) = self.dirty.next_status() {
                self.settle_status(&owner);
            } else if let Some(connects) = self.dirty.take_connects() {
                self.settle_connects(connects);
            } else if let Some(connect) = self.dirty.next_connect_status() {
                self.settle_connect_status(&connect);
            } else if let Some(policy) = self.dirty.next_policy() {
                self.settle_policy(&policy);
            } else if let Some(vtep) = self.dirty.next_vtep() {
                self.settle_vtep(&vtep);
            } else if !self.wake_grown() {
                return;
            }
        }
    }

    /// Everything but pods and what is said.
    pub(crate) fn settle_networks(&mut self) {
        while let Some(work) = self.dirty.next_network_work() {
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
            Ended::NotFound | Ended::Conflict(_) => self.writes.refused(outcome),
            // The queue tries again by itself.
            Ended::Failed(problem) => {
                tracing::warn!(target = %outcome.target, part = %outcome.part, %problem, "a write failed");
                self.write_failed(&outcome.target, problem);
            }
        }
    }

    /// A write is done. What follows from it shows in events of the object, but for what nobody watches.
    fn done(&mut self, outcome: &Outcome) {
        self.writes.done(outcome);
        match outcome.target.kind {
            Kind::ConfigMap => self.freed_numbers_written(outcome.token),
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
