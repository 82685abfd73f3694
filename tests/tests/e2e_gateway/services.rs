//! Services from outside, from nodes and from pods of every network.

use super::islands;
use causeway_sandbox::harness::{IMAGE, Sandbox};
use causeway_tests::ask::{Ask, Said, asked_from, asked_from_pods, node_addresses, source, url};
use causeway_tests::nothing_wrong;
use causeway_tests::outside::OUTSIDE;

pub(crate) const NETWORKS: [&str; 4] = ["blue", "red", "green", "plain"];

/// Node ports: for each network one service for all clients, and one for those of the node, each with TCP and UDP.
pub(crate) fn ports(namespace: &str) -> [u16; 2] {
    let n = NETWORKS.iter().position(|name| *name == namespace).unwrap() as u16;
    [30100 + 10 * n, 30105 + 10 * n]
}

fn manifest(namespace: &str) -> String {
    let [all, local] = ports(namespace);
    let one = |name: &str, port: u16, policy: &str| {
        format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  type: NodePort\n  \
             ipFamilyPolicy: RequireDualStack\n  externalTrafficPolicy: {policy}\n  selector: {{app: tools}}\n  ports:\n  \
             - {{name: http, port: 80, targetPort: 8080, nodePort: {port}}}\n  \
             - {{name: udp, port: 81, targetPort: 8081, protocol: UDP, nodePort: {}}}\n",
            port + 1
        )
    };
    one("all", all, "Cluster") + &one("local", local, "Local")
}

pub(crate) fn expose(sandbox: &Sandbox) {
    sandbox.apply(&NETWORKS.map(manifest).concat()).unwrap();
}

pub(crate) fn cluster_ips(sandbox: &Sandbox, namespace: &str) -> Vec<String> {
    let object = sandbox.get(&["service", "-n", namespace, "all"]).unwrap();
    let all = object["spec"]["clusterIPs"].as_array().unwrap();
    all.iter().map(|address| address.as_str().unwrap().to_owned()).collect()
}

/// Every network's node ports at these nodes' addresses, TCP and UDP, both families: label `network policy protocol address`.
fn node_ports(nodes: &[&str]) -> Vec<Ask> {
    let mut all = Vec::new();
    for network in NETWORKS {
        let [cluster, local] = ports(network);
        for (policy, port) in [("Cluster", cluster), ("Local", local)] {
            for address in nodes.iter().flat_map(|node| node_addresses(node)) {
                let name = format!("{network} {policy} tcp {address}");
                all.push(Ask::http(&url(&address, port, "/clientip"), &name));
                let name = format!("{network} {policy} udp {address}");
                all.push(Ask::udp(&address, port + 1, "clientip", &name));
            }
        }
    }
    all
}

/// From outside: at nodes with an endpoint and at one without; `Local` keeps the client's address, and where there is no endpoint
/// nobody answers.
/// udn-ovn-cases I19.
#[test]
fn b1_node_ports_from_outside() {
    let sandbox = islands();
    expose(sandbox);
    let all = node_ports(&["n1", "n2", "n3"]);
    let empty = node_addresses("n3");
    let as_wanted = || {
        let mut said = Said::new();
        all.chunks(AT_ONCE).for_each(|some| said.extend(asked_from(sandbox, "outside", some)));
        let mut wrong = Vec::new();
        for ask in &all {
            let answer = said.get(&ask.label).map(String::as_str);
            let (local, at) = (ask.label.contains(" Local "), ask.label.rsplit_once(' ').unwrap().1);
            let without = local && empty.iter().any(|address| address == at);
            let good = match answer {
                None => without,
                Some(answer) => !without && (!local || OUTSIDE.contains(&source(answer))),
            };
            if !good {
                wrong.push(format!("{} gave {answer:?}", ask.label));
            }
        }
        nothing_wrong(&wrong, "")
    };
    sandbox.wait_for("node ports from outside", as_wanted).unwrap();
}

/// Node ports of `Local` services at the node without an endpoint.
fn at_empty(all: Vec<Ask>) -> (Vec<Ask>, Vec<Ask>) {
    let empty = node_addresses("n3");
    let at = |ask: &Ask| ask.label.rsplit_once(' ').unwrap().1.to_owned();
    all.into_iter().partition(|ask| ask.label.contains(" Local ") && empty.contains(&at(ask)))
}

/// From processes of nodes: cluster addresses of every network, node ports of the own node and of others. At the own node endpoints of
/// all nodes serve them, as Kubernetes has it; at another one with `Local` its own alone.
#[test]
fn b2_services_from_nodes() {
    let sandbox = islands();
    expose(sandbox);
    for node in ["n1", "n3"] {
        let (dark, mut all) = at_empty(node_ports(&["n1", "n2", "n3"]));
        if node == "n3" {
            all.extend(dark);
        } else {
            let said = asked_from(sandbox, node, &dark[..AT_ONCE]);
            assert!(said.is_empty(), "{node} is answered where there is no endpoint: {said:?}");
        }
        for network in NETWORKS {
            for address in cluster_ips(sandbox, network) {
                all.push(Ask::http(&url(&address, 80, "/hostname"), &format!("{network} {address}")));
            }
        }
        wait_answers(sandbox, node, all, |asks| Ok(asked_from(sandbox, node, asks)));
    }
}

/// From pods of every network: node ports of every network, at the own node and at others, as anybody outside has them. At the own node
/// endpoints of all nodes serve.
/// udn-ovn-cases I20, I22: as anybody outside has them, the own node included.
#[test]
fn b3_node_ports_from_pods_of_every_network() {
    let sandbox = islands();
    expose(sandbox);
    sandbox.apply(&["blue", "plain"].map(without_endpoint).concat()).unwrap();
    for pod in ["blue/client", "plain/client"] {
        sandbox.pod(pod).wait_ready().unwrap();
    }
    for pod in ["blue/a", "red/b", "green/a", "plain/b", "blue/client", "plain/client"] {
        let (dark, mut all) = at_empty(node_ports(&["n1", "n2", "n3"]));
        let ask = |asks: &[Ask]| Ok(asked_from_pods(sandbox, &[pod], asks)?.remove(0).1);
        if pod.ends_with("/client") {
            all.extend(dark);
        } else {
            let said: Said = ask(&dark[..AT_ONCE]).unwrap();
            assert!(said.is_empty(), "{pod} is answered where there is no endpoint: {said:?}");
        }
        wait_answers(sandbox, pod, all, ask);
    }
    for namespace in ["blue", "plain"] {
        sandbox.kubectl(&["delete", "pod", "-n", namespace, "client", "--now"]).unwrap();
    }
}

/// A pod on the third node that serves nobody.
fn without_endpoint(namespace: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: client, namespace: {namespace}}}\nspec:\n  nodeName: n3\n  \
         terminationGracePeriodSeconds: 0\n  containers: [{{name: tools, image: \"{IMAGE}\"}}]\n"
    )
}

/// Processes of nodes, the own one and another, from pods of every network: the kubelet answers, if only to say that it does not
/// know who asks.
#[test]
fn b4_processes_of_nodes_from_pods_of_every_network() {
    let sandbox = islands();
    let kubelet = |address: String| {
        let url = url(&address, 10250, "/healthz").replace("http:", "https:");
        Ask::new(&format!("curl -sk --max-time 4 -o /dev/null -w '%{{http_code}}' '{url}'"), &address)
    };
    for pod in ["blue/a", "red/a", "green/a", "plain/a"] {
        let all = ["n1", "n2"].iter().flat_map(|node| node_addresses(node)).map(kubelet).collect();
        wait_answers(sandbox, pod, all, |asks| Ok(asked_from_pods(sandbox, &[pod], asks)?.remove(0).1));
    }
}

/// So many questions at once are asked by one.
pub(crate) const AT_ONCE: usize = 16;

/// Waits until everything has been answered once.
pub(crate) fn wait_answers(
    sandbox: &Sandbox,
    who: &str,
    mut open: Vec<Ask>,
    ask: impl Fn(&[Ask]) -> causeway_sandbox::Result<Said>,
) {
    let as_wanted = || {
        let mut said = Said::new();
        for some in open.chunks(AT_ONCE) {
            said.extend(ask(some)?);
        }
        open.retain(|ask| !said.contains_key(&ask.label));
        nothing_wrong(&open.iter().map(|ask| format!("{who}: {}", ask.label)).collect::<Vec<_>>(), "")
    };
    sandbox.wait_for(&format!("services from {who}"), as_wanted).unwrap();
}
