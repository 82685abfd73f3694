//! A proxy with an interface of its own in a namespace that administrators trust with the services of every network.

use super::islands;
use super::services::{cluster_ips, expose, wait_answers};
use causeway_tests::ask::{Ask, asked_from, asked_from_pods, node_addresses, url};

/// A proxy that is reached from outside by a node port.
const EDGE: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: edge}}
---
apiVersion: v1
kind: Service
metadata: {name: proxy, namespace: edge}
spec: {type: NodePort, selector: {app: tools}, ports: [{port: 80, targetPort: 8080, nodePort: 30900}]}
";
const PORT: u16 = 30900;
const NETWORKS: [&str; 4] = ["blue", "red", "green", "plain"];

#[test]
fn d1_a_proxy_reaches_services_of_every_network() {
    let sandbox = islands();
    expose(sandbox);
    sandbox.set_flags(|flags| flags.node = vec!["--all-services-namespaces=edge".into()]).unwrap();
    sandbox.apply(EDGE).unwrap();
    sandbox.start_pods(&[("edge/proxy", "n1")]).unwrap();
    let mut all = Vec::new();
    for network in NETWORKS {
        for address in cluster_ips(sandbox, network) {
            all.push(Ask::http(&url(&address, 80, "/hostname"), &format!("{network} tcp {address}")));
            all.push(Ask::udp(&address, 81, "hostname", &format!("{network} udp {address}")));
        }
    }
    let asked = |pod: &'static str, asks: &[Ask]| Ok(asked_from_pods(sandbox, &[pod], asks)?.remove(0).1);
    wait_answers(sandbox, "edge/proxy", all.clone(), |asks| asked("edge/proxy", asks));
    // As a client outside has it: the proxy asks for him.
    let through = NETWORKS.map(|network| {
        let service = cluster_ips(sandbox, network).remove(0);
        let dial = format!("/dial?host={service}&port=80&request=hostname&protocol=http&tries=1");
        let ask = format!(
            "curl -sf --max-time 9 '{}' | grep responses",
            url(&node_addresses("n1")[0], PORT, &dial)
        );
        Ask::new(&ask, network)
    });
    wait_answers(sandbox, "outside", through.to_vec(), |asks| Ok(asked_from(sandbox, "outside", asks)));
    // Nobody else on the default network has such a way.
    let others: Vec<Ask> = all.into_iter().filter(|ask| !ask.label.starts_with("plain ")).collect();
    let said = asked("plain/a", &others).unwrap();
    assert!(said.is_empty(), "plain/a reached {said:?}");
    sandbox.set_flags(|flags| flags.node = Vec::new()).unwrap();
    let shut = || Ok(asked("edge/proxy", &others)?.is_empty().then_some(()));
    sandbox.wait_for("the proxy to reach no more than others", shut).unwrap();
}
