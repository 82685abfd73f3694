//! One cluster for many tests: what people do with a sandbox.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use causeway_sandbox::harness::Sandbox;
use causeway_tests::shared;
use causeway_tests::siblings::pods_on;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

const DEPLOYMENT: &str = include_str!("manifests/deployment.yaml");

#[test]
fn a_deployment_with_probes_rolls_out_restarts_and_goes() {
    let sandbox = shared();
    sandbox.apply(DEPLOYMENT).unwrap();
    sandbox.kubectl(&["rollout", "status", "deployment/web", "--timeout=120s"]).unwrap();
    sandbox.kubectl(&["rollout", "restart", "deployment/web"]).unwrap();
    sandbox.kubectl(&["rollout", "status", "deployment/web", "--timeout=120s"]).unwrap();
    sandbox.kubectl(&["delete", "deployment", "web", "--timeout=120s"]).unwrap();
    sandbox
        .wait_for("the pods to go", || {
            let pods = sandbox.get(&["pods", "-l", "app=web"])?;
            Ok(pods["items"].as_array().filter(|items| items.is_empty()).map(drop))
        })
        .unwrap();
}

#[test]
fn a_container_that_is_not_live_is_started_anew() {
    let sandbox = shared();
    // The first process of a container cannot be stopped from inside, so the server is its child.
    let shell =
        "command: [sh, -c, 'ln -s /agnhost /tmp/stopme; /tmp/stopme netexec --http-port=8080; exit 0']";
    let live = DEPLOYMENT
        .replace("name: web", "name: live")
        .replace("app: web", "app: live")
        .replace("readinessProbe:", &format!("{shell}\n        readinessProbe:"));
    sandbox.apply(&live).unwrap();
    sandbox.kubectl(&["rollout", "status", "deployment/live", "--timeout=120s"]).unwrap();
    let pods = sandbox.get(&["pods", "-l", "app=live"]).unwrap();
    let pod = sandbox.pod(pods["items"][0]["metadata"]["name"].as_str().unwrap());
    // A stopped server is still there: only the liveness probe can tell.
    pod.exec(&["sh", "-c", "kill -STOP $(pgrep -o stopme)"]).unwrap();
    sandbox
        .wait_for("a restart of the container", || {
            let object = pod.object()?;
            Ok(object["status"]["containerStatuses"][0]["restartCount"].as_u64().filter(|count| *count > 0))
        })
        .unwrap();
    sandbox.kubectl(&["delete", "deployment", "live", "--timeout=120s"]).unwrap();
}

#[test]
fn everybody_reaches_everybody_on_both_families() {
    let sandbox = shared();
    let names: Vec<String> = (0..20).map(|i| format!("mesh/p{i}")).collect();
    let nodes = ["n1", "n2", "n3"];
    let placed = names.iter().zip(nodes.iter().cycle()).map(|(pod, node)| (pod.as_str(), *node));
    sandbox.start_pods(&placed.collect::<Vec<_>>()).unwrap();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // The first packets of a tunnel may be lost while it learns its neighbour.
    sandbox.matrix(&names).unwrap();
    let start = Instant::now();
    let matrix = sandbox.matrix(&names).unwrap();
    println!("{matrix}\n20 pods in {:.1} s", start.elapsed().as_secs_f64());
    assert!(matrix.is_full(), "{matrix}");
    sandbox.kubectl(&["delete", "namespace", "mesh", "--timeout=180s"]).unwrap();
}

/// Whatever its tag and its policy, an image that was loaded is not asked for elsewhere.
#[test]
fn a_loaded_image_needs_no_registry() {
    let sandbox = shared();
    let latest = "--image=localhost/causeway-tools:latest";
    sandbox.kubectl(&["run", "latest", latest]).unwrap();
    sandbox.kubectl(&["run", "always", latest, "--image-pull-policy=Always"]).unwrap();
    for pod in ["latest", "always"] {
        sandbox.pod(pod).wait_ready().unwrap();
    }
    sandbox.kubectl(&["delete", "pod", "latest", "always", "--timeout=120s"]).unwrap();
}

#[test]
fn a_pod_can_be_watched_described_and_read() {
    let sandbox = shared();
    sandbox.start_pods(&[("look/a", "n2")]).unwrap();
    sandbox.pod("look/a").exec(&["curl", "-s", "localhost:8080/echo?msg=found-me"]).unwrap();
    assert!(sandbox.kubectl(&["logs", "-n", "look", "a"]).unwrap().contains("found-me"));
    assert!(sandbox.kubectl(&["describe", "pod", "-n", "look", "a"]).unwrap().contains("  Started  "));
    sandbox.kubectl(&["delete", "namespace", "look", "--timeout=180s"]).unwrap();
}

/// A watch that was there before the change sees it.
#[test]
fn kubectl_watches_waits_and_forwards() {
    let sandbox = shared();
    sandbox.start_pods(&[("see/a", "n1")]).unwrap();
    let watch = sandbox.kubectl_in_background(&["get", "pods", "-n", "see", "-w", "-o", "name"]).unwrap();
    watch.wait_for_line("pod/a").unwrap();
    sandbox.start_pods(&[("see/b", "n3")]).unwrap();
    watch.wait_for_line("pod/b").unwrap();
    sandbox
        .kubectl(&["wait", "-n", "see", "--for=condition=Ready", "pod/a", "pod/b", "--timeout=60s"])
        .unwrap();

    let forward = sandbox.kubectl_in_background(&["port-forward", "-n", "see", "pod/b", ":8080"]).unwrap();
    let line = forward.wait_for_line("Forwarding from 127.0.0.1:").unwrap();
    let port = line.split([':', ' ']).find_map(|word| word.parse::<u16>().ok()).unwrap();
    assert_eq!(http_get(port, "/hostname"), "b");
    sandbox.kubectl(&["delete", "namespace", "see", "--timeout=180s"]).unwrap();
}

fn http_get(port: u16, path: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.rsplit("\r\n").next().unwrap().to_owned()
}

/// Two managers of one field: the second one is told about the first.
#[test]
fn server_side_apply_knows_who_owns_a_field() {
    let sandbox = shared();
    let map = |value: &str| {
        format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: owned, namespace: default}}, data: {{k: {value}}}}}"
        )
    };
    let apply = |manager: &str, value: &str| {
        let manager = format!("--field-manager={manager}");
        sandbox.kubectl_with(&["apply", "--server-side", &manager, "-f", "-"], &map(value))
    };
    apply("first", "a").unwrap();
    let refused = apply("second", "b").unwrap_err().to_string();
    assert!(refused.contains(r#"conflict with "first""#), "{refused}");
    sandbox.kubectl(&["delete", "configmap", "owned"]).unwrap();
}

#[test]
fn roles_may_do_what_they_need_and_no_more() {
    let sandbox = shared();
    let may = |identity: &str, what: &[&str]| {
        let config = sandbox.folder().path(format!("certificates/{identity}.kubeconfig"));
        let config =
            format!("--kubeconfig=/run/causeway/certificates/{}", config.file_name().unwrap().display());
        let words = [&["kubectl", config.as_str(), "auth", "can-i"], what].concat();
        sandbox.exec("control", &words).is_ok()
    };
    assert!(may("cluster-manager", &["patch", "clusternetworkconnects.k8s.ovn.org", "--subresource=status"]));
    assert!(!may("cluster-manager", &["delete", "pods"]));
    assert!(may("n1-causeway", &["create", "zonereports.k8s.ovn.org"]));
    assert!(!may("n1-causeway", &["patch", "clusternetworkconnects.k8s.ovn.org"]));
    assert!(may("admin", &["delete", "pods"]));
}

/// The page that lists the examples names each file, so that none is without an end.
#[test]
fn every_example_is_listed() {
    fn files(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { files(&path, found) } else { found.push(path) }
        }
    }
    let page = std::fs::read_to_string(examples().join("README.md")).unwrap();
    let mut found = Vec::new();
    files(&examples(), &mut found);
    let names = found.iter().map(|path| path.strip_prefix(examples()).unwrap().display().to_string());
    let missing: Vec<String> =
        names.filter(|name| name.ends_with("yaml") && !page.contains(&format!("`{name}`"))).collect();
    assert_eq!(missing, Vec::<String>::new());
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

fn wait_networks(sandbox: &Sandbox) {
    for kind in ["udn", "cudn"] {
        let words = ["wait", kind, "-A", "--all", "--for=condition=NetworkReady", "--timeout=60s"];
        let words: Vec<&str> = words.into_iter().filter(|word| kind == "udn" || *word != "-A").collect();
        sandbox.kubectl(&words).unwrap();
    }
}

/// The examples without pods reach the end that their page states.
#[test]
fn our_examples_reach_their_end() {
    let sandbox = shared();
    let folder = examples();
    let folder = folder.to_str().unwrap();
    sandbox.kubectl(&["apply", "--server-side", "-f", folder]).unwrap();
    wait_networks(sandbox);
    for (connect, networks) in [("colored-enterprise", 4), ("backends", 2)] {
        wait_connected(sandbox, connect, networks);
    }
    sandbox
        .wait_for("the network written by hand", || {
            let nad = sandbox.get(&["net-attach-def", "-n", "by-hand", "l3-network"])?;
            Ok(nad["metadata"]["annotations"]["k8s.ovn.org/network-id"].as_str().map(drop))
        })
        .unwrap();
    let table = sandbox.kubectl(&["get", "cnc"]).unwrap();
    assert!(table.contains("NETWORKS") && table.contains("4/4"), "{table}");
    sandbox.kubectl(&["delete", "-f", folder, "--timeout=180s"]).unwrap();
    a_network_on_the_fabric_says_what_nodes_lack(sandbox);
}

/// Nodes without an address of the VTEP cannot carry a network on the fabric: the VTEP and the network say so, and name them.
fn a_network_on_the_fabric_says_what_nodes_lack(sandbox: &Sandbox) {
    let folder = examples().join("fabric");
    let folder = folder.to_str().unwrap();
    sandbox.kubectl(&["apply", "--server-side", "-f", folder]).unwrap();
    for (object, condition, reason) in [
        (["vtep", "fabric"], "Accepted", "AllocationFailed"),
        (["cudn", "shop"], "NetworkReady", "NetworkRenderingFailed"),
    ] {
        let said = || {
            let (status, message) = causeway_tests::condition(sandbox, &object, condition);
            let names = ["n1", "n2"].iter().all(|node| message.contains(node));
            let object = sandbox.get(&object)?.to_string();
            Ok((status == "False" && names && object.contains(reason)).then_some(message))
        };
        println!("{}: {}", object.join(" "), sandbox.wait_for(&object.join(" "), said).unwrap());
    }
    sandbox.kubectl(&["delete", "-f", folder, "--timeout=180s"]).unwrap();
}

/// The examples with pods: networks are ready, pods run.
#[test]
fn our_examples_with_pods_work() {
    let sandbox = shared();
    let examples = examples();
    let stories =
        [("shop", 2), ("backends-of-front", 2), ("project", 2), ("to-machines", 3), ("segments", 2)];
    for (name, roads) in [
        ("networks", &[][..]),
        ("islands", &[("blue-green", 2)]),
        ("connect", &[("orange-purple", 2)]),
        ("stories", &stories),
    ] {
        let folder = examples.join(name);
        let folder = folder.to_str().unwrap();
        // A namespace takes no pods before its service account is there.
        sandbox
            .wait_for("pods to be accepted", || {
                sandbox.kubectl(&["apply", "--server-side", "-f", folder]).map(Some)
            })
            .unwrap();
        let unready = || {
            let pods = sandbox.get(&["pods", "-A"])?;
            let ready = |pod: &serde_json::Value| {
                let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
                conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
            };
            let pods = pods["items"].as_array().cloned().unwrap_or_default();
            Ok((pods.len() > 1 && pods.iter().all(ready)).then_some(()))
        };
        sandbox.wait_for(&format!("the pods of {folder}"), unready).unwrap();
        wait_networks(sandbox);
        roads.iter().for_each(|(name, networks)| wait_connected(sandbox, name, *networks));
        if name == "networks" {
            what_the_networks_of_examples_show(sandbox);
        }
        sandbox.kubectl(&["delete", "-f", folder, "--timeout=180s"]).unwrap();
    }
}

/// Waits until a road connects so many networks, and all that it selects.
fn wait_connected(sandbox: &Sandbox, connect: &str, networks: usize) {
    let whole = || {
        let status = sandbox.get(&["cnc", connect])?["status"].clone();
        let selected = status["networks"].as_array().cloned().unwrap_or_default();
        let connected = selected.iter().filter(|network| network["connected"] == true).count();
        let all = format!("{networks}/{networks}");
        let done = status["status"] == "Success"
            && (connected, selected.len()) == (networks, networks)
            && status["connectedNetworks"] == all;
        Ok(done.then_some(()))
    };
    sandbox.wait_for(&format!("{connect} to connect {networks} networks"), whole).unwrap();
}

/// A pod has the address and the MAC of its own choice. Of a namespace with two networks the first is full with four pods; the fifth
/// is on the second, and they reach each other.
fn what_the_networks_of_examples_show(sandbox: &Sandbox) {
    let server = sandbox.pod("blue/server").object().unwrap();
    let given = server["metadata"]["annotations"]["k8s.ovn.org/pod-networks"].as_str().unwrap();
    let given: serde_json::Value = serde_json::from_str(given).unwrap();
    let own = &given["blue/net"];
    assert_eq!(
        (&own["ip_addresses"][0], &own["mac_address"]),
        (&"10.100.0.80/16".into(), &"02:00:00:00:00:50".into())
    );
    let on = |network: &str| pods_on(sandbox, &format!("growing/{network}"));
    let (first, second) = (on("growing"), on("growing-more"));
    assert_eq!((first.len(), second.len()), (4, 1), "{first:?} {second:?}");
    causeway_tests::wait_reach(sandbox, &first[0], &second[0]);
    causeway_tests::wait_reach(sandbox, &second[0], &first[3]);
}

/// The examples of an administrator's policies are accepted as they are, each in both of its forms.
#[test]
fn our_examples_of_policies_are_accepted() {
    let sandbox = shared();
    let folder = examples().join("policies");
    let kinds = ["clusternetworkpolicy", "adminnetworkpolicy", "baselineadminnetworkpolicy"];
    for (file, wanted) in [
        ("cluster.yaml", &[(kinds[0], "guarded"), (kinds[0], "careful")][..]),
        ("admin.yaml", &[(kinds[1], "guarded-before"), (kinds[2], "default")]),
    ] {
        let file = folder.join(file);
        let file = file.to_str().unwrap();
        sandbox.kubectl(&["apply", "--server-side", "-f", file]).unwrap();
        for (kind, name) in wanted {
            let accepted = || {
                let (status, message) = causeway_tests::condition(sandbox, &[kind, name], "Accepted");
                Ok((status == "True").then_some(message))
            };
            let said = sandbox.wait_for(&format!("{kind} {name} to be accepted"), accepted).unwrap();
            println!("{kind} {name}: {said}");
            assert!(said.starts_with("The policy is carried out as it is written"), "{said}");
        }
        sandbox.kubectl(&["delete", "-f", file, "--timeout=120s"]).unwrap();
    }
}

/// What other programs read of a node: its addresses where tunnels begin, and all that it has; also one that comes later.
#[test]
fn a_node_says_which_addresses_it_has() {
    let sandbox = shared();
    let said = |key: &str| -> serde_json::Value {
        let node = sandbox.get(&["node", "n1"]).unwrap();
        let text = node["metadata"]["annotations"][format!("k8s.ovn.org/{key}")].as_str().unwrap();
        serde_json::from_str(text).unwrap()
    };
    let primary = said("node-primary-ifaddr");
    let all = || -> BTreeSet<String> { serde_json::from_value(said("host-cidrs")).unwrap() };
    let device = sandbox.exec("n1", &["ip", "-json", "address", "show", "dev", "br-ex"]).unwrap();
    let device: serde_json::Value = serde_json::from_str(&device).unwrap();
    let nets: Vec<String> = device[0]["addr_info"]
        .as_array()
        .unwrap()
        .iter()
        .map(|info| format!("{}/{}", info["local"].as_str().unwrap(), info["prefixlen"]))
        .collect();
    let node = sandbox.get(&["node", "n1"]).unwrap();
    let addresses = node["status"]["addresses"].as_array().unwrap().iter();
    let internal: Vec<&str> =
        addresses.filter(|a| a["type"] == "InternalIP").map(|a| a["address"].as_str().unwrap()).collect();
    assert_eq!(internal.len(), 2, "both families: {node:#}");
    for (family, is_its) in [("ipv4", false), ("ipv6", true)] {
        let address = internal.iter().find(|address| address.contains(':') == is_its).unwrap();
        let net = nets.iter().find(|net| net.split('/').next() == Some(*address)).unwrap();
        assert_eq!(primary[family], *net, "{primary}");
        assert!(all().contains(net), "{net} of {:?}", all());
    }
    let told = |there: bool| {
        sandbox
            .wait_for("the other address to be told", || {
                Ok((all().contains("192.0.2.77/32") == there).then_some(()))
            })
            .unwrap();
    };
    sandbox.exec("n1", &["ip", "address", "add", "192.0.2.77/32", "dev", "br-ex"]).unwrap();
    told(true);
    sandbox.exec("n1", &["ip", "address", "del", "192.0.2.77/32", "dev", "br-ex"]).unwrap();
    told(false);
    assert_eq!(said("node-primary-ifaddr"), primary);
}

/// A network whose packets do not fit into a node's tunnels says so, with the node; it heals when the node's MTU grows.
#[test]
fn an_mtu_that_no_tunnel_carries_is_said() {
    let sandbox = shared();
    let network = "{apiVersion: v1, kind: Namespace, metadata: {name: wide, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
---
{apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, metadata: {name: net, namespace: wide},
 spec: {topology: Layer2, layer2: {role: Primary, mtu: 1460, subnets: [10.77.0.0/16]}}}";
    sandbox.apply(network).unwrap();
    let ready = |wanted: &str| {
        sandbox
            .wait_for(wanted, || {
                let status = sandbox.get(&["udn", "-n", "wide", "net"])?["status"].clone();
                let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
                let ready = conditions.into_iter().find(|condition| condition["type"] == "NetworkReady");
                Ok(ready
                    .filter(|ready| format!("{} {}", ready["reason"], ready["message"]).contains(wanted))
                    .map(drop))
            })
            .unwrap();
    };
    // Tunnels have IPv4 or IPv6 addresses: 1442 or 1422.
    ready("\"MTUTooLarge\"");
    ready("n1 (14");
    let underlay = |node: &str, mtu: &str| {
        let request = format!("mtu_request={mtu}");
        sandbox.exec(node, &["ovs-vsctl", "set", "interface", "br-ex", &request]).unwrap();
    };
    ["n1", "n2", "n3"].into_iter().for_each(|node| underlay(node, "1600"));
    ready("NetworkAttachmentDefinitionReady");
    ["n1", "n2", "n3"].into_iter().for_each(|node| underlay(node, "1500"));
    ready("MTUTooLarge");
    sandbox.kubectl(&["delete", "namespace", "wide", "--timeout=180s"]).unwrap();
}

/// What a role serves, as `name kind`.
fn served(sandbox: &Sandbox, place: &str, port: u16) -> BTreeSet<String> {
    let ask =
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3");
    let text = sandbox.exec(place, &["bash", "-c", &ask]).unwrap();
    let metric = |line: &str| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        let ending = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        Some(format!("{name}{ending} {kind}"))
    };
    text.lines().filter_map(metric).collect()
}

/// What the page says of a role: what is always there, and what may be missing.
fn documented(page: &str, role: &str) -> [BTreeSet<String>; 2] {
    let sections =
        page.split("\n## ").filter(|section| section.starts_with("Both roles") || section.starts_with(role));
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let (name, kind) = (cells.next()?.trim_end_matches('`'), cells.next()?);
        Some((line.contains("missing while"), format!("{name} {kind}")))
    };
    let rows: Vec<_> = sections.flat_map(|section| section.lines().filter_map(row)).collect();
    let those = |missing: bool| {
        rows.iter().filter(|(may, _)| *may == missing).map(|(_, metric)| metric.clone()).collect()
    };
    [those(false), those(true)]
}

/// docs/metrics.md names what the roles serve, and nothing else.
#[test]
fn the_page_about_metrics_is_true() {
    let sandbox = shared();
    sandbox.start_pods(&[("metrics/a", "n1")]).unwrap();
    let page = include_str!("../../docs/metrics.md");
    for (role, place, port) in [("The cluster manager", "control", 9411), ("The node role", "n1", 9410)] {
        let [wanted, passing] = documented(page, role);
        assert!(wanted.len() > 10, "{wanted:?}");
        let there = || &served(sandbox, place, port) - &passing;
        let same = sandbox.wait_for(&format!("{role} to serve what the page says"), || {
            Ok((there() == wanted).then_some(()))
        });
        assert!(same.is_ok(), "{role}: {:?}", wanted.symmetric_difference(&there()).collect::<Vec<_>>());
    }
    sandbox.kubectl(&["delete", "namespace", "metrics", "--timeout=180s"]).unwrap();
}

/// The command line finds the sandbox, and what it proposes runs as it is printed.
#[test]
fn the_command_line_knows_its_sandboxes() {
    let sandbox = shared();
    let program = causeway_sandbox::harness::program().unwrap();
    let name = sandbox.folder().root().file_name().unwrap().to_str().unwrap().to_owned();
    let causeway = |words: &[&str]| {
        let output = std::process::Command::new(&program).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(causeway(&["sandbox", "list"]).contains(&name));
    assert!(causeway(&["sandbox", "status", "--all"]).contains(&format!("Sandbox {name}: running")));
    let again = causeway(&["sandbox", "up", "--name", &name, "--nodes", "1"]);
    assert!(again.contains("has 3 nodes and keeps them"), "{again}");
    let proposed: Vec<&str> = again.split_once("Try:\n").unwrap().1.lines().map(str::trim).collect();
    // All but the last, which removes the sandbox.
    let script = format!("set -e\n{}\n", proposed[..proposed.len() - 1].join("\n"));
    let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(proposed.last().unwrap().ends_with("sandbox down"));
    sandbox.kubectl(&["delete", "pod", "a", "--timeout=120s"]).unwrap();
}

/// docs/limits.md: multicast reaches the sender's switch, and never another network.
#[test]
fn multicast_stays_in_its_network() {
    let sandbox = shared();
    sandbox.apply(include_str!("manifests/multicast.yaml")).unwrap();
    let namespaces = ["cast2", "cast3", "cast-default"];
    let places = [("a", "n1"), ("b", "n2"), ("c", "n1")];
    let pods: Vec<(String, &str)> =
        namespaces.iter().flat_map(|ns| places.map(|(pod, node)| (format!("{ns}/{pod}"), node))).collect();
    sandbox.start_pods(&pods.iter().map(|(pod, node)| (pod.as_str(), *node)).collect::<Vec<_>>()).unwrap();
    for (pod, _) in &pods {
        let listen = "timeout 120 tcpdump --immediate-mode -l -nnA -p -Z root -i any udp port 5007 >/tmp/heard 2>/tmp/said </dev/null &";
        sandbox.pod(pod).exec(&["sh", "-c", listen]).unwrap();
        let listens = || Ok(sandbox.pod(pod).exec(&["grep", "listening", "/tmp/said"]).ok());
        sandbox.wait_for(&format!("{pod} to listen"), listens).unwrap();
    }
    let send = |ns: &str| {
        let words = format!("echo from-{ns} | nc -u -w 1 239.1.2.3 5007");
        sandbox.pod(&format!("{ns}/a")).exec(&["sh", "-c", &words]).unwrap();
    };
    let heard = |pod: &str| sandbox.pod(pod).exec(&["cat", "/tmp/heard"]).unwrap();
    // On the same node all of it arrives, so what is not elsewhere then is not on its way.
    for (ns, far) in [("cast2", true), ("cast3", false), ("cast-default", false)] {
        let mine = format!("from-{ns}");
        sandbox
            .wait_for(&format!("multicast in {ns}"), || {
                send(ns);
                let arrived = heard(&format!("{ns}/c")).contains(&mine)
                    && (!far || heard(&format!("{ns}/b")).contains(&mine));
                Ok(arrived.then_some(()))
            })
            .unwrap();
    }
    for (pod, _) in &pods {
        let own = pod.split('/').next().unwrap();
        let foreign = |ns: &&&str| **ns != own && heard(pod).contains(&format!("from-{ns}\n"));
        assert_eq!(namespaces.iter().find(foreign), None, "{pod} hears another network");
    }
    for pod in ["cast3/b", "cast-default/b"] {
        assert!(!heard(pod).contains("from-"), "{pod} is on another node");
    }
    sandbox.kubectl(&["delete", "namespace", "cast2", "cast3", "cast-default", "--timeout=180s"]).unwrap();
}
