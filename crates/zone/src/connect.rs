//! A connection as a zone reads it: which networks have a place in it, and the links and keys that follow from a place.
//!
//! All of it was decided by the cluster manager and is in the object's annotations; nothing is decided here.

use std::collections::BTreeMap;

use causeway_api::annotations::{ConnectBlocks, ConnectSlots, PerFamily};
use causeway_api::crd::Topology;
use causeway_types::{
    Cidr, ConnectName, ConnectNames, ConnectOwner, ConnectSubnet, ConnectTopology, DatapathKey, Families,
    Link, NetworkId, NodeId, PortKey,
};

use super::problem::{Problem, Reason};
use causeway_record as record;

/// A connection whose layout is settled.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConnectInfo {
    /// That of a `ClusterNetworkConnect`, or one made for primary networks that serve the same namespaces.
    pub name: ConnectName,
    /// The names of its objects.
    pub names: ConnectNames,
    /// How it is laid out.
    pub topology: ConnectTopology,
    /// Whether pods reach pods.
    pub pods: bool,
    /// Whether pods reach services.
    pub services: bool,
    /// The tunnel key of its router, where that spans zones.
    pub router_key: Option<DatapathKey>,
    /// The networks that have a place, or why a place cannot be used.
    pub places: BTreeMap<NetworkId, Result<Place, String>>,
}

/// The place of a network in a connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// How the network is laid out: layer3 has a block, layer2 a parcel.
    pub topology: Topology,
    /// The block or parcel of each family, IPv4 first.
    blocks: Vec<Cidr>,
    index: u32,
    /// Of a parcel in its block.
    slot: u32,
    /// How many links of a block have keys; none have where the router is local to the zone.
    slots: Option<u32>,
}

impl ConnectInfo {
    /// The connection between networks that serve the same namespaces: for pods, local to each zone. Services of the namespaces are
    /// on all of them anyway.
    pub(super) fn of_siblings(name: ConnectName, places: BTreeMap<NetworkId, Result<Place, String>>) -> Self {
        Self {
            names: ConnectNames::new(name.clone()),
            name,
            topology: ConnectTopology::Compact,
            pods: true,
            services: false,
            router_key: None,
            places,
        }
    }

    /// What it comes from, for messages.
    pub fn text(&self) -> String {
        match self.name.is_of_siblings() {
            true => "the road between primary networks of one namespace".to_owned(),
            false => format!("ClusterNetworkConnect {}", self.name),
        }
    }

    /// Whether anything is rendered on the connected networks.
    pub fn touches_networks(&self) -> bool {
        self.pods || self.services
    }

    /// Whether there is anybody to reach: a network alone gets its link, but no routes and no policies.
    pub fn joins(&self) -> bool {
        self.touches_networks() && self.places.len() > 1
    }

    /// Whether direct traffic between pods must be kept off the roads: services alone are granted.
    pub fn needs_guards(&self) -> bool {
        self.joins() && !self.pods
    }

    /// Whether a link that is the same on every node carries the traffic.
    pub fn is_compact(&self) -> bool {
        self.topology != ConnectTopology::Transit
    }

    /// Whether networks that only others reach need not be there as a whole. While a connection moves from one layout to the other,
    /// it has both.
    pub fn has_stubs(&self) -> bool {
        self.topology == ConnectTopology::Compact
    }

    /// The families in which networks have places.
    pub fn families(&self) -> Families {
        self.places.values().flatten().flat_map(|place| place.families().iter()).collect()
    }

    /// The last of the blocks of which each node has a link, if there are any.
    pub(super) fn last_block(&self) -> Option<&Place> {
        let blocks = self.places.values().flatten().filter(|place| place.topology == Topology::Layer3);
        blocks.filter(|_| self.topology.has_node_ports()).max_by_key(|place| place.index)
    }

    /// What is not rendered of it, as far as that follows from the object alone.
    pub(super) fn problem(&self) -> Option<Problem> {
        let unusable = |(id, place): (&NetworkId, &Result<Place, String>)| {
            place.as_ref().err().map(|error| format!("network with id {id}: {error}"))
        };
        let texts: Vec<String> = self.places.iter().filter_map(unusable).collect();
        let message = || format!("{}: {}", self.text(), texts.join("; "));
        (!texts.is_empty()).then(|| Problem::new(Reason::Malformed, message()))
    }
}

impl Place {
    /// The place of a network among its siblings: a link of each family, which follows from its number.
    pub(super) fn of_sibling(topology: Topology, links: Vec<Cidr>, id: NetworkId) -> Self {
        Self { topology, blocks: links, index: id.get(), slot: 0, slots: None }
    }

    /// The block or parcel of each family.
    pub fn blocks(&self) -> impl Iterator<Item = Cidr> {
        self.blocks.iter().copied()
    }

    /// The number of the block, and that of the parcel in it where it is one: what an allocator knows it by.
    pub fn position(&self) -> (u32, Option<u32>) {
        (self.index, (self.topology == Topology::Layer2).then_some(self.slot))
    }

    /// The families of its blocks.
    pub fn families(&self) -> Families {
        Families::of(&self.blocks)
    }

    /// The links of a node, or those that are the same on every node, IPv4 first; only of these families.
    ///
    /// # Errors
    /// When the block has no link for the node, or none of the families.
    pub fn links(&self, node: Option<NodeId>, families: Families) -> Result<Vec<Link>, String> {
        let blocks = self.blocks.iter().filter(|block| families.has(block.family()));
        let slot = node.map_or(0, NodeId::get);
        let links: Result<Vec<Link>, _> = blocks.map(|block| Link::of(block, slot)).collect();
        match links {
            Ok(links) if links.is_empty() => Err("there is no block of the network's IP families".into()),
            links => links.map_err(|error| error.to_string()),
        }
    }

    /// The key of that link's port on the connect router; none where the router is local to the zone.
    ///
    /// # Errors
    /// When so many links have no keys.
    pub fn key(&self, node: Option<NodeId>) -> Result<Option<PortKey>, String> {
        let slot = node.map_or(self.slot, NodeId::get);
        let key = self.slots.map(|slots| PortKey::on_connect_router(self.index, slots, slot));
        key.transpose().map_err(|error| error.to_string())
    }
}

/// Reads an object; nothing while its layout is not settled.
pub(super) fn read(connect: &record::Connect) -> Result<Option<ConnectInfo>, Problem> {
    let name = &connect.name;
    let problem =
        |reason, text: String| Problem::new(reason, format!("ClusterNetworkConnect {name}: {text}"));
    let malformed = |text: &String| problem(Reason::Malformed, text.clone());
    let spec = connect.spec.as_ref().map_err(malformed)?;
    let Some(topology) = *connect.topology.as_ref().map_err(malformed)? else { return Ok(None) };
    let blocks = connect.blocks.as_ref().map_err(malformed)?.clone().unwrap_or_default();
    let router_key = connect.router_key.as_ref().map_err(malformed)?.map(|key| key.0);
    let slots = connect.slots.as_ref().map_err(malformed)?.map(ConnectSlots::get);
    let keyed = topology.has_node_ports();
    if keyed && (router_key.is_none() || (slots.is_none() && !blocks.0.is_empty())) {
        let text = "its router has no tunnel key or its ports have no numbers yet";
        return Err(problem(Reason::TunnelKeys, text.into()));
    }
    Ok(Some(ConnectInfo {
        name: name.clone(),
        names: ConnectNames::new(name.clone()),
        topology,
        pods: spec.pods,
        services: spec.services,
        router_key: router_key.filter(|_| keyed),
        places: places(&blocks, &spec.subnets, slots.filter(|_| keyed)),
    }))
}

fn places(
    blocks: &ConnectBlocks,
    subnets: &[ConnectSubnet],
    slots: Option<u32>,
) -> BTreeMap<NetworkId, Result<Place, String>> {
    let mut places: BTreeMap<NetworkId, Result<Place, String>> = BTreeMap::new();
    for (owner, blocks) in &blocks.0 {
        let place = place(*owner, blocks, subnets, slots);
        if places.insert(owner.network(), place).is_some() {
            places.insert(owner.network(), Err("it has a place as layer2 and one as layer3 network".into()));
        }
    }
    refuse_shared(&mut places);
    places
}

/// Two in one place would have one address and one key: neither is rendered any further.
fn refuse_shared(places: &mut BTreeMap<NetworkId, Result<Place, String>>) {
    let mut blocks: BTreeMap<(u32, Topology), usize> = BTreeMap::new();
    let mut parcels: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for place in places.values().flatten() {
        *blocks.entry((place.index, place.topology)).or_default() += 1;
        *parcels.entry((place.index, place.slot)).or_default() += 1;
    }
    for place in places.values_mut() {
        let Ok(Place { index, topology, slot, .. }) = *place else { continue };
        let whole = blocks.get(&(index, Topology::Layer3)).copied().unwrap_or(0);
        let shared = match topology {
            Topology::Layer3 => whole + blocks.get(&(index, Topology::Layer2)).copied().unwrap_or(0) > 1,
            _ => whole > 0 || parcels.get(&(index, slot)).is_some_and(|count| *count > 1),
        };
        if shared {
            *place = Err("another network has the same block or parcel".into());
        }
    }
}

fn place(
    owner: ConnectOwner,
    blocks: &PerFamily<Cidr>,
    subnets: &[ConnectSubnet],
    slots: Option<u32>,
) -> Result<Place, String> {
    if owner.network().is_default() {
        return Err("the default network cannot be connected".into());
    }
    let topology = match owner {
        ConnectOwner::Layer3(_) => Topology::Layer3,
        ConnectOwner::Layer2(_) => Topology::Layer2,
    };
    let blocks: Vec<Cidr> = blocks.iter().copied().collect();
    let positions: Result<Vec<(u32, u32)>, String> =
        blocks.iter().map(|block| position(owner, block, subnets)).collect();
    let positions = positions?;
    match positions.first() {
        Some(first @ (index, slot)) if positions.iter().all(|position| position == first) => {
            Ok(Place { topology, blocks, index: *index, slot: *slot, slots })
        }
        _ => Err("its places differ between IPv4 and IPv6".into()),
    }
}

/// Which block this is, or in which block and where in it a parcel is.
fn position(owner: ConnectOwner, block: &Cidr, subnets: &[ConnectSubnet]) -> Result<(u32, u32), String> {
    let outside = || format!("{block} is not cut from connectSubnets");
    let subnet = subnets.iter().find(|subnet| subnet.cidr().contains(block)).ok_or_else(outside)?;
    let length = match owner {
        ConnectOwner::Layer3(_) => subnet.network_prefix(),
        ConnectOwner::Layer2(_) => block.family().link_prefix(),
    };
    if block.prefix_len() != length {
        return Err(format!("{block} is not a /{length}"));
    }
    let index = subnet.index_of(block).map_err(|error| error.to_string())?;
    let whole = subnet.block(index).map_err(|error| error.to_string())?;
    let slot = match owner {
        ConnectOwner::Layer3(_) => 0,
        ConnectOwner::Layer2(_) => whole.number_of_subnet(block).map_err(|error| error.to_string())?,
    };
    Ok((index, u32::try_from(slot).map_err(|_| outside())?))
}
