//! Where load balancers of services lead, without their rows: what a translation that the switch remembers is compared with.

use causeway_ovn::Plan;
use causeway_zone::{Protocol, Zone};

use super::{Served, ServiceKey, Vips, scope_of};
use crate::running::Leads;

/// Adds those of all services for one protocol, by whatever network they are asked.
pub(crate) fn add_leads(zone: &Zone, protocol: Protocol, leads: &mut Leads) {
    for key in zone.services() {
        let Some(service) = zone.service(&key).filter(|service| service.speaks(protocol)) else { continue };
        let networks = zone.service_networks(&key.namespace).into_iter();
        let on = networks.map(|network| on_network(zone, protocol, &ServiceKey::new(&key, network)));
        match on.collect::<Option<Vec<Vec<Vips>>>>() {
            Some(all) => all.into_iter().flatten().flatten().for_each(|(asked, to)| leads.add(asked, to)),
            None => leads.hold(service.addresses.iter().copied()),
        }
    }
}

/// Nothing where what is there stays for now, whatever it is.
fn on_network(zone: &Zone, protocol: Protocol, key: &ServiceKey) -> Option<Vec<Vips>> {
    let name = key.service();
    match (scope_of(zone, key), zone.service(&name)) {
        (Ok(scope), Some(service)) => {
            let served = Served::new(zone, &scope, &name, service);
            let vips = served.vips_by_reach(|port| port.protocol == protocol).ok()?;
            Some(vips.into_values().collect())
        }
        (Err(Plan::Hold(_) | Plan::Keep), _) => None,
        _ => Some(Vec::new()),
    }
}
