//! What sends traffic from a network to the networks that it is connected with: policies of the network's router.
//!
//! In the transit layout there is one for each pair and family. In the compact layout there is one for each network and
//! family, with all addresses in a set: its number does not grow with the square of the networks.

use std::net::IpAddr;

use causeway_ovn::declare::Phase;
use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned, Str};
use causeway_types::{Cidr, Family, NetworkName, hashed_name};
use causeway_zone::{Active, ConnectInfo, Membership, Zone};

use super::kinds::{PolicyKey, SetKey, SteeringKey};
use super::{CONTROLLER, Road, guard, link, owner, plan_of};
use crate::network::Result;
use crate::room::SliceKey as _;
use crate::row::{router, set, with};

const PRIORITY: i64 = 9001;

pub(super) fn short(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "v4",
        Family::Ipv6 => "v6",
    }
}

pub(super) fn field(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ip4.dst",
        Family::Ipv6 => "ip6.dst",
    }
}

pub(super) fn subnets(net: &Active, family: Family) -> &[Cidr] {
    net.legs.iter().find(|leg| leg.family == family).map(|leg| leg.subnets.as_slice()).unwrap_or_default()
}

/// From one network to another; in the compact layout the sets do that.
pub(super) fn policy(road: &Road<'_>, to: &NetworkName) -> Plan {
    if road.info.is_compact() || !road.info.joins() || road.name() == to {
        return Plan::Absent;
    }
    match road.zone.membership(road.info, to) {
        Membership::Outside => Plan::Absent,
        Membership::Uncertain(reason) => Plan::Hold(road.fault(reason)),
        Membership::Member(_) => match road.zone.active(to) {
            Some(target) => plan_of(to_one(road, target)),
            None => Plan::Hold(road.fault(format!("the subnets of network {to} are not known"))),
        },
    }
}

fn to_one(road: &Road<'_>, to: &Active) -> Result<Vec<Planned>> {
    let mut rows = Vec::new();
    for family in road.net.families().shared(to.families()).iter() {
        let Some(next_hop) = link::next_hop(road, family)? else { continue };
        let name = field(family);
        let each: Vec<String> =
            subnets(to, family).iter().map(|subnet| format!("{name} == {subnet}")).collect();
        let matches = if each.len() > 1 { format!("({})", each.join(" || ")) } else { each.concat() };
        let path =
            PolicyKey { connect: road.info.name.clone(), from: road.name().clone(), to: to.name().clone() }
                .path([short(family)]);
        rows.push(row(road, family, path, next_hop, &matches));
    }
    Ok(rows)
}

/// From a network to all others; its own addresses are in the set too, and never leave by this way.
pub(super) fn to_all(road: &Road<'_>) -> Plan {
    if road.stub || !road.info.is_compact() || !road.info.joins() {
        return Plan::Absent;
    }
    let mut rows = Vec::new();
    for family in road.net.families().iter() {
        let next_hop = match link::next_hop(road, family) {
            Ok(Some(next_hop)) => next_hop,
            Ok(None) => continue,
            Err(reason) => return Plan::Hold(reason),
        };
        let name = field(family);
        let mut matches = format!("{name} == ${}", set_name(road.info, family));
        for own in subnets(road.net, family) {
            matches.push_str(&format!(" && {name} != {own}"));
        }
        let path = SteeringKey { connect: road.info.name.clone(), network: road.name().clone() }
            .path([short(family)]);
        rows.push(row(road, family, path, next_hop, &matches));
    }
    plan_of(Ok(rows))
}

/// Only what comes from the network's own pods: not what other connections bring, nor what comes from outside.
fn row(road: &Road<'_>, family: Family, path: Str, next_hop: IpAddr, matches: &str) -> Planned {
    let names = &road.net.names;
    let port = if road.is_layer2() {
        names.transit_router_to_switch()
    } else {
        names.router_to_switch(road.here.name)
    };
    let row = nb::LogicalRouterPolicy {
        priority: PRIORITY,
        r#match: format!("inport == \"{port}\" && {matches}").into(),
        action: "reroute".into(),
        nexthops: set([next_hop]),
        external_ids: with(road.ids(), [("ip-family", short(family))]),
        ..Default::default()
    };
    let policy = Planned::new(path, row).within::<nb::LogicalRouter>(&router(road.name()), "policies");
    guard::guarded(road, policy)
}

fn set_name(info: &ConnectInfo, family: Family) -> String {
    hashed_name(&format!("{CONTROLLER}:ClusterNetworkConnect:{}:{}", info.name, short(family)))
}

/// The addresses of all networks of a connection, one set for each family. A network that cannot be read is not among
/// them until it can: it must not keep others out.
pub(super) fn sets(zone: &Zone, info: &ConnectInfo) -> Plan {
    if !info.is_compact() || !info.joins() {
        return Plan::Absent;
    }
    if let Err(problem) = zone.here() {
        return Plan::Hold(problem.message);
    }
    if zone.has_overlaps(info) {
        return Plan::Hold(format!("{}: networks claim the same addresses", info.text()));
    }
    let members: Vec<&Active> = zone.members(info).filter_map(|network| zone.active(network)).collect();
    let of_family = |family: Family| {
        let row = nb::AddressSet {
            name: set_name(info, family).into(),
            addresses: set(members.iter().flat_map(|net| subnets(net, family))),
            external_ids: with(owner(info), [("ip-family", short(family))]),
        };
        // It steers: what it names must have its roads first, and policies that name it come after it.
        let set = Planned::new(SetKey { connect: info.name.clone() }.path([short(family)]), row)
            .in_phase(Phase::Route);
        set.members_apart("addresses")
    };
    Plan::Rows(info.families().iter().flat_map(of_family).collect())
}
