//! Clusters of one address family: islands of two networks each, the way out and in, and the road between islands, with IPv4 or IPv6 alone,
//! in both topologies; and a tenant that grows over the end of a network.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "slow_families/grows.rs"]
mod grows;
#[path = "slow_families/pairs.rs"]
mod pairs;
#[path = "slow_families/policies.rs"]
mod policies;

use causeway_sandbox::address::Family;
use causeway_sandbox::harness::{Probe, Sandbox};
use causeway_tests::ask::{Ask, asked_from, asked_from_pods, node_addresses, source, url};
use causeway_tests::nothing_wrong;
use causeway_tests::outside::{FAR, OUTSIDE};
use causeway_tests::siblings::start_asking;

/// Pods with their nodes; the namespace is the island. The last two are on the second network of theirs, which has the other topology.
const PODS: [(&str, &str); 8] = [
    ("hill/a", "n1"),
    ("hill/b", "n2"),
    ("lake/c", "n1"),
    ("lake/d", "n2"),
    ("plain/e", "n1"),
    ("plain/f", "n2"),
    ("hill/g", "n2"),
    ("lake/h", "n1"),
];

/// Subnets of the networks of `hill`, layer3 first, and of those of `lake`, layer2 first.
struct Subnets {
    hill: [&'static str; 2],
    lake: [&'static str; 2],
}

fn manifests(Subnets { hill: [layer3, more2], lake: [layer2, more3] }: &Subnets) -> String {
    format!(
        r#"
{{apiVersion: v1, kind: Namespace, metadata: {{name: hill, labels: {{k8s.ovn.org/primary-user-defined-network: ""}}}}}}
---
{{apiVersion: v1, kind: Namespace, metadata: {{name: lake, labels: {{k8s.ovn.org/primary-user-defined-network: ""}}}}}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {{name: net, namespace: hill}}
spec: {{topology: Layer3, layer3: {{role: Primary, subnets: [{{cidr: "{layer3}"}}]}}}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {{name: net, namespace: lake}}
spec: {{topology: Layer2, layer2: {{role: Primary, subnets: ["{layer2}"]}}}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {{name: more, namespace: hill}}
spec: {{topology: Layer2, layer2: {{role: Primary, subnets: ["{more2}"]}}}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {{name: more, namespace: lake}}
spec: {{topology: Layer3, layer3: {{role: Primary, subnets: [{{cidr: "{more3}"}}]}}}}
"#
    )
}

/// Starts all pods, those of the second networks by asking for these.
fn start(sandbox: &Sandbox) {
    let (first, second) = PODS.split_at(6);
    sandbox.start_pods(first).unwrap();
    let second: Vec<(&str, &str, &str)> = second.iter().map(|(pod, node)| (*pod, *node, "more")).collect();
    start_asking(sandbox, &second);
}

fn road(subnet: &str, prefix: u8) -> String {
    format!(
        r#"
apiVersion: k8s.ovn.org/v1
kind: ClusterNetworkConnect
metadata: {{name: road}}
spec:
  networkSelectors:
  - networkSelectionType: PrimaryUserDefinedNetworks
    primaryUserDefinedNetworkSelector: {{namespaceSelector: {{}}}}
  connectSubnets: [{{cidr: "{subnet}", networkPrefix: {prefix}}}]
  connectivityEnabled: [PodNetwork]
"#
    )
}

fn island(pod: &str) -> &str {
    pod.split_once('/').unwrap().0
}

/// Waits until exactly those reach each other who should.
fn wait_reach(sandbox: &Sandbox, what: &str, should: impl Fn(&str, &str) -> bool) {
    let pods = PODS.map(|(pod, _)| pod);
    let right = || {
        let matrix = sandbox.matrix_with(&pods, &Probe::ALL)?;
        println!("{matrix}");
        Ok(matrix.wrong(&should).is_empty().then_some(()))
    };
    sandbox.wait_for(what, right).unwrap();
}

/// A node port for each island; UDP has the next one.
const PORTS: [(&str, u16); 3] = [("hill", 30200), ("lake", 30210), ("plain", 30220)];

fn services() -> String {
    let one = |(namespace, port): (&str, u16)| {
        format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: {namespace}}}\nspec:\n  type: NodePort\n  \
             selector: {{app: tools}}\n  ports:\n  - {{name: tcp, port: 80, targetPort: 8080, nodePort: {port}}}\n  \
             - {{name: udp, port: 81, targetPort: 8081, protocol: UDP, nodePort: {}}}\n",
            port + 1
        )
    };
    PORTS.map(one).concat()
}

/// Every island reaches outside by its node's address, the API server and names, and is reached by node ports from outside,
/// from nodes and from others' pods.
fn out_and_in(sandbox: &Sandbox, place: usize) {
    sandbox.apply(&services()).unwrap();
    let mut out = vec![
        Ask::new("curl -sk --max-time 5 https://kubernetes.default.svc.cluster.local/version", "api"),
        Ask::http("http://www.outside.test:8080/hostname", "name outside"),
    ];
    for to in [OUTSIDE[place], FAR[place]] {
        out.push(Ask::http(&url(to, 8080, "/clientip"), &format!("source {to}")));
        out.push(Ask::udp(to, 8081, "clientip", &format!("source udp {to}")));
        out.push(Ask::ping(to, &format!("ping {to}")));
    }
    let into: Vec<Ask> = ["n1", "n2"].iter().flat_map(|node| doors(&node_addresses(node)[place])).collect();
    let as_wanted = || {
        let mut wrong = Vec::new();
        let asks = [out.clone(), into.clone()].concat();
        for (pod, said) in asked_from_pods(sandbox, &PODS.map(|(pod, _)| pod), &asks)? {
            let node = PODS.iter().find(|(name, _)| *name == pod).unwrap().1;
            for ask in &asks {
                let answer = said.get(&ask.label);
                let own = !ask.label.starts_with("source")
                    || answer.is_some_and(|answer| source(answer) == node_addresses(node)[place]);
                if answer.is_none() || !own {
                    wrong.push(format!("{pod}: {} gave {answer:?}", ask.label));
                }
            }
        }
        for from in ["outside", "n1"] {
            let said = asked_from(sandbox, from, &into);
            let missing = into.iter().filter(|ask| !said.contains_key(&ask.label));
            wrong.extend(missing.map(|ask| format!("{from}: {}", ask.label)));
        }
        nothing_wrong(&wrong, "")
    };
    sandbox.wait_for("the way out and in", as_wanted).unwrap();
}

/// The node ports of all islands at an address.
fn doors(address: &str) -> Vec<Ask> {
    let one = |(island, port): (&str, u16)| {
        [
            Ask::http(&url(address, port, "/hostname"), &format!("door {island} {address}")),
            Ask::udp(address, port + 1, "hostname", &format!("door udp {island} {address}")),
        ]
    };
    PORTS.into_iter().flat_map(one).collect()
}

fn islands_of(family: Family, subnets: &Subnets, road: &str) {
    let name = format!("family-{family:?}-{}", std::process::id()).to_lowercase();
    let sandbox = Sandbox::start(&name, 2, &[family]).unwrap();
    sandbox.apply(&manifests(subnets)).unwrap();
    start(&sandbox);
    wait_reach(&sandbox, "islands to be islands", |from, to| island(from) == island(to));

    out_and_in(&sandbox, usize::from(family == Family::Ipv6));

    let joined = |from: &str, to: &str| (island(from) == "plain") == (island(to) == "plain");
    sandbox.apply(road).unwrap();
    let success = ["wait", "cnc", "road", "--for=jsonpath={.status.status}=Success", "--timeout=120s"];
    sandbox.kubectl(&success).unwrap();
    wait_reach(&sandbox, "a road in transit", joined);
    sandbox.set_flags(|flags| flags.cluster_manager = vec!["--connect-topology=compact".into()]).unwrap();
    let moved = "--for=jsonpath={.metadata.annotations.k8s\\.ovn\\.org/connect-topology}=compact";
    sandbox.kubectl(&["wait", "cnc", "road", moved, "--timeout=120s"]).unwrap();
    wait_reach(&sandbox, "a compact road", joined);
    policies::hold(&sandbox, family, joined);

    sandbox.kubectl(&["delete", "cnc", "road", "--timeout=60s"]).unwrap();
    pairs::every_pair(&sandbox, family);
    grows::over_its_end(&sandbox, family);
}

#[test]
fn ipv4_alone() {
    let subnets = Subnets { hill: ["10.70.0.0/16", "10.71.0.0/24"], lake: ["10.80.0.0/16", "10.81.0.0/16"] };
    islands_of(Family::Ipv4, &subnets, &road("192.168.0.0/16", 24));
}

#[test]
fn ipv6_alone() {
    let subnets = Subnets { hill: ["fd70::/48", "fd71::/64"], lake: ["fd80::/64", "fd81::/48"] };
    islands_of(Family::Ipv6, &subnets, &road("fd01::/64", 96));
}
