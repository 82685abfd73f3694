//! The one error of this crate: why something could not be handed out.

use std::net::IpAddr;

use causeway_types::{Cidr, ConnectOwner, Family, Mac, NodeId};

use crate::RefusalReason;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an allocation, a request or a pool was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum Error {
    #[error(
        "{what} exhausted: {held} in use and {waiting} waiting for nodes to confirm that they are gone; delete what is not needed"
    )]
    Exhausted { what: &'static str, held: usize, waiting: usize },
    #[error("{what} {number} is outside the range that can be handed out")]
    OutOfRange { what: &'static str, number: u128 },
    #[error("{what} {number} is kept for the platform")]
    Excluded { what: &'static str, number: u128 },
    #[error("{what} {number} is already in use by {holder}")]
    Taken { what: &'static str, number: u128, holder: String },
    #[error(
        "{what} {number} was freed a moment ago: it can be used again when all nodes have confirmed that it is gone"
    )]
    Waiting { what: &'static str, number: u128 },
    #[error("{owner} already has {what} {number}")]
    Holds { what: &'static str, owner: String, number: u128 },

    #[error("subnet {cidr} is full: no address is left for {owner}")]
    SubnetFull { cidr: Cidr, owner: String },
    #[error("address {0} is not in any subnet of the network")]
    AddressOutside(IpAddr),
    #[error("address {0} is kept for the platform or excluded: choose another one")]
    AddressExcluded(IpAddr),
    #[error(
        "address {address} is already in use by {holder}: provided IP is already allocated, choose another one"
    )]
    AddressTaken { address: IpAddr, holder: String },
    #[error("{owner} already has address {address}")]
    AddressHeld { owner: String, address: IpAddr },
    #[error(
        "a request must name one address of each family of the network ({families}), not {count} of {family}"
    )]
    AddressCount { families: String, family: Family, count: usize },
    #[error("a network has at most one {0} subnet to give pods addresses from")]
    TwoSubnets(Family),
    #[error("subnet {cidr} has no room for a gateway and a management port")]
    NoInfrastructure { cidr: Cidr },
    #[error("gateway {gateway} is not an address that a router can have in {cidr}")]
    Gateway { cidr: Cidr, gateway: IpAddr },

    #[error("MAC address already in use: {mac} belongs to {holder}")]
    MacTaken { mac: Mac, holder: String },
    #[error("{owner} already has MAC address {mac}")]
    MacHeld { owner: String, mac: Mac },
    #[error("MAC address {0} is not that of a single port: choose one whose first byte is even")]
    MacGroup(Mac),

    #[error("{cidr} cannot be split into /{prefix} host subnets")]
    HostPrefix { cidr: Cidr, prefix: u8 },
    #[error(
        "no {family} host subnet is left for node id {node}: the network's subnets hold {capacity} nodes; add a subnet"
    )]
    NoHostSubnet { family: Family, node: NodeId, capacity: u128 },

    #[error("a connection needs one or two connect subnets, of different families")]
    ConnectSubnets,
    #[error("{owner}: {reason}")]
    Connect { owner: ConnectOwner, reason: RefusalReason },
}
