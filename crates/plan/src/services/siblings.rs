//! What a connection gets of a service whose namespace has several primary networks: one load balancer, of the oldest of them that is
//! connected, and no targets on those that are not.

use std::net::SocketAddr;

use causeway_ovn::Planned;
use causeway_ovn::generated::nb;
use causeway_types::{Family, NetworkName};
use causeway_zone::ConnectInfo;

use super::{Served, Vips, group_of, has_address, list};
use crate::row::map;

impl Served<'_> {
    fn primaries(&self) -> impl Iterator<Item = &NetworkName> {
        self.zone.primaries(&self.key.namespace).into_iter().map(|(_, network)| network)
    }

    fn is_in(&self, info: &ConnectInfo, network: &NetworkName) -> bool {
        self.zone.members(info).any(|member| member == network)
    }

    /// Whether this network's load balancer is the one for a connection: two of one address would be in each other's way.
    pub(super) fn speaks_in(&self, info: &ConnectInfo) -> bool {
        let mut members = self.primaries().filter(|network| self.is_in(info, network));
        members.next().is_none_or(|first| first == self.scope.name())
    }

    /// Whether a connection does not reach all targets.
    pub(super) fn is_cut(&self, info: &ConnectInfo, vips: &Vips) -> bool {
        vips.values().flatten().any(|target| !self.is_reached(info, target))
    }

    fn is_reached(&self, info: &ConnectInfo, target: &SocketAddr) -> bool {
        if !self.is_at_sibling(target) {
            return true;
        }
        let has = |network: &NetworkName| {
            self.zone.active(network).is_some_and(|net| has_address(net, target.ip()))
        };
        self.primaries().any(|network| has(network) && self.is_in(info, network))
    }

    /// The load balancer of a connection with what it reaches.
    pub(super) fn cut(
        &self,
        info: &ConnectInfo,
        row: &nb::LoadBalancer,
        vips: &Vips,
        at: [&str; 2],
    ) -> Planned {
        let vips = vips.iter().filter(|(vip, _)| info.families().has(Family::of(&vip.ip())));
        let reached = vips.map(|(vip, targets)| {
            let targets = targets.iter().filter(|target| self.is_reached(info, target)).copied().collect();
            (vip.to_string(), list(&targets))
        });
        let name = format!("{}_{}", row.name, info.name).into();
        let row = nb::LoadBalancer { vips: map(reached), name, ..row.clone() };
        let [protocol, word] = at;
        let planned = Planned::new(self.at([protocol, word, "connect", info.name.as_str()]), row);
        planned.within::<nb::LoadBalancerGroup>(&group_of(info), "load_balancer")
    }
}
