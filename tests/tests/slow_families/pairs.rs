//! Every pair of kinds of networks, and the services of all of them, by one family.

use causeway_sandbox::address::Family;
use causeway_sandbox::harness::{Probe, Sandbox};
use causeway_tests::ask::{Ask, asked_from_pods, url};
use causeway_tests::{network, nothing_wrong, road, wait_roads};

/// Of both families.
const ISLANDS: &str = include_str!("../manifests/pairs.yaml");
/// One pod of each island.
const PODS: [(&str, &str); 8] = [
    ("blue/a", "n1"),
    ("orange/b", "n2"),
    ("yellow/a", "n1"),
    ("violet/b", "n2"),
    ("red/a", "n1"),
    ("rose/b", "n2"),
    ("green/a", "n1"),
    ("lime/b", "n2"),
];

/// The same islands with one family; in a list of subnets IPv4 comes first.
fn islands(family: Family) -> String {
    let line = |line: &str| {
        let Some((head, rest)) = line.split_once("subnets: [") else { return line.to_owned() };
        let (list, tail) = rest.split_once(']').unwrap();
        let end = list.find("}, ").map_or_else(|| list.find(", ").unwrap(), |at| at + 1);
        let own = if family == Family::Ipv4 { &list[..end] } else { &list[end + 2..] };
        format!("{head}subnets: [{own}]{tail}")
    };
    ISLANDS.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The road of all of them.
fn all(family: Family) -> String {
    let other = if family == Family::Ipv4 { "fd01:" } else { "cidr: 192." };
    let both = road("all", "all", 168, "PodNetwork, ClusterIPServiceNetwork");
    both.lines().filter(|line| !line.contains(other)).collect::<Vec<_>>().join("\n")
}

fn services() -> String {
    let one = |(pod, _): (&str, &str)| {
        format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: {}}}\nspec:\n  selector: {{app: tools}}\n  ports:\n  \
             - {{name: tcp, port: 80, targetPort: 8080}}\n  - {{name: udp, port: 81, targetPort: 8081, protocol: UDP}}\n",
            network(pod)
        )
    };
    PODS.map(one).concat()
}

/// Everybody is answered by each service, and by the pod behind it.
fn wait_served(sandbox: &Sandbox) {
    let mut asks = Vec::new();
    for (pod, _) in PODS {
        let service = sandbox.get(&["service", "web", "--namespace", network(pod)]).unwrap();
        let address = service["spec"]["clusterIP"].as_str().unwrap();
        let name = pod.split('/').nth(1).unwrap();
        asks.push((name, Ask::http(&url(address, 80, "/hostname"), &format!("{pod} by TCP"))));
        asks.push((name, Ask::udp(address, 81, "hostname", &format!("{pod} by UDP"))));
    }
    let questions: Vec<Ask> = asks.iter().map(|(_, ask)| ask.clone()).collect();
    let served = || {
        let mut wrong = Vec::new();
        for (client, said) in asked_from_pods(sandbox, &PODS.map(|(pod, _)| pod), &questions)? {
            let missing =
                asks.iter().filter(|(name, ask)| said.get(&ask.label).is_none_or(|said| said != name));
            wrong.extend(missing.map(|(_, ask)| format!("{client} and {}", ask.label)));
        }
        nothing_wrong(&wrong, "")
    };
    sandbox.wait_for("everybody to be served by everybody", served).unwrap();
}

/// In the topology that there is, and in the other one.
pub(crate) fn every_pair(sandbox: &Sandbox, family: Family) {
    sandbox.apply(&islands(family)).unwrap();
    sandbox.start_pods(&PODS).unwrap();
    sandbox.apply(&services()).unwrap();
    sandbox.apply(&all(family)).unwrap();
    let pods = PODS.map(|(pod, _)| pod);
    let others = |at: usize| pods[at + 1..].iter().map(move |other| (network(pods[at]), network(other)));
    let mesh: Vec<(&str, &str)> = (0..pods.len()).flat_map(others).collect();
    for wanted in ["compact", "transit"] {
        let flag = vec![format!("--connect-topology={wanted}")];
        sandbox.set_flags(|flags| flags.cluster_manager = flag).unwrap();
        let moved =
            format!("--for=jsonpath={{.metadata.annotations.k8s\\.ovn\\.org/connect-topology}}={wanted}");
        sandbox.kubectl(&["wait", "cnc", "all", &moved, "--timeout=120s"]).unwrap();
        wait_roads(sandbox, &pods, &Probe::ALL, &mesh);
        wait_served(sandbox);
    }
}
