//! Questions from hosts and nodes, where nothing is installed but a shell, and servers that say who asked.
#![allow(clippy::unwrap_used)]

use causeway_sandbox::Result;
use causeway_sandbox::harness::Sandbox;

use crate::ask::{Ask, asked_from_pods, url};
use crate::nothing_wrong;

/// Addresses of the hosts outside of the cluster, IPv4 first.
pub const OUTSIDE: [&str; 2] = ["172.30.0.2", "fd00:172:30::2"];
/// The device by which it is on the nodes' own network.
pub const OUTSIDE_DEVICE: &str = "eth0";
/// Addresses of the host that is reached by way of a small MTU.
pub const FAR: [&str; 2] = ["172.31.1.2", "fd00:172:31:1::2"];

/// What an HTTP server answers a host or node: the body.
///
/// # Errors
/// When nobody answers.
pub fn http(sandbox: &Sandbox, from: &str, address: &str, port: u16, path: &str) -> Result<String> {
    let ask =
        format!("exec 3<>/dev/tcp/{address}/{port}; printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3");
    let answer = sandbox.exec(from, &["timeout", "5", "bash", "-c", &ask])?;
    Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

/// What a UDP server answers a host or node.
///
/// # Errors
/// When nobody answers.
pub fn udp(sandbox: &Sandbox, from: &str, address: &str, port: u16, text: &str) -> Result<String> {
    let ask =
        format!("exec 3<>/dev/udp/{address}/{port}; printf {text} >&3; dd bs=2000 count=1 status=none <&3");
    sandbox.exec(from, &["timeout", "5", "bash", "-c", &ask])
}

/// The MAC address that a host finds for an address of its own subnet, if anybody answers.
///
/// # Panics
/// When the host cannot be asked.
pub fn neighbour(sandbox: &Sandbox, host: &str, address: &str) -> Option<String> {
    let ask = format!("echo x >/dev/udp/{address}/9");
    // Nobody listens there: the question is who would get it.
    let _refused = sandbox.exec(host, &["bash", "-c", &ask]);
    let words = ["ip", "neigh", "show", address];
    let line = sandbox.exec(host, &words).unwrap();
    line.split_once("lladdr ").and_then(|(_, rest)| rest.split(' ').next()).map(str::to_owned)
}

/// Waits until pods reach the host outside in both families.
///
/// # Panics
/// When they never do.
pub fn wait_outside(sandbox: &Sandbox, pods: &[&str]) {
    let asks: Vec<Ask> = OUTSIDE.iter().map(|to| Ask::http(&url(to, 8080, "/hostname"), to)).collect();
    let reached = || {
        let said = asked_from_pods(sandbox, pods, &asks)?;
        let missing = said.into_iter().filter(|(_, said)| said.len() < asks.len());
        nothing_wrong(&missing.map(|(pod, said)| format!("{pod}: {said:?}")).collect::<Vec<_>>(), "")
    };
    sandbox.wait_for("pods to reach outside", reached).unwrap();
}
