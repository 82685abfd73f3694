//! Kill everything that runs, one after the other: the sandbox heals.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use causeway_sandbox::harness::Sandbox;
use std::time::Instant;

const PODS: [&str; 4] = ["heal/a", "heal/b", "heal/c", "heal/d"];

fn everybody_is_back(sandbox: &Sandbox, after: &str) {
    let back = || Ok(sandbox.matrix(&PODS).ok().filter(|matrix| matrix.is_full()));
    sandbox.wait_for(&format!("all pods to reach each other after {after}"), back).unwrap();
}

/// A component is healed when another process serves in its place.
fn kill_and_wait(sandbox: &Sandbox, unit: &str) {
    let find = || {
        let status = sandbox.status()?;
        Ok(status.units.into_iter().find(|candidate| candidate.id == unit))
    };
    let before = find().unwrap().unwrap();
    let start = Instant::now();
    sandbox.kill(unit).unwrap();
    let healed = || {
        let now = find()?.filter(|now| now.ready && now.pid.is_some() && now.pid != before.pid);
        Ok(now.filter(|now| now.deaths > before.deaths))
    };
    sandbox.wait_for(&format!("{unit} to be healed"), healed).unwrap();
    sandbox.wait_settled().unwrap();
    println!("{unit} healed in {:.1} s", start.elapsed().as_secs_f64());
}

/// The number of a process inside, by a word of its command line.
fn inner_pid(sandbox: &Sandbox, word: &str) -> Option<String> {
    // The brackets keep the shell from finding itself.
    let look = format!("tr '\\0' ' ' < $p/cmdline | grep -q '[i]nternal {word}' && echo ${{p#/proc/}}");
    let script = format!("for p in /proc/[0-9]*; do {look}; done; true");
    let found = sandbox.exec("control", &["sh", "-c", &script]).ok()?;
    found.lines().next().map(str::to_owned)
}

#[test]
fn whatever_is_killed_comes_back() {
    let sandbox = Sandbox::new(2).unwrap();
    let places = PODS.iter().zip(["n1", "n2", "n1", "n2"]).map(|(pod, node)| (*pod, node));
    sandbox.start_pods(&places.collect::<Vec<_>>()).unwrap();
    everybody_is_back(&sandbox, "the start");
    let units = sandbox.status().unwrap().units.into_iter();
    let units = units.filter(|unit| unit.process && unit.node.as_deref() != Some("n2"));
    for unit in units.map(|unit| unit.id).collect::<Vec<_>>() {
        kill_and_wait(&sandbox, &unit);
    }
    everybody_is_back(&sandbox, "the death of each component");

    let supervisor = inner_pid(&sandbox, "supervise").unwrap();
    // The shell that kills it dies with everything else.
    let _dies_too = sandbox.exec("control", &["sh", "-c", &format!("kill -9 {supervisor}")]);
    sandbox.wait_for("the sandbox to notice", || Ok((!sandbox.status()?.settled).then_some(()))).unwrap();
    sandbox.wait_settled().unwrap();
    everybody_is_back(&sandbox, "the death of the supervisor");
}
