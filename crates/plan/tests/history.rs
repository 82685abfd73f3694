//! After any history of events, what the events made dirty is all that had to be looked at.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use causeway_ovn::Str;
use causeway_plan::host::{HostKeeper, host};
use causeway_plan::{Dirty, northbound, southbound};
use causeway_record::{
    Connect, EndpointSlice, HostPort, Nad, NamedPort, Namespace, NetworkPolicy, Node, ObjectKey, Pod,
    Protocol, Service,
};
use causeway_types::host::HostPlan;
use causeway_types::{ConnectName, NamespaceName, NodeName};
use causeway_zone::{BridgePorts, Cgroup, Changes, Kubelet, Processes, Render, Zone};
use proptest::prelude::*;
use serde_json::{Value, json};
use support::ledger::Ledger;
use support::server::{Databases, run};
use support::*;

#[derive(Clone, Debug)]
enum Event {
    Node(Node),
    NoNode(NodeName),
    Nad(Nad),
    NoNad(ObjectKey),
    Pod(Pod),
    NoPod(ObjectKey),
    Connect(Connect),
    NoConnect(ConnectName),
    Namespace(Namespace),
    NoNamespace(NamespaceName),
    Service(Service),
    NoService(ObjectKey),
    Slice(EndpointSlice),
    NoSlice(ObjectKey),
    Policy(NetworkPolicy),
    NoPolicy(ObjectKey),
    Bridge(Option<BridgePorts>),
    Processes(Processes),
    Tick,
}

fn nodes() -> impl Strategy<Value = Event> {
    // Ids repeat: two nodes may claim one, for a while.
    (1..=4u32, 2..=5u32, 0..10u8).prop_map(|(n, id, kind)| {
        let name = format!("n{n}");
        let node = node(&name, if kind < 6 { n + 1 } else { id });
        let node = at_addresses(node, &[&format!("172.18.0.{}", n + 1)]);
        match kind {
            0 => Event::NoNode(node.name),
            1 => Event::Node(settled(without(node, "node-chassis-id"))),
            2 => Event::Node(without(node, "node-id")),
            3 if n == 1 => Event::Node(with_gateway(node, Ip::V4, "shared")),
            4 if n == 1 => Event::Node(with_gateway(node, Ip::V4, "local")),
            8 if n == 1 => Event::Node(annotate(node, "vteps", r#"{"fabric":{"ips":["10.255.0.1"]}}"#)),
            5 => Event::Node(settled(annotate(node, "node-chassis-id", "c-new"))),
            // What nobody can read. Without its own node a zone plans nothing, and says so once.
            6 if n != 1 => Event::Node(annotate(node, "node-chassis-record", "[\"nowhere\"]")),
            7 if n != 1 => Event::Node(annotate(node, "node-id", "none")),
            _ => Event::Node(node),
        }
    })
}

/// Networks 1 and 2 are layer3 and would have objects of one name, 3 and 4 are layer2. The last may grow into the addresses
/// of the third.
fn network(id: u32, namespace: &str, grown: bool) -> Nad {
    let (name, topology, subnets) = match id {
        1 => ("cluster_udn_a-b", "layer3", "10.20.0.0/16/24"),
        2 => ("cluster_udn_a.b", "layer3", "10.20.0.0/16/24"),
        3 => ("cluster_udn_c", "layer2", "203.203.0.0/16"),
        _ if grown => ("cluster_udn_d", "layer2", "203.0.0.0/8"),
        _ => ("cluster_udn_d", "layer2", "203.204.0.0/16"),
    };
    let config = serde_json::json!({"topology": topology, "subnets": subnets});
    nad(&format!("{namespace}/x{id}"), name, id, config)
}

/// The same on the fabric.
fn on_fabric(id: u32, namespace: &str) -> Nad {
    let plain = network(id, namespace, false);
    let mut fields: Value = serde_json::from_str(plain.config()).unwrap();
    fields["transport"] = "evpn".into();
    fields["evpn"] = json!({"vtep": "fabric", "ipVRF": {"vni": 1000 + id}});
    if fields["topology"] == "layer2" {
        fields["evpn"]["macVRF"] = json!({"vni": 2000 + id});
    }
    let mut nad = plain;
    nad.configure(fields.to_string());
    nad
}

fn nads() -> impl Strategy<Value = Event> {
    (1..=4u32, prop::sample::select(vec!["ns1", "ns2"]), 0..8u8, 0..3u8).prop_map(
        |(id, namespace, kind, age)| {
            let mut nad = network(id, namespace, kind == 4);
            nad.annotate("k8s.ovn.org/primary-network-created", Some(&age.to_string()));
            match kind {
                0 | 1 => return Event::NoNad(nad.key),
                2 => nad.annotate("k8s.ovn.org/network-id", None),
                3 => nad.annotate("k8s.ovn.org/network-id", Some("7")),
                5 => nad.annotate("k8s.ovn.org/network-id", Some("many")),
                6 => nad.configure("{"),
                7 => nad = on_fabric(id, namespace),
                _ => {}
            }
            Event::Nad(nad)
        },
    )
}

fn pods() -> impl Strategy<Value = Event> {
    let namespace = prop::sample::select(vec!["ns1", "ns2"]);
    (0..3u32, namespace, 1..=4u32, 0..=4u32, 0..11u8).prop_map(|(n, namespace, on, network, kind)| {
        let (name, on) = (format!("{namespace}/p{n}"), format!("n{on}"));
        let (locked, own) = (format!("10.244.0.{}/24", n + 3), format!("203.203.0.{}/16", n + 3));
        let attachment = format!("{namespace}/x{network}");
        let mut pod = match network {
            0 => pod(&name, &on, &[("default", "primary", &[locked.as_str()], None)]),
            _ => pod(
                &name,
                &on,
                &[
                    ("default", "infrastructure-locked", &[locked.as_str()], None),
                    (attachment.as_str(), "primary", &[own.as_str()], Some(n + 3)),
                ],
            ),
        };
        let app = if kind == 8 { "db" } else { "web" };
        pod.labels = [("app".to_owned(), app.to_owned())].into();
        pod.named_ports =
            vec![NamedPort { name: "http".into(), protocol: Protocol::Tcp, port: 80 + u16::from(kind % 2) }];
        match kind {
            0 | 1 => return Event::NoPod(pod.key),
            2 => pod.networks = Ok(None),
            3 => pod.finished = true,
            4 => pod.annotate("k8s.ovn.org/pod-networks", Some("{\"default\":")),
            5 => pod.annotate("k8s.ovn.org/open-default-ports", Some(r#"[{"protocol":"tcp","port":80}]"#)),
            6 => pod = Pod { labels: pod.labels, ..host_pod(&name, &on) },
            // Two pods of one node may ask for the same, and for a node port of a service.
            7 => pod.host_ports = Ok(vec![host_port(8080), host_port(30080)]),
            8 => pod.host_ports = Err("too many".into()),
            _ => {}
        }
        Event::Pod(pod)
    })
}

fn host_port(port: u16) -> HostPort {
    HostPort { address: None, protocol: Protocol::Tcp, port, target: 80 }
}

/// Two connections of any of the networks, of one that is known by another number at times, and of one that never is.
fn connects() -> impl Strategy<Value = Event> {
    const OWNERS: [&str; 7] =
        ["layer3_1", "layer3_2", "layer2_3", "layer2_4", "layer3_7", "layer2_7", "layer3_9"];
    let owners = prop::sample::subsequence(OWNERS.to_vec(), 0..5);
    let topology = prop::sample::select(vec!["transit", "both", "compact"]);
    let grants = prop::sample::select(vec![(true, false), (true, true), (false, true)]);
    (1..=2u8, topology, owners, grants, 0..10u8).prop_map(|(n, topology, owners, (pods, services), kind)| {
        let connect = connect(&format!("c{n}"), topology, Ip::V4, &owners);
        let mut connect = granting(connect, pods, services);
        match kind {
            0 => return Event::NoConnect(connect.name),
            1 => connect = with_annotation(connect, "connect-topology", None),
            2 => connect = with_annotation(connect, "connect-router-tunnel-key", None),
            3 => connect = with_annotation(connect, "network-subnets", Some("{")),
            4 => connect = granting(connect, false, false),
            5 => connect.deleting = true,
            _ => {}
        }
        Event::Connect(connect)
    })
}

fn namespaces() -> impl Strategy<Value = Event> {
    (prop::sample::select(vec!["ns1", "ns2"]), 0..5u8).prop_map(|(name, kind)| {
        let mut namespace = namespace(name, kind == 1);
        match kind {
            0 => return Event::NoNamespace(namespace.name),
            2 => drop(namespace.labels.insert("team".into(), "a".into())),
            3 => namespace.logging.deny = Some(causeway_record::Severity::Info),
            _ => {}
        }
        Event::Namespace(namespace)
    })
}

/// Policies of two namespaces, with peers of every kind, named ports, and what cannot be read.
fn policies() -> impl Strategy<Value = Event> {
    let names = vec!["ns1/p", "ns1/q", "ns2/p"];
    let subjects =
        vec![json!({}), json!({"matchLabels": {"app": "web"}}), json!({"matchLabels": {"app": "db"}})];
    let peers = vec![
        json!({"podSelector": {}}),
        json!({"podSelector": {"matchLabels": {"app": "web"}}, "namespaceSelector": {}}),
        json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}),
        json!({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}),
        json!({"ipBlock": {"cidr": "203.0.0.0/8", "except": ["203.203.0.0/24"]}}),
        json!({}),
    ];
    let ports = vec![json!({"port": "http"}), json!({"port": 80, "endPort": 90}), json!({"protocol": "UDP"})];
    let rule = (prop::sample::subsequence(peers, 0..4), prop::sample::subsequence(ports, 0..3));
    let rules = prop::collection::vec(rule, 0..3);
    let both = (rules.clone(), rules, 0..5u8);
    (prop::sample::select(names), prop::sample::select(subjects), both).prop_map(
        |(name, pods, (into, out, kind))| {
            let rule =
                |peers: &str, (given, ports): (Vec<Value>, Vec<Value>)| json!({peers: given, "ports": ports});
            let ingress: Vec<Value> = into.into_iter().map(|given| rule("from", given)).collect();
            let egress: Vec<Value> = out.into_iter().map(|given| rule("to", given)).collect();
            let types = [json!(["Ingress"]), json!(["Egress"]), json!(["Ingress", "Egress"])]
                [usize::from(kind % 3)]
            .clone();
            let spec =
                json!({"podSelector": pods, "policyTypes": types, "ingress": ingress, "egress": egress});
            let policy = policy(name, spec);
            if kind == 4 { Event::NoPolicy(policy.key) } else { Event::Policy(policy) }
        },
    )
}

fn services() -> impl Strategy<Value = Event> {
    let names = vec!["ns1/a", "ns1/b", "ns2/a", "default/kubernetes"];
    (prop::sample::select(names), 0..10u8).prop_map(|(name, kind)| {
        let mut service = service(name, if kind == 1 { &[] } else { &["10.96.0.50"] });
        match kind {
            0 => return Event::NoService(service.key),
            2 => service.local = true,
            // From outside, also by addresses that two of them say to have, or that are a node's.
            3 | 4 => {
                service.ports[0].node_port = Some(if name == "ns1/a" { 30080 } else { 30081 });
                service.external_local = kind == 4;
            }
            5 => service.external_ips = vec!["192.0.2.1".parse().unwrap(), "172.18.0.3".parse().unwrap()],
            6 | 7 => {
                service.ingress_ips = vec!["192.0.2.1".parse().unwrap()];
                service.source_ranges = (kind == 7).then(|| vec!["198.51.100.0/24".parse().unwrap()]);
            }
            _ => {}
        }
        Event::Service(service)
    })
}

/// Slices of any of the networks, with addresses inside and outside of them. A slice may change its service.
fn slices() -> impl Strategy<Value = Event> {
    const NETWORKS: [Option<&str>; 4] =
        [None, Some("cluster_udn_a-b"), Some("cluster_udn_c"), Some("cluster_udn_d")];
    let endpoints = prop::sample::select(vec!["10.20.0.5@n1", "203.203.0.7@n2", "203.204.0.7@n1"]);
    let names = (prop::sample::select(vec!["ns1", "ns2"]), prop::sample::select(vec!["a", "b"]), 1..=3u8);
    (names, prop::sample::select(NETWORKS.to_vec()), endpoints, 0..5u8).prop_map(
        |((namespace, service, n), network, endpoint, kind)| {
            let mut slice = slice(&format!("{namespace}/s{n}"), service, network, &[endpoint]);
            match kind {
                0 => return Event::NoSlice(slice.key),
                1 => slice.endpoints[0].conditions.ready = Some(false),
                2 => slice.labels.clear(),
                _ => {}
            }
            Event::Slice(slice)
        },
    )
}

fn bridges() -> impl Strategy<Value = Event> {
    (0..4u8).prop_map(|kind| {
        let ports = BridgePorts { bridge: "breth0".into(), patch: (kind != 1).then_some(3), uplink: Some(1) };
        Event::Bridge((kind != 0).then_some(ports))
    })
}

/// The kubelet, and pods in the node's own network, which are looked for and found or not.
fn processes() -> impl Strategy<Value = Event> {
    let pods = prop::sample::subsequence(vec!["uid-p0", "uid-p1", "uid-p2"], 0..=3);
    (pods, any::<bool>(), 0..3u32).prop_map(|(pods, found, user)| {
        let cgroup = |uid: &str| Cgroup { path: format!("kubepods/pod{uid}"), id: 1 };
        let pods = pods.into_iter().map(|uid| (uid.to_owned(), found.then(|| cgroup(uid)))).collect();
        Event::Processes(Processes { kubelet: Kubelet::User(user), pods })
    })
}

fn histories() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        3 => nodes(), 4 => nads(), 6 => pods(), 4 => connects(), 1 => Just(Event::Tick),
        1 => namespaces(), 3 => services(), 4 => slices(), 2 => bridges(), 2 => processes(), 5 => policies(),
    ];
    prop::collection::vec(event, 1..80)
}

/// Everything that may have been unreadable becomes readable or goes.
fn mended() -> Vec<Event> {
    let nodes = (2..=4u32).map(|n| Event::Node(node(&format!("n{n}"), n + 1)));
    let pods =
        ["ns1", "ns2"].into_iter().flat_map(|namespace| (0..3).map(move |n| (namespace, format!("p{n}"))));
    nodes.chain(pods.map(|(namespace, name)| Event::NoPod(key(namespace, &name)))).collect()
}

/// A zone, what its databases have, and the objects that there are.
struct World {
    zone: Zone,
    north: Ledger,
    south: Ledger,
    keeper: HostKeeper,
    host: HostPlan,
    nodes: BTreeMap<NodeName, Node>,
    nads: BTreeMap<ObjectKey, Nad>,
    pods: BTreeMap<ObjectKey, Pod>,
    connects: BTreeMap<ConnectName, Connect>,
    namespaces: BTreeMap<NamespaceName, Namespace>,
    services: BTreeMap<ObjectKey, Service>,
    slices: BTreeMap<ObjectKey, EndpointSlice>,
    policies: BTreeMap<ObjectKey, NetworkPolicy>,
    bridge: Option<BridgePorts>,
    now: u64,
}

impl World {
    fn new(render: Render) -> Self {
        let mut config = config(Ip::V4);
        config.render = render;
        // Where time matters, links linger.
        config.linger_ms = if render == Render::All { 0 } else { 60 };
        let mut world = World {
            zone: Zone::new(config),
            north: Ledger::default(),
            south: Ledger::default(),
            keeper: HostKeeper::default(),
            host: HostPlan::default(),
            nodes: BTreeMap::new(),
            nads: BTreeMap::new(),
            pods: BTreeMap::new(),
            connects: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            services: BTreeMap::new(),
            slices: BTreeMap::new(),
            policies: BTreeMap::new(),
            bridge: None,
            now: 0,
        };
        world.look(&Dirty::everything());
        world
    }

    fn look(&mut self, dirty: &Dirty) {
        dirty.northbound.iter().for_each(|prefix| self.north.look(&northbound(&self.zone), prefix));
        dirty.southbound.iter().for_each(|prefix| self.south.look(&southbound(&self.zone), prefix));
        if dirty.host.any() {
            self.host.update(self.keeper.follow(&self.zone, &dirty.host));
        }
    }

    fn happen(&mut self, event: &Event) -> Dirty {
        let dirty = self.tell(event).on(&self.zone);
        self.look(&dirty);
        assert_eq!(self.host, host(&self.zone), "the host's plan after {event:?}");
        dirty
    }

    fn tell(&mut self, event: &Event) -> Changes {
        match event {
            Event::Node(node) => {
                self.nodes.insert(node.name.clone(), node.clone());
                self.zone.apply_node(node)
            }
            Event::NoNode(name) => {
                self.nodes.remove(name);
                self.zone.delete_node(name)
            }
            Event::Nad(nad) => {
                self.nads.insert(nad.key.clone(), nad.clone());
                self.zone.apply_nad(nad)
            }
            Event::NoNad(key) => {
                self.nads.remove(key);
                self.zone.delete_nad(key)
            }
            Event::Pod(pod) => {
                self.pods.insert(pod.key.clone(), pod.clone());
                self.zone.apply_pod(pod)
            }
            Event::NoPod(key) => {
                self.pods.remove(key);
                self.zone.delete_pod(key)
            }
            Event::Connect(connect) => {
                self.connects.insert(connect.name.clone(), connect.clone());
                self.zone.apply_connect(connect)
            }
            Event::NoConnect(name) => {
                self.connects.remove(name);
                self.zone.delete_connect(name)
            }
            Event::Bridge(ports) => {
                self.bridge.clone_from(ports);
                self.zone.set_bridge(ports.clone())
            }
            Event::Processes(processes) => self.zone.set_processes(processes.clone()),
            Event::Tick => {
                self.now += 40;
                self.zone.tick(self.now)
            }
            other => self.tell_of_services(other),
        }
    }

    fn tell_of_services(&mut self, event: &Event) -> Changes {
        match event {
            Event::Namespace(namespace) => {
                self.namespaces.insert(namespace.name.clone(), namespace.clone());
                self.zone.apply_namespace(namespace)
            }
            Event::NoNamespace(name) => {
                self.namespaces.remove(name);
                self.zone.delete_namespace(name)
            }
            Event::Service(service) => {
                self.services.insert(service.key.clone(), service.clone());
                self.zone.apply_service(service)
            }
            Event::NoService(key) => {
                self.services.remove(key);
                self.zone.delete_service(key)
            }
            Event::Slice(slice) => {
                self.slices.insert(slice.key.clone(), slice.clone());
                self.zone.apply_endpoint_slice(slice)
            }
            Event::NoSlice(key) => {
                self.slices.remove(key);
                self.zone.delete_endpoint_slice(key)
            }
            Event::Policy(policy) => {
                self.policies.insert(policy.key.clone(), policy.clone());
                self.zone.apply_policy(policy)
            }
            Event::NoPolicy(key) => {
                self.policies.remove(key);
                self.zone.delete_policy(key)
            }
            _ => unreachable!("told already"),
        }
    }

    fn all_readable(&self) -> bool {
        let nodes = self.nodes.values().all(|node| node.id.is_ok() && node.encaps.is_ok());
        nodes && self.pods.values().all(|pod| pod.networks.is_ok())
    }

    /// Whether it is certain whom each network reaches: who knew it before a connection could not be read goes on with that.
    fn knows_reach(&self) -> bool {
        self.nads
            .values()
            .filter_map(|nad| nad.network.as_ref())
            .all(|network| self.zone.knows_reach(network))
    }

    /// The same objects, told to a zone that has seen nothing else.
    fn afresh(&self) -> World {
        let mut fresh = World::new(Render::All);
        fresh.zone.set_bridge(self.bridge.clone());
        self.slices.values().for_each(|slice| drop(fresh.zone.apply_endpoint_slice(slice)));
        self.services.values().for_each(|service| drop(fresh.zone.apply_service(service)));
        self.namespaces.values().for_each(|namespace| drop(fresh.zone.apply_namespace(namespace)));
        self.connects.values().for_each(|connect| drop(fresh.zone.apply_connect(connect)));
        self.policies.values().for_each(|policy| drop(fresh.zone.apply_policy(policy)));
        self.pods.values().for_each(|pod| drop(fresh.zone.apply_pod(pod)));
        self.nads.values().for_each(|nad| drop(fresh.zone.apply_nad(nad)));
        self.nodes.values().for_each(|node| drop(fresh.zone.apply_node(node)));
        fresh.look(&Dirty::everything());
        fresh
    }
}

fn held(worlds: [&Ledger; 2]) -> BTreeSet<Str> {
    worlds.iter().flat_map(|ledger| ledger.held.iter().cloned()).collect()
}

fn cases(n: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(n), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn the_result_is_that_of_a_plan_from_scratch(mut history in histories(), mend in any::<bool>()) {
        if mend {
            history.extend(mended());
        }
        let mut world = World::new(Render::All);
        for event in &history {
            world.happen(event);
        }
        let fresh = world.afresh();
        // What cannot be read any more is as it was when it could be; who has never read it knows less.
        prop_assume!(world.all_readable());
        prop_assert_eq!(world.zone.problems(), fresh.zone.problems());
        prop_assert_eq!(world.zone.connect_reports(), fresh.zone.connect_reports());
        for (one, other) in [(&world.north, &fresh.north), (&world.south, &fresh.south)] {
            let held = held([one, other]);
            let (ours, theirs) = (one.certain(&held), other.certain(&held));
            let mut missed = Ledger::difference(&ours, &theirs);
            // Sets of people are named after whom a network reaches.
            missed.retain(|row| world.knows_reach() || !row.contains("policy:peers:"));
            prop_assert_eq!(missed, Vec::<String>::new());
        }
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn nothing_that_is_not_dirty_has_changed(history in histories(), used in any::<bool>()) {
        let render = if used { Render::Used { grace_ms: 100 } } else { Render::All };
        let mut world = World::new(render);
        for event in &history {
            world.happen(event);
            let (north, south) = (world.north.clone(), world.south.clone());
            world.look(&Dirty::everything());
            let missed = Ledger::difference(&world.north.rows, &north.rows);
            prop_assert_eq!(missed, Vec::<String>::new(), "after {:?}", event);
            prop_assert_eq!(&world.south.rows, &south.rows, "after {:?}", event);
        }
    }
}

proptest! {
    #![proptest_config(cases(6))]

    /// The same on real databases: events one by one, each looked at only as far as it is dirty.
    #[test]
    fn real_databases_end_as_planned(history in histories()) {
        run(async {
            let mut databases = Databases::start();
            let mut world = World::new(Render::All);
            databases.apply(&world.zone, Dirty::everything()).await;
            for event in &history {
                let dirty = world.happen(event);
                databases.apply(&world.zone, dirty).await;
            }
            // A network that lost its id keeps its rows, and with them the names that its twin wants: that is reported,
            // and over when one of them goes.
            let failures = databases.north_writer.engine().failures();
            prop_assert!(failures.keys().all(|slice| slice.contains("cluster_udn_a")), "{:?}", failures);
            if !failures.is_empty() {
                for namespace in ["ns1", "ns2"] {
                    world.happen(&Event::NoNad(network(2, namespace, false).key));
                }
            }
            // What waits for a name gets it at the look after the one in which it became free, and somebody else may wait for that.
            for _ in 0..LOOKS {
                databases.apply(&world.zone, Dirty::everything()).await;
                if databases.north_writer.engine().failures().is_empty() {
                    break;
                }
            }
            let failures = databases.north_writer.engine().failures();
            prop_assert!(failures.is_empty(), "after {LOOKS} looks: {failures:?}");
            databases.assert_as_planned(&world.zone);
            let writes = databases.writes();
            databases.apply(&world.zone, Dirty::everything()).await;
            prop_assert_eq!(databases.writes(), writes, "a look at everything found more to do");
            Ok(())
        })?;
    }
}

/// Far more than a chain of names that become free has links.
const LOOKS: usize = 8;

/// Two networks with objects of one name: when the one that has them goes, the other gets them. What is held meanwhile has not failed.
#[test]
fn a_twin_gets_the_names_that_become_free() {
    run(async {
        let numbered = |id: u32, namespace: &str, number: Option<&str>| {
            let mut nad = network(id, namespace, false);
            nad.annotate("k8s.ovn.org/network-id", number);
            Event::Nad(nad)
        };
        let mut databases = Databases::start();
        let mut world = World::new(Render::All);
        let twin = |namespace| network(2, namespace, false).key;
        let events = [
            Event::Node(node("n4", 5)),
            Event::Node(node("n1", 2)),
            numbered(2, "ns2", None),
            numbered(2, "ns1", Some("7")),
            numbered(1, "ns1", Some("7")),
            Event::NoNad(twin("ns1")),
            // From now on the two nodes claim one id: n4's part of every network is held.
            Event::Node(node("n1", 5)),
        ];
        for event in &events {
            let dirty = world.happen(event);
            databases.apply(&world.zone, dirty).await;
        }
        let engine = databases.north_writer.engine();
        let failed: Vec<&str> = engine.failures().keys().map(|slice| slice.as_str()).collect();
        assert_eq!(failed, ["network:cluster_udn_a-b:core:"], "{:?}", engine.failures());
        world.happen(&Event::NoNad(twin("ns2")));
        world.happen(&Event::Node(node("n1", 2)));
        databases.apply(&world.zone, Dirty::everything()).await;
        databases.assert_as_planned(&world.zone);
    });
}
