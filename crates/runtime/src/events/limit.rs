//! How much may be said: the same words once in a while, each namespace so much, all together so much. No sockets: the time
//! is an argument.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use causeway_record::EventNote;
use jiff::Timestamp;
use tokio::time::Instant;

/// The same words about the same object are counted, and written again after so long.
const REPEAT: Duration = Duration::from_secs(300);
/// Of all namespaces together, so many events at once and so many each second.
const ALL: Budget = Budget { burst: 100.0, rate: 20.0 };
/// Of one namespace.
const ONE: Budget = Budget { burst: 25.0, rate: 2.0 };
/// Events remembered, to count them.
const REMEMBERED: usize = 10_000;

/// The Event object that a note belongs to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Series {
    pub(super) name: String,
    /// When it was said first and last.
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// How often.
    pub(super) count: i32,
}

struct Budget {
    burst: f64,
    rate: f64,
}

struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    const fn full(budget: &Budget, now: Instant) -> Self {
        Self { tokens: budget.burst, filled: now }
    }

    fn fill(&mut self, budget: &Budget, now: Instant) {
        let more = now.duration_since(self.filled).as_secs_f64() * budget.rate;
        self.tokens = (self.tokens + more).min(budget.burst);
        self.filled = now;
    }
}

/// What was said when, and how much more may be said.
pub(super) struct Limit {
    said: HashMap<EventNote, (Series, Instant)>,
    order: VecDeque<EventNote>,
    all: Bucket,
    namespaces: HashMap<Option<String>, Bucket>,
}

impl Limit {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            said: HashMap::new(),
            order: VecDeque::new(),
            all: Bucket::full(&ALL, now),
            namespaces: HashMap::new(),
        }
    }

    /// Nothing if the same was said a moment ago. Else the series to write, or nothing if too much was said.
    pub(super) fn passes(
        &mut self,
        note: &EventNote,
        now: Instant,
        clock: Timestamp,
    ) -> Option<Option<Series>> {
        if let Some((series, written)) = self.said.get_mut(note) {
            series.count = series.count.saturating_add(1);
            series.last = clock;
            if now.duration_since(*written) < REPEAT {
                return None;
            }
        }
        if !self.has_budget(note, now) {
            return Some(None);
        }
        Some(Some(self.written(note, now, clock)))
    }

    fn has_budget(&mut self, note: &EventNote, now: Instant) -> bool {
        let namespace = &note.regarding.namespace;
        if !self.namespaces.contains_key(namespace) {
            self.forget_quiet_namespaces(now);
            self.namespaces.insert(namespace.clone(), Bucket::full(&ONE, now));
        }
        let Some(own) = self.namespaces.get_mut(namespace) else { return false };
        own.fill(&ONE, now);
        self.all.fill(&ALL, now);
        let enough = own.tokens >= 1.0 && self.all.tokens >= 1.0;
        if enough {
            own.tokens -= 1.0;
            self.all.tokens -= 1.0;
        }
        enough
    }

    /// A namespace whose bucket is full again is like one that never spoke. They are looked through when they have doubled,
    /// so that a new namespace costs little.
    fn forget_quiet_namespaces(&mut self, now: Instant) {
        if self.namespaces.len() == self.namespaces.capacity() {
            self.namespaces.retain(|_, bucket| {
                bucket.fill(&ONE, now);
                bucket.tokens < ONE.burst
            });
        }
    }

    fn written(&mut self, note: &EventNote, now: Instant, clock: Timestamp) -> Series {
        if let Some((series, written)) = self.said.get_mut(note) {
            *written = now;
            return series.clone();
        }
        let series = Series { name: name(note, clock), first: clock, last: clock, count: 1 };
        self.said.insert(note.clone(), (series.clone(), now));
        self.order.push_back(note.clone());
        while self.order.len() > REMEMBERED {
            self.order.pop_front().map(|oldest| self.said.remove(&oldest));
        }
        series
    }
}

/// Object, moment and words: two notes of one moment differ, and so do two processes.
fn name(note: &EventNote, clock: Timestamp) -> String {
    let mut hasher = DefaultHasher::new();
    (note, clock, std::process::id()).hash(&mut hasher);
    let object: String = note.regarding.name.chars().take(200).collect();
    format!("{}.{:016x}", object.trim_end_matches(['.', '-']), hasher.finish())
}

#[cfg(test)]
mod tests {
    use causeway_record::Regarding;

    use super::*;

    fn note(namespace: &str, message: &str) -> EventNote {
        let regarding = Regarding {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: Some(namespace.into()),
            name: "p".into(),
            uid: "1".into(),
        };
        EventNote { regarding, warning: true, reason: "ErrorAllocatingPod".into(), message: message.into() }
    }

    #[test]
    fn the_same_words_are_counted_and_written_once_in_a_while() {
        let start = Instant::now();
        let mut limit = Limit::new(start);
        let mut said = |message, seconds: u64| {
            let clock = Timestamp::from_second(seconds.cast_signed()).unwrap();
            let passed = limit.passes(&note("a", message), start + Duration::from_secs(seconds), clock);
            passed.flatten().map(|series| (series.count, series.first.as_second(), series.last.as_second()))
        };
        assert_eq!(said("full", 0), Some((1, 0, 0)));
        assert_eq!(said("full", 299), None);
        assert_eq!(said("taken", 299), Some((1, 299, 299)));
        assert_eq!(said("full", 300), Some((3, 0, 300)));
    }

    #[test]
    fn a_flood_in_one_namespace_becomes_a_trickle_and_silences_nobody_else() {
        let start = Instant::now();
        let mut limit = Limit::new(start);
        let mut passed = |namespace: &str, at: Instant| {
            let notes = (0..1000).map(|n| note(namespace, &format!("{at:?} {n}")));
            notes
                .filter(|note| matches!(limit.passes(note, at, Timestamp::UNIX_EPOCH), Some(Some(_))))
                .count()
        };
        assert_eq!(passed("loud", start), 25);
        assert_eq!(passed("other", start), 25);
        assert_eq!(passed("loud", start + Duration::from_secs(1)), 2);
    }

    #[test]
    fn namespaces_that_are_quiet_are_forgotten() {
        let start = Instant::now();
        let mut limit = Limit::new(start);
        for n in 0..10_000 {
            let at = start + Duration::from_secs(n);
            limit.passes(&note(&format!("n{n}"), "full"), at, Timestamp::UNIX_EPOCH);
        }
        assert!(limit.namespaces.len() < 100, "{}", limit.namespaces.len());
    }

    #[test]
    fn names_are_names() {
        let mut long = note("a", "full");
        long.regarding.name = format!("{}.x", "a".repeat(199));
        let name = name(&long, Timestamp::UNIX_EPOCH);
        assert_eq!((name.len(), name.contains("..")), (199 + 1 + 16, false));
    }
}
