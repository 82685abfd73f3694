//! A sandbox leaves nothing behind, whenever it is interrupted.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const NAME: &str = "leaving";

fn lines(program: &str, words: &[&str]) -> Vec<String> {
    let output = Command::new(program).args(words).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn entries(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().display().to_string()).collect()
}

/// What a sandbox could leave on a machine. Other programs may come and go; they carry neither its name nor its mark.
fn machine() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    all.extend(
        lines("ip", &["-o", "link"]).into_iter().filter_map(|line| Some(line.split(": ").nth(1)?.to_owned())),
    );
    all.extend(lines("ip", &["netns", "list"]));
    for words in [
        &["-o", "address"][..],
        &["rule"],
        &["-6", "rule"],
        &["route", "show", "table", "all"],
        &["-6", "route", "show", "table", "all"],
        &["neighbour", "show", "nud", "permanent"],
    ] {
        all.extend(lines("ip", words).into_iter().map(|line| lasting(&line)));
    }
    all.extend(fs::read_to_string("/proc/self/mounts").unwrap().lines().map(str::to_owned));
    for table in ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names", "/proc/modules"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        all.extend(
            text.lines().filter_map(|line| line.split(' ').next()).map(|name| format!("{table} {name}")),
        );
    }
    if Path::new("/usr/sbin/nft").exists() {
        all.extend(lines("nft", &["list", "ruleset"]));
    }
    for folder in ["/run", "/var/lib", "/var/log", "/var/lib/cni", "/var/log/pods", "/var/log/containers"] {
        all.extend(entries(folder));
    }
    let cgroups = lines("find", &["/sys/fs/cgroup", "-type", "d", "-name", "causeway-leaving*"]);
    all.extend(cgroups);
    for setting in ["vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward"] {
        let value = fs::read_to_string(Path::new("/proc/sys").join(setting)).unwrap();
        all.insert(format!("{setting} = {}", value.trim()));
    }
    all.extend(marked());
    all
}

/// A line of `ip` without the lifetimes that count down on their own.
fn lasting(line: &str) -> String {
    let (mut words, mut kept) = (line.split_whitespace(), Vec::new());
    while let Some(word) = words.next() {
        match word {
            "valid_lft" | "preferred_lft" | "expires" => drop(words.next()),
            _ => kept.push(word),
        }
    }
    kept.join(" ")
}

/// Processes with the sandbox's mark.
fn marked() -> Vec<String> {
    let mark = format!("causeway/sandbox/{NAME}");
    let ours = |folder: &String| {
        let environment = fs::read(Path::new(folder).join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).split('\0').any(|word| word.ends_with(&mark))
    };
    entries("/proc").into_iter().filter(ours).map(|folder| format!("process {folder}")).collect()
}

fn program() -> Command {
    let mut command = Command::new(causeway_sandbox::harness::program().unwrap());
    command.arg("sandbox").stdout(Stdio::null());
    command
}

fn down() {
    let start = Instant::now();
    let status = program().args(["down", "--name", NAME]).status().unwrap();
    assert!(status.success());
    println!("down in {:.1} s", start.elapsed().as_secs_f64());
}

fn left_behind(before: &BTreeSet<String>) -> Vec<String> {
    machine().difference(before).cloned().collect()
}

#[test]
fn an_interrupted_up_leaves_nothing_after_down() {
    let before = machine();
    for pause in [0, 50, 200, 700, 2_000, 5_000, 9_000] {
        let mut up = program().args(["up", "--nodes=2", "--name", NAME]).spawn().unwrap();
        sleep(Duration::from_millis(pause));
        up.kill().unwrap();
        up.wait().unwrap();
        down();
        assert_eq!(left_behind(&before), [""; 0], "after {pause} ms");
    }
}

#[test]
fn a_sandbox_without_its_keeper_leaves_nothing_after_down() {
    let before = machine();
    let up = program().args(["up", "--nodes=1", "--name", NAME]).status().unwrap();
    assert!(up.success());
    let keepers = lines("pgrep", &["-f", &format!("internal keep .*/{NAME}$")]);
    assert_eq!(keepers.len(), 1);
    let killed = Command::new("kill").args(["-9", &keepers[0]]).status().unwrap();
    assert!(killed.success());
    // Another `up` finds everything as it was and watches over it again.
    let again = program().args(["up", "--name", NAME]).status().unwrap();
    assert!(again.success());
    down();
    assert_eq!(left_behind(&before), [""; 0]);
}

#[test]
fn a_whole_life_leaves_nothing() {
    let before = machine();
    let up = program().args(["up", "--nodes=2", "--name", NAME]).status().unwrap();
    assert!(up.success());
    down();
    assert_eq!(left_behind(&before), [""; 0]);
}
