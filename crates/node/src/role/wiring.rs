//! Pods of this node: tells the CNI server what it must know, and the container runtime that there is one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use causeway_api::annotations::{Attachment, keys};
use causeway_api::crd::{Role, Topology};
use causeway_api::intent::{ClusterConfig, Network};
use causeway_api::nad;
use causeway_host::Kernel;
use causeway_record::Event;
use causeway_record::{Nad, ObjectKey};
use causeway_runtime::Tasks;
use causeway_types::{NadKey, NetworkName};
use prometheus_client::registry::Registry;
use serde_json::json;
use tracing::{info, warn};

use super::flags::NodeFlags;
use super::state::Input;
use crate::cni::{CniConfig, CniMetrics, CniServer, NetworkFacts, Pods};
use crate::ovs::Ovs;

/// Sorted before others, so that the runtime takes ours.
const FILE: &str = "10-causeway.conflist";
/// The name that configurations of the default network have.
const DEFAULT_NETWORK: &str = "ovn-kubernetes";

/// The pods' side of the role.
pub(super) struct Wiring {
    pods: Pods,
    /// Its socket goes with it.
    _server: CniServer,
    file: PathBuf,
    content: String,
    announced: bool,
    mtu: u32,
}

impl Wiring {
    /// Starts the server. Nobody calls it before it is announced.
    pub(super) fn start(
        tasks: &mut Tasks,
        flags: &NodeFlags,
        ovs: Ovs,
        registry: &mut Registry,
    ) -> io::Result<Wiring> {
        let pods = Pods::new(flags.node_name.clone());
        let metrics = CniMetrics::default();
        metrics.register(registry);
        let cluster = flags.cluster.config();
        pods.apply_network(&Attachment::Default, default_network(&cluster));
        let config = CniConfig::new(flags.cni_socket.clone());
        let server = CniServer::start(tasks, config, pods.clone(), Arc::new(Kernel), ovs, metrics)?;
        Ok(Wiring {
            pods,
            _server: server,
            file: flags.cni_conf_dir.join(FILE),
            content: configuration(&flags.cni_socket),
            announced: false,
            mtu: cluster.mtu,
        })
    }

    /// Takes what concerns pods from what the zone is told too.
    pub(super) fn tell(&self, input: &Input) {
        match input {
            Input::Pod(Event::Applied(pod)) => self.pods.apply_pod(pod),
            Input::Pod(Event::Deleted(key)) => self.pods.delete_pod(key),
            Input::Pod(Event::Synced) => self.pods.set_listed(),
            Input::Namespace(Event::Applied(namespace)) => {
                let needs = namespace.labels.contains_key(keys::PRIMARY_NETWORK_LABEL);
                self.pods.apply_namespace(&namespace.name, needs);
            }
            Input::Namespace(Event::Deleted(name)) => self.pods.delete_namespace(name),
            Input::Nad(Event::Applied(nad)) => self.nad(nad),
            Input::Nad(Event::Deleted(key)) => self.forget(key),
            _ => {}
        }
    }

    /// A definition counts once the cluster manager has numbered it.
    fn nad(&self, nad: &Nad) {
        match (&nad.attachment, attachment(&nad.key)) {
            (nad::Attachment::Ours(network), Some(attachment)) if nad.is_numbered() => {
                self.pods.apply_network(&attachment, self.facts(network));
            }
            _ => self.forget(&nad.key),
        }
    }

    fn facts(&self, network: &Network) -> NetworkFacts {
        NetworkFacts {
            name: network.name.clone(),
            mtu: network.mtu.unwrap_or(self.mtu),
            topology: network.topology,
            role: network.role,
            subnets: network.pod_cidrs().collect(),
        }
    }

    fn forget(&self, key: &ObjectKey) {
        if let Some(attachment) = attachment(key) {
            self.pods.delete_network(&attachment);
        }
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

fn attachment(key: &ObjectKey) -> Option<Attachment> {
    NadKey::new(key.to_string()).ok().map(Attachment::Nad)
}

fn default_network(cluster: &ClusterConfig) -> NetworkFacts {
    NetworkFacts {
        name: NetworkName::default_network(),
        mtu: cluster.mtu,
        topology: Topology::Layer3,
        role: Role::Primary,
        subnets: cluster.cluster_subnets.clone(),
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
