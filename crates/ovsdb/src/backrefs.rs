//! From child to parent: which rows refer to a row. Most rows have exactly one parent, so that case is stored in
//! 20 bytes; parents are numbered.

use crate::datum::Atom;
use crate::replica::TableId;
use rustc_hash::FxHashMap;
use uuid::Uuid;

/// One side of a reference: a row and the column through which it refers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Parent {
    pub(crate) table: TableId,
    pub(crate) column: u16,
    pub(crate) row: Uuid,
}

impl Parent {
    pub(crate) fn new(table: TableId, column: usize, row: Uuid) -> Parent {
        Parent { table, column: column as u16, row }
    }
}

#[derive(Debug, Default)]
pub(crate) struct BackRefs {
    /// Numbered parents with the count of their children; a free number has no parent.
    parents: Vec<Option<(Parent, u32)>>,
    numbers: FxHashMap<Parent, u32>,
    free: Vec<u32>,
    first: FxHashMap<Uuid, u32>,
    /// Second and further parents.
    more: FxHashMap<Uuid, Vec<u32>>,
}

impl BackRefs {
    pub(crate) fn parents(&self, child: Uuid) -> impl Iterator<Item = Parent> + '_ {
        let more = self.more.get(&child).map(Vec::as_slice).unwrap_or_default();
        self.first.get(&child).into_iter().chain(more).filter_map(|n| self.parents[*n as usize].map(|p| p.0))
    }

    pub(crate) fn add_all(&mut self, parent: Parent, children: &[Atom]) {
        for child in children.iter().filter_map(Atom::as_uuid) {
            let number = self.number(parent);
            match self.first.entry(child) {
                std::collections::hash_map::Entry::Vacant(slot) => drop(slot.insert(number)),
                std::collections::hash_map::Entry::Occupied(_) => {
                    self.more.entry(child).or_default().push(number)
                }
            }
        }
    }

    pub(crate) fn remove_all(&mut self, parent: Parent, children: &[Atom]) {
        let Some(&number) = self.numbers.get(&parent) else { return };
        for child in children.iter().filter_map(Atom::as_uuid) {
            if self.unlink(child, number) {
                self.release(parent, number);
            }
        }
    }

    fn unlink(&mut self, child: Uuid, number: u32) -> bool {
        let more = self.more.get_mut(&child);
        if self.first.get(&child) != Some(&number) {
            let Some(more) = more else { return false };
            let Some(at) = more.iter().position(|n| *n == number) else { return false };
            more.swap_remove(at);
            if more.is_empty() {
                self.more.remove(&child);
            }
            return true;
        }
        match more.and_then(Vec::pop) {
            Some(next) => drop(self.first.insert(child, next)),
            None => drop(self.first.remove(&child)),
        }
        if self.more.get(&child).is_some_and(Vec::is_empty) {
            self.more.remove(&child);
        }
        true
    }

    fn number(&mut self, parent: Parent) -> u32 {
        if let Some(&number) = self.numbers.get(&parent) {
            if let Some((_, count)) = &mut self.parents[number as usize] {
                *count += 1;
            }
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.parents.push(None);
            self.parents.len() as u32 - 1
        });
        self.parents[number as usize] = Some((parent, 1));
        self.numbers.insert(parent, number);
        number
    }

    fn release(&mut self, parent: Parent, number: u32) {
        let slot = &mut self.parents[number as usize];
        match slot {
            Some((_, count)) if *count > 1 => *count -= 1,
            _ => {
                *slot = None;
                self.numbers.remove(&parent);
                self.free.push(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    proptest! {
        /// Whatever is linked and unlinked, in any order, the answer is that of a plain set of pairs.
        #[test]
        fn agrees_with_a_plain_set_of_pairs(ops in prop::collection::vec((any::<bool>(), 0u128..5, 0u128..5), 0..80)) {
            let mut refs = BackRefs::default();
            let mut plain: BTreeSet<(u128, u128)> = BTreeSet::new();
            for (add, parent, child) in ops {
                let p = Parent::new(TableId(0), 0, id(parent));
                if add && plain.insert((parent, child)) {
                    refs.add_all(p, &[Atom::Uuid(id(child))]);
                } else if !add {
                    plain.remove(&(parent, child));
                    refs.remove_all(p, &[Atom::Uuid(id(child))]);
                }
            }
            for child in 0..5 {
                let got: BTreeSet<Uuid> = refs.parents(id(child)).map(|p| p.row).collect();
                let want: BTreeSet<Uuid> = plain.iter().filter(|(_, c)| *c == child).map(|(p, _)| id(*p)).collect();
                prop_assert_eq!(got, want);
            }
            let used: BTreeSet<u128> = plain.iter().map(|(p, _)| *p).collect();
            prop_assert_eq!(refs.numbers.len(), used.len());
        }
    }
}
