//! The northbound database.

use super::{COUNTER, Decl, Declarations, EXTERNAL_IDS, Identity, Keys, Phase};
use crate::generated::nb::{self, DATABASE};
use crate::typed::TypedRow;

const fn names(names: &'static [&'static str]) -> Keys {
    Keys::Ours { prefixes: &[], names }
}

const SWITCH_CONFIG: Keys = names(&[
    "broadcast-arps-to-all-routers",
    "exclude_ips",
    "interconn-ts",
    "ipv6_prefix",
    "mcast_eth_src",
    "mcast_flood_unregistered",
    "mcast_ip4_src",
    "mcast_ip6_src",
    "mcast_querier",
    "mcast_snoop",
    "requested-tnl-key",
    "subnet",
    "vlan-passthru",
]);

const SWITCH_PORT_OPTIONS: Keys = names(&[
    "activation-strategy",
    "arp_proxy",
    "exclude-lb-vips-from-garp",
    "iface-id-ver",
    "nat-addresses",
    "network_name",
    "pkt_clone_type",
    "qos_burst",
    "qos_max_rate",
    "qos_min_rate",
    "requested-chassis",
    "requested-encap-ip",
    "requested-tnl-key",
    "router-port",
    "vif-plug-type",
    "virtual-ip",
    "virtual-parents",
]);

const ROUTER_OPTIONS: Keys = names(&[
    "always_learn_from_arp_request",
    "chassis",
    "ct-commit-all",
    "disable_garp_rarp",
    "dynamic_neigh_routers",
    "lb_force_snat_ip",
    "mac_binding_age_threshold",
    "mcast_relay",
    "requested-tnl-key",
    "snat-ct-zone",
]);

const ROUTER_PORT_OPTIONS: Keys = names(&[
    "gateway_mtu",
    "gateway_mtu_bypass",
    "mcast_flood",
    "redirect-type",
    "requested-chassis",
    "requested-encap-ip",
    "requested-tnl-key",
    "route_table",
]);

const LOAD_BALANCER_OPTIONS: Keys = names(&[
    "affinity_timeout",
    "ct_flush",
    "event",
    "hairpin_snat_ip",
    "neighbor_responder",
    "reject",
    "skip_snat",
    "template",
]);

// northd writes some options itself, such as `max_tunid` and `svc_monitor_mac`: those are never ours.
const GLOBAL_OPTIONS: Keys = names(&[
    "bfd-min-rx",
    "e2e_timestamp",
    "ignore_lsp_down",
    "northd-backoff-interval-ms",
    "northd_probe_interval",
    "use_ct_inv_match",
    "use_logical_dp_groups",
]);

/// All that Causeway writes northbound.
pub static NORTHBOUND: Declarations = Declarations { database: DATABASE, tables: TABLES };

const TABLES: &[Decl] = &[
    Decl {
        edges: &[
            "ports",
            "acls",
            "qos_rules",
            "load_balancer",
            "load_balancer_group",
            "dns_records",
            "forwarding_groups",
        ],
        maps: &[EXTERNAL_IDS, ("other_config", SWITCH_CONFIG)],
        ..Decl::new(nb::LogicalSwitch::meta, Phase::Container)
    },
    Decl {
        edges: &["ports", "static_routes", "policies", "nat", "load_balancer", "load_balancer_group"],
        maps: &[EXTERNAL_IDS, ("options", ROUTER_OPTIONS)],
        ..Decl::new(nb::LogicalRouter::meta, Phase::Container)
    },
    Decl { edges: &["ports", "acls"], ..Decl::new(nb::PortGroup::meta, Phase::Container) },
    Decl {
        grows: &["addresses"],
        members: &["addresses"],
        ..Decl::new(nb::AddressSet::meta, Phase::Container)
    },
    Decl::new(nb::DhcpOptions::meta, Phase::Container),
    Decl::new(nb::Dns::meta, Phase::Container),
    Decl::new(nb::Copp::meta, Phase::Container),
    Decl::new(nb::Meter::meta, Phase::Container),
    Decl::new(nb::MeterBand::meta, Phase::Container),
    Decl { edges: &["ha_chassis"], ..Decl::new(nb::HaChassisGroup::meta, Phase::Container) },
    Decl::new(nb::HaChassis::meta, Phase::Container),
    Decl::new(nb::ChassisTemplateVar::meta, Phase::Container),
    // A group has no external_ids; it is found by its name, which is unique.
    Decl {
        identity: Identity::Key(&["name"]),
        edges: &["load_balancer"],
        maps: &[],
        ..Decl::new(nb::LoadBalancerGroup::meta, Phase::Container)
    },
    Decl { ignored: &["label"], ..Decl::new(nb::Acl::meta, Phase::Guard) },
    Decl {
        ignored: &["up", "dynamic_addresses", "tag", "mirror_rules"],
        maps: &[EXTERNAL_IDS, ("options", SWITCH_PORT_OPTIONS)],
        ..Decl::new(nb::LogicalSwitchPort::meta, Phase::Port)
    },
    Decl {
        edges: &["gateway_chassis"],
        ignored: &["status", "ipv6_prefix", "dhcp_relay", "ha_chassis_group"],
        maps: &[EXTERNAL_IDS, ("options", ROUTER_PORT_OPTIONS)],
        ..Decl::new(nb::LogicalRouterPort::meta, Phase::Port)
    },
    Decl::new(nb::GatewayChassis::meta, Phase::Port),
    Decl {
        identity: Identity::Key(&["logical_port", "ip"]),
        maps: &[],
        ..Decl::new(nb::StaticMacBinding::meta, Phase::Port)
    },
    Decl::new(nb::Qos::meta, Phase::Port),
    Decl { ignored: &["status"], ..Decl::new(nb::Bfd::meta, Phase::Route) },
    // What no plan of ours uses is not monitored either: there are many of these rows.
    Decl {
        ignored: &["bfd", "selection_fields"],
        ..Decl::new(nb::LogicalRouterStaticRoute::meta, Phase::Route)
    },
    Decl::new(nb::Nat::meta, Phase::Route),
    Decl {
        ignored: &["bfd_sessions", "chain", "jump_chain", "nexthop"],
        ..Decl::new(nb::LogicalRouterPolicy::meta, Phase::Steering)
    },
    Decl {
        edges: &["health_check"],
        members: &["vips"],
        maps: &[EXTERNAL_IDS, ("options", LOAD_BALANCER_OPTIONS)],
        ..Decl::new(nb::LoadBalancer::meta, Phase::Steering)
    },
    Decl::new(nb::LoadBalancerHealthCheck::meta, Phase::Steering),
    Decl {
        identity: Identity::Adopted,
        ignored: &[
            "connections",
            "external_ids",
            "hv_cfg",
            "hv_cfg_timestamp",
            "nb_cfg_timestamp",
            "sb_cfg",
            "sb_cfg_timestamp",
            "ssl",
        ],
        watched: &[COUNTER],
        maps: &[("options", GLOBAL_OPTIONS)],
        ..Decl::new(nb::NbGlobal::meta, Phase::Container)
    },
];
