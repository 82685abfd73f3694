//! H: addresses of pods.

use std::collections::BTreeMap;

use causeway_cluster::AddressUse;
use causeway_record::Kind;
use causeway_types::NetworkId;
use serde_json::{Value, json};

use crate::world::{World, config, dual, ipv4};

fn network(world: &mut World, path: &str, spec: Value) {
    world.udn(path, spec);
}

/// H001, H010: the whole annotation of a pod on a primary layer2 network, and of a pod on the default network.
#[test]
fn h001_h010_first_pods() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.namespace("plain", json!({}));
    world.layer2("demo/db", &["10.0.0.0/24"]);
    world.pod("demo/a", "n1");
    world.pod("plain/b", "n1");
    assert_eq!(
        world.networks("demo/a"),
        json!({
            "default": {
                "ip_addresses": ["10.244.0.3/24"], "ip_address": "10.244.0.3/24", "mac_address": "0a:58:0a:f4:00:03",
                "routes": [
                    {"dest": "10.244.0.0/16", "nextHop": "10.244.0.1"},
                    {"dest": "100.64.0.0/16", "nextHop": "10.244.0.1"},
                ],
                "role": "infrastructure-locked",
            },
            "demo/db": {
                "ip_addresses": ["10.0.0.3/24"], "ip_address": "10.0.0.3/24", "mac_address": "0a:58:0a:00:00:03",
                "gateway_ips": ["10.0.0.1"], "gateway_ip": "10.0.0.1",
                "routes": [
                    {"dest": "10.96.0.0/16", "nextHop": "10.0.0.1"},
                    {"dest": "100.65.0.0/16", "nextHop": "10.0.0.1"},
                ],
                "tunnel_id": 10, "role": "primary",
            },
        })
    );
    assert_eq!(
        world.networks("plain/b"),
        json!({"default": {
            "ip_addresses": ["10.244.0.4/24"], "ip_address": "10.244.0.4/24", "mac_address": "0a:58:0a:f4:00:04",
            "gateway_ips": ["10.244.0.1"], "gateway_ip": "10.244.0.1",
            "routes": [
                {"dest": "10.244.0.0/16", "nextHop": "10.244.0.1"},
                {"dest": "10.96.0.0/16", "nextHop": "10.244.0.1"},
                {"dest": "169.254.0.5/32", "nextHop": "10.244.0.1"},
                {"dest": "100.64.0.0/16", "nextHop": "10.244.0.1"},
            ],
            "role": "primary",
        }})
    );
    assert_eq!(world.said, Vec::<String>::new());
}

/// H002: dual stack, with the link-local address of the gateway.
#[test]
fn h002_dual_stack_layer2() {
    let mut world = World::new(dual(), &["n1"]);
    world.tenant("demo");
    world.layer2("demo/db", &["10.0.0.0/24", "2001:dbb::/64"]);
    world.pod("demo/a", "n1");
    assert_eq!(
        world.networks("demo/a")["demo/db"],
        json!({
            "ip_addresses": ["10.0.0.3/24", "2001:dbb::3/64"], "mac_address": "0a:58:0a:00:00:03",
            "gateway_ips": ["10.0.0.1", "2001:dbb::1"],
            "routes": [
                {"dest": "10.96.0.0/16", "nextHop": "10.0.0.1"},
                {"dest": "100.65.0.0/16", "nextHop": "10.0.0.1"},
                {"dest": "fd00:10:96::/112", "nextHop": "2001:dbb::1"},
                {"dest": "fd99::/64", "nextHop": "2001:dbb::1"},
            ],
            "ipv6_lla_gateway_ip": "fe80::858:aff:fe00:1",
            "tunnel_id": 10, "role": "primary",
        })
    );
}

/// H004, H005, H029: secondary networks, which a pod asks for itself; without address management it gets a MAC.
#[test]
fn h004_h005_h029_secondary_networks() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.namespace("demo", json!({}));
    let secondary =
        json!({"topology": "Layer2", "layer2": {"role": "Secondary", "subnets": ["10.0.0.0/24"]}});
    network(&mut world, "demo/db", secondary);
    let bare = json!({"topology": "Layer2", "layer2": {"role": "Secondary", "ipam": {"mode": "Disabled"}}});
    network(&mut world, "demo/bare", bare);
    world.pod_with("demo/a", "n1", json!({"k8s.v1.cni.cncf.io/networks": "db,bare,db"}));
    let networks = world.networks("demo/a");
    let db = |address: &str, mac: &str, tunnel: u32| json!({"ip_addresses": [address], "ip_address": address, "mac_address": mac, "tunnel_id": tunnel, "role": "secondary"});
    assert_eq!(networks["demo/db"], db("10.0.0.1/24", "0a:58:0a:00:00:01", 10));
    assert_eq!(networks["demo/db/1"], db("10.0.0.2/24", "0a:58:0a:00:00:02", 11));
    let first = networks["demo/bare"]["mac_address"].as_str().unwrap()[..2].to_owned();
    assert_eq!(u8::from_str_radix(&first, 16).unwrap() & 3, 2, "local and of one port: {first}");
    assert_eq!(networks["demo/bare"]["ip_addresses"], Value::Null);
    assert_eq!(networks["demo/bare"]["tunnel_id"], 10);
    let left_out = "Pod demo/a AdditionalNetworkLeftOut: the pod gets no interface on [demo/bare, demo/db, demo/db/1]: additional \
                    networks are not supported yet; it runs without them";
    assert!(world.said.iter().any(|text| text == left_out), "{:?}", world.said);
}

/// H007, G025: a layer3 network's routes go through the first address of the node's part.
#[test]
fn h007_g025_layer3() {
    let mut world = World::new(ipv4(), &["n1", "n2", "n3"]);
    world.tenant("green");
    world.layer3("green/green-network", "203.203.0.0/16", 24);
    world.pod("green/a", "n3");
    assert_eq!(
        world.networks("green/a")["green/green-network"],
        json!({
            "ip_addresses": ["203.203.2.3/24"], "ip_address": "203.203.2.3/24", "mac_address": "0a:58:cb:cb:02:03",
            "gateway_ips": ["203.203.2.1"], "gateway_ip": "203.203.2.1",
            "routes": [
                {"dest": "203.203.0.0/16", "nextHop": "203.203.2.1"},
                {"dest": "10.96.0.0/16", "nextHop": "203.203.2.1"},
                {"dest": "100.65.0.0/16", "nextHop": "203.203.2.1"},
            ],
            "role": "primary",
        })
    );
}

/// H008: a subnet that is appended is routed to by pods that come later.
#[test]
fn h008_an_appended_subnet_is_routed_to() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("green");
    world.layer3("green/net", "203.203.0.0/16", 24);
    world.pod("green/before", "n1");
    let both =
        json!([{"cidr": "203.203.0.0/16", "hostSubnet": 24}, {"cidr": "203.204.0.0/16", "hostSubnet": 24}]);
    world.change(Kind::UserDefinedNetwork, "green/net", &json!({"spec": {"layer3": {"subnets": both}}}));
    world.pod("green/after", "n1");
    let routes = |pod: &str| -> Vec<Value> {
        let networks = world.networks(pod);
        networks["green/net"]["routes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|route| route["dest"].clone())
            .collect()
    };
    assert_eq!(routes("green/before"), ["203.203.0.0/16", "10.96.0.0/16", "100.65.0.0/16"]);
    assert_eq!(routes("green/after"), ["203.203.0.0/16", "203.204.0.0/16", "10.96.0.0/16", "100.65.0.0/16"]);
    assert_eq!(world.address("green/after", "green/net"), "203.203.0.4/24");
}

/// H011, E017: the fifth pod of a /29 waits, is told so with network and subnet, and starts when another goes.
#[test]
fn h011_e017_a_full_subnet_is_said_and_left_by_waiting() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.layer2("demo/db", &["10.0.0.0/29"]);
    for name in ["a", "b", "c", "d", "e"] {
        world.pod(&format!("demo/{name}"), "n1");
    }
    let given: Vec<Value> =
        ["a", "b", "c", "d"].map(|n| world.address(&format!("demo/{n}"), "demo/db")).into();
    assert_eq!(given, ["10.0.0.3/29", "10.0.0.4/29", "10.0.0.5/29", "10.0.0.6/29"]);
    assert_eq!(world.networks("demo/e"), Value::Null, "not even on the default network");
    assert_eq!(
        world.said,
        [
            "UserDefinedNetwork demo/db NetworkFull: Network allocation succeeded for all synced nodes. It is full, on some node at \
             least: all addresses are given out. Another primary network for the namespace takes the pods that come later \
             (docs/networks.md, \"My network is full\")",
            "Pod demo/e ErrorAllocatingPod: network demo_db: subnet 10.0.0.0/29 is full: no address is left for pod demo/e",
            "UserDefinedNetwork demo/db NetworkAllocationFailed: error allocating network demo_db: 1 pod(s) get no address, the \
             first is demo/e: the subnet is full; delete pods that are not needed, or add another primary network to the namespace \
             (docs/networks.md, \"My network is full\")",
        ]
    );
    let condition = |world: &World| world.udn_condition("demo/db", "NetworkAllocationSucceeded");
    assert!(condition(&world).starts_with("False/SubnetExhausted 1 pod(s)"), "{}", condition(&world));
    world.delete(Kind::Pod, "demo/b");
    assert_eq!(world.address("demo/e", "demo/db"), "10.0.0.4/29");
    assert!(condition(&world).starts_with("True/"), "{}", condition(&world));
}

/// Open ports that cannot be read are said once, on the pod, which gets its addresses all the same.
#[test]
fn open_ports_that_cannot_be_read_are_said() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.namespace("plain", json!({}));
    world.pod_with("plain/a", "n1", json!({"k8s.ovn.org/open-default-ports": "- protocol: quic\n  port: 1"}));
    assert_eq!(world.address("plain/a", "default"), "10.244.0.3/24");
    assert_eq!(
        world.said,
        [
            "Pod plain/a ErrorUpdatingResource: annotation k8s.ovn.org/open-default-ports is malformed: protocol \"quic\" is none of \
             tcp, udp, sctp, icmp, icmpv6"
        ]
    );
}

/// H013: a freed address rests while others are free.
#[test]
fn h013_addresses_are_given_out_in_turn() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.layer2("demo/db", &["10.0.0.0/24"]);
    world.pod("demo/a", "n1");
    world.delete(Kind::Pod, "demo/a");
    world.pod("demo/b", "n1");
    assert_eq!(world.address("demo/b", "demo/db"), "10.0.0.4/24");
}

/// H014, B017: what is excluded is never given, also where it is written with host bits.
#[test]
fn h014_excluded_subnets() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    let flat = json!({"topology": "Layer2", "role": "Primary", "subnets": ["10.0.0.0/24"], "excludeSubnets": ["10.0.0.7/26"]});
    network(&mut world, "demo/db", flat);
    world.pod("demo/a", "n1");
    assert_eq!(world.address("demo/a", "demo/db"), "10.0.0.64/24");
}

fn asks(selection: Value) -> Value {
    json!({"v1.multus-cni.io/default-network": json!([selection]).to_string()})
}

/// H016, H019, H020: an address or a MAC that somebody has is refused.
#[test]
fn h016_h019_h020_what_somebody_has_is_refused() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.layer2("demo/db", &["10.0.0.0/24"]);
    let static_ip = || {
        asks(
            json!({"name": "default", "namespace": "causeway", "ips": ["10.0.0.9/24"], "mac": "02:00:00:00:00:07"}),
        )
    };
    world.pod_with("demo/first", "n1", static_ip());
    world.pod_with("demo/second", "n1", static_ip());
    world.pod_with("demo/mac", "n1", asks(json!({"name": "default", "mac": "02:00:00:00:00:07"})));
    world.pod_with("demo/gateway", "n1", asks(json!({"name": "default", "mac": "0a:58:0a:00:00:01"})));
    world.pod_with("demo/router", "n1", asks(json!({"name": "default", "ips": ["10.0.0.1"]})));
    let first = world.networks("demo/first")["demo/db"].clone();
    assert_eq!(
        (&first["ip_address"], &first["mac_address"]),
        (&json!("10.0.0.9/24"), &json!("02:00:00:00:00:07"))
    );
    let pods: Vec<&String> = world.said.iter().filter(|text| text.starts_with("Pod ")).collect();
    assert_eq!(
        pods,
        [
            "Pod demo/second ErrorAllocatingPod: network demo_db: address 10.0.0.9 is already in use by pod demo/first: provided IP is already allocated, choose another one",
            "Pod demo/mac ErrorAllocatingPod: network demo_db: MAC address already in use: 02:00:00:00:00:07 belongs to pod demo/first",
            "Pod demo/gateway ErrorAllocatingPod: network demo_db: MAC address already in use: 0a:58:0a:00:00:01 belongs to the network itself",
            "Pod demo/router ErrorAllocatingPod: network demo_db: address 10.0.0.1 is kept for the platform or excluded: choose another one",
        ]
    );
    for pod in ["second", "mac", "gateway", "router"] {
        assert_eq!(world.networks(&format!("demo/{pod}")), Value::Null, "{pod} is not wired");
    }
}

/// H017: each reason against a static address has its own words.
#[test]
fn h017_where_static_addresses_cannot_be() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("routed");
    world.layer3("routed/net", "203.203.0.0/16", 24);
    world.namespace("plain", json!({}));
    let secondary =
        json!({"topology": "Layer2", "layer2": {"role": "Secondary", "subnets": ["10.0.0.0/24"]}});
    network(&mut world, "plain/second", secondary);
    world.pod_with("routed/a", "n1", asks(json!({"name": "default", "ips": ["203.203.0.9"]})));
    world.pod_with("plain/a", "n1", asks(json!({"name": "default", "ips": ["10.244.0.9"]})));
    let selection = json!([{"name": "second", "ips": ["10.0.0.9/24"]}]).to_string();
    world.pod_with("plain/b", "n1", json!({"k8s.v1.cni.cncf.io/networks": selection}));
    world.pod_with("plain/c", "n1", asks(json!({"name": "other"})));
    let pods = world.said.iter().filter(|text| text.starts_with("Pod "));
    let texts: Vec<&str> = pods.map(|text| text.split_once(": ").unwrap().1).collect();
    assert_eq!(
        texts,
        [
            "static addresses need a primary Layer2 network, and network routed_net is Layer3: remove ips from v1.multus-cni.io/default-network",
            "the cluster's default network gives out addresses itself: remove ips from v1.multus-cni.io/default-network",
            "secondary network plain_second gives out addresses itself: remove ips from k8s.v1.cni.cncf.io/networks",
            "annotation v1.multus-cni.io/default-network is malformed: the network is called \"default\", not \"other\"",
        ]
    );
    let mut off = ipv4();
    off.features.preconfigured_addresses = false;
    let mut world = World::new(off, &["n1"]);
    world.tenant("demo");
    world.layer2("demo/db", &["10.0.0.0/24"]);
    world.pod_with("demo/a", "n1", asks(json!({"name": "default", "ips": ["10.0.0.9"]})));
    assert!(world.said[0].contains("--enable-preconfigured-udn-addresses=false"), "{:?}", world.said);
}

/// H022, H023: gateways that the network chooses.
#[test]
fn h022_h023_gateways_that_are_chosen() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("a");
    world.tenant("b");
    let layer2 = |extra: Value| {
        let mut block = json!({"role": "Primary", "subnets": ["10.0.0.0/24"]});
        block.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"topology": "Layer2", "layer2": block})
    };
    network(&mut world, "a/net", layer2(json!({"defaultGatewayIPs": ["10.0.0.2"]})));
    network(&mut world, "b/net", layer2(json!({"infrastructureSubnets": ["10.0.0.8/30"]})));
    world.pod("a/pod", "n1");
    world.pod("b/pod", "n1");
    let seen = |pod: &str, nad: &str| {
        let entry = world.networks(pod)[nad].clone();
        (entry["gateway_ip"].clone(), entry["ip_address"].clone())
    };
    assert_eq!(seen("a/pod", "a/net"), (json!("10.0.0.2"), json!("10.0.0.3/24")));
    assert_eq!(seen("b/pod", "b/net"), (json!("10.0.0.8"), json!("10.0.0.1/24")));
    for number in 0..20 {
        world.pod(&format!("b/more-{number}"), "n1");
    }
    let inside = |number: u32| {
        let address = world.address(&format!("b/more-{number}"), "b/net");
        ["10.0.0.8/", "10.0.0.9/", "10.0.0.10/", "10.0.0.11/"]
            .iter()
            .any(|taken| address.as_str().unwrap().starts_with(taken))
    };
    assert!(!(0..20).any(inside), "pods never get infrastructure addresses");
}

/// H025, H026, H037: a restart takes up everything before it gives out anything; a finished pod holds nothing against a
/// running one; a platform id that a pod has stays with it and goes to no other.
#[test]
fn h025_h026_h037_restart_takes_up_what_pods_have() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.layer2("demo/db", &["10.0.0.0/24"]);
    let old = json!({"demo/db": {"ip_addresses": ["10.0.0.3/24"], "mac_address": "0a:58:0a:00:00:03", "tunnel_id": 5, "role": "primary"},
                     "default": {"ip_addresses": ["10.244.0.3/24"], "mac_address": "0a:58:0a:f4:00:03", "role": "infrastructure-locked"}});
    let annotated = |value: &Value| json!({"k8s.ovn.org/pod-networks": value.to_string()});
    world.paused = true;
    world.pod_with("demo/finished", "n1", annotated(&old));
    world.change(Kind::Pod, "demo/finished", &json!({"status": {"phase": "Succeeded"}}));
    world.pod_with("demo/running", "n1", annotated(&old));
    world.pod("demo/aaa-new", "n1");
    world.held.clear();
    world.paused = false;
    world.restart(|_| {});
    assert_eq!(world.address("demo/running", "demo/db"), "10.0.0.3/24");
    assert_eq!(world.address("demo/aaa-new", "demo/db"), "10.0.0.4/24");
    assert_eq!(world.writes, ["pods demo/aaa-new networks"]);
    world.delete(Kind::Pod, "demo/running");
    world.pod("demo/next", "n1");
    assert_eq!(world.networks("demo/next")["demo/db"]["tunnel_id"], 11);
}

/// H028: pods that use the node's network, or have no node, get nothing.
#[test]
fn h028_pods_that_are_not_ours() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.namespace("plain", json!({}));
    world.put(json!({"kind": "Pod", "metadata": {"namespace": "plain", "name": "host"}, "spec": {"nodeName": "n1", "hostNetwork": true}}));
    world.put(json!({"kind": "Pod", "metadata": {"namespace": "plain", "name": "nowhere"}, "spec": {}}));
    assert_eq!(world.networks("plain/host"), Value::Null);
    assert_eq!(world.networks("plain/nowhere"), Value::Null);
    world.change(Kind::Pod, "plain/nowhere", &json!({"spec": {"nodeName": "n1"}}));
    assert_eq!(world.address("plain/nowhere", "default"), "10.244.0.3/24");
}

/// H038: an annotation that contradicts itself is the problem of one pod.
#[test]
fn h038_a_broken_annotation_stops_nobody_else() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.namespace("plain", json!({}));
    let broken = json!({"default": {"ip_addresses": ["10.244.0.3/24"], "ip_address": "10.244.0.4/24", "mac_address": "0a:58:0a:f4:00:03"}});
    world.pod_with("plain/broken", "n1", json!({"k8s.ovn.org/pod-networks": broken.to_string()}));
    world.pod("plain/fine", "n1");
    assert_eq!(world.address("plain/fine", "default"), "10.244.0.3/24");
    assert_eq!(
        world.said,
        [
            "Pod plain/broken ErrorAllocatingPod: annotation k8s.ovn.org/pod-networks is malformed: default: ip_address and its list disagree"
        ]
    );
}

/// A pod of the same name is another pod: it gets addresses of its own.
#[test]
fn a_pod_that_comes_back_is_another_one() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.namespace("plain", json!({}));
    world.pod("plain/web-0", "n1");
    world.pod("plain/web-0", "n1");
    assert_eq!(world.address("plain/web-0", "default"), "10.244.0.4/24");
    world.change(Kind::Pod, "plain/web-0", &json!({"status": {"phase": "Failed"}}));
    world.pod("plain/other", "n1");
    assert_eq!(world.address("plain/other", "default"), "10.244.0.5/24");
}

/// Two nodes have different parts of the default network; a node beyond the last part waits, and its pods with it.
#[test]
fn a_node_without_a_part_keeps_its_pods_waiting() {
    let mut world = World::new(config(&[("10.244.0.0/24", 25)], &["10.96.0.0/16"]), &["n1", "n2", "n3"]);
    world.namespace("plain", json!({}));
    for node in ["n1", "n2", "n3"] {
        world.pod(&format!("plain/{node}"), node);
    }
    assert_eq!(world.address("plain/n2", "default"), "10.244.0.131/25");
    assert_eq!(world.networks("plain/n3"), Value::Null);
    world.delete(Kind::Node, "n1");
    world.delete(Kind::Node, "n3");
    world.node("n3");
    assert_eq!(world.address("plain/n3", "default"), "10.244.0.4/25", "n1's pod still has .3");
}

/// What is known of networks by what has changed, as metrics know it.
type Known = BTreeMap<NetworkId, Option<AddressUse>>;

fn used(world: &mut World, known: &mut Known, network: &str) -> Option<(u64, u64)> {
    known.extend(world.manager.moved_addresses());
    let mut all = known.values().flatten();
    all.find(|line| line.network == network).map(|line| (line.used, line.total))
}

/// How full networks are: a network as a whole, and one with a part for each node. Only what has changed is counted anew.
#[test]
fn addresses_in_use_are_counted() {
    let mut world = World::new(ipv4(), &["n1", "n2"]);
    let mut known = Known::new();
    world.tenant("flat");
    world.layer2("flat/net", &["10.0.0.0/28"]);
    world.tenant("wide");
    world.layer3("wide/net", "10.50.0.0/16", 24);
    let mut used = |world: &mut World, network: &str| used(world, &mut known, network);
    assert_eq!(used(&mut world, "flat_net"), None, "nobody has drawn from it");
    world.pod("flat/a", "n1");
    world.pod("flat/b", "n2");
    world.pod("wide/a", "n1");
    // Not the network's address, the broadcast address, the gateway, the management port.
    assert_eq!(used(&mut world, "flat_net"), Some((2, 12)));
    assert_eq!(used(&mut world, "wide_net"), Some((1, 2 * 252)));
    let default = used(&mut world, "default").map(|(used, _)| used);
    assert_eq!(default, Some(3), "each pod has a locked address there");
    world.delete(Kind::Pod, "flat/a");
    assert_eq!(used(&mut world, "flat_net"), Some((1, 12)));
    assert!(world.manager.moved_addresses().is_empty(), "nothing has happened since");
    world.node("n3");
    assert_eq!(used(&mut world, "wide_net"), Some((1, 3 * 252)), "one more part");
    world.delete(Kind::Pod, "flat/b");
    world.delete(Kind::UserDefinedNetwork, "flat/net");
    assert_eq!(used(&mut world, "flat_net"), None);
    world.pod("wide/b", "n2");
    let moved: Vec<Option<String>> =
        world.manager.moved_addresses().into_values().map(|line| line.map(|line| line.network)).collect();
    assert_eq!(moved, [Some("default".to_owned()), Some("wide_net".to_owned())]);
}

/// A kubelet can make mirror pods in every namespace; only an administrator lets them onto a tenant's network.
#[test]
fn static_pods_need_the_administrators_word() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("blue");
    world.layer3("blue/net", "10.20.0.0/16", 24);
    let mirror = json!({"kubernetes.io/config.mirror": "hash"});
    world.pod_with("blue/mirror", "n1", mirror.clone());
    assert_eq!(world.networks("blue/mirror"), Value::Null);
    let refused =
        world.said.iter().find(|text| text.starts_with("Pod blue/mirror ErrorAllocatingPod: static pods"));
    assert!(refused.is_some_and(|text| text.contains("k8s.ovn.org/allow-static-pods")), "{:?}", world.said);
    let labels = json!({"k8s.ovn.org/primary-user-defined-network": "", "k8s.ovn.org/allow-static-pods": ""});
    world.namespace("blue", labels);
    assert_eq!(world.address("blue/mirror", "blue/net"), "10.20.0.3/24");
    // Where the default network is the pods' own, everything is as ever.
    world.namespace("plain", json!({}));
    world.pod_with("plain/mirror", "n1", mirror);
    assert_eq!(world.address("plain/mirror", "default"), "10.244.0.4/24");
}
