//! What is kept of all connections so that nobody has to look at each of them: how many there are of each outcome, and when the next
//! silent zone is to be told.

use std::collections::{BTreeMap, BTreeSet};

use causeway_types::ConnectName;

/// Whether a connection is accepted, and its status in one word.
pub(super) type Outcome = (&'static str, &'static str);

#[derive(Debug, Default)]
pub(super) struct Tally {
    outcomes: BTreeMap<ConnectName, Outcome>,
    counts: BTreeMap<Outcome, usize>,
    silent_at: BTreeMap<ConnectName, i64>,
    by_time: BTreeSet<(i64, ConnectName)>,
    /// Whether any block or parcel rests that somebody has let go of; nothing if that has to be looked up again.
    rests: Option<bool>,
    /// How many entries have been looked at so far: the work that time and events make.
    looked_at: usize,
}

impl Tally {
    /// What was said of a connection last.
    pub(super) fn said(&mut self, name: &ConnectName, outcome: Outcome) {
        self.looked_at += 1;
        let before = self.outcomes.insert(name.clone(), outcome);
        self.leaves(before);
        *self.counts.entry(outcome).or_default() += 1;
    }

    /// When somebody who is to say something of it turns silent, if ever.
    pub(super) fn turns_silent(&mut self, name: &ConnectName, at: Option<i64>) {
        self.looked_at += 1;
        if let Some(before) = self.silent_at.remove(name) {
            self.by_time.remove(&(before, name.clone()));
        }
        if let Some(at) = at {
            self.silent_at.insert(name.clone(), at);
            self.by_time.insert((at, name.clone()));
        }
    }

    /// Something has been decided, so other blocks and parcels may rest than before.
    pub(super) fn decided(&mut self) {
        self.rests = None;
    }

    /// Whether any block or parcel rests. The clock asks, so it is looked up only after something has been decided.
    pub(super) fn any_rests(&mut self, look: impl FnOnce() -> bool) -> bool {
        *self.rests.get_or_insert_with(look)
    }

    /// A connection is gone.
    pub(super) fn forget(&mut self, name: &ConnectName) {
        let before = self.outcomes.remove(name);
        self.leaves(before);
        self.turns_silent(name, None);
    }

    fn leaves(&mut self, outcome: Option<Outcome>) {
        if let Some(count) = outcome.and_then(|outcome| self.counts.get_mut(&outcome)) {
            *count = count.saturating_sub(1);
        }
    }

    /// Connections of which somebody has turned silent by now.
    pub(super) fn silent(&mut self, now_ms: i64) -> BTreeSet<ConnectName> {
        let due = self.by_time.iter().take_while(|(at, _)| *at <= now_ms);
        let due: BTreeSet<ConnectName> = due.map(|(_, name)| name.clone()).collect();
        self.looked_at += due.len();
        due
    }

    /// How many there are of each outcome, none included.
    pub(super) fn counts(&self) -> BTreeMap<Outcome, usize> {
        let words = ["", "Success", "Failure", "Progressing"];
        let all = ["true", "false"].into_iter().flat_map(|accepted| words.map(|word| (accepted, word)));
        all.map(|outcome| (outcome, self.counts.get(&outcome).copied().unwrap_or_default())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> ConnectName {
        format!("c{number}").parse().unwrap()
    }

    /// While nothing is decided, the clock has nobody gone through for what rests.
    #[test]
    fn what_rests_is_looked_up_once() {
        let (mut tally, mut looks) = (Tally::default(), 0);
        let mut ask = |tally: &mut Tally, found| {
            tally.any_rests(|| {
                looks += 1;
                found
            })
        };
        assert!((0..5).all(|_| ask(&mut tally, true)));
        tally.decided();
        assert!((0..5).all(|_| !ask(&mut tally, false)));
        assert_eq!(looks, 2);
    }

    /// Time that passes costs nothing for connections of which there is nothing to say.
    #[test]
    fn five_thousand_connections_at_rest_cost_nothing() {
        let mut tally = Tally::default();
        for number in 0..5_000 {
            tally.said(&name(number), ("true", "Success"));
            tally.turns_silent(&name(number), (number < 2).then_some(60_000));
        }
        let before = tally.looked_at;
        for second in 0..60 {
            assert!(tally.silent(second * 1_000).is_empty());
        }
        assert_eq!(tally.looked_at, before);
        assert_eq!(tally.silent(60_000), [name(0), name(1)].into());
        assert_eq!(tally.looked_at, before + 2);
    }

    #[test]
    fn each_connection_counts_once() {
        let mut tally = Tally::default();
        for word in ["", "Progressing", "Success"] {
            tally.said(&name(1), ("true", word));
        }
        tally.said(&name(2), ("false", "Failure"));
        let counts = tally.counts();
        assert_eq!((counts.len(), counts.values().sum::<usize>()), (8, 2));
        assert_eq!((counts[&("true", "Success")], counts[&("false", "Failure")]), (1, 1));
        tally.turns_silent(&name(1), Some(5));
        tally.turns_silent(&name(1), Some(7));
        assert!(tally.silent(6).is_empty() && !tally.silent(7).is_empty());
        tally.forget(&name(1));
        assert!(tally.silent(7).is_empty());
        assert_eq!(tally.counts().values().sum::<usize>(), 1);
    }
}
