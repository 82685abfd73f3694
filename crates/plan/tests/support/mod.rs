//! A small cluster as records: two nodes, the default network, layer3 networks `blue`, layer2 networks `green`, pods.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

pub mod check;
pub mod ledger;
pub mod northd;
pub mod server;

use std::net::IpAddr;

use causeway_api::annotations::{Annotation as _, ChassisRecord};
use causeway_api::crd::policy::ClusterNetworkPolicy;
use causeway_api::intent::ClusterConfig;
use causeway_ovn::{Plan, Planned, Planner};
use causeway_plan::Dirty;
use causeway_record::{
    ClusterPolicy, Connect, EndpointSlice, Nad, Namespace, NetworkPolicy, Node, ObjectKey, OfKind, Pod,
    Protocol, Service, ServicePort, Watched,
};
use causeway_types::{Cidr, ConnectName, ConnectSubnet, NodeId, NodeName};
use causeway_zone::{Changes, Render, Zone, ZoneConfig};
use serde_json::{Value, json};

/// Which IP families a cluster and its networks have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    V4,
    V6,
    Dual,
}

impl Ip {
    pub const ALL: [Ip; 3] = [Ip::V4, Ip::V6, Ip::Dual];

    pub fn name(self) -> &'static str {
        match self {
            Ip::V4 => "ipv4",
            Ip::V6 => "ipv6",
            Ip::Dual => "dual",
        }
    }

    /// Those of the two that the families need.
    pub fn pick<T>(self, four: T, six: T) -> Vec<T> {
        match self {
            Ip::V4 => vec![four],
            Ip::V6 => vec![six],
            Ip::Dual => vec![four, six],
        }
    }
}

pub fn node_name(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

pub fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { namespace: namespace.parse().unwrap(), name: name.into() }
}

/// A node with an id, the chassis `c-<id - 1>` and the address `172.18.0.<id>`.
pub fn node(name: &str, id: u32) -> Node {
    let node = Node { uid: format!("node-{name}"), ..Node::new(node_name(name)) };
    let node = annotate(node, "node-id", &id.to_string());
    let node = annotate(node, "node-chassis-id", &format!("c-{}", id - 1));
    settled(annotate(node, "node-encap-ips", &format!("[\"172.18.{}.{}\"]", id / 256, id % 256)))
}

/// The node with a record of what it claims, as far as that can be read.
pub fn settled(node: Node) -> Node {
    let record = ChassisRecord {
        uid: node.uid.clone(),
        chassis_id: node.chassis.clone().ok().flatten(),
        encap_ips: node.encaps.clone().ok().flatten().map(|ips| ips.0).unwrap_or_default(),
        node_ips: (!node.addresses.is_empty()).then(|| node.addresses.clone()),
        refused: Vec::new(),
    };
    annotate(node, "node-chassis-record", &record.text())
}

pub fn annotate(mut node: Node, key: &str, text: &str) -> Node {
    node.annotate(&format!("k8s.ovn.org/{key}"), Some(text));
    node
}

pub fn without(mut node: Node, key: &str) -> Node {
    node.annotate(&format!("k8s.ovn.org/{key}"), None);
    node
}

/// The node with a gateway on `breth0`.
pub fn with_gateway(node: Node, ip: Ip, mode: &str) -> Node {
    let addresses = ip.pick("172.18.0.2/16", "fc00:f853:ccd:e793::2/64");
    let hops = ip.pick("172.18.0.1", "fc00:f853:ccd:e793::1");
    let config = json!({"default": {
        "mode": mode, "bridge-id": "breth0", "interface-id": "breth0_n1", "mac-address": "02:42:ac:12:00:02",
        "ip-addresses": addresses, "next-hops": hops, "node-port-enable": "true", "vlan-id": "0",
    }});
    annotate(node, "l3-gateway-config", &config.to_string())
}

/// The node with addresses by its kubelet's account, which are recorded.
pub fn at_addresses(node: Node, addresses: &[&str]) -> Node {
    settled(named(node, addresses))
}

/// The node with addresses by its kubelet's account alone.
pub fn named(node: Node, addresses: &[&str]) -> Node {
    Node { addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(), ..node }
}

/// A pod in the network of its node.
pub fn host_pod(name: &str, node: &str) -> Pod {
    Pod { host_network: true, ..bare_pod(name, node) }
}

/// A NAD of a network with an id, as the cluster manager leaves it.
pub fn nad(nad: &str, network: &str, id: u32, config: Value) -> Nad {
    let (namespace, name) = nad.split_once('/').unwrap();
    let mut fields = json!({"cniVersion": "1.1.0", "type": "ovn-k8s-cni-overlay", "role": "primary"});
    fields["name"] = network.into();
    fields["netAttachDefName"] = nad.into();
    for (key, value) in config.as_object().unwrap() {
        fields[key] = value.clone();
    }
    let mut annotations =
        vec![("k8s.ovn.org/network-name", network.to_owned()), ("k8s.ovn.org/network-id", id.to_string())];
    if fields["topology"] == "layer2" {
        annotations.push(("k8s.ovn.org/tunnel-keys", format!("[{},{}]", 16_711_683 + id, 16_720_000 + id)));
    }
    let mut record = Nad::new(key(namespace, name));
    (record.uid, record.created) = (format!("nad-{nad}"), i64::from(id));
    annotations.iter().for_each(|(key, text)| record.annotate(key, Some(text)));
    record.configure(fields.to_string());
    record
}

/// The layer3 network `blue`, id 1, in namespace `ns1`.
pub fn blue(ip: Ip) -> Nad {
    let subnets = ip.pick("10.20.0.0/16/24", "fd20::/48/64").join(",");
    nad("ns1/blue", "cluster_udn_blue", 1, json!({"topology": "layer3", "subnets": subnets}))
}

/// The layer2 network `green`, id 5, in namespace `ns2`.
pub fn green(ip: Ip) -> Nad {
    let subnets = ip.pick("203.203.0.0/16", "2010:100:200::/60").join(",");
    let mut green =
        nad("ns2/green", "cluster_udn_green", 5, json!({"topology": "layer2", "subnets": subnets}));
    green.annotate("k8s.ovn.org/tunnel-keys", Some("[16711688,16715780]"));
    green
}

/// A layer3 network like `blue` with another number, in namespace `ns<id + 2>`.
pub fn layer3(name: &str, id: u32, ip: Ip) -> Nad {
    let (four, six) = (format!("10.{}.0.0/16/24", 10 + 10 * id), format!("fd{}::/48/64", 10 + 10 * id));
    let subnets = ip.pick(four, six).join(",");
    let (nad_key, network) = (format!("ns{}/{name}", id + 2), format!("cluster_udn_{name}"));
    nad(&nad_key, &network, id, json!({"topology": "layer3", "subnets": subnets}))
}

/// A layer2 network like `green` with another number, in namespace `ns<id>`.
pub fn layer2(name: &str, id: u32, ip: Ip) -> Nad {
    let (four, six) = (format!("203.{id}.0.0/16"), format!("2010:{id}::/60"));
    let subnets = ip.pick(four, six).join(",");
    let (nad_key, network) = (format!("ns{id}/{name}"), format!("cluster_udn_{name}"));
    nad(&nad_key, &network, id, json!({"topology": "layer2", "subnets": subnets}))
}

pub fn connect_name(name: &str) -> ConnectName {
    ConnectName::new(name).unwrap()
}

/// A connection of pods as the cluster manager leaves it. Each owner has the block of its position, a layer2 network its
/// first slice; the connect subnets are those of the specification's sample.
pub fn connect(name: &str, topology: &str, ip: Ip, owners: &[&str]) -> Connect {
    let mut blocks = serde_json::Map::new();
    for (at, owner) in owners.iter().enumerate() {
        let (four, six) = match owner.starts_with("layer3") {
            true => (format!("192.168.{at}.0/24"), format!("fd01::{at:x}:0:0/96")),
            false => (format!("192.168.{at}.0/31"), format!("fd01::{at:x}:0:0/127")),
        };
        let six = six.parse::<Cidr>().unwrap().to_string();
        let place = ip.pick(("ipv4", four), ("ipv6", six));
        blocks.insert(
            (*owner).to_owned(),
            place.into_iter().map(|(k, v)| (k.to_owned(), Value::from(v))).collect(),
        );
    }
    let subnets = ip.pick(
        json!({"cidr": "192.168.0.0/16", "networkPrefix": 24}),
        json!({"cidr": "fd01::/64", "networkPrefix": 96}),
    );
    let object = json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect",
        "metadata": {"name": name, "annotations": {
            "k8s.ovn.org/network-subnets": Value::Object(blocks).to_string(),
            "k8s.ovn.org/connect-router-tunnel-key": "16715790",
            "k8s.ovn.org/connect-router-slots": "128",
            "k8s.ovn.org/connect-topology": topology,
        }},
        "spec": {"networkSelectors": [], "connectSubnets": subnets, "connectivityEnabled": ["PodNetwork"]},
    });
    Connect::of(connect_name(name), serde_json::from_value(object).unwrap())
}

/// The connection with another annotation.
pub fn with_annotation(mut connect: Connect, key: &str, text: Option<&str>) -> Connect {
    connect.annotate(&format!("k8s.ovn.org/{key}"), text);
    connect
}

/// The connection with other grants.
pub fn granting(mut connect: Connect, pods: bool, services: bool) -> Connect {
    let spec = connect.spec.as_mut().unwrap();
    (spec.pods, spec.services) = (pods, services);
    connect
}

/// A connection of its own addresses and key, beside one by [`connect`].
pub fn second(mut connect: Connect) -> Connect {
    let moved = [("16715790", "16715791"), ("192.168", "192.169"), ("fd01", "fd02")];
    for (key, text) in connect.published.clone() {
        let text = moved.iter().fold(text, |text, (from, to)| text.replace(from, to));
        connect.annotate(&key, Some(&text));
    }
    connect.spec.as_mut().unwrap().subnets = vec![
        ConnectSubnet::new("192.169.0.0/16".parse().unwrap(), 24).unwrap(),
        ConnectSubnet::new("fd02::/64".parse().unwrap(), 96).unwrap(),
    ];
    connect
}

/// The owners of `blue`, `orange` and `green`, in the order of their blocks.
pub const COLOURS: [&str; 3] = ["layer3_1", "layer3_2", "layer2_5"];

/// The small cluster with a third network, `orange`, and a connection `road` of all three.
pub fn connected(ip: Ip, topology: &str) -> Zone {
    let mut zone = cluster(ip, None);
    zone.apply_nad(&layer3("orange", 2, ip));
    zone.apply_connect(&connect("road", topology, ip, &COLOURS));
    zone
}

/// A network of either topology by its number, in a namespace of its own.
pub fn numbered(id: u32, topology: &str) -> Nad {
    let subnets = if topology == "layer3" { "10.20.0.0/16/24" } else { "203.203.0.0/16" };
    let (nad_key, name) = (format!("t{id}/net"), format!("t{id}_net"));
    nad(&nad_key, &name, id, json!({"topology": topology, "subnets": subnets}))
}

/// A pod without networks.
pub fn bare_pod(pod: &str, node: &str) -> Pod {
    let (namespace, name) = pod.split_once('/').unwrap();
    Pod { node: Some(node_name(node)), ..Pod::new(key(namespace, name), format!("uid-{name}")) }
}

/// A pod with these networks: attachment, role, addresses, tunnel id.
pub fn pod(pod: &str, node: &str, networks: &[(&str, &str, &[&str], Option<u32>)]) -> Pod {
    let mut entries = serde_json::Map::new();
    for (attachment, role, addresses, tunnel) in networks {
        let first: IpAddr = addresses[0].split('/').next().unwrap().parse().unwrap();
        let mut entry = json!({
            "ip_addresses": addresses, "role": role, "mac_address": causeway_types::Mac::from_ip(first).to_string(),
        });
        if let Some(tunnel) = tunnel {
            entry["tunnel_id"] = (*tunnel).into();
        }
        entries.insert((*attachment).to_owned(), entry);
    }
    let mut pod = bare_pod(pod, node);
    pod.annotate("k8s.ovn.org/pod-networks", Some(&Value::Object(entries).to_string()));
    pod
}

/// A pod of the default network on n1.
pub fn plain(ip: Ip) -> Pod {
    let own = ip.pick("10.244.0.3/24", "fd00:10:244::3/64");
    pod("ns0/plain", "n1", &[("default", "primary", &own, None)])
}

/// A pod of `blue` on n1.
pub fn web(ip: Ip) -> Pod {
    let locked = ip.pick("10.244.0.4/24", "fd00:10:244::4/64");
    let own = ip.pick("10.20.0.5/24", "fd20::5/64");
    pod(
        "ns1/web-0",
        "n1",
        &[("default", "infrastructure-locked", &locked, None), ("ns1/blue", "primary", &own, None)],
    )
}

/// A pod of `green` on some node, the `n`th.
pub fn vm(name: &str, node: &str, n: u32, ip: Ip) -> Pod {
    let (four, six) = (format!("10.244.0.{n}/24"), format!("fd00:10:244::{n}/64"));
    let locked = ip.pick(four.as_str(), six.as_str());
    let (four, six) = (format!("203.203.0.{n}/16"), format!("2010:100:200::{n}/60"));
    let own = ip.pick(four.as_str(), six.as_str());
    pod(
        &format!("ns2/{name}"),
        node,
        &[("default", "infrastructure-locked", &locked, None), ("ns2/green", "primary", &own, Some(n))],
    )
}

pub fn config(ip: Ip) -> ZoneConfig {
    let cidrs = |four: &str, six: &str| -> Vec<Cidr> {
        ip.pick(four, six).iter().map(|cidr| cidr.parse().unwrap()).collect()
    };
    let cluster = ClusterConfig::new(
        cidrs("10.244.0.0/16", "fd00:10:244::/48"),
        cidrs("10.96.0.0/16", "fd00:10:96::/112"),
        NodeId::new(1001).unwrap(),
    );
    let mut config = ZoneConfig::new(node_name("n1"), cluster);
    config.default_services = vec![key("default", "kubernetes"), key("kube-system", "kube-dns")];
    config
}

/// The zone of n1 with n2 beside it, and nothing else yet.
pub fn two_nodes(ip: Ip, gateway: Option<&str>) -> Zone {
    let mut zone = Zone::new(config(ip));
    let here = node("n1", 2);
    zone.apply_node(&match gateway {
        Some(mode) => with_gateway(here, ip, mode),
        None => here,
    });
    zone.apply_node(&node("n2", 3));
    zone
}

/// The same with the networks and pods of the module's first line.
pub fn cluster(ip: Ip, gateway: Option<&str>) -> Zone {
    let mut zone = two_nodes(ip, gateway);
    zone.apply_nad(&blue(ip));
    zone.apply_nad(&green(ip));
    for pod in [plain(ip), web(ip), vm("vm", "n1", 8, ip), vm("far", "n2", 9, ip)] {
        zone.apply_pod(&pod);
    }
    zone
}

/// Networks where they are used alone: `blue` has a pod here, `orange` and `green` have theirs on the other node.
pub fn destinations(ip: Ip, topology: &str) -> Zone {
    let mut config = config(ip);
    config.render = Render::Used { grace_ms: 10 };
    let mut zone = Zone::new(config);
    zone.apply_node(&node("n1", 2));
    zone.apply_node(&node("n2", 3));
    [blue(ip), layer3("orange", 2, ip), green(ip)].iter().for_each(|nad| drop(zone.apply_nad(nad)));
    zone.apply_connect(&connect("road", topology, ip, &COLOURS));
    zone.apply_pod(&web(ip));
    let own = ip.pick("10.30.1.9/24", "fd30:0:0:1::9/64");
    zone.apply_pod(&pod("ns4/there", "n2", &[("ns4/orange", "primary", &own, None)]));
    zone.apply_pod(&vm("there", "n2", 9, ip));
    for now in [0, 100] {
        zone.tick(now);
    }
    zone
}

/// All planned rows under a prefix, with their members in them; a held slice is a failure.
pub fn rows(planner: &dyn Planner, prefix: &str) -> Vec<Planned> {
    let mut rows = Vec::new();
    for slice in planner.slices(prefix) {
        match planner.plan(&slice) {
            Plan::Rows(planned) => rows.extend(planned),
            Plan::Absent => {}
            Plan::Hold(reason) => panic!("{slice} is held: {reason}"),
            Plan::Keep => panic!("{slice} stays as it is, whatever that is"),
        }
    }
    causeway_ovn::together(rows)
}

/// The one planned row with a name.
pub fn row(planner: &dyn Planner, table: &str, name: &str) -> Planned {
    let named = |row: &&Planned| row.meta.name == table && text(row, "name") == name;
    let all = rows(planner, "");
    let found: Vec<&Planned> = all.iter().filter(named).collect();
    assert_eq!(found.len(), 1, "{table} {name}");
    found[0].clone()
}

/// A column as a person would write it; empty if it is the default.
pub fn text(row: &Planned, column: &str) -> String {
    use causeway_ovsdb_client::ovsdb::{Atom, Datum};
    let atom = |atom: &Atom| match atom {
        Atom::String(s) => s.to_string(),
        Atom::Integer(i) => i.to_string(),
        Atom::Boolean(b) => b.to_string(),
        Atom::Uuid(u) => u.to_string(),
        other => format!("{other:?}"),
    };
    match row.column(column) {
        None => String::new(),
        Some(Datum::StrMap(pairs)) => {
            let pairs: Vec<String> = pairs.iter().map(|(k, v)| format!("{k}={v}")).collect();
            pairs.join(", ")
        }
        Some(datum) => datum.atoms().iter().map(atom).collect::<Vec<_>>().join(", "),
    }
}

/// Rows of a table under a prefix, each as these columns.
pub fn table(planner: &dyn Planner, prefix: &str, table: &str, columns: &[&str]) -> Vec<String> {
    let of_table = rows(planner, prefix).into_iter().filter(|row| row.meta.name == table);
    let mut lines: Vec<String> = of_table
        .map(|row| columns.iter().map(|column| text(&row, column)).collect::<Vec<_>>().join(" | "))
        .collect();
    lines.sort();
    lines
}

/// A namespace, which demands a primary network of its own or does not.
pub fn namespace(name: &str, demands: bool) -> Namespace {
    let label = "k8s.ovn.org/primary-user-defined-network";
    let labels = demands.then(|| (label.to_owned(), String::new())).into_iter().collect();
    Namespace { name: name.parse().unwrap(), labels, deleting: false, logging: Default::default() }
}

/// A NetworkPolicy with this specification.
pub fn policy(policy: &str, spec: Value) -> NetworkPolicy {
    let (namespace, name) = policy.split_once('/').unwrap();
    let object = json!({"metadata": {"name": name, "namespace": namespace}, "spec": spec});
    NetworkPolicy::trim(serde_json::from_value(object).unwrap(), key(namespace, name))
}

/// A ClusterNetworkPolicy that can be carried out.
pub fn cluster_policy(name: &str, spec: Value) -> ClusterPolicy {
    let object = json!({"metadata": {"name": name}, "spec": spec, "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy"});
    let object = serde_json::from_value(object).unwrap();
    let id = OfKind::<ClusterNetworkPolicy>::key(&object).unwrap();
    let read = OfKind::<ClusterNetworkPolicy>::trim(object, id).policy;
    assert!(read.meant.is_ok(), "{:?}", read.meant);
    read
}

/// A service with port 80/TCP at these addresses.
pub fn service(service: &str, addresses: &[&str]) -> Service {
    let (namespace, name) = service.split_once('/').unwrap();
    Service {
        key: key(namespace, name),
        created: 0,
        cluster_ips: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        ports: vec![service_port("", Protocol::Tcp, 80)],
        local: false,
        external_ips: Vec::new(),
        ingress_ips: Vec::new(),
        source_ranges: None,
        external_local: false,
        health_port: None,
        publish_not_ready: false,
        affinity: None,
    }
}

pub fn service_port(name: &str, protocol: Protocol, port: u16) -> ServicePort {
    ServicePort { name: name.into(), protocol, port, node_port: None }
}

/// What a pod is called that is behind an address.
fn name_of(address: &str) -> String {
    format!("p-{}", address.replace(['.', ':'], "-").trim_matches('-'))
}

/// Pods of the default network that are behind `address@node`; they run on another node, so that nothing but their addresses is
/// known here.
pub fn behind(zone: &mut Zone, namespace: &str, endpoints: &[&str]) {
    for address in endpoints.iter().map(|text| text.split_once('@').unwrap().0) {
        let net = format!("{address}/{}", if address.contains(':') { 64 } else { 24 });
        let name = format!("{namespace}/{}", name_of(address));
        zone.apply_pod(&pod(&name, "n2", &[("default", "primary", &[net.as_str()], None)]));
    }
}

/// Ready endpoints `address@node` of a service at port 8080/TCP, on a network other than the default one.
pub fn slice(slice: &str, service: &str, network: Option<&str>, endpoints: &[&str]) -> EndpointSlice {
    let (namespace, name) = slice.split_once('/').unwrap();
    let endpoint = |text: &&str| {
        let (address, node) = text.split_once('@').unwrap();
        let conditions = json!({"ready": true, "serving": true, "terminating": false});
        let mut endpoint = json!({"addresses": [address], "conditions": conditions, "nodeName": node});
        if network.is_none() {
            endpoint["targetRef"] = json!({"kind": "Pod", "namespace": namespace, "name": name_of(address)});
        }
        endpoint
    };
    let is_ipv6 = endpoints.first().is_some_and(|text| text.contains(':'));
    let labels = match network {
        Some(_) => {
            json!({"endpointslice.kubernetes.io/managed-by": "endpointslice-mirror-controller.k8s.ovn.org",
                          "k8s.ovn.org/service-name": service})
        }
        None => json!({"kubernetes.io/service-name": service}),
    };
    let object = json!({
        "metadata": {"namespace": namespace, "name": name, "labels": labels,
                     "annotations": {"k8s.ovn.org/endpointslice-network": network.unwrap_or_default()}},
        "addressType": if is_ipv6 { "IPv6" } else { "IPv4" },
        "ports": [{"name": "", "protocol": "TCP", "port": 8080}],
        "endpoints": endpoints.iter().map(endpoint).collect::<Vec<_>>(),
    });
    EndpointSlice::trim(serde_json::from_value(object).unwrap(), key(namespace, name))
}

/// Services of the default network and of the three coloured ones: `web` with targets on both nodes, `agent` with targets
/// on the client's node only, `api` with a target outside of the network.
pub fn serve(zone: &mut Zone, ip: Ip) {
    let own = [
        ("ns0", None, ["10.244.0.3", "10.244.1.7"], ["fd00:10:244::3", "fd00:10:244:1::7"]),
        ("ns1", Some("cluster_udn_blue"), ["10.20.0.5", "10.20.1.7"], ["fd20::5", "fd20:0:0:1::7"]),
        (
            "ns2",
            Some("cluster_udn_green"),
            ["203.203.0.8", "203.203.0.9"],
            ["2010:100:200::8", "2010:100:200::9"],
        ),
        ("ns4", Some("cluster_udn_orange"), ["10.30.0.6", "10.30.1.9"], ["fd30::6", "fd30:0:0:1::9"]),
    ];
    for (n, (namespace, network, four, six)) in own.into_iter().enumerate() {
        for (name, number) in [("web", 50), ("agent", 60), ("api", 70)] {
            let (vip4, vip6) = (format!("10.96.{n}.{number}"), format!("fd00:10:96::{n}:{number}"));
            let mut of_name = service(&format!("{namespace}/{name}"), &ip.pick(vip4.as_str(), vip6.as_str()));
            of_name.local = name == "agent";
            zone.apply_service(&of_name);
            for (family, [here, there], host) in
                ip.pick((4, four, "172.18.0.3"), (6, six, "fc00:f853:ccd:e793::3"))
            {
                let second = if name == "api" { host } else { there };
                let endpoints = [format!("{here}@n1"), format!("{second}@n2")];
                let endpoints = endpoints.each_ref().map(String::as_str);
                let at = format!("{namespace}/{name}-{family}");
                if network.is_none() {
                    behind(zone, namespace, &endpoints);
                }
                zone.apply_endpoint_slice(&slice(&at, name, network, &endpoints));
            }
        }
    }
}

/// What is to be looked at after changes.
pub(crate) trait On {
    fn on(self, zone: &Zone) -> Dirty;
}

impl On for Changes {
    fn on(self, zone: &Zone) -> Dirty {
        Dirty::after(zone, &self)
    }
}
