//! Clients of UDP that keep asking from one port while the pods behind a service change.

use std::net::{IpAddr, SocketAddr};

use super::islands;
use causeway_sandbox::harness::Sandbox;
use causeway_tests::ask::node_addresses;
use causeway_tests::talk::{ask_udp, namespace, namespace_of_host};

/// A service for one pod, which changes.
const NETWORKS: [(&str, u16); 3] = [("blue", 30171), ("green", 30172), ("plain", 30173)];
/// Nobody else asks from here.
const PORT: u16 = 41717;

fn manifest(network: &str, port: u16, pod: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: moving, namespace: {network}}}\nspec:\n  type: NodePort\n  \
         ipFamilyPolicy: RequireDualStack\n  selector: {{pod: {pod}}}\n  ports: [{{port: 81, targetPort: 8081, protocol: UDP, nodePort: {port}}}]\n"
    )
}

fn lead_to(sandbox: &Sandbox, pod: &str) {
    let all = NETWORKS.map(|(network, port)| manifest(network, port, pod)).concat();
    sandbox.apply(&all).unwrap();
}

/// Everybody's way to each service: node ports from outside, service addresses from pods of its own network.
fn asked(sandbox: &Sandbox) -> Vec<(String, std::path::PathBuf, SocketAddr)> {
    let mut all = Vec::new();
    let outside = namespace_of_host(sandbox, "outside");
    for (network, port) in NETWORKS {
        for address in ["n1", "n2", "n3"].iter().flat_map(|node| node_addresses(node)) {
            let server = SocketAddr::new(address.parse().unwrap(), port);
            all.push((format!("outside {network} {server}"), outside.clone(), server));
        }
        let service = sandbox.get(&["service", "-n", network, "moving"]).unwrap();
        for address in service["spec"]["clusterIPs"].as_array().unwrap() {
            let address: IpAddr = address.as_str().unwrap().parse().unwrap();
            for pod in ["a", "b"] {
                let pod = format!("{network}/{pod}");
                let server = SocketAddr::new(address, 81);
                all.push((format!("{pod} {server}"), namespace(sandbox, &pod), server));
            }
        }
    }
    all
}

/// The first pod goes on to answer whoever still comes to it: only who is led anew hears the second.
#[test]
fn c2_udp_from_one_port_follows_the_service() {
    let sandbox = islands();
    for pod in ["a", "b", "a"] {
        lead_to(sandbox, pod);
        let mut open = asked(sandbox);
        let served = || {
            open.retain(|(_, from, server)| ask_udp(from, PORT, *server, "hostname").as_deref() != Some(pod));
            let open: Vec<&String> = open.iter().map(|(who, ..)| who).collect();
            causeway_tests::nothing_wrong(&open.into_iter().cloned().collect::<Vec<_>>(), "")
        };
        sandbox.wait_for(&format!("{pod} to answer everybody"), served).unwrap();
    }
    for (network, _) in NETWORKS {
        sandbox.kubectl(&["delete", "service", "-n", network, "moving"]).unwrap();
    }
}
