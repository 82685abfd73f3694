//! Why something is not as it should be, for conditions and events.

use causeway_api::annotations::keys;
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
/// A network that has no address left.
pub(crate) const SUBNET_EXHAUSTED: &str = "SubnetExhausted";
/// Events about additional networks that a pod asks for.
pub(crate) const ADDITIONAL_NETWORK_LEFT_OUT: &str = "AdditionalNetworkLeftOut";
/// Events about what a pod asks for besides addresses.
pub(crate) const ERROR_UPDATING_RESOURCE: &str = "ErrorUpdatingResource";
/// Events about attachments that are no network.
pub(crate) const INVALID_CONFIG: &str = "InvalidConfig";
/// Events about nodes that claim what is another's.
pub(crate) const CHASSIS_CLAIM_REFUSED: &str = "ChassisClaimRefused";
/// Events about nodes that numbers wait for.
pub(crate) const FREED_NUMBERS_WAIT: &str = "FreedNumbersWait";
/// Events about networks that lack something.
pub(crate) const NETWORK_ALLOCATION_FAILED: &str = "NetworkAllocationFailed";

/// What a namespace lacks for a primary network.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lacks {
    /// It has a primary network and not the label.
    Label,
    /// It has the label and no primary network.
    Network,
}

/// A namespace without the label has a primary network, or one with it has none. Tools look for the sentence at the end.
pub(crate) fn invalid_primary_network(namespace: &str, lacks: Lacks) -> Trouble {
    let label = keys::PRIMARY_NETWORK_LABEL;
    let fault = match lacks {
        Lacks::Label => format!(
            "namespace {namespace} lacks the label {label}, which only a new namespace can get: create the namespace anew with \
             it, or use role Secondary"
        ),
        Lacks::Network => format!(
            "namespace {namespace} has the label {label} and no primary network that is ready: create a UserDefinedNetwork with \
             role Primary in it, or a ClusterUserDefinedNetwork that selects it"
        ),
    };
    let message = format!(
        "{fault} (invalid primary network state for namespace {namespace:?}: a valid primary user defined network or \
         network attachment definition custom resource, and required namespace label {label:?} must both be present)"
    );
    Trouble::new("InvalidPrimaryNetwork", message)
}

/// A selector that matches nothing.
pub(crate) fn no_namespace() -> Trouble {
    let message = "its namespaceSelector matches no namespace, so no pod can use it: label a namespace, or change the selector";
    Trouble::new("NoNamespaceSelected", message)
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
    Finding { kind: kind.into(), status: Some(status), reason: reason.into(), message }
}
