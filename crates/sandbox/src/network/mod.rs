//! Network namespaces, links, addresses and routes as facts: what shall hold, what holds, the difference.
//!
//! Pure but for `apply`, which asks `ip` and tells `ip`.

mod apply;
mod observe;

pub(crate) use apply::{apply, delete_namespace};
pub(crate) use observe::Seen;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// One thing that shall hold. The order of the variants is the order in which they can be made so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Fact {
    /// There is a network namespace.
    Namespace(String),
    /// A setting below `/proc/sys/net` has a value.
    Setting {
        /// Where.
        namespace: String,
        /// With slashes.
        key: String,
        /// As the kernel prints it.
        value: String,
    },
    /// There is a bridge.
    Bridge {
        /// Where.
        namespace: String,
        /// Its name.
        link: String,
    },
    /// Two links are the ends of one cable.
    Cable {
        /// Where one end is.
        namespace: String,
        /// Its name.
        link: String,
        /// Where the other end is.
        peer_namespace: String,
        /// Its name.
        peer: String,
    },
    /// A link is a port of a bridge.
    Port {
        /// Where both are.
        namespace: String,
        /// The port.
        link: String,
        /// The bridge.
        bridge: String,
    },
    /// A link has an address.
    Address {
        /// Where.
        namespace: String,
        /// The link.
        link: String,
        /// With the length of its prefix.
        address: IpNet,
    },
    /// A link is up, or down.
    State {
        /// Where.
        namespace: String,
        /// The link.
        link: String,
        /// Whether it is up.
        up: bool,
    },
    /// A range is reached over a neighbour.
    Route {
        /// Where.
        namespace: String,
        /// The range.
        to: IpNet,
        /// The neighbour.
        via: IpAddr,
    },
}

impl Fact {
    /// The namespace in which it holds.
    pub fn namespace(&self) -> &str {
        match self {
            Fact::Namespace(namespace)
            | Fact::Setting { namespace, .. }
            | Fact::Bridge { namespace, .. }
            | Fact::Cable { namespace, .. }
            | Fact::Port { namespace, .. }
            | Fact::Address { namespace, .. }
            | Fact::State { namespace, .. }
            | Fact::Route { namespace, .. } => namespace,
        }
    }

    /// The command line that makes it so, for `ip`. A setting has none.
    fn words(&self) -> Vec<String> {
        let line = match self {
            Fact::Namespace(name) => format!("netns add {name}"),
            Fact::Setting { .. } => String::new(),
            Fact::Bridge { namespace, link } => format!("-n {namespace} link add {link} type bridge"),
            Fact::Cable { namespace, link, peer_namespace, peer } => {
                format!("-n {namespace} link add {link} type veth peer name {peer} netns {peer_namespace}")
            }
            Fact::Port { namespace, link, bridge } => {
                format!("-n {namespace} link set {link} master {bridge}")
            }
            Fact::Address { namespace, link, address: address @ IpNet::V4(_) } => {
                format!("-n {namespace} address replace {address} dev {link}")
            }
            // Nobody else can have the address here, so nobody is asked.
            Fact::Address { namespace, link, address } => {
                format!("-n {namespace} address replace {address} dev {link} nodad")
            }
            Fact::State { namespace, link, up } => {
                format!("-n {namespace} link set {link} {}", if *up { "up" } else { "down" })
            }
            Fact::Route { namespace, to, via } => format!("-n {namespace} route replace {to} via {via}"),
        };
        line.split_whitespace().map(str::to_owned).collect()
    }
}

/// The facts that do not hold yet, in the order in which they can be made so.
pub(crate) fn missing(wanted: &BTreeSet<Fact>, seen: &BTreeMap<String, Seen>) -> Vec<Fact> {
    wanted.iter().filter(|fact| !holds(fact, seen)).cloned().collect()
}

fn holds(fact: &Fact, seen: &BTreeMap<String, Seen>) -> bool {
    let Some(here) = seen.get(fact.namespace()) else { return false };
    let link = |name: &String| here.links.get(name);
    match fact {
        Fact::Namespace(_) => true,
        // Written each time: it costs less than asking.
        Fact::Setting { .. } => false,
        Fact::Bridge { link: name, .. } | Fact::Cable { link: name, .. } => link(name).is_some(),
        Fact::Port { link: name, bridge, .. } => {
            link(name).is_some_and(|l| l.bridge.as_ref() == Some(bridge))
        }
        Fact::Address { link: name, address, .. } => {
            link(name).is_some_and(|l| l.addresses.contains(address))
        }
        Fact::State { link: name, up, .. } => link(name).is_some_and(|l| l.up == *up),
        Fact::Route { to, via, .. } => here.routes.contains(&(*to, *via)),
    }
}

#[cfg(test)]
mod tests {
    use super::observe::parse_links;
    use super::*;

    fn address(text: &str) -> Fact {
        Fact::Address { namespace: "n1".into(), link: "br-ex".into(), address: text.parse().unwrap() }
    }

    fn seen() -> BTreeMap<String, Seen> {
        let links = r#"[{"ifname":"br-ex","flags":["UP"],"master":"br0",
            "addr_info":[{"local":"172.30.0.11","prefixlen":24},{"local":"fe80::1","prefixlen":64}]}]"#;
        let here = Seen { links: parse_links(links).unwrap(), routes: BTreeSet::new() };
        BTreeMap::from([("n1".into(), here)])
    }

    #[test]
    fn only_what_does_not_hold_is_done() {
        let up = Fact::State { namespace: "n1".into(), link: "br-ex".into(), up: true };
        let wanted = [Fact::Namespace("n1".into()), address("172.30.0.11/24"), address("fd00::b/64"), up];
        assert_eq!(missing(&BTreeSet::from(wanted), &seen()), [address("fd00::b/64")]);
    }

    #[test]
    fn a_cut_cable_is_a_difference() {
        let down = Fact::State { namespace: "n1".into(), link: "br-ex".into(), up: false };
        let difference = missing(&BTreeSet::from([down]), &seen());
        assert_eq!(difference.len(), 1);
        assert_eq!(difference[0].words().join(" "), "-n n1 link set br-ex down");
    }

    #[test]
    fn namespaces_come_before_what_is_in_them() {
        let wanted = BTreeSet::from([address("10.0.0.1/8"), Fact::Namespace("z".into())]);
        assert_eq!(missing(&wanted, &BTreeMap::new())[0], Fact::Namespace("z".into()));
    }
}
