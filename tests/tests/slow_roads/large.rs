//! Packets as large as their networks take, and more of them than fit through at once.

use super::{ISLANDS, topology};
use causeway_host::in_namespace;
use causeway_sandbox::harness::Sandbox;
use causeway_tests::talk::{pour, sink};
use causeway_tests::{namespace, road, shared};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Two islands that take smaller packets than the others.
const SMALL: &str = include_str!("../manifests/small.yaml");
const SMALL_MTU: usize = 1300;
const PODS: [(&str, &str); 4] = [("blue/a", "n1"), ("violet/a", "n1"), ("ant/b", "n2"), ("bee/b", "n2")];
/// Headers of a ping, by family.
const HEADERS: [usize; 2] = [28, 48];
const POURED: Duration = Duration::from_secs(2);
/// What that long must bring at the least, on whatever machine.
const BROUGHT: u64 = 1 << 20;

/// What is too large for the other network is said to be by whoever stands between, with the size that fits, and connections learn it:
/// layer3 and layer2, both ways, by each family, in both topologies.
#[test]
fn large_packets_find_what_fits() {
    let sandbox = shared();
    sandbox.apply(ISLANDS).unwrap();
    sandbox.apply(SMALL).unwrap();
    sandbox.start_pods(&PODS).unwrap();
    for kind in ["blue", "violet"] {
        sandbox.kubectl(&["label", "--overwrite", "cudn", kind, "size=yes"]).unwrap();
    }
    sandbox.apply(&road("size", "size", 172, "PodNetwork")).unwrap();
    let mut port = 9400;
    for wanted in ["transit", "compact"] {
        topology(sandbox, "size", wanted);
        for (from, to) in
            [("blue/a", "bee/b"), ("violet/a", "ant/b"), ("blue/a", "ant/b"), ("violet/a", "bee/b")]
        {
            for number in 0..HEADERS.len() {
                probe(sandbox, from, to, number);
                port += 2;
                bulk(sandbox, from, to, number, port);
                bulk(sandbox, to, from, number, port + 1);
            }
        }
    }
    sandbox.kubectl(&["delete", "cnc", "size", "--timeout=60s"]).unwrap();
}

/// Nothing is cut: what fits arrives, and of what does not fit one hears how much would.
fn probe(sandbox: &Sandbox, from: &str, to: &str, number: usize) {
    let address = sandbox.pod(to).addresses().unwrap().remove(number);
    let ask = |size: usize| {
        let line = format!("ping -M do -c 1 -W 2 -s {} {address} 2>&1 || true", size - HEADERS[number]);
        sandbox.pod(from).exec(&["sh", "-c", &line])
    };
    let what = format!("{from} to {address} of {to}");
    let fits = || Ok(ask(SMALL_MTU)?.contains("bytes from").then_some(()));
    sandbox.wait_for(&format!("{what}: what fits to arrive"), fits).unwrap();
    forget(&namespace(sandbox, from));
    let told = || {
        let said = ask(SMALL_MTU + 50)?;
        assert!(!said.contains("bytes from"), "{what}: {said}");
        let fitting = format!("mtu={SMALL_MTU}");
        Ok(said.replace("mtu = ", "mtu=").contains(&fitting).then_some(()))
    };
    sandbox.wait_for(&format!("{what}: to be told what fits"), told).unwrap();
}

/// What earlier probes have learned is in the way of the next one.
fn forget(namespace: &Path) {
    let flush = || {
        for family in ["-4", "-6"] {
            let done = Command::new("ip").args([family, "route", "flush", "cache"]).status();
            assert!(done.unwrap().success(), "ip {family} route flush cache");
        }
        Ok(())
    };
    in_namespace(namespace, flush).unwrap();
}

/// As much as goes through in a while.
fn bulk(sandbox: &Sandbox, from: &str, to: &str, number: usize, port: u16) {
    forget(&namespace(sandbox, from));
    let results = sink(&namespace(sandbox, to), port);
    let address = sandbox.pod(to).addresses().unwrap().remove(number).parse().unwrap();
    pour(&namespace(sandbox, from), SocketAddr::new(address, port), POURED);
    let (bytes, seconds) = results.recv_timeout(Duration::from_secs(60)).unwrap();
    println!("{from} to {to} at {address}: {bytes} bytes in {seconds:.1} s");
    assert!(bytes >= BROUGHT, "{from} to {to} at {address}: {bytes} bytes");
}
