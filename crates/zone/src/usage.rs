//! Which networks are used on which nodes, where only those are rendered.
//!
//! Counts pods, and lets a grace period pass before what nobody uses any more goes. Time comes in as a number.

use std::collections::{BTreeMap, BTreeSet};

use causeway_types::{NetworkName, NodeName};
use serde::{Deserialize, Serialize};

/// What is rendered.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Render {
    /// Every network, on every node.
    #[default]
    All,
    /// A network only on nodes with pods of it, and for a while after the last one has gone.
    Used {
        /// How long, in milliseconds.
        grace_ms: u64,
    },
}

/// Whether a network is used on a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Use {
    /// It is, or was a moment ago.
    Used,
    /// It is not. Whether it was a moment ago is not known, since we have only just started: what is there stays, and
    /// nobody misses what is not.
    Idle,
    /// Whether it is depends on something that cannot be read or is not listed yet: what is there stays.
    Unknown,
    /// It is not.
    Unused,
}

type Place = (NetworkName, NodeName);

#[derive(Debug)]
pub(super) struct Usage {
    grace: Option<u64>,
    pods: BTreeMap<Place, u32>,
    /// Networks that are used on a node, or were a moment ago.
    used: BTreeMap<NodeName, BTreeSet<NetworkName>>,
    /// Places that lost their last pod since the clock was seen.
    idle: BTreeSet<Place>,
    due: BTreeMap<Place, u64>,
    start: Start,
}

#[derive(Debug)]
enum Start {
    Begun,
    Until(u64),
    Over,
}

/// What time has brought.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// Places whose grace period is over.
    pub(super) unused: Vec<Place>,
    /// Whether the grace period of the start is over.
    pub(super) started: bool,
}

impl Usage {
    pub(super) fn new(render: Render) -> Self {
        let grace = match render {
            Render::All => None,
            Render::Used { grace_ms } => Some(grace_ms),
        };
        Self {
            grace,
            pods: BTreeMap::new(),
            used: BTreeMap::new(),
            idle: BTreeSet::new(),
            due: BTreeMap::new(),
            start: Start::Begun,
        }
    }

    /// Whether anybody counts.
    pub(super) fn counts(&self) -> bool {
        self.grace.is_some()
    }

    /// Counts a pod; says whether the network has become used on the node.
    pub(super) fn add(&mut self, network: &NetworkName, node: &NodeName) -> bool {
        if !self.counts() || network.is_default() {
            return false;
        }
        let place = (network.clone(), node.clone());
        let was_idle = self.idle.remove(&place) | self.due.remove(&place).is_some();
        let count = self.pods.entry(place).or_default();
        *count += 1;
        let is_new = *count == 1 && !was_idle;
        if is_new {
            self.used.entry(node.clone()).or_default().insert(network.clone());
        }
        is_new
    }

    pub(super) fn remove(&mut self, network: &NetworkName, node: &NodeName) {
        let place = (network.clone(), node.clone());
        let Some(count) = self.pods.get_mut(&place) else { return };
        *count -= 1;
        if *count == 0 {
            self.pods.remove(&place);
            self.idle.insert(place);
        }
    }

    pub(super) fn of(&self, network: &NetworkName, node: &NodeName) -> Use {
        if !self.counts() || network.is_default() {
            return Use::Used;
        }
        if self.used.get(node).is_some_and(|networks| networks.contains(network)) {
            return Use::Used;
        }
        if matches!(self.start, Start::Over) { Use::Unused } else { Use::Idle }
    }

    /// When the next grace period ends.
    pub(super) fn deadline(&self) -> Option<u64> {
        let start = if let Start::Until(at) = self.start { Some(at) } else { None };
        self.due.values().copied().chain(start).min()
    }

    pub(super) fn tick(&mut self, now: u64) -> Passed {
        let Some(grace) = self.grace else { return Passed::default() };
        let until = now.saturating_add(grace);
        self.due.extend(std::mem::take(&mut self.idle).into_iter().map(|place| (place, until)));
        let mut passed = Passed::default();
        match self.start {
            Start::Begun => self.start = Start::Until(until),
            Start::Until(at) if now >= at => {
                self.start = Start::Over;
                passed.started = true;
            }
            Start::Until(_) | Start::Over => {}
        }
        passed.unused = self.due.extract_if(.., |_, at| *at <= now).map(|(place, _)| place).collect();
        for (network, node) in &passed.unused {
            if let Some(networks) = self.used.get_mut(node) {
                networks.remove(network);
            }
        }
        self.used.retain(|_, networks| !networks.is_empty());
        passed
    }
}
