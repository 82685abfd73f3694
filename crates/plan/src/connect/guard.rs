//! Guards of connections that grant services alone: on the switch of each network, so that nothing but services crosses.
//!
//! The links, routes and policies are those of any connection: a packet to a service needs them once its destination has
//! become a pod. The guards look before that happens. They are there before any policy, and every policy names them.

use causeway_ovn::declare::Phase;
use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Str};
use causeway_types::{Cidr, Families, Family, hashed_name};
use causeway_zone::{ConnectInfo, Zone};

use super::kinds::{GuardedSetKey, GuardsKey};
use super::steering::{field, short, subnets};
use super::{CONTROLLER, Road, owner, plan_of};
use crate::common::ACL_METER;
use crate::room::SliceKey as _;
use crate::row::{set, switch, with};

const PASS_SERVICES: i64 = 5000;
const PASS_GRANTED: i64 = 4975;
const DROP: i64 = 4950;
/// What a pod sends to another pod of its own accord, in the first packet or in any. From the second packet on what goes to a
/// service has its pod's address already when ACLs look, also while nobody has answered and it still counts as new.
const DIRECT: &str = "!ct.rpl && !ct.dnat";
/// Below everything that decides: what comes here passes with or without it.
const LAST_TIER: i64 = 3;

/// Makes a row wait for the guards of its network, where there must be any.
pub(super) fn guarded(road: &Road<'_>, row: Planned) -> Planned {
    if !road.info.needs_guards() {
        return row;
    }
    let guards = ["drop", "track"].map(|guard| path_of(road, guard));
    guards.iter().fold(row, |row, guard| row.guarded_by::<nb::Acl>(guard))
}

fn path_of(road: &Road<'_>, guard: &str) -> Str {
    GuardsKey { connect: road.info.name.clone(), network: road.name().clone() }.path([guard])
}

/// Those in which the network has a link.
fn families(road: &Road<'_>) -> Families {
    road.net.families().shared(road.place.families())
}

/// The guards of a network.
pub(super) fn rows(road: &Road<'_>) -> Plan {
    let families = families(road);
    if road.stub || !road.info.needs_guards() || families.is_empty() {
        return Plan::Absent;
    }
    let services = &road.zone.config().cluster.service_cidrs;
    let granted = &road.zone.granted(road.info, road.name());
    let pass = [
        ("pass-services", PASS_SERVICES, within(families, services)),
        ("pass-granted", PASS_GRANTED, within(families, granted)),
    ];
    let pass = pass.into_iter().filter(|(_, _, matches)| !matches.is_empty());
    let mut rows: Vec<Planned> =
        pass.map(|(word, priority, matches)| acl(road, word, "pass", (0, priority), matches)).collect();
    let set_of = |family| format!("{} == ${}", field(family), set_name(road.info, family));
    let into: Vec<String> = families.iter().map(set_of).collect();
    let into = if into.len() > 1 { format!("({})", into.join(" || ")) } else { into.concat() };
    let drop = acl(road, "drop", "drop", (0, DROP), format!("{into} && {DIRECT}"));
    // Without its sets the drop would match nothing.
    let sets = families.iter().map(|family| path_of_set(road.info, family));
    rows.push(sets.fold(drop, |drop, set| drop.guarded_by::<nb::AddressSet>(&set)));
    // Only a switch with such an ACL tracks connections, and only then is an answer one.
    rows.push(acl(road, "track", "allow-related", (LAST_TIER, 0), "ip".to_owned()));
    plan_of(Ok(rows))
}

/// What goes to one of these subnets.
fn within<'a>(families: Families, cidrs: impl IntoIterator<Item = &'a Cidr> + Copy) -> String {
    let of_family = |family: Family| {
        let texts: Vec<String> =
            cidrs.into_iter().filter(|cidr| cidr.family() == family).map(ToString::to_string).collect();
        match texts.as_slice() {
            [] => None,
            [one] => Some(format!("{} == {one}", field(family))),
            many => Some(format!("{} == {{{}}}", field(family), many.join(", "))),
        }
    };
    families.iter().filter_map(of_family).collect::<Vec<_>>().join(" || ")
}

fn acl(road: &Road<'_>, word: &str, action: &str, (tier, priority): (i64, i64), matches: String) -> Planned {
    let row = nb::Acl {
        action: action.into(),
        direction: "from-lport".into(),
        priority,
        r#match: matches.into(),
        meter: Some(ACL_METER.into()),
        tier,
        external_ids: with(road.ids(), [("direction", "Egress")]),
        ..Default::default()
    };
    Planned::new(path_of(road, word), row).within::<nb::LogicalSwitch>(&switch(road.name()), "acls")
}

fn set_name(info: &ConnectInfo, family: Family) -> String {
    hashed_name(&format!("{CONTROLLER}:ClusterNetworkConnect:{}:guarded:{}", info.name, short(family)))
}

fn path_of_set(info: &ConnectInfo, family: Family) -> Str {
    GuardedSetKey { connect: info.name.clone() }.path([short(family)])
}

/// The pod subnets of all networks of a connection, one set for each family. It is not one that steers: it is there, and
/// complete, before any road is, and shrinks after all of them.
pub(super) fn sets(zone: &Zone, info: &ConnectInfo) -> Plan {
    if !info.needs_guards() {
        return Plan::Absent;
    }
    if let Err(problem) = zone.here() {
        return Plan::Hold(problem.message);
    }
    let members: Vec<_> = zone.members(info).filter_map(|network| zone.active(network)).collect();
    let of_family = |family: Family| {
        let row = nb::AddressSet {
            name: set_name(info, family).into(),
            addresses: set(members.iter().flat_map(|net| subnets(net, family))),
            external_ids: with(owner(info), [("ip-family", short(family))]),
        };
        let set = Planned::new(path_of_set(info, family), row).in_phase(Phase::Container);
        set.members_apart("addresses")
    };
    plan_of(Ok(info.families().iter().flat_map(of_family).collect()))
}
