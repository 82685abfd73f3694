//! Addresses, marks and tables that follow from a network id or a node id. No allocator is involved:
//! given the ids and the cluster's subnets every zone computes the same numbers.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{Cidr, Error, Family, Mac, NetworkId, NodeId, Result};

/// The two addresses that a network has in the masquerade subnet, the same on every node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MasqueradePair {
    /// The source of traffic that leaves by the gateway router.
    pub gateway_router: IpAddr,
    /// The source of traffic that leaves by the management port.
    pub management_port: IpAddr,
}

impl MasqueradePair {
    /// The pair of a network. The default network has none: it uses the shared addresses.
    pub fn of(masquerade: &Cidr, network: NetworkId) -> Result<Self> {
        if network.is_default() {
            return Err(Error::DefaultNetwork("masquerade addresses"));
        }
        let error = |_| Error::Masquerade { cidr: *masquerade, network };
        let second = 10 + 2 * u128::from(network.get());
        if is_broadcast(masquerade, second) {
            return Err(Error::Masquerade { cidr: *masquerade, network });
        }
        Ok(Self {
            gateway_router: masquerade.address(second - 1).map_err(error)?,
            management_port: masquerade.address(second).map_err(error)?,
        })
    }
}

/// The addresses of the masquerade subnet that all networks share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MasqueradeRole {
    /// OVN's own side.
    Ovn = 1,
    /// The node itself: what it sends to services has this source.
    Host = 2,
    /// The host, for services with external traffic policy Local.
    HostLocal = 3,
    /// A next hop that is never answered by anybody but a static binding.
    NextHop = 4,
    /// The source of a pod's traffic to itself through a service.
    Hairpin = 5,
    /// The next hop of every user-defined network's gateway router: the node's bridge takes over from there.
    Exit = 6,
    /// The default network, towards the node's bridge.
    DefaultNetwork = 9,
}

/// A shared address of the masquerade subnet.
pub fn masquerade_address(masquerade: &Cidr, role: MasqueradeRole) -> Result<IpAddr> {
    masquerade.address(role as u128)
}

/// Links between siblings begin behind the addresses of all networks.
const SIBLING_LINKS: u128 = 1 << (MASQUERADE_BITS - 1);

/// The link of a network to the others that serve the same namespaces: two addresses of the masquerade subnet, the same on every
/// node. Nobody may have subnets in there, so no port of a router meets them.
pub fn sibling_link(masquerade: &Cidr, network: NetworkId) -> Result<Cidr> {
    if network.is_default() {
        return Err(Error::DefaultNetwork("siblings"));
    }
    let number = SIBLING_LINKS + u128::from(network.get());
    let error = |_| Error::Masquerade { cidr: *masquerade, network };
    masquerade.subnet(masquerade.family().link_prefix(), number).map_err(error)
}

/// MAC addresses of those who have masquerade addresses on a node's external switch. They are the same on every node, so they
/// never leave it. Whoever knows the masquerade address, of whichever family, knows the MAC: its low bits are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MasqueradeMacs {
    bits: u8,
}

/// Enough for the addresses of all network ids.
const MASQUERADE_BITS: u8 = 14;

impl MasqueradeMacs {
    /// As many bits as all masquerade subnets have for their addresses.
    pub fn of<'a>(masquerades: impl IntoIterator<Item = &'a Cidr>) -> Self {
        let bits = masquerades.into_iter().map(Cidr::host_bits).min().unwrap_or(MASQUERADE_BITS);
        Self { bits: bits.min(MASQUERADE_BITS) }
    }

    /// What all of them have in common.
    pub const BASE: Mac = Mac::new([0x0a, 0x58, 0xa9, 0xfe, 0, 0]);

    /// The bits that all of them have in common.
    pub fn mask(self) -> Mac {
        let [high, low] = (u16::MAX << self.bits).to_be_bytes();
        Mac::new([0xff, 0xff, 0xff, 0xff, high, low])
    }

    /// How many of the low bits are those of the address.
    pub const fn bits(self) -> u8 {
        self.bits
    }

    /// The MAC of whoever has this address of a masquerade subnet.
    pub fn at(self, masquerade: &Cidr, address: IpAddr) -> Result<Mac> {
        let number = masquerade.number_of(address)? & ((1 << self.bits) - 1);
        let [high, low] = u16::try_from(number).unwrap_or_default().to_be_bytes();
        Ok(Mac::new([0x0a, 0x58, 0xa9, 0xfe, high, low]))
    }

    /// The MAC of a role that all networks share.
    pub fn of_role(self, role: MasqueradeRole) -> Mac {
        Mac::new([0x0a, 0x58, 0xa9, 0xfe, 0, role as u8])
    }
}

/// The gateway router's address in a join subnet: base + node id, with the subnet's mask.
pub fn join_address(join: &Cidr, node: NodeId) -> Result<IpNet> {
    node_address("join", join, node)
}

/// The cluster router's address in a join subnet: the first one.
pub fn join_router_address(join: &Cidr) -> Result<IpNet> {
    join.interface(1)
}

/// A node's address on a layer3 network's transit switch: base + node id, with the subnet's mask.
pub fn transit_address(transit: &Cidr, node: NodeId) -> Result<IpNet> {
    node_address("transit", transit, node)
}

fn node_address(what: &'static str, cidr: &Cidr, node: NodeId) -> Result<IpNet> {
    let number = u128::from(node.get());
    let error = Error::NodeAddress { what, cidr: *cidr, node };
    // OVN drops what comes from an IPv4 subnet's last address: it takes it for a broadcast.
    if is_broadcast(cidr, number) {
        return Err(error);
    }
    cidr.interface(number).map_err(|_| error)
}

fn is_broadcast(cidr: &Cidr, number: u128) -> bool {
    cidr.family() == Family::Ipv4 && number == cidr.last_number()
}

/// The link between a layer2 network's transit router and a node's gateway router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransitPeers {
    /// The link's own subnet: a /30 or a /127.
    pub subnet: Cidr,
    /// The transit router's side.
    pub router: IpNet,
    /// The gateway router's side.
    pub gateway: IpNet,
}

impl TransitPeers {
    /// The link of a node, at IPv4 base + 4·(id − 1) or IPv6 base + 2·id.
    pub fn of(transit: &Cidr, node: NodeId) -> Result<Self> {
        let error = |_| Error::NodeAddress { what: "transit", cidr: *transit, node };
        let id = u128::from(node.get());
        let (prefix, number, first) = match transit.family() {
            Family::Ipv4 => (30, id - 1, 1),
            Family::Ipv6 => (127, id, 0),
        };
        let subnet = transit.subnet(prefix, number).map_err(error)?;
        Ok(Self { subnet, router: subnet.interface(first)?, gateway: subnet.interface(first + 1)? })
    }
}

/// The conntrack mark of a network's connections on the external bridge: 1 is the default network,
/// 2 the host.
pub const fn conntrack_mark(network: NetworkId) -> u32 {
    if network.is_default() { 1 } else { 3 + network.get() }
}

/// The mark of a network's packets in the host.
pub fn packet_mark(network: NetworkId) -> Result<u32> {
    if network.is_default() { Err(Error::DefaultNetwork("packet mark")) } else { Ok(4096 + network.get()) }
}

/// The nftables chain that sets a network's packet mark.
pub fn mark_chain(network: NetworkId) -> Result<String> {
    Ok(format!("udn-mark-0x{:x}", packet_mark(network)?))
}

/// The routing table of a network's VRF. From 2^24 on no EVPN VNI can have the same number.
pub fn routing_table(network: NetworkId) -> Result<u32> {
    if network.is_default() {
        Err(Error::DefaultNetwork("routing table"))
    } else {
        Ok((1 << 24) + network.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    fn network(id: u32) -> NetworkId {
        NetworkId::new(id).unwrap()
    }

    fn node(id: u32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    /// udn-ovn-cases A07, udn-cases F025, and B13, D08 for networks 1 and 5.
    #[test]
    fn a07_f025_masquerade_pairs() {
        let table = [
            ("169.254.0.0/17", 1, "169.254.0.11", "169.254.0.12"),
            ("169.254.0.0/17", 2, "169.254.0.13", "169.254.0.14"),
            ("169.254.0.0/17", 5, "169.254.0.19", "169.254.0.20"),
            ("169.254.0.0/17", 100, "169.254.0.209", "169.254.0.210"),
            ("169.254.0.0/17", 4095, "169.254.32.7", "169.254.32.8"),
            ("fd69::/112", 1, "fd69::b", "fd69::c"),
        ];
        for (subnet, id, gateway_router, management_port) in table {
            let pair = MasqueradePair {
                gateway_router: gateway_router.parse().unwrap(),
                management_port: management_port.parse().unwrap(),
            };
            assert_eq!(MasqueradePair::of(&cidr(subnet), network(id)), Ok(pair));
        }
    }

    /// udn-ovn-cases A08, udn-cases F026.
    #[test]
    fn a08_f026_a_pair_that_does_not_exist() {
        let small = MasqueradePair::of(&cidr("169.254.169.0/29"), network(1)).unwrap_err();
        assert_eq!(
            small.to_string(),
            "masquerade subnet 169.254.169.0/29 has no addresses for network id 1: enlarge it, for example to a /17 \
             (IPv4) or /112 (IPv6)"
        );
        assert_eq!(
            MasqueradePair::of(&cidr("169.254.0.0/17"), NetworkId::DEFAULT),
            Err(Error::DefaultNetwork("masquerade addresses"))
        );
    }

    /// J040: links are behind everything else that is in the masquerade subnet, and no two are one.
    #[test]
    fn j040_links_of_siblings() {
        let four = cidr("169.254.0.0/17");
        assert_eq!(sibling_link(&four, network(1)), Ok(cidr("169.254.64.2/31")));
        assert_eq!(sibling_link(&four, NetworkId::LAST), Ok(cidr("169.254.95.254/31")));
        assert_eq!(sibling_link(&cidr("fd69::/112"), network(1)), Ok(cidr("fd69::4002/127")));
        let last = MasqueradePair::of(&four, NetworkId::LAST).unwrap().management_port;
        assert!(last < sibling_link(&four, network(1)).unwrap().base());
        assert!(sibling_link(&cidr("169.254.0.0/18"), network(1)).is_err());
        assert!(sibling_link(&four, NetworkId::DEFAULT).is_err());
    }

    #[test]
    fn shared_masquerade_addresses() {
        let subnet = cidr("169.254.0.0/17");
        let address = |role| masquerade_address(&subnet, role).unwrap().to_string();
        let all = [
            MasqueradeRole::Ovn,
            MasqueradeRole::Host,
            MasqueradeRole::HostLocal,
            MasqueradeRole::NextHop,
            MasqueradeRole::Hairpin,
        ];
        assert_eq!(
            all.map(address),
            ["169.254.0.1", "169.254.0.2", "169.254.0.3", "169.254.0.4", "169.254.0.5"]
        );
        assert_eq!(
            masquerade_address(&cidr("fd69::/112"), MasqueradeRole::Hairpin).unwrap().to_string(),
            "fd69::5"
        );
    }

    #[test]
    fn a_mac_follows_from_the_address_of_either_family() {
        let (four, six) = (cidr("169.254.0.0/17"), cidr("fd69::/112"));
        let macs = MasqueradeMacs::of([&four, &six]);
        for (id, mac) in [(1, "0a:58:a9:fe:00:0b"), (4095, "0a:58:a9:fe:20:07")] {
            for subnet in [four, six] {
                let pair = MasqueradePair::of(&subnet, network(id)).unwrap();
                assert_eq!(macs.at(&subnet, pair.gateway_router).unwrap().to_string(), mac);
            }
        }
        assert_eq!(macs.mask().to_string(), "ff:ff:ff:ff:c0:00");
        assert_eq!(macs.of_role(MasqueradeRole::Exit).to_string(), "0a:58:a9:fe:00:06");
        let small = MasqueradeMacs::of([&cidr("10.1.2.0/24"), &six]);
        assert_eq!((small.bits(), small.mask().to_string()), (8, "ff:ff:ff:ff:ff:00".into()));
        let third = "10.1.2.13".parse().unwrap();
        assert_eq!(small.at(&cidr("10.1.2.0/24"), third).unwrap().to_string(), "0a:58:a9:fe:00:0d");
    }

    /// udn-cases F017 and the derived-address table of the field.
    #[test]
    fn f017_join_and_transit_addresses() {
        let table = [
            ("100.64.0.0/16", 2, "100.64.0.2/16"),
            ("100.65.0.0/16", 4, "100.65.0.4/16"),
            ("fd99::/64", 4, "fd99::4/64"),
            ("100.65.0.0/16", 5000, "100.65.19.136/16"),
            ("fd99::/64", 5000, "fd99::1388/64"),
        ];
        for (subnet, id, address) in table {
            assert_eq!(join_address(&cidr(subnet), node(id)), Ok(net(address)));
        }
        assert_eq!(transit_address(&cidr("100.88.0.0/16"), node(4)), Ok(net("100.88.0.4/16")));
        assert_eq!(transit_address(&cidr("fd97::/64"), node(4)), Ok(net("fd97::4/64")));
        assert_eq!(join_router_address(&cidr("100.65.0.0/16")), Ok(net("100.65.0.1/16")));
    }

    /// udn-ovn-cases A25, udn-cases F028, A052; the network's name is added by who asks.
    #[test]
    fn a25_f028_a052_a_subnet_too_small_for_a_node_id() {
        assert_eq!(
            join_address(&cidr("100.65.0.0/29"), node(9)).unwrap_err().to_string(),
            "join subnet 100.65.0.0/29 has no address for node id 9: use a larger join subnet"
        );
        assert!(join_address(&cidr("100.70.0.0/24"), node(300)).is_err());
        assert!(join_address(&cidr("100.70.0.0/24"), node(254)).is_ok());
        assert!(join_address(&cidr("100.70.0.0/24"), node(255)).is_err(), "the broadcast address");
        assert!(join_address(&cidr("fd99::/120"), node(255)).is_ok());
        assert!(transit_address(&cidr("100.88.0.0/24"), node(256)).is_err());
    }

    /// udn-cases F019, F020; udn-ovn-cases A14; A13, D04, D05 show /31 pairs, our specification has /30.
    #[test]
    fn f019_f020_a13_a14_transit_peers() {
        let table = [
            ("100.88.0.0/16", 2, "100.88.0.4/30", "100.88.0.5/30", "100.88.0.6/30"),
            ("100.88.0.0/16", 3, "100.88.0.8/30", "100.88.0.9/30", "100.88.0.10/30"),
            ("100.88.0.0/16", 4, "100.88.0.12/30", "100.88.0.13/30", "100.88.0.14/30"),
            ("fd97::/64", 2, "fd97::4/127", "fd97::4/127", "fd97::5/127"),
            ("fd97::/64", 3, "fd97::6/127", "fd97::6/127", "fd97::7/127"),
            ("fd97::/64", 4, "fd97::8/127", "fd97::8/127", "fd97::9/127"),
            ("100.90.0.0/16", 4, "100.90.0.12/30", "100.90.0.13/30", "100.90.0.14/30"),
        ];
        for (subnet, id, link, router, gateway) in table {
            let peers = TransitPeers { subnet: cidr(link), router: net(router), gateway: net(gateway) };
            assert_eq!(TransitPeers::of(&cidr(subnet), node(id)), Ok(peers));
        }
        assert_eq!(
            TransitPeers::of(&cidr("100.88.0.0/28"), node(5)),
            Err(Error::NodeAddress { what: "transit", cidr: cidr("100.88.0.0/28"), node: node(5) })
        );
    }

    /// udn-ovn-cases A10.
    #[test]
    fn a10_marks_and_tables() {
        assert_eq!(conntrack_mark(network(5)), 0x8);
        assert_eq!(conntrack_mark(network(1)), 0x4);
        assert_eq!(conntrack_mark(NetworkId::DEFAULT), 0x1);
        assert_eq!(packet_mark(network(5)), Ok(0x1005));
        assert_eq!(mark_chain(network(5)).unwrap(), "udn-mark-0x1005");
        assert_eq!(routing_table(network(7)), Ok(16_777_223));
        assert!(packet_mark(NetworkId::DEFAULT).is_err());
        assert!(routing_table(NetworkId::DEFAULT).is_err());
    }
}
