//! Packets made by hand.

use std::net::Ipv4Addr;

/// An IPv4 packet.
pub(crate) fn ipv4(protocol: u8, ttl: u8, from: Ipv4Addr, to: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let start = [&[0x45, 0][..], &length.to_be_bytes(), &[0, 0, 0x40, 0, ttl, protocol, 0, 0]].concat();
    let mut header = [&start[..], &from.octets(), &to.octets()].concat();
    put_checksum(&mut header, 10, &[]);
    [&header[..], payload].concat()
}

/// Puts the internet's checksum into a header, over it and what stands in front of it only for the sum.
pub(crate) fn put_checksum(bytes: &mut [u8], at: usize, pseudo: &[u8]) {
    let words = |bytes: &[u8]| -> u32 {
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum()
    };
    let mut sum = words(pseudo) + words(bytes);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    bytes[at..at + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}
