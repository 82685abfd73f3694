//! Roads between islands: a ClusterNetworkConnect joins networks of both topologies, and nothing else leaks.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use causeway_sandbox::harness::{Probe, Sandbox};
use causeway_sandbox::wanted::Flags;
use causeway_tests::{
    condition, inventory, kill_and_wait, lost_during, nothing_wrong, road, shared, transactions, wait_roads,
};
use std::collections::BTreeSet;

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const ISLANDS: &str = include_str!("manifests/connect.yaml");
const PODS: [(&str, &str); 8] = [
    ("blue/a", "n1"),
    ("blue/b", "n2"),
    ("green/a", "n1"),
    ("green/c", "n3"),
    ("red/b", "n2"),
    ("red/c", "n3"),
    ("yellow/a", "n1"),
    ("plain/b", "n2"),
];
const MAIN: (&str, &str) = ("blue", "green");
const SIDE: (&str, &str) = ("green", "red");

/// Waits until exactly these networks reach each other, by every kind of packet.
fn wait(sandbox: &Sandbox, roads: &[(&str, &str)]) {
    wait_roads(sandbox, &PODS.map(|(pod, _)| pod), &Probe::ALL, roads);
}

/// Waits until a connection is said to be rendered everywhere.
fn wait_success(sandbox: &Sandbox, name: &str) {
    let status = || {
        let object = sandbox.get(&["cnc", name])?;
        match object["status"]["status"].as_str() {
            Some("Success") => Ok(Some(())),
            _ => Err(causeway_sandbox::Error::Request(object["status"].to_string())),
        }
    };
    sandbox.wait_for(&format!("{name} to be a success"), status).unwrap();
    for node in NODES {
        let kind = format!("Ready-In-Zone-{node}");
        assert_eq!(condition(sandbox, &["cnc", name], &kind).0, "True", "{kind} of {name}");
    }
}

fn annotation(sandbox: &Sandbox, name: &str, key: &str) -> String {
    let object = sandbox.get(&["cnc", name]).unwrap();
    object["metadata"]["annotations"][format!("k8s.ovn.org/{key}")].as_str().unwrap_or_default().to_owned()
}

/// The whole life of two roads: made, used, started anew, doubled, rebuilt in the other topology, and gone.
#[test]
fn roads_join_what_they_name_and_nothing_else() {
    let sandbox = shared();
    sandbox.apply(ISLANDS).unwrap();
    sandbox.start_pods(&PODS).unwrap();
    wait(sandbox, &[]);
    let islands = inventory(sandbox, &NODES);

    sandbox.apply(&road("main", "main", 168, "PodNetwork")).unwrap();
    sandbox.apply(&road("side", "side", 169, "PodNetwork")).unwrap();
    wait_success(sandbox, "main");
    wait_success(sandbox, "side");
    wait(sandbox, &[MAIN, SIDE]);
    pods_are_seen_by_their_own_addresses(sandbox);
    the_state_is_told_at_a_glance(sandbox);
    unchanged_restarts_write_nothing(sandbox);
    who_is_silent_is_named(sandbox);

    // Two connections may join the same pair; while one of them is there, they stay joined.
    sandbox.apply(&road("main-too", "main", 170, "PodNetwork")).unwrap();
    wait_success(sandbox, "main-too");
    let lost = lost_during(sandbox, "blue/a", "green/c", || {
        sandbox.kubectl(&["delete", "cnc", "main", "--timeout=60s"]).unwrap();
        wait(sandbox, &[MAIN, SIDE]);
    });
    assert_eq!(lost, 0, "packets lost when one of two connections went");

    // A network that is not selected any more is cut off at once, whatever becomes of the rest.
    sandbox.kubectl(&["label", "namespace", "red", "side-"]).unwrap();
    wait(sandbox, &[MAIN]);
    let (accepted, message) = condition(sandbox, &["cnc", "side"], "Accepted");
    assert_eq!(accepted, "False", "{message}");
    sandbox.kubectl(&["label", "namespace", "red", "side=yes"]).unwrap();
    wait_success(sandbox, "side");
    wait(sandbox, &[MAIN, SIDE]);

    the_other_topology_carries_the_same_packets(sandbox);
    the_flag_takes_roads_away_and_brings_them_back(sandbox, &islands);

    sandbox.kubectl(&["delete", "cnc", "--all", "--timeout=60s"]).unwrap();
    wait(sandbox, &[]);
    let left = || {
        let left: Vec<String> = inventory(sandbox, &NODES).symmetric_difference(&islands).cloned().collect();
        nothing_wrong(&left, "")
    };
    sandbox.wait_for("nothing to be left of the roads", left).unwrap();
}

/// Switched off, no row of a road is left and nothing is said of any; what they were given stays theirs, so that switched on again they are
/// what they were.
fn the_flag_takes_roads_away_and_brings_them_back(sandbox: &Sandbox, islands: &BTreeSet<String>) {
    let annotations = || {
        ["main-too", "side"]
            .map(|name| sandbox.get(&["cnc", name]).unwrap()["metadata"]["annotations"].clone())
    };
    let (given, roads) = (annotations(), inventory(sandbox, &NODES));
    let wait_rows = |wanted: &BTreeSet<String>, what: &str| {
        let differ = || {
            let all = inventory(sandbox, &NODES);
            nothing_wrong(&all.symmetric_difference(wanted).cloned().collect::<Vec<_>>(), "")
        };
        sandbox.wait_for(what, differ).unwrap();
    };
    let off = || "--enable-network-connect=false".to_owned();
    let switch_off = |flags: &mut Flags| {
        flags.cluster_manager.push(off());
        flags.node.push(off());
    };
    sandbox.set_flags(switch_off).unwrap();
    wait(sandbox, &[]);
    wait_rows(islands, "nothing to be left of roads that are switched off");
    for name in ["main-too", "side"] {
        let silent = || {
            let status = sandbox.get(&["cnc", name])?["status"].clone();
            let said = |field: &str| status[field].as_array().is_some_and(|all| !all.is_empty());
            Ok((status["status"].is_null() && !said("conditions") && !said("networks")).then_some(()))
        };
        sandbox.wait_for(&format!("nothing to be said of {name}"), silent).unwrap();
    }
    assert_eq!(annotations(), given);
    let switch_on = |flags: &mut Flags| {
        flags.cluster_manager.retain(|flag| *flag != off());
        flags.node.retain(|flag| *flag != off());
    };
    sandbox.set_flags(switch_on).unwrap();
    wait_success(sandbox, "main-too");
    wait_success(sandbox, "side");
    wait(sandbox, &[MAIN, SIDE]);
    wait_rows(&roads, "the same roads");
    assert_eq!(annotations(), given);
}

fn pods_are_seen_by_their_own_addresses(sandbox: &Sandbox) {
    let own = sandbox.pod("blue/a").addresses().unwrap();
    for address in sandbox.pod("green/c").addresses().unwrap() {
        let host = if address.contains(':') { format!("[{address}]") } else { address };
        let url = format!("http://{host}:8080/clientip");
        let seen = sandbox.pod("blue/a").exec(&["curl", "-s", "--max-time", "5", &url]).unwrap();
        assert!(own.iter().any(|own| seen.contains(own.as_str())), "{seen} is none of {own:?}");
    }
}

fn the_state_is_told_at_a_glance(sandbox: &Sandbox) {
    let table = sandbox.kubectl(&["get", "cnc"]).unwrap();
    println!("{table}");
    for name in ["main", "side"] {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.contains("Success"), "{table}");
        assert_eq!(condition(sandbox, &["cnc", name], "Accepted").0, "True");
    }
}

fn versions(sandbox: &Sandbox) -> String {
    let path =
        "-o=jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}";
    sandbox.kubectl(&["get", "cnc,zonereports,cudn", path]).unwrap()
}

/// What has been written until nobody writes any more.
fn written(sandbox: &Sandbox) -> ([usize; 3], String) {
    let all = || (NODES.map(|node| transactions(sandbox, node)), versions(sandbox));
    let quiet = || {
        let before = all();
        std::thread::sleep(std::time::Duration::from_secs(3));
        Ok(Some(before).filter(|before| *before == all()))
    };
    sandbox.wait_for("everything to be written", quiet).unwrap()
}

fn unchanged_restarts_write_nothing(sandbox: &Sandbox) {
    let before = written(sandbox);
    let lost = lost_during(sandbox, "blue/a", "green/c", || {
        for unit in ["cluster-manager", "n1/causeway", "n3/causeway"] {
            kill_and_wait(sandbox, unit);
        }
        // Long enough for whatever would be written late.
        std::thread::sleep(std::time::Duration::from_secs(5));
    });
    assert_eq!(written(sandbox), before);
    assert_eq!(lost, 0, "packets lost in restarts");
}

/// With a component stopped on each node, what is installed works on, and nothing new counts as installed: the condition, the
/// node's `/readyz`, its metrics and its answer to the container runtime name who does not answer. It heals by itself.
fn who_is_silent_is_named(sandbox: &Sandbox) {
    let silent = [
        ("n1", "n1/ovn-controller", "ovn-controller"),
        ("n2", "n2/ovn-northd", "ovn-northd"),
        ("n3", "n3/nb-db", "northbound database"),
    ];
    silent.iter().for_each(|(_, unit, _)| sandbox.signal(unit, "STOP").unwrap());
    sandbox.apply(&road("late", "main", 171, "PodNetwork")).unwrap();
    let late = ["cnc", "late"];
    for (node, _, name) in silent {
        let begins = format!("{name} on {node} has not answered since ");
        let said = || {
            let (status, message) = condition(sandbox, &late, &format!("Ready-In-Zone-{node}"));
            assert_ne!(status, "True", "{node}: {message}");
            Ok((status == "False" && message.contains(&begins)).then_some(message))
        };
        println!("{}", sandbox.wait_for(&format!("{name} on {node} to be named"), said).unwrap());
        let ask = |path: &str| {
            let url = format!("http://127.0.0.1:9410/{path}");
            sandbox.exec(node, &["curl", "-s", &url]).unwrap()
        };
        let ready = ask("readyz");
        assert!(ready.contains(&format!("{name} has not answered for ")), "{ready}");
        let metric = format!("causeway_component_silent_seconds{{component=\"{name}\"}} ");
        let seconds = ask("metrics").lines().find_map(|line| line.strip_prefix(&metric)?.parse::<f64>().ok());
        assert!(seconds.is_some_and(|seconds| seconds >= 20.0), "{node}: {seconds:?}");
        let plugin = || {
            let words = ["node", node, "-o=jsonpath={.status.conditions[?(@.type==\"Ready\")].message}"];
            let message = sandbox.kubectl(&[&["get"], &words[..]].concat())?;
            Ok(message.contains(&begins).then_some(()))
        };
        sandbox.wait_for(&format!("the kubelet of {node} to hear of it"), plugin).unwrap();
    }
    // The others as before: main was installed, and is.
    for node in NODES {
        let kind = format!("Ready-In-Zone-{node}");
        assert_eq!(condition(sandbox, &["cnc", "main"], &kind).0, "True", "{kind} of main");
    }
    wait(sandbox, &[MAIN, SIDE]);
    silent.iter().for_each(|(_, unit, _)| sandbox.signal(unit, "CONT").unwrap());
    wait_success(sandbox, "late");
    for node in NODES {
        let well = || Ok(sandbox.exec(node, &["curl", "-sf", "http://127.0.0.1:9410/readyz"]).ok());
        sandbox.wait_for(&format!("{node} to be ready again"), well).unwrap();
        sandbox
            .kubectl(&["wait", "--for=condition=Ready", &format!("node/{node}"), "--timeout=60s"])
            .unwrap();
    }
    sandbox.kubectl(&["delete", "cnc", "late", "--timeout=60s"]).unwrap();
}

/// Zones change over one by one while packets run, first to both topologies, then to the other one alone.
fn the_other_topology_carries_the_same_packets(sandbox: &Sandbox) {
    assert_eq!(annotation(sandbox, "side", "connect-topology"), "transit");
    let lost = lost_during(sandbox, "blue/a", "green/c", || {
        let flag = vec!["--connect-topology=compact".to_owned()];
        sandbox.set_flags(|flags| flags.cluster_manager = flag).unwrap();
        for name in ["main-too", "side"] {
            let moved = || Ok((annotation(sandbox, name, "connect-topology") == "compact").then_some(()));
            sandbox.wait_for(&format!("{name} to be compact"), moved).unwrap();
            wait_success(sandbox, name);
        }
        wait(sandbox, &[MAIN, SIDE]);
    });
    println!("{lost} packets of 10 a second lost on the way from transit to compact");
    assert_eq!(lost, 0, "packets lost on the way from transit to compact");
    let ports = sandbox.exec("n1", &["ovn-nbctl", "lrp-list", "connect-router-side"]).unwrap();
    assert_eq!(ports.lines().count(), 2, "one port for each network:\n{ports}");
    pods_are_seen_by_their_own_addresses(sandbox);
}
