//! The one error of this crate: why a value could not be built.

use std::net::IpAddr;

use crate::{Cidr, NetworkId, NodeId};

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a name, number, address or subnet was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum Error {
    #[error("{kind} name {value:?} is not valid: {rule}")]
    Name { kind: &'static str, value: String, rule: &'static str },
    #[error("{kind} {value} is out of range: it must be within {min} and {max}")]
    Range { kind: &'static str, value: u64, min: u64, max: u64 },
    #[error("{kind} {value:?} is not a decimal number")]
    Number { kind: &'static str, value: String },
    #[error("MAC address {0:?} is not six hexadecimal bytes separated by colons")]
    MacText(String),
    #[error("CIDR {0:?} is not an address with a prefix length, such as 10.0.0.0/16")]
    CidrText(String),
    #[error("CIDR {given} has host bits set: write {masked}")]
    HostBits { given: ipnet::IpNet, masked: Cidr },
    #[error("{cidr} cannot be split into /{prefix} subnets")]
    SubnetLength { cidr: Cidr, prefix: u8 },
    #[error("{cidr} has no /{prefix} subnet number {number}")]
    SubnetNumber { cidr: Cidr, prefix: u8, number: u128 },
    #[error("{cidr} has no address number {number}")]
    AddressNumber { cidr: Cidr, number: u128 },
    #[error("{address} is not an address of {cidr}")]
    NotInside { cidr: Cidr, address: IpAddr },
    #[error("{what} subnet {cidr} has no address for node id {node}: use a larger {what} subnet")]
    NodeAddress { what: &'static str, cidr: Cidr, node: NodeId },
    #[error(
        "masquerade subnet {cidr} has no addresses for network id {network}: enlarge it, for example to a /17 (IPv4) or /112 (IPv6)"
    )]
    Masquerade { cidr: Cidr, network: NetworkId },
    #[error("the default network has no {0} of its own")]
    DefaultNetwork(&'static str),
    #[error("connect subnet {cidr}: networkPrefix {prefix} must be longer than /{} and shorter than /{}", cidr.prefix_len(), cidr.family().bits())]
    NetworkPrefix { cidr: Cidr, prefix: u8 },
    #[error("{0:?} names no connected network: expected layer3_<network id> or layer2_<network id>")]
    ConnectOwner(String),
    #[error("{0:?} is no set of networks: expected 16 hexadecimal digits")]
    NetworkSet(String),
    #[error("{0:?} is none of transit, both, compact")]
    ConnectTopology(String),
    #[error("connect block {block} has no link number {slot}")]
    Link { block: Cidr, slot: u32 },
    #[error(
        "VRF name {name:?} is reserved on nodes{}: write another name into the field vrf",
        .beginning.map(|text| format!(", as are all names that begin with {text:?}")).unwrap_or_default()
    )]
    ReservedVrf { name: String, beginning: Option<&'static str> },
}
