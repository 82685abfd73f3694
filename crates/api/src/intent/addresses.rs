//! Reading addresses as strictly as the API server does.

use std::net::IpAddr;

use causeway_types::{Cidr, Family};
use ipnet::IpNet;

use super::problem::{Problems, Reason};
use crate::schema::messages::{CIDR_INVALID, FAMILIES};

/// A CIDR with or without host bits. IPv4 addresses in IPv6 notation are refused: they would have two texts.
pub(crate) fn read_cidr(text: &str) -> Option<IpNet> {
    let net: IpNet = text.parse().ok()?;
    match net.addr() {
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => None,
        _ => Some(net),
    }
}

pub(crate) fn read_ip(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => None,
        _ => Some(address),
    }
}

/// The CIDRs of a list, masked; those that cannot be read are reported.
pub(crate) fn read_list(field: &str, texts: &[String], problems: &mut Problems) -> Vec<Cidr> {
    let mut cidrs = Vec::new();
    for text in texts {
        match read_cidr(text) {
            Some(net) => cidrs.push(Cidr::masked(net)),
            None => problems.add(Reason::InvalidAddress, format!("{CIDR_INVALID}: {field} has {text:?}")),
        }
    }
    cidrs
}

/// At most one of each family.
pub(crate) fn check_families(families: &[Family], problems: &mut Problems) {
    let twice = |family| families.iter().filter(|other| **other == family).count() > 1;
    problems.rule(!Family::ALL.into_iter().any(twice), FAMILIES);
}

pub(crate) fn families(cidrs: &[Cidr]) -> Vec<Family> {
    cidrs.iter().map(Cidr::family).collect()
}
