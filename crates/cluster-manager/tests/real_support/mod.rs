//! A real API server with everything installed, and a cluster manager that runs against it.

#![allow(dead_code, reason = "tests and benchmarks use different parts")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use causeway_api::intent::ClusterConfig;
use causeway_cluster::Features;
use causeway_cluster_manager::{Config, Error, Options, run};
use causeway_testing::ApiServer;
use causeway_types::NodeId;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
}

pub(crate) fn pod(namespace: &str, name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "localhost/causeway-tools:1"}]},
    })
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let cluster = Self { server: ApiServer::start() };
        cluster.kubectl(&["create", "namespace", "causeway"]);
        let files = [
            "crds/causeway.yaml",
            "crds-if-absent/k8s.cni.cncf.io.yaml",
            "crds-if-absent/policy.networking.k8s.io.yaml",
            "policies/causeway.yaml",
            "roles/causeway.yaml",
        ];
        files.iter().for_each(|file| cluster.install(file));
        cluster.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]);
        cluster.wait_for_policies();
        cluster
    }

    pub(crate) fn install(&self, file: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/causeway").join(file);
        self.kubectl(&["apply", "--server-side", "-f", &path.display().to_string()]);
    }

    /// Policies take effect a moment after they are created.
    fn wait_for_policies(&self) {
        let mut number = 0;
        self.eventually("policies take effect", || {
            number += 1;
            let name = format!("probe-{number}");
            self.kubectl(&["create", "namespace", &name]);
            let label = "k8s.ovn.org/primary-user-defined-network=";
            (!self.server.kubectl(&["label", "namespace", &name, label]).ok).then_some(())
        });
    }

    #[track_caller]
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.server.kubectl(arguments).text()
    }

    /// The object, or nothing.
    pub(crate) fn get(&self, kind: &str, namespace: &str, name: &str) -> Value {
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        let answer = self.server.kubectl(&["get", kind, name, "-n", namespace, "-o", "json"]);
        if answer.ok { serde_json::from_str(&answer.out).unwrap() } else { Value::Null }
    }

    #[track_caller]
    pub(crate) fn create(&self, object: &Value) {
        self.create_as(&[], object).unwrap();
    }

    pub(crate) fn create_as(&self, user: &[&str], object: &Value) -> Result<(), String> {
        let arguments = [user, &["create", "-f", "-"]].concat();
        let answer = self.server.kubectl_with(&arguments, &object.to_string());
        if answer.ok { Ok(()) } else { Err(answer.err) }
    }

    pub(crate) fn nodes(&self, names: &[&str]) {
        for name in names {
            self.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
        }
    }

    pub(crate) fn pod(&self, namespace: &str, name: &str, node: &str) {
        self.create(&pod(namespace, name, node));
    }

    /// Lets a user edit a namespace, with NADs.
    pub(crate) fn let_edit(&self, namespace: &str, user: &str) {
        let user = format!("--user={user}");
        let bind = ["create", "rolebinding", "edit", "--clusterrole=admin", &user, "-n", namespace];
        self.kubectl(&bind);
        let nads = "--resource=network-attachment-definitions.k8s.cni.cncf.io";
        self.kubectl(&["create", "role", "nads", "--verb=*", nads, "-n", namespace]);
        // Pods with a node of their own choice: nobody schedules here.
        self.kubectl(&[
            "create",
            "role",
            "pods",
            "--verb=*",
            "--resource=pods,pods/status,pods/binding",
            "-n",
            namespace,
        ]);
        for role in ["nads", "pods"] {
            let role_flag = format!("--role={role}");
            self.kubectl(&["create", "rolebinding", role, &role_flag, &user, "-n", namespace]);
        }
    }

    /// The pod's first address on an attachment, once it is there.
    pub(crate) fn address(&self, namespace: &str, name: &str, attachment: &str) -> String {
        self.eventually(&format!("pod {namespace}/{name} has an address"), || {
            let pod = self.get("pod", namespace, name);
            let text = pod["metadata"]["annotations"]["k8s.ovn.org/pod-networks"].as_str()?.to_owned();
            let networks: Value = serde_json::from_str(&text).unwrap();
            networks[attachment]["ip_addresses"][0].as_str().map(str::to_owned)
        })
    }

    /// What a warning about an object says.
    pub(crate) fn event(&self, namespace: &str, name: &str) -> String {
        let selector = format!("involvedObject.name={name},type=Warning");
        self.eventually(&format!("there is an event about {namespace}/{name}"), || {
            let text = self.kubectl(&[
                "get",
                "events",
                "-n",
                namespace,
                "--field-selector",
                &selector,
                "-o",
                "json",
            ]);
            let list: Value = serde_json::from_str(&text).unwrap();
            list["items"][0]["message"].as_str().map(str::to_owned)
        })
    }

    pub(crate) fn holder(&self) -> String {
        let lease = self.get("lease", "causeway", "causeway-cluster-manager");
        lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub(crate) fn eventually<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(Instant::now() < deadline, "waited for: {what}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A client that is the cluster manager, with its rights and no others.
    pub(crate) fn client(&self) -> kube::Client {
        self.client_of(json!({
            "token": self.server.token(),
            "as": "system:serviceaccount:causeway:cluster-manager",
            "as-groups": ["system:authenticated"],
        }))
    }

    /// A client that may do everything.
    pub(crate) fn admin(&self) -> kube::Client {
        self.client_of(json!({"token": self.server.token()}))
    }

    fn client_of(&self, user: Value) -> kube::Client {
        let url = format!("https://127.0.0.1:{}", self.server.port()).parse().unwrap();
        let mut config = kube::Config::new(url);
        config.accept_invalid_certs = true;
        config.auth_info = serde_json::from_value(user).unwrap();
        kube::Client::try_from(config).unwrap()
    }
}

fn config() -> Config {
    let cluster = vec!["10.244.0.0/16".parse().unwrap()];
    let services = vec!["10.96.0.0/16".parse().unwrap()];
    let subnet = causeway_api::intent::PodSubnet { cidr: cluster[0], host_prefix: Some(24) };
    Config {
        cluster: ClusterConfig::new(cluster, services, NodeId::new(1001).unwrap()),
        default_subnets: vec![subnet],
        max_nodes: 1000,
        fence_after_ms: 600_000,
        namespace: "causeway".into(),
        connect_topology: causeway_types::ConnectTopology::Transit,
        no_overlay: false,
        features: Features { network_connect: true, ..Features::default() },
    }
}

/// A manager that runs.
pub(crate) struct Running {
    end: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
    port: u16,
}

impl Running {
    pub(crate) fn start(cluster: &Cluster) -> Self {
        Self::with(cluster, config(), "test", false, None)
    }

    /// A manager that does nothing about connections.
    pub(crate) fn without_connections(cluster: &Cluster) -> Self {
        let features = Features { network_connect: false, ..Features::default() };
        Self::with(cluster, Config { features, ..config() }, "test", false, None)
    }

    /// A manager that records everything that comes in.
    pub(crate) fn recorded(cluster: &Cluster, file: &Path) -> Self {
        Self::with(cluster, config(), "test", false, Some(file.to_owned()))
    }

    pub(crate) fn elected(cluster: &Cluster, identity: &str) -> Self {
        Self::with(cluster, config(), identity, true, None)
    }

    fn with(
        cluster: &Cluster,
        config: Config,
        identity: &str,
        leader_elect: bool,
        record: Option<PathBuf>,
    ) -> Self {
        let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let metrics = Some(([127, 0, 0, 1], port).into());
        let options = Options { identity: identity.into(), leader_elect, metrics, record };
        let (end, ended) = oneshot::channel::<()>();
        let client = cluster.client();
        let task = tokio::spawn(async move {
            run(config, client, options, async {
                let _stopped = ended.await;
            })
            .await
        });
        Self { end, task, port }
    }

    pub(crate) async fn stop(self) {
        self.end.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }

    /// Why the manager is not ready, if it is not.
    pub(crate) fn not_ready(&self) -> Option<String> {
        self.readyz()?.split_once("not ready: ").map(|(_, reason)| reason.trim().to_owned())
    }

    pub(crate) fn wait_until_ready(&self, cluster: &Cluster) {
        cluster.eventually("the manager is ready", || {
            self.readyz().filter(|page| page.starts_with("HTTP/1.1 200")).map(drop)
        });
    }

    fn readyz(&self) -> Option<String> {
        self.page("/readyz")
    }

    /// What the manager serves.
    pub(crate) fn page(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).ok()?;
        let mut page = String::new();
        stream.read_to_string(&mut page).ok()?;
        Some(page)
    }
}

/// The versions of all objects of these kinds.
fn versions(cluster: &Cluster, kinds: &str) -> Vec<String> {
    let text = cluster.kubectl(&["get", kinds, "-A", "-o", "json"]);
    let list: Value = serde_json::from_str(&text).unwrap();
    let version = |object: &Value| {
        let meta = &object["metadata"];
        format!("{} {}/{} {}", object["kind"], meta["namespace"], meta["name"], meta["resourceVersion"])
    };
    list["items"].as_array().unwrap().iter().map(version).collect()
}

/// Starts another manager, once everything is written, and sees that it writes nothing to objects of these kinds.
pub(crate) async fn a_restart_writes_nothing(cluster: &Cluster, kinds: &str, manager: Running) -> Running {
    cluster.eventually("nothing changes any more", || {
        let before = versions(cluster, kinds);
        std::thread::sleep(Duration::from_secs(2));
        (before == versions(cluster, kinds)).then_some(())
    });
    let before = versions(cluster, kinds);
    manager.stop().await;
    let manager = Running::start(cluster);
    manager.wait_until_ready(cluster);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(versions(cluster, kinds), before);
    manager
}
