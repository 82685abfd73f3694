//! Maps and sets of planned rows, as sorted vectors: they have few members, live shortly, and become datums as they are.

use causeway_ovsdb::Str;

/// A map from texts to texts, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs(Vec<(Str, Str)>);

impl Pairs {
    /// A map of nothing.
    pub fn new() -> Pairs {
        Pairs::default()
    }

    /// Puts a pair in; what the key had before is given back.
    pub fn insert(&mut self, key: Str, value: Str) -> Option<Str> {
        match self.place(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    /// What a key has.
    pub fn get(&self, key: &str) -> Option<&Str> {
        self.place(key).ok().map(|at| &self.0[at].1)
    }

    /// The pairs in the order of their keys.
    pub fn iter(&self) -> std::slice::Iter<'_, (Str, Str)> {
        self.0.iter()
    }

    pub(crate) fn into_pairs(self) -> Vec<(Str, Str)> {
        self.0
    }

    fn place(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_str().cmp(key))
    }
}

/// Of equal keys the last counts.
impl From<Vec<(Str, Str)>> for Pairs {
    fn from(mut pairs: Vec<(Str, Str)>) -> Pairs {
        if !pairs.is_sorted_by(|(one, _), (next, _)| one < next) {
            // A stable sort keeps equal keys in their order; the last of them shall be the first that is kept.
            pairs.reverse();
            pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
            pairs.dedup_by(|(later, _), (kept, _)| later == kept);
        }
        Pairs(pairs)
    }
}

impl<const N: usize> From<[(Str, Str); N]> for Pairs {
    fn from(pairs: [(Str, Str); N]) -> Pairs {
        Vec::from(pairs).into()
    }
}

impl FromIterator<(Str, Str)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (Str, Str)>>(pairs: I) -> Pairs {
        pairs.into_iter().collect::<Vec<_>>().into()
    }
}

impl Extend<(Str, Str)> for Pairs {
    fn extend<I: IntoIterator<Item = (Str, Str)>>(&mut self, pairs: I) {
        for (key, value) in pairs {
            self.insert(key, value);
        }
    }
}

impl IntoIterator for Pairs {
    type Item = (Str, Str);
    type IntoIter = std::vec::IntoIter<(Str, Str)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// A set, sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members<T>(Vec<T>);

impl<T> Default for Members<T> {
    fn default() -> Members<T> {
        Members(Vec::new())
    }
}

impl<T: Ord> Members<T> {
    /// The members in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_members(self) -> Vec<T> {
        self.0
    }
}

impl<T: Ord> From<Vec<T>> for Members<T> {
    fn from(mut members: Vec<T>) -> Members<T> {
        if !members.is_sorted_by(|one, next| one < next) {
            members.sort_unstable();
            members.dedup();
        }
        Members(members)
    }
}

impl<T: Ord, const N: usize> From<[T; N]> for Members<T> {
    fn from(members: [T; N]) -> Members<T> {
        Vec::from(members).into()
    }
}

impl<T: Ord> FromIterator<T> for Members<T> {
    fn from_iter<I: IntoIterator<Item = T>>(members: I) -> Members<T> {
        members.into_iter().collect::<Vec<_>>().into()
    }
}

impl<T> IntoIterator for Members<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest::proptest! {
        /// They are what the collections of the standard library are, made in any order.
        #[test]
        fn they_are_sorted_and_the_last_of_equal_keys_counts(given in proptest::collection::vec((0_u8..5, 0_u8..5), 0..12)) {
            let text = |number: u8| Str::from(number.to_string());
            let pairs: Vec<(Str, Str)> = given.iter().map(|(key, value)| (text(*key), text(*value))).collect();
            let expected: Vec<(Str, Str)> = pairs.iter().cloned().collect::<BTreeMap<_, _>>().into_iter().collect();
            let mut extended = Pairs::new();
            extended.extend(pairs.iter().cloned());
            proptest::prop_assert_eq!(&extended.into_pairs(), &expected);
            proptest::prop_assert_eq!(&Pairs::from(pairs).into_pairs(), &expected);
            let members = given.iter().map(|(key, _)| *key);
            let expected: Vec<u8> = members.clone().collect::<BTreeSet<_>>().into_iter().collect();
            proptest::prop_assert_eq!(members.collect::<Members<_>>().into_members(), expected);
        }
    }

    #[test]
    fn a_key_has_one_value() {
        let mut pairs = Pairs::from([("b".into(), "1".into())]);
        assert_eq!(pairs.insert("b".into(), "2".into()), Some("1".into()));
        assert_eq!(pairs.insert("a".into(), "3".into()), None);
        assert_eq!((pairs.get("b"), pairs.get("c")), (Some(&"2".into()), None));
        assert_eq!(pairs.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }
}
