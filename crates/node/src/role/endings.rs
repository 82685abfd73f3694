//! Ends connections that run already and could not begin any more.
//!
//! When less is allowed than before, the rows that say so are written and a change is counted; when ovn-controller has installed that
//! count, the switch's memory is read, the zone says which connections are over, and these are marked. Nothing is remembered: a role
//! that starts looks at everything once, so it does not matter where its predecessor was stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use causeway_host::Connections;
use causeway_plan::running;
use causeway_record::ObjectKey;
use causeway_runtime::Tasks;
use causeway_types::{NetworkName, Tracked};
use causeway_zone::{Changes, Zone};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tracing::{info, warn};

use super::silence::Signs;
use crate::ovs::Ovs;

/// The switch's memory is not read more often than this, and a slow look has a longer pause after it.
const PAUSE: Duration = Duration::from_millis(500);
const SLOWNESS: u32 = 10;
/// A memory that could not be read is read again after so long.
const RETRY: Duration = Duration::from_secs(5);

/// From a hundredth of a second to what nobody would call at once.
const BUCKETS: [f64; 9] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// What was found in the memory, by logical port.
type Found = Result<Vec<(String, Tracked)>, String>;

enum Ask {
    Look(BTreeSet<String>),
    Block(Vec<Tracked>),
}

/// Whose connections have to be looked at.
#[derive(Debug, Default, Eq, PartialEq)]
struct Concerned {
    everybody: bool,
    networks: BTreeSet<NetworkName>,
}

impl Concerned {
    fn is_empty(&self) -> bool {
        !self.everybody && self.networks.is_empty()
    }

    fn add(&mut self, changes: &Changes) {
        for network in changes.narrowed() {
            match network {
                Some(network) => drop(self.networks.insert(network.clone())),
                None => self.everybody = true,
            }
        }
    }

    fn ports(&self, zone: &Zone) -> BTreeMap<String, ObjectKey> {
        running::ports(zone, (!self.everybody).then_some(&self.networks))
    }
}

#[derive(Debug)]
enum Stage {
    Rest,
    /// Waits until a later count than this one is installed, for what came first at that time.
    Counted(Option<i64>, Instant),
    /// Waits for what the memory has of these ports.
    Looking {
        ports: BTreeMap<String, ObjectKey>,
        since: Instant,
    },
}

/// What ends connections.
pub(super) struct Endings {
    asks: mpsc::Sender<Ask>,
    answers: mpsc::Receiver<Found>,
    found: Option<Found>,
    concerned: Concerned,
    /// When the first of those came who wait to be counted.
    since: Option<Instant>,
    stage: Stage,
    not_before: Instant,
    ended: Counter,
    latency: Histogram,
}

impl Endings {
    /// Starts the task that reads and marks; it has nothing to do where the switch's sockets are not at hand.
    pub(super) fn start(
        tasks: &mut Tasks,
        ovs: Ovs,
        memory: Option<Connections>,
        registry: &mut Registry,
    ) -> Self {
        let (asks, questions) = mpsc::channel(2);
        let (answer, answers) = mpsc::channel(1);
        if let Some(memory) = memory {
            tasks.start("running connections", work(ovs, memory, questions, answer));
        }
        let ended = Counter::default();
        let what = "Connections that were ended because they are not allowed any more";
        registry.register("causeway_connections_ended", what, ended.clone());
        let latency = Histogram::new(BUCKETS);
        let what =
            "From an event that changes who may talk to whom until ovn-controller has installed what follows";
        registry.register("causeway_zone_policy_latency_seconds", what, latency.clone());
        let (concerned, not_before, stage) = (Concerned::default(), Instant::now(), Stage::Rest);
        Self { asks, answers, found: None, concerned, since: None, stage, not_before, ended, latency }
    }

    /// Something may be allowed no more.
    pub(super) fn narrowed(&mut self, changes: &Changes) {
        if !self.asks.is_closed() {
            self.concerned.add(changes);
            if !self.concerned.is_empty() {
                self.since.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Returns when the memory has been read.
    pub(super) async fn changed(&mut self) {
        match self.answers.recv().await {
            Some(found) => self.found = Some(found),
            None => std::future::pending().await,
        }
    }

    /// When there is something to do without any event.
    pub(super) fn next(&self) -> Option<Instant> {
        (matches!(self.stage, Stage::Rest) && !self.concerned.is_empty()).then_some(self.not_before)
    }

    /// Goes as far as it can. Says whether a change has to be counted now.
    pub(super) fn turn(&mut self, zone: &Zone, settled: bool, signs: &Signs) -> bool {
        match &self.stage {
            Stage::Rest => return self.begin(zone, settled, signs),
            Stage::Counted(before, since) if signs.have_installed_since(*before) => {
                self.latency.observe(since.elapsed().as_secs_f64());
                self.look(zone);
            }
            Stage::Counted(..) => {}
            Stage::Looking { .. } => self.judge(zone),
        }
        false
    }

    /// What was written for the change is in the database; the next count is after it.
    fn begin(&mut self, zone: &Zone, settled: bool, signs: &Signs) -> bool {
        let due = !self.concerned.is_empty() && settled && Instant::now() >= self.not_before;
        if !due || signs.asked.is_none() {
            return false;
        }
        let since = self.since.take().unwrap_or_else(Instant::now);
        if self.concerned.ports(zone).is_empty() {
            self.concerned = Concerned::default();
            return false;
        }
        self.stage = Stage::Counted(signs.asked, since);
        true
    }

    fn look(&mut self, zone: &Zone) {
        let ports = std::mem::take(&mut self.concerned).ports(zone);
        self.found = None;
        self.stage = match self.asks.try_send(Ask::Look(ports.keys().cloned().collect())) {
            Ok(()) => Stage::Looking { ports, since: Instant::now() },
            Err(_) => Stage::Rest,
        };
    }

    fn judge(&mut self, zone: &Zone) {
        let Some(found) = self.found.take() else { return };
        let stage = std::mem::replace(&mut self.stage, Stage::Rest);
        let Stage::Looking { ports, since } = stage else { return };
        let now = Instant::now();
        self.not_before = now + PAUSE.max((now - since) * SLOWNESS);
        let found = match found {
            Ok(found) => found,
            Err(problem) => {
                warn!(problem, "connections that are not allowed any more may go on");
                self.not_before = now + RETRY;
                self.concerned.networks.extend(networks(zone, ports.values()));
                return;
            }
        };
        let of_pods = found.into_iter().filter_map(|(port, one)| Some((ports.get(&port)?, one)));
        let over = running::over(zone, of_pods);
        if !over.is_empty() {
            info!(connections = over.len(), "ending connections that are not allowed any more");
            self.ended.inc_by(over.len() as u64);
            // There is room: the task has answered, and has nothing else to do.
            drop(self.asks.try_send(Ask::Block(over)));
        }
    }
}

fn networks<'a>(
    zone: &'a Zone,
    pods: impl Iterator<Item = &'a ObjectKey> + 'a,
) -> impl Iterator<Item = NetworkName> + 'a {
    pods.filter_map(|pod| zone.network_of(zone.primary(pod)?).cloned())
}

async fn work(
    ovs: Ovs,
    memory: Connections,
    mut asks: mpsc::Receiver<Ask>,
    answers: mpsc::Sender<Found>,
) -> String {
    while let Some(ask) = asks.recv().await {
        match ask {
            Ask::Look(ports) => {
                let found = look(&ovs, &memory, &ports).await;
                if answers.send(found).await.is_err() {
                    break;
                }
            }
            Ask::Block(connections) => {
                let memory = memory.clone();
                let marked = spawn_blocking(move || memory.block(&connections)).await;
                if let Err(problem) = flat(marked) {
                    warn!(problem, "connections that are not allowed any more may go on");
                }
            }
        }
    }
    "nobody asks any more".into()
}

async fn look(ovs: &Ovs, memory: &Connections, ports: &BTreeSet<String>) -> Found {
    let zones = ovs.zones().await.map_err(|error| error.to_string())?;
    let mut by_zone: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for (port, zone) in zones.into_iter().filter(|(port, _)| ports.contains(port)) {
        by_zone.entry(zone).or_default().push(port);
    }
    let memory = memory.clone();
    let all = flat(spawn_blocking(move || memory.read()).await)?;
    let named = |one: Tracked| {
        let ports = by_zone.get(&one.zone).into_iter().flatten();
        ports.map(move |port| (port.clone(), one)).collect::<Vec<_>>()
    };
    Ok(all.into_iter().flat_map(named).collect())
}

fn flat<T>(outcome: Result<causeway_host::Result<T>, tokio::task::JoinError>) -> Result<T, String> {
    outcome.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}
