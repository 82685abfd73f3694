//! Connections after any history: whatever happened in whatever order, nobody has what somebody else has, and no zone
//! meets a number again that it knew as somebody else's.

use std::collections::BTreeMap;

use causeway_record::Kind;
use causeway_types::ConnectTopology;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{World, cudns, ipv4, namespaces};

const CNC: Kind = Kind::ClusterNetworkConnect;
const CUDN: Kind = Kind::ClusterUserDefinedNetwork;
const NODES: [&str; 3] = ["n0", "n1", "n2"];

/// One thing that happens in a cluster.
#[derive(Clone, Debug)]
enum Happens {
    /// A network comes or goes.
    Network(u8),
    /// A network's label is set or taken away.
    Label(u8, bool),
    /// A namespace's label is set or taken away.
    Namespace(u8, bool),
    /// A connection comes or goes.
    Connect(u8),
    /// A connection selects in another way.
    Selects(u8, bool),
    /// A node comes or goes.
    Node(u8),
    /// A zone sees everything as it is, and says so.
    Zone(u8),
    /// Time passes.
    Second,
    /// The manager is started again with another topology.
    Topology(bool),
    /// Another manager takes over after so many of the writes of the next event.
    Lost(Box<Happens>, usize),
}

fn happens() -> impl Strategy<Value = Happens> {
    let plain = prop_oneof![
        3 => (0..5_u8).prop_map(Happens::Network),
        4 => (0..5_u8, any::<bool>()).prop_map(|(network, yes)| Happens::Label(network, yes)),
        2 => (0..5_u8, any::<bool>()).prop_map(|(network, yes)| Happens::Namespace(network, yes)),
        3 => (0..3_u8).prop_map(Happens::Connect),
        2 => (0..3_u8, any::<bool>()).prop_map(|(connect, by_name)| Happens::Selects(connect, by_name)),
        1 => (0..3_u8).prop_map(Happens::Node),
        4 => (0..3_u8).prop_map(Happens::Zone),
        1 => Just(Happens::Second),
        1 => any::<bool>().prop_map(Happens::Topology),
    ]
    .boxed();
    let lost = (plain.clone(), 0..4_usize).prop_map(|(event, kept)| Happens::Lost(Box::new(event), kept));
    prop_oneof![6 => plain, 1 => lost]
}

/// Who had what when a zone last looked: tunnel keys by object, blocks by key and network.
type View = BTreeMap<String, String>;

fn view(world: &World) -> View {
    let mut view = View::new();
    for object in world.objects.iter().filter(|(target, _)| target.kind == CNC).map(|(_, object)| object) {
        let annotations = &object["metadata"]["annotations"];
        let Some(key) = annotations["k8s.ovn.org/connect-router-tunnel-key"].as_str() else { continue };
        let earlier = view.insert(key.to_owned(), object["metadata"]["uid"].to_string());
        assert_eq!(earlier, None, "key {key} is held twice");
        let text = annotations["k8s.ovn.org/network-subnets"].as_str().unwrap_or("{}");
        let blocks: BTreeMap<String, Value> = serde_json::from_str(text).unwrap();
        for (owner, block) in blocks {
            let earlier = view.insert(format!("{key} {block}"), owner);
            assert_eq!(earlier, None, "block {block} is held twice in {text}");
        }
    }
    view
}

struct Story {
    world: World,
    now_ms: i64,
    views: BTreeMap<String, View>,
}

impl Story {
    fn begin() -> Self {
        let mut world = World::new(ipv4(), &NODES[..2]);
        for network in 0..5 {
            let name = format!("t{network}");
            world.tenant(&name);
            world.change_namespace(&name, &json!({"metadata": {"labels": {"name": name}}}));
        }
        Self { world, now_ms: 1_000, views: BTreeMap::new() }
    }

    fn play(&mut self, happens: &Happens) {
        match happens {
            Happens::Network(network) => self.network(*network),
            Happens::Label(network, yes) => {
                let path = format!("t{network}");
                if !self.world.object(CUDN, &path).is_null() {
                    self.world.change(CUDN, &path, &label(*yes));
                }
            }
            Happens::Namespace(network, yes) => {
                self.world.change_namespace(&format!("t{network}"), &label(*yes));
            }
            Happens::Connect(connect) => self.connect(*connect),
            Happens::Selects(connect, by_name) => {
                let path = format!("c{connect}");
                if !self.world.object(CNC, &path).is_null() {
                    let selectors = json!([selector(*by_name)]);
                    self.world.change(CNC, &path, &json!({"spec": {"networkSelectors": selectors}}));
                }
            }
            Happens::Node(node) => self.node(NODES[usize::from(*node)]),
            Happens::Zone(node) => self.zone(NODES[usize::from(*node)]),
            Happens::Second => self.second(),
            Happens::Topology(compact) => {
                let topology = if *compact { ConnectTopology::Compact } else { ConnectTopology::Transit };
                self.world.config.connect_topology = topology;
                self.restart(0);
            }
            Happens::Lost(event, kept) => self.lose(event, *kept),
        }
    }

    fn network(&mut self, network: u8) {
        let name = format!("t{network}");
        if !self.world.object(CUDN, &name).is_null() {
            return self.world.delete(CUDN, &name);
        }
        let cidr = format!("10.{network}.0.0/16");
        let spec = match network % 2 {
            0 => {
                json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": [{"cidr": cidr, "hostSubnet": 24}]}})
            }
            _ => json!({"topology": "Layer2", "layer2": {"role": "Primary", "subnets": [cidr]}}),
        };
        self.world.cudn(&name, json!({"matchLabels": {"name": name}}), spec);
    }

    /// Two have few blocks; two are over the same subnet.
    fn connect(&mut self, connect: u8) {
        let name = format!("c{connect}");
        if self.world.object(CNC, &name).is_null() {
            let subnets = [("192.168.0.0/26", 29), ("192.168.0.0/24", 28), ("192.169.0.0/16", 24)];
            self.world.connect(
                &name,
                &subnets[usize::from(connect)..=usize::from(connect)],
                json!([selector(false)]),
            );
        } else {
            self.world.delete(CNC, &name);
        }
    }

    fn node(&mut self, node: &str) {
        if self.world.object(Kind::Node, node).is_null() {
            self.world.node(node);
        } else {
            // Its zone goes with it, and the report with the node.
            self.views.remove(node);
            self.world.delete(Kind::Node, node);
            self.world.delete(Kind::ZoneReport, node);
        }
    }

    fn zone(&mut self, node: &str) {
        if !self.world.object(Kind::Node, node).is_null() {
            self.views.insert(node.to_owned(), view(&self.world));
            self.world.zone_follows(node);
        }
    }

    fn second(&mut self) {
        self.now_ms += 1_000;
        self.world.tick(self.now_ms);
    }

    fn restart(&mut self, turn: usize) {
        self.world.restart(|objects| {
            let count = objects.len().max(1);
            objects.rotate_left(turn % count);
        });
        self.now_ms = self.now_ms.max(99_000_000);
    }

    fn lose(&mut self, event: &Happens, kept: usize) {
        self.world.paused = true;
        self.play(event);
        self.world.held.truncate(kept);
        self.world.paused = false;
        while let Some(request) = self.world.held.pop_front() {
            self.world.perform_only(&request);
        }
        self.restart(kept);
    }

    /// No zone finds somebody else under a number that it knows.
    fn check(&self) {
        let now = view(&self.world);
        for (node, before) in &self.views {
            for (number, owner) in before {
                let holder = now.get(number).unwrap_or(owner);
                assert_eq!(holder, owner, "{number}, as node {node} knows it");
            }
        }
    }
}

fn label(yes: bool) -> Value {
    let value = if yes { json!("yes") } else { Value::Null };
    json!({"metadata": {"labels": {"connected": value}}})
}

fn selector(by_namespace: bool) -> Value {
    let labels = json!({"connected": "yes"});
    if by_namespace { namespaces(labels) } else { cudns(labels) }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Blocks and keys belong to one, freed ones rest until no zone knows them, and another manager finds nothing to write.
    #[test]
    fn numbers_are_never_met_twice(history in proptest::collection::vec(happens(), 0..60), turn in 0..50_usize) {
        let mut story = Story::begin();
        for event in &history {
            story.play(event);
            story.check();
        }
        story.second();
        story.second();
        let before = story.world.objects.clone();
        story.restart(turn);
        prop_assert_eq!(&story.world.writes, &Vec::<String>::new());
        prop_assert_eq!(&story.world.objects, &before);
    }
}

/// How many links have keys is written with the first block. If that goes before the write has come back, zones count it
/// all the same.
#[test]
fn what_was_written_belongs_to_what_is_reported() {
    let mut story = Story::begin();
    let history = [
        Happens::Connect(0),
        Happens::Selects(0, true),
        Happens::Network(4),
        Happens::Connect(1),
        Happens::Namespace(4, true),
        Happens::Label(4, true),
        Happens::Network(4),
        Happens::Zone(0),
        Happens::Second,
        Happens::Second,
    ];
    history.iter().for_each(|event| story.play(event));
    assert!(story.world.condition(CNC, "c1", "Ready-In-Zone-n0").starts_with("True"));
}

/// The first of several nodes that come back is the one that numbers wait for now, and it has cleared them: they are free at once,
/// not only when the next manager looks.
#[test]
fn the_first_node_that_is_back_frees_numbers() {
    let mut story = Story::begin();
    let gone = Happens::Lost(Box::new(Happens::Connect(1)), 0);
    let nodes = [0, 0, 1, 1].map(Happens::Node);
    [Happens::Connect(1), gone]
        .iter()
        .chain(&nodes)
        .chain([&Happens::Zone(0)])
        .for_each(|event| story.play(event));
    story.second();
    story.second();
    let before = story.world.objects.clone();
    story.restart(0);
    assert_eq!((&story.world.writes, &story.world.objects), (&Vec::new(), &before));
}
