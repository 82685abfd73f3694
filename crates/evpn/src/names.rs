//! How the devices of a VNI are called, and what follows from its number.

use std::net::Ipv4Addr;

use causeway_types::Mac;
use causeway_types::host::Owner;

use crate::annotation::{RouteTarget, Vni};

/// The names of a VNI's devices. The longest has 14 characters, for the longest number: the kernel takes 15.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The VRF.
    pub vrf: String,
    /// The bridge that joins the VRF and the tunnels.
    pub bridge: String,
    /// The tunnels.
    pub vxlan: String,
    /// The device that has the addresses for show.
    pub dummy: String,
    /// The VRF's end of the cable to the provider's bridge.
    pub cable: String,
    /// The other end.
    pub cable_end: String,
    /// The port of the provider's bridge that takes the cable's place where the network has a VLAN.
    pub vlan: String,
}

impl Names {
    /// Those of a VNI.
    pub fn of(vni: Vni) -> Self {
        let name = |kind: &str| format!("{kind}-{vni}");
        Self {
            vrf: name("vrf"),
            bridge: name("br"),
            vxlan: name("vxlan"),
            dummy: name("lo"),
            cable: name("vv"),
            cable_end: name("vo"),
            vlan: name("vlan"),
        }
    }
}

/// For whom the things of a VNI are.
pub(crate) fn owner(vni: Vni) -> Owner {
    Owner::new(format!("evpn:{vni}"))
}

/// The MAC address of the VRF's own device on a provider's network, which several nodes share.
pub(crate) fn leg_mac(vtep: Ipv4Addr, vni: Vni) -> Mac {
    let ([_, _, c, d], [_, x, y, z]) = (vtep.octets(), vni.number().to_be_bytes());
    Mac::new([0x0e, c, d, x, y, z])
}

/// What tells this node's routes of a VNI apart from everybody else's. A number after an address has room for 65535; beyond that the
/// lower three bytes of the address and the VNI fill the other form.
pub fn distinguisher(vtep: Ipv4Addr, vni: Vni) -> String {
    if vni.number() <= u32::from(u16::MAX) {
        return format!("{vtep}:{vni}");
    }
    let [_, b, c, d] = vtep.octets();
    format!("{}:{}", u16::from_be_bytes([c, d]), u32::from(b) << 24 | vni.number())
}

/// Those of a list, or the usual one.
pub(crate) fn or_usual<'a>(
    targets: impl IntoIterator<Item = &'a RouteTarget>,
    asn: u32,
    vni: Vni,
) -> Vec<RouteTarget> {
    let mut all: Vec<RouteTarget> = targets.into_iter().cloned().collect();
    if all.is_empty() {
        all.push(RouteTarget::usual(asn, vni));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case 21 of the catalogue.
    #[test]
    fn names_are_short_enough_and_never_shared() {
        let of = |number: u32| {
            let n = Names::of(Vni::new(number).unwrap());
            [n.vrf, n.bridge, n.vxlan, n.dummy, n.cable, n.cable_end, n.vlan]
        };
        let all: Vec<String> = [16_777_215, 1_000_001, 1_000_002].into_iter().flat_map(of).collect();
        assert!(all.iter().all(|name| name.len() <= 15), "{all:?}");
        let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn distinguishers_differ_by_node_and_by_number() {
        let rd = |vtep: [u8; 4], number: u32| distinguisher(vtep.into(), Vni::new(number).unwrap());
        assert_eq!(rd([10, 255, 0, 1], 1001), "10.255.0.1:1001");
        assert_eq!(rd([10, 255, 0, 1], 70000), "1:4278260080");
        assert_eq!(rd([10, 254, 0, 1], 70000), "1:4261482864");
        assert_eq!(rd([10, 255, 1, 1], 70000), "257:4278260080");
    }
}
