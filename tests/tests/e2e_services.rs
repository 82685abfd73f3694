//! Services: in the default network, on islands, and across roads, with the pods behind them or without.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "e2e_services/across.rs"]
mod across;

use causeway_sandbox::harness::{Probe, Sandbox};
use causeway_tests::{
    at_length, joined, kill_and_wait, network, nothing_wrong, road, shared, transactions, wait_roads,
};
use std::collections::BTreeSet;

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const ISLANDS: &str = include_str!("manifests/connect.yaml");
const PODS: [(&str, &str); 7] = [
    ("blue/a", "n1"),
    ("blue/b", "n2"),
    ("green/a", "n1"),
    ("green/c", "n3"),
    ("red/b", "n2"),
    ("plain/b", "n2"),
    ("plain/c", "n3"),
];
const NETWORKS: [&str; 4] = ["blue", "green", "red", "plain"];

/// A service of both families for all pods of a namespace, and one for one pod.
fn services(namespace: &str) -> String {
    let one = |name: &str, selector: &str| {
        format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  \
             ipFamilyPolicy: RequireDualStack\n  selector: {{{selector}}}\n  ports:\n  \
             - {{name: http, port: 80, targetPort: 8080}}\n  - {{name: udp, port: 81, targetPort: 8081, protocol: UDP}}\n"
        )
    };
    let first = PODS.iter().find(|(pod, _)| network(pod) == namespace).unwrap().0;
    let first = first.split('/').nth(1).unwrap();
    one("all", "app: tools") + &one("first", &format!("app: tools, pod: {first}"))
}

fn addresses(sandbox: &Sandbox, namespace: &str, service: &str) -> Vec<String> {
    let object = sandbox.get(&["service", "-n", namespace, service]).unwrap();
    let all = object["spec"]["clusterIPs"].as_array().unwrap();
    all.iter().map(|address| address.as_str().unwrap().to_owned()).collect()
}

/// The pod that answers at an address of a service, if anybody does.
fn answer(sandbox: &Sandbox, from: &str, address: &str) -> Option<String> {
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let url = format!("http://{host}/hostname");
    sandbox.pod(from).exec(&["curl", "-s", "--max-time", "2", &url]).ok()
}

/// Which of these addresses answer a pod, all asked at once.
fn answering(
    sandbox: &Sandbox,
    from: &str,
    addresses: &[String],
) -> causeway_sandbox::Result<BTreeSet<String>> {
    let host = |address: &String| match address.contains(':') {
        true => format!("[{address}]"),
        false => address.clone(),
    };
    let ask = |address: &String| {
        format!("(curl -s -o /dev/null --max-time 2 'http://{}/hostname' && echo {address}) &", host(address))
    };
    let script = addresses.iter().map(ask).chain(["wait".to_owned()]).collect::<Vec<_>>().join("\n");
    let said = sandbox.pod(from).exec(&["sh", "-c", &script])?;
    Ok(said.lines().map(str::to_owned).collect())
}

/// Asks all pods at once.
fn all_pods<T: Send>(ask: impl Fn(&str) -> T + Sync) -> Vec<(&'static str, T)> {
    std::thread::scope(|scope| {
        let asked = PODS.map(|(pod, _)| (pod, scope.spawn(|| ask(pod))));
        asked.into_iter().map(|(pod, answer)| (pod, answer.join().unwrap())).collect()
    })
}

/// Waits until exactly these networks have each other's services, by both families, and everybody his own.
fn wait_served(sandbox: &Sandbox, roads: &[(&str, &str)]) {
    let all: Vec<(&str, String)> = NETWORKS
        .iter()
        .flat_map(|namespace| {
            addresses(sandbox, namespace, "all").into_iter().map(move |at| (*namespace, at))
        })
        .collect();
    let asked: Vec<String> = all.iter().map(|(_, address)| address.clone()).collect();
    let as_wanted = || {
        let mut wrong = Vec::new();
        for (pod, answered) in all_pods(|pod| answering(sandbox, pod, &asked)) {
            let answered = answered?;
            for (namespace, address) in &all {
                let wanted = joined(roads, network(pod), namespace);
                if answered.contains(address) != wanted {
                    wrong.push(format!("{pod} and {address} of {namespace}: wanted {wanted}"));
                }
            }
        }
        nothing_wrong(&wrong, "")
    };
    sandbox.wait_for(&format!("services over {roads:?} and no others"), as_wanted).unwrap();
    println!("services over {roads:?} and no others");
}

/// Waits until pods of exactly these networks reach each other directly.
fn wait_pods(sandbox: &Sandbox, roads: &[(&str, &str)]) {
    wait_roads(sandbox, &PODS.map(|(pod, _)| pod), &[Probe::Http, Probe::Udp], roads);
    println!("pods over {roads:?} and no others");
}

fn main_road(connectivity: &str) -> String {
    road("main", "main", 168, connectivity)
}

fn wait_success(sandbox: &Sandbox) {
    let success = ["wait", "cnc", "main", "--for=jsonpath={.status.status}=Success", "--timeout=120s"];
    sandbox.kubectl(&success).unwrap();
}

/// Everybody has the services of his own network, and of others only where a road says so; services alone bring nobody
/// to the pods behind them.
#[test]
fn services_are_where_they_are_granted() {
    let sandbox = shared();
    sandbox.apply(ISLANDS).unwrap();
    sandbox.start_pods(&PODS).unwrap();
    sandbox.apply(&NETWORKS.map(services).concat()).unwrap();
    wait_served(sandbox, &[]);
    every_pod_behind_a_service_answers(sandbox);
    a_pod_reaches_itself_by_its_service(sandbox);
    sandbox.start_pods(&[("strangers/s", "n3")]).unwrap();
    a_slice_of_ones_own_reaches_nobody(sandbox, "plain/b", "strangers/s", "default");
    a_slice_of_ones_own_reaches_ones_own_pods(sandbox, "plain/b", "plain/c", "default");
    nobody_answers_at_an_aim_outside(sandbox, "blue/a", "green/c");
    across::a_family_that_the_road_has_not(sandbox);

    let main = [("blue", "green")];
    sandbox.apply(&main_road("PodNetwork, ClusterIPServiceNetwork")).unwrap();
    wait_success(sandbox);
    wait_served(sandbox, &main);
    wait_pods(sandbox, &main);

    sandbox.apply(&main_road("ClusterIPServiceNetwork")).unwrap();
    wait_success(sandbox);
    wait_pods(sandbox, &[]);
    wait_served(sandbox, &main);
    a_slice_of_ones_own_reaches_nobody(sandbox, "blue/a", "green/c", "green");
    a_slice_of_ones_own_reaches_nobody(sandbox, "green/a", "blue/b", "blue");
    across::as_inside(sandbox);
    restarts_write_nothing(sandbox);

    let flag = vec!["--connect-topology=compact".to_owned()];
    sandbox.set_flags(|flags| flags.cluster_manager = flag).unwrap();
    let moved = "--for=jsonpath={.metadata.annotations.k8s\\.ovn\\.org/connect-topology}=compact";
    sandbox.kubectl(&["wait", "cnc", "main", moved, "--timeout=120s"]).unwrap();
    wait_success(sandbox);
    wait_pods(sandbox, &[]);
    wait_served(sandbox, &main);
    if at_length() {
        across::as_inside(sandbox);
    }

    sandbox.apply(&main_road("PodNetwork")).unwrap();
    wait_success(sandbox);
    wait_served(sandbox, &[]);
    wait_pods(sandbox, &main);
    sandbox.kubectl(&["delete", "cnc", "main", "--timeout=60s"]).unwrap();
    across::a_family_that_the_road_has_not(sandbox);
    a_service_follows_its_pods(sandbox);
    nothing_is_left_of_services(sandbox);
}

/// The addresses of a pod on one of its networks: the default one, or the one of its namespace.
fn addresses_of(sandbox: &Sandbox, pod: &str, network: &str) -> Vec<String> {
    let (namespace, name) = pod.split_once('/').unwrap();
    let object = sandbox.get(&["pod", "-n", namespace, name]).unwrap();
    let text = object["metadata"]["annotations"]["k8s.ovn.org/pod-networks"].as_str().unwrap();
    let all: serde_json::Value = serde_json::from_str(text).unwrap();
    let is_it = |key: &str| if network == "default" { key == network } else { key != "default" };
    let entry = all.as_object().unwrap().iter().find(|(key, _)| is_it(key)).unwrap().1;
    let addresses = entry["ip_addresses"].as_array().unwrap().iter();
    addresses.map(|net| net.as_str().unwrap().split('/').next().unwrap().to_owned()).collect()
}

/// A service of a pod's namespace, with slices by hand that aim at somebody else's addresses and claim to be nobody's.
fn aim(sandbox: &Sandbox, from: &str, addresses: &[String]) -> Vec<String> {
    let namespace = network(from);
    let mut text = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: aim, namespace: {namespace}}}\nspec:\n  \
         ipFamilyPolicy: RequireDualStack\n  ports:\n  - {{name: http, port: 80, targetPort: 8080}}\n"
    );
    for (number, address) in addresses.iter().enumerate() {
        let family = if address.contains(':') { "IPv6" } else { "IPv4" };
        text.push_str(&format!(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: aim-{number}\n  namespace: {namespace}\n  \
             labels: {{kubernetes.io/service-name: aim}}\naddressType: {family}\nports: [{{name: http, port: 8080, protocol: TCP}}]\n\
             endpoints: [{{addresses: [\"{address}\"], conditions: {{ready: true}}}}]\n"
        ));
    }
    sandbox.apply(&text).unwrap();
    self::addresses(sandbox, namespace, "aim")
}

fn stop_aiming(sandbox: &Sandbox, from: &str) {
    sandbox
        .kubectl(&[
            "delete",
            "service,endpointslice",
            "-n",
            network(from),
            "aim",
            "aim-0",
            "aim-1",
            "--ignore-not-found",
        ])
        .unwrap();
}

/// Who aims a service of his own at a pod that is not his gets a refusal, as from a service without pods, and an event.
fn a_slice_of_ones_own_reaches_nobody(sandbox: &Sandbox, from: &str, victim: &str, on: &str) {
    let addresses = addresses_of(sandbox, victim, on);
    for vip in aim(sandbox, from, &addresses) {
        let host = if vip.contains(':') { format!("[{vip}]") } else { vip };
        let refused = || {
            let said = sandbox.pod(from).exec(&[
                "curl",
                "-sS",
                "--max-time",
                "3",
                &format!("http://{host}/hostname"),
            ]);
            if let Ok(answer) = said {
                panic!("{from} has reached {answer} at {host}");
            }
            Ok(said.err().filter(|error| error.to_string().contains("Could not connect")))
        };
        sandbox.wait_for(&format!("{from} to be refused at {host}"), refused).unwrap();
    }
    let told = || {
        let events =
            sandbox.kubectl(&["get", "events", "-n", network(from), "-o", "jsonpath={.items[*].message}"])?;
        Ok(addresses.iter().all(|address| events.contains(&format!("not served: {address}"))).then_some(()))
    };
    sandbox.wait_for("events about endpoints that are not served", told).unwrap();
    stop_aiming(sandbox, from);
}

/// Who names no pod, but the address of one of his own, is served.
fn a_slice_of_ones_own_reaches_ones_own_pods(sandbox: &Sandbox, from: &str, own: &str, on: &str) {
    let name = own.split('/').nth(1).unwrap();
    for vip in aim(sandbox, from, &addresses_of(sandbox, own, on)) {
        let reached = || Ok(answer(sandbox, from, &vip).filter(|answer| answer == name));
        sandbox.wait_for(&format!("{from} to reach {own} at {vip}"), reached).unwrap();
    }
    stop_aiming(sandbox, from);
}

/// An address of a network that nobody has connected is an address outside: it leads nowhere near that network.
fn nobody_answers_at_an_aim_outside(sandbox: &Sandbox, from: &str, victim: &str) {
    let addresses = addresses_of(sandbox, victim, network(victim));
    for vip in aim(sandbox, from, &addresses) {
        assert_eq!(answer(sandbox, from, &vip), None);
    }
    stop_aiming(sandbox, from);
}

fn every_pod_behind_a_service_answers(sandbox: &Sandbox) {
    for address in addresses(sandbox, "blue", "all") {
        let all = || {
            let answers: BTreeSet<String> =
                (0..20).filter_map(|_| answer(sandbox, "blue/a", &address)).collect();
            Ok((answers == BTreeSet::from(["a".to_owned(), "b".to_owned()])).then_some(()))
        };
        sandbox.wait_for(&format!("both pods to answer at {address}"), all).unwrap();
    }
}

/// udn-ovn-cases I17.
fn a_pod_reaches_itself_by_its_service(sandbox: &Sandbox) {
    for (pod, name) in [("blue/a", "a"), ("green/a", "a"), ("plain/b", "b")] {
        for address in addresses(sandbox, network(pod), "first") {
            let itself = || Ok(answer(sandbox, pod, &address).filter(|answer| answer == name));
            sandbox.wait_for(&format!("{pod} to reach itself at {address}"), itself).unwrap();
        }
    }
}

fn restarts_write_nothing(sandbox: &Sandbox) {
    let quiet = || {
        let before = NODES.map(|node| transactions(sandbox, node));
        std::thread::sleep(std::time::Duration::from_secs(3));
        Ok(Some(before).filter(|before| *before == NODES.map(|node| transactions(sandbox, node))))
    };
    let before = sandbox.wait_for("everything to be written", quiet).unwrap();
    for unit in ["cluster-manager", "n1/causeway", "n3/causeway"] {
        kill_and_wait(sandbox, unit);
    }
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert_eq!(sandbox.wait_for("everything to be written", quiet).unwrap(), before);
}

/// A pod that goes is not sent to any more; a service without pods refuses at once instead of being silent.
fn a_service_follows_its_pods(sandbox: &Sandbox) {
    sandbox.kubectl(&["delete", "pod", "-n", "blue", "a", "--timeout=60s"]).unwrap();
    let address = addresses(sandbox, "blue", "first").remove(0);
    let refused = || {
        let url = format!("http://{address}/hostname");
        let said = sandbox.pod("blue/b").exec(&["curl", "-sS", "--max-time", "5", &url]);
        Ok(said.err().filter(|error| error.to_string().contains("Could not connect")))
    };
    sandbox.wait_for("the service without pods to refuse", refused).unwrap();
    let only = || {
        let address = addresses(sandbox, "blue", "all").remove(0);
        let answers: BTreeSet<Option<String>> = (0..8).map(|_| answer(sandbox, "blue/b", &address)).collect();
        Ok((answers == BTreeSet::from([Some("b".to_owned())])).then_some(()))
    };
    sandbox.wait_for("the other pod alone to answer", only).unwrap();
}

fn nothing_is_left_of_services(sandbox: &Sandbox) {
    for namespace in NETWORKS {
        sandbox.kubectl(&["delete", "service", "-n", namespace, "all", "first"]).unwrap();
    }
    let gone = || {
        let mirrors = sandbox.kubectl(&["get", "endpointslices", "-A", "-o", "name"])?;
        let balancers = NODES.map(|node| {
            sandbox.exec(node, &["ovn-nbctl", "--bare", "--columns=name", "list", "Load_Balancer"])
        });
        let balancers: Vec<String> = balancers.into_iter().collect::<Result<_, _>>()?;
        let left = |text: &str| ["blue", "green", "red", "plain"].iter().any(|name| text.contains(name));
        let mirrors = mirrors.lines().any(|line| line.contains("all") || line.contains("first"));
        Ok((!mirrors && !balancers.iter().any(|text| left(text))).then_some(()))
    };
    sandbox.wait_for("nothing to be left of the services", gone).unwrap();
}
