//! The comparison of what is planned with what is there. Pure: values in, changes out.

use crate::output::{Actual, Op, Wanted, Whose};
use causeway_types::host::{HostPlan, Key, Planned};
use std::cmp::Reverse;

/// The changes, in the order in which they can be made, and the keys that somebody else holds.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Difference {
    /// What is missing comes first, then what is too much, in reverse.
    pub ops: Vec<Op>,
    /// Keys under which something stands that is not ours.
    pub taken: Vec<Key>,
}

/// Compares. Of the plan only the holds count here: what an owner that is held has, stays.
pub fn diff(plan: &HostPlan, wanted: &Wanted, actual: &Actual) -> Difference {
    let mut difference = Difference::default();
    for (key, planned) in wanted {
        match actual.get(key) {
            None => difference.ops.push(Op::Create(planned.clone())),
            Some(seen) if seen.item == planned.item && !is_mismarked(key, &seen.whose, planned) => {}
            Some(seen) if seen.whose == Whose::Foreign => difference.taken.push(key.clone()),
            Some(seen) => {
                difference.ops.push(Op::Change { from: seen.item.clone(), to: planned.clone() });
            }
        }
    }
    let strays = actual.iter().filter(|(key, seen)| !wanted.contains_key(key) && seen.whose.may_go(plan));
    let mut deletions: Vec<Op> = strays.map(|(_, seen)| Op::Delete(seen.item.clone())).collect();
    difference.ops.sort_by_cached_key(|op| (rank(op), op.key()));
    deletions.sort_by_cached_key(|op| Reverse((rank(op), op.key())));
    difference.ops.extend(deletions);
    difference
}

/// Only where the mark with the owner's name stands on the item itself can it be put right.
fn is_mismarked(key: &Key, whose: &Whose, planned: &Planned) -> bool {
    matches!(key, Key::Link(_) | Key::BridgePort(_) | Key::Table { .. } | Key::Flow { .. } | Key::Section(_))
        && whose.is_not_for(&planned.owner)
}

fn rank(op: &Op) -> u8 {
    match op {
        Op::Create(planned) | Op::Change { to: planned, .. } => planned.item.rank(),
        Op::Delete(item) => item.rank(),
    }
}
