//! Which freed numbers are gone, by the epochs that list them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::Epoch;

/// The most epochs that are named one by one. Beyond them, everything that was freed later waits.
pub const MAX_HELD_EPOCHS: usize = 256;

/// All epochs up to one, but for those of which a number is still in use.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cleared {
    #[serde(rename = "epoch")]
    upto: Epoch,
    #[serde(default, rename = "heldEpochs", skip_serializing_if = "BTreeSet::is_empty")]
    held: BTreeSet<Epoch>,
}

impl Cleared {
    /// Everything that a zone has read is gone, up to this epoch, but for the numbers that these epochs list. So one number
    /// that is still in use holds back no number that was freed after it.
    pub fn new(upto: Epoch, held: impl IntoIterator<Item = Epoch>) -> Self {
        let mut held: BTreeSet<Epoch> = held.into_iter().filter(|epoch| *epoch <= upto).collect();
        let upto = match held.iter().nth(MAX_HELD_EPOCHS) {
            Some(first) => Epoch(first.0.saturating_sub(1)),
            None => upto,
        };
        held.retain(|epoch| *epoch <= upto);
        Self { upto, held }
    }

    /// Nothing is held back.
    pub fn everything() -> Self {
        Self { upto: Epoch(u64::MAX), held: BTreeSet::new() }
    }

    /// The last epoch that was looked at.
    pub fn upto(&self) -> Epoch {
        self.upto
    }

    /// Epochs up to that one of which a number is still in use.
    pub fn held(&self) -> impl Iterator<Item = Epoch> {
        self.held.iter().copied()
    }

    /// Whether what this epoch lists is gone.
    pub fn has(&self, epoch: Epoch) -> bool {
        epoch <= self.upto && !self.held.contains(&epoch)
    }

    /// Whether it names as many epochs as can be named: what was freed later was looked at, and is not told.
    pub fn is_full(&self) -> bool {
        self.held.len() >= MAX_HELD_EPOCHS
    }

    /// Up to which epoch everything is gone.
    pub fn whole(&self) -> Epoch {
        self.held.first().map_or(self.upto, |first| Epoch(first.0.saturating_sub(1)))
    }

    /// What is gone here and there.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.upto = self.upto.min(other.upto);
        self.held.extend(&other.held);
        self.held.retain(|epoch| *epoch <= self.upto);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleared(upto: u64, held: &[u64]) -> Cleared {
        Cleared::new(Epoch(upto), held.iter().copied().map(Epoch))
    }

    fn gone(cleared: &Cleared) -> Vec<u64> {
        (0..12).filter(|epoch| cleared.has(Epoch(*epoch))).collect()
    }

    #[test]
    fn what_is_held_holds_back_itself_alone() {
        let zone = cleared(6, &[2, 4, 9]);
        assert_eq!((gone(&zone), zone.whole()), (vec![0, 1, 3, 5, 6], Epoch(1)));
        assert_eq!(zone, cleared(6, &[2, 4]), "what was not looked at is not gone anyway");
        assert_eq!(cleared(3, &[]).whole(), Epoch(3));
        assert!(Cleared::everything().has(Epoch(u64::MAX)));
    }

    #[test]
    fn the_slowest_decides_for_each_number() {
        let both = cleared(6, &[2]).and(&cleared(5, &[4])).and(&Cleared::everything());
        assert_eq!(gone(&both), [0, 1, 3, 5]);
        assert_eq!(both, cleared(5, &[2, 4]));
        assert_eq!(gone(&both.and(&Cleared::default())), [0], "who has said nothing holds back everything");
    }

    #[test]
    fn a_long_list_ends() {
        let many = Cleared::new(Epoch(9000), (0..1000).map(|n| Epoch(n * 2 + 1)));
        assert_eq!((many.upto(), many.held().count()), (Epoch(2 * 256), MAX_HELD_EPOCHS));
        assert!(many.has(Epoch(512)));
        assert!(!many.has(Epoch(514)));
        assert!(many.is_full() && !cleared(6, &[2]).is_full());
    }
}
