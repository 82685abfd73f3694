//! Runs tests that others wrote against a sandbox and prints a table: `conformance [--judge=NAME] [--network=NAME] [FOCUS]`.
//!
//! `conformance/passing.txt` names the specs that must pass, `conformance/<judge>.txt` those of another judge: one that fails, or does
//! not run, ends the command with an error. What is left out stands in `excluded.txt` and `<judge>-not.txt`, with the reasons. With a
//! focus of its own it runs only that.
#![allow(clippy::print_stdout, reason = "this is a command")]

use anyhow::{Result, ensure};
use causeway_sandbox::harness::Sandbox;
use causeway_tests::judge::{Judge, Lists, Network, Outcome};
use std::collections::BTreeSet;

/// So many specs of this kind there are; none of them may be left out.
const CONFORMANCE: (&str, usize) = ("[Conformance]", 47);

fn main() -> Result<()> {
    let (mut judge, mut network, mut focus) = (Judge::E2e, None, None);
    for word in std::env::args().skip(1) {
        match word.split_once('=') {
            Some(("--judge", name)) => judge = Judge::named(name)?,
            Some(("--network", name)) => network = Some(name.to_owned()),
            _ => focus = Some(word),
        }
    }
    let networks =
        judge.networks().iter().filter(|one| network.as_ref().is_none_or(|name| one.name() == name));
    let networks: Vec<Network> = networks.copied().collect();
    ensure!(!networks.is_empty(), "there is no such network; the networks: default, one, three");
    let mut broken = Vec::new();
    for network in networks {
        let outcomes = sit(judge, network, focus.as_deref())?;
        print(judge, network, &outcomes);
        broken.extend(wrong(judge, network, &outcomes, focus.is_some()));
    }
    broken.iter().for_each(|line| println!("{line}"));
    ensure!(broken.is_empty(), "{} tests that must pass do not", broken.len());
    Ok(())
}

/// One judge on one network, in a sandbox that nobody has used before.
fn sit(judge: Judge, network: Network, focus: Option<&str>) -> Result<Vec<Outcome>> {
    println!("{} on the network {}: starting a sandbox of three nodes", judge.name(), network.name());
    let sandbox = match std::env::var("CAUSEWAY_SANDBOX") {
        Ok(name) => Sandbox::existing(&name)?,
        Err(_) => Sandbox::new(3)?,
    };
    println!("running; each step is in target/conformance/{}/{}/log", judge.name(), network.name());
    judge.run(&sandbox, network, focus)
}

/// What must pass and did not. With a focus only what ran counts.
fn wrong(judge: Judge, network: Network, outcomes: &[Outcome], focused: bool) -> Vec<String> {
    let mut broken = Lists::of(judge).broken(network, outcomes);
    if focused {
        broken.retain(|line| !line.ends_with(": did not run"));
    } else if judge == Judge::E2e {
        let (mark, all) = CONFORMANCE;
        let ran = outcomes.iter().filter(|spec| spec.name.contains(mark)).count();
        if ran != all {
            broken.push(format!("{ran} of {all} specs of {mark} ran"));
        }
    }
    broken.iter().map(|line| format!("{}: {line}", network.name())).collect()
}

fn print(judge: Judge, network: Network, outcomes: &[Outcome]) {
    let must: BTreeSet<&str> = Lists::of(judge).must_pass(network).collect();
    let mut sorted: Vec<&Outcome> = outcomes.iter().collect();
    sorted.sort_by_key(|spec| (&spec.state, &spec.name));
    println!("{:<8} {:>7}  {} on the network {}", "state", "seconds", judge.name(), network.name());
    for spec in &sorted {
        let new = if spec.passed() && !must.contains(spec.name.as_str()) { " (new)" } else { "" };
        println!("{:<8} {:>7.1}  {}{new}", spec.state, spec.seconds, spec.name);
        if !spec.message.is_empty() {
            println!("{:18}{}", "", spec.message);
        }
    }
    let passed = sorted.iter().filter(|spec| spec.passed()).count();
    let skipped = sorted.iter().filter(|spec| spec.state == "skipped").count();
    println!("{passed} of {} passed, {skipped} said that they cannot run here", sorted.len());
}
