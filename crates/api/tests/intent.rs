//! What manifests mean, and what speaks against them. Ids are those of the case catalogues.

#![allow(clippy::unwrap_used, reason = "a helper of a test may stop it")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use causeway_api::annotations::keys;
use causeway_api::crd::{ClusterUserDefinedNetworkSpec, Role, Topology, UserDefinedNetworkSpec};
use causeway_api::intent::{
    ClusterConfig, Connect, Manifest, NameClash, Named, Network, PodSubnet, Problem, Reason, Selection,
    VrfClaim, changes, name_clashes, vrf_clashes,
};
use causeway_api::nad::{Attachment, read};
use causeway_types::{
    Cidr, ConnectName, NamespaceName, NetworkId, NetworkName, NodeId, NodeName, ObjectName, VrfName,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use support::{Kind, judge_one};

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

fn cluster() -> ClusterConfig {
    ClusterConfig::new(
        vec![cidr("10.244.0.0/16"), cidr("fd00:10:244::/48")],
        vec![cidr("10.96.0.0/16"), cidr("fd00:10:96::/112")],
        NodeId::new(1001).unwrap(),
    )
}

fn udn(spec: Value) -> Result<Network, Vec<Problem>> {
    let spec: UserDefinedNetworkSpec = serde_json::from_value(spec).unwrap();
    Network::of_udn(&NamespaceName::new("demo").unwrap(), &ObjectName::new("db").unwrap(), &spec)
}

fn cudn(spec: Value) -> Network {
    let spec: ClusterUserDefinedNetworkSpec = serde_json::from_value(spec).unwrap();
    Network::of_cluster_udn(&ObjectName::new("db").unwrap(), &spec).unwrap()
}

fn layer2(settings: Value) -> Network {
    udn(json!({"topology": "Layer2", "layer2": settings})).unwrap()
}

fn layer3(settings: Value) -> Network {
    udn(json!({"topology": "Layer3", "layer3": settings})).unwrap()
}

/// The first thing that speaks against the network in this cluster.
fn first(network: &Network) -> (Reason, String) {
    let problem = network.problems(&cluster()).into_iter().next().expect("a problem");
    (problem.reason, problem.message)
}

/// udn-cases B001, B013: the forms of one network mean the same.
#[test]
fn all_forms_mean_the_same() {
    let blocks = udn(json!({"topology": "Layer3", "layer3": {"role": "Primary", "mtu": 1400,
        "subnets": [{"cidr": "10.128.0.0/16", "hostSubnet": 24}], "joinSubnets": ["100.70.0.0/16"]}}))
    .unwrap();
    let flat = json!({"topology": "Layer3", "role": "Primary", "mtu": 1400, "subnets": ["10.128.0.0/16/24"],
                      "joinSubnets": ["100.70.0.0/16"]});
    assert_eq!(udn(flat.clone()).unwrap(), blocks);
    assert_eq!(blocks.subnets, [PodSubnet { cidr: cidr("10.128.0.0/16"), host_prefix: Some(24) }]);
    let shared = Network { name: NetworkName::new("cluster_udn_db").unwrap(), ..blocks };
    assert_eq!(cudn(json!({"namespaceSelector": {}, "template": flat})), shared);
    assert_eq!(cudn(json!({"namespaceSelector": {}, "template": {"spec": flat}})), shared);
    assert_eq!(
        cudn(json!({"namespaceSelector": {}, "network": {"topology": "Layer3", "layer3": {"role": "Primary",
            "mtu": 1400, "subnets": [{"cidr": "10.128.0.0/16", "hostSubnet": 24}], "joinSubnets": ["100.70.0.0/16"]}}})),
        shared
    );
}

/// The flat form has no field for it.
#[test]
fn a_flat_localnet_network_is_called_like_its_physical_network() {
    let network =
        udn(json!({"topology": "Localnet", "role": "Secondary", "subnets": ["10.0.0.0/24"]})).unwrap();
    assert_eq!(network.effective_physical_network(), Some("demo_db"));
    assert_eq!(
        layer2(json!({"role": "Secondary", "subnets": ["10.0.0.0/24"]})).effective_physical_network(),
        None
    );
}

/// udn-cases B017: host bits of an exclude are ignored, as the published example needs it.
#[test]
fn excludes_are_masked() {
    let network = udn(json!({"topology": "Layer2", "role": "Primary", "subnets": ["10.0.0.0/24"],
                             "excludeSubnets": ["10.0.0.100/26"]}))
    .unwrap();
    assert_eq!(network.exclude_subnets, [cidr("10.0.0.64/26")]);
    assert_eq!(network.problems(&cluster()), []);
}

/// A connection with a selector, one connect subnet and these fields.
fn connect(fields: &Value) -> Connect {
    let mut spec = json!({"connectSubnets": [{"cidr": "192.168.0.0/16", "networkPrefix": 24}], "networkSelectors": [
        {"networkSelectionType": "ClusterUserDefinedNetworks", "clusterUserDefinedNetworkSelector":
         {"networkSelector": {"matchLabels": {"a": "b"}}}}]});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    Connect::of(&ConnectName::new("blue").unwrap(), &serde_json::from_value(spec).unwrap()).unwrap()
}

#[test]
fn both_spellings_of_a_connection_mean_the_same() {
    let proposed = connect(&json!({"connectivityEnabled": ["ClusterIPServiceNetwork"]}));
    assert_eq!(connect(&json!({"connectivity": ["ServiceNetwork"]})), proposed);
    assert_eq!((proposed.pods, proposed.services), (false, true));
    assert!(matches!(proposed.selections[..], [Selection::ClusterUserDefinedNetworks(_)]));
}

/// What zones report is about what they render from, and nothing else.
#[test]
fn the_hash_of_a_connection_is_about_what_zones_render() {
    let annotations = |texts: &[(&str, &str)]| -> BTreeMap<String, String> {
        texts.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
    };
    let pods = connect(&json!({"connectivity": ["PodNetwork"]}));
    let hash = pods.report_hash(&annotations(&[(keys::CONNECT_TOPOLOGY, "transit")]));
    assert_eq!(hash, "7dbddaf7eef21eefccdfd0cd90dffe13");
    let same = [
        (connect(&json!({"connectivityEnabled": ["PodNetwork"]})), ("theirs", "x")),
        (connect(&json!({"connectivity": ["PodNetwork"], "networkSelectors": []})), (keys::NODE_ID, "7")),
    ];
    for (connect, other) in same {
        assert_eq!(connect.report_hash(&annotations(&[other, (keys::CONNECT_TOPOLOGY, "transit")])), hash);
    }
    let mut hashes: BTreeSet<String> = keys::OF_CONNECT
        .iter()
        .flat_map(|key| [annotations(&[(key, "")]), annotations(&[(key, "x")])])
        .map(|annotations| pods.report_hash(&annotations))
        .collect();
    let none = annotations(&[]);
    hashes.insert(pods.report_hash(&none));
    hashes.insert(connect(&json!({"connectivity": ["ServiceNetwork"]})).report_hash(&none));
    hashes.insert(connect(&json!({"connectivity": ["ServiceNetwork", "PodNetwork"]})).report_hash(&none));
    let subnets = |cidr: &str| {
        let subnets = json!([{"cidr": cidr, "networkPrefix": 24}]);
        connect(&json!({"connectivity": ["PodNetwork"], "connectSubnets": subnets}))
    };
    hashes.insert(subnets("192.168.0.0/17").report_hash(&none));
    assert_eq!(hashes.len(), 12);
}

#[test]
fn a_selector_with_an_unknown_operator_is_refused() {
    let spec = json!({"connectSubnets": [{"cidr": "192.168.0.0/16", "networkPrefix": 24}], "connectivity": ["PodNetwork"],
        "networkSelectors": [{"networkSelectionType": "ClusterUserDefinedNetworks", "clusterUserDefinedNetworkSelector":
        {"networkSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}}]});
    let problems =
        Connect::of(&ConnectName::new("blue").unwrap(), &serde_json::from_value(spec).unwrap()).unwrap_err();
    assert!(problems[0].message.starts_with("the label selector cannot be read"), "{problems:?}");
}

/// udn-cases C020, C022, C023, C025 and the rest of what the cluster has taken.
#[test]
fn networks_keep_clear_of_the_cluster() {
    let overlaps = |network: &Network, message: &str| {
        assert_eq!(first(network), (Reason::OverlappingSubnets, message.to_owned()));
    };
    overlaps(
        &layer2(json!({"role": "Primary", "subnets": ["10.0.0.0/24"], "joinSubnets": ["100.64.10.0/22"]})),
        "user defined join subnet \"100.64.8.0/22\" overlaps built-in join subnet \"100.64.0.0/16\"",
    );
    overlaps(
        &layer3(json!({"role": "Primary", "subnets": [{"cidr": "10.244.128.0/17"}]})),
        "user defined subnet \"10.244.128.0/17\" overlaps cluster subnet \"10.244.0.0/16\"",
    );
    overlaps(
        &layer2(json!({"role": "Secondary", "subnets": ["10.96.5.0/24"]})),
        "user defined subnet \"10.96.5.0/24\" overlaps service subnet \"10.96.0.0/16\"",
    );
    overlaps(
        &layer2(json!({"role": "Primary", "subnets": ["169.254.1.0/24"]})),
        "user defined subnet \"169.254.1.0/24\" overlaps masquerade subnet \"169.254.0.0/17\"",
    );
    overlaps(
        &layer3(json!({"role": "Primary", "subnets": [{"cidr": "100.88.0.0/16"}]})),
        "user defined subnet \"100.88.0.0/16\" overlaps transit switch subnet \"100.88.0.0/16\"",
    );
    overlaps(
        &layer2(json!({"role": "Primary", "subnets": ["100.65.4.0/24"]})),
        "user defined join subnet \"100.65.0.0/16\" overlaps user defined subnet \"100.65.4.0/24\"",
    );
    overlaps(
        &layer2(json!({"role": "Primary", "subnets": ["fd00:10:96::/64"]})),
        "user defined subnet \"fd00:10:96::/64\" overlaps service subnet \"fd00:10:96::/112\"",
    );
}

/// udn-cases C026: a Secondary network has no join subnet. A localnet network is somebody else's.
#[test]
fn overlaps_that_do_not_matter_are_accepted() {
    let cluster = cluster();
    let secondary = layer2(json!({"role": "Secondary", "subnets": ["100.65.0.0/24"]}));
    assert_eq!(secondary.problems(&cluster), []);
    let localnet = cudn(json!({"namespaceSelector": {}, "network": {"topology": "Localnet", "localnet":
        {"role": "Secondary", "physicalNetworkName": "p", "subnets": ["10.96.0.0/24"]}}}));
    assert_eq!(localnet.problems(&cluster), []);
    let moved = layer2(json!({"role": "Primary", "subnets": ["100.88.0.0/16"]}));
    assert_eq!(moved.problems(&cluster), []);
}

/// A subnet that nothing is given out of is the network's all the same.
#[test]
fn what_is_excluded_still_overlaps() {
    let excluded =
        layer2(json!({"role": "Secondary", "subnets": ["10.96.0.0/24"], "excludeSubnets": ["10.96.0.0/24"]}));
    let found = excluded.overlap(&cluster()).unwrap();
    assert_eq!(
        found.message,
        "user defined subnet \"10.96.0.0/24\" overlaps service subnet \"10.96.0.0/16\""
    );
}

/// Addresses with a meaning of their own, and those of nodes, are no pod's.
#[test]
fn special_addresses_are_refused_with_words() {
    for subnet in [
        "127.0.0.0/16",
        "224.0.0.0/8",
        "240.1.0.0/16",
        "169.254.192.0/20",
        "0.0.0.0/8",
        "255.255.0.0/16",
        "ff00::/16",
        "fe80::/64",
        "::/64",
        "febf::/64",
    ] {
        let problems = layer2(json!({"role": "Primary", "subnets": [subnet]})).problems(&cluster());
        let told = problems
            .iter()
            .any(|problem| problem.message.contains("pods cannot have them, use another subnet"));
        assert!(told, "{subnet}: {problems:?}");
    }
    let plain =
        layer3(json!({"role": "Primary", "subnets": [{"cidr": "192.0.0.0/16"}, {"cidr": "2001:db8::/48"}]}));
    assert_eq!(plain.problems(&cluster()), []);
    let at = |address: &str| plain.underlay_overlap([(address.parse().unwrap(), &"n1")].into_iter());
    assert_eq!(at("192.1.0.1"), None);
    assert_eq!(
        at("192.0.4.1").unwrap().message,
        "subnet 192.0.0.0/16 has the address 192.0.4.1 of node n1 itself: use another subnet"
    );
    assert!(at("2001:db8::7").is_some());
}

#[test]
fn sixteen_subnets_are_enough() {
    let subnets = |count: usize| -> Vec<Value> {
        (0..count).map(|number| json!({"cidr": format!("10.{}.0.0/16", 100 + number)})).collect()
    };
    let network = |count| layer3(json!({"role": "Primary", "subnets": subnets(count)}));
    assert_eq!(network(16).problems(&cluster()), []);
    let problems = network(17).problems(&cluster());
    assert!(
        problems[0].message.contains("17 subnets") && problems[0].message.contains("16 at most"),
        "{problems:?}"
    );
}

/// udn-cases J002, J026.
#[test]
fn primary_networks_of_a_namespace_are_apart() {
    let first = layer2(json!({"role": "Primary", "subnets": ["10.0.0.0/24"]}));
    let apart = layer3(json!({"role": "Primary", "subnets": [{"cidr": "11.0.0.0/16"}]}));
    let grown =
        layer3(json!({"role": "Primary", "subnets": [{"cidr": "11.0.0.0/16"}, {"cidr": "10.0.0.0/20"}]}));
    assert_eq!(apart.sibling_overlap([&first]), None);
    let message = "subnet \"10.0.0.0/20\" overlaps subnet \"10.0.0.0/24\" of network demo_db, which serves the same namespace";
    assert_eq!(grown.sibling_overlap([&first]), Some(Problem::new(Reason::OverlappingSubnets, message)));
}

/// udn-cases C028.
#[test]
fn excludes_lie_inside() {
    let network = cudn(
        json!({"namespaceSelector": {}, "network": {"topology": "Localnet", "localnet": {"role": "Secondary",
        "physicalNetworkName": "p", "subnets": ["192.168.0.0/16"], "excludeSubnets": ["192.200.0.0/30"]}}}),
    );
    let message = "the provided network subnets do not contain excluded subnets 192.200.0.0/30";
    assert_eq!(first(&network), (Reason::InvalidSpec, message.into()));
}

/// udn-cases A052, F028.
#[test]
fn join_subnets_have_room_for_every_node() {
    let network =
        layer2(json!({"role": "Primary", "subnets": ["10.0.0.0/24"], "joinSubnets": ["100.70.0.0/24"]}));
    let small = ClusterConfig { highest_node: NodeId::new(254).unwrap(), ..cluster() };
    assert_eq!(network.problems(&small), []);
    let message = "join subnet too small for node ids: 100.70.0.0/24 has no address for node id 300; use a larger joinSubnets entry";
    let large = ClusterConfig { highest_node: NodeId::new(300).unwrap(), ..cluster() };
    assert_eq!(network.problems(&large), [Problem::new(Reason::JoinSubnetTooSmall, message)]);
}

#[test]
fn useless_subnets_are_refused() {
    let useless = |network: Network| assert_eq!(first(&network).0, Reason::UnusableSubnet, "{network:?}");
    useless(layer3(json!({"role": "Primary", "subnets": [{"cidr": "10.0.0.0/24", "hostSubnet": 30}]})));
    useless(layer3(json!({"role": "Primary", "subnets": [{"cidr": "10.0.0.0/24", "hostSubnet": 31}]})));
    useless(layer3(json!({"role": "Primary", "subnets": [{"cidr": "10.0.0.0/24"}]})));
    useless(layer3(json!({"role": "Primary", "subnets": [{"cidr": "fd05::/64"}]})));
    useless(layer2(json!({"role": "Primary", "subnets": ["10.0.0.0/30"]})));
    useless(layer2(json!({"role": "Secondary", "subnets": ["10.0.0.0/31"]})));
    let usable = |network: Network| assert_eq!(network.problems(&cluster()), [], "{network:?}");
    usable(layer3(json!({"role": "Primary", "subnets": [{"cidr": "10.0.0.0/24", "hostSubnet": 29}]})));
    usable(layer2(json!({"role": "Primary", "subnets": ["10.0.0.0/29"]})));
    usable(layer2(json!({"role": "Secondary", "subnets": ["10.0.0.0/30"]})));
}

#[test]
fn the_clusters_mtu_counts_where_none_is_written() {
    let network = layer2(json!({"role": "Primary", "subnets": ["fd05::/64"]}));
    let small = ClusterConfig { mtu: 1200, ..cluster() };
    let message = "MTU should be greater than or equal to 1280 when IPv6 subnet is used: the cluster's MTU is 1200; write a larger mtu";
    assert_eq!(network.problems(&small), [Problem::new(Reason::InvalidMtu, message)]);
    assert_eq!(Network { mtu: Some(1280), ..network }.problems(&small), []);
}

/// udn-cases C019.
#[test]
fn persistent_addresses_can_be_switched_off() {
    let network =
        layer2(json!({"role": "Primary", "subnets": ["10.0.0.0/24"], "ipam": {"lifecycle": "Persistent"}}));
    let off = ClusterConfig { persistent_ips: false, ..cluster() };
    let message = "allowPersistentIPs is set but persistentIPs is Disabled";
    assert_eq!(network.problems(&off), [Problem::new(Reason::PersistentIpsDisabled, message)]);
}

/// udn-cases C016, C017: the transit subnet moves out of the way.
#[test]
fn transit_subnets_move_out_of_the_way() {
    let transit = |settings: Value| layer2(settings).effective_transit_subnets(&cluster());
    assert_eq!(
        transit(json!({"role": "Primary", "subnets": ["100.88.0.0/15", "fd97::/63"]})),
        [cidr("100.90.0.0/16"), cidr("fd97:0:0:2::/64")]
    );
    assert_eq!(
        transit(
            json!({"role": "Primary", "subnets": ["10.12.0.0/16", "fd05::/64"], "joinSubnets": ["100.88.0.0/17", "fd97::/65"]})
        ),
        [cidr("100.89.0.0/16"), cidr("fd97:0:0:1::/64")]
    );
    assert_eq!(
        transit(json!({"role": "Primary", "subnets": ["100.88.0.0/15"], "joinSubnets": ["100.90.0.0/17"]})),
        [cidr("100.91.0.0/16")]
    );
    assert_eq!(transit(json!({"role": "Primary", "subnets": ["255.255.0.0/16"]})), [cidr("100.88.0.0/16")]);
    assert_eq!(transit(json!({"role": "Secondary", "subnets": ["10.0.0.0/16"]})), []);
}

/// At the very end of the address space there is no next block.
#[test]
fn transit_subnets_stop_at_the_end() {
    let network = layer2(json!({"role": "Primary", "subnets": ["255.255.0.0/16"]}));
    let last = ClusterConfig { transit_subnets: vec![cidr("255.255.0.0/16")], ..cluster() };
    assert_eq!(network.effective_transit_subnets(&last), [cidr("255.255.0.0/16")]);
}

/// udn-cases C035, C038. The generated name is `udn-<id>-vrf`.
#[test]
fn vrf_names_are_chosen_and_checked() {
    let network = |name: &str, vrf: Option<&str>| {
        let spec: ClusterUserDefinedNetworkSpec = serde_json::from_value(
            json!({"namespaceSelector": {}, "vrf": vrf, "template": {"topology": "Layer2", "role": "Primary", "subnets": ["10.0.0.0/24"]}}),
        )
        .unwrap();
        Network::of_cluster_udn(&ObjectName::new(name).unwrap(), &spec).unwrap()
    };
    let vrf = |name: &str, vrf: Option<&str>| {
        network(name, vrf).vrf_name(NetworkId::new(7).unwrap()).unwrap().to_string()
    };
    assert_eq!(vrf("blue", None), "blue");
    assert_eq!(vrf("blue", Some("red")), "red");
    assert_eq!(vrf("a-name-of-16-chr", None), "udn-7-vrf");
    assert_eq!(vrf("default", None), "udn-7-vrf");
    for reserved in ["eth0", "br-int"] {
        assert_eq!(first(&network(reserved, None)).0, Reason::InvalidVrfName, "{reserved}");
        assert_eq!(network(reserved, Some("fine")).problems(&cluster()), []);
    }
    for odd in ["vrf-x", "a b", "ovn-k8s-mp0"] {
        assert_eq!(first(&network("blue", Some(odd))).0, Reason::InvalidVrfName, "{odd}");
    }
}

/// udn-cases C037.
#[test]
fn of_equal_vrf_names_the_oldest_network_has_it() {
    let claim = |network: &str, created, vrf: &str| VrfClaim {
        network: NetworkName::new(network).unwrap(),
        created,
        vrf: VrfName::new(vrf).unwrap(),
    };
    let claims = [
        claim("cluster_udn_red", 20, "red"),
        claim("cluster_udn_x", 10, "red"),
        claim("cluster_udn_y", 5, "blue"),
        claim("cluster_udn_z", 20, "red"),
    ];
    let clashes = vrf_clashes(&claims);
    let pairs: Vec<(&str, &str)> = clashes.iter().map(|c| (c.younger.as_str(), c.older.as_str())).collect();
    assert_eq!(pairs, [("cluster_udn_red", "cluster_udn_x"), ("cluster_udn_z", "cluster_udn_x")]);
    assert_eq!(clashes[0].problem.reason, Reason::VrfNameConflict);
    assert_eq!(
        clashes[0].problem.message,
        "VRF name \"red\" belongs to network cluster_udn_x: choose another one in the field vrf"
    );
}

/// Networks whose name ends in `flat` have no ports on nodes.
fn named(names: &[(&str, i64)]) -> Vec<Named> {
    let one = |(name, created): &(&str, i64)| Named {
        network: NetworkName::new(*name).unwrap(),
        created: *created,
        node_ports: !name.ends_with("flat"),
    };
    names.iter().map(one).collect()
}

fn clashing(names: &[(&str, i64)], nodes: &[&str]) -> Vec<(String, String)> {
    let nodes: BTreeSet<NodeName> = nodes.iter().map(|name| NodeName::new(*name).unwrap()).collect();
    let pair = |clash: NameClash| {
        assert_eq!(clash.problem.reason, Reason::NameConflict);
        (clash.younger.to_string(), clash.older.to_string())
    };
    name_clashes(&named(names), &nodes).into_iter().map(pair).collect()
}

/// udn-cases C032 and the two ways in which different names meet in OVN.
#[test]
fn of_equal_ovn_names_the_oldest_network_stays() {
    let pair = |younger: &str, older: &str| (younger.to_owned(), older.to_owned());
    assert_eq!(clashing(&[("t_tenant-blue", 1), ("t-tenant_blue", 2)], &["n"]), []);
    assert_eq!(
        clashing(&[("cluster_udn_a-b", 2), ("cluster_udn_a.b", 1)], &[]),
        [pair("cluster_udn_a-b", "cluster_udn_a.b")]
    );
    let networks = [("ns_a", 1), ("ns_a-b", 2)];
    assert_eq!(clashing(&networks, &["a", "c"]), []);
    assert_eq!(clashing(&networks, &["b-c", "c"]), [pair("ns_a-b", "ns_a")]);
    assert_eq!(clashing(&[("ns_a", 2), ("ns_a-b", 1)], &["b-c", "c"]), [pair("ns_a", "ns_a-b")]);
    assert_eq!(clashing(&networks, &["b-c"]), []);
}

/// A port that serves all nodes is called by its network alone: `a-b` may be network `a` on node `b`.
#[test]
fn a_network_called_like_another_on_a_node() {
    let pair = |younger: &str, older: &str| (younger.to_owned(), older.to_owned());
    let networks = [("ns_a", 1), ("ns_a-flat", 2)];
    assert_eq!(clashing(&networks, &["flat", "x"]), [pair("ns_a-flat", "ns_a")]);
    assert_eq!(clashing(&[("ns_a", 2), ("ns_a-flat", 1)], &["flat"]), [pair("ns_a", "ns_a-flat")]);
    assert_eq!(clashing(&networks, &["flat-x", "x"]), [], "the one without node ports has no node x");
    assert_eq!(clashing(&[("ns_flat", 1), ("ns_flat-b", 2)], &["b", "b-c", "c"]), []);
}

/// udn-cases A041, A043, G022: what may change, on the meaning instead of the text.
#[test]
fn only_primary_layer3_subnets_grow() {
    let network = |subnets: Value| layer3(json!({"role": "Primary", "subnets": subnets}));
    let old = network(json!([{"cidr": "10.0.0.0/16"}]));
    assert_eq!(changes(&old, &network(json!([{"cidr": "10.0.0.0/16"}, {"cidr": "10.1.0.0/16"}]))), []);
    let messages =
        |new: &Network| -> Vec<String> { changes(&old, new).into_iter().map(|p| p.message).collect() };
    assert_eq!(
        messages(&network(json!([{"cidr": "10.1.0.0/16"}]))),
        ["Removing existing subnets is not allowed"]
    );
    assert_eq!(
        messages(&network(json!([{"cidr": "10.1.0.0/16"}, {"cidr": "10.0.0.0/16"}]))),
        ["Existing subnets must keep their position; new ones go to the end of the list"]
    );
    assert_eq!(
        messages(&network(json!([{"cidr": "10.0.0.0/16", "hostSubnet": 24}]))),
        ["hostSubnet is immutable"]
    );
    let other = layer2(json!({"role": "Primary", "subnets": ["10.0.0.0/16"]}));
    assert_eq!(messages(&other), ["Topology is immutable"]);
}

/// More pairs than the API server compares.
#[test]
fn overlaps_in_long_lists_are_found() {
    let mut subnets: Vec<Value> = (0..399)
        .map(|i| json!({"cidr": format!("10.{}.{}.0/24", i / 256, i % 256), "hostSubnet": 28}))
        .collect();
    subnets.push(json!({"cidr": "10.0.7.128/25", "hostSubnet": 28}));
    let problems =
        udn(json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": subnets}})).unwrap_err();
    let message = "Subnets must not overlap or contain each other: 10.0.7.0/24 and 10.0.7.128/25";
    assert_eq!(problems, [Problem::new(Reason::OverlappingSubnets, message)]);
}

fn documents(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    text.split("\n---\n").map(str::to_owned).collect()
}

fn is_accepted(kind: Kind, text: &str) {
    let schema = kind.schema(&kind.rules());
    let value: Value = serde_yaml::from_str(text).unwrap();
    assert_eq!(judge_one(&schema, &value, None), Vec::<String>::new(), "{text}");
}

fn means_something(text: &str) {
    let name = |meta: Option<&String>| ObjectName::new(meta.unwrap().as_str()).unwrap();
    match Manifest::read(text).unwrap() {
        Manifest::UserDefinedNetwork(udn) => {
            is_accepted(Kind::Udn, text);
            let namespace = NamespaceName::new(udn.metadata.namespace.clone().unwrap()).unwrap();
            let network = Network::of_udn(&namespace, &name(udn.metadata.name.as_ref()), &udn.spec).unwrap();
            assert_eq!(network.problems(&cluster()), []);
        }
        Manifest::ClusterUserDefinedNetwork(cudn) => {
            is_accepted(Kind::Cudn, text);
            let network = Network::of_cluster_udn(&name(cudn.metadata.name.as_ref()), &cudn.spec).unwrap();
            assert_eq!(network.problems(&cluster()), []);
        }
        Manifest::ClusterNetworkConnect(cnc) => {
            is_accepted(Kind::Cnc, text);
            Connect::of(&ConnectName::new(cnc.metadata.name.clone().unwrap()).unwrap(), &cnc.spec).unwrap();
        }
        Manifest::NetworkAttachmentDefinition(nad) => {
            let Attachment::Ours(network) = read("by-hand/l3-network", nad.spec.config.as_deref()) else {
                panic!("{text} is not ours");
            };
            assert_eq!((network.role, network.topology), (Role::Primary, Topology::Layer3));
        }
    }
}

/// Every example is accepted by the schema and means something, also with `apiVersion` left out as published.
#[test]
fn examples_are_accepted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml")
            || path.ends_with("00-namespaces.yaml")
        {
            continue;
        }
        for document in documents(&path) {
            means_something(&document);
            let bare: Vec<&str> = document.lines().filter(|line| !line.starts_with("apiVersion:")).collect();
            means_something(&bare.join("\n"));
            seen += 1;
        }
    }
    assert!(seen >= 9, "only {seen} examples were found");
}

/// A VTEP and the network that names it.
#[test]
fn the_example_of_the_fabric_means_something() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fabric/cudn-evpn.yaml");
    let documents = documents(&file);
    let network = documents.iter().find_map(|text| match Manifest::read(text) {
        Ok(Manifest::ClusterUserDefinedNetwork(cudn)) => {
            Some(Network::of_cluster_udn(&"shop".parse().unwrap(), &cudn.spec).unwrap())
        }
        _ => None,
    });
    let vtep: causeway_api::crd::VTEP = serde_yaml::from_str(&documents[0]).unwrap();
    let named = network.unwrap().evpn().unwrap().vtep.clone();
    assert_eq!(vtep.metadata.name.unwrap(), named);
    assert!(vtep.spec.cidrs.iter().all(|cidr| cidr.parse::<causeway_types::Cidr>().is_ok()));
}

/// What the guide shows is accepted, and it has every annotation that is written by us.
#[test]
fn the_guide_is_true() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let shown: Vec<&str> =
        guide.split("```yaml\n").skip(1).map(|rest| rest.split_once("```").unwrap().0).collect();
    assert_eq!(shown.len(), 3);
    shown.into_iter().for_each(means_something);
    let row = |key: &str, writer: &str| {
        let cell = format!("| `{}` | {writer}", key.trim_start_matches("k8s.ovn.org/"));
        assert!(guide.contains(&cell), "{cell} is missing in docs/api.md");
    };
    keys::BY_CLUSTER_MANAGER.into_iter().for_each(|key| row(key, "cluster manager"));
    keys::BY_NODE.into_iter().for_each(|key| row(key, "node"));
    keys::WRITTEN_ONCE.into_iter().for_each(|key| row(key, "cluster manager, once"));
}

#[test]
fn manifests_that_are_not_ours_are_refused() {
    let problem = |text: &str| Manifest::read(text).unwrap_err().to_string();
    assert!(problem("kind: Pod").contains("kind \"Pod\" is not one of ours"));
    assert!(problem("apiVersion: v2\nkind: UserDefinedNetwork").contains("is none of"));
    assert!(problem("kind: UserDefinedNetwork\nspec: {}").contains("missing field"));
    assert!(Manifest::read_bytes(&[0xff, 0xfe]).is_err());
}

fn any_cidr() -> impl Strategy<Value = Cidr> {
    (any::<u32>(), 0u8..=32)
        .prop_map(|(address, prefix)| Cidr::around(std::net::Ipv4Addr::from(address).into(), prefix).unwrap())
}

proptest! {
    /// The quick search finds an overlap exactly where comparing all pairs does.
    #[test]
    fn overlaps_are_found_like_by_comparing_all(cidrs in prop::collection::vec(any_cidr(), 1..12)) {
        let subnets: Vec<Value> = cidrs.iter().map(|cidr| json!({"cidr": cidr.to_string()})).collect();
        let quick = udn(json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": subnets}}));
        let slow = cidrs.iter().enumerate().any(|(i, a)| cidrs[..i].iter().any(|b| a.overlaps(b)));
        prop_assert_eq!(quick.is_err(), slow);
    }

    #[test]
    fn any_manifest_is_read_or_refused(text in any::<String>(), bytes in any::<Vec<u8>>()) {
        let _ = Manifest::read(&text);
        let _ = Manifest::read_bytes(&bytes);
    }

    /// A network from any flat text is either refused or clean of what it was asked to avoid.
    #[test]
    fn any_flat_network_is_read_or_refused(
        topology in prop::sample::select(vec!["Layer2", "Layer3", "Localnet"]),
        role in prop::sample::select(vec!["Primary", "Secondary"]),
        subnets in prop::collection::vec("[0-9]{1,3}\\.[0-9]{1,3}\\.0\\.0/[0-9]{1,2}(/[0-9]{1,3})?|[a-f0-9:]{1,8}::/[0-9]{1,3}", 0..3),
        join in prop::option::of(prop::collection::vec("100\\.[0-9]{1,3}\\.0\\.0/[0-9]{1,2}", 0..3)),
    ) {
        let mut spec = json!({"topology": topology, "role": role, "subnets": subnets});
        if let Some(join) = join {
            spec["joinSubnets"] = json!(join);
        }
        if let Ok(network) = udn(spec) {
            network.problems(&cluster());
            prop_assert!(network.subnets.len() <= 2);
        }
    }
}
