//! The CNI configuration of a network.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::crd::{OutboundSnat, Role, Topology};
use crate::intent::{ClusterConfig, Evpn, EvpnInstance, Network, Transport};

/// The CNI plugin that serves our networks.
pub const CNI_TYPE: &str = "ovn-k8s-cni-overlay";
const CNI_VERSION: &str = "1.1.0";
/// What localnet networks save by having no tunnels.
const TUNNEL_OVERHEAD: u32 = 100;

/// The configuration as JSON has it. Fields that say nothing are left out.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CniConfig {
    /// Whether addresses outlive pods.
    #[serde(default, rename = "allowPersistentIPs", skip_serializing_if = "is_false")]
    pub allow_persistent_ips: bool,
    /// The version of the CNI specification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni_version: Option<String>,
    /// Gateway addresses, separated by commas.
    #[serde(default, rename = "defaultGatewayIPs", skip_serializing_if = "Option::is_none")]
    pub default_gateway_ips: Option<String>,
    /// The EVPN transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evpn: Option<CniEvpn>,
    /// What is never given to a pod, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_subnets: Option<String>,
    /// What the network takes its own addresses from, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_subnets: Option<String>,
    /// Join subnets, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join_subnet: Option<String>,
    /// The MTU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The network's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `namespace/name` of the NAD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net_attach_def_name: Option<String>,
    /// Whether pods leave a network without overlay with the node's address.
    #[serde(default, rename = "outboundSNAT", skip_serializing_if = "Option::is_none")]
    pub outbound_snat: Option<String>,
    /// The physical network of a localnet network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_network_name: Option<String>,
    /// What is given only to a pod that asks, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_subnets: Option<String>,
    /// `primary` or `secondary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Pod subnets, separated by commas; of a layer3 network with host lengths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnets: Option<String>,
    /// `layer2`, `layer3` or `localnet`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    /// Transit subnets, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transit_subnet: Option<String>,
    /// `no-overlay` or `evpn`; tunnels when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// The CNI plugin.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The uplink through which the network leaves the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<String>,
    /// The VLAN of a localnet network.
    #[serde(default, rename = "vlanID", skip_serializing_if = "Option::is_none")]
    pub vlan_id: Option<u32>,
    /// The VRF's name, where one was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vrf: Option<String>,
    /// Another way of saying `"role":"primary"`.
    #[serde(default, skip_serializing)]
    pub primary_network: Option<Value>,
    /// Another way of saying `allowPersistentIPs`.
    #[serde(default, rename = "persistentIPs", skip_serializing)]
    pub persistent_ips: Option<Value>,
    /// Another plugin's address management, which ours does not use.
    #[serde(default, skip_serializing)]
    pub ipam: Option<Value>,
}

/// The EVPN transport.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct CniEvpn {
    /// The layer-3 instance.
    #[serde(default, rename = "ipVRF", skip_serializing_if = "Option::is_none")]
    pub ip_vrf: Option<CniEvpnInstance>,
    /// The layer-2 instance.
    #[serde(default, rename = "macVRF", skip_serializing_if = "Option::is_none")]
    pub mac_vrf: Option<CniEvpnInstance>,
    /// The tunnel end points.
    #[serde(default)]
    pub vtep: String,
}

/// One EVPN instance.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CniEvpnInstance {
    /// `<AS number>:<number>`, `<IPv4 address>:<number>` or `*:<number>`; made from AS number and VNI if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_target: Option<String>,
    /// The VXLAN network identifier.
    pub vni: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl CniConfig {
    /// The configuration of a network, for the NAD `namespace/name`.
    pub fn of(network: &Network, nad: &str, cluster: &ClusterConfig) -> Self {
        Self {
            allow_persistent_ips: network.persistent_ips,
            cni_version: Some(CNI_VERSION.into()),
            default_gateway_ips: list(&network.default_gateways),
            exclude_subnets: list(&network.exclude_subnets),
            infrastructure_subnets: list(&network.infrastructure_subnets),
            join_subnet: list(&network.effective_join_subnets(cluster)),
            mtu: network.mtu.or_else(|| default_mtu(network, cluster)),
            name: Some(network.name.to_string()),
            net_attach_def_name: Some(nad.into()),
            physical_network_name: network.physical_network.clone(),
            plugin: Some(CNI_TYPE.into()),
            reserved_subnets: list(&network.reserved_subnets),
            role: Some(role_text(network.role).into()),
            subnets: list(&network.subnets),
            topology: Some(topology_text(network.topology).into()),
            transit_subnet: list(&network.effective_transit_subnets(cluster)),
            uplink: network.uplink.clone(),
            vlan_id: network.vlan.map(u32::from),
            vrf: network.vrf.clone(),
            ..Self::default()
        }
        .with_transport(&network.transport)
    }

    fn with_transport(self, transport: &Transport) -> Self {
        match transport {
            Transport::Overlay => self,
            Transport::NoOverlay { outbound_snat, .. } => Self {
                transport: Some("no-overlay".into()),
                outbound_snat: Some(snat_text(*outbound_snat).into()),
                ..self
            },
            Transport::Evpn(evpn) => {
                Self { transport: Some("evpn".into()), evpn: Some(evpn_config(evpn)), ..self }
            }
        }
    }

    /// Compact JSON with sorted keys: equal configurations are equal texts.
    pub fn text(&self) -> String {
        // The detour sorts the keys whatever the order of the fields is.
        serde_json::to_value(self).map(|value| value.to_string()).unwrap_or_default()
    }
}

fn list<T: ToString>(items: &[T]) -> Option<String> {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join(","))
}

/// Tunnelled networks leave it out: the node's own value then counts. Localnet networks have no tunnel.
fn default_mtu(network: &Network, cluster: &ClusterConfig) -> Option<u32> {
    (network.topology == Topology::Localnet).then_some(cluster.mtu + TUNNEL_OVERHEAD)
}

fn role_text(role: Role) -> &'static str {
    match role {
        Role::Primary => "primary",
        Role::Secondary => "secondary",
    }
}

fn topology_text(topology: Topology) -> &'static str {
    match topology {
        Topology::Layer2 => "layer2",
        Topology::Layer3 => "layer3",
        Topology::Localnet => "localnet",
    }
}

fn snat_text(snat: OutboundSnat) -> &'static str {
    match snat {
        OutboundSnat::Enabled => "enabled",
        OutboundSnat::Disabled => "disabled",
    }
}

fn evpn_config(evpn: &Evpn) -> CniEvpn {
    let instance = |instance: &EvpnInstance| CniEvpnInstance {
        route_target: instance.route_target.clone(),
        vni: instance.vni,
    };
    CniEvpn {
        vtep: evpn.vtep.clone(),
        mac_vrf: evpn.mac_vrf.as_ref().map(instance),
        ip_vrf: evpn.ip_vrf.as_ref().map(instance),
    }
}
