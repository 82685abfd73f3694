//! The programs that test whole clusters, in lanes: a cluster waits more than it works.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Those that take longest begin first, so that no lane ends with one of them.
const LONG: [&str; 4] = ["e2e_conformance", "e2e_policies", "e2e_gateway", "e2e_tenant"];

/// A test program: its name, and where it is.
type Program = (String, PathBuf);

/// Builds the programs whose names begin with one of these, and runs each of them with one thread.
pub(crate) fn run(prefixes: &[String], lanes: usize) -> Result<()> {
    let programs = build(prefixes)?;
    if programs.is_empty() {
        bail!("no test program has a name that begins with {}", prefixes.join(" or "));
    }
    let begun = Instant::now();
    let mut queue: Vec<Program> = programs.into_iter().collect();
    queue.sort_by_key(|(name, _)| LONG.iter().position(|long| long == name).unwrap_or(LONG.len()));
    queue.reverse();
    let (queue, failed) = (Mutex::new(queue), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..lanes.max(1) {
            scope.spawn(|| work(&queue, &failed));
        }
    });
    let failed = failed.into_inner().unwrap_or_default();
    let again = |program: &Program| lanes == 1 || fails_alone(program);
    let (failed, moody): (Vec<Program>, Vec<Program>) = failed.into_iter().partition(again);
    println!("all clusters: {} s{}", begun.elapsed().as_secs(), only_alone(&moody));
    if !failed.is_empty() {
        bail!("failed: {}", names(&failed));
    }
    Ok(())
}

fn names(programs: &[Program]) -> String {
    programs.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
}

/// What passed only with the machine to itself is said last, where it is seen.
fn only_alone(programs: &[Program]) -> String {
    match programs {
        [] => String::new(),
        some => format!("; {} passed only alone: {}", some.len(), names(some)),
    }
}

/// Lanes save time, and cost clusters the machine's attention: what fails beside another cluster is asked once more with the
/// machine to itself, and that verdict counts. Both are told.
fn fails_alone((name, path): &Program) -> bool {
    println!("{name} failed beside another cluster, now alone");
    !passes(name, path)
}

/// One lane: the next program, until there is none.
fn work(queue: &Mutex<Vec<Program>>, failed: &Mutex<Vec<Program>>) {
    loop {
        let Some((name, path)) = queue.lock().ok().and_then(|mut queue| queue.pop()) else { return };
        if !passes(&name, &path)
            && let Ok(mut failed) = failed.lock()
        {
            failed.push((name, path));
        }
    }
}

fn passes(name: &str, path: &Path) -> bool {
    let begun = Instant::now();
    match Command::new(path).arg("--test-threads=1").current_dir("tests").output() {
        Ok(output) => tell(name, &output, begun.elapsed().as_secs()),
        Err(error) => {
            println!("{name}: {error}");
            false
        }
    }
}

/// One line for each test; everything that a failing program said.
fn tell(name: &str, output: &Output, seconds: u64) -> bool {
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = output.status.success();
    let verdict = if passed { "passed" } else { "FAILED" };
    let tests = text.lines().filter(|line| line.starts_with("test ") && line.ends_with("ok"));
    println!("{name} {verdict} after {seconds} s, {} tests", tests.count());
    if !passed {
        println!("{text}\n{}\n{name} ended with {}", String::from_utf8_lossy(&output.stderr), output.status);
    }
    passed
}

/// The programs by name, as cargo says.
fn build(prefixes: &[String]) -> Result<BTreeMap<String, PathBuf>> {
    let words = ["test", "--quiet", "--workspace", "--features", "causeway-tests/e2e", "--no-run"];
    let output = crate::cargo()
        .args(words)
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .context("cargo")?;
    if !output.status.success() {
        bail!("the programs could not be built");
    }
    let messages =
        output.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    Ok(messages.filter_map(|message| program(&message, prefixes)).collect())
}

fn program(message: &Value, prefixes: &[String]) -> Option<(String, PathBuf)> {
    let name = message.pointer("/target/name")?.as_str()?;
    let path = message.get("executable")?.as_str()?;
    let wanted = prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()));
    wanted.then(|| (name.to_owned(), PathBuf::from(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_what_passed_only_alone() {
        let program = |name: &str| (name.to_owned(), PathBuf::new());
        assert_eq!(only_alone(&[]), "");
        let two = [program("e2e_claims"), program("slow_truth")];
        assert_eq!(only_alone(&two), "; 2 passed only alone: e2e_claims, slow_truth");
    }
}
