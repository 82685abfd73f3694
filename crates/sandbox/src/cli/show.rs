//! `status`: what is there, in tables or as JSON.

use super::{Which, say};
use crate::error::Result;
use crate::find;
use crate::folder::{Folder, names};
use crate::machine::run;
use crate::plan::cgroup;
use crate::plan::unit::Command;
use crate::programs::Programs;
use crate::supervisor::status::Status;
use crate::wanted::Wanted;
use clap::{Args, ValueEnum};
use comfy_table::{Table, presets};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Show a sandbox: its nodes, what runs, what died, how much memory it takes
#[derive(Args)]
pub(super) struct Show {
    #[command(flatten)]
    which: Which,
    /// How to print it
    #[arg(long, short, value_enum, default_value = "table")]
    output: Output,
    /// All sandboxes of this user
    #[arg(long, short, conflicts_with = "name")]
    all: bool,
    /// All parts, not only those with something to tell
    #[arg(long, short)]
    parts: bool,
}

/// List the sandboxes of this user
#[derive(Args)]
pub(super) struct List {}

impl List {
    pub(super) fn run(self) -> Result<()> {
        let mut sandboxes = table(&["NAME", "STATE", "NODES", "KUBECONFIG"]);
        for name in names() {
            let folder = Folder::named(&name)?;
            let Ok(wanted) = folder.wanted() else { continue };
            let state = if find::init(folder.root()).is_some() { "running" } else { "not running" };
            let kubeconfig = folder.kubeconfig().display().to_string();
            sandboxes.add_row([name, state.to_owned(), wanted.nodes.len().to_string(), kubeconfig]);
        }
        if sandboxes.row_count() == 0 {
            say("There is no sandbox: `causeway sandbox up` makes one");
        } else {
            say(sandboxes);
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Table,
    /// For programs
    Json,
}

/// A sandbox as it is shown.
#[derive(Serialize)]
struct Report {
    name: String,
    running: bool,
    settled: bool,
    kubeconfig: String,
    memory_mib: u64,
    nodes: Vec<NodeReport>,
    status: Status,
}

#[derive(Serialize)]
struct NodeReport {
    name: String,
    state: String,
    addresses: Vec<String>,
    pods: usize,
    memory_mib: u64,
    deaths: u32,
}

impl Show {
    pub(super) fn run(self) -> Result<()> {
        if !self.all {
            let report = report(&self.which.folder()?)?;
            if self.output == Output::Json {
                print_json(&report);
            } else {
                print_report(&report, self.parts);
            }
            return Ok(());
        }
        let folders = names().into_iter().filter_map(|name| Folder::named(&name).ok());
        let reports =
            folders.filter(Folder::exists).map(|folder| report(&folder)).collect::<Result<Vec<_>>>()?;
        if self.output == Output::Json {
            print_json(&reports);
            return Ok(());
        }
        for report in &reports {
            print_report(report, self.parts);
            say("");
        }
        if reports.is_empty() {
            say("There is no sandbox: `causeway sandbox up` makes one");
        }
        Ok(())
    }
}

fn print_json(value: &impl Serialize) {
    say(format!("{:#}", serde_json::to_value(value).unwrap_or_default()));
}

/// Prints the tables of a sandbox.
pub(super) fn print(folder: &Folder) -> Result<()> {
    print_report(&report(folder)?, false);
    Ok(())
}

fn report(folder: &Folder) -> Result<Report> {
    let wanted = folder.wanted()?;
    let running = find::init(folder.root()).is_some();
    let status = folder.status()?.filter(|_| running).unwrap_or_default();
    let memory = find::memory(folder.root(), &cgroup(&wanted.name));
    let nodes = ask(folder, "nodes");
    let pods = ask(folder, "pods");
    let rows = wanted.nodes.keys().map(|name| node_report(name, &wanted, &status, &nodes, &pods, &memory));
    Ok(Report {
        running,
        settled: status.settled && status.generation == wanted.generation,
        kubeconfig: folder.kubeconfig().display().to_string(),
        memory_mib: memory.values().sum::<u64>() / 1024,
        nodes: rows.collect(),
        status,
        name: wanted.name.clone(),
    })
}

/// What the API server knows of a kind; nothing while it does not answer.
fn ask(folder: &Folder, kind: &str) -> Vec<Value> {
    let kubectl = Programs::find().program("kubectl").display().to_string();
    let config = format!("--kubeconfig={}", folder.kubeconfig().display());
    let words = [&kubectl, &config, "--request-timeout=5s", "get", kind, "--all-namespaces", "-o", "json"];
    let text = run(&Command::new(words)).unwrap_or_default();
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    answer["items"].as_array().cloned().unwrap_or_default()
}

fn node_report(
    name: &str,
    wanted: &Wanted,
    status: &Status,
    nodes: &[Value],
    pods: &[Value],
    memory: &BTreeMap<String, u64>,
) -> NodeReport {
    let object = nodes.iter().find(|node| node["metadata"]["name"] == name);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let addresses = object.map(|node| list(&node["status"]["addresses"])).unwrap_or_default();
    let of_node = status.units.iter().filter(|unit| unit.node.as_deref() == Some(name));
    NodeReport {
        name: name.to_owned(),
        state: state(name, wanted, object),
        addresses: addresses
            .iter()
            .filter(|address| address["type"] == "InternalIP")
            .filter_map(|address| address["address"].as_str().map(str::to_owned))
            .collect(),
        pods: pods.iter().filter(|pod| pod["spec"]["nodeName"] == name).count(),
        memory_mib: memory.get(name).copied().unwrap_or(0) / 1024,
        deaths: of_node.map(|unit| unit.deaths).sum(),
    }
}

fn state(name: &str, wanted: &Wanted, object: Option<&Value>) -> String {
    let node = wanted.nodes.get(name);
    if node.is_some_and(|node| !node.running) {
        return "off".into();
    }
    let conditions = object.and_then(|node| node["status"]["conditions"].as_array());
    let ready = conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True");
    let state = if ready { "Ready" } else { "NotReady" };
    if node.is_some_and(|node| node.partitioned) { format!("{state}, cut off") } else { state.into() }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().copied());
    table
}

fn print_report(report: &Report, all: bool) {
    let mut nodes = table(&["NODE", "STATE", "ADDRESSES", "PODS", "MEMORY", "RESTARTS"]);
    for node in &report.nodes {
        nodes.add_row([
            node.name.clone(),
            node.state.clone(),
            node.addresses.join(" "),
            node.pods.to_string(),
            format!("{} MiB", node.memory_mib),
            node.deaths.to_string(),
        ]);
    }
    say(nodes);
    print_units(report, all);
    let state = match (report.running, report.settled) {
        (false, _) => "not running: `causeway sandbox up` starts it again",
        (true, false) => "running, not everything is ready",
        (true, true) => "running",
    };
    say(format!("\nSandbox {}: {state}; {} MiB in all", report.name, report.memory_mib));
    say(format!("Kubeconfig: {}", report.kubeconfig));
}

/// The parts that are worth a line: those that are not ready or died, or all.
fn print_units(report: &Report, all: bool) {
    let worth = |unit: &&crate::supervisor::status::UnitStatus| all || !unit.ready || unit.deaths > 0;
    let mut units = table(&["PART", "READY", "PID", "RESTARTS", "TROUBLE"]);
    for unit in report.status.units.iter().filter(worth) {
        units.add_row([
            unit.id.clone(),
            if unit.ready { "yes" } else { "no" }.to_owned(),
            unit.pid.map(|pid| pid.to_string()).unwrap_or_default(),
            unit.deaths.to_string(),
            unit.trouble.clone().unwrap_or_default(),
        ]);
    }
    if units.row_count() > 0 {
        say(format!("\n{units}"));
    }
}
