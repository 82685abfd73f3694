//! First moments, and moments between two versions of a policy.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use causeway_host::in_namespace;
use causeway_sandbox::harness::{IMAGE, Sandbox};
use causeway_tests::dial::Dialler;
use causeway_tests::{lost_during, namespace, network};
use serde_json::{Value, json};

use super::{NODES, addresses, delete_policies, name_of, policy, prepared, wait};

/// Nobody else's.
const PORT: u16 = 9999;

/// Datagrams that come to a pod.
struct Ears(Vec<UdpSocket>);

impl Ears {
    /// At each of its addresses.
    fn of(sandbox: &Sandbox, pod: &str) -> Self {
        let listen = |address: IpAddr| {
            let bound = in_namespace(&namespace(sandbox, pod), || Ok(UdpSocket::bind((address, PORT))));
            let socket = bound.unwrap().unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        Self(addresses(sandbox, pod).into_iter().map(listen).collect())
    }

    /// How many have come since the last time, at each address.
    fn heard(&self) -> Vec<usize> {
        let count = |socket: &UdpSocket| std::iter::from_fn(|| socket.recv(&mut [0; 8]).ok()).count();
        self.0.iter().map(count).collect()
    }
}

/// A pod that sends as fast as it can from its first moment on, and a server.
fn talker(pod: &str, node: &str, to: &[IpAddr]) -> String {
    let (namespace, name) = pod.split_once('/').unwrap();
    let says = |address: &IpAddr| format!("echo x >/dev/udp/{address}/{PORT} && ok=$((ok+1));");
    let all: String = to.iter().map(says).collect();
    let script = format!(
        "/agnhost netexec --http-port=8080 >/dev/null 2>&1 & n=0; ok=0; \
         while [ $n -lt 500 ]; do n=$((n+1)); {all} done 2>/dev/null; echo sent $ok; wait"
    );
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": {"shut": "yes"}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": IMAGE, "command": ["bash", "-c", script]}]},
    })
    .to_string()
}

/// POL-064, both ways, in both families, on the default network and on one of its own: whoever starts under a closed direction never gets
/// out of it and is never reached, from the first moment on.
#[test]
fn nobody_runs_unprotected() {
    let sandbox = prepared();
    let shut = json!({"podSelector": {"matchLabels": {"shut": "yes"}}, "policyTypes": ["Ingress", "Egress"]});
    for namespace in ["plain", "blue"] {
        sandbox.apply(&policy(&format!("{namespace}/shut"), shut.clone())).unwrap();
    }
    let ears = ["plain/a", "blue/a"].map(|pod| Ears::of(sandbox, pod));
    let pods = ["plain/p0", "plain/p1", "blue/p0", "blue/p1"];
    let all: Vec<String> = pods
        .iter()
        .zip(NODES.into_iter().cycle())
        .map(|(pod, node)| talker(pod, node, &addresses(sandbox, &format!("{}/a", network(pod)))))
        .collect();
    sandbox.wait_for("pods to be accepted", || sandbox.apply(&all.join("\n---\n")).map(Some)).unwrap();
    // Whoever hears of an address dials it before its pod runs; a server is there from the pod's first moment on.
    let dial = |pod: &&str| {
        let from = namespace(sandbox, &format!("{}/b", network(pod)));
        let known = || Ok(Some(sandbox.pod(pod).addresses()?).filter(|all| !all.is_empty()));
        let all = sandbox.wait_for(&format!("addresses of {pod}"), known).unwrap();
        let begin = move |text: String| Dialler::begin(&from, SocketAddr::new(text.parse().unwrap(), 8080));
        all.into_iter().map(begin).collect::<Vec<_>>()
    };
    let diallers: Vec<Dialler> = pods.iter().flat_map(dial).collect();
    for pod in pods {
        let (namespace, name) = pod.split_once('/').unwrap();
        let said = || {
            let log = sandbox.kubectl(&["logs", "--namespace", namespace, name])?;
            Ok(log.lines().find_map(|line| line.strip_prefix("sent ")?.parse::<u32>().ok()))
        };
        let sent = sandbox.wait_for(&format!("{pod} to have sent"), said).unwrap();
        println!("{pod} has sent {sent}");
        assert!(sent >= 500, "{pod}: {sent}");
    }
    for ears in &ears {
        assert_eq!(ears.heard().iter().sum::<usize>(), 0, "somebody got out");
    }
    assert!(diallers.iter().all(|dialler| dialler.answered() == 0), "somebody reached a closed pod");

    // The test can fail: without the policies everybody is heard and answers.
    delete_policies(sandbox);
    let everybody = || Ok(diallers.iter().all(|dialler| dialler.answered() > 0).then_some(()));
    sandbox.wait_for("everybody to be reached", everybody).unwrap();
    diallers.into_iter().for_each(|dialler| println!("answered and tried: {:?}", dialler.end()));
    for (namespace, ears) in ["plain", "blue"].into_iter().zip(&ears) {
        let says = |address: &IpAddr| format!("echo x >/dev/udp/{address}/{PORT};");
        let all: String = addresses(sandbox, &format!("{namespace}/a")).iter().map(says).collect();
        let heard = || {
            sandbox.pod(&format!("{namespace}/p0")).exec(&["bash", "-c", &all])?;
            Ok(ears.heard().iter().all(|heard| *heard > 0).then_some(()))
        };
        sandbox.wait_for(&format!("somebody of {namespace} to be heard"), heard).unwrap();
        sandbox
            .kubectl(&["delete", "pods", "--namespace", namespace, "--selector=shut=yes", "--now"])
            .unwrap();
    }
}

/// A version of a tenant's policy, by number: who is allowed is named by other rules, in another order, behind others, for other pods. All of
/// them let `a` come to `b`, and none of them `c`.
fn version(number: usize) -> Value {
    let from = |pod: &str| json!({"from": [{"podSelector": {"matchLabels": {"pod": pod}}}]});
    let other = from(&format!("other-{number}"));
    let elsewhere = json!({"from": [{"podSelector": {}}], "ports": [{"port": 9}]});
    let only =
        |pods: &[&str]| json!({"matchExpressions": [{"key": "pod", "operator": "In", "values": pods}]});
    let (pods, rules) = match number % 4 {
        0 => (only(&["b"]), json!([other, from("a")])),
        1 => (only(&["b"]), json!([from("a"), other])),
        2 => (only(&["b"]), json!([elsewhere, from("a"), other])),
        _ => (only(&["b", "nobody"]), json!([{"from": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}, from("a")])),
    };
    json!({"podSelector": pods, "ingress": rules})
}

/// The same of an administrator's, where the last rule forbids and each rule before it moves it.
fn administrators(number: usize) -> String {
    let rule = |action: &str, pod: &str| {
        let pods = json!({"namespaceSelector": {}, "podSelector": {"matchLabels": {"pod": pod}}});
        json!({"action": action, "from": [{"pods": pods}]})
    };
    let last = json!({"action": "Deny", "from": [{"namespaces": {}}]});
    let rules = match number % 3 {
        0 => json!([rule("Accept", "a"), last]),
        1 => json!([rule("Accept", "nobody"), rule("Deny", "c"), rule("Accept", "a"), last]),
        _ => json!([rule("Deny", "c"), rule("Accept", "a"), last]),
    };
    let namespaces = json!({"matchLabels": {"kubernetes.io/metadata.name": "plain"}});
    let subject =
        json!({"pods": {"namespaceSelector": namespaces, "podSelector": {"matchLabels": {"pod": "b"}}}});
    json!({
        "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy", "metadata": {"name": "edited"},
        "spec": {"tier": "Admin", "priority": number % 2, "subject": subject, "ingress": rules},
    })
    .to_string()
}

/// A policy that is edited many times never loses what all its versions allow, neither what runs nor what begins, and never opens what none
/// does.
#[test]
fn edits_lose_nothing() {
    let sandbox = prepared();
    for namespace in ["blue", "yellow", "plain"] {
        sandbox.apply(&policy(&format!("{namespace}/edited"), version(0))).unwrap();
    }
    let open = |from: &str, to: &str| name_of(to) != "b" || name_of(from) == "a" || network(from) == "red";
    wait(sandbox, "a comes to b", &[], open);
    for owner in ["blue", "yellow", "plain"] {
        let [from, to] = ["a", "b"].map(|name| format!("{owner}/{name}"));
        let target = SocketAddr::new(addresses(sandbox, &to).remove(0), 8080);
        let again = Dialler::patient(&namespace(sandbox, &from), target);
        // Whom no version lets in, where there is somebody.
        let stranger = (owner == "plain").then(|| Dialler::begin(&namespace(sandbox, "plain/c"), target));
        let lost = lost_during(sandbox, &from, &to, || {
            for edit in 1..if owner == "plain" { 25 } else { 10 } {
                sandbox.apply(&policy(&format!("{owner}/edited"), version(edit))).unwrap();
            }
            for edit in 0..if owner == "plain" { 25 } else { 0 } {
                sandbox.apply(&administrators(edit)).unwrap();
            }
        });
        assert_eq!(lost, 0, "{from} to {to}");
        let (answered, tried) = again.end();
        println!("{from} began {answered} of {tried} connections");
        assert!(answered == tried && tried > 10, "{from} was answered {answered} of {tried} times");
        if let Some((answered, tried)) = stranger.map(Dialler::end) {
            println!("a stranger was answered {answered} of {tried} times");
            assert_eq!((answered, tried > 5), (0, true));
        }
    }
    sandbox.kubectl(&["delete", "cnp", "edited"]).unwrap();
    delete_policies(sandbox);
    wait(sandbox, "islands again", &[], |_, _| true);
}
