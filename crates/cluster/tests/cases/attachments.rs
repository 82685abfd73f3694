//! C: attachments of networks, and what speaks against them.

use causeway_record::Kind;
use serde_json::{Value, json};

use crate::world::{World, config, dual, ipv4};

const NAD: Kind = Kind::NetworkAttachmentDefinition;

fn rendered(world: &World, path: &str) -> Value {
    serde_json::from_str(world.object(NAD, path)["spec"]["config"].as_str().unwrap()).unwrap()
}

/// C001, C011, D014: the whole attachment of a primary layer2 network; the finalizer of the object came first.
#[test]
fn c001_c011_d014_layer2_primary() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    let layer2 = json!({"role": "Primary", "subnets": ["10.0.0.0/24"], "mtu": 9000, "ipam": {"lifecycle": "Persistent"}});
    world.udn("demo/db", json!({"topology": "Layer2", "layer2": layer2}));
    let nad = world.object(NAD, "demo/db").clone();
    assert_eq!(
        nad["spec"]["config"],
        concat!(
            r#"{"allowPersistentIPs":true,"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","mtu":9000,"#,
            r#""name":"demo_db","netAttachDefName":"demo/db","role":"primary","subnets":"10.0.0.0/24","topology":"layer2","#,
            r#""transitSubnet":"100.88.0.0/16","type":"ovn-k8s-cni-overlay"}"#
        )
    );
    let meta = &nad["metadata"];
    assert_eq!(meta["labels"], json!({"k8s.ovn.org/user-defined-network": ""}));
    assert_eq!(meta["finalizers"], json!(["k8s.ovn.org/user-defined-network-protection"]));
    assert_eq!(
        meta["annotations"],
        json!({"k8s.ovn.org/network-name": "demo_db", "k8s.ovn.org/network-id": "1", "k8s.ovn.org/tunnel-keys": "[16711684,16715779]",
               "k8s.ovn.org/primary-network-created": "3"})
    );
    let udn = world.object(Kind::UserDefinedNetwork, "demo/db");
    assert_eq!(
        meta["ownerReferences"],
        json!([{"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "name": "db", "uid": udn["metadata"]["uid"],
                "controller": true, "blockOwnerDeletion": true}])
    );
    assert_eq!(
        world.writes,
        [
            "nodes n1 annotations",
            "userdefinednetworks demo/db finalizer",
            "network-attachment-definitions demo/db object",
            "userdefinednetworks demo/db status",
        ]
    );
}

/// C002, C004, C005, C007, C016, C017: what the configuration says, by topology, role and subnets.
#[test]
fn c002_c004_c005_c007_c016_c017_configurations() {
    let mut world = World::new(dual(), &["n1"]);
    for name in ["a", "b", "c", "d", "e"] {
        world.tenant(name);
    }
    world.layer2("a/net", &["192.168.100.0/24", "2001:dbb::/64"]);
    let two = json!([{"cidr": "10.128.0.0/16", "hostSubnet": 24}, {"cidr": "2600:db8::/29"}]);
    world.udn("b/net", json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": two}}));
    world.udn(
        "c/net",
        json!({"topology": "Layer2", "layer2": {"role": "Secondary", "subnets": ["10.0.0.0/24"]}}),
    );
    world.layer2("d/net", &["100.88.0.0/15", "fd97::/63"]);
    let joined = json!({"role": "Primary", "subnets": ["10.12.0.0/16", "2001:dbb::/64"], "joinSubnets": ["100.88.0.0/17", "fd97::/65"]});
    world.udn("e/net", json!({"topology": "Layer2", "layer2": joined}));
    assert_eq!(rendered(&world, "a/net")["transitSubnet"], "100.88.0.0/16,fd97::/64");
    assert_eq!(rendered(&world, "a/net")["mtu"], Value::Null);
    assert_eq!(rendered(&world, "b/net")["subnets"], "10.128.0.0/16/24,2600:db8::/29");
    let secondary = rendered(&world, "c/net");
    assert_eq!((&secondary["joinSubnet"], &secondary["transitSubnet"]), (&Value::Null, &Value::Null));
    assert_eq!(rendered(&world, "d/net")["transitSubnet"], "100.90.0.0/16,fd97:0:0:2::/64");
    assert_eq!(rendered(&world, "e/net")["transitSubnet"], "100.89.0.0/16,fd97:0:0:1::/64");
}

/// C008: localnet networks have no tunnel, so 100 bytes more.
#[test]
fn c008_localnet_mtu() {
    for (mtu, expected) in [(1400, 1500), (8900, 9000)] {
        let mut config = ipv4();
        config.cluster.mtu = mtu;
        let mut world = World::new(config, &[]);
        world.namespace("a", json!({}));
        let localnet =
            json!({"role": "Secondary", "physicalNetworkName": "phys", "subnets": ["192.168.0.0/16"]});
        world.cudn("net", json!({}), json!({"topology": "Localnet", "localnet": localnet}));
        assert_eq!(rendered(&world, "a/net")["mtu"], expected);
    }
}

/// C010, F011: one network, one number, an attachment in each namespace.
#[test]
fn c010_f011_a_cluster_network_in_two_namespaces() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("a");
    world.tenant("b");
    let layer3 = json!({"role": "Primary", "subnets": [{"cidr": "10.0.0.0/16", "hostSubnet": 24}]});
    world.cudn("db", json!({}), json!({"topology": "Layer3", "layer3": layer3}));
    for namespace in ["a", "b"] {
        let path = format!("{namespace}/db");
        let config = rendered(&world, &path);
        assert_eq!((&config["name"], &config["netAttachDefName"]), (&json!("cluster_udn_db"), &json!(path)));
        assert_eq!(
            world.object(NAD, &path)["metadata"]["annotations"],
            json!({"k8s.ovn.org/network-name": "cluster_udn_db", "k8s.ovn.org/network-id": "1", "k8s.ovn.org/tunnel-keys": "[]",
                   "k8s.ovn.org/primary-network-set": "08f44b07b5901a25", "k8s.ovn.org/primary-network-created": "4"})
        );
    }
}

/// C013, C014, C040: labels and annotations follow the object; ours stay; what somebody takes away comes back.
#[test]
fn c013_c014_c040_labels_and_annotations_follow() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("demo");
    world.put(json!({
        "kind": "UserDefinedNetwork",
        "metadata": {"namespace": "demo", "name": "db", "labels": {"team": "x"}, "annotations": {"description": "1", "foo": "1", "k8s.ovn.org/bar": "2"}},
        "spec": {"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.0.0.0/24"]}},
    }));
    let meta = |world: &World| world.object(NAD, "demo/db")["metadata"].clone();
    let numbers = json!({"k8s.ovn.org/network-name": "demo_db", "k8s.ovn.org/network-id": "1", "k8s.ovn.org/tunnel-keys": "[16711684,16715779]",
               "k8s.ovn.org/primary-network-created": "3"});
    let annotations = |foo: &str| {
        let mut all = numbers.clone();
        all["description"] = foo.into();
        all
    };
    assert_eq!(meta(&world)["annotations"], annotations("1"));
    assert_eq!(meta(&world)["labels"], json!({"k8s.ovn.org/user-defined-network": "", "team": "x"}));
    world.change(
        Kind::UserDefinedNetwork,
        "demo/db",
        &json!({"metadata": {"annotations": {"description": "2"}, "labels": {"team": null}}}),
    );
    assert_eq!(meta(&world)["annotations"], annotations("2"));
    assert_eq!(meta(&world)["labels"], json!({"k8s.ovn.org/user-defined-network": ""}));
    let taken = json!({"metadata": {"labels": {"k8s.ovn.org/user-defined-network": null}, "finalizers": null}, "spec": {"config": "{}"}});
    world.change(NAD, "demo/db", &taken);
    assert_eq!(meta(&world)["labels"], json!({"k8s.ovn.org/user-defined-network": ""}));
    assert_eq!(meta(&world)["finalizers"], json!(["k8s.ovn.org/user-defined-network-protection"]));
    assert_eq!(rendered(&world, "demo/db")["name"], "demo_db");
}

/// C019, C020, C022, C023, C025, C028, C029, E020: each reason in its own word, and no attachment.
#[test]
fn c019_to_c029_e020_what_speaks_against_a_network() {
    let layer2 = |block: Value| json!({"topology": "Layer2", "layer2": block});
    let primary = |subnet: &str| layer2(json!({"role": "Primary", "subnets": [subnet]}));
    let table = [
        (
            layer2(
                json!({"role": "Primary", "subnets": ["10.0.0.0/24"], "ipam": {"lifecycle": "Persistent"}}),
            ),
            "PersistentIPsDisabled",
            "allowPersistentIPs is set but persistentIPs is Disabled",
        ),
        (
            layer2(json!({"role": "Primary", "subnets": ["10.0.0.0/24"], "joinSubnets": ["100.64.0.0/16"]})),
            "OverlappingSubnets",
            "user defined join subnet \"100.64.0.0/16\" overlaps built-in join subnet \"100.64.0.0/16\"",
        ),
        (
            json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": [{"cidr": "10.244.128.0/17", "hostSubnet": 24}]}}),
            "OverlappingSubnets",
            "user defined subnet \"10.244.128.0/17\" overlaps cluster subnet \"10.244.0.0/16\"",
        ),
        (
            primary("10.96.5.0/24"),
            "OverlappingSubnets",
            "user defined subnet \"10.96.5.0/24\" overlaps service subnet \"10.96.0.0/16\"",
        ),
        (
            primary("169.254.1.0/24"),
            "OverlappingSubnets",
            "user defined subnet \"169.254.1.0/24\" overlaps masquerade subnet \"169.254.0.0/17\"",
        ),
        (
            json!({"topology": "Localnet", "role": "Secondary", "subnets": ["192.168.0.0/16"], "excludeSubnets": ["192.200.0.0/30"]}),
            "InvalidSpec",
            "the provided network subnets do not contain excluded subnets 192.200.0.0/30",
        ),
        (primary("abc"), "InvalidAddress", "CIDR is invalid: subnets has \"abc\""),
    ];
    for (spec, reason, message) in table {
        let mut config = ipv4();
        config.cluster.persistent_ips = false;
        let mut world = World::new(config, &["n1"]);
        world.tenant("demo");
        world.udn("demo/net", spec);
        assert_eq!(world.udn_condition("demo/net", "NetworkReady"), format!("False/{reason} {message}"));
        assert_eq!(world.udn_condition("demo/net", "NetworkCreated"), format!("False/SyncError {message}"));
        assert!(!world.has_nad("demo/net"), "{reason}");
    }
}

/// C026: a secondary network has no join subnet, so the default one is free for its pods.
#[test]
fn c026_a_secondary_network_may_have_the_join_subnet() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.namespace("demo", json!({}));
    world.udn(
        "demo/net",
        json!({"topology": "Layer2", "layer2": {"role": "Secondary", "subnets": ["100.65.0.0/24"]}}),
    );
    assert!(world.has_nad("demo/net"));
}

/// C031: a UDN and a CUDN of one name in one namespace: who came first has it.
#[test]
fn c031_one_name_in_one_namespace() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.namespace("a", json!({}));
    let layer2 = json!({"topology": "Layer2", "layer2": {"role": "Secondary", "subnets": ["10.0.0.0/24"]}});
    world.udn("a/blue", layer2.clone());
    world.cudn("blue", json!({}), layer2);
    let message = "foreign NetworkAttachmentDefinition with the desired name already exist [a/blue]";
    assert_eq!(
        world.cudn_condition("blue", "NetworkCreated"),
        format!("False/NetworkAttachmentDefinitionSyncError {message}")
    );
    assert_eq!(
        world.cudn_condition("blue", "NetworkReady"),
        format!("False/NetworkAttachmentDefinitionNotExist {message}")
    );
    assert_eq!(rendered(&world, "a/blue")["name"], "a_blue");
    assert!(world.udn_condition("a/blue", "NetworkCreated").starts_with("True/"));
}

/// C032: names that would be one with a dot between are two networks.
#[test]
fn c032_names_that_look_alike() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.tenant("t");
    world.tenant("t-tenant");
    world.layer2("t/tenant-blue", &["10.0.0.0/24"]);
    world.layer2("t-tenant/blue", &["10.0.0.0/24"]);
    assert!(world.has_nad("t/tenant-blue") && world.has_nad("t-tenant/blue"));
    world.tenant("u");
    world.layer2("u/x-y", &["10.0.0.0/24"]);
    world.udn(
        "u/x.y",
        json!({"topology": "Layer2", "layer2": {"role": "Secondary", "subnets": ["10.0.0.0/24"]}}),
    );
    assert!(
        world
            .udn_condition("u/x.y", "NetworkReady")
            .starts_with("False/NameConflict network u_x.y would have the OVN objects")
    );
    world.delete(Kind::UserDefinedNetwork, "u/x-y");
    assert!(world.udn_condition("u/x.y", "NetworkCreated").starts_with("True/"), "the way is free");
}

/// C035, C037, C038, E019: names of VRFs.
#[test]
fn c035_c037_c038_e019_vrf_names() {
    let mut world = World::new(ipv4(), &["n1"]);
    let network = |vrf: Option<&str>, name: &str| {
        let layer3 = json!({"role": "Primary", "subnets": [{"cidr": "10.0.0.0/16", "hostSubnet": 24}]});
        let mut spec = json!({"namespaceSelector": {"matchLabels": {"net": name}}, "network": {"topology": "Layer3", "layer3": layer3}});
        if let Some(vrf) = vrf {
            spec["vrf"] = vrf.into();
        }
        json!({"kind": "ClusterUserDefinedNetwork", "metadata": {"name": name}, "spec": spec})
    };
    for name in ["blue", "a-name-too-long-by-far", "x"] {
        world.namespace(name, json!({"k8s.ovn.org/primary-user-defined-network": "", "net": name}));
    }
    world.put(network(None, "blue"));
    world.put(network(None, "a-name-too-long-by-far"));
    world.put(network(Some("red"), "x"));
    world.put(network(None, "red"));
    world.put(network(None, "br-int"));
    let status = |name: &str| world.object(Kind::ClusterUserDefinedNetwork, name)["status"].clone();
    // The name is checked, and said only where there is a device: nodes have none yet.
    let seen = |name: &str| (status(name)["networkID"].clone(), status(name)["vrfName"].clone());
    assert_eq!(seen("blue"), (json!(1), Value::Null));
    assert_eq!(seen("a-name-too-long-by-far"), (json!(2), Value::Null));
    assert_eq!(seen("x"), (json!(3), Value::Null));
    assert_eq!(
        world.cudn_condition("red", "NetworkReady"),
        "False/VRFNameConflict VRF name \"red\" belongs to network cluster_udn_x: choose another one in the field vrf"
    );
    let reserved = world.cudn_condition("br-int", "NetworkReady");
    assert!(reserved.starts_with("False/InvalidVRFName"), "{reserved}");
}

/// C041, C043, C044, K001, D013: attachments that are written by hand.
#[test]
fn c041_c043_c044_k001_d013_attachments_written_by_hand() {
    let mut world = World::new(config(&[("10.244.0.0/16", 24)], &["10.96.0.0/16"]), &["n1"]);
    world.tenant("a");
    world.tenant("b");
    let base = |extra: &str| {
        format!(
            r#"{{"cniVersion":"0.3.1","type":"ovn-k8s-cni-overlay","name":"plain","topology":"layer2","subnets":"10.9.0.0/24"{extra}}}"#
        )
    };
    world.nad("a/alias", &base(r#","primaryNetwork":true,"persistentIPs":"true""#));
    world.nad("b/elsewhere", &base(r#","netAttachDefName":"a/other""#));
    world.nad("b/ipam", &base(r#","ipam":{"type":"host-local"}"#));
    world.nad("b/broken", "{");
    world.nad("b/foreign", r#"{"type":"macvlan"}"#);
    world.nad("b/empty", "");
    world.layer2("b/net", &["10.0.0.0/24"]);
    world.pod("a/pod", "n1");
    world.pod("b/pod", "n1");
    assert_eq!(world.address("a/pod", "a/alias"), "10.9.0.3/24");
    assert_eq!(world.address("b/pod", "b/net"), "10.0.0.3/24");
    assert_eq!(
        world.said,
        [
            "NetworkAttachmentDefinition b/elsewhere InvalidConfig: Failed to parse network config: NAD b/elsewhere: net-attach-def \
             name (b/elsewhere) is inconsistent with config (a/other)",
            "NetworkAttachmentDefinition b/ipam InvalidConfig: Failed to parse network config: NAD b/ipam: ipam is another plugin's \
             address management: leave it out and write subnets",
        ]
    );
}

/// Two attachments of one hand-written network must say the same.
#[test]
fn attachments_of_one_network_must_agree() {
    let mut world = World::new(ipv4(), &["n1"]);
    world.namespace("a", json!({}));
    world.namespace("b", json!({}));
    let text = |subnet: &str| {
        format!(r#"{{"type":"ovn-k8s-cni-overlay","name":"plain","topology":"layer2","subnets":"{subnet}"}}"#)
    };
    world.nad("a/net", &text("10.9.0.0/24"));
    world.nad("b/same", &text("10.9.0.0/24"));
    world.nad("b/other", &text("10.8.0.0/24"));
    let id = |path: &str| world.annotation(NAD, path, "k8s.ovn.org/network-id");
    assert_eq!((id("a/net"), id("b/same"), id("b/other")), (json!(1), json!(1), Value::Null));
    assert!(
        world.said[0].contains("NAD b/other CNI config does not match that of network plain"),
        "{:?}",
        world.said
    );
    world.delete(NAD, "a/net");
    world.delete(NAD, "b/same");
    assert_eq!(world.reuse().network_ids.quarantined.len(), 1, "its number rests");
}
