//! Tunnel keys: what a Geneve header carries to name a logical switch or router (24 bits) and a port
//! on it (15 bits). Keys must be equal in all zones, so each is requested, never left to northd.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{
    Error, NetworkId, NodeId, Result,
    id::{decimal, number},
};

/// The key of a logical switch or router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct DatapathKey(u32);

impl DatapathKey {
    /// The largest key: 24 bits.
    pub const LAST: u32 = 16_777_215;
    /// The key of network 0; the 4096 keys from here on belong to network ids.
    pub const NETWORK_BASE: u32 = 16_711_683;
    /// Keys that are handed out: transit routers of layer2 networks and connect routers.
    pub const DYNAMIC: RangeInclusive<u32> = 16_715_779..=Self::LAST;

    /// Checks that the number is a key.
    pub fn new(value: u32) -> Result<Self> {
        if (1..=Self::LAST).contains(&value) {
            return Ok(Self(value));
        }
        Err(Error::Range { kind: "datapath tunnel key", value: value.into(), min: 1, max: Self::LAST.into() })
    }

    /// Checks that the number is a key of the dynamic range.
    pub fn dynamic(value: u32) -> Result<Self> {
        if Self::DYNAMIC.contains(&value) {
            return Ok(Self(value));
        }
        let (min, max) = (u64::from(*Self::DYNAMIC.start()), u64::from(*Self::DYNAMIC.end()));
        Err(Error::Range { kind: "dynamic tunnel key", value: value.into(), min, max })
    }

    /// The key of a network's transit switch (layer3) or its one switch (layer2).
    pub const fn of_network(id: NetworkId) -> Self {
        Self(Self::NETWORK_BASE + id.get())
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whether it is from the range that is handed out.
    pub fn is_dynamic(self) -> bool {
        Self::DYNAMIC.contains(&self.0)
    }
}

/// The key of a port on a logical switch or router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct PortKey(u16);

impl PortKey {
    /// The largest key that the southbound schema takes. northd stops when asked for more.
    pub const LAST: u32 = 32_767;
    /// A layer2 network's transit router: its port to the switch. 2..=9 stay free for local ports.
    pub const TRANSIT_ROUTER_SWITCH: Self = Self(1);

    /// Checks that the number is a key.
    pub fn new(value: u32) -> Result<Self> {
        match u16::try_from(value) {
            Ok(small) if (1..=Self::LAST).contains(&value) => Ok(Self(small)),
            _ => Err(Error::Range {
                kind: "port tunnel key",
                value: value.into(),
                min: 1,
                max: Self::LAST.into(),
            }),
        }
    }

    /// A node's port on a layer3 network's transit switch.
    pub const fn on_transit_switch(node: NodeId) -> Self {
        Self(node.get() as u16)
    }

    /// The port towards a node's gateway router on a layer2 network's transit router.
    pub const fn on_transit_router(node: NodeId) -> Self {
        Self(10 + node.get() as u16)
    }

    /// A link's port on a connect router: `index` counts blocks, `slots` is how many links of a block
    /// have keys (fixed when the CNC got its first block), `slot` is the node's id or the layer2
    /// parcel's number.
    pub fn on_connect_router(index: u32, slots: u32, slot: u32) -> Result<Self> {
        let value = u64::from(index) * u64::from(slots) + u64::from(slot) + 1;
        let max = u64::from(Self::LAST);
        if slot >= slots {
            return Err(Error::Range {
                kind: "link number",
                value: slot.into(),
                min: 0,
                max: u64::from(slots.max(1)) - 1,
            });
        }
        match u32::try_from(value) {
            Ok(value) if value <= Self::LAST => Self::new(value),
            _ => Err(Error::Range { kind: "port tunnel key", value, min: 1, max }),
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0 as u32
    }
}

number!(DatapathKey, "datapath tunnel key");
number!(PortKey, "port tunnel key");

#[cfg(test)]
mod tests {
    use super::*;

    fn network(id: u32) -> NetworkId {
        NetworkId::new(id).unwrap()
    }

    fn node(id: u32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    /// udn-ovn-cases A11, D01, udn-cases F010 (first key), cnc-cases J01.
    #[test]
    fn a11_d01_f010_j01_switch_keys_follow_from_network_ids() {
        let table = [(1, 16_711_684), (5, 16_711_688), (54, 16_711_737), (0, 16_711_683), (4095, 16_715_778)];
        for (id, key) in table {
            assert_eq!(DatapathKey::of_network(network(id)).get(), key);
        }
        assert!(!DatapathKey::of_network(NetworkId::LAST).is_dynamic());
        assert!(DatapathKey::new(16_715_779).unwrap().is_dynamic());
    }

    /// udn-ovn-cases A13, C05, D02, D05: keys of node ports.
    #[test]
    fn a13_c05_d02_d05_port_keys_follow_from_node_ids() {
        assert_eq!(PortKey::on_transit_router(node(4)).get(), 14);
        assert_eq!(PortKey::on_transit_router(node(3)).get(), 13);
        assert_eq!(PortKey::on_transit_switch(node(2)).get(), 2);
        assert_eq!(PortKey::TRANSIT_ROUTER_SWITCH.get(), 1);
        assert_eq!(PortKey::on_transit_router(NodeId::LAST).get(), PortKey::LAST);
    }

    #[test]
    fn keys_outside_their_ranges_cannot_be_built() {
        assert!(DatapathKey::new(0).is_err());
        assert!(DatapathKey::new(16_777_216).is_err());
        assert!(DatapathKey::dynamic(16_715_778).is_err());
        assert!(PortKey::new(0).is_err());
        assert!(PortKey::new(32_768).is_err());
        assert!(PortKey::new(65_537).is_err());
    }

    /// cnc-cases L16, L17, L19, L20, L22, L23, L25, L26, L31, L32, L35: the catalogue's "slot key" is
    /// ours when S is all the links of a block. L28, L29, L31 beyond 32767: refused.
    #[test]
    fn l16_to_l35_keys_on_a_connect_router() {
        let table = [
            ("L16", 5, 2048, 100, Some(10341)),
            ("L17", 12, 512, 500, Some(6645)),
            ("L19", 11, 8, 7, Some(96)),
            ("L20", 7, 2048, 200, Some(14537)),
            ("L22", 4, 2048, 1000, Some(9193)),
            ("L23", 1, 2048, 192, Some(2241)),
            ("L25", 16, 32, 31, Some(544)),
            ("L26", 5, 2048, 1024, Some(11265)),
            ("L28", 17, 8192, 2500, None),
            ("L29", 33, 8192, 8191, None),
            ("L31", 0, 128, 1, Some(2)),
            ("L31", 1, 128, 1, Some(130)),
            ("L31", 127, 128, 127, Some(16384)),
            ("L31", 128, 128, 1, Some(16386)),
            ("L31", 255, 128, 127, None),
            ("L32", 4, 128, 0, Some(513)),
            ("L32", 4, 128, 1, Some(514)),
            ("L35", 0, 16384, 5000, Some(5001)),
            ("L35", 1, 16384, 0, Some(16385)),
        ];
        for (case, index, slots, slot, key) in table {
            let got = PortKey::on_connect_router(index, slots, slot).map(PortKey::get).ok();
            assert_eq!(got, key, "{case}");
        }
        assert!(PortKey::on_connect_router(u32::MAX, u32::MAX, 0).is_err());
        assert!(PortKey::on_connect_router(0, 8, 8).is_err(), "the next block's first key");
    }
}
