//! Whether an attachment is a network, seen with the eyes of a tenant who wants into somebody else's.

use causeway_api::intent::{Network, Problem, Reason};
use causeway_api::nad::{Attachment, impersonation, same_network};
use causeway_record::{Nad, ObjectKey};
use causeway_types::{NamespaceName, NetworkName};

use super::{Attachments, Verdict, controlled_by};
use crate::namespaces::Namespaces;
use crate::networks::Networks;
use crate::nodes::Nodes;
use crate::owners::Owners;
use crate::pods::Pods;
use crate::trouble::{Lacks, Trouble, invalid_primary_network};
use crate::{Config, OwnerKey};

/// What speaks for and against an attachment.
pub(crate) struct Admission<'a> {
    pub(crate) config: &'a Config,
    pub(crate) nodes: &'a Nodes,
    pub(crate) namespaces: &'a Namespaces,
    pub(crate) owners: &'a Owners,
    pub(crate) attachments: &'a Attachments,
    pub(crate) networks: &'a Networks,
    pub(crate) pods: &'a Pods,
}

/// What is found out about an attachment before a network is made of it.
pub(crate) enum Answer {
    Known(Verdict),
    /// It goes on as it is, and this is said of what it says now.
    Runs(Verdict, Trouble),
    /// It is this network if that can be had.
    Asks(Box<Network>),
}

impl Admission<'_> {
    /// What the attachment is.
    pub(crate) fn answer(&self, key: &ObjectKey) -> Answer {
        let Some(nad) = self.attachments.get(key) else { return Answer::Known(Verdict::Foreign) };
        match controlled_by(nad) {
            Some(uid) => Answer::Known(self.rendered(nad, uid)),
            None => match nad.attachment.clone() {
                Attachment::Foreign | Attachment::Unreadable(_) => Answer::Known(Verdict::Foreign),
                Attachment::Malformed(problem) => Answer::Known(Verdict::Refused(problem.into())),
                Attachment::Ours(network) => self.written(key, network),
            },
        }
    }

    /// An attachment says itself who controls it, so it counts only where that object wants it.
    fn rendered(&self, nad: &Nad, uid: &str) -> Verdict {
        let key = &nad.key;
        let Some(owner) = self.owners.with_uid(uid) else { return Verdict::Stale };
        let network = owner.network();
        let known = self.networks.get(&network);
        // While its selector cannot be read, an object keeps what it has been given.
        let held = self.owners.is_held(owner) && nad.network.as_ref() == Some(&network);
        if !self.owners.wants(owner, key) && !held {
            // Pods may still use an attachment of a namespace that is not selected any more. That the network's name stands
            // on it shows that the manager itself has given it: nobody else may write that annotation.
            let used = self.pods.users(key).is_some() && nad.network.as_ref() == Some(&network);
            return if used && known.is_some() { Verdict::Accepted(network) } else { Verdict::Stale };
        }
        let Some(state) = known else { return Verdict::Foreign };
        match self.second_primary(key).filter(|_| state.intent().is_primary()) {
            Some(trouble) => Verdict::Second(trouble),
            None => Verdict::Accepted(network),
        }
    }

    fn written(&self, key: &ObjectKey, network: Box<Network>) -> Answer {
        if let Some(trouble) = self.written_trouble(key, &network) {
            return match self.running(key) {
                Some(running) => Answer::Runs(Verdict::Accepted(running), trouble),
                None => Answer::Known(Verdict::Refused(trouble)),
            };
        }
        match self.second_primary(key).filter(|_| network.is_primary()) {
            Some(trouble) => Answer::Known(Verdict::Second(trouble)),
            None => Answer::Asks(network),
        }
    }

    /// The network that pods have through an attachment: neither an edit nor a clash that comes later takes it from under them.
    fn running(&self, key: &ObjectKey) -> Option<NetworkName> {
        let used = self.pods.users(key).is_some();
        let accepted = self.attachments.network_of(key).or_else(|| {
            // Another manager finds it by what only a manager may write.
            let nad = self.attachments.get(key).filter(|nad| nad.is_numbered())?;
            nad.network.as_ref().filter(|name| !self.namespaces.reserve(name))
        });
        accepted.filter(|name| used && self.networks.get(name).is_some()).cloned()
    }

    /// What speaks against a network that is written by hand.
    fn written_trouble(&self, key: &ObjectKey, network: &Network) -> Option<Trouble> {
        if let Some(flag) = self.config.features.without_networks() {
            let message = format!("networks besides the default one are switched off ({flag})");
            return Some(Trouble::new("FeatureDisabled", message));
        }
        let text = key.to_string();
        let foreign = impersonation(&text, &network.name, None, |name| self.namespaces.reserve(name));
        let clash = self.networks.clash_of(&network.name).cloned();
        // Whoever names somebody else's network must not learn from the answer what that is like.
        let known = self.networks.get(&network.name).filter(|_| foreign.is_none());
        let other = known.and_then(|state| same_network(&text, state.intent(), network));
        let moved = self.running(key).filter(|running| *running != network.name).map(|running| {
            let message = format!(
                "NAD {key} has pods on network {running}: delete them before it names another network"
            );
            Problem::new(Reason::InvalidAttachment, message)
        });
        let mut problems: Vec<Problem> = foreign.into_iter().chain(clash).chain(other).chain(moved).collect();
        if problems.is_empty() {
            problems = network.problems(&self.config.cluster);
        }
        if let Err(trouble) = self.networks.check_underlay(network, self.nodes) {
            problems.push(Problem::new(Reason::OverlappingSubnets, trouble.message));
        }
        if network.is_primary() && !self.namespaces.is_labelled(&key.namespace) {
            let trouble = invalid_primary_network(key.namespace.as_str(), Lacks::Label);
            problems.push(Problem::new(Reason::InvalidAttachment, trouble.message));
        }
        (!problems.is_empty()).then(|| Trouble::from(&problems[..]))
    }

    /// Another attachment of the namespace is its primary network already, and this one cannot be beside it.
    fn second_primary(&self, key: &ObjectKey) -> Option<Trouble> {
        let owner = self.attachments.owner(key, self.owners);
        let is_primary = |name: &NetworkName| self.networks.is_primary(name);
        let mut others = self.attachments.accepted_beside(key).filter(|other| {
            self.attachments.network_of(other).is_some_and(is_primary)
                && !self.attachments.are_beside(key, owner, other, self.owners)
        });
        others.next().map(|other| primary_exists(&key.namespace, &other.name))
    }
}

impl Attachments {
    /// Whether two attachments of a namespace are of networks that may both be its primary ones. One that has been given numbers was
    /// found to stand beside those of its kind; what has changed since is its object's to say.
    pub(crate) fn are_beside(
        &self,
        nad: &ObjectKey,
        owner: Option<&OwnerKey>,
        other: &ObjectKey,
        owners: &Owners,
    ) -> bool {
        let others_owner = self.owner(other, owners);
        let Some((own, other_owner)) = owner.zip(others_owner) else { return false };
        let is_numbered = |nad| self.get(nad).is_some_and(Nad::is_numbered);
        let same_kind = std::mem::discriminant(own) == std::mem::discriminant(other_owner);
        let settled = same_kind && is_numbered(nad) && is_numbered(other);
        settled || owners.are_siblings(own, other_owner)
    }
}

pub(crate) fn primary_exists(namespace: &NamespaceName, other: &str) -> Trouble {
    let message = format!("primary network already exist in namespace \"{namespace}\": \"{other}\"");
    Trouble::new("PrimaryNetworkConflict", message)
}
