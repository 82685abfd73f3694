//! Policies and services: a pod that reaches itself, endpoints behind addresses, the API server and DNS, probes, pods of the host.

use std::collections::BTreeSet;

use causeway_sandbox::harness::{IMAGE, Sandbox};
use causeway_tests::ask::{Ask, asked_from_pods, url};
use serde_json::{Value, json};

use super::{delete_policies, deny_in, policy, prepared, wait};

/// Networks of every kind, each with a service whose only endpoint is the pod `a`.
const NETWORKS: [&str; 3] = ["blue", "yellow", "plain"];

fn service(namespace: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": namespace, "name": "a"},
        "spec": {"selector": {"pod": "a"}, "ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80, "targetPort": 8080}]},
    })
    .to_string()
}

fn addresses(sandbox: &Sandbox, namespace: &str) -> Vec<String> {
    let object = sandbox.get(&["service", "--namespace", namespace, "a"]).unwrap();
    let all = object["spec"]["clusterIPs"].as_array().unwrap();
    all.iter().map(|address| address.as_str().unwrap().to_owned()).collect()
}

/// Who of the pods reaches the service of his own network, in both families.
fn wait_served(sandbox: &Sandbox, what: &str, wanted: &[&str]) {
    let as_wanted = || {
        let mut served = BTreeSet::new();
        for namespace in NETWORKS {
            let asks: Vec<Ask> = addresses(sandbox, namespace)
                .iter()
                .map(|at| Ask::http(&url(at, 80, "/hostname"), at))
                .collect();
            let pods = ["a", "b"].map(|name| format!("{namespace}/{name}"));
            let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
            for (pod, said) in asked_from_pods(sandbox, &pods, &asks)? {
                if !said.is_empty() {
                    served.insert(format!("{pod} {} of {}", said.len(), asks.len()));
                }
            }
        }
        let wanted: BTreeSet<String> = wanted.iter().map(|pod| format!("{pod} 2 of 2")).collect();
        let wrong: Vec<String> = served.symmetric_difference(&wanted).cloned().collect();
        super::nothing_wrong(&wrong, &format!("served are {served:?}"))
    };
    sandbox.wait_for(what, as_wanted).unwrap();
    println!("as wanted: {what}");
}

fn cluster_policy(name: &str, tier: &str, rules: &Value) -> String {
    let namespaces = json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": NETWORKS}]});
    json!({
        "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy", "metadata": {"name": name},
        "spec": {"tier": tier, "priority": 3, "subject": {"namespaces": namespaces}, "ingress": rules},
    })
    .to_string()
}

/// POL-073, POL-076, POL-094: a pod comes to itself by a service whatever tenants say; administrators' policies are about it as about
/// everybody, before and behind tenants. Whom egress lets go to a service is decided by its endpoints.
#[test]
fn a_pod_and_itself() {
    let sandbox = prepared();
    NETWORKS.iter().for_each(|namespace| drop(sandbox.apply(&service(namespace)).unwrap()));
    let everybody = ["blue/a", "blue/b", "yellow/a", "yellow/b", "plain/a", "plain/b"];
    let themselves = ["blue/a", "yellow/a", "plain/a"];
    wait_served(sandbox, "services for everybody", &everybody);
    for namespace in NETWORKS {
        sandbox.apply(&policy(&format!("{namespace}/deny"), deny_in())).unwrap();
    }
    wait_served(sandbox, "closed by tenants, but for a pod itself", &themselves);
    let peers = |action: &str, from: Value| json!({"action": action, "from": [from]});
    let (all, b) = (
        json!({"namespaces": {}}),
        json!({"pods": {"namespaceSelector": {}, "podSelector": {"matchLabels": {"pod": "b"}}}}),
    );
    sandbox.apply(&cluster_policy("itself", "Admin", &json!([peers("Deny", all.clone())]))).unwrap();
    wait_served(sandbox, "closed by the administrator, for a pod itself, too", &[]);
    sandbox
        .apply(&cluster_policy("itself", "Admin", &json!([peers("Accept", b), peers("Deny", all.clone())])))
        .unwrap();
    wait_served(sandbox, "open for b alone", &["blue/b", "yellow/b", "plain/b"]);
    sandbox.apply(&cluster_policy("itself", "Baseline", &json!([peers("Deny", all)]))).unwrap();
    wait_served(sandbox, "tenants are asked before the baseline", &themselves);
    delete_policies(sandbox);
    wait_served(sandbox, "closed by the baseline", &[]);
    sandbox.kubectl(&["delete", "cnp", "--all"]).unwrap();

    // Out to the endpoints of the service alone.
    let to_a = json!({"podSelector": {"matchLabels": {"pod": "b"}}, "policyTypes": ["Egress"],
        "egress": [{"to": [{"podSelector": {"matchLabels": {"pod": "a"}}}]}]});
    let to_nobody = json!({"podSelector": {"matchLabels": {"pod": "b"}}, "policyTypes": ["Egress"]});
    for namespace in NETWORKS {
        sandbox.apply(&policy(&format!("{namespace}/out"), to_nobody.clone())).unwrap();
    }
    wait_served(sandbox, "b has no way out", &themselves);
    for namespace in NETWORKS {
        sandbox.apply(&policy(&format!("{namespace}/out"), to_a.clone())).unwrap();
    }
    wait_served(sandbox, "b has a way to endpoints", &everybody);
    delete_policies(sandbox);
    NETWORKS.iter().for_each(|namespace| {
        sandbox.kubectl(&["delete", "service", "--namespace", namespace, "a"]).unwrap();
    });
    wait(sandbox, "islands again", &[], |_, _| true);
}

/// POL-084, POL-085: on a network of one's own the API server and DNS are allowed by their cluster addresses.
#[test]
fn the_way_to_the_api_server_and_to_names() {
    let sandbox = prepared();
    let pods = ["blue/a", "yellow/a"];
    let kubernetes =
        sandbox.get(&["service", "kubernetes"]).unwrap()["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let names = sandbox.get(&["service", "--namespace=kube-system", "kube-dns"]).unwrap();
    let names = names["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let asks = [
        Ask::new(&format!("curl -sk --max-time 4 https://{kubernetes}/healthz"), "api"),
        Ask::new("timeout 8 getent hosts kubernetes.default.svc.cluster.local", "names"),
    ];
    let wait_said = |what: &str, wanted: &[&str]| {
        let as_wanted = || {
            let said = asked_from_pods(sandbox, &pods, &asks)?;
            let wrong = said.iter().filter(|(_, said)| !said.keys().eq(wanted));
            let wrong: Vec<String> = wrong.map(|(pod, said)| format!("{pod}: {said:?}")).collect();
            super::nothing_wrong(&wrong, what)
        };
        sandbox.wait_for(what, as_wanted).unwrap();
    };
    let out = |to: &[&str]| {
        let blocks: Vec<Value> = to
            .iter()
            .map(|address| json!({"to": [{"ipBlock": {"cidr": format!("{address}/32")}}]}))
            .collect();
        for namespace in ["blue", "yellow"] {
            let spec = json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": blocks});
            sandbox.apply(&policy(&format!("{namespace}/out"), spec)).unwrap();
        }
    };
    wait_said("both without a policy", &["api", "names"]);
    out(&[]);
    wait_said("neither with no way out", &[]);
    out(&[&kubernetes]);
    wait_said("the API server by its address", &["api"]);
    out(&[&kubernetes, &names]);
    wait_said("and names by theirs", &["api", "names"]);
    delete_policies(sandbox);
}

/// A pod of a namespace that answers the kubelet's probes, or uses the host's network.
fn watched(namespace: &str, on_host: bool) -> Value {
    let probe =
        json!({"httpGet": {"path": "/hostname", "port": 8085}, "periodSeconds": 1, "failureThreshold": 2});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": if on_host { "on-host" } else { "probed" }, "labels": {"pod": "watched"}},
        "spec": {"nodeName": "n2", "hostNetwork": on_host, "terminationGracePeriodSeconds": 0, "containers": [{
            "name": "c", "image": IMAGE, "command": ["/agnhost", "netexec", "--http-port=8085", "--udp-port=8086"],
            "readinessProbe": if on_host { Value::Null } else { probe.clone() }, "livenessProbe": if on_host { Value::Null } else { probe }}]},
    })
}

/// POL-030, POL-070, POL-078: probes pass whatever is closed; pods of the host's network are never closed, and selectors find them.
#[test]
fn probes_and_pods_of_the_host() {
    let sandbox = prepared();
    let closed = json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]});
    for namespace in NETWORKS {
        sandbox.apply(&policy(&format!("{namespace}/closed"), closed.clone())).unwrap();
        sandbox.apply(&watched(namespace, false).to_string()).unwrap();
    }
    sandbox.apply(&watched("plain", true).to_string()).unwrap();
    NETWORKS.iter().for_each(|namespace| sandbox.pod(&format!("{namespace}/probed")).wait_ready().unwrap());
    sandbox.pod("plain/on-host").wait_ready().unwrap();
    let host =
        sandbox.pod("plain/on-host").object().unwrap()["status"]["hostIP"].as_str().unwrap().to_owned();
    let ask = [Ask::http(&url(&host, 8085, "/hostname"), "host")];
    let from = |pod: &str| {
        Ok::<_, causeway_sandbox::Error>(!asked_from_pods(sandbox, &[pod], &ask)?[0].1.is_empty())
    };
    sandbox.wait_for("no way out to the host", || Ok((!from("plain/a")?).then_some(()))).unwrap();
    let to_host = json!({"podSelector": {"matchLabels": {"pod": "a"}}, "policyTypes": ["Egress"],
        "egress": [{"to": [{"podSelector": {"matchLabels": {"pod": "watched"}}}]}]});
    sandbox.apply(&policy("plain/to-host", to_host)).unwrap();
    sandbox
        .wait_for("a way to the pod of the host, which is closed to nobody", || {
            Ok(from("plain/a")?.then_some(()))
        })
        .unwrap();
    for namespace in NETWORKS {
        let pod = sandbox.pod(&format!("{namespace}/probed")).object().unwrap();
        assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0, "{namespace}: a probe failed");
        assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true, "{namespace}: a probe failed");
        sandbox.kubectl(&["delete", "pod", "--namespace", namespace, "probed", "--now"]).unwrap();
    }
    sandbox.kubectl(&["delete", "pod", "--namespace=plain", "on-host", "--now"]).unwrap();
    delete_policies(sandbox);
    wait(sandbox, "islands again", &[], |_, _| true);
}
