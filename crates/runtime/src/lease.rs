//! The lease: one cluster manager at a time.
//!
//! Owns the Lease object. Losing it is a message; what ends then is the role's affair.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec as Spec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use tokio::time::Instant;

/// How long a lease holds after it was renewed.
const LEASE: Duration = Duration::from_secs(15);
/// How long the holder goes on without having renewed.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often the holder renews, and others look.
const RETRY: Duration = Duration::from_secs(2);
const TIME_OUT: Duration = Duration::from_secs(3);

/// The lease as it was read: who has it, and how often it changed hands.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LeaseSpec {
    /// Who has it; nobody when empty.
    pub holder: String,
    /// How long it holds after it was renewed, in seconds.
    pub seconds: i32,
    /// How often it changed hands.
    pub transitions: i32,
}

/// What follows from a lease.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It is ours: renew it.
    Renew,
    /// It is free or has run out: take it.
    Take,
    /// It is somebody else's.
    Wait,
}

/// What follows from a lease. Clocks differ between machines, so a foreign lease has run out only when it has not
/// changed for its whole length by our own clock: `unchanged_ms` is how long we have seen it as it is.
pub fn evaluate(lease: &LeaseSpec, me: &str, unchanged_ms: i64) -> Verdict {
    if lease.holder == me {
        Verdict::Renew
    } else if lease.holder.is_empty() || unchanged_ms >= i64::from(lease.seconds.max(1)) * 1000 {
        Verdict::Take
    } else {
        Verdict::Wait
    }
}

/// One who wants the lease.
pub struct Lease {
    api: Api<Object>,
    name: String,
    me: String,
    seen: Option<(Object, Instant)>,
}

impl Lease {
    /// Wants the lease of this name.
    pub fn new(client: Client, namespace: &str, name: &str, me: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), name: name.into(), me: me.into(), seen: None }
    }

    /// Waits until the lease is ours.
    pub async fn acquire(&mut self) {
        loop {
            match tokio::time::timeout(TIME_OUT, self.attempt()).await {
                Ok(Ok(true)) => return,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(lease = self.name, %error, "the lease cannot be read or written")
                }
                Err(_) => tracing::warn!(lease = self.name, "the API server does not answer"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Renews the lease until that fails for too long or somebody else has it, and says which.
    pub async fn keep(&mut self) -> String {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(RETRY).await;
            let reason = match tokio::time::timeout(TIME_OUT, self.attempt()).await {
                Ok(Ok(true)) => {
                    renewed = Instant::now();
                    continue;
                }
                Ok(Ok(false)) => return "somebody else has the lease".into(),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "the API server does not answer".into(),
            };
            if renewed.elapsed() >= RENEW_DEADLINE {
                return format!("the lease could not be renewed for 10 s: {reason}");
            }
        }
    }

    /// Gives the lease back, so that the next one need not wait.
    pub async fn release(&mut self) {
        let Some((object, _)) = self.seen.take() else { return };
        let spec = Spec { holder_identity: Some(String::new()), ..object.spec.clone().unwrap_or_default() };
        let object = Object { spec: Some(spec), ..object };
        let params = PostParams::default();
        let write = self.api.replace(&self.name, &params, &object);
        // Whoever comes next waits for the lease to run out; that is all that a failure costs.
        let _best_effort = tokio::time::timeout(TIME_OUT, write).await;
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
            lease_duration_seconds: i32::try_from(LEASE.as_secs()).ok(),
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
}
