//! Which slices must be looked at, most urgent first.

use causeway_ovsdb::Str;
use std::collections::{BTreeMap, BTreeSet};

/// Dirty slices, each once.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    /// Priority of each slice, and whether only the audit asked for it.
    slices: BTreeMap<Str, (u8, bool)>,
    queue: BTreeSet<(u8, Str)>,
}

impl Dirty {
    pub(crate) fn insert(&mut self, slice: Str, priority: u8, audit: bool) {
        match self.slices.get_mut(&slice) {
            Some((_, only_audit)) => *only_audit &= audit,
            None => {
                self.queue.insert((priority, slice.clone()));
                self.slices.insert(slice, (priority, audit));
            }
        }
    }

    /// The most urgent slice, and whether only the audit asked for it.
    pub(crate) fn pop(&mut self) -> Option<(Str, bool)> {
        let (_, slice) = self.queue.pop_first()?;
        let (_, audit) = self.slices.remove(&slice).unwrap_or_default();
        Some((slice, audit))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.slices.clear();
    }
}
