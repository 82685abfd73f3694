//! Kubernetes Events: where users look first. The same words about the same object are said once in a while, and
//! nobody can make us write more than a trickle.
//!
//! Owns the rate. An event is a courtesy: one that cannot be written is counted and forgotten.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use causeway_api::conditions::cut;
use causeway_record::{EventNote, Regarding};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder as Inner, Reporter};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The same words about the same object are not repeated for so long.
const REPEAT: Duration = Duration::from_secs(300);
/// Of all objects together, so many events at once and so many each second.
const BURST: f64 = 100.0;
const RATE: f64 = 20.0;
/// Events remembered against repetition.
const REMEMBERED: usize = 10_000;
/// The API server refuses longer notes.
const LONGEST: usize = 1000;

/// Where events go in.
#[derive(Clone, Debug)]
pub struct Recorder {
    notes: mpsc::Sender<EventNote>,
}

impl Recorder {
    /// Starts writing events in the name of `controller`.
    pub fn start(client: Client, controller: &str, instance: &str) -> Self {
        let (notes, incoming) = mpsc::channel(1024);
        let reporter = Reporter { controller: controller.into(), instance: Some(instance.into()) };
        tokio::spawn(run(Inner::new(client, reporter), incoming));
        Self { notes }
    }

    /// Says something, unless too much is being said already.
    pub fn say(&self, note: EventNote) {
        if self.notes.try_send(note).is_err() {
            tracing::debug!("an event was dropped: too many at once");
        }
    }
}

async fn run(recorder: Inner, mut incoming: mpsc::Receiver<EventNote>) {
    let mut limit = Limit::new(Instant::now());
    while let Some(note) = incoming.recv().await {
        if !limit.passes(&note, Instant::now()) {
            continue;
        }
        let event = Event {
            type_: if note.warning { EventType::Warning } else { EventType::Normal },
            reason: note.reason.clone(),
            note: Some(cut(&note.message, LONGEST)),
            action: "Reconcile".into(),
            secondary: None,
        };
        if let Err(error) = recorder.publish(&event, &reference(&note.regarding)).await {
            tracing::debug!(%error, reason = note.reason, "an event could not be written");
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

/// What was said when, and how much more may be said.
struct Limit {
    said: HashMap<EventNote, Instant>,
    order: VecDeque<EventNote>,
    tokens: f64,
    filled: Instant,
}

impl Limit {
    fn new(now: Instant) -> Self {
        Self { said: HashMap::new(), order: VecDeque::new(), tokens: BURST, filled: now }
    }

    fn passes(&mut self, note: &EventNote, now: Instant) -> bool {
        if self.said.get(note).is_some_and(|at| now.duration_since(*at) < REPEAT) {
            return false;
        }
        self.tokens = (self.tokens + now.duration_since(self.filled).as_secs_f64() * RATE).min(BURST);
        self.filled = now;
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        if self.said.insert(note.clone(), now).is_none() {
            self.order.push_back(note.clone());
        }
        while self.order.len() > REMEMBERED {
            self.order.pop_front().map(|oldest| self.said.remove(&oldest));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(message: &str) -> EventNote {
        let regarding = Regarding {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: Some("a".into()),
            name: "p".into(),
            uid: "1".into(),
        };
        EventNote { regarding, warning: true, reason: "ErrorAllocatingPod".into(), message: message.into() }
    }

    #[test]
    fn the_same_words_are_said_once_in_a_while() {
        let start = Instant::now();
        let mut limit = Limit::new(start);
        assert!(limit.passes(&note("full"), start));
        assert!(!limit.passes(&note("full"), start + Duration::from_secs(299)));
        assert!(limit.passes(&note("taken"), start));
        assert!(limit.passes(&note("full"), start + Duration::from_secs(300)));
    }

    #[test]
    fn a_flood_becomes_a_trickle() {
        let start = Instant::now();
        let mut limit = Limit::new(start);
        let passed = |limit: &mut Limit, at: Instant| {
            (0..1000).filter(|n| limit.passes(&note(&format!("{at:?} {n}")), at)).count()
        };
        assert_eq!(passed(&mut limit, start), 100);
        assert_eq!(passed(&mut limit, start + Duration::from_secs(1)), 20);
    }
}
