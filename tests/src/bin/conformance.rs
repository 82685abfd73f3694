//! Runs Kubernetes' own end-to-end tests against a sandbox and prints a table.
//!
//! `conformance/passing.txt` names the specs that must pass: one that fails ends the command with an error. With
//! another focus than its own it only tells.
#![allow(clippy::print_stdout, reason = "this is a command")]

use anyhow::{Context as _, Result, ensure};
use causeway_sandbox::Programs;
use causeway_sandbox::harness::Sandbox;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PASSING: &str = include_str!("../../conformance/passing.txt");

/// A spec with its end.
struct Outcome {
    name: String,
    state: String,
    seconds: f64,
    message: String,
}

fn main() -> Result<()> {
    let focus = std::env::args().nth(1);
    let must: BTreeSet<&str> =
        PASSING.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    println!("starting a sandbox of three nodes");
    let sandbox = Sandbox::new(3)?;
    let report = run(&sandbox, &focus.clone().unwrap_or_else(|| one_of(&must)))?;
    let outcomes = outcomes(&report)?;
    print(&outcomes, &must);
    let broken: Vec<&Outcome> =
        outcomes.iter().filter(|spec| spec.state != "passed" && must.contains(spec.name.as_str())).collect();
    ensure!(broken.is_empty(), "{} specs that must pass do not", broken.len());
    let missing = must.iter().filter(|name| !outcomes.iter().any(|spec| spec.name == **name)).count();
    ensure!(focus.is_some() || missing == 0, "{missing} specs of conformance/passing.txt did not run");
    Ok(())
}

/// A focus that selects exactly these specs.
fn one_of(names: &BTreeSet<&str>) -> String {
    let escaped = names.iter().map(|name| {
        let special = |c: char| if "\\.+*?()|[]{}^$".contains(c) { format!("\\{c}") } else { c.to_string() };
        name.chars().map(special).collect::<String>()
    });
    escaped.collect::<Vec<_>>().join("|")
}

fn run(sandbox: &Sandbox, focus: &str) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/conformance");
    std::fs::create_dir_all(&folder)?;
    let report = folder.join("report.json");
    let log = std::fs::File::create(folder.join("log"))?;
    println!("running the specs; each step is in target/conformance/log");
    // Its exit code says that something failed; the report says what.
    Command::new(Programs::find().program("e2e.test"))
        .arg(format!("--kubeconfig={}", sandbox.folder().kubeconfig().display()))
        .args(["--provider=skeleton", "--minStartupPods=0", "--node-os-distro=debian"])
        .args(["--ginkgo.timeout=60m", "--ginkgo.poll-progress-after=60s", "--ginkgo.no-color"])
        .arg(format!("--ginkgo.focus={focus}"))
        .arg(format!("--ginkgo.json-report={}", report.display()))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .context("e2e.test does not start: run `scripts/setup e2e`")?;
    Ok(report)
}

fn outcomes(report: &Path) -> Result<Vec<Outcome>> {
    let text = std::fs::read_to_string(report).context("e2e.test wrote no report")?;
    let report: Value = serde_json::from_str(&text)?;
    let specs = report[0]["SpecReports"].as_array().context("a report without specs")?;
    let ran = specs.iter().filter(|spec| spec["LeafNodeType"] == "It" && spec["State"] != "skipped");
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
    println!("{passed} of {} passed", sorted.len());
}
