//! Resident memory of the two roles in a cluster of three nodes with 20 pods, ten of them on a network of their own.
#![allow(clippy::print_stdout, reason = "this is a command")]

use anyhow::{Context as _, Result};
use causeway_sandbox::harness::Sandbox;
use std::time::Duration;

const NETWORK: &str = r#"
{apiVersion: v1, kind: Namespace, metadata: {name: own, labels: {k8s.ovn.org/primary-user-defined-network: ""}}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: net, namespace: own}
spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.100.0.0/16, "fd10::/64"]}}
"#;

fn main() -> Result<()> {
    let sandbox = Sandbox::new(3)?;
    sandbox.apply(NETWORK)?;
    let names: Vec<String> =
        (0..20).map(|i| format!("{}/p{i}", if i % 2 == 0 { "own" } else { "plain" })).collect();
    let placed: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(["n1", "n2", "n3"].into_iter().cycle()).collect();
    sandbox.start_pods(&placed)?;
    // What starting took is given back.
    std::thread::sleep(Duration::from_secs(5));
    println!("{:<18} {:>12} {:>8}", "role", "resident MB", "peak MB");
    for unit in ["cluster-manager", "n1/causeway", "n2/causeway", "n3/causeway"] {
        let status = sandbox.status()?;
        let pid = status.units.iter().find(|candidate| candidate.id == unit).and_then(|unit| unit.pid);
        let pid = pid.with_context(|| format!("{unit} does not run"))?;
        let text = sandbox.exec("control", &["cat", &format!("/proc/{pid}/status")])?;
        println!("{unit:<18} {:>12.1} {:>8.1}", megabytes(&text, "VmRSS:")?, megabytes(&text, "VmHWM:")?);
    }
    Ok(())
}

fn megabytes(status: &str, key: &str) -> Result<f64> {
    let line = status.lines().find(|line| line.starts_with(key)).with_context(|| format!("no {key}"))?;
    let number: f64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
    Ok(number / 1024.0)
}
