//! The words of which flows of the node's bridge are made: its ports, its addresses in one family, and the steps that many flows
//! share.

use std::net::IpAddr;

use causeway_types::host::{Flow, Item};
use causeway_types::{Cidr, Family, Mac, MasqueradeMacs, MasqueradeRole, masquerade_address};
use causeway_zone::{Active, BridgePorts, Gateway, Protocol, Zone};

/// Connections of everybody who leaves the node by its address: networks, and the node itself.
pub(super) const SHARED_ZONE: u16 = 64000;
/// The node's connections to services.
pub(super) const HOST_ZONE: u16 = 64001;
/// Connections of the node to an endpoint of its own.
pub(super) const OWN_ZONE: u16 = 64002;
/// Connections to services by addresses of the node.
pub(super) const SERVICE_ZONE: u16 = 64003;

/// Parts of packets, until they are whole; no connection is ever kept here.
pub(super) const PARTS_ZONE: u16 = 64004;

/// Marks in the shared zone: who the other end is.
pub(super) const MARK_OVN: u8 = 1;
pub(super) const MARK_HOST: u8 = 2;

/// The tables, by what is asked there.
pub(super) const ARRIVED: u8 = 0;
pub(super) const FROM_WIRE: u8 = 1;
pub(super) const TO_SERVICE: u8 = 2;
pub(super) const TO_HOST: u8 = 3;
/// Whether what comes to an address of the node belongs to a connection that is known.
pub(super) const ASKED_AT_NODE: u8 = 4;
pub(super) const EXPOSED: u8 = 5;
pub(super) const ANSWERED: u8 = 6;
/// Whether an error is about an answer of a service.
pub(super) const ABOUT_ANSWERS: u8 = 7;
pub(super) const OWN_ENDPOINT: u8 = 9;

/// The node's bridge, with all that flows name.
pub(super) struct Bridge {
    name: String,
    patch: u32,
    uplink: u32,
    vlan: Option<u16>,
    /// The node's own MAC, which the default network's gateway router has too.
    pub(super) mac: Mac,
    pub(super) macs: MasqueradeMacs,
    pub(super) next_hops: Vec<IpAddr>,
    /// IPv4, IPv6, or both.
    pub(super) sides: Vec<Side>,
}

/// What the bridge has in one family.
pub(super) struct Side {
    pub(super) family: Family,
    /// Addresses of the node; what leaves has the first as its source.
    pub(super) own: Vec<IpAddr>,
    pub(super) masquerade: Cidr,
    pub(super) services: Vec<Cidr>,
    /// Ranges of the cluster that nobody beyond the bridge has any business with.
    pub(super) inside: Vec<Cidr>,
}

impl Bridge {
    /// The bridge, if the node has a way out.
    ///
    /// # Errors
    /// What is not known yet.
    pub(super) fn of(zone: &Zone) -> Result<Option<Self>, String> {
        let Some(gateway) = zone.gateway()?.filter(|gateway| !gateway.local) else { return Ok(None) };
        let ports = zone.bridge().filter(|ports| ports.bridge == gateway.bridge);
        let missing =
            |what: &str| format!("the number of {what} of bridge {} is not known yet", gateway.bridge);
        let (patch, uplink) = ports.map_or((None, None), |ports: &BridgePorts| (ports.patch, ports.uplink));
        let cluster = &zone.config().cluster;
        let sides = Family::ALL.into_iter().filter_map(|family| Side::of(zone, gateway, family));
        Ok(Some(Self {
            name: gateway.bridge.clone(),
            patch: patch.ok_or_else(|| missing("the patch port"))?,
            uplink: uplink.ok_or_else(|| missing("the uplink"))?,
            vlan: gateway.vlan,
            mac: gateway.mac,
            macs: MasqueradeMacs::of(&cluster.masquerade_subnets),
            next_hops: gateway.next_hops.clone(),
            sides: sides.collect(),
        }))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn flow(
        &self,
        table: u8,
        priority: u16,
        matches: impl Into<String>,
        actions: impl Into<String>,
    ) -> Item {
        let (matches, actions) = (matches.into(), actions.into());
        Item::Flow(Flow { bridge: self.name.clone(), table, priority, matches, actions })
    }

    pub(super) fn side(&self, family: Family) -> Option<&Side> {
        self.sides.iter().find(|side| side.family == family)
    }

    /// The MAC of a network's gateway router.
    pub(super) fn router_of(&self, network: &Active) -> Option<Mac> {
        let pair = network.legs.iter().find_map(|leg| Some((leg.masquerade, leg.pair?.gateway_router)));
        match pair {
            Some((masquerade, address)) => self.macs.at(&masquerade, address).ok(),
            None => Some(self.mac),
        }
    }

    /// The next hop of user-defined networks.
    pub(super) fn exit(&self) -> Mac {
        self.macs.of_role(MasqueradeRole::Exit)
    }

    /// Who hands packets to the host.
    pub(super) fn next_hop(&self) -> Mac {
        self.macs.of_role(MasqueradeRole::NextHop)
    }

    /// Matches what gateway routers send, and whoever else is behind the patch port.
    pub(super) fn sent_by_ovn(&self) -> String {
        format!("in_port={}", self.patch)
    }

    /// Matches what user-defined networks send.
    pub(super) fn sent_by_users(&self) -> String {
        format!("in_port={},dl_dst={}", self.patch, self.exit())
    }

    /// Matches what the default network's gateway router sends.
    pub(super) fn sent_by_default(&self) -> String {
        format!("in_port={},dl_src={}", self.patch, self.mac)
    }

    pub(super) fn sent_by_host(&self) -> &'static str {
        "in_port=LOCAL"
    }

    /// Matches what comes from the wire.
    pub(super) fn sent_by_wire(&self) -> String {
        let tag = self.vlan.map(|vlan| format!(",dl_vlan={vlan}")).unwrap_or_default();
        format!("in_port={}{tag}", self.uplink)
    }

    /// These actions, for a packet that comes from the wire.
    pub(super) fn off_wire(&self, actions: &str) -> String {
        if self.vlan.is_some() { format!("strip_vlan,{actions}") } else { actions.to_owned() }
    }

    pub(super) fn to_ovn(&self) -> String {
        format!("output:{}", self.patch)
    }

    pub(super) fn to_wire(&self) -> String {
        let tag = self.vlan.map(|vlan| format!("mod_vlan_vid:{vlan},")).unwrap_or_default();
        format!("{tag}output:{}", self.uplink)
    }

    /// To the host, as from a neighbour of the host's own.
    pub(super) fn to_host(&self) -> String {
        format!("set_field:{}->eth_src,set_field:{}->eth_dst,LOCAL", self.next_hop(), self.mac)
    }

    /// To the default network's gateway router.
    pub(super) fn towards_default(&self) -> String {
        format!("set_field:{}->eth_dst", self.mac)
    }

    /// The source by which gateway routers know the bridge.
    pub(super) fn as_exit(&self) -> String {
        format!("set_field:{}->eth_src", self.exit())
    }

    /// Lets a packet leave by the port that it came from.
    pub(super) fn forget_port(&self) -> &'static str {
        "load:0->NXM_OF_IN_PORT[]"
    }
}

impl Side {
    fn of(zone: &Zone, gateway: &Gateway, family: Family) -> Option<Self> {
        let own = gateway.addresses.iter().map(|net| net.addr()).filter(|own| Family::of(own) == family);
        let own: Vec<IpAddr> = own.collect();
        let cluster = &zone.config().cluster;
        let of =
            |all: &[Cidr]| all.iter().copied().filter(|cidr| cidr.family() == family).collect::<Vec<_>>();
        let masquerade = *of(&cluster.masquerade_subnets).first()?;
        let inside = [&cluster.cluster_subnets, &cluster.join_subnets, &cluster.udn_join_subnets];
        let inside = inside.into_iter().chain([&cluster.transit_subnets]).flat_map(|all| of(all)).collect();
        let services = of(&cluster.service_cidrs);
        (!own.is_empty()).then_some(Self { family, own, masquerade, services, inside })
    }

    /// Addresses that nobody has on the wire.
    pub(super) fn closed(&self) -> impl Iterator<Item = &Cidr> {
        self.inside.iter().chain(&self.services).chain([&self.masquerade])
    }

    fn word(&self, four: &'static str, six: &'static str) -> &'static str {
        if self.family == Family::Ipv4 { four } else { six }
    }

    pub(super) fn ip(&self) -> &'static str {
        self.word("ip", "ipv6")
    }

    pub(super) fn icmp(&self) -> &'static str {
        self.word("icmp", "icmp6")
    }

    /// The kinds of messages that say why a packet did not arrive.
    pub(super) fn errors(&self) -> &'static [u8] {
        if self.family == Family::Ipv4 { &[3, 11] } else { &[1, 2, 3] }
    }

    pub(super) fn protocol(&self, protocol: Protocol) -> &'static str {
        match protocol {
            Protocol::Tcp => self.word("tcp", "tcp6"),
            Protocol::Udp => self.word("udp", "udp6"),
            Protocol::Sctp => self.word("sctp", "sctp6"),
        }
    }

    pub(super) fn source(&self, source: impl std::fmt::Display) -> String {
        format!("{}={source}", self.word("nw_src", "ipv6_src"))
    }

    pub(super) fn to(&self, destination: impl std::fmt::Display) -> String {
        format!("{}={destination}", self.word("nw_dst", "ipv6_dst"))
    }

    /// A shared address of the masquerade subnet, which is large enough for all of them.
    pub(super) fn role(&self, role: MasqueradeRole) -> IpAddr {
        masquerade_address(&self.masquerade, role).unwrap_or_else(|_| self.masquerade.base())
    }

    /// What leaves the node has this address of it; what comes back is told by the mark.
    pub(super) fn leave(&self, bridge: &Bridge, mark: u8, source: Option<&IpAddr>) -> String {
        let source = source.map(|own| format!(",nat(src={own})")).unwrap_or_default();
        let wire = bridge.to_wire();
        format!("ct(commit,zone={SHARED_ZONE}{source},exec(set_field:{mark:#x}->ct_mark)),{wire}")
    }

    /// To the gateway router that has the masquerade address to which the packet goes.
    pub(super) fn to_owner(&self, bridge: &Bridge) -> String {
        let last = bridge.macs.bits().saturating_sub(1);
        let bits = self.word("NXM_OF_IP_DST", "NXM_NX_IPV6_DST");
        let base = MasqueradeMacs::BASE;
        format!("set_field:{base}->eth_dst,move:{bits}[0..{last}]->NXM_OF_ETH_DST[0..{last}]")
    }

    /// An address with a port, as an action names it.
    pub(super) fn socket(&self, address: IpAddr, port: u16) -> String {
        std::net::SocketAddr::new(address, port).to_string()
    }
}
