//! The lease: one cluster manager at a time.
//!
//! Owns the Lease object and the end of the [`Permit`] to write. The end is hard: it counts from the moment before the last
//! successful renewal was sent, so nobody else can have taken the lease by then. Losing it is a message; what ends then is
//! the role's affair.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec as Spec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use tokio::time::Instant;

use crate::permit::{Grant, Permit};

/// How long everything about a lease takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Times {
    /// How long a lease holds after it was renewed.
    pub lease: Duration,
    /// How long the holder writes without having renewed.
    pub renew_deadline: Duration,
    /// How often the holder renews, and others look.
    pub retry: Duration,
    /// How long one look or renewal may take.
    pub time_out: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
            time_out: Duration::from_secs(3),
        }
    }
}

/// The lease as it was read: who has it, and how often it changed hands.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct LeaseSpec {
    /// Who has it; nobody when empty.
    holder: String,
    /// How long it holds after it was renewed, in seconds.
    seconds: i32,
    /// How often it changed hands.
    transitions: i32,
}

/// What follows from a lease.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Verdict {
    /// It is ours: renew it.
    Renew,
    /// It is free or has run out: take it.
    Take,
    /// It is somebody else's.
    Wait,
}

/// What follows from a lease. Clocks differ between machines, so a foreign lease has run out only when it has not
/// changed for its whole length by our own clock: `unchanged_ms` is how long we have seen it as it is.
fn evaluate(lease: &LeaseSpec, me: &str, unchanged_ms: i64) -> Verdict {
    if lease.holder == me {
        Verdict::Renew
    } else if lease.holder.is_empty() || unchanged_ms >= i64::from(lease.seconds.max(1)) * 1000 {
        Verdict::Take
    } else {
        Verdict::Wait
    }
}

/// One who wants the lease.
#[derive(Clone)]
pub struct Lease {
    api: Api<Object>,
    name: String,
    me: String,
    times: Times,
    seen: Option<(Object, Instant)>,
}

impl Lease {
    /// Wants the lease of this name.
    pub fn new(client: Client, namespace: &str, name: &str, me: &str, times: Times) -> Self {
        Self { api: Api::namespaced(client, namespace), name: name.into(), me: me.into(), times, seen: None }
    }

    /// Waits until the lease is ours. The permit ends at the deadline unless the second value is run, which renews the
    /// lease until that fails for too long or somebody else has it, and says which.
    pub async fn acquire(&mut self) -> (Permit, impl Future<Output = String> + Send + use<>) {
        loop {
            let begun = Instant::now();
            match self.attempt_within(begun + self.times.time_out).await {
                Ok(true) => {
                    let (grant, permit) = Permit::until(begun + self.times.renew_deadline);
                    return (permit, self.clone().keep(begun, grant));
                }
                Ok(false) => {}
                Err(problem) => tracing::warn!(lease = self.name, problem, "the lease is not ours"),
            }
            tokio::time::sleep(self.times.retry).await;
        }
    }

    async fn keep(mut self, mut renewed: Instant, grant: Grant) -> String {
        let Times { renew_deadline, retry, time_out, .. } = self.times;
        loop {
            let until = renewed + renew_deadline;
            tokio::time::sleep_until(until.min(Instant::now() + retry)).await;
            let begun = Instant::now();
            let problem = match self.attempt_within(until.min(begun + time_out)).await {
                Ok(true) => {
                    renewed = begun;
                    grant.extend(renewed + renew_deadline);
                    continue;
                }
                Ok(false) => {
                    grant.revoke();
                    return "somebody else has the lease".into();
                }
                Err(problem) => problem,
            };
            tracing::warn!(lease = self.name, problem, "the lease was not renewed");
            if until <= Instant::now() {
                return format!("the lease could not be renewed for {renew_deadline:?}: {problem}");
            }
        }
    }

    /// Gives the lease back, so that the next one need not wait. Only after everything that writes has ended.
    pub async fn release(&mut self) {
        let release = async {
            let Ok(Some(object)) = self.api.get_opt(&self.name).await else { return };
            let spec = object.spec.clone().unwrap_or_default();
            if spec.holder_identity.as_ref() == Some(&self.me) {
                let spec = Spec { holder_identity: Some(String::new()), ..spec };
                let object = Object { spec: Some(spec), ..object };
                // Whoever comes next waits for the lease to run out; that is all that a failure costs.
                let _best_effort = self.api.replace(&self.name, &PostParams::default(), &object).await;
            }
        };
        let _best_effort = tokio::time::timeout(self.times.time_out, release).await;
    }

    async fn attempt_within(&mut self, moment: Instant) -> Result<bool, String> {
        match tokio::time::timeout_at(moment, self.attempt()).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err("the API server does not answer".into()),
        }
    }

    /// Whether the lease is ours now.
    async fn attempt(&mut self) -> Result<bool, Error> {
        let Some(object) = self.api.get_opt(&self.name).await? else {
            return self.create().await;
        };
        let unchanged = self.unchanged(&object);
        let lease = read(&object);
        match evaluate(&lease, &self.me, i64::try_from(unchanged.as_millis()).unwrap_or(i64::MAX)) {
            Verdict::Wait => Ok(false),
            verdict => self.write(object, &lease, verdict == Verdict::Take).await,
        }
    }

    fn unchanged(&mut self, object: &Object) -> Duration {
        match &self.seen {
            Some((seen, since)) if seen.metadata.resource_version == object.metadata.resource_version => {
                since.elapsed()
            }
            _ => {
                self.seen = Some((object.clone(), Instant::now()));
                Duration::ZERO
            }
        }
    }

    async fn create(&mut self) -> Result<bool, Error> {
        let object = Object {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            spec: Some(self.spec(0, Some(now()))),
        };
        let written = self.api.create(&PostParams::default(), &object).await;
        self.taken(written)
    }

    /// Written only over what was read: of two that try, one is refused.
    async fn write(&mut self, object: Object, lease: &LeaseSpec, taking: bool) -> Result<bool, Error> {
        let acquired = object.spec.as_ref().and_then(|spec| spec.acquire_time.clone());
        let (transitions, acquired) =
            if taking { (lease.transitions + 1, Some(now())) } else { (lease.transitions, acquired) };
        let object = Object { spec: Some(self.spec(transitions, acquired)), ..object };
        let written = self.api.replace(&self.name, &PostParams::default(), &object).await;
        self.taken(written)
    }

    /// A write that was refused because somebody was faster is an error like any other: the next look tells.
    fn taken(&mut self, written: Result<Object, Error>) -> Result<bool, Error> {
        self.seen = Some((written?, Instant::now()));
        Ok(true)
    }

    fn spec(&self, transitions: i32, acquired: Option<MicroTime>) -> Spec {
        Spec {
            holder_identity: Some(self.me.clone()),
            lease_duration_seconds: i32::try_from(self.times.lease.as_secs()).ok(),
            acquire_time: acquired,
            renew_time: Some(now()),
            lease_transitions: Some(transitions),
            ..Spec::default()
        }
    }
}

fn now() -> MicroTime {
    MicroTime(Timestamp::now())
}

fn read(object: &Object) -> LeaseSpec {
    let spec = object.spec.clone().unwrap_or_default();
    LeaseSpec {
        holder: spec.holder_identity.unwrap_or_default(),
        seconds: spec.lease_duration_seconds.unwrap_or(15),
        transitions: spec.lease_transitions.unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Answer;

    #[test]
    fn a_lease_is_taken_when_it_is_free_or_has_stood_still() {
        let lease = |holder: &str| LeaseSpec { holder: holder.into(), seconds: 15, ..LeaseSpec::default() };
        assert_eq!(evaluate(&lease("me"), "me", 0), Verdict::Renew);
        assert_eq!(evaluate(&lease(""), "me", 0), Verdict::Take);
        assert_eq!(evaluate(&lease("other"), "me", 14_999), Verdict::Wait);
        assert_eq!(evaluate(&lease("other"), "me", 15_000), Verdict::Take);
        let broken = LeaseSpec { seconds: 0, ..lease("other") };
        assert_eq!(evaluate(&broken, "me", 999), Verdict::Wait);
    }

    /// Holds the lease on a server that answers until it is told to stop.
    fn lease(answers: impl Fn() -> bool + Send + 'static) -> (Lease, crate::fake::Asked) {
        let mut object = serde_json::Value::Null;
        let (client, asked) = crate::fake::client(move |what, body| {
            if !answers() {
                return Answer::Silence;
            }
            match what.split(' ').next() {
                Some("POST" | "PUT") => object = body,
                _ if object.is_null() => return Answer::Status(404),
                _ => {}
            }
            Answer::Object(object.clone())
        });
        (Lease::new(client, "causeway", "lease", "me", Times::default()), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_renewed_permits_and_one_that_is_not_ends_at_the_deadline() {
        let start = Instant::now();
        let (mut lease, _) = lease(move || start.elapsed() < Duration::from_secs(61));
        let (permit, keep) = lease.acquire().await;
        let reason = keep.await;
        assert_eq!(reason, "the lease could not be renewed for 10s: the API server does not answer");
        // The last renewal was sent after 60 s.
        assert_eq!((start.elapsed().as_millis() / 100, permit.is_over()), (700, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_ends_even_if_nobody_renews() {
        let start = Instant::now();
        let (mut lease, _) = lease(|| true);
        let (permit, keep) = lease.acquire().await;
        permit.over().await;
        assert_eq!(start.elapsed().as_secs(), 10);
        drop(keep);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_somebody_else_has_taken_ends_the_permit_at_once() {
        let taken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = std::sync::Arc::clone(&taken);
        let mut object = serde_json::Value::Null;
        let (client, _) = crate::fake::client(move |what, body| {
            if what.starts_with("POST") {
                object = body;
            }
            if seen.load(std::sync::atomic::Ordering::Relaxed) {
                object["spec"]["holderIdentity"] = "other".into();
            }
            if object.is_null() { Answer::Status(404) } else { Answer::Object(object.clone()) }
        });
        let mut lease = Lease::new(client, "causeway", "lease", "me", Times::default());
        let (permit, keep) = lease.acquire().await;
        taken.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!((keep.await.as_str(), permit.is_over()), ("somebody else has the lease", true));
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_own_lease_is_given_back() {
        let (mut mine, asked) = lease(|| true);
        let (_permit, _keep) = mine.acquire().await;
        let mut others = Lease { me: "other".into(), ..mine.clone() };
        others.release().await;
        mine.release().await;
        let asked: Vec<String> = asked.lock().unwrap().iter().map(|(_, what)| what[..4].to_owned()).collect();
        assert_eq!(asked, ["GET ", "POST", "GET ", "GET ", "PUT "]);
    }
}
