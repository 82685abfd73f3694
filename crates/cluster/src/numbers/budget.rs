//! How many network ids a namespace may have, may have freed a moment ago, and may ask for in a minute: there are 4095 for
//! everybody. Administrators' networks are not counted.

use std::collections::{BTreeMap, BTreeSet};

use causeway_alloc::Epoch;
use causeway_record::ObjectKey;
use causeway_types::{NamespaceName, NetworkId, NetworkName};

use crate::OwnerKey;
use crate::trouble::Trouble;

/// The most ids that the networks of one namespace have, those included that rest because some node may still use them.
const MOST: usize = 256;
/// So many new ids at once, and so many each minute.
const PER_MINUTE: i64 = 20;
/// How long one id takes.
const REFILL_MS: i64 = 60_000 / PER_MINUTE;

/// What a network comes from.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Source {
    /// A custom resource.
    Owner(OwnerKey),
    /// An attachment that is written by hand.
    Nad(ObjectKey),
}

impl Source {
    pub(crate) fn owner(&self) -> Option<&OwnerKey> {
        match self {
            Self::Owner(owner) => Some(owner),
            Self::Nad(_) => None,
        }
    }

    /// The namespace whose budget the network's id is of.
    fn payer(&self) -> Option<&NamespaceName> {
        match self {
            Self::Owner(OwnerKey::Udn(namespace, _)) => Some(namespace),
            Self::Owner(OwnerKey::Cudn(_)) => None,
            Self::Nad(nad) => Some(&nad.namespace),
        }
    }
}

/// The ids of each namespace.
#[derive(Debug, Default)]
pub(super) struct Budgets {
    all: BTreeMap<NamespaceName, Budget>,
    payers: BTreeMap<NetworkName, NamespaceName>,
    /// Those that time changes: somebody waits, or ids were given out a moment ago, or nothing is left.
    stirring: BTreeSet<NamespaceName>,
}

#[derive(Debug, Default)]
struct Budget {
    held: BTreeSet<NetworkName>,
    resting: BTreeSet<u32>,
    /// When the bucket is full again; so much before that, so many ids were given out.
    full_at_ms: i64,
    waiting: BTreeSet<Source>,
}

impl Budget {
    fn used(&self) -> usize {
        self.held.len() + self.resting.len()
    }

    /// How many ids may be given out now.
    fn room(&self, now_ms: i64) -> usize {
        let owed = u64::try_from(self.full_at_ms - now_ms).unwrap_or(0).div_ceil(REFILL_MS.unsigned_abs());
        let tokens = usize::try_from(PER_MINUTE.unsigned_abs().saturating_sub(owed)).unwrap_or(0);
        tokens.min(MOST.saturating_sub(self.used()))
    }

    fn is_idle(&self, now_ms: i64) -> bool {
        self.used() == 0 && self.waiting.is_empty() && self.full_at_ms <= now_ms
    }

    fn trouble(&self, payer: &NamespaceName, now_ms: i64) -> Option<Trouble> {
        if self.used() >= MOST {
            let message = format!(
                "namespace {payer} has {} networks, and {} more are deleted but not yet gone from every node: {MOST} at most; \
                 delete what is not needed",
                self.held.len(),
                self.resting.len()
            );
            return Some(Trouble::new("TooManyNetworks", message));
        }
        (self.room(now_ms) == 0).then(|| {
            let message = format!(
                "namespace {payer} has got {PER_MINUTE} new networks within a minute: the next one follows in a few seconds"
            );
            Trouble::new("TooManyNewNetworks", message)
        })
    }
}

impl Budgets {
    /// Whether a network may get an id; if not, its source waits.
    pub(super) fn ask(&mut self, source: &Source, now_ms: i64) -> Result<(), Trouble> {
        let Some(payer) = source.payer() else { return Ok(()) };
        self.stirring.insert(payer.clone());
        let budget = self.all.entry(payer.clone()).or_default();
        match budget.trouble(payer, now_ms) {
            Some(trouble) => {
                budget.waiting.insert(source.clone());
                Err(trouble)
            }
            None => {
                budget.full_at_ms = budget.full_at_ms.max(now_ms) + REFILL_MS;
                Ok(())
            }
        }
    }

    /// A network has an id.
    pub(super) fn hold(&mut self, source: &Source, network: &NetworkName) {
        let Some(payer) = source.payer() else { return };
        let budget = self.all.entry(payer.clone()).or_default();
        budget.held.insert(network.clone());
        budget.waiting.remove(source);
        self.payers.insert(network.clone(), payer.clone());
    }

    /// A network's id rests.
    pub(super) fn rest(&mut self, network: &NetworkName, id: Option<NetworkId>) {
        let payer = self.payers.get(network);
        if let Some(budget) = payer.and_then(|payer| self.all.get_mut(payer)) {
            budget.resting.extend(id.map(NetworkId::get));
        }
    }

    /// A network is gone.
    pub(super) fn leave(&mut self, network: &NetworkName) {
        let payer = self.payers.remove(network);
        if let Some((payer, budget)) =
            payer.and_then(|payer| Some((payer.clone(), self.all.get_mut(&payer)?)))
        {
            budget.held.remove(network);
            self.stirring.insert(payer);
        }
    }

    /// Only these ids still rest.
    pub(super) fn expire(&mut self, resting: &BTreeMap<u32, Epoch>) {
        for (payer, budget) in self.all.iter_mut().filter(|(_, budget)| !budget.resting.is_empty()) {
            budget.resting.retain(|id| resting.contains_key(id));
            self.stirring.insert(payer.clone());
        }
    }

    /// Resting ids and who is to account for them.
    pub(super) fn resting(&self) -> BTreeMap<u32, NamespaceName> {
        let of = |(name, budget): (&NamespaceName, &Budget)| -> Vec<(u32, NamespaceName)> {
            budget.resting.iter().map(|id| (*id, name.clone())).collect()
        };
        self.all.iter().flat_map(of).collect()
    }

    /// Goes on from what was recorded.
    pub(super) fn restore(&mut self, resting: &BTreeMap<u32, NamespaceName>) {
        for (id, payer) in resting {
            self.all.entry(payer.clone()).or_default().resting.insert(*id);
        }
    }

    /// As many of those who wait as there is room for, and no more: many may wait.
    pub(super) fn next(&mut self, now_ms: i64) -> Vec<Source> {
        let mut next = Vec::new();
        let Self { all, stirring, .. } = self;
        stirring.retain(|payer| {
            let Some(budget) = all.get_mut(payer) else { return false };
            let room = budget.room(now_ms);
            next.extend(std::iter::from_fn(|| budget.waiting.pop_first()).take(room));
            if budget.is_idle(now_ms) {
                all.remove(payer);
                return false;
            }
            !budget.waiting.is_empty() || budget.full_at_ms > now_ms
        });
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock has nothing to do with budgets of which nobody wants anything, and forgets those that are empty.
    #[test]
    fn time_changes_only_what_stirs() {
        let mut budgets = Budgets::default();
        let source = |number: usize| Source::Nad(format!("ns{number}/net").parse().unwrap());
        let network = |number: usize| format!("net{number}").parse::<NetworkName>().unwrap();
        for number in 0..50 {
            budgets.ask(&source(number), 0).unwrap();
            budgets.hold(&source(number), &network(number));
        }
        budgets.next(REFILL_MS);
        assert_eq!((budgets.all.len(), budgets.stirring.len()), (50, 0));
        budgets.leave(&network(7));
        budgets.next(REFILL_MS);
        assert_eq!((budgets.all.len(), budgets.stirring.len()), (49, 0));
    }
}
