//! The way out and in: every island reaches outside by its node's address, the API server and DNS, and nothing else of the
//! default network; services are reached from outside, from nodes and from pods.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "e2e_gateway/host_ports.rs"]
mod host_ports;
#[path = "e2e_gateway/nodes.rs"]
mod nodes;
#[path = "e2e_gateway/proxy.rs"]
mod proxy;
#[path = "e2e_gateway/services.rs"]
mod services;
#[path = "e2e_gateway/sources.rs"]
mod sources;
#[path = "e2e_gateway/stale.rs"]
mod stale;
#[path = "e2e_gateway/walls.rs"]
mod walls;

use causeway_sandbox::harness::Sandbox;
use causeway_tests::ask::{Ask, asked_from_outside, asked_from_pods, node_addresses, source, url};
use causeway_tests::outside::{FAR, OUTSIDE};
use causeway_tests::{nothing_wrong, shared};

const ISLANDS: &str = include_str!("manifests/gateway.yaml");
/// Two networks with equal addresses, one of layer2, and the default one, on two nodes each.
const PODS: [(&str, &str); 8] = [
    ("blue/a", "n1"),
    ("blue/b", "n2"),
    ("red/a", "n1"),
    ("red/b", "n2"),
    ("green/a", "n1"),
    ("green/b", "n2"),
    ("plain/a", "n1"),
    ("plain/b", "n2"),
];
fn node_of(pod: &str) -> &'static str {
    PODS.iter().find(|(name, _)| *name == pod).unwrap().1
}

fn islands() -> &'static Sandbox {
    static READY: std::sync::OnceLock<()> = std::sync::OnceLock::new();
    let sandbox = shared();
    READY.get_or_init(|| {
        sandbox.apply(ISLANDS).unwrap();
        sandbox.start_pods(&PODS).unwrap();
    });
    sandbox
}

/// Both hosts, both families, TCP, UDP and ICMP, from every pod: whoever is asked sees the address of the pod's node.
#[test]
fn a1_everybody_reaches_outside_by_the_nodes_address() {
    let sandbox = islands();
    let mut all = Vec::new();
    for address in OUTSIDE.iter().chain(&FAR) {
        all.push(Ask::http(&url(address, 8080, "/clientip"), &format!("tcp {address}")));
        all.push(Ask::udp(address, 8081, "clientip", &format!("udp {address}")));
        all.push(Ask::ping(address, &format!("ping {address}")));
    }
    let as_wanted = || {
        let mut wrong = Vec::new();
        for (pod, said) in asked_from_pods(sandbox, &PODS.map(|(pod, _)| pod), &all)? {
            let own = node_addresses(node_of(pod));
            for ask in &all {
                let answer = said.get(&ask.label).map(String::as_str);
                let six = ask.label.contains("fd00:");
                let good = match answer {
                    Some("") => ask.label.starts_with("ping"),
                    Some(answer) => source(answer) == own[usize::from(six)],
                    None => false,
                };
                if !good {
                    wrong.push(format!("{pod}: {} gave {answer:?}", ask.label));
                }
            }
        }
        nothing_wrong(&wrong, "")
    };
    sandbox.wait_for("everybody to reach outside", as_wanted).unwrap();
}

/// The API server and names, of the cluster and outside, from every network.
#[test]
fn a2_everybody_reaches_the_api_server_and_dns() {
    let sandbox = islands();
    let mut all = vec![
        Ask::new("curl -sk --max-time 5 https://kubernetes.default.svc.cluster.local/version", "api by name"),
        Ask::http("http://www.outside.test:8080/hostname", "outside by name"),
    ];
    for address in sandbox.get(&["service", "-n", "default", "kubernetes"]).unwrap()["spec"]["clusterIPs"]
        .as_array()
        .unwrap()
    {
        let address = address.as_str().unwrap();
        let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        all.push(Ask::new(
            &format!("curl -sk --max-time 5 https://{host}/version"),
            &format!("api {address}"),
        ));
    }
    let as_wanted = || {
        let mut wrong = Vec::new();
        for (pod, said) in asked_from_pods(sandbox, &PODS.map(|(pod, _)| pod), &all)? {
            let missing = all.iter().filter(|ask| said.get(&ask.label).is_none_or(String::is_empty));
            wrong.extend(missing.map(|ask| format!("{pod}: {}", ask.label)));
        }
        nothing_wrong(&wrong, "")
    };
    sandbox.wait_for("everybody to reach the API server and DNS", as_wanted).unwrap();
}

/// Nothing else of the default network, nothing of other networks, and none of the addresses between routers.
/// udn-ovn-cases E16, E17.
#[test]
fn a3_everything_else_is_dark() {
    let sandbox = islands();
    services::expose(sandbox);
    let addresses = |pod: &str| sandbox.pod(pod).addresses().unwrap();
    for (me, others) in [("blue/a", ["red", "green", "plain"]), ("green/a", ["blue", "red", "plain"])] {
        let mut dark = Vec::new();
        for address in ["plain/a", "plain/b"].into_iter().flat_map(addresses) {
            dark.push(Ask::http(&url(&address, 8080, "/hostname"), &format!("default pod {address}")));
            dark.push(Ask::udp(&address, 8081, "hostname", &format!("default pod udp {address}")));
        }
        for other in others {
            for address in services::cluster_ips(sandbox, other) {
                dark.push(Ask::http(&url(&address, 80, "/hostname"), &format!("{other}'s {address}")));
            }
        }
        for address in [
            "169.254.0.1",
            "169.254.0.2",
            "169.254.0.9",
            "169.254.0.11",
            "169.254.0.13",
            "100.64.0.1",
            "100.64.0.2",
            "100.88.0.2",
            "fd69::1",
            "fd69::2",
            "fd69::9",
            "fd69::b",
            "fd69::d",
            "fd98::1",
            "fd98::2",
            "fd97::2",
        ] {
            dark.push(Ask::http(&url(address, 8080, "/hostname"), &format!("between {address}")));
        }
        let said = asked_from_pods(sandbox, &[me], &dark).unwrap().remove(0).1;
        assert!(said.is_empty(), "{me} reached {said:?}");
    }
}

/// A packet that is too large for a link outside: the pod hears of it and sends smaller ones.
/// udn-ovn-cases F20.
#[test]
fn a4_path_mtu_from_outside() {
    let sandbox = islands();
    for (pod, _) in PODS.iter().filter(|(pod, _)| pod.ends_with("/a")) {
        for address in FAR {
            let large = || -> causeway_sandbox::Result<Option<()>> {
                let script = format!(
                    "ping -c1 -W1 -M do -s 1340 {address} >/dev/null 2>&1; ping -c1 -W1 -M do -s 1340 {address} 2>&1 | \
                     grep -qi -e 'too long' -e 'mtu' && echo heard"
                );
                Ok((sandbox.pod(pod).exec(&["sh", "-c", &script])? == "heard").then_some(()))
            };
            sandbox
                .wait_for(&format!("{pod} to hear that a packet to {address} is too large"), large)
                .unwrap();
            // 300 kB, in packets of every size that there is on the way.
            let body = "head -c 300000 /dev/zero | tr '\\0' x";
            let url = url(address, 8080, "/echo?msg=ok");
            let script =
                format!("{body} | curl -s --max-time 20 -w ' %{{size_upload}}' --data-binary @- '{url}'");
            let said = sandbox.pod(pod).exec(&["sh", "-c", &script]).unwrap();
            assert_eq!(said, "ok 300000", "{pod} to {address}");
        }
    }
}

/// Equal addresses and equal source ports from two networks at once, to one server.
/// udn-ovn-cases F17.
#[test]
fn a5_equal_sources_are_told_apart() {
    let sandbox = islands();
    let pods = ["blue/a", "red/a", "green/a", "plain/a"];
    // A port that was used stays taken for a while.
    for (address, port) in OUTSIDE.into_iter().zip(40123..) {
        let ask = Ask::new(
            &format!("curl -s --max-time 5 --local-port {port} '{}'", url(address, 8080, "/clientip")),
            "same port",
        );
        let said = asked_from_pods(sandbox, &pods, &[ask]).unwrap();
        let mut ports: Vec<String> = said
            .iter()
            .map(|(pod, said)| said.get("same port").unwrap_or_else(|| panic!("{pod}")).clone())
            .collect();
        ports.sort();
        ports.dedup();
        assert_eq!(ports.len(), pods.len(), "{said:?}");
    }
}

/// Nobody outside reaches pods, services or routers by sending his packets to a node.
#[test]
fn a6_nobody_outside_routes_his_way_in() {
    let sandbox = islands();
    services::expose(sandbox);
    let node = node_addresses("n1");
    let [pod, service] =
        [sandbox.pod("plain/a").addresses().unwrap(), services::cluster_ips(sandbox, "blue")];
    for (target, port) in [(&pod, 8080), (&service, 80)] {
        for address in target {
            let via = &node[usize::from(address.contains(':'))];
            sandbox.exec("outside", &["ip", "route", "replace", address, "via", via]).unwrap();
            let said = asked_from_outside(sandbox, &[Ask::http(&url(address, port, "/hostname"), "x")]);
            sandbox.exec("outside", &["ip", "route", "del", address, "via", via]).unwrap();
            assert!(said.is_empty(), "{address} answered: {said:?}");
        }
    }
}

/// Anywhere in the logs of the sandbox's switches.
#[test]
fn z9_no_packet_took_too_many_turns() {
    let sandbox = islands();
    let logs = sandbox.folder().path("");
    let found = std::process::Command::new("grep")
        .args(["-rl", "--include=*.log", "Max recirculation depth exceeded"])
        .arg(&logs)
        .output()
        .unwrap();
    let found = String::from_utf8_lossy(&found.stdout);
    assert!(found.is_empty(), "packets were dropped for want of turns in the datapath: {found}");
}
