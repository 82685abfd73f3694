//! A pod as a zone keeps it: its ports, and nothing else of it.

use std::sync::Arc;

use causeway_api::annotations::Attachment;
use causeway_api::annotations::{OpenPort, PodNetwork, PodNetworks, PodRole};
use causeway_types::{Mac, NadKey, NodeName, PortKey};
use ipnet::IpNet;

use causeway_record as record;

/// What a zone keeps of a pod: of another node's only the ports that matter here.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodInfo {
    /// Where it runs.
    pub node: Arc<NodeName>,
    /// Its ports, the one on the default network first.
    pub ports: Box<[PodPort]>,
    /// What is known of a pod of this node alone.
    pub local: Option<Box<LocalPod>>,
}

/// What only the pod's own node needs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LocalPod {
    /// Its UID.
    pub uid: String,
    /// Ports that stay reachable from the default network although another network is primary.
    pub open_ports: Vec<OpenPort>,
    /// Why the pod's networks cannot be read: its ports stay as they are.
    pub unreadable: Option<String>,
}

/// A pod of this node as the container runtime meets it, with addresses or still without.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Local {
    /// Tells it from another pod of the same name.
    pub uid: String,
    /// Its UID for the kubelet, where that is another: static pods.
    pub static_uid: Option<String>,
    /// The addresses that the cluster manager has given it.
    pub networks: record::Read<PodNetworks>,
    /// Whether somebody has written its network status: we, or a plugin that calls several others.
    pub has_status: bool,
}

impl Local {
    pub(super) fn of(pod: &record::Pod) -> Self {
        Self {
            uid: pod.uid.clone(),
            static_uid: pod.static_pod.clone(),
            networks: pod.networks.clone(),
            has_status: pod.has_status,
        }
    }

    /// Whether the kubelet means this pod. One that tells no UID means whichever is there.
    pub fn is(&self, uid: &str) -> bool {
        uid.is_empty() || self.uid == uid || self.static_uid.as_deref() == Some(uid)
    }
}

/// One attachment of a pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodPort {
    /// The attachment, as the pod's annotation names it; none is the default network.
    pub attachment: Option<Arc<NadKey>>,
    /// Its address; left out where a pod of another node is only counted.
    pub address: Option<PodAddress>,
    /// What the network is for the pod.
    pub role: Option<PodRole>,
}

/// The address of a pod on one network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodAddress {
    /// Its MAC address.
    pub mac: Mac,
    /// Its IP addresses, IPv4 first.
    pub ips: [Option<IpNet>; 2],
    /// The key of its port on a layer2 network's switch.
    pub tunnel: Option<PortKey>,
}

impl PodAddress {
    /// The IP addresses.
    pub fn ips(&self) -> impl Iterator<Item = IpNet> {
        self.ips.into_iter().flatten()
    }

    /// As a logical switch port has it: the MAC address, then the IP addresses.
    pub fn text(&self) -> String {
        self.ips().fold(self.mac.to_string(), |text, ip| format!("{text} {}", ip.addr()))
    }
}

impl PodInfo {
    /// Whether the default network is only the platform's for this pod.
    pub fn is_isolated(&self) -> bool {
        self.ports.iter().any(|port| match port.attachment {
            None => port.role == Some(PodRole::InfrastructureLocked),
            Some(_) => port.role == Some(PodRole::Primary),
        })
    }

    /// The pod's port of its primary network.
    pub fn primary(&self) -> Option<&PodPort> {
        primary(&self.ports)
    }
}

/// The port of the primary network among those of a pod.
pub(super) fn primary(ports: &[PodPort]) -> Option<&PodPort> {
    let named = ports.iter().find(|port| port.role == Some(PodRole::Primary));
    named.or_else(|| ports.iter().find(|port| port.attachment.is_none() && port.role.is_none()))
}

/// Whether a pod has ports at all, now or ever.
pub(super) fn has_ports(pod: &record::Pod) -> bool {
    !pod.host_network && !pod.finished && pod.node.is_some()
}

/// The ports of a pod, in the order of its annotation; none while nothing was given out.
pub(super) fn read_ports(pod: &record::Pod) -> Result<Option<Vec<PodPort>>, String> {
    let Some(PodNetworks(networks)) = pod.networks.clone()?.filter(|networks| !networks.0.is_empty()) else {
        return Ok(None);
    };
    networks
        .into_iter()
        .map(|(attachment, network)| port(attachment, network))
        .collect::<Result<_, _>>()
        .map(Some)
}

fn port(attachment: Attachment, network: PodNetwork) -> Result<PodPort, String> {
    let mut ips = [None, None];
    for ip in network.ip_addresses {
        let place = &mut ips[usize::from(ip.addr().is_ipv6())];
        if place.replace(ip).is_some() {
            return Err(format!("attachment {attachment} has two addresses of one IP family"));
        }
    }
    let address = PodAddress { mac: network.mac_address, ips, tunnel: network.tunnel_id };
    let attachment = match attachment {
        Attachment::Default => None,
        Attachment::Nad(key) => Some(Arc::new(key)),
    };
    Ok(PodPort { attachment, address: Some(address), role: network.role })
}

/// Ports that the pod's owner opens.
pub(super) fn read_open_ports(pod: &record::Pod) -> Result<Vec<OpenPort>, String> {
    Ok(pod.open_ports.clone()?.map(|ports| ports.0).unwrap_or_default())
}

/// The attachment definition of an attachment: a repeated one has a number behind it.
pub(super) fn nad_of(attachment: &Arc<NadKey>) -> Arc<NadKey> {
    let base = format!("{}/{}", attachment.namespace(), attachment.nad());
    if base == attachment.as_str() {
        return attachment.clone();
    }
    NadKey::new(base).map_or_else(|_| attachment.clone(), Arc::new)
}
