//! Kubernetes writes: a keyed queue. The last value for a key wins, each object has one write in flight, pods go first.
//!
//! Owns when a write is sent and when it is sent again. Never decides what follows from a failure: every attempt is
//! reported, and whoever asked may replace or withdraw the value meanwhile. Nothing is sent without a [`Permit`], and a
//! request in flight is cut when the permit ends.

mod queue;
mod send;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use causeway_record::{Ended, Outcome, Part, Request, Target};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::tasks::caught;
use crate::{Permit, Tasks};
use queue::Queue;

/// How long a write may take. One that took longer may still have happened.
const TIME_OUT: Duration = Duration::from_secs(3);
/// Writes in flight at once.
const IN_FLIGHT: usize = 32;

/// Where requests go in.
#[derive(Clone, Debug)]
pub struct Writer {
    shared: Arc<Shared>,
}

/// The queue has no limit of its own: it holds one value for each part of an object, so it cannot outgrow what the role knows.
#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Notify,
}

/// How one write is sent: to the API server, or by a test.
type Post = dyn Fn(Request) -> BoxFuture<'static, Ended> + Send + Sync;

impl Writer {
    /// An empty queue. Serves how much waits, and for how long.
    pub fn new(registry: &mut Registry) -> Self {
        let queue = Mutex::new(Queue::new(IN_FLIGHT));
        let shared = Arc::new(Shared { queue, changed: Notify::new() });
        registry.register_collector(Box::new(Arc::clone(&shared)));
        Self { shared }
    }

    /// Starts sending, as a child that the role cannot do without. Outcomes are sent to `outcomes`.
    pub fn start<M: Send + 'static>(
        &self,
        tasks: &mut Tasks,
        client: Client,
        permit: Permit,
        outcomes: mpsc::Sender<M>,
        wrap: impl Fn(Outcome) -> M + Send + 'static,
    ) {
        let post = move |request: Request| {
            let client = client.clone();
            async move { send::send(&client, &request, TIME_OUT).await }.boxed()
        };
        self.start_with(tasks, Box::new(post), permit, outcomes, wrap);
    }

    fn start_with<M: Send + 'static>(
        &self,
        tasks: &mut Tasks,
        post: Box<Post>,
        permit: Permit,
        outcomes: mpsc::Sender<M>,
        wrap: impl Fn(Outcome) -> M + Send + 'static,
    ) {
        let shared = Arc::clone(&self.shared);
        tasks.start("writes", async move { run(&shared, &*post, permit, outcomes, wrap).await });
    }

    /// Queues a write. One that waits for the same part of the object gives way.
    pub fn send(&self, request: Request) {
        self.shared.queue().put(request, Instant::now());
        self.shared.changed.notify_one();
    }

    /// Takes a write back that waits, and says whether there was one. A write in flight ends as it ends and reports that, but
    /// is not tried again.
    pub fn withdraw(&self, target: &Target, part: Part) -> bool {
        self.shared.queue().withdraw(target, part)
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Shared {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (waiting, oldest) = self.queue().depth();
        let age = oldest.map_or(0.0, |since| since.elapsed().as_secs_f64());
        let waiting = u32::try_from(waiting).map_or(f64::INFINITY, f64::from);
        let gauges = [
            ("causeway_writes_waiting", "Writes that wait or are in flight", waiting),
            ("causeway_writes_oldest_seconds", "How long the oldest of them has waited", age),
        ];
        for (name, help, value) in gauges {
            let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(gauge)?;
        }
        Ok(())
    }
}

async fn run<M: Send + 'static>(
    shared: &Shared,
    post: &Post,
    permit: Permit,
    outcomes: mpsc::Sender<M>,
    wrap: impl Fn(Outcome) -> M,
) -> String {
    let mut flights: JoinSet<(Request, Ended)> = JoinSet::new();
    loop {
        let (due, wake) = {
            let mut queue = shared.queue();
            (queue.due(Instant::now()), queue.next_due())
        };
        for request in due {
            flights.spawn(flight(request.clone(), post(request), permit.clone()));
        }
        tokio::select! {
            biased;
            () = permit.over() => return "the lease has run out; nothing is written any more".into(),
            Some(Ok((request, ended))) = flights.join_next() => {
                shared.queue().ended(&request, &ended, Instant::now());
                let outcome =
                    Outcome { target: request.target, part: request.part, token: request.token, result: ended };
                if outcomes.send(wrap(outcome)).await.is_err() {
                    return "nobody listens to outcomes any more".into();
                }
            }
            () = shared.changed.notified() => {}
            () = pause_until(wake), if wake.is_some() => {}
        }
    }
}

/// One write. Each time it can go on, it looks first whether it still may.
async fn flight(request: Request, sending: BoxFuture<'static, Ended>, permit: Permit) -> (Request, Ended) {
    let ended = tokio::select! {
        biased;
        () = permit.over() => Ended::Failed("the lease has run out".into()),
        ended = caught(sending) => ended.unwrap_or_else(Ended::Failed),
    };
    (request, ended)
}

async fn pause_until(moment: Option<Instant>) {
    if let Some(moment) = moment {
        tokio::time::sleep_until(moment).await;
    }
}

#[cfg(test)]
mod tests;
