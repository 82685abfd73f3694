//! Rows that a change adds.

use causeway_ovn::Planned;

/// What the second has, and the first has not.
pub fn new_rows(before: &[Planned], after: &[Planned]) -> Vec<Planned> {
    let known: std::collections::BTreeSet<&str> = before.iter().map(|row| &*row.path).collect();
    after.iter().filter(|row| !known.contains(&*row.path)).cloned().collect()
}
