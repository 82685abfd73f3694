//! Kubernetes writes: a keyed queue. The last value for a key wins, each object has one write in flight, pods go first.
//!
//! Owns when a write is sent and when it is sent again. Never decides what follows from a failure: every attempt is
//! reported, and whoever asked may replace the value meanwhile.

mod queue;
mod send;

use std::time::Duration;

use causeway_record::{Ended, Outcome, Request};
use kube::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use queue::Queue;

/// How long a write may take. One that took longer may still have happened.
const TIME_OUT: Duration = Duration::from_secs(3);
/// Writes in flight at once.
const IN_FLIGHT: usize = 32;

/// Where requests go in.
#[derive(Clone, Debug)]
pub struct Writer {
    requests: mpsc::UnboundedSender<Request>,
}

impl Writer {
    /// Starts the queue. Outcomes are sent to `outcomes`; the queue ends when nobody has the writer or the outcomes.
    pub fn start<M: Send + 'static>(
        client: Client,
        outcomes: mpsc::Sender<M>,
        wrap: impl Fn(Outcome) -> M + Send + 'static,
    ) -> Self {
        let (requests, incoming) = mpsc::unbounded_channel();
        tokio::spawn(run(client, incoming, outcomes, wrap));
        Self { requests }
    }

    /// Queues a write. A queue that has ended takes nothing more: the role is ending too.
    pub fn send(&self, request: Request) {
        let _ended = self.requests.send(request);
    }
}

async fn run<M: Send + 'static>(
    client: Client,
    mut incoming: mpsc::UnboundedReceiver<Request>,
    outcomes: mpsc::Sender<M>,
    wrap: impl Fn(Outcome) -> M + Send + 'static,
) {
    let mut queue = Queue::new(IN_FLIGHT);
    let mut flights: JoinSet<(Request, Ended)> = JoinSet::new();
    loop {
        for request in queue.due(Instant::now()) {
            let client = client.clone();
            flights.spawn(async move {
                let ended = send::send(&client, &request, TIME_OUT).await;
                (request, ended)
            });
        }
        let wake = queue.next_due();
        tokio::select! {
            request = incoming.recv() => match request {
                Some(request) => queue.put(request),
                None => return,
            },
            Some(Ok((request, ended))) = flights.join_next(), if !flights.is_empty() => {
                queue.ended(&request, &ended, Instant::now());
                let outcome =
                    Outcome { target: request.target, part: request.part, token: request.token, result: ended };
                if outcomes.send(wrap(outcome)).await.is_err() {
                    return;
                }
            }
            () = pause_until(wake), if wake.is_some() => {}
        }
    }
}

async fn pause_until(moment: Option<Instant>) {
    if let Some(moment) = moment {
        tokio::time::sleep_until(moment).await;
    }
}
