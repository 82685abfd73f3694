//! The networks of a zone: what their definitions say, who claims which number and name, and what follows here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_types::{DatapathKey, NadKey, NetworkId, NetworkName, NetworkNames, OvnPrefix};

use super::nad::NadInfo;
use super::network::{Active, Spec};
use super::problem::{Problem, Reason};

/// A network.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) names: NetworkNames,
    specs: Vec<Voices>,
    broken: BTreeMap<Arc<NadKey>, Problem>,
    /// What it is here, or why it is nothing.
    pub(super) state: Result<Box<Active>, Problem>,
}

/// Definitions that say the same.
#[derive(Debug)]
struct Voices {
    spec: Arc<Spec>,
    nads: BTreeSet<Arc<NadKey>>,
}

impl Entry {
    fn new(name: &NetworkName) -> Self {
        let state = Err(Problem::new(Reason::NoId, format!("network {name} has no id yet")));
        Self { names: NetworkNames::new(name.clone()), specs: Vec::new(), broken: BTreeMap::new(), state }
    }

    fn join(&mut self, nad: &Arc<NadKey>, info: &NadInfo) {
        let spec = match &info.spec {
            Ok(spec) => spec,
            Err(problem) => return drop(self.broken.insert(nad.clone(), problem.clone())),
        };
        match self.specs.iter_mut().find(|voices| voices.spec == *spec) {
            Some(voices) => drop(voices.nads.insert(nad.clone())),
            None => self.specs.push(Voices { spec: spec.clone(), nads: BTreeSet::from([nad.clone()]) }),
        }
    }

    fn leave(&mut self, nad: &Arc<NadKey>) {
        self.broken.remove(nad);
        for voices in &mut self.specs {
            voices.nads.remove(nad);
        }
        self.specs.retain(|voices| !voices.nads.is_empty());
    }

    /// What most definitions say: one that somebody has tampered with does not move the others.
    fn chosen(&self) -> Result<&Arc<Spec>, Problem> {
        let weight = |voices: &&Voices| (voices.nads.len(), std::cmp::Reverse(voices.nads.first().cloned()));
        let loudest = self.specs.iter().max_by_key(weight).map(|voices| &voices.spec);
        loudest.ok_or_else(|| match self.broken.values().next() {
            Some(problem) => problem.clone(),
            None => Problem::new(Reason::NoId, format!("network {} has no definition", self.names.network())),
        })
    }

    /// Its definitions, readable or not.
    pub(super) fn nads(&self) -> impl Iterator<Item = &Arc<NadKey>> {
        self.specs.iter().flat_map(|voices| &voices.nads).chain(self.broken.keys())
    }

    fn is_empty(&self) -> bool {
        self.specs.is_empty() && self.broken.is_empty()
    }
}

/// Something that only one network can have.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Claim {
    Id(NetworkId),
    Prefix(OvnPrefix),
    Router(DatapathKey),
}

type Claims = (NetworkId, Vec<Claim>);

#[derive(Debug, Default)]
pub(super) struct Networks {
    entries: BTreeMap<NetworkName, Entry>,
    claimed: BTreeMap<NetworkName, Claims>,
    /// Who claims a thing, smallest id first.
    claims: BTreeMap<Claim, BTreeSet<(NetworkId, NetworkName)>>,
}

impl Networks {
    pub(super) fn get(&self, name: &NetworkName) -> Option<&Entry> {
        self.entries.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &NetworkName) -> Option<&mut Entry> {
        self.entries.get_mut(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&NetworkName, &Entry)> {
        self.entries.iter()
    }

    pub(super) fn names(&self) -> Vec<NetworkName> {
        self.entries.keys().cloned().collect()
    }

    /// The default network needs no definition.
    pub(super) fn insert_default(&mut self, spec: Spec) {
        let name = spec.network.name.clone();
        let mut entry = Entry::new(&name);
        entry.specs.push(Voices { spec: Arc::new(spec), nads: BTreeSet::new() });
        self.entries.insert(name, entry);
    }

    pub(super) fn join(&mut self, name: &NetworkName, nad: &Arc<NadKey>, info: &NadInfo) {
        self.entries.entry(name.clone()).or_insert_with(|| Entry::new(name)).join(nad, info);
    }

    pub(super) fn leave(&mut self, name: &NetworkName, nad: &Arc<NadKey>) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.leave(nad);
        }
    }

    /// Brings claims up to date, drops the network if nothing defines it, and names all networks that this concerns.
    pub(super) fn settle(&mut self, name: &NetworkName) -> BTreeSet<NetworkName> {
        let mut concerned = BTreeSet::from([name.clone()]);
        let wanted = self.get(name).and_then(|entry| Some(claims_of(&entry.names, entry.chosen().ok()?)));
        if self.claimed.get(name) != wanted.as_ref() {
            if let Some((id, claims)) = self.claimed.remove(name) {
                for claim in claims {
                    self.give_up(&claim, id, name, &mut concerned);
                }
            }
            if let Some((id, claims)) = wanted {
                for claim in &claims {
                    let claimants = self.claims.entry(claim.clone()).or_default();
                    claimants.insert((id, name.clone()));
                    concerned.extend(claimants.iter().map(|(_, name)| name.clone()));
                }
                self.claimed.insert(name.clone(), (id, claims));
            }
        }
        if !name.is_default() && self.get(name).is_some_and(Entry::is_empty) {
            self.entries.remove(name);
        }
        concerned
    }

    fn give_up(
        &mut self,
        claim: &Claim,
        id: NetworkId,
        name: &NetworkName,
        concerned: &mut BTreeSet<NetworkName>,
    ) {
        let Some(claimants) = self.claims.get_mut(claim) else { return };
        claimants.remove(&(id, name.clone()));
        concerned.extend(claimants.iter().map(|(_, name)| name.clone()));
        if claimants.is_empty() {
            self.claims.remove(claim);
        }
    }

    /// The number of a network; nothing while it has none that can be read.
    pub(super) fn id(&self, name: &NetworkName) -> Option<NetworkId> {
        self.claimed.get(name).map(|(id, _)| *id)
    }

    /// The networks that have a number: one, unless something is badly wrong.
    pub(super) fn with_id(&self, id: NetworkId) -> impl Iterator<Item = &NetworkName> + Clone {
        self.claims.get(&Claim::Id(id)).into_iter().flatten().map(|(_, name)| name)
    }

    /// The network that has a prefix.
    pub(super) fn with_prefix(&self, prefix: &OvnPrefix) -> Option<&NetworkName> {
        self.claims.get(&Claim::Prefix(prefix.clone()))?.first().map(|(_, name)| name)
    }

    /// What most definitions of a network say, whoever stands in its way.
    pub(super) fn said(&self, name: &NetworkName) -> Option<&Arc<Spec>> {
        self.get(name)?.chosen().ok()
    }

    /// What counts of a network, if nobody stands in its way.
    pub(super) fn spec(&self, name: &NetworkName) -> Option<Result<Arc<Spec>, Problem>> {
        let entry = self.get(name)?;
        let spec = match entry.chosen() {
            Ok(spec) => spec.clone(),
            Err(problem) => return Some(Err(problem)),
        };
        let claims = self.claimed.get(name).map(|(_, claims)| claims.as_slice()).unwrap_or_default();
        let lost = claims.iter().find_map(|claim| clash(name, claim, self.claims.get(claim)?));
        Some(lost.map_or(Ok(spec), Err))
    }
}

fn claims_of(names: &NetworkNames, spec: &Spec) -> Claims {
    let mut claims = vec![Claim::Id(spec.id), Claim::Prefix(names.prefix().clone())];
    claims.extend(spec.router_key.map(Claim::Router));
    (spec.id, claims)
}

/// Why a network does not have what it claims. The cluster manager numbers no network that clashes with another, so
/// something is badly wrong, and who is right cannot be told here. Neither is rendered any further: with one number
/// pods of one tenant would get the other's packets, with one name rows of one would stand in the other's way.
fn clash(
    name: &NetworkName,
    claim: &Claim,
    claimants: &BTreeSet<(NetworkId, NetworkName)>,
) -> Option<Problem> {
    let (_, other) = claimants.iter().find(|(_, other)| other != name)?;
    let (reason, what) = match claim {
        Claim::Id(id) => {
            (Reason::NumberClash, format!("have the id {id}: remove the annotation from one of them"))
        }
        Claim::Router(key) => (
            Reason::NumberClash,
            format!("have the tunnel key {key}: remove the annotation from one of them"),
        ),
        Claim::Prefix(prefix) => {
            (Reason::PrefixClash, format!("have objects whose names begin with {prefix}: delete one of them"))
        }
    };
    Some(Problem::new(reason, format!("networks {name} and {other} both {what}")))
}
