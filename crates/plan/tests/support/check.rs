//! Plans as text, with parents by path instead of by UUID.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

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
    let mut text: String = rows.into_iter().map(show_row).collect();
    for (uuid, path) in paths {
        text = text.replace(&uuid, &path);
    }
    text
}

/// A row, and behind its path in brackets what holds it: its phase where it is not that of its table, with whom it shares a
/// transaction, and what must be there before it.
fn show_row(row: &Planned) -> String {
    let create = Create { planned: row.clone(), phase: Phase::Container };
    let text = SliceDiff { creates: vec![create], ..SliceDiff::default() }.to_string();
    let phase = row.phase.map(|phase| format!("phase {phase:?}").to_lowercase());
    let atom = row.atom.as_ref().map(|atom| format!("with {atom}"));
    let guards = row.guards.iter().map(|guard| format!("after {} {}", guard.meta.name, guard.uuid));
    let holds: Vec<String> = phase.into_iter().chain(atom).chain(guards).collect();
    match (holds.is_empty(), text.split_once('\n')) {
        (false, Some((first, rest))) => format!("{first} [{}]\n{rest}", holds.join(", ")),
        _ => text,
    }
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

/// Gives a program something to read, and fails where the program does.
pub fn feed(words: &[&str], input: &str) {
    let mut command = Command::new(causeway_testing::program(words[0]));
    let child = command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{words:?}: {}\n{input}", String::from_utf8_lossy(&output.stderr));
}
