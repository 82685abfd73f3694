//! What stands around the nodes of a sandbox: hosts outside, the API server's way into the cluster, addresses of load
//! balancers, DNS.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used)]

use causeway_sandbox::harness::Sandbox;
use causeway_tests::outside::{self, FAR, OUTSIDE};
use causeway_tests::{kill_and_wait, shared};
use serde_json::{Value, json};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// Addresses of the first node.
const FIRST: [&str; 2] = ["172.30.0.11", "fd00:172:30::b"];

/// The servers say who asked, with his port, on both families; who is behind the small MTU is reached too.
#[test]
fn hosts_outside_say_who_asks() {
    let sandbox = shared();
    for (family, own) in FIRST.iter().enumerate() {
        let own = if own.contains(':') { format!("[{own}]:") } else { format!("{own}:") };
        for server in [OUTSIDE[family], FAR[family]] {
            let source = outside::http(sandbox, "n1", server, 8080, "/clientip").unwrap();
            assert!(source.starts_with(&own), "{server} saw {source}");
            let source = outside::udp(sandbox, "n1", server, 8081, "clientip").unwrap();
            assert!(source.starts_with(&own), "{server} saw {source}");
        }
        // More than fits through at once, both ways: the path's MTU is found by what routers say.
        let echo = format!("/echo?msg={}", "x".repeat(6000));
        let answer = outside::http(sandbox, "n1", FAR[family], 8080, &echo).unwrap();
        assert_eq!(answer.len(), 6000);
        let path = sandbox.exec("n1", &["ip", "route", "get", FAR[family]]).unwrap();
        assert!(path.contains("mtu 1280"), "{path}");
    }
}

/// A pod on the host network asks where its node asks.
#[test]
fn names_outside_are_known_to_nodes() {
    let sandbox = shared();
    let pod = r#"apiVersion: v1
kind: Pod
metadata: {name: host, namespace: default}
spec:
  nodeName: n2
  hostNetwork: true
  dnsPolicy: Default
  terminationGracePeriodSeconds: 0
  containers: [{name: tools, image: "localhost/causeway-tools:1", command: [sleep, infinity]}]
"#;
    sandbox.apply(pod).unwrap();
    let host = sandbox.pod("host");
    host.wait_ready().unwrap();
    let found = host.exec(&["getent", "ahosts", "far.outside.test"]).unwrap();
    assert!(FAR.iter().all(|address| found.contains(address)), "{found}");
    assert!(host.exec(&["curl", "-sS", "http://www.outside.test:8080/hostname"]).is_ok());
    let unknown = host.exec(&["curl", "-sS", "http://elsewhere.test"]).unwrap_err().to_string();
    assert!(unknown.contains("Could not resolve host"), "{unknown}");
    sandbox.kubectl(&["delete", "pod", "host", "--timeout=60s"]).unwrap();
}

fn through_the_api_server(sandbox: &Sandbox, path: &str) -> causeway_sandbox::Result<String> {
    let path = format!("/api/v1/namespaces/way/{path}");
    sandbox.kubectl(&["get", "--request-timeout=30s", "--raw", &path])
}

/// The API server is on no node, and still reaches pods on each of them, by their addresses and by a service.
#[test]
fn the_api_server_reaches_pods_and_services() {
    let sandbox = shared();
    let names = NODES.map(|node| (format!("way/on-{node}"), node));
    let pods: Vec<(&str, &str)> = names.iter().map(|(pod, node)| (pod.as_str(), *node)).collect();
    sandbox.start_pods(&pods).unwrap();
    sandbox
        .kubectl(&["expose", "pod", "on-n2", "-n", "way", "--name=web", "--port=80", "--target-port=8080"])
        .unwrap();
    let all_answer = || {
        for node in NODES {
            let name = through_the_api_server(sandbox, &format!("pods/http:on-{node}:8080/proxy/hostname"))?;
            assert_eq!(name, format!("on-{node}"));
        }
        through_the_api_server(sandbox, "services/http:web:80/proxy/hostname").map(Some)
    };
    assert_eq!(sandbox.wait_for("pods behind the API server", all_answer).unwrap(), "on-n2");
    // Whoever asked from the first node is asked from another one.
    sandbox.partition("n1", true).unwrap();
    let name = sandbox.wait_for("a pod while a node is cut off", || {
        through_the_api_server(sandbox, "pods/http:on-n3:8080/proxy/hostname").map(Some)
    });
    assert_eq!(name.unwrap(), "on-n3");
    sandbox.partition("n1", false).unwrap();
    kill_and_wait(sandbox, "cluster-proxy");
    sandbox.wait_for("pods behind a new proxy", all_answer).unwrap();
    sandbox.kubectl(&["delete", "namespace", "way", "--timeout=180s"]).unwrap();
}

/// The socket of the way in is the API server's alone.
#[test]
fn the_way_into_the_cluster_is_closed_to_others() {
    let socket = "/run/causeway/cluster-proxy.sock";
    let seen = shared().exec("control", &["stat", "-c", "%a %U %F", socket]).unwrap();
    assert_eq!(seen, "600 root socket");
}

fn balancer(name: &str, more: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: pool}}, spec: {{type: LoadBalancer, \
         ipFamilyPolicy: PreferDualStack, selector: {{pod: {name}}}, ports: [{{port: 80, targetPort: 8080}}]{more}}}}}"
    )
}

fn ingress(service: &Value) -> Vec<String> {
    let ingress = service["status"]["loadBalancer"]["ingress"].as_array().cloned().unwrap_or_default();
    ingress
        .iter()
        .map(|one| format!("{} {}", one["ip"].as_str().unwrap(), one["ipMode"].as_str().unwrap()))
        .collect()
}

fn wait_ingress(sandbox: &Sandbox, name: &str, wanted: &[&str]) {
    let found = || {
        let found = ingress(&sandbox.get(&["service", "-n", "pool", name])?);
        Ok((found == wanted).then_some(()))
    };
    sandbox.wait_for(&format!("{name} to have {wanted:?}"), found).unwrap();
}

/// Waits until one of these nodes answers `outside` for an address, and no other.
fn wait_announced(sandbox: &Sandbox, address: &str, nodes: &[&str]) -> String {
    let mac = |node: &str| -> causeway_sandbox::Result<String> {
        let text = sandbox.exec(node, &["ovs-vsctl", "get", "interface", "br-ex", "mac_in_use"])?;
        Ok(text.trim_matches('"').to_owned())
    };
    let answers = || {
        let found = outside::neighbour(sandbox, "outside", address);
        let macs =
            nodes.iter().map(|node| Ok((mac(node)?, *node))).collect::<causeway_sandbox::Result<Vec<_>>>()?;
        Ok(macs.into_iter().find(|(mac, _)| Some(mac) == found.as_ref()).map(|(_, node)| node.to_owned()))
    };
    sandbox.wait_for(&format!("{nodes:?} to answer for {address}"), answers).unwrap()
}

/// Waits until a pod answers `outside` at an address.
fn wait_served(sandbox: &Sandbox, address: &str, pod: &str) {
    let answers = || Ok((outside::http(sandbox, "outside", address, 80, "/hostname")? == pod).then_some(()));
    sandbox.wait_for(&format!("{pod} to answer at {address}"), answers).unwrap();
}

/// Services of type LoadBalancer have addresses of the underlay that one node answers for; they keep them, and give them back.
#[test]
fn load_balancers_have_addresses() {
    let sandbox = shared();
    sandbox.start_pods(&[("pool/a", "n1"), ("pool/b", "n2")]).unwrap();
    sandbox.apply(&balancer("a", "")).unwrap();
    let first = ["172.30.0.200 VIP", "fd00:172:30::c8 VIP"];
    wait_ingress(sandbox, "a", &first);
    let certain = ", loadBalancerIP: 172.30.0.230, externalTrafficPolicy: Local";
    sandbox.apply(&balancer("b", certain)).unwrap();
    wait_ingress(sandbox, "b", &["172.30.0.230 VIP", "fd00:172:30::e6 VIP"]);
    for address in ["172.30.0.230", "fd00:172:30::e6"] {
        assert_eq!(wait_announced(sandbox, address, &NODES), "n2", "only there is an endpoint");
    }
    for (service, addresses) in
        [("a", ["172.30.0.200", "fd00:172:30::c8"]), ("b", ["172.30.0.230", "fd00:172:30::e6"])]
    {
        addresses.iter().for_each(|address| wait_served(sandbox, address, service));
    }
    // Who is told nothing of other nodes sees who asks.
    let source = outside::http(sandbox, "outside", "172.30.0.230", 80, "/clientip").unwrap();
    assert!(source.starts_with("172.30.0.2:"), "{source}");
    sandbox.apply(&balancer("taken", ", loadBalancerIP: 172.30.0.230")).unwrap();
    let told = || {
        let events = sandbox.kubectl(&[
            "get",
            "events",
            "-n",
            "pool",
            "--field-selector=involvedObject.name=taken",
        ])?;
        Ok(events.contains("belongs to the service pool/b").then_some(()))
    };
    sandbox.wait_for("an event about the address", told).unwrap();
    // It remembers nothing but what stands in the status.
    kill_and_wait(sandbox, "pool");
    sandbox.kubectl(&["delete", "service", "-n", "pool", "taken"]).unwrap();
    sandbox.apply(&balancer("c", "")).unwrap();
    wait_ingress(sandbox, "c", &["172.30.0.201 VIP", "fd00:172:30::c9 VIP"]);
    wait_ingress(sandbox, "a", &first);
    // The node of an address is cut off: another one answers.
    let before = wait_announced(sandbox, "172.30.0.200", &NODES);
    sandbox.partition(&before, true).unwrap();
    let others: Vec<&str> = NODES.into_iter().filter(|node| *node != before).collect();
    for address in ["172.30.0.200", "fd00:172:30::c8"] {
        wait_announced(sandbox, address, &others);
    }
    sandbox.partition(&before, false).unwrap();
    wait_served(sandbox, "172.30.0.200", "a");
    sandbox
        .kubectl(&["patch", "service", "-n", "pool", "a", "-p", r#"{"spec":{"type":"ClusterIP"}}"#])
        .unwrap();
    wait_ingress(sandbox, "a", &[]);
    sandbox.kubectl(&["delete", "namespace", "pool", "--timeout=180s"]).unwrap();
    nothing_left(sandbox);
}

/// No node answers for anybody any more, and no way is left.
fn nothing_left(sandbox: &Sandbox) {
    let left = || {
        let mut left = String::new();
        for node in NODES {
            for words in [
                "ip neigh show proxy",
                "ip -6 neigh show proxy",
                "ip route show table 88",
                "ip rule show pref 30088",
            ] {
                // A table that was never used is not there.
                left += &sandbox.exec(node, &words.split(' ').collect::<Vec<_>>()).unwrap_or_default();
            }
        }
        Ok(left.is_empty().then_some(()))
    };
    sandbox.wait_for("nothing to be left of the addresses", left).unwrap();
}

/// Names of services of every kind, of pods behind them and of hosts outside, from the default network and from an island.
#[test]
fn names_are_known_in_every_network() {
    let sandbox = shared();
    sandbox.apply(include_str!("manifests/names.yaml")).unwrap();
    sandbox.start_pods(&[("names/a", "n1"), ("names/b", "n2"), ("isle/a", "n1"), ("isle/b", "n3")]).unwrap();
    let found = |pod: &str, name: &str| -> causeway_sandbox::Result<Vec<String>> {
        let lines = sandbox.pod(pod).exec(&["getent", "ahosts", name])?;
        let mut found: Vec<String> =
            lines.lines().filter_map(|line| line.split(' ').next().map(str::to_owned)).collect();
        found.sort();
        found.dedup();
        Ok(found)
    };
    let service = |namespace: &str| {
        let service = sandbox.get(&["service", "-n", namespace, "web"]).unwrap();
        let addresses = service["spec"]["clusterIPs"].as_array().unwrap().clone();
        addresses.iter().map(|address| address.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let outside = OUTSIDE.map(str::to_owned).to_vec();
    let mut all = vec![
        ("web.names".to_owned(), service("names")),
        ("web.isle.svc.cluster.local".to_owned(), service("isle")),
        ("kubernetes.default".to_owned(), vec!["10.96.0.1".to_owned()]),
        ("elsewhere.names".to_owned(), outside.clone()),
        ("outside.test".to_owned(), outside),
    ];
    // Of a headless service: the pods themselves, in the family that it has.
    let pods = ["names/a", "names/b"].map(|pod| sandbox.pod(pod).addresses().unwrap()[0].clone());
    all.push(("each.names".to_owned(), pods.to_vec()));
    for (_, addresses) in &mut all {
        addresses.sort();
    }
    for pod in ["names/a", "names/b", "isle/a", "isle/b"] {
        for (name, wanted) in &all {
            let same = || {
                let found = found(pod, name)?;
                let said = format!("{pod}: {name} is {found:?}, not {wanted:?}");
                if found == *wanted { Ok(Some(())) } else { Err(causeway_sandbox::Error::Request(said)) }
            };
            sandbox.wait_for(&format!("{pod} to know {name}"), same).unwrap();
        }
        let page =
            sandbox.pod(pod).exec(&["curl", "-sS", "-m", "4", "http://far.outside.test:8080/hostname"]);
        assert!(page.is_ok(), "{pod}: {page:?}");
        let unknown = sandbox.pod(pod).exec(&["getent", "ahosts", "nobody.names"]);
        assert!(unknown.is_err(), "{pod} knows {unknown:?}");
    }
    let own = sandbox.pod("isle/b").exec(&["curl", "-sS", "-m", "4", "http://web/hostname"]).unwrap();
    assert_eq!(own, "a");
    sandbox.kubectl(&["delete", "namespace", "names", "isle", "--timeout=180s"]).unwrap();
}

/// A server with a certificate of the sandbox's own authority, as a webhook and as an aggregated API: the API server dials
/// its cluster address.
#[test]
fn the_api_server_calls_services() {
    let sandbox = shared();
    sandbox.kubectl(&["create", "namespace", "hook"]).unwrap();
    let [server, callers] = server_with_certificate();
    // A namespace takes no pods before its service account is there.
    sandbox.wait_for("the server to be accepted", || sandbox.apply(&server).map(Some)).unwrap();
    sandbox.pod("hook/server").wait_ready().unwrap();
    sandbox.apply(&callers).unwrap();
    let denied = || match sandbox.kubectl(&["create", "configmap", "-n", "hook", "refused"]) {
        Err(error) if error.to_string().contains("denied the request") => Ok(Some(())),
        other => Err(causeway_sandbox::Error::Request(format!("{other:?}"))),
    };
    sandbox.wait_for("the webhook to refuse", denied).unwrap();
    let available = ["wait", "apiservice/v1.hook.test", "--for=condition=Available", "--timeout=120s"];
    sandbox.kubectl(&available).unwrap();
    let answer = sandbox.kubectl(&["get", "--raw", "/apis/hook.test/v1/anything"]).unwrap();
    assert!(answer.starts_with("NOW: "), "{answer}");
    sandbox.kubectl(&["delete", "apiservice", "v1.hook.test"]).unwrap();
    sandbox.kubectl(&["delete", "validatingwebhookconfiguration", "hook"]).unwrap();
    sandbox.kubectl(&["delete", "namespace", "hook", "--timeout=180s"]).unwrap();
}

/// A pod that serves HTTPS with its service, and those whom the API server is to call by it.
fn server_with_certificate() -> [String; 2] {
    let name = "server.hook.svc";
    let signed = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let encoded = |text: String| base64::Engine::encode(&base64::prelude::BASE64_STANDARD, text);
    let (certificate, key) = (encoded(signed.cert.pem()), encoded(signed.signing_key.serialize_pem()));
    let files = ["--tls-cert-file=/tls/tls.crt", "--tls-private-key-file=/tls/tls.key"];
    let container = |command: &str, port: &str| {
        let args: Vec<&str> = [command, port].into_iter().chain(files).collect();
        json!({
            "name": command, "image": "localhost/causeway-tools:1", "command": ["/agnhost"], "args": args,
            "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
        })
    };
    let meta = |name: &str| json!({"name": name, "namespace": "hook", "labels": {"app": "hook"}});
    let server = [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta("tls"), "data": {"tls.crt": certificate, "tls.key": key}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta("server"), "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [container("webhook", "--port=8444"), container("netexec", "--http-port=8443")],
            "volumes": [{"name": "tls", "secret": {"secretName": "tls"}}],
        }}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": meta("server"), "spec": {
            "selector": {"app": "hook"},
            "ports": [
                {"name": "webhook", "port": 443, "targetPort": 8444},
                {"name": "api", "port": 444, "targetPort": 8443},
            ],
        }}),
    ];
    let service =
        |port: u16, path: &str| json!({"name": "server", "namespace": "hook", "port": port, "path": path});
    let callers = [
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "hook"}, "webhooks": [{
            "name": "refuse.hook.test",
            "clientConfig": {"service": service(443, "/always-deny"), "caBundle": certificate},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
            "objectSelector": {}, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "hook"}},
        }]}),
        json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.hook.test"}, "spec": {
            "group": "hook.test", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10,
            "service": {"name": "server", "namespace": "hook", "port": 444}, "caBundle": certificate,
        }}),
    ];
    let list = |items: Value| json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    [list(json!(server)), list(json!(callers))]
}
