//! A row of Port_Binding, read once.

use std::collections::BTreeMap;
use std::net::IpAddr;

use causeway_types::Mac;
use ipnet::IpNet;
use uuid::Uuid;

use crate::annotation::Annotation;

/// A row as the database has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawPort {
    /// `type`.
    pub kind: String,
    /// `datapath`: the switch or router that it is a port of.
    pub datapath: Uuid,
    /// `chassis`: who has claimed it; none while nobody has.
    pub chassis: Option<Uuid>,
    /// `mac`: in each element a MAC address and its IP addresses, or a word such as `unknown`.
    pub mac: Vec<String>,
    /// `tag`: the VLAN of a localnet port; 0 counts as none.
    pub tag: Option<u16>,
    /// `options`, of which `peer`, `distributed-port` and `network_name` are read.
    pub options: BTreeMap<String, String>,
    /// `external_ids`: keys that begin with `neutron_bgpvpn:` are the annotation.
    pub external_ids: BTreeMap<String, String>,
}

/// A port, as far as anybody here asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The switch or router that it is a port of.
    pub datapath: Uuid,
    /// Who has claimed it, by the UUID of the row in Chassis; none while nobody has.
    pub chassis: Option<Uuid>,
    /// From the row's `type`, with what ports of that type have.
    pub kind: PortKind,
}

/// The types of rows that are read; rows of others are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// One side of a cable between a switch and a router.
    Patch {
        /// The port at the other side.
        peer: String,
        /// What is written on it. Only the switch's side has something.
        annotation: Annotation,
        /// Its addresses with their subnets. Only the router's side has some.
        networks: Vec<IpNet>,
    },
    /// The gateway of a router, where it lives.
    Gateway {
        /// The router's port that it stands for.
        of: String,
        /// Its MAC address, if it can be read.
        mac: Option<Mac>,
        /// From the column `mac`, without their subnets; link-local ones are left out.
        addresses: Vec<IpAddr>,
    },
    /// The way of a switch to a provider's network.
    Localnet {
        /// The name of the provider's network.
        network: String,
        /// The VLAN of its packets.
        tag: Option<u16>,
    },
    /// A machine, or an address that machines hand to each other.
    Machine {
        /// From the column `mac`; link-local ones are left out.
        addresses: Vec<IpAddr>,
        /// Whether it has no chassis of its own.
        is_virtual: bool,
    },
}

impl Port {
    /// Reads a row; `None` for what nobody here asks for.
    pub fn read(raw: &RawPort) -> Option<Self> {
        let option = |key: &str| raw.options.get(key).cloned();
        let kind = match raw.kind.as_str() {
            "patch" => PortKind::Patch {
                peer: option("peer")?,
                annotation: Annotation::read(&raw.external_ids),
                networks: words(&raw.mac).filter_map(network).collect(),
            },
            "chassisredirect" => PortKind::Gateway {
                of: option("distributed-port")?,
                mac: raw.mac.first().and_then(|text| text.split_whitespace().next()?.parse().ok()),
                addresses: words(&raw.mac).filter_map(network).map(|net| net.addr()).collect(),
            },
            "localnet" => {
                PortKind::Localnet { network: option("network_name")?, tag: raw.tag.filter(|tag| *tag > 0) }
            }
            "" | "virtual" => PortKind::Machine {
                addresses: words(&raw.mac).filter_map(address).collect(),
                is_virtual: raw.kind == "virtual",
            },
            _ => return None,
        };
        Some(Self { datapath: raw.datapath, chassis: raw.chassis, kind })
    }
}

/// What stands behind the MAC address in each element: `MAC ADDRESS…`. `unknown`, `router` and `dynamic` are no MAC addresses.
fn words(macs: &[String]) -> impl Iterator<Item = &str> {
    macs.iter().flat_map(|text| {
        let mut words = text.split_whitespace();
        let begins = words.next().is_some_and(|mac| mac.parse::<Mac>().is_ok());
        words.filter(move |_| begins)
    })
}

fn network(word: &str) -> Option<IpNet> {
    word.parse().ok().filter(|net: &IpNet| can_be_exposed(net.addr()))
}

fn address(word: &str) -> Option<IpAddr> {
    word.parse().ok().filter(|address| can_be_exposed(*address))
}

/// What is good on one link alone has no place on a fabric.
fn can_be_exposed(address: IpAddr) -> bool {
    let local = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !local && !address.is_loopback() && !address.is_multicast() && !address.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(mac: &[&str]) -> Vec<String> {
        let raw = RawPort { mac: mac.iter().map(|text| (*text).to_owned()).collect(), ..RawPort::default() };
        match Port::read(&raw).unwrap().kind {
            PortKind::Machine { addresses, .. } => addresses.iter().map(ToString::to_string).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// Case 17 of the catalogue.
    #[test]
    fn addresses_of_machines_are_read_whatever_else_is_there() {
        for (mac, want) in [
            (&[][..], &[][..]),
            (&["unknown"], &[]),
            (&["router"], &[]),
            (&["fa:16:3e:00:00:f1"], &[]),
            (&["fa:16:3e:00:00:f1 dynamic"], &[]),
            (&["unknown 20.0.0.241"], &[]),
            (&["fa:16:3e:00:00:f1 20.0.0.241 2001:db8::f1"], &["20.0.0.241", "2001:db8::f1"]),
            (
                &["fa:16:3e:00:00:f1 20.0.0.241", "fa:16:3e:00:00:f2 20.0.0.242"],
                &["20.0.0.241", "20.0.0.242"],
            ),
            (&["fa:16:3e:00:00:f1 fe80::1 300.1.1.1 127.0.0.1 20.0.0.9"], &["20.0.0.9"]),
        ] {
            assert_eq!(addresses(mac), want, "{mac:?}");
        }
    }

    #[test]
    fn rows_without_what_ties_them_to_others_are_nobody() {
        for kind in ["patch", "chassisredirect", "localnet", "localport", "l2gateway", "external"] {
            assert_eq!(Port::read(&RawPort { kind: kind.into(), ..RawPort::default() }), None, "{kind}");
        }
    }
}
