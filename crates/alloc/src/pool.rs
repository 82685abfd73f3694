//! The allocator under all others: numbers of a range, one for each owner.
//!
//! Two rules keep it restorable. The cursor of next-fit moves only when a number is given back, to
//! what would have been handed out next; between two such moments everything from the cursor to there
//! is in use, so a restart that reads the last recorded cursor goes on exactly where it was. And a
//! reservation changes nothing but who holds a number, so aborting it restores the state before.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Cleared, IntervalSet};

/// A count that rises with every set of freed numbers; zones report the last one they have cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// Which free number is handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// The lowest: numbers stay small, so that small subnets do not age.
    Lowest,
    /// The next after the last one handed out: a freed number rests as long as possible.
    Next,
}

/// Who goes first when two objects claim the same number: the running before the finished, then the
/// older; owners of equal age go by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seniority {
    /// Whether the object has finished, like a completed pod.
    pub finished: bool,
    /// When it was created, in seconds since 1970.
    pub created: i64,
}

/// A number that an object's annotation holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim<O, N = u128> {
    /// How old the claim is.
    pub seniority: Seniority,
    /// Whose it is.
    pub owner: O,
    /// An id, a key, an address or a MAC; inside of pools a plain number.
    pub number: N,
}

/// A claim that could not be kept, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost<O, N = u128> {
    /// Whose it was.
    pub owner: O,
    /// What was claimed; it may be outside of the pool's range.
    pub number: N,
    /// Why somebody else has it, or nobody can.
    pub reason: Refused<O>,
}

/// Why a number could not be handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused<O> {
    /// No number is free.
    Full,
    /// The number is not of the pool's range.
    OutOfRange,
    /// The number is never handed out.
    Excluded,
    /// Somebody else has the number.
    TakenBy(O),
    /// The number was freed, and not all zones have cleared it.
    Quarantined,
    /// The owner has another number already.
    Holds(u128),
}

/// What a pool must remember beyond the annotations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// Where next-fit goes on.
    pub cursor: u128,
    /// Freed numbers and the epoch that lists them.
    pub quarantined: BTreeMap<u128, Epoch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    number: u128,
    pending: bool,
}

/// Numbers of a range, one for each owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberPool<O> {
    first: u128,
    last: u128,
    fit: Fit,
    cursor: u128,
    held: BTreeMap<O, Held>,
    owners: BTreeMap<u128, O>,
    quarantined: BTreeMap<u128, Epoch>,
    excluded: IntervalSet,
    aside: IntervalSet,
    /// The union of all of the above: what is not to be handed out.
    taken: IntervalSet,
}

impl<O: Ord + Clone> NumberPool<O> {
    /// An empty pool of the numbers from `first` to `last`.
    pub fn new(first: u128, last: u128, fit: Fit) -> Self {
        Self {
            first,
            last,
            fit,
            cursor: first,
            held: BTreeMap::new(),
            owners: BTreeMap::new(),
            quarantined: BTreeMap::new(),
            excluded: IntervalSet::new(),
            aside: IntervalSet::new(),
            taken: IntervalSet::new(),
        }
    }

    /// Never hands out these numbers, asked for or not.
    pub fn exclude(&mut self, first: u128, last: u128) {
        self.excluded.insert_range(first, last);
        self.taken.insert_range(first, last);
    }

    /// Hands out these numbers only to those who ask for them.
    pub fn set_aside(&mut self, first: u128, last: u128) {
        self.aside.insert_range(first, last);
        self.taken.insert_range(first, last);
    }

    /// Gives an empty pool the state that annotations and the record describe. Claims are settled by
    /// seniority, whatever their order; those who lose are named.
    pub fn restore(&mut self, mut claims: Vec<Claim<O>>, record: &Record) -> Vec<Lost<O>> {
        self.cursor = record.cursor.clamp(self.first, self.last);
        for (number, epoch) in &record.quarantined {
            self.quarantined.insert(*number, *epoch);
            self.taken.insert(*number);
        }
        claims.sort();
        let mut lost = Vec::new();
        for Claim { owner, number, .. } in claims {
            // A number whose owner is on its way out is quarantined and held at once.
            match self.check(&owner, number) {
                Ok(()) | Err(Refused::Quarantined) => self.hold(owner, number, false),
                Err(Refused::Holds(held)) if held == number => {}
                Err(reason) => lost.push(Lost { owner, number, reason }),
            }
        }
        lost
    }

    /// The owner's number, or a new one for it that waits for `commit` or `abort`.
    pub fn reserve(&mut self, owner: &O) -> Result<u128, Refused<O>> {
        if let Some(held) = self.held.get(owner) {
            return Ok(held.number);
        }
        let number = self.next_free().ok_or(Refused::Full)?;
        self.hold(owner.clone(), number, true);
        Ok(number)
    }

    /// Reserves exactly this number.
    pub fn request(&mut self, owner: &O, number: u128) -> Result<(), Refused<O>> {
        match self.check(owner, number) {
            Ok(()) => {
                self.hold(owner.clone(), number, true);
                Ok(())
            }
            Err(Refused::Holds(held)) if held == number => Ok(()),
            Err(reason) => Err(reason),
        }
    }

    /// The annotation is written: the reservation stands.
    pub fn commit(&mut self, owner: &O) {
        if let Some(held) = self.held.get_mut(owner) {
            held.pending = false;
        }
    }

    /// The annotation could not be written: a reservation that was not committed is undone.
    pub fn abort(&mut self, owner: &O) {
        if self.is_pending(owner) {
            self.drop_hold(owner);
        }
    }

    /// Lists the owner's number as freed in this epoch. The owner keeps it until it is released; after
    /// that nobody has it until the epoch has expired.
    pub fn quarantine(&mut self, owner: &O, epoch: Epoch) -> Option<u128> {
        let number = self.number_of(owner)?;
        self.advance();
        self.quarantined.insert(number, epoch);
        Some(number)
    }

    /// The owner is gone; unless quarantined, its number is free.
    pub fn release(&mut self, owner: &O) -> Option<u128> {
        let number = self.number_of(owner)?;
        if !self.quarantined.contains_key(&number) {
            self.advance();
        }
        self.drop_hold(owner);
        Some(number)
    }

    /// All zones have cleared what these epochs list: those numbers can be used again.
    pub fn expire(&mut self, cleared: &Cleared) {
        let gone: Vec<u128> = self
            .quarantined
            .iter()
            .filter(|(_, epoch)| cleared.has(**epoch))
            .map(|(number, _)| *number)
            .collect();
        for number in gone {
            self.quarantined.remove(&number);
            self.settle(number);
        }
    }

    /// The owner's number.
    pub fn number_of(&self, owner: &O) -> Option<u128> {
        self.held.get(owner).map(|held| held.number)
    }

    /// Whether the owner's number waits for `commit`.
    pub fn is_pending(&self, owner: &O) -> bool {
        self.held.get(owner).is_some_and(|held| held.pending)
    }

    /// Who has a number.
    pub fn holder(&self, number: u128) -> Option<&O> {
        self.owners.get(&number)
    }

    /// Who has which number, by owner.
    pub fn iter(&self) -> impl Iterator<Item = (&O, u128)> {
        self.held.iter().map(|(owner, held)| (owner, held.number))
    }

    /// How many numbers are held.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// How many numbers wait for zones to clear them.
    pub fn waiting(&self) -> usize {
        self.quarantined.keys().filter(|number| !self.owners.contains_key(number)).count()
    }

    /// How many more numbers can be handed out.
    pub fn free(&self) -> u128 {
        let all = (self.last - self.first).saturating_add(1);
        all - self.taken.count(self.first, self.last)
    }

    /// Whether any number is in quarantine.
    pub fn any_rests(&self) -> bool {
        !self.quarantined.is_empty()
    }

    /// What to remember beyond the annotations.
    pub fn record(&self) -> Record {
        Record { cursor: self.cursor, quarantined: self.quarantined.clone() }
    }

    fn next_free(&self) -> Option<u128> {
        let from = self.cursor;
        let wrapped = || self.taken.first_missing(self.first, self.last);
        self.taken.first_missing(from, self.last).or_else(wrapped)
    }

    /// Only next-fit has a cursor that moves.
    fn advance(&mut self) {
        if self.fit == Fit::Next
            && let Some(next) = self.next_free()
        {
            self.cursor = next;
        }
    }

    fn check(&self, owner: &O, number: u128) -> Result<(), Refused<O>> {
        if let Some(held) = self.held.get(owner) {
            return Err(Refused::Holds(held.number));
        }
        if !(self.first..=self.last).contains(&number) {
            return Err(Refused::OutOfRange);
        }
        if self.excluded.contains(number) {
            return Err(Refused::Excluded);
        }
        if let Some(holder) = self.owners.get(&number) {
            return Err(Refused::TakenBy(holder.clone()));
        }
        if self.quarantined.contains_key(&number) { Err(Refused::Quarantined) } else { Ok(()) }
    }

    fn hold(&mut self, owner: O, number: u128, pending: bool) {
        self.owners.insert(number, owner.clone());
        self.held.insert(owner, Held { number, pending });
        self.taken.insert(number);
    }

    fn drop_hold(&mut self, owner: &O) {
        if let Some(held) = self.held.remove(owner) {
            self.owners.remove(&held.number);
            self.settle(held.number);
        }
    }

    /// A number is free again once nothing holds it back.
    fn settle(&mut self, number: u128) {
        let kept = self.owners.contains_key(&number)
            || self.quarantined.contains_key(&number)
            || self.excluded.contains(number)
            || self.aside.contains(number);
        if !kept {
            self.taken.remove(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pool(fit: Fit) -> NumberPool<u8> {
        NumberPool::new(1, 6, fit)
    }

    fn claim(created: i64, owner: u8, number: u128) -> Claim<u8> {
        Claim { seniority: Seniority { finished: false, created }, owner, number }
    }

    #[test]
    fn an_owner_has_one_number_however_often_it_asks() {
        let mut pool = pool(Fit::Next);
        assert_eq!([pool.reserve(&7), pool.reserve(&7), pool.reserve(&8)], [Ok(1), Ok(1), Ok(2)]);
    }

    #[test]
    fn next_fit_goes_round_and_lowest_does_not() {
        for (fit, third) in [(Fit::Next, 3), (Fit::Lowest, 1)] {
            let mut pool = pool(fit);
            pool.reserve(&1).unwrap();
            pool.reserve(&2).unwrap();
            assert_eq!(pool.release(&1), Some(1));
            assert_eq!(pool.reserve(&3), Ok(third));
        }
    }

    #[test]
    fn an_aborted_reservation_leaves_no_trace() {
        let mut pool = pool(Fit::Next);
        pool.reserve(&1).unwrap();
        pool.commit(&1);
        let before = pool.clone();
        pool.reserve(&2).unwrap();
        pool.abort(&2);
        pool.abort(&1);
        assert_eq!(pool, before);
    }

    fn upto(epoch: u64) -> Cleared {
        Cleared::new(Epoch(epoch), [])
    }

    #[test]
    fn a_quarantined_number_returns_when_its_epoch_has_expired() {
        let mut pool = NumberPool::new(1, 2, Fit::Next);
        for owner in [1, 2] {
            pool.reserve(&owner).unwrap();
        }
        assert_eq!(pool.quarantine(&1, Epoch(5)), Some(1));
        assert_eq!(pool.release(&1), Some(1));
        assert_eq!(pool.reserve(&3), Err(Refused::Full));
        assert_eq!(pool.request(&3, 1), Err(Refused::Quarantined));
        assert_eq!((pool.held(), pool.waiting(), pool.free()), (1, 1, 0));
        pool.expire(&upto(4));
        assert_eq!(pool.reserve(&3), Err(Refused::Full));
        pool.expire(&upto(5));
        assert_eq!(pool.reserve(&3), Ok(1));
    }

    #[test]
    fn an_owner_on_its_way_out_keeps_its_number_through_a_restart() {
        let mut old = pool(Fit::Next);
        old.reserve(&1).unwrap();
        old.commit(&1);
        old.quarantine(&1, Epoch(1));
        let mut new = pool(Fit::Next);
        assert_eq!(new.restore(vec![claim(0, 1, 1)], &old.record()), vec![]);
        assert_eq!(new, old);
        new.release(&1);
        assert_eq!(new.holder(1), None);
        assert_eq!(new.request(&2, 1), Err(Refused::Quarantined));
    }

    #[test]
    fn a_number_set_aside_goes_back_there() {
        let mut pool = pool(Fit::Lowest);
        pool.set_aside(1, 3);
        pool.exclude(4, 4);
        assert_eq!(pool.reserve(&1), Ok(5));
        assert_eq!(pool.request(&2, 2), Ok(()));
        assert_eq!(pool.request(&3, 4), Err(Refused::Excluded));
        assert_eq!(pool.request(&3, 9), Err(Refused::OutOfRange));
        assert_eq!(pool.request(&3, 2), Err(Refused::TakenBy(2)));
        assert_eq!(pool.request(&2, 3), Err(Refused::Holds(2)));
        pool.release(&2);
        assert_eq!(pool.reserve(&3), Ok(6));
        assert_eq!(pool.free(), 0);
    }

    #[test]
    fn claims_are_settled_by_age_and_then_by_name() {
        let finished = Claim { seniority: Seniority { finished: true, created: 0 }, owner: 9, number: 1 };
        let claims = vec![
            finished,
            claim(20, 1, 1),
            claim(10, 2, 1),
            claim(10, 3, 2),
            claim(10, 4, 2),
            claim(0, 5, 7),
        ];
        let mut reversed = claims.clone();
        reversed.reverse();
        let (mut one, mut two) = (pool(Fit::Next), pool(Fit::Next));
        let lost = one.restore(claims, &Record::default());
        assert_eq!(two.restore(reversed, &Record::default()), lost);
        assert_eq!(one, two);
        assert_eq!(one.iter().collect::<Vec<_>>(), [(&2, 1), (&3, 2)]);
        let reasons: Vec<_> = lost.into_iter().map(|lost| (lost.owner, lost.reason)).collect();
        assert_eq!(
            reasons,
            [
                (5, Refused::OutOfRange),
                (4, Refused::TakenBy(3)),
                (1, Refused::TakenBy(2)),
                (9, Refused::TakenBy(2))
            ]
        );
    }

    #[test]
    fn a_pool_of_2_to_the_128_costs_nothing() {
        let mut pool = NumberPool::new(0, u128::MAX, Fit::Next);
        pool.exclude(0, 1 << 100);
        assert_eq!(pool.reserve(&1), Ok((1 << 100) + 1));
        pool.release(&1);
        assert_eq!(pool.reserve(&2), Ok((1 << 100) + 2));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Reserve(u8),
        Request(u8, u128),
        Commit(u8),
        Abort(u8),
        Quarantine(u8, u64),
        Release(u8),
        Expire(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..9u8).prop_map(Step::Reserve),
            1 => (0..9u8, 0..9u128).prop_map(|(owner, number)| Step::Request(owner, number)),
            4 => (0..9u8).prop_map(Step::Commit),
            1 => (0..9u8).prop_map(Step::Abort),
            1 => (0..9u8, 0..5u64).prop_map(|(owner, epoch)| Step::Quarantine(owner, epoch)),
            2 => (0..9u8).prop_map(Step::Release),
            1 => (0..5u64).prop_map(Step::Expire),
        ]
    }

    fn apply(pool: &mut NumberPool<u8>, step: &Step) {
        match step {
            Step::Reserve(owner) => drop(pool.reserve(owner)),
            Step::Request(owner, number) => drop(pool.request(owner, *number)),
            Step::Commit(owner) => pool.commit(owner),
            Step::Abort(owner) => pool.abort(owner),
            Step::Quarantine(owner, epoch) => drop(pool.quarantine(owner, Epoch(*epoch))),
            Step::Release(owner) => drop(pool.release(owner)),
            Step::Expire(epoch) => pool.expire(&upto(*epoch)),
        }
    }

    fn fits() -> impl Strategy<Value = Fit> {
        prop_oneof![Just(Fit::Lowest), Just(Fit::Next)]
    }

    fn annotations(pool: &NumberPool<u8>) -> Vec<Claim<u8>> {
        pool.iter().map(|(owner, number)| claim(0, *owner, number)).collect()
    }

    proptest! {
        #[test]
        fn no_number_has_two_owners_and_nobody_has_more_than_there_is(
            fit in fits(),
            steps in proptest::collection::vec(step(), 0..80),
        ) {
            let mut pool = pool(fit);
            for step in &steps {
                apply(&mut pool, step);
                let mut numbers: Vec<u128> = pool.iter().map(|(_, number)| number).collect();
                numbers.sort_unstable();
                prop_assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
                prop_assert!(numbers.iter().all(|number| (1..=6).contains(number)));
                prop_assert_eq!(pool.held() as u128 + pool.waiting() as u128 + pool.free(), 6);
            }
        }

        #[test]
        fn a_restart_reproduces_the_state(
            fit in fits(),
            steps in proptest::collection::vec(step(), 0..80),
            order in any::<prop::sample::Index>(),
        ) {
            let mut old = pool(fit);
            for step in &steps {
                apply(&mut old, step);
            }
            for owner in 0..9 {
                old.abort(&owner);
            }
            let mut claims = annotations(&old);
            if !claims.is_empty() {
                let middle = order.index(claims.len());
                claims.rotate_left(middle);
            }
            let mut new = pool(fit);
            prop_assert_eq!(new.restore(claims, &old.record()), vec![]);
            prop_assert_eq!(new, old);
        }

        #[test]
        fn a_record_from_the_last_release_is_as_good_as_a_new_one(
            steps in proptest::collection::vec(step(), 0..80),
        ) {
            let mut old = pool(Fit::Next);
            let mut record = old.record();
            for step in &steps {
                apply(&mut old, step);
                if matches!(step, Step::Quarantine(..) | Step::Release(_) | Step::Expire(_)) {
                    record = old.record();
                }
            }
            for owner in 0..9 {
                old.abort(&owner);
            }
            let mut new = pool(Fit::Next);
            new.restore(annotations(&old), &record);
            for owner in 20..30 {
                prop_assert_eq!(new.reserve(&owner), old.reserve(&owner));
            }
        }

        #[test]
        fn incumbents_never_lose(
            steps in proptest::collection::vec(step(), 0..80),
        ) {
            let mut pool = pool(Fit::Next);
            for step in &steps {
                let before: Vec<(u8, u128)> = pool.iter().map(|(owner, number)| (*owner, number)).collect();
                apply(&mut pool, step);
                let may_lose = |owner| matches!(step, Step::Release(o) | Step::Abort(o) if *o == owner);
                for (owner, number) in before {
                    prop_assert!(may_lose(owner) || pool.number_of(&owner) == Some(number));
                }
            }
        }
    }
}
