//! What an owner says himself counts on the wire alone, and answers find whoever asked, whatever else is at their port.

use super::services::{self, wait_answers};
use super::{islands, node_of};
use causeway_sandbox::harness::Sandbox;
use causeway_tests::ask::{Ask, Said, asked_from, asked_from_pods, node_addresses, source, url};
use causeway_tests::nothing_wrong;
use causeway_tests::outside::{FAR, OUTSIDE};

/// Addresses that nobody has, routed to the first node by whoever asks there.
const ELSEWHERE: [(&str, &str, [&str; 2]); 3] = [
    ("blue", "Cluster", ["198.51.100.21", "2001:db8::21"]),
    ("plain", "Cluster", ["198.51.100.22", "2001:db8::22"]),
    ("plain", "Local", ["198.51.100.23", "2001:db8::23"]),
];

fn claiming(namespace: &str, name: &str, policy: &str, addresses: &[&str]) -> String {
    let addresses: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  type: NodePort\n  \
         ipFamilyPolicy: RequireDualStack\n  externalTrafficPolicy: {policy}\n  selector: {{app: tools}}\n  \
         externalIPs: [{}]\n  ports:\n  - {{name: http, port: 8080}}\n  - {{name: udp, port: 8081, protocol: UDP}}\n",
        addresses.join(", ")
    )
}

/// Clients outside come by external IPs of every network; with `Local` they are seen as they are.
#[test]
fn e1_external_ips_from_outside() {
    let sandbox = islands();
    let mut all = Vec::new();
    for (namespace, policy, addresses) in ELSEWHERE {
        let name = format!("elsewhere-{}", policy.to_lowercase());
        sandbox.apply(&claiming(namespace, &name, policy, &addresses)).unwrap();
        for address in addresses {
            let via = &node_addresses("n1")[usize::from(address.contains(':'))];
            sandbox.exec("outside", &["ip", "route", "replace", address, "via", via]).unwrap();
            let label = |protocol: &str| format!("{namespace} {policy} {protocol} {address}");
            all.push(Ask::http(&url(address, 8080, "/clientip"), &label("tcp")));
            all.push(Ask::udp(address, 8081, "clientip", &label("udp")));
        }
    }
    let as_wanted = || {
        let said = asked_from(sandbox, "outside", &all);
        let good = |ask: &&Ask| {
            let answer = said.get(&ask.label);
            answer.is_some_and(|from| !ask.label.contains(" Local ") || OUTSIDE.contains(&source(from)))
        };
        let wrong = all.iter().filter(|ask| !good(ask));
        nothing_wrong(
            &wrong.map(|ask| format!("{}: {:?}", ask.label, said.get(&ask.label))).collect::<Vec<_>>(),
            "",
        )
    };
    sandbox.wait_for("external IPs from outside", as_wanted).unwrap();
    // Without the way by the wire there is none: neither pods of other networks nor processes of nodes follow them.
    for address in ELSEWHERE.iter().flat_map(|(_, _, addresses)| addresses) {
        sandbox.exec("outside", &["ip", "route", "del", address]).unwrap();
    }
    let tcp: Vec<Ask> = all.into_iter().filter(|ask| ask.label.contains(" tcp ")).collect();
    let said = asked_from(sandbox, "n1", &tcp);
    assert!(said.is_empty(), "a node follows {said:?}");
    let said = asked_from_pods(sandbox, &["red/a", "green/b"], &tcp).unwrap();
    assert!(said.iter().all(|(_, said)| said.is_empty()), "pods follow {said:?}");
    for (namespace, policy, _) in ELSEWHERE {
        let name = format!("elsewhere-{}", policy.to_lowercase());
        sandbox.kubectl(&["delete", "service", "-n", namespace, &name]).unwrap();
    }
}

/// Somebody on the default network says that a host outside is his service: islands and nodes reach the host.
#[test]
fn e2_nobody_takes_everybodys_way_out() {
    let sandbox = islands();
    for policy in ["Cluster", "Local"] {
        let name = format!("thief-{}", policy.to_lowercase());
        sandbox.apply(&claiming("plain", &name, policy, &OUTSIDE)).unwrap();
        // Pods of his own network follow him, from which is seen that his word counts there by now.
        let taken: Vec<Ask> = OUTSIDE.iter().map(|to| Ask::http(&url(to, 8080, "/hostname"), to)).collect();
        let follows = || {
            let said = asked_from_pods(sandbox, &["plain/a"], &taken)?.remove(0).1;
            Ok((said.len() == 2 && said.values().all(|name| name == "a" || name == "b")).then_some(()))
        };
        sandbox.wait_for("the thief's own network to follow him", follows).unwrap();
        let mut all = Vec::new();
        for to in OUTSIDE {
            all.push(Ask::http(&url(to, 8080, "/clientip"), &format!("tcp {to}")));
            all.push(Ask::udp(to, 8081, "clientip", &format!("udp {to}")));
        }
        // The host outside sees the node; a thief would see whatever comes to pods.
        let reached = |who: &str, said: &Said| -> Vec<String> {
            let node = who.split_once('/').map_or(who, |_| node_of(who));
            let own = node_addresses(node);
            let wrong = all.iter().filter(|ask| {
                let own = &own[usize::from(ask.label.contains(':'))];
                said.get(&ask.label).is_none_or(|from| source(from) != own)
            });
            wrong.map(|ask| format!("{who} {}: {:?}", ask.label, said.get(&ask.label))).collect()
        };
        let as_wanted = || {
            let pods = ["blue/a", "blue/b", "red/a", "green/a", "green/b"];
            let said = asked_from_pods(sandbox, &pods, &all)?;
            let mut wrong: Vec<String> = said.iter().flat_map(|(pod, said)| reached(pod, said)).collect();
            wrong.extend(reached("n1", &asked_from(sandbox, "n1", &all)));
            nothing_wrong(&wrong, "")
        };
        sandbox.wait_for("islands to reach the host outside", as_wanted).unwrap();
        sandbox.kubectl(&["delete", "service", "-n", "plain", &name]).unwrap();
    }
}

/// Who asks from a port that is a service's node port, or a pod's host port, hears the answer: pods of every network and the node.
#[test]
fn e3_answers_find_whoever_asked() {
    let sandbox = islands();
    services::expose(sandbox);
    let [blue, blue_local] = services::ports("blue");
    let [plain, plain_local] = services::ports("plain");
    for port in [blue, plain] {
        wait_answers(sandbox, "outside", at_door(port), |asks| Ok(asked_from(sandbox, "outside", asks)));
    }
    // One server for each, and one port for each: what was used stays taken for a while.
    for (port, who, server) in [
        (blue, "blue/a", OUTSIDE[0]),
        (blue, "red/a", OUTSIDE[1]),
        (blue, "n1", FAR[0]),
        (blue_local, "plain/a", OUTSIDE[1]),
        (blue_local, "red/a", FAR[1]),
        (plain, "plain/a", OUTSIDE[0]),
        (plain, "n1", OUTSIDE[1]),
        (plain, "green/a", FAR[0]),
        (plain_local, "blue/a", FAR[1]),
        (plain_local, "green/a", OUTSIDE[0]),
    ] {
        asks_from(sandbox, who, port, server);
    }
}

/// Asks from a port of his own, which is that of his node for the host that he asks.
pub(super) fn asks_from(sandbox: &Sandbox, who: &str, port: u16, server: &str) {
    let words = format!("curl -s --max-time 8 --local-port {port} '{}'", url(server, 8080, "/clientip"));
    let ask = [Ask::new(&words, server)];
    let said = match who.contains('/') {
        true => asked_from_pods(sandbox, &[who], &ask).unwrap().remove(0).1,
        false => asked_from(sandbox, who, &ask),
    };
    let seen = said.get(server);
    let seen = seen.unwrap_or_else(|| panic!("{who} asks {server} from port {port} and hears nothing"));
    assert!(seen.ends_with(&format!(":{port}")), "{who} asks {server}: {seen}");
}

fn at_door(port: u16) -> Vec<Ask> {
    let at = |address: String| Ask::http(&url(&address, port, "/hostname"), &format!("{port} {address}"));
    node_addresses("n1").map(at).to_vec()
}

/// A load balancer outside asks each node whether it has endpoints of a service.
#[test]
fn e4_health_checks_of_services() {
    let sandbox = islands();
    let services = [("blue", 31500), ("plain", 31501)];
    let manifest = |(namespace, port): (&str, u16)| {
        format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: checked, namespace: {namespace}}}\nspec:\n  type: LoadBalancer\n  \
             ipFamilyPolicy: RequireDualStack\n  externalTrafficPolicy: Local\n  healthCheckNodePort: {port}\n  \
             selector: {{app: tools}}\n  ports: [{{port: 80, targetPort: 8080}}]\n"
        )
    };
    sandbox.apply(&services.map(manifest).concat()).unwrap();
    let mut all = Vec::new();
    for (namespace, port) in services {
        for node in ["n1", "n2", "n3"] {
            for address in node_addresses(node) {
                let words =
                    format!("curl -s --max-time 4 -w ' %{{http_code}}' '{}'", url(&address, port, "/"));
                all.push(Ask::new(&words, &format!("{namespace} {node} {address}")));
            }
        }
    }
    let as_wanted = || {
        let said = asked_from(sandbox, "outside", &all);
        let good = |ask: &&Ask| {
            let (code, count) = if ask.label.contains(" n3 ") { ("503", "0") } else { ("200", "1") };
            said.get(&ask.label).is_some_and(|answer| {
                answer.ends_with(code) && answer.contains(&format!("\"localEndpoints\":{count}"))
            })
        };
        let wrong = all.iter().filter(|ask| !good(ask));
        nothing_wrong(
            &wrong.map(|ask| format!("{}: {:?}", ask.label, said.get(&ask.label))).collect::<Vec<_>>(),
            "",
        )
    };
    sandbox.wait_for("health checks from outside", as_wanted).unwrap();
    for (namespace, _) in services {
        sandbox.kubectl(&["delete", "service", "-n", namespace, "checked"]).unwrap();
    }
}
