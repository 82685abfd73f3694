//! The host's side of the agent, in a task of its own: it is told what is planned, listens to everybody who can undo it, and never
//! keeps the agent waiting.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use causeway_host::{Applied, Frr};
use causeway_types::host::{HostPlan, HostUpdate};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::metrics::Metrics;
use super::outputs::{Addresses, Look, Outputs, addresses_of};
use crate::held::Held;

/// Everybody tells of changes; what nobody tells of is seen after so long.
const REPAIR: Duration = Duration::from_secs(60);
/// Who changes one thing changes more: so long after the first, all is looked at once.
pub(super) const SETTLE: Duration = Duration::from_millis(50);
/// What is not as planned is tried again after so long, then after longer, up to a limit.
const RETRY: Duration = Duration::from_millis(250);
const LONGEST_RETRY: Duration = Duration::from_secs(5);
/// Flows of ours are counted so often: nobody tells if somebody else takes one away.
const COUNT: Duration = Duration::from_secs(5);

/// So many problems are said in one line.
const SAID: usize = 8;

/// What the task is told.
pub(super) enum Order {
    /// What differs from what should be so far.
    Update(HostUpdate),
    /// The bridges that there are; ports of ours may have changed, too.
    Bridges(BTreeSet<String>),
}

pub(super) struct Work {
    plan: Arc<HostPlan>,
    /// Whether anything was planned: nothing is touched before.
    begun: bool,
    outputs: Arc<Mutex<Outputs>>,
    switches: Held,
    frr: Held,
    look: Look,
    /// What is to be done without a look.
    addresses: Addresses,
    retry: Duration,
    metrics: Metrics,
    said: watch::Sender<Result<(), String>>,
    /// What was said last, so that it is said once.
    problems: BTreeSet<String>,
}

impl Work {
    pub(super) fn new(
        outputs: Outputs,
        frr: &Path,
        metrics: Metrics,
        said: watch::Sender<Result<(), String>>,
    ) -> Work {
        let mut silent = Held::silent();
        silent.only(&Frr::new("vtysh", Frr::EVPN).at(frr).sockets());
        Work {
            plan: Arc::default(),
            begun: false,
            outputs: Arc::new(Mutex::new(outputs)),
            switches: Held::new(),
            frr: silent,
            look: Look::ALL,
            addresses: Addresses::new(),
            retry: RETRY,
            metrics,
            said,
            problems: BTreeSet::new(),
        }
    }

    pub(super) async fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<Order>,
        mut kernel: watch::Receiver<u64>,
    ) -> String {
        let (mut switches, mut frr) = (self.switches.events(), self.frr.events());
        let mut whole = Instant::now();
        loop {
            while let Ok(order) = orders.try_recv() {
                self.take(order);
            }
            let pause = self.work().await;
            let look = tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => {
                        self.take(order);
                        Look::default()
                    }
                    None => return "nobody plans any more".into(),
                },
                Ok(()) = kernel.changed() => {
                    sleep(SETTLE).await;
                    kernel.borrow_and_update();
                    Look { kernel: true, ..Look::default() }
                }
                Ok(()) = switches.changed() => Look { ports: true, flows: true, ..Look::default() },
                Ok(()) = frr.changed() => Look { frr: true, ..Look::default() },
                () = flows_have_changed(Arc::clone(&self.outputs)) => Look { flows: true, ..Look::default() },
                ended = self.switches.ended() => return ended,
                ended = self.frr.ended() => return ended,
                () = sleep(pause) => Look::default(),
            };
            self.look = self.look.and(look);
            // However much happens, everything is looked at now and then.
            if whole.elapsed() >= REPAIR {
                (self.look, whole) = (Look::ALL, Instant::now());
            }
        }
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Update(update) => {
                self.begun = true;
                match addresses_of(&update) {
                    Some(addresses) => self.addresses.extend(addresses),
                    None => {
                        self.look = update.items.keys().fold(self.look, |look, key| look.and(Look::at(key)));
                    }
                }
                if update.hold_all.is_some() || !update.holds.is_empty() {
                    self.look = Look::ALL;
                }
                Arc::make_mut(&mut self.plan).update(update);
            }
            Order::Bridges(bridges) => {
                lock(&self.outputs).set_bridges(bridges);
                self.look.ports = true;
            }
        }
    }

    /// Looks where there is reason to, and says how long to wait for the next one.
    async fn work(&mut self) -> Duration {
        self.few_addresses().await;
        if !self.begun || !self.look.any() || self.plan.hold_all().is_some() {
            self.tell_if_held();
            return REPAIR;
        }
        self.switches.only(&lock(&self.outputs).sockets_of(&self.plan));
        let (outputs, plan, look) = (Arc::clone(&self.outputs), Arc::clone(&self.plan), self.look);
        let done = tokio::task::spawn_blocking(move || lock(&outputs).apply(&plan, look)).await;
        let (applied, again) = done.unwrap_or_else(|_| (Applied::default(), look));
        self.look = again;
        if applied.writes > 0 {
            self.count(applied.writes);
        }
        self.tell(applied.problems.iter().map(ToString::to_string).collect());
        if again.any() {
            let pause = self.retry;
            self.retry = LONGEST_RETRY.min(self.retry * 2);
            return pause;
        }
        self.retry = RETRY;
        REPAIR
    }

    /// What is not to be looked at otherwise. A look at the kernel sees to addresses, too.
    async fn few_addresses(&mut self) {
        let addresses = std::mem::take(&mut self.addresses);
        let held = self.plan.hold_all().is_some() || !self.plan.holds().is_empty();
        if addresses.is_empty() || held || self.look.kernel {
            self.look.kernel |= !addresses.is_empty();
            return;
        }
        let outputs = Arc::clone(&self.outputs);
        let done = tokio::task::spawn_blocking(move || {
            let _alone = lock(&outputs);
            Outputs::apply_addresses(&addresses)
        });
        match done.await {
            Ok(Ok(changes)) if changes > 0 => self.count(changes),
            // Whoever looks at everything says what is wrong.
            _ => self.look.kernel = true,
        }
    }

    fn count(&self, changes: usize) {
        info!(changes, "the node was changed as planned");
        self.metrics.writes.inc_by(changes as u64);
    }

    fn tell(&mut self, problems: BTreeSet<String>) {
        for problem in problems.difference(&self.problems) {
            warn!(problem, "the node is not as planned");
        }
        self.metrics.problems.set(problems.len() as i64);
        let state = if problems.is_empty() { Ok(()) } else { Err(some_of(&problems)) };
        self.problems = problems;
        self.said.send_if_modified(|known| std::mem::replace(known, state.clone()) != state);
    }

    fn tell_if_held(&mut self) {
        if let Some(reason) = self.plan.hold_all() {
            let state = Err(reason.to_owned());
            self.said.send_if_modified(|known| std::mem::replace(known, state.clone()) != state);
        }
    }
}

async fn flows_have_changed(outputs: Arc<Mutex<Outputs>>) {
    loop {
        sleep(COUNT).await;
        let outputs = Arc::clone(&outputs);
        let count = tokio::task::spawn_blocking(move || lock(&outputs).flows_have_changed());
        if count.await.unwrap_or(true) {
            return;
        }
    }
}

/// One thing that is wrong may make many others wrong, in any order: the first ones are said, and how many there are.
fn some_of(problems: &BTreeSet<String>) -> String {
    let said = problems.iter().take(SAID).map(String::as_str).collect::<Vec<_>>().join("; ");
    match problems.len().saturating_sub(SAID) {
        0 => said,
        more => format!("{said}; and {more} more"),
    }
}

fn lock(outputs: &Mutex<Outputs>) -> std::sync::MutexGuard<'_, Outputs> {
    outputs.lock().unwrap_or_else(PoisonError::into_inner)
}
