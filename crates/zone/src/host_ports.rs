//! Ports of this node that its pods ask for, and who has them.
//!
//! The scheduler and the kubelet keep two pods from one port. What they do not see, a service's node port or a pod that comes while an
//! older one goes, is settled here and nowhere else: a node port stays the service's, then the older pod has the port.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_record::{self as record, HostPort, ObjectKey, Protocol};
use causeway_types::NetworkName;

use super::pod;
use super::{Change, Changes, Zone};

/// A pod of this node that has asked for ports of the node.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Asking {
    created: i64,
    uid: String,
    ports: Vec<HostPort>,
}

/// The older one comes first.
type Place = (i64, String, ObjectKey);

#[derive(Debug, Default)]
pub(super) struct HostPorts {
    pods: BTreeMap<ObjectKey, Asking>,
    by_port: BTreeMap<(Protocol, u16), BTreeSet<Place>>,
}

impl HostPorts {
    fn set(&mut self, key: &ObjectKey, asking: Option<Asking>) {
        if let Some(old) = self.pods.remove(key) {
            for port in &old.ports {
                let at = (port.protocol, port.port);
                let Some(places) = self.by_port.get_mut(&at) else { continue };
                places.remove(&place(&old, key));
                if places.is_empty() {
                    self.by_port.remove(&at);
                }
            }
        }
        let Some(asking) = asking else { return };
        for port in &asking.ports {
            self.by_port.entry((port.protocol, port.port)).or_default().insert(place(&asking, key));
        }
        self.pods.insert(key.clone(), asking);
    }

    /// Pods that ask for the same port, the older ones first.
    fn at(&self, port: &HostPort) -> impl Iterator<Item = &ObjectKey> {
        self.by_port.get(&(port.protocol, port.port)).into_iter().flatten().map(|(_, _, key)| key)
    }
}

fn place(asking: &Asking, key: &ObjectKey) -> Place {
    (asking.created, asking.uid.clone(), key.clone())
}

/// A way from a port of the node to a pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostDoor {
    /// The node's address.
    pub address: IpAddr,
    /// What is spoken there.
    pub protocol: Protocol,
    /// The node's port.
    pub port: u16,
    /// The pod's address and port on its primary network.
    pub target: (IpAddr, u16),
    /// Whether this is where the port leads within the pod's network, where the node's addresses are not told apart.
    pub first: bool,
}

impl Zone {
    /// The pods of this node that ask for ports of it.
    pub fn pods_with_host_ports(&self) -> impl Iterator<Item = &ObjectKey> {
        self.host_ports.pods.keys()
    }

    /// Whether a pod asks for a port of this node.
    pub fn has_host_ports(&self, pod: &ObjectKey) -> bool {
        self.host_ports.pods.contains_key(pod)
    }

    /// The primary network of a pod that asks for ports of this node.
    pub fn host_ports_network(&self, pod: &ObjectKey) -> Option<&NetworkName> {
        self.network_of(self.primary(pod).filter(|_| self.has_host_ports(pod))?)
    }

    /// The ways from these addresses of the node to a pod, as far as nobody else has them.
    pub fn host_doors(&self, pod: &ObjectKey, own: &[IpAddr]) -> Vec<HostDoor> {
        let address = self.primary(pod).and_then(|port| port.address.as_ref());
        let network = self.host_ports_network(pod);
        let Some((asking, address)) = self.host_ports.pods.get(pod).zip(address) else { return Vec::new() };
        let mut doors = Vec::new();
        for port in &asking.ports {
            for ip in address.ips().map(|ip| ip.addr()) {
                let asked = own.iter().filter(|own| own.is_ipv4() == ip.is_ipv4() && covers(port, **own));
                let free = asked.filter(|own| self.has_host_port(pod, asking, port, **own));
                let first = |at: IpAddr| self.first_at(network, port, own, at) == Some((pod, port.target));
                doors.extend(free.map(|at| HostDoor {
                    address: *at,
                    protocol: port.protocol,
                    port: port.port,
                    target: (ip, port.target),
                    first: first(*at),
                }));
            }
        }
        doors
    }

    /// Of all pods of a network that have a port, at the node's addresses of one family, the first with its target: that of the
    /// first address.
    fn first_at<'a>(
        &'a self,
        network: Option<&NetworkName>,
        port: &HostPort,
        own: &[IpAddr],
        at: IpAddr,
    ) -> Option<(&'a ObjectKey, u16)> {
        own.iter().filter(|own| own.is_ipv4() == at.is_ipv4()).find_map(|own| {
            let mut on = self.host_ports.at(port).filter(|pod| self.host_ports_network(pod) == network);
            on.find_map(|pod| {
                let asking = self.host_ports.pods.get(pod)?;
                let same = |other: &&HostPort| {
                    (other.protocol, other.port) == (port.protocol, port.port) && covers(other, *own)
                };
                let asked = asking.ports.iter().find(same)?;
                self.has_host_port(pod, asking, asked, *own).then_some((pod, asked.target))
            })
        })
    }

    /// Whether a pod is the one that has a port which it asks for.
    fn has_host_port(&self, pod: &ObjectKey, asking: &Asking, port: &HostPort, own: IpAddr) -> bool {
        let same = |other: &&HostPort| {
            (other.protocol, other.port) == (port.protocol, port.port) && covers(other, own)
        };
        let asks = |key: &&ObjectKey| {
            self.host_ports.pods.get(*key).is_some_and(|other| other.ports.iter().any(|one| same(&one)))
        };
        let has = self.host_ports.at(port).filter(asks).find(|key| self.primary(key).is_some());
        // Of two targets of one pod for one port the first counts.
        let first = asking.ports.iter().find(same) == Some(port);
        first && has == Some(pod) && !self.is_node_port(port.protocol, port.port)
    }

    /// A pod is there, or has changed, or is gone.
    pub(super) fn set_host_ports(&mut self, key: &ObjectKey, pod: Option<&record::Pod>) -> Changes {
        let is_here =
            |pod: &&record::Pod| pod::has_ports(pod) && pod.node.as_ref() == Some(&self.config.node);
        let asking = pod.filter(is_here).and_then(|pod| {
            let ports = pod.host_ports.clone().unwrap_or_default();
            (!ports.is_empty()).then(|| Asking { created: pod.created, uid: pod.uid.clone(), ports })
        });
        if self.host_ports.pods.get(key) == asking.as_ref() {
            return Changes::default();
        }
        self.host_ports.set(key, asking);
        Change::HostPorts(key.clone()).into()
    }
}

/// Whether a pod asks for a port of an address. A process of the node may say `localhost`, too.
fn covers(port: &HostPort, own: IpAddr) -> bool {
    port.address
        .is_none_or(|asked| asked == own || (asked.is_unspecified() && asked.is_ipv4() == own.is_ipv4()))
}
