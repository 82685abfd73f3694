//! Links of roads that have just gone.
//!
//! In the transit layout what one zone sends comes out of a link of another zone. Zones hear of a road's end at different moments, and
//! whoever took his links away first would swallow what others still send: also packets between networks that a second road joins,
//! since it is not known by which of the two they go. So what sends goes at once, and links go a while later. Time comes in as a number.

use std::collections::{BTreeMap, BTreeSet};

use causeway_types::{ConnectName, NetworkName};

use super::Zone;

type Link = (ConnectName, NetworkName);

#[derive(Debug, Default)]
pub(super) struct Fading {
    /// Those that lost their place since the clock was seen.
    begun: BTreeSet<Link>,
    due: BTreeMap<Link, u64>,
}

impl Fading {
    pub(super) fn begin(&mut self, connect: &ConnectName, network: &NetworkName) {
        self.begun.insert((connect.clone(), network.clone()));
    }

    /// A network is back in its connection.
    pub(super) fn end(&mut self, connect: &ConnectName, network: &NetworkName) {
        let link = (connect.clone(), network.clone());
        self.begun.remove(&link);
        self.due.remove(&link);
    }

    /// A connection begins anew, and may give numbers of its namesake to others.
    pub(super) fn forget(&mut self, connect: &ConnectName) {
        self.begun.retain(|(of, _)| of != connect);
        self.due.retain(|(of, _), _| of != connect);
    }

    pub(super) fn has(&self, connect: &ConnectName, network: &NetworkName) -> bool {
        let link = (connect.clone(), network.clone());
        self.begun.contains(&link) || self.due.contains_key(&link)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.begun.is_empty() && self.due.is_empty()
    }

    /// Connections of which links are left.
    pub(super) fn connects(&self) -> impl Iterator<Item = &ConnectName> {
        self.begun.iter().chain(self.due.keys()).map(|(connect, _)| connect)
    }

    /// When the clock must be seen next.
    pub(super) fn deadline(&self) -> Option<u64> {
        let begun = (!self.begun.is_empty()).then_some(0);
        self.due.values().copied().chain(begun).min()
    }

    /// Those whose time is over.
    pub(super) fn tick(&mut self, now: u64, linger: u64) -> Vec<Link> {
        let until = now.saturating_add(linger);
        self.due.extend(std::mem::take(&mut self.begun).into_iter().map(|link| (link, until)));
        self.due.extract_if(.., |_, at| *at <= now).map(|(link, _)| link).collect()
    }
}

impl Zone {
    /// Whether links of a network outlive its place in a connection for a while.
    pub fn lingers(&self, connect: &ConnectName, network: &NetworkName) -> bool {
        self.fading.has(connect, network)
    }

    /// Connections of which links are there that have no place any more.
    pub fn lingering(&self) -> impl Iterator<Item = &ConnectName> {
        self.fading.connects()
    }
}
