//! Somebody who wants past a policy with packets of his own making, on every kind of network.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use causeway_sandbox::harness::Sandbox;
use causeway_tests::forged::{self, Watcher};
use causeway_tests::namespace;
use serde_json::json;

use super::{delete_policies, policy, prepared, wait};

/// The attacker, the target on another node, and the device of their network.
const PAIRS: [(&str, &str, &str); 3] =
    [("blue/a", "blue/b", "ovn-udn1"), ("yellow/a", "yellow/b", "ovn-udn1"), ("plain/a", "plain/b", "eth0")];
/// A port that nobody opens.
const CLOSED: u16 = 9999;
/// What arrives for certain where nothing is closed, in each family. The rest may be refused by connection tracking alone.
const ARRIVES: [&[&str]; 2] = [&["udp", "udp-from-53", "parts"], &["udp", "options", "whole-as-a-part"]];

/// Which tricks get through to the target, by IPv4 and by IPv6.
fn through(sandbox: &Sandbox, (attacker, target, device): (&str, &str, &str)) -> [BTreeSet<String>; 2] {
    let (from, to) = (namespace(sandbox, attacker), namespace(sandbox, target));
    let addresses = |pod: &str| -> Vec<IpAddr> {
        sandbox.pod(pod).addresses().unwrap().iter().map(|text| text.parse().unwrap()).collect()
    };
    let (own, others) = (addresses(attacker), addresses(target));
    [IpAddr::is_ipv4, IpAddr::is_ipv6].map(|family| {
        let of = |all: &[IpAddr]| *all.iter().find(|address| family(address)).unwrap();
        arrived(&from, &to, device, of(&own), of(&others))
    })
}

fn arrived(from: &Path, to: &Path, device: &str, own: IpAddr, other: IpAddr) -> BTreeSet<String> {
    let watcher = Watcher::begin(to, device);
    forged::send(from, device, own, other, CLOSED);
    watcher.end()
}

/// Fragments, extension headers, errors about what was never sent, answers to nobody, segments without a connection: what a policy
/// does not allow arrives in no disguise, whether the target is closed whole or has one open port.
#[test]
fn no_disguise_gets_through() {
    let sandbox = prepared();
    for pair in PAIRS {
        let open = through(sandbox, pair);
        for (seen, wanted) in open.iter().zip(ARRIVES) {
            println!("{}: arrives without a policy: {seen:?}", pair.1);
            let missing: Vec<_> = wanted.iter().filter(|name| !seen.contains(**name)).collect();
            assert!(missing.is_empty(), "{}: the test sees nothing of {missing:?}", pair.1);
        }
    }
    let one_port = json!({"podSelector": {"matchLabels": {"pod": "b"}},
        "ingress": [{"ports": [{"protocol": "UDP", "port": 5000}, {"protocol": "TCP", "port": 8080}]}]});
    for namespace in ["blue", "yellow", "plain"] {
        sandbox.apply(&policy(&format!("{namespace}/one-port"), one_port.clone())).unwrap();
    }
    // Whoever else is on the network comes to `b` as before, by the open port, and nobody is closed.
    sandbox.wait_settled().unwrap();
    wait(sandbox, "one open port", &[], |_, _| true);
    for pair in PAIRS {
        assert_eq!(
            through(sandbox, pair),
            [BTreeSet::new(), BTreeSet::new()],
            "{} with one open port",
            pair.1
        );
    }
    for namespace in ["blue", "yellow", "plain"] {
        sandbox.apply(&policy(&format!("{namespace}/one-port"), super::deny_in())).unwrap();
    }
    let closed =
        |_: &str, to: &str| !PAIRS.iter().any(|(_, target, _)| super::network(to) == super::network(target));
    wait(sandbox, "closed whole", &[], closed);
    for pair in PAIRS {
        assert_eq!(through(sandbox, pair), [BTreeSet::new(), BTreeSet::new()], "{} closed whole", pair.1);
    }
    delete_policies(sandbox);
    wait(sandbox, "islands again", &[], |_, _| true);
}
