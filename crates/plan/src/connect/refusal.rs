//! Refusals on the road: what asks for a service in a family that the connection has not is told so at once.
//!
//! A service of both families has addresses of both. Where a connection has but one, clients of other networks have no load balancer for
//! the other, and their packets would leave by the way out and be lost. One ACL for each such network and family looks after the load
//! balancers: whatever still has the address of a service then is nobody's here.

use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned};
use causeway_types::Family;

use super::kinds::RefusalsKey;
use super::steering::{field, short};
use super::{Road, plan_of};
use crate::common::ACL_METER;
use crate::room::SliceKey as _;
use crate::row::{map, switch, with};

/// Behind the guards of connections, before all policies: nothing there could allow what nobody serves.
const REJECT: i64 = 4900;

/// The refusals of a network.
pub(super) fn rows(road: &Road<'_>) -> Plan {
    if road.stub || !road.info.services || !road.info.joins() {
        return Plan::Absent;
    }
    let offered = road.info.families();
    let lacking = road.net.families().iter().filter(|family| !offered.has(*family));
    plan_of(Ok(lacking.filter_map(|family| refusal(road, family)).collect()))
}

fn refusal(road: &Road<'_>, family: Family) -> Option<Planned> {
    let services = road.zone.config().cluster.service_cidrs.iter().filter(|cidr| cidr.family() == family);
    let services: Vec<String> = services.map(ToString::to_string).collect();
    if services.is_empty() {
        return None;
    }
    // Those of the default network that everybody reaches have their load balancers elsewhere.
    let everybodys = road.zone.default_service_addresses();
    let others = everybodys.iter().filter(|address| Family::of(address) == family);
    let others: String = others.map(|address| format!(" && {} != {address}", field(family))).collect();
    let row = nb::Acl {
        action: "reject".into(),
        direction: "from-lport".into(),
        priority: REJECT,
        r#match: format!("{} == {{{}}}{others}", field(family), services.join(", ")).into(),
        meter: Some(ACL_METER.into()),
        options: map([("apply-after-lb", "true")]),
        external_ids: with(road.ids(), [("direction", "Egress")]),
        ..Default::default()
    };
    let key = RefusalsKey { connect: road.info.name.clone(), network: road.name().clone() };
    Some(
        Planned::new(key.path([short(family)]), row)
            .within::<nb::LogicalSwitch>(&switch(road.name()), "acls"),
    )
}
