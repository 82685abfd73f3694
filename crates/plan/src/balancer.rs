//! A network's three groups of load balancers and where they are attached. What is in them is the services'.

use causeway_ovn::Planned;
use causeway_ovn::declare::Phase;
use causeway_ovn::generated::nb;

use crate::row::{gateway_router, switch};
use crate::scope::Scope;

/// The group of this name; nothing if it is none of the network's.
pub(crate) fn group(scope: &Scope<'_>, name: &str) -> Option<Planned> {
    let names = &scope.net.names;
    let on_switch = name == names.cluster_lb_group() || name == names.switch_lb_group();
    let node_ports = scope.gateway.is_some_and(|gateway| gateway.node_ports);
    let is_router = name == names.router_lb_group();
    let on_router = name == names.cluster_lb_group() || (is_router && node_ports);
    if !on_switch && !is_router {
        return None;
    }
    let row = nb::LoadBalancerGroup { name: name.into(), ..Default::default() };
    // After the switches and routers that it joins, before the load balancers that join it.
    let mut planned = Planned::new(causeway_zone::paths::balancer_group(name), row).in_phase(Phase::Port);
    if on_switch {
        planned = planned.within::<nb::LogicalSwitch>(&switch(scope.name()), "load_balancer_group");
    }
    if on_router {
        planned = planned.within::<nb::LogicalRouter>(&gateway_router(scope.name()), "load_balancer_group");
    }
    Some(planned)
}
