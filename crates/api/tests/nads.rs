//! NADs: what we write, and what we make of what others have written. Ids are those of the case catalogue for networks.

#![allow(clippy::unwrap_used, reason = "a helper of a test may stop it")]

use std::collections::BTreeMap;

use causeway_api::annotations::keys;
use causeway_api::crd::{
    ClusterUserDefinedNetworkSpec, NetworkAttachmentDefinition, Role, UserDefinedNetworkSpec,
};
use causeway_api::intent::{ClusterConfig, Network, Reason};
use causeway_api::nad::{
    Attachment, CniConfig, Owner, OwnerKind, Standing, impersonation, read, render, same_network, standing,
};
use causeway_types::{Cidr, NamespaceName, NetworkName, NodeId, ObjectName};
use proptest::prelude::*;
use serde_json::{Value, json};

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

fn cluster() -> ClusterConfig {
    ClusterConfig::new(vec![cidr("10.244.0.0/16")], vec![cidr("10.96.0.0/16")], NodeId::new(1001).unwrap())
}

fn udn(namespace: &str, name: &str, spec: Value) -> Network {
    let spec: UserDefinedNetworkSpec = serde_json::from_value(spec).unwrap();
    Network::of_udn(&NamespaceName::new(namespace).unwrap(), &ObjectName::new(name).unwrap(), &spec).unwrap()
}

fn cudn(name: &str, network: Value) -> Network {
    let spec = json!({"namespaceSelector": {}, "network": network});
    let spec: ClusterUserDefinedNetworkSpec = serde_json::from_value(spec).unwrap();
    Network::of_cluster_udn(&ObjectName::new(name).unwrap(), &spec).unwrap()
}

fn config(network: &Network, nad: &str) -> Value {
    serde_json::from_str(&CniConfig::of(network, nad, &cluster()).text()).unwrap()
}

/// udn-cases C001, C002, C011: the published example, byte for byte.
#[test]
fn a_primary_layer2_network_is_written_as_published() {
    let network = udn(
        "mynamespace",
        "test-net",
        json!({"topology": "Layer2", "layer2": {"role": "Primary", "mtu": 1500,
               "subnets": ["192.168.100.0/24", "2001:dbb::/64"], "ipam": {"lifecycle": "Persistent"}}}),
    );
    let text = CniConfig::of(&network, "mynamespace/test-net", &cluster()).text();
    assert_eq!(
        text,
        r#"{"allowPersistentIPs":true,"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","mtu":1500,"name":"mynamespace_test-net","netAttachDefName":"mynamespace/test-net","role":"primary","subnets":"192.168.100.0/24,2001:dbb::/64","topology":"layer2","transitSubnet":"100.88.0.0/16,fd97::/64","type":"ovn-k8s-cni-overlay"}"#
    );
    assert_eq!(CniConfig::of(&network, "mynamespace/test-net", &cluster()).text(), text);
}

/// udn-cases C001: one family has one transit subnet, but always both join subnets.
#[test]
fn a_single_stack_network_has_one_transit_subnet() {
    let network = udn(
        "demo",
        "db",
        json!({"topology": "Layer2", "role": "Primary", "mtu": 9000, "subnets": ["10.0.0.0/24"]}),
    );
    let config = config(&network, "demo/db");
    assert_eq!(config["transitSubnet"], "100.88.0.0/16");
    assert_eq!(config["joinSubnet"], "100.65.0.0/16,fd99::/64");
    assert_eq!(config["mtu"], 9000);
}

/// udn-cases C004, C005, C007, C008, C010.
#[test]
fn only_what_counts_is_written() {
    let layer3 = cudn(
        "db",
        json!({"topology": "Layer3", "layer3": {"role": "Primary",
               "subnets": [{"cidr": "10.128.0.0/16", "hostSubnet": 24}, {"cidr": "2600:db8::/29"}]}}),
    );
    assert_eq!(
        config(&layer3, "a/db"),
        json!({"cniVersion": "1.1.0", "joinSubnet": "100.65.0.0/16,fd99::/64", "name": "cluster_udn_db",
               "netAttachDefName": "a/db", "role": "primary", "subnets": "10.128.0.0/16/24,2600:db8::/29",
               "topology": "layer3", "type": "ovn-k8s-cni-overlay"})
    );
    assert_eq!(config(&layer3, "b/db")["netAttachDefName"], "b/db");
    let secondary = udn(
        "demo",
        "db",
        json!({"topology": "Layer2", "layer2": {"role": "Secondary", "subnets": ["10.0.0.0/24"]}}),
    );
    assert_eq!(
        config(&secondary, "demo/db"),
        json!({"cniVersion": "1.1.0", "name": "demo_db", "netAttachDefName": "demo/db", "role": "secondary",
               "subnets": "10.0.0.0/24", "topology": "layer2", "type": "ovn-k8s-cni-overlay"})
    );
    let localnet = cudn(
        "db",
        json!({"topology": "Localnet", "localnet": {"role": "Secondary", "physicalNetworkName": "phys",
               "subnets": ["10.0.0.0/24"], "excludeSubnets": ["10.0.0.0/30"], "vlan": {"mode": "Access", "access": {"id": 7}}}}),
    );
    let written = config(&localnet, "a/db");
    assert_eq!((&written["mtu"], &written["vlanID"]), (&json!(1500), &json!(7)));
    assert_eq!(written["physicalNetworkName"], "phys");
    let large = ClusterConfig { mtu: 8900, ..cluster() };
    assert_eq!(CniConfig::of(&localnet, "a/db", &large).mtu, Some(9000));
}

#[test]
fn transports_are_written_and_read_back() {
    let evpn = cudn(
        "db",
        json!({"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.0.0.0/16"]}, "transport": "EVPN",
               "evpn": {"vtep": "v", "macVRF": {"vni": 100, "routeTarget": "65000:100"}, "ipVRF": {"vni": 101}}}),
    );
    let written = config(&evpn, "a/db");
    assert_eq!(written["transport"], "evpn");
    assert_eq!(
        written["evpn"],
        json!({"vtep": "v", "macVRF": {"vni": 100, "routeTarget": "65000:100"}, "ipVRF": {"vni": 101}})
    );
    let Attachment::Ours(again) = read("a/db", Some(&written.to_string())) else { panic!("not ours") };
    assert_eq!(again.transport, evpn.transport);
    let no_overlay = cudn(
        "db",
        json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": [{"cidr": "10.0.0.0/16"}]},
               "transport": "NoOverlay", "noOverlay": {"outboundSNAT": "Enabled", "routing": "Managed"}}),
    );
    let written = config(&no_overlay, "a/db");
    assert_eq!((&written["transport"], &written["outboundSNAT"]), (&json!("no-overlay"), &json!("enabled")));
}

fn owner(annotations: &[(&str, &str)]) -> Owner {
    let map =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Owner {
        kind: OwnerKind::UserDefinedNetwork,
        name: "db".into(),
        uid: "u1".into(),
        labels: map(&[("tier", "backend")]),
        annotations: map(annotations),
    }
}

fn rendered(
    annotations: &[(&str, &str)],
    existing: Option<&NetworkAttachmentDefinition>,
) -> NetworkAttachmentDefinition {
    let network =
        udn("demo", "db", json!({"topology": "Layer2", "role": "Primary", "subnets": ["10.0.0.0/24"]}));
    render(&network, &owner(annotations), &NamespaceName::new("demo").unwrap(), &cluster(), existing)
}

/// udn-cases C013, C014 and the object around the configuration.
#[test]
fn the_object_carries_labels_annotations_owner_and_finalizer() {
    let mut nad = rendered(
        &[("description", "1"), ("k8s.ovn.org/bar", "2"), ("k8s.v1.cni.cncf.io/resourceName", "theirs")],
        None,
    );
    let metadata = serde_json::to_value(&nad.metadata).unwrap();
    assert_eq!(
        metadata,
        json!({
            "name": "db", "namespace": "demo",
            "labels": {"k8s.ovn.org/user-defined-network": "", "tier": "backend"},
            "annotations": {"description": "1"},
            "finalizers": ["k8s.ovn.org/user-defined-network-protection"],
            "ownerReferences": [{"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "name": "db", "uid": "u1",
                                 "controller": true, "blockOwnerDeletion": true}],
        })
    );
    nad.metadata.annotations.get_or_insert_default().insert(keys::NETWORK_ID.into(), "7".into());
    let again = rendered(&[("description", "2")], Some(&nad));
    let expected = BTreeMap::from([
        ("description".to_owned(), "2".to_owned()),
        (keys::NETWORK_ID.to_owned(), "7".to_owned()),
    ]);
    assert_eq!(again.metadata.annotations, Some(expected));
}

/// udn-cases C031, C040, D020.
#[test]
fn an_existing_nad_is_current_outdated_or_foreign() {
    let owner = owner(&[]);
    let wanted = rendered(&[], None);
    assert_eq!(standing(&wanted, &wanted, &owner), Standing::Current);
    let mut unlabelled = wanted.clone();
    unlabelled.metadata.labels = None;
    assert_eq!(standing(&unlabelled, &wanted, &owner), Standing::Outdated);
    let mut unprotected = wanted.clone();
    unprotected.metadata.finalizers = None;
    assert_eq!(standing(&unprotected, &wanted, &owner), Standing::Outdated);
    let mut altered = wanted.clone();
    altered.spec.config = Some("{}".into());
    assert_eq!(standing(&altered, &wanted, &owner), Standing::Outdated);
    let mut foreign = wanted.clone();
    foreign.metadata.owner_references = None;
    assert_eq!(standing(&foreign, &wanted, &owner), Standing::Foreign);
    let other = Owner { uid: "u2".into(), ..owner };
    assert_eq!(standing(&wanted, &wanted, &other), Standing::Foreign);
}

fn nad(settings: Value) -> Attachment {
    let mut config = json!({"type": "ovn-k8s-cni-overlay", "name": "net", "topology": "layer2"});
    config.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    read("ns/net", Some(&config.to_string()))
}

fn ours(settings: Value) -> Network {
    match nad(settings) {
        Attachment::Ours(network) => *network,
        other => panic!("{other:?}"),
    }
}

fn problem(settings: Value) -> String {
    match nad(settings) {
        Attachment::Malformed(problem) => {
            assert_eq!(problem.reason, Reason::InvalidAttachment);
            problem.message
        }
        other => panic!("{other:?}"),
    }
}

/// udn-cases C041: what published examples write instead of role and allowPersistentIPs.
#[test]
fn other_spellings_are_read() {
    let primary = ours(json!({"cniVersion": "0.3.1", "primaryNetwork": true, "subnets": "10.0.0.0/24"}));
    assert_eq!(primary.role, Role::Primary);
    assert_eq!(ours(json!({"primaryNetwork": "true", "subnets": "10.0.0.0/24"})).role, Role::Primary);
    assert!(ours(json!({"persistentIPs": "true", "subnets": "10.0.0.0/24"})).persistent_ips);
    assert_eq!(ours(json!({"vrf": "db-network"})).vrf.as_deref(), Some("db-network"));
    assert_eq!(ours(json!({})).role, Role::Secondary);
}

/// What tools write who have no VLAN in mind: 0 is none, by hand as well as beside what we render without it.
#[test]
fn a_vlan_of_0_is_unset() {
    let wire = |vlan: Value| {
        let mut config = json!({"topology": "localnet", "role": "secondary", "subnets": "10.0.0.0/24"});
        config.as_object_mut().unwrap().extend(vlan.as_object().unwrap().clone());
        ours(config)
    };
    assert_eq!(wire(json!({"vlanID": 7})).vlan, Some(7));
    assert_eq!(wire(json!({"vlanID": 0})).vlan, None);
    assert_eq!(wire(json!({"vlanID": 0})), wire(json!({})));
    assert_eq!(config(&wire(json!({"vlanID": 0})), "ns/net")["vlanID"], Value::Null);
}

#[test]
fn a_list_of_plugins_is_read() {
    let list = json!({"cniVersion": "1.0.0", "name": "net", "plugins": [
        {"type": "tuning"}, {"type": "ovn-k8s-cni-overlay", "topology": "layer3", "subnets": "10.0.0.0/16/24"}]});
    let Attachment::Ours(network) = read("ns/net", Some(&list.to_string())) else { panic!("not ours") };
    assert_eq!((network.name.as_str(), network.subnets_text().as_str()), ("net", "10.0.0.0/16/24"));
}

/// udn-cases D013: what is not ours, or not readable, stands in nobody's way.
#[test]
fn foreign_and_unreadable_nads_are_recognised() {
    assert_eq!(read("ns/a", None), Attachment::Foreign);
    assert_eq!(read("ns/a", Some("  ")), Attachment::Foreign);
    assert_eq!(read("ns/a", Some(r#"{"type":"macvlan","name":"x"}"#)), Attachment::Foreign);
    assert_eq!(read("ns/a", Some(r#"{"name":"x","plugins":[{"type":"bridge"}]}"#)), Attachment::Foreign);
    assert_eq!(read("ns/a", Some("[1]")), Attachment::Foreign);
    assert!(matches!(read("ns/a", Some("{\"type\": \"ovn")), Attachment::Unreadable(_)));
}

/// udn-cases C029, C043, C044 and every other way to be no network.
#[test]
fn malformed_nads_are_named() {
    let says = |settings: Value, part: &str| {
        let message = problem(settings);
        assert!(message.starts_with("NAD ns/net: ") && message.contains(part), "{message}");
    };
    says(
        json!({"netAttachDefName": "ns/other"}),
        "net-attach-def name (ns/net) is inconsistent with config (ns/other)",
    );
    says(json!({"ipam": {"type": "host-local"}}), "ipam is another plugin's address management");
    says(json!({"subnets": "abc"}), "CIDR \"abc\" not properly formatted");
    says(json!({"subnets": "10.0.0.0/16/24"}), "CIDR \"10.0.0.0/16/24\" not properly formatted");
    says(json!({"topology": "layer3", "subnets": "10.0.0.0/16/x"}), "not properly formatted");
    says(json!({"topology": "ring"}), "topology \"ring\" is none of layer2, layer3, localnet");
    says(json!({"topology": "layer3"}), "Subnets is required for Layer3 topology");
    says(
        json!({"topology": "layer3", "subnets": "10.0.0.0/16/16"}),
        "HostSubnet must be smaller than CIDR subnet",
    );
    says(json!({"topology": "layer3", "subnets": "fd00::/48/80"}), "IPv6 only supports /64 host subnets");
    says(
        json!({"topology": "layer3", "role": "primary", "subnets": "10.0.0.0/16/24,10.0.1.0/24/28"}),
        "Subnets from the same IP family must use the same hostSubnet value",
    );
    says(
        json!({"topology": "layer3", "role": "primary", "subnets": "10.0.0.0/16,10.0.1.0/24"}),
        "Subnets must not overlap or contain each other",
    );
    says(
        json!({"topology": "layer3", "subnets": "10.0.0.0/16", "allowPersistentIPs": true}),
        "ipamLifecycle is supported",
    );
    says(
        json!({"topology": "localnet", "role": "primary"}),
        "Topology localnet is not supported for primary network",
    );
    says(json!({"topology": "localnet", "joinSubnet": "100.66.0.0/16"}), "JoinSubnets is only supported");
    says(json!({"role": "primary"}), "Subnets is required");
    says(json!({"role": "tertiary"}), "role \"tertiary\" is neither primary nor secondary");
    says(
        json!({"role": "secondary", "primaryNetwork": true}),
        "role is secondary but primaryNetwork is true",
    );
    says(json!({"primaryNetwork": 1}), "primaryNetwork is 1 instead of true or false");
    says(json!({"subnets": "10.0.0.0/24,10.1.0.0/24"}), "they must be from different IP families");
    says(json!({"subnets": "fd00::/64", "mtu": 1000}), "MTU should be greater than or equal to 1280");
    says(json!({"excludeSubnets": "10.0.0.0/30"}), "excludeSubnets must be unset when subnets is unset");
    says(json!({"vlanID": 5000}), "vlanID 5000 is not within 1 and 4094");
    says(json!({"name": ""}), "is reserved");
    says(json!({"name": "default"}), "the network name \"default\" is reserved");
    says(json!({"name": "a b"}), "network name \"a b\" is not valid");
    says(json!({"transport": "pigeon"}), "transport");
    says(json!({"mtu": "large"}), "invalid type");
    says(json!({"defaultGatewayIPs": "x", "subnets": "10.0.0.0/24"}), "\"x\" is not an address");
}

#[test]
fn the_name_of_a_user_defined_network_is_its_own() {
    let name = |text: &str| NetworkName::new(text).unwrap();
    let exists = |network: &NetworkName| network.as_str() == "cluster_udn_blue" || network.as_str() == "a_b";
    let claim = |network: &str, owner: Option<&str>| {
        impersonation("ns/net", &name(network), owner.map(name).as_ref(), exists)
            .map(|problem| problem.reason)
    };
    assert_eq!(claim("cluster_udn_blue", None), Some(Reason::ForeignNetwork));
    assert_eq!(claim("a_b", Some("ns_net")), Some(Reason::ForeignNetwork));
    assert_eq!(claim("cluster_udn_blue", Some("cluster_udn_blue")), None);
    assert_eq!(claim("my_net", None), None);
    assert_eq!(claim("plain", None), None);
}

#[test]
fn nads_of_one_network_agree() {
    let layer3 = |subnets: &str| ours(json!({"topology": "layer3", "role": "primary", "subnets": subnets}));
    let (known, grown) = (layer3("10.0.0.0/16"), layer3("10.0.0.0/16,10.1.0.0/16"));
    assert_eq!(same_network("ns/b", &known, &known), None);
    assert_eq!(same_network("ns/b", &known, &grown), None);
    let other = Network { mtu: Some(1300), ..known.clone() };
    let problem = same_network("ns/b", &known, &other).unwrap();
    assert_eq!(problem.message, "NAD ns/b CNI config does not match that of network net");
    assert!(same_network("ns/b", &known, &layer3("10.1.0.0/16")).is_some());
    let layer2 = |subnets: &str| ours(json!({"subnets": subnets}));
    assert!(same_network("ns/b", &layer2("10.0.0.0/24"), &layer2("10.0.0.0/24,fd00::/64")).is_some());
}

/// What we write for a custom resource reads back as the same network, with the cluster's defaults filled in.
#[test]
fn a_written_network_reads_back() {
    let network = udn(
        "demo",
        "db",
        json!({"topology": "Layer2", "layer2": {"role": "Primary", "subnets": ["10.0.0.0/24", "fd05::/64"],
               "reservedSubnets": ["10.0.0.64/26"], "infrastructureSubnets": ["10.0.0.8/30", "fd05::8/126"],
               "defaultGatewayIPs": ["10.0.0.9", "fd05::9"], "excludeSubnets": ["10.0.0.128/26"]}}),
    );
    let text = CniConfig::of(&network, "demo/db", &cluster()).text();
    let expected = Network {
        join_subnets: network.effective_join_subnets(&cluster()),
        transit_subnets: network.effective_transit_subnets(&cluster()),
        ..network
    };
    assert_eq!(read("demo/db", Some(&text)), Attachment::Ours(Box::new(expected)));
}

proptest! {
    #[test]
    fn any_configuration_is_read_or_refused(text in any::<String>()) {
        let _ = read("ns/net", Some(&text));
    }

    /// Any value in any of our fields is read or refused, and what is read can be written and read again.
    #[test]
    fn any_setting_is_read_or_refused(
        field in prop::sample::select(vec!["subnets", "joinSubnet", "role", "mtu", "vlanID", "topology", "evpn", "name"]),
        value in prop_oneof![
            "[0-9a-f.:/,]{0,24}".prop_map(Value::from), any::<i64>().prop_map(Value::from), Just(json!({})), Just(json!([1]))
        ],
    ) {
        if let Attachment::Ours(network) = nad(json!({field: value})) {
            let text = CniConfig::of(&network, "ns/net", &cluster()).text();
            prop_assert!(matches!(read("ns/net", Some(&text)), Attachment::Ours(_)), "{}", text);
        }
    }
}
