//! A node with a real switch, real cables and a real CNI server, in a namespace that ends with the test. Whoever plays
//! ovn-controller is [`Controller`], unless a test starts the real one.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use causeway_api::intent::ClusterConfig;
use causeway_cni::{ErrorObject, Shim};
use causeway_host::{Host, Kernel, new_namespace};
use causeway_node::cni::{CniConfig, CniMetrics, CniServer, Pods};
use causeway_node::ovs::{Ovs, OvsConfig};
use causeway_ovsdb_client::ovsdb::{
    Condition, Datum, MonitorTable, Mutation, Mutator, Op, SessionConfig, Transaction, Uuid,
};
use causeway_ovsdb_client::{Client, ClientConfig, Remote};
use causeway_plan::wiring;
use causeway_record::{Nad, Namespace, ObjectKey, Pod};
use causeway_runtime::{Health, Tasks};
pub use causeway_testing::Switch;
use causeway_types::{NamespaceName, NodeId, NodeName};
use causeway_zone::{Changes, Zone, ZoneConfig};
use nix::sched::{CloneFlags, unshare};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::future::Future;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// Runs a test in a node of its own: the thread, and every thread and process that it starts.
pub fn on_own_node<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    unshare(CloneFlags::CLONE_NEWNET).expect("tests of the node need root");
    run("ip", &["link", "set", "lo", "up"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let limit = Duration::from_secs(120);
        tokio::time::timeout(limit, test()).await.expect("the test came to its end");
    });
}

/// Runs a program; what it printed.
pub fn run(name: &str, words: &[&str]) -> String {
    let out = Command::new(name).args(words).output().unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(out.status.success(), "{name} {words:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Plays ovn-controller: says of every pod's interface that packets can flow, while it is switched on.
pub struct Controller {
    on: watch::Sender<bool>,
}

impl Controller {
    pub fn start(switch: &Switch) -> Controller {
        let (on, mut is_on) = watch::channel(true);
        let mut session = SessionConfig::new("Open_vSwitch");
        let columns = ["external_ids"].map(Into::into).to_vec();
        session.tables = vec![MonitorTable { columns, ..MonitorTable::whole("Interface") }];
        let remotes = Remote::list(&switch.database.remote()).unwrap();
        let mut client = Client::new(ClientConfig::new(session, remotes));
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = client.next() => {}
                    Ok(()) = is_on.changed() => {}
                }
                if *is_on.borrow() && client.session().is_synced() {
                    let ops: Vec<Op> = uninstalled(&client).into_iter().map(install).collect();
                    if !ops.is_empty() {
                        client.transact(&Transaction::new(ops)).await;
                    }
                }
            }
        });
        Controller { on }
    }

    pub fn switch_on(&self, on: bool) {
        self.on.send_replace(on);
    }
}

fn uninstalled(client: &Client) -> Vec<Uuid> {
    let replica = client.replica();
    let Some(table) = replica.table("Interface") else { return Vec::new() };
    let waits = |ids: &Datum| ids.get("iface-id").is_some() && ids.get("ovn-installed").is_none();
    replica.rows(table).filter(|row| row.get("external_ids").is_some_and(waits)).map(|row| row.uuid).collect()
}

fn install(interface: Uuid) -> Op {
    let value = Datum::str_map([("ovn-installed", "true")]);
    Op::Mutate {
        table: "Interface".into(),
        conditions: vec![Condition::uuid(interface)],
        mutations: vec![Mutation { column: "external_ids".into(), mutator: Mutator::Insert, value }],
    }
}

/// A pod's namespace: it is there while the file is open.
pub struct Sandbox {
    pub id: String,
    pub netns: PathBuf,
    pub file: Option<File>,
}

impl Sandbox {
    pub fn new(id: &str) -> Sandbox {
        let file = new_namespace().expect("tests of the node need root");
        let netns = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into();
        Sandbox { id: id.to_owned(), netns, file: Some(file) }
    }

    /// Runs `ip` inside.
    pub fn ip(&self, words: &str) -> String {
        let words: Vec<&str> = words.split(' ').collect();
        causeway_host::in_namespace(&self.netns, || Ok(run("ip", &words))).unwrap()
    }
}

pub struct Node {
    pub pods: Told,
    pub ovs: Ovs,
    pub socket: PathBuf,
    pub controller: Controller,
    /// With the task that serves.
    server: Option<(CniServer, Tasks)>,
    _tasks: Tasks,
    pub host: Arc<dyn Host>,
    pub switch: Switch,
}

/// Somebody who owns tasks.
pub fn tasks() -> Tasks {
    Tasks::new(&Health::waiting("a test"), &mut Registry::default())
}

impl Node {
    /// With the default network and nothing else known, and all listed.
    pub fn start() -> Node {
        Self::start_with(Switch::start(), |_| {})
    }

    pub fn start_with(switch: Switch, change: impl FnOnce(&mut CniConfig)) -> Node {
        Self::start_on(Arc::new(Kernel), switch, change)
    }

    pub fn start_on(host: Arc<dyn Host>, switch: Switch, change: impl FnOnce(&mut CniConfig)) -> Node {
        let controller = Controller::start(&switch);
        let pods = Told::start();
        let remotes = Remote::list(&switch.database.remote()).unwrap();
        let (mut tasks, mut serving) = (tasks(), tasks());
        let ovs = Ovs::start(&mut tasks, OvsConfig { remotes, tls: None, bridge: "br-int".into() });
        let socket = switch.database.folder().join("cni/cni.sock");
        let mut config = CniConfig::new(socket.clone());
        change(&mut config);
        let metrics = CniMetrics::default();
        let server = CniServer::start(
            &mut serving,
            config,
            pods.published.clone(),
            host.clone(),
            ovs.clone(),
            metrics,
        )
        .unwrap();
        pods.published.set_listed();
        Node { pods, ovs, socket, controller, server: Some((server, serving)), _tasks: tasks, host, switch }
    }

    /// Waits until pods can come.
    pub async fn ready(&self) {
        while self.ovs.ready().is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The runtime calls the plugin.
    pub async fn call(&self, command: &str, sandbox: &Sandbox, pod: &Pod) -> Result<Value, ErrorObject> {
        self.call_with(command, sandbox, pod, json!({})).await
    }

    pub async fn call_with(
        &self,
        command: &str,
        sandbox: &Sandbox,
        pod: &Pod,
        more: Value,
    ) -> Result<Value, ErrorObject> {
        let shim = self.shim(command, sandbox, pod, more);
        let text = tokio::task::spawn_blocking(move || shim.run()).await.unwrap()?;
        Ok(if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() })
    }

    pub fn shim(&self, command: &str, sandbox: &Sandbox, pod: &Pod, more: Value) -> Shim {
        let mut config = json!({"cniVersion": "1.1.0", "name": "ovn-kubernetes", "type": "ovn-k8s-cni-overlay",
            "socket": self.socket});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let args = format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={};K8S_POD_INFRA_CONTAINER_ID={};K8S_POD_UID={}",
            pod.key.namespace,
            pod.key.name,
            sandbox.id,
            pod.static_pod.as_ref().unwrap_or(&pod.uid)
        );
        let env = [
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", &sandbox.id),
            ("CNI_NETNS", sandbox.netns.to_str().unwrap()),
            ("CNI_IFNAME", "eth0"),
            ("CNI_ARGS", &args),
            ("CNI_PATH", "/opt/cni/bin"),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Shim { env: env.into(), input: config.to_string().into_bytes() }
    }

    /// Ends the server, as a restart of the node's process does.
    pub fn stop_server(&mut self) {
        self.server = None;
    }

    /// Links of the node whose names begin so.
    pub fn links(&self, prefix: &str) -> Vec<String> {
        let shown = run("ip", &["-o", "link"]);
        let names = shown.lines().filter_map(|line| line.split(": ").nth(1)?.split('@').next());
        names.filter(|name| name.starts_with(prefix)).map(str::to_owned).collect()
    }
}

/// The definition of a layer3 network, as the cluster manager writes it.
pub fn network(nad: &str, name: &str, subnet: &str, role: &str) -> Nad {
    let (namespace, object) = nad.split_once('/').unwrap();
    let key = ObjectKey { namespace: NamespaceName::new(namespace).unwrap(), name: object.into() };
    let config = json!({"cniVersion": "1.1.0", "type": "ovn-k8s-cni-overlay", "name": name, "netAttachDefName": nad,
        "topology": "layer3", "role": role, "subnets": format!("{subnet}/24"), "mtu": 1300});
    let mut record = Nad::new(key);
    record.annotate("k8s.ovn.org/network-name", Some(name));
    record.annotate("k8s.ovn.org/network-id", Some("7"));
    record.configure(config.to_string());
    record
}

/// The zone of node `n1`, which publishes what its pods are to be connected with.
pub struct Told {
    zone: Mutex<Zone>,
    pub published: Pods,
}

impl Told {
    pub fn start() -> Told {
        let subnets = vec!["10.244.0.0/16".parse().unwrap()];
        let cluster = ClusterConfig::new(subnets, Vec::new(), NodeId::FIRST);
        let told = Told {
            zone: Mutex::new(Zone::new(ZoneConfig::new("n1".parse().unwrap(), cluster))),
            published: Pods::default(),
        };
        let mut node = causeway_record::Node::new("n1".parse().unwrap());
        node.annotate("k8s.ovn.org/node-id", Some("2"));
        node.annotate("k8s.ovn.org/node-chassis-id", Some("n1"));
        told.tell(|zone| zone.apply_node(&node));
        told
    }

    fn tell(&self, event: impl FnOnce(&mut Zone) -> Changes) {
        let mut zone = self.zone.lock().unwrap();
        let changes = event(&mut zone);
        let pods: BTreeSet<ObjectKey> =
            changes.iter().flat_map(|change| wiring::follows(&zone, change)).collect();
        pods.iter().for_each(|pod| self.published.publish(pod, wiring::wiring(&zone, pod)));
    }

    pub fn apply_pod(&self, pod: &Pod) {
        self.tell(|zone| zone.apply_pod(pod));
    }

    pub fn delete_pod(&self, key: &ObjectKey) {
        self.tell(|zone| zone.delete_pod(key));
    }

    pub fn apply_network(&self, nad: &Nad) {
        self.tell(|zone| zone.apply_nad(nad));
    }

    /// The namespace's pods must have a primary network of their own.
    pub fn demand_primary(&self, namespace: &str) {
        let labels = [("k8s.ovn.org/primary-user-defined-network".to_owned(), String::new())].into();
        let name = NamespaceName::new(namespace).unwrap();
        self.tell(|zone| {
            zone.apply_namespace(&Namespace { name, labels, deleting: false, logging: Default::default() })
        });
    }
}

/// A pod on this node with this annotation of networks.
pub fn pod(name: &str, networks: Option<Value>) -> Pod {
    let key = ObjectKey { namespace: NamespaceName::new("ns1").unwrap(), name: name.into() };
    let mut pod = Pod { node: Some(NodeName::new("n1").unwrap()), ..Pod::new(key, format!("uid-of-{name}")) };
    pod.annotate("k8s.ovn.org/pod-networks", networks.map(|networks| networks.to_string()).as_deref());
    pod
}

/// The annotation of an ordinary pod, on the default network alone.
pub fn plain(last: u8) -> Value {
    json!({"default": {"ip_addresses": [format!("10.244.1.{last}/24")], "mac_address": format!("0a:58:0a:f4:01:{last:02x}"),
        "gateway_ips": ["10.244.1.1"],
        "routes": [{"dest": "10.244.0.0/16", "nextHop": "10.244.1.1"}], "role": "primary"}})
}

/// The annotation of a pod on the layer3 network `blue`, as the cluster manager writes it.
pub fn blue(last: u8) -> Value {
    json!({
        "default": {"ip_addresses": [format!("10.244.1.{last}/24")], "mac_address": format!("0a:58:0a:f4:01:{last:02x}"),
            "routes": [{"dest": "10.244.0.0/16", "nextHop": "10.244.1.1"}, {"dest": "100.64.0.0/16", "nextHop": "10.244.1.1"}],
            "role": "infrastructure-locked"},
        "ns1/blue": {"ip_addresses": [format!("10.20.1.{last}/24")], "mac_address": format!("0a:58:0a:14:01:{last:02x}"),
            "gateway_ips": ["10.20.1.1"],
            "routes": [{"dest": "10.20.0.0/16", "nextHop": "10.20.1.1"}, {"dest": "10.96.0.0/16", "nextHop": "10.20.1.1"},
                {"dest": "100.65.0.0/16", "nextHop": "10.20.1.1"}],
            "role": "primary"},
    })
}
