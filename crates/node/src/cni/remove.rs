//! DEL, GC, and what is left over at the start. What is gone already is no error.

use super::attachment::host_link_name;
use super::server::Desk;
use crate::ovs::PodPortSeen;
use causeway_cni::{ErrorCode, ErrorObject, NetworkConfig};
use std::collections::{BTreeMap, BTreeSet};
use tracing::{info, warn};

impl Desk {
    pub(super) async fn del(&self, sandbox: &str) -> Result<(), ErrorObject> {
        let turn = self.calls.of(sandbox);
        turn.unwanted.send_modify(|count| *count += 1);
        let _lock = turn.lock.lock().await;
        self.remove(sandbox).await
    }

    /// Removes all ports and cables of a sandbox; the caller holds its lock.
    pub(super) async fn remove(&self, sandbox: &str) -> Result<(), ErrorObject> {
        let mut names: BTreeSet<String> =
            self.switch(self.ovs.remove_ports(sandbox)).await?.into_iter().collect();
        // An ADD that failed may have laid a cable and made no port.
        names.extend([0, 1].map(|number| host_link_name(sandbox, number)));
        self.kernel(move |host| host.detach(&names.into_iter().collect::<Vec<_>>())).await
    }

    pub(super) async fn gc(&self, config: &NetworkConfig) -> Result<(), ErrorObject> {
        let Some(valid) = &config.valid_attachments else {
            let msg = "GC without cni.dev/valid-attachments: nothing tells what is in use";
            return Err(ErrorObject::new(ErrorCode::InvalidConfig, msg));
        };
        let valid: BTreeSet<&str> = valid.iter().map(|attachment| attachment.container_id.as_str()).collect();
        let mut problems = Vec::new();
        for sandbox in self.sandboxes().await?.into_keys().filter(|id| !valid.contains(id.as_str())) {
            info!(sandbox, "removing what the container runtime does not know any more");
            problems.extend(self.del(&sandbox).await.err());
        }
        problems.pop().map_or(Ok(()), Err)
    }

    async fn sandboxes(&self) -> Result<BTreeMap<String, Vec<PodPortSeen>>, ErrorObject> {
        let mut sandboxes: BTreeMap<String, Vec<PodPortSeen>> = BTreeMap::new();
        for port in self.switch(self.ovs.pod_ports()).await? {
            sandboxes.entry(port.sandbox.clone()).or_default().push(port);
        }
        Ok(sandboxes)
    }

    /// Takes up the pods that a former process has connected, and removes what those left that ended while nobody looked:
    /// pods whose links are gone with their namespaces and that the API does not know on this node.
    pub(super) async fn sweep_once(&self) {
        self.pods.listed().await;
        if let Err(error) = self.sweep().await {
            warn!(%error, "what ended pods left could not be removed; GC does it later");
        }
    }

    async fn sweep(&self) -> Result<(), ErrorObject> {
        let (mut sandboxes, pods) = (self.sandboxes().await?, self.pods.by_uid());
        let installed = sandboxes.values().flatten().filter(|port| port.installed);
        self.pods.set_connected(installed.filter_map(|port| pods.get(&port.uid).cloned()));
        sandboxes.retain(|_, ports| !ports.iter().any(|port| pods.contains_key(&port.uid)));
        let names: Vec<String> = sandboxes.values().flatten().map(|port| port.name.clone()).collect();
        let present = self.kernel(move |host| host.present(&names)).await?;
        sandboxes.retain(|_, ports| !ports.iter().any(|port| present.contains(&port.name)));
        for sandbox in sandboxes.into_keys() {
            info!(sandbox, "removing the ports of a pod that ended");
            self.del(&sandbox).await?;
        }
        Ok(())
    }
}
