//! Roads that carry less than before.

use super::{FRESH, KEPT, LOST, addresses, narrow, prepared, streams, wait_ended};
use causeway_sandbox::harness::Sandbox;
use causeway_tests::dial::Dialler;
use causeway_tests::stream::{Carrier, Stream};
use causeway_tests::{at_length, kill_and_wait, namespace, road};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};

const PODS: &str = "PodNetwork";
const SERVICES: &str = "ClusterIPServiceNetwork";
const BOTH: &str = "PodNetwork, ClusterIPServiceNetwork";

fn grant(sandbox: &Sandbox, connectivity: &str) {
    sandbox.apply(&road("main", "main", 168, connectivity)).unwrap();
}

/// A service of green for everything that a stream may be carried by, and its address.
fn stream_service(sandbox: &Sandbox) -> IpAddr {
    let carried = [KEPT, LOST, LOST + 1].into_iter().flat_map(|port| [("UDP", port), ("TCP", port)]);
    let ports: Vec<Value> = carried
        .chain([("TCP", FRESH)])
        .map(|(protocol, port)| {
            let name = format!("{}-{port}", protocol.to_lowercase());
            json!({"name": name, "protocol": protocol, "port": port})
        })
        .collect();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "green", "name": "stream"},
        "spec": {"selector": {"pod": "c"}, "ipFamilyPolicy": "SingleStack", "ports": ports},
    });
    sandbox.apply(&service.to_string()).unwrap();
    let service = sandbox.get(&["service", "stream", "--namespace=green"]).unwrap();
    service["spec"]["clusterIP"].as_str().unwrap().parse().unwrap()
}

fn no_service(sandbox: &Sandbox) {
    sandbox.kubectl(&["delete", "service", "stream", "--namespace=green"]).unwrap();
}

/// Streams from blue to green by a service, on this port.
fn by_service(sandbox: &Sandbox, address: IpAddr, port: u16) -> Vec<(u16, Stream)> {
    let (client, server) = (namespace(sandbox, "blue/a"), namespace(sandbox, "green/c"));
    let asked = SocketAddr::new(address, port);
    [Carrier::Udp, Carrier::Tcp]
        .map(|carrier| (port, Stream::begin(carrier, &client, asked, (&server, port))))
        .into()
}

fn wait_connected(sandbox: &Sandbox) {
    let full = || Ok(sandbox.matrix(&["blue/a", "green/c"])?.is_full().then_some(()));
    sandbox.wait_for("blue to reach green", full).unwrap();
}

fn wait_served(sandbox: &Sandbox, address: IpAddr) {
    let dialler = Dialler::begin(&namespace(sandbox, "blue/a"), SocketAddr::new(address, FRESH));
    let served = || Ok((dialler.answered() > 0).then_some(()));
    sandbox.wait_for("green to serve blue", served).unwrap();
}

/// In the first topology, and where there is time in the second one too.
fn in_each_topology(test: impl Fn(&Sandbox)) {
    let sandbox = prepared();
    test(sandbox);
    if at_length() {
        let compact = vec!["--connect-topology=compact".to_owned()];
        sandbox.set_flags(|flags| flags.cluster_manager = compact).unwrap();
        test(sandbox);
        sandbox.set_flags(|flags| flags.cluster_manager = Vec::new()).unwrap();
    }
}

/// A road that grants services alone from now on ends what goes directly, and nothing of what goes by a service; also when the role of
/// the client's node is stopped in between. One that swaps the one for the other ends all that ran.
#[test]
fn a_road_for_services_alone_ends_what_is_direct() {
    in_each_topology(|sandbox| {
        let address = stream_service(sandbox);
        for crash in [false, true] {
            grant(sandbox, BOTH);
            wait_connected(sandbox);
            wait_served(sandbox, address);
            let mut running = streams(sandbox, "blue/a", "green/c", &[LOST]);
            running.extend(by_service(sandbox, address, KEPT));
            if crash {
                sandbox.signal("n1/causeway", "STOP").unwrap();
                grant(sandbox, SERVICES);
                kill_and_wait(sandbox, "n1/causeway");
                wait_ended(sandbox, "services alone after a crash", &running);
            } else {
                narrow(sandbox, "services alone", &running, directly(sandbox), || grant(sandbox, SERVICES));
            }
        }
        swaps_end_all_that_ran(sandbox, address);
        sandbox.kubectl(&["delete", "cnc", "main", "--timeout=60s"]).unwrap();
        no_service(sandbox);
    });
}

/// From blue to green's pod.
fn directly(sandbox: &Sandbox) -> (&'static str, IpAddr) {
    ("blue/a", addresses(sandbox, "green/c")[0])
}

fn swaps_end_all_that_ran(sandbox: &Sandbox, address: IpAddr) {
    grant(sandbox, PODS);
    wait_connected(sandbox);
    let running = streams(sandbox, "blue/a", "green/c", &[LOST]);
    narrow(sandbox, "services instead of pods", &running, directly(sandbox), || grant(sandbox, SERVICES));
    drop(running);
    wait_served(sandbox, address);
    let running = by_service(sandbox, address, LOST);
    narrow(sandbox, "pods instead of services", &running, ("blue/a", address), || grant(sandbox, PODS));
    wait_connected(sandbox);
}

/// A road that grants pods alone from now on, one that loses a network, and one that goes: what they carried ends, in both directions,
/// and nothing else.
#[test]
fn roads_end_what_they_do_not_carry_any_more() {
    in_each_topology(|sandbox| {
        let address = stream_service(sandbox);
        grant(sandbox, BOTH);
        wait_connected(sandbox);
        wait_served(sandbox, address);
        let mut running = streams(sandbox, "blue/a", "green/c", &[KEPT]);
        running.extend(by_service(sandbox, address, LOST));
        narrow(sandbox, "pods alone", &running, ("blue/a", address), || grant(sandbox, PODS));
        drop(running);
        for (what, less, more) in NARROWER {
            one_way_and_the_other(sandbox, address, what, || drop(sandbox.kubectl(less).unwrap()), more);
        }
        if at_length() {
            killed_in_the_middle(sandbox);
            sandbox.kubectl(&["delete", "cnc", "main", "--timeout=60s"]).unwrap();
        }
        no_service(sandbox);
    });
}

type Words = &'static [&'static str];

const CUT: Words = &["label", "namespace", "green", "main-"];
const JOIN: Words = &["label", "namespace", "green", "main=yes"];
/// Green is a tenant's own.
const CLUSTER_NETWORKS: &str = r#"{"spec":{"networkSelectors":[{"networkSelectionType":"ClusterUserDefinedNetworks","clusterUserDefinedNetworkSelector":{"networkSelector":{"matchLabels":{"main":"yes"}}}}]}}"#;

/// How a road comes to carry less, and what else has to be done before it is applied anew.
const NARROWER: [(&str, Words, Words); 3] = [
    ("a label", CUT, JOIN),
    ("a selector", &["patch", "cnc", "main", "--type=merge", "--patch", CLUSTER_NETWORKS], &["get", "cnc"]),
    (
        "deletion",
        &["delete", "cnc", "main", "--wait=false"],
        &["delete", "cnc", "main", "--ignore-not-found", "--timeout=60s"],
    ),
];

fn one_way_and_the_other(sandbox: &Sandbox, service: IpAddr, what: &str, less: impl Fn(), more: Words) {
    grant(sandbox, BOTH);
    wait_connected(sandbox);
    wait_served(sandbox, service);
    let mut running = streams(sandbox, "blue/a", "green/c", &[LOST]);
    running.extend(streams(sandbox, "blue/a", "blue/b", &[KEPT]));
    running.extend(by_service(sandbox, service, LOST + 1).into_iter().map(|(_, one)| (LOST, one)));
    narrow(sandbox, what, &running, directly(sandbox), &less);
    drop(running);
    sandbox.kubectl(more).unwrap();

    grant(sandbox, BOTH);
    wait_connected(sandbox);
    let running = streams(sandbox, "green/c", "blue/a", &[LOST]);
    let back = ("green/c", addresses(sandbox, "blue/a")[0]);
    narrow(sandbox, &format!("{what}, the other way"), &running, back, less);
    sandbox.kubectl(more).unwrap();
}

/// Whoever has to carry it out is stopped when a network is to leave, and begins anew.
fn killed_in_the_middle(sandbox: &Sandbox) {
    for unit in ["cluster-manager", "n1/causeway", "n3/causeway"] {
        grant(sandbox, BOTH);
        wait_connected(sandbox);
        let mut running = streams(sandbox, "blue/a", "green/c", &[LOST]);
        running.extend(streams(sandbox, "blue/a", "blue/b", &[KEPT]));
        sandbox.signal(unit, "STOP").unwrap();
        sandbox.kubectl(CUT).unwrap();
        kill_and_wait(sandbox, unit);
        wait_ended(sandbox, &format!("a label while {unit} was stopped"), &running);
        sandbox.kubectl(JOIN).unwrap();
    }
}
