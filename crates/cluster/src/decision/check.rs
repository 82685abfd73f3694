//! The checks that a network must pass to be connected, and the web of networks that have passed.
//!
//! A network's router must never have two ways to the same address. So the pod subnets of all networks of a
//! connection are apart; and when two connections share a network, which then reaches the networks of both,
//! all networks of both are apart. Every question goes to an index of subnets, never to all pairs.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::crd::{Role, Topology, Transport};
use causeway_types::{
    Cidr, ConnectName, ConnectSubnet, ConnectTopology, Families, Family, NetworkId, NetworkName, SubnetIndex,
};

use super::input::{Cluster, Connect, Network};
use super::ports::{self, Nodes};
use super::reason::LeftOut;

type Check = Result<(), LeftOut>;

/// Networks by id, to be named in messages.
pub(super) struct Names<'a> {
    pub(super) networks: &'a BTreeMap<NetworkName, Network>,
    pub(super) ids: &'a BTreeMap<NetworkId, NetworkName>,
}

impl Names<'_> {
    fn get(&self, id: NetworkId) -> Option<&Network> {
        self.networks.get(self.ids.get(&id)?)
    }
}

/// Pairs of connections that cannot share a network, and why. It stays true while networks only join.
pub(super) type Clashes = BTreeMap<(ConnectName, ConnectName), Clash>;

/// Two networks of different connections, and the pod subnet that they share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clash {
    first: NetworkId,
    second: NetworkId,
    subnet: Cidr,
}

/// The networks of one connection that have passed.
#[derive(Debug, Clone, Default)]
struct Members {
    subnets: Vec<ConnectSubnet>,
    topology: Option<ConnectTopology>,
    pods: SubnetIndex<NetworkId>,
    ipv4_only: BTreeSet<NetworkId>,
    ipv6_only: BTreeSet<NetworkId>,
    all: BTreeSet<NetworkId>,
}

impl Members {
    fn overlap(&self, network: NetworkId, subnet: &Cidr) -> Option<(NetworkId, Cidr)> {
        let other =
            |(cidr, id): (&Cidr, &NetworkId)| (*id, if cidr.contains(subnet) { *subnet } else { *cidr });
        self.pods.overlapping(subnet).map(other).find(|(id, _)| *id != network)
    }

    fn clash(&self, other: &Self) -> Option<Clash> {
        let one = |(subnet, first): (&Cidr, &NetworkId)| {
            let (second, subnet) = other.overlap(*first, subnet)?;
            Some(Clash { first: *first, second, subnet })
        };
        self.pods.iter().find_map(one)
    }
}

/// All networks that have passed, and which connections share one.
#[derive(Debug, Clone, Default)]
pub(super) struct Web {
    members: BTreeMap<ConnectName, Members>,
    memberships: BTreeMap<NetworkId, BTreeSet<ConnectName>>,
    /// With which others a connection shares networks, and how many.
    links: BTreeMap<ConnectName, BTreeMap<ConnectName, usize>>,
}

impl Web {
    /// Takes connections out, so that their networks can be taken in again one by one.
    pub(super) fn forget(&mut self, connects: &BTreeSet<ConnectName>) {
        for connect in connects {
            for network in self.members.remove(connect).unwrap_or_default().all {
                self.forget_membership(network, connect);
            }
            for other in self.links.remove(connect).unwrap_or_default().into_keys() {
                self.links.get_mut(&other).map(|links| links.remove(connect));
            }
        }
    }

    fn forget_membership(&mut self, network: NetworkId, connect: &ConnectName) {
        let Some(of) = self.memberships.get_mut(&network) else { return };
        of.remove(connect);
        if of.is_empty() {
            self.memberships.remove(&network);
        }
    }

    /// The connections that a network has joined.
    pub(super) fn memberships(&self, network: NetworkId) -> impl Iterator<Item = &ConnectName> {
        self.memberships.get(&network).into_iter().flatten()
    }

    /// Whether the network can join the connection. What is found out about pairs of connections goes to
    /// `clashes`, to be asked once.
    pub(super) fn check(
        &self,
        connect: &Connect,
        network: &Network,
        id: NetworkId,
        names: &Names<'_>,
        clashes: &mut Clashes,
    ) -> Check {
        supported(network)?;
        network_conflict(connect, network)?;
        self.families(connect, network, names)?;
        self.subnet_overlap(connect, network, id)?;
        self.pod_overlap(connect, network, id, names)?;
        self.new_links(connect, id, names, clashes)?;
        self.links_beyond(connect, network, id, names)
    }

    /// Whether the network's ports can have their names, or another network has a port of the same name.
    pub(super) fn port_names(
        &self,
        connect: &Connect,
        network: &Network,
        names: &Names<'_>,
        nodes: &Nodes,
    ) -> Check {
        for port in ports::doubtful_names(&connect.name, connect.topology, network, nodes) {
            let own =
                |(name, other): &(ConnectName, &Network)| *name == connect.name && other.name == network.name;
            if let Some((name, other)) = self.ports_called(&port, names, nodes).find(|found| !own(found)) {
                return Err(LeftOut::port_name(network, &port, other, &name));
            }
        }
        Ok(())
    }

    /// The networks that have joined a connection and have a port of this name.
    fn ports_called<'a>(
        &self,
        port: &str,
        names: &Names<'a>,
        nodes: &Nodes,
    ) -> impl Iterator<Item = (ConnectName, &'a Network)> {
        ports::readings(port).flat_map(|(connect, rest)| {
            let topology = self.members.get(&connect).and_then(|members| members.topology);
            let has_joined = |network: &&Network| {
                network.id.is_some_and(|id| self.memberships(id).any(|other| *other == connect))
            };
            let found = topology.map(|topology| ports::network_of(rest, topology, names.networks, nodes));
            let joined: Vec<&Network> = found.into_iter().flatten().filter(has_joined).collect();
            joined.into_iter().map(move |network| (connect.clone(), network))
        })
    }

    /// The network joins the connection.
    pub(super) fn join(&mut self, connect: &Connect, network: &Network, id: NetworkId) {
        let members = self.members.entry(connect.name.clone()).or_default();
        members.subnets.clone_from(&connect.subnets);
        members.topology = Some(connect.topology);
        members.all.insert(id);
        for subnet in &network.subnets {
            members.pods.insert(*subnet, id);
        }
        match usable(connect, network) {
            Families { ipv4: true, ipv6: false } => drop(members.ipv4_only.insert(id)),
            Families { ipv4: false, ipv6: true } => drop(members.ipv6_only.insert(id)),
            _ => {}
        }
        let of = self.memberships.entry(id).or_default();
        if !of.insert(connect.name.clone()) {
            return;
        }
        for other in of.iter().filter(|other| **other != connect.name) {
            for (from, to) in [(other, &connect.name), (&connect.name, other)] {
                *self.links.entry(from.clone()).or_default().entry(to.clone()).or_default() += 1;
            }
        }
    }

    /// The network leaves the connection.
    pub(super) fn leave(&mut self, connect: &ConnectName, network: &Network, id: NetworkId) {
        let Some(of) = self.memberships.get_mut(&id).filter(|of| of.contains(connect)) else { return };
        of.remove(connect);
        for (from, to) in of.iter().flat_map(|other| [(other, connect), (connect, other)]) {
            let Some(links) = self.links.get_mut(from) else { continue };
            if let Some(count) = links.get_mut(to) {
                *count -= 1;
                if *count == 0 {
                    links.remove(to);
                }
            }
        }
        if of.is_empty() {
            self.memberships.remove(&id);
        }
        let Some(members) = self.members.get_mut(connect) else { return };
        for subnet in &network.subnets {
            members.pods.remove(subnet);
        }
        members.ipv4_only.remove(&id);
        members.ipv6_only.remove(&id);
        members.all.remove(&id);
    }

    fn families(&self, connect: &Connect, network: &Network, names: &Names<'_>) -> Check {
        let members = self.members.get(&connect.name);
        let against = |only: fn(&Members) -> &BTreeSet<NetworkId>, own: Family, other: Family| {
            let first = members.and_then(|members| only(members).first()).and_then(|id| names.get(*id));
            first.map_or(Ok(()), |first| Err(LeftOut::families((network, own), (first, other))))
        };
        match usable(connect, network) {
            Families { ipv4: false, ipv6: false } => Err(LeftOut::family_of_links(network)),
            Families { ipv4: true, ipv6: false } => against(|m| &m.ipv6_only, Family::Ipv4, Family::Ipv6),
            Families { ipv4: false, ipv6: true } => against(|m| &m.ipv4_only, Family::Ipv6, Family::Ipv4),
            Families { ipv4: true, ipv6: true } => Ok(()),
        }
    }

    /// Two ports of one router must not be in the same subnet.
    fn subnet_overlap(&self, connect: &Connect, network: &Network, id: NetworkId) -> Check {
        for other in self.memberships(id).filter(|other| **other != connect.name) {
            let theirs = self.members.get(other).into_iter().flat_map(|members| &members.subnets);
            for subnet in theirs {
                let ours = connect.subnets.iter().find(|ours| ours.cidr().overlaps(&subnet.cidr()));
                if let Some(ours) = ours {
                    return Err(LeftOut::subnet_overlap(ours.cidr(), other, network));
                }
            }
        }
        Ok(())
    }

    /// The network's pods against those of the connection and of all that it shares a network with.
    fn pod_overlap(&self, connect: &Connect, network: &Network, id: NetworkId, names: &Names<'_>) -> Check {
        let beyond = self.links.get(&connect.name).into_iter().flat_map(BTreeMap::keys);
        for name in std::iter::once(&connect.name).chain(beyond) {
            let Some(members) = self.members.get(name) else { continue };
            let found = network.subnets.iter().find_map(|subnet| members.overlap(id, subnet));
            let Some((other, subnet)) = found else { continue };
            let other = names.get(other).unwrap_or(network);
            return Err(match name == &connect.name {
                true => LeftOut::overlap(other, network, subnet),
                false => LeftOut::overlap_beyond(other, network, subnet, name),
            });
        }
        Ok(())
    }

    /// If the network brings another connection into reach, all networks of both must be apart.
    fn new_links(&self, connect: &Connect, id: NetworkId, names: &Names<'_>, clashes: &mut Clashes) -> Check {
        let linked = self.links.get(&connect.name);
        let is_new =
            |other: &&ConnectName| **other != connect.name && !linked.is_some_and(|l| l.contains_key(*other));
        for other in self.memberships(id).filter(is_new) {
            let pair = (connect.name.clone(), other.clone());
            let Some(clash) = clashes.get(&pair).copied().or_else(|| self.clash(&connect.name, other)) else {
                continue;
            };
            clashes.insert(pair, clash);
            if let Some((first, second)) = names.get(clash.second).zip(names.get(clash.first)) {
                return Err(LeftOut::overlap_beyond(first, second, clash.subnet, other));
            }
        }
        Ok(())
    }

    /// Links of one connection against pods that their networks reach through another: a router would have two ways to them.
    fn links_beyond(&self, connect: &Connect, network: &Network, id: NetworkId, names: &Names<'_>) -> Check {
        let linked: BTreeSet<&ConnectName> =
            self.links.get(&connect.name).into_iter().flat_map(BTreeMap::keys).collect();
        let joined = self.memberships(id).filter(|other| **other != connect.name);
        let beyond: BTreeSet<&ConnectName> = joined.chain(linked.iter().copied()).collect();
        for other in beyond {
            // A connection of one network has nobody to reach: the second one to join is looked at.
            let joins = |members: &&Members| members.all.iter().any(|member| *member != id);
            let Some(theirs) = self.members.get(other).filter(joins) else { continue };
            let Some(own) = self.members.get(&connect.name).filter(joins) else { continue };
            let own = Some(own).filter(|_| !linked.contains(other));
            let found = crossing(&connect.subnets, &theirs.pods)
                .or_else(|| own.and_then(|own| crossing(&theirs.subnets, &own.pods)))
                .map(|(link, subnet, pods)| (link, subnet, names.get(pods).unwrap_or(network)))
                .or_else(|| {
                    let pairs = theirs
                        .subnets
                        .iter()
                        .flat_map(|link| network.subnets.iter().map(move |pod| (link.cidr(), *pod)));
                    let (link, subnet) = pairs.into_iter().find(|(link, pod)| link.overlaps(pod))?;
                    Some((link, subnet, network))
                });
            if let Some((link, subnet, pods)) = found {
                return Err(LeftOut::conflict_beyond(link, subnet, pods, network, other));
            }
        }
        Ok(())
    }

    fn clash(&self, one: &ConnectName, other: &ConnectName) -> Option<Clash> {
        let (one, other) = (self.members.get(one)?, self.members.get(other)?);
        if one.pods.len() <= other.pods.len() {
            return one.clash(other);
        }
        let Clash { first, second, subnet } = other.clash(one)?;
        Some(Clash { first: second, second: first, subnet })
    }
}

/// A subnet of links that has addresses of pods, that pod subnet, and whose it is.
fn crossing(links: &[ConnectSubnet], pods: &SubnetIndex<NetworkId>) -> Option<(Cidr, Cidr, NetworkId)> {
    links.iter().find_map(|link| {
        let (subnet, id) = pods.overlapping(&link.cidr()).next()?;
        Some((link.cidr(), *subnet, *id))
    })
}

/// What refuses the whole connection: the cluster has no tunnels, or the connection's subnets are the cluster's own.
pub(super) fn cluster_conflict(cluster: &Cluster, connect: &Connect) -> Check {
    if cluster.no_overlay {
        return Err(LeftOut::without_tunnels());
    }
    let own = [("service CIDR", &cluster.service_cidrs), ("masquerade subnet", &cluster.masquerade_subnets)];
    for (what, cidrs) in own {
        if let Some((subnet, other)) = conflict(connect, cidrs) {
            return Err(LeftOut::conflict(subnet, what, other));
        }
    }
    Ok(())
}

fn network_conflict(connect: &Connect, network: &Network) -> Check {
    let all = [
        ("pod subnet", &network.subnets),
        ("transit subnet", &network.transit_subnets),
        ("join subnet", &network.join_subnets),
    ];
    for (what, cidrs) in all {
        if let Some((subnet, other)) = conflict(connect, cidrs) {
            return Err(LeftOut::network_conflict(subnet, what, other, network));
        }
    }
    Ok(())
}

fn conflict(connect: &Connect, cidrs: &[Cidr]) -> Option<(Cidr, Cidr)> {
    let pairs =
        connect.subnets.iter().flat_map(|subnet| cidrs.iter().map(move |cidr| (subnet.cidr(), *cidr)));
    pairs.into_iter().find(|(subnet, cidr)| subnet.overlaps(cidr))
}

fn supported(network: &Network) -> Check {
    if network.topology == Topology::Localnet {
        return Err(LeftOut::localnet(network));
    }
    if network.role == Role::Secondary {
        return Err(LeftOut::secondary(network));
    }
    match network.transport {
        Some(Transport::NoOverlay) => Err(LeftOut::transport(network, "NoOverlay")),
        // Inside of the cluster it has tunnels as every network; the fabric is its way out.
        Some(Transport::Evpn) | None => Ok(()),
    }
}

/// The families in which the connection can carry the network.
fn usable(connect: &Connect, network: &Network) -> Families {
    let links: Families = connect.subnets.iter().map(ConnectSubnet::family).collect();
    Families::of(&network.subnets).shared(links)
}
