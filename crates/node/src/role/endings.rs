//! Ends connections that run already and could not begin any more, or not where they lead.
//!
//! When less is allowed than before, the rows that say so are written and a change is counted; when ovn-controller has installed that
//! count, the switch's memory is read, the zone says which connections are over, and these are marked. Nothing is remembered: a role
//! that starts looks at everything once, so it does not matter where its predecessor was stopped.
//!
//! When a target leaves a service, ovn-controller has the switch forget what led to it. But the datapath goes on for a moment as it did
//! before, and a client of UDP that never pauses is led to the old target again, then for ever. So what leads to nobody is forgotten
//! here, and looked for again until the datapath has come to rest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use causeway_host::Connections;
use causeway_plan::progress::Signs;
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

use crate::ovs::Ovs;

/// The switch's memory is not read more often than this, and a slow look has a longer pause after it.
const PAUSE: Duration = Duration::from_millis(500);
const SLOWNESS: u32 = 10;
/// A memory that could not be read is read again after so long.
const RETRY: Duration = Duration::from_secs(5);

/// From a hundredth of a second to what nobody would call at once.
const BUCKETS: [f64; 9] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// After so many looks that find nobody who is led to an old target, one after the other, there is nobody.
const QUIET: u8 = 3;
/// No more looks than this, whatever they find.
const MOST: u8 = 20;

/// What was found in the memory.
type Found = Result<Memory, String>;

#[derive(Debug, Default)]
struct Memory {
    /// By logical port, of those that were asked for.
    of_ports: Vec<(String, Tracked)>,
    /// Whatever OVN has led elsewhere than it was asked for.
    led: Vec<Tracked>,
}

enum Ask {
    Look(BTreeSet<String>),
    End(Ends),
}

#[derive(Debug, Default)]
struct Ends {
    block: Vec<Tracked>,
    forget: Vec<Tracked>,
}

/// Whose connections have to be looked at.
#[derive(Debug, Default, Eq, PartialEq)]
struct Concerned {
    everybody: bool,
    networks: BTreeSet<NetworkName>,
    /// Whoever was led to a target.
    led: bool,
}

impl Concerned {
    fn is_empty(&self) -> bool {
        !self.everybody && !self.led && self.networks.is_empty()
    }

    fn add(&mut self, zone: &Zone, changes: &Changes) {
        self.led |= zone.may_strand(changes);
        for network in changes.narrowed() {
            match network {
                Some(network) => drop(self.networks.insert(network.clone())),
                None => self.everybody = true,
            }
        }
    }

    /// Whether nobody is there whom it could concern.
    fn is_idle(&self, zone: &Zone) -> bool {
        let led = self.led && (!self.everybody || running::leads_anybody(zone));
        !led && self.ports(zone).is_empty()
    }

    fn is_about_permission(&self) -> bool {
        self.everybody || !self.networks.is_empty()
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
        led: bool,
        since: Instant,
    },
}

/// Looks for clients that are led to nobody, since the switch was told.
#[derive(Clone, Copy, Debug, Default)]
struct Looks {
    all: u8,
    /// Without finding any, one after the other.
    quiet: u8,
}

impl Looks {
    /// Those that count after one more, if another one has to follow.
    fn after(self, found: bool) -> Option<Self> {
        let quiet = if found { 0 } else { self.quiet + 1 };
        Some(Self { all: self.all + 1, quiet }).filter(|looks| looks.quiet < QUIET && looks.all < MOST)
    }
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
    /// While the datapath may still lead somebody as it did before.
    again: Option<Looks>,
    not_before: Instant,
    counts: Counts,
}

#[derive(Debug)]
struct Counts {
    ended: Counter,
    moved: Counter,
    latency: Histogram,
}

impl Counts {
    fn new(registry: &mut Registry) -> Self {
        let ended = Counter::default();
        let what = "Connections that were ended because they are not allowed any more";
        registry.register("causeway_connections_ended", what, ended.clone());
        let moved = Counter::default();
        let what = "UDP connections that were forgotten because they led to a target that serves no more";
        registry.register("causeway_connections_forgotten", what, moved.clone());
        let latency = Histogram::new(BUCKETS);
        let what =
            "From an event that changes who may talk to whom until ovn-controller has installed what follows";
        registry.register("causeway_zone_policy_latency_seconds", what, latency.clone());
        Self { ended, moved, latency }
    }
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
        Self {
            asks,
            answers,
            found: None,
            concerned: Concerned::default(),
            since: None,
            stage: Stage::Rest,
            again: None,
            not_before: Instant::now(),
            counts: Counts::new(registry),
        }
    }

    /// Something may be allowed no more, or lead elsewhere.
    pub(super) fn narrowed(&mut self, zone: &Zone, changes: &Changes) {
        if !self.asks.is_closed() {
            self.concerned.add(zone, changes);
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
        let is_due = self.again.is_some() || !self.concerned.is_empty();
        (matches!(self.stage, Stage::Rest) && is_due).then_some(self.not_before)
    }

    /// Goes as far as it can. Says whether a change has to be counted now.
    pub(super) fn turn(&mut self, zone: &Zone, settled: bool, signs: &Signs) -> bool {
        match &self.stage {
            Stage::Rest => return self.begin(zone, settled, signs),
            Stage::Counted(before, since) if signs.have_installed_since(*before) => {
                if self.concerned.is_about_permission() {
                    self.counts.latency.observe(since.elapsed().as_secs_f64());
                }
                if self.concerned.led {
                    self.again = Some(Looks::default());
                }
                self.look(zone);
            }
            Stage::Counted(..) => {}
            Stage::Looking { .. } => self.judge(zone),
        }
        false
    }

    /// What was written for the change is in the database; the next count is after it.
    fn begin(&mut self, zone: &Zone, settled: bool, signs: &Signs) -> bool {
        if Instant::now() < self.not_before {
            return false;
        }
        if self.concerned.is_empty() || !settled || signs.asked.is_none() {
            if self.again.is_some() {
                self.look_at(BTreeMap::new());
            }
            return false;
        }
        let since = self.since.take().unwrap_or_else(Instant::now);
        if self.concerned.is_idle(zone) {
            self.concerned = Concerned::default();
            return false;
        }
        self.stage = Stage::Counted(signs.asked, since);
        true
    }

    fn look(&mut self, zone: &Zone) {
        let ports = std::mem::take(&mut self.concerned).ports(zone);
        self.look_at(ports);
    }

    fn look_at(&mut self, ports: BTreeMap<String, ObjectKey>) {
        self.found = None;
        let led = self.again.is_some();
        self.stage = match self.asks.try_send(Ask::Look(ports.keys().cloned().collect())) {
            Ok(()) => Stage::Looking { ports, led, since: Instant::now() },
            Err(_) => Stage::Rest,
        };
    }

    fn judge(&mut self, zone: &Zone) {
        let Some(found) = self.found.take() else { return };
        let stage = std::mem::replace(&mut self.stage, Stage::Rest);
        let Stage::Looking { ports, led, since } = stage else { return };
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
        let of_pods = found.of_ports.into_iter().filter_map(|(port, one)| Some((ports.get(&port)?, one)));
        let block = running::over(zone, of_pods);
        let forget = if led { running::stranded(zone, found.led) } else { Vec::new() };
        self.end(Ends { block, forget }, led);
    }

    fn end(&mut self, ends: Ends, led: bool) {
        if led {
            self.again = self.again.and_then(|looks| looks.after(!ends.forget.is_empty()));
        }
        if ends.block.is_empty() && ends.forget.is_empty() {
            return;
        }
        let (over, moved) = (ends.block.len(), ends.forget.len());
        info!(
            over,
            moved, "ending connections that are not allowed any more, or lead to a target that has gone"
        );
        self.counts.ended.inc_by(over as u64);
        self.counts.moved.inc_by(moved as u64);
        // There is room: the task has answered, and has nothing else to do.
        drop(self.asks.try_send(Ask::End(ends)));
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
            Ask::End(ends) => {
                let memory = memory.clone();
                let ended = spawn_blocking(move || {
                    memory.forget(&ends.forget)?;
                    memory.block(&ends.block)
                });
                if let Err(problem) = flat(ended.await) {
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
    for (port, zone) in zones {
        let of_zone = by_zone.entry(zone).or_default();
        of_zone.extend(Some(port).filter(|port| ports.contains(port)));
    }
    let memory = memory.clone();
    let mut found = Memory::default();
    for one in flat(spawn_blocking(move || memory.read()).await)? {
        // Other zones than OVN's are somebody else's.
        let Some(ports) = by_zone.get(&one.zone) else { continue };
        found.of_ports.extend(ports.iter().map(|port| (port.clone(), one)));
        found.led.extend(Some(one).filter(|one| !one.is_direct()));
    }
    Ok(found)
}

fn flat<T>(outcome: Result<causeway_host::Result<T>, tokio::task::JoinError>) -> Result<T, String> {
    outcome.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three looks without a find end it, and no find makes it last for ever.
    #[test]
    fn looks_come_to_an_end() {
        let count = |finds: &dyn Fn(u8) -> bool| {
            let mut looks = Some(Looks::default());
            let mut all = 0;
            while let Some(now) = looks {
                looks = now.after(finds(all));
                all += 1;
            }
            all
        };
        assert_eq!(count(&|_| false), 3);
        assert_eq!(count(&|n| n == 0), 4);
        assert_eq!(count(&|n| n == 2), 6, "a late one is looked after as well");
        assert_eq!(count(&|_| true), 20);
    }
}
