//! The Kubernetes part of a node: containerd, the kubelet, and images.

use super::unit::{Body, Command, File, Probe, Process, Task, Unit};
use super::{CONTROL, Places, Site, cgroup, dns, node_environment, outside, plugin, underlay};
use crate::wanted::Wanted;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Holds the namespaces of a pod. It is one of the names in the archive of the tool image.
const PAUSE: &str = "localhost/causeway-pause:1";

pub(super) fn volatile(node: &str, places: &Places) -> PathBuf {
    places.volatile.join(node)
}

/// Where containerd of a node listens.
pub(super) fn socket(node: &str, places: &Places) -> PathBuf {
    volatile(node, places).join("containerd.sock")
}

/// The units of a node beside its zone.
pub(super) fn units(wanted: &Wanted, site: &Site<'_>, places: &Places) -> Vec<Unit> {
    let on_bridge = underlay::on_bridge(site.name, site.node, wanted);
    let mut units = vec![
        site.unit("underlay", "OVN", Body::Task(Task::Network(on_bridge)))
            .after([site.id("bridges"), "network".into()]),
        folders(wanted, site, places).after(["network"]),
        containerd(site, places).after([site.id("folders")]),
        image(site, places, "images", places.programs.image()),
    ];
    for file in &wanted.images {
        units.push(image(site, places, &format!("image-{file}"), places.folder.path("images").join(file)));
    }
    units.push(kubelet(wanted, site, places));
    units.push(ready(site, places));
    units
}

fn node_cgroup(wanted: &Wanted, site: &Site<'_>) -> String {
    format!("{}/{}", cgroup(&wanted.name), site.name)
}

fn folders(wanted: &Wanted, site: &Site<'_>, places: &Places) -> Unit {
    let task = Task::Node {
        cgroup: node_cgroup(wanted, site),
        folder: volatile(site.name, places),
        links: plugin::programs(site, places),
    };
    site.unit("folders", "containerd", Body::Task(task))
}

/// Programs of a node see its tools first, and nothing of the user's own environment.
pub(super) fn environment(site: &Site<'_>, places: &Places) -> BTreeMap<String, String> {
    node_environment(site.name, places).into_iter().filter(|(key, _)| key == "PATH").collect()
}

fn containerd(site: &Site<'_>, places: &Places) -> Unit {
    let config = places.folder.path("nodes").join(site.name).join("containerd.toml");
    let words = [places.program("containerd"), format!("--config={}", config.display())];
    let mut files = vec![File { path: config, content: containerd_config(site, places) }];
    files.extend(plugin::bridge_config(site, places));
    let process = Process {
        command: Command::new(words).within(site.name).environment(&environment(site, places)),
        files,
        probe: Probe::Socket(socket(site.name, places)),
    };
    site.unit("containerd", "containerd", Body::Process(process))
}

fn containerd_config(site: &Site<'_>, places: &Places) -> String {
    let volatile = volatile(site.name, places);
    let root = places.folder.path("nodes").join(site.name).join("containerd");
    format!(
        r#"version = 3
root = "{root}"
state = "{volatile}/containerd"
[grpc]
  address = "{socket}"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  # Pod namespaces live and die with this folder.
  netns_mounts_under_state_dir = true
  # Where CAP_SYS_RESOURCE is missing, runc dies with "EOF" otherwise.
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{volatile}/cni/bin"]
    conf_dir = "{volatile}/cni/conf"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"#,
        root = root.display(),
        volatile = volatile.display(),
        socket = socket(site.name, places).display(),
    )
}

fn image(site: &Site<'_>, places: &Places, part: &str, archive: PathBuf) -> Unit {
    let socket = format!("--address={}", socket(site.name, places).display());
    let words = [&places.program("ctr"), &socket, "--namespace=k8s.io", "images", "import"].map(String::from);
    let command = Command::new(words.into_iter().chain([archive.display().to_string()]));
    site.unit(part, "containerd", Body::Task(Task::Run(vec![command]))).after([site.id("containerd")])
}

fn kubelet(wanted: &Wanted, site: &Site<'_>, places: &Places) -> Unit {
    let folder = places.folder.path("nodes").join(site.name);
    let config = folder.join("kubelet.json");
    let addresses: Vec<String> = site.addresses().map(|address| address.to_string()).collect();
    let words = [
        places.program("kubelet"),
        format!("--config={}", config.display()),
        format!("--kubeconfig={}", places.certificate(&format!("{}.kubeconfig", site.name))),
        format!("--root-dir={}", folder.join("kubelet").display()),
        format!("--cert-dir={}", folder.join("kubelet/pki").display()),
        format!("--hostname-override={}", site.name),
        format!("--node-ip={}", addresses.join(",")),
    ];
    let process = Process {
        command: Command::new(words).within(site.name).environment(&environment(site, places)),
        files: vec![
            File { path: config, content: kubelet_config(wanted, site, places) },
            File { path: names(site, places), content: names_content(wanted) },
            // The kubelet takes no note of hidden files; this one makes the folder.
            File { path: static_pods(site, places).join(".here"), content: String::new() },
        ],
        probe: Probe::Runs,
    };
    let before = ["containerd", "images", "underlay"].map(|part| site.id(part));
    site.unit("kubelet", "Ready", Body::Process(process))
        .after(before)
        .after(["kube-apiserver", "certificates"])
}

/// Manifests in this folder are pods of the kubelet's own.
fn static_pods(site: &Site<'_>, places: &Places) -> PathBuf {
    places.folder.path("nodes").join(site.name).join("static")
}

/// Where the node itself, and pods that do not ask the cluster, ask for names.
fn names(site: &Site<'_>, places: &Places) -> PathBuf {
    places.folder.path("nodes").join(site.name).join("resolv.conf")
}

fn names_content(wanted: &Wanted) -> String {
    outside::resolvers(wanted).map(|address| format!("nameserver {address}\n")).collect()
}

fn kubelet_config(wanted: &Wanted, site: &Site<'_>, places: &Places) -> String {
    let folder = places.folder.path("nodes").join(site.name);
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": false,
        "failSwapOn": false,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", node_cgroup(wanted, site)),
        "enforceNodeAllocatable": [],
        "containerRuntimeEndpoint": format!("unix://{}", socket(site.name, places).display()),
        "podLogsDir": folder.join("logs"),
        "staticPodPath": static_pods(site, places),
        "volumePluginDir": folder.join("plugins"),
        "resolvConf": names(site, places),
        "clusterDNS": dns::resolvers(wanted),
        "clusterDomain": dns::DOMAIN,
        "readOnlyPort": 0,
        "tlsCertFile": places.certificate(&format!("{}-kubelet.crt", site.name)),
        "tlsPrivateKeyFile": places.certificate(&format!("{}-kubelet.key", site.name)),
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": places.certificate("ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        // The machine's disk is not this node's: a full one must not evict pods here.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
    });
    format!("{config:#}\n")
}

fn ready(site: &Site<'_>, places: &Places) -> Unit {
    let node = format!("node/{}", site.name);
    let wait = places.kubectl(["wait", "--for=condition=Ready", &node, "--timeout=20s"]).within(CONTROL);
    site.unit("ready", "Ready", Body::Task(Task::Run(vec![wait]))).after([site.id("kubelet")])
}
