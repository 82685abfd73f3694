//! Ten thousand connections from two networks with equal pod addresses and equal source ports, to one server: each answer comes to
//! the one who asked.
#![cfg(feature = "e2e")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use causeway_tests::outside::OUTSIDE;
use causeway_tests::talk::{ask, namespace, namespace_of_host, serve};
use causeway_tests::{shared, wait_outside};
use std::collections::BTreeSet;
use std::net::SocketAddrV4;

const ISLANDS: &str = include_str!("manifests/gateway.yaml");
/// Blue and red have equal subnets, and so their first pods equal addresses.
const PODS: [(&str, &str); 2] = [("blue/a", "n1"), ("red/a", "n1")];
/// Source ports that each uses, and how many at once.
const PORTS: std::ops::Range<u16> = 20_000..25_000;
const AT_ONCE: usize = 500;
const SERVER: u16 = 9100;

/// udn-ovn-cases F17.

#[test]
fn ten_thousand_connections_without_a_mix_up() {
    let sandbox = shared();
    sandbox.apply(ISLANDS).unwrap();
    sandbox.start_pods(&PODS).unwrap();
    let addresses: BTreeSet<Vec<String>> =
        PODS.iter().map(|(pod, _)| sandbox.pod(pod).addresses().unwrap()).collect();
    assert_eq!(addresses.len(), 1, "the pods have equal addresses: {addresses:?}");
    wait_outside(sandbox, &PODS.map(|(pod, _)| pod));
    serve(&namespace_of_host(sandbox, "outside"), SERVER);
    let server = SocketAddrV4::new(OUTSIDE[0].parse().unwrap(), SERVER);
    let ports: Vec<u16> = PORTS.collect();
    let heard: Vec<Vec<String>> = std::thread::scope(|scope| {
        let one = |pod: &'static str| {
            let (namespace, ports) = (namespace(sandbox, pod), &ports);
            scope.spawn(move || ask(&namespace, server, pod, ports, AT_ONCE))
        };
        let tasks: Vec<_> = PODS.iter().map(|(pod, _)| one(pod)).collect();
        tasks.into_iter().map(|task| task.join().unwrap()).collect()
    });
    let mut sources = BTreeSet::new();
    for ((pod, _), lines) in PODS.iter().zip(&heard) {
        for (port, line) in ports.iter().zip(lines) {
            let (words, source) = line.split_once('\t').unwrap();
            assert_eq!(words, format!("{pod} {port}"), "{pod} heard what another asked");
            assert!(source.starts_with("172.30.0.11:"), "{pod} came from {source}");
            sources.insert(source.to_owned());
        }
    }
    let all: usize = heard.iter().map(Vec::len).sum();
    println!("{all} connections with {} source ports, none mixed up", sources.len());
    assert_eq!(all, 2 * ports.len());
}
