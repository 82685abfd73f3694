//! The host's side of the role against a real kernel and a real Open vSwitch, in namespaces that end with the test.

use std::future::Future;
use std::process::Command;
use std::time::{Duration, Instant};

use causeway_api::annotations::{Annotation as _, GatewayConfig, TunnelMtu};
use causeway_api::intent::ClusterConfig;
use causeway_host::{Connections, Kernel, Mark};
use causeway_ovsdb_client::Remote;
use causeway_plan::host::INTEGRATION_BRIDGE;
use causeway_plan::progress::Signs;
use causeway_record::{Node, ObjectKey, Protocol, ServicePort};
use causeway_runtime::{Health, Tasks};
use causeway_testing::{Switch, program};
use causeway_types::host::{Flow, HostPlan, HostUpdate, Item, Owner};
use causeway_types::{NetworkName, NodeId};
use causeway_zone::{BridgePorts, Subject, Zone, ZoneConfig};
use clap::Parser;
use nix::sched::{CloneFlags, unshare};
use prometheus_client::registry::Registry;
use tokio::time::{sleep, sleep_until, timeout};

use super::endings::Endings;
use super::flags::NodeFlags;
use super::host::{HostTask, programs};
use super::outside::Outside;
use crate::kernel_events::kernel_events;
use crate::ovs::{Ovs, OvsConfig};

/// So long a change may take on a machine that is busy; what is promised is a second.
const PATIENCE: Duration = Duration::from_secs(20);
const PATCH: &str = "patch-br-ex_n1-to-br-int";

fn on_own_node<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    unshare(CloneFlags::CLONE_NEWNET).expect("tests of the node need root");
    ip("link set lo up");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let limit = Duration::from_secs(180);
        timeout(limit, test()).await.expect("the test came to its end");
    });
}

fn run(name: impl AsRef<std::ffi::OsStr>, words: &[&str]) -> String {
    let out = Command::new(name).args(words).output().unwrap();
    assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn ip(words: &str) -> String {
    run("ip", &words.split(' ').collect::<Vec<_>>())
}

fn add_bridge(switch: &Switch) {
    let words = "add-br br-ex -- set bridge br-ex datapath_type=netdev other_config:hwaddr=02:00:00:00:00:07 \
                 -- add-port br-ex eth0";
    switch.vsctl(&words.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>());
    ip("link set br-ex up");
    ip("address add 172.30.0.11/24 dev br-ex");
    ip("route add default via 172.30.0.1");
}

/// A node as docs/gateway.md has it: a card below the bridge `br-ex`, which has the address and the default route.
fn node() -> Switch {
    ip("link add eth0 type veth peer name wire");
    ip("link set eth0 up");
    let switch = Switch::start_with(&["external_ids:ovn-bridge-mappings=storage:br-s"]);
    add_bridge(&switch);
    switch
}

fn tasks() -> Tasks {
    Tasks::new(&Health::waiting("a test"), &mut Registry::default())
}

fn ovs(tasks: &mut Tasks, switch: &Switch) -> Ovs {
    let remotes = Remote::list(&switch.database.remote()).unwrap();
    Ovs::start(tasks, OvsConfig { remotes, tls: None, bridge: INTEGRATION_BRIDGE.into() })
}

#[derive(Parser)]
struct Words {
    #[command(flatten)]
    flags: NodeFlags,
}

/// The way out, with the Node on which it is published.
struct Followed {
    outside: Outside,
    own: Node,
    _tasks: Tasks,
}

impl Followed {
    fn start(switch: &Switch, words: &[&str]) -> Followed {
        let mut tasks = tasks();
        let ovs = ovs(&mut tasks, switch);
        let words = ["test", "--node-name=n1"].iter().chain(words);
        let flags = Words::try_parse_from(words).unwrap().flags;
        let events = kernel_events(&mut tasks, Mark::NODE);
        let outside = Outside::start(&mut tasks, &flags, ovs, events);
        Followed { outside, own: Node::new("n1".parse().unwrap()), _tasks: tasks }
    }

    /// Publishes as the role does.
    fn look(&mut self) -> Option<BridgePorts> {
        let ports = self.outside.look(Some(&self.own));
        let mut texts = self.own.published.clone();
        self.outside.annotate(&mut texts, &self.own);
        texts.iter().for_each(|(key, text)| self.own.annotate(key, Some(text)));
        ports
    }

    /// Follows events until it is so, and says how long that took.
    async fn until(&mut self, what: &str, mut is_so: impl FnMut(&str, Option<&BridgePorts>) -> bool) {
        let began = Instant::now();
        loop {
            let ports = self.look();
            let text = self.own.published.get(GatewayConfig::KEY).cloned().unwrap_or_default();
            if is_so(&text, ports.as_ref()) {
                println!("{what}: {} ms", began.elapsed().as_millis());
                return;
            }
            let heard = timeout(PATIENCE, self.outside.changed()).await;
            heard.unwrap_or_else(|_| panic!("{what}: {text} {ports:?} {:?}", self.outside.health()));
        }
    }

    async fn until_says(&mut self, part: &str) {
        self.until(part, |text, _| text.contains(part)).await;
    }
}

/// Every change by which the way out differs is heard of, by events alone.
#[test]
fn the_gateway_follows_the_node() {
    on_own_node(|| async {
        let switch = node();
        let mut node = Followed::start(&switch, &[]);
        node.until_says(r#""next-hops":["172.30.0.1"]"#).await;
        assert_eq!(node.outside.health(), Ok(()));
        ip("route replace default via 172.30.0.2");
        node.until_says(r#""next-hops":["172.30.0.2"]"#).await;
        ip("address add 172.30.0.12/24 dev br-ex");
        node.until_says(r#""ip-addresses":["172.30.0.11/24","172.30.0.12/24"]"#).await;
        ip("address add 2001:db8::11/64 dev br-ex nodad");
        ip("-6 route add default via fe80::1 dev br-ex");
        node.until_says(r#""next-hops":["172.30.0.2","fe80::1"]"#).await;
        switch.vsctl(&["set", "Open_vSwitch", ".", "external_ids:ovn-encap-ip=172.30.0.12"]);
        switch.vsctl(&["set", "interface", "br-ex", "mtu_request=1400"]);
        node.until_says(r#""ip-addresses":["172.30.0.12/24","172.30.0.11/24""#).await;
        while node.outside.underlay().mtu != Some(TunnelMtu(1342)) {
            timeout(PATIENCE, node.outside.changed()).await.expect("the MTU is heard of");
        }
        // The switch takes its device down for that, and routes go.
        switch.vsctl(&["set", "bridge", "br-ex", "other_config:hwaddr=\"02:00:00:00:00:08\""]);
        ip("route replace default via 172.30.0.2");
        node.until_says(r#""mac-address":"02:00:00:00:00:08""#).await;
        // Without its address the bridge leads nowhere; what others know stays, and so do flows.
        ip("link set br-ex down");
        ip("address flush dev br-ex");
        node.until("the reason", |_, ports| ports.is_some_and(|ports| ports.bridge == "br-ex")).await;
        while node.outside.health().is_ok() {
            timeout(PATIENCE, node.outside.changed()).await.expect("the address is missed");
            node.look();
        }
        assert!(node.outside.health().unwrap_err().contains("no gateway"), "{:?}", node.outside.health());
        assert!(node.own.published[GatewayConfig::KEY].contains("172.30.0.11/24"));
        assert!(node.look().is_some());
        ip("link set br-ex up");
        ip("address add 172.30.0.21/24 dev br-ex");
        ip("route add default via 172.30.0.1");
        node.until_says(r#""ip-addresses":["172.30.0.21/24"]"#).await;
        assert_eq!((node.outside.word(), node.outside.health()), ("shared", Ok(())));
    });
}

#[test]
fn the_ports_of_the_bridge_and_ovns_mapping() {
    on_own_node(|| async {
        let switch = node();
        let mut node = Followed::start(&switch, &[]);
        node.until("the card", |_, ports| ports.is_some_and(|ports| ports.uplink.is_some())).await;
        let add = || {
            let words =
                format!("add-port br-ex {PATCH} -- set interface {PATCH} type=patch options:peer=other");
            switch.vsctl(&words.split(' ').collect::<Vec<_>>());
        };
        add();
        let mut first = None;
        node.until("the patch", |_, ports| {
            first = ports.and_then(|ports| ports.patch);
            first.is_some()
        })
        .await;
        switch.vsctl(&["del-port", "br-ex", PATCH]);
        node.until("no patch", |_, ports| ports.is_some_and(|ports| ports.patch.is_none())).await;
        add();
        node.until("the patch again", |_, ports| {
            ports.and_then(|ports| ports.patch).is_some_and(|patch| Some(patch) != first)
        })
        .await;
        switch.vsctl(&["del-br", "br-ex"]);
        node.until("no bridge", |_, ports| ports.is_none()).await;
        assert!(node.outside.health().is_err());
        add_bridge(&switch);
        node.until("the bridge again", |_, ports| ports.is_some_and(|ports| ports.uplink.is_some())).await;
        for mapped in ["storage:br-s,physnet:br-ex", "lab:br-l,physnet:br-ex"] {
            let began = Instant::now();
            while mapping(&switch) != mapped {
                assert!(began.elapsed() < PATIENCE, "{}", mapping(&switch));
                sleep(Duration::from_millis(20)).await;
            }
            switch.vsctl(&[
                "set",
                "Open_vSwitch",
                ".",
                "external_ids:ovn-bridge-mappings=\"lab:br-l,physnet:br0\"",
            ]);
        }
    });
}

fn mapping(switch: &Switch) -> String {
    let said = switch.vsctl(&["get", "Open_vSwitch", ".", "external_ids:ovn-bridge-mappings"]);
    said.trim().trim_matches('"').to_owned()
}

/// Whoever switches the gateway off takes back what was said; who never had one says nothing.
#[test]
fn a_gateway_that_is_switched_off() {
    on_own_node(|| async {
        let switch = node();
        let mut node = Followed::start(&switch, &["--gateway-mode=disabled"]);
        assert_eq!(node.look(), None);
        assert!(node.own.published.is_empty());
        node.own.annotate(GatewayConfig::KEY, Some("anything"));
        assert_eq!(node.look(), None);
        assert!(node.own.published[GatewayConfig::KEY].contains(r#""mode":"""#));
        assert_eq!((node.outside.health(), node.outside.word()), (Ok(()), "disabled"));
        sleep(Duration::from_millis(300)).await;
        assert_eq!(mapping(&switch), "storage:br-s");
        // The role was here before with a gateway, and had told OVN.
        let told = "external_ids:ovn-bridge-mappings=\"storage:br-s,physnet:br-ex\"";
        switch.vsctl(&["set", "Open_vSwitch", ".", told]);
        let config = r#"{"default":{"mode":"shared","bridge-id":"br-ex","ip-addresses":["172.30.0.11/24"]}}"#;
        node.own.annotate(GatewayConfig::KEY, Some(config));
        assert_eq!(node.look(), None);
        let began = Instant::now();
        while mapping(&switch) != "storage:br-s" {
            assert!(began.elapsed() < PATIENCE, "{}", mapping(&switch));
            sleep(Duration::from_millis(20)).await;
        }
    });
}

/// The host's task on a switch.
struct Kept {
    host: HostTask,
    _tasks: Tasks,
}

impl Kept {
    fn start(switch: &Switch, plan: &HostPlan) -> Kept {
        let mut tasks = tasks();
        let ovs = ovs(&mut tasks, switch);
        let folder = program("ovs-ofctl").parent().unwrap().to_owned();
        let remote = Remote::list(&switch.database.remote()).unwrap().remove(0);
        let programs = programs(&remote, None).from_folder(&folder);
        let events = kernel_events(&mut tasks, Mark::NODE);
        let host = HostTask::start(&mut tasks, ovs, Kernel, programs, events);
        host.update(plan.clone().into());
        Kept { host, _tasks: tasks }
    }

    async fn until_well(&mut self) {
        while let Err(reason) = self.host.health() {
            timeout(PATIENCE, self.host.changed()).await.expect(&reason);
        }
    }
}

fn ofctl(switch: &Switch, words: &[&str]) -> String {
    let target = format!("unix:{}", switch.database.folder().join("br-ex.mgmt").display());
    let (command, rest) = words.split_first().unwrap();
    let all: Vec<&str> =
        ["--protocols=OpenFlow15", command, &target].into_iter().chain(rest.iter().copied()).collect();
    run(program("ovs-ofctl"), &all)
}

fn flows() -> HostPlan {
    let mut plan = HostPlan::default();
    let places = (0..200).map(|port| (5, format!("tcp,tp_dst={port}"))).chain([(0, String::new())]);
    for (table, matches) in places {
        let flow = Flow { bridge: "br-ex".into(), table, priority: 7, matches, actions: "drop".into() };
        plan.add(&Owner::node("gateway"), Item::Flow(flow));
    }
    plan
}

/// Until all flows are there again.
async fn healed(switch: &Switch, what: &str) {
    let began = Instant::now();
    while ofctl(switch, &["dump-flows"]).matches("priority=7").count() != 201 {
        assert!(began.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(20)).await;
    }
    println!("{what}: {} ms", began.elapsed().as_millis());
}

/// udn-ovn-cases F10.

#[test]
fn flows_that_are_gone_come_back() {
    on_own_node(|| async {
        let mut switch = node();
        let _kept = Kept::start(&switch, &flows());
        healed(&switch, "first").await;
        switch.restart();
        healed(&switch, "the switch was started again").await;
        switch.vsctl(&["del-br", "br-ex"]);
        add_bridge(&switch);
        healed(&switch, "the bridge was made again").await;
        ofctl(&switch, &["del-flows", "tcp,tp_dst=7"]);
        healed(&switch, "somebody took a flow away").await;
    });
}

/// What cannot be made for one network is told of that network, for as long as it is planned; the node is well.
#[test]
fn what_is_refused_is_told_of_its_network() {
    on_own_node(|| async {
        let switch = node();
        let network: NetworkName = "cluster_udn_red".parse().unwrap();
        let (place, actions) = ("br-ex".into(), "drop".into());
        let bad = Flow { bridge: place, table: 0, priority: 9, matches: "frobnicate=1".into(), actions };
        let mut plan = flows();
        plan.add(&Owner::network(&network), Item::Flow(bad.clone()));
        let mut kept = Kept::start(&switch, &plan);
        kept.until_well().await;
        while kept.host.troubles().is_empty() {
            timeout(PATIENCE, kept.host.changed()).await.expect("it is told");
        }
        let troubles = kept.host.troubles();
        let [trouble] = troubles.as_slice() else { panic!("{troubles:?}") };
        assert_eq!(trouble.blame, [Subject::Network(network)]);
        assert!(trouble.message.contains("frobnicate"), "{}", trouble.message);
        assert_eq!(kept.host.health(), Ok(()));

        let gone = [(Item::Flow(bad).key(), None)].into();
        kept.host.update(HostUpdate { items: gone, ..HostUpdate::default() });
        while !kept.host.troubles().is_empty() {
            timeout(PATIENCE, kept.host.changed()).await.expect("it is taken back");
        }
    });
}

/// The role ends and starts again; flows count on.
#[test]
fn a_role_that_starts_again_touches_nothing() {
    on_own_node(|| async {
        let switch = node();
        let mut kept = Kept::start(&switch, &flows());
        kept.until_well().await;
        assert_eq!(kept.host.writes(), 201);
        drop(kept);
        let packet = "50540000000750540000000508004500001c000000004011f96a0a0000010a0000020001000200080000";
        let send = || {
            let words = format!("in_port=controller packet={packet} actions=table");
            ofctl(&switch, &["packet-out", &words]);
        };
        send();
        let mut kept = Kept::start(&switch, &flows());
        kept.until_well().await;
        send();
        assert_eq!(kept.host.writes(), 0);
        let shown = ofctl(&switch, &["dump-flows", "table=0"]);
        let ours = shown.lines().find(|line| line.contains("priority=7")).unwrap();
        let counted = ours.split("n_packets=").nth(1).and_then(|rest| rest.split(',').next());
        assert!(counted.unwrap().parse::<u32>().unwrap() >= 2, "{shown}");
    });
}

/// A client of UDP whose connection the switch translates, in a zone of its memory.
fn lead(switch: &Switch, zone: u16, from: &str) {
    let packet = format!(
        "udp,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,nw_ttl=64,nw_src={from},nw_dst=10.96.0.5,udp_src=4000,udp_dst=81"
    );
    let bytes = run(program("ovs-ofctl"), &["--bare", "compose-packet", &packet]);
    let target = format!("unix:{}", switch.database.folder().join("br-int.mgmt").display());
    let actions = format!("ct(commit,zone={zone},nat(dst=10.1.0.9:8081))");
    let line = format!("in_port=controller packet={} actions={actions}", bytes.trim());
    run(program("ovs-ofctl"), &["--protocols=OpenFlow15", "packet-out", &target, &line]);
}

fn signs(asked: i64, installed: i64) -> Signs {
    let installed = Some(installed);
    Signs { northbound: None, southbound: None, asked: Some(asked), northd: installed, controller: installed }
}

/// What leads to a target that serves no more is forgotten once ovn-controller has said that it is done, and again where the datapath went
/// on for a moment as before; then nobody looks any more. What is not in a zone of OVN's stays.
#[test]
fn clients_of_a_service_that_is_gone_begin_anew() {
    on_own_node(|| async {
        let switch = Switch::start();
        switch.vsctl(&["set", "bridge", "br-int", "external_ids:ct-zone-ns1_client=3"]);
        let mut tasks = tasks();
        let ovs = ovs(&mut tasks, &switch);
        let memory = Connections::new(switch.database.folder(), INTEGRATION_BRIDGE)
            .from_folder(program("ovs-appctl").parent().unwrap());
        let mut endings = Endings::start(&mut tasks, ovs, Some(memory.clone()), &mut Registry::default());
        let cluster =
            ClusterConfig::new(vec![], vec!["10.96.0.0/16".parse().unwrap()], NodeId::new(10).unwrap());
        let mut zone = Zone::new(ZoneConfig::new("n1".parse().unwrap(), cluster));
        let key = ObjectKey { namespace: "ns1".parse().unwrap(), name: "dns".into() };
        zone.apply_service(&service(key.clone()));
        let changes = zone.delete_service(&key);
        let zones = || memory.read().unwrap().iter().map(|one| one.zone).collect::<Vec<_>>();

        lead(&switch, 3, "10.1.0.5");
        lead(&switch, 9, "10.1.0.6");
        endings.narrowed(&zone, &changes);
        assert!(!endings.turn(&zone, false, &signs(1, 1)), "rows are not written yet");
        assert!(endings.turn(&zone, true, &signs(1, 1)), "a change has to be counted");
        assert!(!endings.turn(&zone, true, &signs(2, 1)), "ovn-controller is not there yet");
        assert_eq!((zones().len(), endings.next()), (2, None));
        let mut again = 1;
        let began = Instant::now();
        endings.turn(&zone, true, &signs(2, 2));
        loop {
            timeout(PATIENCE, endings.changed()).await.expect("the memory is read");
            endings.turn(&zone, true, &signs(2, 2));
            let Some(next) = endings.next() else { break };
            while zones().contains(&3) {
                assert!(began.elapsed() < PATIENCE, "it is still there");
                sleep(Duration::from_millis(10)).await;
            }
            if again > 0 {
                again -= 1;
                lead(&switch, 3, "10.1.0.5");
            }
            sleep_until(next).await;
            assert!(!endings.turn(&zone, true, &signs(2, 2)), "nothing has to be counted for another look");
        }
        assert_eq!((zones(), again), (vec![9], 0));
        assert!(began.elapsed() > Duration::from_millis(1500), "{:?}", began.elapsed());
    });
}

fn service(key: ObjectKey) -> causeway_record::Service {
    let port = ServicePort { name: String::new().into(), protocol: Protocol::Udp, port: 81, node_port: None };
    causeway_record::Service {
        key,
        created: 0,
        cluster_ips: vec!["10.96.0.5".parse().unwrap()],
        ports: vec![port],
        local: false,
        external_ips: Vec::new(),
        ingress_ips: Vec::new(),
        source_ranges: None,
        external_local: false,
        health_port: None,
        publish_not_ready: false,
        affinity: None,
    }
}
