//! Somebody who wants past a policy with packets of his own making, on every kind of network.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use causeway_sandbox::harness::Sandbox;
use causeway_tests::forged::{self, Watcher};
use causeway_tests::talk::answers;
use causeway_tests::{namespace, network};
use serde_json::json;

use super::{delete_policies, deny_in, policy, prepared, wait};

/// The attacker, the target on another node, and the device of their network.
const PAIRS: [(&str, &str, &str); 3] =
    [("blue/a", "blue/b", "ovn-udn1"), ("yellow/a", "yellow/b", "ovn-udn1"), ("plain/a", "plain/b", "eth0")];
/// A port that nobody opens, and one at which everybody listens.
const CLOSED: u16 = 9999;
const SERVED: u16 = 8080;
/// What arrives for certain where nothing is closed, in each family. The rest may be refused by connection tracking alone.
const ARRIVES: [&[&str]; 2] = [&["udp", "udp-from-53", "parts"], &["udp", "options", "whole-as-a-part"]];

/// An attack from one pod on another, over one family.
struct Attack {
    from: PathBuf,
    to: PathBuf,
    device: &'static str,
    own: IpAddr,
    other: IpAddr,
}

impl Attack {
    /// By IPv4 and by IPv6.
    fn both(sandbox: &Sandbox, (attacker, target, device): (&str, &str, &'static str)) -> [Self; 2] {
        let addresses = |pod: &str| -> Vec<IpAddr> {
            sandbox.pod(pod).addresses().unwrap().iter().map(|text| text.parse().unwrap()).collect()
        };
        let (own, others) = (addresses(attacker), addresses(target));
        [IpAddr::is_ipv4, IpAddr::is_ipv6].map(|family| {
            let of = |all: &[IpAddr]| *all.iter().find(|address| family(address)).unwrap();
            let (from, to) = (namespace(sandbox, attacker), namespace(sandbox, target));
            Self { from, to, device, own: of(&own), other: of(&others) }
        })
    }

    /// Which tricks get through, from a source port to another.
    fn through(&self, from: u16, to: u16) -> BTreeSet<String> {
        let watcher = Watcher::begin(&self.to, self.device);
        let (own, other) = (SocketAddr::new(self.own, from), SocketAddr::new(self.other, to));
        forged::send(&self.from, self.device, own, other);
        watcher.end()
    }

    /// Whether the target's server answers whoever dials from a port.
    fn answered(&self, from: u16) -> bool {
        answers(&self.from, from, SocketAddr::new(self.other, SERVED))
    }
}

/// Fragments, extension headers, errors about what was never sent, answers to nobody, segments without a connection: what a policy
/// does not allow arrives in no disguise, whether the target is closed whole or has one open port; and what was sent before there was
/// a policy prepares no way past it.
#[test]
fn no_disguise_gets_through() {
    let sandbox = prepared();
    let pairs = PAIRS.map(|pair| Attack::both(sandbox, pair));
    for (attack, wanted) in pairs.iter().flat_map(|pair| pair.iter().zip(ARRIVES)) {
        let seen = attack.through(3001, CLOSED);
        println!("{} hears without a policy: {seen:?}", attack.other);
        let missing: Vec<_> = wanted.iter().filter(|name| !seen.contains(**name)).collect();
        assert!(missing.is_empty(), "{}: the test sees nothing of {missing:?}", attack.other);
        attack.through(3002, SERVED);
        assert!(attack.answered(3003), "{}: the test sees no server", attack.other);
    }
    let one_port = json!({"podSelector": {"matchLabels": {"pod": "b"}},
        "ingress": [{"ports": [{"protocol": "UDP", "port": 5000}, {"protocol": "TCP", "port": SERVED}]}]});
    for namespace in ["blue", "yellow", "plain"] {
        sandbox.apply(&policy(&format!("{namespace}/policy"), one_port.clone())).unwrap();
    }
    sandbox.wait_settled().unwrap();
    wait(sandbox, "one open port", &[], |_, _| true);
    for attack in pairs.iter().flatten() {
        assert_eq!(attack.through(3004, CLOSED), BTreeSet::new(), "{} with one open port", attack.other);
    }
    for namespace in ["blue", "yellow", "plain"] {
        sandbox.apply(&policy(&format!("{namespace}/policy"), deny_in())).unwrap();
    }
    let closed = |_: &str, to: &str| !["blue", "yellow", "plain"].contains(&network(to));
    wait(sandbox, "closed whole", &[], closed);
    for attack in pairs.iter().flatten() {
        assert_eq!(attack.through(3005, CLOSED), BTreeSet::new(), "{} closed whole", attack.other);
        for prepared in [3002, 3003] {
            assert!(
                !attack.answered(prepared),
                "{} answers who came to port {prepared} before",
                attack.other
            );
        }
    }
    delete_policies(sandbox);
    wait(sandbox, "islands again", &[], |_, _| true);
}
