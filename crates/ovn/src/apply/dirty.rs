//! Which slices must be looked at, most urgent first. A slice inside another one that is dirty too is not kept twice.

use crate::desired::covers;
use causeway_ovsdb::Str;
use std::collections::{BTreeMap, BTreeSet};

/// Dirty slices that don't overlap.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    slices: BTreeMap<Str, Mark>,
    queue: BTreeSet<(u8, Str)>,
}

#[derive(Debug)]
struct Mark {
    priority: u8,
    /// Whether only the audit asked for it.
    audit: bool,
}

impl Dirty {
    pub(crate) fn insert(&mut self, slice: Str, priority: u8, audit: bool) {
        if let Some(around) = self.around(&slice) {
            if let Some(mark) = self.slices.get_mut(&around) {
                mark.audit &= audit;
            }
            return;
        }
        let inside: Vec<Str> = self
            .slices
            .range(slice.clone()..)
            .map(|(s, _)| s)
            .take_while(|s| covers(&slice, s))
            .cloned()
            .collect();
        for narrower in inside {
            if let Some(mark) = self.slices.remove(&narrower) {
                self.queue.remove(&(mark.priority, narrower));
            }
        }
        self.queue.insert((priority, slice.clone()));
        self.slices.insert(slice, Mark { priority, audit });
    }

    /// The dirty slice that covers this one, if any.
    fn around(&self, slice: &str) -> Option<Str> {
        wider(slice).find(|s| self.slices.contains_key(*s)).map(Str::from)
    }

    /// The most urgent slice, and whether only the audit asked for it.
    pub(crate) fn pop(&mut self) -> Option<(Str, bool)> {
        let (_, slice) = self.queue.pop_first()?;
        let audit = self.slices.remove(&slice).is_some_and(|mark| mark.audit);
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

/// All slices that cover this one, itself included.
pub(super) fn wider(slice: &str) -> impl Iterator<Item = &str> {
    let ends = slice.match_indices(':').map(|(at, _)| at + 1);
    std::iter::once(0).chain(ends).chain([slice.len()]).map(|end| &slice[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(mut dirty: Dirty) -> Vec<(Str, bool)> {
        std::iter::from_fn(|| dirty.pop()).collect()
    }

    #[test]
    fn urgent_slices_come_first_and_each_once() {
        let mut dirty = Dirty::default();
        dirty.insert("net:b:".into(), 100, false);
        dirty.insert("pod:a:".into(), 1, false);
        dirty.insert("net:a:".into(), 100, false);
        dirty.insert("pod:a:".into(), 1, true);
        assert_eq!(
            drain(dirty),
            [("pod:a:".into(), false), ("net:a:".into(), false), ("net:b:".into(), false)]
        );
    }

    #[test]
    fn a_wider_slice_swallows_the_narrower_ones() {
        let mut dirty = Dirty::default();
        for slice in ["net:a:port:1", "net:a:", "net:a:port:", "net:ab:"] {
            dirty.insert(slice.into(), 100, false);
        }
        assert_eq!(drain(dirty), [("net:a:".into(), false), ("net:ab:".into(), false)]);
    }

    #[test]
    fn what_an_event_dirties_is_no_finding_of_the_audit() {
        let mut dirty = Dirty::default();
        dirty.insert("net:a:".into(), 100, true);
        dirty.insert("net:a:port:1".into(), 100, false);
        dirty.insert("net:b:".into(), 100, true);
        assert_eq!(drain(dirty), [("net:a:".into(), false), ("net:b:".into(), true)]);
    }
}
