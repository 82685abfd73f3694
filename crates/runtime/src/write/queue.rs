//! Which write goes when. No sockets: the time is an argument.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use causeway_record::{Ended, Kind, Part, Priority, Request, Target};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// The shortest time between two writes of a part that every node reads whenever it changes.
const SPACING: Duration = Duration::from_secs(1);

type Key = (Target, Part);

#[derive(Debug)]
struct Waiting {
    request: Request,
    order: u64,
    /// When the part was first asked to be written and was not yet.
    since: Instant,
    failures: u32,
    not_before: Option<Instant>,
}

/// A write in flight.
#[derive(Debug)]
struct Flight {
    part: Part,
    since: Instant,
    failures: u32,
    withdrawn: bool,
}

/// Writes that wait.
#[derive(Debug)]
pub(super) struct Queue {
    most: usize,
    in_flight: usize,
    count: u64,
    waiting: HashMap<Key, Waiting>,
    ready: BTreeSet<(Priority, u64, Key)>,
    later: BTreeMap<(Instant, u64), Key>,
    /// Objects with a write in flight.
    busy: HashMap<Target, Flight>,
    /// Until when parts that are spaced rest.
    resting: HashMap<Key, Instant>,
    /// Keys that are due but whose object is busy.
    blocked: HashMap<Target, HashSet<Key>>,
}

impl Queue {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            in_flight: 0,
            count: 0,
            waiting: HashMap::new(),
            ready: BTreeSet::new(),
            later: BTreeMap::new(),
            busy: HashMap::new(),
            resting: HashMap::new(),
            blocked: HashMap::new(),
        }
    }

    /// Puts a write in. One that waits for the same part gives way and leaves its place and its pause.
    pub(super) fn put(&mut self, request: Request, now: Instant) {
        let key = (request.target.clone(), request.part);
        if let Some(waiting) = self.waiting.get_mut(&key) {
            if waiting.not_before.is_none() && waiting.request.priority != request.priority {
                self.ready.remove(&(waiting.request.priority, waiting.order, key.clone()));
                self.ready.insert((request.priority, waiting.order, key));
            }
            waiting.request = request;
            return;
        }
        let rests = self.resting.get(&key).copied().filter(|until| *until > now);
        self.insert(key, request, now, 0, rests);
    }

    fn insert(
        &mut self,
        key: Key,
        request: Request,
        since: Instant,
        failures: u32,
        not_before: Option<Instant>,
    ) {
        self.count += 1;
        let order = self.count;
        match not_before {
            Some(moment) => {
                self.later.insert((moment, order), key.clone());
            }
            None => {
                self.ready.insert((request.priority, order, key.clone()));
            }
        }
        self.waiting.insert(key, Waiting { request, order, since, failures, not_before });
    }

    /// Takes a write back; whether there was one that waits. One in flight is not tried again.
    pub(super) fn withdraw(&mut self, target: &Target, part: Part) -> bool {
        if let Some(flight) = self.busy.get_mut(target).filter(|flight| flight.part == part) {
            flight.withdrawn = true;
        }
        self.take(&(target.clone(), part)).is_some()
    }

    /// How many writes wait or are in flight, and since when the oldest.
    pub(super) fn depth(&self) -> (usize, Option<Instant>) {
        let waiting = self.waiting.values().map(|waiting| waiting.since);
        let flying = self.busy.values().map(|flight| flight.since);
        (self.waiting.len() + self.busy.len(), waiting.chain(flying).min())
    }

    /// The writes that go now. They count as in flight until they have ended.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Request> {
        self.wake(now);
        let mut due = Vec::new();
        while self.in_flight < self.most {
            let Some((_, _, key)) = self.ready.pop_first() else { break };
            if self.busy.contains_key(&key.0) {
                self.blocked.entry(key.0.clone()).or_default().insert(key);
                continue;
            }
            if let Some(waiting) = self.waiting.remove(&key) {
                self.in_flight += 1;
                if is_spaced(&key) {
                    self.resting.retain(|_, until| *until > now);
                    self.resting.insert(key.clone(), now + SPACING);
                }
                let Waiting { since, failures, .. } = waiting;
                self.busy.insert(key.0, Flight { part: key.1, since, failures, withdrawn: false });
                due.push(waiting.request);
            }
        }
        due
    }

    fn wake(&mut self, now: Instant) {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let key = entry.remove();
            if let Some(waiting) = self.waiting.get_mut(&key) {
                waiting.not_before = None;
                self.ready.insert((waiting.request.priority, waiting.order, key));
            }
        }
    }

    /// When the next write is due that waits for a time.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.later.first_key_value().map(|((moment, _), _)| *moment)
    }

    /// A write has ended; one that failed waits, unless a newer value took its place meanwhile: that one waits then. One that
    /// was withdrawn does not come back.
    pub(super) fn ended(&mut self, request: &Request, ended: &Ended, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let flight = self.busy.remove(&request.target);
        for key in self.blocked.remove(&request.target).unwrap_or_default() {
            if let Some(waiting) = self.waiting.get(&key) {
                self.ready.insert((waiting.request.priority, waiting.order, key));
            }
        }
        let Some(flight) = flight.filter(|_| matches!(ended, Ended::Failed(_))) else { return };
        let key = (request.target.clone(), request.part);
        let own = (!flight.withdrawn).then(|| request.clone());
        if let Some(value) = self.take(&key).or(own) {
            let failures = flight.failures + 1;
            self.insert(key, value, flight.since, failures, Some(now + pause(failures)));
        }
    }

    fn take(&mut self, key: &Key) -> Option<Request> {
        let waiting = self.waiting.remove(key)?;
        self.ready.remove(&(waiting.request.priority, waiting.order, key.clone()));
        if let Some(moment) = waiting.not_before {
            self.later.remove(&(moment, waiting.order));
        }
        Some(waiting.request)
    }
}

/// All nodes read a connection's annotations, and which numbers are freed: a label that flaps, or many networks that go, must not make
/// them read more than once a second.
fn is_spaced((target, part): &Key) -> bool {
    matches!(
        (target.kind, part),
        (Kind::ClusterNetworkConnect, Part::Annotations) | (Kind::ConfigMap, Part::Data)
    )
}

fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LAST_PAUSE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use causeway_record::Action;

    fn request(kind: Kind, name: &str, part: Part, token: u64) -> Request {
        let priority = if kind == Kind::Pod { Priority::Pod } else { Priority::Status };
        let target = Target { kind, namespace: None, name: name.into() };
        Request {
            target,
            part,
            priority,
            action: Action::Merge { subresource: None, body: json!({}) },
            token,
        }
    }

    fn tokens(requests: &[Request]) -> Vec<u64> {
        requests.iter().map(|request| request.token).collect()
    }

    #[test]
    fn pods_first_then_in_the_order_they_came() {
        let mut queue = Queue::new(10);
        queue.put(request(Kind::Node, "a", Part::Status, 1), Instant::now());
        queue.put(request(Kind::Pod, "b", Part::Networks, 2), Instant::now());
        queue.put(request(Kind::Node, "c", Part::Status, 3), Instant::now());
        queue.put(request(Kind::Pod, "d", Part::Networks, 4), Instant::now());
        assert_eq!(tokens(&queue.due(Instant::now())), [2, 4, 1, 3]);
    }

    #[test]
    fn the_last_value_wins_and_an_object_has_one_write_in_flight() {
        let now = Instant::now();
        let mut queue = Queue::new(10);
        queue.put(request(Kind::Pod, "a", Part::Networks, 1), Instant::now());
        queue.put(request(Kind::Pod, "a", Part::Networks, 2), Instant::now());
        let first = queue.due(now);
        assert_eq!(tokens(&first), [2]);
        queue.put(request(Kind::Pod, "a", Part::Networks, 3), Instant::now());
        queue.put(request(Kind::Pod, "a", Part::Object, 4), Instant::now());
        assert_eq!(queue.due(now), []);
        queue.ended(&first[0], &Ended::Done, now);
        let second = queue.due(now);
        assert_eq!(tokens(&second), [3]);
        queue.ended(&second[0], &Ended::Done, now);
        assert_eq!(tokens(&queue.due(now)), [4]);
    }

    #[test]
    fn a_failed_write_waits_longer_each_time_and_takes_the_newest_value() {
        let start = Instant::now();
        let mut queue = Queue::new(10);
        queue.put(request(Kind::Pod, "a", Part::Networks, 1), Instant::now());
        let first = queue.due(start);
        queue.ended(&first[0], &Ended::Failed("no".into()), start);
        assert_eq!(queue.next_due(), Some(start + Duration::from_millis(100)));
        queue.put(request(Kind::Pod, "a", Part::Networks, 2), Instant::now());
        assert_eq!(queue.due(start), []);
        let again = start + Duration::from_millis(100);
        let second = queue.due(again);
        assert_eq!(tokens(&second), [2]);
        queue.put(request(Kind::Pod, "a", Part::Networks, 3), Instant::now());
        queue.ended(&second[0], &Ended::Failed("no".into()), again);
        assert_eq!(queue.next_due(), Some(again + Duration::from_millis(200)));
        assert_eq!(tokens(&queue.due(again + Duration::from_millis(200))), [3]);
    }

    #[test]
    fn what_is_gone_is_not_tried_again() {
        let now = Instant::now();
        let mut queue = Queue::new(1);
        queue.put(request(Kind::Pod, "a", Part::Networks, 1), Instant::now());
        queue.put(request(Kind::Pod, "b", Part::Networks, 2), Instant::now());
        let first = queue.due(now);
        assert_eq!(tokens(&first), [1], "one in flight at most");
        queue.ended(&first[0], &Ended::NotFound, now);
        assert_eq!(tokens(&queue.due(now)), [2]);
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn what_is_withdrawn_is_not_sent_nor_tried_again() {
        let now = Instant::now();
        let mut queue = Queue::new(10);
        let target = request(Kind::Pod, "a", Part::Networks, 0).target;
        queue.put(request(Kind::Pod, "a", Part::Networks, 1), now);
        assert!(queue.withdraw(&target, Part::Networks));
        assert!(!queue.withdraw(&target, Part::Networks));
        assert_eq!((queue.due(now), queue.depth()), (Vec::new(), (0, None)));

        queue.put(request(Kind::Pod, "a", Part::Networks, 2), now);
        let flying = queue.due(now);
        assert!(!queue.withdraw(&target, Part::Networks), "it is in flight");
        queue.ended(&flying[0], &Ended::Failed("no".into()), now);
        assert_eq!((queue.next_due(), queue.depth()), (None, (0, None)));
    }

    #[test]
    fn a_value_after_a_withdrawal_waits_like_any_other() {
        let now = Instant::now();
        let mut queue = Queue::new(10);
        let target = request(Kind::Pod, "a", Part::Networks, 0).target;
        queue.put(request(Kind::Pod, "a", Part::Networks, 1), now);
        let flying = queue.due(now);
        queue.withdraw(&target, Part::Networks);
        queue.put(request(Kind::Pod, "a", Part::Networks, 2), now);
        queue.ended(&flying[0], &Ended::Failed("no".into()), now);
        assert_eq!(tokens(&queue.due(now + Duration::from_millis(100))), [2]);
    }

    /// A connection's annotations are written once a second at most, with the newest value, and so are freed numbers; its status, and
    /// other objects, do not wait for that.
    #[test]
    fn what_every_node_reads_is_spaced() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut queue = Queue::new(10);
        let (connect, blocks) = (Kind::ClusterNetworkConnect, Part::Annotations);
        let mut written = Vec::new();
        for step in 0..40 {
            queue.put(request(connect, "c", blocks, step), at(step * 100));
            queue.put(request(connect, "c", Part::Status, 100 + step), at(step * 100));
            queue.put(request(connect, &format!("c{step}"), blocks, 200), at(step * 100));
            queue.put(request(Kind::ConfigMap, "freed", Part::Data, 300 + step), at(step * 100));
            loop {
                let due = queue.due(at(step * 100));
                if due.is_empty() {
                    break;
                }
                due.iter().for_each(|sent| queue.ended(sent, &Ended::Done, at(step * 100)));
                written.extend(due.into_iter().map(|sent| (step, sent.token)));
            }
        }
        let of =
            |wanted: std::ops::Range<u64>| written.iter().filter(move |(_, token)| wanted.contains(token));
        assert_eq!(of(0..100).collect::<Vec<_>>(), [&(0, 0), &(10, 10), &(20, 20), &(30, 30)]);
        assert_eq!((of(100..200).count(), of(200..201).count()), (40, 40));
        assert_eq!(of(300..400).collect::<Vec<_>>(), [&(0, 300), &(10, 310), &(20, 320), &(30, 330)]);
        assert!(queue.resting.len() <= 12, "who has rested is forgotten: {}", queue.resting.len());
        // One that failed is tried again after its pause, and rests as well.
        let failing = queue.due(at(4_000));
        queue.ended(&failing[0], &Ended::Failed("no".into()), at(4_000));
        assert_eq!(tokens(&queue.due(at(4_100))), [39]);
    }

    #[test]
    fn the_oldest_counts_from_when_it_was_first_asked_for() {
        let start = Instant::now();
        let mut queue = Queue::new(10);
        queue.put(request(Kind::Pod, "a", Part::Networks, 1), start);
        let flying = queue.due(start);
        queue.ended(&flying[0], &Ended::Failed("no".into()), start + Duration::from_secs(3));
        queue.put(request(Kind::Pod, "b", Part::Networks, 2), start + Duration::from_secs(4));
        assert_eq!(queue.depth(), (2, Some(start)));
    }
}
