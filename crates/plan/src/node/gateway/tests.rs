//! What is found on which node.

use causeway_api::annotations::Annotation as _;
use causeway_types::around::{BridgePort, DefaultRoute, OwnLink};

use super::*;

/// A node as it is described; on it, one of the kind that most are.
struct Machine {
    around: Surroundings,
    bridges: Bridges,
    known_as: Vec<IpAddr>,
}

impl Machine {
    /// A bridge `br-ex` with a card `eth0`, and nothing else.
    fn new() -> Machine {
        let mac = |last: u8| Some(causeway_types::Mac::new([2, 0, 0, 0, 0, last]));
        let links = ["br-ex", "eth0", "eth1"].iter().zip(1..);
        let links = links.map(|(name, last)| OwnLink { name: (*name).into(), mac: mac(last) }).collect();
        let around = Surroundings { links, ..Surroundings::default() };
        let mut machine = Machine { around, bridges: Bridges::new(), known_as: Vec::new() };
        machine.port("br-ex", "br-ex", PortKind::Internal, 65534);
        machine.port("br-ex", "eth0", PortKind::Card, 1);
        machine
    }

    fn port(&mut self, bridge: &str, name: &str, kind: PortKind, number: u32) {
        let bridge = self.bridges.entry(bridge.into()).or_default();
        bridge.ports.insert(name.into(), BridgePort { kind, number: (number > 0).then_some(number) });
    }

    fn address(mut self, device: &str, net: &str) -> Machine {
        let (net, device) = (net.parse().unwrap(), device.into());
        self.around.addresses.push(OwnAddress { net, device, mtu: 1500, fleeting: false });
        self
    }

    fn route(mut self, device: &str, via: &str, metric: u32) -> Machine {
        let via: IpAddr = via.parse().unwrap();
        let (family, device) = (Family::of(&via), device.into());
        self.around.defaults.push(DefaultRoute { family, device, via: Some(via), metric });
        self
    }

    fn known_as(mut self, address: &str) -> Machine {
        self.known_as.push(address.parse().unwrap());
        self
    }

    fn detect(&self, told: &Told) -> Result<GatewayConfig, Missing> {
        let node = "n1".parse().unwrap();
        let masquerade = ["169.254.0.0/17".parse().unwrap(), "fd69::/112".parse().unwrap()];
        let Machine { around, bridges, known_as } = self;
        detect(told, &Facts { node: &node, around, bridges, known_as, masquerade: &masquerade })
    }

    /// Addresses and next hops, each with a blank between.
    fn found(&self, told: &Told) -> (String, String) {
        let config = self.detect(told).unwrap();
        let words = |words: Vec<String>| words.join(" ");
        (
            words(config.ip_addresses.iter().map(ToString::to_string).collect()),
            words(config.next_hops.iter().map(ToString::to_string).collect()),
        )
    }
}

fn told() -> Told {
    Told::default()
}

fn usual() -> Machine {
    Machine::new().address("br-ex", "172.30.0.11/24").route("br-ex", "172.30.0.1", 100)
}

fn pair(addresses: &str, hops: &str) -> (String, String) {
    (addresses.into(), hops.into())
}

#[test]
fn the_usual_node_as_others_read_it() {
    let text = usual().detect(&told()).unwrap().text();
    assert_eq!(
        text,
        r#"{"default":{"mode":"shared","bridge-id":"br-ex","interface-id":"br-ex_n1","mac-address":"02:00:00:00:00:01","ip-addresses":["172.30.0.11/24"],"next-hops":["172.30.0.1"],"node-port-enable":"true","vlan-id":"0"}}"#
    );
    let vlan = usual().detect(&Told { vlan: 7, ..told() }).unwrap();
    assert_eq!(vlan.vlan_id, 7);
}

#[test]
fn of_two_default_routes_the_lower_metric_counts() {
    let machine = usual().route("br-ex", "172.30.0.2", 50).address("eth1", "192.0.2.1/24");
    assert_eq!(machine.found(&told()), pair("172.30.0.11/24", "172.30.0.2"));
    let machine = machine.route("eth1", "192.0.2.254", 70);
    assert_eq!(machine.found(&told()), pair("172.30.0.11/24", "172.30.0.2"), "one by another card");
    let machine = machine.route("eth1", "192.0.2.254", 10);
    assert_eq!(machine.detect(&told()), Err(Missing::Bridge { device: "eth1".into(), told: false }));
    let bridge = Told { interface: Some("br-ex".into()), ..told() };
    assert_eq!(
        machine.found(&bridge),
        pair("172.30.0.11/24", "172.30.0.2"),
        "who is told does not ask routes"
    );
}

#[test]
fn both_families_and_ipv6_alone() {
    let six = |machine: Machine| machine.address("br-ex", "2001:db8::11/64").route("br-ex", "fe80::1", 1024);
    let both = six(usual());
    assert_eq!(both.found(&told()), pair("172.30.0.11/24 2001:db8::11/64", "172.30.0.1 fe80::1"));
    assert_eq!(six(Machine::new()).found(&told()), pair("2001:db8::11/64", "fe80::1"));
    // A router for a family of which the bridge has no address leads nobody out.
    assert_eq!(usual().route("br-ex", "fe80::1", 1024).found(&told()), pair("172.30.0.11/24", "172.30.0.1"));
    let hops = Told { next_hops: vec!["2001:db8::1".parse().unwrap()], ..told() };
    assert_eq!(both.found(&hops).1, "172.30.0.1 2001:db8::1", "families that none is told of are found");
}

#[test]
fn without_a_default_route_tunnels_show_the_bridge() {
    let machine = Machine::new().address("br-ex", "172.30.0.11/24");
    assert_eq!(machine.detect(&told()), Err(Missing::DefaultRoute));
    let bridge = Told { interface: Some("br-ex".into()), ..told() };
    assert_eq!(machine.found(&bridge), pair("172.30.0.11/24", ""));
    assert_eq!(machine.known_as("172.30.0.11").found(&told()), pair("172.30.0.11/24", ""));
    let plain = Machine::new().address("eth1", "192.0.2.1/24").known_as("192.0.2.1");
    assert_eq!(plain.detect(&told()), Err(Missing::DefaultRoute));
}

#[test]
fn of_many_addresses_the_nodes_own_comes_first() {
    let machine = usual()
        .address("br-ex", "172.30.0.12/24")
        .address("br-ex", "172.30.0.13/24")
        .address("br-ex", "2001:db8::11/64")
        .address("br-ex", "2001:db8::12/64")
        .address("eth1", "192.0.2.1/24")
        .known_as("172.30.0.13")
        .known_as("2001:db8::12")
        .known_as("172.30.0.12");
    let expected = "172.30.0.13/24 172.30.0.12/24 172.30.0.11/24 2001:db8::12/64 2001:db8::11/64";
    assert_eq!(machine.found(&told()).0, expected);
}

#[test]
fn addresses_that_are_not_the_nodes() {
    let mut machine = usual()
        .address("br-ex", "169.254.0.2/17")
        .address("br-ex", "fd69::2/112")
        .address("br-ex", "169.254.200.7/16")
        .address("br-ex", "fe80::7/64")
        .address("br-ex", "2001:db8::beef/64");
    machine.around.addresses.last_mut().unwrap().fleeting = true;
    assert_eq!(machine.found(&told()).0, "172.30.0.11/24");
    let machine = machine.known_as("2001:db8::beef");
    assert_eq!(machine.found(&told()).0, "172.30.0.11/24 2001:db8::beef/64", "the node is known by it");
    let bare = Machine::new().address("br-ex", "169.254.0.2/17").route("br-ex", "172.30.0.1", 0);
    assert_eq!(bare.detect(&told()), Err(Missing::Address { bridge: "br-ex".into() }));
}

#[test]
fn the_card_below_the_bridge() {
    let port = |uplink: &str| Told { uplink: Some(uplink.into()), ..told() };
    let mut machine = usual();
    machine.port("br-ex", "patch-br-ex_n1-to-br-int", PortKind::Patch, 4);
    machine.port("br-ex", "storage0", PortKind::Internal, 5);
    machine.port("br-ex", "vxlan0", PortKind::Other, 6);
    assert!(machine.detect(&told()).is_ok(), "one port alone can be the card");
    let by_card = Told { interface: Some("eth0".into()), ..told() };
    assert_eq!(machine.detect(&by_card).unwrap().bridge_id, "br-ex");
    machine.port("br-ex", "eth1", PortKind::Card, 7);
    let several = Missing::OneUplink { bridge: "br-ex".into(), ports: vec!["eth0".into(), "eth1".into()] };
    assert_eq!(machine.detect(&told()), Err(several));
    assert!(machine.detect(&port("eth1")).is_ok());
    let none = Missing::Port { bridge: "br-ex".into(), port: "eth9".into() };
    assert_eq!(machine.detect(&port("eth9")), Err(none));
    machine.bridges.get_mut("br-ex").unwrap().uplink = Some("eth0".into());
    assert!(machine.detect(&told()).is_ok(), "it is written on the bridge");
    machine.port("br-ex", "bond0", PortKind::Bond, 0);
    assert!(matches!(machine.detect(&port("bond0")), Err(Missing::PlainUplink { .. })));
    machine.bridges.get_mut("br-ex").unwrap().uplink = None;
    machine.bridges.get_mut("br-ex").unwrap().ports.retain(|_, port| port.kind == PortKind::Internal);
    assert_eq!(machine.detect(&told()), Err(Missing::Uplink { bridge: "br-ex".into() }));
}

#[test]
fn the_numbers_of_ports() {
    let node: NodeName = "n1".parse().unwrap();
    let mut machine = usual();
    let of = |machine: &Machine| ports(&told(), "br-ex", &node, &machine.bridges);
    let expected = |patch, uplink| Some(BridgePorts { bridge: "br-ex".into(), patch, uplink });
    assert_eq!(of(&machine), expected(None, Some(1)));
    machine.port("br-ex", "patch-br-ex_n2-to-br-int", PortKind::Patch, 3);
    assert_eq!(of(&machine), expected(None, Some(1)), "another node's");
    machine.port("br-ex", "patch-br-ex_n1-to-br-int", PortKind::Patch, 4);
    assert_eq!(of(&machine), expected(Some(4), Some(1)));
    machine.port("br-ex", "eth0", PortKind::Card, 0);
    assert_eq!(of(&machine), expected(Some(4), None), "a card that was pulled");
    assert_eq!(ports(&told(), "br-no", &node, &machine.bridges), None);
}

#[test]
fn a_plain_card_hears_what_to_do() {
    let mut machine = Machine::new().address("eth0", "172.30.0.11/24").route("eth0", "172.30.0.1", 0);
    machine.bridges.clear();
    let words = machine.detect(&told()).unwrap_err().to_string();
    for part in ["leaves by eth0", "docs/gateway.md", "--gateway-mode=disabled"] {
        assert!(words.contains(part), "{words}");
    }
    let named = Told { interface: Some("br-no".into()), ..told() };
    assert!(machine.detect(&named).unwrap_err().to_string().contains("--gateway-interface names br-no"));
}
