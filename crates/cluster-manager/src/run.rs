//! The manager with sockets: lease, watches, queue of writes, events, metrics.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use causeway_alloc::Reuse;
use causeway_api::install::FREED_NUMBERS;
use causeway_cluster::{Config, Input, Manager, Output};
use causeway_record::{Event, FreedNumbers, Watched};
use causeway_runtime::watch::{Selection, everywhere, watch};
use causeway_runtime::write::Writer;
use causeway_runtime::{Health, Lease, Recorder, serve};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::metrics::Metrics;
use crate::{Error, Flags};

/// Messages that may wait; a watch that is faster waits itself.
const QUEUE: usize = 4096;
/// Messages taken at once.
const BATCH: usize = 256;
const TICK: Duration = Duration::from_secs(1);
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
}

impl Flags {
    /// Runs the cluster manager until it is told to end or loses the lease.
    ///
    /// # Errors
    /// Why it cannot run, or does not run any more.
    pub async fn run(self) -> Result<(), Error> {
        if let Some(note) = self.without_effect() {
            tracing::warn!("{note}");
        }
        let client = causeway_runtime::client(self.cluster.kubeconfig.as_deref(), "cluster-manager").await?;
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "cluster-manager".into());
        let options = Options {
            identity: format!("{host}_{}", std::process::id()),
            leader_elect: self.leader_elect,
            metrics: Some(self.metrics_address),
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
    let manager = Manager::new(config.clone())?;
    let (metrics, registry) = Metrics::new();
    let health = Health::waiting("waiting for the lease");
    if let Some(address) = options.metrics {
        let bound = serve(address, Arc::new(registry), health.clone()).await?;
        tracing::info!(%bound, "serving metrics");
    }
    let mut end = std::pin::pin!(end);
    let mut lease = Lease::new(client.clone(), &config.namespace, LEASE_NAME, &options.identity);
    if options.leader_elect {
        tokio::select! {
            () = lease.acquire() => tracing::info!("this is the leader"),
            () = &mut end => return Ok(()),
        }
    }
    metrics.leader.set(1);
    let keep = async { if options.leader_elect { lease.keep().await } else { std::future::pending().await } };
    let ended = tokio::select! {
        ended = work(manager, &config, &client, &options, &health, &metrics) => ended,
        reason = keep => Err(Error::LeadershipLost(reason)),
        () = &mut end => Ok(()),
    };
    metrics.leader.set(0);
    if options.leader_elect && ended.is_ok() {
        lease.release().await;
    }
    ended
}

async fn work(
    mut manager: Manager,
    config: &Config,
    client: &Client,
    options: &Options,
    health: &Health,
    metrics: &Metrics,
) -> Result<(), Error> {
    let (sender, mut inputs) = mpsc::channel(QUEUE);
    let writer = Writer::start(client.clone(), sender.clone(), Input::Written);
    let recorder = Recorder::start(client.clone(), LEASE_NAME, &options.identity);
    // The record first, then the lists: both are newer than the lease.
    let reuse = read_memory(client, &config.namespace).await?;
    let mut outputs = manager.step(Input::Tick(Timestamp::now().as_millisecond()));
    outputs.extend(manager.step(Input::FreedNumbers(Box::new(reuse))));
    let _watches = start_watches(client, config, &sender);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        for output in outputs.drain(..) {
            match output {
                Output::Write(request) => writer.send(request),
                Output::Event(note) => recorder.say(note),
            }
        }
        health.set(manager.ready());
        tokio::select! {
            biased;
            _ = ticks.tick() => batch.push(Input::Tick(Timestamp::now().as_millisecond())),
            count = inputs.recv_many(&mut batch, BATCH) => if count == 0 { return Ok(()) },
        }
        for input in batch.drain(..) {
            metrics.saw(&input);
            outputs.extend(manager.step(input));
        }
        metrics.count(&manager);
    }
}

/// Freed numbers, as they were recorded. No record means that none was ever freed; one that cannot be read stops
/// everything, for numbers that it lists must not be given out.
async fn read_memory(client: &Client, namespace: &str) -> Result<Reuse, Error> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    loop {
        match api.get_opt(FREED_NUMBERS).await {
            Ok(None) => return Ok(Reuse::default()),
            Ok(Some(map)) => {
                let name = format!("{namespace}/{FREED_NUMBERS}");
                let numbers = FreedNumbers::key(&map).map(|key| FreedNumbers::trim(map, key).numbers);
                let numbers =
                    numbers.unwrap_or(Ok(None)).map_err(|problem| Error::Memory { name, problem })?;
                return Ok(numbers.unwrap_or_default());
            }
            Err(error) => {
                tracing::warn!(%error, "the record of freed numbers cannot be read yet");
                tokio::time::sleep(TICK).await;
            }
        }
    }
}

fn start_watches(client: &Client, config: &Config, sender: &mpsc::Sender<Input>) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    start(&mut watches, client, sender, Input::Node);
    start(&mut watches, client, sender, Input::Namespace);
    start(&mut watches, client, sender, Input::Nad);
    start(&mut watches, client, sender, Input::UserDefinedNetwork);
    start(&mut watches, client, sender, Input::ClusterUserDefinedNetwork);
    start(&mut watches, client, sender, Input::Pod);
    start(&mut watches, client, sender, Input::ZoneReport);
    if config.features.without_networks().is_none() {
        start(&mut watches, client, sender, Input::EndpointSlice);
    }
    if config.features.network_connect {
        start(&mut watches, client, sender, Input::ClusterNetworkConnect);
    }
    watches
}

fn start<T: Watched>(
    watches: &mut JoinSet<()>,
    client: &Client,
    sender: &mpsc::Sender<Input>,
    wrap: fn(Event<T, T::Key>) -> Input,
) where
    T::Object: Sync,
    <T::Object as kube::Resource>::DynamicType: Send + Sync,
{
    let log = move |event: Event<T, T::Key>| {
        if let Event::Unsynced(problem) = &event {
            tracing::warn!("{problem}");
        }
        wrap(event)
    };
    watches.spawn(watch::<T, Input>(everywhere::<T>(client), Selection::default(), sender.clone(), log));
}
