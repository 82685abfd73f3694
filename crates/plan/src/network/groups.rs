//! A network's three groups of load balancers and where they are attached. What is in them is the services'.

use std::borrow::Cow;

use causeway_ovn::declare::Phase;
use causeway_ovn::generated::nb;
use causeway_ovn::{Plan, Planned};
use causeway_types::{NetworkName, NetworkNames};
use causeway_zone::{Change, Subject, Zone};

use super::{Scope, of_network, rendered};
use crate::room::{Component, Kind, SliceKey as _, Slices};
use crate::row::{gateway_router, switch};

/// What the names of a network's groups end in; they begin with the prefix of the network's names.
const KINDS: [&str; 3] = ["clusterLBGroup", "clusterSwitchLBGroup", "clusterRouterLBGroup"];

/// The name of a network's group.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct GroupName(pub(crate) String);

impl GroupName {
    fn network<'a>(&self, zone: &'a Zone) -> Option<&'a NetworkName> {
        let prefix = KINDS.iter().find_map(|kind| self.0.strip_suffix(kind))?;
        zone.network_with_prefix(prefix)
    }
}

impl Component for GroupName {
    fn text(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }

    fn read(text: &str) -> Option<Self> {
        KINDS.iter().any(|kind| text.ends_with(kind)).then(|| Self(text.to_owned()))
    }
}

crate::slice_key! {
    /// One of a network's groups of load balancers, which the database knows by name.
    pub(crate) struct GroupKey, GroupKeys { group: GroupName } is ["Load_Balancer_Group", _]
}

pub(super) struct Groups;

fn groups_of(network: &NetworkName) -> impl Iterator<Item = GroupKey> {
    let names = NetworkNames::new(network.clone());
    let all = [names.cluster_lb_group(), names.switch_lb_group(), names.router_lb_group()];
    all.into_iter().map(|name| GroupKey { group: GroupName(name) })
}

impl Kind<Zone> for Groups {
    type Key = GroupKey;

    fn slices(&self, zone: &Zone, only: &GroupKeys) -> Vec<GroupKey> {
        let network = only.group.as_ref().map(|group| group.network(zone));
        match network {
            Some(None) => Vec::new(),
            Some(network) => rendered(zone, network).iter().flat_map(groups_of).collect(),
            None => rendered(zone, None).iter().flat_map(groups_of).collect(),
        }
    }

    fn plan(&self, zone: &Zone, key: &GroupKey) -> Plan {
        match key.group.network(zone) {
            Some(network) => of_network(zone, network, |scope| Ok(row(scope, key).into_iter().collect())),
            None => Plan::Absent,
        }
    }

    fn priority(&self) -> u8 {
        30
    }

    fn blame(&self, zone: &Zone, key: &GroupKey) -> Vec<Subject> {
        key.group.network(zone).map(|network| Subject::Network(network.clone())).into_iter().collect()
    }

    fn follows(&self, _zone: &Zone, change: &Change) -> Vec<Slices<GroupKey>> {
        match change {
            Change::Network(name) => groups_of(name).map(Slices::from).collect(),
            _ => Vec::new(),
        }
    }
}

/// The group of this name; nothing if it is none of the network's.
fn row(scope: &Scope<'_>, key: &GroupKey) -> Option<Planned> {
    let (names, name) = (&scope.net.names, key.group.0.as_str());
    let on_switch = name == names.cluster_lb_group() || name == names.switch_lb_group();
    let is_router = name == names.router_lb_group();
    let on_router = name == names.cluster_lb_group() || (is_router && scope.gateway.is_some());
    if !on_switch && !is_router {
        return None;
    }
    let row = nb::LoadBalancerGroup { name: name.into(), ..Default::default() };
    // After the switches and routers that it joins, before the load balancers that join it.
    let mut planned = Planned::new(key.slice(), row).in_phase(Phase::Port);
    if on_switch {
        planned = planned.within::<nb::LogicalSwitch>(&switch(scope.name()), "load_balancer_group");
    }
    if on_router {
        planned = planned.within::<nb::LogicalRouter>(&gateway_router(scope.name()), "load_balancer_group");
    }
    Some(planned)
}
