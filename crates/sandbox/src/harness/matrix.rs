//! Who reaches whom: one command in each pod asks all others at once.

use super::Sandbox;
use crate::error::{Error, Result};
use causeway_api::annotations::keys::POD_NETWORKS;
use causeway_api::annotations::{Annotation as _, PodNetworks, PodRole};
use comfy_table::{Table, presets};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::thread;

/// How long a pod waits for an answer, in seconds.
const PATIENCE: u8 = 4;

/// The result: for each pair, how many of the target's addresses answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    pods: Vec<String>,
    cells: BTreeMap<(String, String), Cell>,
    /// Pods that could not ask, and why.
    failures: BTreeMap<String, String>,
}

/// How many addresses answered, of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    answered: usize,
    asked: usize,
}

impl Cell {
    fn is_full(self) -> bool {
        self.asked > 0 && self.answered == self.asked
    }
}

impl Matrix {
    /// Whether all addresses of a pod answer another one.
    pub fn reaches(&self, from: &str, to: &str) -> bool {
        self.cells.get(&(from.to_owned(), to.to_owned())).is_some_and(|cell| cell.is_full())
    }

    /// Whether everybody reaches everybody.
    pub fn is_full(&self) -> bool {
        self.cells.values().all(|cell| cell.is_full())
    }

    /// Whether any address of a pod answers another one.
    pub fn leaks(&self, from: &str, to: &str) -> bool {
        self.cells.get(&(from.to_owned(), to.to_owned())).is_some_and(|cell| cell.answered > 0)
    }

    /// The pairs that are not as they should be: all or nothing.
    pub fn wrong(&self, should: impl Fn(&str, &str) -> bool) -> Vec<String> {
        let wrong = |((from, to), cell): (&(String, String), &Cell)| {
            let right = if should(from, to) { cell.is_full() } else { cell.answered == 0 };
            (!right).then(|| format!("{from} -> {to}: {}/{}", cell.answered, cell.asked))
        };
        self.cells.iter().filter_map(wrong).collect()
    }

    /// The pairs of which another number of addresses answers than should.
    pub fn miscounted(&self, should: impl Fn(&str, &str) -> usize) -> Vec<String> {
        let wrong = |((from, to), cell): (&(String, String), &Cell)| {
            let wanted = should(from, to);
            (cell.answered != wanted).then(|| format!("{from} -> {to}: {}, not {wanted}", cell.answered))
        };
        self.cells.iter().filter_map(wrong).collect()
    }

    /// Pods that could not ask, and why: what is not known about them is no isolation.
    pub fn failures(&self) -> &BTreeMap<String, String> {
        &self.failures
    }

    /// The pairs that reach each other on all addresses.
    pub fn pairs(&self) -> BTreeSet<(&str, &str)> {
        let full = self.cells.iter().filter(|(_, cell)| cell.is_full());
        full.map(|((from, to), _)| (from.as_str(), to.as_str())).collect()
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        // Numbers as columns, so that the table fits a terminal.
        let numbers = (1..=self.pods.len()).map(|number| number.to_string());
        table.set_header([String::new(), String::new()].into_iter().chain(numbers));
        for (number, from) in self.pods.iter().enumerate() {
            let cell = |to: &String| match self.cells.get(&(from.clone(), to.clone())) {
                None => String::new(),
                Some(Cell { answered, asked }) => format!("{answered}/{asked}"),
            };
            let start = [(number + 1).to_string(), from.clone()];
            table.add_row(start.into_iter().chain(self.pods.iter().map(cell)));
        }
        write!(f, "{table}")?;
        self.failures.iter().try_for_each(|(pod, why)| write!(f, "\n{pod} could not ask: {why}"))
    }
}

/// How one pod asks another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Probe {
    /// A TCP connection to the server of the tool image, which says its name
    Http,
    /// A datagram to the same server
    Udp,
    /// An ICMP echo. Nobody says a name: where two networks have the same addresses it tells nothing
    Ping,
    /// An ICMP echo of 4,000 bytes, which travels in several packets
    LargePing,
}

impl Probe {
    /// All of them.
    pub const ALL: [Probe; 4] = [Probe::Http, Probe::Udp, Probe::Ping, Probe::LargePing];

    /// A shell command that asks an address, writes who answered to a file, and does not wait. HTTP has none: one
    /// process asks all addresses at once.
    fn command(self, address: &str) -> Option<String> {
        let ping =
            |size: &str| format!("ping -c 1 -W {PATIENCE}{size} {address} >/dev/null && echo {ANYBODY}");
        match self {
            Probe::Http => None,
            Probe::Udp => Some(format!("echo hostname | nc -u -w {PATIENCE} {address} 8081")),
            Probe::Ping => Some(ping("")),
            Probe::LargePing => Some(ping(" -s 4000")),
        }
    }
}

/// What stands for an answer that names nobody.
const ANYBODY: &str = "?";

/// A pod with its addresses.
struct Target {
    pod: String,
    name: String,
    addresses: Vec<String>,
}

pub(super) fn measure(sandbox: &Sandbox, pods: &[&str], probes: &[Probe]) -> Result<Matrix> {
    let targets = targets(sandbox, pods)?;
    let asked: Vec<(&str, Result<Row>)> = thread::scope(|scope| {
        let ask = |from| (from, ask(sandbox, from, &targets, probes));
        let threads: Vec<_> = pods.iter().map(|from| scope.spawn(move || ask(from))).collect();
        let ended = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(ended).collect()
    });
    let mut matrix = Matrix { pods: pods.iter().map(|pod| (*pod).to_owned()).collect(), ..Matrix::default() };
    for (from, row) in asked {
        match row {
            Ok(row) => matrix.cells.extend(row),
            Err(error) => drop(matrix.failures.insert(from.to_owned(), error.to_string())),
        }
    }
    Ok(matrix)
}

fn targets(sandbox: &Sandbox, pods: &[&str]) -> Result<Vec<Target>> {
    let all = sandbox.get(&["pods", "--all-namespaces"])?;
    let all = all["items"].as_array().cloned().unwrap_or_default();
    pods.iter().map(|pod| target(sandbox, pod, &all)).collect()
}

fn target(sandbox: &Sandbox, pod: &str, all: &[Value]) -> Result<Target> {
    let wanted = sandbox.pod(pod);
    let found = all.iter().find(|object| {
        object["metadata"]["namespace"] == wanted.namespace && object["metadata"]["name"] == wanted.name
    });
    let object = found.ok_or_else(|| Error::Request(format!("there is no pod {}", wanted.full_name())))?;
    Ok(Target { pod: pod.to_owned(), name: wanted.name, addresses: addresses(object) })
}

/// The addresses by which a pod is meant to be reached: those on its primary network.
pub(super) fn addresses(pod: &Value) -> Vec<String> {
    let text = pod["metadata"]["annotations"][POD_NETWORKS].as_str().unwrap_or_default();
    let networks = PodNetworks::parse(text).unwrap_or_default().0;
    let primary = networks.into_values().find(|network| network.role == Some(PodRole::Primary));
    if let Some(primary) = primary {
        return primary.ip_addresses.iter().map(|address| address.addr().to_string()).collect();
    }
    let addresses = pod["status"]["podIPs"].as_array().cloned().unwrap_or_default();
    addresses.iter().filter_map(|address| address["ip"].as_str().map(str::to_owned)).collect()
}

type Row = Vec<((String, String), Cell)>;

/// All others, from one pod. The name in the answer tells a pod from another one with the same address.
fn ask(sandbox: &Sandbox, from: &str, targets: &[Target], probes: &[Probe]) -> Result<Row> {
    let others: Vec<&Target> = targets.iter().filter(|target| target.pod != from).collect();
    let addresses = others.iter().flat_map(|target| &target.addresses);
    let questions: Vec<(Probe, &str)> =
        addresses.flat_map(|address| probes.iter().map(|probe| (*probe, address.as_str()))).collect();
    let answers = parse(&sandbox.pod(from).exec(&["sh", "-c", &script(&questions)])?);
    let mut at = 0;
    let mut row = Row::new();
    for target in others {
        let places = at..at + target.addresses.len() * probes.len();
        at = places.end;
        let is_it = |answer: &String| *answer == target.name || answer == ANYBODY;
        let cell = Cell {
            asked: places.len(),
            answered: places.filter(|place| answers.get(place).is_some_and(is_it)).count(),
        };
        row.push(((from.to_owned(), target.pod.clone()), cell));
    }
    Ok(row)
}

/// Asks all questions in parallel; each answer goes to a file with the number of its question.
fn script(questions: &[(Probe, &str)]) -> String {
    let (mut urls, mut others) = (String::new(), String::new());
    for (place, (probe, address)) in questions.iter().enumerate() {
        match probe.command(address) {
            Some(command) => others += &format!("({command}) >$d/{place} 2>/dev/null </dev/null &\n"),
            None if address.contains(':') => {
                urls += &format!(" -o $d/{place} 'http://[{address}]:8080/hostname'")
            }
            None => urls += &format!(" -o $d/{place} 'http://{address}:8080/hostname'"),
        }
    }
    if !urls.is_empty() {
        urls = format!("curl -sgZ --parallel-immediate --parallel-max 200 -m {PATIENCE}{urls}\n");
    }
    format!(
        "d=$(mktemp -d)\n{others}{urls}wait\n\
         for f in $d/*; do [ -s $f ] && echo \"${{f##*/}} $(cat $f)\"; done; rm -r $d"
    )
}

fn parse(text: &str) -> BTreeMap<usize, String> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(place, name)| Some((place.parse().ok()?, name.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_shows_who_reaches_whom() {
        let cell = |answered| Cell { answered, asked: 2 };
        let cells = [(("a", "b"), cell(2)), (("b", "a"), cell(1))];
        let cells = cells.map(|((from, to), cell)| ((from.to_owned(), to.to_owned()), cell));
        let mut matrix =
            Matrix { pods: vec!["a".into(), "b".into()], cells: cells.into(), failures: BTreeMap::new() };
        assert!(matrix.reaches("a", "b") && !matrix.reaches("b", "a") && !matrix.is_full());
        assert_eq!(matrix.pairs(), BTreeSet::from([("a", "b")]));
        assert_eq!(matrix.miscounted(|_, _| 2), ["b -> a: 1, not 2"]);
        let words: Vec<String> = matrix.to_string().split_whitespace().map(str::to_owned).collect();
        assert_eq!(words, ["1", "2", "1", "a", "2/2", "2", "b", "1/2"]);
        matrix.failures.insert("c".into(), "no shell".into());
        assert!(matrix.to_string().ends_with("\nc could not ask: no shell"), "{matrix}");
    }

    #[test]
    fn answers_are_told_apart_by_number() {
        assert_eq!(parse("0 a\n12 b\n"), BTreeMap::from([(0, "a".into()), (12, "b".into())]));
        let script =
            script(&[(Probe::Http, "10.0.0.1"), (Probe::Ping, "10.0.0.1"), (Probe::Http, "fd00::1")]);
        assert!(script.contains(" -o $d/2 'http://[fd00::1]:8080/hostname'"), "{script}");
        assert!(script.contains("&& echo ?) >$d/1 "), "{script}");
    }

    #[test]
    fn a_pod_is_reached_on_its_primary_network() {
        let networks = r#"{"default":{"ip_addresses":["10.244.0.3/24"],"mac_address":"0a:58:0a:f4:00:03","role":"infrastructure-locked"},
            "blue/net":{"ip_addresses":["10.0.0.3/24","fd00::3/64"],"mac_address":"0a:58:0a:00:00:03","role":"primary"}}"#;
        let status = serde_json::json!({"podIPs": [{"ip": "10.244.0.3"}]});
        let pod =
            serde_json::json!({"metadata": {"annotations": {POD_NETWORKS: networks}}, "status": status});
        assert_eq!(addresses(&pod), ["10.0.0.3", "fd00::3"]);
        assert_eq!(addresses(&serde_json::json!({"status": status})), ["10.244.0.3"]);
    }
}
