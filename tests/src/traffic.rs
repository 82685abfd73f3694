//! What happens while packets run, and what objects say of themselves. All of it panics when a test cannot go on.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::time::Duration;

use causeway_sandbox::harness::{Background, Sandbox};

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
    lost_by(sandbox, from, &sandbox.pod(to).addresses().unwrap().remove(0), what)
}

/// The same for an address.
///
/// # Panics
/// When no packet ever came back.
pub fn lost_by(sandbox: &Sandbox, from: &str, address: &str, what: impl FnOnce()) -> u32 {
    lost_of(sandbox, &[(from, address)], what).remove(0)
}

/// The same for several pings at once, each from a pod to an address. Ping goes on a while longer: what was on its way in the last moment,
/// which is often the busiest, is not lost if it arrives.
///
/// # Panics
/// When no packet of one of them ever came back.
pub fn lost_of(sandbox: &Sandbox, flows: &[(&str, &str)], what: impl FnOnce()) -> Vec<u32> {
    let begin = |(from, address): &(&str, &str)| {
        let (namespace, pod) = from.split_once('/').unwrap();
        let words = ["exec", "--namespace", namespace, pod, "--", "ping", "-i", "0.1", address];
        let ping = sandbox.kubectl_in_background(&words).unwrap();
        let lines = ping.lines_to("bytes from").unwrap();
        (ping, lines)
    };
    let pings: Vec<(Background, Vec<String>)> = flows.iter().map(begin).collect();
    what();
    std::thread::sleep(Duration::from_millis(2 * 100 * u64::from(ON_THEIR_WAY)));
    let pods: BTreeSet<&str> = flows.iter().map(|(from, _)| *from).collect();
    for pod in pods {
        sandbox.pod(pod).exec(&["pkill", "-INT", "ping"]).unwrap();
    }
    let end = |(ping, mut lines): (Background, Vec<String>)| {
        lines.extend(ping.lines_to("packets transmitted").unwrap());
        lost(&lines)
    };
    pings.into_iter().map(end).collect()
}

/// So many packets may be on their way when ping is told to end: those of a second.
const ON_THEIR_WAY: u32 = 10;

/// The packets without an answer, but for the last ones.
fn lost(lines: &[String]) -> u32 {
    let number = |line: &String| -> Option<u32> {
        let (_, rest) = line.split_once("icmp_seq=").filter(|(before, _)| before.contains("bytes from"))?;
        rest.split(' ').next()?.parse().ok()
    };
    let answered: BTreeSet<u32> = lines.iter().filter_map(number).collect();
    let last = *answered.last().unwrap();
    let sent = lines.iter().find_map(|line| line.split_once(" packets transmitted")).unwrap().0;
    let sent: u32 = sent.parse().unwrap();
    let between = last - u32::try_from(answered.len()).unwrap();
    between + sent.saturating_sub(last).saturating_sub(ON_THEIR_WAY)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ping(answered: impl IntoIterator<Item = u32>, sent: u32) -> Vec<String> {
        let answers =
            answered.into_iter().map(|n| format!("64 bytes from 10.0.0.1: icmp_seq={n} ttl=62 time=1 ms"));
        let refused = "From 10.0.0.2 icmp_seq=3 Destination Host Unreachable".to_owned();
        let sum = format!("{sent} packets transmitted, 7 received, 0% packet loss, time 1 ms");
        answers.chain([refused, sum]).collect()
    }

    #[test]
    fn what_is_on_its_way_is_not_lost() {
        assert_eq!(lost(&ping(1..=20, 20)), 0);
        assert_eq!(lost(&ping(1..=20, 22)), 0, "two came too late for ping to see them");
        assert_eq!(lost(&ping((1..=20).filter(|n| *n != 3), 20)), 1, "a refusal is no answer");
        assert_eq!(lost(&ping(3..=20, 20)), 2, "the first two");
        assert_eq!(lost(&ping(1..=20, 45)), 15, "nothing came any more");
        assert_eq!(lost(&ping([1, 2, 3, 5, 4, 6, 6], 6)), 0, "in another order, or twice");
    }
}
