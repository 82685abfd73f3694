//! Cyclonus: it makes policies, asks every pod whom it reaches, and compares that with what the policies mean.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use causeway_sandbox::Programs;
use causeway_sandbox::harness::Sandbox;

use super::{Folder, Judge, Lists, Outcome, outside};

/// With a focus, only cases with one of these tags run, and none with a tag behind a minus: `deny-all,named-port,-multi-peer`.
pub(super) fn run(sandbox: &Sandbox, folder: &Folder, focus: Option<&str>) -> Result<Vec<Outcome>> {
    let mut command = outside(sandbox, &Programs::find().program("cyclonus"))?;
    command.args(["generate", "--server-protocol=TCP,UDP", "--ignore-loopback"]);
    // Pods are asked by the addresses of their services, which every network has.
    command.arg("--destination-type=service-ip");
    command.args([
        "--perturbation-wait-seconds=3",
        "--job-timeout-seconds=2",
        "--pod-creation-timeout-seconds=240",
        "--cleanup-namespaces",
    ]);
    command.args(selection(focus));
    let outcomes = outcomes(&folder.run(&mut command)?);
    ensure!(!outcomes.is_empty(), "cyclonus ran no case: see {}", folder.path("log").display());
    Ok(outcomes)
}

/// Which cases run. What is left out is always named: without that the judge leaves out five tags on its own.
fn selection(focus: Option<&str>) -> Vec<String> {
    let tags = || focus.into_iter().flat_map(|tags| tags.split(','));
    let without = tags().filter_map(|tag| tag.strip_prefix('-'));
    let without: Vec<&str> =
        Lists::of(Judge::Cyclonus).excluded().map(|tag| -> &str { tag }).chain(without).collect();
    let with: Vec<&str> = tags().filter(|tag| !tag.starts_with('-')).collect();
    let mut words = vec![format!("--exclude={}", without.join(","))];
    if !with.is_empty() {
        words.push(format!("--include={}", with.join(",")));
    }
    words
}

/// What stands for a case until it has ended.
const UNENDED: &str = "it did not end";

/// A case starts, has its name when its answers are there, with a line of counts for each step, and ends; one that does not has failed.
fn outcomes(said: &str) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let failed =
        |name: String| Outcome { name, state: "failed".into(), seconds: 0.0, message: UNENDED.into() };
    let mut started: Option<&str> = None;
    for line in said.lines() {
        if let Some((_, number)) = line.split_once("starting test case #") {
            outcomes.extend(started.map(|number| failed(format!("case #{number}"))));
            started = Some(number.trim_end_matches('"'));
        } else if let Some(name) = line.strip_prefix("evaluating test case: ") {
            started = None;
            let count = seen.entry(name.to_owned()).and_modify(|count| *count += 1).or_insert(1);
            // Names are not unique, but their order is always the same.
            let name = if *count > 1 { format!("{name} ({count})") } else { name.to_owned() };
            outcomes.push(failed(name));
        } else if let Some(last) = outcomes.last_mut() {
            if let Some(counts) = line.strip_prefix("Discrepancy found:") {
                last.message = counts.to_owned();
            } else if line.contains("finished policy #") && started.is_none() && last.message == UNENDED {
                (last.state, last.message) = ("passed".into(), String::new());
            }
        }
    }
    outcomes.extend(started.map(|number| failed(format!("case #{number}"))));
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_wanted_or_not() {
        assert_eq!(selection(None), ["--exclude=sctp"]);
        assert_eq!(selection(Some("-conflict")), ["--exclude=sctp,conflict"]);
        assert_eq!(selection(Some("udp,-conflict,tcp")), ["--exclude=sctp,conflict", "--include=udp,tcp"]);
    }

    fn found(said: &str) -> Vec<(String, String, String)> {
        outcomes(said).into_iter().map(|one| (one.name, one.state, one.message)).collect()
    }

    fn row(name: &str, state: &str, message: &str) -> (String, String, String) {
        (name.to_owned(), state.to_owned(), message.to_owned())
    }

    #[test]
    fn counts_of_wrong_answers_make_a_failure() {
        let said = "starting test case #1\nevaluating test case: deny\n0 wrong, 9 ignored, 72 correct\nfinished policy #1\n\
            starting test case #2\nevaluating test case: deny\nDiscrepancy found:24 wrong, 9 ignored, 48 correct\nfinished policy #2\n";
        let wrong = "24 wrong, 9 ignored, 48 correct";
        assert_eq!(found(said), [row("deny", "passed", ""), row("deny (2)", "failed", wrong)]);
    }

    #[test]
    fn a_case_that_does_not_end_has_failed() {
        let first = "starting test case #1\nevaluating test case: deny\nfinished policy #1\n";
        let cut = [
            ("time=\"now\" msg=\"starting test case #2\"\n", row("case #2", "failed", UNENDED)),
            ("starting test case #2\nevaluating test case: open\n0 wrong\n", row("open", "failed", UNENDED)),
        ];
        for (rest, last) in cut {
            assert_eq!(found(&format!("{first}{rest}")), [row("deny", "passed", ""), last]);
        }
    }
}
