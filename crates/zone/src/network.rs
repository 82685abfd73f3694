//! A network as a zone renders it: everything that follows from its definition and this node's id, computed once.

use std::net::IpAddr;

use causeway_alloc::{HostRange, HostSubnets, PodSubnet as Routed};
use causeway_api::annotations::TunnelKeys;
use causeway_api::crd::{Role, Topology};
use causeway_api::intent::{ClusterConfig, Evpn, Network, PodSubnet, Transport};
use causeway_types::{
    Cidr, DatapathKey, Families, Family, MasqueradePair, NetworkId, NetworkName, NetworkNames, NetworkSet,
    NodeId, TransitPeers, VrfName, join_address, join_router_address, transit_address,
};
use ipnet::IpNet;

use super::problem::{Problem, Reason};

/// What the attachment definitions of a network say of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Spec {
    /// The network as it is meant.
    pub(super) network: Network,
    /// Its number.
    pub(super) id: NetworkId,
    /// Which networks serve the same namespaces, where the cluster manager has said so.
    pub(super) set: Option<NetworkSet>,
    /// The key of a layer2 network's transit router.
    pub(super) router_key: Option<DatapathKey>,
}

/// A network that can be rendered here.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Active {
    /// Its number.
    pub id: NetworkId,
    /// The names of its objects.
    pub names: NetworkNames,
    /// How it is laid out.
    pub topology: Topology,
    /// Its MTU.
    pub mtu: u32,
    /// One for each IP family, IPv4 first.
    pub legs: Vec<Leg>,
    /// The key of a layer2 network's transit router.
    pub router_key: Option<DatapathKey>,
    /// Its place on the fabric, if it has one.
    pub fabric: Option<OnFabric>,
    hosts: Option<HostSubnets>,
}

/// A network's place on the fabric.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OnFabric {
    /// The VTEP whose tunnels carry it.
    pub vtep: String,
    /// The VRF on each node.
    pub vrf: VrfName,
    /// Its number.
    pub vni: u32,
    /// Its route target, where one is written.
    pub route_target: Option<String>,
}

/// The addresses of a network in one IP family, as far as this node is concerned.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Leg {
    /// IPv4 or IPv6; a network has one leg of each at most.
    pub family: Family,
    /// All pod subnets of the network.
    pub subnets: Vec<Cidr>,
    /// The subnet of this node's pods: a layer3 network's part, a layer2 network's first subnet.
    pub subnet: Cidr,
    /// The router's address in it.
    pub gateway: IpNet,
    /// The management port's address in it.
    pub management: IpNet,
    /// The join subnet.
    pub join: Cidr,
    /// The transit subnet.
    pub transit: Cidr,
    /// The masquerade subnet.
    pub masquerade: Cidr,
    /// The network's own addresses in it; the default network has none.
    pub pair: Option<MasqueradePair>,
}

impl Active {
    /// Whether this is the cluster's default network.
    pub fn is_default(&self) -> bool {
        self.id.is_default()
    }

    /// As its NADs carry it; `default` for the default network.
    pub fn name(&self) -> &NetworkName {
        self.names.network()
    }

    /// Which families the network has.
    pub fn families(&self) -> Families {
        self.legs.iter().map(|leg| leg.family).collect()
    }

    /// The key of the network's transit switch, or of its one switch.
    pub fn switch_key(&self) -> DatapathKey {
        DatapathKey::of_network(self.id)
    }

    /// The subnets of another node, IPv4 first; a layer2 network has none of a node.
    ///
    /// # Errors
    /// When the network's subnets do not reach so far.
    pub fn subnets_of(&self, node: NodeId) -> Result<Vec<Cidr>, causeway_alloc::Error> {
        self.hosts.as_ref().map_or(Ok(Vec::new()), |hosts| hosts.of(node))
    }
}

impl Leg {
    /// A node's gateway router in the join subnet.
    ///
    /// # Errors
    /// When the join subnet has no address for the node.
    pub fn join_of(&self, node: NodeId) -> causeway_types::Result<IpNet> {
        join_address(&self.join, node)
    }

    /// The cluster router in the join subnet.
    ///
    /// # Errors
    /// When the join subnet has only one address.
    pub fn join_router(&self) -> causeway_types::Result<IpNet> {
        join_router_address(&self.join)
    }

    /// A node on a layer3 network's transit switch.
    ///
    /// # Errors
    /// When the transit subnet has no address for the node.
    pub fn transit_of(&self, node: NodeId) -> causeway_types::Result<IpNet> {
        transit_address(&self.transit, node)
    }

    /// The link between a layer2 network's transit router and a node's gateway router.
    ///
    /// # Errors
    /// When the transit subnet has no link for the node.
    pub fn peers_of(&self, node: NodeId) -> causeway_types::Result<TransitPeers> {
        TransitPeers::of(&self.transit, node)
    }
}

impl Spec {
    /// The cluster's default network.
    pub(super) fn of_default(subnets: &[PodSubnet], cluster: &ClusterConfig) -> Self {
        let network = Network {
            name: NetworkName::default_network(),
            topology: Topology::Layer3,
            role: Role::Primary,
            mtu: None,
            subnets: subnets.to_vec(),
            exclude_subnets: Vec::new(),
            reserved_subnets: Vec::new(),
            infrastructure_subnets: Vec::new(),
            default_gateways: Vec::new(),
            join_subnets: cluster.join_subnets.clone(),
            transit_subnets: Vec::new(),
            ipam: true,
            persistent_ips: false,
            physical_network: None,
            vlan: None,
            vrf: None,
            transport: Transport::Overlay,
            uplink: None,
        };
        Self { network, id: NetworkId::DEFAULT, set: None, router_key: None }
    }

    /// Checks the tunnel keys of a network against its id.
    pub(super) fn checked_key(
        network: &Network,
        id: NetworkId,
        keys: Option<TunnelKeys>,
    ) -> Result<Option<DatapathKey>, Problem> {
        if network.topology != Topology::Layer2 || !network.is_primary() {
            return Ok(None);
        }
        let problem = |message: String| Problem::new(Reason::TunnelKeys, message);
        match keys.and_then(|keys| keys.0) {
            None => Err(problem(format!("network {} has no tunnel keys yet", network.name))),
            Some([switch, router]) if switch == DatapathKey::of_network(id) && router.is_dynamic() => {
                Ok(Some(router))
            }
            Some([switch, router]) => Err(problem(format!(
                "tunnel keys {switch} and {router} are not those of network {} with id {id}: remove the annotation",
                network.name
            ))),
        }
    }

    /// What the network is on the node with this id.
    pub(super) fn on(&self, node: NodeId, cluster: &ClusterConfig) -> Result<Active, Problem> {
        if let Some(message) = self.network.unsupported() {
            return Err(Problem::new(Reason::Unsupported, message));
        }
        let hosts = self.hosts()?;
        let here = self.subnets_on(node, hosts.as_ref())?;
        let legs: Result<Vec<Leg>, Problem> =
            here.iter().map(|subnet| self.leg(*subnet, node, cluster)).collect();
        Ok(Active {
            id: self.id,
            names: NetworkNames::new(self.network.name.clone()),
            topology: self.network.topology,
            mtu: self.network.mtu.unwrap_or(cluster.mtu),
            legs: legs?,
            fabric: self.fabric()?,
            router_key: self.router_key,
            hosts,
        })
    }

    fn fabric(&self) -> Result<Option<OnFabric>, Problem> {
        let Some(Evpn { vtep, ip_vrf: Some(instance), .. }) = self.network.evpn() else { return Ok(None) };
        let vrf = self.network.vrf_name(self.id);
        Ok(Some(OnFabric {
            vtep: vtep.clone(),
            vrf: vrf.map_err(|problem| self.problem(Reason::Malformed, problem))?,
            vni: instance.vni,
            route_target: instance.route_target.clone(),
        }))
    }

    fn hosts(&self) -> Result<Option<HostSubnets>, Problem> {
        if self.network.topology != Topology::Layer3 {
            return Ok(None);
        }
        let range =
            |subnet: &PodSubnet| HostRange { cidr: subnet.cidr, host_prefix: subnet.effective_host_prefix() };
        let hosts = HostSubnets::new(self.network.subnets.iter().map(range).collect());
        hosts.map(Some).map_err(|error| self.problem(Reason::Malformed, error))
    }

    /// This node's subnets, one of each family, IPv4 first.
    fn subnets_on(&self, node: NodeId, hosts: Option<&HostSubnets>) -> Result<Vec<Cidr>, Problem> {
        if let Some(hosts) = hosts {
            return hosts.of(node).map_err(|error| self.problem(Reason::NoHostSubnet, error));
        }
        let of = |family| self.network.pod_cidrs().find(|cidr| cidr.family() == family);
        Ok(self.network.families().iter().filter_map(of).collect())
    }

    fn leg(&self, subnet: Cidr, node: NodeId, cluster: &ClusterConfig) -> Result<Leg, Problem> {
        let family = subnet.family();
        let network = &self.network;
        let (gateway, management) = self.own_addresses(subnet)?;
        let joins = if self.id.is_default() {
            network.join_subnets.clone()
        } else {
            network.effective_join_subnets(cluster)
        };
        let mut transits = network.effective_transit_subnets(cluster);
        transits.extend(&cluster.transit_subnets);
        let masquerade = self.of_family(family, "masquerade", &cluster.masquerade_subnets)?;
        let leg = Leg {
            family,
            subnets: network.pod_cidrs().filter(|cidr| cidr.family() == family).collect(),
            subnet,
            gateway,
            management,
            join: self.of_family(family, "join", &joins)?,
            transit: self.of_family(family, "transit", &transits)?,
            masquerade,
            pair: self.pair(&masquerade)?,
        };
        self.check_links(&leg, node)?;
        Ok(leg)
    }

    fn own_addresses(&self, subnet: Cidr) -> Result<(IpNet, IpNet), Problem> {
        let wanted = self.network.default_gateways.iter().copied().find(|ip| subnet.contains_address(*ip));
        let routed = Routed::routed(subnet, wanted, &self.network.infrastructure_subnets)
            .map_err(|error| self.problem(Reason::Malformed, error))?;
        let interface = |address: Option<IpAddr>| {
            let address = address.and_then(|address| IpNet::new(address, subnet.prefix_len()).ok());
            address.ok_or_else(|| self.problem(Reason::Malformed, format!("subnet {subnet} has no router")))
        };
        Ok((interface(routed.gateway())?, interface(routed.management())?))
    }

    fn of_family(&self, family: Family, what: &str, cidrs: &[Cidr]) -> Result<Cidr, Problem> {
        cidrs.iter().copied().find(|cidr| cidr.family() == family).ok_or_else(|| {
            let message =
                format!("there is no {family} {what} subnet: add one to the cluster's configuration");
            self.problem(Reason::NoLinkAddress, message)
        })
    }

    fn pair(&self, masquerade: &Cidr) -> Result<Option<MasqueradePair>, Problem> {
        if self.id.is_default() {
            return Ok(None);
        }
        MasqueradePair::of(masquerade, self.id)
            .map(Some)
            .map_err(|error| self.problem(Reason::Masquerade, error))
    }

    fn check_links(&self, leg: &Leg, node: NodeId) -> Result<(), Problem> {
        let problem = |error| self.problem(Reason::NoLinkAddress, error);
        leg.join_router().map_err(problem)?;
        leg.join_of(node).map_err(problem)?;
        match self.network.topology {
            Topology::Layer2 => leg.peers_of(node).map(drop).map_err(problem),
            _ => leg.transit_of(node).map(drop).map_err(problem),
        }
    }

    fn problem(&self, reason: Reason, error: impl std::fmt::Display) -> Problem {
        Problem::new(reason, format!("network {}: {error}", self.network.name))
    }
}
