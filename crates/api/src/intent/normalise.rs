//! From what is written to what is meant: the rules of the API server, checked again.

use std::net::IpAddr;

use causeway_types::{Cidr, Family, NamespaceName, NetworkName, ObjectName};

use super::addresses::{check_families, families, read_cidr, read_ip, read_list};
use super::draft::{Draft, Form, Host, is_written};
use super::network::{Evpn, EvpnInstance, Network, PodSubnet, Transport};
use super::problem::{Problem, Problems, Reason};
use super::written::{check_apart, check_host_lengths, check_largest};
use crate::crd::{
    self, ClusterNetwork, ClusterUserDefinedNetworkSpec, Role, Topology, UserDefinedNetworkSpec,
};
use crate::schema::messages as say;

impl Network {
    /// The network of a UserDefinedNetwork.
    ///
    /// # Errors
    /// Everything that speaks against the spec, in a fixed order.
    pub fn of_udn(
        namespace: &NamespaceName,
        name: &ObjectName,
        spec: &UserDefinedNetworkSpec,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Problems::default();
        check_udn_form(spec, &mut problems);
        let network = Draft::user_defined(spec)
            .and_then(|draft| network(NetworkName::of_udn(namespace, name), &draft, &mut problems));
        problems.into_result(network)
    }

    /// The network of a ClusterUserDefinedNetwork.
    ///
    /// # Errors
    /// Everything that speaks against the spec, in a fixed order.
    pub fn of_cluster_udn(
        name: &ObjectName,
        spec: &ClusterUserDefinedNetworkSpec,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Problems::default();
        let draft = check_cudn_form(spec, &mut problems);
        let network = draft
            .and_then(|draft| network(NetworkName::of_cluster_udn(name), &draft, &mut problems))
            .map(|network| with_cluster_settings(network, spec, &mut problems));
        problems.into_result(network)
    }
}

fn check_udn_form(spec: &UserDefinedNetworkSpec, problems: &mut Problems) {
    let flat = is_written(&spec.flat);
    problems.rule(!flat || (spec.layer2.is_none() && spec.layer3.is_none()), say::UDN_ONE_FORM);
    if flat {
        return;
    }
    let (layer3, layer2) = (spec.topology == Topology::Layer3, spec.topology == Topology::Layer2);
    problems.rule(layer3 == spec.layer3.is_some(), say::LAYER3_BLOCK);
    problems.rule(layer2 == spec.layer2.is_some(), say::LAYER2_BLOCK);
    problems.rule(spec.topology != Topology::Localnet, say::LOCALNET_FLAT);
}

fn check_cudn_form(spec: &ClusterUserDefinedNetworkSpec, problems: &mut Problems) -> Option<Draft> {
    match (&spec.network, &spec.template) {
        (Some(network), None) => {
            check_blocks(network, problems);
            check_transport(network, problems);
            Draft::blocks(network)
        }
        (None, Some(template)) => template_draft(template, problems),
        _ => {
            problems.rule(false, say::CUDN_ONE_FORM);
            None
        }
    }
}

fn check_blocks(network: &ClusterNetwork, problems: &mut Problems) {
    let is = |topology| network.topology == topology;
    problems.rule(is(Topology::Layer3) == network.layer3.is_some(), say::LAYER3_BLOCK);
    problems.rule(is(Topology::Layer2) == network.layer2.is_some(), say::LAYER2_BLOCK);
    problems.rule(is(Topology::Localnet) == network.localnet.is_some(), say::LOCALNET_BLOCK);
}

fn template_draft(template: &crd::NetworkTemplate, problems: &mut Problems) -> Option<Draft> {
    let direct = template.topology.is_some() || is_written(&template.flat);
    match &template.spec {
        Some(spec) => {
            problems.rule(!direct, say::TEMPLATE_ONE_FORM);
            Some(Draft::flat(spec.topology, &spec.flat))
        }
        None => {
            problems.rule(template.topology.is_some(), say::TOPOLOGY_REQUIRED);
            template.topology.map(|topology| Draft::flat(topology, &template.flat))
        }
    }
}

fn check_transport(network: &ClusterNetwork, problems: &mut Problems) {
    let layer2 = network.layer2.as_ref().is_some_and(|block| block.role == Role::Primary);
    let layer3 = network.layer3.as_ref().is_some_and(|block| block.role == Role::Primary);
    let no_overlay = network.transport == Some(crd::Transport::NoOverlay);
    let evpn = network.transport == Some(crd::Transport::Evpn);
    problems.rule(!no_overlay || layer3, say::NO_OVERLAY_LAYER3);
    problems.rule(no_overlay == network.no_overlay.is_some(), say::NO_OVERLAY_BLOCK);
    problems.rule(!evpn || layer2 || layer3, say::EVPN_PRIMARY);
    problems.rule(evpn == network.evpn.is_some(), say::EVPN_BLOCK);
    let Some(settings) = &network.evpn else { return };
    let (mac, ip) = (&settings.mac_vrf, &settings.ip_vrf);
    problems.rule(network.topology != Topology::Layer2 || mac.is_some(), say::EVPN_LAYER2);
    problems.rule(network.topology != Topology::Layer3 || ip.is_some(), say::EVPN_LAYER3);
    problems.rule(network.topology != Topology::Layer3 || mac.is_none(), say::EVPN_LAYER3_MAC);
    problems.rule(mac.is_some() || ip.is_some(), say::EVPN_SOME_VRF);
    let same = mac.as_ref().zip(ip.as_ref()).is_some_and(|(mac, ip)| mac.vni == ip.vni);
    problems.rule(!same, say::EVPN_DIFFERENT_VNI);
    let targets = [mac, ip].into_iter().flatten().filter_map(|vrf| vrf.route_target.as_deref());
    problems.rule(targets.into_iter().all(is_route_target), say::ROUTE_TARGET);
}

/// Six bytes in all: two for an AS number leave four for the local number, four leave two.
fn is_route_target(text: &str) -> bool {
    let number = |text: &str| {
        let plain = (1..=10).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| text.parse::<u64>().ok()).flatten().filter(|number| *number <= u64::from(u32::MAX))
    };
    let Some((administrator, Some(local))) = text.split_once(':').map(|(a, local)| (a, number(local))) else {
        return false;
    };
    if administrator == "*" {
        return true;
    }
    if read_ip(administrator).is_some_and(|address| address.is_ipv4()) {
        return local <= u64::from(u16::MAX);
    }
    number(administrator).is_some_and(|asn| asn <= u64::from(u16::MAX) || local <= u64::from(u16::MAX))
}

fn with_cluster_settings(
    network: Network,
    spec: &ClusterUserDefinedNetworkSpec,
    problems: &mut Problems,
) -> Network {
    let uplink = spec.uplinks.as_ref().and_then(|uplinks| uplinks.first().cloned());
    let evpn = spec.network.as_ref().is_some_and(|network| network.transport == Some(crd::Transport::Evpn));
    problems.rule(uplink.is_none() || network.is_primary(), say::UPLINKS_PRIMARY);
    problems.rule(uplink.is_none() || !evpn, say::UPLINKS_EVPN);
    let transport = spec.network.as_ref().map(transport).unwrap_or_default();
    Network { vrf: spec.vrf.clone(), uplink, transport, ..network }
}

fn transport(network: &ClusterNetwork) -> Transport {
    let instance = |vrf: &crd::EvpnVrf| EvpnInstance { vni: vrf.vni, route_target: vrf.route_target.clone() };
    match (network.transport, &network.no_overlay, &network.evpn) {
        (Some(crd::Transport::NoOverlay), Some(settings), _) => {
            Transport::NoOverlay { outbound_snat: settings.outbound_snat, routing: Some(settings.routing) }
        }
        (Some(crd::Transport::Evpn), _, Some(settings)) => Transport::Evpn(Evpn {
            vtep: settings.vtep.clone(),
            mac_vrf: settings.mac_vrf.as_ref().map(instance),
            ip_vrf: settings.ip_vrf.as_ref().map(instance),
        }),
        _ => Transport::Overlay,
    }
}

/// Checks a draft and turns it into a network. What is returned beside problems is incomplete and not used.
pub(super) fn network(name: NetworkName, draft: &Draft, problems: &mut Problems) -> Option<Network> {
    check_role(draft, problems);
    check_ipam(draft, problems);
    let subnets = read_subnets(draft, problems);
    let cidrs: Vec<Cidr> = subnets.iter().map(|subnet| subnet.cidr).collect();
    check_mtu(draft, &cidrs, problems);
    match (draft.topology, draft.form) {
        (Topology::Layer3, _) => check_layer3(draft, &subnets, problems),
        _ => check_families(&families(&cidrs), problems),
    }
    let exclude = read_exclude(draft, problems);
    let (reserved, infrastructure) = read_carved(draft, &cidrs, problems);
    let gateways = read_gateways(draft, &cidrs, &infrastructure, problems);
    let join = read_join(draft, problems);
    check_localnet(draft, problems);
    Some(Network {
        name,
        topology: draft.topology,
        role: draft.role?,
        mtu: draft.mtu,
        subnets,
        exclude_subnets: exclude,
        reserved_subnets: reserved,
        infrastructure_subnets: infrastructure,
        default_gateways: gateways,
        // The flat form ignores them for Secondary networks; with blocks they are refused there.
        join_subnets: if draft.role == Some(Role::Primary) { join } else { Vec::new() },
        transit_subnets: Vec::new(),
        ipam: !draft.ipam_disabled(),
        persistent_ips: draft.ipam.lifecycle.is_some() || draft.ipam_lifecycle,
        physical_network: draft.physical_network.clone(),
        vlan: draft.vlan.as_ref().and_then(|vlan| vlan.access.as_ref()).map(|access| access.id),
        vrf: None,
        transport: Transport::Overlay,
        uplink: None,
    })
}

fn check_role(draft: &Draft, problems: &mut Problems) {
    let primary = draft.role == Some(Role::Primary);
    problems.rule(draft.role.is_some(), say::ROLE_REQUIRED);
    problems.rule(draft.topology != Topology::Localnet || !primary, say::LOCALNET_SECONDARY);
    if draft.form == Form::Blocks {
        problems.rule(draft.join.is_none() || primary, say::JOIN_PRIMARY);
    }
}

fn check_ipam(draft: &Draft, problems: &mut Problems) {
    let (disabled, lifecycle) = (draft.ipam_disabled(), draft.ipam.lifecycle.is_some());
    let layer3 = draft.topology == Topology::Layer3;
    let none = draft.subnets.as_ref().is_none_or(Vec::is_empty);
    problems.rule(!layer3 || !(lifecycle || draft.ipam_lifecycle), say::LIFECYCLE_TOPOLOGY);
    problems.rule(!draft.ipam_lifecycle || !disabled, say::LIFECYCLE_ALIAS_ENABLED);
    problems.rule(!lifecycle || !disabled, say::LIFECYCLE_ENABLED);
    problems.rule(!layer3 || !disabled, say::DISABLED_TOPOLOGY);
    if layer3 {
        problems.rule(!none, say::LAYER3_SUBNETS);
        return;
    }
    problems.rule(!disabled || draft.role != Some(Role::Primary), say::DISABLED_SECONDARY);
    if draft.topology == Topology::Localnet && draft.form == Form::Blocks {
        problems.rule(disabled == none, say::LOCALNET_SUBNETS);
        return;
    }
    problems.rule(disabled || !none, say::SUBNETS_REQUIRED);
    problems.rule(!disabled || draft.subnets.is_none(), say::SUBNETS_FORBIDDEN);
}

fn read_subnets(draft: &Draft, problems: &mut Problems) -> Vec<PodSubnet> {
    let complaint = match (draft.form, draft.topology) {
        (Form::Blocks, _) => say::CIDR_INVALID,
        (Form::Flat, Topology::Layer3) => say::FLAT_LAYER3_CIDR,
        (Form::Flat, _) => say::FLAT_PLAIN_CIDR,
    };
    let mut subnets = Vec::new();
    for subnet in draft.subnets.iter().flatten() {
        match (read_cidr(&subnet.text), subnet.host) {
            (Some(net), Host::None) => subnets.push(PodSubnet { cidr: Cidr::masked(net), host_prefix: None }),
            (Some(net), Host::Length(host)) => {
                subnets.push(PodSubnet { cidr: Cidr::masked(net), host_prefix: Some(host) });
            }
            _ => problems.add(Reason::InvalidAddress, format!("{complaint}: subnets has {:?}", subnet.text)),
        }
    }
    subnets
}

fn check_mtu(draft: &Draft, cidrs: &[Cidr], problems: &mut Problems) {
    let ipv6 = cidrs.iter().any(|cidr| cidr.family() == Family::Ipv6);
    check_largest(draft.mtu, problems);
    if ipv6 && draft.mtu.is_some_and(|mtu| mtu < 1280) {
        let localnet = draft.topology == Topology::Localnet && draft.form == Form::Blocks;
        problems.add(Reason::InvalidMtu, if localnet { say::MTU_LOCALNET } else { say::MTU });
    }
}

fn check_layer3(draft: &Draft, subnets: &[PodSubnet], problems: &mut Problems) {
    let families: Vec<Family> = subnets.iter().map(|subnet| subnet.cidr.family()).collect();
    match (draft.form, draft.role) {
        (Form::Flat, _) => check_families(&families, problems),
        (Form::Blocks, Some(Role::Secondary)) => {
            problems.rule(subnets.len() <= 2, say::SECONDARY_COUNT);
            let alike = families.len() == 2 && families[0] == families[1];
            problems.rule(!alike, say::SECONDARY_FAMILIES);
        }
        _ => {}
    }
    check_host_lengths(subnets, problems);
    check_apart(subnets, problems);
}

fn read_exclude(draft: &Draft, problems: &mut Problems) -> Vec<Cidr> {
    let Some(texts) = &draft.exclude else { return Vec::new() };
    problems.rule(draft.subnets.is_some(), say::EXCLUDE_NEEDS_SUBNETS);
    read_list("excludeSubnets", texts, problems)
}

fn read_carved(draft: &Draft, cidrs: &[Cidr], problems: &mut Problems) -> (Vec<Cidr>, Vec<Cidr>) {
    let reserved = read_part(draft, "reservedSubnets", draft.reserved.as_ref(), cidrs, problems);
    let infrastructure =
        read_part(draft, "infrastructureSubnets", draft.infrastructure.as_ref(), cidrs, problems);
    let overlap = infrastructure.iter().any(|i| reserved.iter().any(|r| i.overlaps(r)));
    problems.rule(!overlap, say::CARVED_OVERLAP);
    (reserved, infrastructure)
}

fn read_part(
    draft: &Draft,
    field: &str,
    texts: Option<&Vec<String>>,
    cidrs: &[Cidr],
    problems: &mut Problems,
) -> Vec<Cidr> {
    let Some(texts) = texts else { return Vec::new() };
    problems.rule(draft.subnets.is_some(), &say::carved_needs_subnets(field));
    problems.rule(draft.role == Some(Role::Primary), &say::carved_primary(field));
    let parts = read_list(field, texts, problems);
    let masked = texts.iter().filter_map(|text| read_cidr(text)).all(|net| net == net.trunc());
    problems.rule(masked, &say::carved_masked(field));
    let inside = parts.iter().all(|part| cidrs.is_empty() || cidrs.iter().any(|cidr| cidr.contains(part)));
    problems.rule(inside, &say::carved_inside(field));
    parts
}

fn read_gateways(
    draft: &Draft,
    cidrs: &[Cidr],
    infrastructure: &[Cidr],
    problems: &mut Problems,
) -> Vec<IpAddr> {
    let Some(texts) = &draft.gateways else { return Vec::new() };
    let gateways: Vec<IpAddr> = texts.iter().filter_map(|text| read_ip(text)).collect();
    if gateways.len() != texts.len() {
        problems.add(Reason::InvalidAddress, format!("{}: defaultGatewayIPs has {texts:?}", say::IP_INVALID));
    }
    problems.rule(draft.role == Some(Role::Primary), say::GATEWAY_PRIMARY);
    let within = |places: &[Cidr]| {
        let one = |gateway: &IpAddr| places.iter().any(|place| place.contains_address(*gateway));
        places.is_empty() || gateways.iter().all(one)
    };
    problems.rule(within(cidrs), say::GATEWAY_INSIDE);
    problems.rule(cidrs.is_empty() || texts.len() == cidrs.len(), say::GATEWAY_FAMILIES);
    problems.rule(within(infrastructure), say::GATEWAY_INFRASTRUCTURE);
    let alike = gateways.len() == 2 && gateways[0].is_ipv4() == gateways[1].is_ipv4();
    problems.rule(!alike, say::IP_FAMILIES);
    gateways
}

fn read_join(draft: &Draft, problems: &mut Problems) -> Vec<Cidr> {
    let Some(texts) = &draft.join else { return Vec::new() };
    problems.rule((1..=2).contains(&texts.len()), say::JOIN_COUNT);
    let join = read_list("joinSubnets", texts, problems);
    problems
        .rule(texts.len() != 2 || families(&join).windows(2).all(|pair| pair[0] != pair[1]), say::FAMILIES);
    join
}

fn check_localnet(draft: &Draft, problems: &mut Problems) {
    let name = draft.physical_network.as_deref().unwrap_or_default();
    problems.rule(!name.contains([',', ':']), say::PHYSICAL_NAME);
    problems.rule(draft.vlan.as_ref().is_none_or(|vlan| vlan.access.is_some()), say::VLAN_ACCESS);
}
