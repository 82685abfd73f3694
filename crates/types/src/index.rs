//! An index of subnets that answers "who is in the way?" without comparing all pairs.

use std::collections::BTreeMap;

use crate::{Cidr, Family};

/// Subnets with a value each. A question costs one lookup per prefix length in use, so checking n
/// subnets against each other is O(n log n).
#[derive(Debug, Clone)]
pub struct SubnetIndex<T> {
    entries: BTreeMap<Cidr, T>,
    /// How many entries have a prefix length: which ancestors are worth a lookup.
    lengths: BTreeMap<(Family, u8), usize>,
}

impl<T> Default for SubnetIndex<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), lengths: BTreeMap::new() }
    }
}

impl<T> SubnetIndex<T> {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a subnet, or replaces the value of exactly this one.
    pub fn insert(&mut self, cidr: Cidr, value: T) -> Option<T> {
        let old = self.entries.insert(cidr, value);
        if old.is_none() {
            *self.lengths.entry((cidr.family(), cidr.prefix_len())).or_default() += 1;
        }
        old
    }

    /// Takes out exactly this subnet.
    pub fn remove(&mut self, cidr: &Cidr) -> Option<T> {
        let old = self.entries.remove(cidr)?;
        let length = (cidr.family(), cidr.prefix_len());
        if let Some(count) = self.lengths.get_mut(&length) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&length);
            }
        }
        Some(old)
    }

    /// The value of exactly this subnet.
    pub fn get(&self, cidr: &Cidr) -> Option<&T> {
        self.entries.get(cidr)
    }

    /// The value of exactly this subnet, to change.
    pub fn get_mut(&mut self, cidr: &Cidr) -> Option<&mut T> {
        self.entries.get_mut(cidr)
    }

    /// All entries that share an address with this subnet: first those around it, widest first, then
    /// those inside it, in order.
    pub fn overlapping<'a>(&'a self, cidr: &Cidr) -> impl Iterator<Item = (&'a Cidr, &'a T)> + use<'a, T> {
        let cidr = *cidr;
        let shorter = self.lengths.range((cidr.family(), 0)..(cidr.family(), cidr.prefix_len()));
        let around = shorter.filter_map(move |((_, prefix), _)| {
            let parent = Cidr::around(cidr.base(), *prefix).ok()?;
            self.entries.get_key_value(&parent)
        });
        around.chain(self.inside(cidr))
    }

    /// All entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Cidr, &T)> {
        self.entries.iter()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is in the index.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// `Cidr` sorts by base, then by length, so what is inside a subnet follows it without a gap.
    fn inside(&self, cidr: Cidr) -> impl Iterator<Item = (&Cidr, &T)> {
        self.entries.range(cidr..).take_while(move |(other, _)| cidr.contains(other))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_around_comes_before_what_is_inside() {
        let mut index = SubnetIndex::new();
        for (text, name) in [
            ("10.0.0.0/8", "wide"),
            ("10.1.0.0/16", "same"),
            ("10.1.2.0/24", "deep"),
            ("11.0.0.0/8", "far"),
            ("fd00::/8", "six"),
        ] {
            index.insert(cidr(text), name);
        }
        let names: Vec<_> = index.overlapping(&cidr("10.1.0.0/16")).map(|(_, name)| *name).collect();
        assert_eq!(names, ["wide", "same", "deep"]);
        assert_eq!(index.remove(&cidr("10.0.0.0/8")), Some("wide"));
        assert_eq!(index.overlapping(&cidr("10.2.0.0/16")).count(), 0);
    }

    fn small_cidr() -> impl Strategy<Value = Cidr> {
        (any::<u8>(), 24..=32u8)
            .prop_map(|(a, p)| Cidr::around(Ipv4Addr::new(10, 0, 0, a).into(), p).unwrap())
    }

    proptest! {
        #[test]
        fn the_index_agrees_with_comparing_all_pairs(
            entries in proptest::collection::btree_set(small_cidr(), 0..20),
            gone in proptest::collection::vec(small_cidr(), 0..10),
            question in small_cidr(),
        ) {
            let mut index = SubnetIndex::new();
            for entry in &entries {
                index.insert(*entry, ());
            }
            let mut expected = entries.clone();
            for entry in gone {
                prop_assert_eq!(index.remove(&entry).is_some(), expected.remove(&entry));
            }
            let mut got: Vec<_> = index.overlapping(&question).map(|(cidr, ())| *cidr).collect();
            got.sort();
            let expected: Vec<_> = expected.into_iter().filter(|entry| entry.overlaps(&question)).collect();
            prop_assert_eq!(got, expected);
        }
    }
}
