//! Pods of this node: publishes their wiring to the CNI server, and tells the container runtime that there is one.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use causeway_host::Kernel;
use causeway_plan::wiring;
use causeway_record::{ObjectKey, Request};
use causeway_runtime::{Health, Tasks};
use causeway_zone::{Changes, Zone};
use prometheus_client::registry::Registry;
use serde_json::json;
use tracing::{info, warn};

use super::flags::NodeFlags;
use super::status;
use crate::cni::{CniConfig, CniMetrics, CniServer, Pods};
use crate::ovs::Ovs;

/// Sorted before others, so that the runtime takes ours.
const FILE: &str = "10-causeway.conflist";
/// The name that configurations of the default network have.
pub(super) const DEFAULT_NETWORK: &str = "ovn-kubernetes";

/// The pods' side of the role.
pub(super) struct Wiring {
    pods: Pods,
    /// Its socket goes with it.
    _server: CniServer,
    file: PathBuf,
    content: String,
    announced: bool,
}

impl Wiring {
    /// Starts the server. Nobody calls it before it is announced.
    pub(super) fn start(
        tasks: &mut Tasks,
        flags: &NodeFlags,
        health: &Health,
        ovs: Ovs,
        registry: &mut Registry,
    ) -> io::Result<Wiring> {
        let pods = Pods::default();
        let metrics = CniMetrics::default();
        metrics.register(registry);
        let config = CniConfig { health: Some(health.clone()), ..CniConfig::new(flags.cni_socket.clone()) };
        let server = CniServer::start(tasks, config, pods.clone(), Arc::new(Kernel), ovs, metrics)?;
        Ok(Wiring {
            pods,
            _server: server,
            file: flags.cni_conf_dir.join(FILE),
            content: configuration(&flags.cni_socket),
            announced: false,
        })
    }

    /// Publishes the wiring of the pods that some changes concern.
    pub(super) fn publish(&self, zone: &Zone, changes: &Changes) {
        let pods: BTreeSet<ObjectKey> =
            changes.iter().flat_map(|change| wiring::follows(zone, change)).collect();
        pods.iter().for_each(|pod| self.pods.publish(pod, wiring::wiring(zone, pod)));
    }

    /// Waits until further pods have their interfaces.
    pub(super) async fn connected(&self) {
        self.pods.connected().await;
    }

    /// What is to be said of the pods that have got their interfaces since this was asked last. Of one that says something
    /// already nothing is: that was us, or a plugin that calls several others and knows more.
    pub(super) fn statuses(&self) -> Vec<Request> {
        self.pods.take_connected().iter().filter_map(|(key, wiring)| status::request(key, wiring)).collect()
    }

    /// All pods of this node have been published once.
    pub(super) fn set_listed(&self) {
        self.pods.set_listed();
    }

    /// Who does not do its part, if anybody: the container runtime hears of it when it asks.
    pub(super) fn set_silent(&self, who: Option<&str>) {
        self.pods.set_silent(who);
    }

    /// Tells the container runtime how to call us; from then on the node can have pods.
    pub(super) fn announce(&mut self) {
        if self.announced {
            return;
        }
        match write(&self.file, &self.content) {
            Ok(()) => {
                info!(file = %self.file.display(), "pods can be wired");
                self.announced = true;
            }
            Err(error) => {
                warn!(%error, file = %self.file.display(), "the runtime cannot be told how to wire pods")
            }
        }
    }
}

fn configuration(socket: &Path) -> String {
    let plugin = json!({"type": "causeway-cni", "socket": socket});
    let config = json!({"cniVersion": "1.1.0", "name": DEFAULT_NETWORK, "plugins": [plugin]});
    format!("{config:#}\n")
}

/// Under another name first: the runtime watches the folder and must never read half a file.
fn write(file: &Path, content: &str) -> io::Result<()> {
    if fs::read_to_string(file).is_ok_and(|there| there == content) {
        return Ok(());
    }
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let fresh = file.with_extension("new");
    fs::write(&fresh, content)?;
    fs::rename(&fresh, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_is_told_where_we_are() {
        let config: serde_json::Value =
            serde_json::from_str(&configuration(Path::new("/run/x.sock"))).unwrap();
        assert_eq!(config["plugins"], json!([{"type": "causeway-cni", "socket": "/run/x.sock"}]));
        assert_eq!((&config["cniVersion"], &config["name"]), (&json!("1.1.0"), &json!("ovn-kubernetes")));
    }
}
