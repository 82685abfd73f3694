//! The Open_vSwitch database of a node: bridges, ports and interfaces that Causeway makes.

use super::{Decl, Declarations, Identity, Keys, Phase};
use crate::generated::vswitch::{self, DATABASE};
use crate::typed::TypedRow;

const INTERFACE_IDS: Keys = Keys::Ours {
    prefixes: &["k8s.ovn.org/"],
    names: &["attached_mac", "iface-id", "iface-id-ver", "ip_addresses", "sandbox", "vf-netdev-name"],
};

const GLOBAL_IDS: Keys = Keys::Ours { prefixes: &["ovn-"], names: &["hostname", "system-id"] };

/// All that Causeway writes into Open vSwitch.
pub static VSWITCH: Declarations = Declarations { database: DATABASE, tables: TABLES };

const TABLES: &[Decl] = &[
    Decl {
        identity: Identity::Adopted,
        edges: &["bridges"],
        ignored: &[
            "cur_cfg",
            "datapath_types",
            "datapaths",
            "db_version",
            "dpdk_initialized",
            "dpdk_version",
            "iface_types",
            "manager_options",
            "next_cfg",
            "other_config",
            "ovs_version",
            "ssl",
            "statistics",
            "system_type",
            "system_version",
        ],
        maps: &[("external_ids", GLOBAL_IDS)],
        ..Decl::new(vswitch::OpenVswitch::meta, Phase::Container)
    },
    Decl {
        edges: &["ports"],
        ignored: &[
            "auto_attach",
            "controller",
            "flow_tables",
            "ipfix",
            "mirrors",
            "netflow",
            "protocols",
            "rstp_status",
            "sflow",
            "status",
            "stp_enable",
            "rstp_enable",
            "mcast_snooping_enable",
            "flood_vlans",
            "datapath_version",
            "datapath_id",
            "other_config",
        ],
        ..Decl::new(vswitch::Bridge::meta, Phase::Container)
    },
    // A port must have an interface, so that set is a column of the port and both share a transaction.
    Decl {
        ignored: &[
            "bond_active_slave",
            "rstp_statistics",
            "rstp_status",
            "statistics",
            "status",
            "qos",
            "mac",
        ],
        ..Decl::new(vswitch::Port::meta, Phase::Port)
    },
    Decl {
        ignored: &[
            "admin_state",
            "bfd_status",
            "cfm_fault",
            "cfm_fault_status",
            "cfm_flap_count",
            "cfm_health",
            "cfm_mpid",
            "cfm_remote_mpids",
            "cfm_remote_opstate",
            "duplex",
            "error",
            "ifindex",
            "lacp_current",
            "link_resets",
            "link_speed",
            "link_state",
            "lldp",
            "mac_in_use",
            "mtu",
            "ofport",
            "statistics",
            "status",
            "other_config",
            "ingress_policing_burst",
            "ingress_policing_kpkts_burst",
            "ingress_policing_kpkts_rate",
            "ingress_policing_rate",
            "bfd",
            "ofport_request",
        ],
        maps: &[("external_ids", INTERFACE_IDS)],
        ..Decl::new(vswitch::Interface::meta, Phase::Port)
    },
];
