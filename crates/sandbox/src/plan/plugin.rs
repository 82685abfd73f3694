//! Who wires pods: Causeway with its two roles, as in production, or the reference bridge plugin.

use super::control::ranges;
use super::node::{environment, volatile};
use super::ovn::remote;
use super::unit::{Body, Command, File, Probe, Process, Unit};
use super::{CONTROL, Places, Site};
use crate::address;
use crate::wanted::{Plugin, Wanted};
use serde_json::json;
use std::path::PathBuf;

/// The reference plugins that the bridge plugin works with.
const REFERENCE: [&str; 3] = ["bridge", "host-local", "loopback"];
/// Our own, under the two names by which configurations call it.
const OURS: [&str; 2] = ["causeway-cni", "ovn-k8s-cni-overlay"];

/// The plugins under the names that containerd looks for, as links in the node's folder.
pub(super) fn programs(site: &Site<'_>, places: &Places) -> Vec<(String, PathBuf)> {
    let reference = |name: &str| (format!("cni/bin/{name}"), places.programs.program(&format!("cni-{name}")));
    let ours = |name: &str| (format!("cni/bin/{name}"), places.own.with_file_name("causeway-cni"));
    match site.plugin {
        Plugin::Bridge => REFERENCE.map(reference).to_vec(),
        // containerd itself asks for the loopback plugin.
        Plugin::Causeway => OURS.map(ours).into_iter().chain([reference("loopback")]).collect(),
    }
}

/// The cluster manager, with the rights that it has in production.
pub(super) fn cluster_manager(wanted: &Wanted, places: &Places) -> Unit {
    let words = [places.own.display().to_string(), "cluster-manager".into()];
    let identity = format!("--kubeconfig={}", places.certificate("cluster-manager.kubeconfig"));
    let words = words.into_iter().chain([identity, "--metrics-address=127.0.0.1:9411".into()]);
    let flags =
        connections(&wanted.flags.cluster_manager).into_iter().chain(wanted.flags.cluster_manager.clone());
    let command = Command::new(words.chain(cluster(wanted)).chain(flags)).within(CONTROL);
    let process = Process { command, files: Vec::new(), probe: Probe::Runs };
    Unit::new("cluster-manager", "cluster manager", Body::Process(process)).after(["causeway"])
}

/// The node role. It tells containerd how to call it once it is ready, so the node becomes Ready no sooner.
pub(super) fn node(wanted: &Wanted, site: &Site<'_>, places: &Places) -> Unit {
    let cni = volatile(site.name, places).join("cni");
    let database = |name: &str| remote(site.name, name, places);
    let words = [
        places.own.display().to_string(),
        "node".into(),
        format!("--node-name={}", site.name),
        format!("--kubeconfig={}", places.certificate(&format!("{}-causeway.kubeconfig", site.name))),
        format!("--northbound={}", database("ovnnb_db")),
        format!("--southbound={}", database("ovnsb_db")),
        format!("--vswitch={}", database("db")),
        format!("--cni-socket={}", cni.join("server.sock").display()),
        format!("--cni-conf-dir={}", cni.join("conf").display()),
        "--metrics-address=127.0.0.1:9410".into(),
    ];
    let flags = connections(&wanted.flags.node).into_iter().chain(wanted.flags.node.clone());
    let command = Command::new(words.into_iter().chain(cluster(wanted)).chain(flags))
        .within(site.name)
        .environment(&environment(site, places));
    let process = Process { command, files: Vec::new(), probe: Probe::Runs };
    let before = ["ovn-controller", "folders", "underlay"].map(|part| site.id(part));
    site.unit("causeway", "Causeway", Body::Process(process)).after(before).after(["causeway"])
}

/// What both roles must know of the cluster.
fn cluster(wanted: &Wanted) -> [String; 2] {
    [
        format!("--cluster-subnets={}", ranges(wanted, address::cluster)),
        format!("--service-cidrs={}", ranges(wanted, address::services)),
    ]
}

/// Connections are on here, unless somebody says otherwise.
fn connections(flags: &[String]) -> Option<String> {
    let flag = "--enable-network-connect";
    let said = flags.iter().any(|given| given.split('=').next() == Some(flag));
    (!said).then(|| flag.to_owned())
}

/// The configuration of the reference bridge plugin, with a range of addresses for each family.
pub(super) fn bridge_config(site: &Site<'_>, places: &Places) -> Option<File> {
    if site.plugin != Plugin::Bridge {
        return None;
    }
    let index = site.node.index;
    let ranges: Vec<_> =
        site.families.iter().map(|f| json!([{"subnet": address::pods(*f, index)}])).collect();
    let routes: Vec<_> = site.families.iter().map(|f| json!({"dst": address::anywhere(*f)})).collect();
    let config = json!({
        "cniVersion": "1.0.0",
        "name": "sandbox",
        "plugins": [{
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": true,
            "hairpinMode": true,
            "ipam": {
                "type": "host-local",
                "dataDir": volatile(site.name, places).join("cni/addresses"),
                "ranges": ranges,
                "routes": routes,
            },
        }],
    });
    let path = volatile(site.name, places).join("cni/conf/10-sandbox.conflist");
    Some(File { path, content: format!("{config:#}\n") })
}
