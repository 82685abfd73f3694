//! Why something is not as it should be, for conditions and events.

use causeway_api::conditions::Finding;
use causeway_api::intent::Problem;

/// One word for conditions and a sentence for people.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Trouble {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Trouble {
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Self {
        Self::new(problem.reason.as_str(), problem.message)
    }
}

impl From<&[Problem]> for Trouble {
    /// The first problem gives the word, all of them the sentence.
    fn from(problems: &[Problem]) -> Self {
        let reason = problems.first().map_or("InvalidSpec", |problem| problem.reason.as_str());
        let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        Self::new(reason, messages.join("\n"))
    }
}

/// Events about pods that get no address.
pub(crate) const ERROR_ALLOCATING_POD: &str = "ErrorAllocatingPod";
/// Events about what a pod asks for besides addresses.
pub(crate) const ERROR_UPDATING_RESOURCE: &str = "ErrorUpdatingResource";
/// Events about attachments that are no network.
pub(crate) const INVALID_CONFIG: &str = "InvalidConfig";
/// Events about networks that lack something.
pub(crate) const NETWORK_ALLOCATION_FAILED: &str = "NetworkAllocationFailed";

/// A namespace without the label has a primary network, or one with it has none.
pub(crate) fn invalid_primary_network(namespace: &str) -> Trouble {
    let message = format!(
        "invalid primary network state for namespace {namespace:?}: a valid primary user defined network or network \
         attachment definition custom resource, and required namespace label \
         \"k8s.ovn.org/primary-user-defined-network\" must both be present"
    );
    Trouble::new("InvalidPrimaryNetwork", message)
}

/// Lists in messages name this many; the rest is counted.
pub(crate) const LISTED: usize = 20;

/// A list for people that stays short.
pub(crate) fn listed<T: ToString>(items: impl IntoIterator<Item = T>, separator: &str) -> String {
    let texts: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    let more = texts.len().saturating_sub(LISTED);
    let shown = texts[..texts.len() - more].join(separator);
    if more == 0 { format!("[{shown}]") } else { format!("[{shown}{separator}and {more} more]") }
}

/// What is found out about an object, for a condition.
pub(crate) fn finding(kind: &str, status: bool, reason: &str, message: String) -> Finding {
    Finding { kind: kind.into(), status, reason: reason.into(), message }
}
