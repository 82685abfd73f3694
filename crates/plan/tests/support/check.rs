//! Plans as text, with parents by path instead of by UUID.

use std::collections::BTreeMap;
use std::path::PathBuf;

use causeway_ovn::declare::Phase;
use causeway_ovn::{Create, Planned, Planner, SliceDiff};

/// The rows of a plan under some prefixes, as the difference that would make them.
pub fn show(planner: &dyn Planner, prefixes: &[&str]) -> String {
    let all = super::rows(planner, "");
    let paths: BTreeMap<String, String> =
        all.iter().map(|row| (row.uuid.to_string(), row.path.to_string())).collect();
    let mut rows: Vec<&Planned> =
        all.iter().filter(|row| prefixes.iter().any(|prefix| row.path.starts_with(prefix))).collect();
    rows.sort_by_key(|row| (row.path.clone(), row.meta.name));
    let creates =
        rows.into_iter().map(|row| Create { planned: row.clone(), phase: Phase::Container }).collect();
    let mut text = SliceDiff { creates, ..SliceDiff::default() }.to_string();
    for (uuid, path) in paths {
        text = text.replace(&uuid, &path);
    }
    text
}

/// Compares with a checked-in file. `CAUSEWAY_RECORD=1` writes it anew.
pub fn assert_golden(name: &str, text: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.txt"));
    if std::env::var_os("CAUSEWAY_RECORD").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let recorded = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        text,
        recorded,
        "{} is not what the plan prints; run the tests with CAUSEWAY_RECORD=1, read the difference and commit it",
        file.display()
    );
}
