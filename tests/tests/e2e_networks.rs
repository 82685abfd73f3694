//! User-defined networks from the manifest to two pods that talk, and one that can't listen.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use causeway_sandbox::harness::{Probe, Sandbox};
use causeway_tests::shared;

const NETWORKS: &str = include_str!("manifests/networks.yaml");
const DEPLOYMENT: &str = include_str!("manifests/deployment.yaml");

/// Each pod with its node and its network. The name is what tells twins apart.
const PODS: [(&str, &str, &str); 14] = [
    ("blue-one/a", "n1", "blue"),
    ("blue-one/b", "n2", "blue"),
    ("blue-two/c", "n3", "blue"),
    ("green/a", "n1", "green"),
    ("green/b", "n2", "green"),
    ("green/c", "n3", "green"),
    ("twin-one/a1", "n1", "twin-one"),
    ("twin-one/b1", "n2", "twin-one"),
    ("twin-two/a2", "n1", "twin-two"),
    ("twin-two/b2", "n3", "twin-two"),
    ("red/a", "n2", "red"),
    ("red/b", "n3", "red"),
    ("plain/a", "n1", "default"),
    ("plain/b", "n3", "default"),
];

fn network(pod: &str) -> &'static str {
    PODS.iter().find(|(name, ..)| *name == pod).unwrap().2
}

fn start(sandbox: &Sandbox) -> Vec<&'static str> {
    sandbox.apply(NETWORKS).unwrap();
    sandbox.start_pods(&PODS.map(|(pod, node, _)| (pod, node))).unwrap();
    PODS.map(|(pod, ..)| pod).to_vec()
}

/// Inside a network everyone reaches everyone; between networks, and to and from the default network, no one: also
/// where two networks have the same subnet. The pods' readiness probes have passed before.
#[test]
fn islands_are_islands() {
    let sandbox = shared();
    let pods = start(sandbox);
    // The first packets of a tunnel may be lost while it learns its neighbour.
    let wrong = sandbox.wait_for("everybody to reach his own", || {
        let matrix = sandbox.matrix_with(&pods, &[Probe::Http, Probe::Udp])?;
        let missing = pods.iter().flat_map(|from| pods.iter().map(move |to| (*from, *to)));
        let missing = missing.filter(|(from, to)| from != to && network(from) == network(to));
        let whole = missing.into_iter().all(|(from, to)| matrix.reaches(from, to));
        println!("{matrix}");
        Ok(whole.then(|| matrix.wrong(|from, to| network(from) == network(to))))
    });
    assert_eq!(wrong.unwrap(), [""; 0]);

    for name in ["blue", "green", "twin-one", "twin-two", "red", "default"] {
        let members: Vec<&str> = pods.iter().copied().filter(|pod| network(pod) == name).collect();
        let whole = || Ok(sandbox.matrix_with(&members, &Probe::ALL)?.is_full().then_some(()));
        sandbox.wait_for(&format!("all packets to pass in {name}"), whole).unwrap();
    }
    // Echoes name nobody, so networks with the same addresses are left out.
    let distinct: Vec<&str> = pods.iter().copied().filter(|pod| !pod.starts_with("twin")).collect();
    let echoes = sandbox.matrix_with(&distinct, &[Probe::Ping]).unwrap();
    assert_eq!(echoes.wrong(|from, to| network(from) == network(to)), [""; 0], "{echoes}");

    the_default_interface_is_locked(sandbox);
    twins_have_the_same_addresses(sandbox);
    a_layer2_gateway_is_one(sandbox);
    networks_are_told_at_a_glance(sandbox);
    pods_say_where_they_are(sandbox);
    a_pod_of_a_network_is_started_anew_when_it_is_not_live(sandbox);
}

/// The kubelet's liveness probe gets in, so it can tell when nobody answers (readiness probes have passed for all pods).
fn a_pod_of_a_network_is_started_anew_when_it_is_not_live(sandbox: &Sandbox) {
    // The first process of a container cannot be stopped from inside, so the server is its child.
    let shell =
        "command: [sh, -c, 'ln -s /agnhost /tmp/stopme; /tmp/stopme netexec --http-port=8080; exit 0']";
    let live = DEPLOYMENT.replace("readinessProbe:", &format!("{shell}\n        readinessProbe:"));
    sandbox.kubectl_with(&["apply", "--server-side", "--namespace=green", "-f", "-"], &live).unwrap();
    sandbox.kubectl(&["rollout", "status", "--namespace=green", "deployment/web", "--timeout=120s"]).unwrap();
    let pods = sandbox.get(&["pods", "--namespace=green", "-l", "app=web"]).unwrap();
    let name = format!("green/{}", pods["items"][0]["metadata"]["name"].as_str().unwrap());
    let pod = sandbox.pod(&name);
    pod.exec(&["sh", "-c", "kill -STOP $(pgrep -o stopme)"]).unwrap();
    let restarted = || {
        let object = pod.object()?;
        Ok(object["status"]["containerStatuses"][0]["restartCount"].as_u64().filter(|count| *count > 0))
    };
    sandbox.wait_for("a restart of the container", restarted).unwrap();
    sandbox.kubectl(&["delete", "deployment", "--namespace=green", "web", "--timeout=120s"]).unwrap();
}

/// The address that the kubelet probes is nobody else's way in or out (udn-ovn-cases E11, E14).
fn the_default_interface_is_locked(sandbox: &Sandbox) {
    let object = sandbox.pod("blue-one/a").object().unwrap();
    let locked: Vec<String> = object["status"]["podIPs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|address| address["ip"].as_str().unwrap().to_owned())
        .collect();
    for from in ["plain/a", "plain/b", "blue-two/c", "green/a"] {
        for address in &locked {
            let reached = sandbox.pod(from).exec(&["ping", "-c1", "-W2", address]);
            assert!(reached.is_err(), "{from} reaches {address}, the locked address of blue-one/a");
        }
    }
    let plain = sandbox.pod("plain/a").addresses().unwrap();
    for address in &plain {
        let out = sandbox.pod("blue-one/a").exec(&["ping", "-c1", "-W2", "-I", "eth0", address]);
        assert!(out.is_err(), "blue-one/a leaves by its locked interface to {address}");
    }
}

fn twins_have_the_same_addresses(sandbox: &Sandbox) {
    let addresses = |pod: &str| sandbox.pod(pod).addresses().unwrap();
    let one: Vec<_> = ["twin-one/a1", "twin-one/b1"].map(addresses).into_iter().collect();
    let two: Vec<_> = ["twin-two/a2", "twin-two/b2"].map(addresses).into_iter().collect();
    let (mut one, mut two) = (one.concat(), two.concat());
    one.sort();
    two.sort();
    assert_eq!(one, two);
}

/// The gateway's address and MAC are the same from every node (udn-ovn-cases D17).
fn a_layer2_gateway_is_one(sandbox: &Sandbox) {
    let mut seen = std::collections::BTreeSet::new();
    for pod in ["green/a", "green/b", "green/c"] {
        let script = "ip -4 route show default; ping -c1 -W2 203.203.0.1 >/dev/null; ip neigh show 203.203.0.1; \
                      ip -6 route show default | sed 's/ expires.*//; s/ hoplimit.*//; s/ pref.*//'";
        seen.insert(
            sandbox
                .pod(pod)
                .exec(&["sh", "-c", script])
                .unwrap()
                .replace(" STALE", " REACHABLE")
                .replace(" DELAY", " REACHABLE"),
        );
    }
    println!("{seen:?}");
    assert_eq!(seen.len(), 1, "{seen:?}");
    let text = seen.first().unwrap();
    assert!(text.contains("default via 203.203.0.1 dev ovn-udn1"), "{text}");
    assert!(text.contains("lladdr 0a:58:cb:cb:00:01"), "{text}");
}

/// Each pod's network status has the addresses that it answers at, and says which interface leads out.
fn pods_say_where_they_are(sandbox: &Sandbox) {
    for (pod, interfaces) in [("blue-one/a", &["eth0", "ovn-udn1"][..]), ("plain/a", &["eth0"])] {
        let addresses = sandbox.pod(pod).addresses().unwrap();
        let status = sandbox.wait_for(&format!("the network status of {pod}"), || {
            let object = sandbox.pod(pod).object()?;
            let text = object["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"].as_str();
            Ok(text.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok()))
        });
        let status = status.unwrap();
        let all = status.as_array().unwrap();
        assert_eq!(all.iter().map(|one| one["interface"].as_str().unwrap()).collect::<Vec<_>>(), interfaces);
        let leads_out: Vec<_> = all.iter().filter(|one| one["default"] == true).collect();
        let ips: Vec<&str> =
            leads_out[0]["ips"].as_array().unwrap().iter().filter_map(|ip| ip.as_str()).collect();
        assert_eq!((leads_out.len(), ips), (1, addresses.iter().map(String::as_str).collect()), "{status}");
    }
}

fn networks_are_told_at_a_glance(sandbox: &Sandbox) {
    let table = sandbox.kubectl(&["get", "udn,cudn", "-A"]).unwrap();
    println!("{table}");
    for words in [
        &["cudn", "blue", "Layer3", "Primary", "103.103.0.0/16"][..],
        &["green", "green", "Layer2", "Primary", "203.203.0.0/16"],
    ] {
        let line = table.lines().find(|line| words[1..].iter().all(|word| line.contains(word)));
        assert!(line.is_some(), "{words:?} in:\n{table}");
    }
}
