//! What pods draw from: addresses, MACs and, on layer2 networks, tunnel ids.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_alloc::{AddressOwner, AddressPool, Error, Macs, PodSubnet, PodTunnelIds};
use causeway_api::annotations::PodNetwork;
use causeway_api::crd::Topology;
use causeway_api::intent::Network;
use causeway_types::{Cidr, Mac, NetworkId, PortKey};
use ipnet::IpNet;

use crate::keys::PoolKey;

/// All pools that pods have drawn from.
#[derive(Debug, Default)]
pub(super) struct Pools {
    all: BTreeMap<PoolKey, Pool>,
    /// Networks whose pools may have changed since somebody asked last.
    moved: BTreeSet<NetworkId>,
}

impl Pools {
    pub(super) fn get(&self, key: PoolKey) -> Option<&Pool> {
        self.all.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: PoolKey) -> Option<&mut Pool> {
        self.moved.insert(key.network);
        self.all.get_mut(&key)
    }

    /// The pool, made if it is not there.
    pub(super) fn entry(
        &mut self,
        key: PoolKey,
        make: impl FnOnce() -> Result<Pool, Error>,
    ) -> Result<&mut Pool, Error> {
        self.moved.insert(key.network);
        match self.all.entry(key) {
            std::collections::btree_map::Entry::Occupied(entry) => Ok(entry.into_mut()),
            std::collections::btree_map::Entry::Vacant(entry) => Ok(entry.insert(make()?)),
        }
    }

    /// Networks whose pools may have changed since this was asked last; all of them if everything is looked at again.
    pub(super) fn take_moved(&mut self, all: bool) -> BTreeSet<NetworkId> {
        let mut moved = std::mem::take(&mut self.moved);
        if all {
            moved.extend(self.all.keys().map(|key| key.network));
        }
        moved
    }

    /// A network's pools.
    pub(super) fn of(&self, network: NetworkId) -> impl Iterator<Item = (&PoolKey, &Pool)> {
        let first = PoolKey { network, node: None };
        self.all.range(first..).take_while(move |(key, _)| key.network == network)
    }

    pub(super) fn drop_network(&mut self, network: NetworkId) {
        self.moved.insert(network);
        self.all.retain(|key, _| key.network != network);
    }
}

#[derive(Debug)]
pub(super) struct Pool {
    addresses: AddressPool<AddressOwner>,
    macs: Macs<AddressOwner>,
    tunnels: Option<PodTunnelIds<AddressOwner>>,
    /// How many pods find a place in it while it is empty.
    places: usize,
}

/// What a pod asks for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Asked {
    pub(super) addresses: Vec<IpNet>,
    pub(super) mac: Option<Mac>,
}

/// What a pod gets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Given {
    pub(super) addresses: Vec<IpNet>,
    pub(super) mac: Mac,
    pub(super) tunnel: Option<PortKey>,
    pub(super) gateways: Vec<IpAddr>,
}

impl Pool {
    fn new(subnets: Vec<PodSubnet>, tunnels: bool) -> Result<Self, Error> {
        let gateways: Vec<IpAddr> = subnets.iter().filter_map(PodSubnet::gateway).collect();
        let managements: Vec<IpAddr> = subnets.iter().filter_map(PodSubnet::management).collect();
        let platform = [Mac::from_ips(gateways), Mac::from_ips(managements)];
        let mut pool = Self {
            addresses: AddressPool::new(subnets)?,
            macs: Macs::new(platform.into_iter().flatten()),
            tunnels: tunnels.then(PodTunnelIds::new),
            places: 0,
        };
        pool.places = pool.free();
        Ok(pool)
    }

    /// A node's part of a network that routes between nodes.
    pub(super) fn of_node(subnets: &[Cidr]) -> Result<Self, Error> {
        let routed = subnets.iter().map(|cidr| PodSubnet::routed(*cidr, None, &[]));
        Self::new(routed.collect::<Result<_, _>>()?, false)
    }

    /// A network that is one subnet for all nodes.
    pub(super) fn of_network(network: &Network) -> Result<Self, Error> {
        let subnet = |cidr: Cidr| {
            let gateway = network.default_gateways.iter().find(|address| cidr.contains_address(**address));
            let subnet = if network.is_primary() {
                PodSubnet::routed(cidr, gateway.copied(), &network.infrastructure_subnets)?
            } else {
                PodSubnet::flat(cidr)
            };
            Ok(subnet.excluding(&network.exclude_subnets).on_request(&network.reserved_subnets))
        };
        let subnets = network.pod_cidrs().map(subnet).collect::<Result<_, Error>>()?;
        Self::new(subnets, network.topology == Topology::Layer2)
    }

    /// Gives the owner addresses, a MAC and a tunnel id: all of them or none.
    pub(super) fn give(
        &mut self,
        owner: &AddressOwner,
        asked: &Asked,
        identity: Mac,
    ) -> Result<Given, Error> {
        let given = self.try_give(owner, asked, identity);
        if given.is_err() {
            self.release(owner);
        }
        given
    }

    fn try_give(&mut self, owner: &AddressOwner, asked: &Asked, identity: Mac) -> Result<Given, Error> {
        let wanted: Vec<IpAddr> = asked.addresses.iter().map(IpNet::addr).collect();
        let addresses = if self.addresses.subnets().next().is_none() {
            // Without address management the pod brings its own.
            asked.addresses.clone()
        } else if wanted.is_empty() {
            self.addresses.reserve(owner)?
        } else {
            self.addresses.request(owner, &wanted)?
        };
        let mac = self.give_mac(owner, asked.mac, &addresses, identity)?;
        let tunnel = self.tunnels.as_mut().map(|ids| ids.reserve(owner)).transpose()?;
        self.commit(owner);
        Ok(Given { addresses, mac, tunnel, gateways: self.gateways() })
    }

    /// A MAC that follows from the address may have been asked for by somebody else; then one that follows from the pod
    /// will do.
    fn give_mac(
        &mut self,
        owner: &AddressOwner,
        asked: Option<Mac>,
        addresses: &[IpNet],
        identity: Mac,
    ) -> Result<Mac, Error> {
        if let Some(mac) = asked {
            return self.macs.request(owner, mac).map(|()| mac);
        }
        let derived = Mac::from_interfaces(addresses);
        if let Some(mac) = derived.filter(|mac| self.macs.request(owner, *mac).is_ok()) {
            return Ok(mac);
        }
        self.macs.request(owner, identity).map(|()| identity)
    }

    /// Takes up what a pod's annotation says it has.
    pub(super) fn adopt(&mut self, owner: &AddressOwner, entry: &PodNetwork) -> Result<(), Error> {
        let adopted = self.try_adopt(owner, entry);
        if adopted.is_err() {
            self.release(owner);
        }
        adopted
    }

    fn try_adopt(&mut self, owner: &AddressOwner, entry: &PodNetwork) -> Result<(), Error> {
        let addresses: Vec<IpAddr> = entry.ip_addresses.iter().map(IpNet::addr).collect();
        if self.addresses.subnets().next().is_some() {
            self.addresses.request(owner, &addresses)?;
        }
        self.macs.request(owner, entry.mac_address)?;
        if let (Some(ids), Some(id)) = (&mut self.tunnels, entry.tunnel_id) {
            ids.request(owner, id)?;
        }
        self.commit(owner);
        Ok(())
    }

    fn commit(&mut self, owner: &AddressOwner) {
        self.addresses.commit(owner);
        self.macs.commit(owner);
        if let Some(ids) = &mut self.tunnels {
            ids.commit(owner);
        }
    }

    /// The owner is gone.
    pub(super) fn release(&mut self, owner: &AddressOwner) {
        self.addresses.release(owner);
        self.macs.release(owner);
        if let Some(ids) = &mut self.tunnels {
            ids.release(owner);
        }
    }

    /// Whether somebody who asks for these addresses may find a place: those of them that are here are free.
    pub(super) fn may_serve(&self, asked: &[IpAddr]) -> bool {
        asked.iter().all(|address| self.addresses.holder(*address).is_none())
    }

    /// The routers' addresses, in the subnets' order.
    pub(super) fn gateways(&self) -> Vec<IpAddr> {
        self.addresses.subnets().filter_map(PodSubnet::gateway).collect()
    }

    /// Whether nine of ten places are taken.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.is_nearly_full_with(self.free())
    }

    /// How many pods have a place.
    pub(super) fn used(&self) -> usize {
        self.macs.held()
    }

    /// Whether they are with so many free ones.
    pub(super) fn is_nearly_full_with(&self, free: usize) -> bool {
        self.places > 0 && free <= self.places / 10
    }

    /// How many more pods find a place.
    pub(super) fn free(&self) -> usize {
        let addresses = usize::try_from(self.addresses.free()).unwrap_or(usize::MAX);
        let tunnels = self.tunnels.as_ref().map_or(usize::MAX, |ids| ids.free() as usize);
        addresses.min(tunnels)
    }
}
