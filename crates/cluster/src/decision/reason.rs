//! Why something is left out, in the words of the specification, and how many such sentences become one
//! condition.

use causeway_types::{Cidr, ConnectName, ConnectSubnet, Family, NodeId};

use super::absent::Absent;
use super::input::{Network, NodeRecord};

/// The longest message that a condition may have.
const LONGEST: usize = 32_768;
/// Room for " and 12345 more".
const TAIL: usize = 32;

/// The reasons of the condition `Accepted`, in their order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Everything selected can be connected.
    ValidationSucceeded,
    /// A selected network is of a kind, or has a name, that cannot be connected.
    UnsupportedNetworkType,
    /// A connect subnet is in use by something else.
    ConnectSubnetConflict,
    /// A connect subnet is also another connection's, and both select a network.
    ConnectSubnetOverlap,
    /// Networks have no IP family in common.
    IPFamilyMismatch,
    /// Networks have pod addresses in common.
    OverlappingNetworkSubnets,
    /// There are too many networks or nodes for the connect subnets.
    ConnectSubnetExhausted,
    /// There are fewer than two networks to connect.
    InsufficientNetworks,
}

impl Reason {
    /// The word in the condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ValidationSucceeded => "ValidationSucceeded",
            Self::UnsupportedNetworkType => "UnsupportedNetworkType",
            Self::ConnectSubnetConflict => "ConnectSubnetConflict",
            Self::ConnectSubnetOverlap => "ConnectSubnetOverlap",
            Self::IPFamilyMismatch => "IPFamilyMismatch",
            Self::OverlappingNetworkSubnets => "OverlappingNetworkSubnets",
            Self::ConnectSubnetExhausted => "ConnectSubnetExhausted",
            Self::InsufficientNetworks => "InsufficientNetworks",
        }
    }
}

/// Why a network, a node or the whole connection is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The kind of problem.
    pub reason: Reason,
    /// What is wrong, with which objects.
    pub message: String,
}

impl LeftOut {
    fn new(reason: Reason, message: String) -> Self {
        Self { reason, message }
    }

    pub(super) fn localnet(network: &Network) -> Self {
        let message = format!("Network {network} has type 'localnet'. Localnet networks are not supported");
        Self::new(Reason::UnsupportedNetworkType, message)
    }

    pub(super) fn secondary(network: &Network) -> Self {
        let message =
            format!("Network {network} has role 'Secondary'. Only 'Primary' role networks are supported");
        Self::new(Reason::UnsupportedNetworkType, message)
    }

    pub(super) fn transport(network: &Network, transport: &str) -> Self {
        let message = format!(
            "Network {network} has transport '{transport}'. Network connect feature is not supported when overlay \
             tunneling is disabled"
        );
        Self::new(Reason::UnsupportedNetworkType, message)
    }

    pub(super) fn without_tunnels() -> Self {
        let message = "Network connect feature is not supported when overlay tunneling is disabled";
        Self::new(Reason::UnsupportedNetworkType, message.to_owned())
    }

    pub(super) fn port_name(network: &Network, port: &str, other: &Network, connect: &ConnectName) -> Self {
        let message = format!(
            "Network {network} cannot be connected under its name: its port '{port}' would have the name of a port of \
             network {other} in ClusterNetworkConnect '{connect}'. Rename the network or one ClusterNetworkConnect"
        );
        Self::new(Reason::UnsupportedNetworkType, message)
    }

    pub(super) fn conflict(subnet: Cidr, what: &str, other: Cidr) -> Self {
        let message = format!("Connect subnet {subnet} conflicts with {what} {other}");
        Self::new(Reason::ConnectSubnetConflict, message)
    }

    pub(super) fn network_conflict(subnet: Cidr, what: &str, other: Cidr, network: &Network) -> Self {
        let message = format!("Connect subnet {subnet} conflicts with {what} {other} of network {network}");
        Self::new(Reason::ConnectSubnetConflict, message)
    }

    pub(super) fn conflict_beyond(
        subnet: Cidr,
        pods: Cidr,
        of: &Network,
        network: &Network,
        other: &ConnectName,
    ) -> Self {
        let message = format!(
            "Connect subnet {subnet} conflicts with pod subnet {pods} of network {of}, which network {network} would reach at the \
             same time: ClusterNetworkConnect '{other}' shares a network with this one"
        );
        Self::new(Reason::ConnectSubnetConflict, message)
    }

    pub(super) fn subnet_overlap(subnet: Cidr, other: &ConnectName, network: &Network) -> Self {
        let message = format!(
            "Connect subnet {subnet} overlaps with ClusterNetworkConnect '{other}' which also selects network \
             {network}. Each ClusterNetworkConnect selecting the same network must use non-overlapping connect subnets"
        );
        Self::new(Reason::ConnectSubnetOverlap, message)
    }

    pub(super) fn family_of_links(network: &Network) -> Self {
        let message = format!(
            "Cannot connect network {network}: connectSubnets have no subnet of its IP family. Networks must use the \
             same IP family"
        );
        Self::new(Reason::IPFamilyMismatch, message)
    }

    pub(super) fn families(one: (&Network, Family), other: (&Network, Family)) -> Self {
        let message = format!(
            "Cannot connect single-stack {} network {} with single-stack {} network {}. Networks must use the same IP \
             family",
            one.1, one.0, other.1, other.0
        );
        Self::new(Reason::IPFamilyMismatch, message)
    }

    pub(super) fn overlap(first: &Network, second: &Network, subnet: Cidr) -> Self {
        let message = format!(
            "Cannot connect networks {first} and {second}: overlapping pod subnets {subnet} detected (selected networks have \
             overlapping subnets)"
        );
        Self::new(Reason::OverlappingNetworkSubnets, message)
    }

    pub(super) fn overlap_beyond(
        first: &Network,
        second: &Network,
        subnet: Cidr,
        other: &ConnectName,
    ) -> Self {
        let direct = Self::overlap(first, second, subnet).message;
        let message = format!(
            "{direct}; ClusterNetworkConnect '{other}' shares a network with this one, which would reach both"
        );
        Self::new(Reason::OverlappingNetworkSubnets, message)
    }

    pub(super) fn network_exhausted(subnet: Cidr, network: &Network, why: &str) -> Self {
        let message = format!(
            "Insufficient IP addresses in connect subnet {subnet}. Network {network} is left out: {why}"
        );
        Self::new(Reason::ConnectSubnetExhausted, message)
    }

    pub(super) fn node_exhausted(
        subnet: &ConnectSubnet,
        network: &Network,
        node: &NodeRecord,
        slots: u32,
    ) -> Self {
        let message = format!(
            "Insufficient IP addresses in connect subnet {}. Node '{}' is left out of network {network} and all other layer3 \
             networks: each network's block has {slots} links, for node ids below {slots}, and the id of the node is {}. Create \
             the ClusterNetworkConnect anew with networkPrefix {} or less, or use the compact topology, which needs no link for each \
             node",
            subnet.cidr(),
            node.name,
            node.id,
            prefix_with_link(subnet.family(), node.id)
        );
        Self::new(Reason::ConnectSubnetExhausted, message)
    }

    /// Networks that are selected and are not there yet are named: without them the number would be a riddle.
    pub(super) fn insufficient<'a>(
        selected: usize,
        left: usize,
        absent: impl Iterator<Item = &'a Absent>,
    ) -> Self {
        let (count, verb) = if selected < 2 { (selected, "selected") } else { (left, "left") };
        let networks = if count == 1 { "network" } else { "networks" };
        let absent: Vec<String> = absent
            .map(|absent| format!("Network '{}' is selected too: {}", absent.name, absent.message))
            .collect();
        let verb = if absent.is_empty() { verb } else { "to be connected" };
        let few = format!("Only {count} {networks} {verb}, minimum 2 networks required for connection");
        let sentences: Vec<String> = std::iter::once(few).chain(absent).collect();
        Self::new(Reason::InsufficientNetworks, sentences.join(". "))
    }
}

/// The longest prefix of a block that has a link for the node: two addresses for each id up to its own.
fn prefix_with_link(family: Family, node: NodeId) -> u32 {
    let addresses = 2 * (u64::from(node.get()) + 1);
    u32::from(family.bits()) - addresses.next_power_of_two().ilog2()
}

/// The condition `Accepted`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    /// Whether everything selected can be connected.
    pub accepted: bool,
    /// The first of the reasons.
    pub reason: Reason,
    /// All that is left out and why, the first reason first.
    pub message: String,
}

impl Acceptance {
    /// Says these, too: they are no reason to leave anything out.
    pub(super) fn with(mut self, remarks: Vec<String>) -> Self {
        let told = std::iter::once(self.message).chain(remarks);
        let all: Vec<LeftOut> = told.map(|message| LeftOut { reason: self.reason, message }).collect();
        self.message = bounded(&all);
        self
    }

    /// Sums up what is left out. The order of sentences depends on nothing but what they say.
    pub(super) fn of(mut left_out: Vec<LeftOut>) -> Self {
        left_out.sort_by(|a, b| (a.reason, &a.message).cmp(&(b.reason, &b.message)));
        let Some(first) = left_out.first() else {
            let message = "All validation checks passed successfully".to_owned();
            return Self { accepted: true, reason: Reason::ValidationSucceeded, message };
        };
        Self { accepted: false, reason: first.reason, message: bounded(&left_out) }
    }
}

fn bounded(left_out: &[LeftOut]) -> String {
    let mut message = String::new();
    for (position, one) in left_out.iter().enumerate() {
        if message.len() + one.message.len() + 2 > LONGEST - TAIL {
            message.push_str(&format!("; and {} more", left_out.len() - position));
            break;
        }
        if position > 0 {
            message.push_str("; ");
        }
        message.push_str(&one.message);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(reason: Reason, message: &str) -> LeftOut {
        LeftOut::new(reason, message.to_owned())
    }

    #[test]
    fn the_first_reason_counts_and_all_are_told() {
        let all = vec![
            left(Reason::InsufficientNetworks, "few"),
            left(Reason::OverlappingNetworkSubnets, "b"),
            left(Reason::OverlappingNetworkSubnets, "a"),
        ];
        let expected = Acceptance {
            accepted: false,
            reason: Reason::OverlappingNetworkSubnets,
            message: "a; b; few".to_owned(),
        };
        assert_eq!(Acceptance::of(all), expected);
    }

    /// udn-cases E014 for connections: a condition is never too long to be written.
    #[test]
    fn e014_a_message_is_bounded() {
        let all: Vec<LeftOut> =
            (0..4000).map(|n| left(Reason::ConnectSubnetExhausted, &format!("network {n:05}"))).collect();
        let message = Acceptance::of(all).message;
        assert!(message.len() <= LONGEST);
        assert!(message.starts_with("network 00000; network 00001; "));
        assert!(message.ends_with(" more"));
    }

    #[test]
    fn too_few_networks() {
        let message = |selected, left| LeftOut::insufficient(selected, left, std::iter::empty()).message;
        assert_eq!(message(1, 1), "Only 1 network selected, minimum 2 networks required for connection");
        assert_eq!(message(0, 0), "Only 0 networks selected, minimum 2 networks required for connection");
        assert_eq!(message(3, 1), "Only 1 network left, minimum 2 networks required for connection");
    }
}
