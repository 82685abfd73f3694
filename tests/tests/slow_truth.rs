//! What a connection's status says while its nodes are in trouble: a process that begins anew, a database that is silent, a
//! node that is cut off. Slow, since Kubernetes takes 40 seconds to give a node up.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use causeway_sandbox::Error;
use causeway_sandbox::harness::Sandbox;
use causeway_tests::{condition, kill_and_wait, road, shared};
use serde_json::Value;

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const ISLANDS: &str = include_str!("manifests/connect.yaml");
/// Longer than reports and statuses follow one another.
const QUIET: Duration = Duration::from_secs(5);
/// Nobody on n3 uses a network of the road.
const PODS: [(&str, &str); 4] = [("blue/a", "n1"), ("blue/b", "n2"), ("green/a", "n1"), ("green/b", "n2")];

fn outcome(sandbox: &Sandbox, name: &str) -> String {
    let object = sandbox.get(&["cnc", name]).unwrap();
    object["status"]["status"].as_str().unwrap_or_default().to_owned()
}

fn wait_success(sandbox: &Sandbox, name: &str) {
    let well = || match outcome(sandbox, name).as_str() {
        "Success" => Ok(Some(())),
        other => Err(Error::Request(format!("{name} is a {other}"))),
    };
    sandbox.wait_for(&format!("{name} to be a success"), well).unwrap();
}

fn in_zone(sandbox: &Sandbox, name: &str, node: &str) -> (String, String) {
    condition(sandbox, &["cnc", name], &format!("Ready-In-Zone-{node}"))
}

#[test]
fn a_status_is_true_whatever_happens_to_nodes() {
    let sandbox = shared();
    sandbox.set_flags(|all| all.node = vec!["--render=used".to_owned()]).unwrap();
    sandbox.apply(ISLANDS).unwrap();
    sandbox.start_pods(&PODS).unwrap();
    sandbox.apply(&road("main", "main", 168, "PodNetwork")).unwrap();
    wait_success(sandbox, "main");
    a_restart_says_nothing_else(sandbox);
    a_connection_that_comes_after_a_start_is_not_late(sandbox);
    a_silent_southbound_database_is_named(sandbox);
    a_number_is_gone_when_the_switch_has_followed(sandbox);
    a_node_that_is_cut_off_is_said_to_be(sandbox);
}

/// What the conditions say in one word each: status and reason by type. Messages may count differently for a moment.
fn verdicts(sandbox: &Sandbox) -> BTreeMap<String, String> {
    let object = sandbox.get(&["cnc", "main"]).unwrap();
    let text = |condition: &Value, key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    let said = |one: &Value| (text(one, "type"), format!("{}/{}", text(one, "status"), text(one, "reason")));
    object["status"]["conditions"].as_array().unwrap().iter().map(said).collect()
}

/// The verdicts once nothing about the connection has been written for so long.
fn verdicts_in_quiet(sandbox: &Sandbox) -> BTreeMap<String, String> {
    let version = || sandbox.get(&["cnc", "main"]).unwrap()["metadata"]["resourceVersion"].clone();
    let (mut last, mut since) = (version(), Instant::now());
    let quiet = || {
        let now = version();
        if now != last {
            (last, since) = (now, Instant::now());
        }
        Ok((since.elapsed() > QUIET).then(|| verdicts(sandbox)))
    };
    sandbox.wait_for("nothing more to be said of main", quiet).unwrap()
}

/// While processes begin anew, one by one and at once, the status is what it was.
fn a_restart_says_nothing_else(sandbox: &Sandbox) {
    let before = verdicts_in_quiet(sandbox);
    for node in NODES {
        kill_and_wait(sandbox, &format!("{node}/causeway"));
    }
    let begin = Instant::now();
    // Longer than a process waits with its first report, and than the cluster manager waits for it.
    while begin.elapsed() < Duration::from_secs(75) {
        assert_eq!(outcome(sandbox, "main"), "Success", "{:?} after the last start", begin.elapsed());
        sleep(Duration::from_millis(500));
    }
    let after = verdicts_in_quiet(sandbox);
    let differs = |name: &&String| before.get(*name) != after.get(*name);
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let difference = names.iter().copied().filter(differs);
    let difference: Vec<_> = difference.map(|name| (name, before.get(name), after.get(name))).collect();
    assert!(difference.is_empty(), "before and after: {difference:?}");
}

/// What nobody uses on a node is missing nowhere, also while it is not known whether somebody did before the start.
fn a_connection_that_comes_after_a_start_is_not_late(sandbox: &Sandbox) {
    kill_and_wait(sandbox, "n3/causeway");
    let begin = Instant::now();
    sandbox.apply(&road("young", "main", 171, "PodNetwork")).unwrap();
    // With patience: a busy machine is not late.
    wait_success(sandbox, "young");
    println!("a success {:?} after a start", begin.elapsed());
    sandbox.kubectl(&["delete", "cnc", "young", "--timeout=60s"]).unwrap();
}

fn a_silent_southbound_database_is_named(sandbox: &Sandbox) {
    sandbox.signal("n1/sb-db", "STOP").unwrap();
    sandbox.apply(&road("late", "main", 172, "PodNetwork")).unwrap();
    let begins = "southbound database on n1 has not answered since ";
    let said = || {
        let (status, message) = in_zone(sandbox, "late", "n1");
        assert_ne!(status, "True", "{message}");
        Ok((status == "False" && message.contains(begins)).then_some(message))
    };
    println!("{}", sandbox.wait_for("the database to be named", said).unwrap());
    let ready = sandbox.exec("n1", &["curl", "-s", "http://127.0.0.1:9410/readyz"]).unwrap();
    assert!(ready.contains("southbound database has not answered for "), "{ready}");
    let (_, answer) = status_of_plugin(sandbox, "n1");
    assert!(answer.contains(begins), "{answer}");
    assert_eq!(in_zone(sandbox, "main", "n1").0, "True", "what was installed is");
    sandbox.signal("n1/sb-db", "CONT").unwrap();
    wait_success(sandbox, "late");
    sandbox.kubectl(&["delete", "cnc", "late", "--timeout=60s"]).unwrap();
    sandbox.kubectl(&["wait", "--for=condition=Ready", "node/n1", "--timeout=60s"]).unwrap();
}

/// What was freed goes to somebody else only when no switch has anything of it any more: rows that are gone are not enough.
fn a_number_is_gone_when_the_switch_has_followed(sandbox: &Sandbox) {
    sandbox.apply(&road("short", "main", 173, "PodNetwork")).unwrap();
    wait_success(sandbox, "short");
    sandbox.signal("n1/ovn-controller", "STOP").unwrap();
    sandbox.kubectl(&["delete", "cnc", "short", "--timeout=60s"]).unwrap();
    let record = sandbox.get(&["configmap", "-n", "causeway", "causeway-freed-numbers"]).unwrap();
    let record: Value = serde_json::from_str(record["data"]["reuse"].as_str().unwrap()).unwrap();
    let freed = record["epoch"].as_u64().unwrap();
    let has_cleared = |node: &str| {
        let report = sandbox.get(&["zonereport", node])?["spec"].clone();
        let held = report["heldEpochs"].as_array().is_some_and(|held| held.contains(&freed.into()));
        Ok(report["epoch"].as_u64() >= Some(freed) && !held)
    };
    for node in ["n2", "n3"] {
        let cleared = || Ok(has_cleared(node)?.then_some(()));
        sandbox.wait_for(&format!("{node} to have cleared epoch {freed}"), cleared).unwrap();
    }
    let begin = Instant::now();
    while begin.elapsed() < QUIET {
        assert!(
            !has_cleared("n1").unwrap(),
            "the switch of n1 still has what its ovn-controller has put there"
        );
        sleep(Duration::from_millis(500));
    }
    sandbox.signal("n1/ovn-controller", "CONT").unwrap();
    let cleared = || Ok(has_cleared("n1")?.then_some(()));
    sandbox.wait_for(&format!("n1 to have cleared epoch {freed}"), cleared).unwrap();
    sandbox.kubectl(&["wait", "--for=condition=Ready", "node/n1", "--timeout=60s"]).unwrap();
}

/// What the plugin of a node answers the container runtime: whether pods can come, and why not.
fn status_of_plugin(sandbox: &Sandbox, node: &str) -> (bool, String) {
    let containerd = sandbox.folder().path("nodes").join(node).join("containerd.toml");
    let containerd = fs::read_to_string(containerd).unwrap();
    let setting = containerd.lines().find_map(|line| line.trim().strip_prefix("conf_dir = ")).unwrap();
    let folder = Path::new(setting.trim_matches('"')).parent().unwrap();
    let file = folder.join("conf/10-causeway.conflist").display().to_string();
    let list: Value = serde_json::from_str(&sandbox.exec(node, &["cat", &file]).unwrap()).unwrap();
    let mut config = list["plugins"][0].clone();
    config["cniVersion"] = list["cniVersion"].clone();
    config["name"] = list["name"].clone();
    let programs = folder.join("bin").display().to_string();
    let script = format!(
        "printf '%s' '{config}' | CNI_COMMAND=STATUS CNI_PATH={programs} {programs}/causeway-cni && echo well || true"
    );
    let said = sandbox.exec(node, &["sh", "-c", &script]).unwrap();
    (said.ends_with("well"), said)
}

fn a_node_that_is_cut_off_is_said_to_be(sandbox: &Sandbox) {
    assert!(status_of_plugin(sandbox, "n3").0);
    sandbox.partition("n3", true).unwrap();
    let said = || {
        let (status, message) = in_zone(sandbox, "main", "n3");
        Ok((status == "Unknown").then_some(message))
    };
    let message = sandbox.wait_for("n3 to be given up", said).unwrap();
    println!("{message}");
    assert!(message.contains("does not hear of node n3"), "{message}");
    let (ready, zones) = condition(sandbox, &["cnc", "main"], "Ready");
    assert_eq!((ready.as_str(), zones.as_str()), ("True", "2/2 zones; not heard of: [n3]"));
    // The node knows it as well.
    let broken = || {
        let (well, said) = status_of_plugin(sandbox, "n3");
        Ok((!well && said.contains("the watch of ") && said.contains(" has been broken for "))
            .then_some(said))
    };
    println!("{}", sandbox.wait_for("n3 to know that it is cut off", broken).unwrap());
    sandbox.partition("n3", false).unwrap();
    let well = || Ok(status_of_plugin(sandbox, "n3").0.then_some(()));
    sandbox.wait_for("n3 to follow the API server again", well).unwrap();
    let back = || Ok((in_zone(sandbox, "main", "n3").0 == "True").then_some(()));
    sandbox.wait_for("n3 to say what it has", back).unwrap();
    wait_success(sandbox, "main");
}
