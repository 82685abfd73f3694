//! Addresses of pods. A pool covers what one allocation draws from: a layer2 or localnet network's
//! subnets, or one node's subnets of a layer3 network; a pod gets one address of each, or none.

use std::fmt;
use std::net::IpAddr;

use causeway_types::{Cidr, Families, Family, NadKey, NamespaceName, ObjectName};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{Claim, Error, Fit, Lost, NumberPool, Record, Refused, Result};

/// Who has addresses. A pod with an IPAM claim has none of its own: the claim has them, so they outlive it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AddressOwner {
    /// An IPAM claim.
    Claim(NamespaceName, ObjectName),
    /// One attachment of a pod.
    Pod(NamespaceName, ObjectName, NadKey),
    /// A pod's attachment to the cluster default network, which has no NAD.
    DefaultPod(NamespaceName, ObjectName),
}

impl fmt::Display for AddressOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(namespace, name) => write!(f, "IPAMClaim {namespace}/{name}"),
            Self::Pod(namespace, name, _) | Self::DefaultPod(namespace, name) => {
                write!(f, "pod {namespace}/{name}")
            }
        }
    }
}

/// A subnet that pods get addresses from, and what of it they don't get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSubnet {
    cidr: Cidr,
    gateway: Option<IpAddr>,
    management: Option<IpAddr>,
    never: Vec<Cidr>,
    on_request: Vec<Cidr>,
}

impl PodSubnet {
    /// A subnet without a router: pods have all of it.
    pub const fn flat(cidr: Cidr) -> Self {
        Self { cidr, gateway: None, management: None, never: Vec::new(), on_request: Vec::new() }
    }

    /// A subnet with a router and a management port: the first and second address, unless the network
    /// names a gateway or keeps ranges for its infrastructure.
    pub fn routed(cidr: Cidr, gateway: Option<IpAddr>, infrastructure: &[Cidr]) -> Result<Self> {
        let inside: Vec<Cidr> = infrastructure.iter().copied().filter(|range| cidr.contains(range)).collect();
        let gateway = match gateway {
            Some(gateway) if is_host(&cidr, gateway) => gateway,
            Some(gateway) => return Err(Error::Gateway { cidr, gateway }),
            None => first_host(&cidr, &inside, None).ok_or(Error::NoInfrastructure { cidr })?,
        };
        let management = management(&cidr, &inside, gateway).ok_or(Error::NoInfrastructure { cidr })?;
        let mut subnet = Self::flat(cidr).excluding(&inside);
        subnet.gateway = Some(gateway);
        subnet.management = Some(management);
        Ok(subnet)
    }

    /// No pod ever gets an address of these ranges.
    pub fn excluding(mut self, ranges: &[Cidr]) -> Self {
        self.never.extend(ranges);
        self
    }

    /// A pod gets an address of these ranges only if it asks for it.
    pub fn on_request(mut self, ranges: &[Cidr]) -> Self {
        self.on_request.extend(ranges);
        self
    }

    /// The subnet.
    pub const fn cidr(&self) -> Cidr {
        self.cidr
    }

    /// The router's address.
    pub const fn gateway(&self) -> Option<IpAddr> {
        self.gateway
    }

    /// The management port's address.
    pub const fn management(&self) -> Option<IpAddr> {
        self.management
    }

    fn pool<O: Ord + Clone>(&self) -> NumberPool<O> {
        let last = self.cidr.last_number();
        let mut pool = NumberPool::new(0, last, Fit::Next);
        pool.exclude(0, 0);
        if self.cidr.family() == Family::Ipv4 {
            pool.exclude(last, last);
        }
        let own = [self.gateway, self.management].into_iter().flatten().map(Cidr::host);
        for (first, last) in own.chain(self.never.iter().copied()).filter_map(|range| self.numbers(&range)) {
            pool.exclude(first, last);
        }
        for (first, last) in self.on_request.iter().filter_map(|range| self.numbers(range)) {
            pool.set_aside(first, last);
        }
        pool
    }

    /// A range that is wider than the subnet covers all of it; one that is elsewhere covers nothing.
    fn numbers(&self, range: &Cidr) -> Option<(u128, u128)> {
        if range.contains(&self.cidr) {
            return Some((0, self.cidr.last_number()));
        }
        let first = self.cidr.number_of(range.base()).ok()?;
        Some((first, first + range.last_number()))
    }
}

/// The management port is the second host of where the gateway would be the first.
fn management(cidr: &Cidr, infrastructure: &[Cidr], gateway: IpAddr) -> Option<IpAddr> {
    if !infrastructure.is_empty() {
        return first_host(cidr, infrastructure, Some(gateway));
    }
    let second = cidr.address(2).ok().filter(|second| *second != gateway && is_host(cidr, *second));
    second.or_else(|| first_host(cidr, &[], Some(gateway)))
}

fn first_host(cidr: &Cidr, ranges: &[Cidr], not: Option<IpAddr>) -> Option<IpAddr> {
    let usable = |address: &IpAddr| is_host(cidr, *address) && Some(*address) != not;
    if ranges.is_empty() {
        return (1..=2).filter_map(|number| cidr.address(number).ok()).find(usable);
    }
    // At most the base address and `not` are unusable before a usable one.
    let candidates = ranges.iter().flat_map(|range| (0..=2).filter_map(|number| range.address(number).ok()));
    candidates.into_iter().find(usable)
}

fn is_host(cidr: &Cidr, address: IpAddr) -> bool {
    let broadcast = address.is_ipv4() && address == cidr.last();
    cidr.contains_address(address) && address != cidr.base() && !broadcast
}

/// Where next-fit goes on in one subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressRecord {
    /// The subnet.
    pub cidr: Cidr,
    /// The address from which to look for a free one.
    pub cursor: IpAddr,
}

/// An annotated address that could not be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostAddress<O> {
    /// Whose it was.
    pub owner: O,
    /// As the annotation has it; it may lie outside of all pod subnets.
    pub address: IpAddr,
    /// Why.
    pub error: Error,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Part<O> {
    subnet: PodSubnet,
    pool: NumberPool<O>,
}

/// Addresses for owners, one of each subnet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPool<O> {
    parts: Vec<Part<O>>,
}

impl<O: Ord + Clone + fmt::Display> AddressPool<O> {
    /// A pool in which all addresses are free; subnets are of different families.
    pub fn new(subnets: Vec<PodSubnet>) -> Result<Self> {
        let mut seen = Families::default();
        for family in subnets.iter().map(|subnet| subnet.cidr.family()) {
            if seen.has(family) {
                return Err(Error::TwoSubnets(family));
            }
            seen = seen.iter().chain([family]).collect();
        }
        let part = |subnet: PodSubnet| Part { pool: subnet.pool(), subnet };
        Ok(Self { parts: subnets.into_iter().map(part).collect() })
    }

    /// Gives an empty pool the state that annotations and records describe. The addresses of an owner
    /// that nobody else claims stay its own even when another of its addresses is lost.
    pub fn restore(
        &mut self,
        claims: Vec<Claim<O, IpAddr>>,
        records: &[AddressRecord],
    ) -> Vec<LostAddress<O>> {
        let mut lost = Vec::new();
        let mut numbered: Vec<Vec<Claim<O>>> = self.parts.iter().map(|_| Vec::new()).collect();
        for Claim { seniority, owner, number: address } in claims {
            match self.locate(address) {
                Some((part, number)) => numbered[part].push(Claim { seniority, owner, number }),
                None => lost.push(LostAddress { owner, address, error: Error::AddressOutside(address) }),
            }
        }
        for (part, claims) in self.parts.iter_mut().zip(numbered) {
            let refused = part.restore(claims, records);
            lost.extend(refused);
        }
        lost
    }

    /// The owner's addresses, or new ones that wait for `commit` or `abort`, in the subnets' order.
    pub fn reserve(&mut self, owner: &O) -> Result<Vec<IpNet>> {
        let fresh = self.fresh(owner);
        for number in 0..self.parts.len() {
            if self.parts[number].pool.reserve(owner).is_err() {
                self.undo(owner, &fresh);
                return Err(Error::SubnetFull {
                    cidr: self.parts[number].subnet.cidr,
                    owner: owner.to_string(),
                });
            }
        }
        Ok(self.addresses_of(owner))
    }

    /// Reserves exactly these addresses: one of each family of the pool.
    pub fn request(&mut self, owner: &O, addresses: &[IpAddr]) -> Result<Vec<IpNet>> {
        let placed = self.place(addresses)?;
        let fresh = self.fresh(owner);
        for (address, part, number) in placed {
            if let Err(reason) = self.parts[part].pool.request(owner, number) {
                let error = self.parts[part].error(owner, address, reason);
                self.undo(owner, &fresh);
                return Err(error);
            }
        }
        Ok(self.addresses_of(owner))
    }

    /// The annotation is written: the reservation stands.
    pub fn commit(&mut self, owner: &O) {
        self.parts.iter_mut().for_each(|part| part.pool.commit(owner));
    }

    /// The annotation could not be written: the reservation is undone.
    pub fn abort(&mut self, owner: &O) {
        self.parts.iter_mut().for_each(|part| part.pool.abort(owner));
    }

    /// The owner is gone: its addresses are free, and rest until the others have had their turn.
    pub fn release(&mut self, owner: &O) {
        for part in &mut self.parts {
            part.pool.release(owner);
        }
    }

    /// The owner's addresses with their subnets' lengths.
    pub fn addresses_of(&self, owner: &O) -> Vec<IpNet> {
        let one = |part: &Part<O>| part.subnet.cidr.interface(part.pool.number_of(owner)?).ok();
        self.parts.iter().filter_map(one).collect()
    }

    /// Who has an address.
    pub fn holder(&self, address: IpAddr) -> Option<&O> {
        let (part, number) = self.locate(address)?;
        self.parts[part].pool.holder(number)
    }

    /// How many more owners find an address in every subnet.
    pub fn free(&self) -> u128 {
        self.parts.iter().map(|part| part.pool.free()).min().unwrap_or(0)
    }

    /// The subnets, in order.
    pub fn subnets(&self) -> impl Iterator<Item = &PodSubnet> {
        self.parts.iter().map(|part| &part.subnet)
    }

    /// Where next-fit goes on, for each subnet.
    pub fn records(&self) -> Vec<AddressRecord> {
        self.parts.iter().filter_map(Part::record).collect()
    }

    fn locate(&self, address: IpAddr) -> Option<(usize, u128)> {
        let inside = |part: &Part<O>| part.subnet.cidr.number_of(address).ok();
        self.parts.iter().enumerate().find_map(|(index, part)| Some((index, inside(part)?)))
    }

    /// Where requested addresses are, if there is exactly one for each subnet.
    fn place(&self, addresses: &[IpAddr]) -> Result<Vec<(IpAddr, usize, u128)>> {
        let place = |address: &IpAddr| {
            let (part, number) = self.locate(*address).ok_or(Error::AddressOutside(*address))?;
            Ok((*address, part, number))
        };
        let placed = addresses.iter().map(place).collect::<Result<Vec<_>>>()?;
        for (index, part) in self.parts.iter().enumerate() {
            let count = placed.iter().filter(|(_, part, _)| *part == index).count();
            if count != 1 {
                let families: Vec<String> =
                    self.parts.iter().map(|part| part.subnet.cidr.family().to_string()).collect();
                let family = part.subnet.cidr.family();
                return Err(Error::AddressCount { families: families.join(", "), family, count });
            }
        }
        Ok(placed)
    }

    /// The parts in which the owner has nothing yet, so that a failure takes back only what is new.
    fn fresh(&self, owner: &O) -> Vec<bool> {
        self.parts.iter().map(|part| part.pool.number_of(owner).is_none()).collect()
    }

    fn undo(&mut self, owner: &O, fresh: &[bool]) {
        let new = self.parts.iter_mut().zip(fresh).filter(|(_, fresh)| **fresh);
        new.for_each(|(part, _)| part.pool.abort(owner));
    }
}

impl<O: Ord + Clone + fmt::Display> Part<O> {
    fn restore(&mut self, claims: Vec<Claim<O>>, records: &[AddressRecord]) -> Vec<LostAddress<O>> {
        let cidr = self.subnet.cidr;
        let known = records.iter().find(|record| record.cidr == cidr);
        let cursor = known.and_then(|record| cidr.number_of(record.cursor).ok()).unwrap_or(0);
        let lost = self.pool.restore(claims, &Record { cursor, ..Record::default() });
        let named = |Lost { owner, number, reason }: Lost<O>| {
            let address = cidr.address(number).unwrap_or(cidr.base());
            let error = self.error(&owner, address, reason);
            LostAddress { owner, address, error }
        };
        lost.into_iter().map(named).collect()
    }

    fn record(&self) -> Option<AddressRecord> {
        let cidr = self.subnet.cidr;
        Some(AddressRecord { cidr, cursor: cidr.address(self.pool.record().cursor).ok()? })
    }

    fn error(&self, owner: &O, address: IpAddr, reason: Refused<O>) -> Error {
        match reason {
            Refused::Full => Error::SubnetFull { cidr: self.subnet.cidr, owner: owner.to_string() },
            Refused::OutOfRange => Error::AddressOutside(address),
            Refused::Excluded | Refused::Quarantined => Error::AddressExcluded(address),
            Refused::TakenBy(holder) => Error::AddressTaken { address, holder: holder.to_string() },
            Refused::Holds(held) => {
                let address = self.subnet.cidr.address(held).unwrap_or(address);
                Error::AddressHeld { owner: owner.to_string(), address }
            }
        }
    }
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
