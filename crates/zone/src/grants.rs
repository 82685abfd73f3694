//! What follows from a connection outside of its own rows: services join its group, and guards of other connections let
//! pass what it grants.

use std::collections::BTreeSet;

use causeway_types::{Cidr, NetworkId, NetworkName, SubnetIndex};

use super::connect::ConnectInfo;
use super::{Change, Changes, Zone};

impl Zone {
    /// The connections that make the services of a network reachable from others.
    pub fn service_connects(&self, network: &NetworkName) -> impl Iterator<Item = &ConnectInfo> {
        self.connects_of(network).filter(|info| info.services)
    }

    /// The pod subnets that pods of a network may reach directly, whatever this connection says: its own, and those of
    /// networks that another connection connects it with for pods. A network that grows into addresses of another member
    /// of this connection does not open the way to that member.
    pub fn granted(&self, connect: &ConnectInfo, network: &NetworkName) -> BTreeSet<Cidr> {
        let mut owners: SubnetIndex<BTreeSet<&NetworkName>> = SubnetIndex::new();
        for (member, subnet) in self.members(connect).flat_map(|member| self.pod_subnets(member)) {
            match owners.get_mut(&subnet) {
                Some(names) => drop(names.insert(member)),
                None => drop(owners.insert(subnet, BTreeSet::from([member]))),
            }
        }
        let is_free = |peer: &NetworkName, subnet: &Cidr| {
            owners.overlapping(subnet).all(|(_, names)| names.iter().all(|name| *name == peer))
        };
        let peers = self.pod_connects(network).flat_map(|info| self.members(info)).chain([network]);
        let subnets = peers.flat_map(|peer| self.pod_subnets(peer));
        subnets.filter(|(peer, subnet)| is_free(peer, subnet)).map(|(_, subnet)| subnet).collect()
    }

    /// The subnets of all pods whom policies on a network may mean, its own among them.
    pub fn subnets_in_reach(&self, network: &NetworkName) -> BTreeSet<Cidr> {
        let networks = self.reach(network);
        networks.iter().flat_map(|network| self.pod_subnets(network)).map(|(_, subnet)| subnet).collect()
    }

    pub(super) fn pod_subnets<'a>(
        &'a self,
        network: &'a NetworkName,
    ) -> impl Iterator<Item = (&'a NetworkName, Cidr)> {
        let legs = self.active(network).into_iter().flat_map(|net| &net.legs);
        legs.flat_map(move |leg| leg.subnets.iter().map(move |subnet| (network, *subnet)))
    }

    /// The connections by which pods of a network reach pods of others.
    pub(super) fn pod_connects(&self, network: &NetworkName) -> impl Iterator<Item = &ConnectInfo> {
        self.connects_of(network).filter(|info| info.pods && info.joins())
    }

    /// A connection has changed, and with it which services of its networks are offered, and which subnets are granted.
    pub(super) fn grants_of_changed(
        &self,
        old: Option<&ConnectInfo>,
        new: Option<&ConnectInfo>,
        changes: &mut Changes,
    ) {
        let ids = |info: Option<&ConnectInfo>, grants: fn(&ConnectInfo) -> bool| -> BTreeSet<NetworkId> {
            let granting = info.filter(|info| grants(info));
            granting.into_iter().flat_map(|info| info.places.keys().copied()).collect()
        };
        let (before, after) = (ids(old, |info| info.services), ids(new, |info| info.services));
        // What is offered is offered in the families of the connection, which are those of all its places.
        let families = |info: Option<&ConnectInfo>| info.map(ConnectInfo::families);
        let offering = if families(old) == families(new) { &before ^ &after } else { &before | &after };
        for network in offering.iter().flat_map(|id| self.networks.with_id(*id)) {
            changes.add(Change::Offers(network.clone()));
        }
        let for_pods = |info: &ConnectInfo| info.pods && info.joins();
        let (before, after) = (ids(old, for_pods), ids(new, for_pods));
        if before != after {
            let concerned = before.union(&after).flat_map(|id| self.networks.with_id(*id));
            concerned.for_each(|network| changes.add(Change::Grants(network.clone())));
        }
    }

    /// A network of a connection has changed: others may reach its subnets, if these are granted. What guards let pass depends on
    /// the subnets of all members, for no grant opens the way to another member.
    pub(super) fn grants_changed(&self, info: &ConnectInfo, changes: &mut Changes) {
        if info.pods || info.needs_guards() {
            self.members(info).for_each(|network| changes.add(Change::Grants(network.clone())));
        }
    }
}
