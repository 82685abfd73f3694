//! Decides what to do next: which unit starts, stops, is probed or done again. Pure: time comes in as a number of
//! milliseconds, what happened as events, and out come orders.

use crate::plan::unit::{Body, Probe, Unit};
use std::collections::BTreeMap;

/// First and longest pause before something that failed is tried again, in milliseconds. A task mostly waits for
/// others, a process that ends has a reason.
const PAUSE: u64 = 200;
const LONGEST_PROCESS: u64 = 10_000;
const LONGEST_TASK: u64 = 800;
/// After this time without a failure the next one counts as the first.
const CALM: u64 = 30_000;
/// How often an unready process is probed.
const PROBE_EVERY: u64 = 150;
/// How long a process may take to stop before it is killed.
const STOP_PATIENCE: u64 = 5_000;

/// Where a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Something before it is not ready, or it failed and pauses until then.
    Waiting { until: u64 },
    /// Runs but does not serve yet; a probe may be under way.
    Starting { probed: u64, probing: bool },
    /// A task is under way.
    Doing,
    /// Serves, or is done.
    Ready,
    /// Was told to stop.
    Stopping { since: u64, killed: bool },
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A process ended, or could not be started.
    Ended { id: String, how: String },
    /// A probe came back.
    Probed { id: String, serves: bool },
    /// A task came back.
    Done { id: String, result: Result<(), String> },
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Start the process.
    Start(Unit),
    /// Do the task.
    Do(Unit),
    /// Ask whether the process serves.
    Probe(Unit),
    /// Ask the process to stop.
    Stop(String),
    /// Kill the process.
    Kill(String),
    /// Tell people.
    Tell(String),
}

/// What the engine knows of a unit.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) unit: Unit,
    pub(crate) phase: Phase,
    /// Grows each time the unit becomes ready.
    incarnation: u64,
    /// The incarnations of what came before, when this was started.
    built_on: Vec<u64>,
    failures: u32,
    failed_at: u64,
    /// How often it ended on its own.
    pub(crate) deaths: u32,
    pub(crate) trouble: Option<String>,
    /// When the current phase began.
    pub(crate) since: u64,
    /// Another definition that takes its place once it stopped; `None` inside: it goes for good.
    next: Option<Option<Unit>>,
}

impl Entry {
    fn new(unit: Unit) -> Entry {
        Entry {
            unit,
            phase: Phase::Waiting { until: 0 },
            incarnation: 0,
            built_on: Vec::new(),
            failures: 0,
            failed_at: 0,
            deaths: 0,
            trouble: None,
            since: 0,
            next: None,
        }
    }

    fn runs(&self) -> bool {
        matches!(self.unit.body, Body::Process(_))
            && matches!(self.phase, Phase::Starting { .. } | Phase::Ready | Phase::Stopping { .. })
    }

    fn become_ready(&mut self, now: u64) {
        (self.phase, self.since, self.trouble) = (Phase::Ready, now, None);
        self.incarnation += 1;
    }

    /// Pauses longer with each failure in a row; gives the pause.
    fn fail(&mut self, trouble: String, now: u64) -> u64 {
        self.failures = if now > self.failed_at + CALM { 0 } else { self.failures.min(10) };
        let longest = match self.unit.body {
            Body::Process(_) => LONGEST_PROCESS,
            Body::Task(_) => LONGEST_TASK,
        };
        let pause = (PAUSE << self.failures).min(longest);
        self.failures += 1;
        (self.failed_at, self.since) = (now, now);
        (self.phase, self.trouble) = (Phase::Waiting { until: now + pause }, Some(trouble));
        pause
    }
}

/// All units and where they are.
#[derive(Default)]
pub(crate) struct Engine {
    entries: BTreeMap<String, Entry>,
    /// In the order of the plan.
    order: Vec<String>,
}

impl Engine {
    /// Takes a new plan: what is equal stays, what changed starts anew, what is not planned any more stops.
    pub(crate) fn replan(&mut self, units: Vec<Unit>) {
        self.order = units.iter().map(|unit| unit.id.clone()).collect();
        let mut planned: BTreeMap<String, Unit> =
            units.into_iter().map(|unit| (unit.id.clone(), unit)).collect();
        for (id, entry) in &mut self.entries {
            let unit = planned.remove(id);
            entry.next = if unit.as_ref() == Some(&entry.unit) { None } else { Some(unit) };
        }
        for (id, unit) in planned {
            self.entries.insert(id, Entry::new(unit));
        }
    }

    /// The units, in the order of the plan.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.order.iter().filter_map(|id| self.entries.get(id))
    }

    /// Whether everything is as planned.
    pub(crate) fn is_settled(&self) -> bool {
        let done =
            |entry: &Entry| entry.phase == Phase::Ready && entry.next.is_none() && !self.is_outdated(entry);
        self.entries.len() == self.order.len() && self.entries.values().all(done)
    }

    /// Whether something that a task was built on was started anew.
    fn is_outdated(&self, entry: &Entry) -> bool {
        let now = entry.unit.after.iter().map(|id| self.entries.get(id).map(|before| before.incarnation));
        matches!(entry.unit.body, Body::Task(_)) && !now.eq(entry.built_on.iter().map(|built| Some(*built)))
    }

    /// Takes in what happened.
    pub(crate) fn event(&mut self, event: Event, now: u64) -> Vec<Order> {
        let (Event::Ended { id, .. } | Event::Probed { id, .. } | Event::Done { id, .. }) = &event;
        let Some(entry) = self.entries.get_mut(id) else { return Vec::new() };
        match event {
            Event::Ended { id, how } => ended(entry, &id, how, now),
            Event::Probed { serves, .. } => {
                if let Phase::Starting { .. } = entry.phase {
                    entry.phase = Phase::Starting { probed: now, probing: false };
                    if serves {
                        entry.become_ready(now);
                    }
                }
                Vec::new()
            }
            Event::Done { result, .. } => {
                if entry.phase == Phase::Doing {
                    match result {
                        Ok(()) => entry.become_ready(now),
                        Err(trouble) => drop(entry.fail(trouble, now)),
                    }
                }
                Vec::new()
            }
        }
    }

    /// Says what is due now.
    pub(crate) fn tick(&mut self, now: u64) -> Vec<Order> {
        let mut orders = Vec::new();
        self.replace(now, &mut orders);
        let ready: BTreeMap<String, u64> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.phase == Phase::Ready)
            .map(|(id, entry)| (id.clone(), entry.incarnation))
            .collect();
        for id in &self.order {
            if let Some(entry) = self.entries.get_mut(id).filter(|entry| entry.next.is_none()) {
                advance(entry, &ready, now, &mut orders);
            }
        }
        orders
    }

    /// Puts new definitions in place as soon as the old ones have stopped.
    fn replace(&mut self, now: u64, orders: &mut Vec<Order>) {
        let mut gone = Vec::new();
        for (id, entry) in &mut self.entries {
            stop_in_time(id, entry, now, orders);
            let Some(next) = &entry.next else { continue };
            if entry.runs() {
                if !matches!(entry.phase, Phase::Stopping { .. }) {
                    (entry.phase, entry.since) = (Phase::Stopping { since: now, killed: false }, now);
                    orders.push(Order::Stop(id.clone()));
                }
            } else if entry.phase != Phase::Doing {
                match next.clone() {
                    Some(unit) => *entry = Entry { incarnation: entry.incarnation, ..Entry::new(unit) },
                    None => gone.push(id.clone()),
                }
            }
        }
        for id in gone {
            self.entries.remove(&id);
        }
    }
}

fn stop_in_time(id: &str, entry: &mut Entry, now: u64, orders: &mut Vec<Order>) {
    if let Phase::Stopping { since, killed: false } = entry.phase
        && now > since + STOP_PATIENCE
    {
        entry.phase = Phase::Stopping { since, killed: true };
        orders.push(Order::Kill(id.to_owned()));
    }
}

fn ended(entry: &mut Entry, id: &str, how: String, now: u64) -> Vec<Order> {
    if matches!(entry.phase, Phase::Stopping { .. }) {
        (entry.phase, entry.since) = (Phase::Waiting { until: now }, now);
        return Vec::new();
    }
    entry.deaths += 1;
    let pause = entry.fail(how.clone(), now);
    vec![Order::Tell(format!("{id} ended ({how}), starting it again in {} ms", pause))]
}

/// Moves one unit on.
fn advance(entry: &mut Entry, ready: &BTreeMap<String, u64>, now: u64, orders: &mut Vec<Order>) {
    let before: Option<Vec<u64>> = entry.unit.after.iter().map(|id| ready.get(id).copied()).collect();
    match (&entry.unit.body, entry.phase) {
        (body, Phase::Waiting { until }) if now >= until => {
            let Some(before) = before else { return };
            (entry.built_on, entry.since) = (before, now);
            if let Body::Process(process) = body {
                let probing = process.probe != Probe::Runs;
                orders.push(Order::Start(entry.unit.clone()));
                entry.phase = Phase::Starting { probed: now, probing: false };
                if !probing {
                    entry.become_ready(now);
                }
            } else {
                entry.phase = Phase::Doing;
                orders.push(Order::Do(entry.unit.clone()));
            }
        }
        (_, Phase::Starting { probed, probing: false }) if now >= probed + PROBE_EVERY => {
            entry.phase = Phase::Starting { probed: now, probing: true };
            orders.push(Order::Probe(entry.unit.clone()));
        }
        // What it was built on was started anew: a bridge without its address, for one.
        (Body::Task(_), Phase::Ready) if before.as_ref().is_none_or(|before| *before != entry.built_on) => {
            (entry.phase, entry.since) = (Phase::Waiting { until: now }, now);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::unit::{Command, Process, Task};

    fn process(id: &str) -> Unit {
        let command = Command::new([id]);
        Unit::new(id, "", Body::Process(Process { command, files: Vec::new(), probe: Probe::Runs }))
    }

    fn task(id: &str) -> Unit {
        Unit::new(id, "", Body::Task(Task::Run(Vec::new())))
    }

    fn engine(units: Vec<Unit>) -> Engine {
        let mut engine = Engine::default();
        engine.replan(units);
        engine
    }

    fn done(id: &str) -> Event {
        Event::Done { id: id.into(), result: Ok(()) }
    }

    fn died(id: &str) -> Event {
        Event::Ended { id: id.into(), how: "signal 9".into() }
    }

    #[test]
    fn units_start_when_what_is_before_them_is_ready() {
        let mut engine = engine(vec![task("a"), process("b").after(["a"])]);
        assert_eq!(engine.tick(0), [Order::Do(task("a"))]);
        assert_eq!(engine.tick(10), []);
        engine.event(done("a"), 20);
        assert_eq!(engine.tick(20), [Order::Start(process("b").after(["a"]))]);
        assert!(engine.is_settled());
    }

    #[test]
    fn what_died_starts_again_after_a_pause_that_grows() {
        let mut engine = engine(vec![process("a")]);
        engine.tick(0);
        let told = engine.event(died("a"), 100);
        assert_eq!(told, [Order::Tell("a ended (signal 9), starting it again in 200 ms".into())]);
        assert_eq!(engine.tick(299), []);
        assert_eq!(engine.tick(300), [Order::Start(process("a"))]);
        engine.event(died("a"), 400);
        assert_eq!(engine.tick(799), []);
        assert_eq!(engine.tick(800).len(), 1);
        assert_eq!(engine.entries().next().unwrap().deaths, 2);
    }

    #[test]
    fn after_a_calm_time_the_pause_is_short_again() {
        let mut engine = engine(vec![process("a")]);
        for now in [0, 1_000, 3_000] {
            engine.tick(now);
            engine.event(died("a"), now + 10);
        }
        engine.tick(60_000);
        engine.event(died("a"), 100_000);
        assert_eq!(engine.tick(100_200), [Order::Start(process("a"))]);
    }

    #[test]
    fn tasks_are_done_again_when_their_ground_is_new() {
        let mut engine = engine(vec![process("switch"), task("address").after(["switch"]), task("other")]);
        engine.tick(0);
        engine.event(done("other"), 1);
        engine.tick(1);
        engine.event(done("address"), 2);
        assert!(engine.is_settled());
        engine.event(died("switch"), 10);
        let mut later = engine.tick(210);
        assert!(!engine.is_settled(), "the address is not there yet");
        later.extend(engine.tick(220));
        later.extend(engine.tick(230));
        assert_eq!(later, [Order::Start(process("switch")), Order::Do(task("address").after(["switch"]))]);
    }

    #[test]
    fn another_definition_takes_the_place_once_the_old_one_stopped() {
        let mut engine = engine(vec![process("a"), process("b")]);
        engine.tick(0);
        let mut other = process("a");
        other.step = "new".into();
        engine.replan(vec![other.clone()]);
        assert_eq!(engine.tick(10), [Order::Stop("a".into()), Order::Stop("b".into())]);
        engine.event(died("a"), 20);
        assert_eq!(engine.tick(20), [Order::Start(other)]);
        assert!(!engine.is_settled(), "b still runs");
        assert_eq!(engine.tick(10 + STOP_PATIENCE + 1), [Order::Kill("b".into())]);
        engine.event(died("b"), 6_000);
        engine.tick(6_000);
        assert!(engine.is_settled());
    }

    #[test]
    fn a_process_with_a_probe_is_ready_when_it_serves() {
        let mut unit = process("a");
        if let Body::Process(process) = &mut unit.body {
            process.probe = Probe::Socket("/x".into());
        }
        let mut engine = engine(vec![unit.clone()]);
        assert_eq!(engine.tick(0), [Order::Start(unit.clone())]);
        assert_eq!(engine.tick(PROBE_EVERY), [Order::Probe(unit.clone())]);
        engine.event(Event::Probed { id: "a".into(), serves: false }, 200);
        assert!(!engine.is_settled());
        assert_eq!(engine.tick(200 + PROBE_EVERY), [Order::Probe(unit)]);
        engine.event(Event::Probed { id: "a".into(), serves: true }, 400);
        assert!(engine.is_settled());
    }
}
