//! The cables between nodes, the control plane and the host outside.
//!
//! ```text
//!   control   outside    n1          n2
//!    eth0      eth0     eth0─br-ex  eth0─br-ex     addresses on eth0, of nodes on br-ex
//!      └─────────┴────────┴───────────┴─── br0 in `underlay`
//! ```

use super::{CONTROL, OUTSIDE};
use crate::address::{self, node_host, underlay};
use crate::network::Fact;
use crate::wanted::{Node, Plugin, Wanted};
use ipnet::IpNet;
use std::collections::BTreeSet;

const UNDERLAY: &str = "underlay";
const BRIDGE: &str = "br0";

fn up(namespace: &str, link: &str) -> Fact {
    Fact::State { namespace: namespace.into(), link: link.into(), up: true }
}

fn setting(namespace: &str, key: &str, value: &str) -> Fact {
    Fact::Setting { namespace: namespace.into(), key: key.into(), value: value.into() }
}

fn route(namespace: &str, to: IpNet, via: IpNet) -> Fact {
    Fact::Route { namespace: namespace.into(), to, via: via.addr() }
}

/// All that is there before any process runs.
pub(super) fn facts(wanted: &Wanted) -> BTreeSet<Fact> {
    let bridge = Fact::Bridge { namespace: UNDERLAY.into(), link: BRIDGE.into() };
    let mut facts = BTreeSet::from([Fact::Namespace(UNDERLAY.into()), bridge, up(UNDERLAY, BRIDGE)]);
    for (name, host) in [(CONTROL, address::CONTROL), (OUTSIDE, address::OUTSIDE)] {
        facts.extend(cable(name, false));
        let addresses = wanted.families.iter().map(|family| underlay(*family, host));
        facts.extend(addresses.map(|address| Fact::Address {
            namespace: name.into(),
            link: "eth0".into(),
            address,
        }));
    }
    for (name, node) in wanted.running() {
        facts.extend(cable(name, node.partitioned));
        for key in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            facts.insert(setting(name, key, "1"));
        }
        // Ways to the pods, for whoever stands outside of the cluster. Causeway has no such ways: pods live in overlays.
        let bridged = wanted.families.iter().filter(|_| wanted.plugin == Plugin::Bridge);
        for (family, place) in bridged.flat_map(|f| [(f, CONTROL), (f, OUTSIDE)]) {
            facts.insert(route(
                place,
                address::pods(*family, node.index),
                underlay(*family, node_host(node.index)),
            ));
        }
    }
    facts
}

/// A namespace with its cable to the underlay. A partition cuts it at the far end, so the node sees a dead link.
fn cable(namespace: &str, cut: bool) -> Vec<Fact> {
    vec![
        Fact::Namespace(namespace.into()),
        setting(namespace, "ipv6/conf/all/disable_ipv6", "0"),
        Fact::Cable {
            namespace: namespace.into(),
            link: "eth0".into(),
            peer_namespace: UNDERLAY.into(),
            peer: namespace.into(),
        },
        Fact::Port { namespace: UNDERLAY.into(), link: namespace.into(), bridge: BRIDGE.into() },
        Fact::State { namespace: UNDERLAY.into(), link: namespace.into(), up: !cut },
        up(namespace, "lo"),
        up(namespace, "eth0"),
    ]
}

/// What holds once a node's bridge is there: its addresses, its way out, and with the bridge plugin ways to the pods of
/// all other nodes.
pub(super) fn on_bridge(name: &str, node: &Node, wanted: &Wanted) -> BTreeSet<Fact> {
    let mut facts = BTreeSet::from([up(name, "br-ex")]);
    for family in &wanted.families {
        let address = underlay(*family, node_host(node.index));
        facts.insert(Fact::Address { namespace: name.into(), link: "br-ex".into(), address });
        facts.insert(route(name, address::anywhere(*family), underlay(*family, address::OUTSIDE)));
        let others = wanted.nodes.values().filter(|other| other.index != node.index);
        let others = others.filter(|_| wanted.plugin == Plugin::Bridge);
        facts.extend(others.map(|other| {
            route(name, address::pods(*family, other.index), underlay(*family, node_host(other.index)))
        }));
    }
    facts
}
