//! Pods that talk: the CNI server and the management port with a real OVN, where ovn-controller itself says when packets
//! can flow.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod switch;

use causeway_host::in_namespace;
use causeway_testing::{OvsdbServer, program, schema_file};
use causeway_types::host::{Address, HostPlan, InternalPort, Item, LinkState, Owner};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use switch::{Node, Sandbox, Switch, on_own_node, plain, pod, run};

/// Databases and daemons of a zone.
struct Zone {
    northbound: OvsdbServer,
    southbound: OvsdbServer,
    daemons: Vec<Child>,
}

impl Zone {
    fn start() -> Zone {
        let start = |schema| OvsdbServer::start(&schema_file(schema));
        Zone { northbound: start("ovn-nb"), southbound: start("ovn-sb"), daemons: Vec::new() }
    }

    fn switch(&self) -> Switch {
        let remote = format!("external_ids:ovn-remote={}", self.southbound.remote());
        Switch::start_with(&[
            "external_ids:system-id=n1",
            "external_ids:ovn-encap-type=geneve",
            "external_ids:ovn-encap-ip=127.0.0.1",
            "external_ids:ovn-bridge-datapath-type=netdev",
            &remote,
        ])
    }

    fn run(&mut self, switch: &Switch) {
        let databases = [
            format!("--ovnnb-db={}", self.northbound.remote()),
            format!("--ovnsb-db={}", self.southbound.remote()),
        ];
        self.daemons = vec![daemon("ovn-northd", &databases, self.northbound.folder())];
        // ovn-controller 25.03 can crash when it meets a southbound database that northd is just filling. Elsewhere a
        // supervisor restarts it; here it starts afterwards.
        self.nbctl("--wait=sb sync");
        self.daemons.push(daemon("ovn-controller", &[switch.database.remote()], switch.database.folder()));
    }

    fn nbctl(&self, words: &str) {
        let server = format!("--db={}", self.northbound.remote());
        let all: Vec<&str> = [server.as_str(), "--timeout=30"].into_iter().chain(words.split(' ')).collect();
        run(program("ovn-nbctl").to_str().unwrap(), &all);
    }

    fn port(&self, name: &str, mac: &str, address: &str) {
        self.nbctl(&format!("lsp-add sw {name}"));
        run(
            program("ovn-nbctl").to_str().unwrap(),
            &[
                &format!("--db={}", self.northbound.remote()),
                "lsp-set-addresses",
                name,
                &format!("{mac} {address}"),
            ],
        );
    }
}

impl Drop for Zone {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn daemon(name: &str, words: &[String], folder: &Path) -> Child {
    let variables = ["OVS_RUNDIR", "OVN_RUNDIR", "OVN_DBDIR", "OVN_LOGDIR", "OVN_SYSCONFDIR"];
    Command::new(program(name))
        .args(words)
        .args(["-vconsole:off", "--pidfile"])
        .arg(format!("--log-file={}", folder.join(name).with_extension("log").display()))
        .envs(variables.map(|variable| (variable, folder)))
        .stdin(Stdio::null())
        .spawn()
        .expect("OVN's daemons start")
}

/// Sends more than fits into one packet from here to a pod, and back.
fn talk(pod: &Sandbox, address: &str) -> std::io::Result<usize> {
    let address: SocketAddr = address.parse().unwrap();
    let listener = in_namespace(&pod.netns, || Ok(TcpListener::bind(address).unwrap())).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = vec![0; 100_000];
            stream.read_exact(&mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
        });
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
        stream.write_all(&vec![7; 100_000])?;
        let mut back = Vec::new();
        stream.read_to_end(&mut back)
    })
}

fn management() -> HostPlan {
    let name = "ovn-k8s-mp0".to_owned();
    let port = InternalPort {
        name: name.clone(),
        bridge: "br-int".into(),
        iface_id: "k8s-n1".into(),
        external_ids: BTreeMap::new(),
        mac: "0a:58:0a:f4:01:02".parse().unwrap(),
        mtu: 1400,
    };
    let mut plan = HostPlan::default();
    let mut add = |item| plan.add(&Owner::new("network:default"), item);
    add(Item::Port(port));
    add(Item::Address(Address::new(name.clone(), "10.244.1.2/24".parse().unwrap())));
    add(Item::State(LinkState { device: name, up: true }));
    plan
}

#[test]
fn pods_reach_each_other_and_the_node_reaches_pods() {
    on_own_node(async || {
        let mut zone = Zone::start();
        let node = Node::start_with(zone.switch(), |_| {});
        node.controller.switch_on(false);
        zone.run(&node.switch);
        node.ready().await;
        zone.nbctl("ls-add sw");
        zone.port("k8s-n1", "0a:58:0a:f4:01:02", "10.244.1.2");
        assert_eq!(node.ovs.ensure_internal(management()).await.unwrap().problems, []);
        assert!(node.host.apply_host(&management()).problems.is_empty());

        let (one, two) = (pod("one", Some(plain(5))), pod("two", Some(plain(6))));
        let sandboxes = (Sandbox::new("1bcdef0123456789"), Sandbox::new("2bcdef0123456789"));
        for (pod, sandbox, last) in [(&one, &sandboxes.0, 5), (&two, &sandboxes.1, 6)] {
            zone.port(
                &format!("ns1_{}", pod.key.name),
                &format!("0a:58:0a:f4:01:{last:02x}"),
                &format!("10.244.1.{last}"),
            );
            node.pods.apply_pod(pod);
            node.call("ADD", sandbox, pod).await.unwrap();
        }
        let between = in_namespace(&sandboxes.0.netns, || Ok(talk(&sandboxes.1, "10.244.1.6:8080")));
        assert_eq!(between.unwrap().unwrap(), 100_000);
        assert_eq!(talk(&sandboxes.1, "10.244.1.6:8081").unwrap(), 100_000, "from the node");

        node.call("DEL", &sandboxes.0, &one).await.unwrap();
        assert_eq!(node.links("1bcdef"), Vec::<String>::new());
        assert_eq!(talk(&sandboxes.1, "10.244.1.6:8082").unwrap(), 100_000, "the other pod is not touched");
    });
}
