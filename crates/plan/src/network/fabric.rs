//! The way from a network onto the fabric: what leaves a network that is there leaves by the node's leg in it, into the VRF.
//!
//! Services, other networks that it is connected with, and the gateway routers' own addresses are reached as in every network. What the
//! fabric has no way to goes nowhere: a tenant's packets never leave by the node's own routes instead.

use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned};
use causeway_types::{Cidr, Family, NetworkName};
use causeway_zone::{Change, Leg, Subject, Zone};

use super::{Scope, of_network, rendered};
use crate::room::{Kind, SliceKey as _, Slices};
use crate::row::{ids, router, set};

/// After all connections, and after what goes to the node itself.
const ONTO_FABRIC: i64 = 1003;

crate::slice_key! {
    /// What leads from a network onto the fabric.
    pub(super) struct FabricKey, FabricKeys { network: NetworkName } at ["network", _, "fabric"]
}

pub(super) struct OntoFabric;

impl Kind<Zone> for OntoFabric {
    type Key = FabricKey;

    fn slices(&self, zone: &Zone, only: &FabricKeys) -> Vec<FabricKey> {
        let is_on = |name: &NetworkName| zone.active(name).is_some_and(|network| network.fabric.is_some());
        let all = rendered(zone, only.network.as_ref()).into_iter().filter(is_on);
        all.map(|network| FabricKey { network }).collect()
    }

    fn plan(&self, zone: &Zone, key: &FabricKey) -> Plan {
        of_network(zone, &key.network, |scope| {
            let legs = scope.net.legs.iter().filter(|_| scope.net.fabric.is_some());
            Ok(legs.map(|leg| policy(scope, leg)).collect())
        })
    }

    fn priority(&self) -> u8 {
        40
    }

    fn blame(&self, _zone: &Zone, key: &FabricKey) -> Vec<Subject> {
        vec![Subject::Network(key.network.clone())]
    }

    fn follows(&self, _zone: &Zone, change: &Change) -> Vec<Slices<FabricKey>> {
        match change {
            Change::Network(name) => vec![FabricKey { network: name.clone() }.into()],
            _ => Vec::new(),
        }
    }
}

fn policy(scope: &Scope<'_>, leg: &Leg) -> Planned {
    let word = if leg.family == Family::Ipv4 { "ip4" } else { "ip6" };
    let inside: Vec<String> = inside(scope, leg).map(ToString::to_string).collect();
    let row = nb::LogicalRouterPolicy {
        priority: ONTO_FABRIC,
        r#match: format!(
            "inport == \"{}\" && {word} && {word}.dst != {{{}}}",
            scope.switch_port(),
            inside.join(", ")
        )
        .into(),
        action: "reroute".into(),
        nexthops: set([leg.management.addr()]),
        external_ids: ids(scope.net),
        ..Default::default()
    };
    let path = FabricKey { network: scope.name().clone() }.path([leg.family.to_string()]);
    Planned::new(path, row).within::<nb::LogicalRouter>(&router(scope.name()), "policies")
}

/// What is not on the fabric: the network itself, services, and the addresses that its routers use among themselves.
fn inside<'a>(scope: &'a Scope<'_>, leg: &'a Leg) -> impl Iterator<Item = &'a Cidr> {
    let services = scope.config.cluster.service_cidrs.iter().filter(|cidr| cidr.family() == leg.family);
    leg.subnets.iter().chain(services).chain([&leg.join, &leg.transit, &leg.masquerade])
}
