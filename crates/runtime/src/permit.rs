//! Until when this process may write: the hard end of a lease, seen by everybody who sends something.
//!
//! Owns one moment of the monotonic clock. Whoever sends looks at it before, and stops a request in flight at that moment.

use tokio::sync::watch;
use tokio::time::Instant;

/// Until when this process may write.
#[derive(Clone, Debug)]
pub struct Permit {
    /// Nothing means for ever: a role without a lease.
    until: Option<watch::Receiver<Instant>>,
}

impl Permit {
    /// For a role that needs no lease.
    pub const fn always() -> Self {
        Self { until: None }
    }

    /// A permit up to a moment, and the handle that moves the moment.
    pub(crate) fn until(moment: Instant) -> (Grant, Self) {
        let (sender, receiver) = watch::channel(moment);
        (Grant(sender), Self { until: Some(receiver) })
    }

    /// Whether nothing may be written any more.
    pub fn is_over(&self) -> bool {
        self.until.as_ref().is_some_and(|until| *until.borrow() <= Instant::now())
    }

    /// Returns when nothing may be written any more. The end moves while the lease is renewed.
    pub(crate) async fn over(&self) {
        let Some(mut until) = self.until.clone() else { return std::future::pending().await };
        loop {
            let moment = *until.borrow_and_update();
            if moment <= Instant::now() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(moment) => {}
                moved = until.changed() => if moved.is_err() {
                    // Nobody can move the end any more: it stays where it is.
                    return tokio::time::sleep_until(moment).await;
                },
            }
        }
    }
}

/// Moves the end of a [`Permit`].
#[derive(Debug)]
pub(crate) struct Grant(watch::Sender<Instant>);

impl Grant {
    pub(crate) fn extend(&self, until: Instant) {
        self.0.send_replace(until);
    }

    pub(crate) fn revoke(&self) {
        self.extend(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_permit_ends_when_it_says_unless_it_is_extended() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (grant, permit) = Permit::until(at(10));
        tokio::time::sleep_until(at(9)).await;
        grant.extend(at(19));
        tokio::time::sleep_until(at(15)).await;
        assert!(!permit.is_over());
        drop(grant);
        permit.over().await;
        assert_eq!((Instant::now(), permit.is_over()), (at(19), true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_can_be_taken_back() {
        let (grant, permit) = Permit::until(Instant::now() + Duration::from_secs(10));
        let start = Instant::now();
        tokio::join!(permit.over(), async { grant.revoke() });
        assert_eq!(start, Instant::now());
        assert!(!Permit::always().is_over());
    }
}
