//! What a node says of itself.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The usual UDP port of VXLAN.
const VXLAN_PORT: u16 = 4789;

/// The node: which chassis it is, its end of the tunnels, and its bridges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The name of its chassis.
    pub chassis: String,
    /// Its end of all tunnels.
    pub vtep: Ipv4Addr,
    /// The UDP port of the tunnels.
    pub vxlan_port: u16,
    /// OVN's own bridge.
    pub integration: String,
    /// Which bridge leads to which provider's network.
    pub mappings: BTreeMap<String, String>,
    /// The numbers of the ports that the switch has opened, by bridge and name.
    pub numbers: BTreeMap<String, BTreeMap<String, u32>>,
    /// Whether gateways are exposed too, and not only the machines behind them.
    pub expose_gateways: bool,
}

impl Node {
    /// A node with the usual port and no bridge.
    pub fn new(chassis: impl Into<String>, vtep: Ipv4Addr) -> Self {
        Self {
            chassis: chassis.into(),
            vtep,
            vxlan_port: VXLAN_PORT,
            integration: "br-int".into(),
            mappings: BTreeMap::new(),
            numbers: BTreeMap::new(),
            expose_gateways: false,
        }
    }

    /// Reads `ovn-bridge-mappings`: `net:bridge,net:bridge`. What cannot be read is left out.
    pub fn read_mappings(text: &str) -> BTreeMap<String, String> {
        let pair = |word: &str| {
            let (network, bridge) = word.trim().split_once(':')?;
            let whole = !network.is_empty() && !bridge.is_empty() && !bridge.contains(':');
            whole.then(|| (network.to_owned(), bridge.to_owned()))
        };
        text.split(',').filter_map(pair).collect()
    }

    /// The number of a port, once the switch has opened it.
    pub(crate) fn number(&self, bridge: &str, port: &str) -> Option<u32> {
        self.numbers.get(bridge)?.get(port).copied()
    }

    /// The provider bridge's end of OVN's patch for a localnet port.
    pub(crate) fn patch(&self, localnet: &str) -> String {
        format!("patch-{localnet}-to-{}", self.integration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read_and_the_malformed_are_left_out() {
        let read = |text: &str| Node::read_mappings(text).into_iter().collect::<Vec<_>>();
        let pair = |network: &str, bridge: &str| (network.to_owned(), bridge.to_owned());
        assert_eq!(read("public:br-ex, vlan:br-vlan"), [pair("public", "br-ex"), pair("vlan", "br-vlan")]);
        assert_eq!(read("nonsense,:br,net:,public:br-ex,a:b:c"), [pair("public", "br-ex")]);
        assert_eq!(read(""), []);
    }
}
