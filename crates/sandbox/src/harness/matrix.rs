//! Who reaches whom: one command in each pod asks all others at once.

use super::Sandbox;
use crate::error::{Error, Result};
use comfy_table::{Table, presets};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::thread;

/// How long a pod waits for an answer, in seconds.
const PATIENCE: u8 = 3;

/// The result: for each pair, how many of the target's addresses answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    pods: Vec<String>,
    cells: BTreeMap<(String, String), Cell>,
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
        table.set_header(std::iter::once("").chain(self.pods.iter().map(String::as_str)));
        for from in &self.pods {
            let cell = |to: &String| match self.cells.get(&(from.clone(), to.clone())) {
                None => String::new(),
                Some(Cell { answered, asked }) => format!("{answered}/{asked}"),
            };
            table.add_row(std::iter::once(from.clone()).chain(self.pods.iter().map(cell)));
        }
        write!(f, "{table}")
    }
}

/// A pod with its addresses.
struct Target {
    pod: String,
    name: String,
    addresses: Vec<String>,
}

pub(super) fn measure(sandbox: &Sandbox, pods: &[&str]) -> Result<Matrix> {
    let targets = targets(sandbox, pods)?;
    let asked: Vec<Result<_>> = thread::scope(|scope| {
        let threads: Vec<_> = pods.iter().map(|from| scope.spawn(|| ask(sandbox, from, &targets))).collect();
        let ended = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(ended).collect()
    });
    let mut cells = BTreeMap::new();
    for row in asked {
        cells.extend(row?);
    }
    Ok(Matrix { pods: pods.iter().map(|pod| (*pod).to_owned()).collect(), cells })
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
    let addresses = object["status"]["podIPs"].as_array().cloned().unwrap_or_default();
    let addresses = addresses.iter().filter_map(|address| address["ip"].as_str().map(str::to_owned));
    Ok(Target { pod: pod.to_owned(), name: wanted.name, addresses: addresses.collect() })
}

type Row = Vec<((String, String), Cell)>;

/// All others, from one pod. The name in the answer tells a pod from another one with the same address.
fn ask(sandbox: &Sandbox, from: &str, targets: &[Target]) -> Result<Row> {
    let others: Vec<&Target> = targets.iter().filter(|target| target.pod != from).collect();
    let addresses: Vec<&str> = others.iter().flat_map(|t| t.addresses.iter().map(String::as_str)).collect();
    let answers = parse(&sandbox.pod(from).exec(&["sh", "-c", &script(&addresses)])?);
    let mut at = 0;
    let mut row = Row::new();
    for target in others {
        let places = at..at + target.addresses.len();
        at = places.end;
        let cell = Cell {
            asked: places.len(),
            answered: places.filter(|place| answers.get(place) == Some(&target.name)).count(),
        };
        row.push(((from.to_owned(), target.pod.clone()), cell));
    }
    Ok(row)
}

/// Asks all addresses in parallel; each answer goes to a file with the number of its address.
fn script(addresses: &[&str]) -> String {
    let url =
        |address: &&str| if address.contains(':') { format!("[{address}]") } else { (*address).to_owned() };
    let asks: Vec<String> = addresses
        .iter()
        .enumerate()
        .map(|(place, address)| format!("-o $d/{place} 'http://{}:8080/hostname'", url(address)))
        .collect();
    format!(
        "d=$(mktemp -d); curl -sgZ --parallel-immediate --parallel-max 100 -m {PATIENCE} {}; \
         for f in $d/*; do [ -e $f ] && echo \"${{f##*/}} $(cat $f)\"; done; rm -r $d",
        asks.join(" ")
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
        let matrix = Matrix { pods: vec!["a".into(), "b".into()], cells: cells.into() };
        assert!(matrix.reaches("a", "b") && !matrix.reaches("b", "a") && !matrix.is_full());
        assert_eq!(matrix.pairs(), BTreeSet::from([("a", "b")]));
        let words: Vec<String> = matrix.to_string().split_whitespace().map(str::to_owned).collect();
        assert_eq!(words, ["a", "b", "a", "2/2", "b", "1/2"]);
    }

    #[test]
    fn answers_are_told_apart_by_number() {
        assert_eq!(parse("0 a\n12 b\n"), BTreeMap::from([(0, "a".into()), (12, "b".into())]));
        assert!(script(&["10.0.0.1", "fd00::1"]).contains("-o $d/1 'http://[fd00::1]:8080/hostname'"));
    }
}
