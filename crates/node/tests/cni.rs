//! ADD, DEL, CHECK, GC and STATUS against a real switch and a real kernel; the ids are those of udn-ovn-cases.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod switch;

use causeway_cni::ErrorCode;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use switch::{Node, Sandbox, Switch, blue, network, on_own_node, plain, pod};

const SANDBOX: &str = "abcdef0123456789abcdef";

fn sorted(text: &str) -> BTreeSet<String> {
    text.lines().map(|line| line.trim().to_owned()).collect()
}

fn set(lines: &[&str]) -> BTreeSet<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

/// Waits until the one port of a pod is there, so that its ADD waits for ovn-controller.
async fn has_port(node: &Node) {
    while node.switch.ports().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A node with the layer3 network `blue`, primary in `ns1`.
fn node_with_blue() -> Node {
    let node = Node::start();
    node.pods.apply_network(&network("ns1/blue", "cluster_udn_blue", "10.20.0.0/16", "primary"));
    node.pods.demand_primary("ns1");
    node
}

#[test]
fn h01_h02_h10_a_pod_of_a_primary_network() {
    on_own_node(async || {
        let node = node_with_blue();
        node.ready().await;
        let (sandbox, web) = (Sandbox::new(SANDBOX), pod("web", Some(blue(5))));
        node.pods.apply_pod(&web);
        let result = node.call("ADD", &sandbox, &web).await.unwrap();

        let netns = sandbox.netns.to_str().unwrap();
        let want = json!({
            "cniVersion": "1.1.0",
            "interfaces": [
                {"name": "abcdef012345678", "mac": "", "mtu": 1400},
                {"name": "eth0", "mac": "0a:58:0a:f4:01:05", "mtu": 1400, "sandbox": netns},
                {"name": "abcdef0123456_1", "mac": "", "mtu": 1300},
                {"name": "ovn-udn1", "mac": "0a:58:0a:14:01:05", "mtu": 1300, "sandbox": netns},
            ],
            "ips": [
                {"address": "10.244.1.5/24", "interface": 1},
                {"address": "10.20.1.5/24", "gateway": "10.20.1.1", "interface": 3},
            ],
            "routes": [
                {"dst": "10.244.0.0/16", "gw": "10.244.1.1"},
                {"dst": "100.64.0.0/16", "gw": "10.244.1.1"},
                {"dst": "0.0.0.0/0", "gw": "10.20.1.1"},
                {"dst": "10.20.0.0/16", "gw": "10.20.1.1"},
                {"dst": "10.96.0.0/16", "gw": "10.20.1.1"},
                {"dst": "100.65.0.0/16", "gw": "10.20.1.1"},
            ],
            "dns": {},
        });
        assert_eq!(result, want);
        assert_eq!(
            sorted(&sandbox.ip("route show proto static")),
            set(&[
                "default via 10.20.1.1 dev ovn-udn1",
                "10.96.0.0/16 via 10.20.1.1 dev ovn-udn1",
                "10.20.0.0/16 via 10.20.1.1 dev ovn-udn1",
                "100.65.0.0/16 via 10.20.1.1 dev ovn-udn1",
                "10.244.0.0/16 via 10.244.1.1 dev eth0",
                "100.64.0.0/16 via 10.244.1.1 dev eth0",
            ])
        );
        assert_eq!(
            node.switch.ids("abcdef012345678"),
            ids("ns1_web", "eth0", "0a:58:0a:f4:01:05", "10.244.1.5/24", &[])
        );
        let network = [("k8s.ovn.org/network", "cluster_udn_blue"), ("k8s.ovn.org/nad", "ns1/blue")];
        let want = ids("ns1.blue_ns1_web", "ovn-udn1", "0a:58:0a:14:01:05", "10.20.1.5/24", &network);
        assert_eq!(node.switch.ids("abcdef0123456_1"), want);
        for port in ["abcdef012345678", "abcdef0123456_1"] {
            assert_eq!(
                node.switch.vsctl(&["get", "Port", port, "other_config"]).trim(),
                "{transient=\"true\"}"
            );
        }
        node.call("DEL", &sandbox, &web).await.unwrap();
        assert_eq!((node.switch.ports(), node.links("abcdef")), (vec![], vec![]));
    });
}

fn ids(id: &str, link: &str, mac: &str, address: &str, more: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut ids = vec![
        ("attached_mac", mac),
        ("iface-id", id),
        ("iface-id-ver", "uid-of-web"),
        ("sandbox", SANDBOX),
        ("pod-if-name", link),
        ("ip_addresses", address),
    ];
    ids.extend_from_slice(more);
    ids.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// IPv6 and a layer2 network: the way out is the router's link-local address, once.
#[test]
fn a_layer2_pod_has_one_default_route_by_link_local() {
    on_own_node(async || {
        let node = node_with_blue();
        node.ready().await;
        let mut networks = blue(5);
        networks["ns1/blue"]["ip_addresses"] = json!(["10.20.1.5/24", "fd20::5/64"]);
        networks["ns1/blue"]["gateway_ips"] = json!(["10.20.1.1", "fd20::1"]);
        networks["ns1/blue"]["ipv6_lla_gateway_ip"] = json!("fe80::858:aff:fe14:101");
        let (sandbox, web) = (Sandbox::new(SANDBOX), pod("web", Some(networks)));
        node.pods.apply_pod(&web);
        node.call("ADD", &sandbox, &web).await.unwrap();
        let shown = sandbox.ip("-6 route show default");
        assert_eq!(shown.lines().count(), 1, "{shown}");
        assert!(shown.starts_with("default via fe80::858:aff:fe14:101 dev ovn-udn1"), "{shown}");
        let own = sandbox.ip("-6 address show dev ovn-udn1 scope link");
        assert!(
            own.contains("fe80::858:aff:fe14:105/64"),
            "the link-local address follows from the MAC: {own}"
        );
    });
}

/// The best of five: whoever else has the processor must not decide this.
#[test]
fn h04_ready_right_after_the_annotation() {
    on_own_node(async || {
        let node = Node::start();
        node.ready().await;
        let mut times = Vec::new();
        for round in 1..=5 {
            let name = format!("web-{round}");
            let sandbox = Sandbox::new(&format!("{round}bcdef0123456789abcdef"));
            node.pods.apply_pod(&pod(&name, None));
            let ready = pod(&name, Some(plain(round)));
            let add = node.call("ADD", &sandbox, &ready);
            let annotate = async {
                tokio::time::sleep(Duration::from_millis(200)).await;
                node.pods.apply_pod(&ready);
                Instant::now()
            };
            let (added, annotated) = tokio::join!(async { (add.await, Instant::now()) }, annotate);
            added.0.unwrap();
            times.push(added.1 - annotated);
        }
        assert!(times.iter().min().unwrap() < &Duration::from_millis(100), "{times:?}");
    });
}

fn impatient() -> Node {
    Node::start_with(Switch::start(), |config| {
        config.limit = Duration::from_millis(400);
        config.hint_after = Duration::from_millis(100);
    })
}

#[test]
fn h05_the_annotation_never_comes() {
    on_own_node(async || {
        let node = impatient();
        node.ready().await;
        let (sandbox, web) = (Sandbox::new(SANDBOX), pod("web", None));
        let error = node.call("ADD", &sandbox, &web).await.unwrap_err();
        assert_eq!(
            (error.code, error.msg.as_str()),
            (ErrorCode::NotConnected, "pod ns1/web is not known on this node")
        );
        node.pods.apply_pod(&web);
        let error = node.call("ADD", &sandbox, &web).await.unwrap_err();
        assert_eq!(
            error.msg,
            "pod ns1/web has no addresses: the annotation k8s.ovn.org/pod-networks is not there"
        );
        assert!(
            error.details.contains("ErrorAllocatingPod") && error.details.contains("cluster manager"),
            "{error}"
        );
        assert_eq!((node.switch.ports(), node.links("abcdef")), (vec![], vec![]));
    });
}

#[test]
fn h07_a_static_pod_has_the_uid_of_the_api() {
    on_own_node(async || {
        let node = Node::start();
        node.ready().await;
        let (sandbox, mut web) = (Sandbox::new(SANDBOX), pod("web", Some(plain(5))));
        web.annotate("kubernetes.io/config.mirror", Some("hash-of-the-file"));
        node.pods.apply_pod(&web);
        node.call("ADD", &sandbox, &web).await.unwrap();
        assert_eq!(node.switch.ids("abcdef012345678")["iface-id-ver"], "uid-of-web");
    });
}

#[test]
fn another_pod_of_the_same_name_is_not_connected() {
    on_own_node(async || {
        let node = impatient();
        node.ready().await;
        let (sandbox, web) = (Sandbox::new(SANDBOX), pod("web", Some(plain(5))));
        let mut older = web.clone();
        older.uid = "older".into();
        node.pods.apply_pod(&older);
        let error = node.call("ADD", &sandbox, &web).await.unwrap_err();
        assert_eq!(error.msg, "pod ns1/web has UID older in the API, not uid-of-web");
    });
}

#[test]
fn h08_a_namespace_without_its_primary_network() {
    on_own_node(async || {
        let node = impatient();
        node.ready().await;
        node.pods.demand_primary("ns1");
        let (sandbox, web) = (Sandbox::new(SANDBOX), pod("web", Some(plain(5))));
        node.pods.apply_pod(&web);
        let error = node.call("ADD", &sandbox, &web).await.unwrap_err();
        let words =
            "namespace ns1 is labelled k8s.ovn.org/primary-user-defined-network but has no primary network";
        assert_eq!(error.msg, words);
        assert!(error.details.contains("create a UserDefinedNetwork"), "{error}");
        assert_eq!((node.switch.ports(), node.links("abcdef")), (vec![], vec![]));

        node.pods.apply_network(&network("ns1/blue", "ns1_blue", "10.20.0.0/16", "primary"));
        let error = node.call("ADD", &sandbox, &web).await.unwrap_err();
        assert_eq!(error.msg, "pod ns1/web has no addresses on the primary network of namespace ns1");
        let web = pod("web", Some(blue(5)));
        node.pods.apply_pod(&web);
        node.call("ADD", &sandbox, &web).await.unwrap();
    });
}

#[test]
fn networks_that_overlap_are_refused_and_named() {
    on_own_node(async || {
        let node = Node::start();
        node.ready().await;
        node.pods.apply_network(&network("ns1/blue", "cluster_udn_blue", "10.244.0.0/20", "primary"));
        let (sandbox, web) = (Sandbox::new(SANDBOX), pod("web", Some(blue(5))));
        node.pods.apply_pod(&web);
        let error = node.call("ADD", &sandbox, &web).await.unwrap_err();
        let words = "pod ns1/web cannot be on networks default and cluster_udn_blue: their subnets 10.244.0.0/16 and \
                     10.244.0.0/20 overlap";
        assert_eq!(error.msg, words);
    });
}

#[test]
fn h11_waits_for_the_controller_and_not_for_a_pod_that_is_gone() {
    on_own_node(async || {
        let node = Node::start();
        node.ready().await;
        node.controller.switch_on(false);
        let (sandbox, web) = (Sandbox::new(SANDBOX), pod("web", Some(plain(5))));
        node.pods.apply_pod(&web);
        let add = node.call("ADD", &sandbox, &web);
        let later = async {
            has_port(&node).await;
            node.controller.switch_on(true);
            Instant::now()
        };
        let (added, switched_on) = tokio::join!(async { (add.await, Instant::now()) }, later);
        added.0.unwrap();
        assert!(added.1 > switched_on);
        node.call("DEL", &sandbox, &web).await.unwrap();

        node.controller.switch_on(false);
        let add = node.call("ADD", &sandbox, &web);
        let delete = async {
            has_port(&node).await;
            node.pods.delete_pod(&web.key);
        };
        let (added, ()) = tokio::join!(add, delete);
        assert_eq!(added.unwrap_err().msg, "pod ns1/web was deleted while it was connected");
        assert_eq!((node.switch.ports(), node.links("abcdef")), (vec![], vec![]));
    });
}

#[test]
fn a_controller_that_never_comes_is_named() {
    on_own_node(async || {
        let node = impatient();
        node.ready().await;
        node.controller.switch_on(false);
        let (sandbox, web) = (Sandbox::new(SANDBOX), pod("web", Some(plain(5))));
        node.pods.apply_pod(&web);
        let error = node.call("ADD", &sandbox, &web).await.unwrap_err();
        assert_eq!(error.msg, "eth0 of pod ns1/web: ovn-controller has not connected logical port ns1_web");
        assert_eq!((node.switch.ports(), node.links("abcdef")), (vec![], vec![]));
    });
}

#[test]
fn a_del_ends_the_add_of_its_sandbox() {
    on_own_node(async || {
        let node = Node::start();
        node.ready().await;
        node.controller.switch_on(false);
        let (sandbox, web) = (Sandbox::new(SANDBOX), pod("web", Some(plain(5))));
        node.pods.apply_pod(&web);
        let del = async {
            has_port(&node).await;
            node.call("DEL", &sandbox, &web).await
        };
        let (added, deleted) = tokio::join!(node.call("ADD", &sandbox, &web), del);
        assert_eq!(added.unwrap_err().msg, "pod ns1/web was disconnected while it was connected");
        assert_eq!(deleted, Ok(Value::Null));
        assert_eq!((node.switch.ports(), node.links("abcdef")), (vec![], vec![]));
    });
}

#[test]
fn h13_what_is_gone_can_be_removed() {
    on_own_node(async || {
        let node = node_with_blue();
        node.ready().await;
        let (sandbox, web) = (Sandbox::new(SANDBOX), pod("web", Some(blue(5))));
        assert_eq!(node.call("DEL", &sandbox, &web).await, Ok(Value::Null));
        node.pods.apply_pod(&web);
        node.call("ADD", &sandbox, &web).await.unwrap();
        let writes = node.switch.writes();
        // The namespace goes first, the pod is forgotten, and the switch loses a port by itself.
        node.pods.delete_pod(&web.key);
        node.switch.vsctl(&["del-port", "abcdef012345678"]);
        let gone = Sandbox { netns: "/run/netns/gone".into(), ..sandbox };
        assert_eq!(node.call("DEL", &gone, &web).await, Ok(Value::Null));
        assert_eq!(node.call("DEL", &gone, &web).await, Ok(Value::Null));
        assert_eq!((node.switch.ports(), node.links("abcdef")), (vec![], vec![]));
        assert_eq!(node.switch.writes(), writes + 2, "one by hand, one by the first DEL, none by the second");
    });
}

#[test]
fn an_add_again_writes_nothing_and_says_the_same() {
    on_own_node(async || {
        let node = node_with_blue();
        node.ready().await;
        let (sandbox, web) = (Sandbox::new(SANDBOX), pod("web", Some(blue(5))));
        node.pods.apply_pod(&web);
        let first = node.call("ADD", &sandbox, &web).await.unwrap();
        let writes = node.switch.writes();
        assert_eq!(node.call("ADD", &sandbox, &web).await.unwrap(), first);
        assert_eq!(node.switch.writes(), writes);
    });
}

#[test]
fn a_new_sandbox_takes_over_the_logical_ports() {
    on_own_node(async || {
        let node = node_with_blue();
        node.ready().await;
        let web = pod("web", Some(blue(5)));
        node.pods.apply_pod(&web);
        let (old, new) = (Sandbox::new(SANDBOX), Sandbox::new("fedcba9876543210fedcba"));
        node.call("ADD", &old, &web).await.unwrap();
        node.call("ADD", &new, &web).await.unwrap();
        assert_eq!(node.switch.ports(), ["fedcba987654321", "fedcba9876543_1"]);
        node.call("DEL", &old, &web).await.unwrap();
        assert_eq!(node.switch.ports(), ["fedcba987654321", "fedcba9876543_1"]);
        assert_eq!(node.links("abcdef"), Vec::<String>::new());
    });
}

#[test]
fn h14_check_finds_what_changed() {
    on_own_node(async || {
        let node = node_with_blue();
        node.ready().await;
        let (sandbox, web) = (Sandbox::new(SANDBOX), pod("web", Some(blue(5))));
        node.pods.apply_pod(&web);
        node.call("ADD", &sandbox, &web).await.unwrap();
        assert_eq!(node.call("CHECK", &sandbox, &web).await, Ok(Value::Null));
        let spoil = [
            (
                "link set eth0 address 0a:58:00:00:00:01",
                "eth0: its MAC is 0a:58:00:00:00:01, not 0a:58:0a:f4:01:05",
            ),
            ("route del 10.96.0.0/16", "ovn-udn1: it lacks the route to 10.96.0.0/16 via 10.20.1.1"),
            ("link set eth0 mtu 1200", "eth0: its MTU is 1200, not 1400"),
        ];
        for (command, words) in spoil {
            sandbox.ip(command);
            let error = node.call("CHECK", &sandbox, &web).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::NotAsAdded);
            assert!(error.msg.contains(words), "{error}");
        }
        node.controller.switch_on(false);
        node.switch.vsctl(&["remove", "Interface", "abcdef0123456_1", "external_ids", "ovn-installed"]);
        let error = node.call("CHECK", &sandbox, &web).await.unwrap_err();
        assert!(
            error.msg.contains("ovn-controller has not connected logical port ns1.blue_ns1_web"),
            "{error}"
        );
        node.switch.vsctl(&["del-port", "abcdef0123456_1"]);
        let error = node.call("CHECK", &sandbox, &web).await.unwrap_err();
        assert!(error.msg.contains("Open vSwitch has no port abcdef0123456_1"), "{error}");
        // An ADD repairs it all.
        node.controller.switch_on(true);
        node.call("ADD", &sandbox, &web).await.unwrap();
        assert_eq!(node.call("CHECK", &sandbox, &web).await, Ok(Value::Null));
    });
}

#[test]
fn h14_gc_keeps_what_is_in_use() {
    on_own_node(async || {
        let node = Node::start();
        node.ready().await;
        let (kept, ended) = (pod("kept", Some(plain(5))), pod("ended", Some(plain(6))));
        let (one, two) = (Sandbox::new(SANDBOX), Sandbox::new("fedcba9876543210fedcba"));
        for (pod, sandbox) in [(&kept, &one), (&ended, &two)] {
            node.pods.apply_pod(pod);
            node.call("ADD", sandbox, pod).await.unwrap();
        }
        let valid = json!({"cni.dev/valid-attachments": [{"containerID": SANDBOX, "ifname": "eth0"}]});
        assert_eq!(node.call_with("GC", &one, &kept, valid).await, Ok(Value::Null));
        assert_eq!((node.switch.ports(), node.links("fedcba")), (vec!["abcdef012345678".to_owned()], vec![]));
        let error = node.call("GC", &one, &kept).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidConfig, "without a list nothing is removed");
        assert_eq!(node.switch.ports(), ["abcdef012345678"]);
        // The list of another network's configuration says nothing of this one's interfaces.
        let of_nad = json!({"cni.dev/valid-attachments": [], "netAttachDefName": "ns1/more"});
        assert_eq!(node.call_with("GC", &one, &kept, of_nad).await, Ok(Value::Null));
        assert_eq!(node.switch.ports(), ["abcdef012345678"]);
    });
}

#[test]
fn h14_status_is_50_until_pods_can_come() {
    on_own_node(async || {
        let mut node = Node::start();
        node.ready().await;
        let (sandbox, web) = (Sandbox::new(SANDBOX), pod("web", Some(plain(5))));
        assert_eq!(node.call("STATUS", &sandbox, &web).await, Ok(Value::Null));
        node.switch.vsctl(&["del-br", "br-int"]);
        while node.ovs.ready().is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let error = node.call("STATUS", &sandbox, &web).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::NotAvailable);
        assert!(error.msg.contains("no bridge br-int"), "{error}");
        assert_eq!(node.call("ADD", &sandbox, &web).await.unwrap_err().code, ErrorCode::TryAgainLater);
        node.stop_server();
        tokio::task::yield_now().await;
        assert_eq!(node.call("STATUS", &sandbox, &web).await.unwrap_err().code, ErrorCode::NotAvailable);
        for command in ["ADD", "DEL"] {
            let error = node.call(command, &sandbox, &web).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::TryAgainLater);
            assert!(error.details.contains("causeway-node pod"), "{error}");
        }
    });
}

#[test]
fn h19_a_hundred_at_once() {
    on_own_node(async || {
        let node = node_with_blue();
        node.ready().await;
        let pods: Vec<_> = (1..=100).map(|n| (pod(&format!("web-{n}"), Some(blue(n))), n)).collect();
        let sandboxes: Vec<Sandbox> =
            (1..=100).map(|n| Sandbox::new(&format!("{n:03}def0123456789"))).collect();
        let mut adds = tokio::task::JoinSet::new();
        for ((pod, _), sandbox) in pods.iter().zip(&sandboxes) {
            node.pods.apply_pod(pod);
            let shim = node.shim("ADD", sandbox, pod, json!({}));
            let begun = Instant::now();
            adds.spawn_blocking(move || (shim.run(), begun.elapsed()));
        }
        let mut slowest = Duration::ZERO;
        while let Some(added) = adds.join_next().await {
            let (added, took) = added.unwrap();
            added.unwrap();
            slowest = slowest.max(took);
        }
        assert_eq!(node.switch.ports().len(), 200);
        let text = node.switch.vsctl(&["--bare", "--columns=external_ids", "list", "Interface"]);
        let ids = |key: &str| -> BTreeSet<&str> {
            text.split_whitespace().filter_map(|word| word.strip_prefix(key)?.strip_prefix('=')).collect()
        };
        assert_eq!((ids("iface-id").len(), ids("attached_mac").len()), (200, 200));
        assert!(slowest < Duration::from_secs(30), "{slowest:?}");
    });
}

/// A database that goes away for a moment costs time, not the pod.
#[test]
fn the_database_restarts_during_an_add() {
    on_own_node(async || {
        let mut node = Node::start();
        node.ready().await;
        node.controller.switch_on(false);
        let (sandbox, web) = (Sandbox::new(SANDBOX), pod("web", Some(plain(5))));
        node.pods.apply_pod(&web);
        let shim = node.shim("ADD", &sandbox, &web, json!({}));
        let add = tokio::task::spawn_blocking(move || shim.run());
        has_port(&node).await;
        node.switch.database.kill();
        while node.ovs.ready().is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        node.switch.database.serve();
        node.controller.switch_on(true);
        add.await.unwrap().unwrap();
        assert_eq!(node.switch.ports(), ["abcdef012345678"]);
    });
}

/// What ended while nobody looked goes; what only looks so stays.
#[test]
fn a_start_removes_what_is_left_over_and_nothing_else() {
    on_own_node(async || {
        let mut node = Node::start();
        node.ready().await;
        let named = |name, last| pod(name, Some(plain(last)));
        let (ended, running, unknown) = (named("ended", 5), named("running", 6), named("unknown", 7));
        // What ended comes last: when that is gone, whatever else should stay and does not is gone, too.
        let sandboxes = ["9bcdef0123456789", "2bcdef0123456789", "3bcdef0123456789"].map(Sandbox::new);
        for (pod, sandbox) in [&ended, &running, &unknown].into_iter().zip(&sandboxes) {
            node.pods.apply_pod(pod);
            node.call("ADD", sandbox, pod).await.unwrap();
        }
        node.stop_server();
        // One pod ended with its namespace; one is known and lost its link; one is not known and has its link.
        for link in ["9bcdef012345678", "2bcdef012345678"] {
            switch::run("ip", &["link", "del", link]);
        }
        let pods = switch::Told::start();
        pods.apply_pod(&running);
        let config = causeway_node::cni::CniConfig::new(node.socket.clone());
        let metrics = causeway_node::cni::CniMetrics::default();
        let (host, ovs) = (node.host.clone(), node.ovs.clone());
        let mut tasks = switch::tasks();
        let server = causeway_node::cni::CniServer::start(
            &mut tasks,
            config,
            pods.published.clone(),
            host,
            ovs,
            metrics,
        );
        let _server = server.unwrap();
        let early = node.call("STATUS", &sandboxes[1], &running).await.unwrap_err();
        assert!(early.msg.contains("not known yet"), "{early}");
        assert_eq!(node.switch.ports().len(), 3, "nothing goes before all pods are known");
        pods.published.set_listed();
        while node.switch.ports().len() == 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(node.switch.ports(), ["2bcdef012345678", "3bcdef012345678"]);
    });
}

/// Only root may ask.
#[test]
fn the_socket_is_for_root_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    on_own_node(async || {
        let node = Node::start();
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(node.socket.parent().unwrap()), mode(&node.socket)), (0o700, 0o600));
    });
}

/// A folder that others use too keeps its mode, and a socket that a former process left is no hindrance.
#[test]
fn a_folder_that_was_there_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    on_own_node(async || {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let socket = folder.path().join("cni.sock");
        std::fs::write(&socket, "left over").unwrap();
        let node = Node::start_with(Switch::start(), |config| config.socket = socket.clone());
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(folder.path()), mode(&socket)), (0o755, 0o600));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing but the socket");
        drop(node);
        assert!(!socket.exists());
    });
}

/// A NAD's own interface comes by a call of its own, which is for later.
#[test]
fn an_additional_network_is_refused_with_words() {
    on_own_node(async || {
        let node = Node::start();
        node.ready().await;
        let (sandbox, web) = (Sandbox::new(SANDBOX), pod("web", Some(plain(5))));
        let config = json!({"netAttachDefName": "ns1/more"});
        let error = node.call_with("ADD", &sandbox, &web, config.clone()).await.unwrap_err();
        assert!(error.msg.contains("ns1/more") && error.code == ErrorCode::UnsupportedField, "{error}");
        assert_eq!(node.call_with("DEL", &sandbox, &web, config).await, Ok(Value::Null));
    });
}

/// The second cable is refused: the first one goes as well.
#[test]
fn a_refused_cable_leaves_nothing() {
    on_own_node(async || {
        let host = std::sync::Arc::new(causeway_host::FakeHost::default());
        let node = Node::start_on(host.clone(), Switch::start(), |_| {});
        node.ready().await;
        node.pods.apply_network(&network("ns1/blue", "cluster_udn_blue", "10.20.0.0/16", "primary"));
        host.refuse("ovn-udn1");
        let (sandbox, web) = (Sandbox::new(SANDBOX), pod("web", Some(blue(5))));
        node.pods.apply_pod(&web);
        let error = node.call("ADD", &sandbox, &web).await.unwrap_err();
        assert_eq!(error.msg, "laying a cable to ovn-udn1: permission denied");
        assert_eq!((host.pods(), node.switch.ports()), (BTreeMap::new(), vec![]));
    });
}
