//! Children of a role: every task has a parent that sees it end.
//!
//! Owns the tasks: they end with this value. A child that the role cannot do without ends the role, with the child's name
//! and reason. Others are started again, which the log, a metric and `/readyz` tell. No child ends unseen.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{Error, Health};

/// The first pause before a child is started again; it doubles up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(15);
/// A child that has run for so long is well again.
const WELL: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Label {
    task: String,
}

/// The children of a role. All of them end when this value goes.
pub struct Tasks {
    children: JoinSet<Error>,
    health: Health,
    restarts: Family<Label, Counter>,
}

impl Tasks {
    /// No children yet. Tells `health` and `registry` what becomes of them.
    pub fn new(health: &Health, registry: &mut Registry) -> Self {
        let restarts = Family::default();
        registry.register("causeway_task_restarts", "Children that were started again", restarts.clone());
        Self { children: JoinSet::new(), health: health.clone(), restarts }
    }

    /// Starts a child without which the role cannot go on. What the child returns is the reason for its end.
    pub fn start(&mut self, task: &str, child: impl Future<Output = String> + Send + 'static) {
        let task = task.to_owned();
        self.children.spawn(async move {
            let reason = caught(child).await.unwrap_or_else(|panic| panic);
            Error::Ended { task, reason }
        });
    }

    /// Starts a child that is made anew whenever it ends.
    pub fn keep<C: Future<Output = String> + Send + 'static>(
        &mut self,
        task: &str,
        mut make: impl FnMut() -> C + Send + 'static,
    ) {
        let (task, health) = (task.to_owned(), self.health.clone());
        let restarts = self.restarts.get_or_create_owned(&Label { task: task.clone() });
        self.children.spawn(async move {
            let mut pause = FIRST_PAUSE;
            loop {
                let begun = Instant::now();
                let reason = watched(make(), &task, &health).await;
                if begun.elapsed() >= WELL {
                    pause = FIRST_PAUSE;
                }
                tracing::error!(task, reason, ?pause, "a task has ended; it is started again");
                restarts.inc();
                health.task_restarted(&task, &reason);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LAST_PAUSE);
            }
        });
    }

    /// Waits until a child ends that the role cannot do without, and says which and why.
    pub async fn ended(&mut self) -> Error {
        match self.children.join_next().await {
            Some(Ok(error)) => error,
            // Panics are caught inside of the task; nobody else can end it.
            Some(Err(error)) => Error::Ended { task: "a task".into(), reason: error.to_string() },
            None => std::future::pending().await,
        }
    }

    /// Ends all children and waits until they are gone.
    pub async fn stop(&mut self) {
        self.children.shutdown().await;
    }
}

/// Runs the child and notes when it has run long enough.
async fn watched(child: impl Future<Output = String>, task: &str, health: &Health) -> String {
    let mut child = std::pin::pin!(caught(child));
    let ended = tokio::select! {
        ended = &mut child => Some(ended),
        () = tokio::time::sleep(WELL) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            health.task_lasts(task);
            child.await
        }
    };
    ended.unwrap_or_else(|panic| panic)
}

/// A panic becomes a sentence.
pub(crate) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| format!("it panicked: {}", words(&*panic)))
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn tasks() -> (Tasks, Health, Registry) {
        let health = Health::waiting("starting");
        health.set(Ok(()));
        let mut registry = Registry::default();
        (Tasks::new(&health, &mut registry), health, registry)
    }

    #[tokio::test]
    async fn a_child_that_panics_or_returns_ends_the_role_with_its_name() {
        let (mut tasks, ..) = tasks();
        tasks.start("sleeper", std::future::pending());
        tasks.start("writer", async { panic!("no {}", "paper") });
        assert_eq!(tasks.ended().await.to_string(), "the task writer has ended: it panicked: no paper");
        tasks.start("lease", async { "somebody else has it".to_owned() });
        assert_eq!(tasks.ended().await.to_string(), "the task lease has ended: somebody else has it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_that_is_kept_comes_back_and_is_well_after_a_while() {
        let (mut tasks, health, registry) = tasks();
        let starts = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&starts);
        tasks.keep("watch of pods", move || {
            let start = counted.fetch_add(1, Ordering::Relaxed);
            async move { if start == 0 { panic!("a bad object") } else { std::future::pending().await } }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(starts.load(Ordering::Relaxed), 2);
        let problem = "watch of pods was started again: it panicked: a bad object";
        assert_eq!(health.get(), Err(problem.into()));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("causeway_task_restarts_total{task=\"watch of pods\"} 1"), "{text}");
        tokio::time::sleep(WELL).await;
        assert_eq!(health.get(), Ok(()));
    }

    #[tokio::test]
    async fn children_end_with_their_parent() {
        let (mut tasks, ..) = tasks();
        let alive = Arc::new(());
        let held = Arc::clone(&alive);
        tasks.start("holder", async move {
            let _held = held;
            std::future::pending().await
        });
        tasks.stop().await;
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}
