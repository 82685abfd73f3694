//! What all networks share: limits on what OVN's controllers must handle, meters, the name of the zone.

use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Str, reference};
use causeway_types::NetworkName;
use causeway_zone::{Change, Subject, Zone};

use crate::room::{Kind, Room, SliceKey as _, Slices};
use crate::row::{core, map};

/// What all networks share.
pub(crate) static ROOM: Room<Zone> = Room { name: "common", kinds: &[&Common] };

crate::slice_key! {
    struct CommonKey, CommonKeys {} at ["zone", "common"]
}

struct Common;

impl Kind<Zone> for Common {
    type Key = CommonKey;

    fn slices(&self, _zone: &Zone, _only: &CommonKeys) -> Vec<CommonKey> {
        vec![CommonKey {}]
    }

    fn plan(&self, zone: &Zone, _key: &CommonKey) -> Plan {
        Plan::Rows(rows(zone))
    }

    fn priority(&self) -> u8 {
        0
    }

    fn blame(&self, zone: &Zone, _key: &CommonKey) -> Vec<Subject> {
        vec![Subject::Node(zone.config().node.clone())]
    }

    /// It follows from the configuration alone.
    fn follows(&self, _zone: &Zone, _change: &Change) -> Vec<Slices<CommonKey>> {
        Vec::new()
    }
}

/// What pods wait for: neighbours that are looked for or learnt, leases, names, the router that introduces itself.
const ANSWERS: Limited = Limited {
    rate: 100,
    protocols: &[
        "arp",
        "arp-resolve",
        "dhcpv4-opts",
        "dhcpv6-opts",
        "dns",
        "nd-na",
        "nd-ns",
        "nd-ns-resolve",
        "nd-ra-opts",
    ],
};
/// What pods can do without for a while: refusals and other errors, reports of groups (IGMP and MLD), probes.
const NOTICES: Limited = Limited {
    rate: 25,
    protocols: &[
        "bfd",
        "event-elb",
        "icmp4-error",
        "icmp6-error",
        "igmp",
        "reject",
        "svc-monitor",
        "tcp-reset",
    ],
};

/// Protocols whose packets go to the node's ovn-controller, and would drown it without a limit.
struct Limited {
    /// Packets a second.
    rate: i64,
    /// By their names in ovn-nb(5).
    protocols: &'static [&'static str],
}

/// The meter of every ACL's log.
pub(crate) const ACL_METER: &str = "acl-logging";

/// The path of the limits of what belongs to everybody: the default network and the routers of connections.
pub(crate) fn copp() -> Str {
    CommonKey {}.path(["copp"])
}

fn rows(zone: &Zone) -> Vec<Planned> {
    let limiter = |protocol: &str| format!("{protocol}-rate-limiter");
    let limited = [&ANSWERS, &NOTICES];
    let meters = limited.into_iter().flat_map(|limited| limited.protocols);
    let copp_row = nb::Copp {
        name: "ovnkube-default".into(),
        meters: map(meters.map(|protocol| (*protocol, limiter(protocol)))),
        ..Default::default()
    };
    let config = zone.config();
    let global =
        nb::NbGlobal { name: config.node.as_str().into(), ipsec: config.ipsec, ..Default::default() };
    let mut rows =
        vec![Planned::new(copp(), copp_row), Planned::adopt(CommonKey {}.path(["global"]), global)];
    let at = |name: &str| CommonKey {}.path(["meter", name]);
    for limited in limited {
        for name in limited.protocols.iter().map(|protocol| limiter(protocol)) {
            rows.extend(meter(at(&name), &name, limited.rate));
        }
    }
    rows.extend(meter(at(ACL_METER), ACL_METER, config.log_rate.into()));
    rows
}

/// The limits of one network, with rates of its own: what floods ovn-controller by way of one network costs no other
/// network an answer. Its protocols share two meters, since there are many networks; refusals cost no neighbour.
pub(crate) fn limits(network: &NetworkName) -> Vec<Planned> {
    let kinds = [("answers", &ANSWERS), ("notices", &NOTICES)];
    let name = |kind: &str| format!("{network}-{kind}");
    let all = kinds.iter().flat_map(|(kind, limited)| limited.protocols.iter().map(move |of| (*of, *kind)));
    let copp = nb::Copp {
        name: name("limits").into(),
        meters: map(all.map(|(protocol, kind)| (protocol, name(kind)))),
        ..Default::default()
    };
    let meters = kinds
        .iter()
        .flat_map(|(kind, limited)| meter(core(network, &["limits", kind]), &name(kind), limited.rate));
    std::iter::once(Planned::new(core(network, &["limits"]), copp)).chain(meters).collect()
}

/// A meter and its one band, which cannot be without each other.
fn meter(at: Str, name: &str, rate: i64) -> [Planned; 2] {
    let band_at = Str::from(format!("{at}:band"));
    let band = nb::MeterBand { action: "drop".into(), rate, ..Default::default() };
    let meter = nb::Meter {
        name: name.into(),
        fair: Some(true),
        unit: "pktps".into(),
        bands: [reference::<nb::MeterBand>(&band_at)].into(),
        ..Default::default()
    };
    [Planned::new(at, meter).bound_to(name), Planned::new(band_at, band).bound_to(name)]
}

/// A port group by the identity that its name is hashed from.
pub(crate) fn port_group(controller: &str, kind: &str, name: &str) -> nb::PortGroup {
    let identity = format!("{controller}:{kind}:{name}");
    nb::PortGroup {
        name: causeway_types::hashed_name(&identity).into(),
        external_ids: map([
            ("k8s.ovn.org/owner-controller", controller),
            ("k8s.ovn.org/owner-type", kind),
            ("k8s.ovn.org/name", name),
        ]),
        ..Default::default()
    }
}

/// An ACL of the highest tier, as isolation writes them.
pub(crate) struct Acl<'a> {
    pub(crate) name: &'a str,
    /// From the pod, or towards it.
    pub(crate) outgoing: bool,
    pub(crate) priority: i64,
    pub(crate) action: &'a str,
    pub(crate) matches: String,
}

impl Acl<'_> {
    pub(crate) fn row(self) -> nb::Acl {
        let (direction, word) =
            if self.outgoing { ("from-lport", "Egress") } else { ("to-lport", "Ingress") };
        nb::Acl {
            action: self.action.into(),
            direction: direction.into(),
            priority: self.priority,
            r#match: self.matches.into(),
            meter: Some(ACL_METER.into()),
            tier: 0,
            external_ids: map([
                ("k8s.ovn.org/owner-controller", "default-network-controller"),
                ("k8s.ovn.org/owner-type", "UDNIsolation"),
                ("k8s.ovn.org/name", self.name),
                ("direction", word),
            ]),
            ..Default::default()
        }
    }
}
