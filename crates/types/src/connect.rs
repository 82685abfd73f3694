//! What a `ClusterNetworkConnect` is made of: its subnets, the links cut from them, and the names of
//! its objects. Which network has which block is decided in `causeway-alloc`.

use std::fmt;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{Cidr, ConnectName, Error, Family, NetworkId, NetworkName, NodeName, Result};

/// One of the subnets that links are cut from, and the length of a network's block of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Unchecked", into = "Unchecked")]
pub struct ConnectSubnet {
    cidr: Cidr,
    network_prefix: u8,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Unchecked {
    cidr: Cidr,
    network_prefix: u8,
}

impl ConnectSubnet {
    /// Checks that blocks of this length fit into the subnet and hold at least one link.
    pub fn new(cidr: Cidr, network_prefix: u8) -> Result<Self> {
        if network_prefix <= cidr.prefix_len() || network_prefix >= cidr.family().bits() {
            return Err(Error::NetworkPrefix { cidr, prefix: network_prefix });
        }
        Ok(Self { cidr, network_prefix })
    }

    /// The subnet.
    pub const fn cidr(&self) -> Cidr {
        self.cidr
    }

    /// The length of a block.
    pub const fn network_prefix(&self) -> u8 {
        self.network_prefix
    }

    /// IPv4 or IPv6; blocks and links have the same.
    pub fn family(&self) -> Family {
        self.cidr.family()
    }

    /// How many blocks there are. More than a `u32` of them is as good as that many.
    pub fn blocks(&self) -> u32 {
        saturated(self.network_prefix - self.cidr.prefix_len())
    }

    /// How many links a block holds, up to what a `u32` counts.
    pub fn links_per_block(&self) -> u32 {
        saturated(self.family().bits() - self.network_prefix - 1)
    }

    /// Block number `index`.
    pub fn block(&self, index: u32) -> Result<Cidr> {
        self.cidr.subnet(self.network_prefix, index.into())
    }

    /// Which block this is, or which block a parcel is cut from.
    pub fn index_of(&self, inside: &Cidr) -> Result<u32> {
        let error = Error::SubnetLength { cidr: self.cidr, prefix: inside.prefix_len() };
        if inside.prefix_len() < self.network_prefix {
            return Err(error);
        }
        let block = Cidr::around(inside.base(), self.network_prefix)?;
        u32::try_from(self.cidr.number_of_subnet(&block)?).map_err(|_| error)
    }
}

fn saturated(bits: u8) -> u32 {
    1_u32.checked_shl(bits.into()).unwrap_or(u32::MAX)
}

impl TryFrom<Unchecked> for ConnectSubnet {
    type Error = Error;

    fn try_from(value: Unchecked) -> Result<Self> {
        Self::new(value.cidr, value.network_prefix)
    }
}

impl From<ConnectSubnet> for Unchecked {
    fn from(value: ConnectSubnet) -> Self {
        Self { cidr: value.cidr, network_prefix: value.network_prefix }
    }
}

/// How a connection is rendered, which decides what limits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectTopology {
    /// A distributed router with a port, and so a key, per layer3 network and node.
    Transit,
    /// On the way from one to the other: the ports of both, compact carries.
    Both,
    /// A router local to each zone, one link per network, no keys.
    Compact,
}

impl ConnectTopology {
    const ALL: [Self; 3] = [Self::Transit, Self::Both, Self::Compact];

    /// Whether each node has its own port and key.
    pub const fn has_node_ports(self) -> bool {
        matches!(self, Self::Transit | Self::Both)
    }
}

impl fmt::Display for ConnectTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Transit => "transit",
            Self::Both => "both",
            Self::Compact => "compact",
        })
    }
}

impl FromStr for ConnectTopology {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|topology| topology.to_string() == text);
        found.ok_or_else(|| Error::ConnectTopology(text.to_owned()))
    }
}

/// A point-to-point link between a connect router and a network's router.
///
/// OVN takes a /31's odd address for a broadcast and drops what comes from it, so the connect router,
/// whose "fragmentation needed" must arrive, has the even one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The connect router's side, the even address.
    pub connect_router: IpNet,
    /// The network's router's side, the odd address.
    pub network_router: IpNet,
}

impl Link {
    /// Link number `slot` of a block: the node's id in a layer3 block. A layer2 parcel is a block of one.
    pub fn of(block: &Cidr, slot: u32) -> Result<Self> {
        let error = |_| Error::Link { block: *block, slot };
        let subnet = block.subnet(block.family().link_prefix(), slot.into()).map_err(error)?;
        Ok(Self { connect_router: subnet.interface(0)?, network_router: subnet.interface(1)? })
    }
}

/// Who has a block or a parcel of a connection, as the annotation spells it: `layer3_<network id>` has
/// a block, `layer2_<network id>` a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ConnectOwner {
    /// A layer3 network.
    Layer3(NetworkId),
    /// A layer2 network.
    Layer2(NetworkId),
}

impl ConnectOwner {
    /// The id of the network that has the block or parcel.
    pub const fn network(self) -> NetworkId {
        match self {
            Self::Layer3(id) | Self::Layer2(id) => id,
        }
    }
}

impl fmt::Display for ConnectOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layer3(id) => write!(f, "layer3_{id}"),
            Self::Layer2(id) => write!(f, "layer2_{id}"),
        }
    }
}

impl FromStr for ConnectOwner {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let error = || Error::ConnectOwner(text.to_owned());
        match text.split_once('_') {
            Some(("layer3", id)) => id.parse().map(Self::Layer3).map_err(|_| error()),
            Some(("layer2", id)) => id.parse().map(Self::Layer2).map_err(|_| error()),
            _ => Err(error()),
        }
    }
}

impl TryFrom<String> for ConnectOwner {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<ConnectOwner> for String {
    fn from(owner: ConnectOwner) -> Self {
        owner.to_string()
    }
}

/// The names of one connection's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectNames {
    connect: ConnectName,
}

impl ConnectNames {
    /// The names of this connection's objects.
    pub const fn new(connect: ConnectName) -> Self {
        Self { connect }
    }

    /// The connect router.
    pub fn router(&self) -> String {
        format!("connect-router-{}", self.connect)
    }

    /// Load balancers of all services that the connection makes reachable.
    pub fn service_lb_group(&self) -> String {
        format!("cnc_svc_{}", self.connect)
    }

    /// The connect router's port to a network: per node for layer3, one for layer2.
    pub fn router_to_network(&self, network: &NetworkName, node: Option<&NodeName>) -> String {
        match node {
            Some(node) => format!("{}-to-{network}-{node}", self.connect),
            None => format!("{}-to-{network}", self.connect),
        }
    }

    /// The port of a network's router to the connect router.
    pub fn network_to_router(&self, network: &NetworkName, node: Option<&NodeName>) -> String {
        match node {
            Some(node) => format!("{network}-{node}-to-{}", self.connect),
            None => format!("{network}-to-{}", self.connect),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mac;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    fn subnet(text: &str, prefix: u8) -> ConnectSubnet {
        ConnectSubnet::new(cidr(text), prefix).unwrap()
    }

    fn link(connect: &str, network: &str) -> Link {
        Link { connect_router: connect.parse().unwrap(), network_router: network.parse().unwrap() }
    }

    /// cnc-cases D01, D02, D04, D05, B23, B25.
    #[test]
    fn d01_d02_d04_d05_blocks_must_fit() {
        assert!(ConnectSubnet::new(cidr("192.168.0.0/16"), 24).is_ok());
        assert!(ConnectSubnet::new(cidr("fd00::/48"), 64).is_ok());
        assert_eq!(
            ConnectSubnet::new(cidr("192.168.0.0/24"), 24).unwrap_err().to_string(),
            "connect subnet 192.168.0.0/24: networkPrefix 24 must be longer than /24 and shorter than /32"
        );
        assert!(ConnectSubnet::new(cidr("192.168.0.0/16"), 32).is_err());
        assert!(ConnectSubnet::new(cidr("fd00::/64"), 128).is_err());
    }

    /// cnc-cases E10, E13, E14 give bit-rotated blocks; ours count linearly.
    #[test]
    fn e10_e13_e14_blocks_count_linearly() {
        assert_eq!(subnet("192.168.0.0/16", 26).block(1), Ok(cidr("192.168.0.64/26")));
        assert_eq!(subnet("192.168.0.0/16", 20).block(15), Ok(cidr("192.168.240.0/20")));
        assert!(subnet("192.168.0.0/16", 20).block(16).is_err());
        assert_eq!(subnet("10.0.16.0/20", 26).block(4), Ok(cidr("10.0.17.0/26")));
        assert_eq!(subnet("fd01::/64", 96).block(0), Ok(cidr("fd01::/96")));
    }

    /// cnc-cases H08 and L34: the block of a parcel; a foreign or larger subnet has none.
    #[test]
    fn h08_the_index_of_a_block_and_of_a_parcel() {
        let seed = subnet("192.168.0.0/16", 24);
        assert_eq!(seed.index_of(&cidr("192.168.5.0/24")), Ok(5));
        assert_eq!(seed.index_of(&cidr("192.168.5.100/31")), Ok(5));
        assert!(seed.index_of(&cidr("192.169.5.0/24")).is_err());
        assert!(seed.index_of(&cidr("192.168.4.0/23")).is_err());
        assert!(seed.index_of(&cidr("fd00::/96")).is_err());
    }

    #[test]
    fn counts_saturate_instead_of_overflowing() {
        let wide = subnet("fd00::/8", 64);
        assert_eq!((wide.blocks(), wide.links_per_block()), (u32::MAX, u32::MAX));
        let seed = subnet("192.168.0.0/16", 24);
        assert_eq!((seed.blocks(), seed.links_per_block()), (256, 128));
        assert_eq!(subnet("10.0.0.0/30", 31).links_per_block(), 1);
    }

    /// cnc-cases K01, K02, K04, K05, K07, K08, K10; node 0 and 1 never exist, so K01 is compact's link.
    #[test]
    fn k01_to_k10_links() {
        let table = [
            ("192.168.0.0/24", 0, "192.168.0.0/31", "192.168.0.1/31"),
            ("192.168.0.0/24", 1, "192.168.0.2/31", "192.168.0.3/31"),
            ("fd00::/64", 0, "fd00::/127", "fd00::1/127"),
            ("fd00::/64", 1, "fd00::2/127", "fd00::3/127"),
            ("192.168.0.0/24", 127, "192.168.0.254/31", "192.168.0.255/31"),
            ("10.2.0.0/20", 1000, "10.2.7.208/31", "10.2.7.209/31"),
            ("192.168.4.2/31", 0, "192.168.4.2/31", "192.168.4.3/31"),
        ];
        for (block, slot, connect, network) in table {
            assert_eq!(Link::of(&cidr(block), slot), Ok(link(connect, network)));
        }
        assert_eq!(
            Link::of(&cidr("192.168.0.0/24"), 128).unwrap_err().to_string(),
            "connect block 192.168.0.0/24 has no link number 128"
        );
    }

    /// cnc-cases K11.
    #[test]
    fn k11_the_mac_of_a_dual_stack_link_is_from_ipv4() {
        let four = Link::of(&cidr("192.168.1.0/24"), 1).unwrap();
        let six = Link::of(&cidr("fd00:192:168::/64"), 1).unwrap();
        let mac = |a: &IpNet, b: &IpNet| Mac::from_interfaces([a, b]).unwrap().to_string();
        assert_eq!(mac(&six.connect_router, &four.connect_router), "0a:58:c0:a8:01:02");
        assert_eq!(Mac::from_interfaces([&six.network_router]).unwrap().to_string(), "0a:58:4f:e3:51:d7");
    }

    /// cnc-cases Q01, Q02: the specification's spelling.
    #[test]
    fn q01_q02_names() {
        let names = ConnectNames::new(ConnectName::new("colored-enterprise").unwrap());
        let network = NetworkName::new("blue_blue-network").unwrap();
        let node = NodeName::new("ovn-worker").unwrap();
        let got = [
            names.router(),
            names.router_to_network(&network, Some(&node)),
            names.network_to_router(&network, Some(&node)),
            names.router_to_network(&network, None),
            names.network_to_router(&network, None),
        ];
        let expected = [
            "connect-router-colored-enterprise",
            "colored-enterprise-to-blue_blue-network-ovn-worker",
            "blue_blue-network-ovn-worker-to-colored-enterprise",
            "colored-enterprise-to-blue_blue-network",
            "blue_blue-network-to-colored-enterprise",
        ];
        assert_eq!(got, expected);
    }

    /// cnc-cases M08.
    #[test]
    fn m08_owners() {
        let id = |id| NetworkId::new(id).unwrap();
        let table = [
            ("layer3_1", ConnectOwner::Layer3(id(1))),
            ("layer3_100", ConnectOwner::Layer3(id(100))),
            ("layer2_1", ConnectOwner::Layer2(id(1))),
            ("layer2_50", ConnectOwner::Layer2(id(50))),
        ];
        for (text, owner) in table {
            assert_eq!(text.parse(), Ok(owner));
            assert_eq!(owner.to_string(), text);
        }
        for bad in ["unknown_1", "layer31", "", "layer3_", "layer3_4096", "layer2_01", "layer3_1_2"] {
            assert_eq!(bad.parse::<ConnectOwner>(), Err(Error::ConnectOwner(bad.to_owned())));
        }
    }

    #[test]
    fn a_subnet_travels_checked() {
        let text = r#"{"cidr":"192.168.0.0/16","networkPrefix":24}"#;
        let value: ConnectSubnet = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), text);
        assert!(
            serde_json::from_str::<ConnectSubnet>(r#"{"cidr":"192.168.0.0/16","networkPrefix":16}"#).is_err()
        );
    }
}
