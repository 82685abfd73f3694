//! Kubernetes Events: where users look first. The same words about the same object are one Event that counts, and nobody can
//! make us write more than a trickle, nor silence the events of another namespace.
//!
//! Owns the rate and the series. An event is a courtesy: one that cannot be written is counted and forgotten.

mod limit;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use causeway_api::conditions::cut;
use causeway_record::{EventNote, Regarding};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::{Permit, Tasks};
use limit::{Limit, Series};

/// The API server refuses longer notes.
const LONGEST: usize = 1000;
/// How long writing one event may take.
const TIME_OUT: Duration = Duration::from_secs(3);
/// Events that wait for the API server; more are dropped.
const WAITING: usize = 1024;
/// Where events about objects without a namespace go.
const NO_NAMESPACE: &str = "default";

/// Where events go in.
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Shared>,
}

struct Shared {
    desk: Mutex<Desk>,
    changed: Notify,
    dropped: Counter,
}

/// What was said, and what is still to be written.
struct Desk {
    limit: Limit,
    waiting: VecDeque<(EventNote, Series)>,
}

impl Recorder {
    /// Nothing said yet. Serves how many events were dropped.
    pub fn new(registry: &mut Registry) -> Self {
        let desk = Mutex::new(Desk { limit: Limit::new(Instant::now()), waiting: VecDeque::new() });
        let shared = Shared { desk, changed: Notify::new(), dropped: Counter::default() };
        let help = "Kubernetes Events that were not written: too many at once, or the API server refused";
        registry.register("causeway_events_dropped", help, shared.dropped.clone());
        Self { shared: Arc::new(shared) }
    }

    /// Starts writing events in the name of `controller`, as a child that is started again should it end.
    pub fn start(&self, tasks: &mut Tasks, client: Client, permit: Permit, controller: &str, instance: &str) {
        let author = Author { client, permit, controller: controller.into(), instance: instance.into() };
        let (author, shared) = (Arc::new(author), Arc::clone(&self.shared));
        tasks.keep("events", move || run(Arc::clone(&author), Arc::clone(&shared)));
    }

    /// Says something, unless too much is being said already. Who speaks too often loses only his own events: the budget
    /// counts before anything waits.
    pub fn say(&self, mut note: EventNote) {
        // Before it is remembered: a tenant's text may be in it.
        note.message = cut(&note.message, LONGEST);
        let mut desk = self.shared.desk();
        let Some(series) = desk.limit.passes(&note, Instant::now(), Timestamp::now()) else { return };
        match series {
            Some(series) if desk.waiting.len() < WAITING => desk.waiting.push_back((note, series)),
            _ => drop(self.shared.dropped.inc()),
        }
        drop(desk);
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run(author: Arc<Author>, shared: Arc<Shared>) -> String {
    loop {
        let next = shared.desk().waiting.pop_front();
        let Some((note, series)) = next else {
            shared.changed.notified().await;
            continue;
        };
        let problem = match timeout(TIME_OUT, author.write(&note, &series)).await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the API server does not answer".to_owned(),
        };
        shared.dropped.inc();
        tracing::debug!(problem, reason = note.reason, "an event could not be written");
    }
}

/// In whose name events are written.
struct Author {
    client: Client,
    permit: Permit,
    controller: String,
    instance: String,
}

impl Author {
    async fn write(&self, note: &EventNote, series: &Series) -> Result<(), Error> {
        if self.permit.is_over() {
            return Ok(());
        }
        let namespace = note.regarding.namespace.as_deref().unwrap_or(NO_NAMESPACE);
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        if series.count > 1 {
            let again = json!({"count": series.count, "lastTimestamp": Time(series.last)});
            match api.patch(&series.name, &PatchParams::default(), &Patch::Merge(&again)).await {
                // Events are forgotten after an hour; then this is the first one again.
                Err(Error::Api(status)) if status.code == 404 => {}
                answer => return answer.map(drop),
            }
        }
        api.create(&PostParams::default(), &self.event(note, series, namespace)).await.map(drop)
    }

    /// Both generations of fields: `kubectl get events --sort-by=.lastTimestamp` reads the old ones.
    fn event(&self, note: &EventNote, series: &Series, namespace: &str) -> Event {
        Event {
            metadata: ObjectMeta {
                namespace: Some(namespace.to_owned()),
                name: Some(series.name.clone()),
                ..ObjectMeta::default()
            },
            involved_object: reference(&note.regarding),
            type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(note.reason.clone()),
            message: Some(note.message.clone()),
            action: Some("Reconcile".to_owned()),
            event_time: Some(MicroTime(series.first)),
            first_timestamp: Some(Time(series.first)),
            last_timestamp: Some(Time(series.last)),
            count: Some(series.count),
            reporting_component: Some(self.controller.clone()),
            reporting_instance: Some(self.instance.clone()),
            source: Some(EventSource { component: Some(self.controller.clone()), host: None }),
            ..Event::default()
        }
    }
}

fn reference(regarding: &Regarding) -> ObjectReference {
    ObjectReference {
        api_version: Some(regarding.api_version.clone()),
        kind: Some(regarding.kind.clone()),
        namespace: regarding.namespace.clone(),
        name: Some(regarding.name.clone()),
        uid: Some(regarding.uid.clone()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Health;
    use crate::fake::{self, Answer};

    fn note(message: &str) -> EventNote {
        let regarding = Regarding {
            api_version: "v1".into(),
            kind: "Node".into(),
            namespace: None,
            name: "n1".into(),
            uid: "1".into(),
        };
        EventNote { regarding, warning: true, reason: "Full".into(), message: message.into() }
    }

    /// Says the same twice, a repetition apart, to a server that answers like this.
    async fn twice(answer: impl Fn(&str) -> Answer + Send + 'static) -> Vec<(String, serde_json::Value)> {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let (client, _) = fake::client(move |what, body| {
            let verb = what.split(' ').next().unwrap_or_default().to_owned();
            seen.lock().unwrap().push((verb, json!([body["count"], body["message"]])));
            answer(what)
        });
        let mut tasks = Tasks::new(&Health::waiting("test"), &mut Registry::default());
        let recorder = Recorder::new(&mut Registry::default());
        recorder.start(&mut tasks, client, Permit::always(), "test", "here");
        for _ in 0..2 {
            recorder.say(note("nothing is left"));
            recorder.say(note("nothing is left"));
            tokio::time::sleep(Duration::from_secs(300)).await;
        }
        asked.lock().unwrap().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_said_again_is_counted_on_the_same_object() {
        let written = || Answer::Object(json!({"metadata": {"name": "n"}, "involvedObject": {}}));
        let said = |verb: &str, count: i32, message: Option<&str>| (verb.to_owned(), json!([count, message]));
        let first = said("POST", 1, Some("nothing is left"));
        let kept = twice(move |_| written()).await;
        assert_eq!(kept, [first.clone(), said("PATCH", 3, None)]);
        let forgets =
            move |what: &str| if what.starts_with("PATCH") { Answer::Status(404) } else { written() };
        let forgotten = twice(forgets).await;
        assert_eq!(forgotten, [first, said("PATCH", 3, None), said("POST", 3, Some("nothing is left"))]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_costs_one_event() {
        let asked = twice(|_| Answer::Silence).await;
        assert_eq!(asked.len(), 2, "the second was not held up by the first");
    }
}
