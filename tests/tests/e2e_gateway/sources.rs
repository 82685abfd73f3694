//! Who may come by the address of a load balancer: `loadBalancerSourceRanges`.

use super::{PODS, islands, node_of};
use causeway_sandbox::harness::Sandbox;
use causeway_tests::ask::{Ask, Said, asked_from, asked_from_pods, node_addresses, url};
use causeway_tests::nothing_wrong;
use causeway_tests::outside::{FAR, OUTSIDE};
use std::collections::BTreeSet;

/// Layer3, layer2 and the default network.
const NETWORKS: [&str; 3] = ["blue", "green", "plain"];
const POLICIES: [&str; 2] = ["cluster", "local"];
const HOSTS: [&str; 4] = ["outside", "far", "n1", "n2"];

fn manifest(network: &str, policy: &str) -> String {
    let word = if policy == "local" { "Local" } else { "Cluster" };
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: closed-{policy}, namespace: {network}}}\nspec:\n  type: LoadBalancer\n  \
         ipFamilyPolicy: RequireDualStack\n  externalTrafficPolicy: {word}\n  selector: {{app: tools}}\n  ports:\n  \
         - {{name: http, port: 80, targetPort: 8080}}\n  - {{name: udp, port: 81, targetPort: 8081, protocol: UDP}}\n"
    )
}

fn ingress(sandbox: &Sandbox, network: &str, policy: &str) -> Vec<String> {
    let found = || {
        let service = sandbox.get(&["service", "-n", network, &format!("closed-{policy}")])?;
        let all = service["status"]["loadBalancer"]["ingress"].as_array().cloned().unwrap_or_default();
        let all: Vec<String> = all.iter().filter_map(|one| Some(one["ip"].as_str()?.to_owned())).collect();
        Ok((all.len() == 2).then_some(all))
    };
    sandbox.wait_for(&format!("addresses for {network}'s load balancer"), found).unwrap()
}

/// All load balancers, TCP and UDP, both families: label `network policy protocol family`.
fn questions(sandbox: &Sandbox) -> Vec<Ask> {
    let mut all = Vec::new();
    for network in NETWORKS {
        for policy in POLICIES {
            for address in ingress(sandbox, network, policy) {
                let family = if address.contains(':') { 6 } else { 4 };
                let label = |protocol: &str| format!("{network} {policy} {protocol} {family}");
                all.push(Ask::http(&url(&address, 80, "/hostname"), &label("tcp")));
                all.push(Ask::udp(&address, 81, "hostname", &label("udp")));
            }
        }
    }
    all
}

fn allow(sandbox: &Sandbox, ranges: &[String]) {
    let list: Vec<String> = ranges.iter().map(|range| format!("\"{range}\"")).collect();
    let patch = format!(r#"{{"spec":{{"loadBalancerSourceRanges":[{}]}}}}"#, list.join(","));
    for network in NETWORKS {
        for policy in POLICIES {
            let name = format!("closed-{policy}");
            sandbox.kubectl(&["patch", "service", "-n", network, &name, "-p", &patch]).unwrap();
        }
    }
}

/// These addresses alone.
fn single(addresses: impl IntoIterator<Item = impl ToString>) -> Vec<String> {
    let range = |address: String| format!("{address}/{}", if address.contains(':') { 128 } else { 32 });
    addresses.into_iter().map(|address| range(address.to_string())).collect()
}

/// Everybody asks everything; `may` says who is to be answered by whose load balancer. Who may needs one answer, who may not gets none
/// while that is waited for last.
fn wait_as(sandbox: &Sandbox, what: &str, may: impl Fn(&str, &str) -> bool) {
    let all = questions(sandbox);
    let mut answered = BTreeSet::new();
    let mut as_wanted = || {
        let mut said: Vec<(&str, Said)> = asked_from_pods(sandbox, &PODS.map(|(pod, _)| pod), &all)?;
        said.extend(HOSTS.map(|host| (host, asked_from(sandbox, host, &all))));
        let mut wrong = Vec::new();
        for (who, said) in &said {
            for ask in &all {
                let network = ask.label.split(' ').next().unwrap();
                let (heard, one) = (said.contains_key(&ask.label), (who.to_string(), ask.label.clone()));
                let good = if may(who, network) { heard || answered.contains(&one) } else { !heard };
                if heard {
                    answered.insert(one);
                }
                if !good {
                    wrong.push(format!("{who}: {} {:?}", ask.label, said.get(&ask.label)));
                }
            }
        }
        nothing_wrong(&wrong, "")
    };
    sandbox.wait_for(what, &mut as_wanted).unwrap();
}

/// Clients outside and processes of nodes are known by their own addresses, pods of the service's network and of the default one too;
/// other pods by the address of their node, as outside.
#[test]
fn c1_only_some_may_come_by_a_load_balancer() {
    let sandbox = islands();
    let all = NETWORKS.iter().flat_map(|network| POLICIES.map(|policy| manifest(network, policy)));
    sandbox.apply(&all.collect::<String>()).unwrap();
    wait_as(sandbox, "everybody to come by load balancers", |_, _| true);
    allow(sandbox, &single(OUTSIDE));
    wait_as(sandbox, "nobody but one host to come by load balancers", |who, _| who == "outside");
    let chosen = ["blue/a", "green/b", "plain/a"];
    let own = chosen.iter().flat_map(|pod| sandbox.pod(pod).addresses().unwrap());
    let ranges = FAR.map(str::to_owned).into_iter().chain(node_addresses("n1")).chain(own);
    allow(sandbox, &single(ranges));
    let may = |who: &str, network: &str| match who.split_once('/') {
        None => who == "far" || who == "n1",
        Some((own, _)) if own == network || own == "plain" => chosen.contains(&who),
        Some(_) => node_of(who) == "n1",
    };
    wait_as(sandbox, "some to come by load balancers", may);
    allow(sandbox, &[]);
    wait_as(sandbox, "everybody to come by load balancers again", |_, _| true);
    for network in NETWORKS {
        sandbox.kubectl(&["delete", "service", "-n", network, "closed-cluster", "closed-local"]).unwrap();
    }
}
