//! The host's side: the kernel and Open vSwitch ports, in a task of its own. The role's task tells it what is planned
//! and never waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use causeway_host::{Host, Kernel};
use causeway_plan::host::HostPlan;
use causeway_runtime::Tasks;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::ovs::{Ovs, internal_ports};

/// What somebody else does to a link or a route is repaired after so long.
const REPAIR: Duration = Duration::from_secs(10);
/// A host that is not as planned is tried again after so long.
const RETRY: Duration = Duration::from_millis(500);

/// How the host is, and what is planned of it.
pub(super) struct HostTask {
    plan: watch::Sender<Option<HostPlan>>,
    state: watch::Receiver<Result<(), String>>,
    writes: Arc<AtomicU64>,
}

impl HostTask {
    /// Starts the task, which the role cannot do without. It does nothing before the first plan.
    pub(super) fn start(tasks: &mut Tasks, ovs: Ovs, kernel: Kernel) -> HostTask {
        let (plan, plans) = watch::channel(None);
        let (said, state) = watch::channel(Err("the host is not planned yet".to_owned()));
        let writes = Arc::new(AtomicU64::new(0));
        tasks.start("host", work(ovs, kernel, plans, said, Arc::clone(&writes)));
        HostTask { plan, state, writes }
    }

    /// What shall be.
    pub(super) fn plan(&self, plan: HostPlan) {
        self.plan.send_if_modified(|known| {
            let differs = known.as_ref() != Some(&plan);
            *known = Some(plan);
            differs
        });
    }

    /// Returns when the host is in another state than before.
    pub(super) async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Whether the host is as planned.
    pub(super) fn health(&self) -> Result<(), String> {
        self.state.borrow().clone()
    }

    /// How many changes were made.
    pub(super) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }
}

async fn work(
    ovs: Ovs,
    kernel: Kernel,
    mut plans: watch::Receiver<Option<HostPlan>>,
    said: watch::Sender<Result<(), String>>,
    writes: Arc<AtomicU64>,
) -> String {
    loop {
        let plan = plans.borrow_and_update().clone();
        let mut pause = REPAIR;
        if let Some(plan) = plan {
            let outcome = apply(&ovs, kernel, plan, &writes).await;
            if let Err(problem) = &outcome {
                pause = RETRY;
                let known = said.borrow().as_ref().err() == Some(problem);
                if !known {
                    warn!(problem, "the host is not as planned");
                }
            }
            said.send_if_modified(|known| std::mem::replace(known, outcome.clone()) != outcome);
        }
        tokio::select! {
            changed = plans.changed() => if changed.is_err() { return "nobody plans any more".into() },
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn apply(ovs: &Ovs, kernel: Kernel, plan: HostPlan, writes: &AtomicU64) -> Result<(), String> {
    // A port that cannot be made holds back only what hangs on it.
    let ports = ovs.ensure_internal(internal_ports(&plan)).await;
    if matches!(ports, Ok(true)) {
        writes.fetch_add(1, Ordering::Relaxed);
    }
    let applied =
        tokio::task::spawn_blocking(move || kernel.apply_host(&plan)).await.map_err(|e| e.to_string())?;
    if applied.writes > 0 {
        info!(changes = applied.writes, "the host was changed as planned");
        writes.fetch_add(applied.writes as u64, Ordering::Relaxed);
    }
    ports.map_err(|error| error.to_string())?;
    applied.problems.first().map_or(Ok(()), |problem| Err(problem.to_string()))
}
