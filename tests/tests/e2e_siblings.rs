//! Several primary networks for one namespace: a network is full, a second one is added, and nobody notices but those who get in.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "e2e_siblings/tenant.rs"]
mod tenant;
#[path = "e2e_siblings/tunnels.rs"]
mod tunnels;
#[path = "e2e_siblings/ways.rs"]
mod ways;

use std::collections::BTreeMap;

use causeway_sandbox::harness::{Probe, Sandbox};
use causeway_tests::siblings::{
    lost_between, networked, node_of, pods_on, start_asking, wait_replicas, wait_served_by_both,
};
use causeway_tests::{condition, kill_and_wait, nothing_wrong, road, shared, transactions, wait_reach};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const TENANTS: &str = include_str!("manifests/siblings.yaml");
const WEB: &str = include_str!("manifests/siblings-web.yaml");
const PRIMARY: &str = "k8s.ovn.org/pod-networks";

/// A namespace, and the rights with which somebody works there.
#[derive(Clone, Copy)]
struct Tenant {
    namespace: &'static str,
    rights: &'static [&'static str],
}

const GROW: Tenant = Tenant { namespace: "grow", rights: &[] };

impl Tenant {
    fn kubectl(&self, sandbox: &Sandbox, words: &[&str], input: &str) {
        sandbox.kubectl_with(&[self.rights, words].concat(), input).unwrap();
    }
}

/// A ClusterUserDefinedNetwork for the tenant that grows.
fn network(name: &str, topology: &str) -> String {
    format!(
        "apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {{name: {name}}}
spec:
  namespaceSelector: {{matchExpressions: [{{key: team, operator: In, values: [grow]}}]}}
  network: {topology}
"
    )
}

fn layer3(name: &str, subnet: u8) -> String {
    let subnets = format!("[{{cidr: 10.{subnet}.0.0/16}}, {{cidr: \"fd10:{subnet}::/48\"}}]");
    network(name, &format!("{{topology: Layer3, layer3: {{role: Primary, subnets: {subnets}}}}}"))
}

fn layer2(name: &str, subnet: u8) -> String {
    let subnets = format!("[10.{subnet}.0.0/16, \"fd10:{subnet}::/64\"]");
    network(name, &format!("{{topology: Layer2, layer2: {{role: Primary, subnets: {subnets}}}}}"))
}

/// J028: waits until pods of one namespace reach each other by every kind of packet in both families, and nobody else's.
fn wait_apart(sandbox: &Sandbox, pods: &[&str]) {
    let namespace = |pod: &str| pod.split('/').next().unwrap().to_owned();
    let as_wanted = || {
        let matrix = sandbox.matrix_with(pods, &Probe::ALL)?;
        let wrong = matrix.wrong(|from, to| namespace(from) == namespace(to));
        nothing_wrong(&wrong, &matrix.to_string())
    };
    sandbox.wait_for("tenants to be apart and whole", as_wanted).unwrap();
}

#[test]
fn a_full_network_gets_a_sibling() {
    let sandbox = shared();
    sandbox.apply(TENANTS).unwrap();
    sandbox.apply(WEB).unwrap();
    wait_replicas(sandbox, "grow", 12);
    sandbox.start_pods(&[("other/a", "n1"), ("other/c", "n3"), ("plain/p", "n2")]).unwrap();
    let before = networked(sandbox, "grow");
    assert_eq!(pods_on(sandbox, "grow/first").len(), 12);

    sandbox.kubectl(&["scale", "--namespace", "grow", "deployment/web", "--replicas=15"]).unwrap();
    let full = || {
        let (status, message) = condition(sandbox, &["cudn", "first"], "NetworkAllocationSucceeded");
        Ok((status == "False" && message.contains("3 pod(s) get no address")).then_some(message))
    };
    println!("{}", sandbox.wait_for("the network to be full", full).unwrap());
    sandbox.apply(&layer3("second", 102)).unwrap();
    wait_replicas(sandbox, "grow", 15);
    let after = networked(sandbox, "grow");
    assert!(before.iter().all(|(name, own)| after.get(name) == Some(own)), "no pod is another one now");
    let (old, new) = (pods_on(sandbox, "grow/first"), pods_on(sandbox, "grow/second"));
    assert_eq!((old.len(), new.len()), (12, 3));
    assert_eq!(condition(sandbox, &["cudn", "first"], "NetworkAllocationSucceeded").0, "True");

    let all: Vec<&str> =
        old[..3].iter().chain(&new).map(String::as_str).chain(["other/a", "other/c"]).collect();
    wait_apart(sandbox, &all);
    // J031.
    wait_served_by_both(sandbox, "grow", [&old, &new]);
    ways::out_and_in(sandbox, &old, &new);
    policies_hold_over_both(sandbox, GROW, &old, &new);
    each_network_carries_its_own(sandbox, &old, &new);
    tunnels::carry_their_own(sandbox, &old, &new);
    one_of_them_is_joined(sandbox, &old[0], &new[0]);
    others_come_and_go(sandbox, &old[0], &new[0]);
    restarts_write_nothing(sandbox, &old[0], &new[0]);
    one_that_is_used_stays(sandbox, &old[0], &new[0]);
}

/// Lets friends in and nobody else, or lets everybody out to friends alone.
fn friends_only(namespace: &str, direction: &str) -> String {
    let (types, peers) = if direction == "in" { ("Ingress", "from") } else { ("Egress", "to") };
    let rules = types.to_lowercase();
    format!(
        "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: friends-{direction}, namespace: {namespace}}}
spec:
  podSelector: {{}}
  policyTypes: [{types}]
  {rules}: [{{{peers}: [{{podSelector: {{matchLabels: {{friend: \"yes\"}}}}}}]}}]
"
    )
}

/// J034: only whom a policy allows, whichever network he is on, to come in and to be gone to.
fn policies_hold_over_both(sandbox: &Sandbox, tenant: Tenant, old: &[String], new: &[String]) {
    let namespace = tenant.namespace;
    let friends = [&old[1], &new[1]];
    for (_, name) in friends.iter().filter_map(|friend| friend.split_once('/')) {
        tenant.kubectl(sandbox, &["label", "pod", "--namespace", namespace, name, "friend=yes"], "");
    }
    let pods: Vec<&str> = [&old[0], &old[1], &new[0], &new[1]].map(String::as_str).into();
    let is_friend = |pod: &str| friends.iter().any(|friend| *friend == pod);
    let wait = |what: &str, allowed: &dyn Fn(&str, &str) -> bool| {
        let as_wanted = || {
            let matrix = sandbox.matrix_with(&pods, &[Probe::Http, Probe::Ping])?;
            nothing_wrong(&matrix.wrong(|from, to| from == to || allowed(from, to)), &matrix.to_string())
        };
        sandbox.wait_for(what, as_wanted).unwrap();
    };
    let apply = |direction: &str| {
        let policy = friends_only(namespace, direction);
        tenant.kubectl(sandbox, &["apply", "--server-side", "-f", "-"], &policy);
    };
    let delete = |name: &str| {
        tenant.kubectl(sandbox, &["delete", "networkpolicy", "--namespace", namespace, name], "");
    };
    apply("in");
    wait("friends alone to be let in", &|from, _| is_friend(from));
    apply("out");
    wait("friends alone to be let in, and gone to", &|from, to| is_friend(from) && is_friend(to));
    delete("friends-in");
    wait("friends alone to be gone to", &|_, to| is_friend(to));
    delete("friends-out");
    wait_apart(sandbox, &pods);
}

/// J029: between nodes a packet is in the tunnels of the network that it goes to: it changes networks on the node that it comes from.
fn each_network_carries_its_own(sandbox: &Sandbox, old: &[String], new: &[String]) {
    const SWITCH: &str = "cluster_udn_first_ovn_layer2_switch";
    let node = |pod: &str| node_of(sandbox, pod);
    let mut pairs = old.iter().flat_map(|from| new.iter().map(move |to| (from, to)));
    let (from, to) = pairs.find(|(from, to)| node(from) != node(to)).unwrap();
    let (here, there) = (node(from), node(to));
    let text = |words: &[&str]| sandbox.exec(&here, words).unwrap();
    let name = from.strip_prefix("grow/").unwrap();
    let ports = text(&["ovn-nbctl", "lsp-list", SWITCH]);
    let port = ports.lines().find(|line| line.contains(name)).and_then(|line| line.split(['(', ')']).nth(1));
    let port = port.unwrap_or_else(|| panic!("{name} is not in {ports}"));
    let addresses = text(&["ovn-nbctl", "lsp-get-addresses", port]);
    let (mac, own) = addresses.split_once(' ').unwrap();
    let own = own.split(' ').next().unwrap();
    let target = sandbox.pod(to).addresses().unwrap().remove(0);
    let router = text(&["ovn-nbctl", "get", "Logical_Router_Port", &format!("trtos-{SWITCH}"), "mac"]);
    let router = router.trim_matches('"');
    let flow = format!(
        "inport==\"{port}\" && eth.src=={mac} && eth.dst=={router} && ip4.src=={own} && ip4.dst=={target} && ip.ttl==64 && icmp4.type==8"
    );
    let trace = text(&["ovn-trace", "--ct=new", SWITCH, &flow]);
    let leaves = format!("cluster_udn_second_tstor-{there}");
    assert!(trace.contains(&leaves), "it leaves {here} by the second network's own tunnel:\n{trace}");
    println!("{from} on {here} reaches {to} on {there} by {leaves}");
}

/// A ClusterNetworkConnect of one sibling is a road for that one alone; the siblings' own road is what it was.
fn one_of_them_is_joined(sandbox: &Sandbox, old: &str, new: &str) {
    let roads = sandbox.kubectl(&["get", "cnc", "-o", "name"]).unwrap();
    assert_eq!(roads.trim(), "", "siblings need no ClusterNetworkConnect, and nobody makes one");
    for network in ["second", "other"] {
        sandbox.kubectl(&["label", "cudn", network, "joined=yes"]).unwrap();
    }
    sandbox.apply(&road("half", "joined", 172, "PodNetwork")).unwrap();
    let pods = [old, new, "other/a"];
    let as_wanted = || {
        let matrix = sandbox.matrix_with(&pods, &Probe::ALL)?;
        let wrong = matrix.wrong(|from, to| ![(old, "other/a"), ("other/a", old)].contains(&(from, to)));
        nothing_wrong(&wrong, &matrix.to_string())
    };
    sandbox.wait_for("a road to one of two siblings", as_wanted).unwrap();
    half_says_whom_it_joins(sandbox);
    sandbox.kubectl(&["delete", "cnc", "half", "--timeout=60s"]).unwrap();
    wait_apart(sandbox, &pods);
}

/// It joins the two networks that it selects; of the one with a sibling it says that this one is not joined.
fn half_says_whom_it_joins(sandbox: &Sandbox) {
    let said = || {
        let half = sandbox.get(&["cnc", "half"])?;
        let all = half["status"]["networks"].as_array().cloned().unwrap_or_default();
        let text = |entry: &serde_json::Value| entry["message"].as_str().unwrap_or_default().to_owned();
        let all: BTreeMap<String, (bool, String)> = all
            .iter()
            .filter_map(|entry| {
                Some((entry["name"].as_str()?.to_owned(), (entry["connected"] == true, text(entry))))
            })
            .collect();
        let names: Vec<&str> = all.keys().map(String::as_str).collect();
        let both = names == ["other", "second"] && all.values().all(|(connected, _)| *connected);
        Ok(both.then(|| (all["second"].1.clone(), all["other"].1.clone())))
    };
    let (second, other) = sandbox.wait_for("the connection to say whom it joins", said).unwrap();
    println!("{second}");
    assert!(second.contains("first") && second.contains("are not on this road"), "{second:?}");
    assert_eq!(other, "", "nobody is beside the other tenant's network");
}

/// A sibling of either topology that comes, and goes again, is nothing to the others in either family.
fn others_come_and_go(sandbox: &Sandbox, old: &str, new: &str) {
    for third in [layer3("third", 103), layer2("third", 104)] {
        let lost = lost_between(sandbox, old, new, || {
            sandbox.apply(&third).unwrap();
            let ready =
                || Ok((condition(sandbox, &["cudn", "third"], "NetworkReady").0 == "True").then_some(()));
            sandbox.wait_for("the third network", ready).unwrap();
            std::thread::sleep(std::time::Duration::from_secs(5));
            sandbox.kubectl(&["delete", "cudn", "third", "--timeout=60s"]).unwrap();
            std::thread::sleep(std::time::Duration::from_secs(5));
        });
        assert_eq!(lost, [0, 0], "packets lost to {new} while a sibling came and went:\n{third}");
    }
}

fn written(sandbox: &Sandbox) -> ([usize; 3], String) {
    let path =
        "-o=jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}";
    let all = || {
        let kinds =
            "cudn,udn,zonereports,net-attach-def,pods,endpointslices,configmaps,clusternetworkconnects";
        let objects = sandbox.kubectl(&["get", kinds, "-A", path]).unwrap();
        (NODES.map(|node| transactions(sandbox, node)), objects)
    };
    let quiet = || {
        let before = all();
        std::thread::sleep(std::time::Duration::from_secs(3));
        Ok(Some(before).filter(|before| *before == all()))
    };
    sandbox.wait_for("everything to be written", quiet).unwrap()
}

/// Whoever starts anew finds everything as it is to be; databases are those of the nodes between which packets run.
fn restarts_write_nothing(sandbox: &Sandbox, old: &str, new: &str) {
    let (here, there) = (node_of(sandbox, old), node_of(sandbox, new));
    let roles = NODES.iter().flat_map(|node| [format!("{node}/causeway"), format!("{node}/ovn-northd")]);
    let databases = [format!("{here}/nb-db"), format!("{there}/sb-db"), format!("{here}/ovs-db")];
    let mut before = written(sandbox);
    for unit in ["cluster-manager".to_owned()].into_iter().chain(roles).chain(databases) {
        let lost = lost_between(sandbox, old, new, || {
            kill_and_wait(sandbox, &unit);
            // Long enough for whatever would be written late.
            std::thread::sleep(std::time::Duration::from_secs(3));
        });
        println!("{unit}: {lost:?} packets lost");
        assert_eq!(lost, [0, 0], "packets lost when {unit} started anew");
        let after = written(sandbox);
        assert_eq!(after, before, "what {unit} wrote");
        before = after;
    }
    // Flows outlive ovn-controller; it writes them anew when it starts.
    let lost = lost_between(sandbox, old, new, || {
        kill_and_wait(sandbox, &format!("{here}/ovn-controller"));
        wait_reach(sandbox, old, new);
    });
    println!("{here}/ovn-controller: {lost:?} packets of 10 a second lost");
    assert_eq!(lost, [0, 0], "packets lost with ovn-controller on {here}");
    assert_eq!(written(sandbox).0, before.0);
}

fn one_that_is_used_stays(sandbox: &Sandbox, old: &str, new: &str) {
    let lost = lost_between(sandbox, old, new, || {
        sandbox.kubectl(&["delete", "cudn", "second", "--wait=false"]).unwrap();
        let said = || {
            let (status, message) = condition(sandbox, &["cudn", "second"], "NetworkCreated");
            Ok((status == "False" && message.contains("network in use by the following pods"))
                .then_some(message))
        };
        println!("{}", sandbox.wait_for("the network to say who uses it", said).unwrap());
        std::thread::sleep(std::time::Duration::from_secs(5));
    });
    assert_eq!(lost, [0, 0], "packets lost while a network waits for its pods to go");
    sandbox.kubectl(&["delete", "deployment", "--namespace", "grow", "web"]).unwrap();
    let gone = || Ok(sandbox.kubectl(&["get", "cudn", "second"]).is_err().then_some(()));
    sandbox.wait_for("the second network to be gone", gone).unwrap();
}

/// J037: the first network of a set goes like any other: the road is the same one afterwards, and pods of the others notice nothing.
#[test]
fn the_first_network_goes() {
    let sandbox = shared();
    let labels = "labels: {k8s.ovn.org/primary-user-defined-network: \"\", team: trio}";
    sandbox.apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: trio, {labels}}}\n")).unwrap();
    for (number, name) in ["one", "two", "three"].into_iter().enumerate() {
        let network = layer3(name, 120 + u8::try_from(number).unwrap()).replace("[grow]", "[trio]");
        sandbox.apply(&network).unwrap();
        let ready = || Ok((condition(sandbox, &["cudn", name], "NetworkReady").0 == "True").then_some(()));
        sandbox.wait_for(&format!("network {name}"), ready).unwrap();
    }
    start_asking(sandbox, &[("trio/a", "n1", "two"), ("trio/b", "n2", "three")]);
    wait_apart(sandbox, &["trio/a", "trio/b"]);
    let router = || {
        let names = sandbox.exec("n1", &["ovn-nbctl", "--bare", "--columns=name", "list", "Logical_Router"]);
        names
            .unwrap()
            .lines()
            .filter(|name| name.starts_with("connect-router-_cudn."))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let before = router();
    let lost = lost_between(sandbox, "trio/a", "trio/b", || {
        sandbox.kubectl(&["delete", "cudn", "one", "--timeout=60s"]).unwrap();
        let left = || {
            let ports = sandbox
                .exec("n1", &["ovn-nbctl", "--bare", "--columns=name", "list", "Logical_Router_Port"])?;
            Ok((!ports.contains("cluster_udn_one")).then_some(()))
        };
        sandbox.wait_for("nothing to be left of the first network", left).unwrap();
        std::thread::sleep(std::time::Duration::from_secs(3));
    });
    assert_eq!(
        (router(), lost),
        (before, vec![0, 0]),
        "the road, and packets lost, when the first network went"
    );
}
