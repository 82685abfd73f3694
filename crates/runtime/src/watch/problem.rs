//! What an answer of the API server means for a watch.

use std::time::Duration;

use causeway_record::{Broken, Cause};
use kube::core::Status;

/// Why a watch does not go on.
#[derive(Debug)]
pub(super) enum Stop {
    /// Nobody listens any more.
    Deserted,
    /// What was seen last is too old to go on from: everything is listed anew.
    TooOld,
    /// The request is not understood: older API servers have no streams of lists.
    Misunderstood(Broken),
    /// Anything else, in words for people.
    Broken(Broken),
}

impl Stop {
    pub(super) fn from_error(error: &kube::Error, kind: &str) -> Self {
        match error {
            kube::Error::Api(status) => Self::from_status(status, kind),
            error => Self::other(kind, error),
        }
    }

    pub(super) fn from_status(status: &Status, kind: &str) -> Self {
        let (cause, message) = match status.code {
            410 => return Self::TooOld,
            400 | 422 => {
                let message = format!("{kind}: {}", status.message);
                return Self::Misunderstood(Broken { cause: Cause::Other, message });
            }
            404 => {
                let advice = "apply the custom resource definitions (causeway crds)";
                (Cause::NotInstalled, format!("{kind} are not installed in this cluster: {advice}"))
            }
            403 => {
                let advice = "apply the roles (causeway crds --set roles)";
                (Cause::Forbidden, format!("{kind} may not be listed: {advice}: {}", status.message))
            }
            _ => return Self::other(kind, &status.message),
        };
        Self::Broken(Broken { cause, message })
    }

    pub(super) fn silence(kind: &str, after: Duration) -> Self {
        Self::other(kind, &format!("the API server has said nothing for {} s", after.as_secs()))
    }

    pub(super) fn other(kind: &str, problem: &dyn std::fmt::Display) -> Self {
        Self::Broken(Broken { cause: Cause::Other, message: format!("{kind}: {problem}") })
    }
}
