//! MAC addresses. None is ever drawn at random: a port's MAC follows from its address, so every zone
//! computes the same one.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Error, Result};

/// The first two bytes of every MAC that is derived from an IP address.
const FROM_IP: [u8; 2] = [0x0a, 0x58];

/// A MAC address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac([u8; 6]);

impl Mac {
    /// A MAC of these bytes.
    pub const fn new(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }

    /// The MAC of a port with this address: `0a:58`, then the four bytes of an IPv4 address or the
    /// first four of the SHA-256 of an IPv6 address in its canonical text.
    pub fn from_ip(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::with_tail(v4.octets()),
            IpAddr::V6(v6) => {
                let hash = Sha256::digest(v6.to_string());
                Self::with_tail([hash[0], hash[1], hash[2], hash[3]])
            }
        }
    }

    /// The MAC of a port with these addresses: from its first IPv4 address, else from its first.
    pub fn from_ips(addresses: impl IntoIterator<Item = IpAddr>) -> Option<Self> {
        let mut first = None;
        for address in addresses {
            if address.is_ipv4() {
                return Some(Self::from_ip(address));
            }
            first.get_or_insert(address);
        }
        first.map(Self::from_ip)
    }

    /// The same for addresses with prefix lengths, as router ports have them.
    pub fn from_interfaces<'a>(interfaces: impl IntoIterator<Item = &'a IpNet>) -> Option<Self> {
        Self::from_ips(interfaces.into_iter().map(IpNet::addr))
    }

    /// The MAC of a port without addresses: locally administered, and never of the `0a:58` kind,
    /// where it could meet one that belongs to an address.
    pub fn from_identity(pod_uid: &str, attachment: &str) -> Self {
        let hash = Sha256::digest(format!("{pod_uid}/{attachment}"));
        let mut bytes = [hash[0] & 0xfe | 0x02, hash[1], hash[2], hash[3], hash[4], hash[5]];
        if bytes[..2] == FROM_IP {
            bytes[1] = !bytes[1];
        }
        Self(bytes)
    }

    /// In the order of the text.
    pub const fn bytes(self) -> [u8; 6] {
        self.0
    }

    /// Whether it can be the address of one port: not a group address and not all zero.
    pub fn is_unicast(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }

    /// The IPv6 link-local address that belongs to it (modified EUI-64).
    pub fn link_local(self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.0;
        let pair = |high: u8, low: u8| u16::from_be_bytes([high, low]);
        Ipv6Addr::new(0xfe80, 0, 0, 0, pair(a ^ 0x02, b), pair(c, 0xff), pair(0xfe, d), pair(e, f))
    }

    const fn with_tail(tail: [u8; 4]) -> Self {
        Self([FROM_IP[0], FROM_IP[1], tail[0], tail[1], tail[2], tail[3]])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Mac {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let error = || Error::MacText(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit()));
            *byte = part.and_then(|p| u8::from_str_radix(p, 16).ok()).ok_or_else(error)?;
        }
        if parts.next().is_some() { Err(error()) } else { Ok(Self(bytes)) }
    }
}

impl TryFrom<String> for Mac {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> Self {
        mac.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// udn-cases F029, udn-ovn-cases B04, D02, G13, cnc-cases K11.
    #[test]
    fn f029_b04_d02_g13_k11_macs_follow_from_addresses() {
        let table = [
            ("10.244.1.6", "0a:58:0a:f4:01:06"),
            ("10.20.1.2", "0a:58:0a:14:01:02"),
            ("203.203.0.1", "0a:58:cb:cb:00:01"),
            ("169.254.0.11", "0a:58:a9:fe:00:0b"),
            ("192.168.0.2", "0a:58:c0:a8:00:02"),
            ("192.168.1.2", "0a:58:c0:a8:01:02"),
            ("fd00:192:168::2", "0a:58:f0:a1:3c:89"),
            ("fd00:192:168::3", "0a:58:4f:e3:51:d7"),
            ("fd99::4", "0a:58:29:37:8e:56"),
            ("2010:100:200::1", "0a:58:d7:eb:90:5e"),
            ("fd69::b", "0a:58:e4:00:f0:b4"),
        ];
        for (address, mac) in table {
            assert_eq!(Mac::from_ip(ip(address)).to_string(), mac, "{address}");
        }
    }

    /// udn-ovn-cases A17, udn-cases F032: also when IPv6 is listed first.
    #[test]
    fn a17_f032_with_two_families_the_ipv4_address_counts() {
        let mac = Mac::from_ips([ip("2010:100:200::1"), ip("203.203.0.1")]).unwrap();
        assert_eq!(mac, "0a:58:cb:cb:00:01".parse().unwrap());
        assert_eq!(mac.link_local(), "fe80::858:cbff:fecb:1".parse::<Ipv6Addr>().unwrap());
        assert_eq!(Mac::from_ips([]), None);
    }

    /// udn-ovn-cases A16, udn-cases F031.
    #[test]
    fn a16_f031_link_local_of_a_mac() {
        let mac: Mac = "0a:58:cb:cb:00:01".parse().unwrap();
        assert_eq!(mac.link_local().to_string(), "fe80::858:cbff:fecb:1");
    }

    /// udn-cases H005: from pod UID and attachment here, so that a retry gives the same one.
    #[test]
    fn h005_without_addresses_the_mac_is_local_unicast_and_repeatable() {
        for n in 0..2000 {
            let mac = Mac::from_identity(&format!("uid-{n}"), "ns1/sec");
            assert_eq!(mac, Mac::from_identity(&format!("uid-{n}"), "ns1/sec"));
            assert!(mac.is_unicast());
            assert_eq!(mac.bytes()[0] & 0x02, 0x02);
            assert_ne!(mac.bytes()[..2], FROM_IP);
        }
        assert_ne!(Mac::from_identity("u", "ns1/a"), Mac::from_identity("u", "ns1/b"));
    }

    #[test]
    fn only_six_colon_separated_bytes_are_a_mac() {
        assert_eq!("0A:58:CB:cb:00:01".parse::<Mac>().unwrap().to_string(), "0a:58:cb:cb:00:01");
        for bad in [
            "",
            "0a:58:cb:cb:00",
            "0a:58:cb:cb:00:01:02",
            "0a-58-cb-cb-00-01",
            "0a:58:cb:cb:0:1",
            "+a:58:cb:cb:00:01",
        ] {
            assert!(bad.parse::<Mac>().is_err(), "{bad:?}");
        }
        assert!(!Mac::new([0; 6]).is_unicast());
        assert!(!"01:00:5e:00:00:01".parse::<Mac>().unwrap().is_unicast());
    }
}
