//! One cluster for many tests: what people do with a sandbox.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use causeway_tests::shared;
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

#[test]
fn our_examples_are_accepted() {
    let sandbox = shared();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let words = ["apply", "--server-side", "--dry-run=server", "-f"];
    let namespaces = folder.join("00-namespaces.yaml");
    sandbox.kubectl(&["apply", "--server-side", "-f", namespaces.to_str().unwrap()]).unwrap();
    let said = sandbox.kubectl(&[&words[..], &[folder.to_str().unwrap()]].concat()).unwrap();
    for kind in ["userdefinednetwork", "clusteruserdefinednetwork", "clusternetworkconnect"] {
        assert!(said.contains(kind), "{said}");
    }
}

/// The examples with pods: networks are ready, pods run.
#[test]
fn our_examples_with_pods_work() {
    let sandbox = shared();
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    for (name, roads) in [("networks", false), ("islands", true), ("connect", true)] {
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
        for kind in ["udn", "cudn"] {
            let words = ["wait", kind, "-A", "--all", "--for=condition=NetworkReady", "--timeout=60s"];
            let words: Vec<&str> = words.into_iter().filter(|word| kind == "udn" || *word != "-A").collect();
            sandbox.kubectl(&words).unwrap();
        }
        if roads {
            let success = "--for=jsonpath={.status.status}=Success";
            sandbox.kubectl(&["wait", "cnc", "--all", success, "--timeout=60s"]).unwrap();
        }
        sandbox.kubectl(&["delete", "-f", folder, "--timeout=180s"]).unwrap();
    }
}
