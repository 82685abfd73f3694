//! Which kinds have been listed. Nothing is concluded before all that are needed have been.

use std::collections::{BTreeMap, BTreeSet};

/// What is still missing, and what watches complain of.
#[derive(Debug)]
pub(crate) struct Gate {
    missing: BTreeSet<&'static str>,
    problems: BTreeMap<&'static str, String>,
}

impl Gate {
    pub(crate) fn new(needed: impl IntoIterator<Item = &'static str>) -> Self {
        Self { missing: needed.into_iter().collect(), problems: BTreeMap::new() }
    }

    /// Whether everything that is needed has been listed.
    pub(crate) fn is_open(&self) -> bool {
        self.missing.is_empty()
    }

    pub(crate) fn listed(&mut self, kind: &'static str) {
        self.missing.remove(kind);
        self.problems.remove(kind);
    }

    pub(crate) fn problem(&mut self, kind: &'static str, problem: String) {
        self.problems.insert(kind, problem);
    }

    /// What is missing, for people; `late` is a kind that is waited for without holding anything up.
    pub(crate) fn missing(&self, late: Option<&'static str>) -> Option<String> {
        let missing: Vec<&str> = self.missing.iter().copied().chain(late).collect();
        let first = missing.first()?;
        let said = missing.iter().find_map(|kind| self.problems.get(kind));
        Some(said.cloned().unwrap_or_else(|| format!("{first} have not been listed")))
    }
}
