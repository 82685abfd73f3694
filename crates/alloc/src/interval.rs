//! A set of numbers as intervals, so that its cost follows what was set apart and never the size of
//! the space: 2^64 addresses with three pods are one interval.

use std::collections::BTreeMap;

/// A set of numbers. Intervals are apart by at least one number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IntervalSet {
    /// First to last number of each interval.
    intervals: BTreeMap<u128, u128>,
}

impl IntervalSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one number.
    pub fn insert(&mut self, number: u128) {
        self.insert_range(number, number);
    }

    /// Adds all numbers from `first` to `last`.
    pub fn insert_range(&mut self, first: u128, last: u128) {
        let (mut first, mut last) = (first, last);
        if first > last {
            return;
        }
        let reach = last.saturating_add(1);
        while let Some((start, end)) = self.at_or_before(reach) {
            if end.saturating_add(1) < first {
                break;
            }
            self.intervals.remove(&start);
            first = first.min(start);
            last = last.max(end);
        }
        self.intervals.insert(first, last);
    }

    /// Takes one number out.
    pub fn remove(&mut self, number: u128) {
        let Some((start, end)) = self.around(number) else {
            return;
        };
        self.intervals.remove(&start);
        if start < number {
            self.intervals.insert(start, number - 1);
        }
        if number < end {
            self.intervals.insert(number + 1, end);
        }
    }

    /// Whether no number is in the set.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// Whether the number is in the set.
    pub fn contains(&self, number: u128) -> bool {
        self.around(number).is_some()
    }

    /// The first number from `first` to `last` that is not in the set.
    pub fn first_missing(&self, first: u128, last: u128) -> Option<u128> {
        let free = match self.around(first) {
            // What follows an interval is free, because neighbours are merged.
            Some((_, end)) => end.checked_add(1)?,
            None => first,
        };
        (free <= last).then_some(free)
    }

    /// How many numbers from `first` to `last` are in the set.
    pub fn count(&self, first: u128, last: u128) -> u128 {
        let from = self.around(first).map_or(first, |(start, _)| start);
        let inside = self.intervals.range(from..=last.max(from));
        inside.fold(0, |sum: u128, (start, end)| {
            let (start, end) = ((*start).max(first), (*end).min(last));
            if start > end { sum } else { sum.saturating_add((end - start).saturating_add(1)) }
        })
    }

    fn around(&self, number: u128) -> Option<(u128, u128)> {
        self.at_or_before(number).filter(|(_, end)| number <= *end)
    }

    fn at_or_before(&self, number: u128) -> Option<(u128, u128)> {
        self.intervals.range(..=number).next_back().map(|(start, end)| (*start, *end))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_merge_and_holes_split() {
        let mut set = IntervalSet::new();
        set.insert(3);
        set.insert(5);
        set.insert(4);
        let mut whole = IntervalSet::new();
        whole.insert_range(3, 5);
        assert_eq!(set, whole);
        set.remove(4);
        assert_eq!(set.first_missing(3, 10), Some(4));
        assert_eq!(set.first_missing(5, 5), None);
    }

    #[test]
    fn the_ends_of_the_number_space_are_numbers_like_others() {
        let mut set = IntervalSet::new();
        set.insert_range(0, u128::MAX);
        assert_eq!(set.first_missing(0, u128::MAX), None);
        set.remove(u128::MAX);
        assert_eq!(set.first_missing(0, u128::MAX), Some(u128::MAX));
        assert_eq!(set.count(0, u128::MAX), u128::MAX);
        set.insert(u128::MAX);
        assert_eq!(set.count(u128::MAX - 1, u128::MAX), 2);
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_plain_set(
            steps in proptest::collection::vec((any::<bool>(), 0..40u128, 0..5u128), 0..60),
            from in 0..50u128,
            to in 0..50u128,
        ) {
            let (mut set, mut plain) = (IntervalSet::new(), BTreeSet::new());
            for (add, number, length) in steps {
                if add {
                    set.insert_range(number, number + length);
                    plain.extend(number..=number + length);
                } else {
                    set.remove(number);
                    plain.remove(&number);
                }
            }
            prop_assert_eq!(set.first_missing(from, to), (from..=to).find(|n| !plain.contains(n)));
            prop_assert_eq!(set.count(from, to), plain.iter().filter(|n| (from..=to).contains(n)).count() as u128);
            prop_assert_eq!(set.contains(from), plain.contains(&from));
        }
    }
}
