//! Whether a role works, for `/readyz` and for metrics: what the role says of itself, which children had to be started
//! again, which watches are broken and since when.
//!
//! Owns how long a watch may be broken before it counts. Never mends anything.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::time::Instant;

/// A watch may break and come back within this time before anybody is told: API servers restart.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether the role works; shared between the role, its children and the server of metrics.
#[derive(Clone, Debug)]
pub struct Health(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    role: Result<(), String>,
    /// Children that ended and were started again, with the reason.
    restarted: BTreeMap<String, String>,
    /// Every watch by kind, with what is wrong with it.
    watches: BTreeMap<&'static str, Option<Trouble>>,
    /// When the watch of a kind last heard from the API server.
    heard: BTreeMap<&'static str, Instant>,
    /// Every component that the role depends on, and since when it owes an answer.
    components: BTreeMap<&'static str, Option<Trouble>>,
}

#[derive(Debug)]
struct Trouble {
    since: Instant,
    /// The same moment for people.
    clock: Timestamp,
    reason: String,
}

impl Health {
    /// Not ready, for this reason.
    pub fn waiting(reason: &str) -> Self {
        let role = Err(reason.into());
        Self(Arc::new(Mutex::new(State {
            role,
            restarted: BTreeMap::new(),
            watches: BTreeMap::new(),
            heard: BTreeMap::new(),
            components: BTreeMap::new(),
        })))
    }

    /// Takes what the role says of itself: ready, or why not.
    pub fn set(&self, ready: Result<(), String>) {
        self.state().role = ready;
    }

    /// Whether the role is ready; if not, everything that is wrong.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn get(&self) -> Result<(), String> {
        let state = self.state();
        let mut problems: Vec<String> = state.role.clone().err().into_iter().collect();
        let restarted = state.restarted.iter();
        problems.extend(restarted.map(|(task, reason)| format!("{task} was started again: {reason}")));
        let said = problems.first().cloned().unwrap_or_default();
        // A role that waits for the kind gives the same reason.
        let shown = state.broken().filter(|(_, trouble)| said != trouble.reason);
        problems.extend(shown.map(|(kind, trouble)| trouble.text(kind)));
        let silent = state.components.iter().filter_map(|(name, trouble)| Some((name, trouble.as_ref()?)));
        problems.extend(silent.map(|(name, trouble)| trouble.silence(name)));
        if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
    }

    /// Which watches have been broken for too long, in one sentence, apart from those of these kinds.
    pub fn broken_watches(&self, apart_from: &[&str]) -> Option<String> {
        let state = self.state();
        let broken = state.broken().filter(|(kind, _)| !apart_from.contains(kind));
        let texts: Vec<String> = broken.map(|(kind, trouble)| trouble.text(kind)).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    pub(crate) fn task_restarted(&self, task: &str, reason: &str) {
        self.state().restarted.insert(task.to_owned(), reason.to_owned());
    }

    pub(crate) fn task_lasts(&self, task: &str) {
        self.state().restarted.remove(task);
    }

    /// The watch of a kind does not follow the API server since that moment. The first moment counts until it heals.
    pub(crate) fn watch_broken(&self, kind: &'static str, since: Instant, reason: &str) {
        let mut state = self.state();
        let known = state.watches.entry(kind).or_default();
        let clock = Timestamp::now().checked_sub(since.elapsed()).unwrap_or_default();
        let trouble = known.get_or_insert_with(|| Trouble { since, clock, reason: String::new() });
        reason.clone_into(&mut trouble.reason);
    }

    pub(crate) fn watch_follows(&self, kind: &'static str) {
        self.state().watches.insert(kind, None);
    }

    pub(crate) fn watch_heard(&self, kind: &'static str) {
        self.state().heard.insert(kind, Instant::now());
    }

    /// A component has not answered since that moment; the role itself decides when that is too long.
    pub fn silent(&self, component: &'static str, since: Instant, advice: &str) {
        let mut state = self.state();
        let clock = Timestamp::now().checked_sub(since.elapsed()).unwrap_or_default();
        let known = state.components.entry(component).or_default();
        known.get_or_insert_with(|| Trouble { since, clock, reason: advice.to_owned() });
    }

    /// A component answers.
    pub fn answers(&self, component: &'static str) {
        self.state().components.insert(component, None);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn broken(&self) -> impl Iterator<Item = (&'static str, &Trouble)> {
        let troubled = self.watches.iter().filter_map(|(kind, trouble)| Some((*kind, trouble.as_ref()?)));
        troubled.filter(|(_, trouble)| trouble.lasts() >= PATIENCE)
    }
}

impl Trouble {
    fn lasts(&self) -> Duration {
        self.since.elapsed()
    }

    fn text(&self, kind: &str) -> String {
        let (lasts, since) = (self.lasts().as_secs(), self.clock.strftime("%FT%TZ"));
        format!("the watch of {kind} has been broken for {lasts} s, since {since}: {}", self.reason)
    }

    fn silence(&self, component: &str) -> String {
        let (lasts, since) = (self.lasts().as_secs(), self.clock.strftime("%FT%TZ"));
        format!("{component} has not answered for {lasts} s, since {since}: {}", self.reason)
    }
}

impl Collector for Health {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "How long the watch of a kind has been broken; 0 while it follows the API server";
        let name = "causeway_watch_broken_seconds";
        let state = self.state();
        encode(&mut encoder, name, help, "kind", &state.watches)?;
        let help = "How long a component has not answered, once that is too long; 0 while it answers";
        encode(&mut encoder, "causeway_component_silent_seconds", help, "component", &state.components)?;
        let help = "How long ago the watch of a kind last heard from the API server, which sends a sign of life every minute";
        let name = "causeway_watch_age_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (kind, heard) in &state.heard {
            let seconds = heard.elapsed().as_secs_f64();
            ConstGauge::new(seconds).encode(family.encode_family(&[("kind", *kind)])?)?;
        }
        Ok(())
    }
}

/// One gauge for each of those that may be in trouble: for how long they are.
fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    all: &BTreeMap<&'static str, Option<Trouble>>,
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (who, trouble) in all {
        let seconds = trouble.as_ref().map_or(0.0, |trouble| trouble.lasts().as_secs_f64());
        ConstGauge::new(seconds).encode(family.encode_family(&[(label, *who)])?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    fn metrics(health: &Health) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(health.clone()));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_stays_broken_shows_until_it_heals() {
        let health = Health::waiting("starting");
        health.set(Ok(()));
        health.watch_broken("pods", Instant::now(), "connection refused");
        tokio::time::advance(Duration::from_secs(29)).await;
        health.watch_broken("pods", Instant::now(), "no route");
        assert_eq!((health.get(), health.broken_watches(&[])), (Ok(()), None));
        tokio::time::advance(Duration::from_secs(1)).await;
        let problem = health.get().unwrap_err();
        assert_eq!(health.broken_watches(&[]).as_ref(), Some(&problem));
        assert_eq!(health.broken_watches(&["pods"]), None, "who does not need them");
        assert!(problem.starts_with("the watch of pods has been broken for 30 s, since 2"), "{problem}");
        assert!(problem.ends_with(": no route"), "{problem}");
        assert!(metrics(&health).contains("causeway_watch_broken_seconds{kind=\"pods\"} 30.0"));
        health.watch_follows("pods");
        assert_eq!(health.get(), Ok(()));
        assert!(metrics(&health).contains("causeway_watch_broken_seconds{kind=\"pods\"} 0.0"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_component_shows_until_it_answers() {
        let health = Health::waiting("starting");
        health.set(Ok(()));
        let since = Instant::now();
        tokio::time::advance(Duration::from_secs(40)).await;
        health.silent("ovn-controller", since, "look");
        let problem = health.get().unwrap_err();
        assert!(problem.starts_with("ovn-controller has not answered for 40 s, since 2"), "{problem}");
        let silent = "causeway_component_silent_seconds{component=\"ovn-controller\"}";
        assert!(metrics(&health).contains(&format!("{silent} 40.0")));
        health.answers("ovn-controller");
        assert_eq!(health.get(), Ok(()));
        assert!(metrics(&health).contains(&format!("{silent} 0.0")));
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_role_says_already_is_not_said_twice() {
        let health = Health::waiting("pods may not be listed");
        health.watch_broken("pods", Instant::now(), "pods may not be listed");
        tokio::time::advance(PATIENCE).await;
        assert_eq!(health.get(), Err("pods may not be listed".into()));
    }
}
