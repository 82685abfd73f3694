//! Mirrors of EndpointSlices: the addresses of a service's pods on their primary network.
//!
//! Kubernetes writes EndpointSlices with the addresses that pods have on the default network. Beside each slice of a namespace
//! with a primary user-defined network the manager keeps one with the addresses that count there. Owns which slices are
//! mirrored and what their mirrors say. Never reads or writes what a service is, and never touches a slice that is no mirror.

mod endpoints;
mod kept;
mod settle;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_record::{EndpointSlice, Kind, ObjectKey, Target};
use causeway_types::NamespaceName;
use sha2::{Digest as _, Sha256};

use kept::{Content, Kept};
pub(crate) use settle::Around;

use crate::Config;
use crate::desk::Desk;
use crate::dirty::Dirty;

pub(crate) const KIND: &str = "endpointslices";
/// The longest name that the API server takes.
const LONGEST_NAME: usize = 253;

/// All slices.
#[derive(Debug, Default)]
pub(crate) struct Mirrors {
    /// Whether slices are mirrored in this cluster.
    wanted: bool,
    /// Whether slices have been listed: before that no mirror is written or deleted.
    listed: bool,
    all: BTreeMap<ObjectKey, Kept>,
    /// Slices by the pods behind their endpoints.
    by_pod: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Slices by the addresses of endpoints that name no pod.
    unnamed: BTreeMap<(NamespaceName, IpAddr), BTreeSet<ObjectKey>>,
    /// Slices by what their mirrors are called.
    expected: BTreeMap<ObjectKey, ObjectKey>,
    /// Mirrors by the slice that they say to mirror.
    naming: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Slices whose mirror's name is taken, and that were told so.
    told: BTreeSet<ObjectKey>,
    /// Slices with endpoints that are judged by their address: no pod that has a network is behind them.
    by_address: BTreeSet<ObjectKey>,
    /// What was last said of endpoints that are not served.
    skipped: BTreeMap<ObjectKey, String>,
}

/// What the mirror of a slice is called. Always the same for the same slice: a creation whose answer was lost is refused when
/// it is tried again, instead of making a second mirror, and who takes over finds the mirror without searching. The hash
/// keeps clear of names that people choose, and tells long names apart that begin alike.
pub(crate) fn mirror_key(source: &ObjectKey) -> ObjectKey {
    let hash = Sha256::digest(&source.name);
    let tail: String = hash[..5].iter().map(|byte| format!("{byte:02x}")).collect();
    // Names of objects are ASCII, so any place is one to cut at; a name that is not is cut where it can be.
    let room = LONGEST_NAME - tail.len() - 1;
    let end = (0..=room.min(source.name.len())).rev().find(|end| source.name.is_char_boundary(*end));
    let head = source.name[..end.unwrap_or(0)].trim_end_matches(['-', '.']);
    ObjectKey { namespace: source.namespace.clone(), name: format!("{head}-{tail}") }
}

fn slice_target(key: &ObjectKey) -> Target {
    Target { kind: Kind::EndpointSlice, namespace: Some(key.namespace.to_string()), name: key.name.clone() }
}

impl Mirrors {
    /// The slices that must be looked at when something is new about this one: itself, the one that it should be the mirror
    /// of, and the one that it says to be the mirror of.
    fn around(&self, key: &ObjectKey) -> BTreeSet<ObjectKey> {
        let named = self.all.get(key).and_then(named_by);
        [key.clone()].into_iter().chain(self.expected.get(key).cloned()).chain(named).collect()
    }

    fn index(&mut self, slice: &Kept, add: bool) {
        let key = &slice.key;
        match &slice.content {
            Content::Source(source) => {
                for pod in source.pods(&key.namespace) {
                    toggle(&mut self.by_pod, pod, key, add);
                }
                for address in source.unnamed(&key.namespace) {
                    toggle(&mut self.unnamed, (key.namespace.clone(), address), key, add);
                }
                if add {
                    self.expected.insert(mirror_key(key), key.clone());
                } else {
                    self.expected.remove(&mirror_key(key));
                }
            }
            Content::Mirror(_) => {
                if let Some(source) = named_by(slice) {
                    toggle(&mut self.naming, source, key, add);
                }
            }
            Content::Other => {}
        }
    }
}

/// The slice that a mirror says to mirror; what no slice is called stands for one that says nothing.
fn named_by(slice: &Kept) -> Option<ObjectKey> {
    let Content::Mirror(mirror) = &slice.content else { return None };
    Some(ObjectKey { namespace: slice.key.namespace.clone(), name: mirror.source.clone() })
}

fn toggle<At: Clone + Ord>(
    index: &mut BTreeMap<At, BTreeSet<ObjectKey>>,
    at: At,
    key: &ObjectKey,
    add: bool,
) {
    let members = index.entry(at.clone()).or_default();
    if add {
        members.insert(key.clone());
    } else {
        members.remove(key);
    }
    if members.is_empty() {
        index.remove(&at);
    }
}

impl Mirrors {
    /// All EndpointSlices, and those that they may be mirrors of.
    pub(crate) fn all(&self) -> impl Iterator<Item = ObjectKey> {
        self.all.keys().flat_map(|key| self.around(key))
    }

    /// EndpointSlices with endpoints that are judged by their address.
    pub(crate) fn by_address(&self) -> impl Iterator<Item = ObjectKey> {
        self.by_address.iter().cloned()
    }

    /// EndpointSlices with endpoints that a pod is behind.
    pub(crate) fn of_pod(&self, pod: &ObjectKey) -> impl Iterator<Item = ObjectKey> {
        self.by_pod.get(pod).into_iter().flatten().cloned()
    }

    /// EndpointSlices of a namespace with endpoints at these addresses that name no pod.
    pub(crate) fn at<'a>(
        &'a self,
        namespace: &'a NamespaceName,
        addresses: &'a BTreeSet<IpAddr>,
    ) -> impl Iterator<Item = ObjectKey> + 'a {
        // Most pods have no such slice; then nothing is looked up.
        let addresses = addresses.iter().filter(|_| !self.unnamed.is_empty());
        let slices = addresses.filter_map(|address| self.unnamed.get(&(namespace.clone(), *address)));
        slices.flatten().cloned()
    }

    /// EndpointSlices of a namespace, and those that they may be mirrors of.
    pub(crate) fn in_namespace(&self, namespace: &NamespaceName) -> impl Iterator<Item = ObjectKey> {
        let first = ObjectKey { namespace: namespace.clone(), name: String::new() };
        let here = self.all.range(first..).take_while(|(key, _)| key.namespace == *namespace);
        here.flat_map(|(key, _)| self.around(key))
    }

    fn insert(&mut self, slice: Kept) {
        self.index(&slice, true);
        self.all.insert(slice.key.clone(), slice);
    }

    fn remove(&mut self, key: &ObjectKey) {
        if let Some(before) = self.all.remove(key) {
            self.index(&before, false);
        }
    }
}

impl Mirrors {
    pub(crate) fn new(config: &Config) -> Self {
        Self { wanted: config.features.without_networks().is_none(), ..Self::default() }
    }

    /// EndpointSlices are needed for mirrors alone: pods get their addresses also while they cannot be listed.
    pub(crate) fn listed(&mut self, dirty: &mut Dirty) {
        if self.wanted && !self.listed {
            self.listed = true;
            dirty.endpoint_slices(self.all());
        }
    }

    /// Whether slices are still waited for.
    pub(crate) fn are_late(&self) -> bool {
        self.wanted && !self.listed
    }

    pub(crate) fn applied(&mut self, slice: EndpointSlice, desk: &mut Desk) {
        let slice = Kept::from(slice);
        let key = slice.key.clone();
        let said = self.skipped.remove(&key);
        self.deleted(&key, desk);
        self.skipped.extend(said.map(|said| (key.clone(), said)));
        self.insert(slice);
        desk.dirty.endpoint_slices(self.around(&key));
    }

    pub(crate) fn deleted(&mut self, key: &ObjectKey, desk: &mut Desk) {
        desk.writes.seen(&slice_target(key));
        desk.dirty.endpoint_slices(self.around(key));
        self.remove(key);
        self.by_address.remove(key);
        self.skipped.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror_name(source: &str) -> String {
        let namespace = NamespaceName::new("blue").unwrap();
        mirror_key(&ObjectKey { namespace, name: source.into() }).name
    }

    /// I016: as its source is called, and always the same.
    #[test]
    fn i016_names_of_mirrors() {
        assert_eq!(mirror_name("svc-blue-abcde"), "svc-blue-abcde-a4bc44d738");
        assert_eq!(mirror_name("a"), "a-ca978112ca");
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let long = |end: &str| mirror_name(&format!("{}{end}", "x".repeat(252)));
        assert_eq!(long("a").len(), 253);
        assert_ne!(long("a"), long("b"));
        let cut_at_a_dot = mirror_name(&format!("{}.{}", "x".repeat(241), "y".repeat(11)));
        assert!(cut_at_a_dot.starts_with(&format!("{}-", "x".repeat(241))), "{cut_at_a_dot}");
    }
}
