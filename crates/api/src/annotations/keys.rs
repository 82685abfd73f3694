//! The keys of annotations and labels, and who writes each.

/// Namespace label: the namespace's pods use a primary user-defined network. Only at creation.
pub const PRIMARY_NETWORK_LABEL: &str = "k8s.ovn.org/primary-user-defined-network";
/// Namespace label, by administrators: mirror pods of kubelets get addresses on the namespace's primary network.
pub const STATIC_PODS_LABEL: &str = "k8s.ovn.org/allow-static-pods";
/// NAD label: the NAD was rendered from a UserDefinedNetwork or ClusterUserDefinedNetwork.
pub const USER_DEFINED_NETWORK_LABEL: &str = "k8s.ovn.org/user-defined-network";
/// Finalizer of networks and of their NADs.
pub const NETWORK_FINALIZER: &str = "k8s.ovn.org/user-defined-network-protection";

/// NAD: the network's name.
pub const NETWORK_NAME: &str = "k8s.ovn.org/network-name";
/// NAD: the network's number.
pub const NETWORK_ID: &str = "k8s.ovn.org/network-id";
/// NAD: which primary networks serve the same namespaces as this one.
pub const NETWORK_SET: &str = "k8s.ovn.org/primary-network-set";
/// NAD: when the object of a primary network was created: its siblings are older or younger.
pub const NETWORK_CREATED: &str = "k8s.ovn.org/primary-network-created";
/// NAD: tunnel keys of the network's switch and transit router.
pub const TUNNEL_KEYS: &str = "k8s.ovn.org/tunnel-keys";

/// Node: the node's number.
pub const NODE_ID: &str = "k8s.ovn.org/node-id";
/// Node: the node's subnets, for each network; we publish those of the default network.
pub const NODE_SUBNETS: &str = "k8s.ovn.org/node-subnets";
/// Node: the node's address on the transit switches.
pub const NODE_TRANSIT_SWITCH_PORT: &str = "k8s.ovn.org/node-transit-switch-port-ifaddr";
/// Node: the subnet of the pair between a layer2 transit router and the node's gateway router.
pub const NODE_TRANSIT_PEER_PORTS: &str = "k8s.ovn.org/node-transit-peer-ports-subnet";
/// Node: the layer2 topology that the node has.
pub const LAYER2_TOPOLOGY_VERSION: &str = "k8s.ovn.org/layer2-topology-version";
/// Node: the name of the node's OVN chassis.
pub const NODE_CHASSIS_ID: &str = "k8s.ovn.org/node-chassis-id";
/// Node: addresses of the node's tunnel end points.
pub const NODE_ENCAP_IPS: &str = "k8s.ovn.org/node-encap-ips";
/// Node: which chassis and tunnel addresses are the node's; what the node says itself is only a claim.
pub const NODE_CHASSIS_RECORD: &str = "k8s.ovn.org/node-chassis-record";
/// Node: the node's gateway: mode, bridge, addresses, next hops.
pub const L3_GATEWAY_CONFIG: &str = "k8s.ovn.org/l3-gateway-config";
/// Node: the node's own addresses.
pub const NODE_PRIMARY_IFADDR: &str = "k8s.ovn.org/node-primary-ifaddr";
/// Node: all addresses of the node.
pub const HOST_CIDRS: &str = "k8s.ovn.org/host-cidrs";
/// Node: MAC addresses of the management ports, for each network.
pub const NODE_MANAGEMENT_MACS: &str = "k8s.ovn.org/node-mgmt-port-mac-addresses";
/// Node: the masquerade subnet in use.
pub const NODE_MASQUERADE_SUBNET: &str = "k8s.ovn.org/node-masquerade-subnet";
/// Node: whether gateway MTU checks are in use.
pub const GATEWAY_MTU_SUPPORT: &str = "k8s.ovn.org/gateway-mtu-support";

/// Node: the node's end of the tunnels of each VTEP.
pub const NODE_VTEPS: &str = "k8s.ovn.org/vteps";
/// Node: the largest packet of a pod that the node's tunnels carry.
pub const NODE_TUNNEL_MTU: &str = "k8s.ovn.org/node-tunnel-mtu";

/// Pod: addresses of all networks of the pod.
pub const POD_NETWORKS: &str = "k8s.ovn.org/pod-networks";
/// Pod: what the network plugin has done, by the network plumbing working group's standard.
pub const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
/// Pod, by the user: the secondary networks that the pod wants.
pub const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// Pod, by the user: addresses wanted on the primary network.
pub const DEFAULT_NETWORK: &str = "v1.multus-cni.io/default-network";
/// Pod, by the user: which primary network the pod wants.
pub const REQUESTED_PRIMARY: &str = "k8s.ovn.org/requested-primary-udn";
/// Pod, by the user: ports that stay reachable from the default network.
pub const OPEN_DEFAULT_PORTS: &str = "k8s.ovn.org/open-default-ports";
/// Which ACLs of a namespace's policies, or of a cluster-scoped policy, are logged, and how loud.
pub const ACL_LOGGING: &str = "k8s.ovn.org/acl-logging";
/// On a NetworkPolicy: its author wants no connections tracked.
pub const ACL_STATELESS: &str = "k8s.ovn.org/acl-stateless";

/// Pod, by the kubelet: the hash of the file that a static pod was read from, which is its UID for the kubelet.
pub const STATIC_POD: &str = "kubernetes.io/config.mirror";

/// ClusterNetworkConnect: blocks and parcels of the connected networks.
pub const NETWORK_SUBNETS: &str = "k8s.ovn.org/network-subnets";
/// ClusterNetworkConnect: the same text under the name by which other tools look for it. We write it and never read it.
pub const NETWORK_CONNECT_SUBNET: &str = "k8s.ovn.org/network-connect-subnet";
/// ClusterNetworkConnect: tunnel key of the connect router.
pub const CONNECT_ROUTER_TUNNEL_KEY: &str = "k8s.ovn.org/connect-router-tunnel-key";
/// ClusterNetworkConnect: links that a block has room for, which numbers the connect router's ports.
pub const CONNECT_ROUTER_SLOTS: &str = "k8s.ovn.org/connect-router-slots";
/// ClusterNetworkConnect: how the connection is laid out: `transit`, `both` or `compact`.
pub const CONNECT_TOPOLOGY: &str = "k8s.ovn.org/connect-topology";

/// EndpointSlice label, by everybody: who writes the slice.
pub const SLICE_MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
/// EndpointSlice: what that label says of a mirror, which has the addresses that pods have on their primary network.
pub const SLICE_MIRRORS: &str = "endpointslice-mirror-controller.k8s.ovn.org";
/// EndpointSlice label, by everybody: the service. A mirror never has it, or every proxy would send traffic there.
pub const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// EndpointSlice label of a mirror: the service.
pub const MIRRORED_SERVICE_LABEL: &str = "k8s.ovn.org/service-name";
/// EndpointSlice, of a mirror: the name of the slice that it mirrors.
pub const MIRROR_SOURCE: &str = "k8s.ovn.org/source-endpointslice";
/// EndpointSlice, of a mirror: the version of that slice.
pub const MIRROR_SOURCE_VERSION: &str = "k8s.ovn.org/source-endpointslice-version";
/// EndpointSlice, of a mirror: the name of the network that its addresses are on.
pub const MIRROR_NETWORK: &str = "k8s.ovn.org/endpointslice-network";

/// All annotations of a mirror.
pub const OF_MIRROR: [&str; 3] = [MIRROR_SOURCE, MIRROR_SOURCE_VERSION, MIRROR_NETWORK];

/// Annotations that only the cluster manager writes, on whichever object.
pub const BY_CLUSTER_MANAGER: [&str; 17] = [
    NETWORK_NAME,
    NETWORK_ID,
    NETWORK_SET,
    NETWORK_CREATED,
    TUNNEL_KEYS,
    NODE_ID,
    NODE_CHASSIS_RECORD,
    NODE_SUBNETS,
    NODE_TRANSIT_SWITCH_PORT,
    NODE_TRANSIT_PEER_PORTS,
    NODE_VTEPS,
    POD_NETWORKS,
    NETWORK_SUBNETS,
    NETWORK_CONNECT_SUBNET,
    CONNECT_ROUTER_TUNNEL_KEY,
    CONNECT_ROUTER_SLOTS,
    CONNECT_TOPOLOGY,
];

/// Annotations of a Node that only the node itself writes.
pub const BY_NODE: [&str; 10] = [
    LAYER2_TOPOLOGY_VERSION,
    NODE_CHASSIS_ID,
    NODE_ENCAP_IPS,
    L3_GATEWAY_CONFIG,
    NODE_PRIMARY_IFADDR,
    HOST_CIDRS,
    NODE_MANAGEMENT_MACS,
    NODE_MASQUERADE_SUBNET,
    GATEWAY_MTU_SUPPORT,
    NODE_TUNNEL_MTU,
];

/// Annotations of a ClusterNetworkConnect that nobody changes once they are there.
pub const WRITTEN_ONCE: [&str; 2] = [CONNECT_ROUTER_TUNNEL_KEY, CONNECT_ROUTER_SLOTS];

/// All annotations of a ClusterNetworkConnect that the cluster manager writes, and zones render from.
pub const OF_CONNECT: [&str; 4] =
    [NETWORK_SUBNETS, CONNECT_ROUTER_TUNNEL_KEY, CONNECT_ROUTER_SLOTS, CONNECT_TOPOLOGY];
/// Finalizer of ClusterNetworkConnects: freed numbers are recorded before the object goes.
pub const CONNECT_FINALIZER: &str = "k8s.ovn.org/network-connect-protection";
