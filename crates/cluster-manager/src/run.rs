//! The manager with sockets: lease, watches, queue of writes, events, metrics.
//!
//! The step runs on a thread of its own, so that the lease is renewed, and requests are cut at its end, however long a step
//! takes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use causeway_alloc::Reuse;
use causeway_api::crd::policy;
use causeway_api::install::FREED_NUMBERS;
use causeway_api::policy::PolicyId;
use causeway_cluster::{AddressUse, Config, Input, Manager, Output};
use causeway_record::recording::Header;
use causeway_record::{Event, FreedNumbers, OfKind, PolicyObject, Watched as _};
use causeway_runtime::watch::{Selection, Watches};
use causeway_runtime::write::Writer;
use causeway_runtime::{Health, Lease, Permit, Recorder, Recording, Tasks, Times, describe, serve};
use causeway_types::NetworkId;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::metrics::Metrics;
use crate::{Error, Flags};

/// Messages that may wait; a watch that is faster waits itself.
const QUEUE: usize = 4096;
/// Messages taken at once.
const BATCH: usize = 256;
const TICK: Duration = Duration::from_secs(1);
/// How often addresses are counted.
const COUNTING: Duration = Duration::from_secs(10);
/// How long a look at one object may take.
const READ_TIME_OUT: Duration = Duration::from_secs(3);
const LEASE_NAME: &str = "causeway-cluster-manager";

/// How a manager runs, besides what it manages.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who it is, in the lease and in events.
    pub identity: String,
    /// Whether it works only while it holds the lease.
    pub leader_elect: bool,
    /// Where it serves metrics, if at all.
    pub metrics: Option<SocketAddr>,
    /// Where everything that comes in is recorded, if at all.
    pub record: Option<PathBuf>,
}

impl Flags {
    /// Runs the cluster manager until it is told to end or loses the lease.
    ///
    /// # Errors
    /// Why it cannot run, or does not run any more.
    pub async fn run(self) -> Result<(), Error> {
        self.cluster.check()?;
        self.config().features.check().map_err(Error::Flags)?;
        if let Some(note) = self.without_effect() {
            tracing::warn!("{note}");
        }
        let client = causeway_runtime::client(self.cluster.kubeconfig.as_deref(), "cluster-manager").await?;
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "cluster-manager".into());
        let options = Options {
            identity: format!("{host}_{}", std::process::id()),
            leader_elect: self.leader_elect,
            metrics: Some(self.metrics_address),
            record: self.record.clone(),
        };
        run(self.config(), client, options, terminated()).await
    }
}

async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

/// Runs a cluster manager until `end` is there or the lease is lost.
///
/// # Errors
/// Why it cannot run, or does not run any more.
pub async fn run(
    config: Config,
    client: Client,
    options: Options,
    end: impl Future<Output = ()>,
) -> Result<(), Error> {
    let pace = Pace { times: Times::default(), step: Manager::step };
    run_at(pace, config, client, options, end).await
}

/// What a test makes faster or slower.
#[derive(Clone, Copy)]
struct Pace {
    times: Times,
    step: fn(&mut Manager, Input) -> Vec<Output>,
}

async fn run_at(
    pace: Pace,
    config: Config,
    client: Client,
    options: Options,
    end: impl Future<Output = ()>,
) -> Result<(), Error> {
    let manager = Manager::new(config.clone())?;
    let (mut role, registry) = Role::new(pace, config, client, options);
    if let Some(address) = role.options.metrics {
        let bound = serve(&mut role.tasks, address, registry, role.health.clone()).await?;
        tracing::info!(%bound, "serving metrics");
    }
    let mut end = std::pin::pin!(end);
    let permit = tokio::select! {
        permit = role.lead() => permit?,
        () = &mut end => return Ok(()),
    };
    role.metrics.leader.set(1);
    let ended = tokio::select! {
        ended = role.work(manager, &permit) => ended,
        () = &mut end => Ok(()),
    };
    role.metrics.leader.set(0);
    // Nothing is in flight any more when the lease is given back.
    role.tasks.stop().await;
    if role.options.leader_elect && !permit.is_over() {
        role.lease().release().await;
    }
    ended
}

/// The role's children, and what they share.
struct Role {
    pace: Pace,
    config: Config,
    client: Client,
    options: Options,
    tasks: Tasks,
    health: Health,
    metrics: Metrics,
    writer: Writer,
    recorder: Recorder,
}

impl Role {
    fn new(pace: Pace, config: Config, client: Client, options: Options) -> (Self, Registry) {
        let mut registry = Registry::default();
        describe(&mut registry, "cluster-manager");
        let health = Health::waiting("waiting for the lease");
        registry.register_collector(Box::new(health.clone()));
        let role = Self {
            pace,
            config,
            client,
            options,
            tasks: Tasks::new(&health, &mut registry),
            health,
            metrics: Metrics::registered(&mut registry),
            writer: Writer::new(&mut registry),
            recorder: Recorder::new(&mut registry),
        };
        (role, registry)
    }

    fn lease(&self) -> Lease {
        let client = self.client.clone();
        let (namespace, me) = (&self.config.namespace, &self.options.identity);
        Lease::new(client, namespace, LEASE_NAME, me, self.pace.times)
    }

    /// Waits until this manager may write.
    async fn lead(&mut self) -> Result<Permit, Error> {
        if !self.options.leader_elect {
            return Ok(Permit::always());
        }
        let mut lease = self.lease();
        let (permit, keep) = tokio::select! {
            led = lease.acquire() => led,
            ended = self.tasks.ended() => return Err(ended.into()),
        };
        tracing::info!("this is the leader");
        self.tasks.start("lease", keep);
        Ok(permit)
    }

    async fn work(&mut self, manager: Manager, permit: &Permit) -> Result<(), Error> {
        let (sender, mut inputs) = mpsc::channel(QUEUE);
        self.start_writing(&sender, permit);
        // The record first, then the lists: both are newer than the lease.
        let reuse = tokio::select! {
            reuse = read_freed_numbers(&self.client, &self.config.namespace) => reuse?,
            ended = self.tasks.ended() => return Err(lost(ended, permit)),
        };
        let header = Header::new(causeway_cluster::ROLE, &self.config);
        let recording = Recording::begin(self.options.record.as_deref(), &header)?;
        let mut mind =
            Mind { manager, step: self.pace.step, outputs: Vec::new(), moved: BTreeMap::new(), recording };
        let mut batch = vec![tick(), Input::FreedNumbers(Box::new(reuse))];
        self.start_watches(sender);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut counted: Option<Instant> = None;
        loop {
            batch.iter().for_each(|input| self.metrics.saw(input));
            let count = counted.is_none_or(|at| at.elapsed() >= COUNTING);
            if count {
                counted = Some(Instant::now());
            }
            mind = tokio::select! {
                biased;
                ended = self.tasks.ended() => return Err(lost(ended, permit)),
                mind = mind.think(batch, count) => mind?,
            };
            self.tell(&mut mind);
            batch = Vec::new();
            tokio::select! {
                biased;
                ended = self.tasks.ended() => return Err(lost(ended, permit)),
                _ = ticks.tick() => batch.push(tick()),
                _ = inputs.recv_many(&mut batch, BATCH) => {}
            }
        }
    }

    fn start_writing(&mut self, sender: &mpsc::Sender<Input>, permit: &Permit) {
        let Self { tasks, client, options, writer, recorder, .. } = self;
        writer.start(tasks, client.clone(), permit.clone(), sender.clone(), Input::Written);
        recorder.start(tasks, client.clone(), permit.clone(), LEASE_NAME, &options.identity);
    }

    fn start_watches(&mut self, sender: mpsc::Sender<Input>) {
        let (client, features) = (&self.client, &self.config.features);
        let all = Selection::default;
        let mut watches = Watches { tasks: &mut self.tasks, health: &self.health, sender };
        watches.everywhere(client, all(), Input::Node);
        watches.everywhere(client, all(), Input::Namespace);
        watches.everywhere(client, all(), Input::Nad);
        watches.everywhere(client, all(), Input::UserDefinedNetwork);
        watches.everywhere(client, all(), Input::ClusterUserDefinedNetwork);
        watches.everywhere(client, all(), Input::Pod);
        watches.everywhere(client, all(), Input::ZoneReport);
        if features.without_networks().is_none() {
            watches.everywhere(client, all(), Input::EndpointSlice);
        }
        // Also where they are switched off: what they were given stays theirs.
        let optional = Selection { optional: true, ..all() };
        watches.everywhere(client, optional.clone(), Input::ClusterNetworkConnect);
        watches.everywhere(client, optional, Input::Vtep);
        watches.everywhere(client, all(), Input::NetworkPolicy);
        watch_policies::<policy::ClusterNetworkPolicy>(client, &mut watches);
        watch_policies::<policy::AdminNetworkPolicy>(client, &mut watches);
        watch_policies::<policy::BaselineAdminNetworkPolicy>(client, &mut watches);
    }

    fn tell(&mut self, mind: &mut Mind) {
        for output in mind.outputs.drain(..) {
            match output {
                Output::Write(request) => self.writer.send(request),
                Output::Withdraw { target, part } => drop(self.writer.withdraw(&target, part)),
                Output::Event(note) => self.recorder.say(note),
            }
        }
        self.health.set(mind.manager.ready());
        self.metrics.count(&mind.manager);
        self.metrics.show_addresses(std::mem::take(&mut mind.moved));
    }
}

/// The manager, on its way to a thread of its own and back.
struct Mind {
    manager: Manager,
    step: fn(&mut Manager, Input) -> Vec<Output>,
    outputs: Vec<Output>,
    /// Networks of which more or fewer addresses are in use.
    moved: BTreeMap<NetworkId, Option<AddressUse>>,
    recording: Recording,
}

impl Mind {
    async fn think(mut self, inputs: Vec<Input>, count: bool) -> Result<Self, Error> {
        let thinking = spawn_blocking(move || {
            self.recording.take(&inputs);
            for input in inputs {
                self.outputs.extend((self.step)(&mut self.manager, input));
            }
            if count {
                self.moved = self.manager.moved_addresses();
            }
            self
        });
        thinking.await.map_err(|error| Error::Step(error.to_string()))
    }
}

/// The policy API is another project's: where its kinds are not installed, nobody waits for them.
fn watch_policies<K: PolicyObject>(client: &Client, watches: &mut Watches<'_, Input>) {
    let optional = Selection { optional: true, ..Selection::default() };
    let wrap = |event: Event<OfKind<K>, PolicyId>| Input::Policy(K::KIND, event.map(|read| read.policy));
    watches.everywhere(client, optional, wrap);
}

fn tick() -> Input {
    Input::Tick(Timestamp::now().as_millisecond())
}

/// Whatever ends first when the lease has run out, that is the reason.
fn lost(ended: causeway_runtime::Error, permit: &Permit) -> Error {
    match ended {
        causeway_runtime::Error::Ended { reason, .. } if permit.is_over() => Error::LeadershipLost(reason),
        ended => ended.into(),
    }
}

/// Freed numbers, as they were recorded. No record means that none was ever freed; one that cannot be read stops
/// everything, for numbers that it lists must not be given out.
async fn read_freed_numbers(client: &Client, namespace: &str) -> Result<Reuse, Error> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    loop {
        let problem = match timeout(READ_TIME_OUT, api.get_opt(FREED_NUMBERS)).await {
            Ok(Ok(None)) => return Ok(Reuse::default()),
            Ok(Ok(Some(map))) => return parse_freed_numbers(map, namespace),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the API server does not answer".to_owned(),
        };
        tracing::warn!(problem, "the record of freed numbers cannot be read yet");
        tokio::time::sleep(TICK).await;
    }
}

fn parse_freed_numbers(map: ConfigMap, namespace: &str) -> Result<Reuse, Error> {
    let numbers = FreedNumbers::key(&map).map(|key| FreedNumbers::trim(map, key).numbers);
    let name = format!("{namespace}/{FREED_NUMBERS}");
    let numbers = numbers.unwrap_or(Ok(None)).map_err(|problem| Error::FreedNumbers { name, problem })?;
    Ok(numbers.unwrap_or_default())
}

#[cfg(test)]
mod tests;
