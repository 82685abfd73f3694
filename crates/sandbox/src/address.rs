//! Which addresses a sandbox uses. They exist only in its own network namespaces, so every sandbox has the same ones.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4
    Ipv4,
    /// IPv6
    Ipv6,
}

/// Host number of the control plane on the underlay.
pub const CONTROL: u8 = 1;
/// Host number of the host outside of the cluster.
pub const OUTSIDE: u8 = 2;

/// Host numbers on the underlay that services of type LoadBalancer get.
pub const POOL: RangeInclusive<u8> = 200..=240;
/// Host number of a router on the subnet behind it.
pub const ROUTER: u8 = 1;
/// Host number of whoever else is on that subnet.
pub const BEHIND: u8 = 2;

/// Host number of a node.
pub fn node_host(index: u8) -> u8 {
    10 + index
}

/// The address of a host on the underlay, with the underlay's prefix length.
pub fn underlay(family: Family, host: u8) -> IpNet {
    match family {
        Family::Ipv4 => v4([172, 30, 0, host], 24),
        Family::Ipv6 => v6([0xfd00, 0x172, 0x30, 0, 0, 0, 0, host.into()], 64),
    }
}

/// The address of a host on the subnet between `outside` and `narrows`, with its prefix length.
pub fn narrows(family: Family, host: u8) -> IpNet {
    beyond(family, 0, host)
}

/// The address of a host on the subnet behind `narrows`, with its prefix length.
pub fn far(family: Family, host: u8) -> IpNet {
    beyond(family, 1, host)
}

fn beyond(family: Family, subnet: u8, host: u8) -> IpNet {
    match family {
        Family::Ipv4 => v4([172, 31, subnet, host], 24),
        Family::Ipv6 => v6([0xfd00, 0x172, 0x31, subnet.into(), 0, 0, 0, host.into()], 64),
    }
}

/// The range of a node's pods.
pub fn pods(family: Family, index: u8) -> IpNet {
    match family {
        Family::Ipv4 => v4([10, 244, index, 0], 24),
        Family::Ipv6 => v6([0xfd00, 0x10, 0x244, index.into(), 0, 0, 0, 0], 64),
    }
}

/// The range of all pods.
pub fn cluster(family: Family) -> IpNet {
    match family {
        Family::Ipv4 => v4([10, 244, 0, 0], 16),
        Family::Ipv6 => v6([0xfd00, 0x10, 0x244, 0, 0, 0, 0, 0], 48),
    }
}

/// The range of services.
pub fn services(family: Family) -> IpNet {
    match family {
        Family::Ipv4 => v4([10, 96, 0, 0], 16),
        Family::Ipv6 => v6([0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0], 112),
    }
}

/// The address of the service `kubernetes`: the first of the range.
pub fn first_service(family: Family) -> IpAddr {
    nth_service(family, 1)
}

/// The address of the service `kube-dns`: the tenth of the range.
pub fn dns_service(family: Family) -> IpAddr {
    nth_service(family, 10)
}

fn nth_service(family: Family, number: u8) -> IpAddr {
    match services(family).addr() {
        IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() + u32::from(number)).into(),
        IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() + u128::from(number)).into(),
    }
}

/// The range of everything.
pub fn anywhere(family: Family) -> IpNet {
    match family {
        Family::Ipv4 => v4([0; 4], 0),
        Family::Ipv6 => v6([0; 8], 0),
    }
}

/// An address as part of a URL.
pub fn in_url(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

fn v4(octets: [u8; 4], prefix: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::from(octets), prefix))
}

fn v6(segments: [u16; 8], prefix: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::from(segments), prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_the_documented_ones() {
        let all = [Family::Ipv4, Family::Ipv6].map(|family| {
            [
                underlay(family, node_host(1)).to_string(),
                pods(family, 3).to_string(),
                cluster(family).to_string(),
            ]
        });
        assert_eq!(
            all,
            [
                ["172.30.0.11/24", "10.244.3.0/24", "10.244.0.0/16"],
                ["fd00:172:30::b/64", "fd00:10:244:3::/64", "fd00:10:244::/48"],
            ]
        );
        assert_eq!(first_service(Family::Ipv4).to_string(), "10.96.0.1");
        assert_eq!(first_service(Family::Ipv6).to_string(), "fd00:10:96::1");
        assert_eq!(dns_service(Family::Ipv4).to_string(), "10.96.0.10");
        assert_eq!(dns_service(Family::Ipv6).to_string(), "fd00:10:96::a");
        assert_eq!(far(Family::Ipv6, BEHIND).to_string(), "fd00:172:31:1::2/64");
        assert_eq!(in_url(first_service(Family::Ipv6)), "[fd00:10:96::1]");
    }
}
