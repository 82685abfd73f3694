//! Names of a network's OVN objects. All of them start from the network's prefix, so two networks
//! with different prefixes never share an object; see [`OvnPrefix`] for when they are equal.

use std::fmt;

use crate::{NadKey, NamespaceName, NetworkName, NodeName, ObjectName};

/// What the names of a network's objects begin with: the network's name with `-` and `/` turned into
/// `.`, then `_`; empty for the default network.
///
/// It is not one to one (`a-b` and `a.b` have the same), so whoever accepts networks compares
/// prefixes and refuses the younger of two equal ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OvnPrefix(String);

impl OvnPrefix {
    /// The prefix of a network.
    pub fn of(network: &NetworkName) -> Self {
        if network.is_default() { Self(String::new()) } else { Self(prefixed(network.as_str())) }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OvnPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn prefixed(text: &str) -> String {
    let mut prefix = text.replace(['-', '/'], ".");
    prefix.push('_');
    prefix
}

/// The names of one network's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkNames {
    network: NetworkName,
    prefix: OvnPrefix,
}

impl NetworkNames {
    /// The names of this network's objects.
    pub fn new(network: NetworkName) -> Self {
        let prefix = OvnPrefix::of(&network);
        Self { network, prefix }
    }

    /// Whose names these are.
    pub fn network(&self) -> &NetworkName {
        &self.network
    }

    /// What all names of the network begin with, or contain after their kind.
    pub fn prefix(&self) -> &OvnPrefix {
        &self.prefix
    }

    /// The owner that rows of the network name: `<network>-network-controller`.
    pub fn controller(&self) -> String {
        format!("{}-network-controller", self.network)
    }

    /// Layer3: the switch of a node.
    pub fn node_switch(&self, node: &NodeName) -> String {
        format!("{}{node}", self.prefix)
    }

    /// Layer2: the one switch.
    pub fn layer2_switch(&self) -> String {
        self.prefixed("ovn_layer2_switch")
    }

    /// Localnet: the one switch, called the same on every node.
    pub fn localnet_switch(&self) -> String {
        self.prefixed("ovn_localnet_switch")
    }

    /// Localnet: the switch's port to the physical network.
    pub fn localnet_port(&self) -> String {
        self.prefixed("ovn_localnet_port")
    }

    /// Layer3: the router of the network.
    pub fn cluster_router(&self) -> String {
        self.prefixed("ovn_cluster_router")
    }

    /// Layer2: the router of the network.
    pub fn transit_router(&self) -> String {
        self.prefixed("transit_router")
    }

    /// Layer3: the switch between nodes.
    pub fn transit_switch(&self) -> String {
        self.prefixed("transit_switch")
    }

    /// Layer3: the switch between the cluster router and the gateway router.
    pub fn join_switch(&self) -> String {
        self.prefixed("join")
    }

    /// The gateway router of a node.
    pub fn gateway_router(&self, node: &NodeName) -> String {
        format!("GR_{}{node}", self.prefix)
    }

    /// The switch between a gateway router and the node's bridge.
    pub fn external_switch(&self, node: &NodeName) -> String {
        format!("ext_{}{node}", self.prefix)
    }

    /// The external switch's port to the node's bridge.
    pub fn external_localnet_port(&self, bridge: &str, node: &NodeName) -> String {
        format!("{bridge}_{}{node}", self.prefix)
    }

    /// The patch port that ovn-controller makes on the node's bridge for that port.
    pub fn external_patch_port(&self, bridge: &str, node: &NodeName) -> String {
        format!("patch-{}-to-br-int", self.external_localnet_port(bridge, node))
    }

    /// The management port of a node.
    pub fn management_port(&self, node: &NodeName) -> String {
        format!("k8s-{}{node}", self.prefix)
    }

    /// Layer3: the cluster router's port to a node's switch.
    pub fn router_to_switch(&self, node: &NodeName) -> String {
        format!("rtos-{}", self.node_switch(node))
    }

    /// Layer3: a node's switch's port to the cluster router.
    pub fn switch_to_router(&self, node: &NodeName) -> String {
        format!("stor-{}", self.node_switch(node))
    }

    /// Layer2: the transit router's port to the switch.
    pub fn transit_router_to_switch(&self) -> String {
        format!("trtos-{}", self.layer2_switch())
    }

    /// Layer2: the switch's port to the transit router.
    pub fn switch_to_transit_router(&self) -> String {
        format!("stotr-{}", self.layer2_switch())
    }

    /// Layer2: the transit router's port to a node's gateway router.
    pub fn transit_router_to_gateway(&self, node: &NodeName) -> String {
        format!("trtor-{}", self.gateway_router(node))
    }

    /// Layer2: a gateway router's port to the transit router.
    pub fn gateway_to_transit_router(&self, node: &NodeName) -> String {
        format!("rtotr-{}", self.gateway_router(node))
    }

    /// Layer3: the cluster router's port to the join switch.
    pub fn cluster_router_to_join(&self) -> String {
        format!("rtoj-{}", self.cluster_router())
    }

    /// Layer3: the join switch's port to the cluster router.
    pub fn join_to_cluster_router(&self) -> String {
        format!("jtor-{}", self.cluster_router())
    }

    /// Layer3: a gateway router's port to the join switch.
    pub fn gateway_to_join(&self, node: &NodeName) -> String {
        format!("rtoj-{}", self.gateway_router(node))
    }

    /// Layer3: the join switch's port to a gateway router.
    pub fn join_to_gateway(&self, node: &NodeName) -> String {
        format!("jtor-{}", self.gateway_router(node))
    }

    /// A gateway router's port to the external switch.
    pub fn gateway_to_external(&self, node: &NodeName) -> String {
        format!("rtoe-{}", self.gateway_router(node))
    }

    /// The external switch's port to a gateway router.
    pub fn external_to_gateway(&self, node: &NodeName) -> String {
        format!("etor-{}", self.gateway_router(node))
    }

    /// Layer3: the cluster router's port to the transit switch.
    pub fn router_to_transit_switch(&self, node: &NodeName) -> String {
        format!("{}rtots-{node}", self.prefix)
    }

    /// Layer3: the transit switch's port to a node's cluster router.
    pub fn transit_switch_to_router(&self, node: &NodeName) -> String {
        format!("{}tstor-{node}", self.prefix)
    }

    /// Load balancers on every switch and every gateway router.
    pub fn cluster_lb_group(&self) -> String {
        self.prefixed("clusterLBGroup")
    }

    /// Load balancers on every switch.
    pub fn switch_lb_group(&self) -> String {
        self.prefixed("clusterSwitchLBGroup")
    }

    /// Load balancers on every gateway router.
    pub fn router_lb_group(&self) -> String {
        self.prefixed("clusterRouterLBGroup")
    }

    /// The port of a pod, which is also its interface's `iface-id`. The default network has no NAD.
    pub fn pod_port(attachment: Option<&NadKey>, namespace: &NamespaceName, pod: &ObjectName) -> String {
        match attachment {
            Some(key) => format!("{}{namespace}_{pod}", prefixed(key.as_str())),
            None => format!("{namespace}_{pod}"),
        }
    }

    fn prefixed(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(network: &str) -> NetworkNames {
        NetworkNames::new(NetworkName::new(network).unwrap())
    }

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    /// udn-ovn-cases A01, A02.
    #[test]
    fn a01_a02_prefixes() {
        let table = [
            ("cluster_udn_blue", "cluster_udn_blue_"),
            ("ns1_db-net", "ns1_db.net_"),
            ("ns/x", "ns.x_"),
            ("default", ""),
        ];
        for (network, prefix) in table {
            assert_eq!(names(network).prefix().as_str(), prefix);
        }
        assert_eq!(names("cluster_udn_a-b").prefix(), names("cluster_udn_a.b").prefix());
    }

    /// udn-ovn-cases A04.
    #[test]
    fn a04_pod_ports() {
        let (namespace, pod) = (NamespaceName::new("ns1").unwrap(), ObjectName::new("web-0").unwrap());
        let key = NadKey::new("ns1/blue").unwrap();
        assert_eq!(NetworkNames::pod_port(Some(&key), &namespace, &pod), "ns1.blue_ns1_web-0");
        assert_eq!(NetworkNames::pod_port(None, &namespace, &pod), "ns1_web-0");
    }

    /// udn-ovn-cases B04, B05, B08, C05 and the layer3 table.
    #[test]
    fn b04_b05_b08_c05_layer3_objects() {
        let (blue, n1) = (names("cluster_udn_blue"), node("n1"));
        let got = [
            blue.controller(),
            blue.node_switch(&n1),
            blue.cluster_router(),
            blue.router_to_switch(&n1),
            blue.switch_to_router(&n1),
            blue.management_port(&n1),
            blue.join_switch(),
            blue.cluster_router_to_join(),
            blue.join_to_cluster_router(),
            blue.gateway_router(&n1),
            blue.gateway_to_join(&n1),
            blue.join_to_gateway(&n1),
            blue.gateway_to_external(&n1),
            blue.external_to_gateway(&n1),
            blue.external_switch(&n1),
            blue.external_localnet_port("breth0", &n1),
            blue.external_patch_port("breth0", &n1),
            blue.transit_switch(),
            blue.router_to_transit_switch(&n1),
            blue.transit_switch_to_router(&n1),
            blue.cluster_lb_group(),
            blue.switch_lb_group(),
            blue.router_lb_group(),
        ];
        let expected = [
            "cluster_udn_blue-network-controller",
            "cluster_udn_blue_n1",
            "cluster_udn_blue_ovn_cluster_router",
            "rtos-cluster_udn_blue_n1",
            "stor-cluster_udn_blue_n1",
            "k8s-cluster_udn_blue_n1",
            "cluster_udn_blue_join",
            "rtoj-cluster_udn_blue_ovn_cluster_router",
            "jtor-cluster_udn_blue_ovn_cluster_router",
            "GR_cluster_udn_blue_n1",
            "rtoj-GR_cluster_udn_blue_n1",
            "jtor-GR_cluster_udn_blue_n1",
            "rtoe-GR_cluster_udn_blue_n1",
            "etor-GR_cluster_udn_blue_n1",
            "ext_cluster_udn_blue_n1",
            "breth0_cluster_udn_blue_n1",
            "patch-breth0_cluster_udn_blue_n1-to-br-int",
            "cluster_udn_blue_transit_switch",
            "cluster_udn_blue_rtots-n1",
            "cluster_udn_blue_tstor-n1",
            "cluster_udn_blue_clusterLBGroup",
            "cluster_udn_blue_clusterSwitchLBGroup",
            "cluster_udn_blue_clusterRouterLBGroup",
        ];
        assert_eq!(got, expected);
    }

    /// udn-ovn-cases D01, D02, D04, D05.
    #[test]
    fn d01_d02_d04_d05_layer2_objects() {
        let (green, n2) = (names("cluster_udn_green"), node("n2"));
        let got = [
            green.layer2_switch(),
            green.transit_router(),
            green.transit_router_to_switch(),
            green.switch_to_transit_router(),
            green.transit_router_to_gateway(&n2),
            green.gateway_to_transit_router(&n2),
            green.localnet_switch(),
            green.localnet_port(),
        ];
        let expected = [
            "cluster_udn_green_ovn_layer2_switch",
            "cluster_udn_green_transit_router",
            "trtos-cluster_udn_green_ovn_layer2_switch",
            "stotr-cluster_udn_green_ovn_layer2_switch",
            "trtor-GR_cluster_udn_green_n2",
            "rtotr-GR_cluster_udn_green_n2",
            "cluster_udn_green_ovn_localnet_switch",
            "cluster_udn_green_ovn_localnet_port",
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn the_default_network_has_bare_names() {
        let (default, n1) = (NetworkNames::new(NetworkName::default_network()), node("n1"));
        assert_eq!(default.cluster_router(), "ovn_cluster_router");
        assert_eq!(default.node_switch(&n1), "n1");
        assert_eq!(default.gateway_router(&n1), "GR_n1");
        assert_eq!(default.controller(), "default-network-controller");
    }
}
