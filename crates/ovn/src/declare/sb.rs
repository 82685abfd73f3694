//! The southbound database: the chassis of other zones. Everything else in it is OVN's own.

use super::{COUNTER, Decl, Declarations, EXTERNAL_IDS, Identity, Keys, Phase};
use crate::generated::sb::{self, DATABASE};
use crate::typed::TypedRow;

/// All that Causeway writes southbound.
pub static SOUTHBOUND: Declarations = Declarations { database: DATABASE, tables: TABLES };

const TABLES: &[Decl] = &[
    // A chassis must have an encapsulation, so that set is a column of the chassis and both share a transaction.
    Decl {
        ignored: &["nb_cfg", "transport_zones", "vtep_logical_switches"],
        maps: &[EXTERNAL_IDS, ("other_config", Keys::Ours { prefixes: &[], names: &["is-remote"] })],
        ..Decl::new(sb::Chassis::meta, Phase::Container)
    },
    Decl {
        identity: Identity::Key(&["type", "ip"]),
        maps: &[],
        ..Decl::new(sb::Encap::meta, Phase::Container)
    },
    // The keys that ports were given in the end.
    Decl {
        identity: Identity::Adopted,
        watched: &["logical_port", "tunnel_key"],
        asked_by: Some("logical_port"),
        maps: &[],
        ..Decl::new(sb::PortBinding::meta, Phase::Container)
    },
    // northd repeats here the count of the northbound changes that it has carried out.
    Decl {
        identity: Identity::Adopted,
        ignored: &["connections", "external_ids", "ipsec", "options", "ssl"],
        watched: &[COUNTER],
        maps: &[],
        ..Decl::new(sb::SbGlobal::meta, Phase::Container)
    },
    // And ovn-controller here, of its own chassis, once the switch has the flows.
    Decl {
        identity: Identity::Adopted,
        watched: &["name", COUNTER],
        asked_by: Some("name"),
        maps: &[],
        ..Decl::new(sb::ChassisPrivate::meta, Phase::Container)
    },
];
