//! The prefixes of what a zone plans: whatever is in a database under one of them follows from one thing in the model.
//!
//! Names of networks, nodes, namespaces and pods hold neither `:` nor `%`, so none of them needs an escape here.

use causeway_types::{NetworkName, NetworkNames, NodeName};

use crate::record::ObjectKey;

/// Everything of a network but for what a database knows by its own name.
pub fn network(network: &NetworkName) -> String {
    format!("network:{network}:")
}

/// A network's switches, routers and what connects them in this zone.
pub fn core(network: &NetworkName) -> String {
    format!("network:{network}:core:")
}

/// What leads from a network out of the node.
pub fn gateway(network: &NetworkName) -> String {
    format!("network:{network}:gateway:")
}

/// What leads from a network to another node.
pub fn node(network: &NetworkName, node: &NodeName) -> String {
    format!("network:{network}:node:{node}:")
}

/// The ports of a pod on a network.
pub fn pod(network: &NetworkName, pod: &ObjectKey) -> String {
    format!("network:{network}:pod:{}:{}:", pod.namespace, pod.name)
}

/// A network's groups of load balancers, which the database knows by name.
pub fn balancer_groups(names: &NetworkNames) -> [String; 3] {
    [names.cluster_lb_group(), names.switch_lb_group(), names.router_lb_group()]
        .map(|name| balancer_group(&name))
}

/// One group of load balancers.
pub fn balancer_group(name: &str) -> String {
    format!("Load_Balancer_Group:{name}")
}

/// MAC bindings of a network's gateway router, which the database knows by port and address.
pub fn mac_bindings(names: &NetworkNames, node: &NodeName) -> String {
    format!("Static_MAC_Binding:{}:", names.gateway_to_external(node))
}
