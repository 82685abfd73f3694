//! From manifests to decisions: the specification's own sample, and what its annotations become.

use causeway_api::annotations::Annotation;
use causeway_api::intent::{self, ClusterConfig, Manifest};

use super::*;
use crate::Error;

/// The connection of the specification, as printed there.
const SAMPLE: &str = r#"
apiVersion: k8s.ovn.org/v1
kind: ClusterNetworkConnect
metadata:
  name: colored-enterprise
spec:
  networkSelectors:
    - networkSelectionType: ClusterUserDefinedNetworks
      clusterUserDefinedNetworkSelector:
        networkSelector:
          matchExpressions:
          - key: kubernetes.io/metadata.name
            operator: In
            values:
            - blue-network
            - green-network
    - networkSelectionType: PrimaryUserDefinedNetworks
      primaryUserDefinedNetworkSelector:
        namespaceSelector:
          matchExpressions:
          - key: kubernetes.io/metadata.name
            operator: In
            values:
            - yellow
            - red
  connectSubnets:
  - cidr: "192.168.0.0/16"
    networkPrefix: 24
  - cidr: "fd01::/64"
    networkPrefix: 96
  connectivityEnabled:
    - PodNetwork
    - ClusterIPServiceNetwork
"#;

fn object(annotations: &[(&str, &str)]) -> causeway_api::crd::ClusterNetworkConnect {
    let Ok(Manifest::ClusterNetworkConnect(mut object)) = Manifest::read(SAMPLE) else {
        panic!("not a connection")
    };
    object.metadata.annotations = Some(labels(annotations));
    *object
}

fn read(object: causeway_api::crd::ClusterNetworkConnect) -> crate::Result<Connect> {
    let object = causeway_record::Connect::of(name("colored-enterprise"), object);
    let meant = object.meant.as_ref().unwrap();
    Connect::of(&object, meant, ConnectTopology::Transit, ConnectRecord::default())
}

fn sample(annotations: &[(&str, &str)]) -> Connect {
    read(object(annotations)).unwrap()
}

fn colours() -> (Vec<Network>, Vec<Namespace>) {
    let yellow = udn("yellow", "yellow-network", 3, &["105.105.0.0/16"]);
    let red = flat(udn("red", "red-network", 40, &["106.106.0.0/16"]));
    let by_name = |text| [("kubernetes.io/metadata.name", text)];
    let namespaces =
        vec![namespace("yellow", &by_name("yellow"), &[&yellow]), namespace("red", &by_name("red"), &[&red])];
    let blue = cudn("blue-network", 1, &["103.103.0.0/16"]);
    let green = cudn("green-network", 2, &["104.104.0.0/16"]);
    (vec![blue, green, yellow, red], namespaces)
}

/// cnc-cases B32 (refused upstream, accepted here), W04.
#[test]
fn b32_w04_the_sample_of_the_specification() {
    let (networks, namespaces) = colours();
    let connections = start(&networks, &namespaces, &[], &[sample(&[])]);
    assert_eq!(acceptance(&connections, "colored-enterprise").0, Reason::ValidationSucceeded);
    let annotation = connections.annotation(&name("colored-enterprise")).unwrap().text();
    let expected = r#"{"layer3_1":{"ipv4":"192.168.0.0/24","ipv6":"fd01::/96"},"layer3_2":{"ipv4":"192.168.1.0/24","ipv6":"fd01::1:0:0/96"},"layer3_3":{"ipv4":"192.168.2.0/24","ipv6":"fd01::2:0:0/96"},"layer2_40":{"ipv4":"192.168.3.0/31","ipv6":"fd01::3:0:0/127"}}"#;
    assert_eq!(annotation, expected);
}

/// cnc-cases I10, W10: what is written comes back as it was.
#[test]
fn annotations_are_read_back() {
    let (networks, namespaces) = colours();
    let first = start(&networks, &namespaces, &[], &[sample(&[])]);
    let text = first.annotation(&name("colored-enterprise")).unwrap().text();
    let back = sample(&[
        ("k8s.ovn.org/network-subnets", &text),
        ("k8s.ovn.org/connect-router-slots", "128"),
        ("k8s.ovn.org/connect-topology", "both"),
    ]);
    assert_eq!((back.slots, back.topology), (Some(128), ConnectTopology::Both));
    assert_eq!(Some(back.blocks), first.blocks(&name("colored-enterprise")));
}

/// A managed annotation that cannot be read is not taken for an empty one: everybody would be moved.
#[test]
fn a_malformed_annotation_is_an_error() {
    let object = object(&[("k8s.ovn.org/network-subnets", "{")]);
    let error = read(object).unwrap_err();
    assert!(matches!(error, Error::Annotation(_)));
    assert!(error.to_string().starts_with("annotation k8s.ovn.org/network-subnets is malformed"), "{error}");
}

/// The size that allocation counts is the size that is written.
#[test]
fn the_annotation_is_as_large_as_counted() {
    let (networks, namespaces) = colours();
    let connections = start(&networks, &namespaces, &[], &[sample(&[])]);
    let text = connections.annotation(&name("colored-enterprise")).unwrap().text();
    let connect = written(&connections, &sample(&[]));
    let mut pool = causeway_alloc::ConnectPool::new(&connect.subnets, connect.topology, 1000).unwrap();
    pool.restore(
        connect.slots,
        connect.blocks.iter().map(|(owner, cidrs)| (*owner, &cidrs[..])),
        &connect.record,
    );
    assert_eq!(pool.annotation_size(), text.len() + 1, "with a comma after the last entry");
}

/// A network's record has the subnets in effect, not only those written.
#[test]
fn a_network_of_intent() {
    let text = "
kind: ClusterUserDefinedNetwork
metadata: {name: flat}
spec:
  namespaceSelector: {}
  network: {topology: Layer2, layer2: {role: Primary, subnets: [100.88.0.0/16]}}
";
    let Ok(Manifest::ClusterUserDefinedNetwork(object)) = Manifest::read(text) else {
        panic!("not a network")
    };
    let flat = ObjectName::new("flat").unwrap();
    let intent = intent::Network::of_cluster_udn(&flat, &object.spec).unwrap();
    let config =
        ClusterConfig::new(cidrs(&["10.244.0.0/16"]), cidrs(&["10.96.0.0/16"]), NodeId::new(1001).unwrap());
    let origin = NetworkOrigin::Cluster(flat);
    let network = Network::of(&intent, &config, origin, None, BTreeMap::new());
    assert_eq!(network.subnets, cidrs(&["100.88.0.0/16"]));
    assert_eq!(network.join_subnets, cidrs(&["100.65.0.0/16", "fd99::/64"]));
    assert_eq!(network.transit_subnets, cidrs(&["100.89.0.0/16"]));
    assert_eq!(Cluster::from(&config).max_nodes, 1000);
}
