//! The conformance tests of the network policy API, which are Go tests.

use anyhow::{Result, ensure};
use causeway_sandbox::Programs;
use causeway_sandbox::harness::Sandbox;

use super::{Folder, Judge, Lists, Outcome, any_of, outside};

/// What every test's name begins with.
const SUITE: &str = "TestConformance/";
/// The same as an expression: another one of the suite, which writes reports, begins alike.
const EXACTLY: &str = "^TestConformance$/";

pub(super) fn run(
    sandbox: &Sandbox,
    judge: Judge,
    folder: &Folder,
    focus: Option<&str>,
) -> Result<Vec<Outcome>> {
    let mut command = outside(sandbox, &Programs::find().program(&format!("{}.test", judge.name())))?;
    command.args(["-test.v", "-test.timeout=2h", "-all-features"]);
    command.arg(format!("-test.run={EXACTLY}{}", focus.unwrap_or("")));
    // What is left out by name is a test, or a part of one.
    let (parts, whole): (Vec<_>, Vec<_>) = Lists::of(judge).excluded().partition(|name| name.contains('/'));
    let mut skipped: Vec<String> = Vec::new();
    if !whole.is_empty() {
        skipped.push(format!("{EXACTLY}({})", any_of(whole.into_iter())));
    }
    skipped.extend(parts.into_iter().map(|part| format!("{EXACTLY}{}", any_of([part].into_iter()))));
    command.arg(format!("-test.skip={}", skipped.join("|")));
    let outcomes = outcomes(&folder.run(&mut command)?);
    ensure!(!outcomes.is_empty(), "no test ran: see {}", folder.path("log").display());
    Ok(outcomes)
}

/// The tests that have no parts, with the last thing that each said.
fn outcomes(said: &str) -> Vec<Outcome> {
    let ends = said.lines().filter_map(|line| end(line.trim_start()));
    let all: Vec<Outcome> = ends.collect();
    let has_parts = |name: &str| {
        all.iter().any(|other| other.name.strip_prefix(name).is_some_and(|r| r.starts_with('/')))
    };
    all.iter().filter(|one| !has_parts(&one.name)).cloned().collect()
}

/// `--- PASS: TestConformance/Name/Part (3.21s)`.
fn end(line: &str) -> Option<Outcome> {
    let (word, rest) = line.strip_prefix("--- ")?.split_once(": ")?;
    let (name, seconds) = rest.rsplit_once(" (")?;
    let state = match word {
        "PASS" => "passed",
        "SKIP" => "skipped",
        _ => "failed",
    };
    Some(Outcome {
        name: name.strip_prefix(SUITE)?.to_owned(),
        state: state.into(),
        seconds: seconds.strip_suffix("s)")?.parse().ok()?,
        message: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_without_parts_count() {
        let said = "=== RUN   TestConformance\n--- FAIL: TestConformance (9.00s)\n    --- FAIL: TestConformance/A (2.50s)\n\
            \x20       --- PASS: TestConformance/A/one_(two) (1.50s)\n        --- FAIL: TestConformance/A/two (1.00s)\n\
            \x20   --- SKIP: TestConformance/B (0.00s)\nFAIL\n";
        let found: Vec<(String, String)> =
            outcomes(said).into_iter().map(|one| (one.name, one.state)).collect();
        let row = |name: &str, state: &str| (name.to_owned(), state.to_owned());
        assert_eq!(found, [row("A/one_(two)", "passed"), row("A/two", "failed"), row("B", "skipped")]);
    }
}
