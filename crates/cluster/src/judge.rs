//! Whether an attachment is a network, seen with the eyes of a tenant who wants into somebody else's.

use causeway_api::intent::{Network, Problem, Reason};
use causeway_api::nad::{Attachment, impersonation, same_network};
use causeway_record::ObjectKey;
use causeway_types::{NamespaceName, NetworkName, NetworkOrigin};

use crate::nads::{NadState, Verdict, controlled_by};
use crate::trouble::Trouble;
use crate::{Manager, OwnerKey};

impl Manager {
    /// What the attachment is. A network that is written by hand and new gets its numbers here.
    pub(crate) fn judge(&mut self, key: &ObjectKey) -> Verdict {
        let Some(nad) = self.nads.all.get(key) else { return Verdict::Foreign };
        match controlled_by(&nad.record) {
            Some(uid) => self.judge_rendered(nad, self.owners.by_uid.get(uid)),
            None => match &nad.record.attachment {
                Attachment::Foreign | Attachment::Unreadable(_) => Verdict::Foreign,
                Attachment::Malformed(problem) => Verdict::Refused(problem.clone().into()),
                Attachment::Ours(network) => self.judge_written(key, &network.clone()),
            },
        }
    }

    /// An attachment says itself who controls it, so it counts only where that object wants it.
    fn judge_rendered(&self, nad: &NadState, owner: Option<&OwnerKey>) -> Verdict {
        let key = &nad.record.key;
        let Some((owner_key, owner)) = owner.and_then(|key| Some((key, self.owners.all.get(key)?))) else {
            return Verdict::Stale;
        };
        let wanted = owner.wanted.contains(&key.namespace) && key.name == owner_key.name().as_str();
        let network = owner_key.network();
        if !wanted {
            // Pods may still use an attachment of a namespace that is not selected any more.
            let used = self.pods.users.contains_key(key) && carries(nad, &network);
            let known = self.networks.all.contains_key(&network);
            return if used && known { Verdict::Accepted(network) } else { Verdict::Stale };
        }
        let Some(state) = self.networks.all.get(&network) else { return Verdict::Foreign };
        if state.intent.is_primary()
            && let Some(trouble) = self.second_primary(key)
        {
            return Verdict::Second(trouble);
        }
        Verdict::Accepted(network)
    }

    fn judge_written(&mut self, key: &ObjectKey, network: &Network) -> Verdict {
        if let Some(trouble) = self.written_trouble(key, network) {
            return Verdict::Refused(trouble);
        }
        if network.is_primary()
            && let Some(trouble) = self.second_primary(key)
        {
            return Verdict::Second(trouble);
        }
        match self.register(network.clone(), None) {
            Ok(()) => Verdict::Accepted(network.name.clone()),
            Err(trouble) => Verdict::Refused(trouble),
        }
    }

    /// What speaks against a network that is written by hand.
    fn written_trouble(&self, key: &ObjectKey, network: &Network) -> Option<Trouble> {
        if let Some(flag) = self.config.features.without_networks() {
            let message = format!("networks besides the default one are switched off ({flag})");
            return Some(Trouble::new("FeatureDisabled", message));
        }
        let text = key.to_string();
        let foreign = impersonation(&text, &network.name, None, |name| self.is_taken(name));
        let clash = self.networks.clashes.get(&network.name).cloned();
        // Whoever names somebody else's network must not learn from the answer what that is like.
        let known = self.networks.all.get(&network.name).filter(|_| foreign.is_none());
        let other = known.and_then(|state| same_network(&text, &state.intent, network));
        let mut problems: Vec<Problem> = foreign.into_iter().chain(clash).chain(other).collect();
        if problems.is_empty() {
            problems = network.problems(&self.config.cluster);
        }
        if network.is_primary() && !self.namespaces.is_labelled(&key.namespace) {
            let trouble = crate::trouble::invalid_primary_network(key.namespace.as_str());
            problems.push(Problem::new(Reason::InvalidAttachment, trouble.message));
        }
        (!problems.is_empty()).then(|| Trouble::from(&problems[..]))
    }

    /// Names of networks that belong to custom resources, whether they are there yet or not: whoever could create the
    /// object later must not find somebody in its network.
    pub(crate) fn is_taken(&self, name: &NetworkName) -> bool {
        match name.origin() {
            NetworkOrigin::Cluster(_) => true,
            NetworkOrigin::Namespaced(namespace, _) => self.namespaces.all.contains_key(&namespace),
            NetworkOrigin::Default | NetworkOrigin::Bare => false,
        }
    }

    /// Another attachment of the namespace is its primary network already.
    fn second_primary(&self, key: &ObjectKey) -> Option<Trouble> {
        let (other, _) = self.primary_of(&key.namespace)?;
        (other != key).then(|| primary_exists(&key.namespace, &other.name))
    }

    /// Other attachments of the namespace that are, or want to be, its primary network.
    pub(crate) fn other_primaries(&self, key: &ObjectKey) -> Vec<String> {
        let others = self.nads.of(&key.namespace).filter(|nad| nad.record.key != *key && nad.is_primary());
        let counts = |nad: &&NadState| matches!(nad.verdict, Verdict::Accepted(_) | Verdict::Second(_));
        others.filter(counts).map(|nad| nad.record.key.name.clone()).collect()
    }

    /// Another network whose attachment in the namespace is being created: two that come at once must not both be the
    /// namespace's.
    pub(crate) fn coming_primary(&self, key: &OwnerKey, namespace: &NamespaceName) -> Option<String> {
        let others =
            self.owners.by_namespace.get(namespace).into_iter().flatten().filter(|other| *other != key);
        let coming = |other: &&OwnerKey| {
            self.owners.all.get(*other).is_some_and(|owner| {
                let primary = owner.intent.as_ref().is_ok_and(Network::is_primary);
                primary && !owner.object.deleting && owner.report.creating.contains(namespace)
            })
        };
        others.into_iter().find(coming).map(|other| other.name().to_string())
    }
}

/// Whether the manager itself has given the attachment this network: nobody else may write that annotation.
fn carries(nad: &NadState, network: &NetworkName) -> bool {
    nad.record.network.as_ref() == Some(network)
}

pub(crate) fn primary_exists(namespace: &NamespaceName, other: &str) -> Trouble {
    let message = format!("primary network already exist in namespace \"{namespace}\": \"{other}\"");
    Trouble::new("PrimaryNetworkConflict", message)
}
