//! Somebody who wants past a policy with packets of his own making, on every kind of network.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use causeway_sandbox::harness::Sandbox;
use causeway_tests::ask::node_addresses;
use causeway_tests::forged::{self, Watcher};
use causeway_tests::outside::{OUTSIDE, OUTSIDE_DEVICE};
use causeway_tests::talk::{answers, namespace_of_host};
use causeway_tests::{namespace, network, road};
use serde_json::json;

use super::{MAIN, delete_policies, deny_in, name_of, policy, prepared, wait};

/// The attacker, the target on another node, and the device of their network.
const PAIRS: [(&str, &str, &str); 3] =
    [("blue/a", "blue/b", "ovn-udn1"), ("yellow/a", "yellow/b", "ovn-udn1"), ("plain/a", "plain/b", "eth0")];
/// A port that nobody opens, and one at which everybody listens.
const CLOSED: u16 = 9999;
const SERVED: u16 = 8080;
/// What arrives for certain where nothing is closed, in each family. The rest may be refused by connection tracking alone.
const ARRIVES: [&[&str]; 2] =
    [&["udp", "udp-from-53", "parts"], &["udp", "options", "whole-as-a-part", "parts"]];

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
        self.through_as(self.own, from, to)
    }

    /// The same, with an address that may be somebody else's.
    fn through_as(&self, own: IpAddr, from: u16, to: u16) -> BTreeSet<String> {
        let watcher = Watcher::begin(&self.to, self.device);
        forged::send(&self.from, self.device, (own, from).into(), (self.other, to).into());
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
    for (attack, namespace) in pairs.iter().zip(PAIRS.map(|(pod, ..)| network(pod))).flat_map(of_both) {
        for (port, own) in (3006..).zip(let_in(attack.other, namespace)) {
            let seen = attack.through_as(own, port, CLOSED);
            assert_eq!(seen, BTreeSet::new(), "{} hears a pod that says it were {own}", attack.other);
        }
    }
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

/// A service with a node port, by which clients keep their addresses, at the attacked pod's closed port.
fn door(namespace: &str, node_port: u16) -> String {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": namespace, "name": "door"},
        "spec": {"type": "NodePort", "externalTrafficPolicy": "Local", "ipFamilyPolicy": "RequireDualStack",
            "selector": {"pod": "b"},
            "ports": [{"protocol": "UDP", "port": 81, "targetPort": CLOSED, "nodePort": node_port}]},
    })
    .to_string()
}

/// The address that the pod's node has in the pod's subnet, and policies let in where it is the node's.
fn management(of: IpAddr, network: &str) -> IpAddr {
    match of {
        IpAddr::V4(_) if network == "yellow" => [10, 20, 0, 2].into(),
        IpAddr::V4(of) => {
            let [a, b, c, _] = of.octets();
            [a, b, c, 2].into()
        }
        IpAddr::V6(of) => {
            let [a, b, c, d, ..] = of.segments();
            [a, b, c, d, 0, 0, 0, 2].into()
        }
    }
}

/// Whom policies let in, by their addresses: the pod itself, also by a service of its own, and its node.
fn let_in(of: IpAddr, network: &str) -> [IpAddr; 3] {
    let hairpin = if of.is_ipv4() { "169.254.0.5" } else { "fd69::5" };
    [hairpin.parse().unwrap(), of, management(of, network)]
}

fn of_both<'a>(
    (attacks, namespace): (&'a [Attack; 2], &'a str),
) -> impl Iterator<Item = (&'a Attack, &'a str)> {
    attacks.iter().map(move |attack| (attack, namespace))
}

/// Clients of a service that is local keep their addresses, and policies go by these. So nobody outside comes with that of a pod whom a
/// policy lets in, of his network or of one that it is joined with, nor with the node's.
#[test]
fn nobody_outside_comes_as_somebody_inside() {
    let sandbox = prepared();
    sandbox.apply(&road("main", "main", 168, "PodNetwork")).unwrap();
    wait(sandbox, "a road", &[MAIN], |_, _| true);
    let outside = namespace_of_host(sandbox, "outside");
    let pairs = PAIRS.map(|pair| (network(pair.0), Attack::both(sandbox, pair)));
    let green: Vec<IpAddr> =
        sandbox.pod("green/a").addresses().unwrap().iter().map(|text| text.parse().unwrap()).collect();
    for (port, (namespace, _)) in (30_941..).zip(&pairs) {
        sandbox.apply(&door(namespace, port)).unwrap();
    }
    sandbox.wait_settled().unwrap();
    let through = |attack: &Attack, port: u16, from: (IpAddr, u16)| {
        let node = node_addresses("n2").map(|text| text.parse::<IpAddr>().unwrap());
        let node = node.into_iter().find(|node| node.is_ipv4() == from.0.is_ipv4()).unwrap();
        let watcher = Watcher::begin(&attack.to, attack.device);
        forged::send(&outside, OUTSIDE_DEVICE, from.into(), (node, port).into());
        watcher.end()
    };
    let honest = |attack: &Attack| -> IpAddr {
        let all = OUTSIDE.map(|text| text.parse::<IpAddr>().unwrap());
        all.into_iter().find(|own| own.is_ipv4() == attack.own.is_ipv4()).unwrap()
    };
    for (port, (_, attacks)) in (30_941..).zip(&pairs) {
        for attack in attacks {
            let heard = || {
                let seen = through(attack, port, (honest(attack), 5001));
                println!("{} hears from outside: {seen:?}", attack.other);
                Ok(seen.contains("udp").then_some(()))
            };
            sandbox.wait_for(&format!("{} to hear from outside", attack.other), heard).unwrap();
        }
    }
    let friends = json!({"podSelector": {}, "ingress": [{"from": [
        {"podSelector": {"matchLabels": {"pod": "a"}}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "green"}}}]}]});
    for (namespace, _) in &pairs {
        sandbox.apply(&policy(&format!("{namespace}/friends"), friends.clone())).unwrap();
    }
    let closed = |from: &str, to: &str| {
        !["blue", "yellow", "plain"].contains(&network(to))
            || name_of(from) == "a"
            || network(from) == "green"
    };
    wait(sandbox, "friends alone", &[MAIN], closed);
    for (port, (namespace, attacks)) in (30_941..).zip(&pairs) {
        for attack in attacks {
            let far = green.iter().copied().find(|far| far.is_ipv4() == attack.own.is_ipv4()).unwrap();
            let inside = [attack.own, far].into_iter().chain(let_in(attack.other, namespace));
            for (own, from) in (5002..).zip(inside.chain([honest(attack)])) {
                let seen = through(attack, port, (from, own));
                assert_eq!(seen, BTreeSet::new(), "{} hears somebody who says he were {from}", attack.other);
            }
        }
    }
    delete_policies(sandbox);
    for (namespace, _) in &pairs {
        sandbox.kubectl(&["delete", "service", "--namespace", namespace, "door"]).unwrap();
    }
    sandbox.kubectl(&["delete", "cnc", "--all", "--timeout=60s"]).unwrap();
    wait(sandbox, "islands again", &[], |_, _| true);
}
