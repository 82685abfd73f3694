//! The prefixes of what a zone plans: whatever is in a database under one of them follows from one thing in the model.
//!
//! Names of networks, nodes, namespaces, pods, services and connections hold neither `:` nor `%`, so none of them needs an escape here.

use causeway_types::{ConnectName, ConnectNames, NamespaceName, NetworkName, NetworkNames, NodeName};

use causeway_record::ObjectKey;

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

/// Everything of a connection.
pub fn connect(connect: &ConnectName) -> String {
    format!("cnc:{connect}:")
}

/// The router of a connection; a whole path.
pub fn connect_router(connect: &ConnectName) -> String {
    format!("cnc:{connect}:router")
}

/// The addresses of all networks of a connection.
pub fn connect_set(connect: &ConnectName) -> String {
    format!("cnc:{connect}:set:")
}

/// The group of load balancers of a connection's services; a whole path.
pub fn connect_group(connect: &ConnectName) -> String {
    balancer_group(&ConnectNames::new(connect.clone()).service_lb_group())
}

/// The addresses that guards of a connection keep direct traffic from.
pub fn guarded_set(connect: &ConnectName) -> String {
    format!("cnc:{connect}:guarded:")
}

/// What keeps direct traffic of a network from the other networks of a connection.
pub fn guards(connect: &ConnectName, network: &NetworkName) -> String {
    format!("cnc:{connect}:guard:{network}:")
}

/// Links of a network in a connection that belong to one node each.
pub fn links(connect: &ConnectName, network: &NetworkName) -> String {
    format!("cnc:{connect}:link:{network}:")
}

/// One of them.
pub fn link(connect: &ConnectName, network: &NetworkName, node: &NodeName) -> String {
    format!("cnc:{connect}:link:{network}:{node}:")
}

/// The link of a network in a connection that is the same on every node.
pub fn network_link(connect: &ConnectName, network: &NetworkName) -> String {
    format!("cnc:{connect}:network:{network}:")
}

/// What sends from a network to each other network of a connection.
pub fn policies(connect: &ConnectName, from: &NetworkName) -> String {
    format!("cnc:{connect}:policy:{from}:")
}

/// What sends from one network to another.
pub fn policy(connect: &ConnectName, from: &NetworkName, to: &NetworkName) -> String {
    format!("cnc:{connect}:policy:{from}:{to}:")
}

/// What sends from a network to all other networks of a connection at once.
pub fn steering(connect: &ConnectName, from: &NetworkName) -> String {
    format!("cnc:{connect}:steer:{from}:")
}

/// All services.
pub const SERVICES: &str = "service:";

/// The services of a namespace.
pub fn services_in(namespace: &NamespaceName) -> String {
    format!("service:{namespace}:")
}

/// A service, wherever it is.
pub fn service(service: &ObjectKey) -> String {
    format!("service:{}:{}:", service.namespace, service.name)
}

/// A service on a network.
pub fn service_on(service: &ObjectKey, network: &NetworkName) -> String {
    format!("service:{}:{}:{network}:", service.namespace, service.name)
}
