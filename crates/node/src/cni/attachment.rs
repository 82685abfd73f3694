//! One interface of a pod, from the pod's annotation: its cable, its addresses and routes, its port.

use crate::ovs::PodPort;
use causeway_api::annotations::{Attachment, PodNetwork};
use causeway_cni::{AddResult, Interface, IpConfig};
use causeway_host::{PodInterface, Route};
use causeway_plan::wiring::Attached;
use causeway_record::ObjectKey;
use causeway_types::{Cidr, NetworkNames, ObjectName};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The pod's interface on its primary network, where that is not the default one.
pub const PRIMARY_INTERFACE: &str = "ovn-udn1";
/// The longest name of a link.
pub const MAX_LINK_NAME: usize = 15;

/// The name of the host's end: as much of the sandbox's id as fits, and the number of the interface behind the first.
pub fn host_link_name(sandbox: &str, number: u32) -> String {
    let suffix = if number == 0 { String::new() } else { format!("_{number}") };
    let room = MAX_LINK_NAME.saturating_sub(suffix.len());
    // A container's id is ASCII, by the rule of CNI.
    format!("{}{suffix}", sandbox.get(..room).unwrap_or(sandbox))
}

/// One interface that a pod shall have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Wanted {
    pub(super) link: PodInterface,
    pub(super) port: PodPort,
    gateways: Vec<IpAddr>,
}

/// Whose interface it is.
pub(super) struct Owner<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) name: &'a ObjectName,
    /// The UID in the API.
    pub(super) uid: &'a str,
    pub(super) sandbox: &'a str,
}

impl Wanted {
    /// The interface of this name and number on this network.
    pub(super) fn new(owner: &Owner<'_>, (name, number): (&str, u32), attached: &Attached) -> Wanted {
        let network = &attached.address;
        let nad = match &attached.attachment {
            Attachment::Default => None,
            Attachment::Nad(key) => Some(key),
        };
        let host_name = host_link_name(owner.sandbox, number);
        let link = PodInterface {
            host_name: host_name.clone(),
            name: name.to_owned(),
            mac: network.mac_address,
            mtu: attached.mtu,
            addresses: network.ip_addresses.clone(),
            routes: routes(network),
            router: network.ipv6_lla_gateway_ip,
            cut: false,
        };
        let port = PodPort {
            name: host_name,
            iface_id: NetworkNames::pod_port(nad, &owner.key.namespace, owner.name),
            uid: owner.uid.to_owned(),
            sandbox: owner.sandbox.to_owned(),
            interface: name.to_owned(),
            mac: network.mac_address,
            addresses: network.ip_addresses.iter().map(ToString::to_string).collect(),
            network: nad.map(|nad| (attached.network.to_string(), nad.to_string())),
        };
        Wanted { link, port, gateways: network.gateway_ips.clone() }
    }
}

/// The annotation's routes and default routes. Where the router's link-local address is known, the way out goes through
/// it: it is what the router advertises too, so there is one default route and not two.
fn routes(network: &PodNetwork) -> BTreeSet<Route> {
    let given = network.routes.iter().map(|route| Route { dest: route.dest, via: route.next_hop });
    let default = network.gateway_ips.iter().map(|gateway| match (gateway, network.ipv6_lla_gateway_ip) {
        (IpAddr::V6(_), Some(router)) => Route { dest: everywhere(*gateway), via: Some(router.into()) },
        _ => Route { dest: everywhere(*gateway), via: Some(*gateway) },
    });
    given.chain(default).collect()
}

fn everywhere(like: IpAddr) -> Cidr {
    let base = if like.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    Cidr::masked(ipnet::IpNet::new_assert(base, 0))
}

/// What the runtime is told.
pub(super) fn result(interfaces: &[Wanted], netns: &str) -> AddResult {
    let mut result = AddResult::default();
    for wanted in interfaces {
        let link = &wanted.link;
        let end = |name: &str, sandbox: &str| Interface {
            name: name.to_owned(),
            mac: if sandbox.is_empty() { String::new() } else { link.mac.to_string() },
            mtu: link.mtu,
            sandbox: sandbox.to_owned(),
        };
        result.interfaces.extend([end(&link.host_name, ""), end(&link.name, netns)]);
        let interface = result.interfaces.len() - 1;
        let ip = |address: &ipnet::IpNet| IpConfig {
            address: address.to_string(),
            gateway: wanted.gateways.iter().copied().find(|g| g.is_ipv4() == address.addr().is_ipv4()),
            interface,
        };
        result.ips.extend(link.addresses.iter().map(ip));
        let route = |route: &Route| causeway_cni::Route { dst: route.dest.to_string(), gw: route.via };
        result.routes.extend(link.routes.iter().map(route));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// udn-ovn-cases H20.
    #[test]
    fn h20_names_of_the_hosts_ends() {
        let table = [
            ("abcdef0123456789", 0, "abcdef012345678"),
            ("abcdef0123456789", 7, "abcdef0123456_7"),
            ("abcdef0123456789", 12, "abcdef012345_12"),
            ("abc", 1, "abc_1"),
        ];
        for (sandbox, number, name) in table {
            assert_eq!(host_link_name(sandbox, number), name);
        }
    }
}
