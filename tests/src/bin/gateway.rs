//! What a network costs a node that has a way out, and how fast that way is: flows in a sandbox of one node, and data out of an island
//! against data out of the default network, in the same run.
#![allow(clippy::print_stdout, reason = "this is a command")]

use anyhow::{Context as _, Result};
use causeway_sandbox::harness::Sandbox;
use causeway_tests::outside::OUTSIDE;
use causeway_tests::talk::{namespace, namespace_of_host, pour, sink};
use causeway_tests::wait_outside;
use std::net::SocketAddr;
use std::time::Duration;

/// So many networks of each topology are added.
const NETWORKS: usize = 10;
const PODS: [(&str, &str); 3] = [("plain/p", "n1"), ("island0layer3/p", "n1"), ("island0layer2/p", "n1")];
const PORT: u16 = 9200;
/// Rounds of each, in turn, so that whatever else the machine does hits all alike.
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(2);

fn main() -> Result<()> {
    let sandbox = Sandbox::new(1)?;
    println!("flows of one network on a node, dual stack, no pods, no services (mean of {NETWORKS}):");
    println!(
        "{:<8} {:>14} {:>16} {:>12} {:>12}",
        "topology", "logical flows", "OpenFlow br-int", "on br-ex", "patch ports"
    );
    let mut before = count(&sandbox)?;
    for topology in ["layer3", "layer2"] {
        (0..NETWORKS).try_for_each(|n| sandbox.apply(&network(n, topology)).map(drop))?;
        let after = settled(&sandbox, before[0])?;
        let mean: Vec<f64> =
            after.iter().zip(before).map(|(a, b)| (*a as f64 - b as f64) / NETWORKS as f64).collect();
        println!("{topology:<8} {:>14.1} {:>16.1} {:>12.1} {:>12.1}", mean[0], mean[1], mean[2], mean[3]);
        before = after;
    }
    println!("with {} networks the bridge has {} flows and {} ports", 2 * NETWORKS + 1, before[2], before[3]);
    throughput(&sandbox)
}

fn network(n: usize, topology: &str) -> String {
    let name = format!("island{n}{topology}");
    let subnets = match topology {
        "layer3" => {
            r#"topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.60.0.0/16, hostSubnet: 24}, {cidr: "fd60::/48", hostSubnet: 64}]}"#
        }
        _ => r#"topology: Layer2, layer2: {role: Primary, subnets: [10.61.0.0/16, "fd61::/64"]}"#,
    };
    format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{k8s.ovn.org/primary-user-defined-network: \"\"}}}}}}\n\
         ---\napiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\nmetadata: {{name: net, namespace: {name}}}\nspec: {{{subnets}}}\n"
    )
}

/// Logical flows, flows of br-int and of br-ex, ports of br-ex.
fn count(sandbox: &Sandbox) -> Result<[usize; 4]> {
    let number = |script: &str| -> Result<usize> {
        sandbox.exec("n1", &["sh", "-c", script])?.trim().parse().with_context(|| script.to_owned())
    };
    let flows = |bridge: &str| {
        number(&format!(
            "ovs-ofctl -OOpenFlow15 dump-aggregate {bridge} | sed 's/.*flow_count=\\([0-9]*\\).*/\\1/'"
        ))
    };
    sandbox.exec("n1", &["ovn-nbctl", "--no-leader-only", "--wait=hv", "--timeout=120", "sync"])?;
    Ok([
        number("ovn-sbctl --no-leader-only --bare --columns=table_id list Logical_Flow | grep -c .")?,
        flows("br-int")?,
        flows("br-ex")?,
        number("ovs-vsctl list-ports br-ex | wc -l")?,
    ])
}

/// The numbers once they have grown and stay.
fn settled(sandbox: &Sandbox, before: usize) -> Result<[usize; 4]> {
    let mut last = count(sandbox)?;
    loop {
        std::thread::sleep(Duration::from_secs(3));
        let now = count(sandbox)?;
        if now == last && now[0] > before {
            return Ok(now);
        }
        last = now;
    }
}

fn throughput(sandbox: &Sandbox) -> Result<()> {
    sandbox.start_pods(&PODS)?;
    wait_outside(sandbox, &PODS.map(|(pod, _)| pod));
    let results = sink(&namespace_of_host(sandbox, "outside"), PORT);
    let server = SocketAddr::new(OUTSIDE[0].parse()?, PORT);
    let mut rates = PODS.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (rates, (pod, _)) in rates.iter_mut().zip(PODS) {
            pour(&namespace(sandbox, pod), server, ROUND);
            let (bytes, seconds) = results.recv_timeout(Duration::from_secs(60))?;
            rates.push(bytes as f64 * 8.0 / seconds / 1e6);
        }
    }
    println!("\none TCP connection to a host outside, median of {ROUNDS} rounds in turn:");
    println!("{:<18} {:>10} {:>24}", "from", "Mbit/s", "against the default one");
    let medians = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    for ((pod, _), median) in PODS.iter().zip(medians) {
        println!("{pod:<18} {median:>10.0} {:>24.2}", median / medians[0]);
    }
    Ok(())
}
