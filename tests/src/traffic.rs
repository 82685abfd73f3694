//! What happens while packets run, and what objects say of themselves. All of it panics when a test cannot go on.
#![allow(clippy::unwrap_used)]

use causeway_sandbox::harness::Sandbox;

/// A condition's status and message; empty while it is not there.
///
/// # Panics
/// When the object cannot be read.
pub fn condition(sandbox: &Sandbox, object: &[&str], kind: &str) -> (String, String) {
    let object = sandbox.get(object).unwrap();
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("message"))
}

/// Waits until two pods reach each other.
///
/// # Panics
/// When they never do.
pub fn wait_reach(sandbox: &Sandbox, from: &str, to: &str) {
    let reaches = || Ok(sandbox.matrix(&[from, to])?.is_full().then_some(()));
    sandbox.wait_for(&format!("{from} and {to} to reach each other"), reaches).unwrap();
}

/// How many of a running ping's packets were lost while something happened.
///
/// # Panics
/// When no packet ever came back.
pub fn lost_during(sandbox: &Sandbox, from: &str, to: &str, what: impl FnOnce()) -> u32 {
    let address = sandbox.pod(to).addresses().unwrap().remove(0);
    let (namespace, pod) = from.split_once('/').unwrap();
    let words = ["exec", "--namespace", namespace, pod, "--", "ping", "-i", "0.1", &address];
    let ping = sandbox.kubectl_in_background(&words).unwrap();
    ping.wait_for_line("icmp_seq=").unwrap();
    what();
    sandbox.pod(from).exec(&["pkill", "-INT", "ping"]).unwrap();
    let lines = ping.lines_to("packets transmitted").unwrap();
    let numbers: Vec<u32> = lines.last().unwrap().split(' ').filter_map(|word| word.parse().ok()).collect();
    let (sent, received) = (numbers[0], numbers[1]);
    // The last one may have been on its way when ping was told to end.
    let last = format!("icmp_seq={sent} ");
    let on_its_way = !lines.iter().any(|line| line.contains(&last));
    (sent - received).saturating_sub(u32::from(on_its_way))
}

/// Kills a component without a warning and waits until it is back.
///
/// # Panics
/// When it never is.
pub fn kill_and_wait(sandbox: &Sandbox, unit: &str) {
    let deaths = || -> Result<_, causeway_sandbox::Error> {
        Ok(sandbox.status()?.units.into_iter().find(|u| u.id == unit).map(|u| (u.deaths, u.ready)))
    };
    let (before, _) = deaths().unwrap().unwrap();
    sandbox.kill(unit).unwrap();
    sandbox
        .wait_for(&format!("{unit} to be back"), || {
            Ok(deaths()?.filter(|(now, ready)| *now > before && *ready))
        })
        .unwrap();
    sandbox.wait_settled().unwrap();
}
