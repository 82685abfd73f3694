//! Siblings: several primary networks for the pods of one namespace. Their pods reach each other, so an address must tell whose it is,
//! and whoever is in one of them is, in effect, in all.
//!
//! They are UserDefinedNetworks of one namespace, or ClusterUserDefinedNetworks with one selector; never both. Of two that cannot
//! stand side by side the one that has been rendered stays, then the older one, and the other says so until the cause is gone.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::intent::{Network, Transport};
use causeway_api::selector::LabelMatch;
use causeway_types::{NamespaceName, NetworkId, NetworkSet, ObjectName, sibling_link};

use super::{Owner, Owners};
use crate::beside::Beside;
use crate::dirty::Dirty;
use crate::networks::Networks;
use crate::trouble::Trouble;
use crate::{Config, OwnerKey};

/// The most primary networks of a namespace: each has a road, and all services of the namespace, in every zone.
pub(crate) const MOST_SIBLINGS: usize = 32;

const CONFLICT: &str = "PrimaryNetworkConflict";

/// What keeps objects with primary networks side by side, or apart. A tenant may write many, so those that are refused are not
/// searched through for others.
#[derive(Debug, Default)]
pub(super) struct Siblings {
    /// ClusterUserDefinedNetworks that want the same namespaces.
    meetings: Beside<ObjectName>,
    /// UserDefinedNetworks of a namespace that others have to stand beside.
    standing: BTreeMap<NamespaceName, BTreeSet<OwnerKey>>,
    /// Who is refused because of whom.
    blocking: BTreeMap<OwnerKey, BTreeSet<OwnerKey>>,
}

/// Why a network cannot be beside another one.
pub(super) struct Blocked {
    pub(super) trouble: Trouble,
    by: Option<OwnerKey>,
}

impl Owner {
    pub(super) fn is_primary(&self) -> bool {
        self.intent.as_ref().is_ok_and(Network::is_primary)
    }

    /// By what it selects namespaces; nothing if it does not, or if that cannot be read.
    fn selector(&self) -> Option<LabelMatch> {
        self.selects.labels().and_then(|labels| LabelMatch::read(labels).ok())
    }
}

impl Owners {
    /// Whether the object's network is not to be had as it is.
    pub(crate) fn is_refused(&self, key: &OwnerKey) -> bool {
        self.all.get(key).is_some_and(|owner| owner.report.network.is_some())
    }

    /// What a primary network has in common with those of the same namespaces, and with nobody else.
    pub(super) fn set_of(&self, key: &OwnerKey) -> Option<NetworkSet> {
        let owner = self.all.get(key).filter(|owner| owner.is_primary())?;
        owner.selector().map(|selector| NetworkSet::of(&selector.to_string()))
    }

    /// When the object was created.
    pub(crate) fn created(&self, key: &OwnerKey) -> Option<i64> {
        self.all.get(key).map(|owner| owner.object.created)
    }

    /// Other objects of the same kind that want a namespace which this one wants, and count there.
    pub(super) fn beside(&self, key: &OwnerKey) -> Vec<OwnerKey> {
        match key {
            OwnerKey::Udn(namespace, _) => {
                let all = self.siblings.standing.get(namespace).into_iter().flatten();
                all.filter(|other| *other != key).cloned().collect()
            }
            OwnerKey::Cudn(name) => {
                self.siblings.meetings.of(name).map(|other| OwnerKey::Cudn(other.clone())).collect()
            }
        }
    }

    /// A namespace is wanted by an object now, or no longer.
    pub(super) fn note_wish(&mut self, key: &OwnerKey, namespace: &NamespaceName, wanted: bool) {
        let all = self.by_namespace.entry(namespace.clone()).or_default();
        let news = if wanted { all.insert(key.clone()) } else { all.remove(key) };
        if let (true, OwnerKey::Cudn(name)) = (news, key) {
            for other in all.iter().filter(|other| *other != key) {
                if let OwnerKey::Cudn(other) = other {
                    self.siblings.meetings.change(name, other, wanted);
                }
            }
        }
        if all.is_empty() {
            self.by_namespace.remove(namespace);
        }
    }

    /// Whether others have to stand beside the object.
    pub(super) fn stand(&mut self, key: &OwnerKey, stands: bool) {
        let OwnerKey::Udn(namespace, _) = key else { return };
        let all = self.siblings.standing.entry(namespace.clone()).or_default();
        let _known = if stands { all.insert(key.clone()) } else { all.remove(key) };
        if all.is_empty() {
            self.siblings.standing.remove(namespace);
        }
    }

    /// Those who are refused because of the object.
    pub(super) fn blocked_by(&self, key: &OwnerKey) -> impl Iterator<Item = OwnerKey> {
        self.siblings.blocking.get(key).into_iter().flatten().cloned()
    }

    /// The object is refused because of another one, or no longer.
    fn block(&mut self, key: &OwnerKey, by: Option<OwnerKey>) {
        let Some(owner) = self.all.get_mut(key) else { return };
        let before = std::mem::replace(&mut owner.blocked_by, by.clone());
        self.unblock(key, before);
        if let Some(by) = by {
            self.siblings.blocking.entry(by).or_default().insert(key.clone());
        }
    }

    /// Nobody is in the object's way any more.
    pub(super) fn unblock(&mut self, key: &OwnerKey, by: Option<OwnerKey>) {
        let Some(by) = by else { return };
        if let Some(blocked) = self.siblings.blocking.get_mut(&by) {
            blocked.remove(key);
            if blocked.is_empty() {
                self.siblings.blocking.remove(&by);
            }
        }
    }

    /// Whether two primary networks of one namespace may be siblings, as far as their objects say: of one kind, for the same
    /// namespaces, with subnets that are apart.
    pub(crate) fn are_siblings(&self, one: &OwnerKey, other: &OwnerKey) -> bool {
        let (Some(first), Some(second)) = (self.all.get(one), self.all.get(other)) else { return false };
        let kinds = one.kind() == other.kind() && first.selector() == second.selector();
        let intents = first.intent.as_ref().ok().zip(second.intent.as_ref().ok());
        kinds && intents.is_some_and(|(one, other)| one.sibling_overlap([other]).is_none())
    }
}

/// An object that another one has to stand beside.
struct Senior<'a> {
    key: &'a OwnerKey,
    owner: &'a Owner,
    /// What its network is, or is to be.
    network: &'a Network,
}

impl Owners {
    /// Whether a network can be one of several of its namespaces.
    pub(crate) fn check_siblings(
        &mut self,
        key: &OwnerKey,
        wanted: &Network,
        networks: &Networks,
        config: &Config,
    ) -> Result<(), Trouble> {
        let blocked = self.blocked(key, wanted, networks, config).filter(|_| wanted.is_primary());
        let (trouble, by) = blocked.map(|Blocked { trouble, by }| (trouble, by)).unzip();
        self.block(key, by.flatten());
        trouble.map_or(Ok(()), Err)
    }

    fn blocked(
        &self,
        key: &OwnerKey,
        wanted: &Network,
        networks: &Networks,
        config: &Config,
    ) -> Option<Blocked> {
        let others = self.beside(key);
        let grown = grown(wanted, networks);
        let into = |other: &OwnerKey| {
            let rendered = networks.get(&other.network()).map(|state| state.intent())?;
            grown.sibling_overlap([rendered]).filter(|_| rendered.is_primary())
        };
        let by = |other: &OwnerKey, trouble| Blocked { trouble, by: Some(other.clone()) };
        if let Some(blocked) = others.iter().find_map(|other| Some(by(other, into(other)?.into()))) {
            return Some(blocked);
        }
        let seniors: Vec<Senior<'_>> =
            others.iter().filter_map(|other| self.senior(key, other, networks)).collect();
        let way = |senior: &Senior<'_>| Some(by(senior.key, self.in_the_way(key, wanted, senior, config)?));
        seniors.iter().find_map(way).or_else(|| {
            let most = seniors.len() >= MOST_SIBLINGS;
            let message = || {
                format!("its namespaces have {} primary networks already: that is the most", seniors.len())
            };
            most.then(|| Blocked { trouble: Trouble::new("TooManyPrimaryNetworks", message()), by: None })
        })
    }

    /// The other object, if it was there first: its network has been rendered and this one's has not, or it is older.
    fn senior<'a>(
        &'a self,
        key: &OwnerKey,
        other: &'a OwnerKey,
        networks: &'a Networks,
    ) -> Option<Senior<'a>> {
        let (me, owner) = (self.all.get(key)?, self.all.get(other)?);
        let rendered = |key: &OwnerKey| networks.get(&key.network()).map(|state| state.intent());
        let rank =
            |key: &OwnerKey, owner: &Owner| (rendered(key).is_none(), owner.object.created, key.clone());
        let comes = || {
            owner.intent.as_ref().ok().filter(|_| !owner.object.deleting && owner.report.network.is_none())
        };
        let network = rendered(other).or_else(comes).filter(|network| network.is_primary())?;
        (rank(other, owner) < rank(key, me)).then_some(Senior { key: other, owner, network })
    }

    fn in_the_way(
        &self,
        key: &OwnerKey,
        wanted: &Network,
        senior: &Senior<'_>,
        config: &Config,
    ) -> Option<Trouble> {
        let Senior { key: other, owner, network } = senior;
        let me = self.all.get(key)?;
        if me.selector() != owner.selector() {
            let shared = me.wanted.intersection(&owner.wanted).next()?;
            let message = format!(
                "{other} selects namespace {shared} too, by another namespaceSelector: primary networks of one namespace need equal \
                 selectors; write that of {}, or one that selects none of its namespaces",
                other.name()
            );
            return Some(Trouble::new(CONFLICT, message));
        }
        if let Some(problem) = wanted.sibling_overlap([*network]) {
            return Some(problem.into());
        }
        if wanted.families() != network.families() {
            let message = format!(
                "{other} serves the same namespace and has other IP families ({}): their pods would not all reach each other; use \
                 subnets of the same families",
                network.subnets_text()
            );
            return Some(Trouble::new(CONFLICT, message));
        }
        if let Some(why) = without_tunnels([wanted, network], config) {
            let message = format!(
                "{other} serves the same namespace, and {why}: siblings are connected by tunnels, so their pods would not all reach \
                 each other"
            );
            return Some(Trouble::new(CONFLICT, message));
        }
        let links =
            config.cluster.masquerade_subnets.iter().filter(|cidr| wanted.families().has(cidr.family()));
        let lacking = links.into_iter().find_map(|cidr| sibling_link(cidr, NetworkId::LAST).err())?;
        Some(Trouble::new(CONFLICT, format!("it cannot be connected with {other}: {lacking}")))
    }

    /// An object has been looked at. Those who are refused because of it may have another reason now, or none.
    pub(super) fn note_standing(
        &mut self,
        key: &OwnerKey,
        stood: Standing,
        networks: &Networks,
        dirty: &mut Dirty,
    ) {
        let stands = self.standing(key, networks);
        let Standing { refused, rendered } = stands;
        self.stand(key, !refused || rendered);
        if stands != stood {
            let blocked: Vec<OwnerKey> = self.blocked_by(key).collect();
            dirty.owners(blocked);
        }
    }

    pub(super) fn standing(&self, key: &OwnerKey, networks: &Networks) -> Standing {
        let rendered = networks.get(&key.network()).is_some();
        Standing { refused: self.is_refused(key), rendered }
    }
}

/// The network with the subnets alone that it has not been rendered with yet. One that has not been rendered has not grown.
fn grown(wanted: &Network, networks: &Networks) -> Network {
    let known = networks.get(&wanted.name).map(|state| &state.intent().subnets);
    let fresh = wanted.subnets.iter().filter(|subnet| known.is_some_and(|known| !known.contains(subnet)));
    Network { subnets: fresh.copied().collect(), ..wanted.clone() }
}

/// Why no tunnels carry the packets of all of these networks.
fn without_tunnels(networks: [&Network; 2], config: &Config) -> Option<String> {
    if config.no_overlay {
        return Some("this cluster has no tunnels (--no-overlay)".to_owned());
    }
    let bare = networks.into_iter().find(|one| matches!(one.transport, Transport::NoOverlay { .. }))?;
    Some(format!("network {} has transport 'NoOverlay'", bare.name))
}

/// What others see of an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Standing {
    refused: bool,
    rendered: bool,
}
