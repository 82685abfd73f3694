//! Host ports: ports of the node that lead to one of its pods (`hostPort`).
//!
//! Owns the paths `host-port:…`. A pod has load balancers on the gateway router of its primary network, for clients outside, whose
//! addresses it sees, and on that network's switch of this node, for the network's own pods. Who has a port that several ask for is
//! the zone's to say ([`Zone::host_doors`]); no two rows ever name one. Flows and the firewall are `crate::host`'s.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned};
use causeway_record::ObjectKey;
use causeway_types::{NamespaceName, NetworkName};
use causeway_zone::{Active, Change, Gateway, HostDoor, Protocol, Subject, Zone};
use ipnet::IpNet;

use crate::network::{self, Result, Scope, is_rendered, of_network, scope_of_present};
use crate::room::{Kind, Room, SliceKey as _, Slices};
use crate::row::{map, role_ids, with};
use crate::running::Leads;
use crate::services::balancer_options;

/// Host ports.
pub(crate) static ROOM: Room<Zone> = Room { name: "host ports", kinds: &[&HostPorts] };

crate::slice_key! {
    /// The host ports of a pod, on its primary network.
    struct HostPortKey, HostPortKeys { namespace: NamespaceName, pod: String, network: NetworkName } at ["host-port", _, _, _]
}

impl HostPortKey {
    fn pod(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.clone(), name: self.pod.clone() }
    }
}

struct HostPorts;

impl Kind<Zone> for HostPorts {
    type Key = HostPortKey;

    fn slices(&self, zone: &Zone, only: &HostPortKeys) -> Vec<HostPortKey> {
        let asked = |pod: &&ObjectKey| {
            only.namespace.as_ref().is_none_or(|namespace| *namespace == pod.namespace)
                && only.pod.as_ref().is_none_or(|name| *name == pod.name)
        };
        let key = |pod: &ObjectKey| {
            let network = zone.host_ports_network(pod).filter(|network| is_rendered(zone, network))?;
            let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
            Some(HostPortKey { namespace, pod: name, network: network.clone() })
        };
        zone.pods_with_host_ports().filter(asked).filter_map(key).collect()
    }

    fn plan(&self, zone: &Zone, key: &HostPortKey) -> Plan {
        let pod = key.pod();
        if zone.host_ports_network(&pod) != Some(&key.network) {
            return Plan::Absent;
        }
        of_network(zone, &key.network, |scope| rows(zone, scope, key))
    }

    fn priority(&self) -> u8 {
        46
    }

    fn blame(&self, _zone: &Zone, key: &HostPortKey) -> Vec<Subject> {
        vec![Subject::Pod(key.pod())]
    }

    fn follows(&self, zone: &Zone, change: &Change) -> Vec<Slices<HostPortKey>> {
        let of = |pod: &ObjectKey| {
            Slices::under(&HostPortKeys {
                namespace: Some(pod.namespace.clone()),
                pod: Some(pod.name.clone()),
                network: None,
            })
        };
        match change {
            // Who has a port that several ask for may be another now.
            Change::HostPorts(pod) => zone.pods_with_host_ports().chain([pod]).map(of).collect(),
            Change::Pod { pod, .. } if zone.has_host_ports(pod) => {
                zone.pods_with_host_ports().map(of).collect()
            }
            // A node port is the service's.
            Change::Service(_) => zone.pods_with_host_ports().map(of).collect(),
            Change::Network(name) => {
                let on = |pod: &&ObjectKey| zone.host_ports_network(pod) == Some(name);
                zone.pods_with_host_ports().filter(on).map(of).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// What a process of the node may say instead of an address. The kernel has no way from its IPv6 twin to anybody else.
pub(crate) const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The node's addresses to which host ports belong, where it has a way in, and what its processes say besides.
pub(crate) fn doorways(gateway: &Gateway) -> Vec<IpAddr> {
    let is_served = !gateway.local && gateway.node_ports && !gateway.addresses.is_empty();
    let own = gateway.addresses.iter().map(IpNet::addr).chain([LOCALHOST]);
    own.filter(|_| is_served).collect()
}

/// Adds where host ports of one protocol lead.
pub(crate) fn add_leads(zone: &Zone, protocol: Protocol, leads: &mut Leads) {
    for key in HostPorts.slices(zone, &HostPortKeys::default()) {
        let Ok(scope) = scope_of_present(zone, &key.network) else { continue };
        let doors = doors(zone, &scope, &key).remove(&protocol).unwrap_or_default();
        let vips = doors.iter().flat_map(|door| outer(door).into_iter().chain(inner(&scope, door)));
        vips.for_each(|(asked, target)| leads.add(asked, [target].into()));
    }
}

fn doors(zone: &Zone, scope: &Scope<'_>, key: &HostPortKey) -> BTreeMap<Protocol, Vec<HostDoor>> {
    let own = scope.gateway.map(doorways).unwrap_or_default();
    let mut doors: BTreeMap<Protocol, Vec<HostDoor>> = BTreeMap::new();
    for door in zone.host_doors(&key.pod(), &own) {
        doors.entry(door.protocol).or_default().push(door);
    }
    doors
}

fn rows(zone: &Zone, scope: &Scope<'_>, key: &HostPortKey) -> Result<Vec<Planned>> {
    let mut rows = Vec::new();
    for (protocol, doors) in doors(zone, scope, key) {
        let outer: Vec<Vip> = doors.iter().filter_map(outer).collect();
        let inner = doors.iter().filter_map(|door| inner(scope, door));
        let (router, switch) = (scope.net.names.router_lb_group(), scope.net.names.switch_lb_group());
        let all: Vec<Vip> = outer.iter().copied().chain(inner).collect();
        rows.extend(balancer(scope, key, protocol, ("router", &router), all)?);
        rows.extend(balancer(scope, key, protocol, ("switch", &switch), outer)?);
    }
    Ok(rows)
}

/// By what processes of the node reach a user-defined network's pod: the gateway router's own address, where one pod has a port. Pods
/// of the default network they reach themselves.
pub(crate) fn inner_address(network: &Active, door: &HostDoor) -> Option<IpAddr> {
    let routers = network.legs.iter().filter_map(|leg| leg.pair.map(|pair| pair.gateway_router));
    routers.into_iter().find(|router| door.first && router.is_ipv4() == door.address.is_ipv4())
}

/// Who is asked, and who answers.
type Vip = (SocketAddr, SocketAddr);

fn vip(address: IpAddr, door: &HostDoor) -> Vip {
    (SocketAddr::new(address, door.port), SocketAddr::new(door.target.0, door.target.1))
}

fn outer(door: &HostDoor) -> Option<Vip> {
    (door.address != LOCALHOST).then(|| vip(door.address, door))
}

fn inner(scope: &Scope<'_>, door: &HostDoor) -> Option<Vip> {
    Some(vip(inner_address(scope.net, door)?, door))
}

fn balancer(
    scope: &Scope<'_>,
    key: &HostPortKey,
    protocol: Protocol,
    (place, group): (&str, &str),
    vips: Vec<Vip>,
) -> Result<Vec<Planned>> {
    if vips.is_empty() {
        return Ok(Vec::new());
    }
    let (names, node, pod) = (&scope.net.names, scope.here.name, key.pod());
    let row = nb::LoadBalancer {
        name: format!("{}HostPort_{pod}_{protocol}_{place}_{node}", names.prefix()).into(),
        protocol: Some(protocol.to_string().to_lowercase().into()),
        vips: map(vips.into_iter().map(|(asked, target)| (asked.to_string(), target.to_string()))),
        // On the router clients keep their addresses: the pod is on this node, and answers come back here.
        options: balancer_options(scope, protocol, place == "router")?,
        external_ids: with(
            role_ids(scope.net),
            [("k8s.ovn.org/kind", "HostPort".to_owned()), ("k8s.ovn.org/owner", pod.to_string())],
        ),
        ..Default::default()
    };
    let group = network::GroupKey { group: network::GroupName(group.to_owned()) }.slice();
    let row = Planned::new(key.path([&protocol.to_string(), place]), row);
    Ok(row.within::<nb::LoadBalancerGroup>(&group, "load_balancer").members_apart("vips"))
}
