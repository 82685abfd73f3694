//! What users are told when a rule does not hold, by the API server and by the reconcilers alike.
//!
//! Where published messages differ, the proposals' words are kept; users and tests match on them.

pub(crate) const UDN_ONE_FORM: &str = "Settings of the flat form (role, mtu, subnets, excludeSubnets, joinSubnets, ipam, ipamLifecycle) and a layer2 or layer3 block exclude each other";
pub(crate) const LAYER3_BLOCK: &str =
    "spec.layer3 is required when topology is Layer3 and forbidden otherwise";
pub(crate) const LAYER2_BLOCK: &str =
    "spec.layer2 is required when topology is Layer2 and forbidden otherwise";
pub(crate) const LOCALNET_BLOCK: &str =
    "spec.localnet is required when topology is Localnet and forbidden otherwise";
pub(crate) const LOCALNET_FLAT: &str =
    "Unsupported value: \"Localnet\": a UserDefinedNetwork has topology Localnet in the flat form only";
pub(crate) const CUDN_ONE_FORM: &str = "Exactly one of network and template is required";
pub(crate) const TEMPLATE_ONE_FORM: &str =
    "Settings directly in template and template.spec exclude each other";
pub(crate) const TOPOLOGY_REQUIRED: &str = "topology is required";
pub(crate) const ROLE_REQUIRED: &str = "role is required";
pub(crate) const LAYER3_SUBNETS: &str = "Subnets is required for Layer3 topology";
pub(crate) const LOCALNET_SECONDARY: &str = "Topology localnet is not supported for primary network";
pub(crate) const LIFECYCLE_TOPOLOGY: &str = "ipamLifecycle is supported for Layer2 and Localnet topologies";
pub(crate) const LIFECYCLE_ALIAS_ENABLED: &str =
    "ipamLifecycle Persistent is only supported when ipam.mode is Enabled";
pub(crate) const LIFECYCLE_ENABLED: &str = "lifecycle Persistent is only supported when ipam.mode is Enabled";
pub(crate) const DISABLED_TOPOLOGY: &str =
    "Disabled ipam.mode is only supported for Layer2 and Localnet topologies";
pub(crate) const DISABLED_SECONDARY: &str = "Disabled ipam.mode is only supported for Secondary network";
pub(crate) const SUBNETS_REQUIRED: &str = "Subnets is required with ipam.mode is Enabled or unset";
pub(crate) const SUBNETS_FORBIDDEN: &str = "Subnets must be unset when ipam.mode is Disabled";
pub(crate) const LOCALNET_SUBNETS: &str =
    "Subnets is required with ipam.mode is Enabled or unset, and forbidden otherwise";
pub(crate) const EXCLUDE_NEEDS_SUBNETS: &str = "excludeSubnets must be unset when subnets is unset";
pub(crate) const MTU: &str = "MTU should be greater than or equal to 1280 when IPv6 subnet is used";
pub(crate) const MTU_LOCALNET: &str =
    "MTU should be greater than or equal to 1280 when an IPv6 subnet is used";
pub(crate) const PORTS_ORDER: &str = "start must be less than end";
pub(crate) const NAMED_PORTS: &str =
    "networks, nodes and domainNames have no named ports: name the port by its number";
pub(crate) const BASELINE_NAME: &str = "the only BaselineAdminNetworkPolicy is called default";
pub(crate) const CIDR_INVALID: &str = "CIDR is invalid";
pub(crate) const IP_INVALID: &str = "IP is invalid";
pub(crate) const FAMILIES: &str = "When 2 CIDRs are set, they must be from different IP families";
pub(crate) const IP_FAMILIES: &str = "When 2 IPs are set, they must be from different IP families";
pub(crate) const FLAT_PLAIN_CIDR: &str =
    "Subnets of Layer2 and Localnet networks must be CIDRs, without a host subnet length";
pub(crate) const FLAT_LAYER3_CIDR: &str =
    "Subnets of Layer3 networks must be CIDRs, or CIDRs with a host subnet length such as 10.128.0.0/16/24";
pub(crate) const JOIN_PRIMARY: &str = "JoinSubnets is only supported for Primary network";
pub(crate) const JOIN_COUNT: &str = "Unexpected number of join subnets";
pub(crate) const SECONDARY_COUNT: &str = "Secondary networks may define at most 2 subnets";
pub(crate) const SECONDARY_FAMILIES: &str =
    "When 2 CIDRs are set for Secondary networks, they must be from different IP families";
pub(crate) const SAME_HOST: &str = "Subnets from the same IP family must use the same hostSubnet value";
pub(crate) const SAME_CIDR: &str = "Subnets with same CIDR are not allowed";
pub(crate) const OVERLAP: &str = "Subnets must not overlap or contain each other";
pub(crate) const SPECIAL: &str = "Subnets must not have addresses that are no pod's: loopback (127.0.0.0/8, ::1), link-local (169.254.0.0/16, fe80::/10), multicast (224.0.0.0/4, ff00::/8), reserved (240.0.0.0/4) or unspecified ones (0.0.0.0/8, ::); use another subnet";
pub(crate) const HOST_SUBNET_LONGER: &str = "HostSubnet must be smaller than CIDR subnet";
pub(crate) const HOST_SUBNET_V4: &str = "HostSubnet must < 32 for ipv4 CIDR: it is the prefix length of each node's subnet, which needs room for pods; write 29 or less, such as 24";
pub(crate) const HOST_SUBNET_V6: &str = "IPv6 only supports /64 host subnets";
pub(crate) const CARVED_OVERLAP: &str = "infrastructureSubnets and reservedSubnets must not overlap";
pub(crate) const GATEWAY_PRIMARY: &str = "defaultGatewayIPs is only supported for Primary network";
pub(crate) const GATEWAY_INSIDE: &str =
    "defaultGatewayIPs must belong to one of the subnets specified in the subnets field";
pub(crate) const GATEWAY_FAMILIES: &str = "defaultGatewayIPs must be specified for all IP families";
pub(crate) const GATEWAY_INFRASTRUCTURE: &str = "defaultGatewayIPs have to belong to infrastructureSubnets";
pub(crate) const PHYSICAL_NAME: &str = "physicalNetworkName cannot contain `,` or `:` characters";
pub(crate) const VLAN_ACCESS: &str =
    "vlan access config is required when vlan mode is 'Access', and forbidden otherwise";
pub(crate) const UPLINKS_PRIMARY: &str =
    "spec.uplinks is supported only for primary Layer2 and Layer3 networks";
pub(crate) const UPLINKS_EVPN: &str = "spec.uplinks is not supported with EVPN transport";
pub(crate) const NO_OVERLAY_LAYER3: &str =
    "transport 'NoOverlay' is only supported for Layer3 primary networks";
pub(crate) const NO_OVERLAY_BLOCK: &str = "spec.noOverlay is required when type transport is 'NoOverlay'; spec.noOverlay is forbidden when transport type is not 'NoOverlay'";
pub(crate) const EVPN_PRIMARY: &str =
    "transport 'EVPN' is only supported for Layer2 or Layer3 primary networks";
pub(crate) const EVPN_BLOCK: &str = "spec.evpn field is required when transport is 'EVPN'; spec.evpn field is forbidden when transport is not 'EVPN'";
pub(crate) const EVPN_LAYER2: &str =
    "spec.evpn.macVRF field is required for Layer2 topology when transport is 'EVPN'";
pub(crate) const EVPN_LAYER3: &str =
    "spec.evpn.ipVRF field is required for Layer3 topology when transport is 'EVPN'";
pub(crate) const EVPN_LAYER3_MAC: &str =
    "spec.evpn.macVRF field is forbidden for Layer3 topology when transport is 'EVPN'";
pub(crate) const EVPN_SOME_VRF: &str = "at least one of macVRF or ipVRF must be specified";
pub(crate) const EVPN_DIFFERENT_VNI: &str = "macVRF and ipVRF must use different VNIs";
pub(crate) const ROUTE_TARGET: &str = "routeTarget must be <AS number>:<number>, <IPv4 address>:<number> or *:<number>, six bytes in all. RT must contain exactly one colon; RT global administrator must be either '*', an IPv4 address, or a number; RT local administrator must be a number; RT with wildcard global administrator must have format *:OPQR where OPQR <= 4294967295; RT with IPv4 global administrator must have format A.B.C.D:MN where MN <= 65535; RT with 4-byte ASN global administrator must have format GHJK:MN where GHJK <= 4294967295 and MN <= 65535";
pub(crate) const SPEC_IMMUTABLE: &str = "Spec is immutable";
pub(crate) const TOPOLOGY_IMMUTABLE: &str = "Topology is immutable";
pub(crate) const LAYER2_IMMUTABLE: &str = "Layer2 is immutable";
pub(crate) const LOCALNET_IMMUTABLE: &str = "Localnet is immutable";
pub(crate) const ROLE_IMMUTABLE: &str = "role is immutable";
pub(crate) const MTU_IMMUTABLE: &str = "mtu is immutable";
pub(crate) const JOIN_IMMUTABLE: &str = "joinSubnets is immutable";
pub(crate) const SECONDARY_IMMUTABLE: &str = "Subnets is immutable for Secondary role";
pub(crate) const NO_REMOVAL: &str = "Removing existing subnets is not allowed";
pub(crate) const APPEND_ONLY: &str =
    "Existing subnets must keep their position; new ones go to the end of the list";
pub(crate) const HOST_IMMUTABLE: &str = "hostSubnet is immutable";
pub(crate) const VRF_IMMUTABLE: &str = "vrf is immutable";
pub(crate) const UPLINKS_IMMUTABLE: &str = "uplinks is immutable";
pub(crate) const TRANSPORT_IMMUTABLE: &str = "Transport is immutable";
pub(crate) const NO_OVERLAY_IMMUTABLE: &str = "NoOverlay is immutable";
pub(crate) const CONNECT_SELECTABLE: &str =
    "Only ClusterUserDefinedNetworks or PrimaryUserDefinedNetworks can be selected";
pub(crate) const CONNECT_ONE_SPELLING: &str =
    "Exactly one of connectivityEnabled and connectivity is required";
pub(crate) const CONNECT_DISTINCT_ENABLED: &str = "connectivityEnabled cannot contain duplicate values";
pub(crate) const CONNECT_DISTINCT: &str = "connectivity cannot contain duplicate values";
pub(crate) const CONNECT_IMMUTABLE: &str = "connectSubnets is immutable";
pub(crate) const VTEP_DISTINCT: &str = "cidrs cannot contain duplicate values";
pub(crate) const CONNECT_CIDR: &str = "CIDR must be a valid network address";
pub(crate) const CONNECT_PREFIX_LONGER: &str = "networkPrefix must be smaller than CIDR subnet";
pub(crate) const CONNECT_PREFIX_V4: &str = "networkPrefix must < 32 for ipv4 CIDR: it is the prefix length of each network's block, which holds two addresses for each node; write 31 or less, such as 24";

pub(crate) fn carved_needs_subnets(field: &str) -> String {
    format!("{field} must be unset when subnets is unset")
}

pub(crate) fn carved_primary(field: &str) -> String {
    format!("{field} is only supported for Primary network")
}

pub(crate) fn carved_inside(field: &str) -> String {
    format!("{field} must be subnetworks of the networks specified in the subnets field")
}

pub(crate) fn carved_masked(field: &str) -> String {
    format!("{field} must be a masked network address (no host bits set)")
}

pub(crate) fn inconsistent_selector(kind: &str, field: &str) -> String {
    format!("Inconsistent selector: both networkSelectionType {kind} and {field} have to be set or neither")
}
