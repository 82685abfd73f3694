//! Packets that tell neighbours who answers for an address now, without being asked.

use causeway_types::Mac;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The packet as `ovs-ofctl` reads it.
pub(super) fn announcement(mac: Mac, address: IpAddr) -> String {
    let bytes = match address {
        IpAddr::V4(address) => gratuitous_arp(mac, address),
        IpAddr::V6(address) => unsolicited_advertisement(mac, address),
    };
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _always_fits = write!(text, "{byte:02x}");
        text
    })
}

/// A request by which somebody asks for its own address.
fn gratuitous_arp(mac: Mac, address: Ipv4Addr) -> Vec<u8> {
    const ETHERNET_IPV4_REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
    let (mac, address) = (mac.bytes(), address.octets());
    [&[0xff; 6][..], &mac, &[8, 6], &ETHERNET_IPV4_REQUEST, &mac, &address, &[0; 6], &address].concat()
}

/// To all nodes, with the flag that overrides what they know.
fn unsolicited_advertisement(mac: Mac, address: Ipv6Addr) -> Vec<u8> {
    const ALL: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    const OVERRIDE: [u8; 4] = [0x20, 0, 0, 0];
    const TARGET_LINK: [u8; 2] = [2, 1];
    let (mac, address) = (mac.bytes(), address.octets());
    let mut icmp = [&[136, 0, 0, 0][..], &OVERRIDE, &address, &TARGET_LINK, &mac].concat();
    let length = icmp.len() as u8;
    let pseudo = [&address[..], &ALL, &[0, 0, 0, length, 0, 0, 0, 58], &icmp].concat();
    icmp[2..4].copy_from_slice(&checksum(&pseudo).to_be_bytes());
    let head = [0x60, 0, 0, 0, 0, length, 58, 255];
    [&[0x33, 0x33, 0, 0, 0, 1][..], &mac, &[0x86, 0xdd], &head, &address, &ALL, &icmp].concat()
}

/// The complement of the sum of all pairs of bytes, with its carries added.
fn checksum(bytes: &[u8]) -> u16 {
    let pairs = bytes.chunks(2).map(|pair| u32::from_be_bytes([0, 0, pair[0], *pair.get(1).unwrap_or(&0)]));
    let mut sum: u32 = pairs.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mac() -> Mac {
        "02:00:00:00:00:0b".parse().unwrap()
    }

    #[test]
    fn an_address_asks_for_itself() {
        assert_eq!(
            announcement(mac(), "172.30.0.200".parse().unwrap()),
            "ffffffffffff02000000000b0806\
             000108000604000102000000000bac1e00c8000000000000ac1e00c8"
        );
    }

    #[test]
    fn an_advertisement_has_a_checksum_that_adds_up() {
        let text = announcement(mac(), "fd00:172:30::c8".parse().unwrap());
        let bytes: Vec<u8> =
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect();
        assert_eq!(bytes.len(), 14 + 40 + 32);
        let pseudo = [&bytes[22..54], &[0, 0, 0, 32, 0, 0, 0, 58], &bytes[54..]].concat();
        assert_eq!(checksum(&pseudo), 0);
    }
}
