//! The index: ports by name, and what ties them together. It states facts and knows nothing of plans.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_types::{Cidr, Mac};
use uuid::Uuid;

use crate::annotation::{Annotation, Vni, Vpn};
use crate::port::{Port, PortKind};

/// What a southbound database says, as far as anybody here asks.
#[derive(Debug, Default)]
pub(crate) struct Southbound {
    ports: BTreeMap<String, Port>,
    chassis: BTreeMap<Uuid, String>,
    paths: BTreeMap<Uuid, Members>,
    /// Gateways by the router's port that they stand for.
    gateways: BTreeMap<String, BTreeSet<String>>,
    annotated: BTreeMap<Vni, BTreeSet<String>>,
}

/// The ports of a switch or router, by kind.
#[derive(Debug, Default)]
struct Members {
    patches: BTreeSet<String>,
    localnets: BTreeSet<String>,
    machines: BTreeSet<String>,
}

impl Members {
    fn of(&mut self, kind: &PortKind) -> Option<&mut BTreeSet<String>> {
        match kind {
            PortKind::Patch { .. } => Some(&mut self.patches),
            PortKind::Localnet { .. } => Some(&mut self.localnets),
            PortKind::Machine { .. } => Some(&mut self.machines),
            PortKind::Gateway { .. } => None,
        }
    }

    fn is_empty(&self) -> bool {
        self.patches.is_empty() && self.localnets.is_empty() && self.machines.is_empty()
    }
}

/// A gateway of a router, with what is written on the provider's side of it.
pub(crate) struct Gateway<'a> {
    /// The annotated port.
    pub(crate) port: &'a str,
    pub(crate) vpn: &'a Vpn,
    /// The provider's switch.
    pub(crate) provider: Uuid,
    pub(crate) router: Uuid,
    pub(crate) chassis: Option<&'a str>,
    pub(crate) mac: Option<Mac>,
    pub(crate) addresses: &'a [IpAddr],
}

/// A tenant's switch on a router.
pub(crate) struct Subnet<'a> {
    /// The annotated port.
    pub(crate) port: &'a str,
    pub(crate) vpn: &'a Vpn,
    pub(crate) switch: Uuid,
    pub(crate) cidrs: Vec<Cidr>,
}

impl Southbound {
    /// Puts a port, or takes it away; the VNIs that this may concern.
    pub(crate) fn set_port(&mut self, name: &str, port: Option<Port>) -> BTreeSet<Vni> {
        if self.ports.get(name) == port.as_ref() {
            return BTreeSet::new();
        }
        let mut touched = self.touched(name);
        if let Some(old) = self.ports.remove(name) {
            self.unlink(name, &old);
        }
        if let Some(new) = port {
            self.link(name, &new);
            self.ports.insert(name.to_owned(), new);
        }
        touched.extend(self.touched(name));
        touched
    }

    /// Puts a chassis, or takes it away; its name before and now.
    pub(crate) fn set_chassis(&mut self, id: Uuid, name: Option<String>) -> [Option<String>; 2] {
        let before = match &name {
            Some(name) => self.chassis.insert(id, name.clone()),
            None => self.chassis.remove(&id),
        };
        [before, name]
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn port_names(&self) -> BTreeSet<String> {
        self.ports.keys().cloned().collect()
    }

    pub(crate) fn chassis_ids(&self) -> BTreeSet<Uuid> {
        self.chassis.keys().copied().collect()
    }

    /// All VNIs that somebody is annotated with.
    pub(crate) fn vnis(&self) -> BTreeSet<Vni> {
        self.annotated.keys().copied().collect()
    }

    /// Ports whose annotation cannot be used, and why.
    pub(crate) fn bad(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ports.iter().filter_map(|(name, port)| match &port.kind {
            PortKind::Patch { annotation: Annotation::Bad(why), .. } => Some((name.as_str(), why.as_str())),
            _ => None,
        })
    }

    /// The gateways with this VNI, wherever they live.
    pub(crate) fn gateways(&self, vni: Vni) -> impl Iterator<Item = Gateway<'_>> {
        let names = self.annotated.get(&vni).into_iter().flatten();
        names.flat_map(|name| self.gateways_of(name))
    }

    fn gateways_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Gateway<'a>> {
        let port = self.ports.get(name);
        let found = port.and_then(|port| Some((port.datapath, self.other_side(name, port)?, vpn_of(port)?)));
        found.into_iter().flat_map(move |(provider, (peer, router), vpn)| {
            let stand_ins = self.gateways.get(peer).into_iter().flatten();
            stand_ins.filter_map(move |name| self.ports.get(name)).filter_map(move |gateway| {
                let PortKind::Gateway { mac, addresses, .. } = &gateway.kind else { return None };
                let chassis = gateway.chassis.and_then(|id| self.chassis.get(&id)).map(String::as_str);
                let (router, mac) = (router.datapath, *mac);
                Some(Gateway { port: name, vpn, provider, router, chassis, mac, addresses })
            })
        })
    }

    /// The annotated switches of a router that are no provider's.
    pub(crate) fn subnets(&self, router: Uuid) -> impl Iterator<Item = Subnet<'_>> {
        let patches = self.paths.get(&router).into_iter().flat_map(|members| &members.patches);
        patches.filter(|name| !self.gateways.contains_key(*name)).filter_map(|name| {
            let inner = self.ports.get(name)?;
            let (port, outer) = self.other_side(name, inner)?;
            let PortKind::Patch { networks, .. } = &inner.kind else { return None };
            let cidrs = networks.iter().map(|net| Cidr::masked(*net)).collect();
            Some(Subnet { port, vpn: vpn_of(outer)?, switch: outer.datapath, cidrs })
        })
    }

    /// Name, provider's network and VLAN of a switch's ways outside.
    pub(crate) fn localnets(&self, switch: Uuid) -> impl Iterator<Item = (&str, &str, Option<u16>)> {
        let names = self.paths.get(&switch).into_iter().flat_map(|members| &members.localnets);
        names.filter_map(|name| match &self.ports.get(name)?.kind {
            PortKind::Localnet { network, tag } => Some((name.as_str(), network.as_str(), *tag)),
            _ => None,
        })
    }

    /// The addresses of a switch's machines that run, or need not.
    pub(crate) fn machines(&self, switch: Uuid) -> impl Iterator<Item = IpAddr> {
        let names = self.paths.get(&switch).into_iter().flat_map(|members| &members.machines);
        let live = names.filter_map(|name| {
            let port = self.ports.get(name)?;
            match &port.kind {
                PortKind::Machine { addresses, is_virtual } if *is_virtual || port.chassis.is_some() => {
                    Some(addresses)
                }
                _ => None,
            }
        });
        live.flatten().copied()
    }

    /// The port at the other end of a cable, if both ends say so.
    fn other_side<'a>(&'a self, name: &str, port: &'a Port) -> Option<(&'a str, &'a Port)> {
        let PortKind::Patch { peer, .. } = &port.kind else { return None };
        let (peer, other) = self.ports.get_key_value(peer)?;
        matches!(&other.kind, PortKind::Patch { peer: back, .. } if back == name)
            .then_some((peer.as_str(), other))
    }

    fn link(&mut self, name: &str, port: &Port) {
        if let Some(set) = self.paths.entry(port.datapath).or_default().of(&port.kind) {
            set.insert(name.to_owned());
        }
        if let PortKind::Gateway { of, .. } = &port.kind {
            self.gateways.entry(of.clone()).or_default().insert(name.to_owned());
        }
        if let Some(vpn) = vpn_of(port) {
            self.annotated.entry(vpn.vni).or_default().insert(name.to_owned());
        }
    }

    fn unlink(&mut self, name: &str, port: &Port) {
        if let Some(members) = self.paths.get_mut(&port.datapath) {
            if let Some(set) = members.of(&port.kind) {
                set.remove(name);
            }
            if members.is_empty() {
                self.paths.remove(&port.datapath);
            }
        }
        if let PortKind::Gateway { of, .. } = &port.kind {
            leave(&mut self.gateways, of, name);
        }
        if let Some(vpn) = vpn_of(port) {
            leave(&mut self.annotated, &vpn.vni, name);
        }
    }

    /// The VNIs whose part may read this port, as things are now.
    fn touched(&self, name: &str) -> BTreeSet<Vni> {
        let Some(port) = self.ports.get(name) else { return BTreeSet::new() };
        let mut touched: BTreeSet<Vni> = vpn_of(port).map(|vpn| vpn.vni).into_iter().collect();
        match &port.kind {
            PortKind::Patch { peer, .. } => {
                touched.extend(self.around(port.datapath));
                let other = self.ports.get(peer).map(|other| other.datapath);
                touched.extend(other.into_iter().flat_map(|path| self.around(path)));
            }
            PortKind::Gateway { of, .. } => {
                let router = self.ports.get(of).map(|port| port.datapath);
                touched.extend(router.into_iter().flat_map(|router| self.around(router)));
            }
            PortKind::Localnet { .. } => touched.extend(self.around(port.datapath)),
            // A machine of a provider's network is never exposed.
            PortKind::Machine { .. } if self.localnets(port.datapath).next().is_some() => {}
            PortKind::Machine { .. } => touched.extend(self.around(port.datapath)),
        }
        touched
    }

    /// The VNIs that are written on either end of the cables of a switch or router.
    fn around(&self, path: Uuid) -> impl Iterator<Item = Vni> {
        let names = self.paths.get(&path).into_iter().flat_map(|members| &members.patches);
        names.filter_map(|name| self.ports.get(name)).flat_map(|port| {
            let other = match &port.kind {
                PortKind::Patch { peer, .. } => self.ports.get(peer),
                _ => None,
            };
            [Some(port), other].into_iter().flatten().filter_map(vpn_of).map(|vpn| vpn.vni)
        })
    }
}

fn vpn_of(port: &Port) -> Option<&Vpn> {
    match &port.kind {
        PortKind::Patch { annotation, .. } => annotation.vpn(),
        _ => None,
    }
}

fn leave<K: Ord>(sets: &mut BTreeMap<K, BTreeSet<String>>, key: &K, name: &str) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(name);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}
