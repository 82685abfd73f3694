//! The control plane: certificates, etcd, the API server and those who work for it, and the door to the machine.

use super::unit::{Body, Command, File, Kubeconfig, Probe, Process, Task, Unit};
use super::{API_PORT, CONTROL, Places, pool};
use crate::address::{self, first_service, in_url, node_host, underlay};
use crate::certificates::Identity;
use crate::wanted::Wanted;
use causeway_api::install::{Installation, NODE_GROUP, NODE_USER_PREFIX};
use serde_json::json;
use std::net::{IpAddr, SocketAddr};

const STEP: &str = "control plane";

/// Where the API server answers in the sandbox.
fn api_address(wanted: &Wanted) -> IpAddr {
    let family = wanted.families.first().copied().unwrap_or(address::Family::Ipv4);
    underlay(family, address::CONTROL).addr()
}

fn joined(values: impl Iterator<Item = String>) -> String {
    values.collect::<Vec<_>>().join(",")
}

/// Who has a certificate, and who a kubeconfig.
pub(super) fn certificates(wanted: &Wanted, places: &Places) -> Unit {
    let mut identities = vec![
        Identity::server("api", api_names(wanted)),
        Identity::client("api-to-kubelet", "kube-apiserver-kubelet-client", Some("system:masters")),
        Identity::client("admin", "admin", Some("system:masters")),
        Identity::client("controller-manager", "system:kube-controller-manager", None),
        Identity::client("scheduler", "system:kube-scheduler", None),
        Identity::client("cluster-manager", Installation::default().cluster_manager_user(), None),
        Identity::client(pool::NAME, pool::USER, None),
    ];
    for (name, node) in &wanted.nodes {
        let addresses =
            wanted.families.iter().map(|f| underlay(*f, node_host(node.index)).addr().to_string());
        let names = std::iter::once(name.clone()).chain(addresses).collect();
        identities.extend([
            Identity::client(name.clone(), format!("system:node:{name}"), Some("system:nodes")),
            Identity::server(format!("{name}-kubelet"), names),
            Identity::client(
                format!("{name}-causeway"),
                format!("{NODE_USER_PREFIX}{name}"),
                Some(NODE_GROUP),
            ),
        ]);
    }
    let kubeconfigs = kubeconfigs(wanted, places, &identities);
    Unit::new("certificates", "certificates", Body::Task(Task::Certificates { identities, kubeconfigs }))
}

fn api_names(wanted: &Wanted) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        .map(str::to_owned)
        .into_iter()
        .chain(["127.0.0.1".to_owned(), "::1".to_owned()])
        .collect();
    for family in &wanted.families {
        names.push(underlay(*family, address::CONTROL).addr().to_string());
        names.push(first_service(*family).to_string());
    }
    names
}

/// One for each client, for use inside, and the administrator's for the machine.
fn kubeconfigs(wanted: &Wanted, places: &Places, identities: &[Identity]) -> Vec<Kubeconfig> {
    let context = format!("causeway-{}", wanted.name);
    let inside = format!("https://{}:{API_PORT}", in_url(api_address(wanted)));
    let clients = identities.iter().filter(|identity| identity.serves.is_empty());
    let mut all: Vec<Kubeconfig> = clients
        .map(|identity| Kubeconfig {
            path: places.certificate(&format!("{}.kubeconfig", identity.name)).into(),
            identity: identity.name.clone(),
            server: inside.clone(),
            context: context.clone(),
        })
        .collect();
    all.push(Kubeconfig {
        path: places.folder.kubeconfig(),
        identity: "admin".into(),
        server: format!("https://127.0.0.1:{}", wanted.api_port),
        context,
    });
    all
}

/// The processes of the control plane, and what is installed into it.
pub(super) fn units(wanted: &Wanted, places: &Places) -> Vec<Unit> {
    let install = Task::Install {
        apply: places.apply(),
        definitions: places.kubectl(["get", "customresourcedefinitions", "--output=name"]),
    };
    vec![
        process("etcd", etcd(places), Probe::Runs).after(["network"]),
        way_into_the_cluster(places).after(["network"]),
        api(wanted, places).after(["certificates", "network"]),
        process("kube-controller-manager", controller_manager(places), Probe::Runs).after(["kube-apiserver"]),
        process("kube-scheduler", scheduler(places), Probe::Runs).after(["kube-apiserver"]),
        door(wanted, places).after(["network"]),
        first_account(places).after(["kube-controller-manager"]),
        Unit::new("causeway", "custom resources and roles", Body::Task(install)).after(["kube-apiserver"]),
    ]
}

/// How the API server reaches kubelets, pods and services: it is on no node, so it asks a proxy that is on all of them.
const CLUSTER_PROXY: &str = "cluster-proxy.sock";

fn way_into_the_cluster(places: &Places) -> Unit {
    let socket = places.folder.path(CLUSTER_PROXY);
    let words = [
        places.own.display().to_string(),
        "sandbox".into(),
        "internal".into(),
        "cluster-proxy".into(),
        format!("--socket={}", socket.display()),
    ];
    process("cluster-proxy", words.to_vec(), Probe::Socket(socket))
}

fn api(wanted: &Wanted, places: &Places) -> Unit {
    let egress = File { path: places.folder.path("egress.json"), content: egress(places) };
    let mut words = api_server(wanted, places);
    words.push(format!("--egress-selector-config-file={}", egress.path.display()));
    let command = Command::new(words).within(CONTROL);
    let process = Process { command, files: vec![egress], probe: readiness(places) };
    Unit::new("kube-apiserver", STEP, Body::Process(process))
}

/// What the API server itself calls into the cluster goes by the proxy; what it says to etcd does not.
fn egress(places: &Places) -> String {
    let config = json!({
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{
            "name": "cluster",
            "connection": {
                "proxyProtocol": "HTTPConnect",
                "transport": {"uds": {"udsName": places.folder.path(CLUSTER_PROXY)}},
            },
        }],
    });
    format!("{config:#}\n")
}

fn process(id: &str, words: Vec<String>, probe: Probe) -> Unit {
    let command = Command::new(words).within(CONTROL);
    Unit::new(id, STEP, Body::Process(Process { command, files: Vec::new(), probe }))
}

fn readiness(places: &Places) -> Probe {
    Probe::Command(places.kubectl(["get", "--raw", "/readyz"]))
}

/// Nobody but this namespace reaches its loopback address, so etcd needs no certificates.
fn etcd(places: &Places) -> Vec<String> {
    vec![
        places.program("etcd"),
        format!("--data-dir={}", places.text("etcd")),
        "--listen-client-urls=http://127.0.0.1:2379".into(),
        "--advertise-client-urls=http://127.0.0.1:2379".into(),
        "--listen-peer-urls=http://127.0.0.1:2380".into(),
        // A sandbox that survives a power failure is not worth a disk write for each object.
        "--unsafe-no-fsync".into(),
    ]
}

fn api_server(wanted: &Wanted, places: &Places) -> Vec<String> {
    let file = |flag: &str, name: &str| format!("--{flag}={}", places.certificate(name));
    vec![
        places.program("kube-apiserver"),
        "--etcd-servers=http://127.0.0.1:2379".into(),
        format!("--secure-port={API_PORT}"),
        "--bind-address=::".into(),
        format!("--advertise-address={}", api_address(wanted)),
        file("cert-dir", "api-server"),
        file("tls-cert-file", "api.crt"),
        file("tls-private-key-file", "api.key"),
        file("client-ca-file", "ca.crt"),
        file("kubelet-certificate-authority", "ca.crt"),
        file("kubelet-client-certificate", "api-to-kubelet.crt"),
        file("kubelet-client-key", "api-to-kubelet.key"),
        file("service-account-key-file", "sa.pub"),
        file("service-account-signing-key-file", "sa.key"),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        "--authorization-mode=Node,RBAC".into(),
        "--enable-admission-plugins=NodeRestriction".into(),
        "--kubelet-preferred-address-types=InternalIP".into(),
        "--allow-privileged".into(),
        format!("--service-cluster-ip-range={}", ranges(wanted, address::services)),
    ]
}

pub(super) fn ranges(wanted: &Wanted, of: impl Fn(address::Family) -> ipnet::IpNet) -> String {
    joined(wanted.families.iter().map(|family| of(*family).to_string()))
}

fn controller_manager(places: &Places) -> Vec<String> {
    let file = |flag: &str, name: &str| format!("--{flag}={}", places.certificate(name));
    vec![
        places.program("kube-controller-manager"),
        file("kubeconfig", "controller-manager.kubeconfig"),
        file("authentication-kubeconfig", "controller-manager.kubeconfig"),
        file("authorization-kubeconfig", "controller-manager.kubeconfig"),
        file("cert-dir", "controller-manager"),
        file("service-account-private-key-file", "sa.key"),
        file("root-ca-file", "ca.crt"),
        file("cluster-signing-cert-file", "ca.crt"),
        file("cluster-signing-key-file", "ca.key"),
        "--use-service-account-credentials".into(),
        "--leader-elect=false".into(),
        "--bind-address=127.0.0.1".into(),
    ]
}

fn scheduler(places: &Places) -> Vec<String> {
    let file = |flag: &str| format!("--{flag}={}", places.certificate("scheduler.kubeconfig"));
    vec![
        places.program("kube-scheduler"),
        file("kubeconfig"),
        file("authentication-kubeconfig"),
        file("authorization-kubeconfig"),
        format!("--cert-dir={}", places.certificate("scheduler")),
        "--leader-elect=false".into(),
        "--bind-address=127.0.0.1".into(),
    ]
}

/// Before this account is there, no pod is accepted.
fn first_account(places: &Places) -> Unit {
    let look = places.kubectl(["get", "serviceaccount", "default"]);
    Unit::new("service-account", STEP, Body::Task(Task::Run(vec![look])))
}

/// The only thing of a sandbox in the machine's own network: a port of its loopback address.
fn door(wanted: &Wanted, places: &Places) -> Unit {
    let target = SocketAddr::new(api_address(wanted), API_PORT);
    let words = [
        places.own.display().to_string(),
        "sandbox".into(),
        "internal".into(),
        "forward".into(),
        format!("--listen=127.0.0.1:{}", wanted.api_port),
        format!("--namespace={CONTROL}"),
        format!("--target={target}"),
    ];
    let process = Process { command: Command::new(words), files: Vec::new(), probe: Probe::Runs };
    Unit::new("api-port", STEP, Body::Process(process))
}
