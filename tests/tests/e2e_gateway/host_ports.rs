//! Ports of a node that lead to its pods (`hostPort`), of every network: from outside, from nodes, from pods.

use super::islands;
use super::services::{AT_ONCE, wait_answers};
use super::walls::asks_from;
use causeway_sandbox::harness::{IMAGE, Sandbox};
use causeway_tests::ask::{Ask, Said, asked_from, asked_from_pods, node_addresses, source, url};
use causeway_tests::nothing_wrong;
use causeway_tests::outside::{FAR, OUTSIDE};
use serde_json::json;

/// Namespaces with a pod `door` on n1, each with its port for TCP; UDP has the next one.
const DOORS: [(&str, u16); 3] = [("blue", 8180), ("green", 8190), ("plain", 8200)];
/// A pod of the default network and one of blue that only processes of their node reach.
const LOCAL: [(&str, u16); 2] = [("plain", 8300), ("blue", 8310)];

fn manifest(namespace: &str, name: &str, port: u16, address: &str) -> String {
    let host = if address.is_empty() { String::new() } else { format!(", hostIP: {address}") };
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {namespace}, labels: {{door: \"yes\"}}}}\nspec:\n  \
         nodeName: n1\n  terminationGracePeriodSeconds: 0\n  containers:\n  - name: tools\n    image: {IMAGE}\n    ports:\n    \
         - {{containerPort: 8080, hostPort: {port}{host}}}\n    \
         - {{containerPort: 8081, hostPort: {}, protocol: UDP{host}}}\n    \
         readinessProbe: {{httpGet: {{path: /hostname, port: 8080}}, periodSeconds: 1}}\n",
        port + 1
    )
}

fn open(sandbox: &Sandbox) {
    let doors = DOORS.map(|(namespace, port)| manifest(namespace, "door", port, "")).concat();
    let local = LOCAL.map(|(namespace, port)| manifest(namespace, "local", port, "127.0.0.1")).concat();
    sandbox.apply(&(doors + &local)).unwrap();
    for (namespace, _) in DOORS {
        sandbox.pod(&format!("{namespace}/door")).wait_ready().unwrap();
    }
    for (namespace, _) in LOCAL {
        sandbox.pod(&format!("{namespace}/local")).wait_ready().unwrap();
    }
}

/// Label `network protocol address`.
fn asks(addresses: &[String], doors: &[(&str, u16)]) -> Vec<Ask> {
    let mut all = Vec::new();
    for (network, port) in doors {
        for address in addresses {
            all.push(Ask::http(&url(address, *port, "/clientip"), &format!("{network} tcp {address}")));
            all.push(Ask::udp(address, port + 1, "clientip", &format!("{network} udp {address}")));
        }
    }
    all
}

/// The client's address is kept; nobody outside reaches what is open on `localhost` alone.
#[test]
fn c1_host_ports_from_outside() {
    let sandbox = islands();
    open(sandbox);
    let all = asks(&node_addresses("n1"), &DOORS);
    let as_wanted = || {
        let mut said = Said::new();
        all.chunks(AT_ONCE).for_each(|some| said.extend(asked_from(sandbox, "outside", some)));
        let kept = |ask: &&Ask| said.get(&ask.label).is_some_and(|from| OUTSIDE.contains(&source(from)));
        let wrong = all.iter().filter(|ask| !kept(ask));
        nothing_wrong(
            &wrong.map(|ask| format!("{}: {:?}", ask.label, said.get(&ask.label))).collect::<Vec<_>>(),
            "",
        )
    };
    sandbox.wait_for("host ports from outside", as_wanted).unwrap();
    let said = asked_from(sandbox, "outside", &asks(&node_addresses("n1"), &LOCAL));
    assert!(said.is_empty(), "open on localhost alone, and reached from outside: {said:?}");
}

/// Who asks from a port that is a pod's host port hears the answer.
#[test]
fn c1_host_ports_take_nobodys_answers() {
    let sandbox = islands();
    open(sandbox);
    let [blue, green, plain] = DOORS.map(|(_, port)| port);
    for (port, who, server) in [
        (blue, "blue/a", OUTSIDE[0]),
        (blue, "red/a", OUTSIDE[1]),
        (green, "plain/a", FAR[0]),
        (green, "green/a", FAR[1]),
        (plain, "n1", OUTSIDE[0]),
        (plain, "plain/a", OUTSIDE[1]),
    ] {
        asks_from(sandbox, who, port, server);
    }
}

/// Processes of the node itself say its addresses or `localhost`; those of another node its addresses.
#[test]
fn c2_host_ports_from_nodes() {
    let sandbox = islands();
    open(sandbox);
    let localhost = ["127.0.0.1".to_owned()];
    let own = [asks(&node_addresses("n1"), &DOORS), asks(&localhost, &DOORS)].concat();
    wait_answers(sandbox, "n1", own, |asks| Ok(asked_from(sandbox, "n1", asks)));
    wait_answers(sandbox, "n1", asks(&localhost, &LOCAL), |asks| Ok(asked_from(sandbox, "n1", asks)));
    let other = asks(&node_addresses("n1"), &DOORS);
    wait_answers(sandbox, "n2", other, |asks| Ok(asked_from(sandbox, "n2", asks)));
}

/// Pods of every network, on the node and on another one.
#[test]
fn c3_host_ports_from_pods_of_every_network() {
    let sandbox = islands();
    open(sandbox);
    for pod in ["blue/a", "red/a", "green/a", "plain/a", "blue/b", "plain/b"] {
        let all = asks(&node_addresses("n1"), &DOORS);
        wait_answers(sandbox, pod, all, |asks| Ok(asked_from_pods(sandbox, &[pod], asks)?.remove(0).1));
    }
}

/// A pod of the default network that is closed is closed at its host port, too: pods of other networks on its node are no processes of
/// the node.
#[test]
fn c3_policies_hold_at_host_ports() {
    let sandbox = islands();
    open(sandbox);
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"namespace": "plain", "name": "door"},
        "spec": {"podSelector": {"matchLabels": {"door": "yes"}},
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"friend": "yes"}}}]}]},
    });
    sandbox.kubectl(&["label", "pod", "--overwrite", "--namespace=plain", "a", "friend=yes"]).unwrap();
    let all = asks(&node_addresses("n1"), &DOORS[2..]);
    let others = ["blue/a", "red/a", "green/a", "blue/b", "plain/b"];
    let open_to = |who: &dyn Fn(&str) -> bool| {
        let mut said = asked_from_pods(sandbox, &[&others[..], &["plain/a"]].concat(), &all)?;
        for host in ["n1", "n2", "outside"] {
            said.push((host, asked_from(sandbox, host, &all)));
        }
        let wanted = |host: &str| if who(host) { all.len() } else { 0 };
        let wrong = said.iter().filter(|(host, said)| said.len() != wanted(host));
        nothing_wrong(&wrong.map(|(host, said)| format!("{host}: {said:?}")).collect::<Vec<_>>(), "")
    };
    sandbox.wait_for("host ports that everybody reaches", || open_to(&|_| true)).unwrap();
    sandbox.apply(&policy.to_string()).unwrap();
    let few = || open_to(&|who| who == "plain/a" || who == "n1");
    sandbox.wait_for("host ports that a friend and the node reach", few).unwrap();
    sandbox.kubectl(&["delete", "networkpolicy", "--namespace=plain", "door"]).unwrap();
    sandbox.wait_for("host ports that everybody reaches again", || open_to(&|_| true)).unwrap();
}

/// With the pods everything goes that was there for their ports.
#[test]
fn c4_nothing_is_left_of_host_ports() {
    let sandbox = islands();
    open(sandbox);
    for namespace in ["blue", "green", "plain"] {
        sandbox.kubectl(&["delete", "pod", "-n", namespace, "-l", "door=yes", "--now"]).unwrap();
    }
    let left = || {
        let mut left = Vec::new();
        let rows = ["ovn-nbctl", "--no-leader-only", "--bare", "--columns=name", "list", "Load_Balancer"];
        left.extend(
            sandbox.exec("n1", &rows)?.lines().filter(|row| row.contains("HostPort_")).map(str::to_owned),
        );
        let flows = sandbox.exec("n1", &["ovs-ofctl", "-OOpenFlow15", "dump-flows", "br-ex"])?;
        left.extend(
            flows.lines().filter(|flow| flow.contains("=8180") || flow.contains("=8200")).map(str::to_owned),
        );
        let tables = sandbox.exec("n1", &["nft", "list", "tables"])?;
        left.extend(tables.lines().filter(|table| table.contains("host-ports")).map(str::to_owned));
        let setting = "cat /proc/sys/net/ipv4/conf/br-ex/route_localnet";
        left.extend(
            (sandbox.exec("n1", &["sh", "-c", setting])? != "0").then(|| "route_localnet".to_owned()),
        );
        nothing_wrong(&left, "")
    };
    sandbox.wait_for("nothing to be left of host ports", left).unwrap();
}
