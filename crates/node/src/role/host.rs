//! The host's side: Open vSwitch ports, the kernel, nftables and flows, in a task of its own. The role's task tells it what is planned
//! and never waits for it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use causeway_host::{Applied, Connections, Host, Kernel, Problem, Programs};
use causeway_ovsdb_client::Remote;
use causeway_plan::host::INTEGRATION_BRIDGE;
use causeway_plan::progress::Trouble;
use causeway_runtime::Tasks;
use causeway_types::NetworkName;
use causeway_types::host::{HostPlan, HostUpdate, Owner};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::held::Held;
use crate::ovs::Ovs;

/// The kernel tells of changes; what it does not tell of is seen after so long.
const REPAIR: Duration = Duration::from_secs(60);
/// Who changes one thing changes more: so long after the first, all is looked at once.
const SETTLE: Duration = Duration::from_millis(100);
/// A host that is not as planned is tried again after so long, then after longer, up to a limit.
const RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(5);
/// The kernel's part of a plan does not wait longer than this for Open vSwitch.
const PATIENCE: Duration = Duration::from_secs(10);
/// Flows of ours are counted so often: nobody tells if somebody else takes one away.
const COUNT: Duration = Duration::from_secs(5);

/// Everything that is planned anew since the task has looked last: however slow the host is, one value waits.
#[derive(Debug, Default)]
struct Slot(Mutex<HostUpdate>);

impl Slot {
    fn put(&self, update: HostUpdate) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).merge(update);
    }

    fn take(&self) -> HostUpdate {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How the host is, and what is planned of it.
pub(super) struct HostTask {
    slot: Arc<Slot>,
    /// Says that there is something in the slot.
    filled: mpsc::Sender<()>,
    state: watch::Receiver<State>,
    writes: Arc<AtomicU64>,
}

impl HostTask {
    /// Starts the task, which the role cannot do without. It does nothing before the first plan.
    pub(super) fn start(
        tasks: &mut Tasks,
        ovs: Ovs,
        kernel: Kernel,
        programs: Programs,
        events: watch::Receiver<u64>,
    ) -> HostTask {
        let (slot, (filled, updates)) = (Arc::new(Slot::default()), mpsc::channel(1));
        let health = Err("the host is not planned yet".to_owned());
        let (said, state) = watch::channel(State { health, lasting: Vec::new() });
        let writes = Arc::new(AtomicU64::new(0));
        let programs = Arc::new(Mutex::new(programs));
        let problems = Vec::new();
        let (held, frr) = (Held::new(), Held::silent());
        let plan_so_far = None;
        let writes_too = Arc::clone(&writes);
        let work =
            Work { plan: plan_so_far, ovs, kernel, programs, held, frr, said, writes: writes_too, problems };
        tasks.start("host", work.run(Arc::clone(&slot), updates, events));
        HostTask { slot, filled, state, writes }
    }

    /// What differs from what should be so far, which was nothing at first.
    pub(super) fn update(&self, update: HostUpdate) {
        if !update.is_empty() {
            self.slot.put(update);
            // Where it is said already, that will do; the task's end ends the role.
            let _said = self.filled.try_send(());
        }
    }

    /// Returns when the host is in another state than before.
    pub(super) async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Whether the node itself is as planned; what only concerns one network of a user is not asked here.
    pub(super) fn health(&self) -> Result<(), String> {
        self.state.borrow().health.clone()
    }

    /// What could not be done for networks, services and pods, also when it was tried again.
    pub(super) fn troubles(&self) -> Vec<Trouble> {
        let state = self.state.borrow();
        state
            .lasting
            .iter()
            .filter_map(|lacks| Trouble::of_host(lacks.owner.as_ref()?, &lacks.text))
            .collect()
    }

    /// How many changes were made.
    pub(super) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }
}

/// What could not be done, and for whom.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Lack {
    owner: Option<Owner>,
    text: String,
}

/// How the host is.
#[derive(Clone, Debug, Eq, PartialEq)]
struct State {
    /// Of the node itself.
    health: Result<(), String>,
    /// What could not be done twice in a row.
    lasting: Vec<Lack>,
}

struct Work {
    /// What shall be; nobody has said so at first.
    plan: Option<Arc<HostPlan>>,
    ovs: Ovs,
    kernel: Kernel,
    programs: Arc<Mutex<Programs>>,
    said: watch::Sender<State>,
    /// To the bridges on which flows are planned.
    held: Held,
    /// To the daemons of FRR that sections are planned for.
    frr: Held,
    writes: Arc<AtomicU64>,
    /// What was said last, so that it is said once.
    problems: Vec<Lack>,
}

impl Work {
    async fn run(
        mut self,
        slot: Arc<Slot>,
        mut updates: mpsc::Receiver<()>,
        mut events: watch::Receiver<u64>,
    ) -> String {
        let (mut ready, mut switches) = (self.ovs.readiness(), self.held.events());
        let mut frr = self.frr.events();
        let mut retry = RETRY;
        loop {
            self.take(slot.take());
            events.borrow_and_update();
            ready.borrow_and_update();
            switches.borrow_and_update();
            frr.borrow_and_update();
            let mut pause = REPAIR;
            if let Some(plan) = self.plan.clone() {
                let problems = self.apply(&plan).await;
                if problems.is_empty() {
                    retry = RETRY;
                } else {
                    pause = retry;
                    retry = LONGEST_RETRY.min(retry * 2);
                }
                self.tell(&plan, problems);
            }
            tokio::select! {
                filled = updates.recv() => if filled.is_none() {
                    return "nobody plans any more".into();
                },
                Ok(()) = events.changed() => sleep(SETTLE).await,
                Ok(()) = ready.changed() => {}
                Ok(()) = switches.changed() => {}
                Ok(()) = frr.changed() => {}
                () = flows_have_changed(Arc::clone(&self.programs)) => {}
                ended = self.held.ended() => return ended,
                ended = self.frr.ended() => return ended,
                () = sleep(pause) => {}
            }
        }
    }

    /// In place, unless somebody still reads the plan. Before anything is planned there is no plan.
    fn take(&mut self, update: HostUpdate) {
        if update.is_empty() {
            return;
        }
        Arc::make_mut(self.plan.get_or_insert_default()).update(update);
    }

    /// Ports first: they make the devices that the kernel's part is about. A port that cannot be made holds back only
    /// what hangs on it.
    async fn apply(&mut self, plan: &Arc<HostPlan>) -> Vec<Lack> {
        self.held.only(&lock(&self.programs).sockets(plan));
        self.frr.only(&lock(&self.programs).frr_sockets(plan));
        let mut problems = self.apply_ports(plan).await;
        let (kernel, programs, plan) = (self.kernel, Arc::clone(&self.programs), Arc::clone(plan));
        let applied = tokio::task::spawn_blocking(move || apply(kernel, &programs, &plan)).await;
        let applied = match applied {
            Ok(applied) => applied,
            Err(error) => {
                problems.push(Lack { owner: None, text: error.to_string() });
                return problems;
            }
        };
        if applied.writes > 0 {
            info!(changes = applied.writes, "the host was changed as planned");
            self.writes.fetch_add(applied.writes as u64, Ordering::Relaxed);
        }
        let lack = |problem: Problem| {
            let text = problem.to_string();
            Lack { owner: problem.owner, text }
        };
        problems.extend(applied.problems.into_iter().map(lack));
        problems
    }

    async fn apply_ports(&self, plan: &Arc<HostPlan>) -> Vec<Lack> {
        let whole = |text: String| vec![Lack { owner: None, text }];
        let ports = match timeout(PATIENCE, self.ovs.ensure_internal(Arc::clone(plan))).await {
            Ok(Ok(ports)) => ports,
            Ok(Err(error)) => return whole(error.to_string()),
            Err(_) => {
                let silent = "Open vSwitch has not answered".to_owned();
                return whole(self.ovs.ready().err().unwrap_or(silent));
            }
        };
        self.writes.fetch_add(u64::from(ports.written), Ordering::Relaxed);
        let lack = |p: crate::ovs::PortProblem| Lack { owner: p.owner, text: p.error.to_string() };
        ports.problems.into_iter().map(lack).collect()
    }

    fn tell(&mut self, plan: &HostPlan, problems: Vec<Lack>) {
        for problem in problems.iter().filter(|problem| !self.problems.contains(problem)) {
            let owner = problem.owner.as_ref().map_or("node", Owner::as_str);
            warn!(owner, problem = problem.text, "the host is not as planned");
        }
        let was_well = self.said.borrow().health.is_ok();
        let health = health(plan, &problems, was_well);
        let state = State { health, lasting: lasting(&self.problems, &problems) };
        self.problems = problems;
        self.said.send_if_modified(|known| std::mem::replace(known, state.clone()) != state);
    }
}

/// Returns when flows of ours are gone, or more than there should be.
async fn flows_have_changed(programs: Arc<Mutex<Programs>>) {
    loop {
        sleep(COUNT).await;
        let programs = Arc::clone(&programs);
        let look = tokio::task::spawn_blocking(move || lock(&programs).have_changed());
        if look.await.unwrap_or(true) {
            return;
        }
    }
}

fn lock(programs: &Mutex<Programs>) -> MutexGuard<'_, Programs> {
    programs.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What blocks: what must go before devices do, the kernel, then what stands on its links.
fn apply(kernel: Kernel, programs: &Mutex<Programs>, plan: &HostPlan) -> Applied {
    lock(programs).let_go(plan);
    let mut applied = kernel.apply_host(plan);
    let more = lock(programs).apply(plan);
    applied.writes += more.writes;
    applied.problems.extend(more.problems);
    applied
}

/// What is in the way of the same owner as before: what stands on something else may come a moment later than that.
fn lasting(before: &[Lack], now: &[Lack]) -> Vec<Lack> {
    let known: BTreeSet<Option<&Owner>> = before.iter().map(|lack| lack.owner.as_ref()).collect();
    now.iter().filter(|lack| known.contains(&lack.owner.as_ref())).cloned().collect()
}

/// The node is well when its own things and those of the default network are as planned. One that is held keeps what it
/// had, and so its health.
fn health(plan: &HostPlan, problems: &[Lack], was_well: bool) -> Result<(), String> {
    let default = Owner::network(&NetworkName::default_network());
    if let Some(reason) = plan.hold_of(&default).filter(|_| !was_well) {
        return Err(reason.to_owned());
    }
    let is_nodes =
        |owner: &Option<Owner>| owner.as_ref().is_none_or(|owner| *owner == default || owner.is_of_node());
    problems.iter().find(|problem| is_nodes(&problem.owner)).map_or(Ok(()), |p| Err(p.text.clone()))
}

/// The programs for the node's switch and its FRR.
pub(super) fn programs(vswitch: &Remote, frr: Option<&Path>) -> Programs {
    let programs = Programs::new(sockets(vswitch), INTEGRATION_BRIDGE);
    match frr {
        Some(folder) => programs.with_frr_at(folder),
        None => programs,
    }
}

/// The connections that a switch remembers; none where its sockets are not at hand.
pub(super) fn memory(vswitch: &Remote) -> Option<Connections> {
    sockets(vswitch).map(|folder| Connections::new(&folder, INTEGRATION_BRIDGE))
}

/// A switch has its sockets beside that of its database.
fn sockets(vswitch: &Remote) -> Option<PathBuf> {
    match vswitch {
        Remote::Unix(path) => path.parent().map(PathBuf::from),
        Remote::Tcp(..) | Remote::Ssl(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(owner: Option<&str>) -> Lack {
        Lack { owner: owner.map(Owner::new), text: "no".into() }
    }

    #[test]
    fn what_comes_right_when_it_is_tried_again_is_no_news() {
        let (red, blue) = (trouble(Some("network:red")), trouble(Some("network:blue")));
        assert_eq!(lasting(&[], std::slice::from_ref(&red)), []);
        let later = Lack { text: "still no".into(), ..red.clone() };
        assert_eq!(lasting(&[red, trouble(None)], &[later.clone(), blue]), [later]);
    }

    #[test]
    fn one_network_of_a_user_does_not_make_the_node_ill() {
        let mut plan = HostPlan::default();
        assert_eq!(health(&plan, &[trouble(Some("network:red"))], true), Ok(()));
        assert_eq!(health(&plan, &[trouble(Some("network:red")), trouble(None)], true), Err("no".into()));
        assert_eq!(health(&plan, &[trouble(Some("network:default"))], true), Err("no".into()));
        assert_eq!(health(&plan, &[trouble(Some("node:tunnels"))], true), Err("no".into()));
        plan.hold(Owner::new("network:red"), "half known");
        assert_eq!(health(&plan, &[], false), Ok(()));
        plan.hold(Owner::new("network:default"), "half known");
        assert_eq!(health(&plan, &[], false), Err("half known".into()));
        assert_eq!(health(&plan, &[], true), Ok(()), "what it had is still there");
    }
}
