//! A node with a real switch, real cables and a real CNI server, in a namespace that ends with the test. Whoever plays
//! ovn-controller is [`Controller`], unless a test starts the real one.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use causeway_api::annotations::Attachment;
use causeway_api::crd::{Role, Topology};
use causeway_cni::{ErrorObject, Shim};
use causeway_host::{Host, Kernel, new_namespace};
use causeway_node::cni::{CniConfig, CniMetrics, CniServer, NetworkFacts, Pods};
use causeway_node::ovs::{Ovs, OvsConfig};
use causeway_ovsdb_client::ovsdb::{
    Condition, Datum, MonitorTable, Mutation, Mutator, Op, SessionConfig, Transaction, Uuid,
};
use causeway_ovsdb_client::{Client, ClientConfig, Remote};
use causeway_record::{ObjectKey, Pod};
use causeway_runtime::{Health, Tasks};
use causeway_testing::{OvsdbServer, program, schema_file};
use causeway_types::{NadKey, NamespaceName, NetworkName, NodeName};
use nix::sched::{CloneFlags, unshare};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::future::Future;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
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

/// ovsdb-server and ovs-vswitchd, with `br-int` on the userspace datapath.
pub struct Switch {
    daemon: Child,
    pub database: OvsdbServer,
}

impl Switch {
    pub fn start() -> Switch {
        Self::start_with(&[])
    }

    /// The same with settings of `Open_vSwitch`, such as `external_ids:system-id=n1`.
    pub fn start_with(settings: &[&str]) -> Switch {
        let database = OvsdbServer::start(&schema_file("vswitch"));
        let vsctl = |words: &[&str]| {
            let server = format!("--db={}", database.remote());
            let all: Vec<&str> =
                [server.as_str(), "--timeout=30"].into_iter().chain(words.iter().copied()).collect();
            run(program("ovs-vsctl").to_str().unwrap(), &all)
        };
        vsctl(&["--no-wait", "init"]);
        let tso = "other_config:userspace-tso-enable=true";
        let all: Vec<&str> =
            ["--no-wait", "set", "Open_vSwitch", ".", tso].iter().chain(settings).copied().collect();
        vsctl(&all);
        let folder = database.folder();
        let daemon = Command::new(program("ovs-vswitchd"))
            .args([&database.remote(), "--disable-system", "-vconsole:off", "--pidfile"])
            .arg(format!("--log-file={}", folder.join("vswitchd.log").display()))
            .envs(["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"].map(|name| (name, folder)))
            .stdin(Stdio::null())
            .spawn()
            .expect("ovs-vswitchd starts");
        vsctl(&[
            "add-br",
            "br-int",
            "--",
            "set",
            "bridge",
            "br-int",
            "datapath_type=netdev",
            "fail_mode=secure",
        ]);
        Switch { daemon, database }
    }

    pub fn vsctl(&self, words: &[&str]) -> String {
        let server = format!("--db={}", self.database.remote());
        let all: Vec<&str> =
            [server.as_str(), "--timeout=30"].into_iter().chain(words.iter().copied()).collect();
        run(program("ovs-vsctl").to_str().unwrap(), &all)
    }

    /// Ports of `br-int`, sorted.
    pub fn ports(&self) -> Vec<String> {
        self.vsctl(&["list-ports", "br-int"]).lines().map(str::to_owned).collect()
    }

    /// `external_ids` of an interface, but for what a controller writes.
    pub fn ids(&self, interface: &str) -> BTreeMap<String, String> {
        let json = self.vsctl(&["--format=json", "--columns=external_ids", "list", "Interface", interface]);
        let table: Value = serde_json::from_str(&json).unwrap();
        let pairs = table["data"][0][0][1].as_array().unwrap().clone();
        let pair =
            |pair: &Value| (pair[0].as_str().unwrap().to_owned(), pair[1].as_str().unwrap().to_owned());
        pairs.iter().map(pair).filter(|(key, _)| !key.starts_with("ovn-")).collect()
    }

    /// How often something was committed that tells of ports: what the switch writes of itself does not count.
    pub fn writes(&self) -> usize {
        let ours = |transaction: &&Value| {
            let interfaces = transaction["Interface"].as_object().into_iter().flat_map(|rows| rows.values());
            let ids = interfaces.filter(|row| row.get("external_ids").is_some() || row.is_null()).count();
            ids > 0 || transaction.get("Bridge").is_some_and(|rows| rows.to_string().contains("\"ports\""))
        };
        self.database.transactions().transactions.iter().filter(ours).count()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
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

/// The node.
pub struct Node {
    pub pods: Pods,
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
        let pods = Pods::new(NodeName::new("n1").unwrap());
        let remotes = Remote::list(&switch.database.remote()).unwrap();
        let (mut tasks, mut serving) = (tasks(), tasks());
        let ovs = Ovs::start(&mut tasks, OvsConfig { remotes, bridge: "br-int".into() });
        let socket = switch.database.folder().join("cni/cni.sock");
        let mut config = CniConfig::new(socket.clone());
        change(&mut config);
        let metrics = CniMetrics::default();
        let server =
            CniServer::start(&mut serving, config, pods.clone(), host.clone(), ovs.clone(), metrics).unwrap();
        pods.apply_network(&Attachment::Default, facts("default", "10.244.0.0/16", Role::Primary));
        pods.set_listed();
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

pub fn facts(name: &str, subnet: &str, role: Role) -> NetworkFacts {
    NetworkFacts {
        name: NetworkName::new(name).unwrap(),
        mtu: if role == Role::Primary && name != "default" { 1300 } else { 1400 },
        topology: Topology::Layer3,
        role,
        subnets: vec![subnet.parse().unwrap()],
    }
}

pub fn nad(key: &str) -> Attachment {
    Attachment::Nad(NadKey::new(key).unwrap())
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
