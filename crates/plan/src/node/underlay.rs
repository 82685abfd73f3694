//! What the node's own devices say of the network that connects nodes.

use std::net::IpAddr;

use causeway_api::annotations::{HostCidrs, PerFamily, PrimaryAddresses, TunnelMtu};
use causeway_types::around::OwnAddress;
use causeway_types::{Cidr, Family};
use ipnet::IpNet;

/// What others may know of the node's own network.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Underlay {
    /// The largest packet of a pod that the node's tunnels carry; not known of an end point that no device has.
    pub mtu: Option<TunnelMtu>,
    /// The node's addresses on the device that tunnels use.
    pub primary: Option<PrimaryAddresses>,
    /// All addresses of the node.
    pub all: HostCidrs,
}

impl Underlay {
    /// What follows from the node's addresses and the end points of its tunnels.
    pub fn of(own: &[OwnAddress], ends: &[IpAddr], masquerade: &[Cidr]) -> Self {
        let outside = own.iter().filter(|own| is_outside(own.net.addr(), masquerade));
        let own: Vec<OwnAddress> = outside.cloned().collect();
        let under: Vec<&OwnAddress> = own.iter().filter(|own| ends.contains(&own.net.addr())).collect();
        let carried = under.iter().map(|own| TunnelMtu::of_underlay(own.mtu, Family::of(&own.net.addr())));
        let mut all: Vec<IpNet> = own.iter().map(|own| own.net).collect();
        all.sort_unstable();
        all.dedup();
        Self {
            mtu: carried.min_by_key(|mtu| mtu.0),
            primary: under.first().map(|end| primary(&own, end)),
            all: HostCidrs(all),
        }
    }
}

/// Whether others can know the node by an address: not by those that are the same on every node or good on one link alone.
pub(super) fn is_outside(address: IpAddr, masquerade: &[Cidr]) -> bool {
    let on_link = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !on_link && !masquerade.iter().any(|cidr| cidr.contains_address(address))
}

/// The address of the tunnel itself, and of the other family the first one of the same device.
fn primary(own: &[OwnAddress], end: &OwnAddress) -> PrimaryAddresses {
    let of = |family: Family| {
        let same = own.iter().filter(|own| own.device == end.device);
        let all = std::iter::once(end).chain(same).map(|own| own.net);
        all.into_iter().find(|net| Family::of(&net.addr()) == family)
    };
    PrimaryAddresses(PerFamily { ipv4: of(Family::Ipv4), ipv6: of(Family::Ipv6) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_api::annotations::Annotation as _;

    fn own(net: &str, device: &str, mtu: u32) -> OwnAddress {
        OwnAddress { net: net.parse().unwrap(), device: device.into(), mtu, fleeting: false }
    }

    #[test]
    fn the_device_under_the_tunnels_is_the_primary_one() {
        let all = [
            own("fd00::11/64", "br-ex", 1500),
            own("172.30.0.12/24", "br-ex", 1500),
            own("172.30.0.11/24", "br-ex", 1500),
            own("192.0.2.1/24", "eth1", 9000),
            own("169.254.0.2/17", "br-ex", 1500),
            own("fd69::2/112", "br-ex", 1500),
            own("169.254.200.1/16", "eth1", 9000),
        ];
        let masquerade = ["169.254.0.0/17".parse().unwrap(), "fd69::/112".parse().unwrap()];
        let underlay = Underlay::of(&all, &["172.30.0.11".parse().unwrap()], &masquerade);
        assert_eq!(underlay.mtu, Some(TunnelMtu(1442)));
        let primary = underlay.primary.unwrap().text();
        assert_eq!(primary, r#"{"ipv4":"172.30.0.11/24","ipv6":"fd00::11/64"}"#);
        let cidrs = r#"["172.30.0.11/24","172.30.0.12/24","192.0.2.1/24","fd00::11/64"]"#;
        assert_eq!(underlay.all.text(), cidrs);
    }

    #[test]
    fn an_end_point_that_no_device_has_says_nothing() {
        let own = [own("192.0.2.1/24", "eth1", 9000)];
        let underlay = Underlay::of(&own, &["172.30.0.11".parse().unwrap()], &[]);
        assert_eq!((underlay.mtu, underlay.primary), (None, None));
    }
}
