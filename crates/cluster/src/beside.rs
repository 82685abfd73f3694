//! Who is beside whom in namespaces, and in how many: networks that serve the same ones, objects that want the same ones.

use std::collections::BTreeMap;

/// Pairs, with how often they meet.
#[derive(Clone, Debug)]
pub(crate) struct Beside<K>(BTreeMap<K, BTreeMap<K, usize>>);

impl<K> Default for Beside<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Clone + Ord> Beside<K> {
    /// Two meet once more, or once less. The answer is whether they begin or cease to.
    pub(crate) fn change(&mut self, one: &K, other: &K, meet: bool) -> bool {
        let news = self.count(one, other, meet);
        self.count(other, one, meet);
        news
    }

    fn count(&mut self, from: &K, to: &K, meet: bool) -> bool {
        let met = self.0.entry(from.clone()).or_default();
        let count = met.entry(to.clone()).or_default();
        let before = *count;
        *count = if meet { before + 1 } else { before.saturating_sub(1) };
        let after = *count;
        if after == 0 {
            met.remove(to);
        }
        if met.is_empty() {
            self.0.remove(from);
        }
        (before == 0) != (after == 0)
    }

    /// Those who are beside one.
    pub(crate) fn of(&self, one: &K) -> impl Iterator<Item = &K> {
        self.0.get(one).into_iter().flat_map(BTreeMap::keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_meets_twice_must_part_twice() {
        let mut beside = Beside::default();
        assert_eq!(
            [true, true, false, false].map(|meet| beside.change(&"a", &"b", meet)),
            [true, false, false, true]
        );
        assert!(beside.change(&"a", &"c", true));
        assert_eq!((beside.of(&"a").count(), beside.of(&"b").count()), (1, 0));
        assert_eq!(beside.of(&"c").collect::<Vec<_>>(), [&"a"]);
    }
}
