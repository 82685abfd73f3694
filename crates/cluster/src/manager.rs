//! The manager as a value: messages in, things to do out.

use std::collections::{BTreeMap, BTreeSet};

use causeway_record::{Action, Cause, Connect, Ended, Event, Outcome, Part, Request, Target};
use causeway_types::ConnectName;

use crate::connect::{Connects, Zones};
use crate::dirty::Dirty;
use crate::memory::Memory;
use crate::mirrors::{self, Mirrors};
use crate::nads::Nads;
use crate::namespaces::Namespaces;
use crate::networks::Networks;
use crate::nodes::Nodes;
use crate::owners::Owners;
use crate::pods::Pods;
use crate::{Config, Error, Input, Output};

const CONNECTS: &str = "clusternetworkconnects";

/// The cluster manager's state.
#[derive(Debug)]
pub struct Manager {
    pub(crate) config: Config,
    pub(crate) now_ms: i64,
    gate: Gate,
    started: bool,
    pub(crate) nodes: Nodes,
    pub(crate) namespaces: Namespaces,
    pub(crate) owners: Owners,
    pub(crate) nads: Nads,
    pub(crate) networks: Networks,
    pub(crate) pods: Pods,
    pub(crate) connects: Connects,
    pub(crate) zones: Zones,
    pub(crate) mirrors: Mirrors,
    pub(crate) memory: Memory,
    pub(crate) dirty: Dirty,
    pub(crate) out: Vec<Output>,
    /// What is being written, so that it is not asked for twice.
    pending: BTreeMap<(Target, Part), Pending>,
    tokens: u64,
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

#[derive(Debug)]
struct Pending {
    action: Action,
    token: u64,
}

/// Which kinds have been listed. Nothing is concluded before all that are needed have been.
#[derive(Debug)]
struct Gate {
    missing: BTreeSet<&'static str>,
    problems: BTreeMap<&'static str, String>,
}

impl Gate {
    fn listed(&mut self, kind: &'static str) {
        self.missing.remove(kind);
        self.problems.remove(kind);
    }

    fn problem(&mut self, kind: &'static str, problem: String) {
        self.problems.insert(kind, problem);
    }
}

impl Manager {
    /// A manager that has seen nothing yet.
    ///
    /// # Errors
    /// [`Error::ClusterSubnets`] when the default network's subnets cannot be split.
    pub fn new(config: Config) -> Result<Self, Error> {
        let mut missing = BTreeSet::from([
            "nodes",
            "namespaces",
            "pods",
            "network-attachment-definitions",
            "userdefinednetworks",
            "clusteruserdefinednetworks",
            "freed numbers",
        ]);
        if config.features.network_connect {
            missing.insert(CONNECTS);
        }
        Ok(Self {
            nodes: Nodes::new(config.max_nodes, &config.default_subnets)?,
            config,
            now_ms: 0,
            gate: Gate { missing, problems: BTreeMap::new() },
            started: false,
            namespaces: Namespaces::default(),
            owners: Owners::default(),
            nads: Nads::default(),
            networks: Networks::default(),
            pods: Pods::default(),
            connects: Connects::default(),
            zones: Zones::default(),
            mirrors: Mirrors::default(),
            memory: Memory::default(),
            dirty: Dirty::default(),
            out: Vec::new(),
            pending: BTreeMap::new(),
            tokens: 0,
        })
    }

    /// Takes one message and says what is to be done.
    pub fn step(&mut self, input: Input) -> Vec<Output> {
        self.absorb(input);
        if !self.started && self.gate.missing.is_empty() {
            self.started = true;
            self.start();
        }
        if self.started {
            self.settle();
        }
        std::mem::take(&mut self.out)
    }

    /// How much of everything there is, for metrics.
    pub fn counts(&self) -> Counts {
        Counts {
            networks: self.networks.all.len(),
            pods: self.pods.all.len(),
            waiting: self.pods.waiting.values().map(BTreeSet::len).sum(),
            connects: self.connects.counts(),
        }
    }

    /// Whether everything needed has been seen, and if not, what is missing.
    ///
    /// # Errors
    /// What is missing, for people.
    pub fn ready(&self) -> Result<(), String> {
        let slices = (self.mirrors_wanted() && !self.mirrors.listed).then_some(mirrors::KIND);
        let missing: Vec<&str> = self.gate.missing.iter().copied().chain(slices).collect();
        let Some(first) = missing.first() else { return Ok(()) };
        let said = missing.iter().find_map(|kind| self.gate.problems.get(kind));
        Err(said.cloned().unwrap_or_else(|| format!("{first} have not been listed")))
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
                self.take(CONNECTS, event, Self::connect_applied, Self::connect_deleted);
            }
            Input::ZoneReport(event) => {
                if matches!(event, Event::Synced) && self.zones.listed_since.is_none() {
                    self.zones.listed_since = Some(self.now_ms);
                    self.all_connect_statuses();
                }
                self.take("zonereports", event, Self::report_applied, Self::report_deleted);
            }
            Input::EndpointSlice(event) => {
                self.listen_to_slices(&event);
                self.take(mirrors::KIND, event, Self::slice_applied, Self::slice_deleted);
            }
            Input::FreedNumbers(reuse) => {
                self.memory.remembered = *reuse;
                self.gate.listed("freed numbers");
            }
            Input::Written(outcome) => self.written(&outcome),
            Input::Tick(now_ms) => {
                self.now_ms = now_ms;
                self.connects_tick();
            }
        }
    }

    /// A kind that is not installed has no objects that hold numbers, so everything else can go on; connections are looked
    /// at once they have been listed.
    fn listen_to_connects(&mut self, event: &Event<Connect, ConnectName>) {
        match event {
            Event::Unsynced(broken) if broken.cause == Cause::NotInstalled => self.gate.listed(CONNECTS),
            Event::Synced if !self.connects.listed => {
                self.connects.listed = true;
                if self.started {
                    self.start_connects();
                }
            }
            _ => {}
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
            if let Some(pod) = self.dirty.pods.pop_first() {
                self.settle_pod(&pod);
            } else if let Some(slice) = self.next_slice() {
                self.settle_mirror(&slice);
            } else if let Some(owner) = self.dirty.statuses.pop_first() {
                self.settle_status(&owner);
            } else if !self.dirty.connects.is_empty() {
                self.settle_connects();
            } else if let Some(connect) = self.dirty.connect_statuses.pop_first() {
                self.settle_connect_status(&connect);
            } else {
                return;
            }
        }
    }

    /// Everything but pods and what is said.
    pub(crate) fn settle_networks(&mut self) {
        loop {
            if let Some(node) = self.dirty.nodes.pop_first() {
                self.settle_node(&node);
            } else if std::mem::take(&mut self.dirty.clashes) {
                self.find_clashes();
            } else if let Some(nad) = self.dirty.nads.pop_first() {
                self.settle_nad(&nad);
            } else if let Some((owner, scope)) = self.dirty.owners.pop_first() {
                self.settle_owner(&owner, scope);
            } else {
                return;
            }
        }
    }

    /// Asks for a write, unless exactly this one is under way.
    pub(crate) fn write(&mut self, mut request: Request) -> u64 {
        let key = (request.target.clone(), request.part);
        if let Some(pending) = self.pending.get(&key).filter(|pending| pending.action == request.action) {
            return pending.token;
        }
        self.tokens += 1;
        request.token = self.tokens;
        self.pending.insert(key, Pending { action: request.action.clone(), token: self.tokens });
        self.out.push(Output::Write(request));
        self.tokens
    }

    /// What is being written of an object.
    pub(crate) fn pending(&self, target: &Target, part: Part) -> Option<&Action> {
        self.pending.get(&(target.clone(), part)).map(|pending| &pending.action)
    }

    /// News of an object: whatever was asked for is compared with it anew.
    pub(crate) fn written_back(&mut self, target: &Target) {
        let parts: Vec<_> = self
            .pending
            .range((target.clone(), Part::FIRST)..)
            .map(|(key, _)| key.clone())
            .take_while(|(other, _)| other == target)
            .collect();
        for key in parts {
            self.pending.remove(&key);
        }
    }

    fn written(&mut self, outcome: &Outcome) {
        let key = (outcome.target.clone(), outcome.part);
        let current = self.pending.get(&key).is_some_and(|pending| pending.token == outcome.token);
        match &outcome.result {
            Ended::Done => self.done(outcome),
            // Whatever is in the way shows in the next event of the object.
            Ended::NotFound | Ended::Conflict(_) if current => {
                self.pending.remove(&key);
            }
            Ended::NotFound | Ended::Conflict(_) => {}
            // The queue tries again by itself.
            Ended::Failed(problem) => {
                tracing::warn!(target = %outcome.target, part = %outcome.part, %problem, "a write failed");
                self.write_failed(&outcome.target, problem);
            }
        }
    }
}
