//! Annotations: what everybody writes is read, what we write is stable, what is wrong is named.

#![allow(clippy::unwrap_used, reason = "a helper of a test may stop it")]

use std::collections::BTreeMap;

use causeway_api::annotations::{
    Annotation, ChassisId, ConnectBlocks, ConnectRouterKey, ConnectSlots, DefaultNetworkRequest, EncapIps,
    GatewayConfig, GatewayMtuSupport, HostCidrs, Layer2TopologyVersion, ManagementMacs, MasqueradeSubnets,
    NodeSubnets, OpenPorts, PerFamily, PodNetworks, PrimaryAddresses, RequestedNetworks, RequestedPrimary,
    TransitPeerPorts, TransitSwitchPort, TunnelKeys, TunnelMtu,
};
use causeway_types::{Cidr, ConnectOwner, ConnectTopology, DatapathKey, NetworkId, NodeId};
use proptest::prelude::*;

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

/// Reads the text and writes it again.
fn again<A: Annotation>(text: &str) -> String {
    A::parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).text()
}

/// The complaint about a text.
fn problem<A: Annotation>(text: &str) -> String {
    match A::parse(text) {
        Ok(_) => panic!("{text:?} was read"),
        Err(error) => error.to_string(),
    }
}

/// udn-cases F001, F010, F011, F017, F019, F022, cnc-cases M01, M02, M04, M05 and published examples.
#[test]
fn texts_come_back_byte_for_byte() {
    fn same<A: Annotation>(texts: &[&str]) {
        for text in texts {
            assert_eq!(&again::<A>(text), text, "{}", A::KEY);
        }
    }
    same::<NetworkId>(&["0", "1", "54", "4095"]);
    same::<NodeId>(&["2", "4", "1001"]);
    same::<TunnelKeys>(&["[]", "[16711737,16715832]"]);
    same::<NodeSubnets>(&[
        "{}",
        r#"{"cluster_udn_blue":["103.103.2.0/24","fd01:0:0:3::/64"],"default":["10.244.1.0/24"]}"#,
    ]);
    same::<TransitSwitchPort>(&[
        r#"{"ipv4":"100.88.0.4/16","ipv6":"fd97::4/64"}"#,
        r#"{"ipv4":"100.88.0.4/16"}"#,
    ]);
    same::<TransitPeerPorts>(&[
        r#"{"ipv4":"100.88.0.12/30","ipv6":"fd97::8/127"}"#,
        r#"{"ipv4":"100.88.0.4/30"}"#,
    ]);
    same::<MasqueradeSubnets>(&[r#"{"ipv4":"169.254.0.0/17","ipv6":"fd69::/112"}"#]);
    same::<PrimaryAddresses>(&[r#"{"ipv4":"172.18.0.2/16","ipv6":"fc00:f853:ccd:e793::2/64"}"#]);
    same::<ManagementMacs>(&[r#"{"default":"ca:53:88:23:bc:98","l2-network":"5e:52:2a:c0:98:f4"}"#]);
    same::<EncapIps>(&[r#"["172.18.0.2"]"#, "[]"]);
    same::<HostCidrs>(&[r#"["172.18.0.2/16","fc00:f853:ccd:e793::2/64"]"#]);
    same::<ChassisId>(&["bb053a19-99d5-4af8-a8e9-ebcab52908d8"]);
    same::<GatewayMtuSupport>(&["true", "false"]);
    same::<TunnelMtu>(&["1442", "8942"]);
    same::<Layer2TopologyVersion>(&["2.0", "2.1", "10.0"]);
    same::<GatewayConfig>(&[
        r#"{"default":{"mode":"shared","bridge-id":"breth0","interface-id":"breth0_ovn-worker","mac-address":"02:42:ac:12:00:02","ip-addresses":["172.18.0.2/16"],"next-hops":["172.18.0.1"],"node-port-enable":"true","vlan-id":"0"}}"#,
        r#"{"default":{"mode":"","node-port-enable":"false","vlan-id":"0"}}"#,
    ]);
    same::<ConnectRouterKey>(&["16715779", "16715782", "16777215"]);
    same::<ConnectSlots>(&["1", "128", "32767"]);
    same::<ConnectTopology>(&["transit", "both", "compact"]);
    same::<ConnectBlocks>(&[
        "{}",
        r#"{"layer3_1":{"ipv4":"10.0.0.0/24"}}"#,
        r#"{"layer3_1":{"ipv6":"fd00::/64"}}"#,
        r#"{"layer3_1":{"ipv4":"192.168.0.0/24","ipv6":"fd01::/64"},"layer3_12":{"ipv4":"192.168.3.0/24","ipv6":"fd01:0:0:3::/64"},"layer2_40":{"ipv4":"192.168.4.0/31","ipv6":"fd01:0:0:4::/127"}}"#,
    ]);
    same::<RequestedPrimary>(&["blue", "ns1/blue"]);
}

/// udn-cases H001, H004, H005, H007 and published examples.
#[test]
fn pod_networks_come_back_byte_for_byte() {
    for text in [
        "{}",
        r#"{"green/green-network":{"ip_addresses":["203.203.2.5/24"],"mac_address":"0a:58:cb:cb:02:05","gateway_ips":["203.203.2.1"],"routes":[{"dest":"203.203.0.0/16","nextHop":"203.203.2.1"},{"dest":"10.96.0.0/16","nextHop":"203.203.2.1"},{"dest":"100.65.0.0/16","nextHop":"203.203.2.1"}],"ip_address":"203.203.2.5/24","gateway_ip":"203.203.2.1","role":"primary"}}"#,
        r#"{"default":{"ip_addresses":["10.244.1.6/24","fd00:10:244:2::6/64"],"mac_address":"0a:58:0a:f4:01:06","routes":[{"dest":"10.244.0.0/16","nextHop":"10.244.1.1"},{"dest":"fd98::/64","nextHop":"fd00:10:244:2::1"}],"role":"infrastructure-locked"},"demo/db":{"ip_addresses":["10.0.0.3/24","2001:dbb::3/64"],"mac_address":"0a:58:0a:00:00:03","gateway_ips":["10.0.0.1","2001:dbb::1"],"ipv6_lla_gateway_ip":"fe80::858:aff:fe00:1","tunnel_id":10,"role":"primary"}}"#,
        r#"{"ns/nad":{"ip_addresses":["10.0.0.1/24"],"mac_address":"0a:58:0a:00:00:01","ip_address":"10.0.0.1/24","tunnel_id":11,"role":"secondary"},"ns/nad/1":{"mac_address":"0a:58:0a:00:00:02","role":"secondary"}}"#,
    ] {
        assert_eq!(again::<PodNetworks>(text), text);
    }
}

/// The published proposal calls the role `type`; old writers leave the list out.
#[test]
fn old_pod_networks_are_read() {
    let old = r#"{"default":{"ip_address":"10.244.1.6/24","mac_address":"0a:58:0a:f4:01:06","type":"default"},
                  "default/l3-network":{"ip_addresses":["10.128.1.3/24"],"mac_address":"0a:58:0a:80:01:03","type":"primary"}}"#;
    let new = r#"{"default":{"ip_addresses":["10.244.1.6/24"],"mac_address":"0a:58:0a:f4:01:06","ip_address":"10.244.1.6/24","role":"infrastructure-locked"},"default/l3-network":{"ip_addresses":["10.128.1.3/24"],"mac_address":"0a:58:0a:80:01:03","ip_address":"10.128.1.3/24","role":"primary"}}"#;
    assert_eq!(again::<PodNetworks>(old), new);
}

/// udn-cases G017.
#[test]
fn a_bare_node_subnet_is_a_list_of_one() {
    assert_eq!(again::<NodeSubnets>(r#"{"default":"10.244.0.0/24"}"#), r#"{"default":["10.244.0.0/24"]}"#);
}

/// cnc-cases M08, M10: the writer sorts, whatever the order was.
#[test]
fn connect_blocks_are_sorted() {
    let id = |number| NetworkId::new(number).unwrap();
    let block = |text| PerFamily::collect([cidr(text)]);
    let blocks = ConnectBlocks(BTreeMap::from([
        (ConnectOwner::Layer2(id(50)), block("192.168.4.0/31")),
        (ConnectOwner::Layer3(id(100)), block("192.168.1.0/24")),
        (ConnectOwner::Layer3(id(9)), block("192.168.0.0/24")),
    ]));
    let text = r#"{"layer3_9":{"ipv4":"192.168.0.0/24"},"layer3_100":{"ipv4":"192.168.1.0/24"},"layer2_50":{"ipv4":"192.168.4.0/31"}}"#;
    assert_eq!(blocks.text(), text);
    let shuffled = r#"{"layer2_50":{"ipv4":"192.168.4.0/31"},"layer3_100":{"ipv4":"192.168.1.0/24"},"layer3_9":{"ipv4":"192.168.0.0/24"}}"#;
    assert_eq!(ConnectBlocks::parse(shuffled), Ok(blocks));
    assert_eq!(ConnectBlocks::parse(""), Ok(ConnectBlocks::default()));
}

#[test]
fn requested_networks_have_two_notations() {
    let long = r#"[{"name":"a","namespace":"ns","interface":"net1"},{"name":"b"}]"#;
    assert_eq!(again::<RequestedNetworks>("ns/a@net1, b"), long);
    assert_eq!(again::<RequestedNetworks>(long), long);
    let wishes = r#"[{"name":"a","ips":["10.0.0.5/24","10.0.0.6"],"mac":"02:01:02:03:04:05","ipam-claim-reference":"vm.net"}]"#;
    assert_eq!(again::<RequestedNetworks>(wishes), wishes);
    assert_eq!(again::<RequestedNetworks>(""), "[]");
}

#[test]
fn open_ports_are_yaml() {
    let ports =
        OpenPorts::parse("- protocol: tcp\n  port: 80\n- protocol: UDP\n  port: 53\n- protocol: icmp\n")
            .unwrap();
    assert_eq!(
        ports.text(),
        r#"[{"protocol":"tcp","port":80},{"protocol":"udp","port":53},{"protocol":"icmp"}]"#
    );
    assert!(problem::<OpenPorts>("- protocol: tcp").contains("port is missing"));
    assert!(problem::<OpenPorts>("- {protocol: icmp, port: 1}").contains("makes no sense for ICMP"));
    assert!(problem::<OpenPorts>("- {protocol: tcp, port: 0}").contains("port 0 does not exist"));
}

/// Block style, flow style and JSON say the same; order and repetitions say nothing.
#[test]
fn open_ports_are_written_in_several_ways() {
    let expected = OpenPorts::parse(r#"[{"protocol":"tcp","port":80},{"protocol":"icmp"}]"#).unwrap();
    for text in [
        "- protocol: icmp\n- port: 80\n  protocol: tcp\n",
        "---\n# both\n- protocol: icmp # no port\n- protocol: 'TCP'\n  port: 80\n\n- {protocol: tcp, port: 80}\n",
        "  -\n    protocol: icmp\n  - {port: 80, protocol: \"tcp\",}\n",
        "[{protocol: tcp, port: 80}, {protocol: ICMP}, {protocol: icmp},]",
    ] {
        assert_eq!(OpenPorts::parse(text), Ok(expected.clone()), "{text}");
    }
    assert_eq!(OpenPorts::parse("[]").unwrap(), OpenPorts::parse("").unwrap());
}

/// What is wrong is named, in few words; what only a whole YAML library would read is refused.
#[test]
fn open_ports_that_cannot_be_read_are_named() {
    for (text, expected) in [
        ("- protocol: quic\n  port: 1", "protocol \"quic\" is none of tcp, udp, sctp, icmp, icmpv6"),
        ("- protocol: tcp\n  port: 70000", "port \"70000\" is no port number"),
        ("- protocol: tcp\n  prot: 7", "line 2: \"prot\" is neither protocol nor port"),
        ("- protocol: tcp\n  protocol: udp", "line 2: protocol is written twice"),
        ("protocol: tcp", "line 1: this is no list of ports"),
        ("- &a {protocol: tcp, port: 1}\n- *a", "line 1:"),
        ("- !!str x", "line 1:"),
        ("[{protocol: tcp, port: 1}", "']' is missing"),
        ("[{protocol: tcp, port: 1}] x", "\"x\" is too much"),
    ] {
        let problem = problem::<OpenPorts>(text);
        assert!(problem.contains(expected) && problem.len() < 200, "{text}: {problem}");
    }
    let port = |number: usize| format!("- {{protocol: tcp, port: {number}}}\n");
    let most: String = (1..=32).chain(1..=32).map(port).collect();
    assert_eq!(OpenPorts::parse(&most).unwrap().0.len(), 32);
    let more = (1..=65).map(port).collect::<String>();
    assert!(problem::<OpenPorts>(&more).contains("there are more than 64 ports: write fewer"));
    assert!(problem::<OpenPorts>(&port(80).repeat(65)).contains("more than 64 ports"), "repetitions count");
}

/// Networks in a form that is neither notation: the message says which of them it takes the text for, and what to write.
#[test]
fn requested_networks_that_cannot_be_read_are_named() {
    let begin = "annotation k8s.v1.cni.cncf.io/networks is malformed: ";
    for (text, expected) in [
        (r#"{"name":"a"}"#, "JSON must be a list of networks: write [ in front and ] at the end"),
        (r#""a""#, "JSON must be a list of networks: write [ in front and ] at the end"),
        (r#"[{"name":"a"}"#, "EOF while parsing a list at line 1 column 13"),
        (r#"[{"name":"a"}] b"#, "trailing characters at line 1 column 16"),
        (r#"[{"namespace":"a"}]"#, "missing field `name` at line 1 column 18"),
        (r#"["a"]"#, "invalid type: string \"a\", expected struct NetworkSelection at line 1 column 4"),
    ] {
        assert_eq!(problem::<RequestedNetworks>(text), format!("{begin}{expected}"), "{text}");
    }
    let one = problem::<DefaultNetworkRequest>(r#"{"name":"default"}"#);
    assert_eq!(
        one,
        "annotation v1.multus-cni.io/default-network is malformed: JSON must be a list of networks: write [ in front and ] at the end"
    );
}

/// udn-cases F007, H038, cnc-cases M08.
#[test]
fn what_is_wrong_is_named() {
    assert_eq!(
        problem::<NetworkId>("abc"),
        "annotation k8s.ovn.org/network-id is malformed: network id \"abc\" is not a decimal number"
    );
    assert!(problem::<NetworkId>("4096").contains("out of range"));
    assert!(problem::<NodeId>("1").contains("out of range"));
    assert_eq!(
        problem::<TunnelKeys>("[16711737]"),
        "annotation k8s.ovn.org/tunnel-keys is malformed: it has 1 keys instead of none or two"
    );
    assert!(problem::<TunnelKeys>("[0,1]").contains("out of range"));
    assert!(
        problem::<NodeSubnets>(r#"{"blue":["10.0.0.1/24"]}"#)
            .contains("network blue: CIDR 10.0.0.1/24 has host bits set")
    );
    assert!(problem::<TransitPeerPorts>(r#"{"ipv4":"fd97::8/127"}"#).contains("fd97::8/127 is not IPv4"));
    assert!(problem::<TransitPeerPorts>("{}").contains("neither ipv4 nor ipv6 is there"));
    assert!(problem::<TransitPeerPorts>(r#"{"ipv5":"x"}"#).contains("unknown field `ipv5`"));
    assert!(problem::<ConnectRouterKey>("50000").contains("out of range"));
    assert!(problem::<ConnectRouterKey>("016715782").contains("is not a decimal number"));
    assert!(problem::<ConnectSlots>("32768").contains("32768 is not within 1 and 32767"));
    assert!(problem::<ConnectTopology>("Transit").contains("\"Transit\" is none of transit, both, compact"));
    for owner in ["unknown_1", "layer31", "", "layer3_", "layer3_4096"] {
        assert!(
            ConnectBlocks::parse(&format!(r#"{{"{owner}":{{"ipv4":"10.0.0.0/24"}}}}"#)).is_err(),
            "{owner}"
        );
    }
    assert!(problem::<Layer2TopologyVersion>("2").contains("\"2\" is not a version such as 2.0"));
    assert!(problem::<Layer2TopologyVersion>("+2.0").contains("is not a version"));
    assert!(problem::<ChassisId>("").contains("is not the name of a chassis"));
    assert!(problem::<GatewayConfig>("{}").contains("the default network is not in it"));
    assert!(problem::<RequestedPrimary>("a/b/c").contains("object name"));
}

#[test]
fn what_is_wrong_with_a_pods_networks_is_named() {
    let entry = |rest: &str| format!(r#"{{"ns/a":{{"mac_address":"0a:58:0a:00:00:03"{rest}}}}}"#);
    let problem = |rest: &str| problem::<PodNetworks>(&entry(rest));
    assert!(
        problem(r#","ip_addresses":["10.0.0.3/24"],"ip_address":"10.0.0.4/24""#)
            .contains("ns/a: ip_address and its list disagree")
    );
    assert!(
        problem(r#","gateway_ips":["10.0.0.1"],"gateway_ip":"10.0.0.2""#)
            .contains("gateway_ip and its list disagree")
    );
    assert!(
        problem(r#","routes":[{"dest":"0.0.0.0/0","nextHop":"10.0.0.1"}]"#)
            .contains("belongs into gateway_ips")
    );
    assert!(
        problem(r#","routes":[{"dest":"10.0.0.0/8","nextHop":"fd00::1"}]"#)
            .contains("of the other IP family")
    );
    assert!(
        problem(r#","routes":[{"dest":"10.0.0.0/8","nextHop":"x"}]"#)
            .contains("next hop \"x\" is not an address")
    );
    assert!(problem(r#","tunnel_id":32768"#).contains("out of range"));
    assert!(problem(r#","role":"tertiary""#).contains("unknown variant `tertiary`"));
    assert!(PodNetworks::parse(r#"{"not a key":{"mac_address":"0a:58:0a:00:00:03"}}"#).is_err());
    assert!(PodNetworks::parse(r#"{"ns/a":{}}"#).is_err());
}

/// Reading never panics, and what was read is written so that it reads the same.
fn reads_or_refuses<A: Annotation + PartialEq + std::fmt::Debug>(text: &str) {
    if let Ok(value) = A::parse(text) {
        assert_eq!(A::parse(&value.text()).as_ref(), Ok(&value), "{}", value.text());
    }
}

fn all(text: &str) {
    reads_or_refuses::<NetworkId>(text);
    reads_or_refuses::<NodeId>(text);
    reads_or_refuses::<TunnelKeys>(text);
    reads_or_refuses::<NodeSubnets>(text);
    reads_or_refuses::<TransitSwitchPort>(text);
    reads_or_refuses::<TransitPeerPorts>(text);
    reads_or_refuses::<ManagementMacs>(text);
    reads_or_refuses::<GatewayConfig>(text);
    reads_or_refuses::<ConnectBlocks>(text);
    reads_or_refuses::<ConnectRouterKey>(text);
    reads_or_refuses::<Layer2TopologyVersion>(text);
    reads_or_refuses::<PodNetworks>(text);
    reads_or_refuses::<RequestedNetworks>(text);
    reads_or_refuses::<OpenPorts>(text);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        all(&text);
    }

    #[test]
    fn json_like_text_is_read_or_refused(
        text in r#"[\[{]{1,3}("(default|ipv4|ipv6|layer3_1|ns/a|mac_address|ip_address|routes|dest)":?|[0-9a-f:./]{1,12}|[\[\]{},:"]){0,24}"#
    ) {
        all(&text);
    }

    #[test]
    fn tunnel_keys_survive(switch in 1u32..=DatapathKey::LAST, router in 1u32..=DatapathKey::LAST) {
        let keys = TunnelKeys(Some([DatapathKey::new(switch).unwrap(), DatapathKey::new(router).unwrap()]));
        prop_assert_eq!(TunnelKeys::parse(&keys.text()), Ok(keys));
    }
}
