//! NADs that others have written: which are networks of ours, which are not, and which are broken.

use std::net::IpAddr;

use causeway_types::{Cidr, NetworkName, NetworkOrigin};
use serde_json::Value;

use super::config::{CNI_TYPE, CniConfig, CniEvpnInstance};
use crate::crd::{OutboundSnat, Role, Topology};
use crate::intent::{
    Evpn, EvpnInstance, MOST_SUBNETS, Network, PodSubnet, Problem, Reason, Transport, check_written,
    read_cidr, read_ip,
};

/// The most items of any other list.
const MOST_ITEMS: usize = 25;

/// What a NAD is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Attachment {
    /// A network of ours.
    Ours(Box<Network>),
    /// Another plugin's, or nothing yet: none of our business.
    Foreign,
    /// Not even JSON. It may be anybody's, so it never stands in a network's way.
    Unreadable(String),
    /// Ours by its type, but no network.
    Malformed(Problem),
}

/// Reads the configuration of the NAD `nad` (`namespace/name`): one plugin, or a list of plugins.
pub fn read(nad: &str, config: Option<&str>) -> Attachment {
    let Some(text) = config.map(str::trim).filter(|text| !text.is_empty()) else {
        return Attachment::Foreign;
    };
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => {
            return Attachment::Unreadable(format!("NAD {nad}: the configuration is not JSON: {error}"));
        }
    };
    let Some(plugin) = our_plugin(&value) else { return Attachment::Foreign };
    let config: CniConfig = match serde_json::from_value(plugin) {
        Ok(config) => config,
        Err(error) => return malformed(nad, error),
    };
    match network(nad, &config) {
        Ok(network) => Attachment::Ours(Box::new(network)),
        Err(problem) => malformed(nad, problem),
    }
}

fn malformed(nad: &str, problem: impl std::fmt::Display) -> Attachment {
    Attachment::Malformed(Problem::new(Reason::InvalidAttachment, format!("NAD {nad}: {problem}")))
}

/// A list of plugins has the name outside.
fn our_plugin(value: &Value) -> Option<Value> {
    if value["type"] == CNI_TYPE {
        return Some(value.clone());
    }
    let mut plugin = value["plugins"].as_array()?.iter().find(|plugin| plugin["type"] == CNI_TYPE)?.clone();
    let fields = plugin.as_object_mut()?;
    if let Some(name) = value.get("name") {
        fields.entry("name").or_insert_with(|| name.clone());
    }
    Some(plugin)
}

/// Whether a configuration wants to be a primary network, also if it cannot be one as it is written: nobody else is then the
/// namespace's primary network without a word.
pub fn claims_primary(config: &str) -> bool {
    let plugin = serde_json::from_str::<Value>(config).ok().and_then(|value| our_plugin(&value));
    plugin.is_some_and(|plugin| {
        plugin["role"] == "primary" || switch("primaryNetwork", plugin.get("primaryNetwork")) == Ok(true)
    })
}

fn network(nad: &str, config: &CniConfig) -> Result<Network, String> {
    check_around(nad, config)?;
    let topology = topology(config)?;
    let name = name(config)?;
    let subnets = subnets(topology, config)?;
    let network = Network {
        name,
        topology,
        role: role(config)?,
        mtu: config.mtu,
        ipam: !subnets.is_empty(),
        subnets,
        exclude_subnets: cidrs("excludeSubnets", config.exclude_subnets.as_deref())?,
        reserved_subnets: cidrs("reservedSubnets", config.reserved_subnets.as_deref())?,
        infrastructure_subnets: cidrs("infrastructureSubnets", config.infrastructure_subnets.as_deref())?,
        default_gateways: addresses(config.default_gateway_ips.as_deref())?,
        join_subnets: cidrs("joinSubnet", config.join_subnet.as_deref())?,
        transit_subnets: cidrs("transitSubnet", config.transit_subnet.as_deref())?,
        persistent_ips: config.allow_persistent_ips
            || switch("persistentIPs", config.persistent_ips.as_ref())?,
        physical_network: config.physical_network_name.clone(),
        // Tools that know no absent number write 0.
        vlan: config.vlan_id.filter(|id| *id != 0).map(vlan).transpose()?,
        vrf: config.vrf.clone(),
        transport: transport(config)?,
        uplink: config.uplink.clone(),
    };
    match check_written(&network).into_iter().next() {
        Some(problem) => Err(problem.message),
        None => Ok(network),
    }
}

fn check_around(nad: &str, config: &CniConfig) -> Result<(), String> {
    if let Some(written) = config.net_attach_def_name.as_deref().filter(|written| *written != nad) {
        return Err(format!("net-attach-def name ({nad}) is inconsistent with config ({written})"));
    }
    let uses_ipam = config.ipam.as_ref().is_some_and(|ipam| match ipam {
        Value::Object(settings) => !settings.is_empty(),
        other => !other.is_null(),
    });
    if uses_ipam {
        return Err("ipam is another plugin's address management: leave it out and write subnets".into());
    }
    Ok(())
}

fn name(config: &CniConfig) -> Result<NetworkName, String> {
    let name = config.name.as_deref().unwrap_or_default();
    if matches!(name, "" | "default" | "ovn-kubernetes") {
        return Err(format!("the network name {name:?} is reserved: choose another name"));
    }
    NetworkName::new(name).map_err(|e| e.to_string())
}

fn topology(config: &CniConfig) -> Result<Topology, String> {
    match config.topology.as_deref().unwrap_or_default() {
        "layer2" => Ok(Topology::Layer2),
        "layer3" => Ok(Topology::Layer3),
        "localnet" => Ok(Topology::Localnet),
        other => Err(format!("topology {other:?} is none of layer2, layer3, localnet")),
    }
}

fn role(config: &CniConfig) -> Result<Role, String> {
    let primary = switch("primaryNetwork", config.primary_network.as_ref())?;
    match config.role.as_deref() {
        Some("primary") => Ok(Role::Primary),
        Some("secondary") if primary => Err("role is secondary but primaryNetwork is true".into()),
        None if primary => Ok(Role::Primary),
        Some("secondary") | None => Ok(Role::Secondary),
        Some(other) => Err(format!("role {other:?} is neither primary nor secondary")),
    }
}

/// Published examples write `true` and `"true"`.
fn switch(field: &str, value: Option<&Value>) -> Result<bool, String> {
    match value {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(Value::String(text)) if text == "true" => Ok(true),
        Some(Value::String(text)) if text == "false" => Ok(false),
        Some(other) => Err(format!("{field} is {other} instead of true or false")),
    }
}

/// The items of a list, unless there are too many: nothing is done about them then.
fn items<'a>(
    field: &str,
    text: Option<&'a str>,
    most: usize,
) -> Result<impl Iterator<Item = &'a str>, String> {
    let items = || text.unwrap_or_default().split(',').map(str::trim).filter(|item| !item.is_empty());
    match items().nth(most) {
        None => Ok(items()),
        Some(_) => Err(format!("{field} has more than {most} items: write fewer")),
    }
}

fn cidr(text: &str) -> Result<Cidr, String> {
    read_cidr(text).map(Cidr::masked).ok_or_else(|| format!("CIDR {text:?} not properly formatted"))
}

fn cidrs(field: &str, text: Option<&str>) -> Result<Vec<Cidr>, String> {
    items(field, text, MOST_ITEMS)?
        .map(|item| cidr(item).map_err(|problem| format!("{field}: {problem}")))
        .collect()
}

fn addresses(text: Option<&str>) -> Result<Vec<IpAddr>, String> {
    items("defaultGatewayIPs", text, MOST_ITEMS)?
        .map(|item| read_ip(item).ok_or_else(|| format!("defaultGatewayIPs: {item:?} is not an address")))
        .collect()
}

fn subnets(topology: Topology, config: &CniConfig) -> Result<Vec<PodSubnet>, String> {
    items("subnets", config.subnets.as_deref(), MOST_SUBNETS)?.map(|item| subnet(topology, item)).collect()
}

fn subnet(topology: Topology, item: &str) -> Result<PodSubnet, String> {
    let (text, host_prefix) = match (topology, item.match_indices('/').nth(1)) {
        (Topology::Layer3, Some((at, _))) => {
            let host = item[at + 1..].parse().map_err(|_| format!("CIDR {item:?} not properly formatted"))?;
            (&item[..at], Some(host))
        }
        _ => (item, None),
    };
    Ok(PodSubnet { cidr: cidr(text)?, host_prefix })
}

fn vlan(id: u32) -> Result<u16, String> {
    u16::try_from(id)
        .ok()
        .filter(|id| (1..=4094).contains(id))
        .ok_or_else(|| format!("vlanID {id} is not within 1 and 4094"))
}

fn transport(config: &CniConfig) -> Result<Transport, String> {
    let instance = |instance: &CniEvpnInstance| EvpnInstance {
        vni: instance.vni,
        route_target: instance.route_target.clone(),
    };
    match (config.transport.as_deref(), &config.evpn) {
        (None | Some(""), None) => Ok(Transport::Overlay),
        (Some("no-overlay"), None) => {
            let outbound_snat = match config.outbound_snat.as_deref() {
                Some("enabled") => OutboundSnat::Enabled,
                None | Some("disabled") => OutboundSnat::Disabled,
                Some(other) => return Err(format!("outboundSNAT {other:?} is neither enabled nor disabled")),
            };
            Ok(Transport::NoOverlay { outbound_snat, routing: None })
        }
        (Some("evpn"), Some(evpn)) => Ok(Transport::Evpn(Evpn {
            vtep: evpn.vtep.clone(),
            mac_vrf: evpn.mac_vrf.as_ref().map(instance),
            ip_vrf: evpn.ip_vrf.as_ref().map(instance),
        })),
        (other, _) => Err(format!("transport {other:?} and evpn do not fit together")),
    }
}

/// Why a NAD may not have the network that it names: the network of a user-defined network belongs to that object
/// alone, or a tenant could tap into another's. `owner` is the network of the object that controls the NAD,
/// `exists` knows the networks of user-defined networks.
pub fn impersonation(
    nad: &str,
    network: &NetworkName,
    owner: Option<&NetworkName>,
    exists: impl Fn(&NetworkName) -> bool,
) -> Option<Problem> {
    let user_defined = matches!(network.origin(), NetworkOrigin::Cluster(_) | NetworkOrigin::Namespaced(..));
    if owner == Some(network) || !user_defined || !exists(network) {
        return None;
    }
    let message = format!(
        "NAD {nad} names network {network}, which belongs to a user-defined network: choose another name"
    );
    Some(Problem::new(Reason::ForeignNetwork, message))
}

/// Why two NADs cannot be of one network. Layer3 pod subnets may have grown in one of them.
pub fn same_network(nad: &str, known: &Network, other: &Network) -> Option<Problem> {
    let comparable = |network: &Network| Network { subnets: Vec::new(), ..network.clone() };
    let grown = known.topology == Topology::Layer3
        && known.subnets.iter().zip(&other.subnets).all(|(known, other)| known == other);
    if comparable(known) == comparable(other) && (grown || known.subnets == other.subnets) {
        return None;
    }
    let message = format!("NAD {nad} CNI config does not match that of network {}", known.name);
    Some(Problem::new(Reason::InvalidAttachment, message))
}
