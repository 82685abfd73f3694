//! Runs Kubernetes' own end-to-end tests against a sandbox and prints a table.
//!
//! All specs of `[sig-network]` run, but for those that `conformance/excluded.txt` names with their reasons.
//! `conformance/passing.txt` names the specs that must pass: one that fails, or does not run, ends the command with an error.
//! With a focus of its own it runs only that.
#![allow(clippy::print_stdout, reason = "this is a command")]

use anyhow::{Context as _, Result, ensure};
use causeway_sandbox::Programs;
use causeway_sandbox::harness::Sandbox;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

const PASSING: &str = include_str!("../../conformance/passing.txt");
const EXCLUDED: &str = include_str!("../../conformance/excluded.txt");
/// What runs if nothing else is asked for.
const FOCUS: &str = r"\[sig-network\]";
/// So many specs of this kind there are; none of them may be left out.
const CONFORMANCE: (&str, usize) = ("[Conformance]", 47);
/// Specs at once, for each processor: they wait most of their time.
const PER_PROCESSOR: usize = 2;

/// A spec with its end.
struct Outcome {
    name: String,
    state: String,
    seconds: f64,
    message: String,
}

fn main() -> Result<()> {
    let asked = std::env::args().nth(1);
    let must: BTreeSet<&str> = entries(PASSING).collect();
    println!("starting a sandbox of three nodes");
    let sandbox = Sandbox::new(3)?;
    sandbox.load(&Programs::find().share("causeway-e2e.tar")).context("run `scripts/setup e2e`")?;
    let report = run(&sandbox, asked.as_deref())?;
    let outcomes = outcomes(&report)?;
    print(&outcomes, &must);
    let broken: Vec<&Outcome> =
        outcomes.iter().filter(|spec| spec.state != "passed" && must.contains(spec.name.as_str())).collect();
    ensure!(broken.is_empty(), "{} specs that must pass do not", broken.len());
    if asked.is_none() {
        let missing = must.iter().filter(|name| !outcomes.iter().any(|spec| spec.name == **name)).count();
        ensure!(missing == 0, "{missing} specs of conformance/passing.txt did not run");
        let (mark, all) = CONFORMANCE;
        let ran = outcomes.iter().filter(|spec| spec.name.contains(mark)).count();
        ensure!(ran == all, "{ran} of {all} specs of {mark} ran");
    }
    Ok(())
}

/// The lines that are no remarks.
fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// An expression that matches any of these texts.
fn any_of<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let special = |c: char| if "\\.+*?()|[]{}^$".contains(c) { format!("\\{c}") } else { c.to_string() };
    texts.map(|text| text.chars().map(special).collect::<String>()).collect::<Vec<_>>().join("|")
}

fn run(sandbox: &Sandbox, asked: Option<&str>) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/conformance");
    std::fs::create_dir_all(&folder)?;
    let report = folder.join("report.json");
    let log = std::fs::File::create(folder.join("log"))?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let at_once = processors * PER_PROCESSOR;
    println!("running the specs, {at_once} at once; each step is in target/conformance/log");
    let programs = Programs::find();
    // From a host outside of the cluster, as a person would: what has an address there is reached there.
    let mut command = sandbox.command("outside")?;
    command.arg(programs.program("ginkgo")).arg(format!("--procs={at_once}"));
    command.args(["--timeout=3h", "--poll-progress-after=120s", "--no-color", "--keep-going"]);
    command.arg(format!("--focus={}", asked.unwrap_or(FOCUS)));
    if asked.is_none() {
        command.arg(format!("--skip={}", any_of(entries(EXCLUDED))));
    }
    command
        .args(["--json-report=report.json", &format!("--output-dir={}", folder.display())])
        .arg(programs.program("e2e.test"))
        .arg("--")
        .arg("--kubeconfig=/run/causeway/certificates/admin.kubeconfig")
        .args(["--provider=skeleton", "--minStartupPods=0", "--node-os-distro=debian"])
        // Specs ask for kubectl by name.
        .arg(format!("--kubectl-path={}", programs.program("kubectl").display()));
    // Its exit code says that something failed; the report says what.
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .context("ginkgo does not start: run `scripts/setup e2e`")?;
    Ok(report)
}

fn outcomes(report: &Path) -> Result<Vec<Outcome>> {
    let text = std::fs::read_to_string(report).context("ginkgo wrote no report")?;
    let report: Value = serde_json::from_str(&text)?;
    let specs = report[0]["SpecReports"].as_array().context("a report without specs")?;
    // One that was not selected never began to run; one that says itself that it cannot run here did.
    let ran = specs.iter().filter(|spec| spec["LeafNodeType"] == "It" && spec["RunTime"] != 0);
    Ok(ran.map(outcome).collect())
}

fn outcome(spec: &Value) -> Outcome {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let above = spec["ContainerHierarchyTexts"].as_array().cloned().unwrap_or_default();
    let words: Vec<String> = above.iter().chain([&spec["LeafNodeText"]]).map(text).collect();
    Outcome {
        name: words.join(" "),
        state: text(&spec["State"]),
        seconds: spec["RunTime"].as_f64().unwrap_or_default() / 1e9,
        message: text(&spec["Failure"]["Message"]).lines().next().unwrap_or_default().to_owned(),
    }
}

fn print(outcomes: &[Outcome], must: &BTreeSet<&str>) {
    let mut sorted: Vec<&Outcome> = outcomes.iter().collect();
    sorted.sort_by_key(|spec| (&spec.state, &spec.name));
    println!("{:<8} {:>7}  spec", "state", "seconds");
    for spec in &sorted {
        let new = if spec.state == "passed" && !must.contains(spec.name.as_str()) { " (new)" } else { "" };
        println!("{:<8} {:>7.1}  {}{new}", spec.state, spec.seconds, spec.name);
        if !spec.message.is_empty() {
            println!("{:18}{}", "", spec.message);
        }
    }
    let passed = sorted.iter().filter(|spec| spec.state == "passed").count();
    let skipped = sorted.iter().filter(|spec| spec.state == "skipped").count();
    println!("{passed} of {} passed, {skipped} said that they cannot run here", sorted.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spec_that_must_pass_is_left_out() {
        let left_out: Vec<&str> = entries(EXCLUDED).collect();
        let both = entries(PASSING).find(|spec| left_out.iter().any(|part| spec.contains(part)));
        assert_eq!(both, None);
    }

    #[test]
    fn each_exclusion_has_a_reason() {
        let mut reason = false;
        for line in EXCLUDED.lines() {
            reason = line.starts_with('#') || (reason && !line.trim().is_empty());
            assert!(line.trim().is_empty() || reason, "{line}");
        }
    }

    #[test]
    fn special_characters_are_taken_as_they_are() {
        assert_eq!(any_of(["[a] b.c", "d"].into_iter()), r"\[a\] b\.c|d");
    }
}
