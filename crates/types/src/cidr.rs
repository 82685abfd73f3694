//! Subnets and the arithmetic on them. Offsets are `u128`, so a /64 costs what a /24 costs; nothing
//! here ever lists the members of a subnet.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// IPv4 or IPv6. IPv4 sorts first, as in every list of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// Both families, in order.
    pub const ALL: [Self; 2] = [Self::Ipv4, Self::Ipv6];

    /// The length of an address in bits.
    pub const fn bits(self) -> u8 {
        match self {
            Self::Ipv4 => 32,
            Self::Ipv6 => 128,
        }
    }

    /// The prefix length of a point-to-point link.
    pub const fn link_prefix(self) -> u8 {
        self.bits() - 1
    }

    /// The family of an address.
    pub const fn of(address: &IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::Ipv4,
            IpAddr::V6(_) => Self::Ipv6,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        })
    }
}

/// Which families something has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Families {
    /// Whether IPv4 is among them.
    pub ipv4: bool,
    /// Whether IPv6 is among them.
    pub ipv6: bool,
}

impl Families {
    /// The families of these subnets.
    pub fn of<'a>(cidrs: impl IntoIterator<Item = &'a Cidr>) -> Self {
        cidrs.into_iter().map(|cidr| cidr.family()).collect()
    }

    /// Whether the family is among them.
    pub const fn has(self, family: Family) -> bool {
        match family {
            Family::Ipv4 => self.ipv4,
            Family::Ipv6 => self.ipv6,
        }
    }

    /// The families that both have.
    pub const fn shared(self, other: Self) -> Self {
        Self { ipv4: self.ipv4 && other.ipv4, ipv6: self.ipv6 && other.ipv6 }
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        !self.ipv4 && !self.ipv6
    }

    /// The families, IPv4 first.
    pub fn iter(self) -> impl Iterator<Item = Family> {
        Family::ALL.into_iter().filter(move |family| self.has(*family))
    }
}

impl FromIterator<Family> for Families {
    fn from_iter<I: IntoIterator<Item = Family>>(families: I) -> Self {
        families.into_iter().fold(Self::default(), |all, family| match family {
            Family::Ipv4 => Self { ipv4: true, ..all },
            Family::Ipv6 => Self { ipv6: true, ..all },
        })
    }
}

/// A subnet in canonical form: no host bits are set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cidr(IpNet);

impl Cidr {
    /// Checks that no host bits are set.
    pub fn new(net: IpNet) -> Result<Self> {
        let masked = Self::masked(net);
        if masked.0 == net { Ok(masked) } else { Err(Error::HostBits { given: net, masked }) }
    }

    /// The subnet that an address with a prefix length is in.
    pub fn masked(net: IpNet) -> Self {
        Self(net.trunc())
    }

    /// The subnet of this length that an address is in.
    pub fn around(address: IpAddr, prefix: u8) -> Result<Self> {
        let net = IpNet::new(address, prefix).map_err(|_| Error::CidrText(format!("{address}/{prefix}")))?;
        Ok(Self::masked(net))
    }

    /// Just this address.
    pub fn host(address: IpAddr) -> Self {
        Self(IpNet::from(address))
    }

    /// The same as an [`IpNet`].
    pub const fn net(&self) -> IpNet {
        self.0
    }

    /// IPv4 or IPv6.
    pub fn family(&self) -> Family {
        Family::of(&self.0.addr())
    }

    /// The prefix length.
    pub fn prefix_len(&self) -> u8 {
        self.0.prefix_len()
    }

    /// The number of host bits.
    pub fn host_bits(&self) -> u8 {
        self.family().bits() - self.prefix_len()
    }

    /// The first address.
    pub fn base(&self) -> IpAddr {
        self.0.addr()
    }

    /// The last address.
    pub fn last(&self) -> IpAddr {
        self.0.broadcast()
    }

    /// The number of the last address; with a /0 of IPv6 one more than this would not be a `u128`.
    pub fn last_number(&self) -> u128 {
        u128::MAX.checked_shr(u32::from(128 - self.host_bits())).unwrap_or(0)
    }

    /// Whether the address is inside.
    pub fn contains_address(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Whether the other subnet is inside, or the same.
    pub fn contains(&self, other: &Self) -> bool {
        self.0.contains(&other.0)
    }

    /// Whether they share an address. Subnets nest or are apart, so one then contains the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// What is left of it without others, as the fewest subnets, in their order; none if these are more than `most`, which is
    /// known before there are more.
    pub fn without(&self, others: &[Self], most: usize) -> Option<Vec<Self>> {
        let mut left = Vec::new();
        self.leave(others, most, &mut left).then_some(left)
    }

    fn leave(&self, others: &[Self], most: usize, left: &mut Vec<Self>) -> bool {
        let inside: Vec<Self> = others.iter().filter(|other| self.overlaps(other)).copied().collect();
        if inside.is_empty() {
            left.push(*self);
            return left.len() <= most;
        }
        if inside.iter().any(|other| other.contains(self)) {
            return true;
        }
        let mut halves = self.0.subnets(self.prefix_len() + 1).into_iter().flatten();
        halves.all(|half| Self(half).leave(&inside, most, left))
    }

    /// The fewest subnets with the same addresses as all of these together.
    pub fn merged(cidrs: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let all: Vec<IpNet> = cidrs.into_iter().map(IpNet::from).collect();
        IpNet::aggregate(&all).into_iter().map(Self).collect()
    }

    /// Address number `number`, counted from the base.
    pub fn address(&self, number: u128) -> Result<IpAddr> {
        if number > self.last_number() {
            return Err(Error::AddressNumber { cidr: *self, number });
        }
        Ok(address_of(self.family(), number_of(self.base()) + number))
    }

    /// The same with the subnet's own prefix length, as a port of a router carries it.
    pub fn interface(&self, number: u128) -> Result<IpNet> {
        let error = Error::AddressNumber { cidr: *self, number };
        IpNet::new(self.address(number)?, self.prefix_len()).map_err(|_| error)
    }

    /// Which address of the subnet this is.
    pub fn number_of(&self, address: IpAddr) -> Result<u128> {
        if self.contains_address(address) {
            Ok(number_of(address) - number_of(self.base()))
        } else {
            Err(Error::NotInside { cidr: *self, address })
        }
    }

    /// How many subnets of this length fit, as the number of the last one; none if the length is
    /// shorter than the subnet's own or longer than an address.
    pub fn last_subnet(&self, prefix: u8) -> Result<u128> {
        if prefix < self.prefix_len() || prefix > self.family().bits() {
            return Err(Error::SubnetLength { cidr: *self, prefix });
        }
        Ok(u128::MAX.checked_shr(u32::from(128 - (prefix - self.prefix_len()))).unwrap_or(0))
    }

    /// Subnet number `number` of this length, counted from the base.
    pub fn subnet(&self, prefix: u8, number: u128) -> Result<Self> {
        if number > self.last_subnet(prefix)? {
            return Err(Error::SubnetNumber { cidr: *self, prefix, number });
        }
        let shift = u32::from(self.family().bits() - prefix);
        let base = number_of(self.base()) + number.checked_shl(shift).unwrap_or(0);
        Self::around(address_of(self.family(), base), prefix)
    }

    /// Which subnet (of its own length) of this one the other is.
    pub fn number_of_subnet(&self, other: &Self) -> Result<u128> {
        let offset = self.number_of(other.base())?;
        self.last_subnet(other.prefix_len())?;
        Ok(offset.checked_shr(u32::from(other.host_bits())).unwrap_or(0))
    }
}

/// An address as a number.
pub fn number_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u32::from(v4).into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

/// Callers stay inside a subnet of the family, so an IPv4 number always fits 32 bits.
fn address_of(family: Family, number: u128) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::V4(Ipv4Addr::from(number as u32)),
        Family::Ipv6 => IpAddr::V6(Ipv6Addr::from(number)),
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Cidr {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let net = text.parse().map_err(|_| Error::CidrText(text.to_owned()))?;
        Self::new(net)
    }
}

impl TryFrom<String> for Cidr {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Cidr> for String {
    fn from(cidr: Cidr) -> Self {
        cidr.to_string()
    }
}

impl From<Cidr> for IpNet {
    fn from(cidr: Cidr) -> Self {
        cidr.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn a_cidr_with_host_bits_is_refused_with_the_right_spelling() {
        let error = "192.168.0.1/16".parse::<Cidr>().unwrap_err();
        assert_eq!(error.to_string(), "CIDR 192.168.0.1/16 has host bits set: write 192.168.0.0/16");
        assert!("300.0.0.0/24".parse::<Cidr>().is_err());
        assert!("10.0.0.0".parse::<Cidr>().is_err());
    }

    /// cnc-cases L05, L07, L08, L10, L11, L13, L14: block numbers count linearly, in either family.
    #[test]
    fn l05_to_l14_block_numbers() {
        let table = [
            ("172.16.0.0/12", "172.16.0.0/20", 0),
            ("172.16.0.0/12", "172.20.0.0/20", 64),
            ("192.168.100.0/24", "192.168.100.240/28", 15),
            ("fd00:abcd::/108", "fd00:abcd::3000/116", 3),
            ("2001:db8:cafe::/120", "2001:db8:cafe::a0/124", 10),
            ("10.50.0.0/16", "10.50.48.0/20", 3),
            ("10.0.16.0/20", "10.0.17.128/26", 6),
            ("172.16.0.0/14", "172.18.8.0/22", 130),
        ];
        for (parent, block, number) in table {
            let (parent, block) = (cidr(parent), cidr(block));
            assert_eq!(parent.number_of_subnet(&block), Ok(number), "{block}");
            assert_eq!(parent.subnet(block.prefix_len(), number), Ok(block));
        }
    }

    /// cnc-cases L01, L02, L04: the number of a slice in its block.
    #[test]
    fn l01_l02_l04_slice_numbers() {
        let table = [
            ("192.168.0.0/24", "192.168.0.0/31", 0),
            ("192.168.0.0/24", "192.168.0.2/31", 1),
            ("192.168.0.0/24", "192.168.0.10/31", 5),
            ("fd00::/120", "fd00::/127", 0),
            ("fd00::/120", "fd00::4/127", 2),
            ("fd00::1:0/112", "fd00::1:2/127", 1),
            ("fd00::/72", "fd00::100:0/127", 8_388_608),
        ];
        for (block, slice, number) in table {
            assert_eq!(cidr(block).number_of_subnet(&cidr(slice)), Ok(number), "{slice}");
        }
    }

    /// cnc-cases H07, H08, H10, H11: the block around a slice.
    #[test]
    fn h07_h08_h10_h11_the_block_around_a_slice() {
        let table = [
            ("10.20.30.14", 28, "10.20.30.0/28"),
            ("10.20.30.22", 28, "10.20.30.16/28"),
            ("172.16.5.100", 24, "172.16.5.0/24"),
            ("2001:db8:cafe:1::abcd", 64, "2001:db8:cafe:1::/64"),
            ("10.50.100.30", 28, "10.50.100.16/28"),
        ];
        for (address, prefix, block) in table {
            assert_eq!(Cidr::around(address.parse().unwrap(), prefix), Ok(cidr(block)));
        }
    }

    #[test]
    fn the_edges_of_the_number_space_do_not_overflow() {
        let all = cidr("::/0");
        assert_eq!(all.last_number(), u128::MAX);
        assert_eq!(all.address(u128::MAX), Ok("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff".parse().unwrap()));
        assert_eq!(all.last_subnet(128), Ok(u128::MAX));
        assert_eq!(all.subnet(0, 0), Ok(all));
        assert_eq!(all.number_of_subnet(&all), Ok(0));
        assert_eq!(cidr("0.0.0.0/0").last_number(), u128::from(u32::MAX));
        let host = cidr("10.0.0.1/32");
        assert_eq!((host.last_number(), host.last_subnet(32)), (0, Ok(0)));
        assert!(host.subnet(32, 1).is_err());
        assert!(host.last_subnet(24).is_err());
        assert!(host.last_subnet(33).is_err());
    }

    #[test]
    fn families_are_listed_ipv4_first() {
        let both = Families::of(&[cidr("fd00::/64"), cidr("10.0.0.0/8")]);
        assert_eq!(both.iter().collect::<Vec<_>>(), Family::ALL);
        let four = Families::of(&[cidr("10.0.0.0/8")]);
        assert_eq!(both.shared(four), four);
        assert!(four.shared(Families::of(&[cidr("fd00::/64")])).is_empty());
    }

    /// POL-039
    #[test]
    fn a_subnet_without_another_is_the_fewest_that_are_left() {
        let cidr = |text: &str| text.parse::<Cidr>().unwrap();
        let without = |from: &str, others: &[Cidr]| cidr(from).without(others, 8);
        let left = without("10.0.0.0/8", &[cidr("10.1.0.0/16")]).unwrap();
        assert_eq!((left.len(), left[0], left[1]), (8, cidr("10.0.0.0/16"), cidr("10.2.0.0/15")));
        assert_eq!(Cidr::merged(left.into_iter().chain([cidr("10.1.0.0/16")])), [cidr("10.0.0.0/8")]);
        assert_eq!(without("10.0.0.0/24", &[cidr("10.0.0.0/8")]), Some(vec![]));
        let apart = [cidr("10.0.1.0/24"), cidr("fd00::/64")];
        assert_eq!(without("10.0.0.0/24", &apart), Some(vec![cidr("10.0.0.0/24")]));
        assert_eq!(without("10.0.0.0/8", &[cidr("10.1.0.0/17")]), None, "they are nine");
    }

    fn any_cidr() -> impl Strategy<Value = Cidr> {
        prop_oneof![
            (any::<u32>(), 0..=32u8).prop_map(|(a, p)| Cidr::around(Ipv4Addr::from(a).into(), p).unwrap()),
            (any::<u128>(), 0..=128u8).prop_map(|(a, p)| Cidr::around(Ipv6Addr::from(a).into(), p).unwrap()),
        ]
    }

    proptest! {
        #[test]
        fn number_and_subnet_are_inverse(parent in any_cidr(), extra in 0..=16u8, seed in any::<u128>()) {
            let prefix = (parent.prefix_len() + extra).min(parent.family().bits());
            let last = parent.last_subnet(prefix).unwrap();
            let number = if last == u128::MAX { seed } else { seed % (last + 1) };
            let child = parent.subnet(prefix, number).unwrap();
            prop_assert!(parent.contains(&child));
            prop_assert_eq!(parent.number_of_subnet(&child), Ok(number));
        }

        #[test]
        fn number_and_address_are_inverse(cidr in any_cidr(), seed in any::<u128>()) {
            let number = seed & cidr.last_number();
            let address = cidr.address(number).unwrap();
            prop_assert_eq!(cidr.number_of(address), Ok(number));
        }

        #[test]
        fn text_survives(cidr in any_cidr()) {
            prop_assert_eq!(cidr.to_string().parse::<Cidr>(), Ok(cidr));
        }
    }
}
