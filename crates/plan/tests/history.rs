//! After any history of events, what the events made dirty is all that had to be looked at.
#![allow(clippy::unwrap_used)]

#[path = "history/drawn.rs"]
mod drawn;
mod support;

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::policy::{PolicyId, Refusal};
use causeway_ovn::Str;
use causeway_plan::host::{HostKeeper, host};
use causeway_plan::wiring::{Wiring, follows, wiring};
use causeway_plan::{Dirty, northbound, southbound};
use causeway_record::{
    ClusterPolicy, Connect, EndpointSlice, Nad, Namespace, NetworkPolicy, Node, ObjectKey, Pod, Service,
};
use causeway_types::host::HostPlan;
use causeway_types::{ConnectName, NamespaceName, NodeName};
use causeway_zone::{BridgePorts, Changes, Render, Zone};
use drawn::{Event, NAMESPACES, histories, mended, network};
use proptest::prelude::*;
use support::ledger::Ledger;
use support::server::{Databases, run};
use support::*;

/// A zone, what its databases have, and the objects that there are.
struct World {
    zone: Zone,
    north: Ledger,
    south: Ledger,
    keeper: HostKeeper,
    host: HostPlan,
    /// What the CNI server has been told.
    wired: BTreeMap<ObjectKey, Wiring>,
    nodes: BTreeMap<NodeName, Node>,
    nads: BTreeMap<ObjectKey, Nad>,
    pods: BTreeMap<ObjectKey, Pod>,
    connects: BTreeMap<ConnectName, Connect>,
    namespaces: BTreeMap<NamespaceName, Namespace>,
    services: BTreeMap<ObjectKey, Service>,
    slices: BTreeMap<ObjectKey, EndpointSlice>,
    policies: BTreeMap<ObjectKey, NetworkPolicy>,
    cluster_policies: BTreeMap<PolicyId, ClusterPolicy>,
    away: BTreeSet<NodeName>,
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
            wired: BTreeMap::new(),
            nodes: BTreeMap::new(),
            nads: BTreeMap::new(),
            pods: BTreeMap::new(),
            connects: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            services: BTreeMap::new(),
            slices: BTreeMap::new(),
            policies: BTreeMap::new(),
            cluster_policies: BTreeMap::new(),
            away: BTreeSet::new(),
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
        let changes = self.tell(event);
        self.publish(&changes);
        let dirty = changes.on(&self.zone);
        self.look(&dirty);
        assert_eq!(self.host, host(&self.zone), "the host's plan after {event:?}");
        let locals = self.zone.locals();
        let wired = locals.filter_map(|pod| Some((pod.clone(), wiring(&self.zone, pod)?))).collect();
        assert_eq!(self.wired, wired, "what pods are connected with after {event:?}");
        dirty
    }

    /// Tells the CNI server of the pods that changes concern.
    fn publish(&mut self, changes: &Changes) {
        for pod in changes.iter().flat_map(|change| follows(&self.zone, change)) {
            match wiring(&self.zone, &pod) {
                Some(wiring) => drop(self.wired.insert(pod, wiring)),
                None => drop(self.wired.remove(&pod)),
            }
        }
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
            other => self.tell_of_policies(other),
        }
    }

    fn tell_of_policies(&mut self, event: &Event) -> Changes {
        match event {
            Event::Policy(policy) => {
                self.policies.insert(policy.key.clone(), policy.clone());
                self.zone.apply_policy(policy)
            }
            Event::NoPolicy(key) => {
                self.policies.remove(key);
                self.zone.delete_policy(key)
            }
            Event::ClusterPolicy(policy) => {
                self.cluster_policies.insert(policy.id.clone(), policy.clone());
                self.zone.apply_cluster_policy(policy)
            }
            Event::NoClusterPolicy(id) => {
                self.cluster_policies.remove(id);
                self.zone.delete_cluster_policy(id)
            }
            Event::Away(nodes) => {
                self.away.clone_from(nodes);
                self.zone.set_away(nodes.clone())
            }
            _ => unreachable!("told already"),
        }
    }

    fn all_readable(&self) -> bool {
        let nodes = self.nodes.values().all(|node| node.id.is_ok() && node.encaps.is_ok());
        let policies =
            self.cluster_policies.values().all(|policy| !matches!(policy.meant, Err(Refusal::Unreadable(_))));
        nodes && policies && self.pods.values().all(|pod| pod.networks.is_ok())
    }

    /// Whether it is certain whom each network reaches: who knew it before a connection could not be read goes on with that.
    fn is_known_in(&self, zone: &Zone) -> bool {
        self.nads.values().filter_map(|nad| nad.network.as_ref()).all(|network| zone.knows_reach(network))
    }

    /// The same objects, told to a zone that has seen nothing else.
    fn afresh(&self) -> World {
        let mut fresh = World::new(Render::All);
        fresh.zone.set_bridge(self.bridge.clone());
        fresh.zone.set_away(self.away.clone());
        self.slices.values().for_each(|slice| drop(fresh.zone.apply_endpoint_slice(slice)));
        self.services.values().for_each(|service| drop(fresh.zone.apply_service(service)));
        self.namespaces.values().for_each(|namespace| drop(fresh.zone.apply_namespace(namespace)));
        self.connects.values().for_each(|connect| drop(fresh.zone.apply_connect(connect)));
        self.policies.values().for_each(|policy| drop(fresh.zone.apply_policy(policy)));
        self.cluster_policies.values().for_each(|policy| drop(fresh.zone.apply_cluster_policy(policy)));
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
    let cases = asked.unwrap_or(n);
    // Histories that end with something unreadable say less, however many there are.
    let max_global_rejects = cases.max(1024);
    ProptestConfig { cases, max_global_rejects, failure_persistence: None, ..ProptestConfig::default() }
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
        prop_assert_eq!(world.zone.policy_versions(), fresh.zone.policy_versions());
        for (one, other) in [(&world.north, &fresh.north), (&world.south, &fresh.south)] {
            let held = held([one, other]);
            let (ours, theirs) = (one.certain(&held), other.certain(&held));
            let mut missed = Ledger::difference(&ours, &theirs);
            // Sets of people are named after whom a network reaches. Who has read a connection before it could not be read any more
            // knows that, and who has not does not.
            let both_know = [&world.zone, &fresh.zone].into_iter().all(|zone| world.is_known_in(zone));
            missed.retain(|row| both_know || !row.contains("policy:peers:"));
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
                for namespace in NAMESPACES {
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
