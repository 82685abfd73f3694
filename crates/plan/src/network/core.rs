//! A network's own switches and routers in this zone.

use causeway_api::crd::Topology;
use causeway_ovn::Plan;
use causeway_types::NetworkName;
use causeway_zone::{Change, Subject, Zone};

use super::{layer2, layer3, of_present};
use crate::room::{Kind, Slices};

crate::slice_key! {
    /// A network's switches, routers and what connects them in this zone.
    pub(crate) struct CoreKey, CoreKeys { network: NetworkName } at ["network", _, "core"]
}

pub(super) struct Cores;

impl Kind<Zone> for Cores {
    type Key = CoreKey;

    fn slices(&self, zone: &Zone, only: &CoreKeys) -> Vec<CoreKey> {
        let names: Vec<&NetworkName> = match &only.network {
            Some(name) => zone.rendering(name).map(|_| name).into_iter().collect(),
            None => zone.networks().collect(),
        };
        names.into_iter().map(|name| CoreKey { network: name.clone() }).collect()
    }

    fn plan(&self, zone: &Zone, key: &CoreKey) -> Plan {
        of_present(zone, &key.network, |scope| match (scope.net.topology, scope.stub) {
            (Topology::Layer2, true) => layer2::stub(scope),
            (Topology::Layer2, false) => layer2::rows(scope),
            (_, true) => layer3::stub(scope),
            (_, false) => layer3::rows(scope),
        })
    }

    fn priority(&self) -> u8 {
        10
    }

    fn blame(&self, _zone: &Zone, key: &CoreKey) -> Vec<Subject> {
        vec![Subject::Network(key.network.clone())]
    }

    fn follows(&self, _zone: &Zone, change: &Change) -> Vec<Slices<CoreKey>> {
        match change {
            Change::Network(name) => vec![CoreKey { network: name.clone() }.into()],
            _ => Vec::new(),
        }
    }
}
