//! This node's end of all tunnels, and with it what the agent is told of the node.

use std::net::{IpAddr, Ipv4Addr};

use causeway_evpn::Node;
use causeway_host::{Kernel, OwnAddress};

use super::flags::EvpnFlags;
use super::switch::SwitchSeen;

/// The loopback device has addresses of the machine itself; only a single one is there for others.
const LOOPBACK: &str = "lo";

/// The node as the agent knows it, or what is missing.
pub(super) fn node(flags: &EvpnFlags, seen: &SwitchSeen) -> Result<Node, String> {
    let chassis = seen.chassis.clone();
    let chassis =
        chassis.ok_or("Open vSwitch has no external_ids:system-id, so this is no chassis of OVN yet")?;
    let vtep = match flags.vtep {
        Some(vtep) => vtep,
        None => find(&flags.vtep_device, &addresses(&flags.vtep_device)?).ok_or_else(|| {
            format!(
                "{} has no IPv4 address for the tunnels; add one, or name another device or the address itself \
                 (--vtep-device, --vtep)",
                flags.vtep_device
            )
        })?,
    };
    let mut node = Node::new(chassis, vtep);
    node.vxlan_port = flags.vxlan_port;
    node.expose_gateways = flags.expose_gateways;
    node.integration.clone_from(&seen.integration);
    node.mappings.clone_from(&seen.mappings);
    node.numbers.clone_from(&seen.numbers);
    Ok(node)
}

/// No more than is asked for: a node has an address for each machine that it shows.
fn addresses(device: &str) -> Result<Vec<OwnAddress>, String> {
    Kernel.addresses_of(device).map_err(|error| error.to_string())
}

fn find(device: &str, addresses: &[OwnAddress]) -> Option<Ipv4Addr> {
    let fits = |address: &&OwnAddress| {
        address.device == device && (device != LOOPBACK || address.net.prefix_len() == 32)
    };
    addresses.iter().filter(fits).find_map(|address| match address.net.addr() {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_address_of_the_device() {
        let address = |device: &str, net: &str| OwnAddress {
            net: net.parse().unwrap(),
            device: device.into(),
            mtu: 1500,
            fleeting: false,
        };
        let all = [
            address("lo", "10.0.0.1/8"),
            address("lo", "2001:db8::1/128"),
            address("lo", "10.255.0.1/32"),
            address("eth0", "192.0.2.1/24"),
        ];
        assert_eq!(find("lo", &all), Some([10, 255, 0, 1].into()));
        assert_eq!(find("eth0", &all), Some([192, 0, 2, 1].into()));
        assert_eq!(find("eth1", &all), None);
    }
}
