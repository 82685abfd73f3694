//! The ways out and in of pods on several networks of one namespace.

use causeway_sandbox::harness::Sandbox;
use causeway_tests::ask::{Ask, Said, asked_from, asked_from_pods, node_addresses, source, url};
use causeway_tests::nothing_wrong;
use causeway_tests::outside::{FAR, OUTSIDE};

/// The node port of the service; UDP has the next one.
const PORT: u16 = 30230;
/// A pod of the default network, and one of another tenant.
const STRANGERS: [&str; 2] = ["plain/p", "other/a"];

/// What a pod asks outside of its namespace.
fn out() -> Vec<Ask> {
    let mut out = vec![
        Ask::new("curl -sk --max-time 5 https://kubernetes.default.svc.cluster.local/version", "api"),
        Ask::http("http://www.outside.test:8080/hostname", "name outside"),
    ];
    for to in OUTSIDE.iter().chain(&FAR) {
        out.push(Ask::http(&url(to, 8080, "/clientip"), &format!("source {to}")));
        out.push(Ask::udp(to, 8081, "clientip", &format!("source udp {to}")));
        out.push(Ask::ping(to, &format!("ping {to}")));
    }
    out
}

/// The node ports of two nodes, by both families.
fn doors() -> Vec<Ask> {
    let addresses = ["n1", "n2"].into_iter().flat_map(node_addresses);
    let door = |address: String| {
        let udp = Ask::udp(&address, PORT + 1, "hostname", &format!("door udp {address}"));
        [Ask::http(&url(&address, PORT, "/hostname"), &format!("door {address}")), udp]
    };
    addresses.flat_map(door).collect()
}

/// The addresses of a pod that are the kubelet's alone.
fn locked(sandbox: &Sandbox, pod: &str) -> Vec<Ask> {
    let object = sandbox.pod(pod).object().unwrap();
    let text = object["metadata"]["annotations"][super::PRIMARY].as_str().unwrap();
    let all: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(all["default"]["role"], "infrastructure-locked");
    let nets = all["default"]["ip_addresses"].as_array().unwrap().iter();
    let addresses = nets.map(|net| net.as_str().unwrap().split('/').next().unwrap().to_owned());
    let asks = addresses.flat_map(|address| {
        let ping = Ask::ping(&address, &format!("locked ping {pod} {address}"));
        [Ask::http(&url(&address, 8080, "/hostname"), &format!("locked {pod} {address}")), ping]
    });
    asks.collect()
}

/// What was not answered, or by somebody who should not have.
fn wrong(who: &str, said: &Said, asks: &[Ask], good: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let bad = asks.iter().filter(|ask| !said.get(&ask.label).is_some_and(|answer| good(&ask.label, answer)));
    bad.map(|ask| format!("{who}: {} gave {:?}", ask.label, said.get(&ask.label))).collect()
}

/// Pods of both networks reach outside by their node's address, the API server and names, and node ports. From outside, from nodes and from
/// strangers the node ports lead to pods of the first network alone; nobody reaches locked addresses.
pub(crate) fn out_and_in(sandbox: &Sandbox, old: &[String], new: &[String]) {
    let (out, doors) = (out(), doors());
    let pods = [old[0].as_str(), new[0].as_str()];
    let shut = [locked(sandbox, pods[0]), locked(sandbox, pods[1])].concat();
    let is_in = |of: &[String], answer: &str| of.iter().any(|pod| pod.split('/').nth(1) == Some(answer));
    let as_wanted = || {
        let mut all = Vec::new();
        let asks = [out.clone(), doors.clone(), shut.clone()].concat();
        for (pod, said) in asked_from_pods(sandbox, &pods, &asks)? {
            let own = node_addresses(&super::node_of(sandbox, pod));
            let good = |label: &str, answer: &str| match label.split(' ').next() {
                Some("source") => source(answer) == own[usize::from(label.contains("fd00:"))],
                Some("door") => is_in(old, answer) || is_in(new, answer),
                _ => true,
            };
            all.extend(wrong(pod, &said, &[out.clone(), doors.clone()].concat(), good));
            // Its own door is no stranger's.
            let others = shut.iter().filter(|ask| !ask.label.contains(pod));
            all.extend(
                others.filter(|ask| said.contains_key(&ask.label)).map(|ask| format!("{pod}: {}", ask.label)),
            );
        }
        let strangers = asked_from_pods(sandbox, &STRANGERS, &[doors.clone(), shut.clone()].concat())?;
        let hosts = ["outside", "n3"].map(|host| (host, asked_from(sandbox, host, &doors)));
        for (who, said) in strangers.into_iter().chain(hosts) {
            all.extend(wrong(who, &said, &doors, |_, answer| is_in(old, answer)));
            all.extend(
                said.keys()
                    .filter(|label| label.starts_with("locked"))
                    .map(|label| format!("{who}: {label}")),
            );
        }
        nothing_wrong(&all, "")
    };
    sandbox.wait_for("the ways out and in of both networks", as_wanted).unwrap();
}
