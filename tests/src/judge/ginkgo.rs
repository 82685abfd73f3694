//! Kubernetes' own end-to-end tests.

use std::path::Path;

use anyhow::{Context as _, Result};
use causeway_sandbox::Programs;
use causeway_sandbox::harness::Sandbox;
use serde_json::Value;

use super::{Folder, Judge, KUBECONFIG, Lists, Outcome, any_of, outside};

/// Specs at once, for each processor: they wait most of their time.
const PER_PROCESSOR: usize = 2;

pub(super) fn run(
    sandbox: &Sandbox,
    judge: Judge,
    folder: &Folder,
    focus: Option<&str>,
) -> Result<Vec<Outcome>> {
    sandbox.load(&Programs::find().share("causeway-e2e.tar")).context("run `scripts/setup e2e`")?;
    let programs = Programs::find();
    let at_once = std::thread::available_parallelism().map_or(1, usize::from) * PER_PROCESSOR;
    let all = if judge == Judge::Netpol { r"\[sig-network\] Netpol" } else { r"\[sig-network\]" };
    let mut command = outside(sandbox, &programs.program("ginkgo"))?;
    command.arg(format!("--procs={at_once}"));
    command.args(["--timeout=3h", "--poll-progress-after=120s", "--no-color", "--keep-going"]);
    command.arg(format!("--focus={}", focus.unwrap_or(all)));
    if focus.is_none() || judge == Judge::Netpol {
        command.arg(format!("--skip={}", any_of(Lists::of(judge).excluded())));
    }
    command
        .args(["--json-report=report.json", &format!("--output-dir={}", folder.0.display())])
        .arg(programs.program("e2e.test"))
        .arg("--")
        .arg(format!("--kubeconfig={KUBECONFIG}"))
        .args(["--provider=skeleton", "--minStartupPods=0", "--node-os-distro=debian"])
        // Specs ask for kubectl by name.
        .arg(format!("--kubectl-path={}", programs.program("kubectl").display()));
    folder.run(&mut command)?;
    outcomes(&folder.path("report.json"))
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
