//! The task that owns the connection, and the handle by which others ask it.

use super::bridges::Mapping;
use super::error::Error;
use super::internal::{PortProblem, ensure_internal, wanted};
use super::look::{Milestone, PodPortSeen, Switch, monitored, text};
use super::ops::{PodPort, ensure_pods, remove_sandbox};
use causeway_ovn::generated::vswitch::DATABASE;
use causeway_ovsdb_client::ovsdb::{
    Change, ChangeKind, Event, RequestId, RowRef, SessionConfig, Str, TransactOutcome, Transaction,
};
use causeway_ovsdb_client::{Client, ClientConfig, ClientEvent, Remote, TlsFiles};
use causeway_runtime::Tasks;
use causeway_types::around::{Bridges, SwitchFacts};
use causeway_types::host::{HostPlan, Item, Key, Planned};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{info, warn};

/// How often a transaction that the database refused is computed anew: a bridge can be replaced under it.
const ATTEMPTS: u8 = 3;
/// More than pods start at once on a node.
const QUEUE: usize = 1024;
/// How long somebody waits for the devices of new internal ports before all others go on without them.
const OPENING: Duration = Duration::from_secs(5);

/// Which switch.
#[derive(Clone, Debug)]
pub struct OvsConfig {
    /// Its database.
    pub remotes: Vec<Remote>,
    /// Files for `ssl:` remotes.
    pub tls: Option<TlsFiles>,
    /// The integration bridge, `br-int`.
    pub bridge: String,
}

/// What came of the internal ports of a plan.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct InternalPorts {
    /// Whether anything was written.
    pub written: bool,
    /// What could not be done. Everything else was.
    pub problems: Vec<PortProblem>,
}

type Answer<T> = oneshot::Sender<Result<T, Error>>;

enum Ask {
    Pods(Vec<PodPort>, Answer<()>),
    Sandbox { sandbox: String, names: Vec<String>, answer: Answer<Vec<String>> },
    Internal { plan: Arc<HostPlan>, problems: Vec<PortProblem>, answer: Answer<InternalPorts> },
    Seen(Answer<Vec<PodPortSeen>>),
    Zones(Answer<BTreeMap<String, u16>>),
    Wait { name: String, iface_id: String, milestone: Milestone, answer: Answer<()> },
}

/// The handle of the task. Whoever drops the future of a question takes it back.
#[derive(Clone)]
pub struct Ovs {
    asks: mpsc::Sender<Ask>,
    ready: watch::Receiver<Result<(), String>>,
    facts: watch::Receiver<SwitchFacts>,
    bridges: watch::Receiver<Option<Bridges>>,
    mapping: watch::Sender<Option<Mapping>>,
}

impl Ovs {
    /// Starts the task, which the role cannot do without. It ends with the last handle.
    pub fn start(tasks: &mut Tasks, config: OvsConfig) -> Ovs {
        let (asks, receiver) = mpsc::channel(QUEUE);
        let (ready, is_ready) =
            watch::channel(Err("the Open vSwitch database has not answered yet".to_owned()));
        let (facts, is_facts) = watch::channel(SwitchFacts::default());
        let (bridges, are_bridges) = watch::channel(None);
        let (mapping, is_mapping) = watch::channel(None);
        let mut session = SessionConfig::new(DATABASE);
        session.tables = monitored();
        let client =
            Client::new(ClientConfig { tls: config.tls, ..ClientConfig::new(session, config.remotes) });
        let task = Task {
            client,
            bridge: config.bridge,
            asks: receiver,
            queue: VecDeque::new(),
            sent: FxHashMap::default(),
            waiting: BTreeMap::new(),
            ready,
            facts,
            bridges,
            outside: Outside { wanted: is_mapping, sent: None, refused: None },
        };
        tasks.start("Open vSwitch", task.run());
        Ovs { asks, ready: is_ready, facts: is_facts, bridges: are_bridges, mapping }
    }

    /// Whether ports can be made; if not, why.
    pub fn ready(&self) -> Result<(), String> {
        self.ready.borrow().clone()
    }

    /// Makes the ports of a pod, in one transaction; nothing is written if they are there.
    ///
    /// # Errors
    /// If the bridge is missing, a name is taken, or the database refuses.
    pub async fn ensure_ports(&self, ports: Vec<PodPort>) -> Result<(), Error> {
        self.ask(|answer| Ask::Pods(ports, answer)).await
    }

    /// Removes the ports of a sandbox; says which there were.
    ///
    /// # Errors
    /// If the database refuses.
    pub async fn remove_ports(&self, sandbox: &str) -> Result<Vec<String>, Error> {
        self.ask(|answer| Ask::Sandbox { sandbox: sandbox.to_owned(), names: Vec::new(), answer }).await
    }

    /// The same, now and whenever that changes.
    pub fn readiness(&self) -> watch::Receiver<Result<(), String>> {
        self.ready.clone()
    }

    /// What the switch says of itself, now and whenever that changes. Empty until the database has answered.
    pub fn facts(&self) -> watch::Receiver<SwitchFacts> {
        self.facts.clone()
    }

    /// The bridges but for the integration bridge, now and whenever something about them changes. None until the database
    /// has answered.
    pub fn bridges(&self) -> watch::Receiver<Option<Bridges>> {
        self.bridges.clone()
    }

    /// From now on OVN knows which bridge leads to a physical network, or that it does not any more, whoever else changes it.
    pub fn map(&self, mapping: Mapping) {
        self.mapping.send_if_modified(|known| {
            let differs = known.as_ref() != Some(&mapping);
            *known = Some(mapping);
            differs
        });
    }

    /// Makes the node's internal ports those of the plan, and waits a while until their devices are there.
    ///
    /// # Errors
    /// If the database refuses them all. What is wrong with one port is in the answer, and all others are made.
    pub async fn ensure_internal(&self, plan: impl Into<Arc<HostPlan>>) -> Result<InternalPorts, Error> {
        let plan = plan.into();
        let ports: Vec<Planned> = wanted(&plan).into_values().collect();
        let mut done = self.ask(|answer| Ask::Internal { plan, problems: Vec::new(), answer }).await?;
        let bad = |key: &Key| done.problems.iter().any(|problem| problem.key == *key);
        let mut waits = JoinSet::new();
        for Planned { item, owner } in ports {
            let (ovs, key) = (self.clone(), item.key());
            let Item::Port(port) = item else { continue };
            if !bad(&key) {
                waits.spawn(async move {
                    let outcome = ovs.opened(port.name, port.iface_id).await;
                    outcome.err().map(|error| PortProblem { key, owner: Some(owner), error })
                });
            }
        }
        done.problems.extend(waits.join_all().await.into_iter().flatten());
        Ok(done)
    }

    async fn opened(&self, name: String, iface_id: String) -> Result<(), Error> {
        let wait = self.wait(name.clone(), iface_id, Milestone::Opened);
        timeout(OPENING, wait).await.unwrap_or(Err(Error::NotOpened(name)))
    }

    /// Waits until packets can flow through a port.
    ///
    /// # Errors
    /// If the port goes, becomes another's, or its device cannot be used.
    pub async fn wait_installed(&self, name: &str, iface_id: &str) -> Result<(), Error> {
        self.wait(name.to_owned(), iface_id.to_owned(), Milestone::Installed).await
    }

    /// All ports of pods.
    ///
    /// # Errors
    /// If the task has ended.
    pub async fn pod_ports(&self) -> Result<Vec<PodPortSeen>, Error> {
        self.ask(Ask::Seen).await
    }

    /// In which zone of the switch's memory the connections of each logical port are.
    ///
    /// # Errors
    /// If the task has ended.
    pub async fn zones(&self) -> Result<BTreeMap<String, u16>, Error> {
        self.ask(Ask::Zones).await
    }

    async fn wait(&self, name: String, iface_id: String, milestone: Milestone) -> Result<(), Error> {
        self.ask(|answer| Ask::Wait { name, iface_id, milestone, answer }).await
    }

    async fn ask<T>(&self, make: impl FnOnce(Answer<T>) -> Ask) -> Result<T, Error> {
        let (answer, answered) = oneshot::channel();
        self.asks.send(make(answer)).await.map_err(|_| Error::Ended)?;
        answered.await.map_err(|_| Error::Ended)?
    }
}

/// A question whose transaction is on its way.
struct Sent {
    ask: Ask,
    attempts: u8,
}

struct Waiter {
    iface_id: String,
    milestone: Milestone,
    answer: Answer<()>,
}

struct Task {
    client: Client,
    bridge: String,
    asks: mpsc::Receiver<Ask>,
    /// Without a bound of its own: whoever asks waits for the answer, and what he takes back goes. So no more wait here than ask at one
    /// moment, also while the database is away.
    queue: VecDeque<(Ask, u8)>,
    sent: FxHashMap<RequestId, Sent>,
    /// By the name of the port.
    waiting: BTreeMap<Str, Vec<Waiter>>,
    ready: watch::Sender<Result<(), String>>,
    facts: watch::Sender<SwitchFacts>,
    bridges: watch::Sender<Option<Bridges>>,
    outside: Outside,
}

/// Which bridge leads outside, as far as OVN is told.
struct Outside {
    wanted: watch::Receiver<Option<Mapping>>,
    sent: Option<RequestId>,
    /// The database did not want it; it is asked again when something about the switch changes.
    refused: Option<Mapping>,
}

impl Task {
    async fn run(mut self) -> String {
        loop {
            tokio::select! {
                ask = self.asks.recv() => match ask {
                    Some(ask) => self.queue.push_back((ask, 0)),
                    None => return "nobody asks any more".into(),
                },
                event = self.client.next() => self.on_event(event),
                Ok(()) = self.outside.wanted.changed() => {}
            }
            while let Some(event) = self.client.poll_event() {
                self.on_event(event);
            }
            while let Ok(ask) = self.asks.try_recv() {
                self.queue.push_back((ask, 0));
            }
            self.work();
        }
    }

    /// Answers or sends what is asked, while the replica can be trusted.
    fn work(&mut self) {
        self.queue.retain(|(ask, _)| !ask.is_taken_back());
        if !self.client.session().is_synced() {
            return;
        }
        // What has to wait for the next event comes back into the queue.
        for (ask, attempts) in std::mem::take(&mut self.queue) {
            self.begin(ask, attempts);
        }
        self.tell_ovn();
        self.client.flush();
    }

    /// One request at a time; what comes of it is seen in the replica.
    fn tell_ovn(&mut self) {
        let wanted = self.outside.wanted.borrow_and_update().clone();
        let open = wanted.filter(|wanted| self.outside.refused.as_ref() != Some(wanted));
        let Some(wanted) = open.filter(|_| self.outside.sent.is_none()) else { return };
        let transaction = Switch::of(self.client.replica()).and_then(|switch| switch.mapping(&wanted));
        if let Some(transaction) = transaction
            && let Ok(id) = self.client.session().transact(&transaction)
        {
            let Mapping { network, bridge, leads } = &wanted;
            info!(network, bridge, leads, "telling OVN which bridge leads outside");
            self.outside.sent = Some(id);
        }
    }

    fn told_ovn(&mut self, outcome: &TransactOutcome) {
        self.outside.sent = None;
        if let TransactOutcome::Failed(error) = outcome {
            warn!(%error, "the Open vSwitch database does not say which bridge leads outside");
            self.outside.refused = self.outside.wanted.borrow().clone();
        }
    }

    fn begin(&mut self, mut ask: Ask, attempts: u8) {
        let Some(switch) = Switch::of(self.client.replica()) else {
            return self.queue.push_back((ask, attempts));
        };
        let transaction = match &mut ask {
            Ask::Pods(ports, _) => ensure_pods(switch, &self.bridge, ports),
            Ask::Sandbox { sandbox, names, .. } => {
                let (transaction, there) = remove_sandbox(switch, sandbox);
                names.extend(there);
                Ok(transaction)
            }
            Ask::Internal { plan, problems, .. } => {
                let (transaction, found) = ensure_internal(switch, plan);
                *problems = found;
                Ok(transaction)
            }
            Ask::Seen(_) | Ask::Zones(_) | Ask::Wait { .. } => Ok(Transaction::default()),
        };
        match transaction {
            Err(error) => ask.fail(error),
            Ok(transaction) if transaction.ops.is_empty() => self.settle(ask, attempts > 0),
            Ok(transaction) => match self.client.session().transact(&transaction) {
                Ok(id) => drop(self.sent.insert(id, Sent { ask, attempts: attempts + 1 })),
                Err(_) => self.queue.push_back((ask, attempts)),
            },
        }
    }

    /// The database is as asked.
    fn settle(&mut self, ask: Ask, written: bool) {
        let Some(switch) = Switch::of(self.client.replica()) else { return ask.fail(Error::Ended) };
        // Whoever asked may have gone; then nobody hears the answer.
        match ask {
            Ask::Pods(_, answer) => drop(answer.send(Ok(()))),
            Ask::Sandbox { names, answer, .. } => drop(answer.send(Ok(names))),
            Ask::Internal { problems, answer, .. } => {
                drop(answer.send(Ok(InternalPorts { written, problems })));
            }
            Ask::Seen(answer) => drop(answer.send(Ok(switch.pods()))),
            Ask::Zones(answer) => drop(answer.send(Ok(switch.zones(&self.bridge)))),
            Ask::Wait { name, iface_id, milestone, answer } => match switch
                .reached(&name, &iface_id, milestone)
            {
                Some(outcome) => drop(answer.send(outcome)),
                None => {
                    self.waiting.entry(name.into()).or_default().push(Waiter { iface_id, milestone, answer });
                }
            },
        }
    }

    fn on_event(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Connected(_) => {}
            ClientEvent::Disconnected { remote, reason } => {
                warn!(%remote, reason, "the Open vSwitch database is out of reach; ports wait until it is back");
                let words = format!("the Open vSwitch database {remote} is out of reach: {reason}");
                drop(self.ready.send_replace(Err(words)));
            }
            ClientEvent::Session(Event::Synced(report)) => {
                info!(first = report.first, "the Open vSwitch database is there");
                let names: Vec<Str> = self.waiting.keys().cloned().collect();
                names.iter().for_each(|name| self.look_again(name));
                self.tell_state();
                self.tell_bridges();
            }
            ClientEvent::Session(Event::Changed(changes)) => self.changed(&changes),
            ClientEvent::Session(Event::Transacted(id, outcome)) => {
                if self.outside.sent == Some(id) {
                    self.told_ovn(&outcome);
                } else if let Some(sent) = self.sent.remove(&id) {
                    self.transacted(sent, outcome);
                }
            }
            ClientEvent::Session(_) => {}
        }
    }

    fn changed(&mut self, changes: &[Change]) {
        let Some(switch) = Switch::of(self.client.replica()) else { return };
        let (interfaces, others): (Vec<&Change>, Vec<&Change>) =
            changes.iter().partition(|change| switch.is_interfaces(change.table));
        let names: Vec<Str> = interfaces.into_iter().filter_map(|change| self.name_of(change)).collect();
        names.iter().for_each(|name| self.look_again(name));
        if !others.is_empty() {
            self.outside.refused = None;
            self.tell_state();
        }
        self.tell_bridges();
    }

    fn tell_bridges(&mut self) {
        let Some(switch) = Switch::of(self.client.replica()) else { return };
        let now = Some(switch.bridges(&self.bridge));
        self.bridges.send_if_modified(|known| {
            *known != now && {
                *known = now;
                true
            }
        });
    }

    fn name_of(&self, change: &Change) -> Option<Str> {
        let replica = self.client.replica();
        match &change.kind {
            ChangeKind::Delete(row) => {
                text(RowRef { layout: replica.layout(change.table), uuid: change.uuid, row }, "name")
            }
            ChangeKind::Insert | ChangeKind::Modify(_) => {
                text(replica.row(change.table, change.uuid)?, "name")
            }
        }
    }

    /// Something about a port changed: perhaps that for which somebody waits.
    fn look_again(&mut self, name: &Str) {
        let Some(switch) = Switch::of(self.client.replica()) else { return };
        let Some(waiters) = self.waiting.remove(name) else { return };
        let mut still = Vec::new();
        for waiter in waiters {
            match switch.reached(name, &waiter.iface_id, waiter.milestone) {
                Some(outcome) => drop(waiter.answer.send(outcome)),
                None if waiter.answer.is_closed() => {}
                None => still.push(waiter),
            }
        }
        if !still.is_empty() {
            self.waiting.insert(name.clone(), still);
        }
    }

    /// Says whether ports can be made, and what the switch says of itself.
    fn tell_state(&mut self) {
        let Some(switch) = Switch::of(self.client.replica()) else { return };
        let state = switch.bridge(&self.bridge).map(drop).map_err(|error| error.to_string());
        self.ready.send_if_modified(|known| {
            *known != state && {
                *known = state;
                true
            }
        });
        let now = switch.facts();
        self.facts.send_if_modified(|known| {
            *known != now && {
                *known = now;
                true
            }
        });
    }

    fn transacted(&mut self, sent: Sent, outcome: TransactOutcome) {
        let Sent { ask, attempts } = sent;
        match outcome {
            TransactOutcome::Done(_) => self.settle(ask, true),
            // It took effect or not: the replica says so when it is back.
            TransactOutcome::Lost => self.queue.push_back((ask, attempts)),
            TransactOutcome::Failed(error) if attempts < ATTEMPTS => {
                warn!(%error, attempts, "the Open vSwitch database refused; looking again");
                self.queue.push_back((ask, attempts));
            }
            TransactOutcome::Failed(error) => ask.fail(error.into()),
        }
    }
}

impl Ask {
    fn is_taken_back(&self) -> bool {
        match self {
            Ask::Pods(_, answer) | Ask::Wait { answer, .. } => answer.is_closed(),
            Ask::Sandbox { answer, .. } => answer.is_closed(),
            Ask::Internal { answer, .. } => answer.is_closed(),
            Ask::Seen(answer) => answer.is_closed(),
            Ask::Zones(answer) => answer.is_closed(),
        }
    }

    fn fail(self, error: Error) {
        match self {
            Ask::Pods(_, answer) | Ask::Wait { answer, .. } => drop(answer.send(Err(error))),
            Ask::Sandbox { answer, .. } => drop(answer.send(Err(error))),
            Ask::Internal { answer, .. } => drop(answer.send(Err(error))),
            Ask::Seen(answer) => drop(answer.send(Err(error))),
            Ask::Zones(answer) => drop(answer.send(Err(error))),
        }
    }
}
