//! Kill everything that runs, one after the other: the sandbox heals.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use causeway_sandbox::harness::Sandbox;
use std::process::Command;
use std::time::{Duration, Instant};

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

/// The control: what kills and looks as above must find nothing healed while the supervisor sleeps.
fn without_the_supervisor_nothing_comes_back(sandbox: &Sandbox) {
    let supervisor = inner_pid(sandbox, "supervise").unwrap();
    let signal = |name: &str| {
        sandbox.exec("control", &["sh", "-c", &format!("kill -{name} {supervisor}")]).unwrap();
    };
    let runs = |pid: u32| sandbox.exec("control", &["test", "-e", &format!("/proc/{pid}/root")]).is_ok();
    let find = || {
        let units = sandbox.status()?.units.into_iter();
        Ok(units.into_iter().find(|unit| unit.id == "n1/ovn-controller").and_then(|unit| unit.pid))
    };
    let before = find().unwrap().unwrap();
    signal("STOP");
    sandbox.kill("n1/ovn-controller").unwrap();
    let other = || Ok(find()?.filter(|now| *now != before && runs(*now)));
    let healed = sandbox.wait_within("a healing that must not be", Duration::from_secs(10), other);
    assert!(healed.is_err(), "n1/ovn-controller came back without the supervisor");
    signal("CONT");
    sandbox.wait_for("n1/ovn-controller to be healed", other).unwrap();
    sandbox.wait_settled().unwrap();
}

#[test]
fn whatever_is_killed_comes_back() {
    let sandbox = Sandbox::new(2).unwrap();
    let places = PODS.iter().zip(["n1", "n2", "n1", "n2"]).map(|(pod, node)| (*pod, node));
    sandbox.start_pods(&places.collect::<Vec<_>>()).unwrap();
    everybody_is_back(&sandbox, "the start");
    let units = sandbox.status().unwrap().units.into_iter().filter(|unit| unit.process);
    for unit in units.map(|unit| unit.id).collect::<Vec<_>>() {
        kill_and_wait(&sandbox, &unit);
    }
    everybody_is_back(&sandbox, "the death of each component");

    without_the_supervisor_nothing_comes_back(&sandbox);
    everybody_is_back(&sandbox, "the supervisor's sleep");

    for part in ["supervise", "init"] {
        kill_from_outside(&sandbox, part);
        sandbox.wait_for("the sandbox to notice", || Ok((!sandbox.status()?.settled).then_some(()))).unwrap();
        sandbox.wait_settled().unwrap();
        everybody_is_back(&sandbox, &format!("the death of {part}"));
    }
}

/// The first process of a PID namespace can only be killed from outside of it.
fn kill_from_outside(sandbox: &Sandbox, part: &str) {
    let pattern = format!("internal {part} ");
    let mark = sandbox.folder().root().display().to_string();
    let ours = |pid: &str| {
        // `unshare`, which starts the first process, has the same words.
        if std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim() != "causeway" {
            return false;
        }
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).split('\0').any(|word| word.ends_with(&mark))
    };
    let found = Command::new("pgrep").args(["-f", &pattern]).output().unwrap();
    let pids = String::from_utf8_lossy(&found.stdout).lines().map(str::to_owned).collect::<Vec<_>>();
    let pids: Vec<String> = pids.into_iter().filter(|pid| ours(pid)).collect();
    assert_eq!(pids.len(), 1, "{pids:?}");
    assert!(Command::new("kill").args(["-9", &pids[0]]).status().unwrap().success());
}
